//! The user plane under a control plane: sessions as PFCP asks for them over N4, Sxa and Sxb (3GPP TS 29.244, clause 5).
//!
//! ```text
//! datagrams ── pfcp::node ──► requests ──► N4 ──► Control ──► workers
//!                  ▲                        │  rules changed in the book, identifiers chosen, compiled, installed
//!                  └── responses, reports ◄─┘  once the worker has answered
//! ```
//!
//! [`N4`] has no socket and no clock: requests, time and [`Control`] are handed in, messages are taken out. A session is
//! kept as the request that would establish it as it is now ([`change::Rules`]); that is what a modification changes,
//! what the store keeps, and what [`translate`] makes a worker's rules of.

pub mod assemble;
pub mod book;
pub mod catalogue;
pub mod change;
mod checkpoint;
pub mod choose;
pub mod endpoint;
pub mod identifiers;
pub mod keep;
pub mod metering;
pub mod networks;
pub mod paths;
pub mod problem;
mod reports;
pub mod translate;

use std::collections::{BinaryHeap, HashMap, HashSet, VecDeque};
use std::net::IpAddr;

use pfcp::ie::{
    ApplicationId, Cause, FSeid, FTeid, FailedRuleId, FqCsid, NodeId, PdnType, PfcpSmReqFlags, UsageReportTrigger,
};
use pfcp::message::{
    Message, SessionDeletionResponse, SessionEstablishmentRequest, SessionEstablishmentResponse,
    SessionModificationRequest, SessionModificationResponse,
};
use pfcp::node::Ticket;
use stages::filter::FlowDescription;
use stages::forward::InstanceId;

use crate::compile::CompileError;
use crate::control::{Answer, AskError, Control, Report};
use crate::rules::{Session, Usage};
use crate::sessions;
use book::{Book, Entry, Key};
use catalogue::Catalogue;
use change::Rules;
use checkpoint::{Checkpoints, Kept, Owed};
use choose::{Chooser, Chosen, Pools};
use identifiers::Teids;
use keep::Keeper;
use ledger::Change;
use metering::{Metering, WallClock};
use networks::Networks;
use paths::{Pace, Path, Paths};
use problem::Problem;
use translate::Translator;

/// Bounds that hold whatever a control plane asks for.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Sessions in all.
    pub sessions: usize,
    /// Sessions of one association.
    pub sessions_per_peer: u32,
    /// Rules of each kind in a session.
    pub rules: usize,
    /// Networks behind a session's subscriber.
    pub routes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { sessions: 4_000_000, sessions_per_peer: 4_000_000, rules: 64, routes: 64 }
    }
}

/// What has been done and refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Sessions established.
    pub established: u64,
    /// Sessions modified.
    pub modified: u64,
    /// Sessions deleted, by whomever.
    pub deleted: u64,
    /// Requests refused.
    pub refused: u64,
    /// Reports of usage sent.
    pub usage_reports: u64,
    /// Reports of waiting packets sent.
    pub downlink_data_reports: u64,
    /// Reports of Error Indications sent.
    pub error_indication_reports: u64,
    /// GTP-U peers that no longer answered.
    pub path_failures: u64,
    /// Those that answered again.
    pub path_recoveries: u64,
}

/// A request that is to be answered: whose it is, and the right to answer it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked {
    /// The association.
    pub peer: u32,
    /// What the answer is handed back with.
    pub ticket: Ticket,
}

/// What is to be sent.
#[derive(Debug)]
pub enum Outgoing {
    /// The answer to a request.
    Response {
        /// Which.
        asked: Asked,
        /// The SEID to answer to.
        seid: u64,
        /// The answer.
        message: Message,
    },
    /// A report of ours that is about no session, to be answered.
    NodeReport {
        /// The association.
        peer: u32,
        /// The report.
        message: Message,
    },
    /// A report of ours, to be answered.
    Report {
        /// The association.
        peer: u32,
        /// The control plane's SEID.
        seid: u64,
        /// To hand in with the answer.
        token: u64,
        /// The report.
        message: Message,
    },
}

/// What a worker was asked for, and what is to be done with its answer.
#[derive(Debug)]
enum Pending {
    /// A new session.
    Establish { asked: Asked, number: u32, chosen: Chosen, response: Box<SessionEstablishmentResponse> },
    /// Changed rules. Accounts of URRs that are gone come along with what they were for.
    Modify {
        asked: Asked,
        number: u32,
        gone: Vec<Gone>,
        query: Query,
        grants: bool,
        response: Box<SessionModificationResponse>,
    },
    /// What has been counted, for a modification that only asks.
    Query { asked: Asked, number: u32, query: Query, response: Box<SessionModificationResponse> },
    /// A deletion, asked for by the control plane (or by nobody who waits).
    Delete { asked: Option<Asked>, seid: u64, entry: Box<Entry>, owed: Vec<Owed> },
    /// A look at what has been counted, because a bound was reached or the time has come.
    Look { number: u32 },
    /// A change of ours (a rule's time has come): nobody waits.
    Refresh,
}

