//! One machine against the demand: how many units it runs, what binds it, how many machines that makes.

use schemars::JsonSchema;
use serde::Serialize;

use crate::known::Known;
use crate::limits::{Allows, Bound, Limit, Load, places, traffic, traffic_room};
use crate::machine::Machine;
use crate::placement::sharing;
use crate::plan::Planner;
use crate::quantity::Ratio;
use crate::scaling::Basis;

/// Rounding must not make a machine more.
pub(crate) const HAIR: f64 = 1e-9;
/// No machine runs more units than this.
const MOST_UNITS: u32 = 1024;

/// A machine that can do it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Fit {
    /// The most units it can run.
    pub most: u32,
    /// Places for units, whatever they carry.
    pub room: u32,
    /// The share of the whole demand one unit carries when so many run, after neighbours took theirs.
    pub each: f64,
    /// The share of the whole demand the machine carries.
    pub carries: f64,
    /// How the throughput follows from measurements.
    pub basis: Basis,
    /// What it rests on.
    pub throughput: Known<Ratio>,
    /// Machines needed.
    pub needed: u32,
    /// Every limit, the tightest first.
    pub bounds: Vec<Bound>,
}

/// Why a machine cannot do it, or why nobody can say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Refusal {
    /// A unit finds no place on it.
    TooSmall,
    /// A unit on it carries less than it must.
    TooSlow,
    /// No site for it is as the plan wants it.
    Site,
    /// More than the plan's bounds allow.
    OutOfBounds,
    /// The policy allows no answer from what was measured.
    NotMeasured,
    /// The catalogue does not say what it is.
    Unknown,
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Self::TooSmall => "too small",
            Self::TooSlow => "too slow",
            Self::Site => "no site",
            Self::OutOfBounds => "out of bounds",
            Self::NotMeasured => "not measured",
            Self::Unknown => "unknown",
        })
    }
}

/// A number of units tried.
struct Tried {
    n: u32,
    each: f64,
    carries: f64,
    basis: Basis,
    throughput: Known<Ratio>,
    load: Load,
}

impl Planner {
    /// A machine against the demand times `scale`.
    pub(crate) fn fit(&self, machine: &Machine, scale: f64) -> Result<Fit, (Refusal, String)> {
        let subscribers = self.demand.subscribers.map(|all| all.0);
        let of_a_unit = |share: f64| subscribers.map(|all| all * share);
        let group = self.demand.groups.map(|groups| 1.0 / f64::from(groups));
        let mut bounds = places(machine, &self.unit, of_a_unit(group.unwrap_or(0.0)));
        self.measured_as_a_whole(machine, &mut bounds);
        bounds.extend(self.failure_domain(group));
        let places_for = self.room(&bounds)?;
        let kept = self.kept(machine).value.0;
        let interface = machine.packets_per_interface.as_ref().zip(self.demand.packets());
        let interface = interface.map_or(f64::INFINITY, |(there, all)| there.value / all / scale);

        let (mut best, mut slow, mut missing): (Option<Tried>, Option<Tried>, Option<String>) = (None, None, None);
        for n in 1..=places_for {
            let (throughput, basis) = match self.sources.each(machine, n, self.question.points) {
                Ok(known) => known,
                Err(why) => {
                    missing.get_or_insert(why.0);
                    continue;
                }
            };
            // Of the demand times `scale`.
            let each = throughput.value.0 * kept / scale;
            let each = if group.is_none() { each.min(interface) } else { each };
            let load = self.load(group.unwrap_or(each) * scale);
            let room = traffic_room(machine, &self.question.placement, load);
            let tried = match group {
                Some(group) => Tried { n, each, carries: f64::from(n) * group, basis, throughput, load },
                None => {
                    let by_memory = self.by_memory(machine, of_a_unit(each * scale));
                    let units = f64::from(n).min(room).min(by_memory).min(self.domain(each));
                    Tried { n, each, carries: units * each, basis, throughput, load }
                }
            };
            let enough = match group {
                Some(group) => each >= group * (1.0 - HAIR) && room >= f64::from(n) - HAIR,
                None => tried.carries > 0.0,
            };
            match (&best, enough) {
                (Some(best), true) if tried.carries <= best.carries * (1.0 + HAIR) => {}
                (_, true) => best = Some(tried),
                (_, false) => {
                    slow.get_or_insert(tried);
                }
            }
        }
        let Some(best) = best else { return Err(self.refused(machine, slow, missing, group)) };
        bounds.extend(traffic(machine, &self.question.placement, best.load));
        bounds.push(self.beyond(machine, best.n, kept / scale, group));
        if group.is_none() {
            bounds.retain(|bound| bound.limit != Limit::Memory);
            bounds.extend(
                places(machine, &self.unit, of_a_unit(best.each * scale))
                    .into_iter()
                    .filter(|b| b.limit == Limit::Memory),
            );
            bounds.extend(self.domain_bound(best.each));
        }
        let tightness = |bound: &Bound| bound.units().unwrap_or(f64::INFINITY);
        bounds.sort_by(|a, b| tightness(a).total_cmp(&tightness(b)).then(a.limit.cmp(&b.limit)));
        let needed = match self.demand.groups {
            Some(groups) => groups.div_ceil(best.n),
            None => (1.0 / best.carries - HAIR).ceil().max(1.0) as u32,
        };
        let Tried { n, each, carries, basis, mut throughput, .. } = best;
        throughput.source = self.sources.told(machine, n, basis);
        Ok(Fit { most: n, room: places_for, each, carries, basis, throughput, needed, bounds })
    }

