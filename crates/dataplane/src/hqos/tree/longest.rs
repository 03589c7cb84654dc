//! Which queues of a port are the longest, by powers of two: nothing is sorted, and nothing looks at more than a queue's
//! neighbours in a list.
//!
//! A queue of two packets or more is in the list of its rank, the number of bits of its length in bytes. It moves up as soon
//! as it grows into another rank, and down only when it is shorter than half of what its rank begins with, or holds one
//! packet: queues that grow and shrink by a packet stay where they are. So what is in the highest list is at least a fourth as
//! long as the longest queue.

use super::super::flow::NONE;
use super::list::Place;

/// Ranks: bits of a length in bytes, and 0 for what is in no list.
const RANKS: usize = 33;

/// The rank of a queue of so many bytes: of 2ⁿ⁻¹ to 2ⁿ − 1 bytes n.
#[inline(always)]
pub(super) fn rank(bytes: u32) -> u8 {
    (u32::BITS - bytes.leading_zeros()) as u8 // at most 32
}

/// Lists of queues by rank, through their [`Place`]s. A queue's number is that of its leaf, times the classes of a leaf, and
/// its class.
pub(super) struct Longest {
    heads: [u32; RANKS],
    /// Ranks whose list is not empty, a bit each.
    occupied: u64,
}

impl Longest {
    pub fn new() -> Self {
        Self { heads: [NONE; RANKS], occupied: 0 }
    }

    /// The highest rank of a queue; 0: no queue is in a list.
    #[inline(always)]
    pub fn top(&self) -> u8 {
        (u64::BITS - 1).saturating_sub(self.occupied.leading_zeros()) as u8
    }

    /// A queue of the highest rank.
    #[inline(always)]
    pub fn first(&self) -> Option<u32> {
        self.heads.get(usize::from(self.top())).copied().filter(|head| *head != NONE)
    }

    /// Moves a queue from the list of a rank to that of another; rank 0 is none.
    #[inline(never)]
    pub fn change(&mut self, places: &mut [Place], queue: u32, from: u8, to: u8) {
        if from != 0 {
            self.leave(places, queue, from);
        }
        if to != 0 {
            self.enter(places, queue, to);
        }
    }

    fn enter(&mut self, places: &mut [Place], queue: u32, rank: u8) {
        let Some(head) = self.heads.get_mut(usize::from(rank)) else { return };
        let next = std::mem::replace(head, queue);
        self.occupied |= 1 << rank;
        if let Some(place) = places.get_mut(queue as usize) {
            *place = Place { next, prev: NONE };
        }
        if let Some(next) = places.get_mut(next as usize) {
            next.prev = queue;
        }
    }

    fn leave(&mut self, places: &mut [Place], queue: u32, rank: u8) {
        let Some(place) = places.get_mut(queue as usize) else { return };
        let Place { next, prev } = std::mem::replace(place, Place::NONE);
        if let Some(next) = places.get_mut(next as usize) {
            next.prev = prev;
        }
        if let Some(prev) = places.get_mut(prev as usize) {
            prev.next = next;
            return;
        }
        let Some(head) = self.heads.get_mut(usize::from(rank)) else { return };
        *head = next;
        if next == NONE {
            self.occupied &= !(1 << rank);
        }
    }
}
