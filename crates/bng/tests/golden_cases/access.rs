//! Lines and addresses: whose packet is whose.

use super::*;

testkit::cases! {
    qinq_both_ways, qinq_customer_tags, single_tagged, untagged, shared_vlan, ipv6_wan_and_delegated, unknown_vlan, unknown_line,
    unknown_address, spoofed_ipv4, spoofed_ipv6, spoofed_mac, martian_source, subscriber_to_subscriber, other_group,
    group_elsewhere, learnt_mac, installed_and_removed, wrong_tags, not_for_us, multicast, fragment_both_ways,
}

fn qinq_both_ways() -> Case {
    case("A subscriber behind 802.1ad and 802.1Q tags: tags come off upstream and go on downstream.")
        .send("acc", &from_sub(&up(SUB, 64)))
        .expect("core", &to_router(&up(SUB, 63)))
        .send("core", &from_router(&down(SUB, 64)))
        .expect("acc", &to_sub(&down(SUB, 63)))
        .counts("subscriber.0.up.ipv4.packets", 1)
        .counts("subscriber.0.up.ipv4.bytes", 37)
        .counts("subscriber.0.down.ipv4.bytes", 37)
}

fn qinq_customer_tags() -> Case {
    let line = |from, to, packet: &Packet| eth(from, to).vlan(100).vlan(1).carrying(packet);
    case("The outer tag comes with type 0x8100: packets to the line have that type from then on.")
        .send("core", &from_router(&down(SUB, 64)))
        .expect("acc", &to_sub(&down(SUB, 63)))
        .at(ms(1))
        .send("acc", &line(SUB_MAC, GW_MAC, &up(SUB, 64)))
        .expect("core", &to_router(&up(SUB, 63)))
        .at(ms(2))
        .send("core", &from_router(&down(SUB, 64)))
        .expect("acc", &line(GW_MAC, SUB_MAC, &down(SUB, 63)))
}

fn single_tagged() -> Case {
    let sub = Ipv4Addr::new(100, 66, 0, 10);
    let line = |from, to, packet: &Packet| eth(from, to).vlan(300).carrying(packet);
    case("A line with one tag; the gateway has its port's hardware address, as the group has no virtual one.")
        .send("acc", &line(SUB_MAC, ACC_MAC, &up(sub, 64)))
        .expect("core", &to_router(&up(sub, 63)))
        .at(ms(1))
        .send("core", &from_router(&down(sub, 64)))
        .expect("acc", &line(ACC_MAC, SUB_MAC, &down(sub, 63)))
        .counts("learnt", 1)
}

fn untagged() -> Case {
    let sub = Ipv4Addr::new(100, 67, 0, 10);
    case("A line without tags.")
        .send("acc", &eth(SUB_MAC, ACC_MAC).carrying(&up(sub, 64)))
        .expect("core", &to_router(&up(sub, 63)))
        .send("core", &from_router(&down(sub, 64)))
        .expect("acc", &eth(ACC_MAC, SUB_MAC).carrying(&down(sub, 63)))
}

fn shared_vlan() -> Case {
    let line = |from, to, packet: &Packet| eth(from, to).service_vlan(200).vlan(1).carrying(packet);
    let (first, second) = (Ipv4Addr::new(100, 65, 0, 10), Ipv4Addr::new(100, 65, 0, 11));
    case("Two subscribers in one VLAN pair (N:1), told apart by hardware address; a third is unknown.")
        .send("acc", &line(SUB_MAC, ACC_MAC, &up(first, 64)))
        .send("acc", &line(NEXT_MAC, ACC_MAC, &up(second, 64)))
        .send("acc", &line(OTHER_MAC, ACC_MAC, &up(second, 64)))
        .send("acc", &line(SUB_MAC, ACC_MAC, &up(second, 64)))
        .expect("core", &to_router(&up(first, 63)))
        .expect("core", &to_router(&up(second, 63)))
        .send("core", &from_router(&down(second, 64)))
        .expect("acc", &line(ACC_MAC, NEXT_MAC, &down(second, 63)))
        .drops("upstream.find_line.unknown_line", 1)
        .drops("upstream.check_source.spoofed_source", 1)
}

fn ipv6_wan_and_delegated() -> Case {
    case("IPv6 by the WAN prefix and by the delegated prefix: one subscriber with IPv4.")
        .send("acc", &from_sub(&up6(SUB_6, 64)))
        .send("acc", &from_sub(&up6(SUB_PD, 64)))
        .expect("core", &to_router(&up6(SUB_6, 63)))
        .expect("core", &to_router(&up6(SUB_PD, 63)))
        .send("core", &from_router(&down6(SUB_6, 64)))
        .send("core", &from_router(&down6(SUB_PD, 64)))
        .expect("acc", &to_sub(&down6(SUB_6, 63)))
        .expect("acc", &to_sub(&down6(SUB_PD, 63)))
        .counts("subscriber.0.up.ipv6.packets", 2)
        .counts("subscriber.0.down.ipv6.packets", 2)
        .counts("subscriber.0.up.ipv4.packets", 0)
}

