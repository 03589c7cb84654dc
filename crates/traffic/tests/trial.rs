//! A load over ports: generator and gateway on the two ends of wires in memory.

mod gateway;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use frame::{Arena, ArenaConfig, Pool};
use gateway::forward;
use port::memory::{Memory, Wire};
use traffic::{
    Clock, Direction, Downlink, Load, LoadOptions, Plan, Profile, Ratio, Schedule, TrialResult, Verify, reflect,
};

const SLOTS: u32 = 1024;

struct Bench {
    plan: Arc<Plan>,
    load: Load,
    wires: [Wire; 2],
    hand: Arc<AtomicU64>,
}

fn pool() -> Pool {
    let arena = Arena::new(ArenaConfig { slots: SLOTS, ..ArenaConfig::default() }).unwrap();
    Pool::new(&arena, SLOTS as usize)
}

fn bench(profile: Profile, options: LoadOptions) -> Bench {
    let plan = Plan::new(profile).unwrap();
    let (clock, hand) = Clock::simulated();
    hand.store(1, Ordering::Relaxed);
    let wires = [Wire::default(), Wire::default()];
    let n3 = Box::new(Memory::new("n3", [2, 0, 0, 0, 0, 1], &wires[0]));
    let n6 = Box::new(Memory::new("n6", [2, 0, 0, 0, 0, 2], &wires[1]));
    let options = LoadOptions { clock, verify: Verify::ALL, ..options };
    let load = Load::new(&plan, Some(n3), Some(n6), pool(), options).unwrap();
    Bench { plan, load, wires, hand }
}

impl Bench {
    /// The gateway's turn: everything that waits on the wires goes through.
    fn forward(&self) -> usize {
        let mut came = 0;
        for direction in Direction::BOTH {
            for frame in self.wires[direction.index()].received() {
                came += 1;
                if let Some(out) = forward(&self.plan, direction, &frame) {
                    self.wires[direction.reverse().index()].send(out);
                }
            }
        }
        came
    }

    fn turns(&mut self, n: usize, step_ns: u64) {
        for _ in 0..n {
            self.hand.fetch_add(step_ns, Ordering::Relaxed);
            self.load.turn();
            self.forward();
        }
    }

    fn finish(&mut self) -> TrialResult {
        self.load.stop();
        self.turns(200, 1000);
        self.load.result()
    }
}

fn nothing_lost(result: &TrialResult) {
    for direction in Direction::BOTH {
        let d = result.direction(direction);
        assert_eq!((d.unsent_packets, d.lost_packets), (0, 0), "{d:?}");
        assert_eq!((d.offered_packets, d.forwarded_packets), (d.sent_packets, d.sent_packets));
        let odd = d.duplicated_packets
            + d.reordered_packets
            + d.stale_packets
            + d.corrupt_packets
            + d.misdelivered_packets
            + d.foreign_packets;
        assert_eq!(odd, 0, "{d:?}");
    }
}

#[test]
fn a_trial_from_start_to_drained() {
    let ratio = Ratio { up: 1.0, down: 3.0 };
    let mut bench = bench(Profile { ratio, ipv6_share: 0.5, ..Profile::default() }, LoadOptions::default());
    bench.load.start(&Schedule { pps: Some(400_000.0), ..Schedule::default() });
    bench.turns(10_000, 10_000);
    let result = bench.finish();
    nothing_lost(&result);
    assert_eq!((result.directions.uplink.sent_packets, result.directions.downlink.sent_packets), (10_000, 30_000));
    assert!((result.seconds - 0.1).abs() < 1e-6 && (result.mpps - 0.4).abs() < 1e-3, "{result:?}");
    // Every packet waits on the wire until the next turn.
    assert_eq!(result.directions.uplink.latency_us.max, 10.0);
    assert_eq!(bench.load.pool().free(), SLOTS as usize);
}

#[test]
fn a_ramp_offers_half() {
    let mut bench = bench(Profile::default(), LoadOptions::default());
    let ramp = Duration::from_millis(100);
    bench.load.start(&Schedule { pps: Some(400_000.0), ramp, ..Schedule::default() });
    bench.turns(10_000, 10_000);
    assert_eq!(bench.finish().directions.uplink.sent_packets, 10_000);
}

#[test]
fn what_the_port_refuses_is_offered_and_not_sent() {
    let mut bench = bench(Profile::default(), LoadOptions::default());
    bench.wires[0].limit(Some(100));
    bench.load.start(&Schedule { pps: Some(2e6), ..Schedule::default() });
    bench.turns(1000, 50_000);
    let result = bench.finish();
    let (up, down) = (result.directions.uplink, result.directions.downlink);
    assert_eq!((up.offered_packets, up.sent_packets, up.unsent_packets), (50_000, 100, 49_900));
    assert_eq!((up.forwarded_packets, up.lost_packets), (100, 0));
    assert_eq!((down.offered_packets, down.sent_packets, down.lost_packets), (50_000, 50_000, 0));
    assert_eq!(bench.load.pool().free(), SLOTS as usize);
}

