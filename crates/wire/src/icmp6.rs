//! ICMPv6 (RFC 4443); neighbour discovery is [`crate::ndp`].
//!
//! ```text
//! |     type      |     code      |           checksum            |  0   checksum: pseudo header included
//! |      by type: identifier and sequence, pointer, or MTU        |  4
//! |                  data, or the original packet                 |  8
//! ```

use crate::fast::part;
use crate::{Malformed, NoRoom, icmp, ip6, ndp, protocol};

pub use crate::icmp::{HEADER_LEN, Packet, field};

/// The most of the original packet an error carries: the whole stays within the smallest MTU (RFC 4443, 2.4 c).
pub const MAX_ORIGINAL: usize = ip6::MIN_MTU - ip6::HEADER_LEN - HEADER_LEN;

/// Message types; below 128 they report errors.
pub mod kind {
    /// Destination Unreachable.
    pub const UNREACHABLE: u8 = 1;
    /// Packet Too Big.
    pub const TOO_BIG: u8 = 2;
    pub const TIME_EXCEEDED: u8 = 3;
    pub const PARAMETER_PROBLEM: u8 = 4;
    pub const ECHO_REQUEST: u8 = 128;
    pub const ECHO_REPLY: u8 = 129;
    pub const ROUTER_SOLICIT: u8 = 133;
    pub const ROUTER_ADVERT: u8 = 134;
    pub const NEIGHBOUR_SOLICIT: u8 = 135;
    pub const NEIGHBOUR_ADVERT: u8 = 136;
}

/// Codes of Destination Unreachable (RFC 4443, 3.1).
pub mod unreachable {
    pub const NO_ROUTE: u8 = 0;
    /// Filtered by an administrator.
    pub const PROHIBITED: u8 = 1;
    /// The host does not answer.
    pub const ADDRESS: u8 = 3;
    /// Nobody listens on the port.
    pub const PORT: u8 = 4;
    /// The source address fails the ingress policy.
    pub const SOURCE_POLICY: u8 = 5;
}

/// Whether a message of this type reports an error; errors are never sent about errors (RFC 4443, 2.4 e).
#[inline]
pub const fn is_error(kind: u8) -> bool {
    kind < 128
}

/// A message as values; data are borrowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repr<'a> {
    EchoRequest {
        ident: u16,
        /// Sequence number.
        seq: u16,
        /// Copied into the answer.
        data: &'a [u8],
    },
    EchoReply {
        ident: u16,
        /// Sequence number.
        seq: u16,
        /// Copied from the request.
        data: &'a [u8],
    },
    /// Destination Unreachable.
    Unreachable {
        /// Why, see [`mod@unreachable`].
        code: u8,
        /// The front of the packet this is about.
        original: &'a [u8],
    },
    /// Packet Too Big.
    TooBig {
        /// The next hop's MTU, in bytes.
        mtu: u32,
        /// The front of the packet this is about.
        original: &'a [u8],
    },
    TimeExceeded {
        /// 0: in transit; 1: during reassembly.
        code: u8,
        /// The front of the packet this is about.
        original: &'a [u8],
    },
    ParameterProblem {
        /// 0: wrong field; 1: unknown next header; 2: unknown option (RFC 4443, 3.4).
        code: u8,
        /// The offending byte's offset.
        pointer: u32,
        /// The front of the packet this is about.
        original: &'a [u8],
    },
    /// Neighbour discovery.
    Ndp(ndp::Repr),
}

