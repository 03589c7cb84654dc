//! Ethernet: VLANs, addresses, padding.

use super::*;

testkit::cases! { vlan_port, wrong_vlan, two_tags, stacked_ports, wrong_stack, arp_in_a_stack, tag_priority, neighbours_with_tags, priority_tag, wrong_mac, group_mac, group_addresses, other_protocols, padding, jammed_port }

/// `n3` in VLAN 30, `n6` in VLAN 60.
pub const TAGGED: &str = r#"
port = [
  { name = "n3", uri = "memory:n3?mac=02:00:00:00:03:01", role = "access", vlan = 30, addresses = ["10.0.3.1/24"] },
  { name = "n6", uri = "memory:n6?mac=02:00:00:00:06:01", role = "core", vlan = 60, addresses = ["10.0.6.1/24"] },
]
route = [{ to = "0.0.0.0/0", via = "10.0.6.254" }]
"#;

fn vlan_port() -> Case {
    let tunnel_in = eth(GNB_MAC, N3_MAC).vlan(30).ip4(GNB, N3).gtpu(TEID).container_up(QFI);
    let tunnel_out = eth(N3_MAC, GNB_MAC).vlan(30).ip4(N3, GNB).gtpu_unsummed(GNB_TEID).container_down(QFI);
    case("Ports in VLANs: tags are expected and put on.")
        .with(TAGGED)
        .send("n3", &tunnel_in.carrying(&request(UE)))
        .send("n6", &eth(ROUTER_MAC, N6_MAC).vlan(60).carrying(&response(UE)))
        .expect("n6", &eth(N6_MAC, ROUTER_MAC).vlan(60).carrying(&request(UE).ttl(63)))
        .expect("n3", &tunnel_out.carrying(&response(UE).ttl(63)))
}

fn wrong_vlan() -> Case {
    case("Frames of another VLAN, and untagged ones on a tagged port.")
        .with(TAGGED)
        .send("n3", &eth(GNB_MAC, N3_MAC).vlan(31).ip4(GNB, N3).gtpu(TEID).container_up(QFI).carrying(&request(UE)))
        .send("n3", &up(&request(UE)))
        .send("n6", &from_router(&response(UE)))
        .drops("uplink.parse_outer.wrong_vlan", 2)
        .drops("downlink.parse_plain.wrong_vlan", 1)
}

fn two_tags() -> Case {
    case("A tagged frame on an untagged port, and two tags anywhere, are not for us.")
        .send("n6", &eth(ROUTER_MAC, N6_MAC).vlan(5).carrying(&response(UE)))
        .send("n6", &eth(ROUTER_MAC, N6_MAC).service_vlan(5).vlan(6).carrying(&response(UE)))
        .drops("downlink.parse_plain.wrong_vlan", 2)
}

/// `n3` in a stack of a service tag and a customer tag, `n6` in one of two customer tags.
const STACKED: &str = r#"
port = [
  { name = "n3", uri = "memory:n3?mac=02:00:00:00:03:01", role = "access", vlan = ["0x88a8:30", 31], addresses = ["10.0.3.1/24"] },
  { name = "n6", uri = "memory:n6?mac=02:00:00:00:06:01", role = "core", vlan = [60, 61], addresses = ["10.0.6.1/24"] },
]
route = [{ to = "0.0.0.0/0", via = "10.0.6.254" }]
"#;

fn stacked_ports() -> Case {
    let tunnel_in = eth(GNB_MAC, N3_MAC).service_vlan(30).vlan(31).ip4(GNB, N3).gtpu(TEID).container_up(QFI);
    let tunnel_out =
        eth(N3_MAC, GNB_MAC).service_vlan(30).vlan(31).ip4(N3, GNB).gtpu_unsummed(GNB_TEID).container_down(QFI);
    case("Ports in two VLANs, one inside the other: both tags are expected and put on.")
        .with(STACKED)
        .send("n3", &tunnel_in.carrying(&request(UE)))
        .send("n6", &eth(ROUTER_MAC, N6_MAC).vlan(60).vlan(61).carrying(&response(UE)))
        .expect("n6", &eth(N6_MAC, ROUTER_MAC).vlan(60).vlan(61).carrying(&request(UE).ttl(63)))
        .expect("n3", &tunnel_out.carrying(&response(UE).ttl(63)))
}

fn wrong_stack() -> Case {
    case("On a port with a stack: no tag, the outer one alone, another inner one, and the two exchanged.")
        .with(STACKED)
        .send("n6", &from_router(&response(UE)))
        .send("n6", &eth(ROUTER_MAC, N6_MAC).vlan(60).carrying(&response(UE)))
        .send("n6", &eth(ROUTER_MAC, N6_MAC).vlan(60).vlan(62).carrying(&response(UE)))
        .send("n6", &eth(ROUTER_MAC, N6_MAC).vlan(61).vlan(60).carrying(&response(UE)))
        .drops("downlink.parse_plain.wrong_vlan", 4)
}

