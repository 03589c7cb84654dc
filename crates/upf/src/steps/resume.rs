//! Packets that waited go on.

use dataplane::forward::NONE;
use dataplane::route::HasForwarding;
use engine::{Burst, Ctx, Stage};

use super::apply_far::{forward, mark_user};
use crate::lane::Upf;
use crate::record::{NONE8, kind};
use crate::{drops, punts};

/// Applies the forwarding action rule *as it is now* to packets that were held: the subscriber may be at another gNB
/// since. Packets without a session (action 0) are routed as they are.
#[derive(Default)]
pub struct Resume;

impl Stage<Upf> for Resume {
    const NAME: &'static str = "resume";

    fn run(&mut self, burst: &mut Burst<Upf>, cx: &mut Ctx<'_, Upf>) {
        let (at, arena) = (cx.at(), cx.env.arena());
        let state = &*cx.state;
        let tables = state.forwarding();
        for i in burst.live() {
            if burst.lane.action[i] == 0 {
                burst.lane.tunnel[i] = NONE;
                burst.lane.hop[i] = NONE;
                burst.lane.overhead[i] = 0;
                burst.lane.dscp[i] = NONE8;
                continue;
            }
            match state.sessions.action(burst.lane.session[i], burst.lane.action[i]) {
                None => burst.drop(i, drops::SESSION_GONE, at),
                // The subscriber became idle while the packet waited for a neighbour.
                Some(action) if action.what() == kind::BUFFER => burst.punt(i, punts::BUFFER),
                Some(action) if ![kind::FORWARD, kind::CLOSED, kind::MARKED].contains(&action.what()) => {
                    burst.drop(i, drops::FAR_DROP, at)
                }
                Some(action) if !forward(&mut burst.lane, i, action, tables) => {
                    burst.drop(i, drops::FAR_INCOMPLETE, at);
                }
                Some(action) if action.what() == kind::MARKED => mark_user(burst, i, action.value, arena),
                Some(_) => {}
            }
        }
    }
}
