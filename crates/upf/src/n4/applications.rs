//! Applications and what they are detected by (3GPP TS 29.244, 5.11). Each control plane has its own, whatever the others
//! call theirs: sessions go by what their own control plane has said.

use std::collections::HashMap;

use dataplane::filter::FlowDescription;
use pfcp::group::{ApplicationIdsPfds, Pdi, PfdContext};
use pfcp::ie::{ApplicationId, Cause, FailedRuleId, PdrId, PfdContents};
use pfcp::message::PfdManagementRequest;

use super::metering::WallClock;
use super::problem::Problem;
use super::{N4, SLICE, store};
use crate::control::Control;

/// Filters of a control plane's applications, by name.
pub type Applications = HashMap<Box<str>, Vec<FlowDescription>>;

/// A control plane's applications as the message that would bring them.
pub fn say(applications: &Applications) -> PfdManagementRequest {
    let contents = |flow: &FlowDescription| PfdContents {
        flow_description: Some(flow.to_string().into()),
        ..PfdContents::default()
    };
    let application = |name: &str, flows: &[FlowDescription]| ApplicationIdsPfds {
        application_id: ApplicationId::from(name),
        pfd_contexts: vec![PfdContext { pfd_contents: flows.iter().map(contents).collect(), ..Default::default() }],
        ..ApplicationIdsPfds::default()
    };
    let application_ids_pfds = applications.iter().map(|(name, flows)| application(name, flows)).collect();
    PfdManagementRequest { application_ids_pfds, ..PfdManagementRequest::default() }
}

impl N4 {
    /// A control plane's applications are detected by these from now on (PFD management, 7.4.3). Its sessions that detect
    /// any go by that soon; those of one that is not there any more detect it no more.
    pub(crate) fn set_applications(&mut self, peer: u32, applications: Applications) {
        if applications.is_empty() {
            self.applications.remove(&peer);
        } else {
            self.applications.insert(peer, applications);
        }
        self.applications_changed.insert(peer);
        // Those that were looked through before are to be again: once round from here.
        self.outdated.1 = self.store.numbers();
    }

    /// What a control plane's applications are detected by.
    pub fn applications(&self, peer: u32) -> Option<&Applications> {
        self.applications.get(&peer)
    }

    /// New rules name applications that there are; those there are may outlive theirs.
    pub(super) fn check_applications<'a>(
        &self,
        peer: u32,
        pdis: impl Iterator<Item = (PdrId, &'a Pdi)>,
    ) -> Result<(), Problem> {
        let has = |id: &ApplicationId| self.applications(peer).is_some_and(|all| all.contains_key(&id.0));
        let is_known = |pdi: &Pdi| pdi.application_id.as_ref().is_none_or(has);
        let unknown = pdis.filter(|(_, pdi)| !is_known(pdi)).map(|(pdr, _)| FailedRuleId::Pdr(pdr.0)).next();
        unknown.map_or(Ok(()), |rule| Err(Problem::of(Cause::UNKNOWN_APPLICATION_ID).in_rule(rule)))
    }

    /// Has some of the sessions that detect applications go by what is known of these now.
    pub(super) fn update_applications(&mut self, control: &mut Control, clock: &WallClock) {
        if self.applications_changed.is_empty() {
            return;
        }
        let all = self.store.numbers();
        for _ in 0..SLICE {
            let (number, left) = self.outdated;
            if left == 0 {
                self.applications_changed.clear();
                break;
            }
            self.outdated = (if number + 1 < all { number + 1 } else { 0 }, left - 1);
            let entry = self.store.get(number).filter(|entry| self.applications_changed.contains(&entry.peer));
            let Some(rules) = entry.map(store::StoredSession::rules) else { continue };
            if rules.create_pdrs.iter().any(|pdr| pdr.pdi.application_id.is_some()) {
                self.refresh(number, &rules, true, control, clock);
            }
        }
    }
}
