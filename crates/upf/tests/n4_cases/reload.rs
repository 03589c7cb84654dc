//! The configuration read again while sessions live.

use super::super::*;

fn asked(cp_seid: u64, ip4: Option<Ipv4Addr>, dnn: &str) -> SessionEstablishmentRequest {
    let session = Session { cp_seid, ip4, ..Session::default() };
    session.establish(&Profile { dnn: dnn.into(), ..smf() }, &NodeId::from(CP.ip()), CP.ip())
}

/// A session whose address the user plane chooses: the answer's cause, SEID and address.
fn chosen(bench: &mut Bench, cp_seid: u64) -> (Cause, u64, Option<Ipv4Addr>) {
    let answer = bench.say(Some(0), asked(cp_seid, None, "internet").into());
    let Message::SessionEstablishmentResponse(answer) = answer.message else { panic!("an answer of its kind") };
    let address = answer.created_pdrs.iter().flat_map(|pdr| &pdr.ue_ip_addresses).find_map(|address| address.ip4);
    (answer.cause, answer.up_f_seid.map_or(0, |seid| seid.seid), address)
}

fn end(bench: &mut Bench, seid: u64) -> Cause {
    cause(&bench.say(Some(seid), SessionDeletionRequest::default().into()))
}

fn releases(bench: &mut Bench) -> Vec<AssociationUpdateRequest> {
    let updates = bench.unasked().into_iter().filter_map(|packet| match packet.message {
        Message::AssociationUpdateRequest(request) => Some(request),
        _ => None,
    });
    updates.collect()
}

