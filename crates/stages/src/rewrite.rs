//! Putting the link header on.

use engine::{Burst, Ctx, Drop, Kind, Stage};
use wire::{ethertype, fast};

use crate::route::{HasForwarding, HasHop};

/// Replaces everything before the network header by the hop's link header. Pads nothing: the port does.
pub struct RewriteL2;

impl<K: Kind> Stage<K> for RewriteL2
where
    K::Lane: HasHop,
    K::State: HasForwarding,
{
    const NAME: &'static str = "rewrite_l2";

    #[inline]
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
            if let Some(head) = bytes.get_mut(..hop.l2.len()) {
                // A fixed-size copy is two moves; the bytes behind a short header are put back.
                let behind = [head[14], head[15], head[16], head[17]];
                head.copy_from_slice(&hop.l2);
                if l2 == 14 {
                    head[14..].copy_from_slice(&behind);
                }
                fast::put16(head, usize::from(l2) - 2, kind);
            }
        }
    }
}
