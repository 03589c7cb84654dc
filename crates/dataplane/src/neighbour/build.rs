//! Complete Ethernet frames that ask and answer. Each builder returns the frame's length, or `None` if `out` is too
//! small: [`MAX_FRAME`] bytes are always enough. [`request`] and [`announcement`] are for who has no buffer.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use wire::ethernet::{self, Tags};
use wire::{Mac, checksum, ethertype, fast, ip6, protocol};

use super::{flag, kind, option};

/// Longer than any frame written here, in bytes.
pub const MAX_FRAME: usize = 96;

/// The least length of an Ethernet frame without its check sequence (IEEE 802.3, 4.4.2): shorter ones are padded.
const MIN_FRAME: usize = 60;

/// All nodes on the link (RFC 4291, 2.7.1).
pub const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);

/// All routers on the link (RFC 4291, 2.7.1).
const ALL_ROUTERS: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 2);

/// The group in which `address` is asked for (RFC 4291, 2.7.1).
pub const fn solicited_node(address: Ipv6Addr) -> Ipv6Addr {
    Ipv6Addr::from_bits(0xff02_0000_0000_0000_0000_0001_ff00_0000 | address.to_bits() & 0xff_ffff)
}

/// The link-local address a station makes of its own (RFC 4291, appendix A).
pub const fn link_local(mac: Mac) -> Ipv6Addr {
    let [a, b, c, d, e, f] = mac.0;
    let id = u64::from_be_bytes([a ^ 2, b, c, 0xff, 0xfe, d, e, f]);
    Ipv6Addr::from_bits(0xfe80 << 112 | id as u128)
}

/// Who sends: a port's link address and the tags its frames carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Station {
    /// The port's link address.
    pub mac: Mac,
    /// The tags its frames carry.
    pub tags: Tags,
}

impl Station {
    /// A station whose frames carry no tag.
    pub const fn untagged(mac: Mac) -> Station {
        Station { mac, tags: Tags::None }
    }

    /// Writes the Ethernet header; returns where layer 3 begins.
    fn ethernet(&self, out: &mut [u8], to: Mac, kind: u16) -> Option<usize> {
        ethernet::Repr { dst: to, src: self.mac, tags: self.tags, ethertype: kind }.emit(out).ok()
    }

    fn arp(&self, out: &mut [u8], to: Mac, message: Arp) -> Option<usize> {
        let at = self.ethernet(out, to, ethertype::ARP)?;
        let end = at + 28;
        let len = end.max(MIN_FRAME);
        out.get_mut(end..len)?.fill(0);
        // Ethernet, IPv4, six and four bytes (RFC 826).
        fast::put(out, at, [0, 1, 0x08, 0x00, 6, 4, 0, message.operation])?;
        fast::put(out, at + 8, self.mac.0)?;
        fast::put(out, at + 14, message.sender.octets())?;
        fast::put(out, at + 18, message.target_mac.0)?;
        fast::put(out, at + 24, message.target.octets())?;
        Some(len)
    }

    /// Writes Ethernet, IPv6 and the ICMPv6 message `body` (its checksum zero), then the checksum.
    fn nd(&self, out: &mut [u8], to: Mac, src: Ipv6Addr, dst: Ipv6Addr, body: &[u8]) -> Option<usize> {
        let at = self.ethernet(out, to, ethertype::IP6)?;
        let ip = ip6::Repr {
            src,
            dst,
            next_header: protocol::ICMP6,
            payload_len: u16::try_from(body.len()).ok()?,
            hop_limit: 255, // RFC 4861, 3.1
            traffic_class: 0,
            flow_label: 0,
        };
        ip.emit(out.get_mut(at..)?).ok()?;
        let at = at + ip6::HEADER_LEN;
        let end = at + body.len();
        let message = out.get_mut(at..end)?;
        message.copy_from_slice(body);
        let pseudo = ip.pseudo(protocol::ICMP6, ip.payload_len.into());
        fast::put16(message, 2, checksum::finish(checksum::combine(pseudo, checksum::sum(message))))?;
        Some(end)
    }
}

/// What differs between ARP messages.
struct Arp {
    operation: u8,
    sender: Ipv4Addr,
    target_mac: Mac,
    target: Ipv4Addr,
}

/// The frame that asks all, or `to` alone, who has `target`; none where it is not of the family of `ours`, our address.
pub fn request(us: &Station, ours: IpAddr, target: IpAddr, to: Option<Mac>) -> Option<Vec<u8>> {
    frame(|out| match (ours, target) {
        (IpAddr::V4(ours), IpAddr::V4(target)) => arp_request(out, us, ours, target, to),
        (IpAddr::V6(ours), IpAddr::V6(target)) => neighbour_solicitation(out, us, ours, target, to),
        _ => None,
    })
}

