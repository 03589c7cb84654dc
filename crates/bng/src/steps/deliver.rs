//! The last stage towards subscribers.

use dataplane::parse::HasIp;
use dataplane::route::decrement_ttl;
use engine::{Burst, Ctx, Stage};
use wire::ethertype;

use crate::drops;
use crate::lane::Bng;
use crate::link::LONGEST;

/// Replaces everything before the network header by the subscriber's link header, its priority by the packet's DSCP, and
/// takes one from the TTL. The subscriber's line is the route.
#[derive(Default)]
pub struct Deliver;

impl Stage<Bng> for Deliver {
    const NAME: &'static str = "deliver";

    #[inline(never)]
    fn run(&mut self, burst: &mut Burst<Bng>, cx: &mut Ctx<'_, Bng>) {
        let (at, arena) = (cx.at(), cx.env.arena());
        let subscribers = &cx.state.subscribers;
        for i in burst.live() {
            let Some(head) = subscribers.head(burst.lane.record[i]) else {
                burst.drop(i, drops::UNKNOWN_SUBSCRIBER, at);
                continue;
            };
            let (version, tos) = (burst.lane.ip(i).version, burst.lane.ip(i).tos);
            let class = usize::from(tos >> 5);
            let pcp = subscribers.profile(head.profile).map_or(0, |profile| profile.pcp[class]) << 5;
            let frame = burst.frame_mut(i);
            let len = u16::from(head.link_len);
            // Room for the longest header, of which the frame keeps what counts: a copy of fixed size is a few moves.
            if frame.move_front(frame.meta.l3, LONGEST as u16).is_err() {
                burst.drop(i, drops::NO_HEADROOM, at);
                continue;
            }
            let kind = if version == 4 { ethertype::IP4 } else { ethertype::IP6 };
            if let Some((to, packet)) = arena.bytes_mut(frame).split_first_chunk_mut::<LONGEST>() {
                decrement_ttl(packet, version);
                match len {
                    22 => {
                        *to = head.link;
                        (to[14], to[18]) = (to[14] | pcp, to[18] | pcp);
                    }
                    18 => {
                        to[4..].copy_from_slice(&head.link[..18]);
                        to[18] |= pcp;
                    }
                    _ => to[8..].copy_from_slice(&head.link[..14]),
                }
                to[LONGEST - 2..].copy_from_slice(&kind.to_be_bytes());
            }
            let _ = frame.pull_front((LONGEST as u16).wrapping_sub(len)); // at most 22
            frame.meta.l3 = len;
            let port = head.port;
            burst.set_out(i, port);
        }
    }
}
