//! TCP (RFC 9293, 3.1): what a router in the path reads and changes, and what a test sends.
//!
//! ```text
//! |          source port          |       destination port        |  0
//! |                        sequence number                        |  4
//! |                    acknowledgment number                      |  8
//! | offs. |   -   |     flags     |            window             | 12   offset: header length / 4
//! |           checksum            |        urgent pointer         | 16
//! |                        options, 0 to 40 bytes                 | 20
//! ```

use crate::fast::{array, at8, at16, at32, part, put8, put16, put32};
use crate::option::Options;
use crate::{Malformed, NoRoom, checksum};

/// Where the fields are, in bytes from the start of the header.
pub mod field {
    /// Source port.
    pub const SRC_PORT: usize = 0;
    /// Destination port.
    pub const DST_PORT: usize = 2;
    /// Sequence number.
    pub const SEQ: usize = 4;
    /// Acknowledgment number.
    pub const ACK: usize = 8;
    /// Header length, in the upper four bits.
    pub const OFFSET: usize = 12;
    pub const FLAGS: usize = 13;
    pub const WINDOW: usize = 14;
    pub const CHECKSUM: usize = 16;
    /// Urgent pointer.
    pub const URGENT: usize = 18;
    pub const OPTIONS: usize = 20;
}

/// The length of a header without options, in bytes.
pub const HEADER_LEN: usize = 20;

/// Flags (RFC 9293, 3.1).
pub mod flag {
    /// No more data from the sender.
    pub const FIN: u8 = 0x01;
    /// Synchronise sequence numbers.
    pub const SYN: u8 = 0x02;
    /// Reset the connection.
    pub const RST: u8 = 0x04;
    /// Push.
    pub const PSH: u8 = 0x08;
    /// The acknowledgment number means something.
    pub const ACK: u8 = 0x10;
    /// The urgent pointer means something.
    pub const URG: u8 = 0x20;
    /// ECN echo (RFC 3168).
    pub const ECE: u8 = 0x40;
    /// Congestion window reduced (RFC 3168).
    pub const CWR: u8 = 0x80;
}

pub mod option_kind {
    /// Maximum segment size, two bytes of data.
    pub const MSS: u8 = 2;
}

/// Where the value of the maximum segment size stands in the segment at the front of `tcp`, in bytes from its start.
///
/// `None` unless the segment is a SYN that carries the option whole. It may stand at an odd offset.
#[inline]
pub fn mss_at(tcp: &[u8]) -> Option<usize> {
    let head: &[u8; HEADER_LEN] = tcp.first_chunk()?;
    if head[field::FLAGS] & flag::SYN == 0 {
        return None;
    }
    let options = tcp.get(HEADER_LEN..usize::from(head[field::OFFSET] >> 4) * 4)?;
    let mss = Options::new(options).find_map(|o| o.ok().filter(|o| o.kind == option_kind::MSS))?;
    (mss.data.len() == 2).then_some(HEADER_LEN + mss.at)
}

/// Lower the maximum segment size in the segment at the front of `tcp` to `most` bytes, its checksum adjusted;
/// returns what stood there before, or `None`, and nothing changed, if there was nothing to lower.
#[inline]
pub fn clamp_mss(tcp: &mut [u8], most: u16) -> Option<u16> {
    let at = mss_at(tcp)?;
    let was = u16::from_be_bytes(array(tcp, at)?);
    if was <= most {
        return None;
    }
    // At an odd offset the value straddles two words: its bytes count in the other order.
    let (old, new) = if at & 1 == 0 { (was, most) } else { (was.swap_bytes(), most.swap_bytes()) };
    let check = checksum::adjust16(at16(tcp, field::CHECKSUM), old, new);
    put16(tcp, field::CHECKSUM, check)?;
    put16(tcp, at, most)?;
    Some(was)
}

/// A view of one segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<T>(T);

