//! Packets to the gateway itself.

use std::net::IpAddr;

use engine::{Drop, Punt, SteerKey};
use stages::forward::InstanceId;
use wire::gtpu::message_type;
use wire::{L3L4, Outer, ethertype, fast, gtpu, protocol};

use crate::config::Role;

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
pub fn classify(ip: &L3L4, ours: bool, tunnels: bool, packet: &[u8]) -> Result<Punt, Drop> {
    let kind = packet.get(usize::from(ip.l4)).copied();
    if ip.version == 6
        && ip.protocol == protocol::ICMP6
        && kind.is_some_and(|kind| (ROUTER_SOLICITATION..=REDIRECT).contains(&kind))
    {
        return Ok(Punt::Neighbour);
    }
    if !ours {
        return Err(if is_to_many(ip, packet) { Drop::Multicast } else { Drop::NotForUs });
    }
    match (ip.version, ip.protocol, kind) {
        (4, protocol::ICMP4, Some(ECHO_REQUEST4)) | (6, protocol::ICMP6, Some(ECHO_REQUEST6)) => Ok(Punt::Ping),
        (4, protocol::ICMP4, _) | (6, protocol::ICMP6, _) => Ok(Punt::IcmpOther),
        _ if !tunnels => Err(Drop::NoService),
        _ if ip.fragment != wire::Fragment::Whole => Err(Drop::OuterFragment),
        _ => Err(Drop::NotGtpu),
    }
}

/// Whether a frame as it came in carries a packet of the subscriber with that address. For the trace only: it parses
/// anew.
pub fn is_of_subscriber(frame: &[u8], role: Option<Role>, subscriber: IpAddr) -> bool {
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
pub fn steer_key(frame: &[u8], role: Role, instance: InstanceId) -> Option<SteerKey> {
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
    Some(SteerKey::Teid(fast::be32(message, 4)?)).filter(|_| of_a_tunnel)
}
