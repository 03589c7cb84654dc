//! The conductor's score: which part of a window of measurement all threads of a trial are in.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::error::BenchError;
use crate::thread::{Urgency, urge};

/// Part of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u32)]
pub enum Part {
    /// Nobody runs.
    Rest,
    /// Traffic flows, caches fill, nothing is counted.
    Warm,
    /// Everything is counted.
    Measure,
    /// Nothing is sent any more; what is on its way arrives.
    Drain,
    /// Everyone stops.
    Stop,
}

/// How long the parts take.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    /// Before counting.
    pub warm: Duration,
    /// Counting.
    pub measure: Duration,
    /// After sending.
    pub drain: Duration,
}

/// How a player treats others that want its CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manners {
    /// It comes before all ordinary threads: for windows of less than a second.
    Urgent,
    /// It takes nearly all of the CPU, and lets ordinary threads live: for hours.
    Brisk,
    /// It shares the CPU with other players, and offers it to them whenever it has nothing to do.
    Sharing,
}

/// Shared by the threads of a trial.
#[derive(Clone)]
pub struct Score {
    part: Arc<AtomicU32>,
    /// How long a window may last, in milliseconds.
    limit: Arc<AtomicU64>,
    manners: Manners,
}

impl Default for Score {
    fn default() -> Self {
        Self { part: Arc::new(AtomicU32::new(Part::Rest as u32)), limit: Arc::default(), manners: Manners::Urgent }
    }
}

/// A thread gives a window up that lasts this much longer than it should: its conductor is gone.
const GONE: Duration = Duration::from_secs(5);

impl Score {
    /// The same score for a player with other manners.
    #[must_use]
    pub fn with(&self, manners: Manners) -> Self {
        Self { manners, ..self.clone() }
    }

    /// How its player treats others.
    pub fn manners(&self) -> Manners {
        self.manners
    }

    /// Runs `step`, which says whether it moved anything, until the part is past `part`.
    pub fn during(&self, part: Part, mut step: impl FnMut() -> bool) {
        let (begin, limit) = (Instant::now(), Duration::from_millis(self.limit.load(Ordering::Relaxed)));
        while self.part.load(Ordering::Relaxed) <= part as u32 {
            let mut moved = false;
            for _ in 0..16 {
                moved |= step();
            }
            if self.manners == Manners::Sharing && !moved {
                std::thread::yield_now();
            }
            if begin.elapsed() > limit {
                return;
            }
        }
    }

    /// Whether a later part than `part` has begun.
    pub fn is_past(&self, part: Part) -> bool {
        self.part.load(Ordering::Relaxed) > part as u32
    }

    /// Plays a window: `enter` is called as each part begins. Threads must be told to listen after [`Part::Warm`]
    /// was entered, and are done after [`Part::Stop`].
    ///
    /// # Errors
    /// [`BenchError::Interrupted`] when `stop` was set; the window is ended properly all the same.
    pub fn play(&self, times: &Times, stop: &AtomicBool, mut enter: impl FnMut(Part) + Send) -> Result<(), BenchError> {
        let limit = times.warm + times.measure + times.drain + GONE;
        self.limit.store(limit.as_millis() as u64, Ordering::Relaxed);
        let conduct = || {
            urge(Urgency::Conductor);
            let lasts = [
                (Part::Warm, times.warm),
                (Part::Measure, times.measure),
                (Part::Drain, times.drain),
                (Part::Stop, Duration::ZERO),
            ];
            for (part, length) in lasts {
                self.part.store(part as u32, Ordering::Relaxed);
                enter(part);
                wait(length, stop);
            }
        };
        std::thread::scope(|scope| scope.spawn(conduct).join()).map_err(|_| BenchError::Died("conductor"))?;
        if stop.load(Ordering::Relaxed) { Err(BenchError::Interrupted) } else { Ok(()) }
    }

    /// After every thread is done.
    pub fn rest(&self) {
        self.part.store(Part::Rest as u32, Ordering::Relaxed);
    }
}

/// Sleeps, but no longer than until `stop` is set.
fn wait(length: Duration, stop: &AtomicBool) {
    let end = Instant::now() + length;
    loop {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() || stop.load(Ordering::Relaxed) {
            return;
        }
        std::thread::sleep(left.min(Duration::from_millis(50)));
    }
}
