//! The user plane's end of N4, Sxa and Sxb: a PFCP node with its sessions behind it. No socket and no clock: datagrams
//! and time are passed in, datagrams are taken out.

mod hand_over;
mod kept;
mod peers;
mod reconfigure;
mod restore;
mod under_way;
mod window;

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use dataplane::filter::FlowDescription;
use pfcp::group::{ApplicationIdsPfds, PfdContext};
use pfcp::ie::{
    Cause, GracefulReleasePeriod, PfcpAssociationReleaseRequest, PfdContents, RecoveryTimeStamp, UpFunctionFeatures,
};
use pfcp::message::SessionSetDeletionResponse;
use pfcp::message::{
    AssociationUpdateRequest, Message, PfdManagementRequest, PfdManagementResponse, SessionSetDeletionRequest,
};
use pfcp::node::{Association, AssociationId, Config, Event, Node, Role, State, Ticket, Time};
use pfcp::{Fault, Packet};

use super::applications::{self, Applications};
use super::intake::Class;
use super::load::Load;
use super::metering::WallClock;
use super::networks::ControlPath;
use super::{N4, Outgoing};
use crate::control::Control;
use crate::rules::Usage;
use kept::Unkept;
pub(super) use restore::Owners;
pub use restore::Stored;
use under_way::{NO_SESSION, Report, UnderWay};
use window::Window;

/// What a user plane tells of itself: whether it chooses F-TEIDs, and subscribers' addresses.
pub fn features(chooses_f_teids: bool, has_pools: bool) -> UpFunctionFeatures {
    let always = UpFunctionFeatures::EMPU
        | UpFunctionFeatures::PFDM
        | UpFunctionFeatures::PDIU
        | UpFunctionFeatures::MNOP
        | UpFunctionFeatures::DDND
        | UpFunctionFeatures::DLBD
        | UpFunctionFeatures::TREU
        | UpFunctionFeatures::UDBC
        | UpFunctionFeatures::QUOAC
        | UpFunctionFeatures::FRRT
        | UpFunctionFeatures::PFDE
        | UpFunctionFeatures::DPDRA
        | UpFunctionFeatures::ADPDP
        | UpFunctionFeatures::VTIME
        | UpFunctionFeatures::IP6PL;
    let when = |is: bool, feature| if is { feature } else { UpFunctionFeatures::NONE };
    always | when(chooses_f_teids, UpFunctionFeatures::FTUP) | when(has_pools, UpFunctionFeatures::UEIP)
}

/// What happened to an association, for the operator to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct News {
    /// When, by the workers' clock.
    pub at: u64,
    /// With whom.
    pub peer: Option<SocketAddr>,
    /// What.
    pub what: String,
}

/// What was there of an earlier run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Restored {
    /// Control planes.
    pub associations: usize,
    /// Sessions that are in place again.
    pub sessions: usize,
    /// Sessions that are not restored: the configuration has changed, or their control plane is unknown.
    pub lost: usize,
}

/// News kept.
const NEWS: usize = 256;

/// The endpoint.
pub struct Endpoint {
    node: Node,
    n4: N4,
    /// Load and overload as reported to peers.
    began: RecoveryTimeStamp,
    news: std::collections::VecDeque<News>,
    /// Reports without an answer.
    unanswered: u64,
    /// Time between checkpoints of usage.
    checkpoint_ns: u64,
    load: Load,
    window: Window,
    unkept: Unkept,
    reports: UnderWay,
}

fn time(clock: &WallClock) -> Time {
    Duration::from_nanos(clock.now)
}

impl Endpoint {
    /// An endpoint that began at `started`: now, or when the run began whose sessions it goes on with.
    pub fn new(mut config: Config, chooses_f_teids: bool, n4: N4, started: RecoveryTimeStamp) -> Self {
        config.role = Role::UserPlane(features(chooses_f_teids, n4.has_pools()));
        if !chooses_f_teids {
            config.user_plane_ip_resources = n4.ip_resources();
        }
        Self {
            node: Node::new(config, started),
            n4,
            began: started,
            news: Default::default(),
            unanswered: 0,
            checkpoint_ns: 0,
            load: Load::default(),
            window: Window::default(),
            unkept: Unkept::default(),
            reports: UnderWay::default(),
        }
    }

