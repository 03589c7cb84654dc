//! Requests that would end or take over the sessions of a peer (claims), and the heartbeats that confirm them (probes).
//!
//! Any sender may write a peer's Node ID, or its address, into a message. So what such a message asks for waits until the
//! address the association has so far has answered a heartbeat of ours, whose sequence number nobody can predict:
//!
//! ```text
//!                        answers with the claim's     answers with         answers with      does not answer
//!                        time stamp, a new one        the one it had       yet another
//! Setup, own address     granted                      granted (1)          refused           granted (2)
//! Setup, other address   granted, sessions end        refused              refused           granted: taken over (3)
//! Release, set deletion  sessions end: restarted      granted (1)          granted (1)       granted (2)
//! later time stamp       sessions end: restarted      nothing              nothing           nothing
//! ```
//!
//! 1. If it would end sessions of the whole association: not before [`Config::contradiction`](super::Config), and not if
//!    one of them is used meanwhile.
//! 2. After [`Config::probes`](super::Config), unless a session is used meanwhile. Some peers answer no heartbeats.
//! 3. After [`Config::takeover_probes`](super::Config), unless anything comes from the peer's own addresses meanwhile.
//!
//! Where several associations share an address, an answer with the time stamp of one says nothing about the others, and an
//! unknown time stamp counts for those only that have answered there with their own before.

use super::association::{Association, State};
use super::{AssociationId, Contest, Event, Node, Removal, Ticket, Time};
use crate::ie::{Cause, NodeId, RecoveryTimeStamp};
use crate::message::*;
use crate::{Fault, Header, Packet};
use std::net::{IpAddr, SocketAddr};

/// Claims that wait for the same peer.
const MAX_CLAIMS: usize = 8;
/// Unexpected heartbeat responses after which no answer to a probe is believed: somebody guesses its sequence number.
const MAX_FORGED: u32 = 32;

/// What a request claims.
#[derive(Debug)]
enum What {
    SetUp { ticket: Ticket, request: Box<AssociationSetupRequest>, own: bool },
    Release(Ticket),
    SetDeletion(Ticket, Box<Packet>),
    Restart(SocketAddr),
}

/// A request that waits to be confirmed.
#[derive(Debug)]
pub(super) struct Claim {
    what: What,
    since: Time,
    /// When a probe was first sent for it.
    asked: Option<Time>,
    answer: Option<RecoveryTimeStamp>,
    /// Something came from one of the peer's addresses meanwhile.
    heard: bool,
    /// A session was used meanwhile.
    in_use: bool,
}

impl Claim {
    fn new(what: What, since: Time) -> Claim {
        Claim { what, since, asked: None, answer: None, heard: false, in_use: false }
    }

    pub fn set_up(ticket: Ticket, request: Box<AssociationSetupRequest>, own: bool, now: Time) -> Claim {
        Claim::new(What::SetUp { ticket, request, own }, now)
    }

    pub fn release(ticket: Ticket, now: Time) -> Claim {
        Claim::new(What::Release(ticket), now)
    }

    pub fn set_deletion(ticket: Ticket, packet: Packet, now: Time) -> Claim {
        Claim::new(What::SetDeletion(ticket, Box::new(packet)), now)
    }

    /// Claims of peers' own addresses are seen to first.
    fn order(&self) -> u8 {
        match &self.what {
            What::SetUp { own: true, .. } => 0,
            What::SetUp { .. } => 1,
            What::Release(_) => 2,
            What::SetDeletion(..) => 3,
            What::Restart(_) => 4,
        }
    }

    /// Whether it is the same request, sent again with another sequence number.
    fn repeats(&self, other: &Claim) -> bool {
        match (&self.what, &other.what) {
            (What::SetUp { ticket, request, .. }, What::SetUp { ticket: other, request: others, .. }) => {
                ticket.from().ip() == other.from().ip()
                    && request.recovery_time_stamp == others.recovery_time_stamp
                    && request.pfcp_session_retention_information == others.pfcp_session_retention_information
            }
            (What::Release(_), What::Release(_)) | (What::Restart(_), What::Restart(_)) => true,
            _ => false,
        }
    }
}

/// The claims on an association, and the heartbeat that is to confirm them.
#[derive(Debug, Default)]
pub(super) struct Probe {
    /// The heartbeat's number, while it waits for its answer, and when it was sent.
    sequence: Option<(u32, Time)>,
    /// When the next one is to be sent.
    send_at: Option<Time>,
    claims: Vec<Claim>,
    forged: u32,
}

