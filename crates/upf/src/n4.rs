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

mod answers;
pub mod assemble;
pub mod book;
pub mod catalogue;
pub mod change;
mod checkpoint;
pub mod choose;
pub mod endpoint;
mod errors;
pub mod identifiers;
mod index;
pub mod keep;
mod load;
pub mod metering;
pub mod networks;
pub mod paths;
pub mod problem;
mod reports;
mod requests;
mod settle;
mod silence;
pub mod translate;

use std::collections::{BinaryHeap, HashMap, HashSet, VecDeque};
use std::net::IpAddr;

use pfcp::group::{ApplicationIdsPfds, PfdContext};
use pfcp::ie::{ApplicationId, FqCsid, NodeId, PfdContents};
use pfcp::message::{Message, PfdManagementRequest};
use pfcp::node::Ticket;
use stages::filter::FlowDescription;

use crate::control::Control;
use crate::rules::{Session, Usage};
use crate::sessions;
use answers::Pending;
use book::{Book, Entry, Key};
use catalogue::Catalogue;
use change::Rules;
use checkpoint::{Checkpoints, Kept};
use choose::Pools;
use identifiers::Teids;
use keep::Keeper;
use ledger::Change;
use metering::{Metering, WallClock};
use networks::Networks;
use paths::{Pace, Path, Paths};
use silence::Silence;

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

/// Sessions looked through in a turn.
const OUTDATED: usize = 64;

