//! One table of two-choice buckets: finding, placing and making room.

use std::io;

use super::bucket::{Bucket, WAYS};
use super::hash::{Hash, Key, Seed};
use crate::hint::{prefetch_of, prefetch_whole_of};
use crate::slab::Slab;

/// Buckets looked at, at most, to find room for one entry: with seven ways that is a chain of at most four moves.
const BREADTH: usize = 256;
const ROOT: u16 = u16::MAX;

pub(super) struct Cuckoo<K, V> {
    buckets: Slab<Bucket<K, V>>,
    len: usize,
}

/// Where an entry is.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub(super) bucket: usize,
    pub(super) slot: usize,
}

/// A bucket on the search for room; `slot` is the one of the parent's that could move here.
#[derive(Clone, Copy)]
struct Step {
    bucket: u32,
    parent: u16,
    slot: u8,
}

impl<K: Key, V: Copy> Cuckoo<K, V> {
    pub(super) fn new(buckets: usize) -> io::Result<Self> {
        let buckets = buckets.max(2);
        if buckets as u64 > 1 << 32 {
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        Ok(Self { buckets: Slab::new(buckets)?, len: 0 })
    }

    pub(super) fn slab(&self) -> &Slab<Bucket<K, V>> {
        &self.buckets
    }

    pub(super) fn buckets(&self) -> usize {
        self.buckets.len()
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    #[inline(always)]
    fn bucket(&self, at: usize) -> &Bucket<K, V> {
        debug_assert!(at < self.buckets.len());
        // SAFETY: every caller got `at` from `Hash::home` or `Hash::away` of this table's size, which stay below it.
        unsafe { self.buckets.get_unchecked(at) }
    }

    #[inline(always)]
    pub(super) fn prefetch(&self, hash: Hash) {
        self.ask(hash.home(self.buckets.len()));
    }

    /// As [`prefetch`](Self::prefetch), of a key that is not in its first bucket: asks for the other, if it may be there.
    #[inline(always)]
    pub(super) fn prefetch_away(&self, hash: Hash) {
        let n = self.buckets.len();
        if self.bucket(hash.home(n)).has_spilled() {
            self.ask(hash.away(n));
        }
    }

    #[inline(always)]
    fn ask(&self, at: usize) {
        let bucket = self.bucket(at);
        let table = self.buckets.len() * size_of::<Bucket<K, V>>();
        // The table begins at a page: buckets of one line are lines.
        if size_of::<Bucket<K, V>>() == 64 {
            prefetch_of(table, std::ptr::from_ref(bucket).cast());
        } else {
            prefetch_whole_of(table, bucket);
        }
    }

    #[inline(always)]
    pub(super) fn find(&self, hash: Hash, key: &K) -> Option<Place> {
        let n = self.buckets.len();
        let bucket = hash.home(n);
        let home = self.bucket(bucket);
        if let Some(slot) = home.find(hash.tag(), key) {
            return Some(Place { bucket, slot });
        }
        if !home.has_spilled() {
            return None;
        }
        let bucket = hash.away(n);
        self.bucket(bucket).find(hash.tag(), key).map(|slot| Place { bucket, slot })
    }

    #[inline(always)]
    pub(super) fn get(&self, hash: Hash, key: &K) -> Option<V> {
        self.get_home(hash, key).or_else(|| self.get_away(hash, key))
    }

    /// The value of `key` if it is in its first bucket, as nearly all are.
    #[inline(always)]
    pub(super) fn get_home(&self, hash: Hash, key: &K) -> Option<V> {
        self.bucket(hash.home(self.buckets.len())).get(hash.tag(), key)
    }

    /// The value of `key`, which is not in its first bucket.
    #[inline(always)]
    pub(super) fn get_away(&self, hash: Hash, key: &K) -> Option<V> {
        let n = self.buckets.len();
        if !self.bucket(hash.home(n)).has_spilled() {
            return None;
        }
        self.bucket(hash.away(n)).get(hash.tag(), key)
    }

    pub(super) fn value_mut(&mut self, place: Place) -> &mut V {
        self.buckets[place.bucket].value_mut(place.slot)
    }

    /// Takes out the entry at `place`, which `find` has just returned for `hash`.
    pub(super) fn remove(&mut self, hash: Hash, place: Place) -> V {
        let value = self.buckets[place.bucket].value(place.slot);
        self.buckets[place.bucket].clear(place.slot);
        let home = hash.home(self.buckets.len());
        if place.bucket != home {
            self.buckets[home].unspill();
        }
        self.len -= 1;
        value
    }

    /// Puts in a key that is not there yet. False: no room could be made within the bounds; nothing changed but the
    /// place of some entries.
    pub(super) fn place(&mut self, seed: &Seed, hash: Hash, key: K, value: V) -> bool {
        let n = self.buckets.len();
        let (home, away) = (hash.home(n), hash.away(n));
        let place = match (self.buckets[home].vacant(), self.buckets[away].vacant()) {
            (Some(slot), _) => Place { bucket: home, slot },
            (None, Some(slot)) => Place { bucket: away, slot },
            (None, None) => match self.make_room(seed, home, away) {
                Some(place) => place,
                None => return false,
            },
        };
        self.buckets[place.bucket].put(place.slot, hash.tag(), key, value);
        if place.bucket != home {
            self.buckets[home].spill();
        }
        self.len += 1;
        true
    }

    /// Breadth-first search for the shortest chain of moves that empties a slot of one of two full buckets.
    fn make_room(&mut self, seed: &Seed, home: usize, away: usize) -> Option<Place> {
        let n = self.buckets.len();
        let mut steps = [Step { bucket: 0, parent: ROOT, slot: 0 }; BREADTH];
        steps[0].bucket = home as u32;
        steps[1].bucket = away as u32;
        let mut known = 2;
        let mut head = 0;
        while head < known {
            let from = steps[head].bucket as usize;
            for slot in 0..WAYS {
                let Some((key, _)) = self.buckets[from].entry(slot) else {
                    // Not reached: buckets on the list are full.
                    continue;
                };
                let hash = seed.hash(&key);
                let to = if hash.home(n) == from { hash.away(n) } else { hash.home(n) };
                if let Some(vacant) = self.buckets[to].vacant() {
                    return Some(self.shift_chain(seed, &steps, head, slot, Place { bucket: to, slot: vacant }));
                }
                if known < BREADTH && !is_ancestor(&steps, head, to) {
                    steps[known] = Step { bucket: to as u32, parent: head as u16, slot: slot as u8 };
                    known += 1;
                }
            }
            head += 1;
        }
        None
    }

    /// Moves entries along the chain that ends with `slot` of step `at` going to `vacant`; returns the slot that is
    /// empty in the end, in one of the two buckets the search began with.
    fn shift_chain(&mut self, seed: &Seed, steps: &[Step], at: usize, slot: usize, vacant: Place) -> Place {
        let (mut at, mut slot, mut vacant) = (at, slot, vacant);
        loop {
            let step = steps[at];
            let from = Place { bucket: step.bucket as usize, slot };
            self.shift(seed, from, vacant);
            vacant = from;
            if step.parent == ROOT {
                return vacant;
            }
            slot = step.slot as usize;
            at = step.parent as usize;
        }
    }

    fn shift(&mut self, seed: &Seed, from: Place, to: Place) {
        let Some((key, value)) = self.buckets[from.bucket].entry(from.slot) else { return };
        let hash = seed.hash(&key);
        self.buckets[to.bucket].put(to.slot, hash.tag(), key, value);
        self.buckets[from.bucket].clear(from.slot);
        let home = hash.home(self.buckets.len());
        if to.bucket == home {
            self.buckets[home].unspill();
        } else {
            self.buckets[home].spill();
        }
    }

    /// Any entry of bucket `at`.
    pub(super) fn first_of(&self, at: usize) -> Option<(Place, K, V)> {
        let (slot, key, value) = self.buckets[at].entries().next()?;
        Some((Place { bucket: at, slot }, key, value))
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (K, V)> {
        self.buckets.iter().flat_map(|bucket| bucket.entries().map(|(_, key, value)| (key, value)))
    }

    pub(super) fn clear(&mut self) {
        self.buckets.iter_mut().for_each(Bucket::reset);
        self.len = 0;
    }

    /// Checks what must always hold: every entry in one of its buckets under its tag, every spill count right.
    #[cfg(test)]
    pub(super) fn check(&self, seed: &Seed) {
        let n = self.buckets.len();
        let mut spilled = vec![0u8; n];
        let mut entries = 0;
        for (at, bucket) in self.buckets.iter().enumerate() {
            for (slot, key, _) in bucket.entries() {
                let hash = seed.hash(&key);
                assert!(at == hash.home(n) || at == hash.away(n));
                assert_eq!(self.find(hash, &key).map(|p| (p.bucket, p.slot)), Some((at, slot)));
                spilled[hash.home(n)] += u8::from(at != hash.home(n));
                entries += 1;
            }
        }
        assert_eq!(entries, self.len);
        assert!(self.buckets.iter().zip(&spilled).all(|(bucket, &count)| bucket.spilled() == count));
    }
}

/// Whether `bucket` is already on the way from the start to step `at`: a chain through it twice would move the wrong
/// entry.
fn is_ancestor(steps: &[Step], mut at: usize, bucket: usize) -> bool {
    loop {
        if steps[at].bucket as usize == bucket {
            return true;
        }
        if steps[at].parent == ROOT {
            return false;
        }
        at = steps[at].parent as usize;
    }
}
