//! A session's record → what the program in the kernel has of it, and back.

mod ipv6; // filters and rules of IPv6 packets

use std::fmt;

use dataplane::filter::Quad4;
use dataplane::forward::NONE;
use gateway::fast_path::{Offset, bucket_from_kernel, bucket_to_kernel};
use table::records::Line;
use zerocopy::{FromBytes, IntoBytes};

use super::FastPath;
use super::record::{self as kernel, CELLS, Direction, ENDS, Rule, Session, Session6, WAYS, flag};
use crate::record::{self, Action, GROUP, Meter, QuadActions, Row, RuleResult, Tally, encap, kind, match_flags};

/// Why a session is not in the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum NotEligible {
    NoRoom,
    NoAddress,
    Routes,
    TooManyEndpoints,
    Filters,
    TooManyRules,
    PacketLimit,
    TooManyQers,
    TooManyUrrs,
    Rate,
    BeforeQos,
    RemovesHeader,
    NotForwarded,
    Duplicates,
    Tunnel,
    NoTunnelDown,
    TunnelUp,
    InstanceRoutes,
    AccessList,
    Flows,
}

impl fmt::Display for NotEligible {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoRoom => "no room among the sessions of the in-kernel path",
            Self::NoAddress => "the subscriber has no address",
            Self::Routes => "there are networks behind the subscriber",
            Self::TooManyEndpoints => "more than 4 tunnel endpoints",
            Self::Filters => "an SDF filter is not of the plain kind",
            Self::TooManyRules => "more than 4 filters in a direction, of IPv4 or of IPv6",
            Self::PacketLimit => "a QER limits the number of packets",
            Self::TooManyQers => "more than 4 buckets, or more than 2 for one packet",
            Self::TooManyUrrs => "more than 4 counts, or more than 2 for one packet",
            Self::Rate => "a maximum bit rate below 1 kbit/s",
            Self::BeforeQos => "a URR counts before gates and rates",
            Self::RemovesHeader => "a PDR removes an outer header other than GTP-U's",
            Self::NotForwarded => "a FAR does something else than forward: it drops, buffers, redirects or marks",
            Self::Duplicates => "a FAR duplicates packets",
            Self::Tunnel => "a FAR's tunnel is none of GTP-U, or has a paging policy",
            Self::NoTunnelDown => "packets from the core go on without a tunnel",
            Self::TunnelUp => "packets from access go on into a tunnel",
            Self::InstanceRoutes => "the network instance has more than 16 routes of IPv4 or of IPv6",
            Self::AccessList => "the network instance's access list has more than 16 rules",
            Self::Flows => "a translated flow of it has no place in the kernel (fast_path.flows)",
        })
    }
}

/// A session's cells: where each bucket and each count stands in the record, in cells from its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cells {
    /// Buckets; 0: no more.
    pub meters: [u8; CELLS],
    /// Counts; 0: no more.
    pub tallies: [u8; CELLS],
}

impl Cells {
    /// Those of a record.
    pub fn of(lines: &[Line]) -> Result<Self, NotEligible> {
        let head = record::head(lines).ok_or(NotEligible::NoRoom)?;
        let (qers, urrs) = record::rows(lines, head);
        if qers.iter().any(|row| row.limits != 0) {
            return Err(NotEligible::PacketLimit);
        }
        let meters = few(qers).ok_or(NotEligible::TooManyQers)?;
        Ok(Self { meters, tallies: few(urrs).ok_or(NotEligible::TooManyUrrs)? })
    }
}

/// The rows' cells that there are, if they are few.
fn few(rows: &[Row]) -> Option<[u8; CELLS]> {
    let mut list = [0; CELLS];
    let cells = rows.iter().flat_map(|row| [row.up, row.down]).filter(|at| *at != 0);
    for (n, at) in cells.enumerate() {
        *list.get_mut(n)? = at;
    }
    Some(list)
}

/// What the program has of a session.
#[derive(Clone, Copy, Debug)]
pub struct Compiled {
    /// All but what is of IPv6.
    pub four: Session,
    /// What is of IPv6.
    pub six: Session6,
}

