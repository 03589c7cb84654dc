//! GTP-U's own messages (TS 29.281, 7).

use super::*;

testkit::cases! {
    echo_over_ipv4, echo_over_ipv6, echo_from_another_port, echo_in_a_vlan, echo_response_is_taken, error_indication_over_ipv4,
    error_indication_over_ipv6, error_indications_are_limited, error_indications_are_limited_by_peer,
    no_error_indications_at_all, error_indication_for_tunnel_zero, error_indication_is_heard, broken_error_indication, end_marker,
    supported_extensions_are_heard, extension_to_be_comprehended, extension_to_be_comprehended_ipv6,
    extension_notices_are_limited, end_marker_is_passed_on, end_marker_is_passed_on_ipv6, error_indication_follows_the_rules,
    nobody_answers_a_group,
}

/// A message to us.
fn message(over: Over, kind: u8, teid: u32) -> Packet {
    from_gnb(over).udp(2152, 2152).gtpu_message(kind, teid)
}

/// A message of ours.
fn answer(over: Over, port: u16, kind: u8) -> Packet {
    to_gnb(over).udp(2152, port).gtpu_message(kind, 0)
}

const RECOVERY: [u8; 2] = [14, 0];

fn echo_over_ipv4() -> Case {
    case("An echo request is answered with its sequence number and a recovery counter of zero.")
        .send("n3", &message(Over::V4, 1, 0).seq(0xbeef))
        .expect("n3", &answer(Over::V4, 2152, 2).seq(0xbeef).payload(RECOVERY))
        .punts("gtp_echo", 1)
}

fn echo_over_ipv6() -> Case {
    case("An echo request over IPv6, with a private extension in it.")
        .send("n3", &message(Over::V6, 1, 0).seq(7).payload([255, 0, 3, 1, 2, 3]))
        .expect("n3", &answer(Over::V6, 2152, 2).seq(7).payload(RECOVERY))
        .punts("gtp_echo", 1)
}

fn echo_from_another_port() -> Case {
    case("The answer goes to the port the request came from (TS 29.281, 4.4.2.2).")
        .send("n3", &from_gnb(Over::V4).udp(33_333, 2152).gtpu_message(1, 0).seq(1))
        .expect("n3", &answer(Over::V4, 33_333, 2).seq(1).payload(RECOVERY))
        .punts("gtp_echo", 1)
}

fn echo_in_a_vlan() -> Case {
    let request = eth(GNB_MAC, N3_MAC).vlan(30).ip4(GNB, N3).udp(2152, 2152).gtpu_message(1, 0).seq(1);
    let reply = eth(N3_MAC, GNB_MAC).vlan(30).ip4(N3, GNB).udp(2152, 2152).gtpu_message(2, 0).seq(1);
    case("Answers carry the port's tag.")
        .with(link::TAGGED)
        .send("n3", &request)
        .expect("n3", &reply.payload(RECOVERY))
        .punts("gtp_echo", 1)
}

fn echo_response_is_taken() -> Case {
    case("An echo response is taken and not answered.")
        .send("n3", &message(Over::V4, 2, 0).seq(1).payload(RECOVERY))
        .punts("gtp_echo", 1)
}

/// UDP port, long PDCP PDU number, PDU session container, PDCP PDU number.
const SUPPORTED: [u8; 6] = [141, 4, 0x40, 0x82, 0x85, 0xc0];

/// TEID Data I, GTP-U Peer Address.
fn elements(teid: u32, address: &[u8]) -> Vec<u8> {
    [&[16][..], &teid.to_be_bytes(), &[133, 0, address.len() as u8], address].concat()
}

fn error_indication_over_ipv4() -> Case {
    let packet = from_gnb(Over::V4).gtpu(0x0bad_cafe).container_up(QFI).carrying(&request(UE));
    case("Who sends into a tunnel that is not there is told: its TEID, and the address it sent to.")
        .send("n3", &packet)
        .expect("n3", &answer(Over::V4, 2152, 26).seq(0).payload(elements(0x0bad_cafe, &N3.octets())))
        .drops("worker.unknown_teid", 1)
}

fn error_indication_over_ipv6() -> Case {
    let packet = eth(GNB_MAC, N3_MAC).ip6(GNB_6, N3_6).udp(44_444, 2152).gtpu_message(255, 5).carrying(&request(UE));
    case("Over IPv6, and to GTP-U's port whatever port the packet came from.")
        .send("n3", &packet)
        .expect("n3", &answer(Over::V6, 2152, 26).seq(0).payload(elements(5, &N3_6.octets())))
        .drops("worker.unknown_teid", 1)
}

/// A packet for tunnel 5, which is not there, from the gNB's address plus `n`; and what is said about it.
fn stray(n: u8) -> (Packet, Packet) {
    let gnb = Ipv4Addr::new(10, 0, 3, 100 + n);
    let packet = eth(GNB_MAC, N3_MAC).ip4(gnb, N3).gtpu(5).carrying(&request(UE));
    let told = eth(N3_MAC, GNB_MAC).ip4(N3, gnb).udp(2152, 2152).gtpu_message(26, 0).seq(0);
    (packet, told.payload(elements(5, &N3.octets())))
}

