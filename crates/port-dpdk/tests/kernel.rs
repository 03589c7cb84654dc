//! Ports over DPDK's devices on interfaces of the kernel, which another port has the other end of: every frame arrives, in
//! order, both ways.
//!
//! DPDK is started once for the program: every test has devices of names of its own.
#![cfg(feature = "dpdk")]

mod exchange;

use std::time::Instant;

use exchange::{Bed, FRAMES, Namespace, PATIENCE, WINDOW, alone, one_way};
use frame::{Arena, ArenaConfig, Link};

#[test]
fn tap_exchanges_frames_with_the_kernel() {
    let _alone = alone();
    let namespace = Namespace::new("tap");
    let mut tap = Bed::open(&format!("dpdk:net_tap_kernel,iface=wtap0?netns={}&memory=512", namespace.0));
    namespace.ip(&["-n", &namespace.0, "link", "set", "wtap0", "up"]);
    let mut kernel = Bed::open(&format!("packet:wtap0?netns={}&mode=mmsg&promisc=on", namespace.0));
    (tap.swapped, kernel.swapped) = (false, false);
    tap.quiet();
    assert_eq!(one_way(&mut tap, &mut kernel), (0, 0), "lost, out of order: {:?}", tap.port.counters());
    assert_eq!(one_way(&mut kernel, &mut tap), (0, 0), "lost, out of order: {:?}", tap.port.counters());
    let detail = tap.port.caps().detail;
    assert!(detail.contains("zero copy") && detail.ends_with(", interrupts"), "{detail}");
    assert!(tap.is_woken(|_| kernel.send(7)), "no interrupt");
    kernel.close();
    tap.close();
}

/// A pair of virtual interfaces of a namespace, each with so many queues.
fn veth(namespace: &Namespace, queues: u16) {
    let n = queues.to_string();
    let many = ["numrxqueues", &n, "numtxqueues", &n];
    let mut add = vec!["-n", &namespace.0, "link", "add", "wax0", "mtu", "1500"];
    add.extend(many);
    add.extend(["type", "veth", "peer", "name", "wax1"]);
    add.extend(many);
    namespace.ip(&add);
    for end in ["wax0", "wax1"] {
        // What the other end computes is whole, and packets are single, as a wire has them.
        let off = ["netns", "exec", &namespace.0, "ethtool", "-K", end, "tx", "off", "tso", "off", "gso", "off"];
        namespace.ip(&off);
        namespace.ip(&["-n", &namespace.0, "link", "set", end, "up"]);
    }
}

#[test]
fn af_xdp_exchanges_frames_with_the_kernel() {
    let _alone = alone();
    let namespace = Namespace::new("xdp");
    veth(&namespace, 1);
    let mut xdp = Bed::open(&format!("dpdk:net_af_xdp_one,iface=wax0?netns={}&memory=512", namespace.0));
    let mut kernel = Bed::open(&format!("packet:wax1?netns={}&mode=mmsg&promisc=on", namespace.0));
    (xdp.swapped, kernel.swapped) = (false, false);
    xdp.quiet();
    assert_eq!(xdp.port.caps().link, Link::Up);
    assert_eq!(one_way(&mut xdp, &mut kernel), (0, 0), "lost, out of order: {:?}", xdp.port.counters());
    assert_eq!(one_way(&mut kernel, &mut xdp), (0, 0), "lost, out of order: {:?}", xdp.port.counters());
    let detail = xdp.port.caps().detail;
    assert!(detail.starts_with("net_af_xdp, copied buffers") && detail.ends_with(", no interrupts"), "{detail}");
    kernel.close();
    xdp.close();
}

/// Has this thread run on that CPU of those it may run on, if there are so many.
fn run_on(cpu: usize, all: &libc::cpu_set_t) -> bool {
    // SAFETY: plain calls on sets of this function.
    unsafe {
        let wanted = (0..libc::CPU_SETSIZE as usize).filter(|n| libc::CPU_ISSET(*n, all)).nth(cpu);
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        wanted.iter().for_each(|n| libc::CPU_SET(*n, &mut set));
        wanted.is_some() && libc::sched_setaffinity(0, size_of_val(&set), &raw const set) == 0
    }
}

#[test]
fn af_xdp_receives_by_several_queues() {
    let _alone = alone();
    let namespace = Namespace::new("xdpq");
    veth(&namespace, 2);
    let arena = Arena::new(ArenaConfig { slots: 8192, ..ArenaConfig::default() }).expect("memory");
    // The driver asks for combined channels, which a virtual interface has none of.
    let refused = format!("dpdk:net_af_xdp_both,iface=wax0,queue_count=2?netns={}&queues=2&memory=512", namespace.0);
    let refused = Bed::try_open(&refused).err().expect("no combined channels").to_string();
    assert!(refused.contains("Specified queue count 2 is larger than combined queue count 1"), "{refused}");
    // A device for each queue of the interface is the way then.
    let queue = |n: u16| {
        let device = format!("net_af_xdp_queue{n},iface=wax0,start_queue={n}");
        Bed::in_arena(&arena, &format!("dpdk:{device}?netns={}&memory=512", namespace.0))
    };
    let mut queues = [queue(0), queue(1)];
    let mut kernel = Bed::open(&format!("packet:wax1?netns={}&mode=mmsg&promisc=on", namespace.0));
    kernel.swapped = false;
    queues.iter_mut().for_each(|bed| bed.swapped = false);
    queues[0].quiet();
    // SAFETY: a plain call on a set of this function.
    let all = unsafe {
        let mut all: libc::cpu_set_t = std::mem::zeroed();
        assert_eq!(libc::sched_getaffinity(0, size_of_val(&all), &raw mut all), 0);
        all
    };
    // A virtual interface sends by the queue of the CPU.
    let (mut sent, mut came, mut by_queue) = (0, 0, [0u64; 2]);
    let mut seen = vec![false; FRAMES as usize];
    let end = Instant::now() + PATIENCE;
    while came < FRAMES && Instant::now() < end {
        while sent < FRAMES && sent - came < WINDOW {
            if sent % 1000 == 0 {
                run_on((sent / 1000 % 2) as usize, &all);
            }
            if !kernel.send(sent) {
                break;
            }
            sent += 1;
        }
        kernel.receive();
        for (bed, count) in queues.iter_mut().zip(&mut by_queue) {
            for number in bed.receive() {
                assert!(!std::mem::replace(&mut seen[number as usize], true), "frame {number} came twice");
                (came, *count) = (came + 1, *count + 1);
            }
        }
    }
    assert_eq!(came, FRAMES, "{by_queue:?} {:?}", queues[0].port.counters());
    assert!(by_queue.iter().all(|count| *count > 0) || !run_on(1, &all), "{by_queue:?}");
    println!("by queue: {by_queue:?}");
    // Each sends as well.
    for bed in &mut queues {
        assert_eq!(one_way(bed, &mut kernel), (0, 0), "lost, out of order: {:?}", bed.port.counters());
    }
    kernel.close();
    for bed in &mut queues {
        bed.port.close(&mut bed.pool);
    }
    drop(queues);
    assert_eq!(arena.in_depot(), 8192, "every token is back");
}
