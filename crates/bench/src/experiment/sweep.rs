//! Gateways at the points of an experiment, measured in turns.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use engine::Io;

use super::file::{Experiment, GatewayKind, Measure};
use super::points::{self, NotRun, Point};
use super::report::{ExperimentReport, Measured, Row};
use super::{control_plane, keys, location, pps, telemetry};
use crate::bed::Bed;
use crate::bng::BngUnderTest;
use crate::cmts::{self, CableOptions, CableReport};
use crate::cost::Cost;
use crate::error::BenchError;
use crate::host::CpuTime;
use crate::memory::MemoryRig;
use crate::noise::Noise;
use crate::options::{Options, PortKind, ReceiveWork};
use crate::power::Power;
use crate::report::Report;
use crate::run::{blank, overload};
use crate::thread::cpus;
use crate::under_test::UnderTest;
use crate::upf::UpfUnderTest;
use crate::window::{How, Rig, Turn, Window, in_turns, median, ratio};

/// What the command line gives; the rest is the experiment's.
#[derive(Clone, Debug, Default)]
pub struct ExperimentOptions {
    /// Kind of the ports.
    pub port: Option<PortKind>,
    /// Time measured at each point, in seconds.
    pub seconds: Option<f64>,
    /// Workers of a gateway, where they are not varied.
    pub workers: Option<u16>,
    /// Packets offered a second, both directions together; none: more than can be forwarded.
    pub pps: Option<f64>,
    /// Whose CPU does the links' receive work.
    pub receive_work: ReceiveWork,
    /// Price of the machine in US dollars an hour.
    pub usd_per_hour: Option<f64>,
}

impl ExperimentOptions {
    /// With what the experiment says where the command line gives nothing.
    ///
    /// # Errors
    /// No such kind of port.
    pub(super) fn with(&self, experiment: &Experiment) -> Result<Resolved, BenchError> {
        let port = experiment.run.port.as_deref().map(str::parse).transpose()?;
        Ok(Resolved {
            seconds: self.seconds.or(experiment.run.seconds).unwrap_or(2.0),
            port: self.port.or(port).unwrap_or(PortKind::Memory),
            workers: self.workers.or(experiment.run.workers).unwrap_or(1),
            pps: self.pps,
            receive_work: self.receive_work,
            usd_per_hour: self.usd_per_hour.or(experiment.run.usd_per_hour),
        })
    }
}

/// Options of a run, all of them given.
#[derive(Clone, Debug)]
pub(super) struct Resolved {
    pub seconds: f64,
    pub port: PortKind,
    pub workers: u16,
    pub pps: Option<f64>,
    pub receive_work: ReceiveWork,
    pub usd_per_hour: Option<f64>,
}

impl Resolved {
    /// As a benchmark of one point takes them.
    pub fn options(&self, port: PortKind, workers: u16) -> Options {
        Options {
            port,
            workers,
            seconds: self.seconds,
            pps: self.pps,
            receive_work: self.receive_work,
            ..Options::default()
        }
    }
}

/// How far an experiment is.
#[derive(Clone, Debug, PartialEq)]
pub struct Progress {
    /// What is measured now.
    pub what: String,
    /// Steps done, and how many there are.
    pub done: (usize, usize),
    /// Time left, estimated from the steps so far.
    pub left: Duration,
}

/// Tells progress, and ends when it is asked to.
pub(crate) struct Steps<'s> {
    all: usize,
    done: usize,
    begun: Instant,
    show: &'s mut dyn FnMut(&Progress),
    pub stop: &'s AtomicBool,
}

impl<'s> Steps<'s> {
    pub fn new(all: usize, show: &'s mut dyn FnMut(&Progress), stop: &'s AtomicBool) -> Self {
        Self { all, done: 0, begun: Instant::now(), show, stop }
    }

