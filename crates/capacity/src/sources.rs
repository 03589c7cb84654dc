//! From what a plan says was measured to a curve for each machine, and from one machine's curve to another's.
//!
//! Curves are in shares of the plan's whole demand: a unit that carries 2.5 of 60 Gbit/s carries 0.0417. Bits, packets,
//! one direction or both are all brought to that one number, and compared there.
//!
//! **Translation.** Work per packet is taken to be the same number of cycles on machines of one architecture, so
//! throughput goes with the clock, `X₂ = X₁ · clock₂ / clock₁`, times what publications saw beside the clock
//! ([`crate::prior`]).

use std::collections::BTreeMap;

use crate::cost::{Cost, CostModel, Observation};
use crate::demand::Demand;
use crate::known::{Known, Provenance};
use crate::machine::{Machine, Place};
use crate::prior::{self, Step};
use crate::quantity::{BitRate, Clock, FrameSize, PacketRate, Ratio};
use crate::question::{CostInput, Directions, PointInput, Question, mean};
use crate::scaling::{Basis, Confidence, Curve, Sample};
use crate::spread::Spread;

/// Frames this much apart are different frames.
const SAME_FRAME: f64 = 0.02;

/// `X₂ = X₁ · clock₂ / clock₁ / cycles₂ · cycles₁`, with `cycles` what a packet takes there by what it takes here.
pub fn translated(throughput: f64, from: Clock, to: Clock, cycles: f64) -> f64 {
    throughput * (to / from) / cycles
}

/// A machine that was measured.
#[derive(Clone, Debug)]
pub struct Source {
    pub curve: Curve,
    clock: Option<Clock>,
    arch: Option<String>,
    family: Option<String>,
    vcpus: Option<u32>,
    place: Option<Place>,
}

impl Source {
    fn in_family_of(&self, machine: &Machine) -> bool {
        self.family.as_deref() == Some(machine.family.as_str())
    }
}

/// The factor from one machine to another, as a range.
fn translation(source: &Source, machine: &Machine, held_out: Option<&str>) -> Result<Spread, NotMeasured> {
    let translation = |step: Step| match held_out {
        None => prior::translation(step),
        target => prior::translation_without(step, target),
    };
    match source.clock.zip(machine.clock) {
        _ if source.in_family_of(machine) => Ok(translation(Step::Family)),
        Some((from, to)) => {
            let step = translation(Step::between(source.place, machine.place));
            Ok(step.times(&Spread::exactly(translated(1.0, from, to, 1.0))))
        }
        None => Err(NotMeasured("its clock is not known, so nothing can be concluded from others".to_owned())),
    }
}

/// All machines that were measured, by name.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    by_machine: BTreeMap<String, Source>,
    held_out: Option<String>,
    /// Points that were not used, and why.
    pub unused: Vec<String>,
}

/// Why there is no throughput to calculate with.
#[derive(Clone, Debug, PartialEq)]
pub struct NotMeasured(pub String);

/// One measurement, in the plan's measure.
struct Measured {
    share: Known<Ratio>,
    converted: bool,
}

impl Sources {
    /// From a plan's points and stated costs. `held_out`: what of the publications is not to teach anything.
    pub fn new(question: &Question, demand: &Demand, machines: &[Machine], held_out: Option<&str>) -> Self {
        let mut sources = Self { held_out: held_out.map(str::to_owned), ..Self::default() };
        let points: Vec<PointInput> =
            question.point.iter().cloned().chain(question.cost.iter().map(as_point)).collect();
        let models = models(&points);
        let mut samples: BTreeMap<String, BTreeMap<u32, Vec<Measured>>> = BTreeMap::new();
        for point in &points {
            let used = sources.measured(point, demand, question.points, models.get(&point.machine));
            match used {
                Ok(measured) => {
                    let of_machine = samples.entry(point.machine.clone()).or_default();
                    of_machine.entry(point.units).or_default().push(measured);
                }
                Err(why) => sources.unused.push(format!("{}, {} units: {why}", point.machine, point.units)),
            }
        }
        for (name, by_units) in samples {
            let sample = |(units, seen): (u32, Vec<Measured>)| {
                let converted = seen.iter().all(|one| one.converted);
                Sample { units, each: merged(seen), converted }
            };
            let samples = by_units.into_iter().map(sample).collect();
            let machine = machines.iter().find(|machine| machine.name == name);
            let stated =
                points.iter().find(|point| point.machine == name && (point.clock.is_some() || point.arch.is_some()));
            let clock = stated.and_then(|point| Some(point.clock.as_ref()?.value));
            let source = Source {
                curve: Curve::new(samples, question.scaling).without(held_out),
                clock: clock.or(machine.and_then(|machine| machine.clock)),
                arch: stated.and_then(|point| point.arch.clone()).or(machine.and_then(|machine| machine.arch.clone())),
                family: machine.map(|machine| machine.family.clone()),
                vcpus: machine.and_then(|machine| machine.vcpus),
                place: machine.map(|machine| machine.place),
            };
            sources.by_machine.insert(name, source);
        }
        sources
    }

