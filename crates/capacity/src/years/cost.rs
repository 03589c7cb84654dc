//! What one option costs in each year.

use super::{Course, Kind, Tco, Year};
use crate::bill::{Rate, Scaled};
use crate::fit::HAIR;
use crate::machine::Place;
use crate::path::Level;
use crate::placement::with_spares;
use crate::plan::{Candidate, Planner};
use crate::quantity::{HOURS_A_YEAR, Power};

const DAYS: f64 = 365.0;

/// Servers bought, by year.
struct Stock {
    /// Whole years a server is used.
    life: u32,
    /// Year, how many, what one cost.
    bought: Vec<(u32, u32, f64)>,
}

impl Stock {
    fn in_use(&self, year: u32) -> u32 {
        let used = |(bought, count, _): &(u32, u32, f64)| if year < bought + self.life { *count } else { 0 };
        self.bought.iter().map(used).sum()
    }

    /// Buys what is missing at the beginning of a year: servers added, and those that replace others.
    fn buy(&mut self, year: u32, needed: u32, usd: f64) -> (u32, u32) {
        let retired: u32 =
            self.bought.iter().filter(|(bought, ..)| bought + self.life == year).map(|(_, count, _)| count).sum();
        let missing = needed.saturating_sub(self.in_use(year));
        let replaced = missing.min(retired);
        if missing > 0 {
            self.bought.push((year, missing, usd));
        }
        (missing - replaced, replaced)
    }

    /// By the straight line, after a year.
    fn left(&self, year: u32) -> f64 {
        let left = |(bought, count, usd): &(u32, u32, f64)| {
            let used = f64::from(year + 1 - bought) / f64::from(self.life);
            f64::from(*count) * usd * (1.0 - used).max(0.0)
        };
        self.bought.iter().map(left).sum()
    }
}

/// Servers of one kind over the years.
struct Own<'p> {
    scaled: Scaled<'p>,
    stock: Stock,
    capex: f64,
    hosting: f64,
    pue: f64,
    energy: Option<f64>,
}

impl<'p> Own<'p> {
    fn new(planner: &'p Planner, name: &str) -> Result<Self, String> {
        let server = planner.server(name).ok_or("what it costs to buy is not known")?;
        let capex = server.capex.as_ref().ok_or("what it costs to buy is not known")?.value.0;
        let life = server.life.as_ref().ok_or("how long it is used is not known")?.value.0;
        Ok(Self {
            scaled: Scaled::new(planner, name).ok_or("it carries nothing")?,
            stock: Stock { life: life.floor().max(1.0) as u32, bought: Vec::new() },
            capex,
            hosting: server.hosting(),
            pue: server.pue(),
            energy: planner.question.price.energy.as_ref().map(|energy| energy.value.0),
        })
    }

    /// A year with so many servers and a mean load on them.
    fn year(&mut self, course: &Course, year: u32, needed: u32, load: f64) -> Year {
        let usd = self.capex * course.own_price.powf(f64::from(year - 1));
        let (added, replaced) = self.stock.buy(year, needed, usd);
        let servers = self.stock.in_use(year);
        let power = self.scaled.watts(servers, load).map(|watts| Power(watts * self.pue));
        Year {
            year,
            servers,
            added,
            replaced,
            purchases_usd: f64::from(added + replaced) * usd,
            hosting_usd: f64::from(servers) * self.hosting,
            energy_usd: power.zip(self.energy).map(|(power, usd)| power.0 / 1e3 * HOURS_A_YEAR * usd),
            power,
            ..Year::default()
        }
    }
}

/// Adds up a year.
fn summed(mut year: Year, course: &Course) -> Year {
    let running = year.instances_usd + year.hosting_usd + year.energy_usd.unwrap_or(0.0) + year.traffic_usd;
    let n = f64::from(year.year);
    let rate = 1.0 + course.discount;
    year.total_usd = year.purchases_usd + running;
    year.discounted_usd = year.purchases_usd / rate.powf(n - 1.0) + running / rate.powf(n);
    let subscribers = course.subscribers[year.year as usize - 1];
    year.usd_per_subscriber_month = subscribers.map(|all| year.total_usd / 12.0 / all);
    year
}

