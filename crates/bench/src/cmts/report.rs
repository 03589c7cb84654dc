//! What a benchmark of the cable gateway found: the object every benchmark gives, and what is a cable gateway's own.

use std::collections::BTreeMap;

use engine::StageRow;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use table::hint::tsc_hz;
use traffic::{DirectionResult, LatencySummary};

use super::Trial;
use super::ends::{CableEnd, CableWindow};
use super::rates::Rates;
use super::settings::CableSettings;
use crate::cost::{Cost, StageCost};
use crate::host::{Host, date};
use crate::options::PortKind;
use crate::report::{LoadSource, Reference, Report, VERSION, Windows};
use crate::window::median;

/// The result. In memory rates are of the gateway's own time: what making and checking packets took is not in it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CableReport {
    /// The keys of every result; `gbps_l2` counts Ethernet frames on the network side.
    #[serde(flatten)]
    pub common: Report,
    /// A cable gateway's own.
    pub cable: Cable,
}

/// What only a cable gateway has.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Cable {
    /// Service groups.
    pub service_groups: u16,
    /// Modems of each.
    pub modems: u16,
    /// Channels of each: `ofdm6`, `ofdm2-scqam32`.
    pub channels: String,
    /// What encrypts.
    pub cipher: String,
    /// Gbit/s a service group, both directions together.
    pub gbps_per_service_group: f64,
    /// Cycles a downstream packet costs in all.
    pub downstream_cycles: f64,
    /// Of those, CRC32 and encryption: the stage `crc_encryption`.
    pub crypto_cycles: f64,
    /// And everything beyond: lookup, rules, queues, framing, encapsulation, routes, the worker's loop.
    pub beyond_crypto_cycles: f64,
    /// What the cipher alone takes for the same sizes, measured in turns with the gateway.
    pub cipher_alone_cycles: f64,
    /// `crypto_cycles` by `cipher_alone_cycles`.
    pub crypto_ratio: f64,
    /// Cycles an upstream packet costs.
    pub upstream_cycles: f64,
    /// Bits upstream for each bit downstream.
    pub upstream_ratio: f64,
    /// By how much the channel of a bonding group that got most, against its capacity, differs from the one that got
    /// least: the worst bonding group.
    pub channel_imbalance: f64,
    /// DEPI packets with 0 to 6, and with 7 and more segments.
    pub segments_per_packet: [u64; 8],
    /// Frames split over DEPI packets, of all.
    pub split_ratio: f64,
    /// Frames whose HCS, extended header, key or CRC was wrong, or that reached somebody else.
    pub wrong_frames: u64,
    /// What was wrong with them: frames by kind of fault.
    pub wrong: BTreeMap<String, u64>,
    /// Packets out of order within their service flow, both directions.
    pub reordered: u64,
    /// Other sizes.
    pub sweep: Vec<Sweep>,
    /// Rates of service flows.
    pub rates: Option<Rates>,
}

/// One size's line.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Sweep {
    /// Bytes of the Ethernet frames, with check sequence.
    pub bytes: u16,
    /// Millions of packets a second, both directions.
    pub mpps: f64,
    /// Gigabits a second.
    pub gbps_l2: f64,
    /// Cycles a downstream packet costs in all.
    pub downstream_cycles: f64,
    /// Of those, CRC32 and encryption.
    pub crypto_cycles: f64,
    /// And everything beyond.
    pub beyond_crypto_cycles: f64,
    /// What the cipher alone takes for that size.
    pub cipher_alone_cycles: f64,
    /// Packets lost.
    pub lost: u64,
}

impl Sweep {
    /// A report's line.
    pub fn of(bytes: u16, report: &CableReport) -> Self {
        let (common, cable) = (&report.common, &report.cable);
        Self {
            bytes,
            mpps: common.mpps,
            gbps_l2: common.gbps_l2,
            downstream_cycles: cable.downstream_cycles,
            crypto_cycles: cable.crypto_cycles,
            beyond_crypto_cycles: cable.beyond_crypto_cycles,
            cipher_alone_cycles: cable.cipher_alone_cycles,
            lost: common.directions.uplink.lost_packets + common.directions.downlink.lost_packets,
        }
    }
}