/// A URR that was removed, and its account.
type Gone = (pfcp::group::CreateUrr, Metering);

/// Which URRs a modification asks about.
#[derive(Clone, Debug, Default)]
struct Query {
    all: bool,
    urrs: Vec<u32>,
}

impl Query {
    fn of(request: &SessionModificationRequest) -> Self {
        let all = request.pfcp_sm_req_flags.is_some_and(|flags| flags.contains(PfcpSmReqFlags::QAURR));
        Self { all, urrs: request.query_urrs.iter().map(|query| query.urr_id.0).collect() }
    }

    fn is_empty(&self) -> bool {
        !self.all && self.urrs.is_empty()
    }

    fn asks_for(&self, urr: u32) -> bool {
        self.all || self.urrs.contains(&urr)
    }
}

/// The sessions side of a user plane node.
pub struct N4 {
    node: NodeId,
    address: IpAddr,
    networks: Networks,
    teids: Teids,
    pools: Vec<Pools>,
    book: Book,
    limits: Limits,
    counters: Counters,
    applications: HashMap<Box<str>, Vec<FlowDescription>>,
    pending: HashMap<u64, Pending>,
    /// Times at which sessions are to be looked at, soonest first; outdated ones are told by the session itself.
    looks: BinaryHeap<std::cmp::Reverse<(u64, u32)>>,
    /// Sessions whose worker is being asked already.
    looking: HashSet<u32>,
    out: VecDeque<Outgoing>,
    /// Where sessions are kept, if they survive a restart.
    keeper: Option<Keeper>,
    checkpoints: Checkpoints,
    /// GTP-U peers.
    paths: Paths,
    catalogue: Catalogue,
    /// Reports of waiting packets that wait themselves: when, session, PDR; soonest first.
    delayed: BinaryHeap<std::cmp::Reverse<(u64, u32, u16)>>,
    workers: u16,
    next_worker: u16,
    /// No new sessions are taken.
    draining: bool,
}

/// What an [`N4`] is made of.
pub struct Parts {
    /// What the node calls itself.
    pub node: NodeId,
    /// Where control planes reach it.
    pub address: IpAddr,
    /// Names of networks.
    pub networks: Networks,
    /// Addresses it may give out.
    pub pools: Vec<Pools>,
    /// Bounds.
    pub limits: Limits,
    /// Workers there are.
    pub workers: u16,
    /// How GTP-U peers are supervised; none: they are not.
    pub pace: Option<Pace>,
    /// What control planes know by name.
    pub catalogue: Catalogue,
}

impl N4 {
    /// A node without sessions.
    pub fn new(parts: Parts) -> Self {
        let Parts { node, address, networks, pools, limits, workers, pace, catalogue } = parts;
        Self {
            node,
            address,
            networks,
            teids: Teids::new(workers),
            pools,
            book: Book::default(),
            limits,
            counters: Counters::default(),
            applications: HashMap::new(),
            pending: HashMap::new(),
            looks: BinaryHeap::new(),
            looking: HashSet::new(),
            out: VecDeque::new(),
            keeper: None,
            checkpoints: Checkpoints::default(),
            paths: Paths::new(pace),
            catalogue,
            delayed: BinaryHeap::new(),
            workers: workers.max(1),
            next_worker: 0,
            draining: false,
        }
    }

    /// Takes no new sessions from now on, or takes them again. Those there are go on.
    pub fn set_draining(&mut self, draining: bool) {
        self.draining = draining;
    }

    /// Whether no new sessions are taken.
    pub fn is_draining(&self) -> bool {
        self.draining
    }

    /// Its sessions.
    pub fn book(&self) -> &Book {
        &self.book
    }

    /// The GTP-U peers its sessions send to.
    pub fn paths(&self) -> &Paths {
        &self.paths
    }

    /// What it has done.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Requests that wait for a worker.
    pub fn waiting(&self) -> usize {
        self.pending.len()
    }

    /// Whether requests wait for a worker or the disk.
    pub fn is_waiting(&self) -> bool {
        !self.pending.is_empty() || self.keeper.as_ref().is_some_and(Keeper::is_waiting)
    }

    /// Keeps sessions from now on: answers go when what they acknowledge is on the disk. What they have used is written
    /// down once in `interval` nanoseconds.
    pub fn keep_in(&mut self, keeper: Keeper, interval: u64, now: u64) {
        self.keeper = Some(keeper);
        self.checkpoints = Checkpoints::every(interval, now);
    }

