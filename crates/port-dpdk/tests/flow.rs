//! Steering by the device: gateways of several workers over a device that divides packets by the rules they made, over
//! one that refuses, and over `net_tap`, which refuses here.
//!
//! DPDK is started once for the program: every test has devices of names of its own.
#![cfg(feature = "dpdk")]

mod nic;

use std::net::{Ipv4Addr, Ipv6Addr};

use frame::{Arena, ArenaConfig, Caps, Pool};
use port::flows::{FlowKey, Flows, change_flows, is_steered};
use testkit::packet::{Packet, eth, ip4, ip6};
use upf::gateway::UserPlane;

use nic::{Bench, open};

const N3_MAC: [u8; 6] = [2, 0, 0, 0, 3, 1];
const N6_MAC: [u8; 6] = [2, 0, 0, 0, 6, 1];
const GNB_MAC: [u8; 6] = [2, 0, 0, 0, 3, 100];
const ROUTER_MAC: [u8; 6] = [2, 0, 0, 0, 6, 254];
const TEID: u32 = 0x0100_0000;
const SUBSCRIBERS: u32 = 100;

/// Two workers, subscribers of both families at a gNB of either.
fn user_plane(over6: bool) -> (Vec<engine::WorkerInit<UserPlane>>, Vec<Flows>) {
    let gnb = if over6 { "fd00:3::100" } else { "10.0.3.100" };
    let text = format!(
        r#"
        gateway = "upf"
        workers.count = 2
        route = [{{ to = "0.0.0.0/0", via = "10.0.6.254" }}, {{ to = "::/0", via = "fd00:6::254" }}]
        neighbour = [
          {{ port = "n3", address = "{gnb}", mac = "02:00:00:00:03:64" }},
          {{ port = "n6", address = "10.0.6.254", mac = "02:00:00:00:06:fe" }},
          {{ port = "n6", address = "fd00:6::254", mac = "02:00:00:00:06:fe" }},
        ]
        [[port]]
        name = "n3"
        uri = "memory:n3"
        role = "access"
        addresses = ["10.0.3.1/24", "fd00:3::1/64"]
        [[port]]
        name = "n6"
        uri = "memory:n6"
        role = "core"
        addresses = ["10.0.6.1/24", "fd00:6::1/64"]
        [simulate]
        ues = {SUBSCRIBERS}
        ue_first = "10.60.0.1"
        ue6_first = "2001:db8:60:1::"
        gnb_first = "{gnb}"
        bearer = [{{ qfi = 9 }}]
        "#
    );
    let config: upf::config::Config = toml::from_str(&text).expect("a configuration");
    let caps = [N3_MAC, N6_MAC].map(|mac| Caps { kind: "dpdk", mac, mtu: 1500, ..Caps::default() });
    let (_, seats) = upf::assemble::assemble(&config, &caps).expect("a gateway");
    (seats, upf::assemble::flows(&config).expect("ranges"))
}

/// Packets of all subscribers both ways, of both families: the port they come in by, and their bytes.
fn packets(over6: bool) -> Vec<(usize, Vec<u8>)> {
    let server = Ipv4Addr::new(198, 51, 100, 7);
    let server6: Ipv6Addr = "2001:db8:5e::7".parse().expect("an address");
    let gnb = |teid: u32| {
        let link = eth(GNB_MAC, N3_MAC);
        let packet = match over6 {
            false => link.ip4([10, 0, 3, 100], [10, 0, 3, 1]),
            true => link.ip6("fd00:3::100".parse::<Ipv6Addr>().unwrap(), "fd00:3::1".parse::<Ipv6Addr>().unwrap()),
        };
        packet.gtpu(teid).container_up(9)
    };
    let router = |packet: &Packet| eth(ROUTER_MAC, N6_MAC).carrying(packet).build();
    let of = |n: u32| {
        let v4 = Ipv4Addr::from_bits(0x0a3c_0001 + n);
        let v6 = Ipv6Addr::from_bits(0x2001_0db8_0060_0001_0000_0000_0000_0007 + (u128::from(n) << 64));
        [
            (0, gnb(TEID + n).carrying(&ip4(v4, server).udp(1000, 2000).filled(40)).build()),
            (0, gnb(TEID + n).carrying(&ip6(v6, server6).udp(1000, 2000).filled(41)).build()),
            (1, router(&ip4(server, v4).udp(2000, 1000).filled(42))),
            (1, router(&ip6(server6, v6).udp(2000, 1000).filled(43))),
        ]
    };
    (0..SUBSCRIBERS).flat_map(of).collect()
}

