//! What limits how many units a machine can run: each limit by itself, in units, with what it rests on.
//!
//! A limit that is not known is [`Allows::Unknown`]: it is shown, and never taken for "no limit".

use schemars::JsonSchema;
use serde::Serialize;

use crate::fit::HAIR;
use crate::known::{Known, Provenance};
use crate::machine::Machine;
use crate::quantity::{BitRate, Memory, PacketRate};
use crate::question::{Bandwidth, PlacementInput};
use crate::unit::Unit;

/// A thing there is only so much of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Limit {
    /// Network interfaces.
    Interfaces,
    /// Hardware threads.
    Vcpus,
    /// Queues of interfaces.
    Queues,
    Memory,
    /// Last-level cache.
    L3,
    /// Bits a second of the machine, each way.
    Bandwidth,
    /// Packets a second of the machine.
    Packets,
    /// Packets a second of one interface.
    PacketsOfInterface,
    /// Bits a second of one flow.
    SingleFlow,
    /// Subscribers that may be lost with one machine.
    FailureDomain,
    /// What each unit still carries beside so many others.
    Throughput,
    /// How many units were ever measured, or the policy allows to conclude.
    Measured,
}

impl std::fmt::Display for Limit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Self::Interfaces => "interfaces",
            Self::Vcpus => "vCPUs",
            Self::Queues => "queues",
            Self::Memory => "memory",
            Self::L3 => "L3 cache",
            Self::Bandwidth => "bandwidth",
            Self::Packets => "packets/s",
            Self::PacketsOfInterface => "packets/s of an interface",
            Self::SingleFlow => "single flow",
            Self::FailureDomain => "failure domain",
            Self::Throughput => "throughput",
            Self::Measured => "what was measured",
        })
    }
}

/// How many units a limit allows.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Allows {
    /// So many; a part of a unit says how close the next is.
    Units(f64),
    /// Any number: it was checked and does not depend on how many.
    Any,
    /// Nobody knows.
    Unknown,
}

/// A limit applied to a machine.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Bound {
    pub limit: Limit,
    /// How many units.
    pub allows: Allows,
    /// The calculation in words.
    pub why: String,
    /// What the machine's side of it rests on.
    pub from: Provenance,
}

impl Bound {
    pub(crate) fn new(limit: Limit, allows: Allows, why: impl Into<String>, from: Provenance) -> Self {
        let from = if allows == Allows::Unknown { Provenance::Unknown } else { from };
        Self { limit, allows, why: why.into(), from }
    }

    fn unknown(limit: Limit, why: impl Into<String>) -> Self {
        Self::new(limit, Allows::Unknown, why, Provenance::Unknown)
    }

    /// Nobody measured the machine's side of it; a guess is calculated with.
    pub fn is_a_guess(&self) -> bool {
        let of_the_machine = matches!(self.limit, Limit::Packets | Limit::PacketsOfInterface);
        of_the_machine && self.from == Provenance::Assumed
    }

    /// Whole units, where it says a number.
    pub fn units(&self) -> Option<f64> {
        match self.allows {
            Allows::Units(units) => Some(units),
            Allows::Any | Allows::Unknown => None,
        }
    }
}

/// `⌊(interfaces − admin) / interfaces of a unit⌋`, the rule of vcmts-cloud-2021.
pub fn units_by_interfaces(interfaces: u32, admin: u32, of_a_unit: u32) -> u32 {
    interfaces.saturating_sub(admin) / of_a_unit.max(1)
}

/// `nodes · ⌊(vCPUs / nodes) / vCPUs of a unit⌋`: a unit is not split between parts with memory of their own.
pub fn units_by_vcpus(vcpus: u32, nodes: u32, of_a_unit: u32) -> u32 {
    nodes * (vcpus / nodes / of_a_unit.max(1))
}

/// What does not depend on traffic: places for units.
pub fn places(machine: &Machine, unit: &Unit, subscribers_of_a_unit: Option<f64>) -> Vec<Bound> {
    let mut bounds = vec![interfaces(machine, unit), vcpus(machine, unit), queues(machine, unit)];
    bounds.extend(memory(machine, unit, subscribers_of_a_unit));
    bounds.extend(l3(machine, unit));
    bounds
}

