//! The memory all packets lie in.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Mutex};

use pages::{Backing, Region};

use crate::frame::{Frame, Meta};
use crate::pool::Pool;

/// Bytes usually kept free before a received packet: room for what goes in front of it, and six bytes of the packet's first
/// cache line. So the header of a user's packet in a tunnel (behind 58 bytes, say) is
/// on one line, as one without a tunnel is. On two, reading it takes 2 ns more.
pub const HEADROOM: u16 = 256 + 6;

/// What an [`Arena`] should be.
#[derive(Clone, Copy, Debug)]
pub struct ArenaConfig {
    /// How many packets it holds.
    pub slots: u32,
    /// Bytes of a slot, headroom included. AF_XDP wants 2048 (or 4096); jumbo frames need more.
    pub slot_bytes: u16,
    /// Bytes kept free before a received packet, for encapsulation: see [`HEADROOM`]. AF_XDP's kernel reserves 256 itself.
    pub headroom: u16,
}

impl Default for ArenaConfig {
    fn default() -> Self {
        Self { slots: 16_384, slot_bytes: 2048, headroom: HEADROOM }
    }
}

impl ArenaConfig {
    /// The geometry of an arena made so.
    pub fn shape(&self) -> Shape {
        let mut lines = u32::from(self.slot_bytes).div_ceil(64);
        // A stride of an odd number of lines walks through every L1 set; a power of two would pile headers on one or
        // two of them.
        if lines.is_multiple_of(2) {
            lines += 1;
        }
        Shape { slots: self.slots, stride: lines * 64, slot_bytes: self.slot_bytes, headroom: self.headroom }
    }
}

/// Geometry of an arena, as AF_XDP and DPDK need to know it.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Slots.
    pub slots: u32,
    /// Bytes from one slot to the next. Odd in cache lines, so that headers spread over all L1 sets.
    pub stride: u32,
    /// Usable bytes of a slot, headroom included.
    pub slot_bytes: u16,
    /// Headroom of a fresh frame.
    pub headroom: u16,
}

/// All packet memory of a process (or of one trial of a benchmark), on the largest pages available. Shared by
/// reference; bytes are reached only through a [`Frame`] of this very arena.
pub struct Arena {
    region: Region,
    shape: Shape,
    id: u16,
    /// Free slots no pool holds: filled at start, touched in bulk only, when a pool starts, ends, or two workers'
    /// stocks drift apart.
    pub(crate) depot: Mutex<Vec<u32>>,
}

static NEXT_ID: AtomicU16 = AtomicU16::new(0);

impl Arena {
    /// Makes the arena and faults it in.
    ///
    /// # Errors
    /// What the kernel said, when there is not that much memory; `InvalidInput` when a slot has no room beside its
    /// headroom, when there are no slots, or after 65,534 arenas in one process.
    pub fn new(config: ArenaConfig) -> io::Result<Arc<Self>> {
        Self::of(config, |bytes| Region::new(bytes).inspect(Region::prefault), true)
    }

    /// The same of memory that another process can map: see [`Arena::file`].
    ///
    /// # Errors
    /// As [`Arena::new`].
    pub fn shared(config: ArenaConfig) -> io::Result<Arc<Self>> {
        Self::of(config, |bytes| Region::shared(bytes).inspect(Region::prefault), true)
    }

    /// The memory of another process's [shared](Arena::shared) arena of that configuration, by its file. No slot is
    /// free until [`Arena::release_all_but`] says so.
    ///
    /// # Errors
    /// As [`Arena::new`]; `InvalidInput` when the file is of another size.
    pub fn of_file(config: ArenaConfig, file: OwnedFd) -> io::Result<Arc<Self>> {
        // Its pages are there; without a mapping of each the first use makes one.
        let map = |bytes| Region::of_file(file, bytes).inspect(|region| drop(region.populate(0, region.len())));
        Self::of(config, map, false)
    }

