//! End Markers: the last packet on an old path (TS 29.281, 7.3.2; TS 23.501, 5.8.2.9).

use dataplane::forward::{Hop, NONE, Tunnel};
use dataplane::route::HasForwarding;
use engine::Env;
use wire::gtpu::Message;
use wire::{Teid, checksum};

use super::SlowPath;
use crate::lane::State;
use crate::record::{self, Action, kind};
use dataplane::slow::make;

impl SlowPath {
    /// An End Marker on a tunnel whose packets go on into another one (N9, indirect forwarding) goes on as they do, behind
    /// all that came before it. Elsewhere it ends here. One that would have to wait for a neighbour is lost: nothing
    /// went that way before it.
    pub(super) fn pass_end_marker(&mut self, teid: u32, state: &State, env: &mut Env) {
        let Some((action, teid)) = onwards(teid, state) else { return };
        let tables = state.forwarding();
        let Some(tunnel) = tables.tunnel(action.tunnel) else { return };
        let Some(hop) = tables.hop(tunnel.hop).filter(|hop| hop.is_resolved()) else { return };
        let message = Message::EndMarker { teid, container: None };
        if let Some(made) = make(env, |space| write(space, hop, tunnel, &message)) {
            env.send(hop.port, made);
        }
    }
}

/// The action that sends a tunnel's packets into another one.
fn onwards(teid: u32, state: &State) -> Option<(&Action, Teid)> {
    let sessions = &state.sessions;
    let session = sessions.get_teid(sessions.prefetch_teid(teid), teid)?.line;
    let lines = sessions.record(session)?;
    let head = record::head(lines)?;
    let rules = record::matches(lines, head).get(..usize::from(head.up))?.iter().filter(|rule| rule.teid == teid);
    let actions = rules.filter_map(|rule| sessions.action(session, rule.then.action));
    let mut forwarded = actions.filter(|action| action.what() == kind::FORWARD && action.tunnel != NONE);
    forwarded.find_map(|action| Some((action, Teid(action.teid()?))))
}

/// Writes the whole frame of a message into a tunnel; its length.
fn write(space: &mut [u8], hop: &Hop, tunnel: &Tunnel, message: &Message) -> Option<usize> {
    let (l2, outer) = (hop.encap.len(), usize::from(tunnel.len));
    let len = message.emit(space.get_mut(l2 + outer..)?).ok()?;
    let frame = space.get_mut(..l2 + outer + len)?;
    let packet = &mut frame[l2..];
    packet[..outer].copy_from_slice(&tunnel.header[..outer]);
    let (total, udp) = (packet.len() as u16, outer - 8); // a few dozen bytes
    let datagram = total - udp as u16;
    packet[udp + 4..udp + 6].copy_from_slice(&datagram.to_be_bytes());
    if tunnel.version == 4 {
        packet[2..4].copy_from_slice(&total.to_be_bytes());
        let check = checksum::of(&packet[..udp]);
        packet[10..12].copy_from_slice(&check.to_be_bytes());
    } else {
        packet[4..6].copy_from_slice(&datagram.to_be_bytes());
        let sum = checksum::combine(checksum::sum(&packet[udp..]), checksum::combine(tunnel.sum, datagram));
        packet[udp + 6..udp + 8].copy_from_slice(&checksum::finish_udp(sum).to_be_bytes());
    }
    hop.encap.write(frame).then_some(l2 + outer + len)
}
