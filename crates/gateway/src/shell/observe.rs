//! The reading ends of a running gateway: what `weir show`, `weir trace` and monitoring see of every one. Counters are read
//! where they lie; ports show themselves when asked. Workers notice none of it.

use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use engine::{Io, PortId, StatsView, Time, TracerHandle, Tsc, WallClock};
use frame::Arena;
use table::hint::tsc_hz;
use table::waker::Waker;
use wire::Mac;

use super::addresses::{self, Addresses};
use super::followed::Followed;
use super::hand_over::{self, Pending};
use super::port_stats::{PortStatsReader, Seen};
use super::product::Product;
use super::reload::Reload;
use super::rest::{AGAIN, ControlWaker, Wait, until};
use crate::connected::{self, ConnectedPage, ConnectedRequest};
use crate::headroom::Latest;
use crate::host_routing;
use crate::metrics::{Known, Monitored};
use crate::snapshot::{FrameMemory, Snapshot, WorkerCounters};
use crate::socket::{Answers, Ask, DrainView, PortView, RawAnswer, RawRequest, Reply, Request, TAKE_OVER, TraceView};
use crate::watch::{Level, Sight, Vitals, Watchable, asleep_until};

/// The reading ends of one worker.
pub struct WorkerEnds {
    /// The CPU it is pinned to.
    pub cpu: Option<usize>,
    /// Counters of its stages, drops and turns, readable while it runs.
    pub stats: StatsView,
    /// Starts and reads traces of packets that it follows.
    pub tracer: TracerHandle,
    /// Readers of its ports' counters, in the order of the configuration.
    pub port_stats: Vec<PortStatsReader>,
    /// Its thread, as the kernel numbers them; 0 before it has begun.
    pub thread: Arc<AtomicI32>,
    /// Ends the worker's sleep: after a command or a request was put where it looks in its next turn.
    pub waker: Option<Waker>,
}

impl WorkerEnds {
    /// Asks for a fresh look at its ports. Does not wait.
    fn ask_ports(&self) {
        self.port_stats.iter().for_each(PortStatsReader::ask);
        self.nudge();
    }

    /// Ends the worker's sleep if it sleeps.
    pub fn nudge(&self) {
        self.waker.as_ref().inspect(|waker| waker.nudge());
    }

    /// Ends the worker's sleep in any case.
    pub fn wake(&self) {
        self.waker.as_ref().inspect(|waker| waker.wake());
    }
}

/// What the configuration calls a port.
#[derive(Clone, Debug)]
pub struct PortName {
    /// `[[port]] name`.
    pub name: String,
    /// `[[port]] uri`, or `on n3`.
    pub uri: String,
    /// It shares another port's device.
    pub is_logical: bool,
    /// Its side of the gateway.
    pub role: &'static str,
}

/// The reading ends of a process.
pub struct Shell {
    gateway: &'static str,
    title: &'static str,
    ports: Vec<PortName>,
    workers: Vec<WorkerEnds>,
    arena: Arc<Arena>,
    time: Time,
    /// Wall clock at the time's nanosecond 0.
    epoch_ns: u64,
    start_ns: u64,
    followed: Followed,
    vitals: Arc<Vitals>,
    addresses: Addresses,
    /// Threads that wait for what control has locked.
    waiting: AtomicUsize,
    waker: ControlWaker,
    /// A process that takes over.
    handing: Pending,
    /// The configuration in use; none in a gateway that was not started from a file.
    reload: OnceLock<Box<dyn Reload>>,
    /// The gateway beside its capacity certificate, as it was last seen.
    headroom: Latest,
    /// What was exchanged with routing daemons of the host.
    host: host_routing::Shared,
}

/// The workers' time beside the calendar's, now.
pub fn wall_clock(time: &Time) -> WallClock {
    let now = time.now_ns(<Tsc as engine::Clock>::cycles());
    let wall = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_nanos() as u64);
    WallClock { now, epoch_ns: wall.saturating_sub(now) }
}

impl Shell {
    /// Packet memory of all workers.
    pub fn arena(&self) -> &Arc<Arena> {
        &self.arena
    }

