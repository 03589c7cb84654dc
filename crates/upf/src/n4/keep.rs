//! Sessions that survive a restart: what is acknowledged is on the disk.
//!
//! A change and the answer that acknowledges it wait here until the ledger has committed the change. When the ledger
//! fails, the answer says so: nothing is pretended.

use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use ledger::{Change, LedgerError, Refused, Ticket, Writer};
use pfcp::ie::{AlternativeSmfIpAddress, Cause};
use pfcp::message::{AssociationSetupRequest, Message, PfdManagementRequest};
use pfcp::node::{Association, AssociationId, State};
use pfcp::{Header, Packet};

use super::applications::{self, Applications};
use super::catalogue::Catalogue;
use super::change::Rules;
use super::checkpoint::{Checkpoints, Kept};
use super::metering::{Metering, WallClock};
use super::networks::Networks;
use super::store::{self, Key, SessionStore};
use super::translate::Translator;
use super::{N4, Outgoing, steer};
use crate::control::Control;
use crate::rules::Session;
use crate::sessions;

/// Changes that go together.
struct Held {
    ticket: Ticket,
    changes: usize,
    answer: Option<Outgoing>,
}

/// Changes that may be outstanding when background work goes on: an answer waits for all that is before it.
const BACKGROUND: usize = 256;

/// The way to the ledger.
pub struct Keeper {
    writer: Arc<Writer>,
    /// Changes that are on their way, in order, and the answers that wait for them.
    held: VecDeque<Held>,
    /// Changes in `held`, and answers.
    backlog: usize,
    answers: usize,
    /// Changes the ledger had no room for yet, with their answers.
    crowded: VecDeque<(Vec<Change>, Option<Outgoing>)>,
    failed: Option<LedgerError>,
}

impl Keeper {
    /// Over a ledger's writer.
    pub fn new(writer: Arc<Writer>) -> Self {
        Self { writer, held: VecDeque::new(), backlog: 0, answers: 0, crowded: VecDeque::new(), failed: None }
    }

    /// Keeps changes; the answer goes when they are on the disk.
    pub fn keep(&mut self, changes: Vec<Change>, answer: Option<Outgoing>) {
        if self.crowded.is_empty() {
            self.submit(changes, answer);
        } else {
            self.crowded.push_back((changes, answer));
        }
    }

    fn submit(&mut self, changes: Vec<Change>, answer: Option<Outgoing>) {
        let count = changes.len();
        match self.writer.submit(changes) {
            Ok(ticket) => self.hold(ticket, count, answer),
            Err(Refused::Full(changes)) => self.crowded.push_front((changes, answer)),
            Err(Refused::Failed(error)) => {
                self.failed = Some(error);
                // Ordered behind all others; let go with them.
                self.hold(Ticket(u64::MAX), count, answer);
            }
        }
    }

    fn hold(&mut self, ticket: Ticket, changes: usize, answer: Option<Outgoing>) {
        self.backlog += changes;
        self.answers += usize::from(answer.is_some());
        self.held.push_back(Held { ticket, changes, answer });
    }

    /// Whether answers wait.
    pub fn is_waiting(&self) -> bool {
        self.answers > 0 || !self.crowded.is_empty()
    }

    /// Whether background work may add changes.
    pub(crate) fn has_background_room(&self) -> bool {
        self.backlog < BACKGROUND && self.crowded.is_empty()
    }

    /// Changes that its writer had no room for.
    pub fn crowded(&self) -> usize {
        self.crowded.len()
    }

    /// Why nothing can be kept any more.
    pub fn failed(&self) -> Option<&LedgerError> {
        self.failed.as_ref()
    }

    /// Lets go the answers whose changes are on the disk.
    pub fn let_go(&mut self, out: &mut VecDeque<Outgoing>) {
        while let Some((changes, answer)) = self.crowded.pop_front() {
            let before = self.crowded.len();
            self.submit(changes, answer);
            if self.crowded.len() > before {
                break;
            }
        }
        if self.held.is_empty() {
            return;
        }
        let progress = self.writer.progress();
        self.failed = self.failed.take().or(progress.failed);
        while let Some(Held { ticket, .. }) = self.held.front() {
            let is_kept = *ticket <= progress.durable;
            if !is_kept && self.failed.is_none() {
                break;
            }
            let Some(Held { changes, answer, .. }) = self.held.pop_front() else { break };
            self.backlog -= changes;
            let Some(answer) = answer else { continue };
            self.answers -= 1;
            out.push_back(if is_kept { answer } else { not_kept(answer) });
        }
    }
}

/// An answer whose change could not be kept.
fn not_kept(mut answer: Outgoing) -> Outgoing {
    if let Outgoing::Response { message, .. } | Outgoing::NodeResponse { message, .. } = &mut answer {
        match message {
            Message::PfdManagementResponse(response) => response.cause = Cause::SYSTEM_FAILURE,
            Message::SessionEstablishmentResponse(response) => response.cause = Cause::SYSTEM_FAILURE,
            Message::SessionModificationResponse(response) => response.cause = Cause::SYSTEM_FAILURE,
            _ => {}
        }
    }
    answer
}