    fn of(
        config: ArenaConfig,
        region: impl FnOnce(usize) -> io::Result<Region>,
        are_free: bool,
    ) -> io::Result<Arc<Self>> {
        let invalid = |what| Err(io::Error::new(io::ErrorKind::InvalidInput, what));
        if config.slots == 0 || config.slots == Frame::NONE {
            return invalid("an arena needs at least one slot");
        }
        if config.slot_bytes <= config.headroom {
            return invalid("a slot must be larger than its headroom");
        }
        // Numbers are never used twice, or a frame that outlived its arena could reach into another.
        let next = |id: u16| id.checked_add(1);
        let Ok(id) = NEXT_ID.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next) else {
            return invalid("no more arenas in this process");
        };
        let shape = config.shape();
        let region = region(shape.slots as usize * shape.stride as usize)?;
        // Of all slots from the start: giving some back allocates nothing.
        let mut free = Vec::with_capacity(config.slots as usize);
        free.extend((0..config.slots).rev().filter(|_| are_free));
        let depot = Mutex::new(free);
        Ok(Arc::new(Self { region, shape, id, depot }))
    }

    /// Its geometry.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// The pages it rests on.
    pub fn backing(&self) -> Backing {
        self.region.backing()
    }

    /// Bytes of a slot that a received packet may fill.
    pub fn room(&self) -> usize {
        usize::from(self.shape.slot_bytes - self.shape.headroom)
    }

    /// First byte of the memory, for registering it with a kernel or a device. Aligned to a page.
    pub fn base(&self) -> *mut u8 {
        self.region.base().as_ptr()
    }

    /// The file by which another process can map the memory, if it was made so.
    pub fn file(&self) -> Option<BorrowedFd<'_>> {
        self.region.file()
    }

    /// Bytes of the memory from [`Arena::base`].
    pub fn bytes_len(&self) -> usize {
        self.region.len()
    }

    /// Distance of the frame's first packet byte from [`Arena::base`].
    #[inline]
    pub fn offset(&self, frame: &Frame) -> u64 {
        u64::from(frame.slot) * u64::from(self.shape.stride) + u64::from(frame.head)
    }

    /// The packet.
    ///
    /// # Panics
    /// When the frame is none or of another arena.
    #[inline]
    pub fn bytes<'a>(&'a self, frame: &'a Frame) -> &'a [u8] {
        let start = self.locate(frame);
        // SAFETY: `locate` proved the slot is ours; head + len ≤ slot_bytes is kept by every change to a frame. The
        // token is exclusive, and it is borrowed for as long as the slice lives.
        unsafe { std::slice::from_raw_parts(start.add(frame.head.into()), frame.len.into()) }
    }

    /// The packet, to write.
    ///
    /// # Panics
    /// When the frame is none or of another arena.
    #[inline]
    pub fn bytes_mut<'a>(&'a self, frame: &'a mut Frame) -> &'a mut [u8] {
        let start = self.locate(frame);
        // SAFETY: as in `bytes`; the token is borrowed mutably, so no other slice of this slot exists.
        unsafe { std::slice::from_raw_parts_mut(start.add(frame.head.into()), frame.len.into()) }
    }

    /// Everything from the packet's first byte to the end of its slot, to receive into. Follow with
    /// [`Arena::set_len`].
    ///
    /// # Panics
    /// When the frame is none or of another arena.
    #[inline]
    pub fn space_mut<'a>(&'a self, frame: &'a mut Frame) -> &'a mut [u8] {
        let start = self.locate(frame);
        // SAFETY: head ≤ slot_bytes, so this ends exactly at the slot's end; exclusive as in `bytes_mut`.
        unsafe {
            std::slice::from_raw_parts_mut(
                start.add(frame.head.into()),
                usize::from(self.shape.slot_bytes - frame.head),
            )
        }
    }

    /// Sets the packet's length, at most what fits between its first byte and the end of the slot; a larger `len` is
    /// cut to that. Returns the length set.
    #[inline]
    pub fn set_len(&self, frame: &mut Frame, len: usize) -> usize {
        let len = len.min(usize::from(self.shape.slot_bytes - frame.head));
        // Fits: slot_bytes is a u16.
        frame.len = len as u16;
        len
    }

    /// Fills an empty or old frame with `bytes`, starting at the arena's headroom. False, and an empty packet, when
    /// they do not fit.
    #[inline]
    pub fn write(&self, frame: &mut Frame, bytes: &[u8]) -> bool {
        frame.head = self.shape.headroom;
        frame.len = 0;
        if bytes.len() > self.room() {
            return false;
        }
        self.set_len(frame, bytes.len());
        self.bytes_mut(frame).copy_from_slice(bytes);
        true
    }

    /// Adds `bytes` behind the packet. False, and nothing added, when they do not fit into the slot.
    #[inline]
    pub fn append(&self, frame: &mut Frame, bytes: &[u8]) -> bool {
        let from = frame.len();
        let space = self.space_mut(frame).get_mut(from..from + bytes.len());
        let fits = space.map(|space| space.copy_from_slice(bytes)).is_some();
        if fits {
            // Within the slot, whose size is a u16.
            frame.len = (from + bytes.len()) as u16;
        }
        fits
    }

    #[inline]
    fn locate(&self, frame: &Frame) -> *mut u8 {
        // One predictable branch buys that safe code cannot reach outside its own slots: a frame of another arena,
        // or none, never gets a pointer.
        assert!(frame.arena == self.id, "a frame of another arena");
        // SAFETY: `arena == id` implies the token was minted here, so slot < slots and the offset is in the region.
        unsafe { self.region.base().as_ptr().add(frame.slot as usize * self.shape.stride as usize) }
    }

    /// Makes the token of a slot: a fresh, empty packet at the arena's headroom.
    ///
    /// # Safety
    /// No other token of this slot may exist: it must come out of a pool's stock or a kernel ring that was given it.
    #[inline]
    pub unsafe fn mint(&self, slot: u32) -> Frame {
        debug_assert!(slot < self.shape.slots);
        Frame { slot, head: self.shape.headroom, len: 0, arena: self.id, meta: Meta::default() }
    }

    /// Makes the token of the slot a kernel ring names by an offset from [`Arena::base`] to the packet's first byte.
    /// None when the address does not lie in a slot or the packet not inside it: a ring that was corrupted.
    ///
    /// # Safety
    /// As for [`Arena::mint`].
    #[inline]
    pub unsafe fn mint_at(&self, offset: u64, len: usize) -> Option<Frame> {
        let slot = u32::try_from(offset / u64::from(self.shape.stride)).ok()?;
        let head = (offset % u64::from(self.shape.stride)) as usize;
        if slot >= self.shape.slots || head + len > usize::from(self.shape.slot_bytes) {
            return None;
        }
        // Both fit: their sum is at most slot_bytes, a u16.
        Some(Frame { slot, head: head as u16, len: len as u16, arena: self.id, meta: Meta::default() })
    }

    /// Makes the token of a slot with a packet of `len` bytes from `head` of the slot: for devices that name slots by number.
    /// None when the packet does not lie inside the slot: a device that went wrong.
    ///
    /// # Safety
    /// As for [`Arena::mint`].
    #[inline]
    pub unsafe fn mint_within(&self, slot: u32, head: u16, len: u16) -> Option<Frame> {
        let fits = slot < self.shape.slots && u32::from(head) + u32::from(len) <= u32::from(self.shape.slot_bytes);
        fits.then_some(Frame { slot, head, len, arena: self.id, meta: Meta::default() })
    }

    /// Whether the frame is of this arena.
    #[inline]
    pub fn owns(&self, frame: &Frame) -> bool {
        frame.arena == self.id
    }

    /// Slots that are neither in the depot nor in one of the pools, which are all there are: a bit each, by number.
    pub fn slots_in_use<'p>(&self, pools: impl Iterator<Item = &'p Pool>) -> Vec<u64> {
        let slots = self.shape.slots;
        let mut used = vec![u64::MAX; slots.div_ceil(64) as usize];
        if let (Some(last), 1..) = (used.last_mut(), slots % 64) {
            *last = (1 << (slots % 64)) - 1;
        }
        let mut free = |slots: &[u32]| slots.iter().for_each(|slot| used[*slot as usize / 64] &= !(1 << (slot % 64)));
        free(&self.depot.lock().expect("no code panics holding the depot"));
        pools.for_each(|pool| free(pool.slots()));
        used
    }

    /// Slots of an arena of another process's memory are free from now on: all but those of which a bit is set in
    /// `used`, as [`Arena::slots_in_use`] told there.
    pub fn release_all_but(&self, used: &[u64]) {
        let is_used = |slot: u32| used.get(slot as usize / 64).is_none_or(|word| word >> (slot % 64) & 1 != 0);
        let free = (0..self.shape.slots).rev().filter(|slot| !is_used(*slot));
        self.depot.lock().expect("no code panics holding the depot").extend(free);
    }

    /// The same of slots of which a bit is set in `free`: they were in use in the other process, which has ended.
    pub fn release(&self, free: &[u64]) {
        let is_free = |slot: &u32| free.get(*slot as usize / 64).is_some_and(|word| word >> (slot % 64) & 1 != 0);
        let slots = (0..self.shape.slots).filter(is_free);
        self.depot.lock().expect("no code panics holding the depot").extend(slots);
    }

    /// Free slots in the depot (not in any pool).
    pub fn in_depot(&self) -> usize {
        self.depot.lock().expect("no code panics holding the depot").len()
    }
}