#[test]
fn a_port_that_takes_little_at_a_time_breaks_no_order() {
    let mut bench = bench(Profile { ues: 10, ..Profile::default() }, LoadOptions::default());
    bench.load.start(&Schedule { packets: Some(2000), ..Schedule::default() });
    for n in 0..3000 {
        bench.wires[0].limit(Some(n % 7));
        bench.wires[1].limit(Some(n % 5));
        bench.turns(1, 1000);
    }
    assert!(bench.load.is_done());
    let result = bench.finish();
    nothing_lost(&result);
    assert_eq!(result.directions.uplink.sent_packets, 1000);
}

#[test]
fn packets_too_large_for_link_or_memory_are_refused_at_start() {
    let start = |size, slot_bytes| {
        let sizes = traffic::Sizes::Fixed(size);
        let plan = Plan::new(Profile { uplink_sizes: sizes, ..Profile::default() }).unwrap();
        let arena = Arena::new(ArenaConfig { slots: 4, slot_bytes, ..ArenaConfig::default() }).unwrap();
        let n3 = Box::new(Memory::new("n3", [2, 0, 0, 0, 0, 1], &Wire::default()));
        let load = Load::new(&plan, Some(n3), None, Pool::new(&arena, 4), LoadOptions::default());
        load.err().map(|error| error.to_string())
    };
    assert_eq!(start(1470, 2048), None);
    assert_eq!(start(1471, 2048).unwrap(), "`uplink_sizes` needs an MTU of 1501 on n3, which has 1500");
    assert!(start(1470, 1024).unwrap().starts_with("`uplink_sizes` needs slots with 1514 bytes"));
}

#[test]
fn a_mirror_at_n6_and_one_elsewhere() {
    let options = LoadOptions { downlink: Downlink::Mirrored, ..LoadOptions::default() };
    let mut here = bench(Profile::default(), options);
    here.load.start(&Schedule { pps: Some(1e6), ..Schedule::default() });
    here.turns(1000, 10_000);
    let result = here.finish();
    nothing_lost(&result);
    assert_eq!((result.directions.uplink.sent_packets, result.directions.downlink.sent_packets), (5000, 5000));
    assert_eq!((result.directions.uplink.latency_us.max, result.directions.downlink.latency_us.max), (10.0, 20.0));

    let plan = here.plan.clone();
    let wire = Wire::default();
    let n3 = Box::new(Memory::new("n3", [2, 0, 0, 0, 0, 1], &wire));
    let (clock, hand) = Clock::simulated();
    let options =
        LoadOptions { downlink: Downlink::MirroredElsewhere, clock, verify: Verify::ALL, ..LoadOptions::default() };
    let mut load = Load::new(&plan, Some(n3), None, pool(), options).unwrap();
    load.start(&Schedule { packets: Some(2000), ..Schedule::default() });
    let mut n = 0;
    for _ in 0..100 {
        hand.fetch_add(1000, Ordering::Relaxed);
        load.turn();
        for frame in wire.received() {
            n += 1;
            let mut far = forward(&plan, Direction::Uplink, &frame).unwrap();
            assert!(reflect(&mut far));
            if n % 10 != 0 {
                wire.send(forward(&plan, Direction::Downlink, &far).unwrap());
            }
        }
    }
    load.stop();
    let (up, down) = (load.result().directions.uplink, load.result().directions.downlink);
    assert_eq!((up.sent_packets, up.forwarded_packets, up.lost_packets), (1000, 900, 100));
    assert_eq!((down.sent_packets, down.forwarded_packets, down.lost_packets), (900, 900, 0));
}

#[test]
fn a_responder_alone_turns_everything_around() {
    let plan = Plan::new(Profile::default()).unwrap();
    let wire = Wire::default();
    let n6 = Box::new(Memory::new("n6", [2, 0, 0, 0, 0, 2], &wire));
    let options = LoadOptions {
        send: false,
        receive: false,
        downlink: Downlink::Mirrored,
        clock: Clock::simulated().0,
        verify: Verify::NONE,
        ..LoadOptions::default()
    };
    let mut load = Load::new(&plan, None, Some(n6), pool(), options).unwrap();
    let mut generator = traffic::Generator::new(&plan, Direction::Uplink).unwrap();
    let mut frame = vec![0; 300];
    let len = generator.next(&mut frame, 77).unwrap();
    let there = forward(&plan, Direction::Uplink, &frame[..len]).unwrap();
    wire.send(there.clone());
    assert_eq!(load.turn(), 1);
    let back = wire.received();
    assert_eq!(back.len(), 1);
    assert_eq!((&back[0][..6], &back[0][6..12]), (&there[6..12], &there[..6]));
    let (a, b) = (traffic::inspect(&there).unwrap(), traffic::inspect(&back[0]).unwrap());
    assert_eq!((a.mark, a.addresses().0, a.head.src_port), (b.mark, b.addresses().1, b.head.dst_port));
    assert!(b.checksum_holds());
    load.close();
    assert_eq!(load.pool().free(), SLOTS as usize);
}

