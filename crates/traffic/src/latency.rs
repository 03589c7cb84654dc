//! Distribution of latencies.

use serde::{Deserialize, Serialize};

/// Steps of one octave: values are told apart to 1/64, 1.6 %.
const STEPS: u32 = 64;
const STEP_BITS: u32 = STEPS.trailing_zeros();
/// Octaves above the first, whose steps are 1 ns; the last ends at 2³⁸ ns, more than four minutes.
const OCTAVES: u32 = 32;

/// Counts of latencies in nanoseconds: exact below 64 ns and at the maximum, to 1.6 % between.
#[derive(Clone)]
pub struct Latencies {
    counts: Box<[u64]>,
    total: u64,
    max: u64,
}

impl Default for Latencies {
    fn default() -> Self {
        Self { counts: vec![0; ((OCTAVES + 1) * STEPS) as usize].into(), total: 0, max: 0 }
    }
}

impl Latencies {
    /// Takes note of one.
    #[inline(always)]
    pub fn note(&mut self, ns: u64) {
        self.total += 1;
        self.max = self.max.max(ns);
        let at = index(ns).min(self.counts.len() - 1);
        self.counts[at] += 1;
    }

    /// How many were noted.
    pub fn count(&self) -> u64 {
        self.total
    }

    /// The largest, in nanoseconds.
    pub fn max_ns(&self) -> u64 {
        self.max
    }

    /// The latency that a share of `q` (0 to 1) of the packets did not exceed, in nanoseconds, never understated;
    /// 0 when none was noted.
    pub fn quantile_ns(&self, q: f64) -> u64 {
        let rank = ((self.total as f64 * q.clamp(0.0, 1.0)).ceil() as u64).max(1);
        let mut below = 0;
        // The last place has no ceiling: it holds everything above.
        for (at, count) in self.counts[..self.counts.len() - 1].iter().enumerate() {
            below += count;
            if below >= rank {
                return ceiling(at).min(self.max);
            }
        }
        self.max
    }

    /// Adds another's counts.
    pub fn add(&mut self, other: &Self) {
        for (mine, theirs) in self.counts.iter_mut().zip(&other.counts) {
            *mine += theirs;
        }
        self.total += other.total;
        self.max = self.max.max(other.max);
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.counts.fill(0);
        (self.total, self.max) = (0, 0);
    }

    /// The figures that results show.
    pub fn summary(&self) -> LatencySummary {
        let us = |q| self.quantile_ns(q) as f64 / 1000.0;
        LatencySummary { p50: us(0.5), p99: us(0.99), p999: us(0.999), max: self.max as f64 / 1000.0 }
    }
}

/// Quantiles in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LatencySummary {
    /// Half of the packets were not slower.
    pub p50: f64,
    /// 99 % were not slower.
    pub p99: f64,
    /// 99.9 % were not slower.
    pub p999: f64,
    /// The slowest.
    pub max: f64,
}

/// The place of a value: below [`STEPS`] itself, then [`STEPS`] places for each doubling, whose leading bit the
/// octave's number stands for.
#[inline(always)]
fn index(ns: u64) -> usize {
    let octave = (ns | 1).ilog2().saturating_sub(STEP_BITS - 1);
    match octave {
        0 => ns as usize,
        _ => (octave * STEPS) as usize + ((ns >> (octave - 1)) & u64::from(STEPS - 1)) as usize,
    }
}

/// The largest value of a place.
fn ceiling(at: usize) -> u64 {
    let (octave, within) = (at as u32 / STEPS, u64::from(at as u32 % STEPS));
    if octave == 0 { within } else { ((u64::from(STEPS) + within + 1) << (octave - 1)) - 1 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn quantiles_of_a_straight_line() {
        let mut line = Latencies::default();
        (1..=1000).for_each(|ns| line.note(ns * 1000));
        let s = line.summary();
        assert!((500.0..=508.0).contains(&s.p50) && (990.0..=1000.0).contains(&s.p99), "{s:?}");
        assert!((999.0..=1000.0).contains(&s.p999) && s.max == 1000.0, "{s:?}");
        assert_eq!(Latencies::default().summary(), LatencySummary::default());
        let mut twice = line.clone();
        twice.add(&line);
        assert_eq!((twice.count(), twice.summary()), (2000, s));
        twice.clear();
        assert_eq!((twice.count(), twice.max_ns()), (0, 0));
    }

    proptest! {
        #[test]
        fn a_value_is_known_to_one_part_in_64(ns in 0u64..1 << 38) {
            let top = ceiling(index(ns));
            prop_assert!(top >= ns && top - ns <= ns / 64, "{} {}", ns, top);
            prop_assert!(index(ns) < ((OCTAVES + 1) * STEPS) as usize);
            prop_assert!(index(top) == index(ns) && index(top + 1) == index(ns) + 1);
        }

        #[test]
        fn anything_is_counted(ns: u64) {
            let mut one = Latencies::default();
            one.note(ns);
            prop_assert_eq!((one.count(), one.max_ns(), one.quantile_ns(1.0)), (1, ns, ns));
        }
    }
}
