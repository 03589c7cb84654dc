//! What leaves the pipelines: answered within rates, or reported to control. A packet handled here is counted once:
//! terminated here, or dropped by name.

use std::net::IpAddr;

use dataplane::forward::{Forwarding, InstanceId, NONE};
use dataplane::icmp::Told;
use dataplane::parse::HasIp;
use dataplane::route::HasHop;
use dataplane::slow::{self, Heard, Responder, Speaker, Waiting, make};
use dataplane::unresolved::Unresolved;
use dataplane::{drops, punts};
use engine::{Burst, Drop, Env, Io, Kind, Punt};
use frame::{BURST, Frame};
use table::ring::Producer;
use wire::L3L4;

/// What a worker reports to control.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// ARP or neighbour discovery.
    Neighbour(Heard),
    /// A packet found no neighbour on the way to an address.
    Resolve(InstanceId, IpAddr),
}

/// Packets of ours that wait for their pipeline, at most.
const MOST: usize = 4 * BURST;

/// A worker's slow path.
pub struct SlowPath {
    events: Producer<Event>,
    responder: Responder,
    ours: Waiting<1>,
    /// Packets that wait for a neighbour.
    unresolved: Unresolved,
    /// Room for a packet that has waited too long.
    late: Vec<u8>,
}

/// A punted packet, as its lane has it.
struct Punted {
    ip: L3L4,
    instance: InstanceId,
    hop: u32,
    /// It was one of ours, about which nobody is told.
    ours: bool,
}

impl SlowPath {
    /// Reports to `events`.
    pub(super) fn new(events: Producer<Event>) -> Self {
        let (responder, unresolved) = (Responder::default(), Unresolved::default());
        Self { events, responder, ours: Waiting::new(MOST), unresolved, late: Vec::with_capacity(2048) }
    }

    /// Events reported so far.
    #[inline]
    pub(super) fn told(&self) -> u64 {
        self.events.gauge().sent()
    }

    pub(super) fn held(&self) -> usize {
        self.ours.held() + self.unresolved.held()
    }

    /// Whether packets can be released now.
    pub(super) fn has_ready(&self) -> bool {
        self.ours.held() > 0 || self.is_releasing()
    }

    /// Whether packets go on that others of the same flows could overtake.
    pub(super) fn is_releasing(&self) -> bool {
        self.unresolved.is_releasing()
    }

    /// Takes note of new tables.
    pub(super) fn tables_changed(&mut self, tables: &Forwarding) {
        self.unresolved.tables_changed(tables);
    }

    /// Drops what has waited too long.
    pub(super) fn tick(&mut self, tables: &Forwarding, env: &mut Env) {
        let mut late = std::mem::take(&mut self.late);
        while let Some((instance, packet)) = self.unresolved.expire(env) {
            late.clear();
            late.extend_from_slice(packet);
            if self.responder.may_tell(&late, env) {
                let speaker = Speaker::of(&tables.ports, instance);
                self.originate(instance, tables, env, |space| speaker.write(space, Told::NO_NEIGHBOUR, &late));
            }
        }
        self.late = late;
    }

    /// When [`tick`](Self::tick) has something to do.
    pub(super) fn next_deadline(&self) -> Option<u64> {
        self.unresolved.next_deadline()
    }

    /// Packets whose neighbour is known now are routed anew.
    fn resume(&mut self, tables: &Forwarding, env: &mut Env) {
        while self.ours.len_of(0) < BURST
            && let Some((instance, packet)) = self.unresolved.take_ready()
        {
            env.stats.add(Io::Released, 1);
            let port = tables.ports.iter().position(|view| view.instance == instance);
            let Some((port, mut frame)) = port.zip(env.pool.make(packet)) else {
                env.stats.drop_outside(drops::NO_FRAME, packet.len());
                continue;
            };
            (frame.meta.l3, frame.meta.port) = (0, port as u8); // fewer than 256 ports
            self.wait(frame, env);
        }
    }

    /// Has a frame wait for its pipeline.
    fn wait(&mut self, frame: Frame, env: &mut Env) {
        if let Err(frame) = self.ours.put(0, frame) {
            env.stats.drop_outside(drops::LIMITED, frame.len());
            env.pool.give(frame);
        }
    }

    /// Drops what waits: the worker ends.
    pub(super) fn close(&mut self, env: &mut Env) {
        for frame in self.ours.drain() {
            env.stats.drop_outside(drops::LIMITED, frame.len());
            env.pool.give(frame);
        }
        self.unresolved.close(env);
    }