    /// Keeps changes, if anything is kept; the answer goes then.
    fn keep(&mut self, changes: impl FnOnce(&Book) -> Vec<Change>, answer: Option<Outgoing>) {
        match &mut self.keeper {
            Some(keeper) => keeper.keep(changes(&self.book), answer),
            None => self.out.extend(answer),
        }
    }

    /// As [`keep`](Self::keep), what is kept of a session, and what of its usage if that has changed.
    fn keep_session(&mut self, number: u32, usage: Option<Change>, answer: Option<Outgoing>) {
        let put = |book: &Book| {
            let entry = book.seid(number).zip(book.get(number));
            let put = entry.map(|(key, entry)| Change::PutSession { key, bytes: entry.message().to_vec() });
            put.into_iter().chain(usage).collect()
        };
        self.keep(put, answer);
    }

    /// Keeps what is not a session.
    pub fn keep_else(&mut self, change: Change) {
        self.keep(|_| vec![change], None);
    }

    /// Puts a session of an earlier run in place, with what was written down of its usage; `install` gives it to its
    /// worker, which does not run yet. Tells whether it is there.
    pub fn restore(
        &mut self,
        seid: u64,
        peer: u32,
        (rules, usage): (&Rules, Option<&[u8]>),
        control: &mut Control,
        clock: &WallClock,
        install: &mut dyn FnMut(u16, u32, &crate::compile::Compiled) -> bool,
    ) -> bool {
        let kept = usage.map_or_else(Kept::default, |bytes| Kept::read(bytes, clock));
        let meter = |urr: &pfcp::group::CreateUrr| {
            let known = kept.meters.iter().find(|meter| meter.urr == urr.urr_id.0);
            known.cloned().unwrap_or_else(|| Metering::new(urr, clock.now))
        };
        let meters: Vec<Metering> = rules.create_urrs.iter().map(meter).collect();
        let Ok(session) = self.translator(clock).session(rules, &meters) else { return false };
        let keys = book::keys(&session);
        let number = (seid as u32).wrapping_sub(1); // as the book puts SEIDs together
        if self.book.conflict(&keys, None).is_some() {
            return false;
        }
        let worker = self.worker_for(rules, session.instance);
        let Ok(mut compiled) = control.adopt(worker, number, &session) else { return false };
        sessions::set_counts(&mut compiled.lines, &kept.counted);
        if !install(worker, number, &compiled) {
            return false;
        }
        steer(control, worker, &[], &keys);
        let is_there = self.book.restore(seid, peer, worker, rules, meters, keys);
        self.take_paths(number, Path::of(&session), clock.now);
        self.plan_look(number, rules, clock);
        self.go_on(number, kept);
        is_there
    }

    /// All sessions of an earlier run are in place.
    pub fn restored(&mut self) {
        self.book.settle();
    }

    /// Replaces an application's filters (PFD management, 7.4.3); none: the application is forgotten.
    pub fn set_application(&mut self, id: &ApplicationId, flows: Vec<FlowDescription>) {
        if flows.is_empty() {
            self.applications.remove(&id.0);
        } else {
            self.applications.insert(id.0.clone(), flows);
        }
    }

    /// The next message to be sent.
    pub fn take(&mut self) -> Option<Outgoing> {
        self.out.pop_front()
    }

    /// Sees to a request about a session. The answer comes by [`take`](Self::take), at once or when a worker has done
    /// its part.
    pub fn request(&mut self, asked: Asked, seid: u64, message: Message, control: &mut Control, clock: &WallClock) {
        let refused = match message {
            Message::SessionEstablishmentRequest(request) => {
                let cp = request.cp_f_seid.seid;
                self.establish(asked, request, control, clock).err().map(|problem| (cp, self.no_session(problem)))
            }
            Message::SessionModificationRequest(request) => {
                let cp = self.cp_seid(asked.peer, seid);
                self.modify(asked, seid, &request, control, clock).err().map(|Problem { cause, ie, rule }| {
                    let (offending_ie, failed_rule_id) = (ie, rule);
                    let response =
                        SessionModificationResponse { cause, offending_ie, failed_rule_id, ..Default::default() };
                    (cp, response.into())
                })
            }
            Message::SessionDeletionRequest(_) => {
                let cp = self.cp_seid(asked.peer, seid);
                if self.book.find(seid).is_none() && self.say_again(asked, seid) {
                    return;
                }
                self.delete(asked, seid, control).err().map(|Problem { cause, ie, .. }| {
                    (cp, SessionDeletionResponse { cause, offending_ie: ie, ..Default::default() }.into())
                })
            }
            // Others are not about sessions, or not a user plane's to answer.
            _ => None,
        };
        if let Some((seid, message)) = refused {
            self.counters.refused += 1;
            self.out.push_back(Outgoing::Response { asked, seid, message });
        }
    }

    /// The number the control plane has for the session that we number `seid`; 0: there is none.
    pub fn seid_of_peer(&self, seid: u64) -> u64 {
        self.book.find(seid).and_then(|number| self.book.get(number)).map_or(0, |entry| entry.cp_seid)
    }

