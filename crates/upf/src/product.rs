//! The user plane: `weir run` with `gateway = "upf"`.
//!
//! | file | idea |
//! |---|---|
//! | `n4.rs` | datagrams between N4's sockets and its endpoint |
//! | `observer.rs`, `query.rs`, `session.rs`, `functions.rs` | its control side, and looking on without disturbing workers |
//! | `fast.rs` | the in-kernel path, put before the ports' own programs |
//! | `hand_over.rs` | its state on its way to another process |
//! | `protocol.rs`, `show.rs` | what it is asked and answers, as tables |
//! | `live.rs`, `reload.rs` | keys that a reload applies, and how |
//! | `metrics.rs` | what only it tells monitoring |
//! | `replica.rs` | one of many: finding its share |

mod connected;
mod fast;
mod functions;
mod hand_over;
mod live;
pub mod metrics;
pub mod n4;
pub mod observer;
pub mod protocol;
pub mod query;
mod reload;
mod replica;
mod session;
mod show;

use std::net::{IpAddr, UdpSocket};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::assemble::{AssembleError, assemble};
use crate::config::{Config, ConfigError, Simulate};
use crate::fast::FastPath;
use crate::steer::GTPU;
use anyhow::{Context, bail};
use engine::Time;
use port::Steer;
use port::flows::Flows;
use serde_json::Value;

use gateway::cli::{Key, RunArgs, RunKey};
use gateway::fail::Usage;
use gateway::fast_path::{Attached, InKernelSessions as _, Ready};
use gateway::load::{Rename, Text};
use gateway::privilege::folder_of;
use gateway::shell::reload::LiveKey;
use gateway::shell::rest::ControlWaker;
use gateway::shell::{self, Gateway, Opened, Process, Reach, StartError, WorkerInit, WorkerInits, wall_clock};
use gateway::show::View;
use gateway::tables::{count, duration, many};
use gateway::watch::Vitals;
use n4::{N4, N4Error};
use observer::Observer;
use query::QueriedPlane;

/// A user plane's configuration, checked.
pub type Loaded = shell::Loaded<UpfGateway>;

/// A user plane on its way to run.
pub struct UpfGateway {
    /// The ledger, while it is read.
    reading: Option<n4::Reading>,
    sockets: Option<n4::Sockets>,
    /// That of another process, which this one goes on for.
    taken: Option<Taken>,
    /// The in-kernel path, where there is one.
    fast: Option<Attached<FastPath>>,
    /// The same when sessions are in it.
    ready: Option<Ready<FastPath>>,
}

/// What another process has handed over of N4.
struct Taken {
    sockets: n4::Sockets,
    /// For packets between subscribers and control planes.
    control_socket: Option<UdpSocket>,
    /// When that process's run began: a Recovery Time Stamp.
    began: u32,
}

impl From<N4Error> for StartError {
    fn from(error: N4Error) -> Self {
        StartError::Gateway(Box::new(error))
    }
}

/// The address for PFCP.
pub(crate) const N4_ADDRESS: RunKey = RunKey {
    key: Key {
        name: "n4-address",
        value: "ADDRESS",
        help: "The address for PFCP, instead of the configuration's n4.address, such as a pod's own",
    },
    env: "WEIR_N4_ADDRESS",
    check: |text| text.parse::<std::net::IpAddr>().map(drop).map_err(|error| error.to_string()),
};

