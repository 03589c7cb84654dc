//! `weir run`: a gateway from its configuration until it is told to stop.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, bail};
use engine::{Drop, Io};
use port::Wires;

use super::ports;
use super::process::{Ended, Opened, StartError};
use super::product::{Gateway, Product};
use super::reload::Reloader;
use super::sections::Sections;
use crate::cli::RunArgs;
use crate::load::{Text, Warning};
use crate::log;
use crate::metrics;
use crate::privilege::{self, Privileges};
use crate::show;
use crate::signals::Stop;
use crate::socket::Server;
use crate::tables::{Style, count, many};
use crate::watch::{self, Vitals, Watch};

/// Runs the gateway that a configuration's text describes.
///
/// # Errors
/// What kept it from starting, or that it did not end well.
pub fn run<G: Gateway>(args: &RunArgs, text: Text) -> anyhow::Result<()> {
    let loaded = G::load(args, text)?;
    if args.check {
        for warning in &loaded.warnings {
            eprintln!("warning: {warning}");
        }
        println!("{}: configuration OK", args.config.display());
        return Ok(());
    }
    let (stop, begin) = (Stop::register().context("no signal handlers")?, Instant::now());
    let (config, head) = (&loaded.config, loaded.config.head());
    let path = args.socket.as_deref().unwrap_or(head.control_socket);
    log::start(head.log, &args.log, G::LOG_TARGETS)?;
    log::starting(G::NAME, &args.config);
    warn_of_former_names(&loaded.warnings);
    G::warn(config);
    let uris = || head.ports.iter().map(|port| port.uri);
    let all = ports::of_all(uris(), head.workers.count);
    let mut privileges = Privileges::start(head.process, all, &ports::arena_config(head.frames))?;
    let Some((mut gateway, begun)) = G::begin(&loaded, args.standby, stop.flag())? else { return Ok(()) };
    let begin = begun.unwrap_or(begin);
    let mut reach = G::reach(config);
    reach.sockets.push(path.to_owned());
    let http = [head.metrics.map(|at| at.address), head.health.map(|at| at.address)];
    let tcp: Vec<u16> = http.iter().flatten().map(|address| address.port()).collect();
    let opened = Opened::new(&loaded, G::steer(config), &Wires::default()).map_err(|error| match error {
        StartError::Port(error) => privilege::refused(error, uris(), reach.udp.iter().chain(&tcp).copied()),
        other => other.into(),
    })?;
    gateway.open(&loaded)?;
    // While files may be made.
    let json = args.json.is_wanted().then(|| args.json.open()).transpose()?;
    privileges.give_up(&privilege::Reach {
        write: reach.write,
        sockets: reach.sockets,
        tcp,
        config: folders(&args.config),
    })?;
    // Probes are answered from here on: starting.
    let vitals = Arc::<Vitals>::default();
    let health = head.health.map(|at| watch::serve(at.address, vitals.clone())).transpose()?;
    let process = gateway.start(&loaded, opened, vitals.clone())?;
    let watch = Watch::start(process.observer().clone())?;
    let socket = Server::start(path, process.observer().clone())?;
    let metrics = head.metrics.map(|at| metrics::serve(at.address, process.observer().clone())).transpose()?;
    gateway.started(config, &process)?;
    for port in process.shell().ports().iter().filter(|port| port.worker == 0) {
        let entry = head.ports.iter().find(|entry| entry.name == port.name);
        log::port_open(port, &entry.map(|entry| entry.addresses.join(" ")).unwrap_or_default());
    }
    if let Some(metrics) = &metrics {
        log::listening("metrics", metrics.address());
    }
    if let Some(health) = &health {
        log::listening("probes", health.address());
    }
    privileges.seal()?;
    vitals.run();
    gateway.ready(config, &process, begin.elapsed(), path);
    privileges.ready();
    let reload = Reloader::<G>::new(args, &loaded, Arc::downgrade(process.observer()))?;
    process.shell().set_reload(Box::new(reload));
    let others = privileges.wakes(&stop);
    let is_over = || stop.is_set() || process.observer().is_leaving() || process.broken().is_some();
    while !is_over() && !privileges.is_helper_gone() {
        process.turn();
        if stop.take_hangup() {
            // The result is an event.
            let _ = process.shell().reload().map(|reload| reload.reload(false));
        }
        if process.rest(&others) {
            privileges.look();
        }
    }
    log::stopping(process.broken());
    vitals.stop();
    // A process that takes over binds to the same addresses.
    drop((watch, socket, metrics, health));
    privileges.ended(end(&gateway.end(process), json, args.json.is_on_stdout()))
}

/// The folders in which a configuration file is found again: the one that names it, and the one that a link leads to.
fn folders(config: &Path) -> Vec<PathBuf> {
    let real = config.canonicalize().ok();
    let mut folders: Vec<PathBuf> = [Some(config.to_owned()), real].into_iter().flatten().collect();
    folders.iter_mut().for_each(|path| *path = privilege::folder_of(path).unwrap_or_default());
    folders.dedup();
    folders
}

/// Reports keys that stand under former names.
pub(super) fn warn_of_former_names(warnings: &[Warning]) {
    for warning in warnings {
        tracing::warn!(target: "process", event = "config_warning", key = %warning.key, "{}: {}", warning.place, warning.what);
    }
}

/// Says what became of every packet and every packet buffer: as JSON where it is wanted, and in words unless standard output
/// has the JSON.
fn end(ended: &Ended, json: Option<Box<dyn Write>>, is_on_stdout: bool) -> anyhow::Result<()> {
    log::stopped(ended);
    if !is_on_stdout {
        write!(std::io::stdout().lock(), "{}", farewell(ended, Style::of_stdout()))?;
    }
    if let Some(mut out) = json {
        writeln!(out, "{}", serde_json::to_string(&ended.last)?)?;
    }
    if ended.crashed > 0 {
        bail!("{} ended by itself", many(ended.crashed, "worker"));
    }
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
    let lost = |reasons: &[Drop]| -> u64 {
        let drops = last.workers.iter().flat_map(|worker| &worker.drops);
        let names = |drop: &&crate::snapshot::DropCounters| {
            engine::drops::ALL.iter().any(|reason| reasons.contains(&reason.id) && reason.name() == drop.reason)
        };
        drops.filter(names).map(|drop| drop.packets).sum()
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
