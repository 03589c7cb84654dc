//! Rules over a packet's fields, by priority: filter groups (DOCS-SUBMGT3-MIB) and classifiers (CM-SP-MULPI, TLV 22 and
//! 23). Both are the same thing with another outcome.

mod block; // sixteen rules, compared at once

use std::ops::RangeInclusive;

use wire::{L3L4, Mac};

use block::{Around, Block, Key, WAYS};

/// The protocol value that means any IP packet (CM-SP-MULPI, classifier encodings).
pub const ANY_IP: u16 = 256;
/// The protocol value that means TCP or UDP.
pub const TCP_OR_UDP: u16 = 257;

/// What a rule compares. What is left out matches everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Match {
    /// Type of service or traffic class: low, high, mask. A packet matches when `low <= tos & mask <= high`.
    pub tos: Option<(u8, u8, u8)>,
    /// IP protocol, [`ANY_IP`] or [`TCP_OR_UDP`].
    pub protocol: Option<u16>,
    /// IPv4 source: address, mask.
    pub src4: Option<(u32, u32)>,
    /// IPv4 destination: address, mask.
    pub dst4: Option<(u32, u32)>,
    /// IPv6 source: address, mask.
    pub src6: Option<(u128, u128)>,
    /// IPv6 destination: address, mask.
    pub dst6: Option<(u128, u128)>,
    /// IPv6 flow label.
    pub flow_label: Option<u32>,
    /// TCP or UDP source port.
    pub src_ports: Option<RangeInclusive<u16>>,
    /// TCP or UDP destination port.
    pub dst_ports: Option<RangeInclusive<u16>>,
    /// Ethernet destination: address, mask. Downstream that of the host behind the modem.
    pub dst_mac: Option<(Mac, Mac)>,
    /// Ethernet source. Downstream our own, upstream the host's.
    pub src_mac: Option<Mac>,
    /// Type behind all tags.
    pub ethertype: Option<u16>,
    /// 802.1P priorities of the outer tag.
    pub user_priority: Option<RangeInclusive<u8>>,
    /// VLAN identifier of the outer tag.
    pub vlan: Option<u16>,
}

/// A rule and what becomes of a packet it is the first to match.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Higher ones are asked first; equal ones in their order.
    pub priority: u16,
    /// What it compares.
    pub fields: Match,
    /// The outcome: of a filter [`PERMIT`] or [`DENY`], of a classifier the number of the modem's service flow.
    pub then: u8,
}

/// A filter rule lets the packet pass.
pub const PERMIT: u8 = 1;
/// A filter rule drops the packet.
pub const DENY: u8 = 2;

/// A packet as rules see it.
#[derive(Clone, Copy, Debug)]
pub struct Seen<'a> {
    /// Its headers.
    pub ip: &'a L3L4,
    /// Its bytes from the IP header on.
    pub packet: &'a [u8],
    /// Ethernet destination and source.
    pub macs: (Mac, Mac),
    /// The outer tag, if there is one.
    pub tag: Option<u16>,
}

impl Match {
    /// Whether only fields every packet is compared by at once are there; others need [`Match::fits`].
    fn is_plain(&self) -> bool {
        self.dst_mac.is_none()
            && self.src_mac.is_none()
            && self.ethertype.is_none()
            && self.user_priority.is_none()
            && self.vlan.is_none()
            && self.flow_label.is_none()
    }

    fn is_only6(&self) -> bool {
        self.src6.is_some() || self.dst6.is_some() || self.flow_label.is_some()
    }

    fn is_only4(&self) -> bool {
        self.src4.is_some() || self.dst4.is_some()
    }

