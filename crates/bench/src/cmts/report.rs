//! What a benchmark of the cable gateway found: the object every benchmark gives, and what is a cable gateway's own.

use std::collections::BTreeMap;

use engine::StageRow;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use table::hint::tsc_hz;
use traffic::{DirectionResult, Directions, LatencySummary};

use super::differences::Difference;
use super::ends::Totals;
use super::rates::Rates;
use super::rig::CableRig;
use super::settings::CableSettings;
use super::standing::{Matches, Queues, ServiceFlows};
use crate::cost::{Cost, together};
use crate::report::{Reference, Report, Windows, together_traffic};
use crate::sample::Delta;
use crate::window::Window;

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
    /// What the cipher's library alone takes for the same sizes, called without the gateway's engine, measured in turns
    /// with the gateway.
    pub cipher_alone_cycles: f64,
    /// The same of the gateway's engine with its queue of jobs around the library.
    #[serde(default)]
    pub engine_alone_cycles: f64,
    /// `crypto_cycles` by `cipher_alone_cycles`; without traffic downstream, `decryption_cycles` by those.
    pub crypto_ratio: f64,
    /// Cycles an upstream packet costs.
    pub upstream_cycles: f64,
    /// Of those, decryption: the stage `decryption`.
    #[serde(default)]
    pub decryption_cycles: f64,
    /// Bits upstream for each bit downstream.
    pub upstream_ratio: f64,
    /// What it was set to; none: there was no traffic downstream.
    #[serde(default)]
    pub upstream_ratio_set: Option<f64>,
    /// Why `upstream_ratio` is not what it was set to; empty: it is, within 3 %.
    #[serde(default)]
    pub upstream_limited_by: String,
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
    /// What service flows were given.
    #[serde(default)]
    pub service_flows: ServiceFlows,
    /// What came of their queues.
    #[serde(default)]
    pub queues: Queues,
    /// What came of filter groups and classifiers.
    #[serde(default)]
    pub matches: Matches,
    /// Packets lost that no queue of an overloaded service flow dropped.
    #[serde(default)]
    pub lost_unexpectedly: u64,
    /// What is not alike with the published measurement.
    #[serde(default)]
    pub differences: Vec<Difference>,
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
    /// Packets lost, but those that queues of overloaded service flows dropped.
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
            lost: cable.lost_unexpectedly,
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
        mut common: Report,
        rig: &CableRig<'_>,
        cipher: &str,
        windows: &[Window],
        [library, engine]: [&[Window]; 2],
    ) -> Self {
        common.take_by(windows, |window, _| {
            let Directions { uplink, downlink } = &window.traffic.directions;
            uplink.forwarded_packets + downlink.forwarded_packets
        });
        let hz = tsc_hz() as f64;
        let [alone, engine] = [library, engine].map(|windows| together_traffic(windows).mpps);
        // Keys that results of this workload have not had.
        common.cost = Cost {
            tc_quiet_ns: 0.0,
            tc_core_cycles: None,
            tc_quiet_core_cycles: None,
            packets_per_turn: 0.0,
            ..common.cost
        };
        let Windows { count, mpps_min, mpps_max, mpps, .. } = common.windows;
        common.windows = Windows { count, mpps_min, mpps_max, mpps, ..Windows::default() };
        (common.host.core_ghz, common.host.core_ghz_quiet) = (None, None);
        "generator".clone_into(&mut common.load.source);
        common.host.nic.clone_from(&rig.nic);
        common.bytes_per_subscriber = rig.bytes as f64 / f64::from(settings.subscribers().max(1));
        common.reference = Reference {
            name: format!("{cipher}, alone"),
            mpps: alone,
            gbps_l2: alone * settings.ciphered().mean() * 8.0 / 1e3,
            ratio: common.mpps / alone,
            ..Reference::default()
        };
        let cycles = [alone, engine].map(|mpps| hz / mpps / 1e6);
        let cable = cable(settings, cipher, windows, common.gbps_l2, cycles);
        Self { common, cable }
    }

    /// Takes over what the end brought to light.
    pub(super) fn take_end(&mut self, settings: &CableSettings, queue_drops: u64, end: Totals) {
        let expected = end.expected(queue_drops);
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
        let bytes = heard.bytes.saturating_sub(heard.early_bytes);
        both.downlink = direction(sent, heard.in_order, heard.reordered, heard.duplicated, bytes, down);
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
        self.cable.lost_unexpectedly = self.common.lost_packets().saturating_sub(expected);
        self.common.loss_ratio = self.common.lost_packets() as f64 / (sent + said.packets).max(1) as f64;
        let cable = &mut self.cable;
        // Both from the time that counting began; what waited then arrives beside, and as much waits at the end.
        cable.upstream_ratio = hosts.bytes as f64 / heard.bytes.max(1) as f64;
        cable.channel_imbalance = imbalance(settings, &end.channels);
        cable.segments_per_packet = heard.segments_by_count;
        cable.split_ratio = heard.split as f64 / heard.frames.max(1) as f64;
        let hosts_wrong = [("upstream_misdelivered", hosts.misdelivered), ("upstream_damaged", hosts.foreign)];
        let wrong = heard.wrong().chain(hosts_wrong).filter(|(_, n)| *n > 0);
        cable.wrong = wrong.map(|(why, n)| (why.to_owned(), n)).collect();
        cable.wrong_frames = cable.wrong.values().sum();
        cable.reordered = heard.reordered + hosts.reordered + heard.late + end.unordered;
    }
}

