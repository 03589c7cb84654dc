//! `[[acl]]`: what of access lists all gateways that have them have in common.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{ConfigError, wrong};
use crate::acl::{AccessList, Action, Rule, RuleError};

/// What becomes of packets that no rule matches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Otherwise {
    /// They pass.
    #[default]
    Permit,
    /// They are dropped.
    Deny,
}

/// An access list before it is compiled.
pub struct ListRules {
    /// Its rules, with a counter each.
    pub rules: Vec<Rule>,
    /// What becomes of packets that no rule matches.
    pub default: Action,
    /// The counter of those.
    pub counter: u32,
}

impl ListRules {
    /// The list in entry `n` of `[[acl]]`; its counters begin at `first`, and those of the next one behind [`counter`](Self::counter).
    ///
    /// # Errors
    /// The first rule that is invalid, by key.
    pub fn read(n: usize, rules: &[String], default: Otherwise, first: u32) -> Result<Self, ConfigError> {
        let default = if default == Otherwise::Permit { Action::Permit } else { Action::Deny };
        let rule = |((m, text), counter): ((usize, &String), u32)| {
            let rule: Rule = text.parse().map_err(|why: RuleError| {
                wrong(&[&"acl", &n, &"rules", &m], format!("\"{text}\" is not a rule"), why.to_string())
            })?;
            Ok(Rule { counter, ..rule })
        };
        let rules = rules.iter().enumerate().zip(first..).map(rule).collect::<Result<Vec<_>, _>>()?;
        let counter = first + rules.len() as u32; // fewer than MAX_RULES, or it is not compiled
        Ok(Self { rules, default, counter })
    }

    /// What packets are held against.
    ///
    /// # Errors
    /// There are too many rules in entry `n`.
    pub fn compile(&self, n: usize) -> Result<AccessList, ConfigError> {
        let list = AccessList::compile(&self.rules, self.default, self.counter);
        list.map_err(|why| wrong(&[&"acl", &n, &"rules"], why.to_string(), "fewer rules"))
    }
}
