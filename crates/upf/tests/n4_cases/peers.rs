//! Several control planes, how they come and how they go (3GPP TS 29.244, 6.2.6 to 6.2.9; TS 23.527, 4).

use std::net::{IpAddr, SocketAddr};

use super::super::*;

const OTHER: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 0, 4, 10)), pfcp::PORT);

/// A session of a control plane's; its number there is always 1.
fn established(bench: &mut Bench, by: SocketAddr, last: u8) -> Session {
    let mut session = Session { cp_seid: 1, ip4: Some(Ipv4Addr::new(10, 45, 0, last)), ..Session::default() };
    let request = session.establish(&smf(), &NodeId::from(by.ip()), by.ip());
    let answer = bench.say_from(by, Some(0), request.into());
    assert_eq!(answer.header.seid, Some(1));
    let Message::SessionEstablishmentResponse(response) = answer.message else { panic!("an answer of its kind") };
    session.established(&response).expect("accepted");
    session
}

/// A datagram as anybody may write it.
fn octets(seid: Option<u64>, sequence: u32, message: impl Into<Message>) -> Vec<u8> {
    let header = pfcp::Header { seid, sequence, ..Default::default() };
    Packet { header, message: message.into() }.to_vec().expect("fits")
}

fn set_up(node_id: &NodeId, started: u64, retains: bool) -> AssociationSetupRequest {
    AssociationSetupRequest {
        node_id: node_id.clone(),
        recovery_time_stamp: RecoveryTimeStamp::from_unix(1_700_000_000 + started),
        pfcp_session_retention_information: retains.then(Default::default),
        ..Default::default()
    }
}

fn modify(bench: &mut Bench, by: SocketAddr, session: &Session) -> Cause {
    cause(&bench.say_from(by, seid(session), SessionModificationRequest::default().into()))
}

fn counter(bench: &Bench, name: &str) -> u64 {
    let mut all = bench.endpoint().node().counters().all();
    all.find(|(own, ..)| *own == name).map(|(_, count, _)| count).expect("a counter of the node")
}

fn seid(session: &Session) -> Option<u64> {
    session.up_f_seid.map(|f_seid| f_seid.seid)
}

#[test]
fn two_control_planes_with_the_same_numbers_do_not_meet() {
    let mut bench = Bench::new("");
    bench.associate_from(OTHER, 0);
    let (mine, theirs) = (established(&mut bench, CP, 1), established(&mut bench, OTHER, 2));
    assert_ne!(seid(&mine), seid(&theirs));
    // Neither can touch the other's, by whatever message, and neither learns whether it is there.
    let gone = SessionDeletionRequest::default();
    for message in [Message::from(gone.clone()), SessionModificationRequest::default().into()] {
        let answer = bench.say_from(OTHER, seid(&mine), message);
        assert_eq!((cause(&answer), answer.header.seid), (Cause::SESSION_CONTEXT_NOT_FOUND, Some(0)));
    }
    assert_eq!(cause(&bench.say_from(OTHER, seid(&theirs), gone.clone().into())), Cause::REQUEST_ACCEPTED);
    assert_eq!(cause(&bench.say(seid(&mine), gone.into())), Cause::REQUEST_ACCEPTED);
    bench.close();
}

#[test]
fn who_missed_an_answer_may_establish_its_session_again() {
    let mut bench = Bench::new("");
    bench.associate_from(OTHER, 0);
    let first = established(&mut bench, CP, 1);
    let again = |bench: &mut Bench, by: SocketAddr, number: u64| {
        let session = Session { cp_seid: number, ip4: Some(UE), ..Session::default() };
        let request = session.establish(&smf(), &NodeId::from(by.ip()), by.ip());
        cause(&bench.say_from(by, Some(0), request.into()))
    };
    let theirs = Cause::RULE_CREATION_MODIFICATION_FAILURE;
    assert_eq!((again(&mut bench, OTHER, 1), again(&mut bench, CP, 2)), (theirs, theirs), "another session's address");
    assert_eq!(cause(&bench.say(seid(&first), SessionModificationRequest::default().into())), Cause::REQUEST_ACCEPTED);
    let second = established(&mut bench, CP, 1);
    assert_eq!((bench.sessions().store().len(), bench.worker_sessions()), (1, 1));
    let gone = cause(&bench.say(seid(&first), SessionDeletionRequest::default().into()));
    assert_eq!(gone, Cause::SESSION_CONTEXT_NOT_FOUND);
    let Some(FTeid::Given { teid, .. }) = second.uplink_f_teid else { panic!("a tunnel was chosen") };
    bench.send("n3", &up(teid.0, &request(UE)));
    assert_eq!(bench.received("n6").len(), 1);
    bench.close();
}