/// A cable gateway's own keys, from windows in which `gbps` were forwarded; `alone`: cycles that the library and the
/// engine take for a packet.
fn cable(settings: &CableSettings, cipher: &str, windows: &[Window], gbps: f64, alone: [f64; 2]) -> Cable {
    let mut all = Delta::default();
    windows.iter().for_each(|window| all.add(&together(window)));
    let Directions { uplink, downlink } = together_traffic(windows).directions;
    // Without traffic downstream there are no such costs, only what channels and queues look for.
    let [up, down] = [uplink, downlink].map(|direction| match direction.forwarded_packets {
        0 => f64::INFINITY,
        packets => packets as f64,
    });
    let charged = |of: &dyn Fn(&StageRow) -> bool| {
        all.stages.iter().filter(|row| of(row)).map(|row| row.cycles).sum::<u64>() as f64
    };
    let (downstream, everything) = (charged(&is_downstream), charged(&|_| true).max(1.0));
    // What is charged to no stage (the worker's loop, timers) is borne by stages in proportion.
    let spread = all.busy_cycles() as f64 / everything;
    let crypto = charged(&|row| row.stage.name == "crc_encryption") / down;
    let decryption = charged(&|row| row.stage.name == "decryption") / up;
    let downstream_cycles = downstream * spread / down;
    Cable {
        service_groups: settings.groups,
        modems: settings.modems,
        channels: settings.channels.name().to_owned(),
        cipher: cipher.to_owned(),
        gbps_per_service_group: gbps / f64::from(settings.groups),
        downstream_cycles,
        crypto_cycles: crypto,
        beyond_crypto_cycles: downstream_cycles - crypto,
        cipher_alone_cycles: alone[0],
        engine_alone_cycles: alone[1],
        crypto_ratio: if settings.downstream { crypto } else { decryption } / alone[0],
        decryption_cycles: decryption,
        upstream_cycles: (everything - downstream) * spread / up,
        upstream_ratio_set: settings.downstream.then_some(settings.upstream),
        service_flows: ServiceFlows::of(settings),
        ..Cable::default()
    }
}

/// See [`Cable::channel_imbalance`].
fn imbalance(settings: &CableSettings, carried: &[((u16, u16), u64)]) -> f64 {
    let groups = settings.channels.bonding_groups();
    let capacities = settings.channels.each();
    let bytes = |sg: usize, channel: usize| {
        carried.iter().find(|(key, _)| *key == (sg as u16, channel as u16)).map_or(0.0, |(_, bytes)| *bytes as f64)
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
