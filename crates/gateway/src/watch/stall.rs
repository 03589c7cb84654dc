//! Threads that make no turns: reported once, and once when they turn again. An idle thread says until when it sleeps: one
//! that is awake and makes no turn for a quarter of a second, or sleeps so much longer than it said, is held up by
//! something.

use std::time::Duration;

use engine::{Io, StatsView};
use rustix::process::getpid;

use crate::pulse::Doing;

/// Time without a turn after which a worker is reported.
const WORKER: Duration = Duration::from_millis(250);
/// The same of the control thread, whose turns are longer.
const CONTROL: Duration = Duration::from_secs(1);
/// Time without a turn after which a gateway is not ready.
const UNREADY: Duration = Duration::from_secs(2);
/// Time without a turn, though it had a CPU, after which the process should be started again.
const DEAD: Duration = Duration::from_secs(20);

/// Turns of an idle thread between two looks: it was woken now and then.
const FEW: u64 = 10;

/// A thread at a look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sight {
    /// Turns it has made.
    pub turns: u64,
    /// Its number; 0: it has not begun.
    pub thread: i32,
    /// Until when it sleeps, in nanoseconds of the workers' clock; none: it is awake.
    pub asleep_until: Option<u64>,
}

impl Sight {
    /// Nanoseconds that it sleeps still; none: it is awake, or should be.
    fn sleeps_for(&self, now: u64) -> Option<u64> {
        self.asleep_until.and_then(|until| until.checked_sub(now)).filter(|left| *left > 0)
    }
}

/// Until when a worker sleeps, by its own statistics; none: it is awake.
pub fn asleep_until(stats: &StatsView) -> Option<u64> {
    Some(stats.io(Io::SleepsUntil)).filter(|until| *until > 0)
}

/// What is known of a thread.
#[derive(Debug, Default)]
struct Still {
    turns: Option<u64>,
    /// It slept at the last look.
    slept: bool,
    /// Processor time it had used at the last look without a turn.
    ran: Option<u64>,
    /// Time without a turn.
    still: Duration,
    /// Of that: time in which it did not wait for a CPU.
    hung: Duration,
    reported: bool,
}

/// What a look at a thread came to.
enum Change {
    None,
    /// It has made no turn for so long; what it does.
    Stalled(&'static str),
    /// It turns again, after so long.
    Back(Duration),
}

impl Still {
    fn step(&mut self, sight: Sight, now: u64, elapsed: Duration, limit: Duration) -> Change {
        let is_asleep = sight.sleeps_for(now).is_some();
        let slept = std::mem::replace(&mut self.slept, is_asleep);
        if sight.thread == 0 || self.turns.replace(sight.turns) != Some(sight.turns) || is_asleep {
            let back = std::mem::take(&mut self.reported).then_some(self.still);
            *self = Self { turns: self.turns, slept: self.slept, ..Self::default() };
            return back.map_or(Change::None, Change::Back);
        }
        let elapsed = match sight.asleep_until {
            // It should have woken since.
            Some(until) => elapsed.min(Duration::from_nanos(now.saturating_sub(until))),
            // It woke since, nobody knows when.
            None if slept => Duration::ZERO,
            None => elapsed,
        };
        let doing = Doing::of(getpid(), sight.thread);
        let state = match (doing, self.ran) {
            (None, _) => "unknown",
            (Some(doing), Some(ran)) if doing.ran > ran => "running",
            (Some(doing), _) if doing.runnable => "waiting_for_cpu",
            _ => "sleeping",
        };
        self.ran = self.ran.or(doing.map(|doing| doing.ran));
        self.still += elapsed;
        self.hung += if state == "waiting_for_cpu" { Duration::ZERO } else { elapsed };
        if self.still >= limit && !std::mem::replace(&mut self.reported, true) {
            return Change::Stalled(state);
        }
        Change::None
    }
}

/// All threads that must turn.
#[derive(Debug, Default)]
pub struct Stalls {
    workers: Vec<Still>,
    control: Still,
}

impl Stalls {
    /// Whether every thread sleeps, and has hardly turned since the last step: the next may be a while off.
    pub(crate) fn is_quiet(&self, workers: &[Sight], control: Sight, now: u64) -> bool {
        let mut still = self.workers.iter().zip(workers).chain([(&self.control, &control)]);
        let is_quiet = |(still, sight): (&Still, &Sight)| {
            let turned = still.turns.map_or(u64::MAX, |turns| sight.turns.saturating_sub(turns));
            sight.sleeps_for(now).is_some() && turned <= FEW
        };
        self.workers.len() == workers.len() && still.all(is_quiet)
    }

