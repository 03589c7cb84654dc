//! Trials by load, and the bounds that they give.

use std::collections::BTreeMap;

use super::Record;
use super::goal::{Class, Sample, Stage};

/// Trials by load. Loads are whole packets a second: finer ones cannot be offered.
#[derive(Clone, Debug, Default)]
pub(super) struct Trials {
    by_load: BTreeMap<u64, Vec<Sample>>,
    /// The sum of forwarding rates of trials, and their number.
    rates: BTreeMap<u64, (f64, u32)>,
}

/// The tightest bounds of a stage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Bounds {
    /// The largest load that is carried, below `upper`.
    pub lower: Option<u64>,
    /// The smallest load that is not.
    pub upper: Option<u64>,
}

impl Bounds {
    /// The bounds are as close as asked, or at an end of the range.
    pub fn are_close(&self, stage: &Stage, range: (u64, u64)) -> bool {
        match (self.lower, self.upper) {
            (Some(lower), None) => lower >= range.1,
            (None, Some(upper)) => upper <= range.0,
            // Neighbouring loads cannot be closer.
            (Some(lower), Some(upper)) => {
                upper - lower <= 1 || (upper - lower) as f64 <= stage.width * upper as f64 * (1.0 + 1e-9)
            }
            (None, None) => false,
        }
    }
}

impl Trials {
    /// Takes over a trial.
    pub fn add(&mut self, load: u64, record: &Record) {
        self.by_load.entry(load).or_default().push((record.seconds, record.loss_ratio));
        let (sum, count) = self.rates.entry(load).or_default();
        (*sum, *count) = (*sum + record.forwarding_rate(), *count + 1);
    }

    /// Of a load.
    pub fn of(&self, load: u64) -> &[Sample] {
        self.by_load.get(&load).map_or(&[], Vec::as_slice)
    }

    /// Load and lost part of all trials of at least so many seconds, but at some loads.
    pub fn all<'a>(&'a self, seconds: f64, but: &'a [u64]) -> impl Iterator<Item = (f64, f64)> + 'a {
        let loads = self.by_load.iter().filter(|(load, _)| !but.contains(load));
        let long = move |(_, sample): &(f64, &Sample)| sample.0 >= seconds - 1e-9;
        let each = loads.flat_map(|(load, samples)| samples.iter().map(|sample| (*load as f64, sample)));
        each.filter(long).map(|(load, (_, loss))| (load, *loss))
    }

    /// The bounds of a stage.
    pub fn bounds(&self, stage: &Stage) -> Bounds {
        let mut bounds = Bounds::default();
        for (load, samples) in &self.by_load {
            match stage.classify(samples) {
                Class::Upper => {
                    bounds.upper = Some(*load);
                    break;
                }
                Class::Lower => bounds.lower = Some(*load),
                Class::Undecided(_) => {}
            }
        }
        bounds
    }

    /// What is forwarded a second at a load, on average.
    pub fn forwarding_rate(&self, load: u64) -> Option<f64> {
        self.rates.get(&load).map(|(sum, count)| sum / f64::from(*count))
    }

    /// The part that is lost at a load, on average.
    pub fn mean_loss(&self, load: u64) -> Option<f64> {
        let samples = self.by_load.get(&load)?;
        let (seconds, lost) =
            samples.iter().fold((0.0, 0.0), |sum, (seconds, loss)| (sum.0 + seconds, sum.1 + seconds * loss));
        Some(lost / seconds)
    }

    /// The nearest load above with trials.
    pub fn above(&self, load: u64) -> Option<u64> {
        self.by_load.range(load + 1..).next().map(|(load, _)| *load)
    }
}
