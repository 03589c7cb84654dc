//! What a packet costs, and where.

use engine::Io;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::sample::Delta;
use crate::window::{Window, median};

/// Cost of a packet by where it arises; nanoseconds of the gateway's thread.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Cost {
    /// Receiving.
    pub trx_ns: f64,
    /// Pipelines, with the worker's part of carrying bursts through them.
    pub tc_ns: f64,
    /// Sending, and servicing ports after it.
    pub ttx_ns: f64,
    /// Everything else: commands, timers, slow path, statistics.
    pub other_ns: f64,
    /// All of it.
    pub tp_ns: f64,
    /// All of it in cycles.
    pub cycles_per_packet: f64,
    /// What a cycle is: ticks of the time stamp counter a second.
    pub tsc_hz: f64,
    /// The part of `tc_ns` that is charged to stages.
    pub stages_ns: f64,
    /// `tc_ns` in the quietest tenth of the windows: what it is when nobody else has the machine's caches and memory.
    pub tc_quiet_ns: f64,
    /// `tc_ns` in cycles of the core's own clock: what it comes to whatever clock the machine gave; the median over
    /// windows. None where that clock cannot be told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tc_core_cycles: Option<f64>,
    /// `tc_quiet_ns` in cycles of the clock that the core had in that window.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tc_quiet_core_cycles: Option<f64>,
    /// Packets received at a time, on average.
    pub packets_per_turn: f64,
    /// Every stage that packets reached.
    pub stages: Vec<StageCost>,
    /// What the medians are of.
    #[serde(default)]
    pub samples: CostSamples,
}

/// Costs of single windows, in the order they were played.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct CostSamples {
    /// Pipelines, ns.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tc_ns: Vec<f64>,
    /// All of it, ns.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tp_ns: Vec<f64>,
    /// All of it in cycles.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cycles_per_packet: Vec<f64>,
    /// Pipelines in cycles of the core's own clock; empty where that cannot be told.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tc_core_cycles: Vec<f64>,
}

/// One stage's line.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StageCost {
    /// Its pipeline: `uplink`, `downlink`, `released`.
    pub direction: String,
    /// Its name.
    pub name: String,
    /// Packets that reached it.
    pub packets: u64,
    /// For each of those.
    pub cycles_per_packet: f64,
    /// For each of those.
    pub ns_per_packet: f64,
    /// Packets at a time, on average.
    pub packets_per_call: f64,
    /// `cycles_per_packet` of single windows.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub samples: Vec<f64>,
}

/// What a gateway's workers did together in the measured part of a window.
pub fn together(window: &Window) -> Delta {
    let mut sum = Delta::default();
    window.workers.iter().for_each(|slice| sum.add(&slice.measured));
    sum
}

impl Cost {
    /// Medians over windows; all zeroes of none. Windows without packets don't count.
    pub fn of(windows: &[Window]) -> Self {
        Self::by(windows, |_, delta| delta.io(Io::RxPackets))
    }

