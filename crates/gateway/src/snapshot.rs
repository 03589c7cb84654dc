//! What a running gateway tells of itself at one moment: counters that only grow, a few gauges, and the difference of
//! two such moments.

use std::collections::BTreeMap;

use engine::{Io, StatsView};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value, json};

use crate::headroom::HeadroomView;

/// All counters of a process.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Snapshot {
    /// Which gateway, as in the configuration.
    pub gateway: String,
    /// Its program's version.
    pub version: String,
    /// The process.
    pub pid: u32,
    /// Seconds since its workers started.
    #[serde(rename = "uptime_seconds", alias = "uptime")]
    pub uptime: f64,
    /// Seconds the counters are about: all of `uptime_seconds`, or the time between two snapshots.
    pub seconds: f64,
    /// Cycles of the time stamp counter a second.
    pub tsc_hz: f64,
    /// Each worker's counters.
    pub workers: Vec<WorkerCounters>,
    /// Packets of known sessions that went through the kernel, and no worker saw; none: there is no such path.
    #[serde(default)]
    pub kernel: Option<KernelCounters>,
    /// Where the packet memory is.
    pub frames: FrameMemory,
    /// The gateway beside its capacity certificate; none: none is configured, or it has just begun.
    #[serde(default)]
    pub headroom: Option<Box<HeadroomView>>,
}

/// What the in-kernel path of known sessions has counted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct KernelCounters {
    /// Packets from subscribers that it forwarded.
    pub up_packets: u64,
    /// Bytes of users' packets in them.
    pub up_bytes: u64,
    /// Packets to subscribers that it forwarded.
    pub down_packets: u64,
    /// Bytes of users' packets in them.
    pub down_bytes: u64,
    /// Packets that it dropped, whatever the reason.
    pub dropped_packets: u64,
    /// Packets that it left to the workers.
    pub left_packets: u64,
    /// Packets of these that were timed: one of 256.
    pub sampled_packets: u64,
    /// Nanoseconds that its program took for them, without what the kernel does before and behind it.
    pub sampled_ns: u64,
    /// Packets of those forwarded that the device to send by did not take, by port: its ring was full, or it was down. What
    /// left is what was forwarded less these. None: nothing counts them.
    #[serde(default)]
    pub refused: Option<Vec<RefusedPackets>>,
    /// Translated flows and the places there are for them in the kernel; none: nothing is translated.
    #[serde(default)]
    pub flows: Option<KernelFlows>,
}

/// Translated flows, and the places in the kernel that they share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct KernelFlows {
    /// Places of all workers together: `fast_path.flows`.
    pub places: u64,
    /// Places that flows have.
    pub taken: u64,
    /// Flows that wait for a place: their sessions are with their workers meanwhile.
    pub waiting: u64,
    /// Flows that found no place when they began, whether or not they have one now.
    pub waited: u64,
}

/// Packets that a port's device did not take for sending.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RefusedPackets {
    /// The port.
    pub port: String,
    /// How many.
    pub packets: u64,
}

impl KernelCounters {
    /// Packets that it forwarded or dropped.
    pub fn taken(&self) -> u64 {
        self.up_packets + self.down_packets + self.dropped_packets
    }

    /// Packets that left: those forwarded, less those that devices did not take.
    pub fn sent(&self) -> u64 {
        (self.up_packets + self.down_packets).saturating_sub(self.refused_packets())
    }

    /// Packets that devices did not take for sending.
    pub fn refused_packets(&self) -> u64 {
        self.refused.iter().flatten().map(|refused| refused.packets).sum()
    }

    fn refused_since(&self, earlier: &Self) -> Option<Vec<RefusedPackets>> {
        let refused = self.refused.as_ref()?.iter().map(|now| {
            let before = earlier.refused.iter().flatten().find(|before| before.port == now.port);
            let packets = now.packets.saturating_sub(before.map_or(0, |before| before.packets));
            RefusedPackets { packets, ..now.clone() }
        });
        Some(refused.collect())
    }

