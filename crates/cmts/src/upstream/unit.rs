//! Data units: one burst each, in pieces (CM-SP-R-UEPI).

use engine::Drop;
use serde::{Deserialize, Serialize};
use wire::{psp, uepi};

use crate::drops;

/// What a pseudowire has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnitCounts {
    /// PSP packets.
    pub packets: u64,
    /// PSP packets missing before others.
    pub packets_lost: u64,
    /// Bursts, whole.
    pub bursts: u64,
    /// Grants in which no burst was seen.
    pub no_bursts: u64,
    /// Codewords that could not be corrected.
    pub uncorrected: u64,
}

impl UnitCounts {
    /// The sum of both.
    pub fn plus(self, other: &Self) -> Self {
        Self {
            packets: self.packets + other.packets,
            packets_lost: self.packets_lost + other.packets_lost,
            bursts: self.bursts + other.bursts,
            no_bursts: self.no_bursts + other.no_bursts,
            uncorrected: self.uncorrected + other.uncorrected,
        }
    }
}

/// The data unit a pseudowire is receiving.
pub struct Unit {
    /// Header of the unit, while there is one.
    header: Option<uepi::Header>,
    bytes: Vec<u8>,
    most: usize,
    next: Option<u16>,
    /// What it has counted.
    pub counts: UnitCounts,
}

impl Unit {
    /// Room for units of up to `most` bytes.
    pub fn new(most: usize) -> Self {
        Self { header: None, bytes: Vec::with_capacity(most), most, next: None, counts: UnitCounts::default() }
    }

    /// Notes the number of a packet. After a gap the unit under way is lost: its bytes.
    pub fn number(&mut self, sequence: Option<u16>) -> Option<usize> {
        self.counts.packets += 1;
        let sequence = sequence?;
        let expected = self.next.replace(sequence.wrapping_add(1));
        let missing = sequence.wrapping_sub(expected.unwrap_or(sequence));
        if missing == 0 {
            return None;
        }
        // Half of all numbers are the past: packets that overtook each other on the way.
        self.counts.packets_lost += if missing < 0x8000 { u64::from(missing) } else { 0 };
        self.give_up()
    }

    /// The number of the next packet, once one has come.
    pub fn expected(&self) -> Option<u16> {
        self.next
    }

    /// The header of the unit that is under way.
    pub fn begun(&self) -> Option<[u8; uepi::Header::LEN]> {
        let mut bytes = [0; uepi::Header::LEN];
        self.header?.emit(&mut bytes).ok()?;
        Some(bytes)
    }

    /// Its payload so far.
    pub fn payload(&self) -> &[u8] {
        &self.bytes
    }

    /// Goes on with a unit that was begun elsewhere, as far as it has come; none: between units.
    pub fn resume(&mut self, next: u16, header: Option<uepi::Header>, payload: &[u8]) {
        (self.next, self.header) = (Some(next), header);
        self.bytes.clear();
        self.bytes.extend_from_slice(&payload[..payload.len().min(self.most)]);
    }

    /// Gives up the unit under way: its bytes.
    pub fn give_up(&mut self) -> Option<usize> {
        let lost = self.header.take().map(|_| self.bytes.len());
        self.bytes.clear();
        lost
    }

    /// Takes a segment. True: the unit is complete.
    pub fn segment(&mut self, segment: &psp::Segment<'_>) -> Result<bool, (Drop, usize)> {
        let len = segment.bytes.len();
        if segment.begin {
            // A unit that was not ended is broken, but does not spoil the next.
            let before = self.give_up();
            self.header = uepi::Header::parse(segment.bytes).ok();
            if self.header.is_none() {
                return Err((drops::UEPI_MALFORMED, len + before.unwrap_or(0)));
            }
            if segment.end {
                // Nothing but a header: no burst, or a unit without trailer.
                self.header = None;
                self.counts.no_bursts += 1;
            }
            return before.map_or(Ok(false), |bytes| Err((drops::UEPI_MALFORMED, bytes)));
        }
        if self.header.is_none() {
            return Err((drops::SEGMENT_LOST, len));
        }
        if segment.end {
            let Ok(trailer) = uepi::Trailer::parse(segment.bytes) else {
                let before = self.give_up().unwrap_or(0);
                return Err((drops::UEPI_MALFORMED, len + before));
            };
            self.counts.uncorrected += u64::from(trailer.uncorrected);
            if self.header.is_some_and(|header| header.no_burst) {
                self.give_up();
                self.counts.no_bursts += 1;
                return Ok(false);
            }
            self.counts.bursts += 1;
            return Ok(true);
        }
        if self.bytes.len() + len > self.most {
            let before = self.give_up().unwrap_or(0);
            return Err((drops::UEPI_MALFORMED, len + before));
        }
        self.bytes.extend_from_slice(segment.bytes);
        Ok(false)
    }

    /// The complete unit: header and payload. The payload's memory comes back by [`Unit::restore`].
    pub fn complete(&mut self) -> (uepi::Header, Vec<u8>) {
        (self.header.take().unwrap_or_default(), std::mem::take(&mut self.bytes))
    }

    /// Takes the memory back.
    pub fn restore(&mut self, mut bytes: Vec<u8>) {
        bytes.clear();
        self.bytes = bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segment(begin: bool, end: bool, bytes: &[u8]) -> psp::Segment<'_> {
        psp::Segment { begin, end, bytes }
    }

    #[test]
    fn a_unit_is_put_together_and_broken_ones_are_told() {
        let (head, tail) = ([0u8, 5, 0, 7, 0, 0, 0, 1], [0u8; 16]);
        let mut unit = Unit::new(10);
        assert_eq!(unit.number(Some(4)), None);
        assert_eq!(unit.segment(&segment(false, false, b"x")), Err((drops::SEGMENT_LOST, 1)));
        assert_eq!(unit.segment(&segment(true, false, &head)), Ok(false));
        assert_eq!(unit.segment(&segment(false, false, b"abc")), Ok(false));
        assert_eq!(unit.number(Some(5)), None);
        assert_eq!(unit.segment(&segment(false, false, b"def")), Ok(false));
        assert_eq!(unit.segment(&segment(false, true, &tail)), Ok(true));
        let (header, bytes) = unit.complete();
        assert_eq!((header.sid, &bytes[..]), (7, &b"abcdef"[..]));
        unit.restore(bytes);
        assert_eq!(unit.segment(&segment(true, false, &head)), Ok(false));
        assert_eq!(unit.segment(&segment(false, false, b"0123456789")), Ok(false));
        assert_eq!(unit.segment(&segment(false, false, b"0")), Err((drops::UEPI_MALFORMED, 11)), "no end of it");
        assert_eq!(unit.segment(&segment(true, false, &head)), Ok(false));
        assert_eq!(unit.segment(&segment(true, false, &head)), Err((drops::UEPI_MALFORMED, 0)), "two beginnings");
        assert_eq!(unit.segment(&segment(false, false, b"abc")), Ok(false), "the second is good");
        assert_eq!(unit.number(Some(9)), Some(3), "a packet is missing");
        assert_eq!(unit.segment(&segment(false, true, &tail)), Err((drops::SEGMENT_LOST, 16)));
        assert_eq!(unit.segment(&segment(true, false, &[0x80; 8])), Err((drops::UEPI_MALFORMED, 8)));
        assert_eq!((unit.counts.bursts, unit.counts.packets_lost), (1, 3));
    }
}
