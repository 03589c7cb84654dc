//! Where to put it: each kind of site against the plan's bounds, passed, failed or unknown, with the reason.
//!
//! The criteria are those of vcmts-cloud-2021: latency, jitter, determinism, time protocol, space, power, skill,
//! availability. What the sites promise stands in `data/sites.toml` and can be replaced in the plan, site by site.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::known::Known;
use crate::machine::{Machine, Place};
use crate::quantity::{Quantity, Ratio, Time};

/// The sites that come with weir.
pub const SITES: &str = include_str!("../data/sites.toml");

/// `[site]`: what the place must be like. What is left out does not matter.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Bounds {
    /// The most from the access network to the gateway, one way.
    pub latency: Option<Known<Time>>,
    /// The most that may vary.
    pub jitter: Option<Known<Time>>,
    /// No neighbours on the hosts.
    pub deterministic: bool,
    /// Time by IEEE 1588 or DTP must be had.
    pub time_protocol: bool,
    /// There is space for equipment of one's own.
    pub have_space: Option<bool>,
    /// There is power and cooling for it.
    pub have_power: Option<bool>,
    /// There are people who run hardware.
    pub have_skill: Option<bool>,
    /// The least availability, such as 0.9999.
    pub availability: Option<Known<Ratio>>,
    /// What sites promise, instead of what comes with weir.
    pub option: Vec<Site>,
}

/// A kind of site.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Site {
    /// What it is called.
    pub name: String,
    #[serde(default)]
    pub about: String,
    /// Whose machines are there; left out: a cloud's, of a name that comes with weir what it is there.
    pub machines: Option<Place>,
    /// From the access network to it, one way.
    pub latency: Option<Known<Time>>,
    /// How much that varies.
    pub jitter: Option<Known<Time>>,
    /// Whether hosts without neighbours can be had.
    pub deterministic: Option<bool>,
    /// Whether time by IEEE 1588 or DTP can be had.
    pub time_protocol: Option<bool>,
    /// Whether it takes space of one's own.
    pub needs_space: Option<bool>,
    /// Whether it takes power and cooling of one's own.
    pub needs_power: Option<bool>,
    /// Whether it takes people who run hardware.
    pub needs_skill: Option<bool>,
    /// How much of the time it is there.
    pub availability: Option<Known<Ratio>>,
    /// Whose machines are there: `aws`; left out: any provider's.
    pub provider: Option<String>,
    /// Families that are there; with `types` left out, too: all.
    #[serde(default)]
    pub families: Vec<String>,
    /// Types that are there beside those families.
    #[serde(default)]
    pub types: Vec<String>,
    /// What an hour of a machine costs there, by its price in the region.
    pub price: Option<Known<Ratio>>,
    /// What traffic leaves it through.
    pub gateway: Option<Outlet>,
}

/// What the traffic of a site leaves through.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Outlet {
    /// The VPC's routes: the whole bandwidth.
    Vpc,
    /// A carrier gateway, to the operator's network: IPv4, 1500 bytes.
    Carrier,
    /// A local gateway, to one's own network: half of the bandwidth from 32 vCPUs on, 5 Gbit/s below.
    Local,
}

impl Site {
    /// Whether a machine can be had there.
    pub fn has(&self, machine: &Machine) -> bool {
        let family = machine.family.split_once('/').map_or(machine.family.as_str(), |(_, family)| family);
        let all = self.families.is_empty() && self.types.is_empty();
        self.machines.unwrap_or(Place::Cloud) == machine.place
            && self.provider.as_ref().is_none_or(|provider| *provider == machine.provider)
            && (all || self.families.iter().any(|one| one == family) || self.types.contains(&machine.name))
    }

    /// Which machines it has, in words; none: any.
    fn told(&self) -> Option<String> {
        let list = self.families.iter().chain(&self.types).map(String::as_str).collect::<Vec<_>>().join(", ");
        match (&self.provider, list.is_empty()) {
            (None, true) => None,
            (Some(provider), true) => Some(format!("of {provider}")),
            (None, false) => Some(list),
            (Some(provider), false) => Some(format!("of {provider}: {list}")),
        }
    }
}

/// A file of sites: `[[site]]` sections.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sites {
    pub site: Vec<Site>,
}

/// What became of a site.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// It is as it must be.
    Passed,
    /// Nobody knows.
    Unknown,
    /// It is not.
    Failed,
}

