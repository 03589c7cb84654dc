//! Access lists: each compiled, and pairs of them that do as one.

use std::collections::HashMap;

use dataplane::acl::{AccessList, AccessLists, Action, Rule};
use dataplane::config::ListRules;

use super::super::{Config, ConfigError, wrong};
use super::{GroupPlan, ProfilePlan, Result};

/// Rules of two access lists that are compiled into one at most: pairs are many, and each takes memory.
const MOST_TOGETHER: usize = 512;

/// Whether what a list does not deny passes.
fn only_denies(list: &ListRules) -> bool {
    list.default == Action::Permit && list.rules.iter().all(|rule| rule.action == Action::Deny)
}

/// Where numbers of access lists and of their counters begin. Those of a reload are others than those it replaces: records
/// that have not been written anew go by the lists they had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Numbers {
    /// The first list; 0 is none.
    pub list: u16,
    /// The first counter.
    pub counter: u32,
}

impl Numbers {
    /// Those of a start.
    pub const FIRST: Self = Self { list: 1, counter: 0 };
}

/// Access lists compiled.
pub struct Lists {
    /// The lists, by their number.
    pub lists: AccessLists,
    /// See [`Layout::pairs`](super::Layout::pairs).
    pub pairs: HashMap<(u16, u16), u16>,
    /// Counters of their rules.
    pub counters: u32,
    /// The number behind the last.
    pub end: u16,
}

fn too_many_lists() -> ConfigError {
    wrong(&[&"acl"], "more access lists than can be numbered", "fewer lists, or restart the gateway")
}

/// Of pairs of lists, the list that does as both.
type Pairs = HashMap<(u16, u16), u16>;

impl Config {
    /// The access lists, and those that do as two of them.
    ///
    /// # Errors
    /// The first rule that is invalid, by key.
    pub fn access_lists(&self, from: Numbers, groups: &[GroupPlan], profiles: &[ProfilePlan]) -> Result<Lists> {
        let (mut lists, counters, rules) = self.lists(from)?;
        let (pairs, end) = self.pairs((from.list, groups, profiles), &rules, &mut lists)?;
        Ok(Lists { lists, pairs, counters, end })
    }

    /// The access lists, how many counters they have, and each one's rules.
    fn lists(&self, from: Numbers) -> Result<(AccessLists, u32, Vec<ListRules>)> {
        let (mut lists, mut counter, mut all) = (AccessLists::default(), from.counter, Vec::new());
        for (n, acl) in self.acl.iter().enumerate() {
            let rules = ListRules::read(n, &acl.rules, acl.default, counter)?;
            let number = u16::try_from(n).ok().and_then(|n| from.list.checked_add(n)).ok_or_else(too_many_lists)?;
            lists.set(number, rules.compile(n)?);
            counter = rules.counter + 1;
            all.push(rules);
        }
        Ok((lists, counter - from.counter, all))
    }

    /// Compiles each pair of a profile's list and a location's into one, where that is the same: a list that only denies
    /// and permits by default may stand before the other. Packets are then held against one list instead of two; what its
    /// default would have permitted is counted where the other list decides.
    fn pairs(
        &self,
        (from, groups, profiles): (u16, &[GroupPlan], &[ProfilePlan]),
        all: &[ListRules],
        lists: &mut AccessLists,
    ) -> Result<(Pairs, u16)> {
        let next = u16::try_from(self.acl.len()).ok().and_then(|len| from.checked_add(len));
        let (mut pairs, mut next) = (HashMap::new(), next.ok_or_else(too_many_lists)?);
        for pair in profiles.iter().flat_map(|profile| groups.iter().map(|group| (profile.acl, group.acl))) {
            let of = |number: u16| number.checked_sub(from).and_then(|at| all.get(usize::from(at)));
            let (Some(first), Some(second)) = (of(pair.0), of(pair.1)) else { continue };
            let (before, behind) = if only_denies(first) { (first, second) } else { (second, first) };
            let rules: Vec<Rule> = before.rules.iter().chain(&behind.rules).copied().collect();
            if pairs.contains_key(&pair) || !only_denies(before) || rules.len() > MOST_TOGETHER || next == u16::MAX {
                continue;
            }
            if let Ok(list) = AccessList::compile(&rules, behind.default, behind.counter) {
                lists.set(next, list);
                pairs.insert(pair, next);
                next += 1;
            }
        }
        Ok((pairs, next))
    }
}
