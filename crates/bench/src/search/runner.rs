//! Trials one after the other, within limits.

use std::time::Duration;

use super::{Outcome, Record, Trial};

/// Where a search ends at the latest.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Trials, without repetitions of disturbed ones.
    pub trials: usize,
    /// Seconds that trials take with all that goes with them.
    pub seconds: f64,
    /// Repetitions of a disturbed trial.
    pub repeats: u32,
}

impl Default for Limits {
    /// 1,000 trials, an hour, three repetitions.
    fn default() -> Self {
        Self { trials: 1000, seconds: 3600.0, repeats: 3 }
    }
}

/// Why a search ended early.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SearchError<E> {
    /// A trial could not be made.
    #[error(transparent)]
    Trial(#[from] E),
    /// The time is over.
    #[error("time limit")]
    TimeLimit,
    /// The number of trials is reached.
    #[error("limit of trials")]
    TrialLimit,
}

impl<E> SearchError<E> {
    /// The limit that ended the search, in words.
    ///
    /// # Errors
    /// It was a trial that could not be made.
    pub fn limit(self) -> Result<String, E> {
        match self {
            Self::Trial(error) => Err(error),
            Self::TimeLimit => Ok("time limit".to_owned()),
            Self::TrialLimit => Ok("limit of trials".to_owned()),
        }
    }
}

/// How far a search is.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Progress {
    /// What trials are made for now.
    pub phase: String,
    /// The load of the trial that comes next, in packets a second.
    pub load: f64,
    /// How many trials have been made, repeated ones among them.
    pub trials: usize,
    /// Trials that this phase needs at least, as far as can be told.
    pub trials_left: usize,
    /// Seconds so far.
    pub seconds: f64,
    /// Seconds that this phase needs, estimated from trials so far.
    pub seconds_left: f64,
}

/// Is shown how far a search is.
type Show<'t> = Box<dyn FnMut(&Progress) + 't>;

/// Makes trials, keeps them, and ends at the limits.
pub struct Runner<'t, T> {
    trial: &'t mut T,
    limits: Limits,
    show: Show<'t>,
    phase: String,
    /// Trials and seconds of trials that the phase still needs.
    left: (usize, f64),
    records: Vec<Record>,
    elapsed: f64,
    /// Seconds that trials were to take, without what goes with them.
    intended: f64,
    repeated: u32,
}

impl<'t, T: Trial> Runner<'t, T> {
    /// None made yet.
    pub fn new(trial: &'t mut T, limits: Limits) -> Self {
        Self {
            trial,
            limits,
            show: Box::new(|_| {}),
            phase: String::new(),
            left: (0, 0.0),
            records: Vec::new(),
            elapsed: 0.0,
            intended: 0.0,
            repeated: 0,
        }
    }

    /// Shows progress before every trial.
    #[must_use]
    pub fn showing(mut self, show: impl FnMut(&Progress) + 't) -> Self {
        self.show = Box::new(show);
        self
    }

    /// What trials are made on.
    pub fn device(&mut self) -> &mut T {
        self.trial
    }

    /// What the next trials are made for.
    pub fn begin(&mut self, phase: impl Into<String>) {
        self.phase = phase.into();
        self.left = (0, 0.0);
    }

    /// Trials that the phase still needs, and the seconds they are to take.
    pub fn expect(&mut self, trials: usize, seconds: f64) {
        self.left = (trials, seconds);
    }

    /// All trials so far.
    pub fn records(&self) -> &[Record] {
        &self.records
    }

    /// Disturbed trials that were repeated.
    pub fn repeated(&self) -> u32 {
        self.repeated
    }

    /// Seconds that trials took so far.
    pub fn elapsed_seconds(&self) -> f64 {
        self.elapsed
    }

    /// Ends: all trials.
    pub fn into_records(self) -> Vec<Record> {
        self.records
    }

    fn show(&mut self, load: f64) {
        // What a second of trial takes, with all that goes with it.
        let each = if self.intended > 0.0 { self.elapsed / self.intended } else { 1.0 };
        let progress = Progress {
            phase: self.phase.clone(),
            load,
            trials: self.records.len(),
            trials_left: self.left.0,
            seconds: self.elapsed,
            seconds_left: (self.left.1 * each).min((self.limits.seconds - self.elapsed).max(0.0)),
        };
        (self.show)(&progress);
    }