fn interfaces(machine: &Machine, unit: &Unit) -> Bound {
    let limit = Limit::Interfaces;
    let Some(there) = machine.interfaces else {
        return Bound::unknown(limit, "how many interfaces it can have is not known");
    };
    if unit.share_interfaces {
        let needed = unit.interfaces + unit.admin_interfaces;
        let allows = if there >= needed { Allows::Any } else { Allows::Units(0.0) };
        return Bound::new(
            limit,
            allows,
            format!("{needed} shared by all units, {there} there"),
            Provenance::Published,
        );
    }
    let units = units_by_interfaces(there, unit.admin_interfaces, unit.interfaces);
    let why = format!("({there} − {}) / {}", unit.admin_interfaces, unit.interfaces);
    Bound::new(limit, Allows::Units(f64::from(units)), why, Provenance::Published)
}

fn vcpus(machine: &Machine, unit: &Unit) -> Bound {
    let Some(there) = machine.vcpus else { return Bound::unknown(Limit::Vcpus, "its vCPUs are not known") };
    let free = there.saturating_sub(unit.reserved_vcpus);
    let units = units_by_vcpus(free, machine.numa_nodes, unit.vcpus);
    let nodes =
        if machine.numa_nodes > 1 { format!(", none across {} sockets", machine.numa_nodes) } else { String::new() };
    let why = format!("{free} / {}{nodes}", unit.vcpus);
    Bound::new(Limit::Vcpus, Allows::Units(f64::from(units)), why, Provenance::Published)
}

fn queues(machine: &Machine, unit: &Unit) -> Bound {
    let limit = Limit::Queues;
    let Some(there) = machine.queues else { return Bound::unknown(limit, "queues of an interface are not known") };
    let why = format!("{there} queues an interface, {} a unit", unit.queues);
    let allows = match (unit.share_interfaces, there / unit.queues) {
        (true, units) => Allows::Units(f64::from(units)),
        (false, 0) => Allows::Units(0.0),
        (false, _) => Allows::Any,
    };
    Bound::new(limit, allows, why, Provenance::Published)
}

fn memory(machine: &Machine, unit: &Unit, subscribers: Option<f64>) -> Option<Bound> {
    let of_subscribers = unit.memory_per_subscriber.as_ref().zip(subscribers).map(|(each, n)| each.value * n);
    let each = unit.memory.as_ref().map(|memory| memory.value);
    let needed: Memory = [each, of_subscribers].into_iter().flatten().sum();
    if needed.0 <= 0.0 {
        return None;
    }
    let Some(there) = machine.memory else { return Some(Bound::unknown(Limit::Memory, "its memory is not known")) };
    let why = format!("{there} / {needed}");
    Some(Bound::new(Limit::Memory, Allows::Units((there / needed).floor()), why, Provenance::Published))
}

fn l3(machine: &Machine, unit: &Unit) -> Option<Bound> {
    let needed = unit.l3.as_ref()?;
    let Some(there) = machine.l3 else { return Some(Bound::unknown(Limit::L3, "its cache is not known")) };
    let units = (there / needed.value).floor();
    Some(Bound::new(Limit::L3, Allows::Units(units), format!("{there} / {}", needed.value), needed.from))
}

/// What a bandwidth is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Promise {
    /// There all the time.
    AllTheTime,
    /// The most there is, which is no promise.
    AtMost,
    /// What an internet or local gateway lets through.
    ThroughGateway,
}

impl std::fmt::Display for Promise {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::AllTheTime => "all the time",
            Self::AtMost => "at most, which is no promise,",
            Self::ThroughGateway => "through a gateway",
        })
    }
}

/// The bandwidth to calculate with, each way, and what it is.
pub fn bandwidth(machine: &Machine, placement: &PlacementInput) -> Option<(BitRate, Promise)> {
    let (there, promise) = match (placement.bandwidth, machine.baseline, machine.burst) {
        (Bandwidth::Baseline, Some(baseline), _) => (baseline, Promise::AllTheTime),
        (_, _, Some(burst)) => (burst, Promise::AtMost),
        (_, baseline, None) => (baseline?, Promise::AllTheTime),
    };
    if !(placement.internet || machine.through_gateway) || machine.provider != "aws" {
        return Some((there, promise));
    }
    // Through an internet or local gateway: half of it from 32 vCPUs on, 5 Gbit/s below.
    let through = if machine.vcpus? >= 32 { there * 0.5 } else { BitRate(there.0.min(5e9)) };
    Some((through, Promise::ThroughGateway))
}

