//! IPv6 (RFC 8200) and the walk along its extension headers (4.1 to 4.6).
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! |version| traffic class |              flow label               |  0
//! |        payload length         |  next header  |   hop limit   |  4
//! |                    source address, 16 bytes                   |  8
//! |                 destination address, 16 bytes                 | 24
//! ```

mod chain;

pub use chain::{Chain, FRAGMENT_LEN, FragmentInfo, MAX_EXTENSIONS, emit_fragment, walk};

use crate::fast::{at, at8, at16, at32, part, put, put16, put32};
use crate::{Malformed, NoRoom};
use core::net::Ipv6Addr;

/// Where the fields are, in bytes from the start of the header.
pub mod field {
    /// Version, traffic class and flow label.
    pub const FLOW: usize = 0;
    /// Payload length.
    pub const LENGTH: usize = 4;
    /// Next header.
    pub const NEXT: usize = 6;
    /// Hop limit.
    pub const HOPS: usize = 7;
    /// Source address.
    pub const SRC: usize = 8;
    /// Destination address.
    pub const DST: usize = 24;
}

/// The fixed header's length, in bytes.
pub const HEADER_LEN: usize = 40;
/// The smallest MTU a link may have, in bytes (RFC 8200, 5).
pub const MIN_MTU: usize = 1280;

/// A view of one IPv6 packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<T>(T);

impl<T: AsRef<[u8]>> Packet<T> {
    /// Check and wrap. Guarantees the fixed header, version 6 and a payload length within the bytes; what the
    /// extension headers hold is checked by [`Packet::chain`].
    pub fn new_checked(bytes: T) -> Result<Self, Malformed> {
        let b = bytes.as_ref();
        if b.len() < HEADER_LEN {
            return Err(Malformed::Short);
        }
        if b[0] >> 4 != 6 {
            return Err(Malformed::BadVersion);
        }
        if HEADER_LEN + usize::from(at16(b, field::LENGTH)) > b.len() {
            return Err(Malformed::BadLength);
        }
        Ok(Packet(bytes))
    }

    /// The bytes back.
    pub fn into_inner(self) -> T {
        self.0
    }

    fn b(&self) -> &[u8] {
        self.0.as_ref()
    }

    /// Traffic class: DSCP and ECN (RFC 2474, RFC 3168).
    pub fn traffic_class(&self) -> u8 {
        (at16(self.b(), field::FLOW) >> 4) as u8
    }

    /// Differentiated services code point, 0 to 63.
    pub fn dscp(&self) -> u8 {
        self.traffic_class() >> 2
    }

    /// Explicit congestion notification, 0 to 3.
    pub fn ecn(&self) -> u8 {
        self.traffic_class() & 3
    }

    /// Flow label, 20 bits (RFC 6437).
    pub fn flow_label(&self) -> u32 {
        at32(self.b(), field::FLOW) & 0x000f_ffff
    }

    /// Bytes behind the fixed header, extension headers included.
    pub fn payload_len(&self) -> u16 {
        at16(self.b(), field::LENGTH)
    }

    /// The fixed header and what it covers, in bytes.
    pub fn total_len(&self) -> usize {
        HEADER_LEN + usize::from(self.payload_len())
    }

    /// The first next-header value; see [`Packet::chain`] for the last.
    pub fn next_header(&self) -> u8 {
        at8(self.b(), field::NEXT)
    }

    pub fn hop_limit(&self) -> u8 {
        at8(self.b(), field::HOPS)
    }

    /// Source address.
    pub fn src(&self) -> Ipv6Addr {
        Ipv6Addr::from(at::<16>(self.b(), field::SRC))
    }

    /// Destination address.
    pub fn dst(&self) -> Ipv6Addr {
        Ipv6Addr::from(at::<16>(self.b(), field::DST))
    }

    /// Where the extension headers lead.
    pub fn chain(&self) -> Result<Chain, Malformed> {
        walk(part(self.b(), 0, self.total_len()), self.next_header())
    }

    /// Everything behind the fixed header, without padding the link added.
    pub fn payload(&self) -> &[u8] {
        part(self.b(), HEADER_LEN, self.total_len())
    }
}

/// The fixed header as values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repr {
    /// Source address.
    pub src: Ipv6Addr,
    /// Destination address.
    pub dst: Ipv6Addr,
    /// First next-header value.
    pub next_header: u8,
    /// Bytes behind the fixed header.
    pub payload_len: u16,
    pub hop_limit: u8,
    pub traffic_class: u8,
    /// Flow label, 20 bits.
    pub flow_label: u32,
}

