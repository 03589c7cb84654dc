//! Hosts, neighbours, zones.

use crate::known::{Known, Provenance};
use crate::limits::units_by_vcpus;
use crate::machine::{Machine, Place};
use crate::quantity::{Hourly, Ratio};
use crate::question::{FailureInput, Host, PlacementInput, PriceInput};

/// What is left of a unit's throughput beside others on the same host: all of it where there are no others.
pub fn sharing(machine: &Machine, placement: &PlacementInput) -> Known<Ratio> {
    let alone = machine.whole_host || machine.place == Place::OnPremise || placement.host == Host::Dedicated;
    if alone {
        return Known::exactly(Ratio(1.0), Provenance::Published, "its host to itself");
    }
    let product = |of: fn(&Known<Ratio>) -> Ratio| Ratio(placement.sharing.iter().map(|factor| of(factor).0).product());
    let from = placement.sharing.iter().map(|factor| factor.from).max().unwrap_or_default();
    let source = if placement.sharing.is_empty() { "no penalty for neighbours assumed" } else { "beside others" };
    Known {
        low: product(|f| f.low),
        value: product(|f| f.value),
        high: product(|f| f.high),
        from,
        source: source.to_owned(),
    }
}

/// Instances of a size on a host of two sockets, none across both: `sockets · ⌊vCPUs / sockets / vCPUs of one⌋`.
pub fn instances_per_host(host_vcpus: u32, sockets: u32, instance_vcpus: u32) -> u32 {
    units_by_vcpus(host_vcpus, sockets, instance_vcpus)
}

/// The largest machine of the family, which is the whole host.
pub fn host_of<'m>(machine: &Machine, all: &'m [Machine]) -> Option<&'m Machine> {
    all.iter().find(|other| other.family == machine.family && other.whole_host && other.price.is_some())
}

/// What a dedicated host costs more than its largest type where neither the plan nor a list says it: Azure's list of
/// 2026-06-18 has 10 % for Dsv6, 15 % for Dsv5.
fn premium() -> Known<Ratio> {
    let source = "assumed from Azure's list of 2026-06-18: 10 % for Dsv6".to_owned();
    Known { low: Ratio(0.05), value: Ratio(0.10), high: Ratio(0.15), from: Provenance::Assumed, source }
}

/// An hour of a dedicated host for instances of a type, and how many of them are on it. The fee is that of the list;
/// otherwise the price of the family's largest type with a premium.
pub fn dedicated_host(machine: &Machine, all: &[Machine], price: &PriceInput) -> Option<(Known<Hourly>, u32)> {
    let host = host_of(machine, all)?;
    let on_one = instances_per_host(host.vcpus?, 2, machine.vcpus?).max(1);
    if let (Some(fee), None) = (&machine.host_price, &price.dedicated_premium) {
        return Some((crate::price::machine(fee, price), on_one));
    }
    let premium = price.dedicated_premium.clone().unwrap_or_else(premium);
    let largest = crate::price::machine(host.price.as_ref()?, price);
    let with = |price: Hourly, premium: Ratio| price * (1.0 + premium.0);
    let fee = Known {
        low: with(largest.low, premium.low),
        value: with(largest.value, premium.value),
        high: with(largest.high, premium.high),
        from: largest.from.max(premium.from),
        source: format!("host of {}: {}; {premium} more, {}", host.name, largest.source, premium.from),
    };
    Some((fee, on_one))
}

/// Machines to start for so many that are needed: with zones that may be lost, what is left in the others suffices;
/// then the spares.
pub fn with_spares(needed: u32, failure: &FailureInput) -> u32 {
    let spread = match (failure.survive_zone, failure.zones) {
        (true, zones @ 2..) => zones.saturating_mul(needed.div_ceil(zones - 1)),
        _ => needed,
    };
    spread.saturating_add(failure.spares)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zones_and_spares() {
        let failure = |zones, survive_zone, spares| FailureInput { zones, survive_zone, spares, most_lost: None };
        assert_eq!(with_spares(8, &failure(1, false, 1)), 9);
        assert_eq!(with_spares(8, &failure(3, true, 0)), 12);
        assert_eq!(with_spares(7, &failure(3, true, 1)), 13);
        assert_eq!(with_spares(7, &failure(2, true, 0)), 14);
        assert_eq!(with_spares(7, &failure(1, true, 0)), 7, "one zone cannot be survived; checked before");
    }

    #[test]
    fn instances_of_a_c5n_host() {
        assert_eq!([(72, 8), (72, 16)].map(|(host, one)| instances_per_host(host, 2, one)), [8, 4]);
    }

    #[test]
    fn neighbours_multiply() {
        let all = crate::catalogue::catalogue();
        let named = |name: &str| all.iter().find(|m| m.name == name).unwrap();
        let sharing_of = |name: &str| {
            let sharing = vec![Known::assumed(Ratio(0.9)), Known::assumed(Ratio(0.85))];
            super::sharing(named(name), &PlacementInput { sharing, ..PlacementInput::default() }).value.0
        };
        assert!((sharing_of("c5n.4xlarge") - 0.765).abs() < 1e-12);
        assert_eq!((sharing_of("c5n.metal"), sharing_of("c5n.18xlarge")), (1.0, 1.0));
        assert_eq!(host_of(named("c5n.2xlarge"), &all).unwrap().vcpus, Some(72));
    }
}
