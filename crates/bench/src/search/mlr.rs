//! MLRsearch (RFC 9971): conditional throughput for several goals from the same trials.
//!
//! A goal has stages, by which fewer or shorter trials decide on a load first. Work is always on the first goal that is
//! not achieved, on its first stage whose bounds are not close: a later stage only measures more often what the stage
//! before has found, and as soon as its trials say something else, that stage has work again.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::bounds::{Bounds, Trials};
use super::goal::{Class, Goal, Stage};
use super::likely::{Likely, likely};
use super::{Runner, SearchError, Trial};

/// What was found for a goal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Found {
    /// The goal's name.
    pub goal: String,
    /// The goal's loss ratio.
    pub loss_ratio: f64,
    /// The largest load found that is carried, both directions together; none: not even the smallest is.
    pub mpps_lower: Option<f64>,
    /// The smallest load found that is not carried; none: the largest load is carried, so this is a limit of the
    /// generator or of what was asked for.
    pub mpps_upper: Option<f64>,
    /// What is forwarded at the lower bound, by the trial at the goal's quantile (conditional throughput, RFC 9971).
    pub mpps_conditional: Option<f64>,
    /// The rate by all trials near the bounds, where the device's rate differs from trial to trial; none: it does not, or
    /// trials were too few. Bounds are what RFC 9971 defines; this is nearer to the truth.
    #[serde(default)]
    pub likely: Option<Likely>,
    /// Trials at loads that this goal asked for. A trial says something of all goals.
    pub trials: usize,
    /// The bounds are as close as the goal asks.
    pub is_complete: bool,
    /// At the upper bound it was the generator that could not keep up.
    pub generator_limited: bool,
}

/// What a search found.
#[derive(Clone, Debug, PartialEq)]
pub struct Searched {
    /// In the order of the goals.
    pub found: Vec<Found>,
    /// Why it ended early; none: all goals are achieved.
    pub ended: Option<String>,
}

/// Searches between two loads, in packets a second. At a limit it ends with the bounds found until then.
///
/// # Errors
/// A trial could not be made.
pub fn search<T: Trial>(
    runner: &mut Runner<'_, T>,
    goals: &[Goal],
    (least, most): (f64, f64),
) -> Result<Searched, T::Error> {
    let least = least.max(1.0) as u64;
    let range = (least, (most as u64).max(least + 1));
    let mut search = Search {
        goals: goals.iter().map(|goal| (goal.clone(), goal.stages())).collect(),
        trials: Trials::default(),
        range,
        asked: vec![0; goals.len()],
        limited: Vec::new(),
        steps: Steps::default(),
    };
    let mut ended = None;
    while let Some((goal, stage)) = search.unachieved() {
        if let Err(why) = search.step(runner, goal, stage) {
            ended = Some(why.limit()?);
            break;
        }
    }
    Ok(Searched { found: search.found(), ended })
}

struct Search {
    goals: Vec<(Goal, Vec<Stage>)>,
    trials: Trials,
    /// The smallest and the largest load.
    range: (u64, u64),
    /// Trials by goal.
    asked: Vec<usize>,
    /// Loads that the generator did not reach.
    limited: Vec<u64>,
    steps: Steps,
}

/// How the last loads of a stage were chosen.
#[derive(Default)]
struct Steps {
    /// Which goal a target is of, and which stage of its narrowing.
    of: (usize, usize),
    /// Loads in a row away from a bound, each twice as far as the one before.
    outward: u32,
    /// Loads in a row by a guess.
    guessed: u32,
}

impl Search {
    /// The first goal that is not achieved, and its first stage that is not.
    fn unachieved(&self) -> Option<(usize, usize)> {
        self.goals.iter().enumerate().find_map(|(goal, (_, stages))| {
            let stage = stages.iter().position(|stage| !self.trials.bounds(stage).are_close(stage, self.range))?;
            Some((goal, stage))
        })
    }

