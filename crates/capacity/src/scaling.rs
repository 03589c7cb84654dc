//! How a machine's throughput grows with the units it runs: from measured points to what lies between and beyond.
//!
//! Three readings of the same points, all per unit `X(n)/n`:
//! * **points**: what was measured, nothing else; between two points a straight line;
//! * **linear**: every unit adds the same, `X(n) = λ·n`;
//! * **usl**: the Universal Scalability Law (N. J. Gunther, 2007), `X(n) = λ·n / (1 + σ·(n−1) + κ·n·(n−1))`, where `σ`
//!   is contention for what is shared and `κ` the cost of keeping it coherent.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::known::{Known, Provenance};
use crate::quantity::Ratio;
use crate::spread::Spread;

/// How points are read between and beyond them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Shape {
    /// Straight lines between points; beyond them as [`Shape::Usl`].
    #[default]
    Points,
    /// Proportional to units.
    Linear,
    /// The Universal Scalability Law.
    Usl,
}

/// How far from the points an answer may go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Confidence {
    /// Only what was measured: that machine, that number of units, those frames.
    #[default]
    MeasuredOnly,
    /// Between points of the same machine.
    Interpolate,
    /// Beyond them, and on other machines, with the error stated.
    Extrapolate,
}

/// How an answer follows from points, from firm to bold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Basis {
    Point,
    /// Between points.
    Interpolated,
    /// Beyond the points of the same machine.
    Extrapolated,
    /// From another machine's points.
    Translated,
}

impl Basis {
    /// The least bold policy that allows it.
    pub fn needs(self) -> Confidence {
        match self {
            Self::Point => Confidence::MeasuredOnly,
            Self::Interpolated => Confidence::Interpolate,
            Self::Extrapolated | Self::Translated => Confidence::Extrapolate,
        }
    }
}

impl std::fmt::Display for Basis {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Self::Point => "point",
            Self::Interpolated => "interpolated",
            Self::Extrapolated => "extrapolated",
            Self::Translated => "translated",
        })
    }
}

/// The Universal Scalability Law's parameters.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Usl {
    /// `λ`: what one unit alone does.
    pub lambda: f64,
    /// `σ`: the share of the work that waits for what is shared.
    pub sigma: f64,
    /// `κ`: what every pair of units costs.
    pub kappa: f64,
    /// The largest relative distance of a point from the curve.
    pub error: f64,
}

impl Usl {
    /// `X(n)/n`.
    pub fn each(&self, n: f64) -> f64 {
        self.lambda / (1.0 + self.sigma * (n - 1.0) + self.kappa * n * (n - 1.0))
    }

    /// `X(n)`.
    pub fn total(&self, n: f64) -> f64 {
        n * self.each(n)
    }

    /// The number of units with the highest total, `√((1−σ)/κ)`; none where every unit adds something.
    pub fn peak(&self) -> Option<f64> {
        (self.kappa > 0.0).then(|| ((1.0 - self.sigma).max(0.0) / self.kappa).sqrt())
    }

    /// Fits points `(n, X(n)/n)`: least squares of relative distances on the linear form
    /// `n/X = a + b·(n−1) + c·n·(n−1)` with `λ = 1/a`, `σ = b/a`, `κ = c/a`, all not below zero. One point gives `λ`,
    /// two `λ` and `σ`. None of no points.
    pub fn fit(points: &[(f64, f64)]) -> Option<Self> {
        let mut distinct: Vec<f64> = points.iter().map(|(n, _)| *n).collect();
        distinct.sort_by(f64::total_cmp);
        distinct.dedup();
        let most = distinct.len().min(3);
        // Terms that come out negative are left out and the others fitted again: of all sets that come out right, the
        // one that fits best.
        let sets: &[&[usize]] = match most {
            0 => return None,
            1 => &[&[0]],
            2 => &[&[0, 1], &[0]],
            _ => &[&[0, 1, 2], &[0, 1], &[0, 2], &[0]],
        };
        let fits = sets.iter().filter_map(|terms| Self::with(points, terms));
        fits.min_by(|a, b| a.1.total_cmp(&b.1)).map(|(usl, _)| usl)
    }

