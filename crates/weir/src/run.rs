//! `weir run`: a gateway from its configuration until it is told to stop.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use engine::{Drop, Io};
use port::Wires;

use crate::cable;
use crate::cli::RunArgs;
use crate::doors;
use crate::fail::Usage;
use crate::load::{Loaded, Text};
use crate::log;
use crate::metrics;
use crate::privilege::{self, Privileges, Reach, folder_of};
use crate::process::{Ended, Opened, Process, StartError};
use crate::replica;
use crate::show;
use crate::signals::Stop;
use crate::socket::Server;
use crate::tables::{Style, count, duration, many};
use crate::watch::{self, Vitals, Watch};

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
    if args.standby {
        bail!(Usage(format!(
            "--standby is refused: a standby exists for gateway = \"cmts\" only, and {} says gateway = \"{}\"; leave \
             --standby out, and keep sessions over a restart by [n4] ledger",
            args.config.display(),
            loaded.config.gateway,
        )));
    }
    if args.check {
        println!("{} is in order", args.config.display());
        return Ok(());
    }
    let stop = Stop::register().context("no signal handlers")?;
    let path = args.socket.clone().unwrap_or_else(|| loaded.config.control_socket.clone());
    let begin = Instant::now();
    log::start(&loaded.config.log, &args.log)?;
    log::starting("upf", &args.config);
    log::config_warnings(&loaded.config);
    let uris = || loaded.config.port.iter().map(|port| port.uri.as_str());
    let all = doors::of_all(uris(), loaded.config.workers.count);
    let arena = doors::arena_config(&loaded.config.frames);
    let mut privileges = Privileges::start(&loaded.config.process, all, &arena)?;
    let opened = Opened::new(&loaded, &Wires::default()).map_err(|error| match error {
        StartError::Door(error) => privilege::refused(error, uris(), listens(&loaded)),
        other => other.into(),
    })?;
    privileges.give_up(&reach(&loaded, &path))?;
    // Probes are answered from here on: starting.
    let vitals = Arc::<Vitals>::default();
    let health = loaded.config.health.as_ref();
    let health = health.map(|at| watch::serve(at.address, vitals.clone())).transpose()?;
    let process = opened.start()?;
    process.observer().set_vitals(vitals.clone());
    let watch = Watch::start(process.observer().clone())?;
    let socket = Server::start(&path, process.observer().clone())?;
    let metrics = loaded.config.metrics.as_ref();
    let metrics = metrics.map(|at| metrics::serve(at.address, process.observer().clone())).transpose()?;
    if let Some(metrics) = &metrics {
        log::listening("metrics", metrics.address());
    }
    if let Some(health) = &health {
        log::listening("probes", health.address());
    }
    privileges.seal()?;
    vitals.run();
    greet(&loaded, &process, begin.elapsed(), &path);
    privileges.ready();
    let others = privileges.wakes(&stop);
    while !stop.is_set() && process.broken().is_none() && !privileges.is_helper_gone() {
        process.turn();
        if process.rest(&others) {
            privileges.look();
        }
    }
    log::stopping(process.broken());
    vitals.stop();
    drop((watch, socket, metrics));
    privileges.ended(end(&process.stop(), args.json))
}

/// What the gateway touches by path and port once it runs.
fn reach(loaded: &Loaded, socket: &Path) -> Reach {
    let config = &loaded.config;
    let ledger = config.n4.iter().filter_map(|n4| n4.ledger.as_ref()).map(PathBuf::from);
    let log = config.nat.iter().filter_map(|nat| nat.log.as_deref()).filter_map(folder_of);
    let tcp = config.metrics.iter().map(|metrics| metrics.address.port());
    let tcp = tcp.chain(config.health.iter().map(|health| health.address.port()));
    Reach { write: ledger.chain(log).collect(), sockets: vec![socket.to_owned()], tcp: tcp.collect() }
}

/// Ports of TCP and UDP it listens at.
fn listens(loaded: &Loaded) -> impl Iterator<Item = u16> {
    let config = &loaded.config;
    let n4 = config.n4.iter().map(|n4| n4.port);
    let http = config.metrics.iter().map(|metrics| metrics.address.port());
    n4.chain(http).chain(config.health.iter().map(|health| health.address.port()))
}

/// Says what became of every packet and every slot.
pub fn end(ended: &Ended, json: bool) -> anyhow::Result<()> {
    log::stopped(ended);
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

/// Reports what runs now.
fn greet(loaded: &Loaded, process: &Process, took: Duration, socket: &std::path::Path) {
    let observer = process.observer();
    let snapshot = observer.snapshot();
    let sessions: u64 = observer.sessions().map_or(0, |view| view.workers.iter().map(|w| w.sessions).sum());
    for port in observer.ports().iter().filter(|port| port.worker == 0) {
        let entry = loaded.config.port.iter().find(|entry| entry.name == port.name);
        let addresses = entry.map(|entry| entry.addresses.join(" ")).unwrap_or_default();
        log::port_open(port, &addresses);
    }
    if let Some(restored) = observer.n4().and_then(|n4| n4.restored()) {
        tracing::info!(
            target: "n4", event = "sessions_restored",
            sessions = restored.sessions, associations = restored.associations, lost = restored.lost,
            "{} sessions of {} restored", count(restored.sessions as u64), many(restored.associations, "control plane")
        );
    }
    tracing::info!(
        target: "process", event = "ready",
        ms = took.as_millis() as u64, workers = snapshot.workers.len(), sessions,
        slots = snapshot.frames.slots, pages = snapshot.frames.pages,
        "ready after {}; `weir show run --socket {}` looks into it", duration(took.as_secs_f64()), socket.display()
    );
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
    let lost = |reasons: &[Drop]| -> u64 {
        let drops = last.workers.iter().flat_map(|worker| &worker.drops);
        drops.filter(|drop| reasons.iter().any(|reason| reason.name() == drop.reason)).map(|drop| drop.packets).sum()
    };
    let before = match lost(&Drop::BEFORE_RECEIVED) {
        0 => String::new(),
        n => format!(" + {} lost before", count(n)),
    };
    let came = format!(
        "{} received{before} + {} made here + {} released",
        count(io(Io::RxPackets)),
        count(io(Io::Originated)),
        count(io(Io::Released)),
    );
    let went = format!(
        "{} sent + {} dropped + {} answered or held",
        count(io(Io::TxPackets).saturating_sub(lost(&Drop::AFTER_SENT))),
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
