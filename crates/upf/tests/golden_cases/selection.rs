//! Which packet detection rule applies (TS 29.244, 5.2.1).

use super::*;

testkit::cases! {
    by_filter_downlink, by_filter_uplink, by_precedence, by_qos_flow, no_rule_for_a_qos_flow, no_rule_at_all,
    filters_for_ipv6, protocols, port_ranges, fragments_have_no_ports, tunnel_per_bearer, sent_to_a_page,
}

/// Two QoS flows: 5 for ports 50000 to 50003 of the server's network, 9 for everything else.
const TWO: &str = r#"
simulate.bearer = [
  { qfi = 5, filters = ["permit out 17 from 198.51.100.0/24 50000-50003 to assigned"] },
  { qfi = 9 },
]"#;

fn from_server(port: u16, ttl: u8) -> Packet {
    ip4(SERVER, UE).ttl(ttl).udp(port, 40_000).filled(8)
}

fn to_server(port: u16, ttl: u8) -> Packet {
    ip4(UE, SERVER).ttl(ttl).udp(40_000, port).filled(8)
}

fn in_flow(qfi: u8, user: &Packet) -> Packet {
    tunnel(Over::V4, GNB_TEID).container_down(qfi).carrying(user)
}

fn from_flow(qfi: u8, user: &Packet) -> Packet {
    from_gnb(Over::V4).gtpu(TEID).container_up(qfi).carrying(user)
}

fn by_filter_downlink() -> Case {
    case("Downlink packets find their QoS flow by its filter, or the default.")
        .with(TWO)
        .send("n6", &from_router(&from_server(50_000, 64)))
        .send("n6", &from_router(&from_server(50_003, 64)))
        .send("n6", &from_router(&from_server(50_004, 64)))
        .expect("n3", &in_flow(5, &from_server(50_000, 63)))
        .expect("n3", &in_flow(5, &from_server(50_003, 63)))
        .expect("n3", &in_flow(9, &from_server(50_004, 63)))
        .counts("usage.ue0.urr1.down_packets", 2)
        .counts("usage.ue0.urr2.down_packets", 1)
}

fn by_filter_uplink() -> Case {
    case("Uplink packets find their rule by the same filter, read the other way.")
        .with(
            r#"simulate.bearer = [
            { filters = ["permit out 17 from 198.51.100.0/24 50000-50003 to assigned"], dscp_up = 10 },
            { dscp_up = 20 },
        ]"#,
        )
        .send("n3", &from_gnb(Over::V4).gtpu(TEID).carrying(&to_server(50_000, 64)))
        .send("n3", &from_gnb(Over::V4).gtpu(TEID).carrying(&to_server(49_999, 64)))
        .send("n3", &from_gnb(Over::V4).gtpu(TEID).carrying(&ip4(UE, SERVER).udp(50_000, 40_000)))
        .expect("n6", &to_router(&ip4(UE, SERVER).ttl(63).tos(40).udp(40_000, 50_000).filled(8)))
        .expect("n6", &to_router(&ip4(UE, SERVER).ttl(63).tos(80).udp(40_000, 49_999).filled(8)))
        .expect("n6", &to_router(&ip4(UE, SERVER).ttl(63).tos(80).udp(50_000, 40_000)))
        .counts("usage.ue0.urr1.up_packets", 1)
        .counts("usage.ue0.urr2.up_packets", 2)
}

fn by_precedence() -> Case {
    case("Of several rules that match, the one of lowest precedence value applies.")
        .with(
            r#"simulate.bearer = [
            { qfi = 1, filters = ["permit out 17 from 198.51.100.7 50000 to assigned"] },
            { qfi = 2, filters = ["permit out ip from 198.51.100.0/24 to assigned"] },
            { qfi = 3, filters = ["permit out 17 from 198.51.100.7 50001 to assigned"] },
            { qfi = 4 },
        ]"#,
        )
        .send("n6", &from_router(&from_server(50_000, 64)))
        .send("n6", &from_router(&from_server(50_001, 64)))
        .send("n6", &from_router(&ip4([198, 51, 101, 7], UE).udp(50_000, 40_000)))
        .expect("n3", &in_flow(1, &from_server(50_000, 63)))
        .expect("n3", &in_flow(2, &from_server(50_001, 63)))
        .expect("n3", &in_flow(4, &ip4([198, 51, 101, 7], UE).ttl(63).udp(50_000, 40_000)))
}

