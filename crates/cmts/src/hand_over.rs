//! A worker's state on its way to the worker of another process, which goes on for this one.
//!
//! ```text
//! of a modem:    packets down, up (16) | bytes down, up (16)
//!                  | flows (1), of each: place (1) | number of its next packet (2) | earned and counted (8 each)
//!                  | clusters (1), of each: first SID (2) | counts (48) | next segment (2) | begun (1)
//!                    | frame so far (4 + n)
//! pseudowire:    session (4) | next packet (2) | begun (1) | header of the burst (8) | burst so far (4 + n)
//! segment:       service group (2) | first SID (2) | number (2) | since (8) | segment (4 + n)
//! in a queue:    service flow (4) | since (8) | frame (4 + n)
//! ```
//! Modems, their hosts, keys, service flows and clusters are told before by [`crate::standby::ExportedState`]; this is
//! what a worker has added. Pseudowires, channels and grants are few and go at the end.

use std::collections::HashMap;

use dataplane::hqos::FLOW_WORDS;
use dataplane::slow::destination;
use engine::Env;
use gateway::shell::hand_over::octets::{In, each_record, garbled, put, section};
use serde::{Deserialize, Serialize};
use wire::{L3L4, ccf, uepi};

use crate::channels::LoadState;
use crate::depi::WireCounts;
use crate::gateway::CableGateway;
use crate::grants::GrantState;
use crate::lane::{Counts, State};
use crate::modems::MAX_FLOWS;
use crate::upstream::{ClusterCounts, UnitCounts};

/// Changes with what is written here.
pub const LAYOUT: u64 = {
    // To be increased when that changes, or its meaning, and no size does.
    let meaning = 1;
    let sizes = [size_of::<ClusterCounts>(), size_of::<UnitCounts>(), size_of::<GrantState>(), size_of::<WireCounts>()];
    let (mut sum, mut at) = (meaning, 0);
    while at < sizes.len() {
        sum = sum * 4099 + sizes[at] as u64;
        at += 1;
    }
    sum
};

/// What a worker is asked while another process takes over.
#[derive(Debug)]
pub enum Handing {
    /// Begin to note which modems change; all count as changed. Or no longer.
    Follow(bool),
    /// Export some modems that have changed: `left` have, as far as is known, and afterwards.
    Modems {
        /// How many are left.
        left: usize,
        /// What is exported.
        out: Vec<u8>,
    },
}

/// What is few: channels, pseudowires, grants, counts.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Few {
    channels: Vec<ChannelState>,
    /// By session number.
    units: Vec<(u32, UnitCounts)>,
    grants: Vec<GrantState>,
    counts: Counts,
}

/// A downstream channel.
#[derive(Debug, Serialize, Deserialize)]
struct ChannelState {
    /// The number of its next DEPI packet.
    sequence: u16,
    load: LoadState,
    wire: WireCounts,
}

/// A number that stands for none.
const NO_SEGMENT: u16 = u16::MAX;
const _: () = assert!(ccf::SEQUENCES < NO_SEGMENT);

fn put_words(out: &mut Vec<u8>, words: &[u64]) {
    words.iter().for_each(|word| out.extend(word.to_le_bytes()));
}

fn words<const N: usize>(input: &mut In<'_>) -> Option<[u64; N]> {
    let mut words = [0; N];
    for word in &mut words {
        *word = input.number::<8>()?;
    }
    Some(words)
}

impl State {
    /// Carries a question out.
    pub(crate) fn hand_over(&mut self, handing: &mut Handing) {
        match handing {
            Handing::Follow(on) => {
                self.changed.follow(*on, self.modems.all().len());
                self.clusters_of = if *on { self.upstream.clusters_of() } else { HashMap::new() };
                self.upstream.hears = *on;
            }
            Handing::Modems { left, out } => {
                let mut changed = std::mem::take(&mut self.changed);
                *left = changed.export(*left, out, |modem, out| self.export_modem(modem, out));
                self.changed = changed;
            }
        }
    }

    /// Notes modems of a burst's packets.
    #[inline(never)]
    pub(crate) fn note_burst(&mut self, burst: &engine::Burst<crate::Cmts>) {
        for modem in (0..burst.len()).map(|i| burst.lane.modem[i]) {
            if self.modems.modem(modem).is_some() {
                self.changed.mark(modem);
            }
        }
    }

    /// Notes modems from which something has come.
    pub(crate) fn note_upstream(&mut self) {
        let Self { upstream, changed, .. } = self;
        match changed.marks() {
            Some(marks) => upstream.heard.drain(..).for_each(|modem| marks.mark(modem)),
            None => upstream.heard.clear(),
        }
    }

