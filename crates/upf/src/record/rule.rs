//! Rules of a record: what a packet must be for one to apply, and what is done with it then.

use dataplane::filter::WAYS;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::{ACTIONS_BESIDE, Action, PLACES};

/// What a packet must be for a rule to apply, and which lines it then needs.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct Match {
    /// Our tunnel endpoint (uplink rules).
    pub teid: u32,
    /// First of its IPv4 filters, in units of [`Filter4`](dataplane::filter::Filter4) from the record's start.
    pub first4: u8,
    /// How many.
    pub count4: u8,
    /// First of its IPv6 filters, in units of [`Filter6`](dataplane::filter::Filter6) from the record's start.
    pub first6: u8,
    /// How many.
    pub count6: u8,
    /// What is done with its packets.
    pub then: RuleResult,
}

/// What is done with a rule's packets, in one word.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C, align(8))]
pub struct RuleResult {
    /// The QoS flow the packets must carry; [`NONE8`](super::NONE8): any.
    pub qfi: u8,
    /// Its action, in units of [`Action`] from the record's start.
    pub action: u8,
    /// See [`match_flags`].
    pub flags: u16,
    /// Its QERs' buckets of the rule's direction, in cells from the record's start; 0: none. See [`GROUP`](super::GROUP).
    pub meters: [u8; PLACES],
    /// Its URRs' counts of the rule's direction, in cells from the record's start; 0: none. See [`GROUP`](super::GROUP).
    pub tallies: [u8; PLACES],
}

impl RuleResult {
    /// Its counts, parted: those that count before gates and rates, and those that count behind them.
    pub(crate) fn tallies_parted(&self) -> [[u8; PLACES]; 2] {
        const FLAGS: [u16; PLACES] = [match_flags::BEFORE_QOS0, match_flags::BEFORE_QOS1];
        let of = |before: bool| {
            std::array::from_fn(|n| if (self.flags & FLAGS[n] != 0) == before { self.tallies[n] } else { 0 })
        };
        [of(true), of(false)]
    }
}

/// Bits of [`RuleResult::flags`].
pub mod match_flags {
    /// The rule has SDF filters: one of them must match.
    pub const FILTERED: u16 = 1;
    /// The first QER's bucket is the session's aggregate.
    pub const SESSION0: u16 = 2;
    /// The second QER's bucket is the session's aggregate.
    pub const SESSION1: u16 = 4;
    /// A QER's gate is closed in this direction.
    pub const CLOSED: u16 = 8;
    /// Packets come from the subscriber itself: their source is checked.
    pub const FROM_UE: u16 = 16;
    /// What counts in the first place counts packets before gates and rates.
    pub const BEFORE_QOS0: u16 = 32;
    /// What counts in the second place counts packets before gates and rates.
    pub const BEFORE_QOS1: u16 = 64;
    /// The packet's IP header is a tunnel's and taken off.
    pub const REMOVES_IP: u16 = 128;
    /// The packet's UDP and IP headers are a tunnel's and taken off.
    pub const REMOVES_UDP: u16 = 256;
}

/// A direction's filters by precedence of their rules, in fours, among those that a worker's sessions have in common: where
/// they begin, in pairs of lines, and how many fours they are. By the PDI's tunnel endpoint, QFI and SDF filter; a rule
/// without filters has one for everything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(transparent)]
pub struct QuadList(u32);

impl QuadList {
    /// There is none.
    pub const NONE: Self = Self(0);
    /// The most fours of a list.
    pub const MOST: usize = (1 << Self::COUNT_BITS) - 1;
    const COUNT_BITS: u32 = 5;

    /// So many fours from that pair of lines. `None` when there are too many of either.
    pub fn new(pair: usize, count: usize) -> Option<Self> {
        let fits = (1..=Self::MOST).contains(&count) && pair < 1 << (u32::BITS - Self::COUNT_BITS);
        fits.then_some(Self((pair << Self::COUNT_BITS | count) as u32))
    }

    /// The pair of lines where they begin.
    #[inline(always)]
    pub fn pair(self) -> u32 {
        self.0 >> Self::COUNT_BITS
    }

    /// How many fours.
    #[inline(always)]
    pub fn len(self) -> usize {
        self.0 as usize & Self::MOST
    }

    /// Whether there are none.
    #[inline(always)]
    pub fn is_empty(self) -> bool {
        self == Self::NONE
    }

    /// As a word, for an index.
    pub fn bits(self) -> u32 {
        self.0
    }

    /// From [`bits`](Self::bits).
    pub fn from_bits(bits: u32) -> Self {
        Self(bits)
    }
}

/// What is done with packets that match four filters.
pub type RuleResults = [RuleResult; WAYS];

/// What is done with the packets of four filters of a direction: a line.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct QuadActions {
    /// By filter.
    pub treatments: RuleResults,
    /// Actions they name; others stand behind all actions_of_quads.
    pub actions: [Action; ACTIONS_BESIDE],
}
