//! Where a record's parts begin.

use stages::filter::{Filter4, Filter6, WAYS};
use table::records::MAX_RECORD;

use super::parts::{Entry, Parts};
use crate::record::{Action, Bounds, CELLS, Head, LINE, Match, NONE8, Quad, Row, Treatments};
use crate::rules::Session;

/// Where a record's parts begin, in lines.
pub(super) struct Places {
    /// Quads in all; 0: some filter is not plain, or there are too many.
    pub quads: usize,
    /// Quads for uplink packets, and for downlink packets: the same ones, or others.
    pub of_direction: [usize; 2],
    /// In actions.
    pub first_action: usize,
    pub rules: usize,
    pub filters4: usize,
    pub filters6: usize,
    pub cells: usize,
    pub bounds: usize,
    pub rows: usize,
    pub lines: usize,
}

impl Places {
    pub fn of(session: &Session, parts: &Parts, entries: &[Vec<Entry>; 2]) -> Self {
        let of_direction = entries.each_ref().map(|list| list.len().div_ceil(WAYS));
        // Tunnel endpoint and QFI are not asked of downlink packets.
        let [up, down] = entries.each_ref().map(|list| list.iter().map(|(_, filter)| filter));
        let shared = up.eq(down);
        let quads = if shared { of_direction[0] } else { of_direction.iter().sum() };
        let plain = session.ue4.is_some() && parts.filters4.iter().all(Filter4::is_plain);
        let quick = Self::with_quads(session, parts, quads, of_direction);
        if plain && quick.lines <= MAX_RECORD { quick } else { Self::with_quads(session, parts, 0, [0; 2]) }
    }

    fn with_quads(session: &Session, parts: &Parts, quads: usize, of_direction: [usize; 2]) -> Self {
        let treatments = of_direction.iter().sum::<usize>() * size_of::<Treatments>();
        let before = (quads * size_of::<Quad>() + treatments).max(size_of::<Head>());
        let mut lines = 0;
        // Whole lines for so many bytes; the first.
        let mut take = |bytes: usize| {
            let at = lines;
            lines += bytes.div_ceil(LINE);
            at
        };
        take(before + parts.actions.len() * size_of::<Action>());
        let rules = take(parts.matches.len() * size_of::<Match>());
        let filters4 = take(if quads > 0 { 0 } else { parts.filters4.len() * size_of::<Filter4>() });
        let filters6 = take(parts.filters6.len() * size_of::<Filter6>());
        let cells = take(parts.cells.len() * LINE / CELLS);
        let bounds = session.urrs.iter().map(|urr| Bounds::of(urr.threshold, urr.quota));
        let bounds = take(bounds.filter(|bounds| !bounds.is_none()).count() * size_of::<Bounds>());
        let rows = session.qers.len() + parts.limited.len() + session.urrs.len();
        let rows = take(rows * size_of::<Row>());
        // All records have an even number of lines, so that all begin at even ones.
        let lines = lines.next_multiple_of(2);
        let first_action = before / size_of::<Action>();
        Self { quads, of_direction, first_action, rules, filters4, filters6, cells, bounds, rows, lines }
    }

    /// A cell's position in the record; 0: there is none.
    pub fn cell(&self, at: u8) -> u8 {
        if at == NONE8 { 0 } else { at + (self.cells * CELLS) as u8 }
    }
}
