//! What is counted, when, and how it is told (3GPP TS 29.244, 5.2.2).

use super::super::*;

/// 2023, as the bench's clock says at its beginning.
const EPOCH: u64 = 1_700_000_000;

fn change_urr(bench: &mut Bench, session: &Session, update: UpdateUrr) {
    let change = SessionModificationRequest {
        update_urrs: vec![UpdateUrr { urr_id: UrrId(1), ..update }],
        ..Default::default()
    };
    assert_eq!(bench.modify(session, change).cause, Cause::REQUEST_ACCEPTED);
}

/// Volume, part and trigger of each report.
fn parts(reports: &[UsageReport]) -> Vec<(u64, Option<UsageInformation>, UsageReportTrigger)> {
    let volume = |report: &UsageReport| report.volume_measurement.and_then(|v| v.total).unwrap_or(0);
    reports.iter().map(|report| (volume(report), report.usage_information, report.usage_report_trigger)).collect()
}

#[test]
fn usage_is_split_at_the_monitoring_time() {
    let mut bench = Bench::new("");
    let (session, teid) = connected(&mut bench, &Profile { volume_threshold: Some(600), ..smf() });
    change_urr(
        &mut bench,
        &session,
        UpdateUrr {
            monitoring_time: Some(MonitoringTime::from_unix(EPOCH + 10)),
            subsequent_volume_threshold: Some(SubsequentVolumeThreshold::total(120)),
            ..UpdateUrr::default()
        },
    );
    (0..3).for_each(|_| bench.send("n3", &up(teid, &request(UE))));
    bench.turn_to(secs(9));
    assert_eq!(bench.reports(), []);
    bench.turn_to(secs(11));
    assert_eq!(bench.reports(), [], "they go with the next");
    (0..2).for_each(|_| bench.send("n3", &up(teid, &request(UE))));
    let reports: Vec<UsageReport> = bench.reports().into_iter().flat_map(|report| report.usage_reports).collect();
    let (before, after) = (Some(UsageInformation::BEF), Some(UsageInformation::AFT));
    let told = [(180, before, UsageReportTrigger::MONIT), (120, after, UsageReportTrigger::VOLTH)];
    assert_eq!(parts(&reports), told);
    assert_eq!(reports[0].end_time.map(|time| time.unix()), reports[1].start_time.map(|time| time.unix()));
    bench.send("n3", &up(teid, &request(UE)));
    assert_eq!(parts(&bench.delete(&session).usage_reports), [(60, None, UsageReportTrigger::TERMR)]);
    bench.close();
}

#[test]
fn a_report_nobody_answered_is_sent_again_until_somebody_does() {
    let mut bench = Bench::new("");
    let (session, teid) = connected(&mut bench, &Profile { volume_threshold: Some(120), ..smf() });
    (0..2).for_each(|_| bench.send("n3", &up(teid, &request(UE))));
    let said = |report: &SessionReportRequest| {
        let usage = &report.usage_reports[0];
        (report.usage_reports.len(), usage.ur_seqn.0, usage.volume_measurement.and_then(|volume| volume.total))
    };
    // Nobody answers, however often a request is sent; nor the next request.
    let mut requests = std::collections::BTreeSet::new();
    for second in 2..90 {
        bench.turn_to(secs(second));
        for Packet { header, message } in bench.unasked() {
            let Message::SessionReportRequest(report) = message else { continue };
            requests.insert((header.sequence, said(&report)));
        }
    }
    assert!(requests.len() > 1, "{requests:?}");
    assert!(requests.iter().all(|(_, what)| *what == (1, 0, Some(120))), "the same report: {requests:?}");
    let mut heard = Vec::new();
    for second in 90..300 {
        bench.turn_to(secs(second));
        heard.extend(bench.reports().iter().map(said));
    }
    assert_eq!(heard, [(1, 0, Some(120))], "once it is answered, no more");
    bench.send("n3", &up(teid, &request(UE)));
    assert_eq!(parts(&bench.delete(&session).usage_reports), [(60, None, UsageReportTrigger::TERMR)]);
    bench.close();
}

#[test]
fn a_bound_may_begin_with_the_monitoring_time() {
    let mut bench = Bench::new("");
    let (session, teid) = connected(&mut bench, &Profile { measurement_period: Some(86_400), ..smf() });
    change_urr(
        &mut bench,
        &session,
        UpdateUrr {
            reporting_triggers: Some(ReportingTriggers::VOLTH | ReportingTriggers::VOLQU),
            monitoring_time: Some(MonitoringTime::from_unix(EPOCH + 10)),
            subsequent_volume_threshold: Some(SubsequentVolumeThreshold::total(120)),
            subsequent_volume_quota: Some(SubsequentVolumeQuota::total(240)),
            ..UpdateUrr::default()
        },
    );
    (0..3).for_each(|_| bench.send("n3", &up(teid, &request(UE))));
    assert_eq!((bench.reports().len(), bench.received("n6").len()), (0, 3), "there is none yet");
    bench.turn_to(secs(11));
    let mut triggers = Vec::new();
    for _ in 0..6 {
        bench.send("n3", &up(teid, &request(UE)));
        triggers.extend(bench.reports().iter().flat_map(usage_of).map(|(_, trigger)| trigger));
    }
    let (threshold, quota) = (UsageReportTrigger::VOLTH, UsageReportTrigger::VOLQU);
    assert_eq!(triggers, [UsageReportTrigger::MONIT, threshold, threshold | quota]);
    assert_eq!(bench.received("n6").len(), 4, "the quota is met to the packet");
    bench.close();
}