/// Pipelines and stages that downstream packets go through.
fn is_downstream(row: &StageRow) -> bool {
    match row.stage.pipeline {
        "downstream" | "mac" | "depi_tx" => true,
        "between" => matches!(row.stage.name, "upper_lower_mac_xfer" | "depi_encap"),
        _ => false,
    }
}

impl CableReport {
    /// From windows of the gateway and of the cipher alone.
    pub(super) fn of(
        settings: &CableSettings,
        port: PortKind,
        rig: &dyn Trial,
        windows: &[CableWindow],
        alone: &[(f64, f64)],
    ) -> Self {
        let hz = tsc_hz() as f64;
        let stages = Stages::of(windows);
        let alone = median(alone.iter().map(|(cycles, _)| *cycles));
        Self {
            common: common(settings, port, rig, windows, &stages, hz / alone),
            cable: cable(settings, rig, windows, &stages, alone),
        }
    }

    /// Takes over what the end brought to light.
    pub fn take_end(&mut self, end: CableEnd) {
        let ((sent, heard), (said, hosts)) = (end.down, end.up);
        let direction =
            |sent: u64, in_order: u64, reordered: u64, duplicated: u64, bytes: u64, latency: LatencySummary| {
                let forwarded = in_order + reordered;
                DirectionResult {
                    frame_bytes_mean: bytes as f64 / forwarded.max(1) as f64,
                    offered_packets: sent,
                    sent_packets: sent,
                    forwarded_packets: forwarded,
                    lost_packets: sent.saturating_sub(forwarded),
                    reordered_packets: reordered,
                    duplicated_packets: duplicated,
                    latency_us: latency,
                    ..DirectionResult::default()
                }
            };
        let [down, up] = end.latencies.each_ref().map(LatencySummary::from);
        let both = &mut self.common.directions;
        both.downlink = direction(sent, heard.in_order, heard.reordered, heard.duplicated, heard.bytes, down);
        both.uplink = direction(said.packets, hosts.in_order, hosts.reordered, hosts.duplicated, hosts.bytes, up);
        both.downlink.misdelivered_packets = heard.misdelivered;
        both.uplink.misdelivered_packets = hosts.misdelivered;
        both.downlink.corrupt_packets = heard.bad_crc + heard.bad_header;
        both.uplink.foreign_packets = hosts.foreign;
        let share = both.downlink.forwarded_packets as f64
            / (both.downlink.forwarded_packets + both.uplink.forwarded_packets).max(1) as f64;
        for (direction, share) in [(&mut both.downlink, share), (&mut both.uplink, 1.0 - share)] {
            direction.mpps = self.common.mpps * share;
            direction.gbps_l2 = direction.mpps * direction.frame_bytes_mean * 8.0 / 1e3;
        }
        let (all, lost) = (sent + said.packets, both.downlink.lost_packets + both.uplink.lost_packets);
        self.common.loss_ratio = lost as f64 / all.max(1) as f64;
        (self.common.frames_lost, self.common.packets_missing) = (end.frames_lost, end.packets_missing);
        self.common.drops = end.drops.into_iter().filter(|(_, n)| *n > 0).collect();
        let cable = &mut self.cable;
        cable.segments_per_packet = heard.segments_by_count;
        cable.split_ratio = heard.split as f64 / heard.frames.max(1) as f64;
        let hosts_wrong = [("upstream_misdelivered", hosts.misdelivered), ("upstream_damaged", hosts.foreign)];
        let wrong = heard.wrong().chain(hosts_wrong).filter(|(_, n)| *n > 0);
        cable.wrong = wrong.map(|(why, n)| (why.to_owned(), n)).collect();
        cable.wrong_frames = cable.wrong.values().sum();
        cable.reordered = heard.reordered + hosts.reordered + heard.late + end.unordered;
    }
}

