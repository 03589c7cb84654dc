//! Packet rates that nobody measured: inherited where the hardware is the same, otherwise a band concluded from machines
//! that were measured. Unknown is not unlimited.
//!
//! A band is a lognormal of the packet rate by size, where size is vCPUs, Gbit/s or the root of Gbit/s: the one that
//! predicts the known machines best, each from the others (leave-one-out, interval score). Its middle is that of all
//! known machines of the same kind of place, moved by each narrower pool they are in: provider; provider and generation;
//! provider, generation and card; family. A pool of `n` machines has `n` times the weight of what it is narrowed from.
//! Its width is Student's t over all of them and what observers of one machine differ by.

use crate::known::{Known, Provenance};
use crate::machine::{Machine, Place};
use crate::quantity::{FrameSize, PacketRate};
use crate::question::{Directions, PointInput, mean};
use crate::spread::Spread;

/// The logarithm's standard deviation where too few are known to tell it: a factor of two at P10 and P90.
const HARDLY_KNOWN: f64 = 0.541;

/// What a packet rate is taken to grow with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Size {
    Vcpus,
    Gbps,
    /// Between proportional and the same for every size.
    RootOfGbps,
}

impl Size {
    const ALL: [Self; 3] = [Self::Gbps, Self::RootOfGbps, Self::Vcpus];

    fn of(self, machine: &Machine) -> Option<f64> {
        let gbps = machine.burst.or(machine.baseline).map(|bits| bits.gbps());
        match self {
            Self::Vcpus => machine.vcpus.map(f64::from),
            Self::Gbps => gbps,
            Self::RootOfGbps => gbps.map(f64::sqrt),
        }
    }

    fn told(self) -> &'static str {
        match self {
            Self::Vcpus => "Mpps per vCPU",
            Self::Gbps => "Mpps per Gbit/s",
            Self::RootOfGbps => "Mpps per root of Gbit/s",
        }
    }
}

/// The same hardware under another name: one family, as many vCPUs, as much bandwidth, the whole host or not.
fn same_hardware(a: &Machine, b: &Machine) -> bool {
    let size = |machine: &Machine| (machine.vcpus, machine.burst.map(|bits| bits.0.to_bits()));
    a.family == b.family && a.vcpus.is_some() && size(a) == size(b)
}

/// Generation and card as a name has them: `c5n` is of generation 5 and has the network card, `m5` is and has not.
fn generation_and_card(machine: &Machine) -> Option<(char, bool)> {
    let family = machine.family.rsplit('/').next()?;
    let at = family.find(|c: char| c.is_ascii_digit())?;
    Some((family[at..].chars().next()?, family[at..].contains('n')))
}

/// How many of the pools of the module's text two machines have in common, from the widest on.
fn pools_shared(a: &Machine, b: &Machine) -> usize {
    let (one, other) = (generation_and_card(a), generation_and_card(b));
    let provider = a.provider == b.provider;
    let generation = provider && one.is_some() && one.map(|o| o.0) == other.map(|o| o.0);
    let card = generation && one == other;
    [provider, generation, card, a.family == b.family].into_iter().take_while(|shared| *shared).count()
}

/// Machines whose packet rate is known, each hardware once.
#[derive(Clone, Debug)]
pub(crate) struct Pool<'m> {
    known: Vec<(&'m Machine, &'m Known<PacketRate>)>,
}

impl<'m> Pool<'m> {
    /// Of machines in one kind of place, without any of the hardware of `without`.
    pub fn new(machines: &'m [Machine], place: Place, without: Option<&Machine>) -> Self {
        let mut known: Vec<(&Machine, &Known<PacketRate>)> = Vec::new();
        for machine in machines.iter().filter(|machine| machine.place == place) {
            let Some(packets) = machine.packets.as_ref().filter(|packets| packets.from <= Provenance::Published) else {
                continue;
            };
            let again = known.iter().any(|(other, _)| same_hardware(other, machine));
            if !again && without.is_none_or(|without| !same_hardware(without, machine)) {
                known.push((machine, packets));
            }
        }
        Self { known }
    }

    fn without(&self, left_out: &Machine) -> Self {
        Self { known: self.known.iter().filter(|(machine, _)| machine.name != left_out.name).copied().collect() }
    }

