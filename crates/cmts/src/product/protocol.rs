//! What is asked of a cable gateway, and answered.

use std::net::IpAddr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use gateway::socket::Ask;

/// A question, as `{"ask": "cable", "what": "modems"}`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "snake_case")]
pub enum Request {
    /// What only a cable gateway answers.
    Cable(CableRequest),
}

/// An answer, as `{"cable": {…}}`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reply {
    /// To [`Request::Cable`].
    Cable(CableReply),
}

impl Ask for Request {
    type Answer = Reply;
    const NAMES: &'static [&'static str] = &["cable"];
}

/// What is asked of a cable gateway.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "snake_case", deny_unknown_fields)]
pub enum CableRequest {
    /// All modems.
    Modems,
    /// Service flows: all, or those of one modem.
    ServiceFlows {
        /// Its hardware address.
        #[serde(default)]
        modem: Option<String>,
    },
    /// Downstream channels, and what goes with them.
    Channels,
    /// Add modems of a pattern, as in the configuration.
    Add {
        /// The service group's name.
        service_group: String,
        /// The pattern, as TOML.
        pattern: String,
    },
    /// Take a modem out.
    Remove {
        /// Its hardware address.
        modem: String,
    },
    /// Give a modem another service flow.
    AddFlow {
        /// The modem's hardware address.
        modem: String,
        /// The service flow, as TOML.
        flow: String,
    },
    /// Change a service flow; what is left out stays, what is `none` goes.
    ChangeFlow {
        /// The modem's hardware address.
        modem: String,
        /// What changes, and the service flow's name, as TOML.
        flow: String,
    },
    /// Take a service flow from a modem, and the classifiers that choose it.
    RemoveFlow {
        /// The modem's hardware address.
        modem: String,
        /// The service flow's name.
        flow: String,
    },
    /// A modem's classifiers.
    Classifiers {
        /// Its hardware address.
        modem: String,
    },
    /// Give a modem a classifier.
    AddClassifier {
        /// The modem's hardware address.
        modem: String,
        /// Its identifier; left out: the next that is free.
        #[serde(default)]
        id: Option<u16>,
        /// The rule, as TOML.
        rule: String,
    },
    /// Take a classifier from a modem.
    RemoveClassifier {
        /// The modem's hardware address.
        modem: String,
        /// Its identifier.
        id: u16,
    },
    /// Give a modem other filter groups, by name; what is left out stays.
    SetFilters {
        /// The modem's hardware address.
        modem: String,
        /// Downstream.
        #[serde(default)]
        down: Option<Vec<String>>,
        /// Upstream.
        #[serde(default)]
        up: Option<Vec<String>>,
    },
    /// Hand everything over to the standby, and end.
    TakeOver,
    /// A key beside the one in use.
    SetKey {
        /// The modem's hardware address.
        modem: String,
        /// Its number, 0 to 15; the lowest bit says which of two it replaces.
        sequence: u8,
        /// 32 hexadecimal digits.
        key: String,
        /// 32 hexadecimal digits.
        iv: String,
    },
    /// Send by that key.
    UseKey {
        /// The modem's hardware address.
        modem: String,
        /// Its number.
        sequence: u8,
    },
}

/// What a cable gateway answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CableReply {
    /// Modems.
    Modems(Vec<ModemView>),
    /// Service flows.
    ServiceFlows(Vec<FlowView>),
    /// Channels.
    Channels(ChannelsView),
    /// Classifiers of a modem.
    Classifiers(Vec<ClassifierView>),
    /// Done; a sentence.
    Done(String),
}

/// A classifier (DOCSIS 3.1 MULPI, 7.5.4).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ClassifierView {
    /// Its identifier at the modem.
    pub id: u16,
    /// What it matches and chooses, as TOML of the configuration.
    pub rule: String,
}

/// The security association of a modem.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct KeyView {
    /// SAID of the association.
    pub said: u16,
    /// Sequence number of the key in use, 0 to 15.
    pub sequence: u8,
}

