//! From UEPI packets to DOCSIS frames.
//!
//! ```text
//! PSP packets ─► data unit of a burst ─► segment of a SID cluster ─► in order ─► stream ─► frames
//!   per pseudowire: header, pieces, trailer      per cluster: 13-bit numbers      cut anywhere
//! ```
//!
//! All memory is bounded: a unit per pseudowire, a partial frame per cluster, and a fixed number of segments that wait
//! for earlier ones.

mod cluster;
mod succession;
mod unit;

use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::Arc;

use dataplane::forward::InstanceId;
use engine::{Drop, Env, Io};
use frame::{Arena, BURST, Frame};
use table::bulk::{BulkMap, Full, Seed};
use table::hint::prefetch_index;
use wire::docsis::Header;
use wire::{Malformed, ccf, l2tp, psp, uepi};

use crate::config::Role;
use crate::grants::Grants;
use crate::modems::{ClusterSpec, ModemSpec};
use crate::{drops, punts};
pub use cluster::ClusterCounts;
use cluster::{Cluster, Order};
use dataplane::hqos::NONE as NOBODY;
use unit::Unit;
pub use unit::UnitCounts;

/// What a pseudowire carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carries {
    /// Bursts: data units.
    Bursts,
    /// Bandwidth requests.
    Requests,
}

/// An upstream pseudowire; made by control.
#[derive(Clone, Copy, Debug)]
pub struct PseudowireSpec {
    /// Our number of the session.
    pub session: u32,
    /// What the device must show behind it.
    pub cookie: l2tp::Cookie,
    /// The service group.
    pub service_group: u16,
    /// What it carries.
    pub carries: Carries,
    /// The Remote-PHY device at its far end: packets from other addresses are dropped.
    pub remote: IpAddr,
}

/// Bounds.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes of a burst at most.
    pub unit_bytes: usize,
    /// Segments that may wait for earlier ones, all clusters together.
    pub segments: usize,
    /// Nanoseconds they may wait.
    pub wait_ns: u64,
    /// Packets taken in a turn at most.
    pub packets: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { unit_bytes: 24 * 1024, segments: 256, wait_ns: 18_000_000, packets: 512 }
    }
}

struct Pseudowire {
    spec: PseudowireSpec,
    unit: Unit,
}

/// A frame out of a stream, whole, in a slot of its own.
#[derive(Debug)]
pub struct Out {
    /// The frame, from its FC byte on.
    pub frame: Frame,
    /// Its header.
    pub header: Header,
    /// Whose.
    pub modem: u32,
    /// Its cluster, among the worker's.
    pub cluster: u32,
}

/// Upstream of one worker.
pub struct Upstream {
    wires: Vec<Pseudowire>,
    by_session: BulkMap<u32, u32>,
    by_sid: BulkMap<(u32, u32), u32>,
    clusters: Vec<Cluster>,
    free: Vec<u32>,
    /// Packets of pseudowires as they came, with the wire and where the PSP header is.
    inbox: VecDeque<(Frame, u16, u16)>,
    /// Modems from whose clusters something has come since it was looked at, while another process takes over.
    pub(crate) heard: Vec<u32>,
    /// Whether they are noted.
    pub(crate) hears: bool,
    /// Frames put together.
    frames: VecDeque<Out>,
    order: Order,
    limits: Limits,
    /// Where the packets lie, from the first of them on.
    arena: Option<Arc<Arena>>,
    /// Who may send next.
    pub grants: Vec<Grants>,
    /// CRCs of frames are verified.
    pub verify_crc: bool,
    /// The network instance that each service group's packets are forwarded in.
    pub networks: Vec<InstanceId>,
}

/// Frames put together and not yet taken, at most; a burst has no more than a few hundred.
const FRAMES: usize = 1024;

