//! `weir bench`: what a gateway does to every packet, measured.

mod real;
mod search;

use std::sync::atomic::AtomicBool;

use ::bench::bng::BngUnderTest;
use ::bench::scale::{self, Axis};
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
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  weir bench upf-embb                              packet cost, 100,000 subscribers, by stage
  weir bench upf-embb --set ues=1_000_000          the same for a million
  weir bench upf-embb --bursts 1,4,16,64           processing time by burst, headers warm and cold
  weir bench vepc-embb --set ratio=1:9             a published 4G workload; or 5:5, 2.5:7.5, 4:6
  weir bench fwa --set ratio=2.5:7.5               fixed wireless access
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
  sudo weir bench suite                            all targets, with verdicts
  weir bench upf-embb --disturb memory             beside a noisy neighbour, in turns
  weir bench upf-128 --search mlr                  the rate without loss, and with 0.5 % (MLRsearch)
  sudo weir bench upf-128 --search rfc2544 --sizes all --port xdp --json rfc2544.json")]
pub struct BenchArgs {
    /// The workload: upf-128 (the published experiment), upf-embb (mobile broadband, everything on), vepc-embb (the same
    /// as 4G, with access lists), fwa (fixed wireless), cmts-imix (the published workload of a cable gateway),
    /// bng-600g (the published workload of a broadband gateway, in memory), pfcp-sessions (sessions a control plane can
    /// establish a second), real (a gateway process on frames that another CPU wrote, at the loads of --loads); suite: all
    /// targets, with a verdict a line; or forward: no
    /// measurement, but a bare forwarder between the ports --set n3=URI and --set n6=URI, until Ctrl-C.
    #[arg(value_name = "PROFILE")]
    pub profile: String,
    /// Kind of the gateway's ports: memory, plain, mmsg, ring, xdp, or all; dpdk in builds that have it [default: memory;
    /// with real: xdp; real also has slots].
    #[arg(long, value_name = "KIND")]
    pub port: Option<String>,
    /// Workers; the subscribers are divided among them.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub workers: u16,
    /// Measure 1 to R gateways, each on interfaces of its own.
    #[arg(long, value_name = "R", value_parser = clap::value_parser!(u16).range(1..=64), conflicts_with = "fanout")]
    pub instances: Option<u16>,
    /// Measure 1 to R workers of one gateway on one pair of interfaces, subscribers divided among them.
    #[arg(long, value_name = "R", value_parser = clap::value_parser!(u16).range(1..=64))]
    pub fanout: Option<u16>,
    /// Time to measure [default: 5; with real: 1, for each trial].
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
    /// With suite and real: a short run.
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
    /// JSON.
    #[command(flatten)]
    pub json: JsonOutput,
}

impl BenchArgs {
    fn port(&self) -> &str {
        self.port.as_deref().unwrap_or("memory")
    }

