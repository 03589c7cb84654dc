//! A record's lines as what they are.
//!
//! A window is seen as an array of whatever is wanted; a position of eight bits then needs no bounds check.

use dataplane::filter::{Filter4, Filter6};
use table::records::{Line, MAX_RECORD, Window};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, transmute_mut, transmute_ref};

use super::{
    ACTIONS, Action, CELLS, DOWN_PAIR, Head, LINE, MAX_CELLS, Match, Members, Meter, PacketQuota, QuadActions, Row,
    Tally, UP_PAIR,
};

type Heads = [Head; MAX_RECORD * LINE / size_of::<Head>()];

/// The head of the record a window begins with.
#[inline(always)]
pub fn head_in(window: &Window) -> &Head {
    head_of(window, true)
}

/// The head as it stands in a direction's lines, with that direction's filters.
#[inline(always)]
pub fn head_of(window: &Window, uplink: bool) -> &Head {
    let all: &Heads = transmute_ref!(window);
    &all[if uplink { UP_HEAD } else { DOWN_HEAD }]
}

/// The head, both times, of the lines of a record.
pub fn heads_mut(lines: &mut [Line]) -> Option<[&mut Head; 2]> {
    let (heads, _) = <[Head; DOWN_HEAD + 1]>::mut_from_prefix(lines.as_mut_bytes()).ok()?;
    heads.get_disjoint_mut([UP_HEAD, DOWN_HEAD]).ok()
}

/// Positions of heads, in heads.
const UP_HEAD: usize = UP_PAIR * 2 * (LINE / size_of::<Head>());
const DOWN_HEAD: usize = DOWN_PAIR * 2 * (LINE / size_of::<Head>());

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

/// A window as what is done with the packets of filters.
#[inline(always)]
pub fn quad_actions_in(window: &Window) -> &[QuadActions; MAX_RECORD] {
    transmute_ref!(window)
}

/// The line of what is done with the packets of a direction's n-th four filters.
#[inline(always)]
pub const fn deed_at(n: usize, uplink: bool) -> usize {
    let pair = if uplink { UP_PAIR } else { DOWN_PAIR };
    if n == 0 { pair * 2 + 1 } else { (DOWN_PAIR + n) * 2 + pair }
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

/// QERs' and URRs' rows: the end of the record's lines, which must all be there.
pub fn rows<'a>(lines: &'a [Line], head: &Head) -> (&'a [Row], &'a [Row]) {
    let count = usize::from(head.qers) + usize::from(head.urrs);
    let first = lines.len().saturating_sub((count * size_of::<Row>()).div_ceil(LINE));
    let bytes = lines.get(first..).unwrap_or_default().as_bytes();
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
