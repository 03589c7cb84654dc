//! Service flows and channels: rates, priorities, balance, and what control changes while traffic flows.

use cmts::config::{Config, FlowEntry};
use cmts::control::Refusal;
use crypto::Key;
use engine::Gateway;
use traffic::cable::Cuts;
use wire::Mac;

use crate::plant::{World, config};

/// The configuration with other service flows.
fn with_flows(text: &str, flows: &str) -> String {
    let from = text.find("[[profile.flow]]").expect("flows");
    let to = text[from..].find("[[neighbour]]").expect("a service group") + from;
    format!("{}{flows}\n{}", &text[..from], &text[to..])
}

/// Sends more than may pass for `seconds`, in steps of `step` nanoseconds, and tells what each service flow got, in bit/s
/// from behind the HCS through the CRC.
fn rates(world: &mut World, seconds: f64, step: u64, packets: usize) -> Vec<f64> {
    // The bursts at the beginning are no part of the rate.
    for _ in 0..(50_000_000 / step) {
        world.down(packets);
        world.step(step);
    }
    let bytes = |world: &World| world.device.flows().iter().map(|flow| flow.bytes).collect::<Vec<_>>();
    let before = bytes(world);
    let steps = (seconds * 1e9) as u64 / step;
    for _ in 0..steps {
        world.down(packets);
        world.step(step);
    }
    let passed = (steps * step) as f64 / 1e9;
    bytes(world).iter().zip(before).map(|(after, before)| (after - before) as f64 * 8.0 / passed).collect()
}

#[test]
fn rates_are_exact_to_a_hundredth() {
    let flows: String = [("f0", "20 Mbit/s"), ("f1", "3 Mbit/s"), ("f2", "1 Mbit/s"), ("f3", "2 Mbit/s")]
        .map(|(name, rate)| format!("[[profile.flow]]\nname = \"{name}\"\nrate = \"{rate}\"\nbuffer = 65536\n"))
        .concat();
    // Nanoseconds between looks; late ones must not cost rate.
    for step in [100_000, 700_000] {
        let mut world = World::new(&with_flows(&config(1, 4, false, ""), &flows), Cuts::Few);
        let packets = (step / 20_000) as usize;
        for (n, rate) in rates(&mut world, 1.0, step, packets).into_iter().enumerate() {
            let expected = [20e6, 3e6, 1e6, 2e6][n % 4];
            assert!(
                (rate / expected - 1.0).abs() < 0.01,
                "service flow {n}: {rate} of {expected}, looked at every {step}"
            );
        }
        assert_eq!(world.device.heard().reordered, 0);
        world.rig.close().expect("nothing lost");
    }
}

/// The cipher's lanes wait for frames of other modems, DEPI packets for more frames; neither for long.
#[test]
fn a_lone_frame_waits_neither_for_the_cipher_nor_for_others_for_long() {
    let mut world = World::new(&config(1, 3, true, ""), Cuts::Few);
    // Twenty microseconds until the lanes are emptied, fifty for a packet to be filled, and a look at the clock each.
    let most = 20 + 50 + 2 * 5;
    for n in 1..=60u64 {
        world.down(n as usize % 3 + 1);
        let sent = world.hosts.sent().0;
        let mut waited = 0;
        while world.device.heard().frames < sent {
            assert!(waited < most, "{waited} µs: {:?}", world.device.heard());
            world.step(5_000);
            waited += 5;
        }
        world.step(1_000_000);
    }
    assert_eq!(world.rig.workers().map(|worker| worker.gateway().held()).sum::<usize>(), 0);
}

#[test]
fn what_is_reserved_goes_first_and_then_priority() {
    // A channel group of 6 Mbit/s in all: less than what is asked for.
    let flows = "[[profile.flow]]\nname = \"f0\"\npriority = 1\ngroup = \"a\"\nbuffer = 30000\nreserved = \"1 Mbit/s\"\n\
                 [[profile.flow]]\nname = \"f1\"\npriority = 5\ngroup = \"a\"\nbuffer = 30000\n\
                 [[profile.flow]]\nname = \"f2\"\npriority = 0\ngroup = \"a\"\nbuffer = 30000\n\
                 [[profile.flow]]\nname = \"f3\"\npriority = 0\ngroup = \"a\"\nbuffer = 30000\n";
    let text = with_flows(&config(1, 1, false, ""), flows).replace("1.89 Gbit/s", "2 Mbit/s");
    let mut world = World::new(&text, Cuts::Few);
    let got = rates(&mut world, 1.0, 500_000, 20);
    // Ninety packets in a hundred are for the primary flow: 0.5 Mbit/s reach each of the others, if they may.
    assert!(got[1] > 5.8e6 * 0.1, "high priority has all it wants: {got:?}");
    assert!(got[0] > 0.95e6, "and what is reserved is kept: {got:?}");
    assert!(got.iter().sum::<f64>() < 6.05e6, "no channel is faster than it is: {got:?}");
    world.rig.close().expect("nothing lost");
}

#[test]
fn channels_of_a_bonding_group_are_loaded_alike() {
    let mut world = World::new(&config(1, 12, false, ""), Cuts::Few);
    for _ in 0..3000 {
        world.down(8);
        world.step(20_000);
    }
    world.rest();
    let bytes: Vec<u64> = world.device.channels().iter().map(|(_, bytes)| *bytes).collect();
    for group in bytes.chunks(3) {
        let mean = group.iter().sum::<u64>() as f64 / 3.0;
        for channel in group {
            assert!((*channel as f64 / mean - 1.0).abs() < 0.02, "{bytes:?}");
        }
    }
    assert_eq!(world.device.resequenced().0, 0);
    world.rig.close().expect("nothing lost");
}