    /// The fit with those terms and its sum of squares, if no parameter is negative.
    fn with(points: &[(f64, f64)], terms: &[usize]) -> Option<(Self, f64)> {
        let basis = |n: f64| [1.0, n - 1.0, n * (n - 1.0)];
        let size = terms.len();
        // Normal equations of Σ (Σ cₖ·fₖ(n)·each − 1)²: relative distances, as 1/each is the left side.
        let mut m = vec![vec![0.0; size + 1]; size];
        for (n, each) in points {
            let f: Vec<f64> = terms.iter().map(|k| basis(*n)[*k] * each).collect();
            for row in 0..size {
                for column in 0..size {
                    m[row][column] += f[row] * f[column];
                }
                m[row][size] += f[row];
            }
        }
        let solved = solve(m)?;
        let mut c = [0.0; 3];
        for (k, value) in terms.iter().zip(&solved) {
            c[*k] = if value.abs() < 1e-12 * solved[0].abs() { 0.0 } else { *value };
        }
        if c[0] <= 0.0 || c[1] < 0.0 || c[2] < 0.0 {
            return None;
        }
        let usl = Self { lambda: 1.0 / c[0], sigma: c[1] / c[0], kappa: c[2] / c[0], error: 0.0 };
        let off = points.iter().map(|(n, each)| (usl.each(*n) / each - 1.0).abs());
        let squares = off.clone().map(|off| off * off).sum();
        Some((Self { error: off.fold(0.0, f64::max), ..usl }, squares))
    }
}

/// Solves a system of linear equations, given as rows with the right side last, by elimination with pivots.
pub(crate) fn solve(mut m: Vec<Vec<f64>>) -> Option<Vec<f64>> {
    let size = m.len();
    for column in 0..size {
        let pivot = (column..size).max_by(|a, b| m[*a][column].abs().total_cmp(&m[*b][column].abs()))?;
        m.swap(column, pivot);
        if m[column][column].abs() < 1e-14 {
            return None;
        }
        let pivot = m[column].clone();
        for (_, row) in m.iter_mut().enumerate().filter(|(n, _)| *n != column) {
            let by = row[column] / pivot[column];
            row.iter_mut().zip(&pivot).skip(column).for_each(|(cell, above)| *cell -= by * above);
        }
    }
    Some((0..size).map(|k| m[k][size] / m[k][k]).collect())
}

/// One measurement: with so many units on a machine, each carried so much (of anything: the curve keeps the unit).
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Sample {
    /// Units at work.
    pub units: u32,
    /// What each carried.
    pub each: Known<Ratio>,
    /// It was measured with other frames or other users, and converted.
    pub converted: bool,
}

/// A machine's measurements by number of units.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Curve {
    samples: Vec<Sample>,
    shape: Shape,
    usl: Option<Usl>,
    /// Whose published series teaches nothing here.
    #[serde(skip)]
    held_out: Option<String>,
}

impl Curve {
    /// From measurements in any order.
    pub fn new(mut samples: Vec<Sample>, shape: Shape) -> Self {
        samples.sort_by_key(|sample| sample.units);
        let points = |n: &dyn Fn(u32) -> bool| -> Vec<(f64, f64)> {
            let some = samples.iter().filter(|sample| n(sample.units));
            some.map(|sample| (f64::from(sample.units), sample.each.value.0)).collect()
        };
        let usl = match shape {
            Shape::Linear => linear(&points(&|_| true)),
            Shape::Points | Shape::Usl => Usl::fit(&points(&|_| true)),
        };
        Self { samples, shape, usl, held_out: None }
    }

    /// Without what a machine's own published series says of scaling: for predictions of it.
    #[must_use]
    pub fn without(self, machine: Option<&str>) -> Self {
        Self { held_out: machine.map(str::to_owned), ..self }
    }

    /// The measurements, by number of units.
    pub fn samples(&self) -> &[Sample] {
        &self.samples
    }

    /// The law fitted to them.
    pub fn usl(&self) -> Option<&Usl> {
        self.usl.as_ref()
    }

    /// The most units measured.
    pub fn most(&self) -> u32 {
        self.samples.last().map_or(0, |sample| sample.units)
    }

