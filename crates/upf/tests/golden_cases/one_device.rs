//! N3 and N6 on one device: two VLANs of a network card, or one link.

use super::*;

testkit::cases! { two_vlans, a_vlan_and_none, a_stack_and_a_vlan, foreign_vlans, answers_by_vlan, mtu_of_each, between_subscribers, one_link, one_link_over_ipv6, answers_on_one_link }

/// `n3` in VLAN 30 and `n6` in VLAN 60 of one device.
const VLANS: &str = r#"
port = [
  { name = "n3", uri = "memory:n3?mac=02:00:00:00:03:01", role = "access", vlan = 30, addresses = ["10.0.3.1/24", "fd00:3::1/64"] },
  { name = "n6", on = "n3", role = "core", vlan = 60, addresses = ["10.0.6.1/24", "fd00:6::1/64"] },
]
"#;

/// Both of them without tags, in one subnet.
const ONE_LINK: &str = r#"
port = [
  { name = "n3", uri = "memory:n3?mac=02:00:00:00:03:01", role = "access", addresses = ["10.0.3.1/24", "fd00:3::1/64"] },
  { name = "n6", on = "n3", role = "core", addresses = ["10.0.3.2/24", "fd00:3::2/64"] },
]
route = [
  { to = "0.0.0.0/0", via = "10.0.3.254" },
  { to = "::/0", via = "fd00:3::254" },
]
neighbour = [
  { port = "n3", address = "10.0.3.100", mac = "02:00:00:00:03:64" },
  { port = "n3", address = "fd00:3::100", mac = "02:00:00:00:03:64" },
  { port = "n6", address = "10.0.3.254", mac = "02:00:00:00:06:fe" },
  { port = "n6", address = "fd00:3::254", mac = "02:00:00:00:06:fe" },
]
"#;

/// The core's address where there is one link.
const CORE: Ipv4Addr = Ipv4Addr::new(10, 0, 3, 2);

/// Out of the tunnel and into it, between what precedes the tunnel's packets and the network's.
fn both_ways(
    case: Case,
    access: impl Fn([u8; 6], [u8; 6]) -> Packet,
    core: impl Fn([u8; 6], [u8; 6]) -> Packet,
) -> Case {
    let tunnel_in = access(GNB_MAC, N3_MAC).ip4(GNB, N3).gtpu(TEID).container_up(QFI);
    let tunnel_out = access(N3_MAC, GNB_MAC).ip4(N3, GNB).gtpu_unsummed(GNB_TEID).container_down(QFI);
    case.send("n3", &tunnel_in.carrying(&request(UE)))
        .send("n3", &core(ROUTER_MAC, N3_MAC).carrying(&response(UE)))
        // What a burst brought leaves by the device's own port first.
        .expect("n3", &tunnel_out.carrying(&response(UE).ttl(63)))
        .expect("n3", &core(N3_MAC, ROUTER_MAC).carrying(&request(UE).ttl(63)))
}

fn tagged(id: u16) -> impl Fn([u8; 6], [u8; 6]) -> Packet {
    move |from, to| eth(from, to).vlan(id)
}

fn two_vlans() -> Case {
    both_ways(case("Two VLANs of one device are the two sides.").with(VLANS), tagged(30), tagged(60))
}

fn a_vlan_and_none() -> Case {
    let ports = VLANS.replace("vlan = 60, ", "");
    let case = case("One side is a VLAN of the other's device, which is without tags itself.");
    both_ways(case.with(&ports), tagged(30), eth)
}

