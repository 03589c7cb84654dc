//! What becomes of a datagram.

use super::association::{Association, State};
use super::claims::{Claim, Reading};
use super::responses::{RequestKey, Seen};
use super::{AssociationId, Contest, Event, Failure, Node, Peer, Purpose, Removal, Ticket, Time};
use crate::header::Malformed;
use crate::ie::{Cause, NodeId, PfcpAsRspFlags, RecoveryTimeStamp};
use crate::message::*;
use crate::{Fault, Header, Packet, Refusal};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// An association without sessions that was not confirmed by then may give way to another.
const DISPLACED_AFTER: Duration = Duration::from_secs(30);
const NO_ASSOCIATION: Fault = Fault { cause: Cause::NO_ESTABLISHED_PFCP_ASSOCIATION, ie: 0 };

impl Node {
    /// Takes a datagram: one message, or several (6.6).
    pub fn receive(&mut self, from: SocketAddr, datagram: &[u8], now: Time) {
        if !self.takes_from(from.ip()) {
            self.counters.not_allowed += 1;
            return;
        }
        for message in crate::messages(datagram) {
            if !self.peer(from.ip()).pace.pass(now) {
                self.counters.too_many += 1;
                return;
            }
            self.counters.received += 1;
            self.receive_one(from, message, now);
        }
    }

    fn receive_one(&mut self, from: SocketAddr, octets: &[u8], now: Time) {
        let parts = match Header::split(octets) {
            Ok(parts) => parts,
            Err(Malformed::Version(_)) => return self.version_not_supported(from, octets),
            Err(_) => return self.counters.malformed += 1,
        };
        let Header { sequence, priority, .. } = parts.header;
        let key = RequestKey::new(&self.secret, from, sequence, parts.message_type, octets);
        if is_request(parts.message_type) {
            let pinned = self.associations.pin_at(from.ip()).and_then(|pin| self.pinned.get_mut(pin));
            let peer = pinned.or(self.peers.get_mut(&from.ip())).unwrap_or(&mut self.strangers);
            match peer.responses.note(key, now) {
                Seen::New => {}
                Seen::Waiting => return self.counters.duplicates_waiting += 1,
                Seen::Answered(response) => {
                    self.out.push(from, response);
                    self.counters.sent += 1;
                    self.counters.duplicates_answered += 1;
                    return;
                }
            }
        }
        match Packet::parse(octets) {
            Ok(packet) if packet.message.is_request() => self.on_request(Ticket { key, priority }, packet, now),
            Ok(packet) => self.on_response(from, packet, now),
            Err(refusal) => self.on_refusal(Ticket { key, priority }, refusal, now),
        }
    }

    /// A request nobody has seen before.
    fn on_request(&mut self, ticket: Ticket, packet: Packet, now: Time) {
        let from = ticket.from();
        self.heard(from.ip());
        match packet.message {
            Message::HeartbeatRequest(request) => {
                self.heartbeat_in_name_of(from, request.recovery_time_stamp, now);
                let response = HeartbeatResponse { recovery_time_stamp: self.started, ..Default::default() };
                self.respond(ticket, None, response.into(), now);
            }
            Message::AssociationSetupRequest(request) => self.on_set_up(ticket, Box::new(request), now),
            Message::AssociationUpdateRequest(request) => self.on_update(ticket, request, now),
            Message::AssociationReleaseRequest(request) => self.on_release(ticket, &request, now),
            _ => match self.association_of(from, &packet.message) {
                Some(id) if matches!(packet.message, Message::SessionSetDeletionRequest(_)) => {
                    self.claim(id, Claim::set_deletion(ticket, packet, now), now);
                }
                Some(association) => self.events.push_back(Event::Request { ticket, association, packet }),
                None => {
                    let seid = match &packet.message {
                        Message::SessionEstablishmentRequest(request) => Some(request.cp_f_seid.seid),
                        _ => packet.header.seid.map(|_| 0),
                    };
                    self.refuse_stranger(ticket, seid, now);
                }
            },
        }
    }

    pub(super) fn refuse_stranger(&mut self, ticket: Ticket, seid: Option<u64>, now: Time) {
        self.counters.no_association += 1;
        self.refuse(ticket, seid, NO_ASSOCIATION, now);
    }

    /// Whose request this is: the node's it names, else that of the address.
    fn association_of(&mut self, from: SocketAddr, message: &Message) -> Option<AssociationId> {
        match message {
            Message::SessionEstablishmentRequest(request) => self.association_named(from, &request.node_id),
            Message::SessionSetDeletionRequest(request) => self.association_named(from, &request.node_id),
            _ => self.associations.at(from.ip()).next(),
        }
    }

