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

use crate::fast::{at, at8, at16, at32, part, part_mut, put, put8, put16, put32};
use crate::{Malformed, NoRoom, fast, protocol};
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
/// The fragment header's length, in bytes (RFC 8200, 4.5).
pub const FRAGMENT_LEN: usize = 8;
/// The smallest MTU a link may have, in bytes (RFC 8200, 5).
pub const MIN_MTU: usize = 1280;
/// How many extension headers are walked before a packet is refused.
pub const MAX_EXTENSIONS: usize = 8;

/// What a fragment header says (RFC 8200, 4.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FragmentInfo {
    /// Where the fragment header begins, in bytes from the start of the packet.
    pub at: u16,
    /// Where this fragment's data belong in the fragmentable part, in bytes.
    pub offset: u16,
    /// Whether more fragments follow.
    pub more: bool,
    /// Common to all fragments of one datagram.
    pub id: u32,
}

impl FragmentInfo {
    /// Whether the fragment is the whole datagram: such a packet is handled as not fragmented (RFC 6946).
    #[inline]
    pub const fn is_atomic(&self) -> bool {
        self.offset == 0 && !self.more
    }
}

/// Where the extension headers lead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chain {
    /// The first header that is not walked: the upper layer, AH, ESP or "none".
    pub protocol: u8,
    /// Where that header begins; for a later fragment, where its data begin. Bytes from the start of the packet.
    pub l4: u16,
    /// The fragment header, if there is one. Behind a later fragment's nothing is walked.
    pub fragment: Option<FragmentInfo>,
}

/// Walk the extension headers of `packet`, whose first header was found to be `next` and which ends with the slice.
///
/// Refuses hop-by-hop options anywhere but first (RFC 8200, 4.1), a second fragment header, a fragment ending past
/// 65,535 bytes, headers that run past the packet, and more than [`MAX_EXTENSIONS`] of them.
pub fn walk(packet: &[u8], next: u8) -> Result<Chain, Malformed> {
    let mut chain = Chain { protocol: next, l4: HEADER_LEN as u16, fragment: None };
    let mut at = HEADER_LEN;
    for count in 0..=MAX_EXTENSIONS {
        let walked = match chain.protocol {
            protocol::HOP_BY_HOP if count > 0 => return Err(Malformed::BadExtension),
            protocol::HOP_BY_HOP | protocol::ROUTING | protocol::DESTINATION | protocol::FRAGMENT => true,
            _ => false,
        };
        if !walked {
            return Ok(chain);
        }
        if count == MAX_EXTENSIONS {
            return Err(Malformed::TooManyExtensions);
        }
        let head: [u8; 8] = fast::array(packet, at).ok_or(Malformed::BadExtension)?;
        let mut later = false;
        if chain.protocol == protocol::FRAGMENT {
            if chain.fragment.is_some() {
                return Err(Malformed::BadExtension);
            }
            let word = u16::from_be_bytes([head[2], head[3]]);
            let id = u32::from_be_bytes([head[4], head[5], head[6], head[7]]);
            let (offset, more) = (word & 0xfff8, word & 1 != 0);
            let data = packet.len() - at - FRAGMENT_LEN; // the header's eight bytes were read
            if usize::from(offset) + data > 0xffff {
                return Err(Malformed::BadFragment);
            }
            chain.fragment = Some(FragmentInfo { at: at as u16, offset, more, id });
            later = offset != 0;
            at += FRAGMENT_LEN;
        } else {
            at += 8 + usize::from(head[1]) * 8; // in units of 8 bytes, not counting the first
            if at > packet.len() {
                return Err(Malformed::BadExtension);
            }
        }
        chain.protocol = head[0];
        chain.l4 = at as u16; // at most 40 + 8 * 2048
        if later {
            return Ok(chain);
        }
    }
    Err(Malformed::TooManyExtensions)
}

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

    /// Hop limit.
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

impl<T: AsRef<[u8]> + AsMut<[u8]>> Packet<T> {
    /// Set the traffic class.
    pub fn set_traffic_class(&mut self, value: u8) {
        let word = at16(self.b(), field::FLOW) & 0xf00f | u16::from(value) << 4;
        put16(self.0.as_mut(), field::FLOW, word);
    }

    /// Set the flow label; the upper 12 bits are ignored.
    pub fn set_flow_label(&mut self, value: u32) {
        let word = at32(self.b(), field::FLOW) & 0xfff0_0000 | value & 0x000f_ffff;
        put32(self.0.as_mut(), field::FLOW, word);
    }

    /// Set the payload length; refused if that many bytes are not there.
    pub fn set_payload_len(&mut self, value: u16) -> Result<(), NoRoom> {
        if HEADER_LEN + usize::from(value) > self.b().len() {
            return Err(NoRoom);
        }
        put16(self.0.as_mut(), field::LENGTH, value).ok_or(NoRoom)
    }

