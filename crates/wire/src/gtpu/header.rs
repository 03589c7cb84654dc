//! A GTP-U header in one pass, for the hot path.

use super::{HEADER_LEN, OPTIONAL_LEN, extension_type, flag};
use crate::{Malformed, Teid};

/// How many extension headers are walked before a message is refused.
const MAX_EXTENSIONS: usize = 8;

/// What a GTP-U header says, all extension headers walked (TS 29.281, 5.1 and 5.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The receiver's tunnel endpoint identifier.
    pub teid: Teid,
    /// The length field: bytes behind the first eight.
    pub length: u16,
    /// Where the payload begins, in bytes from the start of the header.
    pub payload_offset: u16,
    /// The sequence number; 0 if there is none.
    pub seq: u16,
    /// Message type, see [`super::message_type`].
    pub message_type: u8,
    /// Whether a sequence number is there.
    pub has_seq: bool,
    /// The QoS flow identifier of a PDU Session Container, 0 to 63.
    pub qfi: Option<u8>,
    /// Whether a PDU Session Container for the downlink asks for reflective QoS (TS 38.415, 5.5.3.4).
    pub rqi: bool,
    /// The first extension header type an endpoint must comprehend and this one does not; 0 if there is none.
    ///
    /// Such a message is dropped and answered with Supported Extension Headers Notification (TS 29.281, 5.2.1).
    pub unsupported: u8,
}

impl Header {
    /// Read a UDP payload; bytes behind the header's length are ignored.
    ///
    /// Guarantees version 1, protocol type GTP and `payload_offset <= 8 + length <= udp_payload.len()`.
    #[inline(always)]
    pub fn parse(udp_payload: &[u8]) -> Result<Header, Malformed> {
        let head: &[u8; 8] = udp_payload.first_chunk().ok_or(Malformed::Short)?;
        // Version 1 and protocol type 1; the spare bit is not evaluated (5.1).
        if head[0] & 0xf0 != flag::VERSION_1 {
            return Err(Malformed::BadVersion);
        }
        let length = u16::from_be_bytes([head[2], head[3]]);
        let message = udp_payload.get(..HEADER_LEN + usize::from(length)).ok_or(Malformed::BadLength)?;
        let (mut chain, mut seq, mut has_seq) = (Chain::starting(HEADER_LEN), 0, false);
        if head[0] & flag::OPTIONAL != 0 {
            let head: &[u8; 12] = message.first_chunk().ok_or(Malformed::BadLength)?;
            if head[0] & flag::S != 0 {
                (seq, has_seq) = (u16::from_be_bytes([head[8], head[9]]), true);
            }
            chain = match head[0] & flag::E {
                0 => Chain::starting(HEADER_LEN + OPTIONAL_LEN),
                _ => Chain::of(message, head[11])?,
            };
        }
        Ok(Header {
            teid: Teid(u32::from_be_bytes([head[4], head[5], head[6], head[7]])),
            length,
            payload_offset: chain.end,
            seq,
            message_type: head[1],
            has_seq,
            qfi: chain.qfi,
            rqi: chain.rqi,
            unsupported: chain.unsupported,
        })
    }

    /// What nearly every header is, read with hardly a branch: a G-PDU with nothing optional, or with the shortest PDU
    /// Session Container and nothing else. Returns the endpoint, the QoS flow and where the payload begins; none is
    /// whatever else it may be, right or wrong.
    #[inline(always)]
    pub fn usual(udp_payload: &[u8]) -> Option<(Teid, Option<u8>, u16)> {
        Self::with_usual(udp_payload, |teid, qfi, payload| (teid, qfi, payload))
    }

    /// As [`usual`](Self::usual), and what `then` makes of it: the values stay in registers.
    #[inline(always)]
    pub fn with_usual<R>(udp_payload: &[u8], then: impl FnOnce(Teid, Option<u8>, u16) -> R) -> Option<R> {
        const PLAIN: u64 = (flag::VERSION_1 as u64) << 8 | super::message_type::G_PDU as u64;
        const CONTAINER: u64 = (extension_type::PDU_SESSION_CONTAINER as u64) << 32 | 1 << 24;
        let head: &[u8; 16] = udp_payload.first_chunk()?;
        let [first, second] = [0, 8].map(|off| u64::from_be_bytes(crate::fast::at(head, off)));
        let (length, teid) = ((first >> 32) as u16, Teid(first as u32));
        if HEADER_LEN + usize::from(length) > udp_payload.len() {
            return None;
        }
        if first >> 48 != PLAIN | u64::from(flag::E) << 8 {
            return (first >> 48 == PLAIN).then(|| then(teid, None, HEADER_LEN as u16));
        }
        // Next extension, its length, PDU type 0 or 1, and that none follows.
        if second & 0xff_ff_e0_00_ff != CONTAINER || usize::from(length) < head.len() - HEADER_LEN {
            return None;
        }
        Some(then(teid, Some((second >> 8) as u8 & 0x3f), head.len() as u16))
    }

