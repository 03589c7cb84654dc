//! The reading ends of a running gateway: what `weir show` and `weir trace` see. Counters are read where they lie;
//! sessions are asked for by ring; ports show themselves when asked. Workers notice none of it.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicI32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use engine::{Io, StatsView, Time, TracerHandle, Tsc};
use frame::Arena;
use pfcp::node::{Association, AssociationId, State};
use table::hint::tsc_hz;
use table::waker::Waker;
use upf::config::{Config, Role};
use upf::control::{Control, ControlCounters};
use upf::n4::metering::WallClock;

use crate::addresses::{self, Addresses};
use crate::asked::{Answer, Asker, Question};
use crate::cdr::{self, Kept};
use crate::followed::Followed;
use crate::metrics::{Known, Monitored};
use crate::n4::N4;
use crate::rest::ControlWaker;
use crate::snapshot::{DropCounters, FrameMemory, PuntCounters, Snapshot, StageCounters, WorkerCounters};
use crate::socket::{Answers, DrainView, PeerView, PeersView, PortView, Reply, Request, SessionsView, WorkerSessions};
use crate::watch::{Level, Vitals};
use crate::watched::{Glass, Seen};

/// The reading ends of one worker.
pub struct WorkerEnds {
    /// The CPU it is pinned to.
    pub cpu: Option<usize>,
    /// Its counters.
    pub stats: StatsView,
    /// Its trace.
    pub tracer: TracerHandle,
    /// Its sessions.
    pub asker: Asker,
    /// Its ports.
    pub glasses: Vec<Glass>,
    /// Its thread, as the kernel numbers them; 0 before it has begun.
    pub thread: Arc<AtomicI32>,
    /// Wakes it.
    pub waker: Waker,
}

impl WorkerEnds {
    /// Asks for a fresh look at its ports. Does not wait.
    pub fn ask_ports(&self) {
        self.glasses.iter().for_each(Glass::ask);
        self.waker.nudge();
    }
}

/// The reading ends of a process.
pub struct Observer {
    pub(crate) config: Config,
    pub(crate) workers: Vec<WorkerEnds>,
    pub(crate) control: Arc<Mutex<Control>>,
    pub(crate) arena: Arc<Arena>,
    time: Time,
    /// Wall clock at the time's nanosecond 0.
    epoch_ns: u64,
    /// The end of N4, once it is there.
    pub(crate) n4: OnceLock<Mutex<N4>>,
    start_ns: u64,
    /// The ledger it keeps, if any: put here by whoever opens it.
    pub ledger: OnceLock<Kept>,
    followed: Followed,
    vitals: OnceLock<Arc<Vitals>>,
    /// How full N4's pools are and how many sessions it has, as control saw it last, and when it looks again.
    pub(crate) levels: Mutex<(Vec<Level>, Option<u64>)>,
    pub(crate) next_levels: AtomicU64,
    addresses: Addresses,
    /// Threads that wait for the end of N4 or for control.
    waiting: AtomicUsize,
    waker: ControlWaker,
}

/// The workers' time beside the calendar's, now.
pub fn wall_clock(time: &Time) -> WallClock {
    let now = time.now_ns(<Tsc as engine::Clock>::cycles());
    let wall = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_nanos() as u64);
    WallClock { now, epoch_ns: wall.saturating_sub(now) }
}

impl Observer {
    /// Over those ends; the workers' clock is `time`, and `waker` calls the control thread.
    pub fn new(
        config: &Config,
        workers: Vec<WorkerEnds>,
        control: Arc<Mutex<Control>>,
        arena: Arc<Arena>,
        time: Time,
        waker: ControlWaker,
    ) -> Self {
        let WallClock { now, epoch_ns } = wall_clock(&time);
        let config = config.clone();
        let followed = Followed::new(workers.iter().map(|worker| worker.tracer.clone()).collect(), epoch_ns);
        Self {
            config,
            workers,
            control,
            arena,
            time,
            epoch_ns,
            n4: OnceLock::new(),
            start_ns: now,
            ledger: OnceLock::new(),
            followed,
            vitals: OnceLock::new(),
            levels: Mutex::default(),
            next_levels: AtomicU64::new(0),
            addresses: Addresses::default(),
            waiting: AtomicUsize::new(0),
            waker,
        }
    }

    /// The workers' time beside the calendar's.
    pub fn wall_clock(&self) -> WallClock {
        WallClock { now: self.now_ns(), epoch_ns: self.epoch_ns }
    }