    /// The same by other packets than those that the workers received: `packets` of a window.
    pub(crate) fn by(windows: &[Window], packets: fn(&Window, &Delta) -> u64) -> Self {
        let hz = table::hint::tsc_hz() as f64;
        let counted = |window| {
            let delta = together(window);
            let packets = packets(window, &delta);
            (packets > 0).then_some((delta, packets as f64, window))
        };
        let busy: Vec<_> = windows.iter().filter_map(counted).collect();
        // What pipelines took of each window's packets, in ticks; and of ticks, how many cycles of the core each was.
        let tc: Vec<(f64, Option<f64>)> = busy
            .iter()
            .map(|(delta, packets, window)| {
                (delta.io(Io::PipelineCycles) as f64 / packets, window.core_hz().map(|core| core / hz))
            })
            .collect();
        let (quiet, quiet_pace) = tenth(tc.clone());
        let in_core_cycles: Option<Vec<f64>> = tc.iter().map(|(ticks, pace)| Some(ticks * (*pace)?)).collect();
        let cycles =
            |of: &dyn Fn(&Delta) -> u64| median(busy.iter().map(|(delta, packets, _)| of(delta) as f64 / packets));
        let ns = |cycles: f64| cycles * 1e9 / hz;
        let part = |what: Io| ns(cycles(&|delta| delta.io(what)));
        // A port serviced after it was sent to is still sending.
        let trx_ns = ns(cycles(&|delta| delta.io(Io::RxCycles)));
        let ttx_ns = ns(cycles(&|delta| delta.io(Io::TxCycles)));
        let (tc_ns, other_ns) = (part(Io::PipelineCycles), part(Io::OtherCycles));
        let tp_ns = trx_ns + tc_ns + ttx_ns + other_ns;
        let spent = |delta: &Delta, packets: f64| {
            let all = [Io::RxCycles, Io::PipelineCycles, Io::TxCycles, Io::OtherCycles];
            all.iter().map(|what| delta.io(*what)).sum::<u64>() as f64 / packets
        };
        let tp: Vec<f64> = busy.iter().map(|(delta, packets, _)| spent(delta, *packets)).collect();
        let samples = CostSamples {
            tc_ns: tc.iter().map(|(ticks, _)| ns(*ticks)).collect(),
            tp_ns: tp.iter().map(|ticks| ns(*ticks)).collect(),
            cycles_per_packet: tp,
            tc_core_cycles: in_core_cycles.clone().unwrap_or_default(),
        };
        let deltas = || busy.iter().map(|(delta, ..)| delta);
        let first = deltas().next().map(|delta| delta.stages.as_slice()).unwrap_or_default();
        let stage = |n: usize| {
            let rows = || deltas().filter_map(|delta| delta.stages.get(n)).filter(|row| row.packets > 0);
            let samples: Vec<f64> = rows().map(|row| row.cycles as f64 / row.packets as f64).collect();
            let cycles = median(samples.iter().copied());
            StageCost {
                direction: first[n].stage.pipeline.to_owned(),
                name: first[n].stage.name.to_owned(),
                packets: rows().map(|row| row.packets).sum(),
                cycles_per_packet: cycles,
                ns_per_packet: ns(cycles),
                packets_per_call: median(rows().map(|row| row.packets as f64 / row.calls.max(1) as f64)),
                samples,
            }
        };
        Self {
            trx_ns,
            tc_ns,
            ttx_ns,
            other_ns,
            tp_ns,
            cycles_per_packet: tp_ns * hz / 1e9,
            tsc_hz: hz,
            stages_ns: ns(cycles(&|delta| delta.stages.iter().map(|row| row.cycles).sum())),
            tc_quiet_ns: ns(quiet),
            tc_core_cycles: in_core_cycles.filter(|each| !each.is_empty()).map(median),
            tc_quiet_core_cycles: quiet_pace.map(|pace| quiet * pace),
            packets_per_turn: median(deltas().map(|d| d.io(Io::RxPackets) as f64 / d.io(Io::BusyTurns).max(1) as f64)),
            stages: (0..first.len()).map(stage).filter(|row| row.packets > 0).collect(),
            samples,
        }
    }
}

impl Cost {
    /// What so many cycles of the core take at the machine's nominal clock, in nanoseconds: the clock its time stamp
    /// counter ticks by.
    pub(crate) fn at_nominal_clock(&self, core_cycles: f64) -> f64 {
        core_cycles * 1e9 / self.tsc_hz.max(1.0)
    }
}

/// The number that a tenth of them does not exceed, with what goes with it; 0 of none.
fn tenth(mut numbers: Vec<(f64, Option<f64>)>) -> (f64, Option<f64>) {
    numbers.sort_by(|a, b| a.0.total_cmp(&b.0));
    numbers.get(numbers.len().saturating_sub(1) / 10).copied().unwrap_or_default()
}
