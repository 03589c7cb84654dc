//! When sessions need control next, if no control plane and no worker has anything for them before.

use super::N4;

impl N4 {
    /// When [`poll`](Self::poll) has something to do next, in nanoseconds of the workers' clock. A time that is past means:
    /// work is left over, and goes on soon. Nothing here counts while [`is_waiting`](Self::is_waiting).
    pub fn next_deadline(&self) -> Option<u64> {
        let is_left = !self.out.is_empty()
            || !self.over.is_empty()
            || !self.applications_changed.is_empty()
            || self.store.is_sending_again();
        let first = [
            is_left.then_some(0),
            self.store.next_deadline(),
            self.store.paths.next_deadline(),
            self.next_checkpoint(),
        ];
        first.into_iter().flatten().min()
    }
}
