//! Clocks: cycles for cost, nanoseconds for behaviour.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What a pipeline charges its stages by.
pub trait Clock {
    /// A reading in cycles.
    fn cycles() -> u64;
}

/// The processor's time stamp counter.
pub struct Tsc;

impl Clock for Tsc {
    #[inline(always)]
    fn cycles() -> u64 {
        table::hint::tsc()
    }
}

/// No clock at all: the twin that shows what observing costs.
pub struct NoClock;

impl Clock for NoClock {
    #[inline(always)]
    fn cycles() -> u64 {
        0
    }
}

/// The workers' time beside the calendar's.
#[derive(Clone, Copy, Debug, Default)]
pub struct WallClock {
    /// The workers' time, in nanoseconds.
    pub now: u64,
    /// Nanoseconds from 1970 to the workers' time 0.
    pub epoch_ns: u64,
}

impl WallClock {
    /// Seconds since 1970 of a time of the workers'.
    pub fn unix(&self, ns: u64) -> u64 {
        (self.epoch_ns + ns) / 1_000_000_000
    }
}

/// Which bursts are timed stage by stage, and what a look at the clock costs.
///
/// A look costs 10 to 20 ns: little beside a stage's work on a full burst, more than the work on a lone packet. So some
/// bursts, chosen at random, are timed and stand for the others: of small ones, which a light load brings, fewer.
pub struct Looks {
    random: Cell<u32>,
    cost: u64,
}

/// Packets of a burst that is not small.
const MANY: u32 = 16;
/// Of bursts that are not small one in 2^this is timed.
const ONE_IN: u32 = 2;
/// Of small ones.
const ONE_IN_SMALL: u32 = 3;
/// Cycles that no stage takes for a burst: the worker was not running. The worker counts them, not the stage.
const STALL: u64 = 1 << 17;

impl Default for Looks {
    fn default() -> Self {
        Self { random: Cell::new(1), cost: table::hint::tsc_cost() }
    }
}

impl Looks {
    /// How many bursts a burst of so many packets stands for when timed; 0: it is not.
    #[inline(always)]
    pub(crate) fn weight(&self, packets: u32) -> u64 {
        let one_in = if packets >= MANY { ONE_IN } else { ONE_IN_SMALL };
        let random = self.random.get().wrapping_mul(747_796_405).wrapping_add(2_891_336_453);
        self.random.set(random);
        if random >> (u32::BITS - one_in) == 0 { 1 << one_in } else { 0 }
    }

    /// What so many cycles from a look to the next stand for, what the look itself takes taken off.
    #[inline(always)]
    pub(crate) fn stand_for(&self, cycles: u64, weight: u64) -> u64 {
        let spent = cycles.saturating_sub(self.cost);
        if spent < STALL { spent * weight } else { 0 }
    }
}

/// The begin of work that no pipeline does, as the clock had it; see [`crate::Env::look`].
#[must_use = "a look is for charging what is done after it"]
pub struct Look {
    from: u64,
    weight: u64,
}

impl Look {
    #[inline(always)]
    pub(crate) fn at<C: Clock>(looks: &Looks) -> Self {
        let weight = looks.weight(MANY);
        Self { from: if weight == 0 { 0 } else { C::cycles() }, weight }
    }

    /// Cycles since, for all that this look stands for.
    #[inline(always)]
    pub(crate) fn spent<C: Clock>(self, looks: &Looks) -> u64 {
        if self.weight == 0 {
            return 0;
        }
        looks.stand_for(C::cycles().wrapping_sub(self.from), self.weight)
    }
}

/// Where a worker takes the time of its bursts from, in nanoseconds since some start.
#[derive(Clone)]
pub enum Time {
    /// The machine's.
    Real(table::hint::TscClock),
    /// Set by hand, for tests.
    Simulated(Arc<AtomicU64>),
}

/// The machine's clock begins there, some 52 days in: what happened in an earlier run has a time as well.
const PAST: u64 = 1 << 52;

impl Time {
    /// The machine's clock.
    pub fn real() -> Self {
        Self::Real(table::hint::TscClock::start())
    }

    /// The machine's clock as another process of this machine has it: see [`origin`](Self::origin).
    pub fn since((origin, hz): (u64, u64)) -> Self {
        Self::Real(table::hint::TscClock::new(origin, hz))
    }

    /// The tick of the machine's time stamp counter at which this clock began, and its ticks a second; none: it is simulated.
    pub fn origin(&self) -> Option<(u64, u64)> {
        match self {
            Self::Real(clock) => Some((clock.origin(), clock.hz())),
            Self::Simulated(_) => None,
        }
    }

    /// A simulated clock, starting at `ns`, and the hand to turn it with.
    pub fn simulated(ns: u64) -> (Self, Arc<AtomicU64>) {
        let hand = Arc::new(AtomicU64::new(ns));
        (Self::Simulated(hand.clone()), hand)
    }

    /// Now, given a fresh reading of the cycle counter.
    #[inline]
    pub fn now_ns(&self, cycles: u64) -> u64 {
        match self {
            Self::Real(clock) => PAST + clock.at(cycles),
            Self::Simulated(hand) => hand.load(Ordering::Relaxed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timed_bursts_stand_for_all_of_them() {
        let looks = Looks::default();
        // Of two kinds of bursts in turns, neither is overlooked.
        for least in [1, MANY] {
            let mut stands_for = [0; 2];
            for n in 0..80_000 {
                stands_for[n % 2] += looks.weight(least + n as u32 % 5);
            }
            assert!(stands_for.iter().all(|sum| (38_000..42_000).contains(sum)), "{stands_for:?} of 40,000 each");
        }
        // A pause of the processor is no stage's.
        let looks = Looks { cost: 20, ..looks };
        assert_eq!([10, 120, STALL + 20].map(|cycles| looks.stand_for(cycles, 4)), [0, 400, 0]);
    }
}
