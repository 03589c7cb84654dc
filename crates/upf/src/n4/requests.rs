//! What control planes ask for: sessions established, modified, deleted (3GPP TS 29.244, 7.5.2 to 7.5.7).

use dataplane::forward::InstanceId;
use pfcp::ie::{Cause, FSeid, FTeid, FailedRuleId, PdnType, PfcpSmReqFlags};
use pfcp::message::{
    Message, SessionDeletionResponse, SessionEstablishmentRequest, SessionEstablishmentResponse,
    SessionModificationRequest, SessionModificationResponse,
};

use super::answers::{Establishment, Gone, Modification, Pending, Queried, Query};
use super::change::{self, Rules};
use super::choose::{Chooser, Chosen};
use super::metering::{Metering, WallClock, given, terms};
use super::networks::Networks;
use super::paths::Path;
use super::problem::Problem;
use super::store::{self, Key};
use super::translate::Translator;
use super::{N4, Outgoing, RequestContext, steer};
use crate::compile::CompileError;
use crate::control::{AskError, Control};
use crate::rules::{Apply, Mbr, Session};

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
    pub fn seid_of_peer(&self, seid: u64) -> u64 {
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
        let full = self.store.len() >= self.limits.sessions || self.store.of_peer(asked.peer) >= asked.most;
        // Either way another user plane may have room: "a temporary unavailability of resources" (8.2.1).
        if full || self.draining {
            return Err(Problem::of(Cause::NO_RESOURCES_AVAILABLE));
        }
        if matches!(rules.pdn_type, Some(PdnType::NonIp | PdnType::Ethernet)) {
            return Err(Problem::of(Cause::SERVICE_NOT_SUPPORTED));
        }
        self.check_ies(asked.peer, &rules)?;
        self.check_new(asked.peer, &rules)?;
        self.catalogue.measure(&mut rules);
        check_unique(&rules)?;
        self.check_applications(asked.peer, rules.create_pdrs.iter().map(|pdr| (pdr.pdr_id, &pdr.pdi)))?;
        let mut chosen = Chosen::default();
        let made = self.prepare((asked.peer, None), &mut rules, &mut chosen, &[], control, clock);
        let made = made.and_then(|made| self.end_namesakes(asked.peer, &made, control).map(|()| made));
        let result = made.and_then(|made| {
            self.check_free(&rules, &made, None)?;
            let number = self.store.next_number();
            let install = control.install(made.worker, number, &made.session);
            install.map(|ask| (made, number, ask)).map_err(|error| not_installed(&error))
        });
        let (made, number, ask) = result.inspect_err(|_| self.give_back(&chosen))?;
        steer(control, made.worker, &[], &made.keys);
        let seid = self.store.put(asked.peer, made.worker, made.cp_seid, made.message, made.meters, made.keys);
        self.store.set_sets(number, store::sets(&rules.fq_csids));
        self.take_paths(number, Path::of(&made.session), clock.now);
        self.guaranteed.set(number, &made.session);
        let response = SessionEstablishmentResponse {
            node_id: self.node.clone(),
            cause: Cause::REQUEST_ACCEPTED,
            up_f_seid: Some(FSeid::new(seid, self.address)),
            created_pdrs: std::mem::take(&mut chosen.pdrs),
            created_traffic_endpoints: std::mem::take(&mut chosen.endpoints),
            ..SessionEstablishmentResponse::default()
        };
        self.plan_look(number, &rules, clock);
        let new = Establishment { asked, number, seid, cp_seid: made.cp_seid, chosen, response };
        self.pending.insert(ask, Pending::Establish(Box::new(new)));
        Ok(())
    }

    /// Chooses what is left to choose, and translates, for an association; `old` is the session's number if it has one.
    fn prepare(
        &mut self,
        (peer, old): (u32, Option<u32>),
        rules: &mut Rules,
        chosen: &mut Chosen,
        meters: &[Metering],
        control: &Control,
        clock: &WallClock,
    ) -> Result<Made, Problem> {
        let most = self.limits.rules;
        let counts = [rules.create_pdrs.len(), rules.create_fars.len(), rules.create_qers.len()];
        if counts.into_iter().any(|count| count > most) || rules.create_urrs.len() > most {
            return Err(Problem::of(Cause::NO_RESOURCES_AVAILABLE));
        }
        let home = self.translator(peer, clock).home(rules);
        let worker = match old.and_then(|number| self.store.get(number)) {
            Some(entry) => entry.worker,
            None => self.worker_for(rules, home),
        };
        let store = &self.store;
        Chooser {
            networks: &self.networks,
            teids: &mut self.teids,
            pools: &mut self.pools,
            worker,
            teid_used: &|teid| store.lookup(Key::Teid(teid)).is_some(),
            address_used: &|instance, address| store.lookup(Key::Ue(instance, address)).is_some(),
        }
        .choose(rules, old.is_none(), home, chosen)?;
        let new = rules.create_urrs.iter().map(|urr| {
            let known = meters.iter().find(|meter| meter.urr == urr.urr_id.0);
            known.cloned().unwrap_or_else(|| Metering::new(urr.urr_id.0, clock.now))
        });
        let meters: Vec<Metering> = new.collect();
        let session = self.translator(peer, clock).session(rules, &meters)?;
        if session.routes.len() > self.limits.routes {
            return Err(Problem::of(Cause::NO_RESOURCES_AVAILABLE));
        }
        if !self.guaranteed.admits(old, &session) {
            let qer = session.qers.iter().find(|qer| qer.gbr != Mbr::default());
            let none_left = Problem::of(Cause::NO_RESOURCES_AVAILABLE);
            return Err(qer.map_or(none_left, |qer| none_left.in_rule(FailedRuleId::Qer(qer.id))));
        }
        for far in &session.fars {
            let own = far.tunnel.filter(|_| far.apply != Apply::Control).map(|end| (far.instance, end));
            let mut ends = own.into_iter().chain(far.duplicates.iter().map(|copy| (copy.instance, copy.tunnel)));
            if !ends.all(|(instance, end)| Networks::can_reach(control.plan(), instance, end.address)) {
                return Err(Problem::rule(FailedRuleId::Far(far.id)));
            }
        }
        // With what was chosen, or message after message, it may be more than one holds, which is how it is kept.
        let message = self.store.written(rules).ok_or(Problem::of(Cause::NO_RESOURCES_AVAILABLE))?;
        let keys = store::keys(&session);
        Ok(Made { worker, session, meters, keys, cp_seid: rules.cp_f_seid.seid, message })
    }

    /// Nobody but the session `old` has what these rules bring.
    fn check_free(&self, rules: &Rules, made: &Made, old: Option<u32>) -> Result<(), Problem> {
        let taken = self.store.conflict(&made.keys, old);
        taken.map_or(Ok(()), |key| Err(Problem::rule(blamed(rules, key))))
    }

    /// Translates the rules of an association's sessions.
    pub(super) fn translator(&self, peer: u32, clock: &WallClock) -> Translator<'_> {
        let (networks, applications, catalogue) = (&self.networks, self.applications(peer), &self.catalogue);
        Translator { networks, applications, catalogue, unix: clock.unix(clock.now) }
    }

    /// The worker of a new session: the one whose part of a pool its address is in, or whose range its tunnel endpoint
    /// is in; else each in turn.
    pub(super) fn worker_for(&mut self, rules: &Rules, home: InstanceId) -> u16 {
        let pdis = || rules.create_pdrs.iter().map(|pdr| &pdr.pdi);
        let of_address = pdis().flat_map(|pdi| &pdi.ue_ip_addresses).find_map(|address| {
            let four = address.ip4.and_then(|ip4| self.pools.worker(home, ip4.into()));
            four.or_else(|| self.pools.worker(home, address.ip6?.into()))
        });
        let of_tunnel = || {
            pdis().find_map(|pdi| match pdi.local_f_teid {
                Some(FTeid::Given { teid, .. }) => Some(self.teids.worker(teid.0)),
                _ => None,
            })
        };
        let found = of_address.or_else(of_tunnel).filter(|worker| *worker < self.workers);
        found.unwrap_or_else(|| {
            self.next_worker = (self.next_worker + 1) % self.workers;
            self.next_worker
        })
    }

    pub(super) fn give_back(&mut self, chosen: &Chosen) {
        chosen.teids.iter().for_each(|teid| self.teids.give(*teid));
        for (instance, address) in &chosen.addresses {
            self.pools.give(*instance, *address);
        }
    }

    /// Gives back identifiers of ours that a session no longer has.
    pub(super) fn release_keys(&mut self, old: &[Key], new: &[Key]) {
        for key in old.iter().filter(|key| !new.contains(key)) {
            match *key {
                Key::Teid(teid) => self.teids.give(teid),
                Key::Ue(instance, address) => self.pools.give(instance, address),
                Key::Route(_) => {}
            }
        }
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
        let (worker, before) = (entry.worker, entry.rules());
        let mut meters = entry.meters.to_vec();
        let query = Query::of(request);
        let flags = request.pfcp_sm_req_flags.unwrap_or_default();
        let mut rules = before.clone();
        let left = change::modify(&mut rules, request)?;
        self.check_changed_ies(asked.peer, request)?;
        self.check_change(asked.peer, request, &rules)?;
        self.catalogue.measure(&mut rules);
        check_unique(&rules)?;
        let created = request.create_pdrs.iter().map(|pdr| (pdr.pdr_id, &pdr.pdi));
        let updated = request.update_pdrs.iter().filter_map(|pdr| Some((pdr.pdr_id, pdr.pdi.as_ref()?)));
        self.check_applications(asked.peer, created.chain(updated))?;
        if let Some(urr) = query.unknown(&rules) {
            return Err(Problem::rule(FailedRuleId::Urr(urr)));
        }
        let grants = !request.update_urrs.is_empty();
        for update in &request.update_urrs {
            let meter = meters.iter_mut().find(|meter| meter.urr == update.urr_id.0);
            let urr = rules.create_urrs.iter().find(|urr| urr.urr_id == update.urr_id);
            if let Some((meter, urr)) = meter.zip(urr) {
                meter.grant(given(update), &terms(urr), clock.now);
            }
        }
        let gone = before.create_urrs.iter().filter(|urr| !rules.create_urrs.iter().any(|u| u.urr_id == urr.urr_id));
        let gone: Vec<Gone> = gone
            .filter_map(|urr| Some((urr.clone(), meters.iter().find(|meter| meter.urr == urr.urr_id.0)?.clone())))
            .collect();
        let mut response =
            SessionModificationResponse { cause: Cause::REQUEST_ACCEPTED, ..SessionModificationResponse::default() };
        let drops = flags.contains(PfcpSmReqFlags::DROBU);
        if only_asks(request) {
            let ask = control.measure(worker, number).map_err(|error| not_installed(&error))?;
            if drops {
                control.discard(worker, number);
            }
            self.store.begin_request(number);
            let queried = Queried { asked, number, query, response: Box::new(response) };
            self.pending.insert(ask, Pending::Query(queried));
            return Ok(());
        }
        let mut chosen = Chosen::default();
        let made = self.prepare((asked.peer, Some(number)), &mut rules, &mut chosen, &meters, control, clock);
        let result = made.and_then(|made| {
            self.check_free(&rules, &made, Some(number))?;
            let install = control.change(worker, number, &made.session, before.create_urrs.len(), drops);
            install.map(|ask| (made, ask)).map_err(|error| not_installed(&error))
        });
        let (made, ask) = result.inspect_err(|_| self.give_back(&chosen))?;
        let ends = left.iter().filter_map(|left| self.translator(asked.peer, clock).left_tunnel(left)).collect();
        let restarts = request.user_plane_inactivity_timer.is_some();
        response.created_pdrs = std::mem::take(&mut chosen.pdrs);
        response.created_traffic_endpoints = std::mem::take(&mut chosen.endpoints);
        let mut change = self.begin_change(number, before, &rules, made, control, clock);
        (change.chosen, change.ends, change.restarts, change.grants) = (chosen, ends, restarts, grants);
        let new = Modification { asked, number, gone, query, change, response };
        self.pending.insert(ask, Pending::Modify(Box::new(new)));
        Ok(())
    }

    /// A session's packets go by these paths from now on.
    pub(super) fn take_paths(&mut self, number: u32, new: Box<[Path]>, now: u64) {
        let Some(entry) = self.store.get_mut(number) else { return };
        self.paths.change(entry.peer, &entry.paths, &new, now);
        entry.paths = new;
    }
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

