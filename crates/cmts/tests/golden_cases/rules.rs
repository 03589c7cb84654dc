//! Filter groups and classifiers.

use super::*;

testkit::cases! {
    filters_by_priority, the_default_is_to_deny, filters_upstream, every_field_of_a_filter,
    fields_of_the_link_and_of_ipv6, classifiers_by_priority,
    classified_by_ipv6_fields, classified_by_hardware_address, classified_by_tag, the_second_group_is_asked_too,
}

/// The base configuration with a filter group for both directions.
fn filtered(text: &str, rules: &str) -> Case {
    case(text).with(&format!("filter_group = [ {{ name = \"f\", rule = [ {rules} ] }} ]")).with(
        r#"profile = [ { name = "home", filters_down = ["f"], filters_up = ["f"], flow = [ { name = "best" } ] } ]"#,
    )
}

/// With a set of classifiers.
fn classified(text: &str, rules: &str) -> Case {
    case(text).with(&format!("classifiers = [ {{ name = \"c\", rule = [ {rules} ] }} ]")).with(
        r#"profile = [ { name = "home", classifiers = "c", flow = [ { name = "best" }, { name = "voice", priority = 5 } ] } ]"#,
    )
}

fn to(port: u16, ttl: u8) -> Packet {
    ip4(SERVER, HOST).ttl(ttl).udp(1000, port).payload(b"cable")
}

fn filters_by_priority() -> Case {
    let rules = r#"
        { priority = 5, action = "deny", protocol = "udp", destination_ports = "2000-2999" },
        { priority = 9, action = "permit", destination_ports = 2500 },
        { priority = 1, action = "permit" }"#;
    filtered("The rule of the highest priority that matches decides (DOCS-SUBMGT3-MIB), whatever the order.", rules)
        .send("nsi", &from_router(&to(2001, 9)))
        .send("nsi", &from_router(&to(2500, 9)))
        .send("nsi", &from_router(&to(3000, 9)))
        .expect("cin", &depi(0, &[framed(0, 0, &to_host(0, &to(2500, 8))), framed(0, 1, &to_host(0, &to(3000, 8)))]))
        .drops("downstream.filtering.filter_denied", 1)
        .counts("filter.down.permit", 2)
        .counts("filter.down.deny", 1)
        .counts("filter.down.unmatched", 0)
        .punts("service_flow", 2)
        .punts("depi", 2)
}

