//! The end of the first pipeline: packets wait in their service flows.

use engine::{Burst, Ctx, Drop, Stage};

use crate::lane::Cmts;
use crate::punts;

/// Puts packets into their service flows' queues.
#[derive(Default)]
pub struct Enqueue;

impl Stage<Cmts> for Enqueue {
    const NAME: &'static str = "qos";

    #[inline(never)]
    fn run(&mut self, burst: &mut Burst<Cmts>, cx: &mut Ctx<'_, Cmts>) {
        let at = cx.at();
        let now = cx.env.now;
        let scheduler = &mut cx.state.scheduler;
        let queued = burst.give_away(at, |i, frame, lane| scheduler.push(lane.flow[i], frame, now).map_err(Drop::from));
        cx.env.stats.terminated_all(punts::SERVICE_FLOW, queued);
    }
}
