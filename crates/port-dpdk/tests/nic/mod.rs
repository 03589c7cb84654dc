//! A device that divides packets among its queues by the rules it was given: `nic.c`.

use std::collections::BTreeMap;
use std::ffi::{CString, c_char, c_int, c_uint};
use std::sync::Arc;

use engine::{Gateway, Idle, Io, StatsView, Worker, WorkerConfig, WorkerInit};
use frame::{Arena, ArenaConfig, Batch, Pool, Port};
use port::OpenContext;
use port::flows::Flows;
use testkit::rig::Clock;

#[repr(C)]
struct Raw {
    _opaque: [u8; 0],
}

unsafe extern "C" {
    fn test_nic_new(name: *const c_char, queues: u16, near: *mut c_char, far: *mut c_char, room: usize) -> *mut Raw;
    fn test_nic_room(nic: *mut Raw, room: c_int);
    fn test_nic_gtp(nic: *mut Raw);
    fn test_nic_clings(nic: *mut Raw, clings: c_int);
    fn test_nic_counts(nic: *const Raw, counts: *mut [u64; 5]);
    fn test_nic_turn(nic: *mut Raw) -> c_uint;
}

/// What a device has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counts {
    pub rules: u64,
    pub made: u64,
    pub destroyed: u64,
    pub by_rule: u64,
    pub by_none: u64,
}

/// A device, its far end a port of the same arena.
pub struct Nic {
    raw: *mut Raw,
    near: String,
    far: Box<dyn Port>,
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.iter().copied().take_while(|byte| *byte != 0).collect()).expect("text")
}

pub fn open(uri: &str, pool: &mut Pool, worker: u16, flows: &Flows) -> Box<dyn Port> {
    port_dpdk::register();
    let mut cx = OpenContext { worker, flows: flows.clone(), ..OpenContext::new(pool) };
    port::open(&uri.parse().expect("a URI"), &mut cx).unwrap_or_else(|error| panic!("{uri}: {error}"))
}

impl Nic {
    fn new(name: &str, queues: u16, pool: &mut Pool) -> Self {
        let (mut near, mut far) = ([0u8; 128], [0u8; 128]);
        let name = CString::new(name).expect("a name");
        // SAFETY: DPDK has started; the texts have that room.
        let raw =
            unsafe { test_nic_new(name.as_ptr(), queues, near.as_mut_ptr().cast(), far.as_mut_ptr().cast(), 128) };
        assert!(!raw.is_null());
        let far = open(&format!("dpdk:{}", text(&far)), pool, 0, &Flows::default());
        Self { raw, near: text(&near), far }
    }

    /// Rules it takes; negative: it refuses when it is asked.
    pub fn room(&self, room: i32) {
        // SAFETY: it is there until the program ends.
        unsafe { test_nic_room(self.raw, room) };
    }

    /// Whether it refuses to destroy rules from now on.
    pub fn clings(&self, clings: bool) {
        // SAFETY: as above.
        unsafe { test_nic_clings(self.raw, clings.into()) };
    }

    /// It knows GTP-U by the item GTP alone.
    pub fn knows_gtp_alone(&self) {
        // SAFETY: as above.
        unsafe { test_nic_gtp(self.raw) };
    }

    pub fn counts(&self) -> Counts {
        let mut counts = [0; 5];
        // SAFETY: as above.
        unsafe { test_nic_counts(self.raw, &raw mut counts) };
        let [rules, made, destroyed, by_rule, by_none] = counts;
        Counts { rules, made, destroyed, by_rule, by_none }
    }

    fn turn(&self) -> bool {
        // SAFETY: as above; the rings are used by this thread alone.
        unsafe { test_nic_turn(self.raw) > 0 }
    }
}

/// Packet buffers of each worker, and of the far ends.
const EACH: usize = 4096;

/// Devices, and workers with a queue of each.
pub struct Bench<G: Gateway> {
    pub nics: Vec<Nic>,
    pub workers: Vec<Worker<G>>,
    pub stats: Vec<StatsView>,
    pub clock: Clock,
    pool: Pool,
    arena: Arc<Arena>,
    /// What arrived at the far ends.
    arrived: BTreeMap<usize, Vec<Vec<u8>>>,
}

