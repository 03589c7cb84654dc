//! What every test packet carries, so that the receiver can tell what became of it.
//!
//! ```text
//! |  magic (2)  |  flow (4)  |  sequence (4)  |  sent, ns (8)  |   the start of the user's UDP payload
//! ```

use wire::fast;

use crate::direction::Direction;

/// The mark of one packet: 18 bytes, big-endian, at the start of the user's UDP payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signature {
    /// Which way it was sent; told by the magic number.
    pub direction: Direction,
    /// The flow's number, see [`crate::Plan`].
    pub flow: u32,
    /// Its place in the flow, from 0, without gaps.
    pub seq: u32,
    /// When it was made, in nanoseconds of the generator's clock.
    pub sent_ns: u64,
}

impl Signature {
    /// Bytes it takes.
    pub const LEN: usize = 18;

    /// The first two bytes of a signature of that direction.
    #[inline]
    pub const fn magic(direction: Direction) -> u16 {
        match direction {
            Direction::Uplink => 0x57e1,
            Direction::Downlink => 0x57ed,
        }
    }

    #[inline(always)]
    pub fn write(&self, to: &mut [u8; Self::LEN]) {
        to[..2].copy_from_slice(&Self::magic(self.direction).to_be_bytes());
        to[2..6].copy_from_slice(&self.flow.to_be_bytes());
        to[6..10].copy_from_slice(&self.seq.to_be_bytes());
        to[10..].copy_from_slice(&self.sent_ns.to_be_bytes());
    }

    /// Reads it from the start of a UDP payload; none when it is too short or bears no magic number.
    #[inline]
    pub fn read(payload: &[u8]) -> Option<Self> {
        let bytes: &[u8; Self::LEN] = payload.first_chunk()?;
        let magic = u16::from_be_bytes([bytes[0], bytes[1]]);
        let direction = Direction::BOTH.into_iter().find(|d| Self::magic(*d) == magic)?;
        let (flow, seq, sent_ns) = (fast::be32(bytes, 2)?, fast::be32(bytes, 6)?, fast::be64(bytes, 10)?);
        Some(Self { direction, flow, seq, sent_ns })
    }

    /// The sum of its words, magic number left out, for a checksum accumulator.
    #[inline(always)]
    pub(crate) const fn sum(&self) -> u64 {
        self.flow as u64 + self.seq as u64 + (self.sent_ns >> 32) + (self.sent_ns & 0xffff_ffff)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_bytes_are_as_drawn() {
        let mark = Signature { direction: Direction::Downlink, flow: 1, seq: 2, sent_ns: 3 };
        let mut bytes = [0xaa; Signature::LEN];
        mark.write(&mut bytes);
        assert_eq!(bytes, [0x57, 0xed, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 3]);
        assert_eq!(Signature::read(&bytes[..17]), None);
        bytes[1] = 0;
        assert_eq!(Signature::read(&bytes), None);
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(down: bool, flow: u32, seq: u32, sent_ns: u64) {
            let direction = if down { Direction::Downlink } else { Direction::Uplink };
            let mark = Signature { direction, flow, seq, sent_ns };
            let mut bytes = [0; Signature::LEN];
            mark.write(&mut bytes);
            prop_assert_eq!(Signature::read(&bytes), Some(mark));
            let whole = u64::from(Signature::magic(direction)) + mark.sum();
            prop_assert_eq!(wire::checksum::fold(whole), wire::checksum::sum(&bytes));
        }
    }
}
