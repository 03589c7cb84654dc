//! How long control may sleep: until a worker wakes it, or until something is due.

use table::waker::Waker;

use super::Control;

impl Control {
    /// Wakes the thread that drives it: workers do when they have an event or a reply.
    pub fn waker(&self) -> &Waker {
        &self.waker
    }

    /// Whether workers have events or replies for the next [`poll`](Self::poll).
    pub fn has_news(&mut self) -> bool {
        self.links.iter_mut().any(|link| link.has_news()) || self.nat_log.has_news()
    }

    /// Whether the last [`poll`](Self::poll) took events of workers: more may follow at once.
    pub fn took_events(&self) -> bool {
        self.took_events
    }

    /// When [`poll`](Self::poll) has something to do next though workers have nothing for it, in nanoseconds of their
    /// clock. A time that is past means: work is left over or failed, and is tried again soon.
    pub fn next_deadline(&self) -> Option<u64> {
        if !self.announced {
            return Some(0);
        }
        let retry = self.nat_log.has_failed().then_some(0);
        let paged = self.paging.front().map(|(ready, ..)| *ready);
        [retry, paged, self.next_churn(), self.neighbourhood.next_deadline()].into_iter().flatten().min()
    }
}
