//! What an hour costs at the peak and on average over the day, a month, and a subscriber a month, with traffic.
//!
//! Instances follow the load of the day as `[autoscale]` lets them; a committed base is paid all day, what exceeds it by
//! the hour, on demand. Servers of one's own are there all day; their energy follows the load.

use std::cell::RefCell;
use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use crate::fit::{Fit, HAIR};
use crate::known::{Known, Provenance};
use crate::machine::{Machine, Place};
use crate::onprem::Server;
use crate::path::{Level, in_brackets};
use crate::placement::{dedicated_host, with_spares};
use crate::plan::{Candidate, Planner};
use crate::quantity::{HOURS_A_MONTH, HOURS_A_YEAR, Hourly, PerGigabyte, Ratio, digits};
use crate::question::{Host, PriceInput};

/// Bills and costs by year are of so many candidates at most.
pub const BEST: usize = 20;
/// Hours with less than this of the peak are the night.
const NIGHT: f64 = 0.5;

/// What a candidate costs.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Bill {
    pub machine: String,
    pub place: Place,
    /// Machines in each hour of the day, spares among them.
    pub machines: Vec<u32>,
    /// What it consists of.
    pub parts: Vec<Part>,
    /// At the peak, at the demand planned for.
    pub usd_per_hour_at_peak: f64,
    /// Over the day; without `demand.day` the peak lasts all day.
    pub usd_per_hour_mean: f64,
    /// Of 730 hours.
    pub usd_per_month: f64,
    pub usd_per_subscriber_month: Option<f64>,
}

/// A part of a bill.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Part {
    pub what: String,
    /// How it follows.
    pub why: String,
    /// The weakest of the prices it rests on.
    pub from: Provenance,
    pub usd_per_hour_at_peak: f64,
    pub usd_per_hour_mean: f64,
}

/// The day's mean load as a share of the peak; without a curve the peak lasts all day.
pub(crate) fn mean(day: Option<&[f64]>) -> f64 {
    day.filter(|day| !day.is_empty()).map_or(1.0, |day| day.iter().sum::<f64>() / day.len() as f64)
}

/// What is paid by the hour in a cloud: instances, or hosts where they are the operator's alone.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rate {
    /// One of them on demand.
    pub usd: f64,
    /// Instances on one.
    on_one: u32,
    /// They are hosts.
    dedicated: bool,
    /// The share of those at the peak under commitment.
    committed: f64,
    /// What the commitment takes off.
    off: f64,
}

/// Dollars a day.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Instances {
    /// Committed ones, as a number that need not be whole: a commitment may be to an amount of money.
    pub base: f64,
    pub committed: f64,
    pub on_demand: f64,
    /// Hours on demand.
    pub hours: f64,
}

impl Instances {
    pub fn usd(&self) -> f64 {
        self.committed + self.on_demand
    }
}

impl Rate {
    /// Instances hour by hour, the base committed.
    pub fn day(&self, machines: &[u32]) -> Instances {
        let paid = |n: &u32| f64::from(n.div_ceil(self.on_one));
        let base = self.committed * machines.iter().map(paid).fold(0.0, f64::max);
        let hours: f64 = machines.iter().map(|n| (paid(n) - base).max(0.0)).sum();
        let committed = 24.0 * base * self.usd * (1.0 - self.off);
        Instances { base, committed, on_demand: hours * self.usd, hours }
    }

    /// Hosts for so many instances; none where they are not the operator's alone.
    pub fn hosts(&self, instances: u32) -> Option<u32> {
        self.dedicated.then(|| instances.div_ceil(self.on_one))
    }

    /// Under the plan's commitment or on demand, whichever costs less: for instances that only take the peak.
    pub fn least(&self, machines: &[u32]) -> f64 {
        let on_demand = Self { committed: 0.0, ..*self };
        self.day(machines).usd().min(on_demand.day(machines).usd())
    }
}

/// Machines needed, and units on one of them; or why it cannot be done.
type Needed = Result<(u32, u32), String>;

