//! What a DPDK port costs: packets that come in by a port and leave by it, as testpmd's `io` mode does, and the time of one.
//!
//! ```text
//! dpdk_cost dpdk:net_ring0 PACKETS [BUFFERS]     PACKETS go round in the ring; 32 make bursts of 32
//! dpdk_cost dpdk:net_null0 0 [BUFFERS]           packets that the device makes, in bursts of 64
//! dpdk_cost dpdk:net_memif0,role=client,… 128    packets that another process sends back
//! ```
//!
//! Prints ns a packet, one number a round of a fifth of a second. `scripts/bench-dpdk` runs it beside testpmd.

use std::time::{Duration, Instant};

use frame::{Arena, ArenaConfig, Batch, Pool};
use port::{OpenContext, Uri};

const ROUNDS: usize = 10;
const ROUND: Duration = Duration::from_millis(200);
/// The longest time until a link is up.
const PATIENCE: Duration = Duration::from_secs(10);
/// So long the process at the other end takes to see that it is.
const SETTLES: Duration = Duration::from_millis(500);

fn main() -> Result<(), Box<dyn std::error::Error>> {
    port_dpdk::register();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [uri, packets, rest @ ..] = &arguments[..] else { return Err("dpdk_cost URI PACKETS [BUFFERS]".into()) };
    let (uri, packets): (Uri, usize) = (uri.parse()?, packets.parse()?);
    let slots: u32 = rest.first().map_or(Ok(8192), |text| text.parse())?;
    let arena = Arena::new(ArenaConfig { slots, ..ArenaConfig::default() })?;
    let mut pool = Pool::new(&arena, slots as usize);
    let mut port = port::open(&uri, &mut OpenContext::new(&mut pool))?;
    let mut batch = Batch::new();
    let begin = Instant::now();
    while port.caps().link != frame::Link::Up {
        if begin.elapsed() > PATIENCE {
            return Err("the link does not come up".into());
        }
        std::thread::sleep(Duration::from_millis(10));
        port.service(&mut pool);
    }
    if begin.elapsed() > Duration::from_millis(10) || uri.to_string().contains("path=") {
        std::thread::sleep(SETTLES);
    }
    for n in 0..packets {
        if batch.push(pool.make(&[n as u8; 60]).ok_or("too few buffers")?).is_err() {
            return Err("a batch is full".into());
        }
        if batch.room() == 0 || n + 1 == packets {
            port.tx_burst(&mut pool, &mut batch);
        }
    }
    for _ in 0..ROUNDS {
        let (begin, mut count) = (Instant::now(), 0u64);
        let spent = loop {
            for _ in 0..256 {
                port.service(&mut pool);
                count += port.rx_burst(&mut pool, &mut batch) as u64;
                port.tx_burst(&mut pool, &mut batch);
                pool.give_all(&mut batch);
            }
            let spent = begin.elapsed();
            if spent >= ROUND {
                break spent;
            }
        };
        println!("{:.2}", spent.as_nanos() as f64 / count as f64);
    }
    port.close(&mut pool);
    Ok(())
}
