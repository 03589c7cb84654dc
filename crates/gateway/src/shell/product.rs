//! What a gateway brings to the shell.

use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use dataplane::config::{Api, CertificateSection, ConfigError, Frames, Health, Log, Metrics, ProcessSection, Workers};
use dataplane::forward::Neighbourhood;
use engine::{PortId, Time, Worker};
use port::Steer;
use port::flows::Flows;
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use wire::Mac;

use super::hand_over::HandOver;
use super::observe::Shell;
use super::ports::PortEntry;
use super::process::{Ended, Opened, Process, StartError};
use super::reload::LiveKey;
use super::rest::Wait;
use super::sections::Sections;
use crate::cli::{RunArgs, RunKey};
use crate::connected::Connected;
use crate::host_routing::ServedPrefix;
use crate::load::{Hints, LoadError, Rename, Text, Warning};
use crate::metrics::Known;
use crate::show::View;
use crate::snapshot::KernelCounters;
use crate::socket::{RawAnswer, RawRequest};
use crate::tables::duration;
use crate::watch::{Level, Vitals};

/// What all gateways' configurations have in common.
pub struct Head<'a> {
    /// Ports, in order.
    pub ports: Vec<PortEntry<'a>>,
    /// Threads that carry packets.
    pub workers: &'a Workers,
    /// `[frames]`: number and size of packet buffers, all workers together.
    pub frames: &'a Frames,
    /// What the process keeps of its privileges.
    pub process: &'a ProcessSection,
    /// Numbers for a monitoring system.
    pub metrics: Option<&'a Metrics>,
    /// Tables by HTTP.
    pub api: Option<&'a Api>,
    /// Probes of an orchestrator.
    pub health: Option<&'a Health>,
    /// The machine's capacity certificate.
    pub certificate: Option<&'a CertificateSection>,
    /// The event log.
    pub log: &'a Log,
    /// Where `weir show` and `weir trace` find the running process.
    pub control_socket: &'a Path,
}

/// A gateway's configuration, checked, and the text it was read from.
pub struct Loaded<G: Gateway> {
    /// What the text says, after `check` found nothing wrong.
    pub config: G::Config,
    /// The text it was read from, for errors to point into.
    pub text: Text,
    /// Keys that stand under their former names.
    pub warnings: Vec<Warning>,
}

impl<'a> Head<'a> {
    /// The URIs of its ports' devices, in order.
    pub fn uris(&self) -> impl Iterator<Item = &'a str> {
        self.ports.iter().filter(|port| port.on.is_none()).map(|port| port.uri)
    }
}

impl<G: Gateway> Loaded<G> {
    /// The configuration a text holds.
    ///
    /// # Errors
    /// [`LoadError`], pointing at the key.
    pub fn of(text: Text) -> Result<Self, LoadError> {
        let (config, warnings) =
            text.parse_noting::<G::Config>(Hints { gateway: Some(G::NAME), renamed: G::RENAMED })?;
        let mut loaded = Self { config, text, warnings };
        loaded.check()?;
        let head = loaded.config.head();
        loaded.text.check_machine(&head.ports, head.workers)?;
        let former = loaded.text.former_modes(head.ports.iter().map(|port| port.uri));
        loaded.warnings.extend(former);
        Ok(loaded)
    }

    /// What makes no sense, as when it was read: after a change.
    ///
    /// # Errors
    /// [`LoadError`], pointing at the key.
    pub fn check(&self) -> Result<(), LoadError> {
        G::check(&self.config).map_err(|error| self.wrong(&error))
    }

    /// A semantic error, pointing at its key.
    pub fn wrong(&self, error: &ConfigError) -> LoadError {
        self.text.at(&error.path, error.what.clone(), error.help.clone())
    }
}

/// What a running gateway touches by path and port, beside what all do.
#[derive(Clone, Debug, Default)]
pub struct Reach {
    /// Folders it writes in.
    pub write: Vec<PathBuf>,
    /// Sockets it makes and removes.
    pub sockets: Vec<PathBuf>,
    /// Ports of UDP it listens at.
    pub udp: Vec<u16>,
}

