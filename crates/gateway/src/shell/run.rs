//! `weir run`: a gateway from its configuration until it is told to stop.

use std::io::Write;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, bail};
use dataplane::config::Api;
use engine::{Drop, Io};
use port::Wires;

use super::hand_over::{self, Handed, Listeners, Standstill, Taken, Taker};
use super::numa;
use super::ports;
use super::process::{Ended, Opened, Process, StartError};
use super::product::{Gateway, Head, Loaded, Product};
use super::reload::Reloader;
use super::sections::Sections;
use crate::api;
use crate::cli::RunArgs;
use crate::fail::Usage;
use crate::headroom::{self, Certified, OfDrivers};
use crate::host_routing::{HostRouting, host_uris};
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
    if G::is_known_by_socket(config) && path != head.control_socket {
        let (path, own) = (path.display(), head.control_socket.display());
        bail!(
            "--socket {path} (WEIR_SOCKET) is not control_socket = \"{own}\", by which other processes know this one \
             ([moves])"
        );
    }
    log::start(head.log, &args.log, G::LOG_TARGETS)?;
    log::starting(G::NAME, &args.config);
    warn_of_former_names(&loaded.warnings);
    G::warn(config);
    let (running, begin) = match args.take_over {
        true => (take_over::<G>(args, &loaded, path, &stop)?, begin),
        false => match start::<G>(args, &loaded, path, &stop)? {
            Some((running, begun)) => (running, begun.unwrap_or(begin)),
            None => return Ok(()),
        },
    };
    running.run(args, &loaded, path, &stop, begin)
}

/// A gateway that runs, with all that is ended beside it.
struct Running<G: Gateway> {
    privileges: Privileges,
    gateway: G,
    process: Process<G::Product>,
    host: HostRouting,
    vitals: Arc<Vitals>,
    watch: Watch,
    socket: Server,
    metrics: Option<metrics::Server>,
    health: Option<metrics::Server>,
    api: Option<api::Server>,
    json: Option<Box<dyn Write>>,
    headroom: Option<headroom::Watch>,
    nodes: numa::Nodes,
}

/// What a gateway touches by path and port.
fn reach_of<G: Gateway>(args: &RunArgs, loaded: &Loaded<G>, path: &Path) -> (privilege::Reach, Vec<u16>) {
    let head = loaded.config.head();
    let mut reach = G::reach(&loaded.config);
    reach.sockets.push(path.to_owned());
    let http = [head.metrics.map(|at| at.address), head.health.map(|at| at.address), head.api.map(|at| at.address)];
    let tcp: Vec<u16> = http.iter().flatten().map(|address| address.port()).collect();
    let listens = reach.udp.iter().chain(&tcp).copied().collect();
    let reach = privilege::Reach { write: reach.write, sockets: reach.sockets, tcp, config: folders(&args.config) };
    (reach, listens)
}

/// Starts a gateway; none: told to stop before. With when its start began, if it had to wait.
fn start<G: Gateway>(
    args: &RunArgs,
    loaded: &Loaded<G>,
    path: &Path,
    stop: &Stop,
) -> anyhow::Result<Option<(Running<G>, Option<Instant>)>> {
    let (config, head) = (&loaded.config, loaded.config.head());
    let uris = || head.uris();
    let host = host_uris(head.ports.iter());
    let all = ports::of_all(uris(), head.workers.count).chain(host.iter().cloned());
    let certified = certified_of::<G>(loaded)?;
    let mut privileges = Privileges::start(head.process, all, &ports::arena_config(head.frames))?;
    let Some((mut gateway, begun)) = G::begin(loaded, args.standby, stop.flag())? else { return Ok(None) };
    let (reach, listens) = reach_of(args, loaded, path);
    let opened = Opened::new(loaded, G::steer(config), &Wires::default()).map_err(|error| match error {
        StartError::Port(error) => {
            privilege::refused(error, uris().chain(host.iter().map(String::as_str)), listens.into_iter())
        }
        other => other.into(),
    })?;
    gateway.open(loaded)?;
    // While files may be made.
    let json = args.json.is_wanted().then(|| args.json.open()).transpose()?;
    let nodes = nodes_of(&head);
    privileges.give_up(&reach)?;
    // Probes are answered from here on: starting.
    let vitals = Arc::<Vitals>::default();
    let health = head.health.map(|at| watch::serve(at.address, vitals.clone())).transpose()?;
    let process = gateway.start(loaded, opened, vitals.clone())?;
    let begun_with = BegunWith { privileges, gateway, vitals, json, nodes, certified };
    Ok(Some((begun_with.run(path, &head, process, (Listeners::default(), health))?, begun)))
}