    fn seconds(&self) -> f64 {
        self.seconds.unwrap_or(5.0)
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

    /// Refuses options that the workload does not read: left alone they would seem to have an effect.
    fn refuse_unread(&self) -> Result<(), Usage> {
        let given = [
            ("--port", self.port.is_some()),
            ("--workers", self.workers != 1),
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
        ];
        let read: &[&str] = match self.profile.as_str() {
            "cmts-imix" if self.search.is_wanted() => &["--port", "--pps", "--set"],
            name if self.search.is_wanted() && !["suite", "pfcp-sessions", "forward", "real"].contains(&name) => {
                &["--port", "--workers", "--pps", "--share-cpu", "--own-cpu", "--set"]
            }
            "suite" => &["--quick"],
            "pfcp-sessions" | "forward" => &["--set"],
            "cmts-imix" => &["--port", "--workers", "--seconds", "--service-groups", "--sweep", "--set"],
            "real" => &["--port", "--seconds", "--quick"],
            _ => &[
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
            ],
        };
        let is_searched =
            self.search.is_wanted() && !["suite", "pfcp-sessions", "forward", "real"].contains(&&*self.profile);
        let given = given.into_iter().chain(self.search.given().map(|(option, given)| (option, given && !is_searched)));
        let unread = given.chain(self.real.given().map(|(option, given)| (option, given && self.profile != "real")));
        let Some((option, _)) = unread.filter(|(option, _)| !read.contains(option)).find(|(_, given)| *given) else {
            return Ok(());
        };
        let mut allowed = read.to_vec();
        if self.profile == "real" {
            allowed.extend(self.real.given().map(|(option, _)| option));
        }
        Err(Usage(format!("{option} has no effect on {}; allowed: {}", self.profile, allowed.join(", "))))
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

/// Runs it.
///
/// # Errors
/// What cannot be measured here, and why.
pub fn run(args: &BenchArgs) -> anyhow::Result<()> {
    args.refuse_unread()?;
    let stop = signals::stop_flag().context("no signal handlers")?;
    match args.profile.as_str() {
        "real" => real::run(args, &stop),
        "forward" => real::forward(args, &stop),
        "suite" => suite(args, &stop),
        "pfcp-sessions" => sessions(args, &stop),
        "cmts-imix" if args.search.is_wanted() => search::cable(args, &stop),
        "bng-600g" if args.search.is_wanted() => search::broadband(args, &stop),
        _ if args.search.is_wanted() => search::mobile(args, &stop),
        "cmts-imix" => cable(args, &stop),
        "bng-600g" => broadband(args, &stop),
        _ => mobile(args, &stop),
    }
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
    let found = ::bench::pfcp_sessions::pfcp_sessions(sessions, stop)?;
    print(args, &found, &found.text())
}

/// `bng-600g`: a broadband gateway.
fn broadband(args: &BenchArgs, stop: &AtomicBool) -> anyhow::Result<()> {
    let mut under = BngUnderTest::default();
    args.set(|key, value| under.settings.set(key, value))?;
    workload(args, &under, stop)
}

/// Workloads of a mobile user plane.
fn mobile(args: &BenchArgs, stop: &AtomicBool) -> anyhow::Result<()> {
    workload(args, &UpfUnderTest { settings: settings(args)? }, stop)
}

/// The numbers of a workload of a mobile user plane.
fn settings(args: &BenchArgs) -> anyhow::Result<::bench::profiles::Settings> {
    let mut settings = ::bench::profiles::Settings::named(&args.profile).ok_or_else(|| {
        Usage(format!(
            "unknown workload \"{}\"; allowed: upf-128, upf-embb, vepc-embb, fwa, cmts-imix, bng-600g, \
             pfcp-sessions, real, suite, forward",
            args.profile
        ))
    })?;
    args.set(|key, value| settings.set(key, value))?;
    Ok(settings)
}

/// A gateway under its workload: in memory or on interfaces, alone, scaled out or by bursts.
fn workload<U: UnderTest>(args: &BenchArgs, under: &U, stop: &AtomicBool) -> anyhow::Result<()> {
    let all = args.port() == "all";
    let port = if all { PortKind::Plain } else { args.port().parse().map_err(usage)? };
    let options = Options {
        port,
        workers: args.workers,
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
    if port != PortKind::Memory {
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

/// `cmts-imix`: one report for each kind of port and number of service groups.
fn cable(args: &BenchArgs, stop: &AtomicBool) -> anyhow::Result<()> {
    use ::bench::cmts::{CableOptions, SIZES, check, run};
    let ports = match args.port() {
        "all" => PortKind::SOCKETS.to_vec(),
        word => vec![word.parse::<PortKind>().map_err(usage)?],
    };
    let mut options = CableOptions { seconds: args.seconds(), ..CableOptions::default() };
    args.set(|key, value| options.settings.set(key, value))?;
    options.settings.workers = args.workers;
    if args.sweep {
        options.sweep = SIZES.to_vec();
    }
    let asked_by_key = args.set.iter().any(|pair| pair.starts_with("service_groups="));
    let by_key = options.settings.groups.to_string();
    let text = if asked_by_key { &by_key } else { args.service_groups.as_deref().unwrap_or("2") };
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
            reports.push(run(&options, stop)?);
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
