//! The reading ends of a running gateway: what `weir show` and `weir trace` see. Counters are read where they lie;
//! sessions are asked for by ring; ports show themselves when asked. Workers notice none of it.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use engine::{Io, StatsView, Time, TracerHandle, Tsc};
use frame::Arena;
use pfcp::node::{Association, AssociationId, State};
use table::hint::tsc_hz;
use upf::config::{Config, Role};
use upf::control::{Control, ControlCounters};
use upf::n4::metering::WallClock;

use crate::asked::{Answer, Asker, Question};
use crate::cdr::{self, Kept};
use crate::followed::Followed;
use crate::metrics::{Known, Monitored};
use crate::n4::N4;
use crate::snapshot::{DropCounters, FrameMemory, PuntCounters, Snapshot, StageCounters, WorkerCounters};
use crate::socket::{Answers, DrainView, PeerView, PeersView, PortView, Reply, Request, SessionsView, WorkerSessions};
use crate::watched::Glass;

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
}

/// The reading ends of a process.
pub struct Observer {
    pub(crate) config: Config,
    pub(crate) workers: Vec<WorkerEnds>,
    pub(crate) control: Arc<Mutex<Control>>,
    arena: Arc<Arena>,
    time: Time,
    /// Wall clock at the time's nanosecond 0.
    epoch_ns: u64,
    /// The end of N4, once it is there.
    pub(crate) n4: OnceLock<Mutex<N4>>,
    start_ns: u64,
    /// The ledger it keeps, if any: put here by whoever opens it.
    pub ledger: OnceLock<Kept>,
    followed: Followed,
    /// No new sessions are to come.
    draining: AtomicBool,
}

/// The workers' time beside the calendar's, now.
pub fn wall_clock(time: &Time) -> WallClock {
    let now = time.now_ns(<Tsc as engine::Clock>::cycles());
    let wall = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_nanos() as u64);
    WallClock { now, epoch_ns: wall.saturating_sub(now) }
}

impl Observer {
    /// Over those ends; the workers' clock is `time`.
    pub fn new(
        config: &Config,
        workers: Vec<WorkerEnds>,
        control: Arc<Mutex<Control>>,
        arena: Arc<Arena>,
        time: Time,
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
            draining: AtomicBool::new(false),
        }
    }

    /// The workers' time beside the calendar's.
    pub fn wall_clock(&self) -> WallClock {
        WallClock { now: self.now_ns(), epoch_ns: self.epoch_ns }
    }

    /// The end of N4 for a moment, if control planes are configured. Taken before [`control`](Self::control).
    pub fn n4(&self) -> Option<MutexGuard<'_, N4>> {
        self.n4.get().map(|n4| n4.lock().unwrap_or_else(|e| e.into_inner()))
    }

    /// The workers' time, now.
    pub fn now_ns(&self) -> u64 {
        self.time.now_ns(<Tsc as engine::Clock>::cycles())
    }

    /// Control, for a moment.
    pub fn control(&self) -> MutexGuard<'_, Control> {
        self.control.lock().unwrap_or_else(|e| e.into_inner())
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
        self.workers.iter().flat_map(|worker| &worker.glasses).for_each(Glass::ask);
        let of_worker = |(worker, ends): (usize, &WorkerEnds)| {
            let view = |(n, glass): (usize, &Glass)| self.port(worker as u16, n, glass);
            ends.glasses.iter().enumerate().map(view).collect::<Vec<_>>()
        };
        self.workers.iter().enumerate().flat_map(of_worker).collect()
    }

    fn port(&self, worker: u16, n: usize, glass: &Glass) -> PortView {
        let entry = self.config.port.get(n);
        let role = entry.map_or("", |p| if p.role == Role::Access { "access" } else { "core" });
        port_view(entry.map_or("", |p| &p.name), role, worker, glass)
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

    /// What keeps traffic away from it, a sentence each; `silent`: why a worker does not answer, if one does not.
    fn unready(&self, ports: &[PortView], silent: Option<&String>) -> Vec<String> {
        let draining = self.is_draining().then(|| "draining: no new sessions are taken".to_owned());
        draining.into_iter().chain(silent.cloned()).chain(down(ports)).collect()
    }

    /// Whether no new sessions are to come.
    pub fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
    }

    /// Takes no new sessions from now on, or takes them again.
    fn drain(&self, on: bool, seconds: u32) -> Result<DrainView, String> {
        self.draining.store(on, Ordering::Relaxed);
        let clock = self.wall_clock();
        let sessions = match self.n4() {
            Some(mut n4) => {
                n4.drain(on, Duration::from_secs(seconds.into()), &clock);
                n4.endpoint().sessions().book().len() as u64
            }
            None => self.sessions()?.workers.iter().map(|worker| worker.sessions).sum(),
        };
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
        };
        let mut peers: Vec<PeerView> = node.associations().map(peer).collect();
        peers.sort_by(|a, b| a.address.cmp(&b.address));
        let done = sessions.counters();
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
            ("unsent", n4.unsent(), "Datagrams the kernel would not send."),
        ];
        let counters = counted.into_iter().chain(node.counters().all());
        let news = n4.endpoint().news().map(|news| {
            let who = news.peer.map_or_else(|| "a control plane".to_owned(), |peer| peer.to_string());
            (now.now.saturating_sub(news.at) as f64 / 1e9, who, news.what.clone())
        });
        Ok(PeersView {
            address: SocketAddr::new(configured.address, configured.port).to_string(),
            node_id: node.config().node_id.to_string(),
            sessions: sessions.book().len() as u64,
            waiting: sessions.waiting() as u64,
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
            unready: self.unready(&ports, sessions.as_ref().err()),
            ports,
            sessions: sessions.ok(),
            peers: self.peers().ok(),
            most_sessions: self.config.n4.as_ref().map(|n4| n4.sessions.into()),
            draining: self.is_draining(),
            snapshot: Observer::snapshot(self),
            ..Known::default()
        }
    }

    fn silent(&self) -> Option<String> {
        self.sessions().err()
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
        ("made while running", counters.made),
        ("removed while running", counters.removed),
        ("refused by a worker", counters.refused),
        ("bytes in final usage reports", counters.reported_bytes),
        ("paged", counters.pages),
        ("error indications heard", counters.error_indications),
    ];
    all.into_iter().filter(|(_, n)| *n > 0).map(|(what, n)| (what.to_owned(), n)).collect()
}

/// Ports without a link, a sentence each.
pub(crate) fn down(ports: &[PortView]) -> impl Iterator<Item = String> {
    ports.iter().filter(|port| port.link != "up").map(|port| match port.link.as_str() {
        "gone" => format!("port {} of worker {}: the interface is gone", port.name, port.worker),
        _ => format!("port {} of worker {}: no link", port.name, port.worker),
    })
}

/// A worker's port as it was last seen.
pub(crate) fn port_view(name: &str, role: &str, worker: u16, glass: &Glass) -> PortView {
    let seen = glass.look();
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
