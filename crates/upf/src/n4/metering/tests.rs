use pfcp::group::UsageReport;
use pfcp::ie::{
    EventQuota, EventThreshold, InactivityDetectionTime, MeasurementPeriod, MonitoringTime, SubsequentVolumeThreshold,
    TimeQuota, TimeThreshold, UrrId, UsageInformation, UsageReportTrigger, VolumeQuota, VolumeThreshold,
};

use super::report::split;
use super::*;
use crate::rules::Usage;

const SECOND: u64 = 1_000_000_000;

const CLOCK: WallClock = WallClock { now: 0, epoch_ns: 1_700_000_000 * SECOND };

fn urr(triggers: ReportingTriggers) -> CreateUrr {
    CreateUrr {
        urr_id: UrrId(7),
        measurement_method: MeasurementMethod::VOLUM | MeasurementMethod::DURAT,
        reporting_triggers: triggers,
        ..CreateUrr::default()
    }
}

/// What makes a rule report now.
fn due(meter: &Metering, urr: &CreateUrr, usage: &Usage, now: u64) -> UsageReportTrigger {
    trigger(meter.due(&terms(urr), usage, now).report)
}

/// The causes of a trigger.
fn causes(of: UsageReportTrigger) -> Causes {
    let named = CAUSES.iter().filter(|(.., trigger)| of.contains(*trigger));
    named.fold(Causes::NONE, |all, (cause, ..)| all | *cause)
}

/// The one report that is made.
fn one(
    meter: &mut Metering,
    urr: &CreateUrr,
    usage: &Usage,
    why: UsageReportTrigger,
    clock: &WallClock,
) -> UsageReport {
    let mut reports = Vec::new();
    report(meter, urr, usage, causes(why), clock, &mut reports);
    assert_eq!(reports.len(), 1);
    reports.remove(0)
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
    let mut meter = Metering::new(urr.urr_id.0, 0);
    assert_eq!(meter.bounds(&terms(&urr)).0.total, Some(1000));
    let (mut total, mut counted) = (0, usage(0, 0, 0, 0));
    for step in 1..=5 {
        let now = step * SECOND;
        counted = usage(counted.up_bytes + 700, counted.down_bytes + 400, SECOND / 2, now);
        meter.look(&counted, now);
        assert_eq!(due(&meter, &urr, &counted, now), UsageReportTrigger::VOLTH);
        let report = one(&mut meter, &urr, &counted, UsageReportTrigger::VOLTH, &WallClock { now, ..CLOCK });
        assert_eq!(report.ur_seqn.0, step as u32 - 1);
        total += report.volume_measurement.and_then(|v| v.total).expect("volume");
        assert_eq!(due(&meter, &urr, &counted, now), UsageReportTrigger::NONE);
        assert_eq!(meter.bounds(&terms(&urr)).0.total, Some(1100 * step + 1000));
    }
    assert_eq!(total, 5 * 1100);
}

#[test]
fn a_new_quota_counts_from_what_was_reported() {
    let mut urr = CreateUrr { volume_quota: Some(VolumeQuota::total(500)), ..urr(ReportingTriggers::VOLQU) };
    let mut meter = Metering::new(urr.urr_id.0, 0);
    let counted = usage(300, 200, 1, 2);
    meter.look(&counted, 3);
    assert_eq!(due(&meter, &urr, &counted, 3), UsageReportTrigger::VOLQU);
    one(&mut meter, &urr, &counted, UsageReportTrigger::VOLQU, &CLOCK);
    assert_eq!(due(&meter, &urr, &counted, 3), UsageReportTrigger::NONE, "said once");
    assert_eq!(meter.bounds(&terms(&urr)).1.total, Some(0), "nothing passes meanwhile");
    urr.volume_quota = Some(VolumeQuota::total(800));
    meter.grant(Given { volume: true, ..Given::default() }, &terms(&urr), 4);
    assert_eq!(meter.bounds(&terms(&urr)).1.total, Some(1300));
}

#[test]
fn periods_follow_each_other() {
    let urr = CreateUrr { measurement_period: Some(MeasurementPeriod(10)), ..urr(ReportingTriggers::PERIO) };
    let mut meter = Metering::new(urr.urr_id.0, 0);
    assert_eq!(meter.next_look(&terms(&urr)), Some(10 * SECOND));
    let nothing = usage(0, 0, 0, 0);
    meter.look(&nothing, 10 * SECOND);
    assert_eq!(due(&meter, &urr, &nothing, 10 * SECOND), UsageReportTrigger::PERIO);
    let now = 10 * SECOND;
    let report = one(&mut meter, &urr, &nothing, UsageReportTrigger::PERIO, &WallClock { now, ..CLOCK });
    assert_eq!(report.start_time.map(|t| t.unix()), Some(1_700_000_000));
    assert_eq!(report.end_time.map(|t| t.unix()), Some(1_700_000_010));
    assert_eq!(report.time_of_first_packet, None);
    assert_eq!(meter.next_look(&terms(&urr)), Some(20 * SECOND));
}

