//! A clock that only a gateway's own work moves: where the far ends of its ports are on the worker's thread, what they
//! take to make and to check packets is not in it. Queues, rates and channels that go by it stand as they would if
//! packets came from elsewhere. Or one that the packets move which the far ends make: then they come at a rate that is in a
//! fixed relation to the gateway's, however fast it works.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use engine::Time;
use traffic::Clock;

/// The clock of one worker. Its clones are the same clock.
#[derive(Clone, Debug)]
pub struct WorkClock {
    now_ns: Arc<AtomicU64>,
    skip_ns: Arc<AtomicU64>,
    by_packets: bool,
}

/// It begins as late as the machine's clock of workers does: what happened in an earlier run has a time as well.
const BEGIN_NS: u64 = 1 << 52;

impl Default for WorkClock {
    fn default() -> Self {
        Self { now_ns: Arc::new(AtomicU64::new(BEGIN_NS)), skip_ns: Arc::default(), by_packets: false }
    }
}

impl WorkClock {
    /// A clock that stands still but for [`WorkClock::advance`].
    pub fn by_packets() -> Self {
        Self { by_packets: true, ..Self::default() }
    }

    /// Whether work does not move it.
    pub fn is_by_packets(&self) -> bool {
        self.by_packets
    }

    /// Moves it on.
    pub fn advance(&self, ns: u64) {
        // Nobody else moves it: no read-modify-write is needed.
        self.now_ns.store(self.now_ns() + ns, Ordering::Relaxed);
    }

    /// Now, in nanoseconds.
    pub fn now_ns(&self) -> u64 {
        self.now_ns.load(Ordering::Relaxed)
    }

    /// For the worker.
    pub fn time(&self) -> Time {
        Time::Simulated(self.now_ns.clone())
    }

    /// For the far ends of its ports.
    pub fn clock(&self) -> Clock {
        Clock::Simulated(self.now_ns.clone())
    }

    /// From now on each turn without packets moves it so many nanoseconds further: time without work passes at once. 0:
    /// no more.
    pub fn skip_idle(&self, ns: u64) {
        self.skip_ns.store(ns, Ordering::Relaxed);
    }
}

/// What moves a [`WorkClock`]: the worker has one.
#[derive(Debug)]
pub(crate) struct Mover {
    clock: WorkClock,
    /// Ticks of the time stamp counter a second.
    hz: u64,
    /// Ticks that are no whole nanosecond yet, by a thousand million.
    rest: u128,
}

impl Mover {
    /// Of that clock; a work of `hz` ticks takes a second.
    pub fn new(clock: WorkClock, hz: u64) -> Self {
        Self { clock, hz: hz.max(1), rest: 0 }
    }

    /// The worker worked so many ticks, in a turn that `moved` packets or did not. No turn works for 5 ms: the rest is the time of
    /// others, to whom its CPU went as it was measured.
    pub fn worked(&mut self, ticks: u64, moved: bool) {
        let ticks = ticks.min(self.hz / 200);
        let all = u128::from(ticks) * 1_000_000_000 + self.rest;
        self.rest = all % u128::from(self.hz);
        let skip = if moved { 0 } else { self.clock.skip_ns.load(Ordering::Relaxed) };
        let ns = (all / u128::from(self.hz)) as u64 + skip; // a turn's nanoseconds
        self.clock.advance(ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_work_moves_it() {
        let clock = WorkClock::default();
        let mut mover = Mover::new(clock.clone(), 3_000_000_000);
        let begin = clock.now_ns();
        assert_eq!(clock.clock().now_ns(), begin);
        // Three turns of a third of a nanosecond each are one.
        (0..3).for_each(|_| mover.worked(1, true));
        assert_eq!(clock.now_ns() - begin, 1);
        mover.worked(3_000, false);
        assert_eq!(clock.now_ns() - begin, 1_001);
        clock.skip_idle(500);
        mover.worked(0, true);
        assert_eq!(clock.now_ns() - begin, 1_001, "packets came");
        mover.worked(0, false);
        assert_eq!((clock.now_ns() - begin, clock.time().now_ns(7)), (1_501, begin + 1_501));
    }
    #[test]
    fn no_turn_works_for_long() {
        let clock = WorkClock::default();
        let begin = clock.now_ns();
        Mover::new(clock.clone(), 3_000_000_000).worked(60_000_000, true);
        assert_eq!(clock.now_ns() - begin, 5_000_000, "not 20 ms");
    }
}
