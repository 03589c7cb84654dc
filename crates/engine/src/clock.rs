//! Clocks: cycles for cost, nanoseconds for behaviour.

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