    fn no_session(&self, problem: Problem) -> Message {
        let Problem { cause, ie, rule } = problem;
        let node_id = self.node.clone();
        let (offending_ie, failed_rule_id) = (ie, rule);
        SessionEstablishmentResponse { node_id, cause, offending_ie, failed_rule_id, ..Default::default() }.into()
    }

    /// The SEID to answer to; 0 where there is no session of the peer's (7.2.2.4.2).
    fn cp_seid(&self, peer: u32, seid: u64) -> u64 {
        let entry = self.book.find(seid).and_then(|number| self.book.get(number));
        entry.filter(|entry| entry.peer == peer).map_or(0, |entry| entry.cp_seid)
    }

    fn establish(
        &mut self,
        asked: Asked,
        mut rules: SessionEstablishmentRequest,
        control: &mut Control,
        clock: &WallClock,
    ) -> Result<(), Problem> {
        let full =
            self.book.len() >= self.limits.sessions || self.book.of_peer(asked.peer) >= self.limits.sessions_per_peer;
        // Either way another user plane may have room: "a temporary unavailability of resources" (8.2.1).
        if full || self.draining {
            return Err(Problem::of(Cause::NO_RESOURCES_AVAILABLE));
        }
        if matches!(rules.pdn_type, Some(PdnType::NonIp | PdnType::Ethernet)) {
            return Err(Problem::of(Cause::SERVICE_NOT_SUPPORTED));
        }
        check_unique(&rules)?;
        let mut chosen = Chosen::default();
        let made = self.prepare(&mut rules, &mut chosen, None, &[], control, clock);
        let result = made.and_then(|made| {
            let number = self.book.next_number();
            let install = control.install(made.worker, number, &made.session);
            install.map(|ask| (made, number, ask)).map_err(|error| not_installed(&error))
        });
        let (made, number, ask) = result.inspect_err(|_| self.give_back(&chosen))?;
        steer(control, made.worker, &[], &made.keys);
        let seid = self.book.put(asked.peer, made.worker, &rules, made.meters, made.keys);
        self.take_paths(number, Path::of(&made.session), clock.now);
        let response = Box::new(SessionEstablishmentResponse {
            node_id: self.node.clone(),
            cause: Cause::REQUEST_ACCEPTED,
            up_f_seid: Some(FSeid::new(seid, self.address)),
            created_pdrs: std::mem::take(&mut chosen.pdrs),
            created_traffic_endpoints: std::mem::take(&mut chosen.endpoints),
            ..SessionEstablishmentResponse::default()
        });
        self.plan_look(number, &rules, clock);
        self.pending.insert(ask, Pending::Establish { asked, number, chosen, response });
        Ok(())
    }

    /// Chooses what is left to choose, translates, and looks for conflicts. `old` is the session's number if it has one.
    fn prepare(
        &mut self,
        rules: &mut Rules,
        chosen: &mut Chosen,
        old: Option<u32>,
        meters: &[Metering],
        control: &Control,
        clock: &WallClock,
    ) -> Result<Made, Problem> {
        let most = self.limits.rules;
        let counts = [rules.create_pdrs.len(), rules.create_fars.len(), rules.create_qers.len()];
        if counts.into_iter().any(|count| count > most) || rules.create_urrs.len() > most {
            return Err(Problem::of(Cause::NO_RESOURCES_AVAILABLE));
        }
        let home = self.translator(clock).home(rules);
        let worker = match old.and_then(|number| self.book.get(number)) {
            Some(entry) => entry.worker,
            None => self.worker_for(rules, home),
        };
        let book = &self.book;
        Chooser {
            networks: &self.networks,
            teids: &mut self.teids,
            pools: &mut self.pools,
            worker,
            teid_used: &|teid| book.lookup(Key::Teid(teid)).is_some(),
            address_used: &|instance, address| book.lookup(Key::Ue(instance, address)).is_some(),
        }
        .choose(rules, home, chosen)?;
        let new = rules.create_urrs.iter().map(|urr| {
            let known = meters.iter().find(|meter| meter.urr == urr.urr_id.0);
            known.cloned().unwrap_or_else(|| Metering::new(urr, clock.now))
        });
        let meters: Vec<Metering> = new.collect();
        let session = self.translator(clock).session(rules, &meters)?;
        if session.routes.len() > self.limits.routes {
            return Err(Problem::of(Cause::NO_RESOURCES_AVAILABLE));
        }
        for far in &session.fars {
            let reachable = far.tunnel.is_none_or(|end| Networks::can_reach(control.plan(), far.instance, end.address));
            if !reachable {
                return Err(Problem::rule(FailedRuleId::Far(far.id)));
            }
        }
        let keys = book::keys(&session);
        match self.book.conflict(&keys, old) {
            Some(key) => Err(Problem::rule(blamed(rules, key))),
            None => Ok(Made { worker, session, meters, keys }),
        }
    }

