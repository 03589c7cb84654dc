//! Nanoseconds per operation of the smaller parts: longest-prefix match, token bucket, timer wheel, ring, snapshot,
//! counters, histogram, clock.
//!
//! `cargo run --release -p table --example costs`

use std::hint::black_box;
use std::time::Instant;

use table::bucket::{self, Config, Rate, State};
use table::hint::{TscClock, tsc};
use table::histogram::Histogram;
use table::lpm::{Address, Lpm, Prefix};
use table::ring::ring;
use table::shard::Counters;
use table::snapshot::Publisher;
use table::wheel::Wheel;

const N: usize = 1 << 20;

fn main() {
    let mut random = random();
    routes::<u32>("IPv4, 1M routes /16../24", 1_000_000, &mut random, |r| r as u32, |r| 16 + (r % 9) as u8);
    routes::<u32>("IPv4, 100 routes", 100, &mut random, |r| r as u32, |r| 8 + (r % 17) as u8);
    let v6 = |r: u64| 0x2 << 124 | u128::from(r & 0x0fff_0fff_ffff_ffff) << 64 | u128::from(r);
    routes::<u128>("IPv6, 200k routes /32../48", 200_000, &mut random, v6, |r| 32 + (r % 17) as u8);

    let config = Config::new(Rate::gbps(1), 100_000);
    let mut state = State::default();
    report("token bucket: conform", N, |i| u64::from(bucket::conform(&config, &mut state, i as u64 * 100, 100)));

    let mut wheel = Wheel::new(100_000, 0);
    let mut handles: Vec<_> = (0..100_000u32).filter_map(|i| wheel.insert(random() >> 40, i)).collect();
    report("timer wheel: cancel and set", N, |i| {
        let slot = i % handles.len();
        let payload = wheel.cancel(handles[slot]).unwrap_or(0);
        handles[slot] = wheel.insert(random() >> 40, payload).unwrap_or(handles[slot]);
        u64::from(payload)
    });
    let mut now = 0;
    report("timer wheel: fire and set again", N, |_| {
        loop {
            if let Some((_, payload)) = wheel.pop(now) {
                wheel.insert(now + (random() >> 50), payload);
                break u64::from(payload);
            }
            now += 1;
        }
    });

    let (mut tx, mut rx) = ring::<u64>(512);
    report("ring: push and pop by 32, one thread", N / 32, |i| {
        let mut sum = 0;
        tx.push_batch(&mut [i as u64; 32].into_iter());
        rx.pop_batch(32, |v| sum += v);
        sum
    });

    let publisher = Publisher::new(7u64);
    let mut reader = publisher.reader();
    report("snapshot: get, unchanged", N, |_| *reader.get());

    let counters = Counters::new(64);
    let shard = counters.shard();
    report("counter: add", N, |i| {
        shard.add(i & 63, 1);
        0
    });

    let mut histogram = Histogram::new();
    report("histogram: record", N, |i| {
        histogram.record(i as u64);
        0
    });
    report("tsc", N, |_| tsc());
    let clock = TscClock::start();
    report("tsc as nanoseconds", N, |_| clock.now_ns());
    println!("{:<36} {:>9} Hz", "tsc rate", clock.hz());
}

fn routes<A: Address>(
    name: &str,
    n: usize,
    random: &mut impl FnMut() -> u64,
    address: impl Fn(u64) -> A,
    len: impl Fn(u64) -> u8,
) {
    let mut table = Lpm::new();
    let prefixes: Vec<_> = (0..n).filter_map(|_| Prefix::new(address(random()), len(random()))).collect();
    let start = Instant::now();
    for (i, &prefix) in prefixes.iter().enumerate() {
        table.insert(prefix, i as u32);
    }
    let insert = start.elapsed().as_nanos() as usize / n;
    let addresses: Vec<_> = (0..N).map(|_| prefixes[random() as usize % n].address()).collect();
    let mut out = vec![None; 32];
    println!("{name}: {} prefixes, {} kB, {insert} ns to insert", table.len(), table.bytes() / 1000);
    report("  lookup", N, |i| u64::from(table.lookup(addresses[i]).unwrap_or(0)));
    report("  lookup by 32 (per burst)", N / 32, |i| {
        table.lookup_batch(&addresses[i * 32..i * 32 + 32], &mut out);
        u64::from(out[0].unwrap_or(0))
    });
}

fn report(name: &str, n: usize, mut run: impl FnMut(usize) -> u64) {
    let mut times: Vec<f64> = (0..9)
        .map(|_| {
            let start = cpu_ns();
            let mut sum = 0u64;
            for i in 0..n {
                sum = sum.wrapping_add(run(i));
            }
            black_box(sum);
            (cpu_ns() - start) as f64 / n as f64
        })
        .collect();
    times.sort_by(f64::total_cmp);
    println!("{name:<36} {:>9.2} ns", times[0]);
}

fn random() -> impl FnMut() -> u64 {
    let mut state = 88_172_645_463_325_252u64;
    move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    }
}

/// What this thread has worked so far: on a shared machine the waiting is not the table's.
fn cpu_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: one valid timespec to write.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
