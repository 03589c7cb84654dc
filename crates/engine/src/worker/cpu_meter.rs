//! CPU time of a worker's thread beside the time stamp counter: what passed while it was not running.

use table::hint::{TscClock, thread_cpu_ns, tsc};

/// Tells time in which the worker ran from time in which it was preempted or its CPU was given to another machine (stolen).
///
/// The thread's CPU time takes a system call to read. It is read once a millisecond, after each sleep, and after each turn
/// that lasted suspiciously long; what was not running is then taken off what that turn is charged, or off the next ones.
pub(super) struct CpuMeter {
    clock: TscClock,
    /// Both clocks at the last reading; cycles, and nanoseconds of CPU time.
    at: u64,
    cpu_ns: u64,
    /// Whoever drives the worker has begun to measure.
    on: bool,
    /// Cycles of turns since the last reading.
    turned: u64,
    /// Cycles found not running that nothing was taken off for yet.
    owed: u64,
    /// Cycles of a turn that is read at once, and between readings.
    long: u64,
    every: u64,
}

/// Nanoseconds of a turn after which the CPU time is read at once.
const LONG_NS: u64 = 50_000;
/// Nanoseconds between readings.
const EVERY_NS: u64 = 1_000_000;

impl CpuMeter {
    /// One that measures nothing before [`CpuMeter::begin`], which is called by the thread it is about.
    pub fn new() -> Self {
        let clock = TscClock::start();
        let (long, every) = (clock.ticks(LONG_NS), clock.ticks(EVERY_NS));
        Self { clock, at: tsc(), cpu_ns: 0, on: false, turned: 0, owed: 0, long, every }
    }

    /// Begins to measure, here and now: at the start, and after a sleep. Returns the thread's CPU time in nanoseconds.
    pub fn begin(&mut self) -> u64 {
        self.cpu_ns = thread_cpu_ns();
        self.at = tsc();
        (self.on, self.turned) = (true, 0);
        self.cpu_ns
    }

    /// Whether a turn of so many cycles that ended `now` is to be followed by a reading.
    #[inline]
    pub fn is_due(&mut self, turn: u64, now: u64) -> bool {
        self.turned += turn;
        self.on && (turn >= self.long || now.wrapping_sub(self.at) >= self.every)
    }

    /// Reads the CPU time. Returns cycles that passed since the last reading while the thread was not running, and the
    /// thread's CPU time in nanoseconds.
    #[cold]
    pub fn read(&mut self) -> (u64, u64) {
        let cpu_ns = thread_cpu_ns();
        let now = tsc();
        let passed = now.wrapping_sub(self.at);
        let ran = self.clock.ticks(cpu_ns.saturating_sub(self.cpu_ns));
        // Time between turns was not charged.
        let away = passed.saturating_sub(ran).min(self.turned);
        (self.at, self.cpu_ns, self.turned) = (now, cpu_ns, 0);
        // A reading takes a few hundred cycles itself, and the two clocks run apart by a few in a million.
        let away = if away > passed / 256 + 1000 { away } else { 0 };
        self.owed += away;
        (away, cpu_ns)
    }

    /// Takes what is owed off the charges of a turn, the largest first.
    #[inline]
    pub fn settle<const N: usize>(&mut self, charges: [&mut u64; N]) {
        if self.owed > 0 {
            self.take_off(charges);
        }
    }

    #[cold]
    fn take_off<const N: usize>(&mut self, mut charges: [&mut u64; N]) {
        charges.sort_unstable_by(|a, b| b.cmp(a));
        for charge in charges {
            let off = self.owed.min(*charge);
            *charge -= off;
            self.owed -= off;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_owed_comes_off_the_largest_charge_first() {
        let mut meter = CpuMeter::new();
        meter.owed = 130;
        let (mut rx, mut tx) = (20, 100);
        meter.settle([&mut rx, &mut tx]);
        assert_eq!((rx, tx, meter.owed), (0, 0, 10));
        let (mut rx, mut tx) = (20, 100);
        meter.settle([&mut rx, &mut tx]);
        assert_eq!((rx, tx, meter.owed), (20, 90, 0));
    }

    #[cfg(not(miri))]
    #[test]
    fn time_not_running_is_found() {
        let mut meter = CpuMeter::new();
        meter.begin();
        let begin = tsc();
        std::thread::sleep(std::time::Duration::from_millis(20));
        assert!(meter.is_due(tsc() - begin, tsc()));
        let (away, cpu_ns) = meter.read();
        let ms = meter.clock.ns(away) / 1_000_000;
        assert!(ms >= 15, "{ms} of 20 ms not running");
        assert!(cpu_ns > 0);
        std::thread::sleep(std::time::Duration::from_millis(20));
        assert_eq!(meter.read().0, 0, "between turns");
    }
}