    fn translator(&self, clock: &WallClock) -> Translator<'_> {
        let (networks, applications, catalogue) = (&self.networks, &self.applications, &self.catalogue);
        Translator { networks, applications, catalogue, unix: clock.unix(clock.now) }
    }

    /// The worker of a new session: the one whose part of a pool its address is in, or whose range its tunnel endpoint
    /// is in; else each in turn.
    fn worker_for(&mut self, rules: &Rules, home: InstanceId) -> u16 {
        let pdis = || rules.create_pdrs.iter().map(|pdr| &pdr.pdi);
        let pool = self.pools.iter().find(|pools| pools.instance == home);
        let of_address = pdis().flat_map(|pdi| &pdi.ue_ip_addresses).find_map(|address| {
            let four = pool?.v4.as_ref().zip(address.ip4).and_then(|(pool, ip4)| pool.worker(ip4));
            four.or_else(|| pool?.v6.as_ref().zip(address.ip6).and_then(|(pool, ip6)| pool.worker(ip6)))
        });
        let of_tunnel = || {
            pdis().find_map(|pdi| match pdi.local_f_teid {
                Some(FTeid::Given { teid, .. }) => Some(self.teids.worker(teid.0)),
                _ => None,
            })
        };
        let found = of_address.or_else(of_tunnel).filter(|worker| *worker < self.workers);
        found.unwrap_or_else(|| {
            self.next_worker = (self.next_worker + 1) % self.workers;
            self.next_worker
        })
    }

    fn give_back(&mut self, chosen: &Chosen) {
        chosen.teids.iter().for_each(|teid| self.teids.give(*teid));
        for (instance, address) in &chosen.addresses {
            self.give_address(*instance, *address);
        }
    }

    fn give_address(&mut self, instance: InstanceId, address: IpAddr) {
        let pools = self.pools.iter_mut().find(|pools| pools.instance == instance);
        match (pools, address) {
            (Some(Pools { v4: Some(pool), .. }), IpAddr::V4(address)) => pool.give(address),
            (Some(Pools { v6: Some(pool), .. }), IpAddr::V6(address)) => pool.give(address),
            _ => {}
        }
    }

    fn modify(
        &mut self,
        asked: Asked,
        seid: u64,
        request: &SessionModificationRequest,
        control: &mut Control,
        clock: &WallClock,
    ) -> Result<(), Problem> {
        let unknown = Problem::of(Cause::SESSION_CONTEXT_NOT_FOUND);
        let number = self.book.find(seid).ok_or(unknown)?;
        let entry = self.book.get(number).filter(|entry| entry.peer == asked.peer).ok_or(unknown)?;
        let (worker, before) = (entry.worker, entry.rules());
        let mut meters = entry.meters.to_vec();
        let query = Query::of(request);
        let flags = request.pfcp_sm_req_flags.unwrap_or_default();
        let mut rules = before.clone();
        let left = change::modify(&mut rules, request)?;
        check_unique(&rules)?;
        let grants = !request.update_urrs.is_empty();
        for update in request.update_urrs.iter().filter(|urr| urr.volume_quota.is_some() || urr.time_quota.is_some()) {
            if let Some(meter) = meters.iter_mut().find(|meter| meter.urr == update.urr_id.0) {
                meter.grant(clock.now);
            }
        }
        let gone = before.create_urrs.iter().filter(|urr| !rules.create_urrs.iter().any(|u| u.urr_id == urr.urr_id));
        let gone: Vec<Gone> = gone
            .filter_map(|urr| Some((urr.clone(), meters.iter().find(|meter| meter.urr == urr.urr_id.0)?.clone())))
            .collect();
        let mut response = Box::new(SessionModificationResponse {
            cause: Cause::REQUEST_ACCEPTED,
            ..SessionModificationResponse::default()
        });
        if flags.contains(PfcpSmReqFlags::DROBU) {
            control.discard(worker, number);
        }
        if only_asks(request) {
            let ask = control.measure(worker, number).map_err(|error| not_installed(&error))?;
            self.pending.insert(ask, Pending::Query { asked, number, query, response });
            return Ok(());
        }
        let mut chosen = Chosen::default();
        let made = self.prepare(&mut rules, &mut chosen, Some(number), &meters, control, clock);
        let result = made.and_then(|made| {
            let install = control.change(worker, number, &made.session, before.create_urrs.len());
            install.map(|ask| (made, ask)).map_err(|error| not_installed(&error))
        });
        let (made, ask) = result.inspect_err(|_| self.give_back(&chosen))?;
        for left in left {
            let end = self.translator(clock).left_tunnel(&left);
            if let Some((instance, end)) = end {
                control.end_marker(worker, instance, end);
            }
        }
        let old_keys = self.book.get(number).map(|entry| entry.keys().to_vec()).unwrap_or_default();
        self.release_keys(&old_keys, &made.keys);
        steer(control, worker, &old_keys, &made.keys);
        self.book.set_keys(number, made.keys);
        self.take_paths(number, Path::of(&made.session), clock.now);
        self.book.set_rules(number, &rules);
        if let Some(entry) = self.book.get_mut(number) {
            entry.meters = made.meters.into();
            entry.paged = false;
        }
        self.plan_look(number, &rules, clock);
        response.created_pdrs = chosen.pdrs;
        response.created_traffic_endpoints = chosen.endpoints;
        self.pending.insert(ask, Pending::Modify { asked, number, gone, query, grants, response });
        Ok(())
    }

    /// A session's packets go by these paths from now on.
    fn take_paths(&mut self, number: u32, new: Box<[Path]>, now: u64) {
        let Some(entry) = self.book.get_mut(number) else { return };
        self.paths.change(entry.peer, &entry.paths, &new, now);
        entry.paths = new;
    }

    /// Gives back identifiers of ours that a session no longer has.
    fn release_keys(&mut self, old: &[Key], new: &[Key]) {
        for key in old.iter().filter(|key| !new.contains(key)) {
            match *key {
                Key::Teid(teid) => self.teids.give(teid),
                Key::Ue(instance, address) => self.give_address(instance, address),
                Key::Route(_) => {}
            }
        }
    }

    fn delete(&mut self, asked: Asked, seid: u64, control: &mut Control) -> Result<(), Problem> {
        let unknown = Problem::of(Cause::SESSION_CONTEXT_NOT_FOUND);
        let number = self.book.find(seid).ok_or(unknown)?;
        self.book.get(number).filter(|entry| entry.peer == asked.peer).ok_or(unknown)?;
        self.end(number, Some(asked), control)
    }

    /// Takes a session out; the answer goes to whoever asked.
    fn end(&mut self, number: u32, asked: Option<Asked>, control: &mut Control) -> Result<(), Problem> {
        let unknown = Problem::of(Cause::SESSION_CONTEXT_NOT_FOUND);
        let worker = self.book.get(number).ok_or(unknown)?.worker;
        let ask = control.remove(worker, number).map_err(|error| not_installed(&error))?;
        let seid = self.book.seid(number).ok_or(unknown)?;
        let entry = self.book.take(number).ok_or(unknown)?;
        self.release_keys(entry.keys(), &[]);
        steer(control, worker, entry.keys(), &[]);
        let owed = self.checkpoints.take_owed(number);
        self.paths.change(entry.peer, &entry.paths, &[], 0);
        self.pending.insert(ask, Pending::Delete { asked, seid, entry: Box::new(entry), owed });
        Ok(())
    }

    /// An association is over: its sessions end. At most `most` of them a call; returns whether some are left.
    pub fn end_peer(&mut self, peer: u32, most: usize, control: &mut Control) -> bool {
        if self.book.of_peer(peer) == 0 {
            return false;
        }
        let of_peer = self.book.iter().filter(|(_, entry)| entry.peer == peer).map(|(number, _)| number);
        let numbers: Vec<u32> = of_peer.take(most).collect();
        for number in numbers {
            if self.end(number, None, control).is_err() {
                break;
            }
        }
        self.book.of_peer(peer) > 0
    }

    /// Sessions of a set end (FQ-CSID, TS 23.527, 4.6). Rare, so all sessions are looked through.
    pub fn end_set(&mut self, peer: u32, sets: &[FqCsid], control: &mut Control) {
        let belongs = |entry: &Entry| entry.peer == peer && entry.rules().fq_csids.iter().any(|set| sets.contains(set));
        let numbers: Vec<u32> = self.book.iter().filter(|(_, entry)| belongs(entry)).map(|(n, _)| n).collect();
        for number in numbers {
            // Refused only when the worker has its hands full; the control plane asks again.
            let _ = self.end(number, None, control);
        }
    }

    /// Sees to what workers have answered and noticed, and to what is due.
    pub fn poll(&mut self, control: &mut Control, clock: &WallClock) {
        while let Some((ask, answer)) = control.answer() {
            if let Some(pending) = self.pending.remove(&ask) {
                self.finish(pending, answer, control, clock);
            } else if let Some(number) = self.checkpoints.asked(ask)
                && let Answer::Usage(usage) = answer
            {
                self.measured(number, &usage, clock);
            }
        }
        if let Some(keeper) = &mut self.keeper {
            keeper.let_go(&mut self.out);
        }
        while let Some(report) = control.report() {
            match report {
                Report::Buffered { handle, pdr } => self.packets_wait(handle, pdr, clock.now),
                Report::EchoResponse { instance, peer, sequence } => {
                    self.path_answers(Path { instance, peer }, sequence, clock.now);
                }
                Report::Reached { handle } => self.look(handle, control, clock.now),
                Report::ErrorIndication { handle, peer, teid, .. } => self.error_indicated(handle, peer, teid),
            }
        }
        self.supervise_paths(control, clock.now);
        while let Some(std::cmp::Reverse((at, number, pdr))) = self.delayed.peek().copied() {
            if at > clock.now {
                break;
            }
            self.delayed.pop();
            self.tell_packets_wait(number, pdr);
        }
        while let Some(std::cmp::Reverse((at, number))) = self.looks.peek().copied() {
            if at > clock.now {
                break;
            }
            self.looks.pop();
            if self.book.get(number).is_some_and(|entry| entry.look_at == at) {
                self.look(number, control, clock.now);
            }
        }
        self.go_round(control, clock.now);
    }

    fn finish(&mut self, pending: Pending, answer: Answer, control: &mut Control, clock: &WallClock) {
        match pending {
            Pending::Establish { asked, number, chosen, response } => match answer {
                Answer::Installed(_) => {
                    self.counters.established += 1;
                    let seid = self.book.get(number).map_or(0, |entry| entry.cp_seid);
                    let message = (*response).into();
                    self.keep_session(number, None, Some(Outgoing::Response { asked, seid, message }));
                }
                _ => {
                    let entry = self.book.take(number);
                    if let Some(entry) = &entry {
                        steer(control, entry.worker, entry.keys(), &[]);
                        self.paths.change(entry.peer, &entry.paths, &[], clock.now);
                    }
                    let seid = entry.map_or(0, |entry| entry.cp_seid);
                    self.give_back(&chosen);
                    self.counters.refused += 1;
                    let message = self.no_session(Problem::of(Cause::NO_RESOURCES_AVAILABLE));
                    self.out.push_back(Outgoing::Response { asked, seid, message });
                }
            },
            Pending::Modify { asked, number, gone, query, grants, mut response } => {
                let (mut is_changed, mut used) = (false, None);
                match answer {
                    Answer::Installed(usage) => {
                        self.counters.modified += 1;
                        is_changed = true;
                        for (urr, mut meter) in gone {
                            let counted = counted(&usage, meter.urr);
                            meter.look(&counted, clock.now);
                            let reports = &mut response.usage_reports;
                            meter.report(&urr, &counted, UsageReportTrigger::TERMR, clock, reports);
                        }
                        response.usage_reports.extend(self.asked_for(number, &query, &usage, clock));
                        self.rebound(number, control);
                        if grants || !response.usage_reports.is_empty() {
                            used = self.responded(number, &response.usage_reports, &usage, clock);
                        }
                    }
                    _ => {
                        // The worker has neither the old rules nor the new ones in doubt: it kept the old.
                        self.counters.refused += 1;
                        response.cause = Cause::NO_RESOURCES_AVAILABLE;
                    }
                }
                let seid = self.book.get(number).map_or(0, |entry| entry.cp_seid);
                let answer = Outgoing::Response { asked, seid, message: (*response).into() };
                if is_changed {
                    self.keep_session(number, used, Some(answer));
                } else {
                    self.out.push_back(answer);
                }
            }
            Pending::Query { asked, number, query, mut response } => {
                let mut used = None;
                if let Answer::Usage(usage) = answer {
                    self.counters.modified += 1;
                    response.usage_reports.extend(self.asked_for(number, &query, &usage, clock));
                    self.rebound(number, control);
                    used = self.responded(number, &response.usage_reports, &usage, clock);
                }
                let seid = self.book.get(number).map_or(0, |entry| entry.cp_seid);
                let answer = Outgoing::Response { asked, seid, message: (*response).into() };
                self.keep(|_| used.into_iter().collect(), Some(answer));
            }
            Pending::Delete { asked, seid: key, entry, owed } => {
                self.checkpoints.outdate(key);
                self.counters.deleted += 1;
                let usage = if let Answer::Removed(usage) = answer { usage } else { Vec::new() };
                let Some(asked) = asked else {
                    return self.keep(|_| vec![Change::DeleteSession { key }, Change::DropCheckpoint { key }], None);
                };
                let mut response =
                    SessionDeletionResponse { cause: Cause::REQUEST_ACCEPTED, ..SessionDeletionResponse::default() };
                let rules = entry.rules();
                for urr in &rules.create_urrs {
                    let Some(mut meter) = entry.meters.iter().find(|meter| meter.urr == urr.urr_id.0).cloned() else {
                        continue;
                    };
                    let counted = counted(&usage, meter.urr);
                    meter.look(&counted, clock.now);
                    meter.report(urr, &counted, UsageReportTrigger::TERMR, clock, &mut response.usage_reports);
                }
                let seid = entry.cp_seid;
                let whose = (entry.peer, &rules.node_id);
                let last = self.ended(key, whose, &owed, (seid, &response), clock);
                let answer = Outgoing::Response { asked, seid, message: response.into() };
                self.keep(|_| vec![Change::DeleteSession { key }, last], Some(answer));
            }
            Pending::Look { number } => {
                self.looking.remove(&number);
                if let Answer::Usage(usage) = answer {
                    self.looked(number, &usage, control, clock);
                }
            }
            Pending::Refresh => {}
        }
    }
}

