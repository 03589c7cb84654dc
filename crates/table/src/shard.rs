//! Counters in shards: each worker writes its own lines, readers add them up.

use std::cell::Cell;
use std::fmt;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// `n` counters, named by index, summed over all shards there are and were. Clones are the same counters.
#[derive(Clone)]
pub struct Counters(Arc<Inner>);

struct Inner {
    n: usize,
    state: Mutex<Shards>,
}

#[derive(Default)]
struct Shards {
    live: Vec<Arc<Cells>>,
    /// What the shards that are gone had counted.
    ended: Vec<u64>,
}

/// One worker's counters on cache lines of their own.
struct Cells(Box<[Cells8]>);

#[repr(align(64))]
#[derive(Default)]
struct Cells8([AtomicU64; 8]);

impl Cells {
    #[inline(always)]
    fn cell(&self, i: usize) -> &AtomicU64 {
        &self.0[i / 8].0[i % 8]
    }
}

impl Counters {
    /// `n` counters at zero.
    pub fn new(n: usize) -> Self {
        Self(Arc::new(Inner { n, state: Mutex::new(Shards { live: Vec::new(), ended: vec![0; n] }) }))
    }

    /// How many counters there are.
    pub fn len(&self) -> usize {
        self.0.n
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.n == 0
    }

    /// A new shard for one worker. What it counts stays in the sums after it is gone.
    pub fn shard(&self) -> Shard {
        let cells = Arc::new(Cells((0..self.0.n.div_ceil(8)).map(|_| Cells8::default()).collect()));
        self.lock().live.push(cells.clone());
        Shard { cells, counters: self.clone(), not_sync: PhantomData }
    }

    /// Counter `i` over all shards; 0 for an index there is none of. Never less than at an earlier call.
    pub fn sum(&self, i: usize) -> u64 {
        if i >= self.0.n {
            return 0;
        }
        let shards = self.lock();
        shards.live.iter().fold(shards.ended[i], |sum, cells| sum.wrapping_add(cells.cell(i).load(Ordering::Relaxed)))
    }

    /// All counters over all shards. Counters that move meanwhile may be of slightly different moments.
    pub fn snapshot(&self) -> Vec<u64> {
        let shards = self.lock();
        let mut sums = shards.ended.clone();
        for cells in &shards.live {
            add_up(&mut sums, cells);
        }
        sums
    }

    /// Shards whose workers are still there.
    pub fn shards(&self) -> usize {
        self.lock().live.len()
    }

    fn lock(&self) -> MutexGuard<'_, Shards> {
        // A panic elsewhere leaves sums as they were.
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn add_up(sums: &mut [u64], cells: &Cells) {
    for (i, sum) in sums.iter_mut().enumerate() {
        *sum = sum.wrapping_add(cells.cell(i).load(Ordering::Relaxed));
    }
}

/// One worker's hand on the counters. It may move between threads, but only one uses it at a time.
pub struct Shard {
    cells: Arc<Cells>,
    counters: Counters,
    /// Load and store, not fetch-add: two threads at once would lose counts.
    not_sync: PhantomData<Cell<()>>,
}

impl Shard {
    /// Adds `n` to counter `i`.
    ///
    /// # Panics
    /// May, when there is no such counter.
    #[inline(always)]
    pub fn add(&self, i: usize, n: u64) {
        let cell = self.cells.cell(i);
        cell.store(cell.load(Ordering::Relaxed).wrapping_add(n), Ordering::Relaxed);
    }

    /// Adds one to counter `i`.
    ///
    /// # Panics
    /// May, when there is no such counter.
    #[inline(always)]
    pub fn inc(&self, i: usize) {
        self.add(i, 1);
    }

    /// What this shard alone has counted on `i`.
    #[inline]
    pub fn get(&self, i: usize) -> u64 {
        self.cells.cell(i).load(Ordering::Relaxed)
    }
}

impl Drop for Shard {
    fn drop(&mut self) {
        let mut shards = self.counters.lock();
        add_up(&mut shards.ended, &self.cells);
        shards.live.retain(|cells| !Arc::ptr_eq(cells, &self.cells));
    }
}

impl fmt::Debug for Counters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.snapshot()).finish()
    }
}

impl fmt::Debug for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries((0..self.counters.len()).map(|i| self.get(i))).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_go_over_all_shards_and_keep_those_that_ended() {
        let counters = Counters::new(10);
        let (a, b) = (counters.shard(), counters.shard());
        a.add(0, 5);
        b.add(0, 7);
        b.inc(9);
        assert_eq!((counters.sum(0), counters.sum(9), counters.sum(10)), (12, 1, 0));
        drop(b);
        assert_eq!((counters.shards(), counters.sum(0), a.get(0)), (1, 12, 5));
        a.inc(0);
        let mut expected = vec![0; 10];
        (expected[0], expected[9]) = (13, 1);
        assert_eq!(counters.snapshot(), expected);
        drop(a);
        assert_eq!(counters.snapshot(), expected);
    }

    #[test]
    fn sums_only_rise_while_workers_count_and_end() {
        let counters = Counters::new(2);
        let n = if cfg!(miri) { 50 } else { 20_000 };
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    for _ in 0..4 {
                        let shard = counters.shard();
                        (0..n).for_each(|_| shard.inc(1));
                    }
                });
            }
            let mut last = 0;
            while last < 8 * n {
                let now = counters.sum(1);
                assert!(now >= last);
                last = now;
                std::thread::yield_now();
            }
        });
        assert_eq!((counters.snapshot(), counters.shards()), (vec![0, 8 * n], 0));
    }

    #[test]
    fn a_shard_has_lines_of_its_own() {
        assert_eq!((size_of::<Cells8>(), align_of::<Cells8>()), (64, 64));
    }
}