/// A modem.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ModemView {
    /// Its hardware address.
    pub modem: String,
    /// Its service group.
    pub service_group: String,
    /// Its profile.
    pub profile: String,
    /// The hosts behind it.
    pub hosts: Vec<IpAddr>,
    /// Service identifiers upstream.
    pub sids: Vec<u16>,
    /// Its key; none: not encrypted.
    pub key: Option<KeyView>,
    /// Packets to its hosts.
    pub down_packets: u64,
    /// Their bytes.
    pub down_bytes: u64,
    /// Packets from its hosts.
    pub up_packets: u64,
    /// Their bytes.
    pub up_bytes: u64,
}

/// A downstream service flow.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FlowView {
    /// Its modem's hardware address.
    pub modem: String,
    /// Its name in the modem's profile.
    pub flow: String,
    /// Maximum sustained rate.
    #[serde(rename = "rate_bps", alias = "rate")]
    pub rate: Option<u64>,
    /// Maximum traffic burst.
    #[serde(rename = "burst_bytes", alias = "burst")]
    pub burst: u64,
    /// Peak traffic rate; none: none is enforced.
    #[serde(rename = "peak_bps", alias = "peak")]
    pub peak: Option<u64>,
    /// Minimum reserved rate.
    #[serde(rename = "reserved_bps", alias = "reserved")]
    pub reserved: Option<u64>,
    /// Traffic priority.
    pub priority: u8,
    /// Downstream service identifier.
    pub dsid: Option<u32>,
    /// Packets that came.
    #[serde(rename = "received_packets", alias = "packets_in")]
    pub packets_in: u64,
    /// Packets sent.
    #[serde(rename = "sent_packets", alias = "packets")]
    pub packets: u64,
    /// Bits sent, from behind the HCS through the CRC.
    #[serde(rename = "sent_bits", alias = "bits")]
    pub bits: u64,
    /// Packets that wait.
    #[serde(rename = "waiting_packets", alias = "waiting")]
    pub waiting: u32,
    /// Their bits.
    pub waiting_bits: u64,
    /// Packets dropped because the queue was full.
    #[serde(rename = "full_dropped_packets", alias = "full")]
    pub full: u64,
    /// Packets dropped by active queue management.
    #[serde(rename = "aqm_dropped_packets", alias = "aqm")]
    pub aqm: u64,
    /// The probability by which that drops now; more than 1 for packets longer than 1024 bytes.
    pub drop_probability: f64,
    /// Mean wait of packets sent.
    #[serde(rename = "mean_wait_us", alias = "mean_us")]
    pub mean_us: f64,
    /// How much longer or shorter than the one before a packet waited, in the mean, in microseconds (D of RFC 3550, 6.4.1).
    pub jitter_us: f64,
    /// The longest wait.
    #[serde(rename = "longest_wait_us", alias = "longest_us")]
    pub longest_us: f64,
}

/// A downstream channel.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ChannelView {
    /// Its service group.
    pub service_group: String,
    /// Its name.
    pub channel: String,
    /// What it carries.
    #[serde(rename = "capacity_bps", alias = "capacity")]
    pub capacity: u64,
    /// The device's L2TPv3 session.
    pub session: u32,
    /// MAC frames sent.
    #[serde(rename = "sent_packets", alias = "packets")]
    pub packets: u64,
    /// Their bits.
    #[serde(rename = "sent_bits", alias = "bits")]
    pub bits: u64,
    /// Times it was chosen after another.
    pub selects: u64,
    /// DEPI packets.
    pub depi_packets: u64,
    /// Of those: full when they left.
    pub depi_full: u64,
    /// Of those: sent before they were full, as they had waited long enough.
    pub depi_partial: u64,
    /// Mean size of its MAC frames, from behind the HCS through the CRC, in bytes.
    pub mean_frame_bytes: f64,
    /// DEPI packets by segments: 0 to 6, 7 and more.
    pub segments: [u64; 8],
}

/// Channels, and what a gateway counts besides.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ChannelsView {
    /// Seconds since the start.
    pub seconds: f64,
    /// Downstream channels.
    pub channels: Vec<ChannelView>,
    /// Lookups, filters, classifiers, bursts, grants: identifier, how often, a sentence.
    #[serde(with = "gateway::counters::explained")]
    #[schemars(with = "std::collections::BTreeMap<String, gateway::counters::Explained>")]
    pub counters: Vec<(String, u64, String)>,
}