    /// A look at `now`, so long after the one before. Returns what keeps it from being ready, and why it should be started
    /// again.
    pub fn step(
        &mut self,
        workers: Vec<Sight>,
        control: Sight,
        now: u64,
        elapsed: Duration,
    ) -> (Vec<String>, Vec<String>) {
        self.workers.resize_with(workers.len(), Still::default);
        for (worker, (still, sight)) in self.workers.iter_mut().zip(workers).enumerate() {
            match still.step(sight, now, elapsed, WORKER) {
                Change::None => {}
                Change::Stalled(state) => {
                    let ms = still.still.as_millis() as u64;
                    tracing::warn!(
                        target: "worker", event = "worker_stalled", worker, ms, state,
                        "worker {worker} has made no turn for {ms} ms"
                    );
                }
                Change::Back(after) => {
                    let ms = after.as_millis() as u64;
                    tracing::info!(target: "worker", event = "worker_back", worker, ms, "worker {worker} turns again");
                }
            }
        }
        match self.control.step(control, now, elapsed, CONTROL) {
            Change::None => {}
            Change::Stalled(state) => {
                let ms = self.control.still.as_millis() as u64;
                tracing::warn!(
                    target: "process", event = "control_stalled", ms, state, "control has made no turn for {ms} ms"
                );
            }
            Change::Back(after) => {
                let ms = after.as_millis() as u64;
                tracing::info!(target: "process", event = "control_back", ms, "control turns again");
            }
        }
        let named = self.workers.iter().enumerate().map(|(n, still)| (format!("worker {n}"), still));
        let all: Vec<_> = named.chain([("control".to_owned(), &self.control)]).collect();
        let long = |(name, still): &(String, &Still)| {
            (still.still >= UNREADY).then(|| format!("{name} has made no turn for {} s", still.still.as_secs()))
        };
        let dead = |(name, still): &(String, &Still)| {
            (still.hung >= DEAD).then(|| format!("{name} hangs: no turn for {} s", still.still.as_secs()))
        };
        (all.iter().filter_map(long).collect(), all.iter().filter_map(dead).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::tests::emitted;

    const STEP: Duration = Duration::from_millis(50);

    #[test]
    fn a_stalled_worker_is_reported_once_and_when_it_is_back() {
        let control = |turns| Sight { turns, thread: 1, asleep_until: None };
        let records = emitted("info", || {
            let mut stalls = Stalls::default();
            let thread = rustix::thread::gettid().as_raw_pid();
            for step in 0..100 {
                // Worker 0 turns; worker 1 does not from step 10 to step 60.
                let stalled = if (10..60).contains(&step) { 10 } else { step };
                let workers = [step, stalled].map(|turns| Sight { turns, thread, asleep_until: None }).to_vec();
                let (unready, dead) = stalls.step(workers, control(step), 0, STEP);
                assert!(dead.is_empty());
                assert_eq!(!unready.is_empty(), (50..60).contains(&step), "step {step}: {unready:?}");
            }
        });
        let said: Vec<_> = records.iter().map(|record| record.logfmt(false)).collect();
        assert_eq!(said.len(), 2, "{said:?}");
        assert!(said[0].contains("event=worker_stalled worker=1 ms=250 state="), "{said:?}");
        assert!(said[1].contains("event=worker_back worker=1 ms=2450"), "{said:?}");
    }

    #[test]
    fn who_hangs_for_long_is_dead() {
        let mut stalls = Stalls::default();
        let sight = Sight { turns: 7, thread: i32::MAX, asleep_until: None };
        let records = emitted("info", || {
            let dead: Vec<usize> = (0..500).map(|_| stalls.step(vec![sight], sight, 0, STEP).1.len()).collect();
            assert_eq!((dead[399], dead[401]), (0, 2));
        });
        let events: Vec<_> = records.iter().map(|record| record.event.as_str()).collect();
        assert_eq!(events, ["worker_stalled", "control_stalled"]);
    }

    #[test]
    fn a_worker_that_has_not_begun_is_not_stalled() {
        let mut stalls = Stalls::default();
        let records = emitted("info", || {
            (0..100).for_each(|n| {
                let sight = |turns, thread| Sight { turns, thread, asleep_until: None };
                stalls.step(vec![sight(0, 0)], sight(n, 1), 0, STEP);
            });
        });
        assert!(records.is_empty());
    }

    /// What is reported of a worker that is looked at at those milliseconds: turns it has made, and until when it sleeps.
    fn reported(looks: &[(u64, u64, Option<u64>)]) -> Vec<String> {
        let records = emitted("info", || {
            let (mut stalls, mut last) = (Stalls::default(), 0);
            for (ms, turns, asleep_until) in looks {
                let asleep_until = asleep_until.map(|ms| ms * 1_000_000);
                let worker = Sight { turns: *turns, thread: i32::MAX, asleep_until };
                let control = Sight { turns: *ms, thread: 1, asleep_until: None };
                stalls.step(vec![worker], control, ms * 1_000_000, Duration::from_millis(ms - last));
                last = *ms;
            }
        });
        records.iter().map(|record| record.event.clone()).collect()
    }

    #[test]
    fn a_sleeping_worker_is_not_stalled() {
        let sleeps = |until| (1..60).map(move |n| (1000 * n, 5, Some(until))).collect::<Vec<_>>();
        assert!(reported(&sleeps(1_000_000)).is_empty());
        // It sleeps for half a minute, and never wakes.
        assert_eq!(reported(&sleeps(30_500)), ["worker_stalled"]);
        assert!(reported(&sleeps(30_500)[..30]).is_empty(), "its time has not come");
    }

    #[test]
    fn a_worker_that_oversleeps_counts_from_its_deadline() {
        assert!(reported(&[(1000, 5, Some(1900)), (2000, 5, Some(1900))]).is_empty(), "100 ms late");
        let late = [(1000, 5, Some(1900)), (2000, 5, Some(1900)), (2050, 5, Some(1900)), (2200, 5, Some(1900))];
        assert_eq!(reported(&late), ["worker_stalled"]);
    }

    #[test]
    fn a_worker_that_hangs_after_a_sleep_is_stalled() {
        // Seen awake with as many turns as before: it may have woken just now.
        let mut looks = vec![(1000, 5, Some(2500)), (2000, 5, None)];
        assert!(reported(&looks).is_empty());
        looks.extend((1..=5).map(|n| (2000 + 50 * n, 5, None)));
        assert_eq!(reported(&looks), ["worker_stalled"]);
        looks.push((2300, 5, Some(9000)));
        assert_eq!(reported(&looks), ["worker_stalled", "worker_back"]);
    }
}
