//! From the radio network to the data network.

use super::*;

testkit::cases! {
    ipv4_over_ipv4, ipv6_over_ipv4, ipv4_over_ipv6, ipv6_over_ipv6, without_container, tcp, ping_of_a_server,
    users_fragments, users_extension_headers, options_in_the_transport_header, extension_headers_in_the_transport,
    bytes_behind_the_users_packet, zero_udp_checksum, a_burst_keeps_its_order, another_subscribers_tunnel,
}

fn goes_up(user: IpAddr, over: Over) -> Case {
    let packet = from_gnb(over).gtpu(TEID).container_up(QFI).carrying(&request(user));
    let text = format!("{} leaves its tunnel over {over:?}.", if user.is_ipv4() { "IPv4" } else { "IPv6" });
    case(&text).send("n3", &packet).expect("n6", &to_router(&request(user).ttl(63)))
}

fn ipv4_over_ipv4() -> Case {
    goes_up(UE.into(), Over::V4)
}

fn ipv6_over_ipv4() -> Case {
    goes_up(UE_6.into(), Over::V4)
}

fn ipv4_over_ipv6() -> Case {
    goes_up(UE.into(), Over::V6)
}

fn ipv6_over_ipv6() -> Case {
    goes_up(UE_6.into(), Over::V6)
}

fn without_container() -> Case {
    case("A 4G bearer has no PDU session container.")
        .with("simulate.bearer = [{}]")
        .send("n3", &from_gnb(Over::V4).gtpu(TEID).carrying(&request(UE)))
        .expect("n6", &to_router(&request(UE).ttl(63)))
}

fn tcp() -> Case {
    let segment = |ttl| ip4(UE, SERVER).ttl(ttl).tcp(40_000, 50_000).filled(100);
    case("TCP goes through as it is.").send("n3", &up(&segment(64))).expect("n6", &to_router(&segment(63)))
}

fn ping_of_a_server() -> Case {
    let four = |ttl| ip4(UE, SERVER).ttl(ttl).ping(7, 1).filled(56);
    let six = |ttl| ip6(UE_6, SERVER_6).ttl(ttl).ping(7, 1).filled(56);
    case("A subscriber's pings go through.")
        .send("n3", &up(&four(64)))
        .send("n3", &up(&six(64)))
        .expect("n6", &to_router(&four(63)))
        .expect("n6", &to_router(&six(63)))
}

fn users_fragments() -> Case {
    let whole = ip4(UE, SERVER).udp(40_000, 50_000).filled(184);
    let part = |offset, len, more, ttl| piece(&whole, ip4(UE, SERVER).ttl(ttl).ident(77), offset, len, more);
    let (first, later) = (|ttl| part(0, 104, true, ttl), |ttl| part(104, 88, false, ttl));
    let six = |ttl| ip6(UE_6, SERVER_6).ttl(ttl).fragment6(1200, false, 9).payload([7; 100]);
    case("Fragments of subscribers' packets are forwarded as they are.")
        .send("n3", &up(&first(64)))
        .send("n3", &up(&later(64)))
        .send("n3", &up(&six(64)))
        .expect("n6", &to_router(&first(63)))
        .expect("n6", &to_router(&later(63)))
        .expect("n6", &to_router(&six(63)))
}

fn users_extension_headers() -> Case {
    let six = |hops| ip6(UE_6, SERVER_6).ttl(hops).extension6(60, [1, 4, 0, 0, 0, 0]).udp(40_000, 50_000).filled(8);
    let four = |ttl| ip4(UE, SERVER).ttl(ttl).options([0x94, 4, 0, 0]).udp(40_000, 50_000).filled(8);
    case("Options and extension headers of subscribers' packets are left alone.")
        .send("n3", &up(&six(64)))
        .send("n3", &up(&four(64)))
        .expect("n6", &to_router(&six(63)))
        .expect("n6", &to_router(&four(63)))
}

fn options_in_the_transport_header() -> Case {
    let packet = eth(GNB_MAC, N3_MAC).ip4(GNB, N3).options([0x94, 4, 0, 0]).gtpu(TEID).container_up(QFI);
    case("The transport's IPv4 header may have options.")
        .send("n3", &packet.carrying(&request(UE)))
        .expect("n6", &to_router(&request(UE).ttl(63)))
}

fn extension_headers_in_the_transport() -> Case {
    let packet = eth(GNB_MAC, N3_MAC).ip6(GNB_6, N3_6).extension6(60, [1, 4, 0, 0, 0, 0]).gtpu(TEID).container_up(QFI);
    case("The transport's IPv6 header may have extension headers.")
        .send("n3", &packet.carrying(&request(UE)))
        .expect("n6", &to_router(&request(UE).ttl(63)))
}

fn bytes_behind_the_users_packet() -> Case {
    let packet = from_gnb(Over::V4).gtpu(TEID).container_up(QFI).payload(request(UE).build()).payload([0xee; 5]);
    case("What stands behind the user's packet in its tunnel is no part of it.")
        .send("n3", &packet)
        .expect("n6", &to_router(&request(UE).ttl(63)))
}

fn zero_udp_checksum() -> Case {
    let four = eth(GNB_MAC, N3_MAC).ip4(GNB, N3).udp(2152, 2152).checksum(0).gtpu_message(255, TEID).container_up(QFI);
    let six =
        eth(GNB_MAC, N3_MAC).ip6(GNB_6, N3_6).udp(2152, 2152).checksum(0).gtpu_message(255, TEID).container_up(QFI);
    case("Tunnels without UDP checksum are read, over IPv6 too (RFC 6936).")
        .send("n3", &four.carrying(&request(UE)))
        .send("n3", &six.carrying(&request(UE)))
        .expect("n6", &to_router(&request(UE).ttl(63)))
        .expect("n6", &to_router(&request(UE).ttl(63)))
}

fn a_burst_keeps_its_order() -> Case {
    let packet = |n: u8, ttl| ip4(UE, SERVER).ttl(ttl).udp(40_000, 50_000).payload([n; 16]);
    case("Two hundred packets that come at once leave in their order.").then(|case| {
        (0..200).fold(case, |case, n| case.send("n3", &up(&packet(n, 64))).expect("n6", &to_router(&packet(n, 63))))
    })
}

fn another_subscribers_tunnel() -> Case {
    let second = Ipv4Addr::new(10, 60, 0, 2);
    let packet = |teid| from_gnb(Over::V4).gtpu(teid).container_up(QFI).carrying(&request(second));
    case("Each tunnel carries its own subscriber only.")
        .with("simulate.ues = 2")
        .send("n3", &packet(TEID + 1))
        .send("n3", &packet(TEID))
        .expect("n6", &to_router(&request(second).ttl(63)))
        .drops("uplink.check_source.spoofed_source", 1)
        .counts("usage.ue1.urr1.up_packets", 1)
        .counts("usage.ue0.urr1.up_packets", 0)
}
