//! The command line: what there is, and words to learn it from.

use std::net::IpAddr;
use std::path::PathBuf;

use clap::builder::{PossibleValue, PossibleValuesParser};
use clap::{Args, Parser, Subcommand};

use crate::bench::BenchArgs;
use crate::cable::CmtsArgs;
use crate::cdr::CdrArgs;
use crate::cp::CpArgs;
use crate::demo::DemoArgs;
use crate::deploy::DeployArgs;
use crate::drain::DrainArgs;
use crate::generate::GenArgs;
use crate::ledger_tool::LedgerArgs;
use crate::log::{Level, LogArgs, LogOptions};
use crate::plan::PlanArgs;

/// weir: a user plane for access networks.
#[derive(Debug, Parser)]
#[command(name = "weir", version, about = "A user plane for access networks.", after_help = MAP, max_term_width = WIDTH)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// Columns of help, at most.
const WIDTH: usize = 100;

const MAP: &str = "\
How they fit together:
  weir run gateway.toml    carries packets between its ports until told to stop
     ├─ weir show …        looks into it while it runs: costs, drops, sessions, peers, ports
     ├─ weir trace …       follows one subscriber's packets through its stages
     ├─ weir log …         sets how much it reports while it runs; weir show log reads it
     ├─ weir drain …       takes no new sessions, and waits until the last one has gone
     ├─ weir cmts …        adds, changes and removes modems of a cable gateway, flows and keys
     ├─ weir cdr …         lists and exports its charging records, also when it does not run
     └─ weir ledger …      checks a ledger that does not open, and saves what can be read
  weir cp cp.toml          plays its control plane: sessions over PFCP, their lives and their usage
  weir gen load.toml       sends signed traffic into it from outside and checks what comes out
  weir bench upf-128       builds gateway, traffic and network itself, and measures
  weir plan PLAN.toml      says how many of which machine carry a network, and what they cost
  weir deploy aws …        writes the files that bring them up
  weir demo                the same to watch

Run a gateway, and see what each stage costs, every two seconds:
  sudo weir run examples/upf-packet.toml
  sudo weir show run --watch 2

Where do one subscriber's packets go?
  sudo weir trace --ue 10.60.0.1 --packets 3
  sudo weir show drops

Exit codes: 0 all well, 1 something failed, 2 the command line or a configuration is wrong.";

/// What there is to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a gateway until interrupted.
    Run(RunArgs),
    /// Look into a running gateway.
    Show(ShowArgs),
    /// Follow a subscriber's packets through a running gateway.
    Trace(TraceArgs),
    /// Levels of the event log of a running gateway.
    Log(LogArgs),
    /// Take no new sessions: before a gateway is stopped.
    Drain(DrainArgs),
    /// Modems, service flows and keys of a running cable gateway.
    Cmts(CmtsArgs),
    /// List and export charging records.
    Cdr(CdrArgs),
    /// Check a ledger, and save what can be read of a damaged one.
    Ledger(LedgerArgs),
    /// Play a control plane: bring up sessions by PFCP, live with them, collect their usage.
    Cp(Box<CpArgs>),
    /// Send signed traffic through a gateway, and check what comes out.
    Gen(Box<GenArgs>),
    /// Measure a gateway: what every packet costs, on any kind of port.
    Bench(BenchArgs),
    /// Plan a network: how many of which machine carry it, what binds them, what they cost.
    Plan(PlanArgs),
    /// Write what brings a planned network up: CloudFormation, or Kubernetes manifests.
    Deploy(DeployArgs),
    /// Watch a user plane at work on a network made for it.
    Demo(DemoArgs),
}

/// `weir run`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sudo weir run examples/upf-packet.toml
  weir run --check gateway.toml         say what is wrong with it, and do nothing else
  weir run gateway.toml --pool-from-ordinal 8      as one of 8 replicas; host weir-3 takes part 3

Ends on Ctrl-C or SIGTERM: workers stop, ports close, interfaces are left as they were found, and
the summary says what became of every packet and every slot of packet memory.")]
pub struct RunArgs {
    /// The gateway's configuration.
    #[arg(value_name = "CONFIG.toml")]
    pub config: PathBuf,
    /// Check the configuration and end.
    #[arg(long)]
    pub check: bool,
    /// Where the control socket goes, instead of the configuration's control_socket.
    #[arg(long, value_name = "PATH", env = "WEIR_SOCKET")]
    pub socket: Option<PathBuf>,
    /// This is one of so many replicas with one configuration: take this one's part of every pool of addresses, and add
    /// its number to the ports' addresses.
    #[arg(long, value_name = "REPLICAS", value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub pool_from_ordinal: Option<u32>,
    /// Which replica this is, from 0. Left out: what the host's name ends in (weir-3).
    #[arg(long, value_name = "N", env = "WEIR_ORDINAL", requires = "pool_from_ordinal")]
    pub ordinal: Option<u32>,
    /// The address for PFCP, instead of the configuration's n4.address: a pod's own, say.
    #[arg(long, value_name = "ADDRESS", env = "WEIR_N4_ADDRESS")]
    pub n4_address: Option<IpAddr>,
    /// Stand by for the cable gateway that runs with this configuration, and go on when it stops.
    #[arg(long)]
    pub standby: bool,
    /// At the end print the last counters as JSON instead of the summary.
    #[arg(long)]
    pub json: bool,
    /// The event log.
    #[command(flatten)]
    pub log: LogOptions,
}

