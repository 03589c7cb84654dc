//! What is said of the node: applications, load (3GPP TS 29.244, 5.11, 6.2.3).

use upf::sessions::Room;

use super::super::*;

fn pfds(list: &[(&str, &[PfdContents])]) -> PfdManagementRequest {
    let application = |(name, contents): &(&str, &[PfdContents])| ApplicationIdsPfds {
        application_id: ApplicationId::from(*name),
        // Without any, what was is to be forgotten.
        pfd_contexts: (!contents.is_empty())
            .then(|| PfdContext { pfd_contents: contents.to_vec(), ..Default::default() })
            .into_iter()
            .collect(),
        ..Default::default()
    };
    PfdManagementRequest { application_ids_pfds: list.iter().map(application).collect(), ..Default::default() }
}

fn flow(text: &str) -> PfdContents {
    PfdContents { flow_description: Some(text.into()), ..PfdContents::default() }
}

fn told(bench: &mut Bench, request: PfdManagementRequest) -> (Cause, Option<OffendingIe>) {
    match bench.say_patiently(CP, request.into()).message {
        Message::PfdManagementResponse(response) => (response.cause, response.offending_ie),
        other => panic!("no answer of its kind: {other:?}"),
    }
}

const VIDEO: &str = "permit out 17 from 198.51.100.0/24 to assigned";
const OTHER: &str = "permit out 17 from 203.0.113.0/24 to assigned";

/// A session of the first control plane whose second rule is about the application `video`, and its tunnel.
fn watching(bench: &mut Bench) -> (Session, u32) {
    let mut session = Session { cp_seid: 1, ip4: Some(UE), ..Session::default() };
    let mut asked = session.establish(&smf(), &NodeId::from(CP.ip()), CP.ip());
    asked.create_pdrs[1].pdi.application_id = Some(ApplicationId::from("video"));
    let Message::SessionEstablishmentResponse(response) = bench.say(Some(0), asked.into()).message else {
        panic!("an answer of its kind")
    };
    session.established(&response).expect("accepted");
    let Some(FTeid::Given { teid, .. }) = session.uplink_f_teid else { panic!("a tunnel was chosen") };
    (session, teid.0)
}

/// Whether a packet to the application's servers is sent on.
fn passes(bench: &mut Bench, teid: u32) -> bool {
    bench.send("n3", &up(teid, &request(UE)));
    bench.received("n6").len() == 1
}

#[test]
fn applications_are_detected_by_what_was_said_last() {
    const OK: (Cause, Option<OffendingIe>) = (Cause::REQUEST_ACCEPTED, None);
    let mut bench = Bench::new("");
    assert_eq!(told(&mut bench, pfds(&[("video", &[flow(VIDEO)])])), OK);
    let (session, teid) = watching(&mut bench);
    let passes = |bench: &mut Bench| passes(bench, teid);
    assert!(passes(&mut bench));
    assert_eq!(told(&mut bench, pfds(&[("video", &[flow(OTHER)])])), OK);
    assert!(!passes(&mut bench), "sessions there are go by it");

    // A request is carried out as a whole or not at all.
    let url = PfdContents { url: Some("http://example.com/".into()), ..PfdContents::default() };
    let blamed = Some(OffendingIe(61));
    let half = pfds(&[("video", &[flow(VIDEO)]), ("chess", &[url])]);
    assert_eq!(told(&mut bench, half), (Cause::SERVICE_NOT_SUPPORTED, blamed));
    let wrong = pfds(&[("video", &[flow(VIDEO)]), ("chess", &[flow("permit all")])]);
    assert_eq!(told(&mut bench, wrong), (Cause::MANDATORY_IE_INCORRECT, blamed));
    assert!(!passes(&mut bench));
    assert_eq!(told(&mut bench, pfds(&[("video", &[flow(OTHER), flow(VIDEO)])])), OK);
    assert!(passes(&mut bench));

    // No application at all ends them all: nothing is detected, and new rules can not name it.
    assert_eq!(told(&mut bench, pfds(&[])), OK);
    assert!(!passes(&mut bench), "nor in sessions there are");
    let other = UpdatePdr { pdr_id: PdrId(1), precedence: Some(Precedence(77)), ..UpdatePdr::default() };
    let change = SessionModificationRequest { update_pdrs: vec![other], ..Default::default() };
    assert_eq!(bench.modify(&session, change).cause, Cause::REQUEST_ACCEPTED, "which go on otherwise");
    let mut asked = Session { cp_seid: 2, ip4: Some(Ipv4Addr::new(10, 45, 0, 2)), ..Session::default() }.establish(
        &smf(),
        &NodeId::from(CP.ip()),
        CP.ip(),
    );
    asked.create_pdrs[1].pdi.application_id = Some(ApplicationId::from("video"));
    assert_eq!(cause(&bench.say(Some(0), asked.into())), Cause::UNKNOWN_APPLICATION_ID);
    // Described again, it is detected again; and no longer when it alone is withdrawn.
    assert_eq!(told(&mut bench, pfds(&[("video", &[flow(VIDEO)])])), OK);
    assert!(passes(&mut bench));
    assert_eq!(told(&mut bench, pfds(&[("video", &[])])), OK);
    assert!(!passes(&mut bench));
    bench.close();
}

