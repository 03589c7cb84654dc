//! When memory or queues run out: counted by name, nothing lost, and well again afterwards.

use serde::Deserialize as _;
use testkit::golden::{Counters, Subject as _};

use crate::device::Device;
use crate::golden_cases::{SERVER, UE, from_router, ip4, request, to_router, up};

/// Large packets from access, small ones to the core: each is cut into seventeen.
fn device(slots: u32) -> Device {
    let config = format!(
        r#"
        gateway = "upf"
        frames = {{ packet_buffers = {slots}, packet_buffer_bytes = 9600 }}
        route = [{{ to = "0.0.0.0/0", next_hop = "10.0.6.254" }}]
        neighbour = [{{ port = "n6", address = "10.0.6.254", mac = "02:00:00:00:06:fe" }}]
        port = [
          {{ name = "n3", uri = "memory:n3?mac=02:00:00:00:03:01", role = "access", addresses = ["10.0.3.1/24"] }},
          {{ name = "n6", uri = "memory:n6?mac=02:00:00:00:06:01", role = "core", addresses = ["10.0.6.1/24"], mtu = 576 }},
        ]
        simulate = {{ ues = 1, bearer = [{{ qfi = 9 }}] }}"#
    );
    let config: toml::Table = config.parse().expect("TOML");
    Device::new(upf::config::Config::deserialize(config).expect("a configuration")).expect("a gateway")
}

/// Sends `count` packets of seventeen fragments each at once; returns how many fragments left, and what was counted.
fn cut(device: &mut Device, count: usize) -> (usize, Counters) {
    let large = up(&ip4(UE, SERVER).may_fragment().udp(40_000, 50_000).filled(8900)).build();
    (0..count).for_each(|_| device.send("n3", &large));
    device.settle();
    (device.received("n6").len(), device.counters())
}

fn dropped(counters: &Counters, name: &str) -> usize {
    counters.drops.get(name).map_or(0, |dropped| dropped.packets as usize)
}

/// An ordinary packet passes, and the books are even.
fn is_well(mut device: Device) {
    device.send("n3", &up(&request(UE)).build());
    device.send("n6", &from_router(&request(SERVER)).build());
    device.settle();
    assert_eq!(device.received("n6"), [to_router(&request(UE).ttl(63)).build()]);
    device.close().expect("every packet and every slot accounted for");
}

#[test]
fn fragments_without_a_slot_are_counted() {
    let mut device = device(1024);
    let (left, counters) = cut(&mut device, 64);
    let missing = dropped(&counters, "worker.no_frame");
    assert!(missing > 0, "memory was to run out");
    assert_eq!((left + missing, dropped(&counters, "worker.out_queue_full")), (64 * 17, 0));
    is_well(device);
}

#[test]
fn fragments_without_a_place_in_the_queue_are_counted() {
    let mut device = device(4096);
    let (left, counters) = cut(&mut device, 64);
    let missing = dropped(&counters, "worker.out_queue_full");
    assert!(missing > 0, "the queue was to be full");
    assert_eq!((left + missing, dropped(&counters, "worker.no_frame")), (64 * 17, 0));
    is_well(device);
}
