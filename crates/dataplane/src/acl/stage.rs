//! The verb.

use engine::{Burst, Ctx, Kind, Stage};
use table::shard::{Counters, Shard};

use super::lists::AccessLists;
use super::rule::{Action, Direction};
use crate::StageConfig;
use crate::drops;
use crate::parse::HasIp;
use crate::route::HasHop;

/// State with access lists.
pub trait HasAccessLists {
    /// The lists of this burst, as published; `None`: there are none.
    fn access_lists(&self) -> Option<&AccessLists>;
}

/// Packets and bytes by rule, over all workers: control's side. Two counters to a rule.
#[derive(Debug, Clone)]
pub struct Hits {
    counters: Counters,
    rules: u32,
}

impl Hits {
    /// Room for the counters 0 to `rules` - 1.
    pub fn new(rules: u32) -> Self {
        Self { counters: Counters::new(rules as usize * 2), rules }
    }

    /// How many counters there are.
    pub fn len(&self) -> u32 {
        self.rules
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.rules == 0
    }

    /// A worker's shard, and the number of rules' counters: for a stage that chooses lists by itself.
    pub fn shard(&self) -> (Shard, u32) {
        (self.counters.shard(), self.rules)
    }

    /// Packets and bytes counted at `counter` so far.
    pub fn of(&self, counter: u32) -> (u64, u64) {
        let at = counter as usize * 2;
        (self.counters.sum(at), self.counters.sum(at + 1))
    }
}

/// Asks the access list of the network instance a packet is in ([`HasHop::instance`]) whether it may pass. Addresses are
/// the subscriber's own: it stands before translation uplink, behind it downlink.
///
/// Counts into a shard of [`StageConfig::acl_hits`], and is off without.
#[derive(Default)]
pub struct CheckAcl<const UPLINK: bool> {
    hits: Option<Shard>,
    rules: u32,
}

impl<K: Kind, const UPLINK: bool> Stage<K> for CheckAcl<UPLINK>
where
    K::Lane: HasHop,
    K::State: HasAccessLists,
    K::Config: StageConfig,
{
    const NAME: &'static str = "check_acl";

    fn build(config: &K::Config) -> Self {
        let hits = config.acl_hits();
        Self { hits: hits.map(|hits| hits.counters.shard()), rules: hits.map_or(0, |hits| hits.rules) }
    }

    #[inline]
    fn is_on(&self) -> bool {
        self.hits.is_some()
    }

    #[inline(never)]
    fn run(&mut self, burst: &mut Burst<K>, cx: &mut Ctx<'_, K>) {
        let (at, arena) = (cx.at(), cx.env.arena());
        let direction = if UPLINK { Direction::Up } else { Direction::Down };
        let (Some(lists), Some(hits)) = (cx.state.access_lists(), &mut self.hits) else { return };
        for i in burst.live() {
            let Some(list) = lists.of(burst.lane.instance(i)) else { continue };
            let (ip, l3) = (burst.lane.ip(i), usize::from(burst.frame(i).meta.l3));
            let packet = burst.bytes(i, arena).get(l3..).unwrap_or_default();
            let decision = list.decide(direction, ip, packet);
            if decision.counter < self.rules {
                let counter = decision.counter as usize * 2;
                hits.inc(counter);
                hits.add(counter + 1, ip.total_len.into());
            }
            if decision.action == Action::Deny {
                burst.drop(i, drops::ACL_DENIED, at);
            }
        }
    }
}
