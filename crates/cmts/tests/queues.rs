//! Service flows under more traffic than they may have: what their rates, bursts, priorities and active queue management
//! promise, to the hundredth. Time is simulated; packets are of sizes and at rates the test chooses.

use dataplane::hqos::FlowCounts;
use testkit::packet::{eth, ip4};
use traffic::cable::{Cuts, Workload};

use crate::plant::{FAR, PORTS, World, config};

/// Nanoseconds between looks.
const STEP: u64 = 100_000;
/// Bytes of a large packet, from behind the HCS through the CRC, and of a small one.
const LARGE: u64 = 1018;
const SMALL: u64 = 218;
/// Bytes of a MAC header, which take a channel's capacity and no service flow's.
const HEADER: u64 = 17;

/// One modem with those service flows, all over the three channels of one bonding group, of `capacity` in all.
fn world(flows: &[&str], capacity: u64) -> World {
    let text = config(1, 1, false, "");
    let from = text.find("[[profile.flow]]").expect("flows");
    let to = text[from..].find("[[neighbour]]").expect("a service group") + from;
    let flow = |(n, more): (usize, &&str)| format!("[[profile.flow]]\nname = \"f{n}\"\ngroup = \"a\"\n{more}\n");
    // Classifiers name four.
    let flows: String = (0..4).map(|n| flow((n, flows.get(n).unwrap_or(&"")))).collect();
    let text = format!("{}{flows}{}", &text[..from], &text[to..]);
    World::new(&text.replace("1.89 Gbit/s", &format!("{} kbit/s", capacity / 3000)), Cuts::Few)
}

/// Traffic for a service flow.
struct Load {
    flow: usize,
    bytes: u64,
    rate: u64,
    /// Bits that are owed.
    owed: u64,
}

/// Of packets of so many bytes, so many bit/s.
fn load(flow: usize, bytes: u64, rate: u64) -> Load {
    Load { flow, bytes, rate, owed: 0 }
}

/// A packet for a service flow, with so many bytes from behind the HCS through the CRC.
fn packet(flow: usize, bytes: u64) -> Vec<u8> {
    let rule = (0..16).find(|rule| Workload::classifier_class(*rule) as usize == flow);
    let port = rule.map_or(9, Workload::classifier_port);
    let payload = bytes as usize - 14 - 20 - 8 - 4;
    eth(FAR[1].0, PORTS[1].0).carrying(&ip4([198, 18, 0, 1], [10, 0, 0, 1]).udp(1, port).filled(payload)).build()
}

fn counts(world: &World) -> Vec<FlowCounts> {
    world.rig.gateway().state().scheduler.flows()[..4].iter().map(|flow| flow.counts).collect()
}

/// Lets time pass, with that traffic; `each` sees the counts after each look.
fn run(world: &mut World, ms: u64, loads: &mut [Load], mut each: impl FnMut(u64, &[FlowCounts])) {
    for _ in 0..ms * 1_000_000 / STEP {
        for load in loads.iter_mut() {
            load.owed += load.rate * STEP / 1_000_000_000;
            while load.owed >= load.bytes * 8 {
                load.owed -= load.bytes * 8;
                world.rig.wire("nsi").send(packet(load.flow, load.bytes));
            }
        }
        world.step(STEP);
        each(world.now(), &counts(world));
    }
}

/// What each service flow has sent in `ms` milliseconds, in bit/s.
fn rates(world: &mut World, ms: u64, loads: &mut [Load]) -> Vec<f64> {
    let before = counts(world);
    run(world, ms, loads, |_, _| {});
    let rate = |(after, before): (FlowCounts, FlowCounts)| (after.bytes - before.bytes) as f64 * 8000.0 / ms as f64;
    counts(world).into_iter().zip(before).map(rate).collect()
}

#[track_caller]
fn within_a_hundredth(got: f64, expected: f64, what: &str) {
    assert!((got / expected - 1.0).abs() <= 0.01, "{what}: {got} of {expected}");
}

/// Every packet came out at the device, waits, or was dropped by name.
#[track_caller]
fn whole(world: World) {
    let sum = |of: fn(&FlowCounts) -> u64| counts(&world).iter().map(of).sum::<u64>();
    let named = |name: &str| world.drops().iter().filter(|drop| drop.1.name() == name).map(|drop| drop.2).sum::<u64>();
    let waiting = world.rig.gateway().state().scheduler.waiting() as u64;
    assert_eq!(world.io(engine::Io::RxPackets), sum(|c| c.packets) + sum(|c| c.full) + sum(|c| c.aqm) + waiting);
    assert_eq!((named("flow_queue_full"), named("flow_aqm")), (sum(|c| c.full), sum(|c| c.aqm)));
    assert_eq!(world.drops().iter().map(|drop| drop.2).sum::<u64>(), sum(|c| c.full) + sum(|c| c.aqm));
    world.rig.close().expect("nothing lost");
}

/// Milliseconds that packets sent between two looks waited, in the mean.
fn mean_wait(before: &FlowCounts, after: &FlowCounts) -> f64 {
    (after.waited_ns - before.waited_ns) as f64 / (after.packets - before.packets).max(1) as f64 / 1e6
}

