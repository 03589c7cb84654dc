//! What control planes ask for: sessions established, modified, deleted (3GPP TS 29.244, 7.5.2 to 7.5.7).

use pfcp::ie::{Cause, FSeid, FailedRuleId, PdnType, PfcpSmReqFlags};
use pfcp::message::{
    Message, SessionDeletionResponse, SessionEstablishmentRequest, SessionEstablishmentResponse,
    SessionModificationRequest, SessionModificationResponse,
};

use super::answers::{Establishment, Gone, Modification, Pending, Queried, Query};
use super::change::{self, Rules};
use super::choose::Chosen;
use super::in_progress::Change;
use super::metering::{Metering, WallClock, given, terms};
use super::prepare::{check_unique, not_installed};
use super::problem::Problem;
use super::store::{self, Prepared};
use super::{N4, Outgoing, RequestContext, steer};
use crate::control::Control;

impl N4 {
    /// Sees to a request about a session. The answer comes by [`take`](Self::take), at once or when a worker has done
    /// its part.
    pub fn request(
        &mut self,
        asked: RequestContext,
        seid: u64,
        message: Message,
        control: &mut Control,
        clock: &WallClock,
    ) {
        let Some(message) = self.defer(asked, seid, message) else { return };
        if let Some(message) = self.enqueue(asked, seid, message, control, clock) {
            self.carry_out(asked, seid, message, control, clock);
        }
    }

    /// As [`request`](Self::request), now.
    pub(super) fn carry_out(
        &mut self,
        asked: RequestContext,
        seid: u64,
        message: Message,
        control: &mut Control,
        clock: &WallClock,
    ) {
        let Some(message) = self.defer(asked, seid, message) else { return };
        let refused = match message {
            Message::SessionEstablishmentRequest(request) => {
                let cp = request.cp_f_seid.seid;
                self.establish(asked, request, control, clock).err().map(|problem| (cp, self.no_session(problem)))
            }
            Message::SessionModificationRequest(request) => {
                let cp = self.cp_seid(asked.peer, seid);
                self.modify(asked, seid, &request, control, clock).err().map(|Problem { cause, ie, rule }| {
                    let (offending_ie, failed_rule_id) = (ie, rule);
                    let response =
                        SessionModificationResponse { cause, offending_ie, failed_rule_id, ..Default::default() };
                    (cp, response.into())
                })
            }
            Message::SessionDeletionRequest(_) => {
                let cp = self.cp_seid(asked.peer, seid);
                if self.store.find(seid).is_none() && self.say_again(asked, seid) {
                    return;
                }
                self.delete(asked, seid, control).err().map(|Problem { cause, ie, .. }| {
                    (cp, SessionDeletionResponse { cause, offending_ie: ie, ..Default::default() }.into())
                })
            }
            // Others are not about sessions, or not a user plane's to answer.
            _ => None,
        };
        if let Some((seid, message)) = refused {
            self.counters.refused += 1;
            self.out.push_back(Outgoing::Response { asked, seid, message });
        }
    }

    /// The association that owns the session we number `seid`, or owned it and may not know that it is gone.
    pub fn owner(&self, seid: u64) -> Option<u32> {
        let entry = self.store.find(seid).and_then(|number| self.store.get(number));
        entry.map(|entry| entry.peer).or_else(|| self.checkpoints.gone_of(seid))
    }

    /// The control plane's F-SEID of the session we number `seid`.
    pub fn cp_f_seid(&self, seid: u64) -> Option<FSeid> {
        let entry = self.store.find(seid).and_then(|number| self.store.get(number));
        entry.map(|entry| entry.rules().cp_f_seid)
    }

    /// The number the control plane has for the session that we number `seid`; 0: there is none.
    pub(crate) fn seid_of_peer(&self, seid: u64) -> u64 {
        self.store.find(seid).and_then(|number| self.store.get(number)).map_or(0, |entry| entry.cp_seid)
    }

    pub(super) fn no_session(&self, problem: Problem) -> Message {
        let Problem { cause, ie, rule } = problem;
        let node_id = self.node.clone();
        let (offending_ie, failed_rule_id) = (ie, rule);
        SessionEstablishmentResponse { node_id, cause, offending_ie, failed_rule_id, ..Default::default() }.into()
    }

