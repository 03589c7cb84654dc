//! From the data network to the radio network.

use super::*;

testkit::cases! {
    ipv4_over_ipv4, ipv6_over_ipv4, ipv4_over_ipv6, ipv6_over_ipv6, zero_checksum_over_ipv6, without_container, tcp,
    odd_lengths_over_ipv6, every_length_over_ipv6, users_fragments, any_address_of_the_prefix, two_gnbs, unknown_subscribers, dscp_is_copied,
    short_packets_lose_their_padding, a_burst_keeps_its_order,
}

fn goes_down(user: IpAddr, over: Over) -> Case {
    let packet = tunnel(over, GNB_TEID).container_down(QFI).carrying(&response(user).ttl(63));
    let text = format!("{} enters its tunnel over {over:?}.", if user.is_ipv4() { "IPv4" } else { "IPv6" });
    let case = case(&text).send("n6", &from_router(&response(user))).expect("n3", &packet);
    if over == Over::V6 { case.with(OVER_6) } else { case }
}

fn ipv4_over_ipv4() -> Case {
    goes_down(UE.into(), Over::V4)
}

fn ipv6_over_ipv4() -> Case {
    goes_down(UE_6.into(), Over::V4)
}

fn ipv4_over_ipv6() -> Case {
    goes_down(UE.into(), Over::V6)
}

fn ipv6_over_ipv6() -> Case {
    goes_down(UE_6.into(), Over::V6)
}

fn zero_checksum_over_ipv6() -> Case {
    let head = eth(N3_MAC, GNB_MAC).ip6(N3_6, GNB_6).udp(2152, 2152).checksum(0).gtpu_message(255, GNB_TEID);
    case("Where configured, the UDP checksum over IPv6 is zero (RFC 6935).")
        .with(OVER_6)
        .with("gtpu.zero_checksum_over_ipv6 = true")
        .send("n6", &from_router(&response(UE)))
        .expect("n3", &head.container_down(QFI).carrying(&response(UE).ttl(63)))
}

fn without_container() -> Case {
    case("A 4G bearer gets no PDU session container.")
        .with("simulate.bearer = [{}]")
        .send("n6", &from_router(&response(UE)))
        .expect("n3", &tunnel(Over::V4, GNB_TEID).carrying(&response(UE).ttl(63)))
}

fn tcp() -> Case {
    let segment = |ttl| ip6(SERVER_6, UE_6).ttl(ttl).tcp(50_000, 40_000).filled(1000);
    case("TCP goes through as it is.").send("n6", &from_router(&segment(64))).expect("n3", &down(&segment(63)))
}

fn odd_lengths_over_ipv6() -> Case {
    let packet = |len, ttl| ip4(SERVER, UE).ttl(ttl).udp(50_000, 40_000).filled(len);
    case("UDP checksums over IPv6 are right for any length.").with(OVER_6).then(|case| {
        (0..9).fold(case, |case, len| {
            let tunnelled = tunnel(Over::V6, GNB_TEID).container_down(QFI).carrying(&packet(len, 63));
            case.send("n6", &from_router(&packet(len, 64)).padded()).expect("n3", &tunnelled)
        })
    })
}

fn every_length_over_ipv6() -> Case {
    let packet = |len, ttl| ip6(SERVER_6, UE_6).ttl(ttl).udp(50_000, 40_000).filled(len);
    // Of the user's packet: around multiples of what a sum takes in at once, and the longest.
    let lengths =
        [63, 64, 65, 67, 127, 128, 129, 130, 191, 192, 193, 255, 256, 257, 258, 511, 512, 1023, 1025, 1279, 1435, 1436];
    case("UDP checksums over IPv6 are right for long packets, too.").with(OVER_6).then(|case| {
        lengths.into_iter().fold(case, |case, len| {
            let tunnelled = tunnel(Over::V6, GNB_TEID).container_down(QFI).carrying(&packet(len - 48, 63));
            case.send("n6", &from_router(&packet(len - 48, 64))).expect("n3", &tunnelled)
        })
    })
}

