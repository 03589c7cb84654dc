//! Many small or one large, at equal cost.

use schemars::JsonSchema;
use serde::Serialize;

use crate::plan::{Candidate, Planner, Throughput};

/// A family's sizes at what its dearest costs.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct EqualCost {
    pub family: String,
    /// What is spent, dollars an hour.
    pub usd_per_hour: f64,
    /// What each size makes of it, the most throughput first.
    pub sizes: Vec<AtCost>,
}

/// So many of one size.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct AtCost {
    pub machine: String,
    /// How many the money buys.
    pub count: u32,
    /// What they cost.
    pub usd_per_hour: f64,
    /// Units on all of them.
    pub units: u32,
    /// What those carry.
    pub carries: Throughput,
    /// vCPUs left unused, as a share.
    pub unused_vcpus: Option<f64>,
}

/// Families of more than one size, of those that lead.
const FAMILIES: usize = 2;
/// Sizes of a family, those that carry most.
const SIZES: usize = 6;

/// For the families of the best candidates.
pub(crate) fn equal_cost(planner: &Planner, candidates: &[Candidate]) -> Vec<EqualCost> {
    let mut families: Vec<&str> = Vec::new();
    for candidate in candidates {
        if !families.contains(&candidate.family.as_str()) {
            families.push(&candidate.family);
        }
    }
    families.into_iter().filter_map(|family| of_family(planner, candidates, family)).take(FAMILIES).collect()
}

fn of_family(planner: &Planner, candidates: &[Candidate], family: &str) -> Option<EqualCost> {
    let sizes: Vec<&Candidate> = candidates.iter().filter(|c| c.family == family).collect();
    let price = |candidate: &Candidate| {
        let price = planner.machine(&candidate.machine)?.price.as_ref()?;
        Some(crate::price::machine(price, &planner.question.price).value.0)
    };
    let budget = sizes.iter().filter_map(|candidate| price(candidate)).fold(0.0, f64::max);
    let at_cost = |candidate: &&Candidate| {
        let machine = planner.machine(&candidate.machine)?;
        let fit = planner.fit(machine, 1.0).ok()?;
        let one = price(candidate)?;
        let count = (budget / one + 1e-9).floor() as u32;
        // All that the units could carry, not only what these groups need.
        let share = fit.each * f64::from(fit.most);
        let share = if planner.demand.groups.is_some() { share } else { fit.carries };
        let load = planner.load(share * f64::from(count));
        let used = f64::from(fit.most * planner.unit.vcpus);
        Some(AtCost {
            machine: candidate.machine.clone(),
            count,
            usd_per_hour: one * f64::from(count),
            units: fit.most * count,
            carries: Throughput { bits: load.bits, packets: load.packets },
            unused_vcpus: machine.vcpus.map(|there| 1.0 - used / f64::from(there)),
        })
    };
    let mut sizes: Vec<AtCost> = sizes.iter().filter_map(at_cost).collect();
    let carried = |size: &AtCost| size.carries.bits.map(|b| b.0).or(size.carries.packets.map(|p| p.0)).unwrap_or(0.0);
    sizes.sort_by(|a, b| carried(b).total_cmp(&carried(a)));
    sizes.truncate(SIZES);
    (sizes.len() > 1).then(|| EqualCost { family: family.to_owned(), usd_per_hour: budget, sizes })
}
