//! The parts of a record while it grows: rules, filters, actions, cells.

use std::ops::Range;

use dataplane::filter::{Filter4, Filter6, Quad4, WAYS};
use table::bucket::State;

use super::bucket;
use super::groups::{Group, Many};
use super::places::Places;
use crate::record::{
    Action, CELLS, LINE, Match, Meter, NONE8, PacketQuota, RuleResult, RuleResults, Tally, match_flags,
};
use crate::rules::{PacketLimit, Session};

/// Cells beside what is done with a direction's packets: one each.
pub(super) const BESIDE: usize = 2;
const _: () = assert!(BESIDE.is_multiple_of(CELLS));

/// A cell as bytes: a `Meter` or a `Tally`.
pub(super) type Cell = [u8; LINE / CELLS];

/// A filter of a direction's quads, and the place of its rule.
pub(super) type Entry = (usize, Filter4);

/// The parts of a record while it grows. Positions here are relative to their own part; [`NONE8`]: none yet.
pub(super) struct Parts {
    pub matches: Vec<Match>,
    pub filters4: Vec<Filter4>,
    pub filters6: Vec<Filter6>,
    pub actions: Vec<Action>,
    /// The first ones are those beside what is done with a direction's packets: uplink's, then downlink's.
    pub cells: Vec<Cell>,
    /// Whether those are in use.
    beside: [bool; 2],
    /// The up and down cells of each QER and URR.
    pub qer_places: Vec<[u8; 2]>,
    pub urr_places: Vec<[u8; 2]>,
    /// What to put there; a direction without limit needs no cell.
    pub qer_cells: Vec<[Option<Cell>; 2]>,
    /// QERs with limits on the number of packets, and their up and down cells.
    pub limited: Vec<usize>,
    pub limit_places: Vec<[u8; 2]>,
    /// Rules with more of them than a treatment has places, and the groups they are given.
    pub many: Vec<Many>,
    pub groups: Vec<Group>,
}

impl Parts {
    pub fn new(session: &Session) -> Self {
        let cell = |mbr: Option<u64>| -> Option<Cell> {
            let config = bucket(Some(mbr?));
            Some(zerocopy::transmute!(Meter { config, state: State { credit: config.depth, last_ns: 0 } }))
        };
        let mut parts = Self {
            matches: Vec::with_capacity(session.pdrs.len()),
            filters4: Vec::new(),
            filters6: Vec::new(),
            actions: Vec::with_capacity(session.pdrs.len()),
            cells: vec![[0; LINE / CELLS]; BESIDE],
            beside: [false; 2],
            qer_places: vec![[NONE8; 2]; session.qers.len()],
            urr_places: vec![[NONE8; 2]; session.urrs.len()],
            qer_cells: session.qers.iter().map(|q| [cell(q.mbr.up), cell(q.mbr.down)]).collect(),
            limited: (0..session.qers.len()).filter(|n| session.qers[*n].packets != [None; 2]).collect(),
            limit_places: Vec::new(),
            many: Vec::new(),
            groups: Vec::new(),
        };
        // The session's own buckets are every packet's.
        for (n, _) in session.qers.iter().enumerate().filter(|(_, q)| q.session) {
            parts.place_qer(n, 0, true);
            parts.place_qer(n, 1, true);
        }
        parts
    }

    /// Makes room for what a rule's packets touch: where no other cells are, so that they stand together. True: beside
    /// what is done with the direction's packets.
    pub(crate) fn begin_cells(&mut self, direction: usize) -> bool {
        if !self.cells.len().is_multiple_of(CELLS) {
            self.cells.push([0; LINE / CELLS]);
        }
        !self.beside[direction]
    }

    /// A QER's bucket of a direction, if it has one that has no place yet: beside what is done with the direction's
    /// packets, if so asked and there is room.
    pub(crate) fn place_qer(&mut self, n: usize, direction: usize, beside: bool) {
        if let (NONE8, Some(cell)) = (self.qer_places[n][direction], self.qer_cells[n][direction]) {
            self.qer_places[n][direction] = self.place(cell, direction, beside);
        }
    }

