//! Exact-match hash map for lookups by the burst.
//!
//! Buckets of seven entries with one-byte tags; a key has two buckets and lives in the first unless that was full. A
//! bucket counts the entries that had to go elsewhere, so nearly every lookup, hit or miss, ends in the first bucket:
//! one cache line for 4-byte keys and values. The hash is seeded, chains of moves are bounded, and growth moves a few
//! buckets with each change instead of stopping the worker.

mod bucket;
mod cuckoo;
mod hash;

use std::fmt;

use cuckoo::Cuckoo;
pub use hash::{Hash, Key, Seed};
use pages::Backing;

/// Keys looked up together in [`BulkMap::lookup_batch`].
const BURST: usize = 32;
/// That near its limit, as a part of it, a map has the next table's pages made present.
const NEARLY_FULL: usize = 16;
/// A table of that many bytes has pages worth asking for early.
const MUCH: usize = 2 << 20;
/// Buckets moved to a larger table with each insertion or removal while growing.
const DRAIN: usize = 2;

/// No memory for a larger table, or a hash so bad that larger tables don't help.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

impl fmt::Display for Full {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the table is full and can't grow")
    }
}

impl std::error::Error for Full {}

/// A hash map from small keys to small values on huge pages, owned by one worker.
///
/// Within [`capacity`](Self::capacity) no call allocates, but for the last of it: then a large map has the next table
/// mapped, and another thread make its pages present. Beyond, the map grows by half: the entries follow a few buckets with
/// each later change (or [`settle`](Self::settle)), and lookups see both tables until then.
pub struct BulkMap<K, V> {
    live: Cuckoo<K, V>,
    next: Option<Cuckoo<K, V>>,
    old: Option<Draining<K, V>>,
    seed: Seed,
}

/// A table that is being emptied; buckets below `next` are empty already.
struct Draining<K, V> {
    table: Cuckoo<K, V>,
    next: usize,
}

impl<K: Key, V: Copy> BulkMap<K, V> {
    /// A map with room for `capacity` entries, its pages present.
    ///
    /// # Errors
    /// [`Full`] when memory for it is refused.
    pub fn with_capacity(capacity: usize, seed: Seed) -> Result<Self, Full> {
        pages::prepare_growth();
        let live = Cuckoo::new(buckets_for(capacity)).map_err(|_| Full)?;
        live.slab().prefault();
        Ok(Self { live, next: None, old: None, seed })
    }

    /// Makes room for `capacity` entries in all; what is there moves at once. Pages are made present by and by.
    ///
    /// # Errors
    /// [`Full`] when memory for it is refused; the map stays as it was.
    pub fn reserve(&mut self, capacity: usize) -> Result<(), Full> {
        if capacity <= self.capacity() {
            return Ok(());
        }
        self.drain(usize::MAX);
        if self.old.is_some() {
            return Err(Full);
        }
        let larger = Cuckoo::new(buckets_for(capacity)).map_err(|_| Full)?;
        larger.slab().prefault_ahead();
        self.next = None;
        self.old = Some(Draining { table: std::mem::replace(&mut self.live, larger), next: 0 });
        self.drain(usize::MAX);
        Ok(())
    }

