//! What a plan allows at most, and where: machines outside of it are refused before any is ranked.
//!
//! Machines, money and power count at P90, with spares: what may well be exceeded is not kept. What is not known of a
//! machine and bounded by the plan refuses it: unknown is not unlimited.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::fit::Refusal;
use crate::known::Known;
use crate::machine::{Machine, Place};
use crate::plan::Candidate;
use crate::quantity::{Hourly, Power, Ratio};
use crate::question::Question;
use crate::site::{Judged, Outcome};

/// `[bounds]`: the most of each; what is left out is not bounded.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct BoundsInput {
    /// Machines and traffic, an hour.
    pub budget: Option<Known<Hourly>>,
    /// What servers of one's own draw.
    pub power: Option<Known<Power>>,
    /// Of servers of one's own.
    pub rack_units: Option<u32>,
    /// Machines, spares among them.
    pub machines: Option<u32>,
}

/// Where a machine would be.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Whereto {
    pub site: String,
    pub outcome: Outcome,
    /// Checks that nobody can say the outcome of.
    pub open: Vec<String>,
    /// What an hour of a machine costs there, by its price in the region; the candidate's price is with it.
    pub price: Option<Known<Ratio>>,
    /// What traffic leaves it through.
    pub gateway: Option<crate::site::Outlet>,
}

/// The best site that has a machine, of several as good the cheapest; none where nothing was asked of sites.
///
/// # Errors
/// No site that has it is as the plan wants it: each with what failed.
pub(crate) fn site_for(machine: &Machine, sites: &[Judged]) -> Result<Option<Whereto>, String> {
    if sites.is_empty() {
        return Ok(None);
    }
    let of_place: Vec<&Judged> = sites.iter().filter(|site| site.of.has(machine)).collect();
    let dear = |site: &Judged| site.price.as_ref().map_or(1.0, |price| price.value.0);
    let best = of_place.iter().min_by(|a, b| a.outcome.cmp(&b.outcome).then(dear(a).total_cmp(&dear(b))));
    let Some(best) = best else {
        let others = sites.iter().filter(|site| site.place == machine.place);
        let told: Vec<String> = others
            .map(|site| {
                format!(
                    "{}: not there{}",
                    site.site,
                    site.has.as_ref().map_or_else(String::new, |has| format!(" ({has})"))
                )
            })
            .collect();
        return Err(if told.is_empty() { "no site has such machines".to_owned() } else { told.join("; ") });
    };
    let told = |site: &Judged, outcome: Outcome| -> Vec<String> {
        let checks = site.checks.iter().filter(|check| check.outcome == outcome);
        checks.map(|check| format!("{}: {}: {}", site.site, check.what, check.reason)).collect()
    };
    if best.outcome == Outcome::Failed {
        let all: Vec<String> = of_place.iter().flat_map(|site| told(site, Outcome::Failed)).collect();
        return Err(all.join("; "));
    }
    Ok(Some(Whereto {
        site: best.site.clone(),
        outcome: best.outcome,
        open: told(best, Outcome::Unknown),
        price: best.price.clone(),
        gateway: best.gateway,
    }))
}

/// Moves machines to their sites: their prices become those there, and their traffic leaves through what there is.
pub(crate) fn settle(machines: &mut [Machine], sites: &[Judged]) {
    for machine in machines.iter_mut().filter(|machine| machine.place == Place::Cloud) {
        let Ok(Some(site)) = site_for(machine, sites) else { continue };
        machine.through_gateway = site.gateway == Some(crate::site::Outlet::Local);
        let Some(by) = &site.price else { continue };
        for price in [&mut machine.price, &mut machine.host_price].into_iter().flatten() {
            *price = Known {
                low: price.low * by.low.0,
                value: price.value * by.value.0,
                high: price.high * by.high.0,
                from: price.from.max(by.from),
                source: format!("{}; {}: times {by}", price.source, site.site),
            };
        }
    }
}

/// Dedicated hosts that an account has in a region unless more are granted (vcmts-cloud-2021).
const HOSTS: u32 = 2;

/// Whether so many dedicated hosts can be had.
pub(crate) fn hosts(question: &Question, machine: &Machine, hosts: u32) -> Result<(), (Refusal, String)> {
    let of_cloud = (machine.provider == "aws").then_some(HOSTS);
    match question.placement.hosts.or(of_cloud) {
        Some(most) if hosts > most => {
            let why = if question.placement.hosts.is_some() {
                format!("placement.hosts is {most}")
            } else {
                format!("an account has {most} in a region unless more are granted: placement.hosts")
            };
            Err((Refusal::OutOfBounds, format!("{hosts} dedicated hosts, {why}")))
        }
        _ => Ok(()),
    }
}

/// Whether a candidate, with its quantiles, is within the plan's bounds. `on_host`: machines on a dedicated host, where
/// the plan wants such.
pub(crate) fn within(
    question: &Question,
    machine: &Machine,
    one: &Candidate,
    on_host: Option<u32>,
) -> Result<(), (Refusal, String)> {
    let bounds = &question.bounds;
    let out = |what: String| Err((Refusal::OutOfBounds, what));
    let most = [
        ("bounds.machines", bounds.machines),
        ("autoscale.most_machines", question.autoscale.as_ref().and_then(|auto| auto.most_machines)),
    ];
    let machines = one.machines_range.p90.map(|p90| p90.max(one.machines));
    for (key, most) in most.into_iter().filter_map(|(key, most)| Some((key, most?))) {
        match machines {
            Some(machines) if machines <= most => {}
            Some(machines) => return out(format!("{machines} machines at P90, {key} is {most}")),
            None => return out(format!("no number of machines at P90, {key} is {most}")),
        }
    }
    if let Some(on_one) = on_host {
        hosts(question, machine, machines.unwrap_or(one.machines).div_ceil(on_one))
            .map_err(|(refusal, why)| (refusal, why.replacen("dedicated hosts", "dedicated hosts at P90", 1)))?;
    }
    if let Some(most) = &bounds.budget {
        match one.total_usd_per_hour_range.p90 {
            Some(usd) if usd <= most.value.0 => {}
            Some(usd) => return out(format!("{usd:.2} $/h at P90, bounds.budget is {}", most.value)),
            None => return out(format!("its cost at P90 is not known, bounds.budget is {}", most.value)),
        }
    }
    if machine.place == Place::Cloud {
        return Ok(());
    }
    let count = f64::from(machines.unwrap_or(one.machines));
    if let Some(most) = &bounds.power {
        match one.power.map(|power| power * (count / f64::from(one.machines))) {
            Some(power) if power <= most.value => {}
            Some(power) => return out(format!("{power} at P90, bounds.power is {}", most.value)),
            None => return out(format!("its power is not known, bounds.power is {}", most.value)),
        }
    }
    if let Some(most) = bounds.rack_units {
        match machine.rack_units.map(|each| f64::from(each) * count) {
            Some(units) if units <= f64::from(most) => {}
            Some(units) => return out(format!("{units} rack units at P90, bounds.rack_units is {most}")),
            None => return out(format!("its rack units are not known, bounds.rack_units is {most}")),
        }
    }
    Ok(())
}