#[test]
fn an_association_takes_its_sessions_with_it_and_nobody_elses() {
    let mut bench = Bench::new("");
    bench.associate_from(OTHER, 0);
    established(&mut bench, CP, 1);
    let theirs = established(&mut bench, OTHER, 2);
    let release = AssociationReleaseRequest { node_id: NodeId::from(CP.ip()), ..Default::default() };
    let Message::AssociationReleaseResponse(response) = bench.say_patiently(CP, release.into()).message else {
        panic!("an answer of its kind")
    };
    assert_eq!(response.cause, Cause::REQUEST_ACCEPTED);
    bench.settle();
    assert_eq!((bench.sessions().store().len(), bench.worker_sessions()), (1, 1));
    let late = bench.say(Some(1), SessionDeletionRequest::default().into());
    assert_eq!(cause(&late), Cause::NO_ESTABLISHED_PFCP_ASSOCIATION);
    assert_eq!(
        cause(&bench.say_from(OTHER, seid(&theirs), SessionModificationRequest::default().into())),
        Cause::REQUEST_ACCEPTED
    );
    // It comes back, and its subscriber's address is free.
    bench.associate(0);
    established(&mut bench, CP, 1);
    bench.close();
}

#[test]
fn a_control_plane_that_is_lost_has_its_sessions_kept_for_so_long() {
    let mut bench =
        Bench::new("n4.heartbeat_seconds = 10\nn4.session_retention_seconds = 60\nn4.silence_is_loss = true");
    established(&mut bench, CP, 1);
    bench.turn_to(secs(11));
    for second in 12..60 {
        bench.turn_to(secs(second));
    }
    assert_eq!(bench.sessions().store().len(), 1, "it is not there, but its sessions are");
    for second in 60..120 {
        bench.turn_to(secs(second));
    }
    assert_eq!((bench.sessions().store().len(), bench.worker_sessions()), (0, 0));
    bench.close();
}

#[test]
fn silence_means_nothing_of_who_never_answers() {
    let mut bench = Bench::new("n4.heartbeat_seconds = 10\nn4.session_retention_seconds = 60");
    let session = established(&mut bench, CP, 1);
    for second in (10..1000).step_by(5) {
        bench.turn_to(secs(second));
    }
    assert_eq!(bench.delete(&session).cause, Cause::REQUEST_ACCEPTED);
    bench.close();
}

#[test]
fn a_set_of_sessions_ends_as_one() {
    let mut bench = Bench::new("");
    bench.associate_from(OTHER, 0);
    let node = NodeId::from(CP.ip());
    let set = |csid| FqCsid::new(CP.ip(), &[csid]);
    for (last, csid, by) in [(1, 7, CP), (2, 7, CP), (3, 8, CP), (4, 7, OTHER)] {
        let session = Session { cp_seid: last.into(), ip4: Some(Ipv4Addr::new(10, 45, 0, last)), ..Session::default() };
        let mut request = session.establish(&smf(), &NodeId::from(by.ip()), by.ip());
        request.fq_csids = vec![set(csid)];
        assert_eq!(cause(&bench.say_from(by, Some(0), request.into())), Cause::REQUEST_ACCEPTED);
    }
    let request = SessionSetDeletionRequest {
        node_id: node,
        fq_csids: vec![FqCsid::new(CP.ip(), &[6, 7])],
        ..Default::default()
    };
    let Message::SessionSetDeletionResponse(response) = bench.say(None, request.into()).message else {
        panic!("an answer of its kind")
    };
    assert_eq!(response.cause, Cause::REQUEST_ACCEPTED);
    bench.settle();
    let mut left: Vec<u64> = bench.sessions().store().iter().map(|(_, entry)| entry.cp_seid).collect();
    left.sort_unstable();
    assert_eq!((left, bench.worker_sessions()), (vec![3, 4], 2), "another set, another control plane");
    bench.close();
}

