//! The published reference workload: whom packets go to, by which rule, in which size.

use std::net::Ipv4Addr;

use super::hosts::SERVER;
use super::rules::Shapes;
use crate::direction::Direction;

/// Service flows of a modem that traffic uses: the primary and three that rules lead to.
pub const CLASSES: u32 = 4;
/// Rules of a modem's classifiers.
pub const CLASSIFIER_RULES: u16 = 16;
/// Filter groups, of which each modem has two.
pub const FILTER_GROUPS: u16 = 6;
/// Rules of a filter group.
pub const FILTER_RULES: u16 = 16;

/// Sizes of Ethernet frames without check sequence, with their shares in percent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mix(Vec<(u16, u32)>);

impl Mix {
    /// Downstream: 15 % 84, 10 % 256, 75 % 1280 bytes.
    pub fn downstream() -> Self {
        Self(vec![(84, 15), (256, 10), (1280, 75)])
    }

    /// Upstream: 65 % 84, 18 % 256, 17 % 1280 bytes.
    pub fn upstream() -> Self {
        Self(vec![(84, 65), (256, 18), (1280, 17)])
    }

    /// One size only; not less than the headers and the signature take.
    pub fn fixed(bytes: u16) -> Self {
        Self(vec![(bytes.max(SHORTEST), 100)])
    }

    /// Sizes, each with its share.
    pub fn shares(&self) -> &[(u16, u32)] {
        &self.0
    }

    /// Mean size, in bytes.
    pub fn mean(&self) -> f64 {
        let shares: u32 = self.0.iter().map(|(_, share)| share).sum();
        let bytes: u32 = self.0.iter().map(|(size, share)| u32::from(*size) * share).sum();
        f64::from(bytes) / f64::from(shares.max(1))
    }

    /// A hundred places with the sizes, each as often as its share says, spread evenly.
    fn table(&self) -> [u16; 100] {
        let mut places = [SHORTEST; 100];
        let sizes = self.0.iter().flat_map(|(size, share)| std::iter::repeat_n(*size, *share as usize));
        for (n, size) in sizes.take(100).enumerate() {
            // 37 has no factor in common with 100.
            places[n * 37 % 100] = size.max(SHORTEST);
        }
        places
    }
}

/// Ethernet, IPv4 and UDP header with a [`crate::Signature`].
pub const SHORTEST: u16 = 14 + 20 + 8 + crate::Signature::LEN as u16;

/// What one packet is to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Next {
    /// Bytes of the Ethernet frame, without check sequence.
    pub size: u16,
    /// Which of the modem's service flows it belongs to, less than [`CLASSES`].
    pub class: u32,
    /// UDP ports.
    pub src_port: u16,
    /// See `src_port`.
    pub dst_port: u16,
    /// Type of service.
    pub tos: u8,
    /// The host beyond the network side.
    pub server: Ipv4Addr,
    /// Whether a rule of the modem's filter groups matches it.
    pub filtered: bool,
}

impl Default for Next {
    /// One that no rule matches.
    fn default() -> Self {
        Self { size: 0, class: 0, src_port: 10_000, dst_port: 10_001, tos: 0, server: SERVER, filtered: false }
    }
}

/// Packets that were decided on, and how many of them rules match.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Decided {
    /// All packets.
    pub packets: u64,
    /// Those that a filter rule matches.
    pub filtered: u64,
    /// Those that a classifier matches.
    pub classified: u64,
}

impl Decided {
    /// Adds what others decided.
    pub fn add(&mut self, other: &Self) {
        self.packets += other.packets;
        self.filtered += other.filtered;
        self.classified += other.classified;
    }
}

/// Which rules a workload's packets are made for.
#[derive(Clone, Debug)]
enum Ruled {
    /// Nobody looks.
    No,
    /// Rules that look for one UDP port each.
    Ports,
    /// Rules of mixed kinds: [`super::rules`].
    Mixed(Box<Shapes>),
}

/// Decides, packet by packet.
#[derive(Clone, Debug)]
pub struct Workload {
    sizes: [u16; 100],
    decided: Decided,
    modems: u32,
    /// Rules that match as published: one packet in ten a filter rule, one in ten a classifier.
    ruled: Ruled,
}