    /// Adds what a worker knows of a modem; nothing, if there is none of that number.
    fn export_modem(&self, number: u32, out: &mut Vec<u8>) {
        let Some(modem) = self.modems.modem(number) else { return };
        put_words(out, &modem.packets);
        put_words(out, &modem.bytes);
        out.push(modem.flows.count_ones() as u8);
        for place in (0..MAX_FLOWS as u32).filter(|place| modem.flows >> place & 1 != 0) {
            let flow = self.scheduler.flows().get((modem.first_flow + place) as usize).filter(|flow| flow.in_use);
            out.push(place as u8); // below 16
            out.extend(flow.map_or(0, |flow| flow.label.sequence).to_le_bytes());
            put_words(out, &flow.map_or([0; FLOW_WORDS], |flow| flow.words()));
        }
        let clusters = self.clusters_of.get(&number).map(Vec::as_slice).unwrap_or_default();
        out.push(clusters.len() as u8); // as many as fit into a modem's registration
        for cluster in clusters.iter().filter_map(|at| self.upstream.cluster(*at)) {
            let (next, begun) = cluster.stands();
            out.extend(cluster.spec().sids.first().copied().unwrap_or(0).to_le_bytes());
            put_words(out, &cluster.counts.words());
            out.extend(next.unwrap_or(NO_SEGMENT).to_le_bytes());
            out.push(begun.is_some().into());
            put(out, begun.unwrap_or_default());
        }
    }

    /// Takes in what another process knows of a modem.
    ///
    /// # Errors
    /// There is no such modem, service flow or cluster here.
    fn take_in_modem(&mut self, number: u32, octets: &[u8]) -> Result<(), String> {
        if octets.is_empty() {
            return Ok(());
        }
        let (mut input, foreign) = (In(octets), || format!("modem {number} has other service flows or SIDs here"));
        let counts = words::<4>(&mut input).ok_or_else(garbled)?;
        let modem = self.modems.modem_mut(number).ok_or_else(|| format!("there is no modem {number} here"))?;
        let [down, up, down_bytes, up_bytes] = counts;
        (modem.packets, modem.bytes) = ([down, up], [down_bytes, up_bytes]);
        let (first_flow, group) = (modem.first_flow, modem.service_group);
        for _ in 0..input.number::<1>().ok_or_else(garbled)? {
            let head = input.number::<1>().zip(input.number::<2>()).ok_or_else(garbled)?;
            let (place, sequence) = (head.0 as u32, head.1 as u16); // of so many octets
            let state = words::<FLOW_WORDS>(&mut input).ok_or_else(garbled)?;
            let label = self.scheduler.label_mut(first_flow + place).ok_or_else(foreign)?;
            label.sequence = sequence;
            self.scheduler.carry_on(first_flow + place, &state);
        }
        for _ in 0..input.number::<1>().ok_or_else(garbled)? {
            let sid = input.number::<2>().ok_or_else(garbled)? as u16;
            let counts = words::<6>(&mut input).ok_or_else(garbled)?;
            let (next, begun) = input.number::<2>().zip(input.number::<1>()).ok_or_else(garbled)?;
            let bytes = input.text().ok_or_else(garbled)?;
            let cluster = self.upstream.cluster_mut(group, sid).ok_or_else(foreign)?;
            cluster.counts = ClusterCounts::of(counts);
            if next as u16 != NO_SEGMENT {
                cluster.resume(next as u16, (begun != 0).then(|| bytes.to_vec()));
            }
        }
        Ok(())
    }

    /// What is few of it.
    fn few(&self) -> Few {
        let channels = self.scheduler.links().loads().iter().enumerate();
        let channel = |(n, load): (usize, &crate::channels::Load)| ChannelState {
            sequence: self.depi.sequence(n),
            load: load.state(),
            wire: self.depi.counts(n).copied().unwrap_or_default(),
        };
        Few {
            channels: channels.map(channel).collect(),
            units: self.upstream.units().map(|(session, unit)| (session, unit.counts)).collect(),
            grants: self.upstream.grants.iter().map(crate::grants::Grants::state).collect(),
            counts: self.counts,
        }
    }

    fn take_in_few(&mut self, octets: &[u8]) -> Result<(), String> {
        let few: Few = serde_json::from_slice(octets).map_err(|_| garbled())?;
        for (n, channel) in few.channels.into_iter().enumerate() {
            self.depi.carry_on(n, channel.sequence, channel.wire);
            self.scheduler.links_mut().carry_on(n, channel.load);
        }
        for (session, counts) in few.units {
            self.upstream.unit_mut(session).into_iter().for_each(|unit| unit.counts = counts);
        }
        for (grants, state) in self.upstream.grants.iter_mut().zip(few.grants) {
            grants.carry_on(state);
        }
        self.counts = few.counts;
        Ok(())
    }

    /// Adds bursts that have come in part.
    fn export_units(&self, out: &mut Vec<u8>) {
        for (session, unit) in self.upstream.units() {
            let Some(next) = unit.expected() else { continue };
            let header = unit.begun();
            out.extend(session.to_le_bytes());
            out.extend(next.to_le_bytes());
            out.push(header.is_some().into());
            out.extend(header.unwrap_or_default());
            put(out, if header.is_some() { unit.payload() } else { &[] });
        }
    }

