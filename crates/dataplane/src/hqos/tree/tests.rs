//! The tree in virtual time.

use frame::{Arena, ArenaConfig, Pool};
use proptest::prelude::*;
use table::bucket::{Config, Rate};

use super::super::{CodelConfig, Lease, Room};
use super::*;

const MS: u64 = 1_000_000;
const MBIT: u64 = 1_000_000;

fn rate(bps: u64) -> Config {
    Config::new(Rate::bps(bps), 3000)
}

fn open() -> Config {
    Config::new(Rate::UNLIMITED, 0)
}

/// Class 0 is a priority class; the others have weights 4, 2 and 1. Nothing is managed.
fn tier() -> Tier {
    let class = |weight| ClassTerms { weight, buffer: 1 << 20, aqm: None };
    Tier { classes: [class(0), class(4), class(2), class(1)], minimum: None, urgent: None }
}

fn leaf(node: u32, bps: Option<u64>) -> LeafSpec {
    LeafSpec { node, tier: 0, rate: bps.map_or(open(), rate), weight: 1, overhead: 0, framing: Framing::Whole }
}

struct Rig {
    pool: Pool,
    tree: Tree<u32>,
    now: u64,
    refused: u64,
    dropped: u64,
    /// Leaf of each packet that made room for another, by its label.
    shed: Vec<u32>,
    /// Leaf, class, and nanoseconds waited by the counter of the class.
    sent: Vec<(u32, u8)>,
    /// Times between looks.
    step: u64,
}

impl Rig {
    fn new(port: Option<u64>, nodes: &[(Config, u16)], leaves: &[LeafSpec], tiers: &[Tier]) -> Self {
        let slots = 8192;
        let arena = Arena::new(ArenaConfig { slots, ..ArenaConfig::default() }).expect("memory");
        let lease = port.and_then(|rate| Lease::among(rate, 1, 0).pop());
        let limits = TreeLimits { frames: slots as usize, bytes: 1 << 24 };
        let ports = vec![PortSpec { lease, room: None }, PortSpec::default()];
        let mut tree = Tree::new(limits, ports, leaves.len(), u32::MAX, 0);
        tiers.iter().zip(0..).for_each(|(tier, n)| tree.set_tier(n, *tier));
        for ((rate, weight), n) in nodes.iter().zip(0..) {
            assert!(tree.set_node(n, &NodeSpec { port: 0, rate: *rate, weight: *weight, overhead: 0 }, 0));
        }
        for (spec, n) in leaves.iter().zip(0..) {
            assert!(tree.install(n, spec, n + 100, 0));
        }
        let pool = Pool::new(&arena, slots as usize);
        Self { pool, tree, now: 0, refused: 0, dropped: 0, shed: Vec::new(), sent: Vec::new(), step: 100_000 }
    }

    /// A worker's part of a buffer of 10 ms of the first port's rate.
    fn with_buffer(mut self, bps: u64) -> Self {
        let room = Room::among(bps, 10 * MS, 1, 0).pop();
        self.tree.ports[0] = Port::new(PortSpec { lease: None, room });
        self
    }

    fn push(&mut self, leaf: u32, class: u8, bytes: usize) {
        self.try_push(leaf, class, bytes);
    }

    /// Why a packet does not wait; none: it does.
    fn try_push(&mut self, leaf: u32, class: u8, bytes: usize) -> Option<Refused> {
        let Self { pool, tree, shed, now, .. } = self;
        let mut frame = pool.make(&vec![0; bytes]).expect("more buffers than may wait");
        let made_room = |frame, label: u32| {
            shed.push(label - 100);
            pool.give(frame);
        };
        let why = tree.push(leaf, class, &mut frame, *now, made_room).err()?;
        self.refused += 1;
        self.pool.give(frame);
        Some(why)
    }

