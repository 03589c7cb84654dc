//! The broadband gateway: `weir run` with `gateway = "bng"`.
//!
//! | file | idea |
//! |---|---|
//! | `command.rs` | `weir subscriber` |
//! | `crossing.rs` | groups that move to other processes, and from them |
//! | `fast.rs` | the in-kernel path, put before the ports' own programs |
//! | `hand_over.rs` | its state on its way to another process |
//! | `live.rs` | keys that a reload applies |
//! | `moving.rs` | `weir move` |
//! | `observer.rs` | its control side while it runs, and its metrics |
//! | `protocol.rs`, `show.rs` | requests and replies, and their tables |

mod command;
mod connected;
mod crossing;
mod fast;
mod hand_over;
mod live;
mod moving;
mod observer;
pub mod protocol;
mod show;

use std::hash::{BuildHasher, RandomState};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::Context as _;
use engine::{Owner, Time};
use gateway::cli::RunArgs;
use gateway::fast_path::{Attached, Ready};
use gateway::load::Text;
use gateway::moves::owners::Owners;
use gateway::privilege::folder_of;
use gateway::records::Opening;
use gateway::shell::reload::{LiveKey, apply_to};
use gateway::shell::rest::ControlWaker;
use gateway::shell::{self, Gateway, Opened, Process, Reach, StartError, WorkerInits};
use gateway::show::View;
use gateway::tables::duration;
use gateway::watch::Vitals;
use port::flows::Flows;
use serde_json::Value;

use crate::assemble::{AssembleError, assemble_with, attach, go_on};
use crate::config::{Config, ConfigError, Group, RadiusSection};
use crate::control::Meanings;
use crate::fast::FastPath;
use crate::hand_over::Numbers;
use crate::sessions::{Environment, Sockets, Stored};
use crate::steer::ELSEWHERE;
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
    /// The same when subscribers are in it.
    ready: Option<Ready<FastPath>>,
    /// That of another process, which this one goes on for.
    taken: Option<Taken>,
    /// The worker of each group, or that another process has it, where processes share groups.
    owners: Option<Vec<Owner>>,
}

/// How this process goes on for another.
struct Taken {
    numbers: Numbers,
    /// The worker of each group.
    owners: Vec<Owner>,
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

/// The worker of each group, or that another process has it; none: processes share no groups.
fn owners_of(config: &Config) -> anyhow::Result<Option<Vec<Owner>>> {
    let Some(section) = &config.moves else { return Ok(None) };
    let owners = Owners::new(section, &config.control_socket);
    let folder = || format!("[moves] owners = \"{}\"", section.owners.display());
    owners.make().with_context(folder)?;
    let owner = |group: &Group| {
        let is_own = owners.is_own(&group.name, group.active).with_context(folder)?;
        Ok(if is_own { group.worker } else { ELSEWHERE })
    };
    config.group.iter().map(owner).collect::<anyhow::Result<_>>().map(Some)
}

/// Packet buffers for packets that other processes pass on, at most.
const MOST_SPARE: u32 = 4096;

/// A number that nobody can guess.
fn seed() -> u64 {
    RandomState::new().hash_one("sessions")
}

/// The wall clock.
fn now() -> access::Time {
    access::Time(SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64))
}

fn no_sockets(radius: &RadiusSection, error: &std::io::Error) -> StartError {
    let coa = radius.coa.map(|address| format!(" and CoA at {address}")).unwrap_or_default();
    StartError::Gateway(format!("no sockets for RADIUS{coa}: {error}; is the address ours, and the port free?").into())
}

