//! `weir demo`: a user plane at work, to watch.

use std::io::IsTerminal;

use ::bench::PortKind;
use ::bench::demo::{self, DemoOptions};
use anyhow::Context;
use clap::Args;

use crate::cli::seconds;
use crate::fail::Usage;
use crate::signals;

/// `weir demo`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sudo weir demo
  sudo weir demo --ues 200000 --seconds 60
  sudo weir demo --port ring --pps 100000

Builds two network namespaces with virtual links between, a user plane with its sessions, gNBs and
servers; sends traffic both ways and checks every packet that comes out. Leaves nothing behind.")]
pub struct DemoArgs {
    /// How long.
    #[arg(long, value_name = "SECONDS", default_value = "20", value_parser = seconds)]
    pub seconds: f64,
    /// Subscribers, with eight flows each.
    #[arg(long, value_name = "N", default_value_t = 50_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub ues: u32,
    /// Packets a second; without, half of what this machine carries.
    #[arg(long, value_name = "RATE")]
    pub pps: Option<f64>,
    /// Only this kind of port: xdp, ring, mmsg, plain; without, the best that opens.
    #[arg(long, value_name = "KIND")]
    pub port: Option<String>,
}

/// Runs it.
///
/// # Errors
/// What this machine can not do.
pub fn run(args: &DemoArgs) -> anyhow::Result<()> {
    let stop = signals::stop_flag().context("no signal handlers")?;
    let port = args.port.as_deref().map(str::parse::<PortKind>).transpose();
    let port = port.map_err(|error| Usage(error.to_string()))?;
    let options = DemoOptions { seconds: args.seconds, ues: args.ues, pps: args.pps, port };
    let terminal = std::io::stdout().is_terminal();
    demo::demo(&options, &mut std::io::stdout(), terminal, &stop)?;
    Ok(())
}
