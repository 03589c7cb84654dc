//! What goes by the clock: rules with a time, silence, linked usage (3GPP TS 29.244, 5.2.1.5, 5.2.2, 5.2.2.6).

use super::super::*;

/// 2023, as the bench's clock says at its beginning.
const EPOCH: u64 = 1_700_000_000;

fn urr(id: u32, method: MeasurementMethod, triggers: ReportingTriggers) -> CreateUrr {
    CreateUrr { urr_id: UrrId(id), measurement_method: method, reporting_triggers: triggers, ..CreateUrr::default() }
}

/// A session whose packets are measured by these.
fn measured(bench: &mut Bench, urrs: Vec<CreateUrr>) -> (Session, u32) {
    let (session, teid) = connected(bench, &smf());
    let ids: Vec<UrrId> = urrs.iter().map(|urr| urr.urr_id).collect();
    let update = |pdr| UpdatePdr { pdr_id: PdrId(pdr), urr_ids: ids.clone(), ..UpdatePdr::default() };
    let change =
        SessionModificationRequest { create_urrs: urrs, update_pdrs: vec![update(1), update(2)], ..Default::default() };
    assert_eq!(bench.modify(&session, change).cause, Cause::REQUEST_ACCEPTED);
    (session, teid)
}

fn told(bench: &mut Bench) -> Vec<(u32, UsageReportTrigger)> {
    let reports = bench.reports().into_iter().flat_map(|report| report.usage_reports);
    reports.map(|report| (report.urr_id.0, report.usage_report_trigger)).collect()
}

#[test]
fn a_rule_holds_from_its_activation_to_its_deactivation() {
    let mut bench = Bench::new("");
    let session = Session { cp_seid: 1, ip4: Some(UE), ..Session::default() };
    let mut asked = session.establish(&smf(), &NodeId::from(CP.ip()), CP.ip());
    asked.create_pdrs[1].activation_time = Some(ActivationTime::from_unix(EPOCH + 10));
    asked.create_pdrs[1].deactivation_time = Some(DeactivationTime::from_unix(EPOCH + 20));
    let Message::SessionEstablishmentResponse(response) = bench.say(Some(0), asked.into()).message else {
        panic!("an answer of its kind")
    };
    let mut session = session;
    session.established(&response).expect("accepted");
    let Some(FTeid::Given { teid, .. }) = session.uplink_f_teid else { panic!("a tunnel was chosen") };
    let mut passed = Vec::new();
    for second in 2..30 {
        bench.turn_to(secs(second));
        bench.send("n3", &up(teid.0, &request(UE)));
        if !bench.received("n6").is_empty() {
            passed.push(second);
        }
    }
    assert_eq!(passed, (10..20).collect::<Vec<_>>());
    // Its tunnel stays its own as long as the rule is there, whether it holds or not.
    let mut other = Session { cp_seid: 2, ip4: Some(Ipv4Addr::new(10, 45, 0, 2)), ..Session::default() };
    let taken = FTeid::new(teid, N3.into());
    let mut asked = other.establish(&smf(), &NodeId::from(CP.ip()), CP.ip());
    asked.create_pdrs[1].pdi.local_f_teid = Some(taken);
    assert_eq!(cause(&bench.say(Some(0), asked.clone().into())), Cause::RULE_CREATION_MODIFICATION_FAILURE);
    assert_eq!(bench.delete(&session).cause, Cause::REQUEST_ACCEPTED);
    let Message::SessionEstablishmentResponse(response) = bench.say(Some(0), asked.into()).message else {
        panic!("an answer of its kind")
    };
    other.established(&response).expect("nobody's any more");
    bench.close();
}

#[test]
fn who_does_not_use_a_quota_loses_it() {
    let mut bench = Bench::new("");
    let rule = CreateUrr {
        volume_quota: Some(VolumeQuota::total(1 << 30)),
        quota_holding_time: Some(QuotaHoldingTime(5)),
        ..urr(7, MeasurementMethod::VOLUM, ReportingTriggers::VOLQU | ReportingTriggers::QUHTI)
    };
    let (_, teid) = measured(&mut bench, vec![rule]);
    bench.turn_to(secs(2));
    bench.send("n3", &up(teid, &request(UE)));
    bench.turn_to(secs(6));
    assert_eq!((told(&mut bench), bench.received("n6").len()), (vec![], 1));
    for second in 7..10 {
        bench.turn_to(secs(second));
    }
    assert_eq!(told(&mut bench), [(7, UsageReportTrigger::QUHTI)]);
    bench.send("n3", &up(teid, &request(UE)));
    assert_eq!(bench.received("n6").len(), 0, "nothing passes until there is more");
    bench.close();
}