impl std::fmt::Display for Outcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Self::Passed => "passed",
            Self::Unknown => "unknown",
            Self::Failed => "failed",
        })
    }
}

/// A site against one bound.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Check {
    /// `latency`, `jitter`, …
    pub what: &'static str,
    /// What became of it.
    pub outcome: Outcome,
    /// Why.
    pub reason: String,
}

/// A site against all bounds.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Judged {
    pub site: String,
    /// Whose machines are there.
    pub place: Place,
    /// The worst of its checks.
    pub outcome: Outcome,
    /// Each bound.
    pub checks: Vec<Check>,
    /// Which machines are there; left out: all of its place.
    pub has: Option<String>,
    /// What an hour of a machine costs there, by its price in the region.
    pub price: Option<Known<Ratio>>,
    pub gateway: Option<Outlet>,
    /// What it was judged by.
    #[serde(skip)]
    pub(crate) of: Site,
}

/// Every site against the bounds: those that come with weir, each replaced by the plan's of the same name, then the
/// plan's others. Best first.
pub fn judge(bounds: &Bounds, known: &[Site]) -> Vec<Judged> {
    let own = |site: &Site| {
        let own = bounds.option.iter().find(|own| own.name == site.name)?;
        let lists = own.families.is_empty() && own.types.is_empty();
        let lists = if lists { site } else { own };
        Some(Site {
            machines: own.machines.or(site.machines),
            provider: own.provider.clone().or_else(|| site.provider.clone()),
            families: lists.families.clone(),
            types: lists.types.clone(),
            price: own.price.clone().or_else(|| site.price.clone()),
            gateway: own.gateway.or(site.gateway),
            ..own.clone()
        })
    };
    let mut sites: Vec<Site> = known.iter().map(|site| own(site).unwrap_or_else(|| site.clone())).collect();
    sites.extend(bounds.option.iter().filter(|own| known.iter().all(|site| site.name != own.name)).cloned());
    let mut judged: Vec<Judged> = sites.iter().map(|site| against(site, bounds)).collect();
    judged.sort_by_key(|judged| judged.outcome);
    judged
}

fn against(site: &Site, bounds: &Bounds) -> Judged {
    let mut checks = Vec::new();
    let mut add = |what, outcome, reason: String| checks.push(Check { what, outcome, reason });
    for (what, bound, there) in [("latency", &bounds.latency, &site.latency), ("jitter", &bounds.jitter, &site.jitter)]
    {
        let Some(bound) = bound else { continue };
        let (outcome, reason) = at_most(bound.value, there.as_ref());
        add(what, outcome, reason);
    }
    let offered = [
        ("determinism", bounds.deterministic, site.deterministic, "hosts without neighbours"),
        ("time protocol", bounds.time_protocol, site.time_protocol, "time by IEEE 1588 or DTP"),
    ];
    for (what, _, there, thing) in offered.into_iter().filter(|(_, wanted, ..)| *wanted) {
        match there {
            Some(true) => add(what, Outcome::Passed, format!("{thing} can be had")),
            Some(false) => add(what, Outcome::Failed, format!("{thing} is not available")),
            None => add(what, Outcome::Unknown, format!("whether {thing} can be had is not known: ask")),
        }
    }
    let taken = [
        ("space", bounds.have_space, site.needs_space, "space"),
        ("power", bounds.have_power, site.needs_power, "power and cooling"),
        ("skill", bounds.have_skill, site.needs_skill, "people who run hardware"),
    ];
    for (what, have, needs, thing) in taken {
        match (have, needs) {
            (None, _) => {}
            (_, Some(false)) => add(what, Outcome::Passed, format!("it takes no {thing} of one's own")),
            (Some(true), Some(true)) => add(what, Outcome::Passed, format!("it takes {thing}, which there is")),
            (Some(false), Some(true)) => add(what, Outcome::Failed, format!("it takes {thing}, which there is not")),
            (Some(_), None) => add(what, Outcome::Unknown, format!("whether it takes {thing} is not known: ask")),
        }
    }
    if let Some(bound) = &bounds.availability {
        let (outcome, reason) = match &site.availability {
            None => (Outcome::Unknown, "not known: ask".to_owned()),
            Some(there) => {
                let reason = format!("{} % ({}), wanted {} %", percent(there), there.from, percent(bound));
                let outcome = match () {
                    () if there.low >= bound.value => Outcome::Passed,
                    () if there.high < bound.value => Outcome::Failed,
                    () => Outcome::Unknown,
                };
                (outcome, reason)
            }
        };
        add("availability", outcome, reason);
    }
    let outcome = checks.iter().map(|check| check.outcome).max().unwrap_or(Outcome::Passed);
    Judged {
        site: site.name.clone(),
        place: site.machines.unwrap_or(Place::Cloud),
        outcome,
        checks,
        has: site.told(),
        price: site.price.clone(),
        gateway: site.gateway,
        of: site.clone(),
    }
}

