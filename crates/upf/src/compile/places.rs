//! Where a record's parts begin.

use stages::filter::{Filter4, Filter6, WAYS};
use table::records::MAX_RECORD;

use super::parts::{Entry, Parts};
use crate::record::{
    ACTIONS, ACTIONS_BESIDE, Action, Bounds, CELLS, GROUP, Head, LINE, Match, NONE8, Row, deeds_at, deeds_len,
};
use crate::rules::Session;

/// Where a record's parts begin, in lines.
pub(super) struct Places {
    /// Quads in all; 0: some filter is not plain, or there are too many.
    pub quads: usize,
    /// Quads for uplink packets, and for downlink packets: the same ones, or others.
    pub of_direction: [usize; 2],
    /// What is done with the packets of each direction's quads: a [`Deed`] for each, and the cells beside.
    pub deeds: [usize; 2],
    /// Of each action, in actions.
    pub actions: Vec<u8>,
    pub rules: usize,
    pub filters4: usize,
    pub filters6: usize,
    /// The cells that are not beside deeds.
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
        let quick = Self::with_quads(session, parts, entries, quads, of_direction);
        if plain && quick.lines <= MAX_RECORD { quick } else { Self::with_quads(session, parts, entries, 0, [0; 2]) }
    }

    fn with_quads(
        session: &Session,
        parts: &Parts,
        entries: &[Vec<Entry>; 2],
        quads: usize,
        of_direction: [usize; 2],
    ) -> Self {
        let deeds = [0, 1].map(|direction| deeds_at(quads, of_direction[0], direction));
        let before = if quads > 0 { deeds_at(quads, of_direction[0], 1) + deeds_len(of_direction[1]) } else { 0 };
        let first_action = (before * LINE).max(size_of::<Head>()) / size_of::<Action>();
        let (actions, more) = actions(parts, entries, deeds, of_direction, first_action);
        let mut lines = 0;
        // Whole lines for so many bytes; the first.
        let mut take = |bytes: usize| {
            let at = lines;
            lines += bytes.div_ceil(LINE);
            at
        };
        take((first_action + more) * size_of::<Action>());
        let rules = take(parts.matches.len() * size_of::<Match>());
        let filters4 = take(if quads > 0 { 0 } else { parts.filters4.len() * size_of::<Filter4>() });
        let filters6 = take(parts.filters6.len() * size_of::<Filter6>());
        let beside = if quads > 0 { 2 * CELLS } else { 0 };
        let cells = take((parts.cells.len() - beside) * LINE / CELLS);
        let bounds = session.urrs.iter().map(|urr| Bounds::of(urr.threshold, urr.quota));
        let bounds = take(bounds.filter(|bounds| !bounds.is_none()).count() * size_of::<Bounds>());
        let rows = session.qers.len() + parts.limited.len() + session.urrs.len();
        let rows = take(rows * size_of::<Row>());
        // All records have an even number of lines, so that all begin at even ones.
        let lines = lines.next_multiple_of(2);
        Self { quads, of_direction, deeds, actions, rules, filters4, filters6, cells, bounds, rows, lines }
    }

    /// A cell's position in the record; 0: there is none. What it says beside ([`GROUP`]) it says there, too.
    pub fn cell(&self, at: u8) -> u8 {
        if at == NONE8 {
            return 0;
        }
        let n = usize::from(at & !GROUP);
        (self.line_of_cells(n / CELLS) * CELLS + n % CELLS) as u8 | at & GROUP
    }

    /// The line of the n-th few cells.
    pub fn line_of_cells(&self, n: usize) -> usize {
        match self.deeds.get(n).filter(|_| self.quads > 0) {
            Some(deeds) => deeds + self.of_direction[n],
            None if self.quads > 0 => self.cells + n - self.deeds.len(),
            None => self.cells + n,
        }
    }
}

/// The position of each action, and how many have none beside what else is done with their rule's packets: an action with
/// duplicates behind it takes as many places.
fn actions(
    parts: &Parts,
    entries: &[Vec<Entry>; 2],
    deeds: [usize; 2],
    of_direction: [usize; 2],
    first: usize,
) -> (Vec<u8>, usize) {
    let (mut positions, mut more) = (Vec::with_capacity(parts.actions.len()), 0);
    let mut taken = [const { Vec::new() }; 2];
    for n in 0..parts.matches.len() {
        // Each rule has one, in their order, and its duplicates'.
        let count = 1 + usize::from(parts.actions[positions.len()].duplicates());
        let mut place = || {
            let quad = |direction: usize| Some(entries[direction].iter().position(|(rule, _)| *rule == n)? / WAYS);
            let (direction, quad) = [0, 1].into_iter().find_map(|direction| Some((direction, quad(direction)?)))?;
            let taken: &mut Vec<usize> = &mut taken[direction];
            taken.resize(of_direction[direction], 0);
            let free = taken.get_mut(quad).filter(|free| **free + count <= ACTIONS_BESIDE)?;
            let at = (deeds[direction] + quad + 1) * ACTIONS - ACTIONS_BESIDE + *free;
            *free += count;
            Some(at)
        };
        let at = place().unwrap_or_else(|| {
            more += count;
            first + more - count
        });
        // Truncation is mended by the check on the record's length.
        positions.extend((at..at + count).map(|at| at as u8));
    }
    (positions, more)
}
