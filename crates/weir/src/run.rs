//! `weir run`: a gateway from its configuration until it is told to stop.

use std::io::Write;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use engine::Io;
use port::Wires;

use crate::cable;
use crate::cli::RunArgs;
use crate::load::{Loaded, Text};
use crate::metrics;
use crate::process::{Ended, Process};
use crate::replica;
use crate::show;
use crate::signals;
use crate::socket::Server;
use crate::tables::{Style, bytes, count, duration, many};

/// Runs it.
///
/// # Errors
/// What kept it from starting, or that it did not end well.
pub fn run(args: &RunArgs) -> anyhow::Result<()> {
    let text = Text::read(&args.config)?;
    if text.gateway().as_deref() == Some("cmts") {
        return cable::run(args, text);
    }
    let loaded = replica::load(args)?;
    if args.check {
        println!("{} is in order", args.config.display());
        return Ok(());
    }
    let stop = signals::stop_flag().context("no signal handlers")?;
    let path = args.socket.clone().unwrap_or_else(|| loaded.config.control_socket.clone());
    let begin = Instant::now();
    let process = Process::start(&loaded, &Wires::default())?;
    let socket = Server::start(&path, process.observer().clone())?;
    let metrics = loaded.config.metrics.as_ref();
    let metrics = metrics.map(|at| metrics::serve(at.address, process.observer().clone())).transpose()?;
    greet(&loaded, &process, begin.elapsed(), &path)?;
    if let Some(metrics) = &metrics {
        eprintln!("metrics at http://{}/metrics", metrics.address());
    }
    while !stop.load(Ordering::Relaxed) && !process.is_broken() {
        process.turn();
        process.rest();
    }
    drop((socket, metrics));
    end(&process.stop(), args.json)
}

/// Says what became of every packet and every slot.
pub fn end(ended: &Ended, json: bool) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    if json {
        serde_json::to_writer(&mut out, &ended.last)?;
        writeln!(out)?;
    } else {
        write!(out, "{}", farewell(ended, Style::of_stdout()))?;
    }
    if ended.crashed > 0 {
        bail!("{} ended by itself", many(ended.crashed, "worker"));
    }
    Ok(())
}

/// To the error stream: standard output is for the summary.
fn greet(loaded: &Loaded, process: &Process, took: Duration, socket: &std::path::Path) -> anyhow::Result<()> {
    let observer = process.observer();
    let snapshot = observer.snapshot();
    let sessions = observer.sessions().map_or(0, |view| view.workers.iter().map(|w| w.sessions).sum());
    eprintln!(
        "weir {}: {}, {} sessions, {} slots on {} ({})",
        snapshot.gateway,
        many(snapshot.workers.len(), "worker"),
        count(sessions),
        count(snapshot.frames.slots),
        snapshot.frames.pages,
        bytes(snapshot.frames.bytes),
    );
    for port in observer.ports().iter().filter(|port| port.worker == 0) {
        let detail = if port.detail.is_empty() { String::new() } else { format!(", {}", port.detail) };
        let addresses = loaded.config.port.iter().find(|p| p.name == port.name).map(|p| p.addresses.join(" "));
        eprintln!(
            "  {:<6} {:<8} {}:{}  {}  mtu {}  link {}{detail}",
            port.name,
            port.role,
            port.kind,
            port.interface,
            addresses.unwrap_or_default(),
            port.mtu,
            port.link,
        );
    }
    if let Some(restored) = observer.n4().and_then(|n4| n4.restored()) {
        let lost = if restored.lost > 0 { format!(", {} lost", count(restored.lost as u64)) } else { String::new() };
        let peers = many(restored.associations, "control plane");
        eprintln!("  n4     {} sessions of {peers} restored{lost}", count(restored.sessions as u64));
    }
    eprintln!(
        "ready after {}; `weir show run --socket {}` looks into it",
        duration(took.as_secs_f64()),
        socket.display()
    );
    Ok(())
}

/// The last table, and what became of every packet and every slot.
fn farewell(ended: &Ended, style: Style) -> String {
    let last = &ended.last;
    let mut out = show::run::text(last, true, false, style);
    if !show::drops::is_empty(last) {
        out += &show::drops::text(last, style);
    }
    let io = |what| last.io(what);
    let dropped: u64 = last.workers.iter().map(|worker| worker.dropped()).sum();
    let consumed: u64 = last.workers.iter().flat_map(|worker| &worker.consumed).map(|punt| punt.packets).sum();
    let missing: i64 = last.workers.iter().map(|worker| worker.missing).sum();
    let mark = |missing: i64| match missing {
        0 => "0 missing".to_owned(),
        n => style.alarm(&format!("{n} MISSING")),
    };
    let mut row = |what: &str, sum: String, missing: i64| out += &format!("  {what:<8} {sum}: {}\n", mark(missing));
    let came = format!(
        "{} received + {} made here + {} released",
        count(io(Io::RxPackets)),
        count(io(Io::Originated)),
        count(io(Io::Released)),
    );
    let went = format!(
        "{} sent + {} dropped + {} answered or held",
        count(io(Io::TxPackets)),
        count(dropped),
        count(consumed)
    );
    row("packets", format!("{came} = {went}"), missing);
    row(
        "slots",
        format!(
            "{} of {} back",
            count((last.frames.slots as i64 - ended.slots_missing).max(0) as u64),
            count(last.frames.slots)
        ),
        ended.slots_missing,
    );
    out
}