    /// Begins the next step.
    ///
    /// # Errors
    /// [`BenchError::Interrupted`].
    pub fn next(&mut self, what: impl Into<String>) -> Result<(), BenchError> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(BenchError::Interrupted);
        }
        let each = self.begun.elapsed().as_secs_f64() / self.done.max(1) as f64;
        let left = Duration::from_secs_f64(if self.done > 0 { each * (self.all - self.done) as f64 } else { 0.0 });
        (self.show)(&Progress { what: what.into(), done: (self.done, self.all), left });
        self.done = (self.done + 1).min(self.all);
        Ok(())
    }
}

/// Runs an experiment that varies something. `show` is told how far it is.
///
/// # Errors
/// What cannot be, what broke, or [`BenchError::Interrupted`].
pub fn run(
    experiment: &Experiment,
    options: &ExperimentOptions,
    stop: &AtomicBool,
    show: &mut dyn FnMut(&Progress),
) -> Result<ExperimentReport, BenchError> {
    let resolved = options.with(experiment)?;
    let all = points::all(experiment).map_err(asked)?;
    if all.is_empty() {
        return Err(BenchError::Asked(format!("{} varies nothing: add a section [[vary]]", experiment.name)));
    }
    let with_ports = experiment.measure == Measure::ForwardPps || resolved.port != PortKind::Memory;
    let spare = usize::from(with_ports && experiment.measure != Measure::ControlPlane);
    let ours = cpus().len().saturating_sub(spare).max(1);
    let (points, not_run) = points::fitting(experiment, all, (ours, resolved.workers));
    let mut report = ExperimentReport::of(experiment);
    report.not_run = not_run;
    if points.is_empty() {
        return Err(BenchError::Asked(format!("this machine runs no point of {}", experiment.name)));
    }
    report.usd_per_hour = resolved.usd_per_hour;
    let before = CpuTime::now();
    match (experiment.measure, experiment.gateway) {
        (Measure::ForwardPps, _) => pps::run(&mut report, &resolved, &points, stop, show)?,
        (Measure::ControlPlane, _) => control_plane::run(&mut report, experiment, &points, stop, show)?,
        (Measure::Telemetry, _) => telemetry::run(&mut report, experiment, &resolved, &points, stop, show)?,
        (Measure::LatencyLocation, _) => location::run(&mut report, experiment, &resolved, &points, stop, show)?,
        (Measure::Workload, Some(GatewayKind::Cmts)) => cable(&mut report, experiment, &resolved, &points, stop, show)?,
        (Measure::Workload, Some(GatewayKind::Bng)) => {
            let make = |point: &Point| {
                let mut settings = experiment.broadband()?;
                workload(point).try_for_each(|(key, value)| settings.set(key, value))?;
                Ok(BngUnderTest { settings })
            };
            gateways(&mut report, &make, &resolved, &points, stop, show)?;
        }
        (Measure::Workload, _) => {
            let make = |point: &Point| {
                let mut settings = experiment.mobile()?;
                workload(point).try_for_each(|(key, value)| settings.set(key, value))?;
                Ok(UpfUnderTest { settings })
            };
            gateways(&mut report, &make, &resolved, &points, stop, show)?;
        }
    }
    (report.host.steal_ratio, report.host.busy_ratio) = CpuTime::now().since(&before);
    if let Some(usd) = report.usd_per_hour {
        for row in &mut report.rows {
            let Some(mpps) = row.metrics.get("mpps").copied() else { continue };
            let by = |value: f64| value / usd;
            row.put("mpps_per_usd_hour", Measured { value: by(mpps.value), low: by(mpps.low), high: by(mpps.high) });
        }
    }
    Ok(report)
}

pub(super) fn asked(wrong: keys::Wrong) -> BenchError {
    BenchError::Asked(format!("{}; {}", wrong.what, wrong.help))
}

/// Values that a workload's settings take.
fn workload(point: &Point) -> impl Iterator<Item = (&str, &str)> {
    let of_run = ["workers", "instances", "port", "pps"];
    point.values.iter().map(|(k, v)| (k.as_str(), v.as_str())).filter(move |(key, _)| !of_run.contains(key))
}

