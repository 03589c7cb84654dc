//! A queue over plain memory, with these tests as its kernel.

use std::collections::VecDeque;
use std::sync::Arc;

use frame::{Arena, ArenaConfig};
use proptest::prelude::*;

use super::super::ring::plain::Plain;
use super::*;

const SLOTS: u32 = 256;

/// The kernel's side of a queue, and the memory of its rings.
struct Kernel {
    fill: Consumer<u64>,
    rx: Producer<Desc>,
    tx: Consumer<Desc>,
    completion: Producer<u64>,
    /// Slots taken out of the fill ring that no ring shows.
    pocket: VecDeque<u64>,
    sent: VecDeque<Desc>,
    memory: (Plain<u64>, Plain<Desc>, Plain<Desc>, Plain<u64>),
}

fn set_up(size: u32, from: u32, boundary: u64) -> (Arc<Arena>, Pool, Queue, Kernel) {
    let arena = Arena::new(ArenaConfig { slots: SLOTS, ..ArenaConfig::default() }).expect("memory");
    set_up_over(arena, size, from, boundary)
}

fn set_up_over(arena: Arc<Arena>, size: u32, from: u32, boundary: u64) -> (Arc<Arena>, Pool, Queue, Kernel) {
    let pool = Pool::new(&arena, SLOTS as usize);
    let (mut a, mut b) = (Plain::new(size, from), Plain::new(size, from));
    let (mut c, mut d) = (Plain::new(size, from), Plain::new(size, from));
    let (fill, fill_kernel) = a.ends();
    let (rx_kernel, rx) = b.ends();
    let (tx, tx_kernel) = c.ends();
    let (completion_kernel, completion) = d.ends();
    let umem = Umem::new(arena.shape(), boundary);
    let queue = Queue::new(Rings { fill, rx, tx, completion }, umem, SLOTS, size as usize, 1522);
    let kernel = Kernel {
        fill: fill_kernel,
        rx: rx_kernel,
        tx: tx_kernel,
        completion: completion_kernel,
        pocket: VecDeque::new(),
        sent: VecDeque::new(),
        memory: (a, b, c, d),
    };
    (arena, pool, queue, kernel)
}

impl Kernel {
    /// Our ends of the same rings, for another process.
    fn rings(&mut self) -> Rings {
        let (fill, rx, tx, completion) = &mut self.memory;
        // SAFETY: the memory stays as long as the kernel; the ends are used after those of the process before.
        unsafe {
            Rings {
                fill: Producer::new(fill.layout()),
                rx: Consumer::new(rx.layout()),
                tx: Producer::new(tx.layout()),
                completion: Consumer::new(completion.layout()),
            }
        }
    }

    /// Takes up to `n` slots out of the fill ring.
    fn pocket(&mut self, n: u32) {
        for _ in 0..self.fill.available(n).min(n) {
            self.pocket.push_back(self.fill.read());
        }
        self.fill.release();
    }

    /// Receives a packet of `len` bytes into a slot it has.
    fn receive(&mut self, arena: &Arena, len: u32) -> bool {
        if self.rx.room(1) == 0 {
            return false;
        }
        let Some(base) = self.pocket.pop_front() else { return false };
        let at = base + 256;
        assert!(at as usize + len as usize <= arena.bytes_len());
        self.rx.push(Desc { addr: base | 256 << 48, len, options: 0 });
        self.rx.publish();
        true
    }

    fn take_sent(&mut self, n: u32) {
        for _ in 0..self.tx.available(n).min(n) {
            self.sent.push_back(self.tx.read());
        }
        self.tx.release();
    }

    fn complete(&mut self, n: u32) {
        for _ in 0..n.min(self.completion.room(n)) {
            let Some(desc) = self.sent.pop_front() else { break };
            self.completion.push(desc.addr);
        }
        self.completion.publish();
    }
}

#[test]
fn a_packet_comes_in_with_the_kernels_headroom() {
    let (arena, mut pool, mut queue, mut kernel) = set_up(64, 0, 0);
    let (mut out, mut counters) = (Batch::new(), PortCounters::default());
    queue.refill(&mut pool);
    assert_eq!((queue.held(), pool.free()), (64, 192));
    kernel.pocket(64);
    assert!(kernel.receive(&arena, 99));
    assert_eq!(queue.receive(&mut pool, &mut out, &mut counters), 1);
    let frame = out.pop().expect("one");
    assert_eq!((frame.headroom(), frame.len()), (256, 99));
    assert_eq!(counters, PortCounters { rx_packets: 1, rx_bytes: 99, ..PortCounters::default() });
    pool.give(frame);
    assert_eq!(queue.held() + pool.free(), SLOTS as usize);
}

