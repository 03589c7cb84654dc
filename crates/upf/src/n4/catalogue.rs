//! What control planes know by name only: forwarding policies and predefined rules (3GPP TS 29.244, 5.19, 8.2.23, 8.2.72).

use std::net::IpAddr;

use pfcp::Element;
use pfcp::ie::{ActivatePredefinedRules, Cause, ForwardingPolicy, OffendingIe};
use stages::filter::{FlowDescription, Sdf};
use stages::forward::InstanceId;

use super::problem::Problem;
use crate::config::{Action, Config, parse_rate};
use crate::rules::{Apply, Far, Mbr, Outer, TunnelEnd};

/// A way to forward packets.
#[derive(Clone, Debug)]
pub struct Policy {
    name: Box<str>,
    instance: Option<InstanceId>,
    dscp: Option<u8>,
    via: Option<IpAddr>,
}

impl Policy {
    /// What packets are marked with, if they are.
    pub fn dscp(&self) -> Option<u8> {
        self.dscp
    }

    /// Lets a FAR go by it. A tunnel's network is its end's.
    pub fn apply(&self, far: &mut Far) {
        if far.tunnel.is_none() {
            far.instance = self.instance.unwrap_or(far.instance);
            far.tunnel = self.via.map(|address| TunnelEnd { address, teid: 0, outer: Outer::Nothing });
        }
        far.dscp = far.dscp.or(self.dscp);
    }
}

/// Rules that are activated by name.
#[derive(Clone, Debug)]
pub struct Predefined {
    name: Box<str>,
    /// SDF filters; none: those of the PDR that activates it.
    pub filters: Vec<Sdf>,
    /// Precedence; none: the PDR's.
    pub precedence: Option<u32>,
    /// Packets are dropped.
    pub drops: bool,
    /// The policy they are forwarded by.
    pub policy: Option<Policy>,
    /// Rates in each session.
    pub mbr: Mbr,
}

impl Predefined {
    /// Changes a PDR's own FAR as these rules say.
    pub fn apply(&self, far: &mut Far) {
        if self.drops {
            far.apply = Apply::Drop;
        }
        if let Some(policy) = &self.policy {
            policy.apply(far);
        }
    }
}

/// All there is.
#[derive(Clone, Debug, Default)]
pub struct Catalogue {
    policies: Vec<Policy>,
    predefined: Vec<Predefined>,
}

impl Catalogue {
    /// As configured; mistakes were found before.
    pub fn of(config: &Config) -> Self {
        let Some(n4) = &config.n4 else { return Self::default() };
        let names = config.instances();
        // A handful of names.
        let number = |name: &str| names.iter().position(|n| n == name).map(|at| at as InstanceId);
        let policy = |policy: &crate::config::Policy| Policy {
            name: policy.name.as_str().into(),
            instance: policy.network(config).and_then(number),
            dscp: policy.dscp,
            via: policy.via,
        };
        let policies: Vec<Policy> = n4.policy.iter().map(policy).collect();
        let rate = |text: &Option<String>| text.as_deref().and_then(parse_rate);
        let predefined = n4.predefined.iter().map(|rule| Predefined {
            name: rule.name.as_str().into(),
            filters: rule.filters.iter().filter_map(|f| f.parse::<FlowDescription>().ok()).map(Sdf::from).collect(),
            precedence: rule.precedence,
            drops: rule.action == Some(Action::Drop),
            policy: rule.policy.as_deref().and_then(|name| policies.iter().find(|p| *p.name == *name).cloned()),
            mbr: Mbr { up: rate(&rule.mbr_up), down: rate(&rule.mbr_down) },
        });
        Self { predefined: predefined.collect(), policies }
    }

    /// The policy of a name.
    ///
    /// # Errors
    /// There is none.
    pub fn policy(&self, name: &ForwardingPolicy) -> Result<&Policy, Problem> {
        let unknown = Problem::of(Cause::INVALID_FORWARDING_POLICY);
        let problem = Problem { ie: Some(OffendingIe(ForwardingPolicy::TYPE)), ..unknown };
        self.policies.iter().find(|policy| policy.name == name.0).ok_or(problem)
    }

    /// The rules of a name, and their number.
    ///
    /// # Errors
    /// There are none.
    pub fn predefined(&self, name: &ActivatePredefinedRules) -> Result<(u32, &Predefined), Problem> {
        let unknown = Problem::of(Cause::UNKNOWN_PRE_DEFINED_RULE);
        let problem = Problem { ie: Some(OffendingIe(ActivatePredefinedRules::TYPE)), ..unknown };
        let at = self.predefined.iter().position(|rule| *rule.name == *name.0).ok_or(problem)?;
        Ok((at as u32, &self.predefined[at])) // as many as were written down
    }
}
