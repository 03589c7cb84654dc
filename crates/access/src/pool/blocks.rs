//! The addresses or prefixes of one pool. A block takes memory while it is leased or remembered for a client; free ones are in
//! lists through the blocks themselves, oldest first.
//!
//! ```text
//! 0 ─────────────────────────── fresh ─────────────────────────────────────────── count
//! leased, remembered, unclaimed │ never used, but for those that clients asked for
//! ```

use super::{BadPool, MAX_BLOCKS, Range, bits};
use crate::lease::Kind;
use std::collections::HashMap;
use std::net::Ipv6Addr;

const NONE: u32 = u32::MAX;
const UNLINKED: u32 = u32::MAX - 1;
const QUARANTINE: u32 = u32::MAX - 2;

#[derive(Clone, Copy, Debug)]
struct Block {
    /// Neighbours in the free list; `next` is [`UNLINKED`] while the block is not free.
    prev: u32,
    next: u32,
    /// Slot of the lease that has it, or last had it; [`NONE`]: nobody's, [`QUARANTINE`]: it rests.
    owner: u32,
}

/// Ends of a list of free blocks.
#[derive(Clone, Copy, Debug)]
struct List {
    head: u32,
    tail: u32,
}

impl List {
    const EMPTY: Self = Self { head: NONE, tail: NONE };
}

#[derive(Debug)]
pub(super) struct Blocks {
    group: u16,
    /// Bits of an address that tell blocks apart.
    prefix_len: u8,
    /// Bits of an address that are leased.
    lease_len: u8,
    first: u128,
    count: u32,
    /// Blocks that are leased or remembered, and the unclaimed ones before `fresh`.
    blocks: HashMap<u32, Block>,
    /// All blocks before this one have been used; those from here on that are not in `blocks` are free.
    fresh: u32,
    excluded: Vec<(u32, u32)>,
    /// Free blocks before `fresh` that are remembered for nobody.
    unclaimed: List,
    /// Free blocks that are remembered for a client.
    claimed: List,
}

impl Blocks {
    pub fn new(range: &Range) -> Result<Self, BadPool> {
        let Range { first, last, prefix_len, .. } = *range;
        let ip4 = range.kind == Kind::Ip4;
        if first.is_ipv4() != ip4 || last.is_ipv4() != ip4 || bits(first) > bits(last) {
            return Err(BadPool::Order(first, last));
        }
        let good = match range.kind {
            Kind::Ip4 => prefix_len == 32,
            Kind::Na => (64..=128).contains(&prefix_len),
            Kind::Pd => (1..128).contains(&prefix_len),
        };
        if !good {
            return Err(BadPool::Length(first, prefix_len));
        }
        let prefix_len = if ip4 { 128 } else { prefix_len };
        let shift = 128 - u32::from(prefix_len);
        let (low, high) = (bits(first) >> shift, bits(last) >> shift);
        let count = u32::try_from(high - low + 1).ok().filter(|count| *count <= MAX_BLOCKS);
        let count = count.ok_or(BadPool::Size(first, last))?;
        let mut excluded = Vec::new();
        for (from, to) in &range.excluded {
            let (from, to) = ((bits(*from) >> shift).max(low), (bits(*to) >> shift).min(high));
            if from <= to {
                excluded.push(((from - low) as u32, (to - low) as u32));
            }
        }
        excluded.sort_unstable();
        let first = low << shift;
        let lease_len = if range.kind == Kind::Na { 128 } else { prefix_len };
        let group = range.group;
        let (blocks, fresh, unclaimed, claimed) = (HashMap::new(), 0, List::EMPTY, List::EMPTY);
        Ok(Self { group, prefix_len, lease_len, first, count, blocks, fresh, excluded, unclaimed, claimed })
    }

    pub fn group(&self) -> u16 {
        self.group
    }

    /// Bits of [`Blocks::address`] that are leased.
    pub(crate) fn lease_len(&self) -> u8 {
        self.lease_len
    }

    fn shift(&self) -> u32 {
        128 - u32::from(self.prefix_len)
    }

    pub fn bounds(&self) -> (u128, u128) {
        (self.first, self.first + ((u128::from(self.count) << self.shift()) - 1))
    }

    pub fn memory(&self) -> usize {
        super::table(&self.blocks)
    }

    pub fn address(&self, block: u32) -> Ipv6Addr {
        // The address of a prefix alone is its routers' (RFC 4291 clause 2.6.1).
        let host = u128::from(self.lease_len != self.prefix_len);
        Ipv6Addr::from_bits(self.first + (u128::from(block) << self.shift()) + host)
    }

    pub(crate) fn index_of(&self, address: u128) -> Option<u32> {
        let block = address.checked_sub(self.first)? >> self.shift();
        u32::try_from(block).ok().filter(|block| *block < self.count)
    }

