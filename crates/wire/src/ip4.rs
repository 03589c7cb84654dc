//! IPv4 (RFC 791, 3.1; DSCP and ECN by RFC 2474 and RFC 3168).
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! |version|  IHL  |   DSCP    |ECN|          total length         |  0
//! |        identification         |-|D|M|   fragment offset / 8   |  4
//! |  time to live |   protocol    |        header checksum        |  8
//! |                        source address                         | 12
//! |                      destination address                      | 16
//! |                        options, 0 to 40 bytes                 | 20
//! ```

use crate::fast::{at, at8, at16, part, put, put8, put16};
use crate::option::Options;
use crate::{Malformed, NoRoom, checksum};
use core::net::Ipv4Addr;

/// Where the fields are, in bytes from the start of the header.
pub mod field {
    /// Version and header length.
    pub const VERSION: usize = 0;
    /// DSCP and ECN.
    pub const TOS: usize = 1;
    /// Total length.
    pub const LENGTH: usize = 2;
    pub const IDENT: usize = 4;
    /// Flags and fragment offset.
    pub const FRAGMENT: usize = 6;
    /// Time to live.
    pub const TTL: usize = 8;
    pub const PROTOCOL: usize = 9;
    /// Header checksum.
    pub const CHECKSUM: usize = 10;
    /// Source address.
    pub const SRC: usize = 12;
    /// Destination address.
    pub const DST: usize = 16;
    pub const OPTIONS: usize = 20;
}

/// The length of a header without options, in bytes.
pub const HEADER_LEN: usize = 20;
/// The most bytes options may take.
pub const MAX_OPTIONS: usize = 40;
/// The fragment field's "don't fragment".
pub const DONT_FRAGMENT: u16 = 0x4000;
/// The fragment field's "more fragments".
pub const MORE_FRAGMENTS: u16 = 0x2000;

/// Option kinds (RFC 791; RFC 2113).
pub mod option_kind {
    /// Loose source route: dropped by default (RFC 7126, 4.3).
    pub const LOOSE_SOURCE_ROUTE: u8 = 131;
    /// Strict source route: dropped by default (RFC 7126, 4.4).
    pub const STRICT_SOURCE_ROUTE: u8 = 137;
    pub const ROUTER_ALERT: u8 = 148;
    /// Set in kinds that every fragment must repeat (RFC 791, 3.1).
    pub const COPIED: u8 = 0x80;
}

/// One less time to live in the header at the front of `ip`, its checksum adjusted (RFC 1624); returns what is left.
///
/// `None`, and nothing changed, if it was 0 or the bytes are too few. Left 0 means: do not forward (RFC 1812, 5.3.1).
#[inline]
pub fn decrement_ttl(ip: &mut [u8]) -> Option<u8> {
    let head: &mut [u8; HEADER_LEN] = ip.first_chunk_mut()?;
    let left = head[field::TTL].checked_sub(1)?;
    // The word sinks by 0x0100, so its complement's sum rises by as much; a carry goes around.
    let check = u16::from_be_bytes([head[10], head[11]]);
    let [a, b] = checksum::adjust16(check, 0x0100, 0).to_be_bytes();
    (head[field::TTL], head[10], head[11]) = (left, a, b);
    Some(left)
}

/// A view of one IPv4 packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<T>(T);