impl<G: Gateway> Bench<G> {
    /// Of devices that have room for so many rules, a port each. `test` is no other's.
    pub fn new(test: &str, seats: Vec<WorkerInit<G>>, flows: &[Flows], room: i32) -> Self {
        Self::of(test, seats, flows, |nic| nic.room(room))
    }

    /// The same of devices that are made fit by a function.
    pub fn of(test: &str, seats: Vec<WorkerInit<G>>, flows: &[Flows], fit: impl Fn(&Nic)) -> Self {
        let slots = EACH * (seats.len() + 1);
        let arena = Arena::new(ArenaConfig { slots: slots as u32, ..ArenaConfig::default() }).expect("memory");
        let mut pool = Pool::new(&arena, EACH);
        // Starts DPDK.
        open(&format!("dpdk:net_null_{test}?ring=64"), &mut pool, 0, &Flows::default()).close(&mut pool);
        let nic = |n: usize| Nic::new(&format!("{test}{n}"), seats.len() as u16, &mut pool);
        let nics: Vec<Nic> = (0..flows.len()).map(nic).collect();
        nics.iter().for_each(fit);
        let clock = Clock::at(0);
        let count = seats.len();
        let seat = |(number, seat): (u16, WorkerInit<G>)| {
            let mut pool = Pool::new(&arena, EACH);
            let port = |(nic, flows): (&Nic, &Flows)| {
                open(&format!("dpdk:{}?queue={number}&queues={count}", nic.near), &mut pool, number, flows)
            };
            let ports = nics.iter().zip(flows).map(port).collect();
            let config = WorkerConfig { time: clock.time(), idle: Idle::POLL, ..WorkerConfig::default() };
            Worker::new(seat.plane, seat.layout, pool, ports, config).with_hand_off(seat.hand_off)
        };
        let workers: Vec<_> = (0..).zip(seats).map(seat).collect();
        let stats = workers.iter().map(|worker| worker.env().stats.view()).collect();
        Self { nics, workers, stats, clock, pool, arena, arrived: BTreeMap::new() }
    }

    /// A frame comes in by a device.
    pub fn send(&mut self, nic: usize, bytes: &[u8]) {
        let mut batch = Batch::new();
        batch.push(self.pool.make(bytes).expect("a free buffer")).expect("room");
        assert_eq!(self.nics[nic].far.tx_burst(&mut self.pool, &mut batch), 1);
        self.turn();
    }

    /// A turn of everything, until nothing moves.
    pub fn turn(&mut self) {
        let mut quiet = 0;
        while quiet < 3 {
            let mut moved = self.nics.iter().fold(false, |moved, nic| moved | nic.turn());
            self.workers.iter_mut().for_each(|worker| moved |= worker.turn());
            self.nics.iter().for_each(|nic| moved |= nic.turn());
            for (n, nic) in self.nics.iter_mut().enumerate() {
                let mut batch = Batch::new();
                nic.far.service(&mut self.pool);
                moved |= nic.far.rx_burst(&mut self.pool, &mut batch) > 0;
                let bytes = batch.frames().iter().map(|frame| self.arena.bytes(frame).to_vec());
                self.arrived.entry(n).or_default().extend(bytes);
                self.pool.give_all(&mut batch);
            }
            quiet = if moved { 0 } else { quiet + 1 };
        }
    }

    /// What has arrived at a device's far end since it was asked last, in order of its bytes.
    pub fn arrived(&mut self, nic: usize) -> Vec<Vec<u8>> {
        let mut frames = self.arrived.remove(&nic).unwrap_or_default();
        frames.sort();
        frames
    }

    /// Packets that workers handed over.
    pub fn handed(&self) -> u64 {
        self.stats.iter().map(|stats| stats.io(Io::HandedOut)).sum()
    }

    /// Packets that each worker received.
    pub fn received(&self) -> Vec<u64> {
        self.stats.iter().map(|stats| stats.io(Io::RxPackets)).collect()
    }

    /// Ends it: every packet buffer is back, and the devices have no rules any more.
    pub fn close(mut self) {
        assert!(self.stats.iter().all(|stats| stats.missing() == 0));
        self.workers.into_iter().for_each(|worker| drop(worker.close()));
        for nic in &mut self.nics {
            nic.far.close(&mut self.pool);
            assert_eq!(nic.counts().rules, 0, "rules of a closed device");
        }
        drop(self.pool);
        assert_eq!(self.arena.in_depot(), self.arena.shape().slots as usize, "every token is back");
    }
}
