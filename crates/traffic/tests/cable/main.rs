//! The far sides of a CMTS against each other: a framer stands for the gateway.

mod framer;
mod judge;
#[path = "../../../../fuzz/src/traffic_cable.rs"]
mod traffic_cable;
mod upstream;

use crypto::Key;
use framer::{MODEMS, NOW, depi, plant};
use proptest::prelude::*;
use traffic::cable::{CLASSES, Downstream, Excess, Heard, Hosts, Mix, Plant, Workload};
use wire::Mac;
use wire::l2tp::{Carrier, Cookie};

fn hear(plant: &Plant, soft: bool, packets: &[Vec<u8>]) -> Downstream {
    let mut device = Downstream::new(plant, soft);
    for (n, packet) in packets.iter().enumerate() {
        device.take(packet, NOW);
        if n % 20 == 0 {
            device.settle(NOW);
        }
    }
    device.idle(NOW);
    // Nothing more will come: what gathered goes, what lacks is lost.
    device.idle(NOW + 20_000_000);
    // A frame whose last piece is lost waits for the next one of its session.
    assert!(device.held() <= 12);
    device
}

/// tshark and a second reader agree with what the framer writes: so the framer is no worse a gateway than that.
#[test]
fn judges_agree_with_every_frame() {
    let plant = plant(Carrier::Ip, [Cookie::None; 2]);
    let found = judge::judged("depi", &plant, &depi(&plant, 700));
    assert_eq!((&found["frames"], &found["encrypted"]), (&700.into(), &600.into()));
    assert!(found["whole"].as_u64() > Some(200) && found["split"].as_u64() > Some(200), "{found}");
}

/// Modems that are to get more than they may are sent it by the clock, however much the others get; never more than
/// every second packet, and alone if nothing else is to be sent.
#[test]
fn excess_is_paced_by_the_clock() {
    let plant = plant(Carrier::Ip, [Cookie::None; 2]);
    let mut hosts = Hosts::new(&plant, Workload::new(&Mix::downstream(), MODEMS, true));
    hosts.exceed(Excess { modems: vec![3, 8], rate: 40e6 });
    let mut space = [0; 2000];
    let ms = |ms: u64| NOW + ms * 1_000_000;
    let mut sent = |hosts: &mut Hosts, from_ms: u64, to_ms: u64, each: usize| {
        let before = hosts.sent_excess().1;
        for at in from_ms * 10..to_ms * 10 {
            (0..each).for_each(|_| {
                hosts.make(&mut space, NOW + at * 100_000);
            });
        }
        (hosts.sent_excess().1 - before) as f64 * 8.0 / ((to_ms - from_ms) as f64 / 1e3)
    };
    // Two modems of 40 Mbit/s, among a thousand packets a millisecond and among fifty.
    for (from, to, each) in [(0, 300, 100), (300, 600, 5)] {
        let rate = sent(&mut hosts, from, to, each);
        assert!((rate / 80e6 - 1.0).abs() < 0.02, "{rate} bit/s");
    }
    let rate = sent(&mut hosts, 600, 900, 1);
    assert!(rate < 80e6 / 1.5, "every second packet: {rate} bit/s");
    hosts.send_only_excess(true);
    let packets = hosts.sent().0;
    let rate = sent(&mut hosts, 900, 1200, 20);
    let alone = hosts.sent().0 - packets;
    assert!((rate / 80e6 - 1.0).abs() < 0.05 && alone < 300 * 20, "{rate} bit/s in {alone} packets");
    assert_eq!(hosts.make(&mut [0; 2000], ms(1199)), 0, "nothing is due");
}

