//! The workload's numbers, and the gateway that carries it.

use std::fmt::Write;
use std::net::Ipv4Addr;
use std::ops::Range;

use bng::config::Config;

use crate::error::BenchError;
use crate::profiles::{ACCESS_RULES, SettingError};

/// Names that `--set` takes.
pub const KEYS: &[&str] = &["subscribers", "endpoints", "size", "ratio", "acl", "police", "shape", "fill", "core_vlan"];

/// A workload's numbers; `--set` changes them by name.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// The experiment's name: `bng-600g`.
    pub profile: String,
    /// Subscribers.
    pub subscribers: u32,
    /// Hosts on the core link.
    pub endpoints: u32,
    /// Packet sizes in turns: Ethernet frames without tags and FCS, in bytes.
    pub sizes: Vec<u16>,
    /// Packets downlink for each one uplink.
    pub ratio: u32,
    /// Access lists of the profile and of the access location, whose rules every packet is held against and passes.
    pub acl: bool,
    /// Rates of the profile, enforced and never reached.
    pub police: bool,
    /// Downstream queues by class: every packet waits and is scheduled, but no rate is reached without `fill`.
    pub shape: bool,
    /// Packets that wait for each of one in twenty subscribers in the mean: outer VLANs are offered 1.3 times their rates,
    /// nearly all of it to those, and the buffer of the port, 10 ms of its rate, has room for just so many. 0, or without
    /// `shape`: no rate is reached.
    pub fill: u32,
    /// VLAN of the core link; none: untagged.
    pub core_vlan: Option<u16>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            profile: "bng-600g".to_owned(),
            subscribers: 256_000,
            endpoints: 254,
            sizes: vec![1400],
            ratio: 8,
            acl: true,
            police: true,
            shape: false,
            fill: 0,
            core_vlan: Some(7),
        }
    }
}

/// The mix of the other workloads.
const IMIX: [u16; 6] = [64, 128, 256, 512, 1024, 1400];
/// Inner VLANs of each outer one.
pub const LINES: u32 = 4000;
/// The first outer VLAN of a worker's group; the following are the next ones.
const FIRST_S: u32 = 100;

/// With [`Settings::fill`]: one subscriber in so many has packets that wait, and its outer VLAN is offered so many times its
/// rate.
pub(super) const BUSY: u32 = 20;
/// One packet in so many is to any subscriber, the others to those.
pub(super) const LIGHT: u32 = 40;
/// What the buffer of the port holds by what is to wait: a part of it is empty while the port catches up, once a millisecond,
/// and some subscribers have a packet that waits for its turn.
const ROOM: f64 = 1.08;
const OVERLOAD: f64 = 1.3;
/// What the buffer of a port holds if nothing is said: what it sends in a hundredth of a second.
const BUFFER: u64 = 100;
/// Bytes that a port's rate counts beside each frame.
const ON_WIRE: f64 = 24.0;
/// Bytes of tags of a frame to a subscriber.
const TAGS: f64 = 8.0;
/// Classes as they are by default, but none drops what has waited too long: nobody here slows down for it.
const FILLED: &str = r#"shape = { class = [
    { name = "voice", dscp = [40, 46, 48, 56] },
    { name = "video", dscp = [32, 34], weight = 4, target_us = "0" },
    { name = "best-effort", weight = 2, target_us = "0" },
    { name = "background", dscp = [8, 10], weight = 1, target_us = "0" },
] }"#;
/// What a configuration says of queues: of the tier, of each group, of all.
#[derive(Default)]
struct Queues {
    shape: &'static str,
    port: String,
    node: String,
    limits: String,
}

/// What fills queues: rates of the gateway, and of the packets offered to it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Filling {
    /// Bytes that may wait for the access port.
    pub buffer: u64,
    /// Rate of the access port, in bit/s.
    pub port: u64,
    /// Outer VLANs, and the rate of each in bit/s.
    pub nodes: u32,
    pub node: u64,
    /// Time between two packets, of both directions, in picoseconds of the gateway's clock.
    pub gap_ps: u64,
}

/// Packet buffers of a worker beside those of packets that wait.
const BUFFERS: u32 = 4096;

/// Hardware addresses: the gateway's towards subscribers and towards the core, and the first of the endpoints'.
pub const ACCESS_MAC: [u8; 6] = [2, 0, 0, 0, 0x0a, 1];
pub const GATEWAY_MAC: [u8; 6] = [2, 0, 0x5e, 0, 0, 1];
pub const CORE_MAC: [u8; 6] = [2, 0, 0, 0, 0x0c, 1];
/// The first endpoint, and the gateway's own address on their link.
pub const ENDPOINT: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 1);
const CORE: Ipv4Addr = Ipv4Addr::new(198, 18, 255, 254);

