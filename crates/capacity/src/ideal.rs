//! What would the ideal instance be? The question a publication closes with: one that leaves nothing unused.
//!
//! For each number of units a machine might run, what it would need and no more; at what the best cloud machine's
//! family costs per vCPU. Fewer units on a machine lose less with it and cost less to keep spare; more units share one
//! interface for administration.

use schemars::JsonSchema;
use serde::Serialize;

use crate::machine::Place;
use crate::placement::with_spares;
use crate::plan::{Candidate, Planner, Throughput};
use crate::quantity::{Hourly, Memory};

/// What an instance made for this workload would have.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Ideal {
    /// Whose throughput and price per vCPU were taken.
    pub after: String,
    /// The family's price of a vCPU.
    pub usd_per_vcpu_hour: Option<Hourly>,
    /// By number of units.
    pub sizes: Vec<Size>,
    /// The one that costs least with spares.
    pub best: usize,
    /// What the machine it is modelled after has too much or too little of.
    pub lacks: Vec<String>,
}

/// An instance for so many units.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Size {
    pub units: u32,
    pub vcpus: u32,
    pub interfaces: u32,
    /// Memory, where a unit's need is known.
    pub memory: Option<Memory>,
    /// What passes it each way, all the time.
    pub carries: Throughput,
    /// Machines with spares.
    pub machines: u32,
    /// All of them, an hour.
    pub usd_per_hour: Option<Hourly>,
    /// The share of subscribers lost with one.
    pub lost_with_one: f64,
}

/// After the best candidate of a cloud, or the best of all.
pub(crate) fn ideal(planner: &Planner, candidates: &[Candidate]) -> Option<Ideal> {
    let model = candidates.iter().find(|c| c.place == Place::Cloud).or(candidates.first())?;
    let machine = planner.machine(&model.machine)?;
    let vcpu = machine.price.as_ref().zip(machine.vcpus).map(|(price, n)| price.value / f64::from(n));
    let sizes: Vec<Size> = (1..=model.units.max(4)).filter_map(|units| size(planner, model, units, vcpu)).collect();
    let cost = |size: &Size| size.usd_per_hour.map_or(f64::from(size.machines * size.vcpus), |usd| usd.0);
    let best = (0..sizes.len()).min_by(|a, b| cost(&sizes[*a]).total_cmp(&cost(&sizes[*b])))?;
    let at_model = sizes.iter().find(|size| size.units == model.units);
    let lacks = at_model.map(|size| lacks(planner, model, size)).unwrap_or_default();
    Some(Ideal { after: model.machine.clone(), usd_per_vcpu_hour: vcpu, sizes, best, lacks })
}

fn size(planner: &Planner, model: &Candidate, units: u32, vcpu: Option<Hourly>) -> Option<Size> {
    let machine = planner.machine(&model.machine)?;
    let unit = &planner.unit;
    let kept = planner.kept(machine).value.0;
    let each = planner.sources.each(machine, units, planner.question.points).ok()?.0.value.0 * kept;
    let (needed, share) = match planner.demand.groups {
        Some(groups) if each * f64::from(groups) < 1.0 - 1e-9 => return None,
        Some(groups) => (groups.div_ceil(units), f64::from(units.min(groups)) / f64::from(groups)),
        None => ((1.0 / (each * f64::from(units)) - 1e-9).ceil() as u32, each * f64::from(units)),
    };
    let vcpus = units * unit.vcpus + unit.reserved_vcpus;
    let machines = with_spares(needed, &planner.question.failure);
    let load = planner.load(share.min(1.0));
    Some(Size {
        units,
        vcpus,
        interfaces: unit.interfaces_of(units),
        memory: unit.memory.as_ref().map(|memory| memory.value * f64::from(units)),
        carries: Throughput { bits: load.bits, packets: load.packets },
        machines,
        usd_per_hour: vcpu.map(|usd| usd * f64::from(vcpus * machines)),
        lost_with_one: share.min(1.0),
    })
}

fn lacks(planner: &Planner, model: &Candidate, size: &Size) -> Vec<String> {
    let Some(machine) = planner.machine(&model.machine) else { return Vec::new() };
    let mut lacks = Vec::new();
    let mut compare = |what: &str, there: Option<f64>, needed: f64, show: &dyn Fn(f64) -> String| match there {
        Some(there) if there > needed * 1.0001 => {
            let over = 100.0 * (1.0 - needed / there);
            lacks.push(format!("{what}: {} where {} would do, {over:.0} % unused", show(there), show(needed)));
        }
        _ => {}
    };
    let whole = |n: f64| format!("{n:.0}");
    compare("vCPUs", machine.vcpus.map(f64::from), f64::from(size.vcpus), &whole);
    compare("interfaces", machine.interfaces.map(f64::from), f64::from(size.interfaces), &whole);
    if let Some(bits) = size.carries.bits {
        let show = |bits: f64| crate::quantity::BitRate(bits).to_string();
        let there = crate::limits::bandwidth(machine, &planner.question.placement);
        compare("bandwidth", there.map(|(there, _)| there.0), bits.0, &show);
    }
    lacks.push(format!("more units on it: bound by {} ({})", model.binding.limit, model.binding.why));
    lacks
}
