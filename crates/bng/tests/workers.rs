//! Promises that hold whatever comes: packets are conserved, counters agree, groups stay on their workers.

use std::net::Ipv4Addr;

use bng::config::{Config, GroupPlan};
use bng::link::Line;
use bng::record::SubscriberSpec;
use bng::steer::Directory;
use engine::SteerKey;
use testkit::golden::Subject as _;

use crate::device::Device;
use crate::golden_cases::{self as cases, BASE};

fn device(change: &str) -> Device {
    let config: toml::Table = format!("{change}\n{BASE}").parse().expect("TOML");
    Device::start(&config).expect("it starts")
}

#[test]
fn packets_are_conserved_and_counted() {
    let mut device = device("");
    for n in 0..200u8 {
        let to = Ipv4Addr::new(100, 64, 0, 10 + n % 4);
        device.send("core", &cases::from_router(&cases::down(to, n % 4)).build());
        device.send("acc", &cases::from_sub(&cases::up(cases::SUB, n % 3)).build());
        device.send("acc", &cases::from_sub(&cases::up(Ipv4Addr::new(100, 64, 0, 10 + n % 2), 9)).build());
        device.settle();
    }
    let counters = device.counters();
    let got = |name: &str| counters.gateway.get(name).copied().unwrap_or(0);
    let up = device.received("core").len() as u64;
    assert!(up > 0 && got("subscriber.0.up.ipv4.packets") > 0);
    let stats: Vec<_> = device.rig.all_stats().map(|stats| stats.missing()).collect();
    assert_eq!(stats, [0]);
    device.close().expect("every packet buffer came back");
}

#[test]
fn frames_of_every_tagging_go_to_their_groups_worker() {
    // Behind the groups of the base: outer VLANs that adjoin theirs, with the same inner ones.
    let next = r#"
        [[group]]
        name = "next"
        ports = ["acc", "hyb"]
        s_vlans = "102-199"
        c_vlans = "1-10"
        ipv4 = ["100.69.0.0/24"]
        gateways = ["100.69.0.1"]
        profile = "home"
    "#;
    let mut config: Config = toml::from_str(&format!("workers = {{ count = 6 }}\n{BASE}\n{next}")).expect("TOML");
    config.group.iter_mut().zip(0..).for_each(|(group, worker)| group.worker = worker);
    let layout = config.layout().expect("no overlaps");
    let directory = Directory::new(&config, &layout, None).expect("no overlaps");
    let packet = cases::up(Ipv4Addr::new(100, 66, 0, 10), 9);
    let check = |port: u8, tags: &[u16]| {
        let frame = tags.iter().fold(cases::eth(cases::SUB_MAC, cases::ACC_MAC), |frame, id| frame.vlan(*id));
        let (outer, hybrid_core) = (tags.first().copied().unwrap_or(0), port == 2 && tags == [10]);
        let is_it = |group: &&GroupPlan| group.ports.contains(&port) && group.s_vlans.offset(outer).is_some();
        let mut groups = layout.groups.iter().filter(is_it);
        let worker = groups.next().map(|group| SteerKey::Owner(group.worker));
        assert!(groups.next().is_none(), "two groups of a frame");
        let got = directory.steer(port, &frame.carrying(&packet).build());
        assert_eq!(got, worker.filter(|_| !hybrid_core), "port {port}, VLANs {tags:?}");
    };
    for port in [0, 2] {
        // Untagged, and priority tags, which are of the untagged network (IEEE 802.1Q, 9.6).
        [&[][..], &[0], &[0, 7]].into_iter().for_each(|tags| check(port, tags));
        for s in 1..4095 {
            check(port, &[s]);
            [1, 10, 11, 4094].into_iter().for_each(|c| check(port, &[s, c]));
        }
    }
    // A device that steers leads each tagged line to the same worker.
    let rules: Vec<_> = directory.flows().iter().map(port::flows::Flows::rules).collect();
    for (port, rules) in (0u8..).zip(&rules) {
        let vlans = || rules.iter().filter(|rule| rule.key == port::flows::FlowKey::Vlan);
        assert_eq!(vlans().count() > 0, port != 1, "lines are on ports 0 and 2");
        for s in 1..4095u16 {
            let frame = cases::eth(cases::SUB_MAC, cases::ACC_MAC).vlan(s).vlan(5).carrying(&packet).build();
            let led = vlans().find(|rule| u64::from(s) & rule.mask == rule.value).map(|rule| rule.worker);
            if let Some(SteerKey::Owner(owner)) = directory.steer(port, &frame).filter(|_| port != 1) {
                assert_eq!(led, Some(owner), "port {port}, VLAN {s}");
            }
        }
    }
    // On the wire: a line of each tagging, in one burst of one port.
    let mut device = device("workers = { count = 3 }");
    let line = |packet: &cases::Packet| cases::eth(cases::SUB_MAC, cases::ACC_MAC).carrying(packet);
    let single = cases::up(Ipv4Addr::new(100, 66, 0, 10), 9);
    device.send("acc", &cases::from_sub(&cases::up(cases::SUB, 9)).build());
    device.send("acc", &cases::eth(cases::SUB_MAC, cases::ACC_MAC).vlan(300).carrying(&single).build());
    device.send("acc", &line(&cases::up(Ipv4Addr::new(100, 67, 0, 10), 9)).build());
    // A single tag of a double-tagged group, and two tags of a single-tagged one, are no lines.
    device
        .send("acc", &cases::eth(cases::SUB_MAC, cases::GW_MAC).vlan(100).carrying(&cases::up(cases::SUB, 9)).build());
    device.send("acc", &cases::eth(cases::SUB_MAC, cases::ACC_MAC).vlan(300).vlan(1).carrying(&single).build());
    device.settle();
    assert_eq!(device.received("core").len(), 3, "{:?}", device.counters());
    device.close().expect("nothing lost");
}

