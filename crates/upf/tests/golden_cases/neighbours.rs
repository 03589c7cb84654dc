//! ARP and neighbour discovery: ours answered, others' asked (RFC 826; RFC 4861).

use testkit::packet::Packet;
use wire::Mac;

use super::*;

testkit::cases! {
    announced_at_start, announced_in_vlans, arp_answered, arp_probe_answered, arp_for_others, broken_arp, arp_in_a_vlan,
    solicitation_answered, solicitation_for_link_local, duplicate_detection, broken_discovery, router_resolved, router_resolved_ipv6,
    gnb_resolved, gnb_resolved_ipv6, host_resolved, resolved_in_a_vlan, never_answers, never_answers_ipv6, too_many_wait, learned_from_its_question,
    new_rules_while_waiting, idle_while_waiting, gone_while_waiting, address_moves, verified_after_a_while, gone_after_a_while, router_solicitation_of_a_subscriber, new_packets_do_not_overtake,
}

const ALL: [u8; 6] = [0xff; 6];
const NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
const NODES_MAC: [u8; 6] = [0x33, 0x33, 0, 0, 0, 1];
const N3_LOCAL: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0xff, 0xfe00, 0x301);
const N6_LOCAL: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0xff, 0xfe00, 0x601);
const NONE: Ipv4Addr = Ipv4Addr::UNSPECIFIED;

/// Nobody is known in advance.
const UNKNOWN: &str = "neighbour = []";
/// The gNB is known, the router is not.
const GNB_KNOWN: &str = r#"neighbour = [{ port = "n3", address = "10.0.3.100", mac = "02:00:00:00:03:64" }]"#;
/// The router is known, the gNB is not.
const ROUTER_KNOWN: &str = r#"neighbour = [
  { port = "n6", address = "10.0.6.254", mac = "02:00:00:00:06:fe" },
  { port = "n6", address = "fd00:6::254", mac = "02:00:00:00:06:fe" },
]"#;

/// Router, solicited, override.
const ANSWER: u8 = 0xe0;

