//! Sets of small numbers, many of one size, in one piece of memory.

use super::parts::Parts;

/// Sets of numbers below a common limit, all full at first.
pub(super) struct Bits {
    words: Parts<u64>,
    /// Words of a set.
    per: usize,
}

impl Bits {
    /// `sets` sets, each with all numbers below `limit`.
    pub(super) fn full(sets: usize, limit: usize) -> Self {
        Self { words: Parts::new(words(sets, limit)), per: limit.div_ceil(64) }
    }

    /// Adds sets behind the others, as [`words`] makes them with the same limit.
    pub(super) fn push(&mut self, words: Box<[u64]>) {
        self.words.push(words);
    }

    fn set(&self, set: usize) -> &[u64] {
        self.words.run(set * self.per, self.per)
    }

    /// Takes a number out of a set: the first at or after `from`, beginning again at 0. `None` when the set is empty.
    pub(super) fn take(&mut self, set: usize, from: usize) -> Option<usize> {
        let words = self.words.run_mut(set * self.per, self.per);
        let first = from / 64 % self.per;
        let behind = u64::MAX << (from % 64);
        // The first word is looked at twice: from the number on, and at the end before it.
        for step in 0..=self.per {
            let at = (first + step) % self.per;
            let mask = if step == 0 { behind } else { u64::MAX };
            let there = words[at] & mask;
            if there != 0 {
                let bit = there.trailing_zeros() as usize;
                words[at] &= !(1 << bit);
                return Some(at * 64 + bit);
            }
        }
        None
    }

    /// Takes that number out of a set; false: it is not in.
    pub(super) fn remove(&mut self, set: usize, number: usize) -> bool {
        let word = &mut self.words.run_mut(set * self.per, self.per)[number / 64];
        let is_in = *word & 1 << (number % 64) != 0;
        *word &= !(1 << (number % 64));
        is_in
    }

    /// Puts a number (back) into a set.
    pub(super) fn put(&mut self, set: usize, number: usize) {
        self.words[set * self.per + number / 64] |= 1 << (number % 64);
    }

    /// The least number that is not in a set; `None`: they all are.
    pub(super) fn first_missing(&self, set: usize) -> Option<usize> {
        let (at, word) = self.set(set).iter().enumerate().find(|(_, word)| **word != u64::MAX)?;
        Some(at * 64 + word.trailing_ones() as usize)
    }
}

/// Sets with all numbers below `limit`.
pub(super) fn words(sets: usize, limit: usize) -> Box<[u64]> {
    let per = limit.div_ceil(64);
    let mut words = vec![u64::MAX; sets * per].into_boxed_slice();
    if !limit.is_multiple_of(64) {
        words.iter_mut().skip(per - 1).step_by(per).for_each(|last| *last = (1 << (limit % 64)) - 1);
    }
    words
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn they_are_sets(limit in 1usize..200, acts in prop::collection::vec((any::<bool>(), 0usize..3, 0usize..200), 0..600)) {
            let mut bits = Bits::full(3, limit);
            let mut sets = vec![(0..limit).collect::<BTreeSet<_>>(); 3];
            for (take, set, number) in acts {
                let number = number % limit;
                if take {
                    let expected = sets[set].range(number..).next().or(sets[set].first()).copied();
                    prop_assert_eq!(bits.take(set, number), expected);
                    expected.map(|taken| sets[set].remove(&taken));
                } else {
                    bits.put(set, number);
                    sets[set].insert(number);
                }
                let missing = (0..limit).find(|n| !sets[set].contains(n));
                // In a last word that is not full the numbers beyond the limit are missing too.
                prop_assert_eq!(bits.first_missing(set).filter(|n| *n < limit), missing);
            }
        }
    }
}
