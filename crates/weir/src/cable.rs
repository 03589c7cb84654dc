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
mod observer;
mod process;
mod pulse;
mod service;

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::Context;
use port::Wires;

pub use command::{CmtsArgs, cmts};

use crate::cli::RunArgs;
use crate::load::{LoadError, Text};
use crate::metrics;
use crate::signals;
use crate::socket::Server;
use crate::tables::{count, duration, many};
use active::Teller;
use process::Process;

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
    let stop = signals::stop_flag().context("no signal handlers")?;
    let path = args.socket.clone().unwrap_or_else(|| loaded.config.control_socket.clone());
    let config = &loaded.config;
    let (standby, theirs) = (config.standby.as_ref(), serde_json::to_string(config)?);
    let interval = Duration::from_millis(standby.map_or(0, |standby| standby.interval_ms));
    let (mut estate, mut begin) = (None, Instant::now());
    if args.standby {
        let standby = standby.context("--standby needs a [standby] section, which says where the active gateway is")?;
        let silence = Duration::from_millis(standby.silence_ms);
        let Some((taken, why)) = heir::wait(&standby.socket, &theirs, interval, silence, &stop)? else { return Ok(()) };
        begin = Instant::now();
        eprintln!("taking over {}: the active gateway is {why}", many(taken.book.modems.len(), "modem"));
        estate = Some(taken);
    }
    let process = Process::start(&loaded, &Wires::default(), estate)?;
    process.turn();
    let socket = Server::start(&path, process.observer().clone())?;
    let teller = standby.map(|standby| Teller::start(&standby.socket, process.observer().clone(), theirs, interval));
    let teller = teller.transpose()?;
    eprintln!(
        "weir cmts: {}, {} of {}, {} slots",
        many(config.workers.count.into(), "worker"),
        many(process.observer().control().modems(), "modem"),
        many(config.service_group.len(), "service group"),
        count(config.frames.slots.into()),
    );
    for port in process.observer().ports().iter().filter(|port| port.worker == 0) {
        eprintln!(
            "  {:<6} {:<8} {}:{}  mtu {}  link {}",
            port.name, port.role, port.kind, port.interface, port.mtu, port.link
        );
    }
    let metrics =
        config.metrics.as_ref().map(|at| metrics::serve(at.address, process.observer().clone())).transpose()?;
    if let Some(metrics) = &metrics {
        eprintln!("metrics at http://{}/metrics", metrics.address());
    }
    let took = duration(begin.elapsed().as_secs_f64());
    eprintln!("ready after {took}; `weir show channels --socket {}` looks into it", path.display());
    let observer = process.observer().clone();
    while !stop.load(Ordering::Relaxed) && !observer.leaving.load(Ordering::Relaxed) && !process.is_broken() {
        process.turn();
        std::thread::sleep(Duration::from_millis(1));
    }
    drop((socket, metrics));
    let Some(heir) = teller.and_then(Teller::stop) else { return crate::run::end(&process.stop(), args.json) };
    // Whoever ends it in order, and has a standby, wants it to go on.
    let book = observer.control().book();
    let (ended, legacies) = process.hand_over();
    match active::hand_over(heir, book, legacies) {
        Ok(frames) => eprintln!("handed over to the standby, with {}", many(frames, "waiting frame")),
        Err(error) => eprintln!("the standby is gone: {error}"),
    }
    crate::run::end(&ended, args.json)
}

#[cfg(test)]
mod tests;
