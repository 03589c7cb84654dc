//! The slow path that every gateway has: answers to ARP, neighbour discovery and pings, ICMP errors, fragments.
//!
//! A gateway's worker owns a [`Responder`] and calls it with packets that its pipelines punted. Everything is bounded by
//! rates per worker. What a packet of ours goes by is for the gateway to know: it re-injects what [`Speaker::write`] and [`cut`]
//! make.

use std::collections::VecDeque;
use std::net::IpAddr;

use engine::{Drop, Env, Io, Punt};
use frame::{Frame, HostInterface};
use wire::{L3L4, Mac, Outer};

use crate::forward::{InstanceId, PortView};
use crate::fragment::{Piece, Plan, dont_fragment};
use crate::icmp::{self, Told, echo_reply, may_answer, one_more_hop};
use crate::limit::{Allowance, Limit};
use crate::neighbour::{NeighbourMessage, Station, arp_reply, neighbour_advertisement};
use crate::parse::{self, HostClass};
use crate::{drops, punts};

/// ICMP errors a second and worker (RFC 1812, 4.3.2.8: a router limits them), and at once.
const ICMP: Allowance = Allowance::new(1000, 100);
/// Answers to ARP, neighbour discovery and pings a second and worker, and at once.
const ANSWERS: Allowance = Allowance::new(10_000, 1000);
/// What the link's routers send to the host (IS-IS, OSPF, BFD over one hop, answers of neighbours) a second and worker, and
/// at once.
const LINK: Allowance = Allowance::new(5000, 1000);
/// BGP and BFD over several hops, which may come from anywhere: a full table of BGP is 60 Mbit/s at this rate.
const SESSIONS: Allowance = Allowance::new(5000, 1000);
/// ICMP to the host.
const HOST_ICMP: Allowance = Allowance::new(500, 100);

/// What a worker answers, within its rates.
pub struct Responder {
    answers: Limit,
    errors: Limit,
    to_host: ToHost,
}

/// Rates of what goes to the host, apart: a flood of one kind leaves the others alone.
struct ToHost {
    link: Limit,
    sessions: Limit,
    icmp: Limit,
}

impl ToHost {
    /// Whether one more packet of a class may go to that interface now; if so, it is counted.
    ///
    /// # Errors
    /// The reason to drop it for.
    fn allow(&mut self, class: HostClass, host: &HostInterface, now: u64) -> Result<(), Drop> {
        let limit = match class {
            HostClass::Link => &mut self.link,
            HostClass::Sessions => &mut self.sessions,
            HostClass::Icmp => &mut self.icmp,
            // Of the port, not the worker.
            HostClass::Service => return if host.allow(now) { Ok(()) } else { Err(drops::HOST_LIMITED) },
        };
        if limit.allow(now) { Ok(()) } else { Err(drops::LIMITED) }
    }
}

/// ARP or neighbour discovery that a port received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heard {
    /// The port.
    pub port: u8,
    /// The message.
    pub message: NeighbourMessage,
    /// It is a request for an address of ours.
    pub for_us: bool,
}

/// The addresses that ICMP errors are sent from in a routing domain; none: no errors are sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Speaker {
    /// For IPv4.
    pub v4: Option<u32>,
    /// For IPv6.
    pub v6: Option<u128>,
}

impl Speaker {
    /// The first addresses of a routing domain's ports.
    pub fn of(ports: &[PortView], instance: InstanceId) -> Self {
        let of_it = || ports.iter().filter(|port| port.instance == instance);
        Self {
            v4: of_it().find_map(|port| port.v4.first()).map(|(address, _)| *address),
            v6: of_it().find_map(|port| port.v6.first()).map(|(address, _)| *address),
        }
    }

    /// Writes the ICMP error about `packet`, with the hop that the pipeline it goes by takes; returns its length.
    pub fn write(self, space: &mut [u8], told: Told, packet: &[u8]) -> Option<usize> {
        let len = match packet.first()? >> 4 {
            4 => icmp::error4(space, self.v4?.into(), told.v4, packet)?,
            _ => icmp::error6(space, self.v6?.into(), told.v6, packet)?,
        };
        one_more_hop(space)?;
        Some(len)
    }
}

impl Default for Responder {
    fn default() -> Self {
        let to_host = ToHost { link: Limit::new(LINK), sessions: Limit::new(SESSIONS), icmp: Limit::new(HOST_ICMP) };
        Self { answers: Limit::new(ANSWERS), errors: Limit::new(ICMP), to_host }
    }
}

impl Responder {
    /// Whether one more answer may be sent; if so, it is counted.
    pub fn may_answer(&mut self, env: &Env) -> bool {
        self.answers.allow(env.now)
    }

