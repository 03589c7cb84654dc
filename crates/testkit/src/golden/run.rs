//! Running a case.

use std::collections::{BTreeMap, BTreeSet};

use super::{Counters, Step};
use crate::pcap::Seen;

/// A gateway under test.
pub trait Subject: Sized {
    /// A gateway of that configuration at rest, its clock at 0.
    ///
    /// # Errors
    /// Why it cannot be.
    fn start(config: &toml::Table) -> Result<Self, String>;

    /// Its ports.
    fn ports(&self) -> Vec<String>;

    /// Turns its clock to that time.
    fn turn_to(&mut self, now: u64);

    /// Lays a packet on a port's wire.
    fn send(&mut self, port: &str, packet: &[u8]);

    /// Control does something.
    ///
    /// # Errors
    /// Why it cannot.
    fn step(&mut self, what: &toml::Table) -> Result<(), String>;

    /// Turns workers and control until nothing moves.
    fn settle(&mut self);

    /// What a port has sent since the last call.
    fn received(&mut self, port: &str) -> Vec<Vec<u8>>;

    /// Everything that was counted.
    fn counters(&mut self) -> Counters;

    /// Ends it and checks the conservation laws.
    ///
    /// # Errors
    /// What was lost.
    fn close(self) -> Result<(), String>;
}

/// What came of a case.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// What left by each port, and when.
    pub outputs: BTreeMap<String, Vec<Seen>>,
    /// What moved.
    pub counters: Counters,
}

/// The clock is turned in steps of at most this, so that timers are seen at their time.
const TICK: u64 = 1_000_000;

/// Runs a case; returns what came of it and what went wrong on the way.
pub fn run<S: Subject>(
    config: &toml::Table,
    steps: &[Step],
    inputs: &BTreeMap<String, Vec<Seen>>,
    until: u64,
) -> (Outcome, Vec<String>) {
    let mut subject = match S::start(config) {
        Ok(subject) => subject,
        Err(error) => return (Outcome::default(), vec![format!("it does not start: {error}")]),
    };
    let ports = subject.ports();
    let mut faults: Vec<String> = Vec::new();
    for port in inputs.keys().filter(|port| !ports.contains(port)) {
        faults.push(format!("packets for port {port}, which is not there"));
    }
    let packets = inputs.values().flatten().map(|packet| packet.at);
    let mut times: BTreeSet<u64> = packets.chain(steps.iter().map(|step| step.at)).chain([0, until]).collect();
    let mut outcome = Outcome::default();
    let mut now = 0;
    loop {
        subject.turn_to(now);
        if times.remove(&now) {
            for step in steps.iter().filter(|step| step.at == now) {
                if let Err(error) = subject.step(&step.what) {
                    faults.push(format!("step at {now} ns: {error}"));
                }
            }
            for port in &ports {
                let due = inputs.get(port).into_iter().flatten().filter(|packet| packet.at == now);
                due.for_each(|packet| subject.send(port, &packet.bytes));
            }
        }
        subject.settle();
        for port in &ports {
            let sent = subject.received(port).into_iter().map(|bytes| Seen { at: now, bytes });
            outcome.outputs.entry(port.clone()).or_default().extend(sent);
        }
        let Some(next) = times.first() else { break };
        now = (*next).min(now + TICK);
    }
    outcome.counters = subject.counters();
    if let Err(error) = subject.close() {
        faults.push(error);
    }
    (outcome, faults)
}
