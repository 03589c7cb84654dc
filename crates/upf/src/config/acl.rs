//! `[[acl]]`: what may pass between subscribers and a network instance.

use dataplane::acl::AccessLists;
use dataplane::config::ListRules;
pub use dataplane::config::Otherwise;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Config, ConfigError, wrong};

/// The access list of a network instance: the first rule that matches decides. Rules see subscribers' own addresses,
/// before and behind translation.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Acl {
    /// The network instance; left out: `core`.
    #[serde(default)]
    pub instance: Option<String>,
    /// Rules: `deny in tcp from any to any port 25`; `in` is from subscribers, `out` to them.
    #[serde(default)]
    pub rules: Vec<String>,
    /// What becomes of packets that no rule matches.
    #[serde(default)]
    pub default: Otherwise,
}

/// All lists, compiled, and how many counters they have, from number `first`: one for each rule and one for each list's
/// default, in the order they are written in.
///
/// # Errors
/// The first rule that is invalid, by key.
pub fn lists(config: &Config, first: u32) -> Result<(AccessLists, u32), ConfigError> {
    let mut lists = AccessLists::default();
    let mut counter = first;
    for (n, acl) in config.acl.iter().enumerate() {
        config.check_instance(&[&"acl", &n, &"instance"], acl.instance.as_deref())?;
        let instance = config.instance(acl.instance.as_deref());
        if config.acl[..n].iter().any(|other| config.instance(other.instance.as_deref()) == instance) {
            let what = "a second list for one network instance";
            return Err(wrong(&[&"acl", &n, &"instance"], what, "put the rules of both into one"));
        }
        let rules = ListRules::read(n, &acl.rules, acl.default, counter)?;
        counter = rules.counter + 1;
        lists.set(instance, rules.compile(n)?);
    }
    Ok((lists, counter - first))
}
