//! The cable gateway: `weir run` with `gateway = "cmts"`, and `weir cmts`.
//!
//! | file | idea |
//! |---|---|
//! | `process.rs` | the gateway as threads |
//! | `observer.rs` | looking on, and what control is asked |
//! | `service.rs` | service flows, classifiers and filter groups at run time |
//! | `command.rs` | `weir cmts` |
//! | `active.rs`, `heir.rs`, `message.rs` | the standby: what it is told, by whom, and when it goes on |
//! | `pulse.rs` | whether a process that says nothing lives |
//! | `fence.rs` | that the one before speaks no more |

mod active;
mod command;
mod fence;
mod heir;
mod message;
pub(crate) mod observer;
mod process;
pub(crate) mod pulse;
mod service;

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::Context;
use port::Wires;

pub use command::{CmtsArgs, cmts};

use crate::cli::RunArgs;
use crate::doors;
use crate::load::{LoadError, Text};
use crate::log;
use crate::metrics;
use crate::privilege::{self, Privileges, Reach};
use crate::signals::Stop;
use crate::socket::Server;
use crate::tables::duration;
use crate::watch::{self, Watch};
use active::Teller;
use process::{Opened, StartError};

/// A configuration, checked, and the text it was read from.
pub struct Loaded {
    /// What it says.
    pub config: cmts::config::Config,
    text: Text,
}

impl Loaded {
    /// The configuration a text holds.
    ///
    /// # Errors
    /// [`LoadError`], pointing at the key.
    pub fn of(text: Text) -> Result<Self, LoadError> {
        let config: cmts::config::Config = text.parse()?;
        let loaded = Self { config, text };
        loaded.config.check().map_err(|error| loaded.wrong(&error))?;
        let uris = loaded.config.port.iter().map(|port| port.uri.as_str());
        loaded.text.check_machine(uris, &loaded.config.workers)?;
        Ok(loaded)
    }

    fn wrong(&self, error: &cmts::config::ConfigError) -> LoadError {
        self.text.at(&error.path, error.what.clone(), error.help.clone())
    }
}

/// Runs a cable gateway until it is told to stop.
///
/// # Errors
/// What kept it from starting, or that it did not end well.
pub fn run(args: &RunArgs, text: Text) -> anyhow::Result<()> {
    let loaded = Loaded::of(text)?;
    if args.check {
        println!("{} is in order", args.config.display());
        return Ok(());
    }
    let stop = Stop::register().context("no signal handlers")?;
    let path = args.socket.clone().unwrap_or_else(|| loaded.config.control_socket.clone());
    let config = &loaded.config;
    let (standby, theirs) = (config.standby.as_ref(), serde_json::to_string(config)?);
    let interval = Duration::from_millis(standby.map_or(0, |standby| standby.interval_ms));
    let (mut estate, mut begin) = (None, Instant::now());
    log::start(&config.log, &args.log)?;
    log::starting("cmts", &args.config);
    let uris = || config.port.iter().map(|port| port.uri.as_str());
    let tcp = || {
        let health = config.health.iter().map(|health| health.address.port());
        config.metrics.iter().map(|metrics| metrics.address.port()).chain(health).collect::<Vec<_>>()
    };
    let all = doors::of_all(uris(), config.workers.count);
    let mut privileges = Privileges::start(&config.process, all, &doors::arena_config(&config.frames))?;
    if args.standby {
        let standby = standby.context("--standby needs a [standby] section, which says where the active gateway is")?;
        let silence = Duration::from_millis(standby.silence_ms);
        let Some((taken, why)) = heir::wait(&standby.socket, &theirs, interval, silence, stop.flag())? else {
            return Ok(());
        };
        begin = Instant::now();
        tracing::warn!(
            target: "standby", event = "taking_over", modems = taken.book.modems.len(),
            "taking over: the active gateway is {why}"
        );
        estate = Some(taken);
    }
    let opened = Opened::new(&loaded, &Wires::default());
    let opened = opened.map_err(|error| match error {
        StartError::Door(error) => privilege::refused(error, uris(), tcp().into_iter()),
        other => other.into(),
    })?;
    let sockets = [Some(path.clone()), standby.map(|standby| standby.socket.clone())].into_iter().flatten().collect();
    privileges.give_up(&Reach { write: Vec::new(), sockets, tcp: tcp() })?;
    let process = opened.start(estate)?;
    let health =
        config.health.as_ref().map(|at| watch::serve(at.address, process.observer().vitals().clone())).transpose()?;
    process.turn();
    let watch = Watch::start(process.observer().clone())?;
    process.observer().vitals().run();
    let socket = Server::start(&path, process.observer().clone())?;
    let teller = standby.map(|standby| Teller::start(&standby.socket, process.observer().clone(), theirs, interval));
    let teller = teller.transpose()?;
    for port in process.observer().ports().iter().filter(|port| port.worker == 0) {
        log::port_open(port, "");
    }
    let metrics =
        config.metrics.as_ref().map(|at| metrics::serve(at.address, process.observer().clone())).transpose()?;
    if let Some(metrics) = &metrics {
        log::listening("metrics", metrics.address());
    }
    if let Some(health) = &health {
        log::listening("probes", health.address());
    }
    privileges.seal()?;
    let took = begin.elapsed();
    tracing::info!(
        target: "process", event = "ready",
        ms = took.as_millis() as u64, workers = config.workers.count, modems = process.observer().control().modems(),
        service_groups = config.service_group.len(), slots = config.frames.slots,
        "ready after {}; `weir show channels --socket {}` looks into it", duration(took.as_secs_f64()), path.display()
    );
    privileges.ready();
    let observer = process.observer().clone();
    let others = privileges.wakes(&stop);
    while !stop.is_set() && !observer.leaving.load(Ordering::Relaxed) && process.broken().is_none() {
        if privileges.is_helper_gone() {
            break;
        }
        process.turn();
        if process.rest(&others) {
            privileges.look();
        }
    }
    log::stopping(process.broken());
    process.observer().vitals().stop();
    drop((watch, socket, metrics));
    let Some(heir) = teller.and_then(Teller::stop) else {
        return privileges.ended(crate::run::end(&process.stop(), args.json));
    };
    // Whoever ends it in order, and has a standby, wants it to go on.
    let book = observer.control().book();
    let (ended, legacies) = process.hand_over();
    match active::hand_over(heir, book, legacies) {
        Ok(frames) => tracing::info!(target: "standby", event = "handed_over", frames, "handed over to the standby"),
        Err(error) => active::standby_lost(&error),
    }
    privileges.ended(crate::run::end(&ended, args.json))
}

#[cfg(test)]
mod tests;
