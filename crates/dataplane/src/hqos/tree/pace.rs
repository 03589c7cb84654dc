//! A maximum rate that a leaf or a node waits for.

use table::bucket::{self, Config, Rate};

/// Nanoseconds of its rate that may be caught up with when the scheduler looks late: else lateness would be lost for good,
/// and rates fall short.
const LATENESS_NS: u64 = 2_000_000;

/// A token bucket that lets a packet go as soon as it owes nothing, whatever the packet's length: after a long packet, a
/// short one of a higher class waits no longer than the long one took.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    config: Config,
    state: bucket::State,
}

impl Pace {
    pub fn new(config: Config, now: u64) -> Self {
        Self { config, state: bucket::State::full(&config, now) }
    }

    /// Of no rate: it limits nothing.
    pub fn open() -> Self {
        Self::new(Config::new(Rate::UNLIMITED, 0), 0)
    }

    #[inline(always)]
    fn is_open(&self) -> bool {
        self.config.rate == Rate::UNLIMITED
    }

    /// What it was given, and what was earned.
    pub fn parts(&self) -> (Config, bucket::State) {
        (self.config, self.state)
    }

    /// Goes on with what another of the same rate, or of one that is in its place, had earned.
    pub fn go_on(&mut self, (config, mut state): (Config, bucket::State)) {
        let now = state.last_ns;
        bucket::retune(&config, &self.config, &mut state, now);
        self.state = state;
    }

    /// Another rate; what was earned stays.
    pub fn change(&mut self, config: Config, now: u64) {
        bucket::retune(&self.config, &config, &mut self.state, now);
        self.config = config;
    }

    /// Something waits again: no more credit than the burst.
    #[inline(always)]
    pub fn awake(&mut self, now: u64) {
        if !self.is_open() {
            self.state.credit = self.state.credit.min(self.config.depth);
            bucket::refill(&self.config, &mut self.state, now);
        }
    }

    /// None: a packet may go now. Else when, in nanoseconds; `u64::MAX`: never at this rate.
    #[inline(always)]
    pub fn wait(&mut self, now: u64) -> Option<u64> {
        if self.is_open() {
            return None;
        }
        let late = Config::over(self.config.rate, LATENESS_NS, 0).depth;
        let deep = Config { depth: self.config.depth.saturating_add(late), ..self.config };
        bucket::refill(&deep, &mut self.state, now);
        if self.state.credit >= 0 { None } else { Some(self.ready_at()) }
    }

    fn ready_at(&self) -> u64 {
        let owed = self.state.credit.unsigned_abs();
        match self.config.rate.0 {
            0 => u64::MAX,
            rate => self.state.last_ns.saturating_add(owed.div_ceil(rate)),
        }
    }

    /// A packet goes.
    #[inline(always)]
    pub fn spend(&mut self, bytes: u32) {
        if !self.is_open() {
            bucket::take(&mut self.state, bytes);
        }
    }
}
