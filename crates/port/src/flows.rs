//! Which worker a port's packets belong to, in terms of which a device can steer them to the worker's queue: values and
//! masks.
//!
//! Owners have ranges; devices match bits. [`Flows::rules`] makes the fewest rules that divide the ranges: where all of
//! a prefix's owned values are one worker's, one rule has them, with what nobody owns among them. Packets that no rule
//! matches come in anywhere, and workers hand them over.

use std::fmt;
use std::sync::OnceLock;

use crate::{PortError, Uri};

/// What of a packet tells its worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FlowKey {
    /// The identifier, of 32 bits, of a tunnel over UDP to that port, over IPv4 or IPv6.
    Tunnel {
        /// UDP's destination port.
        udp_port: u16,
        /// Over IPv6, not IPv4.
        over6: bool,
    },
    /// The session of L2TPv3 over IPv4 without UDP, of 32 bits (RFC 3931, 4.1.1.1).
    Session,
    /// The IPv4 address it is to.
    To4,
    /// The upper 64 bits of the IPv6 address it is to.
    To6,
    /// The identifier of the outermost VLAN tag, of 12 bits.
    Vlan,
}

impl FlowKey {
    /// Bits of its values.
    fn bits(self) -> u32 {
        match self {
            Self::Tunnel { .. } | Self::Session | Self::To4 => 32,
            Self::To6 => 64,
            Self::Vlan => 12,
        }
    }
}

/// Packets whose value, as far as `mask` has bits, is `value`, and whose they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FlowRule {
    /// What is compared.
    pub key: FlowKey,
    /// Tags before the network header, 0 to 2; those of [`FlowKey::Vlan`] count only the outermost.
    pub tags: u8,
    /// The value, zero where `mask` is.
    pub value: u64,
    /// Its leading bits that count.
    pub mask: u64,
    /// The worker's number.
    pub worker: u16,
}

impl fmt::Display for FlowRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key, value, mask, .. } = *self;
        let len = mask.count_ones();
        match key {
            FlowKey::Tunnel { .. } => write!(f, "tunnel {value:#010x}/{len}"),
            FlowKey::Session => write!(f, "session {value:#010x}/{len}"),
            FlowKey::To4 => write!(f, "to {}/{len}", std::net::Ipv4Addr::from_bits(value as u32)), // of 32 bits
            FlowKey::To6 => write!(f, "to {}/{len}", std::net::Ipv6Addr::from_bits(u128::from(value) << 64)),
            FlowKey::Vlan => write!(f, "VLAN {value}/{len}"),
        }
    }
}

/// Ranges of values of one kind, each a worker's.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Owned {
    key: FlowKey,
    tags: u8,
    /// First, last, worker.
    ranges: Vec<(u64, u64, u16)>,
}

impl Owned {
    fn add(&mut self, more: Vec<(u64, u64, u16)>) {
        self.ranges.extend(more.into_iter().filter(|(first, last, _)| first <= last));
        self.ranges.sort_unstable();
        let mut end = None;
        self.ranges.retain(|(first, last, _)| {
            let is_clear = end.is_none_or(|end| end < *first);
            end = if is_clear { Some(*last) } else { end };
            is_clear
        });
    }
}

/// Whose the packets of a port are. Nothing: the gateway does not divide them, or has one worker.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Flows(Vec<Owned>);

impl Flows {
    /// Whether there is nothing to steer by.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds ranges of values, each first, last and worker, in any order, of packets with that many tags. Of two that
    /// overlap the one that begins first counts.
    #[must_use]
    pub fn with(mut self, key: FlowKey, tags: u8, ranges: impl IntoIterator<Item = (u64, u64, u16)>) -> Self {
        let ranges: Vec<_> = ranges.into_iter().collect();
        match self.0.iter_mut().find(|owned| (owned.key, owned.tags) == (key, tags)) {
            Some(owned) => owned.add(ranges),
            None if ranges.is_empty() => {}
            None => {
                let mut owned = Owned { key, tags, ranges: Vec::new() };
                owned.add(ranges);
                self.0.push(owned);
            }
        }
        self
    }

    /// With those of another port on the same device.
    #[must_use]
    pub fn and(self, other: &Self) -> Self {
        let add = |flows: Self, owned: &Owned| flows.with(owned.key, owned.tags, owned.ranges.iter().copied());
        other.0.iter().fold(self, add)
    }

    /// The rules, none of which overlaps another of its kind.
    pub fn rules(&self) -> Vec<FlowRule> {
        let mut rules = Vec::new();
        for Owned { key, tags, ranges } in &self.0 {
            divide(ranges, &mut |first, last, worker| {
                let all = u64::MAX >> (64 - key.bits());
                let mask = all & !low_bits(first ^ last);
                rules.push(FlowRule { key: *key, tags: *tags, value: first & mask, mask, worker });
            });
        }
        rules
    }
}

/// All bits up to the highest one that is set.
fn low_bits(of: u64) -> u64 {
    u64::MAX.checked_shr(of.leading_zeros()).unwrap_or(0)
}