    /// What is left of a unit's throughput beside neighbours and up to the load that is aimed for.
    pub(crate) fn kept(&self, machine: &Machine) -> Known<Ratio> {
        let shared = sharing(machine, &self.question.placement);
        let target = self.question.autoscale.as_ref().and_then(|auto| auto.target_load);
        shared.map(|share| share * target.unwrap_or(1.0))
    }

    /// So many units as were measured on a machine found their queues, whatever one interface has: a server measured as
    /// a whole has more interfaces than one.
    fn measured_as_a_whole(&self, machine: &Machine, bounds: &mut [Bound]) {
        let Some(most) = self.sources.own(machine).map(crate::scaling::Curve::most) else { return };
        let queues = bounds.iter_mut().find(|bound| bound.limit == Limit::Queues);
        if let Some(bound) = queues
            && bound.units().is_some_and(|units| units < f64::from(most))
        {
            bound.allows = Allows::Units(f64::from(most));
            bound.why = format!("{}; {most} ran when it was measured", bound.why);
        }
    }

    /// What a unit that carries a share of the demand puts through its machine.
    pub(crate) fn load(&self, share: f64) -> Load {
        Load { bits: self.demand.bits().map(|b| b * share), packets: self.demand.packets().map(|p| p * share) }
    }

    /// Whole units there is a place for.
    fn room(&self, bounds: &[Bound]) -> Result<u32, (Refusal, String)> {
        let tightest = bounds.iter().filter(|b| b.units().is_some()).min_by(|a, b| {
            let units = |bound: &Bound| bound.units().unwrap_or(f64::INFINITY);
            units(a).total_cmp(&units(b))
        });
        let Some(tightest) = tightest else {
            return Err((Refusal::Unknown, "neither its vCPUs nor its interfaces are known".to_owned()));
        };
        let units = tightest.units().unwrap_or(0.0).min(f64::from(MOST_UNITS)).floor() as u32;
        if units == 0 {
            let why = format!("{}: {} leaves no place for one {}", tightest.limit, tightest.why, self.unit.name);
            return Err((Refusal::TooSmall, why));
        }
        if bounds.iter().any(|bound| bound.limit == Limit::Vcpus && bound.allows == Allows::Unknown) {
            return Err((Refusal::Unknown, "its vCPUs are not known".to_owned()));
        }
        Ok(units)
    }