/// What the time stamp of a heartbeat response says of an association.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reading {
    /// It is there as before.
    Same,
    /// It has restarted.
    Restarted,
    /// It is a time stamp from before.
    Older,
    /// Another association of the address answered, or nobody knows which.
    Another,
}

/// What becomes of a claim.
enum Verdict {
    Grant,
    /// Granted, but no session is kept.
    GrantAnew,
    Refuse,
    /// The peer has restarted: its sessions end.
    Restarted,
    WaitUntil(Option<Time>),
}

impl Node {
    /// A session of the association was used in a way that only its peer can: the peer has not forgotten its sessions.
    pub fn session_used(&mut self, id: AssociationId) {
        if let Some(probe) = self.probes.get_mut(&id) {
            probe.claims.iter_mut().for_each(|claim| claim.in_use = true);
        }
    }

    /// A request has come from there.
    pub(super) fn heard(&mut self, from: IpAddr) {
        if self.probes.is_empty() {
            return;
        }
        for id in self.associations.at(from) {
            if let Some(probe) = self.probes.get_mut(&id) {
                probe.claims.iter_mut().for_each(|claim| claim.heard = true);
            }
        }
    }

    /// A heartbeat request has come in the name of the peers at an address. Nothing ends by it: if its time stamp is new,
    /// each of them is asked.
    pub(super) fn heartbeat_in_name_of(&mut self, from: SocketAddr, since: RecoveryTimeStamp, now: Time) {
        let ids = self.associations.of_address(from.ip()).to_vec();
        let stamp = |node: &Node, id| node.associations.get(id).map(|association| association.recovery_time_stamp);
        let (known, others): (Vec<_>, Vec<_>) = ids.into_iter().partition(|id| stamp(self, *id) == Some(since));
        known.iter().for_each(|id| self.is_back(*id));
        if known.is_empty() {
            for id in others {
                if stamp(self, id).is_some_and(|before| is_later(since, before)) {
                    self.claim(id, Claim::new(What::Restart(from), now), now);
                }
            }
        }
    }

    /// What a time stamp from an association's address says of it.
    pub(super) fn read(&self, id: AssociationId, since: RecoveryTimeStamp) -> Reading {
        let Some(own) = self.associations.get(id) else { return Reading::Another };
        if own.recovery_time_stamp == since {
            return Reading::Same;
        }
        let others = self.associations.of_address(own.address.ip()).iter().filter(|other| **other != id);
        let mut others = others.filter_map(|other| self.associations.get(*other));
        let is_others = others.any(|other| other.recovery_time_stamp == since);
        match (is_others || (own.shared && !own.confirmed), is_later(since, own.recovery_time_stamp)) {
            (true, _) => Reading::Another,
            (false, true) => Reading::Restarted,
            (false, false) => Reading::Older,
        }
    }

    /// Has a request wait until the peer has been asked.
    pub(super) fn claim(&mut self, id: AssociationId, mut claim: Claim, now: Time) {
        let probe = self.probes.entry(id).or_default();
        if let Some(same) = probe.claims.iter_mut().find(|one| one.repeats(&claim)) {
            // The answer goes to the last; what came before has no other.
            std::mem::swap(&mut same.what, &mut claim.what);
            return;
        }
        if probe.claims.len() >= MAX_CLAIMS {
            self.counters.claims_dropped += 1;
            if let What::SetUp { ticket, .. } | What::Release(ticket) | What::SetDeletion(ticket, _) = claim.what {
                self.peer(ticket.from().ip()).responses.withdraw(&ticket.key);
            }
            return;
        }
        probe.claims.push(claim);
        let next = self.probed.get(&id).map_or(now, |last| (*last + self.config.probe_interval).max(now));
        probe.send_at = probe.send_at.or(Some(next));
        if next <= now {
            self.send_probe(id, now);
        }
    }