impl<'a> Repr<'a> {
    /// Read a message that came behind the header `ip`, its checksum checked and, for neighbour discovery, the hop
    /// limit of 255 (RFC 4861, 6.1 and 7.1). Other types are refused as [`Malformed::BadType`].
    pub fn parse(ip: &ip6::Repr, message: &'a [u8]) -> Result<Repr<'a>, Malformed> {
        let p = Packet::new_checked(message)?;
        if !p.is_checksum_right(pseudo(ip, message.len())) {
            return Err(Malformed::BadChecksum);
        }
        let (code, data) = (p.code(), part(message, HEADER_LEN, usize::MAX));
        match p.kind() {
            kind::ECHO_REQUEST => Ok(Repr::EchoRequest { ident: p.ident(), seq: p.seq(), data }),
            kind::ECHO_REPLY => Ok(Repr::EchoReply { ident: p.ident(), seq: p.seq(), data }),
            kind::UNREACHABLE => Ok(Repr::Unreachable { code, original: data }),
            kind::TOO_BIG => Ok(Repr::TooBig { mtu: p.rest(), original: data }),
            kind::TIME_EXCEEDED => Ok(Repr::TimeExceeded { code, original: data }),
            kind::PARAMETER_PROBLEM => Ok(Repr::ParameterProblem { code, pointer: p.rest(), original: data }),
            kind::ROUTER_SOLICIT..=kind::NEIGHBOUR_ADVERT if ip.hop_limit != 255 => Err(Malformed::BadHopLimit),
            kind::ROUTER_SOLICIT..=kind::NEIGHBOUR_ADVERT => ndp::Repr::parse(message).map(Repr::Ndp),
            _ => Err(Malformed::BadType),
        }
    }

    /// Type, code, the second word, and what follows; an original is cut to [`MAX_ORIGINAL`].
    fn parts(&self) -> (u8, u8, u32, &'a [u8]) {
        let echo = |ident: u16, seq: u16| u32::from(ident) << 16 | u32::from(seq);
        let cut = |original: &'a [u8]| part(original, 0, MAX_ORIGINAL);
        match *self {
            Repr::EchoRequest { ident, seq, data } => (kind::ECHO_REQUEST, 0, echo(ident, seq), data),
            Repr::EchoReply { ident, seq, data } => (kind::ECHO_REPLY, 0, echo(ident, seq), data),
            Repr::Unreachable { code, original } => (kind::UNREACHABLE, code, 0, cut(original)),
            Repr::TooBig { mtu, original } => (kind::TOO_BIG, 0, mtu, cut(original)),
            Repr::TimeExceeded { code, original } => (kind::TIME_EXCEEDED, code, 0, cut(original)),
            Repr::ParameterProblem { code, pointer, original } => {
                (kind::PARAMETER_PROBLEM, code, pointer, cut(original))
            }
            Repr::Ndp(_) => (0, 0, 0, &[]), // `emit` and `message_len` hand these over
        }
    }

    /// Bytes the whole message takes.
    pub fn message_len(&self) -> usize {
        match self {
            Repr::Ndp(ndp) => ndp.message_len(),
            _ => HEADER_LEN + self.parts().3.len(),
        }
    }

    /// Write the whole message to the front of `out`, its checksum for the addresses of `ip`; returns its length.
    pub fn emit(&self, ip: &ip6::Repr, out: &mut [u8]) -> Result<usize, NoRoom> {
        let len = self.message_len();
        let out = out.get_mut(..len).ok_or(NoRoom)?;
        if let Repr::Ndp(ndp) = self {
            ndp.emit(out)?;
        } else {
            let (kind, code, rest, data) = self.parts();
            icmp::put(out, kind, code, rest, data)?;
        }
        Packet::new_checked(out).map_err(|_| NoRoom)?.fill_checksum(pseudo(ip, len));
        Ok(len)
    }
}

fn pseudo(ip: &ip6::Repr, len: usize) -> u16 {
    ip.pseudo(protocol::ICMP6, len.min(u32::MAX as usize) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::net::Ipv6Addr;
    use proptest::prelude::*;

    fn loopback(hop_limit: u8) -> ip6::Repr {
        ip6::Repr {
            src: Ipv6Addr::LOCALHOST,
            dst: Ipv6Addr::LOCALHOST,
            next_header: protocol::ICMP6,
            payload_len: 0,
            hop_limit,
            traffic_class: 0,
            flow_label: 0,
        }
    }

    /// The sum of the pseudo header is 1 + 1 + 58 + 12 = 0x48.
    const PING: [u8; 12] = [128, 0, 0x8e, 0xb1, 0x12, 0x34, 0, 1, b'p', b'i', b'n', b'g'];

    #[test]
    fn a_ping_both_ways() {
        let (ip, repr) = (loopback(64), Repr::EchoRequest { ident: 0x1234, seq: 1, data: b"ping" });
        let mut out = [0xee; 12];
        assert_eq!(repr.emit(&ip, &mut out), Ok(12));
        assert_eq!(out, PING);
        assert_eq!(Repr::parse(&ip, &PING), Ok(repr));
        assert_eq!(repr.emit(&ip, &mut out[..11]), Err(NoRoom));
        let other = ip6::Repr { src: Ipv6Addr::UNSPECIFIED, ..ip };
        assert_eq!(Repr::parse(&other, &PING), Err(Malformed::BadChecksum));
        assert_eq!(Repr::parse(&ip, &PING[..7]), Err(Malformed::Short));
    }

    #[test]
    fn errors_stay_within_the_smallest_mtu() {
        let mut out = [0xee; 1500];
        let repr = Repr::TooBig { mtu: 1400, original: &[0x60; 1400] };
        assert_eq!(repr.emit(&loopback(64), &mut out), Ok(1240));
        assert_eq!(out[4..8], [0, 0, 0x05, 0x78]);
        assert!(is_error(out[0]) && !is_error(128));
    }

    #[test]
    fn neighbour_discovery_does_not_cross_routers() {
        let repr = Repr::Ndp(ndp::Repr::RouterSolicit { source: None });
        let mut out = [0; 8];
        repr.emit(&loopback(255), &mut out).unwrap();
        assert_eq!(Repr::parse(&loopback(255), &out), Ok(repr));
        assert_eq!(Repr::parse(&loopback(254), &out), Err(Malformed::BadHopLimit));
    }

    proptest! {
        #[test]
        fn what_is_emitted_is_parsed(which in 0..6, a: u16, b: u16, c: u32, code: u8, src: u128, data in prop::collection::vec(any::<u8>(), 0..99)) {
            let data = &data[..];
            let repr = match which {
                0 => Repr::EchoRequest { ident: a, seq: b, data },
                1 => Repr::EchoReply { ident: a, seq: b, data },
                2 => Repr::Unreachable { code, original: data },
                3 => Repr::TooBig { mtu: c, original: data },
                4 => Repr::TimeExceeded { code, original: data },
                _ => Repr::ParameterProblem { code, pointer: c, original: data },
            };
            let ip = ip6::Repr { src: src.into(), ..loopback(64) };
            let mut out = [0xee; 120];
            let len = repr.emit(&ip, &mut out).unwrap();
            prop_assert_eq!(len, repr.message_len());
            prop_assert_eq!(Repr::parse(&ip, &out[..len]), Ok(repr));
        }
    }
}