    /// The node's association, if the address is one of its own. A name that no peer has (some name nobody in particular)
    /// is that of the address's association, if there is only one.
    fn association_named(&mut self, from: SocketAddr, node: &NodeId) -> Option<AssociationId> {
        if let Some(id) = self.associations.of_node(node) {
            let belongs = self.belongs(id, from.ip());
            self.counters.names_of_others += u64::from(!belongs);
            return Some(id).filter(|_| belongs);
        }
        let mut home = self.associations.at_home(from.ip());
        home.next().filter(|_| home.next().is_none())
    }

    /// PFCP Association Setup Request (6.2.6).
    pub(super) fn on_set_up(&mut self, ticket: Ticket, request: Box<AssociationSetupRequest>, now: Time) {
        let from = ticket.from().ip();
        if !self.config.allows(from) {
            // Of a peer that goes, this one is not taken.
            self.counters.not_allowed += 1;
            return self.answer_set_up(ticket, Cause::REQUEST_REJECTED, false, now);
        }
        let pin = self.associations.pin_of(&request.node_id);
        if pin.and_then(|pin| self.associations.pin(pin)).is_some_and(|pin| !pin.contains(from)) {
            self.counters.pinned_elsewhere += 1;
            self.contest(request.node_id, ticket.from(), Contest::PinnedElsewhere);
            return self.answer_set_up(ticket, Cause::REQUEST_REJECTED, false, now);
        }
        if let Some(id) = self.associations.of_node(&request.node_id) {
            let own = self.associations.at_home(from).any(|one| one == id);
            return self.claim(id, Claim::set_up(ticket, request, own, now), now);
        }
        let here = self.associations.of_address(from).len();
        if pin.is_none() && here >= self.config.max_associations_per_address {
            self.counters.associations_full_address += 1;
            return self.answer_set_up(ticket, Cause::NO_RESOURCES_AVAILABLE, false, now);
        }
        if self.associations.len() >= self.config.max_associations && !self.displace(now) {
            self.counters.associations_full += 1;
            return self.answer_set_up(ticket, Cause::NO_RESOURCES_AVAILABLE, false, now);
        }
        self.accept_set_up(ticket, *request, None, now);
    }

    /// Makes room for an association: one without sessions goes that was made long enough ago to have been confirmed, and
    /// never was. They are looked through once in so long only.
    fn displace(&mut self, now: Time) -> bool {
        if now < self.displace_at {
            return false;
        }
        let is_idle = |(_, one): &(AssociationId, &Association)| {
            one.sessions == 0 && !one.answers_heartbeats && one.since + DISPLACED_AFTER <= now
        };
        match self.associations.iter().filter(is_idle).min_by_key(|(id, _)| *id).map(|(id, _)| id) {
            Some(id) => {
                self.counters.associations_displaced += 1;
                self.remove(id, Removal::Displaced, now);
                true
            }
            None => {
                self.displace_at = now + DISPLACED_AFTER / 30;
                false
            }
        }
    }

    /// Sets up an association, in the place of one whose sessions are kept, or of none.
    pub(super) fn accept_set_up(
        &mut self,
        ticket: Ticket,
        request: AssociationSetupRequest,
        kept: Option<AssociationId>,
        now: Time,
    ) {
        let alternatives = request.alternative_smf_ip_addresses.iter();
        let alternatives = alternatives.flat_map(|one| [one.ip4.map(IpAddr::V4), one.ip6.map(IpAddr::V6)]).flatten();
        let alternatives: Vec<IpAddr> = alternatives.collect();
        let association = Association {
            node_id: request.node_id,
            address: SocketAddr::new(ticket.from().ip(), self.config.peer_port),
            recovery_time_stamp: request.recovery_time_stamp,
            up_function_features: request.up_function_features,
            cp_function_features: request.cp_function_features,
            user_plane_ip_resource_information: request.user_plane_ip_resource_information,
            state: State::Up,
            answers_heartbeats: false,
            alternatives: Vec::new(),
            confirmed: false,
            shared: false,
            sessions: 0,
            since: now,
        };
        let id = self.set_up(kept, association, now);
        alternatives.into_iter().for_each(|alternative| self.learn(id, alternative));
        self.answer_set_up(ticket, Cause::REQUEST_ACCEPTED, kept.is_some(), now);
    }

