//! Whose a session and a request are, and what is said of peers.

use std::net::{IpAddr, SocketAddr};

use pfcp::ie::{Cause, NodeId};
use pfcp::message::Message;
use pfcp::node::{AssociationId, Contest, Node, Ticket};
use pfcp::{Fault, Packet};

use super::super::RequestContext;
use super::super::metering::WallClock;
use super::window::is_answered;
use super::{Endpoint, time};
use crate::control::Control;

impl Endpoint {
    /// The node goes by how many sessions its associations have.
    pub(super) fn recount(&mut self) {
        for (peer, sessions) in self.n4.recounted() {
            self.node.set_sessions(AssociationId(peer), sessions);
        }
    }

    /// A request about a session is its owner's if it comes from one of the owner's addresses.
    pub(super) fn session_request(
        &mut self,
        ticket: Ticket,
        mut association: AssociationId,
        mut packet: Packet,
        control: &mut Control,
        clock: &WallClock,
    ) {
        let (from, seid) = (ticket.from().ip(), packet.header.seid.unwrap_or(0));
        if !is_answered(&packet.message) {
            // A report is a user plane's to send.
            let fault = Fault { cause: Cause::SERVICE_NOT_SUPPORTED, ie: 0 };
            return self.node.refuse(ticket, Some(0), fault, time(clock));
        }
        let mut most = 0;
        match &mut packet.message {
            Message::SessionEstablishmentRequest(request) => {
                most = self.most(association);
                if let Some(peer) = self.node.association(association) {
                    // Kept so, it is found again after a restart, whatever name the request has.
                    request.node_id = peer.node_id.clone();
                }
            }
            message => {
                let owner = self.n4.owner(seid).map(AssociationId).filter(|owner| self.node.belongs(*owner, from));
                match owner {
                    Some(owner) => {
                        association = owner;
                        self.node.session_used(owner);
                        self.learn(owner, seid, clock);
                    }
                    None if !self.node.is_home(from) => {
                        let fault = Fault { cause: Cause::NO_ESTABLISHED_PFCP_ASSOCIATION, ie: 0 };
                        return self.node.refuse(ticket, Some(0), fault, time(clock));
                    }
                    None => {}
                }
                if let Message::SessionModificationRequest(request) = message {
                    // A session stays its owner's, whichever member of a set changes it.
                    request.node_id = None;
                }
            }
        }
        // By the sender's queue, which may be another association's of the same address.
        let asked = RequestContext { peer: association.0, queue: self.class(from), ticket, most };
        self.window.asked(asked.queue);
        if matches!(packet.message, Message::SessionEstablishmentRequest(_)) {
            self.keep_first(association);
        }
        self.n4.request(asked, seid, packet.message, control, clock);
    }

    /// Sessions an association may have, by its peer's limit and the peer's other associations.
    fn most(&self, association: AssociationId) -> u32 {
        let of_peer = self.node.max_sessions(association).unwrap_or(self.n4.limits().sessions_per_peer);
        let siblings = self.node.siblings(association).into_iter().filter(|id| *id != association);
        siblings.fold(of_peer, |most, id| most.saturating_sub(self.n4.store().of_peer(id.0)))
    }

    /// A member of a set uses a session: the address in its CP F-SEID is a member's too. An establishment alone does not
    /// tell, for anybody may have written it; a session's SEID is known to the set only.
    fn learn(&mut self, association: AssociationId, seid: u64, clock: &WallClock) {
        if !self.node.is_of_set(association) {
            return;
        }
        let alternatives = |node: &Node| node.association(association).map(|peer| peer.alternatives.len());
        let before = alternatives(&self.node);
        let cp_f_seid = self.n4.cp_f_seid(seid);
        let addresses = cp_f_seid.into_iter().flat_map(|one| [one.ip4.map(IpAddr::V4), one.ip6.map(IpAddr::V6)]);
        addresses.flatten().for_each(|address| self.node.learn(association, address));
        if alternatives(&self.node) != before {
            self.unkept.association(association, clock.now);
        }
    }

    pub(super) fn contested(&mut self, node_id: &NodeId, from: SocketAddr, outcome: Contest, clock: &WallClock) {
        match outcome {
            Contest::TakenOver => {
                tracing::warn!(target: "n4", event = "association_taken_over", %node_id, %from, "{outcome}");
            }
            Contest::TakeoverRefused | Contest::PinnedElsewhere => {
                tracing::warn!(target: "n4", event = "association_takeover_refused", %node_id, %from, "{outcome}");
            }
            Contest::SetupRefused => {
                tracing::warn!(target: "n4", event = "association_setup_refused", %node_id, %from, "{outcome}");
            }
            Contest::ReleaseRefused => {
                tracing::warn!(target: "n4", event = "association_release_refused", %node_id, %from, "{outcome}");
            }
            Contest::RestartNotConfirmed => {
                tracing::warn!(target: "n4", event = "restart_not_confirmed", %node_id, %from, "{outcome}");
            }
        }
        let what = format!("{node_id}: {outcome}");
        if self.news.back().is_none_or(|last| last.what != what || last.peer != Some(from)) {
            self.note(Some(from), what, clock);
        }
    }
}
