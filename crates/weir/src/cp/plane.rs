//! The control plane itself: sessions brought up, lived with and taken down. No socket, no clock: both are handed in.
//!
//! ```text
//!  Associating ──► Working: establish, connect, then idle, wake, hand over, limit, query, churn
//!                     │ end
//!                     ▼
//!                  Ending: delete ──► Releasing ──► Over
//! ```

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};

use ledger::{Moment, Record};
use pfcp::Fault;
use pfcp::group::UsageReport;
use pfcp::ie::UsageReportTrigger;
use pfcp::ie::{Cause, CpFunctionFeatures, FSeid, NodeId, PfcpAssociationReleaseRequest, RecoveryTimeStamp};
use pfcp::ie::{ReportType, UpFunctionFeatures};
use pfcp::message::{
    AssociationUpdateRequest, Message, SessionDeletionRequest, SessionReportRequest, SessionReportResponse,
};
use pfcp::node::{AssociationId, Config, Event, Failure, Node, Removal, Role, Ticket, Time};

use super::charging::From;
use super::kept::Batch;
use super::pace::Pace;
use super::spec::Spec;
use super::subscriber::{Doing, State, Subscriber, tunnel};
use super::tally::{Asked, Tally};

/// How far the whole is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The user plane has been asked to work together.
    Associating,
    /// Sessions come up and live.
    Working,
    /// Sessions go.
    Ending,
    /// The association goes.
    Releasing,
    /// Nothing is left to do.
    Over,
    /// There is no user plane.
    Failed(Failure),
}

/// The answer to a report of usage, which waits for its records.
#[derive(Debug)]
pub struct Acknowledgement {
    ticket: Ticket,
    seid: u64,
    cause: Cause,
}

/// Things done to sessions that are up, and how often.
struct Paces {
    establish: Pace,
    hand_over: Pace,
    limit: Pace,
    query: Pace,
    churn: Pace,
}

/// The control plane.
pub struct ControlPlane {
    spec: Spec,
    node: Node,
    address: IpAddr,
    stage: Stage,
    association: Option<AssociationId>,
    subscribers: Vec<Subscriber>,
    /// To be brought up.
    waiting: VecDeque<u32>,
    /// Who is to be woken or put to sleep when, each in the order of time.
    wakes: VecDeque<(Time, u32)>,
    naps: VecDeque<(Time, u32)>,
    paces: Paces,
    /// Where the next one to do something with is looked for.
    cursor: usize,
    in_flight: usize,
    up: u32,
    most_up: u32,
    refused: u32,
    limits: usize,
    began: Option<Time>,
    complete: Option<Time>,
    /// Sessions that got their first gNB since last asked.
    fresh: Vec<u32>,
    /// Records made, and acknowledgements of what they were made of, since last asked.
    batches: Vec<Batch>,
    /// What the user plane calls itself.
    user_plane: String,
    charging_id: u32,
    /// Tells our sessions from those of an earlier run.
    run: u32,
    /// The calendar's time when our clock was at zero.
    epoch: Moment,
    keep: bool,
    silent: bool,
    /// The user plane asks to be released: it gets no new sessions.
    asked_to_release: bool,
    tally: Tally,
}

impl ControlPlane {
    /// One that speaks from `address`, began at `started`, and asks its user plane to work together `now`.
    pub fn new(spec: Spec, address: IpAddr, started: RecoveryTimeStamp, now: Time) -> Self {
        let features = CpFunctionFeatures::NONE;
        let config = Config {
            t1: spec.patience,
            max_requests: spec.window + 64,
            ..Config::new(NodeId::from(address), Role::ControlPlane(features))
        };
        let mut node = Node::new(config, started);
        // Nothing waits yet: there is room for a request.
        _ = node.associate(spec.upf, now);
        let subscribers = (0..spec.sessions).map(|i| Subscriber::new(i, &spec.places)).collect();
        let life = &spec.life;
        let paces = Paces {
            establish: Pace::new(spec.rate),
            hand_over: Pace::new(life.handovers),
            limit: Pace::new(life.limits),
            query: Pace::new(life.queries),
            churn: Pace::new(life.churn),
        };
        Self {
            node,
            address,
            stage: Stage::Associating,
            association: None,
            subscribers,
            waiting: (0..spec.sessions).collect(),
            wakes: VecDeque::new(),
            naps: VecDeque::new(),
            paces,
            cursor: 0,
            in_flight: 0,
            up: 0,
            most_up: 0,
            refused: 0,
            limits: 0,
            began: None,
            complete: None,
            fresh: Vec::new(),
            batches: Vec::new(),
            user_plane: String::new(),
            charging_id: 0,
            run: started.0.wrapping_mul(0x9e37_79b1),
            // To the second, as time stamps of the protocol are.
            epoch: Moment(started.unix() * 1000),
            keep: false,
            silent: false,
            asked_to_release: false,
            tally: Tally::default(),
            spec,
        }
    }

