//! From a question to an answer: every machine judged, those that can do it ranked, the rest with the reason why not.

mod answer;

use serde::{Deserialize, Serialize};

use crate::bounds::{settle, site_for, within};
use crate::catalogue::Catalogue;
use crate::choice::choices;
use crate::demand::Demand;
use crate::fit::{Fit, Refusal};
use crate::headline::{Headline, pareto};
use crate::known::{Known, Provenance};
use crate::limits::{Allows, Bound, bandwidth};
use crate::machine::{Machine, Place};
use crate::onprem::Server;
use crate::placement::{dedicated_host, sharing, with_spares};
use crate::price::{self, Traffic};
use crate::quantity::{BitRate, Hourly, Power, Ratio};
use crate::question::{Host, Question};
use crate::sample::{Quantiles, Sampled};
use crate::site::{self, Site};
use crate::sources::Sources;
use crate::unit::Unit;
use crate::wrong::Wrong;

pub use answer::*;

/// What is known of the world beside the plan.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct World {
    /// Instance types and servers.
    pub machines: Vec<Machine>,
    /// Kinds of sites.
    pub sites: Vec<Site>,
    /// What servers among the machines cost to buy and to run.
    pub servers: Vec<Server>,
    /// What publications say of this target, or series, teaches nothing: it is to be predicted.
    #[serde(skip)]
    pub held_out: Option<String>,
}

impl World {
    /// A catalogue's machines at the prices of the plan's regions, servers that are equipped with their cards, and sites.
    pub fn new(catalogue: &Catalogue, servers: &[Server], sites: Vec<Site>, question: &Question) -> Self {
        let mut machines = catalogue.machines(&question.region);
        let energy = question.price.energy.as_ref();
        machines.extend(servers.iter().map(|server| server.machine(energy)));
        catalogue.measured(&mut machines);
        Self { machines, sites, servers: servers.to_vec(), held_out: None }
    }
}

/// A question, checked, with all it takes to answer it.
#[derive(Clone, Debug)]
pub struct Planner {
    pub(crate) question: Question,
    pub(crate) world: World,
    pub(crate) demand: Demand,
    pub(crate) unit: Unit,
    pub(crate) sources: Sources,
    pub(crate) traffic: Traffic,
}

/// Each of a list by itself, on two threads where there are two processors.
fn in_two<T: Sync, R: Send>(all: &[T], each: &(impl Fn(&T) -> R + Sync)) -> Vec<R> {
    let two = std::thread::available_parallelism().is_ok_and(|processors| processors.get() > 1);
    if !two || all.len() < 16 {
        return all.iter().map(each).collect();
    }
    // Every other one: a family's larger sizes take longer.
    let half = |from: usize| all.iter().skip(from).step_by(2).map(each).collect::<Vec<R>>();
    let (even, odd) = std::thread::scope(|scope| {
        let odd = scope.spawn(|| half(1));
        let even = half(0);
        (even, odd.join())
    });
    let mut odd = odd.unwrap_or_else(|panic| std::panic::resume_unwind(panic)).into_iter();
    even.into_iter().flat_map(|one| std::iter::once(one).chain(odd.next())).collect()
}

/// By the cost at P90; those that cannot be had at P90 after those that can, those without a price last.
fn rank(candidates: &mut [Candidate]) {
    let or_none = |usd: Option<f64>| usd.unwrap_or(f64::INFINITY);
    let cost = |c: &Candidate| [c.total_usd_per_hour_range.p90, c.total_usd_per_hour.map(|usd| usd.0)].map(or_none);
    let lost = |c: &Candidate| c.lost_with_one.share;
    candidates.sort_by(|a, b| {
        let (one, other) = (cost(a), cost(b));
        one[0]
            .total_cmp(&other[0])
            .then(one[1].total_cmp(&other[1]))
            .then(a.basis.cmp(&b.basis))
            .then(lost(a).total_cmp(&lost(b)))
            .then(a.machine.cmp(&b.machine))
    });
}

impl Planner {
    /// Checks a question.
    ///
    /// # Errors
    /// What is missing, contradictory or impossible: which key, why.
    pub fn new(question: Question, mut world: World) -> Result<Self, Wrong> {
        crate::check::check(&question, &world)?;
        crate::packets::complete(&mut world.machines);
        if let Some(bounds) = &question.site {
            settle(&mut world.machines, &site::judge(bounds, &world.sites));
        }
        let demand = Demand::of(&question.demand)?;
        Self::with_demand(question, world, demand)
    }