fn the_default_is_to_deny() -> Case {
    let rules = r#"{ priority = 5, action = "permit", protocol = "udp", destination_ports = 2500 }"#;
    filtered("Nothing passes that no rule permits, either way.", rules)
        .with(r#"filter_default = "deny""#)
        .send("nsi", &from_router(&to(2001, 9)))
        .send("nsi", &from_router(&to(2500, 9)))
        .send("cin", &burst(0, SID, &segment(0, Some(0), &stream(&[datagram(false, 9)]))))
        .expect("cin", &depi(0, &[framed(0, 0, &to_host(0, &to(2500, 8)))]))
        .drops("downstream.filtering.filter_denied", 1)
        .drops("upstream.filtering.filter_denied", 1)
        .counts("filter.down.unmatched", 1)
        .counts("filter.up.unmatched", 1)
        .counts("filter.up.deny", 0)
        .punts("service_flow", 1)
        .punts("depi", 1)
        .punts("uepi", 1)
}

fn filters_upstream() -> Case {
    let rules = r#"{ priority = 5, action = "deny", protocol = "tcp", destination_ports = 25 }"#;
    let mail = |ttl| ip4(HOST, SERVER).ttl(ttl).tcp(4000, 25);
    filtered("Subscribers send no mail by themselves; everything else goes.", rules)
        .send("cin", &burst(0, SID, &segment(0, Some(0), &stream(&[mail(9), datagram(false, 9)]))))
        .expect("nsi", &to_router(&datagram(false, 8)))
        .drops("upstream.filtering.filter_denied", 1)
        .counts("filter.up.deny", 1)
        .counts("filter.up.unmatched", 1)
        .punts("uepi", 1)
}

fn every_field_of_a_filter() -> Case {
    let rules = r#"
        { priority = 20, action = "deny", tos = [0xb8, 0xb8, 0xfc] },
        { priority = 19, action = "deny", protocol = 47 },
        { priority = 18, action = "deny", source = "192.0.2.0/24" },
        { priority = 17, action = "deny", destination = "10.0.0.2/32" },
        { priority = 16, action = "deny", source_ports = "5000-5010" },
        { priority = 15, action = "deny", source = "2001:db8:bad::/48" },
        { priority = 14, action = "deny", protocol = "tcp/udp", destination_ports = 111 }"#;
    let base = || ip4(SERVER, HOST).ttl(9);
    let denied = [
        base().tos(0xb9).udp(1000, 2000),
        base().says(47).payload([0; 8]),
        ip4([192, 0, 2, 9], HOST).ttl(9).udp(1000, 2000),
        ip4(SERVER, [10, 0, 0, 2]).ttl(9).udp(1000, 2000),
        base().udp(5010, 2000),
        ip6(Ipv6Addr::new(0x2001, 0xdb8, 0xbad, 1, 0, 0, 0, 1), HOST_6).ttl(9).udp(1000, 2000),
        base().tcp(1000, 111),
        ip6(SERVER_6, HOST_6).ttl(9).udp(1000, 111),
    ];
    let count = denied.len() as u64;
    filtered("Each field by itself; a packet that none of them describes passes.", rules)
        .then(|case| denied.iter().fold(case, |case, packet| case.send("nsi", &from_router(packet))))
        .send("nsi", &from_router(&base().tos(0xb0).udp(5011, 112)))
        .expect("cin", &depi(0, &[framed(0, 0, &to_host(0, &base().ttl(8).tos(0xb0).udp(5011, 112)))]))
        .drops("downstream.filtering.filter_denied", count)
        .counts("filter.down.deny", count)
        .counts("filter.down.unmatched", 1)
        .punts("service_flow", 1)
        .punts("depi", 1)
}

fn fields_of_the_link_and_of_ipv6() -> Case {
    let rules = r#"
        { priority = 9, action = "deny", source_mac = "02:ca:00:00:00:02" },
        { priority = 8, action = "deny", destination_mac = "02:ca:00:00:00:02" },
        { priority = 7, action = "deny", user_priority = [6, 7] },
        { priority = 6, action = "deny", vlan = 200 },
        { priority = 5, action = "deny", flow_label = 0x12345 },
        { priority = 4, action = "deny", destination = "2001:db8:5e::7/128" },
        { priority = 3, action = "deny", ethertype = 0x86dd, protocol = "tcp" }"#;
    let second = |ttl| ip4([10, 0, 0, 2], SERVER).ttl(ttl).udp(1, 2);
    let down6 = |ttl| ip6(SERVER_6, HOST_6).ttl(ttl);
    let up = |packets: &[(u8, Packet)]| -> Vec<u8> {
        packets.iter().flat_map(|(host, packet)| mac_frame(&[], &from_host(*host, packet), None)).collect()
    };
    let bursts = up(&[(1, second(9)), (0, datagram6(false, 9)), (0, second(9)), (0, datagram(false, 9))]);
    let tagged =
        |tag: u16, packet: &Packet| eth(ROUTER_MAC, NSI_MAC).vlan(100).carrying(packet).poke(14, tag.to_be_bytes());
    filtered(
        "Hardware addresses, tag, flow label, IPv6 prefixes, Ethernet type: each by itself, downstream and upstream.",
        rules,
    )
    .with(
        r#"port = [
          { name = "cin", uri = "memory:cin?mac=02:00:00:00:01:01", role = "rpd", addresses = ["172.16.0.1/16"] },
          { name = "nsi", uri = "memory:nsi?mac=02:00:00:00:02:01", role = "network", addresses = ["198.18.0.254/24", "fd00:18::254/64"], vlan = 100 },
        ]"#,
    )
    .send("nsi", &tagged(0x0064, &ip4(SERVER, [10, 0, 0, 2]).ttl(9).udp(1, 2)))
    .send("nsi", &tagged(0xc064, &to(2000, 9)))
    .send("nsi", &tagged(0x0064, &down6(9).flow_label(0x12345).udp(1, 2)))
    .send("nsi", &tagged(0x0064, &down6(9).tcp(1, 2)))
    .send("nsi", &tagged(0xa064, &to(2000, 9)))
    .send("nsi", &tagged(0x0064, &down6(9).flow_label(0x12344).udp(1, 2)))
    .expect(
        "cin",
        &depi(
            0,
            &[
                framed(0, 0, &to_host(0, &to(2000, 8))),
                framed(0, 1, &to_host(0, &down6(8).flow_label(0x12344).udp(1, 2))),
            ],
        ),
    )
    .send("cin", &burst(0, SID, &segment(0, Some(0), &bursts)))
    .expect("nsi", &eth(NSI_MAC, ROUTER_MAC).vlan(100).carrying(&second(8)))
    .expect("nsi", &eth(NSI_MAC, ROUTER_MAC).vlan(100).carrying(&datagram(false, 8)))
    .drops("downstream.filtering.filter_denied", 4)
    .drops("upstream.filtering.filter_denied", 2)
    .counts("filter.down.deny", 4)
    .counts("filter.down.unmatched", 2)
    .counts("filter.up.deny", 2)
    .counts("filter.up.unmatched", 2)
    .punts("service_flow", 2)
    .punts("depi", 2)
    .punts("uepi", 1)
}

