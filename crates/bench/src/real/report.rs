//! The result as an object: conditions, cells, checks.

use schemars::JsonSchema;
use serde::Serialize;

use super::audit::Check;
use super::cells::{Cell, Row};
use super::contender::Kind;
use super::options::{Offered, RealOptions, RealPort};
use super::place::Place;
use super::stats::{Ratio, middle};
use super::traffic::profile;
use super::trial::Trial;
use crate::host::{Host, date};

/// What was measured under which conditions.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Conditions {
    /// The processor's model.
    pub cpu: String,
    /// The kernel's release.
    pub kernel: String,
    /// Processors that this process may use.
    pub cores: usize,
    /// Version of weir.
    pub version: String,
    /// The gateway's binary, if it is another build.
    pub gateway: Option<String>,
    /// The peer's binary, if one was measured.
    pub peer: Option<String>,
    /// When it began, in UTC, as 2026-01-31T12:00:00Z.
    pub date: String,
    /// CPUs and scheduling class of gateway, load and far ends.
    pub placement: String,
    /// Sessions, brought up by PFCP.
    pub sessions: u32,
    /// Of `mix`: every so many sessions one is kept in user space by a URR that counts before QoS; none: not measured.
    pub user_space_every: Option<u32>,
    /// Functions of every session.
    pub features: Vec<String>,
    /// Octets of a frame on N6, and on N3.
    pub frame_bytes: [usize; 2],
    /// Where frames come from.
    pub load: String,
    /// `[workers] idle` of the gateway.
    pub idle: Option<String>,
    /// Seconds counted in a trial.
    pub window_seconds: f64,
    /// Rounds per cell: at least, at most.
    pub rounds: (usize, usize),
}

impl Conditions {
    /// Of this machine.
    pub fn new(options: &RealOptions, place: &Place) -> Self {
        let host = Host::this();
        let path = |path: &std::path::PathBuf| path.display().to_string();
        let mut features: Vec<String> =
            ["QER with MBR and gate", "URR with volume threshold and period", "PDU Session Container with QFI"]
                .map(Into::into)
                .to_vec();
        features.push(if options.sdf { "one SDF filter per PDR" } else { "no SDF filter" }.into());
        Self {
            cpu: host.cpu,
            kernel: host.kernel,
            cores: host.cores,
            version: env!("CARGO_PKG_VERSION").into(),
            gateway: options.gateway.as_ref().map(path),
            peer: options.peer.as_ref().map(path),
            date: date(),
            placement: place.text(),
            sessions: options.sessions,
            user_space_every: options.user_space_every,
            features,
            frame_bytes: [128, 128 + profile(options, options.flow).tunnel_bytes()],
            load: "live frames written by the kernel on the load's CPU (BPF_PROG_TEST_RUN), paced".into(),
            idle: options.idle.clone(),
            window_seconds: options.window.as_secs_f64(),
            rounds: options.rounds,
        }
    }
}

/// How fast a user plane's sessions came up, 32 requests under way at a time.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Setup {
    /// `weir` or `eupf`.
    pub contender: &'static str,
    /// As in cells.
    pub path: &'static str,
    /// Mode of the ports; of a peer, its own.
    pub port: &'static str,
    /// Sessions that came up.
    pub sessions: u32,
    /// Sessions a second.
    pub sessions_per_second: f64,
    /// CPU microseconds of all threads for each.
    pub cpu_us_per_session: f64,
}

/// Another contender's figures beside a cell's.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Beside {
    /// Which contender.
    pub name: String,
    /// Packets it delivered a second.
    pub pps: f64,
    /// Its CPU nanoseconds per packet.
    pub cpu_ns_per_packet: Option<f64>,
    /// Its part of a CPU.
    pub cpu_percent: f64,
    /// The cell's rate as a part of its rate.
    pub pps_ratio: Option<f64>,
    /// The cell's CPU time per packet (idle: CPU time) as a part of its own.
    pub cpu_ratio: Option<f64>,
    /// The ratio that the cell is about: `pps_ratio` in a saturated cell, `cpu_ratio` in others.
    pub ratio: Option<f64>,
    /// 95 % confidence interval of `ratio`.
    pub ci95: Option<[f64; 2]>,
}

