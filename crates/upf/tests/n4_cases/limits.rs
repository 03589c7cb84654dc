//! Bounds that hold whatever a control plane asks for.

use super::super::*;

fn asked(cp_seid: u64, last: u8) -> SessionEstablishmentRequest {
    let session = Session { cp_seid, ip4: Some(Ipv4Addr::new(10, 45, 0, last)), ..Session::default() };
    session.establish(&smf(), &NodeId::from(CP.ip()), CP.ip())
}

#[test]
fn a_control_plane_has_as_many_sessions_and_a_session_as_many_rules_as_it_may() {
    let mut bench = Bench::new("n4.sessions_per_peer = 2\nn4.rules_per_session = 2");
    for cp_seid in 1..=2 {
        assert_eq!(cause(&bench.say(Some(0), asked(cp_seid, cp_seid as u8).into())), Cause::REQUEST_ACCEPTED);
    }
    assert_eq!(cause(&bench.say(Some(0), asked(3, 3).into())), Cause::NO_RESOURCES_AVAILABLE);
    assert_eq!((bench.sessions().store().len(), bench.worker_sessions()), (2, 2));
    bench.close();

    let mut bench = Bench::new("n4.rules_per_session = 2");
    let mut many = asked(1, 1);
    let more = CreatePdr { pdr_id: PdrId(9), ..many.create_pdrs[1].clone() };
    many.create_pdrs.push(more.clone());
    assert_eq!(cause(&bench.say(Some(0), many.into())), Cause::NO_RESOURCES_AVAILABLE);
    let (session, teid) = connected(&mut bench, &smf());
    let change = SessionModificationRequest { create_pdrs: vec![more], ..Default::default() };
    assert_eq!(bench.modify(&session, change).cause, Cause::NO_RESOURCES_AVAILABLE);
    bench.send("n3", &up(teid, &request(UE)));
    assert_eq!(bench.received("n6").len(), 1, "the session is as it was");
    bench.close();
}

#[test]
fn rules_that_grow_beyond_a_message_are_refused() {
    let mut bench = Bench::new("");
    let (session, teid) = connected(&mut bench, &smf());
    let good = smf_pdr(&session);
    let grown = |id: u16| {
        let vendors = pfcp::RawIe { ie: 0x8001, content: vec![0; 30_000].into() };
        let pdr = CreatePdr { pdr_id: PdrId(id), others: vec![vendors], ..good.clone() };
        SessionModificationRequest { create_pdrs: vec![pdr], ..Default::default() }
    };
    let causes: Vec<Cause> = (10..13).map(|id| bench.modify(&session, grown(id)).cause).collect();
    assert_eq!(causes, [Cause::REQUEST_ACCEPTED, Cause::REQUEST_ACCEPTED, Cause::NO_RESOURCES_AVAILABLE]);
    let remove = RemovePdr { pdr_id: PdrId(10), ..RemovePdr::default() };
    let less = SessionModificationRequest { remove_pdrs: vec![remove], ..Default::default() };
    assert_eq!(bench.modify(&session, less).cause, Cause::REQUEST_ACCEPTED);
    assert_eq!(bench.modify(&session, grown(12)).cause, Cause::REQUEST_ACCEPTED);
    bench.send("n3", &up(teid, &request(UE)));
    assert_eq!(bench.received("n6").len(), 1);
    bench.close();
}

/// The session's downlink rule, as it was asked for.
fn smf_pdr(session: &Session) -> CreatePdr {
    session.establish(&smf(), &NodeId::from(CP.ip()), CP.ip()).create_pdrs.swap_remove(0)
}

#[test]
fn networks_behind_a_subscriber_are_bounded() {
    let mut bench = Bench::new("");
    let mut many = asked(1, 1);
    let route = |n: u32| FramedRoute::from(&*format!("{}/24", Ipv4Addr::from(0xc0a8_0000 + (n << 8))));
    many.create_pdrs[0].pdi.framed_routes = (0..65).map(route).collect();
    assert_eq!(cause(&bench.say(Some(0), many.clone().into())), Cause::NO_RESOURCES_AVAILABLE);
    many.create_pdrs[0].pdi.framed_routes.pop();
    assert_eq!(cause(&bench.say(Some(0), many.into())), Cause::REQUEST_ACCEPTED);
    bench.close();
}

