//! Bytes in chained blocks.

/// Bytes of a block.
pub(super) const BLOCK: usize = 256;
/// Ends a chain.
pub(super) const NONE: u32 = u32::MAX;

/// A store of blocks, all memory taken at the start.
pub(super) struct Blocks {
    data: Box<[[u8; BLOCK]]>,
    /// The block that follows, in a chain or among the free ones.
    next: Box<[u32]>,
    free: u32,
    left: usize,
}

impl Blocks {
    /// `bytes`, rounded up to whole blocks.
    pub(super) fn new(bytes: usize) -> Self {
        let count = bytes.div_ceil(BLOCK).clamp(1, NONE as usize - 1);
        let next = (1..=count as u32).map(|next| if next as usize == count { NONE } else { next }).collect();
        Self { data: vec![[0; BLOCK]; count].into(), next, free: 0, left: count }
    }

    /// Blocks that so many bytes take; at least one.
    pub(super) const fn needed(bytes: usize) -> usize {
        if bytes == 0 { 1 } else { bytes.div_ceil(BLOCK) }
    }

    /// Copies bytes in; returns the first block of their chain. `None`: not enough are free.
    pub(super) fn store(&mut self, bytes: &[u8]) -> Option<u32> {
        if Self::needed(bytes.len()) > self.left {
            return None;
        }
        let first = self.free;
        let mut last = first;
        let mut chunks = bytes.chunks(BLOCK);
        for n in 0..Self::needed(bytes.len()) {
            last = self.free;
            let chunk = chunks.next().unwrap_or_default();
            self.data[last as usize][..chunk.len()].copy_from_slice(chunk);
            self.free = self.next[last as usize];
            debug_assert!(n < self.next.len());
        }
        self.next[last as usize] = NONE;
        self.left -= Self::needed(bytes.len());
        Some(first)
    }

    /// The chain's bytes from `skip` on, `len` of all, a piece at a time.
    pub(super) fn pieces(&self, first: u32, len: usize, skip: usize) -> impl Iterator<Item = &[u8]> {
        let mut at = first;
        let mut done = 0;
        std::iter::from_fn(move || {
            let block = self.data.get(at as usize).filter(|_| done < len)?;
            let piece = block.get(skip.saturating_sub(done).min(BLOCK)..(len - done).min(BLOCK));
            done += BLOCK;
            at = self.next[at as usize];
            Some(piece.unwrap_or_default())
        })
    }

    /// Frees a chain of so many bytes.
    pub(super) fn free(&mut self, first: u32, len: usize) {
        let mut last = first as usize;
        while self.next[last] != NONE {
            last = self.next[last] as usize;
        }
        self.next[last] = self.free;
        self.free = first;
        self.left += Self::needed(len);
    }

    /// Blocks that are free.
    pub(super) fn left(&self) -> usize {
        self.left
    }
}