/// A subscriber's line and addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line {
    /// Outer VLAN.
    pub s_vlan: u16,
    /// Inner VLAN.
    pub c_vlan: u16,
    /// Hardware address.
    pub mac: [u8; 6],
    /// IPv4 address.
    pub address: u32,
}

impl Settings {
    /// Changes one number.
    ///
    /// # Errors
    /// Which names there are, or what is wrong with the value.
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), SettingError> {
        let fail = |why: &str| SettingError::Value { key: key.into(), value: value.into(), why: why.into() };
        let number = |range: Range<u32>| {
            let read = quantity::count(value).and_then(|count| u32::try_from(count).ok());
            let found = read.filter(|n| range.contains(n));
            found.ok_or_else(|| fail(&format!("a number of {} to {}", range.start, range.end - 1)))
        };
        let switch = || value.parse().map_err(|_| fail("true or false"));
        match key {
            "subscribers" => self.subscribers = number(1..4_000_001)?,
            "endpoints" => self.endpoints = number(1..60_001)?,
            "ratio" => self.ratio = number(1..1001)?,
            "size" if value == "imix" => self.sizes = IMIX.to_vec(),
            "size" => self.sizes = vec![number(60..1501)? as u16],
            "acl" => self.acl = switch()?,
            "police" => self.police = switch()?,
            "shape" => self.shape = switch()?,
            "fill" => self.fill = number(0..101)?,
            "core_vlan" => self.core_vlan = Some(number(0..4095)? as u16).filter(|id| *id != 0),
            _ => return Err(SettingError::Unknown(key.into(), KEYS.join(", "))),
        }
        Ok(())
    }

    /// Subscribers of a worker.
    pub fn users(&self, workers: u16, worker: u16) -> Range<u32> {
        let each = self.subscribers.div_ceil(workers.max(1).into()).max(1);
        let at = |n: u32| (n * each).min(self.subscribers);
        at(worker.into())..at(u32::from(worker) + 1)
    }

    /// Whether queues are filled.
    pub fn is_filled(&self) -> bool {
        self.shape && self.fill > 0
    }

    /// Packets that may wait, where queues are filled.
    pub fn waiting(&self) -> u32 {
        if self.is_filled() { self.subscribers.div_ceil(BUSY) * self.fill } else { 0 }
    }

    /// Packet buffers of a worker: the buffer of the port is to be full before they are.
    pub fn buffers(&self) -> u32 {
        self.waiting() + self.waiting() / 3 + BUFFERS
    }

    /// Rates where queues are filled; none: they are not.
    pub(super) fn filling(&self) -> Option<Filling> {
        let bytes = self.sizes.iter().map(|size| f64::from(*size) + TAGS).sum::<f64>() / self.sizes.len() as f64;
        let buffer = (f64::from(self.waiting()) * bytes * ROOM) as u64;
        let port = buffer * 8 * BUFFER;
        // All outer VLANs together carry a bit less than the port.
        let nodes = self.subscribers.div_ceil(LINES);
        let node = (port as f64 * bytes / (bytes + ON_WIRE) * 0.98 / f64::from(nodes)) as u64;
        let down = node as f64 * f64::from(nodes) * OVERLOAD / 8.0 / bytes;
        let ratio = f64::from(self.ratio);
        let gap_ps = (1e12 / (down * (ratio + 1.0) / ratio)) as u64;
        self.is_filled().then_some(Filling { buffer, port, nodes, node, gap_ps })
    }

    /// What a configuration says of queues.
    fn queues(&self) -> Queues {
        let Some(Filling { port, node, .. }) = self.filling() else {
            return Queues { shape: if self.shape { "shape = {}" } else { "" }, ..Queues::default() };
        };
        let packets = self.buffers() - BUFFERS;
        Queues {
            shape: FILLED,
            port: format!("rate = \"{port} bit/s\""),
            node: format!("s_vlan_rate = \"{node} bit/s\""),
            limits: format!("packets = {packets}\nbytes = {}", u64::from(packets) * 2048),
        }
    }

    /// Bits of a worker's slice of IPv4 addresses: at least a /16 each.
    fn slice_bits(&self, workers: u16) -> u32 {
        (32 - (self.users(workers, 0).len() as u32).leading_zeros()).max(16)
    }

    /// A subscriber's line, by its number among its worker's.
    pub fn line(&self, workers: u16, worker: u16, n: u32) -> Line {
        let outer = self.users(workers, 0).len() as u32;
        let group = FIRST_S + u32::from(worker) * outer.div_ceil(LINES);
        let first = (10 << 24) + (u32::from(worker) << self.slice_bits(workers));
        let user = (self.users(workers, worker).start + n).to_be_bytes();
        Line {
            s_vlan: (group + n / LINES) as u16,
            c_vlan: (1 + n % LINES) as u16,
            mac: [2, 0xca, user[0], user[1], user[2], user[3]],
            address: first + n,
        }
    }

    /// The gateway.
    ///
    /// # Errors
    /// When there are more groups than VLANs.
    pub fn config(&self, workers: u16) -> Result<Config, BenchError> {
        let mut text = String::from("gateway = \"bng\"\n");
        let vlan = self.core_vlan.map_or_else(String::new, |id| format!("vlan = {id}"));
        let (acl, rate) = (if self.acl { "acl = \"tier\"" } else { "" }, "up = \"100 Gbit/s\"\ndown = \"100 Gbit/s\"");
        let rate = if self.police { rate } else { "" };
        if self.is_filled() && workers > 1 {
            return Err(BenchError::Asked(format!(
                "--set fill={} with --workers {workers}: packets are offered by one worker's clock; allowed: 1",
                self.fill
            )));
        }
        let Queues { shape, port, node, limits } = self.queues();
        let buffers = self.buffers() * u32::from(workers);
        let _ = write!(
            text,
            r#"
            workers = {{ count = {workers} }}
            [frames]
            packet_buffers = {buffers}
            [queues]
            {limits}
            [[port]]
            name = "access"
            uri = "memory:access"
            role = "access"
            {port}
            [[port]]
            name = "core"
            uri = "memory:core"
            role = "core"
            addresses = ["{CORE}/16"]
            {vlan}
            [[profile]]
            name = "tier"
            {rate}
            {shape}
            {acl}
            [[acl]]
            name = "tier"
            rules = {ACCESS_RULES:?}
            [[acl]]
            name = "site"
            rules = {ACCESS_RULES:?}
            "#
        );
        for n in 0..self.endpoints {
            let address = Ipv4Addr::from(ENDPOINT.to_bits() + n);
            let mac = wire::Mac(endpoint_mac(n));
            let _ = write!(text, "[[neighbour]]\nport = \"core\"\naddress = \"{address}\"\nmac = \"{mac}\"\n");
        }
        let site = if self.acl { "acl = \"site\"" } else { "" };
        for worker in 0..workers {
            let users = self.users(workers, worker).len() as u32;
            let line = self.line(workers, worker, 0);
            let last = u32::from(line.s_vlan) + users.div_ceil(LINES).max(1) - 1;
            let prefix = 32 - self.slice_bits(workers);
            let first = Ipv4Addr::from(line.address);
            let _ = write!(
                text,
                r#"
                [[group]]
                name = "group{worker}"
                ports = ["access"]
                s_vlans = "{}-{last}"
                c_vlans = "1-{LINES}"
                ipv4 = ["{first}/{prefix}"]
                gateways = ["{}"]
                mac = "{}"
                worker = {worker}
                profile = "tier"
                {node}
                {site}
                [[subscriber]]
                group = "group{worker}"
                count = {users}
                mac = "{}"
                ipv4 = "{first}"
                "#,
                line.s_vlan,
                Ipv4Addr::from(line.address + (1 << self.slice_bits(workers)) - 2),
                wire::Mac(GATEWAY_MAC),
                wire::Mac(line.mac),
            );
        }
        toml::from_str(&text).map_err(|error| BenchError::Asked(error.to_string()))
    }
}