#[test]
fn a_flood_of_answers_nobody_asked_for_costs_nobody_else() {
    let mut bench = Bench::new("");
    let (_, teid) = connected(&mut bench, &smf());
    for n in 0..3000u16 {
        let echo = from_gnb(Over::V4).udp(2152, 2152).gtpu_message(2, 0).seq(n).payload([14, 0]);
        bench.send("n3", &echo.build());
    }
    let about = [&[16][..], &7u32.to_be_bytes(), &[133, 0, 4], &GNB.octets()].concat();
    for _ in 0..3000 {
        bench.send("n3", &from_gnb(Over::V4).udp(2152, 2152).gtpu_message(26, 0).payload(&about).build());
    }
    assert_eq!((bench.reports(), bench.node_reports()), (vec![], vec![]));
    bench.send("n3", &up(teid, &request(UE)));
    assert_eq!(bench.received("n6").len(), 1);
    bench.close();
}

#[test]
fn a_flood_of_error_indications_does_not_deafen_control() {
    let mut bench = Bench::new("");
    let (session, teid) = connected(&mut bench, &Profile { volume_threshold: Some(120), ..smf() });
    let ies = [&[16][..], &0x1234u32.to_be_bytes(), &[133, 0, 4], &GNB.octets()].concat();
    let flood = from_gnb(Over::V4).udp(2152, 2152).gtpu_message(26, 0).payload(&ies).build();
    (0..3).for_each(|_| bench.send_unheard("n3", &flood, 1000));
    bench.send_unheard("n3", &up(teid, &request(UE)), 2);
    let settled = bench.settle();
    assert!(settled.iter().any(|packet| matches!(packet.message, Message::SessionReportRequest(_))), "{settled:?}");
    bench.reports();
    let mut idle = session.clone();
    let request = idle.idle();
    assert_eq!(bench.modify(&session, request).cause, Cause::REQUEST_ACCEPTED);
    (0..3).for_each(|_| bench.send_unheard("n3", &flood, 1000));
    bench.send_unheard("n6", &from_router(&response(UE)).build(), 1);
    let settled = bench.settle();
    assert!(settled.iter().any(|packet| matches!(packet.message, Message::SessionReportRequest(_))), "{settled:?}");
    bench.close();
}

/// More sessions than a worker can tell of, and than control takes in at once: each bound is noticed once, and none is lost.
#[test]
fn bounds_reached_while_control_is_away_are_all_told_of() {
    const SESSIONS: u32 = 1100;
    let mut bench = Bench::new("");
    let profile = Profile { volume_threshold: Some(60), ..smf() };
    let establish = |n: u32| {
        let ue = Ipv4Addr::from(u32::from(UE) + n);
        let mut session = Session { cp_seid: n.into(), ip4: Some(ue), ..Session::default() };
        session.established(&bench.establish(&session, &profile)).expect("accepted");
        let Some(FTeid::Given { teid, .. }) = session.uplink_f_teid else { panic!("a tunnel was chosen") };
        (teid.0, ue)
    };
    let all: Vec<_> = (1..=SESSIONS).map(establish).collect();
    for (teid, ue) in all {
        bench.send_unheard("n3", &up(teid, &request(ue)), 1);
    }
    let mut told = std::collections::BTreeSet::new();
    for second in 2..30 {
        bench.turn_to(secs(second));
        for Packet { header, message } in bench.unasked() {
            let Message::SessionReportRequest(report) = message else { continue };
            assert_eq!(usage_of(&report), [(60, UsageReportTrigger::VOLTH)]);
            told.extend(header.seid);
        }
    }
    assert_eq!(told, (1..=u64::from(SESSIONS)).collect());
    bench.close();
}

