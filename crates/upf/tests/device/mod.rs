//! A whole user plane between memory wires, with its control: what the tests here run. Where there are several workers,
//! all packets come in by the last one's queues.
//!
//! Steps a golden case can take (`ue` counts from 0, those of `[simulate]` first):
//!
//! | step | what control does |
//! |---|---|
//! | `do = "rules", ue = 0, idle = true, simulate = { … }` | replaces the subscriber's rules; keys of `simulate` change the configured ones |
//! | `do = "relay", ue = 0, to = "10.0.3.101", teid = 9` | what the subscriber sends goes on into that tunnel |
//! | `do = "behind", ue = 0, routes = ["192.168.0.0/16"]` | the subscriber has these networks behind it |
//! | `do = "more", ue = 0, rates_up = [1000000], quotas = [9000]` | QERs (numbers from 101) and URRs (likewise; 0: no quota) beside those the subscriber's rules have |
//! | `do = "remove", ue = 0` | takes the session out; what it had used is counted as `final.…` |
//! | `do = "sessions", instance = "office", simulate = { … }` | sessions beside the configured ones |
//! | `do = "jam", port = "n6", room = 2` | the port takes so many packets more, then none |
//! | `do = "show start"` | the case is about what the gateway sends when it starts |

use std::collections::BTreeMap;

use dataplane::forward::InstanceId;
use engine::Gateway as _;
use frame::Caps;
use gateway::shell::Sections as _;
use gateway_testkit::ports_of;
use serde::Deserialize as _;
use testkit::golden::{Counters, Subject};
use testkit::rig::{Clock, Memories, PortSpec, Rig};
use upf::assemble::assemble;
use upf::config::{Config, Simulate};
use upf::control::{Answer, Control};
use upf::gateway::UserPlane;
use upf::rules::{TunnelEnd, Usage};
use upf::simulate::Simulator;

/// A gateway, its control, and a clock.
pub struct Device {
    rig: Rig<UserPlane>,
    control: Control,
    config: Config,
    clock: Clock,
    /// Subscribers' sessions, by number.
    subscribers: Vec<Simulator>,
    /// What control asked for, and about whom.
    asked: BTreeMap<u64, u32>,
    /// Answers, counted.
    answered: BTreeMap<String, u64>,
    /// What it sent when it started, by port; and what had been counted then.
    start: Vec<(String, Vec<Vec<u8>>)>,
    before: Counters,
}

