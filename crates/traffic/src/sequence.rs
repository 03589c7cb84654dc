//! What a flow's sequence numbers tell.

/// What a packet's sequence number says about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// The first of its number, and none later came before it.
    InOrder,
    /// The first of its number, after a later one (RFC 4737).
    Reordered,
    /// Its number has been seen.
    Duplicate,
    /// More than 31 behind the latest: whether it came before is forgotten.
    Stale,
}

/// Memory of one flow: the latest number and which of the 32 up to it have come. 8 bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Window {
    latest: u32,
    /// Bit *i*: number `latest` − *i* has come. 0: nothing has.
    seen: u32,
}

impl Window {
    /// How many numbers that have not come will be behind, once `seq` has been taken note of, and were ahead before.
    #[inline]
    pub(crate) fn passed_over_by(&self, seq: u32) -> u32 {
        let ahead = seq.wrapping_sub(self.latest);
        if self.seen == 0 || ahead == 0 || ahead >= 1 << 31 { 0 } else { ahead - 1 }
    }

    /// Takes note of a number. Numbers may wrap.
    #[inline(always)]
    pub fn note(&mut self, seq: u32) -> Arrival {
        let ahead = seq.wrapping_sub(self.latest);
        if self.seen == 0 {
            *self = Self { latest: seq, seen: 1 };
            return Arrival::InOrder;
        }
        if ahead == 0 {
            return Arrival::Duplicate;
        }
        if ahead < 1 << 31 {
            self.seen = self.seen.checked_shl(ahead).unwrap_or(0) | 1;
            self.latest = seq;
            return Arrival::InOrder;
        }
        let behind = self.latest.wrapping_sub(seq);
        let Some(bit) = 1u32.checked_shl(behind) else { return Arrival::Stale };
        if self.seen & bit != 0 {
            return Arrival::Duplicate;
        }
        self.seen |= bit;
        Arrival::Reordered
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashSet;

    #[test]
    fn in_order_late_twice_and_forgotten() {
        let mut flow = Window::default();
        let notes = [5, 7, 6, 6, 7, 40, 9, 9, 8, 41].map(|seq| flow.note(seq));
        use Arrival::*;
        assert_eq!(
            notes,
            [InOrder, InOrder, Reordered, Duplicate, Duplicate, InOrder, Reordered, Duplicate, Stale, InOrder]
        );
    }

    #[test]
    fn numbers_may_wrap() {
        let mut flow = Window::default();
        let notes = [u32::MAX - 1, 1, u32::MAX, 0, 0].map(|seq| flow.note(seq));
        use Arrival::*;
        assert_eq!(notes, [InOrder, InOrder, Reordered, Reordered, Duplicate]);
    }

    proptest! {
        #[test]
        fn it_knows_what_a_set_knows(steps in prop::collection::vec(0u32..40, 1..300), start: u32) {
            let (mut flow, mut seen, mut latest) = (Window::default(), HashSet::new(), None::<u32>);
            let (mut first, mut lost) = (None::<u32>, 0i64);
            for step in steps {
                // Somewhere between 31 behind the latest and 8 ahead of it.
                let seq = latest.map_or(start, |l| l.wrapping_add(step).wrapping_sub(31));
                let ahead = latest.is_none_or(|l| (seq.wrapping_sub(l) as i32) > 0);
                let want = match (seen.insert(seq), ahead) {
                    (false, _) => Arrival::Duplicate,
                    (true, true) => Arrival::InOrder,
                    (true, false) => Arrival::Reordered,
                };
                lost += i64::from(flow.passed_over_by(seq)) - i64::from(want == Arrival::Reordered);
                prop_assert_eq!(flow.note(seq), want);
                if ahead {
                    latest = Some(seq);
                }
                // What is missing from the first that came to the latest. What is from before the first makes up for others.
                let first = *first.get_or_insert(seq);
                let all = i64::from(latest.unwrap_or(seq).wrapping_sub(first)) + 1;
                prop_assert_eq!(lost, all - seen.len() as i64);
            }
        }
    }
}