/// The frame that announces `ours` to all (RFC 5227, 3; RFC 4861, 7.2.6).
pub fn announcement(us: &Station, ours: IpAddr) -> Option<Vec<u8>> {
    frame(|out| match ours {
        IpAddr::V4(ours) => arp_announcement(out, us, ours),
        IpAddr::V6(ours) => neighbour_advertisement(out, us, ours, None, true),
    })
}

fn frame(write: impl FnOnce(&mut [u8]) -> Option<usize>) -> Option<Vec<u8>> {
    let mut frame = vec![0; MAX_FRAME];
    let len = write(&mut frame)?;
    frame.truncate(len);
    Some(frame)
}

/// Asks all, or `to` alone to see if it is still there (RFC 1122, 2.3.2.1), who has `target`; `ours` is our address.
pub fn arp_request(out: &mut [u8], us: &Station, ours: Ipv4Addr, target: Ipv4Addr, to: Option<Mac>) -> Option<usize> {
    let message = Arp { operation: 1, sender: ours, target_mac: Mac::ZERO, target };
    us.arp(out, to.unwrap_or(Mac::BROADCAST), message)
}

/// Tells all that `ours` is here (RFC 5227, 2.3): what others remember is replaced.
pub fn arp_announcement(out: &mut [u8], us: &Station, ours: Ipv4Addr) -> Option<usize> {
    arp_request(out, us, ours, ours, None)
}

/// Answers the station `to`, whose address is `to_ip` (unspecified if it probed), that `ours` is here.
pub fn arp_reply(out: &mut [u8], us: &Station, ours: Ipv4Addr, to: Mac, to_ip: Ipv4Addr) -> Option<usize> {
    us.arp(out, to, Arp { operation: 2, sender: ours, target_mac: to, target: to_ip })
}

/// Asks the target's group, or `to` alone to see if it is still there, who has `target`; `ours` is our address on
/// that link. With `ours` unspecified this detects duplicates (RFC 4862, 5.4.2).
pub fn neighbour_solicitation(
    out: &mut [u8],
    us: &Station,
    ours: Ipv6Addr,
    target: Ipv6Addr,
    to: Option<Mac>,
) -> Option<usize> {
    let group = solicited_node(target);
    let (mac, dst) = to.map_or((Mac::multicast6(group.to_bits()), group), |mac| (mac, target));
    let mut body = with_target(kind::SOLICITATION, 0, target, option::SOURCE_LINK, us.mac);
    let body = if ours.is_unspecified() { &mut body[..24] } else { &mut body[..] };
    us.nd(out, mac, ours, dst, body)
}

/// Tells that `ours` is here: `to` the station and address that asked, or all if `None` or if the address is
/// unspecified, as when a duplicate is looked for (RFC 4861, 7.2.4). What others remember is replaced.
pub fn neighbour_advertisement(
    out: &mut [u8],
    us: &Station,
    ours: Ipv6Addr,
    to: Option<(Mac, Ipv6Addr)>,
    router: bool,
) -> Option<usize> {
    let router = if router { flag::ROUTER } else { 0 };
    let to = to.filter(|(_, ip)| !ip.is_unspecified());
    let (flags, mac, dst) = match to {
        Some((mac, ip)) => (flag::OVERRIDE | flag::SOLICITED, mac, ip),
        None => (flag::OVERRIDE, Mac::multicast6(ALL_NODES.to_bits()), ALL_NODES),
    };
    let body = with_target(kind::ADVERTISEMENT, flags | router, ours, option::TARGET_LINK, us.mac);
    us.nd(out, mac, ours, dst, &body)
}

/// Asks which routers are there (RFC 4861, 4.1); `ours` is our address, or unspecified while we have none.
pub fn router_solicitation(out: &mut [u8], us: &Station, ours: Ipv6Addr) -> Option<usize> {
    let [a, b, c, d, e, f] = us.mac.0;
    let body = [kind::ROUTER_SOLICITATION, 0, 0, 0, 0, 0, 0, 0, option::SOURCE_LINK, 1, a, b, c, d, e, f];
    let body = if ours.is_unspecified() { &body[..8] } else { &body[..] };
    us.nd(out, Mac::multicast6(ALL_ROUTERS.to_bits()), ours, ALL_ROUTERS, body)
}

/// The common form of solicitation and advertisement: flags, target, one link address option.
fn with_target(kind: u8, flags: u8, target: Ipv6Addr, option: u8, mac: Mac) -> [u8; 32] {
    let mut body = [0; 32];
    body[0] = kind;
    body[4] = flags;
    body[8..24].copy_from_slice(&target.octets());
    body[24] = option;
    body[25] = 1; // in units of eight bytes
    body[26..].copy_from_slice(&mac.0);
    body
}

#[cfg(test)]
#[path = "message_tests.rs"]
mod tests;
