//! Packets that wait: for a neighbour's address, for an idle subscriber.

use std::collections::VecDeque;
use std::net::IpAddr;

use dataplane::forward::{Hop, InstanceId, NONE};
use dataplane::hold::Hold;
use dataplane::icmp::Told;
use dataplane::parse::HasIp;
use dataplane::route::HasForwarding as _;
use dataplane::slow;
use engine::{Burst, Drop, Env, Io, Source};
use frame::{BURST, Frame};
use table::records::LineId;
use wire::L3L4;

use super::errors::About;
use super::{Event, Limits, LiveLimits, Reinject, SlowPath, destination, enter};
use crate::lane::{Lane, State, Upf};
use crate::record::{self, Match, PLACES, kind};
use crate::sessions::Sessions;
use crate::{drops, punts};

/// Packets a neighbour may have waiting (RFC 4861, 7.2.2 asks for at least one).
const PER_NEIGHBOUR: usize = 64;
/// A neighbour that has not answered by then will not: three tries, a second each.
const NEIGHBOUR_NS: u64 = 5_000_000_000;
/// The longest packet there is.
const LONGEST: usize = u16::MAX as usize;

/// What waits on a worker, in memory of its own: waiting packets must not pin slots that ports need.
pub struct Waiting {
    neighbours: Hold,
    subscribers: Hold,
    paging_ns: u64,
    /// Neighbours whose packets go on.
    ready: VecDeque<u32>,
    /// The one whose packets are going on, and how many of them are left: those that have to wait again join behind them.
    going: Option<(u32, usize)>,
    /// The tables that neighbours' packets were last looked at with.
    tables: u64,
    /// Sessions whose rules changed while packets wait.
    changed: VecDeque<u32>,
    scratch: Box<[u8]>,
}

impl Waiting {
    pub(super) fn new(limits: Limits) -> Self {
        let packets = limits.bytes / 256;
        Self {
            neighbours: Hold::new(limits.bytes, packets, PER_NEIGHBOUR),
            subscribers: Hold::new(limits.bytes, packets, limits.per_subscriber),
            paging_ns: limits.paging_ns,
            ready: VecDeque::with_capacity(1024),
            going: None,
            tables: 0,
            changed: VecDeque::with_capacity(1024),
            scratch: vec![0; LONGEST].into_boxed_slice(),
        }
    }

    pub(super) fn set_limits(&mut self, limits: LiveLimits) {
        self.subscribers.set_per_key_limit(limits.per_subscriber as usize);
        self.paging_ns = limits.paging_ns;
    }

    pub(super) fn rules_changed(&mut self, handle: u32) {
        if self.subscribers.packets_of(handle) > 0 {
            self.changed.push_back(handle);
        }
    }

    pub(super) fn session_removed(&mut self, handle: u32, env: &mut Env) {
        let gone = self.subscribers.drop_key(handle);
        count_lost(env, drops::BUFFER_DISCARDED, gone.packets, gone.bytes);
    }

    pub(super) fn retry(&mut self, key: u32) -> usize {
        let packets = self.neighbours.packets_of(key);
        if packets > 0 {
            self.ready.push_back(key);
        }
        packets
    }

    /// Takes note of new tables: what waits for a neighbour they know goes on, before packets that come now are sent by them.
    pub(super) fn tables_changed(&mut self, state: &State) {
        let tables = state.forwarding();
        if self.neighbours.packets() == 0 || self.tables == tables.version() {
            return;
        }
        self.tables = tables.version();
        let Self { neighbours, ready, .. } = self;
        let resolved = |key: &u32| {
            neighbours.front(*key).is_some_and(|held| {
                let tag = Tag::from(held.tag);
                tag.hop(neighbours.front_bytes(*key), state)
                    .and_then(|hop| tables.hop(hop))
                    .is_some_and(Hop::is_resolved)
            })
        };
        ready.extend(neighbours.keys().filter(resolved));
    }

