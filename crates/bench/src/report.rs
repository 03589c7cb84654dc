//! The result of a benchmark as one object. Its keys are a contract: add freely, rename none.

use std::collections::BTreeMap;

use engine::Io;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use traffic::{DirectionResult, Directions, TrialResult};

use crate::cost::{Cost, together};
use crate::host::Host;
use crate::neighbour::Disturbed;
use crate::noise::Noise;
use crate::options::PortKind;
use crate::power::Power;
use crate::sample::Delta;
use crate::window::{Closing, Window, latency, median};

/// What a benchmark found.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Report {
    /// Version of these keys.
    pub schema: u32,
    /// The workload.
    pub profile: String,
    /// The gateway's kind.
    pub gateway: String,
    /// The ports' kind: `memory`, `packet-plain`, `packet-mmsg`, `packet-ring`, `xdp`, `dpdk`.
    pub port: String,
    /// Workers of a gateway.
    pub workers: u16,
    /// Gateways.
    pub instances: u16,
    /// Time measured.
    pub seconds: f64,
    /// Subscribers, all instances together.
    pub subscribers: u64,
    /// Flows, all instances together.
    pub flows: u64,
    /// What became of the packets, by direction. Latencies are those at `latency_at_mpps`.
    pub directions: Directions,
    /// Millions of packets forwarded a second, both directions together, as many as could be.
    pub mpps: f64,
    /// Gigabits forwarded a second; Ethernet frames, access side.
    pub gbps_l2: f64,
    /// Lost by sent, when more was sent than can be forwarded: not a quality of the gateway. See `paced`.
    pub loss_ratio: f64,
    /// What a packet costs.
    pub cost: Cost,
    /// What was measured beside it.
    pub reference: Reference,
    /// Packets dropped by the gateway, by `pipeline.stage.reason`.
    pub drops: BTreeMap<String, u64>,
    /// Packets that the gateway's ports lost, by `port.counter`.
    pub lost_at_ports: BTreeMap<String, u64>,
    /// Packets that wait in the gateway's queues, in the mean of all turns.
    #[serde(default)]
    pub packets_waiting: f64,
    /// How full the queues of subscribers were, where the workload fills them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filled: Option<Filled>,
    /// Heap allocations of the workers for each packet.
    pub allocations_per_packet: f64,
    /// Slots of packet memory that did not come back.
    pub frames_lost: i64,
    /// Packets that went in and neither came out nor were named.
    pub packets_missing: i64,
    /// Resident memory of the process.
    pub rss_bytes: u64,
    /// Sessions, rules and indexes, without packet memory.
    pub bytes_per_subscriber: f64,
    /// From nothing to ready.
    pub start_seconds: f64,
    /// The part of its time each worker was busy with packets.
    pub worker_utilisation: Vec<f64>,
    /// Packets that workers sent to each other.
    #[serde(rename = "handoff_packets", alias = "handed_over")]
    pub handed_over: u64,
    /// Where the load came from.
    pub load: LoadSource,
    /// The windows behind the medians.
    pub windows: Windows,
    /// What disturbed them.
    pub noise: Noise,
    /// Power while it was measured.
    pub power: Power,
    /// What a noisy neighbour did to it, where there was one on purpose.
    pub disturbed: Option<Disturbed>,
    /// What looking costs.
    pub observer: Option<Observer>,
    /// A second trial, below capacity, in which every packet was checked: losses and latencies.
    pub paced: Option<Paced>,
    /// What an experiment varies, by key: this point's values.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub varied: BTreeMap<String, String>,
    /// The machine.
    pub host: Host,
    /// When.
    pub date: String,
    /// Of weir.
    pub version: String,
}

/// How full downstream queues of subscribers were: medians of the windows' means.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Filled {
    /// The part of the subscribers that packets waited for, 0 to 1.
    pub backlogged_ratio: f64,
    /// Packets that waited for each of them.
    pub packets_each: f64,
    /// Outer VLANs, each with the rate of a PON.
    pub nodes: u32,
    /// What each of them carries, in Gbit/s.
    pub node_gbps: f64,
    /// Offered to an outer VLAN by its rate: of the one with the least, of all together, of the one with the most.
    pub offered_by_rate_min: f64,
    /// See `offered_by_rate_min`.
    pub offered_by_rate_mean: f64,
    /// See `offered_by_rate_min`.
    pub offered_by_rate_max: f64,
    /// The rate of the port, in Gbit/s.
    pub port_gbps: f64,
    /// Bytes that may wait for it: what it sends in 10 ms.
    pub buffer_bytes: u64,
    /// The part of them that did, 0 to 1.
    pub buffer_used_ratio: f64,
    /// Packets of the longest queues that were dropped, by packets offered downlink.
    pub dropped_ratio: f64,
}

