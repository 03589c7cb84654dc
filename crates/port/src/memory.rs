//! Frames from memory, frames to memory: the port of tests.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex};

use frame::{BURST, Batch, Caps, Pool, Port, PortCounters};

/// Both ends of a wire that exists in memory only. Clones share it: a test keeps one and gives a [`Memory`] the other.
#[derive(Clone, Default)]
pub struct Wire {
    ends: Arc<Mutex<Ends>>,
}

#[derive(Default)]
struct Ends {
    to_port: VecDeque<Vec<u8>>,
    from_port: Vec<Vec<u8>>,
    room: Option<usize>,
}

impl Wire {
    /// Lays a packet on the wire for the port to receive.
    pub fn send(&self, packet: impl Into<Vec<u8>>) {
        self.lock().to_port.push_back(packet.into());
    }

    /// Takes everything the port has sent since the last call.
    pub fn received(&self) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.lock().from_port)
    }

    /// Packets laid on the wire that the port has not yet taken.
    pub fn waiting(&self) -> usize {
        self.lock().to_port.len()
    }

    /// From now on the port can send `room` packets more, then it is full; none: no limit.
    pub fn limit(&self, room: Option<usize>) {
        self.lock().room = room;
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Ends> {
        self.ends.lock().expect("no code panics holding the wire")
    }
}

/// Wires by name, for ports opened as `memory:name`. Clones share them.
#[derive(Clone, Default)]
pub struct Wires {
    wires: Arc<Mutex<HashMap<String, Wire>>>,
}

impl Wires {
    /// The wire of that name, new when nobody has asked for it before.
    pub fn wire(&self, name: &str) -> Wire {
        self.wires.lock().expect("no code panics holding the wires").entry(name.to_owned()).or_default().clone()
    }
}

/// The port at the end of a [`Wire`].
pub struct Memory {
    wire: Wire,
    name: String,
    mac: [u8; 6],
    counters: PortCounters,
}

impl Memory {
    /// A port of that name and hardware address at the wire's end.
    pub fn new(name: impl Into<String>, mac: [u8; 6], wire: &Wire) -> Self {
        Self { wire: wire.clone(), name: name.into(), mac, counters: PortCounters::default() }
    }
}

impl Port for Memory {
    fn rx_burst(&mut self, pool: &mut Pool, out: &mut Batch) -> usize {
        let mut ends = self.wire.lock();
        let before = out.len();
        while out.len() < BURST {
            let Some(packet) = ends.to_port.pop_front() else { break };
            if packet.len() > pool.arena().room() {
                self.counters.rx_too_long += 1;
                continue;
            }
            let Some(frame) = pool.make(&packet) else {
                self.counters.rx_no_frame += 1;
                continue;
            };
            self.counters.rx_packets += 1;
            self.counters.rx_bytes += packet.len() as u64;
            if let Err(frame) = out.push(frame) {
                pool.give(frame);
            }
        }
        out.len() - before
    }

    fn tx_burst(&mut self, pool: &mut Pool, batch: &mut Batch) -> usize {
        let mut ends = self.wire.lock();
        let take = ends.room.map_or(batch.len(), |room| room.min(batch.len()));
        if let Some(room) = &mut ends.room {
            *room -= take;
        }
        self.counters.tx_full += (batch.len() - take) as u64;
        batch.drain_front(take, |frame| {
            let bytes = pool.arena().bytes(&frame).to_vec();
            self.counters.tx_packets += 1;
            self.counters.tx_bytes += bytes.len() as u64;
            ends.from_port.push(bytes);
            pool.give(frame);
        });
        take
    }

    fn service(&mut self, _pool: &mut Pool) {}

    fn caps(&self) -> Caps {
        Caps { kind: "memory", name: self.name.clone(), mac: self.mac, mtu: 1500, ..Caps::default() }
    }

    fn counters(&self) -> PortCounters {
        self.counters
    }
}
