//! Seven entries side by side: for 4-byte keys and values exactly one cache line.

use std::mem::MaybeUninit;

use crate::slab::Zeroed;

/// Entries of a bucket.
pub(super) const WAYS: usize = 7;

const ONES: u64 = 0x0101_0101_0101_0101;
const LOW7: u64 = 0x7f7f_7f7f_7f7f_7f7f;
/// The top bit of each of the seven tag bytes.
const SLOTS: u64 = 0x0080_8080_8080_8080;
/// Where the eighth byte counts entries that live away from here.
const SPILL: usize = 7;

/// Keys and values are initialised exactly where the tag is not 0.
#[repr(C)]
pub(super) struct Bucket<K, V> {
    tags: [u8; 8],
    keys: [MaybeUninit<K>; WAYS],
    values: [MaybeUninit<V>; WAYS],
}

// SAFETY: zero tags say that every slot is empty, and `MaybeUninit` accepts any bytes. Only `Copy` types get in.
unsafe impl<K: Copy, V: Copy> Zeroed for Bucket<K, V> {}

impl<K: Copy + Eq, V: Copy> Bucket<K, V> {
    /// Top bit set in the byte of each slot whose tag is `tag`; exact, no false hits.
    #[inline(always)]
    fn matching(&self, tag: u8) -> u64 {
        let x = u64::from_le_bytes(self.tags) ^ (ONES * u64::from(tag));
        !(((x & LOW7) + LOW7) | x) & SLOTS
    }

    /// The slot that holds `key`, whose tag is `tag` (not 0).
    #[inline(always)]
    pub(super) fn find(&self, tag: u8, key: &K) -> Option<usize> {
        debug_assert!(tag != 0);
        let mut hits = self.matching(tag);
        while hits != 0 {
            let slot = hits.trailing_zeros() as usize / 8;
            // SAFETY: `matching` sets bits of slots 0..7 only, and only where the tag equals `tag`, which is not 0: the
            // key there is initialised.
            if unsafe { self.keys.get_unchecked(slot).assume_init_ref() } == key {
                return Some(slot);
            }
            hits &= hits - 1;
        }
        None
    }

    /// The value of `key`, whose tag is `tag` (not 0).
    #[inline(always)]
    pub(super) fn get(&self, tag: u8, key: &K) -> Option<V> {
        let slot = self.find(tag, key)?;
        // SAFETY: `find` names slots 0..7 only, and only one whose tag is `tag`, which is not 0: its value is initialised.
        Some(unsafe { self.values.get_unchecked(slot).assume_init() })
    }

    /// An empty slot.
    #[inline(always)]
    pub(super) fn vacant(&self) -> Option<usize> {
        let empty = self.matching(0);
        (empty != 0).then(|| empty.trailing_zeros() as usize / 8)
    }

    /// The occupied slots with their entries.
    pub(super) fn entries(&self) -> impl Iterator<Item = (usize, K, V)> {
        (0..WAYS).filter_map(|slot| self.entry(slot).map(|(key, value)| (slot, key, value)))
    }

    /// The entry of a slot, if it is occupied.
    #[inline]
    pub(super) fn entry(&self, slot: usize) -> Option<(K, V)> {
        if slot >= WAYS || self.tags[slot] == 0 {
            return None;
        }
        // SAFETY: a tag other than 0 says key and value are initialised.
        Some(unsafe { (self.keys[slot].assume_init(), self.values[slot].assume_init()) })
    }

    /// The value of an occupied slot.
    #[inline(always)]
    pub(super) fn value(&self, slot: usize) -> V {
        assert!(slot < WAYS && self.tags[slot] != 0);
        // SAFETY: checked just above.
        unsafe { self.values[slot].assume_init() }
    }

    /// The value of an occupied slot, to change.
    #[inline]
    pub(super) fn value_mut(&mut self, slot: usize) -> &mut V {
        assert!(slot < WAYS && self.tags[slot] != 0);
        // SAFETY: checked just above.
        unsafe { self.values[slot].assume_init_mut() }
    }

    /// Writes an entry into a slot.
    #[inline]
    pub(super) fn put(&mut self, slot: usize, tag: u8, key: K, value: V) {
        assert!(slot < WAYS && tag != 0);
        self.keys[slot] = MaybeUninit::new(key);
        self.values[slot] = MaybeUninit::new(value);
        self.tags[slot] = tag;
    }

    /// Empties a slot.
    #[inline]
    pub(super) fn clear(&mut self, slot: usize) {
        assert!(slot < WAYS);
        self.tags[slot] = 0;
    }

    /// Empties everything, and forgets the entries that live elsewhere.
    pub(super) fn reset(&mut self) {
        self.tags = [0; 8];
    }

    /// Whether entries at home here live in their other bucket, so that a miss has to look there.
    #[inline(always)]
    pub(super) fn has_spilled(&self) -> bool {
        self.tags[SPILL] != 0
    }

    /// One more entry at home here lives away. The count sticks at its maximum: then a miss looks twice for ever.
    pub(super) fn spill(&mut self) {
        self.tags[SPILL] = self.tags[SPILL].saturating_add(1);
    }

    /// One fewer.
    pub(super) fn unspill(&mut self) {
        if self.tags[SPILL] != u8::MAX {
            self.tags[SPILL] = self.tags[SPILL].saturating_sub(1);
        }
    }

    #[cfg(test)]
    pub(super) fn spilled(&self) -> u8 {
        self.tags[SPILL]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn empty() -> Bucket<u32, u32> {
        Bucket { tags: [0; 8], keys: [MaybeUninit::uninit(); WAYS], values: [MaybeUninit::uninit(); WAYS] }
    }

    #[test]
    fn four_byte_entries_fill_a_line() {
        assert_eq!(size_of::<Bucket<u32, u32>>(), 64);
        assert_eq!(size_of::<Bucket<u64, u32>>(), 96);
    }

    #[test]
    fn matching_is_exact_for_neighbouring_tags() {
        let mut b = empty();
        for (slot, tag) in [1u8, 0, 1, 2, 255, 254, 128].into_iter().enumerate() {
            if tag != 0 {
                b.put(slot, tag, slot as u32, 0);
            }
        }
        b.spill();
        assert_eq!(b.matching(1), 0x0000_0000_0080_0080, "the spill count of 1 is no match");
        assert_eq!(b.vacant(), Some(1));
        assert_eq!(b.find(1, &2), Some(2));
        assert_eq!(b.find(1, &1), None);
        assert_eq!(b.find(128, &6), Some(6));
        b.put(1, 9, 1, 1);
        assert_eq!(b.vacant(), None);
        assert_eq!(b.entries().count(), 7);
    }

    #[test]
    fn the_spill_count_sticks_at_its_end() {
        let mut b = empty();
        b.unspill();
        assert!(!b.has_spilled());
        for _ in 0..300 {
            b.spill();
        }
        for _ in 0..300 {
            b.unspill();
        }
        assert!(b.has_spilled());
    }
}
