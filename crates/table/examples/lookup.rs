//! Nanoseconds per lookup, one at a time and by the burst, on small and on large pages.
//!
//! `cargo run --release -p table --example lookup`

use std::hint::black_box;

use table::bulk::{BulkMap, Seed};
use table::records::{LineId, Lines};

/// Medians of this many rounds.
const ROUNDS: usize = 9;
const BURST: usize = 32;

fn main() {
    println!("{:<8} {:<24} {:>8} {:>8} {:>8} {:>10}", "entries", "pages", "single", "batch", "miss", "batch+line");
    for huge in [false, true] {
        // SAFETY: switches transparent huge pages off or on for mappings this process makes from now on.
        unsafe { libc::prctl(libc::PR_SET_THP_DISABLE, u64::from(!huge), 0u64, 0u64, 0u64) };
        for entries in [1_000, 100_000, 1_000_000] {
            measure(entries, huge);
        }
    }
}

fn measure(entries: u32, huge: bool) {
    let Ok(mut map) = BulkMap::<u32, u32>::with_capacity(entries as usize, Seed::random()) else {
        return println!("{entries}: no memory");
    };
    let Ok(mut lines) = Lines::with_capacity(entries as usize) else { return println!("{entries}: no memory") };
    let key = |i: u32| i.wrapping_mul(0x9e37_79b1);
    for i in 0..entries {
        let id = lines.alloc(1).expect("reserved");
        map.insert(key(i), id.0).expect("reserved");
    }
    let lookups = 1 << 20;
    let mut state = 1u64;
    let mut random = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as u32
    };
    let hits: Vec<u32> = (0..lookups).map(|_| key(random() % entries)).collect();
    let misses: Vec<u32> = (0..lookups).map(|_| key(entries + random() % entries)).collect();

    let single = median(&hits, |keys| keys.iter().map(|&k| u64::from(map.get(k).unwrap_or(0))).sum());
    let batch = median(&hits, |keys| bursts(&map, keys));
    let miss = median(&misses, |keys| bursts(&map, keys));
    let record = median(&hits, |keys| {
        let mut sum = 0;
        let mut out = [None; BURST];
        for keys in keys.chunks_exact(BURST) {
            map.lookup_batch(keys, &mut out);
            out.iter().flatten().for_each(|&id| lines.prefetch(LineId(id), 0));
            sum += out.iter().flatten().filter_map(|&id| Some(lines.get(LineId(id), 1)?[0].0[0])).sum::<u64>();
        }
        sum
    });
    let pages = if huge { map.backing().as_str() } else { "4 KiB pages" };
    println!("{entries:<8} {pages:<24} {single:>8.1} {batch:>8.1} {miss:>8.1} {record:>10.1}");
}

fn bursts(map: &BulkMap<u32, u32>, keys: &[u32]) -> u64 {
    let mut out = [None; BURST];
    let mut sum = 0;
    for keys in keys.chunks_exact(BURST) {
        map.lookup_batch(keys, &mut out);
        sum += out.iter().flatten().map(|&v| u64::from(v)).sum::<u64>();
    }
    sum
}

fn median(keys: &[u32], run: impl Fn(&[u32]) -> u64) -> f64 {
    let mut times: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let start = cpu_ns();
            black_box(run(black_box(keys)));
            (cpu_ns() - start) as f64 / keys.len() as f64
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times[ROUNDS / 2]
}

/// What this thread has worked so far: on a shared machine the waiting is not the table's.
fn cpu_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: one valid timespec to write.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