/// What a user plane over devices with room for so many rules sends, and how many packets its workers handed over.
fn forwarded(test: &str, over6: bool, room: i32) -> ([Vec<Vec<u8>>; 2], u64, Vec<u64>, nic::Counts) {
    let (seats, flows) = user_plane(over6);
    let fit = |nic: &nic::Nic| {
        nic.room(room);
        if over6 {
            nic.knows_gtp_alone();
        }
    };
    let mut bench = Bench::of(test, seats, &flows, fit);
    for (port, bytes) in packets(over6) {
        bench.send(port, &bytes);
    }
    let (out, handed, received) = ([bench.arrived(0), bench.arrived(1)], bench.handed(), bench.received());
    let counts = bench.nics[0].counts();
    bench.close();
    (out, handed, received, counts)
}

#[test]
fn workers_of_a_user_plane_receive_their_own_packets() {
    for over6 in [false, true] {
        let all = 4 * u64::from(SUBSCRIBERS);
        let (steered, handed, received, counts) = forwarded(&format!("own{}", u8::from(over6)), over6, 64);
        assert_eq!((handed, received), (0, vec![all / 2; 2]), "{counts:?}");
        assert_eq!((counts.by_rule, counts.by_none), (all / 2, 0));
        assert!(counts.made >= 2);
        assert_eq!((steered[0].len(), steered[1].len()), (all as usize / 2, all as usize / 2));
        // Without, the same packets leave.
        let (spread, handed, _, counts) = forwarded(&format!("not{}", u8::from(over6)), over6, -1);
        assert!(handed > all / 4, "{handed} of {all} handed over");
        assert_eq!((counts.by_rule, counts.made), (0, 0));
        assert!(spread == steered, "the same bytes");
    }
}

#[test]
fn refused_rules_are_all_taken_back_and_told() {
    let (seats, flows) = user_plane(false);
    // Accepted when it is asked, and then there is no room.
    let bench = Bench::new("few", seats, &flows, 1);
    for (nic, port) in bench.nics.iter().zip(0..) {
        let counts = nic.counts();
        assert_eq!((counts.rules, counts.made, counts.destroyed), (0, 1, 1), "{counts:?}");
        for worker in &bench.workers {
            let caps = worker.port(port).expect("a port").caps();
            let why = caps.unsteered.expect("a reason");
            assert!(why.starts_with("no room for the rule ("), "{why}");
            assert!(caps.detail.contains(&format!(", no rte_flow rules: {why}, ")), "{}", caps.detail);
        }
    }
    bench.close();
}

