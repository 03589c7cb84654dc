//! Longest-prefix match for IPv4 and IPv6.
//!
//! The first 13 bits index a table; behind it stand nodes of six bits each with bitmaps of the prefixes and children
//! they have (a tree bitmap), so that IPv4 needs at most four nodes (/24: two), an IPv6 /48 six and a /64 nine, and a
//! change touches one node and nothing that covers or is covered. A table costs 100 kB and then some 10 to 40 bytes a
//! prefix.
//!
//! Tables are built and changed by control and published whole ([`snapshot`](crate::snapshot)): cloning copies a few
//! vectors.

mod change;
mod node;
mod pool;

use std::collections::BTreeMap;
use std::fmt;

use change::{number, way};
use node::{Node, STRIDE, rank};
use pool::Pool;

/// Address bits the root table decides.
const ROOT: u8 = 13;
/// A root slot without nodes.
const NONE: u32 = u32::MAX;
/// A root slot that no short prefix covers.
const UNCOVERED: u8 = u8::MAX;

/// An address as a number: `u32` for IPv4, `u128` for IPv6, in host order.
pub trait Address: Copy + Ord + fmt::Debug + private::Sealed {
    /// Bits of an address.
    const BITS: u8;
    /// The first address.
    const ZERO: Self;
    /// The `n` ≤ 32 bits from bit `at` < `BITS` on (0 is the first); zeroes beyond the end.
    fn bits(self, at: u8, n: u8) -> u32;
    /// The address with all but the first `len` bits cleared.
    fn first(self, len: u8) -> Self;
    /// This address with `n` bits `v` set from bit `at` on; what falls over the end is lost.
    fn with(self, at: u8, n: u8, v: u32) -> Self;
}

mod private {
    pub trait Sealed {}
    impl Sealed for u32 {}
    impl Sealed for u128 {}
}

macro_rules! address {
    ($int:ty) => {
        impl Address for $int {
            const BITS: u8 = <$int>::BITS as u8;
            const ZERO: Self = 0;

            #[inline(always)]
            fn bits(self, at: u8, n: u8) -> u32 {
                ((self << at) >> (<Self as Address>::BITS - n)) as u32
            }

            #[inline(always)]
            fn first(self, len: u8) -> Self {
                if len == 0 { 0 } else { self & (Self::MAX << (<Self as Address>::BITS - len)) }
            }

            fn with(self, at: u8, n: u8, v: u32) -> Self {
                if n == 0 { self } else { self | (<$int>::from(v) << (<Self as Address>::BITS - n)) >> at }
            }
        }
    };
}
address!(u32);
address!(u128);

/// An address and how many of its first bits count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Prefix<A> {
    address: A,
    len: u8,
}

impl<A: Address> Prefix<A> {
    /// The first `len` bits of `address`; the others are cleared. `None` when there are not that many.
    pub fn new(address: A, len: u8) -> Option<Self> {
        (len <= A::BITS).then(|| Self { address: address.first(len), len })
    }

    /// The address, zero beyond the prefix.
    pub fn address(&self) -> A {
        self.address
    }

    /// How many bits count.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> u8 {
        self.len
    }

    /// Whether `address` lies in the prefix.
    pub fn covers(&self, address: A) -> bool {
        address.first(self.len) == self.address
    }
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    node: u32,
    /// The value of the longest prefix shorter than the root's bits that covers this slot, and its length.
    value: u32,
    len: u8,
}

impl Slot {
    /// The value of the prefix that covers it.
    #[inline(always)]
    fn covering(&self) -> Option<u32> {
        (self.len != UNCOVERED).then_some(self.value)
    }
}

/// Addresses walked together in a batch.
const LANES: usize = 32;

/// A walk down the nodes: where to go next, and the last node that had a covering prefix. Which of its prefixes is the
/// longest is decided at the end.
#[derive(Clone, Copy, Default)]
struct Lane {
    next: u32,
    value_base: u32,
    covering: u64,
    values: u64,
}

