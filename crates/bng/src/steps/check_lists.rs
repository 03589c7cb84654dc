//! Access lists of profiles and access locations.

use dataplane::acl::{AccessLists, Action, Direction, HasAccessLists, Hits};
use dataplane::parse::HasIp;
use engine::{Burst, Ctx, Drop, Stage};
use table::shard::Shard;

use crate::lane::Bng;

/// Holds a packet against the list of its subscriber's profile and the list of its access location: both must let it pass.
pub struct CheckLists {
    direction: Direction,
    hits: Shard,
    rules: u32,
}

impl CheckLists {
    /// For a direction, counting into a shard of `hits`.
    pub fn new(direction: Direction, hits: &Hits) -> Self {
        let (hits, rules) = hits.shard();
        Self { direction, hits, rules }
    }

    /// Whether a list lets the packet pass; counts the rule that decided.
    #[inline(always)]
    fn passes(&self, lists: &AccessLists, list: u16, ip: &wire::L3L4, packet: &[u8]) -> bool {
        let Some(list) = lists.of(list).filter(|_| list != 0) else { return true };
        let decision = list.decide(self.direction, ip, packet);
        if decision.counter < self.rules {
            let counter = decision.counter as usize * 2;
            self.hits.inc(counter);
            self.hits.add(counter + 1, ip.total_len.into());
        }
        decision.action != Action::Deny
    }
}

impl Stage<Bng> for CheckLists {
    const NAME: &'static str = "check_acl";

    #[inline(never)]
    fn run(&mut self, burst: &mut Burst<Bng>, cx: &mut Ctx<'_, Bng>) {
        let (at, arena) = (cx.at(), cx.env.arena());
        if self.rules == 0 {
            return;
        }
        let state = &*cx.state;
        let Some(lists) = state.access_lists() else { return };
        for i in burst.live() {
            let Some(head) = state.subscribers.head(burst.lane.record[i]) else { continue };
            let (ip, l3) = (burst.lane.ip(i), usize::from(burst.frame(i).meta.l3));
            let packet = burst.bytes(i, arena).get(l3..).unwrap_or_default();
            let [profile, location] = head.acl;
            if !self.passes(lists, profile, ip, packet) || !self.passes(lists, location, ip, packet) {
                burst.drop(i, Drop::AclDenied, at);
            }
        }
    }
}
