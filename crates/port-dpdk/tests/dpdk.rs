//! Ports over DPDK's software devices: packets, tokens, errors.
//!
//! DPDK is started once for the program: every test has devices of names of its own.
#![cfg(feature = "dpdk")]

use std::path::PathBuf;
use std::sync::Arc;

use frame::{Arena, ArenaConfig, BURST, Batch, Frame, Link, Pool, Port};
use port::{OpenContext, PortError, Uri};

/// An arena, and ports whose tokens are counted.
struct Bed {
    arena: Arc<Arena>,
    pool: Pool,
    ports: Vec<Box<dyn Port>>,
}

fn shape(slots: u32, slot_bytes: u16) -> ArenaConfig {
    ArenaConfig { slots, slot_bytes, ..ArenaConfig::default() }
}

impl Bed {
    fn new(config: ArenaConfig, uris: &[&str]) -> Self {
        port_dpdk::register();
        let arena = Arena::new(config).expect("memory");
        let mut pool = Pool::new(&arena, config.slots as usize);
        let ports = uris.iter().map(|uri| open(uri, &mut pool).unwrap_or_else(|e| panic!("{uri}: {e}"))).collect();
        Self { arena, pool, ports }
    }

    /// Receives a burst by a port.
    fn receive(&mut self, port: usize) -> Batch {
        let mut batch = Batch::new();
        self.ports[port].service(&mut self.pool);
        self.ports[port].rx_burst(&mut self.pool, &mut batch);
        batch
    }

    /// Sends what a port takes; the rest goes back to the pool.
    fn send(&mut self, port: usize, mut batch: Batch) -> usize {
        let sent = self.ports[port].tx_burst(&mut self.pool, &mut batch);
        self.pool.give_all(&mut batch);
        sent
    }

    /// Free, in ports and `elsewhere`: all there are.
    fn conserved(&self, elsewhere: usize) {
        let held: usize = self.ports.iter().map(|port| port.held()).sum();
        let all = self.pool.free() + self.arena.in_depot() + held + elsewhere;
        assert_eq!(all, self.arena.shape().slots as usize, "{held} held, {elsewhere} elsewhere");
    }

    fn close(mut self) {
        self.ports.iter_mut().for_each(|port| port.close(&mut self.pool));
        drop(self.ports);
        drop(self.pool);
        assert_eq!(self.arena.in_depot(), self.arena.shape().slots as usize, "every token is back");
    }
}

fn open(uri: &str, pool: &mut Pool) -> Result<Box<dyn Port>, PortError> {
    port::open(&uri.parse()?, &mut OpenContext::new(pool))
}

/// A packet of `len` bytes that begins `room` bytes after its slot does.
fn packet(bed: &mut Bed, len: usize, room: usize) -> (Frame, Vec<u8>) {
    let bytes: Vec<u8> = (0..len).map(|n| (n * 7 + room) as u8).collect();
    let mut frame = bed.pool.make(&bytes).expect("a free buffer");
    if room < frame.headroom() {
        frame.push_front((frame.headroom() - room) as u16).expect("headroom");
        frame.truncate(len as u16).expect("as long");
        bed.arena.bytes_mut(&mut frame).copy_from_slice(&bytes);
    }
    (frame, bytes)
}

#[test]
fn tokens_move_between_dpdk_and_other_ports() {
    let mut bed = Bed::new(shape(4096, 2048), &["dpdk:net_null_a", "dpdk:net_null_b,size=700", "memory:m"]);
    bed.conserved(0);
    let mut seen = 0;
    for turn in 0..3000 {
        let from = turn % 2;
        let batch = bed.receive(from);
        assert_eq!(batch.len(), BURST, "turn {turn}");
        assert!(batch.frames().iter().all(|frame| frame.len() == [64, 700][from]));
        bed.conserved(BURST);
        seen += batch.len();
        // To itself, to the other device, to a port that is no device, to the pool.
        match turn % 4 {
            0 => assert_eq!(bed.send(0, batch), BURST),
            1 => assert_eq!(bed.send(0, batch), BURST),
            2 => assert_eq!(bed.send(2, batch), BURST),
            _ => bed.pool.give_all(&mut { batch }),
        }
        bed.conserved(0);
    }
    assert_eq!(bed.ports[0].counters().rx_packets + bed.ports[1].counters().rx_packets, seen as u64);
    assert_eq!(bed.ports[0].counters().tx_packets, 1500 * BURST as u64);
    bed.close();
}

