//! What becomes of a datagram.

use super::association::{Association, State};
use super::responses::{RequestKey, Seen};
use super::{AssociationId, Event, Failure, Node, Peer, Purpose, Removal, Ticket, Time};
use crate::header::Malformed;
use crate::ie::{Cause, NodeId, PfcpAsRspFlags, RecoveryTimeStamp};
use crate::message::*;
use crate::{Fault, Header, Packet, Refusal};
use std::net::SocketAddr;

const NO_ASSOCIATION: Fault = Fault { cause: Cause::NO_ESTABLISHED_PFCP_ASSOCIATION, ie: 0 };

impl Node {
    /// Takes a datagram: one message, or several (6.6).
    pub fn receive(&mut self, from: SocketAddr, datagram: &[u8], now: Time) {
        if !self.config.allows(from.ip()) {
            self.counters.not_allowed += 1;
            return;
        }
        for message in crate::messages(datagram) {
            let peer = self.peers.get_mut(&from.ip()).unwrap_or(&mut self.strangers);
            if !peer.pace.pass(now) {
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
            let peer = self.peers.get_mut(&from.ip()).unwrap_or(&mut self.strangers);
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
        match packet.message {
            Message::HeartbeatRequest(request) => {
                self.is_alive(from, request.recovery_time_stamp);
                let response = HeartbeatResponse { recovery_time_stamp: self.started, ..Default::default() };
                self.respond(ticket, None, response.into(), now);
            }
            Message::AssociationSetupRequest(request) => self.on_set_up(ticket, request, now),
            Message::AssociationUpdateRequest(request) => self.on_update(ticket, request, now),
            Message::AssociationReleaseRequest(request) => self.on_release(ticket, &request, now),
            _ => match self.association_of(from, &packet.message) {
                Some(association) => self.events.push_back(Event::Request { ticket, association, packet }),
                None => {
                    self.counters.no_association += 1;
                    let seid = match &packet.message {
                        Message::SessionEstablishmentRequest(request) => Some(request.cp_f_seid.seid),
                        _ => packet.header.seid.map(|_| 0),
                    };
                    self.refuse(ticket, seid, NO_ASSOCIATION, now);
                }
            },
        }
    }

    /// Whose request this is: the node's it names, else that of the address.
    fn association_of(&self, from: SocketAddr, message: &Message) -> Option<AssociationId> {
        let of_address = self.associations.of_address(from.ip());
        let named = match message {
            Message::SessionEstablishmentRequest(request) => self.associations.of_node(&request.node_id),
            _ => None,
        };
        // Naming a node does not make one of it: the address has to have an association.
        named.filter(|_| !of_address.is_empty()).or(of_address.first().copied())
    }

    /// The node's association, if named, else that of the address: some name nobody in particular.
    fn association_named(&self, from: SocketAddr, node: &NodeId) -> Option<AssociationId> {
        let of_address = self.associations.of_address(from.ip());
        let named = self.associations.of_node(node).filter(|id| of_address.contains(id));
        named.or(of_address.first().copied())
    }

    /// PFCP Association Setup Request (6.2.6).
    fn on_set_up(&mut self, ticket: Ticket, request: AssociationSetupRequest, now: Time) {
        let before = self.associations.of_node(&request.node_id);
        let retains = request.pfcp_session_retention_information.is_some();
        let mut response = AssociationSetupResponse {
            node_id: self.config.node_id.clone(),
            recovery_time_stamp: Some(self.started),
            up_function_features: self.config.role.up_function_features(),
            cp_function_features: self.config.role.cp_function_features(),
            ..Default::default()
        };
        if before.is_none() && self.associations.len() >= self.config.max_associations {
            self.counters.associations_full += 1;
            response.cause = Cause::NO_RESOURCES_AVAILABLE;
            return self.respond(ticket, None, response.into(), now);
        }
        response.cause = Cause::REQUEST_ACCEPTED;
        response.pfcp_as_rsp_flags = (before.is_some() && retains).then_some(PfcpAsRspFlags::PSREI);
        let association = Association {
            node_id: request.node_id,
            address: SocketAddr::new(ticket.from().ip(), self.config.peer_port),
            recovery_time_stamp: request.recovery_time_stamp,
            up_function_features: request.up_function_features,
            cp_function_features: request.cp_function_features,
            user_plane_ip_resource_information: request.user_plane_ip_resource_information,
            state: State::Up,
            answers_heartbeats: false,
        };
        self.set_up(before.filter(|_| retains), association, now);
        self.respond(ticket, None, response.into(), now);
    }

    /// Notes an association, in the place of one whose sessions are kept, or of none.
    fn set_up(&mut self, kept: Option<AssociationId>, association: Association, now: Time) {
        let address = association.address.ip();
        let id = if let Some(id) = kept {
            self.associations.replace(id, association);
            id
        } else {
            if let Some(before) = self.associations.of_node(&association.node_id) {
                self.remove(before, Removal::SetUpAnew);
            }
            let id = self.associations.add(association);
            self.schedule_heartbeat(id, now);
            id
        };
        self.peers.entry(address).or_insert_with(|| Peer::new(&self.config));
        self.events.push_back(Event::Up(id));
    }

    /// Takes over an association of an earlier run, which the peer does not know to have ended. No event tells of it.
    pub fn adopt(&mut self, association: Association, now: Time) -> AssociationId {
        let address = association.address.ip();
        let id = self.associations.add(association);
        self.schedule_heartbeat(id, now);
        self.peers.entry(address).or_insert_with(|| Peer::new(&self.config));
        id
    }

    /// PFCP Association Update Request (6.2.7).
    fn on_update(&mut self, ticket: Ticket, request: AssociationUpdateRequest, now: Time) {
        let Some(id) = self.association_named(ticket.from(), &request.node_id) else {
            self.counters.no_association += 1;
            return self.refuse(ticket, None, NO_ASSOCIATION, now);
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
        let Some(id) = self.association_named(ticket.from(), &request.node_id) else {
            self.counters.no_association += 1;
            return self.refuse(ticket, None, NO_ASSOCIATION, now);
        };
        let response = AssociationReleaseResponse {
            node_id: self.config.node_id.clone(),
            cause: Cause::REQUEST_ACCEPTED,
            ..Default::default()
        };
        self.remove(id, Removal::Released);
        self.respond(ticket, None, response.into(), now);
    }

    /// A response: to a request of ours, or to nothing.
    fn on_response(&mut self, from: SocketAddr, packet: Packet, now: Time) {
        let (sequence, message_type) = (packet.header.sequence, packet.message.message_type());
        let Some(request) = self.requests.answered(from, sequence, message_type) else {
            return self.counters.unexpected_responses += 1;
        };
        self.requests.recycle(request.octets);
        match (request.purpose, packet.message) {
            (purpose, Message::VersionNotSupportedResponse(_)) => {
                self.failed(request.to, purpose, Failure::Version, now);
            }
            (Purpose::Heartbeat(id), Message::HeartbeatResponse(response)) => {
                if let Some(association) = self.associations.get_mut(id) {
                    association.answers_heartbeats = true;
                }
                self.is_alive(from, response.recovery_time_stamp);
            }
            (Purpose::SetUp, Message::AssociationSetupResponse(response)) => {
                self.on_set_up_response(request.to, response, now);
            }
            (Purpose::Release(id), _) => self.remove(id, Removal::Released),
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
        };
        self.set_up(None, association, now);
    }

    /// A message that can not be read.
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
                let knows_us = !self.associations.of_address(ticket.from().ip()).is_empty();
                if knows_us && message_type > SessionEstablishmentRequest::TYPE {
                    self.events.push_back(Event::Unreadable { ticket, seid: header.seid, fault });
                } else {
                    self.refuse(ticket, header.seid.map(|_| cp_seid.unwrap_or(0)), fault, now);
                }
            }
        }
    }

    /// The peer at this address is alive, and since then: if that is later than it was, it has restarted.
    fn is_alive(&mut self, from: SocketAddr, since: RecoveryTimeStamp) {
        let ids = self.associations.of_address(from.ip()).to_vec();
        for id in ids {
            let Some(association) = self.associations.get_mut(id) else { continue };
            let later = since.0.wrapping_sub(association.recovery_time_stamp.0);
            // An older time stamp is of a message that was long on its way.
            if (1..1 << 31).contains(&later) {
                self.counters.peers_restarted += 1;
                self.remove(id, Removal::Restarted);
            } else if association.state != State::Up {
                association.state = State::Up;
                self.events.push_back(Event::Back(id));
            }
        }
    }

    /// Forgets an association.
    pub(super) fn remove(&mut self, id: AssociationId, why: Removal) {
        let Some(association) = self.associations.remove(id) else { return };
        if self.associations.of_address(association.address.ip()).is_empty() {
            self.peers.remove(&association.address.ip());
        }
        self.events.push_back(Event::Gone(id, why));
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