/// A machine at multiples of the demand planned for.
pub(crate) struct Scaled<'p> {
    planner: &'p Planner,
    pub machine: &'p Machine,
    pub fit: Fit,
    memo: RefCell<BTreeMap<u64, Needed>>,
}

impl<'p> Scaled<'p> {
    pub fn new(planner: &'p Planner, name: &str) -> Option<Self> {
        let machine = planner.machine(name)?;
        Some(Self { planner, machine, fit: planner.fit(machine, 1.0).ok()?, memo: RefCell::default() })
    }

    pub fn at(&self, scale: f64) -> Needed {
        let scale = scale.max(1e-6);
        if self.planner.demand.groups.is_none() && self.planner.question.failure.most_lost.is_none() {
            // What a machine carries is the same share of any demand that can be divided.
            return Ok(((scale / self.fit.carries - HAIR).ceil().max(1.0) as u32, self.fit.most));
        }
        let fit = || self.planner.fit(self.machine, scale).map(|fit| (fit.needed, fit.most)).map_err(|(_, why)| why);
        self.memo.borrow_mut().entry(scale.to_bits()).or_insert_with(fit).clone()
    }

    /// With spares, as many as the plan has by day.
    pub fn with_spares(&self, scale: f64) -> Result<u32, String> {
        Ok(with_spares(self.at(scale)?.0, &self.planner.question.failure))
    }

    /// Instances in each hour of the day, spares among them, within the bounds of the scaling group.
    pub fn day(&self, scale: f64) -> Result<Vec<u32>, String> {
        let most = self.with_spares(scale)?;
        let auto = self.planner.question.autoscale.as_ref();
        let least = auto.and_then(|auto| auto.least_machines).unwrap_or(1);
        let hour = |share: &f64| {
            let mut failure = self.planner.question.failure.clone();
            if let Some(spares) = auto.and_then(|auto| auto.spares_at_night).filter(|_| *share < NIGHT) {
                failure.spares = spares;
            }
            self.at(scale * share).map_or(most, |(needed, _)| with_spares(needed, &failure)).min(most).max(least)
        };
        Ok(self.planner.loads().iter().map(hour).collect())
    }

    /// What so many servers draw, without the building's share, with a share of the demand planned for on them.
    pub fn watts(&self, servers: u32, load: f64) -> Option<f64> {
        let (idle, most) = self.machine.power?;
        let busy = (load / self.fit.carries).min(f64::from(servers));
        Some(idle.0 * f64::from(servers) + (most - idle).0 * busy)
    }
}

impl Planner {
    /// The load of each hour as a share of the peak.
    pub(crate) fn loads(&self) -> Vec<f64> {
        self.question.demand.day.clone().unwrap_or_else(|| vec![1.0; 24])
    }

    /// At the demand planned for: its mean over the day.
    pub(crate) fn mean_level(&self, scale: f64) -> Level {
        let now = scale * mean(self.question.demand.day.as_deref());
        Level { now, mean: now, peak: scale }
    }

    /// What an instance type costs on demand; none where it has no price.
    pub(crate) fn rate(&self, machine: &Machine) -> Option<Rate> {
        let input = &self.question.price;
        let off = input.commitment.as_ref().map_or(0.0, |off| off.value.0);
        let committed = if input.commitment.is_some() { input.committed.unwrap_or(1.0) } else { 0.0 };
        let rate = |usd: Hourly, on_one: u32| Rate { usd: usd.0, on_one, dedicated: false, committed, off };
        if self.question.placement.host != Host::Dedicated || machine.whole_host {
            return Some(rate(machine.price.as_ref()?.value, 1));
        }
        // The commitment is taken off day by day.
        let on_demand = PriceInput { commitment: None, committed: None, ..input.clone() };
        let (fee, on_one) = dedicated_host(machine, &self.world.machines, &on_demand)?;
        Some(Rate { dedicated: true, ..rate(fee.value, on_one) })
    }