    /// Bytes of the longest queue of two packets or more, and whether the lists of lengths are right.
    fn longest(&self) -> u32 {
        let queues =
            || self.tree.leaves.iter().flat_map(|leaf| leaf.queues.iter().map(|queue| (leaf.is_in_use(), queue)));
        for (in_use, queue) in queues() {
            let (is, listed) = (rank(queue.bytes), queue.codel.rank);
            assert!(in_use || queue.packets == 0);
            assert_eq!(listed > 0, queue.packets > 1, "{queue:?}");
            assert!(listed == 0 || is <= listed && is + 1 >= listed, "{queue:?}");
        }
        let top = self.tree.ports.iter().map(|port| port.longest.top()).max();
        assert_eq!(top, queues().map(|(_, queue)| queue.codel.rank).max());
        for port in &self.tree.ports {
            assert_eq!(port.longest.first().is_some(), port.longest.top() > 0);
        }
        let held: u64 = self.tree.ports.iter().map(|port| port.bytes).sum();
        assert_eq!(held, self.tree.bytes());
        let backlogged = self.tree.leaves.iter().filter(|leaf| leaf.backlog != 0).count();
        assert_eq!(backlogged, self.tree.backlogged());
        queues().filter(|(_, queue)| queue.packets > 1).map(|(_, queue)| queue.bytes).max().unwrap_or(0)
    }

    fn bytes_of(&self, leaf: u32, class: u8) -> u32 {
        self.tree.leaves.get(leaf as usize).map_or(0, |leaf| leaf.queues[usize::from(class)].bytes)
    }

    fn turn(&mut self) {
        let (pool, sent, dropped) = (&mut self.pool, &mut self.sent, &mut self.dropped);
        while self.tree.pull(self.now, 32, |departed: Departed<'_, u32>| {
            assert_eq!(departed.label, departed.leaf + 100);
            match departed.dropped {
                true => *dropped += 1,
                false => sent.push((departed.leaf, departed.class)),
            }
            pool.give(departed.frame.take());
        }) > 0
        {}
        self.now += self.step;
    }

    /// Keeps a queue of 40 frames in each of those classes for a time in ms: (leaf, class, bytes).
    fn backlogged(&mut self, ms: u64, queues: &[(u32, u8, usize)]) {
        let end = self.now + ms * MS;
        while self.now < end {
            for (leaf, class, bytes) in queues {
                while self.tree.leaves[*leaf as usize].queues[usize::from(*class)].packets < 40 {
                    self.push(*leaf, *class, *bytes);
                }
            }
            self.turn();
        }
    }

    /// Bits a second that a class of a leaf has sent since the beginning, over `ms`.
    fn bps(&self, leaf: u32, class: u8, ms: u64) -> f64 {
        let counts = self.tree.counts(leaf).expect("a leaf")[usize::from(class)];
        counts.bytes as f64 * 8000.0 / ms as f64
    }

    /// The mean time that packets of a class waited, in ns.
    fn mean_wait(&self, leaf: u32, class: u8) -> u64 {
        let counts = self.tree.counts(leaf).expect("a leaf")[usize::from(class)];
        counts.waited_ns / counts.packets.max(1)
    }
}

fn near(value: f64, wanted: f64) -> bool {
    (value / wanted - 1.0).abs() <= 0.01
}

#[test]
fn leaf_keeps_its_rate_whatever_the_size() {
    for (bytes, bps) in [(64, 3 * MBIT), (1500, 20 * MBIT), (590, 900 * MBIT), (1514, 64_000)] {
        let mut rig = Rig::new(None, &[(open(), 1)], &[leaf(0, Some(bps))], &[tier()]);
        rig.backlogged(4000, &[(0, 3, bytes)]);
        // The burst of 3,000 bytes comes on top.
        let more = 3000.0 * 8.0 / 4.0;
        let sent = rig.bps(0, 3, 4000) - more;
        assert!((sent / bps as f64 - 1.0).abs() < 0.01 + 1514.0 * 8.0 / 4.0 / bps as f64, "{bytes} B: {sent} of {bps}");
    }
}

