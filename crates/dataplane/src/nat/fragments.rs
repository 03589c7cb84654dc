//! A short memory of first fragments from outside, by which the later ones find their way (RFC 4787 REQ-14).

use table::records::LineId;

/// Nanoseconds a first fragment is remembered: those of a packet come together.
const MEMORY_NS: u64 = 10_000_000_000;
/// Places a packet may take; the oldest gives way.
const WAYS: usize = 4;

/// A packet by what all its fragments have in common (RFC 791, 3.2), as seen from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Whole {
    pub src: u32,
    pub dst: u32,
    pub domain: u16,
    pub ident: u16,
    pub protocol: u8,
}

#[derive(Clone, Copy)]
struct FragmentFlow {
    whole: Whole,
    /// The mapping its first fragment took, and that mapping's session.
    mapping: LineId,
    session: u32,
    until: u64,
}

/// The memory. Fixed in size; what does not fit pushes out the oldest of its four places.
pub(super) struct Fragments {
    entries: Box<[[FragmentFlow; WAYS]]>,
    seed: u64,
}

impl Fragments {
    /// Room for `capacity` packets or a few more.
    pub(super) fn new(capacity: usize, seed: u64) -> Self {
        let whole = Whole { src: 0, dst: 0, domain: 0, ident: 0, protocol: 0 };
        let none = FragmentFlow { whole, mapping: LineId(0), session: 0, until: 0 };
        let sets = capacity.div_ceil(WAYS).next_power_of_two();
        Self { entries: vec![[none; WAYS]; sets].into(), seed }
    }

    fn set(&self, whole: &Whole) -> usize {
        let low = u64::from(whole.src) << 32 | u64::from(whole.dst);
        let high = u64::from(whole.domain) << 32 | u64::from(whole.ident) << 8 | u64::from(whole.protocol);
        let product = u128::from(low ^ self.seed) * u128::from(high ^ 0x9e37_79b9_7f4a_7c15);
        ((product >> 64) as u64 ^ product as u64) as usize & (self.entries.len() - 1)
    }

    /// Remembers the way of a packet whose first fragment came.
    pub(super) fn learn(&mut self, whole: Whole, mapping: LineId, session: u32, now: u64) {
        let set = self.set(&whole);
        let entries = &mut self.entries[set];
        let own = entries.iter().position(|entry| entry.whole == whole);
        let oldest = || entries.iter().enumerate().min_by_key(|(_, entry)| entry.until).map_or(0, |(at, _)| at);
        entries[own.unwrap_or_else(oldest)] = FragmentFlow { whole, mapping, session, until: now + MEMORY_NS };
    }

    /// All that are remembered: packet, mapping, session, and until when.
    pub(super) fn each(&self, now: u64) -> impl Iterator<Item = (Whole, LineId, u32, u64)> + '_ {
        let all = self.entries.iter().flatten().filter(move |entry| entry.until > now);
        all.map(|entry| (entry.whole, entry.mapping, entry.session, entry.until))
    }

    /// Remembers a packet as another process did, until then.
    pub(super) fn learn_until(&mut self, whole: Whole, mapping: LineId, session: u32, until: u64) {
        self.learn(whole, mapping, session, until.saturating_sub(MEMORY_NS));
    }

    /// The mapping and session of a packet whose first fragment came before.
    pub(super) fn recall(&self, whole: &Whole, now: u64) -> Option<(LineId, u32)> {
        let entry = self.entries[self.set(whole)].iter().find(|entry| entry.whole == *whole && entry.until > now)?;
        Some((entry.mapping, entry.session))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_ones_are_remembered_for_ten_seconds() {
        let mut memory = Fragments::new(64, 7);
        let whole = |ident| Whole { src: 1, dst: 2, domain: 3, ident, protocol: 17 };
        for n in 0..10_000u16 {
            memory.learn(whole(n), LineId(n.into()), 5, u64::from(n));
            assert_eq!(memory.recall(&whole(n), u64::from(n)), Some((LineId(n.into()), 5)));
        }
        assert_eq!(memory.recall(&whole(9_999), 9_999 + MEMORY_NS), None);
        assert_eq!(memory.recall(&whole(10_000), 10_000), None);
        let known = (0..10_000).filter(|n| memory.recall(&whole(*n), 10_000).is_some()).count();
        assert!(known <= 64, "{known}");
    }
}