    /// What the header carries, out of the bytes it was read from.
    #[inline]
    pub fn payload<'a>(&self, udp_payload: &'a [u8]) -> &'a [u8] {
        crate::fast::part(udp_payload, usize::from(self.payload_offset), self.end())
    }

    /// Where the message ends, in bytes from the start of the header.
    #[inline]
    pub const fn end(&self) -> usize {
        HEADER_LEN + self.length as usize
    }
}

/// What the extension headers say, and where they end.
#[derive(Clone, Copy)]
struct Chain {
    end: u16,
    qfi: Option<u8>,
    rqi: bool,
    unsupported: u8,
}

impl Chain {
    #[inline(always)]
    const fn starting(at: usize) -> Chain {
        Chain { end: at as u16, qfi: None, rqi: false, unsupported: 0 }
    }

    /// The chain of `message`, which ends where its length says and whose first extension header is a `next`.
    #[inline(always)]
    fn of(message: &[u8], next: u8) -> Result<Chain, Malformed> {
        // What a 5G core sends: the shortest PDU Session Container and nothing else. One look instead of a walk.
        match message.first_chunk::<16>() {
            Some(&[.., extension_type::PDU_SESSION_CONTAINER, 1, first, second, extension_type::NONE]) => {
                let mut chain = Chain::starting(HEADER_LEN + OPTIONAL_LEN + 4);
                chain.container(first, second);
                Ok(chain)
            }
            _ => Chain::walk(message, next),
        }
    }

    /// Any other chain.
    #[inline(never)]
    fn walk(message: &[u8], mut next: u8) -> Result<Chain, Malformed> {
        let mut at = HEADER_LEN + OPTIONAL_LEN;
        let mut chain = Chain::starting(at);
        let mut left = MAX_EXTENSIONS;
        while next != extension_type::NONE {
            left = left.checked_sub(1).ok_or(Malformed::TooManyExtensions)?;
            let head: &[u8; 4] = message.get(at..).and_then(|m| m.first_chunk()).ok_or(Malformed::BadExtension)?;
            let len = usize::from(head[0]) * 4;
            if len == 0 {
                return Err(Malformed::BadExtension);
            }
            match next {
                extension_type::PDU_SESSION_CONTAINER => chain.container(head[1], head[2]),
                extension_type::PDCP_PDU_NUMBER | extension_type::LONG_PDCP_PDU_NUMBER => {}
                // The type's upper two bits: 10 and 11 require an endpoint to comprehend it (5.2.1).
                other if other & 0x80 != 0 && chain.unsupported == 0 => chain.unsupported = other,
                _ => {}
            }
            at += len;
            next = *message.get(at - 1).ok_or(Malformed::BadExtension)?;
        }
        chain.end = at as u16; // at most 12 + 8 * 1020
        Ok(chain)
    }

