//! An index of sessions by an address in a network instance.

use dataplane::forward::InstanceId;
use table::bulk::{BulkMap, Full, Key, Seed};

/// A map for each network instance, so that addresses alone are keys: a bucket of seven IPv4 addresses is then one cache
/// line. Instances are few and numbered from 0.
pub struct ByInstance<K> {
    maps: Vec<BulkMap<K, u32>>,
    expected: usize,
    seed: Seed,
}

impl<K: Key> ByInstance<K> {
    /// An index whose first instance to be used has room for `expected` entries at once.
    pub fn new(expected: usize, seed: Seed) -> Self {
        Self { maps: Vec::new(), expected, seed }
    }

    /// Makes room for `expected` entries in the first instance that is, or will be, used.
    ///
    /// # Errors
    /// [`Full`] when there is no memory for it.
    pub fn reserve(&mut self, expected: usize) -> Result<(), Full> {
        match self.maps.iter_mut().find(|map| !map.is_empty()) {
            Some(map) => map.reserve(expected),
            None => {
                self.expected = self.expected.max(expected);
                Ok(())
            }
        }
    }

    /// The map of an instance, to be looked up by the burst. None: it has no entries.
    #[inline(always)]
    pub fn of(&self, instance: InstanceId) -> Option<&BulkMap<K, u32>> {
        self.maps.get(usize::from(instance))
    }

    /// What a key leads to.
    pub fn get(&self, instance: InstanceId, key: K) -> Option<u32> {
        self.of(instance)?.get(key)
    }

    /// Lets a key lead to `value`.
    ///
    /// # Errors
    /// [`Full`] when there is no memory for it.
    pub fn insert(&mut self, instance: InstanceId, key: K, value: u32) -> Result<(), Full> {
        let at = usize::from(instance);
        while self.maps.len() <= at {
            let room = if self.maps.len() == at { std::mem::take(&mut self.expected) } else { 0 };
            self.maps.push(BulkMap::with_capacity(room, self.seed).map_err(|_| Full)?);
        }
        self.maps[at].insert(key, value).map(drop)
    }

    /// Forgets a key.
    pub fn remove(&mut self, instance: InstanceId, key: K) {
        if let Some(map) = self.maps.get_mut(usize::from(instance)) {
            map.remove(key);
        }
    }

    /// Bytes of memory mapped.
    pub fn bytes(&self) -> usize {
        self.maps.iter().map(BulkMap::bytes).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_address_in_two_networks_is_two_keys() {
        let mut index = ByInstance::<u32>::new(100, Seed::new(1));
        assert!(index.get(3, 7).is_none() && index.of(3).is_none());
        index.insert(3, 7, 30).unwrap();
        index.insert(1, 7, 10).unwrap();
        assert_eq!([0, 1, 2, 3, 4].map(|n| index.get(n, 7)), [None, Some(10), None, Some(30), None]);
        assert_eq!(index.of(3).and_then(|map| map.get_hashed(map.prefetch(7), 7)), Some(30));
        index.remove(3, 7);
        index.remove(9, 7);
        assert_eq!((index.get(1, 7), index.get(3, 7)), (Some(10), None));
        assert!(index.bytes() > 0);
    }
}