/// Whether a modification changes nothing. One that repeats what holds already is no such: a quota is given anew, a
/// subscriber sleeps again.
fn only_asks(request: &SessionModificationRequest) -> bool {
    let rest = SessionModificationRequest {
        query_urrs: Vec::new(),
        query_urr_reference: None,
        pfcp_sm_req_flags: None,
        ..request.clone()
    };
    rest == SessionModificationRequest::default()
}

/// A session that may be installed.
struct Made {
    worker: u16,
    session: Session,
    meters: Vec<Metering>,
    keys: Vec<Key>,
}

/// Tells workers which networks are behind a session's subscriber, and no longer are.
fn steer(control: &mut Control, worker: u16, old: &[Key], new: &[Key]) {
    let routes = |keys: &[Key], not: &[Key]| {
        let here = keys.iter().filter(|key| !not.contains(key));
        here.filter_map(|key| if let Key::Route(route) = key { Some(*route) } else { None }).collect::<Vec<_>>()
    };
    control.steer_routes(worker, routes(old, new).into_iter(), routes(new, old).into_iter());
}

/// What a worker has counted for a URR; nothing, if it does not know it.
fn counted(usage: &[Usage], urr: u32) -> Usage {
    usage.iter().find(|usage| usage.urr == urr).copied().unwrap_or(Usage { urr, ..Usage::default() })
}

