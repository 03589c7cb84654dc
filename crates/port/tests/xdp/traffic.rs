//! Packets there and back.

use frame::{Batch, Port};
use port::PortCounters;
use port::bpf::{Asm, Program, ProgramType, Reg, XdpMode};
use port::xdp::{SteerCounts, Steering, XdpConfig, XdpPort};

use super::bench::{Memory, Net, packet, udp, until};

fn sizes() -> Vec<Vec<u8>> {
    (0..300).map(|at| packet(at, 60 + (at as usize * 37) % 1455)).collect()
}

fn both_ways(net: &Net, config: XdpConfig) {
    net.pair(0, 1);
    let mut memory = Memory::new(2048);
    let mut port = memory.open(config);
    let (tap, packets) = (net.tap("b0"), sizes());
    for packet in &packets {
        tap.send(packet);
    }
    assert_eq!(memory.receive(&mut port, packets.len()), packets);
    memory.send(&mut port, &packets);
    let mut back = Vec::new();
    until("back", || {
        back.extend(tap.drain());
        back.len() >= packets.len()
    });
    assert_eq!(back, packets);

    let bytes: u64 = packets.iter().map(|packet| packet.len() as u64).sum();
    let n = packets.len() as u64;
    let counters = PortCounters { syscalls: 0, ..port.counters() };
    let wanted =
        PortCounters { rx_packets: n, rx_bytes: bytes, tx_packets: n, tx_bytes: bytes, ..PortCounters::default() };
    assert_eq!(counters, wanted);
    assert_eq!(memory.free() + port.held(), 2048);
    port.close(&mut memory.pool);
    assert_eq!((port.held(), memory.free()), (0, 2048));
}

#[test]
fn bytes_are_exact_in_both_directions() {
    let net = Net::new("bytes");
    both_ways(&net, net.config("a0"));
}

/// A driver in zero-copy mode looks for slots when it is bound, and may never look again.
#[test]
fn there_are_slots_from_the_beginning() {
    let net = Net::new("filled");
    net.pair(0, 1);
    let mut memory = Memory::new(1024);
    let mut port = XdpPort::open(net.config("a0"), &mut memory.pool).expect("an AF_XDP port");
    assert!(port.held() > 0 && memory.free() + port.held() == 1024);
    let (tap, sent, mut batch) = (net.tap("b0"), packet(1, 100), Batch::new());
    tap.send(&sent);
    until("it came without a service", || port.rx_burst(&mut memory.pool, &mut batch) == 1);
    assert_eq!(memory.arena.bytes(&batch.frames()[0]), sent);
    memory.pool.give_all(&mut batch);
    port.close(&mut memory.pool);
    assert_eq!(memory.free(), 1024);
}

/// A network card lets in only what it was told to: neighbour discovery's multicast always, other addresses if asked.
#[test]
fn the_interface_receives_what_the_port_wants() {
    let net = Net::new("wide");
    net.pair(0, 1);
    let mut memory = Memory::new(1024);
    for (promiscuous, wanted) in [(false, "promiscuity 0 allmulti 1"), (true, "promiscuity 1 allmulti 0")] {
        let mut port = memory.open(XdpConfig { promiscuous, ..net.config("a0") });
        let shown = || net.shown("a0").split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(shown().contains(wanted), "{}", shown());
        port.close(&mut memory.pool);
        assert!(shown().contains("promiscuity 0 allmulti 0"), "{}", shown());
    }
}

#[test]
fn the_generic_program_serves_as_well() {
    let net = Net::new("generic");
    both_ways(&net, XdpConfig { mode: XdpMode::Generic, ..net.config("a0") });
}

#[test]
fn small_rings_serve_as_well() {
    let net = Net::new("small");
    net.pair(0, 1);
    let mut memory = Memory::new(256);
    let mut port = memory.open(XdpConfig { fill: 32, ring: 32, ..net.config("a0") });
    let tap = net.tap("b0");
    for round in 0..50 {
        let packets: Vec<_> = (0..30).map(|at| packet(round * 100 + at, 200)).collect();
        packets.iter().for_each(|packet| tap.send(packet));
        assert_eq!(memory.receive(&mut port, 30), packets);
        memory.send(&mut port, &packets);
        assert_eq!(tap.drain(), packets);
    }
    port.close(&mut memory.pool);
    assert_eq!(memory.free(), 256);
}