#[test]
fn aqm_holds_its_target_under_overload_and_the_rate_is_kept() {
    // An eighth more than may pass, and twice as much; a buffer of 800 ms.
    for (target, offered) in [(10, 11_250_000), (10, 20_000_000), (30, 20_000_000)] {
        let flow = format!("rate = \"10 Mbit/s\"\nbuffer = 1000000\naqm = true\naqm_target_ms = {target}");
        let mut world = world(&[&flow], 300_000_000);
        let mut loads = [load(0, LARGE, offered)];
        run(&mut world, 6_000, &mut loads, |_, _| {});
        let before = counts(&world);
        let got = rates(&mut world, 6_000, &mut loads)[0];
        let (before, after) = (before[0], counts(&world)[0]);
        let wait = mean_wait(&before, &after);
        println!("target {target} ms, {offered} bit/s offered: {wait:.2} ms, {got:.0} bit/s");
        within_a_hundredth(got, 10e6, "the rate is used");
        assert!((wait / f64::from(target) - 1.0).abs() < 0.25, "{wait} ms, to be {target}");
        assert_eq!(after.full - before.full, 0, "the queue is never full");
        let dropped = (after.aqm - before.aqm) as f64;
        let dropped = dropped / (dropped + (after.packets - before.packets) as f64);
        let must = 1.0 - 10e6 / offered as f64;
        assert!((dropped - must).abs() < 0.01, "{dropped} dropped, {must} must be");
        whole(world);
    }
}

#[test]
fn without_aqm_the_buffer_is_the_wait() {
    let mut world = world(&["rate = \"10 Mbit/s\"\nbuffer = 125000"], 300_000_000);
    let mut loads = [load(0, LARGE, 20_000_000)];
    run(&mut world, 500, &mut loads, |_, _| {});
    let before = counts(&world);
    let got = rates(&mut world, 1000, &mut loads)[0];
    let wait = mean_wait(&before[0], &counts(&world)[0]);
    within_a_hundredth(got, 10e6, "the rate is used");
    assert!((98.0..=101.0).contains(&wait), "{wait} ms: 125,000 bytes at 10 Mbit/s are 100");
    assert!(counts(&world)[0].full > 0 && counts(&world)[0].aqm == 0);
    whole(world);
}

#[test]
fn waits_and_their_jitter_are_told() {
    // Ten packets at once, every 20 milliseconds.
    let mut world = world(&["rate = \"10 Mbit/s\"\nburst = 2048\nbuffer = 100000"], 300_000_000);
    for _ in 0..100 {
        (0..10).for_each(|_| world.rig.wire("nsi").send(packet(0, LARGE)));
        run(&mut world, 20, &mut [], |_, _| {});
    }
    let counts = &counts(&world)[0];
    let each = LARGE as f64 * 8e9 / 10e6;
    // Two go at once; the others wait one after the other. In the end the next burst's first does not wait.
    let last = 7.0 * each + (3.0 * LARGE as f64 - 2048.0) * 8e9 / 10e6;
    let (longest, jitter) = (counts.longest_ns() as f64, counts.jitter_ns() as f64 / counts.packets as f64);
    assert_eq!(counts.packets, 1000);
    assert!((longest - last).abs() < each / 4.0, "{longest}, {last} expected");
    assert!((jitter - 2.0 * last / 10.0).abs() < each / 8.0, "{jitter}, {} expected", last / 5.0);
    whole(world);
}

#[test]
fn aqm_lets_bursts_pass() {
    // 40 packets at once, every 200 ms: 33 ms of wait for the last of them, and half a percent of the rate in all.
    let mut world = world(&["rate = \"10 Mbit/s\"\nbuffer = 1000000\naqm = true"], 300_000_000);
    for _ in 0..50 {
        (0..40).for_each(|_| world.rig.wire("nsi").send(packet(0, LARGE)));
        run(&mut world, 200, &mut [], |_, _| {});
    }
    let counts = &counts(&world)[0];
    assert_eq!((counts.packets, counts.aqm, counts.full), (2000, 0, 0));
    assert!(counts.longest_ns() > 25_000_000, "{counts:?}");
    whole(world);
}

#[test]
fn a_burst_is_what_is_written_and_no_more_in_any_time() {
    for burst in [3044, 30_000, 250_000] {
        let rate = 8_000_000;
        let flow = format!("rate = \"8 Mbit/s\"\nburst = {burst}\nbuffer = 2000000");
        let mut world = world(&[&flow], 900_000_000);
        let mut seen: Vec<(u64, u64)> = vec![(world.now(), 0)];
        (0..1000).for_each(|_| world.rig.wire("nsi").send(packet(0, LARGE)));
        run(&mut world, 200, &mut [load(0, LARGE, 16_000_000)], |now, counts| seen.push((now, counts[0].bytes)));
        // bytes(T) <= T x R / 8 + B (CM-SP-MULPI, C.2.2.7.2): over any two looks; what came due between two is one look's.
        let ahead = |(at, bytes): &(u64, u64), (later, more): &(u64, u64)| {
            (more - bytes) as f64 - (later - at) as f64 * rate as f64 / 8e9
        };
        let most = seen.iter().enumerate().flat_map(|(n, a)| seen[n..].iter().map(move |b| ahead(a, b)));
        let most = most.fold(0.0, f64::max);
        let look = STEP as f64 * rate as f64 / 8e9;
        println!("burst {burst}: at most {most:.0} bytes ahead of the rate");
        assert!(most <= burst as f64 + look, "{most} of {burst}");
        assert!(most > burst as f64 - LARGE as f64 - look, "{most} of {burst}: all of it may be used");
        whole(world);
    }
}

