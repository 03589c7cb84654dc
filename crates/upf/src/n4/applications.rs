//! Applications and what they are detected by (3GPP TS 29.244, 5.11).

use std::collections::HashMap;

use pfcp::group::{ApplicationIdsPfds, Pdi, PfdContext};
use pfcp::ie::{ApplicationId, Cause, FailedRuleId, PdrId, PfdContents};
use pfcp::message::PfdManagementRequest;
use stages::filter::FlowDescription;

use super::metering::WallClock;
use super::problem::Problem;
use super::{N4, SLICE, book};
use crate::control::Control;

impl N4 {
    /// Replaces an application's filters (PFD management, 7.4.3); none: the application is forgotten. Sessions that detect
    /// it go by the new ones soon; those of one that is forgotten detect it no more.
    pub fn set_application(&mut self, id: &ApplicationId, flows: Vec<FlowDescription>) {
        if flows.is_empty() {
            self.applications.remove(&id.0);
        } else {
            self.applications.insert(id.0.clone(), flows);
        }
        self.applications_changed = true;
    }

    /// What applications are detected by.
    pub fn applications(&self) -> HashMap<Box<str>, Vec<FlowDescription>> {
        self.applications.clone()
    }

    /// Detects applications as it did before, of which it did not go by anything else yet.
    pub fn set_applications(&mut self, applications: HashMap<Box<str>, Vec<FlowDescription>>) {
        self.applications = applications;
    }

    /// Forgets all applications.
    pub fn forget_applications(&mut self) {
        self.applications.clear();
        self.applications_changed = true;
    }

    /// The applications there are, as the message that would bring them.
    pub fn say_applications(&self) -> PfdManagementRequest {
        let contents = |flow: &FlowDescription| PfdContents {
            flow_description: Some(flow.to_string().into()),
            ..PfdContents::default()
        };
        let application = |(name, flows): (&str, &[FlowDescription])| ApplicationIdsPfds {
            application_id: ApplicationId::from(name),
            pfd_contexts: vec![PfdContext { pfd_contents: flows.iter().map(contents).collect(), ..Default::default() }],
            ..ApplicationIdsPfds::default()
        };
        let all = self.applications.iter().map(|(name, flows)| (&**name, &**flows));
        let application_ids_pfds = all.map(application).collect();
        PfdManagementRequest { application_ids_pfds, ..PfdManagementRequest::default() }
    }

    /// New rules name applications that there are; those there are may outlive theirs.
    pub(super) fn check_applications<'a>(&self, pdis: impl Iterator<Item = (PdrId, &'a Pdi)>) -> Result<(), Problem> {
        let is_known = |pdi: &Pdi| pdi.application_id.as_ref().is_none_or(|id| self.applications.contains_key(&id.0));
        let unknown = pdis.filter(|(_, pdi)| !is_known(pdi)).map(|(pdr, _)| FailedRuleId::Pdr(pdr.0)).next();
        unknown.map_or(Ok(()), |rule| Err(Problem::of(Cause::UNKNOWN_APPLICATION_ID).in_rule(rule)))
    }

    /// Has some of the sessions that detect applications go by what is known of these now.
    pub(super) fn update_applications(&mut self, control: &mut Control, clock: &WallClock) {
        let all = self.book.numbers();
        if std::mem::take(&mut self.applications_changed) {
            // Those that were looked through before are to be again: once round from here.
            self.outdated.1 = all;
        }
        for _ in 0..SLICE {
            let (number, left) = self.outdated;
            if left == 0 {
                break;
            }
            self.outdated = (if number + 1 < all { number + 1 } else { 0 }, left - 1);
            let Some(rules) = self.book.get(number).map(book::Entry::rules) else { continue };
            if rules.create_pdrs.iter().any(|pdr| pdr.pdi.application_id.is_some()) {
                self.refresh(number, &rules, true, control, clock);
            }
        }
    }
}