#[test]
fn contents_may_have_several_flow_descriptions_and_there_are_as_many_as_a_message_says() {
    let mut bench = Bench::new("");
    const OK: (Cause, Option<OffendingIe>) = (Cause::REQUEST_ACCEPTED, None);
    assert_eq!(told(&mut bench, pfds(&[("video", &[PfdContents::flows(&[OTHER, VIDEO])])])), OK);
    let (_, teid) = watching(&mut bench);
    let passes = |bench: &mut Bench| passes(bench, teid);
    assert!(passes(&mut bench), "by the second");
    // What is described in part by what is not looked for is not detected by the rest.
    let url = PfdContents { url: Some("http://example.com/".into()), ..PfdContents::flows(&[OTHER]) };
    let cut = PfdContents { additional_flow_descriptions: Some([0, 9, b'p'].into()), ..PfdContents::flows(&[OTHER]) };
    let blamed = Some(OffendingIe(61));
    assert_eq!(told(&mut bench, pfds(&[("video", &[url])])), (Cause::SERVICE_NOT_SUPPORTED, blamed));
    assert_eq!(told(&mut bench, pfds(&[("video", &[cut])])), (Cause::INVALID_LENGTH, blamed));
    let nothing = PfdContents::default();
    assert_eq!(told(&mut bench, pfds(&[("video", &[nothing])])), (Cause::MANDATORY_IE_INCORRECT, blamed));
    assert!(passes(&mut bench));
    // Messages that each fit: together they are more than one.
    let many: Vec<PfdContents> =
        (0..400).map(|n| flow(&format!("permit out 17 from 198.51.100.7 {n} to assigned"))).collect();
    assert_eq!(told(&mut bench, pfds(&[("a", &many)])), OK);
    assert_eq!(told(&mut bench, pfds(&[("b", &many)])), OK);
    let (full, none) = ((Cause::NO_RESOURCES_AVAILABLE, None), &[][..]);
    assert_eq!(told(&mut bench, pfds(&[("c", &many), ("d", &many), ("video", none)])), full);
    assert!(passes(&mut bench), "nothing of that is done");
    assert_eq!(told(&mut bench, pfds(&[("a", none), ("c", &many)])), OK);
    assert!(passes(&mut bench));
    bench.close();
}

#[test]
fn full_command_ring_or_no_room_delays_changed_rules() {
    let mut bench = Bench::new("");
    told(&mut bench, pfds(&[("video", &[flow(VIDEO)])]));
    let (_, teid) = watching(&mut bench);
    let passes = |bench: &mut Bench| passes(bench, teid);
    assert!(passes(&mut bench));
    bench.keep_busy();
    assert_eq!(told(&mut bench, pfds(&[("video", &[flow(OTHER)])])), (Cause::REQUEST_ACCEPTED, None));
    assert!(!passes(&mut bench), "it has come to it");
    bench.set_room(Room { lines: 0, keys: usize::MAX });
    assert_eq!(told(&mut bench, pfds(&[("video", &[flow(VIDEO)])])), (Cause::REQUEST_ACCEPTED, None));
    assert!(!passes(&mut bench));
    bench.set_room(Room::default());
    bench.turn_to(secs(10));
    assert!(passes(&mut bench));
    bench.close();
}

#[test]
fn a_control_plane_changes_its_own_applications_only() {
    let foe: std::net::SocketAddr = "10.0.4.77:8805".parse().expect("an address");
    let mut bench = Bench::new("");
    assert_eq!(told(&mut bench, pfds(&[("video", &[flow(VIDEO)])])), (Cause::REQUEST_ACCEPTED, None));
    let (_, teid) = watching(&mut bench);
    bench.associate_from(foe, 0);
    for request in [pfds(&[("video", &[flow(OTHER)])]), PfdManagementRequest::default()] {
        let answer = bench.say_from(foe, None, request.into()).message;
        assert!(matches!(answer, Message::PfdManagementResponse(it) if it.cause == Cause::REQUEST_ACCEPTED));
        bench.turn_to(secs(1));
        assert!(passes(&mut bench, teid), "as its own control plane said");
    }
    bench.close();
}

