//! ICMP as a router speaks it: errors about a packet, and echo replies (RFC 792, RFC 1812 4.3; RFC 4443).
//!
//! The builders write a complete IP packet. They do not ask whether it may be sent: call [`may_answer`] first, and
//! a [`crate::limit`] (RFC 1812, 4.3.2.8; RFC 4443, 2.4(f)).

use std::net::{Ipv4Addr, Ipv6Addr};

use wire::{checksum, fast, ip6, protocol};

mod echo;
mod may;
mod told;

pub use echo::echo_reply;
pub use may::may_answer;
pub use told::Told;

/// The longest ICMPv4 error, in bytes (RFC 1812, 4.3.2.3).
pub const MAX_ERROR4: usize = 576;
/// The longest ICMPv6 error, in bytes: the least MTU of IPv6 (RFC 4443, 2.4(c)).
pub const MAX_ERROR6: usize = ip6::MIN_MTU;

/// Hop limit of what we send (RFC 1700's default).
const HOPS: u8 = 64;
/// Precedence "internetwork control" for errors (RFC 1812, 4.3.2.5).
const ERROR_TOS: u8 = 0xc0;
/// Length of an ICMP header, either version.
const ICMP_LEN: usize = 8;
const HEADER4: usize = 20;

/// What went wrong with an IPv4 packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error4 {
    /// Its time to live ran out here (type 11, code 0).
    TimeExceeded,
    /// No route to its destination (type 3, code 0).
    NetUnreachable,
    /// The next hop does not answer (type 3, code 1).
    HostUnreachable,
    /// Nothing here speaks its protocol (type 3, code 2).
    ProtocolUnreachable,
    /// Nothing here listens on its port (type 3, code 3).
    PortUnreachable,
    /// It is too long for a link of this MTU, in bytes, and not to be fragmented (type 3, code 4; RFC 1191).
    FragmentationNeeded {
        /// The largest packet that fits.
        mtu: u16,
    },
    /// A rule forbids it (type 3, code 13).
    Prohibited,
}

impl Error4 {
    /// Type, code and the header's last four bytes.
    const fn fields(self) -> (u8, u8, u32) {
        match self {
            Error4::TimeExceeded => (11, 0, 0),
            Error4::NetUnreachable => (3, 0, 0),
            Error4::HostUnreachable => (3, 1, 0),
            Error4::ProtocolUnreachable => (3, 2, 0),
            Error4::PortUnreachable => (3, 3, 0),
            Error4::FragmentationNeeded { mtu } => (3, 4, mtu as u32),
            Error4::Prohibited => (3, 13, 0),
        }
    }
}

/// What went wrong with an IPv6 packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error6 {
    /// Its hop limit ran out here (type 3, code 0).
    TimeExceeded,
    /// It is too long for a link of this MTU, in bytes (type 2).
    PacketTooBig {
        /// The largest packet that fits; below 1280 only towards a translator (RFC 8200, 5).
        mtu: u32,
    },
    /// No route to its destination (type 1, code 0).
    NoRoute,
    /// A rule forbids it (type 1, code 1).
    Prohibited,
    /// The next hop does not answer (type 1, code 3).
    AddressUnreachable,
    /// Nothing here listens on its port (type 1, code 4).
    PortUnreachable,
    /// Its source address is not its sender's (type 1, code 5).
    SourcePolicy,
}

impl Error6 {
    const fn fields(self) -> (u8, u8, u32) {
        match self {
            Error6::TimeExceeded => (3, 0, 0),
            Error6::PacketTooBig { mtu } => (2, 0, mtu),
            Error6::NoRoute => (1, 0, 0),
            Error6::Prohibited => (1, 1, 0),
            Error6::AddressUnreachable => (1, 3, 0),
            Error6::PortUnreachable => (1, 4, 0),
            Error6::SourcePolicy => (1, 5, 0),
        }
    }
}