fn unknown_vlan() -> Case {
    case("An outer VLAN of no group.")
        .send("acc", &eth(SUB_MAC, GW_MAC).service_vlan(102).vlan(1).carrying(&up(SUB, 64)))
        .drops("upstream.parse.unknown_vlan", 1)
}

fn unknown_line() -> Case {
    let line = |c| eth(SUB_MAC, GW_MAC).service_vlan(100).vlan(c).carrying(&up(SUB, 64));
    case("A VLAN pair of the group without subscriber, and an inner VLAN beyond the group's.")
        .send("acc", &line(9))
        .send("acc", &line(11))
        .drops("upstream.find_line.unknown_line", 1)
        .drops("upstream.parse.unknown_line", 1)
}

fn unknown_address() -> Case {
    case("To addresses that no subscriber has: in a slice, and in none.")
        .send("core", &from_router(&down(Ipv4Addr::new(100, 64, 0, 200), 64)))
        .send("core", &from_router(&down(Ipv4Addr::new(192, 0, 2, 1), 64)))
        .send("core", &from_router(&down6("2001:db8:4000:ff00::1".parse().unwrap(), 64)))
        .drops("downstream.find_address.unknown_subscriber", 3)
}

fn spoofed_ipv4() -> Case {
    case("A subscriber sends from another's IPv4 address.")
        .send("acc", &from_sub(&up(NEXT, 64)))
        .drops("upstream.check_source.spoofed_source", 1)
}

fn spoofed_ipv6() -> Case {
    case("A subscriber sends from IPv6 prefixes next to its own.")
        .send("acc", &from_sub(&up6("2001:db8:100:1::2".parse().unwrap(), 64)))
        .send("acc", &from_sub(&up6("2001:db8:4000:112::2".parse().unwrap(), 64)))
        .drops("upstream.check_source.spoofed_source", 2)
}

fn spoofed_mac() -> Case {
    case("The line's address from another hardware address.")
        .send("acc", &eth(OTHER_MAC, GW_MAC).service_vlan(100).vlan(1).carrying(&up(SUB, 64)))
        .drops("upstream.check_source.spoofed_source", 1)
}

fn martian_source() -> Case {
    case("From addresses that no host has.")
        .send("acc", &from_sub(&up(Ipv4Addr::LOCALHOST, 64)))
        .send("acc", &from_sub(&up6(SUB_LOCAL, 64)))
        .send("core", &from_router(&ip4(Ipv4Addr::LOCALHOST, SUB).udp(1, 2)))
        .drops("upstream.parse.martian_source", 2)
        .drops("downstream.parse.martian_source", 1)
}

fn subscriber_to_subscriber() -> Case {
    let packet = |ttl| ip4(SUB, NEXT).ttl(ttl).udp(7, 9).payload(b"neighbour");
    case("From one subscriber to another: through the gateway, one hop, counted for both.")
        .send("acc", &from_sub(&packet(64)))
        .expect("acc", &eth(GW_MAC, NEXT_MAC).service_vlan(100).vlan(2).carrying(&packet(63)))
        .punts("hairpin", 1)
        .counts("subscriber.0.up.ipv4.packets", 1)
        .counts("subscriber.1.down.ipv4.packets", 1)
}

fn other_group() -> Case {
    let to = Ipv4Addr::new(100, 67, 0, 10);
    let packet = |ttl| ip4(SUB, to).ttl(ttl).udp(7, 9).payload(b"neighbour");
    case("From a subscriber to one of another group, which may be another worker's.")
        .send("acc", &from_sub(&packet(64)))
        .expect("acc", &eth(ACC_MAC, SUB_MAC).carrying(&packet(63)))
        .punts("hairpin", 1)
}

