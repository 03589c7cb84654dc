//! How often the slow path answers: token buckets in one word, and one per peer.
//!
//! Each answer moves a time forward by the interval between answers; an answer is allowed while that time is not
//! further ahead of the clock than the burst (the generic cell rate algorithm, ITU-T I.371). RFC 1812, 4.3.2.8 and
//! RFC 4443, 2.4(f) ask for such a limit.

/// How many answers: plain configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allowance {
    /// Nanoseconds an answer costs.
    interval: u64,
    /// Nanoseconds an owner may run ahead of the clock before an answer.
    ahead: u64,
}

impl Allowance {
    /// At most `per_second` answers a second in the long run (0: none ever), and `burst` at once (at least one).
    pub const fn new(per_second: u32, burst: u32) -> Allowance {
        if per_second == 0 {
            return Allowance { interval: u64::MAX, ahead: 0 };
        }
        let interval = 1_000_000_000 / per_second as u64;
        let burst = if burst == 0 { 1 } else { burst };
        Allowance { interval, ahead: interval * (burst - 1) as u64 }
    }

    /// Whether the owner of `until` may have one more answer at `now`.
    #[inline]
    fn may(&self, until: u64, now: u64) -> bool {
        self.interval != u64::MAX && until.saturating_sub(now) <= self.ahead
    }

    /// Spends one answer of the owner of `until` at `now`, if there is one.
    #[inline]
    fn spend(&self, until: &mut u64, now: u64) -> bool {
        let allowed = self.may(*until, now);
        if allowed {
            *until = (*until).max(now) + self.interval;
        }
        allowed
    }
}

/// One limit. Time is in nanoseconds of the caller's clock and never goes back.
#[derive(Clone, Copy, Debug)]
pub struct Limit {
    allowance: Allowance,
    until: u64,
}

impl Limit {
    /// A limit that nothing was spent of.
    pub const fn new(allowance: Allowance) -> Limit {
        Limit { allowance, until: 0 }
    }

    /// Another allowance from now on; what was spent stays spent.
    pub const fn set(&mut self, allowance: Allowance) {
        self.allowance = allowance;
    }

    /// Whether one more is allowed at `now`; if so, it is spent.
    #[inline]
    pub fn allow(&mut self, now: u64) -> bool {
        self.allowance.spend(&mut self.until, now)
    }

    /// Whether one more would be allowed at `now`.
    #[inline]
    pub fn may(&self, now: u64) -> bool {
        self.allowance.may(self.until, now)
    }
}

/// Places for peers; a power of two.
const PEERS: usize = 256;
/// Places a peer may take.
const WAYS: usize = 4;

#[derive(Clone, Copy)]
struct Peer {
    key: u64,
    until: u64,
}

/// A limit for all and one for each peer, so that a noisy one does not silence the others: 4 KiB, no allocation.
///
/// Peers share a fixed number of places. Who finds all of its four taken by others that spent lately is refused: the
/// limit may be too strict to a peer for a while, never too lax.
pub struct PeerLimit {
    all: Limit,
    each: Allowance,
    seed: u64,
    peers: [Peer; PEERS],
}

impl PeerLimit {
    /// A limit of `each` per peer and `all` together. `seed` should be random, lest peers choose their neighbours.
    pub const fn new(each: Allowance, all: Allowance, seed: u64) -> PeerLimit {
        PeerLimit { all: Limit::new(all), each, seed, peers: [Peer { key: 0, until: 0 }; PEERS] }
    }

    /// Other allowances from now on; what was spent stays spent.
    pub const fn set(&mut self, each: Allowance, all: Allowance) {
        self.each = each;
        self.all.allowance = all;
    }

    /// Whether one more is allowed to the peer `key` at `now`; if so, it is spent. What a peer is refused costs the
    /// others nothing, and what all together are refused costs the peer nothing.
    #[inline]
    pub fn allow(&mut self, key: u64, now: u64) -> bool {
        let hash = (key ^ self.seed).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let hash = (hash ^ hash >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93);
        let first = (hash >> 56) as usize & (PEERS - WAYS);
        let ways = &mut self.peers[first..first + WAYS];
        // What a peer spent is forgotten once it has its whole burst again, so an idle place is as good as none.
        let own = ways.iter().position(|peer| peer.key == key && peer.until > now);
        let Some(at) = own.or_else(|| ways.iter().position(|peer| peer.until <= now)) else { return false };
        let mut until = ways[at].until;
        let allowed = self.each.spend(&mut until, now) && self.all.allow(now);
        if allowed {
            ways[at] = Peer { key, until };
        }
        allowed
    }
}

/// Places an owner of [`Owners`] may take: four cache lines.
const OWNER_WAYS: usize = 16;

/// The same allowance for each of very many owners, in as many places as its maker chooses: 16 bytes each.
///
/// As with [`PeerLimit`], who finds all of its places taken by others that spent lately is refused. With four places for
/// each owner that spends within one interval, fewer than one owner in 100,000 does.
pub struct Owners {
    each: Allowance,
    seed: u64,
    places: Box<[Peer]>,
}

