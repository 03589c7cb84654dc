//! The rate that a device carries with little loss, latency at parts of it, equal trials: the same for links of this host
//! and for gateways elsewhere.

use std::time::Duration;

use certificate::{Band, Certificate, Latency, LatencyAt, Skipped, SpreadRate};

use super::Steps;
use crate::error::BenchError;
use crate::search::{Goal, Limits, Runner, Trial, mlr, spread};

/// Lost by sent packets that the search for a rate allows: over links some tens of packets on their way may hide as
/// many lost, so that no loss at all cannot be told.
pub(super) const LOSS: f64 = 0.005;
/// Of the found rate, where latency is measured.
pub(super) const PARTS: [f64; 3] = [0.1, 0.5, 0.9];
/// Trials at one rate, of which the spread is told.
pub(super) const EQUAL: usize = 10;
/// Of the found rate, at which equal trials are made.
const EQUAL_AT: f64 = 0.9;
/// Packets a second at which none waits for another.
const FLOOR_PPS: f64 = 100.0;

/// Seconds of each step.
#[derive(Clone, Copy, Debug)]
pub(super) struct Times {
    /// All trials of the search.
    pub search: f64,
    /// The trial at one part of the rate, in which latency is measured.
    pub latency: f64,
    /// One of the equal trials.
    pub equal: f64,
}

/// What is offered.
#[derive(Clone, Copy, Debug)]
pub(super) struct Offered {
    /// What the device forwards if as many packets are sent as can be, in packets a second.
    pub most: f64,
    /// Of a frame, with FCS.
    pub frame_bytes: u32,
}

/// Three steps, of which the first has begun.
///
/// # Errors
/// [`BenchError::Interrupted`], or what broke.
pub(super) fn at_rates<T: Trial<Error = BenchError>>(
    device: &mut T,
    offered: &Offered,
    times: &Times,
    steps: &mut Steps<'_>,
    certificate: &mut Certificate,
) -> Result<(), BenchError> {
    let Some(found) = found_rate(device, offered.most, times.search, certificate)? else { return Ok(()) };
    steps.next()?;
    let length = Duration::from_secs_f64(times.latency.max(0.2));
    let floor = device.measure(FLOOR_PPS, length)?.latency_us;
    if floor.is_none() {
        certificate.notes.push("no packet of 100 a second arrived: latency has no floor (0)".to_owned());
    }
    let floor = floor.unwrap_or_default();
    let mut latency = Latency {
        frame_bytes: offered.frame_bytes,
        found_mpps: found / 1e6,
        loss_ratio: LOSS,
        floor_us: floor.p50,
        at: Vec::new(),
    };
    for part in PARTS {
        let outcome = device.measure(found * part, length)?;
        let Some(us) = outcome.latency_us else { continue };
        latency.at.push(LatencyAt {
            of_rate_ratio: part,
            offered_mpps: found * part / 1e6,
            p50_us: us.p50,
            p99_us: us.p99,
            loss_ratio: outcome.loss_ratio(),
        });
    }
    certificate.latency = Some(latency);
    steps.next()?;
    let mut runner = Runner::new(device, Limits { repeats: 0, ..Limits::default() });
    let seconds = times.equal.max(0.2);
    let equal = spread::equal(&mut runner, ("equal trials", EQUAL_AT * found), seconds, EQUAL)?;
    let samples: Vec<f64> = runner.records().iter().map(|record| record.forwarded_mpps).collect();
    let limited = runner.records().iter().filter(|record| record.generator_limited).count();
    if limited > 0 {
        certificate.notes.push(format!(
            "in {limited} of {EQUAL} equal trials the generator sent less than it should: that counts as lost"
        ));
    }
    certificate.spread = Some(SpreadRate {
        offered_mpps: equal.offered_mpps,
        trial_seconds: seconds,
        mpps: Band::of(&samples).unwrap_or_default(),
        variation_ratio: equal.forwarded_mpps.variation,
        loss_ratio: equal.loss_ratio.mean,
    });
    Ok(())
}

/// The largest rate with at most [`LOSS`], in packets a second; `most` is what is forwarded under overload.
fn found_rate<T: Trial<Error = BenchError>>(
    device: &mut T,
    most: f64,
    seconds: f64,
    certificate: &mut Certificate,
) -> Result<Option<f64>, BenchError> {
    let limits = Limits { trials: 200, seconds: seconds.max(3.0), repeats: 1 };
    let mut runner = Runner::new(device, limits);
    let trial = (seconds / 40.0).clamp(0.2, 2.0);
    let goal = Goal::with_loss(LOSS).timed(trial, 3);
    let searched = mlr::search(&mut runner, &[goal], (most / 20.0, most * 1.2))?;
    let lower = searched.found.first().and_then(|found| found.mpps_lower).filter(|mpps| *mpps > 0.0);
    let carried = runner.records().iter().filter(|record| record.loss_ratio <= LOSS);
    let best = carried.map(|record| record.load()).fold(0.0, f64::max);
    match lower {
        Some(mpps) => Ok(Some(mpps * 1e6)),
        None if best > 0.0 => {
            certificate.notes.push("the search for a rate ended early: its best trial counts".to_owned());
            Ok(Some(best))
        }
        None => {
            let limited = runner.records().iter().filter(|record| record.generator_limited).count();
            let (all, loss) = (runner.records().len(), LOSS * 100.0);
            certificate.skipped.push(Skipped {
                what: "rate with little loss, latency, equal trials".to_owned(),
                why: format!(
                    "no trial of the search lost less than {loss} % (in {limited} of {all} the generator sent less than it \
                     should)"
                ),
            });
            Ok(None)
        }
    }
}