    /// Its end of PFCP.
    pub fn node(&self) -> &Node {
        &self.node
    }

    /// How far it is.
    pub fn stage(&self) -> Stage {
        self.stage
    }

    /// What it was told to do.
    pub fn spec(&self) -> &Spec {
        &self.spec
    }

    /// What it has done.
    pub fn tally(&self) -> &Tally {
        &self.tally
    }

    /// As [`tally`](Self::tally), to begin response times anew.
    pub fn tally_mut(&mut self) -> &mut Tally {
        &mut self.tally
    }

    /// Sessions that are up; the most there have been.
    pub fn up(&self) -> (u32, u32) {
        (self.up, self.most_up)
    }

    /// Subscribers that sleep.
    pub fn idle(&self) -> usize {
        self.subscribers.iter().filter(|subscriber| subscriber.state == State::Idle).count()
    }

    /// The subscribers, by number.
    pub fn subscribers(&self) -> &[Subscriber] {
        &self.subscribers
    }

    /// When the first session was asked for, and when the last was there or refused.
    pub fn bring_up(&self) -> (Option<Time>, Option<Time>) {
        (self.began, self.complete)
    }

    /// Sessions that got their gNB since last asked.
    pub fn take_fresh(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.fresh)
    }

    /// Charging records since last asked, and acknowledgements that wait for them: to be handed back to
    /// [`acknowledge`](Self::acknowledge) when the records are safe.
    pub fn take_batches(&mut self) -> Vec<Batch> {
        std::mem::take(&mut self.batches)
    }

    /// Acknowledges usage.
    pub fn acknowledge(&mut self, Acknowledgement { ticket, seid, cause }: Acknowledgement, now: Time) {
        let response = SessionReportResponse { cause, ..SessionReportResponse::default() };
        self.node.respond(ticket, Some(seid), response.into(), now);
    }

    /// Takes in a datagram.
    pub fn receive(&mut self, from: SocketAddr, datagram: &[u8], now: Time) {
        self.node.receive(from, datagram, now);
        self.react(now);
    }

    /// Hands over what is to be sent.
    pub fn drain(&mut self, send: impl FnMut(SocketAddr, &[u8])) {
        self.node.drain(send);
    }

    /// Does what is due.
    pub fn turn(&mut self, now: Time) {
        self.node.tick(now);
        self.react(now);
        match self.stage {
            Stage::Working => self.work(now),
            Stage::Ending => self.take_down(now),
            Stage::Releasing if self.association.is_none() => self.stage = Stage::Over,
            _ => {}
        }
    }

    /// Ends it: sessions deleted and the association released, unless they are to be kept.
    pub fn end(&mut self, keep: bool) {
        self.keep = keep;
        self.cursor = 0;
        self.stage = if self.association.is_some() { Stage::Ending } else { Stage::Over };
    }

    fn work(&mut self, now: Time) {
        self.began.get_or_insert(now);
        while self.has_room() && !self.asked_to_release && !self.waiting.is_empty() && self.paces.establish.take(now) {
            let Some(i) = self.waiting.pop_front() else { return };
            self.establish(i, now);
        }
        if self.complete.is_none() {
            let more = !self.asked_to_release && self.up + self.refused < self.spec.sessions;
            if more || self.in_flight > 0 {
                return;
            }
            self.complete = Some(now);
            // Spread evenly over the numbers.
            let share = self.spec.life.idle;
            let sleeps = |i: &u32| (f64::from(*i + 1) * share) as u64 > (f64::from(*i) * share) as u64;
            self.naps.extend((0..self.spec.sessions).filter(sleeps).map(|i| (now, i)));
        }
        self.see_to_sleepers(now);
        while self.has_room() && self.paces.hand_over.take(now) {
            let Some(i) = self.next(|subscriber| subscriber.state == State::Up) else { break };
            self.hand_over(i, now);
        }
        while self.has_room() && self.paces.limit.take(now) {
            let Some(i) = self.next(|_| true) else { break };
            self.limit(i, now);
        }
        while self.has_room() && self.paces.query.take(now) {
            let Some(i) = self.next(|_| true) else { break };
            let request = self.subscribers[i as usize].session.query();
            self.modify(i, Doing::Query, request, now);
        }
        while self.has_room() && self.paces.churn.take(now) {
            let Some(i) = self.next(|_| true) else { break };
            self.subscribers[i as usize].comes_again = true;
            self.delete(i, now);
        }
    }

    fn has_room(&self) -> bool {
        self.in_flight < self.spec.window
    }

    /// The next subscriber, round and round, that is free and pleases.
    fn next(&mut self, pleases: impl Fn(&Subscriber) -> bool) -> Option<u32> {
        // Few are busy; if these are, the next turn looks on.
        for _ in 0..self.subscribers.len().min(256) {
            let i = self.cursor;
            self.cursor = (i + 1) % self.subscribers.len();
            let subscriber = &self.subscribers[i];
            if subscriber.is_free() && pleases(subscriber) {
                return Some(i as u32);
            }
        }
        None
    }

    fn see_to_sleepers(&mut self, now: Time) {
        // Those that are busy are looked at again in the next turn, so no more than there are now.
        for _ in 0..self.wakes.len() {
            let Some(&(due, i)) = self.wakes.front().filter(|(due, _)| *due <= now && self.has_room()) else { break };
            self.wakes.pop_front();
            match &self.subscribers[i as usize] {
                subscriber if subscriber.doing.is_some() => self.wakes.push_back((due, i)),
                subscriber if subscriber.state == State::Idle => self.connect(i, Doing::Wake, now),
                _ => {}
            }
        }
        for _ in 0..self.naps.len() {
            let Some(&(due, i)) = self.naps.front().filter(|(due, _)| *due <= now && self.has_room()) else { break };
            self.naps.pop_front();
            match &mut self.subscribers[i as usize] {
                subscriber if subscriber.doing.is_some() => self.naps.push_back((due, i)),
                subscriber if subscriber.state == State::Up => {
                    let request = subscriber.session.idle();
                    self.modify(i, Doing::Sleep, request, now);
                }
                _ => {}
            }
        }
    }

    fn take_down(&mut self, now: Time) {
        while !self.keep && !self.silent && self.has_room() && self.cursor < self.subscribers.len() {
            let subscriber = &self.subscribers[self.cursor];
            if subscriber.is_free() {
                self.delete(self.cursor as u32, now);
            }
            self.cursor += 1;
        }
        if self.in_flight > 0 && !self.silent {
            return;
        }
        let busy_before = |subscriber: &Subscriber| matches!(subscriber.state, State::Up | State::Idle);
        if !self.keep && !self.silent && self.subscribers.iter().any(busy_before) {
            // Those that were busy when they were passed.
            self.cursor = 0;
            return;
        }
        self.stage = match self.association.filter(|_| !self.keep && !self.silent) {
            Some(association) if self.node.release(association, now).is_ok() => Stage::Releasing,
            _ => Stage::Over,
        };
    }

    fn establish(&mut self, i: u32, now: Time) {
        let node = self.node.config().node_id.clone();
        let before = &self.subscribers[i as usize];
        let mut fresh = Subscriber::new(i, &self.spec.places).after(before, self.run);
        self.charging_id += 1;
        fresh.charging_id = self.charging_id;
        if self.spec.profile.kind == pfcp::control::Kind::PgwC {
            // The SGW's end is known from the start.
            fresh.session.access = Some(tunnel(self.spec.places.gnb(i, false)));
        }
        let request = fresh.session.establish(&self.spec.profile, &node, self.address);
        self.subscribers[i as usize] = fresh;
        self.send(i, Doing::Establish, Some(0), request.into(), now);
    }

    fn connect(&mut self, i: u32, doing: Doing, now: Time) {
        let subscriber = &mut self.subscribers[i as usize];
        let to = self.spec.places.gnb(i, subscriber.away);
        subscriber.last_node = Some(to.1);
        let request = subscriber.session.connect(tunnel(to));
        self.modify(i, doing, request, now);
    }

    fn hand_over(&mut self, i: u32, now: Time) {
        let subscriber = &mut self.subscribers[i as usize];
        subscriber.away = !subscriber.away;
        self.connect(i, Doing::HandOver, now);
    }

    fn limit(&mut self, i: u32, now: Time) {
        let rates = &self.spec.life.limit_to;
        let Some(rate) = rates.get(self.limits % rates.len().max(1)).copied() else { return };
        self.limits += 1;
        let request = self.subscribers[i as usize].session.limit(rate);
        self.modify(i, Doing::Limit, request, now);
    }

    fn delete(&mut self, i: u32, now: Time) {
        let seid = self.up_seid(i);
        self.send(i, Doing::Delete, seid, SessionDeletionRequest::default().into(), now);
    }

    fn modify(&mut self, i: u32, doing: Doing, request: impl Into<Message>, now: Time) {
        let seid = self.up_seid(i);
        self.send(i, doing, seid, request.into(), now);
    }

    fn up_seid(&self, i: u32) -> Option<u64> {
        let f_seid: Option<FSeid> =
            self.subscribers.get(i as usize).and_then(|subscriber| subscriber.session.up_f_seid);
        Some(f_seid.map_or(0, |f_seid| f_seid.seid))
    }

    fn send(&mut self, i: u32, doing: Doing, seid: Option<u64>, message: Message, now: Time) {
        // The window is smaller than what the node lets wait, and none of our requests is too long.
        if self.node.request(self.spec.upf, seid, message, i.into(), now).is_ok() {
            self.subscribers[i as usize].doing = Some((doing, now));
            self.in_flight += 1;
        }
    }

    fn react(&mut self, now: Time) {
        while let Some(event) = self.node.next_event() {
            match event {
                Event::Up(id) => self.associated(id),
                Event::NotSetUp { why, .. } => self.not_associated(why, now),
                Event::Response { token, packet } => self.answered(token as usize, packet.message, now),
                Event::Failed { token, .. } => self.unanswered(token as usize),
                Event::Request { ticket, packet, .. } => match packet.message {
                    Message::SessionReportRequest(report) => {
                        self.reported(ticket, packet.header.seid.unwrap_or(0), &report, now);
                    }
                    _ => {
                        let fault = Fault { cause: Cause::SERVICE_NOT_SUPPORTED, ie: 0 };
                        self.node.refuse(ticket, None, fault, now);
                    }
                },
                Event::Unreadable { ticket, seid, fault } => {
                    let i = seid.and_then(|seid| u32::try_from(seid.checked_sub(1)?).ok());
                    let seid = i.and_then(|i| self.up_seid(i));
                    self.node.refuse(ticket, seid, fault, now);
                }
                Event::Lost(_) => self.tally.counts.lost += 1,
                Event::Gone(_, why) => self.gone(why, now),
                Event::Updated(_, update) => self.updated(&update),
                Event::Back(_) => {}
            }
        }
    }

    /// Who asks to be released (6.2.7.3) gets no new sessions; those there are stay until somebody moves them.
    fn updated(&mut self, update: &AssociationUpdateRequest) {
        let flags = update.pfcp_association_release_request;
        if flags.is_some_and(|flags| flags.contains(PfcpAssociationReleaseRequest::SARR)) {
            self.asked_to_release = true;
            self.tally.counts.asked_to_release += 1;
        }
    }

    fn associated(&mut self, id: AssociationId) {
        self.association = Some(id);
        self.asked_to_release = false;
        let chooses = |features: UpFunctionFeatures| features.contains(UpFunctionFeatures::FTUP);
        let association = self.node.association(id);
        self.user_plane = association.map(|association| association.node_id.to_string()).unwrap_or_default();
        let features = association.and_then(|association| association.up_function_features);
        if self.stage != Stage::Associating {
            return;
        }
        self.stage = Stage::Working;
        if self.spec.profile.own_teids.is_none() && !features.is_some_and(chooses) {
            // It would refuse every session: better said once.
            self.stage = Stage::Failed(Failure::Rejected(Cause::INVALID_F_TEID_ALLOCATION_OPTION));
        }
    }

    fn not_associated(&mut self, why: Failure, now: Time) {
        match self.stage {
            Stage::Associating if self.began.is_none() => self.stage = Stage::Failed(why),
            // It was there before, and may come again.
            Stage::Associating => _ = self.node.associate(self.spec.upf, now),
            _ => {}
        }
    }

    /// The association is gone, and with it all sessions.
    fn gone(&mut self, why: Removal, now: Time) {
        self.association = None;
        for (i, subscriber) in (0..).zip(&mut self.subscribers) {
            if subscriber.is_free() {
                subscriber.state = State::Down;
                self.up -= 1;
                self.waiting.push_back(i);
            }
        }
        if self.stage == Stage::Working {
            self.tally.counts.lost += u64::from(why != Removal::Lost);
            self.stage = Stage::Associating;
            _ = self.node.associate(self.spec.upf, now);
        } else if self.stage == Stage::Ending {
            self.stage = Stage::Over;
        }
    }

    fn answered(&mut self, i: usize, message: Message, now: Time) {
        let Some((doing, since)) = self.subscribers.get_mut(i).and_then(|subscriber| subscriber.doing.take()) else {
            return;
        };
        self.in_flight -= 1;
        let after = now.saturating_sub(since);
        match message {
            Message::SessionEstablishmentResponse(response) => {
                self.tally.answered(Asked::Establishment, after);
                match self.subscribers[i].session.established(&response) {
                    Ok(()) => self.established(i as u32, now),
                    Err(cause) => {
                        self.subscribers[i].state = State::Refused;
                        self.refused += 1;
                        self.tally.refuse(cause);
                    }
                }
            }
            Message::SessionModificationResponse(response) => {
                self.tally.answered(Asked::Modification, after);
                self.charge(i, &response.usage_reports, None, now);
                if response.cause.is_acceptance() {
                    self.tally.counts.modified += 1;
                    self.modified(i as u32, doing, now);
                } else {
                    self.tally.refuse(response.cause);
                    if response.cause == Cause::SESSION_CONTEXT_NOT_FOUND {
                        self.is_down(i as u32);
                        self.waiting.push_back(i as u32);
                    }
                }
            }
            Message::SessionDeletionResponse(response) => {
                self.tally.answered(Asked::Deletion, after);
                self.charge(i, &response.usage_reports, None, now);
                self.is_down(i as u32);
                match response.cause.is_acceptance() {
                    true => self.tally.counts.deleted += 1,
                    false => self.tally.refuse(response.cause),
                }
                if std::mem::take(&mut self.subscribers[i].comes_again) {
                    self.waiting.push_back(i as u32);
                }
            }
            _ => {}
        }
    }

    fn established(&mut self, i: u32, now: Time) {
        self.tally.counts.established += 1;
        self.up += 1;
        self.most_up = self.most_up.max(self.up);
        let subscriber = &mut self.subscribers[i as usize];
        if subscriber.session.access.is_some() {
            subscriber.state = State::Up;
            self.fresh.push(i);
            return;
        }
        subscriber.state = State::Idle;
        if self.stage == Stage::Working {
            self.connect(i, Doing::Connect, now);
        }
    }

    fn modified(&mut self, i: u32, doing: Doing, now: Time) {
        let subscriber = &mut self.subscribers[i as usize];
        let counts = &mut self.tally.counts;
        match doing {
            Doing::Connect => {
                subscriber.state = State::Up;
                counts.connected += 1;
                self.fresh.push(i);
            }
            Doing::Sleep => {
                subscriber.state = State::Idle;
                counts.idled += 1;
            }
            Doing::Wake => {
                subscriber.state = State::Up;
                counts.paged += 1;
                self.naps.extend(self.spec.life.idle_again.map(|again| (now + again, i)));
            }
            Doing::HandOver => counts.handed_over += 1,
            Doing::Limit => counts.limited += 1,
            Doing::Query => counts.queried += 1,
            Doing::Grant => counts.granted += 1,
            Doing::Establish | Doing::Delete => {}
        }
        self.grant(i, now);
    }

    /// A quota that was used up is granted again, once nothing else is being done.
    fn grant(&mut self, i: u32, now: Time) {
        let subscriber = &mut self.subscribers[i as usize];
        let Some(octets) = self.spec.profile.volume_quota else { return };
        if self.stage == Stage::Working && subscriber.wants_grant && subscriber.is_free() {
            subscriber.wants_grant = false;
            let request = subscriber.session.grant(octets);
            self.modify(i, Doing::Grant, request, now);
        }
    }

    fn is_down(&mut self, i: u32) {
        let subscriber = &mut self.subscribers[i as usize];
        if matches!(subscriber.state, State::Up | State::Idle) {
            self.up -= 1;
        }
        subscriber.state = State::Down;
    }

    /// Sent as often as may be, and no answer.
    fn unanswered(&mut self, i: usize) {
        let Some((doing, _)) = self.subscribers.get_mut(i).and_then(|subscriber| subscriber.doing.take()) else {
            return;
        };
        self.in_flight -= 1;
        self.tally.counts.unanswered += 1;
        match self.stage {
            // Whoever does not answer one will not answer the others.
            Stage::Ending => self.silent = true,
            _ if doing == Doing::Establish => self.waiting.push_back(i as u32),
            _ => {}
        }
    }

    /// Records of the reports of usage that are new, and what waits for them.
    fn charge(&mut self, i: usize, reports: &[UsageReport], answer: Option<Acknowledgement>, now: Time) {
        let subscriber = &mut self.subscribers[i];
        let mut account = std::mem::take(&mut subscriber.account);
        let from = From { spec: &self.spec, node: &self.user_plane, address: self.address, now: self.epoch.after(now) };
        let mut records: Vec<Record> = Vec::new();
        for report in reports {
            if account.is_new(report) {
                self.tally.usage(report);
                records.push(account.record(i as u32, subscriber, report, &from));
            } else {
                self.tally.counts.repeated += 1;
            }
        }
        subscriber.account = account;
        if !records.is_empty() || answer.is_some() {
            self.batches.push((records, answer));
        }
    }

    fn reported(&mut self, ticket: Ticket, seid: u64, report: &SessionReportRequest, now: Time) {
        let i = (seid as u32).checked_sub(1).filter(|i| (*i as usize) < self.subscribers.len()); // the number's half
        let known = i.filter(|i| {
            let subscriber = &self.subscribers[*i as usize];
            matches!(subscriber.state, State::Up | State::Idle) && subscriber.session.cp_seid == seid
        });
        let cause = if known.is_some() { Cause::REQUEST_ACCEPTED } else { Cause::SESSION_CONTEXT_NOT_FOUND };
        let seid = known.and_then(|i| self.up_seid(i)).unwrap_or(0);
        let answer = Acknowledgement { ticket, seid, cause };
        match known.filter(|_| !report.usage_reports.is_empty()) {
            Some(i) => self.charge(i as usize, &report.usage_reports, Some(answer), now),
            None => self.acknowledge(answer, now),
        }
        self.tally.counts.reports += 1;
        let kinds = [
            (ReportType::DLDR, "downlink data waits"),
            (ReportType::ERIR, "error indication"),
            (ReportType::UPIR, "inactivity"),
        ];
        for (kind, name) in kinds {
            if report.report_type.contains(kind) {
                self.tally.kind(name);
            }
        }
        let Some(i) = known else { return };
        if report.report_type.contains(ReportType::DLDR) {
            self.wakes.push_back((now + self.spec.life.paging, i));
        }
        if report.usage_reports.iter().any(|usage| usage.usage_report_trigger.contains(UsageReportTrigger::VOLQU)) {
            self.subscribers[i as usize].wants_grant = true;
            self.grant(i, now);
        }
    }
}