    fn by_memory(&self, machine: &Machine, subscribers: Option<f64>) -> f64 {
        if self.unit.memory.is_none() && self.unit.memory_per_subscriber.is_none() {
            return f64::INFINITY;
        }
        let bounds = places(machine, &self.unit, subscribers);
        let memory = bounds.iter().find(|bound| bound.limit == Limit::Memory);
        memory.and_then(Bound::units).unwrap_or(f64::INFINITY)
    }

    /// With groups: units that may be lost at once.
    fn failure_domain(&self, group: Option<f64>) -> Option<Bound> {
        self.domain_bound(group?)
    }

    fn domain(&self, each: f64) -> f64 {
        self.question.failure.most_lost.map_or(f64::INFINITY, |most| most / each)
    }

    fn domain_bound(&self, each: f64) -> Option<Bound> {
        let most = self.question.failure.most_lost?;
        let why = format!("{} % of subscribers, {:.2} % on a unit", Ratio(100.0 * most), 100.0 * each);
        let units = self.domain(each) + HAIR;
        Some(Bound::new(Limit::FailureDomain, Allows::Units(units), why, crate::known::Provenance::Assumed))
    }

    /// How many units the measurements reach to, whatever else there is room for: up to where one carries too little,
    /// or more add nothing, or nobody measured.
    fn beyond(&self, machine: &Machine, n: u32, kept: f64, group: Option<f64>) -> Bound {
        let look = (2 * n + 8).max(self.sources.own(machine).map_or(0, crate::scaling::Curve::most));
        let (mut reached, mut carries, mut from) = (n, 0.0, crate::known::Provenance::Unknown);
        let mut stopped = None;
        for m in n..=look {
            let Ok((each, _)) = self.sources.each(machine, m, self.question.points) else { continue };
            let all = each.value.0 * kept * f64::from(m);
            let enough = match group {
                Some(group) => each.value.0 * kept >= group * (1.0 - HAIR),
                None => all > carries,
            };
            if !enough {
                stopped = Some(m);
                break;
            }
            (reached, carries, from) = (m, all, each.from);
        }
        let units = Allows::Units(f64::from(reached));
        match stopped {
            Some(m) => {
                let less = if group.is_some() { "carry less than they must each" } else { "carry no more than fewer" };
                Bound::new(Limit::Throughput, units, format!("{m} units {less}"), from)
            }
            None if reached == look => Bound::new(Limit::Throughput, Allows::Any, "more units carry more", from),
            None => Bound::new(Limit::Measured, units, format!("more than {reached} were never measured"), from),
        }
    }

    /// No number of units will do: why.
    fn refused(
        &self,
        machine: &Machine,
        slow: Option<Tried>,
        missing: Option<String>,
        group: Option<f64>,
    ) -> (Refusal, String) {
        let Some(slow) = slow else {
            return (Refusal::NotMeasured, missing.unwrap_or_else(|| "nobody measured it".to_owned()));
        };
        let bounds = traffic(machine, &self.question.placement, slow.load);
        let tight = bounds.iter().filter(|bound| bound.units().is_some_and(|units| units < f64::from(slow.n)));
        let tight = tight.min_by(|a, b| a.units().unwrap_or(0.0).total_cmp(&b.units().unwrap_or(0.0)));
        // What can be divided is stopped by what leaves no room at all, such as a flow that is too large.
        if let Some(bound) = tight
            && group.is_none_or(|group| slow.each >= group * (1.0 - HAIR))
        {
            return (Refusal::TooSmall, format!("{}: {}", bound.limit, bound.why));
        }
        let told = |share: f64| self.load(share).bits.map_or_else(|| format!("{share:.4}"), |bits| bits.to_string());
        let (gets, must) = (told(slow.each), told(group.unwrap_or(0.0)));
        let kept = sharing(machine, &self.question.placement).value;
        let beside = if kept.0 < 1.0 {
            format!(" ({kept} of what it was measured with, beside neighbours)")
        } else {
            String::new()
        };
        (Refusal::TooSlow, format!("a {} gets {gets}{beside} and must carry {must}", self.unit.name))
    }
}
