//! Packets for idle subscribers (TS 29.244, 5.2.3.1: BUFF).

use super::*;

testkit::cases! {
    released_when_active, released_at_another_gnb, new_packets_do_not_overtake, too_many_for_one, too_many_bytes, given_up_after_a_while,
    discarded_with_the_session, discarded_by_rule, idle_again, paged, uplink_goes_on, dropped_by_rule,
}

/// Idle until told otherwise.
const IDLE: &str = "simulate.idle = 1\nsimulate.paging_ms = 60000";
const ACTIVE: &str = r#"do = "rules", ue = 0"#;

fn numbered(n: u8, ttl: u8) -> Packet {
    ip4(SERVER, UE).ttl(ttl).udp(50_000, 40_000).payload([n; 9])
}

fn arrive(case: Case, numbers: impl Iterator<Item = u8>) -> Case {
    numbers.fold(case, |case, n| case.send("n6", &from_router(&numbered(n, 64))))
}

fn leave(case: Case, numbers: impl Iterator<Item = u8>) -> Case {
    numbers.fold(case, |case, n| case.expect("n3", &down(&numbered(n, 63))))
}

fn released_when_active() -> Case {
    case("An idle subscriber's packets wait; when its rules say forward they leave in their order.")
        .with(IDLE)
        .then(|case| arrive(case, 0..3))
        .at(ms(100))
        .then(|case| arrive(case, 3..5))
        .at(ms(200))
        .step(ACTIVE)
        .then(|case| leave(case, 0..5))
        .at(ms(201))
        .then(|case| arrive(case, 5..6))
        .then(|case| leave(case, 5..6))
        .punts("buffer", 5)
        .counts("control.pages", 1)
        .counts("usage.ue0.urr1.down_packets", 6)
}

fn released_at_another_gnb() -> Case {
    let gnb = Ipv4Addr::new(10, 0, 3, 101);
    let head = eth(N3_MAC, [2, 0, 0, 0, 3, 0x65]).ip4(N3, gnb).gtpu_unsummed(0x0500_0000);
    case("The subscriber is back at another gNB, in another tunnel: what waited follows it.")
        .with(IDLE)
        .with(r#"neighbour = [{ port = "n3", address = "10.0.3.101", mac = "02:00:00:00:03:65" }]"#)
        .then(|case| arrive(case, 0..2))
        .at(ms(200))
        .step(r#"do = "rules", ue = 0, simulate = { gnb_first = "10.0.3.101", gnb_teid_first = 0x0500_0000 }"#)
        .expect("n3", &head.clone().container_down(QFI).carrying(&numbered(0, 63)))
        .expect("n3", &head.container_down(QFI).carrying(&numbered(1, 63)))
        .punts("buffer", 2)
}

fn new_packets_do_not_overtake() -> Case {
    case("What comes while waiting packets are let go leaves behind them.")
        .with(IDLE)
        .then(|case| arrive(case, 0..50))
        .at(ms(200))
        .step(ACTIVE)
        .then(|case| arrive(case, 50..250))
        .then(|case| leave(case, 0..250))
        .punts("buffer", 50)
}

fn too_many_for_one() -> Case {
    case("A subscriber may have only so many packets waiting.")
        .with(IDLE)
        .with("buffer.packets_per_subscriber = 4")
        .then(|case| arrive(case, 0..7))
        .at(ms(200))
        .step(ACTIVE)
        .then(|case| leave(case, 0..4))
        .punts("buffer", 4)
        .drops("worker.buffer_full", 3)
        .counts("usage.ue0.urr1.down_packets", 4)
        .counts("usage.ue0.urr1.down_bytes", 4 * 37)
        .counts("usage.ue0.urr1.first_ns", stamped(ms(200)))
}

fn too_many_bytes() -> Case {
    case("All subscribers together may have only so many bytes waiting, in blocks of 256.")
        .with(IDLE)
        .with("buffer.bytes = 1024")
        .then(|case| arrive(case, 0..7))
        .at(ms(200))
        .step(ACTIVE)
        .then(|case| leave(case, 0..4))
        .punts("buffer", 4)
        .drops("worker.buffer_full", 3)
}

fn given_up_after_a_while() -> Case {
    case("What has waited too long is dropped.")
        .with(IDLE)
        .with("buffer.seconds = 1")
        .then(|case| arrive(case, 0..2))
        .at(ms(500))
        .then(|case| arrive(case, 2..3))
        .at(ms(1200))
        .step(ACTIVE)
        .then(|case| leave(case, 2..3))
        .punts("buffer", 3)
        .drops("worker.buffer_discarded", 2)
}

fn discarded_with_the_session() -> Case {
    case("What waits for a subscriber whose session ends is dropped, and was not used.")
        .with(IDLE)
        .then(|case| arrive(case, 0..3))
        .at(ms(200))
        .step(r#"do = "remove", ue = 0"#)
        .at(ms(201))
        .then(|case| arrive(case, 3..4))
        .punts("buffer", 3)
        .drops("worker.buffer_discarded", 3)
        .drops("downlink.find_by_address.unknown_subscriber", 1)
        .counts("control.removed", 1)
        .counts("final.ue0.urr1.down_packets", 0)
}

fn discarded_by_rule() -> Case {
    case("When the rules say drop, what waits is dropped.")
        .with(IDLE)
        .then(|case| arrive(case, 0..3))
        .at(ms(200))
        .step(r#"do = "rules", ue = 0, simulate = { bearer = [{ qfi = 9, far_drop = true }] }"#)
        .at(ms(201))
        .then(|case| arrive(case, 3..4))
        .punts("buffer", 3)
        .drops("worker.buffer_discarded", 3)
        .drops("downlink.apply_far.far_drop", 1)
}

fn idle_again() -> Case {
    case("Active, idle, active: what comes while idle waits.")
        .with("simulate.paging_ms = 60000")
        .then(|case| arrive(case, 0..1))
        .then(|case| leave(case, 0..1))
        .at(ms(100))
        .step(r#"do = "rules", ue = 0, idle = true"#)
        .at(ms(101))
        .then(|case| arrive(case, 1..3))
        .at(ms(150))
        .step(r#"do = "rules", ue = 0, idle = true"#)
        .at(ms(200))
        .step(ACTIVE)
        .then(|case| leave(case, 1..3))
        .punts("buffer", 2)
        .counts("control.pages", 1)
        .counts("usage.ue0.urr1.down_packets", 3)
}

fn paged() -> Case {
    case("The simulated control plane pages: twenty milliseconds after the first packet the subscriber is back.")
        .with("simulate.idle = 1\nsimulate.paging_ms = 20")
        .then(|case| arrive(case, 0..2))
        .at(ms(10))
        .then(|case| arrive(case, 2..3))
        .at(ms(20))
        .then(|case| leave(case, 0..3))
        .at(ms(25))
        .then(|case| arrive(case, 3..4))
        .then(|case| leave(case, 3..4))
        .punts("buffer", 3)
        .counts("control.pages", 1)
}

fn uplink_goes_on() -> Case {
    case("Only the downlink waits.")
        .with(IDLE)
        .send("n3", &up(&request(UE)))
        .expect("n6", &to_router(&request(UE).ttl(63)))
}

fn dropped_by_rule() -> Case {
    case("A forwarding rule that says drop.")
        .with("simulate.bearer = [{ qfi = 9, far_drop = true }]")
        .send("n3", &up(&request(UE)))
        .send("n6", &from_router(&response(UE)))
        .drops("uplink.apply_far.far_drop", 1)
        .drops("downlink.apply_far.far_drop", 1)
}
