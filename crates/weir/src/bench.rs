//! `weir bench`: what a gateway does to every packet, measured.

mod day;
mod experiments;
mod io;
mod real;
mod search;

pub use day::DayReport;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ::bench::bng::BngUnderTest;
use ::bench::experiment::{Experiment, GatewayKind, Measure};
use ::bench::scale::{self, Axis};
use ::bench::thread::{Urgency, urge};
use ::bench::under_test::UnderTest;
use ::bench::upf::UpfUnderTest;
use ::bench::{Options, PortKind};
use anyhow::Context;
use clap::Args;

use gateway::cli::{packets_per_second, seconds};
use gateway::fail::Usage;
use gateway::json::JsonOutput;
use gateway::signals;

/// `weir bench`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  weir bench upf-embb                              packet cost, 100,000 subscribers, by stage
  weir bench upf-embb --set ues=1_000_000          the same for a million
  weir bench upf-embb --bursts 1,4,16,64           processing time by burst, headers warm and cold
  weir bench vepc-embb --set ratio=1:9             a published 4G workload; or 5:5, 2.5:7.5, 4:6
  weir bench fwa --set ratio=2.5:7.5               fixed wireless access as published, see fwa-full
  weir bench --list                                all experiments, with their publications
  weir bench packet-core                           gateways of one worker, and one on all CPUs
  weir bench upf-embb --vary workers=1..4          any key varied: a row for each value
  sudo weir bench forward-pps                      receive, transmit and forward by queues and flows
  weir bench upf-sizes --print > mine.toml         a file to change; run it: weir bench mine.toml
  sudo weir bench upf-128 --port all               every kind of port, with bare forwarders
  sudo weir bench upf-128 --port xdp --json -      one object for programs
  sudo weir bench upf-128 --port ring --fanout 4   workers on one pair of interfaces
  weir bench cmts-imix                             the published vCMTS workload, every frame checked
  weir bench cmts-imix --service-groups 1..8 --set channels=ofdm2-scqam32
  weir bench cmts-imix --set aqm=off --set upstream=1 (all keys: docs/benchmarks.md, Cable)
  sudo weir bench cmts-imix --port all             the same over links of its own
  weir bench bng-600g --set subscribers=40000      the published BNG workload, in memory
  sudo weir bench real                             a process on frames of another CPU, idle to full
  sudo weir bench real --loads idle,10k,max --peer /usr/local/bin/eupf
  sudo weir bench day                              CPU time over a day, groups parked or not
  weir bench io --port dpdk                        a DPDK port beside dpdk-testpmd, ns a packet
  sudo weir bench suite                            all targets, with verdicts
  weir bench upf-embb --disturb memory             beside a noisy neighbour, in turns
  weir bench upf-128 --search mlr                  the rate without loss, and with 0.5 % (MLRsearch)
  sudo weir bench upf-128 --search rfc2544 --sizes all --port xdp --json rfc2544.json")]