    /// The end of N4 for a moment, if control planes are configured. Taken before [`control`](Self::control).
    pub fn n4(&self) -> Option<MutexGuard<'_, N4>> {
        self.n4.get().map(|n4| self.lock(n4))
    }

    fn lock<'a, T>(&self, mutex: &'a Mutex<T>) -> MutexGuard<'a, T> {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let guard = mutex.lock().unwrap_or_else(|e| e.into_inner());
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        guard
    }

    /// Lets threads that wait for the end of N4 or for control have it: one that takes it again and again, as in a flood,
    /// would be there first each time.
    pub fn let_others_in(&self) {
        if self.waiting.load(Ordering::Relaxed) > 0 {
            std::thread::sleep(Duration::from_micros(50));
        }
    }

    /// The workers' time, now.
    pub fn now_ns(&self) -> u64 {
        self.time.now_ns(<Tsc as engine::Clock>::cycles())
    }

    /// Control, for a moment.
    pub fn control(&self) -> MutexGuard<'_, Control> {
        self.lock(&self.control)
    }

    /// All counters.
    pub fn snapshot(&self) -> Snapshot {
        let uptime = self.now_ns().saturating_sub(self.start_ns) as f64 / 1e9;
        Snapshot {
            gateway: self.config.gateway.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            uptime,
            seconds: uptime,
            tsc_hz: tsc_hz() as f64,
            workers: self
                .workers
                .iter()
                .enumerate()
                .map(|(n, ends)| counters(n as u16, ends.cpu, &ends.stats))
                .collect(),
            frames: memory(&self.arena),
        }
    }

    /// The ports of all workers, freshly looked at.
    pub fn ports(&self) -> Vec<PortView> {
        self.workers.iter().for_each(WorkerEnds::ask_ports);
        let views = self.port_views(Glass::look);
        // Interfaces may have other hardware addresses.
        self.waker.call();
        views
    }

    /// The ports of all workers, as `see` sees them.
    pub(crate) fn port_views(&self, see: impl Fn(&Glass) -> Seen) -> Vec<PortView> {
        let of_worker = |(worker, ends): (usize, &WorkerEnds)| {
            let view = |(n, glass): (usize, &Glass)| self.port(worker as u16, n, &see(glass));
            ends.glasses.iter().enumerate().map(view).collect::<Vec<_>>()
        };
        self.workers.iter().enumerate().flat_map(of_worker).collect()
    }

    /// When [`follow_addresses`](Self::follow_addresses) has something to look at, if a second from now is too late.
    pub fn next_address(&self) -> Option<u64> {
        self.addresses.next_deadline()
    }

    /// Takes on hardware addresses that interfaces have now. Called every turn of control.
    pub fn follow_addresses(&self) {
        let Some(first) = self.workers.first() else { return };
        for (port, mac) in self.addresses.look(&first.glasses, self.now_ns()) {
            if self.control().set_port_mac(port, mac) {
                addresses::report(self.config.port.get(usize::from(port)).map_or("", |port| &port.name), mac);
            }
        }
    }

    fn port(&self, worker: u16, n: usize, seen: &Seen) -> PortView {
        let entry = self.config.port.get(n);
        let role = entry.map_or("", |p| if p.role == Role::Access { "access" } else { "core" });
        port_view(entry.map_or("", |p| &p.name), role, worker, seen)
    }

    /// How many sessions there are, where.
    pub fn sessions(&self) -> Result<SessionsView, String> {
        let of_worker = |(n, ends): (usize, &WorkerEnds)| match ends.asker.ask(Question::Sessions) {
            Some(Answer::Sessions { count, bytes }) => Ok(WorkerSessions { worker: n as u16, sessions: count, bytes }),
            _ => Err(format!("worker {n} does not answer")),
        };
        let workers = self.workers.iter().enumerate().map(of_worker).collect::<Result<_, _>>()?;
        Ok(SessionsView { workers, control: events(&self.control().counters()) })
    }

    /// What probes are answered from.
    pub fn vitals(&self) -> &Arc<Vitals> {
        self.vitals.get_or_init(Arc::default)
    }

    /// Has probes answered from these, if nobody has asked for any before.
    pub fn set_vitals(&self, vitals: Arc<Vitals>) {
        let _ = self.vitals.set(vitals);
    }

    /// Takes no new sessions from now on, or takes them again.
    fn drain(&self, on: bool, seconds: u32) -> Result<DrainView, String> {
        let is_change = self.vitals().drain(on);
        let clock = self.wall_clock();
        let sessions = match self.n4() {
            Some(mut n4) => {
                n4.drain(on, Duration::from_secs(seconds.into()), &clock);
                // It sends what control planes are asked.
                self.waker.call();
                n4.endpoint().sessions().book().len() as u64
            }
            None => self.sessions()?.workers.iter().map(|worker| worker.sessions).sum(),
        };
        match on {
            _ if !is_change => {}
            true => tracing::info!(
                target: "process", event = "drain_begin", sessions, grace_seconds = seconds, "no new sessions are taken"
            ),
            false => tracing::info!(target: "process", event = "drain_end", sessions, "new sessions are taken again"),
        }
        Ok(DrainView { draining: on, sessions })
    }

    /// The control planes.
    pub fn peers(&self) -> Result<PeersView, String> {
        let (now, configured) = (self.wall_clock(), self.config.n4.as_ref());
        let none = || "no control plane is configured: there is no [n4]".to_owned();
        let (n4, configured) = self.n4().zip(configured).ok_or_else(none)?;
        let (node, sessions) = (n4.endpoint().node(), n4.endpoint().sessions());
        let peer = |(id, peer): (AssociationId, &Association)| PeerView {
            address: peer.address.to_string(),
            node_id: peer.node_id.to_string(),
            seconds: now.unix(now.now).saturating_sub(peer.recovery_time_stamp.unix()) as f64,
            sessions: sessions.book().of_peer(id.0).into(),
            lost_for: match peer.state {
                State::Up => None,
                State::Lost { until } => Some((until.as_secs_f64() - now.now as f64 / 1e9).max(0.0)),
            },
            answers_heartbeats: peer.answers_heartbeats,
            datagrams_lost: n4.intake().lost(Some(id.0)),
            further_addresses: peer.alternatives.iter().map(ToString::to_string).collect(),
        };
        let mut peers: Vec<PeerView> = node.associations().map(peer).collect();
        peers.sort_by(|a, b| a.address.cmp(&b.address));
        let (done, lost, queues) = (sessions.counters(), n4.lost(), n4.intake());
        let guaranteed = sessions.guaranteed();
        let counted = [
            ("established", done.established, "Sessions established."),
            ("modified", done.modified, "Sessions modified."),
            ("deleted", done.deleted, "Sessions deleted, by whomever."),
            ("requests_refused", done.refused, "Requests about sessions refused."),
            ("usage_reports", done.usage_reports, "Reports of usage sent."),
            ("downlink_data_reports", done.downlink_data_reports, "Reports of waiting packets sent."),
            ("error_indication_reports", done.error_indication_reports, "Reports of Error Indications sent."),
            ("path_failures", done.path_failures, "GTP-U peers that no longer answered."),
            ("path_recoveries", done.path_recoveries, "GTP-U peers that answered again."),
            ("reports_unanswered", n4.endpoint().unanswered(), "Reports that nobody answered."),
            (
                "usage_reports_lost",
                sessions.usage_reports_lost(),
                "Reports of usage that nobody acknowledged, given up for later ones of their session or with it.",
            ),
            (
                "usage_octets_unheard",
                done.octets_unheard,
                "Octets counted and in no report when their sessions ended with nobody to tell.",
            ),
            (
                "network_instance_unknown",
                sessions.unknown_networks().map(|(_, rules)| rules).sum(),
                "Rules with a network instance that no port is in.",
            ),
            ("requests_queued", done.queued, "Requests that waited for room in a worker's command ring."),
            ("requests_congested", done.congested, "Requests refused with cause 74, as that ring stayed full."),
            (
                "ies_ignored",
                sessions.ignored_ies().map(|(.., count)| count).sum(),
                "Information elements without effect here; docs/pfcp-ies.md lists them.",
            ),
            ("gbr_refused", guaranteed.refused, "Requests refused as guaranteed bit rates were over the capacity."),
            ("unsent", n4.unsent(), "Datagrams the kernel would not send."),
            ("socket_lost_peers", lost.of_peers, "Datagrams of control planes lost, as their socket was full."),
            ("socket_lost_strangers", lost.of_strangers, "Datagrams of others lost, as their socket was full."),
            (
                "kernel_not_allowed",
                lost.not_allowed,
                "Datagrams that the kernel dropped as n4.allow does not allow them.",
            ),
            ("queue_lost_peers", queues.lost_of_peers(), "Datagrams of control planes lost, as their queue was full."),
            ("queue_lost_strangers", queues.lost(None), "Datagrams of others lost, as their queue was full."),
        ];
        let counters = counted.into_iter().chain(sessions.control_packets().all()).chain(node.counters().all());
        let news = n4.endpoint().news().map(|news| {
            let who = news.peer.map_or_else(|| "a control plane".to_owned(), |peer| peer.to_string());
            (now.now.saturating_sub(news.at) as f64 / 1e9, who, news.what.clone())
        });
        Ok(PeersView {
            address: SocketAddr::new(configured.address, configured.port).to_string(),
            node_id: node.config().node_id.to_string(),
            sessions: sessions.book().len() as u64,
            waiting: sessions.waiting() as u64,
            guaranteed: [guaranteed.sessions, guaranteed.up, guaranteed.down],
            peers,
            paths: self.paths(sessions.paths()),
            counters: counters.map(|(name, n, sentence)| (name.to_owned(), n, sentence.to_owned())).collect(),
            news: news.collect(),
        })
    }
}

