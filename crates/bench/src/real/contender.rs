//! What is measured: the gateway, a bare forwarder of its port mode, or a peer, each a process in a lab of its own.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use traffic::Plan;

use super::child::Child;
use super::configuration;
use super::control::ControlPlane;
use super::counters::Bursts;
use super::cpu::Threads;
use super::options::{RealOptions, RealPort};
use super::place::{Napi, Place};
use super::report::Setup;
use super::rules::Rules;
use super::sink::Sink;
use super::traffic::{Of, all_sessions, plan, profile};
use crate::blast::Blast;
use crate::error::BenchError;
use crate::lab::{Lab, Shape, Side, exec};

/// MTU of the links, in bytes: a packet of 1500 bytes and a GTP-U tunnel fit.
const MTU: u16 = 1600;
/// A process that is not ready by then counts as failed.
const TO_START: Duration = Duration::from_secs(30);

/// Kinds of contenders.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// The gateway: `weir run`.
    Weir,
    /// Two ports of the same mode and nothing between.
    Bare,
    /// eUPF, an eBPF user plane.
    Peer,
    /// The gateway with `fast_path = "auto"`: known sessions are forwarded in the kernel.
    Auto,
    /// The same with some sessions whose rules keep them in user space.
    Mix,
}

impl Kind {
    /// The word for it in results.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Weir | Self::Auto | Self::Mix => "weir",
            Self::Bare => "bare",
            Self::Peer => "eupf",
        }
    }

    /// What progress and errors call it: with its path where that is not the first one.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Auto => "weir (auto)",
            Self::Mix => "weir (mix)",
            Self::Weir | Self::Bare | Self::Peer => self.name(),
        }
    }

    /// Mode of its ports, as results name it: a peer has its own.
    pub const fn port(self, port: RealPort) -> &'static str {
        if matches!(self, Self::Peer) { "xdp-native" } else { port.word() }
    }

    /// Whether it is the gateway.
    pub const fn is_gateway(self) -> bool {
        matches!(self, Self::Weir | Self::Auto | Self::Mix)
    }

    /// Where its packets are processed.
    pub const fn path(self) -> &'static str {
        match self {
            Self::Peer => "kernel",
            Self::Auto => "auto",
            Self::Mix => "mix",
            Self::Weir | Self::Bare => "user",
        }
    }
}

/// Processes whose time is a contender's cost, by their numbers.
#[derive(Clone, Debug, Default)]
pub struct Charged {
    /// The process and its descendants.
    pub process: Vec<u32>,
    /// NAPI threads of its interfaces.
    pub napi: Vec<u32>,
}

/// A process on links of its own, with its load and its sink. Fields are dropped in this order: the process first, the
/// namespaces last.
pub struct Contender {
    pub kind: Kind,
    pub child: Child,
    pub sink: Sink,
    /// The packets of the cells.
    pub plan: Arc<Plan>,
    /// The load of the cells.
    pub blast: Arc<Blast>,
    /// Its control plane; the bare forwarder has none.
    pub control: Option<ControlPlane>,
    /// How fast its sessions came up.
    pub setup: Option<Setup>,
    /// Number of its links, which is in their names.
    pub link: usize,
    pub lab: Lab,
    napi: Napi,
    socket: PathBuf,
}

impl Contender {
    /// Starts a contender and brings up its sessions.
    ///
    /// # Errors
    /// What did not start, or refused a session.
    pub fn start(
        kind: Kind,
        port: RealPort,
        options: &RealOptions,
        place: &Place,
        folder: &Path,
        stop: &AtomicBool,
    ) -> Result<Self, BenchError> {
        let link = kind as usize;
        let traffic = profile(options, options.flow);
        let lab = Lab::new(Shape { mtu: MTU, queues: 1 })?;
        lab.links(link, [traffic.access.gateway, traffic.core.gateway])?;
        if port != RealPort::Xdp && kind != Kind::Peer {
            lab.receive_live(link)?;
        }
        exec(lab.gateway(), "ip", &["link", "set", "lo", "up"])?;
        let interfaces = Side::BOTH.map(|side| side.gateway(link));
        let socket = folder.join("weir.sock");
        let words = words(kind, port, options, place, folder, &socket, &interfaces, &lab)?;
        let mut child = Child::start(kind.name(), lab.gateway(), &words, place, folder)?;
        if kind != Kind::Peer {
            child.wait_for("ready", TO_START)?;
        }
        child.settle();
        let control = match kind {
            Kind::Bare => None,
            _ => Some(sessions((kind, port), &lab, options, &child, stop).map_err(|error| explain(error, &child))?),
        };
        let (control, setup) = control.unzip();
        child.settle();
        let sink = Sink::attach(&lab, link)?;
        let plan = plan(options, Of::Cells, options.flow)?;
        let blast = Arc::new(Blast::stamped(&lab, link, &plan)?);
        let napi = Napi::default();
        let mut contender = Self { kind, child, sink, plan, blast, control, setup, link, lab, napi, socket };
        contender.prepare(place)?;
        Ok(contender)
    }