    /// Makes the next trial.
    fn step<T: Trial>(
        &mut self,
        runner: &mut Runner<'_, T>,
        goal: usize,
        stage: usize,
    ) -> Result<(), SearchError<T::Error>> {
        if self.steps.of != (goal, stage) {
            self.steps = Steps { of: (goal, stage), ..Steps::default() };
        }
        let (load, seconds) = (self.next_load(goal, stage), self.goals[goal].1[stage].trial_seconds);
        runner.begin(self.goals[goal].0.name.clone());
        let (trials, time) = self.left(goal);
        runner.expect(trials, time);
        let record = runner.measure(load as f64, Duration::from_secs_f64(seconds))?;
        self.asked[goal] += 1;
        if record.generator_limited {
            self.limited.push(load);
        }
        self.trials.add(load, &record);
        Ok(())
    }

    fn next_load(&mut self, goal: usize, n: usize) -> u64 {
        let stage = self.goals[goal].1[n];
        let bounds = self.trials.bounds(&stage);
        if n > 0 {
            // What the stage before has found is measured again, until this stage has decided on it.
            let before = self.trials.bounds(&self.goals[goal].1[n - 1]);
            let open = |load: &u64| matches!(stage.classify(self.trials.of(*load)), Class::Undecided(_));
            if let Some(load) = [before.lower, before.upper].into_iter().flatten().find(open) {
                return load;
            }
        }
        let load = match (bounds.lower, bounds.upper) {
            (None, None) => self.range.1,
            (Some(lower), None) => self.outward(lower, &stage, true),
            (None, Some(upper)) => self.inward(upper, &stage),
            (Some(lower), Some(upper)) => self.between(lower, upper, &stage),
        };
        load.clamp(self.range.0, self.range.1)
    }

    /// Beyond the only bound, each time twice as far.
    fn outward(&mut self, bound: u64, stage: &Stage, up: bool) -> u64 {
        let width = (1.0 - stage.width).powi(1 << self.steps.outward.min(16));
        self.steps.outward += 1;
        let (bound, next) = (bound as f64, if up { bound as f64 / width } else { bound as f64 * width });
        if up { next.floor().max(bound + 1.0) as u64 } else { next.ceil().min(bound - 1.0).max(1.0) as u64 }
    }

    /// Below the smallest load that is not carried: where it may be carried by what is known, else further out.
    fn inward(&mut self, upper: u64, stage: &Stage) -> u64 {
        match self.guess(None, upper, stage).filter(|_| self.steps.guessed < 4) {
            Some(guess) => {
                self.steps.guessed += 1;
                beside(guess, stage).min(below(upper, stage)).max(1)
            }
            None => self.outward(upper, stage, false),
        }
    }

    /// Between two bounds: by what is known; else upwards in steps that double, until half is nearer. After a few of
    /// these in the middle, so that it ends.
    fn between(&mut self, lower: u64, upper: u64, stage: &Stage) -> u64 {
        let units = units(lower, upper, stage);
        let up = above(lower, stage);
        if units < 3 {
            return up.min(upper - 1);
        }
        self.steps.guessed += 1;
        // Every fourth load halves.
        let halves = self.steps.guessed.is_multiple_of(4);
        let guess = if halves { None } else { self.guess(Some(lower), upper, stage) };
        let load = match guess {
            // What is guessed lies in the unit above the lower bound, or below the upper one: so is the load.
            Some(guess) if guess <= up as f64 => up,
            Some(guess) if guess >= below(upper, stage) as f64 => below(upper, stage),
            Some(guess) => beside(guess, stage),
            None => {
                // Whole units, so that no step is wasted on a part of one.
                let unit = (upper as f64 / lower as f64).ln() / f64::from(units);
                let step = if halves { units } else { 1 << self.steps.outward.min(16) };
                self.steps.outward += 1;
                (lower as f64 * (unit * f64::from(step.min(units / 2))).exp()).floor() as u64
            }
        };
        load.clamp(lower + 1, upper - 1)
    }

