//! `weir bench`: what a gateway does to every packet, measured.

use std::io::Write;
use std::path::PathBuf;

use ::bench::{Options, PortKind};
use anyhow::Context;
use clap::Args;

use crate::cli::seconds;
use crate::fail::Usage;
use crate::signals;

/// `weir bench`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  weir bench upf-embb                                 100,000 subscribers in memory: the cost of every stage
  weir bench upf-embb --set ues=1_000_000             the same for a million
  sudo weir bench upf-128 --port all                  every way to reach an interface, beside a bare forwarder
  sudo weir bench upf-128 --port xdp --json -         one object for programs")]
pub struct BenchArgs {
    /// The workload: upf-128 (the published experiment) or upf-embb (mobile broadband, everything on).
    #[arg(value_name = "PROFILE")]
    pub profile: String,
    /// What the gateway's ports are: memory, plain, mmsg, ring, xdp, or all.
    #[arg(long, value_name = "KIND", default_value = "memory")]
    pub port: String,
    /// Workers, each with its part of the subscribers.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub workers: u16,
    /// How long to measure.
    #[arg(long, value_name = "SECONDS", default_value = "5", value_parser = seconds)]
    pub seconds: f64,
    /// Change a number of the workload, such as ues=50000 or new_flows=0.1. May be given several times.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Write the result as JSON to a file, or with - to standard output instead of the table.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

impl BenchArgs {
    fn settings(&self) -> anyhow::Result<::bench::profiles::Settings> {
        let mut settings = ::bench::profiles::Settings::named(&self.profile).ok_or_else(|| {
            Usage(format!("no workload is called `{}`; there are upf-128 and upf-embb", self.profile))
        })?;
        for pair in &self.set {
            let (key, value) = pair.split_once('=').ok_or_else(|| Usage(format!("`--set {pair}` wants KEY=VALUE")))?;
            settings.set(key, value).map_err(|error| Usage(error.to_string()))?;
        }
        Ok(settings)
    }
}

/// Runs it.
///
/// # Errors
/// What can not be measured here, and why.
pub fn run(args: &BenchArgs) -> anyhow::Result<()> {
    let stop = signals::stop_flag().context("no signal handlers")?;
    let port = args.port.parse::<PortKind>().map_err(|error| Usage(error.to_string()))?;
    let options = Options { port, workers: args.workers, seconds: args.seconds, ..Options::new(args.settings()?) };
    let report = ::bench::run(&options, &stop)?;
    match &args.json {
        Some(path) if path.as_os_str() == "-" => print_json(&mut std::io::stdout().lock(), &report),
        Some(path) => {
            print!("{}", ::bench::show::report(&report));
            let mut file = std::fs::File::create(path).with_context(|| format!("writing {}", path.display()))?;
            print_json(&mut file, &report)
        }
        None => {
            print!("{}", ::bench::show::report(&report));
            Ok(())
        }
    }
}

fn print_json(out: &mut dyn Write, value: &impl serde::Serialize) -> anyhow::Result<()> {
    serde_json::to_writer_pretty(&mut *out, value)?;
    writeln!(out)?;
    Ok(())
}