    /// Whether the packet matches, field by field: the definition, and the way of whatever is not plain.
    pub fn fits(&self, seen: &Seen<'_>) -> bool {
        let ip = seen.ip;
        let ported = matches!(ip.protocol, wire::protocol::TCP | wire::protocol::UDP);
        let address = |version, rule: Option<(u128, u128)>, it: u128| {
            rule.is_none_or(|(value, mask)| ip.version == version && it & mask == value & mask)
        };
        let wide = |rule: Option<(u32, u32)>| rule.map(|(value, mask)| (u128::from(value), u128::from(mask)));
        let port = |rule: &Option<RangeInclusive<u16>>, it| rule.as_ref().is_none_or(|r| ported && r.contains(&it));
        let kind = if ip.version == 4 { wire::ethertype::IP4 } else { wire::ethertype::IP6 };
        self.tos.is_none_or(|(low, high, mask)| (low..=high).contains(&(ip.tos & mask)))
            && self.protocol.is_none_or(|protocol| match protocol {
                ANY_IP => true,
                TCP_OR_UDP => ported,
                number => u16::from(ip.protocol) == number,
            })
            && address(4, wide(self.src4), ip.src.into())
            && address(4, wide(self.dst4), ip.dst.into())
            && address(6, self.src6, ip.src6(seen.packet))
            && address(6, self.dst6, ip.dst6(seen.packet))
            && self.flow_label.is_none_or(|label| {
                ip.version == 6 && wire::fast::be32(seen.packet, 0).is_some_and(|word| word & 0xf_ffff == label)
            })
            && port(&self.src_ports, ip.src_port)
            && port(&self.dst_ports, ip.dst_port)
            && self.dst_mac.is_none_or(|(value, mask)| masked(seen.macs.0, mask) == masked(value, mask))
            && self.src_mac.is_none_or(|mac| seen.macs.1 == mac)
            && self.ethertype.is_none_or(|value| value == kind)
            && self.user_priority.as_ref().is_none_or(|r| seen.tag.is_some_and(|tag| r.contains(&((tag >> 13) as u8))))
            && self.vlan.is_none_or(|vlan| seen.tag.is_some_and(|tag| tag & 0xfff == vlan))
    }
}

fn masked(mac: Mac, mask: Mac) -> [u8; 6] {
    std::array::from_fn(|n| mac.0[n] & mask.0[n])
}

/// Rules compiled: shared by all modems they are given to, read by workers.
#[derive(Clone, Debug, Default)]
pub struct RuleSet {
    /// Around what all blocks look for.
    around: Around,
    blocks: Vec<Block>,
    /// By falling priority.
    rules: Vec<Rule>,
}

/// The first rule that matched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hit {
    /// Its priority.
    pub priority: u16,
    /// Its outcome.
    pub then: u8,
}

impl RuleSet {
    /// Compiles rules; those of an empty range match nothing and are left out.
    pub fn new(rules: &[Rule]) -> Self {
        let mut rules = rules.to_vec();
        let is_empty = |r: &Option<RangeInclusive<u16>>| r.as_ref().is_some_and(RangeInclusive::is_empty);
        rules.retain(|r| !is_empty(&r.fields.src_ports) && !is_empty(&r.fields.dst_ports));
        rules.retain(|r| r.fields.tos.is_none_or(|(low, high, _)| low <= high));
        rules.sort_by_key(|rule| std::cmp::Reverse(rule.priority));
        let mut lanes = Vec::new();
        for (number, rule) in rules.iter().enumerate() {
            let has_ports = rule.fields.src_ports.is_some() || rule.fields.dst_ports.is_some();
            match rule.fields.protocol {
                Some(ANY_IP) | None if !has_ports => lanes.push((number, None)),
                // Ports are TCP's and UDP's alone.
                Some(ANY_IP | TCP_OR_UDP) | None => {
                    lanes.extend([wire::protocol::TCP, wire::protocol::UDP].map(|p| (number, Some(p))));
                }
                Some(p) if has_ports && !matches!(p, 6 | 17) => {}
                Some(p) => lanes.extend(u8::try_from(p).ok().map(|p| (number, Some(p)))),
            }
        }
        let mut blocks = vec![Block::EMPTY; lanes.len().div_ceil(WAYS)];
        for (at, (number, protocol)) in lanes.into_iter().enumerate() {
            // Fewer rules than a configuration has lines.
            blocks[at / WAYS].set(at % WAYS, number as u16, &rules[number].fields, protocol);
        }
        let around = blocks.iter().map(|block| block.around).reduce(Around::with).unwrap_or_default();
        Self { around, blocks, rules }
    }

    /// The first rule that matches the packet with these headers, which is `seen` whole only if one may.
    #[inline(always)]
    pub fn first<'a>(&self, ip: &L3L4, seen: impl FnOnce() -> Seen<'a>) -> Option<Hit> {
        if self.around.has(ip) { self.search(&seen()) } else { None }
    }

    /// Apart, so that packets beside all rules have the registers to themselves.
    #[inline(never)]
    fn search(&self, seen: &Seen<'_>) -> Option<Hit> {
        let ip = seen.ip;
        let key = Key {
            src: ip.src,
            dst: ip.dst,
            src_port: ip.src_port,
            dst_port: ip.dst_port,
            tos: ip.tos.into(),
            protocol: ip.protocol.into(),
        };
        let family = usize::from(ip.version == 6);
        for block in self.blocks.iter().filter(|block| block.around.has(ip)) {
            let mut found = block.matches(&key) & block.only[family];
            while found != 0 {
                let n = found.trailing_zeros() as usize & (WAYS - 1);
                let rule = self.rules.get(usize::from(block.rule[n]))?;
                if block.more & 1 << n == 0 || rule.fields.fits(seen) {
                    return Some(Hit { priority: rule.priority, then: rule.then });
                }
                found &= found - 1;
            }
        }
        None
    }

    /// How many rules there are.
    pub fn len(&self) -> usize {
        self.rules.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }
}

