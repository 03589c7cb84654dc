//! Packets to the gateway itself.

use std::net::IpAddr;

use dataplane::forward::{InstanceId, PortView};
use dataplane::parse::{host_or, may_be_of_datagram};
use engine::{Drop, Punt, SteerKey};
use wire::gtpu::message_type;
use wire::{L3L4, Outer, ethertype, fast, gtpu, protocol};

use crate::config::Role;
use crate::{drops, punts};

/// ICMPv6 types of neighbour discovery (RFC 4861, 4).
const ROUTER_SOLICITATION: u8 = 133;
const REDIRECT: u8 = 137;
const ECHO_REQUEST4: u8 = 8;
const ECHO_REQUEST6: u8 = 128;

/// Whether a packet is addressed to many: multicast or broadcast.
fn is_to_many(ip: &L3L4, packet: &[u8]) -> bool {
    if ip.version == 4 { ip.dst >= 0xe000_0000 } else { ip.dst6(packet) >> 120 == 0xff }
}

/// Where a packet goes that no pipeline forwards: to the slow path, or out under a name. `ours`: its destination is one
/// of our addresses; `tunnels`: the port's addresses are tunnel endpoints.
pub fn classify(ip: &L3L4, ours: bool, tunnels: bool, packet: &[u8], port: &PortView) -> Result<Punt, Drop> {
    let kind = packet.get(usize::from(ip.l4)).copied();
    if ip.version == 6
        && ip.protocol == protocol::ICMP6
        && kind.is_some_and(|kind| (ROUTER_SOLICITATION..=REDIRECT).contains(&kind))
    {
        return Ok(punts::NEIGHBOUR);
    }
    if !ours {
        return Err(if is_to_many(ip, packet) { drops::MULTICAST } else { drops::NOT_FOR_US });
    }
    match (ip.version, ip.protocol, kind) {
        (4, protocol::ICMP4, Some(ECHO_REQUEST4)) | (6, protocol::ICMP6, Some(ECHO_REQUEST6)) => Ok(punts::PING),
        (4, protocol::ICMP4, _) | (6, protocol::ICMP6, _) => Ok(punts::ICMP_OTHER),
        _ if !tunnels => host_or(ip, packet, port, ours, drops::NO_SERVICE),
        // It may be of a tunnel packet.
        _ if may_be_of_datagram(ip) => Err(drops::OUTER_FRAGMENT),
        _ => host_or(ip, packet, port, ours, drops::NOT_GTPU),
    }
}

/// Whether a frame as it came in carries a packet of the subscriber with that address. For the trace only: it parses
/// anew.
pub(crate) fn is_of_subscriber(frame: &[u8], role: Option<Role>, subscriber: IpAddr) -> bool {
    let Ok(outer) = Outer::parse(frame) else { return false };
    let mut packet = frame.get(usize::from(outer.l3)..).unwrap_or_default();
    if role == Some(Role::Access) {
        let Ok(ip) = L3L4::parse(packet) else { return false };
        let Some(payload) = packet.get(usize::from(ip.l4) + 8..) else { return false };
        let Ok(header) = gtpu::Header::parse(payload) else { return false };
        packet = payload.get(usize::from(header.payload_offset)..).unwrap_or_default();
    }
    let Ok(ip) = L3L4::parse(packet) else { return false };
    match subscriber {
        IpAddr::V4(address) => [ip.src, ip.dst].contains(&address.into()) && ip.version == 4,
        IpAddr::V6(address) => {
            let prefix = u128::from(address) >> 64;
            ip.version == 6 && [ip.src6(packet) >> 64, ip.dst6(packet) >> 64].contains(&prefix)
        }
    }
}

/// Where a frame's plain IP packet goes.
pub fn to_address(frame: &[u8]) -> Option<IpAddr> {
    let packet = frame.get(usize::from(Outer::parse(frame).ok()?.l3)..)?;
    match packet.first()? >> 4 {
        4 => Some(IpAddr::from(<[u8; 4]>::try_from(packet.get(16..20)?).ok()?)),
        6 => Some(IpAddr::from(<[u8; 16]>::try_from(packet.get(24..40)?).ok()?)),
        _ => None,
    }
}

/// What a frame shows of its subscriber: the tunnel endpoint it is for, be it a packet or the mark behind the last one,
/// or the destination address. None for everything that is not a subscriber's, and for what is broken: whoever got it
/// counts it.
#[inline(always)]
pub fn steer_key(frame: &[u8], role: Role, instance: InstanceId) -> Option<SteerKey> {
    usual_key(frame, role, instance).or_else(|| any_key(frame, role, instance))
}

