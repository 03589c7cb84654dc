//! A record's lines as what they are.
//!
//! A window is seen as an array of whatever is wanted; a position of eight bits then needs no bounds check.

use stages::filter::{Filter4, Filter6};
use table::records::{Line, MAX_RECORD, Window};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, transmute_mut, transmute_ref};

use super::{
    ACTIONS, Action, CELLS, Deed, Head, LINE, MAX_CELLS, MAX_QUADS, Match, Members, Meter, PacketQuota, Quad, Row,
    Tally,
};

/// The head of the record a window begins with.
#[inline(always)]
pub fn head_in(window: &Window) -> &Head {
    let all: &[Head; MAX_RECORD * LINE / size_of::<Head>()] = transmute_ref!(window);
    &all[0]
}

/// A window as rules.
#[inline(always)]
pub fn matches_in(window: &Window) -> &[Match; MAX_RECORD * LINE / size_of::<Match>()] {
    transmute_ref!(window)
}

/// The place of a direction's first rule among the window's [`matches_in`], and how many rules there are.
#[inline(always)]
pub fn rules_of(head: &Head, uplink: bool) -> (u8, u8) {
    const MATCHES: u8 = (LINE / size_of::<Match>()) as u8;
    let first = head.rules.wrapping_mul(MATCHES);
    if uplink { (first, head.up) } else { (first.wrapping_add(head.up), head.down) }
}

/// A window as quads.
#[inline(always)]
pub fn quads_in(window: &Window) -> &[Quad; MAX_QUADS] {
    transmute_ref!(window)
}

/// A window as what is done with the packets of quads.
#[inline(always)]
pub fn deeds_in(window: &Window) -> &[Deed; MAX_RECORD] {
    transmute_ref!(window)
}

/// A direction's quads: how many, the place of the first among the window's [`quads_in`], and the line of what is done with
/// the first one's packets.
#[inline(always)]
pub fn quads_of(head: &Head, uplink: bool) -> (u8, u8, usize) {
    let (quads, up) = (usize::from(head.quads), usize::from(head.up_quads));
    if uplink {
        (head.up_quads, 0, deeds_at(quads, up, 0))
    } else {
        (head.down_quads, head.quads.wrapping_sub(head.down_quads), deeds_at(quads, up, 1))
    }
}

/// The line at which a direction's deeds begin, behind so many quads: uplink's (0), then downlink's (1).
#[inline(always)]
pub const fn deeds_at(quads: usize, up: usize, direction: usize) -> usize {
    let first = quads * (size_of::<Quad>() / LINE);
    if direction == 0 { first } else { first + deeds_len(up) }
}

/// Lines of so many deeds and the cells beside them: pairs of lines.
#[inline(always)]
pub const fn deeds_len(count: usize) -> usize {
    (count + 1).next_multiple_of(2)
}

/// A window as IPv4 filters.
#[inline(always)]
pub fn filters4_in(window: &Window) -> &[Filter4; MAX_RECORD * LINE / size_of::<Filter4>()] {
    transmute_ref!(window)
}

/// A window as IPv6 filters.
#[inline(always)]
pub fn filters6_in(window: &Window) -> &[Filter6; MAX_RECORD] {
    transmute_ref!(window)
}

/// A window as actions.
#[inline(always)]
pub fn actions_in(window: &Window) -> &[Action; MAX_RECORD * ACTIONS] {
    transmute_ref!(window)
}

/// A window as cells of either kind.
#[inline(always)]
pub fn cells_in(window: &Window) -> &[[u8; LINE / CELLS]; MAX_CELLS] {
    transmute_ref!(window)
}

/// A window as cells with buckets, to change; see [`cell_at`].
#[inline(always)]
pub fn meters_in(window: &mut Window) -> &mut [Meter; MAX_CELLS] {
    transmute_mut!(window)
}

/// A window as cells with limits, to change; see [`cell_at`].
pub fn quotas_in(window: &mut Window) -> &mut [PacketQuota; MAX_CELLS] {
    transmute_mut!(window)
}

/// What the cell at a position with [`GROUP`](super::GROUP) stands for.
pub fn members_in(window: &Window, place: u8) -> Members {
    let all: &[Members; MAX_CELLS] = transmute_ref!(window);
    all[cell_at(place.wrapping_add(1))]
}

/// A window as cells with counts, to change; see [`cell_at`].
#[inline(always)]
pub fn tallies_in(window: &mut Window) -> &mut [Tally; MAX_CELLS] {
    transmute_mut!(window)
}

/// A cell's position as an index that needs no bounds check: positions are below [`MAX_CELLS`] anyway.
#[inline(always)]
pub fn cell_at(position: u8) -> usize {
    usize::from(position) % MAX_CELLS
}

/// The head of a record.
#[inline]
pub fn head(lines: &[Line]) -> Option<&Head> {
    Head::ref_from_prefix(lines.first()?.as_bytes()).ok().map(|(head, _)| head)
}

/// All rules of a record, uplink first.
#[inline]
pub fn matches<'a>(lines: &'a [Line], head: &Head) -> &'a [Match] {
    let count = usize::from(head.up) + usize::from(head.down);
    let bytes = lines.as_bytes().get(usize::from(head.rules) * LINE..).unwrap_or_default();
    <[Match]>::ref_from_prefix_with_elems(bytes, count).map_or(&[], |(list, _)| list)
}

/// QERs' and URRs' rows.
pub fn rows<'a>(lines: &'a [Line], head: &Head) -> (&'a [Row], &'a [Row]) {
    let count = usize::from(head.qers) + usize::from(head.urrs);
    let bytes = lines.as_bytes().get(usize::from(head.rows) * LINE..).unwrap_or_default();
    let all = <[Row]>::ref_from_prefix_with_elems(bytes, count).map_or(&[][..], |(rows, _)| rows);
    all.split_at_checked(head.qers.into()).unwrap_or_default()
}

/// The cell at a position of a record's line.
pub fn cell<T: FromBytes + KnownLayout + Immutable>(line: &Line, at: u8) -> Option<&T> {
    let all = <[T; CELLS]>::ref_from_bytes(line.as_bytes()).ok()?;
    Some(&all[usize::from(at) % CELLS])
}

/// The cell at a position of a record's line, to change.
pub fn cell_mut<T: FromBytes + IntoBytes + KnownLayout + Immutable>(line: &mut Line, at: u8) -> Option<&mut T> {
    let all = <[T; CELLS]>::mut_from_bytes(line.as_mut_bytes()).ok()?;
    Some(&mut all[usize::from(at) % CELLS])
}
