//! What sessions are in the middle of: one record for each session that is not at rest, which goes with its session.
//!
//! ```text
//! a request      asked of the worker ──► answered      what is asked of the session meanwhile is deferred
//! a refresh      due ──► given ──► answered            rules that change without a request: one at a time is under way
//! a measurement  asked of the worker ──► answered      one at a time is under way
//! ```
//!
//! Times at which sessions are looked at are kept in heaps beside the records. An entry of a heap counts only as long as the
//! session's record says the same, so nothing is taken out of a heap before its time.

use std::cmp::Reverse;
use std::collections::hash_map::Entry;
use std::collections::{BinaryHeap, HashMap, VecDeque};

use crate::FrontEnd;
use crate::reports::Owed;
use crate::store::SessionStore;

/// Rules that a session's worker takes in without a request: their time has come, or a quota is used up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Refresh {
    /// The worker goes by the rules there are.
    #[default]
    None,
    /// They are to be given to it.
    Due,
    /// It was given them and has not answered.
    Given,
    /// It has not answered, and is to be given them again.
    GivenAndDue,
}

impl Refresh {
    fn is_due(self) -> bool {
        matches!(self, Self::Due | Self::GivenAndDue)
    }

    /// Whether the worker was given rules and has not answered.
    pub fn is_given(self) -> bool {
        matches!(self, Self::Given | Self::GivenAndDue)
    }

    fn of(is_due: bool, is_given: bool) -> Self {
        match (is_due, is_given) {
            (false, false) => Self::None,
            (true, false) => Self::Due,
            (false, true) => Self::Given,
            (true, true) => Self::GivenAndDue,
        }
    }
}

/// What a session is in the middle of; `D` is what is asked of it that has to wait.
#[derive(Debug)]
pub struct Activity<D> {
    /// While its worker has not answered a request: what is asked of the session meanwhile.
    deferred: Option<Vec<D>>,
    refresh: Refresh,
    /// Its worker is being asked what it has counted.
    is_measured: bool,
    /// When packets that wait for its subscriber are dropped; 0: when its worker drops them.
    drop_at: u64,
    /// Reports that may not have arrived, oldest first.
    pub owed: Vec<Owed>,
}

impl<D> Default for Activity<D> {
    fn default() -> Self {
        Self { deferred: None, refresh: Refresh::None, is_measured: false, drop_at: 0, owed: Vec::new() }
    }
}

impl<D> Activity<D> {
    /// What was asked of the session while its worker had not answered a request.
    pub fn take_deferred(&mut self) -> Vec<D> {
        self.deferred.take().unwrap_or_default()
    }

    /// Whether its worker has not answered, or is to be asked.
    fn is_under_way(&self) -> bool {
        self.deferred.is_some() || self.refresh != Refresh::None || self.is_measured
    }

    fn is_at_rest(&self) -> bool {
        !self.is_under_way() && self.drop_at == 0 && self.owed.is_empty()
    }
}

/// When the control plane is told that packets wait (time, session, PDR), and when such packets are dropped (session, time).
pub type Timers = (Vec<(u64, u32, u16)>, Vec<(u32, u64)>);

/// Times and what is due then, soonest first.
type Deadlines<T> = BinaryHeap<Reverse<(u64, T)>>;

/// Takes up to `most` of what is due.
fn due<T: Ord + Copy>(deadlines: &mut Deadlines<T>, now: u64, most: usize) -> impl Iterator<Item = (u64, T)> + '_ {
    let next = move || match deadlines.peek() {
        Some(Reverse((at, _))) if *at <= now => deadlines.pop().map(|Reverse(due)| due),
        _ => None,
    };
    std::iter::from_fn(next).take(most)
}

/// The records of all sessions that are not at rest, and the times at which sessions are looked at.
#[derive(Debug)]
pub(crate) struct Activities<D> {
    records: HashMap<u32, Activity<D>>,
    /// Records of sessions whose workers have not answered, or are to be asked.
    under_way: usize,
    /// When sessions are to be looked at; outdated unless the session has the same time.
    looks: Deadlines<u32>,
    /// When packets that wait are dropped; outdated unless the session's record has the same time.
    drops: Deadlines<u32>,
    /// When the control plane is told that packets wait: session and PDR.
    notices: Deadlines<(u32, u16)>,
    /// Sessions whose rules are due, and from when on.
    refreshes: VecDeque<(u64, u32)>,
}

