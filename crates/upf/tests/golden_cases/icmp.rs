//! ICMP errors, fragments, pings to the gateway.

use super::*;

testkit::cases! {
    ttl_expired_uplink, hop_limit_expired_uplink, ttl_expired_downlink, hop_limit_expired_downlink, no_error_about_errors,
    errors_are_limited, too_big_downlink, too_big_downlink_4g, too_big_downlink_over_ipv6, packet_too_big_downlink, exact_fit,
    fragments_downlink, fragments_uplink, fragments_of_fragments, too_big_uplink, packet_too_big_uplink, marked_fragments,
    ping_n3, padded_ping, pings_are_limited, ping_n6, ping_in_a_vlan, odd_pings, other_messages_to_us, ping_from_a_subscriber,
}

/// An ICMP error of ours to a subscriber, in its tunnel.
pub fn error_to_ue(about: &Packet, kind: u8, code: u8, rest: u32) -> Packet {
    let quoted = about.build();
    let four = quoted[0] >> 4 == 4;
    let user = if four {
        let head = ip4(N6, UE).tos(0xc0).icmp4(kind, code, rest);
        head.payload(&quoted[..quoted.len().min(548)])
    } else {
        let head = ip6(N6_6, UE_6).icmp6(kind, code, rest);
        head.payload(&quoted[..quoted.len().min(1232)])
    };
    let outer = eth(N3_MAC, GNB_MAC).ip4(N3, GNB).tos(if four { 0xc0 } else { 0 });
    outer.gtpu_unsummed(GNB_TEID).container_down(QFI).carrying(&user)
}

/// An ICMP error of ours to a server.
pub fn error_to_server(about: &Packet, kind: u8, code: u8, rest: u32) -> Packet {
    let quoted = about.build();
    let head = eth(N6_MAC, ROUTER_MAC);
    if quoted[0] >> 4 == 4 {
        let head = head.ip4(N6, SERVER).tos(0xc0).icmp4(kind, code, rest);
        head.payload(&quoted[..quoted.len().min(548)])
    } else {
        let head = head.ip6(N6_6, SERVER_6).icmp6(kind, code, rest);
        head.payload(&quoted[..quoted.len().min(1232)])
    }
}

fn ttl_expired_uplink() -> Case {
    let packet = |ttl| request(UE).ttl(ttl);
    case("Time to live runs out: the subscriber is told inside its tunnel (RFC 1812, 5.3.1).")
        .send("n3", &up(&packet(1)))
        .send("n3", &up(&packet(0)))
        .send("n3", &up(&packet(2)))
        .expect("n6", &to_router(&packet(1)))
        .expect("n3", &error_to_ue(&packet(1), 11, 0, 0))
        .expect("n3", &error_to_ue(&packet(0), 11, 0, 0))
        .drops("worker.ttl_expired", 2)
}

fn hop_limit_expired_uplink() -> Case {
    let packet = request(UE_6).ttl(1);
    case("The hop limit runs out: the subscriber is told inside its tunnel (RFC 4443, 3.3).")
        .send("n3", &up(&packet))
        .expect("n3", &error_to_ue(&packet, 3, 0, 0))
        .drops("worker.ttl_expired", 1)
}

fn ttl_expired_downlink() -> Case {
    let packet = response(UE).ttl(1);
    case("Time to live runs out on the way to a subscriber: the sender is told.")
        .send("n6", &from_router(&packet))
        .expect("n6", &error_to_server(&packet, 11, 0, 0))
        .drops("worker.ttl_expired", 1)
}

fn hop_limit_expired_downlink() -> Case {
    let packet = response(UE_6).ttl(1);
    case("The hop limit runs out on the way to a subscriber: the sender is told.")
        .send("n6", &from_router(&packet))
        .expect("n6", &error_to_server(&packet, 3, 0, 0))
        .drops("worker.ttl_expired", 1)
}

fn no_error_about_errors() -> Case {
    let error = ip4(UE, SERVER).ttl(1).icmp4(3, 3, 0).filled(28);
    let later = ip4(UE, SERVER).ttl(1).fragment(80, false).says(17).filled(20);
    let group = ip4(UE, [224, 0, 0, 5]).ttl(1).udp(1, 2);
    let error6 = ip6(UE_6, SERVER_6).ttl(1).icmp6(1, 4, 0).filled(48);
    case("No errors about ICMP errors, later fragments and multicasts (RFC 1812, 4.3.2.7).")
        .send("n3", &up(&error))
        .send("n3", &up(&later))
        .send("n3", &up(&group))
        .send("n3", &up(&error6))
        .drops("worker.ttl_expired", 4)
}

