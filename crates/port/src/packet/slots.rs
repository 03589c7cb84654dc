//! TPACKET_V2 receive: the kernel fills one slot of shared memory for each packet and hands it over at once.
//!
//! Against blocks (`mode=tpacket3`) a packet never waits for others: at a low rate it is here within microseconds instead
//! of a millisecond. The price is memory (every packet takes a slot for the longest) and some cost in the kernel.

use std::io;
use std::sync::atomic::{AtomicU32, Ordering};

use frame::{Batch, Pool};
use libc::tpacket2_hdr;

use super::line::{Aside, Line};
use super::mapping::Mapping;
use super::ring::{Lying, take};
use super::socket::Socket;

/// Bytes of slots in all.
const MEMORY: usize = 8 << 20;
/// Bytes of a block, which the kernel allocates in one piece.
const BLOCK: usize = 64 << 10;
/// What the kernel puts before a packet, and room for a tag it did not take off.
const BEFORE: usize = 128;

/// The mapped slots of a socket.
pub(super) struct Slots {
    walk: Walk,
    // After the walk, whose memory it is.
    _mapping: Mapping,
}

impl Slots {
    /// Gives the socket (not yet bound) slots for packets of that many bytes, and maps them.
    pub(super) fn new(socket: &Socket, longest: usize) -> io::Result<Self> {
        let version = libc::tpacket_versions::TPACKET_V2 as i32;
        socket.set(libc::SOL_PACKET, libc::PACKET_VERSION, &version)?;
        let (slot, block) = Self::geometry(longest);
        let (each, blocks) = (block / slot, MEMORY / block);
        let request = libc::tpacket_req {
            tp_block_size: block as u32,
            tp_block_nr: blocks as u32,
            tp_frame_size: slot as u32,
            tp_frame_nr: (each * blocks) as u32,
        };
        socket.set(libc::SOL_PACKET, libc::PACKET_RX_RING, &request)?;
        let mapping = Mapping::new(socket, block * blocks)?;
        // SAFETY: the mapping holds `blocks` blocks of `each` slots, lives as long as the walk beside it, and is the
        // kernel's and the walk's alone.
        let walk = unsafe { Walk::new(mapping.base(), [block, each, slot], each * blocks) };
        Ok(Self { walk, _mapping: mapping })
    }

    /// Maps the slots, for packets of that many bytes, that another process gave the socket.
    pub(super) fn adopt(socket: &Socket, longest: usize) -> io::Result<Self> {
        let (slot, block) = Self::geometry(longest);
        let (each, blocks) = (block / slot, MEMORY / block);
        let mapping = Mapping::new(socket, block * blocks)?;
        // SAFETY: as in `new`; the process that shares it does not touch it once this one has been told its place.
        let walk = unsafe { Walk::new(mapping.base(), [block, each, slot], each * blocks) };
        Ok(Self { walk, _mapping: mapping })
    }

    /// The number of the next slot.
    pub(super) fn position(&self) -> u64 {
        self.walk.next as u64
    }

    /// The next slot is that one. False: there is none of that number.
    pub(super) fn go_on_at(&mut self, next: u64) -> bool {
        let is_there = next < self.walk.count as u64;
        if is_there {
            self.walk.go_to(next as usize);
        }
        is_there
    }

    /// Bytes of a slot and of a block, for packets of that many bytes.
    fn geometry(longest: usize) -> (usize, usize) {
        // An odd number of cache lines, so that headers spread over all L1 sets.
        let slot = ((longest + BEFORE).div_ceil(64) | 1) * 64;
        (slot, BLOCK.max(slot.next_power_of_two()))
    }

    /// How many packets of that many bytes there is room for.
    pub(super) fn places(longest: usize) -> usize {
        let (slot, block) = Self::geometry(longest);
        block / slot * (MEMORY / block)
    }

    /// Whether packets of that many bytes fit.
    pub(super) fn fit(&self, longest: usize) -> bool {
        longest + BEFORE <= self.walk.shape[2]
    }

    /// Whether no packet waits.
    pub(super) fn is_empty(&self) -> bool {
        self.walk.lying().is_none()
    }

    /// Copies what has come into frames.
    pub(super) fn receive(&mut self, line: &mut Line, pool: &mut Pool, out: &mut Batch) -> usize {
        let before = out.len();
        while out.room() > 0 {
            match self.walk.lying() {
                None => break,
                Some(Err(())) => line.counters.rx_invalid += 1,
                Some(Ok(packet)) if !take(&packet, line, pool, out) => break,
                Some(Ok(_)) => {}
            }
            self.walk.advance();
        }
        out.len() - before
    }
}

/// Where we are in the slots. Works over any memory laid out as the kernel would.
struct Walk {
    base: *mut u8,
    /// Bytes of a block, slots in it, bytes of a slot.
    shape: [usize; 3],
    count: usize,
    next: usize,
    /// The next slot.
    at: *mut u8,
}

