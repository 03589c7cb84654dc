//! The compiled lists of all network instances.

use std::net::IpAddr;

use table::lpm::Prefix;
use wire::L3L4;

use super::rule::{Action, Direction, Rule};
use super::tables::Table;
use crate::forward::InstanceId;

/// The most rules of a list. Memory grows with the rules times the different prefixes and ports among them.
pub const MAX_RULES: usize = 16_384;

/// A list of at most so many rules keeps them beside what they were compiled to.
pub const FEW: usize = 16;

/// Reason for which a list is not compiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CompileError {
    /// More rules than [`MAX_RULES`].
    #[error("{0} rules are more than {MAX_RULES}")]
    TooMany(usize),
    /// A prefix is longer than an address.
    #[error("rule {0}: the prefix is longer than the address")]
    PrefixLength(usize),
    /// Source and destination are of different versions: no packet is so.
    #[error("rule {0}: source and destination are of different versions")]
    Versions(usize),
    /// A range of ports ends before it begins.
    #[error("rule {0}: the ports end before they begin")]
    PortRange(usize),
    /// There is no such code point.
    #[error("rule {0}: a code point is at most 63")]
    Dscp(usize),
}

/// What is done with a packet, and where it is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    /// To pass or to drop.
    pub action: Action,
    /// The counter of the rule, or of the default.
    pub counter: u32,
}

/// The list of one network instance. Immutable.
pub struct AccessList {
    v4: [Table<u32>; 2],
    v6: [Table<u128>; 2],
    rules: Box<[Decision]>,
    default: Decision,
    /// Its rules as they were, if they are few.
    few: Option<Box<[Rule]>>,
}

impl AccessList {
    /// Compiles rules, first match first; what none matches is `default`'s, counted at `counter`.
    ///
    /// # Errors
    /// The first rule that makes no sense.
    pub fn compile(rules: &[Rule], default: Action, counter: u32) -> Result<Self, CompileError> {
        if rules.len() > MAX_RULES {
            return Err(CompileError::TooMany(rules.len()));
        }
        rules.iter().enumerate().try_for_each(|(at, rule)| check(at, rule))?;
        let of = |version, direction| -> Vec<(u32, &Rule)> {
            let numbered = rules.iter().enumerate().map(|(at, rule)| (at as u32, rule)); // at most MAX_RULES
            numbered.filter(|(_, rule)| rule.is_for(version, direction)).collect()
        };
        let end = |rule: &Rule, src| if src { rule.src } else { rule.dst };
        let v4 = |direction| {
            Table::new(&of(4, direction), |rule, src| match end(rule, src)? {
                (IpAddr::V4(address), len) => Prefix::new(address.into(), len),
                _ => None,
            })
        };
        let v6 = |direction| {
            Table::new(&of(6, direction), |rule, src| match end(rule, src)? {
                (IpAddr::V6(address), len) => Prefix::new(address.into(), len),
                _ => None,
            })
        };
        Ok(Self {
            v4: [v4(Direction::Up), v4(Direction::Down)],
            v6: [v6(Direction::Up), v6(Direction::Down)],
            rules: rules.iter().map(|rule| Decision { action: rule.action, counter: rule.counter }).collect(),
            default: Decision { action: default, counter },
            few: (rules.len() <= FEW).then(|| rules.into()),
        })
    }

    /// The list's decision about a packet; `packet` begins with the IP header.
    #[inline]
    pub fn decide(&self, direction: Direction, ip: &L3L4, packet: &[u8]) -> Decision {
        let at = direction as usize;
        let first = match ip.version {
            4 => self.v4[at].first(ip, ip.src, ip.dst),
            _ => self.v6[at].first(ip, ip.src6(packet), ip.dst6(packet)),
        };
        first.and_then(|rule| self.rules.get(rule as usize)).copied().unwrap_or(self.default)
    }

    /// Its rules, if they are at most so many and at most [`FEW`], and what becomes of packets that none matches.
    pub fn few(&self, most: usize) -> Option<(&[Rule], Decision)> {
        self.few.as_deref().filter(|rules| rules.len() <= most).map(|rules| (rules, self.default))
    }

    /// Bytes it takes.
    pub fn bytes(&self) -> usize {
        let tables: usize = self.v4.iter().map(Table::bytes).chain(self.v6.iter().map(Table::bytes)).sum();
        tables + size_of_val(&*self.rules)
    }
}

fn check(at: usize, rule: &Rule) -> Result<(), CompileError> {
    let too_long = |(address, len): &(IpAddr, u8)| *len > if address.is_ipv4() { 32 } else { 128 };
    if rule.src.iter().chain(&rule.dst).any(too_long) {
        return Err(CompileError::PrefixLength(at));
    }
    if rule.src.zip(rule.dst).is_some_and(|(src, dst)| src.0.is_ipv4() != dst.0.is_ipv4()) {
        return Err(CompileError::Versions(at));
    }
    if rule.src_ports.iter().chain(&rule.dst_ports).any(|range| range.first > range.last) {
        return Err(CompileError::PortRange(at));
    }
    if rule.dscp.is_some_and(|dscp| dscp > 63) {
        return Err(CompileError::Dscp(at));
    }
    Ok(())
}

/// The lists of all network instances: what is published. An instance without one lets everything pass.
#[derive(Default)]
pub struct AccessLists(Vec<Option<AccessList>>);

impl AccessLists {
    /// Puts the list of an instance in its place.
    pub fn set(&mut self, instance: InstanceId, list: AccessList) {
        let at = usize::from(instance);
        if self.0.len() <= at {
            self.0.resize_with(at + 1, || None);
        }
        self.0[at] = Some(list);
    }

    /// Adds the lists of others, each in its place.
    pub fn extend(&mut self, others: Self) {
        for (instance, list) in others.0.into_iter().enumerate().filter_map(|(at, list)| Some((at, list?))) {
            self.set(instance as InstanceId, list); // that is what it was set by
        }
    }

    /// All lists, with their numbers.
    pub fn iter(&self) -> impl Iterator<Item = (InstanceId, &AccessList)> {
        let numbered = self.0.iter().enumerate();
        numbered.filter_map(|(at, list)| Some((at as InstanceId, list.as_ref()?))) // that is what it was set by
    }

    /// The list of an instance.
    #[inline(always)]
    pub fn of(&self, instance: InstanceId) -> Option<&AccessList> {
        self.0.get(usize::from(instance))?.as_ref()
    }
}