/// What the program has of a session: of its record's lines as they stand, its direction's filters (uplink's first) and its
/// tunnel endpoints, in order.
///
/// # Errors
/// Why it can't be in the kernel.
pub fn compile(
    lines: &[Line],
    filters: [&[Quad4]; 2],
    teids: &[u32],
    worker: u16,
    (path, offset): (&FastPath, Offset),
) -> Result<(Compiled, Cells), NotEligible> {
    let head = record::head(lines).ok_or(NotEligible::NoRoom)?;
    if head.ue4 == 0 && head.ue6 == 0 {
        return Err(NotEligible::NoAddress);
    }
    if !path.has_instance(head.instance) {
        return Err(NotEligible::InstanceRoutes);
    }
    if !path.has_list(head.instance) {
        return Err(NotEligible::AccessList);
    }
    let mut ends = [0; ENDS];
    ends.get_mut(..teids.len()).ok_or(NotEligible::TooManyEndpoints)?.copy_from_slice(teids);
    let cells = Cells::of(lines)?;
    let direction = |uplink: bool| {
        let (rules, filters) = if uplink { (head.up, filters[0]) } else { (head.down, filters[1]) };
        if head.ue4 == 0 { Ok(Direction::NONE) } else { direction(lines, (uplink, rules), filters, &cells, path) }
    };
    let six = |uplink: bool| ipv6::direction(lines, uplink, teids, &cells, path);
    let mut four = Session {
        state: 0,
        ue4: head.ue4,
        handle: head.handle,
        instance: head.instance,
        worker,
        teids: ends,
        up: direction(true)?,
        down: direction(false)?,
        meters: [kernel::Meter::CLOSED; CELLS],
        tallies: [kernel::Tally::NONE; CELLS],
        spare: [0; 32],
    };
    let six = match head.ue6 {
        0 => Session6::NONE,
        prefix => Session6 { prefix, spare: [0; 7], up: six(true)?, down: six(false)? },
    };
    for (n, at) in cells.meters.into_iter().enumerate().filter(|(_, at)| *at != 0) {
        let meter = cell::<Meter>(lines, at).ok_or(NotEligible::TooManyQers)?;
        four.meters[n] = meter_to_kernel(meter, offset).ok_or(NotEligible::Rate)?;
    }
    for (n, at) in cells.tallies.into_iter().enumerate().filter(|(_, at)| *at != 0) {
        let tally = cell::<Tally>(lines, at).ok_or(NotEligible::TooManyUrrs)?;
        four.tallies[n] = tally_to_kernel(tally, offset);
    }
    Ok((Compiled { four, six }, cells))
}

fn cell<T: FromBytes + zerocopy::KnownLayout + zerocopy::Immutable>(lines: &[Line], at: u8) -> Option<&T> {
    record::cell(lines.get(usize::from(at) / record::CELLS)?, at)
}

/// A part of the record, by its place in units of its own size.
fn part<T: FromBytes>(lines: &[Line], at: u8) -> Result<T, NotEligible> {
    let at = usize::from(at) * size_of::<T>();
    let bytes = lines.as_bytes().get(at..at + size_of::<T>()).unwrap_or_default();
    T::read_from_bytes(bytes).map_err(|_| NotEligible::NoRoom)
}

fn direction(
    lines: &[Line],
    (uplink, rules): (bool, u8),
    filters: &[Quad4],
    cells: &Cells,
    path: &FastPath,
) -> Result<Direction, NotEligible> {
    let mut direction = Direction::NONE;
    direction.quad = match filters {
        [] if rules == 0 => return Ok(direction),
        [] => return Err(NotEligible::Filters),
        [quad] => *quad,
        _ => return Err(NotEligible::TooManyRules),
    };
    let line = lines.get(record::deed_at(0, uplink)).ok_or(NotEligible::NoRoom)?;
    let deeds = QuadActions::ref_from_bytes(line.as_bytes()).map_err(|_| NotEligible::NoRoom)?;
    const { assert!(WAYS == dataplane::filter::WAYS) };
    for (to, result) in direction.rules.iter_mut().zip(&deeds.treatments).filter(|(_, result)| result.action != 0) {
        let action = part::<Action>(lines, result.action)?;
        *to = rule(result, &action, uplink, cells, path)?;
        if uplink && !path.has_routes(action.instance.into()) {
            return Err(NotEligible::InstanceRoutes);
        }
    }
    Ok(direction)
}

