//! A benchmark from what is asked to its report.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use crate::bed::Bed;
use crate::cost::Cost;
use crate::error::BenchError;
use crate::host::{CpuTime, Host, date, rss_bytes};
use crate::memory::MemoryRig;
use crate::neighbour::{Disturbed, Neighbour};
use crate::options::{Options, PortKind};
use crate::report::{Observer, Paced, Reference, Report, VERSION};
use crate::socket::{SocketRig, Source};
use crate::thread::cpus;
use crate::under_test::UnderTest;
use crate::window::{How, Rig, in_turns, ratio_of_time};

/// Measures a workload on one kind of ports.
///
/// # Errors
/// What cannot be, what broke, or [`BenchError::Interrupted`].
pub fn run<U: UnderTest>(under: &U, options: &Options, stop: &AtomicBool) -> Result<Report, BenchError> {
    match options.port {
        PortKind::Memory => memory(under, options, stop),
        _ if under.wires().is_some() => wired(under, options, stop),
        kind => {
            let reports = run_over(under, options, &[kind], stop)?;
            reports.into_iter().next().ok_or_else(|| BenchError::Asked("no port".into()))
        }
    }
}

/// What every report says of its trial.
pub(crate) fn blank<U: UnderTest>(under: &U, options: &Options) -> Report {
    let (subscribers, flows) = under.size();
    Report {
        schema: 1,
        profile: under.profile().to_owned(),
        gateway: under.kind().to_owned(),
        port: options.port.name().to_owned(),
        workers: options.workers,
        instances: 1,
        subscribers: subscribers.into(),
        flows,
        host: Host::this(),
        date: date(),
        version: VERSION.to_owned(),
        ..Report::default()
    }
}

/// In memory: with the stages' clock and without, in turns.
fn memory<U: UnderTest>(under: &U, options: &Options, stop: &AtomicBool) -> Result<Report, BenchError> {
    let mut report = blank(under, options);
    "in process".clone_into(&mut report.host.nic);
    "generator".clone_into(&mut report.load.source);
    let mut cpus = cpus();
    // The first CPU has the machine's interrupts.
    cpus.reverse();
    let mut rig = Box::new(MemoryRig::new(under, 1, options.workers, &cpus)?);
    report.start_seconds = rig.start.as_secs_f64();
    report.bytes_per_subscriber = rig.session_bytes as f64 / f64::from(under.size().0.max(1));
    let before = CpuTime::now();
    let (measure, rounds) = options.windows();
    let how = How { pps: options.pps, ..How::most(measure) };
    let neighbour = options.disturb.map(|kind| {
        let workers = usize::from(options.workers).min(cpus.len());
        Neighbour::of(kind, &cpus[..workers])
    });
    let neighbour = neighbour.transpose()?;
    let mut turns = vec![(0, how), (0, How { clocked: false, ..how })];
    turns.extend(neighbour.map(|_| (0, How { neighbour, ..how })));
    let windows = in_turns(&mut [&mut *rig], &turns, rounds, stop)?;
    (report.host.steal_ratio, report.host.busy_ratio) = CpuTime::now().since(&before);
    report.rss_bytes = rss_bytes();
    report.take(&windows[0]);
    report.filled = under.filled(&windows[0]);
    let (with, without) = (report.cost.tc_ns, Cost::of(&windows[1]).tc_ns);
    report.disturbed = neighbour.map(|neighbour| Disturbed::of(neighbour, &windows[2], &windows[0]));
    report.observer = Some(Observer { tc_ns: with, tc_ns_without: without, effect_ns: with - without });
    report.close(rig.close()?);
    Ok(report)
}

/// On links of its own, with its own far ends as the load.
fn wired<U: UnderTest>(under: &U, options: &Options, stop: &AtomicBool) -> Result<Report, BenchError> {
    let (bed, mut ready) = Bed::wired(under, options)?;
    let mut report = blank(under, options);
    report.host.nic = ready.nic();
    "far ends".clone_into(&mut report.load.source);
    options.receive_work.word().clone_into(&mut report.load.receive_work);
    report.start_seconds = ready.start.as_secs_f64();
    report.bytes_per_subscriber = ready.session_bytes as f64 / f64::from(under.size().0.max(1));
    let before = CpuTime::now();
    let (measure, rounds) = options.windows();
    let how = How { warm: Duration::from_millis(60), pps: options.pps, ..How::most(measure) };
    let neighbour = options.disturb.map(|kind| Neighbour::of(kind, &bed.taken(1))).transpose()?;
    let mut turns = vec![(0, how)];
    turns.extend(neighbour.map(|_| (0, How { neighbour, ..how })));
    let windows = in_turns(&mut [&mut ready.rig], &turns, rounds, stop)?;
    (report.host.steal_ratio, report.host.busy_ratio) = CpuTime::now().since(&before);
    report.rss_bytes = rss_bytes();
    report.take(&windows[0]);
    report.disturbed = neighbour.map(|neighbour| Disturbed::of(neighbour, &windows[1], &windows[0]));
    report.close(Box::new(ready.rig).close()?);
    Ok(report)
}

