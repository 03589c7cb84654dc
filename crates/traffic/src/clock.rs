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
    /// What two hosts agree on: the monotonic clock since a moment, that moment's time, and nanoseconds that are gained in
    /// each second of the monotonic clock.
    Common(Instant, u64, i32),
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

    /// `now_ns` now; from now on the monotonic clock, gaining so many nanoseconds a second (a loss if below 0).
    pub fn common(now_ns: u64, gain_ppb: i32) -> Self {
        Self::Common(Instant::now(), now_ns, gain_ppb)
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
            Self::Common(start, at, gain_ppb) => {
                let passed = start.elapsed().as_nanos() as i64;
                let gained = i128::from(passed) * i128::from(*gain_ppb) / 1_000_000_000;
                at.saturating_add_signed(passed + gained as i64)
            }
            Self::Tsc(clock) => clock.now_ns(),
            Self::Simulated(hand) => hand.load(Ordering::Relaxed),
        }
    }
}