fn percent(known: &Known<Ratio>) -> String {
    let one = |ratio: Ratio| format!("{:.4}", 100.0 * ratio.0).trim_end_matches('0').trim_end_matches('.').to_owned();
    if known.low == known.high { one(known.value) } else { format!("{} … {}", one(known.low), one(known.high)) }
}

fn at_most<T: Quantity>(bound: T, there: Option<&Known<T>>) -> (Outcome, String) {
    let Some(there) = there else { return (Outcome::Unknown, "not known: measure it".to_owned()) };
    let range =
        if there.low < there.high { format!("{} … {}", there.low, there.high) } else { there.value.to_string() };
    let said = format!("{range} ({})", there.from);
    match () {
        () if there.high <= bound => (Outcome::Passed, format!("{said}, at most {bound} wanted")),
        () if there.low > bound => (Outcome::Failed, format!("{said}, at most {bound} wanted")),
        () => (Outcome::Unknown, format!("{said} lies on both sides of {bound}: measure it")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sites() -> Vec<Site> {
        toml::from_str::<Sites>(SITES).expect("sites.toml").site
    }

    fn outcome(bounds: &str, site: &str) -> Judged {
        let judged = judge(&toml::from_str(bounds).unwrap(), &sites());
        judged.into_iter().find(|judged| judged.site == site).unwrap()
    }

    #[test]
    fn the_five_kinds_of_site_are_there() {
        let names: Vec<String> = sites().into_iter().map(|site| site.name).collect();
        assert_eq!(names, ["region", "local zone", "edge zone", "rack on premise", "own hardware"]);
    }

    #[test]
    fn bounds_pass_fail_or_ask() {
        assert_eq!(outcome("latency = '1 s'", "region").outcome, Outcome::Passed);
        assert_eq!(outcome("latency = '1 us'", "region").outcome, Outcome::Failed);
        let between = outcome("latency = '20 ms'", "region");
        assert!(between.outcome == Outcome::Unknown && between.checks[0].reason.contains("measure it"));
        assert_eq!(outcome("time_protocol = true", "region").outcome, Outcome::Failed);
        assert_eq!(outcome("have_space = false", "own hardware").outcome, Outcome::Failed);
        assert_eq!(outcome("have_space = false", "region").outcome, Outcome::Passed);
    }

    #[test]
    fn what_was_measured_replaces_what_is_assumed() {
        let bounds =
            "latency = '20 ms'\noption = [{ name = 'region', latency = { value = '12 ms', from = 'measured' } }]";
        let judged = outcome(bounds, "region");
        assert_eq!(judged.outcome, Outcome::Passed);
        assert!(judged.checks[0].reason.contains("measured"));
    }

    #[test]
    fn a_site_has_its_types() {
        let all = crate::catalogue::catalogue();
        let machine = |name: &str| all.iter().find(|machine| machine.name == name).unwrap();
        let sites = sites();
        let has = |name: &str| -> Vec<&str> {
            sites.iter().filter(|site| site.has(machine(name))).map(|site| site.name.as_str()).collect()
        };
        assert_eq!(has("c5n.4xlarge"), ["region"]);
        assert_eq!(has("r5.2xlarge"), ["region", "local zone", "edge zone", "rack on premise"]);
        assert_eq!(has("Standard_D8s_v6"), ["region"]);
    }

    #[test]
    fn what_a_plan_says_of_a_site_keeps_its_lists() {
        let bounds = "option = [{ name = 'edge zone', latency = '1 ms' }]\nlatency = '2 ms'";
        let judged = outcome(bounds, "edge zone");
        assert_eq!((judged.outcome, judged.gateway), (Outcome::Passed, Some(Outlet::Carrier)));
        assert!(judged.has.unwrap().contains("r5.2xlarge") && judged.price.is_some());
    }

    #[test]
    fn nothing_asked_nothing_checked() {
        assert!(judge(&Bounds::default(), &sites()).iter().all(|judged| judged.checks.is_empty()));
    }
}
