//! The clock a thread's core gave it in a window.
//!
//! Nanoseconds of a machine that is shared with others, or that saves power, are worth more or less work from one day to
//! the next; cycles of its core are not. So each window of measurement takes the core's clock as it goes: a piece of a
//! microsecond ([`table::hint::core_hz`]) a millisecond, between turns, where no part of a packet's cost is counted. What
//! it says is the rate at which instructions that wait for each other went through the core. It does not say what a
//! neighbour on the same core (SMT), in its last-level cache or on its memory took: that is in a packet's cycles. Nor is
//! time in it that the hypervisor gave to others altogether, for most pieces are not interrupted.

use table::hint::{core_hz, tsc, tsc_hz};

use crate::window::median;

/// Pieces kept: the last ones, of a window that is longer.
const PIECES: usize = 256;

/// Takes the core's clock between a thread's turns.
pub struct CoreClock {
    every: u64,
    due: u64,
    count: usize,
    pieces: [f64; PIECES],
}

impl CoreClock {
    /// From now on.
    pub fn start() -> Self {
        Self { every: tsc_hz() / 1000, due: tsc(), count: 0, pieces: [0.0; PIECES] }
    }

    /// Between two turns: measures a piece if one is due.
    #[inline]
    pub(crate) fn between_turns(&mut self) {
        let now = tsc();
        if now.wrapping_sub(self.due) as i64 >= 0 {
            self.due = now.wrapping_add(self.every);
            if let Some(hz) = core_hz() {
                self.pieces[self.count % PIECES] = hz;
                self.count += 1;
            }
        }
    }

    /// The median piece, in Hz; none where the clock cannot be taken.
    pub fn hz(&self) -> Option<f64> {
        (self.count > 0).then(|| median(self.pieces.into_iter().take(self.count)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_the_last_pieces_counts() {
        let mut clock = CoreClock::start();
        assert_eq!(clock.hz(), None);
        clock.between_turns();
        assert_eq!(clock.count, usize::from(core_hz().is_some()), "the first is due at once");
        clock.pieces[..3].copy_from_slice(&[2e9, 1e8, 2.5e9]);
        clock.count = 3;
        assert_eq!(clock.hz(), Some(2e9));
        (clock.pieces, clock.count) = ([3e9; PIECES], PIECES + 7);
        assert_eq!(clock.hz(), Some(3e9));
    }
}
