//! Subscribers in a walled garden are sent to its portal.

use std::hash::BuildHasher;

use dataplane::redirect;
use dataplane::slow::make;
use engine::Env;
use frame::Frame;

use super::SlowPath;
use super::own::sender_key;
use crate::lane::{Lane, State};
use crate::{drops, punts};

impl SlowPath {
    /// A request for a page outside of its subscriber's garden: answered by its line with the portal's address, within a
    /// limit. What is said is not counted as the subscriber's usage.
    pub(super) fn redirect(&mut self, (lane, i): (&Lane, usize), frame: Frame, state: &State, env: &mut Env) {
        let profile = state.subscribers.head(lane.record[i]).and_then(|head| state.subscribers.profile(head.profile));
        let Some(garden) = profile.and_then(|profile| profile.garden.as_deref()) else {
            env.stats.drop_outside(drops::WALLED_GARDEN, frame.len());
            return env.pool.give(frame);
        };
        let arena = env.pool.arena().clone();
        let bytes = arena.bytes(&frame);
        let (link, packet) = bytes.split_at(usize::from(frame.meta.l3).min(bytes.len()));
        if !self.redirects.allow(sender_key(packet), env.now) {
            env.stats.drop_outside(drops::LIMITED, frame.len());
            return env.pool.give(frame);
        }
        env.stats.terminated(punts::REDIRECT);
        let secret = |name: &[u8]| self.secret.hash_one(name) as u32; // as good as any half
        let made = make(env, |space| {
            let len = redirect::answer(space.get_mut(link.len()..)?, packet, &garden.page, secret)?;
            let head = space.get_mut(..link.len())?;
            head.copy_from_slice(link);
            // Back to the station it came from.
            head.get_mut(..6)?.copy_from_slice(link.get(6..12)?);
            head.get_mut(6..12)?.copy_from_slice(link.get(..6)?);
            Some(link.len() + len)
        });
        if let Some(made) = made {
            env.send(frame.meta.port, made);
        }
        env.pool.give(frame);
    }
}
