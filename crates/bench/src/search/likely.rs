//! What all trials of a search together say of the rate sought.
//!
//! Bounds of MLRsearch rest on the trials at two loads, and tell only whether more of them are good or bad: where the
//! device's rate differs from trial to trial, twenty-one trials often miss its middle. A bad trial also says by how much
//! its load was too high, and trials at other loads count too. Both are used here: the loss beyond the goal's grows with
//! the load, is scattered normally, and is not seen where it would be below nothing (a censored regression, Tobin 1958;
//! in Olsen's parameters, 1978, its likelihood has one maximum).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use statrs::distribution::{Continuous, ContinuousCDF, Normal};

/// Loads so far from a bound count, as a part of it: further away loss need not grow evenly.
const NEAR: f64 = 0.08;
/// Loss beyond the goal's up to this, in percent, counts as none: one stray packet says nothing of the rate.
const NONE: f64 = 0.05;
/// Trials with and without loss beyond the goal's that an estimate needs.
const LEAST: usize = 4;
/// Steps of Newton's method at most.
const STEPS: usize = 60;

/// A rate by all trials near it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Likely {
    /// The load at which half of the trials would lose more than the goal allows, in millions of packets a second.
    pub mpps: f64,
    /// The standard error of that load, in millions of packets a second.
    pub error_mpps: f64,
    /// How far trials spread, as standard deviation of the rate of single ones by that load.
    pub spread_ratio: f64,
    /// Trials that it rests on.
    pub trials: usize,
}

impl Likely {
    /// Rate and standard error, as `rate` writes them.
    pub fn text(&self, rate: impl Fn(f64) -> String) -> String {
        format!("{} ± {}", rate(self.mpps), rate(self.error_mpps))
    }
}

/// A trial: load in percent from the centre, loss beyond the goal's in percent.
type Point = (f64, f64);
type Vector = [f64; 3];
type Matrix = [Vector; 3];

/// By trials as load in packets a second and lost part, near the load `centre`. None: they are too few, agree so well that
/// bounds say as much, or don't tell.
pub(super) fn likely(trials: impl Iterator<Item = (f64, f64)>, loss_ratio: f64, centre: f64) -> Option<Likely> {
    let relative = trials.map(|(load, loss)| (1.0 - centre / load, loss - loss_ratio));
    let points: Vec<Point> =
        relative.filter(|(off, _)| off.abs() <= NEAR).map(|(off, loss)| (off * 100.0, loss * 100.0)).collect();
    let bad = points.iter().filter(|(_, loss)| *loss > NONE).count();
    if bad < LEAST || points.len() - bad < LEAST {
        return None;
    }
    let (at, hessian) = maximum(&points)?;
    let [constant, slope, precision] = at;
    if slope <= 0.0 {
        return None;
    }
    let off = -constant / slope;
    let by = [-1.0 / slope, constant / (slope * slope), 0.0];
    let negative = hessian.map(|row| row.map(|value| -value));
    let variance: f64 = solve(negative, by)?.iter().zip(by).map(|(a, b)| a * b).sum();
    let mpps = centre / (1.0 - off / 100.0) / 1e6;
    // Scatter of losses, by their slope: scatter of rates.
    let spread = 1.0 / slope / 100.0;
    let known = precision.is_finite() && variance > 0.0 && off.abs() <= NEAR * 100.0;
    known.then(|| Likely {
        mpps,
        error_mpps: variance.sqrt() / 100.0 * centre / 1e6,
        spread_ratio: spread,
        trials: points.len(),
    })
}

/// Where the likelihood is largest, and its second derivatives there. None: nowhere, as where no trial differs from the
/// others.
fn maximum(points: &[Point]) -> Option<(Vector, Matrix)> {
    let mut at = [0.0, 0.5, 0.5];
    let (mut value, mut gradient, mut hessian) = likelihood(points, &at)?;
    for _ in 0..STEPS {
        let step = solve(hessian.map(|row| row.map(|value| -value)), gradient)?;
        let size = step.iter().zip(gradient).map(|(a, b)| a * b).sum::<f64>();
        if size < 1e-9 {
            // Losses that scatter by less than a hundredth of a percent.
            return (at[2] < 100.0).then_some((at, hessian));
        }
        let mut part = 1.0;
        loop {
            let next: Vector = std::array::from_fn(|n| at[n] + part * step[n]);
            let found = if next[2] > 0.0 { likelihood(points, &next) } else { None };
            if let Some(found) = found.filter(|(more, ..)| *more > value) {
                (at, (value, gradient, hessian)) = (next, found);
                break;
            }
            part *= 0.5;
            if part < 1e-6 {
                return None;
            }
        }
    }
    None
}

