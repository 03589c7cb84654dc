//! The program of the in-kernel path, run by the kernel on one packet at a time, beside the user-space path.
//!
//! A device with it gets every packet of every golden case: first the program, then, if it leaves the packet, the workers.
//! What leaves, what is dropped and why, and what is counted must be what a device without it does.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Deserialize as _;
use testkit::golden::{Counters, Outcome, Subject};
use upf::config::Config;
use upf::fast::{Counts, FastPath, FastPort, Publisher};

use crate::device::{Device, mac};
use crate::golden_cases;

/// The loopback: where a packet given to a program comes in by.
const LOOPBACK: u32 = 1;
/// No interface's number.
const ELSEWHERE: u32 = 4000;
const XDP_DROP: u32 = 1;
const XDP_PASS: u32 = 2;
const XDP_REDIRECT: u32 = 4;
/// Longer packets come in several pieces, which the program does not take.
const LONGEST: usize = 3000;

/// A user plane with the in-kernel path before it.
struct WithKernel {
    user_space: Device,
    path: Arc<FastPath>,
    publisher: Publisher,
    /// What the program sent, by port.
    sent: BTreeMap<String, Vec<Vec<u8>>>,
    /// Hardware addresses of ports.
    macs: Vec<([u8; 6], String)>,
}

impl WithKernel {
    /// A device as `config` says, or none where the in-kernel path is not for it.
    fn new(config: Config) -> Result<Self, String> {
        let workers = config.workers.count;
        let path = Arc::new(FastPath::load(1024, workers).map_err(|error| error.to_string())?);
        let ports = config.port.len();
        let macs = config.port.iter().map(|port| Ok((mac(&port.uri)?, port.name.clone())));
        let macs = macs.collect::<Result<_, String>>()?;
        (0..ports as u8).for_each(|port| path.set_egress(port, LOOPBACK).expect("there is a loopback"));
        let publisher = Publisher::new(path.clone(), vec![None; ports]);
        let mut device = Self { user_space: Device::new(config)?, path, publisher, sent: BTreeMap::new(), macs };
        device.publish(0);
        device.path.set_running(device.is_for_kernel());
        device.enter();
        Ok(device)
    }

    /// Whether the stages of this gateway are all known to the program.
    fn is_for_kernel(&self) -> bool {
        upf::fast::why_not(self.user_space.config()).is_none()
    }

    /// All sessions go into the kernel that can, with the clocks as they stand to each other now.
    fn enter(&mut self) {
        let (path, now) = (self.path.clone(), self.user_space.now());
        let mut worker = 0;
        self.user_space.rig().each_gateway(|gateway| {
            gateway.sessions_mut().open_kernel(false);
            gateway.sessions_mut().set_fast_path(path.clone(), worker, now);
            worker += 1;
        });
    }

    /// The program has the tables as they are, and the packets it gets next come in by that port.
    fn publish(&mut self, port: usize) {
        let ports = self.user_space.config().port.iter().enumerate();
        let ifindex = |n: usize| if n == port { LOOPBACK } else { ELSEWHERE + n as u32 };
        let ports = ports.map(|(n, port)| Some(FastPort { ifindex: ifindex(n), role: port.role })).collect();
        self.publisher.set_ports(ports);
        let plan = self.user_space.control().plan();
        self.publisher.publish(plan, &plan.compile());
    }

    /// How many packets the program has forwarded or dropped.
    fn taken(&self) -> u64 {
        let counts = self.path.counts();
        counts.up.0 + counts.down.0 + counts.drops().iter().map(|(_, count)| count).sum::<u64>()
    }
}

impl Subject for WithKernel {
    fn start(config: &toml::Table) -> Result<Self, String> {
        Self::new(Config::deserialize(config.clone()).map_err(|error| error.to_string())?)
    }

    fn ports(&self) -> Vec<String> {
        self.user_space.ports()
    }

    fn turn_to(&mut self, now: u64) {
        self.user_space.rig().each_gateway(|gateway| gateway.sessions_mut().open_kernel(false));
        self.user_space.turn_to(now);
        self.enter();
    }

    fn send(&mut self, port: &str, packet: &[u8]) {
        let number = self.ports().iter().position(|name| name == port).expect("a port there is");
        self.publish(number);
        let run = if (14..LONGEST).contains(&packet.len()) {
            self.path.program().test_run(packet).expect("the kernel runs it")
        } else {
            return self.user_space.send(port, packet);
        };
        match run.verdict {
            XDP_PASS => {
                assert_eq!(run.packet, packet, "left as it came");
                self.user_space.send(port, packet);
                // The worker takes it before the next one comes, as it does where packets are far between.
                self.user_space.settle();
            }
            XDP_REDIRECT => {
                let from: [u8; 6] = run.packet[6..12].try_into().expect("six bytes");
                let (_, out) = self.macs.iter().find(|(mac, _)| *mac == from).expect("a port of ours");
                self.sent.entry(out.clone()).or_default().push(run.packet);
            }
            verdict => assert_eq!(verdict, XDP_DROP),
        }
    }