    fn take_in_units(&mut self, octets: &[u8]) -> Result<(), String> {
        let mut input = In(octets);
        while let Some(session) = input.number::<4>() {
            let (next, begun) = input.number::<2>().zip(input.number::<1>()).ok_or_else(garbled)?;
            let header = input.take(uepi::Header::LEN).ok_or_else(garbled)?;
            let header = if begun != 0 { Some(uepi::Header::parse(header).map_err(|_| garbled())?) } else { None };
            let payload = input.text().ok_or_else(garbled)?;
            let unit = self.upstream.unit_mut(session as u32);
            let unit = unit.ok_or_else(|| format!("there is no upstream pseudowire {session} here"))?;
            unit.resume(next as u16, header, payload);
        }
        Ok(())
    }

    fn take_in_segments(&mut self, octets: &[u8]) -> Result<(), String> {
        let mut input = In(octets);
        while let Some(group) = input.number::<2>() {
            let (sid, sequence) = input.number::<2>().zip(input.number::<2>()).ok_or_else(garbled)?;
            let (since, bytes) = input.number::<8>().zip(input.text()).ok_or_else(garbled)?;
            ccf::Repr::parse(bytes).map_err(|_| garbled())?;
            let held = self.upstream.hold((group as u16, sid as u16), sequence as u16, bytes, since);
            held.map_err(|_| "no room for upstream segments that wait".to_owned())?;
        }
        Ok(())
    }

    /// Adds frames that wait in service flows, each flow's in order.
    fn export_queues(&self, env: &Env, out: &mut Vec<u8>) {
        self.scheduler.each_waiting(|flow, at, frame| {
            out.extend(flow.to_le_bytes());
            out.extend(at.to_le_bytes());
            put(out, env.arena().bytes(frame));
        });
    }

    fn take_in_queues(&mut self, octets: &[u8], env: &mut Env) -> Result<(), String> {
        let mut input = In(octets);
        while let Some(flow) = input.number::<4>() {
            let (at, bytes) = input.number::<8>().zip(input.text()).ok_or_else(garbled)?;
            let frame = env.pool.make(bytes);
            let mut frame = frame.ok_or("no packet buffers for frames that wait: [frames] is smaller here")?;
            if !self.scheduler.resume(flow as u32, &mut frame, at, env.now) {
                env.pool.give(frame);
                return Err("no room for frames that wait: [queues] packets is smaller here".to_owned());
            }
        }
        Ok(())
    }
}

impl CableGateway {
    /// Adds all that is left of a worker, which stands still, as sections.
    ///
    /// # Errors
    /// Frames are under way in it.
    pub(crate) fn export_rest(&mut self, env: &Env, worker: u16, out: &mut Vec<u8>) -> Result<(), String> {
        if !self.is_at_rest() {
            return Err(format!("frames of worker {worker} are under way"));
        }
        let (state, slow) = self.parts_mut();
        state.note_upstream();
        let mut octets = Vec::new();
        let mut changed = std::mem::take(&mut state.changed);
        changed.export_rest(&mut octets, |modem, out| state.export_modem(modem, out));
        section(out, b'W', worker, &octets);
        section(out, b'S', worker, &serde_json::to_vec(&state.few()).map_err(|error| error.to_string())?);
        octets.clear();
        state.export_units(&mut octets);
        section(out, b'U', worker, &octets);
        octets.clear();
        state.upstream.each_segment(|(group, sid), sequence, since, bytes| {
            [group, sid, sequence].iter().for_each(|number| octets.extend(number.to_le_bytes()));
            octets.extend(since.to_le_bytes());
            put(&mut octets, bytes);
        });
        section(out, b'G', worker, &octets);
        octets.clear();
        state.export_queues(env, &mut octets);
        section(out, b'Q', worker, &octets);
        octets.clear();
        slow.each_unresolved(|instance, at, packet| {
            octets.extend(instance.to_le_bytes());
            octets.extend(at.to_le_bytes());
            put(&mut octets, packet);
        });
        section(out, b'H', worker, &octets);
        Ok(())
    }

    /// Takes in a section of another process's worker; this one does not run.
    ///
    /// # Errors
    /// It does not fit; a sentence.
    pub(crate) fn take_in(&mut self, kind: u8, octets: &[u8], env: &mut Env) -> Result<(), String> {
        self.take_adopted(env);
        if self.refused() > 0 {
            return Err("a modem finds no room here".to_owned());
        }
        let (state, slow) = self.parts_mut();
        match kind {
            b'W' => each_record(octets, |modem, octets| state.take_in_modem(modem, octets)),
            b'S' => state.take_in_few(octets),
            b'U' => state.take_in_units(octets),
            b'G' => state.take_in_segments(octets),
            b'Q' => state.take_in_queues(octets, env),
            b'H' => {
                let mut input = In(octets);
                while let Some(instance) = input.number::<2>() {
                    let (at, packet) = input.number::<8>().zip(input.text()).ok_or_else(garbled)?;
                    let ip = L3L4::parse(packet).map_err(|_| garbled())?;
                    if !slow.take_in_unresolved((instance as u16, destination(&ip, packet)), packet, at) {
                        return Err("no room for packets that wait for a neighbour".to_owned());
                    }
                }
                Ok(())
            }
            _ => Err(garbled()),
        }
    }
}
