//! What subscribers may send from and to (TS 29.281, 4.3; BCP 38).

use super::*;

testkit::cases! { spoofed_ipv4, spoofed_ipv6, no_such_family, gtp_in_gtp, martians, martians_ipv6 }

fn spoofed_ipv4() -> Case {
    let from = |source: [u8; 4]| up(&ip4(source, SERVER).udp(40_000, 50_000));
    case("A subscriber speaks from its own IPv4 address only.")
        .send("n3", &from([10, 60, 0, 2]))
        .send("n3", &from([0, 0, 0, 0]))
        .send("n3", &from([255, 255, 255, 255]))
        .send("n3", &from([10, 0, 6, 1]))
        .drops("uplink.check_source.spoofed_source", 4)
}

fn spoofed_ipv6() -> Case {
    let from = |source: [u16; 8]| up(&ip6(source, SERVER_6).udp(40_000, 50_000));
    case("A subscriber speaks from its own prefix only; link-local addresses are for discovery alone.")
        .send("n3", &from([0x2001, 0xdb8, 0x60, 2, 0, 0, 0, 7]))
        .send("n3", &from([0x2001, 0xdb8, 0x60, 0, 0, 0, 0, 7]))
        .send("n3", &from([0; 8]))
        .send("n3", &from([0xff02, 0, 0, 0, 0, 0, 0, 1]))
        .send("n3", &from([0xfe80, 0, 0, 0, 0, 0, 0, 7]))
        .drops("uplink.check_source.spoofed_source", 5)
}

fn no_such_family() -> Case {
    case("A subscriber without an IPv6 prefix has none to speak from.")
        .with("simulate.ue_first = \"10.60.0.9\"\nsimulate.teid_first = 99")
        .step(r#"do = "sessions", simulate = { ues = 1, ue_first = "10.60.0.1" }"#)
        .send("n3", &up(&request(UE_6)))
        .send("n3", &up(&ip6([0; 16], SERVER_6).udp(1, 2)))
        .drops("uplink.check_source.spoofed_source", 2)
}

fn gtp_in_gtp() -> Case {
    let tunnel = ip4(UE, N3).gtpu(TEID).container_up(QFI).carrying(&request(UE));
    let tunnel6 = ip6(UE_6, N3_6).gtpu(TEID).container_up(QFI).carrying(&request(UE));
    let elsewhere = |ttl| ip4(UE, SERVER).ttl(ttl).gtpu(5).carrying(&request(UE));
    case("A subscriber's packet to our own tunnel endpoint is dropped; a tunnel of its own to elsewhere is its affair.")
        .send("n3", &up(&tunnel))
        .send("n3", &up(&tunnel6))
        .send("n3", &up(&elsewhere(64)))
        .expect("n6", &to_router(&elsewhere(63)))
        .drops("uplink.check_source.gtp_in_gtp", 2)
}

fn martians() -> Case {
    let from = |source: [u8; 4]| from_router(&ip4(source, UE).udp(50_000, 40_000));
    let ping = |source: [u8; 4]| from_router(&ip4(source, UE).ping(1, 1));
    case(
        "Nobody beyond the link sends from this network, loopback, link-local, multicast, broadcast (RFC 1812, 5.3.7).",
    )
    .send("n6", &from([0, 0, 0, 0]))
    .send("n6", &from([0, 1, 2, 3]))
    .send("n6", &from([127, 0, 0, 1]))
    .send("n6", &from([169, 254, 1, 1]))
    .send("n6", &from([224, 0, 0, 1]))
    .send("n6", &from([240, 0, 0, 1]))
    .send("n6", &from([255, 255, 255, 255]))
    .send("n6", &ping([127, 0, 0, 1]))
    .drops("downlink.parse_plain.martian_source", 8)
}

fn martians_ipv6() -> Case {
    let from = |source: [u16; 8]| from_router(&ip6(source, UE_6).udp(50_000, 40_000));
    case("The same of IPv6: unspecified, loopback, link-local, multicast (RFC 4291, 2.5 and 2.7).")
        .send("n6", &from([0; 8]))
        .send("n6", &from([0, 0, 0, 0, 0, 0, 0, 1]))
        .send("n6", &from([0xfe80, 0, 0, 0, 0, 0, 0, 9]))
        .send("n6", &from([0xff02, 0, 0, 0, 0, 0, 0, 1]))
        .drops("downlink.parse_plain.martian_source", 4)
}
