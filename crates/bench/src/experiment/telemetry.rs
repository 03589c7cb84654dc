//! `telemetry`: a gateway forwards in memory while a thread reads its counters, as `weir top` and `/metrics` do.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use engine::StatsView;
use gateway::metrics::{Known, page};
use gateway::snapshot::{Snapshot, WorkerCounters};

use super::Experiment;
use super::points::Point;
use super::report::{ExperimentReport, Measured, Row};
use super::sweep::{Progress, Resolved, Steps, disturbed};
use crate::cost::Cost;
use crate::error::BenchError;
use crate::memory::MemoryRig;
use crate::noise::Noise;
use crate::options::PortKind;
use crate::real::stats::Ratio;
use crate::score::Manners;
use crate::thread::{cpus, pin};
use crate::upf::UpfUnderTest;
use crate::window::{How, Rig, Window};

/// Between two readings, where it is not varied.
const INTERVAL_MS: u64 = 1000;

/// Who reads the counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Observer {
    /// No observer: what the others are compared with.
    None,
    /// Counters are read and encoded as JSON, as `weir top` gets them.
    Top,
    /// They are made into a page of `/metrics`.
    Metrics,
}

pub(super) fn run(
    report: &mut ExperimentReport,
    experiment: &Experiment,
    resolved: &Resolved,
    points: &[Point],
    stop: &AtomicBool,
    show: &mut dyn FnMut(&Progress),
) -> Result<(), BenchError> {
    if resolved.port != PortKind::Memory {
        return Err(BenchError::Asked("telemetry is measured in memory: leave --port away".into()));
    }
    let all = cpus();
    // The worker has the last CPU; the first is nobody's.
    let (idle, worker) = (all[0], all[all.len() - 1]);
    if idle == worker {
        report.notes.push("this machine has one CPU: idle-cpu and worker-cpu are the same".to_owned());
    }
    let under = UpfUnderTest { settings: experiment.mobile()? };
    let mut rig = MemoryRig::with_manners(&under, 1, 1, &[worker], Manners::Brisk)?;
    let views = rig.views.clone();
    let (measure, rounds) = resolved.options(PortKind::Memory, 1).windows();
    let how = How { pps: resolved.pps, ..How::most(measure) };
    let mut steps = Steps::new(rounds, show, stop);
    let (mut windows, mut read) = (vec![Vec::new(); points.len()], vec![0; points.len()]);
    for round in 0..rounds {
        steps.next(format!("round {} of {rounds}, all observers in turns", round + 1))?;
        for n in 0..points.len() {
            let n = if round % 2 == 0 { n } else { points.len() - 1 - n };
            let watching = Watching::of(&points[n], (idle, worker));
            let (window, count) = watched(&mut rig, &how, &views, watching, stop)?;
            windows[n].push(window);
            read[n] += count;
        }
    }
    (report.port, report.seconds) = (PortKind::Memory.name().to_owned(), resolved.seconds);
    let alone = points.iter().position(|point| point.get("observer") == Some("none"));
    if alone.is_none() {
        report.notes.push("no point has observer = \"none\": effects are against the first point".to_owned());
    }
    for (n, point) in points.iter().enumerate() {
        let row = row(point, &windows[n], &windows[alone.unwrap_or(0)], read[n]);
        let row = Row { noise: Some(Noise::of(&windows[n])), ..row };
        disturbed(report, point, row.noise.as_ref());
        report.rows.push(row);
    }
    Box::new(rig).close()?;
    Ok(())
}

/// How a gateway is watched.
#[derive(Clone, Copy, Debug)]
struct Watching {
    observer: Observer,
    cpu: usize,
    every: Duration,
}

impl Watching {
    fn of(point: &Point, (idle, worker): (usize, usize)) -> Self {
        let observer = match point.get("observer") {
            Some("top") => Observer::Top,
            Some("metrics") => Observer::Metrics,
            _ => Observer::None,
        };
        let cpu = if point.get("place") == Some("worker-cpu") { worker } else { idle };
        let every = point.get("interval_ms").and_then(quantity::count).unwrap_or(INTERVAL_MS);
        Self { observer, cpu, every: Duration::from_millis(every) }
    }
}

