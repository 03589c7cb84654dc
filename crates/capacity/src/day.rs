//! Over a day: machines that come and go with the load, and a base of one's own with a cloud for the rest.

use schemars::JsonSchema;
use serde::Serialize;

use crate::bill::Scaled;
use crate::machine::Place;
use crate::path::Level;
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
    /// Machines as needed, the committed base all day: dollars a day.
    pub elastic_usd_per_day: f64,
    /// Machines started in a day.
    pub starts: u32,
}

/// The best candidate of a cloud over the plan's load curve; machines on premise do not come and go.
pub(crate) fn day(planner: &Planner, candidates: &[Candidate]) -> Option<Day> {
    let load = planner.question.demand.day.clone()?;
    let best = candidates.iter().find(|c| c.place == Place::Cloud && c.usd_per_hour.is_some())?;
    let scaled = Scaled::new(planner, &best.machine)?;
    let rate = planner.rate(scaled.machine)?;
    let machines = scaled.day(1.0).ok()?;
    let most = machines.iter().copied().max()?;
    let next = machines.iter().skip(1).chain(machines.first());
    let starts = machines.iter().zip(next).map(|(now, next)| next.saturating_sub(*now)).sum();
    Some(Day {
        machine: best.machine.clone(),
        load,
        fixed_usd_per_day: rate.day(&[most; 24]).usd(),
        elastic_usd_per_day: rate.day(&machines).usd(),
        machines,
        starts,
    })
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
    let rate = planner.rate(planner.machine(&cloud.machine)?)?;
    let fit = |c: &Candidate| planner.fit(planner.machine(&c.machine)?, 1.0).ok();
    let (server_fit, cloud_fit) = (fit(server)?, fit(cloud)?);
    let flat = vec![1.0; 24];
    let load = planner.question.demand.day.as_ref().unwrap_or(&flat);
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
        let outside: Vec<f64> = load.iter().map(|share| rest(servers, *share)).collect();
        let in_cloud: f64 = outside.iter().sum();
        let (peak, now) = (outside.iter().copied().fold(0.0, f64::max), in_cloud / load.len() as f64);
        // Where no hour needs the cloud, nothing is paid for the path to it.
        let path = if peak > 0.0 { planner.traffic.cloud_at(Level { now, mean: now, peak }) } else { 0.0 };
        let in_house: f64 = load.iter().sum::<f64>() - in_cloud;
        let instance_hours: u32 = hours.iter().sum();
        let machines = 24.0 * server_usd * f64::from(servers) + rate.least(&hours);
        Mix {
            servers,
            instances_at_peak: hours.into_iter().max().unwrap_or(0),
            instance_hours,
            usd_per_day: machines + path * load.len() as f64 + own * in_house,
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
