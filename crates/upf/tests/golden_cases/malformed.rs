//! Broken packets of every kind: each has its name, none gets through.

use super::*;

testkit::cases! {
    frames, outer_ipv4, outer_ipv6, outer_udp, outer_fragments, not_for_us, gtpu_header, gtpu_extensions,
    gtpu_unknown_message, inner_packet, plain_packet, outer_checksum, outer_checksum_is_trusted,
}

fn tunnelled(user: &Packet) -> Packet {
    from_gnb(Over::V4).gtpu(TEID).container_up(QFI).carrying(user)
}

fn frames() -> Case {
    case("Too short to be frames, or with three tags.")
        .send("n3", &raw([]))
        .send("n3", &raw([1]))
        .send("n3", &up(&request(UE)).cut(13))
        .send("n6", &from_router(&response(UE)).cut(14))
        .send("n6", &eth(ROUTER_MAC, N6_MAC).vlan(1).cut(17))
        .send("n6", &eth(ROUTER_MAC, N6_MAC).vlan(1).vlan(2).vlan(3).carrying(&response(UE)))
        .drops("uplink.parse_outer.malformed", 3)
        .drops("downlink.parse_plain.malformed", 3)
}

fn outer_ipv4() -> Case {
    let head = || eth(GNB_MAC, N3_MAC).ip4(GNB, N3);
    let rest = |packet: Packet| packet.gtpu(TEID).container_up(QFI).carrying(&request(UE));
    case("The transport's IPv4 header lies: version, header length, total length, checksum.")
        .send("n3", &rest(head().version_byte(0x55)))
        .send("n3", &rest(head().version_byte(0x44)))
        .send("n3", &rest(head().version_byte(0x4f)).cut(60))
        .send("n3", &rest(head().length(2000)))
        .send("n3", &rest(head().length(19)))
        .send("n3", &rest(head().version_byte(0x65)))
        .send("n3", &up(&request(UE)).cut(33))
        .send("n3", &rest(head().checksum(0xdead)))
        .drops("uplink.parse_outer.malformed", 7)
        .drops("uplink.parse_outer.header_checksum", 1)
}

fn outer_ipv6() -> Case {
    let head = || eth(GNB_MAC, N3_MAC).ip6(GNB_6, N3_6);
    let rest = |packet: Packet| packet.gtpu(TEID).container_up(QFI).carrying(&request(UE));
    case("The transport's IPv6 header lies: version, length, a chain of extension headers that ends nowhere.")
        .send("n3", &rest(head().version_byte(0x40)))
        .send("n3", &rest(head().length(2000)))
        .send("n3", &rest(head()).cut(53))
        .send("n3", &head().says(60).payload([60, 200, 0, 0, 0, 0, 0, 0]))
        .send("n3", &head().says(43).payload([43]))
        .drops("uplink.parse_outer.malformed", 5)
}

fn outer_udp() -> Case {
    let head = || eth(GNB_MAC, N3_MAC).ip4(GNB, N3);
    let rest = |packet: Packet| packet.gtpu_message(255, TEID).container_up(QFI).carrying(&request(UE));
    case("UDP that is cut off, or whose length contradicts the packet.")
        .send("n3", &head().says(17).payload([8, 0x68, 8]))
        .send("n3", &head().says(17).payload([8, 0x68, 8, 0x68]))
        .send("n3", &head().says(17).payload([8, 0x68, 8, 0x68, 0, 8, 0]))
        .send("n3", &rest(head().udp(2152, 2152).length(7)))
        .send("n3", &rest(head().udp(2152, 2152).length(2000)))
        .drops("uplink.parse_outer.malformed", 5)
}

fn outer_fragments() -> Case {
    let first = from_gnb(Over::V4).fragment(0, true).gtpu(TEID).container_up(QFI).carrying(&request(UE));
    let later = from_gnb(Over::V4).fragment(96, false).says(17).filled(40);
    let six =
        from_gnb(Over::V6).fragment6(0, true, 1).gtpu(TEID).container_up(QFI).carrying(&request(UE).payload([0; 4]));
    case("Fragments of tunnel packets are not put together.")
        .send("n3", &first)
        .send("n3", &later)
        .send("n3", &six)
        .drops("uplink.parse_outer.outer_fragment", 3)
}

