//! Packets that wait for a neighbour's hardware address are not overtaken by later ones to it.

use std::net::Ipv4Addr;

use testkit::golden::Subject as _;
use testkit::packet::{Packet, eth};

use crate::device::Device;
use crate::golden_cases::{BASE, N6, N6_MAC, ROUTER, ROUTER_MAC, SERVER, UE, ip4, to_router, up};

/// Packets that a worker receives in a turn.
const TURN: usize = 64;

fn numbered(to: Ipv4Addr, n: u8) -> Packet {
    ip4(UE, to).udp(40_000, 50_000).payload([n; 9])
}

/// The gateway, no neighbour of which is known.
fn device() -> Device {
    let mut config: toml::Table = BASE.parse().expect("TOML");
    config.insert("neighbour".to_owned(), toml::Value::Array(Vec::new()));
    Device::start(&config).expect("a gateway")
}

/// Keeps the worker busy for the turn in which the answer of a neighbour is received.
fn busy_for_a_turn(device: &mut Device) {
    let spoofed = up(&ip4([10, 60, 0, 99], SERVER).udp(1, 2)).build();
    (0..TURN).for_each(|_| device.send("n3", &spoofed));
}

#[test]
fn new_tables_release_waiting_packets_before_the_command_does() {
    let mut device = device();
    (0..3).for_each(|n| device.send("n3", &up(&numbered(SERVER, n)).build()));
    device.settle();
    device.received("n6");
    // More commands than a worker takes in two turns stand before the one that releases the packets.
    for _ in 0..80 {
        device.control().measure(0, 0).expect("room in the ring");
    }
    device.send("n6", &eth(ROUTER_MAC, N6_MAC).arp_reply(ROUTER_MAC, ROUTER, N6_MAC, N6).padded().build());
    busy_for_a_turn(&mut device);
    (3..6).for_each(|n| device.send("n3", &up(&numbered(SERVER, n)).build()));
    device.settle();
    let expected: Vec<_> = (0..6).map(|n| to_router(&numbered(SERVER, n).ttl(63)).build()).collect();
    assert_eq!(device.received("n6"), expected);
    device.close().expect("every packet and every slot accounted for");
}

#[test]
fn more_waiting_packets_than_a_turn_releases_are_not_overtaken() {
    let mut device = device();
    let hosts: Vec<_> = (0..12).map(|host| Ipv4Addr::new(10, 0, 6, 20 + host)).collect();
    for host in &hosts {
        (0..64).for_each(|n| device.send("n3", &up(&numbered(*host, n)).build()));
    }
    device.settle();
    device.received("n6");
    for host in &hosts {
        device.send("n6", &eth(ROUTER_MAC, N6_MAC).arp_reply(ROUTER_MAC, *host, N6_MAC, N6).padded().build());
    }
    busy_for_a_turn(&mut device);
    hosts.iter().for_each(|host| device.send("n3", &up(&numbered(*host, 64)).build()));
    device.settle();
    let sent = device.received("n6");
    assert_eq!(sent.len(), hosts.len() * 65);
    for host in &hosts {
        let mine = sent.iter().filter(|frame| frame.get(30..34) == Some(&host.octets()[..]));
        let numbers: Vec<_> = mine.filter_map(|frame| frame.get(42).copied()).collect();
        assert_eq!(numbers, (0..65).collect::<Vec<_>>(), "to {host}");
    }
    device.close().expect("every packet and every slot accounted for");
}