/// A session that may be installed.
pub(super) struct Made {
    pub worker: u16,
    pub session: Session,
    pub meters: Vec<Metering>,
    pub keys: Vec<Key>,
    pub cp_seid: u64,
    /// What it is kept as.
    pub message: Box<[u8]>,
}

/// Rule IDs are unique in their session.
fn check_unique(rules: &Rules) -> Result<(), Problem> {
    fn twice<T, I: PartialEq>(rules: &[T], id: impl Fn(&T) -> I) -> Option<I> {
        let mut ids = rules.iter().map(&id).enumerate();
        ids.find(|(n, own)| rules[..*n].iter().any(|other| id(other) == *own)).map(|(_, id)| id)
    }
    let pdr = twice(&rules.create_pdrs, |pdr| pdr.pdr_id.0).map(FailedRuleId::Pdr);
    let far = twice(&rules.create_fars, |far| far.far_id.0).map(FailedRuleId::Far);
    let qer = twice(&rules.create_qers, |qer| qer.qer_id.0).map(FailedRuleId::Qer);
    let urr = twice(&rules.create_urrs, |urr| urr.urr_id.0).map(FailedRuleId::Urr);
    match pdr.or(far).or(qer).or(urr) {
        Some(rule) => Err(Problem::rule(rule)),
        None => Ok(()),
    }
}

