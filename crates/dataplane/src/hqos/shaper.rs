//! A token bucket that a flow waits for.

use table::bucket::{self, Config, Rate};

/// Nanoseconds of its rate a flow that waits may catch up with when the scheduler looks late; else lateness would be
/// lost for good, and rates fall short.
const LATENESS_NS: u64 = 2_000_000;

/// One bucket that may be there.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shaper {
    pub(super) config: Config,
    late: i64,
    pub(super) state: bucket::State,
}

impl Shaper {
    pub(super) fn new(rate: Option<u64>, burst: u64, now: u64) -> Self {
        let rate = rate.map_or(Rate::UNLIMITED, Rate::bps);
        let config = Config::new(rate, burst);
        let late = Config::over(rate, LATENESS_NS, 0).depth.min(i64::MAX - config.depth);
        Self { config, late, state: bucket::State::full(&config, now) }
    }

    /// Whether it limits nothing.
    #[inline]
    pub(super) fn is_open(&self) -> bool {
        self.config.rate == Rate::UNLIMITED
    }

    /// The flow begins to wait again: no more credit than the burst.
    #[inline]
    pub(super) fn awake(&mut self, now: u64) {
        self.state.credit = self.state.credit.min(self.config.depth);
        bucket::refill(&self.config, &mut self.state, now);
    }

    #[inline]
    pub(super) fn affords(&mut self, now: u64, bytes: u32) -> bool {
        let deep = Config { depth: self.config.depth + self.late, ..self.config };
        bucket::affords(&deep, &mut self.state, now, bytes)
    }

    /// The most credit it can have.
    pub(super) fn most(&self) -> i64 {
        self.config.depth.saturating_add(self.late)
    }

    #[inline]
    pub(super) fn ready_at(&self, bytes: u32) -> u64 {
        bucket::ready_at(&self.config, &self.state, bytes).unwrap_or(u64::MAX)
    }
}
