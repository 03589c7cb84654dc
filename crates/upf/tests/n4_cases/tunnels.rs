//! Headers of every kind, and duplicates (3GPP TS 29.244, 5.2.3.1, 8.2.56, 8.2.64).

use testkit::packet::eth;

use super::super::*;
use crate::golden_cases::{N3_MAC, N6, N6_6, N6_MAC, ROUTER, ROUTER_6, ROUTER_MAC};

const COLLECTOR: u32 = 0x5555;

/// An FAR's forwarding parameters change.
fn into(far: u32, header: OuterHeaderCreation) -> SessionModificationRequest {
    let way = UpdateForwardingParameters { outer_header_creation: Some(header), ..Default::default() };
    let update = UpdateFar { far_id: FarId(far), update_forwarding_parameters: Some(way), ..Default::default() };
    SessionModificationRequest { update_fars: vec![update], ..Default::default() }
}

fn header(description: u16, ip4: Option<Ipv4Addr>, ip6: Option<Ipv6Addr>, port: Option<u16>) -> OuterHeaderCreation {
    OuterHeaderCreation { description, ip4, ip6, port, ..Default::default() }
}

#[test]
fn packets_leave_in_a_data_networks_tunnel_of_any_kind() {
    let mut bench = Bench::new("");
    let (session, teid) = connected(&mut bench, &smf());
    let user = request(UE);
    let out = || eth(N6_MAC, ROUTER_MAC);
    use OuterHeaderCreation as Header;
    for (asked, expected) in [
        (
            header(Header::UDP_IP4, Some(ROUTER), None, Some(4000)),
            out().ip4(N6, ROUTER).udp(2152, 4000).checksum(0).carrying(&user),
        ),
        (
            header(Header::UDP_IP6, None, Some(ROUTER_6), Some(4000)),
            out().ip6(N6_6, ROUTER_6).udp(2152, 4000).carrying(&user),
        ),
        (header(Header::IP4, Some(ROUTER), None, None), out().ip4(N6, ROUTER).carrying(&user)),
        (header(Header::IP6, None, Some(ROUTER_6), None), out().ip6(N6_6, ROUTER_6).carrying(&user)),
    ] {
        assert_eq!(bench.modify(&session, into(2, asked)).cause, Cause::REQUEST_ACCEPTED);
        bench.send("n3", &up(teid, &user));
        assert_eq!(bench.received("n6"), [expected.build()], "{asked:?}");
    }
    // They are no GTP-U peers: nobody asks whether they are there.
    assert_eq!(bench.sessions().paths().len(), 1);
    let tagged = OuterHeaderCreation { c_tag: Some([0, 0, 7]), ..header(Header::C_TAG, None, None, None) };
    let refused = bench.modify(&session, into(2, tagged));
    assert_eq!((refused.cause, refused.failed_rule_id), (Cause::SERVICE_NOT_SUPPORTED, Some(FailedRuleId::Far(2))));
    bench.close();
}

#[test]
fn a_data_networks_tunnel_ends_here() {
    let mut bench = Bench::new("");
    let (session, _) = connected(&mut bench, &smf());
    let removing = |description| UpdatePdr {
        pdr_id: PdrId(1),
        outer_header_removal: Some(OuterHeaderRemoval { description, extension_header_deletion: None }),
        ..Default::default()
    };
    let user = response(UE);
    let outer = || eth(ROUTER_MAC, N6_MAC).ip4(SERVER, UE);
    let (by_udp, by_ip) = (outer().udp(4000, 4000).carrying(&user).build(), outer().carrying(&user).build());
    for (description, whole, wrong) in [(2, &by_udp, &by_ip), (4, &by_ip, &by_udp), (3, &by_udp, &by_ip)] {
        let update = SessionModificationRequest { update_pdrs: vec![removing(description)], ..Default::default() };
        assert_eq!(bench.modify(&session, update).cause, Cause::REQUEST_ACCEPTED);
        bench.send("n6", whole);
        assert_eq!(bench.received("n3"), [down(&user.clone().ttl(63))], "{description}");
        bench.send("n6", wrong);
        // The right header, and nothing of a user's behind it.
        bench.send("n6", &outer().udp(4000, 4000).filled(8).build());
        assert_eq!(bench.received("n3"), Vec::<Vec<u8>>::new(), "{description}");
    }
    let update = UpdatePdr { pdr_id: PdrId(2), ..removing(4) };
    let refused =
        bench.modify(&session, SessionModificationRequest { update_pdrs: vec![update], ..Default::default() });
    assert_eq!((refused.cause, refused.offending_ie), (Cause::MANDATORY_IE_INCORRECT, Some(OffendingIe(95))));
    assert_eq!(refused.failed_rule_id, Some(FailedRuleId::Pdr(2)), "packets out of GTP-U have no other");
    bench.close();
}

