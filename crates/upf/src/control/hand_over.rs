//! Control's own state on its way to another process.

use super::Control;

impl Control {
    /// Whether workers owe no reply and nothing they told waits.
    pub fn is_settled(&mut self) -> bool {
        self.answers.is_empty()
            && self.reports.is_empty()
            && self.links.iter_mut().all(|link| link.is_settled() && !link.has_news())
    }

    /// A session that was put in place before its worker runs is no longer there.
    pub fn abandon(&mut self, worker: u16, handle: u32) {
        self.remotes.forget((worker, handle));
    }
}
