//! What control planes know by name only: forwarding policies and predefined rules (3GPP TS 29.244, 5.19, 8.2.23, 8.2.72).

use std::net::IpAddr;

use dataplane::filter::{FlowDescription, Sdf};
use dataplane::forward::InstanceId;
use pfcp::Element;
use pfcp::group::{CreatePdr, CreateUrr};
use pfcp::ie::{
    ActivatePredefinedRules, Cause, ForwardingPolicy, MeasurementInformation, MeasurementMethod, MeasurementPeriod,
    OffendingIe, ReportingTriggers, TimeThreshold, UrrId, VolumeQuota, VolumeThreshold,
};

use super::change::Rules;
use super::problem::Problem;
use crate::config::{Action, Config, PredefinedUsage, parse_rate};
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
    /// What becomes of packets; none: what the PDR's FAR says.
    pub action: Option<Action>,
    /// The page that subscribers are sent to.
    page: Option<Box<str>>,
    /// The policy they are forwarded by.
    pub policy: Option<Policy>,
    /// Rates in each session.
    pub mbr: Mbr,
    /// QoS flow of packets to the subscriber.
    pub qfi: Option<u8>,
    /// How packets are measured.
    pub urr: Option<CreateUrr>,
}

impl Predefined {
    /// Changes a PDR's own FAR as these rules say.
    pub fn apply(&self, far: &mut Far) {
        match self.action {
            Some(Action::Drop) => far.apply = Apply::Drop,
            Some(Action::Redirect) => (far.apply, far.page) = (Apply::Redirect, self.page.clone()),
            Some(Action::Forward) | None => {}
        }
        if let Some(policy) = &self.policy {
            policy.apply(far);
        }
    }
}

/// Set in the IDs of URRs that are not the control plane's (8.2.54).
const OURS: u32 = 1 << 31;

/// A usage reporting rule as a control plane would say it.
fn urr(usage: &PredefinedUsage) -> CreateUrr {
    let when = |wanted: bool, trigger| if wanted { trigger } else { ReportingTriggers::NONE };
    CreateUrr {
        urr_id: UrrId(OURS | usage.id),
        measurement_method: MeasurementMethod::VOLUM | MeasurementMethod::DURAT,
        reporting_triggers: when(usage.volume_threshold.is_some(), ReportingTriggers::VOLTH)
            | when(usage.volume_quota.is_some(), ReportingTriggers::VOLQU)
            | when(usage.time_threshold.is_some(), ReportingTriggers::TIMTH)
            | when(usage.period.is_some(), ReportingTriggers::PERIO),
        measurement_information: Some(MeasurementInformation::MNOP),
        volume_threshold: usage.volume_threshold.map(VolumeThreshold::total),
        volume_quota: usage.volume_quota.map(VolumeQuota::total),
        time_threshold: usage.time_threshold.map(TimeThreshold),
        measurement_period: usage.period.map(MeasurementPeriod),
        ..CreateUrr::default()
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
            via: policy.next_hop,
        };
        let policies: Vec<Policy> = n4.policy.iter().map(policy).collect();
        let rate = |text: &Option<String>| text.as_deref().and_then(parse_rate);
        let predefined = n4.predefined.iter().map(|rule| Predefined {
            name: rule.name.as_str().into(),
            filters: rule.filters.iter().filter_map(|f| f.parse::<FlowDescription>().ok()).map(Sdf::from).collect(),
            precedence: rule.precedence,
            action: rule.action,
            page: rule.page.as_deref().map(Box::from),
            policy: rule.policy.as_deref().and_then(|name| policies.iter().find(|p| *p.name == *name).cloned()),
            mbr: Mbr { up: rate(&rule.mbr_up), down: rate(&rule.mbr_down) },
            qfi: rule.qfi,
            urr: rule.usage.as_ref().map(urr),
        });
        Self { predefined: predefined.collect(), policies }
    }

    /// Has a session's rules measure what those it has activated say: their URRs are there as long as these are active, and
    /// report like any other.
    pub fn measure(&self, rules: &mut Rules) {
        let pdrs = &rules.create_pdrs;
        let activates =
            |pdr: &CreatePdr, rule: &Predefined| pdr.activate_predefined_rules.iter().any(|name| *name.0 == *rule.name);
        let is_active = |rule: &&Predefined| pdrs.iter().any(|pdr| activates(pdr, rule));
        let active: Vec<&CreateUrr> = self.predefined.iter().filter(is_active).filter_map(|r| r.urr.as_ref()).collect();
        let is_ours = |urr: &CreateUrr| self.predefined.iter().flat_map(|r| &r.urr).any(|own| own.urr_id == urr.urr_id);
        rules.create_urrs.retain(|urr| !is_ours(urr) || active.iter().any(|own| own.urr_id == urr.urr_id));
        for urr in active {
            if rules.create_urrs.iter().all(|there| there.urr_id != urr.urr_id) {
                rules.create_urrs.push(urr.clone());
            }
        }
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
