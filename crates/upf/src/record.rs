//! The hot record of a session: one run of cache lines, flat and free of pointers.
//!
//! ```text
//! line 0   Head (32 bytes) | Match, Match …        packet detection, uplink rules first, then downlink, by precedence
//!      …   Filter4 …                               SDF filters of all rules, two a line
//!      …   Filter6 …                               one a line
//!      …   Action …                                what a rule does, four a line
//!      …   cells: Meter or Tally …                 a QER's bucket or a URR's count, per direction, two a line  (state)
//!      …   Row …                                   which cells are which QER's and URR's; cold
//! ```
//! Rules are replaced whole; cells are carried over by rule ID. Cells that a packet touches together stand together:
//! a flow's bucket and its count in one line, the session's two buckets in another. A packet so touches the head with
//! its matches (one or two lines), its rule's filters, one action and two lines of cells, all asked for ahead of use.

use stages::filter::{Filter4, Filter6};
use table::bucket;
use table::records::Line;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// QERs that can apply to one packet.
pub const MAX_QERS: usize = 2;
/// URRs that can apply to one packet.
pub const MAX_URRS: usize = 2;
/// No QER, URR or QFI in a field of eight bits.
pub const NONE8: u8 = u8::MAX;
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
    /// Where `Filter4`s begin.
    pub filters4: u8,
    /// Where `Filter6`s begin.
    pub filters6: u8,
    /// Where `Action`s begin.
    pub actions: u8,
    /// Where cells begin.
    pub cells: u8,
    /// Where `Row`s begin.
    pub rows: u8,
    /// QERs: the first rows.
    pub qers: u8,
    /// URRs: the rows after them.
    pub urrs: u8,
}

/// Bits of [`Match::flags`].
pub mod match_flags {
    /// The rule has SDF filters: one of them must match.
    pub const FILTERED: u16 = 1;
    /// The first QER is the session's aggregate.
    pub const SESSION0: u16 = 2;
    /// The second QER is the session's aggregate.
    pub const SESSION1: u16 = 4;
    /// A QER's gate is closed in this direction.
    pub const CLOSED: u16 = 8;
}

/// What a packet must be for a rule to apply, and which lines it then needs.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct Match {
    /// Our tunnel endpoint (uplink rules).
    pub teid: u32,
    /// First of its IPv4 filters.
    pub first4: u8,
    /// How many.
    pub count4: u8,
    /// First of its IPv6 filters.
    pub first6: u8,
    /// How many.
    pub count6: u8,
    /// The QoS flow the packet must carry; [`NONE8`]: any.
    pub qfi: u8,
    /// Its action, in units of [`Action`] from the record's start.
    pub action: u8,
    /// See [`match_flags`].
    pub flags: u16,
    /// Its QERs' buckets of the rule's direction, in cells from the record's start; 0: none.
    pub meters: [u8; MAX_QERS],
    /// Its URRs' counts of the rule's direction, in cells from the record's start; 0: none.
    pub tallies: [u8; MAX_URRS],
}

/// Values of [`Action::apply`].
pub mod apply {
    /// Send it on.
    pub const FORWARD: u8 = 0;
    /// End it.
    pub const DROP: u8 = 1;
    /// Keep it until the subscriber is back.
    pub const BUFFER: u8 = 2;
}

/// What a rule does with its packets: the FAR and the markings, compiled.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct Action {
    /// The tunnel to put packets in; [`stages::forward::NONE`]: none.
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
    /// QFI to put in the PDU session container; [`NONE8`]: no container.
    pub qfi: u8,
    /// Room to 16 bytes.
    pub spare: u8,
}

/// A QER's rate and bucket in one direction: a cell.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct Meter {
    /// What may pass.
    pub config: bucket::Config,
    /// What may pass now.
    pub state: bucket::State,
}

/// What a URR has measured in one direction: a cell.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct Tally {
    /// Octets of user packets.
    pub bytes: u64,
    /// Packets.
    pub packets: u64,
    /// Time of the first packet in nanoseconds; 0: none.
    pub first_ns: u64,
    /// Time of the last packet in nanoseconds.
    pub last_ns: u64,
}

