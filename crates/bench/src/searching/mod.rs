//! `weir bench PROFILE --search …`: the searches of [`crate::search`] on gateways.
//!
//! | file | content |
//! |---|---|
//! | `device` | a gateway under test as a device of searches |
//! | `cable` | the same of the cable gateway, whose far ends count over all windows |
//! | `report` | the result: keys, text |

mod cable;
mod device;
mod report;

use std::sync::atomic::AtomicBool;

pub use report::{At, SearchReport, Searching, Skipped, text};

use self::cable::CableDevice;
use self::device::{Bench, GatewayDevice};
use crate::cmts::{Cable, CableSettings};
use crate::error::BenchError;
use crate::host::{CpuTime, Host, date};
use crate::noise::Gathered;
use crate::options::{Options, PortKind};
use crate::report::VERSION;
use crate::search::rfc2544::{self, LATENCY_AT};
use crate::search::{Goal, Limits, Progress, Runner, mlr, spread};
use crate::under_test::UnderTest;

/// What is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// MLRsearch for all goals.
    Mlr,
    /// RFC 2544 throughput.
    Throughput,
    /// Latency at parts of the rate found.
    Latency,
    /// Loss by load.
    LossCurve,
    /// The longest burst at line rate without loss (RFC 2544, 26.4).
    BackToBack,
    /// Equal trials, one after the other.
    Determinism,
    /// The same for long.
    Soak,
}

impl Kind {
    /// Each with its word.
    pub const ALL: [(Self, &'static str); 7] = [
        (Self::Mlr, "mlr"),
        (Self::Throughput, "throughput"),
        (Self::Latency, "latency"),
        (Self::LossCurve, "loss-curve"),
        (Self::BackToBack, "back-to-back"),
        (Self::Determinism, "determinism"),
        (Self::Soak, "soak"),
    ];

    /// Reads words: `rfc2544` stands for throughput, latency, loss curve and bursts.
    ///
    /// # Errors
    /// An unknown word, with those that are allowed.
    pub fn read(words: &[String]) -> Result<Vec<Self>, BenchError> {
        let mut kinds = Vec::new();
        for word in words {
            match Self::ALL.iter().find(|(_, known)| known == word) {
                Some((kind, _)) => kinds.push(*kind),
                None if word == "rfc2544" => {
                    kinds.extend([Self::Throughput, Self::Latency, Self::LossCurve, Self::BackToBack]);
                }
                None => {
                    let known = Self::ALL.map(|(_, known)| known).join(", ");
                    return Err(BenchError::Asked(format!("unknown search \"{word}\"; allowed: rfc2544, {known}")));
                }
            }
        }
        Ok(kinds)
    }

    fn word(self) -> &'static str {
        Self::ALL.iter().find(|(kind, _)| *kind == self).map_or("", |(_, word)| word)
    }
}

/// How a gateway is to be searched.
#[derive(Clone, Debug)]
pub struct SearchOptions {
    /// What is looked for.
    pub kinds: Vec<Kind>,
    /// Loss ratios of MLRsearch's goals.
    pub loss_ratios: Vec<f64>,
    /// Frame sizes in bytes with FCS (RFC 2544, 9.1); empty: the workload's own.
    pub sizes: Vec<u16>,
    /// Seconds of a trial.
    pub trial_seconds: f64,
    /// Equal trials of `determinism`; trials at a load that decide in MLRsearch.
    pub trials: u32,
    /// Seconds of the soak.
    pub soak_seconds: f64,
    /// The load of latency, determinism and soak, in packets a second; none: the rate that is found.
    pub pps: Option<f64>,
    /// All trials together.
    pub limits: Limits,
}

impl Default for SearchOptions {
    fn default() -> Self {
        Self {
            kinds: vec![Kind::Mlr],
            loss_ratios: vec![0.0, 0.005],
            sizes: Vec::new(),
            trial_seconds: 0.25,
            trials: 21,
            soak_seconds: 60.0,
            pps: None,
            limits: Limits::default(),
        }
    }
}

impl SearchOptions {
    fn goals(&self) -> Vec<Goal> {
        let mut goals = Vec::new();
        if self.kinds.contains(&Kind::Mlr) {
            goals.extend(
                self.loss_ratios.iter().map(|loss| Goal::with_loss(*loss).timed(self.trial_seconds, self.trials)),
            );
        }
        let needs_rate = self.pps.is_none() && self.kinds.iter().any(|kind| *kind != Kind::LossCurve);
        if self.kinds.contains(&Kind::Throughput) || goals.is_empty() && needs_rate {
            goals.push(Goal::rfc2544(self.trial_seconds));
        }
        goals
    }
}

