//! Command lines of the commands that every gateway has.

use std::net::IpAddr;
use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::drain::DrainArgs;
use crate::json::JsonOutput;
use crate::log::{Level, LogArgs, LogOptions};
use crate::outputs::SchemaArgs;
use crate::schema::ConfigArgs;
use crate::shell::reload::ReloadArgs;
use crate::top::TopArgs;

/// Commands of every gateway.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a gateway until interrupted.
    Run(RunArgs),
    /// Inspect a running gateway.
    Show(ShowArgs),
    /// Watch a running gateway full screen: rates with history, costs, drops, ports, workers, sessions.
    Top(TopArgs),
    /// Follow a subscriber's packets through a running gateway.
    Trace(TraceArgs),
    /// Show or set the levels of a running gateway's event log.
    Log(LogArgs),
    /// Refuse new sessions, before a gateway is stopped.
    Drain(DrainArgs),
    /// Read the configuration again and apply what can change while it runs.
    Reload(ReloadArgs),
    /// The schema and the reference of configurations.
    Config(ConfigArgs),
    /// JSON schemas of what commands print with --json.
    Schema(SchemaArgs),
}

/// An option that a gateway adds to `weir show` or `weir trace`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key {
    /// Its name: `ue` for `--ue`.
    pub name: &'static str,
    /// What stands for its value in help.
    pub value: &'static str,
    /// What it is, in a sentence.
    pub help: &'static str,
}

/// An option that a gateway adds to `weir run`.
#[derive(Clone, Copy, Debug)]
pub struct RunKey {
    /// Name, value and help of the option.
    pub key: Key,
    /// The environment variable that stands for it.
    pub env: &'static str,
    /// What is wrong with a value, in a sentence.
    pub check: fn(&str) -> Result<(), String>,
}

/// Values of such options, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Keys(pub Vec<(&'static str, String)>);

impl Keys {
    /// The value of one, if it was given.
    pub fn get(&self, key: &Key) -> Option<&str> {
        self.0.iter().find(|(name, _)| *name == key.name).map(|(_, value)| value.as_str())
    }
}

/// `weir run`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  sudo weir run gateway.toml
  weir run --check gateway.toml         check it, and do nothing else
  weir run gateway.toml --take-over     go on for the gateway that runs, without losing a packet
  weir run gateway.toml --pool-from-ordinal 8      as one of 8 replicas; host weir-3 takes part 3

SIGHUP: the configuration is read again, as by `weir reload`.

Ends on Ctrl-C or SIGTERM: workers stop, ports close, interfaces are left as they were found, and
the summary is the balance of packets and packet buffers.")]
pub struct RunArgs {
    /// The gateway's configuration.
    #[arg(value_name = "CONFIG.toml")]
    pub config: PathBuf,
    /// Check the configuration and end.
    #[arg(long)]
    pub check: bool,
    /// Path of the control socket, instead of the configuration's control_socket.
    #[arg(long, value_name = "PATH", env = "WEIR_SOCKET")]
    pub socket: Option<PathBuf>,
    /// Number of replicas with this configuration: take this replica's part of every pool of addresses, and add its
    /// number to the ports' addresses.
    #[arg(long, value_name = "REPLICAS", value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub pool_from_ordinal: Option<u32>,
    /// This replica's number, from 0 [default: the number at the end of the host's name, as in weir-3].
    #[arg(long, value_name = "N", env = "WEIR_ORDINAL", requires = "pool_from_ordinal")]
    pub ordinal: Option<u32>,
    /// Options that only one gateway has.
    #[arg(skip)]
    pub keys: Keys,
    /// Stand by for the cable gateway that runs with this configuration, and take over when it stops.
    #[arg(long)]
    pub standby: bool,
    /// Take over from the gateway that runs with this configuration and control socket: it hands over its ports, sockets
    /// and sessions and ends; no packet is lost.
    #[arg(long, conflicts_with_all = ["standby", "check"])]
    pub take_over: bool,
    /// The final counters instead of the summary.
    #[command(flatten)]
    pub json: JsonOutput,
    /// The event log.
    #[command(flatten)]
    pub log: LogOptions,
}

/// How to reach the running gateway.
#[derive(Debug, Args)]
pub struct At {
    /// The running gateway's control socket.
    #[arg(long, global = true, value_name = "PATH", env = "WEIR_SOCKET", default_value = "/run/weir.sock")]
    pub socket: PathBuf,
    /// How to print.
    #[command(flatten)]
    pub json: JsonOutput,
}

