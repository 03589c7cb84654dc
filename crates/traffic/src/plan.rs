//! A profile compiled for playing: who is served when, and what a flow's number means.

use std::sync::Arc;

use crate::direction::Direction;
use crate::error::ProfileError;
use crate::profile::{Profile, Teids, crosses, v6_step};
use crate::remainder::Remainder;

/// UE ports new flows draw from: all but the well-known ones.
const NEW_PORTS: u64 = 65_536 - NEW_PORT_FIRST;
const NEW_PORT_FIRST: u64 = 1024;

/// A profile, or some of its users, compiled for playing. Shared by generators and checkers.
///
/// # Rounds, lanes and flow numbers
/// Users are served in rounds: each round gives every user one packet, in one pseudo-random order that no cache or
/// prefetcher can learn from the addresses. In the *lanes* of a cycle (as many as a user has flows) each user's flows
/// take turns, starting at a different one for every user. So packets per user and per flow are equal by
/// construction, and a packet's sequence number is the number of the cycle: the generator keeps no state per flow.
///
/// A flow's number is `base + lane × users + place in the order`: receiving in the order of sending walks through the
/// checker's memory in a straight line, so the measurer stays out of the caches of what it measures.
pub struct Plan {
    profile: Profile,
    /// User by place in the order.
    order: Box<[u32]>,
    /// TEIDs of listed tunnels by [place][bearer]; empty where a formula serves.
    teids: [Box<[u32]>; 2],
    flows: Box<[Flow]>,
    base: u32,
    gnbs: Remainder,
    servers: Remainder,
    v6_step: u64,
}

/// What flow *f* of any user is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flow {
    pub bearer: u16,
    pub server_port: u16,
    pub ue_port: u16,
}

/// One packet's parties.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parties {
    /// The user's number.
    pub ue: u32,
    /// Whether it speaks IPv6.
    pub v6: bool,
    /// The bearer's number.
    pub bearer: u16,
    /// The flow's number among its bearer's.
    pub flow: u16,
    /// The serving gNB's number.
    pub gnb: u32,
    /// The application server's number.
    pub server: u32,
    pub server_port: u16,
    /// The user's port.
    pub ue_port: u16,
}

impl Plan {
    /// All users of a profile.
    ///
    /// # Errors
    /// What is wrong with the profile.
    pub fn new(profile: Profile) -> Result<Arc<Self>, ProfileError> {
        let ues = 0..profile.ues;
        Self::subset(profile, ues, 0)
    }

    /// Some users of a profile, for one of several generators. `base` is the number of the first flow; generators
    /// whose packets meet at one receiver need ranges of [`Plan::flow_count`] that don't overlap.
    ///
    /// # Errors
    /// What is wrong with the profile; [`ProfileError::Subset`] for no users or unknown ones.
    pub fn subset(profile: Profile, ues: impl IntoIterator<Item = u32>, base: u32) -> Result<Arc<Self>, ProfileError> {
        profile.validate()?;
        let mut order: Box<[u32]> = ues.into_iter().collect();
        if order.is_empty() || order.iter().any(|ue| *ue >= profile.ues) {
            return Err(ProfileError::Subset);
        }
        if u64::from(base) + order.len() as u64 * u64::from(profile.flows_per_ue()) > 1 << 32 {
            return Err(ProfileError::TooLarge { key: "ues", value: order.len() as u64, max: 1 << 31 });
        }
        shuffle(&mut order, profile.seed);
        let teids = Direction::BOTH.map(|direction| match profile.teids(direction) {
            Teids::Formula { .. } => Box::default(),
            Teids::List(_) => {
                let of = |ue: &u32| (0..profile.bearers).map(|b| profile.teid(direction, *ue, b)).collect::<Vec<_>>();
                order.iter().flat_map(of).collect()
            }
        });
        let flow = |f: u16| {
            let bearer = f / profile.flows_per_bearer;
            let (first, _) = profile.server_ports(bearer);
            Flow { bearer, server_port: first + f % profile.flows_per_bearer, ue_port: profile.ue_port + f }
        };
        // Validation keeps a user's flows below 4096.
        let flows = (0..profile.flows_per_ue() as u16).map(flow).collect();
        let (gnbs, servers) = (Remainder::by(profile.gnbs), Remainder::by(profile.servers));
        let v6_step = v6_step(profile.ipv6_share);
        Ok(Arc::new(Self { profile, order, teids, flows, base, gnbs, servers, v6_step }))
    }

    pub fn profile(&self) -> &Profile {
        &self.profile
    }

    /// Users served.
    pub fn ues(&self) -> u32 {
        self.order.len() as u32
    }

    /// Flows of one user, which is the number of lanes.
    pub fn flows_per_ue(&self) -> u32 {
        self.flows.len() as u32
    }

    /// Number of the first flow.
    pub(crate) fn flow_base(&self) -> u32 {
        self.base
    }

    /// Flows of all users served.
    pub fn flow_count(&self) -> u32 {
        self.ues() * self.flows_per_ue()
    }