fn option(kind: Kind, years: Vec<Year>, left_usd: f64) -> Tco {
    Tco {
        kind,
        server: None,
        instance: None,
        base_ratio: None,
        total_usd: years.iter().map(|year| year.total_usd).sum(),
        npv_usd: years.iter().map(|year| year.discounted_usd).sum(),
        left_usd,
        years,
    }
}

/// The most machines the plan allows are not exceeded when the demand grows.
fn within(planner: &Planner, machines: u32, year: u32) -> Result<(), String> {
    let bounds = [
        ("bounds.machines", planner.question.bounds.machines),
        ("autoscale.most_machines", planner.question.autoscale.as_ref().and_then(|auto| auto.most_machines)),
    ];
    match bounds.into_iter().find(|(_, most)| most.is_some_and(|most| machines > most)) {
        Some((key, most)) => Err(format!("{machines} machines in year {year}, {key} is {}", most.unwrap_or(0))),
        None => Ok(()),
    }
}

/// Dedicated hosts in a year, no more than there are.
fn hosts(planner: &Planner, scaled: &Scaled<'_>, rate: Rate, instances: u32, year: u32) -> Result<Option<u32>, String> {
    let Some(hosts) = rate.hosts(instances) else { return Ok(None) };
    crate::bounds::hosts(&planner.question, scaled.machine, hosts).map_err(|(_, why)| format!("year {year}: {why}"))?;
    Ok(Some(hosts))
}

fn years(course: &Course) -> impl Iterator<Item = (u32, f64)> + '_ {
    course.scales.iter().enumerate().map(|(n, scale)| (n as u32 + 1, *scale))
}

/// Instances of one type, or servers of one kind.
pub(super) fn alone(planner: &Planner, course: &Course, one: &Candidate) -> Result<Tco, String> {
    match one.place {
        Place::Cloud => cloud(planner, course, one),
        Place::OnPremise => own(planner, course, one),
    }
}

fn cloud(planner: &Planner, course: &Course, one: &Candidate) -> Result<Tco, String> {
    let scaled = Scaled::new(planner, &one.machine).ok_or("it carries nothing")?;
    let rate = planner.rate(scaled.machine).ok_or("it has no price")?;
    let mut all = Vec::new();
    for (year, scale) in years(course) {
        let machines = scaled.day(scale).map_err(|why| format!("year {year}: {why}"))?;
        let instances = machines.iter().copied().max().unwrap_or(0);
        within(planner, instances, year)?;
        let hosts = hosts(planner, &scaled, rate, instances, year)?;
        let price = course.cloud_price.powf(f64::from(year - 1));
        all.push(summed(
            Year {
                year,
                instances,
                hosts,
                instances_usd: DAYS * rate.day(&machines).usd() * price,
                energy_usd: Some(0.0),
                traffic_usd: HOURS_A_YEAR * planner.traffic.cloud_at(planner.mean_level(scale)),
                ..Year::default()
            },
            course,
        ));
    }
    Ok(Tco { instance: Some(one.machine.clone()), ..option(Kind::Cloud, all, 0.0) })
}

fn own(planner: &Planner, course: &Course, one: &Candidate) -> Result<Tco, String> {
    let mut own = Own::new(planner, &one.machine)?;
    let mut all = Vec::new();
    for (year, scale) in years(course) {
        let needed = own.scaled.with_spares(scale).map_err(|why| format!("year {year}: {why}"))?;
        within(planner, needed, year)?;
        let load = planner.mean_level(scale).now;
        let mut now = own.year(course, year, needed, load);
        now.traffic_usd = HOURS_A_YEAR * planner.traffic.own().0 * load;
        all.push(summed(now, course));
    }
    let left = own.stock.left(all.len() as u32);
    Ok(Tco { server: Some(one.machine.clone()), ..option(Kind::Own, all, left) })
}

