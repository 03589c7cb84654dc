//! What a worker has counted, by modem, service flow and channel. Control makes the room, the worker fills it in.

use crate::depi::WireCounts;
use crate::grants::GrantCounts;
use crate::lane::{Counts, State};
use crate::upstream::{ClusterCounts, UnitCounts};
use dataplane::hqos::FlowCounts;

/// A modem's line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModemRow {
    /// Its number.
    pub modem: u32,
    /// Its service group.
    pub service_group: u16,
    /// Hosts behind it.
    pub hosts: u16,
    /// Packets downstream and upstream.
    pub packets: [u64; 2],
    /// Bytes of IP packets downstream and upstream.
    pub bytes: [u64; 2],
    /// Sequence number of the key it is sent to by; none: in clear.
    pub key: Option<u8>,
}

/// A service flow's line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FlowRow {
    /// Its number.
    pub flow: u32,
    /// Whose it is.
    pub modem: u32,
    /// Packets and bytes that wait.
    pub waiting: (u32, u32),
    /// Drop probability of its queue management.
    pub probability: f32,
    /// What it has counted.
    pub counts: FlowCounts,
}

/// A channel's line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChannelRow {
    /// Its number on all workers.
    pub channel: u16,
    /// MAC frames given to it, and their bytes.
    pub packets: u64,
    /// See `packets`.
    pub bytes: u64,
    /// Times it was chosen after another.
    pub selects: u64,
    /// What its pseudowire has counted.
    pub wire: WireCounts,
}

/// All of a worker's counts that are no drops.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// When, in nanoseconds of the worker's clock.
    pub now: u64,
    /// Modems, as many as there was room for.
    pub modems: Vec<ModemRow>,
    /// Service flows.
    pub flows: Vec<FlowRow>,
    /// Channels.
    pub channels: Vec<ChannelRow>,
    /// Grants by service group.
    pub grants: Vec<GrantCounts>,
    /// Lookups, filters, classifiers.
    pub counts: Counts,
    /// Upstream pseudowires.
    pub units: UnitCounts,
    /// SID clusters.
    pub clusters: ClusterCounts,
}

impl Report {
    /// Room for so many lines; what is more is left out.
    pub fn with_room(modems: usize, flows: usize, channels: usize, groups: usize) -> Self {
        Self {
            modems: Vec::with_capacity(modems),
            flows: Vec::with_capacity(flows),
            channels: Vec::with_capacity(channels),
            grants: Vec::with_capacity(groups),
            ..Self::default()
        }
    }

    /// Fills it in; nothing is allocated.
    pub fn fill(&mut self, state: &State, now: u64) {
        self.now = now;
        self.counts = state.counts;
        (self.units, self.clusters) = state.upstream.counts();
        let modems = state.modems.all().iter().enumerate().filter(|(_, modem)| modem.in_use);
        push(&mut self.modems, modems, |(n, modem)| ModemRow {
            modem: n as u32,
            service_group: modem.service_group,
            hosts: modem.hosts,
            packets: modem.packets,
            bytes: modem.bytes,
            key: state.modems.security(n as u32).map(|security| security.active),
        });
        let flows = state.scheduler.flows().iter().enumerate().filter(|(_, flow)| flow.in_use);
        push(&mut self.flows, flows, |(n, flow)| FlowRow {
            flow: n as u32,
            modem: flow.label.modem,
            waiting: (flow.packets, flow.bytes),
            probability: flow.terms.pie.probability(),
            counts: flow.counts,
        });
        push(&mut self.channels, state.scheduler.links().loads().iter().enumerate(), |(n, load)| ChannelRow {
            channel: n as u16,
            packets: load.packets,
            bytes: load.bytes,
            selects: load.selects,
            wire: state.depi.counts(n).copied().unwrap_or_default(),
        });
        push(&mut self.grants, state.upstream.grants.iter(), |grants| grants.counts());
    }
}

/// Writes rows as far as there is room.
fn push<T, R>(rows: &mut Vec<R>, from: impl Iterator<Item = T>, row: impl Fn(T) -> R) {
    rows.clear();
    let room = rows.capacity();
    for item in from.take(room) {
        rows.push(row(item));
    }
}
