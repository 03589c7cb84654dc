//! The catalogue of instance types. Blank is unknown.
//!
//! Packets per second are nowhere promised by a cloud; what was observed stands in a table of its own, because
//! observers count differently (received, sent, both, forwarded) and of different things (instance, interface). Here
//! all are brought to one: packets *forwarded* a second, each counted once.

use std::collections::BTreeMap;

use crate::known::{Known, Provenance};
use crate::machine::{Machine, Place};
use crate::quantity::{BitRate, Clock, Hourly, Memory, PacketRate, Quantity};

/// The instance types that come with weir.
pub const INSTANCES: &str = include_str!("../data/instances.tsv");
/// The packet rates observed on them.
pub const PACKET_LIMITS: &str = include_str!("../data/packet_limits.tsv");

/// A table of tab-separated values: rows by column name.
pub(crate) fn rows(table: &str) -> impl Iterator<Item = BTreeMap<&str, &str>> {
    let mut lines = table.lines();
    let heads: Vec<&str> = lines.next().unwrap_or_default().split('\t').collect();
    lines.filter(|line| !line.is_empty()).map(move |line| {
        let cells = line.split('\t').map(str::trim);
        heads.iter().copied().zip(cells.chain(std::iter::repeat(""))).collect()
    })
}

/// The whole catalogue.
pub fn catalogue() -> Vec<Machine> {
    let limits = packet_limits(PACKET_LIMITS);
    let mut machines: Vec<Machine> = rows(INSTANCES).map(|row| machine(&row, &limits)).collect();
    let mut largest: BTreeMap<String, u32> = BTreeMap::new();
    for machine in &machines {
        let most = largest.entry(machine.family.clone()).or_default();
        *most = machine.vcpus.unwrap_or(0).max(*most);
    }
    for machine in &mut machines {
        // The largest of a family takes all of its host: 72 of 72 vCPUs for c5n.18xlarge and c5n.metal.
        machine.whole_host |= machine.vcpus.is_some() && machine.vcpus == largest.get(&machine.family).copied();
    }
    machines
}

fn machine(row: &BTreeMap<&str, &str>, limits: &BTreeMap<(String, Scope), Known<PacketRate>>) -> Machine {
    let text = |column: &str| row.get(column).copied().unwrap_or_default();
    let number = |column: &str| text(column).parse::<f64>().ok();
    let whole = |column: &str| text(column).parse::<u32>().ok();
    let gbps = |column: &str| number(column).map(|gbps| BitRate(gbps * 1e9));
    let name = text("instance").to_owned();
    let limit = |scope: Scope| limits.get(&(name.clone(), scope)).cloned();
    let price = number("price_usd_per_hour").map(|price| {
        let source = format!("on demand, {}, {}", text("price_region"), text("price_date"));
        Known::exactly(Hourly(price), Provenance::Published, source)
    });
    Machine {
        place: Place::Cloud,
        provider: text("provider").to_owned(),
        family: format!("{}/{}", text("provider"), text("family")),
        arch: (!text("arch").is_empty()).then(|| text("arch").to_owned()),
        vcpus: whole("vcpu"),
        numa_nodes: 1,
        clock: number("clock_ghz").map(|ghz| Clock(ghz * 1e9)),
        memory: number("memory_gib").map(|gib| Memory(gib * 1024.0_f64.powi(3))),
        l3: None,
        interfaces: whole("max_enis"),
        queues: whole("queues_effective_per_eni"),
        baseline: gbps("net_baseline_gbps"),
        burst: gbps("net_burst_gbps"),
        single_flow: gbps("single_flow_gbps"),
        single_flow_cluster: gbps("single_flow_cpg_gbps"),
        packets: limit(Scope::Instance),
        packets_per_interface: limit(Scope::Interface),
        whole_host: text("bare_metal") == "true",
        price,
        rack_units: None,
        power: None,
        notes: text("notes").to_owned(),
        name,
    }
}

/// What an observed packet rate is the rate of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Scope {
    Instance,
    Interface,
}

/// What was counted, and what that says about packets forwarded: `(at least, at most, is it about forwarding)` as
/// shares. Clouds give one budget to both ways, so a rate received alone may be twice what can be forwarded.
fn as_forwarded(counting: &str, scope: Scope) -> (f64, f64, bool) {
    match (counting, scope) {
        // Of a unit's two interfaces each sees every packet once, in or out.
        ("bidirectional", Scope::Interface) => (1.0, 1.0, true),
        ("forwarded", _) => (1.0, 1.0, true),
        ("bidirectional", Scope::Instance) => (0.5, 0.5, true),
        // Received only, sent only, or not said.
        _ => (0.5, 1.0, false),
    }
}

/// A packet rate forwarded, and whether forwarding is what was observed.
type Seen = (Known<PacketRate>, bool);

