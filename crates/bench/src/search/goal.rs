//! Search goals, and what measured trials say of a load, as RFC 9971 (MLRsearch) defines both.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What is looked for: the highest load at which at most `exceed_ratio` of the time of trials has more loss than
/// `loss_ratio`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Goal {
    /// `ndr`, or `pdr-0.5%`.
    pub name: String,
    /// The largest loss ratio of a good trial.
    pub loss_ratio: f64,
    /// The part of the time of trials that may be in bad trials.
    pub exceed_ratio: f64,
    /// How far the bounds may be apart, by the upper one.
    pub relative_width: f64,
    /// Seconds of the shortest trials.
    pub initial_trial_seconds: f64,
    /// Seconds of full-length trials.
    pub final_trial_seconds: f64,
    /// Seconds of trials at a load that decide on it.
    pub duration_sum_seconds: f64,
    /// Coarser stages that come before the last.
    pub preceding_stages: u32,
}

impl Goal {
    /// Twenty-one trials of a second decide by majority.
    pub fn with_loss(loss_ratio: f64) -> Self {
        Self {
            name: name(loss_ratio),
            loss_ratio,
            exceed_ratio: 0.5,
            relative_width: 0.005,
            initial_trial_seconds: 1.0,
            final_trial_seconds: 1.0,
            duration_sum_seconds: 21.0,
            preceding_stages: 2,
        }
    }

    /// RFC 2544, 26.1: one trial decides, and a single lost packet is too many. RFC 2544 asks for 60 seconds.
    pub fn rfc2544(seconds: f64) -> Self {
        Self {
            name: "throughput".to_owned(),
            exceed_ratio: 0.0,
            initial_trial_seconds: seconds.min(1.0),
            final_trial_seconds: seconds,
            duration_sum_seconds: seconds,
            ..Self::with_loss(0.0)
        }
    }

    /// The same with trials of so many seconds, and so many of them.
    #[must_use]
    pub fn timed(self, seconds: f64, trials: u32) -> Self {
        Self {
            initial_trial_seconds: seconds,
            final_trial_seconds: seconds,
            duration_sum_seconds: seconds * f64::from(trials),
            ..self
        }
    }

    /// From the coarsest to the one that achieves the goal.
    pub(super) fn stages(&self) -> Vec<Stage> {
        let count = self.preceding_stages;
        let between =
            |first: f64, last: f64, n: u32| first * (last / first).powf(f64::from(n) / f64::from(count.max(1)));
        let mut stages: Vec<Stage> = Vec::new();
        for n in 0..=count {
            let trial_seconds = match count {
                0 => self.final_trial_seconds,
                _ => between(self.initial_trial_seconds, self.final_trial_seconds, n),
            };
            let sum_seconds = match count {
                0 => self.duration_sum_seconds,
                _ => between(self.initial_trial_seconds, self.duration_sum_seconds, n),
            };
            let stage = Stage {
                loss_ratio: self.loss_ratio,
                exceed_ratio: self.exceed_ratio,
                width: self.relative_width,
                trial_seconds,
                sum_seconds: sum_seconds.max(trial_seconds),
            };
            if stages.last() != Some(&stage) {
                stages.push(stage);
            }
        }
        stages
    }
}

/// `ndr` for no loss.
fn name(loss_ratio: f64) -> String {
    if loss_ratio == 0.0 { "ndr".to_owned() } else { format!("pdr-{}%", round(loss_ratio * 100.0)) }
}

/// To nine digits behind the point, so that 0.5 % is not 0.49999999999999994 %.
fn round(value: f64) -> f64 {
    (value * 1e9).round() / 1e9
}

/// A step on the way to a goal: as the goal, by fewer or shorter trials.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Stage {
    pub loss_ratio: f64,
    pub exceed_ratio: f64,
    pub width: f64,
    pub trial_seconds: f64,
    pub sum_seconds: f64,
}

/// What trials at a load say of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Class {
    /// The device carries it.
    Lower,
    /// It does not.
    Upper,
    /// More trials of so many seconds are needed at least.
    Undecided(f64),
}

/// A trial at a load: seconds, and the part that was lost.
pub(super) type Sample = (f64, f64);

