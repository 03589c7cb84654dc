//! Subscribers who are sent to a web page (3GPP TS 29.244, 8.2.20), always or when their quota is used up (5.2.2.2.1).

use upf::sessions::Room;
use wire::tcp::{self, Repr, flag};

use super::super::*;

const PAGE: &str = "http://top-up.example/";

/// The redirection as FAR 7.
pub fn redirection(kind: u8, address: &str) -> CreateFar {
    let to = RedirectInformation { kind, address: address.into(), other_address: None };
    CreateFar {
        far_id: FarId(7),
        apply_action: ApplyAction::FORW,
        forwarding_parameters: Some(ForwardingParameters {
            destination_interface: DestinationInterface::Core,
            redirect_information: Some(to),
            ..Default::default()
        }),
        ..Default::default()
    }
}

/// A TCP segment of the subscriber's to a web server.
pub fn segment(flags: u8, seq: u32, ack: u32, data: &[u8]) -> Wire {
    let head = Repr { src_port: 40_000, dst_port: 80, seq, ack, flags, window: 1000, mss: None };
    let mut bytes = vec![0; head.header_len()];
    head.emit(&mut bytes).expect("room");
    bytes.extend(data);
    let pseudo = wire::checksum::pseudo4(UE.into(), SERVER.into(), 6, bytes.len() as u16);
    tcp::Packet::new_checked(&mut bytes[..]).expect("whole").fill_checksum(pseudo);
    ip4(UE, SERVER).says(6).payload(bytes)
}

/// What came back in the subscriber's tunnel: flags, sequence, acknowledgment, data.
fn answered(bench: &mut Bench) -> Vec<(u8, u32, u32, Vec<u8>)> {
    let one = |packet: Vec<u8>| {
        // Ethernet, IPv4, UDP, GTP-U with the container; then the user's packet.
        let user = &packet[14 + 20 + 8 + 16..];
        assert_eq!((&user[12..16], &user[16..20], user[8]), (&SERVER.octets()[..], &UE.octets()[..], 64));
        let tcp = tcp::Packet::new_checked(&user[20..]).expect("TCP");
        (tcp.flags(), tcp.seq(), tcp.ack(), tcp.payload().to_vec())
    };
    bench.received("n3").into_iter().map(one).collect()
}

/// The subscriber asks for a page and is sent elsewhere.
pub fn is_sent_elsewhere(bench: &mut Bench, teid: u32) {
    bench.send("n3", &up(teid, &segment(flag::SYN, 99, 0, b"")));
    let syn = answered(bench);
    let [(flags, ours, 100, _)] = &syn[..] else { panic!("one answer, not {syn:?}") };
    assert_eq!(*flags, flag::SYN | flag::ACK);
    let ours = ours.wrapping_add(1);
    bench.send("n3", &up(teid, &segment(flag::ACK | flag::PSH, 100, ours, b"GET / HTTP/1.1\r\n\r\n")));
    let told = answered(bench);
    let [(_, seq, 118, page)] = &told[..] else { panic!("one answer, not {told:?}") };
    let page = String::from_utf8_lossy(page);
    assert_eq!(*seq, ours);
    assert!(page.starts_with("HTTP/1.1 302 ") && page.ends_with(&format!("Location: {PAGE}\r\n\r\n")), "{page}");
}

#[test]
fn a_subscriber_is_sent_to_a_page_and_let_go_again() {
    let mut bench = Bench::new("");
    let (session, teid) = connected(&mut bench, &smf());
    let way = |far: u32| UpdatePdr { pdr_id: PdrId(2), far_id: Some(FarId(far)), ..UpdatePdr::default() };
    let create_fars = vec![redirection(2, PAGE)];
    let change = SessionModificationRequest { create_fars, update_pdrs: vec![way(7)], ..Default::default() };
    assert_eq!(bench.modify(&session, change).cause, Cause::REQUEST_ACCEPTED);
    is_sent_elsewhere(&mut bench, teid);
    bench.send("n3", &up(teid, &request(UE)));
    bench.send("n3", &up(teid, &segment(flag::ACK, 7, 8, b"of an old connection")));
    assert_eq!(answered(&mut bench), [(flag::RST, 8, 0, vec![])]);
    assert_eq!(bench.received("n6"), Vec::<Vec<u8>>::new());
    let back = SessionModificationRequest { update_pdrs: vec![way(2)], ..Default::default() };
    assert_eq!(bench.modify(&session, back).cause, Cause::REQUEST_ACCEPTED);
    bench.send("n3", &up(teid, &request(UE)));
    assert_eq!(bench.received("n6").len(), 1);
    bench.close();
}

