//! The hot record of a session: one run of cache lines, flat and free of pointers.
//!
//! ```text
//! line 0   Head (32 bytes) | Quad4                 packet detection, where all IPv4 filters are plain: four filters, by
//!      …   Quad4 …                                 precedence, behind the head and in further pairs of lines
//!      …   Deed … | two cells                      what rules do with uplink packets that the quads' filters match, a line a
//!                                                  quad: treatments and actions; beside them the session's bucket
//!      …   Deed … | two cells                      the same for downlink packets
//!      …   Action …                                actions that have no room there, four a line
//!      …   Match …                                 packet detection of other packets, uplink rules first, then downlink
//!      …   Filter4 …                               SDF filters of these, two a line
//!      …   Filter6 …                               one a line
//!      …   cells: Meter or Tally …                 a QER's bucket or a URR's count, per direction, two a line  (state)
//!      …   [cell, Members] …                       among them: what rules with many QERs or URRs have, one a line; cold
//!      …   Bounds …                                what a URR may count, one a line, for those that have some; cold
//!      …   Row …                                   which cells are which QER's and URR's; cold
//! ```
//! Rules are replaced whole; cells are carried over by rule ID. Memory comes by pairs of lines, and what counts is how
//! many pairs a packet touches: so records begin at even lines, and what a packet needs stands together. The head and its
//! quad are a pair, which both directions usually share; treatments and actions of a direction are one with the
//! session's bucket (or the only flow's bucket and count); any other flow's bucket and count are one line. All are asked for
//! ahead of use.

mod rule; // what a packet must be, and what is done with it then
mod state; // buckets, counts and their bounds
mod view; // lines as what they are

use stages::filter::{Filter4, Filter6};
use table::records::{Line, MAX_RECORD};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

pub use rule::{Action, Deed, Match, Quad, Treatment, Treatments, apply, match_flags, outer};
pub use state::{Bounds, Members, Meter, PacketQuota, Row, Tally, stamp, unstamp};
pub use view::{
    actions_in, cell, cell_at, cell_mut, cells_in, deeds_at, deeds_in, deeds_len, filters4_in, filters6_in, head,
    head_in, matches, matches_in, members_in, meters_in, quads_in, quads_of, quotas_in, rows, rules_of, tallies_in,
};

/// QERs that can apply to one packet.
pub const MAX_QERS: usize = 16;
/// URRs that can apply to one packet.
pub const MAX_URRS: usize = 16;
/// Cells of either kind that a [`Treatment`] has places for; where there are more, one of them is a [`GROUP`]'s.
pub const PLACES: usize = 2;
/// Added to a cell's position: behind it are the [`Members`] that it stands for.
pub const GROUP: u8 = 0x80;
/// Added to the position of a [`Members`]' bucket: it is the session's aggregate.
pub const OF_SESSION: u8 = 0x80;
/// Duplicates of a packet.
pub const MAX_DUPLICATES: usize = 15;
/// No QER, URR or QFI in a field of eight bits.
pub const NONE8: u8 = u8::MAX;
/// The pair of lines that the head is in, and the first quad.
pub const HEAD_PAIR: usize = 0;
/// The pairs of lines that are an uplink or a downlink packet's in the usual session: treatments, actions, the session's
/// own bucket.
pub const UP_PAIR: usize = 1;
/// See [`UP_PAIR`].
pub const DOWN_PAIR: usize = 2;
/// Bytes of a line.
pub const LINE: usize = size_of::<Line>();

/// What identifies the session and where its parts are. Positions are in lines from the record's start.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct Head {
    /// Increases with every use of the place and every change of rules: tells a stale reference.
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
    /// Downlink rules, after the uplink ones.
    pub down: u8,
    /// Where `Match`es begin.
    pub rules: u8,
    /// Quads, from the record's start; 0: there are none.
    pub quads: u8,
    /// Quads for uplink packets: the first ones.
    pub up_quads: u8,
    /// Quads for downlink packets: the last ones, often the same.
    pub down_quads: u8,
    /// Where `Row`s begin.
    pub rows: u8,
    /// QERs: the first rows.
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
/// Quads of the longest record.
pub const MAX_QUADS: usize = MAX_RECORD * LINE / size_of::<Quad>();

const _: () = {
    assert!(size_of::<Head>() == 32 && size_of::<Match>() == 16 && size_of::<Action>() == 16);
    assert!(
        size_of::<PacketQuota>() == 32 && size_of::<Meter>() == 32 && size_of::<Tally>() == 32 && size_of::<Row>() == 8
    );
    assert!(size_of::<Members>() == 32 && size_of::<Treatment>() == 8);
    // A cell's position leaves a bit for what it is.
    assert!(MAX_CELLS <= GROUP as usize);
    assert!(size_of::<Quad>() == 2 * LINE && size_of::<Deed>() == LINE);
    assert!(size_of::<Filter4>() == 32 && size_of::<Filter6>() == LINE && size_of::<Bounds>() == LINE);
    // Positions in units of 16 bytes and more must fit eight bits.
    assert!(MAX_RECORD * ACTIONS <= 256);
};
