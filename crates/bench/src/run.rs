//! A benchmark from what is asked to its report.

use std::sync::atomic::AtomicBool;

use crate::error::BenchError;
use crate::host::{CpuTime, Host, date, rss_bytes};
use crate::memory::MemoryRig;
use crate::options::{Options, PortKind};
use crate::report::{Observer, Report, VERSION};
use crate::thread::cpus;
use crate::under_test::UnderTest;
use crate::upf::UpfUnderTest;
use crate::window::{How, Rig, in_turns};

/// Runs what is asked for, one port kind.
///
/// # Errors
/// What can not be, what broke, or [`BenchError::Interrupted`].
pub fn run(options: &Options, stop: &AtomicBool) -> Result<Report, BenchError> {
    let under = UpfUnderTest { settings: options.settings.clone() };
    match options.port {
        PortKind::Memory => memory(&under, options, stop),
        _ => Err(BenchError::Asked("not yet".into())),
    }
}

/// What every report says of its trial.
pub(crate) fn blank<U: UnderTest>(under: &U, options: &Options) -> Report {
    let traffic = under.traffic();
    Report {
        schema: 1,
        profile: under.profile().to_owned(),
        gateway: under.kind().to_owned(),
        port: options.port.name().to_owned(),
        workers: options.workers,
        instances: 1,
        subscribers: traffic.ues.into(),
        flows: traffic.flows(),
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
    let mut rig = Box::new(MemoryRig::new(under, options.workers, &cpus)?);
    report.start_seconds = rig.start.as_secs_f64();
    report.bytes_per_subscriber = rig.session_bytes as f64 / f64::from(under.traffic().ues.max(1));
    let before = CpuTime::now();
    let (measure, rounds) = options.windows();
    let how = How { measure, pps: None, clocked: true };
    let turns = [(0, how), (0, How { clocked: false, ..how })];
    let windows = in_turns(&mut [&mut *rig], &turns, rounds, stop)?;
    (report.host.steal_ratio, report.host.busy_ratio) = CpuTime::now().since(&before);
    report.rss_bytes = rss_bytes();
    report.take(&windows[0]);
    let (with, without) = (report.cost.tc_ns, crate::cost::Cost::of(&windows[1]).tc_ns);
    report.observer = Some(Observer { tc_ns: with, tc_ns_without: without, effect_ns: with - without });
    report.close(rig.close()?);
    Ok(report)
}
