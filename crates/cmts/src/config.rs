//! Configuration of a cable gateway. Plain data; [`Config::check`] reports what is invalid, by key.

mod check;
mod expand;
mod rule;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;

pub use dataplane::config::{ConfigError, parse_mac, parse_prefix, parse_rate, wrong};
use dataplane::forward::InstanceId;
use gateway::shell::PortSection;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use expand::{ChannelPlan, Layout, Named, WrongFlow};
pub use rule::{Ports, Protocol, RuleEntry, rules};

gateway::configuration! {
    /// A cable gateway's configuration.
    pub struct Config of Port, routes "`instance` is `network`, the default, `rpd`, or one that ports are in" {
        /// Packets that wait.
        #[serde(default)]
        pub queues: Queues,
        /// Packets to Remote-PHY devices.
        #[serde(default)]
        pub depi: DepiSection,
        /// Bursts from them.
        #[serde(default)]
        pub upstream: UpstreamSection,
        /// A second process that goes on when this one stops.
        #[serde(default)]
        pub standby: Option<StandbySection>,
        /// What becomes of packets that no rule of a modem's filter groups matches.
        #[serde(default)]
        pub filter_default: Action,
        /// Filter groups.
        #[serde(default)]
        pub filter_group: Vec<FilterGroup>,
        /// Sets of classifiers.
        #[serde(default)]
        pub classifiers: Vec<Classifiers>,
        /// What modems are given.
        #[serde(default)]
        pub profile: Vec<Profile>,
        /// Service groups: a Remote-PHY device each.
        #[serde(default)]
        pub service_group: Vec<ServiceGroup>,
    }
}

/// Which side of the gateway a port is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Towards Remote-PHY devices: the converged interconnect network.
    Rpd,
    /// Towards the operator's network: the network side interface.
    Network,
}

impl Role {
    /// The routing domain of its ports, if they name none of their own.
    pub const fn instance(self) -> InstanceId {
        match self {
            Role::Rpd => 0,
            Role::Network => 1,
        }
    }

    /// What the configuration calls it, and its routing domain.
    pub const fn name(self) -> &'static str {
        match self {
            Role::Rpd => "rpd",
            Role::Network => "network",
        }
    }
}

gateway::port_section! {
    /// An interface.
    pub struct Port {
        /// Its side.
        pub role: Role,
        /// The network instance it is in, with routes of its own; left out: `network`, or `rpd` by its role. Only of ports
        /// towards the network.
        #[serde(default)]
        pub instance: Option<String>,
    }
}

impl PortSection for Port {
    fn role(&self) -> &'static str {
        self.role.name()
    }

    fn instance(&self) -> &str {
        self.instance()
    }
}

impl Port {
    /// The network instance it is in.
    pub fn instance(&self) -> &str {
        self.instance.as_deref().unwrap_or(self.role.name())
    }
}

/// Packets that wait in service flows, per worker.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Queues {
    /// Packets that may wait, all service flows together; they take packet buffers of `[frames]`.
    pub packets: usize,
    /// Microseconds of work a channel is given ahead.
    #[serde(deserialize_with = "quantity::read::microseconds::deserialize")]
    #[schemars(schema_with = "quantity::read::microseconds::schema")]
    pub ahead_us: u64,
    /// Largest IP packet towards modems.
    pub mtu: u32,
}

impl Default for Queues {
    fn default() -> Self {
        Self { packets: 8192, ahead_us: 250, mtu: 1500 }
    }
}

/// Packets to Remote-PHY devices.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct DepiSection {
    /// Microseconds a packet may wait to be filled.
    #[serde(deserialize_with = "quantity::read::microseconds::deserialize")]
    #[schemars(schema_with = "quantity::read::microseconds::schema")]
    pub hold_us: u64,
    /// Segments of a packet at most, 1 to 16.
    pub segments: usize,
    /// Type of service of the packets.
    pub tos: u8,
    /// The word behind the table of segments: `observed`, `none`, or a number such as `0x0010`.
    pub channel_word: String,
}

impl Default for DepiSection {
    fn default() -> Self {
        Self { hold_us: 50, segments: 8, tos: 0x10, channel_word: "observed".into() }
    }
}

/// Bursts from Remote-PHY devices.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct UpstreamSection {
    /// Milliseconds a segment waits for earlier ones.
    #[serde(deserialize_with = "quantity::read::milliseconds::deserialize")]
    #[schemars(schema_with = "quantity::read::milliseconds::schema")]
    pub wait_ms: u64,
    /// Verify the CRC of every frame.
    pub verify_crc: bool,
    /// Bytes of a grant.
    #[serde(deserialize_with = "quantity::read::bytes::deserialize")]
    #[schemars(schema_with = "quantity::read::bytes::schema")]
    pub grant_bytes: u32,
    /// Bytes of a unit in requests.
    pub request_unit: u32,
}

