//! A second gateway goes on for a first, before one device and one network that see only packets.

use cmts::assemble::succeed;
use cmts::config::{Config, FlowEntry, RuleEntry};
use cmts::standby::{ExportedState, HaState, Sequences, WorkerExport};
use crypto::Key;
use traffic::cable::Cuts;
use wire::Mac;

use crate::plant::{PORTS, World, config, rig};

fn mac(text: &str) -> Mac {
    text.parse().expect("an address")
}

/// So many milliseconds of traffic.
fn run(world: &mut World, ms: usize) {
    for _ in 0..ms * 20 {
        world.down(4);
        world.up(2);
        world.step(50_000);
    }
}

/// Traffic through a gateway whose modems are no more those of its configuration: a key has rolled over, a service flow
/// and a classifier were added, a modem has gone, and in one service flow packets wait.
fn changed(text: &str) -> World {
    let mut world = World::new(text, Cuts::Anywhere(5));
    run(&mut world, 40);
    let (first, second, odd) = (mac("02:cb:00:00:00:01"), mac("02:cb:00:00:00:02"), Key::aes128([7; 16], [8; 16]));
    let flow = |name: &str| FlowEntry { name: name.into(), buffer: 1 << 20, ..FlowEntry::default() };
    let control = &mut world.control;
    world.device.rekey(0, 257, true, Some(&odd));
    control.set_key(first, 1, &odd).expect("the other half is free");
    control.use_key(first, 1).expect("there is one");
    control.change_flow(second, &FlowEntry { rate: Some("1 Mbit/s".into()), ..flow("f0") }).expect("it is there");
    control.add_flow(second, &flow("game")).expect("there is room");
    let rule = RuleEntry { priority: 1, flow: Some("game".into()), protocol: None, ..RuleEntry::default() };
    let rule = RuleEntry { destination: Some("10.99.0.0/16".into()), ..rule };
    control.add_classifier(second, None, &rule).expect("in order");
    control.remove_modem(mac("02:cb:00:00:00:05")).expect("it is there");
    world.modems.rekey(0, Some((&odd, 1)));
    run(&mut world, 10);
    world
}

/// A gateway of the same configuration goes on, told what would be told over a socket.
fn go_on(world: &mut World, text: &str, book: &ExportedState, exports: Vec<WorkerExport>, silent_ns: Option<u64>) {
    let book = serde_json::from_str(&serde_json::to_string(book).expect("JSON")).expect("the same again");
    let config: Config = toml::from_str(text).expect("a configuration");
    let caps: Vec<_> = PORTS.iter().map(|mac| frame::Caps { mac: mac.0, mtu: 1500, ..Default::default() }).collect();
    let ha_state = HaState { book, exports, silent_ns };
    let (control, seats) = succeed(&config, &caps, ha_state).expect("of the same configuration");
    let clock = world.rig.clock().clone();
    (world.control, world.rig) = (control, rig(&config, seats, &clock));
    world.step(0);
}

