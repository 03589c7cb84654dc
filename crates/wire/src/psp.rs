//! The packet streaming protocol of DEPI and UEPI: DOCSIS frames, whole or in pieces (CM-SP-R-DEPI, L2 sublayer; layout
//! checked against a capture of a CCAP core).
//!
//! ```text
//! | V 0x80, S 0x40, H 0x30, flow 0x0e | count 0x7f | sequence, 2 |   S: the sequence number means something
//! | B 0x8000, E 0x4000, length 0x3fff |  count times
//! | word, 2 |                            of PSP-DEPI only (subtype 4): observed as 00N0, N counting packets
//! | segment | segment | …
//! ```
//!
//! A frame whose first piece ends a packet (B without E) goes on in the next packet of the flow, until a segment with E.

use crate::fast::{at8, at16, be16, part, put, put16};
use crate::{Malformed, NoRoom};

/// Bytes before the table of segments.
pub const HEADER_LEN: usize = 4;
/// Bytes of one segment's entry.
pub const ENTRY_LEN: usize = 2;
/// Bytes of the word behind the table.
pub const WORD_LEN: usize = 2;
/// The most segments a packet can carry.
pub const MAX_SEGMENTS: usize = 0x7f;
/// The most bytes of a segment.
pub const MAX_SEGMENT_LEN: usize = 0x3fff;

/// Flags of the first byte.
pub mod flag {
    /// The sequence number means something.
    pub const S: u8 = 0x40;
    /// The flow's identifier.
    pub const FLOW: u8 = 0x0e;
}

/// Whether a word stands behind the table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Word {
    /// No: UEPI, MAP and the older PSP.
    #[default]
    Absent,
    /// Yes: PSP-DEPI.
    Present,
}

impl Word {
    const fn len(self) -> usize {
        match self {
            Word::Absent => 0,
            Word::Present => WORD_LEN,
        }
    }
}

/// One piece of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment<'a> {
    /// A frame begins with it.
    pub begin: bool,
    /// A frame ends with it.
    pub end: bool,
    pub bytes: &'a [u8],
}

/// A view of one packet, behind L2TPv3's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<T> {
    bytes: T,
    word: Word,
}

impl<T: AsRef<[u8]>> Packet<T> {
    /// Check and wrap. Guarantees the table of segments, the word if there is to be one, and that all segments lie within
    /// the bytes; bytes behind them are ignored.
    #[inline]
    pub fn new_checked(bytes: T, word: Word) -> Result<Self, Malformed> {
        let b = bytes.as_ref();
        if b.len() < HEADER_LEN {
            return Err(Malformed::Short);
        }
        let count = usize::from(at8(b, 1) & 0x7f);
        let table = HEADER_LEN + count * ENTRY_LEN;
        if table + word.len() > b.len() {
            return Err(Malformed::BadHeaderLength);
        }
        let sizes = (0..count).map(|n| usize::from(at16(b, HEADER_LEN + n * ENTRY_LEN)) & MAX_SEGMENT_LEN);
        if table + word.len() + sizes.sum::<usize>() > b.len() {
            return Err(Malformed::BadLength);
        }
        Ok(Packet { bytes, word })
    }

    fn b(&self) -> &[u8] {
        self.bytes.as_ref()
    }

    /// The flow's identifier, 0 to 7.
    #[inline]
    pub fn flow(&self) -> u8 {
        (at8(self.b(), 0) & flag::FLOW) >> 1
    }

    /// The packet's number in its session, if it has one.
    #[inline]
    pub fn sequence(&self) -> Option<u16> {
        (at8(self.b(), 0) & flag::S != 0).then(|| at16(self.b(), 2))
    }

    /// How many segments it carries.
    #[inline]
    pub fn count(&self) -> usize {
        usize::from(at8(self.b(), 1) & 0x7f)
    }

    /// The word behind the table.
    pub fn word(&self) -> Option<u16> {
        match self.word {
            Word::Absent => None,
            Word::Present => be16(self.b(), HEADER_LEN + self.count() * ENTRY_LEN),
        }
    }

    /// The segments, in order.
    #[inline]
    pub fn segments(&self) -> Segments<'_> {
        let at = HEADER_LEN + self.count() * ENTRY_LEN + self.word.len();
        Segments { bytes: self.b(), next: 0, count: self.count(), at }
    }
}

/// See [`Packet::segments`].
#[derive(Clone, Debug)]
pub struct Segments<'a> {
    bytes: &'a [u8],
    next: usize,
    count: usize,
    at: usize,
}

impl Segments<'_> {
    /// Where the next segment begins, in bytes from the start of the packet.
    pub fn offset(&self) -> usize {
        self.at
    }
}

impl<'a> Iterator for Segments<'a> {
    type Item = Segment<'a>;

    #[inline]
    fn next(&mut self) -> Option<Segment<'a>> {
        if self.next >= self.count {
            return None;
        }
        let entry = Entry(at16(self.bytes, HEADER_LEN + self.next * ENTRY_LEN));
        let from = self.at;
        self.next += 1;
        self.at += entry.len();
        Some(Segment { begin: entry.begins(), end: entry.ends(), bytes: part(self.bytes, from, self.at) })
    }
}

/// One segment's entry in the table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Entry(u16);

