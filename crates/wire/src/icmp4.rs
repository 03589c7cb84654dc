//! ICMP for IPv4 (RFC 792; RFC 1191, 4; RFC 1812, 4.3).
//!
//! ```text
//! |     type      |     code      |           checksum            |  0
//! |      by type: identifier and sequence, pointer, or MTU        |  4
//! |                  data, or the original datagram               |  8
//! ```

use crate::fast::{at, at8, at32, part};
use crate::{Malformed, NoRoom, icmp};

pub use crate::icmp::{HEADER_LEN, Packet, field};

/// The most of the original datagram an error carries: the whole packet stays within 576 bytes (RFC 1812, 4.3.2.3).
pub const MAX_ORIGINAL: usize = 576 - 20 - HEADER_LEN;

/// Message types.
pub mod kind {
    pub const ECHO_REPLY: u8 = 0;
    /// Destination Unreachable.
    pub const UNREACHABLE: u8 = 3;
    pub const REDIRECT: u8 = 5;
    pub const ECHO_REQUEST: u8 = 8;
    pub const TIME_EXCEEDED: u8 = 11;
    pub const PARAMETER_PROBLEM: u8 = 12;
}

/// Codes of Destination Unreachable (RFC 792; RFC 1812, 5.2.7.1).
pub mod unreachable {
    /// No route.
    pub const NET: u8 = 0;
    /// The host does not answer.
    pub const HOST: u8 = 1;
    /// The host lacks the protocol.
    pub const PROTOCOL: u8 = 2;
    /// Nobody listens on the port.
    pub const PORT: u8 = 3;
    /// Too big, and not to be fragmented.
    pub const TOO_BIG: u8 = 4;
    /// Filtered by an administrator.
    pub const PROHIBITED: u8 = 13;
}

/// Whether a message of this type reports an error; errors are never sent about errors (RFC 1812, 4.3.2.7).
#[inline]
pub const fn is_error(kind: u8) -> bool {
    matches!(kind, kind::UNREACHABLE | 4 | kind::REDIRECT | kind::TIME_EXCEEDED | kind::PARAMETER_PROBLEM)
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
        /// The next hop's MTU in bytes, for [`unreachable::TOO_BIG`]; 0 otherwise (RFC 1191, 4).
        mtu: u16,
        /// The front of the datagram this is about.
        original: &'a [u8],
    },
    TimeExceeded {
        /// 0: in transit; 1: during reassembly.
        code: u8,
        /// The front of the datagram this is about.
        original: &'a [u8],
    },
    ParameterProblem {
        /// 0: the pointer says where.
        code: u8,
        /// The offending byte's offset.
        pointer: u8,
        /// The front of the datagram this is about.
        original: &'a [u8],
    },
}

