//! A node: associations, heartbeats, requests sent again, requests received again (6.2, 6.4).
//!
//! It does no I/O and has no clock. Whoever drives it (a user plane, a control plane, a test)
//!
//! - hands in datagrams ([`Node::receive`]) and the time ([`Node::tick`], when [`Node::due_at`] says so),
//! - reacts to what it tells ([`Node::next_event`]): answers requests ([`Node::respond`]), sends some ([`Node::request`]),
//! - takes out what is to be sent ([`Node::drain`]).
//!
//! ```text
//!              ┌─ not allowed, too many, malformed, unknown: counted
//!  receive ────┤─ request received before: answered as before
//!              ├─ heartbeat, association ──► answered; Up, Updated, Back, Gone
//!              ├─ other requests of peers ──► Request ──► respond
//!              └─ response ──► Response
//!  tick ───────┬─ no response for T1: sent again; N1 times: Failed
//!              └─ heartbeats ──► Lost ──► Gone
//! ```
//!
//! All work is O(1) per message, all memory bounded by the [`Config`]. Sources without an association share one rate and
//! one store of responses, so that making up addresses gains nothing.
//!
//! A peer is its Node ID and a set of addresses: that of its Association Setup Request, those of its set it names, or
//! those of its [`Pin`]. The port is none of it. What would end or take over its sessions waits until the peer has been
//! asked at the address it had: see `claims.rs`.

mod association;
mod claims;
mod config;
mod counters;
mod event;
mod incoming;
mod outbox;
mod pace;
mod reconfigure;
mod requests;
mod responses;
mod succession;
mod timers;

#[cfg(test)]
mod claims_tests;
#[cfg(test)]
mod tests;

pub use association::{Association, AssociationId, State};
pub use config::{Config, NeverAnswers, Pin, Role, contains};
pub use counters::Counters;
pub use event::{Contest, Event, Failure, Removal};

use crate::ie::{CpFunctionFeatures, RecoveryTimeStamp};
use crate::message::{AssociationReleaseRequest, AssociationSetupRequest, HeartbeatRequest};
use crate::{Fault, Header, Message, Packet, refusal};
use association::Associations;
use claims::Probe;
use outbox::Outbox;
use pace::Pace;
use requests::Requests;
use responses::{RequestKey, Responses, Secret};
use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, SocketAddr};

/// A point in time: since whatever the driver counts from, never going back.
pub type Time = std::time::Duration;

/// The right to answer a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket {
    key: RequestKey,
    priority: Option<u8>,
}

impl Ticket {
    /// Where the request came from.
    pub const fn from(&self) -> SocketAddr {
        self.key.from
    }

    /// The request's type of message.
    pub const fn message_type(&self) -> u8 {
        self.key.message_type
    }
}

/// A request cannot be sent now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotSent {
    /// Too many wait for a response.
    #[error("too many requests wait for a response")]
    TooManyWait,
    /// It is too long for a message.
    #[error("the request is too long")]
    TooLong,
    /// There is no such association.
    #[error("no such association")]
    NoAssociation,
}

/// What a request of ours is for.
#[derive(Clone, Copy, Debug)]
enum Purpose {
    /// The driver's.
    Driver(u64),
    Heartbeat(AssociationId),
    SetUp,
    Release(AssociationId),
}

/// What is kept for an address.
#[derive(Debug)]
struct Peer {
    pace: Pace,
    responses: Responses,
}

impl Peer {
    fn new(config: &Config) -> Peer {
        Peer::with_rate(config, config.message_rate, config.message_burst)
    }

    fn pinned(config: &Config, pin: &Pin) -> Peer {
        let own = pin.message_rate.map(|rate| (rate, rate.div_ceil(10).max(100)));
        let (rate, burst) = own.unwrap_or((config.message_rate, config.message_burst));
        Peer::with_rate(config, rate, burst)
    }

    fn with_rate(config: &Config, rate: u32, burst: u32) -> Peer {
        Peer { pace: Pace::new(rate, burst), responses: Responses::new(config.keep_responses, config.max_responses) }
    }
}

