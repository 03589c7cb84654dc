//! The user plane under a control plane: PFCP in, sessions on a worker, packets through, reports out.

#[path = "n4_cases/mod.rs"]
mod n4_cases;

use std::net::{Ipv4Addr, Ipv6Addr};

use pfcp::Packet;
use pfcp::control::{Kind, Profile, Session};
use pfcp::group::*;
use pfcp::ie::*;
use pfcp::message::*;
use testkit::packet::Packet as Wire;

use crate::golden_cases::{
    GNB, N3, QFI, SERVER, SERVER_6, from_gnb, from_router, ip4, ip6, ms, request, response, secs, to_router,
};
use crate::golden_cases::{Over, to_gnb, tunnel};
use crate::n4_bench::{Bench, CP, access, smf, usage_of};

const UE: Ipv4Addr = Ipv4Addr::new(10, 45, 0, 1);
const FAR_AWAY: Ipv4Addr = Ipv4Addr::new(10, 0, 3, 101);
const GNB_TEID: u32 = 0x77;

fn up(teid: u32, user: &Wire) -> Vec<u8> {
    from_gnb(Over::V4).gtpu(teid).container_up(QFI).carrying(user).build()
}

fn down(user: &Wire) -> Vec<u8> {
    tunnel(Over::V4, GNB_TEID).container_down(QFI).carrying(user).build()
}

/// A session of the profile that is up and connected to the gNB; its uplink TEID.
fn connected(bench: &mut Bench, profile: &Profile) -> (Session, u32) {
    let mut session = Session { cp_seid: 1, ip4: Some(UE), ..Session::default() };
    let response = bench.establish(&session, profile);
    session.established(&response).expect("accepted");
    let modification = session.connect(access(GNB, GNB_TEID));
    assert_eq!(bench.modify(&session, modification).cause, Cause::REQUEST_ACCEPTED);
    let Some(FTeid::Given { teid, ip4: Some(at), .. }) = session.uplink_f_teid else { panic!("a tunnel was chosen") };
    assert_eq!(at, N3);
    (session, teid.0)
}

#[test]
fn a_session_carries_packets_and_its_end_says_how_many() {
    let mut bench = Bench::new("");
    let profile = Profile { measurement_period: Some(3600), ..smf() };
    let (session, teid) = connected(&mut bench, &profile);
    bench.turn_to(ms(2500));
    bench.send("n3", &up(teid, &request(UE)));
    bench.send("n6", &from_router(&response(UE)).build());
    bench.send("n6", &from_router(&response(UE)).build());
    assert_eq!(bench.received("n6"), [to_router(&request(UE).ttl(63)).build()]);
    assert_eq!(bench.received("n3"), [down(&response(UE).ttl(63)), down(&response(UE).ttl(63))]);
    bench.turn_to(secs(4));
    let last = bench.delete(&session);
    let [report] = &last.usage_reports[..] else { panic!("one URR, one report") };
    let volume = report.volume_measurement.expect("volume was asked for");
    assert_eq!((volume.total, volume.uplink, volume.downlink), (Some(180), Some(60), Some(120)));
    assert_eq!(report.usage_report_trigger, UsageReportTrigger::TERMR);
    assert_eq!(report.duration_measurement, Some(DurationMeasurement(1)), "from the first packet on");
    bench.send("n3", &up(teid, &request(UE)));
    assert_eq!(bench.received("n6"), Vec::<Vec<u8>>::new(), "nobody's tunnel");
    bench.close();
}

#[test]
fn packets_wait_for_an_idle_subscriber_which_is_told_once() {
    let mut bench = Bench::new("");
    let (mut session, _) = connected(&mut bench, &smf());
    let idle = session.idle();
    assert_eq!(bench.modify(&session, idle).cause, Cause::REQUEST_ACCEPTED);
    for _ in 0..3 {
        bench.send("n6", &from_router(&response(UE)).build());
    }
    let reports = bench.reports();
    let [SessionReportRequest { report_type, downlink_data_report: Some(report), .. }] = &reports[..] else {
        panic!("one report, not {reports:?}")
    };
    assert_eq!((*report_type, &report.pdr_ids[..]), (ReportType::DLDR, &[PdrId(1)][..]));
    assert_eq!(bench.received("n3"), Vec::<Vec<u8>>::new());
    let back = session.connect(access(GNB, GNB_TEID));
    assert_eq!(bench.modify(&session, back).cause, Cause::REQUEST_ACCEPTED);
    assert_eq!(bench.received("n3"), vec![down(&response(UE).ttl(63)); 3]);
    bench.close();
}

