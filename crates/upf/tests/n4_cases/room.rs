//! Workers without room for what a control plane asks.

use upf::sessions::Room;

use super::super::*;

const NO_LINES: Room = Room { lines: 0, keys: usize::MAX };
const NO_KEYS: Room = Room { lines: usize::MAX, keys: 0 };
const PLENTY: Room = Room { lines: usize::MAX, keys: usize::MAX };

/// How control has the only session: rules, what leads to it.
fn kept(bench: &Bench) -> (Vec<u8>, Vec<upf::n4::store::Key>) {
    let (_, entry) = bench.sessions().store().iter().next().expect("one session");
    (entry.message().to_vec(), entry.keys().to_vec())
}

/// Another tunnel to the subscriber's session, its endpoint for us to choose.
fn second_tunnel(session: &Session) -> SessionModificationRequest {
    let mut asked = session.establish(&smf(), &NodeId::from(CP.ip()), CP.ip());
    let mut pdr = asked.create_pdrs.swap_remove(1);
    (pdr.pdr_id, pdr.pdi.ue_ip_addresses) = (PdrId(20), Vec::new());
    // A CHOOSE ID of its own: the uplink's has an F-TEID.
    pdr.pdi.local_f_teid = Some(FTeid::Choose { ip4: true, ip6: false, id: Some(20) });
    SessionModificationRequest { create_pdrs: vec![pdr], ..Default::default() }
}

#[test]
fn a_modification_without_room_changes_nothing() {
    let mut bench = Bench::new("");
    let profile = Profile { volume_threshold: Some(1 << 30), ..smf() };
    let (mut session, teid) = connected(&mut bench, &profile);
    bench.send("n3", &up(teid, &request(UE)));
    let idle = session.idle();
    assert_eq!(bench.modify(&session, idle).cause, Cause::REQUEST_ACCEPTED);
    bench.send("n6", &from_router(&response(UE)).build());
    bench.send("n6", &from_router(&response(UE)).build());
    bench.received("n6");
    let before = kept(&bench);

    for room in [NO_LINES, NO_KEYS] {
        bench.set_room(room);
        let mut change = session.clone().connect(access(FAR_AWAY, 0x99));
        change.pfcp_sm_req_flags = Some(PfcpSmReqFlags::DROBU);
        change.create_pdrs = second_tunnel(&session).create_pdrs;
        change.remove_urrs = vec![RemoveUrr { urr_id: UrrId(1), ..Default::default() }];
        let answer = bench.modify(&session, change);
        assert_eq!(answer, SessionModificationResponse { cause: Cause::NO_RESOURCES_AVAILABLE, ..Default::default() });
        assert_eq!(kept(&bench), before);
        bench.send("n3", &up(teid, &request(UE)));
        assert_eq!(bench.received("n6").len(), 1, "the tunnel leads where it led");
        assert_eq!(bench.received("n3"), Vec::<Vec<u8>>::new(), "nothing goes to the other gNB, no tunnel is ended");
    }
    bench.set_room(PLENTY);
    let back = session.connect(access(GNB, GNB_TEID));
    assert_eq!(bench.modify(&session, back).cause, Cause::REQUEST_ACCEPTED);
    assert_eq!(bench.received("n3"), vec![down(&response(UE).ttl(63)); 2], "what waited was not thrown away");
    let second = bench.modify(&session, second_tunnel(&session));
    assert_eq!((second.cause, second.created_pdrs.len()), (Cause::REQUEST_ACCEPTED, 1));
    let last = bench.delete(&session);
    let used = last.usage_reports[0].volume_measurement.expect("volume was asked for");
    assert_eq!((used.uplink, used.downlink), (Some(3 * 60), Some(2 * 60)));
    assert_eq!((bench.worker_sessions(), bench.sessions().store().len()), (0, 0));
    bench.close();
}

#[test]
fn usage_that_is_due_when_a_modification_is_refused_is_reported_once() {
    let mut bench = Bench::new("");
    let (session, teid) = connected(&mut bench, &Profile { measurement_period: Some(10), ..smf() });
    (0..3).for_each(|_| bench.send("n3", &up(teid, &request(UE))));
    let more = UpdateUrr { urr_id: UrrId(1), volume_quota: Some(VolumeQuota::total(1 << 30)), ..UpdateUrr::default() };
    let change = SessionModificationRequest { update_urrs: vec![more], ..Default::default() };
    bench.set_room(NO_LINES);
    // The worker is asked what was counted, then to take in other rules.
    bench.due_at(secs(12));
    let answers = bench.say_together(&session, vec![change.into()]);
    assert_eq!(answers.iter().map(cause).collect::<Vec<_>>(), [Cause::NO_RESOURCES_AVAILABLE]);
    let told = |reports: &[UsageReport]| -> Vec<_> {
        let volume = |report: &UsageReport| report.volume_measurement.and_then(|v| v.total);
        reports.iter().map(|report| (report.ur_seqn.0, volume(report), report.usage_report_trigger)).collect()
    };
    let reports: Vec<UsageReport> = bench.reports().into_iter().flat_map(|report| report.usage_reports).collect();
    assert_eq!(told(&reports), [(0, Some(180), UsageReportTrigger::PERIO)]);
    bench.send("n3", &up(teid, &request(UE)));
    assert_eq!(told(&bench.delete(&session).usage_reports), [(1, Some(60), UsageReportTrigger::TERMR)]);
    bench.close();
}

