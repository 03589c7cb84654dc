//! Latencies in bins a thirty-second of their value wide.
//!
//! Bin n < 64 is of n nanoseconds; after that each power of two has 32 bins: bin 32 e + t, with t from 32 to 63, is of
//! t × 2^e to (t + 1) × 2^e nanoseconds.

/// Bins: up to 2^30 ns, and room to a power of two.
pub const BINS: usize = 2048;

/// A count for each bin.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Histogram(Vec<u64>);

impl Histogram {
    /// With these counts.
    pub fn of(counts: &[u64]) -> Self {
        Self(counts.to_vec())
    }

    /// Takes off what was there before.
    pub(crate) fn subtract(&mut self, before: &Self) {
        self.0.iter_mut().zip(&before.0).for_each(|(now, before)| *now -= before);
    }

    /// Adds another one.
    pub fn add(&mut self, other: &Self) {
        self.0.resize(self.0.len().max(other.0.len()), 0);
        self.0.iter_mut().zip(&other.0).for_each(|(sum, more)| *sum += more);
    }

    /// Values in it.
    pub fn count(&self) -> u64 {
        self.0.iter().sum()
    }

    /// The value that this part (0 to 1) of all are at or below, in nanoseconds: the middle of its bin. None when empty.
    pub fn quantile(&self, part: f64) -> Option<f64> {
        let count = self.count();
        let wanted = ((count as f64 * part).ceil() as u64).max(1);
        let mut sum = 0;
        let bin = self.0.iter().position(|n| {
            sum += n;
            sum >= wanted
        });
        bin.filter(|_| count > 0).map(middle)
    }
}

fn middle(bin: usize) -> f64 {
    if bin < 64 {
        return bin as f64;
    }
    let power = bin / 32 - 1;
    ((bin - 32 * power) as f64 + 0.5) * 2f64.powi(power as i32)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As the program numbers bins.
    fn bin(mut ns: u64) -> usize {
        let mut at = 0;
        for shift in [16, 8, 4, 2, 1] {
            if ns >= 32 << shift {
                ns >>= shift;
                at += shift * 32;
            }
        }
        at + ns as usize
    }

    #[test]
    fn a_value_is_in_its_bin() {
        for ns in [0, 1, 63, 64, 65, 100, 1000, 12_345, 1_000_000, 123_456_789, 1 << 30] {
            let bin = bin(ns);
            assert!(bin < BINS, "{ns}");
            let middle = middle(bin);
            assert!((middle - ns as f64).abs() <= (ns as f64 / 32.0).max(0.0) + 0.5, "{ns} in bin {bin} of {middle}");
        }
    }

    #[test]
    fn quantiles_of_known_values() {
        let mut counts = vec![0; BINS];
        (1..=100).for_each(|us| counts[bin(us * 1000)] += 1);
        let mut histogram = Histogram::of(&counts);
        for (part, us) in [(0.5, 50.0), (0.99, 99.0), (0.01, 1.0)] {
            let found = histogram.quantile(part).expect("not empty") / 1000.0;
            assert!((found / us - 1.0).abs() < 0.04, "{part}: {found}");
        }
        let all = histogram.clone();
        histogram.add(&all);
        assert_eq!(histogram.count(), 200);
        histogram.subtract(&all);
        histogram.subtract(&all);
        assert_eq!(histogram.quantile(0.5), None);
        assert_eq!(Histogram::default().quantile(0.5), None);
    }
}
