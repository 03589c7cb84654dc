//! Equal trials, many of them: how far a device gives the same answer twice (determinism), and whether it does so for
//! long (soak).

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Record, Runner, Trial};

/// How a figure spreads over trials.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Spread {
    /// The smallest value of all trials.
    pub min: f64,
    /// The arithmetic mean over all trials.
    pub mean: f64,
    /// The largest value of all trials.
    pub max: f64,
    /// The standard deviation.
    pub deviation: f64,
    /// The standard deviation by the mean; 0 where the mean is.
    pub variation: f64,
}

impl Spread {
    /// Of some values; none: there are none.
    pub fn of(values: &[f64]) -> Option<Self> {
        let first = *values.first()?;
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        let deviation = (squares / (count - 1.0).max(1.0)).sqrt();
        Some(Self {
            min: values.iter().copied().fold(first, f64::min),
            mean,
            max: values.iter().copied().fold(first, f64::max),
            deviation,
            variation: if mean == 0.0 { 0.0 } else { deviation / mean },
        })
    }
}

/// What equal trials had in common, and what not.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Equal {
    /// Packets a second intended, millions.
    pub offered_mpps: f64,
    /// How many equal trials were made.
    pub trials: usize,
    /// Seconds of each.
    pub trial_seconds: f64,
    /// Trials that lost packets.
    pub trials_with_loss: usize,
    /// Packets lost, all trials together.
    pub lost_packets: u64,
    /// Forwarded, millions of packets a second.
    pub forwarded_mpps: Spread,
    /// Lost by intended packets.
    pub loss_ratio: Spread,
    /// Median latency, where it is measured.
    pub p50_us: Option<Spread>,
    /// Latency that one packet of a hundred exceeds.
    pub p99_us: Option<Spread>,
    /// How the forwarded rate changes from the first trial to the last, by its mean: the slope of a line through all.
    pub drift: f64,
    /// The same of the 99th percentile of latency.
    pub p99_drift: Option<f64>,
}

/// Makes `count` trials of `seconds` at a load. At a limit it ends with those made.
///
/// # Errors
/// A trial could not be made.
pub fn equal<T: Trial>(
    runner: &mut Runner<'_, T>,
    (phase, load): (&str, f64),
    seconds: f64,
    count: usize,
) -> Result<Equal, T::Error> {
    runner.begin(phase);
    runner.expect(count, count as f64 * seconds);
    let mut records: Vec<Record> = Vec::new();
    for _ in 0..count {
        match runner.measure(load, Duration::from_secs_f64(seconds)) {
            Ok(record) => records.push(record),
            Err(why) => {
                why.limit()?;
                break;
            }
        }
    }
    Ok(of(&records, load, seconds))
}

fn of(records: &[Record], load: f64, seconds: f64) -> Equal {
    let each = |value: fn(&Record) -> f64| records.iter().map(value).collect::<Vec<f64>>();
    let latency = |value: fn(&traffic::LatencySummary) -> f64| {
        records.iter().filter_map(|record| record.latency_us.as_ref().map(value)).collect::<Vec<f64>>()
    };
    let (rates, p99) = (each(|record| record.forwarding_rate() / 1e6), latency(|latency| latency.p99));
    Equal {
        offered_mpps: load / 1e6,
        trials: records.len(),
        trial_seconds: seconds,
        trials_with_loss: records.iter().filter(|record| record.lost_packets > 0).count(),
        lost_packets: records.iter().map(|record| record.lost_packets).sum(),
        forwarded_mpps: Spread::of(&rates).unwrap_or_default(),
        loss_ratio: Spread::of(&each(|record| record.loss_ratio)).unwrap_or_default(),
        p50_us: Spread::of(&latency(|latency| latency.p50)),
        p99_us: Spread::of(&p99),
        drift: drift(&rates),
        p99_drift: (!p99.is_empty()).then(|| drift(&p99)),
    }
}

/// The change from first to last on the line of least squares, by the mean.
fn drift(values: &[f64]) -> f64 {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count.max(1.0);
    if values.len() < 2 || mean == 0.0 {
        return 0.0;
    }
    let middle = (count - 1.0) / 2.0;
    let both = values.iter().enumerate().fold((0.0, 0.0), |sum, (n, value)| {
        let x = n as f64 - middle;
        (sum.0 + x * (value - mean), sum.1 + x * x)
    });
    both.0 / both.1 * (count - 1.0) / mean
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::Limits;
    use crate::search::simulated::Device;

    #[test]
    fn a_steady_device_does_not_spread() {
        let mut device = Device::cliff(2_000_000);
        let found = equal(&mut Runner::new(&mut device, Limits::default()), ("soak", 1.5e6), 1.0, 20).unwrap();
        assert_eq!((found.trials, found.trials_with_loss, found.drift), (20, 0, 0.0));
        assert_eq!(found.forwarded_mpps, Spread { min: 1.5, mean: 1.5, max: 1.5, ..Spread::default() });
    }

    #[test]
    fn noise_is_spread_and_no_drift() {
        let mut device = Device::noise(2_000_000, 20_000, 3);
        let found = equal(&mut Runner::new(&mut device, Limits::default()), ("determinism", 2.5e6), 1.0, 400).unwrap();
        // Even noise of ±2 % has a deviation of 2 % / √3.
        assert!((found.forwarded_mpps.variation - 0.02 / 3f64.sqrt()).abs() < 0.001, "{found:?}");
        assert!(found.drift.abs() < 0.01 && found.trials_with_loss == 400, "{found:?}");
    }

    #[test]
    fn drift_is_the_change_from_first_to_last() {
        assert!((drift(&[1.1, 1.0, 0.9]) + 0.2).abs() < 1e-12);
        assert_eq!((drift(&[]), drift(&[1.0]), drift(&[0.0, 0.0])), (0.0, 0.0, 0.0));
    }

    #[test]
    fn a_limit_leaves_the_trials_made() {
        let mut device = Device::cliff(2_000_000);
        let limits = Limits { seconds: 5.0, ..Limits::default() };
        let found = equal(&mut Runner::new(&mut device, limits), ("soak", 1e6), 1.0, 100).unwrap();
        assert_eq!(found.trials, 5);
    }
}