fn a_stack_and_a_vlan() -> Case {
    let ports = VLANS.replace("vlan = 60, ", r#"vlan = ["0x88a8:30", 60], "#);
    let case = case("Two tags on one side, of which the outer one is the other side's only one.");
    both_ways(case.with(&ports), tagged(30), |from, to| eth(from, to).service_vlan(30).vlan(60))
}

fn foreign_vlans() -> Case {
    let tunnel = |head: Packet| head.ip4(GNB, N3).gtpu(TEID).container_up(QFI).carrying(&request(UE));
    case("Frames with tags of neither side, without, and with the other side's: dropped by name, and nothing is mixed up.")
        .with(VLANS)
        .send("n3", &tunnel(eth(GNB_MAC, N3_MAC).vlan(31)))
        .send("n3", &tunnel(eth(GNB_MAC, N3_MAC)))
        .send("n3", &eth(ROUTER_MAC, N3_MAC).vlan(30).vlan(60).carrying(&response(UE)))
        .drops("uplink.parse_outer.wrong_vlan", 3)
        // A tunnel packet in the core's VLAN is to an address of access; what is to a subscriber comes by no tunnel.
        .send("n3", &tunnel(eth(GNB_MAC, N3_MAC).vlan(60)))
        .send("n3", &eth(ROUTER_MAC, N3_MAC).vlan(30).carrying(&response(UE)))
        .drops("downlink.find_by_address.unknown_subscriber", 1)
        .drops("uplink.parse_outer.not_for_us", 1)
}

fn answers_by_vlan() -> Case {
    let asked = |id, from, ours| eth(from, [0xff; 6]).vlan(id).arp_request(from, ours_peer(id), ours).padded();
    let answer = |id, to, ours| eth(N3_MAC, to).vlan(id).arp_reply(N3_MAC, ours, to, ours_peer(id)).padded();
    case("Each side answers for its addresses, in its VLAN, and for none of the other's.")
        .with(VLANS)
        .send("n3", &asked(30, GNB_MAC, N3))
        .send("n3", &asked(60, ROUTER_MAC, N6))
        .send("n3", &asked(30, GNB_MAC, N6))
        .send("n3", &asked(60, ROUTER_MAC, N3))
        .expect("n3", &answer(30, GNB_MAC, N3))
        .send("n3", &eth(GNB_MAC, N3_MAC).vlan(30).ip4(GNB, N3).ping(7, 1))
        .send("n3", &eth(ROUTER_MAC, N3_MAC).vlan(60).ip4(ROUTER, N6).ping(7, 2))
        .expect("n3", &eth(N3_MAC, GNB_MAC).vlan(30).ip4(N3, GNB).pong(7, 1))
        .expect("n3", &answer(60, ROUTER_MAC, N6))
        .expect("n3", &eth(N3_MAC, ROUTER_MAC).vlan(60).ip4(N6, ROUTER).pong(7, 2))
        .punts("arp", 4)
        .punts("ping", 2)
}

/// Who asks in a VLAN.
fn ours_peer(id: u16) -> Ipv4Addr {
    if id == 30 { GNB } else { ROUTER }
}

fn mtu_of_each() -> Case {
    let ports = VLANS.replace(r#""core", "#, r#""core", mtu = 1300, "#);
    let packet = |len: usize, ttl| ip4(UE, SERVER).ttl(ttl).udp(40_000, 50_000).filled(len - 28);
    let tunnel = |user: &Packet| eth(GNB_MAC, N3_MAC).vlan(30).ip4(GNB, N3).gtpu(TEID).container_up(QFI).carrying(user);
    let quoted = packet(1301, 64).build();
    let told = ip4(N6, UE).tos(0xc0).icmp4(3, 4, 1300).payload(&quoted[..548]);
    let out = eth(N3_MAC, GNB_MAC).vlan(30).ip4(N3, GNB).tos(0xc0).gtpu_unsummed(GNB_TEID).container_down(QFI);
    case("Each side has its own MTU: a packet that came by one may be too big for the other.")
        .with(&ports)
        .send("n3", &tunnel(&packet(1301, 64)))
        .send("n3", &tunnel(&packet(1300, 64)))
        .expect("n3", &eth(N3_MAC, ROUTER_MAC).vlan(60).carrying(&packet(1300, 63)))
        .expect("n3", &out.carrying(&told))
        .drops("worker.too_big", 1)
}

fn between_subscribers() -> Case {
    let other = Ipv4Addr::new(10, 60, 0, 2);
    let users = |ttl| ip4(UE, other).ttl(ttl).udp(40_000, 50_000).filled(32);
    let tunnel = eth(GNB_MAC, N3_MAC).vlan(30).ip4(GNB, N3).gtpu(TEID).container_up(QFI).carrying(&users(64));
    case("From one subscriber to another: by the core's router, as where each side has a device.")
        .with(VLANS)
        .with("simulate.ues = 2")
        .send("n3", &tunnel)
        .expect("n3", &eth(N3_MAC, ROUTER_MAC).vlan(60).carrying(&users(63)))
}

fn one_link() -> Case {
    let case =
        case("Both sides on one link without tags: what is to an address of access is its, all else the core's.");
    both_ways(case.with(ONE_LINK), eth, eth)
}

fn one_link_over_ipv6() -> Case {
    let tunnel_in = eth(GNB_MAC, N3_MAC).ip6(GNB_6, N3_6).gtpu(TEID).container_up(QFI);
    let tunnel_out = eth(N3_MAC, GNB_MAC).ip6(N3_6, GNB_6).gtpu(GNB_TEID).container_down(QFI);
    case("The same, of IPv6 in IPv6.")
        .with(ONE_LINK)
        .with(OVER_6)
        .send("n3", &tunnel_in.carrying(&request(UE_6)))
        .send("n3", &eth(ROUTER_MAC, N3_MAC).carrying(&response(UE_6)))
        .expect("n3", &tunnel_out.carrying(&response(UE_6).ttl(63)))
        .expect("n3", &eth(N3_MAC, ROUTER_MAC).carrying(&request(UE_6).ttl(63)))
}

fn answers_on_one_link() -> Case {
    let asked = |ours| eth(GNB_MAC, [0xff; 6]).arp_request(GNB_MAC, GNB, ours).padded();
    let answer = |ours| eth(N3_MAC, GNB_MAC).arp_reply(N3_MAC, ours, GNB_MAC, GNB).padded();
    case("On one link either side answers for its own addresses; a tunnel packet to the core's address is for no session.")
        .with(ONE_LINK)
        .send("n3", &asked(N3))
        .send("n3", &asked(CORE))
        .expect("n3", &answer(N3))
        .expect("n3", &answer(CORE))
        .send("n3", &eth(GNB_MAC, N3_MAC).ip4(GNB, CORE).ping(7, 1))
        .expect("n3", &eth(N3_MAC, GNB_MAC).ip4(CORE, GNB).pong(7, 1))
        .punts("arp", 2)
        .punts("ping", 1)
        .send("n3", &eth(GNB_MAC, N3_MAC).ip4(GNB, CORE).gtpu(TEID).container_up(QFI).carrying(&request(UE)))
        .drops("downlink.parse_plain.no_service", 1)
}
