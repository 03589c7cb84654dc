//! What a router owes the senders of packets it does not forward (ICMP errors, fragments of what may be cut), and packets
//! that go on in another pipeline.
//!
//! What is for a subscriber enters the downstream pipeline as if the core had sent it, and so finds its line, access lists
//! and policer; what is for the core is routed there.

use std::net::IpAddr;

use dataplane::forward::{InstanceId, NONE, PortView};
use dataplane::icmp::{Told, may_answer};
use dataplane::nat;
use dataplane::parse::HasIp;
use dataplane::route::HasForwarding;
use dataplane::slow::{self, Speaker, Waiting, make};
use engine::{Burst, Drop, Env, Io};
use frame::{BURST, Frame, flags};
use wire::{L3L4, fast};

use super::SlowPath;
use crate::drops;
use crate::lane::{Bng, Lane, NOBODY, State};
use crate::moving::is_elsewhere;
use crate::steer::Side;

/// The pipeline that packets wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reinject {
    /// Downstream, from its begin: to a subscriber.
    Subscriber,
    /// Routed to the core.
    Core,
    /// Upstream, from its begin: came in by a hybrid port.
    Upstream,
}

impl Reinject {
    const ALL: [Self; 3] = [Self::Upstream, Self::Subscriber, Self::Core];
}

/// Packets that wait, for each pipeline at most.
const MOST: usize = 8 * BURST;

/// Packets that wait for their pipeline.
pub(super) struct Own(Waiting<3>);

impl Default for Own {
    fn default() -> Self {
        Self(Waiting::new(MOST))
    }
}

/// The packet that something is to be said about.
pub(super) struct About<'a> {
    /// The side it came from.
    pub side: Side,
    /// Its VRF.
    pub instance: InstanceId,
    /// Its bytes, from the IP header.
    pub packet: &'a [u8],
    /// Length of its frame.
    pub len: usize,
    /// It came from another subscriber.
    pub inside: bool,
}

impl Own {
    pub(super) fn held(&self) -> usize {
        self.0.held()
    }

    /// Keeps a frame, which has been counted where it came from.
    pub(super) fn put(&mut self, towards: Reinject, frame: Frame, env: &mut Env) {
        if let Err(frame) = self.0.put(towards as usize, frame) {
            give_up(frame, env);
        }
    }

    pub(super) fn close(&mut self, env: &mut Env) {
        self.0.drain().for_each(|frame| give_up(frame, env));
    }

    pub(super) fn next(&mut self, burst: &mut Burst<Bng>, state: &State, env: &Env) -> Option<Reinject> {
        // A burst is of one port.
        let (towards, port) = Reinject::ALL.into_iter().find_map(|it| Some((it, self.0.port_of(it as usize)?)))?;
        while burst.len() < BURST
            && let Some(frame) = self.0.next_of(towards as usize, port)
        {
            let ip = L3L4::parse(env.arena().bytes(&frame));
            let Ok(i) = burst.push(frame) else { break };
            env.stats.add(Io::Released, 1);
            if towards == Reinject::Core {
                let lane = &mut burst.lane;
                *lane.ip_mut(i) = ip.unwrap_or_default();
                (lane.hop[i], lane.instance[i], lane.record[i]) = (NONE, state.port(port).instance, NOBODY);
            }
        }
        Some(towards)
    }
}

fn give_up(frame: Frame, env: &mut Env) {
    env.stats.add(Io::Released, 1);
    env.stats.drop_outside(drops::OUT_QUEUE_FULL, frame.len());
    env.pool.give(frame);
}

/// A port with a core side in a VRF.
fn core_port(state: &State, instance: InstanceId) -> Option<(u8, &PortView)> {
    let is_core = |id: u8| state.directory.role(id).is_some_and(|role| role.has_core());
    let ports = state.forwarding().ports.iter().enumerate().map(|(id, view)| (id as u8, view)); // fewer than 256
    ports.into_iter().find(|(id, view)| view.instance == instance && is_core(*id))
}

