//! What we answer ourselves: subscribers' pings, GTP-U path messages.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use dataplane::forward::NONE;
use dataplane::icmp::{echo_reply, one_more_hop};
use dataplane::nat::Side;
use dataplane::parse::HasIp;
use dataplane::slow::{make, swap_macs};
use engine::{Env, Io};
use frame::Frame;
use wire::gtpu::{Message, extension_type, message_type};
use wire::{L3L4, Outer, checksum, protocol};

use super::errors::towards_subscriber;
use super::{Event, PORT, SlowPath};
use crate::lane::{Lane, State};
use crate::{drops, punts};

impl SlowPath {
    /// A subscriber's packet to an address of ours in its data network: pings are answered inside its tunnel (RFC 1812,
    /// 4.3.3.6), in place.
    pub(super) fn answer_subscriber(&mut self, lane: &Lane, i: usize, mut frame: Frame, state: &State, env: &mut Env) {
        let (l3, total) = (frame.meta.l3, lane.ip(i).total_len as u16); // fits: it lies in the frame
        let way = if lane.tunnel[i] == NONE && lane.action[i] != 0 {
            towards_subscriber(state, lane.session[i])
        } else {
            None
        };
        let arena = env.pool.arena().clone();
        let whole = frame.pull_front(l3).is_ok() && frame.truncate(total).is_ok();
        let bytes = arena.bytes_mut(&mut frame);
        if let Some(nat) = &state.nat {
            nat.undo(lane.instance[i], Side::Out, bytes);
        }
        let asked = whole && self.responder.may_answer(env) && echo_reply(bytes) && one_more_hop(bytes).is_some();
        match way.filter(|_| asked) {
            Some(way) => {
                env.stats.terminated(punts::PING);
                self.originate(frame, way, env);
            }
            None => {
                env.stats.drop_outside(drops::NOT_FOR_US, frame.len());
                env.pool.give(frame);
            }
        }
    }

    /// Echo Request → Echo Response with its sequence number (TS 29.281, 7.2). Responses are told control, which knows what
    /// it asked.
    pub(super) fn echo(&mut self, frame: &Frame, state: &State, env: &mut Env) {
        let start = usize::from(frame.meta.l3);
        let arena = env.pool.arena().clone();
        let bytes = arena.bytes(frame);
        let payload = bytes.get(start..).unwrap_or_default();
        let Ok(header) = wire::gtpu::Header::parse(payload) else { return };
        if !self.responder.may_answer(env) {
            return;
        }
        if header.message_type != message_type::ECHO_REQUEST {
            if let Some((ip, packet)) = network(bytes) {
                let (peer, instance) = (addresses(&ip, packet).0, state.port(frame.meta.port).instance);
                self.tell(Event::EchoResponse { instance, peer, sequence: header.seq });
            }
            return;
        }
        let message = Message::EchoResponse { seq: header.seq, recovery: 0 };
        self.reply(frame, bytes, &message, None, env);
    }

    /// A packet for an unknown tunnel endpoint: an Error Indication (TS 29.281, 7.3.1), but not more often than
    /// the limit, and never in answer to something that was itself no user packet.
    pub(super) fn indicate_error(&mut self, frame: &Frame, teid: u32, env: &mut Env) {
        let arena = env.pool.arena().clone();
        let bytes = arena.bytes(frame);
        let Some((ip, packet)) = network(bytes) else { return };
        let (from, to) = addresses(&ip, packet);
        if !self.error_indications.allow(peer_key(from), env.now) {
            return;
        }
        let message = Message::ErrorIndication { seq: 0, teid: wire::Teid(teid), peer: to };
        self.reply(frame, bytes, &message, Some(PORT), env);
    }

    /// A message with an extension header that must be comprehended and is not: its sender is told those that are
    /// (TS 29.281, 5.2.1 and 7.2.3), within a limit.
    pub(super) fn tell_extensions(&mut self, frame: &Frame, env: &mut Env) {
        let arena = env.pool.arena().clone();
        let bytes = arena.bytes(frame);
        let Some((ip, packet)) = network(bytes) else { return };
        if self.extension_notices.allow(peer_key(addresses(&ip, packet).0), env.now) {
            let message = Message::SupportedExtensions { seq: 0, types: &extension_type::SUPPORTED };
            self.reply(frame, bytes, &message, Some(PORT), env);
        }
    }

    /// A peer does not know a tunnel we send into.
    pub(super) fn error_indicated(&mut self, frame: &Frame, env: &mut Env) {
        let bytes = env.arena().bytes(frame);
        let payload = bytes.get(usize::from(frame.meta.l3)..).unwrap_or_default();
        if let Ok(Message::ErrorIndication { teid, peer, .. }) = Message::parse(payload) {
            self.tell(Event::ErrorIndication { teid: teid.0, peer });
        }
    }