#[test]
fn a_slot_is_handed_from_queue_to_queue_without_a_copy() {
    let (arena, mut pool, mut a, mut kernel) = set_up(64, 0, 0);
    let (mut batch, mut counters) = (Batch::new(), PortCounters::default());
    a.refill(&mut pool);
    kernel.pocket(64);
    kernel.receive(&arena, 60);
    a.receive(&mut pool, &mut batch, &mut counters);
    let slot = batch.frames()[0].slot();
    assert_eq!(a.transmit(&mut pool, &mut batch, &mut counters), 1);
    kernel.take_sent(1);
    assert_eq!(Umem::new(arena.shape(), 0).locate(kernel.sent[0].addr).1, slot);
    kernel.complete(1);
    assert_eq!(a.reap(&mut pool, &mut counters), 1);
    assert_eq!(a.sending(), 0);
}

#[test]
fn what_the_kernel_names_without_having_it_is_refused() {
    let (_arena, mut pool, mut queue, mut kernel) = set_up(64, 0, 0);
    let (mut out, mut counters) = (Batch::new(), PortCounters::default());
    queue.refill(&mut pool);
    let held = kernel.fill.available(1);
    assert_eq!(held, 64);
    let first = kernel.fill.read();
    for desc in [
        Desc { addr: u64::MAX, len: 60, options: 0 },
        Desc { addr: 2112 * u64::from(SLOTS), len: 60, options: 0 },
        // A slot of ours, but a packet that does not lie in it.
        Desc { addr: first, len: 4000, options: 0 },
        // The same again: it is the pool's now.
        Desc { addr: first, len: 60, options: 0 },
    ] {
        kernel.rx.push(desc);
    }
    kernel.rx.publish();
    assert_eq!(queue.receive(&mut pool, &mut out, &mut counters), 0);
    assert_eq!(counters.rx_invalid, 4);
    assert_eq!(queue.held() + pool.free(), SLOTS as usize);
}

#[test]
fn packets_no_link_carries_are_counted_and_given_back() {
    let (_arena, mut pool, mut queue, _kernel) = set_up(64, 0, 0);
    let (mut batch, mut counters) = (Batch::new(), PortCounters::default());
    for len in [0, 60, 1523, 1522] {
        batch.push(pool.make(&vec![1; len]).expect("a slot")).expect("room");
    }
    assert_eq!(queue.transmit(&mut pool, &mut batch, &mut counters), 4);
    assert_eq!((queue.sending(), pool.free()), (2, SLOTS as usize - 2));
    assert_eq!((counters.tx_packets, counters.tx_bytes, counters.tx_errors), (2, 1582, 2));
}

/// A process as far as a queue is concerned.
struct Owner {
    arena: Arc<Arena>,
    pool: Pool,
    queue: Queue,
}

impl Owner {
    /// One that goes on for this one, which stands still, and that one's own slots that it gets when this one has
    /// ended.
    fn next(&self, kernel: &mut Kernel) -> (Self, Vec<u64>) {
        let config = ArenaConfig { slots: SLOTS, ..ArenaConfig::default() };
        let file = self.arena.file().expect("shared").try_clone_to_owned().expect("descriptors");
        let arena = Arena::of_file(config, file).expect("memory");
        let umem = Umem::new(arena.shape(), 0);
        let mut garbled = Queue::new(kernel.rings(), umem, SLOTS, 7, 1522);
        let (mut position, mut used) = (Vec::new(), self.arena.slots_in_use(std::iter::once(&self.pool)));
        self.queue.position(&mut position);
        assert!(!garbled.go_on_at(&position[1..], SLOTS), "of another size");
        let mut queue = Queue::new(kernel.rings(), umem, SLOTS, 7, 1522);
        assert!(queue.go_on_at(&position, SLOTS));
        arena.release_all_but(&used);
        let pool = Pool::new(&arena, SLOTS as usize);
        assert_eq!(pool.free(), self.pool.free(), "what is free there is free here, and nothing else");
        let mut held = vec![0; used.len()];
        assert!(queue.mark_held(&mut held) && !queue.mark_held(&mut held));
        assert!(held.iter().zip(&used).all(|(held, used)| held & !used == 0));
        used.iter_mut().zip(&held).for_each(|(used, held)| *used &= !held);
        (Self { arena, pool, queue }, used)
    }
}