    /// Set the first next-header value.
    pub fn set_next_header(&mut self, value: u8) {
        put8(self.0.as_mut(), field::NEXT, value);
    }

    /// Set the hop limit.
    pub fn set_hop_limit(&mut self, value: u8) {
        put8(self.0.as_mut(), field::HOPS, value);
    }

    /// Set the source address.
    pub fn set_src(&mut self, value: Ipv6Addr) {
        put(self.0.as_mut(), field::SRC, value.octets());
    }

    /// Set the destination address.
    pub fn set_dst(&mut self, value: Ipv6Addr) {
        put(self.0.as_mut(), field::DST, value.octets());
    }

    /// Everything behind the fixed header, to write to.
    pub fn payload_mut(&mut self) -> &mut [u8] {
        let end = self.total_len();
        part_mut(self.0.as_mut(), HEADER_LEN, end)
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
    /// Hop limit.
    pub hop_limit: u8,
    /// Traffic class.
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

/// Write a fragment header to the front of `out` (RFC 8200, 4.5); returns its length. `offset` is in bytes, a
/// multiple of eight.
pub fn emit_fragment(out: &mut [u8], next: u8, offset: u16, more: bool, id: u32) -> Result<usize, NoRoom> {
    let head: &mut [u8; FRAGMENT_LEN] = out.first_chunk_mut().ok_or(NoRoom)?;
    let [a, b] = (offset & 0xfff8 | u16::from(more)).to_be_bytes();
    let [c, d, e, f] = id.to_be_bytes();
    *head = [next, 0, a, b, c, d, e, f];
    Ok(FRAGMENT_LEN)
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

    fn chain(next: u8, payload: &[u8]) -> Result<Chain, Malformed> {
        Packet::new_checked(packet(next, payload)).unwrap().chain()
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
    fn walks_options_routing_and_fragment() {
        let payload =
            [43, 0, 1, 4, 0, 0, 0, 0, 44, 0, 0, 0, 0, 0, 0, 0, 17, 0, 0, 1, 0xde, 0xad, 0xbe, 0xef, 1, 2, 3, 4];
        let fragment = Some(FragmentInfo { at: 56, offset: 0, more: true, id: 0xdead_beef });
        assert_eq!(chain(0, &payload), Ok(Chain { protocol: 17, l4: 64, fragment }));
    }

    #[test]
    fn stops_behind_a_later_fragment() {
        // Its next header says destination options, but these bytes are data.
        let payload = [60, 0, 0x00, 0x10, 0, 0, 0, 1, 0xff, 0xff];
        let fragment = Some(FragmentInfo { at: 40, offset: 16, more: false, id: 1 });
        assert_eq!(chain(44, &payload), Ok(Chain { protocol: 60, l4: 48, fragment }));
    }

    #[test]
    fn refuses_chains_that_lie() {
        assert_eq!(chain(0, &[]), Err(Malformed::BadExtension));
        assert_eq!(chain(0, &[6, 1, 0, 0, 0, 0, 0, 0]), Err(Malformed::BadExtension));
        assert_eq!(chain(60, &[0, 0, 0, 0, 0, 0, 0, 0]), Err(Malformed::BadExtension));
        assert_eq!(chain(44, &[44, 0, 0, 0, 0, 0, 0, 1, 6, 0, 0, 0, 0, 0, 0, 1]), Err(Malformed::BadExtension));
        assert_eq!(chain(44, &[6, 0, 0xff, 0xf8, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0]), Err(Malformed::BadFragment));
        assert_eq!(chain(60, &[60, 0, 0, 0, 0, 0, 0, 0].repeat(20)), Err(Malformed::TooManyExtensions));
        let eight: Vec<u8> = [60, 0, 0, 0, 0, 0, 0, 0].repeat(7).into_iter().chain([6, 0, 0, 0, 0, 0, 0, 0]).collect();
        assert_eq!(chain(60, &eight), Ok(Chain { protocol: 6, l4: 104, fragment: None }));
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
            let mut view = Packet::new_checked(bytes).unwrap();
            view.set_flow_label(!0);
            view.set_traffic_class(!traffic_class);
            prop_assert_eq!((view.flow_label(), view.traffic_class()), (0xf_ffff, !traffic_class));
            prop_assert_eq!(view.payload(), &data[..]);
        }

        #[test]
        fn chains_stay_within(next in prop::sample::select(&[0u8, 43, 44, 60, 6][..]), mut bytes in prop::collection::vec(0u8..64, 40..200)) {
            bytes[0] = 0x60;
            if let Ok(chain) = walk(&bytes, next) {
                prop_assert!(usize::from(chain.l4) <= bytes.len());
            }
        }
    }
}