impl Gateway for UpfGateway {
    const NAME: &'static str = "upf";
    const TITLE: &'static str = "a user plane";
    const EXAMPLES: &'static [&'static str] = &[
        include_str!("../../../examples/upf-packet.toml"),
        include_str!("../../../examples/upf-n4.toml"),
        include_str!("../../../examples/upf-embb.toml"),
        include_str!("../../../examples/upf-fanout.toml"),
    ];
    const SHARES_DEVICES: Result<(), &'static str> = Ok(());
    const VIEWS: &'static [View] = show::VIEWS;
    const LIVE: &'static [LiveKey] = live::KEYS;
    const RUN_KEYS: &'static [RunKey] = &[N4_ADDRESS];
    const LOG_TARGETS: &'static [&'static str] = &["n4", "gtpu", "nat", "ledger"];
    const RENAMED: &'static [Rename] = &[
        Rename::new("Policy", "via", "next_hop"),
        Rename::new("N4", "keep_seconds", "session_retention_seconds"),
        Rename::new("Gtpu", "echo_tries", "n3_requests"),
    ];
    type Config = Config;
    type Product = Observer;

    fn check(config: &Config) -> Result<(), ConfigError> {
        config.check()
    }

    fn load(args: &RunArgs, text: Text) -> anyhow::Result<Loaded> {
        let loaded = replica::load(args, text)?;
        if args.standby {
            bail!(Usage(format!(
                "--standby is refused: a standby exists for gateway = \"cmts\" only, and {} has gateway = \"{}\"; leave \
                 --standby out, and keep sessions over a restart by [n4] ledger",
                args.config.display(),
                loaded.config.gateway,
            )));
        }
        Ok(loaded)
    }

    fn warn(config: &Config) {
        if config.n4.as_ref().is_some_and(|n4| n4.ledger.is_none()) {
            let text = "sessions end with the process: n4.ledger names a folder to keep them in";
            tracing::warn!(target: "process", event = "config_warning", key = "n4.ledger", "{text}");
        }
        gateway::nat::warn(config.nat.as_ref());
        if let Some(text) = fast::keeps_nothing(config) {
            tracing::warn!(target: "process", event = "config_warning", key = "fast_path.keep_seconds", "{text}");
        }
    }

    fn reach(config: &Config) -> Reach {
        let ledger = config.n4.iter().filter_map(|n4| n4.ledger.as_ref()).map(PathBuf::from);
        let log = config.nat.iter().filter_map(|nat| nat.log.as_deref()).filter_map(folder_of);
        let udp = config.n4.iter().map(|n4| n4.port).collect();
        Reach { write: ledger.chain(log).collect(), sockets: Vec::new(), udp }
    }

    fn begin(loaded: &Loaded, _standby: bool, _stop: &AtomicBool) -> anyhow::Result<Option<(Self, Option<Instant>)>> {
        let reading = n4::Reading::begin(&loaded.config).map_err(StartError::from)?;
        fast::keep(&loaded.config);
        Ok(Some((Self { reading: Some(reading), sockets: None, taken: None, fast: None, ready: None }, None)))
    }

    fn steer(config: &Config) -> Steer {
        steer(config)
    }

    /// A configuration of which that cannot be said is refused when it is assembled.
    fn flows(config: &Config) -> Vec<Flows> {
        crate::assemble::flows(config).unwrap_or_default()
    }

    fn open(&mut self, loaded: &Loaded) -> Result<(), StartError> {
        self.sockets = n4::sockets(&loaded.config)?;
        self.fast = fast::open(&loaded.config)?;
        Ok(())
    }

    fn take_over(loaded: &Loaded, from: &Value, mut sockets: Vec<OwnedFd>) -> anyhow::Result<Self> {
        let allow: Vec<_> = loaded.config.n4.iter().flat_map(|n4| &n4.allow).collect();
        let allow = allow.into_iter().filter_map(|text| crate::config::parse_prefix(text)).collect();
        // Translation and fragments name them by number.
        let instances = serde_json::json!(loaded.config.instances());
        let is_numbered_alike = from["instances"] == instances;
        anyhow::ensure!(
            is_numbered_alike || (loaded.config.nat.is_none() && loaded.config.reassembly.is_none()),
            "network instances differ: {} there, {instances} here; restart instead",
            from["instances"]
        );
        let has_control = from["control_socket"] == true;
        let control_socket = if has_control { sockets.pop().map(UdpSocket::from) } else { None };
        let sockets = n4::Sockets::go_on(sockets.into_iter().map(UdpSocket::from).collect(), allow);
        let differs = "the running gateway has other sockets for control planes: n4.allow differs";
        let (sockets, began) = (sockets.context(differs)?, from["began"].as_u64().context("no Recovery Time Stamp")?);
        let taken = Taken { sockets, control_socket, began: began as u32 }; // 32 bits, as it was sent
        fast::keep(&loaded.config);
        let fast = fast::open(&loaded.config)?.map(Attached::of_take_over);
        Ok(Self { reading: None, sockets: None, taken: Some(taken), fast, ready: None })
    }

    fn stand(
        &mut self,
        loaded: &Loaded,
        opened: Opened,
        vitals: Arc<Vitals>,
        time: Time,
    ) -> Result<Process<Observer>, StartError> {
        let config = &loaded.config;
        let (mut control, mut seats) = assemble(config, opened.caps()).map_err(|error| match error {
            AssembleError::Config(error) => StartError::Config(loaded.wrong(&error)),
            other => StartError::Gateway(Box::new(other)),
        })?;
        let (waker, clock) = (ControlWaker::new(control.waker().clone()), wall_clock(&time));
        let goes_on = self.taken.is_some();
        let (n4, ledger) = match (self.taken.take(), self.sockets.take(), self.reading.take()) {
            (Some(Taken { sockets, control_socket, began }), ..) => {
                (N4::go_on(sockets, control_socket, config, (&clock, &waker), began), None)
            }
            (None, Some(sockets), Some(reading)) => {
                N4::open(sockets, reading, config, &mut control, &mut seats, &clock, &waker)?
            }
            _ => (None, None),
        };
        if let Some(fast) = self.fast.take() {
            self.ready = fast::stand(fast, config, opened.caps(), &mut control, &mut seats)?;
        }
        if goes_on {
            // Until the other process has told what its sessions have counted there.
            seats.iter_mut().for_each(|seat| seat.plane.sessions_mut().close_kernel());
        }
        let sockets = n4.as_ref().map_or_else(|| Ok(Vec::new()), N4::to_wait_on).map_err(StartError::Descriptors)?;
        let (mut ready, mut queries) = (Vec::new(), Vec::new());
        for seat in seats {
            let (plane, query) = QueriedPlane::new(seat.plane);
            queries.push(query);
            ready.push(WorkerInit { plane, layout: seat.layout, hand_off: seat.hand_off });
        }
        let observer = |shell| Observer::new(config, shell, queries, control, n4.map(Mutex::new), ledger);
        let all = WorkerInits { workers: ready, time, waker, sockets, vitals };
        let process = opened.stand::<Self>(loaded, all, observer);
        if goes_on {
            process.observer().keep_ready(self.ready.take());
        }
        Ok(process)
    }

    fn start(&mut self, loaded: &Loaded, opened: Opened, vitals: Arc<Vitals>) -> Result<Process<Observer>, StartError> {
        let mut process = self.stand(loaded, opened, vitals, Time::real())?;
        process.go()?;
        resolve(&process);
        let ready = self.ready.take();
        ready.as_ref().map_or(Ok(()), |ready| ready.engage(&fast::wants(&loaded.config)))?;
        process.observer().keep_ready(ready);
        Ok(process)
    }

    fn started(&mut self, _config: &Config, process: &Process<Observer>) -> anyhow::Result<()> {
        if let Some(mut n4) = process.observer().n4() {
            n4.begin_opening().context("no thread to read the ledger")?;
        }
        Ok(())
    }

    fn needs_restart(product: &Observer, key: &str) -> bool {
        key == "acl" && !product.control().has_access_lists()
    }

    fn apply(config: &Config, keys: &[&str], product: &Observer, check: bool) -> Result<(), ConfigError> {
        product.reload(config, keys, check)
    }

    fn ready(&self, _config: &Config, process: &Process<Observer>, took: Duration, socket: &Path) {
        let observer = process.observer();
        let frames = process.shell().snapshot().frames;
        let sessions: u64 = observer.sessions().map_or(0, |view| view.workers.iter().map(|w| w.sessions).sum());
        if let Some(restored) = observer.n4().and_then(|n4| n4.restored()) {
            tracing::info!(
                target: "n4", event = "sessions_restored",
                sessions = restored.sessions, associations = restored.associations, lost = restored.lost,
                "{} sessions of {} restored",
                count(restored.sessions as u64),
                many(restored.associations, "control plane")
            );
        }
        tracing::info!(
            target: "process", event = "ready",
            ms = took.as_millis() as u64, workers = process.shell().workers().len(), sessions,
            packet_buffers = frames.slots, pages = frames.pages,
            "ready after {}; `weir show run --socket {}` looks into it",
            duration(took.as_secs_f64()),
            socket.display()
        );
    }
}