    /// Whether packets go on that others of the same flows could overtake.
    pub(super) fn is_releasing(&self) -> bool {
        self.going.is_some() || !self.ready.is_empty() || !self.changed.is_empty()
    }

    pub(super) fn expire(&mut self, env: &mut Env) {
        let late = self.subscribers.expire(env.now, self.paging_ns, |_, _| {});
        count_lost(env, drops::BUFFER_DISCARDED, late.packets, late.bytes);
    }

    /// When the packet that waits longest is given up; none waits: never.
    pub(super) fn next_deadline(&self) -> Option<u64> {
        let after = |hold: &Hold, ns: u64| hold.oldest().map(|at| at.saturating_add(ns));
        let (neighbours, subscribers) =
            (after(&self.neighbours, NEIGHBOUR_NS), after(&self.subscribers, self.paging_ns));
        neighbours.into_iter().chain(subscribers).min()
    }

    /// Gives up everything.
    pub(super) fn close(&mut self, env: &mut Env) {
        let late = self.neighbours.expire(u64::MAX, 0, |_, _| {});
        count_lost(env, drops::NEIGHBOUR_UNRESOLVED, late.packets, late.bytes);
        let late = self.subscribers.expire(u64::MAX, 0, |_, _| {});
        count_lost(env, drops::BUFFER_DISCARDED, late.packets, late.bytes);
    }

    /// Shows all packets that wait, each hold's oldest first: whether for a neighbour, the key, the tag, since when, and its
    /// octets.
    pub(super) fn each(&mut self, sessions: &Sessions, mut show: impl FnMut(bool, u32, u64, u64, &[u8])) {
        let Self { neighbours, subscribers, scratch, .. } = self;
        neighbours.each(scratch, |key, held, octets| {
            let tag = Tag::from(held.tag).leaving(sessions);
            show(true, key, tag.into(), held.at, octets);
        });
        subscribers.each(scratch, |key, held, octets| show(false, key, held.tag, held.at, octets));
    }

    /// Takes in a packet that [waited](Self::each) on another process's worker. It is looked at once the worker runs: what
    /// still has to wait waits on. False: there is no room.
    pub(super) fn take_in(
        &mut self,
        (is_neighbours, key): (bool, u32),
        (tag, at): (u64, u64),
        octets: &[u8],
        sessions: &Sessions,
    ) -> bool {
        let (hold, queue, tag) = match is_neighbours {
            true => (&mut self.neighbours, &mut self.ready, Tag::from(tag).arriving(sessions).into()),
            false => (&mut self.subscribers, &mut self.changed, tag),
        };
        if hold.packets_of(key) == 0 {
            queue.push_back(key);
        }
        hold.push(key, tag, octets, at).is_ok()
    }

    fn release_neighbour(&mut self, key: u32, burst: &mut Burst<Upf>, state: &State, env: &mut Env) -> bool {
        let Some(held) = self.neighbours.pop(key, &mut self.scratch) else { return false };
        env.stats.add(Io::Released, 1);
        match Tag::from(held.tag).way(state) {
            Some(way) => refill(&self.scratch[..held.len], way, burst, env),
            None => env.stats.drop_outside(drops::SESSION_GONE, held.len),
        }
        true
    }

    fn release_subscriber(&mut self, handle: u32, burst: &mut Burst<Upf>, state: &State, env: &mut Env) -> bool {
        let Some(front) = self.subscribers.front(handle) else { return false };
        let place = state.sessions.find(handle).map(|(session, _)| session);
        let Idle { pdr, measured } = front.tag.into();
        // The rule may have moved in the new record; its ID has not.
        let rule = place.and_then(|session| Some((session, find_rule(state, session, pdr)?)));
        let still = rule.and_then(|(session, rule)| state.sessions.action(session, rule.then.action));
        if still.is_some_and(|action| action.what() == kind::BUFFER) {
            return false;
        }
        let Some(held) = self.subscribers.pop(handle, &mut self.scratch) else { return false };
        env.stats.add(Io::Released, 1);
        match (rule, still) {
            (Some((session, rule)), Some(action)) if action.what() == kind::FORWARD => {
                // Those that count before gates and rates have counted it.
                let [_, behind] = rule.then.tallies_parted();
                let tallies = if measured { [0; PLACES] } else { behind };
                let way = Reinject { tallies, ..Reinject::by(session, rule.then.action) };
                refill(&self.scratch[..held.len], way, burst, env);
            }
            _ => env.stats.drop_outside(drops::BUFFER_DISCARDED, held.len),
        }
        true
    }
}