#[test]
fn queue_goes_on_in_another_tree() {
    let new = || Rig::new(None, &[(rate(80 * MBIT), 1)], &[leaf(0, Some(8 * MBIT))], &[tier()]);
    let (mut old, mut other) = (new(), new());
    (0..20).for_each(|_| old.push(0, 3, 1000));
    while old.now < 5 * MS {
        old.turn();
    }
    let (sent, mut frames) = (old.sent.len(), Vec::new());
    old.tree.each_waiting(0, |class, at, frame| frames.push((class, at, frame.len())));
    assert_eq!((frames.len(), frames.first()), (20 - sent, Some(&(3, 0, 1000))));
    other.now = old.now;
    other.tree.put_earned(0, &old.tree.earned(0).expect("a leaf"));
    other.tree.put_nodes_earned(old.tree.nodes_earned());
    frames.into_iter().for_each(|(class, _, len)| other.push(0, class, len));
    while old.now < 30 * MS {
        old.turn();
        other.turn();
        let (here, there) = (old.sent.len() - sent, other.sent.len());
        assert!(here.abs_diff(there) <= 1, "{here} and {there} after {} ns", old.now);
    }
    assert_eq!(other.sent.len(), 20 - sent);
}

#[test]
fn overhead_counts_against_the_rate() {
    let spec = LeafSpec { overhead: 24, ..leaf(0, Some(8 * MBIT)) };
    let mut rig = Rig::new(None, &[(open(), 1)], &[spec], &[tier()]);
    rig.backlogged(2000, &[(0, 1, 76)]);
    assert!(near(rig.bps(0, 1, 2000), 0.76 * 8e6), "{}", rig.bps(0, 1, 2000));
}

#[test]
fn cells_count_against_the_rate() {
    // 1,500 bytes with 18 of overhead and AAL5's 8 take 32 cells; 46 with them 2: as tc-stab(8) counts.
    assert_eq!([1518, 64, 40, 41].map(|len| Framing::Atm.charged(len)), [32 * 53, 2 * 53, 53, 2 * 53]);
    assert_eq!([1518, 64, 65].map(|len| Framing::Ptm.charged(len)), [1542, 65, 67]);
    for (framing, share) in [(Framing::Atm, 82.0 / 159.0), (Framing::Ptm, 82.0 / 102.0)] {
        let spec = LeafSpec { overhead: 18, framing, ..leaf(0, Some(8 * MBIT)) };
        let mut rig = Rig::new(None, &[(open(), 1)], &[spec], &[tier()]);
        rig.backlogged(2000, &[(0, 1, 82)]);
        assert!(near(rig.bps(0, 1, 2000), share * 8e6), "{framing:?}: {}", rig.bps(0, 1, 2000));
    }
}

#[test]
fn node_divides_its_rate_by_weight() {
    let leaves = [leaf(0, None), LeafSpec { weight: 3, ..leaf(0, None) }, leaf(0, Some(5 * MBIT))];
    let mut rig = Rig::new(None, &[(rate(85 * MBIT), 1)], &leaves, &[tier()]);
    rig.backlogged(1000, &[(0, 3, 1500), (1, 3, 400), (2, 3, 1000)]);
    let bps = [0, 1, 2].map(|n| rig.bps(n, 3, 1000));
    assert!(near(bps[0], 20e6) && near(bps[1], 60e6) && near(bps[2], 5e6), "{bps:?}");
}

#[test]
fn port_divides_its_rate_among_nodes() {
    let nodes = [(open(), 1), (open(), 4), (rate(10 * MBIT), 1)];
    let leaves = [leaf(0, None), leaf(0, None), leaf(1, None), leaf(2, None)];
    let mut rig = Rig::new(Some(100 * MBIT), &nodes, &leaves, &[tier()]);
    let queues = [(0, 3, 1476), (1, 3, 1476), (2, 3, 1476), (3, 3, 1476)];
    rig.backlogged(1000, &queues);
    // Of 100 Mbit/s, 24 bytes in 1,500 are the line's own.
    let bps = [0, 1, 2, 3].map(|n| rig.bps(n, 3, 1000));
    let all: f64 = bps.iter().sum();
    assert!(near(all, 98.4e6), "{bps:?}");
    assert!(near(bps[3], 10e6) && near(bps[2], 4.0 * (bps[0] + bps[1])) && near(bps[0], bps[1]), "{bps:?}");
}

