//! What a frame shows before anything is looked up: for steering and for the trace.

use std::net::IpAddr;

use engine::SteerKey;
use stages::forward::InstanceId;
use wire::{L3L4, Outer, ethertype, fast, l2tp, protocol};

use crate::config::Role;

/// Whether a frame from the network is to or from a host. For the trace only: it parses anew.
pub fn is_of_subscriber(frame: &[u8], subscriber: IpAddr) -> bool {
    let Ok(outer) = Outer::parse(frame) else { return false };
    let packet = frame.get(usize::from(outer.l3)..).unwrap_or_default();
    let Ok(ip) = L3L4::parse(packet) else { return false };
    match subscriber {
        IpAddr::V4(address) => [ip.src, ip.dst].contains(&address.into()) && ip.version == 4,
        IpAddr::V6(address) => ip.version == 6 && [ip.src6(packet), ip.dst6(packet)].contains(&u128::from(address)),
    }
}

/// Whose worker sees to a frame: by the host it is to, or by its pseudowire. None: whoever got it.
pub fn steer_key(frame: &[u8], role: Role, instance: InstanceId) -> Option<SteerKey> {
    let outer = Outer::parse(frame).ok()?;
    let packet = frame.get(usize::from(outer.l3)..)?;
    let version = packet.first()? >> 4;
    if role == Role::Network {
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
        Ok(l2tp::Message::Data(header)) => Some(SteerKey::Teid(header.session)),
        _ => None,
    }
}
