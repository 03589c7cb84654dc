//! Groups that move between workers while packets come: none is lost, out of order or without its rules, and usage is exact,
//! whichever worker turns when.

use std::collections::HashMap;
use std::net::Ipv4Addr;

use bng::link::Line;
use bng::record::SubscriberSpec;
use port::memory::Wire;
use proptest::prelude::*;
use testkit::golden::Subject as _;
use testkit::packet::Packet;

use crate::device::Device;
use crate::golden_cases::{self as cases, BASE};

/// Number of the first subscriber of the group that moves: those of the base come before.
const FIRST: u32 = 7;
/// The number of that group.
const BIG: u16 = 5;
/// VLANs of each of its outer ones.
const INNER: u32 = 2000;

fn group(subscribers: u32, more: &str) -> String {
    format!(
        r#"
        [[subscriber]]
        group = "big"
        count = {subscribers}
        mac = "02:cc:00:00:00:00"
        ipv4 = "100.80.0.0"
        [[group]]
        name = "big"
        ports = ["acc"]
        s_vlans = "1000-1031"
        c_vlans = "1-{INNER}"
        ipv4 = ["100.80.0.0/16"]
        gateways = ["100.80.255.1"]
        mac = "02:00:5e:00:00:09"
        profile = "home"
        {more}
        "#
    )
}

const BIG_GW: [u8; 6] = [2, 0, 0x5e, 0, 0, 9];

fn address(n: u32) -> Ipv4Addr {
    Ipv4Addr::from(0x6450_0000 + n)
}

fn mac(n: u32) -> [u8; 6] {
    let [a, b, c, d] = n.to_be_bytes();
    [2, 0xcc, a, b, c, d]
}

fn device(workers: u16, subscribers: u32, more: &str) -> Device {
    let text = format!("workers = {{ count = {workers} }}\n{BASE}\n{}", group(subscribers, more));
    let mut config: toml::Table = text.parse().expect("TOML");
    config["frames"]["slots"] = 16_384.into();
    Device::start(&config).expect("it starts")
}

/// What a packet is of: its kind and its subscriber. Packets of one flow come in by one worker, in order.
type Flow = (u8, u32);
const KINDS: u8 = 5;

/// A packet of a flow, and the port it comes in by.
fn packet(flow: Flow, number: u32) -> (&'static str, Vec<u8>) {
    let (kind, n) = flow;
    let mut payload = [0; 9];
    payload[0] = kind;
    payload[1..5].copy_from_slice(&n.to_be_bytes());
    payload[5..].copy_from_slice(&number.to_be_bytes());
    let between = |from, to| cases::ip4(from, to).ttl(9).udp(7, 9).payload(payload);
    let line = |packet: &Packet| {
        let (s_vlan, c_vlan) = (1000 + (n / INNER) as u16, 1 + (n % INNER) as u16);
        cases::eth(mac(n), BIG_GW).service_vlan(s_vlan).vlan(c_vlan).carrying(packet).build()
    };
    match kind {
        0 => ("acc", line(&between(address(n), cases::SERVER))),
        1 => ("core", cases::from_router(&between(cases::SERVER, address(n))).build()),
        // To another subscriber of the group, to one of a group that stays, and from that one.
        2 => ("acc", line(&between(address(n), address(n ^ 1)))),
        3 => ("acc", line(&between(address(n), cases::SUB))),
        _ => ("acc", cases::from_sub(&between(cases::SUB, address(n))).build()),
    }
}

/// Traffic through a device, and what has come out.
struct Traffic {
    /// Sent and received so far, by flow.
    flows: HashMap<Flow, (u32, u32)>,
    wires: Vec<(&'static str, Wire)>,
    workers: usize,
}

impl Traffic {
    fn new(device: &Device) -> Self {
        let workers = device.rig.workers().count();
        let of = |worker| ["acc", "core"].map(|port| (port, device.rig.wire_of(worker, port).clone()));
        Self { flows: HashMap::new(), wires: (0..workers).flat_map(of).collect(), workers }
    }

    fn send(&mut self, flow: Flow) {
        let (sent, _) = self.flows.entry(flow).or_default();
        let (port, frame) = packet(flow, *sent);
        *sent += 1;
        let worker = (usize::from(flow.0) + flow.1 as usize / 3) % self.workers;
        let (name, wire) = &self.wires[2 * worker + usize::from(port == "core")];
        assert_eq!(*name, port);
        wire.send(frame);
    }

