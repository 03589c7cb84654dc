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
use crate::quantity::{Hourly, Power};
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
}

/// The best site for machines of a kind of place; none where nothing was asked of sites.
///
/// # Errors
/// No site of that kind is as the plan wants it: each with what failed.
pub(crate) fn site_for(place: Place, sites: &[Judged]) -> Result<Option<Whereto>, String> {
    let of_place: Vec<&Judged> = sites.iter().filter(|site| site.place == place).collect();
    let Some(best) = of_place.iter().min_by_key(|site| site.outcome) else { return Ok(None) };
    let told = |site: &Judged, outcome: Outcome| -> Vec<String> {
        let checks = site.checks.iter().filter(|check| check.outcome == outcome);
        checks.map(|check| format!("{}: {}: {}", site.site, check.what, check.reason)).collect()
    };
    if best.outcome == Outcome::Failed {
        let all: Vec<String> = of_place.iter().flat_map(|site| told(site, Outcome::Failed)).collect();
        return Err(all.join("; "));
    }
    Ok(Some(Whereto { site: best.site.clone(), outcome: best.outcome, open: told(best, Outcome::Unknown) }))
}

/// Whether a candidate, with its quantiles, is within the plan's bounds.
pub(crate) fn within(question: &Question, machine: &Machine, one: &Candidate) -> Result<(), (Refusal, String)> {
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
