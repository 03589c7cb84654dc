//! Many subscribers behind one public address.

use super::*;

testkit::cases! {
    udp_there_and_back, tcp_and_its_segment_size, segment_size_over_ipv6, segment_size_of_what_waited, icmp_echo, errors_from_outside, errors_of_ours, ping_of_ours, unknown_from_outside,
    other_protocols, ipv6_goes_as_it_is, no_port_left, a_block_goes_on_to_the_next, subscriber_to_subscriber, waiting_for_a_neighbour,
    timeouts_follow_packets, tcp_opens_and_closes,
}

const PUBLIC: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 1);
/// The first port that the seed chooses.
const PORT: u16 = 65_501;
/// One address with one block of ports.
const ONE_BLOCK: &str = r#"nat = { pool = [{ addresses = "203.0.113.1/32" }], first_port = 65472, block_ports = 64, block_hold_seconds = 1, mappings = 1024, subscribers = 64, seed = 1 }"#;

fn nat(text: &str) -> Case {
    case(text).with(ONE_BLOCK)
}

/// What the server sees of a subscriber's request.
fn seen(port: u16) -> Packet {
    ip4(PUBLIC, SERVER).ttl(63).udp(port, 50_000).filled(32)
}

/// What it answers.
fn answer(port: u16) -> Packet {
    ip4(SERVER, PUBLIC).udp(50_000, port).filled(32)
}

/// After a first packet of the subscriber's.
fn opened(text: &str) -> Case {
    nat(text).send("n3", &up(&request(UE))).expect("n6", &to_router(&seen(PORT))).at(ms(1))
}

fn udp_there_and_back() -> Case {
    opened("A subscriber's packets leave from a public end; what comes to it is the subscriber's (RFC 4787).")
        .send("n6", &from_router(&answer(PORT)))
        .expect("n3", &down(&response(UE).ttl(63)))
        .counts("nat.mappings", 1)
        .counts("nat.blocks", 1)
        .counts("nat.given", 1)
}

fn tcp_and_its_segment_size() -> Case {
    case("TCP, its segments' size lowered both ways on the port that is configured for it.")
        .with(ONE_BLOCK)
        .with(&CLAMPED.replace("most", "1300"))
        .send("n3", &up(&ip4(UE, SERVER).tcp(40_000, 443).mss(1460)))
        .expect("n6", &to_router(&ip4(PUBLIC, SERVER).ttl(63).tcp(PORT, 443).mss(1300)))
        .at(ms(1))
        .send("n6", &from_router(&ip4(SERVER, PUBLIC).tcp(443, PORT).mss(1400)))
        .expect("n3", &down(&ip4(SERVER, UE).ttl(63).tcp(443, 40_000).mss(1300)))
}

fn segment_size_over_ipv6() -> Case {
    case("TCP over IPv6: segments are 20 bytes smaller than the port's mss, as the header is 20 bytes longer.")
        .with(&CLAMPED.replace("most", "1300"))
        .send("n3", &up(&ip6(UE_6, SERVER_6).tcp(40_000, 443).mss(1440)))
        .expect("n6", &to_router(&ip6(UE_6, SERVER_6).ttl(63).tcp(40_000, 443).mss(1280)))
        .send("n6", &from_router(&ip6(SERVER_6, UE_6).tcp(443, 40_000).mss(1281)))
        .expect("n3", &down(&ip6(SERVER_6, UE_6).ttl(63).tcp(443, 40_000).mss(1280)))
        .send("n6", &from_router(&ip6(SERVER_6, UE_6).tcp(443, 40_001).mss(1280)))
        .expect("n3", &down(&ip6(SERVER_6, UE_6).ttl(63).tcp(443, 40_001).mss(1280)))
}