impl Source<Upf> for Waiting {
    fn poll(&mut self, burst: &mut Burst<Upf>, state: &State, env: &mut Env) -> bool {
        while burst.len() < BURST {
            let next = || Some(self.ready.pop_front()?).map(|key| (key, self.neighbours.packets_of(key)));
            let Some((key, left)) = self.going.take().or_else(next) else { break };
            if left > 0 && self.release_neighbour(key, burst, state, env) {
                self.going = Some((key, left - 1));
            }
        }
        while burst.len() < BURST {
            let Some(handle) = self.changed.front().copied() else { break };
            if !self.release_subscriber(handle, burst, state, env) {
                self.changed.pop_front();
            }
        }
        self.is_releasing()
    }

    fn held(&self) -> usize {
        self.neighbours.packets() + self.subscribers.packets()
    }
}

/// Counts packets that left a hold to nowhere.
fn count_lost(env: &Env, why: Drop, packets: usize, bytes: usize) {
    env.stats.add(Io::Released, packets as u64);
    for n in 0..packets {
        env.stats.drop_outside(why, if n == 0 { bytes } else { 0 });
    }
}

/// Makes a frame of held bytes and puts it into the burst.
fn refill(bytes: &[u8], way: Reinject, burst: &mut Burst<Upf>, env: &mut Env) {
    let made: Option<Frame> = env.pool.make(bytes);
    match (made, L3L4::parse(bytes)) {
        (Some(frame), Ok(ip)) => enter(burst, frame, ip, way, env),
        (made, _) => {
            env.stats.drop_outside(drops::NO_FRAME, bytes.len());
            if let Some(frame) = made {
                env.pool.give(frame);
            }
        }
    }
}

/// A rule of a session, by its ID.
fn find_rule(state: &State, session: LineId, pdr: u16) -> Option<&Match> {
    let lines = state.sessions.record(session)?;
    let mut rules = record::matches(lines, record::head(lines)?).iter();
    rules.find(|rule| state.sessions.action(session, rule.then.action).is_some_and(|action| action.pdr == pdr))
}

/// What is kept of a packet that waits for a neighbour: the session and the rule it came by, by their names, as rules
/// may be replaced meanwhile; or its routing domain.
#[derive(Clone, Copy)]
struct Tag {
    handle: u32,
    /// 0: none, which is no rule's ID.
    pdr: u16,
    /// Tells the session from a later one of the same handle; without a rule the routing domain.
    low: u16,
}

impl Tag {
    fn new(lane: &Lane, i: usize, state: &State) -> Self {
        let (session, action) = (lane.session[i], lane.action[i]);
        let rule = state.sessions.head(session).zip(state.sessions.action(session, action)).filter(|_| action != 0);
        match rule {
            Some((head, rule)) => Self { handle: head.handle, pdr: rule.pdr, low: state.sessions.born(head.handle) },
            None => Self { handle: 0, pdr: 0, low: lane.instance[i] },
        }
    }

    /// As another process is told: it counts its sessions' births by itself, so what goes is whether the session is still
    /// the one the packet came by (1) or not (0).
    fn leaving(self, sessions: &Sessions) -> Self {
        match self.pdr {
            0 => self,
            _ => Self { low: u16::from(sessions.born(self.handle) == self.low), ..self },
        }
    }

    /// From [that](Self::leaving), once the sessions are here.
    fn arriving(self, sessions: &Sessions) -> Self {
        let born = sessions.born(self.handle);
        match (self.pdr, self.low) {
            (0, _) => self,
            (_, 0) => Self { low: born.wrapping_sub(1), ..self },
            _ => Self { low: born, ..self },
        }
    }