/// Where sessions are restored, has the next hops of all routes and tunnels resolved and waits for that, so that packets
/// find their way as soon as the gateway is ready; for as long as a next hop that is there takes at most. Elsewhere the
/// first packet asks: a next hop that is not up yet would be taken to be unreachable when it comes.
fn resolve(process: &Process<Observer>) {
    const AT_MOST: Duration = Duration::from_secs(1);
    const AGAIN: Duration = Duration::from_millis(200);
    let observer = process.observer();
    if observer.n4().and_then(|n4| n4.restored()).is_none_or(|restored| restored.sessions == 0) {
        return;
    }
    let (until, mut asked) = (Instant::now() + AT_MOST, Instant::now());
    loop {
        let again = asked.elapsed() >= AGAIN;
        if again {
            asked = Instant::now();
        }
        let now = process.shell().now_ns();
        let silent = observer.control().resolve_next_hops(now, again);
        if silent.is_empty() {
            return;
        }
        if Instant::now() >= until {
            return tell_silent(process, &silent);
        }
        process.turn();
        // The workers take what they were given; what they say ends the sleep.
        process.rest_at_most(&[], AGAIN);
    }
}

fn tell_silent(process: &Process<Observer>, silent: &[(u8, IpAddr)]) {
    let ports = process.shell().ports();
    for (port, address) in silent {
        let view = ports.iter().filter(|view| view.worker == 0).nth((*port).into());
        let port = view.map_or("", |view| view.name.as_str());
        tracing::warn!(target: "port", event = "next_hop_silent", port, %address, "next hop {address} does not answer");
    }
}

