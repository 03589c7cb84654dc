//! What a frame shows before anything is looked up: for steering and for the trace.

use std::net::IpAddr;

use engine::SteerKey;
use wire::{L3L4, Outer, ethertype, fast, l2tp, protocol};

use crate::config::Role;

/// Whom a frame from the network is to. For the trace and the slow path: it parses anew.
pub fn to_address(frame: &[u8]) -> Option<IpAddr> {
    let outer = Outer::parse(frame).ok()?;
    let packet = frame.get(usize::from(outer.l3)..)?;
    let ip = L3L4::parse(packet).ok()?;
    Some(if ip.version == 4 { IpAddr::V4(ip.dst.into()) } else { IpAddr::V6(ip.dst6(packet).into()) })
}

/// Whose worker sees to a frame: by the host it is to, or by its pseudowire. None: whoever got it.
pub fn steer_key(frame: &[u8], role: Role) -> Option<SteerKey> {
    let outer = Outer::parse(frame).ok()?;
    let packet = frame.get(usize::from(outer.l3)..)?;
    let version = packet.first()? >> 4;
    if role == Role::Network {
        // A host is one modem's, whatever network asks for it.
        let instance = Role::Network.instance();
        return match (outer.ethertype, version) {
            (ethertype::IP4, 4) => Some(SteerKey::V4(instance, fast::be32(packet, 16)?)),
            (ethertype::IP6, 6) => Some(SteerKey::V6(instance, fast::be64(packet, 24)?)),
            _ => None,
        };
    }
    let ip = L3L4::parse(packet).ok()?;
    let (carrier, offset) = match ip.protocol {
        protocol::L2TP => (l2tp::Carrier::Ip, 0),
        protocol::UDP if ip.dst_port == l2tp::PORT => (l2tp::Carrier::Udp, 8),
        _ => return None,
    };
    match l2tp::Message::parse(packet.get(usize::from(ip.l4) + offset..)?, carrier) {
        Ok(l2tp::Message::Data(header)) => Some(SteerKey::Id(header.session)),
        _ => None,
    }
}
