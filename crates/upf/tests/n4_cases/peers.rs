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
    assert_eq!((bench.sessions().book().len(), bench.worker_sessions()), (1, 1));
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
    let Message::AssociationReleaseResponse(response) = bench.say(None, release.into()).message else {
        panic!("an answer of its kind")
    };
    assert_eq!(response.cause, Cause::REQUEST_ACCEPTED);
    bench.settle();
    assert_eq!((bench.sessions().book().len(), bench.worker_sessions()), (1, 1));
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
    let mut bench = Bench::new("n4.heartbeat_seconds = 10\nn4.keep_seconds = 60\nn4.silence_is_loss = true");
    established(&mut bench, CP, 1);
    bench.turn_to(secs(11));
    for second in 12..60 {
        bench.turn_to(secs(second));
    }
    assert_eq!(bench.sessions().book().len(), 1, "it is not there, but its sessions are");
    for second in 60..120 {
        bench.turn_to(secs(second));
    }
    assert_eq!((bench.sessions().book().len(), bench.worker_sessions()), (0, 0));
    bench.close();
}

#[test]
fn silence_means_nothing_of_who_never_answers() {
    let mut bench = Bench::new("n4.heartbeat_seconds = 10\nn4.keep_seconds = 60");
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
    let mut left: Vec<u64> = bench.sessions().book().iter().map(|(_, entry)| entry.cp_seid).collect();
    left.sort_unstable();
    assert_eq!((left, bench.worker_sessions()), (vec![3, 4], 2), "another set, another control plane");
    bench.close();
}

#[test]
fn what_is_over_ends_though_its_worker_has_its_hands_full() {
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
    bench.keep_busy();
    bench.say(None, request.into());
    assert_eq!((bench.sessions().book().len(), bench.worker_sessions()), (2, 2));
    // Of one that the control plane does not know it is told once.
    bench.turn_to(secs(3));
    bench.keep_busy();
    bench.reports_answered(|response| response.cause = Cause::SESSION_CONTEXT_NOT_FOUND);
    bench.settle();
    let left: Vec<u64> = bench.sessions().book().iter().map(|(_, entry)| entry.cp_seid).collect();
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