impl Monitored for Observer {
    fn snapshot(&self) -> Snapshot {
        Observer::snapshot(self)
    }

    fn known(&self) -> Known {
        let (ports, sessions) = (self.ports(), self.sessions());
        Known {
            ports,
            sessions: sessions.ok(),
            peers: self.peers().ok(),
            most_sessions: self.config.n4.as_ref().map(|n4| n4.sessions.into()),
            draining: self.vitals().is_draining(),
            snapshot: Observer::snapshot(self),
            ..Known::default()
        }
    }

    fn vitals(&self) -> &Arc<Vitals> {
        Observer::vitals(self)
    }
}

impl Answers for Observer {
    fn answer(&self, connection: u64, request: &Request) -> Reply {
        let error = |sentence: String| Reply::Error(sentence);
        match request {
            Request::Counters => Reply::Counters(self.snapshot()),
            Request::Ports => Reply::Ports(self.ports()),
            Request::Sessions => self.sessions().map_or_else(error, Reply::Sessions),
            Request::Peers => self.peers().map_or_else(error, Reply::Peers),
            Request::Acl => Reply::Acl(self.acl()),
            Request::Nat { ue } => self.nat(*ue).map_or_else(error, Reply::Nat),
            Request::Session { ue } => self.session(*ue).map_or_else(error, Reply::Session),
            Request::Trace { ue, packets } => {
                self.followed.start(connection, *ue, *packets).map_or_else(error, Reply::Trace)
            }
            Request::Drain { on, seconds } => self.drain(*on, *seconds).map_or_else(error, Reply::Drain),
            Request::Log(request) => crate::log::answer(request).map_or_else(error, Reply::Log),
            Request::Process => crate::privilege::answer().map_or_else(error, Reply::Process),
            Request::Traced => Reply::Trace(self.followed.take()),
            Request::Cable(_) => Reply::Error("this gateway is a user plane: it has no modems".to_owned()),
            Request::Records { filter, limit } => cdr::answer::records(self.ledger.get(), filter, *limit),
            Request::Exported { until } => cdr::answer::exported(self.ledger.get(), *until),
        }
    }

