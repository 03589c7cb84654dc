//! The slow path: what leaves the pipelines to be answered or told to control. A packet seen to here is counted once:
//! consumed or dropped by name.

mod errors;

use std::net::IpAddr;

use dataplane::forward::InstanceId;
use dataplane::icmp::{Told, echo_reply};
use dataplane::limit::{Allowance, Limit};
use dataplane::neighbour::{NeighbourMessage, Station, arp_reply, neighbour_advertisement};
use dataplane::parse::HasIp;
use engine::{Burst, Drop, Env, Punt};
use frame::Frame;
use table::ring::Producer;
use wire::{L3L4, Mac, Vlan};

use crate::lane::{Cmts, Lane, State};
use errors::Own;
pub use errors::{ReceivedFrom, ReplyTo};

/// What a worker tells control.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// ARP or neighbour discovery was heard.
    Neighbour {
        /// The port it came in by.
        port: u8,
        /// What it says.
        message: NeighbourMessage,
        /// It asks for an address of ours: who asks wants to talk to us.
        for_us: bool,
    },
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
    answers: Limit,
    resolves: Limit,
    icmp: Limit,
    own: Own,
    /// Largest IP packet towards modems, in bytes.
    mtu: u16,
}

/// ICMP errors a second and worker (RFC 1812, 4.3.2.8: a router limits them).
const ICMP: Allowance = Allowance::new(1000, 100);

impl SlowPath {
    /// A slow path that reports to `events`; `mtu` is the largest IP packet towards modems, in bytes.
    pub fn new(events: Producer<Event>, mtu: u16) -> Self {
        Self {
            events,
            answers: Limit::new(Allowance::new(10_000, 1000)),
            resolves: Limit::new(Allowance::new(1000, 100)),
            icmp: Limit::new(ICMP),
            own: Own::default(),
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
            Punt::Arp | Punt::Neighbour => self.hear(&frame, punt, state, env),
            Punt::Ping => {
                if self.answers.allow(env.now) {
                    env.stats.consumed(punt);
                    return pong(frame, env);
                }
                env.stats.drop_outside(Drop::Limited, frame.len());
            }
            Punt::TtlExpired => {
                self.refuse((Drop::TtlExpired, Told::TTL_EXPIRED), from, packet, &frame, state, env);
            }
            Punt::NoRoute => self.refuse((Drop::NoRoute, Told::NO_ROUTE), from, packet, &frame, state, env),
            Punt::Oversize => self.oversize((lane, i), from, packet, &frame, state, env),
            Punt::Resolve => {
                env.stats.drop_outside(Drop::NeighbourUnresolved, frame.len());
                if self.resolves.allow(env.now) {
                    let ip = lane.ip(i);
                    let address: IpAddr = if ip.version == 4 {
                        ip.dst.to_be_bytes().into()
                    } else {
                        ip.dst6(packet).to_be_bytes().into()
                    };
                    self.tell(Event::Resolve { instance: lane.instance[i], address });
                }
            }
            other => env.stats.consumed(other),
        }
        env.pool.give(frame);
    }

    /// Events told so far.
    #[inline]
    pub(crate) fn told(&self) -> u64 {
        self.events.gauge().sent()
    }

    /// Tells control. When the ring is full the event is lost; whatever caused it happens again.
    fn tell(&mut self, event: Event) {
        let _ = self.events.push(event);
    }

    /// ARP or neighbour discovery: answered when it asks for an address of ours, and told to control. What modems' hosts
    /// say upstream has no port of ours, and is not learnt from.
    fn hear(&mut self, frame: &Frame, punt: Punt, state: &State, env: &mut Env) {
        let message = match NeighbourMessage::parse(env.arena().bytes(frame)) {
            Ok(message) => message,
            Err(why) => return env.stats.drop_outside(dataplane::parse::malformed(why), frame.len()),
        };
        env.stats.consumed(punt);
        let id = frame.meta.port;
        let port = state.port(id);
        let us = Station { mac: Mac(port.mac), vlan: port.vlan.map(Vlan::of) };
        let sender = wire::fast::array(env.arena().bytes(frame), 6).map(Mac);
        let mut for_us = false;
        let reply = match message {
            NeighbourMessage::ArpRequest { sender, sender_ip, target } if port.is_mine4(target.into()) => {
                for_us = true;
                make(env, |space| arp_reply(space, &us, target, sender, sender_ip))
            }
            NeighbourMessage::NeighbourSolicitation { source, link, target } if port.is_mine6(target.into()) => {
                for_us = true;
                let to = link.or(sender).filter(|_| !source.is_unspecified()).map(|mac| (mac, source));
                make(env, |space| neighbour_advertisement(space, &us, target, to, true))
            }
            _ => None,
        };
        if let Some(reply) = reply {
            if self.answers.allow(env.now) {
                env.send(id, reply);
            } else {
                env.pool.give(reply);
            }
        }
        self.tell(Event::Neighbour { port: id, message, for_us });
    }
}

/// A ping to us, in place: the reply leaves by the port the request came in by, to whoever sent it.
fn pong(mut frame: Frame, env: &mut Env) {
    let (port, l3) = (frame.meta.port, usize::from(frame.meta.l3));
    let arena = env.pool.arena().clone();
    let total = L3L4::parse(arena.bytes(&frame).get(l3..).unwrap_or_default()).map_or(0, |ip| ip.total_len as u16);
    let _ = frame.truncate(frame.meta.l3 + total);
    let bytes = arena.bytes_mut(&mut frame);
    if bytes.get_mut(l3..).is_some_and(echo_reply) {
        if let Some(head) = bytes.first_chunk_mut::<12>() {
            let (to, from) = head.split_at_mut(6);
            to.swap_with_slice(from);
        }
        env.send(port, frame);
    } else {
        env.pool.give(frame);
    }
}

fn make(env: &mut Env, write: impl FnOnce(&mut [u8]) -> Option<usize>) -> Option<Frame> {
    let mut frame = env.pool.take()?;
    let arena = env.pool.arena();
    let Some(len) = write(arena.space_mut(&mut frame)) else {
        env.pool.give(frame);
        return None;
    };
    arena.set_len(&mut frame, len);
    Some(frame)
}
