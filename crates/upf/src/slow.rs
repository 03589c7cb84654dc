//! The slow path: what leaves the pipelines to be answered, held or reported.
//!
//! It runs on the worker, after the pipeline, and is bounded in everything: answers by rate, held packets by memory,
//! events by a ring. A packet seen to here is counted once: terminated here (it was for us, or waits) or dropped by name.

mod answer;
mod control_plane;
mod duplicates;
mod end_marker;
mod errors;
mod left;
mod next_reinject;
mod redirect;
mod waiting;

use std::collections::VecDeque;
use std::hash::RandomState;
use std::net::IpAddr;

use dataplane::forward::{InstanceId, NONE};
use dataplane::icmp::Told;
use dataplane::limit::{Allowance, PeerLimit};
use dataplane::nat::HairpinQueue;
use dataplane::parse::HasIp;
use dataplane::reassemble::{self, Reassembly};
use dataplane::route::HasForwarding;
use dataplane::slow::{self, Heard, Responder};
use engine::{Burst, Env, Io, Punt, Source};
use frame::Frame;
use table::records::LineId;
use table::ring::Producer;
use wire::{L3L4, gtpu};

use crate::config::Config;
use crate::lane::{Lane, State, Upf};
use crate::record::{NONE8, PLACES, encap};
use crate::sessions::Sessions;
use crate::{drops, punts};
use control_plane::ControlPackets;
pub use duplicates::Duplicates;
pub use next_reinject::NextReinject;
pub use waiting::Waiting;

/// Event from a worker to control.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A message of ARP or neighbour discovery was received.
    Neighbour(Heard),
    /// Packets wait for the neighbour on the way to an address.
    Resolve {
        /// The routing domain.
        instance: InstanceId,
        /// Where the packets are to go.
        address: IpAddr,
        /// Names them in [`crate::gateway::Command::Retry`].
        key: u32,
    },
    /// A GTP-U peer does not know a tunnel endpoint we send to (TS 29.281, 7.3.1).
    ErrorIndication {
        /// *Its* tunnel endpoint.
        teid: u32,
        /// The peer.
        peer: IpAddr,
    },
    /// A GTP-U peer answers our Echo Request (TS 29.281, 7.2.2).
    EchoResponse {
        /// The network it is in.
        instance: InstanceId,
        /// The peer.
        peer: IpAddr,
        /// The request's number.
        sequence: u16,
    },
    /// A session has counted up to a bound: its usage is to be looked at.
    Reached {
        /// The session.
        handle: u32,
    },
    /// A packet for a control plane's function.
    ForControl {
        /// Which, by control's number.
        end: u32,
        /// Its tunnel endpoint.
        teid: u32,
        /// The user's packet.
        packet: Box<[u8]>,
    },
    /// The first packet for an idle subscriber is waiting.
    Buffered {
        /// The session.
        handle: u32,
        /// The rule it matched.
        pdr: u16,
    },
}

/// Bounds of what a worker answers and holds.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes held, for idle subscribers and for neighbours each.
    pub bytes: usize,
    /// Packets held for one subscriber.
    pub per_subscriber: usize,
    /// Nanoseconds until a packet held for a subscriber is given up.
    pub paging_ns: u64,
    /// Error Indications a second; and as many notifications of supported extension headers.
    pub error_indications: u32,
    /// Fragments held in each direction; none: none are.
    pub reassembly: Option<reassemble::Config>,
}

impl Limits {
    /// As configured.
    pub fn of(config: &Config) -> Self {
        Self {
            bytes: config.buffer.bytes,
            per_subscriber: config.buffer.packets_per_subscriber as usize,
            paging_ns: u64::from(config.buffer.seconds) * 1_000_000_000,
            error_indications: config.gtpu.error_indications_per_second,
            reassembly: config.reassembly.as_ref().map(|section| section.stage(config)),
        }
    }
}

/// Those of [`Limits`] that may change while the worker runs.
#[derive(Clone, Copy, Debug)]
pub struct LiveLimits {
    /// Nanoseconds until a packet held for a subscriber is given up.
    pub paging_ns: u64,
    /// Packets held for one subscriber.
    pub per_subscriber: u32,
    /// Error Indications a second; and as many notifications of supported extension headers.
    pub error_indications: u32,
}

impl LiveLimits {
    /// As configured.
    pub fn of(config: &Config) -> Self {
        Self {
            paging_ns: u64::from(config.buffer.seconds) * 1_000_000_000,
            per_subscriber: config.buffer.packets_per_subscriber,
            error_indications: config.gtpu.error_indications_per_second,
        }
    }
}

