//! The order of one downstream service identifier (CM-SP-MULPI, downstream resequencing).

use std::collections::BTreeMap;

/// What becomes of a packet that came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// It waits for others, or it is next: see [`Resequencer::next`].
    Taken,
    /// Those behind it were given already, or its number came before: it is given back.
    Late,
}

/// How long a packet waits for those before it, in nanoseconds: the 18 ms of a modem.
const WAIT_NS: u64 = 18_000_000;

/// Restores the order of packets by 16-bit sequence numbers. What lacks is waited for, 18 ms; then it is lost.
pub struct Resequencer<T> {
    /// The number that is due; none: nothing has come, or the first are still gathering.
    due: Option<u16>,
    /// What came first, while the first gather.
    begin: (u16, u64),
    /// By distance from `begin`, so that numbers may wrap; with when it came.
    waiting: BTreeMap<i64, (T, u64)>,
    /// Distance of `due` from `begin`.
    at: i64,
    /// Packets that never came.
    pub lost: u64,
    /// Packets that came too late.
    pub late: u64,
    /// The most that waited.
    pub deepest: usize,
}

impl<T> Default for Resequencer<T> {
    fn default() -> Self {
        Self { due: None, begin: (0, 0), waiting: BTreeMap::new(), at: 0, lost: 0, late: 0, deepest: 0 }
    }
}

impl<T> Resequencer<T> {
    /// One that knows which number comes first.
    pub fn from(first: u16) -> Self {
        Self { due: Some(first), begin: (first, 0), ..Self::default() }
    }

    /// Takes a packet that came at `now`.
    ///
    /// # Errors
    /// The packet, when it is too late.
    pub fn take(&mut self, sequence: u16, packet: T, now: u64) -> Result<(), T> {
        if self.due.is_none() && self.waiting.is_empty() {
            self.begin = (sequence, now);
            self.at = 0;
        }
        // The distance from what is due, as a signed 16-bit number.
        let reference = self.due.unwrap_or(self.begin.0);
        let base = if self.due.is_some() { self.at } else { 0 };
        let distance = base + i64::from(sequence.wrapping_sub(reference) as i16);
        if (self.due.is_some() && distance < self.at) || self.waiting.contains_key(&distance) {
            self.late += 1;
            return Err(packet);
        }
        self.waiting.insert(distance, (packet, now));
        self.deepest = self.deepest.max(self.waiting.len());
        Ok(())
    }

    /// Ends the gathering of the first, if it has gone on for so many nanoseconds: the lowest that waits is due.
    pub fn begin(&mut self, now: u64, least_ns: u64) {
        if self.due.is_none()
            && now.saturating_sub(self.begin.1) >= least_ns
            && let Some((&first, _)) = self.waiting.first_key_value()
        {
            self.at = first;
            self.due = Some(self.begin.0.wrapping_add(first as u16));
        }
    }

    /// The packet that is due, if it is there, or if the ones before it are given up at `now`.
    pub fn next(&mut self, now: u64) -> Option<T> {
        let (&first, (_, came)) = self.waiting.first_key_value()?;
        let waited = now.saturating_sub(*came) >= WAIT_NS;
        match self.due {
            Some(_) if first == self.at => {}
            Some(_) if waited => self.lost += (first - self.at) as u64,
            // Which number is the first is known when nothing earlier has come for as long as anything may take.
            None if now.saturating_sub(self.begin.1) >= WAIT_NS => {}
            _ => return None,
        }
        self.at = first + 1;
        self.due = Some(self.begin.0.wrapping_add(self.at as u16));
        self.waiting.pop_first().map(|(_, (packet, _))| packet)
    }

    /// Packets that wait.
    pub fn held(&self) -> usize {
        self.waiting.len()
    }

    /// Everything that waits, in order, whatever lacks: at the end.
    pub fn drain(&mut self) -> impl Iterator<Item = T> {
        std::mem::take(&mut self.waiting).into_values().map(|(packet, _)| packet)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn all(order: &mut Resequencer<u16>, now: u64) -> Vec<u16> {
        std::iter::from_fn(|| order.next(now)).collect()
    }

    #[test]
    fn what_lacks_is_waited_for_and_then_lost() {
        let mut order = Resequencer::from(65534);
        for sequence in [65535, 65534, 1, 2] {
            order.take(sequence, sequence, 0).expect("in time");
        }
        assert_eq!(all(&mut order, 0), [65534, 65535]);
        assert_eq!(all(&mut order, WAIT_NS - 1), [0_u16; 0]);
        assert_eq!((all(&mut order, WAIT_NS), order.lost), (vec![1, 2], 1));
        assert_eq!((order.take(0, 0, WAIT_NS), order.late), (Err(0), 1));
        order.take(3, 3, WAIT_NS).expect("in time");
        assert_eq!(order.take(3, 3, WAIT_NS), Err(3), "twice");
        assert_eq!(all(&mut order, WAIT_NS), [3]);
    }

    #[test]
    fn the_first_gather_before_they_go() {
        let mut order = Resequencer::default();
        for sequence in [7, 6, 8] {
            order.take(sequence, sequence, 5).expect("in time");
        }
        assert_eq!(all(&mut order, 5), [0_u16; 0]);
        assert_eq!((all(&mut order, 5 + WAIT_NS), order.lost), (vec![6, 7, 8], 0));
    }

    #[test]
    fn the_gathering_can_be_cut_short_but_not_at_once() {
        let mut order = Resequencer::default();
        for sequence in [3, 2, 5] {
            order.take(sequence, sequence, 5).expect("in time");
        }
        order.begin(5 + 99, 100);
        assert_eq!(all(&mut order, 5 + 99), [0_u16; 0]);
        order.begin(5 + 100, 100);
        assert_eq!(all(&mut order, 5 + 100), [2, 3]);
        order.take(4, 4, 200).expect("is waited for");
        assert_eq!((all(&mut order, 200), order.lost, order.late), (vec![4, 5], 0, 0));
    }

    proptest! {
        /// Numbers that come displaced by at most a hundred places leave in order, each once.
        #[test]
        fn order_is_restored(start: u16, shifts in prop::collection::vec(0usize..100, 1..2000)) {
            let mut order = Resequencer::from(start);
            let mut sent: Vec<(usize, usize)> = shifts.iter().enumerate().map(|(n, shift)| (n + shift, n)).collect();
            sent.sort();
            let mut out = Vec::new();
            for (_, n) in sent {
                prop_assert!(order.take(start.wrapping_add(n as u16), n, 0).is_ok());
                out.extend(std::iter::from_fn(|| order.next(0)));
            }
            prop_assert_eq!(out, (0..shifts.len()).collect::<Vec<_>>());
            prop_assert_eq!((order.lost, order.late, order.held()), (0, 0, 0));
        }
    }
}
