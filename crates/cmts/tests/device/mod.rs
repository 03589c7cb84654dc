//! A whole cable gateway between memory wires, with its control: what golden cases run. Where there are two workers, the
//! first sees to downstream and the second to upstream (of a second service group the other way round), and packets come
//! in by the queues of the other one.
//!
//! | step | what control does |
//! |---|---|
//! | `do = "key", modem = "02:cb:…", sequence = 1, key = "00…"` | gives the modem another key, and sends by it from now on |
//! | `do = "add", service_group = "sg", modem = { … }` | adds modems, as in the configuration |
//! | `do = "remove", modem = "02:cb:…"` | takes the modem out |

use std::collections::BTreeMap;

use cmts::assemble::assemble;
use cmts::config::{Config, ModemEntry, Role};
use cmts::control::Control;
use cmts::gateway::CableGateway;
use cmts::report::Report;
use crypto::Key;
use dataplane::config::parse_mac;
use engine::Gateway as _;
use frame::Caps;
use gateway::shell::Sections as _;
use gateway_testkit::ports_of;
use serde::Deserialize as _;
use testkit::golden::{Counters, Subject};
use testkit::rig::{Clock, Memories, PortSpec, Rig, host_services};
use wire::Mac;

/// A gateway, its control, and a clock.
pub struct Device {
    rig: Rig<CableGateway>,
    control: Control,
    clock: Clock,
    before: Counters,
}

impl Device {
    fn new(config: &Config) -> Result<Self, String> {
        let ports = ports_of(&config.head().ports)?;
        let caps = |(port, entry): (&PortSpec, &cmts::config::Port)| {
            let host = host_services(entry.host_packets_per_second);
            Caps { kind: "memory", mac: port.mac, mtu: 1500, host, ..Caps::default() }
        };
        let caps: Vec<_> = ports.iter().zip(&config.port).map(caps).collect();
        let (control, seats) = assemble(config, &caps).map_err(|error| error.to_string())?;
        let clock = Clock::at(0);
        let memory = Memories { slots: config.frames.packet_buffers, slot_bytes: config.frames.packet_buffer_bytes };
        let rig = Rig::among(seats, &ports, memory, &clock);
        let mut device = Self { rig, control, clock, before: Counters::default() };
        device.settle();
        // What it announces at the start is put aside.
        device.ports().iter().for_each(|port| drop(device.received(port)));
        device.before = device.all_counters();
        Ok(device)
    }

    fn all_counters(&mut self) -> Counters {
        let mut counters = Counters::default();
        self.rig.all_stats().for_each(|stats| counters.add(&Counters::of(stats)));
        for worker in self.rig.workers() {
            // In the room that control would make.
            let mut report = Report::with_room(64, 64 * cmts::modems::MAX_FLOWS, 64, 8);
            report.fill(worker.gateway().state(), self.clock.now());
            count(&report, &mut counters.gateway);
            put(&mut counters.gateway, "held".into(), worker.gateway().held() as u64);
        }
        put(&mut counters.gateway, "control.refused".into(), self.control.refused());
        counters
    }
}

/// Counts what moved.
fn put(counters: &mut BTreeMap<String, u64>, name: String, value: u64) {
    if value > 0 {
        *counters.entry(name).or_default() += value;
    }
}

