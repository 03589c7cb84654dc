//! What BPI+ costs: cycles a frame by size, 300 keys, both ways. `cargo run --release -p crypto --example rate`

use std::sync::Arc;
use std::time::Instant;

use crypto::{Crc, Direction, Engine, Job, Key, KeyId};
use frame::{Arena, ArenaConfig, Pool};

const BURST: usize = 32;

fn cycles() -> u64 {
    #[cfg(target_arch = "x86_64")]
    #[allow(unsafe_code)]
    // SAFETY: reads the time stamp counter.
    return unsafe { core::arch::x86_64::_rdtsc() };
    #[cfg(not(target_arch = "x86_64"))]
    0
}

/// Cycles a frame. Frames leave as they came, so that encrypting again is the same work.
fn measure(mut engine: Engine, arena: &Arc<Arena>, sizes: &[usize], crc: Crc, adds: bool) -> f64 {
    let mut pool = Pool::new(arena, 512);
    let keys: Vec<KeyId> = (0..300u16)
        .map(|n| {
            let mut key = [7; 16];
            key[..2].copy_from_slice(&n.to_le_bytes());
            engine.insert(&Key::aes128(key, [n as u8; 16]))
        })
        .collect();
    let bytes = vec![0x5a; 2000];
    let mut best = f64::MAX;
    let mut which = 0;
    for _ in 0..7 {
        let (mut spent, mut frames, started) = (0, 0u64, Instant::now());
        while started.elapsed().as_millis() < 60 {
            let mut batch: Vec<_> = (0..BURST)
                .map(|_| {
                    which += 1;
                    let size = sizes[which * 7 % sizes.len()];
                    (pool.make(&bytes[..size]).expect("a slot"), keys[which * 41 % keys.len()])
                })
                .collect();
            let from = cycles();
            for (frame, key) in batch.drain(..) {
                let job = Job { key, at: 0, crc, tag: 0 };
                engine.push(frame, job).expect("room");
            }
            engine.run();
            let mut out: Vec<_> = Vec::with_capacity(128);
            while let Some(done) = engine.pop() {
                out.push(done);
            }
            spent += cycles() - from;
            frames += BURST as u64;
            for done in out {
                assert!(adds || crc == Crc::Left || done.outcome != crypto::Outcome::Short);
                pool.give(done.frame);
            }
        }
        best = best.min(spent as f64 / frames as f64);
    }
    engine.flush();
    while let Some(done) = engine.pop() {
        pool.give(done.frame);
    }
    best
}

fn main() {
    let arena = Arena::new(ArenaConfig { slots: 512, slot_bytes: 2048, headroom: 64 }).expect("an arena");
    // 15 % 84, 10 % 256, 75 % 1280 bytes.
    let imix: Vec<usize> = (0..20).map(|n| [84, 84, 84, 256, 256, 1280][n.min(5)]).collect();
    let cases: Vec<(String, Vec<usize>)> = [64, 256, 512, 1024, 1280, 1518]
        .map(|size| (size.to_string(), vec![size]))
        .into_iter()
        .chain([("imix".to_owned(), imix)])
        .collect();
    for make in [Engine::new as fn(_, &_) -> Engine, Engine::soft] {
        println!("{}", make(Direction::Encrypt, &arena).by());
        println!("{:>6}{:>12}{:>12}{:>12}{:>12}", "bytes", "crc+enc", "enc", "dec+crc", "dec");
        for (name, sizes) in &cases {
            let of = |way, crc| measure(make(way, &arena), &arena, sizes, crc, way == Direction::Encrypt);
            println!(
                "{name:>6}{:>12.0}{:>12.0}{:>12.0}{:>12.0}",
                of(Direction::Encrypt, Crc::Done),
                of(Direction::Encrypt, Crc::Left),
                of(Direction::Decrypt, Crc::Done),
                of(Direction::Decrypt, Crc::Left)
            );
        }
    }
}
