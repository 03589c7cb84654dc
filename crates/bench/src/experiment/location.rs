//! `latency-location`: latency through a gateway, by the bridges between it and the generator.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use traffic::{DirectionResult, TrialResult};

use super::Experiment;
use super::points::Point;
use super::report::{ExperimentReport, Measured, Row};
use super::sweep::{Progress, Resolved, Steps, disturbed};
use crate::bed::{Bed, Ready};
use crate::error::BenchError;
use crate::noise::Noise;
use crate::options::{PortKind, ReceiveWork};
use crate::socket::Source;
use crate::under_test::UnderTest;
use crate::upf::UpfUnderTest;
use crate::window::{How, Rig, Window, in_turns};

/// Of the rate through no hop, at which latency is measured: none waits for another.
const SHARE: f64 = 0.1;

pub(super) fn run(
    report: &mut ExperimentReport,
    experiment: &Experiment,
    resolved: &Resolved,
    points: &[Point],
    stop: &AtomicBool,
    show: &mut dyn FnMut(&Progress),
) -> Result<(), BenchError> {
    if resolved.port == PortKind::Memory {
        let what = "latency-location measures interfaces; allowed: plain, mmsg, ring, xdp, dpdk";
        return Err(BenchError::Asked(what.into()));
    }
    let under = UpfUnderTest { settings: experiment.mobile()? };
    let (measure, rounds) = resolved.options(resolved.port, resolved.workers).windows();
    let mut steps = Steps::new(points.len() + 1 + rounds, show, stop);
    let mut bed = Bed::new(&under.links()?, resolved.workers, false, ReceiveWork::Senders)?;
    let mut all: Vec<Ready> = Vec::new();
    for point in points {
        steps.next(format!("setting up {}", point.text()))?;
        bed.set_bridges(hops(point));
        let mut ready = bed.gateways(&under, resolved.port, 1, resolved.workers)?;
        ready.rig.load_from(Source::Generator)?;
        all.push(ready);
    }
    steps.next("the rate through the fewest hops")?;
    let nearest = (0..points.len()).min_by_key(|n| hops(&points[*n])).unwrap_or(0);
    let pps = match resolved.pps {
        Some(pps) => pps,
        None => rate(&mut all[nearest], stop)? * 1e6 * SHARE,
    };
    if pps <= 0.0 {
        return Err(BenchError::Load(
            "the gateway forwarded nothing: no rate to measure latency at; --pps sets one".to_owned(),
        ));
    }
    let how = How { warm: Duration::from_millis(60), pps: Some(pps), ..How::most(measure) };
    let mut windows: Vec<Vec<Window>> = points.iter().map(|_| Vec::new()).collect();
    for round in 0..rounds {
        steps.next(format!("round {} of {rounds}, all points in turns", round + 1))?;
        let mut order: Vec<_> = (0..all.len()).map(|n| (n, how)).collect();
        if round % 2 == 1 {
            order.reverse();
        }
        let mut rigs: Vec<&mut dyn Rig> = all.iter_mut().map(|ready| &mut ready.rig as &mut dyn Rig).collect();
        for ((n, _), found) in order.iter().zip(in_turns(&mut rigs, &order, 1, stop)?) {
            windows[*n].extend(found);
        }
    }
    (report.port, report.seconds) = (resolved.port.name().to_owned(), resolved.seconds);
    report.host.nic = all[0].nic();
    for ready in all {
        Box::new(ready.rig).close()?;
    }
    for (point, windows) in points.iter().zip(&windows) {
        let row = Row { noise: Some(Noise::of(windows)), ..row(point, windows, pps) };
        disturbed(report, point, row.noise.as_ref());
        report.rows.push(row);
    }
    Ok(())
}

fn hops(point: &Point) -> u16 {
    point.get("hops").and_then(quantity::count).and_then(|count| u16::try_from(count).ok()).unwrap_or(0)
}

/// Millions of packets a second that are forwarded when the generator sends what it can.
fn rate(ready: &mut Ready, stop: &AtomicBool) -> Result<f64, BenchError> {
    let how = How { warm: Duration::from_millis(100), ..How::most(Duration::from_millis(300)) };
    let windows = in_turns(&mut [&mut ready.rig], &[(0, how)], 1, stop)?;
    Ok(windows[0].first().map_or(0.0, |window| window.traffic.mpps))
}

fn row(point: &Point, windows: &[Window], pps: f64) -> Row {
    let mut row = Row::of(point);
    let of = |what: &dyn Fn(&TrialResult) -> f64| Measured::median(windows.iter().map(|window| what(&window.traffic)));
    row.put("offered_mpps", Measured::exactly(pps / 1e6));
    row.put("mpps", of(&|trial| trial.mpps));
    let up: fn(&TrialResult) -> &DirectionResult = |trial| &trial.directions.uplink;
    let down: fn(&TrialResult) -> &DirectionResult = |trial| &trial.directions.downlink;
    for (name, way) in [("uplink", up), ("downlink", down)] {
        row.put(&format!("{name}_p50_us"), of(&|trial| way(trial).latency_us.p50));
        row.put(&format!("{name}_p99_us"), of(&|trial| way(trial).latency_us.p99));
    }
    let slowest = windows.iter().map(|window| &window.traffic.directions);
    let slowest = slowest.map(|both| both.uplink.latency_us.max.max(both.downlink.latency_us.max)).fold(0.0, f64::max);
    row.put("max_us", Measured::exactly(slowest));
    row.put("loss_ratio", of(&|trial| trial.loss_ratio));
    row
}
