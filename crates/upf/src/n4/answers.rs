//! Answers of workers, and the responses to control planes that follow.

use pfcp::ie::{Cause, PfcpSmReqFlags};
use pfcp::message::{SessionEstablishmentResponse, SessionModificationRequest, SessionModificationResponse};

use super::change::Rules;
use super::choose::Chosen;
use super::ending::Ended;
use super::in_progress::Change as Settling;
use super::metering::{Causes, Metering, WallClock, report};
use super::paths::Path;
use super::problem::Problem;
use super::{N4, Outgoing, RequestContext, SLICE, counted};
use crate::control::{Answer, Control, Report};

/// What the clock brings due in a turn, of each kind: the rest is seen to in the next one.
const DUE: usize = 256;

/// What a worker was asked for, and what is to be done with its answer.
#[derive(Debug)]
pub(super) enum Pending {
    /// A new session.
    Establish(Box<Establishment>),
    /// Changed rules.
    Modify(Box<Modification>),
    /// Usage counted, for a modification that only queries.
    Query(Queried),
    /// A deletion.
    Delete(Ended),
    /// A look at what has been counted, because a bound was reached or the time has come.
    Look { number: u32 },
    /// A change by the user plane itself (activation time): no request waits.
    Refresh { number: u32 },
}

/// A modification that only queries, whose worker has not answered yet.
#[derive(Debug)]
pub(super) struct Queried {
    pub asked: RequestContext,
    pub number: u32,
    pub query: Query,
    pub response: Box<SessionModificationResponse>,
}

/// A session whose worker has not installed it yet.
#[derive(Debug)]
pub(super) struct Establishment {
    pub asked: RequestContext,
    pub number: u32,
    /// Our SEID.
    pub seid: u64,
    /// The control plane's SEID.
    pub cp_seid: u64,
    pub chosen: Chosen,
    pub response: SessionEstablishmentResponse,
}

/// A modification whose rules the worker has not taken yet.
#[derive(Debug)]
pub(super) struct Modification {
    pub asked: RequestContext,
    pub number: u32,
    /// URRs that it removes.
    pub gone: Vec<Gone>,
    /// URRs that it queries.
    pub query: Query,
    pub change: Settling,
    pub response: SessionModificationResponse,
}

/// A URR that was removed, and its account.
pub(super) type Gone = (pfcp::group::CreateUrr, Metering);

/// URRs that a modification queries.
#[derive(Clone, Debug, Default)]
pub(super) struct Query {
    all: bool,
    urrs: Vec<u32>,
}

impl Query {
    pub(super) fn of(request: &SessionModificationRequest) -> Self {
        let all = request.pfcp_sm_req_flags.is_some_and(|flags| flags.contains(PfcpSmReqFlags::QAURR));
        Self { all, urrs: request.query_urrs.iter().map(|query| query.urr_id.0).collect() }
    }

    pub(super) fn is_empty(&self) -> bool {
        !self.all && self.urrs.is_empty()
    }

    /// A URR that it queries and that does not exist.
    pub(super) fn unknown(&self, rules: &Rules) -> Option<u32> {
        let is_there = |urr: &u32| rules.create_urrs.iter().any(|rule| rule.urr_id.0 == *urr);
        self.urrs.iter().copied().find(|urr| !is_there(urr))
    }

    pub(super) fn asks_for(&self, urr: u32) -> bool {
        self.all || self.urrs.contains(&urr)
    }
}

impl N4 {
    /// Sees to what workers have answered and noticed, and to what is due.
    pub fn poll(&mut self, control: &mut Control, clock: &WallClock) {
        self.slice = SLICE;
        self.take_answers(control, clock);
        self.serve_queue(control, clock);
        if let Some(keeper) = &mut self.keeper {
            keeper.let_go(&mut self.out);
        }
        self.take_reports(control, clock);
        self.supervise_paths(control, clock.now);
        for (number, pdr) in self.store.take_notices(clock.now, DUE) {
            self.tell_packets_wait(number, pdr);
        }
        for number in self.store.take_looks(clock.now, DUE) {
            self.look(number, control, clock.now);
        }
        self.drop_waiting(control, clock.now);
        self.refresh_again(control, clock);
        self.end_again(control);
        self.end_peers(control);
        self.end_sets(control);
        self.send_late(clock.now);
        self.send_unanswered();
        self.update_applications(control, clock);
        self.go_round(control, clock.now);
    }

    fn take_answers(&mut self, control: &mut Control, clock: &WallClock) {
        while let Some((ask, answer)) = control.answer() {
            if let Some(pending) = self.pending.remove(&ask) {
                self.finish(pending, answer, control, clock);
            } else if let Some(number) = self.checkpoints.asked(ask)
                && let Answer::Usage(usage) = answer
            {
                self.measured(number, &usage, control, clock);
            }
        }
    }

