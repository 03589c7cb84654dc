//! PDRs: which rule a packet goes by, and the rules it brings with it (5.2.1).

use dataplane::filter::Sdf;
use pfcp::group::CreatePdr;
use pfcp::ie::{ApplicationId, Cause, FTeid, OuterHeaderRemoval, Precedence, SourceInterface};

use super::pdi::{self, Endpoint};
use super::{Translator, far};
use crate::config::Action;
use crate::n4::catalogue::Predefined;
use crate::n4::change::Rules;
use crate::n4::metering::Metering;
use crate::n4::problem::Problem;
use crate::record::{MAX_QERS, MAX_URRS};
use crate::rules::{Apply, Far, Interface, Mbr, Outer, Pdr, Qer, Session};

/// Set in the IDs of FARs and QERs that predefined rules bring.
const PREDEFINED: u32 = 3 << 30;

impl Translator<'_> {
    /// Enters a PDR: a rule for each of its QoS flows, and one for each predefined rule that it activates. One whose time
    /// is not now keeps its tunnel.
    pub(super) fn pdr(
        &self,
        session: &mut Session,
        rules: &Rules,
        pdr: &CreatePdr,
        meters: &[Metering],
    ) -> Result<(), Problem> {
        let from = Endpoint::of(rules, &pdr.pdi)?;
        let source = match pdr.pdi.source_interface {
            SourceInterface::Access => Interface::Access,
            SourceInterface::CpFunction => Interface::CpFunction,
            _ => Interface::Core,
        };
        for address in from.ue {
            pdi::claim(session, address)?;
        }
        for route in from.routes {
            pdi::behind(session, route);
        }
        let teid = match from.teid {
            Some(FTeid::Given { teid, .. }) => Some(teid.0),
            Some(FTeid::Choose { .. }) => return Err(Problem::of(Cause::SYSTEM_FAILURE)),
            None if source == Interface::Core => None,
            None => return Err(Problem::missing::<FTeid>()),
        };
        let mut filters = Vec::with_capacity(pdr.pdi.sdf_filters.len());
        for filter in &pdr.pdi.sdf_filters {
            filters.push(pdi::sdf(pdi::whole(rules, filter)?)?);
        }
        let known = |id: &ApplicationId| self.applications.and_then(|all| all.get(&id.0));
        let application = pdr.pdi.application_id.as_ref().map(known);
        if !is_active(pdr, self.unix) || application == Some(None) {
            session.resting.extend(teid);
            return Ok(());
        }
        filters.extend(application.flatten().into_iter().flatten().cloned().map(Sdf::from));
        if pdr.far_id.is_none() && pdr.activate_predefined_rules.is_empty() {
            return Err(Problem::missing::<pfcp::ie::FarId>());
        }
        let far = pdr.far_id.map_or(0, |id| id.0);
        let far = match quota_action(rules, pdr, meters) {
            // Towards the subscriber nothing passes but the answers to it.
            Some(action) if source != Interface::Access && is_redirection(rules, action) => far | far::CLOSED,
            action => action.unwrap_or(far),
        };
        if pdr.qer_ids.len() > MAX_QERS || pdr.urr_ids.len() > MAX_URRS {
            return Err(Problem::of(Cause::RULE_CREATION_MODIFICATION_FAILURE));
        }
        let new = Pdr {
            id: pdr.pdr_id.0,
            // SGW-Cs leave it out: their PDRs don't overlap.
            precedence: pdr.precedence.unwrap_or(Precedence(u32::MAX)).0,
            source,
            teid,
            qfi: None,
            removes: removal(pdr, from.teid.is_some())?,
            filters,
            far,
            qers: pdr.qer_ids.iter().map(|id| id.0).collect(),
            urrs: pdr.urr_ids.iter().map(|id| id.0).collect(),
        };
        // One rule for each QoS flow that would do; all have the same ID.
        let any = pdr.pdi.qfis.is_empty().then_some(None);
        let qfis = pdr.pdi.qfis.iter().map(|qfi| Some(qfi.0)).chain(any);
        // Those that are activated come first among rules of their precedence.
        for name in &pdr.activate_predefined_rules {
            let (number, predefined) = self.catalogue.predefined(name)?;
            let rule = self.activate(session, rules, pdr, &new, (number, predefined))?;
            enter(session, rule, qfis.clone());
        }
        if pdr.far_id.is_some() {
            enter(session, new, qfis);
        }
        Ok(())
    }

    /// The rule that predefined ones make of the PDR that activates them; their FAR and QER are entered. Their URR is in the
    /// session's rules already ([`Catalogue::measure`]).
    fn activate(
        &self,
        session: &mut Session,
        rules: &Rules,
        pdr: &CreatePdr,
        own: &Pdr,
        (number, predefined): (u32, &Predefined),
    ) -> Result<Pdr, Problem> {
        let mut far = match rules.create_fars.iter().find(|far| Some(far.far_id) == pdr.far_id) {
            Some(far) => self.far(far)?,
            // To the data network there is a way without one; to a subscriber there is not.
            None if own.source == Interface::Access || predefined.action == Some(Action::Drop) => {
                Far { apply: Apply::Forward, instance: session.instance, ..Far::default() }
            }
            None => return Err(Problem::missing::<pfcp::ie::FarId>()),
        };
        predefined.apply(&mut far);
        far.id = PREDEFINED | session.fars.len() as u32; // a handful
        let mut rule = own.clone();
        rule.precedence = predefined.precedence.unwrap_or(own.precedence);
        if !predefined.filters.is_empty() {
            rule.filters = predefined.filters.clone();
        }
        if pdr.far_id.is_none_or(|id| id.0 == own.far) {
            rule.far = far.id;
            session.fars.push(far);
        }
        if predefined.mbr != Mbr::default() || predefined.qfi.is_some() {
            let (id, mbr, qfi) = (PREDEFINED | number, predefined.mbr, predefined.qfi);
            // Its mark goes before the PDR's own.
            rule.qers.insert(0, id);
            if session.qers.iter().all(|qer| qer.id != id) {
                session.qers.push(Qer { id, gate_up: true, gate_down: true, mbr, qfi, ..Qer::default() });
            }
        }
        rule.urrs.extend(predefined.urr.as_ref().map(|urr| urr.urr_id.0).filter(|urr| !own.urrs.contains(urr)));
        if rule.qers.len() > MAX_QERS || rule.urrs.len() > MAX_URRS {
            return Err(Problem::of(Cause::RULE_CREATION_MODIFICATION_FAILURE));
        }
        Ok(rule)
    }
}

