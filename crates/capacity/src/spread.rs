//! How far a quantity may be from its most likely value: P10, P50 and P90, with a lognormal on either side.
//!
//! A range that a plan states is read as P10 to P90. What is concluded from few observations has the quantiles of
//! Student's t over their logarithms: few observations say little, and the range says so.

use std::sync::LazyLock;

use statrs::distribution::{ContinuousCDF, Normal, StudentsT};

use crate::known::{Known, Provenance};
use crate::quantity::Quantity;

/// The standard normal deviate of P90; that of P10 is its negative.
pub const Z90: f64 = 1.281_551_565_545;

/// P10, P50 and P90 of something above zero; between and beyond them a lognormal on either side of P50.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    pub p50: f64,
    /// Of the logarithm, for every standard deviation below P50.
    down: f64,
    /// Of the logarithm, for every standard deviation above P50.
    up: f64,
}

impl Spread {
    /// Without a range.
    pub fn exactly(p50: f64) -> Self {
        Self { p50, down: 0.0, up: 0.0 }
    }

    /// From three quantiles. Where P10 is not above zero the range below P50 is as wide, relatively, as that above.
    pub fn new(p10: f64, p50: f64, p90: f64) -> Self {
        let up = if p90 > p50 && p50 > 0.0 { (p90 / p50).ln() / Z90 } else { 0.0 };
        let down = if p10 > 0.0 && p50 > p10 { (p50 / p10).ln() / Z90 } else { 0.0 };
        Self { p50, down: if p10 > 0.0 { down } else { up }, up }
    }

    /// A known value's: its range is P10 to P90.
    pub fn of<T: Quantity>(known: &Known<T>) -> Self {
        Self::new(known.low.get(), known.value.get(), known.high.get())
    }

    /// What a few observations, given as logarithms, say of the next one, which has a range of its own: `own` is the
    /// standard deviation of its logarithm. None of fewer than two.
    pub fn predicted(logs: &[f64], mean: f64, own: f64) -> Option<Self> {
        let n = logs.len() as f64;
        if logs.len() < 2 {
            return None;
        }
        let middle = logs.iter().sum::<f64>() / n;
        let variance = logs.iter().map(|log| (log - middle).powi(2)).sum::<f64>() / (n - 1.0);
        let t = student_t(logs.len() - 1)?;
        let half = t * (variance * (1.0 + 1.0 / n) + own * own).sqrt();
        Some(Self::new((mean - half).exp(), mean.exp(), (mean + half).exp()))
    }

    /// As a range: P10, P50, P90.
    pub fn known<T: Quantity>(&self, from: Provenance) -> Known<T> {
        let [low, value, high] = [self.p10(), self.p50, self.p90()].map(T::new);
        Known { low, value, high, from, source: String::new() }
    }

    /// At a standard normal deviate.
    pub fn at(&self, deviate: f64) -> f64 {
        let by = deviate * if deviate < 0.0 { self.down } else { self.up };
        if by == 0.0 { self.p50 } else { self.p50 * by.exp() }
    }

    pub fn p10(&self) -> f64 {
        self.at(-Z90)
    }

    pub fn p90(&self) -> f64 {
        self.at(Z90)
    }

    /// The product of two that have nothing to do with each other: logarithms' variances add up.
    #[must_use]
    pub fn times(&self, other: &Self) -> Self {
        Self { p50: self.p50 * other.p50, down: self.down.hypot(other.down), up: self.up.hypot(other.up) }
    }

    /// The standard deviation of the logarithm, of both sides.
    pub fn sigma(&self) -> f64 {
        (self.down + self.up) / 2.0
    }

    /// The interval score of P10 to P90 against what was observed, of logarithms (Gneiting and Raftery 2007, 6.2): the
    /// width, and ten times the distance of an observation outside. Less is better.
    pub fn score(&self, observed: f64) -> f64 {
        interval_score(self.p10(), self.p90(), observed)
    }

    pub fn holds(&self, observed: f64) -> bool {
        (self.p10()..=self.p90()).contains(&observed)
    }
}

/// P90 of Student's t.
fn student_t(degrees_of_freedom: usize) -> Option<f64> {
    const MOST: usize = 32;
    // Solved by iteration, and asked for again and again.
    static ALL: LazyLock<Vec<f64>> = LazyLock::new(|| {
        let t = |n: usize| StudentsT::new(0.0, 1.0, n as f64).map_or(f64::INFINITY, |t| t.inverse_cdf(0.9));
        (1..=MOST).map(t).collect()
    });
    ALL.get(degrees_of_freedom.min(MOST).checked_sub(1)?).copied()
}

/// The interval score of an interval that is said to hold 80 %, of logarithms.
pub fn interval_score(low: f64, high: f64, observed: f64) -> f64 {
    let (low, high, observed) = (low.ln(), high.ln(), observed.ln());
    high - low + 10.0 * ((low - observed).max(0.0) + (observed - high).max(0.0))
}

/// The standard normal deviate of a probability.
pub(crate) fn deviate(probability: f64) -> f64 {
    Normal::standard().inverse_cdf(probability)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quantity::BitRate;

    fn near(a: f64, b: f64) {
        assert!((a / b - 1.0).abs() < 1e-6, "{a} is not {b}");
    }

    #[test]
    fn a_stated_range_is_p10_to_p90() {
        let spread = Spread::of(&Known::<BitRate>::parse("2..3 Gbit/s").unwrap());
        near(spread.p10(), 2e9);
        near(spread.p90(), 3e9);
        near(spread.at(0.0), 2.5e9);
        near(spread.at(deviate(0.1)), 2e9);
        assert_eq!(Spread::of(&Known::assumed(BitRate(2e9))).at(3.0), 2e9);
    }

    #[test]
    fn independent_factors_widen_less_than_their_product() {
        let one = Spread::new(0.8, 1.0, 1.25);
        let both = one.times(&one);
        near(both.p90(), (1.25_f64.ln() * 2.0_f64.sqrt()).exp());
        assert!(both.p90() < 1.25 * 1.25 && both.p10() > 0.8 * 0.8);
    }

    #[test]
    fn few_observations_say_little() {
        let logs = [1.0, 1.2, 0.8, 1.1, 0.9];
        let (two, five) = (Spread::predicted(&logs[..2], 1.0, 0.0), Spread::predicted(&logs, 1.0, 0.0));
        let (two, five) = (two.unwrap(), five.unwrap());
        assert!(two.sigma() > five.sigma(), "{two:?} {five:?}");
        assert_eq!(Spread::predicted(&logs[..1], 1.0, 0.0), None);
    }

    #[test]
    fn a_miss_costs_more_than_width() {
        near(interval_score(1.0, std::f64::consts::E, 2.0), 1.0);
        near(interval_score(1.0, std::f64::consts::E, (2.0_f64).exp()), 11.0);
        let spread = Spread::new(1.0, 2.0, 4.0);
        assert!(spread.holds(1.5) && !spread.holds(0.9) && spread.score(0.9) > spread.score(1.5));
    }
}