    /// Whether the sender of `packet` may be told of an error (RFC 1122, 3.2.2; RFC 4443, 2.4(e)) and the rate allows it; if
    /// so, it is counted.
    pub fn may_tell(&mut self, packet: &[u8], env: &Env) -> bool {
        may_answer(packet) && self.errors.allow(env.now)
    }

    /// ARP or neighbour discovery: answered by its port when it asks for an address of `port`. Returns what control is to be
    /// told; none: the message is malformed and was dropped.
    pub fn hear(&mut self, frame: &Frame, punt: Punt, port: &PortView, env: &mut Env) -> Option<Heard> {
        let message = match NeighbourMessage::parse(env.arena().bytes(frame)) {
            Ok(message) => message,
            Err(why) => {
                env.stats.drop_outside(crate::parse::malformed(why), frame.len());
                return None;
            }
        };
        env.stats.terminated(punt);
        self.copy_to_host(frame, &message, port, env);
        let us = Station { mac: Mac(port.mac), tags: port.tags_towards(env.arena().bytes(frame)) };
        let mut for_us = false;
        let reply = match message {
            NeighbourMessage::ArpRequest { sender, sender_ip, target } if port.is_mine4(target.into()) => {
                for_us = true;
                make(env, |space| arp_reply(space, &us, target, sender, sender_ip))
            }
            NeighbourMessage::NeighbourSolicitation { source, link, target } if port.is_mine6(target.into()) => {
                for_us = true;
                // Without a link-layer address option the frame's source is the sender's.
                let asker = link.or_else(|| wire::fast::array(env.arena().bytes(frame), 6).map(Mac));
                let to = asker.filter(|_| !source.is_unspecified()).map(|mac| (mac, source));
                make(env, |space| neighbour_advertisement(space, &us, target, to, true))
            }
            _ => None,
        };
        if let Some(reply) = reply {
            if self.answers.allow(env.now) {
                env.send(frame.meta.port, reply);
            } else {
                env.pool.give(reply);
            }
        }
        Some(Heard { port: frame.meta.port, message, for_us })
    }

    /// A message of a routing protocol, ICMP for the daemon that speaks it, or a packet to a service of the host: to the
    /// port's host interface, within the rate.
    pub fn to_host(&mut self, frame: Frame, punt: Punt, port: &PortView, env: &mut Env) {
        let class = parse::host_class(env.arena().bytes(&frame), punt, port);
        let refused = match port.host.as_ref().zip(class) {
            // A protocol that is not served on a port without one. ICMP has been seen here in any case.
            None if punt == punts::ROUTING => Some(drops::NO_SERVICE),
            None => None,
            Some((host, class)) => match self.to_host.allow(class, host, env.now) {
                Err(reason) => Some(reason),
                Ok(()) => (!put(host, &frame, env)).then_some(drops::HOST_REFUSED),
            },
        };
        match refused {
            Some(reason) => env.stats.drop_outside(reason, frame.len()),
            None => env.stats.terminated(punt),
        }
        env.pool.give(frame);
    }

    /// Answers of neighbours are the host's too, whose daemons have neighbours of their own on the link. Advertisements of
    /// routers are not: they would give the host a default route.
    fn copy_to_host(&mut self, frame: &Frame, message: &NeighbourMessage, port: &PortView, env: &Env) {
        let is_answer =
            matches!(message, NeighbourMessage::ArpReply { .. } | NeighbourMessage::NeighbourAdvertisement { .. });
        if let Some(host) = port.host.as_ref().filter(|_| is_answer)
            && self.to_host.link.allow(env.now)
        {
            // A lost one is asked for again.
            let _ = put(host, frame, env);
        }
    }

    /// A ping to us, answered within the rate by [`pong`].
    pub fn ping(&mut self, frame: Frame, env: &mut Env) {
        if !self.answers.allow(env.now) {
            env.stats.drop_outside(drops::LIMITED, frame.len());
            return env.pool.give(frame);
        }
        env.stats.terminated(punts::PING);
        pong(frame, env);
    }
}

/// Gives the host a frame as it came, without its tags. False: it was not taken.
fn put(host: &HostInterface, frame: &Frame, env: &Env) -> bool {
    let bytes = env.arena().bytes(frame);
    let l3 = Outer::parse(bytes).map_or(0, |outer| usize::from(outer.l3));
    let Some((head, payload)) = bytes.split_at_checked(l3) else { return false };
    let (Some(addresses), Some(kind)) = (head.first_chunk::<12>(), head.last_chunk::<2>()) else { return false };
    let mut untagged = [0; 14];
    untagged[..12].copy_from_slice(addresses);
    untagged[12..].copy_from_slice(kind);
    host.put(&untagged, payload)
}

