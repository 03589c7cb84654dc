//! May a packet go to its subscriber?

use dataplane::parse::HasIp;
use engine::{Burst, Ctx, Stage};

use crate::lane::Bng;
use crate::record::flags;
use crate::shaper::NO_LEAF;
use crate::{drops, punts};

/// Checks VRF, TTL and size before a packet is policed: what is answered with an error costs the subscriber nothing.
#[derive(Default)]
pub struct Admit;

impl Stage<Bng> for Admit {
    const NAME: &'static str = "admit";

    #[inline(never)]
    fn run(&mut self, burst: &mut Burst<Bng>, cx: &mut Ctx<'_, Bng>) {
        let at = cx.at();
        if let Some(shaper) = &cx.state.shaper {
            for i in burst.live() {
                if let Some(head) = cx.state.subscribers.head(burst.lane.record[i]) {
                    shaper.prefetch_place(head.handle);
                }
            }
        }
        for i in burst.live() {
            let Some(head) = cx.state.subscribers.head(burst.lane.record[i]) else {
                burst.drop(i, drops::UNKNOWN_SUBSCRIBER, at);
                continue;
            };
            let ip = *burst.lane.ip(i);
            if ip.ttl <= 1 {
                burst.punt(i, punts::TTL_EXPIRED);
            } else if ip.total_len > u32::from(head.mtu) {
                burst.punt(i, punts::OVERSIZE);
            } else if head.flags & flags::NO_MAC != 0 {
                burst.drop(i, drops::NEIGHBOUR_UNRESOLVED, at);
            } else {
                burst.lane.overhead[i] = head.overhead;
                let mut leaf = NO_LEAF;
                if let Some(shaper) = cx.state.shaper.as_ref().filter(|_| head.flags & flags::SHAPED != 0) {
                    let class = shaper.class(head.profile, ip.tos >> 2);
                    leaf = shaper.find(head.handle);
                    burst.lane.class[i] = class;
                    // The stages in between take as long as its lines do.
                    shaper.prefetch(leaf, class);
                }
                burst.lane.leaf[i] = leaf;
                // What stands between here and the last stage goes by the port it leaves by.
                burst.set_out(i, head.port);
            }
        }
    }
}