impl Upstream {
    /// Upstream of those pseudowires.
    ///
    /// # Errors
    /// When there is no memory.
    pub fn new(wires: &[PseudowireSpec], clusters: usize, limits: Limits, grants: Vec<Grants>) -> Result<Self, Full> {
        let seed = Seed::random();
        let mut by_session = BulkMap::with_capacity(wires.len().max(16), seed)?;
        for (n, wire) in wires.iter().enumerate() {
            by_session.insert(wire.session, n as u32)?;
        }
        let wire = |spec: &PseudowireSpec| Pseudowire { spec: *spec, unit: Unit::new(limits.unit_bytes) };
        Ok(Self {
            wires: wires.iter().map(wire).collect(),
            by_session,
            by_sid: BulkMap::with_capacity(clusters.max(16), seed)?,
            clusters: Vec::with_capacity(clusters),
            free: Vec::new(),
            inbox: VecDeque::with_capacity(limits.packets),
            heard: Vec::new(),
            hears: false,
            frames: VecDeque::with_capacity(FRAMES),
            order: Order::new(limits.segments, limits.wait_ns),
            limits,
            arena: None,
            grants,
            verify_crc: false,
            networks: Vec::new(),
        })
    }

    /// Bytes of SID clusters, with the frames under way in them and their index.
    pub fn bytes(&self) -> usize {
        let clusters = self.clusters.iter().map(Cluster::bytes).sum::<usize>();
        let spare = self.clusters.capacity() - self.clusters.len();
        self.by_sid.bytes() + clusters + spare * size_of::<Cluster>() + self.free.capacity() * size_of::<u32>()
    }

    /// Slots it has.
    pub fn held(&self) -> usize {
        self.inbox.len() + self.frames.len()
    }

    /// Whether anything is to be done.
    pub fn is_idle(&self) -> bool {
        self.inbox.is_empty() && self.frames.is_empty()
    }

    /// The pseudowire with that session number, if the packet has its cookie and its device's source address.
    #[inline]
    pub fn pseudowire(&self, header: &l2tp::Header, message: &[u8], source: IpAddr) -> Result<(u16, u16), Drop> {
        let wire = self.by_session.get(header.session).ok_or(drops::UNKNOWN_PSEUDOWIRE)?;
        let spec = &self.wires.get(wire as usize).ok_or(drops::UNKNOWN_PSEUDOWIRE)?.spec;
        if spec.remote != source {
            return Err(drops::UNKNOWN_RPD);
        }
        let cookie = spec.cookie;
        if header.payload(message, cookie).is_none() {
            return Err(drops::L2TP_MALFORMED);
        }
        // Fewer than 65,536 of them.
        Ok((wire as u16, header.offset + cookie.len() as u16))
    }

    /// Whether another packet can be taken in.
    #[inline]
    pub fn has_room(&self) -> bool {
        self.inbox.len() < self.limits.packets
    }

    /// Takes a packet in; `at` is where its PSP header begins.
    #[inline]
    pub fn take_in(&mut self, frame: Frame, wire: u16, at: u16) {
        self.inbox.push_back((frame, wire, at));
    }

    /// Takes a modem's SID clusters in; its streams begin anew. False when one of its SIDs is another's.
    ///
    /// # Errors
    /// When there is no memory.
    pub fn install(&mut self, spec: &ModemSpec, env: &mut Env) -> Result<bool, Full> {
        let group = u32::from(spec.service_group);
        let taken = |sid: &u16| {
            let found = self.by_sid.get((group, u32::from(*sid)));
            found.is_some_and(|at| self.clusters[at as usize].modem != spec.handle)
        };
        if spec.clusters.iter().flat_map(|cluster| &cluster.sids).any(taken) {
            return Ok(false);
        }
        self.remove(spec.handle, env);
        for (n, cluster) in spec.clusters.iter().enumerate() {
            let fresh = Cluster::new(spec.handle, spec.service_group, n as u8, cluster);
            let at = match self.free.pop() {
                Some(at) => {
                    self.clusters[at as usize] = fresh;
                    at
                }
                None => {
                    self.clusters.push(fresh);
                    self.clusters.len() as u32 - 1
                }
            };
            for sid in &cluster.sids {
                self.by_sid.insert((group, u32::from(*sid)), at)?;
                if let Some(grants) = self.grants.get_mut(group as usize) {
                    grants.join(*sid);
                }
            }
        }
        Ok(true)
    }

