//! A worker with a gateway of one stage: whatever packets do, each comes out or stands under a name, and every slot is
//! accounted for.

use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use engine::{
    AGAIN, Burst, Clock, Ctx, Drop, Env, Gateway, HandOff, Idle, Io, Kind, Layout, Pipeline, PortId, Punt, Reason,
    Stage, StatsView, Steer, SteerKey, Time, TraceFilter, Tsc, Worker, WorkerConfig, pipeline,
};
use frame::{Arena, ArenaConfig, BURST, Batch, Caps, Pool, Port, PortCounters};
use port::logical::Logical;
use port::memory::{Memory, Wire};
use proptest::prelude::*;
use table::waker::Waker;

/// A gateway's own reasons, beside the engine's.
mod drops {
    use engine::Drop;
    pub use engine::drops::*;

    engine::reasons! {
        Drop from engine::drops::END;
        GATE_CLOSED "gate_closed" "The packet's first byte says so.",
    }
}

mod punts {
    use engine::Punt;

    engine::reasons! {
        Punt from 0;
        ARP "arp" "An ARP request or reply.",
        PING "ping" "An ICMP echo request.",
    }
}

struct Toy;

impl Kind for Toy {
    type Lane = ();
    type State = u64;
    type Config = ();

    const DROPS: &'static [&'static [Reason<Drop>]] = &[engine::drops::ALL, drops::ALL];
    const PUNTS: &'static [&'static [Reason<Punt>]] = &[punts::ALL];

    fn describe(burst: &Burst<Self>, i: usize, _: &Self::State) -> String {
        format!("{} bytes", burst.frame(i).len())
    }
}

/// Does what the packet's first byte says.
#[derive(Default)]
struct Obey;

impl Stage<Toy> for Obey {
    const NAME: &'static str = "obey";

    fn run(&mut self, burst: &mut Burst<Toy>, cx: &mut Ctx<'_, Toy>) {
        let at = cx.at();
        for i in burst.live() {
            *cx.state += 1;
            match burst.bytes(i, cx.env.arena()).first() {
                Some(0..50) => burst.set_out(i, 1 - burst.frame(i).meta.port),
                Some(50..60) => burst.drop(i, drops::GATE_CLOSED, at),
                Some(60..70) => burst.punt(i, punts::PING),
                Some(70..80) => burst.punt(i, punts::ARP),
                Some(80..90) => burst.set_out(i, 9),
                Some(100..110) => {
                    // Once.
                    burst.bytes_mut(i, cx.env.arena())[0] = 0;
                    burst.set_out(i, AGAIN | burst.frame(i).meta.port);
                }
                Some(110..120) => burst.set_out(i, AGAIN | burst.frame(i).meta.port),
                Some(255) => panic!("as the packet wished"),
                _ => burst.drop(i, drops::MALFORMED, at),
            }
        }
    }
}

/// Lets everything pass: a second stage sees only who is still there.
#[derive(Default)]
struct Watch;

impl Stage<Toy> for Watch {
    const NAME: &'static str = "watch";

    fn run(&mut self, _burst: &mut Burst<Toy>, _cx: &mut Ctx<'_, Toy>) {}
}

/// Switched off.
#[derive(Default)]
struct Off;

impl Stage<Toy> for Off {
    const NAME: &'static str = "off";

    fn is_on(&self) -> bool {
        false
    }

    fn run(&mut self, _burst: &mut Burst<Toy>, _cx: &mut Ctx<'_, Toy>) {
        panic!("a stage that is off ran");
    }
}

pipeline! {
    /// Both stages that are on.
    struct Both("both") for Toy { obey: Obey, off: Off, watch: Watch }
}

struct Plane {
    both: Both,
    seen: u64,
    panics: u32,
    waker: Option<Waker>,
}

impl Plane {
    fn new() -> (Self, Layout) {
        let mut layout = Layout::default();
        (Self { both: Both::new(&mut layout, &()), seen: 0, panics: 0, waker: None }, layout)
    }
}

impl Gateway for Plane {
    type Kind = Toy;

    fn receive<C: Clock>(&mut self, _port: PortId, burst: &mut Burst<Toy>, env: &Env) {
        self.both.run::<C>(burst, &mut Ctx::new(&mut self.seen, env));
    }