    /// Where the loss may be the goal's: by a line through what is lost a second at loads nearby, or by what is forwarded.
    fn guess(&self, lower: Option<u64>, upper: u64, stage: &Stage) -> Option<f64> {
        let inside = |guess: &f64| *guess < upper as f64 && lower.is_none_or(|lower| *guess > lower as f64);
        let goal = stage.loss_ratio;
        let lost = |load: u64| Some((load, load as f64 * self.trials.mean_loss(load)?));
        let (_, at) = lost(upper)?;
        // Lost packets a second are the goal's where the line meets goal times load.
        let line = |(load, lost): (u64, f64)| {
            let slope = (at - lost) / (upper as f64 - load as f64) - goal;
            (slope > 0.0).then(|| upper as f64 - (at - goal * upper as f64) / slope)
        };
        // Where nothing is lost, no line begins.
        let below = lower.and_then(lost).filter(|(_, lost)| *lost > 0.0);
        let above = self.trials.above(upper).and_then(lost).filter(|(_, lost)| *lost > at);
        let by_line = below.or(above).and_then(line);
        let by_rate = self.trials.forwarding_rate(upper).map(|rate| rate / (1.0 - goal));
        // A line through losses at loads far above says little of what is far below.
        let near = |guess: &f64| *guess > 0.5 * upper as f64;
        by_line.filter(inside).filter(near).or(by_rate.filter(inside)).filter(|guess| *guess >= 1.0)
    }

    /// Trials that a goal needs at least, and their seconds.
    fn left(&self, goal: usize) -> (usize, f64) {
        let (mut trials, mut time) = (0.0, 0.0);
        for stage in &self.goals[goal].1 {
            let bounds = self.trials.bounds(stage);
            if bounds.are_close(stage, self.range) {
                continue;
            }
            let steps = match (bounds.lower, bounds.upper) {
                (Some(lower), Some(upper)) => f64::from(units(lower, upper, stage)).log2().ceil().max(0.0),
                _ => 4.0,
            };
            trials += steps;
            time += steps * stage.trial_seconds;
        }
        if let Some(last) = self.goals[goal].1.last() {
            let missing = |load: Option<u64>| match load.map(|load| last.classify(self.trials.of(load))) {
                Some(Class::Undecided(seconds)) => seconds,
                Some(_) => 0.0,
                None => last.sum_seconds * (1.0 - last.exceed_ratio),
            };
            let before = self.goals[goal].1.first().map(|stage| self.trials.bounds(stage)).unwrap_or_default();
            for load in [before.lower, before.upper] {
                let count = (missing(load) / last.trial_seconds).ceil();
                (trials, time) = (trials + count, time + count * last.trial_seconds);
            }
        }
        (trials as usize, time)
    }

    /// By all trials about a bound: of goals that a majority of trials decides.
    fn likely(&self, stage: &Stage, bound: u64) -> Option<Likely> {
        let trials = self.trials.all(stage.trial_seconds, &self.limited);
        let by_majority = (stage.exceed_ratio - 0.5).abs() < 1e-9;
        by_majority.then(|| likely(trials, stage.loss_ratio, bound as f64)).flatten()
    }

    fn found(&self) -> Vec<Found> {
        let mpps = |load: u64| load as f64 / 1e6;
        self.goals
            .iter()
            .zip(&self.asked)
            .filter_map(|((goal, stages), trials)| {
                let stage = stages.last()?;
                let mut bounds = self.trials.bounds(stage);
                let is_complete = bounds.are_close(stage, self.range);
                if bounds == Bounds::default() {
                    // Better than nothing: what few trials say.
                    bounds = stages.first().map(|stage| self.trials.bounds(stage)).unwrap_or_default();
                }
                let conditional = |lower: u64| mpps(lower) * (1.0 - stage.quantile_loss(self.trials.of(lower)));
                Some(Found {
                    goal: goal.name.clone(),
                    loss_ratio: goal.loss_ratio,
                    mpps_lower: bounds.lower.map(mpps),
                    mpps_upper: bounds.upper.map(mpps),
                    mpps_conditional: bounds.lower.filter(|_| is_complete).map(conditional),
                    likely: bounds.lower.and_then(|lower| self.likely(stage, lower)),
                    trials: *trials,
                    is_complete,
                    generator_limited: bounds.upper.is_some_and(|load| self.limited.contains(&load)),
                })
            })
            .collect()
    }
}

/// Steps of the stage's width between two loads.
fn units(lower: u64, upper: u64, stage: &Stage) -> u32 {
    let steps = (lower as f64 / upper as f64).ln() / (1.0 - stage.width).ln();
    (steps - 1e-6).ceil().clamp(0.0, 1e9) as u32
}

/// One width above a load.
fn above(load: u64, stage: &Stage) -> u64 {
    ((load as f64 / (1.0 - stage.width)).floor() as u64).max(load + 1)
}

