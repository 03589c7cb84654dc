//! Putting prefixes into the table and taking them out.

use super::node::{Node, STRIDE, rank};
use super::{Address, Lpm, NONE, Prefix, ROOT, UNCOVERED};

/// The address bits at which a prefix of `len` ≥ `ROOT` bits goes on to a child, from the root's node on.
pub(super) fn way(len: u8) -> impl Iterator<Item = u8> {
    (0..(len - ROOT) / STRIDE).map(|level| ROOT + level * STRIDE)
}

/// The number of a prefix in its node.
pub(super) fn number<A: Address>(prefix: Prefix<A>) -> u32 {
    let l = (prefix.len - ROOT) % STRIDE;
    if l == 0 { 1 } else { 1 << l | prefix.address.bits(prefix.len - l, l) }
}

impl<A: Address> Lpm<A> {
    pub(super) fn insert_long(&mut self, prefix: Prefix<A>, value: u32) -> Option<u32> {
        let slot = prefix.address.bits(0, ROOT) as usize;
        if self.root[slot].node == NONE {
            self.root[slot].node = self.nodes.insert(0, 0, 0, Node::default());
        }
        let mut index = self.root[slot].node;
        for at in way(prefix.len) {
            index = self.child_or_new(index, prefix.address.bits(at, STRIDE));
        }
        let number = number(prefix);
        let node = *self.nodes.get(index);
        if let Some(at) = node.value(number) {
            return Some(std::mem::replace(self.values.get_mut(at), value));
        }
        let at = rank(node.values, number) as usize;
        let base = self.values.insert(node.value_base, node.values.count_ones() as usize, at, value);
        let node = self.nodes.get_mut(index);
        node.value_base = base;
        node.values |= 1 << number;
        None
    }

    fn child_or_new(&mut self, index: u32, v: u32) -> u32 {
        let node = *self.nodes.get(index);
        if let Some(child) = node.child(v) {
            return child;
        }
        let at = rank(node.children, v);
        // The children move; their parent does not.
        let n = node.children.count_ones() as usize;
        let base = self.nodes.insert(node.child_base, n, at as usize, Node::default());
        let node = self.nodes.get_mut(index);
        node.child_base = base;
        node.children |= 1 << v;
        base + at
    }

    pub(super) fn remove_long(&mut self, prefix: Prefix<A>) -> Option<u32> {
        let slot = prefix.address.bits(0, ROOT) as usize;
        let mut index = self.root[slot].node;
        if index == NONE {
            return None;
        }
        let mut parents = Vec::new();
        for at in way(prefix.len) {
            let v = prefix.address.bits(at, STRIDE);
            parents.push((index, v));
            index = self.nodes.get(index).child(v)?;
        }
        let number = number(prefix);
        let node = *self.nodes.get(index);
        let old = *self.values.get(node.value(number)?);
        let at = rank(node.values, number) as usize;
        let base = self.values.remove(node.value_base, node.values.count_ones() as usize, at);
        let changed = self.nodes.get_mut(index);
        changed.value_base = base;
        changed.values &= !(1 << number);

        // Nodes with nothing left go, from the leaf towards the root.
        while self.nodes.get(index).is_empty() {
            let Some((parent, v)) = parents.pop() else {
                self.nodes.remove(index, 1, 0);
                self.root[slot].node = NONE;
                break;
            };
            let node = *self.nodes.get(parent);
            let n = node.children.count_ones() as usize;
            let base = self.nodes.remove(node.child_base, n, rank(node.children, v) as usize);
            let node = self.nodes.get_mut(parent);
            node.child_base = base;
            node.children &= !(1 << v);
            index = parent;
        }
        Some(old)
    }

    pub(super) fn insert_short(&mut self, prefix: Prefix<A>, value: u32) -> Option<u32> {
        let old = self.short.insert((prefix.len, prefix.address), value);
        for slot in &mut self.root[slots(prefix)] {
            if slot.len == UNCOVERED || slot.len <= prefix.len {
                (slot.len, slot.value) = (prefix.len, value);
            }
        }
        old
    }

    pub(super) fn remove_short(&mut self, prefix: Prefix<A>) -> Option<u32> {
        let old = self.short.remove(&(prefix.len, prefix.address))?;
        // What covered the same addresses, but for shorter, comes to light.
        let cover = (0..prefix.len).rev().find_map(|len| {
            let value = self.short.get(&(len, prefix.address.first(len)))?;
            Some((len, *value))
        });
        let (len, value) = cover.unwrap_or((UNCOVERED, 0));
        for slot in self.root[slots(prefix)].iter_mut().filter(|slot| slot.len == prefix.len) {
            (slot.len, slot.value) = (len, value);
        }
        Some(old)
    }
}

/// The root slots of a prefix shorter than the root's bits.
fn slots<A: Address>(prefix: Prefix<A>) -> std::ops::Range<usize> {
    let first = prefix.address.bits(0, ROOT) as usize;
    first..first + (1 << (ROOT - prefix.len))
}