    fn send_probe(&mut self, id: AssociationId, now: Time) {
        let (Some(association), Some(probe)) = (self.associations.get(id), self.probes.get_mut(&id)) else { return };
        if let Some((before, _)) = probe.sequence.take() {
            self.probing.cancel(before);
        }
        // As many may wait as there are associations, so there is room.
        let Some((sequence, mut octets)) = self.probing.open() else { return };
        let message = HeartbeatRequest { recovery_time_stamp: self.started, ..Default::default() }.into();
        if (Packet { header: Header::node(sequence), message }).emit(&mut octets).is_err() {
            return self.probing.recycle(octets);
        }
        (probe.sequence, probe.send_at) = (Some((sequence, now)), None);
        probe.claims.iter_mut().for_each(|claim| claim.asked = claim.asked.or(Some(now)));
        self.out.push(association.address, &octets);
        self.probing.wait(sequence, association.address, octets, id, now);
        self.probed.insert(id, now);
        self.counters.sent += 1;
        self.counters.probes += 1;
    }

    /// A response that answers no request but perhaps a probe.
    pub(super) fn on_probe_response(&mut self, from: SocketAddr, packet: Packet, now: Time) {
        let (sequence, message_type) = (packet.header.sequence, packet.message.message_type());
        let request = self.probing.answered(from, sequence, message_type);
        let Message::HeartbeatResponse(response) = packet.message else {
            return self.counters.unexpected_responses += u64::from(request.is_none());
        };
        let Some(request) = request else {
            self.counters.unexpected_responses += 1;
            return self.forged(from.ip(), now);
        };
        let id = request.purpose;
        self.probing.recycle(request.octets);
        let since = response.recovery_time_stamp;
        let reading = self.read(id, since);
        if let Some(association) = self.associations.get_mut(id) {
            association.answers_heartbeats = true;
            association.confirmed |= reading == Reading::Same;
        }
        if reading == Reading::Same {
            self.is_back(id);
        }
        if let Some(probe) = self.probes.get_mut(&id) {
            let sent = probe.sequence.take().map_or(now, |(_, sent)| sent);
            let asked = probe.claims.iter_mut().filter(|claim| claim.since <= sent && claim.answer.is_none());
            asked.for_each(|claim| claim.answer = Some(since));
        }
        self.settle_claims(id, now);
    }

    /// Somebody answers heartbeats that were not sent.
    fn forged(&mut self, from: IpAddr, now: Time) {
        for id in self.associations.of_address(from).to_vec() {
            let Some(probe) = self.probes.get_mut(&id) else { continue };
            probe.forged += 1;
            if probe.forged > MAX_FORGED {
                self.counters.probes_forged += 1;
                self.take_claims(id).into_iter().for_each(|claim| self.refuse_claim(id, claim, now));
            }
        }
    }

    fn take_claims(&mut self, id: AssociationId) -> Vec<Claim> {
        let Some(probe) = self.probes.remove(&id) else { return Vec::new() };
        if let Some((sequence, _)) = probe.sequence {
            self.probing.cancel(sequence);
        }
        probe.claims
    }

    /// When [`see_to_claims`](Self::see_to_claims) will have something to do.
    pub(super) fn claims_due_at(&self) -> Option<Time> {
        let of_probe = |(id, probe): (&AssociationId, &Probe)| {
            let of_claim = |claim: &Claim| match self.judge(*id, claim, Time::ZERO) {
                Verdict::WaitUntil(at) => at,
                _ => Some(Time::ZERO),
            };
            probe.claims.iter().filter_map(of_claim).chain(probe.send_at).min()
        };
        self.probes.iter().filter_map(of_probe).chain(self.probing.due_at()).min()
    }

    /// Sends probes that are due and decides claims whose time has come.
    pub(super) fn see_to_claims(&mut self, now: Time) {
        use super::requests::Due;
        while let Some(due) = self.probing.next_due(now) {
            match due {
                Due::Again { sequence } => {
                    if let Some(request) = self.probing.get(sequence) {
                        self.out.push(request.to, &request.octets);
                        self.counters.sent += 1;
                        self.counters.retransmitted += 1;
                    }
                }
                Due::Over(request) => {
                    if let Some(probe) = self.probes.get_mut(&request.purpose) {
                        probe.sequence = None;
                    }
                    self.probing.recycle(request.octets);
                }
            }
        }
        if self.probes.is_empty() {
            return;
        }
        let ids: Vec<AssociationId> = self.probes.keys().copied().collect();
        for id in ids {
            if self.probes.get(&id).and_then(|probe| probe.send_at).is_some_and(|at| at <= now) {
                self.send_probe(id, now);
            }
            self.settle_claims(id, now);
        }
    }