/// The rule that brought a key that is another session's.
fn blamed(rules: &Rules, key: Key) -> FailedRuleId {
    let has = |pdr: &&pfcp::group::CreatePdr| match key {
        Key::Teid(teid) => matches!(pdr.pdi.local_f_teid, Some(FTeid::Given { teid: given, .. }) if given.0 == teid),
        Key::Ue(..) => !pdr.pdi.ue_ip_addresses.is_empty(),
        Key::Route(_) => !pdr.pdi.framed_routes.is_empty() || !pdr.pdi.framed_ip6_routes.is_empty(),
    };
    let pdr = rules.create_pdrs.iter().find(has).or(rules.create_pdrs.first());
    FailedRuleId::Pdr(pdr.map_or(0, |pdr| pdr.pdr_id.0))
}

/// The cause to answer with when a session is not installed on its worker.
pub(super) fn not_installed(error: &AskError) -> Problem {
    match error {
        AskError::Busy => Problem::of(Cause::PFCP_ENTITY_IN_CONGESTION),
        AskError::NoWorker(_) => Problem::of(Cause::SYSTEM_FAILURE),
        AskError::Rules(error) => match *error {
            CompileError::NoFar { pdr, .. }
            | CompileError::NoQer { pdr, .. }
            | CompileError::NoUrr { pdr, .. }
            | CompileError::Marks { pdr }
            | CompileError::TooManyPerRule { pdr, .. }
            | CompileError::NoTeid { pdr }
            | CompileError::NoAddress { pdr }
            | CompileError::Filter { pdr, .. } => Problem::rule(FailedRuleId::Pdr(pdr)),
            CompileError::NoPage { far } => Problem::of(Cause::NO_RESOURCES_AVAILABLE).in_rule(FailedRuleId::Far(far)),
            CompileError::NoTunnel { far, .. } | CompileError::TooManyDuplicates { far, .. } => {
                Problem::rule(FailedRuleId::Far(far))
            }
            CompileError::TooLarge { .. } | CompileError::TooMany { .. } => Problem::of(Cause::NO_RESOURCES_AVAILABLE),
        },
    }
}
