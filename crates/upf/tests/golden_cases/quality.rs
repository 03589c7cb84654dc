//! Gates, maximum bit rates, marks (TS 29.244, 5.4).

use super::*;

testkit::cases! {
    gate_closed, flow_rate_up, flow_rate_down, flow_rates_are_apart, session_rate_up, session_rate_down,
    flow_inside_session_rate, a_refused_packet_costs_nothing, long_run_is_exact, marks_up, marks_down, marks_user_down,
    reflective, paging_policy, paging_policy_over_ipv6,
    unlimited_is_unlimited, congestion_is_carried_in, congestion_is_carried_in_ipv6, congestion_to_who_would_not_understand,
}

/// Not-ECT, ECT(0), ECT(1), CE.
const ECN: [u8; 4] = [0, 2, 1, 3];
/// What leaves of such a mark inside such a mark outside, in that order (RFC 6040, figure 4).
const CARRIED: [[Option<u8>; 4]; 4] = [
    [Some(0), Some(0), Some(0), None],
    [Some(2), Some(2), Some(1), Some(3)],
    [Some(1), Some(1), Some(1), Some(3)],
    [Some(3), Some(3), Some(3), Some(3)],
];

/// Every pair of marks: `user` makes the subscriber's packet of its hops and class.
fn every_mark(case: Case, over: Over, user: impl Fn(u8, u8) -> Packet) -> Case {
    let outer = |tos| match over {
        Over::V4 => eth(GNB_MAC, N3_MAC).ip4(GNB, N3).tos(tos),
        Over::V6 => eth(GNB_MAC, N3_MAC).ip6(GNB_6, N3_6).tos(tos),
    };
    let pairs = ECN
        .into_iter()
        .zip(CARRIED)
        .flat_map(|(inner, row)| ECN.into_iter().zip(row).map(move |(outer, end)| (inner, outer, end)));
    pairs.fold(case, |case, (inside, outside, end)| {
        let tunnelled = outer(0xb8 | outside).gtpu(TEID).container_up(QFI).carrying(&user(64, 0x28 | inside));
        let case = case.send("n3", &tunnelled);
        match end {
            Some(end) => case.expect("n6", &to_router(&user(63, 0x28 | end))),
            None => case.drops("uplink.parse_outer.ecn_illegal", 1),
        }
    })
}

fn congestion_is_carried_in() -> Case {
    case("Congestion marked on the tunnel is marked in the user's packet (RFC 6040, 4.2); its DSCP is its own.").then(
        |case| every_mark(case, Over::V4, |ttl, tos| ip4(UE, SERVER).ttl(ttl).tos(tos).udp(40_000, 50_000).filled(8)),
    )
}

fn congestion_is_carried_in_ipv6() -> Case {
    case("As in IPv4, through a tunnel over IPv6; the flow label stays.").then(|case| {
        let user = |hops, tos| ip6(UE_6, SERVER_6).ttl(hops).tos(tos).flow_label(0xfffff).tcp(40_000, 50_000);
        every_mark(case, Over::V6, user)
    })
}

fn congestion_to_who_would_not_understand() -> Case {
    let user = request(UE);
    let marked = eth(GNB_MAC, N3_MAC).ip4(GNB, N3).tos(3).gtpu(TEID);
    case("With other headers before the packet; an echo request has nobody behind it, and is answered.")
        .send("n3", &marked.clone().seq(7).extension(0x01, [1, 2]).container_up(QFI).carrying(&user))
        .send("n3", &marked.clone().seq(7).extension(0x01, [1, 2]).container_up(QFI).carrying(&request(UE).tos(2)))
        .send("n3", &eth(GNB_MAC, N3_MAC).ip4(GNB, N3).tos(3).udp(2152, 2152).gtpu_message(1, 0).seq(1))
        .expect("n6", &to_router(&request(UE).tos(3).ttl(63)))
        .expect("n3", &to_gnb(Over::V4).udp(2152, 2152).gtpu_message(2, 0).seq(1).payload([14, 0]))
        .punts("gtp_echo", 1)
        .drops("uplink.parse_outer.ecn_illegal", 1)
}

/// An IPv4 packet of 1000 bytes.
fn kilobyte(from: impl Into<IpAddr>, to: impl Into<IpAddr>, port: u16) -> Packet {
    ip(from, to).udp(port, port).filled(972)
}