    /// Over those ends; the workers' clock is `time`, and `waker` calls the control thread.
    pub fn new(
        (gateway, title): (&'static str, &'static str),
        ports: Vec<PortName>,
        workers: Vec<WorkerEnds>,
        arena: Arc<Arena>,
        time: Time,
        waker: ControlWaker,
        vitals: Arc<Vitals>,
    ) -> Self {
        let WallClock { now: start_ns, epoch_ns } = wall_clock(&time);
        let followed = Followed::new(workers.iter().map(|worker| worker.tracer.clone()).collect(), epoch_ns);
        let (addresses, waiting) = (Addresses::default(), AtomicUsize::new(0));
        Self {
            gateway,
            title,
            ports,
            workers,
            arena,
            time,
            epoch_ns,
            start_ns,
            followed,
            vitals,
            addresses,
            waiting,
            waker,
            handing: Pending::default(),
            reload: OnceLock::new(),
            headroom: Latest::default(),
            host: host_routing::Shared::default(),
        }
    }

    /// What the gateway is called.
    pub(super) fn gateway(&self) -> &'static str {
        self.gateway
    }

    /// What it is, in words, with an article.
    pub(super) fn title(&self) -> &'static str {
        self.title
    }

    /// The ports as configured.
    pub(super) fn port_names(&self) -> &[PortName] {
        &self.ports
    }

    /// A process that takes over, if there is one.
    pub(super) fn handing(&self) -> &Pending {
        &self.handing
    }

    /// Where the gateway beside its capacity certificate is seen.
    pub(super) fn headroom(&self) -> &Latest {
        &self.headroom
    }

    /// What was exchanged with routing daemons of the host.
    pub(crate) fn host(&self) -> &host_routing::Shared {
        &self.host
    }

    /// The workers' clock.
    pub fn time(&self) -> &Time {
        &self.time
    }

    /// The workers' time, now.
    pub fn now_ns(&self) -> u64 {
        self.time.now_ns(<Tsc as engine::Clock>::cycles())
    }

    /// The workers' time beside the calendar's.
    pub fn wall_clock(&self) -> WallClock {
        WallClock { now: self.now_ns(), epoch_ns: self.epoch_ns }
    }

    /// Seconds since the start.
    pub fn seconds(&self) -> f64 {
        self.now_ns().saturating_sub(self.start_ns) as f64 / 1e9
    }

    /// Calls the control thread: after something was changed for it.
    pub fn call_control(&self) {
        self.waker.call();
    }

    /// Lets the configuration be read again by `reload`.
    pub(crate) fn set_reload(&self, reload: Box<dyn Reload>) {
        let _ = self.reload.set(reload);
    }

    /// The configuration in use, if it can be read again.
    ///
    /// # Errors
    /// It was not started from a file; a sentence.
    pub fn reload(&self) -> Result<&dyn Reload, String> {
        let reload = self.reload.get().ok_or("this gateway is still starting, or was not started from a file")?;
        Ok(reload.as_ref())
    }

    /// The workers' reading ends.
    pub fn workers(&self) -> &[WorkerEnds] {
        &self.workers
    }

    /// What probes are answered from.
    pub fn vitals(&self) -> &Arc<Vitals> {
        &self.vitals
    }

    /// What control has locked, for a moment.
    pub fn lock<'a, T>(&self, mutex: &'a Mutex<T>) -> MutexGuard<'a, T> {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let guard = mutex.lock().unwrap_or_else(|e| e.into_inner());
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        guard
    }

    /// Lets threads that wait for a lock of control have it: one that takes it again and again, as in a flood, would be
    /// there first each time.
    pub(crate) fn let_others_in(&self) {
        if self.waiting.load(Ordering::Relaxed) > 0 {
            std::thread::sleep(Duration::from_micros(50));
        }
    }

    /// All counters.
    pub fn snapshot(&self) -> Snapshot {
        let uptime = self.seconds();
        let workers = self.workers.iter().enumerate();
        Snapshot {
            gateway: self.gateway.to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            uptime,
            seconds: uptime,
            tsc_hz: tsc_hz() as f64,
            workers: workers.map(|(n, ends)| WorkerCounters::of(n as u16, ends.cpu, &ends.stats)).collect(),
            kernel: None,
            frames: memory(&self.arena),
            headroom: self.headroom.lock().map_or(None, |view| view.clone().map(Box::new)),
        }
    }

    /// The ports of all workers, freshly looked at.
    pub fn ports(&self) -> Vec<PortView> {
        self.ask_ports();
        let views = self.port_views(PortStatsReader::look);
        // Interfaces may have other hardware addresses.
        self.waker.call();
        views
    }

    fn ask_ports(&self) {
        self.workers.iter().for_each(WorkerEnds::ask_ports);
    }

    /// The ports of all workers, as `see` sees them.
    fn port_views(&self, see: impl Fn(&PortStatsReader) -> Seen) -> Vec<PortView> {
        let of_worker = |(worker, ends): (usize, &WorkerEnds)| {
            let view = |(port, reader): (&PortName, &PortStatsReader)| port_view(port, worker as u16, &see(reader));
            self.ports.iter().zip(&ends.port_stats).map(view).collect::<Vec<_>>()
        };
        self.workers.iter().enumerate().flat_map(of_worker).collect()
    }

    /// The workers' threads, once all have begun.
    pub fn threads(&self) -> Option<Vec<i32>> {
        let thread = |ends: &WorkerEnds| Some(ends.thread.load(Ordering::Acquire)).filter(|thread| *thread != 0);
        self.workers.iter().map(thread).collect()
    }

    /// Turns that each worker has made. One that sleeps is woken, so that it makes one before it is asked again.
    pub fn turns(&self) -> Vec<u64> {
        self.workers.iter().for_each(|ends| ends.nudge());
        self.workers.iter().map(|ends| ends.stats.io(Io::Turns)).collect()
    }

    /// Gives `set` the hardware addresses that interfaces have now. Called every turn of control.
    pub(crate) fn follow_addresses(&self, set: impl Fn(PortId, Mac) -> bool) {
        let Some(first) = self.workers.first() else { return };
        for (port, mac) in self.addresses.look(&first.port_stats, self.now_ns()) {
            if set(port, mac) {
                addresses::report(self.ports.get(usize::from(port)).map_or("", |port| &port.name), mac);
            }
        }
    }

    /// How long the control thread has nothing to do whose last turn began `since` ago and took events of workers, or did
    /// not; `has_news`: a worker has said something since; `deadlines`: what is due, in nanoseconds of the workers' time.
    pub fn wait(&self, since: Duration, took_events: bool, has_news: bool, deadlines: [Option<u64>; 2]) -> Wait {
        // Events of workers are taken together.
        if took_events && since < AGAIN {
            return Wait::Short(AGAIN - since);
        }
        if self.waker.is_called() || has_news {
            return Wait::No;
        }
        let deadlines = deadlines.into_iter().chain([self.addresses.next_deadline()]);
        Wait::Long(until(deadlines.flatten().min(), self.now_ns()))
    }

    /// How full packet memory is.
    fn packet_buffers(&self) -> Level {
        let capacity = u64::from(self.arena.shape().slots);
        let free: u64 = self.workers.iter().map(|ends| ends.stats.io(Io::FreeSlots)).sum();
        let used = capacity.saturating_sub(free + self.arena.in_depot() as u64);
        Level { pool: "packet_buffers".to_owned(), used, capacity }
    }
}