    fn punted(&mut self, burst: &mut Burst<Toy>, env: &mut Env) {
        while let Some((_, punt, frame)) = burst.take_punted() {
            env.stats.terminated(punt);
            if punt == punts::PING {
                // Answered in its own frame.
                env.send(frame.meta.port, frame);
            } else {
                env.pool.give(frame);
            }
        }
    }

    fn follows(&self, _filter: &TraceFilter, _port: PortId, packet: &[u8]) -> bool {
        packet.get(1) == Some(&7)
    }

    fn after_panic(&mut self) {
        self.panics += 1;
    }

    fn steer_key(&self, _port: PortId, packet: &[u8]) -> Option<SteerKey> {
        packet.get(2).map(|byte| SteerKey::Id((*byte).into()))
    }

    fn waker(&self) -> Option<&Waker> {
        self.waker.as_ref()
    }

    fn port_of(&self, device: PortId, packet: &[u8]) -> PortId {
        packet.get(3).copied().unwrap_or(device)
    }
}

const SLOTS: usize = 512;

struct Bench {
    arena: Arc<Arena>,
    worker: Worker<Plane>,
    wires: [Wire; 2],
}

fn bench() -> Bench {
    let arena = Arena::new(ArenaConfig { slots: SLOTS as u32, ..ArenaConfig::default() }).expect("memory");
    let (worker, wires) = worker(&arena, SLOTS);
    Bench { arena, worker, wires }
}

fn worker(arena: &Arc<Arena>, share: usize) -> (Worker<Plane>, [Wire; 2]) {
    let wires = [Wire::default(), Wire::default()];
    let ports: Vec<Box<dyn Port>> = wires.iter().map(|wire| Box::new(Memory::new("m", [2; 6], wire)) as _).collect();
    let (plane, layout) = Plane::new();
    let (time, hand) = Time::simulated(1);
    hand.store(5, Ordering::Relaxed);
    let config = WorkerConfig { time, ..WorkerConfig::default() };
    (Worker::new(plane, layout, Pool::new(arena, share), ports, config), wires)
}

fn drain(worker: &mut Worker<Plane>) {
    while worker.turn() {}
}

fn drops_of(stats: &StatsView) -> Vec<(String, Drop, u64, u64)> {
    stats.drops().into_iter().map(|(at, reason, packets, bytes)| (at, reason.id, packets, bytes)).collect()
}

fn punts_of(stats: &StatsView) -> Vec<(Punt, u64)> {
    stats.punts().into_iter().map(|(reason, packets)| (reason.id, packets)).collect()
}

#[test]
fn each_fate_is_counted_where_it_happened() {
    let mut bench = bench();
    for first in [0, 50, 60, 70, 80, 90] {
        bench.wires[0].send([first; 64]);
    }
    drain(&mut bench.worker);
    let stats = bench.worker.env().stats.view();
    assert_eq!(bench.wires[1].received(), [vec![0; 64]]);
    assert_eq!(bench.wires[0].received(), [vec![60; 64]], "the answer leaves where the question came in");
    let drops: Vec<_> = stats.drops().into_iter().map(|(at, why, n, bytes)| (at, why.name(), n, bytes)).collect();
    let expected = [
        ("both.obey".to_owned(), "malformed", 1, 64),
        ("both.obey".to_owned(), "gate_closed", 1, 64),
        ("worker".to_owned(), "no_route", 1, 64),
    ];
    assert_eq!(drops, expected);
    assert_eq!(punts_of(&stats), [(punts::ARP, 1), (punts::PING, 1)]);
    assert_eq!(stats.missing(), 0);
    let packets =
        |rows: Vec<engine::StageRow>| -> Vec<_> { rows.into_iter().map(|row| (row.stage.name, row.packets)).collect() };
    let stages = packets(stats.stages());
    assert_eq!(stages, [("obey", 6), ("watch", 2)], "who left early is not charged to later stages");
}

#[test]
fn a_full_port_is_counted_and_the_slots_come_back() {
    let mut bench = bench();
    bench.wires[1].limit(Some(3));
    for _ in 0..10 {
        bench.wires[0].send([0; 60]);
    }
    drain(&mut bench.worker);
    let stats = bench.worker.env().stats.view();
    assert_eq!(drops_of(&stats), [("worker".to_owned(), drops::TX_FULL, 7, 420)]);
    assert_eq!((stats.io(Io::TxPackets), stats.io(Io::TxBytes), stats.missing()), (3, 180, 0));
    assert_eq!(bench.worker.env().pool.free() + bench.arena.in_depot(), SLOTS);
}

/// A worker whose second port is on the first one's device.
fn on_one_device(arena: &Arc<Arena>) -> (Worker<Plane>, Wire) {
    let wire = Wire::default();
    let device = Memory::new("m", [2; 6], &wire);
    let logical = Logical::new(&device.caps(), 0).0;
    let ports: Vec<Box<dyn Port>> = vec![Box::new(device), Box::new(logical)];
    let (plane, layout) = Plane::new();
    let (time, _) = Time::simulated(5);
    let config = WorkerConfig { time, ..WorkerConfig::default() };
    (Worker::new(plane, layout, Pool::new(arena, SLOTS), ports, config), wire)
}

#[test]
fn packets_of_a_shared_device_go_to_the_port_they_are_for() {
    let arena = Arena::new(ArenaConfig { slots: SLOTS as u32, ..ArenaConfig::default() }).expect("memory");
    let (mut worker, wire) = on_one_device(&arena);
    // The last one's port is on no device of this worker's. Answers of each leave by the device, too.
    for (first, port) in [(0, 0), (0, 1), (60, 1), (0, 1), (50, 1), (0, 9)] {
        wire.send([first, 0, 0, port]);
    }
    drain(&mut worker);
    let stats = worker.env().stats.view();
    let sent = wire.received();
    // By the device's own port first: those that came for the other one, and its answer.
    assert_eq!(sent, [[0, 0, 0, 1], [0, 0, 0, 1], [0, 0, 0, 0], [0, 0, 0, 9], [60, 0, 0, 1]]);
    assert_eq!(drops_of(&stats), [("both.obey".to_owned(), drops::GATE_CLOSED, 1, 4)]);
    assert_eq!((stats.io(Io::RxPackets), stats.io(Io::TxPackets), stats.io(Io::Bursts), stats.missing()), (6, 5, 1, 0));
    let counted: Vec<_> = worker.port_counters().iter().map(|port| (port.rx_packets, port.tx_packets)).collect();
    assert_eq!(counted, [(6, 5), (4, 3)], "the device's are all of both");
}

#[test]
fn a_full_device_is_counted_whoever_fills_it() {
    let arena = Arena::new(ArenaConfig { slots: SLOTS as u32, ..ArenaConfig::default() }).expect("memory");
    let (mut worker, wire) = on_one_device(&arena);
    wire.limit(Some(3));
    // More than wait at a time: some are sent amid the pipeline.
    (0..200).for_each(|n| wire.send([0, 0, 0, n % 2]));
    drain(&mut worker);
    let stats = worker.env().stats.view();
    assert_eq!(drops_of(&stats), [("worker".to_owned(), drops::TX_FULL, 197, 788)]);
    assert_eq!((stats.io(Io::TxPackets), stats.missing()), (3, 0));
    assert_eq!(worker.port_counters().iter().map(|port| port.tx_full).collect::<Vec<_>>(), [197, 0]);
    assert_eq!(worker.env().pool.free() + arena.in_depot(), SLOTS);
}

#[test]
fn ports_that_share_a_device_have_nothing_to_wait_on() {
    let arena = Arena::new(ArenaConfig { slots: SLOTS as u32, ..ArenaConfig::default() }).expect("memory");
    let device = Silent(Memory::new("m", [2; 6], &Wire::default()), UnixStream::pair().expect("sockets").into());
    let logical = Logical::new(&device.caps(), 0).0;
    let ports: Vec<Box<dyn Port>> = vec![Box::new(device), Box::new(logical)];
    let (mut plane, layout) = Plane::new();
    plane.waker = Some(Waker::new().expect("a descriptor"));
    let mut worker = Worker::new(plane, layout, Pool::new(&arena, 64), ports, WorkerConfig::default());
    let (stats, stop) = (worker.env().stats.view(), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(250));
            stop.store(true, Ordering::Relaxed);
        });
        worker.run(&stop);
    });
    // A port with nothing to wait on would be looked at every 0.4 ms, some 600 times.
    assert!(stats.io(Io::Sleeps) < 100, "{} sleeps", stats.io(Io::Sleeps));
}

