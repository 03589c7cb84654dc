//! Runs of 1 to 64 values in one vector, with a free list for each length.

use crate::hint::prefetch_index;

/// The longest run.
pub(super) const LONGEST: usize = 64;

/// Runs are named by their first index and known to their owners by length; an empty run has no place.
#[derive(Clone, Debug)]
pub(super) struct Pool<T> {
    items: Vec<T>,
    free: Vec<Vec<u32>>,
}

impl<T: Copy + Default> Pool<T> {
    pub(super) fn new() -> Self {
        Self { items: Vec::new(), free: vec![Vec::new(); LONGEST + 1] }
    }

    #[inline(always)]
    pub(super) fn get(&self, at: u32) -> &T {
        &self.items[at as usize]
    }

    #[inline(always)]
    pub(super) fn prefetch(&self, at: u32) {
        prefetch_index(&self.items, at as usize);
    }

    #[inline(always)]
    pub(super) fn get_mut(&mut self, at: u32) -> &mut T {
        &mut self.items[at as usize]
    }

    /// Bytes reserved for values and free lists.
    pub(super) fn bytes(&self) -> usize {
        self.items.capacity() * size_of::<T>() + self.free.iter().map(|list| list.capacity() * 4).sum::<usize>()
    }

    /// Makes room for `item` at position `at` of the run of `n` at `base`; returns where the run is now.
    pub(super) fn insert(&mut self, base: u32, n: usize, at: usize, item: T) -> u32 {
        let to = self.take(n + 1);
        let (from, new) = (base as usize, to as usize);
        self.items.copy_within(from..from + at, new);
        self.items.copy_within(from + at..from + n, new + at + 1);
        self.items[new + at] = item;
        self.give(base, n);
        to
    }

    /// Takes position `at` out of the run of `n` at `base`; returns where the run is now (0 for an empty one).
    pub(super) fn remove(&mut self, base: u32, n: usize, at: usize) -> u32 {
        let to = self.take(n - 1);
        let (from, new) = (base as usize, to as usize);
        self.items.copy_within(from..from + at, new);
        self.items.copy_within(from + at + 1..from + n, new + at);
        self.give(base, n);
        to
    }

    fn take(&mut self, n: usize) -> u32 {
        if n == 0 {
            return 0;
        }
        if let Some(base) = self.free[n].pop() {
            return base;
        }
        let base = u32::try_from(self.items.len()).expect("fewer than 2^32 items");
        self.items.resize(self.items.len() + n, T::default());
        base
    }

    fn give(&mut self, base: u32, n: usize) {
        if n > 0 {
            self.free[n].push(base);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_grow_shrink_and_are_used_again() {
        let mut pool = Pool::<u32>::new();
        let mut model = Vec::new();
        let mut base = 0;
        for i in 0..LONGEST {
            let at = (i * 7) % (i + 1);
            base = pool.insert(base, i, at, i as u32);
            model.insert(at, i as u32);
            assert!(model.iter().enumerate().all(|(k, v)| pool.get(base + k as u32) == v));
        }
        let bytes = pool.items.len();
        while !model.is_empty() {
            let at = model.len() * 3 / 7;
            base = pool.remove(base, model.len(), at);
            model.remove(at);
            assert!(model.iter().enumerate().all(|(k, v)| pool.get(base + k as u32) == v));
        }
        for i in 0..LONGEST {
            base = pool.insert(base, i, i, 0);
        }
        assert_eq!(pool.items.len(), bytes, "the second time everything is found in the free lists");
    }
}
