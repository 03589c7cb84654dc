//! A load in process, around the simplest of gateways.

mod gateway;

use std::collections::HashSet;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use frame::{Arena, ArenaConfig, Pool};
use gateway::{Gateway, honest, kind};
use proptest::prelude::*;
use traffic::{Clock, Direction, LoadHandle, LoadPort, Plan, Profile, Ratio, Schedule, Sizes, TrialResult, Verify};

const SLOTS: u32 = 512;

fn bench<F: FnMut(Direction, u64, Vec<u8>) -> Vec<Vec<u8>>>(
    profile: Profile,
    mirror: bool,
    change: F,
) -> (Gateway<F>, LoadHandle, Arc<AtomicU64>) {
    let plan = Plan::new(profile).unwrap();
    let arena = Arena::new(ArenaConfig { slots: SLOTS, ..ArenaConfig::default() }).unwrap();
    let (clock, hand) = Clock::simulated();
    hand.store(1, Ordering::Relaxed);
    let verify = Verify { addresses: plan.profile().new_flows == 0.0, ..Verify::ALL };
    let (n3, n6, handle) = LoadPort::pair(&plan, verify, clock, mirror).unwrap();
    (Gateway::new(&plan, n3, n6, Pool::new(&arena, SLOTS as usize), change), handle, hand)
}

/// Nothing but what is named moved.
fn nothing_odd(result: &TrialResult) {
    for direction in Direction::BOTH {
        let d = result.direction(direction);
        let odd = [
            d.unsent_packets,
            d.lost_packets,
            d.duplicated_packets,
            d.reordered_packets,
            d.stale_packets,
            d.corrupt_packets,
            d.misdelivered_packets,
            d.foreign_packets,
        ];
        assert_eq!(odd, [0; 8], "{d:?}");
        assert_eq!((d.offered_packets, d.forwarded_packets), (d.sent_packets, d.sent_packets));
    }
}

#[test]
fn everything_sent_comes_back_in_the_ratio_asked_for() {
    for (up, down) in [(1.0, 1.0), (1.0, 9.0), (4.0, 6.0), (2.5, 7.5), (1.0, 0.0), (0.0, 1.0)] {
        let profile = Profile { ratio: Ratio { up, down }, ipv6_share: 0.3, ..Profile::default() };
        let (mut gateway, handle, hand) = bench(profile, false, honest);
        assert_eq!(gateway.turn(), 0, "a load stands still until it is started");
        handle.start(&Schedule::default());
        for _ in 0..1000 {
            hand.fetch_add(1000, Ordering::Relaxed);
            gateway.turn();
        }
        handle.stop();
        assert_eq!((gateway.turn(), handle.is_done()), (0, true));
        let result = handle.result();
        nothing_odd(&result);
        let [u, d] = [Direction::Uplink, Direction::Downlink].map(|d| result.direction(d).sent_packets as f64);
        assert!(u + d > 32_000.0);
        assert!((u / (u + d) - up / (up + down)).abs() < 0.005, "{u} {d}");
        assert_eq!(result.seconds, 0.001);
        assert!((result.mpps - (u + d) / 1e3).abs() < 1e-6);
        assert_eq!((gateway.pool.free(), handle.missing()), (SLOTS as usize, 0));
    }
}

#[test]
fn the_keys_are_those_of_results() {
    let profile = Profile { bearers: 2, flows_per_bearer: 4, qfis: vec![9, 1], ..Profile::default() };
    let (mut gateway, handle, hand) = bench(profile, false, honest);
    handle.start(&Schedule { packets: Some(10_000), ..Schedule::default() });
    while !handle.is_done() {
        gateway.turn();
        hand.fetch_add(10_000, Ordering::Relaxed);
    }
    let result = handle.result();
    nothing_odd(&result);
    let json = serde_json::to_value(result).unwrap();
    for direction in ["uplink", "downlink"] {
        let d = &json["directions"][direction];
        assert_eq!((d["sent_packets"].as_u64(), d["frame_bytes_mean"].as_f64()), (Some(5000), Some(128.0)));
        for key in ["offered_packets", "forwarded_packets", "lost_packets", "mpps", "gbps_l2"] {
            assert!(d[key].is_number(), "{key}");
        }
        for key in ["p50", "p99", "p999", "max"] {
            assert!(d["latency_us"][key].is_number(), "{key}");
        }
        // 114 bytes of IP in 14 + 20 + 8 + 16 bytes of Ethernet, IP, UDP and GTP-U.
        let bits = 5000.0 * 8.0 * (128.0 + 44.0);
        assert!((d["gbps_l2"].as_f64().unwrap() - bits / result.seconds / 1e9).abs() < 1e-9);
    }
    assert_eq!(json["loss_ratio"].as_f64(), Some(0.0));
    let again: TrialResult = serde_json::from_value(json).unwrap();
    assert_eq!(again, result);
}