    /// The same with the demand already calculated.
    pub(crate) fn with_demand(question: Question, mut world: World, demand: Demand) -> Result<Self, Wrong> {
        let unit = Unit::of(question.gateway).with(question.unit.as_ref())?;
        let sources = Sources::new(&question, &demand, &world.machines, world.held_out.as_deref());
        for machine in &mut world.machines {
            crate::packets::raise(machine, &question.point, demand.frame());
        }
        let mut traffic = Traffic::of(&demand, &question.price);
        let mean = crate::bill::mean(question.demand.day.as_deref());
        traffic.path = crate::path::charges(&question.price.path, &question.failure, &demand, mean)?;
        Ok(Self { question, world, demand, unit, sources, traffic })
    }

    pub fn demand(&self) -> &Demand {
        &self.demand
    }

    /// Answers it.
    ///
    /// # Errors
    /// A demand that no machine of those looked at can carry, whatever their number.
    pub fn answer(&self) -> Result<Answer, Wrong> {
        let sites = self.question.site.as_ref();
        let sites = sites.map(|bounds| site::judge(bounds, &self.world.sites)).unwrap_or_default();
        let (mut candidates, mut refused) = self.all_judged(&sites);
        self.possible(&candidates, &refused)?;
        rank(&mut candidates);
        refused.sort_by(|a, b| (a.refusal, &a.provider).cmp(&(b.refusal, &b.provider)));
        let best = candidates.first().filter(|best| best.total_usd_per_hour.is_some());
        Ok(Answer {
            name: self.question.name.clone().unwrap_or_else(|| "plan".to_owned()),
            gateway: self.question.gateway,
            points: self.question.points,
            demand: self.demand.clone(),
            unit: self.unit.clone(),
            traffic: self.traffic.clone(),
            headline: Headline::of(&candidates, &refused),
            choices: choices(&candidates),
            pareto: pareto(&candidates),
            sensitivity: best.map(|best| crate::sensitivity::levers(self, best)).unwrap_or_default(),
            ideal: crate::ideal::ideal(self, &candidates),
            equal_cost: crate::scale_out::equal_cost(self, &candidates),
            day: crate::day::day(self, &candidates),
            hybrid: crate::day::hybrid(self, &candidates),
            bills: crate::bill::bills(self, &candidates),
            by_year: crate::years::by_year(self, &candidates),
            sites,
            curves: self.curves(),
            notes: self.notes(&candidates),
            candidates,
            refused,
        })
    }

    /// Every machine the plan looks at, over the ranges of all inputs; those that cannot do it with the reason.
    fn all_judged(&self, sites: &[site::Judged]) -> (Vec<Candidate>, Vec<Refused>) {
        let (mut candidates, mut sampled, mut refused) = (Vec::new(), Vec::new(), Vec::new());
        let machines: Vec<&Machine> = self.machines().collect();
        let common = self.common();
        let judge = |machine: &&Machine| -> Result<(Candidate, Sampled), Refused> {
            let judged = self.fit(machine, 1.0).and_then(|fit| {
                let mut candidate = self.judged(machine, &fit)?;
                candidate.site = site_for(machine, sites).map_err(|why| (Refusal::Site, why))?;
                let sampled = self.sampled(machine, &fit, &common);
                candidate.machines_range = sampled.machines();
                candidate.total_usd_per_hour_range = sampled.usd();
                candidate.feasible_ratio = sampled.feasible();
                let host = candidate.hosts.and_then(|_| self.host(machine)).map(|(_, on_one)| on_one);
                within(&self.question, machine, &candidate, host)?;
                Ok((candidate, sampled))
            });
            judged.map_err(|(refusal, why)| {
                let (machine, provider) = (machine.name.clone(), machine.provider.clone());
                Refused { machine, provider, refusal, why }
            })
        };
        for judged in in_two(&machines, &judge) {
            match judged {
                Ok((candidate, at_points)) => {
                    candidates.push(candidate);
                    sampled.push(at_points);
                }
                Err(one) => refused.push(one),
            }
        }
        for (candidate, ratio) in candidates.iter_mut().zip(crate::sample::cheapest(&sampled)) {
            candidate.cheapest_ratio = ratio;
        }
        (candidates, refused)
    }

