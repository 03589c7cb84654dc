//! `weir subscriber`: one subscriber of a running broadband gateway.

use anyhow::bail;
use clap::{Args, Subcommand};
use gateway::cli::At;
use gateway::socket::Client;
use gateway::tables::Style;

use super::protocol::{BngReply, BngRequest, Filter, Reply, Request};

/// Arguments of `weir subscriber`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  weir subscriber pon/olt:100.7 show     line, addresses, usage
  weir subscriber 100.64.0.7 clear       its leases end; it may come again")]
pub struct SubscriberArgs {
    /// The subscriber: its name as in `weir show subscribers`, or an address of its.
    subscriber: String,
    /// What to do.
    #[command(subcommand)]
    what: What,
    /// How to reach the gateway, and how to print.
    #[command(flatten)]
    at: At,
}

#[derive(Clone, Copy, Debug, Subcommand)]
enum What {
    /// Show its line, addresses and usage.
    Show,
    /// End its leases; of a static subscriber, forget the hardware address that its packets taught.
    Clear,
}

/// Carries `weir subscriber` out.
///
/// # Errors
/// The gateway does not answer, or has no such subscriber.
pub fn subscriber(args: &SubscriberArgs) -> anyhow::Result<()> {
    let mut client = Client::connect(&args.at.socket)?;
    let mut ask = |request: BngRequest| -> anyhow::Result<BngReply> {
        let Reply::Bng(reply) = client.ask(&Request::Bng(request))?;
        Ok(reply)
    };
    let subscriber = args.subscriber.clone();
    let reply = match args.what {
        What::Clear => ask(BngRequest::Clear { subscriber })?,
        What::Show => {
            let BngReply::Address(address) = ask(BngRequest::Find { subscriber })? else {
                bail!("the gateway has answered another question");
            };
            ask(BngRequest::Subscribers { filter: Filter { address: Some(address), ..Filter::default() } })?
        }
    };
    args.at.json.print(&reply, || super::show::text(&reply, Style::of_stdout()))
}
