//! `weir bench real`: a gateway process on frames that another CPU wrote, and the bare forwarder it runs beside.

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use ::bench::real::{self, Flow, Offered, RealOptions, RealPort};
use anyhow::{Context, bail};
use clap::Args;

use super::{BenchArgs, print, usage};
use gateway::fail::Usage;

/// Options of `weir bench real`.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "With real")]
pub struct RealArgs {
    /// Packets a second to offer, both directions together: idle, rates, and max for the rate at which most is delivered
    /// [default: idle,1k,10k,50k,100k,200k,max].
    #[arg(long, value_name = "LIST")]
    pub loads: Option<String>,
    /// Sessions, established by PFCP [default: 10000].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=250_000))]
    pub sessions: Option<u32>,
    /// Direction of packets: mixed, uplink or downlink [default: mixed].
    #[arg(long, value_name = "WORD")]
    pub direction: Option<String>,
    /// eUPF's binary, to be measured in the same run.
    #[arg(long, value_name = "PATH")]
    pub peer: Option<PathBuf>,
    /// Another build of weir, to be measured as the gateway instead of this one.
    #[arg(long, value_name = "PATH")]
    pub gateway: Option<PathBuf>,
    /// Give every PDR an SDF filter. Not by default: eUPF does not count usage then.
    #[arg(long)]
    pub sdf: bool,
    /// Measure the gateway with `fast_path = "auto"` as well, in the same run: known sessions in the kernel.
    #[arg(long)]
    pub fast_path: bool,
    /// Measure it once more with every Nth session kept in user space by its rules, beside the others in the kernel.
    #[arg(long, value_name = "N", requires = "fast_path", value_parser = clap::value_parser!(u32).range(2..))]
    pub user_space_every: Option<u32>,
    /// The gateway's `workers.idle`.
    #[arg(long, value_name = "MODE")]
    pub idle: Option<String>,
    /// Rounds of trials in a cell at most; fewer where ratios are known to 5 % before [default: 9; with --quick: 1].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=100))]
    pub rounds: Option<u16>,
}

impl RealArgs {
    /// Each option, and whether it was given. Other workloads read none of them.
    pub(super) fn given(&self) -> impl Iterator<Item = (&'static str, bool)> {
        [
            ("--loads", self.loads.is_some()),
            ("--sessions", self.sessions.is_some()),
            ("--direction", self.direction.is_some()),
            ("--peer", self.peer.is_some()),
            ("--gateway", self.gateway.is_some()),
            ("--sdf", self.sdf),
            ("--fast-path", self.fast_path),
            ("--user-space-every", self.user_space_every.is_some()),
            ("--idle", self.idle.is_some()),
            ("--rounds", self.rounds.is_some()),
        ]
        .into_iter()
    }
}

/// Runs it.
///
/// # Errors
/// What cannot be measured here; that the gateway did not do what its rules say.
pub fn run(args: &BenchArgs, stop: &AtomicBool) -> anyhow::Result<()> {
    let options = options(args)?;
    let report = real::real(&options, stop, &mut |what| eprintln!("{what} …"))?;
    print(args, &report, &real::text(&report))?;
    let failed: Vec<String> =
        report.failed().iter().map(|check| format!("{} ({}): {}", check.what, check.path, check.found)).collect();
    if !failed.is_empty() {
        bail!("the gateway did not do what its rules say: {}", failed.join("; "));
    }
    Ok(())
}

fn options(args: &BenchArgs) -> anyhow::Result<RealOptions> {
    let asked = &args.real;
    let mut options = RealOptions::new(std::env::current_exe().context("where is weir?")?);
    if args.quick {
        options = options.quick();
    }
    if let Some(seconds) = args.seconds {
        options.window = Duration::from_secs_f64(seconds.clamp(0.1, 60.0));
    }
    if let Some(rounds) = asked.rounds {
        let most = usize::from(rounds);
        options.rounds = (options.rounds.0.min(most), most);
    }
    options.ports = RealPort::named(args.port.as_deref().unwrap_or("xdp")).map_err(usage)?;
    options.loads = asked.loads.as_deref().map_or(Ok(options.loads), Offered::list).map_err(usage)?;
    options.sessions = asked.sessions.unwrap_or(options.sessions);
    options.flow = asked.direction.as_deref().map_or(Ok(Flow::Mixed), str::parse).map_err(usage)?;
    options.sdf = asked.sdf;
    options.fast_path = asked.fast_path;
    options.user_space_every = asked.user_space_every;
    if asked.fast_path && !options.ports.contains(&RealPort::Xdp) {
        return Err(Usage("--fast-path needs AF_XDP ports: --port xdp or all".to_owned()).into());
    }
    options.idle = asked.idle.clone();
    options.peer = asked.peer.as_deref().map(binary).transpose()?;
    options.gateway = asked.gateway.as_deref().map(binary).transpose()?;
    Ok(options)
}