    fn measured(
        &self,
        point: &PointInput,
        demand: &Demand,
        policy: Confidence,
        model: Option<&CostModel>,
    ) -> Result<Measured, String> {
        if policy == Confidence::MeasuredOnly && point.from >= Provenance::Assumed {
            return Err(format!(
                "{}, and only what was measured counts (say from = \"measured\" or \"published\")",
                point.from
            ));
        }
        let (frame, wanted) = (mean(point.frame.as_ref()), demand.frame());
        let other_frames = match (frame, wanted) {
            (Some(frame), Some(wanted)) => (frame / wanted - 1.0).abs() > SAME_FRAME,
            _ => false,
        };
        if other_frames && policy < Confidence::Extrapolate {
            let (frame, wanted) = (frame.unwrap_or_default(), wanted.unwrap_or_default());
            return Err(format!("measured with frames of {frame}, and the plan's have {wanted}"));
        }
        // With other frames, packets a second say more than bits a second.
        let share = match (&point.each, &point.each_packets) {
            (Some(bits), _) if other_frames => {
                of_packets(&at_frame(bits, frame.unwrap_or_default()), point.directions, demand)
            }
            (Some(bits), _) => of_bits(bits, point.directions, demand)
                .or_else(|| of_packets(&at_frame(bits, frame?), point.directions, demand)),
            (None, Some(packets)) => of_packets(packets, point.directions, demand)
                .or_else(|| of_bits(&in_frames(packets, frame?), point.directions, demand)),
            (None, None) => None,
        };
        let share = share.ok_or("frame sizes that would tell bits from packets are not given")?;
        let mut share = Known { from: point.from.min(share.from), source: point.source.clone(), ..share };
        let (frame, wanted) = (frame.or(wanted), wanted.or(frame));
        let (Some(frame), Some(wanted)) = (frame, wanted) else { return Ok(Measured { share, converted: false }) };
        let here = point.subscribers.unwrap_or(1.0);
        let there = demand.subscribers.map_or(here, |all| (all.0 * share.value.0).max(1.0));
        let other_users = point.subscribers.is_some() && (there / here).log2().abs() > 0.5;
        if policy == Confidence::MeasuredOnly || !(other_frames || other_users) {
            return Ok(Measured { share, converted: false });
        }
        // A model of what a packet costs by size and users brings the point to the plan's; what it does not know, other
        // machines say.
        let mut by = Spread::exactly(model.map_or(1.0, |model| model.tp(frame, here) / model.tp(wanted, there)));
        if let Some(model) = model {
            by = by.times(&Spread::new(1.0 - model.error.min(0.9), 1.0, 1.0 + model.error));
        }
        if other_frames && model.is_none_or(|model| model.per_byte_ns.is_none()) {
            by = by.times(&self.changed(wanted / frame, &prior::FRAMES));
            share.from = share.from.max(Provenance::Assumed);
        }
        if other_users && model.is_none_or(|model| model.per_doubling_ns.is_none()) {
            by = by.times(&self.changed(there / here, &prior::SUBSCRIBERS));
        }
        let load = |frame: FrameSize, users: f64| {
            if point.subscribers.is_some() { format!("{frame} and {users:.0} users") } else { frame.to_string() }
        };
        let (was, is) = (load(frame, here), load(wanted, there));
        let told = format!("{}; from {was} to {is}: × {:.3}", share.source, by.p50);
        let from = share.from;
        Ok(Measured { share: Known { source: told, ..Spread::of(&share).times(&by).known(from) }, converted: true })
    }

    fn changed(&self, by: f64, seen: &[prior::Changed]) -> Spread {
        prior::changed_by(by, seen, self.held_out.as_deref())
    }

    /// All curves, by machine.
    pub fn curves(&self) -> impl Iterator<Item = (&String, &Curve)> {
        self.by_machine.iter().map(|(name, source)| (name, &source.curve))
    }

    /// A machine's own curve.
    pub fn own(&self, machine: &Machine) -> Option<&Curve> {
        self.by_machine.get(&machine.name).map(|source| &source.curve)
    }