#[test]
fn a_packet_is_not_copied_and_keeps_its_bytes() {
    let mut bed = Bed::new(shape(2048, 2048), &["dpdk:net_ring_a"]);
    let headroom = usize::from(bed.arena.shape().headroom);
    // In the slot's first bytes, around what DPDK calls headroom, where received packets begin.
    for room in [headroom, headroom - 44, 134, 133, 1, 0, headroom] {
        for len in [14, 60, 1500] {
            let (frame, bytes) = packet(&mut bed, len, room);
            let slot = frame.slot();
            let mut batch = Batch::new();
            batch.push(frame).expect("room");
            assert_eq!(bed.send(0, batch), 1);
            bed.conserved(0);
            let mut batch = bed.receive(0);
            assert_eq!(batch.len(), 1, "room {room}, len {len}");
            let frame = &batch.frames()[0];
            assert_eq!((frame.slot(), frame.headroom(), bed.arena.bytes(frame)), (slot, room, &bytes[..]));
            bed.pool.give_all(&mut batch);
        }
    }
    bed.conserved(0);
    bed.close();
}

#[test]
fn jumbo_frames_pass_and_larger_ones_do_not_fit() {
    let mut bed = Bed::new(shape(1024, 9728), &["dpdk:net_ring_jumbo"]);
    let (frame, bytes) = packet(&mut bed, 9018, 262);
    let mut batch = Batch::new();
    batch.push(frame).expect("room");
    assert_eq!(bed.send(0, batch), 1);
    let mut batch = bed.receive(0);
    assert_eq!(bed.arena.bytes(&batch.frames()[0]), bytes);
    bed.pool.give_all(&mut batch);
    bed.close();
}

#[test]
fn copying_ports_keep_the_conservation_law() {
    let mut bed = Bed::new(shape(1024, 2048), &["dpdk:net_ring_copy?buffers=copy"]);
    assert!(bed.ports[0].caps().detail.contains("copied buffers"), "{:?}", bed.ports[0].caps());
    for round in 0..200 {
        let mut batch = Batch::new();
        let mut wanted = Vec::new();
        for n in 0..1 + round % BURST {
            let (frame, bytes) = packet(&mut bed, 60 + n * 20, if n % 2 == 0 { 262 } else { 3 });
            batch.push(frame).expect("room");
            wanted.push(bytes);
        }
        assert_eq!(bed.send(0, batch), wanted.len());
        bed.conserved(0);
        let mut batch = bed.receive(0);
        let got: Vec<_> = batch.frames().iter().map(|frame| bed.arena.bytes(frame).to_vec()).collect();
        assert!(got == wanted, "round {round}");
        bed.conserved(got.len());
        bed.pool.give_all(&mut batch);
    }
    bed.close();
}

#[test]
fn a_full_ring_refuses_and_a_closed_port_gives_back() {
    let mut bed = Bed::new(shape(4096, 2048), &["dpdk:net_ring_full"]);
    let mut sent = 0;
    loop {
        let mut batch = Batch::new();
        while batch.room() > 0 {
            batch.push(bed.pool.make(&[9; 60]).expect("a free buffer")).expect("room");
        }
        let took = bed.send(0, batch);
        sent += took;
        bed.conserved(0);
        if took < BURST {
            break;
        }
    }
    assert!(sent >= 1023, "{sent}");
    assert!(bed.ports[0].counters().tx_full > 0);
    assert_eq!(bed.ports[0].counters().tx_packets, sent as u64);
    // With the ring still full.
    bed.ports[0].close(&mut bed.pool);
    let counters = bed.ports[0].counters();
    assert_eq!((counters.tx_lost, counters.tx_packets), (0, sent as u64), "what was refused is not lost");
    bed.close();
}