/// One end of PFCP.
#[derive(Debug)]
pub struct Node {
    config: Config,
    started: RecoveryTimeStamp,
    associations: Associations,
    /// Addresses with an association.
    peers: HashMap<IpAddr, Peer>,
    /// Those of [`Config::pins`], each for all its addresses.
    pinned: Vec<Peer>,
    /// All other addresses.
    strangers: Peer,
    requests: Requests<Purpose>,
    /// Heartbeats that confirm claims.
    probing: Requests<AssociationId>,
    /// Associations with claims.
    probes: HashMap<AssociationId, Probe>,
    /// When an association was probed last.
    probed: HashMap<AssociationId, Time>,
    /// No association gives way to another before that.
    displace_at: Time,
    /// When which association's peer gets a heartbeat.
    heartbeats: VecDeque<(Time, AssociationId)>,
    /// When which lost association goes.
    lost: VecDeque<(Time, AssociationId)>,
    events: VecDeque<Event>,
    out: Outbox,
    counters: Counters,
    /// For digests of requests.
    secret: Secret,
}

impl Node {
    /// A node that started at `started`, which its peers recognise a restart by.
    pub fn new(config: Config, started: RecoveryTimeStamp) -> Node {
        Node {
            strangers: Peer::new(&config),
            pinned: config.pins.iter().map(|pin| Peer::pinned(&config, pin)).collect(),
            requests: Requests::new(config.t1, config.n1, config.max_requests),
            probing: Requests::new(config.probe_interval, config.takeover_probes, config.max_associations),
            probes: HashMap::new(),
            probed: HashMap::new(),
            displace_at: Time::ZERO,
            associations: Associations::new(config.pins.clone()),
            config,
            started,
            peers: HashMap::new(),
            heartbeats: VecDeque::new(),
            lost: VecDeque::new(),
            events: VecDeque::new(),
            out: Outbox::default(),
            counters: Counters::default(),
            secret: Secret::random(),
        }
    }

    /// What it goes by.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// What it has done and refused.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// What is known of a peer.
    pub fn association(&self, id: AssociationId) -> Option<&Association> {
        self.associations.get(id)
    }

    /// All peers.
    pub fn associations(&self) -> impl Iterator<Item = (AssociationId, &Association)> {
        self.associations.iter()
    }

    /// Addresses that associations are with.
    pub fn addresses(&self) -> impl Iterator<Item = IpAddr> {
        self.associations.addresses()
    }

    /// How often an association has come or gone: unless this has changed, [`addresses`](Self::addresses) are the same.
    pub fn changes(&self) -> u64 {
        self.associations.changes()
    }

    /// The oldest association with an address, or with the peer that the configuration has the address for.
    pub fn first_at(&self, address: IpAddr) -> Option<AssociationId> {
        self.associations.first_at(address)
    }

    /// The next thing to react to.
    pub fn next_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Hands over what is to be sent, in order.
    pub fn drain(&mut self, send: impl FnMut(SocketAddr, &[u8])) {
        self.out.drain(send);
    }

    /// Whether requests from an address may be those of an association.
    pub fn belongs(&self, id: AssociationId, from: IpAddr) -> bool {
        self.associations.at(from).any(|one| one == id)
    }

    /// Whether an address is that of an association, or configured for one; a further one it named does not count.
    pub fn is_home(&self, from: IpAddr) -> bool {
        self.associations.at_home(from).next().is_some()
    }

    /// Associations that share the limits of this one: of the same [`Pin`], or else of the same address.
    pub fn siblings(&self, id: AssociationId) -> Vec<AssociationId> {
        self.associations.siblings(id)
    }

    /// Sessions that the association's [`Pin`] allows it; 0 while it [goes](Node::reconfigure).
    pub fn max_sessions(&self, id: AssociationId) -> Option<u32> {
        if self.is_leaving(id) {
            return Some(0);
        }
        let association = self.associations.get(id)?;
        let pins = &self.associations;
        let pin = pins.pin_of(&association.node_id).or_else(|| pins.pin_at(association.address.ip()))?;
        pins.pin(pin)?.sessions
    }

    /// Whether a peer says that it is one of a set of SMFs (SSET, MPAS: 5.22).
    pub fn is_of_set(&self, id: AssociationId) -> bool {
        let features = self.associations.get(id).and_then(|association| association.cp_function_features);
        features.is_some_and(|features| {
            features.contains(CpFunctionFeatures::SSET) || features.contains(CpFunctionFeatures::MPAS)
        })
    }

    /// A peer that is one of a set acts on its sessions from this address too; addresses of others are ignored.
    pub fn learn(&mut self, id: AssociationId, address: IpAddr) {
        if self.is_of_set(id) && (self.config.allows(address) || self.is_leaving(id)) {
            self.associations.learn(id, address);
        }
    }