impl Stage {
    /// Classifies a load by its trials (RFC 9971, load classification): short trials count where they are bad, less those
    /// that as many good short ones excuse.
    pub fn classify(&self, samples: &[Sample]) -> Class {
        let sum = |full: bool, bad: bool| {
            let of = |(seconds, loss): &&Sample| {
                (*seconds >= self.trial_seconds - 1e-9) == full && (*loss > self.loss_ratio) == bad
            };
            samples.iter().filter(of).map(|(seconds, _)| seconds).sum::<f64>()
        };
        let excused = sum(false, false) * self.exceed_ratio / (1.0 - self.exceed_ratio);
        let bad = sum(true, true) + (sum(false, true) - excused).max(0.0);
        let seen = bad + sum(true, false);
        let whole = seen.max(self.sum_seconds);
        // Trials of a second must not miss a sum by rounding.
        let tolerance = 1e-9 * whole;
        if bad > self.exceed_ratio * whole + tolerance {
            Class::Upper
        } else if bad + (whole - seen) <= self.exceed_ratio * whole + tolerance {
            Class::Lower
        } else {
            let to_upper = self.exceed_ratio * whole - bad;
            let to_lower = bad + whole - seen - self.exceed_ratio * whole;
            Class::Undecided(to_upper.min(to_lower).max(0.0))
        }
    }

    /// The loss of the trial at the goal's quantile, on which the conditional throughput rests.
    pub fn quantile_loss(&self, samples: &[Sample]) -> f64 {
        let mut full: Vec<Sample> =
            samples.iter().filter(|(seconds, _)| *seconds >= self.trial_seconds - 1e-9).copied().collect();
        full.sort_by(|a, b| a.1.total_cmp(&b.1));
        let seen: f64 = full.iter().map(|(seconds, _)| seconds).sum();
        let mut left = seen.max(self.sum_seconds) * (1.0 - self.exceed_ratio);
        let mut loss = 1.0;
        for (seconds, one) in full {
            (left, loss) = (left - seconds, one);
            if left <= 1e-9 {
                break;
            }
        }
        loss
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn last(goal: &Goal) -> Stage {
        goal.stages().pop().unwrap()
    }

    #[test]
    fn a_majority_of_seconds_decides() {
        let stage = last(&Goal::with_loss(0.0));
        let trials = |good: usize, bad: usize| [vec![(1.0, 0.0); good], vec![(1.0, 0.1); bad]].concat();
        assert_eq!(stage.classify(&[]), Class::Undecided(10.5));
        assert_eq!(stage.classify(&trials(10, 0)), Class::Undecided(0.5));
        assert_eq!(stage.classify(&trials(11, 0)), Class::Lower);
        assert_eq!(stage.classify(&trials(0, 11)), Class::Upper);
        assert_eq!(stage.classify(&trials(10, 10)), Class::Undecided(0.5));
        assert_eq!(stage.classify(&trials(11, 10)), Class::Lower);
        assert_eq!(stage.classify(&trials(20, 20)), Class::Lower, "half of the time may be bad");
    }

    #[test]
    fn one_bad_packet_fails_rfc_2544() {
        let stage = last(&Goal::rfc2544(60.0));
        assert_eq!(stage.classify(&[(60.0, 0.0)]), Class::Lower);
        assert_eq!(stage.classify(&[(60.0, 1e-9)]), Class::Upper);
        assert_eq!(stage.classify(&[(1.0, 0.0), (1.0, 0.0)]), Class::Undecided(0.0), "short trials cannot pass it");
        assert_eq!(stage.classify(&[(1.0, 1e-9)]), Class::Upper, "and can fail it");
    }

    #[test]
    fn good_short_trials_excuse_bad_ones() {
        let stage = Stage { trial_seconds: 2.0, ..last(&Goal::with_loss(0.01)) };
        let short = |good: usize, bad: usize| [vec![(1.0, 0.01); good], vec![(1.0, 0.02); bad]].concat();
        assert_eq!(stage.classify(&short(0, 11)), Class::Upper);
        assert_eq!(stage.classify(&short(11, 11)), Class::Undecided(10.5), "short trials that say nothing");
    }

    #[test]
    fn stages_become_finer_and_differ() {
        let stages = Goal::with_loss(0.0).stages();
        assert_eq!(stages.len(), 3);
        assert!((stages[1].sum_seconds - 21f64.sqrt()).abs() < 1e-9 && stages[0].sum_seconds == 1.0);
        assert_eq!(Goal::rfc2544(0.25).stages().len(), 1, "short trials need no shorter ones before");
        assert_eq!(Goal::rfc2544(60.0).stages().len(), 3);
    }

    #[test]
    fn names_tell_the_loss() {
        assert_eq!([0.0, 0.005, 0.1].map(|loss| Goal::with_loss(loss).name), ["ndr", "pdr-0.5%", "pdr-10%"]);
    }

    #[test]
    fn conditional_throughput_rests_on_the_quantile() {
        let stage = last(&Goal::with_loss(0.01));
        assert_eq!(stage.quantile_loss(&[vec![(1.0, 0.0); 5], vec![(1.0, 0.004); 6]].concat()), 0.004);
        assert_eq!(stage.quantile_loss(&[vec![(1.0, 0.0); 11], vec![(1.0, 0.5); 10]].concat()), 0.0);
    }
}
