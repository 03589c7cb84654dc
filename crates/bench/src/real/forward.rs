//! The bare forwarder as a process: what comes in by one port leaves by the other. It sleeps when nothing comes.

use std::io::{BufRead, Write};
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use frame::{Batch, Pool, Port};
use port::{OpenContext, Uri};

use super::counters::Bursts;
use crate::error::BenchError;
use crate::socket::{SLOTS, stock};

/// The longest sleep, after which it looks whether it is to end.
const SLEEP: Duration = Duration::from_millis(50);

/// After a burst this large more will follow soon: it leaves the CPU to the interfaces' NAPI threads that often before it
/// sleeps.
const LARGE: usize = 8;
const YIELDS: u32 = 16;

/// Forwards between two ports until told to stop or its input ends. Writes "ready" to the error stream once the ports are
/// open, and a line of JSON, `Bursts`, to the output for every line that comes by the input.
///
/// # Errors
/// What a port said.
pub fn forward(uris: [&str; 2], stop: &AtomicBool) -> Result<(), BenchError> {
    let (_, mut pool) = stock(SLOTS)?;
    let mut cx = OpenContext::new(&mut pool);
    let mut one = |text: &str| {
        let failed = |source| BenchError::Port { uri: text.to_owned(), source };
        text.parse::<Uri>().map_err(failed).and_then(|uri| port::open(&uri, &mut cx).map_err(failed))
    };
    let mut ports = [one(uris[0])?, one(uris[1])?];
    let shared = Arc::new(Shared::default());
    let answering = shared.clone();
    // Not joined: it may wait for input that never comes.
    std::thread::spawn(move || answering.answer());
    eprintln!("ready");
    let mut batch = Batch::new();
    let mut yields = 0;
    while !stop.load(Ordering::Relaxed) && !shared.ended.load(Ordering::Relaxed) {
        match turn(&mut ports, &mut pool, &mut batch, &shared) {
            0 if yields > 0 => {
                yields -= 1;
                std::thread::yield_now();
            }
            0 => sleep(&mut ports),
            came if came >= LARGE => yields = YIELDS,
            _ => yields = 0,
        }
    }
    ports.iter_mut().for_each(|port| port.close(&mut pool));
    Ok(())
}

/// Both ways once. Returns the packets of the larger burst.
fn turn(ports: &mut [Box<dyn Port>; 2], pool: &mut Pool, batch: &mut Batch, shared: &Shared) -> usize {
    let mut most = 0;
    for (from, to) in [(0, 1), (1, 0)] {
        ports[from].service(pool);
        let came = ports[from].rx_burst(pool, batch);
        if came == 0 {
            continue;
        }
        most = most.max(came);
        shared.rx_packets.fetch_add(came as u64, Ordering::Relaxed);
        shared.bursts.fetch_add(1, Ordering::Relaxed);
        ports[to].tx_burst(pool, batch);
        // What the port did not take is lost.
        batch.drain(|frame| pool.give(frame));
        // Sends at once.
        ports[to].service(pool);
    }
    most
}

/// Until something comes.
fn sleep(ports: &mut [Box<dyn Port>; 2]) {
    // Both are told, whatever one says.
    let ready = ports.each_mut().map(|port| port.fall_asleep());
    if ready.contains(&false) {
        return;
    }
    let fds: Vec<BorrowedFd<'_>> = ports.iter().filter_map(|port| port.wait_fd()).collect();
    if fds.len() == ports.len() {
        // An error can only be a bad descriptor, which the port finds out itself.
        let _ = frame::wait_readable(&fds, SLEEP);
    } else {
        std::thread::yield_now();
    }
}

/// What both threads see.
#[derive(Default)]
struct Shared {
    rx_packets: AtomicU64,
    bursts: AtomicU64,
    ended: AtomicBool,
}

impl Shared {
    fn answer(&self) {
        let mut line = String::new();
        let mut input = std::io::stdin().lock();
        while matches!(input.read_line(&mut line), Ok(n) if n > 0) {
            let [rx_packets, bursts] = [&self.rx_packets, &self.bursts].map(|count| count.load(Ordering::Relaxed));
            let text = serde_json::to_string(&Bursts { rx_packets, bursts }).unwrap_or_default();
            let mut output = std::io::stdout().lock();
            if writeln!(output, "{text}").and_then(|()| output.flush()).is_err() {
                break;
            }
            line.clear();
        }
        self.ended.store(true, Ordering::Relaxed);
    }
}
