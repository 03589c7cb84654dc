//! From what a control plane said to what workers go by: PFCP's groups become [`rules`](crate::rules).
//!
//! ```text
//! PDR ─ PDI ──► whose packets: tunnel, addresses, filters ─┐
//! FAR ────────► where they go, and their duplicates        ├─► Session ─► compile ─► a worker's record
//! QER ────────► whether, how fast and with which mark      │
//! URR ────────► what is measured, and up to where ─────────┘
//! ```

mod far;
mod pdi;
mod pdr;
mod qer;
mod urr;

use dataplane::forward::InstanceId;
use pfcp::group::{CreateFar, Pdi};
use pfcp::ie::{DestinationInterface, FTeid, FailedRuleId, SourceInterface};

use super::applications::Applications;
use super::catalogue::Catalogue;
use super::change::Rules;
use super::metering::Metering;
use super::networks::Networks;
use super::problem::Problem;
use crate::rules::Session;
pub use urr::WATCH;

/// What translation needs to know of the node.
pub struct Translator<'a> {
    /// Names of networks.
    pub networks: &'a Networks,
    /// The filters of applications, by name (PFDs, 5.11).
    pub applications: Option<&'a Applications>,
    /// What control planes know by name.
    pub catalogue: &'a Catalogue,
    /// Now, in seconds since 1970: rules may have a time.
    pub unix: u64,
}

impl Translator<'_> {
    /// The rules of a session. Identifiers have been chosen before; `meters` is what was measured up to now. What detects an
    /// application without a description (any more) detects nothing.
    ///
    /// # Errors
    /// The rule that is invalid, with the cause to answer.
    pub fn session(&self, rules: &Rules, meters: &[Metering]) -> Result<Session, Problem> {
        let mut session = Session {
            instance: self.home(rules),
            pdrs: Vec::with_capacity(rules.create_pdrs.len()),
            fars: Vec::with_capacity(rules.create_fars.len()),
            ..Session::default()
        };
        for pdr in &rules.create_pdrs {
            let rule = FailedRuleId::Pdr(pdr.pdr_id.0);
            self.pdr(&mut session, rules, pdr, meters).map_err(|problem| match problem.rule {
                Some(_) => problem,
                None => problem.in_rule(rule),
            })?;
        }
        for far in &rules.create_fars {
            let mut new = self.far(far)?;
            let bar = rules.create_bar.as_ref().filter(|bar| Some(bar.bar_id) == far.bar_id);
            new.keep = bar.and_then(|bar| bar.suggested_buffering_packets_count).map_or(0, |count| count.0);
            session.fars.push(new);
        }
        far::leave_out_pending(&mut session);
        far::close(&mut session);
        urr::check(rules)?;
        session.qers.extend(rules.create_qers.iter().map(|qer| qer::translate(rules, qer)));
        session.urrs = rules.create_urrs.iter().map(|urr| urr::translate(urr, meters)).collect();
        if rules.user_plane_inactivity_timer.is_some_and(|timer| timer.0 > 0) {
            urr::watch(&mut session);
        }
        Ok(session)
    }

    /// The network a session's subscriber is in: that of its plain packets, else where its uplink goes.
    pub fn home(&self, rules: &Rules) -> InstanceId {
        let plain = rules
            .create_pdrs
            .iter()
            .find(|pdr| pdr.pdi.local_f_teid.is_none() && pdr.pdi.source_interface != SourceInterface::Access);
        if let Some(pdr) = plain {
            let endpoint = pdi::endpoint_of(rules, &pdr.pdi);
            let network = pdr.pdi.network_instance.as_ref().or(endpoint.and_then(|e| e.network_instance.as_ref()));
            return self.networks.find(network, false);
        }
        let to_core = |far: &CreateFar| {
            let way = far.forwarding_parameters.as_ref()?;
            let core = matches!(way.destination_interface, DestinationInterface::Core | DestinationInterface::SgiLan);
            core.then(|| self.networks.find(way.network_instance.as_ref(), false))
        };
        rules.create_fars.iter().find_map(to_core).unwrap_or_else(|| self.networks.find(None, false))
    }
}

/// The tunnel a PDI's packets come by: its own, or that of the traffic endpoint it names.
pub fn local_f_teid(rules: &Rules, pdi: &Pdi) -> Option<FTeid> {
    pdi.local_f_teid.or_else(|| pdi::endpoint_of(rules, pdi)?.local_f_teid)
}

/// The next time after `unix` at which one of the rules begins or ends to apply.
pub(crate) fn next_change(rules: &Rules, unix: u64) -> Option<u64> {
    let times = rules
        .create_pdrs
        .iter()
        .flat_map(|pdr| [pdr.activation_time.map(|time| time.unix()), pdr.deactivation_time.map(|time| time.unix())]);
    times.flatten().filter(|time| *time > unix).min()
}