/// Finding the running gateway.
#[derive(Debug, Args)]
pub struct At {
    /// The running gateway's control socket.
    #[arg(long, global = true, value_name = "PATH", env = "WEIR_SOCKET", default_value = "/run/weir.sock")]
    pub socket: PathBuf,
    /// Print JSON instead of tables.
    #[arg(long, global = true)]
    pub json: bool,
}

/// `weir show`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  weir show run                       since the start
  weir show run --over 5              the next five seconds
  weir show drops --watch 1           every second, until Ctrl-C
  weir show sessions --ue 10.60.0.1   one subscriber's rules and usage
  weir show log --level warn          the last events that need attention
  weir show log --follow              and those that come, until Ctrl-C
  weir show ports --json | jq '.[].counters'")]
pub struct ShowArgs {
    /// What to show.
    #[arg(value_parser = topics())]
    pub topic: String,
    /// Where it runs, how to print.
    #[command(flatten)]
    pub at: At,
    /// Show it again and again, each time for the seconds since.
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub watch: Option<f64>,
    /// Count for so many seconds from now, instead of since the start.
    #[arg(long, value_name = "SECONDS", value_parser = seconds, conflicts_with = "watch")]
    pub over: Option<f64>,
    /// With `sessions` and `nat`: this subscriber's.
    #[arg(long, value_name = "ADDRESS")]
    pub ue: Option<IpAddr>,
    /// With `service-flows`: this modem's.
    #[arg(long, value_name = "MAC")]
    pub modem: Option<String>,
    /// With `log`: print events as they come, until Ctrl-C.
    #[arg(long)]
    pub follow: bool,
    /// With `log`: only events of this level or worse.
    #[arg(long, value_enum)]
    pub level: Option<Level>,
    /// With `log`: only events of this subsystem, such as n4.
    #[arg(long)]
    pub target: Option<String>,
    /// With `run`: stages no packet has reached, too. With `ports`: counters that are zero, too.
    #[arg(long)]
    pub all: bool,
}

/// `weir trace`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  weir trace --ue 10.60.0.1
  weir trace --ue 2001:db8:0:7::1 --packets 20 --hex
  weir trace --ue 10.60.0.1 --pcap walk.pcapng    as they came and as they left, for Wireshark
  weir trace --modem 02:cb:00:00:00:01            of a cable gateway: all hosts behind a modem

Ends when it has seen so many packets, after --seconds, or on Ctrl-C. One trace at a time.")]
pub struct TraceArgs {
    /// The subscriber: an address of its own (any address of its /64 for IPv6).
    #[arg(long, value_name = "ADDRESS", required_unless_present = "modem")]
    pub ue: Option<IpAddr>,
    /// The cable modem: its hardware address, or the address of a host behind it.
    #[arg(long, value_name = "MAC|ADDRESS", conflicts_with = "ue")]
    pub modem: Option<String>,
    /// How many packets.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub packets: u32,
    /// Wait no longer than this.
    #[arg(long, value_name = "SECONDS", default_value = "30", value_parser = seconds)]
    pub seconds: f64,
    /// Print the packet's first bytes whenever a stage changed them.
    #[arg(long)]
    pub hex: bool,
    /// Write the packets, as they came and as they left, to a pcapng file.
    #[arg(long, value_name = "FILE")]
    pub pcap: Option<PathBuf>,
    /// Where it runs, how to print.
    #[command(flatten)]
    pub at: At,
}

/// What `weir show` can show.
fn topics() -> PossibleValuesParser {
    let log = PossibleValue::new(crate::show::LOG).help("The last thousand events; with --follow those that come, too");
    let views = crate::views().into_iter().map(|view| PossibleValue::new(view.topic).help(view.help));
    PossibleValuesParser::new(views.chain([log]))
}

/// A time of more than nothing and at most a day.
pub fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.01..=86_400.0).contains(&seconds) => Ok(seconds),
        _ => Err("a number of seconds from 0.01 to 86400".to_owned()),
    }
}

/// A rate in packets a second on the command line.
///
/// # Errors
/// What would be one.
pub fn packets_per_second(text: &str) -> Result<f64, String> {
    match text.replace('_', "").parse::<f64>() {
        Ok(rate) if (1.0..=1e8).contains(&rate) => Ok(rate),
        _ => Err("a number of packets a second from 1 to 100000000".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_command_is_on_the_map_and_has_an_example() {
        for command in Cli::command().get_subcommands() {
            let example = format!("weir {}", command.get_name());
            assert!(MAP.contains(&example), "{example} is not on the map");
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(help.contains(&example), "{example} has no example");
        }
    }

    #[test]
    fn nothing_that_stands_in_columns_is_wrapped() {
        let mut commands = vec![Cli::command()];
        while let Some(command) = commands.pop() {
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            for line in help.lines() {
                assert!(line.chars().count() <= WIDTH, "{}: {line}", command.get_name());
            }
            commands.extend(command.get_subcommands().cloned());
        }
    }

    #[test]
    fn rates_are_sensible() {
        assert_eq!(packets_per_second("50_000"), Ok(5e4));
        assert!(["0", "-5", "NaN", "inf", "many"].iter().all(|text| packets_per_second(text).is_err()));
    }

    #[test]
    fn seconds_are_sensible() {
        assert_eq!((seconds("0.5"), seconds("0").is_err(), seconds("soon").is_err()), (Ok(0.5), true, true));
    }
}