    /// Before a trial: answers what its user plane has asked, and sees to it that NAPI threads are where they belong.
    ///
    /// # Errors
    /// The process has ended.
    pub fn prepare(&mut self, place: &Place) -> Result<(), BenchError> {
        if self.child.has_ended() {
            return Err(self.child.complaint("ended by itself"));
        }
        if let Some(control) = &mut self.control {
            control.serve();
        }
        place.pin_napi(&self.lab, self.link, &mut self.napi)
    }

    /// Processes and threads whose CPU time is charged to it.
    pub fn charged(&self) -> Charged {
        Charged { process: self.child.pids().to_vec(), napi: self.napi.near.iter().copied().collect() }
    }

    /// Its bursts so far, if it counts them.
    pub fn bursts(&mut self) -> Option<Bursts> {
        match self.kind {
            // Of those packets that workers receive.
            Kind::Weir | Kind::Auto | Kind::Mix => Bursts::of_gateway(&self.socket),
            Kind::Bare => self.child.ask("counters").and_then(|line| serde_json::from_str(&line).ok()),
            Kind::Peer => None,
        }
    }
}

/// The command line, and what must be there before it runs.
#[allow(clippy::too_many_arguments, reason = "each is one thing, once")]
fn words(
    kind: Kind,
    port: RealPort,
    options: &RealOptions,
    place: &Place,
    folder: &Path,
    socket: &Path,
    interfaces: &[String; 2],
    lab: &Lab,
) -> Result<Vec<OsString>, BenchError> {
    let write = |name: &str, text: String| {
        let path = folder.join(name);
        std::fs::write(&path, text).map_err(|e| BenchError::system(format!("writing {}", path.display()), e))?;
        Ok::<_, BenchError>(path.into_os_string())
    };
    let uris = interfaces.each_ref().map(|name| port.uri(name));
    Ok(match kind {
        Kind::Weir | Kind::Auto | Kind::Mix => {
            let text = configuration::weir(options, &uris, kind != Kind::Weir, place.gateway, socket);
            let file = write("weir.toml", text)?;
            let binary = options.gateway.as_ref().unwrap_or(&options.weir);
            vec![binary.into(), "run".into(), file]
        }
        Kind::Bare => {
            let [n3, n6] = uris;
            let sets = [format!("n3={n3}"), format!("n6={n6}")];
            let words = ["bench", "forward", "--set", &sets[0], "--set", &sets[1]];
            std::iter::once(options.weir.clone().into()).chain(words.into_iter().map(Into::into)).collect()
        }
        Kind::Peer => {
            let binary = options.peer.clone().ok_or_else(|| BenchError::Asked("no --peer given".into()))?;
            configuration::host(lab.gateway(), interfaces, options)?;
            let file = write("eupf.yml", configuration::eupf(options, interfaces))?;
            // A namespace entered by `ip netns exec` has a /sys of its own, without bpffs.
            let script = "mount -t bpf bpf /sys/fs/bpf && exec \"$0\" --config \"$1\"";
            vec!["sh".into(), "-c".into(), script.into(), binary.into(), file]
        }
    })
}

/// Associates and brings up all sessions.
fn sessions(
    (kind, port): (Kind, RealPort),
    lab: &Lab,
    options: &RealOptions,
    child: &Child,
    stop: &AtomicBool,
) -> Result<(ControlPlane, Setup), BenchError> {
    let traffic = profile(options, options.flow);
    let mut control = ControlPlane::associate(lab.gateway(), stop)?;
    let user_space_every = options.user_space_every.filter(|_| kind == Kind::Mix);
    let rules = Rules { sessions: options.sessions, sdf: options.sdf, user_space_every };
    let (address, sessions) = (super::control::SMF.into(), all_sessions(options.sessions));
    let (begun, before) = (Instant::now(), Threads::now(child.pids()));
    control.establish(0..sessions, stop, |ue| rules.establish(ue, &traffic, address))?;
    let (seconds, cpu) = (begun.elapsed().as_secs_f64(), Threads::now(child.pids()).since(&before));
    let setup = Setup {
        contender: kind.name(),
        path: kind.path(),
        port: kind.port(port),
        sessions,
        sessions_per_second: f64::from(sessions) / seconds,
        cpu_us_per_session: cpu.run_ns as f64 / 1e3 / f64::from(sessions),
    };
    Ok((control, setup))
}

/// Adds the process's last words to an error of its control plane.
fn explain(error: BenchError, child: &Child) -> BenchError {
    if matches!(error, BenchError::Interrupted) { error } else { child.complaint(&error.to_string()) }
}