/// Several observations of a machine become one range; its value is the most cautious of those that forwarded, and
/// where none did, the most cautious reading of all.
fn packet_limits(table: &str) -> BTreeMap<(String, Scope), Known<PacketRate>> {
    let mut all: BTreeMap<(String, Scope), Vec<Seen>> = BTreeMap::new();
    for row in rows(table) {
        let scope = if row["scope"] == "interface" { Scope::Interface } else { Scope::Instance };
        let mpps = |column: &str| row[column].parse::<f64>().unwrap_or(f64::NAN) * 1e6;
        let (least, most, forwards) = as_forwarded(row["counting"], scope);
        let seen = Known {
            low: PacketRate(mpps("low_mpps") * least),
            value: PacketRate(mpps("mpps") * least),
            high: PacketRate(mpps("high_mpps") * most),
            from: Provenance::Published,
            source: row["source"].to_owned(),
        };
        all.entry((row["instance"].to_owned(), scope)).or_default().push((seen, forwards));
    }
    let together = |seen: Vec<Seen>| {
        let extreme = |of: &dyn Fn(&Known<PacketRate>) -> f64, pick: fn(f64, f64) -> f64, only: bool| {
            seen.iter().filter(|(_, forwards)| !only || *forwards).map(|(known, _)| of(known)).reduce(pick)
        };
        let value = extreme(&|k| k.value.get(), f64::min, true).or(extreme(&|k| k.value.get(), f64::min, false));
        let sources: Vec<&str> = seen.iter().map(|(known, _)| known.source.as_str()).collect();
        Known {
            low: PacketRate(extreme(&|k| k.low.get(), f64::min, false).unwrap_or(f64::NAN)),
            value: PacketRate(value.unwrap_or(f64::NAN)),
            high: PacketRate(extreme(&|k| k.high.get(), f64::max, false).unwrap_or(f64::NAN)),
            from: Provenance::Published,
            source: sources.join("; "),
        }
    };
    all.into_iter().map(|(key, seen)| (key, together(seen))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &str) -> Machine {
        catalogue().into_iter().find(|machine| machine.name == name).expect("in the catalogue")
    }

    #[test]
    fn all_of_it_is_there() {
        let all = catalogue();
        let of = |provider: &str| all.iter().filter(|machine| machine.provider == provider).count();
        assert_eq!((all.len(), of("aws"), of("azure"), of("gcp")), (297, 254, 33, 10));
    }

    #[test]
    fn a_type_as_the_table_has_it() {
        let it = named("c5n.4xlarge");
        assert_eq!((it.vcpus, it.interfaces, it.queues, it.whole_host), (Some(16), Some(8), Some(16), false));
        assert_eq!((it.baseline, it.burst), (Some(BitRate(15e9)), Some(BitRate(25e9))));
        let price = it.price.unwrap();
        assert_eq!((price.value, price.from), (Hourly(0.864), Provenance::Published));
        assert!(price.source.contains("2026-07-20"));
        assert!(named("c5n.18xlarge").whole_host && named("c5n.metal").whole_host);
    }

    #[test]
    fn blank_is_unknown() {
        let azure = named("Standard_D8_v5");
        assert_eq!((azure.price, azure.packets, azure.queues, azure.baseline), (None, None, None, None));
        assert_eq!(named("c3-standard-8").interfaces, None);
        assert_eq!(named("c5n.2xlarge").packets, None);
    }

    #[test]
    fn observers_who_count_differently_make_a_range() {
        let packets = named("c5n.4xlarge").packets.unwrap();
        // 2.5 Mpps of unstated counting may be 1.25 forwarded; somebody forwarded 3.
        assert_eq!((packets.low, packets.value, packets.high), (PacketRate(1.25e6), PacketRate(3e6), PacketRate(3e6)));
        assert_eq!(named("m5.metal").packets.unwrap().value, PacketRate(1.1e6));
        assert_eq!(named("c7gn.xlarge").packets.unwrap().value, PacketRate(2.5e6), "received only: cautious");
        assert_eq!(named("c5n.4xlarge").packets_per_interface.unwrap().value, PacketRate(4e6));
    }

    #[test]
    fn every_observation_stands_in_the_catalogue_too() {
        let cells: BTreeMap<&str, String> = rows(INSTANCES)
            .map(|row| (row["instance"], format!("{} {}", row["pps_limit_measured_mpps"], row["pps_conditions"])))
            .collect();
        for row in rows(PACKET_LIMITS) {
            let cell = &cells[row["instance"]];
            assert!(
                cell.contains(row["mpps"].trim_end_matches(".0")),
                "{}: {} not in {cell}",
                row["instance"],
                row["mpps"]
            );
        }
    }
}
