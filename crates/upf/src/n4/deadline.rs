//! When sessions need control next, if no control plane and no worker has anything for them before.

use std::cmp::Reverse;

use super::N4;

/// Sessions whose rules are to be given again, looked through for the first that is due; of more, some are due soon.
const LOOKED_THROUGH: usize = 64;

impl N4 {
    /// When [`poll`](Self::poll) has something to do next, in nanoseconds of the workers' clock. A time that is past means:
    /// work is left over, and goes on soon. Nothing here counts while [`is_waiting`](Self::is_waiting).
    pub fn next_deadline(&self) -> Option<u64> {
        let is_left =
            !self.out.is_empty() || !self.over.is_empty() || !self.applications_changed.is_empty() || self.is_sending();
        let first = [
            is_left.then_some(0),
            self.delayed.peek().map(|Reverse((at, ..))| *at),
            self.looks.peek().map(|Reverse((at, _))| *at),
            self.waits_by_time.peek().map(|Reverse((at, _))| *at),
            self.next_refresh(),
            self.paths.next_deadline(),
            self.next_checkpoint(),
        ];
        first.into_iter().flatten().min()
    }

    fn next_refresh(&self) -> Option<u64> {
        match self.again.len() {
            0..=LOOKED_THROUGH => self.again.iter().map(|(from, _)| *from).min(),
            _ => Some(0),
        }
    }
}