fn users_fragments() -> Case {
    let later = |ttl| ip4(SERVER, UE).ttl(ttl).ident(77).fragment(1480, false).says(17).filled(88);
    let six = |ttl| ip6(SERVER_6, UE_6).ttl(ttl).fragment6(1200, false, 9).payload([7; 100]);
    case("Fragments to subscribers are forwarded as they are.")
        .send("n6", &from_router(&later(64)))
        .send("n6", &from_router(&six(64)))
        .expect("n3", &down(&later(63)))
        .expect("n3", &down(&six(63)))
}

fn any_address_of_the_prefix() -> Case {
    let other = Ipv6Addr::new(0x2001, 0xdb8, 0x60, 1, 0xdead, 0xbeef, 0, 1);
    case("An IPv6 subscriber has its whole prefix.")
        .send("n6", &from_router(&response(other)))
        .send("n3", &up(&request(other)))
        .expect("n3", &down(&response(other).ttl(63)))
        .expect("n6", &to_router(&request(other).ttl(63)))
}

fn two_gnbs() -> Case {
    let (second, far) = (Ipv4Addr::new(10, 60, 0, 2), Ipv4Addr::new(10, 0, 3, 101));
    let head = eth(N3_MAC, [2, 0, 0, 0, 3, 0x65]).ip4(N3, far).gtpu_unsummed(GNB_TEID + 1);
    case("Each subscriber is reached at its own gNB.")
        .with("simulate.ues = 2\nsimulate.gnbs = 2")
        .then(|case| {
            let mut case = case;
            let known = r#"{ port = "n3", address = "10.0.3.101", mac = "02:00:00:00:03:65" }"#;
            let known: toml::Table = format!("neighbour = {known}").parse().expect("a table");
            case.config["neighbour"].as_array_mut().expect("a list").push(known["neighbour"].clone());
            case
        })
        .send("n6", &from_router(&response(second)))
        .send("n6", &from_router(&response(UE)))
        .expect("n3", &head.container_down(QFI).carrying(&response(second).ttl(63)))
        .expect("n3", &down(&response(UE).ttl(63)))
}

fn unknown_subscribers() -> Case {
    let nobody6 = Ipv6Addr::new(0x2001, 0xdb8, 0x60, 2, 0, 0, 0, 1);
    case("Nobody has these addresses.")
        .send("n6", &from_router(&response(Ipv4Addr::new(10, 60, 0, 2))))
        .send("n6", &from_router(&response(nobody6)))
        .send("n6", &from_router(&response(Ipv4Addr::BROADCAST)))
        .drops("downlink.find_by_address.unknown_subscriber", 3)
}

fn dscp_is_copied() -> Case {
    let four = |ttl| ip4(SERVER, UE).ttl(ttl).tos(0xb9).udp(50_000, 40_000).filled(8);
    let six = |ttl| ip6(SERVER_6, UE_6).ttl(ttl).tos(0x2b).udp(50_000, 40_000).filled(8);
    let head = |tos| eth(N3_MAC, GNB_MAC).ip4(N3, GNB).tos(tos).gtpu_unsummed(GNB_TEID).container_down(QFI);
    case("Without a mark of its own the tunnel has the user packet's DSCP, and its ECN (RFC 6040, 4.1).")
        .send("n6", &from_router(&four(64)))
        .send("n6", &from_router(&six(64)))
        .expect("n3", &head(0xb9).carrying(&four(63)))
        .expect("n3", &head(0x2b).carrying(&six(63)))
}

fn short_packets_lose_their_padding() -> Case {
    let short = |ttl| ip4(SERVER, UE).ttl(ttl).udp(50_000, 40_000).payload(b"x");
    case("What the link padded does not go into the tunnel.")
        .send("n6", &from_router(&short(64)).padded())
        .expect("n3", &down(&short(63)))
}

fn a_burst_keeps_its_order() -> Case {
    let packet = |n: u8, ttl| ip4(SERVER, UE).ttl(ttl).udp(50_000, 40_000).payload([n; 16]);
    case("A hundred packets that come at once leave in their order.").then(|case| {
        (0..100).fold(case, |case, n| case.send("n6", &from_router(&packet(n, 64))).expect("n3", &down(&packet(n, 63))))
    })
}
