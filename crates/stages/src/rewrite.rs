//! Putting the link header on.

use engine::{Burst, Ctx, Drop, Kind, Stage};
use wire::ethertype;

use crate::route::{HasForwarding, HasHop};

/// Replaces everything before the network header by the hop's link header. Pads nothing: the port does.
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
        for i in burst.live() {
            let Some(hop) = tables.hop(burst.lane.hop(i)) else {
                burst.drop(i, Drop::NoRoute, at);
                continue;
            };
            let l2 = u16::from(hop.l2_len);
            let frame = burst.frame_mut(i);
            let l3 = frame.meta.l3;
            let fits = if l3 >= l2 { frame.pull_front(l3 - l2).is_ok() } else { frame.push_front(l2 - l3).is_ok() };
            if !fits {
                burst.drop(i, Drop::NoHeadroom, at);
                continue;
            }
            frame.meta.l3 = l2;
            let bytes = arena.bytes_mut(frame);
            let kind = match bytes.get(usize::from(l2)) {
                Some(first) if first >> 4 == 6 => ethertype::IP6,
                _ => ethertype::IP4,
            };
            // Copies of a fixed size are a few moves.
            if l2 == UNTAGGED {
                put::<{ UNTAGGED as usize }>(bytes, &hop.l2, kind);
            } else {
                put::<18>(bytes, &hop.l2, kind);
            }
        }
    }
}

/// Bytes of a link header without tag.
const UNTAGGED: u16 = 14;

/// Writes the first `N` bytes of the link header, the type last.
#[inline(always)]
fn put<const N: usize>(frame: &mut [u8], l2: &[u8; 18], kind: u16) {
    if let (Some(to), Some(from)) = (frame.first_chunk_mut::<N>(), l2.first_chunk::<N>()) {
        *to = *from;
        to[N - 2..].copy_from_slice(&kind.to_be_bytes());
    }
}
