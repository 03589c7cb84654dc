//! First looks at a packet.

use engine::Drop;
use frame::BURST;
use wire::{L3L4, Malformed, Outer, ethertype, fast};

use crate::forward::PortView;

/// What the lane knows of each user packet: parsed once, by the first stage.
pub struct UserIp(pub [L3L4; BURST]);

impl Default for UserIp {
    fn default() -> Self {
        Self([L3L4::default(); BURST])
    }
}

/// A lane with user packets in it.
pub trait HasIp {
    /// The headers of packet `i`.
    fn ip(&self, i: usize) -> &L3L4;
    /// The headers of packet `i`, to fill in.
    fn ip_mut(&mut self, i: usize) -> &mut L3L4;
}

/// The drop reason for bytes that are no packet.
#[inline]
pub fn malformed(why: Malformed) -> Drop {
    match why {
        Malformed::BadHeaderChecksum => Drop::HeaderChecksum,
        _ => Drop::Malformed,
    }
}

/// Checks that a frame is meant for this port (hardware address or multicast, VLAN) and finds its network layer:
/// (type, offset).
#[inline]
pub fn link(frame: &[u8], port: &PortView) -> Result<(u16, u16), Drop> {
    let outer = Outer::parse(frame).map_err(malformed)?;
    let vlan = outer.outer_vlan().map(|tag| tag.id());
    // Priority tags (VLAN 0) belong to the untagged network (IEEE 802.1Q, 9.6).
    if vlan.filter(|id| *id != 0) != port.vlan || outer.tags > 1 {
        return Err(Drop::WrongVlan);
    }
    let to_us = frame[..6] == port.mac || port.mac == [0; 6];
    if !to_us && !is_for_all(frame, &outer) {
        return Err(Drop::NotForUs);
    }
    Ok((outer.ethertype, outer.l3))
}

/// Whether a frame is to a group that we listen to: ARP, or IPv6 multicast such as neighbour discovery. A packet to one
/// host that came as a link-layer broadcast is not to be forwarded (RFC 1812, 5.3.4).
#[cold]
fn is_for_all(frame: &[u8], outer: &Outer) -> bool {
    let multicast6 = || fast::be8(frame, usize::from(outer.l3) + L3L4::V6_DST) == Some(0xff);
    frame[0] & 1 == 1
        && match outer.ethertype {
            ethertype::IP4 => false,
            ethertype::IP6 => multicast6(),
            _ => true,
        }
}
