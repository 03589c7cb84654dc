//! The control side of a user plane, and what `weir show` sees of it: sessions are asked for by ring, control is locked for
//! a moment.

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::Duration;

use crate::config::{Config, ConfigError};
use crate::control::{Control, ControlCounters};
use crate::fast::{Counts, FastPath};
use dataplane::forward::Neighbourhood;
use engine::{PortId, Worker};
use pfcp::node::{Association, AssociationId, State};

use super::hand_over::Exported;
use super::metrics::told;
use super::n4::N4;
use super::protocol::{GuaranteedView, NewsView, PeerView, PeersView, Reply, Request, SessionsView, WorkerSessions};
use super::query::{QueriedPlane, Query, QueryAnswer, WorkerQuery};
use super::reload::Both;
use gateway::connected::Connected;
use gateway::fast_path::Ready;
use gateway::host_routing::ServedPrefix;
use gateway::metrics::Known;
use gateway::nat;
use gateway::records::{self, Kept};
use gateway::shell::reload::apply_to;
use gateway::shell::rest::Wait;
use gateway::shell::{HandOver, Product, Shell};
use gateway::snapshot::KernelCounters;
use gateway::socket::{Ask, RawAnswer, RawRequest};
use gateway::watch::Level;

/// The control side of a running user plane.
pub struct Observer {
    pub(super) shell: Shell,
    /// As applied: a reload replaces it.
    pub(super) config: Mutex<Arc<Config>>,
    /// Asks workers about their sessions, by worker.
    pub(super) queries: Vec<WorkerQuery>,
    control: Mutex<Control>,
    /// The end of N4, if control planes are configured.
    pub(super) n4: Option<Mutex<N4>>,
    /// The ledger it keeps, if any: put here by whoever opens it.
    pub ledger: OnceLock<Kept>,
    /// What a process that takes over has got.
    pub(super) exported: Mutex<Exported>,
    /// What puts the in-kernel path into its place: that of another process, before it or after.
    pub(super) ready: Mutex<Option<Ready<FastPath>>>,
    /// How full N4's pools are and how many sessions it has, as control saw it last, and when it looks again.
    levels: Mutex<(Vec<Level>, Option<u64>)>,
    next_levels: AtomicU64,
}

/// Nanoseconds between two looks of control at its pools.
const SECOND: u64 = 1_000_000_000;

impl Observer {
    /// Over the reading ends of its workers.
    pub fn new(
        config: &Config,
        shell: Shell,
        queries: Vec<WorkerQuery>,
        control: Control,
        n4: Option<Mutex<N4>>,
        ledger: Option<Kept>,
    ) -> Self {
        Self {
            shell,
            config: Mutex::new(Arc::new(config.clone())),
            queries,
            control: Mutex::new(control),
            n4,
            ledger: ledger.map_or_else(OnceLock::new, OnceLock::from),
            exported: Mutex::default(),
            ready: Mutex::new(None),
            levels: Mutex::default(),
            next_levels: AtomicU64::new(0),
        }
    }

    /// What puts the in-kernel path into its place.
    pub(super) fn keep_ready(&self, ready: Option<Ready<FastPath>>) {
        *self.ready.lock().unwrap_or_else(|error| error.into_inner()) = ready;
    }