#[test]
fn classes_share_what_priority_leaves() {
    let mut rig = Rig::new(None, &[(open(), 1)], &[leaf(0, Some(70 * MBIT))], &[tier()]);
    rig.backlogged(1000, &[(0, 1, 1500), (0, 2, 700), (0, 3, 64)]);
    let bps = [1, 2, 3].map(|class| rig.bps(0, class, 1000));
    assert!(near(bps[0], 40e6) && near(bps[1], 20e6) && near(bps[2], 10e6), "{bps:?}");
    let mut rig = Rig::new(None, &[(open(), 1)], &[leaf(0, Some(70 * MBIT))], &[tier()]);
    rig.backlogged(300, &[(0, 0, 1500), (0, 1, 1500)]);
    assert_eq!(rig.tree.counts(0).expect("there")[1].packets, 0);
}

/// A voice packet of a leaf waits no longer than one frame of its own best effort takes at the leaf's rate.
#[test]
fn voice_waits_for_one_frame_at_most() {
    let mut rig = Rig::new(None, &[(open(), 1)], &[leaf(0, Some(10 * MBIT))], &[tier()]);
    rig.step = 20_000;
    rig.backlogged(100, &[(0, 3, 1514)]);
    for n in 0..100 {
        rig.push(0, 0, 200);
        rig.backlogged(20, &[(0, 3, 1514)]);
        assert_eq!(rig.tree.counts(0).expect("there")[0].packets, n + 1);
    }
    let frame = 1514 * 8 * 1000 / 10;
    assert!(rig.mean_wait(0, 0) <= frame * 6 / 10, "{} of {frame} ns", rig.mean_wait(0, 0));
}

/// Where a node is crowded, urgent packets pass the queues of all its leaves, as far as their own rate allows.
#[test]
fn urgent_packets_pass_other_leaves() {
    let terms = Tier { urgent: Some(rate(MBIT)), ..tier() };
    let mut waits = Vec::new();
    for tier in [terms, tier()] {
        let leaves = [leaf(0, None); 50];
        let mut rig = Rig::new(None, &[(rate(100 * MBIT), 1)], &leaves, &[tier]);
        rig.step = 20_000;
        let queues: Vec<_> = (0..50).map(|n| (n, 3, 1500)).collect();
        rig.backlogged(50, &queues);
        for _ in 0..50 {
            rig.push(7, 0, 200);
            rig.backlogged(20, &queues);
        }
        waits.push(rig.mean_wait(7, 0));
    }
    assert!(waits[0] < 200_000 && waits[1] > 5 * waits[0], "{waits:?}");
}

#[test]
fn more_than_the_urgent_rate_has_no_priority_over_others() {
    let terms = Tier { urgent: Some(rate(MBIT)), ..tier() };
    let mut rig = Rig::new(None, &[(rate(30 * MBIT), 1)], &[leaf(0, None); 3], &[terms]);
    rig.backlogged(2000, &[(0, 0, 1500), (1, 3, 1500), (2, 3, 1500)]);
    let bps = [(0, 0), (1, 3), (2, 3)].map(|(n, class)| rig.bps(n, class, 2000));
    assert!(bps[0] < 11.1e6 && bps[1] > 9.4e6 && near(bps[1], bps[2]), "{bps:?}");
}

