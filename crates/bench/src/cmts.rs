//! The cable gateway under the published reference workload.
//!
//! | file | idea |
//! |---|---|
//! | `settings` | the workload: a configuration for the gateway, and what the other side knows of it |
//! | `plant` | the same workload as the far sides know it |
//! | `ends` | hosts on one side, Remote-PHY devices with modems on the other, and what they find |
//! | `under` | the gateway under test, with those ends at its ports |
//! | `rig` | one worker on some kind of ports, warmed up, drained at the end |
//! | `rates` | service flows at their maximum sustained rate, in simulated time |
//! | `alone` | the cipher without a gateway, on the same sizes |
//! | `beside` | on interfaces: the same kind of ports with nothing between |
//! | `report`, `show` | the result: keys, tables |
//!
//! In memory the far ends are on the worker's thread: what they take to make and check packets is taken off its time by
//! the time stamp counter, and what is left is the gateway's. On interfaces they have a thread of their own. Everywhere
//! every frame is taken apart, decrypted, checked.

mod alone;
mod beside;
mod ends;
pub mod plant;
mod rates;
mod report;
mod rig;
mod settings;
mod show;
mod under;

use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

pub use report::{CableReport, Sweep};
pub use settings::{CableSettings, Channels};
pub use show::side_by_side;

pub(crate) use self::rig::CableRig;
pub(crate) use self::under::Cable;
use crate::error::BenchError;
use crate::host::{CpuTime, rss_bytes};
use crate::options::{Options, PortKind, cut};
use crate::report::Reference;
use crate::run::blank;
use crate::window::{How, Rig, in_turns};

/// What `weir bench cmts-imix` is asked to do.
#[derive(Clone, Debug)]
pub struct CableOptions {
    /// Rates, modems and traffic of the cable workload.
    pub settings: CableSettings,
    /// Time measured, in all.
    pub seconds: f64,
    /// Packets of each of these sizes besides, in bytes with CRC.
    pub sweep: Vec<u16>,
    /// What the gateway's ports are.
    pub port: PortKind,
}

impl Default for CableOptions {
    fn default() -> Self {
        Self { settings: CableSettings::default(), seconds: 5.0, sweep: Vec::new(), port: PortKind::Memory }
    }
}

/// Sizes of a sweep (RFC 2544, 9.1).
pub const SIZES: [u16; 7] = [64, 128, 256, 512, 1024, 1280, 1518];

/// Runs it.
///
/// # Errors
/// What cannot be, what broke, or [`BenchError::Interrupted`].
pub fn run(options: &CableOptions, stop: &AtomicBool) -> Result<CableReport, BenchError> {
    let port = options.port;
    Cable::check(&options.settings, port)?;
    let mut report = measured(&options.settings, port, options.seconds, true, stop)?;
    for size in &options.sweep {
        let settings = CableSettings { size: Some(*size), ..options.settings.clone() };
        let found = measured(&settings, port, (options.seconds / 4.0).max(0.5), false, stop)?;
        report.cable.sweep.push(Sweep::of(*size, &found));
    }
    report.cable.rates = Some(rates::rates(&options.settings)?);
    Ok(report)
}

/// One workload: windows of the gateway, of the cipher alone, and on interfaces, if `beside`, of a bare forwarder, in turns.
fn measured(
    settings: &CableSettings,
    port: PortKind,
    seconds: f64,
    beside: bool,
    stop: &AtomicBool,
) -> Result<CableReport, BenchError> {
    let mut bare = match beside && port != PortKind::Memory {
        true => Some(Box::new(beside::Beside::new(settings, port)?)),
        false => None,
    };
    let begin = Instant::now();
    let under = Cable::new(settings, port)?;
    let mut rig = Box::new(CableRig::new(&under, CableSettings::macs(), port)?);
    let start = begin.elapsed();
    let mut alone = alone::Alone::new(settings)?;
    let (measure, rounds) = cut(seconds);
    let before = CpuTime::now();
    rig.warm(Duration::from_millis(60))?;
    let how = How::most(measure);
    let mut rigs: Vec<&mut dyn Rig> = vec![&mut *rig, &mut alone];
    let mut turns = vec![(0, how), (1, How::most(measure / 4))];
    if let Some(bare) = &mut bare {
        rigs.push(&mut **bare);
        turns.push((2, How { warm: Duration::from_millis(60), ..how }));
    }
    let windows = in_turns(&mut rigs, &turns, rounds, stop)?;
    let noise = CpuTime::now().since(&before);
    let common = blank(&under, &Options { port, ..Options::default() });
    let mut report = CableReport::of(settings, common, &rig, alone.cipher(), &windows[0], &windows[1]);
    let common = &mut report.common;
    (common.host.steal_ratio, common.host.busy_ratio) = noise;
    common.start_seconds = start.as_secs_f64();
    common.rss_bytes = rss_bytes();
    if let Some(bare) = bare {
        // The ratio is that of a gateway busy all the time: its far ends, which take every frame apart, cannot always keep
        // it so.
        let found = Reference::bare(port, &windows[2]);
        let ratio = if found.mpps > 0.0 { common.load.busy_mpps / found.mpps } else { 0.0 };
        common.reference = Reference { ratio, ..found };
        bare.close()?;
    }
    report.take_end(settings, rig.drain()?);
    report.common.drops = std::mem::take(&mut rig.drops);
    report.common.close(rig.close()?);
    Ok(report)
}