/// Packets of which those with `true` belong to the second service flow, and how they leave: traffic priority does not
/// matter while channels are idle, so in order.
fn sorted(case: Case, packets: &[(Packet, Packet, bool)], dress: impl Fn(&Packet) -> Packet) -> Case {
    let mut numbers = [0u16; 2];
    let mut case = case;
    for (n, (sent, heard, second)) in packets.iter().enumerate() {
        let flow = usize::from(*second);
        let frame = framed(flow as u32, numbers[flow], heard);
        numbers[flow] += 1;
        // Each by itself, so that one DEPI packet has one frame.
        case = case.at(ms(2 * n as u64)).send("nsi", &dress(sent)).expect("cin", &depi(n as u16, &[frame]));
    }
    let count = packets.len() as u64;
    case.punts("service_flow", count).punts("depi", count)
}

fn udp(from: u16, to: u16, ttl: u8) -> Packet {
    ip4(SERVER, HOST).ttl(ttl).udp(from, to).payload(b"classified")
}

fn classifiers_by_priority() -> Case {
    let rules = r#"
        { priority = 1, flow = "voice", protocol = "udp" },
        { priority = 9, flow = "best", destination_ports = 80 },
        { priority = 5, flow = "voice", protocol = "icmp" }"#;
    let ping = |ttl| ip4(SERVER, HOST).ttl(ttl).ping(1, 1);
    let tcp = |ttl| ip4(SERVER, HOST).ttl(ttl).tcp(1, 2);
    let packets = [
        (udp(1, 2, 9), to_host(0, &udp(1, 2, 8)), true),
        (udp(1, 80, 9), to_host(0, &udp(1, 80, 8)), false),
        (ping(9), to_host(0, &ping(8)), true),
        (tcp(9), to_host(0, &tcp(8)), false),
    ];
    let case =
        classified("The first rule that matches leads to its service flow; what none matches is the primary's.", rules);
    sorted(case, &packets, from_router)
        .counts("classified.ipv4", 2)
        .counts("classified.icmp", 1)
        .counts("classified.none", 1)
        .counts("flow.0.0.packets", 2)
        .counts("flow.0.1.packets", 2)
}