#[test]
fn what_is_handed_over_goes_on_as_if_nothing_had_been() {
    let text = config(2, 5, true, "")
        .replace("[frames]", "[workers]\ncount = 2\n[frames]")
        .replace("name = \"sg1\"", "name = \"sg1\"\ndown_worker = 1");
    let mut world = changed(&text);
    let edition = world.control.edition();
    let (book, hosts) = (world.control.book(), world.hosts.sent().0);
    world.rig.each_gateway(|gateway| gateway.seal());
    (0..4).for_each(|_| world.step(50_000));
    assert!(world.rig.workers().all(|worker| worker.gateway().is_settled()));
    let drops = world.drops();
    let spare = World::new(&config(1, 1, false, ""), Cuts::Few).rig;
    let mut gateways = std::mem::replace(&mut world.rig, spare).end().expect("what is handed over is counted");
    let exports: Vec<WorkerExport> = gateways.iter_mut().map(cmts::gateway::CableGateway::export).collect();
    let waiting: usize = exports.iter().map(|export| export.waiting.len()).sum();
    assert!(waiting > 20, "{waiting} frames wait");
    let under_way = exports.iter().flat_map(|export| &export.under_way).filter(|it| it.bytes().is_some()).count();
    assert!(under_way > 2, "{under_way} bursts, frames and segments are under way upstream");
    go_on(&mut world, &text, &book, exports, None);
    assert_eq!(world.control.book(), book, "nothing is forgotten");
    assert!(edition > 4 && world.control.modems() == 9);
    assert_eq!(world.io(engine::Io::HandedIn), (waiting + under_way) as u64 + world.io(engine::Io::HandedOut));
    let entry = FlowEntry { name: "f0".into(), ..FlowEntry::default() };
    world.control.change_flow(mac("02:cb:00:00:00:02"), &entry).expect("it is there");
    run(&mut world, 20);
    world.rest();
    let (heard, sent) = (world.device.heard(), world.hosts.sent().0);
    let unknown: u64 =
        drops.iter().chain(&world.drops()).filter(|d| d.1.name() == "unknown_subscriber").map(|d| d.2).sum();
    assert!(sent > hosts && unknown > 0, "to the modem that has gone");
    assert_eq!((heard.packets_lost, heard.packets_late, heard.late, heard.reordered), (0, 0, 0, 0), "{heard:?}");
    assert_eq!((heard.bad_crc, heard.no_key, heard.in_order), (0, 0, sent - unknown), "{heard:?}");
    assert_eq!(world.device.resequenced().0, 0, "no number was left out");
    // Upstream, whatever was cut in two is whole again: as much arrives as where nobody hands over.
    let mut other = changed(&text);
    (0..4).for_each(|_| other.step(50_000));
    other.control.change_flow(mac("02:cb:00:00:00:02"), &entry).expect("it is there");
    run(&mut other, 20);
    other.rest();
    let came = |world: &World| {
        let heard = world.hosts.heard();
        (heard.in_order, heard.reordered, heard.duplicated, heard.misdelivered, heard.bytes)
    };
    assert_eq!((came(&world), world.modems.said()), (came(&other), other.modems.said()));
    assert!(came(&world).0 > 1000 && came(&world).1 == 0, "{:?}", came(&world));
    world.rig.close().expect("nothing lost");
    other.rig.close().expect("nothing lost");
}

#[test]
fn what_died_goes_on_and_no_number_is_used_twice() {
    let text = config(1, 5, true, "");
    let mut world = changed(&text);
    let book = world.control.book();
    world.control.ask_sequences();
    world.step(0);
    world.step(0);
    let told: Vec<Sequences> = world.control.sequences().expect("it answered").into_iter().cloned().collect();
    // It goes on for 20 ms after it was last heard of.
    run(&mut world, 20);
    (0..4).for_each(|_| world.step(50_000));
    let waiting = world.rig.gateway().state().scheduler.waiting() as u64;
    assert!(waiting > 20, "{waiting} frames wait, and are lost");
    let strangers = |drops: &[(String, engine::Reason<engine::Drop>, u64)]| -> u64 {
        drops.iter().filter(|drop| drop.1.name() == "unknown_subscriber").map(|drop| drop.2).sum()
    };
    let (sent, unknown) = (world.hosts.sent().0, strangers(&world.drops()));
    let exports = told.into_iter().map(|sequences| WorkerExport { sequences, ..WorkerExport::default() }).collect();
    go_on(&mut world, &text, &book, exports, Some(20_200_000));
    let entry = FlowEntry { name: "f0".into(), ..FlowEntry::default() };
    world.control.change_flow(mac("02:cb:00:00:00:02"), &entry).expect("it is there");
    run(&mut world, 40);
    world.rest();
    let (heard, unknown_since) = (world.device.heard(), strangers(&world.drops()));
    assert_eq!((heard.packets_late, heard.late, heard.reordered, heard.duplicated), (0, 0, 0, 0), "{heard:?}");
    assert_eq!((heard.bad_crc, heard.no_key, heard.strangers), (0, 0, 0), "{heard:?}");
    assert!((1..=6 * 0x4000).contains(&heard.packets_lost), "numbers were left out: {heard:?}");
    let since = world.hosts.sent().0 - sent - unknown_since;
    assert_eq!(heard.in_order, sent - unknown - waiting + since, "what waited is lost, and nothing else: {heard:?}");
    assert!(world.hosts.heard().in_order > 0);
    world.rig.close().expect("nothing lost");
}

#[test]
fn the_book_of_another_configuration_is_refused() {
    let world = World::new(&config(2, 3, true, ""), Cuts::Few);
    let other: Config = toml::from_str(&config(1, 3, true, "")).expect("a configuration");
    let caps: Vec<_> = PORTS.iter().map(|mac| frame::Caps { mac: mac.0, mtu: 1500, ..Default::default() }).collect();
    let said = succeed(&other, &caps, HaState { book: world.control.book(), ..HaState::default() })
        .err()
        .expect("a group too many");
    assert!(said.to_string().contains("another configuration"), "{said}");
}
