//! Whether a process that says nothing lives. One that is slow, because others have its CPUs or its control has much to
//! do, lives; one that is stopped does not, and neither does one with a worker that goes round and round.
//!
//! ```text
//!  the thread that tells ── says something every interval ──► it lives
//!  each worker           ── turns, and the teller says so ──► it lives
//!  who does not          ── waits for a CPU ───────────────► that time is not counted
//!                        ── else, for as long as patience lasts: dead
//! ```
//!
//! Time is counted in steps of ours: when we, or the whole machine, are paused, a pause is one step.

use std::time::Duration;

use rustix::process::Pid;

/// How often a process is looked at.
pub const STEP: Duration = Duration::from_millis(20);

/// What a thread does, as the kernel tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Doing {
    /// It runs, or would if it had a CPU.
    pub runnable: bool,
    /// How long it has run, in the kernel's ticks (10 ms).
    pub ran: u64,
}

impl Doing {
    /// Of a thread of a process; none: there is no such thread.
    pub fn of(process: Pid, thread: i32) -> Option<Self> {
        let text = std::fs::read_to_string(format!("/proc/{}/task/{thread}/stat", process.as_raw_pid())).ok()?;
        Self::parse(&text)
    }

    /// Of a line of `/proc/PID/task/TID/stat` (proc_pid_stat(5)): the name may hold anything, brackets too.
    fn parse(text: &str) -> Option<Self> {
        let mut fields = text.rsplit_once(')')?.1.split_ascii_whitespace();
        let runnable = fields.next()? == "R";
        // Fields 14 and 15, utime and stime; the state is the third.
        let (user, system) = (fields.nth(10)?, fields.next()?);
        Some(Self { runnable, ran: user.parse::<u64>().ok()? + system.parse::<u64>().ok()? })
    }
}

/// A thread that is watched.
#[derive(Debug)]
struct MonitoredThread {
    thread: i32,
    /// Turns it has made, and whether it has made some since the last step.
    turns: Option<u64>,
    moved: bool,
    /// Its run time at the last step.
    ran: u64,
    /// How long it has given no sign of life.
    still: Duration,
}

impl MonitoredThread {
    fn new(thread: &i32) -> Self {
        Self { thread: *thread, turns: None, moved: true, ran: 0, still: Duration::ZERO }
    }
}

/// A process that tells, as it is watched.
#[derive(Debug)]
pub struct Pulse {
    /// The thread that speaks.
    teller: MonitoredThread,
    /// The workers, of which it speaks.
    workers: Vec<MonitoredThread>,
    /// It has spoken of them since the last step.
    told: bool,
    /// Between two sayings.
    interval: Duration,
    patience: Duration,
}

impl Pulse {
    /// Of a process whose `teller` speaks every `interval`; nobody is dead before `patience` is over.
    pub fn new(teller: i32, workers: &[i32], interval: Duration, patience: Duration) -> Self {
        let workers = workers.iter().map(MonitoredThread::new).collect();
        Self { teller: MonitoredThread::new(&teller), workers, told: false, interval, patience }
    }

    /// It has said something.
    pub fn heard(&mut self) {
        self.teller.moved = true;
    }

    /// It has said how many turns each worker has made.
    pub fn turns(&mut self, all: &[u64]) {
        self.told = true;
        for (worker, turns) in self.workers.iter_mut().zip(all) {
            worker.moved |= worker.turns.replace(*turns) != Some(*turns);
        }
    }