pub struct BenchArgs {
    /// An experiment of --list, such as upf-128, or a FILE.toml that describes one (--print has files to copy);
    /// pfcp-sessions (sessions a control plane can establish a second), real (a gateway process on frames that another
    /// CPU wrote, at the loads of --loads); day: a broadband gateway's CPU time over a day of load, with and without
    /// `park`; io: what a DPDK port costs beside dpdk-testpmd; suite: all targets, with a verdict a line; or forward: no measurement, but a
    /// bare forwarder between the ports --set n3=URI and --set n6=URI, until Ctrl-C.
    #[arg(value_name = "EXPERIMENT", default_value = "", hide_default_value = true)]
    pub profile: String,
    /// List the experiments with their publications.
    #[arg(long, conflicts_with_all = ["profile", "print"])]
    pub list: bool,
    /// Print the experiment's file, to copy and change.
    #[arg(long)]
    pub print: bool,
    /// Kind of the gateway's ports: memory, plain, mmsg, ring, xdp, or all; dpdk in builds that have it [default: the
    /// experiment's, mostly memory; with real: xdp; real also has slots, and takes several: ring,dpdk].
    #[arg(long, value_name = "KIND")]
    pub port: Option<String>,
    /// Workers; the subscribers are divided among them [default: 1].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub workers: Option<u16>,
    /// Measure 1 to R gateways, each on interfaces of its own.
    #[arg(long, value_name = "R", value_parser = clap::value_parser!(u16).range(1..=64), conflicts_with = "fanout")]
    pub instances: Option<u16>,
    /// Measure 1 to R workers of one gateway on one pair of interfaces, subscribers divided among them.
    #[arg(long, value_name = "R", value_parser = clap::value_parser!(u16).range(1..=64))]
    pub fanout: Option<u16>,
    /// Time to measure, at each point of what is varied [default: the experiment's; with real: 1, for each trial].
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub seconds: Option<f64>,
    /// With cmts-imix: service groups on the core, a number or from..to [default: 2].
    #[arg(long, value_name = "N")]
    pub service_groups: Option<String>,
    /// With cmts-imix: also packets of single sizes, 64 to 1518 bytes.
    #[arg(long)]
    pub sweep: bool,
    /// Processing time by packets in a burst, with headers in the caches and in none: sizes such as
    /// 1,2,4,8,16,32,64. In memory.
    #[arg(long, value_name = "SIZES", value_delimiter = ',', value_parser = clap::value_parser!(u16).range(1..=64),
          conflicts_with_all = ["instances", "fanout", "sweep"])]
    pub bursts: Option<Vec<u16>>,
    /// Packets offered a second, instead of more than can be forwarded.
    #[arg(long, value_name = "RATE", value_parser = packets_per_second)]
    pub pps: Option<f64>,
    /// Let the gateway's CPU do the receive work of its interfaces, instead of the sender's.
    #[arg(long)]
    pub share_cpu: bool,
    /// Keep the gateway's CPU for the gateway: its packets are received on the load's CPU, as beyond a wire.
    #[arg(long, conflicts_with = "share_cpu")]
    pub own_cpu: bool,
    /// Run a noisy neighbour in windows of their own, and show its effect: on a worker's CPU, or on memory.
    #[arg(long, value_enum, value_name = "KIND", conflicts_with_all = ["instances", "fanout", "bursts"])]
    pub disturb: Option<::bench::neighbour::Kind>,
    /// With suite, real and day: a short run.
    #[arg(long)]
    pub quick: bool,
    /// Options of searches: `--search` and what goes with it.
    #[command(flatten)]
    pub search: search::SearchArgs,
    /// Options of real only.
    #[command(flatten)]
    pub real: real::RealArgs,
    /// Change a parameter of the workload, such as ues=50000 or new_flows=0.1. May be given several times.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Vary a parameter, workers, instances, port or pps instead of what the experiment varies, such as ratio=1:1,1:9
    /// or workers=1..cpus: a row for each value; given several times: for each combination.
    #[arg(long, value_name = "KEY=VALUES", conflicts_with_all = ["instances", "fanout", "bursts", "sweep", "search"])]
    pub vary: Vec<String>,
    /// JSON.
    #[command(flatten)]
    pub json: JsonOutput,
}

/// What is no experiment.
const FIXED: [&str; 6] = ["real", "forward", "suite", "pfcp-sessions", "day", "io"];

impl BenchArgs {
    fn port(&self) -> &str {
        self.port.as_deref().unwrap_or("memory")
    }

    fn seconds(&self) -> f64 {
        self.seconds.unwrap_or(5.0)
    }

    fn workers(&self) -> u16 {
        self.workers.unwrap_or(1)
    }

    fn receive_work(&self) -> ::bench::ReceiveWork {
        use ::bench::ReceiveWork::{Gateway, Load, Senders};
        if self.own_cpu {
            Load
        } else if self.share_cpu {
            Gateway
        } else {
            Senders
        }
    }

