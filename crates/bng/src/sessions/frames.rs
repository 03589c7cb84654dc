//! Frames of DHCP and neighbour discovery: read as they came by a line, and written for it.

use std::net::{Ipv4Addr, Ipv6Addr};

use wire::{Mac, NoRoom, Outer, ethertype, fast, icmp6, ip4, ip6, ndp, protocol, udp};

/// All nodes of a link (RFC 4291, 2.7.1).
const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);

/// Where on a port a frame came from, and how one goes back: the tags as they were received, priorities included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tags {
    bytes: [u8; 8],
    len: u8,
}

impl Tags {
    /// No tags.
    pub const NONE: Self = Self { bytes: [0; 8], len: 0 };

    /// Of a frame.
    pub fn of(frame: &[u8]) -> Self {
        let len = Outer::parse(frame).map_or(0, |outer| usize::from(outer.tags) * 4);
        let mut bytes = [0; 8];
        if let (Some(to), Some(from)) = (bytes.get_mut(..len), frame.get(12..12 + len)) {
            to.copy_from_slice(from);
        }
        Self { bytes, len: len as u8 } // 0, 4 or 8
    }

    /// Types and identifiers as in a frame.
    pub fn octets(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.len)).unwrap_or_default()
    }

    /// Of [`octets`](Self::octets); longer ones are cut off.
    pub fn of_octets(octets: &[u8]) -> Self {
        let mut bytes = [0; 8];
        let len = octets.len().min(8);
        bytes[..len].copy_from_slice(&octets[..len]);
        Self { bytes, len: len as u8 } // 8 at most
    }
}

/// The link of a frame to be written.
#[derive(Clone, Copy, Debug)]
pub struct Link {
    /// The gateway's hardware address.
    pub from: Mac,
    /// Whom it is for.
    pub to: Mac,
    /// VLAN tags of the frame, outermost first.
    pub tags: Tags,
}

/// What a line's frame carries, as far as sessions go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carried<'a> {
    /// A UDP payload over IPv4, and its source.
    Dhcp4(Ipv4Addr, &'a [u8]),
    /// A UDP payload over IPv6, and its source.
    Dhcp6(Ipv6Addr, &'a [u8]),
    /// A router solicitation.
    Solicitation,
}

/// Reads a frame that a worker has found to be DHCP or neighbour discovery. None: it is neither, or damaged.
pub fn read(frame: &[u8]) -> Option<Carried<'_>> {
    let outer = Outer::parse(frame).ok()?;
    let packet = frame.get(usize::from(outer.l3)..)?;
    match outer.ethertype {
        ethertype::IP4 => {
            let ip = ip4::Packet::new_checked(packet).ok()?;
            if ip.protocol() != protocol::UDP || ip.more_fragments() || ip.fragment_offset() != 0 {
                return None;
            }
            let repr = ip4::Repr::parse(packet).ok()?;
            let from = ip.header_len();
            let datagram = packet.get(from..usize::from(ip.total_len()))?;
            let udp = udp::Packet::new_checked(datagram).ok()?;
            // No checksum is allowed over IPv4 (RFC 768).
            let right = udp.checksum() == 0 || udp.is_checksum_right(repr.pseudo(udp.length()));
            let payload = datagram.get(8..usize::from(udp.length())).filter(|_| right)?;
            Some(Carried::Dhcp4(repr.src, payload))
        }
        ethertype::IP6 => {
            let repr = ip6::Repr::parse(packet).ok()?;
            let body = packet.get(40..40 + usize::from(repr.payload_len))?;
            if repr.next_header == protocol::UDP {
                let udp = udp::Packet::new_checked(body).ok()?;
                if !udp.is_checksum_right(repr.pseudo(protocol::UDP, udp.length().into())) {
                    return None;
                }
                return body.get(8..usize::from(udp.length())).map(|payload| Carried::Dhcp6(repr.src, payload));
            }
            match icmp6::Repr::parse(&repr, body).ok()? {
                icmp6::Repr::Ndp(ndp::Repr::RouterSolicit { .. }) => Some(Carried::Solicitation),
                _ => None,
            }
        }
        _ => None,
    }
}