/// Deliveries to modems that are sent more than they may are counted apart.
#[test]
fn excess_is_counted_apart() {
    let plant = plant(Carrier::Ip, [Cookie::None; 2]);
    let mut device = Downstream::new(&plant, false);
    device.exceed(&[0, 1, 2]);
    for packet in depi(&plant, 1000) {
        device.take(&packet, NOW);
    }
    device.idle(NOW);
    device.idle(NOW + 20_000_000);
    let of_three: u64 = device.flows()[..3 * CLASSES as usize].iter().map(|flow| flow.packets).sum();
    assert_eq!((device.heard().excess, device.heard().in_order), (of_three, 1000));
    assert!(of_three > 10);
}

#[test]
fn what_is_framed_rightly_is_heard_rightly() {
    for (carrier, cookies) in [(Carrier::Ip, [Cookie::None; 2]), (Carrier::Udp, [Cookie::Short(7), Cookie::Long(9)])] {
        let plant = plant(carrier, cookies);
        let packets = depi(&plant, 3000);
        for soft in [true, false] {
            let device = hear(&plant, soft, &packets);
            let heard = device.heard();
            let expected = Heard {
                packets: packets.len() as u64,
                segments: heard.segments,
                segments_by_count: heard.segments_by_count,
                split: heard.split,
                frames: 3000,
                in_order: 3000,
                bytes: 15 * 20 * 84 + 10 * 30 * 256 + 75 * 30 * 1280 + 150 * 84,
                ..Heard::default()
            };
            assert_eq!((heard, device.held()), (expected, 0));
            assert!(heard.split > 1000 && heard.segments == 3000 + heard.split, "{heard:?}");
            assert_eq!((device.resequenced().0, device.latencies().count()), (0, 3000));
            assert_eq!(device.flows().iter().map(|flow| flow.packets).sum::<u64>(), 3000);
            assert_eq!(device.flows().iter().map(|flow| flow.bytes).sum::<u64>(), heard.bytes + 3000 * 4);
            // Latency by service flow: together those of all, the slowest among them.
            let latencies = device.flows().iter().map(|flow| (flow.longest_ns, flow.latency_ns));
            assert!(latencies.clone().all(|(longest, sum)| longest <= sum));
            assert_eq!(latencies.map(|(longest, _)| longest).max(), Some(device.latencies().max()));
            assert!(device.flows().iter().all(|flow| (flow.lost, flow.out_of_order) == (0, 0)));
        }
    }
}

#[test]
fn what_is_lost_is_missed_by_its_service_flow() {
    let plant = plant(Carrier::Ip, [Cookie::None; 2]);
    let mut packets = depi(&plant, 3000);
    let whole = hear(&plant, false, &packets);
    for n in [700, 400, 100] {
        packets.remove(n);
    }
    let torn = hear(&plant, false, &packets);
    assert_eq!(torn.heard().packets_lost, 3);
    let missing = whole.flows().iter().zip(torn.flows()).map(|(all, some)| all.packets - some.packets);
    let missing: Vec<u64> = missing.collect();
    assert!(missing.iter().sum::<u64>() >= 3);
    assert_eq!(torn.flows().iter().map(|flow| flow.lost).collect::<Vec<_>>(), missing);
}

/// More than the device can hold comes at once, while every DSID's first frames still gather.
#[test]
fn a_device_that_is_full_waits_for_nobody() {
    let plant = plant(Carrier::Ip, [Cookie::None; 2]);
    let packets = depi(&plant, 20_000);
    let device = hear(&plant, false, &packets);
    let heard = device.heard();
    assert_eq!(heard.in_order, 20_000, "{heard:?}");
    assert_eq!((heard.wrong().map(|(_, frames)| frames).sum::<u64>(), device.resequenced().0), (0, 0));
}