impl<P: Product> Monitored for P {
    fn snapshot(&self) -> Snapshot {
        Snapshot { kernel: self.kernel_counters(), ..self.shell().snapshot() }
    }

    fn known(&self) -> Known {
        let (own, ports) = (Product::known(self), self.shell().ports());
        let draining = self.shell().vitals.is_draining();
        // Last: whoever asks notes the time when it is there.
        Known { ports, draining, snapshot: Monitored::snapshot(self), ..own }
    }

    fn vitals(&self) -> &Arc<Vitals> {
        &self.shell().vitals
    }
}

impl<P: Product> Watchable for P {
    fn vitals(&self) -> &Arc<Vitals> {
        &self.shell().vitals
    }

    fn turns(&self) -> Vec<Sight> {
        let sight = |ends: &WorkerEnds| Sight {
            turns: ends.stats.io(Io::Turns),
            thread: ends.thread.load(Ordering::Acquire),
            asleep_until: asleep_until(&ends.stats),
        };
        self.shell().workers.iter().map(sight).collect()
    }

    fn now_ns(&self) -> u64 {
        self.shell().now_ns()
    }

    fn ask_ports(&self) {
        self.shell().ask_ports();
    }

    fn seen_ports(&self) -> Vec<PortView> {
        self.shell().port_views(PortStatsReader::seen)
    }

    fn levels(&self) -> Vec<Level> {
        let mut levels = Product::levels(self);
        levels.push(self.shell().packet_buffers());
        levels
    }

    fn sessions(&self) -> Option<u64> {
        Product::sessions(self)
    }

