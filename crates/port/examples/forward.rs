//! The barest forwarder: what comes in by one port leaves by the other, with the rate told every second.
//!
//! ```text
//! forward URI_A URI_B SECONDS [CPU]
//! forward --send URI SECONDS [CPU]
//! forward --phases URI URI_A URI_B SECONDS [CPU]
//! ```
//! The second is load. The third sends [`PHASE`] packets by the first port, waits until all lie before A, and times how
//! long they take to leave by B: the cost of a forwarder whose receive interrupts run elsewhere. The tenth percentile is
//! right even on a machine shared with others.
//!
//! To measure a mode, with the device under test on a processor of its own:
//! ```text
//! ip netns add lab
//! for n in 0 1; do ip -n lab link add a$n type veth peer name b$n; ip -n lab link set a$n up; ip -n lab link set b$n up; done
//! forward --send 'packet:b0?mode=mmsg&netns=lab' 8 0 &
//! forward 'packet:a0?mode=ring&netns=lab' 'packet:a1?mode=ring&netns=lab' 5 1
//! ```

use std::time::{Duration, Instant};

use frame::{Arena, ArenaConfig, BURST, Batch, Pool, Port, PortCounters};
use port::OpenContext;

type Any = Box<dyn std::error::Error>;

fn main() -> Result<(), Any> {
    let mut args: Vec<String> = std::env::args().skip(1).collect();
    let task = args.first().cloned().unwrap_or_default();
    let uris = match &task[..] {
        "--send" => 1,
        "--phases" => 3,
        _ => 2,
    };
    if uris != 2 {
        args.remove(0);
    }
    let usage =
        "forward URI_A URI_B SECONDS [CPU], or --send URI SECONDS [CPU], or --phases URI URI_A URI_B SECONDS [CPU]";
    let seconds: u64 = args.get(uris).ok_or(usage)?.parse()?;
    if let Some(cpu) = args.get(uris + 1) {
        pin(cpu.parse()?);
    }
    let slots = 16_384;
    let arena = Arena::new(ArenaConfig { slots, ..ArenaConfig::default() })?;
    let mut pool = Pool::new(&arena, slots as usize);
    let mut cx = OpenContext::new(&mut pool);
    let mut ports = Vec::new();
    for uri in &args[..uris] {
        ports.push(port::open(&uri.parse()?, &mut cx)?);
    }
    for port in &ports {
        let caps = port.caps();
        println!("{} {}: {}", caps.kind, caps.name, caps.detail);
    }
    let mut tell = Tell::new();
    let mut costs = Vec::new();
    let end = Instant::now() + Duration::from_secs(seconds);
    let mut batch = Batch::new();
    while Instant::now() < end {
        if uris == 3 {
            costs.extend(phase(&mut ports, &mut pool, &mut batch));
            continue;
        }
        for _ in 0..64 {
            match uris {
                1 => load(&mut *ports[0], &mut pool, &mut batch),
                _ => forward(&mut ports, &mut pool, &mut batch),
            }
        }
        tell.maybe(&ports);
    }
    for port in &mut ports {
        port.close(&mut pool);
        let counters = port.counters().named().into_iter().filter(|(_, value)| *value > 0);
        let counters: Vec<_> = counters.map(|(name, value)| format!("{name} {value}")).collect();
        println!("{}: {}", port.caps().name, counters.join(", "));
    }
    tell.median();
    costs.sort_unstable();
    if !costs.is_empty() {
        let [best, middle] = [10, 2].map(|part| costs[costs.len() / part]);
        println!("{} phases: {best} ns a packet, median {middle}", costs.len());
    }
    Ok(())
}

/// Packets of a phase.
const PHASE: usize = 1024;

/// Nanoseconds a packet of a phase took; none when some were lost.
fn phase(ports: &mut [Box<dyn Port>], pool: &mut Pool, batch: &mut Batch) -> Option<u64> {
    let (load_port, ports) = ports.split_first_mut()?;
    for _ in 0..PHASE / BURST {
        load(&mut **load_port, pool, batch);
        pool.give_all(batch);
    }
    std::thread::sleep(Duration::from_millis(3));
    let before = ports[1].counters().tx_packets;
    let start = Instant::now();
    let mut passed = Duration::ZERO;
    while ports[1].counters().tx_packets < before + PHASE as u64 {
        forward(ports, pool, batch);
        passed = start.elapsed();
        if passed > Duration::from_millis(100) {
            return None;
        }
    }
    Some(passed.as_nanos() as u64 / PHASE as u64)
}

fn forward(ports: &mut [Box<dyn Port>], pool: &mut Pool, batch: &mut Batch) {
    for (from, to) in [(0, 1), (1, 0)] {
        ports[from].kick(pool);
        ports[from].service(pool);
        if ports[from].rx_burst(pool, batch) > 0 {
            ports[to].tx_burst(pool, batch);
            pool.give_all(batch);
        }
    }
}

/// Sends bursts of 128-byte packets to everybody, so that any port takes them.
fn load(port: &mut dyn Port, pool: &mut Pool, batch: &mut Batch) {
    let mut packet = [0; 128];
    packet[..14].copy_from_slice(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 0, 0, 0, 0, 1, 0x88, 0xb5]);
    while batch.len() < BURST
        && let Some(frame) = pool.make(&packet)
    {
        let _ = batch.push(frame);
    }
    port.kick(pool);
    port.service(pool);
    port.tx_burst(pool, batch);
}

/// Rates, and this thread's processor time a packet: on a machine shared with others the better figure, as long as
/// the load is more than is forwarded.
struct Tell {
    since: Instant,
    cpu: Duration,
    seen: u64,
    rates: Vec<(u64, u64)>,
}

impl Tell {
    fn new() -> Self {
        Self { since: Instant::now(), cpu: cpu_time(), seen: 0, rates: Vec::new() }
    }

    fn maybe(&mut self, ports: &[Box<dyn Port>]) {
        let passed = self.since.elapsed();
        if passed < Duration::from_secs(1) {
            return;
        }
        let sum = |of: fn(&PortCounters) -> u64| ports.iter().map(|port| of(&port.counters())).sum::<u64>();
        let sent = sum(|c| c.tx_packets);
        let rate = ((sent - self.seen) as f64 / passed.as_secs_f64()) as u64;
        let cpu = cpu_time();
        let cost = (cpu - self.cpu).as_nanos() as u64 / (sent - self.seen).max(1);
        let calls = sent as f64 / sum(|c| c.syscalls).max(1) as f64;
        println!("{rate:>9} pps; {cost} ns of processor time a packet; {calls:.1} packets a call");
        self.rates.push((rate, cost));
        (self.since, self.seen, self.cpu) = (Instant::now(), sent, cpu);
    }

    fn median(&mut self) {
        self.rates.sort_unstable();
        if let Some((rate, cost)) = self.rates.get(self.rates.len() / 2) {
            println!("median {rate} pps, {cost} ns");
        }
    }
}

/// Processor time this thread has had.
fn cpu_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the clock exists on every Linux; `time` outlives the call.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    Duration::new(time.tv_sec.cast_unsigned(), time.tv_nsec as u32)
}

fn pin(cpu: usize) {
    // SAFETY: a cpu_set of zeros is valid, and the set outlives the call; 0 means this thread.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu, &mut set);
        libc::sched_setaffinity(0, size_of_val(&set), &raw const set);
    }
}
