//! Log-linear histogram of durations.
//!
//! Values below 128 have a cell each; above, every doubling has 64 cells, so a value read back is within 0.8 % of the
//! one recorded. Recording is a shift and an increment.

/// Cells of a doubling, as a power of two.
const BITS: u32 = 6;
const CELLS: usize = ((64 - BITS as usize) << BITS) + (1 << BITS);

/// Counts of `u64` nanoseconds (or whatever the owner measures), owned by one worker; merged by who reports.
#[derive(Clone, PartialEq, Eq)]
pub struct Histogram {
    cells: Box<[u64; CELLS]>,
    sum: u128,
    min: u64,
    max: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self::new()
    }
}

impl Histogram {
    /// An empty histogram: 30 kB.
    pub fn new() -> Self {
        let cells: Box<[u64]> = vec![0; CELLS].into_boxed_slice();
        // The conversion of a slice of the right length does not fail.
        let cells = cells.try_into().unwrap_or_else(|_| Box::new([0; CELLS]));
        Self { cells, sum: 0, min: u64::MAX, max: 0 }
    }

    /// Counts a value.
    #[inline(always)]
    pub fn record(&mut self, value: u64) {
        self.record_many(value, 1);
    }

    /// Counts a value `n` times: the packets of a burst that share a delay, say.
    #[inline(always)]
    pub(crate) fn record_many(&mut self, value: u64, n: u64) {
        if n == 0 {
            return;
        }
        self.cells[cell(value)] += n;
        self.sum += u128::from(value) * u128::from(n);
        self.min = self.min.min(value);
        self.max = self.max.max(value);
    }

    /// Adds all that another histogram has counted.
    pub fn merge(&mut self, other: &Self) {
        for (cell, more) in self.cells.iter_mut().zip(other.cells.iter()) {
            *cell += more;
        }
        self.sum += other.sum;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.cells.fill(0);
        (self.sum, self.min, self.max) = (0, u64::MAX, 0);
    }

    /// Values counted.
    pub fn count(&self) -> u64 {
        self.cells.iter().sum()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.min > self.max
    }

    /// The largest value, exactly; 0 when there is none.
    pub fn max(&self) -> u64 {
        self.max
    }

    /// The smallest value, exactly; 0 when there is none.
    pub fn min(&self) -> u64 {
        if self.is_empty() { 0 } else { self.min }
    }

    /// The mean, exactly but for the division; 0 when there are no values.
    pub fn mean(&self) -> f64 {
        if self.is_empty() { 0.0 } else { self.sum as f64 / self.count() as f64 }
    }

    /// The value that `percent` of all values don't exceed, within 0.8 %: 50.0 for the median, 99.9, … 0 when there
    /// are no values.
    pub fn percentile(&self, percent: f64) -> u64 {
        let count = self.count();
        let wanted = ((percent.clamp(0.0, 100.0) / 100.0 * count as f64).ceil() as u64).clamp(1, count.max(1));
        if wanted == count {
            return self.max;
        }
        let mut below = 0;
        for (i, n) in self.cells.iter().enumerate() {
            below += n;
            if below >= wanted {
                return middle(i).clamp(self.min(), self.max);
            }
        }
        self.max
    }

    /// The median.
    pub fn p50(&self) -> u64 {
        self.percentile(50.0)
    }

    /// What 99 of 100 values don't exceed.
    pub fn p99(&self) -> u64 {
        self.percentile(99.0)
    }

    /// What 999 of 1000 values don't exceed.
    pub fn p999(&self) -> u64 {
        self.percentile(99.9)
    }

    /// The cells that are not empty: the least value of each and its count, for plots.
    pub fn cells(&self) -> impl Iterator<Item = (u64, u64)> {
        self.cells.iter().enumerate().filter(|(_, n)| **n > 0).map(|(i, n)| (least(i), *n))
    }
}

#[inline(always)]
fn cell(value: u64) -> usize {
    // How far to shift so that one bit and BITS more remain.
    let shift = (value | 1 << BITS).ilog2() - BITS;
    ((shift as usize) << BITS) + (value >> shift) as usize
}

/// The least value of a cell.
fn least(i: usize) -> u64 {
    let shift = (i >> BITS).saturating_sub(1);
    ((i - (shift << BITS)) as u64) << shift
}

/// The middle of a cell.
fn middle(i: usize) -> u64 {
    let shift = (i >> BITS).saturating_sub(1);
    least(i) + ((1u64 << shift) >> 1)
}

impl std::fmt::Debug for Histogram {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "Histogram({} values, p50 {}, p99 {}, p99.9 {}, max {})",
            self.count(),
            self.p50(),
            self.p99(),
            self.p999(),
            self.max
        )
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn cells_join_without_gaps() {
        assert_eq!((cell(0), cell(127), cell(128), cell(u64::MAX)), (0, 127, 128, CELLS - 1));
        for i in 1..CELLS {
            assert_eq!(cell(least(i)), i);
            assert_eq!(cell(least(i) - 1), i - 1);
            assert_eq!(cell(middle(i)), i);
        }
    }

    #[test]
    fn an_empty_one_says_zero() {
        let h = Histogram::default();
        assert_eq!((h.count(), h.min(), h.max(), h.p50(), h.p999(), h.mean()), (0, 0, 0, 0, 0, 0.0));
        assert!(h.is_empty() && h.cells().next().is_none());
    }

    #[test]
    fn small_values_are_exact() {
        let mut h = Histogram::new();
        (1..=100).for_each(|v| h.record(v));
        assert_eq!((h.p50(), h.p99(), h.p999(), h.percentile(0.0), h.percentile(100.0)), (50, 99, 100, 1, 100));
        assert_eq!((h.min(), h.max(), h.mean(), h.count()), (1, 100, 50.5, 100));
        h.record_many(7, 0);
        assert_eq!(h.cells().map(|(v, n)| v * n).sum::<u64>(), 5050);
        h.clear();
        assert_eq!(h, Histogram::new());
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 2 } else { 300 }, failure_persistence: None, ..<_>::default() })]

        #[test]
        fn percentiles_are_within_a_percent(values in prop::collection::vec((any::<u64>(), 0u32..64).prop_map(|(v, s)| v >> s), 1..if cfg!(miri) { 20 } else { 500 }), at in 0usize..500) {
            let (mut a, mut b) = (Histogram::new(), Histogram::new());
            for (i, &v) in values.iter().enumerate() {
                if i < at { a.record(v) } else { b.record_many(v, 1) }
            }
            a.merge(&b);
            let mut sorted = values.clone();
            sorted.sort_unstable();
            prop_assert_eq!((a.count(), a.min(), a.max()), (sorted.len() as u64, sorted[0], sorted[sorted.len() - 1]));
            for percent in [0.0, 1.0, 25.0, 50.0, 99.0, 99.9, 100.0] {
                let rank = ((percent / 100.0 * sorted.len() as f64).ceil() as usize).max(1);
                let (exact, got) = (sorted[rank - 1], a.percentile(percent));
                prop_assert!(got.abs_diff(exact) <= exact / 126, "{}: {} for {}", percent, got, exact);
            }
        }
    }
}