fn errors_are_limited() -> Case {
    let packet = response(UE).ttl(1);
    case("A hundred errors at once, then one a millisecond (RFC 1812, 4.3.2.8).")
        .then(|case| (0..130).fold(case, |case, _| case.send("n6", &from_router(&packet))))
        .then(|case| (0..100).fold(case, |case, _| case.expect("n6", &error_to_server(&packet, 11, 0, 0))))
        .at(ms(2))
        .then(|case| (0..5).fold(case, |case, _| case.send("n6", &from_router(&packet))))
        .then(|case| (0..2).fold(case, |case, _| case.expect("n6", &error_to_server(&packet, 11, 0, 0))))
        .drops("worker.ttl_expired", 135)
}

/// An IPv4 packet to the subscriber of that total length.
fn long(total: usize) -> Packet {
    ip4(SERVER, UE).udp(50_000, 40_000).filled(total - 28)
}

/// An IPv6 packet to the subscriber of that total length.
fn long6(total: usize) -> Packet {
    ip6(SERVER_6, UE_6).udp(50_000, 40_000).filled(total - 48)
}

fn too_big_downlink() -> Case {
    // 1500 less 20 (IPv4), 8 (UDP), 16 (GTP-U with container).
    case("Too long for the tunnel and not to be fragmented: the sender learns the size that fits (RFC 1191).")
        .send("n6", &from_router(&long(1500)))
        .send("n6", &from_router(&long(1457)))
        .expect("n6", &error_to_server(&long(1500), 3, 4, 1456))
        .expect("n6", &error_to_server(&long(1457), 3, 4, 1456))
        .drops("worker.too_big", 2)
}

fn too_big_downlink_4g() -> Case {
    case("Without container 8 bytes more fit.")
        .with("simulate.bearer = [{}]")
        .send("n6", &from_router(&long(1465)))
        .send("n6", &from_router(&long(1464)))
        .expect("n6", &error_to_server(&long(1465), 3, 4, 1464))
        .expect("n3", &tunnel(Over::V4, GNB_TEID).carrying(&long(1464).ttl(63)))
        .drops("worker.too_big", 1)
}

fn too_big_downlink_over_ipv6() -> Case {
    case("Over IPv6 20 bytes less fit.")
        .with(OVER_6)
        .send("n6", &from_router(&long(1437)))
        .send("n6", &from_router(&long(1436)))
        .expect("n6", &error_to_server(&long(1437), 3, 4, 1436))
        .expect("n3", &tunnel(Over::V6, GNB_TEID).container_down(QFI).carrying(&long(1436).ttl(63)))
        .drops("worker.too_big", 1)
}

fn packet_too_big_downlink() -> Case {
    case("IPv6 packets are never fragmented here: the sender learns the size that fits (RFC 8201).")
        .send("n6", &from_router(&long6(1500)))
        .expect("n6", &error_to_server(&long6(1500), 2, 0, 1456))
        .drops("worker.too_big", 1)
}

fn exact_fit() -> Case {
    case("What fits exactly goes.")
        .send("n6", &from_router(&long(1456)))
        .send("n6", &from_router(&long6(1456)))
        .expect("n3", &down(&long(1456).ttl(63)))
        .expect("n3", &down(&long6(1456).ttl(63)))
}

fn fragments_downlink() -> Case {
    let whole = ip4(SERVER, UE).ident(0x1234).may_fragment().udp(50_000, 40_000).filled(1472);
    let head = || ip4(SERVER, UE).ttl(63).ident(0x1234);
    case("A packet that may be fragmented is, before it enters the tunnel.")
        .send("n6", &from_router(&whole))
        .expect("n3", &down(&piece(&whole, head(), 0, 1432, true)))
        .expect("n3", &down(&piece(&whole, head(), 1432, 48, false)))
        .punts("oversize", 1)
        .counts("usage.ue0.urr1.down_packets", 1)
        .counts("usage.ue0.urr1.down_bytes", 1500)
}

const NARROW_N6: &str = r#"
port = [
  { name = "n3", uri = "memory:n3?mac=02:00:00:00:03:01", role = "access", addresses = ["10.0.3.1/24", "fd00:3::1/64"] },
  { name = "n6", uri = "memory:n6?mac=02:00:00:00:06:01", role = "core", addresses = ["10.0.6.1/24", "fd00:6::1/64"], mtu = 1300 },
]"#;