#[test]
fn what_is_chosen_must_fit_a_message_too() {
    let folder = std::env::temp_dir().join(format!("weir-n4-size-{}", std::process::id()));
    let (mut bench, _) = Bench::on_ledger("", &folder);
    bench.associate(0);
    let padded = |octets: usize| {
        let mut request = asked(1, 1);
        let vendors = pfcp::RawIe { ie: 0x8001, content: vec![0; octets / 2].into() };
        let more = pfcp::RawIe { ie: 0x8001, content: vec![0; octets - octets / 2].into() };
        request.create_pdrs[0].others.push(vendors);
        request.create_pdrs[1].others.push(more);
        request
    };
    let header = pfcp::Header { seid: Some(0), ..pfcp::Header::default() };
    let fits = |request: &SessionEstablishmentRequest| request.to_octets(&header).is_ok();
    let longest = (64_000..66_000).rev().find(|octets| fits(&padded(*octets))).expect("some fit");
    // We choose a tunnel endpoint, which is longer than the wish for one.
    let mut refused = 0;
    let mut established = loop {
        let answer = bench.say(Some(0), padded(longest - refused).into());
        match answer.message {
            Message::SessionEstablishmentResponse(response) if response.cause == Cause::REQUEST_ACCEPTED => {
                break response;
            }
            Message::SessionEstablishmentResponse(response) => {
                assert_eq!(response.cause, Cause::NO_RESOURCES_AVAILABLE);
                assert_eq!((bench.sessions().store().len(), bench.worker_sessions()), (0, 0));
            }
            other => panic!("no answer: {other:?}"),
        }
        refused += 1;
    };
    assert!((1..40).contains(&refused), "{refused}");
    let mut session = Session { cp_seid: 1, ip4: Some(Ipv4Addr::new(10, 45, 0, 1)), ..Session::default() };
    session.established(&std::mem::take(&mut established)).expect("accepted");
    let whole = bench.sessions().store().iter().next().map(|(_, entry)| entry.message().to_vec());
    bench.close();

    let (mut bench, restored) = Bench::on_ledger("", &folder);
    assert_eq!((restored.sessions, restored.lost), (1, 0));
    assert_eq!(bench.sessions().store().iter().next().map(|(_, entry)| entry.message().to_vec()), whole);
    let Some(FTeid::Given { teid, .. }) = session.uplink_f_teid else { panic!("a tunnel was chosen") };
    bench.send("n3", &up(teid.0, &request(UE)));
    assert_eq!(bench.received("n6").len(), 1);
    bench.close();
    std::fs::remove_dir_all(&folder).expect("ours");
}

#[test]
fn a_rule_has_sixteen_urrs_and_no_more() {
    let mut bench = Bench::new("");
    let with = |count: u32| {
        let mut many = asked(1, 1);
        let urr = |id| CreateUrr {
            urr_id: UrrId(id),
            measurement_method: MeasurementMethod::VOLUM,
            reporting_triggers: ReportingTriggers::VOLTH,
            volume_threshold: Some(VolumeThreshold::total(1 << 30)),
            ..Default::default()
        };
        many.create_urrs = (1..=count).map(urr).collect();
        many.create_pdrs[1].urr_ids = (1..=count).map(UrrId).collect();
        many
    };
    let answer = bench.say(Some(0), with(17).into());
    let Message::SessionEstablishmentResponse(response) = answer.message else { panic!("{answer:?}") };
    let blamed = (response.cause, response.failed_rule_id);
    assert_eq!(blamed, (Cause::RULE_CREATION_MODIFICATION_FAILURE, Some(FailedRuleId::Pdr(2))));
    let answer = bench.say(Some(0), with(16).into());
    let Message::SessionEstablishmentResponse(response) = answer.message else { panic!("{answer:?}") };
    let mut session = Session { cp_seid: 1, ip4: Some(UE), ..Session::default() };
    session.established(&response).expect("accepted");
    let Some(FTeid::Given { teid, .. }) = session.uplink_f_teid else { panic!("a tunnel was chosen") };
    bench.send_many("n3", &up(teid.0, &request(UE)), 3);
    assert_eq!(bench.received("n6").len(), 3);
    let last = bench.delete(&session).usage_reports;
    let volumes = last.iter().filter_map(|report| report.volume_measurement.and_then(|volume| volume.uplink));
    assert_eq!(volumes.collect::<Vec<_>>(), [180; 16]);
    bench.close();
}