impl SlowPath {
    /// Packets whose neighbour is known now are routed anew.
    pub(super) fn resume(&mut self, state: &State, env: &mut Env) {
        while self.own.0.len_of(Reinject::Core as usize) < BURST
            && let Some((instance, packet)) = self.unresolved.take_ready()
        {
            let made = core_port(state, instance).map(|(id, _)| id).zip(env.pool.make(packet));
            let Some((port, mut frame)) = made else {
                env.stats.add(Io::Released, 1);
                env.stats.drop_outside(drops::NO_FRAME, packet.len());
                continue;
            };
            (frame.meta.l3, frame.meta.port) = (0, port);
            // Counted when it leaves the queue, as released.
            self.own.put(Reinject::Core, frame, env);
        }
    }

    /// A packet from one subscriber to another: on as if the core had sent it, by the worker that owns the other.
    pub(super) fn turn(&mut self, mut frame: Frame, instance: InstanceId, state: &State, env: &mut Env) {
        let arena = env.pool.arena().clone();
        let packet = arena.bytes(&frame).get(usize::from(frame.meta.l3)..).unwrap_or_default();
        let version = packet.first().map_or(0, |first| first >> 4);
        let owner = match version {
            6 => fast::be64(packet, L3L4::V6_DST).and_then(|upper| state.directory.owner6(instance, upper)),
            _ => fast::be32(packet, 16).and_then(|to| state.directory.owner4(instance, to)),
        };
        let port = core_port(state, instance);
        let made = port.and_then(|(id, view)| {
            let head = view.as_received(version);
            let len = head.header_len();
            frame.move_front(frame.meta.l3, len as u16).ok()?; // at most 22
            head.emit(arena.bytes_mut(&mut frame)).ok()?;
            (frame.meta.port, frame.meta.l3) = (id, len as u16);
            frame.meta.flags |= flags::INSIDE;
            Some(id)
        });
        match made {
            None => {
                env.stats.add(Io::Released, 1);
                env.stats.drop_outside(drops::NO_ROUTE, frame.len());
                env.pool.give(frame);
            }
            Some(id) if owner.is_some_and(|owner| is_elsewhere(owner, self.worker, env)) => {
                env.stats.add(Io::Released, 1);
                env.pass_on(id, frame);
            }
            Some(_) => self.own.put(Reinject::Subscriber, frame, env),
        }
    }

    /// Drops a packet under a name and tells its sender why.
    pub(super) fn refuse(&mut self, about: &About<'_>, (why, told): (Drop, Told), state: &State, env: &mut Env) {
        env.stats.drop_outside(why, about.len);
        self.tell(about, told, state, env);
    }

    /// Tells the sender of a packet, which may have been translated, what became of it.
    pub(super) fn tell(&mut self, about: &About<'_>, told: Told, state: &State, env: &mut Env) {
        let mut undone = std::mem::take(&mut self.undone);
        undone.clear();
        undone.extend_from_slice(about.packet);
        if let Some(nat) = state.nat.as_ref().filter(|_| !about.inside) {
            let side = if about.side == Side::Access { nat::Side::Out } else { nat::Side::In };
            nat.undo(about.instance, side, &mut undone);
        }
        let as_sent = About { packet: &undone, ..*about };
        self.tell_sender(&as_sent, told, state, env);
        self.undone = undone;
    }

    /// Tells the sender of a packet, which is as it was sent, what became of it.
    fn tell_sender(&mut self, about: &About<'_>, told: Told, state: &State, env: &mut Env) {
        let packet = about.packet;
        if !may_answer(packet) || !self.errors.allow(sender_key(packet), env.now) {
            return;
        }
        // The pipeline it leaves by takes one hop.
        let to = sender_side(about, state);
        self.originate(about, to, state, env, |space, speaker| speaker.write(space, told, packet));
    }

    /// A packet larger than its way: in pieces (RFC 791), or back with the size that fits.
    pub(super) fn oversize(&mut self, about: &About<'_>, (lane, i): (&Lane, usize), state: &State, env: &mut Env) {
        let mtu = match about.side {
            Side::Core => state.subscribers.head(lane.record[i]).map_or(0, |head| head.mtu),
            Side::Access => state.forwarding().hop(lane.hop[i]).map_or(0, |hop| hop.mtu),
        };
        let onward = if about.side == Side::Core { Side::Access } else { Side::Core };
        // Pieces go on where the packet was going.
        let was_cut = slow::cut(about.packet, mtu, env, |piece, env| {
            self.originate(about, onward, state, env, |space, _| piece.write(space))
        });
        if was_cut {
            return;
        }
        self.refuse(about, (drops::TOO_BIG, Told::too_big(mtu)), state, env);
    }