    /// Has what sessions have used written down once in so long, where sessions are kept.
    pub(crate) fn checkpoint_every(&mut self, interval: Duration) {
        self.checkpoint_ns = interval.as_nanos() as u64; // centuries fit
    }

    /// Writes down what all sessions have used: workers stand still, and `usage` is what they have counted.
    pub fn close(&mut self, clock: &WallClock, usage: &mut dyn FnMut(u16, u32) -> Option<Vec<Usage>>) {
        self.keep_changed();
        self.n4.close(clock, usage);
    }

    /// The PFCP node: its associations and counters.
    pub fn node(&self) -> &Node {
        &self.node
    }

    /// Its sessions.
    pub fn sessions(&self) -> &N4 {
        &self.n4
    }

    /// What happened to associations, oldest first.
    pub fn news(&self) -> impl Iterator<Item = &News> {
        self.news.iter()
    }

    /// Reports without an answer.
    pub fn unanswered(&self) -> u64 {
        self.unanswered
    }

    /// Takes no new sessions from now on and asks every control plane to move those there are within `grace`, by an
    /// association update that asks for release (6.2.7.3); or takes new ones again.
    pub fn set_draining(&mut self, draining: bool, grace: Duration, clock: &WallClock) {
        let begins = draining && !self.n4.is_draining();
        self.n4.set_draining(draining);
        let node_id = self.node.config().node_id.clone();
        let up = self.node.associations().filter(|(_, peer)| begins && peer.state == State::Up);
        let asked: Vec<SocketAddr> = up.map(|(_, peer)| peer.address).collect();
        for to in asked {
            let request = AssociationUpdateRequest {
                node_id: node_id.clone(),
                pfcp_association_release_request: Some(PfcpAssociationReleaseRequest::SARR),
                user_plane_ip_resource_information: self.node.config().user_plane_ip_resources.clone(),
                graceful_release_period: Some(GracefulReleasePeriod::at_least(grace.as_secs() as u32)),
                ..AssociationUpdateRequest::default()
            };
            // Nobody's answer is needed: those who do not know the message are refused new sessions all the same.
            self.unanswered += u64::from(self.node.request(to, None, request.into(), NO_SESSION, time(clock)).is_err());
        }
    }

    /// Whether workers or the disk owe answers that a control plane waits for.
    pub fn is_waiting(&self) -> bool {
        self.n4.is_waiting()
    }

    /// When [`turn`](Self::turn) has something to do next, in nanoseconds of the workers' clock, if nothing comes before and
    /// it is not [waiting](Self::is_waiting). A time that is past means: work is left over, and goes on soon.
    pub fn next_deadline(&self) -> Option<u64> {
        let of_node = self.node.due_at().map(|at| at.as_nanos() as u64); // centuries fit
        [of_node, self.unkept.next_deadline(), self.n4.next_deadline()].into_iter().flatten().min()
    }

    /// Whose queue a sender's datagrams wait in.
    pub fn class(&self, from: IpAddr) -> Class {
        self.node.first_at(from).map(|id| id.0)
    }

    /// Whether a sender's next datagram may be taken: requests of a control plane that wait for workers or the disk are
    /// bounded, so that those of others do not wait behind them. So are those of the further addresses of control planes,
    /// which wait in the queue of strangers.
    pub fn may_serve(&self, class: Class) -> bool {
        self.window.has_room(class)
    }

    /// Takes in a datagram.
    pub fn receive(&mut self, from: SocketAddr, datagram: &[u8], control: &mut Control, clock: &WallClock) {
        self.node.receive(from, datagram, time(clock));
        self.react(control, clock);
    }