#[test]
fn time_counts_from_the_first_packet_and_stops_with_the_last() {
    let mut urr = CreateUrr { time_threshold: Some(TimeThreshold(5)), ..urr(ReportingTriggers::TIMTH) };
    let mut meter = Metering::new(urr.urr_id.0, 0);
    meter.look(&usage(0, 0, 0, 0), 5 * SECOND);
    assert_eq!(due(&meter, &urr, &usage(0, 0, 0, 0), 5 * SECOND), UsageReportTrigger::NONE);
    let counted = usage(100, 0, 3 * SECOND, 4 * SECOND);
    meter.look(&counted, 6 * SECOND);
    assert_eq!(due(&meter, &urr, &counted, 6 * SECOND), UsageReportTrigger::NONE);
    assert_eq!(meter.next_look(&terms(&urr)), Some(8 * SECOND), "five seconds after the first packet");
    assert_eq!(due(&meter, &urr, &counted, 8 * SECOND), UsageReportTrigger::TIMTH);
    urr.inactivity_detection_time = Some(InactivityDetectionTime(2));
    assert_eq!(due(&meter, &urr, &counted, 8 * SECOND), UsageReportTrigger::NONE, "one second was used");
    let report = one(&mut meter, &urr, &counted, UsageReportTrigger::TERMR, &WallClock { now: 8 * SECOND, ..CLOCK });
    assert_eq!(report.duration_measurement.map(|d| d.0), Some(1));
    assert_eq!(report.time_of_last_packet.map(|t| t.unix()), Some(1_700_000_004));
}

#[test]
fn traffic_that_starts_and_stops_is_told_once_each() {
    let triggers = ReportingTriggers::START | ReportingTriggers::STOPT;
    let urr = CreateUrr { inactivity_detection_time: Some(InactivityDetectionTime(2)), ..urr(triggers) };
    let mut meter = Metering::new(urr.urr_id.0, 0);
    assert_eq!(meter.bounds(&terms(&urr)).0.total, Some(1), "the first packet is told");
    let counted = usage(100, 0, SECOND, SECOND);
    meter.look(&counted, SECOND);
    assert_eq!(due(&meter, &urr, &counted, SECOND), UsageReportTrigger::START);
    one(&mut meter, &urr, &counted, UsageReportTrigger::START, &WallClock { now: SECOND, ..CLOCK });
    assert_eq!(
        (meter.bounds(&terms(&urr)).0.total, meter.next_look(&terms(&urr))),
        (Some(u64::MAX - 1), Some(3 * SECOND))
    );
    assert_eq!(due(&meter, &urr, &counted, 3 * SECOND), UsageReportTrigger::STOPT);
    one(&mut meter, &urr, &counted, UsageReportTrigger::STOPT, &WallClock { now: 3 * SECOND, ..CLOCK });
    assert_eq!(due(&meter, &urr, &counted, 9 * SECOND), UsageReportTrigger::NONE);
}

#[test]
fn usage_is_reported_before_and_after_the_monitoring_time() {
    let mut urr = CreateUrr {
        volume_threshold: Some(VolumeThreshold::total(1000)),
        monitoring_time: Some(MonitoringTime::from_unix(1_700_000_010)),
        additional_monitoring_times: vec![pfcp::group::AdditionalMonitoringTime {
            monitoring_time: MonitoringTime::from_unix(1_700_000_020),
            subsequent_volume_threshold: Some(SubsequentVolumeThreshold::total(300)),
            ..Default::default()
        }],
        ..urr(ReportingTriggers::VOLTH)
    };
    let at = |second: u64| WallClock { now: second * SECOND, ..CLOCK };
    let mut meter = Metering::new(urr.urr_id.0, 0);
    meter.look(&usage(400, 200, SECOND, 9 * SECOND), 10 * SECOND);
    split(&mut meter, &mut urr, &usage(400, 200, SECOND, 9 * SECOND), &at(10));
    assert_eq!(meter.bounds(&terms(&urr)).0.total, Some(1000), "the threshold goes on");
    assert_eq!(urr.monitoring_time, Some(MonitoringTime::from_unix(1_700_000_020)));
    let written = serde_json::to_string(&meter).expect("JSON");
    assert_eq!(serde_json::from_str::<Metering>(&written).expect("as written"), meter);
    let counted = usage(700, 300, 11 * SECOND, 15 * SECOND);
    meter.look(&counted, 15 * SECOND);
    assert_eq!(due(&meter, &urr, &counted, 15 * SECOND), UsageReportTrigger::VOLTH);
    let mut reports = Vec::new();
    report(&mut meter, &urr, &counted, Causes::VOLUME_THRESHOLD, &at(15), &mut reports);
    let told: Vec<_> = reports
        .iter()
        .map(|r| (r.volume_measurement.and_then(|v| v.total), r.usage_information, r.usage_report_trigger, r.ur_seqn.0))
        .collect();
    assert_eq!(
        told,
        [
            (Some(600), Some(UsageInformation::BEF), UsageReportTrigger::MONIT, 0),
            (Some(400), Some(UsageInformation::AFT), UsageReportTrigger::VOLTH, 1),
        ]
    );
    assert_eq!(reports[0].end_time.map(|t| t.unix()), reports[1].start_time.map(|t| t.unix()));
    assert_eq!(meter.bounds(&terms(&urr)).0.total, Some(2000));
    split(&mut meter, &mut urr, &usage(800, 300, 16 * SECOND, 19 * SECOND), &at(20));
    assert_eq!(meter.bounds(&terms(&urr)).0.total, Some(1100 + 300), "another threshold, from then on");
    assert_eq!(urr.monitoring_time, None);
}

