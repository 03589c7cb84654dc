//! Putting the link header on.

use engine::{Burst, Ctx, Kind, Stage};
use frame::Arena;
use wire::ethertype;

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
            let l2 = u16::from(hop.l2_len);
            // What a tunnel was put before is its affair; the tunnel's own TTL is fresh.
            let forwarded = burst.lane.overhead(i) == 0 && !burst.lane.is_relayed(i);
            let frame = burst.frame_mut(i);
            if frame.move_front(frame.meta.l3, l2).is_err() {
                burst.drop(i, drops::NO_HEADROOM, at);
                continue;
            }
            frame.meta.l3 = l2;
            let bytes = arena.bytes_mut(frame);
            // Copies of a fixed size are a few moves.
            if l2 == UNTAGGED {
                put::<{ UNTAGGED as usize }>(bytes, &hop.l2, forwarded);
            } else {
                put::<18>(bytes, &hop.l2, forwarded);
            }
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
    let kind = u32::from(hop.l2_len) << 8 | u32::from(lane.ip(i).version);
    let forwarded = lane.overhead(i) == 0 && !lane.is_relayed(i);
    if kind != u32::from(UNTAGGED) << 8 | 4 || !forwarded || frame.move_front(frame.meta.l3, UNTAGGED).is_err() {
        return false;
    }
    frame.meta.l3 = UNTAGGED;
    const LINK: usize = UNTAGGED as usize;
    if let Some(head) = arena.bytes_mut(frame).first_chunk_mut::<{ LINK + 12 }>() {
        decrement_ttl(&mut head[LINK..], 4);
        head[..LINK].copy_from_slice(&hop.l2[..LINK]);
    }
    true
}

/// Bytes of a link header without tag.
pub(crate) const UNTAGGED: u16 = 14;

/// Writes the first `N` bytes of the link header, with the type of the packet behind it, which is `forwarded` or not.
#[inline(always)]
fn put<const N: usize>(frame: &mut [u8], l2: &[u8; 18], forwarded: bool) {
    let Some((to, packet)) = frame.split_first_chunk_mut::<N>() else { return };
    let (kind, version) = match packet.first() {
        Some(first) if first >> 4 == 6 => (ethertype::IP6, 6),
        _ => (ethertype::IP4, 4),
    };
    if forwarded {
        decrement_ttl(packet, version);
    }
    if let Some(from) = l2.first_chunk::<N>() {
        *to = *from;
        to[N - 2..].copy_from_slice(&kind.to_be_bytes());
    }
}
