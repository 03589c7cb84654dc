//! The cable gateway under the published reference workload.
//!
//! | file | idea |
//! |---|---|
//! | `settings` | the workload: a configuration for the gateway, and what the other side knows of it |
//! | `plant` | the same workload as the far sides know it |
//! | `ends` | hosts on one side, Remote-PHY devices with modems on the other, and what they find |
//! | `rig` | one worker with its far sides in memory, on one thread |
//! | `wired` | one worker on interfaces, its far sides at the other ends of the links |
//! | `rates` | service flows at their maximum sustained rate, in simulated time |
//! | `alone` | the cipher without a gateway, on the same sizes |
//! | `beside` | on interfaces: the same kind of ports with nothing between |
//! | `report`, `show` | the result: keys, tables |
//!
//! In memory everything runs on one thread: what the far sides take to make and check packets is taken off the time by
//! the time stamp counter, and what is left is the gateway's. Everywhere every frame is taken apart, decrypted, checked.

mod alone;
mod beside;
mod ends;
mod plant;
mod rates;
mod report;
mod rig;
mod settings;
mod show;
mod wired;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

pub use report::{CableReport, Sweep};
pub use settings::{CableSettings, Channels};
pub use show::side_by_side;

use self::ends::{CableEnd, CableWindow};
use crate::error::BenchError;
use crate::host::{CpuTime, rss_bytes};
use crate::options::{PortKind, cut};
use crate::thread::{Urgency, cpus, pin, urge};

/// What `weir bench cmts-imix` is asked to do.
#[derive(Clone, Debug)]
pub struct CableOptions {
    /// The workload.
    pub settings: CableSettings,
    /// Time measured, in all.
    pub seconds: f64,
    /// Packets of each of these sizes besides, in bytes with CRC.
    pub sweep: Vec<u16>,
    /// What the gateway's ports are.
    pub port: PortKind,
}

/// A gateway and its far sides, on some kind of ports.
trait Trial {
    /// Traffic that is not looked at in particular; counting begins behind it.
    fn warm(&mut self, time: Duration) -> Result<(), BenchError>;

    /// Loads the gateway for so long, and says what happened.
    fn window(&mut self, time: Duration, stop: &AtomicBool) -> Result<CableWindow, BenchError>;

    /// What encrypts.
    fn cipher(&self) -> &'static str;

    /// Bytes of modems, hosts, keys, service flows and SID clusters.
    fn bytes(&self) -> usize;

    /// What its interfaces are.
    fn nic(&self) -> String;

    /// Ends it: everything arrives, everything is given back.
    fn close(self: Box<Self>) -> Result<CableEnd, BenchError>;
}

impl Default for CableOptions {
    fn default() -> Self {
        Self { settings: CableSettings::default(), seconds: 5.0, sweep: Vec::new(), port: PortKind::Memory }
    }
}

/// Sizes of a sweep (RFC 2544, 9.1).
pub const SIZES: [u16; 7] = [64, 128, 256, 512, 1024, 1280, 1518];

/// Rest between windows, in which the machine's ordinary threads get what they waited for.
const REST: Duration = Duration::from_millis(80);

/// Runs it.
///
/// # Errors
/// What cannot be, what broke, or [`BenchError::Interrupted`].
pub fn run(options: &CableOptions, stop: &AtomicBool) -> Result<CableReport, BenchError> {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            // The first CPU has the machine's interrupts.
            let urgent = cpus().last().is_some_and(|cpu| pin(*cpu)) & urge(Urgency::Packets);
            let port = options.port;
            let mut beside = match port {
                PortKind::Memory => None,
                kind => Some(beside::Beside::new(&options.settings, kind)?),
            };
            let mut report = measured(&options.settings, port, options.seconds, &mut beside, stop)?;
            if let Some(beside) = beside {
                beside.end(&mut report)?;
            }
            if port == PortKind::Memory {
                urgent_word(urgent).clone_into(&mut report.common.host.scheduling);
            }
            for size in &options.sweep {
                let settings = CableSettings { size: Some(*size), ..options.settings.clone() };
                let found = measured(&settings, port, (options.seconds / 4.0).max(0.5), &mut None, stop)?;
                report.cable.sweep.push(Sweep::of(*size, &found));
            }
            report.cable.rates = Some(rates::rates(&options.settings)?);
            Ok(report)
        });
        thread.join().unwrap_or(Err(BenchError::Died("thread of a trial")))
    })
}

fn urgent_word(urgent: bool) -> &'static str {
    if urgent { "fifo" } else { "ordinary" }
}

/// One workload: windows of the gateway, of the cipher alone, and of a bare forwarder where there is one, in turns.
fn measured(
    settings: &CableSettings,
    port: PortKind,
    seconds: f64,
    beside: &mut Option<beside::Beside>,
    stop: &AtomicBool,
) -> Result<CableReport, BenchError> {
    let begin = Instant::now();
    let mut rig: Box<dyn Trial> = match port {
        PortKind::Memory => Box::new(rig::CableRig::new(settings)?),
        kind => Box::new(wired::WiredRig::new(settings, kind)?),
    };
    let start = begin.elapsed();
    let mut alone = alone::Alone::new(settings)?;
    let (measure, rounds) = cut(seconds);
    let before = CpuTime::now();
    let (mut windows, mut references) = (Vec::new(), Vec::new());
    rig.warm(Duration::from_millis(60))?;
    for _ in 0..rounds {
        if stop.load(Ordering::Relaxed) {
            return Err(BenchError::Interrupted);
        }
        windows.push(rig.window(measure, stop)?);
        references.push(alone.window(measure / 4));
        if let Some(beside) = beside {
            beside.window(measure, stop)?;
        }
        std::thread::sleep(REST);
    }
    let noise = CpuTime::now().since(&before);
    let mut report = CableReport::of(settings, port, &*rig, &windows, &references);
    (report.common.host.steal_ratio, report.common.host.busy_ratio) = noise;
    report.common.start_seconds = start.as_secs_f64();
    report.common.rss_bytes = rss_bytes();
    report.take_end(rig.close()?);
    Ok(report)
}
