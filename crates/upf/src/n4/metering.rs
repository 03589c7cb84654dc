//! What a URR has reported, and what makes it report next (3GPP TS 29.244, 5.2.2).
//!
//! Workers count without end; control remembers how far it has reported and sends the difference. Bounds on volume are
//! given to the worker as counts to be reached, so that none is missed between two looks; what goes by the clock is
//! looked at when it is due, and found to be so or due later.

use pfcp::group::{CreateUrr, UsageReport};
use pfcp::ie::{
    DurationMeasurement, EndTime, MeasurementInformation, MeasurementMethod, ReportingTriggers, StartTime,
    TimeOfFirstPacket, TimeOfLastPacket, UrSeqn, UrrId, UsageReportTrigger, VolumeMeasurement,
};

use serde::{Deserialize, Serialize};

use crate::rules::{Usage, Volumes};

const SECOND: u64 = 1_000_000_000;

/// A URR's account. Times are the workers', in nanoseconds; 0: never.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Metering {
    /// The rule.
    pub urr: u32,
    /// Number of the next report.
    sequence: u32,
    /// Octets reported, uplink and downlink.
    bytes: [u64; 2],
    /// Packets reported, uplink and downlink.
    packets: [u64; 2],
    /// Octets counted when the quota was given.
    granted: [u64; 2],
    /// When what is reported next began.
    begun: u64,
    /// When the quota was given.
    granted_at: u64,
    /// From when the next period counts.
    period_from: u64,
    /// First and last packet since the last report, as last seen.
    first: u64,
    last: u64,
    /// When it was last looked at.
    looked: u64,
    /// Traffic has been reported to have started, and not yet to have stopped.
    flowing: bool,
    /// The quota is used up, and this was reported.
    exhausted: bool,
    /// Packets counted when it was last written down.
    #[serde(skip)]
    saved: u64,
}

impl Metering {
    /// A rule made now.
    pub fn new(urr: &CreateUrr, now: u64) -> Self {
        Self { urr: urr.urr_id.0, begun: now, granted_at: now, period_from: now, looked: now, ..Self::default() }
    }

    /// The same, with every time that is one changed: for another clock. Here belongs every field that is a time.
    pub fn timed(&self, change: impl Fn(u64) -> u64) -> Self {
        let time = |ns: u64| if ns == 0 { 0 } else { change(ns) };
        Self {
            begun: time(self.begun),
            granted_at: time(self.granted_at),
            period_from: time(self.period_from),
            first: time(self.first),
            last: time(self.last),
            looked: time(self.looked),
            ..*self
        }
    }

    /// Whether more was counted than is written down.
    pub fn is_unsaved(&self, usage: &Usage) -> bool {
        self.saved != usage.up_packets + usage.down_packets
    }

    /// It is written down with this usage.
    pub fn set_saved(&mut self, usage: &Usage) {
        self.saved = usage.up_packets + usage.down_packets;
    }

    /// What is written down holds no more.
    pub fn set_unsaved(&mut self) {
        self.saved = u64::MAX;
    }

    /// A control plane gave another quota: it counts from what was last reported.
    pub fn grant(&mut self, now: u64) {
        self.granted = self.bytes;
        self.granted_at = now;
        self.exhausted = false;
    }

    /// The counts at which the worker is to tell, and to stop.
    pub fn bounds(&self, urr: &CreateUrr) -> (Volumes, Volumes) {
        let above = |from: [u64; 2], total: Option<u64>, up: Option<u64>, down: Option<u64>| Volumes {
            total: total.map(|bytes| bytes.saturating_add(from[0] + from[1])),
            up: up.map(|bytes| bytes.saturating_add(from[0])),
            down: down.map(|bytes| bytes.saturating_add(from[1])),
        };
        let triggers = urr.reporting_triggers;
        let mut threshold = Volumes::default();
        if let Some(volume) = urr.volume_threshold.filter(|_| triggers.contains(ReportingTriggers::VOLTH)) {
            threshold = above(self.bytes, volume.total, volume.uplink, volume.downlink);
        }
        if triggers.contains(ReportingTriggers::START) && !self.flowing {
            threshold.total = Some(self.bytes[0] + self.bytes[1] + 1);
        }
        let quota = urr.volume_quota.map(|volume| above(self.granted, volume.total, volume.uplink, volume.downlink));
        let mut quota = quota.unwrap_or_default();
        if self.exhausted {
            // Used up, by volume, time or neglect: nothing passes until there is another (5.2.2.2).
            quota.total = Some(0);
        } else if urr.time_quota.is_some() || urr.quota_holding_time.is_some() {
            // As good as none; but the record has a place for what comes when the time is over.
            quota.total = quota.total.or(Some(u64::MAX - 1));
        }
        (threshold, quota)
    }