    /// Refuses options that are not read: left alone they would seem to have an effect.
    fn refuse_unread(&self, experiment: Option<&Experiment>) -> Result<(), Usage> {
        let given = [
            ("--port", self.port.is_some()),
            ("--workers", self.workers.is_some()),
            ("--instances", self.instances.is_some()),
            ("--fanout", self.fanout.is_some()),
            ("--seconds", self.seconds.is_some()),
            ("--service-groups", self.service_groups.is_some()),
            ("--sweep", self.sweep),
            ("--bursts", self.bursts.is_some()),
            ("--pps", self.pps.is_some()),
            ("--share-cpu", self.share_cpu),
            ("--own-cpu", self.own_cpu),
            ("--disturb", self.disturb.is_some()),
            ("--quick", self.quick),
            ("--set", !self.set.is_empty()),
            ("--vary", !self.vary.is_empty()),
        ];
        let is_searched = self.search.is_wanted()
            && experiment.is_some_and(|of| of.measure == Measure::Workload && of.vary.is_empty());
        let read = self.read(experiment);
        let given = given.into_iter().chain(self.search.given().map(|(option, given)| (option, given && !is_searched)));
        let unread = given.chain(self.real.given().map(|(option, given)| (option, given && self.profile != "real")));
        let Some((option, _)) = unread.filter(|(option, _)| !read.contains(option)).find(|(_, given)| *given) else {
            return Ok(());
        };
        let mut allowed = read.to_vec();
        if self.profile == "real" {
            allowed.extend(self.real.given().map(|(option, _)| option));
        }
        let name = match experiment {
            Some(experiment) => &experiment.name,
            None if self.list => "--list",
            None if self.print => "--print",
            None => self.profile.as_str(),
        };
        Err(Usage(format!("{option} has no effect on {name}; allowed: {}", allowed.join(", "))))
    }

    /// Options that are read.
    fn read(&self, experiment: Option<&Experiment>) -> &'static [&'static str] {
        if self.list || self.print {
            return &["--json"];
        }
        let Some(experiment) = experiment else {
            return match self.profile.as_str() {
                "suite" => &["--quick"],
                "real" => &["--port", "--seconds", "--quick"],
                "day" => &["--port", "--workers", "--seconds", "--pps", "--quick"],
                "io" => &["--port", "--seconds", "--set"],
                _ => &["--set"],
            };
        };
        let is_cable = experiment.gateway == Some(GatewayKind::Cmts);
        let is_varied = !experiment.vary.is_empty();
        match experiment.measure {
            Measure::ControlPlane => &["--set", "--vary"],
            Measure::ForwardPps => &["--port", "--seconds", "--set", "--vary"],
            Measure::Telemetry => &["--seconds", "--pps", "--set", "--vary"],
            Measure::LatencyLocation => &["--port", "--workers", "--seconds", "--pps", "--set", "--vary"],
            Measure::Workload if is_varied && is_cable => &["--port", "--workers", "--seconds", "--set", "--vary"],
            Measure::Workload if is_varied => {
                &["--port", "--workers", "--seconds", "--pps", "--share-cpu", "--own-cpu", "--set", "--vary"]
            }
            Measure::Workload if self.search.is_wanted() && is_cable => &["--port", "--pps", "--set"],
            Measure::Workload if self.search.is_wanted() => {
                &["--port", "--workers", "--pps", "--share-cpu", "--own-cpu", "--set"]
            }
            Measure::Workload if is_cable => {
                &["--port", "--workers", "--seconds", "--service-groups", "--sweep", "--disturb", "--set", "--vary"]
            }
            Measure::Workload => &[
                "--port",
                "--workers",
                "--instances",
                "--fanout",
                "--seconds",
                "--bursts",
                "--pps",
                "--share-cpu",
                "--own-cpu",
                "--disturb",
                "--set",
                "--vary",
            ],
        }
    }

    /// Gives each `--set` to a workload.
    fn set<E: ToString>(&self, mut set: impl FnMut(&str, &str) -> Result<(), E>) -> anyhow::Result<()> {
        for pair in &self.set {
            let split = pair.split_once('=');
            let (key, value) = split.ok_or_else(|| Usage(format!("--set {pair} is invalid; allowed: KEY=VALUE")))?;
            set(key, value).map_err(|error| Usage(error.to_string()))?;
        }
        Ok(())
    }
}

/// Once interrupted, so long is given to whatever is being done: making a million sessions takes longer.
const LAST: Duration = Duration::from_millis(150);