impl<D> Default for Activities<D> {
    fn default() -> Self {
        Self {
            records: HashMap::new(),
            under_way: 0,
            looks: BinaryHeap::new(),
            drops: BinaryHeap::new(),
            notices: BinaryHeap::new(),
            refreshes: VecDeque::new(),
        }
    }
}

impl<D> Activities<D> {
    pub fn get(&self, number: u32) -> Option<&Activity<D>> {
        self.records.get(&number)
    }

    /// Takes the record of a session that ends.
    pub fn take(&mut self, number: u32) -> Activity<D> {
        let record = self.records.remove(&number).unwrap_or_default();
        self.under_way -= usize::from(record.is_under_way());
        self.shrink();
        record
    }

    /// Changes the record of a session that is there.
    pub fn edit<R>(&mut self, number: u32, change: impl FnOnce(&mut Activity<D>) -> R) -> R {
        let mut entry = match self.records.entry(number) {
            Entry::Occupied(entry) => entry,
            Entry::Vacant(entry) => entry.insert_entry(Activity::default()),
        };
        let was = entry.get().is_under_way();
        let result = change(entry.get_mut());
        let is = entry.get().is_under_way();
        if entry.get().is_at_rest() {
            entry.remove();
            self.shrink();
        }
        self.under_way = self.under_way + usize::from(is) - usize::from(was);
        result
    }

    /// Gives back what a burst has taken, when all sessions are at rest.
    fn shrink(&mut self) {
        if self.records.is_empty() {
            self.records.shrink_to(KEPT);
        }
    }
}

/// Records that there is room for, however many there were.
const KEPT: usize = 4096;

/// Of more sessions than this whose rules are due, some are due now.
const LOOKED_THROUGH: usize = 64;

impl<F: FrontEnd> SessionStore<F> {
    /// Changes the record of a session; nothing, if there is none of that number.
    pub(crate) fn edit<R>(&mut self, number: u32, change: impl FnOnce(&mut Activity<F::Deferred>) -> R) -> Option<R> {
        self.get(number)?;
        Some(self.activities.edit(number, change))
    }

    /// Whether no session's worker has to answer, or is to be asked.
    pub fn is_settled(&self) -> bool {
        self.activities.under_way == 0
    }

    /// When the first session is to be looked at, has its rules due, drops what waits or is reported to have packets waiting.
    pub fn next_deadline(&self) -> Option<u64> {
        let Activities { looks, drops, notices, refreshes, .. } = &self.activities;
        let refresh = match refreshes.len() {
            0..=LOOKED_THROUGH => refreshes.iter().map(|(from, _)| *from).min(),
            _ => Some(0),
        };
        let at = |deadlines: &Deadlines<u32>| deadlines.peek().map(|Reverse((at, _))| *at);
        let notice = notices.peek().map(|Reverse((at, _))| *at);
        [at(looks), at(drops), notice, refresh].into_iter().flatten().min()
    }

    /// A request is asked of a session's worker: what else is asked of the session is deferred until the answer.
    pub fn begin_request(&mut self, number: u32) {
        self.edit(number, |record| record.deferred = Some(Vec::new()));
    }

    /// What was deferred since [`begin_request`](Self::begin_request); none: no request is under way.
    pub fn deferred(&self, number: u32) -> Option<&[F::Deferred]> {
        self.activities.get(number)?.deferred.as_deref()
    }

    /// Whether a request is asked of a session's worker.
    pub fn has_request(&self, number: u32) -> bool {
        self.deferred(number).is_some()
    }

    /// Defers what is asked of a session until its worker has answered the request under way.
    ///
    /// # Errors
    /// None is under way: it is given back.
    pub fn defer(&mut self, number: u32, asked: F::Deferred) -> Result<(), F::Deferred> {
        if !self.has_request(number) {
            return Err(asked);
        }
        self.activities.edit(number, |record| record.deferred.get_or_insert_default().push(asked));
        Ok(())
    }

    /// The worker has answered: what was deferred.
    pub fn end_request(&mut self, number: u32) -> Vec<F::Deferred> {
        self.edit(number, Activity::take_deferred).unwrap_or_default()
    }

    /// How far a session's worker is with rules that change without a request.
    pub fn refresh(&self, number: u32) -> Refresh {
        self.activities.get(number).map_or(Refresh::None, |record| record.refresh)
    }