    /// The hop of a packet that begins with these bytes, by the rules and tables of now.
    fn hop(self, packet: &[u8], state: &State) -> Option<u32> {
        let (tables, way) = (state.forwarding(), self.way(state)?);
        let action = state.sessions.action(way.session, way.action).filter(|_| way.action != 0);
        if let Some(action) = action.filter(|action| action.tunnel != NONE) {
            return tables.tunnel(action.tunnel).map(|tunnel| tunnel.hop);
        }
        let instance = action.map_or(way.instance, |action| action.instance.into());
        match slow::destination(&L3L4::parse(packet).ok()?, packet) {
            IpAddr::V4(to) => tables.hop4(instance, to.into()).ok(),
            IpAddr::V6(to) => tables.hop6(instance, to.into()).ok(),
        }
    }

    /// The way by the rules of now; none when the session or the rule is gone.
    fn way(self, state: &State) -> Option<Reinject> {
        if self.pdr == 0 {
            return Some(Reinject { instance: self.low, ..Reinject::by(LineId(0), 0) });
        }
        let (session, _) = state.sessions.find(self.handle)?;
        let rule = find_rule(state, session, self.pdr).filter(|_| state.sessions.born(self.handle) == self.low)?;
        Some(Reinject::by(session, rule.then.action))
    }
}

impl From<Tag> for u64 {
    fn from(tag: Tag) -> Self {
        u64::from(tag.handle) << 32 | u64::from(tag.pdr) << 16 | u64::from(tag.low)
    }
}

impl From<u64> for Tag {
    fn from(bits: u64) -> Self {
        // Exactly the fields put there.
        Self { handle: (bits >> 32) as u32, pdr: (bits >> 16) as u16, low: bits as u16 }
    }
}

/// What is kept of a packet that waits for its subscriber: its rule, and whether it was measured (as one that waited for
/// a neighbour first).
#[derive(Clone, Copy)]
struct Idle {
    pdr: u16,
    measured: bool,
}

impl From<Idle> for u64 {
    fn from(idle: Idle) -> Self {
        u64::from(idle.pdr) | u64::from(idle.measured) << 16
    }
}

impl From<u64> for Idle {
    fn from(bits: u64) -> Self {
        Self { pdr: bits as u16, measured: bits >> 16 != 0 }
    }
}

impl SlowPath {
    /// Holds a packet until its next hop's hardware address is known.
    pub(super) fn wait_for_neighbour(&mut self, lane: &Lane, i: usize, frame: &Frame, state: &State, env: &mut Env) {
        let packet = env.arena().bytes(frame).get(usize::from(frame.meta.l3)..).unwrap_or_default();
        let Some((instance, address)) = destination(lane, i, packet, state) else {
            env.stats.drop_outside(drops::NO_ROUTE, frame.len());
            return;
        };
        let key = key_of(instance, address);
        let first = self.waiting.neighbours.packets_of(key) == 0;
        match self.waiting.neighbours.push(key, Tag::new(lane, i, state).into(), packet, env.now) {
            Ok(()) => env.stats.terminated(punts::RESOLVE),
            Err(_) => env.stats.drop_outside(drops::NEIGHBOUR_QUEUE_FULL, frame.len()),
        }
        if first {
            self.tell(Event::Resolve { instance, address, key });
        }
    }

    /// A neighbour does not answer: what waits for it is dropped, and who sent it is told. Returns how many packets.
    pub(crate) fn give_up(&mut self, key: u32, state: &State, env: &mut Env) -> usize {
        (0..).take_while(|_| self.drop_unresolved(key, state, env)).count()
    }

    /// As [`Self::give_up`], for packets that have waited longer than any neighbour is asked.
    pub(super) fn expire_neighbours(&mut self, state: &State, env: &mut Env) {
        while let Some(key) = self.waiting.neighbours.due(env.now, NEIGHBOUR_NS) {
            self.drop_unresolved(key, state, env);
        }
    }