/// How often a worker sleeps within a quarter of a second or more without packets, on ports that have nothing to wait on, and
/// how long that took, in microseconds.
fn sleeps(idle: Idle) -> (u64, u64) {
    let bench = bench();
    let (plane, layout) = Plane::new();
    let ports = vec![Box::new(Memory::new("m", [2; 6], &Wire::default())) as Box<dyn Port>];
    let config = WorkerConfig { idle, ..WorkerConfig::default() };
    let mut worker = Worker::new(plane, layout, Pool::new(&bench.arena, 64), ports, config);
    let stop = AtomicBool::new(false);
    let begin = std::time::Instant::now();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(250));
            stop.store(true, Ordering::Relaxed);
        });
        worker.run(&stop);
    });
    let time = begin.elapsed().as_micros() as u64;
    (worker.env().stats.view().io(Io::Sleeps), time)
}

#[test]
fn ports_without_descriptor_are_looked_at_less_often() {
    // 50, 100, 200, 400, 400, 400 µs and so on: a busy machine makes them fewer.
    let (balanced, time) = sleeps(Idle::BALANCED);
    assert!((3..=time / 400 + 8).contains(&balanced), "{balanced} in {time} µs");
    // Up to a millisecond.
    let (save, time) = sleeps(Idle::SAVE);
    assert!((3..=time / 1000 + 8).contains(&save), "{save} in {time} µs");
    assert_eq!(sleeps(Idle::POLL).0, 0);
}

