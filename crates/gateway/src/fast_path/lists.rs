//! Access lists as programs have them: `bpf/acl.h`.

use std::net::IpAddr;
use std::sync::atomic::Ordering;

use dataplane::acl::{AccessList, Action, Direction, PortRange, Rule};
use dataplane::forward::{prefix4, prefix6};
use port::bpf::SharedWords;
use zerocopy::FromZeros;

use crate::fast_path_records;

/// Rules of an access list that a program takes.
pub const TERMS: usize = 16;
/// In place of a rule's counter: it has none.
pub const NO_COUNTER: u32 = u32::MAX;

/// Bits of [`Term::traits`], beside protocol, DSCP and version.
mod traits {
    pub const FROM_IT: u32 = 1 << 24;
    pub const HAS_PORTS: u32 = 1 << 25;
}

fast_path_records! {
    /// A rule of an access list; IPv4 addresses are the lower half's lower half.
    Term {
        src: [u64; 2], src_mask: [u64; 2], dst: [u64; 2], dst_mask: [u64; 2], traits: u32, traits_mask: u32,
        src_lo: u16, src_span: u16, dst_lo: u16, dst_span: u16, counter: u32, deny: u32,
    }
    /// An access list; what no rule matches is the last entry's.
    List { valid: u32, count: u32, terms: [Term; TERMS + 1], }
}

const _: () = assert!(size_of::<Term>() == 88 && size_of::<List>() == 1504);

impl Term {
    /// Of no packet.
    pub const NOTHING: Self = Self {
        src: [0; 2],
        src_mask: [0; 2],
        dst: [0; 2],
        dst_mask: [0; 2],
        traits: u32::MAX,
        traits_mask: u32::MAX,
        src_lo: 0,
        src_span: u16::MAX,
        dst_lo: 0,
        dst_span: u16::MAX,
        counter: 0,
        deny: 0,
    };
}

impl List {
    /// Permits everything and counts nothing.
    pub const PERMITS_ALL: Self = Self {
        valid: 1,
        count: 0,
        terms: {
            let mut terms = [Term::NOTHING; TERMS + 1];
            terms[TERMS].counter = NO_COUNTER;
            terms
        },
    };
}

impl From<&AccessList> for List {
    /// Invalid where it has too many rules.
    fn from(list: &AccessList) -> Self {
        let mut entry = List::new_zeroed();
        let Some((rules, default)) = list.few(TERMS) else { return entry };
        (entry.valid, entry.count) = (1, rules.len() as u32); // TERMS at most
        entry.terms = [Term::NOTHING; TERMS + 1];
        entry.terms.iter_mut().zip(rules).for_each(|(term, rule)| *term = Term::from(rule));
        let deny = u32::from(default.action == Action::Deny);
        entry.terms[TERMS] = Term { counter: default.counter, deny, ..Term::NOTHING };
        entry
    }
}

impl From<&Rule> for Term {
    fn from(rule: &Rule) -> Self {
        let mut term = Self {
            traits: 0,
            traits_mask: 0,
            counter: rule.counter,
            deny: u32::from(rule.action == Action::Deny),
            ..Self::NOTHING
        };
        let mut is =
            |mask: u32, value: u32| (term.traits, term.traits_mask) = (term.traits | value, term.traits_mask | mask);
        if let Some(protocol) = rule.protocol {
            is(0xff, protocol.into());
        }
        if let Some(dscp) = rule.dscp {
            is(0xff00, u32::from(dscp) << 8);
        }
        if let Some(direction) = rule.direction {
            is(traits::FROM_IT, if direction == Direction::Up { traits::FROM_IT } else { 0 });
        }
        if rule.src_ports.is_some() || rule.dst_ports.is_some() {
            is(traits::HAS_PORTS, traits::HAS_PORTS);
        }
        if let Some((address, _)) = rule.src.or(rule.dst) {
            is(0xff << 16, if address.is_ipv4() { 4 << 16 } else { 6 << 16 });
        }
        let span =
            |range: Option<PortRange>| range.map_or((0, u16::MAX), |r| (r.first, r.last.saturating_sub(r.first)));
        (term.src_lo, term.src_span) = span(rule.src_ports);
        (term.dst_lo, term.dst_span) = span(rule.dst_ports);
        (term.src, term.src_mask) = prefix(rule.src);
        (term.dst, term.dst_mask) = prefix(rule.dst);
        term
    }
}

/// A prefix and its mask in halves.
fn prefix(prefix: Option<(IpAddr, u8)>) -> ([u64; 2], [u64; 2]) {
    let halves = |address: u128| [(address >> 64) as u64, address as u64];
    match prefix {
        None => ([0; 2], [0; 2]),
        Some((IpAddr::V4(address), len)) => {
            ([0, prefix4(address.into(), len).into()], [0, prefix4(u32::MAX, len).into()])
        }
        Some((IpAddr::V6(address), len)) => (halves(prefix6(address.into(), len)), halves(prefix6(u128::MAX, len))),
    }
}

/// Packets and octets that the rule of a counter has matched, of `counters` on each CPU, as a program's map of hits has them.
pub fn hits(hits: &SharedWords, counters: u32, counter: u32) -> (u64, u64) {
    let on_each = (counter as usize..hits.len()).step_by(counters.max(1) as usize).map(|at| hits.get(at));
    on_each.filter(|_| counter < counters).fold((0, 0), |(packets, bytes), words| match words {
        [p, b] => (packets + p.load(Ordering::Relaxed), bytes + b.load(Ordering::Relaxed)),
        _ => (packets, bytes),
    })
}

/// Whether a program has the list of a number, in its map of lists.
pub fn has_list(lists: &SharedWords, number: u16) -> bool {
    lists.get(number.into()).first().is_some_and(|word| word.load(Ordering::Relaxed) as u32 != 0)
}