impl<'a> Repr<'a> {
    /// Read a message, its checksum checked; other types are refused as [`Malformed::BadType`].
    pub fn parse(message: &'a [u8]) -> Result<Repr<'a>, Malformed> {
        let p = Packet::new_checked(message)?;
        if !p.is_checksum_right(icmp::NO_PSEUDO_HEADER) {
            return Err(Malformed::BadChecksum);
        }
        let (code, data) = (p.code(), part(message, HEADER_LEN, usize::MAX));
        match p.kind() {
            kind::ECHO_REQUEST => Ok(Repr::EchoRequest { ident: p.ident(), seq: p.seq(), data }),
            kind::ECHO_REPLY => Ok(Repr::EchoReply { ident: p.ident(), seq: p.seq(), data }),
            kind::UNREACHABLE => {
                let mtu = if code == unreachable::TOO_BIG { p.seq() } else { 0 };
                Ok(Repr::Unreachable { code, mtu, original: data })
            }
            kind::TIME_EXCEEDED => Ok(Repr::TimeExceeded { code, original: data }),
            kind::PARAMETER_PROBLEM => {
                Ok(Repr::ParameterProblem { code, pointer: at8(message, field::REST), original: data })
            }
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
            Repr::Unreachable { code, mtu, original } => {
                let mtu = if code == unreachable::TOO_BIG { mtu } else { 0 };
                (kind::UNREACHABLE, code, u32::from(mtu), cut(original))
            }
            Repr::TimeExceeded { code, original } => (kind::TIME_EXCEEDED, code, 0, cut(original)),
            Repr::ParameterProblem { code, pointer, original } => {
                (kind::PARAMETER_PROBLEM, code, u32::from(pointer) << 24, cut(original))
            }
        }
    }

    /// Bytes the whole message takes.
    pub fn message_len(&self) -> usize {
        HEADER_LEN + self.parts().3.len()
    }

    /// Write the whole message and its checksum to the front of `out`; returns its length.
    pub fn emit(&self, out: &mut [u8]) -> Result<usize, NoRoom> {
        let (kind, code, rest, data) = self.parts();
        let len = HEADER_LEN + data.len();
        let out = out.get_mut(..len).ok_or(NoRoom)?;
        icmp::put(out, kind, code, rest, data)?;
        Packet::new_checked(out).map_err(|_| NoRoom)?.fill_checksum(icmp::NO_PSEUDO_HEADER);
        Ok(len)
    }
}

/// The second word of the message at the front of `bytes`, whatever its type makes of it.
#[inline]
pub fn rest(bytes: &[u8]) -> u32 {
    at32(bytes, field::REST)
}

/// The identifier and sequence number of the echo at the front of `bytes`; `None` for any other message.
#[inline]
pub fn echo_of(bytes: &[u8]) -> Option<(u16, u16)> {
    let head: &[u8; HEADER_LEN] = bytes.first_chunk()?;
    let [a, b, c, d] = at(head, field::REST);
    matches!(head[0], kind::ECHO_REQUEST | kind::ECHO_REPLY)
        .then_some((u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PING: [u8; 12] = [8, 0, 0x06, 0xfa, 0x12, 0x34, 0, 1, b'p', b'i', b'n', b'g'];

    #[test]
    fn a_ping_both_ways() {
        let repr = Repr::EchoRequest { ident: 0x1234, seq: 1, data: b"ping" };
        let mut out = [0xee; 12];
        assert_eq!(repr.emit(&mut out), Ok(12));
        assert_eq!(out, PING);
        assert_eq!(Repr::parse(&PING), Ok(repr));
        assert_eq!(echo_of(&PING), Some((0x1234, 1)));
        assert_eq!(repr.emit(&mut out[..11]), Err(NoRoom));
        let mut bad = PING;
        bad[11] = 0;
        assert_eq!(Repr::parse(&bad), Err(Malformed::BadChecksum));
        assert_eq!(Repr::parse(&bad[..7]), Err(Malformed::Short));
    }

    #[test]
    fn too_big_names_the_mtu() {
        let mut out = [0xee; 700];
        let repr = Repr::Unreachable { code: unreachable::TOO_BIG, mtu: 1400, original: &[0x45; 600] };
        assert_eq!(repr.emit(&mut out), Ok(556));
        assert_eq!((out[0], out[1], &out[4..8]), (3, 4, &[0, 0, 0x05, 0x78][..]));
        let back = Repr::Unreachable { code: 4, mtu: 1400, original: &[0x45; MAX_ORIGINAL] };
        assert_eq!(Repr::parse(&out[..556]), Ok(back));
        assert!(is_error(3) && !is_error(8) && !is_error(0));
    }

    proptest! {
        #[test]
        fn what_is_emitted_is_parsed(which in 0..5, a: u16, b: u16, code: u8, data in prop::collection::vec(any::<u8>(), 0..99)) {
            let data = &data[..];
            let repr = match which {
                0 => Repr::EchoRequest { ident: a, seq: b, data },
                1 => Repr::EchoReply { ident: a, seq: b, data },
                2 => Repr::Unreachable { code, mtu: if code == 4 { a } else { 0 }, original: data },
                3 => Repr::TimeExceeded { code, original: data },
                _ => Repr::ParameterProblem { code, pointer: a as u8, original: data },
            };
            let mut out = [0xee; 120];
            let len = repr.emit(&mut out).unwrap();
            prop_assert_eq!(len, repr.message_len());
            prop_assert_eq!(Repr::parse(&out[..len]), Ok(repr));
            let _ = rest(&out);
        }
    }
}