/// A port with a descriptor that tells of nothing.
struct Silent(Memory, [UnixStream; 2]);

impl Port for Silent {
    fn rx_burst(&mut self, pool: &mut Pool, out: &mut Batch) -> usize {
        self.0.rx_burst(pool, out)
    }

    fn tx_burst(&mut self, pool: &mut Pool, batch: &mut Batch) -> usize {
        self.0.tx_burst(pool, batch)
    }

    fn service(&mut self, pool: &mut Pool) {
        self.0.service(pool);
    }

    fn wait_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.1[0].as_fd())
    }

    fn caps(&self) -> Caps {
        self.0.caps()
    }

    fn counters(&self) -> PortCounters {
        self.0.counters()
    }
}

/// The longest time that a worker on so many descriptors means to sleep without packets, in nanoseconds; and whether a packet that
/// comes to the last port then, of which no descriptor tells, is answered.
fn longest_sleep(descriptors: usize) -> (u64, bool) {
    let arena = Arena::new(ArenaConfig { slots: SLOTS as u32, ..ArenaConfig::default() }).expect("memory");
    let wires: Vec<Wire> = (0..descriptors).map(|_| Wire::default()).collect();
    let silent = |wire| Silent(Memory::new("m", [2; 6], wire), UnixStream::pair().expect("sockets").into());
    let ports = wires.iter().map(|wire| Box::new(silent(wire)) as Box<dyn Port>).collect();
    let (plane, layout) = Plane::new();
    // The clock stands: what is told is the time of the sleep.
    let (time, hand) = Time::simulated(1);
    let now = hand.load(Ordering::Relaxed);
    let config = WorkerConfig { time, idle: Idle::BALANCED, ..WorkerConfig::default() };
    let mut worker = Worker::new(plane, layout, Pool::new(&arena, SLOTS), ports, config);
    let (view, stop) = (worker.env().stats.view(), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let looking = scope.spawn(|| {
            let mut longest = 0;
            let begin = Instant::now();
            let patience = Duration::from_secs(20);
            while begin.elapsed() < Duration::from_millis(200) || longest == 0 && begin.elapsed() < patience {
                longest = view.io(Io::SleepsUntil).saturating_sub(now).max(longest);
                std::thread::yield_now();
            }
            let last = &wires[descriptors - 1];
            last.send([60; 64]);
            while last.received().is_empty() && begin.elapsed() < patience {
                std::thread::yield_now();
            }
            stop.store(true, Ordering::Relaxed);
            (longest, begin.elapsed() < patience)
        });
        worker.run(&stop);
        looking.join().expect("no panic")
    })
}

#[test]
fn more_descriptors_than_one_wait_takes_keep_sleeps_short() {
    let (longest, _) = longest_sleep(16);
    assert!(longest > 50_000, "{longest} ns: each look that brings nothing doubles it");
    let (longest, answered) = longest_sleep(18);
    assert_eq!((longest, answered), (50_000, true));
}

/// A port that takes its time to send, and says how long it took.
struct Slow(Memory, Arc<AtomicU64>);

impl Port for Slow {
    fn rx_burst(&mut self, pool: &mut Pool, out: &mut Batch) -> usize {
        self.0.rx_burst(pool, out)
    }