/// The header of a frame with room for `len` bytes behind it, and where they begin.
fn begin(link: &Link, kind: u16, len: usize) -> (Vec<u8>, usize) {
    let tags = link.tags.octets();
    let mut out = Vec::with_capacity(14 + tags.len() + len);
    out.extend_from_slice(&link.to.0);
    out.extend_from_slice(&link.from.0);
    out.extend_from_slice(tags);
    out.extend_from_slice(&kind.to_be_bytes());
    let at = out.len();
    out.resize(at + len, 0);
    (out, at)
}

/// A datagram over IPv4.
pub(crate) fn datagram4(
    link: &Link,
    (from, from_port): (Ipv4Addr, u16),
    (to, to_port): (Ipv4Addr, u16),
    payload: &[u8],
) -> Option<Vec<u8>> {
    let len = u16::try_from(8 + payload.len()).ok()?;
    let (mut frame, at) = begin(link, ethertype::IP4, 20 + usize::from(len));
    let mut write = || {
        // DHCP servers' packets have the precedence of internetwork control, and may be cut on the way.
        let ip = ip4::Repr { dont_fragment: false, tos: 0xc0, ..ip4::Repr::new(from, to, protocol::UDP, len) };
        let udp = udp::Repr { src_port: from_port, dst_port: to_port, payload_len: len - 8 };
        let packet = frame.get_mut(at..).ok_or(NoRoom)?;
        let head = ip.emit(packet)?;
        let body = packet.get_mut(head..).ok_or(NoRoom)?;
        udp.emit(body)?;
        body.get_mut(8..).ok_or(NoRoom)?.copy_from_slice(payload);
        udp::Packet::new_checked(body).map_err(|_| NoRoom)?.fill_checksum(ip.pseudo(len));
        Ok::<_, NoRoom>(())
    };
    write().ok()?;
    Some(frame)
}

/// A datagram over IPv6.
pub fn datagram6(
    link: &Link,
    (from, from_port): (Ipv6Addr, u16),
    (to, to_port): (Ipv6Addr, u16),
    payload: &[u8],
) -> Option<Vec<u8>> {
    let len = u16::try_from(8 + payload.len()).ok()?;
    let (mut frame, at) = begin(link, ethertype::IP6, 40 + usize::from(len));
    let mut write = || {
        let ip = header6(from, to, protocol::UDP, len, 64);
        let udp = udp::Repr { src_port: from_port, dst_port: to_port, payload_len: len - 8 };
        let packet = frame.get_mut(at..).ok_or(NoRoom)?;
        ip.emit(packet)?;
        let body = packet.get_mut(40..).ok_or(NoRoom)?;
        udp.emit(body)?;
        body.get_mut(8..).ok_or(NoRoom)?.copy_from_slice(payload);
        let pseudo = ip.pseudo(protocol::UDP, len.into());
        udp::Packet::new_checked(body).map_err(|_| NoRoom)?.fill_checksum(pseudo);
        Ok::<_, NoRoom>(())
    };
    write().ok()?;
    Some(frame)
}

fn header6(src: Ipv6Addr, dst: Ipv6Addr, next_header: u8, payload_len: u16, hop_limit: u8) -> ip6::Repr {
    ip6::Repr { src, dst, next_header, payload_len, hop_limit, traffic_class: 0xc0, flow_label: 0 }
}

/// A router advertisement to all nodes, in a frame to one of them (RFC 6085).
pub fn advertisement(link: &Link, from: Ipv6Addr, message: &ndp::Repr) -> Option<Vec<u8>> {
    let len = u16::try_from(message.message_len()).ok()?;
    let (mut frame, at) = begin(link, ethertype::IP6, 40 + usize::from(len));
    let mut write = || {
        let ip = header6(from, ALL_NODES, protocol::ICMP6, len, 255);
        let packet = frame.get_mut(at..).ok_or(NoRoom)?;
        ip.emit(packet)?;
        icmp6::Repr::Ndp(*message).emit(&ip, packet.get_mut(40..).ok_or(NoRoom)?)
    };
    write().ok()?;
    Some(frame)
}

/// A frame's source address.
pub fn source(frame: &[u8]) -> Mac {
    Mac(fast::array(frame, 6).unwrap_or_default())
}

/// The tags of a link header and its length: those towards a line that nothing was received from.
pub(crate) fn tags_of(header: &([u8; 22], u8)) -> Tags {
    header.0.get(..usize::from(header.1)).map(Tags::of).unwrap_or_default()
}