    /// What each of `n` units carries, and how that follows, without words (see [`Curve::told`]); none where the policy
    /// does not reach.
    pub fn each(&self, n: u32, policy: Confidence) -> Option<(Known<Ratio>, Basis)> {
        if let Some(sample) = self.samples.iter().find(|sample| sample.units == n) {
            let basis = if sample.converted { Basis::Extrapolated } else { Basis::Point };
            return Some((sample.each.bare(), basis));
        }
        let (first, last) = (self.samples.first()?.units, self.most());
        let basis = if first < n && n < last { Basis::Interpolated } else { Basis::Extrapolated };
        if policy < basis.needs() {
            return None;
        }
        let from = self.samples.iter().map(|sample| sample.each.from).max().unwrap_or(Provenance::Unknown);
        let each = match (basis, self.shape) {
            (Basis::Interpolated, Shape::Points) => self.between(n),
            _ => self.fitted(n)?,
        };
        Some((Known { from, ..each }, basis))
    }

    /// Where a number for `n` units comes from, in words.
    pub fn told(&self, n: u32, basis: Basis) -> String {
        if let Some(sample) = self.samples.iter().find(|sample| sample.units == n) {
            return sample.each.source.clone();
        }
        let units: Vec<String> = self.samples.iter().map(|sample| sample.units.to_string()).collect();
        let units = units.join(", ");
        match (basis, self.shape, self.usl) {
            (Basis::Interpolated, Shape::Points, _) => format!("straight between {units} units"),
            (_, Shape::Linear, _) => format!("in proportion to {units} units"),
            (_, _, Some(Usl { sigma, kappa, error, .. })) if self.samples.len() > 1 => {
                format!("USL through {units} units, σ {sigma:.3}, κ {kappa:.4}, within {:.1} %", 100.0 * error)
            }
            _ => {
                let [steep, middle, flat] = crate::prior::exponents();
                format!("from {units} by published series: n^−{middle:.2} each (n^−{steep:.2} … n^−{flat:.2})")
            }
        }
    }

    fn between(&self, n: u32) -> Known<Ratio> {
        let above = self.samples.partition_point(|sample| sample.units < n);
        let (a, b) = (&self.samples[above - 1], &self.samples[above]);
        let share = f64::from(n - a.units) / f64::from(b.units - a.units);
        let mix = |a: Ratio, b: Ratio| a + (b - a) * share;
        Known {
            low: mix(a.each.low, b.each.low),
            value: mix(a.each.value, b.each.value),
            high: mix(a.each.high, b.each.high),
            from: a.each.from.max(b.each.from),
            source: String::new(),
        }
    }

    /// Of a single point what publications say of scaling. Otherwise the law's value, with the points' own ranges and their distance from the law around it; beyond the points the
    /// error grows in proportion to how far.
    fn fitted(&self, n: u32) -> Option<Known<Ratio>> {
        if let ([one], Shape::Points | Shape::Usl) = (self.samples.as_slice(), self.shape) {
            let (n, measured) = (f64::from(n), f64::from(one.units));
            let scaled = match &self.held_out {
                None => crate::prior::scaling(n, measured),
                Some(machine) => crate::prior::scaling_without(n, measured, machine),
            };
            return Some(Spread::of(&one.each).times(&scaled).known(Provenance::Assumed));
        }
        let usl = self.usl?;
        let beyond = f64::from(n) / f64::from(self.most());
        let own = self
            .samples
            .iter()
            .map(|s| (s.each.high.0 / s.each.value.0 - 1.0).max(1.0 - s.each.low.0 / s.each.value.0));
        let error = (usl.error + own.fold(0.0, f64::max)) * beyond.max(1.0);
        Some(Known::exactly(Ratio(usl.each(f64::from(n))), Provenance::Assumed, "").within(error))
    }
}