impl Default for UpstreamSection {
    fn default() -> Self {
        Self { wait_ms: 18, verify_crc: false, grant_bytes: 2048, request_unit: 16 }
    }
}

/// A standby: `weir run --standby` with the same configuration, on the same machine.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StandbySection {
    /// Where the active gateway waits for it.
    pub socket: PathBuf,
    /// Milliseconds between two tellings of where numbers stand.
    #[serde(default = "interval", deserialize_with = "quantity::read::milliseconds::deserialize")]
    #[schemars(schema_with = "quantity::read::milliseconds::schema")]
    pub interval_ms: u64,
    /// Milliseconds of silence after which the active is taken for dead; a process that ends is dead at once.
    #[serde(default = "silence", deserialize_with = "quantity::read::milliseconds::deserialize")]
    #[schemars(schema_with = "quantity::read::milliseconds::schema")]
    pub silence_ms: u64,
}

fn interval() -> u64 {
    20
}

fn silence() -> u64 {
    500
}

/// What a filter does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Action {
    /// Lets the packet pass.
    #[default]
    Permit,
    /// Drops it.
    Deny,
}

/// A filter group (DOCS-SUBMGT3-MIB).
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FilterGroup {
    /// What profiles call it.
    pub name: String,
    /// Its rules.
    #[serde(default)]
    pub rule: Vec<RuleEntry>,
}

/// A set of classifiers.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Classifiers {
    /// What profiles call it.
    pub name: String,
    /// Its rules.
    #[serde(default)]
    pub rule: Vec<RuleEntry>,
}

/// Settings that every modem of a profile has.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// What modems call it.
    pub name: String,
    /// Filter groups downstream, at most four; modem `n` is given two by turns where more are named with `by_turns`.
    #[serde(default)]
    pub filters_down: Vec<String>,
    /// Filter groups upstream, at most four.
    #[serde(default)]
    pub filters_up: Vec<String>,
    /// The set of classifiers.
    #[serde(default)]
    pub classifiers: Option<String>,
    /// Frames are encrypted, AES-128.
    #[serde(default)]
    pub encrypt: bool,
    /// Type of service overwrite upstream: bits kept, bits set.
    #[serde(default)]
    pub tos: Option<[u8; 2]>,
    /// Downstream service flows, the primary first.
    #[serde(default)]
    pub flow: Vec<FlowEntry>,
}

/// A downstream service flow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct FlowEntry {
    /// What classifiers call it.
    pub name: String,
    /// Maximum sustained rate: `"100 Mbit/s"`.
    #[schemars(schema_with = "quantity::read::optional_rate_schema")]
    pub rate: Option<String>,
    /// Maximum traffic burst, in bytes.
    #[serde(deserialize_with = "quantity::read::bytes::deserialize")]
    #[schemars(schema_with = "quantity::read::bytes::schema")]
    pub burst: u64,
    /// Peak rate.
    #[schemars(schema_with = "quantity::read::optional_rate_schema")]
    pub peak: Option<String>,
    /// Minimum reserved rate.
    #[schemars(schema_with = "quantity::read::optional_rate_schema")]
    pub reserved: Option<String>,
    /// Traffic priority, 0 to 7.
    pub priority: u8,
    /// The bonding group; left out: the modems are spread over all of their service group.
    pub group: Option<String>,
    /// Bytes its queue holds at most.
    #[serde(deserialize_with = "quantity::read::bytes::deserialize")]
    #[schemars(schema_with = "quantity::read::bytes::schema")]
    pub buffer: u32,
    /// Active queue management (DOCSIS-PIE).
    pub aqm: bool,
    /// Its target, in milliseconds.
    #[serde(deserialize_with = "quantity::read::milliseconds::deserialize")]
    #[schemars(schema_with = "quantity::read::milliseconds::schema")]
    pub aqm_target_ms: u64,
    /// Its packets are numbered, for modems to put them in order again; off only on a group of one channel.
    pub bonded: bool,
}

impl Default for FlowEntry {
    fn default() -> Self {
        Self {
            name: String::new(),
            rate: None,
            burst: dataplane::hqos::DEFAULT_BURST,
            peak: None,
            reserved: None,
            priority: 0,
            group: None,
            buffer: 256 * 1024,
            aqm: false,
            aqm_target_ms: 10,
            bonded: true,
        }
    }
}

