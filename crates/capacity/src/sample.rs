//! The answer at many points: every input at a place of its range, for all machines the same, so that their differences
//! in rank are not by chance.
//!
//! 1,024 points of a Sobol sequence with Owen's scrambling (B. Burley, "Practical Hash-based Owen Scrambling", 2020) and a
//! fixed seed: the same plan has the same answer. Machines needed at a point are `⌈max over limits⌉`.

use std::sync::LazyLock;

use schemars::JsonSchema;
use serde::Serialize;

use crate::fit::{Fit, HAIR};
use crate::known::Known;
use crate::limits::bandwidth;
use crate::machine::{Machine, Place};
use crate::placement::{dedicated_host, with_spares};
use crate::plan::Planner;
use crate::quantity::{Hourly, PacketRate, PerGigabyte};
use crate::question::Host;
use crate::spread::{Spread, deviate};

pub const POINTS: usize = 1024;
const SEED: u32 = 0x7765_6972;

/// What varies, each in a dimension of its own.
#[derive(Clone, Copy)]
enum Of {
    Demand,
    Throughput,
    Neighbours,
    Packets,
    CloudPrice,
    OwnPrice,
    Transfer,
    Transit,
    OwnTransfer,
    Path,
}

const DIMENSIONS: usize = Of::Path as usize + 1;

/// Standard normal deviates.
struct Point([f64; DIMENSIONS]);

impl Point {
    fn at(&self, of: Of, spread: &Spread) -> f64 {
        spread.at(self.0[of as usize])
    }
}

static ALL: LazyLock<Vec<Point>> = LazyLock::new(|| {
    let one = |point: u32, dimension: usize| {
        let uniform = f64::from(sobol_burley::sample(point, dimension as u32, SEED));
        deviate(uniform.clamp(1e-6, 1.0 - 1e-6))
    };
    (0..POINTS as u32).map(|point| Point(std::array::from_fn(|dimension| one(point, dimension)))).collect()
});

/// P10, P50 and P90; none: it cannot be done there.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Quantiles<T> {
    pub p10: Option<T>,
    pub p50: Option<T>,
    pub p90: Option<T>,
}

impl<T: Copy + PartialOrd> Quantiles<T> {
    pub(crate) fn exactly(value: Option<T>) -> Self {
        Self { p10: value, p50: value, p90: value }
    }

    /// Of values in any order; those at `never` or beyond are of points at which it cannot be done.
    fn of(values: &[T], never: T) -> Self {
        let mut values = values.to_vec();
        let mut at = |share: f64| {
            let last = values.len().checked_sub(1)?;
            let n = ((share * values.len() as f64).ceil() as usize).saturating_sub(1).min(last);
            let order = |a: &T, b: &T| a.partial_cmp(b).unwrap_or(std::cmp::Ordering::Equal);
            let (_, value, _) = values.select_nth_unstable_by(n, order);
            Some(*value).filter(|value| *value < never)
        };
        Self { p10: at(0.1), p50: at(0.5), p90: at(0.9) }
    }
}

/// A machine at all points.
pub(crate) struct Sampled {
    machines: Vec<u32>,
    /// Machines and traffic, an hour; infinite where it cannot be done or has no price.
    usd: Vec<f64>,
}

/// Machines that cannot be had: no number of them will do.
const NEVER: u32 = u32::MAX;

impl Sampled {
    pub fn machines(&self) -> Quantiles<u32> {
        Quantiles::of(&self.machines, NEVER)
    }

    pub fn usd(&self) -> Quantiles<f64> {
        Quantiles::of(&self.usd, f64::INFINITY)
    }

    /// The share of points at which it can be done.
    pub fn feasible(&self) -> f64 {
        self.machines.iter().filter(|machines| **machines < NEVER).count() as f64 / POINTS as f64
    }
}

/// For each machine the share of points at which it is the cheapest of those that can do it; where several cost the same,
/// each has its part.
pub(crate) fn cheapest(all: &[Sampled]) -> Vec<f64> {
    let mut won = vec![0.0; all.len()];
    for point in 0..POINTS {
        let least = all.iter().map(|one| one.usd[point]).fold(f64::INFINITY, f64::min);
        if least.is_infinite() {
            continue;
        }
        let first: Vec<usize> = (0..all.len()).filter(|n| all[*n].usd[point] <= least * (1.0 + HAIR)).collect();
        first.iter().for_each(|n| won[*n] += 1.0 / (first.len() * POINTS) as f64);
    }
    won
}

/// What is the same for all machines at each point.
pub(crate) struct Common {
    demand: Vec<f64>,
    /// What traffic costs in a cloud and on premise.
    traffic: [Vec<f64>; 2],
}

/// What a machine's answer at a point follows from.
struct Model {
    /// What each of so many units carries, as a share of the demand.
    each: Vec<(u32, Spread)>,
    kept: Spread,
    /// Packets of the machine by those of the whole demand.
    packets: Option<Spread>,
    /// Packets of one interface, likewise.
    of_interface: Option<Spread>,
    /// Bits of the machine, likewise.
    bits: f64,
    /// Bytes there, of a unit, and of all subscribers; none: memory is not asked for.
    memory: Option<[f64; 3]>,
    /// The most of the demand on one machine.
    most_lost: f64,
    group: Option<f64>,
    /// An hour of what is paid for, and how many machines are on one of it.
    price: Option<(Spread, u32)>,
}