#[test]
fn record_is_three_lines_for_many() {
    let pon = r#"
        [[subscriber]]
        group = "big"
        count = 4000
        ipv4 = "100.80.0.0"
        ipv6_wan = "2001:db8:8000::"
        ipv6_pd = "2001:db9::/56"
        [[group]]
        name = "big"
        ports = ["acc"]
        s_vlans = "1000-1001"
        c_vlans = "1-4000"
        ipv4 = ["100.80.0.0/16"]
        ipv6_wan = ["2001:db8:8000::/48"]
        ipv6_pd = [ { prefix = "2001:db9::/36", length = 56 } ]
        gateways = ["100.80.255.1"]
        profile = "home"
    "#;
    let config: toml::Table = format!("{BASE}\n{pon}").parse().expect("TOML");
    let device = Device::start(&config).expect("it starts");
    let subscribers = &device.rig.workers().next().expect("a worker").gateway().state().subscribers;
    assert_eq!(subscribers.count(), 4007);
    for n in [0u32, 1, 65, 3999] {
        let v4 = subscribers.of_address(0, Ipv4Addr::from(0x6450_0000 + n).into()).expect("by IPv4");
        let upper = (0x2001_0db8_8000_0000u64 + u64::from(n)) as u128;
        let wan = subscribers.of_address(0, std::net::Ipv6Addr::from(upper << 64 | 5).into()).expect("by WAN prefix");
        let upper = (0x2001_0db9_0000_0000u64 + (u64::from(n) << 8) + 0x7f) as u128;
        let pd =
            subscribers.of_address(0, std::net::Ipv6Addr::from(upper << 64 | 5).into()).expect("by delegated prefix");
        assert!(v4 == wan && wan == pd);
        assert_eq!(subscribers.head(v4).map(|head| head.handle), Some(n + 7));
    }
    device.close().expect("nothing lost");
}

fn spec(handle: u32, c_vlan: u16, pd: (u64, u8)) -> SubscriberSpec {
    let line = Line { port: 0, s_vlan: 100, c_vlan };
    SubscriberSpec {
        handle,
        line,
        group: 0,
        mac: None,
        ipv4: None,
        wan: None,
        pd: Some(pd),
        profile: 0,
        line_rate: Default::default(),
    }
}