/// What windows have in common, summed over them.
struct Stages {
    rows: Vec<StageRow>,
    /// Cycles charged to any stage.
    everything: f64,
    /// Cycles that a packet costs by cycles that stages were charged: what is charged to no stage (the worker's loop, timers)
    /// is borne by stages in proportion.
    spread: f64,
}

impl Stages {
    fn of(windows: &[CableWindow]) -> Self {
        let mut rows = windows.first().map(|w| w.stages.clone()).unwrap_or_default();
        for window in windows.iter().skip(1) {
            for (row, more) in rows.iter_mut().zip(&window.stages) {
                row.calls += more.calls;
                row.packets += more.packets;
                row.cycles += more.cycles;
            }
        }
        let everything = (rows.iter().map(|row| row.cycles).sum::<u64>() as f64).max(1.0);
        let spread = sum(windows, |w| w.cycles) as f64 / everything;
        Self { rows, everything, spread }
    }

    /// Cycles charged to some stages.
    fn charged(&self, of: impl Fn(&StageRow) -> bool) -> f64 {
        self.rows.iter().filter(|row| of(row)).map(|row| row.cycles).sum::<u64>() as f64
    }
}

fn sum(windows: &[CableWindow], of: impl Fn(&CableWindow) -> u64) -> u64 {
    windows.iter().map(of).sum()
}

/// Packets of a window that arrived in order, both directions.
fn packets(window: &CableWindow) -> u64 {
    window.heard.in_order + window.up.in_order
}

fn gbps(windows: &[CableWindow]) -> f64 {
    median(windows.iter().map(|w| (w.heard.bytes + w.up.bytes) as f64 * 8.0 / w.time / 1e9))
}

/// What a packet costs: receive, processing, transmit, and each stage.
fn cost(windows: &[CableWindow], stages: &Stages) -> Cost {
    let hz = tsc_hz() as f64;
    let all = sum(windows, packets).max(1) as f64;
    let ns = |cycles: u64| cycles as f64 / all * 1e9 / hz;
    let (cycles, pipelines) = (sum(windows, |w| w.cycles), sum(windows, |w| w.pipelines));
    let [receive, transmit] = [0, 1].map(|n: usize| sum(windows, |w| w.doors[n]));
    let stage = |row: &StageRow| StageCost {
        direction: row.stage.pipeline.to_owned(),
        name: row.stage.name.to_owned(),
        packets: row.packets,
        cycles_per_packet: row.cycles as f64 / row.packets as f64,
        ns_per_packet: row.cycles as f64 / row.packets as f64 * 1e9 / hz,
        packets_per_call: row.packets as f64 / row.calls.max(1) as f64,
    };
    Cost {
        trx_ns: ns(receive),
        tc_ns: ns(pipelines),
        ttx_ns: ns(transmit),
        other_ns: ns(cycles.saturating_sub(pipelines + receive + transmit)),
        tp_ns: ns(cycles),
        cycles_per_packet: cycles as f64 / all,
        tsc_hz: hz,
        stages_ns: ns(stages.everything as u64),
        stages: stages.rows.iter().filter(|row| row.packets > 0).map(stage).collect(),
        ..Cost::default()
    }
}

