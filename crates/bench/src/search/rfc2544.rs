//! Latency, frame-loss curve and back-to-back bursts (RFC 2544, 26.2 to 26.4). Throughput (26.1) is a goal of [`super::mlr`].

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use traffic::LatencySummary;

use super::{Record, Runner, SearchError, Trial};

/// Latency at a part of a rate.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LatencyAt {
    /// Of the rate that was found, 0 to 1.
    pub of_rate: f64,
    /// Packets a second intended, millions.
    pub offered_mpps: f64,
    /// Lost by intended packets.
    pub loss_ratio: f64,
    /// Of packets that arrived; none: it is not measured here.
    pub latency_us: Option<LatencySummary>,
}

/// Parts of the found rate at which latency is measured.
pub const LATENCY_AT: [f64; 4] = [0.1, 0.5, 0.9, 1.0];

/// One trial at each part of a rate. At a limit it ends with what it has.
///
/// # Errors
/// A trial could not be made.
pub fn latency<T: Trial>(
    runner: &mut Runner<'_, T>,
    rate: f64,
    parts: &[f64],
    seconds: f64,
) -> Result<Vec<LatencyAt>, T::Error> {
    runner.begin("latency");
    runner.expect(parts.len(), parts.len() as f64 * seconds);
    let mut found = Vec::new();
    for part in parts {
        let Some(record) = made(runner.measure((rate * part).max(1.0), Duration::from_secs_f64(seconds)))? else {
            break;
        };
        let Record { offered_mpps, loss_ratio, latency_us, .. } = record;
        found.push(LatencyAt { of_rate: *part, offered_mpps, loss_ratio, latency_us });
    }
    Ok(found)
}

/// Loss at a load.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LossAt {
    /// Of the largest load, 0 to 1.
    pub of_most: f64,
    /// Packets a second intended, millions.
    pub offered_mpps: f64,
    /// Forwarded, millions of packets a second.
    pub forwarded_mpps: f64,
    /// Lost by intended packets.
    pub loss_ratio: f64,
    /// The generator could not send what was intended.
    pub generator_limited: bool,
}

/// From the largest load down by tenths of it, until two trials in a row lose nothing.
///
/// # Errors
/// A trial could not be made.
pub fn loss_curve<T: Trial>(runner: &mut Runner<'_, T>, most: f64, seconds: f64) -> Result<Vec<LossAt>, T::Error> {
    runner.begin("loss curve");
    runner.expect(10, 10.0 * seconds);
    let (mut curve, mut clean): (Vec<LossAt>, u32) = (Vec::new(), 0);
    for tenth in (1..=10).rev() {
        let of_most = f64::from(tenth) / 10.0;
        let Some(record) = made(runner.measure(most * of_most, Duration::from_secs_f64(seconds)))? else { break };
        curve.push(LossAt {
            of_most,
            offered_mpps: record.offered_mpps,
            forwarded_mpps: record.forwarding_rate() / 1e6,
            loss_ratio: record.loss_ratio,
            generator_limited: record.generator_limited,
        });
        clean = if record.lost_packets == 0 { clean + 1 } else { 0 };
        if clean == 2 {
            break;
        }
    }
    curve.reverse();
    Ok(curve)
}

/// The longest burst at the largest load that is forwarded without loss.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BackToBack {
    /// The rate within bursts, millions of packets a second.
    pub burst_mpps: f64,
    /// Packets of the longest burst without loss, the mean of all repetitions.
    pub packets: f64,
    /// The shortest and the longest of the repetitions.
    pub packets_range: [u64; 2],
    /// How often the longest burst without loss was looked for.
    pub repetitions: u32,
    /// The longest burst that was tried went through: the device forwards this rate, and there is no limit to find.
    pub is_unlimited: bool,
    /// What of the burst the device must have held, by the rate at which it forwards (RFC 9004, section 6.4): seconds of
    /// packets at the burst's rate. None: the device forwards the rate of the burst.
    pub buffer_seconds: Option<f64>,
}