    fn drop_unresolved(&mut self, key: u32, state: &State, env: &mut Env) -> bool {
        let mut space = std::mem::take(&mut self.waiting.scratch);
        let held = self.waiting.neighbours.pop(key, &mut space);
        if let Some(held) = held {
            count_lost(env, drops::NEIGHBOUR_UNRESOLVED, 1, held.len);
            if let Some(Reinject { session, action, .. }) = Tag::from(held.tag).way(state) {
                let about = About { packet: &space[..held.len], session, action };
                self.tell_sender(&about, Told::NO_NEIGHBOUR, state, env);
            }
        }
        self.waiting.scratch = space;
        held.is_some()
    }

    /// Holds a packet until its subscriber is back.
    pub(super) fn wait_for_subscriber(&mut self, lane: &Lane, i: usize, frame: &Frame, state: &State, env: &mut Env) {
        let session = lane.session[i];
        let rule = state.sessions.head(session).zip(state.sessions.action(session, lane.action[i]));
        let Some((head, action)) = rule else {
            env.stats.drop_outside(drops::SESSION_GONE, frame.len());
            return;
        };
        let (handle, pdr, keep) = (head.handle, action.pdr, usize::from(action.value));
        let l3 = usize::from(frame.meta.l3);
        let packet = env.arena().bytes(frame).get(l3..l3 + lane.ip(i).total_len as usize).unwrap_or_default();
        let waiting = self.waiting.subscribers.packets_of(handle);
        if keep > 0 && waiting >= keep {
            env.stats.drop_outside(drops::BUFFER_FULL, frame.len());
            return;
        }
        let first = waiting == 0;
        // Where nothing is to be counted, it was or never will be.
        let idle = Idle { pdr, measured: lane.rule[i].tallies == [0; PLACES] };
        match self.waiting.subscribers.push(handle, idle.into(), packet, env.now) {
            Ok(()) => env.stats.terminated(punts::BUFFER),
            Err(_) => env.stats.drop_outside(drops::BUFFER_FULL, frame.len()),
        }
        if first {
            self.tell(Event::Buffered { handle, pdr });
        }
    }
}

/// Names the packets that wait for one destination. Two destinations of one name would only be released together.
fn key_of(instance: InstanceId, address: IpAddr) -> u32 {
    let bits: u128 = match address {
        IpAddr::V4(a) => u32::from(a).into(),
        IpAddr::V6(a) => a.into(),
    };
    let mixed = (bits as u64 ^ (bits >> 64) as u64 ^ u64::from(instance) << 48).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 32) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compile::compile;
    use crate::rules::Session;

    fn install(sessions: &mut Sessions, handle: u32) {
        let compiled = compile(&Session::default(), 0, &mut |_, _| None).unwrap();
        sessions.install(handle, &compiled, 0).unwrap();
    }

    /// A process counts births from its own start, in the order it installs sessions.
    #[test]
    fn a_packet_that_waits_finds_its_session_in_another_process() {
        let [mut here, mut there] = std::array::from_fn(|_| Sessions::with_capacity(4, 16).unwrap());
        let order = [[3, 2, 1, 0], [0, 1, 2, 3]];
        for (sessions, order) in [&mut here, &mut there].into_iter().zip(order) {
            order.into_iter().for_each(|handle| install(sessions, handle));
        }
        assert_ne!(here.born(0), there.born(0));
        let carried = |tag: Tag| Tag::from(u64::from(tag.leaving(&here))).arriving(&there).low;
        let now = Tag { handle: 0, pdr: 1, low: here.born(0) };
        assert_eq!(carried(now), there.born(0));
        // Of the session that had this handle before.
        assert_ne!(carried(Tag { low: here.born(0).wrapping_sub(1), ..now }), there.born(0));
        let of_no_rule = Tag { handle: 0, pdr: 0, low: 77 };
        assert_eq!(carried(of_no_rule), 77);
    }
}
