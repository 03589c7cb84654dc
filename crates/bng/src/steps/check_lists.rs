//! Access lists of profiles and access locations.

use dataplane::acl::{AccessLists, Action, Direction, HasAccessLists, Hits};
use dataplane::parse::HasIp;
use engine::{Burst, Ctx, Stage};
use table::shard::Shard;

use crate::drops;
use crate::lane::Bng;
use crate::pipeline::Choices;

/// Holds a packet against the list of its subscriber's profile and the list of its access location: both must let it pass.
/// Counts into a shard of [`Choices::hits`], and is off without.
#[derive(Default)]
pub struct CheckLists<const UPSTREAM: bool> {
    hits: Option<Shard>,
    rules: u32,
}

impl<const UPSTREAM: bool> CheckLists<UPSTREAM> {
    /// Whether a list lets the packet pass; counts the rule that decided.
    #[inline(always)]
    fn passes(&self, lists: &AccessLists, list: u16, ip: &wire::L3L4, packet: &[u8]) -> bool {
        let Some(list) = lists.of(list).filter(|_| list != 0) else { return true };
        let direction = if UPSTREAM { Direction::Up } else { Direction::Down };
        let decision = list.decide(direction, ip, packet);
        if let Some(hits) = self.hits.as_ref().filter(|_| decision.counter < self.rules) {
            let counter = decision.counter as usize * 2;
            hits.inc(counter);
            hits.add(counter + 1, ip.total_len.into());
        }
        decision.action != Action::Deny
    }
}

impl<const UPSTREAM: bool> Stage<Bng> for CheckLists<UPSTREAM> {
    const NAME: &'static str = "check_acl";

    fn build(choices: &Choices) -> Self {
        let shard = choices.hits.as_ref().map(Hits::shard);
        let rules = shard.as_ref().map_or(0, |(_, rules)| *rules);
        Self { hits: shard.map(|(hits, _)| hits), rules }
    }

    #[inline]
    fn is_on(&self) -> bool {
        self.hits.is_some()
    }

    #[inline(never)]
    fn run(&mut self, burst: &mut Burst<Bng>, cx: &mut Ctx<'_, Bng>) {
        let (at, arena) = (cx.at(), cx.env.arena());
        let state = &*cx.state;
        let Some(lists) = state.access_lists() else { return };
        for i in burst.live() {
            let Some(head) = state.subscribers.head(burst.lane.record[i]) else { continue };
            let (ip, l3) = (burst.lane.ip(i), usize::from(burst.frame(i).meta.l3));
            let packet = burst.bytes(i, arena).get(l3..).unwrap_or_default();
            let [profile, location] = head.acl;
            if !self.passes(lists, profile, ip, packet) || !self.passes(lists, location, ip, packet) {
                burst.drop(i, drops::ACL_DENIED, at);
            }
        }
    }
}
