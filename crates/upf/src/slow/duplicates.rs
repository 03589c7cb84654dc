//! Duplicates of packets (Apply Action DUPL, 3GPP TS 29.244, 5.2.3.1): on their way from the rule that asks for them to
//! the tunnels they go into.

use dataplane::forward::Tunnel;
use dataplane::icmp::one_more_hop;
use dataplane::route::HasForwarding;
use engine::{Drop, Env, Io};
use table::records::LineId;

use super::{Reinject, SlowPath};
use crate::drops;
use crate::lane::State;
use crate::record::{Action, NONE8};
use crate::steps::{Checksum6, Outwards};
use dataplane::slow::make;

/// Bytes and numbers of duplicates that wait for the end of their burst: of a burst of long packets.
const BYTES: usize = 1 << 20;
const COUNT: usize = 1024;

/// Duplicates made of a burst.
pub struct Duplicates {
    bytes: Vec<u8>,
    list: Vec<Made>,
    /// Those there was no room for.
    lost: usize,
}

struct Made {
    len: usize,
    tos: u8,
    /// Where it goes.
    action: Action,
}

impl Default for Duplicates {
    /// Memory is touched only where duplicates are asked for.
    fn default() -> Self {
        Self { bytes: Vec::with_capacity(BYTES), list: Vec::with_capacity(COUNT), lost: 0 }
    }
}

impl Duplicates {
    /// Takes note of a packet to go where an action says.
    pub(crate) fn push(&mut self, packet: &[u8], tos: u8, action: &Action) {
        if self.list.len() == COUNT || self.bytes.len() + packet.len() > BYTES {
            self.lost += 1;
            return;
        }
        self.bytes.extend_from_slice(packet);
        self.list.push(Made { len: packet.len(), tos, action: *action });
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.list.len() + self.lost
    }
}

impl SlowPath {
    /// Sends the duplicates made up to now. One that does not fit the way is dropped by name, and its sender not told:
    /// whoever sends or receives the packet does not notice.
    pub(crate) fn send_duplicates(&mut self, state: &mut State, env: &mut Env) {
        let mut made = std::mem::take(&mut state.duplicates.list);
        let mut from = 0;
        for Made { len, tos, action } in made.drain(..) {
            let packet = state.duplicates.bytes.get(from..from + len).unwrap_or_default();
            from += len;
            let tunnel = state.forwarding().tunnel(action.tunnel).filter(|tunnel| tunnel.len > 0);
            let frame = tunnel.and_then(|tunnel| make(env, |space| write(space, packet, tunnel, tos, &action)));
            match frame {
                // It goes by its outer header.
                Some(frame) => {
                    self.originate(
                        frame,
                        Reinject { instance: action.instance.into(), ..Reinject::by(LineId(0), 0) },
                        env,
                    );
                }
                None => lose(env, if tunnel.is_some() { drops::NO_FRAME } else { drops::FAR_INCOMPLETE }, len),
            }
        }
        state.duplicates.list = made;
        state.duplicates.bytes.clear();
        (0..std::mem::take(&mut state.duplicates.lost)).for_each(|_| lose(env, drops::NO_FRAME, 0));
    }
}

fn lose(env: &mut Env, why: Drop, len: usize) {
    env.stats.add(Io::Originated, 1);
    env.stats.drop_outside(why, len);
}

/// The packet in its tunnel; its length.
fn write(space: &mut [u8], packet: &[u8], tunnel: &Tunnel, tos: u8, action: &Action) -> Option<usize> {
    let tos = if action.dscp == NONE8 { tos } else { action.dscp << 2 | tos & 3 };
    let out = Outwards { tunnel, encap: action.encap.kind, id: action.id, tos };
    let (head, all) = (out.len(), out.len() + packet.len());
    space.get_mut(head..all)?.copy_from_slice(packet);
    out.write(space.get_mut(..all)?, Checksum6::Full)?;
    // The pipeline it leaves by takes one.
    one_more_hop(space)?;
    Some(all)
}