/// A binary's full path: it is started from elsewhere.
fn binary(path: &std::path::Path) -> anyhow::Result<PathBuf> {
    Ok(path.canonicalize().map_err(|error| Usage(format!("{}: {error}", path.display())))?)
}

/// `weir bench forward`: the bare forwarder.
///
/// # Errors
/// What a port said.
pub fn forward(args: &BenchArgs, stop: &AtomicBool) -> anyhow::Result<()> {
    let uri = |key: &str| {
        let of =
            |pair: &'_ String| pair.split_once('=').filter(|(name, _)| *name == key).map(|(_, uri)| uri.to_owned());
        let found = args.set.iter().find_map(of);
        found.ok_or_else(|| Usage(format!("forward needs two ports: --set {key}=xdp:eth0, for example")))
    };
    let (n3, n6) = (uri("n3")?, uri("n6")?);
    Ok(real::forward([&n3, &n6], stop)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{Cli, Command};
    use clap::Parser;

    fn args(line: &str) -> BenchArgs {
        match Cli::try_parse_from(line.split_whitespace()).expect(line).command {
            Command::Bench(args) => *args,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn options_are_read() {
        let read =
            options(&args("weir bench real --quick --loads 1k,max --sessions 200 --port ring --direction uplink"))
                .expect("options");
        assert_eq!(read.loads, [Offered::Pps(1e3), Offered::Saturation]);
        assert_eq!((read.sessions, read.rounds, read.flow), (200, (1, 1), Flow::Uplink));
        assert_eq!(read.ports, [RealPort::Ring]);
        let said = options(&args("weir bench real --port ring --fast-path")).expect_err("no AF_XDP").to_string();
        assert!(said.contains("--port xdp"), "{said}");
        let read = options(&args("weir bench real --rounds 5 --seconds 0.5")).expect("options");
        assert_eq!((read.rounds, read.window, read.ports.len()), ((3, 5), Duration::from_millis(500), 1));
    }

    #[test]
    fn options_of_others_are_refused() {
        for (line, wanted) in [
            ("real --pps 1000", "--pps has no effect on real; allowed: --port, --seconds, --quick, --loads"),
            ("upf-128 --loads 1k", "--loads has no effect on upf-128; allowed: --port, --workers"),
            ("pfcp-sessions --port xdp", "--port has no effect on pfcp-sessions; allowed: --set"),
            ("suite --set ues=1", "--set has no effect on suite; allowed: --quick"),
            ("cmts-imix --fanout 2", "--fanout has no effect on cmts-imix; allowed: --port, --workers, --seconds"),
            ("bng-600g --service-groups 1", "--service-groups has no effect on bng-600g"),
            ("upf-embb --vary workers=1,2 --service-groups 2", "--service-groups has no effect on upf-embb"),
            ("packet-core --instances 2", "--instances has no effect on packet-core; allowed: --port, --workers"),
            ("upf-128 --print --set ues=1", "--set has no effect on --print"),
            ("packet-core --search mlr", "--search has no effect on packet-core"),
            ("forward-pps --workers 2", "--workers has no effect on forward-pps; allowed: --port, --seconds, --set"),
            ("control-plane --port xdp", "--port has no effect on control-plane; allowed: --set, --vary"),
            ("upf-embb --quick", "--quick has no effect on upf-embb"),
        ] {
            let args = args(&format!("weir bench {line}"));
            let experiment = super::super::experiments::named(&args).expect("an experiment").filter(|_| !args.print);
            let said = args.refuse_unread(experiment.as_ref()).expect_err(line).to_string();
            assert!(said.starts_with(wanted), "{said}");
        }
        args("weir bench real --loads 1k --port xdp --quick").refuse_unread(None).expect("options of real");
        assert!(options(&args("weir bench real --loads fast")).expect_err("loads").to_string().contains("fast"));
        assert!(forward(&args("weir bench forward --set n3=xdp:a"), &AtomicBool::new(false)).is_err());
    }
}
