//! Into the queue of a subscriber's class.

use dataplane::parse::HasIp;
use engine::{Burst, Ctx, Drop, Stage};
use frame::flags;

use crate::lane::{Bng, State};
use crate::pipeline::Choices;
use crate::punts;
use crate::shaper::{NO_LEAF, Shedding};

/// Lets packets to shaped subscribers wait in the queue of their class, by DSCP; all others go on. Off where no profile is
/// shaped.
#[derive(Default)]
pub struct Shape {
    on: bool,
}

impl Stage<Bng> for Shape {
    const NAME: &'static str = "shape";

    fn build(choices: &Choices) -> Self {
        Self { on: choices.shapes }
    }

    #[inline]
    fn is_on(&self) -> bool {
        self.on
    }

    #[inline(never)]
    fn run(&mut self, burst: &mut Burst<Bng>, cx: &mut Ctx<'_, Bng>) {
        let (at, now, mut queued) = (cx.at(), cx.env.now, 0);
        let State { shaper, subscribers, changed, .. } = &mut *cx.state;
        let Some(shaper) = shaper.as_deref_mut() else { return };
        for i in burst.live() {
            let leaf = burst.lane.leaf[i];
            if leaf == NO_LEAF {
                continue;
            }
            let (version, class) = (burst.lane.ip(i).version, burst.lane.class[i]);
            // It is counted when it leaves, which may be at once.
            subscribers.prefetch_meter(burst.lane.record[i], false);
            let mut frame = burst.take(i);
            frame.meta.flags = frame.meta.flags & !flags::IPV6 | if version == 6 { flags::IPV6 } else { 0 };
            let mut shedding = Shedding { subscribers, changed, stats: &cx.env.stats };
            if let Err(why) = shaper.push((leaf, class), &mut frame, now, &mut shedding) {
                burst.put_back(i, frame);
                burst.drop(i, Drop::from(why), at);
            } else {
                queued += 1;
            }
        }
        cx.env.stats.terminated_all(punts::QUEUED, queued);
    }
}