fn gate_closed() -> Case {
    case("A closed gate lets nothing through, and what it stops is not measured.")
        .with("simulate.bearer = [{ qfi = 9, gate_closed = true }]")
        .send("n3", &up(&request(UE)))
        .send("n6", &from_router(&response(UE)))
        .send("n6", &from_router(&response(UE_6)))
        .drops("uplink.gate_and_police.gate_closed", 1)
        .drops("downlink.gate_and_police.gate_closed", 2)
        .counts("usage.ue0.urr1.up_packets", 0)
        .counts("usage.ue0.urr1.down_packets", 0)
}

/// Sends `count` uplink packets of 1000 bytes, of which `pass` pass.
fn many_up(case: Case, port: u16, qfi: u8, count: usize, pass: usize) -> Case {
    let tunnelled = from_gnb(Over::V4).gtpu(TEID).container_up(qfi).carrying(&kilobyte(UE, SERVER, port));
    let case = (0..count).fold(case, |case, _| case.send("n3", &tunnelled));
    let out = to_router(&ip4(UE, SERVER).ttl(63).udp(port, port).filled(972));
    (0..pass).fold(case, |case, _| case.expect("n6", &out))
}

/// Sends `count` downlink packets of 1000 bytes, of which `pass` pass.
fn many_down(case: Case, port: u16, qfi: u8, count: usize, pass: usize) -> Case {
    let plain = from_router(&kilobyte(SERVER, UE, port));
    let case = (0..count).fold(case, |case, _| case.send("n6", &plain));
    let user = ip4(SERVER, UE).ttl(63).udp(port, port).filled(972);
    let out = tunnel(Over::V4, GNB_TEID).container_down(qfi).carrying(&user);
    (0..pass).fold(case, |case, _| case.expect("n3", &out))
}

fn flow_rate_up() -> Case {
    // The burst is 15000 bytes; 1 Mbit/s is 1000 bytes in 8 ms.
    case("Uplink MBR: a burst of 15000 bytes, then 125 bytes a millisecond.")
        .with("simulate.bearer = [{ qfi = 9, mbr_up = \"1 Mbit/s\" }]")
        .then(|case| many_up(case, 50_000, QFI, 20, 15))
        .at(ms(7))
        .then(|case| many_up(case, 50_000, QFI, 1, 0))
        .at(ms(8))
        .then(|case| many_up(case, 50_000, QFI, 2, 1))
        .at(ms(40))
        .then(|case| many_up(case, 50_000, QFI, 10, 4))
        .drops("uplink.gate_and_police.flow_rate", 5 + 1 + 1 + 6)
        .counts("usage.ue0.urr1.up_packets", 20)
        .counts("usage.ue0.urr1.up_bytes", 20_000)
}

fn flow_rate_down() -> Case {
    case("Downlink MBR leaves the uplink alone.")
        .with("simulate.bearer = [{ qfi = 9, mbr_down = \"2 Mbit/s\" }]")
        .then(|case| many_down(case, 50_000, QFI, 20, 15))
        .then(|case| many_up(case, 50_000, QFI, 40, 40))
        .at(ms(4))
        .then(|case| many_down(case, 50_000, QFI, 2, 1))
        .at(ms(100))
        .then(|case| many_down(case, 50_000, QFI, 20, 15))
        .drops("downlink.gate_and_police.flow_rate", 5 + 1 + 5)
}

const FLOWS: &str = r#"simulate.bearer = [
    { qfi = 5, filters = ["permit out 17 from any 50000 to assigned"], mbr_up = "1 Mbit/s", mbr_down = "1 Mbit/s" },
    { qfi = 9, mbr_up = "1 Mbit/s", mbr_down = "1 Mbit/s" },
]"#;

fn flow_rates_are_apart() -> Case {
    case("Each flow has its own rate, each direction its own.")
        .with(FLOWS)
        .then(|case| many_up(case, 50_000, 5, 16, 15))
        .then(|case| many_up(case, 50_001, 9, 17, 15))
        .then(|case| many_down(case, 50_000, 5, 18, 15))
        .then(|case| many_down(case, 50_001, 9, 19, 15))
        .drops("uplink.gate_and_police.flow_rate", 1 + 2)
        .drops("downlink.gate_and_police.flow_rate", 3 + 4)
}

