//! A worker between memory wires, under a clock turned by hand.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use engine::{Gateway, Idle, Layout, StatsView, Time, Worker, WorkerConfig};
use frame::{Arena, ArenaConfig, Pool, Port};
use port::memory::{Memory, Wire};

/// The hand of a simulated clock, in nanoseconds.
#[derive(Clone)]
pub struct Clock {
    time: Time,
    hand: Arc<AtomicU64>,
}

impl Clock {
    /// A clock that stands at `ns`.
    pub fn at(ns: u64) -> Self {
        let (time, hand) = Time::simulated(ns);
        Self { time, hand }
    }

    /// What it shows.
    pub fn now(&self) -> u64 {
        self.hand.load(Ordering::Relaxed)
    }

    /// Turns it to `ns`.
    ///
    /// # Panics
    /// When that is in the past.
    pub fn turn_to(&self, ns: u64) {
        assert!(ns >= self.now(), "time does not go back");
        self.hand.store(ns, Ordering::Relaxed);
    }

    /// For a worker's configuration.
    pub fn time(&self) -> Time {
        self.time.clone()
    }
}

/// A port to be: a name, a hardware address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortSpec {
    /// Its name.
    pub name: String,
    /// Its hardware address.
    pub mac: [u8; 6],
}

/// The packet memory of a rig.
#[derive(Clone, Copy, Debug)]
pub struct Memories {
    /// Slots of the arena.
    pub slots: u32,
    /// Bytes of a slot.
    pub slot_bytes: u16,
}

impl Default for Memories {
    fn default() -> Self {
        Self { slots: 2048, slot_bytes: 4096 }
    }
}

/// Arenas that came back whole, to be used again: a process has only so many numbers for them, and fuzzing needs more.
static SHELF: Mutex<Vec<Arc<Arena>>> = Mutex::new(Vec::new());

fn arena(memory: Memories) -> Arc<Arena> {
    let mut shelf = SHELF.lock().expect("no code panics holding the shelf");
    let fits = |arena: &Arc<Arena>| {
        let shape = arena.shape();
        (shape.slots, shape.slot_bytes) == (memory.slots, memory.slot_bytes)
    };
    if let Some(at) = shelf.iter().position(fits) {
        return shelf.swap_remove(at);
    }
    let config = ArenaConfig { slots: memory.slots, slot_bytes: memory.slot_bytes, ..ArenaConfig::default() };
    Arena::new(config).expect("memory for an arena")
}

/// One worker with its gateway, all its ports memory wires.
pub struct Rig<G: Gateway> {
    worker: Worker<G>,
    clock: Clock,
    arena: Arc<Arena>,
    wires: Vec<(String, Wire)>,
    stats: StatsView,
}

impl<G: Gateway> Rig<G> {
    /// A worker at rest.
    ///
    /// # Panics
    /// When there is no memory for the arena.
    pub fn new(gateway: G, layout: Layout, ports: &[PortSpec], memory: Memories, clock: &Clock) -> Self {
        let arena = arena(memory);
        let wires: Vec<_> = ports.iter().map(|port| (port.name.clone(), Wire::default())).collect();
        let door = |(port, (_, wire)): (&PortSpec, &(String, Wire))| -> Box<dyn Port> {
            Box::new(Memory::new(&*port.name, port.mac, wire))
        };
        let doors = ports.iter().zip(&wires).map(door).collect();
        let config = WorkerConfig { time: clock.time(), idle: Idle::POLL, ..WorkerConfig::default() };
        let pool = Pool::new(&arena, memory.slots as usize);
        let worker = Worker::new(gateway, layout, pool, doors, config);
        let stats = worker.env().stats.view();
        Self { worker, clock: clock.clone(), arena, wires, stats }
    }

    /// The gateway.
    pub fn gateway(&self) -> &G {
        self.worker.gateway()
    }

    /// The gateway, to change between turns.
    pub fn gateway_mut(&mut self) -> &mut G {
        self.worker.gateway_mut()
    }

    /// The worker.
    pub fn worker(&self) -> &Worker<G> {
        &self.worker
    }

    /// Its statistics.
    pub fn stats(&self) -> &StatsView {
        &self.stats
    }

    /// Its clock.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Its ports' names.
    pub fn ports(&self) -> impl Iterator<Item = &str> {
        self.wires.iter().map(|(name, _)| &**name)
    }

    /// The wire of a port.
    ///
    /// # Panics
    /// When there is no port of that name.
    pub fn wire(&self, port: &str) -> &Wire {
        let found = self.wires.iter().find(|(name, _)| name == port);
        &found.unwrap_or_else(|| panic!("no port is called {port}")).1
    }

    /// Turns the worker, with `control` before each turn, until neither moves anything. Both say whether they did.
    ///
    /// # Panics
    /// When they do not come to rest.
    pub fn settle(&mut self, mut control: impl FnMut(&mut Worker<G>, u64) -> bool) {
        let mut quiet = 0;
        for _ in 0..100_000 {
            let moved = control(&mut self.worker, self.clock.now()) | self.worker.turn();
            quiet = if moved { 0 } else { quiet + 1 };
            if quiet == 3 {
                return;
            }
        }
        panic!("the worker does not come to rest");
    }

    /// Ends the worker and checks the conservation laws: every packet that came in went out or was named, and every
    /// slot is back.
    ///
    /// # Errors
    /// What is missing.
    pub fn close(self) -> Result<(), String> {
        let packets = |when: &str, missing: i64| match missing {
            0 => Ok(()),
            _ => Err(format!("packets: {missing} came in and neither went out nor were named {when}")),
        };
        packets("while it ran", self.stats.missing())?;
        let (gateway, env) = self.worker.close();
        drop((gateway, env));
        packets("when it ended", self.stats.missing())?;
        let (slots, back) = (self.arena.shape().slots as usize, self.arena.in_depot());
        if back != slots {
            return Err(format!("slots: of {slots} only {back} came back"));
        }
        SHELF.lock().expect("no code panics holding the shelf").push(self.arena);
        Ok(())
    }
}