fn classified_by_ipv6_fields() -> Case {
    let rules = r#"
        { priority = 3, flow = "voice", flow_label = 0x12345 },
        { priority = 2, flow = "voice", source = "2001:db8:5e::/48", protocol = "tcp" },
        { priority = 1, flow = "voice", tos = [0xa0, 0xbf, 0xff] }"#;
    let base = |ttl| ip6(SERVER_6, HOST_6).ttl(ttl);
    let label = |ttl| base(ttl).flow_label(0x12345).udp(1, 2);
    let tcp = |ttl| base(ttl).tcp(1, 2);
    let class = |ttl| base(ttl).tos(0xb8).udp(1, 2);
    let none = |ttl| base(ttl).flow_label(0x12346).tos(0xc0).udp(1, 2);
    let both = |make: &dyn Fn(u8) -> Packet, second| (make(9), to_host(0, &make(8)), second);
    let packets = [both(&label, true), both(&tcp, true), both(&class, true), both(&none, false)];
    sorted(classified("IPv6: flow label, prefix, traffic class.", rules), &packets, from_router)
        .counts("classified.llc", 3)
        .counts("classified.none", 1)
}

fn classified_by_hardware_address() -> Case {
    let rules = r#"
        { priority = 2, flow = "voice", destination_mac = "02:ca:00:00:00:02" },
        { priority = 1, flow = "voice", ethertype = 0x86dd }"#;
    let second = |ttl| ip4(SERVER, [10, 0, 0, 2]).ttl(ttl).udp(1, 2);
    let packets = [
        (udp(1, 2, 9), to_host(0, &udp(1, 2, 8)), false),
        (second(9), to_host(1, &second(8)), true),
        (datagram6(true, 9), to_host(0, &datagram6(true, 8)), true),
    ];
    sorted(classified("Layer 2: the host's hardware address, the Ethernet type.", rules), &packets, from_router)
}

fn classified_by_tag() -> Case {
    let rules = r#"{ priority = 2, flow = "voice", user_priority = [5, 6], vlan = 100 }"#;
    let tagged = |priority: u8, packet: &Packet| from_router_in_vlan(packet).poke(14, [priority << 5]);
    let packets = [(udp(1, 2, 9), to_host(0, &udp(1, 2, 8)), true)];
    let case = classified("802.1P and 802.1Q: the tag of the packet as it came, which modems do not see.", rules)
        .with(
            r#"port = [
              { name = "cin", uri = "memory:cin?mac=02:00:00:00:01:01", role = "rpd", addresses = ["172.16.0.1/16"] },
              { name = "nsi", uri = "memory:nsi?mac=02:00:00:00:02:01", role = "network", addresses = ["198.18.0.254/24", "fd00:18::254/64"], vlan = 100 },
            ]"#,
        );
    sorted(case, &packets, |packet| tagged(5, packet))
        .at(ms(4))
        .send("nsi", &tagged(4, &udp(1, 2, 9)))
        .expect("cin", &depi(1, &[framed(0, 0, &to_host(0, &udp(1, 2, 8)))]))
        .punts("service_flow", 1)
        .punts("depi", 1)
        .send("nsi", &from_router(&udp(1, 2, 9)))
        .drops("downstream.rx.wrong_vlan", 1)
}

fn from_router_in_vlan(packet: &Packet) -> Packet {
    eth(ROUTER_MAC, NSI_MAC).vlan(100).carrying(packet)
}

fn the_second_group_is_asked_too() -> Case {
    case("Of a modem's filter groups the rule of the highest priority decides, whichever group it is in.")
        .with(
            r#"filter_group = [
              { name = "one", rule = [ { priority = 5, action = "permit", protocol = "udp" } ] },
              { name = "two", rule = [ { priority = 6, action = "deny", destination_ports = 2000 }, { priority = 4, action = "deny", protocol = "udp" } ] },
            ]
            profile = [ { name = "home", filters_down = ["one", "two"], flow = [ { name = "best" } ] } ]"#,
        )
        .send("nsi", &from_router(&to(2000, 9)))
        .send("nsi", &from_router(&to(2001, 9)))
        .expect("cin", &depi(0, &[framed(0, 0, &to_host(0, &to(2001, 8)))]))
        .drops("downstream.filtering.filter_denied", 1)
        .counts("filter.down.permit", 1)
        .counts("filter.down.deny", 1)
        .punts("service_flow", 1)
        .punts("depi", 1)
}
