//! The cable gateway: `weir run` with `gateway = "cmts"`, and `weir cmts`.
//!
//! | file | idea |
//! |---|---|
//! | `process.rs` | the gateway as threads |
//! | `observer.rs` | looking on, and what control is asked |
//! | `service.rs` | service flows, classifiers and filter groups at run time |
//! | `command.rs` | `weir cmts` |

mod command;
mod observer;
mod process;
mod service;

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::Context;
use port::Wires;

pub use command::{CmtsArgs, cmts};

use crate::cli::RunArgs;
use crate::load::{LoadError, Text};
use crate::signals;
use crate::socket::Server;
use crate::tables::{count, duration, many};
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
    let begin = Instant::now();
    let process = Process::start(&loaded, &Wires::default())?;
    let socket = Server::start(&path, process.observer().clone())?;
    let config = &loaded.config;
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
    let took = duration(begin.elapsed().as_secs_f64());
    eprintln!("ready after {took}; `weir show channels --socket {}` looks into it", path.display());
    while !stop.load(Ordering::Relaxed) && !process.is_broken() {
        process.turn();
        std::thread::sleep(Duration::from_millis(1));
    }
    drop(socket);
    crate::run::end(&process.stop(), args.json)
}
