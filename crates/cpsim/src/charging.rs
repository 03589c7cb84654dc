//! From a usage report to a charging record, once: user planes send a report again until it is acknowledged.

use std::net::IpAddr;
use std::time::Duration;

use ledger::{Cause, Measurement, Moment, Prefix6, Record, RecordType, Seid};
use pfcp::control::Kind;
use pfcp::group::UsageReport;
use pfcp::ie::UsageReportTrigger;

use super::spec::Spec;
use super::subscriber::Subscriber;

/// Numbers of one rule's reports that may be missing; of those before, what comes again is not taken.
const MISSING: usize = 64;

/// Which of a rule's reports have come.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Seen {
    urr: u32,
    /// The number of the next one, if none was lost.
    next: u32,
    /// Numbers before that which have not come.
    missing: Vec<u32>,
}

/// A session as its records see it.
#[derive(Clone, Debug, Default)]
pub struct Account {
    seen: Vec<Seen>,
    /// Records made.
    records: u32,
}

impl Account {
    /// Whether a report is new; it is known from then on.
    pub fn is_new(&mut self, report: &UsageReport) -> bool {
        let (urr, number) = (report.urr_id.0, report.ur_seqn.0);
        let at = self.seen.iter().position(|seen| seen.urr == urr).unwrap_or_else(|| {
            self.seen.push(Seen { urr, ..Seen::default() });
            self.seen.len() - 1
        });
        let seen = &mut self.seen[at];
        if number >= seen.next {
            let first = seen.next.max(number.saturating_sub(MISSING as u32));
            seen.missing.extend(first..number);
            let too_many = seen.missing.len().saturating_sub(MISSING);
            seen.missing.drain(..too_many);
            seen.next = number.saturating_add(1);
            return true;
        }
        let missed = seen.missing.iter().position(|missing| *missing == number);
        missed.map(|missed| seen.missing.swap_remove(missed)).is_some()
    }

    /// The record of a report that is new.
    pub fn record(&mut self, i: u32, subscriber: &Subscriber, report: &UsageReport, from: &From<'_>) -> Record {
        self.records += 1;
        let (session, profile) = (&subscriber.session, &from.spec.profile);
        let volume = report.volume_measurement.unwrap_or_default();
        let time = |unix: u64| Moment(unix * 1000);
        let end = report.end_time.map_or(from.now, |at| time(at.unix()));
        let start = report.start_time.map_or(end, |at| time(at.unix()));
        let measured = report.duration_measurement.map(|duration| Duration::from_secs(duration.0.into()));
        let access = session.access.and_then(|access| access.ip4.map(IpAddr::V4).or(access.ip6.map(IpAddr::V6)));
        let (max, sure) = (profile.maximum_bitrate, profile.guaranteed_bitrate);
        let bits = |kilobits: u64| kilobits * 1000;
        Record {
            record_type: match profile.kind {
                Kind::Smf => RecordType::PduSession,
                Kind::PgwC => RecordType::Pgw,
                Kind::SgwC => RecordType::Sgw,
            },
            node_id: from.node.to_owned(),
            node_address: Some(from.address),
            cp_seid: Seid(session.cp_seid),
            up_seid: Seid(session.up_f_seid.map_or(0, |f_seid| f_seid.seid)),
            record_sequence_number: Some(self.records),
            charging_id: Some(subscriber.charging_id),
            served_imsi: from.spec.imsi(i),
            served_ipv4: session.ip4,
            served_ipv6: session.ip6.map(|address| Prefix6 { address, length: 64 }),
            data_network_name: profile.dnn.to_string(),
            serving_node_address: access.or(subscriber.last_node),
            rating_group: from.spec.rating_group,
            urr_id: Some(report.urr_id.0),
            ur_seqn: Some(report.ur_seqn.0),
            qfi: profile.qfi.map(|qfi| qfi.0),
            max_bit_rate_uplink: max.map(|rate| bits(rate.uplink)),
            max_bit_rate_downlink: max.map(|rate| bits(rate.downlink)),
            guaranteed_bit_rate_uplink: sure.map(|rate| bits(rate.uplink)),
            guaranteed_bit_rate_downlink: sure.map(|rate| bits(rate.downlink)),
            measurement_method: Measurement {
                volume: report.volume_measurement.is_some(),
                duration: report.duration_measurement.is_some(),
                event: profile.event_threshold.is_some(),
            },
            data_volume_uplink: volume.uplink.unwrap_or(0),
            data_volume_downlink: volume.downlink.unwrap_or(0),
            packets_uplink: volume.uplink_packets.unwrap_or(0),
            packets_downlink: volume.downlink_packets.unwrap_or(0),
            time_of_first_usage: report.time_of_first_packet.map(|at| time(at.unix())),
            time_of_last_usage: report.time_of_last_packet.map(|at| time(at.unix())),
            start_time: start,
            stop_time: end,
            duration: measured.unwrap_or(end.since(start)).as_secs(),
            cause_for_rec_closing: cause(report.usage_report_trigger),
            report_trigger: report.usage_report_trigger.names().collect::<Vec<_>>().join(" "),
            number_of_events: profile.event_threshold.map(|_| report.event_time_stamps.len() as u32), // fits a datagram
            ..Record::default()
        }
    }
}

