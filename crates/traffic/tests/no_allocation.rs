//! Generating, checking and steering allocate nothing once they are set up.

use std::time::Duration;

use frame::{Arena, ArenaConfig, Batch, Pool, Port};
use port::memory::{Memory, Wire};
use traffic::{Clock, Direction, Generator, Load, LoadOptions, LoadPort, Plan, Profile, Schedule, Sizes, Verify};

#[global_allocator]
static ALLOC: pages::Counting<std::alloc::System> = pages::Counting(std::alloc::System);

fn profile() -> Profile {
    let uplink_sizes = Sizes::mix(&[(64, 1), (512, 2), (1400, 1)]);
    let (bearers, flows_per_bearer, qfis) = (2, 4, vec![9, 1]);
    let (ues, ipv6_share, new_flows) = (5000, 0.2, 0.1);
    Profile { ues, bearers, flows_per_bearer, qfis, ipv6_share, new_flows, uplink_sizes, ..Profile::default() }
}

#[test]
fn a_load_in_process_allocates_nothing_per_packet() {
    let plan = Plan::new(profile()).unwrap();
    let arena = Arena::new(ArenaConfig { slots: 256, ..ArenaConfig::default() }).unwrap();
    let mut pool = Pool::new(&arena, 256);
    // What goes in at N3 comes out at N6 as it is: the checker is told not to mind.
    let (mut n3, mut n6, handle) = LoadPort::pair(&plan, Verify::NONE, Clock::tsc(), false).unwrap();
    handle.start(&Schedule::default());
    let mut batch = Batch::new();
    let before = pages::allocations_on_this_thread();
    for _ in 0..2000 {
        n3.rx_burst(&mut pool, &mut batch);
        n6.tx_burst(&mut pool, &mut batch);
        n6.rx_burst(&mut pool, &mut batch);
        n3.tx_burst(&mut pool, &mut batch);
        assert!(batch.is_empty());
    }
    assert_eq!(pages::allocations_on_this_thread(), before);
    let result = handle.result();
    assert_eq!(result.directions.uplink.forwarded_packets, 128_000);
    assert_eq!(result.directions.downlink.forwarded_packets, 128_000);
}

#[test]
fn a_load_over_ports_allocates_nothing_when_idle_or_refused() {
    let plan = Plan::new(profile()).unwrap();
    let arena = Arena::new(ArenaConfig { slots: 256, ..ArenaConfig::default() }).unwrap();
    let wire = Wire::default();
    let n3 = Box::new(Memory::new("n3", [2, 0, 0, 0, 0, 1], &wire));
    let options = LoadOptions::default();
    let mut load = Load::new(&plan, Some(n3), None, Pool::new(&arena, 256), options).unwrap();
    // The memory port itself allocates for what it takes.
    wire.limit(Some(0));
    load.start(&Schedule { pps: Some(1e6), catch_up: Duration::from_millis(1), ..Schedule::default() });
    load.turn();
    let before = pages::allocations_on_this_thread();
    for _ in 0..10_000 {
        load.turn();
    }
    assert_eq!(pages::allocations_on_this_thread(), before);
}

#[test]
fn a_generator_allocates_nothing() {
    let plan = Plan::new(profile()).unwrap();
    for direction in Direction::BOTH {
        let mut generator = Generator::new(&plan, direction).unwrap();
        let mut space = vec![0; 2048];
        let before = pages::allocations_on_this_thread();
        for now in 0..100_000 {
            generator.next(&mut space, now).unwrap();
        }
        assert_eq!(pages::allocations_on_this_thread(), before);
    }
}