    /// Packets of one direction after which a 5-tuple of [`Profile::new_flows`] would come again.
    pub fn new_flow_period(&self) -> u64 {
        u64::from(self.ues()) * NEW_PORTS * self.free_ports() * u64::from(self.profile.servers)
    }

    /// Who sends what to whom in the flow of that number; none when it isn't one of this plan.
    pub fn parties(&self, flow: u32) -> Option<Parties> {
        let (place, lane) = self.place_of(flow.checked_sub(self.base)?);
        (lane < self.flows_per_ue()).then(|| self.at(place as usize, lane))
    }

    /// Place in the order and lane of the flow that many after the first.
    #[inline(always)]
    pub(crate) fn place_of(&self, index: u32) -> (u32, u32) {
        (index % self.ues(), index / self.ues())
    }

    /// As [`Plan::parties`], by place in the order and lane.
    ///
    /// # Panics
    /// When there is no such place.
    #[inline(always)]
    pub(crate) fn at(&self, place: usize, lane: u32) -> Parties {
        let ue = self.order[place];
        let flows = self.flows_per_ue();
        // Every user starts at its own flow, or whole rounds would use one bearer only.
        let turn = (u64::from(scatter(place)) * u64::from(flows)) >> 32;
        let mut index = turn as usize + lane as usize;
        if index >= flows as usize {
            index -= flows as usize;
        }
        let flow = self.flows[index];
        Parties {
            ue,
            v6: crosses(ue, self.v6_step),
            bearer: flow.bearer,
            flow: flow.server_port - self.profile.server_port - flow.bearer * self.profile.port_span,
            gnb: self.gnbs.of(ue),
            server: self.servers.of(ue.wrapping_add(index as u32)),
            server_port: flow.server_port,
            ue_port: flow.ue_port,
        }
    }

    /// Tunnel identifier of a bearer of the user at that place.
    #[inline(always)]
    pub(crate) fn teid_at(&self, direction: Direction, place: usize, ue: u32, bearer: u16) -> u32 {
        let listed = &self.teids[direction.index()];
        if listed.is_empty() {
            self.profile.teid(direction, ue, bearer)
        } else {
            listed[place * usize::from(self.profile.bearers) + usize::from(bearer)]
        }
    }

    /// What a round gives to its packets of new flows.
    pub(crate) fn fresh(&self, round: u64) -> Fresh {
        let port = round % NEW_PORTS;
        let rest = round / NEW_PORTS;
        let free = self.free_ports();
        // All three are below 2^16, 2^16 and the number of servers.
        Fresh {
            ue_port: port as u32,
            server_port: self.profile.flows_per_bearer + (rest % free) as u16,
            server: (rest / free % u64::from(self.profile.servers)) as u32,
            threshold: (self.profile.new_flows * (1u64 << 32) as f64) as u64,
            // Steps of the two-dimensional golden ratio: chosen packets are spread evenly over users and rounds.
            phase: (round as u32).wrapping_mul(0x91e1_0da5),
        }
    }

    fn free_ports(&self) -> u64 {
        u64::from((self.profile.port_span - self.profile.flows_per_bearer).max(1))
    }
}

/// A round's share of a 5-tuple never used before: user and bearer make the rest of it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Fresh {
    ue_port: u32,
    server_port: u16,
    server: u32,
    threshold: u64,
    phase: u32,
}

impl Fresh {
    /// Whether the packet for the user at that place belongs to a new flow.
    #[inline(always)]
    pub fn chooses(&self, place: usize) -> bool {
        let x = (place as u32).wrapping_mul(0xc13f_a9a9).wrapping_add(self.phase);
        u64::from(x) < self.threshold
    }

    /// Gives the packet its 5-tuple.
    #[inline]
    pub fn apply(&self, plan: &Plan, place: usize, parties: &mut Parties) {
        let mut port = self.ue_port + (scatter(place) >> 17);
        if port >= NEW_PORTS as u32 {
            port -= NEW_PORTS as u32;
        }
        parties.ue_port = (port + NEW_PORT_FIRST as u32) as u16;
        parties.server_port = plan.profile.server_ports(parties.bearer).0 + self.server_port;
        // By user, not by flow: the rounds of one user must walk over all servers.
        parties.server = plan.servers.of(plan.servers.of(parties.ue) + self.server);
    }
}

/// Any 32 bits from a place.
#[inline(always)]
fn scatter(place: usize) -> u32 {
    let x = (place as u32).wrapping_mul(0x9e37_79b1);
    (x ^ (x >> 15)).wrapping_mul(0x85eb_ca77)
}