const SESSION: &str = r#"
simulate.ambr_up = "1 Mbit/s"
simulate.ambr_down = "2 Mbit/s"
simulate.bearer = [
    { qfi = 5, filters = ["permit out 17 from any 50000 to assigned"] },
    { qfi = 9 },
]"#;

fn session_rate_up() -> Case {
    case("Session AMBR: all flows of the subscriber together, uplink.")
        .with(SESSION)
        .then(|case| many_up(case, 50_000, 5, 10, 10))
        .then(|case| many_up(case, 50_001, 9, 10, 5))
        .at(ms(8))
        .then(|case| many_up(case, 50_000, 5, 2, 1))
        .drops("uplink.gate_and_police.session_rate", 5 + 1)
}

fn session_rate_down() -> Case {
    case("Session AMBR: all flows of the subscriber together, IPv4 and IPv6, downlink.")
        .with(SESSION)
        .then(|case| many_down(case, 50_000, 5, 10, 10))
        .then(|case| {
            let plain = |hops| ip6(SERVER_6, UE_6).ttl(hops).udp(50_001, 50_001).filled(952);
            let case = (0..6).fold(case, |case, _| case.send("n6", &from_router(&plain(64))));
            (0..5).fold(case, |case, _| case.expect("n3", &down(&plain(63))))
        })
        .at(ms(4))
        .then(|case| many_down(case, 50_001, 9, 2, 1))
        .drops("downlink.gate_and_police.session_rate", 1 + 1)
}

const INSIDE: &str = r#"
simulate.ambr_up = "8 Mbit/s"
simulate.bearer = [
    { qfi = 5, filters = ["permit out 17 from any 50000 to assigned"], mbr_up = "1 Mbit/s" },
    { qfi = 9 },
]"#;

fn flow_inside_session_rate() -> Case {
    case("A packet must fit its flow's rate and its session's.")
        .with(INSIDE)
        .then(|case| many_up(case, 50_001, 9, 10, 10))
        .then(|case| many_up(case, 50_000, 5, 10, 5))
        .at(ms(10))
        .then(|case| many_up(case, 50_000, 5, 11, 10))
        .drops("uplink.gate_and_police.session_rate", 5 + 1)
}

fn a_refused_packet_costs_nothing() -> Case {
    case("What the flow's rate refuses takes nothing of the session's, and the other way round.")
        .with(
            r#"
            simulate.ambr_up = "1 Mbit/s"
            simulate.bearer = [
                { qfi = 5, filters = ["permit out 17 from any 50000 to assigned"], mbr_up = "1 kbit/s" },
                { qfi = 9 },
            ]"#,
        )
        .then(|case| many_up(case, 50_000, 5, 10, 10))
        .at(ms(100))
        // The session has 15000 bytes again, the flow 5012.
        .then(|case| many_up(case, 50_000, 5, 30, 5))
        .then(|case| many_up(case, 50_001, 9, 12, 10))
        .drops("uplink.gate_and_police.flow_rate", 25)
        .drops("uplink.gate_and_police.session_rate", 2)
}

fn long_run_is_exact() -> Case {
    // In nano-bits: a packet, the burst, what is gained between rounds.
    let (packet, burst, gain) = (8_000_000_000_000u64, 120_000_000_000_000u64, 300_000 * ms(20));
    let rounds = 100;
    case("Over two seconds of more than double the rate exactly the rate passes, and the burst once.")
        .with("simulate.bearer = [{ qfi = 9, mbr_up = \"300 kbit/s\" }]")
        .then(|mut case| {
            let (mut credit, mut passed) = (burst, 0);
            for round in 0..rounds {
                let fit = (credit / packet).min(2);
                case = many_up(case.at(round * ms(20)), 50_000, QFI, 2, fit as usize);
                credit = credit - fit * packet + gain;
                passed += fit;
            }
            // 300 kbit/s for 1.98 s, and 15000 bytes.
            assert_eq!(passed, (300_000 * 198 / 100 / 8 + 15_000) / 1000);
            case.drops("uplink.gate_and_police.flow_rate", 2 * rounds - passed)
        })
}

