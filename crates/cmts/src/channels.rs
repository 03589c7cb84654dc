//! The channels of bonding groups: what service flows leave by.

use dataplane::hqos::Links;
use serde::{Deserialize, Serialize};
use wire::docsis::BONDED_HEADER_LEN;

/// A channel as it is loaded.
#[derive(Clone, Debug)]
pub struct Load {
    /// Nanoseconds of a byte, in 2⁻²⁰.
    cost: u64,
    /// When everything it was given will have been sent, in nanoseconds.
    busy_until: u64,
    /// Time it was given work for, in nanoseconds and 2⁻²⁰ of them: what groups balance.
    given: u64,
    rest: u64,
    /// How much it may be given before its turn is over; see [`TURN`].
    turn: u64,
    /// Bytes of MAC frames given.
    pub bytes: u64,
    /// MAC frames given.
    pub packets: u64,
    /// Times it was chosen after another.
    pub selects: u64,
}

/// How far a channel has come, for another process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoadState {
    busy_until: u64,
    given: u64,
    rest: u64,
    bytes: u64,
    packets: u64,
    selects: u64,
}

const FRACTION: u32 = 20;
/// Bytes a channel is given before others are looked at: what fills a DEPI packet. So the packet that is being filled is
/// in the nearest cache while it is, and which channel has the least load is not asked for every frame.
const TURN: u64 = 1500;

impl Load {
    /// A channel of that capacity in bit/s.
    pub fn new(capacity: u64) -> Self {
        let cost = ((8_000_000_000u128 << FRACTION) / u128::from(capacity.max(1))) as u64;
        Self { cost, busy_until: 0, given: 0, rest: 0, turn: 0, bytes: 0, packets: 0, selects: 0 }
    }

    /// How far it has come.
    pub fn state(&self) -> LoadState {
        let Self { busy_until, given, rest, bytes, packets, selects, .. } = *self;
        LoadState { busy_until, given, rest, bytes, packets, selects }
    }

    /// Its capacity in bit/s.
    fn capacity(&self) -> u128 {
        (8_000_000_000u128 << FRACTION) / u128::from(self.cost.max(1))
    }

    /// It is the one with the least load.
    #[inline]
    fn begin_turn(&mut self) {
        self.turn = self.given + ((TURN * self.cost) >> FRACTION);
        self.selects += 1;
    }

    /// Whether its turn goes on, if it has nothing to do after `until`.
    #[inline]
    fn goes_on(&self, until: u64) -> bool {
        (self.given < self.turn) & (self.busy_until < until)
    }

    /// Gives it a frame of so many bytes.
    #[inline]
    fn give(&mut self, bytes: u64, now: u64) {
        let work = bytes * self.cost + self.rest;
        self.rest = work & ((1 << FRACTION) - 1);
        self.busy_until = self.busy_until.max(now) + (work >> FRACTION);
        self.given += work >> FRACTION;
        self.bytes += bytes;
        self.packets += 1;
    }
}

/// A bonding group.
struct Group {
    channels: Vec<u16>,
}

/// How far a channel may lag behind the others of its group, in nanoseconds, before that is forgotten.
const MEMORY_NS: u64 = 20_000_000;

impl Group {
    /// The channel with the least load of those that have nothing to do after `until`.
    #[inline(always)]
    fn freest(&self, loads: &[Load], until: u64) -> Option<u16> {
        let (mut best, mut least) = (u16::MAX, u64::MAX);
        for channel in &self.channels {
            let Some(load) = loads.get(usize::from(*channel)) else { continue };
            // Chosen without a branch: which is the least is unpredictable.
            let better = (load.busy_until < until) & (load.given < least);
            best = if better { *channel } else { best };
            least = if better { load.given } else { least };
        }
        (least < u64::MAX).then_some(best)
    }

    /// What its channels carry together, in bit/s.
    fn capacity(&self, loads: &[Load]) -> u64 {
        self.channels.iter().map(|c| loads[usize::from(*c)].capacity()).sum::<u128>() as u64
    }

    /// Has channels that lag far behind the others do so no more.
    fn forget(&self, loads: &mut [Load]) {
        let most = self.channels.iter().map(|c| loads[usize::from(*c)].given).max().unwrap_or(0);
        for channel in &self.channels {
            let load = &mut loads[usize::from(*channel)];
            load.given = load.given.max(most.saturating_sub(MEMORY_NS));
        }
    }
}

/// The channels of a worker, and the bonding groups they are in.
pub struct Channels {
    groups: Vec<Group>,
    loads: Vec<Load>,
}

impl Channels {
    /// Channels with their capacities in bit/s, and groups of them by their numbers.
    pub fn new(groups: &[Vec<u16>], capacities: &[u64]) -> Self {
        Self {
            groups: groups.iter().map(|channels| Group { channels: channels.clone() }).collect(),
            loads: capacities.iter().map(|capacity| Load::new(*capacity)).collect(),
        }
    }

    /// A channel goes on as far as it had come elsewhere.
    pub fn carry_on(&mut self, channel: usize, state: LoadState) {
        let Some(load) = self.loads.get_mut(channel) else { return };
        let LoadState { busy_until, given, rest, bytes, packets, selects } = state;
        *load = Load { busy_until, given, rest, bytes, packets, selects, ..Load { cost: load.cost, ..Load::new(1) } };
    }

    /// All channels.
    pub fn loads(&self) -> &[Load] {
        &self.loads
    }
}

impl Links for Channels {
    type Link = Load;

    fn groups(&self) -> usize {
        self.groups.len()
    }

    /// The channel whose turn it still is, or the one of the group with the least load of those that have room.
    #[inline(always)]
    fn choose(&mut self, group: usize, current: &mut Option<u16>, until: u64) -> Option<(u16, &mut Load)> {
        let loads = &mut self.loads[..];
        let goes_on = |channel: &u16| loads.get(usize::from(*channel)).is_some_and(|load| load.goes_on(until));
        let channel = match current.filter(goes_on) {
            Some(channel) => channel,
            None => {
                let channel = self.groups.get(group)?.freest(loads, until)?;
                loads.get_mut(usize::from(channel))?.begin_turn();
                *current = Some(channel);
                channel
            }
        };
        Some((channel, loads.get_mut(usize::from(channel))?))
    }

    /// The longest MAC header is counted, whichever it gets.
    #[inline(always)]
    fn give(channel: &mut Load, bytes: u32, now: u64) {
        channel.give(u64::from(bytes) + BONDED_HEADER_LEN as u64, now);
    }

    fn capacity(&self, group: usize) -> u64 {
        self.groups.get(group).map_or(1, |group| group.capacity(&self.loads))
    }

    /// What channels lag behind the others of their groups is bounded.
    fn tick(&mut self) {
        for group in &self.groups {
            group.forget(&mut self.loads);
        }
    }
}