/// The point that a rate is compared with: of those with the same workload the one with the fewest of what shares it.
pub(super) fn base(points: &[Point], of: &Point) -> Option<usize> {
    let shared = |point: &Point| -> u32 { keys::SCALING.iter().map(|key| u32::from(point.count(key, 1))).product() };
    // Service groups are work where workers share it.
    let groups = |point: &Point| of.get("workers").and(point.get("service_groups")).map(str::to_owned);
    let same = |point: &&(usize, &Point)| {
        let (mut a, mut b) = (point.1.workload(), of.workload());
        a.sort();
        b.sort();
        a == b && groups(point.1) == groups(of)
    };
    let is_scaled = of.values.iter().any(|(key, _)| keys::SCALING.contains(&key.as_str()));
    if !is_scaled {
        return Some(0);
    }
    points.iter().enumerate().filter(|point| same(&point)).min_by_key(|(_, point)| shared(point)).map(|(n, _)| n)
}

/// A point's gateways, ready to be measured.
struct Ready {
    rig: Box<dyn Rig>,
    report: Report,
    how: How,
}

fn gateways<U: UnderTest>(
    report: &mut ExperimentReport,
    make: &dyn Fn(&Point) -> Result<U, BenchError>,
    resolved: &Resolved,
    points: &[Point],
    stop: &AtomicBool,
    show: &mut dyn FnMut(&Progress),
) -> Result<(), BenchError> {
    let (_, rounds) = resolved.options(resolved.port, 1).windows();
    let groups = together(points, resolved.workers);
    let mut steps = Steps::new(points.len() + rounds * groups.len(), show, stop);
    let mut bed: Option<Bed> = None;
    let most = points.iter().map(|point| point.count("workers", resolved.workers)).max().unwrap_or(1);
    let (mut measured, mut results): (Vec<Vec<Window>>, Vec<Report>) = (Vec::new(), Vec::new());
    if groups.len() > 1 {
        let what = "measured one after the other in groups: gateways of all points at once would be too many";
        report.notes.push(what.to_owned());
    }
    for group in groups {
        let (of, mut ready) = (&points[group], Vec::new());
        for point in of {
            steps.next(format!("setting up {}", point.text()))?;
            ready.push(set_up(&make(point)?, point, resolved, most, &mut bed)?);
        }
        let windows = play(&mut ready, rounds, &mut steps)?;
        for ((point, one), these) in of.iter().zip(ready).zip(&windows) {
            let mut found = one.report;
            found.take(these);
            found.close(one.rig.close()?);
            found.varied = point.values.iter().cloned().collect();
            results.push(found);
        }
        measured.extend(windows);
    }
    (report.port, report.seconds) = (ports(points, resolved.port), resolved.seconds);
    for ((point, found), these) in points.iter().zip(results).zip(&measured) {
        let first = base(points, point).map_or(these, |n| &measured[n]);
        if found.frames_lost != 0 || found.packets_missing != 0 {
            let (frames, packets) = (found.frames_lost, found.packets_missing);
            report.notes.push(format!("{}: {frames} packet buffers, {packets} packets unaccounted for", point.text()));
        }
        if point.get("pps").is_some() && found.power.watts.is_none() {
            let note = found.power.text();
            if !report.notes.contains(&note) {
                report.notes.push(note);
            }
        }
        let row = Row { noise: Some(Noise::of(these)), ..row(point, &found, these, first) };
        disturbed(report, point, row.noise.as_ref());
        report.rows.push(row);
        report.results.push(found);
    }
    Ok(())
}

/// Workers of gateways that are there at the same time at most, where there are several points.
const MOST_TOGETHER: usize = 16;

