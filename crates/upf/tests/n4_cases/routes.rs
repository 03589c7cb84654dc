//! Networks behind subscribers, and prefixes of other than 64 bits (3GPP TS 29.244, 5.16).

use super::super::*;

const SITE: Ipv4Addr = Ipv4Addr::new(192, 168, 7, 9);

/// A session with networks behind its subscriber.
fn with_routes(four: &[&str], six: &[&str]) -> SessionEstablishmentRequest {
    let session = Session { cp_seid: 1, ip4: Some(UE), ..Session::default() };
    let mut request = session.establish(&smf(), &NodeId::from(CP.ip()), CP.ip());
    request.create_pdrs[0].pdi.framed_routes = four.iter().map(|text| FramedRoute::from(*text)).collect();
    request.create_pdrs[0].pdi.framed_ip6_routes = six.iter().map(|text| FramedIp6Route::from(*text)).collect();
    request
}

fn establish(bench: &mut Bench, request: SessionEstablishmentRequest) -> (Session, u32) {
    let mut session = Session { cp_seid: request.cp_f_seid.seid, ip4: Some(UE), ..Session::default() };
    let Packet { message: Message::SessionEstablishmentResponse(response), .. } = bench.say(Some(0), request.into())
    else {
        panic!("an answer of its kind")
    };
    session.established(&response).expect("accepted");
    let connect = session.connect(access(GNB, GNB_TEID));
    assert_eq!(bench.modify(&session, connect).cause, Cause::REQUEST_ACCEPTED);
    let Some(FTeid::Given { teid, .. }) = session.uplink_f_teid else { panic!("a tunnel was chosen") };
    (session, teid.0)
}

#[test]
fn networks_behind_a_subscriber_are_reached_and_speak_for_themselves() {
    let mut bench = Bench::new("");
    let (session, teid) = establish(&mut bench, with_routes(&["192.168.0.0/16 0.0.0.0 1"], &["2001:db8:7::/48"]));
    let site6: Ipv6Addr = "2001:db8:7:9::1".parse().expect("address");
    bench.send("n6", &from_router(&response(SITE)).build());
    bench.send("n6", &from_router(&response(site6)).build());
    assert_eq!(bench.received("n3"), [down(&response(SITE).ttl(63)), down(&response(site6).ttl(63))]);
    bench.send("n3", &up(teid, &request(SITE)));
    bench.send("n3", &up(teid, &request(site6)));
    bench.send("n3", &up(teid, &request(Ipv4Addr::new(192, 169, 0, 1))));
    bench.send("n3", &up(teid, &request("2001:db8:8::1".parse::<Ipv6Addr>().expect("address"))));
    assert_eq!(
        bench.received("n6"),
        [to_router(&request(SITE).ttl(63)), to_router(&request(site6).ttl(63))].map(|p| p.build())
    );

    // A modification that speaks of other things keeps them; one that names others replaces them.
    let pdi = Pdi { framed_routes: vec![FramedRoute::from("192.168.7.0/24")], ..Pdi::default() };
    let pdi = Pdi { source_interface: SourceInterface::Core, ..pdi };
    let update = UpdatePdr { pdr_id: PdrId(1), pdi: Some(pdi), ..UpdatePdr::default() };
    let change = SessionModificationRequest { update_pdrs: vec![update], ..Default::default() };
    assert_eq!(bench.modify(&session, change).cause, Cause::REQUEST_ACCEPTED);
    bench.send("n6", &from_router(&response(SITE)).build());
    bench.send("n6", &from_router(&response(Ipv4Addr::new(192, 168, 8, 1))).build());
    assert_eq!(bench.received("n3"), [down(&response(SITE).ttl(63))]);

    assert_eq!(bench.delete(&session).cause, Cause::REQUEST_ACCEPTED);
    bench.send("n6", &from_router(&response(SITE)).build());
    assert_eq!(bench.received("n3"), Vec::<Vec<u8>>::new());
    bench.close();
}

