//! Accounting reports that wait until the client has room for them: bounded, and of a session one interim report at most.

use std::collections::{BTreeMap, VecDeque};

use radius::Attribute;
use radius::client::Refused;

/// Reports that wait at most; only stops may be more, as usage is lost without them.
const MOST: usize = 65_536;

/// An accounting report.
pub type Attributes = Vec<Attribute>;

/// A report that waits.
#[derive(Debug)]
struct Waiting {
    report: Attributes,
    /// Its record's key in the ledger; 0: it has none.
    key: u64,
    /// What is to be on the disk before it goes: see [`Keeper`](super::aaa::kept::Keeper).
    step: u64,
}

/// Reports that wait.
#[derive(Debug, Default)]
pub struct Backlog {
    /// Reports of a start or an end, in order.
    edges: VecDeque<Waiting>,
    /// The latest interim report of each session, by number. They go after `edges`.
    interims: BTreeMap<u64, Waiting>,
    next: u64,
    /// The client had no room when it was last asked: its answers and timers say when to ask again.
    refused: bool,
    /// Reports that can't be written as a packet.
    pub malformed: u64,
    /// Reports that there was no room for.
    pub dropped: u64,
}

impl Backlog {
    fn is_full(&self) -> bool {
        self.edges.len() + self.interims.len() >= MOST
    }

    fn make_room(&mut self) {
        if self.is_full() && self.interims.pop_first().is_some() {
            self.dropped += 1;
        }
    }

    /// Whether there is room for the report of a start; if not, it is counted as dropped.
    pub fn admits_start(&mut self) -> bool {
        self.make_room();
        let is_full = self.is_full();
        self.dropped += u64::from(is_full);
        !is_full
    }

    /// Adds the report of a start, with the key of its record, and what is to be on the disk before it goes.
    pub fn start(&mut self, report: Attributes, key: u64, step: u64) {
        self.edges.push_back(Waiting { report, key, step });
    }

    /// Adds the report of an end, in place of the session's interim report of this number.
    pub fn stop(&mut self, interim: u64, report: Attributes, key: u64, step: u64) {
        self.interims.remove(&interim);
        self.make_room();
        self.edges.push_back(Waiting { report, key, step });
    }

    /// Adds an interim report, in place of the session's of this number if that waits; returns its number.
    pub fn interim(&mut self, number: u64, report: Attributes, step: u64) -> u64 {
        if let Some(waiting) = self.interims.get_mut(&number) {
            (waiting.report, waiting.step) = (report, step);
            return number;
        }
        if self.is_full() {
            self.dropped += 1;
            return number;
        }
        self.next += 1;
        self.interims.insert(self.next, Waiting { report, key: 0, step });
        self.next
    }

    /// Drops the interim report of this number if it waits: another process makes a later one.
    pub fn forget(&mut self, number: u64) {
        self.interims.remove(&number);
    }

    fn first(&self) -> Option<&Waiting> {
        self.edges.front().or_else(|| self.interims.first_key_value().map(|(_, waiting)| waiting))
    }

    /// Gives reports whose record is on the disk, up to `durable`, to the client until it has no room, each with the key of its
    /// record; what it can't write is counted and dropped, and its key given to `dropped`.
    pub fn hand_over(
        &mut self,
        durable: u64,
        mut account: impl FnMut(Attributes, u64) -> Result<(), Refused>,
        mut dropped: impl FnMut(u64),
    ) {
        self.refused = false;
        while let Some(Waiting { report, key, .. }) = self.first().filter(|first| first.step <= durable) {
            match account(report.clone(), *key) {
                Err(Refused::Full) => {
                    self.refused = true;
                    return;
                }
                Err(Refused::Malformed(why)) => {
                    tracing::warn!(target: "sessions", event = "report_malformed", "{why}");
                    dropped(*key);
                    self.malformed += 1;
                }
                Ok(()) => {}
            }
            if self.edges.pop_front().is_none() {
                self.interims.pop_first();
            }
        }
    }

    /// Reports of a start or an end with their keys, the latest interim ones by number, and the last such number.
    pub fn parts(&self) -> (impl Iterator<Item = (&Attributes, u64)>, impl Iterator<Item = (&u64, &Attributes)>, u64) {
        let edges = self.edges.iter().map(|waiting| (&waiting.report, waiting.key));
        (edges, self.interims.iter().map(|(number, waiting)| (number, &waiting.report)), self.next)
    }

