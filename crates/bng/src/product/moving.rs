//! `weir move`: a group of subscribers of a running broadband gateway goes to another worker.

use anyhow::bail;
use clap::{Args, Subcommand};
use gateway::cli::At;
use gateway::socket::Client;

use super::protocol::{BngReply, BngRequest, Reply, Request};
use gateway::tables::Style;

/// Arguments of `weir move`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  weir show groups                     the worker of each group
  weir move group pon --to-worker 1    the group's subscribers, without a packet lost")]
pub struct MoveArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Move a subscriber group to another worker: usage, policers and queued packets go along.
    Group {
        /// The group: its name as in `weir show groups`.
        group: String,
        /// The worker's number, as in `weir show run`.
        #[arg(long, value_name = "N")]
        to_worker: u16,
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
    let What::Group { group, to_worker, at } = &args.what;
    let mut client = Client::connect(&at.socket)?;
    let Reply::Bng(reply) = client.ask(&Request::Bng(BngRequest::Move { group: group.clone(), worker: *to_worker }))?;
    if !matches!(reply, BngReply::Moved(_)) {
        bail!("the gateway has answered another question");
    }
    at.json.print(&reply, || super::show::text(&reply, Style::of_stdout()))
}
