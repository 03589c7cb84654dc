//! What BPI+ costs: cycles a frame by size, 300 keys, both ways. `cargo run --release -p crypto --example bpi_rate`

use std::sync::Arc;
use std::time::Instant;

use crypto::{Crc, Direction, Engine, Job, Key, KeyId};
use frame::{Arena, ArenaConfig, Pool};

const BURST: usize = 32;
const BURSTS: usize = 64;

fn cycles() -> u64 {
    #[cfg(target_arch = "x86_64")]
    #[allow(unsafe_code)]
    // SAFETY: reads the time stamp counter.
    return unsafe { core::arch::x86_64::_rdtsc() };
    #[cfg(not(target_arch = "x86_64"))]
    0
}

/// Cycles a frame. Frames leave as they came, so that encrypting again is the same work.
fn measure(mut engine: Engine, arena: &Arc<Arena>, sizes: &[usize], crc: Crc) -> f64 {
    let mut pool = Pool::new(arena, 512);
    let keys: Vec<KeyId> = (0..300u16)
        .map(|n| {
            let mut key = [7; 16];
            key[..2].copy_from_slice(&n.to_le_bytes());
            engine.insert(&Key::aes128(key, [n as u8; 16]))
        })
        .collect();
    let bytes = vec![0x5a; 2000];
    let mut windows = Vec::new();
    let mut which = 0;
    let mut out: Vec<_> = Vec::with_capacity(256);
    let started = Instant::now();
    while started.elapsed().as_millis() < 300 {
        // Windows of less than a scheduler's slice: the best quarter of them had the processor for themselves.
        let mut spent = 0;
        for _ in 0..BURSTS {
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
            engine.run(arena);
            while let Some(done) = engine.pop() {
                out.push(done.frame);
            }
            spent += cycles() - from;
            out.drain(..).for_each(|frame| pool.give(frame));
        }
        windows.push(spent as f64 / (BURSTS * BURST) as f64);
    }
    windows.sort_by(f64::total_cmp);
    engine.flush(arena);
    while let Some(done) = engine.pop() {
        pool.give(done.frame);
    }
    windows[windows.len() / 4]
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
    for make in [Engine::new as fn(_) -> Engine, Engine::soft] {
        println!("{}", make(Direction::Encrypt).by());
        println!("{:>6}{:>12}{:>12}{:>12}{:>12}", "bytes", "crc+enc", "enc", "dec+crc", "dec");
        for (name, sizes) in &cases {
            let of = |way, crc| measure(make(way), &arena, sizes, crc);
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