    pub(crate) fn server(&self, name: &str) -> Option<&Server> {
        self.world.servers.iter().find(|server| server.name == name)
    }
}

/// The best candidates with a price: the cheapest, and the cheapest of each kind of place.
pub(crate) fn best(candidates: &[Candidate]) -> Vec<&Candidate> {
    let priced: Vec<&Candidate> = candidates.iter().filter(|one| one.usd_per_hour.is_some()).collect();
    let first_of = |place: Place| priced.iter().position(|one| one.place == place);
    let firsts = [first_of(Place::Cloud), first_of(Place::OnPremise)];
    let mut chosen: Vec<usize> = firsts.into_iter().flatten().collect();
    chosen.extend((0..priced.len()).filter(|n| !firsts.contains(&Some(*n))).take(BEST - chosen.len()));
    chosen.sort_unstable();
    chosen.into_iter().map(|n| priced[n]).collect()
}

/// Of the best candidates.
pub(crate) fn bills(planner: &Planner, candidates: &[Candidate]) -> Vec<Bill> {
    best(candidates).into_iter().filter_map(|one| bill(planner, one)).collect()
}

fn bill(planner: &Planner, one: &Candidate) -> Option<Bill> {
    let scaled = Scaled::new(planner, &one.machine)?;
    let (machines, mut parts) = match one.place {
        Place::Cloud => {
            let machines = scaled.day(1.0).ok()?;
            let parts = instances(planner, &scaled, &machines, one)?;
            (machines, parts)
        }
        Place::OnPremise => (vec![one.machines; 24], servers(planner, &scaled, one)?),
    };
    parts.extend(traffic(planner, one.place));
    let sum = |of: fn(&Part) -> f64| parts.iter().map(of).sum::<f64>();
    let usd_per_hour_mean = sum(|part| part.usd_per_hour_mean);
    let usd_per_month = usd_per_hour_mean * HOURS_A_MONTH;
    Some(Bill {
        machine: one.machine.clone(),
        place: one.place,
        machines,
        usd_per_hour_at_peak: sum(|part| part.usd_per_hour_at_peak),
        usd_per_hour_mean,
        usd_per_month,
        usd_per_subscriber_month: planner.demand.subscribers.map(|all| usd_per_month / all.0),
        parts,
    })
}

fn part(what: &str, why: String, from: Provenance, [usd_per_hour_at_peak, usd_per_hour_mean]: [f64; 2]) -> Part {
    Part { what: what.to_owned(), why, from, usd_per_hour_at_peak, usd_per_hour_mean }
}

fn instances(planner: &Planner, scaled: &Scaled<'_>, machines: &[u32], one: &Candidate) -> Option<Vec<Part>> {
    let price = one.usd_per_hour.as_ref()?;
    let rate = planner.rate(scaled.machine)?;
    let day = rate.day(machines);
    let paid = f64::from(machines.iter().copied().max()?.div_ceil(rate.on_one));
    let what = if rate.dedicated { "hosts" } else { "instances" };
    let mut parts = Vec::new();
    if day.base > 0.0 {
        let [base, usd, off] = [day.base, rate.usd, 100.0 * rate.off].map(digits);
        let why = format!("{base} all day, {usd} $/h less {off} %");
        parts.push(part(&format!("{what}, committed"), why, price.from, [day.committed / 24.0; 2]));
    }
    let at_peak = (paid - day.base).max(0.0) * rate.usd;
    if at_peak > 0.0 {
        let [hours, usd] = [day.hours, rate.usd].map(digits);
        let why = format!("{hours} hours a day, {usd} $/h");
        parts.push(part(&format!("{what}, on demand"), why, price.from, [at_peak, day.on_demand / 24.0]));
    }
    Some(parts)
}