/// Answers a second to one peer and to all.
fn answers(all: u32) -> (Allowance, Allowance) {
    let each = all.div_ceil(4);
    (Allowance::new(each, each.max(1)), Allowance::new(all, all.max(1)))
}

/// A packet of ours on its way to the released pipeline, beginning with its IP header.
struct Pending {
    frame: Frame,
    ip: L3L4,
    way: Reinject,
}

/// Where a packet that re-enters goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Reinject {
    /// The session whose action applies; with `action` 0 none does.
    session: LineId,
    action: u8,
    /// The routing domain when no action applies.
    instance: InstanceId,
    /// The counts of its rule's URRs, as positions in the record; 0: none, or it was measured when it came.
    tallies: [u8; PLACES],
}

impl Reinject {
    /// By a rule's action. What goes so was measured, or is of our own making.
    fn by(session: LineId, action: u8) -> Self {
        Self { session, action, instance: 0, tallies: [0; PLACES] }
    }
}

/// A worker's slow path.
pub struct SlowPath {
    events: Producer<Event>,
    waiting: Waiting,
    pending: VecDeque<Pending>,
    responder: Responder,
    error_indications: PeerLimit,
    extension_notices: PeerLimit,
    /// Packets for and from control planes.
    control: ControlPackets,
    /// Packets from subscriber to subscriber.
    hairpins: HairpinQueue,
    /// Fragments from access and from the core.
    fragments: Option<[Reassembly; 2]>,
    /// Room for a packet as it was before its translation.
    undone: Vec<u8>,
    /// For numbers that can't be guessed.
    secret: RandomState,
}

/// Packets of our own that may wait for their pipeline; a burst can not make more than a few hundred fragments.
const PENDING: usize = 1024;

impl SlowPath {
    /// A slow path that reports to `events`.
    pub fn new(events: Producer<Event>, limits: Limits) -> Self {
        let (each, all) = answers(limits.error_indications);
        Self {
            events,
            waiting: Waiting::new(limits),
            pending: VecDeque::with_capacity(PENDING),
            responder: Responder::default(),
            error_indications: PeerLimit::new(each, all, 0x5eed),
            extension_notices: PeerLimit::new(each, all, 0x5eed),
            control: ControlPackets::default(),
            hairpins: HairpinQueue::new(PENDING),
            fragments: limits.reassembly.map(|config| [(); 2].map(|()| Reassembly::new(config, next_reinject::seed()))),
            undone: Vec::with_capacity(u16::MAX.into()),
            secret: RandomState::new(),
        }
    }

    /// Other limits from now on: of answers, and of packets held for a subscriber.
    pub fn set_limits(&mut self, limits: LiveLimits) {
        let (each, all) = answers(limits.error_indications);
        self.error_indications.set(each, all);
        self.extension_notices.set(each, all);
        self.waiting.set_limits(limits);
    }

    /// Sees to every punted packet of the burst.
    pub(crate) fn see_to(&mut self, burst: &mut Burst<Upf>, state: &State, env: &mut Env) {
        while let Some((i, punt, frame)) = burst.take_punted() {
            self.one(&burst.lane, i, punt, frame, state, env);
        }
    }

    fn one(&mut self, lane: &Lane, i: usize, punt: Punt, frame: Frame, state: &State, env: &mut Env) {
        match punt {
            punts::ARP | punts::NEIGHBOUR => {
                if let Some(heard) = self.responder.hear(&frame, punt, state.port(frame.meta.port), env) {
                    self.tell(Event::Neighbour(heard));
                }
            }
            punts::PING => return self.responder.ping(frame, env),
            punts::ROUTING | punts::ICMP_OTHER | punts::HOST => {
                let port = state.port(frame.meta.port);
                return self.responder.to_host(frame, punt, port, env);
            }
            punts::GTP_ECHO => {
                env.stats.terminated(punt);
                self.echo(&frame, state, env);
            }
            punts::GTP_ERROR_INDICATION => {
                env.stats.terminated(punt);
                self.error_indicated(&frame, env);
            }
            punts::UNKNOWN_TEID => {
                env.stats.drop_outside(drops::UNKNOWN_TEID, frame.len());
                self.indicate_error(&frame, lane.teid[i], env);
            }
            punts::UNKNOWN_EXTENSION => {
                env.stats.drop_outside(drops::GTPU_UNSUPPORTED, frame.len());
                self.tell_extensions(&frame, env);
            }
            punts::TTL_EXPIRED => self.refuse((drops::TTL_EXPIRED, Told::TTL_EXPIRED), lane, i, &frame, state, env),
            punts::NO_ROUTE => self.refuse((drops::NO_ROUTE, Told::NO_ROUTE), lane, i, &frame, state, env),
            punts::OVERSIZE => self.oversize(lane, i, &frame, state, env),
            punts::RESOLVE if is_ours(lane, i, &frame, state, env) => {
                return self.answer_subscriber(lane, i, frame, state, env);
            }
            punts::RESOLVE => self.wait_for_neighbour(lane, i, &frame, state, env),
            punts::BUFFER if next_reinject::is_denied(lane, i, &frame, state, env) => {
                env.stats.drop_outside(drops::ACL_DENIED, frame.len());
            }
            punts::BUFFER => self.wait_for_subscriber(lane, i, &frame, state, env),
            punts::GTP_END_MARKER => {
                env.stats.terminated(punt);
                self.pass_end_marker(lane.teid[i], state, env);
            }
            punts::HAIRPIN => return self.hairpins.push(frame, lane.instance[i], env),
            punts::REDIRECT => self.redirect(lane, i, &frame, state, env),
            punts::CONTROL_PLANE => self.send_to_control(lane, i, &frame, state, env),
            punts::REASSEMBLE => self.hold_fragment(lane, i, &frame, state, env),
            // The list of a peer's extension headers, other ICMP, router solicitations.
            other => env.stats.terminated(other),
        }
        env.pool.give(frame);
    }

