//! The addresses or prefixes of one pool: free ones in a list through the blocks themselves, oldest first.

use super::{BadPool, MAX_BLOCKS, Range, bits};
use crate::lease::Kind;
use std::net::Ipv6Addr;

const NONE: u32 = u32::MAX;
const UNLINKED: u32 = u32::MAX - 1;
const QUARANTINE: u32 = u32::MAX - 2;

/// Whose a block is.
pub(super) enum Owner {
    Nobody,
    Quarantine,
}

#[derive(Clone, Copy, Debug)]
struct Block {
    /// Neighbours in the free list; `next` is [`UNLINKED`] while the block is not free.
    prev: u32,
    next: u32,
    /// Slot of the lease that has it, or last had it.
    owner: u32,
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
    /// Blocks from here on have never been used and take no memory.
    blocks: Vec<Block>,
    excluded: Vec<(u32, u32)>,
    head: u32,
    tail: u32,
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
        let (blocks, first) = (Vec::new(), low << shift);
        let lease_len = if range.kind == Kind::Na { 128 } else { prefix_len };
        let group = range.group;
        Ok(Self { group, prefix_len, lease_len, first, count, blocks, excluded, head: NONE, tail: NONE })
    }

    pub fn group(&self) -> u16 {
        self.group
    }

    /// Bits of [`Blocks::address`] that are leased.
    pub fn lease_len(&self) -> u8 {
        self.lease_len
    }

    fn shift(&self) -> u32 {
        128 - u32::from(self.prefix_len)
    }

    pub fn bounds(&self) -> (u128, u128) {
        (self.first, self.first + ((u128::from(self.count) << self.shift()) - 1))
    }

    pub fn memory(&self) -> usize {
        self.blocks.capacity() * size_of::<Block>()
    }

    pub fn address(&self, block: u32) -> Ipv6Addr {
        // The address of a prefix alone is its routers' (RFC 4291 clause 2.6.1).
        let host = u128::from(self.lease_len != self.prefix_len);
        Ipv6Addr::from_bits(self.first + (u128::from(block) << self.shift()) + host)
    }

    pub fn index_of(&self, address: u128) -> Option<u32> {
        let block = address.checked_sub(self.first)? >> self.shift();
        u32::try_from(block).ok().filter(|block| *block < self.count)
    }

    /// The end of the exclusion a block lies in.
    fn excluded_until(&self, block: u32) -> Option<u32> {
        let at = self.excluded.partition_point(|(from, _)| *from <= block);
        self.excluded[..at].iter().map(|(_, to)| *to).filter(|to| *to >= block).max()
    }

    /// The next block that was never used.
    pub fn next_fresh(&self) -> Option<u32> {
        let mut block = self.blocks.len() as u32;
        while let Some(end) = self.excluded_until(block) {
            block = end + 1;
        }
        (block < self.count).then_some(block)
    }

    pub fn oldest(&self) -> Option<u32> {
        (self.head != NONE).then_some(self.head)
    }

    /// Whether a block can be leased: it is not excluded.
    pub fn is_leased(&self, block: u32) -> bool {
        self.excluded_until(block).is_none()
    }

    /// Slots of leases that free blocks are remembered for, least recently used first.
    pub fn remembered(&self) -> impl Iterator<Item = u32> + '_ {
        let at = |block: u32| self.blocks.get(block as usize);
        let free = std::iter::successors(self.oldest(), move |block| at(*block).map(|b| b.next).filter(|b| *b != NONE));
        free.filter_map(move |block| at(block).map(|b| b.owner).filter(|owner| *owner < QUARANTINE))
    }

    /// Whether a block is free and remembered for nobody.
    pub fn is_unclaimed(&self, block: u32) -> bool {
        match self.blocks.get(block as usize) {
            Some(known) => known.next != UNLINKED && known.owner == NONE,
            None => self.excluded_until(block).is_none(),
        }
    }

    /// Gives a free block to a lease; returns the lease for which it was remembered.
    pub fn give(&mut self, block: u32, slot: u32) -> Option<u32> {
        while self.blocks.len() <= block as usize {
            let new = self.blocks.len() as u32;
            self.blocks.push(Block { prev: NONE, next: UNLINKED, owner: NONE });
            if self.excluded_until(new).is_none() {
                self.release(new);
            }
        }
        self.unlink(block);
        let before = std::mem::replace(&mut self.blocks[block as usize].owner, slot);
        (before < QUARANTINE).then_some(before)
    }

    /// Takes a free block for the lease that had it.
    pub fn take_back(&mut self, block: u32) {
        self.unlink(block);
    }

    pub fn set_owner(&mut self, block: u32, owner: Owner) {
        self.blocks[block as usize].owner = match owner {
            Owner::Nobody => NONE,
            Owner::Quarantine => QUARANTINE,
        };
    }

    /// Puts a block at the end of the free list.
    pub fn release(&mut self, block: u32) {
        let tail = self.tail;
        let b = &mut self.blocks[block as usize];
        debug_assert_eq!(b.next, UNLINKED);
        (b.prev, b.next) = (tail, NONE);
        match tail {
            NONE => self.head = block,
            _ => self.blocks[tail as usize].next = block,
        }
        self.tail = block;
    }

    fn unlink(&mut self, block: u32) {
        let Block { prev, next, .. } = self.blocks[block as usize];
        if next == UNLINKED {
            debug_assert!(false, "block {block} is not free");
            return;
        }
        match prev {
            NONE => self.head = next,
            _ => self.blocks[prev as usize].next = next,
        }
        match next {
            NONE => self.tail = prev,
            _ => self.blocks[next as usize].prev = prev,
        }
        self.blocks[block as usize].next = UNLINKED;
    }
}