impl Planner {
    pub(crate) fn common(&self) -> Common {
        let demand = Spread::new(self.demand.low, 1.0, self.demand.high);
        let demand: Vec<f64> = ALL.iter().map(|point| point.at(Of::Demand, &demand)).collect();
        let traffic = [Place::Cloud, Place::OnPremise].map(|place| {
            let spreads = self.traffic_spreads(place);
            let by_the_hour = self.path_spread(place, true);
            let each = |(point, demand): (&Point, &f64)| {
                let traffic = spreads.iter().map(|(of, usd)| point.at(*of, usd) * demand).sum::<f64>();
                traffic + by_the_hour.as_ref().map_or(0.0, |usd| point.at(Of::Path, usd))
            };
            ALL.iter().zip(&demand).map(each).collect()
        });
        Common { demand, traffic }
    }

    /// A machine at all points.
    pub(crate) fn sampled(&self, machine: &Machine, fit: &Fit, common: &Common) -> Sampled {
        let model = self.model(machine, fit);
        let cloud = machine.place == Place::Cloud;
        let traffic = &common.traffic[usize::from(!cloud)];
        let mut sampled = Sampled { machines: Vec::with_capacity(POINTS), usd: Vec::with_capacity(POINTS) };
        for ((point, demand), traffic) in ALL.iter().zip(common.demand.iter().copied()).zip(traffic) {
            let needed = match model.group {
                Some(group) => model.groups(point, demand, group, self.demand.groups.unwrap_or(1)),
                None => model.divided(point, demand),
            };
            let machines = needed.map(|needed| with_spares(needed, &self.question.failure));
            let price = machines.zip(model.price.as_ref()).map(|(machines, (each, on_one))| {
                let of = if cloud { Of::CloudPrice } else { Of::OwnPrice };
                point.at(of, each) * f64::from(machines.div_ceil(*on_one)) + traffic
            });
            sampled.machines.push(machines.unwrap_or(NEVER));
            sampled.usd.push(price.unwrap_or(f64::INFINITY));
        }
        sampled
    }

    fn traffic_spreads(&self, place: Place) -> Vec<(Of, Spread)> {
        let price = &self.question.price;
        let all = match place {
            Place::Cloud => vec![
                (Of::Transfer, self.traffic.transfer_usd_per_hour, &price.transfer),
                (Of::Transit, self.traffic.transit_usd_per_hour, &price.transit),
            ],
            Place::OnPremise => vec![(Of::OwnTransfer, self.traffic.own_usd_per_hour, &price.own_transfer)],
        };
        let spread = |(of, usd, price): (Of, Option<Hourly>, &Option<Known<PerGigabyte>>)| {
            let price = price.as_ref()?;
            let by = if price.value.0 > 0.0 { usd?.0 / price.value.0 } else { 0.0 };
            Some((of, Spread::of(price).times(&Spread::exactly(by))))
        };
        let path = self.path_spread(place, false).map(|usd| (Of::Path, usd));
        all.into_iter().filter_map(spread).chain(path).collect()
    }

    /// All that the path costs by the hour, or by the gigabyte, at the demand planned for.
    fn path_spread(&self, place: Place, by_the_hour: bool) -> Option<Spread> {
        let charges = || self.traffic.path.iter().filter(|charge| charge.count.is_some() == by_the_hour);
        if place == Place::OnPremise || charges().next().is_none() {
            return None;
        }
        let sum = |of: fn(&Known<Hourly>) -> Hourly| charges().map(|charge| of(&charge.usd_per_hour).0).sum();
        Some(Spread::new(sum(|usd| usd.low), sum(|usd| usd.value), sum(|usd| usd.high)))
    }

    fn model(&self, machine: &Machine, fit: &Fit) -> Model {
        let whole = self.load(1.0);
        let by = |known: &Known<PacketRate>| Some(Spread::of(known).times(&Spread::exactly(1.0 / whole.packets?.0)));
        let each = (1..=fit.room)
            .filter_map(|n| Some((n, Spread::of(&self.sources.each(machine, n, self.question.points).ok()?.0))))
            .collect();
        let bits = bandwidth(machine, &self.question.placement).zip(whole.bits);
        let memory = machine.memory.filter(|_| self.unit.memory.is_some() || self.unit.memory_per_subscriber.is_some());
        let of_subscribers = self.unit.memory_per_subscriber.as_ref().zip(self.demand.subscribers);
        let mut model = Model {
            each,
            kept: Spread::of(&self.kept(machine)),
            packets: machine.packets.as_ref().and_then(by),
            of_interface: machine.packets_per_interface.as_ref().and_then(by),
            bits: bits.map_or(f64::INFINITY, |((there, _), bits)| there.0 / bits.0),
            memory: memory.map(|there| {
                let unit = self.unit.memory.as_ref().map_or(0.0, |memory| memory.value.0);
                [there.0, unit, of_subscribers.map_or(0.0, |(each, all)| each.value.0 * all.0)]
            }),
            most_lost: self.question.failure.most_lost.unwrap_or(f64::INFINITY),
            group: self.demand.groups.map(|groups| 1.0 / f64::from(groups)),
            price: self.paid_for(machine),
        };
        model.leave_out(fit.most);
        model
    }

