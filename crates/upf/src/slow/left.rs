//! What the end of a tunnel is told when packets no longer come by it.

use engine::{Drop, Env, Io};
use stages::forward::{InstanceId, Tunnel};
use stages::route::HasForwarding;
use table::records::LineId;
use wire::gtpu::{self, message_type};
use wire::{checksum, protocol};

use super::errors::make;
use super::{SlowPath, Way};
use crate::lane::State;

impl SlowPath {
    /// Sends an End Marker (TS 29.281, 7.3.2) behind the last packet of a tunnel.
    pub(crate) fn end_tunnel(&mut self, tunnel: u32, teid: u32, instance: InstanceId, state: &State, env: &mut Env) {
        let Some(tunnel) = state.forwarding().tunnel(tunnel) else { return };
        match make(env, |space| write(space, tunnel, teid)) {
            Some(frame) => self.originate(frame, Way { instance, ..Way::by(LineId(0), 0) }, env),
            None => {
                env.stats.add(Io::Originated, 1);
                env.stats.drop_outside(Drop::NoFrame, 0);
            }
        }
    }
}

/// An End Marker with the headers that lead to a tunnel's end; its length.
fn write(space: &mut [u8], tunnel: &Tunnel, teid: u32) -> Option<usize> {
    let head = usize::from(tunnel.len);
    let total = head + gtpu::HEADER_LEN;
    let packet = space.get_mut(..total)?;
    packet[..head].copy_from_slice(tunnel.header.get(..head)?);
    // Version 1, protocol type GTP, nothing optional; no payload.
    packet[head..].copy_from_slice(&[0x30, message_type::END_MARKER, 0, 0, 0, 0, 0, 0]);
    packet[head + 4..].copy_from_slice(&teid.to_be_bytes());
    let datagram = (8 + gtpu::HEADER_LEN) as u16;
    let udp = head - 8;
    packet[udp + 4..udp + 6].copy_from_slice(&datagram.to_be_bytes());
    if tunnel.version == 4 {
        packet[2..4].copy_from_slice(&(total as u16).to_be_bytes()); // 36
        packet[10..12].fill(0);
        let sum = checksum::of(&packet[..udp]);
        packet[10..12].copy_from_slice(&sum.to_be_bytes());
    } else {
        packet[4..6].copy_from_slice(&datagram.to_be_bytes());
        let address = |at: usize| packet.get(at..at + 16)?.try_into().ok().map(u128::from_be_bytes);
        let pseudo = checksum::pseudo6(address(8)?, address(24)?, protocol::UDP, datagram.into());
        wire::udp::Packet::new_checked(&mut packet[udp..]).ok()?.fill_checksum(pseudo);
    }
    Some(total)
}