    /// Takes note of what a worker says it has counted.
    pub fn look(&mut self, usage: &Usage, now: u64) {
        let fresh = usage.last_ns > self.begun && self.packets_since(usage) > 0;
        if fresh {
            self.last = usage.last_ns;
            self.first = if self.first == 0 { usage.first_ns.max(self.begun) } else { self.first };
        }
        self.looked = now;
    }

    fn packets_since(&self, usage: &Usage) -> u64 {
        (usage.up_packets + usage.down_packets).saturating_sub(self.packets[0] + self.packets[1])
    }

    /// What makes the rule report, after a [`look`](Self::look).
    pub fn triggers(&self, urr: &CreateUrr, usage: &Usage, now: u64) -> UsageReportTrigger {
        let asked = urr.reporting_triggers;
        let mut due = UsageReportTrigger::NONE;
        let mut when = |asked_for: ReportingTriggers, is_due: bool, trigger: UsageReportTrigger| {
            if asked.contains(asked_for) && is_due {
                due |= trigger;
            }
        };
        let since = |from: u64| now.saturating_sub(from);
        let passed = |from: u64, seconds: Option<u32>| seconds.is_some_and(|s| since(from) >= u64::from(s) * SECOND);
        let bytes = [usage.up_bytes, usage.down_bytes];
        let reached = |from: [u64; 2], total: Option<u64>, up: Option<u64>, down: Option<u64>| {
            let [u, d] = [bytes[0].saturating_sub(from[0]), bytes[1].saturating_sub(from[1])];
            total.is_some_and(|bound| u + d >= bound) || up.is_some_and(|b| u >= b) || down.is_some_and(|b| d >= b)
        };
        let volume = |v: &pfcp::ie::VolumeThreshold| reached(self.bytes, v.total, v.uplink, v.downlink);
        when(ReportingTriggers::VOLTH, urr.volume_threshold.as_ref().is_some_and(volume), UsageReportTrigger::VOLTH);
        let quota = |v: &pfcp::ie::VolumeQuota| reached(self.granted, v.total, v.uplink, v.downlink);
        let used_up = !self.exhausted && urr.volume_quota.as_ref().is_some_and(quota);
        when(ReportingTriggers::VOLQU, used_up, UsageReportTrigger::VOLQU);
        when(
            ReportingTriggers::PERIO,
            passed(self.period_from, urr.measurement_period.map(|p| p.0)),
            UsageReportTrigger::PERIO,
        );
        let metered = self.metered(urr, now);
        let long = |bound: Option<u32>, from: u64| bound.is_some_and(|s| metered.saturating_sub(from) >= u64::from(s));
        when(ReportingTriggers::TIMTH, long(urr.time_threshold.map(|t| t.0), 0), UsageReportTrigger::TIMTH);
        let out_of_time = !self.exhausted && long(urr.time_quota.map(|t| t.0), 0);
        when(ReportingTriggers::TIMQU, out_of_time, UsageReportTrigger::TIMQU);
        let idle_from = self.last.max(self.begun);
        let holding = urr.quota_holding_time.map(|t| t.0);
        when(ReportingTriggers::QUHTI, !self.exhausted && passed(idle_from, holding), UsageReportTrigger::QUHTI);
        let validity = urr.quota_validity_time.map(|t| t.0);
        when(ReportingTriggers::QUVTI, passed(self.granted_at, validity), UsageReportTrigger::QUVTI);
        when(ReportingTriggers::START, !self.flowing && self.first > 0, UsageReportTrigger::START);
        let idle = urr.inactivity_detection_time.map(|t| t.0);
        when(ReportingTriggers::STOPT, self.flowing && passed(idle_from, idle), UsageReportTrigger::STOPT);
        due
    }