    /// A [`STEP`] is over; `doing` tells of its threads. A sentence about it, when it is dead.
    pub fn step(&mut self, doing: impl Fn(i32) -> Option<Doing>) -> Option<String> {
        let patience = self.patience;
        let teller = &mut self.teller;
        // Runnable, it has something to say, or waits for a CPU to say it.
        let silent = || doing(teller.thread).is_none_or(|doing| !doing.runnable);
        teller.still = match std::mem::take(&mut teller.moved) {
            true => Duration::ZERO,
            false if silent() => teller.still + STEP,
            false => teller.still,
        };
        if teller.still >= patience {
            return Some(format!("silent for {} ms", patience.as_millis()));
        }
        // Of workers nobody speaks of nothing is known.
        if !std::mem::take(&mut self.told) {
            return None;
        }
        let step = self.interval.max(STEP);
        for (n, worker) in self.workers.iter_mut().enumerate() {
            let doing = doing(worker.thread);
            let starved = doing.is_some_and(|doing| doing.runnable && doing.ran == worker.ran);
            worker.ran = doing.map_or(0, |doing| doing.ran);
            worker.still = match std::mem::take(&mut worker.moved) {
                true => Duration::ZERO,
                false if starved => worker.still,
                false => worker.still + step,
            };
            if worker.still >= patience {
                return Some(format!("hanging: worker {n} has not turned for {} ms", patience.as_millis()));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

    const PATIENCE: Duration = Duration::from_millis(500);
    /// Steps in that time.
    const STEPS: u32 = 25;
    const TELLER: i32 = 1;

    fn pulse() -> Pulse {
        Pulse::new(TELLER, &[2, 3], STEP, PATIENCE)
    }

    /// Steps until somebody is dead, of at most a minute.
    fn dead_after(
        pulse: &mut Pulse,
        mut each: impl FnMut(&mut Pulse, u32),
        doing: impl Fn(u32, i32) -> Doing,
    ) -> Option<(u32, String)> {
        (1..=3000).find_map(|step| {
            each(pulse, step);
            pulse.step(|thread| Some(doing(step, thread))).map(|said| (step, said))
        })
    }

    fn rests(_: u32, _: i32) -> Doing {
        Doing { runnable: false, ran: 7 }
    }

    #[test]
    fn who_speaks_and_turns_lives() {
        let speak = |pulse: &mut Pulse, step: u32| {
            pulse.heard();
            pulse.turns(&[step.into(), 2 * u64::from(step)]);
        };
        assert_eq!(dead_after(&mut pulse(), speak, rests), None);
        // However seldom, within patience.
        let seldom = |pulse: &mut Pulse, step: u32| {
            if step.is_multiple_of(STEPS - 1) {
                speak(pulse, step);
            }
        };
        assert_eq!(dead_after(&mut pulse(), seldom, rests), None);
    }

    #[test]
    fn who_is_stopped_is_dead_when_patience_ends() {
        let mut pulse = pulse();
        pulse.heard();
        // The first step was still within what it said.
        assert_eq!(dead_after(&mut pulse, |_, _| {}, rests), Some((STEPS + 1, "silent for 500 ms".into())));
    }

    #[test]
    fn who_waits_for_a_cpu_lives() {
        let waits = |_, _| Doing { runnable: true, ran: 7 };
        assert_eq!(dead_after(&mut pulse(), |_, _| {}, waits), None, "the teller");
        let speak = |pulse: &mut Pulse, _| {
            pulse.heard();
            pulse.turns(&[4, 4]);
        };
        assert_eq!(dead_after(&mut pulse(), speak, waits), None, "the workers");
        // What it waits is not counted, what it does not is.
        let now_and_then = |step: u32, _| Doing { runnable: !step.is_multiple_of(10), ran: 7 };
        let (steps, _) = dead_after(&mut pulse(), |_, _| {}, now_and_then).expect("in the end");
        assert_eq!(steps, 10 * STEPS);
    }

    #[test]
    fn a_worker_that_goes_round_and_round_is_dead() {
        let speak = |pulse: &mut Pulse, step: u32| {
            pulse.heard();
            pulse.turns(&[step.into(), 9]);
        };
        let spins = |step: u32, _| Doing { runnable: true, ran: 2 * u64::from(step) };
        let (steps, said) = dead_after(&mut pulse(), speak, spins).expect("dead");
        assert_eq!((steps, said.as_str()), (STEPS + 1, "hanging: worker 1 has not turned for 500 ms"));
        let (steps, _) = dead_after(&mut pulse(), speak, rests).expect("dead, too: it sleeps and never wakes");
        assert_eq!(steps, STEPS + 1);
    }

    #[test]
    fn of_workers_nobody_speaks_of_nothing_is_known() {
        let slow = |step: u32, thread| Doing { runnable: thread == TELLER, ran: step.into() };
        assert_eq!(dead_after(&mut pulse(), |_, _| {}, slow), None, "the teller has much to do");
    }

    #[test]
    fn the_kernel_tells_what_a_thread_does() {
        let line = "12 (a) b (c)) R 1 1 1 0 -1 4194560 5 0 0 0 31 11 0 0 20 0 5 0 99";
        assert_eq!(Doing::parse(line), Some(Doing { runnable: true, ran: 42 }));
        assert_eq!(Doing::parse("12 (a) S 1"), None);
        let (stop, ids) = (Arc::new(AtomicBool::new(false)), Arc::new([AtomicI32::new(0), AtomicI32::new(0)]));
        let threads = [0, 1].map(|n: usize| {
            let (stop, ids) = (stop.clone(), ids.clone());
            std::thread::spawn(move || {
                ids[n].store(rustix::thread::gettid().as_raw_pid(), Ordering::Release);
                while !stop.load(Ordering::Relaxed) {
                    if n == 0 {
                        std::thread::sleep(Duration::from_millis(50));
                    }
                }
            })
        });
        while ids.iter().any(|id| id.load(Ordering::Acquire) == 0) {
            std::thread::yield_now();
        }
        let doing = |n: usize| Doing::of(rustix::process::getpid(), ids[n].load(Ordering::Acquire)).unwrap();
        let (begun, mut sleeps) = (doing(1), 0);
        while doing(1).ran < begun.ran + 5 || sleeps < 5 {
            sleeps += u32::from(!doing(0).runnable);
            assert!(doing(1).runnable);
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(doing(0).ran < doing(1).ran, "who sleeps does not run");
        stop.store(true, Ordering::Relaxed);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    }
}
