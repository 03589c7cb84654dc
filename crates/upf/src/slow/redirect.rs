//! Subscribers who are sent to a web page: to top up, to log in (Redirect Information, 3GPP TS 29.244, 8.2.20).

use std::hash::BuildHasher;

use dataplane::icmp::one_more_hop;
use dataplane::parse::HasIp;
use dataplane::redirect;
use engine::Env;
use frame::Frame;

use super::SlowPath;
use super::errors::towards_subscriber;
use crate::lane::{Lane, State};
use crate::record::{Id, match_flags};
use crate::{drops, punts};
use dataplane::slow::make;

impl SlowPath {
    /// A subscriber's packet under a rule that sends it elsewhere: HTTP is answered so, inside its tunnel and within a
    /// limit; all else ends here.
    pub(super) fn redirect(&mut self, lane: &Lane, i: usize, frame: &Frame, state: &State, env: &mut Env) {
        let action = state.sessions.action(lane.session[i], lane.action[i]);
        let page = action.and_then(|action| match action.id() {
            Id::Page(number) => state.pages.get(number as usize),
            _ => None,
        });
        let is_theirs = lane.rule[i].flags & match_flags::FROM_UE != 0 && redirect::is_http(lane.ip(i));
        let way = towards_subscriber(state, lane.session[i]).filter(|_| is_theirs);
        let (Some(page), Some(way)) = (page, way) else {
            env.stats.drop_outside(drops::REDIRECTED, frame.len());
            return;
        };
        if !self.responder.may_answer(env) {
            env.stats.drop_outside(drops::LIMITED, frame.len());
            return;
        }
        env.stats.terminated(punts::REDIRECT);
        let arena = env.pool.arena().clone();
        let packet = arena.bytes(frame).get(usize::from(frame.meta.l3)..).unwrap_or_default();
        let secret = |name: &[u8]| self.secret.hash_one(name) as u32; // as good as any half
        let made = make(env, |space| {
            let len = redirect::answer(space, packet, page, secret)?;
            one_more_hop(space)?;
            Some(len)
        });
        if let Some(made) = made {
            self.originate(made, way, env);
        }
    }
}