#[test]
fn a_paced_load_offers_what_was_asked_and_counts_what_it_could_not_send() {
    let ratio = Ratio { up: 1.0, down: 4.0 };
    let (mut gateway, handle, hand) = bench(Profile { ratio, ..Profile::default() }, false, honest);
    handle.start(&Schedule { pps: Some(1e6), ..Schedule::default() });
    for _ in 0..100_000 {
        hand.fetch_add(10_000, Ordering::Relaxed);
        gateway.turn();
    }
    let result = handle.result();
    nothing_odd(&result);
    assert_eq!((result.directions.uplink.sent_packets, result.directions.downlink.sent_packets), (200_000, 800_000));

    // A gateway that does not look for 100 ms: 5 ms are made good for, 95 are not sent, and that shows.
    hand.fetch_add(100_000_000, Ordering::Relaxed);
    gateway.turns(1000);
    handle.stop();
    let result = handle.result();
    let up = result.directions.uplink;
    assert_eq!((up.offered_packets, up.sent_packets, up.unsent_packets), (220_000, 201_000, 19_000));
    assert_eq!((up.forwarded_packets, up.lost_packets), (201_000, 0));
}

#[test]
fn counting_can_begin_late() {
    let (mut gateway, handle, hand) = bench(Profile::default(), false, honest);
    handle.start(&Schedule::default());
    gateway.turns(10);
    hand.store(5_000, Ordering::Relaxed);
    handle.mark();
    assert_eq!(handle.result().directions.uplink.sent_packets, 0);
    hand.store(6_000, Ordering::Relaxed);
    gateway.turn();
    handle.stop();
    let result = handle.result();
    nothing_odd(&result);
    assert_eq!((result.directions.uplink.sent_packets, result.seconds), (64, 1e-6));
}

#[test]
fn loads_of_several_workers_are_one_trial() {
    let profile = Profile { ues: 100, ..Profile::default() };
    let arena = Arena::new(ArenaConfig { slots: SLOTS, ..ArenaConfig::default() }).unwrap();
    let (clock, hand) = Clock::simulated();
    let worker = |ues: std::ops::Range<u32>| {
        let plan = Plan::subset(profile.clone(), ues.clone(), ues.start).unwrap();
        let (n3, n6, handle) = LoadPort::pair(&plan, Verify::ALL, clock.clone(), false).unwrap();
        (Gateway::new(&plan, n3, n6, Pool::new(&arena, 128), honest), handle)
    };
    let (mut a, first) = worker(0..50);
    let (mut b, second) = worker(50..100);
    first.start(&Schedule { packets: Some(1000), ..Schedule::default() });
    second.start(&Schedule { packets: Some(3000), ..Schedule::default() });
    for _ in 0..100 {
        hand.fetch_add(1000, Ordering::Relaxed);
        a.turn();
        b.turn();
    }
    let both = LoadHandle::results(&[first.clone(), second]);
    nothing_odd(&both);
    assert_eq!((both.directions.uplink.sent_packets, both.directions.downlink.forwarded_packets), (2000, 2000));
    assert_eq!(first.result().directions.uplink.sent_packets, 500);
    assert_eq!(LoadHandle::results(&[]), TrialResult::default());
}

#[test]
fn a_mirror_measures_round_trips() {
    let (mut gateway, handle, hand) = bench(Profile { ipv6_share: 0.5, ..Profile::default() }, true, honest);
    handle.start(&Schedule { packets: Some(20_000), ..Schedule::default() });
    while handle.result().directions.downlink.forwarded_packets < 10_000 {
        hand.fetch_add(500, Ordering::Relaxed);
        assert!(gateway.turn() > 0);
    }
    handle.stop();
    let result = handle.result();
    nothing_odd(&result);
    assert_eq!((result.directions.uplink.sent_packets, result.directions.downlink.sent_packets), (10_000, 10_000));
    assert!((result.directions.downlink.frame_bytes_mean - 128.0).abs() < 1.0);
    assert_eq!(gateway.pool.free(), SLOTS as usize);
}

#[test]
fn wrong_tunnels_and_wrong_places_are_no_deliveries() {
    // GTP-U begins behind 14 + 20 + 8 bytes; its TEID 4 later, the container's QFI 14 later; the gNB's address at 30.
    for at in [42 + 7, 42 + 14] {
        let (mut gateway, handle, _) = bench(Profile::default(), false, move |direction, _, mut frame: Vec<u8>| {
            if direction == Direction::Downlink {
                frame[at] ^= 1;
            }
            vec![frame]
        });
        handle.start(&Schedule { packets: Some(200), ..Schedule::default() });
        gateway.turns(10);
        let Directions { up, down } = split(&handle.result());
        assert_eq!((up.forwarded_packets, up.misdelivered_packets), (100, 0));
        assert_eq!((down.forwarded_packets, down.misdelivered_packets, down.lost_packets), (0, 100, 100), "{at}");
    }
}

struct Directions {
    up: traffic::DirectionResult,
    down: traffic::DirectionResult,
}

fn split(result: &TrialResult) -> Directions {
    Directions { up: result.directions.uplink, down: result.directions.downlink }
}

