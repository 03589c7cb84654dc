//! Control protocols of lines: answered from the record, or taken to control by class.

use wire::ndp;

use super::*;

testkit::cases! {
    arp_for_the_gateway, arp_with_customer_tags, arp_of_a_spoofer, arp_of_an_unknown_line, arp_probe, proxy_arp,
    neighbour_solicitation, duplicate_address_detection, router_solicitation, ping_the_gateway, ping_spoofed, ping_the_core_address,
    dhcp_both_families, pppoe, group_membership, routing, no_service, storms_are_limited, storm_of_a_shared_line, inner_priority_tag, link_local_addresses_teach_nothing, core_neighbours, packets_wait_for_a_neighbour,
    packets_wait_in_ipv6, nobody_answers, asked_again, too_many_wait,
    dhcp_servers, dhcp_strangers, dhcp_in_fragments, fragments_to_the_host, renewal_to_the_server,
}

const ALL: [u8; 6] = [0xff; 6];

fn line(from: [u8; 6], to: [u8; 6]) -> Packet {
    eth(from, to).service_vlan(100).vlan(1)
}

fn arp_for_the_gateway() -> Case {
    case("ARP for the default router: answered by the virtual hardware address, with the tags that came.")
        .send("acc", &line(SUB_MAC, ALL).arp_request(SUB_MAC, SUB, GATEWAY))
        .expect("acc", &line(GW_MAC, SUB_MAC).arp_reply(GW_MAC, GATEWAY, SUB_MAC, SUB).padded_to(68))
        .punts("arp", 1)
}

fn arp_with_customer_tags() -> Case {
    let line = |from, to| eth(from, to).vlan(100).vlan(1);
    case("The same with two tags of type 0x8100.")
        .send("acc", &line(SUB_MAC, ALL).arp_request(SUB_MAC, SUB, GATEWAY))
        .expect("acc", &line(GW_MAC, SUB_MAC).arp_reply(GW_MAC, GATEWAY, SUB_MAC, SUB).padded_to(68))
        .punts("arp", 1)
}

fn arp_of_a_spoofer() -> Case {
    case("ARP in another's name, and from another's hardware address.")
        .send("acc", &line(SUB_MAC, ALL).arp_request(SUB_MAC, NEXT, GATEWAY))
        .send("acc", &line(OTHER_MAC, ALL).arp_request(OTHER_MAC, SUB, GATEWAY))
        .drops("worker.spoofed_source", 2)
}

fn arp_of_an_unknown_line() -> Case {
    let line = eth(SUB_MAC, ALL).service_vlan(100).vlan(9);
    case("ARP of a line without subscriber is not answered; control has it.")
        .send("acc", &line.arp_request(SUB_MAC, Ipv4Addr::new(100, 64, 0, 19), GATEWAY))
        .punts("arp", 1)
        .counts("control.arp", 1)
}

fn arp_probe() -> Case {
    let probe = |target| line(SUB_MAC, ALL).arp_request(SUB_MAC, Ipv4Addr::UNSPECIFIED, target);
    case("Probes (RFC 5227): for its own address there is no answer, for the gateway's there is.")
        .send("acc", &probe(SUB))
        .send("acc", &probe(GATEWAY))
        .expect("acc", &line(GW_MAC, SUB_MAC).arp_reply(GW_MAC, GATEWAY, SUB_MAC, Ipv4Addr::UNSPECIFIED).padded_to(68))
        .punts("arp", 2)
}

/// The base configuration's groups with the first one changed.
fn with_group(case: Case, change: &str) -> Case {
    let groups = BASE.replacen("[[group]]\n", &format!("[[group]]\n{change}\n"), 1);
    let table: toml::Table = groups.parse().unwrap();
    let group = toml::Table::from_iter([("group".to_owned(), table["group"].clone())]);
    case.with(&toml::to_string(&group).unwrap())
}

const DHCP_SERVER: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 254);
const DHCP_SERVER_6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0x18, 0, 0, 0, 0, 0, 0x254);

