//! What a worker counts: cycles per stage, drops by stage and reason, packets in and out.
//!
//! One writer (the worker) does relaxed loads and stores; any number of readers look on. Nothing is ever reset:
//! readers take differences.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::drops;
use crate::pipeline::Kind;
use crate::pipeline::{StageId, StageSpan};
use crate::reason::{Drop, Punt, Reason};

/// A stage's place in a gateway.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StageInfo {
    /// The pipeline it is in.
    pub pipeline: &'static str,
    /// Its own name.
    pub name: &'static str,
    /// False: configuration switched it off, and its pipeline leaves it out.
    pub is_on: bool,
}

/// The stages of all pipelines of a gateway, in the order they were made.
#[derive(Clone, Debug, Default)]
pub struct Layout {
    stages: Vec<StageInfo>,
}

impl Layout {
    /// Enters a pipeline's stages, and which of them are on.
    pub fn add(&mut self, pipeline: &'static str, stages: &[&'static str], on: &[bool]) -> StageSpan {
        let first = self.stages.len();
        self.stages.extend(stages.iter().zip(on).map(|(&name, &is_on)| StageInfo { pipeline, name, is_on }));
        StageSpan { first }
    }

    /// Enters a stage that holds packets between pipelines, under the heading `group`.
    pub fn add_between(&mut self, group: &'static str, name: &'static str) -> StageId {
        StageId(self.add(group, &[name], &[true]).first)
    }

    /// The stages.
    pub fn stages(&self) -> &[StageInfo] {
        &self.stages
    }
}