#[test]
fn prefix_covering_an_earlier_one_is_refused() {
    let mut device = device("");
    for (first, second) in [
        // In the group's slice: four prefixes together, of which one is given.
        ((0x2001_0db8_4000_4400, 56), (0x2001_0db8_4000_4400 & !0x3ff, 54)),
        // In no slice.
        ((0x2001_0db8_9000_0100, 56), (0x2001_0db8_9000_0000, 48)),
        ((0x2001_0db8_a000_0000, 48), (0x2001_0db8_a000_0100, 56)),
    ] {
        let refused = device.control.refused();
        device.control.install(spec(50, 8, first)).unwrap();
        device.settle();
        device.control.install(spec(51, 9, second)).unwrap();
        device.settle();
        assert_eq!(device.control.refused(), refused + 1, "{first:x?} {second:x?}");
        device.control.install(spec(51, 9, (second.0 ^ 0x1_0000_0000, second.1))).unwrap();
        device.settle();
        assert_eq!(device.control.refused(), refused + 1, "another prefix of that length is free");
        for handle in [50, 51] {
            device.control.remove(handle).unwrap();
        }
        device.settle();
    }
    device.close().expect("nothing lost");
}

#[test]
fn public_address_leads_to_its_worker() {
    let nat = r#"nat = { pool = [{ addresses = "192.0.2.1-192.0.2.2" }] }"#;
    let mut device = device(&format!("workers = {{ count = 2 }}\n{nat}"));
    let line = |from, to, packet: &cases::Packet| cases::eth(from, to).service_vlan(200).vlan(1).carrying(packet);
    let shared = Ipv4Addr::new(100, 65, 0, 10);
    // Groups are on the two workers in turns, and all frames come in by the second's queues.
    device.send("acc", &cases::from_sub(&cases::up(cases::SUB, 64)).build());
    device.send("acc", &line(cases::SUB_MAC, cases::ACC_MAC, &cases::up(shared, 64)).build());
    device.settle();
    let sent = device.received("core");
    let mut ends: Vec<(Ipv4Addr, u16)> = sent
        .iter()
        .map(|frame| {
            let source: [u8; 4] = frame[26..30].try_into().expect("an address");
            (source.into(), u16::from_be_bytes([frame[34], frame[35]]))
        })
        .collect();
    ends.sort_unstable();
    assert_eq!(ends.iter().map(|end| end.0.octets()[3]).collect::<Vec<_>>(), [1, 2], "one address is one worker's");
    for (address, port) in &ends {
        let answer = cases::ip4(cases::SERVER, *address).ttl(64).udp(2000, *port).payload(b"broadband");
        device.send("core", &cases::from_router(&answer).build());
    }
    device.settle();
    let mut got: Vec<_> = device.received("acc").into_iter().map(|frame| frame.to_vec()).collect();
    let mut wanted = [
        cases::to_sub(&cases::down(cases::SUB, 63)).build(),
        line(cases::ACC_MAC, cases::SUB_MAC, &cases::down(shared, 63)).build(),
    ];
    got.sort();
    wanted.sort();
    assert_eq!(got, wanted);
    // From the subscriber of one worker to the private address of the other's.
    let across = |ttl| cases::ip4(cases::SUB, shared).ttl(ttl).udp(7, 9).payload(b"neighbour");
    device.send("acc", &cases::from_sub(&across(64)).build());
    device.settle();
    let got: Vec<_> = device.received("acc").into_iter().map(|frame| frame.to_vec()).collect();
    assert_eq!(got, [line(cases::ACC_MAC, cases::SUB_MAC, &across(63)).build()], "{:?}", device.counters());
    device.close().expect("nothing lost");
}

#[test]
fn reinstalled_subscriber_leaves_its_former_worker() {
    let mut device = device("workers = { count = 2 }");
    let of = |group: u16, s_vlan: u16| SubscriberSpec {
        line: Line { port: 0, s_vlan, c_vlan: if group == 0 { 9 } else { 0 } },
        group,
        mac: Some(cases::OTHER_MAC),
        pd: None,
        ipv4: Some(if group == 0 { 0x6440_0063 } else { 0x6443_0063 }),
        ..spec(60, 9, (0, 64))
    };
    let records = |device: &Device| -> Vec<bool> {
        let workers = device.rig.workers();
        workers.map(|worker| worker.gateway().state().subscribers.record_of(60).is_some()).collect()
    };
    device.control.install(of(0, 101)).unwrap();
    device.settle();
    assert_eq!(records(&device), [true, false]);
    // The fourth group is on the second worker, and its only line another's.
    device.control.remove(5).unwrap();
    device.control.install(of(3, 0)).unwrap();
    device.settle();
    assert_eq!(records(&device), [false, true]);
    device.close().expect("nothing lost");
}