    /// A session's rules are to be given to its worker, at that time or later.
    pub fn refresh_from(&mut self, at: u64, number: u32) {
        let is_due = |record: &mut Activity<F::Deferred>| {
            let before = record.refresh;
            record.refresh = Refresh::of(true, before.is_given());
            before.is_due()
        };
        if self.edit(number, is_due) == Some(false) {
            self.activities.refreshes.push_back((at, number));
        }
    }

    /// A session's worker was given its rules.
    pub fn refresh_given(&mut self, number: u32) {
        self.edit(number, |record| record.refresh = Refresh::of(record.refresh.is_due(), true));
    }

    /// It has answered.
    pub fn refresh_answered(&mut self, number: u32) {
        self.edit(number, |record| record.refresh = Refresh::of(record.refresh.is_due(), false));
    }

    /// Up to `most` sessions whose rules are to be given to their workers now; they are due no longer.
    pub fn take_refreshes(&mut self, now: u64, most: usize) -> Vec<u32> {
        let mut taken = Vec::new();
        for _ in 0..self.activities.refreshes.len().min(most) {
            let Some((from, number)) = self.activities.refreshes.pop_front() else { break };
            let is_due = self.activities.get(number).is_some_and(|record| record.refresh.is_due());
            if is_due && from > now {
                self.activities.refreshes.push_back((from, number));
            } else if is_due {
                self.edit(number, |record| record.refresh = Refresh::of(false, record.refresh.is_given()));
                taken.push(number);
            }
        }
        taken
    }

    /// A session's worker is asked what it has counted; false: it is being asked already, or there is no such session.
    pub fn begin_measurement(&mut self, number: u32) -> bool {
        self.edit(number, |record| !std::mem::replace(&mut record.is_measured, true)).unwrap_or(false)
    }

    /// The worker has answered, or could not be asked.
    pub fn end_measurement(&mut self, number: u32) {
        self.edit(number, |record| record.is_measured = false);
    }

    /// A session is to be looked at then, and not at another time.
    pub fn look_at(&mut self, number: u32, at: u64) {
        if let Some(entry) = self.get_mut(number) {
            entry.look_at = at;
            self.activities.looks.push(Reverse((at, number)));
        }
    }

    /// Sessions that are to be looked at now: those of up to `most` entries, outdated ones too.
    pub fn take_looks(&mut self, now: u64, most: usize) -> Vec<u32> {
        let mut taken = Vec::new();
        let looks = &mut self.activities.looks;
        let all = due(looks, now, most);
        let entries = &self.entries;
        let is_current = |(at, number): (u64, u32)| {
            let entry = entries.get(number as usize)?.as_ref()?;
            (entry.look_at == at).then_some(number)
        };
        taken.extend(all.filter_map(is_current));
        taken
    }

    /// Packets that wait for a session's subscriber are dropped then.
    pub fn drop_at(&mut self, number: u32, at: u64) {
        if self.edit(number, |record| record.drop_at = at).is_some() {
            self.activities.drops.push(Reverse((at, number)));
        }
    }

    /// Packets that wait may wait as long as their worker lets them.
    pub fn drop_no_more(&mut self, number: u32) {
        self.edit(number, |record| record.drop_at = 0);
    }

    /// Sessions whose waiting packets are dropped now: those of up to `most` entries, outdated ones too.
    pub fn take_drops(&mut self, now: u64, most: usize) -> Vec<u32> {
        let Activities { drops, records, .. } = &mut self.activities;
        let is_current = |(at, number): (u64, u32)| {
            let record = records.get(&number).filter(|record| record.drop_at == at)?;
            (record.drop_at > 0).then_some(number)
        };
        let mut taken: Vec<u32> = due(drops, now, most).filter_map(is_current).collect();
        taken.dedup();
        taken.iter().for_each(|number| self.drop_no_more(*number));
        taken
    }

    /// The control plane is told then that packets of a PDR wait.
    pub fn notify_at(&mut self, number: u32, pdr: u16, at: u64) {
        self.activities.notices.push(Reverse((at, (number, pdr))));
    }

    /// Up to `most` sessions, and their PDRs, that the control plane is now told of.
    pub fn take_notices(&mut self, now: u64, most: usize) -> Vec<(u32, u16)> {
        due(&mut self.activities.notices, now, most).map(|(_, notice)| notice).collect()
    }

    /// The timers of packets that wait, for another process.
    pub fn timers(&self) -> Timers {
        let notices = self.activities.notices.iter().map(|Reverse((at, (number, pdr)))| (*at, *number, *pdr));
        let records = self.activities.records.iter().filter(|(_, record)| record.drop_at > 0);
        (notices.collect(), records.map(|(number, record)| (*number, record.drop_at)).collect())
    }