/// A window while somebody watches; and how often the counters were read.
fn watched<R: Rig>(
    rig: &mut R,
    how: &How,
    views: &[StatsView],
    watching: Watching,
    stop: &AtomicBool,
) -> Result<(Window, u64), BenchError> {
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let thread = scope.spawn(|| watch(views, watching, &over));
        let window = rig.window(how, stop);
        over.store(true, Ordering::Relaxed);
        let count = thread.join().map_err(|_| BenchError::Died("thread that reads counters"))?;
        Ok((window?, count))
    })
}

/// Reads until it is over, at once and then whenever the interval has passed.
fn watch(views: &[StatsView], watching: Watching, over: &AtomicBool) -> u64 {
    if watching.observer == Observer::None {
        return 0;
    }
    pin(watching.cpu);
    let (begun, mut count) = (Instant::now(), 0u64);
    while !over.load(Ordering::Relaxed) {
        std::hint::black_box(reading(views, watching.observer));
        count += 1;
        let due = begun + watching.every.saturating_mul(u32::try_from(count).unwrap_or(u32::MAX));
        while !over.load(Ordering::Relaxed) && Instant::now() < due {
            thread::sleep(due.saturating_duration_since(Instant::now()).min(Duration::from_millis(5)));
        }
    }
    count
}

/// Bytes of one reading.
fn reading(views: &[StatsView], observer: Observer) -> usize {
    let workers: Vec<WorkerCounters> =
        views.iter().enumerate().map(|(n, view)| WorkerCounters::of(n as u16, None, view)).collect();
    let utilisation = vec![0.0; workers.len()];
    let snapshot = Snapshot { gateway: "upf".to_owned(), workers, ..Snapshot::default() };
    match observer {
        Observer::None => 0,
        Observer::Top => serde_json::to_vec(&snapshot).map_or(0, |bytes| bytes.len()),
        Observer::Metrics => page(&Known { snapshot, utilisation, ..Known::default() }).len(),
    }
}

fn row(point: &Point, these: &[Window], alone: &[Window], readings: u64) -> Row {
    let mut row = Row::of(point);
    row.put("mpps", Measured::median(these.iter().map(|window| window.traffic.mpps)));
    // Of windows in pairs, with the 95 % confidence interval where there are enough.
    let pairs = these.iter().zip(alone).map(|(this, that)| (this.traffic.mpps, that.traffic.mpps));
    if let Some(ratio) = Ratio::of(pairs) {
        let [low, high] = ratio.ci95.unwrap_or([ratio.mean, ratio.mean]);
        row.put("effect_ratio", Measured { value: ratio.mean - 1.0, low: low - 1.0, high: high - 1.0 });
    }
    row.put("tc_ns", Measured::exactly(Cost::of(these).tc_ns));
    row.put("readings", Measured::exactly(readings as f64));
    row
}

#[cfg(test)]
mod tests {
    use engine::{Io, Layout, Stats};

    use super::*;

    #[test]
    fn an_observer_reads_what_is_counted() {
        let stats = Stats::new(Layout::default());
        stats.add(Io::Originated, 1234);
        let views = [stats.view()];
        let workers = vec![WorkerCounters::of(0, None, &views[0])];
        let text = page(&Known {
            snapshot: Snapshot { workers, ..Snapshot::default() },
            utilisation: vec![0.0],
            ..Known::default()
        });
        assert!(text.contains("originated_packets_total{worker=\"0\"} 1234"), "{text}");
        assert!(reading(&views, Observer::Top) > 100 && reading(&views, Observer::None) == 0);
    }

    #[test]
    fn readings_come_at_their_interval() {
        let stats = Stats::new(Layout::default());
        let (views, over) = ([stats.view()], AtomicBool::new(false));
        let watching = Watching { observer: Observer::Top, cpu: cpus()[0], every: Duration::from_millis(20) };
        let count = thread::scope(|scope| {
            let thread = scope.spawn(|| watch(&views, watching, &over));
            thread::sleep(Duration::from_millis(300));
            over.store(true, Ordering::Relaxed);
            thread.join().unwrap()
        });
        assert!((2..=16).contains(&count), "{count} readings in 300 ms");
    }
}
