//! Where a record's parts begin.

use dataplane::filter::{ENDS, Filter4, Filter6, WAYS};
use table::records::MAX_RECORD;

use super::parts::{BESIDE, Entry, Parts};
use crate::record::{
    ACTIONS, ACTIONS_BESIDE, Action, Bounds, CELLS, DOWN_PAIR, GROUP, LINE, Match, NONE8, Row, UP_PAIR, deed_at,
};
use crate::rules::Session;

/// Where a record's parts begin, in lines.
pub(super) struct Places {
    /// Each direction's filters in fours; none of either: some filter is not plain, or there are too many.
    pub quads: [usize; 2],
    /// Of each action, in actions.
    pub actions: Vec<u8>,
    pub rules: usize,
    /// [`Filter4`]s, where there are no quads.
    pub filters4: usize,
    pub filters6: usize,
    /// The cells that are not beside heads.
    pub cells: usize,
    pub bounds: usize,
    pub rows: usize,
    pub lines: usize,
}

impl Places {
    /// Of a session with so many tunnel endpoints.
    pub fn of(session: &Session, parts: &Parts, entries: &[Vec<Entry>; 2], teids: usize) -> Self {
        let quads = entries.each_ref().map(|list| list.len().div_ceil(WAYS));
        let plain = session.ue4.is_some() && teids <= ENDS && parts.filters4.iter().all(Filter4::is_plain);
        let quick = Self::with_quads(session, parts, entries, quads);
        if plain && quick.lines <= MAX_RECORD { quick } else { Self::with_quads(session, parts, entries, [0; 2]) }
    }

    fn with_quads(session: &Session, parts: &Parts, entries: &[Vec<Entry>; 2], quads: [usize; 2]) -> Self {
        let is_quick = quads != [0; 2];
        let actions_of_quads = quads[0].max(quads[1]).max(1);
        let before = deed_at(actions_of_quads - 1, false) + 1;
        let (actions, more) = actions(parts, entries, actions_of_quads, before * ACTIONS);
        let mut lines = before;
        // Whole lines for so many bytes; the first.
        let mut take = |bytes: usize| {
            let at = lines;
            lines += bytes.div_ceil(LINE);
            at
        };
        take(more * size_of::<Action>());
        let rules = take(parts.matches.len() * size_of::<Match>());
        let filters4 = take(if is_quick { 0 } else { parts.filters4.len() * size_of::<Filter4>() });
        let filters6 = take(parts.filters6.len() * size_of::<Filter6>());
        let cells = take((parts.cells.len() - BESIDE) * LINE / CELLS);
        let bounds = session.urrs.iter().map(|urr| Bounds::of(urr.threshold, urr.quota));
        let bounds = take(bounds.filter(|bounds| !bounds.is_none()).count() * size_of::<Bounds>());
        let rows = (session.qers.len() + parts.limited.len() + session.urrs.len()) * size_of::<Row>();
        // All records have an even number of lines, so that all begin at even ones; rows are the end.
        let lines = (lines + rows.div_ceil(LINE)).next_multiple_of(2);
        let rows = lines - rows.div_ceil(LINE);
        Self { quads, actions, rules, filters4, filters6, cells, bounds, rows, lines }
    }

    /// A cell's position in the record; 0: there is none. What it says beside ([`GROUP`]) it says there, too.
    pub fn cell(&self, at: u8) -> u8 {
        if at == NONE8 {
            return 0;
        }
        let n = usize::from(at & !GROUP);
        let position = match n {
            0 => UP_PAIR * 2 * CELLS + 1,
            1 => DOWN_PAIR * 2 * CELLS + 1,
            _ => self.cells * CELLS + n - BESIDE,
        };
        position as u8 | at & GROUP
    }
}

/// The position of each action, and how many have none beside what else is done with their rule's packets: an action with
/// duplicates behind it takes as many places.
fn actions(parts: &Parts, entries: &[Vec<Entry>; 2], actions_of_quads: usize, first: usize) -> (Vec<u8>, usize) {
    let (mut positions, mut more) = (Vec::with_capacity(parts.actions.len()), 0);
    let mut taken = vec![[0; 2]; actions_of_quads];
    for n in 0..parts.matches.len() {
        // Each rule has one, in their order, and its duplicates'.
        let count = 1 + usize::from(parts.actions[positions.len()].duplicates());
        let mut place = || {
            let quad = |direction: usize| Some(entries[direction].iter().position(|(rule, _)| *rule == n)? / WAYS);
            let (direction, quad) = [0, 1].into_iter().find_map(|direction| Some((direction, quad(direction)?)))?;
            let free: &mut usize = &mut taken.get_mut(quad)?[direction];
            let at = (deed_at(quad, direction == 0) + 1) * ACTIONS - ACTIONS_BESIDE + *free;
            (*free + count <= ACTIONS_BESIDE).then(|| {
                *free += count;
                at
            })
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