    fn tx_burst(&mut self, pool: &mut Pool, batch: &mut Batch) -> usize {
        let begin = Tsc::cycles();
        let sent = self.0.tx_burst(pool, batch);
        while Tsc::cycles().wrapping_sub(begin) < 100_000 {}
        self.1.fetch_add(Tsc::cycles().wrapping_sub(begin), Ordering::Relaxed);
        sent
    }

    fn service(&mut self, pool: &mut Pool) {
        self.0.service(pool);
    }

    fn caps(&self) -> Caps {
        self.0.caps()
    }

    fn counters(&self) -> PortCounters {
        self.0.counters()
    }
}

/// A port that loses packets: the first of each burst it is to send is refused, and the second lost on its way.
struct Lossy(Memory, PortCounters);

impl Port for Lossy {
    fn rx_burst(&mut self, pool: &mut Pool, out: &mut Batch) -> usize {
        self.0.rx_burst(pool, out)
    }

    fn tx_burst(&mut self, pool: &mut Pool, batch: &mut Batch) -> usize {
        self.1.tx_errors += 1;
        self.1.tx_lost += 1;
        batch.drain_front(2, |frame| pool.give(frame));
        2 + self.0.tx_burst(pool, batch)
    }

    fn service(&mut self, pool: &mut Pool) {
        self.0.service(pool);
    }

    fn caps(&self) -> Caps {
        self.0.caps()
    }

    fn counters(&self) -> PortCounters {
        let PortCounters { tx_errors, tx_lost, rx_ring_full, .. } = self.1;
        let inner = self.0.counters();
        PortCounters { tx_packets: inner.tx_packets + tx_lost, tx_errors, tx_lost, rx_ring_full, ..inner }
    }

    fn close(&mut self, _pool: &mut Pool) {
        // Known only at the end.
        self.1.rx_ring_full += 5;
    }
}

#[test]
fn losses_at_ports_are_drops() {
    let arena = Arena::new(ArenaConfig { slots: SLOTS as u32, ..ArenaConfig::default() }).expect("memory");
    let wires = [Wire::default(), Wire::default()];
    let port = |wire| Box::new(Lossy(Memory::new("m", [2; 6], wire), PortCounters::default())) as Box<dyn Port>;
    let (plane, layout) = Plane::new();
    let ports = wires.iter().map(port).collect();
    let mut worker = Worker::new(plane, layout, Pool::new(&arena, SLOTS), ports, WorkerConfig::default());
    (0..10).for_each(|_| wires[0].send([1; 64]));
    wires[0].send([1; 4000]);
    drain(&mut worker);
    let stats = worker.env().stats.view();
    worker.close();
    assert_eq!(wires[1].received().len(), 8);
    let mut drops: Vec<_> = stats.drops().into_iter().map(|(_, reason, packets, _)| (reason.id, packets)).collect();
    drops.sort();
    let expected =
        [(drops::PORT_RING_FULL, 10), (drops::PORT_TOO_LONG, 1), (drops::PORT_REFUSED, 1), (drops::PORT_LOST, 1)];
    assert_eq!(drops, expected);
    assert_eq!((stats.io(Io::RxPackets), stats.io(Io::TxPackets), stats.dropped()), (10, 10, 13));
    assert_eq!(stats.missing(), 0);
}

// Where more is to be sent in a turn than can wait, some of it is sent before the turn's end, amid pipelines.
#[test]
fn sending_is_charged_to_sending_whenever_it_happens() {
    let arena = Arena::new(ArenaConfig { slots: SLOTS as u32, ..ArenaConfig::default() }).expect("memory");
    let (wires, took) = ([Wire::default(), Wire::default()], Arc::new(AtomicU64::new(0)));
    let port = |wire| Box::new(Slow(Memory::new("m", [2; 6], wire), took.clone())) as Box<dyn Port>;
    let (plane, layout) = Plane::new();
    let ports = wires.iter().map(port).collect();
    let mut worker = Worker::new(plane, layout, Pool::new(&arena, SLOTS), ports, WorkerConfig::default());
    // Two bursts that come in again, the second of them a turn later, with one more that leaves by the same port.
    for (wire, first) in [(0, 100), (1, 100), (1, 0)] {
        (0..BURST).for_each(|_| wires[wire].send([first; 64]));
    }
    drain(&mut worker);
    let stats = worker.env().stats.view();
    assert_eq!((wires[0].received().len(), wires[1].received().len(), stats.missing()), (2 * BURST, BURST, 0));
    let (took, charged) = (took.load(Ordering::Relaxed), stats.io(Io::TxCycles));
    assert!(took >= 200_000 && charged >= took, "{charged} cycles charged, {took} taken");
}

