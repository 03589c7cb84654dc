//! Associations and applications on their way to the ledger: however often one changes, it is written once in a while.

use std::collections::BTreeSet;

use ledger::Change;
use pfcp::Packet;
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
    applications: bool,
    /// Since when.
    since: u64,
}

impl Unkept {
    /// An association has changed, or is over.
    pub fn association(&mut self, id: AssociationId, now: u64) {
        self.begin(now);
        self.associations.insert(id);
    }

    /// What applications are detected by has changed.
    pub fn applications(&mut self, now: u64) {
        self.begin(now);
        self.applications = true;
    }

    fn begin(&mut self, now: u64) {
        if self.associations.is_empty() && !self.applications {
            self.since = now;
        }
    }
}

impl Endpoint {
    /// Applications as the ledger keeps them; none: one message does not say them.
    pub(super) fn applications_bytes(&self) -> Option<Vec<u8>> {
        let packet = Packet { header: pfcp::Header::node(0), message: self.n4.say_applications().into() };
        packet.to_vec().ok()
    }

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
        if std::mem::take(&mut self.unkept.applications)
            && let Some(bytes) = self.applications_bytes()
        {
            self.n4.keep_else(Change::PutSession { key: keep::APPLICATIONS, bytes });
        }
    }

    fn keep_association(&mut self, id: AssociationId) {
        let key = keep::association_key(id);
        self.n4.keep_else(match self.node.association(id) {
            Some(association) => Change::PutSession { key, bytes: keep::association_bytes(association) },
            None => Change::DeleteSession { key },
        });
    }
}