// SAFETY: the memory is reached through this value alone and not tied to a thread.
unsafe impl Send for Walk {}

impl Walk {
    /// # Safety
    /// `base` must be aligned to 16 and valid for `count` slots in blocks of that shape, zeroed or written by the
    /// kernel, for as long as the walk lives, and shared with nobody but the kernel.
    unsafe fn new(base: *mut u8, shape: [usize; 3], count: usize) -> Self {
        Self { base, shape, count, next: 0, at: base }
    }

    fn status(&self) -> &AtomicU32 {
        // SAFETY: `tp_status` is a slot's first word, aligned, and only ever touched atomically by us.
        unsafe { AtomicU32::from_ptr(self.at.cast()) }
    }

    /// The packet in the next slot, if one is there; an error when its header makes no sense.
    #[inline]
    fn lying(&self) -> Option<Result<Lying<'_>, ()>> {
        let status = self.status().load(Ordering::Acquire);
        if status & libc::TP_STATUS_USER == 0 {
            return None;
        }
        // SAFETY: the slot is ours since the status said so; its header is plain data behind the status word.
        let header = unsafe { &*self.at.cast::<tpacket2_hdr>() };
        let (start, len) = (usize::from(header.tp_mac), header.tp_snaplen as usize);
        if start + len > self.shape[2] {
            return Some(Err(()));
        }
        // SAFETY: these bytes lie in the slot, which stays ours until `advance`, after the borrow.
        let bytes = unsafe { std::slice::from_raw_parts(self.at.add(start), len) };
        let aside = Aside { status, tci: header.tp_vlan_tci, tpid: header.tp_vlan_tpid };
        Some(Ok(Lying { bytes, len: header.tp_len as usize, aside }))
    }

    /// Returns the slot to the kernel and goes to the next.
    #[inline]
    fn advance(&mut self) {
        self.status().store(libc::TP_STATUS_KERNEL, Ordering::Release);
        self.go_to(if self.next + 1 == self.count { 0 } else { self.next + 1 });
    }

    /// Goes to the slot of that number, which is below `count`.
    #[inline]
    fn go_to(&mut self, next: usize) {
        let [block, each, slot] = self.shape;
        self.next = next;
        let offset = self.next / each * block + self.next % each * slot;
        // SAFETY: `next < count`: inside the memory.
        self.at = unsafe { self.base.add(offset) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use frame::{Arena, ArenaConfig, PortCounters};

    const MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
    const SHAPE: [usize; 3] = [4096, 2, 1984];

    fn put(memory: &mut [u128], slot: usize, packet: &[u8], snaplen: u32) {
        let at = slot / 2 * 4096 + slot % 2 * 1984;
        let base: *mut u8 = memory.as_mut_ptr().cast();
        // SAFETY: slots 0 to 3 lie in the 8192 bytes of the tests' memory; aligned to 4.
        unsafe {
            let words = base.add(at).cast::<u32>();
            words.add(1).write(packet.len() as u32);
            words.add(2).write(snaplen);
            words.add(3).write(66 | 80 << 16);
            words.add(6).write(7 | 0x8100 << 16);
            base.add(at + 66).copy_from(packet.as_ptr(), packet.len());
            words.write(libc::TP_STATUS_USER | libc::TP_STATUS_VLAN_VALID | libc::TP_STATUS_VLAN_TPID_VALID);
        }
    }

    #[test]
    fn slots_come_in_order_round_and_round() {
        let mut memory = vec![0u128; 512];
        let arena = Arena::new(ArenaConfig { slots: 8, ..ArenaConfig::default() }).unwrap();
        let mut pool = Pool::new(&arena, 8);
        let counters = PortCounters::default();
        let mut line = Line { fd: -1, mac: MAC, everything: false, counters, doubtful: false };
        let mut out = Batch::new();
        // SAFETY: the memory outlives the walk and is touched between its calls only.
        let walk = unsafe { Walk::new(memory.as_mut_ptr().cast(), SHAPE, 4) };
        let mut slots = Slots { walk, _mapping: Mapping::nothing() };
        let packet = |n: u8| [&MAC[..], &[2, 0, 0, 0, 0, 9, 8, 0], &[n; 46]].concat();
        for n in 0..11u8 {
            put(&mut memory, usize::from(n) % 4, &packet(n), if n == 5 { 5000 } else { 60 });
            slots.receive(&mut line, &mut pool, &mut out);
            let got: Vec<_> = out.frames().iter().map(|frame| arena.bytes(frame).to_vec()).collect();
            let want = [&packet(n)[..12], &[0x81, 0, 0, 7], &packet(n)[12..]].concat();
            assert_eq!(got, if n == 5 { vec![] } else { vec![want] });
            pool.give_all(&mut out);
        }
        assert_eq!((line.counters.rx_packets, line.counters.rx_invalid), (10, 1));
    }
}