/// `weir show`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  weir show run                       since start
  weir show run --over 5              the next five seconds
  weir show drops --watch 1           every second, until Ctrl-C
  weir show sessions --ue 10.60.0.1   one subscriber's rules and usage
  weir show sessions --imsi 001010000000001    who it is; also --msisdn, --seid, --dnn
  weir show subscribers --top rate --over 5    those with the highest rates; sessions alike
  weir show subscribers --filter group=pon --limit 200
  weir show log --level warn          the last events that need attention
  weir show log --follow              and new ones, until Ctrl-C
  weir show ports --json | jq '.[].counters'")]
pub struct ShowArgs {
    /// What to show.
    #[arg(value_name = "TOPIC")]
    pub topic: String,
    /// How to reach the gateway, and how to print.
    #[command(flatten)]
    pub at: At,
    /// Repeat at this interval, each time with the counts since the last one.
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub watch: Option<f64>,
    /// Count for this many seconds from now, instead of since start.
    #[arg(long, value_name = "SECONDS", value_parser = seconds, conflicts_with = "watch")]
    pub over: Option<f64>,
    /// Part of a table, by options of its own.
    #[arg(skip)]
    pub keys: Keys,
    /// With `log`: print events as they come, until Ctrl-C.
    #[arg(long)]
    pub follow: bool,
    /// With `log`: only events of this level or worse.
    #[arg(long, value_enum)]
    pub level: Option<Level>,
    /// With `log`: only events of this subsystem, such as port.
    #[arg(long)]
    pub target: Option<String>,
    /// With `run`: also stages that no packet has reached. With `ports`: also counters that are zero.
    #[arg(long)]
    pub all: bool,
}

/// `weir trace`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  weir trace --ue 10.60.0.1
  weir trace --ue 2001:db8:0:7::1 --packets 20 --hex
  weir trace --imsi 001010000000001               or --seid, --subscriber, …
  weir trace --ue 10.60.0.1 --pcap walk.pcapng    as received and as sent, for Wireshark

Ends after --packets, after --seconds, or on Ctrl-C. One trace at a time.")]
pub struct TraceArgs {
    /// The subscriber: an address of its own (any address of its /64 for IPv6).
    #[arg(long, value_name = "ADDRESS")]
    pub ue: Option<IpAddr>,
    /// Instead: another name of a subscriber.
    #[arg(skip)]
    pub keys: Keys,
    /// Packets to trace.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub packets: u32,
    /// Time limit.
    #[arg(long, value_name = "SECONDS", default_value = "30", value_parser = seconds)]
    pub seconds: f64,
    /// Print the packet's first bytes whenever a stage changed them.
    #[arg(long)]
    pub hex: bool,
    /// Write whole packets, as received and as sent, to a pcapng file, on interfaces named as the ports.
    #[arg(long, value_name = "FILE")]
    pub pcap: Option<PathBuf>,
    /// How to reach the gateway, and how to print.
    #[command(flatten)]
    pub at: At,
}

/// A time of 0.01 s to a day.
pub fn seconds(text: &str) -> Result<f64, String> {
    match quantity::Unit::Seconds.parse_fraction(text) {
        Ok(seconds) if (0.01..=86_400.0).contains(&seconds) => Ok(seconds),
        _ => Err("allowed: a duration from 0.01 to 86400 seconds, such as 5, 500ms or 2min".to_owned()),
    }
}

/// A rate in packets a second on the command line.
///
/// # Errors
/// What is valid instead.
pub fn packets_per_second(text: &str) -> Result<f64, String> {
    match quantity::Unit::PacketsPerSecond.parse_fraction(text) {
        Ok(rate) if (1.0..=1e8).contains(&rate) => Ok(rate),
        _ => Err("allowed: a packet rate from 1 to 100000000, such as 200000, 200k or 1.5Mpps".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_sensible() {
        assert_eq!([packets_per_second("50_000"), packets_per_second("50 kpps")], [Ok(5e4), Ok(5e4)]);
        assert!(["0", "-5", "NaN", "inf", "many"].iter().all(|text| packets_per_second(text).is_err()));
    }

    #[test]
    fn seconds_are_sensible() {
        assert_eq!([seconds("0.5"), seconds("500 ms"), seconds("1min")], [Ok(0.5), Ok(0.5), Ok(60.0)]);
        assert!(["0", "soon", "-1", "2 days"].iter().all(|text| seconds(text).is_err()));
    }
}
