//! Usage Reports (7.5.8.3), and how they are kept.

use pfcp::group::{CreateUrr, UsageReport};
use pfcp::ie::{
    DurationMeasurement, EndTime, EventQuota, EventThreshold, EventTimeStamp, MeasurementInformation,
    MeasurementMethod, StartTime, SubsequentVolumeQuota, SubsequentVolumeThreshold, TimeOfFirstPacket,
    TimeOfLastPacket, TimeQuota, TimeThreshold, UrSeqn, UrrId, UsageInformation, VolumeMeasurement, VolumeQuota,
    VolumeThreshold,
};
use pfcp::message::{Message, SessionReportRequest};
use pfcp::{Header, Packet};
use sessions::metering::{Closed, Closing};

use super::{Causes, Metering, WallClock, terms, trigger};
use crate::rules::Usage;

/// Adds the report of what was counted since the last one, behind those of what was counted before monitoring times.
pub fn report(
    meter: &mut Metering,
    urr: &CreateUrr,
    usage: &Usage,
    causes: Causes,
    clock: &WallClock,
    reports: &mut Vec<UsageReport>,
) {
    let Closing { mut before, closed, began } = meter.close(&terms(urr), usage, causes, clock.now);
    let mut last = usage_report(urr, &closed, clock);
    if !before.is_empty() {
        last.usage_information = Some(UsageInformation::AFT);
        reports.append(&mut before);
    }
    last.event_time_stamps = began.into_iter().map(|ns| EventTimeStamp::from_unix(clock.unix(ns))).collect();
    reports.push(last);
}

/// The monitoring time has come: what was counted until now is a report of its own, which goes with the next. What is
/// given for the time after it takes the place of what was given before (5.2.2.3.1).
pub(super) fn split(meter: &mut Metering, urr: &mut CreateUrr, usage: &Usage, clock: &WallClock) {
    meter.split(&terms(urr), usage, clock.now, |closed| UsageReport {
        usage_information: Some(UsageInformation::BEF),
        ..usage_report(urr, closed, clock)
    });
    pass_monitoring_time(urr);
}

/// What was counted, as its rule has it reported.
fn usage_report(urr: &CreateUrr, closed: &Closed, clock: &WallClock) -> UsageReport {
    let ([up, down], [up_packets, down_packets]) = (closed.bytes, closed.packets);
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
    let duration = DurationMeasurement(closed.seconds.min(u32::MAX.into()) as u32);
    let has_packets = closed.first > 0;
    UsageReport {
        urr_id: UrrId(closed.urr),
        ur_seqn: UrSeqn(closed.sequence),
        usage_report_trigger: trigger(closed.causes),
        start_time: Some(StartTime::from_unix(clock.unix(closed.begun))),
        end_time: Some(EndTime::from_unix(clock.unix(closed.ended))),
        volume_measurement: method.contains(MeasurementMethod::VOLUM).then_some(volume),
        duration_measurement: method.contains(MeasurementMethod::DURAT).then_some(duration),
        time_of_first_packet: has_packets.then(|| TimeOfFirstPacket::from_unix(clock.unix(closed.first))),
        time_of_last_packet: has_packets.then(|| TimeOfLastPacket::from_unix(clock.unix(closed.last))),
        ..UsageReport::default()
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

/// Octets in a report.
pub fn octets(report: &UsageReport) -> u64 {
    report.volume_measurement.and_then(|volume| volume.total).unwrap_or(0)
}

/// Reports, written down as a message that would bring them.
pub fn write(reports: &[UsageReport]) -> Vec<u8> {
    let message = SessionReportRequest { usage_reports: reports.to_vec(), ..SessionReportRequest::default() };
    let packet = Packet { header: Header { seid: Some(0), ..Header::default() }, message: message.into() };
    packet.to_vec().unwrap_or_default()
}

/// What was [`written`](write()); nothing, if it cannot be read.
pub fn read(octets: &[u8]) -> Vec<UsageReport> {
    match Packet::parse(octets).map(|packet| packet.message) {
        Ok(Message::SessionReportRequest(message)) => message.usage_reports,
        _ => Vec::new(),
    }
}
