//! `weir show`: tables over a running gateway, once or again and again.

mod common;
pub mod drops;
pub mod frames;
mod napi;
pub mod ports;
pub mod process;
pub mod run;
#[cfg(test)]
mod tests;
mod view;

use std::io::Write;
use std::net::IpAddr;
use std::sync::atomic::Ordering;

use anyhow::{Context, bail};
use serde_json::Value;

use crate::cli::ShowArgs;
use crate::fail::Usage;
use crate::signals;
use crate::snapshot::Snapshot;
use crate::socket::Client;
use crate::tables::{Style, duration, many};
pub use common::VIEWS;
pub use view::{Look, Table, View};

/// The value of `--ue`.
///
/// # Errors
/// It is no address.
pub fn address(text: Option<&str>) -> Result<Option<IpAddr>, String> {
    let read = |text: &str| text.parse().map_err(|_| format!("--ue {text}: this is no IP address"));
    text.map(read).transpose()
}

/// The topic that is no table: the event log.
pub const LOG: &str = "log";

/// The topic that prints the configuration in use.
pub const CONFIG: &str = "config";

/// The option of `weir trace` that tables may have, too.
const SUBSCRIBER: &str = "ue";

/// Shows one of those views, or the event log.
///
/// # Errors
/// No gateway runs there, or it can not say.
pub fn show(args: &ShowArgs, views: &[View]) -> anyhow::Result<()> {
    for (name, _) in &args.keys.0 {
        let of = views.iter().filter(|view| view.keys.iter().any(|key| key.name == *name));
        let with: Vec<String> = of.map(|view| format!("`weir show {}`", view.topic)).collect();
        if !with.contains(&format!("`weir show {}`", args.topic)) {
            let trace = if *name == SUBSCRIBER { "; to follow packets: `weir trace --ue`" } else { "" };
            bail!(Usage(format!("--{name} goes with {}{trace}", with.join(", "))));
        }
    }
    if args.topic == LOG {
        return crate::log::command::show(args);
    }
    if args.follow || args.level.is_some() || args.target.is_some() {
        bail!(Usage("--follow, --level and --target go with `weir show log`".to_owned()));
    }
    let view = views.iter().find(|view| view.topic == args.topic).context("there is no such table")?;
    let question = (view.question)(args).map_err(Usage)?;
    let stop = signals::stop_flag()?;
    let mut client = Client::connect(&args.at.socket)?;
    let mut out = args.at.json.open()?;
    let mut earlier: Option<Value> = None;
    if let Some(seconds) = args.over.filter(|_| !view.measures) {
        earlier = Some((view.ask)(&mut client, &question, &|| false)?);
        if !signals::sleep(seconds, &stop) {
            return Ok(());
        }
    }
    loop {
        let wait_on = || args.watch.is_some() && !stop.load(Ordering::Relaxed);
        let now = (view.ask)(&mut client, &question, &wait_on)?;
        let style = Style::of_stdout();
        let page = (view.print)(&now, earlier.as_ref(), args, style)
            .context("the running weir sent an answer of another kind; are they of different versions?")?;
        let text = if args.watch.is_some() && !args.at.json.is_wanted() { framed(&page, style) } else { page };
        out.write_all(text.as_bytes())?;
        out.flush()?;
        let Some(seconds) = args.watch else { return Ok(()) };
        earlier = Some(now);
        if !signals::sleep(seconds, &stop) {
            return Ok(());
        }
    }
}

/// On a terminal each page replaces the one before; in a file they follow each other.
fn framed(page: &str, style: Style) -> String {
    if style.colour { format!("\x1b[H\x1b[2J{page}") } else { format!("{page}\n") }
}

/// The line over a table: which gateway, how long, over which time.
pub fn heading(snapshot: &Snapshot, since_start: bool, style: Style) -> String {
    let over = match since_start {
        true => "since the start".to_owned(),
        false => format!("over {}", duration(snapshot.seconds)),
    };
    let name = format!("weir {}", snapshot.gateway);
    let workers = many(snapshot.workers.len(), "worker");
    format!("{} · {workers} · up {} · {over}\n\n", style.strong(&name), duration(snapshot.uptime))
}
