//! What a hostile control plane makes of reuse, restarts and full queues: nothing.

use std::net::{IpAddr, SocketAddr};

use super::super::*;

const FOE: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 0, 4, 66)), pfcp::PORT);
/// More than numbers rest before they are used again.
const NUMBERS: u64 = 5000;

fn established(bench: &mut Bench, by: SocketAddr, cp_seid: u64, profile: &Profile) -> Session {
    let ip4 = Some(Ipv4Addr::new(10, 46, by.ip().is_ipv4() as u8, cp_seid as u8));
    let mut session = Session { cp_seid, ip4, ..Session::default() };
    let request = session.establish(profile, &NodeId::from(by.ip()), by.ip());
    let Message::SessionEstablishmentResponse(response) = bench.say_from(by, Some(0), request.into()).message else {
        panic!("an answer of its kind")
    };
    session.established(&response).expect("accepted");
    session
}

fn seid(session: &Session) -> Option<u64> {
    session.up_f_seid.map(|up| up.seid)
}

/// The lower half of a SEID: the session's number, which is used again.
fn number(session: &Session) -> u64 {
    seid(session).unwrap_or(0) & u64::from(u32::MAX)
}

#[test]
fn a_late_answer_to_a_report_is_about_its_session_only() {
    let metered = Profile { volume_threshold: Some(60), ..smf() };
    let mut bench = Bench::new("");
    bench.associate_from(FOE, 0);
    let foes = established(&mut bench, FOE, 1, &metered);
    let Some(FTeid::Given { teid, .. }) = foes.uplink_f_teid else { panic!("a tunnel was chosen") };
    bench.send("n3", &up(teid.0, &request(foes.ip4.expect("it has one"))));
    let report = bench.unasked().into_iter().find(|packet| matches!(packet.message, Message::SessionReportRequest(_)));
    let header = report.expect("its threshold is reached").header;
    // The answer is kept back until the session's number is another control plane's.
    bench.say_from(FOE, seid(&foes), SessionDeletionRequest::default().into());
    for n in 0..NUMBERS {
        let churned = established(&mut bench, FOE, 2 + n % 200, &smf());
        bench.say_from(FOE, seid(&churned), SessionDeletionRequest::default().into());
        if bench.sessions().store().next_number() + 1 == number(&foes) as u32 {
            break;
        }
    }
    let (session, _) = connected(&mut bench, &smf());
    assert_eq!(number(&session), number(&foes), "the number is used again");
    let cause = Cause::SESSION_CONTEXT_NOT_FOUND;
    let message = SessionReportResponse { cause, ..Default::default() }.into();
    bench.hear_from(FOE, Packet { header: pfcp::Header { seid: seid(&foes), ..header }, message });
    bench.settle();
    assert_eq!((bench.sessions().store().len(), bench.worker_sessions()), (1, 1));
    assert_eq!(bench.delete(&session).cause, Cause::REQUEST_ACCEPTED);
    bench.close();
}

#[test]
fn a_report_from_a_control_plane_is_refused_and_makes_no_room() {
    let mut bench = Bench::new("");
    let (session, _) = connected(&mut bench, &smf());
    let report = SessionReportRequest { report_type: ReportType::UPIR, ..Default::default() };
    let Message::SessionReportResponse(response) = bench.say(seid(&session), report.clone().into()).message else {
        panic!("an answer of its kind")
    };
    assert_eq!(response.cause, Cause::SERVICE_NOT_SUPPORTED);
    let timer = Some(UserPlaneInactivityTimer(9));
    let change = || SessionModificationRequest { user_plane_inactivity_timer: timer, ..Default::default() };
    bench.keep_busy();
    let class = bench.endpoint().class(CP.ip());
    while bench.endpoint().may_serve(class) {
        bench.hear(&session, change().into());
    }
    (0..8).for_each(|_| bench.hear(&session, report.clone().into()));
    bench.due_at(2);
    assert!(!bench.endpoint().may_serve(class), "as many are under way as before");
    bench.settle();
    assert!(bench.endpoint().may_serve(class));
    bench.close();
}