/// Who makes a record, and when.
pub struct From<'a> {
    /// What sessions are like.
    pub spec: &'a Spec,
    /// The user plane's name for itself.
    pub node: &'a str,
    /// Our address.
    pub address: IpAddr,
    /// Now.
    pub now: Moment,
}

/// Why a record ends, by what made the user plane report.
fn cause(trigger: UsageReportTrigger) -> Cause {
    use UsageReportTrigger as T;
    if trigger.intersects(T::TERMR) {
        Cause::NormalRelease
    } else if trigger.intersects(T::TEBUR) {
        Cause::AbnormalRelease
    } else if trigger.intersects(T::VOLTH | T::VOLQU) {
        Cause::VolumeLimit
    } else if trigger.intersects(T::PERIO | T::TIMTH | T::TIMQU | T::QUHTI | T::QUVTI) {
        Cause::TimeLimit
    } else if trigger.intersects(T::IMMER) {
        Cause::ManagementIntervention
    } else {
        Cause::PartialRecord
    }
}

#[cfg(test)]
mod tests {
    use pfcp::ie::UrSeqn;

    use super::*;

    #[test]
    fn a_report_is_new_once_in_whatever_order() {
        let mut account = Account::default();
        let mut is_new = |number| account.is_new(&UsageReport { ur_seqn: UrSeqn(number), ..UsageReport::default() });
        let told = [0, 2, 2, 1, 1, 0, 3, 1000, 999, 900, 1000].map(&mut is_new);
        assert_eq!(told, [true, true, false, true, false, false, true, true, true, false, false]);
    }

    #[test]
    fn a_record_says_what_was_measured_and_counts_events() {
        use pfcp::ie::{DurationMeasurement, EventTimeStamp};
        let of = |more: &str| crate::spec::spec(&crate::tests::args(&format!("--upf 10.0.4.1 {more}"))).unwrap();
        let stamp = EventTimeStamp::from_unix(1_700_000_000);
        let mut report = UsageReport { duration_measurement: Some(DurationMeasurement(3)), ..UsageReport::default() };
        for (line, stamps, method, events) in [
            ("", vec![], "duration", None),
            ("--event-threshold 2 --inactivity-detection 5", vec![stamp, stamp], "duration+event", Some(2)),
            ("--event-threshold 2", vec![], "duration+event", Some(0)),
        ] {
            report.event_time_stamps = stamps;
            let spec = of(line);
            let from = From { spec: &spec, node: "upf", address: [10, 0, 4, 2].into(), now: Moment(0) };
            let record = Account::default().record(0, &Subscriber::default(), &report, &from);
            assert_eq!((record.measurement_method.to_string().as_str(), record.number_of_events), (method, events));
        }
    }

    #[test]
    fn causes_follow_from_triggers() {
        use UsageReportTrigger as T;
        for (trigger, wanted) in [
            (T::TERMR | T::VOLTH, Cause::NormalRelease),
            (T::VOLQU, Cause::VolumeLimit),
            (T::PERIO, Cause::TimeLimit),
            (T::IMMER, Cause::ManagementIntervention),
            (T::START, Cause::PartialRecord),
        ] {
            assert_eq!(cause(trigger), wanted, "{trigger:?}");
        }
    }
}