    /// What is paid by the hour, one instance or one host, and how many instances are on it.
    fn paid_for(&self, machine: &Machine) -> Option<(Spread, u32)> {
        let input = &self.question.price;
        let each = |machine: &Machine| {
            let price = machine.price.as_ref()?;
            let cloud = machine.place == Place::Cloud;
            Some(if cloud { Spread::of(&crate::price::machine(price, input)) } else { Spread::of(price) })
        };
        if self.question.placement.host != Host::Dedicated || machine.whole_host {
            return Some((each(machine)?, 1));
        }
        let (fee, on_one) = dedicated_host(machine, &self.world.machines, input)?;
        Some((Spread::of(&fee), on_one))
    }
}

impl Model {
    /// Keeps of demand that can be divided only those numbers of units that carry most somewhere in the range.
    fn leave_out(&mut self, most: u32) {
        if self.group.is_some() {
            return;
        }
        let best = |deviate: &f64| {
            let total = |one: &&(u32, Spread)| f64::from(one.0) * one.1.at(*deviate);
            self.each.iter().max_by(|a, b| total(a).total_cmp(&total(b))).map(|one| one.0)
        };
        let deviates = [-3.0, -1.3, -0.6, 0.0, 0.6, 1.3, 3.0];
        let mut used: Vec<u32> = deviates.iter().filter_map(best).collect();
        used.push(most);
        self.each.retain(|(n, _)| used.contains(n));
    }

    /// Machines for demand that can be divided.
    fn divided(&self, point: &Point, demand: f64) -> Option<u32> {
        let kept = point.at(Of::Neighbours, &self.kept) / demand;
        let packets = self.packets.as_ref().map_or(f64::INFINITY, |spread| point.at(Of::Packets, spread) / demand);
        let interface = self.of_interface.as_ref().map_or(f64::INFINITY, |spread| spread.p50 / demand);
        let carries = |(n, each): &(u32, Spread)| {
            let each = (point.at(Of::Throughput, each) * kept).min(interface);
            let by_memory = self.memory.map_or(f64::INFINITY, |[there, unit, subscribers]| {
                let needed = unit + subscribers * each * demand;
                if needed > 0.0 { (there / needed).floor() } else { f64::INFINITY }
            });
            f64::from(*n).min(by_memory) * each
        };
        let units = self.each.iter().map(carries).fold(0.0, f64::max);
        let all = units.min(packets).min(self.bits / demand).min(self.most_lost);
        (all > 0.0).then(|| (1.0 / all - HAIR).ceil().max(1.0).min(f64::from(NEVER - 1)) as u32)
    }

    /// Machines for groups that stay whole.
    fn groups(&self, point: &Point, demand: f64, group: f64, groups: u32) -> Option<u32> {
        let kept = point.at(Of::Neighbours, &self.kept);
        let packets = self.packets.as_ref().map_or(f64::INFINITY, |spread| point.at(Of::Packets, spread));
        let wanted = group * demand;
        if self.of_interface.as_ref().is_some_and(|there| there.p50 < wanted * (1.0 - HAIR)) {
            return None;
        }
        let room = packets.min(self.bits) / wanted + HAIR;
        let enough = |(n, each): &&(u32, Spread)| {
            f64::from(*n) <= room && point.at(Of::Throughput, each) * kept >= wanted * (1.0 - HAIR)
        };
        self.each.iter().rev().find(enough).map(|(n, _)| groups.div_ceil(*n))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_are_the_same_every_time_and_evenly_spread() {
        assert_eq!(ALL.len(), POINTS);
        for dimension in 0..DIMENSIONS {
            let below = |edge: f64| ALL.iter().filter(|point| point.0[dimension] < edge).count();
            // Of a scrambled Sobol sequence every sixteenth of the range has a sixteenth of the points.
            assert_eq!(below(0.0), POINTS / 2, "dimension {dimension}");
            assert_eq!(below(deviate(1.0 / 16.0)), POINTS / 16, "dimension {dimension}");
        }
        let quantiles = Quantiles::of(&ALL.iter().map(|point| point.0[0]).collect::<Vec<_>>(), 9.0);
        assert!((quantiles.p90.unwrap() - crate::spread::Z90).abs() < 0.01, "{quantiles:?}");
    }

    #[test]
    fn what_cannot_be_done_has_no_quantile() {
        let quantiles = Quantiles::of(&[3, 1, 2, NEVER, 4, 5, 6, 7, NEVER, 8], NEVER);
        assert_eq!((quantiles.p10, quantiles.p50, quantiles.p90), (Some(1), Some(5), None));
    }
}