    /// Decides the claims on an association that can be decided now.
    fn settle_claims(&mut self, id: AssociationId, now: Time) {
        let Some(mut probe) = self.probes.remove(&id) else { return };
        probe.claims.sort_by_key(Claim::order);
        let mut waiting = Vec::new();
        for claim in std::mem::take(&mut probe.claims) {
            if self.associations.get(id).is_none() {
                self.without_association(claim, now);
                continue;
            }
            match self.judge(id, &claim, now) {
                Verdict::WaitUntil(_) => waiting.push(claim),
                Verdict::Grant => self.grant(id, claim, true, now),
                Verdict::GrantAnew => self.grant(id, claim, false, now),
                Verdict::Refuse => self.refuse_claim(id, claim, now),
                Verdict::Restarted => {
                    self.counters.peers_restarted += 1;
                    self.remove(id, Removal::Restarted, now);
                    self.without_association(claim, now);
                }
            }
        }
        let is_there = self.associations.get(id).is_some();
        if let Some((sequence, _)) = probe.sequence.filter(|_| waiting.is_empty() || !is_there) {
            self.probing.cancel(sequence);
        }
        if !is_there {
            waiting.into_iter().for_each(|claim| self.without_association(claim, now));
        } else if !waiting.is_empty() {
            probe.claims = waiting;
            self.probes.insert(id, probe);
        }
    }

    /// The association is gone: its claims find none.
    pub(super) fn drop_claims(&mut self, id: AssociationId, now: Time) {
        self.probed.remove(&id);
        self.take_claims(id).into_iter().for_each(|claim| self.without_association(claim, now));
    }

    fn judge(&self, id: AssociationId, claim: &Claim, now: Time) -> Verdict {
        let Some(association) = self.associations.get(id) else { return Verdict::Refuse };
        let reading = claim.answer.map(|since| self.read(id, since));
        match &claim.what {
            What::SetUp { request, own, .. } => {
                let is_new = request.recovery_time_stamp != association.recovery_time_stamp;
                let retains = request.pfcp_session_retention_information.is_some();
                match (claim.answer == Some(request.recovery_time_stamp), reading) {
                    (true, _) if is_new && *own => Verdict::Grant,
                    (true, _) if is_new => Verdict::GrantAnew,
                    (true, _) if *own && retains => Verdict::Grant,
                    (true, _) if *own => self.unless_contradicted(association, claim, now),
                    // A process that shares the peer's address has answered; perhaps nobody can answer for the peer.
                    (_, Some(Reading::Another)) if *own => self.unless_silent(association, claim, now),
                    (_, Some(_)) => Verdict::Refuse,
                    (_, None) => self.unless_silent(association, claim, now),
                }
            }
            What::Release(_) => match reading {
                Some(Reading::Restarted) => Verdict::Restarted,
                Some(Reading::Same | Reading::Older) => self.unless_contradicted(association, claim, now),
                Some(Reading::Another) | None => self.unless_silent(association, claim, now),
            },
            What::SetDeletion(..) => match reading {
                Some(Reading::Restarted) => Verdict::Restarted,
                Some(_) => Verdict::Grant,
                None => self.unless_silent(association, claim, now),
            },
            What::Restart(_) => match reading {
                Some(Reading::Restarted) => Verdict::Restarted,
                Some(_) => Verdict::Refuse,
                None => self.unless_silent(association, claim, now),
            },
        }
    }

    /// The peer is there, and may have sent the request: it has a moment to contradict.
    fn unless_contradicted(&self, association: &Association, claim: &Claim, now: Time) -> Verdict {
        let until = claim.since + self.config.contradiction;
        if association.sessions > 0 && claim.in_use {
            Verdict::Refuse
        } else if association.sessions == 0 || now >= until {
            Verdict::Grant
        } else {
            Verdict::WaitUntil(Some(until))
        }
    }