impl Owners {
    /// An allowance of `each` for owners in at least so many places. `seed` should be random.
    pub fn new(each: Allowance, places: usize, seed: u64) -> Self {
        let places = places.next_power_of_two().max(OWNER_WAYS);
        Self { each, seed, places: vec![Peer { key: 0, until: 0 }; places].into() }
    }

    /// Another allowance of each owner from now on; what was spent stays spent.
    pub fn set(&mut self, each: Allowance) {
        self.each = each;
    }

    /// Places there are.
    pub fn places(&self) -> usize {
        self.places.len()
    }

    /// The place in which the owner `key` may spend one more at `now`; none: it may not.
    #[inline]
    pub fn find(&self, key: u64, now: u64) -> Option<usize> {
        let hash = (key ^ self.seed).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let hash = (hash ^ hash >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93);
        let first = (hash >> 32) as usize & (self.places.len() - OWNER_WAYS);
        let ways = self.places.get(first..first + OWNER_WAYS)?;
        let own = ways.iter().position(|peer| peer.key == key && peer.until > now);
        let at = own.or_else(|| ways.iter().position(|peer| peer.until <= now))?;
        let until = if own.is_some() { ways.get(at)?.until } else { now };
        self.each.may(until, now).then_some(first + at)
    }

    /// Spends one of the owner `key` in the place that [`find`](Self::find) gave for the same time.
    #[inline]
    pub fn spend(&mut self, place: usize, key: u64, now: u64) {
        if let Some(peer) = self.places.get_mut(place) {
            let from = peer.until.max(now);
            *peer = Peer { key, until: from.saturating_add(self.each.interval) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn a_burst_then_the_rate() {
        let mut limit = Limit::new(Allowance::new(10, 3));
        let spent = |limit: &mut Limit, now| (0..100).filter(|_| limit.allow(now)).count();
        assert_eq!(spent(&mut limit, 5 * SECOND), 3);
        assert_eq!(spent(&mut limit, 5 * SECOND + SECOND / 10 - 1), 0);
        assert_eq!(spent(&mut limit, 5 * SECOND + SECOND / 10), 1);
        assert_eq!(spent(&mut limit, 60 * SECOND), 3);
        assert_eq!(spent(&mut Limit::new(Allowance::new(0, 9)), SECOND), 0);
        assert_eq!(spent(&mut Limit::new(Allowance::new(1, 0)), SECOND), 1);
    }

    #[test]
    fn a_noisy_peer_does_not_silence_the_others() {
        let mut limit = PeerLimit::new(Allowance::new(10, 2), Allowance::new(100, 50), 42);
        assert_eq!((0..1000).filter(|_| limit.allow(1, SECOND)).count(), 2);
        assert!((2..20).all(|key| limit.allow(key, SECOND)));
        assert_eq!((20..1000).filter(|key| limit.allow(*key, SECOND)).count(), 50 - 2 - 18);
    }

    #[test]
    fn what_all_together_may_not_costs_the_peer_nothing() {
        let mut limit = PeerLimit::new(Allowance::new(1, 1), Allowance::new(2, 1), 7);
        assert!(limit.allow(1, SECOND));
        assert!(!limit.allow(2, SECOND));
        assert!(limit.allow(2, SECOND + SECOND / 2));
    }

    #[test]
    fn forty_thousand_owners_spend_at_once() {
        let mut owners = Owners::new(Allowance::new(10, 2), 160_000, 42);
        let mut spend = |key: u64, now| {
            let place = owners.find(key, now);
            place.into_iter().for_each(|place| owners.spend(place, key, now));
            place.is_some()
        };
        let refused = (1..=40_000).filter(|key| !spend(*key, SECOND)).count();
        assert_eq!(refused, 0);
        assert!(spend(7, SECOND) && !spend(7, SECOND) && spend(7, SECOND + SECOND / 10));
    }

    proptest! {
        #[test]
        fn no_peer_and_no_crowd_gets_more_than_its_share(
            seed: u64, calls in prop::collection::vec((0u64..2000, 0u64..20_000_000), 0..2000),
        ) {
            let mut limit = PeerLimit::new(Allowance::new(50, 4), Allowance::new(200, 20), seed);
            let (mut now, mut all, mut each) = (SECOND, 0u64, std::collections::HashMap::<u64, u64>::new());
            for (key, later) in calls {
                now += later;
                if limit.allow(key % 700, now) {
                    all += 1;
                    *each.entry(key % 700).or_default() += 1;
                }
            }
            let elapsed = now - SECOND;
            prop_assert!(all <= 20 + elapsed * 200 / SECOND);
            for (_, count) in each {
                prop_assert!(count <= 4 + elapsed * 50 / SECOND);
            }
        }
    }
}
