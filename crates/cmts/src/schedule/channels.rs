//! The channels of bonding groups.

use crate::flow::{LEVELS, NONE};

/// A channel as it is loaded.
#[derive(Clone, Debug)]
pub struct Load {
    /// Nanoseconds of a byte, in 2⁻²⁰.
    cost: u64,
    /// When everything it was given will have been sent, in nanoseconds.
    busy_until: u64,
    /// Time it was given work for, in nanoseconds and 2⁻²⁰ of them: what groups balance.
    given: u64,
    rest: u64,
    /// How much it may be given before its turn is over; see [`TURN`].
    turn: u64,
    /// Bytes of MAC frames given.
    pub bytes: u64,
    /// MAC frames given.
    pub packets: u64,
    /// Times it was chosen after another.
    pub selects: u64,
}

const FRACTION: u32 = 20;
/// Bytes a channel is given before others are looked at: what fills a DEPI packet. So the packet that is being filled is
/// in the nearest cache while it is, and which channel has the least load is not asked for every frame.
const TURN: u64 = 1500;

impl Load {
    /// A channel of that capacity in bit/s.
    pub fn new(capacity: u64) -> Self {
        let cost = ((8_000_000_000u128 << FRACTION) / u128::from(capacity.max(1))) as u64;
        Self { cost, busy_until: 0, given: 0, rest: 0, turn: 0, bytes: 0, packets: 0, selects: 0 }
    }

    /// Its capacity in bit/s.
    pub(super) fn capacity(&self) -> u128 {
        (8_000_000_000u128 << FRACTION) / u128::from(self.cost.max(1))
    }

    /// It is the one with the least load.
    #[inline]
    pub(super) fn begin_turn(&mut self) {
        self.turn = self.given + ((TURN * self.cost) >> FRACTION);
        self.selects += 1;
    }

    /// Whether its turn goes on, if it has nothing to do after `until`.
    #[inline]
    pub(super) fn goes_on(&self, until: u64) -> bool {
        (self.given < self.turn) & (self.busy_until < until)
    }

    /// Gives it a frame of so many bytes.
    #[inline]
    pub(super) fn give(&mut self, bytes: u64, now: u64) {
        let work = bytes * self.cost + self.rest;
        self.rest = work & ((1 << FRACTION) - 1);
        self.busy_until = self.busy_until.max(now) + (work >> FRACTION);
        self.given += work >> FRACTION;
        self.bytes += bytes;
        self.packets += 1;
    }
}

/// Flows whose turn it will be.
#[derive(Clone, Copy)]
pub(super) struct List {
    pub head: u32,
    pub tail: u32,
}

/// A bonding group: who waits to be sent over which channels.
pub(super) struct Group {
    channels: Vec<u16>,
    pub lists: [List; LEVELS],
    /// Lists that are not empty.
    pub occupied: u16,
}

/// How far a channel may lag behind the others of its group, in nanoseconds, before that is forgotten.
const MEMORY_NS: u64 = 20_000_000;

impl Group {
    /// Of those channels.
    pub fn new(channels: &[u16]) -> Self {
        let list = List { head: NONE, tail: NONE };
        Self { channels: channels.to_vec(), lists: [list; LEVELS], occupied: 0 }
    }

    /// The flow whose turn it is, and the list it is in.
    #[inline(always)]
    pub fn first(&self) -> Option<(usize, u32)> {
        // Of none, there is no such list.
        let level = self.occupied.trailing_zeros() as usize;
        self.lists.get(level).map(|list| (level, list.head))
    }

    /// Takes the first flow out of a list: the one behind it is `next`.
    #[inline(always)]
    pub fn shift(&mut self, level: usize, next: u32) {
        let Some(list) = self.lists.get_mut(level) else { return };
        list.head = next;
        if next == NONE {
            list.tail = NONE;
            self.occupied &= !(1 << level);
        }
    }

    /// The channel with the least load of those that have nothing to do after `until`.
    #[inline(always)]
    pub fn freest(&self, loads: &[Load], until: u64) -> Option<u16> {
        let (mut best, mut least) = (u16::MAX, u64::MAX);
        for channel in &self.channels {
            let Some(load) = loads.get(usize::from(*channel)) else { continue };
            // Chosen without a branch: which is the least can not be foretold.
            let better = (load.busy_until < until) & (load.given < least);
            best = if better { *channel } else { best };
            least = if better { load.given } else { least };
        }
        (least < u64::MAX).then_some(best)
    }

    /// What its channels carry together, in bit/s.
    pub fn capacity(&self, loads: &[Load]) -> u64 {
        self.channels.iter().map(|c| loads[usize::from(*c)].capacity()).sum::<u128>() as u64
    }

    /// Has channels that lag far behind the others do so no more.
    pub fn forget(&self, loads: &mut [Load]) {
        let most = self.channels.iter().map(|c| loads[usize::from(*c)].given).max().unwrap_or(0);
        for channel in &self.channels {
            let load = &mut loads[usize::from(*channel)];
            load.given = load.given.max(most.saturating_sub(MEMORY_NS));
        }
    }
}