    /// Sends a GTP-U message back to where a packet came from: addresses swapped; to its source port, or to `port`.
    fn reply(&mut self, about: &Frame, bytes: &[u8], message: &Message, port: Option<u16>, env: &mut Env) {
        let asker = network(bytes).map(|(ip, packet)| addresses(&ip, packet).0);
        if !asker.is_some_and(is_one_host) {
            return;
        }
        match make(env, |space| write_reply(space, bytes, message, port)) {
            Some(made) => env.send(about.meta.port, made),
            None => {
                env.stats.add(Io::Originated, 1);
                env.stats.drop_outside(drops::NO_FRAME, 0);
            }
        }
    }
}

/// Whether an address is one host's, which can be answered.
fn is_one_host(address: IpAddr) -> bool {
    let broadcast = matches!(address, IpAddr::V4(a) if a.is_broadcast());
    !(address.is_multicast() || address.is_unspecified() || address.is_loopback() || broadcast)
}

/// Names a peer in a limit.
fn peer_key(address: IpAddr) -> u64 {
    match address {
        IpAddr::V4(a) => u32::from(a).into(),
        IpAddr::V6(a) => (u128::from(a) >> 64) as u64 ^ u128::from(a) as u64,
    }
}

/// A frame's network layer.
fn network(frame: &[u8]) -> Option<(L3L4, &[u8])> {
    let outer = Outer::parse(frame).ok()?;
    let packet = frame.get(usize::from(outer.l3)..)?;
    Some((L3L4::parse(packet).ok()?, packet))
}

fn addresses(ip: &L3L4, packet: &[u8]) -> (IpAddr, IpAddr) {
    if ip.version == 4 {
        (Ipv4Addr::from(ip.src).into(), Ipv4Addr::from(ip.dst).into())
    } else {
        (Ipv6Addr::from(ip.src6(packet)).into(), Ipv6Addr::from(ip.dst6(packet)).into())
    }
}

const UDP: usize = 8;

/// Writes the whole frame of a GTP-U message in answer to `about`; its length.
fn write_reply(space: &mut [u8], about: &[u8], message: &Message, port: Option<u16>) -> Option<usize> {
    let (ip, packet) = network(about)?;
    let l3 = about.len() - packet.len();
    let header = if ip.version == 4 { 20 } else { 40 };
    let payload = l3 + header + UDP;
    let len = message.emit(space.get_mut(payload..)?).ok()?;
    space.get_mut(..l3)?.copy_from_slice(about.get(..l3)?);
    swap_macs(space);
    let udp_len = (UDP + len) as u16; // a few dozen bytes
    let (from, to) = addresses(&ip, packet);
    let pseudo = match (to, from) {
        (IpAddr::V4(us), IpAddr::V4(them)) => {
            let head = space.get_mut(l3..l3 + 20)?;
            head.fill(0);
            head[0] = 0x45;
            head[2..4].copy_from_slice(&(20 + udp_len).to_be_bytes());
            head[6] = 0x40; // as the tunnels' headers
            head[8] = 64;
            head[9] = protocol::UDP;
            head[12..16].copy_from_slice(&us.octets());
            head[16..20].copy_from_slice(&them.octets());
            let check = checksum::of(head);
            head[10..12].copy_from_slice(&check.to_be_bytes());
            checksum::pseudo4(us.into(), them.into(), protocol::UDP, udp_len)
        }
        (IpAddr::V6(us), IpAddr::V6(them)) => {
            let head = space.get_mut(l3..l3 + 40)?;
            head.fill(0);
            head[0] = 0x60;
            head[4..6].copy_from_slice(&udp_len.to_be_bytes());
            head[6] = protocol::UDP;
            head[7] = 64;
            head[8..24].copy_from_slice(&us.octets());
            head[24..40].copy_from_slice(&them.octets());
            checksum::pseudo6(us.into(), them.into(), protocol::UDP, udp_len.into())
        }
        _ => return None,
    };
    let udp = space.get_mut(l3 + header..payload + len)?;
    udp[..2].copy_from_slice(&PORT.to_be_bytes());
    udp[2..4].copy_from_slice(&port.unwrap_or(ip.src_port).to_be_bytes());
    udp[4..6].copy_from_slice(&udp_len.to_be_bytes());
    udp[6..8].fill(0);
    let check = checksum::finish_udp(checksum::combine(pseudo, checksum::sum(udp)));
    udp[6..8].copy_from_slice(&check.to_be_bytes());
    Some(payload + len)
}