    /// Entries in the map.
    pub fn len(&self) -> usize {
        self.live.len() + self.old.as_ref().map_or(0, |old| old.table.len())
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Entries that fit before the map grows.
    pub fn capacity(&self) -> usize {
        capacity_of(self.live.buckets())
    }

    /// Bytes of memory mapped.
    pub fn bytes(&self) -> usize {
        let others = self.next.iter().chain(self.old.as_ref().map(|old| &old.table));
        self.live.slab().bytes() + others.map(|table| table.slab().bytes()).sum::<usize>()
    }

    /// The pages the map rests on.
    pub fn backing(&self) -> Backing {
        self.live.slab().backing()
    }

    /// The first phase of a lookup: hashes the key and asks for its bucket. Do this for a whole burst, then call
    /// [`get_hashed`](Self::get_hashed) for each, or [`get_or_ask`](Self::get_or_ask) first.
    #[inline(always)]
    pub fn prefetch(&self, key: K) -> Hash {
        let hash = self.seed.hash(&key);
        self.live.prefetch(hash);
        if let Some(old) = &self.old {
            old.table.prefetch(hash);
        }
        hash
    }

    /// The second phase: the value of `key`, whose hash [`prefetch`](Self::prefetch) has returned. With the hash of
    /// another key the answer is `None` or right, never a wrong value.
    #[inline(always)]
    pub fn get_hashed(&self, hash: Hash, key: K) -> Option<V> {
        match self.live.get_home(hash, &key) {
            Some(value) => Some(value),
            None => self.get_elsewhere(hash, key),
        }
    }

    /// As [`get_hashed`](Self::get_hashed), for a burst of keys: `None` also for one that is not in its first bucket but may
    /// be in its second. That is then asked for, and `get_hashed`, after the rest of the burst, will tell. In a full table
    /// this is one key in six.
    #[inline(always)]
    pub fn get_or_ask(&self, hash: Hash, key: K) -> Option<V> {
        let found = self.live.get_home(hash, &key);
        if found.is_none() {
            self.ask_elsewhere(hash);
        }
        found
    }

    #[inline(never)]
    fn ask_elsewhere(&self, hash: Hash) {
        self.live.prefetch_away(hash);
    }

    /// The value of a key that is not in its first bucket, or not there at all. Apart, so that the usual lookup has the
    /// registers to itself.
    #[inline(never)]
    fn get_elsewhere(&self, hash: Hash, key: K) -> Option<V> {
        let found = self.live.get_away(hash, &key);
        found.or_else(|| self.old.as_ref()?.table.get(hash, &key))
    }

    /// The value of one key.
    #[inline(always)]
    pub fn get(&self, key: K) -> Option<V> {
        self.get_hashed(self.seed.hash(&key), key)
    }

    /// The values of many keys: `out[i]` for `keys[i]`.
    ///
    /// # Panics
    /// When the slices differ in length.
    #[inline]
    pub fn lookup_batch(&self, keys: &[K], out: &mut [Option<V>]) {
        assert_eq!(keys.len(), out.len(), "one answer for each key");
        let mut hashes = [Hash::default(); BURST];
        for (keys, out) in keys.chunks(BURST).zip(out.chunks_mut(BURST)) {
            for (hash, &key) in hashes.iter_mut().zip(keys) {
                *hash = self.prefetch(key);
            }
            for ((&hash, &key), out) in hashes.iter().zip(keys).zip(out) {
                *out = self.get_hashed(hash, key);
            }
        }
    }

    /// The value of one key, to change.
    pub fn get_mut(&mut self, key: K) -> Option<&mut V> {
        let hash = self.seed.hash(&key);
        if let Some(place) = self.live.find(hash, &key) {
            return Some(self.live.value_mut(place));
        }
        let old = self.old.as_mut()?;
        let place = old.table.find(hash, &key)?;
        Some(old.table.value_mut(place))
    }

    /// Sets the value of `key`; returns the one it had.
    ///
    /// # Errors
    /// [`Full`] when the map would have to grow and can't; it stays as it was.
    pub fn insert(&mut self, key: K, value: V) -> Result<Option<V>, Full> {
        if let Some(slot) = self.get_mut(key) {
            return Ok(Some(std::mem::replace(slot, value)));
        }
        self.drain(DRAIN);
        let most = self.capacity();
        if self.live.len() >= most - most / NEARLY_FULL {
            self.foresee();
        }
        if self.live.len() >= most {
            self.grow()?;
        }
        let hash = self.seed.hash(&key);
        if !self.live.place(&self.seed, hash, key, value) {
            // Not seen below the load limit with an honest hash; a larger table has room.
            self.grow()?;
            if !self.live.place(&self.seed, hash, key, value) {
                return Err(Full);
            }
        }
        Ok(None)
    }

    /// Takes out `key`; returns the value it had.
    pub fn remove(&mut self, key: K) -> Option<V> {
        let hash = self.seed.hash(&key);
        let removed = match self.live.find(hash, &key) {
            Some(place) => Some(self.live.remove(hash, place)),
            None => self.old.as_mut().and_then(|old| {
                let place = old.table.find(hash, &key)?;
                Some(old.table.remove(hash, place))
            }),
        };
        self.drain(DRAIN);
        removed
    }

    /// Goes on with a growth under way by at most `buckets` buckets of the smaller table, in idle time. True: nothing
    /// is left to do.
    pub fn settle(&mut self, buckets: usize) -> bool {
        self.drain(buckets);
        self.old.is_none()
    }

    /// All entries, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (K, V)> {
        self.live.iter().chain(self.old.iter().flat_map(|old| old.table.iter()))
    }

    /// Takes out everything; keeps the memory.
    pub fn clear(&mut self) {
        self.live.clear();
        (self.next, self.old) = (None, None);
    }

    /// Buckets of the next table.
    fn larger(&self) -> usize {
        self.live.buckets() / 2 * 3 + 2
    }

    /// Has the next table's pages made present, if it has not yet and they are many.
    #[cold]
    fn foresee(&mut self) {
        if self.next.is_none() && self.live.slab().bytes() >= MUCH {
            self.next = Cuckoo::new(self.larger()).ok();
            self.next.iter().for_each(|next| next.slab().prefault_ahead());
        }
    }

    /// Replaces the full table by one half as large again; the entries follow by and by.
    #[cold]
    fn grow(&mut self) -> Result<(), Full> {
        self.drain(usize::MAX);
        // Room enough but not found: the hash is worthless, and mapping ever more memory would not help.
        if self.old.is_some() || self.live.len() < self.capacity() / 4 && self.live.buckets() > 64 {
            return Err(Full);
        }
        let larger = match self.next.take() {
            Some(next) => next,
            None => Cuckoo::new(self.larger()).map_err(|_| Full)?,
        };
        self.old = Some(Draining { table: std::mem::replace(&mut self.live, larger), next: 0 });
        self.drain(DRAIN);
        Ok(())
    }

    #[inline]
    fn drain(&mut self, buckets: usize) {
        if self.old.is_some() {
            self.drain_some(buckets);
        }
    }

    #[cold]
    fn drain_some(&mut self, buckets: usize) {
        let Some(old) = &mut self.old else { return };
        let until = old.next.saturating_add(buckets).min(old.table.buckets());
        while old.next < until {
            while let Some((place, key, value)) = old.table.first_of(old.next) {
                let hash = self.seed.hash(&key);
                if !self.live.place(&self.seed, hash, key, value) {
                    // The entry stays where lookups still find it.
                    return;
                }
                old.table.remove(hash, place);
            }
            old.next += 1;
        }
        if old.next == old.table.buckets() {
            self.old = None;
        }
    }
}

impl<K, V> fmt::Debug for BulkMap<K, V>
where
    K: Key + fmt::Debug,
    V: Copy + fmt::Debug,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

/// Seven eighths full is the limit: nine of ten entries are then still in their first bucket.
fn capacity_of(buckets: usize) -> usize {
    buckets * bucket::WAYS * 7 / 8
}

fn buckets_for(capacity: usize) -> usize {
    (capacity.saturating_mul(8).div_ceil(bucket::WAYS * 7)).max(2)
}

#[cfg(test)]
mod tests;