fn not_for_us() -> Case {
    let other = |dst: [u8; 4]| eth(GNB_MAC, N3_MAC).ip4(GNB, dst).gtpu(TEID).container_up(QFI).carrying(&request(UE));
    case("On the access port only tunnels to our own addresses are taken.")
        .send("n3", &other([10, 0, 3, 2]))
        .send("n3", &other([10, 0, 6, 1]))
        .send("n3", &eth(GNB_MAC, N3_MAC).ip6(GNB_6, N6_6).gtpu(TEID).carrying(&request(UE)))
        .send("n3", &from_gnb(Over::V4).udp(2152, 2153).filled(20))
        .send("n3", &from_gnb(Over::V4).tcp(2152, 2152))
        .send("n3", &from_gnb(Over::V6).udp(2152, 53).filled(20))
        .drops("uplink.parse_outer.not_for_us", 3)
        .drops("uplink.parse_outer.not_gtpu", 3)
}

fn gtpu_header() -> Case {
    let udp = || from_gnb(Over::V4).udp(2152, 2152);
    case("GTP-U headers cut off, of another version, of GTP', and longer than their packet.")
        .send("n3", &udp())
        .send("n3", &udp().payload([0x30, 255, 0, 0, 0, 0, 0]))
        .send("n3", &udp().gtpu_message(255, TEID).gtpu_flags(0x50).carrying(&request(UE)))
        .send("n3", &udp().gtpu_message(255, TEID).gtpu_flags(0x20).carrying(&request(UE)))
        .send("n3", &udp().gtpu_message(255, TEID).length(300).carrying(&request(UE)))
        .send("n3", &udp().gtpu_message(255, TEID).length(61).carrying(&request(UE)))
        .send("n3", &udp().payload([0x32, 255, 0, 2, 1, 0, 0, 0, 0, 1]))
        .drops("uplink.gtpu_decap.gtpu_malformed", 7)
}

fn gtpu_extensions() -> Case {
    let chain = |bytes: &[u8]| {
        let message = [&[0x34, 255, 0, 4 + bytes.len() as u8 - 1, 1, 0, 0, 0, 0, 0, 0][..], bytes].concat();
        from_gnb(Over::V4).udp(2152, 2152).payload(message)
    };
    let nine = (0..9).fold(from_gnb(Over::V4).gtpu(TEID), |packet, _| packet.extension(1, [0, 0]));
    case("Extension headers of no length, past the end, without an end, and too many.")
        .send("n3", &chain(&[0x85, 0, 0, 0, 0]))
        .send("n3", &chain(&[0x85, 9, 0x10, QFI, 0]))
        .send("n3", &chain(&[0x85, 1, 0x10, QFI, 0x85]))
        .send("n3", &chain(&[0x85]))
        .send("n3", &nine.container_up(QFI).carrying(&request(UE)))
        .drops("uplink.gtpu_decap.gtpu_malformed", 5)
}

fn gtpu_unknown_message() -> Case {
    case("Messages that are no business of a user plane, and unknown ones, are dropped (TS 29.281, 11.1.3).")
        .send("n3", &from_gnb(Over::V4).udp(2152, 2152).gtpu_message(32, 0).seq(1).filled(10))
        .send("n3", &from_gnb(Over::V4).udp(2152, 2152).gtpu_message(99, TEID))
        .drops("uplink.gtpu_decap.gtpu_unsupported", 2)
}