    pub(super) fn answer_set_up(&mut self, ticket: Ticket, cause: Cause, retained: bool, now: Time) {
        let response = AssociationSetupResponse {
            node_id: self.config.node_id.clone(),
            cause,
            recovery_time_stamp: Some(self.started),
            up_function_features: self.config.role.up_function_features(),
            cp_function_features: self.config.role.cp_function_features(),
            user_plane_ip_resource_information: self.config.user_plane_ip_resources.clone(),
            pfcp_as_rsp_flags: retained.then_some(PfcpAsRspFlags::PSREI),
            ..Default::default()
        };
        self.respond(ticket, None, response.into(), now);
    }

    /// Notes an association, in the place of one whose sessions are kept, or of none.
    fn set_up(&mut self, kept: Option<AssociationId>, mut association: Association, now: Time) -> AssociationId {
        let address = association.address.ip();
        let before = kept.and_then(|id| self.associations.get(id).map(|before| (id, before.clone())));
        let id = if let Some((id, before)) = before {
            association.sessions = before.sessions;
            self.associations.replace(id, association);
            self.leave(before.address.ip());
            id
        } else {
            if let Some(before) = self.associations.of_node(&association.node_id) {
                self.remove(before, Removal::SetUpAnew, now);
            }
            let id = self.associations.add(association);
            self.schedule_heartbeat(id, now);
            id
        };
        self.peers.entry(address).or_insert_with(|| Peer::new(&self.config));
        self.events.push_back(Event::Up(id));
        id
    }

    /// Forgets what was kept for an address, if it is no association's any more.
    fn leave(&mut self, address: IpAddr) {
        if self.associations.of_address(address).is_empty() {
            self.peers.remove(&address);
        }
    }

    /// Takes over an association of an earlier run under the number it had there; the peer does not know that to have
    /// ended. No event tells of it.
    pub fn adopt(&mut self, id: AssociationId, association: Association, now: Time) {
        let address = association.address.ip();
        self.associations.restore(id, association);
        self.schedule_heartbeat(id, now);
        self.peers.entry(address).or_insert_with(|| Peer::new(&self.config));
    }

    /// PFCP Association Update Request (6.2.7).
    fn on_update(&mut self, ticket: Ticket, request: AssociationUpdateRequest, now: Time) {
        let Some(id) = self.association_named(ticket.from(), &request.node_id) else {
            return self.refuse_stranger(ticket, None, now);
        };
        if let Some(association) = self.associations.get_mut(id) {
            association.up_function_features = request.up_function_features.or(association.up_function_features);
            association.cp_function_features = request.cp_function_features.or(association.cp_function_features);
        }
        let response = AssociationUpdateResponse {
            node_id: self.config.node_id.clone(),
            cause: Cause::REQUEST_ACCEPTED,
            up_function_features: self.config.role.up_function_features(),
            cp_function_features: self.config.role.cp_function_features(),
            ..Default::default()
        };
        self.respond(ticket, None, response.into(), now);
        self.events.push_back(Event::Updated(id, Box::new(request)));
    }

    /// PFCP Association Release Request (6.2.8).
    fn on_release(&mut self, ticket: Ticket, request: &AssociationReleaseRequest, now: Time) {
        let named = self.association_named(ticket.from(), &request.node_id);
        // Members of a set that a peer named use its sessions; they do not end its association.
        let Some(id) = named.filter(|_| self.is_home(ticket.from().ip())) else {
            return self.refuse_stranger(ticket, None, now);
        };
        self.claim(id, Claim::release(ticket, now), now);
    }

    /// A response: to a request of ours, or to nothing.
    fn on_response(&mut self, from: SocketAddr, packet: Packet, now: Time) {
        let (sequence, message_type) = (packet.header.sequence, packet.message.message_type());
        let Some(request) = self.requests.answered(from, sequence, message_type) else {
            return self.on_probe_response(from, packet, now);
        };
        self.requests.recycle(request.octets);
        match (request.purpose, packet.message) {
            (purpose, Message::VersionNotSupportedResponse(_)) => {
                self.failed(request.to, purpose, Failure::Version, now);
            }
            (Purpose::Heartbeat(id), Message::HeartbeatResponse(response)) => {
                self.is_alive(id, response.recovery_time_stamp, now);
            }
            (Purpose::SetUp, Message::AssociationSetupResponse(response)) => {
                self.on_set_up_response(request.to, response, now);
            }
            (Purpose::Release(id), _) => self.remove(id, Removal::Released, now),
            (Purpose::Driver(token), message) => {
                self.events.push_back(Event::Response { token, packet: Packet { header: packet.header, message } });
            }
            // The types fit, so there is nothing else.
            _ => self.counters.unexpected_responses += 1,
        }
    }