/// Rule IDs are unique in their session.
fn check_unique(rules: &Rules) -> Result<(), Problem> {
    fn twice<T: Copy + PartialEq>(ids: impl Iterator<Item = T>) -> Option<T> {
        let mut seen = Vec::new();
        for id in ids {
            if seen.contains(&id) {
                return Some(id);
            }
            seen.push(id);
        }
        None
    }
    let pdr = twice(rules.create_pdrs.iter().map(|pdr| pdr.pdr_id.0)).map(FailedRuleId::Pdr);
    let far = twice(rules.create_fars.iter().map(|far| far.far_id.0)).map(FailedRuleId::Far);
    let qer = twice(rules.create_qers.iter().map(|qer| qer.qer_id.0)).map(FailedRuleId::Qer);
    let urr = twice(rules.create_urrs.iter().map(|urr| urr.urr_id.0)).map(FailedRuleId::Urr);
    match pdr.or(far).or(qer).or(urr) {
        Some(rule) => Err(Problem::rule(rule)),
        None => Ok(()),
    }
}

/// The rule that brought a key that is another session's.
fn blamed(rules: &Rules, key: Key) -> FailedRuleId {
    let has = |pdr: &&pfcp::group::CreatePdr| match key {
        Key::Teid(teid) => matches!(pdr.pdi.local_f_teid, Some(FTeid::Given { teid: given, .. }) if given.0 == teid),
        Key::Ue(..) => !pdr.pdi.ue_ip_addresses.is_empty(),
        Key::Route(_) => !pdr.pdi.framed_routes.is_empty() || !pdr.pdi.framed_ip6_routes.is_empty(),
    };
    let pdr = rules.create_pdrs.iter().find(has).or(rules.create_pdrs.first());
    FailedRuleId::Pdr(pdr.map_or(0, |pdr| pdr.pdr_id.0))
}

/// What to answer when a session can not be given to its worker.
fn not_installed(error: &AskError) -> Problem {
    match error {
        AskError::Busy => Problem::of(Cause::PFCP_ENTITY_IN_CONGESTION),
        AskError::NoWorker(_) => Problem::of(Cause::SYSTEM_FAILURE),
        AskError::Rules(error) => match *error {
            CompileError::NoFar { pdr, .. }
            | CompileError::NoQer { pdr, .. }
            | CompileError::NoUrr { pdr, .. }
            | CompileError::TooManyPerRule { pdr, .. }
            | CompileError::NoTeid { pdr }
            | CompileError::NoAddress { pdr }
            | CompileError::Filter { pdr, .. } => Problem::rule(FailedRuleId::Pdr(pdr)),
            CompileError::NoPage { far } => Problem::of(Cause::NO_RESOURCES_AVAILABLE).in_rule(FailedRuleId::Far(far)),
            CompileError::NoTunnel { far, .. } => Problem::rule(FailedRuleId::Far(far)),
            CompileError::TooLarge { .. } | CompileError::TooMany { .. } => Problem::of(Cause::NO_RESOURCES_AVAILABLE),
        },
    }
}