#[test]
fn a_pause_that_emptied_the_stock_makes_it_larger() {
    let net = Net::new("pause");
    net.pair(0, 1);
    let mut memory = Memory::new(4096);
    let mut port = memory.open(XdpConfig { fill: 64, ..net.config("a0") });
    let tap = net.tap("b0");
    let packets: Vec<_> = (0..400).map(|at| packet(at, 100)).collect();
    let mut lost = Vec::new();
    // Until a pause as long as the first costs nothing.
    while lost.last() != Some(&0) || lost.len() < 2 {
        assert!(lost.len() < 12, "lost {lost:?}");
        // Everything comes while nobody looks.
        packets.iter().for_each(|packet| tap.send(packet));
        let before = port.counters();
        let mut batch = Batch::new();
        until("all received or counted", || {
            port.rx_burst(&mut memory.pool, &mut batch);
            batch.drain(|frame| memory.pool.give(frame));
            port.kick(&mut memory.pool);
            port.service(&mut memory.pool);
            let now = port.counters();
            let (came, missed) = (now.rx_packets - before.rx_packets, now.rx_no_frame - before.rx_no_frame);
            came + missed >= packets.len() as u64
        });
        lost.push(port.counters().rx_no_frame - before.rx_no_frame);
    }
    assert!(lost.iter().sum::<u64>() > 0, "{lost:?}");
    assert!((65..=512).contains(&port.held()), "{}", port.held());
    port.close(&mut memory.pool);
    assert_eq!(memory.free(), 4096);
}

#[test]
fn a_frame_goes_from_port_to_port_without_a_copy() {
    let net = Net::new("forward");
    net.pair(0, 1);
    net.pair(1, 1);
    let mut memory = Memory::new(2048);
    let (mut a, mut b) = (memory.open(net.config("a0")), memory.open(net.config("a1")));
    let (from, to) = (net.tap("b0"), net.tap("b1"));
    let packets: Vec<_> = (0..40).map(|at| packet(at, 128)).collect();
    packets.iter().for_each(|packet| from.send(packet));
    let mut batch = Batch::new();
    until("received", || {
        a.rx_burst(&mut memory.pool, &mut batch);
        batch.len() == packets.len()
    });
    // An encapsulation in place, as a gateway would.
    let places: Vec<_> = batch.frames().iter().map(|frame| memory.arena.bytes(frame).as_ptr()).collect();
    for frame in batch.frames_mut() {
        frame.push_front(40).expect("headroom");
        memory.arena.bytes_mut(frame)[..40].fill(0xab);
    }
    let (free, held) = (memory.free(), b.held());
    let moved: Vec<_> = batch.frames().iter().map(|frame| memory.arena.bytes(frame)[40..].as_ptr()).collect();
    assert_eq!(moved, places);
    assert_eq!(b.tx_burst(&mut memory.pool, &mut batch), packets.len());
    assert_eq!((memory.free(), b.held()), (free, held + packets.len()), "the very slots, and no others");
    until("completed", || {
        b.kick(&mut memory.pool);
        b.service(&mut memory.pool);
        b.held() == held
    });
    let wanted: Vec<_> = packets.iter().map(|packet| [vec![0xab; 40], packet.clone()].concat()).collect();
    assert_eq!(to.drain(), wanted);
    a.close(&mut memory.pool);
    b.close(&mut memory.pool);
    assert_eq!(memory.free(), 2048);
}

#[test]
fn every_queue_gets_its_own() {
    let net = Net::new("queues");
    net.pair(0, 2);
    let mut memory = Memory::new(4096);
    let at = |interface: &str, queue| XdpConfig { queue, fill: 256, ..net.config(interface) };
    let mut ours = [memory.open(at("a0", 0)), memory.open(at("a0", 1))];
    // An AF_XDP port sends on its own queue, and veth receives on the queue of the same number.
    let mut theirs = [memory.open(at("b0", 0)), memory.open(at("b0", 1))];
    assert_eq!(ours[0].caps().queues, Some(2), "the device has as many");
    let packets = [0, 1].map(|queue| (0..100 + queue * 50).map(|at| packet(queue * 1000 + at, 90)).collect::<Vec<_>>());
    for (port, packets) in theirs.iter_mut().zip(&packets) {
        memory.send(port, packets);
    }
    for (port, packets) in ours.iter_mut().zip(&packets) {
        assert_eq!(memory.receive(port, packets.len()), *packets);
    }
    let counts = ours[0].steer().expect("attached").counts().expect("counts");
    assert_eq!(counts, SteerCounts { redirected: 250, passed: 0, no_socket: 0 }, "one program for both");

    // Without the second port its packets are the host's.
    let [mut first, mut second] = ours;
    second.close(&mut memory.pool);
    let host = net.tap("a0");
    memory.send(&mut theirs[1], &packets[1]);
    assert_eq!(memory.receive(&mut first, 0), [[0_u8; 0]; 0]);
    assert_eq!(host.drain(), packets[1]);
    assert_eq!(first.steer().expect("attached").counts().expect("counts").no_socket, 150);
    first.close(&mut memory.pool);
    theirs.iter_mut().for_each(|port| port.close(&mut memory.pool));
    assert_eq!(memory.free(), 4096);
}