#[test]
fn a_handover_ends_the_old_tunnel_behind_its_last_packet() {
    let mut bench = Bench::new("");
    let (mut session, _) = connected(&mut bench, &smf());
    bench.send("n6", &from_router(&response(UE)).build());
    let moved = session.connect(access(FAR_AWAY, 0x99));
    assert_eq!(bench.modify(&session, moved).cause, Cause::REQUEST_ACCEPTED);
    bench.send("n6", &from_router(&response(UE)).build());
    let sent = bench.received("n3");
    assert_eq!(sent.len(), 3);
    assert_eq!(sent[0], down(&response(UE).ttl(63)));
    // Version 1, End Marker, no payload, the old tunnel.
    assert_eq!(sent[1][42..], [0x30, 254, 0, 0, 0, 0, 0, GNB_TEID as u8]);
    assert_eq!(sent[1][30..34], to_gnb(Over::V4).build()[30..34], "to the old gNB");
    assert_eq!(sent[2][30..34], FAR_AWAY.octets());
    assert_eq!(sent[2][46..50], 0x99u32.to_be_bytes());
    bench.close();
}

#[test]
fn a_threshold_reports_and_a_quota_stops() {
    let mut bench = Bench::new("");
    let profile = Profile { volume_threshold: Some(150), volume_quota: Some(300), ..smf() };
    let (session, teid) = connected(&mut bench, &profile);
    let mut reported = Vec::new();
    for _ in 0..8 {
        bench.send("n3", &up(teid, &request(UE)));
        reported.extend(bench.reports().iter().flat_map(usage_of));
    }
    // 60 octets a packet: the third reaches the threshold, the fifth the quota, the rest is dropped.
    assert_eq!(reported, [(180, UsageReportTrigger::VOLTH), (120, UsageReportTrigger::VOLQU)]);
    assert_eq!(bench.received("n6").len(), 5);
    // The same quota twice: each is a new one.
    for _ in 0..2 {
        let more = UpdateUrr { urr_id: UrrId(1), volume_quota: Some(VolumeQuota::total(120)), ..UpdateUrr::default() };
        let request_more = SessionModificationRequest { update_urrs: vec![more], ..Default::default() };
        assert_eq!(bench.modify(&session, request_more).cause, Cause::REQUEST_ACCEPTED);
        for _ in 0..4 {
            bench.send("n3", &up(teid, &request(UE)));
        }
        assert_eq!(bench.received("n6").len(), 2);
    }
    let total: u64 = bench.delete(&session).usage_reports.iter().filter_map(|r| r.volume_measurement?.total).sum();
    let between: u64 = bench.reports().iter().flat_map(usage_of).map(|(volume, _)| volume).sum();
    assert_eq!(300 + between + total, 9 * 60, "what passed was reported, all of it, once");
    bench.close();
}

#[test]
fn a_quota_of_time_ends_and_begins_again() {
    let mut bench = Bench::new("");
    let (session, teid) = connected(&mut bench, &Profile { measurement_period: Some(3600), ..smf() });
    let give = || UpdateUrr {
        urr_id: UrrId(1),
        reporting_triggers: Some(ReportingTriggers::TIMQU),
        time_quota: Some(TimeQuota(3)),
        ..UpdateUrr::default()
    };
    for round in 0..2 {
        let start = secs(10 * round + 1);
        bench.turn_to(start);
        let modification = SessionModificationRequest { update_urrs: vec![give()], ..Default::default() };
        assert_eq!(bench.modify(&session, modification).cause, Cause::REQUEST_ACCEPTED);
        bench.send("n3", &up(teid, &request(UE)));
        assert_eq!(bench.received("n6").len(), 1);
        for second in 1..=4 {
            bench.turn_to(start + secs(second));
        }
        let triggers: Vec<_> = bench.reports().iter().flat_map(usage_of).map(|(_, trigger)| trigger).collect();
        assert_eq!(triggers, [UsageReportTrigger::TIMQU]);
        bench.send("n3", &up(teid, &request(UE)));
        assert_eq!(bench.received("n6").len(), 0, "the time is over");
    }
    bench.close();
}

