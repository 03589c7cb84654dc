//! What a worker's statistics say, and the difference between two readings.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use engine::{Io, StageRow, StatsView};
use table::hint::tsc;

use crate::under_test::FarCycles;

/// A reading of a worker's statistics.
#[derive(Clone, Debug)]
pub struct Sample {
    tsc: u64,
    io: [u64; Io::COUNT],
    stages: Vec<StageRow>,
    drops: BTreeMap<String, u64>,
    /// Of far ends on the worker's thread: receiving, sending, receiving nothing.
    far: [u64; 3],
}

impl Sample {
    /// Reads them. Exact when done by the worker's own thread.
    pub fn take(view: &StatsView) -> Self {
        let mut io = [0; Io::COUNT];
        for what in Io::ALL {
            io[*what as usize] = view.io(*what);
        }
        let mut drops = BTreeMap::new();
        for (stage, reason, packets, _) in view.drops() {
            drops.insert(format!("{stage}.{}", reason.name()), packets);
        }
        Self { tsc: tsc(), io, stages: view.stages(), drops, far: [0; 3] }
    }

    /// The same where far ends on the worker's thread are not to be in its cycles.
    pub(crate) fn take_apart(view: &StatsView, far: &FarCycles) -> Self {
        Self { far: [0, 1, 2].map(|n: usize| far[n].load(Ordering::Relaxed)), ..Self::take(view) }
    }

    /// What happened from `earlier` until this.
    pub fn since(&self, earlier: &Self) -> Delta {
        let stages = self.stages.iter().zip(&earlier.stages).map(|(now, then)| StageRow {
            stage: now.stage.clone(),
            calls: now.calls - then.calls,
            packets: now.packets - then.packets,
            cycles: now.cycles - then.cycles,
        });
        let before = |name: &String| earlier.drops.get(name).copied().unwrap_or(0);
        let drops = self.drops.iter().map(|(name, n)| (name.clone(), n - before(name))).filter(|(_, n)| *n > 0);
        let [made, checked, idle] = [0, 1, 2].map(|n: usize| self.far[n] - earlier.far[n]);
        let mut io: [u64; Io::COUNT] = std::array::from_fn(|i| self.io[i].wrapping_sub(earlier.io[i]));
        let far = [(Io::RxCycles, made.saturating_sub(idle)), (Io::TxCycles, checked), (Io::IdleCycles, idle)];
        for (what, far) in far {
            io[what as usize] = io[what as usize].saturating_sub(far);
        }
        let far_cycles = made + checked;
        Delta {
            cycles: self.tsc.wrapping_sub(earlier.tsc).saturating_sub(far_cycles),
            far_cycles,
            io,
            stages: stages.collect(),
            drops: drops.collect(),
        }
    }
}

/// What a worker did between two readings.
#[derive(Clone, Debug, Default)]
pub struct Delta {
    /// Cycles that passed.
    pub cycles: u64,
    /// Cycles of far ends on its thread that are told apart; in no other number.
    pub far_cycles: u64,
    io: [u64; Io::COUNT],
    /// Its stages.
    pub stages: Vec<StageRow>,
    /// Packets dropped, by `pipeline.stage.reason`.
    pub drops: BTreeMap<String, u64>,
}

impl Delta {
    /// A number of the worker; meaningless for gauges.
    pub fn io(&self, what: Io) -> u64 {
        self.io[what as usize]
    }

    #[cfg(test)]
    pub(crate) fn put(&mut self, what: Io, n: u64) {
        self.io[what as usize] = n;
    }

    /// Cycles in turns that moved packets.
    pub(crate) fn busy_cycles(&self) -> u64 {
        [Io::RxCycles, Io::PipelineCycles, Io::TxCycles, Io::OtherCycles].iter().map(|what| self.io(*what)).sum()
    }

    /// The part of its time, 0 to 1, that it was busy with packets.
    pub fn utilisation(&self) -> f64 {
        let (busy, idle) = (self.busy_cycles() as f64, self.io(Io::IdleCycles) as f64);
        if busy + idle > 0.0 { busy / (busy + idle) } else { 0.0 }
    }

    /// Adds what another worker of the same gateway, or the same in another window, did.
    pub fn add(&mut self, other: &Self) {
        self.cycles += other.cycles;
        self.far_cycles += other.far_cycles;
        for (sum, n) in self.io.iter_mut().zip(other.io) {
            *sum = sum.wrapping_add(n);
        }
        if self.stages.is_empty() {
            self.stages.clone_from(&other.stages);
        } else {
            for (sum, row) in self.stages.iter_mut().zip(&other.stages) {
                sum.calls += row.calls;
                sum.packets += row.packets;
                sum.cycles += row.cycles;
            }
        }
        for (name, n) in &other.drops {
            *self.drops.entry(name.clone()).or_default() += n;
        }
    }
}

#[cfg(test)]
mod tests {
    use engine::{Layout, Stats};

    use super::*;

    #[test]
    fn far_ends_are_in_no_cycles() {
        let stats = Stats::new(Layout::default());
        let far = FarCycles::default();
        let before = Sample::take_apart(&stats.view(), &far);
        let spent = [(Io::RxCycles, 850), (Io::PipelineCycles, 100), (Io::TxCycles, 500), (Io::IdleCycles, 70)];
        for (what, cycles) in spent {
            stats.add(what, cycles);
        }
        far[0].store(800, Ordering::Relaxed);
        far[1].store(700, Ordering::Relaxed);
        far[2].store(50, Ordering::Relaxed);
        let after = Sample::take_apart(&stats.view(), &far);
        let mut done = after.since(&before);
        let passed = after.tsc - before.tsc;
        assert_eq!((done.io(Io::RxCycles), done.io(Io::TxCycles), done.busy_cycles()), (100, 0, 200));
        assert_eq!(done.io(Io::IdleCycles), 20);
        assert_eq!((done.cycles, done.far_cycles), (passed.saturating_sub(1500), 1500));
        done.add(&done.clone());
        assert_eq!(done.far_cycles, 3000);
    }
}
