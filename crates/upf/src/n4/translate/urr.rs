//! URRs: what is measured, and up to where (5.2.2). Accounts of it are [`metering`](crate::n4::metering)'s.

use pfcp::group::CreateUrr;
use pfcp::ie::{FailedRuleId, MeasurementInformation};

use crate::n4::change::Rules;
use crate::n4::metering::{Metering, terms};
use crate::n4::problem::Problem;
use crate::rules::{Session, Urr, Volumes};

/// The ID of the URR of ours that sees the packets no other measures, where silence matters.
pub const WATCH: u32 = u32::MAX;

/// Has all packets seen: the session's silence is to be told of.
pub(super) fn watch(session: &mut Session) {
    let mut unseen = session.pdrs.iter_mut().filter(|pdr| pdr.urrs.is_empty()).peekable();
    if unseen.peek().is_some() {
        unseen.for_each(|pdr| pdr.urrs.push(WATCH));
        session.urrs.push(Urr { id: WATCH, ..Urr::default() });
    }
}

/// Refuses what rules ask for and is not done here, rather than to charge or limit otherwise than was meant.
pub(super) fn check(rules: &Rules) -> Result<(), Problem> {
    for urr in &rules.create_urrs {
        let is_there = |id| rules.create_fars.iter().any(|far| far.far_id == id);
        if !urr.far_id_for_quota_action.is_none_or(is_there) {
            return Err(Problem::rule(FailedRuleId::Urr(urr.urr_id.0)));
        }
    }
    Ok(())
}

/// A URR of a session, with the bounds it has left.
pub(super) fn translate(urr: &CreateUrr, meters: &[Metering]) -> Urr {
    let meter = meters.iter().find(|meter| meter.urr == urr.urr_id.0);
    let (threshold, quota) = meter.map_or((Volumes::default(), Volumes::default()), |meter| meter.bounds(&terms(urr)));
    let before_qos = urr.measurement_information.is_some_and(|info| info.contains(MeasurementInformation::MBQE));
    let paused = urr.measurement_information.is_some_and(|info| info.contains(MeasurementInformation::INAM));
    Urr { id: urr.urr_id.0, threshold, quota, before_qos, paused }
}