#[test]
fn rules_follow_owners_that_change() {
    let (seats, _) = user_plane(false);
    let vlans =
        |last: u16| Flows::default().with(FlowKey::Vlan, 1, [(1, 1023, 0), (1024, 2047, 1), (2048, 3071, last)]);
    let mut bench = Bench::new("moved", seats, &[vlans(0), vlans(0)], 64);
    let uri = "dpdk:net_ring_moved0?queue={worker}".parse().expect("a URI");
    assert!(is_steered(&uri) && !is_steered(&"dpdk:net_ring_other".parse().expect("a URI")));
    let frame = |vlan: u16| eth(GNB_MAC, N3_MAC).vlan(vlan).ip4([10, 0, 3, 9], [10, 0, 3, 7]).udp(1, 2).build();
    let lead = |bench: &mut Bench<UserPlane>| {
        [1, 1023, 1024, 2047, 2048, 3071].map(|vlan| {
            let before = bench.received();
            bench.send(0, &frame(vlan));
            bench.received()[1] - before[1]
        })
    };
    assert_eq!(lead(&mut bench), [0, 0, 1, 1, 0, 0]);
    let before = bench.nics[0].counts();
    let rules = change_flows(&uri, &vlans(1)).expect("accepted");
    let after = bench.nics[0].counts();
    let (made, destroyed) = (after.made - before.made, after.destroyed - before.destroyed);
    assert_eq!((rules, after.rules, made, destroyed), (3, 3, 1, 1), "rules that stay are not made anew");
    assert_eq!(lead(&mut bench), [0, 0, 1, 1, 1, 1]);
    // A change that is refused leaves none.
    bench.nics[0].room(-1);
    let error = change_flows(&uri, &vlans(0)).expect_err("refused").to_string();
    assert!(error.contains("the test device has no rules"), "{error}");
    assert_eq!(bench.nics[0].counts().rules, 0);
    // It is asked again, and that it refuses still is no news.
    assert!(is_steered(&uri));
    assert_eq!(change_flows(&uri, &vlans(0)).expect("no news"), 0);
    bench.nics[0].room(64);
    assert_eq!(change_flows(&uri, &vlans(1)).expect("accepted"), 3);
    assert_eq!(lead(&mut bench), [0, 0, 1, 1, 1, 1]);
    bench.close();
}

#[test]
fn rules_come_to_ports_that_had_nothing_to_steer_by() {
    let (seats, _) = user_plane(false);
    let mut bench = Bench::new("empty", seats, &[Flows::default(), Flows::default()], 64);
    let uri = "dpdk:net_ring_empty0?queue={worker}".parse().expect("a URI");
    assert!(is_steered(&uri) && bench.nics[0].counts().made == 0);
    assert!(!bench.workers[0].port(0).expect("a port").caps().detail.contains("rte_flow"));
    let vlans = Flows::default().with(FlowKey::Vlan, 1, [(0, 2047, 0), (2048, 4095, 1)]);
    assert_eq!(change_flows(&uri, &vlans).expect("accepted"), 2);
    let frame = eth(GNB_MAC, N3_MAC).vlan(2048).ip4([10, 0, 3, 9], [10, 0, 3, 7]).udp(1, 2).build();
    (0..4).for_each(|_| bench.send(0, &frame));
    assert_eq!(bench.received(), [0, 4]);
    bench.close();
}

#[test]
fn rules_that_are_not_taken_back_are_kept_and_told() {
    let (seats, _) = user_plane(false);
    let vlans =
        |from: u64| Flows::default().with(FlowKey::Vlan, 1, [(from, from + 255, 0), (from + 256, from + 511, 1)]);
    let bench = Bench::new("clings", seats, &[vlans(0), Flows::default()], 64);
    let uri = "dpdk:net_ring_clings0?queue={worker}".parse().expect("a URI");
    let detail = || bench.workers[1].port(0).expect("a port").caps().detail;
    assert!(detail().contains(", 2 rte_flow rules, no"), "{}", detail());
    bench.nics[0].clings(true);
    assert_eq!(change_flows(&uri, &vlans(512)).expect("accepted"), 2);
    assert!(detail().contains(", 2 rte_flow rules, 2 rules could not be taken back, "), "{}", detail());
    // Wanted again, they are there already.
    assert_eq!(change_flows(&uri, &vlans(0)).expect("accepted"), 2);
    assert_eq!((bench.nics[0].counts().rules, bench.nics[0].counts().made), (4, 4));
    // What does not lead elsewhere in their place is refused, and then all of them stay.
    bench.nics[0].room(-1);
    change_flows(&uri, &vlans(1024)).expect_err("refused");
    assert!(detail().contains(", 4 rules could not be taken back, "), "{}", detail());
    // They are tried again.
    bench.nics[0].clings(false);
    bench.nics[0].room(64);
    assert_eq!(change_flows(&uri, &vlans(1024)).expect("accepted"), 2);
    assert!(!detail().contains("taken back") && bench.nics[0].counts().rules == 2, "{}", detail());
    bench.close();
}

