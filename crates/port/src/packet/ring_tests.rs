//! The walk over blocks as the kernel would have laid them out, in plain memory.

use super::*;
use frame::{Arena, ArenaConfig, PortCounters};

const BLOCK: usize = 4096;
const MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];

struct Memory {
    words: Vec<u64>,
}

impl Memory {
    fn new(blocks: usize) -> Self {
        Self { words: vec![0; BLOCK * blocks / 8] }
    }

    fn base(&mut self) -> *mut u8 {
        self.words.as_mut_ptr().cast()
    }

    fn put32(&mut self, at: usize, value: u32) {
        assert!(at.is_multiple_of(4) && at < self.words.len() * 8);
        // SAFETY: inside the vector, aligned.
        unsafe { self.base().add(at).cast::<u32>().write(value) }
    }

    fn get32(&mut self, at: usize) -> u32 {
        // SAFETY: callers name words inside the vector.
        unsafe { self.base().add(at).cast::<u32>().read() }
    }

    /// Fills a block with packets and hands it over. `tag`: (status, tci, tpid).
    fn fill(&mut self, block: usize, packets: &[Vec<u8>], tag: (u32, u32, u32)) {
        let start = block * BLOCK;
        let mut at = 48;
        for (i, packet) in packets.iter().enumerate() {
            let size = (82 + packet.len()).next_multiple_of(8);
            let header = start + at;
            self.put32(header, if i + 1 == packets.len() { 0 } else { size as u32 });
            self.put32(header + 12, packet.len() as u32);
            self.put32(header + 16, packet.len() as u32);
            self.put32(header + 20, tag.0);
            self.put32(header + 24, 82 | 96 << 16);
            self.put32(header + 32, tag.1);
            self.put32(header + 36, tag.2);
            // SAFETY: inside the vector by the sizes used here.
            unsafe { self.base().add(header + 82).copy_from(packet.as_ptr(), packet.len()) };
            at += size;
        }
        self.put32(start + 12, packets.len() as u32);
        self.put32(start + 16, 48);
        self.put32(start + 8, libc::TP_STATUS_USER);
    }
}

fn packet(n: u8) -> Vec<u8> {
    [&MAC[..], &[2, 0, 0, 0, 0, 9, 8, 0], &[n; 46]].concat()
}

fn line() -> Line {
    Line { fd: -1, mac: MAC, everything: false, counters: PortCounters::default(), doubtful: false }
}

fn pool(slots: u32) -> Pool {
    let arena = Arena::new(ArenaConfig { slots, ..ArenaConfig::default() }).unwrap();
    Pool::new(&arena, slots as usize)
}

fn drain(pool: &mut Pool, out: &mut Batch) -> Vec<Vec<u8>> {
    let arena = pool.arena().clone();
    let bytes = out.frames().iter().map(|f| arena.bytes(f).to_vec()).collect();
    pool.give_all(out);
    bytes
}

#[test]
fn blocks_come_in_order_and_go_back_when_read() {
    let mut memory = Memory::new(2);
    let (mut line, mut pool, mut out) = (line(), pool(128), Batch::new());
    // SAFETY: `memory` outlives the walk and is touched between its calls only.
    let mut walk = unsafe { Walk::new(memory.base(), BLOCK, 2) };
    assert_eq!(walk.receive(&mut line, &mut pool, &mut out), 0);
    for round in 0..5u8 {
        let block = usize::from(round % 2);
        memory.fill(block, &[packet(round), packet(round + 100)], (1, 0, 0));
        assert_eq!(walk.receive(&mut line, &mut pool, &mut out), 2);
        assert_eq!(drain(&mut pool, &mut out), [packet(round), packet(round + 100)]);
        assert_eq!(memory.get32(block * BLOCK + 8), libc::TP_STATUS_KERNEL);
    }
    assert_eq!((line.counters.rx_packets, line.counters.rx_bytes), (10, 600));
    assert_eq!(pool.free(), 128);
}