/// Logarithm of the likelihood with its first and second derivatives, by constant and slope of the expected loss and the
/// precision, all by the scatter of losses. None: not to be told in numbers of this size.
fn likelihood(points: &[Point], at: &Vector) -> Option<(f64, Vector, Matrix)> {
    let normal = Normal::standard();
    let [constant, slope, precision] = *at;
    let (mut value, mut gradient, mut hessian) = (0.0, [0.0; 3], [[0.0; 3]; 3]);
    for (load, loss) in points {
        let expected = constant + slope * load;
        let (first, second, by) = if *loss > NONE {
            let rest = precision * loss - expected;
            value += precision.ln() - rest * rest / 2.0;
            gradient[2] += 1.0 / precision;
            hessian[2][2] -= 1.0 / (precision * precision);
            (-rest, -1.0, [-1.0, -load, *loss])
        } else {
            let rest = precision * NONE - expected;
            let below = normal.cdf(rest);
            value += below.ln();
            let mills = normal.pdf(rest) / below;
            (mills, -mills * (rest + mills), [-1.0, -load, NONE])
        };
        for n in 0..3 {
            gradient[n] += first * by[n];
            for m in 0..3 {
                hessian[n][m] += second * by[n] * by[m];
            }
        }
    }
    value.is_finite().then_some((value, gradient, hessian))
}

/// Solves three equations (Cramer's rule). None: they depend on each other.
fn solve(of: Matrix, by: Vector) -> Option<Vector> {
    let determinant = |m: &Matrix| {
        let minor = |a: usize, b: usize| m[1][a] * m[2][b] - m[1][b] * m[2][a];
        m[0][0] * minor(1, 2) - m[0][1] * minor(0, 2) + m[0][2] * minor(0, 1)
    };
    let whole = determinant(&of);
    let one = |column: usize| {
        let mut replaced = of;
        (0..3).for_each(|row| replaced[row][column] = by[row]);
        determinant(&replaced) / whole
    };
    (whole.is_finite() && whole.abs() > 1e-30).then(|| std::array::from_fn(one))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::simulated::Device;

    /// Trials at loads about a device's rate.
    fn played(mut device: Device, count: u64) -> Vec<(f64, f64)> {
        let at = |n: u64| device.capacity_pps * (970 + n * 60 / count) / 1000;
        let loads: Vec<u64> = (0..count).map(at).collect();
        let play = |load: u64| {
            let (sent, forwarded) = device.play(load, 1000);
            (load as f64, (sent - forwarded) as f64 / sent as f64)
        };
        loads.into_iter().map(play).collect()
    }

    #[test]
    fn the_middle_of_a_device_that_differs_from_trial_to_trial() {
        for seed in 0..50 {
            let device = Device::noise(4_000_000, 30_000, seed);
            let found = likely(played(device, 60).into_iter(), 0.0, 4_020_000.0).expect("trials enough");
            assert!((found.mpps / 4.0 - 1.0).abs() < 0.012, "seed {seed}: {found:?}");
            // The deviation of the uniform distribution is its width by the root of twelve.
            assert!((0.010..0.026).contains(&found.spread_ratio), "seed {seed}: {found:?}");
            assert!((0.008..0.024).contains(&found.error_mpps), "seed {seed}: {found:?}");
        }
    }

    #[test]
    fn errors_are_what_they_are_said_to_be() {
        let off = (0..400).filter_map(|seed| {
            let found = likely(played(Device::noise(4_000_000, 30_000, seed), 60).into_iter(), 0.0, 4e6)?;
            Some((found.mpps - 4.0) / found.error_mpps)
        });
        let off: Vec<f64> = off.collect();
        let within = off.iter().filter(|off| off.abs() <= 1.96).count() as f64 / off.len() as f64;
        assert!(off.len() > 390 && (0.90..=1.0).contains(&within), "{within} of {}", off.len());
    }

    #[test]
    fn a_slope_and_a_loss_ratio_have_their_load() {
        let device = Device { noise_ppm: 10_000, seed: 3, ..Device::slope(4_000_000, 400_000) };
        let truth = device.truth(0.005) / 1e6;
        let found = likely(played(device, 100).into_iter(), 0.005, 4_050_000.0).expect("trials enough");
        assert!((found.mpps / truth - 1.0).abs() < 0.005, "{found:?}, truth {truth}");
    }

    #[test]
    fn stray_packets_say_nothing() {
        let device = Device { stray_ppm: 300_000, ..Device::noise(4_000_000, 10_000, 1) };
        let found = likely(played(device, 60).into_iter(), 0.0, 4e6).expect("trials enough");
        assert!((found.mpps / 4.0 - 1.0).abs() < 0.005, "{found:?}");
    }

    #[test]
    fn trials_that_agree_or_are_few_have_no_likely_rate() {
        assert_eq!(likely(played(Device::cliff(4_000_000), 60).into_iter(), 0.0, 4e6), None);
        assert_eq!(likely(played(Device::noise(4_000_000, 30_000, 1), 6).into_iter(), 0.0, 4e6), None);
        assert_eq!(likely([(4e6, 0.5), (f64::NAN, f64::NAN)].into_iter(), 0.0, 4e6), None);
        assert_eq!(likely([(4e6, 0.3); 20].into_iter().chain([(4e6, 0.0); 20]), 0.0, 4e6), None, "one load only");
    }
}
