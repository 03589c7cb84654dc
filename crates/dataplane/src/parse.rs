//! First looks at a packet.

use engine::Drop;
use frame::BURST;
use wire::{L3L4, Malformed, Outer, ethertype, fast};

use crate::drops;
use crate::forward::PortView;

/// Parsed headers of each user packet: written once, by the first stage.
pub struct UserIp(pub [L3L4; BURST]);

impl Default for UserIp {
    fn default() -> Self {
        Self([L3L4::default(); BURST])
    }
}

/// A lane with user packets in it.
pub trait HasIp {
    /// The headers of packet `i`.
    fn ip(&self, i: usize) -> &L3L4;
    /// The headers of packet `i`, to fill in.
    fn ip_mut(&mut self, i: usize) -> &mut L3L4;
}

/// The drop reason for bytes that are no packet.
#[inline]
pub fn malformed(why: Malformed) -> Drop {
    match why {
        Malformed::BadHeaderChecksum => drops::HEADER_CHECKSUM,
        _ => drops::MALFORMED,
    }
}

/// Checks that a frame is meant for this port (hardware address or multicast, VLAN) and finds its network layer:
/// (type, offset).
#[inline]
pub fn link(frame: &[u8], port: &PortView) -> Result<(u16, u16), Drop> {
    let outer = Outer::parse(frame).map_err(malformed)?;
    let vlan = outer.outer_vlan().map(|tag| tag.id());
    // Priority tags (VLAN 0) belong to the untagged network (IEEE 802.1Q, 9.6).
    if vlan.filter(|id| *id != 0) != port.vlan || outer.tags > 1 {
        return Err(drops::WRONG_VLAN);
    }
    let to_us = frame[..6] == port.mac || port.mac == [0; 6];
    if !to_us && !is_for_all(frame, &outer) {
        return Err(if frame[0] & 1 == 1 { drops::MULTICAST } else { drops::NOT_FOR_US });
    }
    Ok((outer.ethertype, outer.l3))
}

/// What stands behind a link header.
pub enum Network {
    /// An IP packet with these headers.
    Ip(L3L4),
    /// A question for, or an answer of, a hardware address.
    Arp,
}

/// Reads the network layer that the link header announced: IP, or ARP for the slow path; nothing else is for us.
#[inline]
pub fn network(kind: u16, packet: &[u8]) -> Result<Network, Drop> {
    match kind {
        ethertype::IP4 => L3L4::parse4(packet).map(Network::Ip).map_err(malformed),
        ethertype::IP6 => L3L4::parse6(packet).map(Network::Ip).map_err(malformed),
        ethertype::ARP => Ok(Network::Arp),
        _ => Err(drops::ETHER_TYPE),
    }
}

/// Whether a frame is to a group that we listen to: ARP, or IPv6 multicast such as neighbour discovery. A packet to one
/// host that came as a link-layer broadcast is not to be forwarded (RFC 1812, 5.3.4).
#[cold]
fn is_for_all(frame: &[u8], outer: &Outer) -> bool {
    let multicast6 = || fast::be8(frame, usize::from(outer.l3) + L3L4::V6_DST) == Some(0xff);
    frame[0] & 1 == 1
        && match outer.ethertype {
            ethertype::IP4 => false,
            ethertype::IP6 => multicast6(),
            _ => true,
        }
}

/// A port's own addresses in the form the usual packet is compared with.
pub struct Usual<'a> {
    port: &'a PortView,
    mac: u64,
    mac_mask: u64,
    address: u32,
}

/// The six bytes of a hardware address in a word of the first eight of a frame.
const MAC: u64 = u64::from_ne_bytes([0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0]);

impl<'a> Usual<'a> {
    /// For packets that came in by `port`. None is usual on a tagged port, nor on one without IPv4 address.
    pub fn new(port: &'a PortView) -> Self {
        let [a, b, c, d, e, f] = port.mac;
        let mac = u64::from_ne_bytes([a, b, c, d, e, f, 0, 0]);
        let mac_mask = if mac == 0 { 0 } else { MAC };
        let mac = if port.vlan.is_some() || port.v4.is_empty() { !0 } else { mac };
        Self { port, mac, mac_mask, address: port.v4.first().map_or(0, |(mine, _)| *mine) }
    }

    /// Whether the frame is IPv4 without tag and sent to the port's own hardware address: what [`link`] would accept
    /// with its network layer at [`Usual::L3`].
    #[inline(always)]
    pub fn is_link(&self, frame: &[u8]) -> bool {
        let Some(head) = frame.first_chunk::<14>() else { return false };
        let to = u64::from_ne_bytes(fast::array(head, 0).unwrap_or_default());
        to & self.mac_mask == self.mac && head[12..] == ethertype::IP4.to_be_bytes()
    }

    /// Where the network layer of a usual packet is.
    pub const L3: usize = 14;

    /// Whether the address is one of the port's own.
    #[inline(always)]
    pub fn is_mine(&self, address: u32) -> bool {
        address == self.address || self.port.v4.len() > 1 && self.port.is_mine4(address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_usual_is_accepted_by_the_general_parser_too() {
        let mac = [2, 0, 0, 0, 0, 9];
        let port = |mac, vlan| PortView { mac, vlan, v4: vec![(1, 8), (2, 8)], ..PortView::default() };
        let frame = |to: [u8; 6], kind: u16| [&to[..], &[4; 6], &kind.to_be_bytes(), &[0x45; 20]].concat();
        for (port, usual) in [(port(mac, None), true), (port([0; 6], None), true), (port(mac, Some(7)), false)] {
            let key = Usual::new(&port);
            assert_eq!(key.is_link(&frame(mac, ethertype::IP4)), usual);
            assert!(!key.is_link(&frame(mac, ethertype::IP6)) && !key.is_link(&frame(mac, ethertype::VLAN)));
            assert!(!key.is_link(&frame(mac, ethertype::IP4)[..13]));
            assert_eq!(key.is_link(&frame([2; 6], ethertype::IP4)), port.mac == [0; 6]);
            for frame in [frame(mac, ethertype::IP4), frame([2; 6], ethertype::IP4), frame([0xff; 6], ethertype::ARP)] {
                assert!(!key.is_link(&frame) || link(&frame, &port) == Ok((ethertype::IP4, Usual::L3 as u16)));
            }
            assert!(key.is_mine(1) && key.is_mine(2) && !key.is_mine(3));
        }
        assert!(!Usual::new(&PortView::default()).is_mine(5));
    }
}
