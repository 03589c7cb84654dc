//! Everything that was counted.

use std::collections::BTreeMap;

use engine::{Io, StatsView};
use serde::{Deserialize, Serialize};

/// Packets dropped under one name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dropped {
    /// How many.
    pub packets: u64,
    /// Their bytes, as they were where they were dropped.
    pub bytes: u64,
}

/// Every counter that moved, by name. Cycles and turns are left out: they are the machine's, not the gateway's.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Counters {
    /// The worker's own numbers.
    pub io: BTreeMap<String, u64>,
    /// Packets that reached each stage.
    pub stages: BTreeMap<String, u64>,
    /// Drops, as `pipeline.stage.reason`.
    pub drops: BTreeMap<String, Dropped>,
    /// Packets that ended in the slow path, by why.
    pub punts: BTreeMap<String, u64>,
    /// What the gateway counts beside: usage of sessions, reports.
    pub gateway: BTreeMap<String, u64>,
}

/// Of the worker's numbers, those that tell of packets.
const IO: &[Io] = &[
    Io::RxPackets,
    Io::RxBytes,
    Io::TxPackets,
    Io::TxBytes,
    Io::Originated,
    Io::Released,
    Io::HandedOut,
    Io::HandedIn,
    Io::Panics,
];

impl Counters {
    /// Of a worker's statistics.
    pub fn of(stats: &StatsView) -> Self {
        let moved = |(_, value): &(String, u64)| *value > 0;
        Self {
            io: IO.iter().map(|what| (what.name().to_owned(), stats.io(*what))).filter(moved).collect(),
            stages: stats
                .all_stages()
                .into_iter()
                .map(|row| (format!("{}.{}", row.stage.pipeline, row.stage.name), row.packets))
                .filter(moved)
                .collect(),
            drops: stats
                .drops()
                .into_iter()
                .map(|(stage, reason, packets, bytes)| {
                    (format!("{stage}.{}", reason.name()), Dropped { packets, bytes })
                })
                .collect(),
            punts: stats.punts().into_iter().map(|(punt, count)| (punt.name().to_owned(), count)).collect(),
            gateway: BTreeMap::new(),
        }
    }

    /// Adds what others counted.
    pub fn add(&mut self, others: &Self) {
        let sum = |here: &mut BTreeMap<String, u64>, there: &BTreeMap<String, u64>| {
            there.iter().for_each(|(name, value)| *here.entry(name.clone()).or_default() += value);
        };
        sum(&mut self.io, &others.io);
        sum(&mut self.stages, &others.stages);
        sum(&mut self.punts, &others.punts);
        sum(&mut self.gateway, &others.gateway);
        for (name, there) in &others.drops {
            let here = self.drops.entry(name.clone()).or_default();
            here.packets += there.packets;
            here.bytes += there.bytes;
        }
    }

    /// What moved since `earlier`.
    pub fn since(&self, earlier: &Self) -> Self {
        let less = |now: &BTreeMap<String, u64>, then: &BTreeMap<String, u64>| {
            let less = |(name, value): (&String, &u64)| (name.clone(), value - then.get(name).unwrap_or(&0));
            now.iter().map(less).filter(|(_, value)| *value > 0).collect()
        };
        let drops = |(name, now): (&String, &Dropped)| {
            let then = earlier.drops.get(name).copied().unwrap_or_default();
            (name.clone(), Dropped { packets: now.packets - then.packets, bytes: now.bytes - then.bytes })
        };
        Self {
            io: less(&self.io, &earlier.io),
            stages: less(&self.stages, &earlier.stages),
            drops: self.drops.iter().map(drops).filter(|(_, dropped)| dropped.packets > 0).collect(),
            punts: less(&self.punts, &earlier.punts),
            gateway: less(&self.gateway, &earlier.gateway),
        }
    }
}