impl Lane {
    /// Takes note of a node's prefixes; returns its child for the six bits `v`.
    #[inline(always)]
    fn step(&mut self, node: &Node, v: u32) -> Option<u32> {
        let covering = node.covering(v);
        if covering != 0 {
            (self.covering, self.values, self.value_base) = (covering, node.values, node.value_base);
        }
        node.child(v)
    }
}

/// A table from prefixes to `u32` values, each value as good as any other.
#[derive(Clone)]
pub struct Lpm<A> {
    root: Box<[Slot]>,
    nodes: Pool<Node>,
    values: Pool<u32>,
    /// The prefixes shorter than the root's bits.
    short: BTreeMap<(u8, A), u32>,
    len: usize,
}

/// A table of IPv4 prefixes.
pub type Lpm4 = Lpm<u32>;
/// A table of IPv6 prefixes.
pub type Lpm6 = Lpm<u128>;

impl<A: Address> Default for Lpm<A> {
    fn default() -> Self {
        Self::new()
    }
}

impl<A: Address> Lpm<A> {
    /// An empty table.
    pub fn new() -> Self {
        let slot = Slot { node: NONE, value: 0, len: UNCOVERED };
        let root = vec![slot; 1 << ROOT].into_boxed_slice();
        Self { root, nodes: Pool::new(), values: Pool::new(), short: BTreeMap::new(), len: 0 }
    }

    /// Prefixes in the table.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes of memory it takes, about.
    pub fn bytes(&self) -> usize {
        self.root.len() * size_of::<Slot>() + self.nodes.bytes() + self.values.bytes() + self.short.len() * 48
    }

    /// The value of the longest prefix that covers `address`.
    #[inline(always)]
    pub fn lookup(&self, address: A) -> Option<u32> {
        let slot = &self.root[address.bits(0, ROOT) as usize];
        if slot.node == NONE { slot.covering() } else { self.walk(slot, address) }
    }

    /// The value of the longest prefix that covers `address`, where one look tells; else [`u32::MAX`]: none covers it, that
    /// is its value, or [`lookup`](Self::lookup) is to look closer.
    #[inline(always)]
    pub fn glance(&self, address: A) -> u32 {
        let slot = &self.root[address.bits(0, ROOT) as usize];
        if slot.node == NONE && slot.len != UNCOVERED { slot.value } else { NONE }
    }

    /// The value of an address whose root slot has nodes. Apart: the other slots need a handful of instructions.
    #[inline(never)]
    fn walk(&self, slot: &Slot, address: A) -> Option<u32> {
        let mut lane = Lane::default();
        let (mut next, mut at) = (Some(slot.node), ROOT);
        while let Some(index) = next {
            next = lane.step(self.nodes.get(index), address.bits(at, STRIDE));
            at += STRIDE;
        }
        self.conclude(&lane, slot)
    }

    /// The values for many addresses: `out[i]` for `addresses[i]`.
    ///
    /// # Panics
    /// When the slices differ in length.
    pub fn lookup_batch(&self, addresses: &[A], out: &mut [Option<u32>]) {
        assert_eq!(addresses.len(), out.len(), "one answer for each address");
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("popcnt") && is_x86_feature_detected!("lzcnt") && is_x86_feature_detected!("bmi2") {
            // SAFETY: the processor has just been found to have these instructions.
            return unsafe { self.lookup_batch_counting(addresses, out) };
        }
        self.lookup_all(addresses, out);
    }

    /// The same with instructions that count bits.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "popcnt,lzcnt,bmi1,bmi2")]
    fn lookup_batch_counting(&self, addresses: &[A], out: &mut [Option<u32>]) {
        self.lookup_all(addresses, out);
    }

