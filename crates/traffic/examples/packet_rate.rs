//! What making and checking a packet costs: `cargo run --release -p traffic --example packet_rate`.

use std::sync::Arc;
use std::time::Instant;

use frame::{Arena, ArenaConfig, Batch, Pool, Port};
use traffic::{Checker, Clock, Direction, Generator, LoadPort, Plan, Profile, Schedule, Sizes, Verify};

const BURST: usize = 32;
/// Packets of a run, and runs.
const RUN: usize = 32_000;
const RUNS: usize = 200;

fn main() {
    println!("    users direction  bytes    make ns   check ns  verify ns   ports ns");
    for ues in [1_000, 100_000, 1_000_000] {
        for (direction, bytes) in [(Direction::Uplink, 128), (Direction::Downlink, 128), (Direction::Uplink, 1400)] {
            let profile = Profile {
                ues,
                bearers: 2,
                flows_per_bearer: 4,
                qfis: vec![9, 1],
                uplink_sizes: Sizes::Fixed(bytes),
                downlink_sizes: Sizes::Fixed(bytes),
                ..Profile::default()
            };
            let plan = Plan::new(profile).expect("a profile that can be played");
            let make = measure(&plan, direction, None);
            let check = measure(&plan, direction, Some(Verify::NONE)) - make;
            let verify = measure(&plan, direction, Some(Verify { addresses: true, ..Verify::NONE })) - make;
            let ports = ports(&plan);
            let way = direction.as_str();
            println!("{ues:>9} {way:>9} {bytes:>6} {make:>10.1} {check:>10.1} {verify:>10.1} {ports:>10.1}");
        }
    }
}

/// Nanoseconds a packet: the median of the fastest tenth of runs, because the machine has others to serve.
fn measure(plan: &Arc<Plan>, direction: Direction, verify: Option<Verify>) -> f64 {
    let arena = Arena::new(ArenaConfig::default()).expect("memory");
    let mut pool = Pool::new(&arena, 1024);
    let mut generator = Generator::new(plan, direction).expect("a plan that can be played");
    // Uplink packets are checked in their tunnels, downlink packets without: the reverse of what a gateway leaves.
    let mut checker = verify.map(|verify| Checker::new(plan, direction, verify));
    let mut batch = Batch::new();
    let mut once = |_| {
        let start = Instant::now();
        for burst in 0..RUN / BURST {
            generator.fill(&mut pool, &mut batch, BURST, burst as u64);
            if let Some(checker) = &mut checker {
                for frame in batch.frames() {
                    checker.check(pool.arena().bytes(frame), burst as u64);
                }
            }
            pool.give_all(&mut batch);
        }
        start.elapsed().as_nanos() as f64 / RUN as f64
    };
    // Until every flow's state has been touched.
    for run in 0..plan.flow_count() as usize / RUN + 1 {
        once(run);
    }
    let mut runs: Vec<f64> = (0..RUNS).map(once).collect();
    runs.sort_by(f64::total_cmp);
    if let Some(checker) = checker {
        assert_eq!(checker.seen().received(), checker.seen().all(), "{:?}", checker.seen());
    }
    runs[RUNS / 20]
}

/// Nanoseconds a packet, both directions, from one [`LoadPort`] straight into the other: made and checked.
fn ports(plan: &Arc<Plan>) -> f64 {
    let arena = Arena::new(ArenaConfig::default()).expect("memory");
    let mut pool = Pool::new(&arena, 1024);
    let (mut n3, mut n6, load) =
        LoadPort::pair(plan, Verify::NONE, Clock::tsc(), false).expect("a plan that can be played");
    load.start(&Schedule::default());
    let mut batch = Batch::new();
    let mut once = |_| {
        let (start, mut moved) = (Instant::now(), 0);
        while moved < RUN {
            moved += n3.rx_burst(&mut pool, &mut batch);
            n6.tx_burst(&mut pool, &mut batch);
            moved += n6.rx_burst(&mut pool, &mut batch);
            n3.tx_burst(&mut pool, &mut batch);
        }
        start.elapsed().as_nanos() as f64 / moved as f64
    };
    let mut runs: Vec<f64> = (0..2 * plan.flow_count() as usize / RUN + RUNS).map(&mut once).collect();
    runs.sort_by(f64::total_cmp);
    runs[runs.len() / 20]
}