#[test]
fn linked_rules_report_with_those_they_are_linked_to() {
    let mut bench = Bench::new("");
    let first = CreateUrr {
        volume_threshold: Some(VolumeThreshold::total(100)),
        ..urr(7, MeasurementMethod::VOLUM, ReportingTriggers::VOLTH)
    };
    let linked = CreateUrr {
        linked_urr_ids: vec![LinkedUrrId(7)],
        ..urr(8, MeasurementMethod::VOLUM, ReportingTriggers::LIUSA)
    };
    let (session, teid) = measured(&mut bench, vec![first, linked]);
    (0..2).for_each(|_| bench.send("n3", &up(teid, &request(UE))));
    assert_eq!(told(&mut bench), [(7, UsageReportTrigger::VOLTH), (8, UsageReportTrigger::LIUSA)]);
    bench.send("n3", &up(teid, &request(UE)));
    // Asked for by the control plane, all at once.
    let all = SessionModificationRequest { pfcp_sm_req_flags: Some(PfcpSmReqFlags::QAURR), ..Default::default() };
    let reports = bench.modify(&session, all).usage_reports;
    let volumes: Vec<_> = reports
        .iter()
        .map(|report| (report.urr_id.0, report.usage_report_trigger, report.volume_measurement.and_then(|v| v.total)))
        .collect();
    let now = UsageReportTrigger::IMMER;
    assert_eq!(volumes, [(7, now, Some(60)), (8, now, Some(60))]);
    bench.close();
}

#[test]
fn traffic_that_begins_and_ends_is_told() {
    let mut bench = Bench::new("");
    let rule = CreateUrr {
        inactivity_detection_time: Some(InactivityDetectionTime(3)),
        ..urr(7, MeasurementMethod::VOLUM, ReportingTriggers::START | ReportingTriggers::STOPT)
    };
    let (_, teid) = measured(&mut bench, vec![rule]);
    let mut all = Vec::new();
    for second in 2..20 {
        bench.turn_to(secs(second));
        if [4, 5, 12].contains(&second) {
            bench.send("n3", &up(teid, &request(UE)));
        }
        all.extend(told(&mut bench).into_iter().map(|(_, trigger)| (second, trigger)));
    }
    let (start, stop) = (UsageReportTrigger::START, UsageReportTrigger::STOPT);
    assert_eq!(all, [(4, start), (8, stop), (12, start), (15, stop)]);
    bench.close();
}

#[test]
fn traffic_is_told_of_whatever_changed_meanwhile() {
    let mut bench = Bench::new("");
    let rule = CreateUrr {
        inactivity_detection_time: Some(InactivityDetectionTime(3)),
        ..urr(7, MeasurementMethod::VOLUM, ReportingTriggers::START | ReportingTriggers::STOPT)
    };
    let (session, teid) = measured(&mut bench, vec![rule]);
    let mut all = Vec::new();
    for second in 2..20 {
        bench.turn_to(secs(second));
        if [4, 12].contains(&second) {
            bench.send("n3", &up(teid, &request(UE)));
        }
        if second == 5 {
            // While traffic flows no count matters to this rule; later ones do.
            let handover = session.clone().connect(access(FAR_AWAY, 0x99));
            assert_eq!(bench.modify(&session, handover).cause, Cause::REQUEST_ACCEPTED);
        }
        all.extend(told(&mut bench).into_iter().map(|(_, trigger)| (second, trigger)));
    }
    let (start, stop) = (UsageReportTrigger::START, UsageReportTrigger::STOPT);
    assert_eq!(all, [(4, start), (7, stop), (12, start), (15, stop)]);
    bench.close();
}

#[test]
fn a_session_without_traffic_is_told_of_once() {
    let mut bench = Bench::new("");
    let profile = Profile { inactivity_timer: Some(5), volume_threshold: Some(1 << 40), ..smf() };
    let (_, teid) = connected(&mut bench, &profile);
    let mut silent = Vec::new();
    for second in 2..30 {
        bench.turn_to(secs(second));
        if second == 4 || second == 20 {
            bench.send("n3", &up(teid, &request(UE)));
        }
        let reports = bench.reports();
        silent.extend(reports.iter().filter(|r| r.report_type.contains(ReportType::UPIR)).map(|_| second));
    }
    assert_eq!(silent, [9, 25], "after five seconds, each time");
    bench.close();
}

#[test]
fn silence_is_told_of_without_any_measurement() {
    let mut bench = Bench::new("");
    let (_, teid) = connected(&mut bench, &Profile { inactivity_timer: Some(5), ..smf() });
    bench.turn_to(secs(3));
    bench.send("n3", &up(teid, &request(UE)));
    let mut silent = Vec::new();
    for second in 4..12 {
        bench.turn_to(secs(second));
        let reports = bench.reports();
        silent.extend(reports.iter().filter(|r| r.report_type.contains(ReportType::UPIR)).map(|_| second));
    }
    assert_eq!(silent, [8]);
    bench.close();
}
