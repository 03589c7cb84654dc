//! The 4G core's two user planes in one, and addresses we give out (3GPP TS 29.244, 5.21; TS 23.401).

use super::super::*;

fn teid(f_teid: Option<FTeid>) -> u32 {
    match f_teid {
        Some(FTeid::Given { teid, .. }) => teid.0,
        other => panic!("no tunnel: {other:?}"),
    }
}

/// The number of the tunnel that a packet of ours is in, to whom, and what it carries.
fn opened(sent: &[u8]) -> (u32, &[u8], &[u8]) {
    let teid = u32::from_be_bytes(sent[46..50].try_into().expect("four octets"));
    (teid, &sent[30..34], &sent[50..])
}

/// One subscriber's session of an SGW-U (Sxa) and of a PGW-U (Sxb) at once, each of a control plane of its own; the link
/// between them is the transport's.
#[test]
fn one_process_is_an_sgw_and_a_pgw_for_one_subscriber() {
    let mut bench = Bench::new("");
    let pgw =
        Profile { kind: Kind::PgwC, dnn: "internet".into(), volume_threshold: Some(1 << 30), ..Profile::default() };
    let sgw = Profile { kind: Kind::SgwC, ..pgw.clone() };
    let mut at_pgw = Session { cp_seid: 1, ip4: Some(UE), ..Session::default() };
    at_pgw.established(&bench.establish(&at_pgw, &pgw)).expect("accepted");
    let s5_up = teid(at_pgw.uplink_f_teid);
    let mut at_sgw = Session { cp_seid: 2, core: Some(access(FAR_AWAY, s5_up)), ..Session::default() };
    at_sgw.established(&bench.establish(&at_sgw, &sgw)).expect("accepted");
    let (s1u, s5_down) = (teid(at_sgw.uplink_f_teid), teid(at_sgw.downlink_f_teid));
    let connect = at_sgw.connect(access(GNB, GNB_TEID));
    assert_eq!(bench.modify(&at_sgw, connect).cause, Cause::REQUEST_ACCEPTED);
    let connect = at_pgw.connect(access(FAR_AWAY, s5_down));
    assert_eq!(bench.modify(&at_pgw, connect).cause, Cause::REQUEST_ACCEPTED);

    bench.send("n3", &from_gnb(Over::V4).gtpu(s1u).carrying(&request(UE)).build());
    let s5 = bench.received("n3");
    let [packet] = &s5[..] else { panic!("one packet: {s5:?}") };
    let (to, who, user) = opened(packet);
    assert_eq!((to, who), (s5_up, &FAR_AWAY.octets()[..]));
    bench.send("n3", &from_gnb(Over::V4).gtpu(to).payload(user).build());
    assert_eq!(bench.received("n6"), [to_router(&request(UE).ttl(63)).build()]);

    bench.send("n6", &from_router(&response(UE)).build());
    let s5 = bench.received("n3");
    let [packet] = &s5[..] else { panic!("one packet: {s5:?}") };
    let (to, who, user) = opened(packet);
    assert_eq!((to, who), (s5_down, &FAR_AWAY.octets()[..]));
    bench.send("n3", &from_gnb(Over::V4).gtpu(to).payload(user).build());
    let s1 = bench.received("n3");
    let [packet] = &s1[..] else { panic!("one packet: {s1:?}") };
    assert_eq!(opened(packet), (GNB_TEID, &GNB.octets()[..], &response(UE).ttl(63).build()[..]));

    // Each has its own account, and ends by itself.
    for session in [&at_sgw, &at_pgw] {
        let last = bench.delete(session);
        let used = last.usage_reports[0].volume_measurement.expect("volume was asked for");
        assert_eq!((used.uplink, used.downlink), (Some(60), Some(60)));
    }
    bench.close();
}

/// Our own address on N3.
const OURS: Ipv4Addr = Ipv4Addr::new(10, 0, 3, 1);

/// As before, but the SGW-C and the PGW-C were given the same address for S5, ours: a packet goes from the one session to
/// the other without a link, up and down, and is measured by both.
#[test]
fn between_two_gateways_of_one_process_no_link_is_needed() {
    let mut bench = Bench::new("");
    let pgw =
        Profile { kind: Kind::PgwC, dnn: "internet".into(), volume_threshold: Some(1 << 30), ..Profile::default() };
    let sgw = Profile { kind: Kind::SgwC, ..pgw.clone() };
    let mut at_pgw = Session { cp_seid: 1, ip4: Some(UE), ..Session::default() };
    at_pgw.established(&bench.establish(&at_pgw, &pgw)).expect("accepted");
    let mut at_sgw = Session { cp_seid: 2, core: Some(access(OURS, teid(at_pgw.uplink_f_teid))), ..Session::default() };
    at_sgw.established(&bench.establish(&at_sgw, &sgw)).expect("accepted");
    let connect = at_sgw.connect(access(GNB, GNB_TEID));
    assert_eq!(bench.modify(&at_sgw, connect).cause, Cause::REQUEST_ACCEPTED);
    let connect = at_pgw.connect(access(OURS, teid(at_sgw.downlink_f_teid)));
    assert_eq!(bench.modify(&at_pgw, connect).cause, Cause::REQUEST_ACCEPTED);

    bench.send("n3", &from_gnb(Over::V4).gtpu(teid(at_sgw.uplink_f_teid)).carrying(&request(UE)).build());
    assert_eq!(bench.received("n6"), [to_router(&request(UE).ttl(63)).build()]);
    bench.send("n6", &from_router(&response(UE)).build());
    let down = bench.received("n3");
    let [packet] = &down[..] else { panic!("one packet: {down:?}") };
    assert_eq!(opened(packet), (GNB_TEID, &GNB.octets()[..], &response(UE).ttl(63).build()[..]));
    for session in [&at_sgw, &at_pgw] {
        let used = bench.delete(session).usage_reports[0].volume_measurement.expect("volume was asked for");
        assert_eq!((used.uplink, used.downlink), (Some(60), Some(60)));
    }
    bench.close();
}