impl N4 {
    /// Keeps sessions from now on: answers go when what they acknowledge is on the disk. What they have used is written
    /// down once in `interval` nanoseconds.
    pub fn keep_in(&mut self, keeper: Keeper, interval: u64, now: u64) {
        self.keeper = Some(keeper);
        self.checkpoints = Checkpoints::every(interval, now);
    }

    /// As [`keep_in`](Self::keep_in), with sessions that another process has kept until now.
    pub(crate) fn keep_on(&mut self, keeper: Keeper, interval: u64, now: u64) {
        self.keeper = Some(keeper);
        self.checkpoints.begin(interval, now);
    }

    /// Whether sessions survive a restart.
    pub fn is_kept(&self) -> bool {
        self.keeper.is_some()
    }

    /// Keeps changes, if anything is kept; the answer goes then.
    pub(super) fn keep(&mut self, changes: impl FnOnce(&SessionStore) -> Vec<Change>, answer: Option<Outgoing>) {
        match &mut self.keeper {
            Some(keeper) => keeper.keep(changes(&self.store), answer),
            None => self.out.extend(answer),
        }
    }

    /// As [`keep`](Self::keep), what is kept of a session, and what of its usage if that has changed.
    pub(super) fn keep_session(&mut self, number: u32, usage: Option<Change>, answer: Option<Outgoing>) {
        let put = |store: &SessionStore| {
            let entry = store.seid(number).zip(store.get(number));
            let put = entry.map(|(key, entry)| Change::PutSession { key, bytes: entry.message().to_vec() });
            put.into_iter().chain(usage).collect()
        };
        self.keep(put, answer);
    }

    /// Makes room for so many sessions.
    pub fn reserve(&mut self, sessions: usize) {
        self.store.reserve(sessions);
    }

    /// Keeps what is not a session.
    pub(crate) fn keep_else(&mut self, change: Change) {
        self.keep(|_| vec![change], None);
    }

    /// What kept sessions are read by, on another thread.
    pub(super) fn reader(&self, clock: &WallClock) -> Reader {
        let (networks, catalogue) = (self.networks.clone(), self.catalogue.clone());
        Reader { networks, catalogue, applications: self.applications.clone(), clock: *clock }
    }

    /// Puts a session of an earlier run in place; `install` gives it to its worker, which does not run yet. Tells whether it
    /// is there.
    pub(super) fn restore(
        &mut self,
        ready: Ready,
        control: &mut Control,
        clock: &WallClock,
        install: &mut dyn FnMut(u16, u32, &crate::compile::Compiled) -> bool,
    ) -> bool {
        let Ready { seid, peer, worker, is_marked, message, rules, kept, meters, session, keys } = ready;
        let number = (seid as u32).wrapping_sub(1); // as the store puts SEIDs together
        if self.store.get(number).is_some() || self.store.conflict(&keys, None).is_some() {
            return false;
        }
        let worker = worker.unwrap_or_else(|| self.worker_for(&rules, session.instance));
        let Ok(mut compiled) = control.adopt(worker, number, &session) else { return false };
        sessions::set_counts(&mut compiled.lines, &kept.counted);
        if !install(worker, number, &compiled) {
            return false;
        }
        steer(control, worker, &[], &keys);
        let whose = (peer, rules.cp_f_seid.seid);
        let is_there = self.store.restore(seid, whose, worker, message.into(), meters, keys);
        self.store.set_sets(number, store::sets(&rules.fq_csids));
        self.store.reserve_for(number, &session, clock.now);
        self.plan_look(number, &rules, clock);
        self.go_on(number, kept);
        if !is_marked {
            self.keep_session(number, None, None);
        }
        is_there
    }

    /// All sessions of an earlier run are in place.
    pub fn restored(&mut self) {
        self.store.settle();
    }
}

/// A session of an earlier run, read, to be put in place.
pub(super) struct Ready {
    seid: u64,
    peer: u32,
    /// The worker it is on; none: as its addresses have it.
    worker: Option<u16>,
    /// Its association's mark is kept with it: not by earlier versions.
    is_marked: bool,
    message: Vec<u8>,
    rules: Box<Rules>,
    kept: Kept,
    meters: Vec<Metering>,
    session: Session,
    keys: Vec<Key>,
}

impl Ready {
    /// Takes the reports out that may not have arrived.
    pub(crate) fn take_owed(&mut self) -> Vec<Vec<u8>> {
        self.kept.take_owed()
    }

    /// On that worker.
    pub fn on(self, worker: u16) -> Self {
        Self { worker: Some(worker), ..self }
    }
}

/// What kept sessions are read by.
pub(super) struct Reader {
    networks: Networks,
    catalogue: Catalogue,
    applications: HashMap<u32, Applications>,
    clock: WallClock,
}