    /// When to look again, if the clock can make the rule report.
    pub fn next_look(&self, urr: &CreateUrr) -> Option<u64> {
        let asked = urr.reporting_triggers;
        let at = |trigger: ReportingTriggers, from: u64, seconds: Option<u32>| {
            seconds.filter(|_| asked.contains(trigger)).map(|s| from.saturating_add(u64::from(s.max(1)) * SECOND))
        };
        // Time is metered from the first packet on; before one was seen, a whole bound can not have passed.
        let time_from = match self.first {
            0 if !starts_at_once(urr) => self.looked,
            0 => self.begun,
            first => first,
        };
        let idle_from = self.last.max(self.begun);
        let idle = urr.inactivity_detection_time.map(|t| t.0);
        let holding = urr.quota_holding_time.filter(|_| !self.exhausted).map(|t| t.0);
        [
            at(ReportingTriggers::PERIO, self.period_from, urr.measurement_period.map(|p| p.0)),
            at(ReportingTriggers::TIMTH, time_from, urr.time_threshold.map(|t| t.0)),
            at(ReportingTriggers::TIMQU, time_from, urr.time_quota.filter(|_| !self.exhausted).map(|t| t.0)),
            at(ReportingTriggers::QUHTI, idle_from, holding),
            at(ReportingTriggers::QUVTI, self.granted_at, urr.quota_validity_time.map(|t| t.0)),
            at(ReportingTriggers::STOPT, idle_from, idle.filter(|_| self.flowing)),
        ]
        .into_iter()
        .flatten()
        // Never sooner than a second after the last look: a bound that time alone does not fulfil is not spun on.
        .map(|due| due.max(self.looked + SECOND))
        .min()
    }

    /// Seconds metered since the last report: from the first packet (or at once, ISTM), to now, or to the last packet
    /// when the subscriber has been inactive since.
    fn metered(&self, urr: &CreateUrr, now: u64) -> u64 {
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

    /// The report of what was counted since the last one, which it then becomes.
    pub fn report(
        &mut self,
        urr: &CreateUrr,
        usage: &Usage,
        trigger: UsageReportTrigger,
        clock: &WallClock,
    ) -> UsageReport {
        let now = clock.now;
        let [up, down] = [usage.up_bytes.saturating_sub(self.bytes[0]), usage.down_bytes.saturating_sub(self.bytes[1])];
        let [up_packets, down_packets] =
            [usage.up_packets.saturating_sub(self.packets[0]), usage.down_packets.saturating_sub(self.packets[1])];
        let information = urr.measurement_information.unwrap_or_default();
        let with_packets = information.contains(MeasurementInformation::MNOP);
        let volume = VolumeMeasurement {
            total: Some(up + down),
            uplink: Some(up),
            downlink: Some(down),
            total_packets: with_packets.then_some(up_packets + down_packets),
            uplink_packets: with_packets.then_some(up_packets),
            downlink_packets: with_packets.then_some(down_packets),
        };
        let method = urr.measurement_method;
        let duration = DurationMeasurement(self.metered(urr, now).min(u32::MAX.into()) as u32);
        let report = UsageReport {
            urr_id: UrrId(self.urr),
            ur_seqn: UrSeqn(self.sequence),
            usage_report_trigger: trigger,
            start_time: Some(StartTime::from_unix(clock.unix(self.begun))),
            end_time: Some(EndTime::from_unix(clock.unix(now))),
            volume_measurement: method.contains(MeasurementMethod::VOLUM).then_some(volume),
            duration_measurement: method.contains(MeasurementMethod::DURAT).then_some(duration),
            time_of_first_packet: (self.first > 0).then(|| TimeOfFirstPacket::from_unix(clock.unix(self.first))),
            time_of_last_packet: (self.first > 0).then(|| TimeOfLastPacket::from_unix(clock.unix(self.last))),
            ..UsageReport::default()
        };
        self.sequence = self.sequence.wrapping_add(1);
        self.bytes = [usage.up_bytes, usage.down_bytes];
        self.packets = [usage.up_packets, usage.down_packets];
        self.begun = now;
        self.looked = now;
        if trigger.intersects(UsageReportTrigger::PERIO) {
            self.period_from = now;
        }
        if trigger.intersects(UsageReportTrigger::START) {
            self.flowing = true;
        }
        if trigger.intersects(UsageReportTrigger::STOPT) {
            self.flowing = false;
        }
        let spent = UsageReportTrigger::VOLQU | UsageReportTrigger::TIMQU | UsageReportTrigger::QUHTI;
        self.exhausted |= trigger.intersects(spent);
        if trigger.intersects(UsageReportTrigger::QUVTI) {
            self.granted_at = now;
        }
        (self.first, self.last) = (0, 0);
        report
    }

    /// Whether something was counted that has not been reported.
    pub fn has_news(&self, usage: &Usage) -> bool {
        self.packets_since(usage) > 0
    }
}

/// Whether time is metered from the rule's beginning rather than from its first packet (ISTM).
fn starts_at_once(urr: &CreateUrr) -> bool {
    urr.measurement_information.is_some_and(|info| info.contains(MeasurementInformation::ISTM))
}

/// The workers' time beside the calendar's.
#[derive(Clone, Copy, Debug, Default)]
pub struct WallClock {
    /// The workers' time, in nanoseconds.
    pub now: u64,
    /// Nanoseconds from 1970 to the workers' time 0.
    pub epoch_ns: u64,
}

impl WallClock {
    /// Seconds since 1970 of a time of the workers'.
    pub fn unix(&self, ns: u64) -> u64 {
        (self.epoch_ns + ns) / SECOND
    }
}

#[cfg(test)]
mod tests {
    use pfcp::ie::{InactivityDetectionTime, MeasurementPeriod, TimeThreshold, VolumeQuota, VolumeThreshold};