/// What carries L2TPv3.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Carrier {
    /// IP protocol 115.
    #[default]
    Ip,
    /// UDP port 1701.
    Udp,
}

/// A service group: a Remote-PHY device and the modems behind it.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ServiceGroup {
    /// Its name.
    pub name: String,
    /// The device's address.
    pub rpd: IpAddr,
    /// What carries its pseudowires.
    #[serde(default)]
    pub carrier: Carrier,
    /// The network instance that what its modems send is forwarded in: a service group with ports of its own towards
    /// the network is in theirs. Left out: `network`. Its hosts' addresses are the gateway's, whatever the instance:
    /// no two groups may have the same.
    #[serde(default)]
    pub instance: Option<String>,
    /// The worker that sees to its downstream.
    #[serde(default)]
    pub down_worker: u16,
    /// The worker that sees to its upstream; left out: the same.
    #[serde(default)]
    pub up_worker: Option<u16>,
    /// Our hardware address towards hosts behind its modems.
    #[serde(default)]
    pub mac: Option<String>,
    /// Downstream channels.
    #[serde(default)]
    pub channel: Vec<ChannelEntry>,
    /// Bonding groups; none: one of all channels.
    #[serde(default)]
    pub bonding_group: Vec<BondingGroup>,
    /// Upstream pseudowires.
    #[serde(default)]
    pub upstream_channel: Vec<UpstreamChannel>,
    /// Modems, by patterns.
    #[serde(default)]
    pub modem: Vec<ModemEntry>,
}

impl ServiceGroup {
    /// The network instance of what its modems send.
    pub fn instance(&self) -> &str {
        self.instance.as_deref().unwrap_or(Role::Network.name())
    }
}

/// Downstream channels of one kind.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ChannelEntry {
    /// Its name; of several, channel `n` has the number behind it.
    pub name: String,
    /// How many.
    #[serde(default = "one")]
    pub count: u16,
    /// Bits a second that it carries: `"1.89 Gbit/s"` for OFDM, `"42.24 Mbit/s"` for SC-QAM.
    #[schemars(schema_with = "quantity::read::rate_schema")]
    pub capacity: String,
    /// The device's L2TPv3 session of the first; the others' follow.
    pub session: u32,
    /// The cookie the device wants to see: 8 or 16 hexadecimal digits.
    #[serde(default)]
    pub cookie: Option<String>,
}

fn one() -> u16 {
    1
}

/// Channels that packets of a service flow are spread over.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BondingGroup {
    /// Its name.
    pub name: String,
    /// Its channels' names; `ofdm0..2` are three.
    pub channels: Vec<String>,
}

/// What an upstream pseudowire carries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Carries {
    /// Bursts.
    #[default]
    Bursts,
    /// Bandwidth requests.
    Requests,
}

/// Upstream pseudowires of one kind.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct UpstreamChannel {
    /// Our L2TPv3 session of the first; the others' follow.
    pub session: u32,
    /// How many.
    #[serde(default = "one")]
    pub count: u16,
    /// What they carry.
    #[serde(default)]
    pub carries: Carries,
    /// Bits a second to be granted on each.
    #[serde(default)]
    #[schemars(schema_with = "quantity::read::optional_rate_schema")]
    pub capacity: Option<String>,
    /// The cookie the device shows: 8 or 16 hexadecimal digits.
    #[serde(default)]
    pub cookie: Option<String>,
}

/// Modems by pattern: modem `i` has the first of everything plus `i` (or plus `i` times `hosts`).
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ModemEntry {
    /// How many.
    #[serde(default = "one")]
    pub count: u16,
    /// The first modem's hardware address.
    pub mac: String,
    /// What they are given.
    pub profile: String,
    /// Hosts behind each.
    #[serde(default = "one")]
    pub hosts: u16,
    /// IPv4 address of the first host of the first modem.
    #[serde(default)]
    pub ipv4: Option<Ipv4Addr>,
    /// IPv6 address of the first host of the first modem.
    #[serde(default)]
    pub ipv6: Option<Ipv6Addr>,
    /// Hardware address of the first host of the first modem; multicast groups have their own.
    #[serde(default)]
    pub host_mac: Option<String>,
    /// The first modem's service identifier; 0: nothing comes from them.
    #[serde(default)]
    pub sid: u16,
    /// The first modem's security association; left out: its service identifier.
    #[serde(default)]
    pub said: Option<u16>,
    /// The first modem's key, 32 hexadecimal digits; modem `i` has that plus `i`. Needed where the profile encrypts.
    #[serde(default)]
    pub key: Option<String>,
    /// The initialization vector of all, 32 hexadecimal digits.
    #[serde(default)]
    pub iv: Option<String>,
}
