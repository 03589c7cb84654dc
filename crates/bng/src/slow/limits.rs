//! How many control packets of lines a worker takes: of one line, of one shared VLAN pair, and of a class in all.
//!
//! A packet over any of the three costs the other two nothing: a host of an N:1 VLAN pair that sends without end is stopped
//! by its own limit, and its neighbours of the same pair go on.

use dataplane::limit::{Allowance, Limit, Owners};

use crate::config::{Class, PuntSection};
use crate::link::Line;

/// The limits of a worker.
pub(super) struct PuntLimits {
    /// By line, and by hardware address where lines share VLANs; and class.
    lines: Owners,
    /// By shared VLAN pair and class.
    pairs: Owners,
    classes: [Limit; Class::COUNT],
    seed: u64,
}

/// Lines, and VLAN pairs that several share, of a worker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LineCount {
    /// Lines, each at most once in 1:1 groups; addresses of the slices in N:1 groups.
    pub lines: usize,
    /// VLAN pairs of N:1 groups.
    pub pairs: usize,
}

/// Places for a line: two classes at once, at a quarter of the places.
const PLACES: usize = 8;
/// Fewest and most places, 16 bytes each.
const FEWEST: usize = 4096;
const MOST: usize = 1 << 19;

/// Packets of a line, or of a shared pair, in a second, and so many seconds' at once.
fn each(rate: u32, burst: u32) -> Allowance {
    Allowance::new(rate, rate.saturating_mul(burst))
}

/// Packets of a class in all.
fn of_class(rates: &PuntSection, class: Class) -> Allowance {
    let rate = rates.of(class);
    Allowance::new(rate, (rate / 10).max(1))
}

impl PuntLimits {
    pub(super) fn new(rates: &PuntSection, count: LineCount, seed: u64) -> Self {
        let places = |lines: usize| lines.saturating_mul(PLACES).clamp(FEWEST, MOST);
        Self {
            lines: Owners::new(each(rates.line, 10), places(count.lines), seed),
            pairs: Owners::new(each(rates.pair, 1), places(count.pairs), !seed),
            classes: Class::ALL.map(|class| Limit::new(of_class(rates, class))),
            seed,
        }
    }

    /// Other rates from now on.
    pub(super) fn set(&mut self, rates: &PuntSection) {
        self.lines.set(each(rates.line, 10));
        self.pairs.set(each(rates.pair, 1));
        let classes = self.classes.iter_mut().zip(Class::ALL);
        classes.for_each(|(limit, class)| limit.set(of_class(rates, class)));
    }

    /// Whether one more control packet of a line is taken; `mac`: its hardware address, where lines share VLANs.
    pub(super) fn allow(&mut self, class: Class, line: Line, mac: Option<[u8; 6]>, now: u64) -> bool {
        let pair = self.key(class, line.key([0; 6]));
        let own = mac.map_or(pair, |mac| self.key(class, line.key(mac)));
        let Some(place) = self.lines.find(own, now) else { return false };
        let shared = mac.is_some().then(|| self.pairs.find(pair, now));
        if shared == Some(None) || !self.classes[class as usize].allow(now) {
            return false;
        }
        self.lines.spend(place, own, now);
        if let Some(Some(place)) = shared {
            self.pairs.spend(place, pair, now);
        }
        true
    }

    fn key(&self, class: Class, line: u128) -> u64 {
        let (upper, lower) = ((line >> 64) as u64, line as u64);
        (upper ^ (class as u64) << 48 ^ self.seed).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29) ^ lower
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn limits(lines: usize) -> PuntLimits {
        PuntLimits::new(&PuntSection::default(), LineCount { lines, pairs: 4 }, 0x5eed)
    }

    fn line(n: u32) -> Line {
        Line { port: 1, s_vlan: 100 + (n / 4000) as u16, c_vlan: (n % 4000) as u16 + 1 }
    }

    #[test]
    fn host_over_its_limit_does_not_silence_neighbours() {
        let mut limits = limits(1000);
        let mut of = |mac: u8| limits.allow(Class::Dhcp4, line(0), Some([2, 0, 0, 0, 0, mac]), SECOND);
        assert_eq!((0..1000).filter(|_| of(1)).count(), 100);
        assert!((2..200).all(of));
    }

    #[test]
    fn invented_addresses_are_held_by_the_pair() {
        let mut limits = limits(60_000);
        let pair = PuntSection::default().pair as usize;
        let mac = |n: u32| [2, 0, 0, (n >> 16) as u8, (n >> 8) as u8, n as u8];
        let mut ask = |pair: u32, n: u32| limits.allow(Class::Arp, line(pair), Some(mac(n)), SECOND);
        let taken = (0..20_000).filter(|n| ask(0, *n)).count();
        assert!(taken <= pair, "{taken}");
    }

    #[test]
    fn forty_thousand_lines_are_served_at_once() {
        let rates = PuntSection { dhcp4: 1_000_000, ..PuntSection::default() };
        let mut limits = PuntLimits::new(&rates, LineCount { lines: 40_000, pairs: 0 }, 0x5eed);
        let refused = (0..40_000).filter(|n| !limits.allow(Class::Dhcp4, line(*n), None, SECOND)).count();
        assert_eq!(refused, 0);
    }
}