#[test]
fn the_peak_rate_holds_as_long_as_the_burst_lasts() {
    let flow = "rate = \"10 Mbit/s\"\npeak = \"30 Mbit/s\"\nburst = 1000000\nbuffer = 4000000";
    let mut world = world(&[flow], 900_000_000);
    let mut loads = [load(0, LARGE, 60_000_000)];
    // The burst and what is earned meanwhile last 8,000,000 bits / 20 Mbit/s = 400 ms.
    run(&mut world, 20, &mut loads, |_, _| {});
    let first = rates(&mut world, 300, &mut loads)[0];
    run(&mut world, 160, &mut loads, |_, _| {});
    let then = rates(&mut world, 500, &mut loads)[0];
    within_a_hundredth(first, 30e6, "the peak rate");
    within_a_hundredth(then, 10e6, "then the sustained rate");
    whole(world);
}

#[test]
fn what_is_reserved_is_given_under_congestion() {
    // A third of what is asked for can pass. Behind priority, two service flows with something reserved.
    let flows = [
        "priority = 0\nreserved = \"6 Mbit/s\"\nbuffer = 100000",
        "priority = 7\nbuffer = 100000",
        "priority = 0\nreserved = \"1500 kbit/s\"\nbuffer = 100000",
        "priority = 0\nbuffer = 100000",
    ];
    let mut world = world(&flows, 30_000_000);
    let mut loads = [0, 1, 2, 3].map(|flow| load(flow, LARGE, 30_000_000));
    run(&mut world, 300, &mut loads, |_, _| {});
    let got = rates(&mut world, 2000, &mut loads);
    println!("{got:?}");
    within_a_hundredth(got[0], 6e6, "reserved for the first");
    within_a_hundredth(got[2], 1.5e6, "reserved for the third");
    let all = 30e6 * LARGE as f64 / (LARGE + HEADER) as f64;
    within_a_hundredth(got[1], all - 7.5e6, "what is left, for the highest priority");
    assert_eq!(got[3], 0.0, "nothing for who has neither");
    whole(world);
}

#[test]
fn priority_is_strict_and_those_of_one_priority_share_alike() {
    let flows = ["priority = 1\nbuffer = 100000", "priority = 5\nbuffer = 100000", "priority = 1\nbuffer = 100000"];
    let mut world = world(&flows, 30_000_000);
    // Large and small packets: bytes are shared, not packets.
    let mut loads = [load(0, LARGE, 30_000_000), load(1, LARGE, 12_000_000), load(2, SMALL, 30_000_000)];
    run(&mut world, 300, &mut loads, |_, _| {});
    let before = counts(&world);
    let got = rates(&mut world, 2000, &mut loads);
    let after = counts(&world);
    println!("{got:?}");
    within_a_hundredth(got[1], 12e6, "the highest priority has all it asks for");
    assert_eq!(after[1].full, 0);
    assert!(mean_wait(&before[1], &after[1]) < 1.0, "and hardly waits: {}", mean_wait(&before[1], &after[1]));
    within_a_hundredth(got[0], got[2], "the others share alike");
    let carried = |rate: f64, bytes: u64| rate * (bytes + HEADER) as f64 / bytes as f64;
    let all = carried(got[0], LARGE) + carried(got[1], LARGE) + carried(got[2], SMALL);
    within_a_hundredth(all, 30e6, "and the channels are full");
    whole(world);
}

#[test]
fn changed_rates_hold_from_then_on() {
    use cmts::config::FlowEntry;
    let mut world = world(&["rate = \"10 Mbit/s\"\nbuffer = 100000"], 300_000_000);
    let mut loads = [load(0, LARGE, 60_000_000)];
    run(&mut world, 100, &mut loads, |_, _| {});
    within_a_hundredth(rates(&mut world, 1000, &mut loads)[0], 10e6, "as configured");
    for (rate, expected) in [("40 Mbit/s", 40e6), ("2 Mbit/s", 2e6)] {
        let entry = FlowEntry {
            name: "f0".into(),
            rate: Some(rate.into()),
            group: Some("a".into()),
            buffer: 100_000,
            ..FlowEntry::default()
        };
        world.control.change_flow("02:cb:00:00:00:01".parse().expect("an address"), &entry).expect("it is there");
        run(&mut world, 100, &mut loads, |_, _| {});
        within_a_hundredth(rates(&mut world, 1000, &mut loads)[0], expected, rate);
    }
    whole(world);
}
