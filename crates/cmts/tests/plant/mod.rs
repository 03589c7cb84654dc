//! A gateway in memory with the other sides that share nothing with it but the wire formats.

use std::net::{IpAddr, Ipv4Addr};

use cmts::assemble::{WorkerInit, assemble};
use cmts::config::Config;
use cmts::control::Control;
use cmts::gateway::CableGateway;
use engine::Io;
use frame::Caps;
use testkit::rig::{Clock, Memories, PortSpec, Rig};
use traffic::cable::{Cuts, Downstream, Group, Hosts, Mix, Modem, Plant, Upstream, Workload};
use wire::Mac;
use wire::l2tp::{Carrier, Cookie};
use wire::psp::Word;

/// Hardware addresses of the gateway's ports and of those at the far ends: devices, network.
pub const PORTS: [Mac; 2] = [Mac([2, 0, 0, 0, 0, 1]), Mac([2, 0, 0, 0, 1, 1])];
pub const FAR: [Mac; 2] = [Mac([2, 0, 0, 0, 0, 2]), Mac([2, 0, 0, 0, 1, 2])];

/// A configuration with `groups` service groups of `modems` modems each, four hosts behind each, and `more` appended.
pub fn config(groups: usize, modems: usize, encrypt: bool, more: &str) -> String {
    let mut text = format!(
        r#"
        gateway = "cmts"
        [frames]
        packet_buffers = 16384
        [queues]
        packets = 4096
        [[port]]
        name = "cin"
        uri = "memory:cin"
        role = "rpd"
        addresses = ["172.16.0.1/16"]
        [[port]]
        name = "nsi"
        uri = "memory:nsi"
        role = "network"
        addresses = ["198.18.0.254/24"]
        [[neighbour]]
        port = "nsi"
        address = "198.18.0.1"
        mac = "{}"
        [[filter_group]]
        name = "some"
        [[filter_group.rule]]
        priority = 7
        action = "deny"
        protocol = "udp"
        destination_ports = 666
        [[classifiers]]
        name = "three"
        "#,
        FAR[1]
    );
    for rule in 0..16u16 {
        let (port, flow) = (Workload::classifier_port(rule), Workload::classifier_class(rule));
        text += &format!("[[classifiers.rule]]\npriority = {}\nflow = \"f{flow}\"\nprotocol = \"udp\"\n", 100 - rule);
        text += &format!("destination_ports = {port}\n");
    }
    text += &format!(
        "[[profile]]\nname = \"home\"\nfilters_down = [\"some\"]\nfilters_up = [\"some\"]\nclassifiers = \"three\"\n\
         encrypt = {encrypt}\n"
    );
    for flow in 0..4 {
        text += &format!("[[profile.flow]]\nname = \"f{flow}\"\npriority = {flow}\n");
    }
    for g in 0..groups {
        text += &format!(
            r#"
            [[neighbour]]
            port = "cin"
            address = "172.16.{g}.2"
            mac = "{}"
            [[service_group]]
            name = "sg{g}"
            rpd = "172.16.{g}.2"
            mac = "02:00:00:00:02:01"
            [[service_group.channel]]
            name = "ofdm"
            count = 6
            capacity = "1.89 Gbit/s"
            session = {}
            [[service_group.bonding_group]]
            name = "a"
            channels = ["ofdm0..2"]
            [[service_group.bonding_group]]
            name = "b"
            channels = ["ofdm3..5"]
            [[service_group.upstream_channel]]
            session = {}
            count = 4
            capacity = "100 Mbit/s"
            [[service_group.upstream_channel]]
            session = {}
            carries = "requests"
            [[service_group.modem]]
            count = {modems}
            mac = "02:cb:00:0{g}:00:01"
            profile = "home"
            hosts = 4
            ipv4 = "10.{g}.0.1"
            host_mac = "02:ca:00:0{g}:00:01"
            sid = 1
            said = 257
            key = "000102030405060708090a0b0c0d0e{g:02x}"
            iv = "0f0e0d0c0b0a09080706050403020100"
            "#,
            FAR[0],
            0x1000 + g * 16,
            0x2000 + g * 16,
            0x3000 + g,
        );
    }
    text + more
}

