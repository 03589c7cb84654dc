//! What subscribers in a walled garden may reach.

use dataplane::parse::HasIp;
use dataplane::redirect;
use engine::{Burst, Ctx, Stage};

use crate::lane::Bng;
use crate::pipeline::Choices;
use crate::{drops, punts};

/// Drops packets between a subscriber whose profile has a garden and what is not in it; HTTP requests go to the slow path,
/// which answers them. The gateway's own packets pass. Off where no profile has a garden.
#[derive(Default)]
pub struct Garden<const UPSTREAM: bool> {
    on: bool,
}

impl<const UPSTREAM: bool> Stage<Bng> for Garden<UPSTREAM> {
    const NAME: &'static str = "garden";

    fn build(choices: &Choices) -> Self {
        Self { on: choices.gardens }
    }

    #[inline]
    fn is_on(&self) -> bool {
        self.on
    }

    #[inline(never)]
    fn run(&mut self, burst: &mut Burst<Bng>, cx: &mut Ctx<'_, Bng>) {
        let (at, arena) = (cx.at(), cx.env.arena());
        let state = &*cx.state;
        for i in burst.live() {
            let Some(head) = state.subscribers.head(burst.lane.record[i]) else { continue };
            let profile = state.subscribers.profile(head.profile);
            let Some(garden) = profile.and_then(|profile| profile.garden.as_deref()) else { continue };
            let ip = *burst.lane.ip(i);
            let is_in = if ip.version == 4 {
                let other = if UPSTREAM { ip.dst } else { ip.src };
                garden.has4(other) || state.directory.is_own4(head.instance, other)
            } else {
                let packet = burst.bytes(i, arena).get(usize::from(burst.frame(i).meta.l3)..).unwrap_or_default();
                let other = if UPSTREAM { ip.dst6(packet) } else { ip.src6(packet) };
                garden.has6(other) || state.directory.is_own6(head.instance, other)
            };
            if is_in {
                continue;
            }
            if UPSTREAM && redirect::is_http(&ip) {
                burst.punt(i, punts::REDIRECT);
            } else {
                burst.drop(i, drops::WALLED_GARDEN, at);
            }
        }
    }
}