    /// The end of the exclusion a block lies in.
    fn excluded_until(&self, block: u32) -> Option<u32> {
        let at = self.excluded.partition_point(|(from, _)| *from <= block);
        self.excluded[..at].iter().map(|(_, to)| *to).filter(|to| *to >= block).max()
    }

    /// A free block that is remembered for nobody.
    pub(crate) fn next_unclaimed(&mut self) -> Option<u32> {
        if self.unclaimed.head != NONE {
            return Some(self.unclaimed.head);
        }
        while self.fresh < self.count {
            match self.excluded_until(self.fresh) {
                Some(end) => self.fresh = end + 1,
                None if self.blocks.contains_key(&self.fresh) => self.fresh += 1,
                None => return Some(self.fresh),
            }
        }
        None
    }

    /// The block that is free for longest of those that are remembered, and the lease it is remembered for.
    pub fn oldest(&self) -> Option<(u32, u32)> {
        self.blocks.get(&self.claimed.head).map(|block| (self.claimed.head, block.owner))
    }

    /// Whether a block can be leased: it is not excluded.
    pub(crate) fn is_leased(&self, block: u32) -> bool {
        self.excluded_until(block).is_none()
    }

    /// Slots of leases that free blocks are remembered for, least recently used first.
    pub fn remembered(&self) -> impl Iterator<Item = u32> + '_ {
        let first = self.blocks.get(&self.claimed.head);
        std::iter::successors(first, |block| self.blocks.get(&block.next)).map(|block| block.owner)
    }

    /// Whether a block is free and remembered for nobody.
    pub(crate) fn is_unclaimed(&self, block: u32) -> bool {
        match self.blocks.get(&block) {
            Some(known) => known.next != UNLINKED && known.owner == NONE,
            None => self.excluded_until(block).is_none(),
        }
    }

    /// The slot of the lease that a block is given to; none: it is free, or rests.
    pub(crate) fn holder(&self, block: u32) -> Option<u32> {
        let known = self.blocks.get(&block).filter(|known| known.next == UNLINKED)?;
        (known.owner < QUARANTINE).then_some(known.owner)
    }

    /// Whether a block rests.
    pub(crate) fn rests(&self, block: u32) -> bool {
        self.blocks.get(&block).is_some_and(|known| known.next == UNLINKED && known.owner == QUARANTINE)
    }

    /// Gives a free block to a lease; returns the lease for which it was remembered.
    pub fn give(&mut self, block: u32, slot: u32) -> Option<u32> {
        let before = self.blocks.get(&block).map(|known| known.owner).filter(|owner| *owner < QUARANTINE);
        if self.blocks.contains_key(&block) {
            self.unlink(block);
        }
        self.blocks.insert(block, Block { prev: NONE, next: UNLINKED, owner: slot });
        before
    }

    /// Takes a free block for the lease that had it.
    pub(crate) fn take_back(&mut self, block: u32) {
        self.unlink(block);
    }

    /// Has a block rest that is leased.
    pub fn quarantine(&mut self, block: u32) {
        if let Some(block) = self.blocks.get_mut(&block) {
            block.owner = QUARANTINE;
        }
    }

    /// Frees a block, and remembers it for its lease.
    pub fn release(&mut self, block: u32) {
        self.claimed = self.link(self.claimed, block);
    }

    /// Frees a block, or one that is free already, and remembers it for nobody.
    pub fn forget(&mut self, block: u32) {
        if self.blocks.get(&block).is_some_and(|known| known.next != UNLINKED) {
            self.unlink(block);
        }
        if block >= self.fresh {
            self.blocks.remove(&block);
            return;
        }
        if let Some(known) = self.blocks.get_mut(&block) {
            known.owner = NONE;
            self.unclaimed = self.link(self.unclaimed, block);
        }
    }

    /// Puts a block at the end of a list.
    fn link(&mut self, list: List, block: u32) -> List {
        let Some(new) = self.blocks.get_mut(&block) else { return list };
        debug_assert_eq!(new.next, UNLINKED);
        (new.prev, new.next) = (list.tail, NONE);
        match self.blocks.get_mut(&list.tail) {
            Some(tail) => tail.next = block,
            None => return List { head: block, tail: block },
        }
        List { tail: block, ..list }
    }

    fn unlink(&mut self, block: u32) {
        let Some(Block { prev, next, owner }) = self.blocks.get(&block).copied().filter(|b| b.next != UNLINKED) else {
            debug_assert!(false, "block {block} is not free");
            return;
        };
        let list = if owner == NONE { &mut self.unclaimed } else { &mut self.claimed };
        match self.blocks.get_mut(&prev) {
            Some(before) => before.next = next,
            None => list.head = next,
        }
        match self.blocks.get_mut(&next) {
            Some(behind) => behind.prev = prev,
            None => list.tail = prev,
        }
        if let Some(block) = self.blocks.get_mut(&block) {
            block.next = UNLINKED;
        }
    }
}
