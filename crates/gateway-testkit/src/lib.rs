//! A [`Routed`] gateway with its control between memory ports: what golden cases of such a gateway run.
//!
//! Ports have the hardware address of their URI: `memory:access?mac=02:00:00:00:01:01`. Where there are several workers,
//! packets come in by the queues of the last one. Numbers of the gateway's report are counters by the name of its row (the
//! first text in it) and of the field: `10.1.0.0/16.packets`.
//!
//! A dependency of tests only; it may panic where a test should fail.

#![forbid(unsafe_code)]

use dataplane::config::parse_mac;
use frame::Caps;
use gateway::routed::{Control, Plane, Routed, RoutedGateway, assemble};
use gateway::shell::ports::{PortEntry, device_of};
use gateway::shell::{Gateway, Sections};
use serde::Deserialize;
use serde_json::Value;
use testkit::golden::{Counters, Subject};
use testkit::rig::{Clock, Memories, PortSpec, Rig};

/// A gateway, its control, and a clock.
pub struct Device<R: Routed> {
    rig: Rig<Plane<R>>,
    control: Control<R>,
    config: R::Config,
    clock: Clock,
    before: Counters,
}

/// A port's hardware address, as its URI says.
///
/// # Errors
/// What is wrong with the URI.
pub fn mac(uri: &str) -> Result<[u8; 6], String> {
    let uri: port::Uri = uri.parse().map_err(|error: port::PortError| error.to_string())?;
    parse_mac(uri.get("mac").unwrap_or("02:00:00:00:00:01")).ok_or_else(|| "no hardware address".to_owned())
}

/// The memory ports of a configuration, those that share a device on it.
///
/// # Errors
/// What is wrong with a URI.
pub fn ports_of(entries: &[PortEntry<'_>]) -> Result<Vec<PortSpec>, String> {
    let port = |(n, entry): (usize, &PortEntry<'_>)| {
        let device = device_of(entries, n);
        Ok(PortSpec {
            name: entry.name.to_owned(),
            mac: mac(entries[device].uri)?,
            on: (device != n).then_some(device),
        })
    };
    entries.iter().enumerate().map(port).collect()
}

impl<R: Routed> Device<R> {
    /// A gateway of that configuration at rest, its clock at 0.
    ///
    /// # Errors
    /// What is wrong with the configuration.
    pub fn new(config: R::Config) -> Result<Self, String> {
        RoutedGateway::<R>::check(&config).map_err(|error| error.to_string())?;
        let head = config.head();
        let ports = ports_of(&head.ports)?;
        let caps = |port: &PortSpec| Caps { kind: "memory", mac: port.mac, mtu: 1500, ..Caps::default() };
        let caps: Vec<_> = ports.iter().map(caps).collect();
        let (control, workers) = assemble::<R>(&config, &caps).map_err(|error| error.to_string())?;
        let (slots, slot_bytes) = (head.frames.packet_buffers, head.frames.packet_buffer_bytes);
        let clock = Clock::at(0);
        let rig = Rig::among(workers, &ports, Memories { slots, slot_bytes }, &clock);
        let mut device = Self { rig, control, config, clock, before: Counters::default() };
        device.settle();
        // What it announces at the start is put aside.
        device.ports().iter().for_each(|port| drop(device.received(port)));
        device.before = device.all_counters();
        Ok(device)
    }

    /// The rows of its report, all workers together.
    ///
    /// # Panics
    /// A worker does not answer.
    pub fn report(&mut self) -> Vec<R::Row> {
        self.control.ask_report(R::rows(&self.config));
        self.settle();
        self.control.take_report().expect("every worker answers")
    }

    fn all_counters(&mut self) -> Counters {
        let mut counters = Counters::default();
        self.rig.all_stats().for_each(|stats| counters.add(&Counters::of(stats)));
        for row in self.report() {
            let row = serde_json::to_value(row).expect("rows are plain data");
            let fields = row.as_object().into_iter().flatten();
            let name = fields.clone().find_map(|(_, value)| value.as_str()).unwrap_or("report");
            for (field, value) in fields.filter_map(|(field, value)| Some((field, Value::as_u64(value)?))) {
                if value > 0 {
                    counters.gateway.insert(format!("{name}.{field}"), value);
                }
            }
        }
        counters
    }
}

impl<R: Routed> Subject for Device<R> {
    fn start(config: &toml::Table) -> Result<Self, String> {
        Self::new(R::Config::deserialize(config.clone()).map_err(|error| error.to_string())?)
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
        Err(format!("control has no such step: {what}"))
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