#[test]
fn the_host_keeps_what_the_filter_leaves() {
    let net = Net::new("filter");
    net.pair(0, 1);
    let mut memory = Memory::new(2048);
    let mut port = memory.open(XdpConfig { filter: "udp:2152".parse().expect("a filter"), ..net.config("a0") });
    let (host, tap) = (net.tap("a0"), net.tap("b0"));
    let ours: Vec<_> = (0..20).map(|at| udp(at, 2152)).collect();
    let hosts: Vec<_> = (0..30).map(|at| udp(at, 53)).chain([packet(7, 80)]).collect();
    ours.iter().chain(&hosts).for_each(|packet| tap.send(packet));
    assert_eq!(memory.receive(&mut port, 20), ours);
    assert_eq!(host.drain(), hosts);
    let counts = port.steer().expect("attached").counts().expect("counts");
    assert_eq!(counts, SteerCounts { redirected: 20, passed: 31, no_socket: 0 });

    // What the port sends is not the host's either.
    memory.send(&mut port, &ours);
    assert_eq!((host.drain().len(), tap.drain()), (0, ours));
    port.close(&mut memory.pool);
}

#[test]
fn a_fast_path_can_be_put_in_and_taken_out() {
    let net = Net::new("fast");
    net.pair(0, 1);
    let mut memory = Memory::new(2048);
    let mut port = memory.open(net.config("a0"));
    let tap = net.tap("b0");
    const XDP_DROP: i32 = 1;
    let mut swallow = Asm::new();
    swallow.mov(Reg::R0, XDP_DROP).exit();
    let program = Program::load("swallow", ProgramType::Xdp, &swallow.build().expect("built")).expect("loads");
    let steering = Steering::of("a0", Some(&net.name)).expect("open");
    steering.set_fast_path(std::os::fd::AsFd::as_fd(&program)).expect("set");
    let packets: Vec<_> = (0..10).map(|at| packet(at, 70)).collect();
    packets.iter().for_each(|packet| tap.send(packet));
    assert_eq!(memory.receive(&mut port, 0), [[0_u8; 0]; 0]);
    assert_eq!(steering.counts().expect("counts"), SteerCounts::default());
    steering.clear_fast_path().expect("cleared");
    packets.iter().for_each(|packet| tap.send(packet));
    assert_eq!(memory.receive(&mut port, 10), packets);
    port.close(&mut memory.pool);
}

#[test]
fn a_sleeper_wakes_when_a_packet_comes() {
    let net = Net::new("sleep");
    net.pair(0, 1);
    let mut memory = Memory::new(1024);
    let mut port = memory.open(net.config("a0"));
    let tap = net.tap("b0");
    let ready = |port: &port::xdp::XdpPort| {
        let mut fd =
            libc::pollfd { fd: std::os::fd::AsRawFd::as_raw_fd(&port.wait_fd().expect("up")), events: 1, revents: 0 };
        // SAFETY: one valid entry.
        unsafe { libc::poll(&mut fd, 1, 50) }
    };
    assert_eq!(ready(&port), 0);
    tap.send(&packet(1, 60));
    assert_eq!(ready(&port), 1);
    assert_eq!(memory.receive(&mut port, 1), [packet(1, 60)]);
    port.close(&mut memory.pool);
    assert!(port.wait_fd().is_none());
}

#[test]
fn without_slots_packets_are_counted() {
    let net = Net::new("dry");
    net.pair(0, 1);
    let mut memory = Memory::new(64);
    let mut port = memory.open(XdpConfig { fill: 64, ring: 64, ..net.config("a0") });
    let tap = net.tap("b0");
    assert_eq!((port.held(), memory.free()), (64, 0));
    (0..100).for_each(|at| tap.send(&packet(at, 60)));
    until("counted", || {
        port.kick(&mut memory.pool);
        port.service(&mut memory.pool);
        let counters = port.counters();
        counters.rx_no_frame + counters.rx_ring_full == 36
    });
    assert_eq!(port.counters().rx_too_long, 0);
    assert_eq!(memory.receive(&mut port, 64).len(), 64);
    port.close(&mut memory.pool);
    assert_eq!(memory.free(), 64);
}