#[test]
#[cfg_attr(miri, ignore = "no files in memory")]
fn twenty_processes_go_on_with_every_slot_once() {
    let arena = Arena::shared(ArenaConfig { slots: SLOTS, ..ArenaConfig::default() }).expect("memory");
    let (arena, pool, queue, mut kernel) = set_up_over(arena, 64, u32::MAX - 100, 0);
    let mut owner = Owner { arena, pool, queue };
    let (mut counters, mut sent) = (PortCounters::default(), 0);
    for round in 0..20_u32 {
        let Owner { arena, pool, queue } = &mut owner;
        // Slots in every place: fill ring, kernel, receive ring, transmit ring, being sent, completion ring.
        queue.refill(pool);
        kernel.pocket(40 + round);
        (0..20).for_each(|n| assert!(kernel.receive(arena, 60 + round), "{n} in round {round}"));
        let mut batch = Batch::new();
        queue.receive(pool, &mut batch, &mut counters);
        (0..5).for_each(|n| assert!(kernel.receive(arena, 60), "{n} in round {round}"));
        sent += queue.transmit(pool, &mut batch, &mut counters);
        kernel.take_sent(23);
        kernel.complete(21);
        // One that the process keeps, as in a queue of a subscriber.
        let kept = pool.make(b"kept").expect("a slot");
        assert_eq!(queue.held() + pool.free() + batch.len() + 1, SLOTS as usize);
        // A take-over that fails has touched nothing.
        drop(owner.next(&mut kernel));
        assert!(owner.queue.is_as_left() && owner.arena.bytes(&kept) == b"kept");
        let (mut next, own) = owner.next(&mut kernel);
        assert_eq!(own.iter().map(|word| word.count_ones()).sum::<u32>(), 1, "the one that is kept");
        next.arena.release(&own);
        next.pool.restock();
        assert_eq!(next.queue.held() + next.pool.free() + next.arena.in_depot(), SLOTS as usize);
        next.queue.reap(&mut next.pool, &mut counters);
        next.queue.refill(&mut next.pool);
        assert!(!owner.queue.is_as_left(), "one that comes back sees that another was there");
        owner.pool.give(kept);
        owner = next;
    }
    assert!(sent > 200 && counters.rx_invalid == 0 && counters.tx_errors == 0, "{sent} {counters:?}");
    // SAFETY: there is no kernel.
    unsafe { owner.queue.recover(&mut owner.pool) };
    assert_eq!(owner.pool.free() + owner.arena.in_depot(), SLOTS as usize);
}

#[test]
fn slots_a_device_can_not_use_never_reach_it() {
    // Every fourth slot or so lies across 8 KiB, every second across 4 KiB.
    [8192, 4096].into_iter().for_each(unusable_slots_stay);
}

fn unusable_slots_stay(boundary: u64) {
    let (arena, mut pool, mut queue, mut kernel) = set_up(64, 0, boundary);
    let umem = Umem::new(arena.shape(), boundary);
    let (mut batch, mut counters) = (Batch::new(), PortCounters::default());
    queue.refill(&mut pool);
    while kernel.fill.available(1) > 0 {
        assert!(umem.usable(umem.locate(kernel.fill.read()).1));
    }
    kernel.fill.release();
    assert!(!queue.aside.is_empty());
    assert_eq!(queue.held() + pool.free(), SLOTS as usize);
    for at in 0..40_u8 {
        batch.push(pool.make(&[at; 60]).expect("a slot")).expect("room");
    }
    queue.transmit(&mut pool, &mut batch, &mut counters);
    assert_eq!(u64::from(kernel.tx.available(40)), counters.tx_packets);
    assert_eq!((counters.tx_packets, counters.tx_errors), (40, 0), "none is lost for where it lies");
    while kernel.tx.available(1) > 0 {
        assert!(umem.usable(umem.locate(kernel.tx.read().addr).1));
    }
    assert_eq!(queue.held() + pool.free(), SLOTS as usize);
    // SAFETY: there is no kernel.
    unsafe { queue.recover(&mut pool) };
    assert_eq!((queue.held(), pool.free()), (0, SLOTS as usize));
}

proptest! {
    /// Whatever the order of things, and wherever the counters start, no slot is lost or there twice, packets leave in
    /// order, and recovery brings all back.
    #[test]
    fn slots_are_conserved(
        log_size in 5_u32..8,
        from in prop_oneof![Just(0), Just(u32::MAX - 30), any::<u32>()],
        steps in prop::collection::vec((0_u8..8, 1_u32..70), 1..150),
    ) {
        let (arena, mut pool, mut queue, mut kernel) = set_up(1 << log_size, from, 0);
        let (mut batch, mut counters) = (Batch::new(), PortCounters::default());
        let mut due = 0_u64;
        for (step, n) in steps {
            match step {
                0 => queue.refill(&mut pool),
                1 => kernel.pocket(n),
                2 => for _ in 0..n {
                    due += u64::from(kernel.receive(&arena, 60 + n));
                },
                3 => {
                    let before = batch.len();
                    let got = queue.receive(&mut pool, &mut batch, &mut counters);
                    prop_assert_eq!(batch.len(), before + got);
                }
                4 => {
                    let before = batch.len();
                    let sent = queue.transmit(&mut pool, &mut batch, &mut counters);
                    prop_assert_eq!(batch.len(), before - sent);
                }
                5 => kernel.take_sent(n),
                6 => kernel.complete(n),
                _ => { queue.reap(&mut pool, &mut counters); }
            }
            prop_assert_eq!(queue.held() + pool.free() + batch.len(), SLOTS as usize);
            prop_assert!(counters.rx_packets <= due);
        }
        prop_assert_eq!(counters.rx_invalid, 0);
        // SAFETY: there is no kernel.
        unsafe { queue.recover(&mut pool) };
        pool.give_all(&mut batch);
        prop_assert_eq!(queue.held(), 0);
        let mut seen = vec![false; SLOTS as usize];
        while let Some(frame) = pool.take() {
            let slot = frame.slot() as usize;
            prop_assert!(!std::mem::replace(&mut seen[slot], true), "slot {} twice", slot);
        }
        prop_assert!(seen.iter().all(|&seen| seen));
    }
}