    fn since(&self, earlier: &Self) -> Self {
        Self {
            refused: self.refused_since(earlier),
            flows: self.flows.map(|flows| {
                let before = earlier.flows.map_or(0, |before| before.waited);
                KernelFlows { waited: flows.waited.saturating_sub(before), ..flows }
            }),
            up_packets: self.up_packets.wrapping_sub(earlier.up_packets),
            up_bytes: self.up_bytes.wrapping_sub(earlier.up_bytes),
            down_packets: self.down_packets.wrapping_sub(earlier.down_packets),
            down_bytes: self.down_bytes.wrapping_sub(earlier.down_bytes),
            dropped_packets: self.dropped_packets.wrapping_sub(earlier.dropped_packets),
            left_packets: self.left_packets.wrapping_sub(earlier.left_packets),
            sampled_packets: self.sampled_packets.wrapping_sub(earlier.sampled_packets),
            sampled_ns: self.sampled_ns.wrapping_sub(earlier.sampled_ns),
        }
    }
}

/// One worker's counters.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WorkerCounters {
    /// Its number.
    pub worker: u16,
    /// The CPU it is pinned to.
    pub cpu: Option<usize>,
    /// Numbers of the worker itself.
    #[schemars(schema_with = "io_schema")]
    #[serde(deserialize_with = "read_io")]
    pub io: BTreeMap<String, u64>,
    /// Stages in the order of the pipelines.
    pub stages: Vec<StageCounters>,
    /// Drops by stage and reason; those that never happened are not there.
    pub drops: Vec<DropCounters>,
    /// Packets the slow path took, by reason.
    #[serde(alias = "consumed")]
    pub punted: Vec<PuntCounters>,
    /// In less out or named: 0 when the conservation law of packets holds; exact only at rest.
    pub missing: i64,
}

impl WorkerCounters {
    /// A worker's counters as they stand.
    pub fn of(worker: u16, cpu: Option<usize>, stats: &StatsView) -> Self {
        let stage = |row: engine::StageRow| StageCounters {
            pipeline: row.stage.pipeline.to_owned(),
            name: row.stage.name.to_owned(),
            calls: row.calls,
            packets: row.packets,
            cycles: row.cycles,
        };
        let drop = |(stage, reason, packets, bytes): (String, engine::Reason<engine::Drop>, u64, u64)| DropCounters {
            stage,
            reason: reason.name().to_owned(),
            sentence: reason.sentence().to_owned(),
            packets,
            bytes,
        };
        let punt = |(punt, packets): (engine::Reason<engine::Punt>, u64)| PuntCounters {
            reason: punt.name().to_owned(),
            sentence: punt.sentence().to_owned(),
            packets,
        };
        Self {
            worker,
            cpu,
            io: Io::ALL.iter().map(|io| (io.name().to_owned(), stats.io(*io))).collect(),
            stages: stats.stages().into_iter().map(stage).collect(),
            drops: stats.drops().into_iter().map(drop).collect(),
            punted: stats.punts().into_iter().map(punt).collect(),
            missing: stats.missing(),
        }
    }
}

/// Names of [`Io`] that gateways of the release before have.
const FORMER_IO: [(&str, Io); 2] = [("handed_out", Io::HandedOut), ("handed_in", Io::HandedIn)];

fn read_io<'de, D: Deserializer<'de>>(from: D) -> Result<BTreeMap<String, u64>, D::Error> {
    let mut io = BTreeMap::<String, u64>::deserialize(from)?;
    for (old, new) in FORMER_IO {
        if let Some(value) = io.remove(old) {
            io.entry(new.name().to_owned()).or_insert(value);
        }
    }
    Ok(io)
}

/// Every number with its meaning.
fn io_schema(_: &mut SchemaGenerator) -> Schema {
    let number = |io: &Io| {
        let schema = json!({ "type": "integer", "minimum": 0, "description": io.help() });
        (io.name().to_owned(), schema)
    };
    let numbers: Map<String, Value> = Io::ALL.iter().map(number).collect();
    let names: Vec<&str> = Io::ALL.iter().map(|io| io.name()).collect();
    json_schema!({ "type": "object", "description": "Numbers of the worker itself.", "properties": numbers, "required": names })
}

