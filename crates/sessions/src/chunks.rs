//! A vector that grows by a chunk at a time.

/// Items of a chunk.
const CHUNK: usize = 1 << 10;

/// A vector for what there may be a million of: it grows by chunks, and nothing is moved. So an addition among a million
/// takes no longer than one among few, whatever the allocator, and at most a chunk is memory nobody uses yet.
#[derive(Clone, Debug)]
pub struct Chunks<T> {
    chunks: Vec<Vec<T>>,
    len: usize,
}

impl<T> Default for Chunks<T> {
    fn default() -> Self {
        Self { chunks: Vec::new(), len: 0 }
    }
}

impl<T> Chunks<T> {
    /// With memory for `capacity` items.
    pub fn with_capacity(capacity: usize) -> Self {
        let chunks = (0..capacity.div_ceil(CHUNK)).map(|_| Vec::with_capacity(CHUNK)).collect();
        Self { chunks, len: 0 }
    }

    /// Items in it.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Adds an item behind the others.
    pub fn push(&mut self, item: T) {
        let at = self.len / CHUNK;
        if at == self.chunks.len() {
            self.chunks.push(Vec::with_capacity(CHUNK));
        }
        self.chunks[at].push(item);
        self.len += 1;
    }

    /// Adds items that `make` makes until there are `len`, if there are fewer.
    pub fn fill(&mut self, len: usize, mut make: impl FnMut() -> T) {
        while self.len < len {
            self.push(make());
        }
    }

    /// The item at a place.
    #[inline]
    pub fn get(&self, at: usize) -> Option<&T> {
        self.chunks.get(at / CHUNK)?.get(at % CHUNK)
    }

    /// The item at a place, to change.
    #[inline]
    pub fn get_mut(&mut self, at: usize) -> Option<&mut T> {
        self.chunks.get_mut(at / CHUNK)?.get_mut(at % CHUNK)
    }

    /// All of them, in order.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.chunks.iter().flatten()
    }

    /// Bytes of memory it takes, beside what items own.
    pub fn bytes(&self) -> usize {
        self.chunks.len() * CHUNK * size_of::<T>() + self.chunks.capacity() * size_of::<Vec<T>>()
    }
}

impl<T> std::ops::Index<usize> for Chunks<T> {
    type Output = T;

    #[inline]
    fn index(&self, at: usize) -> &T {
        &self.chunks[at / CHUNK][at % CHUNK]
    }
}

impl<T> std::ops::IndexMut<usize> for Chunks<T> {
    #[inline]
    fn index_mut(&mut self, at: usize) -> &mut T {
        &mut self.chunks[at / CHUNK][at % CHUNK]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_a_vector_whose_items_stay_where_they_are() {
        let mut chunks = Chunks::with_capacity(1);
        chunks.push(0);
        let first: *const usize = &chunks[0];
        (1..3 * CHUNK + 7).for_each(|n| chunks.push(n));
        assert_eq!((chunks.len(), std::ptr::from_ref(&chunks[0])), (3 * CHUNK + 7, first));
        assert!(chunks.iter().copied().eq(0..3 * CHUNK + 7));
        chunks[2 * CHUNK] = 5;
        assert_eq!((chunks.get(2 * CHUNK), chunks.get(3 * CHUNK + 7)), (Some(&5), None));
        assert_eq!(chunks.get_mut(CHUNK).map(|item| std::mem::replace(item, 1)), Some(CHUNK));
        chunks.fill(4, || 0);
        chunks.fill(5 * CHUNK, || 9);
        assert_eq!((chunks[3 * CHUNK + 6], chunks[3 * CHUNK + 7], chunks.len()), (3 * CHUNK + 6, 9, 5 * CHUNK));
        assert!((5 * CHUNK * size_of::<usize>()..6 * CHUNK * size_of::<usize>()).contains(&chunks.bytes()));
    }
}