    use super::*;

    const CLOCK: WallClock = WallClock { now: 0, epoch_ns: 1_700_000_000 * SECOND };

    fn urr(triggers: ReportingTriggers) -> CreateUrr {
        CreateUrr {
            urr_id: UrrId(7),
            measurement_method: MeasurementMethod::VOLUM | MeasurementMethod::DURAT,
            reporting_triggers: triggers,
            ..CreateUrr::default()
        }
    }

    fn usage(up: u64, down: u64, first: u64, last: u64) -> Usage {
        Usage {
            urr: 7,
            up_bytes: up,
            down_bytes: down,
            up_packets: up / 100,
            down_packets: down / 100,
            first_ns: first,
            last_ns: last,
        }
    }

    #[test]
    fn a_threshold_is_met_again_and_again_and_no_octet_is_reported_twice() {
        let urr = CreateUrr { volume_threshold: Some(VolumeThreshold::total(1000)), ..urr(ReportingTriggers::VOLTH) };
        let mut meter = Metering::new(&urr, 0);
        assert_eq!(meter.bounds(&urr).0.total, Some(1000));
        let (mut total, mut counted) = (0, usage(0, 0, 0, 0));
        for step in 1..=5 {
            let now = step * SECOND;
            counted = usage(counted.up_bytes + 700, counted.down_bytes + 400, SECOND / 2, now);
            meter.look(&counted, now);
            assert_eq!(meter.triggers(&urr, &counted, now), UsageReportTrigger::VOLTH);
            let report = meter.report(&urr, &counted, UsageReportTrigger::VOLTH, &WallClock { now, ..CLOCK });
            assert_eq!(report.ur_seqn.0, step as u32 - 1);
            total += report.volume_measurement.and_then(|v| v.total).expect("volume");
            assert_eq!(meter.triggers(&urr, &counted, now), UsageReportTrigger::NONE);
            assert_eq!(meter.bounds(&urr).0.total, Some(1100 * step + 1000));
        }
        assert_eq!(total, 5 * 1100);
    }

    #[test]
    fn a_new_quota_counts_from_what_was_reported() {
        let mut urr = CreateUrr { volume_quota: Some(VolumeQuota::total(500)), ..urr(ReportingTriggers::VOLQU) };
        let mut meter = Metering::new(&urr, 0);
        let counted = usage(300, 200, 1, 2);
        meter.look(&counted, 3);
        assert_eq!(meter.triggers(&urr, &counted, 3), UsageReportTrigger::VOLQU);
        meter.report(&urr, &counted, UsageReportTrigger::VOLQU, &CLOCK);
        assert_eq!(meter.triggers(&urr, &counted, 3), UsageReportTrigger::NONE, "said once");
        assert_eq!(meter.bounds(&urr).1.total, Some(0), "nothing passes meanwhile");
        urr.volume_quota = Some(VolumeQuota::total(800));
        meter.grant(4);
        assert_eq!(meter.bounds(&urr).1.total, Some(1300));
    }

