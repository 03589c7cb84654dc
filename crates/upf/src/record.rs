//! The hot record of a session: one run of cache lines, flat and free of pointers.
//!
//! ```text
//! line 0   Head (32 bytes) | cell                 uplink's pair: which filters, and the session's bucket
//! line 1   QuadActions                                   what rules do with packets that these match: treatments and actions
//! line 2   Head | cell                            downlink's pair, with the head again
//! line 3   QuadActions
//!      …   QuadActions up | QuadActions down …                  where there are more than four filters, a pair of lines for each four
//!      …   Action …                               actions that have no room there, four a line
//!      …   Match …                                packet detection where filters are not plain, and of IPv6 packets: uplink
//!                                                 rules first, then downlink
//!      …   Filter4 …                              SDF filters of these, two a line
//!      …   Filter6 …                              one a line
//!      …   cells: Meter or Tally …                a QER's bucket or a URR's count, per direction, two a line  (state)
//!      …   [cell, Members] …                      among them: what rules with many QERs or URRs have, one a line; cold
//!      …   Bounds …                               what a URR may count, one a line, for those that have some; cold
//!      …   Row …                                  which cells are which QER's and URR's; cold
//! ```
//! Packet detection, where all IPv4 filters are plain, is no part of the record: its filters, by precedence and in fours,
//! are those of many sessions (the same rules of charging and policy), which have them in common: [`QuadList`] names them.
//!
//! Rules are replaced whole; cells are carried over by rule ID. Memory comes by pairs of lines, and what counts is how
//! many pairs a packet touches: so records begin at even lines, and what a packet needs stands together. The head, what is
//! done in the packet's direction and the session's bucket (or the only flow's) are one pair; any other flow's bucket and
//! count are one line. Both are prefetched.

mod action; // what is done with a rule's packets, in full
mod rule; // what a packet must be, and what is done with it then
mod state; // buckets, counts and their bounds
mod view; // lines as what they are

use dataplane::filter::{Filter4, Filter6};
use table::records::{Line, MAX_RECORD};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

pub use action::{Action, Encap, Id, container, encap, kind};
pub use rule::{Match, QuadActions, QuadList, RuleResult, RuleResults, match_flags};
pub use state::{Bounds, Members, Meter, PacketQuota, Row, Tally, stamp, unstamp};
pub use view::{
    actions_in, cell, cell_at, cell_mut, cells_in, deed_at, filters4_in, filters6_in, head, head_in, head_of,
    heads_mut, matches, matches_in, members_in, meters_in, quad_actions_in, quotas_in, rows, rules_of, tallies_in,
};

/// QERs that can apply to one packet.
pub const MAX_QERS: usize = 16;
/// URRs that can apply to one packet.
pub const MAX_URRS: usize = 16;
/// Cells of either kind that a [`RuleResult`] has places for; where there are more, one of them is a [`GROUP`]'s.
pub const PLACES: usize = 2;
/// Added to a cell's position: behind it are the [`Members`] that it stands for.
pub const GROUP: u8 = 0x80;
/// Added to the position of a [`Members`]' bucket: it is the session's aggregate.
pub const OF_SESSION: u8 = 0x80;
/// Duplicates of a packet.
pub const MAX_DUPLICATES: usize = 15;
/// No QER, URR or QFI in a field of eight bits.
pub const NONE8: u8 = u8::MAX;
/// The pair of lines that is an uplink packet's: the head, treatments, actions, the session's own bucket.
pub const UP_PAIR: usize = 0;
/// The pair of lines that is a downlink packet's.
pub const DOWN_PAIR: usize = 1;
/// Bytes of a line.
pub const LINE: usize = size_of::<Line>();

/// What identifies the session and where its parts are. Positions are in lines from the record's start. It stands in the
/// record twice, at the beginning of either direction's lines.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct Head {
    /// Increases with every use of the place and every change of rules: detects a stale reference.
    pub generation: u32,
    /// Control's number of the session on this worker.
    pub handle: u32,
    /// The subscriber's IPv4 address; 0: none.
    pub ue4: u32,
    /// Its data network.
    pub instance: u16,
    /// Lines of the whole record.
    pub lines: u8,
    /// Uplink rules.
    pub up: u8,
    /// The subscriber's IPv6 prefix; 0: none.
    pub ue6: u64,
    /// The IPv4 filters of this direction's rules; none: some are not plain, see `rules`.
    pub filters: QuadList,
    /// Downlink rules, after the uplink ones.
    pub down: u8,
    /// Where `Match`es begin.
    pub rules: u8,
    /// QERs: the first of the `Row`s, which are the record's end.
    pub qers: u8,
    /// URRs: the rows after them.
    pub urrs: u8,
}

/// Actions of a line.
pub const ACTIONS: usize = LINE / size_of::<Action>();
/// Actions that stand beside treatments.
pub const ACTIONS_BESIDE: usize = ACTIONS / 2;
/// Cells of a line.
pub const CELLS: usize = LINE / size_of::<Meter>();
/// Cells of the longest record.
pub const MAX_CELLS: usize = MAX_RECORD * CELLS;
/// Fours of filters that a direction of the longest record can have something done for.
const MAX_QUADS: usize = MAX_RECORD / 2 - 1;

const _: () = {
    assert!(size_of::<Head>() == 32 && size_of::<Match>() == 16 && size_of::<Action>() == 16);
    assert!(
        size_of::<PacketQuota>() == 32 && size_of::<Meter>() == 32 && size_of::<Tally>() == 32 && size_of::<Row>() == 8
    );
    assert!(size_of::<Members>() == 32 && size_of::<RuleResult>() == 8);
    // A cell's position leaves a bit for what it is.
    assert!(MAX_CELLS <= GROUP as usize);
    assert!(size_of::<QuadActions>() == LINE && MAX_QUADS <= QuadList::MOST);
    assert!(size_of::<Filter4>() == 32 && size_of::<Filter6>() == LINE && size_of::<Bounds>() == LINE);
    // Positions in units of 16 bytes and more must fit eight bits.
    assert!(MAX_RECORD * ACTIONS <= 256);
};
