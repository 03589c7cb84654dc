//! URRs (3GPP TS 29.244, 5.2.2) as the terms that sessions are metered by; what was metered, as Usage Reports (7.5.8.3).

mod look;
mod report;
#[cfg(test)]
mod tests;

pub use engine::WallClock;
use pfcp::group::{CreateUrr, UpdateUrr};
use pfcp::ie::{MeasurementInformation, MeasurementMethod, ReportingTriggers, UsageReportTrigger};
use sessions::metering::Later;
pub use sessions::metering::{Causes, Given, Terms};

use super::store::Pfcp;
use crate::rules::Volumes;
pub use look::{Looked, look};
pub use report::{octets, read, report, write};

/// A URR's account.
pub type Metering = sessions::metering::Metering<Pfcp>;

/// What makes rules report, by its names in Reporting Triggers (8.2.19; none: it is not asked for) and in a Usage Report
/// Trigger (8.2.41).
const CAUSES: [(Causes, ReportingTriggers, UsageReportTrigger); 16] = [
    (Causes::VOLUME_THRESHOLD, ReportingTriggers::VOLTH, UsageReportTrigger::VOLTH),
    (Causes::TIME_THRESHOLD, ReportingTriggers::TIMTH, UsageReportTrigger::TIMTH),
    (Causes::EVENT_THRESHOLD, ReportingTriggers::EVETH, UsageReportTrigger::EVETH),
    (Causes::VOLUME_QUOTA, ReportingTriggers::VOLQU, UsageReportTrigger::VOLQU),
    (Causes::TIME_QUOTA, ReportingTriggers::TIMQU, UsageReportTrigger::TIMQU),
    (Causes::EVENT_QUOTA, ReportingTriggers::EVEQU, UsageReportTrigger::EVEQU),
    (Causes::HOLDING, ReportingTriggers::QUHTI, UsageReportTrigger::QUHTI),
    (Causes::VALIDITY, ReportingTriggers::QUVTI, UsageReportTrigger::QUVTI),
    (Causes::PERIOD, ReportingTriggers::PERIO, UsageReportTrigger::PERIO),
    (Causes::START, ReportingTriggers::START, UsageReportTrigger::START),
    (Causes::STOP, ReportingTriggers::STOPT, UsageReportTrigger::STOPT),
    (Causes::MONITORING, ReportingTriggers::NONE, UsageReportTrigger::MONIT),
    (Causes::LINKED, ReportingTriggers::NONE, UsageReportTrigger::LIUSA),
    (Causes::QUERY, ReportingTriggers::NONE, UsageReportTrigger::IMMER),
    (Causes::ENDED, ReportingTriggers::NONE, UsageReportTrigger::TERMR),
    (Causes::ENDED_HERE, ReportingTriggers::NONE, UsageReportTrigger::TEBUR),
];

/// What Reporting Triggers ask for.
fn asked(triggers: ReportingTriggers) -> Causes {
    let asked = CAUSES.iter().filter(|(_, trigger, _)| triggers.intersects(*trigger));
    asked.fold(Causes::NONE, |all, (cause, ..)| all | *cause)
}

/// Causes as a Usage Report Trigger.
pub fn trigger(causes: Causes) -> UsageReportTrigger {
    let named = CAUSES.iter().filter(|(cause, ..)| causes.contains(*cause));
    named.fold(UsageReportTrigger::NONE, |all, (.., trigger)| all | *trigger)
}

/// Volumes of a threshold or quota that has all three.
macro_rules! volumes {
    ($of:expr) => {
        $of.map(|volume| Volumes { total: volume.total, up: volume.uplink, down: volume.downlink })
    };
}

/// What a URR asks for.
pub fn terms(urr: &CreateUrr) -> Terms {
    Terms {
        asked: asked(urr.reporting_triggers),
        counts_events: urr.measurement_method.contains(MeasurementMethod::EVENT),
        starts_at_once: urr.measurement_information.is_some_and(|info| info.contains(MeasurementInformation::ISTM)),
        volume_threshold: volumes!(urr.volume_threshold),
        volume_quota: volumes!(urr.volume_quota),
        time_threshold: urr.time_threshold.map(|time| time.0),
        time_quota: urr.time_quota.map(|time| time.0),
        event_threshold: urr.event_threshold.map(|events| events.0),
        event_quota: urr.event_quota.map(|events| events.0),
        period: urr.measurement_period.map(|period| period.0),
        inactivity: urr.inactivity_detection_time.map(|time| time.0),
        holding: urr.quota_holding_time.map(|time| time.0),
        validity: urr.quota_validity_time.map(|time| time.0),
        has_quota_action: urr.far_id_for_quota_action.is_some(),
        later: Later {
            volume_threshold: urr.subsequent_volume_threshold.is_some(),
            time_threshold: urr.subsequent_time_threshold.is_some(),
            event_threshold: urr.subsequent_event_threshold.is_some(),
            quotas: Given {
                volume: urr.subsequent_volume_quota.is_some(),
                time: urr.subsequent_time_quota.is_some(),
                events: urr.subsequent_event_quota.is_some(),
            },
            follows: !urr.additional_monitoring_times.is_empty(),
        },
    }
}

/// The quotas that an update gives; one that repeats what holds gives it anew.
pub fn given(update: &UpdateUrr) -> Given {
    let UpdateUrr { volume_quota, time_quota, event_quota, .. } = update;
    Given { volume: volume_quota.is_some(), time: time_quota.is_some(), events: event_quota.is_some() }
}