/// A session whose packets are sent to its own tunnel: they are not sent round for ever.
#[test]
fn a_tunnel_that_leads_back_to_itself_is_no_perpetual_motion() {
    let mut bench = Bench::new("");
    let sgw = Profile { kind: Kind::SgwC, dnn: "internet".into(), ..Profile::default() };
    let mut session = Session { cp_seid: 1, core: Some(access(FAR_AWAY, 1)), ..Session::default() };
    session.established(&bench.establish(&session, &sgw)).expect("accepted");
    let connect = session.connect(access(OURS, teid(session.downlink_f_teid)));
    assert_eq!(bench.modify(&session, connect).cause, Cause::REQUEST_ACCEPTED);
    bench.send("n3", &from_gnb(Over::V4).gtpu(teid(session.downlink_f_teid)).carrying(&request(UE)).build());
    assert!(bench.received("n3").is_empty() && bench.received("n6").is_empty());
    assert_eq!(bench.drops(), [("worker".to_owned(), "tunnel_loop", 1)]);
    bench.close();
}

#[test]
fn prefixes_are_given_out_too() {
    let mut bench = Bench::new(r#"n4.pool = [{ v4 = "10.45.0.0/29", v6 = "2001:db8:7::/62" }]"#);
    let mut given = Vec::new();
    for cp_seid in 1..=4 {
        let mut session = Session { cp_seid, access: Some(access(GNB, GNB_TEID)), ..Session::default() };
        let mut asked = session.establish(&smf(), &NodeId::from(CP.ip()), CP.ip());
        // The first one has both families.
        let wanted =
            UeIpAddress { destination: true, choose_ip6: true, choose_ip4: cp_seid == 1, ..Default::default() };
        asked.create_pdrs[0].pdi.ue_ip_addresses = vec![wanted];
        asked.pdn_type = Some(if cp_seid == 1 { PdnType::Ip4v6 } else { PdnType::Ip6 });
        let answer = bench.say(Some(0), asked.into());
        let Message::SessionEstablishmentResponse(response) = answer.message else { panic!("{answer:?}") };
        session.established(&response).expect("accepted");
        assert_eq!(session.ip4.is_some(), cp_seid == 1);
        let prefix = session.ip6.expect("a prefix was chosen");
        let host = Ipv6Addr::from(u128::from(prefix) | 7);
        bench.send("n6", &from_router(&crate::golden_cases::response(host)).build());
        let down = bench.received("n3");
        assert_eq!(down.len(), 1, "its packets reach it");
        bench.send("n3", &up(teid(session.uplink_f_teid), &request(host)));
        bench.send("n3", &up(teid(session.uplink_f_teid), &request(Ipv6Addr::from(u128::from(host) ^ 1 << 70))));
        assert_eq!(bench.received("n6"), [to_router(&request(host).ttl(63)).build()], "and it speaks for itself only");
        given.push((prefix, session));
    }
    let mut prefixes: Vec<u128> = given.iter().map(|(prefix, _)| u128::from(*prefix) >> 64).collect();
    prefixes.sort_unstable();
    prefixes.dedup();
    let all = u128::from("2001:db8:7::".parse::<Ipv6Addr>().expect("an address")) >> 66;
    assert_eq!((prefixes.len(), prefixes.iter().all(|prefix| prefix >> 2 == all)), (4, true), "{prefixes:x?}");
    let mut fifth = Session { cp_seid: 5, ..Session::default() }.establish(&smf(), &NodeId::from(CP.ip()), CP.ip());
    fifth.create_pdrs[0].pdi.ue_ip_addresses =
        vec![UeIpAddress { destination: true, choose_ip6: true, ..Default::default() }];
    assert_eq!(cause(&bench.say(Some(0), fifth.clone().into())), Cause::ALL_DYNAMIC_ADDRESSES_ARE_OCCUPIED);
    assert_eq!(bench.delete(&given[2].1).cause, Cause::REQUEST_ACCEPTED);
    assert_eq!(cause(&bench.say(Some(0), fifth.into())), Cause::REQUEST_ACCEPTED, "a prefix that was given back");
    bench.close();
}
