//! Either side of a CMTS as a gateway's port in memory.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use frame::{Batch, Caps, Pool, Port, PortCounters};
use table::hint::tsc;

use super::{Downstream, Hosts, Upstream};
use crate::clock::Clock;

/// What is at the far end of a [`CablePort`].
#[derive(Clone)]
pub enum Side {
    /// The network: hosts.
    Core(Arc<Mutex<Hosts>>),
    /// Remote-PHY devices: what they hear, what they say.
    Device(Arc<Mutex<(Downstream, Upstream)>>),
}

/// A gateway's port whose far side sends when it is read, and looks at what it is given.
///
/// How much is sent is steered by `credit`: so many packets may come yet. What time the far side takes for itself,
/// making and checking packets, is added to `cycles`, so that a gateway's own can be told from it.
pub struct CablePort {
    side: Side,
    clock: Clock,
    mac: [u8; 6],
    mtu: u32,
    credit: Arc<AtomicU64>,
    cycles: Arc<[AtomicU64; 2]>,
    counters: PortCounters,
}

impl CablePort {
    /// A port with that far side and hardware address; `credit` packets may come, `cycles` takes what making
    /// and checking them took.
    pub fn new(
        side: Side,
        clock: Clock,
        mac: [u8; 6],
        mtu: u32,
        credit: Arc<AtomicU64>,
        cycles: Arc<[AtomicU64; 2]>,
    ) -> Self {
        Self { side, clock, mac, mtu, credit, cycles, counters: PortCounters::default() }
    }

    fn fill(&mut self, pool: &mut Pool, out: &mut Batch, now_ns: u64) {
        let credit = self.credit.load(Ordering::Relaxed);
        let most = credit.min(out.room() as u64);
        let mut came = 0;
        while came < most {
            let Some(mut frame) = pool.take() else {
                self.counters.rx_no_frame += 1;
                break;
            };
            let arena = pool.arena().clone();
            let len = match &self.side {
                Side::Core(hosts) => lock(hosts).make(arena.space_mut(&mut frame), now_ns),
                Side::Device(device) => {
                    let mut device = lock(device);
                    let packet = device.1.next(now_ns);
                    let len = packet.as_ref().map_or(0, Vec::len);
                    if let Some(packet) = packet {
                        let space = arena.space_mut(&mut frame);
                        space[..len].copy_from_slice(&packet);
                        device.1.recycle(packet);
                    }
                    len
                }
            };
            arena.set_len(&mut frame, len);
            if len == 0 {
                pool.give(frame);
                break;
            }
            self.counters.rx_bytes += len as u64;
            match out.push(frame) {
                Ok(()) => came += 1,
                Err(frame) => {
                    pool.give(frame);
                    break;
                }
            }
        }
        self.counters.rx_packets += came;
        self.credit.fetch_sub(came, Ordering::Relaxed);
    }
}

impl Port for CablePort {
    fn rx_burst(&mut self, pool: &mut Pool, out: &mut Batch) -> usize {
        let begin = tsc();
        let (before, now_ns) = (out.len(), self.clock.now_ns());
        self.fill(pool, out, now_ns);
        self.cycles[0].fetch_add(tsc().wrapping_sub(begin), Ordering::Relaxed);
        out.len() - before
    }

    fn tx_burst(&mut self, pool: &mut Pool, batch: &mut Batch) -> usize {
        let begin = tsc();
        let (sent, now_ns) = (batch.len(), self.clock.now_ns());
        let arena = pool.arena().clone();
        self.counters.tx_packets += sent as u64;
        self.counters.tx_bytes += batch.frames().iter().map(|frame| frame.len() as u64).sum::<u64>();
        match &self.side {
            Side::Core(hosts) => {
                let mut hosts = lock(hosts);
                batch.drain(|frame| {
                    hosts.take(arena.bytes(&frame), now_ns);
                    pool.give(frame);
                });
            }
            Side::Device(device) => {
                let mut device = lock(device);
                batch.drain(|frame| {
                    device.0.take(arena.bytes(&frame), now_ns);
                    pool.give(frame);
                });
                device.0.settle(now_ns);
            }
        }
        self.cycles[1].fetch_add(tsc().wrapping_sub(begin), Ordering::Relaxed);
        sent
    }

    fn service(&mut self, _pool: &mut Pool) {}

    fn caps(&self) -> Caps {
        let name = match self.side {
            Side::Core(_) => "core",
            Side::Device(_) => "rphy",
        };
        Caps { kind: "memory", name: name.to_owned(), mac: self.mac, mtu: self.mtu, ..Caps::default() }
    }

    fn counters(&self) -> PortCounters {
        self.counters
    }
}

/// The lock is the port's for a burst and its owner's between windows.
fn lock<T>(side: &Mutex<T>) -> MutexGuard<'_, T> {
    side.lock().expect("no code panics holding a far side")
}