fn by_qos_flow() -> Case {
    case("An uplink rule with a QFI applies to packets marked with it.")
        .with(TWO)
        .send("n3", &from_flow(5, &to_server(50_000, 64)))
        .send("n3", &from_flow(9, &to_server(50_000, 64)))
        .expect("n6", &to_router(&to_server(50_000, 63)))
        .expect("n6", &to_router(&to_server(50_000, 63)))
        .counts("usage.ue0.urr1.up_packets", 1)
        .counts("usage.ue0.urr2.up_packets", 1)
}

fn no_rule_for_a_qos_flow() -> Case {
    case("A QFI that no rule asks for, no QFI at all, and a filter that does not match.")
        .with(TWO)
        .send("n3", &from_flow(6, &to_server(50_000, 64)))
        .send("n3", &from_gnb(Over::V4).gtpu(TEID).carrying(&to_server(50_000, 64)))
        .send("n3", &from_flow(5, &to_server(60_000, 64)))
        .drops("uplink.match_pdr.no_pdr", 3)
}

fn no_rule_at_all() -> Case {
    case("Without a default bearer, what no filter takes is dropped.")
        .with(r#"simulate.bearer = [{ qfi = 5, filters = ["permit out 17 from any 50000 to assigned"] }]"#)
        .send("n6", &from_router(&from_server(50_001, 64)))
        .send("n6", &from_router(&from_server(50_000, 64)))
        .expect("n3", &in_flow(5, &from_server(50_000, 63)))
        .drops("downlink.match_pdr.no_pdr", 1)
}

fn filters_for_ipv6() -> Case {
    let user = |port, ttl| ip6(SERVER_6, UE_6).ttl(ttl).udp(port, 40_000).filled(8);
    let back = |port, ttl| ip6(UE_6, SERVER_6).ttl(ttl).udp(40_000, port).filled(8);
    let other = |ttl| ip6([0x20; 16], UE_6).ttl(ttl).udp(50_000, 40_000).filled(8);
    case("Filters with IPv6 prefixes, both ways.")
        .with(
            r#"simulate.bearer = [
            { qfi = 5, filters = ["permit out 17 from 2001:db8:5e::/64 50000 to assigned"] },
            { qfi = 9 },
        ]"#,
        )
        .send("n6", &from_router(&user(50_000, 64)))
        .send("n6", &from_router(&user(50_001, 64)))
        .send("n6", &from_router(&other(64)))
        .send("n6", &from_router(&from_server(50_000, 64)))
        .send("n3", &from_flow(5, &back(50_000, 64)))
        .expect("n3", &in_flow(5, &user(50_000, 63)))
        .expect("n3", &in_flow(9, &user(50_001, 63)))
        .expect("n3", &in_flow(9, &other(63)))
        .expect("n3", &in_flow(9, &from_server(50_000, 63)))
        .expect("n6", &to_router(&back(50_000, 63)))
}

fn protocols() -> Case {
    let tcp = |ttl| ip4(SERVER, UE).ttl(ttl).tcp(50_000, 40_000);
    let ping = |ttl| ip4(SERVER, UE).ttl(ttl).ping(1, 1).filled(8);
    let ping6 = |ttl| ip6(SERVER_6, UE_6).ttl(ttl).ping(1, 1).filled(8);
    case("Filters by protocol.")
        .with(
            r#"simulate.bearer = [
            { qfi = 1, filters = ["permit out 6 from any to assigned"] },
            { qfi = 2, filters = ["permit out 1 from any to assigned", "permit out 58 from any to assigned"] },
            { qfi = 3 },
        ]"#,
        )
        .send("n6", &from_router(&tcp(64)))
        .send("n6", &from_router(&ping(64)))
        .send("n6", &from_router(&ping6(64)))
        .send("n6", &from_router(&from_server(50_000, 64)))
        .expect("n3", &in_flow(1, &tcp(63)))
        .expect("n3", &in_flow(2, &ping(63)))
        .expect("n3", &in_flow(2, &ping6(63)))
        .expect("n3", &in_flow(3, &from_server(50_000, 63)))
}

