//! The cable gateway under the published reference workload.
//!
//! | file | idea |
//! |---|---|
//! | `settings` | the workload: what can be set |
//! | `limits` | rates, peak rates, priorities, active queue management; who is offered more than that |
//! | `configuration` | the workload as a configuration for the gateway |
//! | `plant` | the same workload as the far sides know it |
//! | `ends` | hosts on one side, Remote-PHY devices with modems on the other, and what they find |
//! | `under` | the gateway under test, with those ends at its ports |
//! | `rig` | workers on some kind of ports, their queues filled, drained at the end |
//! | `rates` | service flows at their maximum sustained rate, in simulated time |
//! | `alone` | the cipher's library, and the engine around it, without a gateway, on the same sizes |
//! | `beside` | on interfaces: the same kind of ports with nothing between |
//! | `report`, `standing`, `show` | the result: keys, tables |
//! | `differences` | what is not alike with the published measurement |
//!
//! In memory the far ends are on the worker's thread. Everything goes by a clock that only the gateway's own work moves
//! ([`crate::work_clock`]): channels, rates of service flows and active queue management are as fast beside the gateway
//! as they would be if packets came from elsewhere. On interfaces the far ends have a thread of their own. Everywhere
//! every frame is taken apart, decrypted, checked.

mod alone;
mod beside;
mod configuration;
mod differences;
mod ends;
mod limits;
pub mod plant;
mod rates;
mod report;
mod rig;
mod settings;
mod show;
mod standing;
mod under;

use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

pub use differences::Difference;
pub use limits::{FlowRates, Limits};
pub use report::{Cable as CableKeys, CableReport, Sweep};
pub use settings::{CableSettings, Channels, Rules};
pub use show::side_by_side;
pub use standing::{Matches, Queues, ServiceFlows};

pub(crate) use self::rig::CableRig;
pub(crate) use self::under::Cable;
use crate::error::BenchError;
use crate::host::{CpuTime, rss_bytes};
use crate::neighbour::{Disturbed, Kind, Neighbour};
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
    /// A noisy neighbour, in windows of its own.
    pub disturb: Option<Kind>,
    /// Whether service flows are held against their maximum sustained rate, in simulated time.
    pub rates: bool,
}

impl Default for CableOptions {
    fn default() -> Self {
        Self {
            settings: CableSettings::default(),
            seconds: 5.0,
            sweep: Vec::new(),
            port: PortKind::Memory,
            disturb: None,
            rates: true,
        }
    }
}

/// Sizes of a sweep (RFC 2544, 9.1).
pub const SIZES: [u16; 7] = [64, 128, 256, 512, 1024, 1280, 1518];

/// Whether it can be measured as asked.
///
/// # Errors
/// [`BenchError::Asked`]: what cannot be, and what is allowed.
pub fn check(options: &CableOptions) -> Result<(), BenchError> {
    Cable::check(&options.settings, options.port)
}

/// Runs it.
///
/// # Errors
/// What cannot be, what broke, or [`BenchError::Interrupted`].
pub fn run(options: &CableOptions, stop: &AtomicBool) -> Result<CableReport, BenchError> {
    check(options)?;
    let mut report = measured(&options.settings, options, options.seconds, true, stop)?;
    for size in &options.sweep {
        let settings = CableSettings { size: Some(*size), ..options.settings.clone() };
        let found = measured(&settings, options, (options.seconds / 4.0).max(0.5), false, stop)?;
        report.cable.sweep.push(Sweep::of(*size, &found));
    }
    if options.settings.downstream && options.rates {
        report.cable.rates = Some(rates::rates(&options.settings, stop)?);
    }
    Ok(report)
}