/// Simulated subscribers lie on workers in contiguous ranges; ports that can steer are told.
fn steer(config: &Config) -> Steer {
    let mut steer = Steer::new().within(GTPU);
    let (Some(simulate), workers) = (&config.simulate, u32::from(config.workers.count.max(1))) else { return steer };
    let each = simulate.ues.div_ceil(workers).max(1);
    for worker in 0..workers {
        let (first, end) = (worker * each, ((worker + 1) * each).min(simulate.ues));
        if first < end {
            give(&mut steer, simulate, first, end - 1, worker as u16);
        }
    }
    steer
}

fn give(steer: &mut Steer, simulate: &Simulate, first: u32, last: u32, worker: u16) {
    // Ranges of one formula do not overlap; the configuration was checked to fit the address space.
    if let Some(base) = simulate.first4() {
        let at = |i: u32| std::net::Ipv4Addr::from_bits(base.to_bits().wrapping_add(i)).into();
        let _ = steer.give(at(first), at(last), worker);
    }
    if let Some(base) = simulate.ue6_first {
        let at = |i: u32| std::net::Ipv6Addr::from_bits(base.to_bits().wrapping_add(u128::from(i) << 64)).into();
        let _ = steer.give(at(first), at(last), worker);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subscribers_are_steered_to_where_their_sessions_are() {
        let toml = "gateway = \"upf\"\nworkers.count = 2\nsimulate = { ues = 5, ue_first = \"10.0.0.1\" }";
        let steer = steer(&toml::from_str(toml).unwrap());
        let members = |last: u8| steer.member_of(std::net::IpAddr::from([10, 0, 0, last]), 2);
        assert_eq!([1, 2, 3, 4, 5].map(members), [0, 0, 0, 1, 1]);
    }
}
