//! Rules of a record: what a packet must be for one to apply, and what is done with it then.

use dataplane::filter::WAYS;
use dataplane::forward::NONE;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::{ACTIONS_BESIDE, NONE8, PLACES};

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
    /// The QoS flow the packets must carry; [`NONE8`]: any.
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
    pub fn tallies_parted(&self) -> [[u8; PLACES]; 2] {
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

/// What a rule does with its packets: the FAR and the markings, compiled.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct Action {
    /// The tunnel to put packets in; [`NONE`]: none.
    pub tunnel: u32,
    /// The far end's tunnel endpoint.
    pub teid: u32,
    /// The PDR's rule ID, for reports.
    pub pdr: u16,
    /// The network instance to forward in.
    pub instance: u16,
    /// See [`apply`].
    pub apply: u8,
    /// DSCP to mark; [`NONE8`]: leave.
    pub dscp: u8,
    /// QFI to put in the PDU session container, with [`container`]'s flags; [`NONE8`]: no container; else see [`outer`].
    pub qfi: u8,
    /// How many packets wait at most, with [`apply::BUFFER`]; 0: as many as there is room for. The user packet's DSCP, with
    /// [`apply::MARKED`]. The paging policy, with [`apply::FORWARD`] and [`container::PPP`].
    pub keep: u8,
}

impl Action {
    /// See [`apply`], without the number of duplicates.
    pub fn kind(&self) -> u8 {
        self.apply & ((1 << apply::DUPLICATES) - 1)
    }

    /// Whether packets leave without a tunnel's headers.
    pub fn is_plain(&self) -> bool {
        self.tunnel == NONE || self.qfi == outer::NOTHING
    }

    /// How many actions behind this one say where duplicates go.
    pub fn duplicates(&self) -> u8 {
        self.apply >> apply::DUPLICATES
    }
}

/// Values of [`Action::apply`].
pub mod apply {
    /// Send it on.
    pub const FORWARD: u8 = 0;
    /// End it.
    pub const DROP: u8 = 1;
    /// Keep it until the subscriber is back.
    pub const BUFFER: u8 = 2;
    /// Answer it with the page whose number stands in the place of the far end's tunnel endpoint.
    pub const REDIRECT: u8 = 3;
    /// End it, but let pass what is of our own making.
    pub const CLOSED: u8 = 4;
    /// Send it to the control plane; which one, by control's number, stands in the place of the tunnel.
    pub const CONTROL: u8 = 5;
    /// Send it on, the user's packet marked.
    pub const MARKED: u8 = 6;

    /// How many duplicates of it are made first stands in the bits from here on; the actions behind say where they go.
    pub const DUPLICATES: u32 = 4;
}

/// Flags beside the QoS flow in [`Action::qfi`], as in DL PDU SESSION INFORMATION (TS 38.415, 5.5.2.1).
pub mod container {
    /// Reflective QoS Indicator.
    pub const RQI: u8 = 0x40;
    /// Paging Policy Presence: the container is 4 bytes longer.
    pub const PPP: u8 = 0x80;
    /// Bytes that a paging policy takes.
    pub const PPI_LEN: u16 = 4;

    /// Whether it has a paging policy; see also [`outer`](super::outer), which comes first.
    #[inline(always)]
    pub const fn has_policy(qfi: u8) -> bool {
        qfi & PPP != 0 && qfi < super::outer::NOTHING
    }
}

/// Values of [`Action::qfi`] beyond those of QoS flows and [`NONE8`]: what tunnels have in place of GTP-U.
pub mod outer {
    /// Nothing behind UDP; its port stands in the place of the far end's tunnel endpoint.
    pub const UDP: u8 = 0xfe;
    /// Nothing behind IP.
    pub const IP: u8 = 0xfd;
    /// No header at all: the far end is but the next hop.
    pub const NOTHING: u8 = 0xfc;

    /// Whether it is one of these.
    #[inline(always)]
    pub const fn is_other(qfi: u8) -> bool {
        qfi >= NOTHING && qfi != super::NONE8
    }
}