#[test]
fn a_burst_may_end_inside_a_block() {
    let mut memory = Memory::new(2);
    let (mut line, mut pool, mut out) = (line(), pool(128), Batch::new());
    let small: Vec<u8> = packet(1)[..14].to_vec();
    memory.fill(0, &vec![small.clone(); 40], (1, 0, 0));
    memory.fill(1, &vec![small; 40], (1, 0, 0));
    // SAFETY: as above.
    let mut walk = unsafe { Walk::new(memory.base(), BLOCK, 2) };
    assert_eq!(walk.receive(&mut line, &mut pool, &mut out), 64);
    assert_eq!((memory.get32(8), memory.get32(BLOCK + 8)), (0, libc::TP_STATUS_USER));
    drain(&mut pool, &mut out);
    assert_eq!(walk.receive(&mut line, &mut pool, &mut out), 16);
    drain(&mut pool, &mut out);
}

#[test]
fn tags_are_put_back_and_foreign_packets_left() {
    let mut memory = Memory::new(1);
    let (mut line, mut pool, mut out) = (line(), pool(8), Batch::new());
    let mut foreign = packet(3);
    foreign[5] = 7;
    let status = 1 | libc::TP_STATUS_VLAN_VALID | libc::TP_STATUS_VLAN_TPID_VALID;
    memory.fill(0, &[packet(1), foreign], (status, 0x2007, 0x88a8));
    // SAFETY: as above.
    let mut walk = unsafe { Walk::new(memory.base(), BLOCK, 1) };
    assert_eq!(walk.receive(&mut line, &mut pool, &mut out), 1);
    let want = [&packet(1)[..12], &[0x88, 0xa8, 0x20, 7], &packet(1)[12..]].concat();
    assert_eq!(drain(&mut pool, &mut out), [want]);
    assert_eq!(line.counters.rx_not_ours, 1);
}

#[test]
fn without_frames_packets_wait_in_the_ring() {
    let mut memory = Memory::new(1);
    let (mut line, mut pool, mut out) = (line(), pool(2), Batch::new());
    memory.fill(0, &[packet(1), packet(2), packet(3)], (1, 0, 0));
    // SAFETY: as above.
    let mut walk = unsafe { Walk::new(memory.base(), BLOCK, 1) };
    assert_eq!(walk.receive(&mut line, &mut pool, &mut out), 2);
    assert_eq!(walk.receive(&mut line, &mut pool, &mut out), 0);
    drain(&mut pool, &mut out);
    assert_eq!(walk.receive(&mut line, &mut pool, &mut out), 1);
    assert_eq!(drain(&mut pool, &mut out), [packet(3)]);
}

#[test]
fn broken_headers_lose_the_block_and_nothing_else() {
    // (word of the first header, value): a step of zero, out of the block, unaligned; a length out of the block.
    for (word, value, whole) in [(0, 0, 1), (0, 4096, 1), (0, u32::MAX, 1), (0, 13, 1), (12, 5000, 0)] {
        let mut memory = Memory::new(2);
        let (mut line, mut pool, mut out) = (line(), pool(8), Batch::new());
        memory.fill(0, &[packet(1), packet(2), packet(3)], (1, 0, 0));
        memory.put32(48 + word, value);
        memory.fill(1, &[packet(4)], (1, 0, 0));
        // SAFETY: as above.
        let mut walk = unsafe { Walk::new(memory.base(), BLOCK, 2) };
        assert_eq!(walk.receive(&mut line, &mut pool, &mut out), whole + 1);
        assert_eq!(drain(&mut pool, &mut out).last(), Some(&packet(4)));
        assert_eq!(line.counters.rx_invalid, 3 - whole as u64, "word {word} = {value}");
    }
}

#[test]
fn cut_packets_and_giants_are_too_long() {
    let mut memory = Memory::new(1);
    let (mut line, mut pool, mut out) = (line(), pool(8), Batch::new());
    let giant = [&packet(2)[..], &[2; 1900]].concat();
    memory.fill(0, &[packet(1), giant, packet(3)], (1, 0, 0));
    // The wire carried more of the first than the ring kept.
    memory.put32(48 + 16, 9000);
    // SAFETY: as above.
    let mut walk = unsafe { Walk::new(memory.base(), BLOCK, 1) };
    assert_eq!(walk.receive(&mut line, &mut pool, &mut out), 1);
    assert_eq!(drain(&mut pool, &mut out), [packet(3)]);
    assert_eq!(line.counters.rx_too_long, 2);
}