/// Ends the process soon after it was interrupted, without what is still being done.
fn end_soon(stop: &Arc<AtomicBool>) {
    let stop = stop.clone();
    let wait = move || {
        // Threads that carry packets come before all ordinary ones.
        urge(Urgency::Conductor);
        while !stop.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(50));
        }
        std::thread::sleep(LAST);
        ::bench::lab::remove_own();
        eprintln!("weir: interrupted");
        signals::exit_at_once(1);
    };
    // Without a thread it takes longer.
    let _ = std::thread::Builder::new().name("interrupt".into()).spawn(wait);
}

/// Runs it.
///
/// # Errors
/// What cannot be measured here, and why.
pub fn run(args: &BenchArgs) -> anyhow::Result<()> {
    if args.list {
        args.refuse_unread(None)?;
        return experiments::list(args);
    }
    let experiment = experiments::named(args)?;
    if args.print {
        args.refuse_unread(None)?;
        return experiments::print_file(args);
    }
    args.refuse_unread(experiment.as_ref())?;
    let stop = signals::stop_flag().context("no signal handlers")?;
    if !["real", "forward", "day", "io"].contains(&args.profile.as_str()) {
        end_soon(&stop);
    }
    let Some(experiment) = experiment else {
        return match args.profile.as_str() {
            "real" => real::run(args, &stop),
            "forward" => real::forward(args, &stop),
            "suite" => suite(args, &stop),
            "day" => day::run(args, &stop),
            "io" => io::run(args, &stop),
            _ => sessions(args, &stop),
        };
    };
    if !experiment.vary.is_empty() || experiment.measure != Measure::Workload {
        return experiments::run(args, &experiment, &stop);
    }
    let of_run = &experiment.run;
    if of_run.machine.is_some() || of_run.usd_per_hour.is_some() || of_run.share_cpus {
        let what = "machine, usd_per_hour and share_cpus in [run] have an effect with [[vary]] or --vary only";
        return Err(Usage(format!("{}: {what}", experiment.name)).into());
    }
    let is_searched = args.search.is_wanted();
    if is_searched && experiment.gateway == Some(GatewayKind::Cmts) && of_run.workers.is_some_and(|count| count > 1) {
        let what = "workers in [run] has no effect on --search: searches of cable gateways have one worker";
        return Err(Usage(format!("{}: {what}; leave the key out", experiment.name)).into());
    }
    let args = &BenchArgs {
        port: args.port.clone().or_else(|| of_run.port.clone()),
        seconds: args.seconds.or(of_run.seconds),
        workers: args.workers.or(of_run.workers),
        ..args.clone()
    };
    match experiment.gateway {
        Some(GatewayKind::Cmts) if is_searched => search::cable(args, experiment.cable().map_err(usage)?, &stop),
        Some(GatewayKind::Cmts) => cable(args, &experiment, &stop),
        Some(GatewayKind::Bng) if is_searched => {
            search::broadband(args, &experiment.broadband().map_err(setting)?, &stop)
        }
        Some(GatewayKind::Bng) => {
            workload(args, &BngUnderTest { settings: experiment.broadband().map_err(setting)? }, &stop)
        }
        _ if is_searched => search::mobile(args, &experiment.mobile().map_err(setting)?, &stop),
        _ => workload(args, &UpfUnderTest { settings: experiment.mobile().map_err(setting)? }, &stop),
    }
}

fn setting(error: ::bench::profiles::SettingError) -> Usage {
    Usage(error.to_string())
}

/// `pfcp-sessions`: sessions that a control plane can establish a second.
fn sessions(args: &BenchArgs, stop: &AtomicBool) -> anyhow::Result<()> {
    let mut sessions = 200_000;
    args.set(|key, value| {
        let read = quantity::count(value).filter(|count| key == "sessions" && (4..=4_000_000).contains(count));
        let wrong = || format!("--set {key}={value} is invalid; allowed: sessions=4 to sessions=4000000");
        sessions = read.ok_or_else(wrong)? as u32; // at most four millions
        Ok::<(), String>(())
    })?;
    let found = ::bench::pfcp_sessions::pfcp_sessions(sessions, stop, &mut experiments::show);
    experiments::clear();
    let found = found?;
    print(args, &found, &found.text())
}

