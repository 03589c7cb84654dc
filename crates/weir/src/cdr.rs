//! `weir cdr`: charging records, listed and exported. A running gateway has its ledger to itself, so it is asked; when
//! none runs, the file is read.

mod export;
mod list;
mod source;
#[cfg(test)]
mod tests;

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use ledger::{Filter, Moment};

use gateway::fail::Usage;
use gateway::json::JsonOutput;
use gateway::tables::Style;
use source::Source;

/// `weir cdr`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  weir cdr list                                      the last records
  weir cdr list --subscriber 001010000000001 --from 2026-11-22
  weir cdr export --format csv --output day.csv --from 2026-11-21 --to 2026-11-22
  weir cdr export --format json --output new.json --acknowledge
      what was not exported before; retention may remove it then

A running gateway is asked over its control socket, a running `weir cp` at its ledger; when neither
answers, the ledger's file is read. Which of them it was is said on the error stream.")]
pub struct CdrArgs {
    /// What to do.
    #[command(subcommand)]
    pub what: What,
}

/// What to do with records.
#[derive(Debug, Subcommand)]
pub enum What {
    /// Show records as a table.
    #[command(after_help = "\
Examples:
  weir cdr list
  weir cdr list --subscriber 10.60.0.1 --limit 1000
  weir cdr list --after 5000 --json | jq '.[].dataVolumeDownlink'")]
    List(ListArgs),
    /// Write records as JSON lines or CSV.
    #[command(after_help = "\
Examples:
  weir cdr export --format csv --output day.csv --from 2026-11-21 --to 2026-11-22
  weir cdr export --after 5000 | jq .servedIMSI
  weir cdr export --output new.json --acknowledge

FILE appears when it is whole and on the disk. Field names are those of TS 32.298 and TS 32.255.")]
    Export(ExportArgs),
}

/// Finding the records.
#[derive(Debug, Args)]
pub struct Where {
    /// The ledger's folder [default: the running gateway behind the control socket].
    #[arg(long, value_name = "FOLDER", env = "WEIR_LEDGER")]
    pub ledger: Option<PathBuf>,
    /// The running gateway's control socket.
    #[arg(long, value_name = "PATH", env = "WEIR_SOCKET", default_value = "/run/weir.sock")]
    pub socket: PathBuf,
}

/// Where a ledger is when nobody says where.
const FOLDER: &str = "/var/lib/weir";

/// Which records.
#[derive(Clone, Debug, Default, Args)]
pub struct Which {
    /// Closed then or later: a date or a time, in UTC.
    #[arg(long, value_name = "TIME")]
    pub from: Option<Moment>,
    /// Closed before then.
    #[arg(long, value_name = "TIME")]
    pub to: Option<Moment>,
    /// Of this subscriber: IMSI or SUPI, MSISDN or GPSI, IMEI or PEI, address or prefix.
    #[arg(long, value_name = "NAME")]
    pub subscriber: Option<String>,
    /// With sequence numbers above this one.
    #[arg(long, value_name = "SEQ")]
    pub after: Option<u64>,
    /// With sequence numbers up to this one.
    #[arg(long, value_name = "SEQ")]
    pub until: Option<u64>,
}

impl Which {
    fn filter(&self) -> Filter {
        let Self { from, to, subscriber, after, until } = self.clone();
        Filter { from, to, subscriber, after: after.unwrap_or(0), until }
    }

    /// Whether it names a run of sequence numbers from some record on, with nothing left out between.
    fn is_a_run(&self) -> bool {
        self.from.is_none() && self.to.is_none() && self.subscriber.is_none()
    }
}

/// `weir cdr list`.
#[derive(Debug, Args)]
pub struct ListArgs {
    /// Source of the records.
    #[command(flatten)]
    pub place: Where,
    /// Selection of records.
    #[command(flatten)]
    pub which: Which,
    /// At most this many, the latest.
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub limit: u32,
    /// JSON.
    #[command(flatten)]
    pub json: JsonOutput,
}

/// A form of export.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// One JSON object a line.
    Json,
    /// RFC 4180, with a header line.
    Csv,
}

/// `weir cdr export`.
#[derive(Debug, Args)]
pub struct ExportArgs {
    /// Source of the records.
    #[command(flatten)]
    pub place: Where,
    /// Selection of records.
    #[command(flatten)]
    pub which: Which,
    /// At most this many, the earliest.
    #[arg(long, value_name = "N")]
    pub limit: Option<u64>,
    /// Output format.
    #[arg(long, value_enum, default_value = "json")]
    pub format: Format,
    /// Output file, instead of standard output.
    #[arg(long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Export records not acknowledged before, and acknowledge them once they are on the disk: retention may then remove them.
    #[arg(long, requires = "output")]
    pub acknowledge: bool,
}

/// Does it.
///
/// # Errors
/// No ledger, no answer, no place to write to.
pub fn cdr(args: &CdrArgs) -> anyhow::Result<()> {
    match &args.what {
        What::List(args) => {
            let mut source = Source::find(&args.place)?;
            eprintln!("{source}");
            list::list(args, &mut source, Style::of_stdout())
        }
        What::Export(args) => {
            if args.acknowledge && !args.which.is_a_run() {
                let what = "--acknowledge says that everything up to a number is exported: \
                            it does not go with --from, --to and --subscriber";
                anyhow::bail!(Usage(what.to_owned()));
            }
            let mut source = Source::find(&args.place)?;
            eprintln!("{source}");
            let done = export::export(args, &mut source)?;
            if args.output.is_some() {
                eprintln!("{done}");
            }
            Ok(())
        }
    }
}
