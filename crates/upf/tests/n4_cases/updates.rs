//! Modifications that are refused, and what is left after them (3GPP TS 29.244, 7.5.4, 7.5.5, 7.6).

use super::super::*;

fn changed(bench: &mut Bench, session: &Session, request: SessionModificationRequest) -> (Cause, Option<FailedRuleId>) {
    let response = bench.modify(session, request);
    (response.cause, response.failed_rule_id)
}

const FAILED: Cause = Cause::RULE_CREATION_MODIFICATION_FAILURE;

#[test]
fn rules_that_are_not_there_are_named() {
    let mut bench = Bench::new("");
    let profile = Profile { volume_threshold: Some(1 << 40), ..smf() };
    let (session, teid) = connected(&mut bench, &profile);
    let none = SessionModificationRequest::default;
    let pdr = |id| UpdatePdr { pdr_id: PdrId(id), ..UpdatePdr::default() };
    let table = [
        (SessionModificationRequest { update_pdrs: vec![pdr(77)], ..none() }, FailedRuleId::Pdr(77)),
        (
            SessionModificationRequest {
                remove_pdrs: vec![RemovePdr { pdr_id: PdrId(78), ..Default::default() }],
                ..none()
            },
            FailedRuleId::Pdr(78),
        ),
        (
            SessionModificationRequest {
                remove_fars: vec![RemoveFar { far_id: FarId(79), ..Default::default() }],
                ..none()
            },
            FailedRuleId::Far(79),
        ),
        (
            SessionModificationRequest {
                remove_urrs: vec![RemoveUrr { urr_id: UrrId(80), ..Default::default() }],
                ..none()
            },
            FailedRuleId::Urr(80),
        ),
        (
            SessionModificationRequest {
                remove_qers: vec![RemoveQer { qer_id: QerId(81), ..Default::default() }],
                ..none()
            },
            FailedRuleId::Qer(81),
        ),
        (
            SessionModificationRequest {
                update_urrs: vec![UpdateUrr { urr_id: UrrId(82), ..UpdateUrr::default() }],
                ..none()
            },
            FailedRuleId::Urr(82),
        ),
        (
            SessionModificationRequest {
                update_qers: vec![UpdateQer { qer_id: QerId(83), ..UpdateQer::default() }],
                ..none()
            },
            FailedRuleId::Qer(83),
        ),
        (
            SessionModificationRequest {
                remove_bar: Some(RemoveBar { bar_id: BarId(84), ..Default::default() }),
                ..none()
            },
            FailedRuleId::Bar(84),
        ),
        (
            SessionModificationRequest {
                update_bar: Some(UpdateBar { bar_id: BarId(85), ..UpdateBar::default() }),
                ..none()
            },
            FailedRuleId::Bar(85),
        ),
        // A rule that others need.
        (
            SessionModificationRequest {
                remove_fars: vec![RemoveFar { far_id: FarId(2), ..Default::default() }],
                ..none()
            },
            FailedRuleId::Pdr(2),
        ),
        (
            SessionModificationRequest {
                query_urrs: vec![QueryUrr { urr_id: UrrId(86), ..QueryUrr::default() }],
                ..none()
            },
            FailedRuleId::Urr(86),
        ),
        (
            SessionModificationRequest {
                update_pdrs: vec![UpdatePdr { urr_ids: vec![UrrId(87)], ..pdr(2) }],
                ..none()
            },
            FailedRuleId::Pdr(2),
        ),
    ];
    for (request, rule) in table {
        assert_eq!(changed(&mut bench, &session, request.clone()), (FAILED, Some(rule)), "{request:?}");
        bench.send("n3", &up(teid, &request_packet()));
        assert_eq!(bench.received("n6").len(), 1, "as before: {request:?}");
    }
    let total: u64 = bench.delete(&session).usage_reports.iter().filter_map(|r| r.volume_measurement?.total).sum();
    assert_eq!(total, 12 * 60, "what was counted is, whatever was refused");
    bench.close();
}

fn request_packet() -> Wire {
    request(UE)
}

