//! What linters cannot know: whether a fleet fits its machines, whether networks are apart, whether what is written
//! refers to what is there. Every rule has a test that breaks it.

mod cloud_formation;
mod first_apply;
mod first_stack;
mod manifests;
mod modules;
mod reach;

use crate::cidr::Cidr;
use crate::finding::Finding;
use crate::fleet::{FIRST_ADDRESS, Fleet, Gateway};
use crate::gateway::{Places, toml};

pub use cloud_formation::{cloud_formation, cloud_formation_of_stacks, size};
pub use first_apply::folders;
pub use first_stack::first_stack;
pub use manifests::manifests;
pub use modules::module;
pub use reach::reach;

/// Whether the fleet can be at all: what of the plan is wrong, by its key.
pub fn fleet(fleet: &Fleet) -> Vec<Finding> {
    let mut found = Vec::new();
    machine(fleet, &mut found);
    unit(fleet, &mut found);
    match fleet.fixed() {
        None => scaling(fleet, &mut found),
        Some(_) => fixed(fleet, &mut found),
    }
    memory(fleet, &mut found);
    pool(fleet, &mut found);
    found
}

fn unit(fleet: &Fleet, found: &mut Vec<Finding>) {
    let (settings, unit) = (&fleet.settings, &fleet.unit);
    if unit.interfaces != 2 {
        let what = format!("a unit with {} interfaces", unit.interfaces);
        let help = match fleet.gateway {
            Gateway::Upf => "a user plane has two: towards gNBs, towards the data network",
            Gateway::Cmts => "a service group has two: towards its Remote-PHY device, towards the network",
            Gateway::Bng => "a broadband gateway has two: towards lines, towards the core",
        };
        found.push(Finding::at("unit.interfaces", what, help));
    }
    if unit.admin_interfaces != 1 {
        let what = format!("{} interfaces for administration", unit.admin_interfaces);
        found.push(Finding::at("unit.admin_interfaces", what, "1: it carries PFCP, metrics and administration"));
    }
    if !is_name(&settings.name) {
        let what = format!("\"{}\" is not a valid name", settings.name);
        found.push(Finding::at("deploy.name", what, "1 to 40 small letters, digits and hyphens, a letter first"));
    }
}

/// Bounds of a fleet that follows the load.
fn scaling(fleet: &Fleet, found: &mut Vec<Finding>) {
    let settings = &fleet.settings;
    if settings.most_machines.is_some_and(|most| most < fleet.machines) {
        let what = format!("the plan needs {} machines with spares", fleet.machines);
        found.push(Finding::at("deploy.most_machines", what, "as many at least, or leave it out"));
    }
    if settings.least_machines == 0 || settings.least_machines > fleet.machines {
        let what = format!("the fleet would not shrink to {}", settings.least_machines);
        found.push(Finding::at("deploy.least_machines", what, format!("1 to {}, what the plan needs", fleet.machines)));
    }
    if !(settings.target_load > 0.0 && settings.target_load < 1.0) {
        found.push(Finding::at("deploy.target_load", "no load to aim for", "a share between 0 and 1, such as 0.7"));
    }
    if settings.drain_seconds == 0 || settings.drain_seconds > 7140 {
        let help = "1 to 7140: a lifecycle hook waits for two hours at most";
        found.push(Finding::at("deploy.drain_seconds", "no time to drain in", help));
    }
}

/// A fleet whose gateways have lines or modems of their own: there is a file for each, and no bound to scale between.
fn fixed(fleet: &Fleet, found: &mut Vec<Finding>) {
    let settings = &fleet.settings;
    if settings.most_machines.is_some() {
        let what = "lines and modems belong to one gateway: the load does not change how many there are";
        found.push(Finding::at("deploy.most_machines", what, "leave it out"));
    }
    if fleet.gateway == Gateway::Cmts && fleet.unit.share_interfaces {
        let what = "several service groups behind one set of interfaces";
        found.push(Finding::at("unit.share_interfaces", what, "false: a gateway, with its interfaces, for each"));
    }
    if fleet.gateway == Gateway::Bng && settings.bng.c_vlans.is_empty() {
        found.push(Finding::at("deploy.bng.c_vlans", "no inner VLANs", "such as \"1-4000\""));
    }
    let places = Places {
        access_interface: "a".to_owned(),
        core_interface: "c".to_owned(),
        access_address: String::new(),
        core_address: String::new(),
        access_router: String::new(),
        core_router: String::new(),
        n4_address: String::new(),
        peers: Vec::new(),
        cpus: None,
        metrics: String::new(),
        health: None,
        ledger: String::new(),
        any_mac: true,
        socket: String::new(),
    };
    let last = fleet.ordinals().saturating_sub(1);
    if fleet.pool(last).is_some() && toml(fleet, &places, last).is_none() {
        let (key, help) = match fleet.gateway {
            Gateway::Cmts => ("deploy.cmts", "devices: a larger network; modem_mac: such as \"02:cb:00:00:00:00\""),
            _ => ("deploy.bng", "s_vlans: 4094 outer VLANs for all gateways together"),
        };
        found.push(Finding::at(key, format!("nothing is left for gateway {last}"), help));
    }
}