#[test]
fn refused_change_leaves_the_subscriber_as_it_was() {
    let mut device = device("");
    let taken = SubscriberSpec { handle: 0, ipv4: Some(cases::NEXT.into()), pd: None, ..spec(0, 1, (0, 64)) };
    device.control.install(taken).unwrap();
    device.settle();
    assert_eq!(device.control.refused(), 1);
    device.send("core", &cases::from_router(&cases::down(cases::SUB, 9)).build());
    device.settle();
    assert_eq!(device.received("acc").len(), 1);
    device.close().expect("nothing lost");
}

#[test]
fn full_ring_to_control_is_counted() {
    let mut device = device("punt = { line = 1000000, dhcp4 = 1000000 }");
    let discover = cases::ip4(Ipv4Addr::UNSPECIFIED, Ipv4Addr::BROADCAST).udp(68, 67).payload([1; 240]);
    let discover = cases::eth(cases::OTHER_MAC, [0xff; 6]).service_vlan(100).vlan(8).carrying(&discover).build();
    const SENT: u64 = 4500;
    for _ in 0..SENT {
        device.send("acc", &discover);
    }
    // Control is not turned: its ring holds 4,096.
    device.rig.settle(|_, _| false);
    let lost = device.control.lost_events();
    assert_eq!(lost, SENT - 4096);
    let of = |stats: &engine::StatsView| -> u64 {
        stats.drops().iter().filter(|(_, reason, ..)| reason.name == "control_full").map(|row| row.2).sum()
    };
    let dropped: u64 = device.rig.all_stats().map(of).sum();
    assert_eq!(dropped, lost);
    assert!(device.rig.all_stats().all(|stats| stats.missing() == 0));
    device.close().expect("nothing lost");
}

#[test]
fn learnt_address_moves_after_silence() {
    const SECOND: u64 = 1_000_000_000;
    let mut device = device("");
    let host = Ipv4Addr::new(100, 66, 0, 10);
    let from = |device: &mut Device, mac: [u8; 6], at: u64| {
        device.turn_to(at * SECOND);
        let line = cases::eth(mac, cases::ACC_MAC).vlan(300);
        device.send("acc", &line.carrying(&cases::up(host, 9)).build());
        device.settle();
        device.received("core").len()
    };
    assert_eq!(from(&mut device, cases::SUB_MAC, 100), 1);
    assert_eq!(from(&mut device, cases::OTHER_MAC, 110), 0, "the first device is there");
    assert_eq!(from(&mut device, cases::SUB_MAC, 120), 1);
    assert_eq!(from(&mut device, cases::OTHER_MAC, 149), 0, "silent for 29 s");
    assert_eq!(from(&mut device, cases::OTHER_MAC, 151), 1, "silent for 31 s");
    assert_eq!(from(&mut device, cases::SUB_MAC, 152), 0);
    // An operator need not wait.
    device.control.forget(4).unwrap();
    device.settle();
    assert_eq!(from(&mut device, cases::SUB_MAC, 153), 1);
    device.close().expect("nothing lost");
}

#[test]
fn late_report_is_not_the_answer_to_the_next() {
    let mut device = device("");
    device.send("acc", &cases::from_sub(&cases::up(cases::SUB, 9)).build());
    device.settle();
    device.control.ask_reports(&[1]);
    device.control.ask_reports(&[0]);
    assert!(device.control.reports().is_none());
    device.settle();
    let reports = device.control.reports().expect("all have answered");
    assert_eq!(reports.usage.len(), 1);
    assert_eq!(reports.usage[&0].up_packets, [1, 0]);
    device.close().expect("nothing lost");
}

#[test]
fn subscribers_are_found_by_name() {
    let mut device = device("");
    let names: Vec<_> = device.control.subscribers().map(|spec| (spec.handle, device.control.name(spec))).collect();
    for (handle, name) in names {
        assert_eq!(device.control.find(&name).map(|spec| spec.handle), Some(handle), "{name}");
    }
    assert_eq!(device.control.find("pon/acc:100.99"), None);
    device.control.install(SubscriberSpec { ipv4: Some(0x6440_0063), pd: None, ..spec(80, 7, (0, 64)) }).unwrap();
    assert_eq!(device.control.find("pon/acc:100.7").map(|spec| spec.handle), Some(80));
    device.settle();
    device.close().expect("nothing lost");
}