/// Which cells are a QER's or URR's, in cells from the record's start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct Row {
    /// The rule's ID.
    pub id: u32,
    /// Its cell for packets from the subscriber.
    pub up: u8,
    /// Its cell for packets to the subscriber.
    pub down: u8,
    /// Room to 8 bytes.
    pub spare: u16,
}

/// Actions of a line.
pub const ACTIONS: usize = LINE / size_of::<Action>();
/// Cells of a line.
pub const CELLS: usize = LINE / size_of::<Meter>();

const _: () = {
    assert!(size_of::<Head>() == 32 && size_of::<Match>() == 16 && size_of::<Action>() == 16);
    assert!(size_of::<Meter>() == 32 && size_of::<Tally>() == 32 && size_of::<Row>() == 8);
    assert!(size_of::<Filter4>() == 32 && size_of::<Filter6>() == LINE);
    // Positions in units of 16 and 32 bytes must fit eight bits.
    assert!(table::records::MAX_RECORD * ACTIONS <= 256);
};

/// The head of a record.
#[inline]
pub fn head(lines: &[Line]) -> Option<&Head> {
    Head::ref_from_prefix(lines.first()?.as_bytes()).ok().map(|(head, _)| head)
}

/// All rules of a record, uplink first.
#[inline]
pub fn matches<'a>(lines: &'a [Line], head: &Head) -> &'a [Match] {
    let count = usize::from(head.up) + usize::from(head.down);
    let bytes = lines.as_bytes().get(size_of::<Head>()..).unwrap_or_default();
    <[Match]>::ref_from_prefix_with_elems(bytes, count).map_or(&[], |(list, _)| list)
}

/// A rule's IPv4 filters.
#[inline]
pub fn filters4<'a>(lines: &'a [Line], head: &Head, rule: &Match) -> &'a [Filter4] {
    let at = usize::from(head.filters4) * LINE + usize::from(rule.first4) * size_of::<Filter4>();
    let bytes = lines.as_bytes().get(at..).unwrap_or_default();
    <[Filter4]>::ref_from_prefix_with_elems(bytes, rule.count4.into()).map_or(&[], |(list, _)| list)
}

/// A rule's IPv6 filters.
#[inline]
pub fn filters6<'a>(lines: &'a [Line], head: &Head, rule: &Match) -> &'a [Filter6] {
    let at = usize::from(head.filters6) * LINE + usize::from(rule.first6) * size_of::<Filter6>();
    let bytes = lines.as_bytes().get(at..).unwrap_or_default();
    <[Filter6]>::ref_from_prefix_with_elems(bytes, rule.count6.into()).map_or(&[], |(list, _)| list)
}

/// QERs' and URRs' rows.
pub fn rows<'a>(lines: &'a [Line], head: &Head) -> (&'a [Row], &'a [Row]) {
    let count = usize::from(head.qers) + usize::from(head.urrs);
    let bytes = lines.as_bytes().get(usize::from(head.rows) * LINE..).unwrap_or_default();
    let all = <[Row]>::ref_from_prefix_with_elems(bytes, count).map_or(&[][..], |(rows, _)| rows);
    all.split_at_checked(head.qers.into()).unwrap_or_default()
}

/// The action at a position of a record's line.
#[inline]
pub fn action(line: &Line, at: u8) -> Option<&Action> {
    let all = <[Action; ACTIONS]>::ref_from_bytes(line.as_bytes()).ok()?;
    Some(&all[usize::from(at) % ACTIONS])
}

/// The cell at a position of a record's line.
#[inline]
pub fn cell<T: FromBytes + KnownLayout + Immutable>(line: &Line, at: u8) -> Option<&T> {
    let all = <[T; CELLS]>::ref_from_bytes(line.as_bytes()).ok()?;
    Some(&all[usize::from(at) % CELLS])
}

/// The cell at a position of a record's line, to change.
#[inline]
pub fn cell_mut<T: FromBytes + IntoBytes + KnownLayout + Immutable>(line: &mut Line, at: u8) -> Option<&mut T> {
    let all = <[T; CELLS]>::mut_from_bytes(line.as_mut_bytes()).ok()?;
    Some(&mut all[usize::from(at) % CELLS])
}
