//! `weir show`: tables over a running gateway, once or again and again.

pub mod acl;
pub mod cable;
pub mod drops;
pub mod frames;
mod napi;
pub mod nat;
pub mod peers;
pub mod ports;
pub mod process;
pub mod run;
pub mod sessions;
#[cfg(test)]
mod tests;

use std::io::Write;
use std::sync::atomic::Ordering;

use anyhow::bail;

use crate::cli::{ShowArgs, Topic};
use crate::fail::Usage;
use crate::log::LogRequest;
use crate::signals;
use crate::snapshot::Snapshot;
use crate::socket::{AclRuleView, CableReply, CableRequest, Client, Reply, Request};
use crate::tables::{Style, duration, many};

/// Shows it.
///
/// # Errors
/// No gateway runs there, or it can not say.
pub fn show(args: &ShowArgs) -> anyhow::Result<()> {
    if args.ue.is_some() && !matches!(args.topic, Topic::Sessions | Topic::Nat) {
        bail!(Usage(
            "--ue goes with `weir show sessions` and `weir show nat`; to follow packets: `weir trace --ue`".to_owned()
        ));
    }
    if args.topic == Topic::Log {
        return crate::log::command::show(args);
    }
    if args.follow || args.level.is_some() || args.target.is_some() {
        bail!(Usage("--follow, --level and --target go with `weir show log`".to_owned()));
    }
    let stop = signals::stop_flag()?;
    let mut client = Client::connect(&args.at.socket)?;
    let mut earlier = None;
    if let Some(seconds) = args.over {
        earlier = Some(client.ask(&question(args))?);
        if !signals::sleep(seconds, &stop) {
            return Ok(());
        }
    }
    loop {
        let now = client.ask_while(&question(args), |_| args.watch.is_some() && !stop.load(Ordering::Relaxed))?;
        let text = if args.at.json {
            json(&now, earlier.as_ref(), args.topic)? + "\n"
        } else {
            let page = page(&now, earlier.as_ref(), args, Style::of_stdout());
            if args.watch.is_some() { framed(&page, Style::of_stdout()) } else { page }
        };
        let mut out = std::io::stdout().lock();
        out.write_all(text.as_bytes())?;
        out.flush()?;
        drop(out);
        let Some(seconds) = args.watch else { return Ok(()) };
        earlier = Some(now);
        if !signals::sleep(seconds, &stop) {
            return Ok(());
        }
    }
}

fn question(args: &ShowArgs) -> Request {
    match (args.topic, args.ue) {
        (Topic::Run | Topic::Drops | Topic::Frames, _) => Request::Counters,
        (Topic::Sessions, Some(ue)) => Request::Session { ue },
        (Topic::Sessions, None) => Request::Sessions,
        (Topic::Ports, _) => Request::Ports,
        (Topic::Peers, _) => Request::Peers,
        (Topic::Process, _) => Request::Process,
        (Topic::Acl, _) => Request::Acl,
        (Topic::Nat, ue) => Request::Nat { ue },
        (Topic::Modems, _) => Request::Cable(CableRequest::Modems),
        (Topic::ServiceFlows, _) => Request::Cable(CableRequest::ServiceFlows { modem: args.modem.clone() }),
        (Topic::Channels, _) => Request::Cable(CableRequest::Channels),
        (Topic::Log, _) => Request::Log(LogRequest::Read { after: 0 }),
    }
}

/// On a terminal each page replaces the one before; in a file they follow each other.
fn framed(page: &str, style: Style) -> String {
    if style.colour { format!("\x1b[H\x1b[2J{page}") } else { format!("{page}\n") }
}

/// Counters since the earlier look, when there was one.
fn since(now: &Snapshot, earlier: Option<&Reply>) -> Snapshot {
    match earlier {
        Some(Reply::Counters(before)) => now.since(before),
        _ => now.clone(),
    }
}

fn cable_before(earlier: Option<&Reply>) -> Option<&CableReply> {
    match earlier {
        Some(Reply::Cable(before)) => Some(before),
        _ => None,
    }
}

fn acl_before(earlier: Option<&Reply>) -> Option<&[AclRuleView]> {
    match earlier {
        Some(Reply::Acl(before)) => Some(before),
        _ => None,
    }
}

fn page(now: &Reply, earlier: Option<&Reply>, args: &ShowArgs, style: Style) -> String {
    match now {
        Reply::Counters(snapshot) => {
            let counted = since(snapshot, earlier);
            match args.topic {
                Topic::Drops => drops::page(&counted, snapshot, earlier.is_none(), style),
                Topic::Frames => frames::text(snapshot, style),
                _ => run::text(&counted, earlier.is_none(), args.all, style),
            }
        }
        Reply::Ports(ports) => {
            let before = match earlier {
                Some(Reply::Ports(before)) => Some(before.as_slice()),
                _ => None,
            };
            ports::text(ports, before, args.all, style) + &napi::text(ports, std::path::Path::new("/proc"))
        }
        Reply::Sessions(view) => sessions::text(view, style),
        Reply::Peers(view) => peers::text(view, style),
        Reply::Process(view) => process::text(view, style),
        Reply::Acl(rules) => acl::text(rules, acl_before(earlier), style),
        Reply::Nat(view) => nat::text(view, style),
        Reply::Session(view) => sessions::one(view, style),
        Reply::Cable(view) => cable::text(view, cable_before(earlier), style),
        Reply::Trace(_) | Reply::Drain(_) | Reply::Records(_) | Reply::Log(_) | Reply::Error(_) => String::new(),
    }
}

/// The answer as it came, without its envelope; counters since the earlier look.
fn json(now: &Reply, earlier: Option<&Reply>, topic: Topic) -> anyhow::Result<String> {
    Ok(match now {
        Reply::Counters(snapshot) => match topic {
            Topic::Drops => serde_json::to_string(&drops::rows(&since(snapshot, earlier), snapshot))?,
            Topic::Frames => serde_json::to_string(&frames::accounts(snapshot))?,
            _ => serde_json::to_string(&since(snapshot, earlier))?,
        },
        Reply::Ports(ports) => serde_json::to_string(ports)?,
        Reply::Sessions(view) => serde_json::to_string(view)?,
        Reply::Session(view) => serde_json::to_string(view)?,
        Reply::Peers(view) => serde_json::to_string(view)?,
        Reply::Process(view) => serde_json::to_string(view)?,
        Reply::Acl(rules) => serde_json::to_string(&acl::since(rules, acl_before(earlier)))?,
        Reply::Nat(view) => serde_json::to_string(view)?,
        Reply::Cable(view) => serde_json::to_string(view)?,
        Reply::Trace(view) => serde_json::to_string(view)?,
        Reply::Drain(view) => serde_json::to_string(view)?,
        Reply::Log(view) => serde_json::to_string(view)?,
        Reply::Records(view) => serde_json::to_string(view)?,
        Reply::Error(error) => bail!("{error}"),
    })
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