/// How a gateway is started from its configuration, and ended. From `load` on, the methods are called in the order in which they
/// stand here; [`Loaded`] calls `check`.
pub trait Gateway: Sized + 'static {
    /// What the configuration calls it.
    const NAME: &'static str;
    /// What it is, in words, with an article: `a user plane`.
    const TITLE: &'static str;
    /// Topics that it adds to `weir show`.
    const VIEWS: &'static [View] = &[];
    /// Options that it adds to `weir run`.
    const RUN_KEYS: &'static [RunKey] = &[];
    /// Subsystems of its own that emit events, each with a level.
    const LOG_TARGETS: &'static [&'static str] = &[];
    /// Keys of its own sections that have a new name; the former ones are read for one release.
    const RENAMED: &'static [Rename] = &[];
    /// Whether several ports may share one device (`[[port]] on`).
    ///
    /// # Errors
    /// They may not, and what can be done instead.
    const SHARES_DEVICES: Result<(), &'static str> = Err("give each port a uri of its own");
    /// Keys that a reload applies while it runs, beside those of the shell.
    const LIVE: &'static [LiveKey] = &[];
    /// Configurations that sections of the reference (`weir config reference`) are quoted from.
    const EXAMPLES: &'static [&'static str] = &[];
    /// What an operator writes about it.
    type Config: Sections + DeserializeOwned + Serialize + JsonSchema;
    /// Its control side.
    type Product: Product;

    /// What makes no sense in a configuration, by key.
    ///
    /// # Errors
    /// The first thing that is wrong.
    fn check(config: &Self::Config) -> Result<(), ConfigError>;

    /// The configuration that the command line asks for.
    ///
    /// # Errors
    /// What is wrong with the file or the command line.
    fn load(_args: &RunArgs, text: Text) -> anyhow::Result<Loaded<Self>> {
        Ok(Loaded::of(text)?)
    }

    /// Reports what is allowed in its configuration, but seldom meant.
    fn warn(_config: &Self::Config) {}

    /// Whether other processes know this one by the control socket of its configuration: it has no other one then.
    fn is_known_by_socket(_config: &Self::Config) -> bool {
        false
    }

    /// Waits for its turn, if it has to, and begins what can be done while ports are opened; with when its start began, if it
    /// had to wait. None: told to stop before.
    ///
    /// # Errors
    /// What keeps it from starting.
    fn begin(
        loaded: &Loaded<Self>,
        standby: bool,
        stop: &AtomicBool,
    ) -> anyhow::Result<Option<(Self, Option<Instant>)>>;

    /// What it touches once it runs.
    fn reach(_config: &Self::Config) -> Reach {
        Reach::default()
    }

    /// Which subscribers' packets belong to which worker, for ports that can steer.
    fn steer(_config: &Self::Config) -> Steer {
        Steer::new()
    }

    /// Whose each port's packets are, in the order of the configuration, for devices that can steer by more than addresses.
    /// Asked where there are several workers.
    fn flows(_config: &Self::Config) -> Vec<Flows> {
        Vec::new()
    }

    /// Packet buffers that workers leave to others from the start, of those that are configured.
    fn spare_buffers(_config: &Self::Config) -> u32 {
        0
    }

    /// Opens what takes privileges, beside memory and ports.
    ///
    /// # Errors
    /// [`StartError`].
    fn open(&mut self, _loaded: &Loaded<Self>) -> Result<(), StartError> {
        Ok(())
    }

    /// A gateway that goes on for another process, which has sent that value and those descriptors
    /// ([`HandOver::begin`]).
    ///
    /// # Errors
    /// They are not its own; or this gateway takes nothing over.
    fn take_over(_loaded: &Loaded<Self>, _from: &Value, _sockets: Vec<OwnedFd>) -> anyhow::Result<Self> {
        anyhow::bail!("--take-over is refused: {} cannot be handed over; restart it instead", Self::TITLE)
    }

    /// As [`start`](Self::start), with workers that do not run yet, on another process's clock, for state to be taken in.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    fn stand(
        &mut self,
        _loaded: &Loaded<Self>,
        _opened: Opened,
        _vitals: Arc<Vitals>,
        _time: Time,
    ) -> Result<Process<Self::Product>, StartError> {
        Err(StartError::Gateway(format!("{} cannot be handed over", Self::TITLE).into()))
    }

    /// Sets its workers going. It has no privileges any more.
    ///
    /// # Errors
    /// [`StartError`], each telling what to do; nothing is left open then.
    fn start(
        &mut self,
        loaded: &Loaded<Self>,
        opened: Opened,
        vitals: Arc<Vitals>,
    ) -> Result<Process<Self::Product>, StartError>;

    /// Starts threads beside the workers.
    ///
    /// # Errors
    /// They do not start.
    fn started(&mut self, _config: &Self::Config, _process: &Process<Self::Product>) -> anyhow::Result<()> {
        Ok(())
    }

    /// Reports what runs now: `took` after it began, with its control socket at `socket`.
    fn ready(&self, _config: &Self::Config, process: &Process<Self::Product>, took: Duration, socket: &Path) {
        tracing::info!(
            target: "process", event = "ready",
            ms = took.as_millis() as u64, workers = process.shell().workers().len(),
            "ready after {}; `weir show run --socket {}` looks into it",
            duration(took.as_secs_f64()),
            socket.display()
        );
    }

    /// Whether this gateway, as it was started, can not apply a key of [`LIVE`](Self::LIVE).
    fn needs_restart(_product: &Self::Product, _key: &str) -> bool {
        false
    }

    /// Applies keys of [`LIVE`](Self::LIVE) from a configuration that was checked; with `check` only finds out whether it
    /// could. All or nothing: an error leaves everything as it was.
    ///
    /// # Errors
    /// Why it is not applied, by key.
    fn apply(
        _config: &Self::Config,
        _keys: &[&str],
        _product: &Self::Product,
        _check: bool,
    ) -> Result<(), ConfigError> {
        Ok(())
    }

    /// Stops its workers.
    fn end(self, process: Process<Self::Product>) -> Ended {
        process.stop()
    }

    /// All of that with memory ports of `wires`, without privileges to give up and without a control socket, for tests.
    ///
    /// # Errors
    /// As its parts.
    fn started_from(loaded: &Loaded<Self>, wires: &port::Wires) -> anyhow::Result<Process<Self::Product>> {
        let begun = Self::begin(loaded, false, &AtomicBool::new(false))?;
        let (mut gateway, _) = begun.expect("nobody has told it to stop");
        let opened = Opened::new(loaded, Self::steer(&loaded.config), wires)?;
        gateway.open(loaded)?;
        Ok(gateway.start(loaded, opened, Arc::default())?)
    }
}