#[test]
fn what_can_not_be_is_refused_by_name() {
    let mut bench = Bench::new("");
    let stranger = bench.say(Some(7), SessionDeletionRequest::default().into());
    assert_eq!(cause(&stranger), Cause::SESSION_CONTEXT_NOT_FOUND);
    let session = Session { cp_seid: 1, ip4: Some(UE), ..Session::default() };
    let good = session.establish(&smf(), &NodeId::from(CP.ip()), CP.ip());

    let mut without_far = good.clone();
    without_far.create_fars.retain(|far| far.far_id != FarId(2));
    let refused = bench.say(Some(0), without_far.into());
    assert_eq!(cause(&refused), Cause::RULE_CREATION_MODIFICATION_FAILURE);
    let Message::SessionEstablishmentResponse(SessionEstablishmentResponse { failed_rule_id, .. }) = refused.message
    else {
        panic!("an answer of its kind")
    };
    assert_eq!(failed_rule_id, Some(FailedRuleId::Pdr(2)));

    let mut nonsense = good.clone();
    nonsense.create_pdrs[0].pdi.sdf_filters = vec![SdfFilter::flow("permit everything")];
    assert_eq!(cause(&bench.say(Some(0), nonsense.into())), Cause::MANDATORY_IE_INCORRECT);

    let mut copied = good.clone();
    copied.create_fars[1].apply_action |= ApplyAction::DUPL;
    copied.create_fars[1].duplicating_parameters = vec![DuplicatingParameters::default()];
    assert_eq!(cause(&bench.say(Some(0), copied.into())), Cause::CONDITIONAL_IE_MISSING);

    let mut unknown = good.clone();
    unknown.create_pdrs[0].pdi.application_id = Some(ApplicationId::from("chess"));
    assert_eq!(cause(&bench.say(Some(0), unknown.into())), Cause::UNKNOWN_APPLICATION_ID);

    let mut twice = good.clone();
    twice.create_fars.push(twice.create_fars[0].clone());
    assert_eq!(cause(&bench.say(Some(0), twice.into())), Cause::RULE_CREATION_MODIFICATION_FAILURE);

    let first = bench.say(Some(0), good.clone().into());
    assert_eq!(cause(&first), Cause::REQUEST_ACCEPTED);
    let again = SessionEstablishmentRequest { cp_f_seid: FSeid::new(2, CP.ip()), ..good };
    assert_eq!(cause(&bench.say(Some(0), again.into())), Cause::RULE_CREATION_MODIFICATION_FAILURE, "the same address");
    assert_eq!(bench.sessions().store().len(), 1);
    bench.close();
}

fn cause(packet: &Packet) -> Cause {
    match &packet.message {
        Message::SessionEstablishmentResponse(response) => response.cause,
        Message::SessionModificationResponse(response) => response.cause,
        Message::SessionDeletionResponse(response) => response.cause,
        Message::AssociationSetupResponse(response) => response.cause,
        other => panic!("no answer: {other:?}"),
    }
}

#[test]
fn a_refused_modification_changes_nothing() {
    let mut bench = Bench::new("");
    let (session, teid) = connected(&mut bench, &smf());
    let no_such = UpdateFar { far_id: FarId(77), ..UpdateFar::default() };
    let drop = UpdateFar { far_id: FarId(2), apply_action: Some(ApplyAction::DROP), ..UpdateFar::default() };
    let both = SessionModificationRequest { update_fars: vec![drop, no_such], ..Default::default() };
    let response = bench.modify(&session, both);
    assert_eq!(response.cause, Cause::RULE_CREATION_MODIFICATION_FAILURE);
    assert_eq!(response.failed_rule_id, Some(FailedRuleId::Far(77)));
    bench.send("n3", &up(teid, &request(UE)));
    assert_eq!(bench.received("n6").len(), 1);
    bench.close();
}

#[test]
fn an_update_keeps_what_it_does_not_mention() {
    let mut bench = Bench::new("");
    let (session, teid) = connected(&mut bench, &smf());
    // A PDI with nothing but its interface and a filter: the tunnel and the address stay.
    let pdi = Pdi {
        source_interface: SourceInterface::Access,
        sdf_filters: vec![SdfFilter::flow("permit out 17 from 198.51.100.7 50000 to assigned")],
        ..Pdi::default()
    };
    let update = UpdatePdr { pdr_id: PdrId(2), pdi: Some(pdi), ..UpdatePdr::default() };
    let change = SessionModificationRequest { update_pdrs: vec![update], ..Default::default() };
    assert_eq!(bench.modify(&session, change).cause, Cause::REQUEST_ACCEPTED);
    bench.send("n3", &up(teid, &request(UE)));
    bench.send("n3", &up(teid, &ip4(UE, SERVER).udp(40_000, 50_001).filled(32)));
    assert_eq!(bench.received("n6"), [to_router(&request(UE).ttl(63)).build()]);
    bench.close();
}