fn marks_up() -> Case {
    let four = |ttl, tos| ip4(UE, SERVER).ttl(ttl).tos(tos).udp(40_000, 50_000).filled(8);
    let six = |ttl, tos| ip6(UE_6, SERVER_6).ttl(ttl).tos(tos).flow_label(0xabcde).udp(40_000, 50_000).filled(8);
    case("Uplink packets get their flow's DSCP and keep ECN and flow label.")
        .with("simulate.bearer = [{ qfi = 9, dscp_up = 46 }]")
        .send("n3", &up(&four(64, 0)))
        .send("n3", &up(&four(64, 0x29)))
        .send("n3", &up(&six(64, 0x02)))
        .expect("n6", &to_router(&four(63, 0xb8)))
        .expect("n6", &to_router(&four(63, 0xb9)))
        .expect("n6", &to_router(&six(63, 0xba)))
}

fn marks_down() -> Case {
    let user = |ttl| ip4(SERVER, UE).ttl(ttl).tos(0x29).udp(50_000, 40_000).filled(8);
    let head = eth(N3_MAC, GNB_MAC).ip4(N3, GNB).tos(0xb9).gtpu_unsummed(GNB_TEID).container_down(QFI);
    case("Downlink, the tunnel gets the flow's DSCP beside the packet's ECN, and the user's packet keeps its own.")
        .with("simulate.bearer = [{ qfi = 9, dscp = 46 }]")
        .send("n6", &from_router(&user(64)))
        .expect("n3", &head.carrying(&user(63)))
}

fn marks_user_down() -> Case {
    let user = |ttl, tos| ip4(SERVER, UE).ttl(ttl).tos(tos).udp(50_000, 40_000).filled(8);
    let user6 = |hops, tos| ip6(SERVER_6, UE_6).ttl(hops).tos(tos).flow_label(0xfffff).udp(50_000, 40_000).filled(8);
    let head = || eth(N3_MAC, GNB_MAC).ip4(N3, GNB).tos(0xb9).gtpu_unsummed(GNB_TEID).container_down(QFI);
    case("Downlink, the user's packet gets the flow's DSCP (DL Flow Level Marking), and the tunnel's header with it.")
        .with("simulate.bearer = [{ qfi = 9, mark_down = 46 }]")
        .send("n6", &from_router(&user(64, 0x29)))
        .expect("n3", &head().carrying(&user(63, 0xb9)))
        .send("n6", &from_router(&user6(64, 0x29)))
        .expect("n3", &head().carrying(&user6(63, 0xb9)))
}

/// In its tunnel with a container of these octets, type and length aside.
fn with_container(over: Over, content: &[u8]) -> Packet {
    tunnel(over, GNB_TEID).extension(0x85, content)
}

fn reflective() -> Case {
    case("Downlink packets of a flow with reflective QoS say so in their container (TS 38.415, RQI); uplink ones do not.")
        .with("simulate.bearer = [{ qfi = 9, reflective = true }]")
        .send("n6", &from_router(&response(UE)))
        .expect("n3", &with_container(Over::V4, &[0, 0x40 | QFI]).carrying(&response(UE).ttl(63)))
        .send("n6", &from_router(&response(UE_6)))
        .expect("n3", &with_container(Over::V4, &[0, 0x40 | QFI]).carrying(&response(UE_6).ttl(63)))
        .send("n3", &up(&request(UE)))
        .expect("n6", &to_router(&request(UE).ttl(63)))
}

fn paging_policy() -> Case {
    let container = [0, 0xc0 | QFI, 5 << 5, 0, 0, 0];
    case("Downlink packets of a flow with a paging policy have it in their container (TS 38.415, PPI), beside the RQI.")
        .with("simulate.bearer = [{ qfi = 9, reflective = true, paging_policy = 5 }]")
        .send("n6", &from_router(&response(UE)))
        .expect("n3", &with_container(Over::V4, &container).carrying(&response(UE).ttl(63)))
}

fn paging_policy_over_ipv6() -> Case {
    let container = [0, 0x80 | QFI, 7 << 5, 0, 0, 0];
    case("A paging policy through a tunnel over IPv6.")
        .with(OVER_6)
        .with("simulate.bearer = [{ qfi = 9, paging_policy = 7 }]")
        .send("n6", &from_router(&response(UE_6)))
        .expect("n3", &with_container(Over::V6, &container).carrying(&response(UE_6).ttl(63)))
}

fn unlimited_is_unlimited() -> Case {
    case("Without a rate nothing is policed.").then(|case| many_up(case, 50_000, QFI, 80, 80))
}
