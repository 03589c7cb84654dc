//! `weir drain`: refuse new sessions, before a gateway is stopped.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::bail;
use clap::Args;

use crate::cli::At;
use crate::signals;
use crate::socket::{Client, ClientError, DrainView, Reply, Request};
use crate::tables::count;

/// `weir drain`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  weir drain               no new sessions; control planes are asked to move those there are
  weir drain --wait 600    and wait until none is left, ten minutes at most
  weir drain --undo        accept new sessions again

New sessions are refused with cause 75, No resources available (3GPP TS 29.244, 8.2.1), and /readyz
answers 503. Existing sessions are not affected. Fails if sessions are left after --wait.")]
pub struct DrainArgs {
    /// Wait until no session is left, at most this long.
    #[arg(long, value_name = "SECONDS", conflicts_with = "undo", value_parser = clap::value_parser!(u32).range(1..=86_400))]
    pub wait: Option<u32>,
    /// Accept new sessions again.
    #[arg(long)]
    pub undo: bool,
    /// How to reach the gateway, and how to print.
    #[command(flatten)]
    pub at: At,
}

/// What control planes are told where nobody waits: half an hour.
const GRACE: u32 = 1800;

/// Runs `weir drain`.
///
/// # Errors
/// No gateway runs there, or sessions are left when the time is over.
pub fn drain(args: &DrainArgs) -> anyhow::Result<()> {
    let stop = signals::stop_flag()?;
    let mut client = Client::connect(&args.at.socket)?;
    let until = Instant::now() + Duration::from_secs(args.wait.unwrap_or(0).into());
    let mut ask = |seconds: u32| -> anyhow::Result<DrainView> {
        let wait_on = |_: &ClientError| args.wait.is_some() && Instant::now() < until && !stop.load(Ordering::Relaxed);
        match client.ask_while(&Request::Drain { on: !args.undo, seconds }, wait_on)? {
            Reply::Drain(view) => Ok(view),
            _ => bail!("the running weir sent an answer of another kind; are they of different versions?"),
        }
    };
    let mut view = ask(args.wait.unwrap_or(GRACE))?;
    while args.wait.is_some() && view.sessions > 0 && Instant::now() < until && signals::sleep(0.5, &stop) {
        view = ask(until.saturating_duration_since(Instant::now()).as_secs() as u32)?;
    }
    args.at.json.print(&view, || match view.draining {
        true => format!("draining; {} sessions left\n", count(view.sessions)),
        false => format!("taking new sessions; {} there\n", count(view.sessions)),
    })?;
    if args.wait.is_some() && view.sessions > 0 {
        bail!("{} sessions are left, and the time is over", count(view.sessions));
    }
    Ok(())
}
