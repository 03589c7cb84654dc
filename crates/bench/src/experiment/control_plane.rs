//! `control-plane`: sessions established a second, by control planes and by gateways on CPUs of their own.

use std::sync::Barrier;
use std::sync::atomic::AtomicBool;
use std::thread;

use super::Experiment;
use super::keys;
use super::points::Point;
use super::report::{ExperimentReport, Measured, Row};
use super::sweep::{Progress, Steps, asked, base, disturbed};
use crate::error::BenchError;
use crate::noise::{Gathered, ThreadNoise};
use crate::pfcp_sessions::{Established, establish};
use crate::thread::{cpus, pin};

/// Sessions of a gateway at each point, where the file does not say.
const SESSIONS: u32 = 50_000;
/// Turns of all points; the median counts.
const ROUNDS: usize = 3;

pub(super) fn run(
    report: &mut ExperimentReport,
    experiment: &Experiment,
    points: &[Point],
    stop: &AtomicBool,
    show: &mut dyn FnMut(&Progress),
) -> Result<(), BenchError> {
    let set = experiment.set.0.iter().find(|(key, _)| key == "sessions");
    let sessions = set.map_or(Ok(SESSIONS), |(_, value)| keys::sessions(value).map_err(asked))?;
    let mut steps = Steps::new(points.len() * ROUNDS, show, stop);
    let mut found: Vec<Vec<Found>> = points.iter().map(|_| Vec::new()).collect();
    for round in 0..ROUNDS {
        for n in 0..points.len() {
            let n = if round % 2 == 0 { n } else { points.len() - 1 - n };
            let point = &points[n];
            steps.next(format!("round {} of {ROUNDS}: {}", round + 1, point.text()))?;
            let (planes, gateways) = (point.count("control_planes", 1), point.count("gateways", 1));
            found[n].push(measure(sessions, planes, gateways, stop)?);
        }
    }
    for (n, point) in points.iter().enumerate() {
        let first = &found[base(points, point).unwrap_or(n)];
        let row = row(point, &found[n], first);
        disturbed(report, point, row.noise.as_ref());
        report.rows.push(row);
    }
    report.notes.push(format!("{sessions} sessions of each gateway; response times at half the rate"));
    Ok(())
}

/// What gateways did at the same time.
struct Found {
    sessions_per_second: f64,
    p50_ms: f64,
    p99_ms: f64,
    steal_ratio: f64,
    seconds: f64,
    gateways: Vec<ThreadNoise>,
}

fn measure(sessions: u32, planes: u16, gateways: u16, stop: &AtomicBool) -> Result<Found, BenchError> {
    let (all, start) = (cpus(), Barrier::new(gateways.into()));
    let each: Result<Vec<Established>, BenchError> = thread::scope(|scope| {
        let gateway = |n: usize| {
            // The last CPUs first: the first has the machine's interrupts.
            let (cpu, start) = (all[all.len() - 1 - n % all.len()], &start);
            scope.spawn(move || {
                pin(cpu);
                establish(sessions, planes, start, stop)
            })
        };
        let threads: Vec<_> = (0..usize::from(gateways)).map(gateway).collect();
        threads.into_iter().map(|thread| thread.join().map_err(|_| BenchError::Died("gateway"))?).collect()
    });
    let each = each?;
    let begun = each.iter().map(|one| one.time.0).min();
    let ended = each.iter().map(|one| one.time.1).max();
    let seconds = begun.zip(ended).map_or(0.0, |(begun, ended)| (ended - begun).as_secs_f64());
    let gateways = each.iter().map(|one| one.noise).collect();
    let steal_ratio = each.iter().map(|one| one.steal_ratio).fold(0.0, f64::max);
    let established: u32 = each.iter().map(|one| one.sessions).sum();
    let mut waited: Vec<f64> = each.into_iter().flat_map(|one| one.waited_ms).collect();
    waited.sort_by(f64::total_cmp);
    let at = |share: f64| waited.get((waited.len().saturating_sub(1) as f64 * share) as usize).copied().unwrap_or(0.0);
    Ok(Found {
        sessions_per_second: f64::from(established) / seconds.max(1e-9),
        p50_ms: at(0.5),
        p99_ms: at(0.99),
        steal_ratio,
        seconds,
        gateways,
    })
}

fn row(point: &Point, these: &[Found], first: &[Found]) -> Row {
    let mut noise = Gathered::default();
    for Found { steal_ratio, seconds, gateways, sessions_per_second, .. } in these {
        noise.add(*steal_ratio, *seconds, gateways, Some(*sessions_per_second));
    }
    let mut row = Row { noise: Some(noise.noise()), ..Row::of(point) };
    let each = |what: fn(&Found) -> f64| Measured::median(these.iter().map(what));
    row.put("sessions_per_second", each(|found| found.sessions_per_second));
    let pairs = these.iter().zip(first).map(|(this, that)| this.sessions_per_second / that.sessions_per_second);
    row.put("times_one", Measured::median(pairs));
    if point.get("gateways").is_some() {
        let each = row.value("sessions_per_second") / f64::from(point.count("gateways", 1));
        row.put("sessions_each", Measured::exactly(each));
    }
    row.put("response_p50_ms", each(|found| found.p50_ms));
    row.put("response_p99_ms", each(|found| found.p99_ms));
    row
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_of_several_control_planes_and_gateways_are_established() {
        let stop = AtomicBool::new(false);
        for (planes, gateways) in [(1, 1), (3, 1), (2, 2)] {
            let found = measure(60, planes, gateways, &stop).expect("sessions");
            assert!(found.sessions_per_second > 0.0 && found.p50_ms > 0.0 && found.p99_ms >= found.p50_ms);
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        assert!(matches!(measure(60, 1, 2, &stop), Err(BenchError::Interrupted)));
    }
}