#[test]
fn a_gateway_finds_its_neighbours() {
    let mut profile = Profile { gnbs: 2, servers: 2, ..Profile::default() };
    profile.core.answers = vec!["198.18.255.1".parse().unwrap()];
    let (mut gateway, handle, _) = bench(profile.clone(), false, honest);
    let own = [2, 0, 0, 0, 9, 9];
    let ask = |ip: IpAddr| {
        let IpAddr::V4(ip) = ip else { panic!("an IPv4 address") };
        let mut frame = [&[0xff; 6][..], &own, &[8, 6]].concat();
        frame.resize(14 + 28, 0);
        wire::arp::Repr::request(wire::Mac(own), [10, 9, 9, 9].into(), ip).emit(&mut frame[14..]).unwrap();
        frame
    };
    for (port, address, mac) in [
        (0, profile.gnb(1), Some(profile.access.own)),
        (0, profile.gnb(2), None),
        (1, profile.server_first.into(), Some(profile.core.own)),
        (1, profile.core.answers[0], Some(profile.core.own)),
        (1, profile.gnb(0), None),
    ] {
        gateway.send(port, &ask(address));
        let answers = gateway.receive(port);
        assert_eq!(answers.len(), usize::from(mac.is_some()), "{address}");
        let Some(mac) = mac else { continue };
        assert_eq!((&answers[0][..6], &answers[0][6..12], kind(&answers[0])), (&own[..], &mac.0[..], 0x0806));
        let answer = wire::arp::Repr::parse(&answers[0][14..]).unwrap();
        assert_eq!((IpAddr::from(answer.sender_ip), answer.sender_mac), (address, mac));
        assert_eq!((answer.target_ip, answer.target_mac), ([10, 9, 9, 9].into(), wire::Mac(own)));
    }
    let Directions { up, down } = split(&handle.result());
    assert_eq!((up.foreign_packets, down.foreign_packets), (1, 1));
    assert_eq!(gateway.pool.free(), SLOTS as usize);
}

#[test]
fn ports_say_whose_they_are() {
    let (gateway, _, _) = bench(Profile { uplink_sizes: Sizes::Fixed(1600), ..Profile::default() }, false, honest);
    let [n3, n6] = gateway.ports.each_ref().map(|port| port.caps());
    assert_eq!((n3.mac, n6.mac), (Profile::default().access.gateway.0, Profile::default().core.gateway.0));
    assert_eq!((n3.kind, n3.name.as_str(), n6.name.as_str(), n6.mtu), ("memory", "n3", "n6", 1500));
    assert!(n3.mtu >= 1630);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(50))]

    /// Every fault of the gateway shows, each under its name, and no frame is lost.
    #[test]
    fn faults_of_a_gateway_show(drop_every in 2u64..50, twice_every in 2u64..50, ues in 1u32..50, seed: u64) {
        let (mut lost, mut twice) = (HashSet::new(), 0u64);
        let profile = Profile { ues, seed, ..Profile::default() };
        let (dropped, doubled) = (&mut lost, &mut twice);
        let (mut gateway, handle, hand) = bench(profile, false, move |_, n, frame: Vec<u8>| {
            if n.is_multiple_of(drop_every) {
                dropped.insert(n);
                vec![]
            } else if n.is_multiple_of(twice_every) {
                *doubled += 1;
                vec![frame.clone(), frame]
            } else {
                vec![frame]
            }
        });
        handle.start(&Schedule { packets: Some(4000), ..Schedule::default() });
        while !handle.is_done() {
            hand.fetch_add(1000, Ordering::Relaxed);
            gateway.turn();
        }
        let result = handle.result();
        let Directions { up, down } = split(&result);
        prop_assert_eq!(gateway.pool.free(), SLOTS as usize);
        prop_assert_eq!(gateway.count, 4000);
        drop(gateway);
        prop_assert_eq!(up.lost_packets + down.lost_packets, lost.len() as u64);
        prop_assert_eq!(up.duplicated_packets + down.duplicated_packets, twice);
        prop_assert_eq!(up.reordered_packets + down.reordered_packets, 0);
        prop_assert_eq!(result.loss_ratio, lost.len() as f64 / 4000.0);
    }
}

#[test]
fn frames_that_wait_are_held_and_given_back() {
    let (mut gateway, _, _) = bench(Profile::default(), false, honest);
    let mut frame = [&[0xff; 6][..], &[2, 0, 0, 0, 9, 9], &[8, 6]].concat();
    frame.resize(42, 0);
    let gnb = std::net::Ipv4Addr::new(172, 20, 0, 1);
    wire::arp::Repr::request(wire::Mac([2, 0, 0, 0, 9, 9]), [1, 1, 1, 1].into(), gnb).emit(&mut frame[14..]).unwrap();
    gateway.send(0, &frame);
    assert_eq!((gateway.ports[0].held(), gateway.pool.free()), (1, SLOTS as usize - 1));
    let Gateway { ports, pool, .. } = &mut gateway;
    ports[0].close(pool);
    assert_eq!((ports[0].held(), pool.free()), (0, SLOTS as usize));
    assert_eq!(ports[0].counters().tx_packets, 1);
}