    /// Sees to what workers have answered and what is due.
    pub fn turn(&mut self, control: &mut Control, clock: &WallClock) {
        self.node.tick(time(clock));
        self.react(control, clock);
        self.n4.poll(control, clock);
        while let Some((peer, what)) = self.n4.take_notice() {
            self.tell(AssociationId(peer), &what, clock);
        }
        self.keep_due(clock);
        self.send(clock);
        self.recount();
    }

    /// Takes in a GTP-U datagram that a control plane's function sent to the N4 address.
    pub fn receive_gtpu(&mut self, from: SocketAddr, datagram: &[u8], control: &mut Control, clock: &WallClock) {
        if self.node.takes_from(from.ip()) {
            self.n4.receive_gtpu(from, datagram, control, clock.now);
        } else {
            self.n4.refuse_gtpu();
        }
    }

    /// Hands over GTP-U datagrams to be sent from the N4 address.
    pub fn drain_gtpu(&mut self, mut send: impl FnMut(SocketAddr, &[u8])) {
        while let Some((to, datagram)) = self.n4.take_gtpu() {
            send(to, &datagram);
        }
    }

    /// There is no GTP-U socket at the N4 address.
    pub fn close_control_path(&mut self) {
        self.n4.close_control_path();
    }

    /// Hands over what is to be sent.
    pub fn drain(&mut self, send: impl FnMut(SocketAddr, &[u8])) {
        self.node.drain(send);
    }

    fn react(&mut self, control: &mut Control, clock: &WallClock) {
        while let Some(event) = self.node.next_event() {
            match event {
                Event::Request { ticket, association, packet } if packet.message.is_session() => {
                    self.session_request(ticket, association, packet, control, clock);
                }
                Event::Request { ticket, association, packet } => {
                    self.node_request(ticket, association, packet.message, clock);
                }
                Event::Unreadable { ticket, seid, fault } => {
                    let seid = seid.map(|seid| match self.n4.owner(seid) {
                        Some(owner) if self.node.belongs(AssociationId(owner), ticket.from().ip()) => {
                            self.n4.seid_of_peer(seid)
                        }
                        _ => 0,
                    });
                    self.node.refuse(ticket, seid, fault, time(clock));
                }
                Event::Response { token, packet } => {
                    let report = self.reports.take(token);
                    if let (Some(Report { token, seid: Some(seid) }), Message::SessionReportResponse(response)) =
                        (report, packet.message)
                    {
                        let owner = self.n4.owner(seid).filter(|_| response.cause.is_acceptance());
                        owner.into_iter().for_each(|owner| self.node.session_used(AssociationId(owner)));
                        self.n4.reported(token, seid, &response, control, clock);
                    }
                }
                Event::Failed { token, .. } => {
                    self.unanswered += 1;
                    let report = self.reports.take(token);
                    if let Some(report) = report {
                        self.n4.unanswered(report.token, clock.now);
                    }
                }
                Event::Up(id) => {
                    self.tell(id, "associated", clock);
                    self.check_control_path(id, clock);
                    self.n4.send_again(id.0);
                    self.unkept.set_up(id, clock.now);
                    if let Some(Association { node_id, address, .. }) = self.node.association(id) {
                        tracing::info!(target: "n4", event = "association_up", %node_id, %address, "association is up");
                    }
                }
                Event::NotSetUp { .. } => {}
                Event::Updated(id, _) => {
                    self.unkept.association(id, clock.now);
                    self.tell(id, "association updated", clock);
                }
                Event::Lost(id) => {
                    self.tell(id, "no longer answers; its sessions are kept for now", clock);
                    if let Some(Association { node_id, address, sessions, .. }) = self.node.association(id) {
                        let text = "control plane does not answer heartbeats";
                        tracing::warn!(target: "n4", event = "association_lost", %node_id, %address, sessions, "{text}");
                    }
                }
                Event::Back(id) => {
                    self.tell(id, "answers again, its sessions are as they were", clock);
                    self.n4.send_again(id.0);
                    if let Some(Association { node_id, address, .. }) = self.node.association(id) {
                        let text = "control plane answers again";
                        tracing::info!(target: "n4", event = "association_back", %node_id, %address, "{text}");
                    }
                }
                Event::Contested { node_id, from, outcome } => self.contested(&node_id, from, outcome, clock),
                Event::Gone(id, why, node_id) => {
                    self.tell(id, &format!("association of {node_id} over ({why:?}); its sessions end"), clock);
                    let sessions = self.n4.store().of_peer(id.0);
                    let text = "association over, its sessions end";
                    tracing::info!(target: "n4", event = "association_over", %node_id, ?why, sessions, "{text}");
                    self.n4.end_peer(id.0);
                    self.unkept.association(id, clock.now);
                }
            }
        }
        self.send(clock);
        self.recount();
    }

