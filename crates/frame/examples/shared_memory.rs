//! What packet memory that another process can map (a memfd) costs beside private memory: cold reads and writes of packets'
//! headers in random order, over as many packets as a gateway holds, pair by pair.
//!
//! ```text
//! cargo run --release -p frame --example shared_memory
//! ```

use std::sync::Arc;
use std::time::Instant;

use frame::{Arena, ArenaConfig, Frame, Pool};

/// Pairs of a block, less than a millisecond each: on a busy machine the fastest tenth was not interrupted.
const PAIRS: usize = 200;
const BLOCKS: usize = 30;

/// Nanoseconds for a packet.
fn measure(arena: &Arena, frames: &mut [Frame]) -> f64 {
    let (begin, mut sum) = (Instant::now(), 0u64);
    for frame in frames.iter_mut() {
        let bytes = arena.bytes_mut(frame);
        bytes[14] = bytes[14].wrapping_add(1);
        sum += u64::from(bytes[0]) + u64::from(bytes[63]);
    }
    std::hint::black_box(sum);
    begin.elapsed().as_nanos() as f64 / frames.len() as f64
}

/// The value that a tenth is below.
fn tenth(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 10]
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
    for _ in 0..BLOCKS {
        let (mut a, mut b) = (Vec::new(), Vec::new());
        for pair in 0..PAIRS {
            // Either comes first as often.
            if pair % 2 == 0 {
                a.push(measure(&private, &mut of_private));
                b.push(measure(&shared, &mut of_shared));
            } else {
                b.push(measure(&shared, &mut of_shared));
                a.push(measure(&private, &mut of_private));
            }
        }
        ratios.push(tenth(&mut b) / tenth(&mut a));
    }
    ratios.sort_by(f64::total_cmp);
    // The interval of the median with 95 % confidence, by order statistics of 30 values.
    println!("shared / private: median {:.3}, 95 % interval {:.3} to {:.3}", ratios[BLOCKS / 2], ratios[9], ratios[20]);
    Ok(())
}
