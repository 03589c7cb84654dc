//! Rules with more QERs and URRs than a treatment has places, or with limits on the number of packets.

use super::CompileError;
use super::parts::{Cell, Parts};
use crate::record::{
    CELLS, GROUP, LINE, MAX_QERS, MAX_URRS, Members, Meter, NONE8, OF_SESSION, PLACES, Tally, match_flags,
};
use crate::rules::Session;

/// A rule that a treatment's places are too few for.
pub(super) struct Many {
    /// Its place among the matches.
    pub rule: usize,
    /// 0: its packets come from the subscriber, 1: they go there.
    pub direction: usize,
    /// Those of its QERs that have buckets, those that limit packets, and its URRs: places among the session's.
    pub metered: Few<MAX_QERS>,
    pub limited: Few<MAX_QERS>,
    pub urrs: Few<MAX_URRS>,
}

/// A group's first cell, as a position within the cells, and what it stands for.
pub(super) struct Group {
    at: usize,
    first: Cell,
    members: Members,
}

impl Many {
    fn has_many_meters(&self) -> bool {
        self.metered.count() > PLACES || self.limited.count() > 0
    }

    fn has_many_tallies(&self) -> bool {
        self.urrs.count() > PLACES
    }

    /// Whether it is such a rule.
    pub(crate) fn is_one(&self) -> bool {
        self.has_many_meters() || self.has_many_tallies()
    }
}

impl Parts {
    /// Gives rules with many QERs and URRs their groups; all cells these stand for have their places.
    pub(super) fn place_groups(&mut self, session: &Session) {
        for many in std::mem::take(&mut self.many) {
            let cells =
                |list: &[usize], all: &[[u8; 2]]| -> Vec<u8> { list.iter().map(|n| all[*n][many.direction]).collect() };
            if many.has_many_meters() {
                let of_session = |n: &usize| if session.qers[*n].session { OF_SESSION } else { 0 };
                let meters = cells(many.metered.list(), &self.qer_places);
                let meters: Vec<u8> =
                    meters.iter().zip(many.metered.list()).map(|(at, n)| at | of_session(n)).collect();
                let limits =
                    many.limited.list().iter().filter_map(|n| self.limited.iter().position(|limited| limited == n));
                let limits = cells(&limits.collect::<Vec<_>>(), &self.limit_places);
                let group = self.group(zerocopy::transmute!(Meter::CLOSED), &meters, &limits);
                let then = &mut self.matches[many.rule].then;
                then.meters = [NONE8, group];
                then.flags &= !(match_flags::SESSION0 | match_flags::SESSION1);
            }
            if many.has_many_tallies() {
                let is_before = |n: &usize| session.urrs[*n].before_qos;
                let (before, behind): (Vec<usize>, Vec<usize>) = many.urrs.list().iter().partition(|n| is_before(n));
                let place = |parts: &mut Self, list: &[usize]| match *cells(list, &parts.urr_places) {
                    [] => NONE8,
                    [one] => one,
                    ref all => parts.group(zerocopy::transmute!(Tally { trip: 0, ..Tally::default() }), all, &[]),
                };
                let tallies = [place(self, &behind), place(self, &before)];
                let then = &mut self.matches[many.rule].then;
                then.tallies = tallies;
                then.flags &= !(match_flags::BEFORE_QOS0 | match_flags::BEFORE_QOS1);
                then.flags |= if before.is_empty() { 0 } else { match_flags::BEFORE_QOS1 };
            }
        }
    }

    /// The place of a group of these cells: one there is, or a new one, in a line of its own.
    fn group(&mut self, first: Cell, cells: &[u8], limits: &[u8]) -> u8 {
        let list = |of: &[u8]| {
            let mut list = [NONE8; MAX_URRS];
            list.iter_mut().zip(of).for_each(|(place, at)| *place = *at);
            list
        };
        let members = Members { cells: list(cells), limits: list(limits) };
        let known = self.groups.iter().find(|group| (group.first, group.members) == (first, members));
        let at = known.map_or(self.cells.len().next_multiple_of(CELLS), |group| group.at);
        if known.is_none() {
            self.cells.resize(at, [0; LINE / CELLS]);
            self.cells.extend([first, [0; LINE / CELLS]]);
            self.groups.push(Group { at, first, members });
        }
        // Truncation is mended by the check on the record's length.
        GROUP | at as u8
    }

    /// Enters what groups stand for, now that it is known where cells are.
    pub(super) fn enter_groups(&mut self, position: impl Fn(u8) -> u8) {
        for Group { at, members, .. } in &self.groups {
            let Members { cells, limits } = *members;
            let members = Members { cells: cells.map(&position), limits: limits.map(&position) };
            self.cells[at + 1] = zerocopy::transmute!(members);
        }
    }
}

/// Which of the session's QERs or URRs a rule names, each once: as many as can apply to one packet, and how many they are.
pub(super) struct Few<const N: usize> {
    list: [usize; N],
    count: usize,
}

impl<const N: usize> Default for Few<N> {
    fn default() -> Self {
        Self { list: [0; N], count: 0 }
    }
}

impl<const N: usize> Few<N> {
    pub fn push(&mut self, at: usize) {
        if self.list().contains(&at) {
            return;
        }
        if let Some(place) = self.list.get_mut(self.count) {
            *place = at;
        }
        self.count += 1;
    }

    /// That they are no more.
    pub fn check(&self, pdr: u16, what: &'static str) -> Result<(), CompileError> {
        let count = self.count;
        if count > N { Err(CompileError::TooManyPerRule { pdr, what, count, most: N }) } else { Ok(()) }
    }

    pub fn count(&self) -> usize {
        self.count
    }

    pub fn list(&self) -> &[usize] {
        &self.list[..self.count.min(N)]
    }

    /// The cells of a direction of the first ones.
    pub fn places(&self, cells: &[[u8; 2]], direction: usize) -> [u8; PLACES] {
        let mut places = [NONE8; PLACES];
        places.iter_mut().zip(self.list()).for_each(|(place, at)| *place = cells[*at][direction]);
        places
    }
}
