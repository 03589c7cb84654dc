//! A whole broadband gateway between memory wires, with its control: what golden cases run. Where there are two workers,
//! groups are on them in turns, and packets come in by the queues of the last one.
//!
//! | step | what control does |
//! |---|---|
//! | `do = "install", handle = 9, c_vlan = 9, ipv4 = "100.64.0.19"` | installs a subscriber of the first group |
//! | `do = "remove", handle = 0` | takes a subscriber out |

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use access::Time;
use bng::assemble::{assemble, attach};
use bng::config::{Class, Config};
use bng::control::Control;
use bng::gateway::{BroadbandGateway, Report};
use bng::link::Line;
use bng::record::SubscriberSpec;
use bng::sessions::{Environment, Stored};
use engine::Gateway as _;
use frame::Caps;
use gateway::shell::Sections as _;
use gateway_testkit::ports_of;
use serde::Deserialize as _;
use testkit::golden::{Counters, Subject};
use testkit::rig::{Clock, Memories, PortSpec, Rig, host_services};

/// The wall clock when the other one shows 0, in ms.
const EPOCH: u64 = 1_700_000_000_000;

/// A gateway, its control, and a clock.
pub struct Device {
    pub rig: Rig<BroadbandGateway>,
    pub control: Control,
    pub clock: Clock,
    /// By how many milliseconds the wall clock was set.
    pub wall_set: Arc<AtomicI64>,
    before: Counters,
}

impl Device {
    pub fn new(config: &Config) -> Result<Self, String> {
        let head = config.head();
        let ports = ports_of(&head.ports)?;
        let caps = |(port, entry): (&PortSpec, &bng::config::Port)| {
            let host = host_services(entry.host_packets_per_second);
            Caps { kind: "memory", mac: port.mac, mtu: 1500, host, ..Caps::default() }
        };
        let caps: Vec<_> = ports.iter().zip(&config.port).map(caps).collect();
        let (mut control, mut workers) = assemble(config, &caps).map_err(|error| error.to_string())?;
        let clock = Clock::at(0);
        let (wall, wall_set) = (clock.clone(), Arc::new(AtomicI64::new(0)));
        let set = wall_set.clone();
        let wall = move || Time((EPOCH + wall.now() / 1_000_000).saturating_add_signed(set.load(Ordering::Relaxed)));
        let environment =
            Environment { clock: Box::new(wall), told: Box::new(|| {}), seed: 7, radius: None, goes_on: false };
        attach(config, &mut control, &mut workers, Stored::default(), environment)
            .map_err(|error| error.to_string())?;
        let memory = Memories { slots: config.frames.packet_buffers, slot_bytes: config.frames.packet_buffer_bytes };
        let rig = Rig::among(workers, &ports, memory, &clock);
        let mut device = Self { rig, control, clock, wall_set, before: Counters::default() };
        device.settle();
        // What it announces at the start is put aside.
        device.ports().iter().for_each(|port| drop(device.received(port)));
        device.before = device.all_counters();
        Ok(device)
    }

    fn all_counters(&mut self) -> Counters {
        let mut counters = Counters::default();
        self.rig.all_stats().for_each(|stats| counters.add(&Counters::of(stats)));
        let handles: Vec<_> = self.control.subscribers().map(|spec| spec.handle).collect();
        let into = &mut counters.gateway;
        let mut put = |name: String, value: u64| {
            if value > 0 {
                *into.entry(name).or_default() += value;
            }
        };
        for worker in self.rig.workers() {
            let mut report =
                Report { usage: handles.iter().map(|handle| (*handle, None)).collect(), ..Report::default() };
            report.fill(worker.gateway().state());
            for (handle, usage) in &report.usage {
                let Some(usage) = usage else { continue };
                for (way, packets, bytes) in
                    [("up", usage.up_packets, usage.up_bytes), ("down", usage.down_packets, usage.down_bytes)]
                {
                    for (family, n) in [("ipv4", 0), ("ipv6", 1)] {
                        put(format!("subscriber.{handle}.{way}.{family}.packets"), packets[n]);
                        put(format!("subscriber.{handle}.{way}.{family}.bytes"), bytes[n]);
                    }
                }
            }
            for class in Class::ALL {
                put(format!("class.{}.packets", class.name()), report.counts.punted[class as usize]);
                put(format!("class.{}.limited", class.name()), report.counts.limited[class as usize]);
            }
            put("learnt".into(), report.counts.learnt);
            put("held".into(), worker.gateway().held() as u64);
            if let Some(nat) = &worker.gateway().state().nat {
                put("nat.mappings".into(), nat.mappings() as u64);
                put("nat.blocks".into(), nat.blocks() as u64);
            }
        }
        let blocks = self.control.nat_blocks();
        put("nat.given".into(), blocks.given);
        put("nat.ended".into(), blocks.ended);
        put("control.refused".into(), self.control.refused());
        for packet in self.control.packets() {
            put(format!("control.{}", packet.class.name()), 1);
        }
        counters
    }
}

/// A case's configuration, with groups on workers in turns.
pub fn configured(config: &toml::Table) -> Result<Config, String> {
    let mut config = Config::deserialize(config.clone()).map_err(|error| error.to_string())?;
    // Each worker has the memory that one alone would have.
    config.frames.packet_buffers *= u32::from(config.workers.count);
    for (n, group) in config.group.iter_mut().enumerate() {
        group.worker = n as u16 % config.workers.count;
    }
    Ok(config)
}

impl Subject for Device {
    fn start(config: &toml::Table) -> Result<Self, String> {
        Self::new(&configured(config)?)
    }

    fn ports(&self) -> Vec<String> {
        self.rig.ports().map(str::to_owned).collect()
    }

    fn turn_to(&mut self, now: u64) {
        self.clock.turn_to(now);
    }

    fn send(&mut self, port: &str, packet: &[u8]) {
        self.rig.wire_of(self.rig.workers().count() - 1, port).send(packet);
    }

    fn step(&mut self, what: &toml::Table) -> Result<(), String> {
        let number = |key: &str| what.get(key).and_then(toml::Value::as_integer).unwrap_or(0);
        match what.get("do").and_then(toml::Value::as_str) {
            Some("install") => {
                let ipv4 = what.get("ipv4").and_then(toml::Value::as_str).ok_or("ipv4 is missing")?;
                let ipv4: Ipv4Addr = ipv4.parse().map_err(|_| "no address".to_owned())?;
                let spec = SubscriberSpec {
                    handle: number("handle") as u32,
                    line: Line { port: 0, s_vlan: 100, c_vlan: number("c_vlan") as u16 },
                    group: 0,
                    mac: Some(crate::golden_cases::SUB_MAC),
                    ipv4: Some(ipv4.into()),
                    wan: None,
                    pd: None,
                    profile: 0,
                    line_rate: Default::default(),
                };
                self.control.install(spec).map_err(|refusal| refusal.to_string())
            }
            Some("remove") => self.control.remove(number("handle") as u32).map_err(|refusal| refusal.to_string()),
            other => Err(format!("{other:?} is not known here")),
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
