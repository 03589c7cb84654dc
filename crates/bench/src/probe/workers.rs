//! Threads that receive, transmit or forward packets, and nothing else: what any program on these ports could do.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::thread::JoinHandle;

use certificate::Task;
use frame::{Arena, Batch, Pool, Port};

use crate::error::BenchError;
use crate::noise::ThreadNoise;
use crate::thread::{Urgency, pin, urge};

/// Packets that a transmitting worker hands over at a time.
const BURST: usize = 32;

/// Packets of a worker so far.
#[derive(Default)]
struct Counters {
    received: AtomicU64,
    sent: AtomicU64,
    /// The number of its thread; 0: it has not begun.
    thread: AtomicI32,
}

/// Workers of a link's two ports, each with a queue.
pub(super) struct Workers {
    stop: Arc<AtomicBool>,
    counters: Vec<Arc<Counters>>,
    threads: Vec<JoinHandle<()>>,
    // Packet buffers outlive the threads that use them.
    _arenas: Vec<Arc<Arena>>,
}

/// What one worker is given.
pub(super) struct Seat {
    /// Ports: the first one sends, the last one receives.
    pub ports: Vec<Box<dyn Port>>,
    /// Hardware addresses of forwarded packets, destination and source; none: they go on as they are.
    pub addresses: Option<[[u8; 6]; 2]>,
    pub pool: Pool,
    pub arena: Arc<Arena>,
    pub cpu: usize,
}

impl Workers {
    /// Starts a thread for each seat. `frames` are what transmitting workers send, without FCS.
    ///
    /// # Errors
    /// No thread is started.
    pub fn start(task: Task, seats: Vec<Seat>, frames: &Arc<[Vec<u8>]>, shares_cpu: bool) -> Result<Self, BenchError> {
        let stop = Arc::new(AtomicBool::new(false));
        let mut all = Self { stop, counters: vec![], threads: vec![], _arenas: vec![] };
        for (n, Seat { ports, addresses, pool, arena, cpu }) in seats.into_iter().enumerate() {
            let counters = Arc::new(Counters::default());
            all.counters.push(counters.clone());
            all._arenas.push(arena);
            let (stop, frames) = (all.stop.clone(), frames.clone());
            let mut worker = Worker { ports, addresses, pool, batch: Batch::new(), counters, frames, next: 0 };
            let run = move || {
                worker.counters.thread.store(rustix::thread::gettid().as_raw_nonzero().get(), Ordering::Relaxed);
                pin(cpu);
                urge(Urgency::Brisk);
                while !stop.load(Ordering::Relaxed) {
                    let moved = (0..16).fold(false, |moved, _| worker.turn(task) | moved);
                    if shares_cpu && !moved {
                        std::thread::yield_now();
                    }
                }
                worker.close();
            };
            let thread = std::thread::Builder::new().name(format!("probe-{n}")).spawn(run);
            all.threads.push(thread.map_err(|error| BenchError::system("starting a thread", error))?);
        }
        Ok(all)
    }

    /// What has kept each from its CPU so far.
    pub fn noise(&self) -> Vec<ThreadNoise> {
        self.counters.iter().map(|counters| ThreadNoise::of(counters.thread.load(Ordering::Relaxed))).collect()
    }

    /// Packets received and sent so far, all workers together.
    pub fn packets(&self) -> [u64; 2] {
        let sum = |of: fn(&Counters) -> &AtomicU64| {
            self.counters.iter().map(|counters| of(counters).load(Ordering::Relaxed)).sum()
        };
        [sum(|counters| &counters.received), sum(|counters| &counters.sent)]
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

struct Worker {
    ports: Vec<Box<dyn Port>>,
    addresses: Option<[[u8; 6]; 2]>,
    pool: Pool,
    batch: Batch,
    counters: Arc<Counters>,
    frames: Arc<[Vec<u8>]>,
    next: usize,
}

impl Worker {
    /// One burst; whether there was one.
    fn turn(&mut self, task: Task) -> bool {
        match task {
            Task::Receive => {
                let received = self.receive();
                self.pool.give_all(&mut self.batch);
                received
            }
            Task::Forward => self.receive() && self.readdressed() && self.send(),
            Task::Transmit => {
                for _ in 0..BURST {
                    let Some(frame) = self.pool.make(&self.frames[self.next]) else { break };
                    self.next = (self.next + 1) % self.frames.len();
                    if let Err(frame) = self.batch.push(frame) {
                        self.pool.give(frame);
                        break;
                    }
                }
                self.send()
            }
        }
    }

    /// Writes hardware addresses into the burst, where they change.
    fn readdressed(&mut self) -> bool {
        if let Some(addresses) = &self.addresses {
            let arena = self.pool.arena().clone();
            for frame in self.batch.frames_mut() {
                if let Some(bytes) = arena.bytes_mut(frame).get_mut(..12) {
                    bytes.copy_from_slice(addresses.as_flattened());
                }
            }
        }
        true
    }

    fn receive(&mut self) -> bool {
        let last = self.ports.len() - 1;
        let core = &mut self.ports[last];
        core.service(&mut self.pool);
        let received = core.rx_burst(&mut self.pool, &mut self.batch);
        self.counters.received.fetch_add(received as u64, Ordering::Relaxed);
        received > 0
    }

    fn send(&mut self) -> bool {
        let access = &mut self.ports[0];
        access.service(&mut self.pool);
        let sent = access.tx_burst(&mut self.pool, &mut self.batch);
        access.kick(&mut self.pool);
        self.pool.give_all(&mut self.batch);
        self.counters.sent.fetch_add(sent as u64, Ordering::Relaxed);
        sent > 0
    }

    fn close(mut self) {
        for port in &mut self.ports {
            port.close(&mut self.pool);
        }
    }
}