    fn on_set_up_response(&mut self, to: SocketAddr, response: AssociationSetupResponse, now: Time) {
        if !response.cause.is_acceptance() {
            return self.events.push_back(Event::NotSetUp { to, why: Failure::Rejected(response.cause) });
        }
        let association = Association {
            node_id: response.node_id,
            address: to,
            recovery_time_stamp: response.recovery_time_stamp.unwrap_or_default(),
            up_function_features: response.up_function_features,
            cp_function_features: response.cp_function_features,
            user_plane_ip_resource_information: response.user_plane_ip_resource_information,
            state: State::Up,
            answers_heartbeats: false,
            alternatives: Vec::new(),
            // It has answered a request of ours, whose number nobody else knows.
            confirmed: true,
            shared: false,
            sessions: 0,
            since: now,
        };
        self.set_up(None, association, now);
    }

    /// A message that cannot be read.
    fn on_refusal(&mut self, ticket: Ticket, refusal: Refusal, now: Time) {
        match refusal {
            Refusal::Malformed(_) | Refusal::Version { .. } => self.counters.malformed += 1,
            Refusal::UnknownMessage { .. } => self.counters.unknown_message += 1,
            Refusal::Response { message_type, header, fault } => {
                match self.requests.answered(ticket.from(), header.sequence, message_type) {
                    Some(request) => {
                        self.counters.unusable_responses += 1;
                        self.requests.recycle(request.octets);
                        self.failed(request.to, request.purpose, Failure::Unusable(fault), now);
                    }
                    None => self.counters.unexpected_responses += 1,
                }
            }
            Refusal::Request { message_type, header, fault, cp_seid } => {
                self.counters.refused += 1;
                // Only who keeps the sessions knows by which number the peer wants to hear of this one.
                let knows_us = self.associations.at(ticket.from().ip()).next().is_some();
                if knows_us && message_type > SessionEstablishmentRequest::TYPE {
                    self.events.push_back(Event::Unreadable { ticket, seid: header.seid, fault });
                } else {
                    self.refuse(ticket, header.seid.map(|_| cp_seid.unwrap_or(0)), fault, now);
                }
            }
        }
    }

    /// A heartbeat of ours was answered by the peer's address, which has been there since then. If that is later than it
    /// was, the peer has restarted.
    pub(super) fn is_alive(&mut self, id: AssociationId, since: RecoveryTimeStamp, now: Time) {
        let reading = self.read(id, since);
        let Some(association) = self.associations.get_mut(id) else { return };
        association.answers_heartbeats = true;
        match reading {
            Reading::Restarted => {
                self.counters.peers_restarted += 1;
                self.remove(id, Removal::Restarted, now);
            }
            Reading::Another => {}
            Reading::Same | Reading::Older => {
                association.confirmed |= reading == Reading::Same;
                self.is_back(id);
            }
        }
    }

    /// A lost peer is there.
    pub(super) fn is_back(&mut self, id: AssociationId) {
        let Some(association) = self.associations.get_mut(id) else { return };
        if association.state != State::Up {
            association.state = State::Up;
            self.events.push_back(Event::Back(id));
        }
    }

    /// Forgets an association.
    pub(super) fn remove(&mut self, id: AssociationId, why: Removal, now: Time) {
        let Some(association) = self.associations.remove(id) else { return };
        self.leave(association.address.ip());
        self.events.push_back(Event::Gone(id, why, association.node_id));
        self.drop_claims(id, now);
    }

    /// Says which version we speak (7.6.2), in the words of a version whose header is not known to be alike.
    fn version_not_supported(&mut self, from: SocketAddr, octets: &[u8]) {
        self.counters.other_version += 1;
        let at = if octets[0] & 1 != 0 { 12 } else { 4 };
        let sequence =
            octets.get(at..at + 3).map_or(0, |octets| u32::from_be_bytes([0, octets[0], octets[1], octets[2]]));
        let message = VersionNotSupportedResponse::default().into();
        let packet = Packet { header: Header::node(sequence), message };
        if self.out.write(from, |out| packet.emit(out)).is_ok() {
            self.counters.sent += 1;
        }
    }
}