/// Changes that may wait for the disk beside those its writer has taken, before fewer are asked for.
const CROWD: usize = 4096;

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
    /// Sessions whose workers have not yet answered a modification, and what is asked of them meanwhile.
    unsettled: HashMap<u32, Vec<settle::Deferred>>,
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
    /// Sessions whose packets wait no longer than the control plane said: until when; and the same, soonest first.
    waits: HashMap<u32, u64>,
    waits_by_time: BinaryHeap<std::cmp::Reverse<(u64, u32)>>,
    /// Sessions still to be looked through, as applications are detected otherwise from now on.
    outdated: VecDeque<u32>,
    /// Sessions whose worker had no room, or its hands full, when it was to get their rules as they are now; and from when
    /// on it may be asked again.
    again: VecDeque<(u64, u32)>,
    /// Which those are, and those whose worker is being asked.
    is_again: HashSet<u32>,
    refreshing: HashSet<u32>,
    /// Sessions that are over, by SEID, and whose worker had its hands full when it was to hear.
    over: VecDeque<u64>,
    /// Tunnels that were told of as unknown to their ends.
    errors: errors::Told,
    /// How long sessions have been silent, of which that is to be told.
    silences: HashMap<u32, Silence>,
    applications_changed: bool,
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
            unsettled: HashMap::new(),
            looks: BinaryHeap::new(),
            looking: HashSet::new(),
            out: VecDeque::new(),
            keeper: None,
            checkpoints: Checkpoints::default(),
            paths: Paths::new(pace),
            catalogue,
            delayed: BinaryHeap::new(),
            waits: HashMap::new(),
            waits_by_time: BinaryHeap::new(),
            outdated: VecDeque::new(),
            again: VecDeque::new(),
            is_again: HashSet::new(),
            refreshing: HashSet::new(),
            over: VecDeque::new(),
            errors: errors::Told::default(),
            silences: HashMap::new(),
            applications_changed: false,
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

    /// The session of a subscriber's address, in whichever network: its number.
    pub fn find_subscriber(&self, address: IpAddr) -> Option<u32> {
        let own = match address {
            // Sessions are found by their prefix of 64 bits.
            IpAddr::V6(ip6) => std::net::Ipv6Addr::from_bits(ip6.to_bits() & !u128::from(u64::MAX)).into(),
            IpAddr::V4(_) => address,
        };
        self.networks.all().find_map(|instance| self.book.lookup(Key::Ue(instance, own)))
    }

    /// A session's rules as workers go by them, by its number.
    pub fn session(&self, number: u32, clock: &WallClock) -> Option<Session> {
        let entry = self.book.get(number)?;
        self.translator(clock).session(&entry.rules(), &entry.meters).ok()
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

    /// Puts a session of an earlier run in place: the message it was kept as, the rules in that, and what was written down
    /// of its usage; `install` gives it to its worker, which does not run yet. Tells whether it is there.
    pub fn restore(
        &mut self,
        seid: u64,
        peer: u32,
        (message, rules, usage): (Vec<u8>, &Rules, Option<&[u8]>),
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
        let whose = (peer, rules.cp_f_seid.seid);
        let is_there = self.book.restore(seid, whose, worker, message.into(), meters, keys);
        self.take_paths(number, Path::of(&session), clock.now);
        self.plan_look(number, rules, clock);
        self.go_on(number, kept);
        is_there
    }

    /// All sessions of an earlier run are in place.
    pub fn restored(&mut self) {
        self.book.settle();
    }

    /// Replaces an application's filters (PFD management, 7.4.3); none: the application is forgotten. Sessions that detect
    /// it go by the new ones soon; those of one that is forgotten detect it no more.
    pub fn set_application(&mut self, id: &ApplicationId, flows: Vec<FlowDescription>) {
        if flows.is_empty() {
            self.applications.remove(&id.0);
        } else {
            self.applications.insert(id.0.clone(), flows);
        }
        self.applications_changed = true;
    }

    /// What applications are detected by.
    pub fn applications(&self) -> HashMap<Box<str>, Vec<FlowDescription>> {
        self.applications.clone()
    }

    /// Detects applications as it did before, of which it did not go by anything else yet.
    pub fn set_applications(&mut self, applications: HashMap<Box<str>, Vec<FlowDescription>>) {
        self.applications = applications;
    }

    /// Forgets all applications.
    pub fn forget_applications(&mut self) {
        self.applications.clear();
        self.applications_changed = true;
    }

    /// The applications there are, as the message that would bring them.
    pub fn say_applications(&self) -> PfdManagementRequest {
        let contents = |flow: &FlowDescription| PfdContents {
            flow_description: Some(flow.to_string().into()),
            ..PfdContents::default()
        };
        let application = |(name, flows): (&str, &[FlowDescription])| ApplicationIdsPfds {
            application_id: ApplicationId::from(name),
            pfd_contexts: vec![PfdContext { pfd_contents: flows.iter().map(contents).collect(), ..Default::default() }],
            ..ApplicationIdsPfds::default()
        };
        let all = self.applications.iter().map(|(name, flows)| (&**name, &**flows));
        let application_ids_pfds = all.map(application).collect();
        PfdManagementRequest { application_ids_pfds, ..PfdManagementRequest::default() }
    }

    /// How loaded the node is, in per cent: as many sessions as it has of those it may have, or all when it takes no more.
    pub fn load(&self) -> u8 {
        let share = self.book.len().saturating_mul(100) / self.limits.sessions.max(1);
        if self.draining { 100 } else { share.min(100) as u8 }
    }

    /// The share of requests, in per cent, that control planes are to keep to themselves: what is full soon is sessions, or
    /// the way to the workers, or the disk's.
    pub fn overload(&self) -> u8 {
        let thousandths = |many: usize, of: usize| many as u64 * 1000 / of.max(1) as u64;
        let sessions = thousandths(self.book.len(), self.limits.sessions);
        let waiting = thousandths(self.pending.len(), usize::from(self.workers) * crate::assemble::RING);
        let kept = self.keeper.as_ref().map_or(0, |keeper| thousandths(keeper.crowded(), CROWD));
        load::reduction(sessions.max(waiting).max(kept))
    }

    /// The next message to be sent.
    pub fn take(&mut self) -> Option<Outgoing> {
        self.out.pop_front()
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
        let named = |own: &FqCsid| sets.iter().any(|set| set.shares_with(own));
        let belongs = |entry: &Entry| entry.peer == peer && entry.rules().fq_csids.iter().any(named);
        let numbers: Vec<u32> = self.book.iter().filter(|(_, entry)| belongs(entry)).map(|(n, _)| n).collect();
        numbers.into_iter().for_each(|number| self.end_unasked(number, control));
    }

    /// Takes a session out of which the control plane will not speak again: now or when its worker has a hand free.
    pub(super) fn end_unasked(&mut self, number: u32, control: &mut Control) {
        let seid = self.book.seid(number);
        if self.end(number, None, control).is_err() {
            self.over.extend(seid);
        }
    }

    /// Takes out sessions whose worker had its hands full before.
    pub(super) fn end_again(&mut self, control: &mut Control) {
        for _ in 0..self.over.len().min(OUTDATED) {
            let number = self.over.pop_front().and_then(|seid| self.book.find(seid));
            number.into_iter().for_each(|number| self.end_unasked(number, control));
        }
    }
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
