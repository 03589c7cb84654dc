//! Hierarchical timer wheel.
//!
//! Six levels of 64 slots; a timer waits in the level of the highest six bits in which its time differs from now and
//! falls a level each time the wheel comes by. Setting, cancelling and firing cost the same however many timers there
//! are, time without timers costs nothing, and nothing is allocated after construction.

const LEVEL_BITS: u32 = 6;
const SLOTS: usize = 1 << LEVEL_BITS;
const LEVELS: usize = 6;
/// Ticks the wheel looks ahead; timers further away wait in the last slot and are put back when it comes.
const HORIZON: u64 = 1 << (LEVEL_BITS * LEVELS as u32);
/// List heads: one for each slot, one for what is due.
const HEADS: usize = SLOTS * LEVELS + 1;
const DUE: u32 = (SLOTS * LEVELS) as u32;

/// Bits of a handle that say which timer; the others say which use of it.
const INDEX_BITS: u32 = 24;
const INDEX: u32 = (1 << INDEX_BITS) - 1;

/// A timer that is set. Good until the timer fires or is cancelled; later it means nothing (it takes 256 further uses
/// of the same place before an old handle could be taken for a new one).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Handle(pub u32);

/// Timers with a `u32` each to say what they are for, owned by one worker. Time is a `u64` of ticks, whatever the owner
/// takes for a tick.
pub struct Wheel {
    /// List heads first, then timers. All lists are rings through their head.
    links: Box<[Link]>,
    timers: Box<[Timer]>,
    /// Slots of each level that are not empty.
    occupied: [u64; LEVELS],
    /// Everything before and at this time has been made due.
    now: u64,
    /// First timer not in use, and how many are.
    free: u32,
    len: usize,
}

#[derive(Clone, Copy)]
struct Link {
    next: u32,
    prev: u32,
}

#[derive(Clone, Copy)]
struct Timer {
    at: u64,
    payload: u32,
    /// Counts uses; odd while set.
    uses: u32,
}

impl Wheel {
    /// A wheel for `capacity` timers (16 million at most) that begins at tick `now`.
    pub fn new(capacity: usize, now: u64) -> Self {
        let n = capacity.min(INDEX as usize);
        // Heads point at themselves; free timers are chained by `next`.
        let mut links: Vec<_> = (0..HEADS as u32).map(|i| Link { next: i, prev: i }).collect();
        links.extend((0..n as u32).map(|i| Link { next: HEADS as u32 + i + 1, prev: 0 }));
        let timers = vec![Timer { at: 0, payload: 0, uses: 0 }; n].into_boxed_slice();
        Self { links: links.into_boxed_slice(), timers, occupied: [0; LEVELS], now, free: HEADS as u32, len: 0 }
    }

    /// Timers set, those included that are due but not fetched.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether none is set.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Timers there can be.
    pub fn capacity(&self) -> usize {
        self.timers.len()
    }

    /// Bytes of memory that it takes.
    pub fn bytes(&self) -> usize {
        size_of_val(&*self.links) + size_of_val(&*self.timers)
    }

    /// Sets a timer for tick `at`; a time that is past means as soon as possible. `None` when all timers are in use.
    #[inline]
    pub fn insert(&mut self, at: u64, payload: u32) -> Option<Handle> {
        let entry = self.free;
        let index = entry as usize - HEADS;
        let timer = self.timers.get_mut(index)?;
        self.free = self.links[entry as usize].next;
        *timer = Timer { at, payload, uses: timer.uses.wrapping_add(1) };
        let handle = Handle((timer.uses >> 1) << INDEX_BITS | index as u32);
        self.len += 1;
        self.enqueue(entry);
        Some(handle)
    }

    /// Cancels a timer; returns what it was for. `None` when it has fired or was cancelled before.
    #[inline]
    pub fn cancel(&mut self, handle: Handle) -> Option<u32> {
        let index = (handle.0 & INDEX) as usize;
        let timer = self.timers.get(index)?;
        if timer.uses & 1 == 0 || (timer.uses >> 1) << INDEX_BITS != handle.0 & !INDEX {
            return None;
        }
        let entry = (HEADS + index) as u32;
        self.unlink(entry);
        Some(self.release(entry))
    }