/// A network namespace, which goes with it.
struct Namespace(String);

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = std::process::Command::new("ip").args(["netns", "del", &self.0]).status();
    }
}

#[test]
fn tap_refuses_and_says_so() {
    let arena = Arena::new(ArenaConfig { slots: 8192, ..ArenaConfig::default() }).expect("memory");
    let mut pools = [Pool::new(&arena, 4096), Pool::new(&arena, 4096)];
    let ip =
        |arguments: &[&str]| assert!(std::process::Command::new("ip").args(arguments).status().expect("ip").success());
    let namespace = format!("weir-flow-{}", std::process::id());
    ip(&["netns", "add", &namespace]);
    let namespace = Namespace(namespace);
    let flows = Flows::default().with(FlowKey::To4, 0, [(0x0a00_0000, 0x0a7f_ffff, 0), (0x0a80_0000, 0x0aff_ffff, 1)]);
    let mut worker = 0;
    let mut ports = pools.each_mut().map(|pool| {
        let uri = format!("dpdk:net_tap_flow,iface=wflow?queues=2&queue={worker}&netns={}", namespace.0);
        worker += 1;
        open(&uri, pool, worker - 1, &flows)
    });
    for port in &ports {
        let caps = port.caps();
        println!("{}", caps.detail);
        assert!(caps.unsteered.is_some() && caps.detail.contains(", no rte_flow rules: "), "{caps:?}");
    }
    ports.iter_mut().zip(&mut pools).for_each(|(port, pool)| port.close(pool));
    drop((ports, pools));
    assert_eq!(arena.in_depot(), 8192);
}

const SUBSCRIBERS_OF_A_GROUP: u32 = 40;

/// Two groups, each a worker's; 40 subscribers a group on lines with two tags.
fn broadband(test: &str) -> (bng::control::Control, Vec<bng::assemble::WorkerInit>, Vec<Flows>) {
    let group = |name: &str, worker: u16, vlans: &str, net: u8| {
        format!(
            r#"
            [[group]]
            name = "{name}"
            worker = {worker}
            ports = ["acc"]
            s_vlans = "{vlans}"
            c_vlans = "1-40"
            ipv4 = ["100.{net}.0.0/24"]
            gateways = ["100.{net}.0.1"]
            profile = "home"
            [[subscriber]]
            group = "{name}"
            count = {SUBSCRIBERS_OF_A_GROUP}
            mac = "02:ca:{net}:00:00:01"
            ipv4 = "100.{net}.0.10"
            "#
        )
    };
    let text = format!(
        r#"
        gateway = "bng"
        workers.count = 2
        route = [{{ to = "0.0.0.0/0", via = "198.18.0.254" }}]
        neighbour = [{{ port = "core", address = "198.18.0.254", mac = "02:00:00:00:06:fe" }}]
        profile = [{{ name = "home" }}]
        [[port]]
        name = "acc"
        uri = "dpdk:net_ring_{test}0?queue={{worker}}&queues={{workers}}"
        role = "access"
        [[port]]
        name = "core"
        uri = "dpdk:net_ring_{test}1?queue={{worker}}&queues={{workers}}"
        role = "core"
        addresses = ["198.18.0.1/24"]
        {}{}"#,
        group("first", 0, "100-149", 64),
        group("second", 1, "150-199", 65),
    );
    let config: bng::config::Config = toml::from_str(&text).expect("a configuration");
    let caps = [N3_MAC, N6_MAC].map(|mac| Caps { kind: "dpdk", mac, mtu: 1500, ..Caps::default() });
    let (control, seats) = bng::assemble::assemble(&config, &caps).expect("a gateway");
    (control, seats, bng::assemble::flows(&config).expect("ranges"))
}

