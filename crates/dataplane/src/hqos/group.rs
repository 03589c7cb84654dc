//! The flows of a group whose turn it will be.

use super::flow::{LEVELS, NONE};

/// Flows whose turn it will be.
#[derive(Clone, Copy)]
pub(super) struct List {
    pub head: u32,
    pub tail: u32,
}

/// The lists of a group of links.
#[derive(Clone)]
pub(super) struct Group {
    pub lists: [List; LEVELS],
    /// Lists that are not empty.
    pub occupied: u16,
}

impl Group {
    pub fn new() -> Self {
        Self { lists: [List { head: NONE, tail: NONE }; LEVELS], occupied: 0 }
    }

    /// The flow whose turn it is, and the list it is in.
    #[inline(always)]
    pub fn first(&self) -> Option<(usize, u32)> {
        // Of none, there is no such list.
        let level = self.occupied.trailing_zeros() as usize;
        self.lists.get(level).map(|list| (level, list.head))
    }

    /// Takes the first flow out of a list: the one behind it is `next`.
    #[inline(always)]
    pub fn shift(&mut self, level: usize, next: u32) {
        let Some(list) = self.lists.get_mut(level) else { return };
        list.head = next;
        if next == NONE {
            list.tail = NONE;
            self.occupied &= !(1 << level);
        }
    }
}