/// `X(n) = λ·n`, by least squares of relative distances.
fn linear(points: &[(f64, f64)]) -> Option<Usl> {
    Usl::with(points, &[0]).map(|(usl, _)| usl)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn curve(points: &[(u32, f64)], shape: Shape) -> Curve {
        let sample = |(units, each): &(u32, f64)| Sample {
            units: *units,
            each: Known::exactly(Ratio(*each), Provenance::Published, "here"),
            converted: false,
        };
        Curve::new(points.iter().map(sample).collect(), shape)
    }

    const METAL: [(u32, f64); 4] = [(1, 6.2), (2, 5.5), (4, 4.7), (6, 4.2)];

    #[test]
    fn what_was_measured_is_told_as_it_was() {
        let metal = curve(&METAL, Shape::Points);
        let (each, basis) = metal.each(6, Confidence::MeasuredOnly).unwrap();
        assert_eq!((each.value, basis), (Ratio(4.2), Basis::Point));
        assert_eq!(metal.each(7, Confidence::MeasuredOnly), None);
        assert_eq!(metal.each(5, Confidence::MeasuredOnly), None);
    }

    #[test]
    fn between_points_is_a_straight_line() {
        let metal = curve(&METAL, Shape::Points);
        let (each, basis) = metal.each(5, Confidence::Interpolate).unwrap();
        assert!((each.value.0 - 4.45).abs() < 1e-12);
        assert_eq!((basis, each.from), (Basis::Interpolated, Provenance::Published));
        assert_eq!(metal.each(7, Confidence::Interpolate), None);
    }

    #[test]
    fn beyond_points_the_law_tells_with_its_error() {
        let metal = curve(&METAL, Shape::Points);
        let (each, basis) = metal.each(7, Confidence::Extrapolate).unwrap();
        assert_eq!(basis, Basis::Extrapolated);
        assert!(each.value.0 < 4.2 && each.value.0 > 3.5 && each.low < each.value, "{each}");
        assert!(metal.told(7, basis).contains("USL"), "{}", metal.told(7, basis));
    }

    #[test]
    fn linear_is_the_same_for_each() {
        let one = curve(&[(1, 250.0)], Shape::Linear);
        assert_eq!(one.each(8, Confidence::Extrapolate).unwrap().0.value, Ratio(250.0));
        assert_eq!(one.usl().unwrap().peak(), None);
    }

    /// 6.2 Gbit/s of one group say of six that each carries less, and how much less within a range: 4.2 were measured.
    #[test]
    fn one_point_scales_as_published_series_do() {
        let one = curve(&[(1, 6.2)], Shape::Points);
        let (each, basis) = one.each(6, Confidence::Extrapolate).unwrap();
        assert!(each.low.0 < 4.2 && 4.2 < each.high.0 && each.value.0 < 5.0, "{each}");
        assert!(one.told(6, basis).contains("published series"), "{}", one.told(6, basis));
    }

    #[test]
    fn no_points_no_answer() {
        assert_eq!(curve(&[], Shape::Usl).each(1, Confidence::Extrapolate), None);
    }

    proptest! {
        #[test]
        fn the_fit_recovers_its_parameters(
            lambda in 0.1f64..1e6, sigma in 0.0f64..0.9, kappa in 0.0f64..0.2, more in 1u32..20,
        ) {
            let law = Usl { lambda, sigma, kappa, error: 0.0 };
            let points: Vec<_> = [1, 2, 3 + more, 7 + 2 * more].map(f64::from).map(|n| (n, law.each(n))).to_vec();
            let fit = Usl::fit(&points).unwrap();
            prop_assert!((fit.lambda / lambda - 1.0).abs() < 1e-6, "{:?}", fit);
            prop_assert!((fit.sigma - sigma).abs() < 1e-6 && (fit.kappa - kappa).abs() < 1e-6, "{:?}", fit);
            prop_assert!(fit.error < 1e-6);
        }

        #[test]
        fn noise_moves_the_fit_no_further_than_itself(
            lambda in 1.0f64..100.0, sigma in 0.0f64..0.3, noise in prop::collection::vec(-0.02f64..0.02, 8),
        ) {
            let law = Usl { lambda, sigma, kappa: 0.0, error: 0.0 };
            let points = noise.iter().zip(1..).map(|(off, n)| (f64::from(n), law.each(f64::from(n)) * (1.0 + off)));
            let fit = Usl::fit(&points.collect::<Vec<_>>()).unwrap();
            prop_assert!(fit.error < 0.06 && fit.sigma >= 0.0 && fit.kappa >= 0.0, "{:?}", fit);
        }

        #[test]
        fn interpolation_stays_between_its_neighbours(a in 0.1f64..10.0, b in 0.1f64..10.0, n in 2u32..9) {
            let each = curve(&[(1, a), (10, b)], Shape::Points).each(n, Confidence::Interpolate).unwrap().0.value.0;
            prop_assert!(a.min(b) - 1e-12 <= each && each <= a.max(b) + 1e-12);
        }
    }
}
