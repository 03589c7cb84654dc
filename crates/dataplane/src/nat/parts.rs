//! Memory in parts: one from the start, and those that were added while a worker runs. Positions count through them all.

use std::ops::{Index, IndexMut};

/// Parts that may be added.
pub(super) const MORE: usize = 32;

/// A sequence that grows by whole parts, which are made elsewhere: growing takes no memory.
pub(super) struct Parts<T> {
    first: Box<[T]>,
    more: Vec<Box<[T]>>,
}

impl<T> Parts<T> {
    pub(super) fn new(first: impl Into<Box<[T]>>) -> Self {
        Self { first: first.into(), more: Vec::with_capacity(MORE) }
    }

    pub(super) fn len(&self) -> usize {
        self.first.len() + self.more.iter().map(|part| part.len()).sum::<usize>()
    }

    /// Adds a part, [`MORE`] at most.
    pub(super) fn push(&mut self, part: Box<[T]>) {
        debug_assert!(self.more.len() < MORE, "more parts than there is room for");
        self.more.push(part);
    }

    /// The part a position is in, and the position there.
    #[inline]
    fn part(&self, mut at: usize) -> Option<(&[T], usize)> {
        if at < self.first.len() {
            return Some((&self.first, at));
        }
        at -= self.first.len();
        for part in &self.more {
            if at < part.len() {
                return Some((part, at));
            }
            at -= part.len();
        }
        None
    }

    #[inline]
    fn part_mut(&mut self, mut at: usize) -> Option<(&mut [T], usize)> {
        if at < self.first.len() {
            return Some((&mut self.first, at));
        }
        at -= self.first.len();
        for part in &mut self.more {
            if at < part.len() {
                return Some((part, at));
            }
            at -= part.len();
        }
        None
    }

    #[inline]
    pub(super) fn get(&self, at: usize) -> Option<&T> {
        self.part(at).and_then(|(part, at)| part.get(at))
    }

    #[inline]
    pub(super) fn get_mut(&mut self, at: usize) -> Option<&mut T> {
        self.part_mut(at).and_then(|(part, at)| part.get_mut(at))
    }

    /// `len` of them from `at`, which are in one part.
    pub(super) fn run(&self, at: usize, len: usize) -> &[T] {
        self.part(at).map_or(&[], |(part, at)| &part[at..][..len])
    }

    /// As [`run`](Self::run), to change.
    pub(super) fn run_mut(&mut self, at: usize, len: usize) -> &mut [T] {
        self.part_mut(at).map_or(&mut [], |(part, at)| &mut part[at..][..len])
    }
}

impl<T> Index<usize> for Parts<T> {
    type Output = T;

    #[inline]
    fn index(&self, at: usize) -> &T {
        self.get(at).expect("a position that was given out")
    }
}

impl<T> IndexMut<usize> for Parts<T> {
    #[inline]
    fn index_mut(&mut self, at: usize) -> &mut T {
        self.get_mut(at).expect("a position that was given out")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_count_through_all_parts() {
        let mut parts = Parts::new(vec![0, 1, 2]);
        parts.push(Box::default());
        parts.push(vec![3, 4].into());
        parts.push(vec![5].into());
        assert_eq!((parts.len(), (0..7).map(|at| parts.get(at).copied()).collect::<Vec<_>>()), {
            (6, vec![Some(0), Some(1), Some(2), Some(3), Some(4), Some(5), None])
        });
        parts[4] = 9;
        parts.run_mut(0, 2)[1] = 8;
        assert_eq!((parts.run(3, 2), parts.run(0, 3), parts.run(6, 1)), (&[3, 9][..], &[0, 8, 2][..], &[][..]));
    }
}
