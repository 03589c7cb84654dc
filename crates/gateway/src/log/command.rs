//! `weir log` and `weir show log`.

use std::io::Write;

use anyhow::bail;
use clap::{Args, Subcommand};

use super::record::{Level, Record};
use super::{KEPT, LogReply, LogRequest};
use crate::cli::{At, ShowArgs};
use crate::fail::Usage;
use crate::signals;
use crate::socket::{Client, Reply, Request};

/// `weir log`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  weir log show                 the levels in force
  weir log set n4=debug         more events of N4, until set back or the gateway ends
  weir log set info             every target back to info
  weir show log --follow        read the events")]
pub struct LogArgs {
    /// What to do.
    #[command(subcommand)]
    what: What,
    /// How to reach the gateway, and how to print.
    #[command(flatten)]
    at: At,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Show the lowest level that is written, by target.
    Show,
    /// Change levels while the gateway runs.
    Set {
        /// A level for all targets, TARGET=LEVEL for one, or several with commas: info,n4=debug,port=trace.
        levels: String,
    },
}

/// Seconds between two looks with --follow.
const FOLLOW: f64 = 0.25;

fn ask(client: &mut Client, request: LogRequest) -> anyhow::Result<LogReply> {
    match client.ask(&Request::Log(request))? {
        Reply::Log(reply) => Ok(reply),
        _ => bail!("the running weir sent an answer of another kind; are they of different versions?"),
    }
}

/// Shows or changes levels.
///
/// # Errors
/// No gateway runs there, or there is no such level or target.
pub fn log(args: &LogArgs) -> anyhow::Result<()> {
    let mut client = Client::connect(&args.at.socket)?;
    let request = match &args.what {
        What::Show => LogRequest::Levels,
        What::Set { levels } => LogRequest::Set { levels: levels.clone() },
    };
    let LogReply::Levels(levels) = ask(&mut client, request)? else { bail!("the running weir did not answer levels") };
    args.at.json.print(&levels, || format!("{levels}\n"))
}

/// Prints events of a running gateway; with `--follow` until interrupted.
///
/// # Errors
/// No gateway runs there, or it ends.
pub fn show(args: &ShowArgs) -> anyhow::Result<()> {
    if args.watch.is_some() || args.over.is_some() {
        bail!(Usage("`weir show log` has neither --watch nor --over; --follow prints events as they come".to_owned()));
    }
    let stop = signals::stop_flag()?;
    let mut client = Client::connect(&args.at.socket)?;
    let mut out = args.at.json.open()?;
    let (level, mut after) = (args.level.unwrap_or(Level::Trace), 0);
    loop {
        let LogReply::Events { events, newest } = ask(&mut client, LogRequest::Read { after })? else {
            bail!("the running weir did not answer events");
        };
        if after > 0 && newest.saturating_sub(after) > KEPT as u64 {
            writeln!(out, "# {} events came and went meanwhile", newest - after - KEPT as u64)?;
        }
        after = newest;
        for event in events.iter().filter(|event| is_wanted(event, level, args.target.as_deref())) {
            let line = if args.at.json.is_wanted() { event.json(true) } else { event.logfmt(true) };
            writeln!(out, "{line}")?;
        }
        out.flush()?;
        if !args.follow || !signals::sleep(FOLLOW, &stop) {
            return Ok(());
        }
    }
}

fn is_wanted(event: &Record, level: Level, target: Option<&str>) -> bool {
    event.level <= level && target.is_none_or(|target| event.target == target)
}