#[test]
fn minimum_comes_before_shares() {
    let terms = Tier { minimum: Some(rate(30 * MBIT)), ..tier() };
    let mut leaves = vec![leaf(0, None); 10];
    leaves[4].tier = 1;
    let mut rig = Rig::new(None, &[(rate(50 * MBIT), 1)], &leaves, &[tier(), terms]);
    rig.step = 20_000;
    let queues: Vec<_> = (0..10).map(|n| (n, 3, 1500)).collect();
    rig.backlogged(2000, &queues);
    let bps = rig.bps(4, 3, 2000);
    // 30 of its own, and a part of the share of the 20 that are left.
    assert!((29.7e6..33e6).contains(&bps), "{bps}");
    assert!(near(rig.bps(0, 3, 2000), (50e6 - bps) / 9.0), "{}", rig.bps(0, 3, 2000));
}

#[test]
fn controlled_delay_keeps_a_standing_queue_short() {
    let mut terms = tier();
    terms.classes[3].aqm = Some(CodelConfig::default());
    let mut waits = Vec::new();
    for terms in [terms, tier()] {
        let mut rig = Rig::new(None, &[(open(), 1)], &[leaf(0, Some(10 * MBIT))], &[terms]);
        // A sender that slows down when it loses packets: 1.2 times the rate, halved for 200 ms after a drop.
        let mut slow_until = 0;
        let mut owed = 0;
        let (mut lost, end) = (0, 10_000 * MS);
        while rig.now < end {
            owed += if rig.now < slow_until { 600 } else { 1200 };
            while owed >= 12_000 {
                rig.push(0, 3, 1500);
                owed -= 12_000;
            }
            rig.turn();
            if rig.dropped + rig.refused > lost {
                lost = rig.dropped + rig.refused;
                slow_until = rig.now + 200 * MS;
            }
        }
        waits.push(rig.mean_wait(0, 3));
    }
    assert!(waits[0] < 20 * MS && waits[1] > 5 * waits[0], "{waits:?}");
}

#[test]
fn longest_queue_makes_room_for_others() {
    let mut rig = Rig::new(None, &[(rate(MBIT), 1)], &[leaf(0, None), leaf(0, None)], &[tier()]);
    rig.tree.limits.bytes = 100_000;
    (0..200).for_each(|_| rig.push(0, 3, 1000));
    assert_eq!(rig.tree.backlog(0)[3], (100, 100_000), "all of the memory, as long as it is alone");
    assert_eq!(rig.try_push(0, 3, 1000), Some(Refused::Longest), "its own is the longest");
    (0..30).for_each(|_| rig.push(1, 3, 1000));
    assert_eq!((rig.tree.backlog(0)[3], rig.tree.backlog(1)[3]), ((70, 70_000), (30, 30_000)));
    assert_eq!(rig.shed, vec![0; 30]);
    assert_eq!(rig.tree.counts(0).expect("there")[3].full, 131);
    // What was there first has gone: the oldest packets make room.
    assert_eq!(rig.tree.counts(1).expect("there")[3].full, 0);
}

/// What waited elsewhere waits on in full: only what comes new goes by the buffer of the port.
#[test]
fn packets_from_elsewhere_wait_beyond_the_buffer() {
    let leaves = [leaf(0, None), leaf(0, None)];
    let mut rig = Rig::new(None, &[(rate(MBIT), 1)], &leaves, &[tier()]).with_buffer(40 * MBIT);
    let Rig { pool, tree, .. } = &mut rig;
    for _ in 0..300 {
        let mut frame = pool.make(&[0; 1000]).expect("a buffer");
        tree.put(0, 3, &mut frame, 0, |_, _| panic!("none makes room")).expect("it waits");
    }
    assert_eq!(rig.tree.port_bytes(0), (300_000, 50_000));
    rig.tree.set_may_shed(1);
    assert_eq!((rig.try_push(1, 3, 1000), rig.shed.len()), (Some(Refused::Longest), 1), "the caller has room for one");
    rig.tree.set_may_shed(usize::MAX);
    // No push drops more than a few, and those that come new wait as soon as the excess is gone.
    assert_eq!(rig.try_push(1, 3, 1000), Some(Refused::Longest));
    assert_eq!(rig.shed.len(), 1 + MOST_SHED);
    let refused = (0..20).filter(|_| rig.try_push(1, 3, 1000).is_some()).count();
    assert_eq!((refused, rig.tree.backlog(1)[3].0), (2, 18));
    assert_eq!(rig.tree.port_bytes(0), (50_000, 50_000));
    rig.longest();
    // The memory of all queues is a bound for them, too.
    rig.tree.limits.bytes = 50_000;
    let mut frame = rig.pool.make(&[0; 1000]).expect("a buffer");
    let Rig { pool, tree, .. } = &mut rig;
    assert_eq!(tree.put(0, 3, &mut frame, 0, |_, _| panic!("its own is the longest")), Err(Refused::Longest));
    pool.give(frame);
}