fn rule(
    result: &RuleResult,
    action: &Action,
    uplink: bool,
    cells: &Cells,
    path: &FastPath,
) -> Result<Rule, NotEligible> {
    const BEFORE: u16 = match_flags::BEFORE_QOS0 | match_flags::BEFORE_QOS1;
    const REMOVES: u16 = match_flags::REMOVES_IP | match_flags::REMOVES_UDP;
    let refused = [
        (result.flags & BEFORE != 0, NotEligible::BeforeQos),
        (result.flags & REMOVES != 0, NotEligible::RemovesHeader),
        (action.duplicates() > 0, NotEligible::Duplicates),
        (action.what() != kind::FORWARD, NotEligible::NotForwarded),
        (result.meters.iter().any(|at| *at >= GROUP), NotEligible::TooManyQers),
        (result.tallies.iter().any(|at| *at >= GROUP), NotEligible::TooManyUrrs),
        (uplink && (action.tunnel != NONE || action.encap.kind != encap::NONE), NotEligible::TunnelUp),
        (uplink && !path.has_list(action.instance.into()), NotEligible::AccessList),
        (!uplink && action.tunnel == NONE, NotEligible::NoTunnelDown),
        (!uplink && (action.encap.is_other() || action.encap.has_policy()), NotEligible::Tunnel),
        (!uplink && !path.has_tunnel(action.tunnel), NotEligible::Tunnel),
    ];
    if let Some((_, why)) = refused.into_iter().find(|(is, _)| *is) {
        return Err(why);
    }
    let flags = [
        (match_flags::CLOSED, flag::CLOSED),
        (match_flags::FROM_UE, flag::FROM_UE),
        (match_flags::SESSION0, flag::SESSION0),
        (match_flags::SESSION1, flag::SESSION1),
    ];
    let place = |list: &[u8; CELLS], at: u8| {
        let found = list.iter().position(|its| *its == at && at != 0);
        found.map_or(0, |n| n as u8 + 1)
    };
    Ok(Rule {
        tunnel: action.tunnel,
        teid: action.id,
        encap: action.encap.kind,
        qfi: action.encap.qfi,
        dscp: action.dscp,
        instance: action.instance,
        flags: flags.into_iter().filter(|(is, _)| result.flags & is != 0).map(|(_, flag)| flag).sum(),
        meters: result.meters.map(|at| place(&cells.meters, at)),
        tallies: result.tallies.map(|at| place(&cells.tallies, at)),
        spare: [0; 15],
    })
}

fn meter_to_kernel(meter: &Meter, offset: Offset) -> Option<kernel::Meter> {
    bucket_to_kernel(&meter.config, &meter.state, offset)
}

/// The bucket again, with what it holds at the worker's time `now`.
pub fn meter_from_kernel(meter: &mut Meter, from: &kernel::Meter, now: u64, offset: Offset) {
    meter.state = bucket_from_kernel(&meter.config, from, now, offset);
}

/// A time stamp on the other clock; none stays none.
fn stamp(stamp: u32, offset: Offset) -> u32 {
    if stamp == 0 { 0 } else { stamp.wrapping_add((offset >> 20) as u32).max(1) } // modulo 2^32
}

fn tally_to_kernel(tally: &Tally, offset: Offset) -> kernel::Tally {
    let Tally { bytes, trip, packets, first, last } = *tally;
    kernel::Tally { bytes, trip, packets, first: stamp(first, offset), last: stamp(last, offset) }
}

/// Adds what the program has counted to a count that began at nothing when it took over.
pub fn tally_from_kernel(tally: &mut Tally, from: &kernel::Tally, offset: Offset) {
    let [first, last] = [from.first, from.last].map(|time| stamp(time, -offset));
    tally.bytes += from.bytes;
    tally.packets += from.packets;
    tally.first = if first != 0 { first } else { tally.first };
    tally.last = if tally.last != 0 { tally.last } else { last };
    tally.trip = from.trip;
}

#[cfg(test)]
mod tests {
    use table::bucket;

    use super::*;
    use crate::compile::bucket as of_rate;

    #[test]
    fn buckets_come_back_as_they_went() {
        for rate in [1_000, 64_000, 1_000_000, 37_123_457, 1_000_000_000, 100_000_000_000] {
            let config = of_rate(Some(rate));
            for (credit, offset) in [(config.depth, 5_000_000_000), (config.depth / 3, 77), (0, -3_000)] {
                let meter = Meter { config, state: bucket::State { credit, last_ns: 9_000_000_000 } };
                let there = meter_to_kernel(&meter, offset).expect("a rate there is");
                let mut back = meter;
                meter_from_kernel(&mut back, &there, 9_000_000_000, offset);
                let lost = credit - back.state.credit;
                // Less than what comes in 2^-8 ns.
                assert!(lost.unsigned_abs() <= rate / 128 + 1, "{rate} {credit}: {lost}");
            }
        }
        assert_eq!(meter_to_kernel(&Meter { config: of_rate(Some(400)), state: Default::default() }, 0), None);
        assert_eq!(meter_to_kernel(&Meter { config: of_rate(Some(0)), state: Default::default() }, 0), None);
    }

    #[test]
    fn counts_are_added_and_times_kept() {
        let offset = 40_000_000_000;
        let before = Tally { bytes: 700, trip: 9000, packets: 7, first: 30, last: 50 };
        let mut there = tally_to_kernel(&before, offset);
        there.bytes += 100;
        there.packets += 1;
        let mut here = Tally { bytes: 60, trip: 0, packets: 1, first: 90, last: 91 };
        tally_from_kernel(&mut here, &there, offset);
        assert_eq!((here.bytes, here.packets, here.trip), (860, 9, 9000));
        assert!((29..=31).contains(&here.first) && here.last == 91, "{here:?}");
    }
}