/// What a URR measured, by name.
fn named(usage: &Usage) -> [(&'static str, u64); 6] {
    [
        ("up_bytes", usage.up_bytes),
        ("up_packets", usage.up_packets),
        ("down_bytes", usage.down_bytes),
        ("down_packets", usage.down_packets),
        ("first_ns", usage.first_ns),
        ("last_ns", usage.last_ns),
    ]
}

impl Device {
    /// The user plane of a configuration, started: what it announces is put aside.
    pub fn new(config: Config) -> Result<Self, String> {
        let head = config.head();
        let ports = ports_of(&head.ports)?;
        let completes_udp6 = testkit::offloads::completes_udp6();
        let caps =
            |port: &PortSpec| Caps { kind: "memory", mac: port.mac, mtu: 1500, completes_udp6, ..Caps::default() };
        let caps: Vec<Caps> = ports.iter().map(caps).collect();
        let (control, seats) = assemble(&config, &caps).map_err(|error| error.to_string())?;
        let clock = Clock::at(0);
        let memory = Memories { slots: config.frames.packet_buffers, slot_bytes: config.frames.packet_buffer_bytes };
        let rig = Rig::among(seats, &ports, memory, &clock);
        let configured = control.simulator().cloned();
        let subscribers = configured.map_or(vec![], |s| vec![s.clone(); s.count() as usize]);
        let mut device = Self {
            rig,
            control,
            config,
            clock,
            subscribers,
            asked: BTreeMap::new(),
            answered: BTreeMap::new(),
            start: Vec::new(),
            before: Counters::default(),
        };
        device.settle();
        let names = device.ports();
        device.start = names.into_iter().map(|name| (name.clone(), device.collect(&name))).collect();
        device.before = device.all_counters();
        Ok(device)
    }

    /// The worker and its wires.
    pub fn rig(&mut self) -> &mut Rig<UserPlane> {
        &mut self.rig
    }

    /// Its control side, which the device polls between turns of its workers.
    pub fn control(&mut self) -> &mut Control {
        &mut self.control
    }

    /// Its configuration.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Its clock's time, in nanoseconds.
    pub fn now(&self) -> u64 {
        self.clock.now()
    }

    /// The worker a subscriber lives on, and its number there. Those beside the configured ones live on the first.
    fn place(&self, ue: u32) -> (u16, u32) {
        let configured = self.control.simulator().map_or(0, Simulator::count);
        if ue < configured { self.control.place(ue) } else { (0, ue) }
    }

    /// What all workers sent by a port.
    fn collect(&self, port: &str) -> Vec<Vec<u8>> {
        let workers = 0..self.rig.workers().count();
        workers.flat_map(|worker| self.rig.wire_of(worker, port).received()).collect()
    }

    fn instance(&self, name: &str) -> Result<InstanceId, String> {
        let names = self.config.instances();
        let at = names.iter().position(|n| n == name).ok_or(format!("no network instance {name}"))?;
        Ok(at as InstanceId)
    }

    /// Subscriber `ue`'s number among those of its simulator.
    fn index(&self, ue: u32) -> u32 {
        let configured = self.control.simulator().map_or(0, Simulator::count);
        if ue < configured { ue } else { ue - configured }
    }

    /// Sessions of a network instance, beside those of the configuration.
    fn add(&mut self, simulate: toml::Value, instance: &str) -> Result<(), String> {
        let simulate = Simulate::deserialize(simulate).map_err(|error| error.to_string())?;
        let instance = self.instance(instance)?;
        let simulator = Simulator::new(&simulate, 0, instance).map_err(|error| error.to_string())?;
        for ue in 0..simulator.count() {
            self.subscribers.push(simulator.clone());
            let last = self.subscribers.len() as u32 - 1;
            self.install(last, &simulator.session(ue, ue < simulate.idle))?;
        }
        Ok(())
    }

    /// Has the worker take in a session or new rules for it.
    pub fn install(&mut self, ue: u32, session: &upf::rules::Session) -> Result<(), String> {
        let (worker, handle) = self.place(ue);
        let number = self.control.install(worker, handle, session).map_err(|error| error.to_string())?;
        self.asked.insert(number, ue);
        Ok(())
    }

    /// New rules for a subscriber: those it was configured with, changed.
    fn rules(&mut self, ue: u32, idle: bool, change: Option<&toml::Value>) -> Result<(), String> {
        let simulator = self.subscribers.get(ue as usize).ok_or(format!("no subscriber {ue}"))?;
        let mut simulator = simulator.clone();
        if let Some(change) = change.and_then(toml::Value::as_table) {
            let mut table = toml::Table::try_from(simulator.config()).map_err(|error| error.to_string())?;
            table.extend(change.clone());
            let simulate = Simulate::deserialize(table).map_err(|error| error.to_string())?;
            simulator = Simulator::new(&simulate, 0, self.instance("core")?).map_err(|error| error.to_string())?;
        }
        self.install(ue, &simulator.session(self.index(ue), idle))
    }

    fn all_counters(&mut self) -> Counters {
        let mut counters = Counters::default();
        self.rig.all_stats().for_each(|stats| counters.add(&Counters::of(stats)));
        let mut put = |name: String, value: u64| {
            if value > 0 {
                *counters.gateway.entry(name).or_default() += value;
            }
        };
        for ue in 0..self.subscribers.len() as u32 {
            let (worker, handle) = self.place(ue);
            let sessions = self.rig.workers().nth(worker.into()).map(|worker| worker.gateway().sessions());
            for usage in sessions.and_then(|all| all.usage(handle, self.clock.now())).unwrap_or_default() {
                named(&usage).into_iter().for_each(|(name, v)| put(format!("usage.ue{ue}.urr{}.{name}", usage.urr), v));
            }
        }
        for worker in self.rig.workers() {
            for (port, seen) in self.rig.names().zip(worker.port_counters()) {
                let told_elsewhere = ["rx_packets", "rx_bytes", "tx_packets", "tx_bytes"];
                let lost = seen.named().into_iter().filter(|(name, _)| !told_elsewhere.contains(name));
                lost.for_each(|(name, value)| put(format!("port.{port}.{name}"), value));
            }
        }
        let control = self.control.counters();
        put("control.made".into(), control.made);
        put("control.removed".into(), control.removed);
        put("control.refused".into(), control.refused);
        put("control.error_indications".into(), control.error_indications);
        put("control.lost_tunnels".into(), control.lost_tunnels);
        for ue in 0..self.subscribers.len() as u32 {
            let (worker, handle) = self.place(ue);
            put(format!("error_indications.ue{ue}"), self.control.error_indications_of(worker, handle));
        }
        put("control.pages".into(), control.pages);
        put("control.published".into(), control.published);
        let blocks = self.control.nat_blocks();
        put("nat.given".into(), blocks.given);
        put("nat.ended".into(), blocks.ended);
        for nat in self.rig.workers().filter_map(|worker| worker.gateway().nat()) {
            put("nat.mappings".into(), nat.mappings() as u64);
            put("nat.blocks".into(), nat.blocks() as u64);
        }
        let rules: usize = self.config.acl.iter().map(|acl| acl.rules.len() + 1).sum();
        for rule in 0..rules as u32 {
            put(format!("acl.{rule}"), self.control.acl_hits(rule).0);
        }
        self.rig.workers().for_each(|worker| put("held".into(), worker.gateway().held() as u64));
        self.answered.iter().for_each(|(name, value)| put(name.clone(), *value));
        counters
    }

    fn take_answers(&mut self) {
        while let Some((number, answer)) = self.control.answer() {
            let ue = self.asked.remove(&number).unwrap_or(u32::MAX);
            match answer {
                Answer::Removed(usage) => {
                    for usage in usage {
                        for (name, value) in named(&usage) {
                            self.answered.insert(format!("final.ue{ue}.urr{}.{name}", usage.urr), value);
                        }
                    }
                }
                Answer::Refused(_) => *self.answered.entry(format!("refused.ue{ue}")).or_default() += 1,
                Answer::Unknown => *self.answered.entry(format!("unknown.ue{ue}")).or_default() += 1,
                Answer::Installed { .. } | Answer::Usage(_) => {}
            }
        }
    }
}

impl Subject for Device {
    fn start(config: &toml::Table) -> Result<Self, String> {
        let config = Config::deserialize(config.clone()).map_err(|error| error.to_string())?;
        Self::new(config)
    }

    fn ports(&self) -> Vec<String> {
        self.rig.ports().map(str::to_owned).collect()
    }

    fn turn_to(&mut self, now: u64) {
        self.clock.turn_to(now);
    }

    fn send(&mut self, port: &str, packet: &[u8]) {
        let last = self.rig.workers().count() - 1;
        self.rig.wire_of(last, port).send(packet);
    }

    fn step(&mut self, what: &toml::Table) -> Result<(), String> {
        let text = |key: &str| what.get(key).and_then(toml::Value::as_str);
        let ue = || what.get("ue").and_then(toml::Value::as_integer).map(|ue| ue as u32).ok_or("ue is missing");
        match text("do") {
            Some("sessions") => {
                let simulate = what.get("simulate").cloned().ok_or("simulate is missing")?;
                self.add(simulate, text("instance").unwrap_or("core"))
            }
            Some("rules") => {
                let idle = what.get("idle").and_then(toml::Value::as_bool).unwrap_or(false);
                self.rules(ue()?, idle, what.get("simulate"))
            }
            Some("relay") => {
                let address = text("to").and_then(|to| to.parse().ok()).ok_or("to is missing")?;
                let teid = what.get("teid").and_then(toml::Value::as_integer).ok_or("teid is missing")? as u32;
                let simulator = self.subscribers.get(ue()? as usize).ok_or("no such subscriber")?;
                let mut session = simulator.session(self.index(ue()?), false);
                for far in session.fars.iter_mut().filter(|far| far.tunnel.is_none()) {
                    (far.tunnel, far.instance) = (Some(TunnelEnd::gtpu(address, teid)), 0);
                }
                self.install(ue()?, &session)
            }
            Some("behind") => {
                let list = what.get("routes").and_then(toml::Value::as_array).ok_or("routes are missing")?;
                let prefix = |text: &toml::Value| text.as_str().and_then(upf::config::parse_prefix);
                let simulator = self.subscribers.get(ue()? as usize).ok_or("no such subscriber")?;
                let mut session = simulator.session(self.index(ue()?), false);
                session.routes = list.iter().filter_map(prefix).collect();
                self.install(ue()?, &session)
            }
            Some("more") => {
                let list = |key: &str| what.get(key).and_then(toml::Value::as_array).cloned().unwrap_or_default();
                let simulator = self.subscribers.get(ue()? as usize).ok_or("no such subscriber")?;
                let mut session = simulator.session(self.index(ue()?), false);
                for (id, rate) in (101..).zip(list("rates_up")) {
                    let up = rate.as_integer().map(|rate| rate as u64);
                    let mbr = upf::rules::Mbr { up, down: None };
                    session.qers.push(upf::rules::Qer {
                        id,
                        gate_up: true,
                        gate_down: true,
                        mbr,
                        ..Default::default()
                    });
                    session.pdrs.iter_mut().for_each(|pdr| pdr.qers.push(id));
                }
                for (id, quota) in (101..).zip(list("quotas")) {
                    let total = quota.as_integer().filter(|quota| *quota > 0).map(|quota| quota as u64);
                    let quota = upf::rules::Volumes { total, ..Default::default() };
                    session.urrs.push(upf::rules::Urr { id, quota, ..Default::default() });
                    session.pdrs.iter_mut().for_each(|pdr| pdr.urrs.push(id));
                }
                self.install(ue()?, &session)
            }
            Some("remove") => {
                let (worker, handle) = self.place(ue()?);
                let number = self.control.remove(worker, handle).map_err(|error| error.to_string())?;
                self.asked.insert(number, ue()?);
                Ok(())
            }
            Some("jam") => {
                let room = what.get("room").and_then(toml::Value::as_integer).map(|room| room as usize);
                let port = text("port").ok_or("port is missing")?;
                (0..self.rig.workers().count()).for_each(|worker| self.rig.wire_of(worker, port).limit(room));
                Ok(())
            }
            Some("show start") => {
                self.before = Counters::default();
                Ok(())
            }
            other => Err(format!("{other:?} is not known here")),
        }
    }

    fn settle(&mut self) {
        let control = &mut self.control;
        self.rig.settle(|_, now| {
            control.poll(now);
            false
        });
        self.take_answers();
    }

    fn received(&mut self, port: &str) -> Vec<Vec<u8>> {
        let mut packets = Vec::new();
        if self.before == Counters::default() {
            let start = self.start.iter_mut().find(|(name, _)| name == port);
            packets = start.map(|(_, packets)| std::mem::take(packets)).unwrap_or_default();
        }
        packets.extend(self.collect(port));
        packets
    }

    fn counters(&mut self) -> Counters {
        self.all_counters().since(&self.before)
    }

    fn close(self) -> Result<(), String> {
        self.rig.close()
    }
}