    /// What the pool says of a machine that is not in it, packets a second.
    fn by(&self, size: Size, machine: &Machine) -> Option<Spread> {
        let wanted = size.of(machine)?;
        let log = |(known, packets): &(&Machine, &Known<PacketRate>)| Some((packets.value.0 / size.of(known)?).ln());
        let logs: Vec<(usize, f64)> =
            self.known.iter().filter_map(|one| Some((pools_shared(one.0, machine), log(one)?))).collect();
        let mean = |shared: usize| -> Option<(f64, f64)> {
            let of: Vec<f64> = logs.iter().filter(|(n, _)| *n >= shared).map(|(_, log)| *log).collect();
            (!of.is_empty()).then(|| (of.len() as f64, of.iter().sum::<f64>() / of.len() as f64))
        };
        let (_, mut middle) = mean(0)?;
        for (n, narrower) in (1..=4).filter_map(mean) {
            middle = (n * narrower + middle) / (n + 1.0);
        }
        let logs: Vec<f64> = logs.into_iter().map(|(_, log)| log).collect();
        let own = self.known.iter().map(|(_, packets)| Spread::of(*packets).sigma().powi(2)).sum::<f64>();
        let own = (own / self.known.len() as f64).sqrt();
        let spread = Spread::predicted(&logs, middle, own).unwrap_or_else(|| {
            let half = crate::spread::Z90 * HARDLY_KNOWN;
            Spread::new((middle - half).exp(), middle.exp(), (middle + half).exp())
        });
        Some(spread.times(&Spread::exactly(wanted)))
    }

    /// How well each known machine is predicted from the others: the mean interval score.
    fn score(&self, size: Size) -> f64 {
        let scores: Vec<f64> = self
            .known
            .iter()
            .filter_map(|(machine, packets)| Some(self.without(machine).by(size, machine)?.score(packets.value.0)))
            .collect();
        if scores.is_empty() { f64::INFINITY } else { scores.iter().sum::<f64>() / scores.len() as f64 }
    }

    /// Sizes from the one that predicts best on.
    fn sizes(&self) -> Vec<Size> {
        let mut sizes: Vec<(Size, f64)> = Size::ALL.into_iter().map(|size| (size, self.score(size))).collect();
        sizes.sort_by(|a, b| a.1.total_cmp(&b.1));
        sizes.into_iter().map(|(size, _)| size).collect()
    }

    fn assumed(&self, sizes: &[Size], machine: &Machine) -> Option<Known<PacketRate>> {
        let (size, band) = sizes.iter().find_map(|size| Some((*size, self.by(*size, machine)?)))?;
        Some(Known {
            low: PacketRate(band.p10()),
            value: PacketRate(band.p50),
            high: PacketRate(band.p90()),
            from: Provenance::Assumed,
            source: format!("not measured; {} of {} machines that were", size.told(), self.known.len()),
        })
    }
}

/// Gives every machine without a packet rate one: that of the same hardware, or an assumed band. A family's rate through
/// one interface is its card's, and holds for all its sizes. What no size is known of stays unknown.
pub fn complete(machines: &mut [Machine]) {
    let measured = machines.to_vec();
    for machine in machines.iter_mut() {
        inherit(machine, &measured);
    }
    for place in [Place::Cloud, Place::OnPremise] {
        let pool = Pool::new(&measured, place, None);
        let sizes = pool.sizes();
        let missing = |machine: &&mut Machine| machine.place == place && machine.packets.is_none();
        for machine in machines.iter_mut().filter(missing) {
            machine.packets = pool.assumed(&sizes, machine);
        }
    }
}

/// Raises the packet rates of a machine, and of an interface of it, to what units on it were measured to carry: it passed
/// them. `frame` is the plan's, for points in bits that have none.
pub fn raise(machine: &mut Machine, points: &[PointInput], frame: Option<FrameSize>) {
    let of = |point: &PointInput| -> Option<(f64, f64)> {
        let frame = mean(point.frame.as_ref()).or(frame);
        let rate = point.each_packets.as_ref().map(|rate| rate.value);
        let rate = rate.or_else(|| Some(point.each.as_ref()?.value / frame?))?;
        let both = if point.directions == Directions::Each { 2.0 } else { 1.0 };
        Some((rate.0 * both, f64::from(point.units)))
    };
    let own = points.iter().filter(|point| point.machine == machine.name && point.from <= Provenance::Published);
    let (each, all) =
        own.filter_map(of).fold((0.0_f64, 0.0_f64), |(one, all), (each, units)| (one.max(each), all.max(each * units)));
    let to = |known: &mut Option<Known<PacketRate>>, passed: f64| {
        if let Some(known) = known.as_mut().filter(|known| known.low.0 < passed) {
            known.low.0 = passed;
            (known.value.0, known.high.0) = (known.value.0.max(passed), known.high.0.max(passed));
            known.source += "; units measured on it carried more";
        }
    };
    to(&mut machine.packets, all);
    to(&mut machine.packets_per_interface, each);
}