#[test]
fn a_pool_taken_out_keeps_its_sessions() {
    let mut bench = Bench::new(r#"n4.pool = [{ v4 = "10.45.0.0/29" }]"#);
    let (_, seid, Some(first)) = chosen(&mut bench, 1) else { panic!("an address was chosen") };
    bench.reload(r#"n4.pool = [{ v4 = "10.46.0.0/30" }, { v4 = "10.47.0.0/30" }]"#).expect("in order");
    let next: Vec<_> = (2..7).map(|n| chosen(&mut bench, n)).collect();
    let of = |third: u8| next.iter().filter(|(.., at)| at.is_some_and(|at| at.octets()[1] == third)).count();
    assert_eq!((of(46), of(47)), (2, 2), "the second pool follows the first: {next:?}");
    assert_eq!(next[4].0, Cause::ALL_DYNAMIC_ADDRESSES_ARE_OCCUPIED);
    bench.send("n6", &from_router(&response(first)).build());
    assert_eq!(bench.sessions().store().len(), 5, "the session of the pool that is gone is there");
    assert_eq!(end(&mut bench, seid), Cause::REQUEST_ACCEPTED);
    assert_eq!(chosen(&mut bench, 8).0, Cause::ALL_DYNAMIC_ADDRESSES_ARE_OCCUPIED, "its address is nobody's");
    bench.reload(r#"n4.pool = [{ v4 = "10.45.0.0/29" }]"#).expect("in order");
    let again: Vec<_> = (10..16).map(|n| chosen(&mut bench, n).0).collect();
    assert_eq!(again, [Cause::REQUEST_ACCEPTED; 6]);
    bench.close();
}

#[test]
fn the_first_pool_is_told_to_peers() {
    let mut bench = Bench::new("");
    bench.reload(r#"n4.pool = [{ v4 = "10.45.0.0/29" }]"#).expect("in order");
    let [update] = &releases(&mut bench)[..] else { panic!("one update") };
    assert!(update.up_function_features.is_some_and(|all| all.contains(UpFunctionFeatures::UEIP)));
    assert_eq!(update.pfcp_association_release_request, None);
    assert_eq!(chosen(&mut bench, 1).0, Cause::REQUEST_ACCEPTED);
    bench.close();
}

#[test]
fn a_shrunk_limit_refuses_new_sessions_only() {
    let mut bench = Bench::new("n4.sessions = 10");
    let (session, teid) = connected(&mut bench, &smf());
    assert_eq!(cause(&bench.say(Some(0), asked(2, Some(FAR_AWAY), "internet").into())), Cause::REQUEST_ACCEPTED);
    bench.reload("n4.sessions = 1\nn4.rules_per_session = 1").expect("in order");
    let other = Some(Ipv4Addr::new(10, 45, 0, 77));
    assert_eq!(cause(&bench.say(Some(0), asked(3, other, "internet").into())), Cause::NO_RESOURCES_AVAILABLE);
    bench.send("n3", &up(teid, &request(UE)));
    assert_eq!((bench.received("n6").len(), bench.sessions().store().len()), (1, 2));
    bench.reload("n4.sessions = 3").expect("in order");
    assert_eq!(cause(&bench.say(Some(0), asked(3, other, "internet").into())), Cause::REQUEST_ACCEPTED);
    bench.delete(&session);
    bench.close();
}

#[test]
fn a_dnn_taken_out_refuses_new_sessions_only() {
    let mut bench = Bench::with_named_core(r#"n4.dnn = [{ name = "ims", instance = "internet" }]"#);
    let profile = Profile { dnn: "ims".into(), ..smf() };
    let (mut session, teid) = connected(&mut bench, &profile);
    assert_eq!(cause(&bench.say(Some(0), asked(2, Some(FAR_AWAY), "iot").into())), Cause::MANDATORY_IE_INCORRECT);
    bench.reload(r#"n4.dnn = [{ name = "iot", instance = "internet" }]"#).expect("in order");
    assert_eq!(cause(&bench.say(Some(0), asked(2, Some(FAR_AWAY), "iot").into())), Cause::REQUEST_ACCEPTED);
    let other = Some(Ipv4Addr::new(10, 45, 0, 77));
    assert_eq!(cause(&bench.say(Some(0), asked(3, other, "ims").into())), Cause::MANDATORY_IE_INCORRECT);
    // The session goes on, and may be changed by rules that name it.
    let again = session.connect(access(FAR_AWAY, GNB_TEID));
    assert_eq!(bench.modify(&session, again).cause, Cause::REQUEST_ACCEPTED);
    let mut fars = session.establish(&profile, &NodeId::from(CP.ip()), CP.ip()).create_fars;
    fars.retain(|far| far.forwarding_parameters.as_ref().is_some_and(|to| to.network_instance.is_some()));
    let update = |far: CreateFar| UpdateFar {
        far_id: far.far_id,
        update_forwarding_parameters: far.forwarding_parameters.map(|to| UpdateForwardingParameters {
            network_instance: to.network_instance,
            ..UpdateForwardingParameters::default()
        }),
        ..UpdateFar::default()
    };
    let change =
        SessionModificationRequest { update_fars: fars.into_iter().map(update).collect(), ..Default::default() };
    assert_eq!(bench.modify(&session, change).cause, Cause::REQUEST_ACCEPTED);
    bench.send("n3", &up(teid, &request(UE)));
    assert_eq!(bench.received("n6").len(), 1);
    let moved =
        bench.reload(r#"n4.dnn = [{ name = "ims", instance = "access" }]"#).expect_err("it means another network");
    assert_eq!(moved.path, ["n4", "dnn", "0", "instance"]);
    bench.close();
}

#[test]
fn a_peer_taken_out_is_asked_for_release() {
    let mut bench = Bench::new("n4.session_retention_seconds = 30\nn4.heartbeat_seconds = 0");
    let (session, teid) = connected(&mut bench, &smf());
    bench
        .reload("n4.session_retention_seconds = 30\nn4.heartbeat_seconds = 0\nn4.allow = [\"10.0.9.0/24\"]")
        .expect("in order");
    let [update] = &releases(&mut bench)[..] else { panic!("one update") };
    assert_eq!(update.pfcp_association_release_request, Some(PfcpAssociationReleaseRequest::SARR));
    assert_eq!(update.graceful_release_period, Some(GracefulReleasePeriod::at_least(30)));
    assert_eq!(cause(&bench.say(Some(0), asked(2, Some(FAR_AWAY), "internet").into())), Cause::NO_RESOURCES_AVAILABLE);
    let change = session.clone().connect(access(GNB, GNB_TEID));
    assert_eq!(bench.modify(&session, change).cause, Cause::REQUEST_ACCEPTED);
    bench.send("n3", &up(teid, &request(UE)));
    assert_eq!(bench.received("n6").len(), 1);
    bench.turn_to(secs(40));
    bench.settle();
    assert_eq!((bench.sessions().store().len(), bench.worker_sessions()), (0, 0));
    assert_eq!(bench.endpoint().node().associations().count(), 0);
    bench.close();
}

#[test]
fn a_new_rate_of_error_indications_holds_at_once() {
    let mut bench = Bench::new("gtpu.error_indications_per_second = 0");
    bench.send("n3", &up(0x1234, &request(UE)));
    assert_eq!(bench.received("n3").len(), 0);
    bench.reload("gtpu.error_indications_per_second = 100").expect("in order");
    bench.send("n3", &up(0x1234, &request(UE)));
    assert_eq!(bench.received("n3").len(), 1);
    bench.close();
}

#[test]
fn pools_that_overlap_are_refused_with_two_workers() {
    let mut bench = Bench::new("workers.count = 2\nn4.pool = [{ v4 = \"10.45.0.0/24\" }]");
    let error = bench.reload("workers.count = 2\nn4.pool = [{ v4 = \"10.45.0.0/25\" }]").expect_err("other parts");
    assert_eq!(error.path, ["n4", "pool"]);
    bench
        .reload("workers.count = 2\nn4.pool = [{ v4 = \"10.45.0.0/24\" }, { v4 = \"10.46.0.0/24\" }]")
        .expect("in order");
    bench.close();
}

#[test]
fn translation_goes_on_by_the_addresses_it_began_with() {
    let pool = |addresses: &str| format!("nat.pool = [{{ addresses = \"{addresses}\" }}]\nnat.seed = 1");
    let mut bench = Bench::new(&pool("203.0.113.1-203.0.113.1"));
    let (_, teid) = connected(&mut bench, &smf());
    let public = |bench: &mut Bench, teid: u32, ue: Ipv4Addr| {
        bench.send("n3", &up(teid, &request(ue)));
        // The source of what leaves, behind an Ethernet header.
        bench.received("n6").pop().map(|frame| Ipv4Addr::new(frame[26], frame[27], frame[28], frame[29]))
    };
    let (first, second) = (Ipv4Addr::new(203, 0, 113, 1), Ipv4Addr::new(203, 0, 113, 9));
    assert_eq!(public(&mut bench, teid, UE), Some(first));
    bench.reload(&pool("203.0.113.9-203.0.113.9")).expect("in order");
    assert_eq!(public(&mut bench, teid, UE), Some(first), "its connection stays");
    let other = Ipv4Addr::new(10, 45, 0, 77);
    let mut session = Session { cp_seid: 2, ip4: Some(other), ..Session::default() };
    session.established(&bench.establish(&session, &smf())).expect("accepted");
    let Some(FTeid::Given { teid: other_teid, .. }) = session.uplink_f_teid else { panic!("a tunnel was chosen") };
    assert_eq!(public(&mut bench, other_teid.0, other), Some(second));
    let moved = pool("203.0.113.9-203.0.113.9").replace("{ addresses", "{ instance = \"access\", addresses");
    let error = bench.reload(&moved).expect_err("another network would be translated");
    assert_eq!(error.path, ["nat", "pool"]);
    bench.close();
}

/// Subscribers' pools and public addresses of translation.
fn ranges(pool: &str, public: &str) -> String {
    format!("n4.pool = [{{ v4 = \"{pool}\" }}]\nnat.pool = [{{ addresses = \"{public}\" }}]\nnat.seed = 1")
}

#[test]
fn public_addresses_are_not_those_of_sessions() {
    let mut bench = Bench::new(&ranges("10.45.0.0/29", "203.0.113.1-203.0.113.2"));
    let (_, seid, Some(_)) = chosen(&mut bench, 1) else { panic!("an address was chosen") };
    // Both in one file; one worker.
    let error = bench.reload(&ranges("10.45.0.0/29", "10.45.0.0/28")).expect_err("an address would be of both");
    assert_eq!(error.path, ["nat", "pool", "0", "addresses"]);
    // A pool that was taken out, as long as a session has an address of it.
    bench.reload(&ranges("10.46.0.0/29", "203.0.113.1-203.0.113.2")).expect("in order");
    let error = bench.reload(&ranges("10.46.0.0/29", "10.45.0.0/28")).expect_err("a session has one of them");
    assert_eq!(error.path, ["nat", "pool"]);
    assert_eq!(end(&mut bench, seid), Cause::REQUEST_ACCEPTED);
    bench.reload(&ranges("10.47.0.0/29", "10.45.0.0/28")).expect("in order");
    // Public addresses that were taken out stay the translator's.
    let error = bench.reload(&ranges("203.0.113.0/29", "10.45.0.0/28")).expect_err("the translator has them");
    assert_eq!(error.path, ["n4", "pool"]);
    bench.close();
}