/// A contender in a cell.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Record {
    /// Where packets are processed: `user`, `auto` (known sessions in the kernel, the rest by workers), `mix` (the same, with
    /// sessions whose rules keep them in user space) or `kernel`.
    pub path: &'static str,
    /// `weir`, `bare` or `eupf`.
    pub contender: &'static str,
    /// Mode of the ports; of a peer, its own.
    pub port: &'static str,
    /// Sessions that the packets are of.
    pub sessions: u32,
    /// `mixed`, `uplink` or `downlink`.
    pub direction: &'static str,
    /// Packets a second asked for; 0: idle.
    pub offered_pps: f64,
    /// Packets a second that the load has sent.
    pub sent_pps: f64,
    /// The rate offered is the one at which most is delivered.
    pub saturated: bool,
    /// Saturated by the load's CPU: hardly a packet was lost, so the contender might deliver more.
    pub load_limited: bool,
    /// Packets delivered a second.
    pub pps: f64,
    /// The part of the packets sent that did not arrive.
    pub loss_ratio: f64,
    /// CPU nanoseconds of all threads for each packet delivered.
    pub cpu_ns_per_packet: Option<f64>,
    /// CPU seconds of all threads for a million packets delivered.
    pub cpu_seconds_per_million: Option<f64>,
    /// CPU time of all threads, in per cent of a CPU.
    pub cpu_percent: f64,
    /// The part of `cpu_percent` that the NAPI threads of its interfaces take.
    pub napi_percent: f64,
    /// Time runnable and not running, in per cent, all threads together.
    pub waited_percent: f64,
    /// The part of both CPUs' time that the hypervisor took.
    pub steal_ratio: f64,
    /// Median latency, microseconds.
    pub p50_us: Option<f64>,
    /// Latency of 99 in 100 packets at most, microseconds.
    pub p99_us: Option<f64>,
    /// Packets per burst received.
    pub burst_mean: Option<f64>,
    /// Times a second that threads were woken.
    pub wakeups_per_second: f64,
    /// Rounds: trials that the figures are medians of.
    pub repeats: usize,
    /// Trials that could not be used, and were the last of their kind.
    pub invalid: usize,
    /// All ratios of the gateway's user-space path in this cell are known to 5 %.
    pub settled: bool,
    /// The bare forwarder beside it; none: it is the bare forwarder, or was not measured.
    pub reference: Option<Beside>,
    /// The peer beside it.
    pub peer: Option<Beside>,
    /// 95 % confidence interval of the ratio to the reference.
    pub ci95_ratio: Option<[f64; 2]>,
    /// Every trial's rate, in packets a second.
    pub samples: Vec<f64>,
}

/// The object that `weir bench real --json` writes. Keys are a contract: they are added, not renamed.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct RealReport {
    /// Version of this object's keys: 1.
    pub schema: u32,
    /// `real`.
    pub profile: &'static str,
    /// The machine, and what was asked for.
    pub conditions: Conditions,
    /// How fast sessions came up, of each contender that has some.
    pub setups: Vec<Setup>,
    /// One record for each contender in each cell, the gateway's first.
    pub cells: Vec<Record>,
    /// Whether user planes did what their rules say.
    pub checks: Vec<Check>,
    /// Trials that were repeated as they were invalid.
    pub trials_repeated: usize,
}

impl RealReport {
    /// Checks of the gateway that failed. A peer's are shown and are no failure of the measurement.
    pub fn failed(&self) -> Vec<&Check> {
        self.checks.iter().filter(|check| !check.ok && check.contender == Kind::Weir.name()).collect()
    }
}