/// Answers a ping in place: the reply takes the request's frame and tags and leaves by the port it came in by, to its sender.
/// The request was counted.
pub fn pong(mut frame: Frame, env: &mut Env) {
    let (port, l3) = (frame.meta.port, usize::from(frame.meta.l3));
    let arena = env.pool.arena().clone();
    // What the link padded does not go back.
    let total = L3L4::parse(arena.bytes(&frame).get(l3..).unwrap_or_default()).map_or(0, |ip| ip.total_len as u16);
    let _ = frame.truncate(frame.meta.l3.saturating_add(total));
    let bytes = arena.bytes_mut(&mut frame);
    if bytes.get_mut(l3..).is_some_and(echo_reply) {
        swap_macs(bytes);
        env.send(port, frame);
    } else {
        env.pool.give(frame);
    }
}

/// Cuts an IPv4 packet that may be fragmented (RFC 791) and gives each fragment of at most `mtu` bytes to `put`, which
/// says whether there was a buffer for it. False: it can't be cut, and its sender is to be told.
pub fn cut(packet: &[u8], mtu: u16, env: &mut Env, mut put: impl FnMut(&Piece<'_>, &mut Env) -> bool) -> bool {
    if packet.first().is_none_or(|byte| byte >> 4 != 4) || dont_fragment(packet) {
        return false;
    }
    let Ok(plan) = Plan::new(packet, mtu.into()) else { return false };
    env.stats.terminated(punts::OVERSIZE);
    for piece in plan.pieces() {
        if !put(&piece, env) {
            env.stats.add(Io::Originated, 1);
            env.stats.drop_outside(drops::NO_FRAME, piece.len());
        }
    }
    true
}

/// Packets that wait for a pipeline: a queue of at most `most` for each of `N` ways. They are counted by whoever puts them in
/// and takes them out.
pub struct Waiting<const N: usize> {
    queues: [VecDeque<Frame>; N],
    most: usize,
}

impl<const N: usize> Waiting<N> {
    /// Queues of at most `most` packets, empty.
    pub fn new(most: usize) -> Self {
        Self { queues: std::array::from_fn(|_| VecDeque::new()), most }
    }

    /// Packets that wait.
    pub fn held(&self) -> usize {
        self.queues.iter().map(VecDeque::len).sum()
    }

    /// Packets that wait for one way.
    pub fn len_of(&self, way: usize) -> usize {
        self.queues.get(way).map_or(0, VecDeque::len)
    }

    /// Keeps a frame.
    ///
    /// # Errors
    /// Gives it back: the queue is full.
    pub fn put(&mut self, way: usize, frame: Frame) -> Result<(), Frame> {
        match self.queues.get_mut(way) {
            Some(queue) if queue.len() < self.most => {
                queue.push_back(frame);
                Ok(())
            }
            _ => Err(frame),
        }
    }

    /// The first way that packets wait for, and the port of its first one.
    pub fn first(&self) -> Option<(usize, u8)> {
        self.queues.iter().enumerate().find_map(|(way, queue)| Some((way, queue.front()?.meta.port)))
    }

    /// The port of the first packet of a way; none: no packet waits for it.
    pub fn port_of(&self, way: usize) -> Option<u8> {
        Some(self.queues.get(way)?.front()?.meta.port)
    }

    /// The next packet of a way, if it is of that port.
    pub fn next_of(&mut self, way: usize, port: u8) -> Option<Frame> {
        self.queues.get_mut(way)?.pop_front_if(|frame| frame.meta.port == port)
    }

    /// The next packet of a way.
    pub fn next(&mut self, way: usize) -> Option<Frame> {
        self.queues.get_mut(way)?.pop_front()
    }

    /// Everything that waits: the worker ends.
    pub fn drain(&mut self) -> impl Iterator<Item = Frame> + '_ {
        self.queues.iter_mut().flat_map(|queue| queue.drain(..))
    }
}

/// Where a packet is going by its header.
pub fn destination(ip: &L3L4, packet: &[u8]) -> IpAddr {
    if ip.version == 4 { ip.dst.to_be_bytes().into() } else { ip.dst6(packet).to_be_bytes().into() }
}

/// Swaps source and destination of an Ethernet header.
pub fn swap_macs(frame: &mut [u8]) {
    if let Some(head) = frame.first_chunk_mut::<12>() {
        let (to, from) = head.split_at_mut(6);
        to.swap_with_slice(from);
    }
}

/// A new frame filled by `write`, which says how long it is. None: no buffer, or it did not fit.
pub fn make(env: &mut Env, write: impl FnOnce(&mut [u8]) -> Option<usize>) -> Option<Frame> {
    let mut frame = env.pool.take()?;
    let arena = env.pool.arena();
    match write(arena.space_mut(&mut frame)) {
        Some(len) => {
            arena.set_len(&mut frame, len);
            Some(frame)
        }
        None => {
            env.pool.give(frame);
            None
        }
    }
}
