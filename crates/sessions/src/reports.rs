//! Reports that may not have arrived: kept with their session until they are acknowledged, sent again, given up in time.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::FrontEnd;
use crate::store::SessionStore;

/// A report that may not have arrived.
#[derive(Debug)]
pub struct Owed {
    /// Ours, to know it again by.
    number: u32,
    /// When it counts as arrived; 0: when it is acknowledged.
    until: u64,
    /// Nobody answered; it is sent again when the peer is back.
    unanswered: bool,
    /// The message, as it was sent.
    pub message: Vec<u8>,
}

impl Owed {
    /// Whether nobody answered it.
    pub fn is_unanswered(&self) -> bool {
        self.unanswered
    }
}

/// Reports of a session that may be waiting for their acknowledgement. While so many do, a period that ends makes no more;
/// what else is to be told takes the place of the oldest.
const MOST: usize = 64;

/// Which reports are sent again, and when.
#[derive(Debug, Default)]
pub(crate) struct Reports {
    /// Unanswered reports: when they are retransmitted, soonest first; session and number.
    late: VecDeque<(u64, u32, u32)>,
    /// Sessions with unanswered reports, by association.
    unanswered: BTreeSet<(u32, u32)>,
    /// Associations that get those again, and from which session on: none is sent twice in a round.
    sending_again: BTreeMap<u32, u32>,
    last_number: u32,
    /// Reports given up for later ones.
    lost: u64,
}

impl Reports {
    /// A session of an association ends.
    pub fn forget(&mut self, peer: u32, session: u32) {
        self.unanswered.remove(&(peer, session));
    }
}

impl<F: FrontEnd> SessionStore<F> {
    /// Reports of a session that may not have arrived.
    pub fn owed(&self, number: u32) -> &[Owed] {
        self.activities.get(number).map_or(&[], |record| &record.owed)
    }

    /// Whether as many reports of a session wait as may.
    pub fn is_owed_most(&self, number: u32) -> bool {
        self.owed(number).len() >= MOST
    }

    /// A report of a session is sent: it counts as arrived at `until`, or (0) when it is acknowledged. Its number, by which
    /// it is known again.
    pub fn owe(&mut self, number: u32, message: Vec<u8>, until: u64) -> Option<u32> {
        let report = self.reports.last_number.wrapping_add(1).max(1);
        let is_lost = self.edit(number, |record| {
            let is_full = record.owed.len() >= MOST;
            if is_full {
                record.owed.remove(0);
            }
            record.owed.push(Owed { number: report, until, unanswered: false, message });
            is_full
        })?;
        self.reports.lost += u64::from(is_lost);
        self.reports.last_number = report;
        Some(report)
    }

    /// Forgets reports that count as arrived by now; whether there were any.
    pub fn forget_arrived(&mut self, number: u32, now: u64) -> bool {
        if self.owed(number).is_empty() {
            return false;
        }
        let arrived = self.edit(number, |record| {
            let before = record.owed.len();
            record.owed.retain(|owed| owed.until == 0 || owed.until > now);
            record.owed.len() < before
        });
        arrived.unwrap_or(false)
    }

    /// A report was acknowledged; false: no report of the session is owed.
    pub fn acknowledged(&mut self, number: u32, report: u32) -> bool {
        let is_owed = !self.owed(number).is_empty();
        if is_owed {
            self.edit(number, |record| record.owed.retain(|owed| owed.number != report));
        }
        is_owed
    }

    /// Nobody answered a report: it is retransmitted at `again`, or when its peer is back. False: it is not kept.
    pub fn unanswered(&mut self, number: u32, report: u32, again: u64) -> bool {
        if self.owed(number).is_empty() {
            return false;
        }
        let found = self.edit(number, |record| {
            let owed = record.owed.iter_mut().find(|owed| owed.number == report);
            owed.map(|owed| owed.unanswered = true).is_some()
        });
        let is_owed = found == Some(true);
        if is_owed {
            self.reports.late.push_back((again, number, report));
            let peer = self.get(number).map(|entry| entry.peer);
            self.reports.unanswered.extend(peer.map(|peer| (peer, number)));
        }
        is_owed
    }

    /// When the first unanswered report is retransmitted.
    pub fn next_late(&self) -> Option<u64> {
        self.reports.late.front().map(|(at, ..)| *at)
    }