    /// What each of `n` units on a machine carries, as a share of the whole demand, without words (see
    /// [`Sources::told`]).
    ///
    /// # Errors
    /// Why nothing can be said.
    pub fn each(&self, machine: &Machine, n: u32, policy: Confidence) -> Result<(Known<Ratio>, Basis), NotMeasured> {
        if let Some(curve) = self.own(machine) {
            let beyond = |units: &[Sample]| {
                let units: Vec<String> = units.iter().map(|sample| sample.units.to_string()).collect();
                NotMeasured(format!("measured with {} units, not with {n}", units.join(", ")))
            };
            return curve.each(n, policy).ok_or_else(|| beyond(curve.samples()));
        }
        if policy < Confidence::Extrapolate {
            return Err(NotMeasured("nobody measured it".to_owned()));
        }
        let (_, source) = self.nearest(machine)?;
        let (each, _) = source.curve.each(n, policy).ok_or_else(|| NotMeasured("no points".to_owned()))?;
        let by = translation(source, machine, self.held_out.as_deref())?;
        Ok((Spread::of(&each).times(&by).known(Provenance::Assumed), Basis::Translated))
    }

    /// Where a number for `n` units on a machine comes from, in words.
    pub fn told(&self, machine: &Machine, n: u32, basis: Basis) -> String {
        if let Some(curve) = self.own(machine) {
            return curve.told(n, basis);
        }
        let Ok((name, source)) = self.nearest(machine) else { return String::new() };
        let Ok(by) = translation(source, machine, self.held_out.as_deref()) else { return String::new() };
        let how = match source.clock.zip(machine.clock) {
            Some((from, to)) if !source.in_family_of(machine) => format!("{from} → {to}"),
            _ => "the same family".to_owned(),
        };
        let beyond = if n > source.curve.most() { Basis::Extrapolated } else { Basis::Interpolated };
        let [low, value, high] = [by.p10(), by.p50, by.p90()];
        let told = source.curve.told(n, beyond);
        format!("{name}: {how}, × {value:.2} ({low:.2} … {high:.2}); {told}")
    }

    /// The measured machine to conclude from: of the same family if there is one, of the same architecture in any case;
    /// then the one on the firmest ground, the one with the most points, the nearest in size.
    fn nearest(&self, machine: &Machine) -> Result<(&String, &Source), NotMeasured> {
        if self.by_machine.is_empty() {
            return Err(NotMeasured("there are no points".to_owned()));
        }
        let alike = self.by_machine.iter().filter(|(_, source)| source.arch.is_some() && source.arch == machine.arch);
        let rank = |source: &Source| {
            let other_family = !source.in_family_of(machine);
            let points = source.curve.samples().len();
            let firm = source.curve.samples().iter().map(|sample| sample.each.from).max();
            let apart = source.vcpus.zip(machine.vcpus).map_or(u32::MAX, |(a, b)| a.abs_diff(b));
            (other_family, source.clock.is_none(), firm, std::cmp::Reverse(points), apart)
        };
        alike.min_by_key(|(_, source)| rank(source)).ok_or_else(|| match &machine.arch {
            Some(arch) => NotMeasured(format!("nothing was measured on {arch}, and clocks do not compare across")),
            None => NotMeasured("its architecture is not known".to_owned()),
        })
    }
}

/// A stated cost as a point of one unit.
fn as_point(cost: &CostInput) -> PointInput {
    let parts = Cost { trx: cost.trx.clone(), tc: cost.tc.clone(), ttx: cost.ttx.clone(), other: cost.other.clone() };
    let rate = parts.rate().map(|rate: PacketRate| rate * f64::from(cost.cores));
    PointInput {
        machine: cost.machine.clone(),
        units: 1,
        each: None,
        from: rate.from,
        source: format!("1 / {} on {} cores", parts.tp().value, cost.cores),
        each_packets: Some(rate),
        directions: Directions::Both,
        frame: cost.frame.clone(),
        subscribers: None,
        clock: cost.clock.clone(),
        arch: cost.arch.clone(),
    }
}

/// How a packet's cost depends on size and users, for each machine measured in more than one way with one number of
/// units.
fn models(points: &[PointInput]) -> BTreeMap<String, CostModel> {
    let mut seen: BTreeMap<&str, BTreeMap<u32, Vec<Observation>>> = BTreeMap::new();
    for point in points {
        let Some((packets, frame)) = point.each_packets.as_ref().zip(mean(point.frame.as_ref())) else { continue };
        let observation = Observation { frame, users: point.subscribers.unwrap_or(1.0), tp: packets.value.period() };
        seen.entry(&point.machine).or_default().entry(point.units).or_default().push(observation);
    }
    let most_seen = seen.into_iter().filter_map(|(machine, by_units)| {
        let most = by_units.into_values().max_by_key(Vec::len)?;
        Some((machine.to_owned(), CostModel::fit(&most).filter(|_| most.len() > 1)?))
    });
    most_seen.collect()
}

