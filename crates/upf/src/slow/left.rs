//! What control has us say to the end of a tunnel: that no more packets come by it, and whether it is there.

use dataplane::forward::{InstanceId, Tunnel};
use dataplane::icmp::one_more_hop;
use dataplane::route::HasForwarding;
use engine::{Env, Io};
use table::records::LineId;
use wire::gtpu::Message;
use wire::{checksum, protocol};

use super::{Reinject, SlowPath};
use crate::drops;
use crate::lane::State;
use dataplane::slow::make;

impl SlowPath {
    /// Sends a message to the end of a tunnel: an End Marker behind the last packet (TS 29.281, 7.3.2), an Echo Request
    /// (7.2.1).
    pub(crate) fn tell_end(
        &mut self,
        tunnel: u32,
        message: &Message,
        instance: InstanceId,
        state: &State,
        env: &mut Env,
    ) {
        let Some(tunnel) = state.forwarding().tunnel(tunnel) else { return };
        match make(env, |space| write(space, tunnel, message)) {
            Some(frame) => self.originate(frame, Reinject { instance, ..Reinject::by(LineId(0), 0) }, env),
            None => {
                env.stats.add(Io::Originated, 1);
                env.stats.drop_outside(drops::NO_FRAME, 0);
            }
        }
    }
}

/// A message with the headers that lead to a tunnel's end; its length.
fn write(space: &mut [u8], tunnel: &Tunnel, message: &Message) -> Option<usize> {
    let head = usize::from(tunnel.len);
    let total = head + message.emit(space.get_mut(head..)?).ok()?;
    let packet = space.get_mut(..total)?;
    packet[..head].copy_from_slice(tunnel.header.get(..head)?);
    let udp = head - 8;
    let datagram = (total - udp) as u16; // a few dozen bytes
    packet[udp + 4..udp + 6].copy_from_slice(&datagram.to_be_bytes());
    if tunnel.version == 4 {
        packet[2..4].copy_from_slice(&(total as u16).to_be_bytes());
        packet[10..12].fill(0);
        let sum = checksum::of(&packet[..udp]);
        packet[10..12].copy_from_slice(&sum.to_be_bytes());
    } else {
        packet[4..6].copy_from_slice(&datagram.to_be_bytes());
        let address = |at: usize| packet.get(at..at + 16)?.try_into().ok().map(u128::from_be_bytes);
        let pseudo = checksum::pseudo6(address(8)?, address(24)?, protocol::UDP, datagram.into());
        wire::udp::Packet::new_checked(&mut packet[udp..]).ok()?.fill_checksum(pseudo);
    }
    // The pipeline it leaves by takes one.
    one_more_hop(packet)?;
    Some(total)
}