#[test]
fn sessions_end_although_the_command_ring_is_full() {
    let mut bench = Bench::new("");
    for last in 1..4 {
        let session = Session { cp_seid: last.into(), ip4: Some(Ipv4Addr::new(10, 45, 0, last)), ..Session::default() };
        let profile = Profile { inactivity_timer: Some(u32::from(last) * u32::from(last)), ..smf() };
        let mut request = session.establish(&profile, &NodeId::from(CP.ip()), CP.ip());
        request.fq_csids = vec![FqCsid::new(CP.ip(), &[last.into()])];
        assert_eq!(cause(&bench.say(Some(0), request.into())), Cause::REQUEST_ACCEPTED);
    }
    let request = SessionSetDeletionRequest {
        node_id: NodeId::from(CP.ip()),
        fq_csids: vec![FqCsid::new(CP.ip(), &[2])],
        ..Default::default()
    };
    // It is carried out when the control plane has not answered a heartbeat for three seconds.
    bench.answer_heartbeats(CP.ip(), None);
    let asked = bench.datagram(&octets(None, 900, request));
    assert!(matches!(&asked[..], [Packet { message: Message::HeartbeatRequest(_), .. }]), "{asked:?}");
    bench.keep_busy();
    bench.due_at(ms(3500));
    assert_eq!(bench.answers().len(), 1);
    assert_eq!((bench.sessions().store().len(), bench.worker_sessions()), (2, 2));
    // Sessions are looked at again once the worker's command ring has room.
    bench.due_at(ms(3700));
    assert_eq!(bench.answers(), []);
    // Of one that the control plane does not know it is told once.
    bench.keep_busy();
    bench.reports_answered(|response| response.cause = Cause::SESSION_CONTEXT_NOT_FOUND);
    bench.settle();
    let left: Vec<u64> = bench.sessions().store().iter().map(|(_, entry)| entry.cp_seid).collect();
    assert_eq!((left, bench.worker_sessions()), (vec![3], 1));
    bench.close();
}

#[test]
fn who_is_not_on_the_list_is_not_heard() {
    let mut bench = Bench::new("n4.allow = [\"10.0.4.8/31\"]");
    established(&mut bench, CP, 1);
    let heartbeat = HeartbeatRequest::default();
    let packet = Packet { header: pfcp::Header::node(9), message: heartbeat.into() };
    assert_eq!(bench.datagram_from(OTHER, &packet.to_vec().expect("fits")), []);
    assert_eq!(bench.datagram_from(CP, &packet.to_vec().expect("fits")).len(), 1);
    bench.close();
}

#[test]
fn node_id_from_another_address_is_refused() {
    for retains in [false, true] {
        let mut bench = Bench::new("");
        let session = established(&mut bench, CP, 1);
        let answers = bench.datagram_from(OTHER, &octets(None, 1, set_up(&CP.ip().into(), 60, retains)));
        assert_eq!(answers.iter().map(cause).collect::<Vec<_>>(), [Cause::REQUEST_REJECTED]);
        assert_eq!((bench.sessions().store().len(), bench.worker_sessions()), (1, 1));
        let own = cause(&bench.say_from(OTHER, seid(&session), SessionDeletionRequest::default().into()));
        assert_eq!(own, Cause::NO_ESTABLISHED_PFCP_ASSOCIATION);
        assert_eq!(modify(&mut bench, CP, &session), Cause::REQUEST_ACCEPTED);
        assert_eq!(counter(&bench, "takeovers_refused"), 1);
        assert!(bench.endpoint().news().any(|news| news.what.contains("takeover refused") && news.peer == Some(OTHER)));
        bench.close();
    }
}

#[test]
fn peer_with_new_address_is_served_within_ten_seconds() {
    let mut bench = Bench::new("");
    let session = established(&mut bench, CP, 1);
    bench.answer_heartbeats(CP.ip(), None);
    let request = octets(None, 1, set_up(&CP.ip().into(), 60, true));
    bench.answer_heartbeats(OTHER.ip(), None);
    let asked = bench.datagram_from(OTHER, &request);
    assert!(matches!(&asked[..], [Packet { message: Message::HeartbeatRequest(_), .. }]), "{asked:?}");
    (1..=10).for_each(|second| bench.turn_to(secs(second)));
    let answers = bench.unasked();
    assert_eq!(
        answers.iter().filter(|one| !one.message.is_request()).map(cause).collect::<Vec<_>>(),
        [Cause::REQUEST_ACCEPTED]
    );
    assert_eq!(modify(&mut bench, OTHER, &session), Cause::REQUEST_ACCEPTED);
    let late = cause(&bench.say_from(CP, seid(&session), SessionModificationRequest::default().into()));
    assert_eq!((late, counter(&bench, "associations_taken_over")), (Cause::NO_ESTABLISHED_PFCP_ASSOCIATION, 1));
    bench.close();
}

