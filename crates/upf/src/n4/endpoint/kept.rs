//! Associations, with their applications, on their way to the ledger: however often one changes, it is written once in a
//! while, and what acknowledges the change waits for that.

use std::collections::BTreeSet;

use ledger::Change;
use pfcp::node::AssociationId;

use super::super::metering::WallClock;
use super::super::{Outgoing, keep};
use super::Endpoint;

/// Nanoseconds until what has changed is written.
const SOON: u64 = 10_000_000;

/// What has changed since it was written.
#[derive(Debug, Default)]
pub(super) struct Unkept {
    /// Associations, those that are over too.
    associations: BTreeSet<AssociationId>,
    /// When the first of them changed, nanoseconds of the workers' clock.
    since: u64,
    /// Answers that go when what has changed is on the disk.
    answers: Vec<Outgoing>,
    /// Associations that the ledger has as they were set up.
    kept: BTreeSet<AssociationId>,
}

impl Unkept {
    /// Nothing has changed since the ledger had these.
    pub(crate) fn none_but(kept: impl Iterator<Item = AssociationId>) -> Self {
        Self { kept: kept.collect(), ..Self::default() }
    }

    /// An association has changed, or what its applications are detected by, or it is over.
    pub fn association(&mut self, id: AssociationId, now: u64) {
        if self.associations.is_empty() {
            self.since = now;
        }
        self.associations.insert(id);
    }

    /// An association is set up, anew too: a session that follows would be another one's after a restart.
    pub fn set_up(&mut self, id: AssociationId, now: u64) {
        self.kept.remove(&id);
        self.association(id, now);
    }

    /// When what has changed is written.
    pub fn next_deadline(&self) -> Option<u64> {
        let is_due = !self.associations.is_empty() || !self.answers.is_empty();
        is_due.then(|| self.since + SOON)
    }

    /// An answer is to go when what has changed is on the disk.
    pub fn answer(&mut self, answer: Outgoing) {
        self.answers.push(answer);
    }
}

impl Endpoint {
    /// Writes an association now if it was not since it was set up: its session, which is to follow, would not be found again
    /// without it.
    pub(super) fn keep_first(&mut self, id: AssociationId) {
        if !self.unkept.kept.contains(&id) {
            self.keep_association(id);
        }
    }

    /// Writes what has changed, if it is time.
    pub(super) fn keep_due(&mut self, clock: &WallClock) {
        if clock.now.saturating_sub(self.unkept.since) >= SOON {
            self.keep_changed();
        }
    }

    /// Writes what has changed.
    pub(super) fn keep_changed(&mut self) {
        for id in std::mem::take(&mut self.unkept.associations) {
            self.keep_association(id);
        }
        for answer in std::mem::take(&mut self.unkept.answers) {
            self.n4.keep(|_| Vec::new(), Some(answer));
        }
    }

    fn keep_association(&mut self, id: AssociationId) {
        match self.node.association(id) {
            Some(_) => self.unkept.kept.insert(id),
            None => self.unkept.kept.remove(&id),
        };
        let change = self.kept_association(id);
        self.n4.keep_else(change);
    }

    /// What an association is kept as now.
    pub(super) fn kept_association(&self, id: AssociationId) -> Change {
        let key = keep::association_key(id);
        match self.node.association(id) {
            Some(association) => {
                let bytes = keep::association_bytes(association, self.n4.applications(id.0));
                Change::PutSession { key, bytes }
            }
            None => Change::DeleteSession { key },
        }
    }
}