/// Points in their order, as many together as there may be workers.
fn together(points: &[Point], workers: u16) -> Vec<std::ops::Range<usize>> {
    let of = |point: &Point| usize::from(point.count("instances", 1)) * usize::from(point.count("workers", workers));
    let (mut groups, mut begin, mut sum) = (Vec::new(), 0, 0);
    for (n, point) in points.iter().enumerate() {
        if n > begin && sum + of(point) > MOST_TOGETHER {
            groups.push(begin..n);
            (begin, sum) = (n, 0);
        }
        sum += of(point);
    }
    groups.push(begin..points.len());
    groups
}

/// Windows of each point, in turns.
fn play(ready: &mut [Ready], rounds: usize, steps: &mut Steps<'_>) -> Result<Vec<Vec<Window>>, BenchError> {
    let turns: Vec<Turn> = ready.iter().enumerate().map(|(n, one)| (n, one.how)).collect();
    let mut windows: Vec<Vec<Window>> = ready.iter().map(|_| Vec::new()).collect();
    for round in 0..rounds {
        steps.next(format!("round {} of {rounds}, all points in turns", round + 1))?;
        let mut order = turns.clone();
        if round % 2 == 1 {
            order.reverse();
        }
        let mut rigs: Vec<&mut dyn Rig> = ready.iter_mut().map(|one| &mut *one.rig as &mut dyn Rig).collect();
        let played = in_turns(&mut rigs, &order, 1, steps.stop)?;
        for ((n, _), found) in order.iter().zip(played) {
            windows[*n].extend(found);
        }
    }
    Ok(windows)
}

/// Notes a point that was disturbed.
pub(super) fn disturbed(report: &mut ExperimentReport, point: &Point, noise: Option<&Noise>) {
    if let Some(noise) = noise.filter(|noise| noise.is_disturbed) {
        report.notes.push(format!("disturbed: {}: {}", point.text(), noise.why()));
    }
}

/// The ports of all points; empty where they are varied.
fn ports(points: &[Point], port: PortKind) -> String {
    let is_varied = points.iter().any(|point| point.get("port").is_some());
    if is_varied { String::new() } else { port.name().to_owned() }
}

fn set_up<U: UnderTest>(
    under: &U,
    point: &Point,
    resolved: &Resolved,
    most: u16,
    bed: &mut Option<Bed>,
) -> Result<Ready, BenchError> {
    let port = point.get("port").map_or(Ok(resolved.port), |word| keys::port(word).map_err(asked))?;
    let (instances, workers) = (point.count("instances", 1), point.count("workers", resolved.workers));
    let options = resolved.options(port, workers);
    let mut report = Report { instances, workers, ..blank(under, &options) };
    report.subscribers *= u64::from(instances);
    report.flows *= u64::from(instances);
    let pps = point.get("pps").map(|value| keys::pps(value).map_err(asked)).transpose()?.or(resolved.pps);
    let (measure, _) = options.windows();
    let memory = port == PortKind::Memory;
    let warm = Duration::from_millis(if memory { 30 } else { 100 });
    let how = How { warm, pps, ..How::most(measure) };
    let (rig, bytes, start): (Box<dyn Rig>, usize, Duration) = if memory {
        "in process".clone_into(&mut report.host.nic);
        "generator".clone_into(&mut report.load.source);
        let mut all = cpus();
        // The first CPU has the machine's interrupts.
        all.reverse();
        let rig = MemoryRig::new(under, instances, workers, &all)?;
        let (bytes, start) = (rig.session_bytes, rig.start);
        (Box::new(rig), bytes, start)
    } else {
        let bed = match bed {
            Some(bed) => bed,
            None => bed.insert(Bed::new(&under.links()?, most, true, resolved.receive_work)?),
        };
        let mut ready = bed.gateways(under, port, instances, workers)?;
        report.host.nic = ready.nic();
        overload(&mut ready.rig)?.word().clone_into(&mut report.load.source);
        resolved.receive_work.word().clone_into(&mut report.load.receive_work);
        (Box::new(ready.rig), ready.session_bytes, ready.start)
    };
    report.start_seconds = start.as_secs_f64();
    report.bytes_per_subscriber = bytes as f64 / report.subscribers.max(1) as f64;
    Ok(Ready { rig, report, how })
}