/// What one unit puts through a machine.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Load {
    /// Both directions together: as much comes into the machine as leaves it.
    pub bits: Option<BitRate>,
    /// Both directions together, each packet once.
    pub packets: Option<PacketRate>,
}

/// What is calculated with: of what was assumed the pessimistic end, so that a guess wins over nothing.
pub fn cautious(known: &Known<PacketRate>) -> PacketRate {
    if known.from >= Provenance::Assumed { known.low } else { known.value }
}

/// How many units traffic allows: the least of [`traffic`], without words.
pub fn traffic_room(machine: &Machine, placement: &PlacementInput, load: Load) -> f64 {
    let bits = bandwidth(machine, placement).zip(load.bits).map(|((there, _), bits)| there / bits);
    let packets = machine.packets.as_ref().zip(load.packets).map(|(there, each)| cautious(there) / each);
    let of_interface = machine.packets_per_interface.as_ref().zip(load.packets);
    let of_interface = of_interface.filter(|(there, each)| there.value * (1.0 + HAIR) < *each).map(|_| 0.0);
    let flow = single_flow(machine, placement).and_then(|bound| bound.units());
    [bits, packets, of_interface, flow].into_iter().flatten().fold(f64::INFINITY, f64::min)
}

/// What traffic allows: every forwarded packet comes in once and leaves once.
pub fn traffic(machine: &Machine, placement: &PlacementInput, load: Load) -> Vec<Bound> {
    let mut bounds = Vec::new();
    let there = bandwidth(machine, placement);
    bounds.push(match (there, load.bits) {
        (Some((there, promise)), Some(bits)) => {
            let why = format!("{there} {promise} / {bits}");
            Bound::new(Limit::Bandwidth, Allows::Units(there / bits), why, Provenance::Published)
        }
        (None, _) => Bound::unknown(Limit::Bandwidth, "its bandwidth is not known"),
        (_, None) => Bound::unknown(Limit::Bandwidth, "frame sizes are not known"),
    });
    bounds.push(packets(Limit::Packets, machine.packets.as_ref(), load.packets));
    if let Some(of_interface) = &machine.packets_per_interface {
        let bound = packets(Limit::PacketsOfInterface, Some(of_interface), load.packets);
        // Each unit has interfaces of its own, so one that fits fits beside any others.
        let allows = match bound.allows {
            Allows::Units(units) if units * (1.0 + HAIR) >= 1.0 => Allows::Any,
            Allows::Units(_) => Allows::Units(0.0),
            other => other,
        };
        bounds.push(Bound { allows, ..bound });
    }
    bounds.extend(single_flow(machine, placement));
    bounds
}

fn packets(limit: Limit, there: Option<&Known<PacketRate>>, each: Option<PacketRate>) -> Bound {
    match (there, each) {
        (Some(there), Some(each)) => {
            let range =
                if there.low < there.high { format!(" ({} … {})", there.low, there.high) } else { String::new() };
            let used = cautious(there);
            let assumed = if there.from >= Provenance::Assumed { ", assumed," } else { "" };
            let why = format!("{used}{range}{assumed} forwarded / {each}");
            Bound::new(limit, Allows::Units(used / each), why, there.from)
        }
        (None, _) => Bound::unknown(limit, "its packet rate is not measured"),
        (_, None) => Bound::unknown(limit, "frame sizes are not known"),
    }
}

