//! What a certificate says.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Version of the keys.
pub const SCHEMA: u32 = 1;

/// What a machine was measured to carry. Keys carry their units; rates are of packets in one direction, each counted
/// once.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Certificate {
    /// Version of these keys: 1.
    pub schema: u32,
    /// When the run began, such as `2026-01-31T12:00:00Z`.
    pub date: String,
    /// The version of weir that measured.
    pub version: String,
    /// The machine.
    pub host: Host,
    /// What was run.
    pub run: Run,
    /// The generator alone: the most it can send and the links can deliver, so that its limits are not taken for the
    /// machine's.
    #[serde(default)]
    pub generator: Vec<GeneratorRate>,
    /// Receive, transmit and forward by queues and frame size.
    #[serde(default)]
    pub rates: Vec<Rate>,
    /// Forwarded by number of flows.
    #[serde(default)]
    pub flows: Vec<FlowRate>,
    /// Latency at parts of the rate that was found.
    #[serde(default)]
    pub latency: Option<Latency>,
    /// How equal trials spread.
    #[serde(default)]
    pub spread: Option<SpreadRate>,
    /// Rates and costs of weir's gateways on this machine.
    #[serde(default)]
    pub gateways: Vec<GatewayRate>,
    /// Burst credit, by direction and unit: `weir probe burst`.
    #[serde(default)]
    pub allowances: Vec<Allowance>,
    /// What was not measured, with the reason.
    #[serde(default)]
    pub skipped: Vec<Skipped>,
    /// What a reader has to know.
    #[serde(default)]
    pub notes: Vec<String>,
    /// The signer's ed25519 public key, in hexadecimal digits.
    #[serde(default)]
    pub public_key: String,
    /// SHA-256 of everything above as canonical JSON: keys in order, no white space, fractions of nine digits.
    #[serde(default)]
    pub content_sha256: String,
    /// The same of each key above, so that a check can name what was changed.
    #[serde(default)]
    pub section_sha256: BTreeMap<String, String>,
    /// Of both hashes, by the public key: 128 hexadecimal digits.
    #[serde(default)]
    pub signature: String,
}

impl Certificate {
    /// The file.
    pub fn text(&self) -> String {
        // Keys are strings: nothing of it fails.
        serde_json::to_string_pretty(self).map(|text| text + "\n").unwrap_or_default()
    }
}

/// The machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Host {
    /// Its name.
    pub hostname: String,
    /// The processor's name.
    pub cpu: String,
    /// `x86_64` or `aarch64`.
    pub arch: String,
    /// Processors this process may use.
    pub cpus: usize,
    /// Ticks of the time stamp counter a second, billions.
    pub tsc_ghz: f64,
    /// The kernel's release.
    pub kernel: String,
    /// The interfaces that carried packets: kind and driver.
    pub interface: String,
    /// Queues that each interface has.
    pub queues: u16,
    /// The cloud's instance type, or the server's product name, where the firmware (DMI) tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine_type: Option<String>,
    /// The part of the time, 0 to 1, that the hypervisor gave to others while measuring.
    pub steal_ratio: f64,
}

/// What was run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Run {
    /// The command, such as `weir probe quick --minutes 15`.
    pub command: String,
    /// Kind of the ports, such as `packet-ring`.
    pub port: String,
    /// Where: `namespaces of this host`, or the two hosts.
    pub place: String,
    /// Seconds it took.
    pub seconds: f64,
    /// All steps were made; false: it was interrupted, or a step failed.
    pub is_complete: bool,
}

/// A figure with its range.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Band {
    /// The smallest sample.
    pub low: f64,
    /// The median.
    pub mid: f64,
    /// The largest sample.
    pub high: f64,
    /// All samples, in their order.
    pub samples: Vec<f64>,
}

impl Band {
    /// Of samples; none: there are none.
    pub fn of(samples: &[f64]) -> Option<Self> {
        let mut sorted: Vec<f64> = samples.iter().copied().filter(|value| value.is_finite()).collect();
        sorted.sort_by(f64::total_cmp);
        let (low, high) = (*sorted.first()?, *sorted.last()?);
        let half = sorted.len() / 2;
        let mid = if sorted.len() % 2 == 1 { sorted[half] } else { f64::midpoint(sorted[half - 1], sorted[half]) };
        Some(Self { low, mid, high, samples: samples.to_vec() })
    }
}

/// What ports and workers do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Task {
    /// Packets are received and dropped.
    Receive,
    /// Packets are made and sent.
    Transmit,
    /// Packets are received by one interface and sent by the other.
    Forward,
}

impl Task {
    /// As results name it.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Receive => "receive",
            Self::Transmit => "transmit",
            Self::Forward => "forward",
        }
    }
}

/// The generator alone.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GeneratorRate {
    /// Bytes of a frame with FCS.
    pub frame_bytes: u32,
    /// Sent, millions of packets a second.
    pub sent_mpps: Band,
    /// Arrived at the other end of the link.
    pub arrived_mpps: Band,
}

