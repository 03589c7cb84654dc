//! Which slots the kernel has.

/// A set of slots with its size: those given to one of the kernel's rings and not yet back. It makes `held` exact,
/// makes recovery after a lost interface possible (the kernel keeps slots where no ring shows them), and is the proof
/// behind every re-minted token: a slot the kernel names without having it is refused.
pub struct Ledger {
    bits: Box<[u64]>,
    count: usize,
}

impl Ledger {
    /// None of `slots` slots.
    pub fn new(slots: u32) -> Self {
        Self { bits: vec![0; (slots as usize).div_ceil(64)].into(), count: 0 }
    }

    /// How many are in it.
    #[inline]
    pub fn count(&self) -> usize {
        self.count
    }

    /// A bit for each slot, set for those in it.
    pub(crate) fn words(&self) -> &[u64] {
        &self.bits
    }

    /// Enters all slots that another process's ledger of `slots` slots has; nothing is in it yet. False: those are no
    /// slots.
    #[must_use]
    pub(crate) fn enter_all(&mut self, words: &[u64], slots: u32) -> bool {
        let beyond = words.last().map_or(0, |last| if slots.is_multiple_of(64) { 0 } else { last >> (slots % 64) });
        let fits = self.count == 0 && words.len() == self.bits.len() && beyond == 0;
        if fits {
            self.bits.copy_from_slice(words);
            self.count = words.iter().map(|word| word.count_ones() as usize).sum();
        }
        fits
    }

    /// Enters a slot whose token is given up.
    #[inline]
    pub fn enter(&mut self, slot: u32) {
        let word = &mut self.bits[slot as usize / 64];
        debug_assert!(*word & (1 << (slot % 64)) == 0, "a slot given twice");
        *word |= 1 << (slot % 64);
        self.count += 1;
    }

    /// Strikes a slot out; false when it was not in. True means: its token may be minted again, once.
    #[inline]
    #[must_use]
    pub(crate) fn strike(&mut self, slot: u32) -> bool {
        let Some(word) = self.bits.get_mut(slot as usize / 64) else { return false };
        let bit = 1 << (slot % 64);
        if *word & bit == 0 {
            return false;
        }
        *word &= !bit;
        self.count -= 1;
        true
    }

    /// Strikes every slot out, telling each.
    pub(crate) fn strike_all(&mut self, mut each: impl FnMut(u32)) {
        for (at, word) in self.bits.iter_mut().enumerate() {
            while *word != 0 {
                // Fits: there are at most u32::MAX slots.
                each((at * 64) as u32 + word.trailing_zeros());
                *word &= *word - 1;
            }
        }
        self.count = 0;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_ledger_is_a_set(steps in prop::collection::vec((any::<bool>(), 0_u32..130), 0..300)) {
            let (mut ledger, mut model) = (Ledger::new(130), BTreeSet::new());
            for (enter, slot) in steps {
                if enter {
                    if model.insert(slot) {
                        ledger.enter(slot);
                    }
                } else {
                    prop_assert_eq!(ledger.strike(slot), model.remove(&slot));
                }
                prop_assert_eq!(ledger.count(), model.len());
            }
            let mut left = Vec::new();
            ledger.strike_all(|slot| left.push(slot));
            prop_assert_eq!(left, model.into_iter().collect::<Vec<_>>());
            prop_assert_eq!(ledger.count(), 0);
        }
    }

    #[test]
    fn another_ledger_is_entered_whole() {
        let mut there = Ledger::new(70);
        [0, 63, 69].into_iter().for_each(|slot| there.enter(slot));
        let mut here = Ledger::new(70);
        assert!(here.enter_all(there.words(), 70));
        assert_eq!((here.count(), here.strike(69), here.strike(69), here.count()), (3, true, false, 2));
        assert!(!here.enter_all(there.words(), 70), "something is in it");
        assert!(!Ledger::new(70).enter_all(&[0, 1 << 6], 70), "no such slot");
        assert!(!Ledger::new(64).enter_all(there.words(), 64), "of another size");
    }

    #[test]
    fn a_slot_that_can_not_be_is_refused() {
        assert!(!Ledger::new(64).strike(64));
        assert!(!Ledger::new(64).strike(u32::MAX));
    }
}
