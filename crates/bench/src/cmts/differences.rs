//! What is not alike between a measurement and the published one: so that no figure stands beside another as if they
//! were of the same thing.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::settings::{CableSettings, Channels, Rules};
use crate::host::Host;
use crate::options::PortKind;

/// One thing that is not alike.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Difference {
    /// What it is.
    pub what: String,
    /// In the published measurement.
    pub published: String,
    /// In this one.
    pub here: String,
}

/// Modems of a service group, addresses of a modem, as published.
const MODEMS: [u16; 2] = [300, 4];
/// CPUs of a service group.
const CPUS: u16 = 3;

/// What is not alike with the published vCMTS measurement (on premise and c5n instances, 2021), by what was set.
pub(super) fn differences(settings: &CableSettings, port: PortKind, host: &Host, cipher: &str) -> Vec<Difference> {
    let mut all = Vec::new();
    let mut add = |what: &str, published: &str, here: String| {
        all.push(Difference { what: what.into(), published: published.into(), here });
    };
    machine(settings, port, host, cipher, &mut add);
    workload(settings, &mut add);
    limits(settings, &mut add);
    all
}

/// Where it ran.
fn machine(
    settings: &CableSettings,
    port: PortKind,
    host: &Host,
    cipher: &str,
    add: &mut impl FnMut(&str, &str, String),
) {
    match port {
        PortKind::Memory => add(
            "packet I/O",
            "DPDK on two network interfaces a service group, receive and transmit included",
            "none: packets are made and checked in memory, and that is taken off".into(),
        ),
        other => add(
            "packet I/O",
            "DPDK on two network interfaces a service group",
            format!("{}, one pair of virtual links (veth) for all service groups", other.name()),
        ),
    }
    let (groups, workers) = (settings.groups, settings.workers);
    if groups * CPUS != workers {
        add(
            "CPUs",
            "3 vCPUs a service group",
            format!(
                "{workers} core{} for {groups} service groups, both directions",
                if workers == 1 { "" } else { "s" }
            ),
        );
    }
    add("processor", "Xeon Gold 6148 at 2.4 GHz without turbo, or c5n instances at 3.0 GHz", host.cpu.clone());
    if settings.encrypt {
        add("encryption", "four QuickAssist cards on premise; none on c5n", format!("on the worker's core: {cipher}"));
    }
    add(
        "search",
        "RFC 2544 style: the highest rate without loss",
        "more is offered than can be forwarded, as far as channels carry it; `--search rfc2544` searches".into(),
    );
    add("measured time", "steady state of a run", "many windows of at most 0.25 s".into());
}

/// What is sent.
fn workload(settings: &CableSettings, add: &mut impl FnMut(&str, &str, String)) {
    let CableSettings { modems, hosts, channels, encrypt, size, upstream, downstream, rules, .. } = settings;
    if [*modems, *hosts] != MODEMS {
        add(
            "modems",
            "300 a service group, 4 addresses each",
            format!("{modems} a service group, {hosts} addresses each"),
        );
    }
    if let Some(size) = size {
        add("frame sizes", "IMIX: 84, 256 and 1280 bytes", format!("{size} bytes only"));
    }
    if !encrypt {
        add("encryption", "100 % AES", "off".into());
    }
    match (downstream, *upstream) {
        (false, _) => add("directions", "both at once, upstream at least 10 % of downstream", "upstream only".into()),
        (true, ratio) if ratio < 0.1 => {
            add("upstream", "at least 10 % of downstream", format!("{} % of downstream", ratio * 100.0));
        }
        _ => {}
    }
    if *channels == Channels::Ofdm2Scqam32 {
        add(
            "bonding groups",
            "modems evenly over 4 groups of an OFDM and SC-QAM channels",
            "the same; which channels a group has is not published".into(),
        );
    }
    match rules {
        Rules::Mixed => add(
            "rules",
            "16 a filter group and 16 classifiers, a tenth of packets matched; their fields are not published",
            "as many, as often matched; fields are this benchmark's: addresses, protocols, ports, TOS, MAC".into(),
        ),
        Rules::Ports => {
            add("rules", "16 of unknown fields", "all look for one UDP port: packets beside are told at once".into())
        }
    }
    add(
        "protocols",
        "not published",
        "UDP over IPv4 only; rules for TCP, ICMP, ESP, GRE and IPv6 are compared and never match".into(),
    );
}

/// What service flows may carry. The publication has eight service-flow queues of a modem, four active, and says no
/// more.
fn limits(settings: &CableSettings, add: &mut impl FnMut(&str, &str, String)) {
    let limits = &settings.limits;
    let word = |on: bool| if on { "on" } else { "off" };
    let here = format!(
        "rates {}, peak rates {}, priorities {}, AQM {}",
        word(limits.rates),
        word(limits.rates && limits.peak_rates),
        word(limits.priorities),
        word(limits.aqm)
    );
    add("service flows", "8 queues a modem, 4 active; rates and AQM are not published", here);
    let overloaded = settings.overloaded().len() as u32 * u32::from(settings.groups);
    if overloaded > 0 {
        add(
            "loss",
            "none",
            format!(
                "none but of {overloaded} modems that are offered {} times their rate on purpose",
                limits.overload_factor
            ),
        );
    }
    add(
        "bandwidth requests",
        "none: grants of 2 KB are allocated before, evenly over modems, without an upstream scheduler",
        "such grants; beside one burst in twenty comes a request that the gateway takes in".into(),
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    fn here(settings: &CableSettings, port: PortKind) -> Vec<Difference> {
        differences(settings, port, &Host { cpu: "a CPU".into(), ..Host::default() }, "libipsec-mb")
    }

    fn of<'a>(all: &'a [Difference], what: &str) -> Option<&'a Difference> {
        all.iter().find(|one| one.what == what)
    }

    #[test]
    fn differences_follow_the_settings() {
        let settings = CableSettings::default();
        let (memory, links) = (here(&settings, PortKind::Memory), here(&settings, PortKind::Xdp));
        assert!(of(&memory, "packet I/O").expect("I/O").here.contains("in memory"));
        assert!(of(&links, "packet I/O").expect("I/O").here.contains("veth"));
        assert!(of(&memory, "encryption").expect("no cards").published.contains("QuickAssist"));
        assert!(of(&memory, "modems").is_none() && of(&memory, "frame sizes").is_none());
        assert!(of(&memory, "loss").expect("overload").here.contains("36 modems"));
        let mut other = CableSettings { modems: 24, size: Some(128), downstream: false, ..settings };
        other.limits.overload = 0.0;
        let other = here(&other, PortKind::Memory);
        assert!(of(&other, "modems").expect("fewer").here.contains("24 a service group"));
        assert_eq!(of(&other, "frame sizes").expect("one size").here, "128 bytes only");
        assert_eq!(of(&other, "directions").expect("one").here, "upstream only");
        assert!(of(&other, "loss").is_none());
    }
}