#[test]
fn faults_are_named() {
    let plant = plant(Carrier::Ip, [Cookie::None; 2]);
    let packets = depi(&plant, 1000);
    let heard = |change: &dyn Fn(&mut Vec<Vec<u8>>)| {
        let mut packets = packets.clone();
        change(&mut packets);
        let device = hear(&plant, true, &packets);
        (device.heard(), device.resequenced().0)
    };
    let at = 34 + 4 + 4;
    // A packet is lost: its frames, and those that were in part in it.
    let (lost, missing) = heard(&|packets| drop(packets.remove(100)));
    assert_eq!(lost.packets_lost, 1);
    assert_eq!(lost.in_order + missing, 1000);
    assert!(lost.pieces > 0 && missing >= 1 && lost.reordered == 0, "{lost:?}");
    // Two packets of a session change places: the first of them is late.
    let (swapped, _) = heard(&|packets| {
        let session = |packet: &Vec<u8>| packet[34..38].to_vec();
        let later = (101..).find(|n| session(&packets[*n]) == session(&packets[100])).expect("another");
        packets.swap(100, later);
    });
    assert_eq!((swapped.packets_late, swapped.packets_lost), (1, 1));
    // A table that promises more than there is; a session nobody knows; a wrong address.
    let (broken, _) = heard(&|packets| {
        packets[0][at] = 0xff;
        packets[1][34] = 9;
        packets[2][3] ^= 1;
        packets[3].truncate(36);
    });
    assert_eq!((broken.malformed, broken.foreign), (1, 3));
    // One bit of a frame's header, one of its body.
    let whole = (0..packets.len()).find(|n| packets[*n][39] == 1 && packets[*n][at] & 0xc0 == 0xc0);
    let n = whole.unwrap_or(0);
    let body = at + 2 * usize::from(packets[n][39]) + 2;
    let (flipped, _) = heard(&|packets| packets[n][body + 400] ^= 4);
    assert_eq!(flipped.bad_crc + flipped.bad_header, 1, "{flipped:?}");
}

#[test]
fn keys_that_do_not_match_are_noticed() {
    let plant = plant(Carrier::Ip, [Cookie::None; 2]);
    let packets = depi(&plant, 1400);
    let mut other = plant.clone();
    other.groups[0].modems[0].keys[1] = Some(Key::aes128([0xee; 16], [1; 16]));
    other.groups[0].modems[1].keys[0] = None;
    other.groups[0].modems[2].said = 0x3ff;
    other.groups[0].modems[4].hosts.iter_mut().for_each(|host| host.1 = Mac([2, 9, 9, 9, 9, 9]));
    other.groups[0].modems[3].keys = [Some(Key::aes128([1; 16], [1; 16])); 2];
    let heard = hear(&other, true, &packets).heard();
    assert!(heard.bad_crc > 20 && heard.no_key > 20, "{heard:?}");
    assert_eq!((heard.strangers, heard.misdelivered, heard.clear), (100, 100, 100));
}

#[test]
fn every_regression_stays_fixed() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/regressions/traffic_cable");
    for file in std::fs::read_dir(folder).into_iter().flatten().map(|entry| entry.expect("a readable folder").path()) {
        println!("{}", file.display());
        traffic_cable::traffic_cable(&std::fs::read(&file).expect("a readable file"));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// Whatever is on the wire: it is counted, and no frame is kept for good.
    #[test]
    fn garbage_is_survived(
        changes in prop::collection::vec((0usize..200, 0usize..1500, any::<u8>()), 1..60),
        cut in prop::collection::vec((0usize..200, 0usize..1500), 0..10),
    ) {
        let plant = plant(Carrier::Ip, [Cookie::None; 2]);
        let mut packets = depi(&plant, 200);
        for (n, at, value) in changes {
            let n = n % packets.len();
            if let Some(byte) = packets[n].get_mut(at) {
                *byte = value;
            }
        }
        for (n, len) in cut {
            let n = n % packets.len();
            packets[n].truncate(len);
        }
        let device = hear(&plant, true, &packets);
        prop_assert!(device.heard().in_order <= 200);
    }

    /// What fuzzing does, in an ordinary run.
    #[test]
    fn no_script_breaks_a_promise(script in prop::collection::vec(any::<u8>(), 0..240)) {
        traffic_cable::traffic_cable(&script);
    }
}
