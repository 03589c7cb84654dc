//! Reports: an account is closed and begun anew (7.5.8.3); what was counted before a monitoring time is one of its own
//! (5.2.2.3.1).

use pfcp::group::{CreateUrr, UsageReport};
use pfcp::ie::{
    DurationMeasurement, EndTime, EventQuota, EventThreshold, EventTimeStamp, MeasurementInformation,
    MeasurementMethod, StartTime, SubsequentVolumeQuota, SubsequentVolumeThreshold, TimeOfFirstPacket,
    TimeOfLastPacket, TimeQuota, TimeThreshold, UrSeqn, UrrId, UsageInformation, UsageReportTrigger, VolumeMeasurement,
    VolumeQuota, VolumeThreshold,
};

use super::{BEFORE, Given, Metering, WallClock};
use crate::rules::Usage;

impl Metering {
    /// The report of what was counted since the last one, behind those of what was counted before monitoring times.
    pub fn report(
        &mut self,
        urr: &CreateUrr,
        usage: &Usage,
        trigger: UsageReportTrigger,
        clock: &WallClock,
        reports: &mut Vec<UsageReport>,
    ) {
        self.count_events(urr, clock.now);
        let mut last = self.close(urr, usage, trigger, clock);
        if let Some(aside) = &mut self.aside {
            if !aside.before.is_empty() {
                last.usage_information = Some(UsageInformation::AFT);
                reports.append(&mut aside.before);
            }
            let stamps = std::mem::take(&mut aside.began).into_iter();
            last.event_time_stamps = stamps.map(|ns| EventTimeStamp::from_unix(clock.unix(ns))).collect();
            aside.used_events += i64::from(std::mem::take(&mut aside.events));
            (aside.bytes, aside.seconds) = ([0; 2], 0);
        }
        reports.push(last);
    }

    /// The monitoring time has come: what was counted until now is a report of its own, which goes with the next. What is
    /// given for the time after it counts from now, the rest goes on (5.2.2.3.1).
    pub fn split(&mut self, urr: &mut CreateUrr, usage: &Usage, clock: &WallClock) {
        let seconds = self.metered(urr, clock.now);
        let bytes = [usage.up_bytes.saturating_sub(self.bytes[0]), usage.down_bytes.saturating_sub(self.bytes[1])];
        let mut report = self.close(urr, usage, UsageReportTrigger::MONIT, clock);
        report.usage_information = Some(UsageInformation::BEF);
        let aside = self.aside.get_or_insert_default();
        // A control plane that never hears of any is of no use to it.
        if aside.before.len() < BEFORE {
            aside.before.push(report);
        }
        if urr.subsequent_volume_threshold.is_none() {
            (aside.bytes[0], aside.bytes[1]) = (aside.bytes[0] + bytes[0], aside.bytes[1] + bytes[1]);
        } else {
            aside.bytes = [0; 2];
        }
        aside.seconds = if urr.subsequent_time_threshold.is_none() { aside.seconds + seconds } else { 0 };
        if urr.subsequent_event_threshold.is_some() {
            aside.used_events += i64::from(std::mem::take(&mut aside.events));
        }
        let given = Given {
            volume: urr.subsequent_volume_quota.is_some(),
            time: urr.subsequent_time_quota.is_some(),
            events: urr.subsequent_event_quota.is_some(),
        };
        self.grant(given, urr, clock.now);
        pass_monitoring_time(urr);
    }

    /// Closes the account and begins it anew.
    fn close(&mut self, urr: &CreateUrr, usage: &Usage, trigger: UsageReportTrigger, clock: &WallClock) -> UsageReport {
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
        let seconds = self.metered(urr, now);
        self.used += seconds.cast_signed();
        let duration = DurationMeasurement(seconds.min(u32::MAX.into()) as u32);
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
            self.begin_period(now);
        }
        if trigger.intersects(UsageReportTrigger::START) {
            self.flowing = true;
        }
        if trigger.intersects(UsageReportTrigger::STOPT) {
            self.flowing = false;
        }
        self.use_up(trigger, usage);
        if trigger.intersects(UsageReportTrigger::QUVTI) {
            self.granted_at = now;
        }
        (self.first, self.last) = (0, 0);
        report
    }
}

/// What is given for the time after the monitoring time takes the place of what was given before; the next monitoring
/// time, if there is one, that of the one that has come (5.2.2.2.1).
fn pass_monitoring_time(urr: &mut CreateUrr) {
    if let Some(new) = urr.subsequent_volume_threshold.take() {
        let SubsequentVolumeThreshold { total, uplink, downlink } = new;
        urr.volume_threshold = Some(VolumeThreshold { total, uplink, downlink });
    }
    if let Some(new) = urr.subsequent_volume_quota.take() {
        let SubsequentVolumeQuota { total, uplink, downlink } = new;
        urr.volume_quota = Some(VolumeQuota { total, uplink, downlink });
    }
    urr.time_threshold = urr.subsequent_time_threshold.take().map(|t| TimeThreshold(t.0)).or(urr.time_threshold);
    urr.time_quota = urr.subsequent_time_quota.take().map(|t| TimeQuota(t.0)).or(urr.time_quota);
    urr.event_threshold = urr.subsequent_event_threshold.take().map(|e| EventThreshold(e.0)).or(urr.event_threshold);
    urr.event_quota = urr.subsequent_event_quota.take().map(|e| EventQuota(e.0)).or(urr.event_quota);
    urr.monitoring_time = None;
    let soonest = (0..urr.additional_monitoring_times.len())
        .min_by_key(|at| urr.additional_monitoring_times[*at].monitoring_time.unix());
    if let Some(at) = soonest {
        let next = urr.additional_monitoring_times.remove(at);
        urr.monitoring_time = Some(next.monitoring_time);
        urr.subsequent_volume_threshold = next.subsequent_volume_threshold;
        urr.subsequent_time_threshold = next.subsequent_time_threshold;
        urr.subsequent_volume_quota = next.subsequent_volume_quota;
        urr.subsequent_time_quota = next.subsequent_time_quota;
        urr.subsequent_event_threshold = next.subsequent_event_threshold;
        urr.subsequent_event_quota = next.subsequent_event_quota;
    }
}