/// What is taken off a PDR's packets beside GTP-U (8.2.64); that, whatever control planes say of its IP version, is taken
/// off what comes by it, and VLAN tags at the port.
fn removal(pdr: &CreatePdr, comes_by_tunnel: bool) -> Result<Option<Outer>, Problem> {
    let removes = match pdr.outer_header_removal.map(|removal| removal.description) {
        Some(2 | 3) => Outer::Udp,
        Some(4 | 5) => Outer::Ip,
        _ => return Ok(None),
    };
    // Of what GTP-U carries nothing is taken off.
    if comes_by_tunnel { Err(Problem::incorrect::<OuterHeaderRemoval>()) } else { Ok(Some(removes)) }
}

/// Enters a rule for each of these QoS flows.
fn enter(session: &mut Session, rule: Pdr, qfis: impl Iterator<Item = Option<u8>>) {
    let mut qfis = qfis.peekable();
    let mut rule = Some(rule);
    while let Some(qfi) = qfis.next() {
        // The last one need not be a copy.
        let one = if qfis.peek().is_some() { rule.clone() } else { rule.take() };
        session.pdrs.extend(one.map(|rule| Pdr { qfi, ..rule }));
    }
}

fn is_redirection(rules: &Rules, far: u32) -> bool {
    let far = rules.create_fars.iter().find(|rule| rule.far_id.0 == far);
    far.and_then(|far| far.forwarding_parameters.as_ref()).is_some_and(|way| way.redirect_information.is_some())
}

/// The FAR that takes the place of a PDR's own while a quota of its URRs is used up (5.2.2.2.1).
fn quota_action(rules: &Rules, pdr: &CreatePdr, meters: &[Metering]) -> Option<u32> {
    let mut urrs = rules.create_urrs.iter().filter(|urr| pdr.urr_ids.contains(&urr.urr_id));
    urrs.find_map(|urr| {
        let spent = meters.iter().any(|meter| meter.urr == urr.urr_id.0 && meter.is_exhausted());
        urr.far_id_for_quota_action.filter(|_| spent).map(|far| far.0)
    })
}

/// Whether a PDR applies now (activation and deactivation time, 5.2.1.5).
fn is_active(pdr: &CreatePdr, unix: u64) -> bool {
    pdr.activation_time.is_none_or(|time| time.unix() <= unix)
        && pdr.deactivation_time.is_none_or(|time| unix < time.unix())
}