/// A gateway under its workload: in memory or on interfaces, alone, scaled out or by bursts.
fn workload<U: UnderTest>(args: &BenchArgs, under: &U, stop: &AtomicBool) -> anyhow::Result<()> {
    let all = args.port() == "all";
    let port = if all { PortKind::Plain } else { args.port().parse().map_err(usage)? };
    let options = Options {
        port,
        workers: args.workers(),
        seconds: args.seconds(),
        pps: args.pps,
        receive_work: args.receive_work(),
        disturb: args.disturb,
    };
    if port == PortKind::Memory && options.receive_work != ::bench::ReceiveWork::default() {
        let flag = if args.own_cpu { "--own-cpu" } else { "--share-cpu" };
        return Err(
            Usage(format!("`{flag}` is about interfaces, of which memory has none: add --port xdp, or all")).into()
        );
    }
    if port != PortKind::Memory && under.wires().is_none() {
        under.links().map_err(usage)?;
    }
    if let Some(sizes) = &args.bursts {
        if port != PortKind::Memory {
            return Err(Usage("`--bursts`: on interfaces packets come as they come; leave --port away".into()).into());
        }
        let sizes: Vec<usize> = sizes.iter().map(|size| usize::from(*size)).collect();
        let found = ::bench::bursts::bursts(under, &options, &sizes, stop)?;
        return print(args, &found, &found.text());
    }
    let scaled = args.instances.map(|n| (Axis::Instances, n)).or(args.fanout.map(|n| (Axis::Fanout, n)));
    if all && scaled.is_some() {
        return Err(Usage("scale out on one kind of port: --port xdp --instances 4".to_owned()).into());
    }
    if let Some((axis, most)) = scaled {
        let found = scale::scale(under, &options, axis, most, stop)?;
        return print(args, &found, &scale::text(&found));
    }
    if all {
        let modes = ::bench::modes::Modes::new(::bench::run_over(under, &options, &PortKind::SOCKETS, stop)?);
        return print(args, &modes, &modes.text());
    }
    let report = ::bench::run(under, &options, stop)?;
    print(args, &report, &::bench::show::report(&report))
}

/// A cable gateway: one report for each kind of port and number of service groups.
fn cable(args: &BenchArgs, experiment: &Experiment, stop: &AtomicBool) -> anyhow::Result<()> {
    use ::bench::cmts::{CableOptions, SIZES, check, run};
    let ports = match args.port() {
        "all" => PortKind::SOCKETS.to_vec(),
        word => vec![word.parse::<PortKind>().map_err(usage)?],
    };
    let settings = experiment.cable().map_err(usage)?;
    let mut options =
        CableOptions { settings, seconds: args.seconds(), disturb: args.disturb, ..CableOptions::default() };
    options.settings.workers = args.workers();
    if args.sweep {
        options.sweep = SIZES.to_vec();
    }
    let by_key = options.settings.groups.to_string();
    let text = args.service_groups.as_deref().unwrap_or(&by_key);
    let (first, last) = text.split_once("..").unwrap_or((text, text));
    let number = |word: &str| word.parse::<u16>().ok().filter(|n| (1..=8).contains(n));
    let (Some(first), Some(last)) = (number(first), number(last).filter(|last| Some(*last) >= number(first))) else {
        return Err(Usage(format!("`--service-groups {text}`: 1 to 8, or from..to")).into());
    };
    let mut reports = Vec::new();
    for port in ports {
        for groups in first..=last {
            (options.port, options.settings.groups) = (port, groups);
            check(&options).map_err(usage)?;
            let mut report = run(&options, stop)?;
            report.common.profile.clone_from(&experiment.name);
            reports.push(report);
        }
    }
    match reports.as_slice() {
        [one] => print(args, one, &one.text()),
        many => print(args, many, &::bench::cmts::side_by_side(many)),
    }
}

fn suite(args: &BenchArgs, stop: &AtomicBool) -> anyhow::Result<()> {
    let found = ::bench::suite::suite(args.quick, stop, &mut |what| eprintln!("measuring {what} …"))?;
    print(args, &found, &found.text())
}

fn usage(error: ::bench::BenchError) -> Usage {
    Usage(error.to_string())
}

fn print(
    args: &BenchArgs,
    value: &(impl serde::Serialize + schemars::JsonSchema + ?Sized),
    text: &str,
) -> anyhow::Result<()> {
    args.json.print_pretty(value, || text.to_owned())
}
