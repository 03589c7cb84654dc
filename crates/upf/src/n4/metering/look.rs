//! A look at what a session's worker has counted: which rules report, and which stop.

use pfcp::group::{CreateUrr, UsageReport};
use pfcp::ie::MonitoringTime;

use super::super::change::Rules;
use super::super::counted;
use super::report::{report, split};
use super::{Causes, Metering, WallClock, terms};
use crate::rules::Usage;

/// What a look has brought.
#[derive(Debug, Default)]
pub struct Looked {
    /// What is to be reported.
    pub reports: Vec<UsageReport>,
    /// A monitoring time has passed: the rules have changed.
    pub passed: bool,
    /// A quota is used up, and another FAR takes the place of the usual one (5.2.2.2.1).
    pub acts: bool,
}

/// Looks at what a worker has counted for all rules of a session. If the reports of it that wait are as many as may, a
/// period that ends makes no more.
pub fn look(rules: &mut Rules, meters: &mut [Metering], usage: &[Usage], is_full: bool, clock: &WallClock) -> Looked {
    let before = spent(rules, meters);
    let mut looked = Looked::default();
    let mut reported = Vec::new();
    for urr in &mut rules.create_urrs {
        let Some(meter) = meters.iter_mut().find(|meter| meter.urr == urr.urr_id.0) else { continue };
        let counted = counted(usage, meter.urr);
        let causes = look_at(meter, urr, &counted, &mut looked.passed, clock);
        if causes == Causes::PERIOD && is_full {
            // Nobody is there to hear: what was used is in the next report.
            meter.begin_period(clock.now);
        } else if causes != Causes::NONE {
            report(meter, urr, &counted, causes, clock, &mut looked.reports);
            reported.push(meter.urr);
        }
    }
    // Linked URRs report together with those they are linked to (5.2.2.4).
    for urr in &rules.create_urrs {
        let linked = urr.linked_urr_ids.iter().any(|id| reported.contains(&id.0));
        if !linked || reported.contains(&urr.urr_id.0) {
            continue;
        }
        let Some(meter) = meters.iter_mut().find(|meter| meter.urr == urr.urr_id.0) else { continue };
        let counted = counted(usage, meter.urr);
        meter.look(&counted, clock.now);
        report(meter, urr, &counted, Causes::LINKED, clock, &mut looked.reports);
    }
    looked.acts = spent(rules, meters) != before;
    looked
}

/// Enters what was counted for a rule; what makes it report.
fn look_at(meter: &mut Metering, urr: &mut CreateUrr, counted: &Usage, passed: &mut bool, clock: &WallClock) -> Causes {
    meter.look(counted, clock.now);
    meter.count_events(&terms(urr), clock.now);
    let is_past = |time: MonitoringTime| time.unix() <= clock.unix(clock.now);
    while urr.monitoring_time.is_some_and(is_past) {
        split(meter, urr, counted, clock);
        *passed = true;
    }
    let due = meter.due(&terms(urr), counted, clock.now);
    meter.use_up(due.spent, counted);
    due.report
}

/// Rules whose quota is used up and for which another FAR applies then.
fn spent(rules: &Rules, meters: &[Metering]) -> usize {
    let acts = rules.create_urrs.iter().filter(|urr| urr.far_id_for_quota_action.is_some());
    acts.filter(|urr| meters.iter().any(|meter| meter.urr == urr.urr_id.0 && meter.is_exhausted())).count()
}
