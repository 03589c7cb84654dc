//! Interfaces that come and go.

use frame::{Batch, Link, Port};
use port::xdp::XdpConfig;

use super::bench::{Memory, Net, packet, until};

#[test]
fn every_slot_is_back_after_close_whatever_was_under_way() {
    let net = Net::new("close");
    net.pair(0, 1);
    let mut memory = Memory::new(1024);
    for round in 0..5 {
        let mut port = memory.open(net.config("a0"));
        let tap = net.tap("b0");
        // Some received and not fetched, some fetched and held, some handed to the ring and not kicked.
        (0..100).for_each(|at| tap.send(&packet(at, 60)));
        let mut batch = Batch::new();
        until("received", || port.rx_burst(&mut memory.pool, &mut batch) > 0);
        let mut out = Batch::new();
        (0..20).for_each(|at| out.push(memory.pool.make(&packet(at, 100)).expect("a slot")).expect("room"));
        assert_eq!(port.tx_burst(&mut memory.pool, &mut out), 20);
        assert_eq!(memory.free() + port.held() + batch.len(), 1024, "round {round}");
        port.close(&mut memory.pool);
        assert_eq!((port.held(), memory.free() + batch.len()), (0, 1024), "round {round}");
        assert_eq!(tap.drain().len(), 20, "accepted is sent, also when closed at once");
        port.kick(&mut memory.pool);
        port.service(&mut memory.pool);
        assert_eq!(port.tx_burst(&mut memory.pool, &mut batch), 0);
        memory.pool.give_all(&mut batch);
        assert_eq!(port.held(), 0, "closed is closed");
    }
}

#[test]
fn a_queue_can_be_had_again_at_once() {
    let net = Net::new("rebind");
    net.pair(0, 1);
    let tap = net.tap("b0");
    let mut memory = Memory::new(1024);
    for round in 0..20 {
        let mut port = memory.open(net.config("a0"));
        tap.send(&packet(round, 60));
        assert_eq!(memory.receive(&mut port, 1), [packet(round, 60)]);
        port.close(&mut memory.pool);
        assert_eq!(memory.free(), 1024);
    }
    // Dropped without being closed: the queue is free as well, only the slots are gone.
    drop(memory.open(net.config("a0")));
    let mut port = memory.open(net.config("a0"));
    port.close(&mut memory.pool);
    assert_eq!(memory.free(), 512);
}

#[test]
fn a_link_that_goes_down_comes_back() {
    let net = Net::new("down");
    net.pair(0, 1);
    let tap = net.tap("b0");
    let mut memory = Memory::new(1024);
    let mut port = memory.open(net.config("a0"));
    assert_eq!(port.caps().link, Link::Up);
    for (times, interface) in [(1, "a0"), (2, "b0")] {
        net.ip(&format!("link set {interface} down"));
        until("down", || {
            port.kick(&mut memory.pool);
            port.service(&mut memory.pool);
            port.caps().link == Link::Down
        });
        let mut batch = Batch::new();
        batch.push(memory.pool.make(&packet(1, 60)).expect("a slot")).expect("room");
        assert_eq!(port.tx_burst(&mut memory.pool, &mut batch), 0);
        memory.pool.give_all(&mut batch);
        assert_eq!(port.counters().tx_link_down, times);
        net.ip(&format!("link set {interface} up"));
        until("up", || {
            port.kick(&mut memory.pool);
            port.service(&mut memory.pool);
            port.caps().link == Link::Up
        });
        tap.drain();
        memory.send(&mut port, &[packet(2, 60)]);
        assert_eq!(tap.drain(), [packet(2, 60)]);
        tap.send(&packet(3, 60));
        assert_eq!(memory.receive(&mut port, 1), [packet(3, 60)]);
        let counters = port.counters();
        assert_eq!((counters.link_losses, counters.link_returns), (times, times));
    }
    assert_eq!(memory.free() + port.held(), 1024);
    // Closed while down, it gives everything back as well.
    net.ip("link set a0 down");
    port.close(&mut memory.pool);
    assert_eq!(memory.free(), 1024);
}

#[test]
fn an_interface_removed_and_made_again_is_found() {
    let net = Net::new("gone");
    let mut memory = Memory::new(2048);
    net.pair(0, 2);
    // Two ports on one interface: both must come back, on one new program.
    let at = |queue| XdpConfig { queue, ..net.config("a0") };
    let mut ports = [memory.open(at(0)), memory.open(at(1))];
    for times in 1..=3 {
        // Received packets that nobody fetched before it went are still had.
        net.tap("b0").send(&packet(9, 60));
        net.ip("link del a0");
        let mut fetched = 0;
        until("gone", || {
            for port in &mut ports {
                let mut batch = Batch::new();
                fetched += port.rx_burst(&mut memory.pool, &mut batch);
                memory.pool.give_all(&mut batch);
                port.kick(&mut memory.pool);
                port.service(&mut memory.pool);
            }
            ports.iter().all(|port| port.caps().link == Link::Gone && port.held() == 0)
        });
        assert_eq!((fetched, memory.free()), (1, 2048));
        let mut batch = Batch::new();
        batch.push(memory.pool.make(&packet(1, 60)).expect("a slot")).expect("room");
        assert_eq!(ports[0].tx_burst(&mut memory.pool, &mut batch), 0);
        memory.pool.give_all(&mut batch);
        assert!(ports[0].wait_fd().is_none());
        net.pair(0, 2);
        until("back", || {
            ports.iter_mut().for_each(|port| {
                port.kick(&mut memory.pool);
                port.service(&mut memory.pool);
            });
            ports.iter().all(|port| port.caps().link == Link::Up && port.held() == 512)
        });
        let tap = net.tap("b0");
        for port in &mut ports {
            memory.send(port, &[packet(5, 60)]);
            assert_eq!(tap.drain(), [packet(5, 60)]);
            assert_eq!((port.counters().link_losses, port.counters().link_returns), (times, times));
        }
    }
    ports.iter_mut().for_each(|port| port.close(&mut memory.pool));
    assert_eq!(memory.free(), 2048);
}

#[test]
fn what_was_under_way_when_the_interface_went_is_told() {
    let net = Net::new("lost");
    net.pair(0, 1);
    let mut memory = Memory::new(1024);
    let mut port = memory.open(net.config("a0"));
    let mut batch = Batch::new();
    (0..10).for_each(|at| batch.push(memory.pool.make(&packet(at, 60)).expect("a slot")).expect("room"));
    net.ip("link del a0");
    // The port does not know yet.
    assert_eq!(port.tx_burst(&mut memory.pool, &mut batch), 10);
    until("gone", || {
        port.kick(&mut memory.pool);
        port.service(&mut memory.pool);
        port.caps().link == Link::Gone
    });
    assert_eq!((port.counters().tx_packets, port.counters().tx_lost), (10, 10));
    assert_eq!((port.held(), memory.free()), (0, 1024));
    port.close(&mut memory.pool);
}