fn arp_in_a_stack() -> Case {
    let asked = eth(GNB_MAC, [0xff; 6]).service_vlan(30).vlan(31).arp_request(GNB_MAC, GNB, N3).padded();
    let answer = eth(N3_MAC, GNB_MAC).service_vlan(30).vlan(31).arp_reply(N3_MAC, N3, GNB_MAC, GNB).padded();
    case("ARP behind two tags is answered behind the same.")
        .with(STACKED)
        .send("n3", &asked)
        .expect("n3", &answer)
        .punts("arp", 1)
}

fn tag_priority() -> Case {
    let ports = STACKED.replace("addresses", "pcp = [0, 1, 2, 3, 4, 6, 6, 7], addresses");
    let tunnel = |down: bool, pcp| {
        let (from, to) = if down { (N3_MAC, GNB_MAC) } else { (GNB_MAC, N3_MAC) };
        eth(from, to).service_vlan(30).pcp(pcp).vlan(31).pcp(pcp)
    };
    let plain = |from, to, pcp| eth(from, to).vlan(60).pcp(pcp).vlan(61).pcp(pcp);
    // Expedited forwarding, class selector 5; assured forwarding 21, class selector 2.
    let (ef, af) = (46 << 2, 18 << 2);
    let down = tunnel(true, 6).ip4(N3, GNB).tos(ef).gtpu_unsummed(GNB_TEID).container_down(QFI);
    case("The DSCP of what leaves is the priority of both tags, by the port's map; that of what comes in is not looked at.")
        .with(&ports)
        .send("n3", &tunnel(false, 3).ip4(GNB, N3).gtpu(TEID).container_up(QFI).carrying(&request(UE).tos(af)))
        .send("n6", &plain(ROUTER_MAC, N6_MAC, 1).carrying(&response(UE).tos(ef)))
        .expect("n6", &plain(N6_MAC, ROUTER_MAC, 2).carrying(&request(UE).tos(af).ttl(63)))
        .expect("n3", &down.carrying(&response(UE).tos(ef).ttl(63)))
}

fn neighbours_with_tags() -> Case {
    let neighbours = r#"
neighbour = [
  { port = "n3", address = "10.0.3.100", mac = "02:00:00:00:03:64", vlan = [30, 31] },
  { port = "n6", address = "10.0.6.254", mac = "02:00:00:00:06:fe", vlan = "0x88a8:60" },
]
"#;
    let asked = eth(GNB_MAC, [0xff; 6]).vlan(30).vlan(31).arp_request(GNB_MAC, GNB, N3).padded();
    let answer = eth(N3_MAC, GNB_MAC).vlan(30).vlan(31).arp_reply(N3_MAC, N3, GNB_MAC, GNB).padded();
    let out = eth(N3_MAC, GNB_MAC).vlan(30).vlan(31).ip4(N3, GNB).gtpu_unsummed(GNB_TEID).container_down(QFI);
    case("Neighbours with tags of their own on ports without: frames to them carry theirs, and theirs are taken.")
        .with(neighbours)
        .send("n3", &asked)
        .send(
            "n3",
            &eth(GNB_MAC, N3_MAC).vlan(30).vlan(31).ip4(GNB, N3).gtpu(TEID).container_up(QFI).carrying(&request(UE)),
        )
        .send("n3", &up(&request(UE)))
        .send("n6", &eth(ROUTER_MAC, N6_MAC).service_vlan(60).carrying(&response(UE)))
        .send("n6", &eth(ROUTER_MAC, N6_MAC).vlan(30).vlan(31).carrying(&response(UE)))
        .expect("n6", &eth(N6_MAC, ROUTER_MAC).service_vlan(60).carrying(&request(UE).ttl(63)))
        .expect("n6", &eth(N6_MAC, ROUTER_MAC).service_vlan(60).carrying(&request(UE).ttl(63)))
        .expect("n3", &out.carrying(&response(UE).ttl(63)))
        .expect("n3", &answer)
        .drops("downlink.parse_plain.wrong_vlan", 1)
        .punts("arp", 1)
}

fn priority_tag() -> Case {
    let tagged = eth(GNB_MAC, N3_MAC).vlan(0).ip4(GNB, N3).gtpu(TEID).container_up(QFI).carrying(&request(UE));
    case("A mere priority tag belongs to the untagged network.")
        .send("n3", &tagged.poke(14, [0xa0, 0]))
        .expect("n6", &to_router(&request(UE).ttl(63)))
}