/// What was measured beside the gateway in the same run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Reference {
    /// What it is; empty: nothing was.
    pub name: String,
    /// Millions of packets a second.
    pub mpps: f64,
    /// Gigabits a second.
    pub gbps_l2: f64,
    /// The gateway's packets a second by the reference's, the median over windows taken in pairs.
    pub ratio: f64,
    /// What its packets cost it to receive.
    pub trx_ns: f64,
    /// What they cost it to send.
    pub ttx_ns: f64,
}

impl Reference {
    /// The bare forwarder on a kind of ports; the ratio is left at 0.
    pub(crate) fn bare(kind: PortKind, windows: &[Window]) -> Self {
        let (found, cost) = (together_traffic(windows), Cost::of(windows));
        Self {
            name: format!("bare forwarding, {}", kind.name()),
            mpps: found.mpps,
            gbps_l2: found.gbps_l2,
            ratio: 0.0,
            trx_ns: cost.trx_ns,
            ttx_ns: cost.ttx_ns,
        }
    }
}

/// Where the load of the main trial came from.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LoadSource {
    /// `generator`: every packet signed and checked; `kernel`: the same packets again and again, counted only.
    pub source: String,
    /// Whose CPU did the receive work of virtual links: `senders`, `gateway`, or `load`; empty in memory.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub receive_work: String,
    /// Whether the gateway was the bottleneck: it was hardly ever without packets.
    pub saturates: bool,
    /// `mpps` by the part of the time the workers were busy: what the gateway might forward if there were more to do.
    /// An estimate; it is `mpps` itself where the load saturates.
    pub busy_mpps: f64,
}

/// How the windows spread.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Windows {
    /// How many.
    pub count: usize,
    /// The slowest.
    pub mpps_min: f64,
    /// The fastest.
    pub mpps_max: f64,
    /// All of them, in the order they were played.
    pub mpps: Vec<f64>,
    /// Of each, packets for the time the workers were busy: as `mpps`, and more where they were not all the time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub busy_mpps: Vec<f64>,
    /// What was offered in them, millions of packets a second.
    pub offered_mpps: Vec<f64>,
    /// The clock of the gateway's cores in them, in GHz; empty where it cannot be told.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub core_ghz: Vec<f64>,
}

/// The same gateway with stages charged by the clock and without, in turns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Observer {
    /// Processing time of a packet with the clock.
    pub tc_ns: f64,
    /// Without.
    pub tc_ns_without: f64,
    /// The difference.
    pub effect_ns: f64,
}

/// A trial below capacity.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Paced {
    /// Packets a second intended, millions.
    pub offered_mpps: f64,
    /// Of the capacity found before.
    pub of_capacity: f64,
    /// What became of the packets.
    pub directions: Directions,
    /// Forwarded.
    pub mpps: f64,
    /// Lost by sent, all windows together.
    pub loss_ratio: f64,
    /// The median window's.
    pub loss_ratio_median: f64,
}

/// The version of weir that measures.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

impl Report {
    /// Takes over what windows of the main trial found.
    pub fn take(&mut self, windows: &[Window]) {
        self.take_by(windows, |_, delta| delta.io(Io::RxPackets));
    }

    /// The same with costs by other packets than those that the workers received: `packets` of a window.
    pub(crate) fn take_by(&mut self, windows: &[Window], packets: fn(&Window, &Delta) -> u64) {
        let traffic = together_traffic(windows);
        self.seconds = traffic.seconds;
        (self.mpps, self.gbps_l2, self.loss_ratio) = (traffic.mpps, traffic.gbps_l2, traffic.loss_ratio);
        self.directions = traffic.directions;
        self.cost = Cost::by(windows, packets);
        let (mut all, mut allocations) = (0, 0);
        self.drops.clear();
        self.lost_at_ports.clear();
        for window in windows {
            all += packets(window, &together(window));
            for slice in &window.workers {
                allocations += slice.allocations;
                self.handed_over += slice.measured.io(Io::HandedOut);
                for (name, n) in &slice.whole.drops {
                    *self.drops.entry(name.clone()).or_default() += n;
                }
                for (name, n) in &slice.lost_at_ports {
                    *self.lost_at_ports.entry(name.clone()).or_default() += n;
                }
            }
        }
        self.allocations_per_packet = allocations as f64 / all.max(1) as f64;
        let waiting = |window: &Window| window.workers.iter().map(|slice| slice.waiting).sum::<f64>();
        self.packets_waiting = median(windows.iter().map(waiting));
        let workers = windows.iter().map(|window| window.workers.len()).max().unwrap_or(0);
        let busy = |n: usize| median(windows.iter().filter_map(|w| Some(w.workers.get(n)?.measured.utilisation())));
        self.worker_utilisation = (0..workers).map(busy).collect();
        let busy = self.worker_utilisation.iter().sum::<f64>() / workers.max(1) as f64;
        self.load.saturates = self.worker_utilisation.iter().all(|busy| *busy > 0.97);
        self.load.busy_mpps = if self.load.saturates || busy <= 0.0 { self.mpps } else { self.mpps / busy };
        let rates = || windows.iter().map(|window| window.traffic.mpps);
        self.windows = Windows {
            count: windows.len(),
            mpps_min: rates().fold(f64::INFINITY, f64::min),
            mpps_max: rates().fold(0.0, f64::max),
            mpps: rates().collect(),
            busy_mpps: windows.iter().map(Window::busy_mpps).collect(),
            offered_mpps: windows.iter().map(|window| offered(&window.traffic)).collect(),
            core_ghz: windows.iter().filter_map(|window| Some(window.core_hz()? / 1e9)).collect(),
        };
        self.noise = Noise::of(windows);
        self.power = Power::of(windows);
        let clocks = &self.windows.core_ghz;
        self.host.core_ghz = (!clocks.is_empty()).then(|| median(clocks.iter().copied()));
        self.host.core_ghz_quiet = self.cost.tc_quiet_core_cycles.map(|cycles| cycles / self.cost.tc_quiet_ns);
        let urgent = windows.iter().flat_map(|w| &w.workers).all(|slice| slice.urgent);
        self.host.scheduling = if urgent { "fifo" } else { "ordinary" }.to_owned();
    }