#[test]
fn a_panic_costs_its_burst_and_nothing_else() {
    let mut bench = bench();
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    for first in [0, 255, 60, 0] {
        bench.wires[0].send([first; 64]);
    }
    drain(&mut bench.worker);
    std::panic::set_hook(hook);
    bench.wires[0].send([1; 64]);
    drain(&mut bench.worker);
    let stats = bench.worker.env().stats.view();
    assert_eq!(stats.io(Io::Panics), 1);
    assert_eq!(bench.worker.gateway().panics, 1);
    assert_eq!(drops_of(&stats), [("worker".to_owned(), drops::PANICKED, 4, 256)]);
    assert_eq!(bench.wires[1].received(), [vec![1; 64]], "the worker goes on");
    assert_eq!(stats.missing(), 0);
    assert_eq!(bench.worker.env().pool.free() + bench.arena.in_depot(), SLOTS);
}

#[test]
fn a_trace_follows_only_the_packets_asked_for() {
    let mut bench = bench();
    let handle = bench.worker.env().tracer.handle();
    let filter = TraceFilter { subscriber: std::net::Ipv4Addr::LOCALHOST.into() };
    handle.start(filter, 2);
    for (first, second) in [(0, 7), (0, 8), (50, 7), (0, 7)] {
        bench.wires[0].send([first, second, 0, 0]);
    }
    drain(&mut bench.worker);
    let walks: Vec<_> = handle.take().into_iter().map(|r| (r.packet, r.stage, r.verdict)).collect();
    let first = [(1, "rx", "keep"), (1, "obey", "keep"), (1, "watch", "keep")];
    let expected = [first[0], (2, "rx", "keep"), first[1], (2, "obey", "drop"), first[2]];
    assert_eq!(walks, expected, "two packets, then no more");
    handle.stop();
    bench.wires[0].send([0, 7, 0, 0]);
    drain(&mut bench.worker);
    assert!(handle.take().is_empty());
}

#[test]
fn a_packet_of_another_workers_subscriber_is_processed_there() {
    let arena = Arena::new(ArenaConfig { slots: 1024, ..ArenaConfig::default() }).expect("memory");
    let mut steer = Steer::new();
    steer.own_ids(0, 9, 0).expect("free");
    steer.own_ids(10, 19, 1).expect("free");
    let mut nodes = HandOff::among(2, steer, Vec::new()).into_iter();
    let (first, wires) = worker(&arena, 256);
    let (second, others) = worker(&arena, 256);
    let (mut first, mut second) = (first.with_hand_off(nodes.next()), second.with_hand_off(nodes.next()));
    for owner in [5u8, 15, 15, 25] {
        wires[0].send([0, 0, owner, 0]);
    }
    for _ in 0..4 {
        first.turn();
        second.turn();
    }
    let (one, two) = (first.env().stats.view(), second.env().stats.view());
    assert_eq!((one.io(Io::RxPackets), one.io(Io::HandedOut), one.io(Io::TxPackets)), (4, 2, 2));
    assert_eq!((two.io(Io::HandedIn), two.io(Io::TxPackets)), (2, 2));
    assert_eq!((one.missing(), two.missing()), (0, 0));
    assert_eq!(wires[1].received().len(), 2, "its own, and the one nobody owns");
    assert_eq!(others[1].received().len(), 2, "by the owner's own port");
    drop((first.close(), second.close()));
    assert_eq!(arena.in_depot(), 1024);
}