#[test]
fn applications_outlive_a_restart() {
    let folder = std::env::temp_dir().join(format!("weir-n4-node-{}", std::process::id()));
    let (mut bench, _) = Bench::on_ledger("", &folder);
    bench.associate(0);
    assert_eq!(told(&mut bench, pfds(&[("video", &[flow(VIDEO)])])).0, Cause::REQUEST_ACCEPTED);
    let (_, teid) = watching(&mut bench);
    bench.stop();
    let (mut bench, restored) = Bench::on_ledger("", &folder);
    assert_eq!((restored.sessions, restored.lost), (1, 0));
    assert!(passes(&mut bench, teid));
    bench.stop();
    std::fs::remove_dir_all(folder).expect("our own");
}

fn associate(bench: &mut Bench, features: Option<CpFunctionFeatures>) {
    let request = AssociationSetupRequest {
        node_id: NodeId::from(CP.ip()),
        recovery_time_stamp: RecoveryTimeStamp::from_unix(1_700_000_000),
        cp_function_features: features,
        ..AssociationSetupRequest::default()
    };
    bench.say_patiently(CP, request.into());
}

fn numbered(n: u8) -> Session {
    Session { cp_seid: n.into(), ip4: Some(Ipv4Addr::new(10, 45, 0, n)), ..Session::default() }
}

#[test]
fn control_planes_that_ask_hear_how_loaded_it_is() {
    let mut bench = Bench::without_peer("n4.sessions = 4");
    let establish = |bench: &mut Bench, n: u8| {
        let load = bench.establish(&numbered(n), &smf()).load_control_information;
        load.map(|load| (load.load_control_sequence_number.0, load.load_metric.0))
    };
    associate(&mut bench, None);
    assert_eq!(establish(&mut bench, 1), None, "nobody asked");
    associate(&mut bench, Some(CpFunctionFeatures::LOAD));
    let told: Vec<_> = (1..=3).filter_map(|n| establish(&mut bench, n)).collect();
    assert_eq!(told.iter().map(|(_, metric)| *metric).collect::<Vec<_>>(), [25, 50, 75]);
    assert!(told.is_sorted_by(|a, b| a.0 < b.0), "a number for each change: {told:?}");
    bench.drain(true);
    let refused = establish(&mut bench, 4);
    assert_eq!(refused.map(|(_, metric)| metric), Some(100), "it takes no more");
    bench.close();
}

#[test]
fn control_planes_are_asked_for_less_when_it_is_nearly_full() {
    let mut bench = Bench::without_peer("n4.sessions = 100");
    associate(&mut bench, Some(CpFunctionFeatures::OVRL));
    let mut sessions: Vec<Session> = (1..=100).map(numbered).collect();
    let mut told = Vec::new();
    for session in &mut sessions {
        let response = bench.establish(session, &smf());
        assert_eq!(response.load_control_information, None, "nobody asked for that");
        session.established(&response).expect("there is room");
        told.extend(response.overload_control_information);
    }
    let metrics: Vec<u8> = told.iter().map(|one| one.overload_reduction_metric.0).collect();
    assert_eq!(metrics, [50, 100], "with 99 and with 100 of 100 sessions");
    assert!(told[0].overload_control_sequence_number.0 < told[1].overload_control_sequence_number.0);
    assert_eq!(told[1].period_of_validity.seconds(), Some(20));
    // Every answer says so, and that it is over.
    let metric = |response: SessionDeletionResponse| {
        response.overload_control_information.map(|one| one.overload_reduction_metric.0)
    };
    let full = bench.modify(&sessions[0], SessionModificationRequest::default()).overload_control_information;
    assert_eq!(full.map(|one| one.overload_reduction_metric.0), Some(100));
    let told: Vec<_> = sessions[..3].iter().map(|session| metric(bench.delete(session))).collect();
    assert_eq!(told, [Some(50), Some(0), Some(0)]);
    bench.turn_to(secs(30));
    assert_eq!(metric(bench.delete(&sessions[3])), None, "everybody has forgotten");
    bench.close();
}
