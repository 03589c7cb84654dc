//! What the configurations of all gateways have in common: plain data, and the error that names a key.

mod acl;
mod links;
mod log;
mod nat;
mod process;
mod vlan;

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use engine::Idle;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use acl::{ListRules, Otherwise};
pub use links::{Link, Links, MOST_HOST_PACKETS};
pub use log::{LOG_TARGETS, Log, LogFormat, LogLevel};
pub use nat::{Nat, NatPool};
pub use process::{ProcessSection, Seccomp};
pub use vlan::{VlanStack, VlanTag};

/// Threads that carry packets.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Workers {
    /// How many.
    pub count: u16,
    /// The CPU each is pinned to; empty: the kernel decides.
    pub cpus: Vec<usize>,
    /// What a worker does without packets: `"save"` sleeps at once, `"balanced"` first polls for up to `spin_us` while
    /// packets come that fast, `"latency"` never sleeps (a CPU of its own for each worker).
    pub idle: IdleMode,
    /// Microseconds a balanced worker polls for the next packet, at most.
    #[serde(deserialize_with = "quantity::read::microseconds::deserialize")]
    #[schemars(schema_with = "quantity::read::microseconds::schema")]
    pub spin_us: u32,
    /// The former name of `idle = "latency"`.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub poll: bool,
    /// Packets taken from a port at a time, 1 to 64.
    pub burst: usize,
}

impl Default for Workers {
    fn default() -> Self {
        Self { count: 1, cpus: Vec::new(), idle: IdleMode::default(), spin_us: 10, poll: false, burst: 64 }
    }
}

/// What a worker does without packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum IdleMode {
    /// Sleeps at once: the least CPU time.
    Save,
    /// Polls while packets follow each other within `spin_us`, else sleeps.
    #[default]
    Balanced,
    /// Never sleeps: the lowest latency.
    Latency,
}

impl Workers {
    /// How workers wait for packets.
    pub fn idle(&self) -> Idle {
        match self.idle {
            _ if self.poll => Idle::POLL,
            IdleMode::Latency => Idle::POLL,
            IdleMode::Save => Idle::SAVE,
            IdleMode::Balanced => Idle { spin: Duration::from_micros(self.spin_us.into()), ..Idle::BALANCED },
        }
    }

    /// Checks workers, and the memory they work in.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn check(&self, frames: &Frames) -> Result<(), ConfigError> {
        let workers = self;
        if workers.count == 0 {
            return Err(wrong(&[&"workers", &"count"], "no worker at all", "at least 1"));
        }
        if !workers.cpus.is_empty() && workers.cpus.len() != usize::from(workers.count) {
            let what = format!("{} CPUs for {} workers", workers.cpus.len(), workers.count);
            return Err(wrong(&[&"workers", &"cpus"], what, "name one CPU per worker, or leave the list out"));
        }
        if workers.spin_us > 1000 {
            let what = format!("polling for {} microseconds before each sleep", workers.spin_us);
            return Err(wrong(&[&"workers", &"spin_us"], what, "0 to 1000, or idle = \"latency\" to poll without end"));
        }
        if !(1..=64).contains(&workers.burst) {
            return Err(wrong(&[&"workers", &"burst"], "a burst has 1 to 64 packets", "leave it out for 64"));
        }
        if frames.packet_buffers < 1024 {
            let what = format!("{} packet buffers are fewer than 1024", frames.packet_buffers);
            return Err(wrong(&[&"frames", &"packet_buffers"], what, "at least 4096 per worker and port"));
        }
        if frames.packet_buffer_bytes < 1024 {
            let what = format!("{} bytes are too few for a packet", frames.packet_buffer_bytes);
            return Err(wrong(&[&"frames", &"packet_buffer_bytes"], what, "2048, or 4096 for jumbo frames"));
        }
        Ok(())
    }
}

/// Packet memory.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Frames {
    /// Packet buffers, all workers and ports together.
    #[serde(alias = "slots")]
    pub packet_buffers: u32,
    /// Bytes of a packet buffer, 262 of them headroom.
    #[serde(alias = "slot_bytes", deserialize_with = "quantity::read::bytes::deserialize")]
    #[schemars(schema_with = "quantity::read::bytes::schema")]
    pub packet_buffer_bytes: u16,
}

