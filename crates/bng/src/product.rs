//! The broadband gateway: `weir run` with `gateway = "bng"`.
//!
//! | file | idea |
//! |---|---|
//! | `command.rs` | `weir subscriber` |
//! | `fast.rs` | the in-kernel path, put before the ports' own programs |
//! | `live.rs` | keys that a reload applies |
//! | `moving.rs` | `weir move` |
//! | `observer.rs` | its control side while it runs, and its metrics |
//! | `protocol.rs`, `show.rs` | requests and replies, and their tables |

mod command;
mod connected;
mod fast;
mod live;
mod moving;
mod observer;
pub mod protocol;
mod show;

use std::hash::{BuildHasher, RandomState};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use engine::Time;
use gateway::cli::RunArgs;
use gateway::fast_path::Attached;
use gateway::load::Text;
use gateway::privilege::folder_of;
use gateway::shell::reload::{LiveKey, apply_to};
use gateway::shell::rest::ControlWaker;
use gateway::shell::{self, Gateway, Opened, Process, Reach, StartError, WorkerInits};
use gateway::show::View;
use gateway::tables::duration;
use gateway::watch::Vitals;

use crate::assemble::{AssembleError, assemble, attach};
use crate::config::{Config, ConfigError};
use crate::fast::FastPath;
use crate::sessions::{Environment, Sockets, Stored};
pub use command::{SubscriberArgs, subscriber};
pub use moving::{MoveArgs, move_group};
use observer::Observer;
pub use protocol::BngReply;

/// A broadband gateway's configuration, checked.
pub type Loaded = shell::Loaded<BngGateway>;

/// A broadband gateway on its way to run, and at its end.
#[derive(Default)]
pub struct BngGateway {
    /// What an earlier run kept of sessions.
    stored: Stored,
    /// The sockets of RADIUS.
    radius: Option<Sockets>,
    /// The in-kernel path, before it has tables.
    fast: Option<Attached<FastPath>>,
}

/// Reads the ledger that leases are kept in, without a privilege.
fn read_leases(config: &Config) -> anyhow::Result<Stored> {
    let Some(folder) = config.sessions.ledger.clone().filter(|_| config.has_sessions()) else {
        return Ok(Stored::default());
    };
    let section = config.process.clone();
    let read = move || -> anyhow::Result<Stored> {
        gateway::privilege::give_up_in_thread(&section, &folder)?;
        Stored::read(&folder).map_err(Into::into)
    };
    let thread = std::thread::Builder::new().name("weir-restore".into()).spawn(read)?;
    let stored = thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
    for why in &stored.unreadable {
        tracing::warn!(target: "sessions", event = "lease_unreadable", "{why}");
    }
    Ok(stored)
}

/// A number that nobody can guess.
fn seed() -> u64 {
    RandomState::new().hash_one("sessions")
}

/// The wall clock.
fn now() -> access::Time {
    access::Time(SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64))
}

impl Gateway for BngGateway {
    const NAME: &'static str = "bng";
    const TITLE: &'static str = "a broadband network gateway";
    const VIEWS: &'static [View] = show::VIEWS;
    const LOG_TARGETS: &'static [&'static str] = &["ledger", "nat", "sessions"];
    const LIVE: &'static [LiveKey] = live::KEYS;
    const EXAMPLES: &'static [&'static str] = &[include_str!("../../../examples/bng.toml")];
    type Config = Config;
    type Product = Observer;

    fn check(config: &Config) -> Result<(), ConfigError> {
        config.check()
    }

    fn needs_restart(product: &Observer, key: &str) -> bool {
        key == "acl" && !product.control().has_access_lists()
    }

    fn apply(config: &Config, keys: &[&str], product: &Observer, check: bool) -> Result<(), ConfigError> {
        apply_to(&mut *product.control(), config, keys, check)
    }

    fn load(_args: &RunArgs, text: Text) -> anyhow::Result<Loaded> {
        Ok(Loaded::of(text)?)
    }

    fn begin(loaded: &Loaded, standby: bool, _stop: &AtomicBool) -> anyhow::Result<Option<(Self, Option<Instant>)>> {
        anyhow::ensure!(!standby, "a broadband gateway has no standby yet: run it without --standby");
        Ok(Some((Self { stored: read_leases(&loaded.config)?, ..Self::default() }, None)))
    }

    fn warn(config: &Config) {
        gateway::nat::warn(config.nat.as_ref());
    }

    fn reach(config: &Config) -> Reach {
        let log = config.nat.iter().filter_map(|nat| nat.log.as_deref()).filter_map(folder_of);
        let udp = config.radius.iter().filter_map(|radius| radius.coa).map(|address| address.port()).collect();
        Reach { write: config.sessions.ledger.clone().into_iter().chain(log).collect(), udp, ..Reach::default() }
    }

    fn open(&mut self, loaded: &Loaded) -> Result<(), StartError> {
        self.fast = fast::open(&loaded.config)?;
        let Some(radius) = &loaded.config.radius else { return Ok(()) };
        let sockets = Sockets::open(radius).map_err(|error| {
            let coa = radius.coa.map(|address| format!(" and CoA at {address}")).unwrap_or_default();
            StartError::Gateway(
                format!("no sockets for RADIUS{coa}: {error}; is the address ours, and the port free?").into(),
            )
        })?;
        self.radius = Some(sockets);
        Ok(())
    }

    fn start(&mut self, loaded: &Loaded, opened: Opened, vitals: Arc<Vitals>) -> Result<Process<Observer>, StartError> {
        let (mut control, mut workers) = assemble(&loaded.config, opened.caps()).map_err(|error| match error {
            AssembleError::Config(error) => StartError::Config(loaded.wrong(&error)),
            other => StartError::Gateway(Box::new(other)),
        })?;
        let waker = ControlWaker::new(control.waker().clone());
        let told = waker.clone();
        let radius = self.radius.take();
        let sockets = radius.as_ref().map_or_else(|| Ok(Vec::new()), Sockets::descriptors);
        let sockets = sockets.map_err(StartError::Descriptors)?;
        let environment =
            Environment { clock: Box::new(now), told: Box::new(move || told.call()), seed: seed(), radius };
        let stored = std::mem::take(&mut self.stored);
        attach(&loaded.config, &mut control, &mut workers, stored, environment)
            .map_err(|error| StartError::Gateway(Box::new(error)))?;
        let fast = match self.fast.take() {
            Some(fast) => fast::stand(fast, &loaded.config, opened.caps(), &mut control, &mut workers)?,
            None => None,
        };
        let all = WorkerInits { workers, time: Time::real(), waker, sockets, vitals };
        let process = opened.start(loaded, all, |shell| Observer::new(shell, control))?;
        // Its addresses are announced at once.
        process.turn();
        fast.map_or(Ok(()), |ready| ready.engage(&fast::wants(&loaded.config)))?;
        Ok(process)
    }

    fn ready(&self, config: &Config, process: &Process<Observer>, took: Duration, socket: &Path) {
        let subscribers = process.observer().control().subscribers().count();
        tracing::info!(
            target: "process", event = "ready",
            ms = took.as_millis() as u64, workers = config.workers.count,
            subscribers, groups = config.group.len(), slots = config.frames.packet_buffers,
            "ready after {}; `weir show subscribers --socket {}` looks into it",
            duration(took.as_secs_f64()),
            socket.display()
        );
    }
}
