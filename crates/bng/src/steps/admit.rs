//! May a packet go to its subscriber?

use dataplane::parse::HasIp;
use engine::{Burst, Ctx, Drop, Punt, Stage};

use crate::lane::Bng;
use crate::record::flags;

/// Checks VRF, TTL and size before a packet is policed: what is answered with an error costs the subscriber nothing.
#[derive(Default)]
pub struct Admit;

impl Stage<Bng> for Admit {
    const NAME: &'static str = "admit";

    #[inline(never)]
    fn run(&mut self, burst: &mut Burst<Bng>, cx: &mut Ctx<'_, Bng>) {
        let at = cx.at();
        for i in burst.live() {
            let Some(head) = cx.state.subscribers.head(burst.lane.record[i]) else {
                burst.drop(i, Drop::UnknownSubscriber, at);
                continue;
            };
            let ip = burst.lane.ip(i);
            if ip.ttl <= 1 {
                burst.punt(i, Punt::TtlExpired);
            } else if ip.total_len > u32::from(head.mtu) {
                burst.punt(i, Punt::Oversize);
            } else if head.flags & flags::NO_MAC != 0 {
                burst.drop(i, Drop::NeighbourUnresolved, at);
            } else {
                burst.lane.overhead[i] = head.overhead;
            }
        }
    }
}