    /// Makes a packet that goes to that side; `write` is given room for it and the gateway's addresses there. False: there
    /// is no packet buffer, or no address to speak from.
    fn originate(
        &mut self,
        about: &About<'_>,
        to: Side,
        state: &State,
        env: &mut Env,
        write: impl FnOnce(&mut [u8], Speaker) -> Option<usize>,
    ) -> bool {
        let Some((id, view)) = core_port(state, about.instance) else { return false };
        let speaker = speaker(about, to, state, view);
        let towards = if to == Side::Access { Reinject::Subscriber } else { Reinject::Core };
        let made = make(env, |space| match to {
            Side::Core => write(space, speaker),
            Side::Access => view.write_as_received(space, |space| write(space, speaker)),
        });
        let Some(mut frame) = made else { return false };
        (frame.meta.l3, frame.meta.port) = (0, id);
        frame.meta.flags |= flags::INSIDE;
        // Another worker's subscriber: on as if the core had sent it.
        let owner = owner_of(about, &frame, to, state, env);
        if owner.is_some_and(|owner| is_elsewhere(owner, self.worker, env)) {
            env.pass_on(id, frame);
            return true;
        }
        // Counted when it leaves the queue, as released.
        self.own.put(towards, frame, env);
        true
    }
}

/// The gateway's addresses towards a side: those of the sender's group, or of the core port.
fn speaker(about: &About<'_>, to: Side, state: &State, view: &PortView) -> Speaker {
    let of_port =
        Speaker { v4: view.v4.first().map(|(address, _)| *address), v6: view.v6.first().map(|(address, _)| *address) };
    if to == Side::Core {
        return of_port;
    }
    let source: Option<IpAddr> = L3L4::parse(about.packet).ok().map(|ip| match ip.version {
        4 => ip.src.to_be_bytes().into(),
        _ => ip.src6(about.packet).to_be_bytes().into(),
    });
    let record = source.and_then(|source| state.subscribers.of_address(about.instance, source));
    let group =
        record.and_then(|record| state.subscribers.head(record)).and_then(|head| state.subscribers.group(head.group));
    let gateways = group.map(|group| &group.plan.gateways[..]).unwrap_or_default();
    let own4 = gateways.iter().find_map(|address| match address {
        IpAddr::V4(address) => Some(address.to_bits()),
        IpAddr::V6(_) => None,
    });
    let own6 = gateways.iter().find_map(|address| match address {
        // A link-local source would not pass as one from the core.
        IpAddr::V6(address) if address.segments()[0] & 0xffc0 != 0xfe80 => Some(address.to_bits()),
        _ => None,
    });
    Speaker { v4: own4.or(of_port.v4), v6: own6.or(of_port.v6) }
}

/// The side a packet's sender is on: a packet that came from the core side may be one that a subscriber sent to another.
fn sender_side(about: &About<'_>, state: &State) -> Side {
    let packet = about.packet;
    let owner = match packet.first().map(|first| first >> 4) {
        Some(6) => {
            let upper = fast::be64(packet, L3L4::V6_SRC);
            upper.and_then(|upper| state.directory.owner6(about.instance, upper))
        }
        _ => fast::be32(packet, 12).and_then(|from| state.directory.owner4(about.instance, from)),
    };
    if owner.is_some() { Side::Access } else { about.side }
}

/// The worker that owns the subscriber a frame of our own is for; none: it is for the core.
fn owner_of(about: &About<'_>, frame: &Frame, to: Side, state: &State, env: &Env) -> Option<engine::Owner> {
    let bytes = env.arena().bytes(frame);
    let packet = bytes.get(usize::from(wire::Outer::parse(bytes).ok().filter(|_| to == Side::Access)?.l3)..)?;
    match packet.first()? >> 4 {
        6 => state.directory.owner6(about.instance, fast::be64(packet, L3L4::V6_DST)?),
        _ => state.directory.owner4(about.instance, fast::be32(packet, 16)?),
    }
}

/// The sender of a packet as a number, for limits.
pub(super) fn sender_key(packet: &[u8]) -> u64 {
    match packet.first().map(|first| first >> 4) {
        Some(6) => fast::be64(packet, L3L4::V6_SRC).unwrap_or(0),
        _ => fast::be32(packet, 12).unwrap_or(0).into(),
    }
}