impl<T: AsRef<[u8]>> Packet<T> {
    /// Check and wrap. Guarantees a header of 20 to 60 bytes within the bytes.
    pub fn new_checked(bytes: T) -> Result<Self, Malformed> {
        let b = bytes.as_ref();
        if b.len() < HEADER_LEN {
            return Err(Malformed::Short);
        }
        let header = usize::from(b[field::OFFSET] >> 4) * 4;
        if header < HEADER_LEN || header > b.len() {
            return Err(Malformed::BadHeaderLength);
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

    /// Source port.
    pub fn src_port(&self) -> u16 {
        at16(self.b(), field::SRC_PORT)
    }

    /// Destination port.
    pub fn dst_port(&self) -> u16 {
        at16(self.b(), field::DST_PORT)
    }

    /// Sequence number of the first byte, or of the SYN.
    pub fn seq(&self) -> u32 {
        at32(self.b(), field::SEQ)
    }

    /// The next sequence number the sender expects, if [`flag::ACK`] is set.
    pub fn ack(&self) -> u32 {
        at32(self.b(), field::ACK)
    }

    /// The header's length, in bytes, options included.
    pub fn header_len(&self) -> usize {
        usize::from(at8(self.b(), field::OFFSET) >> 4) * 4
    }

    /// Flags, see [`flag`].
    pub fn flags(&self) -> u8 {
        at8(self.b(), field::FLAGS)
    }

    /// Receive window, unscaled.
    pub fn window(&self) -> u16 {
        at16(self.b(), field::WINDOW)
    }

    /// The checksum as it stands.
    pub fn checksum(&self) -> u16 {
        at16(self.b(), field::CHECKSUM)
    }

    /// Whether the segment is as it was sent; `pseudo` is the pseudo header's sum over all its bytes.
    pub fn is_checksum_right(&self, pseudo: u16) -> bool {
        checksum::is_valid(checksum::combine(pseudo, checksum::sum(self.b())))
    }

    /// The options one by one.
    pub fn options(&self) -> Options<'_> {
        Options::new(part(self.b(), HEADER_LEN, self.header_len()))
    }

    /// The maximum segment size a SYN offers, in bytes.
    pub fn mss(&self) -> Option<u16> {
        mss_at(self.b()).map(|at| at16(self.b(), at))
    }

    /// What the header carries.
    pub fn payload(&self) -> &[u8] {
        part(self.b(), self.header_len(), usize::MAX)
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Packet<T> {
    /// Set the source port.
    pub(crate) fn set_src_port(&mut self, value: u16) {
        put16(self.0.as_mut(), field::SRC_PORT, value);
    }

    /// Set the destination port.
    pub(crate) fn set_dst_port(&mut self, value: u16) {
        put16(self.0.as_mut(), field::DST_PORT, value);
    }

    /// Set the sequence number.
    pub(crate) fn set_seq(&mut self, value: u32) {
        put32(self.0.as_mut(), field::SEQ, value);
    }

    /// Set the acknowledgment number.
    pub(crate) fn set_ack(&mut self, value: u32) {
        put32(self.0.as_mut(), field::ACK, value);
    }

    pub fn set_flags(&mut self, value: u8) {
        put8(self.0.as_mut(), field::FLAGS, value);
    }

    /// Set the checksum as given.
    pub fn set_checksum(&mut self, value: u16) {
        put16(self.0.as_mut(), field::CHECKSUM, value);
    }

    /// Compute the checksum anew; `pseudo` is the pseudo header's sum over all bytes.
    pub fn fill_checksum(&mut self, pseudo: u16) {
        self.set_checksum(0);
        let sum = checksum::combine(pseudo, checksum::sum(self.b()));
        self.set_checksum(checksum::finish(sum));
    }
}

/// The header as values; the only option kept is the maximum segment size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repr {
    /// Source port.
    pub src_port: u16,
    /// Destination port.
    pub dst_port: u16,
    /// Sequence number.
    pub seq: u32,
    /// Acknowledgment number.
    pub ack: u32,
    /// Flags, see [`flag`].
    pub flags: u8,
    /// Receive window, unscaled.
    pub window: u16,
    /// The maximum segment size, in bytes; only a SYN carries one.
    pub mss: Option<u16>,
}

impl Repr {
    /// Read a header, as checked by [`Packet::new_checked`]; the checksum is the view's to check.
    pub fn parse(segment: &[u8]) -> Result<Repr, Malformed> {
        let p = Packet::new_checked(segment)?;
        Ok(Repr {
            src_port: p.src_port(),
            dst_port: p.dst_port(),
            seq: p.seq(),
            ack: p.ack(),
            flags: p.flags(),
            window: p.window(),
            mss: p.mss(),
        })
    }

    /// Bytes the header takes.
    pub const fn header_len(&self) -> usize {
        if self.mss.is_some() { HEADER_LEN + 4 } else { HEADER_LEN }
    }

    /// Write the header to the front of `out`, its checksum zero; returns its length. Then write the payload and call
    /// [`Packet::fill_checksum`].
    pub fn emit(&self, out: &mut [u8]) -> Result<usize, NoRoom> {
        let len = self.header_len();
        let out = out.get_mut(..len).ok_or(NoRoom)?;
        out.fill(0);
        out[field::OFFSET] = (len as u8 / 4) << 4;
        put16(out, field::WINDOW, self.window).ok_or(NoRoom)?;
        if let Some(mss) = self.mss {
            out[field::OPTIONS..][..2].copy_from_slice(&[option_kind::MSS, 4]);
            put16(out, field::OPTIONS + 2, mss).ok_or(NoRoom)?;
        }
        let mut p = Packet(out);
        p.set_src_port(self.src_port);
        p.set_dst_port(self.dst_port);
        p.set_seq(self.seq);
        p.set_ack(self.ack);
        p.set_flags(self.flags);
        Ok(len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A SYN to port 80: MSS 1460, SACK permitted, time stamps, window scale.
    const SYN: [u8; 40] = [
        0x9c, 0x40, 0, 80, 0x12, 0x34, 0x56, 0x78, 0, 0, 0, 0, 0xa0, 0x02, 0xff, 0xff, 0, 0, 0, 0, 2, 4, 0x05, 0xb4, 4,
        2, 8, 10, 0, 0, 0, 1, 0, 0, 0, 0, 1, 3, 3, 7,
    ];

    #[test]
    fn reads_a_syn() {
        let p = Packet::new_checked(&SYN).unwrap();
        assert_eq!((p.src_port(), p.dst_port(), p.seq(), p.ack()), (40000, 80, 0x1234_5678, 0));
        assert_eq!((p.header_len(), p.flags(), p.window(), p.mss()), (40, flag::SYN, 0xffff, Some(1460)));
        assert!(p.options().map(|o| o.unwrap().kind).eq([2, 4, 8, 3]));
        assert_eq!((mss_at(&SYN), p.payload()), (Some(22), &[][..]));
    }

    #[test]
    fn writes_a_syn() {
        let repr = Repr { src_port: 1, dst_port: 2, seq: 3, ack: 4, flags: flag::SYN, window: 5, mss: Some(536) };
        let mut out = [0xee; 24];
        assert_eq!(repr.emit(&mut out), Ok(24));
        assert_eq!(out, [0, 1, 0, 2, 0, 0, 0, 3, 0, 0, 0, 4, 0x60, 2, 0, 5, 0, 0, 0, 0, 2, 4, 2, 24]);
        assert_eq!(repr.emit(&mut out[..23]), Err(NoRoom));
    }

    #[test]
    fn refuses_header_lengths_that_lie() {
        let mut b = SYN;
        assert_eq!(Packet::new_checked(&b[..19]), Err(Malformed::Short));
        assert_eq!(Packet::new_checked(&b[..39]), Err(Malformed::BadHeaderLength));
        assert_eq!(mss_at(&b[..39]), None);
        b[12] = 0x40;
        assert_eq!(Packet::new_checked(&b[..]), Err(Malformed::BadHeaderLength));
        assert_eq!(mss_at(&b), None);
    }

    #[test]
    fn only_a_larger_size_is_clamped_and_only_in_a_syn() {
        let mut b = SYN;
        assert_eq!((clamp_mss(&mut b, 1460), clamp_mss(&mut b, 1400)), (None, Some(1460)));
        assert_eq!(Packet::new_checked(&b).unwrap().mss(), Some(1400));
        b[13] = flag::ACK;
        assert_eq!(clamp_mss(&mut b, 100), None);
    }

    proptest! {
        #[test]
        fn what_is_emitted_is_parsed(
            src_port: u16, dst_port: u16, seq: u32, ack: u32, flags: u8, window: u16, mss: Option<u16>, pseudo: u16,
        ) {
            let mss = mss.filter(|_| flags & flag::SYN != 0);
            let repr = Repr { src_port, dst_port, seq, ack, flags, window, mss };
            let mut out = [0xee; 24];
            let len = repr.emit(&mut out).unwrap();
            let mut p = Packet::new_checked(&mut out[..len]).unwrap();
            p.fill_checksum(pseudo);
            prop_assert!(p.is_checksum_right(pseudo));
            prop_assert_eq!(Repr::parse(&out[..len]), Ok(repr));
        }

        #[test]
        fn clamping_keeps_the_checksum(nops in 0usize..5, mss: u16, most: u16, pseudo: u16) {
            let mut b = [1u8; 32];
            Repr { src_port: 1, dst_port: 2, seq: 3, ack: 4, flags: flag::SYN, window: 5, mss: None }.emit(&mut b).unwrap();
            b[12] = 0x80;
            b[20 + nops..][..2].copy_from_slice(&[2, 4]);
            put16(&mut b, 22 + nops, mss).unwrap();
            Packet::new_checked(&mut b[..]).unwrap().fill_checksum(pseudo);
            clamp_mss(&mut b, most);
            let p = Packet::new_checked(&b).unwrap();
            prop_assert!(p.is_checksum_right(pseudo));
            prop_assert_eq!(p.mss(), Some(mss.min(most)));
        }
    }
}
