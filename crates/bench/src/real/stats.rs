//! Medians, and confidence intervals of ratios of paired trials.

use schemars::JsonSchema;
use serde::Serialize;

use crate::window::median;

/// The two-sided 95 % quantile of Student's t distribution for 1 to 10 degrees of freedom; above, that of 10 is a little
/// wide, which errs on the safe side.
const T95: [f64; 10] = [12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228];

/// A ratio of paired measurements.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Ratio {
    /// Geometric mean of the pairs' ratios.
    pub mean: f64,
    /// 95 % confidence interval, where there are three pairs or more.
    pub ci95: Option<[f64; 2]>,
}

impl Ratio {
    /// Of pairs (numerator, denominator), those with a zero left out; none when none is left. Logarithms of ratios are
    /// taken to be normally distributed.
    pub fn of(pairs: impl IntoIterator<Item = (f64, f64)>) -> Option<Self> {
        let logs: Vec<f64> =
            pairs.into_iter().filter(|(a, b)| *a > 0.0 && *b > 0.0).map(|(a, b)| (a / b).ln()).collect();
        let n = logs.len() as f64;
        if logs.is_empty() {
            return None;
        }
        let mean = logs.iter().sum::<f64>() / n;
        let ci95 = (logs.len() >= 3).then(|| {
            let variance = logs.iter().map(|log| (log - mean).powi(2)).sum::<f64>() / (n - 1.0);
            let t = T95[(logs.len() - 2).min(T95.len() - 1)];
            let half = t * (variance / n).sqrt();
            [(mean - half).exp(), (mean + half).exp()]
        });
        Some(Self { mean: mean.exp(), ci95 })
    }

    /// Half the interval's width as a part of the ratio; infinite without an interval.
    pub(crate) fn half_width(&self) -> f64 {
        self.ci95.map_or(f64::INFINITY, |[low, high]| (high - low) / 2.0 / self.mean)
    }
}

/// The median; none of nothing.
pub fn middle(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let values: Vec<f64> = values.into_iter().filter(|value| value.is_finite()).collect();
    (!values.is_empty()).then(|| median(values))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_pairs_have_a_narrow_interval() {
        let ratio = Ratio::of([(2.0, 1.0), (4.0, 2.0), (6.0, 3.0)]).expect("pairs");
        let [low, high] = ratio.ci95.expect("three pairs");
        assert!((ratio.mean - 2.0).abs() < 1e-9 && high - low < 1e-9 && ratio.half_width() < 1e-9);
    }

    #[test]
    fn interval_of_known_pairs() {
        // Logarithms -0.1, 0, 0.1: standard error 0.1 / √3, t = 4.303 with two degrees of freedom.
        let pairs = [-0.1f64, 0.0, 0.1].map(|log| (log.exp(), 1.0));
        let ratio = Ratio::of(pairs).expect("pairs");
        let [low, high] = ratio.ci95.expect("three pairs");
        let half = 4.303 * 0.1 / 3f64.sqrt();
        assert!((ratio.mean - 1.0).abs() < 1e-9);
        assert!((high.ln() - half).abs() < 1e-9 && (low.ln() + half).abs() < 1e-9);
    }

    #[test]
    fn few_or_zero_pairs_have_no_interval() {
        assert_eq!(Ratio::of([(0.0, 1.0), (1.0, 0.0)]), None);
        let ratio = Ratio::of([(1.0, 2.0), (1.0, 2.0)]).expect("pairs");
        assert!(ratio.ci95.is_none() && ratio.half_width().is_infinite());
        assert_eq!((middle([3.0, f64::NAN, 1.0, 2.0]), middle([])), (Some(2.0), None));
    }
}