/// Sizes that RFC 2544, 9.1 names, and a jumbo frame.
pub const SIZES: [u16; 8] = [64, 128, 256, 512, 1024, 1280, 1518, 9000];

/// What searches need beside the device: shared by all sizes.
pub(crate) struct Job<'j> {
    options: &'j SearchOptions,
    show: &'j mut dyn FnMut(&Progress),
    noise: Gathered,
}

/// Searches a workload; `make` gives it with all frames of a size, in bytes without FCS.
///
/// # Errors
/// What cannot be, what broke, or [`BenchError::Interrupted`].
pub fn search<U: UnderTest>(
    make: &dyn Fn(Option<u16>) -> Result<U, BenchError>,
    base: &Options,
    options: &SearchOptions,
    stop: &AtomicBool,
    show: &mut dyn FnMut(&Progress),
) -> Result<SearchReport, BenchError> {
    let under = make(None)?;
    let mut report = blank(under.kind(), under.profile(), base, options);
    let before = CpuTime::now();
    let mut job = Job { options, show, noise: Gathered::default() };
    for size in sizes(options) {
        let made = make(size.map(|size| size.saturating_sub(4))).and_then(|under| {
            let long = options.trial_seconds > LONGEST_URGENT;
            GatewayDevice::new(&under, base, long, stop)
        });
        match made {
            Ok(mut device) => {
                job.one(size, &mut device, &mut report)?;
                report.close(device.close()?);
            }
            Err(error) => report.skip(size, error)?,
        }
    }
    report.noise = job.noise.noise();
    (report.host.steal_ratio, report.host.busy_ratio) = CpuTime::now().since(&before);
    Ok(report)
}

/// Searches the cable gateway.
///
/// # Errors
/// As [`search`].
pub fn search_cable(
    settings: &CableSettings,
    base: &Options,
    options: &SearchOptions,
    stop: &AtomicBool,
    show: &mut dyn FnMut(&Progress),
) -> Result<SearchReport, BenchError> {
    let mut report = blank("cmts", "cmts-imix", base, options);
    let before = CpuTime::now();
    let mut job = Job { options, show, noise: Gathered::default() };
    for size in sizes(options) {
        let mut settings = settings.clone();
        let sized = size.map_or(Ok(()), |size| settings.set("size", &size.to_string()));
        let under = sized.and_then(|()| {
            Cable::check(&settings, base.port)?;
            Cable::new(&settings, base.port)
        });
        match under {
            Ok(under) => {
                let mut device = CableDevice::new(&under, base.port, stop)?;
                job.one(size, &mut device, &mut report)?;
                report.close(device.close()?);
            }
            Err(error) => report.skip(size, error)?,
        }
    }
    report.noise = job.noise.noise();
    (report.host.steal_ratio, report.host.busy_ratio) = CpuTime::now().since(&before);
    Ok(report)
}

/// Threads that come before all others may run for so long at a time; see [`crate::thread`].
const LONGEST_URGENT: f64 = 0.9;

fn sizes(options: &SearchOptions) -> Vec<Option<u16>> {
    if options.sizes.is_empty() { vec![None] } else { options.sizes.iter().map(|size| Some(*size)).collect() }
}

fn blank(gateway: &str, profile: &str, base: &Options, options: &SearchOptions) -> SearchReport {
    let mut notes = Vec::new();
    if options.trial_seconds < 60.0 && options.goals().iter().any(|goal| goal.name == "throughput") {
        notes.push(format!("trials of {} s: not RFC 2544 duration (60 s)", options.trial_seconds));
    }
    if base.port == PortKind::Memory && gateway == "cmts" {
        notes.push("in memory, rates are those of the gateway's own time: its far ends' is taken off".to_owned());
    }
    if gateway == "cmts" {
        notes.push(
            "packets that queues of overloaded modems drop are not lost: they are offered more than they may send; \
             --set overload=0 searches without them"
                .to_owned(),
        );
    }
    if base.port == PortKind::Memory && gateway != "cmts" {
        notes.push(
            "in memory, generator and checker share the gateway's CPU: rates are those of all three; a packet that the \
             gateway has not taken when a trial ends, beyond a ring of 1,024 a worker, counts as lost"
                .to_owned(),
        );
    }
    if base.port != PortKind::Memory {
        notes.push(
            "over links the generator's rate is precise to 3 %: one that sent less than 97 % of a load is the limit. Loss is \
             counted from the beginning of the measured time: some tens of packets on their way may hide as many lost"
                .to_owned(),
        );
    }
    SearchReport {
        schema: 1,
        profile: profile.to_owned(),
        gateway: gateway.to_owned(),
        port: base.port.name().to_owned(),
        workers: base.workers,
        search: Searching {
            kinds: options.kinds.iter().map(|kind| kind.word().to_owned()).collect(),
            goals: options.goals(),
            trial_seconds: options.trial_seconds,
            ..Searching::default()
        },
        host: Host::this(),
        date: date(),
        version: VERSION.to_owned(),
        notes,
        ..SearchReport::default()
    }
}