/// Packet memory and huge pages.
fn memory(fleet: &Fleet, found: &mut Vec<Finding>) {
    let settings = &fleet.settings;
    let least = (fleet.workers() * 2 * 4096).max(4096);
    if settings.packet_buffers < least {
        let what =
            format!("{} packet buffers for {} workers with two ports each", settings.packet_buffers, fleet.workers());
        found.push(Finding::at("deploy.packet_buffers", what, format!("{least} at least")));
    }
    let pool_mib = u64::from(settings.packet_buffers) * 2048 / (1 << 20);
    if u64::from(settings.hugepages_mib) < pool_mib || !settings.hugepages_mib.is_multiple_of(2) {
        let what =
            format!("{} packet buffers of 2 KiB do not fit in {} MiB", settings.packet_buffers, settings.hugepages_mib);
        found.push(Finding::at("deploy.hugepages_mib", what, format!("an even number, {pool_mib} at least")));
    }
}

/// Parts of the subscribers' addresses.
fn pool(fleet: &Fleet, found: &mut Vec<Finding>) {
    let settings = &fleet.settings;
    match (fleet.pool(0), fleet.sessions()) {
        (Some(part), sessions) if part.size() < sessions => {
            let what = format!("{} gateways have {part} each at most: {} addresses", fleet.ordinals(), part.size());
            let help = format!("a larger pool: each may have {sessions} sessions");
            found.push(Finding::at("deploy.ue_pool", what, help));
        }
        (None, _) => {
            let what = format!("{} cannot be divided into {} parts", settings.ue_pool, fleet.ordinals());
            found.push(Finding::at("deploy.ue_pool", what, "a larger pool"));
        }
        _ => {}
    }
}

fn is_name(name: &str) -> bool {
    (1..=40).contains(&name.len())
        && name.starts_with(|c: char| c.is_ascii_lowercase())
        && !name.ends_with('-')
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
}

/// Interfaces, queues, vCPUs and memory of a machine. What is not known cannot be promised.
fn machine(fleet: &Fleet, found: &mut Vec<Finding>) {
    let (machine, unit) = (&fleet.machine, &fleet.unit);
    let name = &machine.name;
    let mut fits = |what: &str, key: &str, takes: u64, has: Option<u64>| match has {
        None => {
            let what = format!("it is not known how many {what} {name} has; {takes} are needed");
            found.push(Finding::at(
                "deploy.machine",
                what,
                "a type whose limits are in the catalogue, or a [[server]]",
            ));
        }
        Some(has) if takes > has => {
            let what = format!("{} units take {takes} {what}, {name} has {has}", fleet.units);
            found.push(Finding::at(key, what, "fewer, or a larger machine"));
        }
        Some(_) => {}
    };
    let interfaces = fleet.gateways() * unit.interfaces + unit.admin_interfaces;
    fits("interfaces", "unit.interfaces", interfaces.into(), machine.interfaces.map(u64::from));
    fits("queues of an interface", "unit.queues", fleet.workers().into(), machine.queues.map(u64::from));
    let vcpus = fleet.units * unit.vcpus + unit.reserved_vcpus;
    fits("vCPUs", "unit.vcpus", vcpus.into(), machine.vcpus.map(u64::from));
    // A gibibyte stays with the system.
    let mib = u64::from(fleet.gateways()) * u64::from(fleet.settings.hugepages_mib) + 1024;
    fits("MiB of memory", "deploy.hugepages_mib", mib, machine.memory_mib);
    if fleet.workers() > fleet.gateway_vcpus() {
        let what = format!("{} workers, one a queue, on {} vCPUs", fleet.workers(), fleet.gateway_vcpus());
        found.push(Finding::at("unit.queues", what, "no more queues than vCPUs of a unit"));
    }
}

/// Networks that must not have an address in common, with the keys they stand under.
pub fn apart(networks: &[(&str, Cidr)]) -> Vec<Finding> {
    let mut found = Vec::new();
    for (n, (key, one)) in networks.iter().enumerate() {
        for (other_key, other) in &networks[..n] {
            if one.overlaps(*other) {
                found.push(Finding::at(key, format!("{one} overlaps {other} of {other_key}"), "networks of their own"));
            }
        }
    }
    found
}

/// Whether every gateway has an address in a network.
pub fn addresses(fleet: &Fleet, key: &str, network: Cidr) -> Option<Finding> {
    let last = fleet.ordinals().saturating_sub(1);
    fleet.address(network, last).is_none().then(|| {
        let what = format!("{network} has no {} addresses from the {FIRST_ADDRESS}th on", fleet.ordinals());
        Finding::at(key, what, "a larger network, or fewer machines")
    })
}