#[test]
fn captures_come_in_and_go_out() {
    let folder = std::env::temp_dir().join(format!("weir-dpdk-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let file = |name: &str| -> PathBuf { folder.join(name) };
    let packets: Vec<Vec<u8>> = (0..500u16).map(|n| vec![n as u8; 60 + usize::from(n) * 2]).collect();
    let uri = Uri::new("pcap", "").with("out", file("in.pcap").display()).to_string();
    let mut bed = Bed::new(shape(2048, 2048), &[&uri]);
    for part in packets.chunks(BURST) {
        let mut batch = Batch::new();
        part.iter().for_each(|bytes| batch.push(bed.pool.make(bytes).expect("a buffer")).expect("room"));
        assert_eq!(bed.send(0, batch), part.len());
    }
    bed.close();
    let device = format!("net_pcap_a,rx_pcap={},tx_pcap={}", file("in.pcap").display(), file("out.pcap").display());
    let mut bed = Bed::new(shape(2048, 2048), &[&format!("dpdk:{device}")]);
    loop {
        let batch = bed.receive(0);
        if batch.is_empty() {
            break;
        }
        let n = batch.len();
        assert_eq!(bed.send(0, batch), n);
    }
    let counters = bed.ports[0].counters();
    assert_eq!((counters.rx_packets, counters.tx_packets), (500, 500));
    assert_eq!(counters.rx_bytes, packets.iter().map(|packet| packet.len() as u64).sum::<u64>());
    let mut names = Vec::new();
    bed.ports[0].extras(&mut |name, value| names.push((name, value)));
    assert!(names.contains(&("dpdk_rx_good_packets", 500)), "{names:?}");
    bed.close();
    let mut bed =
        Bed::new(shape(2048, 2048), &[&Uri::new("pcap", file("out.pcap").to_str().expect("text")).to_string()]);
    let mut got = Vec::new();
    loop {
        let mut batch = bed.receive(0);
        if batch.is_empty() {
            break;
        }
        got.extend(batch.frames().iter().map(|frame| bed.arena.bytes(frame).to_vec()));
        bed.pool.give_all(&mut batch);
    }
    assert!(got == packets, "{} packets", got.len());
    bed.close();
    std::fs::remove_dir_all(folder).expect("removed");
}

#[test]
fn workers_have_a_queue_each() {
    port_dpdk::register();
    let arena = Arena::new(shape(8192, 2048)).expect("memory");
    let open_one = |queue: u16| {
        let mut pool = Pool::new(&arena, 4096);
        let port = open(&format!("dpdk:net_null_q?queues=2&queue={queue}"), &mut pool).expect("a port");
        (pool, port)
    };
    let workers = [open_one(0), open_one(1)];
    let turn = |(mut pool, mut port): (Pool, Box<dyn Port>)| {
        let mut batch = Batch::new();
        for _ in 0..5000 {
            port.service(&mut pool);
            assert_eq!(port.rx_burst(&mut pool, &mut batch), BURST);
            assert_eq!(port.tx_burst(&mut pool, &mut batch), BURST);
        }
        (pool, port)
    };
    let threads = workers.map(|worker| std::thread::spawn(move || turn(worker)));
    let mut workers = threads.map(|thread| thread.join().expect("no panic"));
    assert_eq!(workers.iter().map(|(_, port)| port.counters().rx_packets).sum::<u64>(), 2 * 5000 * BURST as u64);
    workers.iter_mut().for_each(|(pool, port)| port.close(pool));
    drop(workers);
    assert_eq!(arena.in_depot(), 8192);
}

#[test]
fn a_device_can_be_opened_again() {
    for _ in 0..3 {
        let mut bed = Bed::new(shape(1024, 2048), &["dpdk:net_null_again?ring=64"]);
        assert_eq!(bed.ports[0].caps().link, Link::Up);
        let batch = bed.receive(0);
        assert_eq!(bed.send(0, batch), BURST);
        bed.close();
    }
}

#[test]
fn errors_say_what_to_do() {
    let mut bed = Bed::new(shape(512, 2048), &["dpdk:net_null_taken?ring=64"]);
    let mut error = |uri: &str| match open(uri, &mut bed.pool) {
        Ok(_) => panic!("{uri} opened"),
        Err(error) => error.to_string(),
    };
    for (uri, parts) in [
        ("dpdk:net_nonsense0", &["opening DPDK device net_nonsense0 failed", "check its name"][..]),
        ("dpdk:net_pcap_none,rx_pcap=/nowhere/in.pcap", &["/nowhere/in.pcap"]),
        ("dpdk:net_null_many?queues=2&queue=0&ring=4096", &["packet buffers", "lower ring="]),
        ("dpdk:net_null_taken?queues=2", &["open with queues=1"]),
        ("dpdk:net_null_x?pages=huge", &["plain pages already", "the same pages="]),
        ("dpdk:", &["names no device"]),
    ] {
        let said = error(uri);
        parts.iter().for_each(|part| assert!(said.contains(part), "{uri}: {said}"));
    }
    // What failed took nothing.
    bed.conserved(0);
    bed.close();
}

#[test]
fn faults_and_taps_wrap_dpdk_ports() {
    let mut bed = Bed::new(shape(1024, 2048), &["dpdk:net_null_wrapped?ring=64&loss=0.5&seed=3&faults=rx"]);
    let mut batch = bed.receive(0);
    assert!((1..BURST).contains(&batch.len()), "{}", batch.len());
    bed.pool.give_all(&mut batch);
    bed.conserved(0);
    bed.close();
}