fn fragments_uplink() -> Case {
    let whole =
        ip4(UE, SERVER).ident(0x4321).may_fragment().tos(0x20).options([7, 3, 4, 0]).udp(40_000, 50_000).filled(1384);
    // A header of 24 bytes; the option is not copied into later fragments.
    let bytes = whole.build();
    let first = ip4(UE, SERVER).ttl(63).ident(0x4321).tos(0x20).options([7, 3, 4, 0]).fragment(0, true).says(17);
    let later = ip4(UE, SERVER).ttl(63).ident(0x4321).tos(0x20).fragment(1272, false).says(17);
    case("Uplink fragments, with options (RFC 791, 3.2).")
        .with(NARROW_N6)
        .send("n3", &up(&whole))
        .expect("n6", &to_router(&first.payload(&bytes[24..24 + 1272])))
        .expect("n6", &to_router(&later.payload(&bytes[24 + 1272..])))
        .punts("oversize", 1)
}

fn fragments_of_fragments() -> Case {
    let bytes: Vec<u8> = (0..1384).map(|n| n as u8).collect();
    let whole = ip4(UE, SERVER).ident(9).fragment(2800, true).says(17).payload(&bytes);
    let head = || ip4(UE, SERVER).ttl(63).ident(9);
    case("A fragment is cut into fragments, more to follow.")
        .with(NARROW_N6)
        .send("n3", &up(&whole))
        .expect("n6", &to_router(&head().fragment(2800, true).says(17).payload(&bytes[..1280])))
        .expect("n6", &to_router(&head().fragment(4080, true).says(17).payload(&bytes[1280..])))
        .punts("oversize", 1)
}

fn too_big_uplink() -> Case {
    let packet = |len: usize| ip4(UE, SERVER).udp(40_000, 50_000).filled(len - 28);
    case("Too long for the data network's link: the subscriber learns the size that fits.")
        .with(NARROW_N6)
        .send("n3", &up(&packet(1301)))
        .send("n3", &up(&packet(1300)))
        .expect("n6", &to_router(&packet(1300).ttl(63)))
        .expect("n3", &error_to_ue(&packet(1301), 3, 4, 1300))
        .drops("worker.too_big", 1)
}

fn packet_too_big_uplink() -> Case {
    let packet = ip6(UE_6, SERVER_6).udp(40_000, 50_000).filled(1300);
    case("Too long for the data network's link, IPv6.")
        .with(NARROW_N6)
        .send("n3", &up(&packet))
        .expect("n3", &error_to_ue(&packet, 2, 0, 1300))
        .drops("worker.too_big", 1)
}

fn marked_fragments() -> Case {
    let whole = ip4(SERVER, UE).ident(3).tos(0x04).may_fragment().udp(50_000, 40_000).filled(1472);
    let head = || ip4(SERVER, UE).ttl(63).tos(0x04).ident(3);
    let outer = |user: &Packet| {
        let head = eth(N3_MAC, GNB_MAC).ip4(N3, GNB).tos(0xb8);
        head.gtpu_unsummed(GNB_TEID).container_down(QFI).carrying(user)
    };
    case("Fragments enter the tunnel with the flow's mark.")
        .with("simulate.bearer = [{ qfi = 9, dscp = 46 }]")
        .send("n6", &from_router(&whole))
        .expect("n3", &outer(&piece(&whole, head(), 0, 1432, true)))
        .expect("n3", &outer(&piece(&whole, head(), 1432, 48, false)))
        .punts("oversize", 1)
}

fn ping_n3() -> Case {
    case("The gateway answers pings on the access side.")
        .send("n3", &from_gnb(Over::V4).ident(0x77).ping(1, 2).filled(56))
        .send("n3", &from_gnb(Over::V6).ping(3, 4).filled(57))
        .expect("n3", &eth(N3_MAC, GNB_MAC).ip4(N3, GNB).ident(0x77).pong(1, 2).filled(56))
        .expect("n3", &eth(N3_MAC, GNB_MAC).ip6(N3_6, GNB_6).pong(3, 4).filled(57))
        .punts("ping", 2)
}

fn padded_ping() -> Case {
    case("What the link padded is not sent back.")
        .send("n3", &from_gnb(Over::V4).ping(1, 2).payload(b"x").padded_to(100))
        .send("n6", &eth(ROUTER_MAC, N6_MAC).ip6(ROUTER_6, N6_6).ping(3, 4).payload(b"x").padded_to(100))
        .expect("n3", &eth(N3_MAC, GNB_MAC).ip4(N3, GNB).pong(1, 2).payload(b"x"))
        .expect("n6", &eth(N6_MAC, ROUTER_MAC).ip6(N6_6, ROUTER_6).pong(3, 4).payload(b"x"))
        .punts("ping", 2)
}