    /// The next timer that is due at tick `now`, with what it is for; `None` when there is no more. Timers fire in the
    /// order of their ticks, never early. New timers may be set between calls.
    #[inline]
    pub fn pop(&mut self, now: u64) -> Option<(Handle, u32)> {
        loop {
            let entry = self.links[DUE as usize].next;
            if entry != DUE {
                let index = entry as usize - HEADS;
                let handle = Handle((self.timers[index].uses >> 1) << INDEX_BITS | index as u32);
                self.unlink(entry);
                return Some((handle, self.release(entry)));
            }
            match self.next_slot() {
                Some((level, slot, at)) if at <= now => {
                    self.now = self.now.max(at);
                    self.empty(level, slot);
                }
                _ => {
                    self.now = self.now.max(now);
                    return None;
                }
            }
        }
    }

    /// Fires all that is due at tick `now`; returns how many.
    pub fn advance(&mut self, now: u64, mut fire: impl FnMut(Handle, u32)) -> usize {
        let mut n = 0;
        while let Some((handle, payload)) = self.pop(now) {
            fire(handle, payload);
            n += 1;
        }
        n
    }

    /// A tick by which it is worth calling [`pop`](Self::pop) again: not after the next timer, maybe before it. `None`
    /// when none is set. For the owner who wants to sleep.
    pub fn next_tick(&self) -> Option<u64> {
        if self.links[DUE as usize].next != DUE {
            return Some(self.now);
        }
        self.next_slot().map(|(_, _, at)| at)
    }

    /// The slot that comes up first: its level, number and first tick.
    fn next_slot(&self) -> Option<(usize, usize, u64)> {
        // A lower level ends before the next slot of a higher one begins, so the first level with anything has it.
        let level = (0..LEVELS).find(|&level| self.occupied[level] != 0)?;
        let shift = LEVEL_BITS * level as u32;
        let here = (self.now >> shift) & (SLOTS as u64 - 1);
        // What is in the present slot is of the next turn of the last level, so it comes last.
        let ahead = 1 + u64::from(self.occupied[level].rotate_right(here as u32 + 1).trailing_zeros());
        let slot = (here + ahead) % SLOTS as u64;
        let at = ((self.now >> shift) + ahead) << shift;
        Some((level, slot as usize, at))
    }

    /// Puts all timers of a slot whose time has come where they belong now.
    fn empty(&mut self, level: usize, slot: usize) {
        let head = (level * SLOTS + slot) as u32;
        // Taken off as a whole first: one beyond the horizon may come back to the same slot.
        let Link { next: first, prev: last } = self.links[head as usize];
        self.links[head as usize] = Link { next: head, prev: head };
        self.occupied[level] &= !(1 << slot);
        self.links[last as usize].next = head;
        let mut entry = first;
        while entry != head {
            let next = self.links[entry as usize].next;
            self.enqueue(entry);
            entry = next;
        }
    }

    /// Links a timer to the list for its time.
    fn enqueue(&mut self, entry: u32) {
        let at = self.timers[entry as usize - HEADS].at;
        let head = if at <= self.now {
            DUE
        } else {
            let at = at.min(self.now.saturating_add(HORIZON - 1));
            // The highest six bits in which the times differ.
            let level = (((self.now ^ at) | 1).ilog2() / LEVEL_BITS).min(LEVELS as u32 - 1);
            let slot = (at >> (LEVEL_BITS * level)) & (SLOTS as u64 - 1);
            self.occupied[level as usize] |= 1 << slot;
            level * SLOTS as u32 + slot as u32
        };
        let last = self.links[head as usize].prev;
        self.links[entry as usize] = Link { next: head, prev: last };
        self.links[last as usize].next = entry;
        self.links[head as usize].prev = entry;
    }

    fn unlink(&mut self, entry: u32) {
        let Link { next, prev } = self.links[entry as usize];
        self.links[prev as usize].next = next;
        self.links[next as usize].prev = prev;
        // Alone with its head: the slot is empty now.
        if next == prev && next < DUE {
            self.occupied[next as usize / SLOTS] &= !(1 << (next as usize % SLOTS));
        }
    }

    /// Puts a timer that is on no list among the free ones; returns what it was for.
    fn release(&mut self, entry: u32) -> u32 {
        let timer = &mut self.timers[entry as usize - HEADS];
        timer.uses = timer.uses.wrapping_add(1);
        self.links[entry as usize].next = self.free;
        self.free = entry;
        self.len -= 1;
        timer.payload
    }
}

impl std::fmt::Debug for Wheel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Wheel({} of {} timers set, tick {})", self.len, self.timers.len(), self.now)
    }
}

#[cfg(test)]
#[path = "wheel_tests.rs"]
mod tests;