/// Packets of all broadband subscribers both ways.
fn lines() -> Vec<(usize, Vec<u8>)> {
    let server = Ipv4Addr::new(203, 0, 113, 7);
    let of = |(net, vlan, n): (u8, u16, u8)| {
        let (mac, address) = ([2, 0xca, net, 0, 0, 1 + n], Ipv4Addr::new(100, net, 0, 10 + n));
        // Hexadecimal in the configuration.
        let mac = mac.map(|byte| if byte == net { net / 10 * 16 + net % 10 } else { byte });
        let line = eth(mac, N3_MAC).service_vlan(vlan).vlan(1 + u16::from(n));
        let core = eth(ROUTER_MAC, N6_MAC).carrying(&ip4(server, address).udp(1, 2).filled(50));
        [(0, line.carrying(&ip4(address, server).udp(2, 1).filled(51)).build()), (1, core.build())]
    };
    let all = (0..SUBSCRIBERS_OF_A_GROUP as u8).flat_map(|n| [(64, 100, n), (65, 150, n)]);
    all.flat_map(of).collect()
}

#[test]
fn workers_of_a_broadband_gateway_receive_their_own_lines() {
    let run = |test: &str, room: i32| {
        let (_control, seats, flows) = broadband(test);
        let mut bench = Bench::new(test, seats, &flows, room);
        for (port, bytes) in lines() {
            bench.send(port, &bytes);
        }
        let out = ([bench.arrived(0), bench.arrived(1)], bench.handed(), bench.received());
        bench.close();
        out
    };
    let each = SUBSCRIBERS_OF_A_GROUP as usize;
    let (steered, handed, received) = run("lines", 64);
    assert_eq!((handed, received), (0, vec![2 * each as u64; 2]));
    assert_eq!([steered[0].len(), steered[1].len()], [2 * each; 2]);
    let (spread, handed, _) = run("unlines", -1);
    assert!(handed > each as u64 / 2, "{handed} handed over");
    assert!(spread == steered, "the same bytes");
}

#[test]
fn rules_follow_a_broadband_group_that_moves() {
    let (mut control, seats, flows) = broadband("moves");
    let mut bench = Bench::new("moves", seats, &flows, 64);
    let each = u64::from(SUBSCRIBERS_OF_A_GROUP);
    let lead = |bench: &mut Bench<_>| {
        let before = bench.received();
        lines().iter().for_each(|(port, bytes)| bench.send(*port, bytes));
        bench.received().iter().zip(before).map(|(now, then)| now - then).collect::<Vec<u64>>()
    };
    control.poll(0);
    bench.turn();
    assert_eq!((lead(&mut bench), bench.handed()), (vec![2 * each; 2], 0));
    control.move_group(0, 1).expect("it may move");
    // Milliseconds.
    for now in 1..200 {
        bench.clock.turn_to(now * 1_000_000);
        control.poll(now * 1_000_000);
        bench.turn();
    }
    assert!(!control.moves().is_busy());
    assert_eq!((lead(&mut bench), bench.handed()), (vec![0, 4 * each], 0));
    bench.close();
}

