//! `weir move`: a group of subscribers of a running broadband gateway goes to another worker, or to another process.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::bail;
use clap::{ArgGroup, Args, Subcommand};
use gateway::cli::At;
use gateway::socket::Client;

use super::protocol::{BngReply, BngRequest, Reply, Request};
use gateway::tables::Style;

/// How long a move to another process may take.
const LONGEST: Duration = Duration::from_secs(180);

/// Arguments of `weir move`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  weir show groups                     the worker of each group
  weir move group pon --to-worker 1    the group's subscribers, without a packet lost
  weir move group pon --to-process /run/weir/2.sock    to the gateway with that control socket")]
pub struct MoveArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Move a subscriber group to another worker, or to another process: usage, policers and queued packets go along.
    #[command(group(ArgGroup::new("to").required(true).args(["to_worker", "to_process"])))]
    Group {
        /// The group: its name as in `weir show groups`.
        group: String,
        /// The worker's number, as in `weir show run`.
        #[arg(long, value_name = "N")]
        to_worker: Option<u16>,
        /// The control socket of the other process, as in its configuration; leases and sessions go along, too.
        #[arg(long, value_name = "SOCKET")]
        to_process: Option<PathBuf>,
        /// How to reach the gateway, and how to print.
        #[command(flatten)]
        at: At,
    },
}

/// Carries `weir move` out: returns when the group has moved.
///
/// # Errors
/// The gateway does not answer, or the group cannot move there.
pub fn move_group(args: &MoveArgs) -> anyhow::Result<()> {
    let What::Group { group, to_worker, to_process, at } = &args.what;
    let mut client = Client::connect(&at.socket)?;
    let request = match to_process {
        Some(socket) => BngRequest::MoveToProcess { group: group.clone(), socket: socket.clone() },
        None => BngRequest::Move { group: group.clone(), worker: to_worker.unwrap_or_default() },
    };
    if to_process.is_some() {
        // Leases go to a disk; a process that is stuck is given up earlier.
        client = client.with_timeout(LONGEST);
    }
    let Reply::Bng(reply) = client.ask(&Request::Bng(request))?;
    if !matches!(reply, BngReply::Moved(_) | BngReply::MovedToProcess(_)) {
        bail!("the gateway has answered another question");
    }
    at.json.print(&reply, || super::show::text(&reply, Style::of_stdout()))
}