    /// Takes a modem's clusters out, and what waits in them.
    pub fn remove(&mut self, modem: u32, env: &mut Env) {
        for at in 0..self.clusters.len() {
            if self.clusters[at].modem != modem {
                continue;
            }
            let ClusterSpec { sids, .. } = self.clusters[at].spec().clone();
            let group = u32::from(self.clusters[at].service_group);
            for sid in sids {
                self.by_sid.remove((group, u32::from(sid)));
                if let Some(grants) = self.grants.get_mut(group as usize) {
                    grants.leave(sid);
                }
            }
            for bytes in self.order.drop_all(at as u32) {
                refuse(drops::FLOW_GONE, bytes, env);
            }
            self.clusters[at].end(env);
            self.free.push(at as u32);
        }
    }

    /// The modem a cluster is of, and the network instance its packets go to.
    pub fn owner(&self, cluster: u32) -> (u32, InstanceId) {
        let Some(cluster) = self.cluster(cluster) else { return (NOBODY, Role::Network.instance()) };
        let network = self.networks.get(usize::from(cluster.service_group)).copied();
        (cluster.modem, network.unwrap_or(Role::Network.instance()))
    }

    /// A cluster.
    pub fn cluster(&self, at: u32) -> Option<&Cluster> {
        self.clusters.get(at as usize)
    }

    /// What all pseudowires and clusters have counted.
    pub fn counts(&self) -> (UnitCounts, ClusterCounts) {
        let units = self.wires.iter().fold(UnitCounts::default(), |sum, wire| sum.plus(&wire.unit.counts));
        let clusters = self.clusters.iter().fold(ClusterCounts::default(), |sum, c| sum.plus(&c.counts));
        (units, clusters)
    }

    /// Works on up to `most` packets; frames are there to [`pop`](Self::pop) afterwards. Returns how many packets.
    pub fn work(&mut self, most: usize, env: &mut Env) -> usize {
        if self.inbox.is_empty() {
            return 0;
        }
        let mut worked = 0;
        // Kept: counting its users up and down would cost as much as a packet, every turn.
        let arena = self.arena.take().unwrap_or_else(|| env.pool.arena().clone());
        self.look_ahead(most, &arena);
        while worked < most && self.frames.len() + 128 < FRAMES {
            let Some((frame, wire, at)) = self.inbox.pop_front() else { break };
            self.packet((&frame, wire, at), &arena, env);
            env.pool.give(frame);
            worked += 1;
        }
        if self.inbox.is_empty() {
            // From the front again, where the lines are at hand.
            self.inbox.clear();
        }
        self.arena = Some(arena);
        worked
    }

    /// Asks for the clusters whose bursts begin in the next packets, and for the frames under way in them: hardly two in a
    /// row are of the same modem, and there are many modems.
    fn look_ahead(&self, most: usize, arena: &Arena) {
        let (mut coming, mut n) = ([0; BURST], 0);
        for (frame, wire, at) in self.inbox.iter().take(most.min(BURST)) {
            let bytes = arena.bytes(frame).get(usize::from(*at)..).unwrap_or_default();
            let Some(wire) = self.wires.get(usize::from(*wire)) else { continue };
            // It was checked when it was taken in.
            let Ok(packet) = psp::Packet::new_checked(bytes, psp::Word::Absent) else { continue };
            if let Some(segment) = packet.segments().next().filter(|segment| segment.begin)
                && let Ok(header) = uepi::Header::parse(segment.bytes)
                && let Some(cluster) = self.by_sid.get((wire.spec.service_group.into(), (header.sid & 0x3fff).into()))
            {
                prefetch_index(&self.clusters, cluster as usize);
                coming[n] = cluster;
                n += 1;
            }
        }
        for cluster in &coming[..n] {
            if let Some(cluster) = self.clusters.get(*cluster as usize) {
                cluster.prefetch();
            }
        }
    }