/// Two service groups, each a worker's, of two modems with four hosts each.
fn cable() -> (cmts::control::Control, Vec<cmts::assemble::WorkerInit>, Vec<Flows>) {
    let group = |n: u8| {
        format!(
            r#"
            [[service_group]]
            name = "sg{n}"
            rpd = "172.16.0.{}"
            mac = "02:00:00:00:0c:01"
            down_worker = {n}
            channel = [ {{ name = "ofdm", capacity = "1.89 Gbit/s", session = {} }} ]
            upstream_channel = [ {{ session = {}, capacity = "100 Mbit/s" }} ]
            [[service_group.modem]]
            count = 2
            mac = "02:cb:00:00:0{n}:01"
            profile = "home"
            hosts = 4
            ipv4 = "10.0.{n}.1"
            host_mac = "02:ca:00:00:0{n}:01"
            sid = 7
            "#,
            2 + n,
            0x1000 + u32::from(n),
            0x2000 + u32::from(n),
        )
    };
    let text = format!(
        r#"
        gateway = "cmts"
        workers.count = 2
        queues = {{ packets = 512 }}
        route = [ {{ to = "0.0.0.0/0", via = "10.0.6.254" }} ]
        neighbour = [
          {{ port = "cin", address = "172.16.0.2", mac = "02:00:00:00:03:64" }},
          {{ port = "cin", address = "172.16.0.3", mac = "02:00:00:00:03:64" }},
          {{ port = "nsi", address = "10.0.6.254", mac = "02:00:00:00:06:fe" }},
        ]
        profile = [ {{ name = "home", flow = [ {{ name = "best" }} ] }} ]
        [[port]]
        name = "cin"
        uri = "memory:cin"
        role = "rpd"
        addresses = ["172.16.0.1/16"]
        [[port]]
        name = "nsi"
        uri = "memory:nsi"
        role = "network"
        addresses = ["10.0.6.1/24"]
        {}{}"#,
        group(0),
        group(1)
    );
    let config: cmts::config::Config = toml::from_str(&text).expect("a configuration");
    let caps = [N3_MAC, N6_MAC].map(|mac| Caps { kind: "dpdk", mac, mtu: 1500, ..Caps::default() });
    let (control, seats) = cmts::assemble::assemble(&config, &caps).expect("a gateway");
    (control, seats, cmts::assemble::configured_flows(&config).expect("ranges"))
}

#[test]
fn workers_of_a_cable_gateway_receive_their_own_modems() {
    const HOSTS: u8 = 8;
    let server = Ipv4Addr::new(203, 0, 113, 7);
    let run = |test: &str, room: i32| {
        let (mut control, seats, flows) = cable();
        let mut bench = Bench::new(test, seats, &flows, room);
        control.poll(0);
        bench.turn();
        let handed = bench.handed();
        for (n, group) in (1..=HOSTS).flat_map(|n| [(n, 0), (n, 1)]) {
            let down = ip4(server, Ipv4Addr::new(10, 0, group, n)).udp(1, 2).filled(60);
            bench.send(1, &eth(ROUTER_MAC, N6_MAC).carrying(&down).build());
            // A burst of a pseudowire that is cut short: its owner drops it.
            let session = 0x2000 + u32::from(group);
            let up = eth(GNB_MAC, N3_MAC).ip4([172, 16, 0, 2 + group], [172, 16, 0, 1]).says(115);
            bench.send(0, &up.payload([&session.to_be_bytes()[..], &[0; 8]].concat()).build());
        }
        bench.clock.turn_to(20_000_000);
        bench.turn();
        let out = ([bench.arrived(0), bench.arrived(1)], bench.handed() - handed, bench.received());
        bench.close();
        out
    };
    let each = u64::from(HOSTS);
    let (steered, handed, received) = run("modems", 64);
    assert_eq!((handed, received), (0, vec![2 * each; 2]));
    // Frames of a device share packets.
    let carried: usize = steered[0].iter().map(Vec::len).sum();
    assert!(steered[0].len() > 1 && carried > 2 * usize::from(HOSTS) * 60, "{carried} bytes to devices");
    let (spread, handed, _) = run("unmodems", -1);
    assert!(handed > each / 2, "{handed} handed over");
    assert!(spread == steered, "the same bytes");
}
