//! Access lists that a reload replaces while workers read them: control's side.
//!
//! Two sets of counters are used in turn: what a worker counts by lists that were just replaced is not a new rule's.

use table::snapshot::{Publisher, Reader};

use super::{AccessLists, Hits};

/// Counters of access rules beyond those of the start: rules that a reload may add.
pub const SPARE_COUNTERS: u32 = 4096;

/// Why lists cannot be replaced now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotReplaced {
    /// Counters that the new lists need, and those that one set has.
    #[error("{0} access rules, and this process has counters for {1}")]
    TooMany(u32, u32),
    /// A worker still has lists whose counters would be used again.
    #[error("a worker has not taken up the access lists of the reload before")]
    InUse,
}

impl NotReplaced {
    /// What to do.
    pub const fn help(self) -> &'static str {
        match self {
            Self::TooMany(..) => "fewer rules, or restart the gateway",
            Self::InUse => "reload again in a moment; `weir show threads` shows a worker that hangs",
        }
    }
}

/// Lists as published, and what their rules have counted.
pub struct LiveLists {
    publisher: Publisher<AccessLists>,
    hits: Hits,
    /// The first counter of the lists in use: 0, or half of all.
    first: u32,
    /// What their counters had when they were published: they begin anew then.
    before: Vec<(u64, u64)>,
}

impl LiveLists {
    /// The lists of a start, which have the first `counters`; none yet are published.
    pub fn new(counters: u32) -> Self {
        let hits = Hits::new(2 * (counters + SPARE_COUNTERS));
        Self { publisher: Publisher::new(AccessLists::default()), hits, first: 0, before: Vec::new() }
    }

    /// What workers count into.
    pub fn hits(&self) -> &Hits {
        &self.hits
    }

    /// A worker's view of the lists.
    pub fn reader(&self) -> Reader<AccessLists> {
        self.publisher.reader()
    }

    /// Packets and bytes by access rule since the lists were replaced last, in the order they are configured in, each list's
    /// default behind its rules.
    pub fn of(&self, counter: u32) -> (u64, u64) {
        let (packets, bytes) = self.hits.of(self.first + counter);
        let (packets_before, bytes_before) = self.before.get(counter as usize).copied().unwrap_or_default();
        (packets.saturating_sub(packets_before), bytes.saturating_sub(bytes_before))
    }

    fn each(&self) -> u32 {
        self.hits.len() / 2
    }

    /// The first counter of lists in use.
    pub fn first(&self) -> u32 {
        self.first
    }

    /// The first counter of the lists that replace those in use.
    pub fn next_first(&self) -> u32 {
        if self.first == 0 { self.each() } else { 0 }
    }

    /// Whether lists with that many counters can replace those in use: the other set of counters is free once no worker reads
    /// the lists that had it, those before the last.
    ///
    /// # Errors
    /// Why not.
    pub fn check(&mut self, counters: u32) -> Result<(), NotReplaced> {
        if counters > self.each() {
            return Err(NotReplaced::TooMany(counters, self.each()));
        }
        if self.reclaim() > 0 { Err(NotReplaced::InUse) } else { Ok(()) }
    }

    /// Publishes the lists of the start.
    pub fn begin(&mut self, lists: AccessLists) {
        self.publisher.publish(lists);
    }

    /// Publishes lists whose counters begin at [`next_first`](Self::next_first). Workers have them in their next turn.
    pub fn replace(&mut self, lists: AccessLists) {
        self.first = self.next_first();
        let set = self.first..self.first + self.each();
        self.before = set.map(|counter| self.hits.of(counter)).collect();
        self.publisher.publish(lists);
    }

    /// Frees lists that no worker has in hand; how many wait.
    pub fn reclaim(&mut self) -> usize {
        self.publisher.reclaim()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::acl::{AccessList, Action};

    fn lists(counter: u32) -> AccessLists {
        let mut lists = AccessLists::default();
        lists.set(1, AccessList::compile(&[], Action::Permit, counter).expect("a list"));
        lists
    }

    #[test]
    fn late_hits_are_no_new_rules() {
        let mut live = LiveLists::new(1);
        live.begin(lists(0));
        let (shard, mut reader) = (live.hits().shard().0, live.reader());
        // A worker's turn by the first lists: it counts by them until its end.
        let _ = reader.get();
        shard.inc(0);
        assert_eq!(live.of(0).0, 1);
        assert_eq!(live.check(1), Ok(()));
        live.replace(lists(live.next_first()));
        shard.inc(0);
        assert_eq!(live.of(0).0, 0, "the rule before it had that number");
        // Its counters are not used again while the worker may count by them.
        assert_eq!(live.check(1), Err(NotReplaced::InUse));
        let _ = reader.get();
        assert_eq!(live.check(1), Ok(()));
        assert_eq!(live.next_first(), 0);
        live.replace(lists(0));
        assert_eq!(live.of(0).0, 0);
        shard.inc(0);
        assert_eq!(live.of(0).0, 1);
        assert_eq!(live.check(1 + SPARE_COUNTERS + 1), Err(NotReplaced::TooMany(4098, 4097)));
    }
}
