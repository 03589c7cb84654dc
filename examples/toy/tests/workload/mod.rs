//! What the benchmark puts the gateway under: 256 subscribers behind a VLAN, a packet up for each down.

use bench::routed::{PortTraffic, Workload};
use testkit::packet::{Packet, eth};
use toy::Toy;

const ACCESS: [u8; 6] = [2, 0, 0, 0, 1, 1];
const CORE: [u8; 6] = [2, 0, 0, 0, 2, 1];
const ROUTER: [u8; 6] = [2, 0, 0, 0, 2, 2];

/// The hardware address of a subscriber, 10.1.0.0 and up.
fn subscriber(n: u8) -> [u8; 6] {
    [2, 0, 0, 1, 0, n]
}

/// An IPv4 packet with so many tags, one hop further.
fn is_packet(frame: &[u8], tags: u8) -> bool {
    let outer = wire::Outer::parse(frame).unwrap_or_default();
    outer.tags == tags && outer.ethertype == wire::ethertype::IP4 && frame.get(usize::from(outer.l3) + 8) == Some(&63)
}

/// With the example's configuration, but without limits that police most of it.
pub fn workload() -> Workload<Toy> {
    let mut text = include_str!("../../toy.toml").replace("50 Mbit/s", "100 Gbit/s");
    for (port, address, mac) in (0..=255).map(|n| ("access", format!("10.1.0.{n}"), subscriber(n))).chain([(
        "core",
        "198.18.0.254".to_owned(),
        ROUTER,
    )]) {
        let mac = mac.map(|byte| format!("{byte:02x}")).join(":");
        text += &format!("\n[[neighbour]]\nport = \"{port}\"\naddress = \"{address}\"\nmac = \"{mac}\"\n");
    }
    let up = |n| packet(eth(subscriber(n), ACCESS).vlan(100).ip4([10, 1, 0, n], [203, 0, 113, n]));
    let down = |n| packet(eth(ROUTER, CORE).ip4([203, 0, 113, n], [10, 1, 0, n]));
    let ports = [
        PortTraffic { mac: ACCESS, frames: (0..=255).map(up).collect(), is_right: |frame| is_packet(frame, 1) },
        PortTraffic { mac: CORE, frames: (0..=255).map(down).collect(), is_right: |frame| is_packet(frame, 0) },
    ];
    let config = toml::from_str(&text).expect("the example and its neighbours");
    Workload { name: "toy-256", config, subscribers: 256, ports: ports.into() }
}

/// A datagram of 128 bytes, without its link header.
fn packet(headers: Packet) -> Vec<u8> {
    headers.udp(1000, 2000).payload([0; 100]).build()
}
