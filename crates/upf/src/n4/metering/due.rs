//! What makes a rule report or stop, and when to look again (5.2.2.2).

use pfcp::group::CreateUrr;
use pfcp::ie::{MeasurementInformation, ReportingTriggers, UsageReportTrigger, VolumeQuota, VolumeThreshold};

use super::{Metering, SECOND};
use crate::rules::Usage;

/// What has come about for a rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Due {
    /// What makes it report: of what was asked for.
    pub report: UsageReportTrigger,
    /// The quotas that are used up, asked for or not.
    pub spent: UsageReportTrigger,
}

impl Metering {
    /// What has come about, after a [`look`](Self::look).
    pub fn due(&self, urr: &CreateUrr, usage: &Usage, now: u64) -> Due {
        let asked = urr.reporting_triggers;
        let quotas = UsageReportTrigger::VOLQU
            | UsageReportTrigger::TIMQU
            | UsageReportTrigger::EVEQU
            | UsageReportTrigger::QUHTI;
        let mut due = Due::default();
        let mut when = |asked_for: ReportingTriggers, is_due: bool, trigger: UsageReportTrigger| {
            if is_due && quotas.contains(trigger) {
                due.spent |= trigger;
            }
            if is_due && asked.contains(asked_for) {
                due.report |= trigger;
            }
        };
        let since = |from: u64| now.saturating_sub(from);
        let passed = |from: u64, seconds: Option<u32>| seconds.is_some_and(|s| since(from) >= u64::from(s) * SECOND);
        let bytes = [usage.up_bytes, usage.down_bytes];
        let reached = |from: [u64; 2], total: Option<u64>, up: Option<u64>, down: Option<u64>| {
            let [u, d] = [bytes[0].saturating_sub(from[0]), bytes[1].saturating_sub(from[1])];
            total.is_some_and(|bound| u + d >= bound) || up.is_some_and(|b| u >= b) || down.is_some_and(|b| d >= b)
        };
        let volume = |v: &VolumeThreshold| reached(self.counted_from(), v.total, v.uplink, v.downlink);
        when(ReportingTriggers::VOLTH, urr.volume_threshold.as_ref().is_some_and(volume), UsageReportTrigger::VOLTH);
        let quota = |v: &VolumeQuota| reached(self.granted, v.total, v.uplink, v.downlink);
        let is_exhausted = self.is_exhausted();
        let used_up = !is_exhausted && urr.volume_quota.as_ref().is_some_and(quota);
        when(ReportingTriggers::VOLQU, used_up, UsageReportTrigger::VOLQU);
        when(
            ReportingTriggers::PERIO,
            passed(self.period_from, urr.measurement_period.map(|p| p.0)),
            UsageReportTrigger::PERIO,
        );
        let metered = self.metered(urr, now).cast_signed();
        let long = |bound: Option<u32>, more: i64| bound.is_some_and(|s| metered + more >= i64::from(s));
        let before = self.aside.as_ref().map_or(0, |aside| aside.seconds.cast_signed());
        when(ReportingTriggers::TIMTH, long(urr.time_threshold.map(|t| t.0), before), UsageReportTrigger::TIMTH);
        let out_of_time = !is_exhausted && long(urr.time_quota.map(|t| t.0), self.used);
        when(ReportingTriggers::TIMQU, out_of_time, UsageReportTrigger::TIMQU);
        let idle_from = self.last.max(self.begun);
        let holding = urr.quota_holding_time.map(|t| t.0);
        when(ReportingTriggers::QUHTI, !is_exhausted && passed(idle_from, holding), UsageReportTrigger::QUHTI);
        let validity = urr.quota_validity_time.map(|t| t.0);
        when(ReportingTriggers::QUVTI, passed(self.granted_at, validity), UsageReportTrigger::QUVTI);
        let (events, used) = (self.events(), self.aside.as_ref().map_or(0, |aside| aside.used_events));
        let many = |bound: Option<u32>, more: i64| bound.is_some_and(|b| i64::from(events) + more >= b.into());
        when(ReportingTriggers::EVETH, many(urr.event_threshold.map(|e| e.0), 0), UsageReportTrigger::EVETH);
        let out_of_events = !is_exhausted && many(urr.event_quota.map(|e| e.0), used);
        when(ReportingTriggers::EVEQU, out_of_events, UsageReportTrigger::EVEQU);
        when(ReportingTriggers::START, !self.flowing && self.first > 0, UsageReportTrigger::START);
        let idle = urr.inactivity_detection_time.map(|t| t.0);
        when(ReportingTriggers::STOPT, self.flowing && passed(idle_from, idle), UsageReportTrigger::STOPT);
        due
    }