/// A point's figures. `first`: windows of the point that its rate is compared with.
fn row(point: &Point, report: &Report, these: &[Window], first: &[Window]) -> Row {
    let mut row = Row::of(point);
    let workers = usize::from(report.workers) * usize::from(report.instances);
    row.put("mpps", Measured::median(these.iter().map(|window| window.traffic.mpps)));
    row.put("gbps_l2", Measured::median(these.iter().map(|window| window.traffic.gbps_l2)));
    row.put("times_one", Measured::exactly(ratio(these, first)));
    if workers > 1 || point.get("workers").is_some() || point.get("instances").is_some() {
        row.put("mpps_each", Measured::exactly(row.value("mpps") / workers.max(1) as f64));
    }
    let of_instance = |what: fn(&[crate::crew::Slice], f64) -> f64| {
        let of =
            |n: usize| {
                let range = n * usize::from(report.workers)..(n + 1) * usize::from(report.workers);
                median(these.iter().filter_map(|window| {
                    Some(what(window.workers.get(range.clone())?, window.traffic.seconds.max(1e-9)))
                }))
            };
        (0..usize::from(report.instances)).map(of).collect::<Vec<f64>>()
    };
    let busy = of_instance(|workers, _| {
        workers.iter().map(|slice| slice.measured.utilisation()).sum::<f64>() / workers.len().max(1) as f64
    });
    row.put("cpu_ratio", Measured::mean(&busy));
    let power = Power::of(these);
    if power.watts.is_some() {
        row.put("watts", Measured::median(power.samples));
    }
    if let Some(each) = power.microjoules_per_packet {
        row.put("microjoules_per_packet", Measured::exactly(each));
    }
    if report.instances > 1 {
        let packets = of_instance(|workers, seconds| {
            workers.iter().map(|slice| slice.measured.io(Io::TxPackets)).sum::<u64>() as f64 / seconds / 1e6
        });
        let bits = of_instance(|workers, seconds| {
            workers.iter().map(|slice| slice.measured.io(Io::TxBytes)).sum::<u64>() as f64 * 8.0 / seconds / 1e9
        });
        row.put("instance_mpps", Measured::mean(&packets));
        row.put("instance_gbps_l2", Measured::mean(&bits));
    }
    let cost = Cost::of(these);
    row.put("tc_ns", Measured::exactly(cost.tc_ns));
    row.put("tp_ns", Measured::exactly(cost.tp_ns));
    row
}

/// Turns of all points.
const ROUNDS: usize = 3;