    /// The end of N4 for a moment, if control planes are configured. Taken before [`control`](Self::control).
    pub fn n4(&self) -> Option<MutexGuard<'_, N4>> {
        self.n4.as_ref().map(|n4| self.shell.lock(n4))
    }

    /// Control, for a moment.
    pub fn control(&self) -> MutexGuard<'_, Control> {
        self.shell.lock(&self.control)
    }

    /// The configuration in use.
    pub(super) fn config(&self) -> Arc<Config> {
        self.config.lock().unwrap_or_else(|e| e.into_inner()).clone()
    }

    /// Applies what a reload changes; with `check` only finds out whether it could.
    pub(super) fn reload(&self, config: &Config, keys: &[&str], check: bool) -> Result<(), ConfigError> {
        // While control is locked, as by whoever shows lists and what they have counted.
        let mut both = Both { n4: self.n4(), control: self.control(), clock: self.shell.wall_clock() };
        apply_to(&mut both, config, keys, check)?;
        if check {
            return Ok(());
        }
        *self.config.lock().unwrap_or_else(|e| e.into_inner()) = Arc::new(config.clone());
        Ok(())
    }

    /// Notes how full N4's pools are, once a second: control does, which has N4 at hand.
    fn note_levels(&self, n4: &N4, now: u64) {
        if now < self.next_levels.load(Ordering::Relaxed) {
            return;
        }
        self.next_levels.store(now + SECOND, Ordering::Relaxed);
        let sessions = n4.endpoint().sessions();
        let levels = sessions.levels().into_iter().map(|(pool, used, capacity)| Level { pool, used, capacity });
        let noted = (levels.collect(), Some(sessions.store().len() as u64));
        *self.levels.lock().unwrap_or_else(|e| e.into_inner()) = noted;
    }

    /// How many sessions there are, where.
    pub fn sessions(&self) -> Result<SessionsView, String> {
        let of_worker = |(n, query): (usize, &WorkerQuery)| match query.ask(Query::Sessions) {
            Some(QueryAnswer::Sessions { count, bytes }) => {
                Ok(WorkerSessions { worker: n as u16, sessions: count, bytes })
            }
            _ => Err(format!("worker {n} does not answer")),
        };
        let workers = self.queries.iter().enumerate().map(of_worker).collect::<Result<_, _>>()?;
        Ok(SessionsView { workers, control: control_events(&self.control()) })
    }

    /// The control planes.
    pub fn peers(&self) -> Result<PeersView, String> {
        let (now, config) = (self.shell.wall_clock(), self.config());
        let none = || "no control plane is configured: there is no [n4]".to_owned();
        let (n4, configured) = self.n4().zip(config.n4.as_ref()).ok_or_else(none)?;
        let (node, sessions) = (n4.endpoint().node(), n4.endpoint().sessions());
        let peer = |(id, peer): (AssociationId, &Association)| PeerView {
            address: peer.address.to_string(),
            node_id: peer.node_id.to_string(),
            seconds: now.unix(now.now).saturating_sub(peer.recovery_time_stamp.unix()) as f64,
            sessions: sessions.store().of_peer(id.0).into(),
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
        let guaranteed = sessions.guaranteed();
        let counters = control_counters(&n4).chain(sessions.control_packets().all()).chain(node.counters().all());
        let news = n4.endpoint().news().map(|news| {
            let who = news.peer.map_or_else(|| "a control plane".to_owned(), |peer| peer.to_string());
            NewsView { seconds_ago: now.now.saturating_sub(news.at) as f64 / 1e9, peer: who, event: news.what.clone() }
        });
        Ok(PeersView {
            address: SocketAddr::new(configured.address, configured.port).to_string(),
            node_id: node.config().node_id.to_string(),
            sessions: sessions.store().len() as u64,
            waiting: sessions.waiting() as u64,
            guaranteed: GuaranteedView {
                sessions: guaranteed.sessions,
                up_bps: guaranteed.up,
                down_bps: guaranteed.down,
            },
            peers,
            paths: self.paths(sessions.paths()),
            counters: counters.map(|(name, n, sentence)| (name.to_owned(), n, sentence.to_owned())).collect(),
            news: news.collect(),
        })
    }
}