/// As [`steer_key`], of IPv4 without tags and options. What is broken further on is counted by whoever it leads to.
#[inline(always)]
fn usual_key(frame: &[u8], role: Role, instance: InstanceId) -> Option<SteerKey> {
    const L3: usize = 14;
    const L4: usize = L3 + 20;
    let head = frame.first_chunk::<L4>()?;
    let word = |at: usize| u16::from_be_bytes([head[at], head[at + 1]]);
    if word(L3 - 2) != ethertype::IP4 || head[L3] != 0x45 {
        return None;
    }
    if role == Role::Core {
        return Some(SteerKey::V4(instance, fast::be32(head, L3 + 16)?));
    }
    let is_whole = word(L3 + 6) & 0x3fff == 0;
    let message = frame.get(L4..)?.first_chunk::<16>()?;
    let is_tunnel = head[L3 + 9] == protocol::UDP && u16::from_be_bytes([message[2], message[3]]) == gtpu::PORT;
    let is_user_packet = message[9] == message_type::G_PDU;
    (is_whole && is_tunnel && is_user_packet).then_some(SteerKey::Id(fast::be32(message, 12)?))
}

#[inline(never)]
fn any_key(frame: &[u8], role: Role, instance: InstanceId) -> Option<SteerKey> {
    let outer = Outer::parse(frame).ok()?;
    let packet = frame.get(usize::from(outer.l3)..)?;
    let version = packet.first()? >> 4;
    if role == Role::Core {
        return match (outer.ethertype, version) {
            (ethertype::IP4, 4) => Some(SteerKey::V4(instance, fast::be32(packet, 16)?)),
            (ethertype::IP6, 6) => Some(SteerKey::V6(instance, fast::be64(packet, 24)?)),
            _ => None,
        };
    }
    let ip = L3L4::parse(packet).ok()?;
    if ip.protocol != protocol::UDP || ip.dst_port != gtpu::PORT {
        return None;
    }
    let message = packet.get(usize::from(ip.l4) + 8..)?;
    let of_a_tunnel = matches!(fast::be8(message, 1)?, message_type::G_PDU | message_type::END_MARKER);
    Some(SteerKey::Id(fast::be32(message, 4)?)).filter(|_| of_a_tunnel)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use testkit::packet::{eth, ip4};
    use wire::checksum;

    use super::*;

    fn frame() -> Vec<u8> {
        let user = ip4([10, 0, 0, 1], [198, 51, 100, 7]).udp(4000, 4001).filled(32);
        let tunnel = eth([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]).ip4([192, 0, 2, 1], [192, 0, 2, 2]).gtpu(0x0102_0304);
        tunnel.carrying(&user).build()
    }

    #[test]
    fn a_tunnel_and_a_subscriber_are_read_where_they_usually_are() {
        assert_eq!(usual_key(&frame(), Role::Access, 0), Some(SteerKey::Id(0x0102_0304)));
        assert_eq!(usual_key(&frame(), Role::Core, 3), Some(SteerKey::V4(3, 0xc000_0202)));
    }

    #[test]
    fn fragments_to_tunnel_endpoints_may_be_the_hosts() {
        let host = testkit::rig::host_services(100);
        let port = PortView { v4: vec![(0xc000_0202, 24)], host, ..PortView::default() };
        let outcome = |protocol: u16, offset, more| {
            let packet = ip4([192, 0, 2, 1], [192, 0, 2, 2]).says(protocol).fragment(offset, more).payload([5; 48]);
            let packet = packet.build();
            classify(&L3L4::parse(&packet).unwrap(), true, true, &packet, &port)
        };
        for (offset, more) in [(0, true), (48, false)] {
            assert_eq!(outcome(protocol::UDP.into(), offset, more), Err(drops::OUTER_FRAGMENT));
            assert_eq!(outcome(protocol::TCP.into(), offset, more), Ok(dataplane::punts::HOST));
        }
    }

    proptest! {
        /// What is read at once is never another's than what is read with care, where that finds a packet sound.
        #[test]
        fn both_ways_of_reading_agree(changes in prop::collection::vec((12usize..58, any::<u8>()), 0..3), core: bool) {
            let mut frame = frame();
            changes.into_iter().for_each(|(at, byte)| frame[at] = byte);
            frame[24..26].fill(0);
            let sum = checksum::finish(checksum::sum(&frame[14..34]));
            frame[24..26].copy_from_slice(&sum.to_be_bytes());
            let role = if core { Role::Core } else { Role::Access };
            if let (Some(usual), Some(any)) = (usual_key(&frame, role, 1), any_key(&frame, role, 1)) {
                prop_assert_eq!(usual, any);
            }
        }
    }
}