impl Default for Frames {
    fn default() -> Self {
        Self { packet_buffers: 16_384, packet_buffer_bytes: 2048 }
    }
}

/// A route. Several to one prefix share its packets: each flow, by its source and destination address, has one of their next
/// hops (ECMP), of those that answer.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Route {
    /// Destination prefix: `0.0.0.0/0`.
    pub to: String,
    /// The gateway, on the link of one of the instance's ports.
    #[serde(default, alias = "via")]
    pub next_hop: Option<IpAddr>,
    /// Instead: the port its packets leave by, one without link layer (`tun:`).
    #[serde(default)]
    pub port: Option<String>,
    /// The network instance; default: `core`.
    #[serde(default)]
    pub instance: Option<String>,
}

/// A neighbour that needs no resolving.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Neighbour {
    /// The port it is on.
    pub port: String,
    /// Its address.
    pub address: IpAddr,
    /// Its hardware address: `02:00:00:00:00:01`.
    pub mac: String,
    /// VLAN tags of frames to and from it, where they are not the port's: `200`, or `["0x88a8:100", 200]`; `[]`: none.
    #[serde(default)]
    pub vlan: Option<VlanStack>,
}

/// Numbers, health and readiness for a monitoring system, by HTTP, on the host's own network stack.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Metrics {
    /// Where to listen: `127.0.0.1:9464`. Whoever reaches it may read; nothing can be changed there.
    pub address: SocketAddr,
}

/// `/healthz` and `/readyz` by HTTP, on a listener of their own: whatever is done to `/metrics`, probes are answered.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Health {
    /// Where to listen: `0.0.0.0:9465`. Nothing can be changed there, and little is told.
    pub address: SocketAddr,
}

/// The machine's capacity certificate, which the running gateway compares itself with: headroom, and alarms.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CertificateSection {
    /// A certificate that `weir probe quick --json` wrote on a machine of this kind. It is read at the start.
    pub file: PathBuf,
    /// The public key that must have signed it: 64 hexadecimal digits. Left out: any key.
    #[serde(default)]
    pub trust: Option<String>,
}

/// The read-only HTTP API, on a listener of its own: the tables of `weir show` as JSON, described by `/openapi.json`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Api {
    /// Where to listen: `127.0.0.1:9466`. There is no authentication: all who reach it may read who is connected; nothing
    /// can be changed there.
    #[serde(default = "default_api")]
    pub address: SocketAddr,
    /// Whether `/api/v1/trace` and the page at `/` follow a subscriber's packets. They show contents of packets to all who
    /// reach the listener, and workers copy the packets they follow: at most 64 packets or 10 seconds, one trace at a time.
    #[serde(default)]
    pub trace: bool,
}

fn default_api() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 9466))
}

/// What is wrong with a configuration: where (a path of keys and list positions), what, and what would be right.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}: {what}; {help}", path.join("."))]
pub struct ConfigError {
    /// Keys and list positions from the top.
    pub path: Vec<String>,
    /// What is wrong.
    pub what: String,
    /// What would be right.
    pub help: String,
}

/// Shorthand for a [`ConfigError`].
pub fn wrong(path: &[&dyn ToString], what: impl Into<String>, help: impl Into<String>) -> ConfigError {
    ConfigError { path: path.iter().map(|s| s.to_string()).collect(), what: what.into(), help: help.into() }
}

/// An address with a prefix length.
pub fn parse_prefix(text: &str) -> Option<(IpAddr, u8)> {
    let (address, len) = text.split_once('/')?;
    let address: IpAddr = address.parse().ok()?;
    let len: u8 = len.parse().ok()?;
    (len <= if address.is_ipv4() { 32 } else { 128 }).then_some((address, len))
}

pub use quantity::bit_rate as parse_rate;

/// A hardware address.
pub fn parse_mac(text: &str) -> Option<[u8; 6]> {
    let mut mac = [0; 6];
    let mut parts = text.split(':');
    for byte in &mut mac {
        *byte = u8::from_str_radix(parts.next().filter(|p| p.len() == 2)?, 16).ok()?;
    }
    parts.next().is_none().then_some(mac)
}
