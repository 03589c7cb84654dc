//! What is, and what should be.

use std::collections::BTreeMap;
use std::fmt::{Debug, Write as _};

use super::folder::Read;
use super::{Case, Outcome, ms};
use crate::packet::{describe, hex};
use crate::pcap::Seen;

/// A timer may be seen this much late.
const LATE: u64 = ms(2);

/// Where a folder is not what its description would write.
pub(super) fn description(case: &Case, read: &Read) -> Vec<String> {
    let same = case.text == read.text
        && case.config == read.config
        && case.steps == read.steps
        && case.until == read.until
        && case.inputs == read.inputs;
    if same { vec![] } else { vec!["the folder was written from another description; WEIR_BLESS=1 writes it".into()] }
}

/// Where an outcome is not what the folder recorded.
pub(super) fn recording(outcome: &Outcome, read: &Read) -> Vec<String> {
    let mut faults = Vec::new();
    let empty = Vec::new();
    for port in outcome.outputs.keys().chain(read.outputs.keys().filter(|p| !outcome.outputs.contains_key(*p))) {
        let got = outcome.outputs.get(port).unwrap_or(&empty);
        let want = read.outputs.get(port).unwrap_or(&empty);
        packets(&format!("{port}.out.pcap"), got, want, 0, &mut faults);
    }
    let (got, want) = (&outcome.counters, &read.counters);
    numbers("io", &got.io, &want.io, &mut faults);
    numbers("stages", &got.stages, &want.stages, &mut faults);
    numbers("drops", &got.drops, &want.drops, &mut faults);
    numbers("punts", &got.punts, &want.punts, &mut faults);
    numbers("gateway", &got.gateway, &want.gateway, &mut faults);
    faults
}

/// Where an outcome of several workers is not what was recorded of one. Packets may have changed places, for they went
/// through rings; and what is handed over from worker to worker must have come in there.
pub(super) fn shared(outcome: &Outcome, read: &Read) -> Vec<String> {
    let mut faults = Vec::new();
    for port in outcome.outputs.keys().chain(read.outputs.keys().filter(|p| !outcome.outputs.contains_key(*p))) {
        let sorted = |seen: Option<&Vec<Seen>>| {
            let mut seen: Vec<_> = seen.into_iter().flatten().map(|seen| Seen { at: 0, ..seen.clone() }).collect();
            seen.sort_by(|a, b| a.bytes.cmp(&b.bytes));
            seen
        };
        let (got, want) = (sorted(outcome.outputs.get(port)), sorted(read.outputs.get(port)));
        packets(port, &got, &want, 0, &mut faults);
    }
    let (mut got, want) = (outcome.counters.clone(), &read.counters);
    let [out, come] = ["handoff_sent", "handoff_received"].map(|name| got.io.remove(name));
    if out != come {
        faults.push(format!("{out:?} packets were sent to other workers and {come:?} received"));
    }
    numbers("io", &got.io, &want.io, &mut faults);
    numbers("drops", &got.drops, &want.drops, &mut faults);
    numbers("punts", &got.punts, &want.punts, &mut faults);
    numbers("gateway", &got.gateway, &want.gateway, &mut faults);
    faults
}

/// Where an outcome is not what the case says must be.
pub(super) fn expectation(outcome: &Outcome, case: &Case) -> Vec<String> {
    let mut faults = Vec::new();
    let none = Vec::new();
    for port in outcome.outputs.keys().chain(case.outputs.keys().filter(|p| !outcome.outputs.contains_key(*p))) {
        let want = case.outputs.get(port).into_iter().flatten();
        let want: Vec<Seen> = want.map(|(at, packet)| Seen { at: *at, bytes: packet.build() }).collect();
        packets(port, outcome.outputs.get(port).unwrap_or(&none), &want, LATE, &mut faults);
    }
    let drops = outcome.counters.drops.iter().map(|(name, dropped)| (name.clone(), dropped.packets)).collect();
    numbers("drops", &drops, &case.drops, &mut faults);
    numbers("punts", &outcome.counters.punts, &case.punts, &mut faults);
    let asked = |(name, _): &(&String, &u64)| case.counts.contains_key(*name);
    let counts = outcome.counters.gateway.iter().filter(asked).map(|(name, value)| (name.clone(), *value)).collect();
    let asked = case.counts.iter().filter(|(_, value)| **value != 0).map(|(name, value)| (name.clone(), *value));
    numbers("gateway", &counts, &asked.collect(), &mut faults);
    faults
}

fn packets(what: &str, got: &[Seen], want: &[Seen], late: u64, faults: &mut Vec<String>) {
    let mut text = String::new();
    let time = |at: u64| format!("{}.{:06} s", at / 1_000_000_000, at % 1_000_000_000 / 1000);
    for n in 0..got.len().max(want.len()) {
        let fault = match (got.get(n), want.get(n)) {
            (Some(got), Some(want)) if got.bytes != want.bytes => format!(
                "is   {}\n{}  not  {}\n{}",
                describe(&got.bytes),
                hex(&got.bytes, &want.bytes),
                describe(&want.bytes),
                hex(&want.bytes, &got.bytes)
            ),
            (Some(got), Some(want)) if got.at < want.at || got.at > want.at + late => {
                format!("left at {}, not {}: {}\n", time(got.at), time(want.at), describe(&got.bytes))
            }
            (Some(got), None) => {
                format!("should not be, at {}: {}\n{}", time(got.at), describe(&got.bytes), hex(&got.bytes, &got.bytes))
            }
            (None, Some(want)) => format!("is missing, at {}: {}\n", time(want.at), describe(&want.bytes)),
            _ => continue,
        };
        let _ = write!(text, "{what}: packet {} {fault}", n + 1);
    }
    if !text.is_empty() {
        faults.push(text);
    }
}

fn numbers<V: PartialEq + Debug>(
    what: &str,
    got: &BTreeMap<String, V>,
    want: &BTreeMap<String, V>,
    faults: &mut Vec<String>,
) {
    for name in got.keys().chain(want.keys().filter(|name| !got.contains_key(*name))) {
        let (got, want) = (got.get(name), want.get(name));
        if got == want {
            continue;
        }
        let is = |value: Option<&V>| value.map_or("did not move".to_owned(), |v| format!("moved by {v:?}"));
        let should = want.map_or("should not move".to_owned(), |v| format!("should move by {v:?}"));
        faults.push(format!("{what}: {name} {}, {should}", is(got)));
    }
}