#[test]
fn session_in_another_name_is_refused() {
    let mut bench = Bench::new("");
    bench.associate_from(OTHER, 0);
    let session = established(&mut bench, CP, 1);
    let forged = Session { cp_seid: 1, ip4: Some(UE), ..Session::default() };
    let forged = forged.establish(&smf(), &NodeId::from(CP.ip()), CP.ip());
    let answer = bench.say_from(OTHER, Some(0), forged.into());
    assert_eq!((cause(&answer), answer.header.seid), (Cause::NO_ESTABLISHED_PFCP_ASSOCIATION, Some(1)));
    assert_eq!((bench.sessions().store().len(), counter(&bench, "names_of_others")), (1, 1));
    assert_eq!(modify(&mut bench, CP, &session), Cause::REQUEST_ACCEPTED, "the one it would have replaced");
    bench.close();
}

#[test]
fn forged_messages_end_no_session() {
    let mut bench = Bench::new("");
    let session = established(&mut bench, CP, 1);
    let later =
        HeartbeatRequest { recovery_time_stamp: RecoveryTimeStamp::from_unix(1_800_000_000), ..Default::default() };
    assert_eq!(bench.forged_from(CP, &octets(None, 1, later)).len(), 1);
    for retains in [false, true] {
        bench.turn_to(secs(2 + u64::from(retains)));
        bench.forged_from(CP, &octets(None, 2 + u32::from(retains), set_up(&CP.ip().into(), 60, retains)));
    }
    bench.turn_to(secs(5));
    let release = AssociationReleaseRequest { node_id: CP.ip().into(), ..Default::default() };
    bench.forged_from(CP, &octets(None, 9, release));
    bench.turn_to(secs(6));
    let answers = bench.datagram(&octets(seid(&session), 50, SessionModificationRequest::default()));
    let accepted = answers.iter().filter(|answer| answer.header.sequence == 50).map(cause).collect::<Vec<_>>();
    assert_eq!(accepted, [Cause::REQUEST_ACCEPTED], "which contradicts the release");
    bench.turn_to(secs(20));
    assert_eq!((bench.sessions().store().len(), bench.worker_sessions()), (1, 1));
    let counts = ["restarts_not_confirmed", "setups_refused", "releases_refused"].map(|name| counter(&bench, name));
    assert_eq!(counts, [1, 2, 1]);
    bench.close();
}

#[test]
fn associations_of_one_address_keep_to_their_sessions() {
    let mut bench = Bench::new("");
    let second = NodeId::Fqdn("smf-2.example".into());
    let from = SocketAddr::new(CP.ip(), 9000);
    assert_eq!(cause(&bench.say_from(from, None, set_up(&second, 0, false).into())), Cause::REQUEST_ACCEPTED);
    let mine = established(&mut bench, CP, 1);
    let mut theirs = Session { cp_seid: 1, ip4: Some(Ipv4Addr::new(10, 45, 0, 2)), ..Session::default() };
    let request = theirs.establish(&smf(), &second, CP.ip());
    let Message::SessionEstablishmentResponse(response) = bench.say_from(from, Some(0), request.into()).message else {
        panic!("an answer of its kind")
    };
    theirs.established(&response).expect("accepted");
    // Whichever port a request comes from: the SEID says whose it is.
    for session in [&mine, &theirs] {
        assert_eq!(modify(&mut bench, CP, session), Cause::REQUEST_ACCEPTED);
    }
    let release = AssociationReleaseRequest { node_id: second, ..Default::default() };
    bench.say_patiently(from, release.into());
    bench.settle();
    assert_eq!((bench.sessions().store().len(), bench.worker_sessions()), (1, 1));
    assert_eq!(modify(&mut bench, CP, &mine), Cause::REQUEST_ACCEPTED);
    bench.close();
}

#[test]
fn alias_names_share_the_session_limit() {
    let mut bench = Bench::new("n4.sessions_per_peer = 3");
    let mut causes = Vec::new();
    for (n, name) in (1u8..).zip(["a.example", "b.example", "c.example"]) {
        let alias = NodeId::Fqdn(name.into());
        assert_eq!(cause(&bench.say(None, set_up(&alias, 0, false).into())), Cause::REQUEST_ACCEPTED);
        for last in [2 * n, 2 * n + 1] {
            let session =
                Session { cp_seid: last.into(), ip4: Some(Ipv4Addr::new(10, 45, 0, last)), ..Session::default() };
            causes.push(cause(&bench.say(Some(0), session.establish(&smf(), &alias, CP.ip()).into())));
        }
    }
    let (yes, no) = (Cause::REQUEST_ACCEPTED, Cause::NO_RESOURCES_AVAILABLE);
    assert_eq!(causes, [yes, yes, yes, no, no, no]);
    let fifth = bench.say(None, set_up(&NodeId::Fqdn("d.example".into()), 0, false).into());
    assert_eq!((cause(&fifth), counter(&bench, "associations_full_address")), (no, 1));
    bench.associate_from(OTHER, 0);
    established(&mut bench, OTHER, 100);
    bench.close();
}