    /// Packets sent and not received, both directions together.
    pub fn lost_packets(&self) -> u64 {
        self.directions.uplink.lost_packets + self.directions.downlink.lost_packets
    }

    /// Takes over what the end brought to light.
    pub fn close(&mut self, closing: Closing) {
        self.frames_lost += closing.frames_lost;
        self.packets_missing += closing.packets_missing;
    }
}

impl Paced {
    /// What windows at `offered_mpps` found.
    pub fn of(windows: &[Window], offered_mpps: f64, of_capacity: f64) -> Self {
        let traffic = together_traffic(windows);
        Self {
            offered_mpps,
            of_capacity,
            directions: traffic.directions,
            mpps: traffic.mpps,
            loss_ratio: traffic.loss_ratio,
            loss_ratio_median: median(windows.iter().map(|window| window.traffic.loss_ratio)),
        }
    }
}

/// Counts of all windows together, rates and latencies of the median one.
pub(crate) fn together_traffic(windows: &[Window]) -> TrialResult {
    let all = || windows.iter().map(|window| &window.traffic);
    let direction = |of: fn(&TrialResult) -> &DirectionResult| {
        let each = || all().map(of);
        let sum = |n: fn(&DirectionResult) -> u64| each().map(n).sum::<u64>();
        let sent = sum(|d| d.sent_packets);
        let bytes: f64 = each().map(|d| d.frame_bytes_mean * d.sent_packets as f64).sum();
        DirectionResult {
            frame_bytes_mean: if sent > 0 { bytes / sent as f64 } else { 0.0 },
            offered_packets: sum(|d| d.offered_packets),
            sent_packets: sent,
            unsent_packets: sum(|d| d.unsent_packets),
            forwarded_packets: sum(|d| d.forwarded_packets),
            lost_packets: sum(|d| d.lost_packets),
            missed_packets: sum(|d| d.missed_packets),
            duplicated_packets: sum(|d| d.duplicated_packets),
            reordered_packets: sum(|d| d.reordered_packets),
            stale_packets: sum(|d| d.stale_packets),
            corrupt_packets: sum(|d| d.corrupt_packets),
            misdelivered_packets: sum(|d| d.misdelivered_packets),
            foreign_packets: sum(|d| d.foreign_packets),
            mpps: median(each().map(|d| d.mpps)),
            gbps_l2: median(each().map(|d| d.gbps_l2)),
            latency_us: latency(each().map(|d| &d.latency_us)),
        }
    };
    let directions =
        Directions { uplink: direction(|t| &t.directions.uplink), downlink: direction(|t| &t.directions.downlink) };
    let sent = directions.uplink.sent_packets + directions.downlink.sent_packets;
    let lost = directions.uplink.lost_packets + directions.downlink.lost_packets;
    TrialResult {
        seconds: all().map(|t| t.seconds).sum(),
        directions,
        mpps: median(all().map(|t| t.mpps)),
        gbps_l2: median(all().map(|t| t.gbps_l2)),
        loss_ratio: if sent > 0 { lost as f64 / sent as f64 } else { 0.0 },
    }
}

/// Millions of packets offered a second.
fn offered(traffic: &TrialResult) -> f64 {
    let Directions { uplink, downlink } = &traffic.directions;
    (uplink.offered_packets + downlink.offered_packets) as f64 / traffic.seconds.max(1e-9) / 1e6
}
