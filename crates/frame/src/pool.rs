//! A worker's stock of free slots.

use std::sync::Arc;

use crate::arena::Arena;
use crate::batch::Batch;
use crate::frame::Frame;

/// Free slots owned by one worker, last in first out so that the slots in use stay the warm ones. Falls back on the
/// arena's depot in bulk; what it does not use goes back there when it ends.
pub struct Pool {
    arena: Arc<Arena>,
    free: Vec<u32>,
    share: usize,
}

impl Pool {
    /// How many slots move between a pool and the depot at once.
    pub const BULK: usize = 256;

    /// A pool that holds up to `share` slots, filled from the depot as far as it can be.
    pub fn new(arena: &Arc<Arena>, share: usize) -> Self {
        let mut pool = Self { arena: arena.clone(), free: Vec::with_capacity(share + Self::BULK), share };
        pool.refill(share);
        pool
    }

    /// The arena its slots are of.
    #[inline]
    pub fn arena(&self) -> &Arc<Arena> {
        &self.arena
    }

    /// Numbers of the slots it holds.
    pub(crate) fn slots(&self) -> &[u32] {
        &self.free
    }

    /// From now on it holds up to `share` slots; what it has beyond goes to the depot.
    pub fn set_share(&mut self, share: usize) {
        self.share = share;
        let beyond = self.free.len().saturating_sub(share);
        if beyond > 0 {
            self.spill(beyond);
        }
        // Nothing is allocated when packets come back.
        self.free.reserve((share + Self::BULK).saturating_sub(self.free.len()));
    }

    /// Fills it again from the depot as far as it can be.
    pub fn restock(&mut self) {
        self.refill(self.share.saturating_sub(self.free.len()));
    }

    /// Slots it holds.
    #[inline]
    pub fn free(&self) -> usize {
        self.free.len()
    }

    /// An empty frame, or none when neither the pool nor the depot has a slot left.
    #[inline]
    pub fn take(&mut self) -> Option<Frame> {
        if self.free.is_empty() {
            self.refill(Self::BULK.min(self.share.max(1)));
        }
        let slot = self.free.pop()?;
        // SAFETY: a slot number in `free` stands for no live token: it came from the depot or from `give`, which
        // consumed the token, and popping it makes this the only one.
        Some(unsafe { self.arena.mint(slot) })
    }

    /// A frame filled with `bytes`, or none when slots or room are wanting.
    pub fn make(&mut self, bytes: &[u8]) -> Option<Frame> {
        let mut frame = self.take()?;
        if self.arena.write(&mut frame, bytes) {
            return Some(frame);
        }
        self.give(frame);
        None
    }

    /// Takes a frame's slot back. A none is ignored.
    ///
    /// # Panics
    /// When the frame is of another arena.
    #[inline]
    pub fn give(&mut self, frame: Frame) {
        if frame.is_none() {
            return;
        }
        assert!(self.arena.owns(&frame), "a frame of another arena");
        if self.free.len() >= self.share + Self::BULK {
            self.spill(Self::BULK);
        }
        self.free.push(frame.slot());
    }

    /// Takes every frame of a batch back.
    #[inline]
    pub fn give_all(&mut self, batch: &mut Batch) {
        batch.drain(|frame| self.give(frame));
    }

    /// Takes back the slot whose token was given up earlier (to a kernel ring).
    ///
    /// # Safety
    /// As for [`Arena::mint`].
    #[inline]
    pub unsafe fn give_slot(&mut self, slot: u32) {
        // SAFETY: the caller's promise is mint's.
        let frame = unsafe { self.arena.mint(slot) };
        self.give(frame);
    }

    #[cold]
    fn refill(&mut self, want: usize) {
        let mut depot = self.arena.depot.lock().expect("no code panics holding the depot");
        let keep = depot.len().saturating_sub(want);
        self.free.extend(depot.drain(keep..));
    }

    /// Another worker's frames ended here, or it is to hold fewer: gives some back, so that others can have them.
    #[cold]
    fn spill(&mut self, count: usize) {
        let mut depot = self.arena.depot.lock().expect("no code panics holding the depot");
        // The coldest slots are at the bottom.
        depot.extend(self.free.drain(..count));
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        if let Ok(mut depot) = self.arena.depot.lock() {
            depot.append(&mut self.free);
        }
    }
}
