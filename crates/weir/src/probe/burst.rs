//! `weir probe burst`.

use std::path::PathBuf;

use ::bench::probe::agent_burst::{AgentBurst, agent_burst};
use anyhow::Context;
use certificate::{BurstUnit, Direction};
use clap::{Args, ValueEnum};
use gateway::signals;

use crate::agent::{address, secret};

use super::{OutArgs, measure_until, minutes, open_key};

/// `weir probe burst`.
#[derive(Debug, Args)]
pub struct BurstArgs {
    /// Where weir agent listens on the other host.
    #[arg(long, value_name = "HOST:PORT")]
    pub agent: String,
    /// A file with the secret that both have.
    #[arg(long, value_name = "FILE")]
    pub secret: PathBuf,
    /// Minutes for all directions and units together; burst credit of clouds lasts 5 to 60 minutes at peak.
    #[arg(long, value_name = "N", default_value = "180", value_parser = minutes)]
    pub minutes: f64,
    /// Only what this host sends, or receives.
    #[arg(long, value_enum)]
    pub direction: Option<Way>,
    /// Only bytes (frames of 1400 B), or packets (of 64 B).
    #[arg(long, value_enum)]
    pub unit: Option<Unit>,
    /// Bits of frames offered a second at most, such as 25Gbps [default: what sockets can send].
    #[arg(long, value_name = "RATE", value_parser = bits)]
    pub peak: Option<u64>,
    /// The baseline that is known from elsewhere: where the peak lasts to the end, the depth is at least what is
    /// beyond it.
    #[arg(long, value_name = "RATE", value_parser = bits)]
    pub baseline: Option<u64>,
    /// Seconds of rest before each direction and unit, in which credit comes back.
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    pub rest: u32,
    /// Where the certificate goes, and who signs it.
    #[command(flatten)]
    pub out: OutArgs,
}

/// Which way packets go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Way {
    In,
    Out,
}

/// What is limited.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Unit {
    Bytes,
    Packets,
}

fn bits(text: &str) -> Result<u64, String> {
    quantity::bit_rate(text).filter(|bits| *bits > 0).ok_or_else(|| "allowed: a rate such as 10Gbps".to_owned())
}

/// Runs `weir probe burst`.
///
/// # Errors
/// No agent is there, it has another secret, or a file cannot be written.
pub fn run(args: &BurstArgs) -> anyhow::Result<()> {
    let burst = AgentBurst {
        agent: address("--agent", &args.agent)?,
        secret: secret(&args.secret)?,
        directions: match args.direction {
            None => vec![Direction::Out, Direction::In],
            Some(Way::Out) => vec![Direction::Out],
            Some(Way::In) => vec![Direction::In],
        },
        units: match args.unit {
            None => vec![BurstUnit::Bytes, BurstUnit::Packets],
            Some(Unit::Bytes) => vec![BurstUnit::Bytes],
            Some(Unit::Packets) => vec![BurstUnit::Packets],
        },
        minutes: args.minutes,
        peak_bits: args.peak.map_or(f64::INFINITY, |bits| bits as f64),
        baseline_bits: args.baseline.map(|bits| bits as f64),
        rest_seconds: f64::from(args.rest),
        command: command(args),
    };
    let key = open_key(&args.out)?;
    let stop = signals::stop_flag().context("no signal handlers")?;
    measure_until(&key, &args.out, &stop, |_, show| agent_burst(&burst, &stop, show))
}

/// What was run, as it would be typed.
fn command(args: &BurstArgs) -> String {
    let mut words = format!("weir probe burst --minutes {} --rest {}", args.minutes, args.rest);
    args.peak.iter().for_each(|bits| words += &format!(" --peak {bits}bps"));
    args.baseline.iter().for_each(|bits| words += &format!(" --baseline {bits}bps"));
    args.direction.iter().for_each(|way| words += &format!(" --direction {way:?}").to_lowercase());
    args.unit.iter().for_each(|unit| words += &format!(" --unit {unit:?}").to_lowercase());
    words
}