/// A stage's counters.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StageCounters {
    /// The pipeline it is in.
    pub pipeline: String,
    /// Its name.
    pub name: String,
    /// Times it ran.
    pub calls: u64,
    /// Packets that reached it.
    pub packets: u64,
    /// Cycles charged to it.
    pub cycles: u64,
}

/// A drop counter.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DropCounters {
    /// `pipeline.stage`, or `worker`.
    pub stage: String,
    /// [`engine::Reason::name`].
    pub reason: String,
    /// What it means.
    #[serde(rename = "help", alias = "sentence")]
    pub sentence: String,
    /// Packets.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// A counter of packets that were answered or turned into events.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PuntCounters {
    /// [`engine::Reason::name`].
    pub reason: String,
    /// What it means.
    #[serde(rename = "help", alias = "sentence")]
    pub sentence: String,
    /// Packets.
    pub packets: u64,
}

/// Size of packet memory, and the packet buffers that no worker has.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FrameMemory {
    /// Packet buffers there are.
    #[serde(rename = "packet_buffers", alias = "slots")]
    pub slots: u64,
    /// Usable bytes of a packet buffer.
    #[serde(rename = "packet_buffer_bytes", alias = "slot_bytes")]
    pub slot_bytes: u64,
    /// Bytes of it kept free before a packet.
    #[serde(rename = "headroom_bytes", alias = "headroom")]
    pub headroom: u64,
    /// Bytes of memory.
    pub bytes: u64,
    /// The pages it rests on.
    pub pages: String,
    /// Packet buffers in no worker's pool.
    pub depot: u64,
}

/// Numbers that say how it is now, not how much there was.
const GAUGES: [Io; 4] = [Io::Held, Io::FreeSlots, Io::PortSlots, Io::SleepsUntil];

impl WorkerCounters {
    /// A number of the worker.
    pub fn io(&self, what: Io) -> u64 {
        self.io.get(what.name()).copied().unwrap_or(0)
    }

    /// Packets dropped, all reasons together.
    pub fn dropped(&self) -> u64 {
        self.drops.iter().map(|d| d.packets).sum()
    }

    fn since(&self, earlier: &Self) -> Self {
        let mut now = self.clone();
        let gauge = |name: &str| GAUGES.iter().any(|g| g.name() == name);
        for (name, value) in &mut now.io {
            if !gauge(name) {
                *value = value.wrapping_sub(earlier.io.get(name).copied().unwrap_or(0));
            }
        }
        for (stage, before) in now.stages.iter_mut().zip(&earlier.stages) {
            stage.calls = stage.calls.wrapping_sub(before.calls);
            stage.packets = stage.packets.wrapping_sub(before.packets);
            stage.cycles = stage.cycles.wrapping_sub(before.cycles);
        }
        for drop in &mut now.drops {
            let same = |before: &&DropCounters| before.stage == drop.stage && before.reason == drop.reason;
            if let Some(before) = earlier.drops.iter().find(same) {
                drop.packets = drop.packets.wrapping_sub(before.packets);
                drop.bytes = drop.bytes.wrapping_sub(before.bytes);
            }
        }
        for punt in &mut now.punted {
            if let Some(before) = earlier.punted.iter().find(|before| before.reason == punt.reason) {
                punt.packets = punt.packets.wrapping_sub(before.packets);
            }
        }
        now
    }
}

impl Snapshot {
    /// What happened between an earlier snapshot of the same process and this one. Gauges stay what they are now.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        if earlier.pid != self.pid {
            return self.clone();
        }
        let workers = self.workers.iter().map(|worker| {
            let before = earlier.workers.iter().find(|before| before.worker == worker.worker);
            before.map_or_else(|| worker.clone(), |before| worker.since(before))
        });
        let kernel = self.kernel.as_ref().zip(earlier.kernel.as_ref()).map(|(now, before)| now.since(before));
        Self { seconds: self.uptime - earlier.uptime, workers: workers.collect(), kernel, ..self.clone() }
    }

    /// A number of all workers together.
    pub fn io(&self, what: Io) -> u64 {
        self.workers.iter().map(|worker| worker.io(what)).sum()
    }
}