/// A cable gateway's points: each is set up anew in every round.
fn cable(
    report: &mut ExperimentReport,
    experiment: &Experiment,
    resolved: &Resolved,
    points: &[Point],
    stop: &AtomicBool,
    show: &mut dyn FnMut(&Progress),
) -> Result<(), BenchError> {
    let settings = |point: &Point| {
        let port = point.get("port").map_or(Ok(resolved.port), |word| keys::port(word).map_err(asked))?;
        let mut settings = experiment.cable()?;
        workload(point).try_for_each(|(key, value)| settings.set(key, value))?;
        settings.workers = point.count("workers", resolved.workers);
        let seconds = resolved.seconds / ROUNDS as f64;
        let options = CableOptions { settings, seconds, port, rates: false, ..CableOptions::default() };
        cmts::check(&options).map(|()| options)
    };
    // What cannot be is known before anything is measured.
    let (mut able, mut options) = (Vec::new(), Vec::new());
    for point in points {
        match settings(point) {
            Ok(of) => {
                able.push(point.clone());
                options.push(of);
            }
            Err(error) => report.not_run.push(NotRun { what: point.text(), why: error.to_string() }),
        }
    }
    if able.is_empty() {
        let why = report.not_run.first().map_or_else(String::new, |not| not.why.clone());
        return Err(BenchError::Asked(format!("no point of {} can be: {why}", experiment.name)));
    }
    let mut steps = Steps::new(able.len() * ROUNDS, show, stop);
    let mut found: Vec<Vec<CableReport>> = able.iter().map(|_| Vec::new()).collect();
    for round in 0..ROUNDS {
        for n in 0..able.len() {
            let n = if round % 2 == 0 { n } else { able.len() - 1 - n };
            steps.next(format!("round {} of {ROUNDS}: {}", round + 1, able[n].text()))?;
            let mut one = cmts::run(&options[n], stop)?;
            one.common.profile.clone_from(&experiment.name);
            one.common.varied = able[n].values.iter().cloned().collect();
            found[n].push(one);
        }
    }
    (report.port, report.seconds) = (ports(&able, resolved.port), resolved.seconds);
    for (n, point) in able.iter().enumerate() {
        let first = &found[base(&able, point).unwrap_or(n)];
        report.rows.push(cable_row(point, &found[n], first));
        for warning in found[n].iter().flat_map(CableReport::warnings) {
            report.notes.push(format!("{}: {warning}", point.text()));
        }
    }
    for mut rounds in found {
        rounds.sort_by(|a, b| a.common.mpps.total_cmp(&b.common.mpps));
        let middle = rounds.len() / 2;
        report.cable_results.extend(rounds.into_iter().nth(middle));
    }
    for difference in report.cable_results.iter().flat_map(|one| &one.cable.differences) {
        let text = format!("{}: {} published; here {}", difference.what, difference.published, difference.here);
        if !report.differs.contains(&text) {
            report.differs.push(text);
        }
    }
    Ok(())
}

fn cable_row(point: &Point, these: &[CableReport], first: &[CableReport]) -> Row {
    let mut row = Row::of(point);
    let each = |what: fn(&CableReport) -> f64| Measured::median(these.iter().map(what));
    row.put("mpps", each(|one| one.common.mpps));
    row.put("gbps_l2", each(|one| one.common.gbps_l2));
    row.put("gbps_each", each(|one| one.cable.gbps_per_service_group));
    let pairs = these.iter().zip(first).map(|(this, that)| this.common.mpps / that.common.mpps.max(1e-12));
    row.put("times_one", Measured::median(pairs));
    row.put(
        "cpu_ratio",
        each(|one| {
            let busy = &one.common.worker_utilisation;
            busy.iter().sum::<f64>() / busy.len().max(1) as f64
        }),
    );
    row.put("tc_ns", each(|one| one.common.cost.tc_ns));
    row.put("tp_ns", each(|one| one.common.cost.tp_ns));
    row
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(values: &[(&str, &str)]) -> Point {
        Point { values: values.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect() }
    }

    #[test]
    fn few_gateways_are_there_at_a_time() {
        let points: Vec<Point> = (1..=8).map(|n: u16| point(&[("instances", &n.to_string())])).collect();
        assert_eq!(together(&points, 1), [0..5, 5..7, 7..8], "1 to 5 are 15 workers");
        let alone = together(&points[..1], 64);
        assert!(alone.len() == 1 && alone[0] == (0..1), "one alone is as large as it is");
    }

    #[test]
    fn rates_are_compared_with_the_fewest_of_the_same_workload() {
        let points = [
            point(&[("ratio", "1:1"), ("workers", "2")]),
            point(&[("ratio", "1:1"), ("workers", "1")]),
            point(&[("workers", "1"), ("ratio", "1:9")]),
            point(&[("workers", "2"), ("ratio", "1:9")]),
            point(&[("ratio", "5:5")]),
        ];
        let of: Vec<Option<usize>> = points.iter().map(|of| base(&points, of)).collect();
        assert_eq!(of, [Some(1), Some(1), Some(2), Some(2), Some(0)]);
    }
}