/// Servers for a share of each year's peak, instances for what exceeds it: the share with the least net present value of
/// those at which both are used. Servers have no spares: for one that fails instances are started, so that the path to
/// the cloud is paid in every year.
pub(super) fn hybrid(planner: &Planner, course: &Course, server: &str, instance: &str) -> Option<Tco> {
    let cloud = Scaled::new(planner, instance)?;
    let rate = planner.rate(cloud.machine)?;
    let mut bases: Vec<f64> = match planner.demand.groups {
        None => planner.loads(),
        Some(_) => {
            let needed = Scaled::new(planner, server)?.fit.needed;
            (1..needed).map(|servers| f64::from(servers) / f64::from(needed)).collect()
        }
    };
    bases.retain(|base| *base > 0.0 && *base < 1.0);
    bases.sort_by(f64::total_cmp);
    bases.dedup();
    let of = |base: &f64| {
        let mixed = with_base(planner, course, server, (&cloud, rate), *base).ok()?;
        let both = mixed.years.iter().any(|year| year.instances > 0);
        both.then_some(Tco {
            server: Some(server.to_owned()),
            instance: Some(instance.to_owned()),
            base_ratio: Some(*base),
            ..mixed
        })
    };
    bases.iter().filter_map(of).min_by(|a, b| a.npv_usd.total_cmp(&b.npv_usd))
}

fn with_base(
    planner: &Planner,
    course: &Course,
    server: &str,
    (cloud, rate): (&Scaled<'_>, Rate),
    base: f64,
) -> Result<Tco, String> {
    let mut own = Own::new(planner, server)?;
    let loads = planner.loads();
    let mut all = Vec::new();
    for (year, scale) in years(course) {
        let (needed, units) = own.scaled.at(scale)?;
        let wanted = match planner.demand.groups {
            Some(_) => (base * f64::from(needed) - HAIR).ceil() as u32,
            None => own.scaled.at(base * scale)?.0,
        };
        // More may be there than are needed, from a year with a higher demand.
        let servers = wanted.max(own.stock.in_use(year));
        let mut machines = Vec::new();
        let mut in_cloud = Vec::new();
        for load in &loads {
            let (instances, rest) = beside(planner, (&own.scaled, servers, units), cloud, scale * load)?;
            machines.push(instances);
            in_cloud.push(rest);
        }
        let mean = |all: &[f64]| all.iter().sum::<f64>() / all.len() as f64;
        let outside = mean(&in_cloud);
        let inside = planner.mean_level(scale).now - outside;
        let instances = machines.iter().copied().max().unwrap_or(0);
        within(planner, instances + servers, year)?;
        let hosts = hosts(planner, cloud, rate, instances, year)?;
        let peak = in_cloud.iter().copied().fold(0.0, f64::max);
        let path = planner.traffic.cloud_at(Level { now: outside, mean: outside, peak });
        let mut now = own.year(course, year, wanted, inside);
        (now.instances, now.hosts) = (instances, hosts);
        now.instances_usd = DAYS * rate.least(&machines) * course.cloud_price.powf(f64::from(year - 1));
        now.traffic_usd = HOURS_A_YEAR * (path + planner.traffic.own().0 * inside);
        all.push(summed(now, course));
    }
    let left = own.stock.left(all.len() as u32);
    Ok(option(Kind::Hybrid, all, left))
}

/// Instances beside so many servers in an hour, spares among them, and the share of the demand planned for they carry.
fn beside(
    planner: &Planner,
    (own, servers, units): (&Scaled<'_>, u32, u32),
    cloud: &Scaled<'_>,
    load: f64,
) -> Result<(u32, f64), String> {
    let least = planner.question.autoscale.as_ref().and_then(|auto| auto.least_machines).unwrap_or(0);
    let least = least.saturating_sub(servers);
    let (needed, rest) = match planner.demand.groups {
        Some(groups) => {
            // Groups stay whole, and where they are.
            let outside = groups.saturating_sub(servers * units);
            let share = f64::from(outside) / f64::from(groups);
            (outside.div_ceil(cloud.at(load)?.1), load * share)
        }
        None => {
            let rest = (load - f64::from(servers) * own.fit.carries).max(0.0);
            (if rest > HAIR { cloud.at(rest)?.0 } else { 0 }, rest)
        }
    };
    let instances = if needed > 0 { with_spares(needed, &planner.question.failure) } else { 0 };
    Ok((instances.max(least), rest))
}