fn port_ranges() -> Case {
    let user = |port, local, ttl| ip4(SERVER, UE).ttl(ttl).udp(port, local).filled(8);
    case("Lists of ports and ranges, of either end.")
        .with(
            r#"simulate.bearer = [
            { qfi = 1, filters = ["permit out 17 from any 50000,50010-50012 to assigned 40000-40009"] },
            { qfi = 2 },
        ]"#,
        )
        .then(|case| {
            let sorts = [
                (50_000, 40_000, 1),
                (50_010, 40_009, 1),
                (50_012, 40_005, 1),
                (50_000, 40_010, 2),
                (50_001, 40_000, 2),
                (50_009, 40_000, 2),
                (50_013, 40_000, 2),
                (40_000, 50_000, 2),
            ];
            sorts.into_iter().fold(case, |case, (remote, local, qfi)| {
                case.send("n6", &from_router(&user(remote, local, 64)))
                    .expect("n3", &in_flow(qfi, &user(remote, local, 63)))
            })
        })
}

fn fragments_have_no_ports() -> Case {
    let whole = ip4(SERVER, UE).udp(50_000, 40_000).filled(150);
    let part = |offset, len, more, ttl| piece(&whole, ip4(SERVER, UE).ttl(ttl).ident(5), offset, len, more);
    let (first, later) = (|ttl| part(0, 104, true, ttl), |ttl| part(104, 54, false, ttl));
    case("A later fragment has no ports to match; the first has.")
        .with(TWO)
        .send("n6", &from_router(&first(64)))
        .send("n6", &from_router(&later(64)))
        .expect("n3", &in_flow(5, &first(63)))
        .expect("n3", &in_flow(9, &later(63)))
}

fn tunnel_per_bearer() -> Case {
    case("In 4G each bearer has its own tunnel, and its rules apply to that alone.")
        .with(
            r#"
            simulate.teid_per_bearer = true
            simulate.bearer = [
                { filters = ["permit out 17 from 198.51.100.0/24 50000 to assigned"] },
                {},
            ]"#,
        )
        .send("n3", &from_gnb(Over::V4).gtpu(TEID).carrying(&to_server(50_000, 64)))
        .send("n3", &from_gnb(Over::V4).gtpu(TEID + 1).carrying(&to_server(50_000, 64)))
        .send("n3", &from_gnb(Over::V4).gtpu(TEID).carrying(&to_server(50_001, 64)))
        .send("n6", &from_router(&from_server(50_000, 64)))
        .send("n6", &from_router(&from_server(50_001, 64)))
        .expect("n6", &to_router(&to_server(50_000, 63)))
        .expect("n6", &to_router(&to_server(50_000, 63)))
        .expect("n3", &tunnel(Over::V4, GNB_TEID).carrying(&from_server(50_000, 63)))
        .expect("n3", &tunnel(Over::V4, GNB_TEID + 1).carrying(&from_server(50_001, 63)))
        .drops("uplink.match_pdr.no_pdr", 1)
        .counts("usage.ue0.urr1.up_packets", 1)
        .counts("usage.ue0.urr2.up_packets", 1)
}

fn sent_to_a_page() -> Case {
    let bytes = |flags: u8, ack: [u8; 4]| {
        [&40_000u16.to_be_bytes()[..], &[0, 80, 0, 0, 0, 9], &ack, &[0x50, flags, 4, 0]].concat()
    };
    let segment = |from: Ipv4Addr, to: Ipv4Addr, head: Vec<u8>, data: &[u8]| {
        let mut bytes = [&head[..], &[0; 4], data].concat();
        let pseudo = wire::checksum::pseudo4(from.into(), to.into(), 6, bytes.len() as u16);
        wire::tcp::Packet::new_checked(&mut bytes[..]).expect("whole").fill_checksum(pseudo);
        ip4(from, to).says(6).payload(bytes)
    };
    let reset = ip4(SERVER, UE).tcp(80, 40_000).seq(7).flags(wire::tcp::flag::RST);
    case("Who is sent to a web page (3GPP TS 29.244, 8.2.20) has connections of before reset, and gets nothing else.")
        .with("simulate.bearer = [{ qfi = 9, redirect = \"http://top-up.example/\" }]")
        .send("n3", &up(&segment(UE, SERVER, bytes(0x18, [0, 0, 0, 7]), b"GET / HTTP/1.1")))
        .send("n3", &up(&segment(UE, SERVER, bytes(0x10, [0, 0, 0, 7]), b"")))
        .send("n3", &up(&request(UE)))
        .send("n3", &up(&request(UE_6)))
        .expect("n3", &down(&reset))
        .punts("redirect", 2)
        .drops("worker.redirected", 2)
}