    /// The next frame.
    pub fn pop(&mut self) -> Option<Out> {
        let out = self.frames.pop_front();
        if out.is_none() {
            // From the front again, where the lines are at hand.
            self.frames.clear();
        }
        out
    }

    /// One packet of a pseudowire. It was counted as terminated here when it was taken in.
    fn packet(&mut self, (frame, wire, at): (&Frame, u16, u16), arena: &Arena, env: &mut Env) {
        let bytes = arena.bytes(frame).get(usize::from(at)..).unwrap_or_default();
        let Some(pseudowire) = self.wires.get_mut(usize::from(wire)) else { return };
        let Ok(packet) = psp::Packet::new_checked(bytes, psp::Word::Absent) else { return };
        match pseudowire.spec.carries {
            Carries::Requests => {
                for segment in packet.segments() {
                    match uepi::Request::parse(segment.bytes) {
                        Ok(request) => self.request(wire, &request),
                        Err(_) => refuse(drops::UEPI_MALFORMED, segment.bytes.len(), env),
                    }
                }
            }
            Carries::Bursts => {
                if let Some(lost) = pseudowire.unit.number(packet.sequence()) {
                    refuse(drops::SEGMENT_LOST, lost, env);
                }
                for segment in packet.segments() {
                    let Some(pseudowire) = self.wires.get_mut(usize::from(wire)) else { return };
                    match pseudowire.unit.segment(&segment) {
                        Ok(true) => self.burst(wire, env),
                        Ok(false) => {}
                        Err((reason, bytes)) => refuse(reason, bytes, env),
                    }
                }
            }
        }
    }

    fn request(&mut self, wire: u16, request: &uepi::Request) {
        let group = self.wires.get(usize::from(wire)).map_or(0, |wire| wire.spec.service_group);
        if let Some(grants) = self.grants.get_mut(usize::from(group)) {
            grants.request(request.sid, u32::from(request.size), request.in_units);
        }
    }

    /// A data unit is complete: what its burst carried goes to its cluster.
    fn burst(&mut self, wire: u16, env: &mut Env) {
        let Some(pseudowire) = self.wires.get_mut(usize::from(wire)) else { return };
        let group = pseudowire.spec.service_group;
        // The bytes are lent for the time being; the buffer goes back below.
        let (header, bytes) = pseudowire.unit.complete();
        if !header.no_burst && !bytes.is_empty() {
            self.segment(group, header.sid, &bytes, env);
        }
        if let Some(pseudowire) = self.wires.get_mut(usize::from(wire)) {
            pseudowire.unit.restore(bytes);
        }
    }