    /// The SEID to answer to; 0 where there is no session of the peer's (7.2.2.4.2).
    pub(super) fn cp_seid(&self, peer: u32, seid: u64) -> u64 {
        let entry = self.store.find(seid).and_then(|number| self.store.get(number));
        entry.filter(|entry| entry.peer == peer).map_or(0, |entry| entry.cp_seid)
    }

    fn establish(
        &mut self,
        asked: RequestContext,
        mut rules: SessionEstablishmentRequest,
        control: &mut Control,
        clock: &WallClock,
    ) -> Result<(), Problem> {
        self.check_establishment(asked, &mut rules)?;
        let mut chosen = Chosen::default();
        let installed = self.install(asked.peer, &mut rules, &mut chosen, control, clock);
        let (new, number, ask) = installed.inspect_err(|_| self.give_back(&chosen))?;
        steer(control, new.worker, &[], &new.keys);
        let cp_seid = new.cp_seid;
        let seid = self.store.establish(asked.peer, new, store::sets(&rules.fq_csids), clock.now);
        self.plan_look(number, &rules, clock);
        let response = SessionEstablishmentResponse {
            node_id: self.node.clone(),
            cause: Cause::REQUEST_ACCEPTED,
            up_f_seid: Some(FSeid::new(seid, self.address)),
            created_pdrs: std::mem::take(&mut chosen.pdrs),
            created_traffic_endpoints: std::mem::take(&mut chosen.endpoints),
            ..SessionEstablishmentResponse::default()
        };
        let new = Establishment { asked, number, seid, cp_seid, chosen, response };
        self.pending.insert(ask, Pending::Establish(Box::new(new)));
        Ok(())
    }

    /// Whether a new session may be, as far as its message says.
    fn check_establishment(
        &mut self,
        asked: RequestContext,
        rules: &mut SessionEstablishmentRequest,
    ) -> Result<(), Problem> {
        let full = self.store.len() >= self.limits.sessions || self.store.of_peer(asked.peer) >= asked.most;
        // Either way another user plane may have room: "a temporary unavailability of resources" (8.2.1).
        if full || self.draining {
            return Err(Problem::of(Cause::NO_RESOURCES_AVAILABLE));
        }
        if matches!(rules.pdn_type, Some(PdnType::NonIp | PdnType::Ethernet)) {
            return Err(Problem::of(Cause::SERVICE_NOT_SUPPORTED));
        }
        self.check_ies(asked.peer, rules)?;
        self.check_new(asked.peer, rules)?;
        self.catalogue.measure(rules);
        check_unique(rules)?;
        self.check_applications(asked.peer, rules.create_pdrs.iter().map(|pdr| (pdr.pdr_id, &pdr.pdi)))
    }

    /// Gives the rules of a new session to its worker, compiled: they, the session's number, and that of the question.
    fn install(
        &mut self,
        peer: u32,
        rules: &mut Rules,
        chosen: &mut Chosen,
        control: &mut Control,
        clock: &WallClock,
    ) -> Result<(Prepared, u32, u64), Problem> {
        let new = self.prepare((peer, None), rules, chosen, &[], control, clock)?;
        self.end_namesakes(peer, &new, control)?;
        self.check_free(rules, &new, None)?;
        let number = self.store.next_number();
        let install = control.install(new.worker, number, &new.session);
        let ask = install.map_err(|error| not_installed(&error))?;
        Ok((new, number, ask))
    }

    fn modify(
        &mut self,
        asked: RequestContext,
        seid: u64,
        request: &SessionModificationRequest,
        control: &mut Control,
        clock: &WallClock,
    ) -> Result<(), Problem> {
        let unknown = Problem::of(Cause::SESSION_CONTEXT_NOT_FOUND);
        let number = self.store.find(seid).ok_or(unknown)?;
        let entry = self.store.get(number).filter(|entry| entry.peer == asked.peer).ok_or(unknown)?;
        let (worker, before, mut meters) = (entry.worker, entry.rules(), entry.meters.to_vec());
        let mut rules = before.clone();
        let left = change::modify(&mut rules, request)?;
        let query = Query::of(request);
        self.check_modification(asked.peer, request, &query, &mut rules)?;
        if only_asks(request) {
            return self.query(asked, (number, worker), request, query, control);
        }
        grant(&mut meters, request, &rules, clock.now);
        let mut chosen = Chosen::default();
        let new = self.prepare((asked.peer, Some(number)), &mut rules, &mut chosen, &meters, control, clock);
        let result = new.and_then(|new| {
            self.check_free(&rules, &new, Some(number))?;
            let change = control.change(worker, number, &new.session, before.create_urrs.len(), drops(request));
            change.map(|ask| (new, ask)).map_err(|error| not_installed(&error))
        });
        let (new, ask) = result.inspect_err(|_| self.give_back(&chosen))?;
        let gone = gone(&before, &rules, &meters);
        let ends = left.iter().filter_map(|left| self.translator(asked.peer, clock).left_tunnel(left)).collect();
        let response = SessionModificationResponse {
            cause: Cause::REQUEST_ACCEPTED,
            created_pdrs: std::mem::take(&mut chosen.pdrs),
            created_traffic_endpoints: std::mem::take(&mut chosen.endpoints),
            ..SessionModificationResponse::default()
        };
        let before = self.begin_change(number, &rules, new, control, clock).ok_or(unknown)?;
        let restarts = request.user_plane_inactivity_timer.is_some();
        let change = Change { before, chosen, ends, restarts, grants: !request.update_urrs.is_empty() };
        let new = Modification { asked, number, gone, query, change, response };
        self.pending.insert(ask, Pending::Modify(Box::new(new)));
        Ok(())
    }