    /// A URR's count, likewise.
    pub(crate) fn place_urr(&mut self, n: usize, direction: usize, beside: bool) {
        if self.urr_places[n][direction] == NONE8 {
            self.urr_places[n][direction] = self.place(zerocopy::transmute!(Tally::default()), direction, beside);
        }
    }

    fn place(&mut self, cell: Cell, direction: usize, beside: bool) -> u8 {
        let at = if beside && !self.beside[direction] {
            self.beside[direction] = true;
            direction
        } else {
            self.cells.push([0; LINE / CELLS]);
            self.cells.len() - 1
        };
        self.cells[at] = cell;
        at.min(usize::from(NONE8)) as u8
    }

    /// Cells no rule needs (yet): a QER or URR keeps its state from when it is made. And those few packets need.
    pub(crate) fn place_the_rest(&mut self, session: &Session) {
        for direction in 0..2 {
            (0..self.qer_places.len()).for_each(|n| self.place_qer(n, direction, false));
            (0..self.urr_places.len()).for_each(|n| self.place_urr(n, direction, false));
        }
        for n in &self.limited {
            let place = |limit: Option<PacketLimit>| {
                let quota = limit.map_or(PacketQuota::default(), |limit| {
                    let PacketLimit { most, period_ns } = limit;
                    PacketQuota { most, period_ns, ..PacketQuota::default() }
                });
                self.cells.push(zerocopy::transmute!(quota));
                (self.cells.len() - 1).min(usize::from(NONE8)) as u8
            };
            self.limit_places.push(session.qers[*n].packets.map(place));
        }
    }

    /// The IPv4 filters of a direction's rules by precedence; one for everything where a rule has none.
    pub fn entries(&self, rules: Range<usize>) -> Vec<Entry> {
        let mut entries = Vec::with_capacity(rules.len());
        for n in rules {
            let rule = &self.matches[n];
            let own = &self.filters4[rule.first4.into()..][..rule.count4.into()];
            let list = if rule.then.flags & match_flags::FILTERED == 0 { &[Filter4::ANY] } else { own };
            entries.extend(list.iter().map(|filter| (n, *filter)));
        }
        entries
    }

    /// Positions become those in the record, which are below `MAX_RECORD` lines; in units of filters, actions and cells
    /// they still fit eight bits.
    pub fn settle(&mut self, places: &Places) {
        self.enter_groups(|cell| places.cell(cell));
        for rule in &mut self.matches {
            rule.first4 += (places.filters4 * LINE / size_of::<Filter4>()) as u8;
            rule.first6 += places.filters6 as u8;
            rule.then.action = places.actions[usize::from(rule.then.action)];
            for cell in rule.then.meters.iter_mut().chain(&mut rule.then.tallies) {
                *cell = places.cell(*cell);
            }
        }
    }

    /// The filters of either direction in fours, and what is done with their packets. The rules' positions are final.
    /// Directions with the same filters have the same list.
    pub fn quads(
        &self,
        entries: &[Vec<Entry>; 2],
        places: &Places,
        teids: &[u32],
    ) -> ([Box<[Quad4]>; 2], [Vec<RuleResults>; 2]) {
        let mut quads = places.quads.map(|count| vec![Quad4::NOTHING; count].into_boxed_slice());
        let mut treatments = places.quads.map(|count| vec![[RuleResult::default(); WAYS]; count]);
        for direction in 0..2 {
            let places = places.quads[direction] * WAYS;
            for (n, (rule, filter)) in entries[direction].iter().enumerate().take(places) {
                let Match { teid, then: treatment, .. } = self.matches[*rule];
                // Below `ENDS`, or there were no places. Downlink packets have none and are not asked.
                let end = teids.binary_search(&teid).unwrap_or(0) as u8;
                let qfi = Some(treatment.qfi).filter(|qfi| *qfi != NONE8);
                quads[direction][n / WAYS].set(n % WAYS, filter, end, qfi);
                treatments[direction][n / WAYS][n % WAYS] = treatment;
            }
        }
        // Uplink rules have more to ask, and of downlink packets only what both have.
        let filters = |direction: usize| entries[direction].iter().map(|(_, filter)| filter);
        if filters(0).eq(filters(1)) {
            quads[1] = quads[0].clone();
        }
        (quads, treatments)
    }
}
