//! What packet memory that another process can map (a memfd) costs beside private memory: cold reads and writes of packets'
//! headers in random order, over as many packets as a gateway holds, pair by pair.
//!
//! ```text
//! cargo run --release -p frame --example shared_memory
//! ```

use std::sync::Arc;
use std::time::Instant;

use frame::{Arena, ArenaConfig, Frame, Pool};

const PAIRS: usize = 30;
const ROUNDS: usize = 20;

/// Nanoseconds for a packet.
fn measure(arena: &Arena, frames: &mut [Frame]) -> f64 {
    let (begin, mut sum) = (Instant::now(), 0u64);
    for round in 0..ROUNDS {
        for frame in frames.iter_mut() {
            let bytes = arena.bytes_mut(frame);
            bytes[14] = round as u8; // a counter, nothing more
            sum += u64::from(bytes[0]) + u64::from(bytes[63]);
        }
    }
    std::hint::black_box(sum);
    begin.elapsed().as_nanos() as f64 / (ROUNDS * frames.len()) as f64
}

fn frames(arena: &Arc<Arena>) -> Vec<Frame> {
    let mut pool = Pool::new(arena, arena.shape().slots as usize);
    let mut frames: Vec<Frame> = std::iter::from_fn(|| pool.make(&[7; 128])).collect();
    let mut random = 1u64;
    for at in (1..frames.len()).rev() {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        frames.swap(at, (random >> 33) as usize % (at + 1));
    }
    frames
}

fn main() -> std::io::Result<()> {
    let config = ArenaConfig { slots: 65_536, ..ArenaConfig::default() };
    let (private, shared) = (Arena::new(config)?, Arena::shared(config)?);
    println!("private: {}; shared: {}", private.backing().as_str(), shared.backing().as_str());
    let (mut of_private, mut of_shared) = (frames(&private), frames(&shared));
    let mut ratios = Vec::new();
    for pair in 0..=PAIRS {
        let (a, b) = (measure(&private, &mut of_private), measure(&shared, &mut of_shared));
        // The first warms up.
        if pair > 0 {
            ratios.push(b / a);
        }
        if pair == PAIRS {
            println!("the last pair: {a:.1} ns and {b:.1} ns a packet");
        }
    }
    ratios.sort_by(f64::total_cmp);
    // The interval of the median with 95 % confidence, by order statistics of 30 values.
    println!("shared / private: median {:.3}, 95 % interval {:.3} to {:.3}", ratios[PAIRS / 2], ratios[9], ratios[20]);
    Ok(())
}