/// How much of its capacity a gateway is offered when every packet is checked. Less when that is too much: there the
/// far ends of the links have readers, whose receive work is done by the gateway's CPU.
const PACED: [f64; 4] = [0.8, 0.65, 0.5, 0.35];
/// Part of the packets that may be lost by a gateway which carries its load.
const CARRIED: f64 = 1e-3;

/// Loads a rig with more than it can forward, where the kernel can; with what the generator can send, elsewhere.
///
/// # Errors
/// When neither can be had.
pub(crate) fn overload(rig: &mut SocketRig) -> Result<Source, BenchError> {
    let source = if rig.load_from(Source::Kernel).is_ok() { Source::Kernel } else { Source::Generator };
    rig.load_from(source)?;
    Ok(source)
}

/// A trial below capacity with every packet checked.
fn paced(rig: &mut dyn Rig, how: &How, capacity: f64, rounds: usize, stop: &AtomicBool) -> Result<Paced, BenchError> {
    let mut result = Paced::default();
    for share in PACED {
        let how = How { pps: Some(capacity * 1e6 * share), ..*how };
        let windows = in_turns(&mut [&mut *rig], &[(0, how)], rounds, stop)?;
        result = Paced::of(&windows[0], capacity * share, share);
        if result.loss_ratio_median <= CARRIED {
            break;
        }
    }
    Ok(result)
}

/// Measures a workload on interfaces, each kind of socket beside a bare forwarder of its own kind: all of them in turns.
///
/// # Errors
/// As [`run`].
pub fn run_over<U: UnderTest>(
    under: &U,
    options: &Options,
    kinds: &[PortKind],
    stop: &AtomicBool,
) -> Result<Vec<Report>, BenchError> {
    let traffic = under.links()?;
    let mut bed = Bed::new(&traffic, options.workers, true, options.receive_work)?;
    let mut pairs = Vec::new();
    for kind in kinds {
        let mut ready = bed.gateways(under, *kind, 1, options.workers)?;
        let mut bare = bed.bare(&traffic, *kind)?;
        let source = overload(&mut ready.rig)?;
        bare.load_from(source)?;
        pairs.push((*kind, ready, Box::new(bare), source));
    }
    let before = CpuTime::now();
    let (measure, rounds) = options.windows();
    let how = How { warm: Duration::from_millis(60), pps: options.pps, ..How::most(measure) };
    let neighbour = options.disturb.map(|kind| Neighbour::of(kind, &bed.taken(options.workers))).transpose()?;
    let mut turns: Vec<_> = (0..2 * pairs.len()).map(|n| (n, how)).collect();
    turns.extend((0..pairs.len()).filter_map(|n| Some((2 * n, How { neighbour: Some(neighbour?), ..how }))));
    let mut rigs: Vec<&mut dyn Rig> = Vec::new();
    for (_, ready, bare, _) in &mut pairs {
        rigs.push(&mut ready.rig);
        rigs.push(&mut **bare);
    }
    let windows = in_turns(&mut rigs, &turns, rounds, stop)?;
    let noise = CpuTime::now().since(&before);
    let (windows, mut disturbed) = (&windows[..2 * pairs.len()], windows[2 * pairs.len()..].iter());
    let mut reports = Vec::new();
    for ((kind, mut ready, bare, source), windows) in pairs.into_iter().zip(windows.chunks(2)) {
        let options = Options { port: kind, ..options.clone() };
        let mut report = blank(under, &options);
        (report.host.steal_ratio, report.host.busy_ratio) = noise;
        report.host.nic = ready.nic();
        source.word().clone_into(&mut report.load.source);
        options.receive_work.word().clone_into(&mut report.load.receive_work);
        report.start_seconds = ready.start.as_secs_f64();
        report.bytes_per_subscriber = ready.session_bytes as f64 / f64::from(traffic.ues.max(1));
        report.rss_bytes = rss_bytes();
        report.take(&windows[0]);
        report.disturbed = neighbour.zip(disturbed.next()).map(|(one, with)| Disturbed::of(one, with, &windows[0]));
        report.reference =
            Reference { ratio: ratio_of_time(&windows[0], &windows[1]), ..Reference::bare(kind, &windows[1]) };
        bare.close()?;
        if report.mpps > 0.0 {
            ready.rig.load_from(Source::Generator)?;
            let paced = paced(&mut ready.rig, &how, report.mpps, rounds.min(8), stop)?;
            report.directions.uplink.latency_us = paced.directions.uplink.latency_us;
            report.directions.downlink.latency_us = paced.directions.downlink.latency_us;
            report.paced = Some(paced);
        }
        report.close(Box::new(ready.rig).close()?);
        reports.push(report);
    }
    Ok(reports)
}