fn inner_packet() -> Case {
    let four = || ip4(UE, SERVER);
    case("The user's packet is broken, or none.")
        .send("n3", &tunnelled(&raw([])))
        .send("n3", &tunnelled(&raw([0x45])))
        .send("n3", &tunnelled(&raw([0; 40])))
        .send("n3", &tunnelled(&four().length(61).udp(1, 2).filled(32)))
        .send("n3", &tunnelled(&four().version_byte(0x43).udp(1, 2)))
        .send("n3", &tunnelled(&four().says(17).payload([1, 2, 3])))
        .send("n3", &tunnelled(&four().says(6).payload([1, 2, 3])))
        .send("n3", &tunnelled(&ip6(UE_6, SERVER_6).length(99).udp(1, 2)))
        .send("n3", &tunnelled(&four().fragment(65_528, false).says(17).filled(100)))
        .send("n3", &tunnelled(&four().checksum(0x1234).udp(1, 2)))
        .drops("uplink.parse_user.malformed", 9)
        .drops("uplink.parse_user.header_checksum", 1)
}

fn plain_packet() -> Case {
    let four = || eth(ROUTER_MAC, N6_MAC).ip4(SERVER, UE);
    case("Broken packets from the data network.")
        .send("n6", &four().length(61).udp(1, 2))
        .send("n6", &four().version_byte(0x43).udp(1, 2))
        .send("n6", &four().says(17).payload([1, 2, 3]))
        .send("n6", &eth(ROUTER_MAC, N6_MAC).ip6(SERVER_6, UE_6).length(99).udp(1, 2))
        .send("n6", &eth(ROUTER_MAC, N6_MAC).ip6(SERVER_6, UE_6).says(44).payload([17, 0, 0]))
        .send("n6", &eth(ROUTER_MAC, N6_MAC).says(0x86dd).carrying(&ip4(SERVER, UE).udp(1, 2)))
        .send("n6", &four().checksum(0x1234).udp(1, 2))
        .drops("downlink.parse_plain.malformed", 6)
        .drops("downlink.parse_plain.header_checksum", 1)
}

/// The access port verifies UDP checksums.
const VERIFY: &str = r#"
port = [
  { name = "n3", uri = "memory:n3?mac=02:00:00:00:03:01", role = "access", addresses = ["10.0.3.1/24", "fd00:3::1/64"], verify_outer_checksum = true },
  { name = "n6", uri = "memory:n6?mac=02:00:00:00:06:01", role = "core", addresses = ["10.0.6.1/24", "fd00:6::1/64"] },
]"#;

fn outer_checksum() -> Case {
    let head = |over: Over, sum: u16| from_gnb(over).udp(2152, 2152).checksum(sum).gtpu_message(255, TEID);
    let wrong = |over| head(over, 0xbad0).container_up(QFI).carrying(&request(UE));
    let none = |over| head(over, 0).container_up(QFI).carrying(&request(UE));
    let right = |over| from_gnb(over).gtpu(TEID).container_up(QFI).carrying(&request(UE));
    let marked = eth(GNB_MAC, N3_MAC).ip4(GNB, N3).tos(3).gtpu(TEID).container_up(QFI).carrying(&request(UE).tos(2));
    let out = to_router(&request(UE).ttl(63));
    case("Where configured, the tunnel's UDP checksum is verified: a wrong one costs the packet, none is no fault.")
        .with(VERIFY)
        .send("n3", &wrong(Over::V4))
        .send("n3", &wrong(Over::V6))
        .send("n3", &from_gnb(Over::V4).udp(2152, 2152).checksum(1).gtpu_message(1, 0).seq(1))
        .send("n3", &right(Over::V4).padded_to(200))
        .send("n3", &right(Over::V6))
        .send("n3", &none(Over::V4))
        .send("n3", &none(Over::V6))
        .send("n3", &marked)
        .then(|case| (0..4).fold(case, |case, _| case.expect("n6", &out)))
        .expect("n6", &to_router(&request(UE).tos(3).ttl(63)))
        .drops("uplink.parse_outer.udp_checksum", 3)
}

fn outer_checksum_is_trusted() -> Case {
    let wrong = from_gnb(Over::V4).udp(2152, 2152).checksum(0xbad0).gtpu_message(255, TEID);
    case("Otherwise the link's checksum is trusted, and that of the user's packet, which its ends verify.")
        .send("n3", &wrong.container_up(QFI).carrying(&request(UE)))
        .expect("n6", &to_router(&request(UE).ttl(63)))
}