impl Repr {
    /// Read the header of `packet`, as checked by [`Packet::new_checked`].
    pub fn parse(packet: &[u8]) -> Result<Repr, Malformed> {
        let p = Packet::new_checked(packet)?;
        Ok(Repr {
            src: p.src(),
            dst: p.dst(),
            next_header: p.next_header(),
            payload_len: p.payload_len(),
            hop_limit: p.hop_limit(),
            traffic_class: p.traffic_class(),
            flow_label: p.flow_label(),
        })
    }

    /// Bytes the header takes.
    pub const fn header_len(&self) -> usize {
        HEADER_LEN
    }

    /// Write the header to the front of `out`; returns its length. The payload is the caller's to write.
    pub fn emit(&self, out: &mut [u8]) -> Result<usize, NoRoom> {
        let head: &mut [u8; HEADER_LEN] = out.first_chunk_mut().ok_or(NoRoom)?;
        let flow = 6 << 28 | u32::from(self.traffic_class) << 20 | self.flow_label & 0x000f_ffff;
        put32(head, field::FLOW, flow).ok_or(NoRoom)?;
        put16(head, field::LENGTH, self.payload_len).ok_or(NoRoom)?;
        head[field::NEXT] = self.next_header;
        head[field::HOPS] = self.hop_limit;
        put(head, field::SRC, self.src.octets()).ok_or(NoRoom)?;
        put(head, field::DST, self.dst.octets()).ok_or(NoRoom)?;
        Ok(HEADER_LEN)
    }

    /// The pseudo header's sum for an upper-layer message of `len` bytes (RFC 8200, 8.1).
    pub fn pseudo(&self, protocol: u8, len: u32) -> u16 {
        crate::checksum::pseudo6(self.src.to_bits(), self.dst.to_bits(), protocol, len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    /// A packet of `next` and the bytes behind the fixed header.
    fn packet(next: u8, payload: &[u8]) -> Vec<u8> {
        let repr = Repr {
            src: Ipv6Addr::LOCALHOST,
            dst: Ipv6Addr::UNSPECIFIED,
            next_header: next,
            payload_len: payload.len() as u16,
            hop_limit: 64,
            traffic_class: 0,
            flow_label: 0,
        };
        let mut bytes = std::vec![0; HEADER_LEN];
        repr.emit(&mut bytes).unwrap();
        bytes.extend_from_slice(payload);
        bytes
    }

    #[test]
    fn reads_a_router_advertisement_header() {
        let mut bytes = [0u8; 40];
        bytes[..8].copy_from_slice(&[0x6e, 0x01, 0x23, 0x45, 0, 0, 58, 255]);
        bytes[8..10].copy_from_slice(&[0xfe, 0x80]);
        bytes[23] = 1;
        bytes[24..26].copy_from_slice(&[0xff, 0x02]);
        bytes[39] = 1;
        let p = Packet::new_checked(&bytes).unwrap();
        assert_eq!((p.traffic_class(), p.dscp(), p.ecn(), p.flow_label()), (0xe0, 56, 0, 0x12345));
        assert_eq!((p.next_header(), p.hop_limit(), p.total_len()), (58, 255, 40));
        assert_eq!(p.src(), "fe80::1".parse::<Ipv6Addr>().unwrap());
        assert_eq!(p.dst(), "ff02::1".parse::<Ipv6Addr>().unwrap());
        assert_eq!(p.chain(), Ok(Chain { protocol: 58, l4: 40, fragment: None }));
    }

    #[test]
    fn refuses_wrong_version_and_length() {
        let mut bytes = packet(17, &[0; 8]);
        assert_eq!(Packet::new_checked(&bytes[..39]), Err(Malformed::Short));
        assert_eq!(Packet::new_checked(&bytes[..47]), Err(Malformed::BadLength));
        bytes[0] = 0x40;
        assert_eq!(Packet::new_checked(&bytes[..]), Err(Malformed::BadVersion));
    }

    proptest! {
        #[test]
        fn what_is_emitted_is_parsed(
            src: u128, dst: u128, next_header: u8, data in prop::collection::vec(any::<u8>(), 0..50),
            hop_limit: u8, traffic_class: u8, flow_label in 0u32..1 << 20,
        ) {
            let repr = Repr {
                src: src.into(), dst: dst.into(), next_header, payload_len: data.len() as u16, hop_limit,
                traffic_class, flow_label,
            };
            let mut bytes = std::vec![0xaa; HEADER_LEN];
            prop_assert_eq!(repr.emit(&mut bytes), Ok(HEADER_LEN));
            bytes.extend(&data);
            prop_assert_eq!(Repr::parse(&bytes), Ok(repr));
            let view = Packet::new_checked(bytes).unwrap();
            prop_assert_eq!((view.flow_label(), view.traffic_class()), (flow_label, traffic_class));
            prop_assert_eq!(view.payload(), &data[..]);
        }
    }
}
