//! Upstream segments of continuous concatenation and fragmentation (CM-SP-MULPI, segment header format).
//!
//! ```text
//! | PFI 0x8000, R 0x4000, PTR 0x3fff | SEQ 0xfff8, SID cluster 0x7 | request, 2 | HCS, 2 | …
//! ```
//!
//! The segments of a SID cluster, in order of SEQ, are one stream of MAC frames without gaps. PFI: a frame begins `PTR`
//! bytes behind the segment's header. The HCS covers the six bytes before it.

use crate::fast::{at16, part, put, put16};
use crate::{Malformed, NoRoom, crc};

/// The header's length, in bytes.
pub const HEADER_LEN: usize = 8;
/// The sequence number is less than this.
pub const SEQUENCES: u16 = 1 << 13;
/// What fills a segment behind the last frame.
pub const FILL: u8 = 0xff;

/// The header as values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repr {
    /// Where the first frame that begins in the segment does, in bytes behind the header; none: no frame begins in it.
    pub pointer: Option<u16>,
    /// The segment's number in its cluster, 13 bits.
    pub sequence: u16,
    /// SID cluster, 3 bits.
    pub cluster: u8,
    /// Bandwidth asked for, in units of the cluster's configuration.
    pub request: u16,
}

impl Repr {
    /// Reads the header at the front of a segment. Guarantees a right HCS and a pointer within the segment.
    #[inline]
    pub fn parse(segment: &[u8]) -> Result<Repr, Malformed> {
        if segment.len() < HEADER_LEN {
            return Err(Malformed::Short);
        }
        if crc::hcs(part(segment, 0, 6)).to_le_bytes() != *part(segment, 6, 8) {
            return Err(Malformed::BadHcs);
        }
        let (first, second) = (at16(segment, 0), at16(segment, 2));
        let pointer = (first & 0x8000 != 0).then_some(first & 0x3fff);
        if usize::from(pointer.unwrap_or(0)) > segment.len() - HEADER_LEN {
            return Err(Malformed::BadLength);
        }
        Ok(Repr { pointer, sequence: second >> 3, cluster: second as u8 & 7, request: at16(segment, 4) })
    }

    /// Writes the header to the front of `out`; returns its length.
    pub fn emit(&self, out: &mut [u8]) -> Result<usize, NoRoom> {
        let out = out.get_mut(..HEADER_LEN).ok_or(NoRoom)?;
        let first = self.pointer.map_or(0, |pointer| 0x8000 | pointer & 0x3fff);
        put16(out, 0, first).ok_or(NoRoom)?;
        put16(out, 2, self.sequence << 3 | u16::from(self.cluster & 7)).ok_or(NoRoom)?;
        put16(out, 4, self.request).ok_or(NoRoom)?;
        let check = crc::hcs(part(out, 0, 6)).to_le_bytes();
        put(out, 6, check).ok_or(NoRoom)?;
        Ok(HEADER_LEN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_header_as_it_stands_on_the_wire() {
        let repr = Repr { pointer: Some(5), sequence: 0x1fff, cluster: 2, request: 0x0102 };
        let mut out = [0xee; 13];
        assert_eq!(repr.emit(&mut out), Ok(8));
        assert_eq!(out[..6], [0x80, 5, 0xff, 0xfa, 1, 2]);
        assert_eq!(Repr::parse(&out), Ok(repr));
        assert_eq!(Repr::parse(&out[..12]), Err(Malformed::BadLength));
        assert_eq!(Repr::parse(&out[..7]), Err(Malformed::Short));
        out[3] ^= 8;
        assert_eq!(Repr::parse(&out), Err(Malformed::BadHcs));
        assert_eq!(repr.emit(&mut out[..7]), Err(NoRoom));
    }

    proptest! {
        #[test]
        fn what_is_emitted_is_parsed(
            pointer in prop::option::of(0u16..0x4000), sequence in 0..SEQUENCES, cluster in 0u8..8, request: u16,
        ) {
            let repr = Repr { pointer, sequence, cluster, request };
            let mut out = [0; HEADER_LEN + 0x4000];
            prop_assert_eq!(repr.emit(&mut out), Ok(HEADER_LEN));
            prop_assert_eq!(Repr::parse(&out), Ok(repr));
        }
    }
}
