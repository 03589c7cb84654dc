//! The end of the first pipeline: packets wait in their service flows.

use engine::{Burst, Ctx, Punt, Stage};

use crate::lane::Cmts;

/// Puts packets into their service flows' queues.
pub struct Enqueue;

impl Stage<Cmts> for Enqueue {
    const NAME: &'static str = "qos";

    #[inline(never)]
    fn run(&mut self, burst: &mut Burst<Cmts>, cx: &mut Ctx<'_, Cmts>) {
        let at = cx.at();
        let now = cx.env.now;
        for i in burst.live() {
            let flow = burst.lane.flow[i];
            match cx.state.scheduler.push(flow, burst.take(i), now) {
                Ok(()) => cx.env.stats.consumed(Punt::ServiceFlow),
                Err((frame, why)) => {
                    burst.put_back(i, frame);
                    burst.drop(i, why.into(), at);
                }
            }
        }
    }
}
