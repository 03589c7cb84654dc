//! `[nat]` of every gateway that translates: many subscribers behind few public IPv4 addresses.

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;

use engine::Owner;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{ConfigError, Links, parse_prefix, wrong};
use crate::forward::InstanceId;
use crate::nat::{self, Misconfigured, Timeouts};

/// Translation of the network instances that have a pool: NAT44 with blocks of ports, as RFC 4787, 5382, 5508, 6888 and
/// 7857 want it.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Nat {
    /// Public addresses by network instance.
    pub pool: Vec<NatPool>,
    /// The first port given out.
    pub first_port: u16,
    /// Ports of a block: a multiple of 64 up to 4096.
    pub block_ports: u16,
    /// Blocks a subscriber may have.
    pub blocks_per_subscriber: u8,
    /// Seconds without a mapping after which a block is given back.
    #[serde(deserialize_with = "quantity::read::seconds::deserialize")]
    #[schemars(schema_with = "quantity::read::seconds::schema")]
    pub block_idle_seconds: u32,
    /// Seconds for which a block that was given back is not assigned again.
    #[serde(deserialize_with = "quantity::read::seconds::deserialize")]
    #[schemars(schema_with = "quantity::read::seconds::schema")]
    pub block_hold_seconds: u32,
    /// Seconds an established TCP connection may be silent.
    #[serde(deserialize_with = "quantity::read::seconds::deserialize")]
    #[schemars(schema_with = "quantity::read::seconds::schema")]
    pub tcp_seconds: u32,
    /// Seconds a TCP connection may take to open or to close.
    #[serde(deserialize_with = "quantity::read::seconds::deserialize")]
    #[schemars(schema_with = "quantity::read::seconds::schema")]
    pub tcp_opening_seconds: u32,
    /// Seconds UDP may be silent once answered.
    #[serde(deserialize_with = "quantity::read::seconds::deserialize")]
    #[schemars(schema_with = "quantity::read::seconds::schema")]
    pub udp_seconds: u32,
    /// Seconds UDP is waited for an answer to.
    #[serde(deserialize_with = "quantity::read::seconds::deserialize")]
    #[schemars(schema_with = "quantity::read::seconds::schema")]
    pub udp_unanswered_seconds: u32,
    /// Seconds an ICMP echo's identifier lives.
    #[serde(deserialize_with = "quantity::read::seconds::deserialize")]
    #[schemars(schema_with = "quantity::read::seconds::schema")]
    pub icmp_seconds: u32,
    /// Packets from outside keep a mapping alive too.
    pub refresh_from_outside: bool,
    /// Mappings a worker may have.
    pub mappings: usize,
    /// Subscribers a worker may have translated at a time.
    pub subscribers: usize,
    /// The file that gets a line for each block given out or taken back; left out: no log. While it is not writable, no
    /// block is given out.
    pub log: Option<PathBuf>,
    /// Milliseconds after which a line of the log is on the disk at the latest (`fdatasync`): what a power cut may cost. A
    /// crash of the process alone costs nothing.
    #[serde(deserialize_with = "quantity::read::milliseconds::deserialize")]
    #[schemars(schema_with = "quantity::read::milliseconds::schema")]
    pub log_sync_ms: u32,
    /// What ports are chosen by, for tests; left out: chance.
    pub seed: Option<u64>,
}

/// Public addresses of a network instance.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NatPool {
    /// The network instance; left out: `core`.
    #[serde(default)]
    pub instance: Option<String>,
    /// IPv4 addresses: `203.0.113.0/28`, all of them, or `203.0.113.1-203.0.113.9`. They are routed to us.
    pub addresses: String,
}

impl Default for Nat {
    fn default() -> Self {
        let (usual, lives) = (nat::Config::default(), Timeouts::default());
        Self {
            pool: Vec::new(),
            first_port: usual.first_port,
            block_ports: usual.block_ports,
            blocks_per_subscriber: usual.blocks_per_subscriber,
            block_idle_seconds: usual.block_idle,
            block_hold_seconds: usual.block_hold,
            tcp_seconds: lives.tcp_established,
            tcp_opening_seconds: lives.tcp_transitory,
            udp_seconds: lives.udp,
            udp_unanswered_seconds: lives.udp_unanswered,
            icmp_seconds: lives.icmp,
            refresh_from_outside: usual.refresh_from_outside,
            mappings: usual.mappings,
            subscribers: usual.subscribers,
            log: None,
            log_sync_ms: 1000,
            seed: None,
        }
    }
}

/// First and last address.
fn range(text: &str) -> Option<(Ipv4Addr, Ipv4Addr)> {
    if let Some((first, last)) = text.split_once('-') {
        let (first, last) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        return (first <= last).then_some((first, last));
    }
    match parse_prefix(text)? {
        (IpAddr::V4(address), len @ 8..) => {
            let mask = u32::MAX >> len.min(31) >> (len / 32);
            let first = u32::from(address) & !mask;
            Some((first.into(), (first | mask).into()))
        }
        _ => None,
    }
}