impl Job<'_> {
    /// All searches of a size.
    fn one<D: Bench>(
        &mut self,
        size: Option<u16>,
        device: &mut D,
        report: &mut SearchReport,
    ) -> Result<(), BenchError> {
        let options = self.options;
        let (forwarded, sent) = device.overload()?;
        if forwarded < 100.0 {
            // Frames that are too long are dropped before any gateway sees them.
            let why = "none of the workload's frames is forwarded: this size is beyond what its ports carry".to_owned();
            return report.skip(size, BenchError::Asked(why));
        }
        let most = (forwarded * 1.5).min(sent.max(forwarded * 1.05)).max(1000.0);
        let mut limits = options.limits;
        limits.seconds = (limits.seconds - report.search.elapsed_seconds).max(0.0);
        limits.trials = limits.trials.saturating_sub(report.trials.len());
        let on_links = device.has_links();
        let burst = options.kinds.contains(&Kind::BackToBack) && on_links;
        let label = size.map_or(String::new(), |size| format!("{size} B, "));
        let show = &mut *self.show;
        let mut runner = Runner::new(device, limits).showing(move |progress| {
            show(&Progress { phase: format!("{label}{}", progress.phase), ..progress.clone() });
        });
        let goals = options.goals();
        let mut rate = options.pps;
        if !goals.is_empty() {
            let searched = mlr::search(&mut runner, &goals, (most / 1000.0, most))?;
            rate = rate.or(searched.found.first().and_then(|found| found.mpps_lower).map(|mpps| mpps * 1e6));
            report.found(size, searched);
        }
        if options.kinds.contains(&Kind::LossCurve) {
            let curve = rfc2544::loss_curve(&mut runner, most, options.trial_seconds)?;
            report.loss_curve.extend(curve.into_iter().map(|found| At { frame_bytes: size, found }));
        }
        if let Some(rate) = rate {
            runner.device().check_each()?;
            Self::at_a_rate(options, &mut runner, rate, size, report)?;
        }
        if burst {
            runner.device().bursts(true);
            let (_, sent) = runner.device().overload()?;
            let throughput = rate.unwrap_or(forwarded);
            if let Some(found) = rfc2544::back_to_back(&mut runner, (sent, throughput), 0.1, 5)? {
                report.back_to_back.push(At { frame_bytes: size, found });
            }
            runner.device().bursts(false);
        } else if options.kinds.contains(&Kind::BackToBack) && report.back_to_back.is_empty() {
            report.note("back-to-back: memory has no queue that a burst could fill; add --port");
        }
        report.search.elapsed_seconds += runner.elapsed_seconds();
        report.search.repeated_trials += runner.repeated();
        report.trials.extend(runner.into_records().into_iter().map(|record| At { frame_bytes: size, found: record }));
        self.noise.append(device.noise());
        if let Some(rate) = rate.filter(|_| report.at_ndr.is_none()) {
            report.at_ndr = Some(device.report_at(rate)?);
        }
        Ok(())
    }

    /// What is measured at a rate that is known.
    fn at_a_rate<D: Bench>(
        options: &SearchOptions,
        runner: &mut Runner<'_, D>,
        rate: f64,
        size: Option<u16>,
        report: &mut SearchReport,
    ) -> Result<(), BenchError> {
        let seconds = options.trial_seconds;
        if options.kinds.contains(&Kind::Latency) {
            let found = rfc2544::latency(runner, rate, &LATENCY_AT, seconds)?;
            if found.iter().all(|at| at.latency_us.is_none()) {
                report.note("latency is not measured by trial on this workload");
            }
            report.latency.extend(found.into_iter().map(|found| At { frame_bytes: size, found }));
        }
        if options.kinds.contains(&Kind::Determinism) {
            let found = spread::equal(runner, ("determinism", rate), seconds, options.trials as usize)?;
            report.determinism.push(At { frame_bytes: size, found });
        }
        if options.kinds.contains(&Kind::Soak) {
            let count = (options.soak_seconds / seconds).ceil().max(1.0) as usize;
            let found = spread::equal(runner, ("soak", 0.9 * rate), seconds, count)?;
            report.soak.push(At { frame_bytes: size, found });
        }
        Ok(())
    }
}