#[test]
fn events_are_traffic_that_begins_after_silence() {
    let mut urr = CreateUrr {
        measurement_method: MeasurementMethod::EVENT,
        inactivity_detection_time: Some(InactivityDetectionTime(2)),
        event_threshold: Some(EventThreshold(2)),
        event_quota: Some(EventQuota(3)),
        ..urr(ReportingTriggers::EVETH | ReportingTriggers::EVEQU)
    };
    let mut meter = Metering::new(urr.urr_id.0, 0);
    let mut told = Vec::new();
    for second in 1..20 {
        // A packet in the first two of every six seconds.
        let last = (1..=second).rev().find(|s| s % 6 < 2).unwrap_or(0);
        let packets = (1..=second).filter(|s| s % 6 < 2).count() as u64;
        let counted = usage(packets * 100, 0, SECOND, last * SECOND);
        let now = second * SECOND;
        meter.look(&counted, now);
        meter.count_events(&terms(&urr), now);
        let due = due(&meter, &urr, &counted, now);
        if due != UsageReportTrigger::NONE {
            let report = one(&mut meter, &urr, &counted, due, &WallClock { now, ..CLOCK });
            told.push((second, due, report.event_time_stamps.iter().map(|t| t.unix() % 100).collect::<Vec<_>>()));
        }
    }
    // Traffic begins at 1, 6, 12 and 18.
    assert_eq!(told, [(6, UsageReportTrigger::EVETH, vec![1, 6]), (12, UsageReportTrigger::EVEQU, vec![12])]);
    assert_eq!(meter.bounds(&terms(&urr)).1.total, Some(0), "nothing passes");
    urr.event_quota = Some(EventQuota(1));
    meter.grant(Given { events: true, ..Given::default() }, &terms(&urr), 20 * SECOND);
    assert_ne!(meter.bounds(&terms(&urr)).1.total, Some(0));
}

#[test]
fn a_quota_of_time_outlives_reports() {
    let urr = CreateUrr { time_quota: Some(TimeQuota(10)), ..urr(ReportingTriggers::TIMQU) };
    let mut meter = Metering::new(urr.urr_id.0, 0);
    for second in 1..=10 {
        let counted = usage(100 * second, 0, SECOND, second * SECOND + SECOND / 2);
        let now = (second + 1) * SECOND;
        meter.look(&counted, now);
        let due = due(&meter, &urr, &counted, now) == UsageReportTrigger::TIMQU;
        assert_eq!(due, second == 10, "{second}");
        one(&mut meter, &urr, &counted, UsageReportTrigger::PERIO, &WallClock { now, ..CLOCK });
    }
}

#[test]
fn what_is_not_given_anew_goes_on() {
    let triggers = ReportingTriggers::VOLQU | ReportingTriggers::TIMQU;
    let urr =
        CreateUrr { volume_quota: Some(VolumeQuota::total(1000)), time_quota: Some(TimeQuota(10)), ..urr(triggers) };
    let (volume, time) = (Given { volume: true, ..Given::default() }, Given { time: true, ..Given::default() });
    let mut meter = Metering::new(urr.urr_id.0, 0);
    let mut counted = usage(600, 0, 1, 2);
    let now = 11 * SECOND;
    meter.look(&counted, now);
    assert_eq!(due(&meter, &urr, &counted, now), UsageReportTrigger::TIMQU);
    one(&mut meter, &urr, &counted, UsageReportTrigger::TIMQU, &WallClock { now, ..CLOCK });
    assert_eq!(meter.bounds(&terms(&urr)).1.total, Some(0));
    meter.grant(volume, &terms(&urr), now);
    assert_eq!(meter.bounds(&terms(&urr)).1.total, Some(0), "octets are no seconds");
    meter.grant(time, &terms(&urr), now);
    assert_eq!(meter.bounds(&terms(&urr)).1.total, Some(1600), "as many as were given with the volume");
    // More seconds later on are no more octets.
    meter.grant(time, &terms(&urr), now);
    counted = usage(1600, 0, now, now);
    meter.look(&counted, now);
    assert_eq!(due(&meter, &urr, &counted, now), UsageReportTrigger::VOLQU);
    one(&mut meter, &urr, &counted, UsageReportTrigger::VOLQU, &WallClock { now, ..CLOCK });
    meter.grant(time, &terms(&urr), now);
    assert_eq!(meter.bounds(&terms(&urr)).1.total, Some(0));
    meter.grant(Given::default(), &terms(&urr), now);
    meter.grant(volume, &terms(&urr), now);
    assert_eq!(meter.bounds(&terms(&urr)).1.total, Some(2600));
}