#[test]
fn requests_from_further_addresses_are_bounded_too() {
    let mut bench = Bench::without_peer("");
    let alternative = AlternativeSmfIpAddress { ip4: Some(Ipv4Addr::new(10, 0, 4, 66)), ..Default::default() };
    let request = AssociationSetupRequest {
        node_id: NodeId::from(CP.ip()),
        recovery_time_stamp: RecoveryTimeStamp::from_unix(1_700_000_000),
        cp_function_features: Some(CpFunctionFeatures::SSET),
        alternative_smf_ip_addresses: vec![alternative],
        ..Default::default()
    };
    bench.say(None, request.into());
    let (session, _) = connected(&mut bench, &smf());
    let class = bench.endpoint().class(FOE.ip());
    assert_eq!(class, None, "with strangers");
    bench.keep_busy();
    for sequence in 0..1000 {
        if !bench.endpoint().may_serve(class) {
            break;
        }
        let timer = Some(UserPlaneInactivityTimer(9));
        let change = SessionModificationRequest { user_plane_inactivity_timer: timer, ..Default::default() };
        let header = pfcp::Header { seid: seid(&session), sequence, ..Default::default() };
        bench.hear_from(FOE, Packet { header, message: change.into() });
    }
    assert!(!bench.endpoint().may_serve(class));
    bench.settle();
    assert!(bench.endpoint().may_serve(class));
    bench.close();
}

#[test]
fn what_waits_for_room_is_refused_when_its_association_ends() {
    let mut bench = Bench::new("");
    bench.keep_busy();
    let session = Session { cp_seid: 9, ip4: Some(UE), ..Session::default() };
    let request = session.establish(&smf(), &NodeId::from(CP.ip()), CP.ip());
    bench.hear(&Session { up_f_seid: Some(FSeid::new(0, CP.ip())), ..Session::default() }, request.into());
    assert_eq!(bench.sessions().queued(), 1);
    bench.hear_confirmed(AssociationReleaseRequest { node_id: NodeId::from(CP.ip()), ..Default::default() }.into());
    bench.due_at(secs(3));
    let answers = bench.answers();
    let refused = answers.iter().find_map(|answer| match &answer.message {
        Message::SessionEstablishmentResponse(response) => Some(response.cause),
        _ => None,
    });
    assert_eq!(refused, Some(Cause::NO_ESTABLISHED_PFCP_ASSOCIATION), "{answers:?}");
    assert_eq!((bench.sessions().store().len(), bench.worker_sessions()), (0, 0));
    bench.close();
}

#[test]
fn a_session_that_can_not_be_ends_none_in_its_place() {
    let mut bench = Bench::new("");
    let (session, teid) = connected(&mut bench, &smf());
    let ip6 = Some("2001:db8:45::".parse().expect("an address"));
    let others = Session { cp_seid: 2, ip4: Some(Ipv4Addr::new(10, 45, 0, 2)), ip6, ..Session::default() };
    assert_eq!(bench.establish(&others, &smf()).cause, Cause::REQUEST_ACCEPTED);
    // In place of the first, and with an address of the second.
    let again = Session { cp_seid: session.cp_seid, ip4: Some(UE), ip6, ..Session::default() };
    assert_eq!(bench.establish(&again, &smf()).cause, Cause::RULE_CREATION_MODIFICATION_FAILURE);
    bench.send("n3", &up(teid, &request(UE)));
    assert_eq!(bench.received("n6").len(), 1, "the session before is there");
    assert_eq!(bench.delete(&session).cause, Cause::REQUEST_ACCEPTED);
    bench.close();
}

/// A control plane that begins anew under its name does not get back the sessions that were on their way out when we ended.
#[test]
fn sessions_of_an_association_that_is_over_do_not_come_back() {
    const SESSIONS: u64 = 300;
    let folder = std::env::temp_dir().join(format!("weir-n4-over-{}", std::process::id()));
    let (mut bench, _) = Bench::on_ledger("", &folder);
    bench.associate(0);
    for n in 1..=SESSIONS {
        let ip4 = Some(Ipv4Addr::from_bits(u32::from(UE) + n as u32));
        let session = Session { cp_seid: n, ip4, ..Session::default() };
        assert_eq!(bench.establish(&session, &smf()).cause, Cause::REQUEST_ACCEPTED);
    }
    bench.hear_confirmed(AssociationReleaseRequest { node_id: NodeId::from(CP.ip()), ..Default::default() }.into());
    bench.due_at(secs(3));
    let setup = AssociationSetupRequest {
        node_id: NodeId::from(CP.ip()),
        recovery_time_stamp: RecoveryTimeStamp(3_900_000_000),
        ..Default::default()
    };
    bench.hear_node(setup.into());
    bench.due_at(secs(3) + ms(1));
    bench.due_at(secs(3) + ms(20));
    let left = bench.sessions().store().len();
    assert!((1..SESSIONS as usize).contains(&left), "{left}");
    // A crash: nothing more is written.
    drop(bench);
    let (mut bench, restored) = Bench::on_ledger("", &folder);
    assert_eq!((restored.associations, restored.sessions), (1, 0), "{restored:?}");
    // What the new one has is kept, again and again.
    let session = Session { cp_seid: 7, ip4: Some(UE), ..Session::default() };
    assert_eq!(bench.establish(&session, &smf()).cause, Cause::REQUEST_ACCEPTED);
    for _ in 0..2 {
        drop(bench);
        let restored;
        (bench, restored) = Bench::on_ledger("", &folder);
        assert_eq!((restored.associations, restored.sessions, restored.lost), (1, 1, 0));
    }
    bench.close();
    std::fs::remove_dir_all(folder).expect("our own");
}