fn mac(text: &str) -> Mac {
    text.parse().expect("an address")
}

#[test]
fn keys_roll_over_while_traffic_flows() {
    let mut world = World::new(&config(1, 6, true, ""), Cuts::Few);
    let modem = mac("02:cb:00:00:00:03");
    let (odd, even) = (Key::aes128([7; 16], [8; 16]), Key::aes128([9; 16], [10; 16]));
    let run = |world: &mut World| {
        for _ in 0..100 {
            world.down(12);
            world.up(3);
            world.step(50_000);
        }
    };
    run(&mut world);
    assert_eq!(world.control.use_key(modem, 1), Err(Refusal(format!("modem {modem} has no key 1"))));
    // The device knows the next key first; then we send by it.
    let said = 257 + 2;
    world.device.rekey(0, said, true, Some(&odd));
    world.control.set_key(modem, 1, &odd).expect("the other half is free");
    run(&mut world);
    world.control.use_key(modem, 1).expect("there is one");
    world.modems.rekey(2, Some((&odd, 1)));
    run(&mut world);
    assert!(world.control.set_key(modem, 3, &even).is_err(), "key 1 is in use");
    world.device.rekey(0, said, false, Some(&even));
    world.control.set_key(modem, 2, &even).expect("the old one is over");
    run(&mut world);
    world.control.use_key(modem, 2).expect("there is one");
    run(&mut world);
    world.rest();
    let heard = world.device.heard();
    assert_eq!((heard.bad_crc, heard.no_key, heard.in_order), (0, 0, world.hosts.sent().0), "{heard:?}");
    assert_eq!((world.drops(), world.control.refused()), (vec![], 0));
    world.rig.close().expect("nothing lost");
}

#[test]
fn modems_come_and_go_and_flows_change_while_traffic_flows() {
    let mut world = World::new(&config(1, 4, false, ""), Cuts::Few);
    let text = config(1, 4, false, "");
    let parsed: Config = toml::from_str(&text).expect("a configuration");
    let mut entry = parsed.service_group[0].modem[0].clone();
    assert_eq!(
        world.control.add_modems("sg0", &entry),
        Err(Refusal("there is a modem 02:cb:00:00:00:01 already".into()))
    );
    entry.mac = "02:cb:00:00:99:01".into();
    let taken = world.control.add_modems("sg0", &entry).expect_err("the addresses are another's");
    assert!(taken.0.contains("10.0.0.1 is modem 02:cb:00:00:00:01's"), "{taken}");
    world.control.remove_modem(mac("02:cb:00:00:00:02")).expect("it is there");
    let flow =
        |name: &str, rate: &str| FlowEntry { name: name.into(), rate: Some(rate.into()), ..FlowEntry::default() };
    world.control.change_flow(mac("02:cb:00:00:00:01"), &flow("f0", "5 Mbit/s")).expect("it is there");
    assert!(world.control.change_flow(mac("02:cb:00:00:00:01"), &flow("nine", "5 Mbit/s")).is_err());
    assert!(world.control.change_flow(mac("02:cb:00:00:00:01"), &flow("f0", "fast")).is_err());
    for _ in 0..400 {
        world.down(8);
        world.step(100_000);
    }
    let got = world.device.flows().iter().map(|flow| flow.bytes as f64 * 8.0 / 0.04).collect::<Vec<_>>();
    assert_eq!((got[4], got[5]), (0.0, 0.0), "modem 2 is gone");
    assert!((4.8e6..5.6e6).contains(&got[0]), "as changed, and its burst: {}", got[0]);
    assert!(
        world
            .drops()
            .iter()
            .any(|(stage, why, _)| stage == "downstream.cm_lookup" && why.name() == "unknown_subscriber")
    );
    let mut back = entry.clone();
    (back.count, back.mac, back.ipv4, back.sid) = (1, "02:cb:00:00:00:02".into(), Some([10, 0, 0, 5].into()), 2);
    back.host_mac = Some("02:ca:00:00:00:05".into());
    world.control.add_modems("sg0", &back).expect("it may come back");
    let before = world.device.flows()[4].packets;
    for _ in 0..50 {
        world.down(8);
        world.step(100_000);
    }
    // A receiver may wait 18 ms before it trusts the beginning of a new sequence.
    world.rest();
    assert!(world.device.flows()[4].packets > before);
    assert_eq!(world.control.refused(), 0);
    world.rig.close().expect("nothing lost");
}

#[test]
fn directions_may_have_workers_of_their_own() {
    let text = config(2, 6, true, "")
        .replace("[frames]", "[workers]\ncount = 3\n[frames]")
        .replace("packet_buffers = 16384", "packet_buffers = 24576")
        .replace("name = \"sg0\"", "name = \"sg0\"\ndown_worker = 0\nup_worker = 1")
        .replace("name = \"sg1\"", "name = \"sg1\"\ndown_worker = 2\nup_worker = 0");
    let mut world = World::new(&text, Cuts::Anywhere(3));
    for _ in 0..300 {
        // Everything comes in by the first worker's queues.
        world.down(10);
        world.up(6);
        world.step(50_000);
    }
    let now = world.now();
    for _ in 0..world.modems.finish(now) {
        let packet = world.modems.next(now).expect("as many as are ready");
        world.rig.wire("cin").send(packet);
        world.step(20_000);
    }
    world.rest();
    let (heard, hosts) = (world.device.heard(), world.hosts.heard());
    assert_eq!(world.drops(), []);
    assert_eq!((heard.in_order, hosts.in_order), (world.hosts.sent().0, world.modems.said().packets));
    assert!(world.io(engine::Io::HandedOut) > 1000);
    world.rig.close().expect("nothing lost");
}