fn group_elsewhere() -> Case {
    let groups: toml::Table = BASE.replacen("[[group]]\n", "[[group]]\nactive = false\n", 1).parse().unwrap();
    let groups = toml::Table::from_iter([("group".to_owned(), groups["group"].clone())]);
    let other = Ipv4Addr::new(100, 67, 0, 10);
    let to_it = |ttl| ip4(other, SUB).ttl(ttl).udp(7, 9).payload(b"neighbour");
    let request = eth(SUB_MAC, [0xff; 6]).service_vlan(100).vlan(1).arp_request(SUB_MAC, SUB, GATEWAY);
    case("The first group is another process's: its lines, addresses and gateways are nobody's here; other groups reach them by the core.")
        .with(&toml::to_string(&groups).unwrap())
        .send("acc", &from_sub(&up(SUB, 64)))
        .send("acc", &request)
        .send("core", &from_router(&down(SUB, 64)))
        .send("core", &from_router(&down6(SUB_PD, 64)))
        .send("core", &from_router(&ip4(SERVER, GATEWAY).icmp4(8, 0, 1).payload("ping")))
        .drops("upstream.parse.group_elsewhere", 2)
        .drops("downstream.find_address.group_elsewhere", 3)
        .send("acc", &eth(SUB_MAC, ACC_MAC).carrying(&to_it(64)))
        .expect("core", &to_router(&to_it(63)))
}

fn learnt_mac() -> Case {
    let sub = Ipv4Addr::new(100, 66, 0, 10);
    let line = |from, packet: &Packet| eth(from, ACC_MAC).vlan(300).carrying(packet);
    case("A static subscriber without hardware address: unreachable until its first packet, and bound to it then.")
        .send("core", &from_router(&down(sub, 64)))
        .at(ms(1))
        .send("acc", &line(NEXT_MAC, &up(sub, 64)))
        .expect("core", &to_router(&up(sub, 63)))
        .at(ms(2))
        .send("acc", &line(OTHER_MAC, &up(sub, 64)))
        .drops("downstream.admit.neighbour_unresolved", 1)
        .drops("upstream.check_source.spoofed_source", 1)
        .counts("learnt", 1)
}

fn installed_and_removed() -> Case {
    let sub = Ipv4Addr::new(100, 64, 0, 19);
    let line = eth(SUB_MAC, GW_MAC).service_vlan(100).vlan(9).carrying(&up(sub, 64));
    case("Control installs a subscriber on a free line and takes it out again.")
        .send("acc", &line)
        .at(ms(1))
        .step(r#"do = "install", handle = 20, c_vlan = 9, ipv4 = "100.64.0.19""#)
        .at(ms(2))
        .send("acc", &line)
        .expect("core", &to_router(&up(sub, 63)))
        .at(ms(3))
        .step(r#"do = "remove", handle = 20"#)
        .at(ms(4))
        .send("acc", &line)
        .send("core", &from_router(&down(sub, 64)))
        .drops("upstream.find_line.unknown_line", 2)
        .drops("downstream.find_address.unknown_subscriber", 1)
}

fn wrong_tags() -> Case {
    case("One tag where the group has two, and two where it has one.")
        .send("acc", &eth(SUB_MAC, GW_MAC).service_vlan(100).carrying(&up(SUB, 64)))
        .send("acc", &eth(SUB_MAC, ACC_MAC).vlan(300).vlan(1).carrying(&up(SUB, 64)))
        .drops("upstream.parse.unknown_vlan", 2)
}

fn not_for_us() -> Case {
    case("To another station's hardware address, and by a protocol that is not routed.")
        .send("acc", &eth(SUB_MAC, OTHER_MAC).service_vlan(100).vlan(1).carrying(&up(SUB, 64)))
        .send("acc", &eth(SUB_MAC, GW_MAC).service_vlan(100).vlan(1).payload([0; 40]).poke(20, [0x88, 0xcc]))
        .drops("upstream.parse.not_for_us", 1)
        .drops("upstream.parse.ether_type", 1)
}

fn multicast() -> Case {
    let mdns = ip4(SUB, Ipv4Addr::new(224, 0, 0, 251)).udp(5353, 5353).payload(b"who");
    case("Multicast of subscribers and of the core is not forwarded.")
        .send("acc", &eth(SUB_MAC, [1, 0, 0x5e, 0, 0, 0xfb]).service_vlan(100).vlan(1).carrying(&mdns))
        .send("core", &from_router(&ip4(SERVER, Ipv4Addr::new(239, 1, 1, 1)).udp(1, 2)))
        .drops("upstream.parse.multicast", 1)
        .drops("downstream.parse.multicast", 1)
}

fn fragment_both_ways() -> Case {
    let piece = |from, to, ttl| ip4(from, to).ttl(ttl).may_fragment().fragment(8, false).says(17).payload([7; 32]);
    case("A later fragment has no ports and goes its way.")
        .send("acc", &from_sub(&piece(SUB, SERVER, 64)))
        .expect("core", &to_router(&piece(SUB, SERVER, 63)))
        .send("core", &from_router(&piece(SERVER, SUB, 64)))
        .expect("acc", &to_sub(&piece(SERVER, SUB, 63)))
}