/// Bursts up to `longest` seconds at the largest load, each search repeated; `throughput` is what is forwarded for ever.
///
/// # Errors
/// A trial could not be made.
pub fn back_to_back<T: Trial>(
    runner: &mut Runner<'_, T>,
    (most, throughput): (f64, f64),
    longest: f64,
    repetitions: u32,
) -> Result<Option<BackToBack>, T::Error> {
    runner.begin("back-to-back");
    // The length doubles or halves, to 1 % of the longest.
    let steps = 8;
    runner.expect(repetitions as usize * steps, f64::from(repetitions) * longest * 2.0);
    let mut found: Vec<u64> = Vec::new();
    let mut unlimited = 0;
    'repetitions: for _ in 0..repetitions {
        let (mut good, mut bad, mut packets) = (0.0, longest, 0);
        let mut tried = longest;
        for _ in 0..steps {
            let Some(record) = made(runner.measure(most, Duration::from_secs_f64(tried)))? else { break 'repetitions };
            if record.lost_packets == 0 {
                (good, packets) = (tried, record.sent_packets);
                if tried >= longest {
                    break;
                }
            } else {
                bad = tried;
            }
            tried = f64::midpoint(good, bad);
        }
        unlimited += u32::from(good >= longest);
        found.push(packets);
    }
    let (Some(least), Some(largest)) = (found.iter().min(), found.iter().max()) else { return Ok(None) };
    let packets = found.iter().sum::<u64>() as f64 / found.len() as f64;
    let is_unlimited = unlimited as usize == found.len();
    let held = packets / most * (1.0 - throughput / most);
    Ok(Some(BackToBack {
        burst_mpps: most / 1e6,
        packets,
        packets_range: [*least, *largest],
        repetitions: found.len() as u32,
        is_unlimited,
        buffer_seconds: (!is_unlimited && throughput < most).then_some(held),
    }))
}

/// A trial; none: a limit is reached.
fn made<E>(measured: Result<Record, SearchError<E>>) -> Result<Option<Record>, E> {
    match measured {
        Ok(record) => Ok(Some(record)),
        Err(why) => why.limit().map(|_| None),
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;
    use crate::search::simulated::Device;
    use crate::search::{Limits, Outcome};

    #[test]
    fn the_curve_goes_down_to_two_loads_without_loss() {
        let mut device = Device::cliff(4_500_000);
        let curve = loss_curve(&mut Runner::new(&mut device, Limits::default()), 10e6, 1.0).unwrap();
        let loads: Vec<_> = curve.iter().map(|at| (at.offered_mpps, (at.loss_ratio * 100.0).round())).collect();
        let expected =
            [(3.0, 0.0), (4.0, 0.0), (5.0, 10.0), (6.0, 25.0), (7.0, 36.0), (8.0, 44.0), (9.0, 50.0), (10.0, 55.0)];
        assert_eq!(loads, expected);
    }

    #[test]
    fn latency_is_measured_at_parts_of_the_rate() {
        let mut device = Device::cliff(4_000_000);
        let found = latency(&mut Runner::new(&mut device, Limits::default()), 4e6, &LATENCY_AT, 1.0).unwrap();
        let offered: Vec<_> = found.iter().map(|at| (at.offered_mpps, at.loss_ratio)).collect();
        assert_eq!(offered, [(0.4, 0.0), (2.0, 0.0), (3.6, 0.0), (4.0, 0.0)]);
        let limits = Limits { trials: 2, ..Limits::default() };
        let few = latency(&mut Runner::new(&mut device, limits), 4e6, &LATENCY_AT, 1.0).unwrap();
        assert_eq!(few.len(), 2, "a limit leaves what there is");
    }

    /// Forwards at a rate, and holds so many packets.
    struct Buffer(f64, f64);

    impl Trial for Buffer {
        type Error = Infallible;

        fn measure(&mut self, load: f64, duration: Duration) -> Result<Outcome, Infallible> {
            let sent = (load * duration.as_secs_f64()) as u64;
            let through = (self.0 * duration.as_secs_f64() + self.1) as u64;
            let forwarded = sent.min(through);
            Ok(Outcome {
                intended_packets: sent,
                sent_packets: sent,
                forwarded_packets: forwarded,
                lost_packets: sent - forwarded,
                ..Outcome::default()
            })
        }
    }

    #[test]
    fn the_buffer_is_what_a_burst_leaves_over() {
        let mut device = Buffer(1e6, 5000.0);
        let mut runner = Runner::new(&mut device, Limits::default());
        let found = back_to_back(&mut runner, (2e6, 1e6), 0.1, 3).unwrap().unwrap();
        // 5,000 packets wait after 10,000 at twice the rate: 2.5 ms of them at the burst's rate.
        assert!((found.packets - 10_000.0).abs() < 2000.0 && !found.is_unlimited, "{found:?}");
        assert!(found.buffer_seconds.is_some_and(|seconds| (0.002..0.003).contains(&seconds)), "{found:?}");
        let mut device = Buffer(3e6, 0.0);
        let mut runner = Runner::new(&mut device, Limits::default());
        let found = back_to_back(&mut runner, (2e6, 3e6), 0.1, 3).unwrap().unwrap();
        assert!(found.is_unlimited && found.buffer_seconds.is_none() && runner.records().len() == 3, "{found:?}");
    }
}