fn name<'a>(links: &Links<'a>, pool: &'a NatPool) -> &'a str {
    pool.instance.as_deref().unwrap_or(links.instance)
}

/// The network instance a pool is of; none: there is no such one.
fn instance(links: &Links<'_>, pool: &NatPool) -> Option<InstanceId> {
    let name = name(links, pool);
    links.instances.iter().position(|known| known == name).map(|n| n as InstanceId) // a handful
}

impl NatPool {
    /// First and last address; none: they are no addresses.
    pub fn range(&self) -> Option<(Ipv4Addr, Ipv4Addr)> {
        range(&self.addresses)
    }
}

impl Nat {
    /// Public addresses, first and last, with the numbers of their VRFs among those links.
    pub fn ranges(&self, links: &Links<'_>) -> Vec<(InstanceId, (Ipv4Addr, Ipv4Addr))> {
        self.pool.iter().filter_map(|pool| Some((instance(links, pool)?, pool.range()?))).collect()
    }

    /// What the stages are configured with, among those links. `seed`: what is chosen by where no seed is configured.
    pub fn stage(&self, links: &Links<'_>, seed: u128) -> nat::Config {
        let pool = |pool: &NatPool| {
            let (first, last) = range(&pool.addresses)?;
            Some(nat::Pool { instance: instance(links, pool)?, first, last })
        };
        nat::Config {
            pools: self.pool.iter().filter_map(pool).collect(),
            first_port: self.first_port,
            block_ports: self.block_ports,
            blocks_per_subscriber: self.blocks_per_subscriber,
            block_idle: self.block_idle_seconds,
            block_hold: self.block_hold_seconds,
            timeouts: Timeouts {
                tcp_established: self.tcp_seconds,
                tcp_transitory: self.tcp_opening_seconds,
                udp_unanswered: self.udp_unanswered_seconds,
                udp: self.udp_seconds,
                icmp: self.icmp_seconds,
            },
            refresh_from_outside: self.refresh_from_outside,
            mappings: self.mappings,
            subscribers: self.subscribers,
            seed: self.seed.map_or(seed, u128::from),
            ..nat::Config::default()
        }
    }

    /// Checks all but that no subscriber has a public address of a pool.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn check(&self, links: &Links<'_>, workers: Owner) -> Result<(), ConfigError> {
        if self.pool.is_empty() {
            let help = "write [[nat.pool]] with addresses = \"203.0.113.0/28\", or take [nat] out";
            return Err(wrong(&[&"nat", &"pool"], "no public address", help));
        }
        for (n, pool) in self.pool.iter().enumerate() {
            let Some(instance) = instance(links, pool) else {
                let what = format!("no port is in network instance \"{}\"", name(links, pool));
                let help = format!("one of {}", links.instances.join(", "));
                return Err(wrong(&[&"nat", &"pool", &n, &"instance"], what, help));
            };
            let at = |what: String, help: &str| Err(wrong(&[&"nat", &"pool", &n, &"addresses"], what, help));
            let Some((first, last)) = range(&pool.addresses) else {
                let what = format!("\"{}\" are no IPv4 addresses", pool.addresses);
                return at(what, "such as 203.0.113.0/28 or 203.0.113.1-203.0.113.9");
            };
            for port in links
                .ports
                .iter()
                .filter(|port| links.instances.get(usize::from(instance)).is_some_and(|name| name == port.instance))
            {
                for text in port.addresses {
                    let Some((IpAddr::V4(ours), len)) = parse_prefix(text) else { continue };
                    let link = range(&format!("{ours}/{}", len.max(8)));
                    if link.is_some_and(|(from, to)| first <= to && from <= last) {
                        let what = format!("{} are on the link of port \"{}\"", pool.addresses, port.name);
                        return at(what, "addresses that the routers beyond it send to us");
                    }
                }
            }
        }
        for (key, seconds, least) in [
            ("tcp_seconds", self.tcp_seconds, 1),
            ("tcp_opening_seconds", self.tcp_opening_seconds, 1),
            ("udp_seconds", self.udp_seconds, 1),
            ("udp_unanswered_seconds", self.udp_unanswered_seconds, 1),
            ("icmp_seconds", self.icmp_seconds, 1),
        ] {
            if seconds < least {
                return Err(wrong(&[&"nat", &key], "a mapping that does not live", "leave it out"));
            }
        }
        self.stage(links, 1).check(workers).map_err(|why| {
            let (key, help) = match why {
                Misconfigured::BlockPorts => ("block_ports", "leave it out for 512"),
                Misconfigured::FirstPort => ("first_port", "leave it out for 1024"),
                Misconfigured::NoBlocks => ("blocks_per_subscriber", "leave it out for 4"),
                Misconfigured::Pools => ("pool", "give each its own addresses"),
                Misconfigured::TooFewAddresses => ("pool", "more addresses, or fewer [workers]"),
                Misconfigured::TooMany => ("mappings", "fewer, or fewer addresses"),
            };
            wrong(&[&"nat", &key], why.to_string(), help)
        })
    }
}
