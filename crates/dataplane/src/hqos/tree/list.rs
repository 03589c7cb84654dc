//! Lists through their members: those of each level, whose turn it will be.

use super::super::flow::NONE;
use super::super::group::List;

/// Levels of turns: 0 before 1 before 2.
pub(super) const LEVELS: usize = 3;
/// Priority classes within the rate that may go before other leaves.
pub(super) const URGENT: u8 = 0;
/// Within the minimum rate.
pub(super) const ASSURED: u8 = 1;
/// All others, by weight.
pub(super) const SHARED: u8 = 2;

/// Neighbours of a member in its list.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub next: u32,
    pub prev: u32,
}

impl Place {
    pub const NONE: Self = Self { next: NONE, prev: NONE };
}

/// What can be in a list.
pub(super) trait Member {
    fn place(&mut self) -> &mut Place;
}

/// A list of each level.
#[derive(Clone)]
pub(super) struct Lists {
    lists: [List; LEVELS],
    /// Levels whose list is not empty, a bit each.
    occupied: u8,
}

impl Lists {
    pub fn new() -> Self {
        Self { lists: [List { head: NONE, tail: NONE }; LEVELS], occupied: 0 }
    }

    /// The best level with a member; [`LEVELS`]: there is none.
    #[inline(always)]
    pub fn level(&self) -> u8 {
        (self.occupied.trailing_zeros() as u8).min(LEVELS as u8)
    }

    /// The member whose turn it is.
    #[inline(always)]
    pub fn first(&self) -> Option<u32> {
        self.lists.get(usize::from(self.level())).map(|list| list.head)
    }

    /// Enters a member at the end of a level's list.
    #[inline(always)]
    pub fn append<M: Member>(&mut self, level: u8, members: &mut [M], id: u32) {
        let Some(list) = self.lists.get_mut(usize::from(level)) else { return };
        let last = std::mem::replace(&mut list.tail, id);
        self.occupied |= 1 << level;
        match members.get_mut(last as usize) {
            None => list.head = id,
            Some(last) => last.place().next = id,
        }
        if let Some(member) = members.get_mut(id as usize) {
            *member.place() = Place { next: NONE, prev: last };
        }
    }

    /// Takes a member out of a level's list.
    #[inline(always)]
    pub fn remove<M: Member>(&mut self, level: u8, members: &mut [M], id: u32) {
        let Some(list) = self.lists.get_mut(usize::from(level)) else { return };
        let Some(member) = members.get_mut(id as usize) else { return };
        let Place { next, prev } = std::mem::replace(member.place(), Place::NONE);
        match members.get_mut(next as usize) {
            None => list.tail = prev,
            Some(next) => next.place().prev = prev,
        }
        match members.get_mut(prev as usize) {
            None => list.head = next,
            Some(prev) => prev.place().next = next,
        }
        if list.head == NONE {
            self.occupied &= !(1 << level);
        }
    }
}
