//! Workers between memory wires, under a clock turned by hand.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use engine::{Gateway, Idle, Layout, StatsView, Time, Worker, WorkerConfig, WorkerInit};
use frame::{Arena, ArenaConfig, HostInterface, HostQueue, Pool, Port};
use port::logical::Logical;
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
    /// The number of the port whose device it shares; none: it has a wire of its own.
    pub on: Option<usize>,
}

/// A host interface that takes everything, with so many packets a second for services; 0: none.
pub fn host_services(per_second: u32) -> Option<HostInterface> {
    struct Everything;
    impl HostQueue for Everything {
        fn put(&self, _head: &[u8; 14], _payload: &[u8]) -> bool {
            true
        }
    }
    (per_second > 0).then(|| HostInterface::new(Arc::new(Everything)).with_services(per_second))
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

/// Makes a port of a rig: from what it is to be, its wire, and its worker's packet buffers.
pub type Doors = dyn Fn(&PortSpec, &Wire, &mut Pool) -> Box<dyn Port>;

thread_local! {
    static DOORS: RefCell<Option<Rc<Doors>>> = const { RefCell::new(None) };
}

/// Runs something; rigs that it makes have ports by `doors`, not memory ports.
pub fn with_doors<T>(doors: Rc<Doors>, run: impl FnOnce() -> T) -> T {
    DOORS.set(Some(doors));
    let result = run();
    DOORS.set(None);
    result
}

/// A worker, and the far ends of its ports.
struct Member<G: Gateway> {
    worker: Worker<G>,
    wires: Vec<(String, Wire)>,
    stats: StatsView,
}

/// Workers with a gateway each, all their ports memory wires, their packets of one arena. Most rigs have one worker, and
/// most of what a rig tells is of the first.
pub struct Rig<G: Gateway> {
    seats: Vec<Member<G>>,
    /// Ports that share another's wire, and its number, by number.
    on: Vec<Option<usize>>,
    clock: Clock,
    arena: Arc<Arena>,
}

/// A worker's ports, those that share another's device too.
fn doors(ports: &[PortSpec], wires: &[(String, Wire)], pool: &mut Pool) -> Vec<Box<dyn Port>> {
    let doors = DOORS.with_borrow(Clone::clone);
    let mut door = |(port, (_, wire)): (&PortSpec, &(String, Wire))| match (&doors, port.on) {
        (_, Some(_)) => None,
        (Some(doors), None) => Some(doors(port, wire, pool)),
        (None, None) => Some(Box::new(Memory::new(&*port.name, port.mac, wire)) as Box<dyn Port>),
    };
    let devices: Vec<_> = ports.iter().zip(wires).map(&mut door).collect();
    let caps: Vec<_> = devices.iter().map(|device| device.as_ref().map(|device| device.caps())).collect();
    let both = devices.into_iter().zip(ports);
    both.map(|(device, port)| match (device, port.on) {
        (Some(device), _) => device,
        (None, on) => {
            let on = on.unwrap_or_default();
            let device = caps.get(on).and_then(Option::as_ref).expect("a port is on one that has a device");
            Box::new(Logical::new(device, on as u8).0) // a handful
        }
    })
    .collect()
}

impl<G: Gateway> Rig<G> {
    /// A worker at rest.
    ///
    /// # Panics
    /// When there is no memory for the arena.
    pub fn new(gateway: G, layout: Layout, ports: &[PortSpec], memory: Memories, clock: &Clock) -> Self {
        Self::among([WorkerInit { plane: gateway, layout, hand_off: None }], ports, memory, clock)
    }

    /// Workers at rest, each with a queue of every port.
    ///
    /// # Panics
    /// When there is no memory for the arena.
    pub fn among(
        crews: impl IntoIterator<Item = WorkerInit<G>, IntoIter: ExactSizeIterator>,
        ports: &[PortSpec],
        memory: Memories,
        clock: &Clock,
    ) -> Self {
        let (arena, crews) = (arena(memory), crews.into_iter());
        let each = memory.slots as usize / crews.len().max(1);
        let seat = |WorkerInit { plane, layout, hand_off }| {
            let wires: Vec<_> = ports.iter().map(|port| (port.name.clone(), Wire::default())).collect();
            let mut pool = Pool::new(&arena, each);
            let doors = doors(ports, &wires, &mut pool);
            let config = WorkerConfig { time: clock.time(), idle: Idle::POLL, ..WorkerConfig::default() };
            let worker = Worker::new(plane, layout, pool, doors, config).with_hand_off(hand_off);
            let stats = worker.env().stats.view();
            Member { worker, wires, stats }
        };
        let seats: Vec<_> = crews.map(seat).collect();
        assert!(!seats.is_empty(), "a rig has a worker");
        let on = ports.iter().map(|port| port.on).collect();
        Self { seats, on, clock: clock.clone(), arena }
    }

    /// The gateway.
    pub fn gateway(&self) -> &G {
        self.worker().gateway()
    }

    /// The gateway, to change between turns.
    pub fn gateway_mut(&mut self) -> &mut G {
        self.seats[0].worker.gateway_mut()
    }

    /// All gateways, to change between turns.
    pub fn each_gateway(&mut self, each: impl FnMut(&mut G)) {
        self.seats.iter_mut().map(|seat| seat.worker.gateway_mut()).for_each(each);
    }

    /// The worker.
    pub fn worker(&self) -> &Worker<G> {
        &self.seats[0].worker
    }

    /// All workers.
    pub fn workers(&self) -> impl Iterator<Item = &Worker<G>> {
        self.seats.iter().map(|seat| &seat.worker)
    }

    /// The worker's statistics.
    pub fn stats(&self) -> &StatsView {
        &self.seats[0].stats
    }

    /// All workers' statistics.
    pub fn all_stats(&self) -> impl Iterator<Item = &StatsView> {
        self.seats.iter().map(|seat| &seat.stats)
    }

    /// Its clock.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// The names of its ports with a wire.
    pub fn ports(&self) -> impl Iterator<Item = &str> {
        self.names().zip(&self.on).filter(|(_, on)| on.is_none()).map(|(name, _)| name)
    }

    /// Its ports' names, by number.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.seats[0].wires.iter().map(|(name, _)| &**name)
    }

    /// The wire of a port.
    ///
    /// # Panics
    /// When there is no port of that name.
    pub fn wire(&self, port: &str) -> &Wire {
        self.wire_of(0, port)
    }

    /// The wire of a worker's queue of a port.
    ///
    /// # Panics
    /// When there is no such worker, or no port of that name.
    pub fn wire_of(&self, worker: usize, port: &str) -> &Wire {
        let found = self.seats[worker].wires.iter().find(|(name, _)| name == port);
        &found.unwrap_or_else(|| panic!("no port is called {port}")).1
    }

    /// Turns the workers, with `control` before each one's turn, until none moves anything. Both say whether they did.
    ///
    /// # Panics
    /// When they do not come to rest.
    pub fn settle(&mut self, mut control: impl FnMut(&mut Worker<G>, u64) -> bool) {
        let mut quiet = 0;
        for _ in 0..100_000 {
            let mut moved = false;
            for seat in &mut self.seats {
                moved |= control(&mut seat.worker, self.clock.now()) | seat.worker.turn();
            }
            quiet = if moved { 0 } else { quiet + 1 };
            if quiet == 3 {
                return;
            }
        }
        panic!("the workers do not come to rest");
    }

    /// Turns each worker once.
    pub fn turn(&mut self) {
        for seat in &mut self.seats {
            seat.worker.turn();
        }
    }

    /// Turns one of the workers.
    ///
    /// # Panics
    /// When there is no such worker.
    pub fn turn_of(&mut self, worker: usize) {
        self.seats[worker].worker.turn();
    }

    /// Ends the workers and checks the conservation laws: every packet that came in went out or was named, and every
    /// slot is back.
    ///
    /// # Errors
    /// What is missing.
    pub fn close(self) -> Result<(), String> {
        self.end().map(drop)
    }

    /// [`close`](Self::close), and the gateways as they are then.
    ///
    /// # Errors
    /// What is missing.
    pub fn end(self) -> Result<Vec<G>, String> {
        let packets = |when: &str, all: &[StatsView]| match all.iter().map(StatsView::missing).sum() {
            0i64 => Ok(()),
            missing => Err(format!("packets: {missing} came in and neither went out nor were named {when}")),
        };
        let (workers, stats): (Vec<_>, Vec<_>) = self.seats.into_iter().map(|seat| (seat.worker, seat.stats)).unzip();
        packets("while it ran", &stats)?;
        // Closed all before any slots are given back: until then they may hand packets to each other.
        let ended: Vec<_> = workers.into_iter().map(Worker::close).collect();
        let gateways: Vec<_> = ended.into_iter().map(|(gateway, _)| gateway).collect();
        packets("when it ended", &stats)?;
        let (slots, back) = (self.arena.shape().slots as usize, self.arena.in_depot());
        if back != slots {
            return Err(format!("slots: of {slots} only {back} came back"));
        }
        SHELF.lock().expect("no code panics holding the shelf").push(self.arena);
        Ok(gateways)
    }
}
