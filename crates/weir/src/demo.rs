//! `weir demo`: a network at work, to watch: control plane and user plane as processes, gNBs and data network beside them.
//!
//! | file | idea |
//! |---|---|
//! | `network.rs` | two namespaces and the links between |
//! | `processes.rs` | the other weirs, and that none outlives this one |
//! | `play.rs` | who is started when, and how it ends |
//! | `broadband.rs` | the same with a broadband gateway and its subscribers |
//! | `losses.rs` | where packets that did not come out were lost |
//! | `picture.rs` | the live table and the summary |

mod broadband;
mod losses;
pub(crate) mod network;
mod picture;
mod play;
pub(crate) mod processes;

use std::io::IsTerminal;

use ::bench::PortKind;
use ::bench::demo::{self, DemoOptions};
use anyhow::{Context, bail};
use clap::{Args, ValueEnum};

use gateway::cli::{packets_per_second, seconds};
use gateway::fail::Usage;
use gateway::signals;

/// `weir demo`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  sudo weir demo
  sudo weir demo --ues 200000 --seconds 60
  sudo weir demo --port ring --pps 100000
  sudo weir demo --keep                  leaves all of it up, with commands to try
  sudo weir demo --simulate              all in one process, generated sessions
  sudo weir demo --gateway bng           a broadband gateway: DHCP, IPv6, VLAN tags

Builds two network namespaces with virtual links between, and starts in them `weir run` as the
user plane and `weir cp` as the control plane that establishes its sessions by PFCP. The kernel
acts as gNBs and servers: one CPU sends live frames in both directions through those sessions, XDP
programs count and time every packet that arrives, and some are inspected. Over ports other than
xdp, and where the kernel does not support it, `weir gen` does that as a process, and checks every
packet. At the end sessions are deleted, and charged usage is compared with what was carried.
Leaves nothing behind.

With --gateway bng subscribers behind two VLAN tags get IPv4 addresses by DHCP, IPv6 addresses and
delegated prefixes by DHCPv6, and talk to hosts of the core; `weir gen broadband` checks addresses
and tags of every packet.")]
pub struct DemoArgs {
    /// Gateway: upf, or bng.
    #[arg(long, value_name = "KIND", default_value = "upf")]
    pub gateway: DemoGateway,
    /// Duration.
    #[arg(long, value_name = "SECONDS", default_value = "20", value_parser = seconds)]
    pub seconds: f64,
    /// Subscribers, with one session each.
    #[arg(long, value_name = "N", default_value_t = 50_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub ues: u32,
    /// Packets a second [default: 60 % of what this machine carries; with bng: 60,000].
    #[arg(long, value_name = "RATE", value_parser = packets_per_second)]
    pub pps: Option<f64>,
    /// Kind of port: xdp, ring, mmsg, plain [default: the best that opens].
    #[arg(long, value_name = "KIND")]
    pub port: Option<String>,
    /// Then leave network, gateway and sessions up until Ctrl-C, with commands to try.
    #[arg(long, conflicts_with = "simulate")]
    pub keep: bool,
    /// Everything in one process, without a control plane.
    #[arg(long)]
    pub simulate: bool,
}

/// What is demonstrated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DemoGateway {
    /// User plane, with a control plane.
    Upf,
    /// Broadband gateway.
    Bng,
}

/// Runs `weir demo`.
///
/// # Errors
/// What this machine cannot do.
pub fn run(args: &DemoArgs) -> anyhow::Result<()> {
    let stop = signals::stop_flag().context("no signal handlers")?;
    let port = args.port.as_deref().map(str::parse::<PortKind>).transpose();
    let port = port.map_err(|error| Usage(error.to_string()))?;
    match (args.gateway, args.simulate) {
        (DemoGateway::Bng, true) => bail!(Usage("--simulate has no effect with --gateway bng".to_owned())),
        (DemoGateway::Bng, false) => return broadband::play(args, port, &stop),
        (DemoGateway::Upf, false) => return play::play(args, port, &stop),
        (DemoGateway::Upf, true) => {}
    }
    let options = DemoOptions { seconds: args.seconds, ues: args.ues, pps: args.pps, port };
    let terminal = std::io::stdout().is_terminal();
    demo::demo(&options, &mut std::io::stdout(), terminal, &stop)?;
    Ok(())
}