    fn hindrances(&self) -> Vec<String> {
        Product::hindrances(self)
    }
}

impl<P: Product> Answers for P {
    fn answer(&self, connection: u64, asked: &RawRequest) -> RawAnswer {
        let common = Request::answered(asked, |request| common(self, connection, request));
        common.or_else(|| Product::answer(self, asked)).unwrap_or_else(|| {
            Err(format!("this gateway is {}: it has no request \"{}\"", self.shell().title, asked.name))
        })
    }

    fn hung_up(&self, connection: u64) {
        self.shell().followed.hung_up(connection);
    }

    fn take_connection(&self, asked: &RawRequest, stream: UnixStream) {
        match asked.name.as_str() {
            TAKE_OVER => hand_over::serve(self, stream, asked),
            _ => Product::connected_to(self, asked, stream),
        }
    }
}

/// The answer to what every gateway is asked.
fn common(product: &impl Product, connection: u64, request: Request) -> Result<Reply, String> {
    let shell = product.shell();
    match request {
        Request::Counters => Ok(Reply::Counters(Monitored::snapshot(product))),
        Request::Ports => Ok(Reply::Ports(shell.ports())),
        Request::Trace { ue, packets } => {
            let view = shell.followed.start(connection, ue, packets)?;
            Ok(Reply::Trace(TraceView { rules: product.rules(ue), ..view }))
        }
        Request::Traced => Ok(Reply::Trace(shell.followed.take(&shell.ports))),
        Request::Connected(request) => connected_page(product, &request).map(Reply::Connected),
        Request::Log(request) => crate::log::answer(&request).map(Reply::Log),
        Request::Reload { check } => shell.reload()?.reload(check).map(Reply::Reload),
        Request::Config => Ok(Reply::Config(shell.reload()?.running())),
        Request::Process => crate::privilege::answer().map(Reply::Process),
        Request::Routes => Ok(Reply::Routes(host_routing::answer(product))),
        Request::Drain { on, seconds } => drain(product, on, seconds).map(Reply::Drain),
    }
}

/// Sessions, devices or subscribers.
pub(crate) fn connected_page(product: &impl Product, request: &ConnectedRequest) -> Result<ConnectedPage, String> {
    let connected = product.connected();
    let none = || format!("this gateway is {}: it has no subscribers", product.shell().title);
    connected::answer(connected.ok_or_else(none)?, request)
}

/// Takes no new sessions from now on, or takes them again.
fn drain(product: &impl Product, on: bool, seconds: u32) -> Result<DrainView, String> {
    if !product.can_drain() {
        return Err(format!("this gateway is {}: it has no sessions that could be drained", product.shell().title));
    }
    // First: probes fail also while sessions are not counted.
    let is_change = product.shell().vitals.drain(on);
    let sessions = product.drain(on, Duration::from_secs(seconds.into()))?;
    match on {
        _ if !is_change => {}
        true => tracing::info!(
            target: "process", event = "drain_begin", sessions, grace_seconds = seconds, "no new sessions are taken"
        ),
        false => tracing::info!(target: "process", event = "drain_end", sessions, "new sessions are taken again"),
    }
    Ok(DrainView { draining: on, sessions })
}

/// A worker's port as it was seen.
fn port_view(port: &PortName, worker: u16, seen: &Seen) -> PortView {
    let named = seen.counters.named();
    let counters = named.iter().chain(&seen.extras).map(|(name, value)| ((*name).to_owned(), *value));
    PortView {
        name: port.name.clone(),
        worker,
        role: port.role.to_owned(),
        kind: seen.caps.kind.to_owned(),
        interface: seen.caps.name.clone(),
        detail: seen.caps.detail.clone(),
        mac: seen.caps.mac.map(|byte| format!("{byte:02x}")).join(":"),
        mtu: seen.caps.mtu,
        link: seen.caps.link.as_str().to_owned(),
        held: seen.held as u64,
        counters: counters.collect(),
    }
}

/// Packet memory as it stands.
fn memory(arena: &Arena) -> FrameMemory {
    let shape = arena.shape();
    FrameMemory {
        slots: shape.slots.into(),
        slot_bytes: shape.slot_bytes.into(),
        headroom: shape.headroom.into(),
        bytes: arena.bytes_len() as u64,
        pages: arena.backing().as_str().to_owned(),
        depot: arena.in_depot() as u64,
    }
}