    /// Goes on with the [`timers`](Self::timers) of another process, instead of its own.
    pub fn set_timers(&mut self, (notices, drops): Timers) {
        let (_, before) = self.timers();
        before.into_iter().for_each(|(number, _)| self.drop_no_more(number));
        self.activities.notices = notices.into_iter().map(|(at, number, pdr)| Reverse((at, (number, pdr)))).collect();
        self.activities.drops.clear();
        drops.into_iter().for_each(|(number, at)| self.drop_at(number, at));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::tests::{SessionStore, put};

    /// A store with sessions 0 to 2.
    fn store() -> SessionStore {
        let mut store = SessionStore::default();
        for n in 0..3 {
            put(&mut store, n, vec![]);
        }
        store
    }

    #[test]
    fn a_session_at_rest_has_no_record() {
        let mut store = store();
        store.begin_request(1);
        assert!(store.begin_measurement(1) && !store.begin_measurement(1), "one measurement at a time");
        store.refresh_from(5, 1);
        store.drop_at(1, 7);
        let report = store.owe(1, vec![1], 0).expect("there");
        assert_eq!((store.activities.records.len(), store.is_settled()), (1, false));
        store.end_request(1);
        store.end_measurement(1);
        assert_eq!(store.take_refreshes(4, 9), [0; 0], "its time has not come");
        assert_eq!(store.take_refreshes(5, 9), [1]);
        assert!(store.is_settled() && store.activities.records.len() == 1, "packets wait, and a report");
        store.drop_no_more(1);
        store.activities.records.reserve(1 << 20);
        store.acknowledged(1, report);
        assert!(store.activities.records.is_empty() && store.activities.records.capacity() < 2 * KEPT);
    }

    #[test]
    fn what_a_session_is_in_the_middle_of_ends_with_it() {
        let mut store = store();
        for number in 0..3 {
            store.begin_request(number);
            store.defer(number, number.into()).expect("a request is under way");
            store.refresh_from(0, number);
            store.refresh_given(number);
            store.begin_measurement(number);
            store.look_at(number, 3);
            store.drop_at(number, 3);
            store.owe(number, vec![1], 0);
            store.unanswered(number, 1 + number, 3);
            assert!(store.is_news(number, 7, 0));
        }
        assert_eq!(store.refresh(1), Refresh::GivenAndDue);
        let (_, mut record) = store.take(1).expect("there");
        assert_eq!((record.take_deferred(), record.owed.len()), (vec![1], 1));
        // Another session of that number would have none of it.
        assert!(!store.has_request(1) && store.refresh(1) == Refresh::None && store.owed(1).is_empty());
        assert_eq!((store.take_looks(3, 9), store.take_drops(3, 9)), (vec![0, 2], vec![0, 2]));
        assert_eq!((store.take_refreshes(3, 9), store.take_late(3, 9)), (vec![0, 2], vec![(0, 1), (2, 3)]));
        [0, 2].into_iter().for_each(|number| drop(store.take(number)));
        assert!(store.is_settled() && store.activities.records.is_empty());
        assert!(store.defer(0, 9).is_err() && !store.begin_measurement(0), "there is no such session");
        assert_eq!(store.owe(0, vec![], 0), None);
    }

    #[test]
    fn a_later_time_takes_the_place_of_an_earlier_one() {
        let mut store = store();
        store.look_at(0, 5);
        store.look_at(0, 9);
        store.drop_at(2, 5);
        store.drop_at(2, 8);
        assert_eq!(store.next_deadline(), Some(5));
        assert_eq!((store.take_looks(5, 9), store.take_drops(5, 9)), (vec![], vec![]));
        assert_eq!((store.take_looks(9, 9), store.take_drops(9, 9)), (vec![0], vec![2]));
        assert_eq!(store.next_deadline(), None);
    }

    #[test]
    fn timers_of_another_process_replace_the_own() {
        let (mut own, mut other) = (store(), store());
        own.drop_at(0, 4);
        own.notify_at(0, 1, 4);
        other.drop_at(2, 6);
        other.notify_at(1, 8, 5);
        own.set_timers(other.timers());
        assert_eq!(own.timers(), (vec![(5, 1, 8)], vec![(2, 6)]));
        assert_eq!((own.take_notices(5, 9), own.take_drops(6, 9)), (vec![(1, 8)], vec![2]));
    }
}