    fn take_reports(&mut self, control: &mut Control, clock: &WallClock) {
        while let Some(report) = control.report() {
            match report {
                Report::Buffered { handle, pdr } => self.packets_wait(handle, pdr, clock.now),
                Report::EchoResponse { instance, peer, sequence } => {
                    self.path_answers(Path { instance, peer }, sequence, clock.now);
                }
                Report::ForControl { to, teid, packet } => self.control_packets.send(to, teid, &packet),
                Report::Reached { handle } => self.look(handle, control, clock.now),
                Report::ErrorIndication { handle, peer, teid, .. } => {
                    self.error_indicated(handle, peer, teid, clock.now);
                }
            }
        }
    }

    fn finish(&mut self, pending: Pending, answer: Answer, control: &mut Control, clock: &WallClock) {
        match pending {
            Pending::Establish(establishment) => self.established(*establishment, &answer, control),
            Pending::Modify(modification) => self.modified(*modification, &answer, control, clock),
            Pending::Query(queried) => self.queried(queried, &answer, control, clock),
            Pending::Delete(mut ended) => {
                let usage = if let Answer::Removed(usage) = answer { usage } else { Vec::new() };
                self.refuse_deferred(&mut ended, control, clock);
                self.ended_with(ended, &usage, clock);
            }
            Pending::Look { number } => {
                self.store.end_measurement(number);
                if self.store.has_request(number) {
                    // Reported by rules that the worker may still refuse, usage would be reported again by those it keeps.
                    // Queried again, the worker answers after the change.
                    self.look(number, control, clock.now);
                } else if let Answer::Usage(usage) = answer {
                    self.looked(number, &usage, control, clock);
                }
            }
            Pending::Refresh { number } => {
                self.refreshed(number, matches!(answer, Answer::Installed(_)), control, clock);
            }
        }
    }

    /// A worker has answered a modification that only queries.
    fn queried(&mut self, queried: Queried, answer: &Answer, control: &mut Control, clock: &WallClock) {
        let Queried { asked, number, query, mut response } = queried;
        let mut used = None;
        if let Answer::Usage(usage) = answer {
            self.counters.modified += 1;
            response.usage_reports.extend(self.asked_for(number, &query, usage, clock));
            self.rebound(number, control);
            used = self.responded(number, &response.usage_reports, usage, clock);
        }
        let seid = self.store.get(number).map_or(0, |entry| entry.cp_seid);
        let answer = Outgoing::Response { asked, seid, message: (*response).into() };
        self.keep(|_| used.into_iter().collect(), Some(answer));
        self.ask_deferred(number, control, clock);
    }

    /// A worker has answered an establishment.
    fn established(&mut self, new: Establishment, answer: &Answer, control: &mut Control) {
        let Establishment { asked, number, seid, cp_seid, chosen, response } = new;
        let cause = if self.store.seid(number) != Some(seid) {
            // The session has ended meanwhile, and what was chosen for it was released then.
            Cause::REQUEST_REJECTED
        } else if let Answer::Installed(_) = answer {
            self.counters.established += 1;
            let answer = Outgoing::Response { asked, seid: cp_seid, message: response.into() };
            return self.keep_session(number, None, Some(answer));
        } else {
            self.take_out(number, control);
            self.give_back(&chosen);
            Cause::NO_RESOURCES_AVAILABLE
        };
        self.counters.refused += 1;
        let message = self.no_session(Problem::of(cause));
        self.out.push_back(Outgoing::Response { asked, seid: cp_seid, message });
    }

    /// A worker has answered a modification.
    fn modified(&mut self, new: Modification, answer: &Answer, control: &mut Control, clock: &WallClock) {
        let Modification { asked, number, gone, query, change, mut response } = new;
        let cp_seid = |n4: &Self| n4.store.get(number).map_or(0, |entry| entry.cp_seid);
        if let Answer::Installed(usage) = answer {
            let grants = change.grants;
            self.commit_change(number, change, control);
            self.store.forget_news(number);
            self.counters.modified += 1;
            for (urr, mut meter) in gone {
                let counted = counted(usage, meter.urr);
                meter.look(&counted, clock.now);
                report(&mut meter, &urr, &counted, Causes::ENDED, clock, &mut response.usage_reports);
            }
            response.usage_reports.extend(self.asked_for(number, &query, usage, clock));
            self.rebound(number, control);
            let reports = grants || !response.usage_reports.is_empty();
            let used = reports.then(|| self.responded(number, &response.usage_reports, usage, clock)).flatten();
            let answer = Outgoing::Response { asked, seid: cp_seid(self), message: response.into() };
            self.keep_session(number, used, Some(answer));
        } else {
            // The worker has neither the old rules nor the new ones in doubt: it kept the old, and so does the store.
            self.undo(number, change, control, clock);
            self.counters.refused += 1;
            let cause = Cause::NO_RESOURCES_AVAILABLE;
            response = SessionModificationResponse { cause, ..SessionModificationResponse::default() };
            self.out.push_back(Outgoing::Response { asked, seid: cp_seid(self), message: response.into() });
        }
        self.ask_deferred(number, control, clock);
    }
}