    fn hung_up(&self, connection: u64) {
        self.followed.hung_up(connection);
    }
}

/// What control has done and heard, in words.
fn events(counters: &ControlCounters) -> Vec<(String, u64)> {
    let all = [
        ("rules installed while running", counters.made),
        ("removed while running", counters.removed),
        ("refused by a worker", counters.refused),
        ("bytes in final usage reports", counters.reported_bytes),
        ("paged", counters.pages),
        ("error indications heard", counters.error_indications),
    ];
    all.into_iter().filter(|(_, n)| *n > 0).map(|(what, n)| (what.to_owned(), n)).collect()
}

/// A worker's port as it was seen.
pub(crate) fn port_view(name: &str, role: &str, worker: u16, seen: &Seen) -> PortView {
    let named = seen.counters.named();
    let counters = named.iter().chain(&seen.extras).map(|(name, value)| ((*name).to_owned(), *value));
    PortView {
        name: name.to_owned(),
        worker,
        role: role.to_owned(),
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
pub(crate) fn memory(arena: &Arena) -> FrameMemory {
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

/// A worker's counters as they stand.
pub(crate) fn counters(worker: u16, cpu: Option<usize>, stats: &StatsView) -> WorkerCounters {
    let stage = |row: engine::StageRow| StageCounters {
        pipeline: row.stage.pipeline.to_owned(),
        name: row.stage.name.to_owned(),
        calls: row.calls,
        packets: row.packets,
        cycles: row.cycles,
    };
    let drop = |(stage, reason, packets, bytes): (String, engine::Drop, u64, u64)| DropCounters {
        stage,
        reason: reason.name().to_owned(),
        sentence: reason.sentence().to_owned(),
        packets,
        bytes,
    };
    let punt = |(punt, packets): (engine::Punt, u64)| PuntCounters {
        reason: punt.name().to_owned(),
        sentence: punt.sentence().to_owned(),
        packets,
    };
    WorkerCounters {
        worker,
        cpu,
        io: Io::ALL.iter().map(|io| (io.name().to_owned(), stats.io(*io))).collect(),
        stages: stats.stages().into_iter().map(stage).collect(),
        drops: stats.drops().into_iter().map(drop).collect(),
        consumed: stats.punts().into_iter().map(punt).collect(),
        missing: stats.missing(),
    }
}
