//! TPACKET_V3 receive: the kernel fills blocks of memory we share, we walk them without a system call.
//!
//! A block comes to us when it is full or [`Geometry::retire_ms`] after its first packet, so a slow trickle waits that
//! long; small blocks keep a fast stream's wait short. Packets are copied into frames, which is cheaper than holding
//! blocks: a block returns to the kernel as soon as its last packet is out.

use std::io;
use std::sync::atomic::{AtomicU32, Ordering};

use frame::{Batch, Pool};
use libc::{tpacket_hdr_v1, tpacket3_hdr};

use super::line::{Aside, Line};
use super::mapping::Mapping;
use super::socket::Socket;

/// How large the ring is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Geometry {
    /// Bytes of a block: a power of two, at least a page.
    pub(super) block: usize,
    /// How many there are.
    pub(super) blocks: usize,
    /// Milliseconds after which a block that has a packet is handed over, full or not.
    pub(super) retire_ms: u32,
}

/// The mapped ring of a socket.
pub(super) struct Ring {
    walk: Walk,
    // After the walk, whose memory it is.
    _mapping: Mapping,
}

impl Ring {
    /// Gives the socket (not yet bound) a receive ring and maps it.
    pub(super) fn new(socket: &Socket, geometry: Geometry) -> io::Result<Self> {
        let Geometry { block, blocks, retire_ms } = geometry;
        let version = libc::tpacket_versions::TPACKET_V3 as i32;
        socket.set(libc::SOL_PACKET, libc::PACKET_VERSION, &version)?;
        // V3 packs packets; the frame size only has to divide the block.
        let frame = 2048;
        let request = libc::tpacket_req3 {
            tp_block_size: block as u32,
            tp_block_nr: blocks as u32,
            tp_frame_size: frame as u32,
            tp_frame_nr: (block / frame * blocks) as u32,
            tp_retire_blk_tov: retire_ms,
            tp_sizeof_priv: 0,
            tp_feature_req_word: 0,
        };
        socket.set(libc::SOL_PACKET, libc::PACKET_RX_RING, &request)?;
        let mapping = Mapping::new(socket, block * blocks)?;
        // SAFETY: the mapping is `blocks` blocks, lives as long as the walk beside it, and is the kernel's and the
        // walk's alone.
        let walk = unsafe { Walk::new(mapping.base(), block, blocks) };
        Ok(Self { walk, _mapping: mapping })
    }

    /// Maps the ring that another process gave the socket.
    pub(super) fn adopt(socket: &Socket, geometry: Geometry) -> io::Result<Self> {
        let Geometry { block, blocks, .. } = geometry;
        let mapping = Mapping::new(socket, block * blocks)?;
        // SAFETY: as in `new`; the process that shares it does not touch it once this one has been told its place.
        let walk = unsafe { Walk::new(mapping.base(), block, blocks) };
        Ok(Self { walk, _mapping: mapping })
    }

    /// The block we are in, the offset of the next packet's header, and packets left in it.
    pub(super) fn position(&self) -> [u64; 3] {
        [self.walk.current as u64, self.walk.next as u64, self.walk.left.into()]
    }

    /// Goes on there. False: there is no such block.
    pub(super) fn go_on_at(&mut self, [current, next, left]: [u64; 3]) -> bool {
        let is_there = current < self.walk.blocks as u64;
        if is_there {
            // A header that does not lie in the block is found to make no sense when it is read.
            (self.walk.current, self.walk.next, self.walk.left) = (current as usize, next as usize, left as u32);
        }
        is_there
    }

    /// Copies what has come into frames.
    pub(super) fn receive(&mut self, line: &mut Line, pool: &mut Pool, out: &mut Batch) -> usize {
        self.walk.receive(line, pool, out)
    }
}

/// Where we are in the blocks. Works over any memory laid out as the kernel would.
struct Walk {
    base: *mut u8,
    block: usize,
    blocks: usize,
    /// The block we are in or wait for.
    current: usize,
    /// Offset in it of the next packet's header.
    next: usize,
    /// Packets left in it; 0: we wait for it.
    left: u32,
}

/// A packet as it lies in shared memory.
pub(super) struct Lying<'a> {
    pub(super) bytes: &'a [u8],
    /// What the wire carried; more than `bytes` when cut.
    pub(super) len: usize,
    pub(super) aside: Aside,
}

// SAFETY: the memory is reached through this value alone and not tied to a thread.
unsafe impl Send for Walk {}

impl Walk {
    /// # Safety
    /// `base` must be aligned to 8 and valid for `block * blocks` bytes, zeroed or written by the kernel, for as long
    /// as the walk lives, and shared with nobody but the kernel.
    unsafe fn new(base: *mut u8, block: usize, blocks: usize) -> Self {
        Self { base, block, blocks, current: 0, next: 0, left: 0 }
    }