/// Hardware whose packet rate is known, each once, with that rate.
pub(crate) fn known(machines: &[Machine]) -> Vec<(&Machine, &Known<PacketRate>)> {
    Pool::new(machines, Place::Cloud, None).known
}

/// Takes away what is known of a machine's packet rate, and of the same hardware under other names.
pub(crate) fn forget(machines: &mut [Machine], name: &str) {
    let Some(left_out) = machines.iter().find(|machine| machine.name == name).cloned() else { return };
    for machine in machines.iter_mut().filter(|machine| same_hardware(machine, &left_out)) {
        machine.packets = None;
    }
}

fn inherit(machine: &mut Machine, measured: &[Machine]) {
    let named = |known: &Known<PacketRate>, of: &Machine, why: &str| Known {
        source: format!("{} of {}: {}", why, of.name, known.source),
        ..known.clone()
    };
    if machine.packets.is_none() {
        let same = measured.iter().filter(|other| same_hardware(machine, other));
        let found = same.filter_map(|other| Some((other, other.packets.as_ref()?))).next();
        machine.packets = found.map(|(other, known)| named(known, other, "the hardware"));
    }
    if machine.packets_per_interface.is_none() {
        let family = measured.iter().filter(|other| other.family == machine.family);
        let found = family.filter_map(|other| Some((other, other.packets_per_interface.as_ref()?))).next();
        machine.packets_per_interface = found.map(|(other, known)| named(known, other, "the card"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::catalogue;

    fn completed() -> Vec<Machine> {
        let mut machines = catalogue();
        complete(&mut machines);
        machines
    }

    fn packets(machines: &[Machine], name: &str) -> Known<PacketRate> {
        machines.iter().find(|machine| machine.name == name).unwrap().packets.clone().unwrap()
    }

    #[test]
    fn the_same_hardware_has_the_same_limit() {
        let machines = completed();
        let (metal, large) = (packets(&machines, "c5n.metal"), packets(&machines, "c5n.18xlarge"));
        assert_eq!((metal.low, metal.value, metal.high), (large.low, large.value, large.high));
        assert_eq!(metal.from, Provenance::Published);
        assert!(metal.source.starts_with("the hardware of c5n.18xlarge: "), "{}", metal.source);
        let two = machines.iter().find(|machine| machine.name == "c5n.2xlarge").unwrap();
        assert_eq!(two.packets_per_interface.as_ref().unwrap().value, PacketRate(4e6), "one card for the family");
    }

    #[test]
    fn what_nobody_measured_is_a_band_and_says_so() {
        let machines = completed();
        let cloud = machines.iter().filter(|machine| machine.vcpus.is_some());
        for machine in cloud.filter(|machine| machine.burst.is_some() || machine.baseline.is_some()) {
            assert!(machine.packets.is_some(), "{}", machine.name);
        }
        let band = packets(&machines, "c6in.8xlarge");
        assert_eq!(band.from, Provenance::Assumed);
        assert!(band.low.0 > 1e5 && band.low < band.value && band.value < band.high && band.high.0 < 5e7, "{band}");
        assert!(band.source.contains("machines that were"), "{}", band.source);
        assert_eq!(packets(&machines, "m5.metal").from, Provenance::Published);
    }

    #[test]
    fn pools_are_from_wide_to_narrow() {
        let machines = catalogue();
        let of = |name: &str| machines.iter().find(|machine| machine.name == name).unwrap();
        let shared = |a: &str, b: &str| pools_shared(of(a), of(b));
        assert_eq!(shared("c5n.2xlarge", "c5n.4xlarge"), 4);
        assert_eq!(shared("m5n.2xlarge", "c5n.4xlarge"), 3);
        assert_eq!(shared("m5.2xlarge", "c5n.4xlarge"), 2);
        assert_eq!(shared("c7gn.xlarge", "c5n.4xlarge"), 1);
        assert_eq!(shared("c3-standard-8", "c5n.4xlarge"), 0);
    }
}