/// A rate by task, queues and frame size.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Rate {
    /// What workers do.
    pub task: Task,
    /// Queues, each with a worker.
    pub queues: u16,
    /// Bytes of a frame with FCS.
    pub frame_bytes: u32,
    /// Millions of packets a second, all queues together.
    pub mpps: Band,
    /// Ethernet frames without FCS, preamble and gap, at the median rate.
    pub gbps_l2: f64,
    /// The generator had no more to give: the machine may carry more.
    pub is_generator_limited: bool,
}

/// What tells flows apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FlowKey {
    /// Ports differ, addresses do not.
    FiveTuple,
    /// Addresses differ, ports do not: as of tunnels.
    ThreeTuple,
}

/// Forwarded by number of flows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FlowRate {
    /// What tells flows apart.
    pub by: FlowKey,
    /// How many there were.
    pub flows: u32,
    /// Queues, each with a worker.
    pub queues: u16,
    /// Bytes of a frame with FCS.
    pub frame_bytes: u32,
    /// Millions of packets a second.
    pub mpps: Band,
}

/// Latency by rate.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Latency {
    /// Bytes of a frame with FCS.
    pub frame_bytes: u32,
    /// The rate that was found: at most `loss_ratio` lost, millions of packets a second.
    pub found_mpps: f64,
    /// Lost by sent packets that the search allowed.
    pub loss_ratio: f64,
    /// The median at one packet in ten milliseconds: nothing waits for others.
    pub floor_us: f64,
    /// At parts of the rate.
    pub at: Vec<LatencyAt>,
}

/// Latency at a part of the rate.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LatencyAt {
    /// Of the rate that was found, 0 to 1.
    pub of_rate_ratio: f64,
    /// Offered, millions of packets a second.
    pub offered_mpps: f64,
    /// The median in microseconds.
    pub p50_us: f64,
    /// Exceeded by one packet of a hundred.
    pub p99_us: f64,
    /// Lost by sent packets.
    pub loss_ratio: f64,
}

/// How equal trials spread.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SpreadRate {
    /// Offered in each trial, millions of packets a second.
    pub offered_mpps: f64,
    /// Seconds of a trial.
    pub trial_seconds: f64,
    /// Forwarded, a sample for each trial.
    pub mpps: Band,
    /// The standard deviation by the mean.
    pub variation_ratio: f64,
    /// Lost by sent packets, all trials together.
    pub loss_ratio: f64,
}

/// A gateway, measured on this machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GatewayRate {
    /// Its kind, such as `upf`.
    pub gateway: String,
    /// The workload.
    pub profile: String,
    /// Workers.
    pub workers: u16,
    /// Subscribers.
    pub subscribers: u64,
    /// The mean frame in bytes, without FCS and access encapsulation.
    pub frame_bytes_mean: f64,
    /// The mean received frame in bytes, without FCS, tunnel and access encapsulation included; 0: not measured.
    #[serde(default)]
    pub received_bytes_mean: f64,
    /// Forwarded under overload, both directions together, millions of packets a second.
    pub mpps: Band,
    /// Processor cycles of a packet: receiving, processing, sending.
    pub cycles_per_packet: f64,
    /// Packets of the average burst.
    pub packets_per_burst: f64,
}

/// Which way packets go, seen from the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// Received.
    In,
    /// Sent.
    Out,
}

/// What an allowance counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum BurstUnit {
    /// Bytes of Ethernet frames without FCS.
    Bytes,
    /// Packets.
    Packets,
}

/// What happens to packets over the allowance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Limiter {
    /// They wait: latency grows at the limit.
    Shaper,
    /// They are dropped: loss without more latency.
    Policer,
    /// None was found.
    None,
}

/// A token bucket, as far as it was found: burst credit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Allowance {
    /// Received or sent.
    pub direction: Direction,
    /// Bytes or packets.
    pub unit: BurstUnit,
    /// Units a second from rest.
    pub peak_per_second: f64,
    /// Units a second once the credit is used; equal to the peak where no change was found.
    pub baseline_per_second: f64,
    /// Units of credit: (peak − baseline) × seconds at peak. Where it was not exhausted, at least so much; none: nor
    /// is the baseline known.
    #[serde(default)]
    pub depth: Option<f64>,
    /// It was not exhausted: the peak lasted to the end of the time.
    pub is_lower_bound: bool,
    /// Seconds at peak.
    pub peak_seconds: f64,
    /// Credit that came back in idle times.
    #[serde(default)]
    pub refills: Vec<Refill>,
    /// Units a second that come back in idle times, from the difference of two.
    #[serde(default)]
    pub refill_per_second: Option<f64>,
    /// 0.98 of the baseline went through, and 1.02 of it did not; none: not tried.
    #[serde(default)]
    pub is_confirmed: Option<bool>,
    /// Waiting or dropping.
    pub limiter: Limiter,
    /// Units a second, by time: begin in seconds, rate.
    pub samples: Vec<[f64; 2]>,
}

/// Credit that came back.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Refill {
    /// Seconds without packets.
    pub idle_seconds: f64,
    /// Units of credit after it.
    pub credit: f64,
    /// Units a second that came back.
    pub per_second: f64,
}

/// Something that was not measured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Skipped {
    /// The step.
    pub what: String,
    /// Why.
    pub why: String,
}