fn wrong_mac() -> Case {
    let other = [2, 0, 0, 0, 9, 9];
    case("Frames to another station are not ours.")
        .send("n3", &eth(GNB_MAC, other).ip4(GNB, N3).gtpu(TEID).container_up(QFI).carrying(&request(UE)))
        .send("n6", &eth(ROUTER_MAC, other).carrying(&response(UE)))
        .drops("uplink.parse_outer.not_for_us", 1)
        .drops("downlink.parse_plain.not_for_us", 1)
}

fn group_mac() -> Case {
    // RFC 1812, 5.3.4: a packet that came as a link-layer broadcast must not be forwarded.
    case("What comes as a link-layer broadcast or multicast is not forwarded.")
        .send("n3", &eth(GNB_MAC, [0xff; 6]).ip4(GNB, N3).gtpu(TEID).container_up(QFI).carrying(&request(UE)))
        .send("n6", &eth(ROUTER_MAC, [0xff; 6]).carrying(&response(UE)))
        .send("n6", &eth(ROUTER_MAC, [1, 0, 0x5e, 0, 0, 1]).carrying(&response(UE)))
        .drops("uplink.parse_outer.multicast", 1)
        .drops("downlink.parse_plain.multicast", 2)
}

fn group_addresses() -> Case {
    let mdns = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 0xfb);
    let group = |last| [0x33, 0x33, 0, 0, 0, last];
    let local = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 9);
    let dhcp = ip4([0, 0, 0, 0], [255, 255, 255, 255]).udp(68, 67).filled(9);
    case("What the neighbourhood says to all: service discovery, group membership, DHCP, routing. None of it is forwarded.")
        .send("n6", &eth(ROUTER_MAC, group(0xfb)).ip6(local, mdns).udp(5353, 5353).filled(9))
        .send("n6", &eth(ROUTER_MAC, [1, 0, 0x5e, 0, 0, 0xfb]).ip4(ROUTER, [224, 0, 0, 251]).udp(5353, 5353).filled(9))
        .send("n6", &eth(ROUTER_MAC, group(0x16)).ip6(local, [0xff02, 0, 0, 0, 0, 0, 0, 0x16]).icmp6(143, 0, 0))
        .send("n6", &eth(ROUTER_MAC, [0xff; 6]).carrying(&dhcp))
        .send("n6", &from_router(&ip4(ROUTER, [224, 0, 0, 5]).says(89).filled(20)))
        .send("n3", &eth(GNB_MAC, group(0xfb)).ip6(local, mdns).udp(5353, 5353).filled(9))
        .send("n3", &from_gnb(Over::V4).fragment(8, false).says(17).filled(9))
        .drops("downlink.parse_plain.multicast", 5)
        .drops("uplink.parse_outer.multicast", 1)
        .drops("uplink.parse_outer.outer_fragment", 1)
}

fn other_protocols() -> Case {
    case("Neither IP nor ARP.")
        .send("n3", &eth(GNB_MAC, N3_MAC).says(0x8863).filled(50))
        .send("n6", &eth(ROUTER_MAC, [1, 0x80, 0xc2, 0, 0, 0]).says(0x26).filled(50))
        .send("n6", &eth(ROUTER_MAC, N6_MAC).says(0x88cc).filled(50))
        .drops("uplink.parse_outer.ether_type", 1)
        .drops("downlink.parse_plain.ether_type", 2)
}

fn padding() -> Case {
    let short = |ttl| ip4(UE, SERVER).ttl(ttl).udp(40_000, 50_000);
    let packet = from_gnb(Over::V4).gtpu(TEID).container_up(QFI).carrying(&short(64));
    case("Padding behind the packet is not forwarded, in either direction.")
        .send("n3", &packet.padded_to(120))
        .send("n6", &from_router(&ip4(SERVER, UE).udp(50_000, 40_000)).padded())
        .expect("n6", &to_router(&short(63)))
        .expect("n3", &down(&ip4(SERVER, UE).ttl(63).udp(50_000, 40_000)))
}

fn jammed_port() -> Case {
    let out = to_router(&request(UE).ttl(63));
    case("What a full port does not take is counted.")
        .step(r#"do = "jam", port = "n6", room = 2"#)
        .then(|case| (0..5).fold(case, |case, _| case.send("n3", &up(&request(UE)))))
        .expect("n6", &out)
        .expect("n6", &out)
        .at(ms(1))
        .step(r#"do = "jam", port = "n6""#)
        .send("n3", &up(&request(UE)))
        .expect("n6", &out)
        .drops("worker.tx_full", 3)
        .counts("port.n6.tx_full", 3)
}
