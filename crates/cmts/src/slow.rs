//! The slow path: what leaves the pipelines to be answered or sent to control. A packet handled here is counted once:
//! terminated here or dropped by name.

mod errors;

use std::net::IpAddr;

use dataplane::forward::InstanceId;
use dataplane::icmp::Told;
use dataplane::parse::HasIp;
use dataplane::route::HasForwarding;
use dataplane::slow::{self, Heard, Responder, Speaker};
use dataplane::unresolved::Unresolved;
use engine::{Burst, Env, Punt};
use frame::Frame;
use table::ring::Producer;

use crate::lane::{Cmts, Lane, State};
use crate::{drops, punts};
use errors::Own;
pub use errors::{ReceivedFrom, ReplyTo};

/// Event from a worker to control.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A message of ARP or neighbour discovery was received.
    Neighbour(Heard),
    /// A packet found no neighbour on the way to an address.
    Resolve {
        /// The routing domain.
        instance: InstanceId,
        /// Where it was to go.
        address: IpAddr,
    },
}

/// A worker's slow path.
pub struct SlowPath {
    events: Producer<Event>,
    responder: Responder,
    own: Own,
    /// Packets that wait for a neighbour.
    unresolved: Unresolved,
    /// Room for a packet that has waited too long.
    late: Vec<u8>,
    /// Largest IP packet towards modems, in bytes.
    mtu: u16,
}

impl SlowPath {
    /// A slow path that reports to `events`; `mtu` is the largest IP packet towards modems, in bytes.
    pub fn new(events: Producer<Event>, mtu: u16) -> Self {
        Self {
            events,
            responder: Responder::default(),
            own: Own::default(),
            unresolved: Unresolved::default(),
            late: Vec::with_capacity(2048),
            mtu,
        }
    }

    /// Sees to every punted packet of the burst.
    pub fn see_to(&mut self, burst: &mut Burst<Cmts>, came: ReceivedFrom, state: &State, env: &mut Env) {
        while let Some((i, punt, frame)) = burst.take_punted() {
            self.one((&burst.lane, i), punt, frame, came, state, env);
        }
    }

    /// Gives up what waits: the worker ends.
    pub fn close(&mut self, env: &mut Env) {
        self.own.close(env);
        self.unresolved.close(env);
    }

    /// Packets that wait for a neighbour.
    pub fn unresolved(&self) -> usize {
        self.unresolved.held()
    }

    /// Shows packets that wait for a neighbour: see [`Unresolved::each`].
    pub(crate) fn each_unresolved(&mut self, show: impl FnMut(InstanceId, u64, &[u8])) {
        self.unresolved.each(show);
    }

    /// Takes in a packet to an address that waited for a neighbour in another process. False: there is no room.
    pub(crate) fn take_in_unresolved(&mut self, to: (InstanceId, IpAddr), packet: &[u8], at: u64) -> bool {
        let Self { unresolved, events, .. } = self;
        let (instance, address) = to;
        unresolved.take_in(to, packet, at, || events.push(Event::Resolve { instance, address }).is_ok())
    }

    /// Whether packets go on that others of the same flows could overtake.
    pub fn is_releasing(&self) -> bool {
        self.unresolved.is_releasing()
    }

    /// Takes note of new tables.
    pub fn tables_changed(&mut self, state: &State) {
        self.unresolved.tables_changed(state.forwarding());
    }

    /// Drops what has waited too long.
    pub fn tick(&mut self, state: &State, env: &mut Env) {
        let mut late = std::mem::take(&mut self.late);
        while let Some((instance, packet)) = self.unresolved.expire(env) {
            late.clear();
            late.extend_from_slice(packet);
            if self.responder.may_tell(&late, env) {
                let speaker = Speaker::of(&state.forwarding().ports, instance);
                let write = |space: &mut [u8]| speaker.write(space, Told::NO_NEIGHBOUR, &late);
                self.originate((ReceivedFrom::Modems, instance), state, env, write);
            }
        }
        self.late = late;
    }

    /// When [`tick`](Self::tick) has something to do.
    pub fn next_deadline(&self) -> Option<u64> {
        self.unresolved.next_deadline()
    }

    fn one(
        &mut self,
        (lane, i): (&Lane, usize),
        punt: Punt,
        frame: Frame,
        came: ReceivedFrom,
        state: &State,
        env: &mut Env,
    ) {
        let arena = env.pool.arena().clone();
        let l3 = usize::from(frame.meta.l3);
        let packet = arena.bytes(&frame).get(l3..l3 + lane.ip(i).total_len as usize).unwrap_or_default();
        // Who sent it is where it came from: an answer goes there. (What devices send is not for others to answer.)
        let network = match came {
            ReceivedFrom::Port => state.port(frame.meta.port).instance,
            _ => lane.instance[i],
        };
        let from = (came, network);
        match punt {
            // What modems' hosts say upstream has no port of ours, and is not learnt from.
            punts::ARP | punts::NEIGHBOUR => {
                if let Some(heard) = self.responder.hear(&frame, punt, state.port(frame.meta.port), env) {
                    self.tell(Event::Neighbour(heard));
                }
            }
            punts::PING => return self.responder.ping(frame, env),
            punts::ROUTING | punts::ICMP_OTHER | punts::HOST if matches!(came, ReceivedFrom::Port) => {
                let port = state.port(frame.meta.port);
                return self.responder.to_host(frame, punt, port, env);
            }
            punts::TTL_EXPIRED => {
                self.refuse((drops::TTL_EXPIRED, Told::TTL_EXPIRED), from, packet, &frame, state, env);
            }
            punts::NO_ROUTE => self.refuse((drops::NO_ROUTE, Told::NO_ROUTE), from, packet, &frame, state, env),
            punts::OVERSIZE => self.oversize((lane, i), from, packet, &frame, state, env),
            punts::RESOLVE => {
                let (instance, address) = (lane.instance[i], slow::destination(lane.ip(i), packet));
                let ask = || self.events.push(Event::Resolve { instance, address }).is_ok();
                self.unresolved.put(instance, address, packet, env, ask);
            }
            other => env.stats.terminated(other),
        }
        env.pool.give(frame);
    }

    /// Events sent to control so far.
    #[inline]
    pub(crate) fn told(&self) -> u64 {
        self.events.gauge().sent()
    }

    /// Tells control. When the ring is full the event is lost; whatever caused it happens again.
    fn tell(&mut self, event: Event) {
        let _ = self.events.push(event);
    }
}
