//! What control changes while traffic flows: service flows, classifiers, modems of several workers.

use cmts::config::{FlowEntry, Ports, Protocol, RuleEntry};
use cmts::flow::FlowLabel;
use dataplane::hqos::Flow;
use traffic::cable::{Cuts, Workload};
use wire::Mac;

use crate::plant::{World, config};

fn mac(text: &str) -> Mac {
    text.parse().expect("an address")
}

/// Two milliseconds of traffic, with so many packets upstream for four downstream.
fn run(world: &mut World, up: usize) {
    for _ in 0..40 {
        world.down(4);
        world.up(up);
        world.step(50_000);
    }
}

/// Modems wait 18 ms before they trust the beginning of a new sequence; order is kept within a service flow, not between.
fn pause(world: &mut World) {
    (0..20).for_each(|_| world.step(1_000_000));
    let now = world.now();
    world.device.idle(now);
}

/// Packets that came to a service flow.
fn arrived(flow: &Flow<FlowLabel>) -> u64 {
    flow.counts.came(flow.packets)
}

/// The service flow of that number, on that worker.
fn flow(world: &World, worker: usize, id: usize) -> &Flow<FlowLabel> {
    let worker = world.rig.workers().nth(worker).expect("there is one");
    &worker.gateway().state().scheduler.flows()[id]
}

#[test]
fn flows_and_classifiers_come_and_go_and_nothing_that_waits_is_lost() {
    let mut world = World::new(&config(1, 4, true, ""), Cuts::Few);
    let modem = mac("02:cb:00:00:00:01");
    let entry = |name: &str| FlowEntry { name: name.into(), buffer: 8 << 20, ..FlowEntry::default() };
    run(&mut world, 2);
    let slow = FlowEntry { rate: Some("1 Mbit/s".into()), ..entry("f0") };
    world.control.change_flow(modem, &slow).expect("it is there");
    run(&mut world, 2);
    let waiting = flow(&world, 0, 0).packets;
    assert!(waiting > 10, "{waiting} packets wait in the primary flow");
    // All of one class by a flow of its own, and back.
    let game = FlowEntry { priority: 7, group: Some("b".into()), ..entry("game") };
    let mut dsids = Vec::new();
    for _ in 0..2 {
        pause(&mut world);
        world.control.add_flow(modem, &game).expect("there is room");
        let ports = (0..16).filter(|rule| Workload::classifier_class(*rule) == 1).map(Workload::classifier_port);
        for (n, port) in (17..).zip(ports) {
            let rule = RuleEntry {
                priority: 200,
                flow: Some("game".into()),
                protocol: Some(Protocol::Name("udp".into())),
                destination_ports: Some(Ports::One(port)),
                ..RuleEntry::default()
            };
            assert_eq!(world.control.add_classifier(modem, None, &rule).expect("in order"), n);
        }
        let (before, usual) = (flow(&world, 0, 0).packets, arrived(flow(&world, 0, 1)));
        world.step(0);
        assert_eq!(flow(&world, 0, 0).packets, before, "what waits is not touched");
        (0..8).for_each(|_| run(&mut world, 2));
        let came = flow(&world, 0, 4).counts;
        assert!(came.packets > 0 && came.packets == came.came(flow(&world, 0, 4).packets), "{came:?}");
        assert_eq!(arrived(flow(&world, 0, 1)), usual, "none by its usual one");
        pause(&mut world);
        dsids.push(flow(&world, 0, 4).label.dsid);
        assert!(world.control.remove_flow(modem, "game").expect("it is there") > 3, "its classifiers go with it");
        assert_eq!(world.control.classifiers(modem).expect("a modem").len(), 16);
        world.step(0);
        assert!(!flow(&world, 0, 4).in_use);
        (0..8).for_each(|_| run(&mut world, 2));
        assert!(arrived(flow(&world, 0, 1)) > usual);
    }
    assert_ne!(dsids[0], dsids[1], "nobody takes the new flow's packets for the old one's");
    world.control.change_flow(modem, &entry("f0")).expect("it is there");
    world.rest();
    let heard = world.device.heard();
    assert_eq!(world.drops(), []);
    assert_eq!((heard.in_order, heard.reordered), (world.hosts.sent().0, 0), "{heard:?}");
    assert_eq!(world.control.refused(), 0);
    world.rig.close().expect("nothing lost");
}

#[test]
fn a_modem_has_as_many_flows_as_there_is_room_for() {
    let mut world = World::new(&config(1, 2, false, ""), Cuts::Few);
    let modem = mac("02:cb:00:00:00:02");
    let entry = |n: usize| FlowEntry { name: format!("more{n}"), ..FlowEntry::default() };
    (4..16).for_each(|n| world.control.add_flow(modem, &entry(n)).expect("there is room"));
    let refused = world.control.add_flow(modem, &entry(16)).expect_err("sixteen are all");
    assert!(refused.0.contains("has 16 service flows"), "{refused}");
    world.control.remove_flow(modem, "more9").expect("it is there");
    world.control.add_flow(modem, &entry(16)).expect("there is room again");
    // A modem's filter groups are its own too.
    assert!(world.control.set_filters(modem, Some(&["none".into()]), None).is_err());
    world.control.set_filters(modem, Some(&[]), None).expect("none is right");
    run(&mut world, 2);
    world.rest();
    assert_eq!((world.drops(), world.control.refused()), (vec![], 0));
    world.rig.close().expect("nothing lost");
}

#[test]
fn a_modem_that_is_added_is_known_to_all_workers() {
    let text = config(2, 3, false, "")
        .replace("[frames]", "[workers]\ncount = 2\n[frames]")
        .replace("name = \"sg1\"", "name = \"sg1\"\ndown_worker = 1");
    let mut world = World::new(&text, Cuts::Few);
    run(&mut world, 0);
    let handed = |world: &World| world.io(engine::Io::HandedOut);
    let before = handed(&world);
    assert!(before > 0, "those of the second service group are the second worker's");
    // One moves from the first worker's service group to the second's; packets to it still come in by the first.
    let mut moved = cmts::config::ModemEntry {
        mac: "02:cb:00:00:00:02".into(),
        ipv4: Some([10, 0, 0, 5].into()),
        host_mac: Some("02:ca:00:00:00:05".into()),
        ..world.control.config().service_group[0].modem[0].clone()
    };
    (moved.count, moved.sid) = (1, 99);
    world.rest();
    world.control.remove_modem(mac("02:cb:00:00:00:02")).expect("it is there");
    world.control.add_modems("sg1", &moved).expect("nobody has its addresses");
    let id = world.control.find(mac("02:cb:00:00:00:02")).expect("it was added").spec.first_flow as usize;
    (0..10).for_each(|_| run(&mut world, 0));
    world.rest();
    let came = arrived(flow(&world, 1, id));
    assert!(came > 20, "{came} packets reached its worker");
    assert_eq!((world.drops(), world.control.refused()), (vec![], 0));
    world.rig.close().expect("nothing lost");
}