    /// Tells control. When the ring is full the event is lost; whatever caused it happens again. What anybody on a network
    /// can bring about has half of it: the rest is for what sessions and packets wait for.
    fn tell(&mut self, event: Event) {
        let is_anybodys =
            matches!(event, Event::Neighbour(_) | Event::EchoResponse { .. } | Event::ErrorIndication { .. });
        if !is_anybodys || self.has_room() {
            let _ = self.events.push(event);
        }
    }

    /// Whether control's ring has room for what anybody can bring about.
    fn has_room(&mut self) -> bool {
        self.events.room() > self.events.capacity() / 2
    }

    /// Events sent to control so far.
    #[inline]
    pub(crate) fn told(&self) -> u64 {
        self.events.gauge().sent()
    }

    /// Queues a packet of our own (it begins with its IP header) for the released pipeline.
    fn originate(&mut self, frame: Frame, way: Reinject, env: &mut Env) {
        env.stats.add(Io::Originated, 1);
        let parsed = L3L4::parse(env.arena().bytes(&frame));
        match parsed {
            Ok(ip) if self.pending.len() < PENDING => self.pending.push_back(Pending { frame, ip, way }),
            _ => {
                env.stats.drop_outside(drops::OUT_QUEUE_FULL, frame.len());
                env.pool.give(frame);
            }
        }
    }

    /// There may be new tables: what waits for a neighbour they know goes on.
    pub(crate) fn tables_changed(&mut self, state: &State) {
        self.waiting.tables_changed(state);
    }

    /// Whether packets go on that others of the same flows could overtake.
    pub(crate) fn is_releasing(&self) -> bool {
        self.waiting.is_releasing()
    }

    /// A session's rules changed: what waits for it may go on.
    pub(crate) fn rules_changed(&mut self, handle: u32) {
        self.waiting.rules_changed(handle);
    }

    /// What waits for a subscriber is thrown away (DROBU).
    pub(crate) fn discard(&mut self, handle: u32, env: &mut Env) {
        self.waiting.session_removed(handle, env);
    }

    /// Sessions reached bounds on their usage: an event to control.
    pub(crate) fn tell_reached(&mut self, sessions: &mut Sessions) {
        while let Some(handle) = sessions.take_reached() {
            if self.events.push(Event::Reached { handle }).is_err() {
                // A bound is noticed once: it is told later.
                return sessions.put_reached(handle);
            }
        }
    }

    /// A session ended: what waits for it is dropped.
    pub(crate) fn session_removed(&mut self, handle: u32, env: &mut Env) {
        self.waiting.session_removed(handle, env);
    }

    /// Shows all packets that wait, as [`Waiting::each`]; fragments go [by themselves](Self::fragments_mut). False: others are under way, which cannot be shown.
    pub(crate) fn each_waiting(&mut self, sessions: &Sessions, show: impl FnMut(bool, u32, u64, u64, &[u8])) -> bool {
        let all = self.held() == self.waiting.held() + self.fragments_held();
        self.waiting.each(sessions, show);
        all
    }

    /// Takes in a packet that waited on another process's worker. False: there is no room.
    pub(crate) fn take_in(&mut self, place: (bool, u32), held: (u64, u64), octets: &[u8], sessions: &Sessions) -> bool {
        self.waiting.take_in(place, held, octets, sessions)
    }

    /// Fragments from access and from the core, where they are put together.
    pub(crate) fn fragments_mut(&mut self) -> Option<&mut [Reassembly; 2]> {
        self.fragments.as_mut()
    }

