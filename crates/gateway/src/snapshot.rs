//! What a running gateway tells of itself at one moment: counters that only grow, a few gauges, and the difference of
//! two such moments.

use std::collections::BTreeMap;

use engine::Io;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

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
    pub uptime: f64,
    /// Seconds the counters are about: all of `uptime`, or the time between two snapshots.
    pub seconds: f64,
    /// Cycles a second.
    pub tsc_hz: f64,
    /// Each worker's counters.
    pub workers: Vec<WorkerCounters>,
    /// Where the packet memory is.
    pub frames: FrameMemory,
}

/// One worker's counters.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WorkerCounters {
    /// Its number.
    pub worker: u16,
    /// The CPU it is pinned to.
    pub cpu: Option<usize>,
    /// Numbers of the worker itself, by [`Io::name`].
    pub io: BTreeMap<String, u64>,
    /// Stages in the order of the pipelines.
    pub stages: Vec<StageCounters>,
    /// Drops by stage and reason; those that never happened are not there.
    pub drops: Vec<DropCounters>,
    /// Packets the slow path took, by reason.
    #[serde(rename = "punted", alias = "consumed")]
    pub consumed: Vec<PuntCounters>,
    /// In less out or named: 0 when the conservation law of packets holds; exact only at rest.
    pub missing: i64,
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
    pub sentence: String,
    /// Packets.
    pub packets: u64,
}

/// The arena's shape, and the slots no worker has.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FrameMemory {
    /// Slots there are.
    pub slots: u64,
    /// Usable bytes of a slot.
    pub slot_bytes: u64,
    /// Bytes of it kept free before a packet.
    pub headroom: u64,
    /// Bytes of memory.
    pub bytes: u64,
    /// The pages it rests on.
    pub pages: String,
    /// Slots in the depot.
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
        for punt in &mut now.consumed {
            if let Some(before) = earlier.consumed.iter().find(|before| before.reason == punt.reason) {
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
        Self { seconds: self.uptime - earlier.uptime, workers: workers.collect(), ..self.clone() }
    }

    /// A number of all workers together.
    pub fn io(&self, what: Io) -> u64 {
        self.workers.iter().map(|worker| worker.io(what)).sum()
    }
}