/// The keys of every result; the cipher alone does `alone_pps` packets a second.
fn common(
    settings: &CableSettings,
    port: PortKind,
    rig: &dyn Trial,
    windows: &[CableWindow],
    stages: &Stages,
    alone_pps: f64,
) -> Report {
    let mpps: Vec<f64> = windows.iter().map(|w| packets(w) as f64 / w.time / 1e6).collect();
    let both_mpps = median(mpps.iter().copied());
    let utilisation = median(windows.iter().map(|w| w.utilisation));
    let saturates = utilisation > 0.97;
    let busy = if saturates || utilisation <= 0.0 { 1.0 } else { utilisation };
    let scheduling = if windows.iter().all(|w| w.urgent) { "fifo" } else { "ordinary" };
    Report {
        schema: 1,
        profile: "cmts-imix".into(),
        gateway: "cmts".into(),
        port: port.name().into(),
        workers: 1,
        instances: 1,
        seconds: windows.iter().map(|w| w.seconds).sum(),
        subscribers: settings.subscribers().into(),
        flows: settings.flows(),
        mpps: both_mpps,
        gbps_l2: gbps(windows),
        cost: cost(windows, stages),
        reference: Reference {
            name: format!("{}, alone", rig.cipher()),
            mpps: alone_pps / 1e6,
            gbps_l2: alone_pps * bits_mean(windows) * 8.0 / 1e9,
            ratio: both_mpps * 1e6 / alone_pps,
            ..Reference::default()
        },
        bytes_per_subscriber: rig.bytes() as f64 / f64::from(settings.subscribers().max(1)),
        allocations_per_packet: sum(windows, |w| w.allocations) as f64 / sum(windows, packets).max(1) as f64,
        load: LoadSource {
            source: "generator".into(),
            saturates,
            busy_mpps: both_mpps / busy,
            ..LoadSource::default()
        },
        windows: Windows {
            count: windows.len(),
            mpps_min: mpps.iter().copied().fold(f64::INFINITY, f64::min),
            mpps_max: mpps.iter().copied().fold(0.0, f64::max),
            mpps,
            ..Windows::default()
        },
        worker_utilisation: vec![utilisation],
        host: Host { nic: rig.nic(), scheduling: scheduling.into(), ..Host::this() },
        date: date(),
        version: VERSION.to_owned(),
        ..Report::default()
    }
}

/// A cable gateway's own keys; the cipher alone takes `alone` cycles a packet.
fn cable(settings: &CableSettings, rig: &dyn Trial, windows: &[CableWindow], stages: &Stages, alone: f64) -> Cable {
    let down = sum(windows, |w| w.heard.in_order).max(1) as f64;
    let up = sum(windows, |w| w.up.in_order).max(1) as f64;
    let downstream = stages.charged(is_downstream);
    let crypto = stages.charged(|row| row.stage.name == "crc_encryption") / down;
    let downstream_cycles = downstream * stages.spread / down;
    Cable {
        service_groups: settings.groups,
        modems: settings.modems,
        channels: settings.channels.name().to_owned(),
        cipher: rig.cipher().to_owned(),
        gbps_per_service_group: gbps(windows) / f64::from(settings.groups),
        downstream_cycles,
        crypto_cycles: crypto,
        beyond_crypto_cycles: downstream_cycles - crypto,
        cipher_alone_cycles: alone,
        crypto_ratio: crypto / alone,
        upstream_cycles: (stages.everything - downstream) * stages.spread / up,
        upstream_ratio: sum(windows, |w| w.up.bytes) as f64 / sum(windows, |w| w.heard.bytes).max(1) as f64,
        channel_imbalance: imbalance(settings, windows),
        ..Cable::default()
    }
}

/// Mean size of downstream frames, in bytes.
fn bits_mean(windows: &[CableWindow]) -> f64 {
    let bytes: u64 = windows.iter().map(|w| w.down.1).sum();
    bytes as f64 / windows.iter().map(|w| w.down.0).sum::<u64>().max(1) as f64
}

/// See [`Cable::channel_imbalance`].
fn imbalance(settings: &CableSettings, windows: &[CableWindow]) -> f64 {
    let groups = settings.channels.bonding_groups();
    let capacities = settings.channels.each();
    let bytes = |sg: usize, channel: usize| {
        let of = |w: &CableWindow| {
            w.channels.iter().find(|(key, _)| *key == (sg as u16, channel as u16)).map_or(0, |(_, bytes)| *bytes)
        };
        windows.iter().map(of).sum::<u64>() as f64
    };
    let mut worst: f64 = 0.0;
    for sg in 0..usize::from(settings.groups) {
        for group in &groups {
            let loads: Vec<f64> = group.iter().map(|channel| bytes(sg, *channel) / capacities[*channel]).collect();
            let (least, most) =
                (loads.iter().copied().fold(f64::MAX, f64::min), loads.iter().copied().fold(0.0, f64::max));
            if most > 0.0 {
                worst = worst.max((most - least) / most);
            }
        }
    }
    worst
}