fn single_flow(machine: &Machine, placement: &PlacementInput) -> Option<Bound> {
    let largest = placement.largest_flow.as_ref()?;
    let there = if placement.cluster { machine.single_flow_cluster } else { machine.single_flow };
    let Some(there) = there else { return Some(Bound::unknown(Limit::SingleFlow, "what one flow gets is not known")) };
    let allows = if largest.value <= there { Allows::Any } else { Allows::Units(0.0) };
    Some(Bound::new(
        Limit::SingleFlow,
        allows,
        format!("{there} for one flow of {}", largest.value),
        Provenance::Published,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::catalogue;
    use crate::question::Gateway;

    fn named(name: &str) -> Machine {
        catalogue().into_iter().find(|machine| machine.name == name).expect("in the catalogue")
    }

    fn allows(bounds: &[Bound], limit: Limit) -> Allows {
        bounds.iter().find(|bound| bound.limit == limit).expect("it is there").allows
    }

    #[test]
    fn places_for_service_groups() {
        let unit = Unit::of(Gateway::Cmts);
        let of = |name: &str| places(&named(name), &unit, None);
        let interfaces = |name: &str| allows(&of(name), Limit::Interfaces);
        assert_eq!(interfaces("c5n.2xlarge"), Allows::Units(1.0));
        assert_eq!(interfaces("c5n.4xlarge"), Allows::Units(3.0));
        assert_eq!(interfaces("c5n.metal"), Allows::Units(7.0));
        assert_eq!(allows(&of("c5n.metal"), Limit::Vcpus), Allows::Units(24.0));
        assert_eq!(interfaces("c2-* (series)"), Allows::Unknown, "unknown is not unlimited");
    }

    #[test]
    fn shared_interfaces_are_divided_by_queues() {
        let unit = Unit { share_interfaces: true, ..Unit::of(Gateway::Upf) };
        let bounds = places(&named("c5n.4xlarge"), &unit, None);
        assert_eq!(
            (allows(&bounds, Limit::Interfaces), allows(&bounds, Limit::Queues)),
            (Allows::Any, Allows::Units(16.0))
        );
    }

    #[test]
    fn sockets_are_not_straddled() {
        assert_eq!((units_by_vcpus(72, 2, 8), units_by_vcpus(72, 1, 8)), (8, 9));
    }

    #[test]
    fn traffic_through_a_gateway_gets_less() {
        let gateway = PlacementInput { internet: true, ..PlacementInput::default() };
        let of = |name: &str| bandwidth(&named(name), &gateway).unwrap().0;
        assert_eq!((of("c5n.metal"), of("c5n.2xlarge"), of("c5n.large")), (BitRate(50e9), BitRate(5e9), BitRate(3e9)));
    }

    #[test]
    fn packets_nobody_measured_are_unknown() {
        let load = Load { bits: Some(BitRate(1e9)), packets: Some(PacketRate(1e6)) };
        let of = |name: &str| traffic(&named(name), &PlacementInput::default(), load);
        assert_eq!(allows(&of("c5n.metal"), Limit::Packets), Allows::Unknown);
        assert_eq!(allows(&of("c5n.4xlarge"), Limit::Packets), Allows::Units(3.0));
        assert_eq!(allows(&of("c5n.4xlarge"), Limit::PacketsOfInterface), Allows::Any);
    }

    #[test]
    fn numbers_and_words_agree() {
        for largest_flow in [None, Some(Known::parse("7 Gbit/s").unwrap())] {
            let placement = PlacementInput { largest_flow, cluster: false, ..PlacementInput::default() };
            for machine in catalogue() {
                for (gbps, mpps) in [(0.1, 0.2), (3.0, 5.0), (60.0, 0.5)] {
                    let load = Load { bits: Some(BitRate(gbps * 1e9)), packets: Some(PacketRate(mpps * 1e6)) };
                    let bounds = traffic(&machine, &placement, load);
                    let words = bounds.iter().filter_map(Bound::units).fold(f64::INFINITY, f64::min);
                    assert_eq!(traffic_room(&machine, &placement, load), words, "{}", machine.name);
                }
            }
        }
    }

    #[test]
    fn one_flow_is_not_divided() {
        let largest_flow = Some(Known::parse("7 Gbit/s").unwrap());
        let load = Load { bits: Some(BitRate(1e9)), packets: None };
        let with = |cluster: bool| {
            let placement = PlacementInput { largest_flow: largest_flow.clone(), cluster, ..PlacementInput::default() };
            allows(&traffic(&named("c5n.metal"), &placement, load), Limit::SingleFlow)
        };
        assert_eq!((with(true), with(false)), (Allows::Any, Allows::Units(0.0)));
    }
}