#[test]
fn what_is_gone_is_published_at_once() {
    let mut rig = Rig::new(None, &[(rate(MBIT), 1)], &[leaf(0, None), leaf(0, None)], &[tier()]);
    let mut rooms = Room::among(80 * MBIT, 10 * MS, 2, 0);
    rig.tree.ports[0] = Port::new(PortSpec { lease: None, room: rooms.pop() });
    (0..40).for_each(|_| rig.push(0, 3, 1000));
    rig.push(1, 3, 1000);
    rig.tree.publish(0);
    rooms[0].look(0, 0);
    assert_eq!(rooms[0].most(), 59_000);
    let Rig { pool, tree, .. } = &mut rig;
    tree.remove(0, |frame| pool.give(frame));
    tree.publish(0);
    rooms[0].look(0, 0);
    assert_eq!(rooms[0].most(), 99_000);
}

#[test]
fn memory_is_taken_from_the_port_with_the_longest_queue() {
    let mut rig = Rig::new(None, &[(rate(MBIT), 1)], &[leaf(0, None)], &[tier()]);
    assert!(!rig.tree.install(1, &leaf(1, None), 101, 0), "there is no second node yet");
    assert!(rig.tree.set_node(1, &NodeSpec { port: 1, rate: rate(MBIT), weight: 1, overhead: 0 }, 0));
    assert!(rig.tree.install(1, &leaf(1, None), 101, 0));
    rig.tree.limits.bytes = 20_000;
    (0..20).for_each(|_| rig.push(0, 3, 1000));
    (0..5).for_each(|_| rig.push(1, 3, 1000));
    assert_eq!((rig.shed.clone(), rig.tree.port_bytes(0).0, rig.tree.port_bytes(1).0), (vec![0; 5], 15_000, 5_000));
    // What waits goes along when its leaf changes to a node of another port.
    rig.longest();
    assert!(rig.tree.install(0, &leaf(1, None), 100, 0));
    assert_eq!((rig.tree.port_bytes(0).0, rig.tree.port_bytes(1).0), (0, 20_000));
    rig.longest();
}

/// A subscriber within its rate keeps all its packets, however much others send: 256 busy ones, with packets of all lengths,
/// fill the buffer of the port.
#[test]
fn subscriber_within_its_rate_loses_nothing() {
    let rate_of_port = 2000 * MBIT;
    let leaves = vec![leaf(0, None); 276];
    let mut rig = Rig::new(None, &[(rate(rate_of_port), 1)], &leaves, &[tier()]).with_buffer(rate_of_port);
    let mut random = 1u32;
    for turn in 0..3_000 {
        // 1.25 times what the node carries.
        for _ in 0..40 {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            rig.push(random >> 8 & 0xff, 3, 64 + (random >> 18) as usize % 1450);
        }
        // A fair share is 7.2 Mbit/s: these send less than half of it.
        if turn % 30 == 0 {
            let before = rig.refused;
            (256..276).for_each(|n| rig.push(n, 3, 1200));
            assert_eq!(rig.refused, before, "in turn {turn}");
        }
        rig.turn();
        assert!(rig.tree.port_bytes(0).0 <= 2_500_000);
    }
    assert!(rig.shed.len() + rig.refused as usize > 10_000, "{} and {} made room", rig.shed.len(), rig.refused);
    assert!(rig.shed.iter().all(|leaf| *leaf < 256), "none of those within their rate");
    let lost = (256..276).map(|n| rig.tree.counts(n).expect("there")[3].full).sum::<u32>();
    assert_eq!(lost, 0);
    rig.longest();
}

