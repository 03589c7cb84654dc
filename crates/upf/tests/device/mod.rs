//! A whole user plane of one worker between memory wires: what the tests here run.

use engine::Gateway as _;
use frame::Caps;
use port::Uri;
use serde::Deserialize as _;
use stages::forward::InstanceId;
use testkit::golden::{Counters, Subject};
use testkit::rig::{Clock, Memories, PortSpec, Rig};
use upf::assemble::{Seat, assemble};
use upf::config::{Config, Simulate};
use upf::control::Control;
use upf::gateway::UserPlane;
use upf::simulate::Simulator;

/// A gateway, its control, and a clock.
pub struct Device {
    rig: Rig<UserPlane>,
    control: Control,
    config: Config,
    clock: Clock,
    /// Handles given out.
    handles: u32,
}

/// A port's hardware address, as its URI says.
fn mac(uri: &str) -> Result<[u8; 6], String> {
    let uri: Uri = uri.parse().map_err(|error: port::PortError| error.to_string())?;
    let mac = uri.get("mac").unwrap_or("02:00:00:00:00:01");
    upf::config::parse_mac(mac).ok_or_else(|| format!("{mac} is no hardware address"))
}

impl Device {
    /// The user plane of a configuration.
    pub fn new(config: Config) -> Result<Self, String> {
        let spec = |port: &upf::config::Port| Ok(PortSpec { name: port.name.clone(), mac: mac(&port.uri)? });
        let ports = config.port.iter().map(spec).collect::<Result<Vec<_>, String>>()?;
        let caps = |port: &PortSpec| Caps { kind: "memory", mac: port.mac, mtu: 1500, ..Caps::default() };
        let caps: Vec<Caps> = ports.iter().map(caps).collect();
        let (control, mut seats) = assemble(&config, &caps).map_err(|error| error.to_string())?;
        let Some(Seat { plane, layout }) = seats.pop().filter(|_| seats.is_empty()) else {
            return Err("tests run one worker".into());
        };
        let clock = Clock::at(0);
        let memory = Memories { slots: config.frames.slots, slot_bytes: config.frames.slot_bytes };
        let rig = Rig::new(plane, layout, &ports, memory, &clock);
        let handles = config.simulate.as_ref().map_or(0, |simulate| simulate.ues);
        Ok(Self { rig, control, config, clock, handles })
    }

    /// The worker and its wires.
    pub fn rig(&mut self) -> &mut Rig<UserPlane> {
        &mut self.rig
    }

    fn instance(&self, name: &str) -> Result<InstanceId, String> {
        let names = self.config.instances();
        let at = names.iter().position(|n| n == name).ok_or(format!("no network instance {name}"))?;
        Ok(at as InstanceId)
    }

    /// Sessions of a network instance, beside those of the configuration.
    fn add(&mut self, simulate: &Simulate, instance: &str) -> Result<(), String> {
        let instance = self.instance(instance)?;
        let simulator = Simulator::new(simulate, 0, instance).map_err(|error| error.to_string())?;
        for ue in 0..simulator.count() {
            let session = simulator.session(ue, ue < simulate.idle);
            let handle = self.handles;
            self.handles += 1;
            self.install(handle, &session)?;
        }
        Ok(())
    }

    /// Puts a session in place, or replaces its rules.
    pub fn install(&mut self, handle: u32, session: &upf::rules::Session) -> Result<(), String> {
        let control = &mut self.control;
        let compiled = upf::compile::compile(session, handle, &mut |instance, to| control.tunnel(instance, to));
        let compiled = compiled.map_err(|error| error.to_string())?;
        control.publish();
        let now = self.clock.now();
        let sessions = self.rig.gateway_mut().sessions_mut();
        sessions.install(handle, &compiled, now).map_err(|error| error.to_string())
    }

    fn usage(&self, counters: &mut Counters) {
        for handle in 0..self.handles {
            for usage in self.rig.gateway().sessions().usage(handle).unwrap_or_default() {
                let values = [
                    ("up_bytes", usage.up_bytes),
                    ("up_packets", usage.up_packets),
                    ("down_bytes", usage.down_bytes),
                    ("down_packets", usage.down_packets),
                    ("first_ns", usage.first_ns),
                    ("last_ns", usage.last_ns),
                ];
                for (name, value) in values.into_iter().filter(|(_, value)| *value > 0) {
                    counters.gateway.insert(format!("usage.ue{handle}.urr{}.{name}", usage.urr), value);
                }
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
        self.rig.wire(port).send(packet);
    }

    fn step(&mut self, what: &toml::Table) -> Result<(), String> {
        let text = |key: &str| what.get(key).and_then(toml::Value::as_str);
        match text("do") {
            Some("sessions") => {
                let simulate = what.get("simulate").cloned().ok_or("sessions, but no simulate")?;
                let simulate = Simulate::deserialize(simulate).map_err(|error| error.to_string())?;
                self.add(&simulate, text("instance").unwrap_or("core"))
            }
            other => Err(format!("{other:?} is not known here")),
        }
    }

    fn settle(&mut self) {
        self.rig.settle(|_, _| false);
    }

    fn received(&mut self, port: &str) -> Vec<Vec<u8>> {
        self.rig.wire(port).received()
    }

    fn counters(&mut self) -> Counters {
        let mut counters = Counters::of(self.rig.stats());
        self.usage(&mut counters);
        let held = self.rig.gateway().held() as u64;
        if held > 0 {
            counters.gateway.insert("held".into(), held);
        }
        counters
    }

    fn close(self) -> Result<(), String> {
        self.rig.close()
    }
}
