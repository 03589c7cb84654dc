//! Sets of rules as bits, in the order of the list.

use std::collections::HashMap;

/// The number of a set.
pub(super) type SetId = u32;

/// Many sets over the same rules; equal ones are one.
pub(super) struct Vectors {
    words: Vec<u64>,
    /// A bit for each word that is not zero.
    summaries: Vec<u64>,
    /// Words and summaries of a set.
    per: usize,
    tops: usize,
    known: HashMap<Box<[u64]>, SetId>,
}

impl Vectors {
    /// No sets yet, over `rules` rules.
    pub(super) fn new(rules: usize) -> Self {
        let per = rules.div_ceil(64);
        Self { words: Vec::new(), summaries: Vec::new(), per, tops: per.div_ceil(64), known: HashMap::new() }
    }

    /// The set of those rules that `has` says, by number.
    pub(super) fn enter(&mut self, rules: impl Iterator<Item = bool>) -> SetId {
        let mut set = vec![0u64; self.per].into_boxed_slice();
        for (at, has) in rules.enumerate() {
            set[at / 64] |= u64::from(has) << (at % 64);
        }
        if let Some(id) = self.known.get(&set) {
            return *id;
        }
        let id = self.known.len() as SetId; // far fewer than addresses
        self.words.extend_from_slice(&set);
        let bit = |(at, word): (usize, &u64)| u64::from(*word != 0) << at;
        self.summaries.extend(set.chunks(64).map(|words| words.iter().enumerate().map(bit).sum::<u64>()));
        self.known.insert(set, id);
        id
    }

    /// No more sets will come.
    pub(super) fn freeze(&mut self) {
        self.known = HashMap::new();
        self.words.shrink_to_fit();
        self.summaries.shrink_to_fit();
    }

    /// Bytes they take.
    pub(super) fn bytes(&self) -> usize {
        (self.words.len() + self.summaries.len()) * size_of::<u64>()
    }

    /// The first rule that is in all `N` sets. The smallest are best named first: what they leave out of a word need not be
    /// read of the others.
    #[inline]
    pub(super) fn first_of<const N: usize>(&self, sets: [SetId; N]) -> Option<usize> {
        let part = |of: usize| move |id: SetId| id as usize * of;
        let (tops, words) = (sets.map(part(self.tops)), sets.map(part(self.per)));
        for top in 0..self.tops {
            let mut agreed = and(&self.summaries, &tops, top);
            while agreed != 0 {
                let word = top * 64 + agreed.trailing_zeros() as usize;
                let rules = and(&self.words, &words, word);
                if rules != 0 {
                    return Some(word * 64 + rules.trailing_zeros() as usize);
                }
                agreed &= agreed - 1;
            }
        }
        None
    }
}

/// The word `at` behind each of the places, ANDed; no more are read than it takes to be zero.
#[inline(always)]
fn and<const N: usize>(list: &[u64], places: &[usize; N], at: usize) -> u64 {
    let mut sum = u64::MAX;
    for place in places {
        sum &= list.get(place + at).copied().unwrap_or(0);
        if sum == 0 {
            break;
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_first_of_all(count in 1usize..9000, sets in prop::collection::vec(any::<[u16; 9]>(), 3), dense in 1usize..5) {
            let mut vectors = Vectors::new(count);
            let has = |set: &[u16; 9], at: usize| {
                set.iter().any(|s| at.is_multiple_of(1 + usize::from(*s) % 97) && !at.is_multiple_of(dense + 1))
            };
            let ids: Vec<_> = sets.iter().map(|set| vectors.enter((0..count).map(|at| has(set, at)))).collect();
            prop_assert_eq!(vectors.enter((0..count).map(|at| has(&sets[0], at))), ids[0], "equal sets are one");
            let expected = (0..count).find(|at| sets.iter().all(|set| has(set, *at)));
            prop_assert_eq!(vectors.first_of([ids[0], ids[1], ids[2]]), expected);
        }
    }
}