    #[test]
    fn periods_follow_each_other() {
        let urr = CreateUrr { measurement_period: Some(MeasurementPeriod(10)), ..urr(ReportingTriggers::PERIO) };
        let mut meter = Metering::new(&urr, 0);
        assert_eq!(meter.next_look(&urr), Some(10 * SECOND));
        let nothing = usage(0, 0, 0, 0);
        meter.look(&nothing, 10 * SECOND);
        assert_eq!(meter.triggers(&urr, &nothing, 10 * SECOND), UsageReportTrigger::PERIO);
        let now = 10 * SECOND;
        let report = meter.report(&urr, &nothing, UsageReportTrigger::PERIO, &WallClock { now, ..CLOCK });
        assert_eq!(report.start_time.map(|t| t.unix()), Some(1_700_000_000));
        assert_eq!(report.end_time.map(|t| t.unix()), Some(1_700_000_010));
        assert_eq!(report.time_of_first_packet, None);
        assert_eq!(meter.next_look(&urr), Some(20 * SECOND));
    }

    #[test]
    fn time_counts_from_the_first_packet_and_stops_with_the_last() {
        let mut urr = CreateUrr { time_threshold: Some(TimeThreshold(5)), ..urr(ReportingTriggers::TIMTH) };
        let mut meter = Metering::new(&urr, 0);
        meter.look(&usage(0, 0, 0, 0), 5 * SECOND);
        assert_eq!(meter.triggers(&urr, &usage(0, 0, 0, 0), 5 * SECOND), UsageReportTrigger::NONE);
        let counted = usage(100, 0, 3 * SECOND, 4 * SECOND);
        meter.look(&counted, 6 * SECOND);
        assert_eq!(meter.triggers(&urr, &counted, 6 * SECOND), UsageReportTrigger::NONE);
        assert_eq!(meter.next_look(&urr), Some(8 * SECOND), "five seconds after the first packet");
        assert_eq!(meter.triggers(&urr, &counted, 8 * SECOND), UsageReportTrigger::TIMTH);
        urr.inactivity_detection_time = Some(InactivityDetectionTime(2));
        assert_eq!(meter.triggers(&urr, &counted, 8 * SECOND), UsageReportTrigger::NONE, "one second was used");
        let report = meter.report(&urr, &counted, UsageReportTrigger::TERMR, &WallClock { now: 8 * SECOND, ..CLOCK });
        assert_eq!(report.duration_measurement.map(|d| d.0), Some(1));
        assert_eq!(report.time_of_last_packet.map(|t| t.unix()), Some(1_700_000_004));
    }

    #[test]
    fn traffic_that_starts_and_stops_is_told_once_each() {
        let triggers = ReportingTriggers::START | ReportingTriggers::STOPT;
        let urr = CreateUrr { inactivity_detection_time: Some(InactivityDetectionTime(2)), ..urr(triggers) };
        let mut meter = Metering::new(&urr, 0);
        assert_eq!(meter.bounds(&urr).0.total, Some(1), "the first packet is told");
        let counted = usage(100, 0, SECOND, SECOND);
        meter.look(&counted, SECOND);
        assert_eq!(meter.triggers(&urr, &counted, SECOND), UsageReportTrigger::START);
        meter.report(&urr, &counted, UsageReportTrigger::START, &WallClock { now: SECOND, ..CLOCK });
        assert_eq!((meter.bounds(&urr).0.total, meter.next_look(&urr)), (None, Some(3 * SECOND)));
        assert_eq!(meter.triggers(&urr, &counted, 3 * SECOND), UsageReportTrigger::STOPT);
        meter.report(&urr, &counted, UsageReportTrigger::STOPT, &WallClock { now: 3 * SECOND, ..CLOCK });
        assert_eq!(meter.triggers(&urr, &counted, 9 * SECOND), UsageReportTrigger::NONE);
    }
}