/// Fisher and Yates, with a generator of our own so that a seed means the same for ever.
fn shuffle(order: &mut [u32], seed: u64) {
    let mut state = seed;
    for i in (1..order.len()).rev() {
        // SplitMix64.
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = state;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^= x >> 31;
        order.swap(i, ((u128::from(x) * (i as u128 + 1)) >> 64) as usize);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashSet;

    fn profile(ues: u32, bearers: u16, flows: u16) -> Profile {
        let qfis = (1..=bearers as u8).collect();
        Profile { ues, bearers, flows_per_bearer: flows, qfis, ..Profile::default() }
    }

    proptest! {
        #[test]
        fn every_flow_has_one_number(ues in 1u32..200, bearers in 1u16..4, flows in 1u16..5, seed: u64, base in 0u32..1000) {
            let plan = Plan::subset(Profile { seed, ..profile(ues, bearers, flows) }, 0..ues, base).unwrap();
            let mut seen = HashSet::new();
            for number in base..base + plan.flow_count() {
                let p = plan.parties(number).unwrap();
                prop_assert!(seen.insert((p.ue, p.bearer, p.flow)));
                let (first, last) = plan.profile().server_ports(p.bearer);
                prop_assert_eq!(p.server_port, first + p.flow);
                prop_assert!(p.server_port <= last && p.flow < flows && p.bearer < bearers && p.ue < ues);
                prop_assert_eq!(p.gnb, plan.profile().gnb_of(p.ue));
                prop_assert_eq!(p.v6, plan.profile().is_ipv6(p.ue));
            }
            prop_assert_eq!(plan.parties(base + plan.flow_count()), None);
            prop_assert!(base == 0 || plan.parties(base - 1).is_none());
        }

        #[test]
        fn listed_tunnels_follow_their_users(seed: u64, ues in 1u32..50) {
            let list: Arc<[u32]> = (0..ues * 2).map(|i| i * 7 + 3).collect();
            let plan = Plan::new(Profile { seed, uplink_teids: Teids::List(list), ..profile(ues, 2, 1) }).unwrap();
            for place in 0..ues as usize {
                let ue = plan.at(place, 0).ue;
                for bearer in 0..2u16 {
                    let want = (ue * 2 + u32::from(bearer)) * 7 + 3;
                    prop_assert_eq!(plan.teid_at(Direction::Uplink, place, ue, bearer), want);
                    prop_assert_eq!(plan.profile().teid(Direction::Uplink, ue, bearer), want);
                }
            }
        }
    }

    #[test]
    fn the_order_is_no_sequence_and_the_seed_decides_it() {
        let order = |seed| Plan::new(Profile { seed, ..profile(10_000, 1, 1) }).unwrap().order.clone();
        let one = order(1);
        assert_eq!(one, order(1));
        assert_ne!(one, order(2));
        assert!(one.windows(2).filter(|w| w[1] == w[0] + 1).count() < 10);
    }

    #[test]
    fn a_round_uses_all_bearers() {
        let plan = Plan::new(profile(10_000, 2, 4)).unwrap();
        let second = (0..10_000).filter(|&place| plan.at(place, 0).bearer == 1).count();
        assert!((4500..5500).contains(&second), "{second}");
    }

    #[test]
    fn subsets_are_of_known_users() {
        assert!(matches!(Plan::subset(profile(10, 1, 1), [10], 0), Err(ProfileError::Subset)));
        assert!(matches!(Plan::subset(profile(10, 1, 1), [], 0), Err(ProfileError::Subset)));
        let plan = Plan::subset(profile(10, 1, 1), [3, 7], 100).unwrap();
        let ues: HashSet<_> = (100..102).map(|f| plan.parties(f).unwrap().ue).collect();
        assert_eq!(ues, HashSet::from([3, 7]));
    }

    #[test]
    fn new_flows_do_not_come_again() {
        // Three servers and five free ports make a short period: walk through a piece of it at its seams.
        let base = profile(2, 2, 2);
        let plan = Plan::new(Profile { new_flows: 1.0, port_span: 7, servers: 3, ..base }).unwrap();
        let rounds = plan.new_flow_period() / 2;
        assert_eq!(rounds, NEW_PORTS * 5 * 3);
        let mut seen = HashSet::new();
        for round in 0..rounds {
            let mut p = plan.at(0, (round % 4) as u32);
            plan.fresh(round).apply(&plan, 0, &mut p);
            let (first, last) = plan.profile().server_ports(p.bearer);
            assert!((first + 2..=last).contains(&p.server_port) && p.server < 3);
            assert!(seen.insert((p.bearer, p.ue_port, p.server_port, p.server)), "round {round}");
        }
        let full = Plan::new(Profile { new_flows: 0.1, ..profile(1000, 2, 4) }).unwrap();
        assert!(full.new_flow_period() > 1 << 32);
    }

    #[test]
    fn new_flows_are_as_many_as_asked() {
        for (ues, share) in [(1, 0.25), (10, 0.01), (1000, 0.1), (1024, 0.5), (7, 1.0)] {
            let plan = Plan::new(Profile { new_flows: share, ..profile(ues, 1, 1) }).unwrap();
            let rounds = 100_000 / u64::from(ues);
            let count = |round| {
                let fresh = plan.fresh(round);
                (0..ues as usize).filter(|&place| fresh.chooses(place)).count()
            };
            let chosen: usize = (0..rounds).map(count).sum();
            let all = (rounds * u64::from(ues)) as f64;
            assert!((chosen as f64 / all - share).abs() < 0.002, "{ues} {share}: {chosen}");
        }
    }
}