#[test]
fn terms_change_while_frames_wait() {
    let mut rig = Rig::new(None, &[(open(), 1)], &[leaf(0, Some(MBIT))], &[tier()]);
    rig.backlogged(1000, &[(0, 3, 1000)]);
    let before = rig.bps(0, 3, 1000);
    assert!(rig.tree.install(0, &leaf(0, Some(50 * MBIT)), 100, rig.now));
    rig.backlogged(1000, &[(0, 3, 1000)]);
    assert!(near(rig.bps(0, 3, 1000) - before, 50e6), "{}", rig.bps(0, 3, 1000) - before);
    // A leaf of rate 0 waits until it has another.
    assert!(rig.tree.install(0, &leaf(0, Some(0)), 100, rig.now));
    let sent = rig.sent.len();
    rig.backlogged(1000, &[(0, 3, 1000)]);
    assert!(rig.sent.len() - sent <= 50 * MBIT as usize * 2 / 8000 / 1000, "{}", rig.sent.len() - sent);
    assert!(rig.tree.install(0, &leaf(0, Some(8 * MBIT)), 100, rig.now));
    let sent = rig.sent.len();
    rig.backlogged(100, &[(0, 3, 1000)]);
    assert!((90..=104).contains(&(rig.sent.len() - sent)), "{}", rig.sent.len() - sent);
    assert!(!rig.tree.install(1, &leaf(9, None), 0, rig.now), "there is no such node");
}