    /// The machines the plan looks at.
    fn machines(&self) -> impl Iterator<Item = &Machine> {
        let wanted = &self.question.candidates;
        let among = |list: &[String], name: &str| list.is_empty() || list.iter().any(|one| one == name);
        self.world.machines.iter().filter(move |machine| {
            let family = machine.family.split_once('/').map_or(machine.family.as_str(), |(_, family)| family);
            among(&wanted.providers, &machine.provider)
                && among(&wanted.families, family)
                && among(&wanted.machines, &machine.name)
        })
    }

    pub(crate) fn machine(&self, name: &str) -> Option<&Machine> {
        self.world.machines.iter().find(|machine| machine.name == name)
    }

    /// A machine, judged.
    pub(crate) fn candidate(&self, machine: &Machine) -> Result<Candidate, (Refusal, String)> {
        let fit = self.fit(machine, 1.0)?;
        self.judged(machine, &fit)
    }

    fn judged(&self, machine: &Machine, fit: &Fit) -> Result<Candidate, (Refusal, String)> {
        let failure = &self.question.failure;
        let machines = with_spares(fit.needed, failure);
        let shared = sharing(machine, &self.question.placement);
        let (hosts, price) = self.price(machine, machines);
        let units = |bound: &Bound| bound.units().unwrap_or(f64::INFINITY).floor();
        let mut bounds = fit.bounds.iter().filter(|bound| bound.units().is_some());
        let binding = bounds.next().cloned().ok_or((Refusal::Unknown, "no limit is known".to_owned()))?;
        let (also, others): (Vec<&Bound>, Vec<&Bound>) = bounds.partition(|b| units(b) <= units(&binding));
        // What binds may allow less than a whole unit: one runs all the same, and is not filled.
        let bound_at = binding.units().unwrap_or(0.0).min(f64::from(fit.most));
        let next = others.first().map(|b| Next { bound: (*b).clone(), margin: units(b) / bound_at - 1.0 });
        let share_lost = match self.demand.groups {
            Some(groups) => f64::from(groups.div_ceil(fit.needed)) / f64::from(groups),
            None => 1.0 / f64::from(fit.needed),
        };
        let zones = f64::from(failure.zones.max(1));
        let gbps = self.demand.bits().map(BitRate::gbps);
        let usd = price.as_ref().map(|price| price.value);
        let total = usd.map(|usd| usd + self.traffic_of(machine.place));
        let throughput = |share: f64| self.throughput(share);
        let carries = match self.demand.groups {
            Some(groups) => fit.each * f64::from(groups),
            None => fit.carries * f64::from(fit.needed),
        };
        Ok(Candidate {
            machine: machine.name.clone(),
            provider: machine.provider.clone(),
            place: machine.place,
            family: machine.family.clone(),
            basis: fit.basis,
            from: self.rests_on(fit, &shared, price.as_ref()).iter().map(|(from, _)| *from).max().unwrap_or_default(),
            rests_on: self.rests_on(fit, &shared, price.as_ref()).into_iter().map(|(_, what)| what).collect(),
            units: fit.most,
            also_binding: also.into_iter().cloned().collect(),
            unknown: fit.bounds.iter().filter(|bound| bound.allows == Allows::Unknown).cloned().collect(),
            assumed: fit.bounds.iter().filter(|bound| bound.is_a_guess()).cloned().collect(),
            bounds: fit.bounds.clone(),
            binding,
            next,
            each: throughput(fit.each),
            each_range: self.each_range(fit),
            margin: carries - 1.0,
            carries: throughput(carries),
            needed: fit.needed,
            machines,
            machines_range: Quantiles::exactly(Some(machines)),
            total_usd_per_hour_range: Quantiles::exactly(total.map(|usd| usd.0)),
            feasible_ratio: 1.0,
            cheapest_ratio: 0.0,
            hosts,
            unused: self.unused(machine, fit),
            total_usd_per_hour: total,
            usd_per_hour_per_gbps: usd.zip(gbps).map(|(usd, gbps)| usd.0 / gbps),
            usd_per_subscriber_month: usd.zip(self.demand.subscribers).map(|(usd, n)| price::month(usd) / n.0),
            usd_per_hour: price,
            lost_with_one: Lost {
                share: share_lost,
                subscribers: self.demand.subscribers.map(|all| all.0 * share_lost),
                units: self.demand.groups.map_or(fit.most, |groups| groups.div_ceil(fit.needed)),
                share_with_zone: (f64::from(fit.needed) / zones).ceil() / f64::from(fit.needed),
            },
            site: None,
            power: self.power(machine, fit, machines),
        })
    }