/// Several measurements of the same: those with the plan's own frames if there are any; the mean with the extremes.
fn merged(seen: Vec<Measured>) -> Known<Ratio> {
    let exact = seen.iter().any(|one| !one.converted);
    let used: Vec<Known<Ratio>> = seen.into_iter().filter(|one| one.converted != exact).map(|one| one.share).collect();
    let n = used.len() as f64;
    Known {
        low: Ratio(used.iter().map(|k| k.low.0).fold(f64::INFINITY, f64::min)),
        value: Ratio(used.iter().map(|k| k.value.0).sum::<f64>() / n),
        high: Ratio(used.iter().map(|k| k.high.0).fold(0.0, f64::max)),
        from: used.iter().map(|k| k.from).max().unwrap_or_default(),
        source: used.first().map(|k| k.source.clone()).unwrap_or_default(),
    }
}

fn at_frame(bits: &Known<BitRate>, frame: FrameSize) -> Known<PacketRate> {
    bits.map(|bits| bits / frame)
}

fn in_frames(packets: &Known<PacketRate>, frame: FrameSize) -> Known<BitRate> {
    packets.map(|packets| packets * frame)
}

fn of_bits(bits: &Known<BitRate>, directions: Directions, demand: &Demand) -> Option<Known<Ratio>> {
    let whole = match directions {
        Directions::Both => demand.bits()?,
        Directions::Each => demand.bits_of_one()?,
    };
    Some(bits.map(|bits| Ratio(bits / whole)))
}

fn of_packets(packets: &Known<PacketRate>, directions: Directions, demand: &Demand) -> Option<Known<Ratio>> {
    let whole = match directions {
        Directions::Both => demand.packets()?,
        Directions::Each => demand.packets_of_one()?,
    };
    Some(packets.map(|packets| Ratio(packets / whole)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn throughput_goes_with_the_clock() {
        assert!((translated(7.32, Clock(2.4e9), Clock(3.0e9), 1.0) - 9.15).abs() < 1e-9);
    }

    #[test]
    fn a_frame_of_another_size_is_another_measurement() {
        let text = "gateway = 'upf'\npoints = 'POLICY'\n[demand]\nsubscribers = 1000\npackets = '1000 pps'\n\
                    frame = '512 B'\n[[point]]\nmachine = 'c5n.2xlarge'\neach_packets = '0.4 Mpps'\nframe = '128 B'\n\
                    from = 'measured'\nsubscribers = 1000";
        let of = |policy: &str| {
            let question: Question = toml::from_str(&text.replace("POLICY", policy)).unwrap();
            let demand = Demand::of(&question.demand).unwrap();
            let machines = crate::catalogue::catalogue();
            let machine = machines.iter().find(|m| m.name == "c5n.2xlarge").unwrap();
            let sources = Sources::new(&question, &demand, &machines, None);
            (sources.each(machine, 1, question.points), sources.unused)
        };
        let (each, unused) = of("measured-only");
        assert!(each.is_err() && unused[0].contains("frames of 128 B"), "{unused:?}");
        let each = of("extrapolate").0.unwrap().0;
        assert!(each.low.0 < 0.4 && 0.4 < each.high.0 && each.from == Provenance::Assumed, "a range: {each:?}");
        assert!((each.value.0 / 0.4 - 1.0).abs() < 0.05, "{each:?}");
    }

    /// A server's 7.32 Gbit/s promise 10.37 by the clock that c5n states; 6.48 were measured, within what is said.
    #[test]
    fn what_was_measured_lies_within_what_is_said() {
        let text = "gateway = 'cmts'\npoints = 'extrapolate'\n[demand]\ngroups = 1\neach = '1 Gbit/s'\n\
                    [[point]]\nmachine = 'here'\nclock = '2.4 GHz'\narch = 'x86_64'\neach = '7.32 Gbit/s'";
        let question: Question = toml::from_str(text).unwrap();
        let demand = Demand::of(&question.demand).unwrap();
        let mut machines = crate::catalogue::catalogue();
        let target = machines.iter().find(|m| m.name == "c5n.2xlarge").unwrap().clone();
        machines.push(Machine { name: "here".to_owned(), place: Place::OnPremise, ..target.clone() });
        machines.last_mut().unwrap().family = "on-premise/here".to_owned();
        let sources = Sources::new(&question, &demand, &machines, None);
        let (each, basis) = sources.each(&target, 1, question.points).unwrap();
        assert!(basis == Basis::Translated && each.low.0 < 6.48 && 6.48 < each.high.0, "{each}");
        assert!(each.high.0 < 10.37, "the clock's promise is beyond what was ever kept: {each}");
        let told = sources.told(&target, 1, basis);
        assert!(told.starts_with("here: 2.4 GHz → 3.4 GHz, × 0.7"), "{told}");
    }
}