/// Goes on for the gateway that answers at the control socket.
fn take_over<G: Gateway>(args: &RunArgs, loaded: &Loaded<G>, path: &Path, stop: &Stop) -> anyhow::Result<Running<G>> {
    let head = loaded.config.head();
    if let Some(port) = head.ports.iter().find(|port| port.host_interface.is_some()) {
        bail!(Usage(format!(
            "--take-over is refused: port \"{}\" has a host_interface, whose routing daemons would lose their sessions; \
             restart the gateway instead",
            port.name
        )));
    }
    let certified = certified_of::<G>(loaded)?;
    // Before the other stands still: what the first worker would measure.
    let _ = table::hint::tsc_cost();
    let mut taker = Taker::connect::<G>(path, &head)?;
    let mut privileges = Privileges::of_helper(head.process, taker.take_helper())?;
    let opened = taker.open(loaded)?;
    let (from, sockets) = taker.take_gateway();
    let mut gateway = G::take_over(loaded, &from, sockets)?;
    let json = args.json.is_wanted().then(|| args.json.open()).transpose()?;
    let nodes = nodes_of(&head);
    privileges.give_up(&reach_of(args, loaded, path).0)?;
    let vitals = Arc::<Vitals>::default();
    let process = gateway.stand(loaded, opened, vitals.clone(), taker.time())?;
    let Taken { process, mut listeners } = taker.take(process, || stop.is_set())?;
    let health = match (head.health, listeners.health.take()) {
        (Some(_), Some(listener)) => Some(watch::go_on(listener, vitals.clone())?),
        (at, _) => at.map(|at| watch::serve(at.address, vitals.clone())).transpose()?,
    };
    BegunWith { privileges, gateway, vitals, json, nodes, certified }.run(path, &head, process, (listeners, health))
}

/// What a gateway has before its workers run.
struct BegunWith<G: Gateway> {
    privileges: Privileges,
    gateway: G,
    vitals: Arc<Vitals>,
    json: Option<Box<dyn Write>>,
    nodes: numa::Nodes,
    certified: Option<(Certified, OfDrivers)>,
}

impl<G: Gateway> BegunWith<G> {
    /// Starts what goes on beside the workers, with listeners that are there, where there are any. Probes are answered already.
    fn run(
        self,
        path: &Path,
        head: &Head<'_>,
        mut process: Process<G::Product>,
        (listeners, health): (Listeners, Option<metrics::Server>),
    ) -> anyhow::Result<Running<G>> {
        let Self { privileges, gateway, vitals, json, nodes, certified } = self;
        let observer = process.observer().clone();
        let host = HostRouting::start(observer.clone(), process.take_host())?;
        let watch = Watch::start(observer.clone())?;
        let socket = match listeners.control {
            Some(listener) => Server::go_on(path, listener, observer.clone())?,
            None => Server::start(path, observer.clone())?,
        };
        let metrics = match (head.metrics, listeners.metrics) {
            (Some(_), Some(listener)) => Some(metrics::go_on(listener, observer.clone())?),
            (at, _) => at.map(|at| metrics::serve(at.address, observer.clone())).transpose()?,
        };
        let api = head.api.map(|api| api_of::<G>(api, listeners.api, &process)).transpose()?;
        let headroom = headroom_of(certified, &process)?;
        Ok(Running {
            privileges,
            gateway,
            process,
            host,
            vitals,
            watch,
            socket,
            metrics,
            health,
            api,
            json,
            headroom,
            nodes,
        })
    }
}

/// NUMA nodes of its ports and of CPUs: before privileges are given up.
fn nodes_of(head: &Head<'_>) -> numa::Nodes {
    numa::Nodes::read(
        Path::new(numa::SYS),
        head.ports.iter().filter(|port| port.on.is_none()).map(|port| (port.name, port.uri)),
    )
}

/// The certificate that a configuration names, and the allowance counters of its interfaces: before privileges are given up.
fn certified_of<G: Gateway>(loaded: &Loaded<G>) -> anyhow::Result<Option<(Certified, OfDrivers)>> {
    let head = loaded.config.head();
    let Some(section) = head.certificate else { return Ok(None) };
    let certified = Certified::read(section, G::NAME, head.workers.count)?;
    Ok(Some((certified, OfDrivers::of(head.uris()))))
}

/// Compares a gateway with its certificate, if it has one.
fn headroom_of<P: Product>(
    certified: Option<(Certified, OfDrivers)>,
    process: &Process<P>,
) -> std::io::Result<Option<headroom::Watch>> {
    let Some((certified, drivers)) = certified else { return Ok(None) };
    let latest = process.shell().headroom().clone();
    headroom::Watch::start(process.observer().clone(), certified, Box::new(drivers), latest).map(Some)
}

/// The API of a gateway, by a listener that is there, if any.
fn api_of<G: Gateway>(
    section: &Api,
    listener: Option<TcpListener>,
    process: &Process<G::Product>,
) -> anyhow::Result<api::Server> {
    let cpus: Vec<usize> = process.shell().workers().iter().filter_map(|worker| worker.cpu).collect();
    let observer = process.observer().clone();
    let shown = api::Shown { views: G::VIEWS, title: G::TITLE, trace: section.trace };
    match listener {
        Some(listener) => Ok(api::go_on(listener, shown, observer, &cpus)?),
        None => api::serve(section.address, shown, observer, &cpus),
    }
}