/// All rules of a gateway, published whole.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    /// Filter groups by number; 0 is none.
    pub groups: Vec<RuleSet>,
    /// Sets of classifiers by number.
    pub classifiers: Vec<RuleSet>,
    /// Packets no rule of a modem's filter groups matches are dropped.
    pub default_deny: bool,
}

impl Rules {
    /// Whether a rule of a modem's filter groups may match the packet with these headers; of most packets none may.
    #[inline(always)]
    pub(crate) fn may_filter(&self, groups: [u8; 4], ip: &L3L4) -> bool {
        // As one word: modems have few groups, and behind the last is nothing to look at.
        let mut left = u32::from_le_bytes(groups);
        while left != 0 {
            let group = left as usize & 0xff;
            left >>= 8;
            if self.groups.get(group).is_some_and(|rules| rules.around.has(ip)) {
                return true;
            }
        }
        false
    }

    /// What a modem's filter groups say: the matching rule of the highest priority, in whichever group.
    pub fn filter(&self, groups: [u8; 4], seen: &Seen<'_>) -> Option<Hit> {
        let mut best: Option<Hit> = None;
        for group in groups.into_iter().filter(|group| *group != 0) {
            let hit = self.groups.get(usize::from(group)).and_then(|rules| rules.first(seen.ip, || *seen));
            if let Some(hit) = hit
                && best.is_none_or(|best| hit.priority > best.priority)
            {
                best = Some(hit);
            }
        }
        best
    }

