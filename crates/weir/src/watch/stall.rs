//! Threads that make no turns: reported once, and once when they turn again. An idle worker sleeps a millisecond at a
//! time, so one that makes no turn for a quarter of a second is held up by something.

use std::time::Duration;

use rustix::process::getpid;

use crate::cable::pulse::Doing;

/// Time without a turn after which a worker is reported.
const WORKER: Duration = Duration::from_millis(250);
/// The same of the control thread, whose turns are longer.
const CONTROL: Duration = Duration::from_secs(1);
/// Time without a turn after which a gateway is not ready.
const UNREADY: Duration = Duration::from_secs(2);
/// Time without a turn, though it had a CPU, after which the process should be started again.
const DEAD: Duration = Duration::from_secs(20);

/// A thread at a look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sight {
    /// Turns it has made.
    pub turns: u64,
    /// Its number; 0: it has not begun.
    pub thread: i32,
}

/// What is known of a thread.
#[derive(Debug, Default)]
struct Still {
    turns: Option<u64>,
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
    fn step(&mut self, sight: Sight, elapsed: Duration, limit: Duration) -> Change {
        if sight.thread == 0 || self.turns.replace(sight.turns) != Some(sight.turns) {
            let back = std::mem::take(&mut self.reported).then_some(self.still);
            *self = Self { turns: self.turns, ..Self::default() };
            return back.map_or(Change::None, Change::Back);
        }
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
    /// A look, so long after the one before. Returns what keeps it from being ready, and why it should be started again.
    pub fn step(&mut self, workers: Vec<Sight>, control: Sight, elapsed: Duration) -> (Vec<String>, Vec<String>) {
        self.workers.resize_with(workers.len(), Still::default);
        for (worker, (still, sight)) in self.workers.iter_mut().zip(workers).enumerate() {
            match still.step(sight, elapsed, WORKER) {
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
        match self.control.step(control, elapsed, CONTROL) {
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
        let control = |turns| Sight { turns, thread: 1 };
        let records = emitted("info", || {
            let mut stalls = Stalls::default();
            let thread = rustix::thread::gettid().as_raw_pid();
            for step in 0..100 {
                // Worker 0 turns; worker 1 does not from step 10 to step 60.
                let stalled = if (10..60).contains(&step) { 10 } else { step };
                let workers = [step, stalled].map(|turns| Sight { turns, thread }).to_vec();
                let (unready, dead) = stalls.step(workers, control(step), STEP);
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
        let sight = Sight { turns: 7, thread: i32::MAX };
        let records = emitted("info", || {
            let dead: Vec<usize> = (0..500).map(|_| stalls.step(vec![sight], sight, STEP).1.len()).collect();
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
                stalls.step(vec![Sight { turns: 0, thread: 0 }], Sight { turns: n, thread: 1 }, STEP);
            });
        });
        assert!(records.is_empty());
    }
}