    /// Goes on with [what another process had](Self::parts), all of which is on the disk.
    pub fn go_on_with(
        &mut self,
        edges: impl Iterator<Item = (Attributes, u64)>,
        interims: impl Iterator<Item = (u64, Attributes)>,
        next: u64,
    ) {
        let waiting = |report, key| Waiting { report, key, step: 0 };
        self.edges = edges.map(|(report, key)| waiting(report, key)).collect();
        self.interims = interims.map(|(number, report)| (number, waiting(report, 0))).collect();
        self.next = next;
    }

    /// Whether there is something that may go, where all up to `durable` is on the disk, and that the client may have room for.
    pub fn is_due(&self, durable: u64) -> bool {
        !self.refused && self.first().is_some_and(|first| first.step <= durable)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(n: u32) -> Attributes {
        vec![Attribute::integer(1, n)]
    }

    fn numbers(backlog: &mut Backlog) -> Vec<u32> {
        let mut all = Vec::new();
        let take = |report: Attributes, _| {
            all.extend(report[0].to_integer());
            Ok(())
        };
        backlog.hand_over(0, take, |_| ());
        all
    }

    #[test]
    fn session_has_one_interim_report_waiting() {
        let mut backlog = Backlog::default();
        let first = backlog.interim(0, report(1), 0);
        assert_eq!(backlog.interim(first, report(2), 0), first);
        let other = backlog.interim(0, report(3), 0);
        backlog.stop(other, report(4), 0, 0);
        assert_eq!(numbers(&mut backlog), [4, 2]);
        assert!(!backlog.is_due(0));
    }

    #[test]
    fn malformed_report_does_not_stop_others() {
        let mut backlog = Backlog::default();
        (1..4).for_each(|n| backlog.start(report(n), n.into(), 0));
        let (mut taken, mut forgotten) = (Vec::new(), Vec::new());
        let take = |report: Attributes, _| match report[0].to_integer() {
            Some(1) => Err(Refused::Malformed(radius::Malformed::Length)),
            n => {
                taken.extend(n);
                Ok(())
            }
        };
        backlog.hand_over(0, take, |key| forgotten.push(key));
        assert_eq!((taken, forgotten, backlog.malformed, backlog.is_due(0)), (vec![2, 3], vec![1], 1, false));
    }

    #[test]
    fn full_client_is_not_asked_at_once() {
        let mut backlog = Backlog::default();
        backlog.start(report(1), 0, 0);
        assert!(backlog.is_due(0));
        backlog.hand_over(0, |_, _| Err(Refused::Full), |_| ());
        backlog.start(report(2), 0, 0);
        assert!(!backlog.is_due(0));
        assert_eq!(numbers(&mut backlog), [1, 2]);
    }

    #[test]
    fn stops_outlive_interims_and_starts() {
        let mut backlog = Backlog::default();
        (0..MOST as u32 + 2).for_each(|n| _ = backlog.interim(0, report(n), 0));
        assert_eq!(backlog.dropped, 2);
        (0..MOST as u32).for_each(|n| backlog.stop(0, report(n), 0, 0));
        assert!(!backlog.admits_start());
        backlog.stop(0, report(9), 0, 0);
        let all = numbers(&mut backlog);
        assert_eq!((all.len(), all.last(), backlog.dropped), (MOST + 1, Some(&9), 2 + MOST as u64 + 1));
    }

    #[test]
    fn report_waits_for_its_record() {
        let mut backlog = Backlog::default();
        backlog.start(report(1), 1, 1);
        backlog.interim(0, report(2), 2);
        assert!(!backlog.is_due(0) && numbers(&mut backlog).is_empty());
        assert!(backlog.is_due(1));
        let mut taken = Vec::new();
        let take = |report: Attributes, key| {
            taken.push((report[0].to_integer(), key));
            Ok(())
        };
        backlog.hand_over(1, take, |_| ());
        assert_eq!((taken, backlog.is_due(1), backlog.is_due(2)), (vec![(Some(1), 1)], false, true));
    }
}
