//! What is measured (TS 29.244, 5.2.2).

use super::*;

testkit::cases! { volume_packets_and_time, per_flow, not_measured, dropped_later_is_measured, three_rates_and_three_counts }

fn volume_packets_and_time() -> Case {
    case("Octets of the user's IP packets, packets, time of the first and the last.")
        .at(ms(3))
        .send("n3", &up(&request(UE)))
        .expect("n6", &to_router(&request(UE).ttl(63)))
        .at(ms(5))
        .send("n6", &from_router(&response(UE)).padded_to(90))
        .send("n6", &from_router(&response(UE_6)))
        .expect("n3", &down(&response(UE).ttl(63)))
        .expect("n3", &down(&response(UE_6).ttl(63)))
        .at(secs(2))
        .send("n3", &up(&request(UE_6)))
        .expect("n6", &to_router(&request(UE_6).ttl(63)))
        .counts("usage.ue0.urr1.up_packets", 2)
        .counts("usage.ue0.urr1.up_bytes", 60 + 80)
        .counts("usage.ue0.urr1.down_packets", 2)
        .counts("usage.ue0.urr1.down_bytes", 60 + 80)
        .counts("usage.ue0.urr1.first_ns", stamped(ms(3)))
        .counts("usage.ue0.urr1.last_ns", stamped(secs(2)))
}

fn per_flow() -> Case {
    let user = |port, ttl| ip4(SERVER, UE).ttl(ttl).udp(port, 40_000).filled(72);
    let second = Ipv4Addr::new(10, 60, 0, 2);
    let in_flow = |teid, qfi, user: &Packet| tunnel(Over::V4, teid).container_down(qfi).carrying(user);
    case("Each flow of each subscriber is measured by itself.")
        .with(
            r#"
            simulate.ues = 2
            simulate.bearer = [{ qfi = 5, filters = ["permit out 17 from any 50000 to assigned"] }, { qfi = 9 }]"#,
        )
        .send("n6", &from_router(&user(50_000, 64)))
        .send("n6", &from_router(&user(50_001, 64)))
        .send("n6", &from_router(&user(50_001, 64)))
        .send("n6", &from_router(&response(second)))
        .expect("n3", &in_flow(GNB_TEID, 5, &user(50_000, 63)))
        .expect("n3", &in_flow(GNB_TEID, 9, &user(50_001, 63)))
        .expect("n3", &in_flow(GNB_TEID, 9, &user(50_001, 63)))
        .expect("n3", &in_flow(GNB_TEID + 1, 5, &response(second).ttl(63)))
        .counts("usage.ue0.urr1.down_bytes", 100)
        .counts("usage.ue0.urr2.down_bytes", 200)
        .counts("usage.ue1.urr1.down_bytes", 60)
        .counts("usage.ue1.urr2.down_bytes", 0)
}

fn not_measured() -> Case {
    case("A rule without URR measures nothing.")
        .with("simulate.bearer = [{ qfi = 9, no_usage = true }]")
        .send("n3", &up(&request(UE)))
        .expect("n6", &to_router(&request(UE).ttl(63)))
        .counts("usage.ue0.urr1.up_packets", 0)
}

fn dropped_later_is_measured() -> Case {
    let packet = ip4(UE, [203, 0, 113, 1]).udp(1, 2).filled(72);
    case("What the gate and the rates let pass is measured, also when no route is found behind.")
        .with(r#"route = [{ to = "198.51.100.0/24", via = "10.0.6.254" }]"#)
        .send("n3", &up(&packet))
        .expect("n3", &icmp::error_to_ue(&packet, 3, 0, 0))
        .drops("worker.no_route", 1)
        .counts("usage.ue0.urr1.up_bytes", 100)
}

fn three_rates_and_three_counts() -> Case {
    let packet = ip4(UE, SERVER).udp(40_000, 50_000).filled(972);
    let back = ip4(SERVER, UE).udp(50_000, 40_000).filled(972);
    let many = |case: Case, count, pass| {
        let case = (0..count).fold(case, |case, _| case.send("n3", &up(&packet)));
        (0..pass).fold(case, |case, _| case.expect("n6", &to_router(&packet.clone().ttl(63))))
    };
    let counted = |case: Case, urr| {
        case.counts(&format!("usage.ue0.urr{urr}.up_bytes"), 16_000)
            .counts(&format!("usage.ue0.urr{urr}.down_bytes"), 2_000)
            .counts(&format!("usage.ue0.urr{urr}.up_packets"), 16)
            .counts(&format!("usage.ue0.urr{urr}.down_packets"), 2)
    };
    case("A flow with three QERs and three URRs: the slowest rate holds, every count goes on, the first quota ends it.")
        .with("simulate.bearer = [{ qfi = 9, mbr_up = \"1 Gbit/s\" }]")
        .step(r#"do = "more", ue = 0, rates_up = [1000000000, 1000000], quotas = [0, 18000]"#)
        .at(ms(1))
        .then(|case| many(case, 16, 15))
        .at(ms(9))
        .then(|case| many(case, 2, 1))
        .drops("uplink.gate_and_police.flow_rate", 2)
        .at(ms(10))
        .send("n6", &from_router(&back))
        .send("n6", &from_router(&back))
        .send("n6", &from_router(&back))
        .expect("n3", &down(&back.clone().ttl(63)))
        .expect("n3", &down(&back.ttl(63)))
        .drops("downlink.measure_usage.quota_exhausted", 1)
        .then(|case| [1, 101, 102].into_iter().fold(case, counted))
}