/// What the other side knows of a configuration.
pub fn plant(config: &Config) -> Plant {
    let layout = config.layout().expect("a layout");
    let mut groups: Vec<_> = config
        .service_group
        .iter()
        .map(|group| Group {
            addresses: [
                Ipv4Addr::new(172, 16, 0, 1),
                match group.rpd {
                    IpAddr::V4(address) => address,
                    IpAddr::V6(_) => panic!("the plant speaks IPv4"),
                },
            ],
            downstream: Vec::new(),
            upstream: Vec::new(),
            requests: None,
            modems: Vec::new(),
        })
        .collect();
    for channel in &layout.channels {
        groups[usize::from(channel.service_group)].downstream.push(channel.session);
    }
    for wire in &layout.pseudowires {
        let group = &mut groups[usize::from(wire.service_group)];
        match wire.carries {
            cmts::upstream::Carries::Bursts => group.upstream.push(wire.session),
            cmts::upstream::Carries::Requests => group.requests = Some(wire.session),
        }
    }
    for modem in layout.modems {
        let hosts = modem.spec.hosts.iter().filter_map(|(address, mac)| match address {
            IpAddr::V4(address) => Some((*address, *mac)),
            IpAddr::V6(_) => None,
        });
        let keys = modem.spec.security.as_ref().map_or([None, None], |s| s.keys.map(|key| key.map(|(_, key)| key)));
        groups[usize::from(modem.spec.service_group)].modems.push(Modem {
            hosts: hosts.collect(),
            said: modem.spec.security.as_ref().map_or(0, |security| security.said),
            sid: modem.spec.clusters[0].sids[0],
            keys,
            sequence: 0,
        });
    }
    Plant {
        carrier: Carrier::Ip,
        cookies: [Cookie::None; 2],
        word: Word::Present,
        mtu: 1500,
        macs: [PORTS[0], FAR[0]],
        core_macs: [PORTS[1], FAR[1]],
        gateway: Mac([2, 0, 0, 0, 2, 1]),
        groups,
    }
}

/// Both far sides and the gateway between them.
pub struct World {
    pub rig: Rig<CableGateway>,
    pub control: Control,
    pub plant: Plant,
    pub device: Downstream,
    pub modems: Upstream,
    pub hosts: Hosts,
    /// What went to the devices, where somebody wants it.
    pub seen: Option<Vec<Vec<u8>>>,
    room: Vec<u8>,
}

pub const NOW: u64 = 1_000_000_000;

/// Workers before memory wires.
pub fn rig(config: &Config, seats: Vec<WorkerInit>, clock: &Clock) -> Rig<CableGateway> {
    let ports =
        config.port.iter().zip(PORTS).map(|(port, mac)| PortSpec { name: port.name.clone(), mac: mac.0, on: None });
    let ports: Vec<_> = ports.collect();
    Rig::among(seats, &ports, Memories { slots: config.frames.packet_buffers, slot_bytes: 2048 }, clock)
}

impl World {
    /// As configured; modems cut what they send so.
    pub fn new(text: &str, cuts: Cuts) -> Self {
        let config: Config = toml::from_str(text).expect("a configuration");
        let caps: Vec<_> = PORTS.iter().map(|mac| Caps { mac: mac.0, mtu: 1500, ..Caps::default() }).collect();
        let (control, seats) = assemble(&config, &caps).expect("a gateway");
        let rig = rig(&config, seats, &Clock::at(NOW));
        let plant = plant(&config);
        let mut world = Self {
            rig,
            control,
            device: Downstream::new(&plant, true),
            modems: Upstream::new(&plant, Workload::new(&Mix::upstream(), 300, false), cuts),
            hosts: Hosts::new(&plant, Workload::new(&Mix::downstream(), 300, true)),
            plant,
            seen: None,
            room: vec![0; 2048],
        };
        world.step(0);
        world
    }

    pub fn now(&self) -> u64 {
        self.rig.clock().now()
    }

    /// Sends so many packets to hosts behind modems.
    pub fn down(&mut self, packets: usize) {
        for _ in 0..packets {
            let len = self.hosts.make(&mut self.room, self.rig.clock().now());
            self.rig.wire("nsi").send(&self.room[..len]);
        }
    }

    /// Sends so many UEPI packets.
    pub fn up(&mut self, packets: usize) {
        for _ in 0..packets {
            let now = self.now();
            let packet = self.modems.next(now).expect("a packet");
            self.rig.wire("cin").send(packet);
        }
    }

    /// Lets `ns` nanoseconds pass and everything happen.
    pub fn step(&mut self, ns: u64) {
        let clock = self.rig.clock().clone();
        clock.turn_to(clock.now() + ns);
        self.control.poll(clock.now());
        self.rig.settle(|_, _| false);
        for worker in 0..self.rig.workers().count() {
            for packet in self.rig.wire_of(worker, "cin").received() {
                self.device.take(&packet, clock.now());
                self.seen.iter_mut().for_each(|seen| seen.push(packet.clone()));
            }
            for packet in self.rig.wire_of(worker, "nsi").received() {
                self.hosts.take(&packet, clock.now());
            }
        }
        self.device.settle(clock.now());
    }

    /// Lets time pass until nothing is held.
    pub fn rest(&mut self) {
        for _ in 0..200 {
            self.step(1_000_000);
        }
        let now = self.now();
        self.device.idle(now);
        self.device.idle(now + 20_000_000);
    }

    pub fn io(&self, what: Io) -> u64 {
        self.rig.all_stats().map(|stats| stats.io(what)).sum()
    }

    pub fn drops(&self) -> Vec<(String, engine::Reason<engine::Drop>, u64)> {
        self.rig.all_stats().flat_map(|s| s.drops()).map(|(stage, drop, packets, _)| (stage, drop, packets)).collect()
    }
}