    /// A share of the whole demand.
    fn throughput(&self, share: f64) -> Throughput {
        let load = self.load(share);
        Throughput { bits: load.bits, packets: load.packets }
    }

    /// What a unit carries, as far as measurements tell; what neighbours leave is taken at its value.
    fn each_range(&self, fit: &Fit) -> Range {
        let known = &fit.throughput;
        let of = |share: Ratio| self.throughput(fit.each * if known.value.0 > 0.0 { share / known.value } else { 1.0 });
        Range { p10: of(known.low), p50: of(known.value), p90: of(known.high) }
    }

    fn curves(&self) -> Vec<MeasuredCurve> {
        let curve = |(machine, curve): (&String, &crate::scaling::Curve)| {
            let point = |units, share| CurvePoint { units, each: self.throughput(share) };
            let points = curve.samples().iter().map(|s| point(s.units, s.each.value.0)).collect();
            let law = |usl: &crate::scaling::Usl| {
                (1..=curve.most() + 2).map(|units| point(units, usl.each(f64::from(units)))).collect()
            };
            let (machine, usl) = (machine.clone(), curve.usl().copied());
            MeasuredCurve { machine, points, law: usl.as_ref().map(law).unwrap_or_default(), usl }
        };
        self.sources.curves().map(curve).collect()
    }

    fn traffic_of(&self, place: Place) -> Hourly {
        match place {
            Place::Cloud => self.traffic.cloud(),
            Place::OnPremise => self.traffic.own(),
        }
    }

    /// An hour of a dedicated host for a machine, and how many of them are on it.
    fn host(&self, machine: &Machine) -> Option<(Known<Hourly>, u32)> {
        dedicated_host(machine, &self.world.machines, &self.question.price)
    }

    /// Hosts, where they are the operator's alone, and what all machines cost an hour.
    fn price(&self, machine: &Machine, machines: u32) -> (Option<u32>, Option<Known<Hourly>>) {
        let input = &self.question.price;
        let each = |machine: &Machine| {
            let price = machine.price.as_ref()?;
            // Servers of one's own are paid for; a cloud's commitment takes nothing off.
            Some(if machine.place == Place::Cloud { price::machine(price, input) } else { price.clone() })
        };
        let dedicated = self.question.placement.host == Host::Dedicated && !machine.whole_host;
        if !dedicated {
            return (None, each(machine).map(|price| price.map(|price| price * f64::from(machines))));
        }
        let Some((fee, on_one)) = self.host(machine) else { return (None, None) };
        let hosts = machines.div_ceil(on_one);
        (Some(hosts), Some(fee.map(|fee| fee * f64::from(hosts))))
    }

    fn rests_on(&self, fit: &Fit, shared: &Known<Ratio>, price: Option<&Known<Hourly>>) -> Vec<(Provenance, String)> {
        let line = |from: Provenance, what: &str, source: &str| {
            let source = if source.is_empty() { String::new() } else { format!(", {source}") };
            (from, format!("{what}: {from}{source}"))
        };
        let mut lines = vec![
            line(self.demand.from, "demand", ""),
            line(fit.throughput.from, &format!("throughput ({})", fit.basis), &fit.throughput.source),
        ];
        if shared.value.0 < 1.0 {
            lines.push(line(shared.from, &format!("neighbours leave {}", shared.value), &shared.source));
        }
        lines.push(match price {
            Some(price) => line(price.from, "price", &price.source),
            None => line(Provenance::Unknown, "price", ""),
        });
        lines
    }

    fn unused(&self, machine: &Machine, fit: &Fit) -> Unused {
        let needed = f64::from(fit.needed);
        let units = self.demand.groups.map_or(needed * f64::from(fit.most), f64::from);
        let on_one = self.demand.groups.map_or(fit.most, |groups| groups.div_ceil(fit.needed));
        let left = |used: f64, there: f64| 1.0 - used / there;
        let vcpus = machine.vcpus.map(|there| left(units * f64::from(self.unit.vcpus), needed * f64::from(there)));
        let there = bandwidth(machine, &self.question.placement);
        let interfaces =
            machine.interfaces.map(|there| left(f64::from(self.unit.interfaces_of(on_one)), f64::from(there)));
        let bandwidth = there.zip(self.demand.bits()).map(|((there, _), bits)| left(bits.0, needed * there.0));
        Unused { vcpus, bandwidth, interfaces }
    }