#[test]
fn what_rates_and_gates_drop_is_counted_where_so_asked() {
    for (information, expected) in [
        (MeasurementInformation::NONE, (0, 0)),
        (MeasurementInformation::MBQE, (300, 300)),
        (MeasurementInformation::MBQE | MeasurementInformation::INAM, (0, 0)),
    ] {
        let mut bench = Bench::new("");
        let (session, teid) = connected(&mut bench, &Profile { volume_threshold: Some(1 << 40), ..smf() });
        let closed = GateStatus { uplink_closed: true, downlink_closed: true };
        let gate = UpdateQer { qer_id: QerId(1), gate_status: Some(closed), ..UpdateQer::default() };
        let change = SessionModificationRequest { update_qers: vec![gate], ..Default::default() };
        assert_eq!(bench.modify(&session, change).cause, Cause::REQUEST_ACCEPTED);
        let update = UpdateUrr { measurement_information: Some(information), ..UpdateUrr::default() };
        change_urr(&mut bench, &session, update);
        (0..5).for_each(|_| bench.send("n3", &up(teid, &request(UE))));
        (0..5).for_each(|_| bench.send("n6", &from_router(&response(UE)).build()));
        assert_eq!((bench.received("n6").len(), bench.received("n3").len()), (0, 0));
        let last = bench.delete(&session).usage_reports;
        let volume = last[0].volume_measurement.expect("volume");
        assert_eq!((volume.uplink, volume.downlink), (Some(expected.0), Some(expected.1)), "{information:?}");
        bench.close();
    }
}

#[test]
fn a_quota_before_rates_is_met_to_the_packet() {
    let mut bench = Bench::new("");
    let (session, teid) = connected(&mut bench, &Profile { volume_quota: Some(180), ..smf() });
    let information = Some(MeasurementInformation::MBQE);
    change_urr(&mut bench, &session, UpdateUrr { measurement_information: information, ..UpdateUrr::default() });
    (0..6).for_each(|_| bench.send("n3", &up(teid, &request(UE))));
    assert_eq!(bench.received("n6").len(), 3);
    let told: Vec<_> = bench.reports().iter().flat_map(usage_of).collect();
    assert_eq!(told, [(180, UsageReportTrigger::VOLQU)]);
    bench.close();
}

#[test]
fn events_are_counted_told_and_used_up() {
    let mut bench = Bench::new("");
    let (session, teid) = connected(&mut bench, &Profile { volume_threshold: Some(1 << 40), ..smf() });
    change_urr(
        &mut bench,
        &session,
        UpdateUrr {
            measurement_method: Some(MeasurementMethod::EVENT),
            reporting_triggers: Some(ReportingTriggers::EVETH | ReportingTriggers::EVEQU),
            inactivity_detection_time: Some(InactivityDetectionTime(2)),
            event_threshold: Some(EventThreshold(2)),
            event_quota: Some(EventQuota(3)),
            ..UpdateUrr::default()
        },
    );
    let mut told = Vec::new();
    for second in 2..30 {
        bench.turn_to(secs(second));
        if second % 6 < 2 {
            bench.send("n3", &up(teid, &request(UE)));
        }
        for report in bench.reports().into_iter().flat_map(|report| report.usage_reports) {
            assert_eq!(report.volume_measurement, None, "it was not asked for");
            told.push((second, report.usage_report_trigger, report.event_time_stamps.len()));
        }
    }
    // Traffic begins at 6, 12, 18 and 24.
    assert_eq!(told, [(12, UsageReportTrigger::EVETH, 2), (18, UsageReportTrigger::EVEQU, 1)]);
    assert_eq!(bench.received("n6").len(), 5, "the third event's first packet is the last");
    // Given anew, it is one of three again.
    change_urr(&mut bench, &session, UpdateUrr { event_quota: Some(EventQuota(3)), ..UpdateUrr::default() });
    bench.turn_to(secs(36));
    bench.send("n3", &up(teid, &request(UE)));
    assert_eq!(bench.received("n6").len(), 1);
    bench.close();
}

#[test]
fn usage_of_periods_that_nobody_hears_of_is_in_the_report_after() {
    let mut bench = Bench::new("");
    let (session, teid) = connected(&mut bench, &Profile { measurement_period: Some(10), ..smf() });
    let periods = 100;
    for period in 1..=periods {
        bench.send("n3", &up(teid, &request(UE)));
        for second in 0..10 {
            bench.turn_to(secs(10 * period + second));
        }
        drop(bench.unasked());
    }
    assert_eq!(bench.sessions().usage_reports_lost(), 0);
    let mut heard = std::collections::BTreeMap::new();
    for second in 0..120 {
        bench.turn_to(secs(10 * (periods + 1) + second));
        for report in bench.reports().iter().flat_map(|report| &report.usage_reports) {
            heard.insert(report.ur_seqn.0, report.volume_measurement.and_then(|volume| volume.total).unwrap_or(0));
        }
    }
    let last = bench.delete(&session).usage_reports;
    let rest: u64 = last.iter().filter_map(|report| report.volume_measurement?.total).sum();
    assert_eq!(heard.values().sum::<u64>() + rest, 60 * periods, "{heard:?} {rest}");
    assert!((64..80).contains(&heard.len()), "as many waited as may, and one came after: {}", heard.len());
    bench.close();
}