#[test]
fn who_is_refused_keeps_what_waits() {
    let mut bench = Bench::new("");
    let (mut session, _) = connected(&mut bench, &smf());
    let idle = session.idle();
    assert_eq!(bench.modify(&session, idle).cause, Cause::REQUEST_ACCEPTED);
    bench.send_many("n6", &from_router(&response(UE)).build(), 3);
    // What waits is to be dropped, says a request that is refused.
    let refused = SessionModificationRequest {
        pfcp_sm_req_flags: Some(PfcpSmReqFlags::DROBU),
        remove_pdrs: vec![RemovePdr { pdr_id: PdrId(77), ..Default::default() }],
        ..Default::default()
    };
    assert_eq!(changed(&mut bench, &session, refused), (FAILED, Some(FailedRuleId::Pdr(77))));
    let missing = SessionModificationRequest {
        pfcp_sm_req_flags: Some(PfcpSmReqFlags::DROBU),
        remove_fars: vec![RemoveFar { far_id: FarId(2), ..Default::default() }],
        ..Default::default()
    };
    assert_eq!(changed(&mut bench, &session, missing), (FAILED, Some(FailedRuleId::Pdr(2))));
    let wake = session.connect(access(GNB, GNB_TEID));
    assert_eq!(bench.modify(&session, wake).cause, Cause::REQUEST_ACCEPTED);
    assert_eq!(bench.received("n3").len(), 3);
    bench.close();
}

#[test]
fn a_tunnel_of_another_session_is_not_taken() {
    let mut bench = Bench::new("");
    let (first, teid) = connected(&mut bench, &smf());
    let mut second = Session { cp_seid: 2, ip4: Some(Ipv4Addr::new(10, 45, 0, 2)), ..Session::default() };
    let response = bench.establish(&second, &smf());
    second.established(&response).expect("accepted");
    let pdi = |f_teid, ue: Option<Ipv4Addr>| Pdi {
        source_interface: if ue.is_some() { SourceInterface::Core } else { SourceInterface::Access },
        local_f_teid: f_teid,
        ue_ip_addresses: ue.map(|ip4| UeIpAddress { ip4: Some(ip4), ..Default::default() }).into_iter().collect(),
        ..Pdi::default()
    };
    for (pdr, pdi) in [(2, pdi(Some(FTeid::new(wire::Teid(teid), N3.into())), None)), (1, pdi(None, Some(UE)))] {
        let update = UpdatePdr { pdr_id: PdrId(pdr), pdi: Some(pdi), ..UpdatePdr::default() };
        let request = SessionModificationRequest { update_pdrs: vec![update], ..Default::default() };
        assert_eq!(changed(&mut bench, &second, request), (FAILED, Some(FailedRuleId::Pdr(pdr))));
    }
    bench.send("n3", &up(teid, &request(UE)));
    assert_eq!(bench.received("n6").len(), 1, "it is the first one's still");
    assert_eq!(bench.delete(&second).cause, Cause::REQUEST_ACCEPTED);
    bench.send("n3", &up(teid, &request(UE)));
    assert_eq!(bench.received("n6").len(), 1);
    assert_eq!(bench.delete(&first).cause, Cause::REQUEST_ACCEPTED);
    bench.close();
}