    fn power(&self, machine: &Machine, fit: &Fit, machines: u32) -> Option<Power> {
        let (idle, most) = machine.power?;
        let busy = (1.0 / (fit.carries * f64::from(fit.needed))).min(1.0);
        let at_work = (idle + (most - idle) * busy) * f64::from(fit.needed);
        Some(at_work + idle * f64::from(machines - fit.needed))
    }

    /// A demand that only fails because each unit would have to carry too much is impossible, not merely expensive.
    fn possible(&self, candidates: &[Candidate], refused: &[Refused]) -> Result<(), Wrong> {
        let bounded = |one: &Refused| matches!(one.refusal, Refusal::Site | Refusal::OutOfBounds);
        if !candidates.is_empty() || refused.iter().any(bounded) {
            return Ok(());
        }
        let slow = refused.iter().filter(|refused| refused.refusal == Refusal::TooSlow);
        if let Some(example) = slow.clone().next() {
            let what =
                format!("no machine does this: on {} {} ({} of that kind)", example.machine, example.why, slow.count());
            return Err(Wrong::at("demand.each", what, "smaller groups, or points of faster machines"));
        }
        if self.question.point.is_empty() && self.question.cost.is_empty() {
            let help = "add [[point]] sections, [[cost]], or calibrate: weir plan PLAN.toml --from result.json";
            return Err(Wrong::at("gateway", "nothing is known of what any machine carries", help));
        }
        Ok(())
    }

    fn notes(&self, candidates: &[Candidate]) -> Vec<String> {
        let mut notes: Vec<String> = self.sources.unused.iter().map(|why| format!("not used: {why}")).collect();
        let traffic = self.traffic.cloud();
        let cloud = candidates.iter().find(|c| c.place == Place::Cloud && c.usd_per_hour.is_some());
        if let Some(usd) = cloud.and_then(|cloud| cloud.usd_per_hour.as_ref())
            && traffic > usd.value
        {
            let times = traffic / usd.value;
            notes.push(format!(
                "traffic costs {times:.0} times the machines: {:.2} $/h at the demand planned for",
                traffic.0
            ));
        }
        if candidates.iter().any(|c| c.place == Place::OnPremise)
            && traffic.0 > 0.0
            && self.traffic.own_usd_per_hour.is_none()
        {
            notes.push(
                "what carrying traffic costs on premise is not known, and not in its price: price.own_transfer"
                    .to_owned(),
            );
        }
        let input = &self.question.price;
        let of_path = input.path.transit.as_ref().map(|transit| transit.crossings.unwrap_or(1));
        if let (Some(crossings), Some(bits)) = (input.transit_crossings.or(of_path), self.demand.bits())
            && crossings > 0
        {
            let attachments = (bits.0 / 100e9).ceil().max(1.0);
            let packets = self.demand.packets().map_or(String::new(), |packets| {
                format!("; {packets} against 7.5 Mpps an attachment, which secondary sources say")
            });
            let plural = if attachments > 1.0 { "s" } else { "" };
            notes.push(format!("transit gateway: {attachments} attachment{plural} of 100 Gbit/s in a zone{packets}"));
        }
        if !self.traffic.path.is_empty() && candidates.iter().any(|c| c.place == Place::Cloud && c.provider != "aws") {
            notes.push("published prices of the path are those of AWS, for other clouds too: price.path".to_owned());
        }
        if self.question.demand.day.is_none() && candidates.iter().any(|c| c.usd_per_hour.is_some()) {
            let what = "averages and months have the peak all day: add demand.day, the load of each hour";
            notes.push(what.to_owned());
        }
        if self.question.placement.host == Host::Dedicated {
            notes.push("dedicated hosts: two per account and region unless more are requested".to_owned());
        }
        for (provider, region) in &self.question.region {
            let there = format!(", {region}, ");
            let mut of = self.world.machines.iter().filter(|machine| machine.provider == *provider);
            if !of.any(|machine| machine.price.as_ref().is_some_and(|price| price.source.contains(&there))) {
                notes.push(format!(
                    "no price of {provider} in {region} is known: its prices are assumed from another region's; add rows \
                     to prices.tsv of a --catalogue"
                ));
            }
        }
        notes
    }
}