    /// Handles every punted packet of a burst.
    pub(super) fn see_to<K: Kind<Lane: HasHop>>(
        &mut self,
        burst: &mut Burst<K>,
        ours: bool,
        tables: &Forwarding,
        env: &mut Env,
    ) {
        while let Some((i, punt, frame)) = burst.take_punted() {
            let lane = &burst.lane;
            let punted = Punted { ip: *lane.ip(i), instance: lane.instance(i), hop: lane.hop(i), ours };
            self.one(&punted, punt, frame, tables, env);
        }
    }

    /// Fills an empty burst with packets of ours. False: there are none.
    pub(super) fn next<K: Kind<Lane: HasHop>>(
        &mut self,
        burst: &mut Burst<K>,
        tables: &Forwarding,
        env: &mut Env,
    ) -> bool {
        self.resume(tables, env);
        let Some((way, port)) = self.ours.first() else { return false };
        while burst.len() < BURST
            && let Some(frame) = self.ours.next_of(way, port)
        {
            let ip = L3L4::parse(env.arena().bytes(&frame)).unwrap_or_default();
            let Ok(i) = burst.push(frame) else { break };
            *burst.lane.ip_mut(i) = ip;
            burst.lane.set_instance(i, tables.port(port).instance);
            burst.lane.set_hop(i, NONE);
        }
        true
    }

    fn one(&mut self, punted: &Punted, punt: Punt, frame: Frame, tables: &Forwarding, env: &mut Env) {
        let arena = env.pool.arena().clone();
        let l3 = usize::from(frame.meta.l3);
        let packet = arena.bytes(&frame).get(l3..l3 + punted.ip.total_len as usize).unwrap_or_default();
        match punt {
            punts::ARP | punts::NEIGHBOUR => {
                if let Some(heard) = self.responder.hear(&frame, punt, tables.port(frame.meta.port), env) {
                    self.tell(Event::Neighbour(heard));
                }
            }
            punts::PING => return self.responder.ping(frame, env),
            punts::ROUTING | punts::ICMP_OTHER | punts::HOST => {
                let port = tables.port(frame.meta.port);
                return self.responder.to_host(frame, punt, port, env);
            }
            punts::TTL_EXPIRED => {
                self.refuse((drops::TTL_EXPIRED, Told::TTL_EXPIRED), punted, packet, &frame, tables, env);
            }
            punts::NO_ROUTE => self.refuse((drops::NO_ROUTE, Told::NO_ROUTE), punted, packet, &frame, tables, env),
            punts::OVERSIZE => {
                let mtu = tables.hop(punted.hop).map_or(0, |hop| hop.mtu);
                let was_cut = slow::cut(packet, mtu, env, |piece, env| {
                    self.originate(punted.instance, tables, env, |space| piece.write(space))
                });
                if !was_cut {
                    self.refuse((drops::TOO_BIG, Told::too_big(mtu)), punted, packet, &frame, tables, env);
                }
            }
            punts::RESOLVE => {
                let (instance, address) = (punted.instance, slow::destination(&punted.ip, packet));
                let ask = || self.events.push(Event::Resolve(instance, address)).is_ok();
                self.unresolved.put(instance, address, packet, env, ask);
            }
            other => env.stats.terminated(other),
        }
        env.pool.give(frame);
    }

    /// Reports to control. When the ring is full the event is lost; its cause comes again.
    fn tell(&mut self, event: Event) {
        let _ = self.events.push(event);
    }

    /// Drops a packet under a name and tells its sender why.
    fn refuse(
        &mut self,
        (why, told): (Drop, Told),
        punted: &Punted,
        packet: &[u8],
        frame: &Frame,
        tables: &Forwarding,
        env: &mut Env,
    ) {
        env.stats.drop_outside(why, frame.len());
        // What came to many is nobody's to answer (RFC 1122, 3.2.2).
        let to_many = env.arena().bytes(frame).first().is_some_and(|byte| byte & 1 == 1);
        if punted.ours || to_many || !self.responder.may_tell(packet, env) {
            return;
        }
        let speaker = Speaker::of(&tables.ports, punted.instance);
        self.originate(punted.instance, tables, env, |space| speaker.write(space, told, packet));
    }

    /// Makes a packet that is routed in that VRF. False: there is no packet buffer.
    fn originate(
        &mut self,
        instance: InstanceId,
        tables: &Forwarding,
        env: &mut Env,
        write: impl FnOnce(&mut [u8]) -> Option<usize>,
    ) -> bool {
        let Some(id) = tables.ports.iter().position(|view| view.instance == instance) else { return false };
        let Some(mut frame) = make(env, write) else { return false };
        (frame.meta.l3, frame.meta.port) = (0, id as u8); // fewer than 256 ports
        env.stats.add(Io::Originated, 1);
        self.wait(frame, env);
        true
    }
}
