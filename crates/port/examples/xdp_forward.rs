//! Forwards whatever comes between two interfaces over AF_XDP, as fast as it goes, and tells the rate every second.
//!
//! ```text
//! xdp_forward IN OUT [--netns NAME] [--cpu N] [--seconds N] [--key value …]
//! ```
//! `IN` and `OUT` may carry keys: `a0?fill=256&ring=512`.

use std::time::{Duration, Instant};

use frame::{Arena, ArenaConfig, Batch, Pool, Port};
use port::Uri;
use port::xdp::{XdpConfig, XdpPort};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let (mut ends, mut netns, mut seconds, mut slots) = (Vec::new(), None, u64::MAX, 16_384);
    while let Some(arg) = args.next() {
        let mut value = || args.next().ok_or_else(|| format!("{arg} wants a value"));
        match arg.as_str() {
            "--netns" => netns = Some(value()?),
            "--cpu" => pin(value()?.parse()?),
            "--seconds" => seconds = value()?.parse()?,
            "--slots" => slots = value()?.parse()?,
            _ => ends.push(arg),
        }
    }
    let [from, to] = &ends[..] else { return Err("give two interfaces".into()) };

    let arena = Arena::new(ArenaConfig { slots, ..ArenaConfig::default() })?;
    let mut pool = Pool::new(&arena, slots as usize);
    let mut open = |name: &str| -> Result<XdpPort, Box<dyn std::error::Error>> {
        let config = XdpConfig::from_uri(&format!("xdp:{name}").parse::<Uri>()?)?;
        Ok(XdpPort::open(XdpConfig { netns: netns.clone().or(config.netns.clone()), ..config }, &mut pool)?)
    };
    let mut ports = [open(from)?, open(to)?];
    for port in &ports {
        let caps = port.caps();
        println!("{}: {}; {}", caps.name, caps.detail, arena.backing().as_str());
    }

    let mut batch = Batch::new();
    let mut refused = 0_u64;
    let (mut second, mut seen, mut seen_came, start) = (Instant::now(), 0, 0, Instant::now());
    let (mut loops, mut bursts) = (0_u64, 0_u64);
    while start.elapsed() < Duration::from_secs(seconds) {
        for _ in 0..256 {
            loops += 1;
            for (rx, tx) in [(0, 1), (1, 0)] {
                ports[rx].kick(&mut pool);
                ports[rx].service(&mut pool);
                if ports[rx].rx_burst(&mut pool, &mut batch) > 0 {
                    bursts += 1;
                    ports[tx].tx_burst(&mut pool, &mut batch);
                    refused += batch.len() as u64;
                    pool.give_all(&mut batch);
                }
            }
        }
        let passed = second.elapsed();
        if passed >= Duration::from_secs(1) {
            let [a, b] = [0, 1].map(|at| ports[at].counters());
            let sent = a.tx_packets + b.tx_packets;
            // Zero here: nobody sent, and nothing stands still but the load.
            let came =
                [a, b].map(|c| c.rx_packets + c.rx_no_frame + c.rx_ring_full + c.rx_too_long).iter().sum::<u64>();
            println!(
                "{:>9.0} pps of {:.0}; burst {:.1}; {:.1} packets a system call; lost in: ring {} frame {} long {}; out {refused}; held {} + {}",
                (sent - seen) as f64 / passed.as_secs_f64(),
                (came - seen_came) as f64 / passed.as_secs_f64(),
                (a.rx_packets + b.rx_packets) as f64 / bursts.max(1) as f64,
                sent as f64 / (a.syscalls + b.syscalls).max(1) as f64,
                a.rx_ring_full + b.rx_ring_full,
                a.rx_no_frame + b.rx_no_frame,
                a.rx_too_long + b.rx_too_long,
                ports[0].held(),
                ports[1].held(),
            );
            (second, seen, seen_came) = (Instant::now(), sent, came);
        }
    }
    ports.iter_mut().for_each(|port| port.close(&mut pool));
    println!("{} loops; {} of {slots} slots back", loops, pool.free() + arena.in_depot());
    Ok(())
}

fn pin(cpu: usize) {
    // SAFETY: a cpu_set of zeroes is valid, and the set outlives the call; 0 means this thread.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu, &mut set);
        libc::sched_setaffinity(0, size_of_val(&set), &set);
    }
}