impl Gateway for BngGateway {
    const NAME: &'static str = "bng";
    const TITLE: &'static str = "a broadband network gateway";
    const SHARES_DEVICES: Result<(), &'static str> = Ok(());
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
        let owners = owners_of(&loaded.config)?;
        Ok(Some((Self { stored: read_leases(&loaded.config)?, owners, ..Self::default() }, None)))
    }

    /// A configuration of which that cannot be said is refused when it is assembled.
    fn flows(config: &Config) -> Vec<Flows> {
        crate::assemble::flows(config).unwrap_or_default()
    }

    fn warn(config: &Config) {
        gateway::nat::warn(config.nat.as_ref());
    }

    fn is_known_by_socket(config: &Config) -> bool {
        config.moves.is_some()
    }

    fn reach(config: &Config) -> Reach {
        let log = config.nat.iter().filter_map(|nat| nat.log.as_deref()).filter_map(folder_of);
        let udp = config.radius.iter().filter_map(|radius| radius.coa).map(|address| address.port()).collect();
        let owners = config.moves.iter().map(|moves| moves.owners.clone());
        let write = config.sessions.ledger.clone().into_iter().chain(log).chain(owners).collect();
        Reach { write, udp, ..Reach::default() }
    }

    fn spare_buffers(config: &Config) -> u32 {
        // For packets that other processes pass on.
        let most = config.frames.packet_buffers / 8;
        config.moves.as_ref().map_or(0, |_| most.min(MOST_SPARE))
    }

    fn open(&mut self, loaded: &Loaded) -> Result<(), StartError> {
        self.fast = fast::open(&loaded.config)?;
        let Some(radius) = &loaded.config.radius else { return Ok(()) };
        self.radius = Some(Sockets::open(radius).map_err(|error| no_sockets(radius, &error))?);
        Ok(())
    }

    fn take_over(loaded: &Loaded, from: &Value, sockets: Vec<OwnedFd>) -> anyhow::Result<Self> {
        let config = &loaded.config;
        let layout = config.layout().map_err(|error| loaded.wrong(&error))?;
        let there: Meanings =
            serde_json::from_value(from.clone()).context("the running gateway sent what cannot be read")?;
        let refused = |why: String| anyhow::anyhow!("take-over refused: {why}");
        let (numbers, owners) = there.within(config, &layout).map_err(refused)?;
        let radius = match config.radius.as_ref().filter(|_| !sockets.is_empty()) {
            None => None,
            Some(radius) => {
                let sockets = Sockets::go_on(radius, sockets).map_err(|error| no_sockets(radius, &error))?;
                Some(sockets.context("the running gateway has another number of sockets for RADIUS; restart instead")?)
            }
        };
        let fast = fast::open(config)?.map(Attached::of_take_over);
        Ok(Self { radius, taken: Some(Taken { numbers, owners }), fast, ..Self::default() })
    }

    fn stand(
        &mut self,
        loaded: &Loaded,
        opened: Opened,
        vitals: Arc<Vitals>,
        time: Time,
    ) -> Result<Process<Observer>, StartError> {
        let (config, taken) = (&loaded.config, self.taken.take());
        let owners = taken.as_ref().map(|taken| &taken.owners).or(self.owners.as_ref());
        let owners = owners.map(|owners| &owners[..]);
        let (mut control, mut workers) = assemble_with(config, opened.caps(), owners).map_err(|error| match error {
            AssembleError::Config(error) => StartError::Config(loaded.wrong(&error)),
            other => StartError::Gateway(Box::new(other)),
        })?;
        let waker = ControlWaker::new(control.waker().clone());
        let told = waker.clone();
        let radius = self.radius.take();
        let sockets = radius.as_ref().map_or_else(|| Ok(Vec::new()), Sockets::descriptors);
        let sockets = sockets.map_err(StartError::Descriptors)?;
        let (clock, goes_on) = (Box::new(now), taken.is_some());
        let environment = Environment { clock, told: Box::new(move || told.call()), seed: seed(), radius, goes_on };
        let attached = if goes_on {
            let folder = config.sessions.ledger.clone().filter(|_| config.has_sessions());
            let opening = folder.map(|folder| Opening::new(move || Stored::read(&folder), waker.clone(), "DHCP"));
            go_on(config, &mut control, opening, environment)
        } else {
            attach(config, &mut control, &mut workers, std::mem::take(&mut self.stored), environment)
        };
        attached.map_err(|error| StartError::Gateway(Box::new(error)))?;
        if let Some(fast) = self.fast.take() {
            self.ready = fast::stand(fast, config, opened.caps(), &mut control, &mut workers)?;
        }
        if goes_on {
            // Until the other process has told what its subscribers have counted there.
            workers.iter_mut().for_each(|worker| worker.plane.close_kernel());
        }
        let numbers = taken.map(|taken| taken.numbers).unwrap_or_default();
        let all = WorkerInits { workers, time, waker, sockets, vitals };
        let process = opened.stand::<Self>(loaded, all, |shell| Observer::new(shell, control, numbers));
        if goes_on {
            process.observer().keep_ready(self.ready.take());
        }
        Ok(process)
    }

    fn start(&mut self, loaded: &Loaded, opened: Opened, vitals: Arc<Vitals>) -> Result<Process<Observer>, StartError> {
        let mut process = self.stand(loaded, opened, vitals, Time::real())?;
        process.go()?;
        // Its addresses are announced at once.
        process.turn();
        let ready = self.ready.take();
        ready.as_ref().map_or(Ok(()), |ready| ready.engage(&fast::wants(&loaded.config)))?;
        process.observer().keep_ready(ready);
        Ok(process)
    }

    fn started(&mut self, config: &Config, process: &Process<Observer>) -> anyhow::Result<()> {
        Observer::begin_crossings(process.observer(), config).context("no thread for packets of groups that move")?;
        process.observer().control().begin_opening().context("no thread to read the ledger")
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
