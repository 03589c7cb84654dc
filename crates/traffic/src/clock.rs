//! Where "now" comes from, for the parts that must ask by themselves.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use table::hint::TscClock;

/// A clock in nanoseconds since some moment. Clones tell the same time, on any thread.
#[derive(Clone)]
pub enum Clock {
    /// The monotonic clock: exact; about 25 ns to read.
    Monotonic(Instant),
    /// The time stamp counter: about 10 ns to read, its rate measured once to some parts in 10⁵.
    Tsc(TscClock),
    /// Set by a test.
    Simulated(Arc<AtomicU64>),
}

impl Clock {
    /// The monotonic clock, 0 now.
    pub fn monotonic() -> Self {
        Self::Monotonic(Instant::now())
    }

    /// The time stamp counter, 0 now.
    pub fn tsc() -> Self {
        Self::Tsc(TscClock::start())
    }

    /// A clock that stands at 0, and what moves it.
    pub fn simulated() -> (Self, Arc<AtomicU64>) {
        let hand = Arc::new(AtomicU64::new(0));
        (Self::Simulated(hand.clone()), hand)
    }

    /// Nanoseconds since its moment.
    #[inline]
    pub fn now_ns(&self) -> u64 {
        match self {
            Self::Monotonic(start) => start.elapsed().as_nanos() as u64,
            Self::Tsc(clock) => clock.now_ns(),
            Self::Simulated(hand) => hand.load(Ordering::Relaxed),
        }
    }
}
