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
    fn a_slot_that_can_not_be_is_refused() {
        assert!(!Ledger::new(64).strike(64));
        assert!(!Ledger::new(64).strike(u32::MAX));
    }
}