    fn segment(&mut self, group: u16, sid: u16, bytes: &[u8], env: &mut Env) {
        let repr = match ccf::Repr::parse(bytes) {
            Ok(repr) => repr,
            Err(Malformed::BadHcs) => return refuse(drops::DOCSIS_HCS, bytes.len(), env),
            Err(_) => return refuse(drops::UEPI_MALFORMED, bytes.len(), env),
        };
        let Some(at) = self.by_sid.get((u32::from(group), u32::from(sid & 0x3fff))) else {
            return refuse(drops::UNKNOWN_SID, bytes.len(), env);
        };
        if let Some(grants) = self.grants.get_mut(usize::from(group)) {
            grants.used(sid, bytes.len());
            if repr.request > 0 {
                grants.request(sid, u32::from(repr.request), true);
            }
        }
        let cluster = &mut self.clusters[at as usize];
        if self.hears {
            self.heard.push(cluster.modem);
        }
        match cluster.expects(repr.sequence) {
            0 => {
                cluster.stream(at, &repr, &bytes[ccf::HEADER_LEN..], &mut self.frames, &mut self.grants, env);
                self.drain(at, env);
            }
            ahead if ahead < Cluster::WINDOW => {
                if let Err(why) = self.order.hold(at, repr.sequence, bytes, env.now) {
                    refuse(why, bytes.len(), env);
                }
            }
            ahead if ahead >= ccf::SEQUENCES - Cluster::WINDOW => refuse(drops::SEGMENT_LATE, bytes.len(), env),
            _ => {
                // So far ahead that waiting makes no sense: the modem began anew, or very much was lost.
                self.skip(at, repr.sequence, env);
                let cluster = &mut self.clusters[at as usize];
                cluster.stream(at, &repr, &bytes[ccf::HEADER_LEN..], &mut self.frames, &mut self.grants, env);
            }
        }
    }

    /// Goes on with segments that waited for the one that came.
    fn drain(&mut self, at: u32, env: &mut Env) {
        while let Some(bytes) = self.order.next(at, self.clusters[at as usize].expected()) {
            if let Ok(repr) = ccf::Repr::parse(&bytes) {
                let cluster = &mut self.clusters[at as usize];
                cluster.stream(at, &repr, &bytes[ccf::HEADER_LEN..], &mut self.frames, &mut self.grants, env);
            }
            self.order.restore(bytes);
        }
    }

    /// Gives up what is missing before segment `to` of a cluster.
    fn skip(&mut self, at: u32, to: u16, env: &mut Env) {
        for bytes in self.order.drop_all(at) {
            refuse(drops::SEGMENT_LOST, bytes, env);
        }
        self.clusters[at as usize].gap(to, env);
    }

    /// Gives up on segments that others have waited for too long. Once a millisecond.
    pub fn tick(&mut self, env: &mut Env) {
        while self.frames.len() + 128 < FRAMES {
            let Some((at, sequence)) = self.order.oldest_late(env.now) else { break };
            if self.hears {
                self.heard.push(self.clusters[at as usize].modem);
            }
            self.clusters[at as usize].gap(sequence, env);
            self.drain(at, env);
        }
        for grants in &mut self.grants {
            grants.tick(env.now);
        }
    }

    /// Gives everything up: the worker ends.
    pub fn close(&mut self, env: &mut Env) {
        while let Some((frame, ..)) = self.inbox.pop_front() {
            env.pool.give(frame);
        }
        while let Some(out) = self.frames.pop_front() {
            refuse(drops::FLOW_GONE, out.frame.len(), env);
            env.pool.give(out.frame);
        }
        for wire in &mut self.wires {
            if let Some(bytes) = wire.unit.give_up() {
                refuse(drops::FLOW_GONE, bytes, env);
            }
        }
        for (_, _, bytes) in self.order.take_all() {
            refuse(drops::FLOW_GONE, bytes.len(), env);
        }
        self.clusters.iter_mut().for_each(|cluster| cluster.end(env));
    }
}

/// Counts something that was in a packet taken in before and does not go on.
fn refuse(reason: Drop, bytes: usize, env: &mut Env) {
    env.stats.add(Io::Released, 1);
    env.stats.drop_outside(reason, bytes);
}

/// Counts a packet that was taken in.
pub(crate) fn count_in(carries: Carries, env: &Env) {
    env.stats.terminated(match carries {
        Carries::Bursts => punts::UEPI,
        Carries::Requests => punts::BANDWIDTH_REQUEST,
    });
}

impl Upstream {
    /// What a pseudowire carries.
    #[inline]
    pub fn carries(&self, wire: u16) -> Carries {
        self.wires.get(usize::from(wire)).map_or(Carries::Bursts, |wire| wire.spec.carries)
    }
}
