//! Accounting reports that wait until the client has room for them: bounded, and of a session one interim report at most.

use std::collections::{BTreeMap, VecDeque};

use radius::Attribute;
use radius::client::Refused;

/// Reports that wait at most; only stops may be more, as usage is lost without them.
const MOST: usize = 65_536;

/// An accounting report.
pub type Attributes = Vec<Attribute>;

/// Reports that wait.
#[derive(Debug, Default)]
pub struct Backlog {
    /// Reports of a start or an end, in order.
    edges: VecDeque<Attributes>,
    /// The latest interim report of each session, by number. They go after `edges`.
    interims: BTreeMap<u64, Attributes>,
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

    /// Adds the report of a start.
    pub fn start(&mut self, report: Attributes) {
        self.make_room();
        if self.is_full() {
            self.dropped += 1;
        } else {
            self.edges.push_back(report);
        }
    }

    /// Adds the report of an end, in place of the session's interim report of this number.
    pub fn stop(&mut self, interim: u64, report: Attributes) {
        self.interims.remove(&interim);
        self.make_room();
        self.edges.push_back(report);
    }

    /// Adds an interim report, in place of the session's of this number if that waits; returns its number.
    pub fn interim(&mut self, number: u64, report: Attributes) -> u64 {
        if let Some(waiting) = self.interims.get_mut(&number) {
            *waiting = report;
            return number;
        }
        if self.is_full() {
            self.dropped += 1;
            return number;
        }
        self.next += 1;
        self.interims.insert(self.next, report);
        self.next
    }

    /// Gives reports to the client until it has no room; what it can't write is counted and dropped.
    pub fn hand_over(&mut self, mut account: impl FnMut(Attributes) -> Result<(), Refused>) {
        self.refused = false;
        while let Some(report) =
            self.edges.front().or_else(|| self.interims.first_key_value().map(|(_, report)| report))
        {
            match account(report.clone()) {
                Err(Refused::Full) => {
                    self.refused = true;
                    return;
                }
                Err(Refused::Malformed(why)) => {
                    tracing::warn!(target: "sessions", event = "report_malformed", "{why}");
                    self.malformed += 1;
                }
                Ok(()) => {}
            }
            if self.edges.pop_front().is_none() {
                self.interims.pop_first();
            }
        }
    }

    /// Reports of a start or an end, the latest interim ones by number, and the last such number.
    pub fn parts(&self) -> (impl Iterator<Item = &Attributes>, impl Iterator<Item = (&u64, &Attributes)>, u64) {
        (self.edges.iter(), self.interims.iter(), self.next)
    }

    /// Goes on with [what another process had](Self::parts).
    pub fn go_on_with(
        &mut self,
        edges: impl Iterator<Item = Attributes>,
        interims: impl Iterator<Item = (u64, Attributes)>,
        next: u64,
    ) {
        self.edges = edges.collect();
        self.interims = interims.collect();
        self.next = next;
    }

    /// Whether there is something that the client may have room for.
    pub fn is_due(&self) -> bool {
        !self.refused && self.edges.len() + self.interims.len() > 0
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
        backlog.hand_over(|report| {
            all.extend(report[0].to_integer());
            Ok(())
        });
        all
    }

    #[test]
    fn session_has_one_interim_report_waiting() {
        let mut backlog = Backlog::default();
        let first = backlog.interim(0, report(1));
        assert_eq!(backlog.interim(first, report(2)), first);
        let other = backlog.interim(0, report(3));
        backlog.stop(other, report(4));
        assert_eq!(numbers(&mut backlog), [4, 2]);
        assert!(!backlog.is_due());
    }

    #[test]
    fn malformed_report_does_not_stop_others() {
        let mut backlog = Backlog::default();
        (1..4).for_each(|n| backlog.start(report(n)));
        let mut taken = Vec::new();
        backlog.hand_over(|report| match report[0].to_integer() {
            Some(1) => Err(Refused::Malformed(radius::Malformed::Length)),
            n => {
                taken.extend(n);
                Ok(())
            }
        });
        assert_eq!((taken, backlog.malformed, backlog.is_due()), (vec![2, 3], 1, false));
    }

    #[test]
    fn full_client_is_not_asked_at_once() {
        let mut backlog = Backlog::default();
        backlog.start(report(1));
        assert!(backlog.is_due());
        backlog.hand_over(|_| Err(Refused::Full));
        backlog.start(report(2));
        assert!(!backlog.is_due());
        assert_eq!(numbers(&mut backlog), [1, 2]);
    }

    #[test]
    fn stops_outlive_interims_and_starts() {
        let mut backlog = Backlog::default();
        (0..MOST as u32 + 2).for_each(|n| _ = backlog.interim(0, report(n)));
        assert_eq!(backlog.dropped, 2);
        (0..MOST as u32).for_each(|n| backlog.stop(0, report(n)));
        backlog.start(report(7));
        backlog.stop(0, report(9));
        let all = numbers(&mut backlog);
        assert_eq!((all.len(), all.last(), backlog.dropped), (MOST + 1, Some(&9), 2 + MOST as u64 + 1));
    }
}