    /// A control plane may want router solicitations: whether there is a path for them is said before they are lost.
    fn check_control_path(&mut self, id: AssociationId, clock: &WallClock) {
        if self.n4.control_path() == ControlPath::None {
            let what = "no path for packets to the control plane: no GTP-U socket at the N4 address and no n4.cp_port";
            self.tell(id, what, clock);
            let address = self.node.association(id).map(|association| association.address.to_string());
            tracing::warn!(target: "n4", event = "control_path_missing", peer = address, "{what}");
        }
    }

    fn note(&mut self, peer: Option<SocketAddr>, what: String, clock: &WallClock) {
        if self.news.len() == NEWS {
            self.news.pop_front();
        }
        self.news.push_back(News { at: clock.now, peer, what });
    }

    fn tell(&mut self, id: AssociationId, what: &str, clock: &WallClock) {
        let peer = self.node.association(id).map(|association| association.address);
        self.note(peer, what.to_owned(), clock);
    }

    fn node_request(&mut self, ticket: Ticket, association: AssociationId, message: Message, clock: &WallClock) {
        let response: Message = match message {
            Message::PfdManagementRequest(request) => {
                let response = self.manage_pfds(association, &request, clock);
                if response.cause.is_acceptance() && self.n4.is_kept() {
                    let queue = self.class(ticket.from().ip());
                    self.window.asked(queue);
                    let message = response.into();
                    return self.unkept.answer(Outgoing::NodeResponse { ticket, queue, message });
                }
                response.into()
            }
            Message::SessionSetDeletionRequest(request) => {
                self.delete_set(association, &request);
                let node_id = self.node.config().node_id.clone();
                SessionSetDeletionResponse { node_id, cause: Cause::REQUEST_ACCEPTED, ..Default::default() }.into()
            }
            _ => {
                let fault = Fault { cause: Cause::SERVICE_NOT_SUPPORTED, ie: 0 };
                return self.node.refuse(ticket, None, fault, time(clock));
            }
        };
        self.node.respond(ticket, None, response, time(clock));
    }