    /// Unanswered reports that are retransmitted now, session and number: those of up to `most` entries, answered ones too.
    pub fn take_late(&mut self, now: u64, most: usize) -> Vec<(u32, u32)> {
        let mut taken = Vec::new();
        for _ in 0..most {
            let Some((_, session, report)) = self.reports.late.front().copied().filter(|late| late.0 <= now) else {
                break;
            };
            self.reports.late.pop_front();
            if !self.take_unanswered_of(session, |number| number == report).is_empty() {
                taken.push((session, report));
            }
        }
        taken
    }

    /// The message of a report that is owed.
    pub fn report(&self, number: u32, report: u32) -> Option<&[u8]> {
        let owed = self.owed(number).iter().find(|owed| owed.number == report);
        owed.map(|owed| &*owed.message)
    }

    /// A peer is back: it gets what it has not answered.
    pub fn send_again(&mut self, peer: u32) {
        self.reports.sending_again.insert(peer, 0);
    }

    /// Whether reports are on their way to peers that are back.
    pub fn is_sending_again(&self) -> bool {
        !self.reports.sending_again.is_empty()
    }

    /// The reports of a session which its peer, that is back, has not answered: session and numbers. None: there are no more.
    pub fn next_unanswered(&mut self) -> Option<(u32, Vec<u32>)> {
        let Reports { unanswered, sending_again, .. } = &mut self.reports;
        let (peer, session) = loop {
            let (&peer, next) = sending_again.iter_mut().next()?;
            if let Some((_, session)) = unanswered.range((peer, *next)..=(peer, u32::MAX)).next().copied() {
                unanswered.remove(&(peer, session));
                *next = session.saturating_add(1);
                break (peer, session);
            }
            sending_again.remove(&peer);
        };
        debug_assert!(self.get(session).is_some_and(|entry| entry.peer == peer), "the set goes with the sessions");
        Some((session, self.take_unanswered_of(session, |_| true)))
    }

    /// The numbers of a session's unanswered reports, which are on their way again.
    fn take_unanswered_of(&mut self, number: u32, is_meant: impl Fn(u32) -> bool) -> Vec<u32> {
        if self.owed(number).is_empty() {
            return Vec::new();
        }
        let taken = self.edit(number, |record| {
            let late = record.owed.iter_mut().filter(|owed| owed.unanswered && is_meant(owed.number));
            let taken = late.map(|owed| {
                owed.unanswered = false;
                owed.number
            });
            taken.collect()
        });
        taken.unwrap_or_default()
    }

    /// Reports of a session that ends are not sent any more: those that would have to be acknowledged are lost.
    pub fn give_up(&mut self, owed: &[Owed]) {
        self.reports.lost += owed.iter().filter(|owed| owed.until == 0).count() as u64;
    }

    /// Reports that were not acknowledged and were given up, for later ones of their session or with it.
    pub fn reports_lost(&self) -> u64 {
        self.reports.lost
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::tests::{SessionStore, put};

    #[test]
    fn a_peer_that_is_back_gets_unanswered_reports_once() {
        let mut store = SessionStore::default();
        for n in 0..3 {
            put(&mut store, n, vec![]);
        }
        let numbers: Vec<u32> = (0..3).filter_map(|session| store.owe(session, vec![session as u8], 0)).collect();
        assert!(store.unanswered(0, numbers[0], 30) && store.unanswered(2, numbers[2], 30));
        assert!(!store.unanswered(1, 99, 30), "no such report");
        store.send_again(0);
        assert_eq!(store.next_unanswered(), Some((0, vec![numbers[0]])));
        assert_eq!(store.next_unanswered(), Some((2, vec![numbers[2]])));
        assert_eq!((store.next_unanswered(), store.is_sending_again()), (None, false));
        assert_eq!((store.take_late(30, 9), store.next_late()), (vec![], None), "they are on their way");
        assert_eq!(store.report(2, numbers[2]), Some(&[2][..]));
        assert!(store.acknowledged(2, numbers[2]));
        assert_eq!(store.report(2, numbers[2]), None);
    }

    #[test]
    fn the_oldest_report_makes_room_and_is_lost() {
        let mut store = SessionStore::default();
        put(&mut store, 0, vec![]);
        for _ in 0..MOST {
            store.owe(0, vec![], 0);
        }
        assert!(store.is_owed_most(0) && store.reports_lost() == 0);
        store.owe(0, vec![], 20);
        assert_eq!((store.owed(0).len(), store.reports_lost()), (MOST, 1));
        assert!(!store.forget_arrived(0, 19) && store.forget_arrived(0, 20), "as arrived");
        let (_, record) = store.take(0).expect("there");
        store.give_up(&record.owed);
        assert_eq!(store.reports_lost(), MOST as u64);
    }
}