#[test]
fn an_establishment_without_room_leaves_nothing() {
    let mut bench = Bench::new("");
    bench.set_room(NO_KEYS);
    let session = Session { cp_seid: 1, ip4: Some(UE), ..Session::default() };
    assert_eq!(bench.establish(&session, &smf()).cause, Cause::NO_RESOURCES_AVAILABLE);
    assert_eq!((bench.worker_sessions(), bench.sessions().store().len()), (0, 0));
    bench.set_room(PLENTY);
    connected(&mut bench, &smf());
    bench.close();
}

#[test]
fn what_is_asked_meanwhile_is_seen_to_afterwards() {
    let mut bench = Bench::new("");
    let (session, teid) = connected(&mut bench, &Profile { volume_threshold: Some(1 << 30), ..smf() });
    bench.send("n3", &up(teid, &request(UE)));
    let to = |to, teid| session.clone().connect(access(to, teid));
    let asks = SessionModificationRequest { pfcp_sm_req_flags: Some(PfcpSmReqFlags::QAURR), ..Default::default() };
    bench.received("n3");

    // A handover and another at once: each tunnel is ended.
    let answers = bench.say_together(&session, vec![to(FAR_AWAY, 0x99).into(), to(GNB, 0x55).into()]);
    assert_eq!(answers.iter().map(cause).collect::<Vec<_>>(), [Cause::REQUEST_ACCEPTED; 2]);
    let ends: Vec<u8> = bench.received("n3").iter().map(|marker| marker[49]).collect();
    assert_eq!(ends, [GNB_TEID as u8, 0x99]);

    bench.set_room(NO_LINES);
    let many = vec![to(FAR_AWAY, 0x99).into(), asks.into(), SessionDeletionRequest::default().into()];
    let answers = bench.say_together(&session, many);
    let causes: Vec<Cause> = answers.iter().map(cause).collect();
    assert_eq!(causes, [Cause::NO_RESOURCES_AVAILABLE, Cause::REQUEST_ACCEPTED, Cause::REQUEST_ACCEPTED]);
    let reports: Vec<usize> = answers
        .iter()
        .map(|answer| match &answer.message {
            Message::SessionModificationResponse(response) => response.usage_reports.len(),
            Message::SessionDeletionResponse(response) => response.usage_reports.len(),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(reports, [0, 1, 1]);

    // Nobody has more waiting than that.
    bench.set_room(PLENTY);
    let (session, _) = connected(&mut bench, &smf());
    let flood = (0..30).map(|n| session.clone().connect(access(FAR_AWAY, n)).into()).collect();
    let answers = bench.say_together(&session, flood);
    let congested = answers.iter().filter(|answer| cause(answer) == Cause::PFCP_ENTITY_IN_CONGESTION).count();
    assert_eq!((answers.len(), congested), (30, 13));
    bench.close();
}

/// One that asks for what is not there changes nothing of what it also asks for, and neither does one without room: whichever
/// rules they are about.
#[test]
fn whatever_a_refused_modification_is_about_stays() {
    let mut bench = Bench::new("");
    let profile = Profile { volume_threshold: Some(1 << 30), ..smf() };
    let (session, _) = connected(&mut bench, &profile);
    let many = Some(SuggestedBufferingPacketsCount(7));
    let rate = Some(Mbr { uplink: 1, downlink: 1 });
    let none = SessionModificationRequest::default;
    let bar = UpdateBar { bar_id: BarId(1), suggested_buffering_packets_count: many, ..Default::default() };
    let urr = UpdateUrr { urr_id: UrrId(1), volume_quota: Some(VolumeQuota::total(1)), ..UpdateUrr::default() };
    let qer = UpdateQer { qer_id: QerId(1), maximum_bitrate: rate, ..UpdateQer::default() };
    let far = UpdateFar { far_id: FarId(2), apply_action: Some(ApplyAction::DROP), ..UpdateFar::default() };
    let pdr = UpdatePdr { pdr_id: PdrId(2), precedence: Some(Precedence(1)), ..UpdatePdr::default() };
    let changes = [
        SessionModificationRequest { update_bar: Some(bar), ..none() },
        SessionModificationRequest { update_urrs: vec![urr], ..none() },
        SessionModificationRequest { update_qers: vec![qer], ..none() },
        SessionModificationRequest { update_fars: vec![far], ..none() },
        SessionModificationRequest { update_pdrs: vec![pdr], ..none() },
    ];
    let before = kept(&bench);
    let meters = |bench: &Bench| bench.sessions().store().iter().next().map(|(_, entry)| entry.meters.clone());
    let counted = meters(&bench);
    for change in &changes {
        bench.set_room(NO_LINES);
        assert_eq!(bench.modify(&session, change.clone()).cause, Cause::NO_RESOURCES_AVAILABLE);
        assert_eq!((kept(&bench), meters(&bench)), (before.clone(), counted.clone()), "{change:?}");
        bench.set_room(PLENTY);
        let create_qers = vec![CreateQer { qer_id: QerId(1), ..CreateQer::default() }];
        let answer = bench.modify(&session, SessionModificationRequest { create_qers, ..change.clone() });
        assert_eq!(answer.failed_rule_id, Some(FailedRuleId::Qer(1)), "it is there already");
        assert_eq!((kept(&bench), meters(&bench)), (before.clone(), counted.clone()), "{change:?}");
    }
    for change in changes {
        assert_eq!(bench.modify(&session, change.clone()).cause, Cause::REQUEST_ACCEPTED);
        assert_ne!((kept(&bench), meters(&bench)), (before.clone(), counted.clone()), "{change:?}");
    }
    bench.close();
}

/// A session whose subscriber is idle, and the report that a packet waits for it.
fn with_a_packet_that_waits(bench: &mut Bench) -> (Session, Packet) {
    let (mut session, _) = connected(bench, &smf());
    let idle = session.idle();
    assert_eq!(bench.modify(&session, idle).cause, Cause::REQUEST_ACCEPTED);
    bench.send("n6", &from_router(&response(UE)).build());
    let report = bench.unasked().pop().expect("packets wait");
    (session, report)
}

/// An answer to a report is none to a modification that is refused meanwhile: what it says stays.
#[test]
fn what_an_answer_to_a_report_says_outlives_a_refused_modification() {
    let mut bench = Bench::new("");
    let (mut session, report) = with_a_packet_that_waits(&mut bench);
    assert!(matches!(report.message, Message::SessionReportRequest(_)), "{report:?}");

    bench.set_room(NO_LINES);
    let change = session.clone().connect(access(FAR_AWAY, 0x99));
    bench.hear(&session, change.into());
    let update = UpdateBarInReportResponse {
        bar_id: BarId(1),
        suggested_buffering_packets_count: Some(SuggestedBufferingPacketsCount(2)),
        ..Default::default()
    };
    let update_bar = Some(update);
    let answer = SessionReportResponse { cause: Cause::REQUEST_ACCEPTED, update_bar, ..Default::default() };
    let header = pfcp::Header { seid: session.up_f_seid.map(|up| up.seid), ..report.header };
    bench.hear_packet(Packet { header, message: answer.into() });
    assert_eq!(bench.answers().iter().map(cause).collect::<Vec<_>>(), [Cause::NO_RESOURCES_AVAILABLE]);
    bench.set_room(PLENTY);
    bench.turn_to(secs(5));
    (0..5).for_each(|_| bench.send("n6", &from_router(&response(UE)).build()));
    let back = session.connect(access(GNB, GNB_TEID));
    assert_eq!(bench.modify(&session, back).cause, Cause::REQUEST_ACCEPTED);
    assert_eq!(bench.received("n3"), vec![down(&response(UE).ttl(63)); 2], "as many as were to wait");
    bench.close();
}

/// Packets that begin to wait amid a modification are told of by the rules that hold when it is settled.
#[test]
fn packets_that_wait_amid_a_refused_modification_are_told_of() {
    for (room, told) in [(NO_LINES, 1), (PLENTY, 0)] {
        let mut bench = Bench::new("");
        let (mut session, _) = connected(&mut bench, &smf());
        let idle = session.idle();
        assert_eq!(bench.modify(&session, idle).cause, Cause::REQUEST_ACCEPTED);
        bench.set_room(room);
        bench.send_unheard("n6", &from_router(&response(UE)).build(), 1);
        let connect = session.connect(access(FAR_AWAY, 0x99));
        bench.hear(&session, connect.into());
        bench.due_at(secs(2));
        assert_eq!(bench.answers().len(), 1);
        let waits = |report: &SessionReportRequest| report.report_type.contains(ReportType::DLDR);
        assert_eq!(bench.reports().iter().filter(|report| waits(report)).count(), told, "{room:?}");
        bench.close();
    }
}

/// The control plane no longer knows the session, as the answer to a report says: what it has asked of it is answered still.
#[test]
fn requests_of_a_session_that_ends_meanwhile_are_answered() {
    let mut bench = Bench::new("");
    let (session, report) = with_a_packet_that_waits(&mut bench);

    [0x98, 0x99].into_iter().for_each(|teid| bench.hear(&session, session.clone().connect(access(GNB, teid)).into()));
    let answer = SessionReportResponse { cause: Cause::SESSION_CONTEXT_NOT_FOUND, ..Default::default() };
    let header = pfcp::Header { seid: session.up_f_seid.map(|up| up.seid), ..report.header };
    bench.hear_packet(Packet { header, message: answer.into() });
    let causes: Vec<Cause> = bench.answers().iter().map(cause).collect();
    assert_eq!(causes, [Cause::REQUEST_ACCEPTED, Cause::SESSION_CONTEXT_NOT_FOUND]);
    assert_eq!((bench.sessions().store().len(), bench.worker_sessions()), (0, 0));
    assert!(bench.sessions().store().is_settled() && !bench.sessions().is_waiting());
    bench.close();
}