#[test]
fn the_user_plane_gives_out_addresses() {
    let mut bench = Bench::new(r#"n4.pool = [{ v4 = "10.45.0.0/30" }]"#);
    let mut given = Vec::new();
    for cp_seid in 1..=2 {
        let mut session = Session { cp_seid, ..Session::default() };
        let response = bench.establish(&session, &smf());
        session.established(&response).expect("accepted");
        given.extend(session.ip4);
    }
    given.sort();
    assert_eq!(given, [Ipv4Addr::new(10, 45, 0, 1), Ipv4Addr::new(10, 45, 0, 2)]);
    let third = bench.establish(&Session { cp_seid: 3, ..Session::default() }, &smf());
    assert_eq!(third.cause, Cause::ALL_DYNAMIC_ADDRESSES_ARE_OCCUPIED);
    bench.close();
}

#[test]
fn an_sgw_carries_packets_from_tunnel_to_tunnel() {
    let mut bench = Bench::new("");
    let profile = Profile { kind: Kind::SgwC, dnn: "internet".into(), ..Profile::default() };
    let mut session = Session { cp_seid: 4, core: Some(access(FAR_AWAY, 0x55)), ..Session::default() };
    let established = bench.establish(&session, &profile);
    session.established(&established).expect("accepted");
    let connect = session.connect(access(GNB, GNB_TEID));
    assert_eq!(bench.modify(&session, connect).cause, Cause::REQUEST_ACCEPTED);
    let teid = |f_teid: Option<FTeid>| match f_teid {
        Some(FTeid::Given { teid, .. }) => teid.0,
        other => panic!("no tunnel: {other:?}"),
    };
    let (s1u, s5) = (teid(session.uplink_f_teid), teid(session.downlink_f_teid));
    bench.send("n3", &from_gnb(Over::V4).gtpu(s1u).carrying(&request(UE)).build());
    bench.send("n3", &from_gnb(Over::V4).gtpu(s5).carrying(&response(UE)).build());
    let sent = bench.received("n3");
    assert_eq!(sent.len(), 2);
    assert_eq!((&sent[0][30..34], &sent[0][46..50]), (&FAR_AWAY.octets()[..], &0x55u32.to_be_bytes()[..]));
    assert_eq!((&sent[1][30..34], &sent[1][46..50]), (&GNB.octets()[..], &GNB_TEID.to_be_bytes()[..]));
    assert_eq!(&sent[0][50..], &request(UE).build()[..], "a relay is no hop: the packet is as it was");
    bench.close();
}

#[test]
fn a_peer_that_restarts_leaves_no_session_behind() {
    let mut bench = Bench::new("");
    connected(&mut bench, &smf());
    assert_eq!(bench.sessions().store().len(), 1);
    bench.turn_to(secs(10));
    bench.associate(secs(10));
    assert_eq!(bench.sessions().store().len(), 0);
    assert_eq!(bench.worker_sessions(), 0);
    bench.close();
}

#[test]
fn an_error_indication_is_reported_for_the_session_it_is_about() {
    let mut bench = Bench::new("");
    connected(&mut bench, &smf());
    // TEID Data I and GTP-U Peer Address (TS 29.281, 8.3 and 8.4).
    let about = |teid: u32| {
        let ies = [&[16][..], &teid.to_be_bytes(), &[133, 0, 4], &GNB.octets()].concat();
        from_gnb(Over::V4).udp(2152, 2152).gtpu_message(26, 0).payload(&ies).build()
    };
    bench.send("n3", &about(GNB_TEID + 1));
    assert_eq!(bench.reports(), []);
    bench.send_many("n3", &about(GNB_TEID), 100);
    let reports = bench.reports();
    let [SessionReportRequest { report_type, error_indication_report: Some(report), .. }] = &reports[..] else {
        panic!("one report, not {reports:?}")
    };
    assert_eq!(*report_type, ReportType::ERIR);
    assert_eq!(report.remote_f_teids, [FTeid::new(wire::Teid(GNB_TEID), GNB.into())]);
    bench.turn_to(secs(2));
    bench.send("n3", &about(GNB_TEID));
    assert_eq!(bench.reports().len(), 1, "a flood makes a report a second");
    bench.close();
}

#[test]
fn error_indication_after_modification_is_reported() {
    let mut bench = Bench::new("");
    let (mut session, _) = connected(&mut bench, &smf());
    let ies = [&[16][..], &GNB_TEID.to_be_bytes(), &[133, 0, 4], &GNB.octets()].concat();
    let indication = from_gnb(Over::V4).udp(2152, 2152).gtpu_message(26, 0).payload(&ies).build();
    bench.send("n3", &indication);
    assert_eq!(bench.reports().len(), 1);
    // The control plane releases the bearer and connects it again, all within a second.
    let request = session.idle();
    bench.modify(&session, request);
    let request = session.connect(access(GNB, GNB_TEID));
    bench.modify(&session, request);
    bench.send("n3", &indication);
    assert_eq!(bench.reports().len(), 1, "it is about the new rules");
    bench.close();
}

#[test]
fn sessions_survive_a_restart() {
    let folder = std::env::temp_dir().join(format!("weir-n4-{}", std::process::id()));
    let (mut bench, before) = Bench::on_ledger("", &folder);
    assert_eq!((before.associations, before.sessions), (0, 0));
    bench.associate(0);
    let (mut session, teid) = connected(&mut bench, &smf());
    bench.close();

    // The control plane has not noticed: it goes on with the session it has.
    let (mut bench, restored) = Bench::on_ledger("", &folder);
    assert_eq!((restored.associations, restored.sessions, restored.lost), (1, 1, 0));
    bench.send("n3", &up(teid, &request(UE)));
    bench.send("n6", &from_router(&response(UE)).build());
    assert_eq!(bench.received("n6"), [to_router(&request(UE).ttl(63)).build()]);
    assert_eq!(bench.received("n3"), [down(&response(UE).ttl(63))]);
    let moved = session.connect(access(FAR_AWAY, 0x99));
    assert_eq!(bench.modify(&session, moved).cause, Cause::REQUEST_ACCEPTED);
    let other = Session { cp_seid: 2, ip4: Some(Ipv4Addr::new(10, 45, 0, 2)), ..Session::default() };
    assert_eq!(bench.establish(&other, &smf()).cause, Cause::REQUEST_ACCEPTED, "new ones beside it");
    bench.close();

    let (mut bench, restored) = Bench::on_ledger("", &folder);
    assert_eq!((restored.associations, restored.sessions, restored.lost), (1, 2, 0));
    bench.send("n6", &from_router(&response(UE)).build());
    assert_eq!(bench.received("n3")[0][30..34], FAR_AWAY.octets(), "where it was last");
    assert_eq!(bench.delete(&session).cause, Cause::REQUEST_ACCEPTED);
    bench.close();

    let (bench, restored) = Bench::on_ledger("", &folder);
    assert_eq!((restored.sessions, bench.worker_sessions()), (1, 1));
    bench.close();
    std::fs::remove_dir_all(&folder).expect("ours");
}

#[test]
fn a_draining_user_plane_keeps_its_sessions_and_takes_no_more() {
    let mut bench = Bench::new("");
    let (session, teid) = connected(&mut bench, &smf());
    bench.drain(true);
    let asked = bench.unasked().into_iter().find_map(|packet| match packet.message {
        Message::AssociationUpdateRequest(request) => Some(request),
        _ => None,
    });
    let asked = asked.expect("the control plane is asked to move its sessions (6.2.7.3)");
    assert_eq!(asked.pfcp_association_release_request, Some(PfcpAssociationReleaseRequest::SARR));
    assert_eq!(asked.graceful_release_period.and_then(|period| period.seconds()), Some(60));
    let other = Session { cp_seid: 2, ip4: Some(Ipv4Addr::new(10, 45, 0, 2)), ..Session::default() };
    assert_eq!(bench.establish(&other, &smf()).cause, Cause::NO_RESOURCES_AVAILABLE);
    bench.send("n3", &up(teid, &request(UE)));
    assert_eq!(bench.received("n6").len(), 1, "sessions there are go on");
    assert_eq!(bench.delete(&session).cause, Cause::REQUEST_ACCEPTED);
    assert_eq!(bench.sessions().store().len(), 0);
    bench.drain(true);
    assert!(bench.unasked().is_empty(), "once is enough");
    bench.drain(false);
    assert_eq!(bench.establish(&other, &smf()).cause, Cause::REQUEST_ACCEPTED);
    bench.close();
}