impl Entry {
    /// A segment of `len` bytes; more than [`MAX_SEGMENT_LEN`] are cut.
    #[inline]
    pub const fn of(begin: bool, end: bool, len: usize) -> Entry {
        let len = if len > MAX_SEGMENT_LEN { MAX_SEGMENT_LEN } else { len };
        Entry((begin as u16) << 15 | (end as u16) << 14 | len as u16)
    }

    /// A frame begins with it.
    #[inline]
    pub const fn begins(self) -> bool {
        self.0 & 0x8000 != 0
    }

    /// A frame ends with it.
    #[inline]
    pub const fn ends(self) -> bool {
        self.0 & 0x4000 != 0
    }

    /// Its bytes.
    #[inline]
    pub const fn len(self) -> usize {
        self.0 as usize & MAX_SEGMENT_LEN
    }

    /// Whether it has none.
    pub const fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// As it stands in the table.
    #[inline]
    pub const fn to_bytes(self) -> [u8; ENTRY_LEN] {
        self.0.to_be_bytes()
    }
}

/// What stands before the segments, as values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repr {
    /// The flow, 0 to 7.
    pub flow: u8,
    /// The packet's number in its session.
    pub sequence: u16,
    /// The word behind the table, where there is to be one.
    pub word: Option<u16>,
}

impl Repr {
    /// Bytes before the first segment of `count`.
    #[inline]
    pub const fn header_len(&self, count: usize) -> usize {
        HEADER_LEN + count * ENTRY_LEN + if self.word.is_some() { WORD_LEN } else { 0 }
    }

    /// What stands before the table of `count` segments.
    #[inline]
    pub const fn head(&self, count: u8) -> [u8; HEADER_LEN] {
        let [high, low] = self.sequence.to_be_bytes();
        [flag::S | self.flow << 1 & flag::FLOW, count, high, low]
    }

    /// Writes everything before the segments to the front of `out`; returns its length.
    #[inline]
    pub fn emit(&self, segments: &[Entry], out: &mut [u8]) -> Result<usize, NoRoom> {
        let len = self.header_len(segments.len());
        let out = out.get_mut(..len).ok_or(NoRoom)?;
        if segments.len() > MAX_SEGMENTS {
            return Err(NoRoom);
        }
        put(out, 0, self.head(segments.len() as u8)).ok_or(NoRoom)?;
        for (n, entry) in segments.iter().enumerate() {
            put(out, HEADER_LEN + n * ENTRY_LEN, entry.to_bytes()).ok_or(NoRoom)?;
        }
        if let Some(word) = self.word {
            put16(out, len - WORD_LEN, word).ok_or(NoRoom)?;
        }
        Ok(len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    #[test]
    fn a_packet_both_ways() {
        let repr = Repr { flow: 3, sequence: 0x1234, word: Some(0x00a0) };
        let mut out = [0xee; 15];
        let entries = [Entry::of(false, true, 2), Entry::of(true, false, 3)];
        assert_eq!(repr.emit(&entries, &mut out), Ok(10));
        assert_eq!(out[..10], [0x46, 2, 0x12, 0x34, 0x40, 2, 0x80, 3, 0, 0xa0]);
        out[10..].copy_from_slice(b"abcde");
        let packet = Packet::new_checked(&out[..], Word::Present).unwrap();
        assert_eq!((packet.flow(), packet.sequence(), packet.word()), (3, Some(0x1234), Some(0xa0)));
        let segments: Vec<_> = packet.segments().collect();
        let expected =
            [Segment { begin: false, end: true, bytes: b"ab" }, Segment { begin: true, end: false, bytes: b"cde" }];
        assert_eq!((segments, packet.segments().offset()), (expected.to_vec(), 10));
        assert_eq!(Packet::new_checked(&out[..14], Word::Present), Err(Malformed::BadLength));
        assert!(Packet::new_checked(&out[..14], Word::Absent).is_ok());
        assert_eq!(Packet::new_checked(&out[..9], Word::Present), Err(Malformed::BadHeaderLength));
        assert_eq!(Packet::new_checked(&out[..3], Word::Absent), Err(Malformed::Short));
        assert_eq!(repr.emit(&entries, &mut out[..9]), Err(NoRoom));
        assert_eq!(repr.emit(&[Entry::default(); 128], &mut [0; 300]), Err(NoRoom));
    }

    proptest! {
        #[test]
        fn what_is_emitted_is_parsed(
            flow in 0u8..8, sequence: u16, word: Option<u16>,
            pieces in prop::collection::vec((any::<(bool, bool)>(), prop::collection::vec(any::<u8>(), 0..30)), 0..10),
        ) {
            let repr = Repr { flow, sequence, word };
            let entries: Vec<_> = pieces.iter().map(|((b, e), bytes)| Entry::of(*b, *e, bytes.len())).collect();
            let mut out = std::vec![0xee; repr.header_len(pieces.len())];
            prop_assert_eq!(repr.emit(&entries, &mut out), Ok(out.len()));
            out.extend(pieces.iter().flat_map(|(_, bytes)| bytes));
            let with = if word.is_some() { Word::Present } else { Word::Absent };
            let packet = Packet::new_checked(&out, with).unwrap();
            prop_assert_eq!((packet.flow(), packet.sequence(), packet.word()), (flow, Some(sequence), word));
            let back: Vec<_> = packet.segments().map(|s| ((s.begin, s.end), s.bytes.to_vec())).collect();
            prop_assert_eq!(back, pieces);
        }
    }
}