    /// The two octets every PDU Session Container begins with; the first container counts (TS 38.415, 5.5.2).
    #[inline(always)]
    fn container(&mut self, first: u8, second: u8) {
        if self.qfi.is_none() && first >> 4 <= 1 {
            self.qfi = Some(second & 0x3f);
            self.rqi = first >> 4 == 0 && second & 0x40 != 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_plain_g_pdu() {
        let bytes = [0x30, 0xff, 0, 3, 0, 0, 0, 7, 1, 2, 3, 0xee];
        let h = Header::parse(&bytes).unwrap();
        assert_eq!((h.message_type, h.teid, h.length, h.payload_offset), (255, Teid(7), 3, 8));
        assert_eq!((h.has_seq, h.qfi, h.rqi, h.unsupported), (false, None, false, 0));
        assert_eq!(h.payload(&bytes), &[1, 2, 3]);
    }

    #[test]
    fn the_usual_header_is_read_alike() {
        let plain = [0x30, 0xff, 0, 8, 1, 2, 3, 4, 0x45, 0, 0, 0, 0, 0, 0, 0];
        let whole = [0x34, 0xff, 0, 8, 1, 2, 3, 4, 0xff, 0xff, 0xff, 0x85, 1, 0x10, 0xc9, 0];
        assert_eq!(Header::usual(&plain), Some((Teid(0x0102_0304), None, 8)));
        assert_eq!(Header::usual(&whole), Some((Teid(0x0102_0304), Some(9), 16)));
        let agrees = |bytes: &[u8]| {
            let usual = Header::usual(bytes);
            let parsed = Header::parse(bytes);
            assert!(usual.is_none() || parsed.as_ref().map(|h| (h.teid, h.qfi, h.payload_offset)).ok() == usual);
            assert!(usual.is_none() || parsed.is_ok_and(|h| h.message_type == 0xff && h.unsupported == 0));
            usual.is_some()
        };
        for bytes in [plain, whole] {
            assert!(!agrees(&bytes[..15]));
            for (at, value) in (0..16).flat_map(|at| (0..=255u8).map(move |value| (at, value))) {
                let mut changed = bytes;
                changed[at] = value;
                agrees(&changed);
            }
        }
    }

    #[test]
    fn sequence_numbers_are_tolerated() {
        let bytes = [0x32, 0xff, 0, 5, 0, 0, 0, 7, 0x12, 0x34, 0, 0x85, 9];
        let h = Header::parse(&bytes).unwrap();
        // E is clear, so the next-extension field is not evaluated.
        assert_eq!((h.has_seq, h.seq, h.payload_offset, h.qfi), (true, 0x1234, 12, None));
        assert_eq!(h.payload(&bytes), &[9]);
    }

    #[test]
    fn chains_are_walked() {
        let bytes = [
            0x36, 0xff, 0, 17, 0, 0, 0, 7, 0, 1, 0, 0xc0, 1, 0xab, 0xcd, 0x85, 2, 0x10, 0x05, 0, 0, 0, 0, 0, 0x45, 0xee,
        ];
        let h = Header::parse(&bytes).unwrap();
        assert_eq!((h.payload_offset, h.qfi, h.rqi, h.seq, h.unsupported), (24, Some(5), false, 1, 0));
        assert_eq!(h.payload(&bytes), &[0x45]);
        let mut down = bytes;
        (down[17], down[18]) = (0x00, 0x45);
        let h = Header::parse(&down).unwrap();
        assert_eq!((h.qfi, h.rqi), (Some(5), true));
    }

    #[test]
    fn what_must_be_comprehended_is_named() {
        let with = |kind: u8| Header::parse(&[0x34, 0xff, 0, 8, 0, 0, 0, 7, 0, 0, 0, kind, 1, 0, 0, 0]);
        assert_eq!(with(0x84).unwrap().unsupported, 0x84);
        assert_eq!(with(0xfe).unwrap().unsupported, 0xfe);
        assert_eq!(with(0x40).unwrap().unsupported, 0);
        assert_eq!(with(0x01).unwrap().unsupported, 0);
        for kind in 1..=255 {
            let unsupported = with(kind).map_or(0, |header| header.unsupported);
            let comprehended = kind < 0x80 || extension_type::SUPPORTED.contains(&kind);
            assert_eq!(unsupported, if comprehended { 0 } else { kind });
        }
    }

    #[test]
    fn refuses_what_lies() {
        use Malformed::*;
        assert_eq!(Header::parse(&[0x30; 7]), Err(Short));
        assert_eq!(Header::parse(&[0x50, 0xff, 0, 0, 0, 0, 0, 0]), Err(BadVersion));
        assert_eq!(Header::parse(&[0x20, 0xff, 0, 0, 0, 0, 0, 0]), Err(BadVersion));
        assert_eq!(Header::parse(&[0x30, 0xff, 0, 1, 0, 0, 0, 0]), Err(BadLength));
        assert_eq!(Header::parse(&[0x32, 0xff, 0, 3, 0, 0, 0, 0, 0, 0, 0, 0]), Err(BadLength));
        assert_eq!(Header::parse(&[0x34, 0xff, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0x85]), Err(BadExtension));
        assert_eq!(Header::parse(&[0x34, 0xff, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0x85, 0, 0, 0, 0]), Err(BadExtension));
        assert_eq!(Header::parse(&[0x34, 0xff, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0x85, 2, 0, 0, 0]), Err(BadExtension));
        let mut long = std::vec![0x34, 0xff, 0, 40, 0, 0, 0, 0, 0, 0, 0, 1];
        long.extend([1, 0, 0, 1].repeat(9));
        assert_eq!(Header::parse(&long), Err(TooManyExtensions));
    }
}