fn segment_size_of_what_waited() -> Case {
    case("A packet that waited for its neighbour's address has its segment size lowered as well, inside an IPv6 tunnel too.")
        .with(&CLAMPED.replace("most", "1300"))
        .with(r#"route = [{ to = "0.0.0.0/0", via = "10.0.6.253" }]"#)
        .send(
            "n3",
            &from_gnb(Over::V6).gtpu(TEID).container_up(QFI).carrying(&ip4(UE, SERVER).tcp(40_000, 443).mss(1460)),
        )
        .expect("n6", &eth(N6_MAC, [0xff; 6]).arp_request(N6_MAC, N6, [10, 0, 6, 253]).padded())
        .at(ms(2))
        .send("n6", &eth([2, 0, 0, 0, 6, 253], N6_MAC).arp_reply([2, 0, 0, 0, 6, 253], [10, 0, 6, 253], N6_MAC, N6))
        .expect(
            "n6",
            &eth(N6_MAC, [2, 0, 0, 0, 6, 253]).carrying(&ip4(UE, SERVER).ttl(63).tcp(40_000, 443).mss(1300)),
        )
        .punts("resolve", 1)
        .punts("arp", 1)
}

const CLAMPED: &str = r#"
port = [
  { name = "n3", uri = "memory:n3?mac=02:00:00:00:03:01", role = "access", addresses = ["10.0.3.1/24", "fd00:3::1/64"], mss = most },
  { name = "n6", uri = "memory:n6?mac=02:00:00:00:06:01", role = "core", addresses = ["10.0.6.1/24", "fd00:6::1/64"] },
]"#;

fn icmp_echo() -> Case {
    nat("An echo's identifier is its port (RFC 5508).")
        .send("n3", &up(&ip4(UE, SERVER).ping(7, 1).filled(16)))
        .expect("n6", &to_router(&ip4(PUBLIC, SERVER).ttl(63).ping(PORT, 1).filled(16)))
        .at(ms(1))
        .send("n6", &from_router(&ip4(SERVER, PUBLIC).pong(PORT, 1).filled(16)))
        .expect("n3", &down(&ip4(SERVER, UE).ttl(63).pong(7, 1).filled(16)))
}

fn errors_from_outside() -> Case {
    let error = |to: Ipv4Addr, ttl, about: &Packet| ip4(ROUTER, to).ttl(ttl).icmp4(3, 4, 1400).payload(about.build());
    opened("An error about a translated packet quotes it as its sender sent it (RFC 5508, 4.2).")
        .send("n6", &from_router(&error(PUBLIC, 64, &seen(PORT))))
        .send("n6", &from_router(&error(PUBLIC, 64, &seen(PORT + 1))))
        .expect("n3", &down(&error(UE, 63, &request(UE).ttl(63))))
        .drops("downlink.translate_in.nat_no_mapping", 1)
}

fn errors_of_ours() -> Case {
    opened("Our own errors quote packets as their senders know them, on either side.")
        .send("n3", &up(&request(UE).ttl(1)))
        .send("n6", &from_router(&answer(PORT).ttl(1)))
        .expect("n3", &icmp::error_to_ue(&request(UE).ttl(1), 11, 0, 0))
        .expect("n6", &icmp::error_to_server(&answer(PORT).ttl(1), 11, 0, 0))
        .drops("worker.ttl_expired", 2)
}

fn ping_of_ours() -> Case {
    nat("A subscriber's ping of the gateway itself is answered to the subscriber.")
        .send("n3", &up(&ip4(UE, N6).ping(5, 6).filled(16)))
        .expect("n3", &down(&ip4(N6, UE).pong(5, 6).filled(16)))
        .punts("ping", 1)
}

fn unknown_from_outside() -> Case {
    nat("From outside nobody reaches a public end that no subscriber has, nor a private address.")
        .send("n6", &from_router(&answer(PORT)))
        .send("n6", &from_router(&response(UE)))
        .drops("downlink.translate_in.nat_no_mapping", 2)
}

fn other_protocols() -> Case {
    let tunnel = |from, to| ip4(from, to).says(47).filled(20);
    nat("Protocols without ports can not share an address.")
        .send("n3", &up(&tunnel(UE, SERVER)))
        .send("n6", &from_router(&tunnel(SERVER, PUBLIC)))
        .drops("uplink.translate_out.nat_protocol", 1)
        .drops("downlink.translate_in.nat_protocol", 1)
}

fn ipv6_goes_as_it_is() -> Case {
    nat("IPv6 is not translated.")
        .send("n3", &up(&request(UE_6)))
        .send("n6", &from_router(&response(UE_6)))
        .expect("n6", &to_router(&request(UE_6).ttl(63)))
        .expect("n3", &down(&response(UE_6).ttl(63)))
}

/// The second subscriber.
const OTHER: Ipv4Addr = Ipv4Addr::new(10, 60, 0, 2);

fn from_other(user: &Packet) -> Packet {
    from_gnb(Over::V4).gtpu(TEID + 1).container_up(QFI).carrying(user)
}

fn no_port_left() -> Case {
    opened("Without a block of ports left a subscriber's packets are dropped by name; those who have one go on.")
        .with("simulate.ues = 2")
        .send("n3", &from_other(&request(OTHER)))
        .send("n3", &up(&request(UE)))
        .expect("n6", &to_router(&seen(PORT)))
        .drops("uplink.translate_out.nat_no_port", 1)
        .counts("nat.blocks", 1)
}

fn a_block_goes_on_to_the_next() -> Case {
    opened("A block whose session ended is another subscriber's after a while, not before (RFC 6888, REQ-8).")
        .with("simulate.ues = 2")
        .step(r#"do = "remove", ue = 0"#)
        .at(ms(500))
        .send("n3", &from_other(&request(OTHER)))
        .send("n6", &from_router(&answer(PORT)))
        .at(secs(3))
        .send("n3", &from_other(&request(OTHER)))
        .expect("n6", &to_router(&seen(65_473)))
        .drops("uplink.translate_out.nat_no_port", 1)
        .drops("downlink.translate_in.nat_no_mapping", 1)
        .counts("nat.given", 2)
        .counts("nat.ended", 1)
}

fn subscriber_to_subscriber() -> Case {
    let across = ip4(OTHER, PUBLIC).udp(1000, PORT).filled(8);
    opened("From one subscriber to another's public end, by public ends on both sides (RFC 4787, REQ-9).")
        .with("simulate.ues = 2")
        .with("nat.first_port = 65408")
        .send("n3", &from_other(&across))
        .expect("n3", &down(&ip4(PUBLIC, UE).ttl(63).udp(65_437, 40_000).filled(8)))
        .punts("hairpin", 1)
}

fn waiting_for_a_neighbour() -> Case {
    nat("What waits for its neighbour was translated once, and is not again.")
        .with(r#"route = [{ to = "0.0.0.0/0", via = "10.0.6.253" }]"#)
        .send("n3", &up(&request(UE)))
        .expect("n6", &eth(N6_MAC, [0xff; 6]).arp_request(N6_MAC, N6, [10, 0, 6, 253]).padded())
        .at(ms(2))
        .send("n6", &eth([2, 0, 0, 0, 6, 253], N6_MAC).arp_reply([2, 0, 0, 0, 6, 253], [10, 0, 6, 253], N6_MAC, N6))
        .expect("n6", &eth(N6_MAC, [2, 0, 0, 0, 6, 253]).carrying(&seen(PORT)))
        .punts("resolve", 1)
        .punts("arp", 1)
}

fn timeouts_follow_packets() -> Case {
    opened("A mapping lives as long as its subscriber's packets come, and for a while behind the last one.")
        .with("nat.udp_unanswered_seconds = 2")
        .with("nat.udp_seconds = 2")
        .at(ms(1500))
        .send("n3", &up(&request(UE)))
        .expect("n6", &to_router(&seen(PORT)))
        .at(ms(3000))
        .send("n3", &up(&request(UE)))
        .expect("n6", &to_router(&seen(PORT)))
        .at(ms(4500))
        .send("n6", &from_router(&answer(PORT)))
        .expect("n3", &down(&response(UE).ttl(63)))
        .at(ms(5500))
        .send("n6", &from_router(&answer(PORT)))
        .drops("downlink.translate_in.nat_no_mapping", 1)
        .counts("nat.blocks", 1)
}

fn tcp_opens_and_closes() -> Case {
    const SYN: u8 = 0x02;
    const ACK: u8 = 0x10;
    const FIN: u8 = 0x01;
    let out = |flags| up(&ip4(UE, SERVER).tcp(40_000, 443).flags(flags).filled(9));
    let seen = |flags| to_router(&ip4(PUBLIC, SERVER).ttl(63).tcp(PORT, 443).flags(flags).filled(9));
    let back = |flags| from_router(&ip4(SERVER, PUBLIC).tcp(443, PORT).flags(flags).filled(9));
    let come = |flags| down(&ip4(SERVER, UE).ttl(63).tcp(443, 40_000).flags(flags).filled(9));
    nat("A TCP connection that is established may be silent for long, one that opens or closes may not (RFC 5382, REQ-5).")
        .with("nat.tcp_opening_seconds = 1")
        .send("n3", &out(SYN))
        .expect("n6", &seen(SYN))
        .at(ms(1))
        .send("n6", &back(SYN | ACK))
        .expect("n3", &come(SYN | ACK))
        .at(ms(2))
        .send("n3", &out(ACK))
        .expect("n6", &seen(ACK))
        .at(ms(3000))
        .send("n6", &back(ACK))
        .expect("n3", &come(ACK))
        .at(ms(3001))
        .send("n3", &out(FIN | ACK))
        .expect("n6", &seen(FIN | ACK))
        .at(ms(3002))
        .send("n6", &back(FIN | ACK))
        .expect("n3", &come(FIN | ACK))
        .at(ms(3003))
        .send("n3", &out(ACK))
        .expect("n6", &seen(ACK))
        .at(ms(4500))
        .send("n6", &back(ACK))
        .drops("downlink.translate_in.nat_no_mapping", 1)
}
