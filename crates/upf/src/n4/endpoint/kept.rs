//! Associations, with their applications, on their way to the ledger: however often one changes, it is written once in a
//! while.

use std::collections::BTreeSet;

use ledger::Change;
use pfcp::node::AssociationId;

use super::super::keep;
use super::super::metering::WallClock;
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
}

impl Unkept {
    /// An association has changed, or what its applications are detected by, or it is over.
    pub fn association(&mut self, id: AssociationId, now: u64) {
        if self.associations.is_empty() {
            self.since = now;
        }
        self.associations.insert(id);
    }
}

impl Endpoint {
    /// Writes an association now if it has changed: its session, which is to follow, would not be found again without it.
    pub(super) fn keep_before(&mut self, id: AssociationId) {
        if self.unkept.associations.remove(&id) {
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
    }

    fn keep_association(&mut self, id: AssociationId) {
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