fn servers(planner: &Planner, scaled: &Scaled<'_>, one: &Candidate) -> Option<Vec<Part>> {
    let count = f64::from(one.machines);
    let Some(server) = planner.server(&one.machine) else {
        let price = one.usd_per_hour.as_ref()?;
        return Some(vec![part("servers", format!("{count} by the hour"), price.from, [price.value.0; 2])]);
    };
    let (capex, life) = (server.capex.as_ref()?, server.life.as_ref()?);
    let from = capex.from.max(life.from);
    let (capex, life) = (capex.value.0, life.value.0);
    let bought = count * capex / (life * HOURS_A_YEAR);
    let why = format!("{count} × {} $ over {life} years", digits(capex));
    let mut parts = vec![part("servers", why, from, [bought; 2])];
    let yearly = server.hosting();
    if yearly > 0.0 {
        let usd = count * yearly / HOURS_A_YEAR;
        let from = [&server.rack, &server.support].into_iter().flatten().map(|known| known.from).max();
        let why = format!("{count} × {} $/year", digits(yearly));
        parts.push(part("rack and support", why, from.unwrap_or_default(), [usd; 2]));
    }
    let watts = |load: f64| scaled.watts(one.machines, load);
    if let Some(energy) = &planner.question.price.energy
        && let Some((at_peak, mean)) = watts(1.0).zip(watts(planner.mean_level(1.0).now))
    {
        let (pue, usd) = (server.pue(), energy.value.0);
        let [kw, pue_said, usd_said] = [mean / 1e3, pue, usd].map(digits);
        let why = format!("{kw} kW on average × PUE {pue_said} × {usd_said} $/kWh");
        let froms = [Some(energy.from), server.power.as_ref().map(|p| p.from), server.pue.as_ref().map(|p| p.from)];
        let from = froms.into_iter().flatten().max().unwrap_or_default();
        parts.push(part("energy", why, from, [at_peak, mean].map(|watts| watts / 1e3 * pue * usd)));
    }
    Some(parts)
}

fn traffic(planner: &Planner, place: Place) -> Vec<Part> {
    let traffic = &planner.traffic;
    let level = planner.mean_level(1.0);
    let price = &planner.question.price;
    let by_the_gigabyte = |what: &str, gb: Option<f64>, usd: Option<Hourly>, each: &Option<Known<PerGigabyte>>| {
        let (usd, each) = (usd?.0, each.as_ref()?);
        let gb = gb.map_or(String::new(), |gb| format!("{} GB/h, ", digits(gb * level.now)));
        let why = format!("{gb}{} $/GB", digits(each.value.0));
        Some(part(what, why, each.from, [usd, usd * level.now]))
    };
    if place == Place::OnPremise {
        let own = by_the_gigabyte("own transfer", None, traffic.own_usd_per_hour, &price.own_transfer);
        return own.into_iter().collect();
    }
    let transfer = by_the_gigabyte(
        "data transfer out",
        traffic.transfer_gb_per_hour,
        traffic.transfer_usd_per_hour,
        &price.transfer,
    );
    let transit =
        by_the_gigabyte("transit gateway", traffic.transit_gb_per_hour, traffic.transit_usd_per_hour, &price.transit);
    let path = traffic.path.iter().map(|charge| {
        let usd = charge.usd_per_hour.value.0;
        let why = match (charge.count, charge.gb_per_hour) {
            (Some(count), _) => format!("{count} × {} $/h{}", digits(usd / count), in_brackets(&charge.usd_per_hour)),
            (None, gb) => format!("{} GB/h, {}", digits(gb.unwrap_or(0.0) * level.now), charge.usd_per_hour.source),
        };
        part(charge.what, why, charge.usd_per_hour.from, [usd, charge.usd(level)])
    });
    transfer.into_iter().chain(transit).chain(path).collect()
}

impl Server {
    /// Rack and support, dollars a year.
    pub(crate) fn hosting(&self) -> f64 {
        [&self.rack, &self.support].into_iter().flatten().map(|known| known.value.0).sum()
    }

    /// The building's power by the server's.
    pub(crate) fn pue(&self) -> f64 {
        self.pue.as_ref().map_or(Ratio(1.0), |pue| pue.value).0
    }
}