    /// Takes what has come out since, which is to be in order.
    fn take(&mut self) {
        for (_, wire) in &self.wires {
            for frame in wire.received() {
                let Some(payload) = frame.len().checked_sub(9).map(|at| &frame[at..]).filter(|_| frame.len() < 80)
                else {
                    continue;
                };
                let number = |at: usize| u32::from_be_bytes(payload[at..at + 4].try_into().expect("four bytes"));
                let (flow, number) = ((payload[0], number(1)), number(5));
                let Some((_, received)) = self.flows.get_mut(&flow) else { panic!("a packet of no flow: {frame:x?}") };
                assert_eq!(number, *received, "flow {flow:?}: out of order, lost or twice");
                *received += 1;
            }
        }
    }

    /// Turns workers and control, by turns, until nothing moves.
    fn settle(&mut self, device: &mut Device) {
        for _ in 0..200 {
            device.control.poll(device.clock.now());
            for worker in 0..self.workers {
                device.rig.turn_of(worker);
                self.take();
            }
        }
        device.settle();
        self.take();
    }

    fn is_complete(&self) -> bool {
        self.flows.values().all(|(sent, received)| sent == received)
    }

    /// Usage of each subscriber is what came out.
    fn check_usage(&self, device: &Device, subscribers: u32) {
        let owner = usize::from(device.control.layout().groups[usize::from(BIG)].worker);
        for (n, worker) in device.rig.workers().enumerate() {
            let own = &worker.gateway().state().subscribers;
            assert_eq!(own.record_of(FIRST).is_some(), n == owner, "copies are left on worker {n}");
        }
        let own = &device.rig.workers().nth(owner).expect("a worker").gateway().state().subscribers;
        let of = |kind, n| self.flows.get(&(kind, n)).map_or(0, |flow| u64::from(flow.1));
        for n in 0..subscribers {
            let usage = own.usage(FIRST + n).expect("installed");
            let up = of(0, n) + of(2, n) + of(3, n);
            let down = of(1, n) + of(2, n ^ 1) + of(4, n);
            assert_eq!((usage.up_packets[0], usage.down_packets[0]), (up, down), "subscriber {n}");
            assert_eq!((usage.up_bytes[0], usage.down_bytes[0]), (up * 37, down * 37), "subscriber {n}");
        }
    }
}

#[test]
fn group_of_8000_moves_to_and_fro_under_traffic() {
    const SUBSCRIBERS: u32 = 8000;
    const MOVES: u32 = 20;
    let mut device = device(2, SUBSCRIBERS, "");
    let mut traffic = Traffic::new(&device);
    let (mut next, mut moves, mut to) = (0u32, 0, 0);
    while moves < MOVES || device.control.moves().is_busy() {
        if !device.control.moves().is_busy() {
            device.control.move_group(BIG, to).expect("it can move");
            (to, moves) = (1 - to, moves + 1);
        }
        for _ in 0..40 {
            next = next.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let kind = (next >> 28) as u8 % KINDS;
            traffic.send((kind, if kind == 3 { next >> 8 & 7 } else { (next >> 8) % SUBSCRIBERS }));
        }
        let now = device.clock.now() + 20_000;
        device.clock.turn_to(now);
        device.control.poll(now);
        for worker in 0..2 {
            device.rig.turn_of(worker);
            traffic.take();
        }
    }
    traffic.settle(&mut device);
    assert!(traffic.is_complete(), "{:?}", device.counters());
    assert_eq!(device.control.moves().counts(), (u64::from(MOVES), 0));
    let (last, made) = device.control.moves().last(BIG).expect("it moved");
    assert_eq!((last.subscribers, made), (u64::from(SUBSCRIBERS), u64::from(MOVES)));
    assert!(last.arrival.held > 0, "no packet came while it moved");
    traffic.check_usage(&device, SUBSCRIBERS);
    device.close().expect("every packet buffer came back");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    /// Workers and control turn in any order; packets of all kinds come at any time.
    #[test]
    fn order_holds_whoever_turns_when(workers in 2u16..5, steps in proptest::collection::vec(any::<u16>(), 400..1500)) {
        const SUBSCRIBERS: u32 = 24;
        let mut device = device(workers, SUBSCRIBERS, "");
        let mut traffic = Traffic::new(&device);
        for step in steps {
            let (what, n) = (step & 7, u32::from(step >> 3));
            match what {
                0 => {
                    let to = (n % u32::from(workers)) as u16;
                    let is_there = device.control.layout().groups[usize::from(BIG)].worker == to;
                    let moved = device.control.move_group(BIG, to);
                    prop_assert!(moved.is_err() || !is_there);
                }
                1 | 2 => device.control.poll(device.clock.now()),
                3 | 4 => {
                    device.rig.turn_of(n as usize % usize::from(workers));
                    traffic.take();
                }
                _ => (0..n % 4 + 1).for_each(|m| traffic.send(((n + m) as u8 % KINDS, (n / 7 + m) % SUBSCRIBERS))),
            }
        }
        traffic.settle(&mut device);
        prop_assert!(traffic.is_complete(), "{:?}", device.counters());
        prop_assert!(!device.control.moves().is_busy());
        traffic.check_usage(&device, SUBSCRIBERS);
        device.close().expect("every packet buffer came back");
    }
}

#[test]
fn what_changes_meanwhile_reaches_the_new_owner() {
    let mut device = device(2, 16, "");
    device.control.move_group(BIG, 0).expect("it can move");
    device.control.poll(0);
    // It moves: one subscriber comes, one goes, one is asked for.
    let line = Line { port: 0, s_vlan: 1000, c_vlan: 100 };
    let new = SubscriberSpec {
        handle: 90,
        line,
        group: BIG,
        mac: Some(mac(99)),
        ipv4: Some(address(99).into()),
        wan: None,
        pd: None,
        profile: 0,
        line_rate: Default::default(),
    };
    device.control.install(new).expect("there is the group");
    device.control.remove(FIRST).expect("it is there");
    device.control.ask_reports(&[FIRST + 1]);
    device.settle();
    assert!(!device.control.moves().is_busy());
    let has: Vec<Vec<bool>> = device
        .rig
        .workers()
        .map(|worker| {
            [FIRST, FIRST + 1, 90].map(|handle| worker.gateway().state().subscribers.record_of(handle).is_some())
        })
        .map(Vec::from)
        .collect();
    assert_eq!(has, [[false, true, true], [false; 3]]);
    assert!(device.control.reports().is_some_and(|reports| reports.usage.contains_key(&(FIRST + 1))));
    device.close().expect("nothing lost");
}

#[test]
fn impossible_moves_are_refused_with_the_reason() {
    let mut device = device(2, 4, "");
    let mut why = |group, to| device.control.move_group(group, to).map_err(|refusal| refusal.0);
    assert_eq!(why(BIG, 1), Err("group \"big\" is on worker 1 already".into()));
    assert_eq!(why(BIG, 2), Err("there is no worker 2; allowed: 0 to 1 (workers.count is 2)".into()));
    assert_eq!(why(9, 0), Err("there is no such group".into()));
    assert_eq!(why(BIG, 0), Ok(()));
    assert!(why(BIG, 0).is_err_and(|why| why.contains("moves, or waits to move")));
    assert!(device.control.group_named("nobody").is_err_and(|why| why.0.contains("allowed: pon, shared")));
    device.settle();
    device.close().expect("nothing lost");

    let nat = r#"nat = { pool = [{ addresses = "192.0.2.1-192.0.2.2" }] }"#;
    let text = format!("workers = {{ count = 2 }}\n{nat}\n{BASE}\n{}", group(4, "nat = false"));
    let mut device = Device::start(&text.parse().expect("TOML")).expect("it starts");
    let refusal = device.control.move_group(0, 1).unwrap_err();
    assert!(refusal.0.contains("addresses are translated"), "{refusal}");
    device.control.move_group(BIG, 0).expect("its own are not translated");
    device.settle();
    assert_eq!(device.control.moves().counts(), (1, 0));
    device.close().expect("nothing lost");
}

/// One whose group that moves is shaped.
fn shaped_device(change: impl FnOnce(&mut toml::Table)) -> Device {
    let tiers = r#"
        [[profile]]
        name = "slow"
        down = "1 Mbit/s"
        up = "1 Mbit/s"
        shape = {}
    "#;
    let text = format!("workers = {{ count = 2 }}\n{BASE}\n{tiers}\n{}", group(4, "").replace("\"home\"", "\"slow\""));
    let text = text
        .replace("profile = [ { name = \"home\" } ]", "")
        .replace("[[profile]]", "[[profile]]\nname = \"home\"\n[[profile]]");
    let mut config = text.parse().expect("TOML");
    change(&mut config);
    Device::start(&config).expect("it starts")
}

/// What waits is more than the new owner's part of the port's buffer: it waits on all the same.
#[test]
fn queued_packets_beyond_a_part_of_the_buffer_move_along() {
    let mut device = shaped_device(|config| {
        config["port"][0].as_table_mut().expect("a table").insert("rate".into(), "30 Mbit/s".into());
        // The least there is: 32 KiB for each of the two workers.
        config
            .insert("queues".into(), toml::Value::Table(toml::Table::from_iter([("port_buffer_us".into(), 1.into())])));
    });
    device.turn_to(cases::ms(10));
    for number in 0..56u32 {
        let packet = cases::ip4(cases::SERVER, address(number % 4)).ttl(9).udp(7, number as u16).filled(1000);
        device.send("core", &cases::from_router(&packet).build());
    }
    device.settle();
    let held =
        |device: &Device| -> usize { device.rig.workers().map(|worker| engine::Gateway::held(worker.gateway())).sum() };
    let dropped = |device: &Device| -> u64 { device.rig.all_stats().map(|stats| stats.dropped()).sum() };
    let before = (held(&device), dropped(&device));
    assert!(before.0 > 34, "{before:?}");
    device.control.move_group(BIG, 0).expect("it can move");
    device.settle();
    assert_eq!(device.control.moves().counts(), (1, 0));
    assert_eq!((held(&device), dropped(&device)), before);
    device.close().expect("nothing lost");
}

#[test]
fn queued_packets_and_buckets_move_along() {
    let mut device = shaped_device(|_| ());
    device.turn_to(cases::ms(10));
    let mut sent = 0u32;
    for number in 0..60u32 {
        let packet = cases::ip4(cases::SERVER, address(0)).ttl(9).udp(7, number as u16).filled(1000);
        device.send("core", &cases::from_router(&packet).build());
        sent += 1;
    }
    device.settle();
    let mut got: Vec<u16> = Vec::new();
    let mut take = |device: &mut Device| {
        // Single VLAN tags, Ethernet, IP and the UDP source port come before the destination port.
        let port = |frame: &Vec<u8>| u16::from_be_bytes([frame[44], frame[45]]);
        got.extend(device.received("acc").iter().map(port));
    };
    take(&mut device);
    let held: usize = device.rig.workers().map(|worker| engine::Gateway::held(worker.gateway())).sum();
    assert!(held > 20, "{held} wait");
    for at in 1..=40 {
        if at % 4 == 1 {
            device.control.move_group(BIG, (at / 4) as u16 % 2).expect("it can move");
        }
        device.settle();
        device.turn_to(cases::ms(10 + 20 * at));
        device.settle();
        take(&mut device);
    }
    assert_eq!(device.control.moves().counts(), (10, 0));
    let counters = device.counters();
    let dropped: u64 = sent as u64 - got.len() as u64;
    assert!(got.is_sorted(), "{got:?}");
    let usage = counters.gateway.get(&format!("subscriber.{FIRST}.down.ipv4.packets"));
    assert_eq!(usage.copied(), Some(got.len() as u64), "what is forwarded is counted");
    device.control.ask_reports(&[FIRST]);
    device.settle();
    let queued = device.control.reports().expect("all have answered").queued[&FIRST];
    assert_eq!(queued.classes.iter().map(|class| class.packets).sum::<u64>(), got.len() as u64);
    let named: u64 = device.rig.all_stats().map(|stats| stats.dropped()).sum();
    assert_eq!(dropped, named, "{counters:?}");
    device.close().expect("nothing lost");
}

#[test]
fn groups_gather_on_one_worker_and_return() {
    const SECOND: u64 = 1_000_000_000;
    let mut device = device(2, 16, "[park]\nseconds = 2\nhours = [\"00:00-06:00\"]\n");
    let homes =
        |device: &Device| -> Vec<u16> { device.control.layout().groups.iter().map(|group| group.worker).collect() };
    assert_eq!(homes(&device), [0, 1, 0, 1, 0, 1]);
    let pass = |device: &mut Device, seconds: u64, minute: u16| {
        for _ in 0..seconds {
            device.turn_to(device.clock.now() + SECOND);
            assert!(device.control.is_park_due(device.clock.now()));
            device.control.park(device.clock.now(), minute, &[0, 0]);
            device.settle();
        }
        homes(device)
    };
    assert_eq!(pass(&mut device, 6, 720), [0, 1, 0, 1, 0, 1], "it is not the time of day for it");
    let gathered = pass(&mut device, 6, 0);
    assert!(gathered.iter().all(|worker| *worker == gathered[0]), "{gathered:?}");
    assert_eq!(device.control.moves().counts(), (3, 0));
    assert_eq!(pass(&mut device, 1, 720), [0, 1, 0, 1, 0, 1]);
    // They are served where they are.
    device.send("acc", &cases::from_sub(&cases::up(cases::SUB, 9)).build());
    device.settle();
    assert_eq!(device.received("core").len(), 1);
    device.close().expect("nothing lost");
}

#[test]
fn held_packets_fit_ports_with_small_rings() {
    const RING: usize = 512;
    let mut device = device(2, 16, "");
    let mut traffic = Traffic::new(&device);
    let directory = |device: &Device| {
        let worker = device.rig.workers().next().expect("a worker");
        std::sync::Arc::as_ptr(&worker.gateway().state().directory)
    };
    let before = directory(&device);
    device.control.move_group(BIG, 0).expect("it can move");
    loop {
        device.control.poll(device.clock.now());
        device.rig.turn_of(0);
        if directory(&device) != before {
            break;
        }
        device.rig.turn_of(1);
    }
    // The new owner steers by the new table; the old one does not turn meanwhile.
    let flows = [(0, 0), (1, 3)];
    for n in 0..5000 {
        traffic.send(flows[n % 2]);
    }
    while traffic.wires.iter().any(|(_, wire)| wire.waiting() > 0) {
        device.rig.turn_of(0);
    }
    traffic.take();
    assert!(traffic.flows.values().all(|(sent, received)| (*sent, *received) == (2500, 0)), "{:?}", traffic.flows);
    for _ in 0..100 {
        flows.into_iter().for_each(|flow| (0..10).for_each(|_| traffic.send(flow)));
        device.control.poll(device.clock.now());
        for worker in [1, 0] {
            traffic.wires.iter().for_each(|(_, wire)| wire.limit(Some(RING)));
            device.rig.turn_of(worker);
            traffic.take();
        }
    }
    traffic.wires.iter().for_each(|(_, wire)| wire.limit(None));
    traffic.settle(&mut device);
    assert!(traffic.is_complete(), "{:?}", device.counters());
    let (last, _) = device.control.moves().last(BIG).expect("it moved");
    assert!(last.arrival.held > 5000, "newcomers wait behind what is held: {last:?}");
    traffic.check_usage(&device, 16);
    device.close().expect("every packet buffer came back");
}

#[test]
fn subscriber_that_its_worker_refused_does_not_keep_the_group() {
    let mut device = device(2, 16, "");
    let first = *device.control.subscriber(FIRST).expect("the first");
    // The line is another's.
    device.control.install(SubscriberSpec { handle: 90, ipv4: Some(address(99).into()), ..first }).expect("a group");
    device.settle();
    assert_eq!(device.control.refused(), 1);
    device.control.move_group(BIG, 0).expect("it can move");
    device.settle();
    assert_eq!(device.control.moves().counts(), (1, 0));
    let owner = device.rig.workers().next().expect("a worker");
    let has = [FIRST, FIRST + 15, 90].map(|handle| owner.gateway().state().subscribers.record_of(handle).is_some());
    assert_eq!(has, [true, true, false]);
    device.close().expect("nothing lost");
}

#[test]
fn reports_are_complete_whenever_they_are_asked_for() {
    const SUBSCRIBERS: u32 = 1000;
    let mut device = device(2, SUBSCRIBERS, "");
    let handles: Vec<u32> = (FIRST..FIRST + SUBSCRIBERS).collect();
    for turns in 0..40 {
        device.control.move_group(BIG, (turns % 2) as u16).expect("it can move");
        for turn in 0..80 {
            if turn == turns {
                device.control.ask_reports(&handles);
            }
            device.control.poll(device.clock.now());
            (0..2).for_each(|worker| device.rig.turn_of(worker));
        }
        device.settle();
        let reports = device.control.reports().expect("all have answered");
        assert_eq!(reports.usage.len(), handles.len(), "asked for after {turns} turns");
    }
    assert_eq!(device.control.moves().counts(), (40, 0));
    device.close().expect("nothing lost");
}

#[test]
fn queued_packets_on_their_way_are_counted_when_workers_end() {
    let mut device = shaped_device(|_| ());
    device.turn_to(cases::ms(10));
    for number in 0..60u16 {
        let packet = cases::ip4(cases::SERVER, address(0)).ttl(9).udp(7, number).filled(1000);
        device.send("core", &cases::from_router(&packet).build());
    }
    device.settle();
    let held = |device: &Device| device.rig.workers().nth(1).map(|worker| engine::Gateway::held(worker.gateway()));
    assert!(held(&device) > Some(20));
    device.control.move_group(BIG, 0).expect("it can move");
    while held(&device) != Some(0) {
        device.control.poll(device.clock.now());
        [0, 1].into_iter().for_each(|worker| device.rig.turn_of(worker));
    }
    device.close().expect("each is named, and every packet buffer came back");
}