/// The first group's messages are relayed.
fn relayed(case: Case) -> Case {
    with_group(case, r#"sessions = { relay = { servers = ["198.18.0.254", "fd00:18::254"] } }"#)
}

fn dhcp_servers() -> Case {
    let case = case(
        "Replies of DHCP servers to the gateway as relay agent, at its address in the group and at the core port's.",
    );
    relayed(case)
        .send("core", &eth(ROUTER_MAC, CORE_MAC).carrying(&ip4(DHCP_SERVER, GATEWAY).udp(67, 67).payload("reply")))
        .send("core", &eth(ROUTER_MAC, CORE_MAC).carrying(&ip4(DHCP_SERVER, CORE).udp(67, 67).payload("reply")))
        .send("core", &eth(ROUTER_MAC, CORE_MAC).carrying(&ip6(DHCP_SERVER_6, CORE_6).udp(547, 547).payload("reply")))
        .punts("dhcp_server", 3)
}

fn dhcp_strangers() -> Case {
    let case = case("DHCP messages of others than the group's servers; and another service of a server.");
    relayed(case)
        .send("core", &eth(ROUTER_MAC, CORE_MAC).carrying(&ip4(SERVER, GATEWAY).udp(67, 67).payload("reply")))
        .send("core", &eth(ROUTER_MAC, CORE_MAC).carrying(&ip6(SERVER_6, CORE_6).udp(547, 547).payload("reply")))
        .send("core", &eth(ROUTER_MAC, CORE_MAC).carrying(&ip4(DHCP_SERVER, GATEWAY).udp(67, 68).payload("reply")))
        .drops("downstream.parse.dhcp_stranger", 2)
        .drops("downstream.parse.no_service", 1)
}

/// Services of the host listen at the core port's addresses.
fn with_host_services(case: Case) -> Case {
    let of_port = "role = \"core\"\nhost_interface = \"core0\"\nhost_packets_per_second = 1000\n";
    let table: toml::Table = BASE.replacen("role = \"core\"\n", of_port, 1).parse().unwrap();
    let ports = toml::Table::from_iter([("port".to_owned(), table["port"].clone())]);
    case.with(&toml::to_string(&ports).unwrap())
}

/// Fragments from a DHCP server to the core port, of both families: with ports of DHCP, and of what is behind them.
fn fragments(protocol: u8) -> [Packet; 4] {
    const FRAGMENT_NEXT: usize = 14 + 40;
    let link = || eth(ROUTER_MAC, CORE_MAC);
    let first = [0, 67, 0, 67, 0, 60, 0, 0, 1, 1, 6, 0, 0, 0, 0, 0];
    let whole = || ip4(DHCP_SERVER, CORE).ident(9).says(protocol.into());
    let first4 = link().carrying(&whole().fragment(0, true).payload(first));
    let later4 = link().carrying(&whole().fragment(16, false).payload([7; 44]));
    let first = [2, 35, 2, 35, 0, 60, 0, 0, 7, 0, 0, 1, 0, 0, 0, 0];
    let first6 = link().carrying(&ip6(DHCP_SERVER_6, CORE_6).fragment6(0, true, 9).payload(first));
    let first6 = first6.poke(FRAGMENT_NEXT, [protocol]);
    let later6 = link().carrying(&ip6(DHCP_SERVER_6, CORE_6).fragment6(16, false, 9).payload([7; 44]));
    let later6 = later6.poke(FRAGMENT_NEXT, [protocol]);
    [first4, later4, first6, later6]
}

fn dhcp_in_fragments() -> Case {
    let case = case(
        "Fragments of DHCP messages, and others of datagrams, which may be: neither control nor services of the host have them. A whole datagram and a segment's fragments are the host's.",
    );
    let case = with_host_services(relayed(case));
    let whole = eth(ROUTER_MAC, CORE_MAC).carrying(&ip4(SERVER, CORE).udp(9, 161).payload("whole"));
    let all = fragments(17).into_iter().chain(fragments(6)).chain([whole]);
    all.fold(case, |case, packet| case.send("core", &packet)).drops("downstream.parse.no_service", 4).punts("host", 5)
}

fn fragments_to_the_host() -> Case {
    let case = with_host_services(case("Without DHCP servers all fragments are the host's."));
    fragments(17).into_iter().fold(case, |case, packet| case.send("core", &packet)).punts("host", 4)
}

fn renewal_to_the_server() -> Case {
    let case = case(
        "A client renews its lease at the server itself (RFC 2131, 4.4.5): it passes the relay agent; other packets to the server are routed.",
    );
    let other = ip4(SUB, DHCP_SERVER).udp(68, 69).payload("other");
    // A line of a group that is not relayed, with a relay agent of its own.
    let elsewhere = ip4(Ipv4Addr::new(100, 66, 0, 10), DHCP_SERVER).udp(67, 67).payload("own");
    relayed(case)
        .send("acc", &eth(OTHER_MAC, ACC_MAC).vlan(300).carrying(&elsewhere))
        .expect(
            "core",
            &eth(CORE_MAC, ROUTER_MAC)
                .carrying(&ip4(Ipv4Addr::new(100, 66, 0, 10), DHCP_SERVER).ttl(63).udp(67, 67).payload("own")),
        )
        .send("acc", &line(SUB_MAC, GW_MAC).carrying(&ip4(SUB, DHCP_SERVER).udp(68, 67).payload("renewal")))
        .send("acc", &line(SUB_MAC, GW_MAC).carrying(&other))
        .expect(
            "core",
            &eth(CORE_MAC, ROUTER_MAC).carrying(&ip4(SUB, DHCP_SERVER).ttl(63).udp(68, 69).payload("other")),
        )
        .punts("dhcp4", 1)
}

fn proxy_arp() -> Case {
    let ask = |target| line(SUB_MAC, ALL).arp_request(SUB_MAC, SUB, target);
    let case = case("A proxy answers for the group's other addresses, not for the asker's own nor for others.");
    with_group(case, r#"proxy = "subscribers""#)
        .send("acc", &ask(NEXT))
        .send("acc", &ask(SUB))
        .send("acc", &ask(SERVER))
        .expect("acc", &line(GW_MAC, SUB_MAC).arp_reply(GW_MAC, NEXT, SUB_MAC, SUB).padded_to(68))
        .punts("arp", 3)
}

fn neighbour_solicitation() -> Case {
    let ask = ip6(SUB_LOCAL, GATEWAY_6).solicit(GATEWAY_6, Some(Mac(SUB_MAC)));
    let answer = ip6(GATEWAY_6, SUB_LOCAL).advertise(GATEWAY_6, Mac(GW_MAC), 0xe0);
    case("A neighbour solicitation for the default router (RFC 4861, 7.2).")
        .send("acc", &line(SUB_MAC, GW_MAC).carrying(&ask))
        .expect("acc", &line(GW_MAC, SUB_MAC).carrying(&answer))
        .punts("neighbour", 1)
}

fn duplicate_address_detection() -> Case {
    let group: Ipv6Addr = "ff02::1:ff00:1".parse().unwrap();
    let nodes: Ipv6Addr = "ff02::1".parse().unwrap();
    let probe = ip6(Ipv6Addr::UNSPECIFIED, group).solicit(GATEWAY_6, None);
    let answer = ip6(GATEWAY_6, nodes).advertise(GATEWAY_6, Mac(GW_MAC), 0xa0);
    case("A subscriber takes the router's address for its own: told that it is taken (RFC 4862, 5.4).")
        .send("acc", &line(SUB_MAC, [0x33, 0x33, 0xff, 0, 0, 1]).carrying(&probe))
        .expect("acc", &line(GW_MAC, [0x33, 0x33, 0, 0, 0, 1]).carrying(&answer))
        .punts("neighbour", 1)
}

fn router_solicitation() -> Case {
    let routers: Ipv6Addr = "ff02::2".parse().unwrap();
    let ask = ip6(SUB_LOCAL, routers).ndp(ndp::Repr::RouterSolicit { source: Some(Mac(SUB_MAC)) });
    case("A router solicitation goes to control, which has the advertisements.")
        .send("acc", &line(SUB_MAC, [0x33, 0x33, 0, 0, 0, 2]).carrying(&ask))
        .punts("neighbour", 1)
        .counts("control.nd", 1)
}

fn ping_the_gateway() -> Case {
    case("An echo request to the default router is answered on its line, with the tags that came.")
        .send("acc", &from_sub(&ip4(SUB, GATEWAY).ping(1, 2).payload(b"echo")))
        .expect("acc", &to_sub(&ip4(GATEWAY, SUB).pong(1, 2).payload(b"echo")))
        .punts("ping", 1)
        .counts("class.icmp.packets", 1)
}

fn ping_spoofed() -> Case {
    case("An echo request from another's address is not answered.")
        .send("acc", &from_sub(&ip4(NEXT, GATEWAY).ping(1, 2).payload(b"echo")))
        .drops("worker.spoofed_source", 1)
}

fn ping_the_core_address() -> Case {
    case("Echo requests to the core address: of a subscriber, and of the core, which may ask for the router of subscribers, too.")
        .send("acc", &from_sub(&ip4(SUB, CORE).ping(1, 2).payload(b"echo")))
        .expect("acc", &to_sub(&ip4(CORE, SUB).pong(1, 2).payload(b"echo")))
        .send("core", &from_router(&ip4(SERVER, CORE).ping(3, 4).payload(b"echo")))
        .send("core", &from_router(&ip4(SERVER, GATEWAY).ping(5, 6).payload(b"echo")))
        .expect("core", &to_router(&ip4(CORE, SERVER).pong(3, 4).payload(b"echo")))
        .expect("core", &to_router(&ip4(GATEWAY, SERVER).pong(5, 6).payload(b"echo")))
        .punts("ping", 3)
}

fn dhcp_both_families() -> Case {
    let discover = ip4(Ipv4Addr::UNSPECIFIED, Ipv4Addr::BROADCAST).udp(68, 67).payload([1; 240]);
    let renew = ip4(SUB, GATEWAY).udp(68, 67).payload([1; 240]);
    let solicit = ip6(SUB_LOCAL, "ff02::1:2".parse::<Ipv6Addr>().unwrap()).udp(546, 547).payload([1; 40]);
    let new = |packet: &Packet| eth(OTHER_MAC, ALL).service_vlan(100).vlan(8).carrying(packet);
    case("DHCPv4 and DHCPv6 go to control, from lines without subscriber, too.")
        .send("acc", &new(&discover))
        .send("acc", &from_sub(&renew))
        .send("acc", &line(SUB_MAC, [0x33, 0x33, 0, 1, 0, 2]).carrying(&solicit))
        .punts("dhcp4", 2)
        .punts("dhcp6", 1)
        .counts("control.dhcp4", 2)
        .counts("control.dhcp6", 1)
}

fn pppoe() -> Case {
    case("PPPoE discovery goes to control.")
        .send("acc", &line(SUB_MAC, ALL).payload([0x11, 9, 0, 0, 0, 4, 1, 1, 0, 0]).padded().poke(20, [0x88, 0x63]))
        .punts("pppoe", 1)
        .counts("control.pppoe", 1)
}

fn group_membership() -> Case {
    let report = ip4(SUB, Ipv4Addr::new(224, 0, 0, 22)).ttl(1).says(2).payload([0x22, 0, 0, 0, 0, 0, 0, 0]);
    let mld = ip6(SUB_LOCAL, "ff02::16".parse::<Ipv6Addr>().unwrap()).ttl(1).icmp6(143, 0, 0);
    case("IGMP and MLD go to control.")
        .send("acc", &line(SUB_MAC, [1, 0, 0x5e, 0, 0, 22]).carrying(&report))
        .send("acc", &line(SUB_MAC, [0x33, 0x33, 0, 0, 0, 0x16]).carrying(&mld))
        .punts("group_membership", 2)
        .counts("control.multicast", 2)
}

fn routing() -> Case {
    let hello = ip4(SUB, Ipv4Addr::new(224, 0, 0, 5)).ttl(1).says(89).payload([2; 44]);
    case("OSPF of a line goes to control; a business line may route.")
        .send("acc", &line(SUB_MAC, [1, 0, 0x5e, 0, 0, 5]).carrying(&hello))
        .send("acc", &from_sub(&ip4(SUB, GATEWAY).tcp(40_000, 179)))
        .punts("routing", 2)
        .counts("control.routing", 2)
}

fn no_service() -> Case {
    case("To the default router, where nothing listens.")
        .send("acc", &from_sub(&ip4(SUB, GATEWAY).tcp(40_000, 80)))
        .drops("upstream.parse.no_service", 1)
}

fn storms_are_limited() -> Case {
    let ask = line(SUB_MAC, ALL).arp_request(SUB_MAC, SUB, GATEWAY);
    let answer = line(GW_MAC, SUB_MAC).arp_reply(GW_MAC, GATEWAY, SUB_MAC, SUB).padded_to(68);
    let other = eth(NEXT_MAC, ALL).service_vlan(100).vlan(2).arp_request(NEXT_MAC, NEXT, GATEWAY);
    let other_answer = eth(GW_MAC, NEXT_MAC).service_vlan(100).vlan(2);
    let other_answer = other_answer.arp_reply(GW_MAC, GATEWAY, NEXT_MAC, NEXT).padded_to(68);
    case("A line asks without end: its own limit stops it, and its neighbour is answered.")
        .with("punt = { line = 1 }")
        .then(|case| (0..30).fold(case, |case, _| case.send("acc", &ask)))
        .send("acc", &other)
        .then(|case| (0..10).fold(case, |case, _| case.expect("acc", &answer)))
        .expect("acc", &other_answer)
        .punts("arp", 11)
        .drops("worker.limited", 20)
        .counts("class.arp.limited", 20)
}

fn storm_of_a_shared_line() -> Case {
    let gateway = Ipv4Addr::new(100, 65, 0, 1);
    let ask = |mac: [u8; 6], host: u8| {
        eth(mac, ALL).service_vlan(200).vlan(1).arp_request(mac, Ipv4Addr::new(100, 65, 0, host), gateway)
    };
    let answer = |mac: [u8; 6], host: u8| {
        let line = eth(ACC_MAC, mac).service_vlan(200).vlan(1);
        line.arp_reply(ACC_MAC, gateway, mac, Ipv4Addr::new(100, 65, 0, host)).padded_to(68)
    };
    case("A host asks without end: its neighbour on the same VLAN pair is answered.")
        .with("punt = { line = 1 }")
        .then(|case| (0..30).fold(case, |case, _| case.send("acc", &ask(SUB_MAC, 10))))
        .send("acc", &ask(NEXT_MAC, 11))
        .then(|case| (0..10).fold(case, |case, _| case.expect("acc", &answer(SUB_MAC, 10))))
        .expect("acc", &answer(NEXT_MAC, 11))
        .punts("arp", 11)
        .drops("worker.limited", 20)
        .counts("class.arp.limited", 20)
}

fn inner_priority_tag() -> Case {
    let host = Ipv4Addr::new(100, 66, 0, 10);
    case("A priority tag behind the VLAN's own belongs to the VLAN (IEEE 802.1Q, 9.6); the way back has none.")
        .send("acc", &eth(SUB_MAC, ACC_MAC).vlan(300).vlan(0).carrying(&up(host, 9)))
        .send("core", &from_router(&down(host, 9)))
        .expect("core", &to_router(&up(host, 8)))
        .expect("acc", &eth(ACC_MAC, SUB_MAC).vlan(300).carrying(&down(host, 8)))
        .counts("learnt", 1)
}

fn link_local_addresses_teach_nothing() -> Case {
    let routers: Ipv6Addr = "ff02::2".parse().unwrap();
    let nodes: Ipv6Addr = "ff02::1".parse().unwrap();
    let ask = ip6(SUB_LOCAL, routers).ndp(ndp::Repr::RouterSolicit { source: Some(Mac(OTHER_MAC)) });
    let tell = ip6(SUB_LOCAL, nodes).advertise(SUB_LOCAL, Mac(OTHER_MAC), 0x20);
    let single = |packet: &Packet| eth(OTHER_MAC, [0x33, 0x33, 0, 0, 0, 2]).vlan(300).carrying(packet);
    case("Solicitations for routers and advertisements from link-local addresses say nothing of whose frame it is.")
        .send("acc", &single(&ask))
        .send("acc", &single(&tell))
        .send("core", &from_router(&down(Ipv4Addr::new(100, 66, 0, 10), 9)))
        .punts("neighbour", 2)
        .drops("downstream.admit.neighbour_unresolved", 1)
        .counts("learnt", 0)
        .counts("control.nd", 1)
}

fn core_neighbours() -> Case {
    let host = Ipv4Addr::new(198, 18, 0, 77);
    case("ARP on the core link is answered and learnt from, and asked for a destination on the link.")
        .send("core", &eth(ROUTER_MAC, ALL).arp_request(ROUTER_MAC, host, CORE))
        .expect("core", &to_router_arp(host))
        .at(ms(1))
        .send("acc", &from_sub(&ip4(SUB, host).udp(1, 2).payload(b"link")))
        .expect("core", &to_router(&ip4(SUB, host).ttl(63).udp(1, 2).payload(b"link")))
        .punts("arp", 1)
}

/// A packet of the subscriber's, of its own content.
fn numbered(host: Ipv4Addr, n: u8, ttl: u8) -> Packet {
    ip4(SUB, host).ttl(ttl).udp(1, 2).payload([n; 9])
}

/// Host unreachable (RFC 792), about a packet of the subscriber's.
fn unreachable(about: &Packet) -> Packet {
    super::errors::error_to_sub(&ip4(GATEWAY, SUB).tos(0xc0).icmp4(3, 1, 0).payload(about.build()))
}

fn packets_wait_for_a_neighbour() -> Case {
    let host = Ipv4Addr::new(198, 18, 0, 78);
    let ports: toml::Table = BASE.replacen("[[port]]\n", "[[port]]\nmss = 1400\n", 1).parse().unwrap();
    let port = toml::Table::from_iter([("port".to_owned(), ports["port"].clone())]);
    let syn = |ttl, mss| ip4(SUB, host).ttl(ttl).tcp(40_000, 80).flags(2).mss(mss);
    case(
        "A host of the core link is asked for; packets wait and leave in their order, with their segment size bounded.",
    )
    .with(&toml::to_string(&port).unwrap())
    .send("acc", &from_sub(&syn(64, 1460)))
    .send("acc", &from_sub(&numbered(host, 1, 64)))
    .expect("core", &eth(CORE_MAC, ALL).arp_request(CORE_MAC, CORE, host).padded())
    .at(ms(2))
    .send("acc", &from_sub(&numbered(host, 2, 64)))
    .at(ms(5))
    .send("core", &eth(ROUTER_MAC, CORE_MAC).arp_reply(ROUTER_MAC, host, CORE_MAC, CORE).padded())
    .expect("core", &to_router(&syn(63, 1400)))
    .expect("core", &to_router(&numbered(host, 1, 63)))
    .expect("core", &to_router(&numbered(host, 2, 63)))
    .at(ms(6))
    .send("acc", &from_sub(&numbered(host, 3, 64)))
    .expect("core", &to_router(&numbered(host, 3, 63)))
    .punts("resolve", 3)
    .punts("arp", 1)
    .counts("subscriber.0.up.ipv4.packets", 4)
}

fn packets_wait_in_ipv6() -> Case {
    let host: Ipv6Addr = "fd00:18::78".parse().unwrap();
    let group = ndp::solicited_node(host);
    let packet = |ttl| ip6(SUB_6, host).ttl(ttl).udp(1, 2).payload(b"link");
    case("The same in IPv6, by neighbour discovery.")
        .send("acc", &from_sub(&packet(64)))
        .expect(
            "core",
            &eth(CORE_MAC, Mac::multicast6(group.to_bits()).0).ip6(CORE_6, group).solicit(host, Some(Mac(CORE_MAC))),
        )
        .at(ms(5))
        .send("core", &eth(ROUTER_MAC, CORE_MAC).ip6(host, CORE_6).advertise(host, Mac(ROUTER_MAC), 0x60))
        .expect("core", &to_router(&packet(63)))
        .punts("resolve", 1)
        .punts("neighbour", 1)
}

fn nobody_answers() -> Case {
    let host = Ipv4Addr::new(198, 18, 0, 79);
    let ask = || eth(CORE_MAC, ALL).arp_request(CORE_MAC, CORE, host).padded();
    let packet = numbered(host, 1, 64);
    case("Nobody answers: three questions, then what waited is dropped by its name, and its sender is told.")
        .send("acc", &from_sub(&packet))
        .expect("core", &ask())
        .at(ms(1000))
        .expect("core", &ask())
        .at(ms(2000))
        .expect("core", &ask())
        .at(ms(4000))
        .expect("acc", &unreachable(&packet))
        .punts("resolve", 1)
        .drops("worker.neighbour_unresolved", 1)
}

fn asked_again() -> Case {
    let host = Ipv4Addr::new(198, 18, 0, 81);
    let ask = || eth(CORE_MAC, ALL).arp_request(CORE_MAC, CORE, host).padded();
    let start =
        case("A host is down for eight seconds while a packet a second comes: it is asked for again, and reached.");
    // Given up after three questions, not asked for during three seconds, and asked for again.
    let asked = [0, 1, 2, 6, 7, 8];
    let case = (0..=8).fold(start, |case, second: u64| {
        let case = case.at(ms(second * 1000 + 1)).send("acc", &from_sub(&numbered(host, second as u8, 64)));
        let case = if asked.contains(&second) { case.expect("core", &ask()) } else { case };
        // One that has waited for four seconds.
        if second < 4 {
            return case;
        }
        let late = numbered(host, second as u8 - 4, 64);
        case.expect("acc", &unreachable(&late))
    });
    let case =
        case.at(ms(8500)).send("core", &eth(ROUTER_MAC, CORE_MAC).arp_reply(ROUTER_MAC, host, CORE_MAC, CORE).padded());
    let case = (5..=8).fold(case, |case, n| case.expect("core", &to_router(&numbered(host, n, 63))));
    case.punts("resolve", 9).punts("arp", 1).drops("worker.neighbour_unresolved", 5)
}

fn too_many_wait() -> Case {
    let host = Ipv4Addr::new(198, 18, 0, 80);
    let case = (0..18).fold(case("Sixteen packets wait for a host, and no more."), |case, n| {
        case.send("acc", &from_sub(&numbered(host, n, 64)))
    });
    let case = case
        .expect("core", &eth(CORE_MAC, ALL).arp_request(CORE_MAC, CORE, host).padded())
        .at(ms(5))
        .send("core", &eth(ROUTER_MAC, CORE_MAC).arp_reply(ROUTER_MAC, host, CORE_MAC, CORE).padded());
    let case = (0..16).fold(case, |case, n| case.expect("core", &to_router(&numbered(host, n, 63))));
    case.punts("resolve", 16).punts("arp", 1).drops("worker.neighbour_queue_full", 2)
}

fn to_router_arp(host: Ipv4Addr) -> Packet {
    eth(CORE_MAC, ROUTER_MAC).arp_reply(CORE_MAC, CORE, ROUTER_MAC, host).padded()
}
