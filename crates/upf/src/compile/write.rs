//! The record's lines, once it is known where everything is.

use table::records::Line;
use zerocopy::IntoBytes;

use super::parts::{BESIDE, Parts};
use super::places::Places;
use super::prefix64;
use crate::record::{Action, Bounds, CELLS, DOWN_PAIR, Head, LINE, QuadList, Row, RuleResults, UP_PAIR, deed_at};
use crate::rules::Session;

/// Writes a record of so many uplink and downlink rules. Which filters are its own, where they stand with others', is
/// entered when it is known.
pub(super) fn write(
    session: &Session,
    handle: u32,
    [up, down]: [usize; 2],
    parts: &Parts,
    treatments: &[Vec<RuleResults>; 2],
    places: &Places,
) -> Box<[Line]> {
    let head = Head {
        generation: 0,
        handle,
        ue4: session.ue4.map_or(0, u32::from),
        instance: session.instance,
        lines: places.lines as u8,
        up: up as u8,
        ue6: session.ue6.map_or(0, prefix64),
        filters: QuadList::NONE,
        down: down as u8,
        rules: places.rules as u8,
        qers: (session.qers.len() + parts.limited.len()) as u8,
        urrs: session.urrs.len() as u8,
    };
    let mut lines = vec![Line::ZERO; places.lines].into_boxed_slice();
    let mut put = |line: usize, offset: usize, bytes: &[u8]| {
        let at = line * LINE + offset;
        lines.as_mut_bytes()[at..at + bytes.len()].copy_from_slice(bytes);
    };
    for (direction, list) in treatments.iter().enumerate() {
        for (n, these) in list.iter().enumerate() {
            put(deed_at(n, direction == 0), 0, these.as_bytes());
        }
    }
    for pair in [UP_PAIR, DOWN_PAIR] {
        put(pair * 2, 0, head.as_bytes());
    }
    for (at, action) in places.actions.iter().zip(&parts.actions) {
        put(0, usize::from(*at) * size_of::<Action>(), action.as_bytes());
    }
    put(places.rules, 0, parts.matches.as_bytes());
    if places.quads == [0; 2] {
        put(places.filters4, 0, parts.filters4.as_bytes());
    }
    put(places.filters6, 0, parts.filters6.as_bytes());
    let (beside, cells) = parts.cells.split_at(BESIDE);
    for (pair, cell) in [UP_PAIR, DOWN_PAIR].into_iter().zip(beside) {
        put(pair * 2, LINE / CELLS, cell.as_bytes());
    }
    put(places.cells, 0, cells.as_bytes());
    let bounds = session.urrs.iter().map(|urr| Bounds::of(urr.threshold, urr.quota));
    for (n, bounds) in bounds.filter(|bounds| !bounds.is_none()).enumerate() {
        put(places.bounds, n * size_of::<Bounds>(), bounds.as_bytes());
    }
    for (n, row) in rows(session, parts, places).enumerate() {
        put(places.rows, n * size_of::<Row>(), row.as_bytes());
    }
    lines
}

/// Which cells are which rule's: QERs, those with limits on the number of packets once more, URRs.
fn rows(session: &Session, parts: &Parts, places: &Places) -> impl Iterator<Item = Row> {
    let row = move |(id, cells): (u32, &[u8; 2])| {
        let [up, down] = cells.map(|cell| places.cell(cell));
        Row { id, up, down, bounds: 0, limits: 0 }
    };
    let qers = session.qers.iter().map(|q| q.id).zip(&parts.qer_places).map(row);
    let limits = parts.limited.iter().map(move |at| session.qers[*at].id).zip(&parts.limit_places).map(row);
    let mut next = places.bounds as u8;
    let urrs = session.urrs.iter().zip(&parts.urr_places).map(move |(urr, cells)| {
        let bounds = if Bounds::of(urr.threshold, urr.quota).is_none() { 0 } else { next };
        next += u8::from(bounds != 0);
        Row { bounds, ..row((urr.id, cells)) }
    });
    qers.chain(limits.map(|row| Row { limits: 1, ..row })).chain(urrs)
}
