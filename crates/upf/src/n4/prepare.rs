//! Rules made ready for a worker: what is left to choose is chosen, and they are translated and checked.

use dataplane::forward::InstanceId;
use pfcp::group::CreatePdr;
use pfcp::ie::{Cause, FTeid, FailedRuleId};

use super::N4;
use super::change::Rules;
use super::choose::{Chooser, Chosen};
use super::metering::{Metering, WallClock};
use super::networks::Networks;
use super::problem::Problem;
use super::store::{self, Key, Prepared};
use super::translate::Translator;
use crate::compile::CompileError;
use crate::control::{AskError, Control};
use crate::rules::{Apply, Mbr, Session};

impl N4 {
    /// Chooses what is left to choose, and translates, for an association; `old` is the session's number if it has one.
    pub(super) fn prepare(
        &mut self,
        (peer, old): (u32, Option<u32>),
        rules: &mut Rules,
        chosen: &mut Chosen,
        meters: &[Metering],
        control: &Control,
        clock: &WallClock,
    ) -> Result<Prepared, Problem> {
        self.check_count(rules)?;
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
        self.check_room(old, &session, control)?;
        // With what was chosen, or message after message, it may be more than one holds, which is how it is kept.
        let message = self.store.written(rules).ok_or(Problem::of(Cause::NO_RESOURCES_AVAILABLE))?;
        let keys = store::keys(&session);
        Ok(Prepared { worker, session, meters, keys, cp_seid: rules.cp_f_seid.seid, message })
    }

    /// A session has no more rules than it may.
    fn check_count(&self, rules: &Rules) -> Result<(), Problem> {
        let counts =
            [rules.create_pdrs.len(), rules.create_fars.len(), rules.create_qers.len(), rules.create_urrs.len()];
        let is_over = counts.into_iter().any(|count| count > self.limits.rules);
        if is_over { Err(Problem::of(Cause::NO_RESOURCES_AVAILABLE)) } else { Ok(()) }
    }

    /// There is room for a session's routes and guaranteed bit rates, in the place of those that session `old` has, and its
    /// packets have somewhere to go.
    fn check_room(&mut self, old: Option<u32>, session: &Session, control: &Control) -> Result<(), Problem> {
        if session.routes.len() > self.limits.routes {
            return Err(Problem::of(Cause::NO_RESOURCES_AVAILABLE));
        }
        if !self.store.guaranteed.admits(old, session) {
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
        Ok(())
    }

    /// Nobody but the session `old` has what these rules bring.
    pub(super) fn check_free(&self, rules: &Rules, new: &Prepared, old: Option<u32>) -> Result<(), Problem> {
        let taken = self.store.conflict(&new.keys, old);
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
    pub(super) fn release_keys(&mut self, keys: &[Key]) {
        for key in keys {
            match *key {
                Key::Teid(teid) => self.teids.give(teid),
                Key::Ue(instance, address) => self.pools.give(instance, address),
                Key::Route(_) => {}
            }
        }
    }
}

/// Rule IDs are unique in their session.
pub(super) fn check_unique(rules: &Rules) -> Result<(), Problem> {
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
    let has = |pdr: &&CreatePdr| match key {
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
