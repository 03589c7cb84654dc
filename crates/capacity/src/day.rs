//! Over a day: machines that come and go with the load, and a base of one's own with a cloud for the rest.

use schemars::JsonSchema;
use serde::Serialize;

use crate::machine::{Machine, Place};
use crate::plan::{Candidate, Planner};

/// Machines hour by hour.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Day {
    pub machine: String,
    /// The load of each hour as a share of the peak.
    pub load: Vec<f64>,
    /// Machines in each hour, spares among them.
    pub machines: Vec<u32>,
    /// Machines at the peak, all day: dollars a day.
    pub fixed_usd_per_day: f64,
    /// Machines as needed: dollars a day.
    pub elastic_usd_per_day: f64,
    /// Machines started in a day.
    pub starts: u32,
}

/// Hours with less than this of the peak are the night.
const NIGHT: f64 = 0.5;

/// The best candidate of a cloud over the plan's load curve; machines on premise do not come and go.
pub(crate) fn day(planner: &Planner, candidates: &[Candidate]) -> Option<Day> {
    let load = planner.question.demand.day.clone()?;
    let best = candidates.iter().find(|c| c.place == Place::Cloud && c.usd_per_hour.is_some())?;
    let machine = planner.machine(&best.machine)?;
    let price = best.usd_per_hour.as_ref()?.value.0 / f64::from(best.machines);
    let machines: Vec<u32> = load.iter().map(|share| at(planner, machine, *share, best.machines)).collect();
    let hours: u32 = machines.iter().sum();
    let next = machines.iter().skip(1).chain(machines.first());
    let starts = machines.iter().zip(next).map(|(now, next)| next.saturating_sub(*now)).sum();
    Some(Day {
        machine: best.machine.clone(),
        load,
        fixed_usd_per_day: 24.0 * price * f64::from(best.machines),
        elastic_usd_per_day: price * f64::from(hours),
        machines,
        starts,
    })
}

/// Machines with spares at a share of the peak.
fn at(planner: &Planner, machine: &Machine, share: f64, most: u32) -> u32 {
    let scale = share.max(1e-6);
    let auto = planner.question.autoscale.as_ref();
    let mut failure = planner.question.failure.clone();
    if let Some(spares) = auto.and_then(|auto| auto.spares_at_night).filter(|_| share < NIGHT) {
        failure.spares = spares;
    }
    let least = auto.and_then(|auto| auto.least_machines).unwrap_or(1);
    let fit = planner.fit(machine, scale);
    fit.map_or(most, |fit| crate::placement::with_spares(fit.needed, &failure)).max(least).min(most)
}

/// A base on premise, the cloud for what exceeds it and for what fails.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Hybrid {
    pub server: String,
    /// The instance type.
    pub cloud: String,
    /// Every number of servers: what a day costs.
    pub mixes: Vec<Mix>,
    /// The cheapest of them.
    pub best: usize,
    /// Instances that take over for one lost server, instead of a spare server.
    pub failover_instances: u32,
    /// What they cost while they do.
    pub failover_usd_per_hour: f64,
}

/// So many servers, none of them spare, the rest in the cloud.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Mix {
    pub servers: u32,
    /// The most instances beside them.
    pub instances_at_peak: u32,
    /// Instance hours in a day.
    pub instance_hours: u32,
    /// Machines and the traffic the cloud takes money for, dollars a day.
    pub usd_per_day: f64,
}

/// Of the best server and the best instance type with prices; over the plan's load curve, or at the peak all day.
pub(crate) fn hybrid(planner: &Planner, candidates: &[Candidate]) -> Option<Hybrid> {
    let best_of = |place: Place| candidates.iter().find(|c| c.place == place && c.usd_per_hour.is_some());
    let (server, cloud) = (best_of(Place::OnPremise)?, best_of(Place::Cloud)?);
    let each = |c: &Candidate| Some(c.usd_per_hour.as_ref()?.value.0 / f64::from(c.machines));
    let (server_usd, cloud_usd) = (each(server)?, each(cloud)?);
    let fit = |c: &Candidate| planner.fit(planner.machine(&c.machine)?, 1.0).ok();
    let (server_fit, cloud_fit) = (fit(server)?, fit(cloud)?);
    let flat = vec![1.0; 24];
    let load = planner.question.demand.day.as_ref().unwrap_or(&flat);
    let traffic = planner.traffic.cloud().0;
    let own = planner.traffic.own().0;
    let rest = |servers: u32, share: f64| match planner.demand.groups {
        // Groups stay whole, and where they are.
        Some(groups) => f64::from(groups.saturating_sub(servers * server_fit.most)) / f64::from(groups) * share,
        None => (share - f64::from(servers) * server_fit.carries).max(0.0),
    };
    let instances = |servers: u32, share: f64| match planner.demand.groups {
        Some(groups) => groups.saturating_sub(servers * server_fit.most).div_ceil(cloud_fit.most),
        None => (rest(servers, share) / cloud_fit.carries - 1e-9).ceil() as u32,
    };
    let mix = |servers: u32| {
        let hours: Vec<u32> = load.iter().map(|share| instances(servers, *share)).collect();
        let in_cloud: f64 = load.iter().map(|share| rest(servers, *share)).sum();
        let in_house: f64 = load.iter().sum::<f64>() - in_cloud;
        let instance_hours: u32 = hours.iter().sum();
        let machines = 24.0 * server_usd * f64::from(servers) + cloud_usd * f64::from(instance_hours);
        Mix {
            servers,
            instances_at_peak: hours.into_iter().max().unwrap_or(0),
            instance_hours,
            usd_per_day: machines + traffic * in_cloud + own * in_house,
        }
    };
    let mixes: Vec<Mix> = (0..=server_fit.needed).map(mix).collect();
    let best = (0..mixes.len()).min_by(|a, b| mixes[*a].usd_per_day.total_cmp(&mixes[*b].usd_per_day))?;
    let lost = match planner.demand.groups {
        Some(groups) => server_fit.most.min(groups).div_ceil(cloud_fit.most),
        None => (server_fit.carries.min(1.0) / cloud_fit.carries - 1e-9).ceil() as u32,
    };
    Some(Hybrid {
        server: server.machine.clone(),
        cloud: cloud.machine.clone(),
        mixes,
        best,
        failover_instances: lost,
        failover_usd_per_hour: f64::from(lost) * cloud_usd,
    })
}