impl Reader {
    /// A session of an association's: the message it was kept as, the rules in that, and what was written down of its
    /// usage. None: the session is not valid any more.
    pub fn ready(
        &self,
        (seid, peer, is_marked): (u64, u32, bool),
        message: Vec<u8>,
        rules: Box<Rules>,
        usage: Option<Vec<u8>>,
    ) -> Option<Ready> {
        let Self { networks, catalogue, applications, clock } = self;
        let kept = usage.map_or_else(Kept::default, |bytes| Kept::read(&bytes, clock));
        let meter = |urr: &pfcp::group::CreateUrr| {
            let known = kept.meters.iter().find(|meter| meter.urr == urr.urr_id.0);
            known.cloned().unwrap_or_else(|| Metering::new(urr.urr_id.0, clock.now))
        };
        let meters: Vec<Metering> = rules.create_urrs.iter().map(meter).collect();
        let unix = clock.unix(clock.now);
        let translator = Translator { networks, applications: applications.get(&peer), catalogue, unix };
        let session = translator.session(&rules, &meters).ok()?;
        let keys = store::keys(&session);
        Some(Ready { seid, peer, worker: None, is_marked, message, rules, kept, meters, session, keys })
    }
}

/// The key an association is kept under: sessions' keys, their SEIDs, have something in the lower half.
pub(crate) fn association_key(id: AssociationId) -> u64 {
    u64::from(id.0) << 32
}

/// The association that a key is of.
pub(crate) fn association_id(key: u64) -> AssociationId {
    AssociationId((key >> 32) as u32) // the upper half, as it was put together
}

/// The key that earlier versions kept under what all control planes' applications are detected by: no association has that
/// number.
pub const APPLICATIONS: u64 = (u32::MAX as u64) << 32;

/// Whether what is kept under a key is an association (or what [`APPLICATIONS`] names).
pub(crate) fn is_association(key: u64) -> bool {
    key & u64::from(u32::MAX) == 0
}

/// An association as octets: its address as text after its length, the message that would set it up, and, if it has
/// applications, the one that would bring these.
pub(crate) fn association_bytes(association: &Association, applications: Option<&Applications>) -> Vec<u8> {
    let address = association.address.to_string();
    let message = AssociationSetupRequest {
        node_id: association.node_id.clone(),
        recovery_time_stamp: association.recovery_time_stamp,
        cp_function_features: association.cp_function_features,
        alternative_smf_ip_addresses: association.alternatives.iter().copied().map(alternative).collect(),
        ..AssociationSetupRequest::default()
    };
    let mut bytes = vec![address.len() as u8]; // an address and a port: some fifty at most
    bytes.extend(address.as_bytes());
    // A few octets; it fits a message.
    let _ = Packet { header: Header::node(0), message: message.into() }.emit(&mut bytes);
    if let Some(applications) = applications {
        // It fits a message: otherwise it was refused.
        let _ = Packet { header: Header::node(0), message: applications::say(applications).into() }.emit(&mut bytes);
    }
    bytes
}

fn alternative(address: IpAddr) -> AlternativeSmfIpAddress {
    let (ip4, ip6) = match address {
        IpAddr::V4(ip4) => (Some(ip4), None),
        IpAddr::V6(ip6) => (None, Some(ip6)),
    };
    AlternativeSmfIpAddress { ip4, ip6, ..AlternativeSmfIpAddress::default() }
}

/// The way back: the association, and the message that would bring its applications.
pub fn association_of(bytes: &[u8]) -> Option<(Association, Option<PfdManagementRequest>)> {
    let (len, rest) = bytes.split_first()?;
    let (address, message) = rest.split_at_checked(usize::from(*len))?;
    let address: SocketAddr = std::str::from_utf8(address).ok()?.parse().ok()?;
    let of_setup = 4 + usize::from(u16::from_be_bytes(message.get(2..4)?.try_into().ok()?));
    let (setup, applications) = message.split_at_checked(of_setup)?;
    let Ok(Packet { message: Message::AssociationSetupRequest(request), .. }) = Packet::parse(setup) else {
        return None;
    };
    let applications = match Packet::parse(applications).map(|packet| packet.message) {
        Ok(Message::PfdManagementRequest(request)) => Some(request),
        _ => None,
    };
    let alternatives = request.alternative_smf_ip_addresses.iter();
    let association = Association {
        alternatives: alternatives
            .flat_map(|one| [one.ip4.map(IpAddr::V4), one.ip6.map(IpAddr::V6)])
            .flatten()
            .collect(),
        confirmed: false,
        shared: false,
        sessions: 0,
        since: Duration::ZERO,
        node_id: request.node_id,
        address,
        recovery_time_stamp: request.recovery_time_stamp,
        up_function_features: None,
        cp_function_features: request.cp_function_features,
        user_plane_ip_resource_information: Vec::new(),
        state: State::Up,
        answers_heartbeats: false,
    };
    Some((association, applications))
}
