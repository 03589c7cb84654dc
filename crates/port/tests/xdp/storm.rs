//! Ports opened while packets already pour in.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use frame::{Batch, Port};
use port::bpf::{Asm, Helper, Program, ProgramType, Reg};
use port::netns;

use super::bench::{Memory, Net, packet};

const ROUNDS: u32 = 12;
/// What has to pass each way before a round is over.
const WANTED: usize = 500;
/// A port that has not passed so much by then stands still. (It takes a few milliseconds.)
const PATIENCE: Duration = Duration::from_secs(2);

/// Opens two ports again and again while `pour` sends to their far ends, and has them forward to each other.
fn weather(test: &str, pour: impl Fn(&Net, &AtomicBool) + Sync) {
    let net = Net::new(test);
    net.pair(0, 1);
    net.pair(1, 1);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| pour(&net, &stop));
        // Or the scope would wait for ever after a panic.
        let _end = Calm(&stop);
        for round in 0..ROUNDS {
            // Every other round the receive work of the interface is set up anew, too.
            if round % 2 == 1 {
                for (name, to) in [("a0", "down"), ("a0", "up"), ("a1", "down"), ("a1", "up")] {
                    net.ip(&format!("link set {name} {to}"));
                }
            }
            assert_eq!(pass(&net), None, "round {round}");
        }
    });
}

/// Ends the storm when dropped.
struct Calm<'a>(&'a AtomicBool);

impl Drop for Calm<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Forwards between fresh ports; says what it saw if nothing moved.
fn pass(net: &Net) -> Option<String> {
    let mut memory = Memory::new(4096);
    let mut ports = ["a0", "a1"].map(|name| memory.open(net.config(name)));
    let (opened, mut moved, mut batch) = (Instant::now(), [0, 0], Batch::new());
    while moved.iter().any(|moved| *moved < WANTED) && opened.elapsed() < PATIENCE {
        for (rx, tx) in [(0, 1), (1, 0)] {
            ports[rx].kick(&mut memory.pool);
            ports[rx].service(&mut memory.pool);
            ports[rx].rx_burst(&mut memory.pool, &mut batch);
            moved[tx] += ports[tx].tx_burst(&mut memory.pool, &mut batch);
            memory.pool.give_all(&mut batch);
        }
    }
    let seen = ports.each_ref().map(|port| {
        let steered = port.steer().and_then(|steer| steer.counts().ok());
        (port.caps().link, port.held(), port.counters(), steered)
    });
    ports.iter_mut().for_each(|port| port.close(&mut memory.pool));
    assert_eq!(memory.free(), 4096);
    moved.iter().any(|moved| *moved < WANTED).then(|| format!("moved {moved:?}: {seen:#?}"))
}

#[test]
fn packets_of_sockets_pass_ports_opened_among_them() {
    weather("storm", |net, stop| {
        let (taps, load) = (["b0", "b1"].map(|end| net.tap(end)), packet(1, 128));
        while !stop.load(Ordering::Relaxed) {
            for tap in &taps {
                // Refused while the interface is down.
                tap.offer(&load);
            }
        }
    });
}

#[test]
fn packets_of_the_kernel_pass_ports_opened_among_them() {
    weather("gale", |net, stop| {
        let blow = |end: &str| {
            let index = port::iface::index_here(end).expect("made");
            let mut redirect = Asm::new();
            redirect.mov(Reg::R1, index as i32).mov(Reg::R2, 0).call(Helper::Redirect).exit();
            Program::load("gale", ProgramType::Xdp, &redirect.build().expect("built")).expect("loads")
        };
        let blown = netns::within(&net.name, || {
            let programs = ["b0", "b1"].map(blow);
            while !stop.load(Ordering::Relaxed) {
                for program in &programs {
                    program.run_live(&packet(1, 128), 0, 1 << 16).expect("sent");
                }
            }
        });
        blown.expect("namespace");
    });
}