#[test]
fn what_is_sent_to_ourselves_comes_in_again_at_its_owner_and_not_for_ever() {
    let arena = Arena::new(ArenaConfig { slots: 1024, ..ArenaConfig::default() }).expect("memory");
    let mut steer = Steer::new();
    steer.own_ids(0, 9, 0).expect("free");
    steer.own_ids(10, 19, 1).expect("free");
    let mut nodes = HandOff::among(2, steer, Vec::new()).into_iter();
    let (first, wires) = worker(&arena, 256);
    let (second, others) = worker(&arena, 256);
    let (mut first, mut second) = (first.with_hand_off(nodes.next()), second.with_hand_off(nodes.next()));
    for packet in [[100, 0, 5, 0], [100, 0, 5, 1], [100, 0, 15, 0], [110, 0, 5, 0], [0, 0, 5, 0]] {
        wires[0].send(packet);
    }
    for _ in 0..8 {
        first.turn();
        second.turn();
    }
    assert_eq!((wires[1].received().len(), others[1].received().len()), (3, 1));
    let (one, two) = (first.env().stats.view(), second.env().stats.view());
    assert_eq!(drops_of(&one), [("worker".to_owned(), drops::TUNNEL_LOOP, 1, 4)]);
    assert_eq!((one.missing(), two.missing()), (0, 0));
    // In the middle of it, all ends.
    wires[0].send([110, 0, 5, 0]);
    first.turn();
    let one = first.env().stats.view();
    drop((first.close(), second.close()));
    assert_eq!((one.missing(), arena.in_depot()), (0, 1024));
}

#[test]
fn a_full_hand_off_ring_is_counted() {
    let arena = Arena::new(ArenaConfig { slots: 4096, ..ArenaConfig::default() }).expect("memory");
    let mut steer = Steer::new();
    steer.own_ids(10, 19, 1).expect("free");
    let mut nodes = HandOff::among(2, steer, Vec::new()).into_iter();
    let (first, wires) = worker(&arena, 2048);
    let (second, _others) = worker(&arena, 256);
    let (mut first, mut second) = (first.with_hand_off(nodes.next()), second.with_hand_off(nodes.next()));
    for _ in 0..1100 {
        wires[0].send([0, 0, 15, 0]);
    }
    drain(&mut first);
    let one = first.env().stats.view();
    assert_eq!(one.io(Io::HandedOut), 1024, "as many as a ring holds");
    assert_eq!(drops_of(&one), [("worker".to_owned(), drops::HAND_OFF_FULL, 76, 304)]);
    assert_eq!(one.missing(), 0);
    while second.turn() {}
    assert_eq!(second.env().stats.view().io(Io::HandedIn), 1024);
    drop((first.close(), second.close()));
    assert_eq!(arena.in_depot(), 4096);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn packets_of_a_shared_device_are_conserved(
        packets in proptest::collection::vec(proptest::collection::vec(0u8..250, 0..100), 0..400),
        port in 0u8..3,
        limit in proptest::option::of(0usize..200),
    ) {
        let arena = Arena::new(ArenaConfig { slots: SLOTS as u32, ..ArenaConfig::default() }).expect("memory");
        let (mut worker, wire) = on_one_device(&arena);
        wire.limit(limit);
        let sent = packets.len() as u64;
        for (n, mut packet) in packets.into_iter().enumerate() {
            packet.get_mut(3).into_iter().for_each(|byte: &mut u8| *byte = port.wrapping_add(n as u8) % 3);
            wire.send(packet);
        }
        drain(&mut worker);
        let stats = worker.env().stats.view();
        prop_assert_eq!(stats.io(Io::RxPackets), sent);
        prop_assert_eq!(stats.missing(), 0);
        prop_assert_eq!(worker.env().pool.free() + arena.in_depot(), SLOTS);
        prop_assert_eq!(wire.received().len() as u64, stats.io(Io::TxPackets));
    }

    #[test]
    fn packets_and_slots_are_conserved(
        packets in proptest::collection::vec((any::<bool>(), proptest::collection::vec(0u8..250, 0..100)), 0..400),
        limits in (proptest::option::of(0usize..200), proptest::option::of(0usize..200)),
    ) {
        let mut bench = bench();
        bench.wires[0].limit(limits.0);
        bench.wires[1].limit(limits.1);
        let sent = packets.len() as u64;
        for (side, packet) in packets {
            bench.wires[usize::from(side)].send(packet);
        }
        drain(&mut bench.worker);
        let stats = bench.worker.env().stats.view();
        prop_assert_eq!(stats.io(Io::RxPackets), sent);
        prop_assert_eq!(stats.missing(), 0);
        prop_assert_eq!(bench.worker.env().pool.free() + bench.arena.in_depot(), SLOTS);
        let out = bench.wires.iter().map(|w| w.received().len() as u64).sum::<u64>();
        prop_assert_eq!(out, stats.io(Io::TxPackets));
    }
}