    fn fragments_held(&self) -> usize {
        self.fragments.iter().flatten().map(Reassembly::held).sum()
    }

    /// A neighbour was resolved; returns how many packets go on.
    pub(crate) fn retry(&mut self, key: u32) -> usize {
        self.waiting.retry(key)
    }

    /// Drops what is still on its way: the worker ends.
    pub(crate) fn close(&mut self, env: &mut Env) {
        for pending in self.pending.drain(..) {
            env.stats.drop_outside(drops::SESSION_GONE, pending.frame.len());
            env.pool.give(pending.frame);
        }
        self.waiting.close(env);
        self.hairpins.close(env);
        self.control.close(env);
        self.fragments.iter_mut().flatten().for_each(|fragments| fragments.close(env));
    }

    /// When [`SlowPath::tick`] has something to do next.
    pub(crate) fn next_deadline(&self) -> Option<u64> {
        let fragments = self.fragments.iter().flatten().filter_map(Reassembly::next_deadline);
        fragments.chain(self.waiting.next_deadline()).min()
    }

    /// Ages what waits.
    pub(crate) fn tick(&mut self, state: &State, env: &mut Env) {
        self.expire_neighbours(state, env);
        self.waiting.expire(env);
        self.fragments.iter_mut().flatten().for_each(|fragments| fragments.tick(env));
    }
}

impl Source<Upf> for SlowPath {
    fn poll(&mut self, burst: &mut Burst<Upf>, state: &State, env: &mut Env) -> bool {
        while burst.len() < frame::BURST {
            let Some(Pending { frame, ip, way }) = self.pending.pop_front() else { break };
            enter(burst, frame, ip, way, env);
        }
        let more = self.waiting.poll(burst, state, env);
        more || !self.pending.is_empty()
    }

    fn held(&self) -> usize {
        self.waiting.held() + self.pending.len() + self.hairpins.held() + self.control.held() + self.fragments_held()
    }
}

/// Puts a packet that begins with its IP header into the burst, with its way.
fn enter(burst: &mut Burst<Upf>, mut frame: Frame, ip: L3L4, way: Reinject, env: &mut Env) {
    frame.meta.l3 = 0;
    match burst.push(frame) {
        Ok(i) => {
            let lane = &mut burst.lane;
            *lane.ip_mut(i) = ip;
            lane.session[i] = way.session;
            lane.action[i] = way.action;
            lane.instance[i] = way.instance;
            lane.rule[i].tallies = way.tallies;
            lane.teid[i] = 0;
            lane.qfi[i] = NONE8;
        }
        Err(frame) => {
            env.stats.drop_outside(drops::OUT_QUEUE_FULL, frame.len());
            env.pool.give(frame);
        }
    }
}

/// Where the packet was going, and in which domain: the tunnel's far end, or its own destination.
fn destination(lane: &Lane, i: usize, packet: &[u8], state: &State) -> Option<(InstanceId, IpAddr)> {
    let instance = lane.instance[i];
    let action = state.sessions.action(lane.session[i], lane.action[i]).filter(|_| lane.action[i] != 0);
    // What a policy sends to a next hop leads there as a tunnel to its far end.
    let by_policy = action.filter(|action| action.encap.kind == encap::NEXT_HOP && action.tunnel != NONE);
    let tunnel = by_policy.map_or(lane.tunnel[i], |action| action.tunnel);
    if tunnel != NONE {
        let tunnel = state.forwarding().tunnel(tunnel)?;
        let address: IpAddr = match tunnel.version {
            4 => <[u8; 4]>::try_from(tunnel.header.get(16..20)?).ok()?.into(),
            _ => <[u8; 16]>::try_from(tunnel.header.get(24..40)?).ok()?.into(),
        };
        return Some((instance, address));
    }
    Some((instance, slow::destination(lane.ip(i), packet)))
}

/// Whether a packet that found no neighbour is to ourselves, in the network it is forwarded in.
fn is_ours(lane: &Lane, i: usize, frame: &Frame, state: &State, env: &Env) -> bool {
    let packet = env.arena().bytes(frame).get(usize::from(frame.meta.l3)..).unwrap_or_default();
    let Some((instance, address)) = destination(lane, i, packet, state) else { return false };
    let mut ports = state.forwarding().ports.iter().filter(|port| port.instance == instance);
    ports.any(|port| match address {
        IpAddr::V4(address) => port.is_mine4(address.into()),
        IpAddr::V6(address) => port.is_mine6(address.into()),
    })
}

/// GTP-U's UDP port, for both ends of what we send.
const PORT: u16 = gtpu::PORT;