    /// The driver has so many sessions of an association.
    pub fn set_sessions(&mut self, id: AssociationId, sessions: u32) {
        if let Some(association) = self.associations.get_mut(id) {
            association.sessions = sessions;
        }
    }

    /// Sends a request about the session the peer numbers `seid`, or about no session.
    ///
    /// [`Event::Response`] or [`Event::Failed`] will bring `token` back.
    ///
    /// # Errors
    /// If too many requests wait, or if it is too long.
    pub fn request(
        &mut self,
        to: SocketAddr,
        seid: Option<u64>,
        message: Message,
        token: u64,
        now: Time,
    ) -> Result<(), NotSent> {
        self.send_request(to, seid, message, Purpose::Driver(token), now)
    }

    /// Answers a request, about the session the peer numbers `seid`, or about no session.
    ///
    /// A response that is too long is counted and not sent.
    pub fn respond(&mut self, ticket: Ticket, seid: Option<u64>, message: Message, now: Time) {
        let Ticket { key, priority } = ticket;
        let packet = Packet { header: Header { seid, sequence: key.sequence, priority, follow_on: false }, message };
        match self.out.write(key.from, |out| packet.emit(out)) {
            Ok(octets) => {
                let from = key.from.ip();
                let pinned = self.associations.pin_at(from).and_then(|pin| self.pinned.get_mut(pin));
                let peer = pinned.or(self.peers.get_mut(&from)).unwrap_or(&mut self.strangers);
                peer.responses.keep(key, octets, now);
                self.counters.sent += 1;
            }
            Err(_) => self.counters.too_long += 1,
        }
    }

    /// Answers a request with what is wrong, about the session the peer numbers `seid`.
    pub fn refuse(&mut self, ticket: Ticket, seid: Option<u64>, fault: Fault, now: Time) {
        if let Some(message) = refusal::rejection(ticket.message_type(), &self.config.node_id, fault) {
            self.respond(ticket, seid, message, now);
        }
    }

    /// Asks a peer to work together: [`Event::Up`] or [`Event::NotSetUp`] will tell.
    ///
    /// # Errors
    /// If too many requests wait.
    pub fn associate(&mut self, to: SocketAddr, now: Time) -> Result<(), NotSent> {
        let request = AssociationSetupRequest {
            node_id: self.config.node_id.clone(),
            recovery_time_stamp: self.started,
            up_function_features: self.config.role.up_function_features(),
            cp_function_features: self.config.role.cp_function_features(),
            ..Default::default()
        };
        self.send_request(to, None, request.into(), Purpose::SetUp, now)
    }

    /// Ends an association: [`Event::Gone`] will tell when it is over, with or without an answer.
    ///
    /// # Errors
    /// If there is no such association, or too many requests wait.
    pub fn release(&mut self, id: AssociationId, now: Time) -> Result<(), NotSent> {
        let to = self.associations.get(id).ok_or(NotSent::NoAssociation)?.address;
        let request = AssociationReleaseRequest { node_id: self.config.node_id.clone(), ..Default::default() };
        self.send_request(to, None, request.into(), Purpose::Release(id), now)
    }

    /// What is kept for an address.
    fn peer(&mut self, from: IpAddr) -> &mut Peer {
        let pinned = self.associations.pin_at(from).and_then(|pin| self.pinned.get_mut(pin));
        pinned.or(self.peers.get_mut(&from)).unwrap_or(&mut self.strangers)
    }

    fn send_heartbeat(&mut self, id: AssociationId, now: Time) {
        let Some(association) = self.associations.get(id) else { return };
        let request = HeartbeatRequest { recovery_time_stamp: self.started, ..Default::default() };
        // If too many wait there is no need to ask whether the peer is alive.
        _ = self.send_request(association.address, None, request.into(), Purpose::Heartbeat(id), now);
    }

    fn send_request(
        &mut self,
        to: SocketAddr,
        seid: Option<u64>,
        message: Message,
        purpose: Purpose,
        now: Time,
    ) -> Result<(), NotSent> {
        let (sequence, mut octets) = self.requests.open().ok_or(NotSent::TooManyWait)?;
        let packet = Packet { header: Header { seid, ..Header::node(sequence) }, message };
        if packet.emit(&mut octets).is_err() {
            self.counters.too_long += 1;
            self.requests.recycle(octets);
            return Err(NotSent::TooLong);
        }
        self.out.push(to, &octets);
        self.counters.sent += 1;
        self.requests.wait(sequence, to, octets, purpose, now);
        Ok(())
    }
}
