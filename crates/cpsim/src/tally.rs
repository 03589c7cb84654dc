//! What a control plane has done, was refused and was told.

use std::collections::BTreeMap;

use pfcp::group::UsageReport;
use pfcp::ie::{Cause, UsageReportTrigger};
use pfcp::node::Time;
use schemars::JsonSchema;
use serde::Serialize;
use table::histogram::Histogram;

/// A kind of request, as far as its response time is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// Session Establishment.
    Establishment,
    /// Session Modification.
    Modification,
    /// Session Deletion.
    Deletion,
}

impl Asked {
    /// All of them, named.
    pub const ALL: [(Self, &'static str); 3] =
        [(Self::Establishment, "establishment"), (Self::Modification, "modification"), (Self::Deletion, "deletion")];
}

/// Numbers that only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Counts {
    /// Sessions established.
    pub established: u64,
    /// Sessions modified, for whatever reason.
    pub modified: u64,
    /// Sessions deleted.
    pub deleted: u64,
    /// Sessions connected to their gNB for the first time.
    pub connected: u64,
    /// Subscribers put to sleep.
    pub idled: u64,
    /// Subscribers woken after packets had come for them.
    pub paged: u64,
    /// Subscribers moved to another gNB.
    pub handed_over: u64,
    /// Sessions that got another rate.
    pub limited: u64,
    /// Sessions asked for their usage.
    pub queried: u64,
    /// Quotas granted again.
    pub granted: u64,
    /// Requests refused.
    pub refused: u64,
    /// Requests nobody answered.
    pub unanswered: u64,
    /// Session and node reports answered.
    pub reports: u64,
    /// Reports of usage that came again, and were not counted again.
    pub repeated: u64,
    /// Times the user plane asked to be released: to drain.
    pub asked_to_release: u64,
    /// Requests kept back, as the user plane had too much to do.
    pub kept_back: u64,
    /// Times the user plane was lost, or lost its sessions.
    pub lost: u64,
}

/// Usage reported, all together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Usage {
    /// Reports of it, in whichever message.
    pub reports: u64,
    /// Bytes uplink.
    pub up_bytes: u64,
    /// Bytes downlink.
    pub down_bytes: u64,
    /// Packets uplink, if told.
    pub up_packets: u64,
    /// Packets downlink, if told.
    pub down_packets: u64,
}

/// All of it.
#[derive(Default)]
pub struct Tally {
    /// What was done.
    pub counts: Counts,
    /// Refusals by cause.
    pub refused: BTreeMap<Cause, u64>,
    /// Reports by identifier of their kind, of [`KINDS`].
    pub kinds: BTreeMap<&'static str, u64>,
    /// Usage.
    pub usage: Usage,
    /// Response times in nanoseconds, by request.
    times: [Histogram; 3],
    /// Of all requests, since last shown.
    recent: Histogram,
}

/// Response times in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Times {
    /// Requests answered.
    pub count: u64,
    /// Half of them within this.
    pub p50: f64,
    /// 99 of 100 within this.
    pub p99: f64,
    /// All within this.
    pub max: f64,
}

/// Kinds of reports: identifier, and the kind in words.
pub const KINDS: [(&str, &str); 14] = [
    ("downlink_data", "downlink data waits"),
    ("error_indication", "error indication"),
    ("gtpu_peer_back", "GTP-U peer is back"),
    ("gtpu_peer_silent", "GTP-U peer is silent"),
    ("inactivity", "inactivity"),
    ("usage_ended_by_user_plane", "usage: ended by the user plane"),
    ("usage_inactivity", "usage: inactivity"),
    ("usage_period", "usage: period"),
    ("usage_queried", "usage: queried"),
    ("usage_session_deleted", "usage: session deleted"),
    ("usage_time_quota", "usage: time quota"),
    ("usage_time_threshold", "usage: time threshold"),
    ("usage_volume_quota", "usage: volume quota"),
    ("usage_volume_threshold", "usage: volume threshold"),
];

/// A kind in words.
pub(crate) fn kind_text(id: &str) -> &str {
    KINDS.iter().find(|(known, _)| *known == id).map_or(id, |(_, text)| text)
}

