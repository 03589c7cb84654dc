//! What making and checking a packet costs: `cargo run --release -p traffic --example rate`.

use std::time::Instant;

use frame::{Arena, ArenaConfig, Batch, Pool};
use traffic::{Checker, Direction, Generator, Plan, Profile, Sizes, Verify};

const BURST: usize = 32;
const PACKETS: usize = 8_000_000;

fn main() {
    println!(
        "{:>9} {:>9} {:>6} {:>10} {:>10} {:>10}",
        "users", "direction", "bytes", "make ns", "check ns", "verify ns"
    );
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
            println!("{ues:>9} {:>9} {bytes:>6} {make:>10.1} {check:>10.1} {verify:>10.1}", direction.as_str());
        }
    }
}

/// Nanoseconds a packet, the best of three.
fn measure(plan: &std::sync::Arc<Plan>, direction: Direction, verify: Option<Verify>) -> f64 {
    let arena = Arena::new(ArenaConfig::default()).expect("memory");
    let mut pool = Pool::new(&arena, 1024);
    let mut generator = Generator::new(plan, direction).expect("a plan that can be played");
    let mut checker = verify.map(|verify| Checker::new(plan, direction, verify));
    let mut batch = Batch::new();
    let once = |_| {
        let start = Instant::now();
        for burst in 0..PACKETS / BURST {
            generator.fill(&mut pool, &mut batch, BURST, burst as u64);
            if let Some(checker) = &mut checker {
                for frame in batch.frames() {
                    checker.check(pool.arena().bytes(frame), burst as u64);
                }
            }
            pool.give_all(&mut batch);
        }
        start.elapsed().as_nanos() as f64 / PACKETS as f64
    };
    let best = (0..3).map(once).fold(f64::MAX, f64::min);
    if let Some(checker) = checker {
        assert_eq!(checker.seen().received() as usize, 3 * PACKETS, "{:?}", checker.seen());
    }
    best
}