/// The records of a cell, one for each contender.
pub fn records(cell: &Cell, port: RealPort, options: &RealOptions) -> Vec<Record> {
    cell.rows.iter().map(|row| record(cell, row, port, options)).collect()
}

fn record(cell: &Cell, row: &Row, port: RealPort, options: &RealOptions) -> Record {
    let own = row.kind;
    let of = |what: &dyn Fn(&Trial) -> Option<f64>| middle(row.trials.iter().filter_map(what));
    let whole = |what: &dyn Fn(&Trial) -> f64| of(&|trial| Some(what(trial))).unwrap_or(0.0);
    let (pps, sent_pps) = (whole(&Trial::pps), whole(&Trial::sent_pps));
    let cpu_ns = of(&Trial::cpu_ns_per_packet);
    let reference = (own != Kind::Bare).then(|| beside(cell, row, Kind::Bare)).flatten();
    let loss_ratio = whole(&|trial| {
        let (sent, arrived): (u64, u64) = (trial.sent.iter().sum(), trial.arrived.by_direction().iter().sum());
        if sent == 0 { 0.0 } else { (1.0 - arrived as f64 / sent as f64).max(0.0) }
    });
    let saturated = cell.offered == Offered::Saturation;
    Record {
        path: own.path(),
        contender: own.name(),
        port: own.port(port),
        sessions: options.sessions,
        direction: options.flow.word(),
        offered_pps: row.offered,
        sent_pps,
        saturated,
        load_limited: row.limited && loss_ratio < 0.01,
        pps,
        loss_ratio,
        cpu_ns_per_packet: cpu_ns,
        cpu_seconds_per_million: cpu_ns.map(|ns| ns / 1e3),
        cpu_percent: whole(&Trial::cpu_percent),
        napi_percent: whole(&Trial::napi_percent),
        waited_percent: whole(&Trial::waited_percent),
        steal_ratio: whole(&|trial| trial.steal),
        p50_us: of(&|trial| trial.latency_us(0.5)),
        p99_us: of(&|trial| trial.latency_us(0.99)),
        burst_mean: of(&|trial| trial.burst),
        wakeups_per_second: whole(&Trial::wakeups_per_second),
        repeats: row.trials.len(),
        invalid: row.trials.iter().filter(|trial| trial.invalid.is_some()).count(),
        settled: cell.settled,
        ci95_ratio: reference.as_ref().and_then(|beside| beside.ci95),
        reference,
        peer: own.is_gateway().then(|| beside(cell, row, Kind::Peer)).flatten(),
        samples: row.trials.iter().map(Trial::pps).collect(),
    }
}

/// Another contender beside this one, pair by pair.
fn beside(cell: &Cell, row: &Row, other: Kind) -> Option<Beside> {
    let theirs = cell.rows.iter().find(|row| row.kind == other)?;
    let ratio = |of: &dyn Fn(&Trial) -> Option<f64>| {
        let pairs = row.trials.iter().zip(&theirs.trials);
        Ratio::of(pairs.filter_map(|(own, their)| Some((of(own)?, of(their)?))))
    };
    let pps = ratio(&|trial| Some(trial.pps()));
    let cpu = match cell.offered {
        Offered::Idle => ratio(&|trial| Some(trial.cpu_percent())),
        _ => ratio(&Trial::cpu_ns_per_packet),
    };
    let main = if cell.offered == Offered::Saturation { pps } else { cpu };
    Some(Beside {
        name: other.name().into(),
        pps: middle(theirs.trials.iter().map(Trial::pps))?,
        cpu_ns_per_packet: middle(theirs.trials.iter().filter_map(Trial::cpu_ns_per_packet)),
        cpu_percent: middle(theirs.trials.iter().map(Trial::cpu_percent))?,
        pps_ratio: pps.map(|ratio| ratio.mean),
        cpu_ratio: cpu.map(|ratio| ratio.mean),
        ratio: main.map(|ratio| ratio.mean),
        ci95: main.and_then(|ratio| ratio.ci95),
    })
}