    /// The service flow a set of classifiers chooses, among the modem's.
    #[inline(always)]
    pub fn classify<'a>(&self, set: u32, ip: &L3L4, seen: impl FnOnce() -> Seen<'a>) -> Option<u8> {
        self.classifiers.get(set as usize)?.first(ip, seen).map(|hit| hit.then)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn packet(src: u32, dst: u32, protocol: u8, ports: (u16, u16), tos: u8) -> (L3L4, Vec<u8>) {
        let mut bytes = vec![0; 28];
        (bytes[0], bytes[1], bytes[3], bytes[8], bytes[9]) = (0x45, tos, 28, 64, protocol);
        bytes[12..16].copy_from_slice(&src.to_be_bytes());
        bytes[16..20].copy_from_slice(&dst.to_be_bytes());
        bytes[20..22].copy_from_slice(&ports.0.to_be_bytes());
        bytes[22..24].copy_from_slice(&ports.1.to_be_bytes());
        bytes[25] = 8;
        let sum = wire::checksum::of(&bytes[..20]);
        bytes[10..12].copy_from_slice(&sum.to_be_bytes());
        (L3L4::parse(&bytes).expect("a packet"), bytes)
    }

    fn mac() -> impl Strategy<Value = Mac> {
        (0u8..3).prop_map(|n| Mac([2, 0, 0, 0, 0, n]))
    }

    /// Small numbers, so that matches are frequent.
    fn fields() -> impl Strategy<Value = Match> {
        let ports = || prop::option::of((0u16..5, 0u16..5).prop_map(|(a, b)| a..=b));
        let four = || prop::option::of((0u32..4, prop::sample::select(&[0u32, 1, 2, u32::MAX][..])));
        let six = || prop::option::weighted(0.1, (0u128..4, Just(u128::MAX)));
        let l2 = (
            prop::option::weighted(0.1, (mac(), Just(Mac::BROADCAST))),
            prop::option::weighted(0.1, mac()),
            prop::option::weighted(0.1, 0x07ffu16..0x0802),
            prop::option::weighted(0.1, (0u8..4, 0u8..8).prop_map(|(a, b)| a..=b)),
            prop::option::weighted(0.1, 0u16..3),
        );
        let protocol = prop::option::of(prop::sample::select(&[6u16, 17, 47, ANY_IP, TCP_OR_UDP][..]));
        (prop::option::of((0u8..4, 0u8..8, any::<u8>())), protocol, four(), four(), six(), ports(), ports(), l2)
            .prop_map(|(tos, protocol, src4, dst4, dst6, src_ports, dst_ports, l2)| Match {
                tos,
                protocol,
                src4,
                dst4,
                dst6,
                src_ports,
                dst_ports,
                dst_mac: l2.0,
                src_mac: l2.1,
                ethertype: l2.2,
                user_priority: l2.3,
                vlan: l2.4,
                ..Match::default()
            })
    }

    proptest! {
        /// Rules that all look at ports, as most do.
        #[test]
        fn packets_beside_all_ports_match_nothing_else(
            rules in prop::collection::vec((0u16..20, 2u16..6, 0u16..3, 2u16..6, 0u16..3, any::<bool>()), 1..40),
            ports in (0u16..10, 0u16..10), protocol in prop::sample::select(&[6u8, 17, 47][..]),
        ) {
            let rule = |(priority, src, more, dst, most, both)| {
                let dst_ports = Some(dst..=dst + most).filter(|_| both);
                let fields = Match { src_ports: Some(src..=src + more), dst_ports, ..Match::default() };
                Rule { priority, fields, then: (priority & 7) as u8 }
            };
            let rules: Vec<_> = rules.into_iter().map(rule).collect();
            let (ip, bytes) = packet(1, 2, protocol, ports, 0);
            let seen = Seen { ip: &ip, packet: &bytes, macs: (Mac::ZERO, Mac::ZERO), tag: None };
            let best = rules.iter().filter(|rule| rule.fields.fits(&seen)).map(|rule| rule.priority).max();
            prop_assert_eq!(RuleSet::new(&rules).first(&ip, || seen).map(|hit| hit.priority), best);
        }

        #[test]
        fn comparing_all_at_once_is_comparing_one_by_one(
            rules in prop::collection::vec((0u16..20, fields(), 0u8..8), 0..40),
            src in 0u32..4, dst in 0u32..4, protocol in prop::sample::select(&[6u8, 17, 47, 1][..]),
            ports in (0u16..6, 0u16..6), tos in 0u8..8, macs in (mac(), mac()), tag in prop::option::of(any::<u16>()),
        ) {
            let rules: Vec<_> =
                rules.into_iter().map(|(priority, fields, then)| Rule { priority, fields, then }).collect();
            let (ip, bytes) = packet(src, dst, protocol, ports, tos);
            let seen = Seen { ip: &ip, packet: &bytes, macs, tag };
            let mut sorted = rules.clone();
            sorted.sort_by_key(|rule| std::cmp::Reverse(rule.priority));
            let expected = sorted.iter().find(|rule| rule.fields.fits(&seen));
            let hit = RuleSet::new(&rules).first(&ip, || seen);
            prop_assert_eq!(hit, expected.map(|rule| Hit { priority: rule.priority, then: rule.then }));
        }
    }

    #[test]
    fn the_highest_priority_of_all_groups_decides() {
        let rule = |priority, then| Rule { priority, fields: Match::default(), then };
        let groups = vec![RuleSet::default(), RuleSet::new(&[rule(5, DENY)]), RuleSet::new(&[rule(9, PERMIT)])];
        let rules = Rules { groups, ..Rules::default() };
        let (ip, bytes) = packet(1, 2, 17, (3, 4), 0);
        let seen = Seen { ip: &ip, packet: &bytes, macs: (Mac::ZERO, Mac::ZERO), tag: None };
        assert_eq!(rules.filter([1, 2, 0, 0], &seen).map(|hit| hit.then), Some(PERMIT));
        assert_eq!(rules.filter([1, 0, 0, 0], &seen).map(|hit| hit.then), Some(DENY));
        assert_eq!(rules.filter([0, 0, 0, 0], &seen), None);
        assert_eq!(rules.filter([77, 0, 0, 0], &seen), None, "a group that is not there");
    }

    #[test]
    fn ipv6_rules_see_addresses_and_flow_labels() {
        let mut bytes = vec![0; 48];
        (bytes[0], bytes[3], bytes[5], bytes[6], bytes[7], bytes[39]) = (0x60, 7, 8, 17, 64, 9);
        bytes[43] = 53;
        let ip = L3L4::parse(&bytes).expect("a packet");
        let seen = Seen { ip: &ip, packet: &bytes, macs: (Mac::ZERO, Mac::ZERO), tag: None };
        let hit = |fields| RuleSet::new(&[Rule { priority: 1, fields, then: 3 }]).first(&ip, || seen).is_some();
        assert!(hit(Match { dst6: Some((9, u128::MAX)), dst_ports: Some(53..=53), ..Match::default() }));
        assert!(!hit(Match { dst6: Some((8, u128::MAX)), ..Match::default() }));
        assert!(hit(Match { flow_label: Some(7), protocol: Some(TCP_OR_UDP), ..Match::default() }));
        assert!(!hit(Match { flow_label: Some(8), ..Match::default() }));
        assert!(!hit(Match { src4: Some((0, 0)), ..Match::default() }), "a rule for IPv4");
    }
}