fn error_indications_are_limited() -> Case {
    case("Eight a second for all peers together: the rest is dropped in silence.")
        .with("gtpu.error_indications_per_second = 8")
        .then(|case| {
            (0..20).fold(case, |case, n| {
                let (packet, told) = stray(n);
                let case = case.send("n3", &packet);
                if n < 8 { case.expect("n3", &told) } else { case }
            })
        })
        .at(ms(125))
        .send("n3", &stray(30).0)
        .send("n3", &stray(31).0)
        .expect("n3", &stray(30).1)
        .drops("worker.unknown_teid", 22)
}

fn error_indications_are_limited_by_peer() -> Case {
    let (packet, told) = stray(0);
    case("A quarter of them for one peer, so that a noisy one does not silence the others.")
        .with("gtpu.error_indications_per_second = 8")
        .then(|case| (0..20).fold(case, |case, _| case.send("n3", &packet)))
        .expect("n3", &told)
        .expect("n3", &told)
        .send("n3", &stray(1).0)
        .expect("n3", &stray(1).1)
        .at(ms(500))
        .send("n3", &packet)
        .send("n3", &packet)
        .expect("n3", &told)
        .drops("worker.unknown_teid", 23)
}

fn no_error_indications_at_all() -> Case {
    case("None, if so configured.")
        .with("gtpu.error_indications_per_second = 0")
        .send("n3", &stray(0).0)
        .drops("worker.unknown_teid", 1)
}

fn error_indication_for_tunnel_zero() -> Case {
    case("No tunnel has the number zero; the user's packet is not looked at.")
        .send("n3", &from_gnb(Over::V4).gtpu(0).payload([0; 3]))
        .expect("n3", &answer(Over::V4, 2152, 26).seq(0).payload(elements(0, &N3.octets())))
        .drops("worker.unknown_teid", 1)
}

fn error_indication_is_heard() -> Case {
    case("A gNB that does not know its tunnel any more says so; control hears it.")
        .send("n3", &message(Over::V4, 26, 0).seq(9).payload(elements(GNB_TEID, &GNB.octets())))
        .send("n3", &message(Over::V6, 26, 0).seq(9).extension(0x40, [8, 0x68]).payload(elements(1, &GNB_6.octets())))
        .punts("gtp_error_indication", 2)
        .counts("control.error_indications", 2)
        .counts("control.lost_tunnels", 1)
        .counts("error_indications.ue0", 1)
}