macro_rules! io {
    ($($(#[doc = $doc:literal])* $variant:ident $text:literal,)*) => {
        /// Numbers of the worker itself, beside its stages.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(usize)]
        pub enum Io { $($(#[doc = $doc])* $variant,)* }
        impl Io {
            /// All, in order.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];
            /// How many.
            pub const COUNT: usize = Self::ALL.len();
            /// Name in tables and JSON.
            pub const fn name(self) -> &'static str { match self { $(Self::$variant => $text,)* } }
            /// What it counts, in a sentence.
            pub const fn help(self) -> &'static str { match self { $(Self::$variant => concat!($($doc),*).trim_ascii(),)* } }
        }
    };
}

io! {
    /// Packets received.
    RxPackets "rx_packets",
    /// Their bytes.
    RxBytes "rx_bytes",
    /// Packets a port took; less those dropped after that, they were sent.
    TxPackets "tx_packets",
    /// Their bytes.
    TxBytes "tx_bytes",
    /// Frames of our own making: replies, errors, fragments.
    Originated "originated",
    /// Packets that left a buffer or queue (to be sent, or dropped by name).
    Released "released",
    /// Packets sent to the worker that owns their subscriber.
    HandedOut "handoff_sent",
    /// Packets received from other workers.
    HandedIn "handoff_received",
    /// Gauge: packets that sources hold now.
    Held "held",
    /// Gauge: slots in the worker's pool.
    FreeSlots "free_slots",
    /// Gauge: slots in the worker's ports.
    PortSlots "port_slots",
    /// Turns of the worker loop.
    Turns "turns",
    /// Turns that moved at least one packet.
    BusyTurns "busy_turns",
    /// Bursts received: packets that a port had ready at once.
    Bursts "bursts",
    /// Times the worker slept.
    Sleeps "sleeps",
    /// Gauge: nanoseconds of the worker's clock until which it sleeps if nothing wakes it; 0: it is awake.
    SleepsUntil "sleeps_until",
    /// Cycles spent receiving (and in port service), in busy turns.
    RxCycles "rx_cycles",
    /// Cycles spent in pipelines.
    PipelineCycles "pipeline_cycles",
    /// Cycles spent sending, the kernel's work for it included.
    TxCycles "tx_cycles",
    /// Cycles of busy turns spent on anything else: commands, timers, slow path, statistics.
    OtherCycles "other_cycles",
    /// Cycles of turns without packets.
    IdleCycles "idle_cycles",
    /// Cycles in which the worker was awake but not running: preempted, or its CPU stolen. No other number has them.
    NotRunningCycles "not_running_cycles",
    /// Gauge: CPU time of the worker's thread in nanoseconds, sleeping and waking up included.
    CpuNs "cpu_ns",
    /// Bursts lost to a panic.
    Panics "panics",
    /// Heap allocations made by the worker in its loop.
    Allocations "allocations",
}

const PER_STAGE: usize = 3;
const PER_DROP: usize = 2;

struct Shared {
    layout: Layout,
    /// All reasons, by number.
    drops: Vec<Reason<Drop>>,
    punts: Vec<Reason<Punt>>,
    cells: Box<[AtomicU64]>,
}

impl Shared {
    fn stage_at(&self, stage: usize) -> usize {
        Io::COUNT + stage * PER_STAGE
    }

    /// Drops are counted per stage, and once more for everything outside of pipelines.
    fn drop_at(&self, stage: usize, reason: usize) -> usize {
        self.stage_at(self.layout.stages.len()) + (stage * self.drops.len() + reason) * PER_DROP
    }

    fn punt_at(&self, punt: usize) -> usize {
        self.drop_at(self.layout.stages.len() + 1, 0) + punt
    }

    fn get(&self, at: usize) -> u64 {
        self.cells[at].load(Ordering::Relaxed)
    }
}

/// The worker's end: it alone writes.
pub struct Stats {
    shared: Arc<Shared>,
    stage_base: usize,
    drop_base: usize,
    punt_base: usize,
    outside: usize,
    reasons: usize,
}

impl Stats {
    /// Zeroed statistics for those stages, with the reasons of the engine alone.
    pub fn new(layout: Layout) -> Self {
        Self::with(layout, &[drops::ALL], &[])
    }

    /// Zeroed statistics for the stages of a gateway, with its reasons.
    pub fn of<K: Kind>(layout: Layout) -> Self {
        Self::with(layout, K::DROPS, K::PUNTS)
    }

    fn with(layout: Layout, drops: &[&[Reason<Drop>]], punts: &[&[Reason<Punt>]]) -> Self {
        let mut shared = Shared { layout, drops: drops.concat(), punts: punts.concat(), cells: Box::default() };
        let ordered = shared.drops.iter().enumerate().all(|(n, reason)| n == reason.id.number())
            && shared.punts.iter().enumerate().all(|(n, reason)| n == reason.id.number());
        assert!(ordered, "tables of reasons stand in the order of their numbers, without gaps");
        let size = shared.punt_at(shared.punts.len());
        shared.cells = (0..size).map(|_| AtomicU64::new(0)).collect();
        let (stage_base, drop_base, punt_base) = (shared.stage_at(0), shared.drop_at(0, 0), shared.punt_at(0));
        let outside = shared.layout.stages.len();
        let reasons = shared.drops.len();
        Self { shared: Arc::new(shared), stage_base, drop_base, punt_base, outside, reasons }
    }

    /// A reader's end.
    pub fn view(&self) -> StatsView {
        StatsView { shared: self.shared.clone() }
    }

    #[inline]
    fn bump(&self, at: usize, by: u64) {
        // One writer: a plain load and store is enough, and far cheaper than a locked add.
        if let Some(cell) = self.shared.cells.get(at) {
            cell.store(cell.load(Ordering::Relaxed).wrapping_add(by), Ordering::Relaxed);
        }
    }

    /// Adds to a number of the worker.
    #[inline]
    pub fn add(&self, what: Io, by: u64) {
        self.bump(what as usize, by);
    }

    /// Sets a gauge of the worker.
    #[inline]
    pub fn set(&self, what: Io, to: u64) {
        self.shared.cells[what as usize].store(to, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn stage(&self, stage: usize, packets: u32, cycles: u64) {
        let at = self.stage_base + stage * PER_STAGE;
        self.bump(at, 1);
        self.bump(at + 1, packets.into());
        self.bump(at + 2, cycles);
    }

    #[inline]
    pub(crate) fn drop(&self, stage: usize, reason: Drop, bytes: usize) {
        debug_assert!(reason.number() < self.reasons, "a reason of no table in `Kind::DROPS`");
        let at = self.drop_base + (stage * self.reasons + reason.number()) * PER_DROP;
        self.bump(at, 1);
        self.bump(at + 1, bytes as u64);
    }

    /// Counts a drop that happens outside of any pipeline: in the worker, at a port, in the slow path.
    #[inline]
    pub fn drop_outside(&self, reason: Drop, bytes: usize) {
        self.drop(self.outside, reason, bytes);
    }

    /// Sets the packets that ports have lost for one of the reasons of [`Drop::BEFORE_RECEIVED`] and [`Drop::AFTER_SENT`].
    pub(crate) fn set_lost_at_ports(&self, reason: Drop, packets: u64) {
        let at = self.drop_base + (self.outside * self.reasons + reason.number()) * PER_DROP;
        self.shared.cells[at].store(packets, Ordering::Relaxed);
    }

    /// Counts a packet that ended in the slow path.
    #[inline]
    pub fn terminated(&self, punt: Punt) {
        self.terminated_all(punt, 1);
    }

    /// Counts so many packets that ended for the same reason.
    #[inline]
    pub fn terminated_all(&self, punt: Punt, packets: u32) {
        self.bump(self.punt_base + punt.number(), packets.into());
    }
}

/// A reader's end of a worker's statistics; stays valid after the worker has ended.
#[derive(Clone)]
pub struct StatsView {
    shared: Arc<Shared>,
}

/// A stage's line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StageRow {
    /// Which.
    pub stage: StageInfo,
    /// Times it ran.
    pub calls: u64,
    /// Packets that reached it.
    pub packets: u64,
    /// Cycles charged to it.
    pub cycles: u64,
}

impl StatsView {
    /// A number of the worker.
    pub fn io(&self, what: Io) -> u64 {
        self.shared.get(what as usize)
    }

    /// The stages that are on, in order.
    pub fn stages(&self) -> Vec<StageRow> {
        self.all_stages().into_iter().filter(|row| row.stage.is_on).collect()
    }

    /// All stages, in order. One that is off has the packets of the next one of its pipeline, as it lets all pass, and
    /// neither calls nor cycles: so tables of packets are the same whichever stages are on.
    pub fn all_stages(&self) -> Vec<StageRow> {
        let row = |(n, stage): (usize, &StageInfo)| {
            let at = self.shared.stage_at(n);
            StageRow {
                stage: stage.clone(),
                calls: self.shared.get(at),
                packets: self.shared.get(at + 1),
                cycles: self.shared.get(at + 2),
            }
        };
        let mut rows: Vec<_> = self.shared.layout.stages.iter().enumerate().map(row).collect();
        for n in (1..rows.len()).rev() {
            if !rows[n - 1].stage.is_on && rows[n].stage.pipeline == rows[n - 1].stage.pipeline {
                rows[n - 1].packets = rows[n].packets;
            }
        }
        rows
    }

    /// Every drop counter that moved: stage (`pipeline.stage`, or `worker`), reason, packets, bytes.
    pub fn drops(&self) -> Vec<(String, Reason<Drop>, u64, u64)> {
        let stages = &self.shared.layout.stages;
        let names = stages.iter().map(|s| format!("{}.{}", s.pipeline, s.name)).chain(["worker".to_owned()]);
        let mut rows = Vec::new();
        for (n, name) in names.enumerate() {
            for reason in &self.shared.drops {
                let at = self.shared.drop_at(n, reason.id.number());
                if self.shared.get(at) > 0 {
                    rows.push((name.clone(), *reason, self.shared.get(at), self.shared.get(at + 1)));
                }
            }
        }
        rows
    }

    /// Packets dropped, all reasons together.
    pub fn dropped(&self) -> u64 {
        (0..=self.shared.layout.stages.len())
            .flat_map(|stage| (0..self.shared.drops.len()).map(move |reason| (stage, reason)))
            .map(|(stage, reason)| self.shared.get(self.shared.drop_at(stage, reason)))
            .sum()
    }

    fn lost_at_ports(&self, reason: Drop) -> u64 {
        self.shared.get(self.shared.drop_at(self.shared.layout.stages.len(), reason.number()))
    }

    /// Every punt counter that moved.
    pub fn punts(&self) -> Vec<(Reason<Punt>, u64)> {
        let value = |punt: &Reason<Punt>| (*punt, self.shared.get(self.shared.punt_at(punt.id.number())));
        self.shared.punts.iter().map(value).filter(|(_, n)| *n > 0).collect()
    }

    /// Packets that ended in the slow path, all together.
    pub fn terminated(&self) -> u64 {
        (0..self.shared.punts.len()).map(|punt| self.shared.get(self.shared.punt_at(punt))).sum()
    }

    /// What went in less what came out or was named: 0 when the conservation law of packets holds. Exact only while
    /// the worker stands still.
    pub fn missing(&self) -> i64 {
        let io = |what| self.io(what) as i64;
        let lost = |reasons: &[Drop]| reasons.iter().map(|reason| self.lost_at_ports(*reason) as i64).sum::<i64>();
        let came = lost(&Drop::BEFORE_RECEIVED) + io(Io::RxPackets);
        let came = came + io(Io::Originated) + io(Io::Released) + io(Io::HandedIn);
        let sent = io(Io::TxPackets) - lost(&Drop::AFTER_SENT);
        let went = sent + io(Io::HandedOut) + self.dropped() as i64 + self.terminated() as i64;
        came - went
    }
}