    /// Makes a trial, and repeats it while it is disturbed and repetitions are left.
    ///
    /// # Errors
    /// The trial's, or a limit.
    pub fn measure(&mut self, load: f64, duration: Duration) -> Result<Record, SearchError<T::Error>> {
        if self.records.len() >= self.limits.trials {
            return Err(SearchError::TrialLimit);
        }
        let mut repeats = 0;
        loop {
            if self.elapsed + duration.as_secs_f64() > self.limits.seconds {
                return Err(SearchError::TimeLimit);
            }
            self.show(load);
            let outcome = self.trial.measure(load, duration)?;
            self.elapsed += outcome.elapsed_seconds.max(duration.as_secs_f64());
            self.intended += duration.as_secs_f64();
            if !outcome.disturbed.is_empty() && repeats < self.limits.repeats {
                (repeats, self.repeated) = (repeats + 1, self.repeated + 1);
                continue;
            }
            let record = self.record(load, duration, outcome, repeats);
            self.records.push(record.clone());
            self.left = (self.left.0.saturating_sub(1), (self.left.1 - duration.as_secs_f64()).max(0.0));
            return Ok(record);
        }
    }

    fn record(&self, load: f64, duration: Duration, outcome: Outcome, repeats: u32) -> Record {
        let seconds = if outcome.counted_seconds > 0.0 { outcome.counted_seconds } else { duration.as_secs_f64() };
        Record {
            phase: self.phase.clone(),
            forwarded_mpps: outcome.forwarded_packets as f64 / seconds / 1e6,
            offered_mpps: load / 1e6,
            seconds: duration.as_secs_f64(),
            sent_packets: outcome.sent_packets,
            forwarded_packets: outcome.forwarded_packets,
            lost_packets: outcome.lost_packets,
            loss_ratio: outcome.loss_ratio(),
            generator_limited: outcome.is_generator_limited(),
            latency_us: outcome.latency_us,
            repeats,
            disturbed: outcome.disturbed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::Disturbance;

    /// Is disturbed for so many trials.
    struct Disturbed(u32);

    impl Trial for Disturbed {
        type Error = &'static str;

        fn measure(&mut self, load: f64, duration: Duration) -> Result<Outcome, Self::Error> {
            let disturbed = if self.0 > 0 { vec![Disturbance::Steal] } else { vec![] };
            self.0 = self.0.saturating_sub(1);
            let packets = (load * duration.as_secs_f64()) as u64;
            let elapsed_seconds = 2.0 * duration.as_secs_f64();
            Ok(Outcome {
                intended_packets: packets,
                sent_packets: packets,
                elapsed_seconds,
                disturbed,
                ..Outcome::default()
            })
        }
    }

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn disturbed_trials_are_repeated_three_times_at_most() {
        for (disturbed, repeats, kept) in [(0, 0, 0), (2, 2, 0), (9, 3, 1)] {
            let mut trial = Disturbed(disturbed);
            let mut runner = Runner::new(&mut trial, Limits::default());
            let record = runner.measure(1e6, SECOND).unwrap();
            assert_eq!((record.repeats, runner.repeated(), record.disturbed.len()), (repeats, repeats, kept));
            assert_eq!(runner.records().len(), 1, "repetitions are no trials of the search");
        }
    }

    #[test]
    fn a_search_ends_at_its_limits() {
        let mut trial = Disturbed(0);
        let mut runner = Runner::new(&mut trial, Limits { trials: 2, ..Limits::default() });
        assert!(runner.measure(1e6, SECOND).is_ok() && runner.measure(1e6, SECOND).is_ok());
        assert_eq!(runner.measure(1e6, SECOND).unwrap_err(), SearchError::TrialLimit);
        let mut trial = Disturbed(0);
        let mut runner = Runner::new(&mut trial, Limits { seconds: 4.5, ..Limits::default() });
        assert!(runner.measure(1e6, SECOND).is_ok() && runner.measure(1e6, SECOND).is_ok());
        assert_eq!(runner.measure(1e6, SECOND).unwrap_err(), SearchError::TimeLimit, "trials took two seconds each");
    }

    #[test]
    fn time_left_is_what_trials_took_so_far() {
        let (mut trial, mut shown) = (Disturbed(0), Vec::new());
        let mut runner = Runner::new(&mut trial, Limits::default()).showing(|progress| shown.push(progress.clone()));
        runner.begin("test");
        runner.expect(3, 3.0);
        for _ in 0..3 {
            runner.measure(1e6, SECOND).unwrap();
        }
        drop(runner);
        let left: Vec<_> = shown.iter().map(|progress| (progress.trials_left, progress.seconds_left)).collect();
        assert_eq!(left, [(3, 3.0), (2, 4.0), (1, 2.0)], "a second of trial takes two");
    }
}