/// What made a usage report: its flag, and the kind's identifier.
const TRIGGERS: [(UsageReportTrigger, &str); 9] = [
    (UsageReportTrigger::PERIO, "usage_period"),
    (UsageReportTrigger::VOLTH, "usage_volume_threshold"),
    (UsageReportTrigger::VOLQU, "usage_volume_quota"),
    (UsageReportTrigger::TIMTH, "usage_time_threshold"),
    (UsageReportTrigger::TIMQU, "usage_time_quota"),
    (UsageReportTrigger::IMMER, "usage_queried"),
    (UsageReportTrigger::TERMR, "usage_session_deleted"),
    (UsageReportTrigger::TEBUR, "usage_ended_by_user_plane"),
    (UsageReportTrigger::UPINT, "usage_inactivity"),
];

impl Tally {
    /// A request was answered after so long.
    pub fn answered(&mut self, asked: Asked, after: Time) {
        // Half a millennium fits.
        let ns = after.as_nanos() as u64;
        self.times[asked as usize].record(ns);
        self.recent.record(ns);
    }

    /// A request was refused.
    pub fn refuse(&mut self, cause: Cause) {
        self.counts.refused += 1;
        *self.refused.entry(cause).or_default() += 1;
    }

    /// A report of that kind came.
    pub fn kind(&mut self, kind: &'static str) {
        *self.kinds.entry(kind).or_default() += 1;
    }

    /// Usage was reported.
    pub fn usage(&mut self, report: &UsageReport) {
        self.usage.reports += 1;
        for (trigger, name) in TRIGGERS {
            if report.usage_report_trigger.contains(trigger) {
                self.kind(name);
            }
        }
        let Some(volume) = report.volume_measurement else { return };
        self.usage.up_bytes += volume.uplink.unwrap_or(0);
        self.usage.down_bytes += volume.downlink.unwrap_or(0);
        self.usage.up_packets += volume.uplink_packets.unwrap_or(0);
        self.usage.down_packets += volume.downlink_packets.unwrap_or(0);
    }

    /// Response times of a kind of request; for none: of all since [`clear_recent`](Self::clear_recent).
    pub fn times(&self, asked: Option<Asked>) -> Times {
        let times = asked.map_or(&self.recent, |asked| &self.times[asked as usize]);
        let ms = |ns: u64| ns as f64 / 1e6;
        Times { count: times.count(), p50: ms(times.p50()), p99: ms(times.p99()), max: ms(times.max()) }
    }

    /// Begins recent response times anew.
    pub fn clear_recent(&mut self) {
        self.recent.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pfcp::ie::VolumeMeasurement;

    #[test]
    fn usage_adds_up_by_what_made_it() {
        let mut tally = Tally::default();
        let volume = VolumeMeasurement { uplink: Some(60), downlink: Some(120), ..Default::default() };
        let report = UsageReport {
            usage_report_trigger: UsageReportTrigger::TERMR,
            volume_measurement: Some(volume),
            ..UsageReport::default()
        };
        tally.usage(&report);
        tally.usage(&report);
        assert!(TRIGGERS.iter().all(|(_, id)| KINDS.iter().any(|(known, _)| known == id)));
        assert_eq!(tally.usage, Usage { reports: 2, up_bytes: 120, down_bytes: 240, ..Usage::default() });
        assert_eq!(tally.kinds.into_iter().collect::<Vec<_>>(), [("usage_session_deleted", 2)]);
    }

    #[test]
    fn response_times_are_in_milliseconds() {
        let mut tally = Tally::default();
        tally.answered(Asked::Deletion, Time::from_millis(2));
        tally.answered(Asked::Establishment, Time::from_millis(4));
        assert_eq!(tally.times(Some(Asked::Deletion)).max, 2.0);
        assert_eq!((tally.times(None).count, tally.times(None).max), (2, 4.0));
        tally.clear_recent();
        assert_eq!((tally.times(None).count, tally.times(Some(Asked::Deletion)).count), (0, 1));
    }
}