/// Sessions as a ledger has them: the messages they are kept as, by SEID.
fn kept(ledger: &ledger::Ledger) -> Vec<(u64, Vec<u8>)> {
    let mut sessions = Vec::new();
    let is_session = |key: u64| key & u64::from(u32::MAX) != 0;
    ledger.sessions(|key, bytes| sessions.extend(is_session(key).then(|| (key, bytes.to_vec())))).expect("readable");
    sessions
}

#[test]
fn sessions_of_an_earlier_version_are_kept_with_their_association_from_now_on() {
    let folder = std::env::temp_dir().join(format!("weir-n4-marks-{}", std::process::id()));
    let (mut bench, _) = Bench::on_ledger("", &folder);
    bench.associate(0);
    connected(&mut bench, &smf());
    bench.stop();
    let old = ledger::Ledger::open(&folder).expect("a ledger");
    let [(key, mut bytes)] = <[_; 1]>::try_from(kept(&old)).expect("one session");
    assert_ne!(bytes[12..15], [0; 3]);
    bytes[12..15].fill(0);
    old.amend(vec![ledger::Change::PutSession { key, bytes }]).expect("written");
    drop(old);
    let (bench, restored) = Bench::on_ledger("", &folder);
    assert_eq!((restored.sessions, restored.lost), (1, 0));
    bench.stop();
    let new = ledger::Ledger::open(&folder).expect("a ledger");
    assert_ne!(kept(&new)[0].1[12..15], [0; 3]);
    drop(new);
    std::fs::remove_dir_all(folder).expect("our own");
}

/// What is acknowledged is on the disk, and nobody can have it written with each message.
#[test]
fn applications_are_acknowledged_when_they_are_kept() {
    let folder = std::env::temp_dir().join(format!("weir-n4-pfds-{}", std::process::id()));
    let (mut bench, _) = Bench::on_ledger("", &folder);
    bench.associate(0);
    let (session, _) = connected(&mut bench, &smf());
    let contents = PfdContents::flows(&["permit out 17 from 198.51.100.0/24 to assigned"]);
    let application = ApplicationIdsPfds {
        application_id: "video".into(),
        pfd_contexts: vec![PfdContext { pfd_contents: vec![contents], ..Default::default() }],
        ..Default::default()
    };
    let pfds = PfdManagementRequest { application_ids_pfds: vec![application], ..Default::default() };
    bench.due_at(secs(1));
    (0..50).for_each(|_| bench.hear_node(pfds.clone().into()));
    let change = SessionModificationRequest { query_urr_reference: None, ..Default::default() };
    bench.hear(&session, change.into());
    let at_once = bench.answers();
    assert!(at_once.iter().all(|answer| matches!(answer.message, Message::SessionModificationResponse(_))));
    bench.turn_to(secs(1) + ms(11));
    let later = bench.unasked();
    let is_accepted = |answer: &Packet| match &answer.message {
        Message::PfdManagementResponse(response) => response.cause == Cause::REQUEST_ACCEPTED,
        _ => false,
    };
    assert_eq!(later.iter().filter(|answer| is_accepted(answer)).count(), 50);
    // A crash right then costs none of it.
    drop(bench);
    let (mut bench, restored) = Bench::on_ledger("", &folder);
    assert_eq!((restored.sessions, restored.lost), (1, 0));
    let watching = Session { cp_seid: 2, ip4: Some(Ipv4Addr::new(10, 45, 0, 2)), ..Session::default() };
    let mut asked = watching.establish(&smf(), &NodeId::from(CP.ip()), CP.ip());
    asked.create_pdrs[1].pdi.application_id = Some(ApplicationId::from("video"));
    assert_eq!(cause(&bench.say(Some(0), asked.into())), Cause::REQUEST_ACCEPTED, "it knows the application");
    bench.close();
    std::fs::remove_dir_all(folder).expect("our own");
}