/// One width below a load.
fn below(load: u64, stage: &Stage) -> u64 {
    ((load as f64 * (1.0 - stage.width)).ceil() as u64).min(load - 1)
}

/// Half a width below a guess, so that the guess lies in the middle of what one more trial above closes.
fn beside(guess: f64, stage: &Stage) -> u64 {
    (guess * (1.0 - 0.5 * stage.width)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::simulated::Device;
    use crate::search::{Limits, Record};

    fn searched(mut device: Device, goals: &[Goal], most: f64) -> (Searched, Vec<Record>) {
        let mut runner = Runner::new(&mut device, Limits { seconds: 1e6, ..Limits::default() });
        let searched = search(&mut runner, goals, (9001.0, most)).unwrap();
        (searched, runner.into_records())
    }

    #[test]
    fn both_bounds_are_close_to_the_truth() {
        let device = Device { degrade_ppm: 400_000, ..Device::cliff(3_210_987) };
        let goals = [Goal::with_loss(0.0), Goal::with_loss(0.005)];
        let (searched, records) = searched(device.clone(), &goals, 30e6);
        assert_eq!(searched.ended, None);
        for found in &searched.found {
            let (lower, upper) = (found.mpps_lower.unwrap() * 1e6, found.mpps_upper.unwrap() * 1e6);
            let truth = device.truth(found.loss_ratio);
            assert!((lower..upper).contains(&truth) && (upper - lower) / upper <= 0.005, "{found:?}, truth {truth}");
            let conditional = found.mpps_conditional.unwrap() * 1e6;
            assert!(conditional <= lower && conditional >= lower * (1.0 - found.loss_ratio), "{found:?}");
            assert!(found.is_complete && !found.generator_limited);
        }
        assert_eq!(searched.found.iter().map(|found| found.trials).sum::<usize>(), records.len());
    }

    #[test]
    fn a_load_at_the_end_of_the_range_is_enough() {
        let (whole, records) = searched(Device::cliff(50_000_000), &[Goal::with_loss(0.0)], 5e6);
        let found = &whole.found[0];
        assert_eq!((found.mpps_lower, found.mpps_upper, found.is_complete), (Some(5.0), None, true));
        assert_eq!(records.len(), 11, "a majority at the largest load");
        let (none, _) = searched(Device::cliff(1000), &[Goal::with_loss(0.0)], 5e6);
        let found = &none.found[0];
        assert_eq!((found.mpps_lower, found.mpps_upper, found.is_complete), (None, Some(0.009_001), true));
    }

    #[test]
    fn the_generator_is_named_where_it_is_the_limit() {
        let device = Device { generator_pps: 2_000_000, ..Device::cliff(5_000_000) };
        let (searched, _) = searched(device, &[Goal::with_loss(0.0)], 10e6);
        let found = &searched.found[0];
        let lower = found.mpps_lower.unwrap();
        assert!((1.99..=2.0).contains(&lower) && found.is_complete && found.generator_limited, "{found:?}");
    }

    #[test]
    fn a_limit_leaves_the_bounds_found_so_far() {
        let mut device = Device::cliff(3_210_987);
        let mut runner = Runner::new(&mut device, Limits { trials: 9, ..Limits::default() });
        let searched = search(&mut runner, &[Goal::with_loss(0.0)], (9001.0, 10e6)).unwrap();
        let found = &searched.found[0];
        assert_eq!((searched.ended.as_deref(), found.is_complete), (Some("limit of trials"), false));
        assert!(found.mpps_lower.is_some_and(|mpps| mpps > 3.1 && mpps < 3.3), "{found:?}");
    }

    #[test]
    fn every_device_ends_the_search() {
        // Also where nothing is as a device should be: losses at random at any load.
        for seed in 0..50 {
            let noise_ppm = 900_000;
            let device = Device { noise_ppm, stray_ppm: 500_000, seed, ..Device::cliff(1_000_000) };
            let (searched, records) = searched(device, &[Goal::with_loss(0.0), Goal::with_loss(0.01)], 10e6);
            assert!(searched.ended.is_none() && records.len() < 1000, "seed {seed}: {} trials", records.len());
        }
    }
}