fn error_indication_follows_the_rules() -> Case {
    let about = |teid, gnb: [u8; 4]| message(Over::V4, 26, 0).seq(9).payload(elements(teid, &gnb));
    let old = |ue: u32| about(GNB_TEID + ue, [10, 0, 3, 100]);
    case(
        "The session is the one that sends into that tunnel now: after a handover the new tunnel's, not the old one's.",
    )
    .with("simulate.ues = 2")
    .send("n3", &old(1))
    .at(ms(5))
    .step(r#"do = "rules", ue = 1, simulate = { gnb_first = "10.0.3.101", gnb_teid_first = 0x0500_0000 }"#)
    .at(ms(6))
    .send("n3", &old(1))
    .send("n3", &about(0x0500_0001, [10, 0, 3, 101]))
    .send("n3", &about(0x0500_0001, [10, 0, 3, 102]))
    .at(ms(7))
    .step(r#"do = "remove", ue = 1"#)
    .at(ms(8))
    .send("n3", &about(0x0500_0001, [10, 0, 3, 101]))
    .punts("gtp_error_indication", 5)
    .counts("control.error_indications", 5)
    .counts("control.lost_tunnels", 2)
    .counts("error_indications.ue0", 0)
}

fn end_marker_is_passed_on() -> Case {
    let out = eth(N3_MAC, [2, 0, 0, 0, 3, 0x65]).ip4(N3, [10, 0, 3, 101]).udp(2152, 2152).checksum(0);
    case("Where a tunnel's packets go on into another one, so does its end marker; in its other tunnels it ends.")
        .with(r#"neighbour = [{ port = "n3", address = "10.0.3.101", mac = "02:00:00:00:03:65" }]"#)
        .step(r#"do = "relay", ue = 0, to = "10.0.3.101", teid = 0x0900_0009"#)
        .at(ms(1))
        .send("n3", &message(Over::V4, 254, TEID))
        .send("n3", &message(Over::V4, 254, TEID + 1))
        .expect("n3", &out.gtpu_message(254, 0x0900_0009))
        .punts("gtp_end_marker", 2)
}

fn end_marker_is_passed_on_ipv6() -> Case {
    let there = Ipv6Addr::new(0xfd00, 3, 0, 0, 0, 0, 0, 0x101);
    let out = eth(N3_MAC, [2, 0, 0, 0, 3, 0x65]).ip6(N3_6, there).udp(2152, 2152);
    case("Over IPv6, with the container of its QoS flow.")
        .with(r#"neighbour = [{ port = "n3", address = "fd00:3::101", mac = "02:00:00:00:03:65" }]"#)
        .step(r#"do = "relay", ue = 0, to = "fd00:3::101", teid = 0x0900_0009"#)
        .at(ms(1))
        .send("n3", &message(Over::V4, 254, TEID).container_up(QFI))
        .expect("n3", &out.gtpu_message(254, 0x0900_0009))
        .punts("gtp_end_marker", 1)
}

fn nobody_answers_a_group() -> Case {
    let from = |source: [u8; 4]| eth(GNB_MAC, N3_MAC).ip4(source, N3).udp(2152, 2152);
    case("What says it comes from a group, from nobody or from everybody is not answered.")
        .send("n3", &from([224, 0, 0, 1]).gtpu_message(1, 0).seq(1))
        .send("n3", &from([255, 255, 255, 255]).gtpu_message(255, 5).carrying(&request(UE)))
        .send("n3", &from([0, 0, 0, 0]).gtpu_message(255, TEID).extension(0x84, [0, 0]).carrying(&request(UE)))
        .punts("gtp_echo", 1)
        .drops("worker.unknown_teid", 1)
        .drops("worker.gtpu_unsupported", 1)
}

fn broken_error_indication() -> Case {
    case("Error indications without their elements, or with broken ones, mean nothing.")
        .send("n3", &message(Over::V4, 26, 0).seq(9))
        .send("n3", &message(Over::V4, 26, 0).seq(9).payload([16, 0, 0]))
        .send("n3", &message(Over::V4, 26, 0).seq(9).payload(elements(1, &[1, 2, 3])))
        .punts("gtp_error_indication", 3)
        .counts("control.error_indications", 0)
}

fn end_marker() -> Case {
    case("End markers are taken.")
        .send("n3", &message(Over::V4, 254, TEID))
        .send("n3", &message(Over::V6, 254, TEID).container_up(QFI))
        .punts("gtp_end_marker", 2)
}

fn supported_extensions_are_heard() -> Case {
    case("A peer's list of extension headers is taken.")
        .send("n3", &message(Over::V4, 31, 0).seq(1).payload([141, 2, 0x85, 0xc0]))
        .punts("gtp_extension_notice", 1)
}

fn extension_to_be_comprehended() -> Case {
    let with =
        |kind: u8| from_gnb(Over::V4).gtpu(TEID).extension(kind, [0, 0]).container_up(QFI).carrying(&request(UE));
    let told = answer(Over::V4, 2152, 31).seq(0).payload(SUPPORTED);
    case("Extension headers that must be comprehended and are not: the packet is dropped, its sender learns which are.")
        .send("n3", &with(0x84))
        .send("n3", &with(0xfe))
        .expect("n3", &told)
        .expect("n3", &told)
        .drops("worker.gtpu_unsupported", 2)
}

fn extension_to_be_comprehended_ipv6() -> Case {
    let head = |kind, teid| message(Over::V6, kind, teid).extension(0x81, [0, 0]);
    let told = answer(Over::V6, 2152, 31).seq(0).payload(SUPPORTED);
    case("In any message but such an answer, known tunnel or not; unknown messages are none of ours.")
        .send("n3", &head(255, 77).carrying(&request(UE)))
        .send("n3", &head(1, 0).seq(7))
        .send("n3", &head(254, TEID))
        .send("n3", &head(31, 0).seq(1).payload(SUPPORTED))
        .send("n3", &head(99, 0))
        .expect("n3", &told)
        .expect("n3", &told)
        .expect("n3", &told)
        .punts("gtp_extension_notice", 1)
        .drops("worker.gtpu_unsupported", 3)
        .drops("uplink.gtpu_decap.gtpu_unsupported", 1)
}

fn extension_notices_are_limited() -> Case {
    let packet = from_gnb(Over::V4).gtpu(TEID).extension(0x84, [0, 0]).carrying(&request(UE));
    let told = answer(Over::V4, 2152, 31).seq(0).payload(SUPPORTED);
    case("As Error Indications are: a quarter of them for one peer. The one does not use up the other.")
        .with("gtpu.error_indications_per_second = 8")
        .then(|case| (0..20).fold(case, |case, _| case.send("n3", &packet)))
        .expect("n3", &told)
        .expect("n3", &told)
        .send("n3", &stray(0).0)
        .expect("n3", &stray(0).1)
        .at(ms(500))
        .send("n3", &packet)
        .send("n3", &packet)
        .expect("n3", &told)
        .drops("worker.gtpu_unsupported", 22)
        .drops("worker.unknown_teid", 1)
}