impl<T: AsRef<[u8]>> Packet<T> {
    /// Check and wrap. Guarantees version 4, a header of 20 to 60 bytes and a total length that covers the header and
    /// lies within the bytes. The checksum is for [`Packet::is_checksum_right`].
    pub fn new_checked(bytes: T) -> Result<Self, Malformed> {
        let b = bytes.as_ref();
        if b.len() < HEADER_LEN {
            return Err(Malformed::Short);
        }
        if b[0] >> 4 != 4 {
            return Err(Malformed::BadVersion);
        }
        let (header, total) = (usize::from(b[0] & 15) * 4, usize::from(at16(b, field::LENGTH)));
        if header < HEADER_LEN {
            return Err(Malformed::BadHeaderLength);
        }
        if total < header || total > b.len() {
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

    /// The header's length, in bytes, options included.
    pub fn header_len(&self) -> usize {
        usize::from(at8(self.b(), field::VERSION) & 15) * 4
    }

    /// DSCP and ECN.
    pub fn tos(&self) -> u8 {
        at8(self.b(), field::TOS)
    }

    /// Differentiated services code point, 0 to 63.
    pub fn dscp(&self) -> u8 {
        self.tos() >> 2
    }

    /// Explicit congestion notification, 0 to 3.
    pub fn ecn(&self) -> u8 {
        self.tos() & 3
    }

    /// Header and payload, in bytes.
    pub fn total_len(&self) -> u16 {
        at16(self.b(), field::LENGTH)
    }

    /// Common to all fragments of one datagram.
    pub fn ident(&self) -> u16 {
        at16(self.b(), field::IDENT)
    }

    /// Whether routers must not fragment.
    pub fn dont_fragment(&self) -> bool {
        at16(self.b(), field::FRAGMENT) & DONT_FRAGMENT != 0
    }

    /// Whether more fragments follow.
    pub fn more_fragments(&self) -> bool {
        at16(self.b(), field::FRAGMENT) & MORE_FRAGMENTS != 0
    }

    /// Where the payload belongs in the datagram, in bytes.
    pub fn fragment_offset(&self) -> u16 {
        at16(self.b(), field::FRAGMENT) << 3
    }

    /// Time to live.
    pub fn ttl(&self) -> u8 {
        at8(self.b(), field::TTL)
    }

    /// The payload's protocol, see [`crate::protocol`].
    pub fn protocol(&self) -> u8 {
        at8(self.b(), field::PROTOCOL)
    }

    /// The checksum as it stands.
    pub fn checksum(&self) -> u16 {
        at16(self.b(), field::CHECKSUM)
    }

    /// Whether the header is as it was sent.
    pub fn is_checksum_right(&self) -> bool {
        checksum::is_valid(checksum::sum(part(self.b(), 0, self.header_len())))
    }

    /// Source address.
    pub fn src(&self) -> Ipv4Addr {
        Ipv4Addr::from(at::<4>(self.b(), field::SRC))
    }

    /// Destination address.
    pub fn dst(&self) -> Ipv4Addr {
        Ipv4Addr::from(at::<4>(self.b(), field::DST))
    }

    /// The options as bytes.
    pub(crate) fn option_bytes(&self) -> &[u8] {
        part(self.b(), field::OPTIONS, self.header_len())
    }

    /// The options one by one.
    pub fn options(&self) -> Options<'_> {
        Options::new(self.option_bytes())
    }

    /// What the header carries, without padding the link added.
    pub fn payload(&self) -> &[u8] {
        part(self.b(), self.header_len(), usize::from(self.total_len()))
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Packet<T> {
    /// Set DSCP and ECN.
    pub(crate) fn set_tos(&mut self, value: u8) {
        put8(self.0.as_mut(), field::TOS, value);
    }

    pub(crate) fn set_ident(&mut self, value: u16) {
        put16(self.0.as_mut(), field::IDENT, value);
    }

    /// Set where the payload belongs, in bytes (a multiple of eight), and whether more follow; "don't fragment" stays.
    pub(crate) fn set_fragment(&mut self, offset: u16, more: bool) {
        let kept = at16(self.b(), field::FRAGMENT) & DONT_FRAGMENT;
        let more = if more { MORE_FRAGMENTS } else { 0 };
        put16(self.0.as_mut(), field::FRAGMENT, kept | more | offset >> 3);
    }

    /// Set the time to live.
    pub(crate) fn set_ttl(&mut self, value: u8) {
        put8(self.0.as_mut(), field::TTL, value);
    }

    pub(crate) fn set_protocol(&mut self, value: u8) {
        put8(self.0.as_mut(), field::PROTOCOL, value);
    }

    /// Set the source address.
    pub(crate) fn set_src(&mut self, value: Ipv4Addr) {
        put(self.0.as_mut(), field::SRC, value.octets());
    }

    /// Set the destination address.
    pub(crate) fn set_dst(&mut self, value: Ipv4Addr) {
        put(self.0.as_mut(), field::DST, value.octets());
    }

    /// Set the checksum as given.
    pub fn set_checksum(&mut self, value: u16) {
        put16(self.0.as_mut(), field::CHECKSUM, value);
    }

    /// Compute the checksum anew; the other setters leave it as it was.
    pub fn fill_checksum(&mut self) {
        self.set_checksum(0);
        let check = checksum::of(part(self.b(), 0, self.header_len()));
        self.set_checksum(check);
    }
}

/// The header as values; options are read from the view and written by [`Repr::emit_with_options`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repr {
    /// Source address.
    pub src: Ipv4Addr,
    /// Destination address.
    pub dst: Ipv4Addr,
    /// The payload's protocol.
    pub protocol: u8,
    /// Bytes behind the header.
    pub payload_len: u16,
    /// Time to live.
    pub ttl: u8,
    /// DSCP and ECN.
    pub tos: u8,
    pub ident: u16,
    /// Whether routers must not fragment.
    pub dont_fragment: bool,
    /// Whether more fragments follow.
    pub more_fragments: bool,
    /// Where the payload belongs in the datagram, in bytes: a multiple of eight.
    pub fragment_offset: u16,
}

impl Repr {
    /// A whole datagram with the usual values: time to live 64, not to be fragmented.
    pub const fn new(src: Ipv4Addr, dst: Ipv4Addr, protocol: u8, payload_len: u16) -> Repr {
        Repr {
            src,
            dst,
            protocol,
            payload_len,
            ttl: 64,
            tos: 0,
            ident: 0,
            dont_fragment: true,
            more_fragments: false,
            fragment_offset: 0,
        }
    }

    /// Read the header of `packet`, as checked by [`Packet::new_checked`], its checksum checked too.
    pub fn parse(packet: &[u8]) -> Result<Repr, Malformed> {
        let p = Packet::new_checked(packet)?;
        if !p.is_checksum_right() {
            return Err(Malformed::BadHeaderChecksum);
        }
        Ok(Repr {
            src: p.src(),
            dst: p.dst(),
            protocol: p.protocol(),
            payload_len: p.payload().len() as u16, // within a 16-bit total length
            ttl: p.ttl(),
            tos: p.tos(),
            ident: p.ident(),
            dont_fragment: p.dont_fragment(),
            more_fragments: p.more_fragments(),
            fragment_offset: p.fragment_offset(),
        })
    }

    /// Bytes a header without options takes.
    pub const fn header_len(&self) -> usize {
        HEADER_LEN
    }

    /// Write the header and its checksum to the front of `out`; returns its length.
    pub fn emit(&self, out: &mut [u8]) -> Result<usize, NoRoom> {
        self.emit_with_options(&[], out)
    }

    /// As [`Repr::emit`], with option bytes: at most 40, padded here with zeros to a multiple of four.
    pub fn emit_with_options(&self, options: &[u8], out: &mut [u8]) -> Result<usize, NoRoom> {
        if options.len() > MAX_OPTIONS {
            return Err(NoRoom);
        }
        let len = HEADER_LEN + options.len().next_multiple_of(4);
        let out = out.get_mut(..len).ok_or(NoRoom)?;
        out.fill(0);
        out[field::VERSION] = 0x40 | (len / 4) as u8;
        let total = u16::try_from(len + usize::from(self.payload_len)).map_err(|_| NoRoom)?;
        put16(out, field::LENGTH, total).ok_or(NoRoom)?;
        let dont = if self.dont_fragment { DONT_FRAGMENT } else { 0 };
        put16(out, field::FRAGMENT, dont).ok_or(NoRoom)?;
        out[field::OPTIONS..][..options.len()].copy_from_slice(options);
        let mut p = Packet(out);
        p.set_tos(self.tos);
        p.set_ident(self.ident);
        p.set_fragment(self.fragment_offset, self.more_fragments);
        p.set_ttl(self.ttl);
        p.set_protocol(self.protocol);
        p.set_src(self.src);
        p.set_dst(self.dst);
        p.fill_checksum();
        Ok(len)
    }

    /// The pseudo header's sum for a transport message of `len` bytes (RFC 768, RFC 9293 3.1).
    pub fn pseudo(&self, len: u16) -> u16 {
        checksum::pseudo4(self.src.to_bits(), self.dst.to_bits(), self.protocol, len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::option::Opt;
    use proptest::prelude::*;

    /// 192.168.0.1 to 192.168.0.199, UDP; a header often used to explain the checksum.
    const HEAD: [u8; 20] = [0x45, 0, 0, 0x73, 0, 0, 0x40, 0, 0x40, 0x11, 0xb8, 0x61, 192, 168, 0, 1, 192, 168, 0, 199];

    #[test]
    fn a_known_header_both_ways() {
        let mut bytes = [0; 0x73];
        bytes[..20].copy_from_slice(&HEAD);
        let repr = Repr::new(Ipv4Addr::new(192, 168, 0, 1), Ipv4Addr::new(192, 168, 0, 199), 17, 0x73 - 20);
        assert_eq!(Repr::parse(&bytes), Ok(repr));
        let mut out = [0xee; 20];
        assert_eq!(repr.emit(&mut out), Ok(20));
        assert_eq!(out, HEAD);
        assert_eq!(repr.emit(&mut out[..19]), Err(NoRoom));
        assert_eq!(Repr { payload_len: 0xffff, ..repr }.emit(&mut out), Err(NoRoom));
        bytes[8] = 0x3f;
        assert_eq!(Repr::parse(&bytes), Err(Malformed::BadHeaderChecksum));
    }

    #[test]
    fn options_both_ways() {
        let repr = Repr::new(Ipv4Addr::LOCALHOST, Ipv4Addr::BROADCAST, 2, 0);
        let mut out = [0xee; 28];
        assert_eq!(repr.emit_with_options(&[1, 0x94, 4, 0, 0], &mut out), Ok(28));
        let p = Packet::new_checked(&out).unwrap();
        assert!(p.is_checksum_right());
        assert_eq!(p.option_bytes(), &[1, 0x94, 4, 0, 0, 0, 0, 0]);
        let alert = Opt { kind: option_kind::ROUTER_ALERT, at: 3, data: &[0, 0] };
        assert!(p.options().eq([Ok(alert)]));
        assert_eq!(repr.emit_with_options(&[1; 41], &mut [0; 80]), Err(NoRoom));
    }

    #[test]
    fn refuses_what_new_checked_excludes() {
        let with = |at: usize, value: u8| {
            let mut b = HEAD;
            b[3] = 20;
            b[at] = value;
            Packet::new_checked(b).map(|_| ())
        };
        assert_eq!(with(3, 20), Ok(()));
        assert_eq!(with(0, 0x65), Err(Malformed::BadVersion));
        assert_eq!(with(0, 0x44), Err(Malformed::BadHeaderLength));
        assert_eq!(with(0, 0x46), Err(Malformed::BadLength));
        assert_eq!(with(3, 19), Err(Malformed::BadLength));
        assert_eq!(with(3, 21), Err(Malformed::BadLength));
        assert_eq!(Packet::new_checked(&HEAD[..19]), Err(Malformed::Short));
    }

    #[test]
    fn time_to_live_ends() {
        let mut b = [0; 20];
        Repr { ttl: 1, ..Repr::new(Ipv4Addr::LOCALHOST, Ipv4Addr::LOCALHOST, 6, 0) }.emit(&mut b).unwrap();
        assert_eq!(decrement_ttl(&mut b), Some(0));
        assert!(Packet::new_checked(b).unwrap().is_checksum_right());
        assert_eq!(decrement_ttl(&mut b), None);
        assert_eq!(decrement_ttl(&mut b[..19]), None);
    }

    proptest! {
        #[test]
        fn what_is_emitted_is_parsed(
            src: u32, dst: u32, protocol: u8, len in 0u16..60, ttl: u8, tos: u8, ident: u16, dont_fragment: bool,
            more_fragments: bool, offset in 0u16..0x2000, options in prop::collection::vec(any::<u8>(), 0..=40),
        ) {
            let repr = Repr {
                src: src.into(), dst: dst.into(), protocol, payload_len: len, ttl, tos, ident, dont_fragment,
                more_fragments, fragment_offset: offset << 3,
            };
            let mut bytes = [0xaa; 120];
            let head = repr.emit_with_options(&options, &mut bytes).unwrap();
            prop_assert_eq!(Repr::parse(&bytes), Ok(repr));
            prop_assert_eq!(&bytes[20..][..options.len()], &options[..]);
            if let Some(left) = decrement_ttl(&mut bytes) {
                prop_assert_eq!(left, ttl - 1);
                let checked = Packet::new_checked(&bytes).unwrap().checksum();
                let mut p = Packet::new_checked(&mut bytes[..]).unwrap();
                p.fill_checksum();
                prop_assert_eq!((checked, p.header_len()), (p.checksum(), head));
            }
        }
    }
}