#[test]
fn configured_members_act_for_their_set() {
    let mut bench =
        Bench::new(r#"n4.peer = [{ node_id = "10.0.4.9", addresses = ["10.0.4.9", "10.0.4.16/30"], sessions = 2 }]"#);
    let member = SocketAddr::new([10, 0, 4, 18].into(), 5555);
    let session = established(&mut bench, CP, 1);
    assert_eq!(modify(&mut bench, member, &session), Cause::REQUEST_ACCEPTED);
    assert_eq!(modify(&mut bench, OTHER, &session), Cause::NO_ESTABLISHED_PFCP_ASSOCIATION);
    let mut causes = Vec::new();
    for last in [2, 3] {
        let session = Session { cp_seid: last.into(), ip4: Some(Ipv4Addr::new(10, 45, 0, last)), ..Session::default() };
        let request = session.establish(&smf(), &NodeId::from(CP.ip()), member.ip());
        causes.push(cause(&bench.say_from(member, Some(0), request.into())));
    }
    assert_eq!(causes, [Cause::REQUEST_ACCEPTED, Cause::NO_RESOURCES_AVAILABLE], "two sessions, wherever from");
    bench.answer_heartbeats(CP.ip(), None);
    let refused = bench.say_from(OTHER, None, set_up(&CP.ip().into(), 60, true).into());
    assert_eq!((cause(&refused), counter(&bench, "pinned_elsewhere")), (Cause::REQUEST_REJECTED, 1));
    bench.close();
}

#[test]
fn advertised_members_act_for_their_set() {
    for features in [None, Some(CpFunctionFeatures::SSET)] {
        let mut bench = Bench::without_peer("");
        let request = AssociationSetupRequest { cp_function_features: features, ..set_up(&CP.ip().into(), 0, false) };
        assert_eq!(cause(&bench.say(None, request.into())), Cause::REQUEST_ACCEPTED);
        let mut session = Session { cp_seid: 1, ip4: Some(UE), ..Session::default() };
        // Another member is to hear of the session, and will change it.
        let request = session.establish(&smf(), &NodeId::from(CP.ip()), OTHER.ip());
        let Message::SessionEstablishmentResponse(response) = bench.say(Some(0), request.into()).message else {
            panic!("an answer of its kind")
        };
        session.established(&response).expect("accepted");
        assert_eq!(
            modify(&mut bench, OTHER, &session),
            Cause::NO_ESTABLISHED_PFCP_ASSOCIATION,
            "not by the name alone"
        );
        assert_eq!(modify(&mut bench, CP, &session), Cause::REQUEST_ACCEPTED);
        let is_member = modify(&mut bench, OTHER, &session) == Cause::REQUEST_ACCEPTED;
        assert_eq!(is_member, features.is_some());
        bench.close();
    }
}

#[test]
fn sessions_under_other_names_survive_a_restart() {
    let folder = std::env::temp_dir().join(format!("weir-n4-names-{}", std::process::id()));
    let (mut bench, _) = Bench::on_ledger("", &folder);
    bench.associate(0);
    bench.associate_from(OTHER, 0);
    let mut sessions = Vec::new();
    for (by, last) in [(CP, 1), (OTHER, 2)] {
        let mut session = Session { cp_seid: 1, ip4: Some(Ipv4Addr::new(10, 45, 0, last)), ..Session::default() };
        let request = session.establish(&smf(), &NodeId::Fqdn("smf.example".into()), by.ip());
        let Message::SessionEstablishmentResponse(response) = bench.say_from(by, Some(0), request.into()).message
        else {
            panic!("an answer of its kind")
        };
        session.established(&response).expect("accepted");
        // Nor does a name in a modification make it another's.
        let node_id = Some(NodeId::Fqdn("other.example".into()));
        let change = SessionModificationRequest { node_id, ..Default::default() };
        assert_eq!(cause(&bench.say_from(by, seid(&session), change.into())), Cause::REQUEST_ACCEPTED);
        sessions.push((by, session));
    }
    bench.stop();
    let (mut bench, restored) = Bench::on_ledger("", &folder);
    assert_eq!((restored.associations, restored.sessions, restored.lost), (2, 2, 0));
    for (by, session) in &sessions {
        assert_eq!(modify(&mut bench, *by, session), Cause::REQUEST_ACCEPTED);
    }
    bench.stop();
    std::fs::remove_dir_all(folder).expect("our own");
}