#[test]
fn traffic_endpoints_are_shared_changed_and_removed() {
    let mut bench = Bench::new("");
    let mut session = Session { cp_seid: 1, ip4: Some(UE), ..Session::default() };
    let mut asked = session.establish(&smf(), &NodeId::from(CP.ip()), CP.ip());
    let id = |n| TrafficEndpointId(n);
    let choose = FTeid::Choose { ip4: true, ip6: false, id: None };
    asked.create_traffic_endpoints = vec![
        CreateTrafficEndpoint { traffic_endpoint_id: id(1), local_f_teid: Some(choose), ..Default::default() },
        CreateTrafficEndpoint {
            traffic_endpoint_id: id(2),
            ue_ip_addresses: asked.create_pdrs[0].pdi.ue_ip_addresses.clone(),
            ..Default::default()
        },
    ];
    asked.create_pdrs[0].pdi.ue_ip_addresses.clear();
    asked.create_pdrs[0].pdi.traffic_endpoint_ids = vec![id(2)];
    asked.create_pdrs[1].pdi.local_f_teid = None;
    asked.create_pdrs[1].pdi.traffic_endpoint_ids = vec![id(1)];
    let Message::SessionEstablishmentResponse(response) = bench.say(Some(0), asked.into()).message else {
        panic!("an answer of its kind")
    };
    session.established(&response).expect("accepted");
    let Some(FTeid::Given { teid, .. }) = response.created_traffic_endpoints[0].local_f_teid else {
        panic!("a tunnel was chosen")
    };
    let connect = session.connect(access(GNB, GNB_TEID));
    assert_eq!(bench.modify(&session, connect).cause, Cause::REQUEST_ACCEPTED);
    bench.send("n3", &up(teid.0, &request(UE)));
    bench.send("n6", &from_router(&self::super::super::response(UE)).build());
    assert_eq!((bench.received("n6").len(), bench.received("n3").len()), (1, 1));
    // One that is not there; then the one packets come by, with the rules that name it.
    let remove = |n| SessionModificationRequest {
        remove_traffic_endpoints: vec![RemoveTrafficEndpoint { traffic_endpoint_id: id(n), ..Default::default() }],
        ..Default::default()
    };
    let refused = bench.modify(&session, remove(9));
    assert_eq!((refused.cause, refused.offending_ie), (Cause::MANDATORY_IE_INCORRECT, Some(OffendingIe(130))));
    assert_eq!(bench.modify(&session, remove(1)).cause, Cause::REQUEST_ACCEPTED);
    bench.send("n3", &up(teid.0, &request(UE)));
    assert_eq!(bench.received("n6").len(), 0);
    assert_eq!(bench.delete(&session).cause, Cause::REQUEST_ACCEPTED);
    bench.close();
}

#[test]
fn a_removed_urr_reports_in_the_answer_and_its_usage_in_no_other() {
    let mut bench = Bench::new("");
    let (session, teid) = connected(&mut bench, &Profile { volume_threshold: Some(1 << 30), ..smf() });
    let urr = |id| CreateUrr {
        urr_id: UrrId(id),
        measurement_method: MeasurementMethod::VOLUM,
        reporting_triggers: ReportingTriggers::VOLTH,
        volume_threshold: Some(VolumeThreshold::total(1 << 30)),
        ..Default::default()
    };
    let of_uplink = |urr_ids: Vec<UrrId>| UpdatePdr { pdr_id: PdrId(2), urr_ids, ..Default::default() };
    let more = SessionModificationRequest {
        create_urrs: vec![urr(2), urr(3)],
        update_pdrs: vec![of_uplink(vec![UrrId(1), UrrId(2), UrrId(3)])],
        ..Default::default()
    };
    assert_eq!(bench.modify(&session, more).cause, Cause::REQUEST_ACCEPTED);
    bench.send_many("n3", &up(teid, &request(UE)), 5);
    bench.send("n6", &from_router(&response(UE)).build());
    let remove = RemoveUrr { urr_id: UrrId(2), ..Default::default() };
    let answer = bench.modify(&session, SessionModificationRequest { remove_urrs: vec![remove], ..Default::default() });
    let told = |reports: &[UsageReport]| -> Vec<_> {
        let one = |report: &UsageReport| {
            let volume = report.volume_measurement.expect("volume was asked for");
            (report.urr_id.0, volume.uplink, volume.downlink, report.usage_report_trigger)
        };
        reports.iter().map(one).collect()
    };
    assert_eq!(told(&answer.usage_reports), [(2, Some(300), Some(0), UsageReportTrigger::TERMR)]);
    bench.send("n3", &up(teid, &request(UE)));
    let mut last = told(&bench.delete(&session).usage_reports);
    last.sort_by_key(|report| report.0);
    let ended = UsageReportTrigger::TERMR;
    assert_eq!(last, [(1, Some(360), Some(60), ended), (3, Some(360), Some(0), ended)]);
    bench.close();
}