#[test]
fn a_network_is_behind_one_subscriber_and_a_subscriber_within_it_is_its_own() {
    let mut bench = Bench::new("");
    let (_, teid) = establish(&mut bench, with_routes(&["10.45.0.0/16"], &[]));
    let neighbour = Ipv4Addr::new(10, 45, 0, 2);
    let other = Session { cp_seid: 2, ip4: Some(neighbour), ..Session::default() };
    assert_eq!(bench.establish(&other, &smf()).cause, Cause::REQUEST_ACCEPTED);
    bench.send("n6", &from_router(&response(neighbour)).build());
    assert_eq!(bench.received("n3"), Vec::<Vec<u8>>::new(), "it sleeps, and the network's owner does not get it");
    bench.send("n3", &up(teid, &request(neighbour)));
    assert_eq!(bench.received("n6"), Vec::<Vec<u8>>::new(), "nor may it speak for it");

    let mut again = with_routes(&["10.45.0.0/16"], &[]);
    again.cp_f_seid = FSeid::new(3, CP.ip());
    again.create_pdrs[0].pdi.ue_ip_addresses[0].ip4 = Some(Ipv4Addr::new(10, 46, 0, 1));
    let refused = bench.say(Some(0), again.into());
    assert_eq!(cause(&refused), Cause::RULE_CREATION_MODIFICATION_FAILURE);
    for nonsense in ["10.45.0.0/40", "0.0.0.0/0", "all of it", "2001:db8::/48"] {
        let mut wrong = with_routes(&[nonsense], &[]);
        wrong.cp_f_seid = FSeid::new(4, CP.ip());
        wrong.create_pdrs[0].pdi.ue_ip_addresses[0].ip4 = Some(Ipv4Addr::new(10, 46, 0, 1));
        assert_eq!(cause(&bench.say(Some(0), wrong.into())), Cause::MANDATORY_IE_INCORRECT, "{nonsense}");
    }
    assert_eq!(bench.sessions().store().len(), 2);
    bench.close();
}

#[test]
fn prefixes_longer_and_shorter_than_64_bits() {
    for (len, inside, outside) in [
        (56, "2001:db8:60:1ff::9", "2001:db8:60:200::9"),
        (128, "2001:db8:60:100::1", "2001:db8:60:100::2"),
        (80, "2001:db8:60:100:0:7::1", "2001:db8:60:100:1::1"),
    ] {
        let mut bench = Bench::new("");
        let address = |text: &str| text.parse::<Ipv6Addr>().expect("address");
        let first = address("2001:db8:60:100::1");
        let session = Session { cp_seid: 1, ip6: Some(first), ..Session::default() };
        let mut asked = session.establish(&smf(), &NodeId::from(CP.ip()), CP.ip());
        asked.create_pdrs[0].pdi.ue_ip_addresses[0].ip6_prefix_len = Some(len);
        let (_, teid) = establish(&mut bench, asked);
        bench.send("n6", &from_router(&response(address(inside))).build());
        bench.send("n6", &from_router(&response(address(outside))).build());
        assert_eq!(bench.received("n3"), [down(&response(address(inside)).ttl(63))], "/{len}");
        bench.send("n3", &up(teid, &request(address(inside))));
        bench.send("n3", &up(teid, &request(address(outside))));
        assert_eq!(bench.received("n6"), [to_router(&request(address(inside)).ttl(63)).build()], "/{len}");
        bench.close();
    }
}

#[test]
fn networks_survive_a_restart_and_lead_to_their_worker() {
    let folder = std::env::temp_dir().join(format!("weir-n4-routes-{}", std::process::id()));
    let (mut bench, _) = Bench::on_ledger("", &folder);
    bench.associate(0);
    establish(&mut bench, with_routes(&["192.168.0.0/16"], &[]));
    bench.close();
    let (mut bench, restored) = Bench::on_ledger("", &folder);
    assert_eq!((restored.sessions, restored.lost), (1, 0));
    bench.send("n6", &from_router(&response(SITE)).build());
    assert_eq!(bench.received("n3"), [down(&response(SITE).ttl(63))]);
    bench.close();
    std::fs::remove_dir_all(&folder).expect("ours");

    // The bench runs the last worker, whose part of the pool is the upper half.
    let mut bench = Bench::new("workers.count = 2\nn4.pool = [{ v4 = \"10.45.0.0/24\" }]");
    let mut asked = with_routes(&["192.168.0.0/16"], &[]);
    asked.create_pdrs[0].pdi.ue_ip_addresses[0].ip4 = Some(Ipv4Addr::new(10, 45, 0, 200));
    let frame = from_router(&response(SITE)).build();
    assert_ne!(bench.steer_key(1, &frame), Some(engine::SteerKey::Owner(1)));
    let (session, _) = establish(&mut bench, asked);
    assert_eq!(bench.steer_key(1, &frame), Some(engine::SteerKey::Owner(1)));
    bench.delete(&session);
    assert_ne!(bench.steer_key(1, &frame), Some(engine::SteerKey::Owner(1)));
    bench.close();
}