/// Duplicates go to where copies are collected, by GTP-U.
fn collected(action: ApplyAction, ways: &[OuterHeaderCreation]) -> SessionModificationRequest {
    let way = |header: &OuterHeaderCreation| UpdateDuplicatingParameters {
        destination_interface: Some(DestinationInterface::LiFunction),
        outer_header_creation: Some(*header),
        ..Default::default()
    };
    let update = UpdateFar {
        far_id: FarId(2),
        apply_action: Some(action),
        update_duplicating_parameters: ways.iter().map(way).collect(),
        ..Default::default()
    };
    SessionModificationRequest { update_fars: vec![update], ..Default::default() }
}

#[test]
fn duplicates_go_where_the_rule_says_and_nobody_notices() {
    let mut bench = Bench::new("");
    let (session, teid) = connected(&mut bench, &smf());
    let user = request(UE);
    let copy = eth(N3_MAC, [2, 0, 0, 0, 3, 101]).ip4(N3, FAR_AWAY).gtpu_unsummed(COLLECTOR).carrying(&user).build();
    let by_udp = eth(N6_MAC, ROUTER_MAC).ip4(N6, ROUTER).udp(2152, 4000).checksum(0).carrying(&user).build();
    let on = to_router(&user.clone().ttl(63)).build();
    let ways = [access(FAR_AWAY, COLLECTOR), header(OuterHeaderCreation::UDP_IP4, Some(ROUTER), None, Some(4000))];

    let both = collected(ApplyAction::FORW | ApplyAction::DUPL, &ways);
    assert_eq!(bench.modify(&session, both).cause, Cause::REQUEST_ACCEPTED);
    bench.send("n3", &up(teid, &user));
    assert_eq!(bench.received("n3"), std::slice::from_ref(&copy), "as it came");
    let mut sent = bench.received("n6");
    sent.sort_by_key(Vec::len);
    assert_eq!(sent, [on.clone(), by_udp.clone()]);
    // What goes by another rule is not duplicated.
    bench.send("n6", &from_router(&response(UE)).build());
    assert_eq!(bench.received("n3"), [down(&response(UE).ttl(63))]);

    // Many at once: each, in order.
    bench.send_many("n3", &up(teid, &user), 100);
    assert_eq!((bench.received("n3"), bench.received("n6").len()), (vec![copy.clone(); 100], 200));

    // What is dropped is duplicated before.
    assert_eq!(
        bench.modify(&session, collected(ApplyAction::DROP | ApplyAction::DUPL, &[])).cause,
        Cause::REQUEST_ACCEPTED
    );
    bench.send("n3", &up(teid, &user));
    assert_eq!((bench.received("n3"), bench.received("n6")), (vec![copy.clone()], vec![by_udp]));

    assert_eq!(bench.modify(&session, collected(ApplyAction::FORW, &[])).cause, Cause::REQUEST_ACCEPTED);
    bench.send("n3", &up(teid, &user));
    assert_eq!((bench.received("n3"), bench.received("n6")), (vec![], vec![on]));
    bench.close();
}

#[test]
fn what_waits_is_duplicated_when_it_comes() {
    let mut bench = Bench::new("");
    let (mut session, _) = connected(&mut bench, &smf());
    let mut idle = session.idle();
    let copies = collected(ApplyAction::BUFF | ApplyAction::NOCP | ApplyAction::DUPL, &[access(FAR_AWAY, COLLECTOR)]);
    idle.update_fars[0].apply_action = copies.update_fars[0].apply_action;
    idle.update_fars[0].update_duplicating_parameters = copies.update_fars[0].update_duplicating_parameters.clone();
    assert_eq!(bench.modify(&session, idle).cause, Cause::REQUEST_ACCEPTED);
    bench.send("n6", &from_router(&response(UE)).build());
    let copy = eth(N3_MAC, [2, 0, 0, 0, 3, 101]).ip4(N3, FAR_AWAY).gtpu_unsummed(COLLECTOR).carrying(&response(UE));
    assert_eq!(bench.received("n3"), [copy.build()]);
    let back = session.connect(access(GNB, GNB_TEID));
    assert_eq!(bench.modify(&session, back).cause, Cause::REQUEST_ACCEPTED);
    assert_eq!(bench.received("n3"), [down(&response(UE).ttl(63))], "and not again");
    bench.close();
}

#[test]
fn duplicates_without_a_way_are_refused() {
    let mut bench = Bench::new("");
    let (session, _) = connected(&mut bench, &smf());
    let mut nowhere = collected(ApplyAction::FORW | ApplyAction::DUPL, &[access(FAR_AWAY, COLLECTOR)]);
    nowhere.update_fars[0].update_duplicating_parameters[0].outer_header_creation = None;
    let refused = bench.modify(&session, nowhere);
    assert_eq!((refused.cause, refused.offending_ie), (Cause::CONDITIONAL_IE_MISSING, Some(OffendingIe(84))));
    assert_eq!(refused.failed_rule_id, Some(FailedRuleId::Far(2)));
    let many = collected(ApplyAction::FORW | ApplyAction::DUPL, &[access(FAR_AWAY, COLLECTOR); 16]);
    assert_eq!(bench.modify(&session, many).failed_rule_id, Some(FailedRuleId::Far(2)));
    bench.close();
}