/// What a worker reports, by names.
fn count(report: &Report, counters: &mut BTreeMap<String, u64>) {
    let mut put = |name: String, value: u64| put(counters, name, value);
    let c = report.counts;
    for (name, value) in [
        ("lookup.matched", c.lookup_matched),
        ("lookup.unmatched", c.lookup_unmatched),
        ("filter.down.permit", c.filter_permit[0]),
        ("filter.down.deny", c.filter_deny[0]),
        ("filter.down.unmatched", c.filter_unmatched[0]),
        ("filter.up.permit", c.filter_permit[1]),
        ("filter.up.deny", c.filter_deny[1]),
        ("filter.up.unmatched", c.filter_unmatched[1]),
        ("classified.ipv4", c.classified_ipv4),
        ("classified.icmp", c.classified_icmp),
        ("classified.llc", c.classified_llc),
        ("classified.none", c.unclassified),
        ("units.bursts", report.units.bursts),
        ("units.packets_lost", report.units.packets_lost),
        ("clusters.frames", report.clusters.frames),
        ("clusters.requests", report.clusters.requests),
    ] {
        put(name.to_owned(), value);
    }
    for row in &report.modems {
        for (way, name) in ["down", "up"].into_iter().enumerate() {
            put(format!("modem.{}.{name}.packets", row.modem), row.packets[way]);
            put(format!("modem.{}.{name}.bytes", row.modem), row.bytes[way]);
        }
    }
    let per_modem = cmts::modems::MAX_FLOWS as u32;
    for row in &report.flows {
        let name = format!("flow.{}.{}", row.flow / per_modem, row.flow % per_modem);
        put(format!("{name}.packets"), row.counts.packets);
        put(format!("{name}.bytes"), row.counts.bytes);
        put(format!("{name}.full"), row.counts.full);
        put(format!("{name}.waiting"), row.waiting.0.into());
    }
    for row in &report.channels {
        put(format!("channel.{}.frames", row.channel), row.packets);
        put(format!("channel.{}.bytes", row.channel), row.bytes);
        put(format!("channel.{}.packets", row.channel), row.wire.packets);
    }
    for (n, grants) in report.grants.iter().enumerate() {
        put(format!("grants.{n}.requests"), grants.requests);
        put(format!("grants.{n}.requested_bytes"), grants.requested_bytes);
    }
}

impl Subject for Device {
    fn start(config: &toml::Table) -> Result<Self, String> {
        let mut config = Config::deserialize(config.clone()).map_err(|error| error.to_string())?;
        // Each worker has the memory that one alone would have.
        config.frames.packet_buffers *= u32::from(config.workers.count);
        let last = config.workers.count.saturating_sub(1);
        // Of two groups each has its upstream where the other has its downstream.
        for (n, group) in config.service_group.iter_mut().enumerate() {
            let (down, up) = if n % 2 == 0 { (0, last) } else { (last, 0) };
            (group.down_worker, group.up_worker) = (down, Some(up));
        }
        Self::new(&config)
    }

    fn ports(&self) -> Vec<String> {
        self.rig.ports().map(str::to_owned).collect()
    }

    fn turn_to(&mut self, now: u64) {
        self.clock.turn_to(now);
    }

    fn send(&mut self, port: &str, packet: &[u8]) {
        // What is for the first worker comes in by the last one, and the other way round.
        let downstream = self.control.config().port.iter().any(|p| p.name == port && p.role == Role::Network);
        let worker = if downstream { self.rig.workers().count() - 1 } else { 0 };
        self.rig.wire_of(worker, port).send(packet);
    }

    fn step(&mut self, what: &toml::Table) -> Result<(), String> {
        let text = |key: &str| what.get(key).and_then(toml::Value::as_str).ok_or_else(|| format!("{key} is missing"));
        let modem = || text("modem").and_then(|text| parse_mac(text).map(Mac).ok_or_else(|| format!("{text} is none")));
        let refused = |refusal: cmts::control::Refusal| refusal.to_string();
        match text("do")? {
            "key" => {
                let sequence =
                    what.get("sequence").and_then(toml::Value::as_integer).ok_or("sequence is missing")? as u8;
                let key = u128::from_str_radix(text("key")?, 16).map_err(|error| error.to_string())?;
                let key = Key::aes128(key.to_be_bytes(), crate::golden_cases::IV);
                self.control.set_key(modem()?, sequence, &key).map_err(refused)?;
                self.control.use_key(modem()?, sequence).map_err(refused)
            }
            "add" => {
                let entry = what.get("modem").cloned().ok_or("modem is missing")?;
                let entry = ModemEntry::deserialize(entry).map_err(|error| error.to_string())?;
                self.control.add_modems(text("service_group")?, &entry).map(drop).map_err(refused)
            }
            "remove" => self.control.remove_modem(modem()?).map_err(refused),
            other => Err(format!("{other} is not known here")),
        }
    }

    fn settle(&mut self) {
        let control = &mut self.control;
        self.rig.settle(|_, now| {
            control.poll(now);
            false
        });
    }

    fn received(&mut self, port: &str) -> Vec<Vec<u8>> {
        (0..self.rig.workers().count()).flat_map(|worker| self.rig.wire_of(worker, port).received()).collect()
    }

    fn counters(&mut self) -> Counters {
        self.all_counters().since(&self.before)
    }

    fn close(self) -> Result<(), String> {
        self.rig.close()
    }
}