/// What the N4 endpoint has counted: id, count, help text.
fn control_counters(n4: &N4) -> impl Iterator<Item = (&'static str, u64, &'static str)> {
    let sessions = n4.endpoint().sessions();
    let (done, lost, queues) = (sessions.counters(), n4.lost(), n4.intake());
    let guaranteed = sessions.guaranteed();
    [
        ("established", done.established, "Sessions established."),
        ("modified", done.modified, "Sessions modified."),
        ("deleted", done.deleted, "Sessions deleted, by whomever."),
        ("requests_refused", done.refused, "Requests about sessions refused."),
        ("usage_reports", done.usage_reports, "Reports of usage sent."),
        ("downlink_data_reports", done.downlink_data_reports, "Reports of waiting packets sent."),
        ("error_indication_reports", done.error_indication_reports, "Reports of Error Indications sent."),
        ("path_failures", done.path_failures, "GTP-U peers that no longer answered."),
        ("path_recoveries", done.path_recoveries, "GTP-U peers that answered again."),
        ("reports_unanswered", n4.endpoint().unanswered(), "Reports that were not answered."),
        (
            "usage_reports_lost",
            sessions.usage_reports_lost(),
            "Usage reports that were not acknowledged and were dropped for later ones of their session or at its end.",
        ),
        (
            "usage_octets_unheard",
            done.octets_unheard,
            "Octets counted and in no report when their sessions ended without a control plane.",
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
        ("kernel_not_allowed", lost.not_allowed, "Datagrams that the kernel dropped as n4.allow does not allow them."),
        ("queue_lost_peers", queues.lost_of_peers(), "Datagrams of control planes lost, as their queue was full."),
        ("queue_lost_strangers", queues.lost(None), "Datagrams of others lost, as their queue was full."),
    ]
    .into_iter()
}

impl Product for Observer {
    type Plane = QueriedPlane;
    const STATE_LAYOUT: u64 = crate::sessions::STATE_LAYOUT;

    fn hand_over(&self) -> Option<&dyn HandOver<QueriedPlane>> {
        Some(self)
    }

    fn shell(&self) -> &Shell {
        &self.shell
    }

    fn turn(&self) {
        match self.n4() {
            Some(mut n4) => {
                n4.turn(&mut self.control(), || self.shell.wall_clock());
                if let Some(kept) = n4.take_opened() {
                    let _ = self.ledger.set(kept);
                }
                self.note_levels(&n4, self.shell.now_ns());
            }
            None => self.control().poll(self.shell.now_ns()),
        }
    }

    fn wait(&self, since: Duration) -> Wait {
        let n4 = self.n4();
        if let Some(wait) = n4.as_ref().and_then(|n4| n4.wait()) {
            return wait;
        }
        let mut control = self.control();
        let deadlines = [control.next_deadline(), n4.and_then(|n4| n4.endpoint().next_deadline())];
        self.shell.wait(since, control.took_events(), control.has_news(), deadlines)
    }

    fn publish_tables(&self) {
        self.control().publish();
    }

    fn with_neighbourhood(&self, see: &mut dyn FnMut(&mut Neighbourhood)) {
        see(self.control().neighbourhood());
    }

    fn send(&self, frames: Vec<(PortId, Vec<u8>)>) {
        self.control().send_frames(frames);
    }

    fn instances(&self) -> Vec<String> {
        self.config().instances()
    }

    fn served(&self) -> Vec<ServedPrefix> {
        self.config().served()
    }

    fn halted(&self, workers: &[std::thread::Result<Worker<QueriedPlane>>]) {
        let clock = self.shell.wall_clock();
        if let Some(mut n4) = self.n4() {
            n4.close(&clock, &mut |worker, handle| {
                workers.get(usize::from(worker))?.as_ref().ok()?.gateway().usage(handle, clock.now)
            });
        }
    }

    fn answer(&self, asked: &RawRequest) -> Option<RawAnswer> {
        let own = Request::answered(asked, |request| match request {
            Request::Sessions => self.sessions().map(Reply::Sessions),
            Request::Peers => self.peers().map(Reply::Peers),
            Request::Acl => Ok(Reply::Acl(self.acl())),
            Request::Session { ue } => self.session(ue).map(Reply::Session),
        });
        own.or_else(|| nat::Request::answered(asked, |nat::Request::Nat { ue }| self.nat(ue).map(nat::Reply::Nat)))
            .or_else(|| records::answered(self.ledger.get(), asked))
    }

    fn connected(&self) -> Option<&dyn Connected> {
        Some(self)
    }

    fn rules(&self, ue: IpAddr) -> Vec<(String, String)> {
        self.rules_of(ue)
    }

    fn can_drain(&self) -> bool {
        true
    }

    fn drain(&self, on: bool, grace: Duration) -> Result<u64, String> {
        let clock = self.shell.wall_clock();
        let Some(mut n4) = self.n4() else {
            return Ok(self.sessions()?.workers.iter().map(|worker| worker.sessions).sum());
        };
        n4.drain(on, grace, &clock);
        // It sends what control planes are asked.
        self.shell.call_control();
        Ok(n4.endpoint().sessions().store().len() as u64)
    }

    fn kernel_counters(&self) -> Option<KernelCounters> {
        self.control().kernel_counters()
    }

    fn known(&self) -> Known {
        let (sessions, peers) = (self.sessions().ok(), self.peers().ok());
        let most = self.config().n4.as_ref().map(|n4| n4.sessions.into());
        let (own, used) = told(sessions.as_ref(), peers.as_ref(), most);
        Known { own, used, ..Known::default() }
    }

    fn levels(&self) -> Vec<Level> {
        let mut levels = self.levels.lock().unwrap_or_else(|e| e.into_inner()).0.clone();
        for (worker, query) in self.queries.iter().enumerate().filter(|_| self.config().nat.is_some()) {
            if let Some(QueryAnswer::Levels(Some(all))) = query.ask(Query::Levels) {
                let name = |pool| format!("{pool}:worker{worker}");
                levels.extend(all.into_iter().map(|(pool, used, capacity)| Level { pool: name(pool), used, capacity }));
            }
        }
        let flows = self.kernel_counters().and_then(|kernel| kernel.flows);
        levels.extend(flows.map(|flows| Level {
            pool: "kernel_flows".to_owned(),
            used: flows.taken + flows.waiting,
            capacity: flows.places,
        }));
        levels
    }

    fn sessions(&self) -> Option<u64> {
        self.levels.lock().unwrap_or_else(|e| e.into_inner()).1
    }

    fn hindrances(&self) -> Vec<String> {
        let failed = self.ledger.get().and_then(|(_, writer)| writer.progress().failed);
        failed.map(|error| error.to_string()).into_iter().collect()
    }
}

/// What control and the in-kernel path have done, in words.
pub(super) fn control_events(control: &Control) -> Vec<(String, u64, String)> {
    let mut all = events(&control.counters());
    all.extend(control.fast_path().iter().flat_map(Counts::in_words));
    all
}

/// What control has done and heard, in words.
pub(super) fn events(counters: &ControlCounters) -> Vec<(String, u64, String)> {
    let all = [
        ("sessions_installed", counters.made, "Sessions installed while running."),
        ("sessions_removed", counters.removed, "Sessions removed while running."),
        ("sessions_refused", counters.refused, "Sessions that a worker refused."),
        ("final_usage_bytes", counters.reported_bytes, "Bytes in usage reports of removed sessions."),
        ("subscribers_paged", counters.pages, "Idle subscribers that a packet came for."),
        ("error_indications_received", counters.error_indications, "GTP-U Error Indications received."),
    ];
    let counted = all.into_iter().filter(|(_, n, _)| *n > 0);
    counted.map(|(id, n, help)| (id.to_owned(), n, help.to_owned())).collect()
}
