//! Putting the link header on.

use engine::{Burst, Ctx, Kind, Stage};
use frame::Arena;

use crate::drops;
use crate::forward::Hop;
use crate::parse::HasIp;
use crate::route::{HasForwarding, HasHop, decrement_ttl};

/// Replaces everything before the network header by the hop's link header, and takes one from the TTL of users' packets
/// that are forwarded as they are. Pads nothing: the port does.
#[derive(Default)]
pub struct RewriteL2;

impl<K: Kind> Stage<K> for RewriteL2
where
    K::Lane: HasHop,
    K::State: HasForwarding,
{
    const NAME: &'static str = "rewrite_l2";

    #[inline(never)]
    fn run(&mut self, burst: &mut Burst<K>, cx: &mut Ctx<'_, K>) {
        let at = cx.at();
        let tables = cx.state.forwarding();
        let arena = cx.env.arena();
        for i in burst.live().without(burst.lane.linked()) {
            let Some(hop) = tables.hop(burst.lane.hop(i)) else {
                burst.drop(i, drops::NO_ROUTE, at);
                continue;
            };
            if usual(burst, i, hop, arena) {
                continue;
            }
            let l2 = hop.encap.len() as u16; // 32 at most
            // What a tunnel was put before is its affair; the tunnel's own TTL is fresh.
            let forwarded = burst.lane.overhead(i) == 0 && !burst.lane.is_relayed(i);
            let frame = burst.frame_mut(i);
            if frame.move_front(frame.meta.l3, l2).is_err() {
                burst.drop(i, drops::NO_HEADROOM, at);
                continue;
            }
            frame.meta.l3 = l2;
            let bytes = arena.bytes_mut(frame);
            if forwarded && let Some(packet) = bytes.get_mut(l2.into()..) {
                let version = if packet.first().is_some_and(|first| first >> 4 == 6) { 6 } else { 4 };
                decrement_ttl(packet, version);
            }
            hop.write(bytes);
        }
    }
}

/// The link header without tag of an IPv4 packet that is forwarded as it is. False, and nothing done: it is not of that kind.
#[inline(always)]
fn usual<K: Kind>(burst: &mut Burst<K>, i: usize, hop: &Hop, arena: &Arena) -> bool
where
    K::Lane: HasHop,
{
    let (frame, lane) = burst.parts(i);
    let Some(link) = hop.encap.untagged() else { return false };
    let forwarded = lane.overhead(i) == 0 && !lane.is_relayed(i);
    if lane.ip(i).version != 4 || !forwarded || frame.move_front(frame.meta.l3, UNTAGGED).is_err() {
        return false;
    }
    frame.meta.l3 = UNTAGGED;
    const LINK: usize = UNTAGGED as usize;
    if let Some(head) = arena.bytes_mut(frame).first_chunk_mut::<{ LINK + 12 }>() {
        decrement_ttl(&mut head[LINK..], 4);
        head[..LINK].copy_from_slice(link);
    }
    true
}

/// Bytes of a link header without tag.
const UNTAGGED: u16 = wire::ethernet::HEADER_LEN as u16;