    fn receive(&mut self, line: &mut Line, pool: &mut Pool, out: &mut Batch) -> usize {
        let before = out.len();
        while out.room() > 0 && self.enter() {
            match self.lying() {
                None => {
                    // Nothing behind a broken header can be trusted.
                    line.counters.rx_invalid += u64::from(self.left);
                    self.leave();
                    continue;
                }
                // No frame: the packet waits in the ring.
                Some(packet) if !take(&packet, line, pool, out) => break,
                Some(_) => {}
            }
            self.advance();
        }
        out.len() - before
    }

    /// Whether there is a packet to read.
    #[inline]
    fn enter(&mut self) -> bool {
        while self.left == 0 {
            let head = self.head();
            if self.status().load(Ordering::Acquire) & libc::TP_STATUS_USER == 0 {
                return false;
            }
            // SAFETY: the block is ours since the status said so; its descriptor lies at its start.
            let (count, first) = unsafe { ((*head).num_pkts, (*head).offset_to_first_pkt) };
            (self.left, self.next) = (count, first as usize);
            if count == 0 {
                self.leave();
            }
        }
        true
    }

    /// The packet we stand at; none when its header makes no sense.
    #[inline]
    fn lying(&self) -> Option<Lying<'_>> {
        if self.next > self.block - size_of::<tpacket3_hdr>() || !self.next.is_multiple_of(8) {
            return None;
        }
        // SAFETY: inside the current block, which is ours; aligned as checked; plain data.
        let header = unsafe { &*self.at(self.next).cast::<tpacket3_hdr>() };
        let (start, len) = (self.next + usize::from(header.tp_mac), header.tp_snaplen as usize);
        if start + len > self.block {
            return None;
        }
        // SAFETY: these bytes lie in the current block, which stays ours until `leave`, after the borrow.
        let bytes = unsafe { std::slice::from_raw_parts(self.at(start), len) };
        let aside = Aside {
            status: header.tp_status,
            // The kernel keeps the tag's fields wide here.
            tci: header.hv1.tp_vlan_tci as u16,
            tpid: header.hv1.tp_vlan_tpid,
        };
        Some(Lying { bytes, len: header.tp_len as usize, aside })
    }

    #[inline]
    fn advance(&mut self) {
        self.left -= 1;
        if self.left == 0 {
            return self.leave();
        }
        // SAFETY: `lying` found a whole header here.
        let step = unsafe { (*self.at(self.next).cast::<tpacket3_hdr>()).tp_next_offset } as usize;
        // A step of zero ahead of the last packet would read this one for ever: make it one that is refused.
        self.next = if step == 0 { self.block } else { self.next.saturating_add(step) };
        prefetch(self.base.wrapping_add(self.current * self.block + self.next));
    }

    /// Returns the block to the kernel and goes to the next.
    fn leave(&mut self) {
        self.status().store(libc::TP_STATUS_KERNEL, Ordering::Release);
        self.left = 0;
        self.current = (self.current + 1) % self.blocks;
    }

    fn at(&self, offset: usize) -> *mut u8 {
        debug_assert!(offset <= self.block);
        // SAFETY: `current < blocks` and the offset is at most a block: inside the memory.
        unsafe { self.base.add(self.current * self.block + offset) }
    }

    /// The current block's descriptor, behind the version and private-data words.
    fn head(&self) -> *mut tpacket_hdr_v1 {
        self.at(8).cast()
    }

    fn status(&self) -> &AtomicU32 {
        // SAFETY: `block_status` is the descriptor's first word, aligned, and only ever touched atomically by us.
        unsafe { AtomicU32::from_ptr(&raw mut (*self.head()).block_status) }
    }
}

/// Copies a packet into a frame. False when none is available.
#[inline]
pub(super) fn take(packet: &Lying<'_>, line: &mut Line, pool: &mut Pool, out: &mut Batch) -> bool {
    if !line.ours(packet.bytes) {
        return true;
    }
    let tag = packet.aside.tag();
    let whole = packet.len + if tag.is_some() { 4 } else { 0 };
    if packet.len > packet.bytes.len() || whole > pool.arena().room() {
        line.counters.rx_too_long += 1;
        return true;
    }
    let Some(mut frame) = pool.take() else { return false };
    let arena = pool.arena();
    arena.set_len(&mut frame, whole);
    let to = arena.bytes_mut(&mut frame);
    match tag {
        None => to.copy_from_slice(packet.bytes),
        Some(tag) if packet.len >= 12 => {
            to[..12].copy_from_slice(&packet.bytes[..12]);
            to[12..16].copy_from_slice(&tag);
            to[16..].copy_from_slice(&packet.bytes[12..]);
        }
        Some(_) => {
            line.counters.rx_invalid += 1;
            pool.give(frame);
            return true;
        }
    }
    frame.meta.flags = packet.aside.flags(arena.bytes_mut(&mut frame));
    line.hand_over(pool, out, frame);
    true
}

/// Asks for the line early. The address may be anything.
#[inline]
fn prefetch(at: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch touches nothing and faults never.
    unsafe {
        std::arch::x86_64::_mm_prefetch(at.cast(), std::arch::x86_64::_MM_HINT_T0);
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}

#[cfg(test)]
#[path = "ring_tests.rs"]
mod tests;