    /// When to look again, if the clock can make the rule report or stop.
    pub fn next_look(&self, urr: &CreateUrr) -> Option<u64> {
        let asked = urr.reporting_triggers;
        let after = |from: u64, seconds: u64| from.saturating_add(seconds.max(1).saturating_mul(SECOND));
        let at = |trigger: ReportingTriggers, from: u64, seconds: Option<u32>| {
            seconds.filter(|_| asked.contains(trigger)).map(|seconds| after(from, seconds.into()))
        };
        let less = |seconds: u32, used: i64| i64::from(seconds).saturating_sub(used).max(0).cast_unsigned();
        let before = self.aside.as_ref().map_or(0, |aside| aside.seconds.cast_signed());
        // Time is metered from the first packet on; before one was seen, a whole bound can not have passed.
        let time_from = match self.first {
            0 if !starts_at_once(urr) => self.looked,
            0 => self.begun,
            first => first,
        };
        let idle_from = self.last.max(self.begun);
        let idle = urr.inactivity_detection_time.map(|t| t.0);
        // Quotas end whether or not that is to be reported.
        let is_left = !self.is_exhausted();
        let long = urr.time_threshold.filter(|_| asked.contains(ReportingTriggers::TIMTH));
        [
            at(ReportingTriggers::PERIO, self.period_from, urr.measurement_period.map(|p| p.0)),
            long.map(|t| after(time_from, less(t.0, before))),
            urr.time_quota.filter(|_| is_left).map(|t| after(time_from, less(t.0, self.used))),
            urr.quota_holding_time.filter(|_| is_left).map(|t| after(idle_from, t.0.into())),
            at(ReportingTriggers::QUVTI, self.granted_at, urr.quota_validity_time.map(|t| t.0)),
            at(ReportingTriggers::STOPT, idle_from, idle.filter(|_| self.flowing)),
            idle.filter(|s| *s > 0 && self.is_running()).map(|s| idle_from.saturating_add(u64::from(s) * SECOND)),
        ]
        .into_iter()
        .flatten()
        // Never sooner than a second after the last look: a bound that time alone does not fulfil is not spun on.
        .map(|due| due.max(self.looked + SECOND))
        .min()
    }

    /// Seconds metered since the last report: from the first packet (or at once, ISTM), to now, or to the last packet
    /// when the subscriber has been inactive since.
    pub(super) fn metered(&self, urr: &CreateUrr, now: u64) -> u64 {
        let from = match self.first {
            0 if starts_at_once(urr) => self.begun,
            0 => return 0,
            first => first,
        };
        let inactive = urr.inactivity_detection_time.map(|t| u64::from(t.0) * SECOND);
        let idle = now.saturating_sub(self.last.max(from));
        let to = if inactive.is_some_and(|after| after > 0 && idle >= after) { self.last.max(from) } else { now };
        to.saturating_sub(from) / SECOND
    }
}

/// Whether time is metered from the rule's beginning rather than from its first packet (ISTM).
fn starts_at_once(urr: &CreateUrr) -> bool {
    urr.measurement_information.is_some_and(|info| info.contains(MeasurementInformation::ISTM))
}