impl Workload {
    /// Sizes by `mix`, for service groups of so many modems. With `ruled`, a tenth of packets meets a filter rule, and a
    /// tenth a classifier.
    pub fn new(mix: &Mix, modems: u32, ruled: bool) -> Self {
        let ruled = if ruled { Ruled::Ports } else { Ruled::No };
        Self { sizes: mix.table(), decided: Decided::default(), modems: modems.max(1), ruled }
    }

    /// The same for rules of mixed kinds, of packets in that direction.
    pub fn mixed(mix: &Mix, modems: u32, direction: Direction) -> Self {
        Self { ruled: Ruled::Mixed(Box::new(Shapes::new(direction))), ..Self::new(mix, modems, false) }
    }

    /// What was decided so far.
    pub fn decided(&self) -> Decided {
        self.decided
    }

    /// The UDP destination port that a modem's classifier `rule` looks for.
    pub const fn classifier_port(rule: u16) -> u16 {
        20_000 + rule % CLASSIFIER_RULES
    }

    /// The service flow that classifier `rule` leads to.
    pub const fn classifier_class(rule: u16) -> u32 {
        1 + (rule % 3) as u32
    }

    /// The UDP source port that `rule` of a filter group looks for.
    pub const fn filter_port(group: u16, rule: u16) -> u16 {
        30_000 + group * 100 + rule % FILTER_RULES
    }

    /// The two filter groups of a modem, by its number among all: a service group's modems have them by sixths.
    pub(crate) const fn filters_of(&self, modem: u32) -> [u16; 2] {
        let first = (modem % self.modems / self.modems.div_ceil(FILTER_GROUPS as u32)) as u16;
        [first, (first + 1) % FILTER_GROUPS]
    }

    /// What the next packet, of modem number `modem`, is to be.
    pub fn next(&mut self, modem: u32) -> Next {
        let n = self.decided.packets;
        // Every hundred packets have all sizes, and every modem in turn gets all of them.
        let size = self.sizes[((n + n / 100 * 37) % 100) as usize];
        let chance = n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let chance = (chance ^ chance >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 32;
        let mut next = Next { size, ..Next::default() };
        let classified = !matches!(self.ruled, Ruled::No) && (n / 100 + n) % 10 == 3;
        let filtered = !matches!(self.ruled, Ruled::No) && (n / 1000 + n) % 10 == 7;
        if classified {
            match &self.ruled {
                Ruled::Mixed(shapes) => shapes.classify(&mut next, chance as u32),
                _ => {
                    let rule = (chance % u64::from(CLASSIFIER_RULES)) as u16;
                    (next.class, next.dst_port) = (Self::classifier_class(rule), Self::classifier_port(rule));
                }
            }
        }
        if filtered {
            let group = self.filters_of(modem)[(chance % 2) as usize];
            match &self.ruled {
                Ruled::Mixed(shapes) => shapes.filter(&mut next, group, (chance / 2) as u32),
                _ => {
                    next.src_port = Self::filter_port(group, (chance / 2 % u64::from(FILTER_RULES)) as u16);
                    next.filtered = true;
                }
            }
        }
        self.decided.packets += 1;
        self.decided.filtered += u64::from(next.filtered);
        self.decided.classified += u64::from(next.class > 0);
        next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_those_published() {
        let mut workload = Workload::new(&Mix::downstream(), 300, true);
        let (mut sizes, mut classes, mut filtered) = (std::collections::BTreeMap::new(), [0u32; 4], 0);
        for n in 0..100_000 {
            let next = workload.next(n % 300);
            *sizes.entry(next.size).or_insert(0) += 1;
            classes[next.class as usize] += 1;
            filtered += u32::from(next.src_port >= 30_000);
        }
        assert_eq!(sizes.into_iter().collect::<Vec<_>>(), [(84, 15_000), (256, 10_000), (1280, 75_000)]);
        assert_eq!((classes[0], filtered), (90_000, 10_000));
        assert!(classes[1..].iter().all(|n| (2900..4000).contains(n)), "{classes:?}");
        assert_eq!((Mix::downstream().mean(), Mix::upstream().mean()), (998.2, 318.28));
    }

    #[test]
    fn mixed_rules_are_met_as_often() {
        for direction in [Direction::Downlink, Direction::Uplink] {
            let mut workload = Workload::mixed(&Mix::downstream(), 300, direction);
            (0..100_000).for_each(|n| {
                workload.next(n % 300);
            });
            assert_eq!(workload.decided(), Decided { packets: 100_000, filtered: 10_000, classified: 10_000 });
        }
    }
}