#[test]
fn idle_tree_has_nothing_due() {
    let mut rig = Rig::new(Some(MBIT), &[(open(), 1)], &[leaf(0, Some(MBIT))], &[tier()]);
    assert_eq!(rig.tree.next_due(), None);
    (0..10).for_each(|_| rig.push(0, 3, 1500));
    rig.turn();
    assert!(rig.tree.next_due().is_some_and(|at| at <= rig.now + 13 * MS));
    (0..2000).for_each(|_| rig.turn());
    assert_eq!((rig.sent.len(), rig.tree.waiting(), rig.tree.next_due()), (10, 0, None));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    /// Every frame is refused, dropped by Controlled Delay, waits or leaves; a class is in order; no buffer is lost; every frame
    /// that may go goes in the end.
    #[test]
    fn frames_are_conserved(
        steps in prop::collection::vec((0u32..6, 0u8..4, 64usize..1514, 0u8..4), 1..400),
        port in prop::option::of(1_000_000u64..1_000_000_000),
        node in prop::option::of(1_000_000u64..100_000_000),
        change in any::<bool>(),
    ) {
        let mut managed = tier();
        managed.classes[3].aqm = Some(CodelConfig { target_ns: MS, interval_ns: 3 * MS });
        (managed.minimum, managed.urgent) = (Some(rate(MBIT)), Some(rate(MBIT / 2)));
        let leaves = [leaf(0, None), leaf(0, Some(MBIT)), leaf(1, Some(9 * MBIT)), leaf(1, None), leaf(0, Some(64_000))];
        let mut leaves = leaves.to_vec();
        leaves[1].tier = 1;
        leaves[2].tier = 1;
        let mut rig = Rig::new(port, &[(node.map_or(open(), rate), 1), (open(), 2)], &leaves, &[tier(), managed]);
        let free = rig.pool.free();
        for (leaf, class, bytes, turns) in &steps {
            rig.push(*leaf, *class, *bytes);
            (0..*turns).for_each(|_| rig.turn());
            if change && *leaf == 2 {
                let mut spec = leaves[2];
                (spec.node, spec.tier) = (u32::from(*class & 1), u16::from(*class >> 1));
                prop_assert!(rig.tree.install(2, &spec, 102, rig.now));
            }
        }
        let gone = |rig: &Rig| (rig.sent.len() + rig.shed.len()) as u64 + rig.refused + rig.dropped;
        prop_assert_eq!(gone(&rig) + rig.tree.waiting() as u64, steps.len() as u64);
        let unknown = steps.iter().filter(|step| step.0 == 5).count() as u64;
        prop_assert!(rig.refused >= unknown);
        if steps.len() % 2 == 0 {
            rig.step = 50 * MS;
            for _ in 0..12_000 {
                if rig.tree.waiting() == 0 {
                    break;
                }
                rig.turn();
            }
            prop_assert_eq!((rig.tree.waiting(), rig.tree.bytes(), gone(&rig)), (0, 0, steps.len() as u64));
        }
        let pool = &mut rig.pool;
        rig.tree.close(|frame| pool.give(frame));
        prop_assert_eq!((pool.free(), rig.tree.waiting(), rig.tree.bytes()), (free, 0, 0));
        // Nodes' timers may still run, but ring for nothing.
        rig.now += 1000 * MS;
        rig.turn();
        prop_assert_eq!(rig.tree.next_due(), None);
    }

    /// Whatever comes and goes: the buffer of the port and the memory of all queues are never exceeded; packets come to as many as
    /// left, were dropped by name or wait; whoever pays is within a fourth of the longest queue; no packet is refused while
    /// another queue is more than twice as long as its own would be.
    #[test]
    fn longest_queue_pays(
        steps in prop::collection::vec((0u32..12, 0u8..4, 64usize..1514, 0u8..8), 200..900),
        of_port in any::<bool>(),
        frames in 8usize..200,
        node in 5_000_000u64..100_000_000,
    ) {
        let leaves: Vec<_> = (0..12).map(|n| leaf(u32::from(n >= 9), (n == 3).then_some(MBIT))).collect();
        let mut rig = Rig::new(None, &[(rate(node), 1), (open(), 2)], &leaves, &[tier()]);
        let most = if of_port { 40_000 } else { 30_000 };
        if of_port {
            rig = rig.with_buffer(32 * MBIT);
        } else {
            rig.tree.limits = TreeLimits { frames, bytes: 30_000 };
            rig.tree.queue.truncate(frames);
            rig.tree.queue[frames - 1].next = NONE;
        }
        for (n, (leaf, class, bytes, turns)) in steps.iter().enumerate() {
            let (longest, before) = (rig.longest(), rig.shed.len());
            let own = rig.bytes_of(*leaf, *class) + *bytes as u32;
            let lengths: Vec<u32> = (0..12).map(|n| (0..4).map(|class| rig.bytes_of(n, class)).max().unwrap_or(0)).collect();
            match rig.try_push(*leaf, *class, *bytes) {
                None => {}
                Some(why) => {
                    prop_assert_eq!(why, Refused::Longest);
                    prop_assert!(own * 2 > longest, "{} refused beside {}", own, longest);
                }
            }
            // The first that pays; those behind it do so beside shorter ones.
            if let Some(payer) = rig.shed.get(before) {
                prop_assert!(lengths[*payer as usize] * 4 > longest, "{} of {} paid", lengths[*payer as usize], longest);
            }
            prop_assert!(rig.tree.bytes() <= most, "{} bytes wait", rig.tree.bytes());
            prop_assert!(of_port || rig.tree.waiting() <= frames);
            let gone = (rig.sent.len() + rig.shed.len()) as u64 + rig.refused + rig.dropped;
            prop_assert_eq!(gone + rig.tree.waiting() as u64, n as u64 + 1);
            if *turns == 7 {
                rig.turn();
            }
        }
        for id in 0..12 {
            let Rig { pool, tree, .. } = &mut rig;
            tree.remove(id, |frame| pool.give(frame));
        }
        prop_assert_eq!((rig.longest(), rig.tree.bytes(), rig.tree.waiting()), (0, 0, 0));
    }
}
