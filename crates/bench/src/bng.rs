//! `bng-600g`: the published workload of a broadband gateway (40k, 80k and 256k IPoE subscribers behind two tags, 254 core
//! endpoints, 1400-byte packets, 8:1), in memory.
//!
//! | file | idea |
//! |---|---|
//! | `settings` | the workload: configuration and traffic from the same numbers |
//! | `ends` | the access network and the core as the gateway's ports: frames made and checked where they are |
//! | `rig` | workers between such ports, in windows |

mod ends;
mod rig;
mod settings;

use std::sync::atomic::AtomicBool;

pub use settings::{KEYS, Settings};

use crate::cost::Cost;
use crate::error::BenchError;
use crate::host::{CpuTime, Host, date, rss_bytes};
use crate::options::cut;
use crate::report::{Observer, Report, VERSION};
use crate::thread::cpus;
use crate::window::{How, Rig, in_turns};
use rig::BngRig;

/// Measures the workload with stages charged by the clock and without, in turns. `pps`: packets offered a second; none:
/// more than can be forwarded.
///
/// # Errors
/// What can not be, what broke, or [`BenchError::Interrupted`].
pub fn run(
    settings: &Settings,
    workers: u16,
    seconds: f64,
    pps: Option<f64>,
    stop: &AtomicBool,
) -> Result<Report, BenchError> {
    let mut report = Report {
        schema: 1,
        profile: "bng-600g".to_owned(),
        gateway: "bng".to_owned(),
        port: "memory".to_owned(),
        workers,
        instances: 1,
        subscribers: settings.subscribers.into(),
        flows: settings.subscribers.into(),
        host: Host::this(),
        date: date(),
        version: VERSION.to_owned(),
        ..Report::default()
    };
    "in process".clone_into(&mut report.host.nic);
    "generator".clone_into(&mut report.load.source);
    let mut cpus = cpus();
    // The first CPU has the machine's interrupts.
    cpus.reverse();
    let mut rig = Box::new(BngRig::new(settings, workers, &cpus)?);
    report.start_seconds = rig.start.as_secs_f64();
    report.bytes_per_subscriber = rig.session_bytes as f64 / f64::from(settings.subscribers.max(1));
    let before = CpuTime::now();
    let (measure, rounds) = cut(seconds);
    let how = How { pps, ..How::most(measure) };
    let turns = [(0, how), (0, How { clocked: false, ..how })];
    let windows = in_turns(&mut [&mut *rig], &turns, rounds, stop)?;
    (report.host.steal_ratio, report.host.busy_ratio) = CpuTime::now().since(&before);
    report.rss_bytes = rss_bytes();
    report.take(&windows[0]);
    let (with, without) = (report.cost.tc_ns, Cost::of(&windows[1]).tc_ns);
    report.observer = Some(Observer { tc_ns: with, tc_ns_without: without, effect_ns: with - without });
    report.close(rig.close()?);
    Ok(report)
}