    fn step(&mut self, what: &toml::Table) -> Result<(), String> {
        self.user_space.step(what)?;
        // The worker has done it before the next packet comes.
        self.user_space.settle();
        Ok(())
    }

    fn settle(&mut self) {
        self.user_space.settle();
    }

    fn received(&mut self, port: &str) -> Vec<Vec<u8>> {
        let mut all = self.sent.remove(port).unwrap_or_default();
        all.extend(self.user_space.received(port));
        all
    }

    fn counters(&mut self) -> Counters {
        let mut counters = self.user_space.counters();
        let Counts { up, down, .. } = self.path.counts();
        for (name, count) in self.path.counts().drops().into_iter().filter(|(_, count)| *count > 0) {
            let dropped = counters.drops.entry(format!("kernel.fast_path.{name}")).or_default();
            dropped.packets += count;
        }
        counters.gateway.insert("kernel.taken".into(), self.taken());
        counters.gateway.insert("kernel.forwarded".into(), up.0 + down.0);
        counters
    }

    fn close(self) -> Result<(), String> {
        self.user_space.close()
    }
}

/// Packets dropped, by reason, wherever.
fn drops(counters: &Counters) -> BTreeMap<String, u64> {
    let mut drops = BTreeMap::new();
    for (place, dropped) in &counters.drops {
        *drops.entry(place.rsplit('.').next().unwrap_or(place).to_owned()).or_default() += dropped.packets;
    }
    drops
}

/// Usage of sessions. Times are the kernel's clock's here, and a simulated one's there.
fn usage(counters: &Counters) -> BTreeMap<&String, u64> {
    let is_usage = |name: &str| name.starts_with("usage.") || name.starts_with("final.");
    let counted = |name: &str| is_usage(name) && !name.ends_with("_ns");
    counters.gateway.iter().filter(|(name, _)| counted(name)).map(|(name, value)| (name, *value)).collect()
}

/// What left by each port, whatever the order.
fn outputs(outcome: &Outcome) -> BTreeMap<&String, Vec<&Vec<u8>>> {
    fn sorted(seen: &[testkit::pcap::Seen]) -> Vec<&Vec<u8>> {
        let mut packets: Vec<_> = seen.iter().map(|seen| &seen.bytes).collect();
        packets.sort();
        packets
    }
    outcome.outputs.iter().map(|(port, seen)| (port, sorted(seen))).collect()
}

/// Cases of what there is not here: packets that come in one burst, a port that takes no more.
const ELSEWHERE_ONLY: &[&str] = &["neighbours/new_packets_do_not_overtake", "link/jammed_port"];

/// Whether buckets are part of a case: they fill by the simulated clock there and by the kernel's here. That the kernel's
/// hold their rate is tried between hosts (`tests/net/fast_path.py`).
fn has_rates(case: &golden_cases::Case) -> bool {
    let steps = case.steps.iter().map(|step| step.what.to_string());
    let texts = steps.chain([case.config.to_string()]).collect::<Vec<_>>();
    texts.iter().any(|text| ["mbr_", "rates_"].iter().any(|key| text.contains(key)))
}

#[test]
fn golden_cases_come_out_the_same_through_the_kernel() {
    let (mut taken, mut through, mut faults) = (0, 0, Vec::new());
    let fits = |case: &golden_cases::Case| !ELSEWHERE_ONLY.contains(&&*case.name) && !has_rates(case);
    for case in golden_cases::all().into_iter().filter(fits) {
        // A subscriber with an IPv6 prefix is not for the kernel: here they have none, with it and without.
        let mut config = case.config.clone();
        if let Some(simulate) = config.get_mut("simulate").and_then(toml::Value::as_table_mut) {
            simulate.remove("ue6_first");
        }
        let (kernel, said) = testkit::golden::run::<WithKernel>(&config, &case.steps, &case.inputs, case.until);
        let (plain, _) = testkit::golden::run::<Device>(&config, &case.steps, &case.inputs, case.until);
        faults.extend(said.into_iter().map(|fault| format!("{}: {fault}", case.name)));
        if outputs(&kernel) != outputs(&plain) {
            faults.push(format!("{}: {:02x?}\nnot {:02x?}", case.name, outputs(&kernel), outputs(&plain)));
        }
        let [ours, theirs] = [&kernel, &plain].map(|outcome| (drops(&outcome.counters), usage(&outcome.counters)));
        if ours != theirs {
            faults.push(format!("{}: {ours:?}\nnot {theirs:?}", case.name));
        }
        let here = kernel.counters.gateway.get("kernel.taken").copied().unwrap_or(0);
        taken += here;
        through += u32::from(here > 0);
    }
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
    println!("{taken} packets of {through} cases were the kernel's");
    assert!(through > 20 && taken > 60, "only {taken} packets of {through} cases were the kernel's");
}