/// Tells the first and last value of each part of the number line whose owned values are one worker's.
fn divide(ranges: &[(u64, u64, u16)], tell: &mut impl FnMut(u64, u64, u16)) {
    let (Some((low, _, worker)), Some((_, high, _))) = (ranges.first(), ranges.last()) else { return };
    if ranges.iter().all(|(.., of)| of == worker) {
        return tell(*low, *high, *worker);
    }
    // The least number behind the highest bit in which the ends differ: they do, there being two ranges.
    let bit = low_bits(low ^ high) / 2 + 1;
    let middle = high & !(bit - 1);
    let below = ranges.iter().filter(|(first, ..)| *first < middle);
    let below: Vec<_> = below.map(|(first, last, of)| (*first, (*last).min(middle - 1), *of)).collect();
    let above = ranges.iter().filter(|(_, last, _)| *last >= middle);
    let above: Vec<_> = above.map(|(first, last, of)| ((*first).max(middle), *last, *of)).collect();
    divide(&below, tell);
    divide(&above, tell);
}

/// Devices that steer, of a kind that another crate brings. Devices go by name.
#[derive(Clone, Copy)]
pub struct Steered {
    /// Whether a device has rules.
    pub is_on: fn(&str) -> bool,
    /// Has a device that has rules go by other owners; returns how many rules are in force.
    pub change: fn(&str, &Flows) -> Result<usize, PortError>,
}

static DPDK: OnceLock<Steered> = OnceLock::new();

/// From now on `dpdk:` devices that steer are reached by these. The first ones stay.
pub fn set_steered(steered: Steered) {
    let _ = DPDK.set(steered);
}

fn of(uri: &Uri) -> Option<(&Steered, &str)> {
    let name = uri.target().split(',').next().unwrap_or_default();
    DPDK.get().filter(|_| uri.kind() == "dpdk").map(|steered| (steered, name))
}

/// Whether the device of an open port steers packets to the workers that own them, or is asked to at the next change of
/// owners, having refused or had nothing to steer by.
pub fn is_steered(uri: &Uri) -> bool {
    of(uri).is_some_and(|(steered, name)| (steered.is_on)(name))
}

/// Has the device of a port, if it [steers](is_steered), go by other owners from now on. Packets that came in before
/// stay where they are. Returns how many rules are in force.
///
/// # Errors
/// [`PortError::Device`]: the device has refused; it steers no more, and is asked again at the next change. That it
/// refuses again for the same reason is no error.
pub fn change_flows(uri: &Uri, flows: &Flows) -> Result<usize, PortError> {
    of(uri).map_or(Ok(0), |(steered, name)| (steered.change)(name, flows))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TUNNEL: FlowKey = FlowKey::Tunnel { udp_port: 4789, over6: false };

    fn said(flows: &Flows) -> Vec<String> {
        flows.rules().iter().map(|rule| format!("{rule} -> {}", rule.worker)).collect()
    }

    #[test]
    fn parts_of_one_worker_are_one_rule() {
        let halves = [(0, 0x7fff_ffff, 0), (0x8000_0000, 0xffff_ffff, 1)];
        let flows = Flows::default().with(TUNNEL, 0, halves);
        assert_eq!(said(&flows), ["tunnel 0x00000000/1 -> 0", "tunnel 0x80000000/1 -> 1"]);
        // A pool without its first and last address, in two parts.
        let ip = |last: u32| u64::from(0x0a2d_0000 + last);
        let flows = Flows::default().with(FlowKey::To4, 0, [(ip(1), ip(127), 0), (ip(128), ip(254), 1)]);
        assert_eq!(said(&flows), ["to 10.45.0.0/25 -> 0", "to 10.45.0.128/25 -> 1"]);
        let flows = Flows::default().with(FlowKey::To6, 0, [(0x2001_0db8 << 32, (0x2001_0db8 << 32) + 255, 3)]);
        assert_eq!(said(&flows), ["to 2001:db8::/56 -> 3"]);
        let vlans = [(100, 199, 0), (200, 200, 1), (300, 310, 0)];
        let flows = Flows::default().with(FlowKey::Vlan, 1, vlans);
        // 200 parts its neighbours; 300 and on are far from all others.
        let worker_of =
            |id: u64| flows.rules().iter().find(|rule| id & rule.mask == rule.value).map(|rule| rule.worker);
        assert_eq!([100, 199, 200, 300, 310].map(worker_of), [0, 0, 1, 0, 0].map(Some));
        assert_eq!(flows.rules().len(), 5, "{:?}", said(&flows));
        assert!(Flows::default().with(TUNNEL, 0, []).is_empty() && Flows::default().rules().is_empty());
    }

    proptest! {
        /// Every owned value is matched by one rule, its worker's, and no two rules overlap.
        #[test]
        fn rules_lead_to_owners(cuts in prop::collection::btree_set(0_u64..4096, 2..20), owners in prop::collection::vec(0_u16..4, 20)) {
            let cuts: Vec<u64> = cuts.into_iter().collect();
            let ranges: Vec<_> = cuts.windows(2).zip(&owners).step_by(1)
                .map(|(pair, owner)| (pair[0], pair[1] - 1, *owner)).filter(|(first, _, _)| first % 3 != 0).collect();
            let rules = Flows::default().with(FlowKey::Vlan, 1, ranges.clone()).rules();
            for value in 0..4096 {
                let matching: Vec<_> = rules.iter().filter(|rule| value & rule.mask == rule.value).collect();
                prop_assert!(matching.len() <= 1);
                if let Some((.., owner)) = ranges.iter().find(|(first, last, _)| (*first..=*last).contains(&value)) {
                    prop_assert_eq!(matching.first().map(|rule| rule.worker), Some(*owner));
                }
            }
        }
    }
}