impl<G: Gateway> Running<G> {
    /// Turns control until the gateway is told to stop, or another process has taken over.
    fn run(
        mut self,
        args: &RunArgs,
        loaded: &Loaded<G>,
        path: &Path,
        stop: &Stop,
        begin: Instant,
    ) -> anyhow::Result<()> {
        let config = &loaded.config;
        self.gateway.started(config, &self.process)?;
        self.report_open(&config.head());
        self.privileges.seal()?;
        self.vitals.run();
        self.gateway.ready(config, &self.process, begin.elapsed(), path);
        self.privileges.ready();
        let reload = Reloader::<G>::new(args, loaded, Arc::downgrade(self.process.observer()))?;
        self.process.shell().set_reload(Box::new(reload));
        let listeners = self.listeners()?;
        while !self.is_over(stop) && !self.privileges.is_helper_gone() {
            self.process.turn();
            if let Some(handed) = hand_over::hand_over(&mut self.process, &listeners) {
                // Nothing is undone: it is the other process's.
                port::set_borrowed(true);
                self.privileges.handed_over(handed.pid);
                // Where it can't be written, this process ends all the same: the other one is the gateway.
                if let Err(error) = handed_over(&handed, self.json) {
                    tracing::warn!(target: "process", event = "counters_not_written", %error);
                }
                log::flush();
                std::process::exit(0);
            }
            if stop.take_hangup() {
                // The result is an event.
                let _ = self.process.shell().reload().map(|reload| reload.reload(false));
            }
            if self.process.rest(&self.privileges.wakes(stop)) {
                self.privileges.look();
            }
        }
        log::stopping(self.process.broken());
        self.vitals.stop();
        let Self { privileges, gateway, process, host, watch, socket, metrics, health, api, json, headroom, .. } = self;
        // Routers are told first that nothing is to come here any more.
        drop((host, headroom));
        // A process that takes over binds to the same addresses.
        drop((watch, socket, metrics, health, api, listeners));
        privileges.ended(end(&gateway.end(process), json, args.json.is_on_stdout()))
    }

    fn is_over(&self, stop: &Stop) -> bool {
        stop.is_set() || self.process.observer().is_leaving() || self.process.broken().is_some()
    }

    /// What it listens at, for a process that takes over.
    fn listeners(&self) -> anyhow::Result<Listeners> {
        let of = |server: &Option<metrics::Server>| server.as_ref().map(metrics::Server::listener).transpose();
        let control = Some(self.socket.listener()?);
        let api = self.api.as_ref().map(api::Server::listener).transpose()?;
        Ok(Listeners { control, metrics: of(&self.metrics)?, health: of(&self.health)?, api })
    }

    fn report_open(&self, head: &Head<'_>) {
        for port in self.process.shell().ports().iter().filter(|port| port.worker == 0) {
            let entry = head.ports.iter().find(|entry| entry.name == port.name);
            log::port_open(port, &entry.map(|entry| entry.addresses.join(" ")).unwrap_or_default());
        }
        for port in self.process.shell().ports() {
            if let Some(cpu) =
                self.process.shell().workers().get(usize::from(port.worker)).and_then(|worker| worker.cpu)
            {
                self.nodes.report(&port.name, usize::from(port.worker), cpu);
            }
        }
        if let Some(metrics) = &self.metrics {
            log::listening("metrics", metrics.address());
        }
        if let Some(health) = &self.health {
            log::listening("probes", health.address());
        }
        if let Some(api) = &self.api {
            log::listening("api", api.address());
        }
    }
}

/// Reports that another process goes on, with the last counters of this one.
fn handed_over(handed: &Handed, json: Option<Box<dyn Write>>) -> anyhow::Result<()> {
    let Handed { pid, frozen_ns, parts, last } = handed;
    let Standstill { stop, settle, export, load, run, control, import } = *parts;
    let [stop_us, settle_us, export_us, load_us, run_us, control_us] =
        [stop, settle, export, load, run, control].map(|ns| ns / 1000);
    let [import_us, import_cpu_us] = import.map(|ns| ns / 1000);
    let (received, sent) = (last.io(Io::RxPackets), last.io(Io::TxPackets));
    let dropped: u64 = last.workers.iter().map(|worker| worker.dropped()).sum();
    let missing: i64 = last.workers.iter().map(|worker| worker.missing).sum();
    let frozen_us = frozen_ns / 1000;
    tracing::info!(
        target: "process", event = "take_over_done",
        pid, frozen_us, stop_us, settle_us, export_us, load_us, import_us, import_cpu_us, run_us, control_us,
        received, sent, dropped, packets_missing = missing,
        "handed over to process {pid}; no worker ran for {frozen_us} µs"
    );
    if let Some(mut out) = json {
        writeln!(out, "{}", serde_json::to_string(last)?)?;
    }
    Ok(())
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
    let punted: u64 = last.workers.iter().flat_map(|worker| &worker.punted).map(|punt| punt.packets).sum();
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
        count(punted)
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