#[test]
fn who_has_used_up_the_quota_is_sent_to_a_page_until_there_is_more() {
    let mut bench = Bench::new("");
    let profile = Profile { volume_quota: Some(120), ..smf() };
    let (session, teid) = connected(&mut bench, &profile);
    let update = UpdateUrr {
        urr_id: UrrId(1),
        far_id_for_quota_action: Some(FarId(7)),
        volume_quota: Some(VolumeQuota::total(120)),
        ..UpdateUrr::default()
    };
    let mut change = SessionModificationRequest { update_urrs: vec![update], ..Default::default() };
    let refused = bench.modify(&session, change.clone());
    assert_eq!(refused.failed_rule_id, Some(FailedRuleId::Urr(1)), "no such FAR");
    change.create_fars = vec![redirection(2, PAGE)];
    assert_eq!(bench.modify(&session, change).cause, Cause::REQUEST_ACCEPTED);
    for _ in 0..4 {
        bench.send("n3", &up(teid, &request(UE)));
    }
    assert_eq!(bench.received("n6").len(), 2);
    let reported: Vec<_> = bench.reports().iter().flat_map(usage_of).collect();
    assert_eq!(reported, [(120, UsageReportTrigger::VOLQU)]);
    bench.send("n6", &from_router(&response(UE)).build());
    assert_eq!(bench.received("n3"), Vec::<Vec<u8>>::new(), "nothing of others comes through");
    is_sent_elsewhere(&mut bench, teid);
    assert_eq!((bench.received("n6").len(), bench.reports().len()), (0, 0));
    let more = UpdateUrr { urr_id: UrrId(1), volume_quota: Some(VolumeQuota::total(60)), ..UpdateUrr::default() };
    let change = SessionModificationRequest { update_urrs: vec![more], ..Default::default() };
    assert_eq!(bench.modify(&session, change).cause, Cause::REQUEST_ACCEPTED);
    bench.send("n3", &up(teid, &request(UE)));
    assert_eq!(bench.received("n6").len(), 1);
    is_sent_elsewhere(&mut bench, teid);
    bench.close();
}

#[test]
fn a_quota_used_up_stops_even_if_there_is_no_room_for_what_comes_then() {
    let mut bench = Bench::new("");
    let (session, teid) = connected(&mut bench, &Profile { volume_quota: Some(120), ..smf() });
    let update = UpdateUrr { urr_id: UrrId(1), far_id_for_quota_action: Some(FarId(7)), ..UpdateUrr::default() };
    let create_fars = vec![redirection(2, PAGE)];
    let change = SessionModificationRequest { create_fars, update_urrs: vec![update], ..Default::default() };
    assert_eq!(bench.modify(&session, change).cause, Cause::REQUEST_ACCEPTED);
    bench.set_room(Room { lines: 0, keys: usize::MAX });
    for second in 2..6 {
        bench.send("n3", &up(teid, &request(UE)));
        bench.send("n3", &up(teid, &request(UE)));
        bench.turn_to(secs(second));
    }
    let asks = SessionModificationRequest { pfcp_sm_req_flags: Some(PfcpSmReqFlags::QAURR), ..Default::default() };
    assert_eq!(bench.modify(&session, asks).cause, Cause::REQUEST_ACCEPTED);
    bench.send("n3", &up(teid, &request(UE)));
    assert_eq!(bench.received("n6").len(), 2, "what was paid for");
    bench.set_room(Room::default());
    bench.turn_to(secs(10));
    is_sent_elsewhere(&mut bench, teid);
    bench.close();
}

#[test]
fn where_to_is_an_address_a_page_or_refused() {
    let mut bench = Bench::new("");
    for (kind, address, expected) in [
        (0, "192.0.2.1", Cause::REQUEST_ACCEPTED),
        (1, "2001:db8::1", Cause::REQUEST_ACCEPTED),
        (2, "https://top-up.example/", Cause::REQUEST_ACCEPTED),
        (0, "top-up.example", Cause::MANDATORY_IE_INCORRECT),
        (2, "http://a/\r\nSet-Cookie: b", Cause::MANDATORY_IE_INCORRECT),
        (3, "sip:top-up.example", Cause::SERVICE_NOT_SUPPORTED),
    ] {
        let session = Session { cp_seid: 1, ip4: Some(UE), ..Session::default() };
        let mut asked = session.establish(&smf(), &NodeId::from(CP.ip()), CP.ip());
        asked.create_fars.push(redirection(kind, address));
        asked.create_pdrs[1].far_id = Some(FarId(7));
        let answer = bench.say(Some(0), asked.into());
        assert_eq!(cause(&answer), expected, "{address}");
        let Message::SessionEstablishmentResponse(response) = answer.message else { panic!("of its kind") };
        if let Some(up_f_seid) = response.up_f_seid {
            bench.delete(&Session { up_f_seid: Some(up_f_seid), ..session });
        }
    }
    bench.close();
}
