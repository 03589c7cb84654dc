//! `forward-pps`: what ports and workers receive, transmit and forward where no gateway is between them.

use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use certificate::{FlowKey, Task};

use super::points::{NotRun, Point};
use super::report::{ExperimentReport, Measured, Row};
use super::sweep::{Progress, Resolved, Steps, base, disturbed};
use crate::error::BenchError;
use crate::host::CpuTime;
use crate::noise::Gathered;
use crate::options::PortKind;
use crate::probe::stand::{Ground, Packets};

/// Samples of a rate.
const SAMPLES: usize = 5;
/// Smallest frame, with FCS.
const FRAME_BYTES: u32 = 64;
/// Flows, where they are not varied.
const FLOWS: u32 = 1024;

pub(super) fn run(
    report: &mut ExperimentReport,
    resolved: &Resolved,
    points: &[Point],
    stop: &AtomicBool,
    show: &mut dyn FnMut(&Progress),
) -> Result<(), BenchError> {
    if resolved.port == PortKind::Memory {
        return Err(BenchError::Asked("forward-pps measures interfaces; allowed: plain, mmsg, ring, xdp, dpdk".into()));
    }
    let points = able(report, resolved.port, points);
    let most = points.iter().map(|point| point.count("queues", 1)).max().unwrap_or(1);
    let mut ground = Ground::new(resolved.port, most)?;
    let mut steps = Steps::new(points.len(), show, stop);
    (report.port, report.seconds) = (resolved.port.name().to_owned(), resolved.seconds);
    let mut limited = Vec::new();
    for point in &points {
        steps.next(point.text())?;
        let row = measure(&mut ground, point, resolved.seconds, stop)?;
        if task(point) != Task::Transmit && row.value("mpps") > 0.99 * row.value("sent_mpps") {
            limited.push(point.text());
        }
        disturbed(report, point, row.noise.as_ref());
        report.rows.push(row);
    }
    for (n, point) in points.iter().enumerate() {
        let first = base(&points, point).map_or(0.0, |first| report.rows[first].value("mpps"));
        if first > 0.0 && point.get("queues").is_some() {
            let times = report.rows[n].value("mpps") / first;
            report.rows[n].put("times_one", Measured::exactly(times));
        }
    }
    if !limited.is_empty() {
        report.notes.push(format!("the generator sent no more than that: {}", limited.join("; ")));
    }
    Ok(())
}

/// Points that this kind of port can do; others are named.
fn able(report: &mut ExperimentReport, port: PortKind, points: &[Point]) -> Vec<Point> {
    let one_queue = |point: &&Point| {
        let is = port != PortKind::Xdp || point.count("queues", 1) == 1;
        if !is {
            let why = "a virtual link delivers all that one CPU sends to one receive queue, and AF_XDP sockets have a \
                       queue each: --port ring";
            report.not_run.push(NotRun { what: point.text(), why: why.to_owned() });
        }
        is
    };
    points.iter().filter(one_queue).cloned().collect()
}

fn task(point: &Point) -> Task {
    match point.get("task") {
        Some("receive") => Task::Receive,
        Some("transmit") => Task::Transmit,
        _ => Task::Forward,
    }
}

fn packets(point: &Point) -> Packets {
    let number = |key: &str, other: u32| {
        let read = point.get(key).and_then(quantity::count).and_then(|count| u32::try_from(count).ok());
        read.unwrap_or(other)
    };
    let by = if point.get("flow_key") == Some("3-tuple") { FlowKey::ThreeTuple } else { FlowKey::FiveTuple };
    Packets { frame_bytes: number("frame_bytes", FRAME_BYTES), flows: number("flows", FLOWS), by }
}

fn measure(ground: &mut Ground, point: &Point, seconds: f64, stop: &AtomicBool) -> Result<Row, BenchError> {
    let (queues, packets) = (point.count("queues", 1), packets(point));
    let mut stand = ground.stand(task(point), queues, packets, stop)?;
    let length = Duration::from_secs_f64((seconds / SAMPLES as f64).max(0.02));
    let (mut done, mut sent) = (Vec::new(), Vec::new());
    let mut noise = Gathered::default();
    for _ in 0..SAMPLES {
        let (begun, cpu, workers) = (Instant::now(), CpuTime::now(), stand.noise());
        let counted = stand.run(length, None)?;
        let workers: Vec<_> = stand.noise().iter().zip(&workers).map(|(now, before)| now.since(before)).collect();
        // The whole time: a worker also waits while the load is set up.
        let seconds = begun.elapsed().as_secs_f64();
        noise.add(CpuTime::now().since(&cpu).0, seconds, &workers, Some(counted.mpps()));
        done.push(counted.mpps());
        sent.push(counted.sent as f64 / counted.seconds.max(1e-9) / 1e6);
    }
    let mut row = Row { noise: Some(noise.noise()), ..Row::of(point) };
    let rate = Measured::median(done);
    // Bytes on the interface: without FCS.
    let bits = |mpps: f64| mpps * f64::from(packets.frame_bytes - 4) * 8.0 / 1e3;
    row.put("mpps", rate);
    row.put("gbps_l2", Measured { value: bits(rate.value), low: bits(rate.low), high: bits(rate.high) });
    row.put("mpps_each", Measured::exactly(rate.value / f64::from(queues)));
    row.put("sent_mpps", Measured::median(sent));
    Ok(row)
}