    /// A level of all addresses before the next level of any, so that the misses of a burst overlap.
    #[inline(always)]
    fn lookup_all(&self, addresses: &[A], out: &mut [Option<u32>]) {
        for (addresses, out) in addresses.chunks(LANES).zip(out.chunks_mut(LANES)) {
            let mut lanes = [Lane::default(); LANES];
            // The lanes that still have a node to look at.
            let mut active = 0u32;
            for (i, (lane, address)) in lanes.iter_mut().zip(addresses).enumerate() {
                let slot = &self.root[address.bits(0, ROOT) as usize];
                if slot.node != NONE {
                    lane.next = slot.node;
                    active |= 1 << i;
                    self.nodes.prefetch(slot.node);
                }
            }
            let mut at = ROOT;
            while active != 0 {
                let mut turn = active;
                while turn != 0 {
                    let i = turn.trailing_zeros() as usize;
                    turn &= turn - 1;
                    let (lane, v) = (&mut lanes[i], addresses[i].bits(at, STRIDE));
                    match lane.step(self.nodes.get(lane.next), v) {
                        Some(next) => {
                            lane.next = next;
                            self.nodes.prefetch(next);
                        }
                        None => active &= !(1 << i),
                    }
                }
                at += STRIDE;
            }
            for ((lane, out), &address) in lanes.iter().zip(out).zip(addresses) {
                *out = self.conclude(lane, &self.root[address.bits(0, ROOT) as usize]);
            }
        }
    }

    /// What a walk has found: in the last node with a covering prefix the longest, else what covers the root slot.
    #[inline(always)]
    fn conclude(&self, lane: &Lane, slot: &Slot) -> Option<u32> {
        if lane.covering != 0 {
            return Some(*self.values.get(lane.value_base + rank(lane.values, lane.covering.ilog2())));
        }
        slot.covering()
    }

    /// The longest prefix that covers `address`, with its value: for showing, not for packets.
    pub fn explain(&self, address: A) -> Option<(Prefix<A>, u32)> {
        (0..=A::BITS).rev().find_map(|len| {
            let prefix = Prefix::new(address, len)?;
            Some((prefix, self.get(prefix)?))
        })
    }

    /// The value of exactly this prefix.
    pub fn get(&self, prefix: Prefix<A>) -> Option<u32> {
        if prefix.len < ROOT {
            return self.short.get(&(prefix.len, prefix.address)).copied();
        }
        let mut index = self.root[prefix.address.bits(0, ROOT) as usize].node;
        if index == NONE {
            return None;
        }
        for at in way(prefix.len) {
            index = self.nodes.get(index).child(prefix.address.bits(at, STRIDE))?;
        }
        let at = self.nodes.get(index).value(number(prefix))?;
        Some(*self.values.get(at))
    }

    /// Sets the value of a prefix; returns the one it had.
    pub fn insert(&mut self, prefix: Prefix<A>, value: u32) -> Option<u32> {
        let old = if prefix.len < ROOT { self.insert_short(prefix, value) } else { self.insert_long(prefix, value) };
        self.len += usize::from(old.is_none());
        old
    }

    /// Takes a prefix out; returns the value it had.
    pub fn remove(&mut self, prefix: Prefix<A>) -> Option<u32> {
        let old = if prefix.len < ROOT { self.remove_short(prefix) } else { self.remove_long(prefix) };
        self.len -= usize::from(old.is_some());
        old
    }

    /// All prefixes with their values, in no order. Collects them first.
    pub fn iter(&self) -> impl Iterator<Item = (Prefix<A>, u32)> + use<A> {
        let mut all: Vec<_> =
            self.short.iter().map(|(&(len, address), &value)| (Prefix { address, len }, value)).collect();
        for (i, slot) in self.root.iter().enumerate().filter(|(_, slot)| slot.node != NONE) {
            self.collect(slot.node, A::ZERO.with(0, ROOT, i as u32), ROOT, &mut all);
        }
        all.into_iter()
    }

    fn collect(&self, index: u32, address: A, at: u8, all: &mut Vec<(Prefix<A>, u32)>) {
        let node = *self.nodes.get(index);
        for number in (1..64).filter(|&number: &u32| node.values >> number & 1 != 0) {
            let l = number.ilog2() as u8;
            let prefix = Prefix { address: address.with(at, l, number & !(1 << l)), len: at + l };
            all.extend(node.value(number).map(|at| (prefix, *self.values.get(at))));
        }
        for v in 0..64 {
            if let Some(child) = node.child(v) {
                self.collect(child, address.with(at, STRIDE, v), at + STRIDE, all);
            }
        }
    }
}

impl<A: Address> fmt::Debug for Lpm<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Lpm({} prefixes)", self.len)
    }
}

#[cfg(test)]
mod tests;