/// The control side of a running gateway. The control thread turns it; threads that answer questions share it.
pub trait Product: Send + Sync + 'static {
    /// What its workers run.
    type Plane: engine::Gateway + 'static;
    /// Tells layouts of exported state apart: processes of one number understand each other.
    const STATE_LAYOUT: u64 = 0;

    /// Its state on its way to another process; none: it cannot be handed over.
    fn hand_over(&self) -> Option<&dyn HandOver<Self::Plane>> {
        None
    }

    /// The reading ends that every gateway has.
    fn shell(&self) -> &Shell;

    /// A turn of control.
    fn turn(&self);

    /// How long nothing is to be done; the last turn began `since` ago.
    fn wait(&self, since: Duration) -> Wait;

    /// A port's interface has that hardware address from now on: its link is told. Whether it had another.
    fn set_port_mac(&self, port: PortId, mac: Mac) -> bool {
        let mut frames = None;
        self.with_neighbourhood(&mut |here| frames = here.set_port_mac(port, mac));
        let Some(frames) = frames else { return false };
        // Tables before packets to the new address.
        self.publish_tables();
        self.send(frames);
        true
    }

    /// Has workers go by neighbours and routes as control keeps them now.
    fn publish_tables(&self);

    /// Neighbours and routes as control keeps them, for a moment; changes count with the next turn of control.
    fn with_neighbourhood(&self, see: &mut dyn FnMut(&mut Neighbourhood));

    /// Has a worker send complete frames by ports.
    fn send(&self, frames: Vec<(PortId, Vec<u8>)>);

    /// Its VRFs by name, in the order of their numbers.
    fn instances(&self) -> Vec<String>;

    /// The prefixes of its subscribers, as they are now: routing daemons of the host announce them.
    fn served(&self) -> Vec<ServedPrefix> {
        Vec::new()
    }

    /// Whether it is to end though nobody told it by a signal.
    fn is_leaving(&self) -> bool {
        false
    }

    /// Its workers stand still, their ports are still open: usage can be written down.
    fn halted(&self, _workers: &[std::thread::Result<Worker<Self::Plane>>]) {}

    /// The answer to what only it is asked; none: it knows no such question.
    fn answer(&self, _asked: &RawRequest) -> Option<RawAnswer> {
        None
    }

    /// Another process asks something on a connection of its own, which is its from now on ([`STREAMS`](crate::socket::STREAMS)).
    fn connected_to(&self, _asked: &RawRequest, _stream: UnixStream) {}

    /// Its sessions, devices or subscribers; none: it has no such thing.
    fn connected(&self) -> Option<&dyn Connected> {
        None
    }

    /// For a trace: what the rules of a subscriber's session name, such as `PDR 1` and `FAR 1, QER 1, URR 1`.
    fn rules(&self, _ue: IpAddr) -> Vec<(String, String)> {
        Vec::new()
    }

    /// Whether it has sessions that could be drained.
    fn can_drain(&self) -> bool {
        false
    }

    /// Takes no new sessions from now on, or takes them again; whoever may end them is told that those there are may stay
    /// for a `grace`. Returns how many there are. Called only if it can be drained.
    ///
    /// # Errors
    /// Why they are not counted; a sentence.
    fn drain(&self, _on: bool, _grace: Duration) -> Result<u64, String> {
        Ok(0)
    }

    /// What monitoring is told of it, beside what every gateway tells.
    fn known(&self) -> Known {
        Known::default()
    }

    /// What went through the kernel, and no worker saw; none: nothing can.
    fn kernel_counters(&self) -> Option<KernelCounters> {
        None
    }

    /// Its pools and tables.
    fn levels(&self) -> Vec<Level> {
        Vec::new()
    }

    /// Sessions there are, if they can be counted without waiting.
    fn sessions(&self) -> Option<u64> {
        None
    }

    /// What else keeps it from taking traffic, a sentence each.
    fn hindrances(&self) -> Vec<String> {
        Vec::new()
    }
}