fn announced_at_start() -> Case {
    let arp = |mac: [u8; 6], ip: Ipv4Addr| eth(mac, ALL).arp_request(mac, ip, ip).padded();
    let nd = |mac: [u8; 6], ip: Ipv6Addr| eth(mac, NODES_MAC).ip6(ip, NODES).advertise(ip, Mac(mac), 0xa0);
    case("At its start the gateway tells the neighbourhood where its addresses are.")
        .step(r#"do = "show start""#)
        .expect("n3", &arp(N3_MAC, N3))
        .expect("n3", &nd(N3_MAC, N3_6))
        .expect("n3", &nd(N3_MAC, N3_LOCAL))
        .expect("n6", &arp(N6_MAC, N6))
        .expect("n6", &nd(N6_MAC, N6_6))
        .expect("n6", &nd(N6_MAC, N6_LOCAL))
}

fn announced_in_vlans() -> Case {
    let arp = |mac: [u8; 6], vlan, ip: Ipv4Addr| eth(mac, ALL).vlan(vlan).arp_request(mac, ip, ip).padded();
    case("Announcements carry the ports' tags; without IPv6 addresses there are none to announce.")
        .with(link::TAGGED)
        .step(r#"do = "show start""#)
        .expect("n3", &arp(N3_MAC, 30, N3))
        .expect("n6", &arp(N6_MAC, 60, N6))
}

fn arp_answered() -> Case {
    case("Who asks for our address is answered, on either side.")
        .send("n3", &eth(GNB_MAC, ALL).arp_request(GNB_MAC, GNB, N3).padded())
        .send("n6", &eth(ROUTER_MAC, N6_MAC).arp_request(ROUTER_MAC, ROUTER, N6))
        .expect("n3", &eth(N3_MAC, GNB_MAC).arp_reply(N3_MAC, N3, GNB_MAC, GNB).padded())
        .expect("n6", &eth(N6_MAC, ROUTER_MAC).arp_reply(N6_MAC, N6, ROUTER_MAC, ROUTER).padded())
        .punts("arp", 2)
}

fn arp_probe_answered() -> Case {
    let stranger = [2, 0, 0, 0, 9, 9];
    case("A probe (from no address) for our address is answered, so that nobody takes it (RFC 5227).")
        .send("n6", &eth(stranger, ALL).arp_request(stranger, NONE, N6).padded())
        .expect("n6", &eth(N6_MAC, stranger).arp_reply(N6_MAC, N6, stranger, NONE).padded())
        .punts("arp", 1)
}

fn arp_for_others() -> Case {
    case("Questions for others' addresses, and for ours of the other side, are not answered.")
        .send("n3", &eth(GNB_MAC, ALL).arp_request(GNB_MAC, GNB, [10, 0, 3, 7]).padded())
        .send("n3", &eth(GNB_MAC, ALL).arp_request(GNB_MAC, GNB, N6).padded())
        .send("n6", &eth(ROUTER_MAC, ALL).arp_request(ROUTER_MAC, ROUTER, UE).padded())
        .punts("arp", 3)
}

fn broken_arp() -> Case {
    let good = || eth(GNB_MAC, ALL).arp_request(GNB_MAC, GNB, N3).padded();
    case("ARP that is cut off, of another hardware type, from a group address, of an unknown operation.")
        .send("n3", &good().cut(41))
        .send("n3", &good().poke(14, [0, 6]))
        .send("n3", &good().poke(22, [1, 0, 0x5e, 0, 0, 1]))
        .send("n3", &good().poke(20, [0, 9]))
        .drops("worker.malformed", 4)
}

fn arp_in_a_vlan() -> Case {
    case("ARP in a VLAN.")
        .with(link::TAGGED)
        .send("n6", &eth(ROUTER_MAC, ALL).vlan(60).arp_request(ROUTER_MAC, ROUTER, N6).padded())
        .send("n6", &eth(ROUTER_MAC, ALL).vlan(61).arp_request(ROUTER_MAC, ROUTER, N6).padded())
        .expect("n6", &eth(N6_MAC, ROUTER_MAC).vlan(60).arp_reply(N6_MAC, N6, ROUTER_MAC, ROUTER).padded())
        .punts("arp", 1)
        .drops("downlink.parse_plain.wrong_vlan", 1)
}

/// The group in which an address is asked for, and its hardware address.
fn group(of: Ipv6Addr) -> (Ipv6Addr, [u8; 6]) {
    let group = wire::ndp::solicited_node(of);
    (group, Mac::multicast6(group.to_bits()).0)
}

fn solicitation_answered() -> Case {
    let (to, mac) = group(N6_6);
    let answer = || eth(N6_MAC, ROUTER_MAC).ip6(N6_6, ROUTER_6).advertise(N6_6, Mac(N6_MAC), ANSWER);
    case("Neighbour solicitations to our group and to us are answered.")
        .send("n6", &eth(ROUTER_MAC, mac).ip6(ROUTER_6, to).solicit(N6_6, Some(Mac(ROUTER_MAC))))
        .send("n6", &eth(ROUTER_MAC, N6_MAC).ip6(ROUTER_6, N6_6).solicit(N6_6, None))
        .send("n6", &eth(ROUTER_MAC, mac).ip6(ROUTER_6, to).solicit(ROUTER_6, Some(Mac(ROUTER_MAC))))
        .expect("n6", &answer())
        .expect("n6", &answer())
        .punts("neighbour", 3)
}

fn solicitation_for_link_local() -> Case {
    let peer = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 9);
    let (to, mac) = group(N3_LOCAL);
    case("Our link-local address is answered for.")
        .send("n3", &eth(GNB_MAC, mac).ip6(peer, to).solicit(N3_LOCAL, Some(Mac(GNB_MAC))))
        .expect("n3", &eth(N3_MAC, GNB_MAC).ip6(N3_LOCAL, peer).advertise(N3_LOCAL, Mac(N3_MAC), ANSWER))
        .punts("neighbour", 1)
}

fn duplicate_detection() -> Case {
    let (to, mac) = group(N6_6);
    let stranger = [2, 0, 0, 0, 9, 9];
    case("Who wants to take our address is told, with all nodes (RFC 4861, 7.2.4).")
        .send("n6", &eth(stranger, mac).ip6(Ipv6Addr::UNSPECIFIED, to).solicit(N6_6, None))
        .expect("n6", &eth(N6_MAC, NODES_MAC).ip6(N6_6, NODES).advertise(N6_6, Mac(N6_MAC), 0xa0))
        .punts("neighbour", 1)
}

fn broken_discovery() -> Case {
    let good = || eth(ROUTER_MAC, N6_MAC).ip6(ROUTER_6, N6_6).solicit(N6_6, Some(Mac(ROUTER_MAC)));
    case("From beyond the link, with a wrong checksum, with an option of no length, cut off, for a group.")
        .send("n6", &good().ttl(64))
        .send("n6", &good().checksum(0x1234))
        .send(
            "n6",
            &eth(ROUTER_MAC, N6_MAC)
                .ip6(ROUTER_6, N6_6)
                .ttl(255)
                .icmp6(135, 0, 0)
                .payload(N6_6.octets())
                .payload([1, 0]),
        )
        .send("n6", &eth(ROUTER_MAC, N6_MAC).ip6(ROUTER_6, N6_6).ttl(255).icmp6(135, 0, 0).payload([0xfd]))
        .send("n6", &eth(ROUTER_MAC, N6_MAC).ip6(ROUTER_6, N6_6).solicit(NODES, None))
        .drops("worker.malformed", 5)
}

/// A subscriber's packet number `n`.
fn numbered(n: u8, ttl: u8) -> Packet {
    ip4(UE, SERVER).ttl(ttl).udp(40_000, 50_000).payload([n; 9])
}

fn router_resolved() -> Case {
    case("The router's address is asked for; packets wait and leave in their order.")
        .with(UNKNOWN)
        .send("n3", &up(&numbered(0, 64)))
        .send("n3", &up(&numbered(1, 64)))
        .expect("n6", &eth(N6_MAC, ALL).arp_request(N6_MAC, N6, ROUTER).padded())
        .at(ms(2))
        .send("n3", &up(&numbered(2, 64)))
        .at(ms(5))
        .send("n6", &eth(ROUTER_MAC, N6_MAC).arp_reply(ROUTER_MAC, ROUTER, N6_MAC, N6).padded())
        .then(|case| (0..3).fold(case, |case, n| case.expect("n6", &to_router(&numbered(n, 63)))))
        .at(ms(6))
        .send("n3", &up(&numbered(3, 64)))
        .expect("n6", &to_router(&numbered(3, 63)))
        .punts("resolve", 3)
        .punts("arp", 1)
}

fn router_resolved_ipv6() -> Case {
    let user = |n: u8, hops| ip6(UE_6, SERVER_6).ttl(hops).udp(40_000, 50_000).payload([n; 9]);
    let (to, mac) = group(ROUTER_6);
    case("The router's IPv6 address is asked for by neighbour discovery.")
        .with(UNKNOWN)
        .send("n3", &up(&user(0, 64)))
        .send("n3", &up(&user(1, 64)))
        .expect("n6", &eth(N6_MAC, mac).ip6(N6_6, to).solicit(ROUTER_6, Some(Mac(N6_MAC))))
        .at(ms(5))
        .send("n6", &eth(ROUTER_MAC, N6_MAC).ip6(ROUTER_6, N6_6).advertise(ROUTER_6, Mac(ROUTER_MAC), ANSWER))
        .expect("n6", &to_router(&user(0, 63)))
        .expect("n6", &to_router(&user(1, 63)))
        .punts("resolve", 2)
        .punts("neighbour", 1)
}

fn gnb_resolved() -> Case {
    let user = |n: u8, ttl| ip4(SERVER, UE).ttl(ttl).udp(50_000, 40_000).payload([n; 9]);
    case("The gNB's address is asked for; packets wait outside their tunnel and are counted once.")
        .with(UNKNOWN)
        .send("n6", &from_router(&user(0, 64)))
        .send("n6", &from_router(&user(1, 64)))
        .expect("n3", &eth(N3_MAC, ALL).arp_request(N3_MAC, N3, GNB).padded())
        .at(ms(50))
        .send("n3", &eth(GNB_MAC, N3_MAC).arp_reply(GNB_MAC, GNB, N3_MAC, N3).padded())
        .expect("n3", &down(&user(0, 63)))
        .expect("n3", &down(&user(1, 63)))
        .punts("resolve", 2)
        .punts("arp", 1)
        .counts("usage.ue0.urr1.down_packets", 2)
        .counts("usage.ue0.urr1.down_bytes", 2 * 37)
}

fn gnb_resolved_ipv6() -> Case {
    let (to, mac) = group(GNB_6);
    case("The gNB's IPv6 address is asked for.")
        .with(UNKNOWN)
        .with(OVER_6)
        .send("n6", &from_router(&response(UE_6)))
        .expect("n3", &eth(N3_MAC, mac).ip6(N3_6, to).solicit(GNB_6, Some(Mac(N3_MAC))))
        .at(ms(50))
        .send("n3", &eth(GNB_MAC, N3_MAC).ip6(GNB_6, N3_6).advertise(GNB_6, Mac(GNB_MAC), 0x60))
        .expect("n3", &tunnel(Over::V6, GNB_TEID).container_down(QFI).carrying(&response(UE_6).ttl(63)))
        .punts("resolve", 1)
        .punts("neighbour", 1)
}

fn new_rules_while_waiting() -> Case {
    let there = |user: &Packet| {
        eth(N3_MAC, [2, 0, 0, 0, 3, 0x65]).ip4(N3, [10, 0, 3, 101]).gtpu_unsummed(9).container_down(QFI).carrying(user)
    };
    case("What waits for a gNB's address while the subscriber's rules are replaced goes on by the new ones, counted once.")
        .with(UNKNOWN)
        .with(r#"neighbour = [{ port = "n3", address = "10.0.3.101", mac = "02:00:00:00:03:65" }]"#)
        .send("n6", &from_router(&response(UE)))
        .expect("n3", &eth(N3_MAC, ALL).arp_request(N3_MAC, N3, GNB).padded())
        .at(ms(20))
        .step(r#"do = "rules", ue = 0, simulate = { gnb_first = "10.0.3.101", gnb_teid_first = 9 }"#)
        .at(ms(50))
        .send("n3", &eth(GNB_MAC, N3_MAC).arp_reply(GNB_MAC, GNB, N3_MAC, N3).padded())
        .expect("n3", &there(&response(UE).ttl(63)))
        .punts("resolve", 1)
        .punts("arp", 1)
        .counts("usage.ue0.urr1.down_packets", 1)
}

fn idle_while_waiting() -> Case {
    case("The subscriber becomes idle while a packet waits for its gNB's address: it waits on, and is counted once.")
        .with(UNKNOWN)
        .with("simulate.paging_ms = 60000")
        .send("n6", &from_router(&response(UE)))
        .expect("n3", &eth(N3_MAC, ALL).arp_request(N3_MAC, N3, GNB).padded())
        .at(ms(20))
        .step(r#"do = "rules", ue = 0, idle = true"#)
        .at(ms(50))
        .send("n3", &eth(GNB_MAC, N3_MAC).arp_reply(GNB_MAC, GNB, N3_MAC, N3).padded())
        .at(ms(100))
        .step(r#"do = "rules", ue = 0"#)
        .expect("n3", &down(&response(UE).ttl(63)))
        .punts("resolve", 1)
        .punts("buffer", 1)
        .punts("arp", 1)
        .counts("control.pages", 1)
        .counts("usage.ue0.urr1.down_packets", 1)
}

fn gone_while_waiting() -> Case {
    case("A session that ends while a packet of it waits, and another in its place: the packet is not the other's.")
        .with(GNB_KNOWN)
        .send("n3", &up(&numbered(0, 64)))
        .expect("n6", &eth(N6_MAC, ALL).arp_request(N6_MAC, N6, ROUTER).padded())
        .at(ms(20))
        .step(r#"do = "remove", ue = 0"#)
        .step(r#"do = "rules", ue = 0"#)
        .at(ms(50))
        .send("n6", &eth(ROUTER_MAC, N6_MAC).arp_reply(ROUTER_MAC, ROUTER, N6_MAC, N6).padded())
        .punts("resolve", 1)
        .punts("arp", 1)
        .drops("worker.session_gone", 1)
}

fn host_resolved() -> Case {
    let host = Ipv4Addr::new(10, 0, 6, 77);
    let mac = [2, 0, 0, 0, 6, 77];
    let user = |ttl| ip4(UE, host).ttl(ttl).udp(40_000, 50_000);
    case("A host on the link is asked for itself.")
        .send("n3", &up(&user(64)))
        .expect("n6", &eth(N6_MAC, ALL).arp_request(N6_MAC, N6, host).padded())
        .at(ms(1))
        .send("n6", &eth(mac, N6_MAC).arp_reply(mac, host, N6_MAC, N6).padded())
        .expect("n6", &eth(N6_MAC, mac).carrying(&user(63)))
        .punts("resolve", 1)
        .punts("arp", 1)
}

fn resolved_in_a_vlan() -> Case {
    let tunnelled = eth(GNB_MAC, N3_MAC).vlan(30).ip4(GNB, N3).gtpu(TEID).container_up(QFI).carrying(&numbered(0, 64));
    case("Questions carry the port's tag.")
        .with(UNKNOWN)
        .with(link::TAGGED)
        .send("n3", &tunnelled)
        .expect("n6", &eth(N6_MAC, ALL).vlan(60).arp_request(N6_MAC, N6, ROUTER).padded())
        .at(ms(1))
        .send("n6", &eth(ROUTER_MAC, N6_MAC).vlan(60).arp_reply(ROUTER_MAC, ROUTER, N6_MAC, N6).padded())
        .expect("n6", &eth(N6_MAC, ROUTER_MAC).vlan(60).carrying(&numbered(0, 63)))
        .punts("resolve", 1)
        .punts("arp", 1)
}

fn never_answers() -> Case {
    let question = eth(N6_MAC, ALL).arp_request(N6_MAC, N6, ROUTER).padded();
    let told = |n| icmp::error_to_ue(&numbered(n, 64), 3, 1, 0);
    case("Asked three times, a second apart; then what waits is dropped, its senders are told, and for a while nobody asks again.")
        .with(GNB_KNOWN)
        .send("n3", &up(&numbered(0, 64)))
        .send("n3", &up(&numbered(1, 64)))
        .expect("n6", &question)
        .at(secs(1))
        .expect("n6", &question)
        .at(secs(2))
        .expect("n6", &question)
        .at(ms(2500))
        .send("n3", &up(&numbered(2, 64)))
        .at(secs(3))
        .expect("n3", &told(0))
        .expect("n3", &told(1))
        .expect("n3", &told(2))
        .at(secs(4))
        .send("n3", &up(&numbered(3, 64)))
        .expect("n3", &told(3))
        .at(secs(7))
        .send("n3", &up(&numbered(4, 64)))
        .expect("n6", &question)
        .at(ms(7100))
        .send("n6", &eth(ROUTER_MAC, N6_MAC).arp_reply(ROUTER_MAC, ROUTER, N6_MAC, N6).padded())
        .expect("n6", &to_router(&numbered(4, 63)))
        .punts("resolve", 5)
        .punts("arp", 1)
        .drops("worker.neighbour_unresolved", 4)
}

fn never_answers_ipv6() -> Case {
    let (to, mac) = group(GNB_6);
    let question = eth(N3_MAC, mac).ip6(N3_6, to).solicit(GNB_6, Some(Mac(N3_MAC)));
    case("A gNB that does not answer neighbour discovery: who sent to its subscriber is told.")
        .with(ROUTER_KNOWN)
        .with(OVER_6)
        .send("n6", &from_router(&response(UE)))
        .send("n6", &from_router(&response(UE_6)))
        .expect("n3", &question)
        .at(secs(1))
        .expect("n3", &question)
        .at(secs(2))
        .expect("n3", &question)
        .at(secs(3))
        .expect("n6", &icmp::error_to_server(&response(UE), 3, 1, 0))
        .expect("n6", &icmp::error_to_server(&response(UE_6), 1, 3, 0))
        .punts("resolve", 2)
        .drops("worker.neighbour_unresolved", 2)
}

fn too_many_wait() -> Case {
    case("Sixty-four packets wait for a neighbour at most.")
        .with(UNKNOWN)
        .then(|case| (0..70).fold(case, |case, n| case.send("n3", &up(&numbered(n, 64)))))
        .expect("n6", &eth(N6_MAC, ALL).arp_request(N6_MAC, N6, ROUTER).padded())
        .at(ms(1))
        .send("n6", &eth(ROUTER_MAC, N6_MAC).arp_reply(ROUTER_MAC, ROUTER, N6_MAC, N6).padded())
        .then(|case| (0..64).fold(case, |case, n| case.expect("n6", &to_router(&numbered(n, 63)))))
        .punts("resolve", 64)
        .punts("arp", 1)
        .drops("worker.neighbour_queue_full", 6)
}

fn learned_from_its_question() -> Case {
    case("Who asks for us will be answered next: its address is learned from its question.")
        .with(UNKNOWN)
        .send("n6", &eth(ROUTER_MAC, ALL).arp_request(ROUTER_MAC, ROUTER, N6).padded())
        .expect("n6", &eth(N6_MAC, ROUTER_MAC).arp_reply(N6_MAC, N6, ROUTER_MAC, ROUTER).padded())
        .at(ms(1))
        .send("n3", &up(&numbered(0, 64)))
        .expect("n6", &to_router(&numbered(0, 63)))
        .punts("arp", 1)
}

fn address_moves() -> Case {
    let moved = [2, 0, 0, 0, 6, 0xaa];
    let question = eth(N6_MAC, ALL).arp_request(N6_MAC, N6, ROUTER).padded();
    case("A router that announces another hardware address is believed; what is configured is not overruled.")
        .with(r#"neighbour = [{ port = "n3", address = "10.0.3.100", mac = "02:00:00:00:03:64" }]"#)
        .send("n3", &up(&numbered(0, 64)))
        .expect("n6", &question)
        .at(ms(1))
        .send("n6", &eth(ROUTER_MAC, N6_MAC).arp_reply(ROUTER_MAC, ROUTER, N6_MAC, N6).padded())
        .expect("n6", &to_router(&numbered(0, 63)))
        .at(ms(10))
        .send("n6", &eth(moved, ALL).arp_request(moved, ROUTER, ROUTER).padded())
        .send("n3", &eth(moved, ALL).arp_request(moved, GNB, GNB).padded())
        .at(ms(20))
        .send("n3", &up(&numbered(1, 64)))
        .send("n6", &eth(moved, N6_MAC).carrying(&response(UE)))
        .expect("n6", &eth(N6_MAC, moved).carrying(&numbered(1, 63)))
        .expect("n3", &down(&response(UE).ttl(63)))
        .punts("resolve", 1)
        .punts("arp", 3)
}

fn verified_after_a_while() -> Case {
    let answer = eth(ROUTER_MAC, N6_MAC).arp_reply(ROUTER_MAC, ROUTER, N6_MAC, N6).padded();
    case("A neighbour's answer is believed for thirty seconds, then it alone is asked again; packets go on meanwhile.")
        .with(UNKNOWN)
        .send("n3", &up(&numbered(0, 64)))
        .expect("n6", &eth(N6_MAC, ALL).arp_request(N6_MAC, N6, ROUTER).padded())
        .at(ms(1))
        .send("n6", &answer)
        .expect("n6", &to_router(&numbered(0, 63)))
        .at(secs(30) + ms(1))
        .expect("n6", &eth(N6_MAC, ROUTER_MAC).arp_request(N6_MAC, N6, ROUTER).padded())
        .at(secs(30) + ms(500))
        .send("n3", &up(&numbered(1, 64)))
        .expect("n6", &to_router(&numbered(1, 63)))
        .at(secs(30) + ms(600))
        .send("n6", &answer)
        .at(secs(32))
        .send("n3", &up(&numbered(2, 64)))
        .expect("n6", &to_router(&numbered(2, 63)))
        .punts("resolve", 1)
        .punts("arp", 2)
}

fn gone_after_a_while() -> Case {
    let again = eth(N6_MAC, ROUTER_MAC).arp_request(N6_MAC, N6, ROUTER).padded();
    let all = eth(N6_MAC, ALL).arp_request(N6_MAC, N6, ROUTER).padded();
    case("A neighbour that answers no more is forgotten after three questions; the next packet asks everybody.")
        .with(UNKNOWN)
        .send("n3", &up(&numbered(0, 64)))
        .expect("n6", &all)
        .at(ms(1))
        .send("n6", &eth(ROUTER_MAC, N6_MAC).arp_reply(ROUTER_MAC, ROUTER, N6_MAC, N6).padded())
        .expect("n6", &to_router(&numbered(0, 63)))
        .at(secs(30) + ms(1))
        .expect("n6", &again)
        .at(secs(31) + ms(1))
        .expect("n6", &again)
        .at(secs(32) + ms(1))
        .expect("n6", &again)
        .at(secs(34))
        .send("n3", &up(&numbered(1, 64)))
        .expect("n6", &all)
        .punts("resolve", 2)
        .punts("arp", 1)
        .counts("held", 1)
}

fn router_solicitation_of_a_subscriber() -> Case {
    let local = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 7);
    let routers = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 2);
    let user = ip6(local, routers).ttl(255).icmp6(133, 0, 0);
    case("A subscriber's router solicitation is for the control plane.")
        .send("n3", &up(&user))
        .punts("router_solicitation", 1)
}

fn new_packets_do_not_overtake() -> Case {
    // What fills the first burst after the answer is dropped, so that the next one meets tables that know the router.
    let spoofed = up(&ip4([10, 60, 0, 99], SERVER).udp(1, 2));
    case("What comes while waiting packets are let go leaves behind them.")
        .with(UNKNOWN)
        .then(|case| (0..40).fold(case, |case, n| case.send("n3", &up(&numbered(n, 64)))))
        .expect("n6", &eth(N6_MAC, ALL).arp_request(N6_MAC, N6, ROUTER).padded())
        .at(ms(1))
        .send("n6", &eth(ROUTER_MAC, N6_MAC).arp_reply(ROUTER_MAC, ROUTER, N6_MAC, N6).padded())
        .then(|case| (0..64).fold(case, |case, _| case.send("n3", &spoofed)))
        .then(|case| (40..140).fold(case, |case, n| case.send("n3", &up(&numbered(n, 64)))))
        .then(|case| (0..140).fold(case, |case, n| case.expect("n6", &to_router(&numbered(n, 63)))))
        .punts("resolve", 40)
        .punts("arp", 1)
        .drops("uplink.check_source.spoofed_source", 64)
}