/// The hardware address of an endpoint.
pub(crate) fn endpoint_mac(n: u32) -> [u8; 6] {
    let [_, _, high, low] = n.to_be_bytes();
    [2, 0, 0, 0xee, high, low]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subscribers_have_the_lines_that_the_gateway_gives_them() {
        for (subscribers, workers) in [(1, 1), (9000, 1), (9001, 2)] {
            let settings = Settings { subscribers, ..Settings::default() };
            let config = settings.config(workers).unwrap();
            config.check().unwrap();
            let layout = config.layout().unwrap();
            assert_eq!(layout.subscribers.len() as u32, subscribers);
            for worker in 0..workers {
                let users = settings.users(workers, worker);
                for n in [0, users.len() as u32 / 2, users.len() as u32 - 1] {
                    let (line, spec) =
                        (settings.line(workers, worker, n), layout.subscribers[(users.start + n) as usize]);
                    assert_eq!((spec.line.s_vlan, spec.line.c_vlan), (line.s_vlan, line.c_vlan));
                    assert_eq!((spec.mac, spec.ipv4), (Some(line.mac), Some(line.address)));
                }
            }
        }
    }

    #[test]
    fn settings_refuse_what_they_do_not_know() {
        let mut settings = Settings::default();
        settings.set("size", "imix").unwrap();
        settings.set("subscribers", "40_000").unwrap();
        settings.set("subscribers", "40k").unwrap();
        assert_eq!((settings.sizes.len(), settings.subscribers), (6, 40_000));
        assert!(settings.set("size", "9").is_err() && settings.set("acl", "maybe").is_err());
        assert!(settings.set("ues", "9").unwrap_err().to_string().contains("subscribers, endpoints"));
    }
}