#[test]
fn two_halves_on_two_threads_make_one_trial() {
    let plan = Plan::new(Profile { ues: 100, ..Profile::default() }).unwrap();
    let clock = Clock::monotonic();
    let there = [Wire::default(), Wire::default()];
    let back = [Wire::default(), Wire::default()];
    let half = |wires: &[Wire; 2], send| {
        let options = LoadOptions { send, receive: !send, clock: clock.clone(), ..LoadOptions::default() };
        let n3 = Box::new(Memory::new("n3", [2, 0, 0, 0, 0, 1], &wires[0]));
        let n6 = Box::new(Memory::new("n6", [2, 0, 0, 0, 0, 2], &wires[1]));
        Load::new(&plan, Some(n3), Some(n6), pool(), options).unwrap()
    };
    let (mut sender, mut receiver) = (half(&there, true), half(&back, false));
    let stop = AtomicBool::new(false);
    let (sent, received) = std::thread::scope(|scope| {
        let receiving = scope.spawn(|| {
            receiver.start(&Schedule::default());
            receiver.run(Duration::from_secs(60), &stop, |_| {});
            receiver.stop_and_drain(Duration::from_millis(500), Duration::from_secs(10))
        });
        let forwarding = scope.spawn(|| {
            let mut moved = 0;
            while !stop.load(Ordering::Relaxed) || moved > 0 {
                moved = 0;
                for direction in Direction::BOTH {
                    for frame in there[direction.index()].received() {
                        moved += 1;
                        back[direction.reverse().index()].send(forward(&plan, direction, &frame).unwrap());
                    }
                }
                std::thread::yield_now();
            }
        });
        // The receiver must be counting before the first packet is sent.
        std::thread::sleep(Duration::from_millis(20));
        let sent = sender.trial(
            &Schedule { packets: Some(20_000), ..Schedule::default() },
            Duration::from_secs(30),
            &stop,
            |_| {},
        );
        stop.store(true, Ordering::Relaxed);
        forwarding.join().unwrap();
        (sent, receiving.join().unwrap())
    });
    let result = sent.with_received(&received);
    nothing_lost(&result);
    assert_eq!(result.directions.uplink.sent_packets, 10_000);
    assert!(result.mpps > 0.0 && result.directions.uplink.latency_us.max > 0.0);
}

/// A real second on the real clock, against a gateway on its own thread: pacing holds to 0.1 % whenever the machine
/// lets the threads run, and what it did not let them send shows as unsent.
#[test]
fn a_real_second_is_paced() {
    let plan = Plan::new(Profile::default()).unwrap();
    let wires = [Wire::default(), Wire::default()];
    let n3 = Box::new(Memory::new("n3", [2, 0, 0, 0, 0, 1], &wires[0]));
    let n6 = Box::new(Memory::new("n6", [2, 0, 0, 0, 0, 2], &wires[1]));
    let mut load = Load::new(&plan, Some(n3), Some(n6), pool(), LoadOptions::default()).unwrap();
    let stop = AtomicBool::new(false);
    let result = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                for direction in Direction::BOTH {
                    for frame in wires[direction.index()].received() {
                        wires[direction.reverse().index()].send(forward(&plan, direction, &frame).unwrap());
                    }
                }
                std::thread::yield_now();
            }
        });
        let schedule = Schedule { pps: Some(20_000.0), ..Schedule::default() };
        let begin = Instant::now();
        let mut told = 0;
        load.start(&schedule);
        load.run(Duration::from_millis(1050), &AtomicBool::new(false), |r| {
            told += 1;
            assert!(r.seconds >= 1.0);
        });
        assert!(begin.elapsed() >= Duration::from_millis(1050) && told == 1);
        let result = load.stop_and_drain(Duration::from_millis(500), Duration::from_secs(10));
        stop.store(true, Ordering::Relaxed);
        result
    });
    for direction in Direction::BOTH {
        let d = result.direction(direction);
        let due = result.seconds * 10_000.0;
        assert!((d.offered_packets as f64 - due).abs() <= due / 1000.0, "{d:?} in {}", result.seconds);
        assert_eq!(d.offered_packets, d.sent_packets + d.unsent_packets);
        assert_eq!(d.lost_packets, 0);
    }
}