/// Writes to `out` the IPv4 packet that tells the sender of `about` what happened to it; returns its length.
///
/// `from` is ours. As much of `about` is quoted as fits `out` and [`MAX_ERROR4`] bytes in all, as it stands: a time to
/// live already counted down is quoted so. `None` if `about` is no IPv4 packet, or `out` has no room for the headers
/// and the eight bytes of payload that must be quoted (RFC 792).
pub fn error4(out: &mut [u8], from: Ipv4Addr, what: Error4, about: &[u8]) -> Option<usize> {
    let head: &[u8; HEADER4] = about.first_chunk()?;
    let (header, total) = (usize::from(head[0] & 15) * 4, usize::from(u16::from_be_bytes([head[2], head[3]])));
    if head[0] >> 4 != 4 || header < HEADER4 || total < header || total > about.len() {
        return None;
    }
    let room = out.len().min(MAX_ERROR4).checked_sub(HEADER4 + ICMP_LEN)?;
    let quoted = total.min(room);
    if quoted < total.min(header + 8) {
        return None;
    }
    let len = HEADER4 + ICMP_LEN + quoted;
    let out = out.get_mut(..len)?;
    let (kind, code, rest) = what.fields();
    let [a, b, c, d] = rest.to_be_bytes();
    let (ip, icmp) = out.split_at_mut(HEADER4);
    icmp[..ICMP_LEN].copy_from_slice(&[kind, code, 0, 0, a, b, c, d]);
    icmp[ICMP_LEN..].copy_from_slice(&about[..quoted]);
    let check = checksum::of(icmp);
    fast::put16(icmp, 2, check)?;

    let [l0, l1] = (len as u16).to_be_bytes(); // at most 576
    // Not to be fragmented, so its identification need not be unique (RFC 6864, 4.1).
    ip[..12].copy_from_slice(&[0x45, ERROR_TOS, l0, l1, 0, 0, 0x40, 0, HOPS, protocol::ICMP4, 0, 0]);
    ip[12..16].copy_from_slice(&from.octets());
    ip[16..20].copy_from_slice(&head[12..16]);
    let check = checksum::of(ip);
    fast::put16(ip, 10, check)?;
    Some(len)
}

/// As [`error4`], for IPv6: at most [`MAX_ERROR6`] bytes in all. `None` if `about` is no IPv6 packet or `out` has no
/// room for the headers and the quoted packet's fixed header.
pub fn error6(out: &mut [u8], from: Ipv6Addr, what: Error6, about: &[u8]) -> Option<usize> {
    let packet = ip6::Packet::new_checked(about).ok()?;
    let total = packet.total_len();
    let room = out.len().min(MAX_ERROR6).checked_sub(ip6::HEADER_LEN + ICMP_LEN)?;
    let quoted = total.min(room);
    if quoted < ip6::HEADER_LEN {
        return None;
    }
    let payload = ICMP_LEN + quoted;
    let out = out.get_mut(..ip6::HEADER_LEN + payload)?;
    let ip = ip6::Repr {
        src: from,
        dst: packet.src(),
        next_header: protocol::ICMP6,
        payload_len: payload as u16, // at most 1240
        hop_limit: HOPS,
        traffic_class: 0,
        flow_label: 0,
    };
    ip.emit(out).ok()?;
    let (kind, code, rest) = what.fields();
    let [a, b, c, d] = rest.to_be_bytes();
    let icmp = &mut out[ip6::HEADER_LEN..];
    icmp[..ICMP_LEN].copy_from_slice(&[kind, code, 0, 0, a, b, c, d]);
    icmp[ICMP_LEN..].copy_from_slice(&about[..quoted]);
    let sum = checksum::combine(ip.pseudo(protocol::ICMP6, payload as u32), checksum::sum(icmp));
    fast::put16(icmp, 2, checksum::finish(sum))?;
    Some(ip6::HEADER_LEN + payload)
}

/// Gives an IP packet of our own one hop more: the forwarding pipeline it leaves by will take one, as from any packet.
pub fn one_more_hop(ip: &mut [u8]) -> Option<()> {
    match fast::be8(ip, 0)? >> 4 {
        4 => {
            let word = fast::be16(ip, 8)?;
            let (more, check) = (word.wrapping_add(0x0100), fast::be16(ip, 10)?);
            fast::put16(ip, 10, checksum::adjust16(check, word, more))?;
            fast::put16(ip, 8, more)
        }
        _ => fast::put8(ip, ip6::field::HOPS, fast::be8(ip, ip6::field::HOPS)?.wrapping_add(1)),
    }
}

#[cfg(test)]
mod tests;