    /// Packet flow descriptions of applications (5.11): flow descriptions become filters, several of contents too (PFDE).
    /// All of the request is done, or nothing; one that names no application ends all (7.4.3.1). A control plane may have as
    /// many as one message says.
    fn manage_pfds(
        &mut self,
        id: AssociationId,
        request: &PfdManagementRequest,
        clock: &WallClock,
    ) -> PfdManagementResponse {
        let filters = |application: &ApplicationIdsPfds| -> Result<Vec<FlowDescription>, Cause> {
            let contents = application.pfd_contexts.iter().flat_map(|PfdContext { pfd_contents, .. }| pfd_contents);
            let mut flows = Vec::new();
            for contents in contents {
                if contents.looks_into_packets() {
                    // Nobody looks that far here; half of what describes an application is another one.
                    return Err(Cause::SERVICE_NOT_SUPPORTED);
                }
                let texts = contents.flow_descriptions().map_err(|fault| fault.cause)?;
                if texts.is_empty() {
                    return Err(Cause::MANDATORY_IE_INCORRECT);
                }
                for text in texts {
                    flows.push(text.parse().map_err(|_| Cause::MANDATORY_IE_INCORRECT)?);
                }
            }
            Ok(flows)
        };
        let list = &request.application_ids_pfds;
        let all: Result<Vec<_>, Cause> = list.iter().map(|one| Ok((&one.application_id, filters(one)?))).collect();
        let all = match all {
            Ok(all) => all,
            Err(cause) => {
                let offending_ie = Some(pfcp::ie::OffendingIe(<PfdContents as pfcp::Element>::TYPE));
                return PfdManagementResponse { cause, offending_ie, ..PfdManagementResponse::default() };
            }
        };
        let mut applications = match all.is_empty() {
            true => Applications::new(),
            false => self.n4.applications(id.0).cloned().unwrap_or_default(),
        };
        for (id, flows) in all {
            // Without filters it is forgotten.
            match flows.is_empty() {
                true => drop(applications.remove(&id.0)),
                false => drop(applications.insert(id.0.clone(), flows)),
            }
        }
        let packet = Packet { header: pfcp::Header::node(0), message: applications::say(&applications).into() };
        if packet.to_vec().is_err() {
            let cause = Cause::NO_RESOURCES_AVAILABLE;
            return PfdManagementResponse { cause, ..PfdManagementResponse::default() };
        }
        self.n4.set_applications(id.0, applications);
        self.unkept.association(id, clock.now);
        PfdManagementResponse { cause: Cause::REQUEST_ACCEPTED, ..PfdManagementResponse::default() }
    }

    /// Tells a control plane that wants to know how loaded we are.
    fn tell_load(&mut self, peer: u32, message: &mut Message, now: u64) {
        let features = self.node.association(AssociationId(peer)).and_then(|peer| peer.cp_function_features);
        if let Some(features) = features {
            self.load.tell(features, self.n4.load(), self.n4.overload(), message, now);
        }
    }

    /// Sessions that failed together with a part of a peer's network (TS 23.527, 4.6).
    fn delete_set(&mut self, id: AssociationId, request: &SessionSetDeletionRequest) {
        self.n4.end_set(id.0, &request.fq_csids);
    }

    fn send(&mut self, clock: &WallClock) {
        while let Some(outgoing) = self.n4.take() {
            match outgoing {
                Outgoing::Response { asked, seid, mut message } => {
                    self.window.answered(asked.queue);
                    self.tell_load(asked.peer, &mut message, clock.now);
                    self.node.respond(asked.ticket, Some(seid), message, time(clock));
                }
                Outgoing::NodeResponse { ticket, queue, message } => {
                    self.window.answered(queue);
                    self.node.respond(ticket, None, message, time(clock));
                }
                Outgoing::NodeReport { peer, message } => {
                    let Some(association) = self.node.association(AssociationId(peer)) else { continue };
                    let to = association.address;
                    if self.node.request(to, None, message, NO_SESSION, time(clock)).is_err() {
                        self.unanswered += 1;
                    }
                }
                Outgoing::Report { peer, seid, session, token, mut message } => {
                    self.tell_load(peer, &mut message, clock.now);
                    let Some(association) = self.node.association(AssociationId(peer)) else {
                        self.n4.unanswered(token, clock.now);
                        continue;
                    };
                    // To one that is lost nothing is said that can be said later.
                    if association.state != State::Up && self.n4.unanswered(token, clock.now) {
                        continue;
                    }
                    let to = association.address;
                    let handle = self.reports.sent(Report { token, seid: session });
                    if self.node.request(to, Some(seid), message, handle, time(clock)).is_err() {
                        self.reports.take(handle);
                        self.unanswered += 1;
                        self.n4.unanswered(token, clock.now);
                    }
                }
            }
        }
    }
}