    /// The peer has not answered yet.
    fn unless_silent(&self, association: &Association, claim: &Claim, now: Time) -> Verdict {
        let is_foreign = matches!(claim.what, What::SetUp { own: false, .. });
        let is_contradicted = match &claim.what {
            What::SetUp { own: false, .. } => claim.heard,
            What::SetUp { .. } | What::Release(_) => claim.in_use,
            // Sessions of other sets are used all the while.
            What::SetDeletion(..) | What::Restart(_) => false,
        };
        if is_contradicted {
            return Verdict::Refuse;
        }
        let is_up = association.state == State::Up;
        let probes = if is_foreign && is_up { self.config.takeover_probes } else { self.config.probes };
        let until = claim.asked.map(|asked| asked + self.config.probe_interval * probes.into());
        match (until, &claim.what) {
            (Some(until), What::Restart(_)) if now >= until => Verdict::Refuse,
            (Some(until), _) if now >= until => Verdict::Grant,
            (until, _) => Verdict::WaitUntil(until),
        }
    }

    fn grant(&mut self, id: AssociationId, claim: Claim, may_retain: bool, now: Time) {
        match claim.what {
            What::SetUp { ticket, request, own } => {
                let retains = may_retain && request.pfcp_session_retention_information.is_some();
                let (node_id, since) = (request.node_id.clone(), request.recovery_time_stamp);
                if !own {
                    self.counters.associations_taken_over += 1;
                    self.contest(node_id.clone(), ticket.from(), Contest::TakenOver);
                }
                let before = self.associations.get(id).map(|before| before.recovery_time_stamp);
                self.counters.peers_restarted += u64::from(before != Some(since));
                self.accept_set_up(ticket, *request, retains.then_some(id), now);
                let now_there = self.associations.of_node(&node_id).and_then(|id| self.associations.get_mut(id));
                if let Some(association) = now_there {
                    association.confirmed = own && claim.answer == Some(since);
                }
            }
            What::Release(ticket) => {
                self.remove(id, Removal::Released, now);
                self.answer_release(ticket, Cause::REQUEST_ACCEPTED, now);
            }
            What::SetDeletion(ticket, packet) => {
                self.events.push_back(Event::Request { ticket, association: id, packet: *packet });
            }
            What::Restart(_) => {}
        }
    }

    fn refuse_claim(&mut self, id: AssociationId, claim: Claim, now: Time) {
        let node_id = self.associations.get(id).map(|association| association.node_id.clone()).unwrap_or_default();
        match claim.what {
            What::SetUp { ticket, own, .. } => {
                let (count, outcome) = if own {
                    (&mut self.counters.setups_refused, Contest::SetupRefused)
                } else {
                    (&mut self.counters.takeovers_refused, Contest::TakeoverRefused)
                };
                *count += 1;
                self.contest(node_id, ticket.from(), outcome);
                self.answer_set_up(ticket, Cause::REQUEST_REJECTED, false, now);
            }
            What::Release(ticket) => {
                self.counters.releases_refused += 1;
                self.contest(node_id, ticket.from(), Contest::ReleaseRefused);
                self.answer_release(ticket, Cause::REQUEST_REJECTED, now);
            }
            What::SetDeletion(ticket, _) => {
                self.counters.releases_refused += 1;
                self.contest(node_id, ticket.from(), Contest::ReleaseRefused);
                self.refuse(ticket, None, Fault { cause: Cause::REQUEST_REJECTED, ie: 0 }, now);
            }
            What::Restart(from) => {
                self.counters.restarts_not_confirmed += 1;
                self.contest(node_id, from, Contest::RestartNotConfirmed);
            }
        }
    }

    /// What the claim was on is gone already.
    fn without_association(&mut self, claim: Claim, now: Time) {
        match claim.what {
            What::SetUp { ticket, request, .. } => self.on_set_up(ticket, request, now),
            What::Release(ticket) => self.answer_release(ticket, Cause::REQUEST_ACCEPTED, now),
            What::SetDeletion(ticket, _) => self.refuse_stranger(ticket, None, now),
            What::Restart(_) => {}
        }
    }

    fn answer_release(&mut self, ticket: Ticket, cause: Cause, now: Time) {
        let node_id = self.config.node_id.clone();
        let response = AssociationReleaseResponse { node_id, cause, ..Default::default() };
        self.respond(ticket, None, response.into(), now);
    }

    pub(super) fn contest(&mut self, node_id: NodeId, from: SocketAddr, outcome: Contest) {
        self.events.push_back(Event::Contested { node_id, from, outcome });
    }
}

/// Whether a time stamp is later than another; the seconds wrap around in 2036.
fn is_later(one: RecoveryTimeStamp, other: RecoveryTimeStamp) -> bool {
    (1..1 << 31).contains(&one.0.wrapping_sub(other.0))
}