    /// Whether a session's rules may be changed to these, as far as the message says.
    fn check_modification(
        &mut self,
        peer: u32,
        request: &SessionModificationRequest,
        query: &Query,
        rules: &mut Rules,
    ) -> Result<(), Problem> {
        self.check_changed_ies(peer, request)?;
        self.check_change(peer, request, rules)?;
        self.catalogue.measure(rules);
        check_unique(rules)?;
        let created = request.create_pdrs.iter().map(|pdr| (pdr.pdr_id, &pdr.pdi));
        let updated = request.update_pdrs.iter().filter_map(|pdr| Some((pdr.pdr_id, pdr.pdi.as_ref()?)));
        self.check_applications(peer, created.chain(updated))?;
        query.unknown(rules).map_or(Ok(()), |urr| Err(Problem::rule(FailedRuleId::Urr(urr))))
    }

    /// Asks a session's worker for usage, for a modification that changes nothing.
    fn query(
        &mut self,
        asked: RequestContext,
        (number, worker): (u32, u16),
        request: &SessionModificationRequest,
        query: Query,
        control: &mut Control,
    ) -> Result<(), Problem> {
        let ask = control.measure(worker, number).map_err(|error| not_installed(&error))?;
        if drops(request) {
            control.discard(worker, number);
        }
        self.store.begin_request(number);
        let response =
            SessionModificationResponse { cause: Cause::REQUEST_ACCEPTED, ..SessionModificationResponse::default() };
        let queried = Queried { asked, number, query, response: Box::new(response) };
        self.pending.insert(ask, Pending::Query(queried));
        Ok(())
    }
}

/// Whether a modification has packets thrown away that wait.
fn drops(request: &SessionModificationRequest) -> bool {
    request.pfcp_sm_req_flags.is_some_and(|flags| flags.contains(PfcpSmReqFlags::DROBU))
}

/// Gives the quotas that a modification brings.
fn grant(meters: &mut [Metering], request: &SessionModificationRequest, rules: &Rules, now: u64) {
    for update in &request.update_urrs {
        let meter = meters.iter_mut().find(|meter| meter.urr == update.urr_id.0);
        let urr = rules.create_urrs.iter().find(|urr| urr.urr_id == update.urr_id);
        if let Some((meter, urr)) = meter.zip(urr) {
            meter.grant(given(update), &terms(urr), now);
        }
    }
}

/// URRs that rules no longer have, with their accounts.
fn gone(before: &Rules, rules: &Rules, meters: &[Metering]) -> Vec<Gone> {
    let gone = before.create_urrs.iter().filter(|urr| !rules.create_urrs.iter().any(|u| u.urr_id == urr.urr_id));
    let account = |urr: &pfcp::group::CreateUrr| meters.iter().find(|meter| meter.urr == urr.urr_id.0).cloned();
    gone.filter_map(|urr| Some((urr.clone(), account(urr)?))).collect()
}

/// Whether a modification changes nothing. One that repeats what holds already is no such: a quota is given anew, a
/// subscriber sleeps again.
fn only_asks(request: &SessionModificationRequest) -> bool {
    let rest = SessionModificationRequest {
        query_urrs: Vec::new(),
        query_urr_reference: None,
        pfcp_sm_req_flags: None,
        ..request.clone()
    };
    rest == SessionModificationRequest::default()
}