/// One workload: windows of the gateway, of the cipher alone, and on interfaces, if `beside`, of a bare forwarder, in turns.
fn measured(
    settings: &CableSettings,
    options: &CableOptions,
    seconds: f64,
    beside: bool,
    stop: &AtomicBool,
) -> Result<CableReport, BenchError> {
    let port = options.port;
    let mut bare = match beside && port != PortKind::Memory {
        true => Some(Box::new(beside::Beside::new(settings, port)?)),
        false => None,
    };
    let begin = Instant::now();
    let under = Cable::new(settings, port)?;
    let mut rig = Box::new(CableRig::new(&under, CableSettings::macs(), port, settings.workers)?);
    let start = begin.elapsed();
    let (mut library, mut engine) = (alone::Library::new(settings), alone::Alone::new(settings)?);
    let (measure, rounds) = cut(seconds);
    let before = CpuTime::now();
    rig.warm(Duration::from_millis(60), settings.is_overloaded(), stop)?;
    let how = How::most(measure);
    let mut rigs: Vec<&mut dyn Rig> = vec![&mut *rig, &mut library, &mut engine];
    let mut turns = vec![(0, how), (1, How::most(measure / 4)), (2, How::most(measure / 4))];
    if let Some(bare) = &mut bare {
        rigs.push(&mut **bare);
        turns.push((3, How { warm: Duration::from_millis(60), ..how }));
    }
    let windows = in_turns(&mut rigs, &turns, rounds, stop)?;
    let noise = CpuTime::now().since(&before);
    let common = blank(&under, &Options { port, workers: settings.workers, ..Options::default() });
    let mut report = CableReport::of(settings, common, &rig, library.name(), &windows[0], [&windows[1], &windows[2]]);
    let common = &mut report.common;
    (common.host.steal_ratio, common.host.busy_ratio) = noise;
    common.start_seconds = start.as_secs_f64();
    common.rss_bytes = rss_bytes();
    if let Some(bare) = bare {
        // The ratio is that of a gateway busy all the time: its far ends, which take every frame apart, cannot always keep
        // it so.
        let found = Reference::bare(port, &windows[3]);
        let ratio = if found.mpps > 0.0 { common.load.busy_mpps / found.mpps } else { 0.0 };
        common.reference = Reference { ratio, ..found };
        bare.close()?;
    }
    let overload = under.overload();
    let end = rig.drain(stop)?;
    report.cable.queues = Queues::of(settings, port, &rig, &windows[0], &overload);
    report.cable.matches = Matches::of(settings, &rig.counters, &end);
    report.take_end(settings, rig.queue_drops().iter().sum(), end);
    report.cable.upstream_limited_by = limited(&report);
    report.cable.differences = differences::differences(settings, port, &report.common.host, &report.cable.cipher);
    report.common.drops = std::mem::take(&mut rig.drops);
    if let Some(kind) = options.disturb.filter(|_| beside) {
        report.common.disturbed = Some(disturbed(&mut rig, kind, settings, (how, rounds), stop)?);
    }
    report.common.close(rig.close()?);
    Ok(report)
}

/// Windows with a neighbour and without, in turns, behind all that is counted.
fn disturbed(
    rig: &mut CableRig<'_>,
    kind: Kind,
    settings: &CableSettings,
    (how, rounds): (How, usize),
    stop: &AtomicBool,
) -> Result<Disturbed, BenchError> {
    rig.warm(Duration::from_millis(60), settings.is_overloaded(), stop)?;
    let neighbour = Neighbour::of(kind, &rig.taken)?;
    let turns = [(0, how), (0, How { neighbour: Some(neighbour), ..how })];
    let windows = in_turns(&mut [rig], &turns, rounds, stop)?;
    // Nothing is left in its queues when it ends.
    rig.drain(stop)?;
    Ok(Disturbed::of(neighbour, &windows[1], &windows[0]))
}

/// What kept the ratio of upstream to downstream from what it was set to; empty: nothing.
fn limited(report: &CableReport) -> String {
    let (common, cable) = (&report.common, &report.cable);
    let Some(set) = cable.upstream_ratio_set else { return String::new() };
    if (cable.upstream_ratio - set).abs() <= TOLERANCE * set {
        return String::new();
    }
    let directions = &common.directions;
    let lost = directions.uplink.lost_packets;
    match () {
        () if directions.downlink.sent_packets == 0 => "nothing was sent downstream".to_owned(),
        () if lost > directions.uplink.sent_packets / 100 => format!("{lost} packets upstream were lost"),
        () if directions.uplink.sent_packets < u64::from(cable.service_groups) * u64::from(cable.modems) * 20 => {
            "the run is too short: a grant of each modem is 2 KB".to_owned()
        }
        () if common.worker_utilisation.iter().all(|busy| *busy > 0.95) => {
            "the gateway was busy all the time".to_owned()
        }
        () => "the far end, which sends upstream as downstream arrives".to_owned(),
    }
}

/// Part by which the ratio of upstream to downstream may differ from what it was set to.
const TOLERANCE: f64 = 0.03;