fn pings_are_limited() -> Case {
    let ping = eth(ROUTER_MAC, N6_MAC).ip4(ROUTER, N6).ping(1, 1);
    let pong = eth(N6_MAC, ROUTER_MAC).ip4(N6, ROUTER).pong(1, 1);
    case("A thousand answers at once, then ten a millisecond.")
        .then(|case| (0..1030).fold(case, |case, _| case.send("n6", &ping)))
        .then(|case| (0..1000).fold(case, |case, _| case.expect("n6", &pong)))
        .at(ms(1))
        .then(|case| (0..20).fold(case, |case, _| case.send("n6", &ping)))
        .then(|case| (0..10).fold(case, |case, _| case.expect("n6", &pong)))
        .punts("ping", 1010)
        .drops("worker.limited", 40)
}

fn ping_n6() -> Case {
    case("The gateway answers pings on the core side, whatever their hop count.")
        .send("n6", &eth(ROUTER_MAC, N6_MAC).ip4(SERVER, N6).ttl(1).ping(1, 2))
        .send("n6", &eth(ROUTER_MAC, N6_MAC).ip6(SERVER_6, N6_6).ttl(1).ping(3, 4).filled(1))
        .expect("n6", &eth(N6_MAC, ROUTER_MAC).ip4(N6, SERVER).pong(1, 2))
        .expect("n6", &eth(N6_MAC, ROUTER_MAC).ip6(N6_6, SERVER_6).pong(3, 4).filled(1))
        .punts("ping", 2)
}

fn ping_in_a_vlan() -> Case {
    case("Pings in a VLAN.")
        .with(link::TAGGED)
        .send("n6", &eth(ROUTER_MAC, N6_MAC).vlan(60).ip4(ROUTER, N6).ping(1, 2).filled(30))
        .expect("n6", &eth(N6_MAC, ROUTER_MAC).vlan(60).ip4(N6, ROUTER).pong(1, 2).filled(30))
        .punts("ping", 1)
}

fn odd_pings() -> Case {
    let ping = |src: [u8; 4]| eth(ROUTER_MAC, N6_MAC).ip4(src, N6).ping(1, 1).filled(8);
    let fragment = eth(ROUTER_MAC, N6_MAC).ip4(SERVER, N6).fragment(0, true).ping(1, 1).filled(8);
    case("Pings from no one host, and fragments of pings, are not answered.")
        .send("n6", &ping([0, 0, 0, 0]))
        .send("n6", &ping([127, 0, 0, 1]))
        .send("n6", &ping([224, 0, 0, 1]))
        .send("n6", &ping([255, 255, 255, 255]))
        .send("n6", &fragment)
        .punts("ping", 5)
}

fn other_messages_to_us() -> Case {
    let quoted = to_gnb(Over::V4).udp(2152, 2152).build();
    case("Other ICMP messages to us are taken; nothing else is served on the core side.")
        .send("n3", &from_gnb(Over::V4).icmp4(3, 3, 0).payload(&quoted[14..]))
        .send("n6", &eth(ROUTER_MAC, N6_MAC).ip6(ROUTER_6, N6_6).icmp6(2, 0, 1400).filled(48))
        .send("n6", &eth(ROUTER_MAC, N6_MAC).ip4(ROUTER, N6).tcp(40_000, 179))
        .send("n6", &eth(ROUTER_MAC, N6_MAC).ip4(ROUTER, N6).gtpu(TEID).carrying(&request(UE)))
        .punts("icmp_other", 2)
        .drops("downlink.parse_plain.no_service", 2)
}

fn ping_from_a_subscriber() -> Case {
    // RFC 1812, 4.3.3.6: a router answers pings to any of its addresses.
    case("A subscriber pings the gateway's own addresses in its data network; anything else to them is dropped.")
        .send("n3", &up(&ip4(UE, N6).ping(5, 6).filled(16)))
        .send("n3", &up(&ip6(UE_6, N6_6).ping(7, 8).filled(17)))
        .send("n3", &up(&ip4(UE, N6).udp(40_000, 50_000)))
        .send("n3", &up(&ip6(UE_6, N6_6).tcp(40_000, 50_000)))
        .expect("n3", &down(&ip4(N6, UE).pong(5, 6).filled(16)))
        .expect("n3", &down(&ip6(N6_6, UE_6).pong(7, 8).filled(17)))
        .punts("ping", 2)
        .drops("worker.not_for_us", 2)
}
