//! How busy workers have been of late: the load that scaling goes by.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use engine::Io;

use crate::snapshot::WorkerCounters;

/// The time utilisation is a mean over.
const WINDOW: Duration = Duration::from_secs(10);

/// Between two notes, if nobody asks.
pub const INTERVAL: Duration = Duration::from_secs(5);
/// Between two notes, however often is asked.
const LEAST: Duration = Duration::from_secs(1);

/// Each worker's busy cycles at some moments of the last seconds.
#[derive(Debug, Default)]
pub struct Recent(VecDeque<(Instant, Vec<u64>)>);

impl Recent {
    /// Notes how it is at `now`, unless it was noted within the last second.
    pub fn note(&mut self, now: Instant, workers: &[WorkerCounters]) {
        if self.0.back().is_some_and(|(at, _)| now.duration_since(*at) < LEAST) {
            return;
        }
        self.0.push_back((now, workers.iter().map(busy).collect()));
        // One from before the window stays, so that the window is covered.
        while self.0.get(1).is_some_and(|(at, _)| now.duration_since(*at) >= WINDOW) {
            self.0.pop_front();
        }
    }

    /// The share of time each worker was busy over the window: turns that moved packets, of all time, asleep or not. 0
    /// before there were two looks.
    pub fn utilisation(&self, tsc_hz: f64) -> Vec<f64> {
        let (Some((from, before)), Some((to, after))) = (self.0.front(), self.0.back()) else { return Vec::new() };
        let cycles = to.duration_since(*from).as_secs_f64() * tsc_hz;
        let share = |(after, before): (&u64, &u64)| match cycles > 0.0 {
            true => (after.wrapping_sub(*before) as f64 / cycles).clamp(0.0, 1.0),
            false => 0.0,
        };
        after.iter().zip(before).map(share).collect()
    }
}

/// Cycles in which there was something to do.
fn busy(worker: &WorkerCounters) -> u64 {
    [Io::RxCycles, Io::PipelineCycles, Io::TxCycles, Io::OtherCycles].map(|io| worker.io(io)).iter().sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn worker(busy: u64) -> WorkerCounters {
        WorkerCounters { io: [(Io::PipelineCycles.name().to_owned(), busy)].into(), ..WorkerCounters::default() }
    }

    #[test]
    fn utilisation_is_busy_time_of_all_time_over_the_window() {
        let (begin, hz) = (Instant::now(), 1e9);
        let mut recent = Recent::default();
        assert!(recent.utilisation(hz).is_empty());
        recent.note(begin, &[worker(0), worker(0)]);
        assert_eq!(recent.utilisation(hz), [0.0, 0.0]);
        recent.note(begin + Duration::from_secs(2), &[worker(1_000_000_000), worker(0)]);
        assert_eq!(recent.utilisation(hz), [0.5, 0.0]);
        // Half a minute on, all idle: what was is forgotten.
        for second in 3..40 {
            recent.note(begin + Duration::from_secs(second), &[worker(1_000_000_000), worker(0)]);
        }
        assert_eq!(recent.utilisation(hz), [0.0, 0.0]);
        assert!(recent.0.len() <= 12, "{}", recent.0.len());
        let before = recent.0.len();
        recent.note(begin + Duration::from_millis(39_999), &[worker(0), worker(0)]);
        assert_eq!(recent.0.len(), before, "a scraper that asks often has no more notes");
    }
}
