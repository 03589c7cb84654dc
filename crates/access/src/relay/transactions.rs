//! Requests that were forwarded and wait for a reply: a bounded number in all, of a subscriber and of a line, for a
//! bounded time.

use crate::subscriber::Identity;
use crate::{Line, Time};
use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::hash::Hash;
use std::time::Duration;

/// How long a request waits for further replies that needs no more than one.
const ANSWERED: Duration = Duration::from_secs(2);

/// How many requests wait for a reply, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransactionLimits {
    /// Most in all.
    pub total: usize,
    /// Most of one VLAN pair.
    pub line: u32,
    /// Most of one subscriber: of a line, or of a hardware address where lines share VLANs.
    pub subscriber: u32,
    /// How long a request waits for its reply.
    pub time: Duration,
}

impl Default for TransactionLimits {
    fn default() -> Self {
        Self { total: 65_536, line: 8192, subscriber: 8, time: Duration::from_secs(15) }
    }
}

/// Why a request has no place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Full {
    Line,
    Total,
}

#[derive(Debug)]
struct Waiting<T> {
    number: u64,
    owner: Identity,
    until: Time,
    value: T,
}

/// Requests by key; several of one key are told apart by what they were sent with.
#[derive(Debug)]
pub(super) struct Transactions<K, T> {
    limits: TransactionLimits,
    all: HashMap<K, Vec<Waiting<T>>>,
    subscribers: HashMap<Identity, u32>,
    lines: HashMap<Line, u32>,
    /// One entry for each request, by when it was due when it came.
    due: VecDeque<(Time, K, u64)>,
    /// Entries of those that have been shortened.
    soon: VecDeque<(Time, K, u64)>,
    count: usize,
    next: u64,
}

fn less<K: Eq + Hash>(counts: &mut HashMap<K, u32>, key: K) {
    if let Entry::Occupied(mut count) = counts.entry(key) {
        *count.get_mut() -= 1;
        if *count.get() == 0 {
            count.remove();
        }
    }
}

impl<K: Copy + Eq + Hash, T> Transactions<K, T> {
    pub fn new(limits: TransactionLimits) -> Self {
        let (all, subscribers, lines) = (HashMap::new(), HashMap::new(), HashMap::new());
        Self { limits, all, subscribers, lines, due: VecDeque::new(), soon: VecDeque::new(), count: 0, next: 0 }
    }

    pub fn len(&self) -> usize {
        self.count
    }

    /// Notes a request. One of the same key and subscriber is a repetition: it takes the place of the one before.
    pub fn insert(&mut self, now: Time, key: K, owner: Identity, value: T) -> Result<(), Full> {
        let until = now + self.limits.time;
        if let Some(known) = self.all.get_mut(&key).and_then(|all| all.iter_mut().find(|one| one.owner == owner)) {
            (known.until, known.value) = (until, value);
            return Ok(());
        }
        if self.count >= self.limits.total {
            return Err(Full::Total);
        }
        let of_subscriber = self.subscribers.get(&owner).copied().unwrap_or(0);
        let of_line = self.lines.get(&owner.line).copied().unwrap_or(0);
        if of_subscriber >= self.limits.subscriber || of_line >= self.limits.line {
            return Err(Full::Line);
        }
        self.next += 1;
        self.count += 1;
        *self.subscribers.entry(owner).or_default() += 1;
        *self.lines.entry(owner.line).or_default() += 1;
        self.all.entry(key).or_default().push(Waiting { number: self.next, owner, until, value });
        self.due.push_back((until, key, self.next));
        Ok(())
    }

    /// The request of a key that `is_it`.
    pub fn find(&self, key: &K, is_it: impl Fn(&T) -> bool) -> Option<&T> {
        let all = self.all.get(key)?;
        all.iter().map(|one| &one.value).find(|value| is_it(value))
    }

    /// Takes the request of a key out that `is_it`.
    pub fn take(&mut self, key: &K, is_it: impl Fn(&T) -> bool) -> Option<T> {
        let at = self.all.get(key)?.iter().position(|one| is_it(&one.value))?;
        self.remove(key, at)
    }

    fn remove(&mut self, key: &K, at: usize) -> Option<T> {
        let all = self.all.get_mut(key)?;
        let Waiting { owner, value, .. } = all.swap_remove(at);
        if all.is_empty() {
            self.all.remove(key);
        }
        less(&mut self.subscribers, owner);
        less(&mut self.lines, owner.line);
        self.count -= 1;
        Some(value)
    }

    /// The request of a key, if there is one only.
    pub fn only(&self, key: &K) -> Option<&T> {
        match self.all.get(key).map(Vec::as_slice) {
            Some([one]) => Some(&one.value),
            _ => None,
        }
    }

    /// As [`find`](Self::find), to change.
    pub fn find_mut(&mut self, key: &K, is_it: impl Fn(&T) -> bool) -> Option<&mut T> {
        let all = self.all.get_mut(key)?;
        all.iter_mut().map(|one| &mut one.value).find(|value| is_it(value))
    }

    /// Has a request of a key that `is_it` wait until [`ANSWERED`] from now at most.
    pub fn shorten(&mut self, now: Time, key: &K, is_it: impl Fn(&T) -> bool) {
        let until = now + ANSWERED;
        let Some(known) = self.all.get_mut(key).and_then(|all| all.iter_mut().find(|one| is_it(&one.value))) else {
            return;
        };
        if until < known.until {
            known.until = until;
            self.soon.push_back((until, *key, known.number));
        }
    }

    /// Drops requests whose time is over; returns how many of them `counts` is true of.
    pub fn expire(&mut self, now: Time, counts: impl Fn(&T) -> bool) -> u64 {
        let mut gone = 0;
        loop {
            let is_due = |queue: &VecDeque<(Time, K, u64)>| queue.front().is_some_and(|(at, ..)| *at <= now);
            let (next, of_due) = match (is_due(&self.soon), is_due(&self.due)) {
                (true, _) => (self.soon.pop_front(), false),
                (_, true) => (self.due.pop_front(), true),
                _ => return gone,
            };
            let Some((_, key, number)) = next else { return gone };
            let known = self.all.get(&key).and_then(|all| {
                let at = all.iter().position(|one| one.number == number)?;
                Some((at, all.get(at)?.until))
            });
            match known {
                Some((_, until)) if until > now && of_due => self.due.push_back((until, key, number)),
                // It has been repeated since: its entry among those that are due finds it.
                Some((_, until)) if until > now => {}
                Some((at, _)) => gone += u64::from(self.remove(&key, at).is_some_and(|value| counts(&value))),
                None => {}
            }
        }
    }

    /// When the oldest request is looked at.
    pub fn next_due(&self) -> Option<Time> {
        let first = |queue: &VecDeque<(Time, K, u64)>| queue.front().map(|(at, ..)| *at);
        first(&self.due).into_iter().chain(first(&self.soon)).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(c_vlan: u16) -> Identity {
        Identity { line: Line { port: 1, s_vlan: 1, c_vlan }, mac: None }
    }

    #[test]
    fn lines_and_all_are_bounded() {
        let limits = TransactionLimits { total: 10, subscriber: 3, ..TransactionLimits::default() };
        let mut table = Transactions::new(limits);
        let now = Time::from_secs(100);
        let of_line = (0..9).filter(|n| table.insert(now, *n, owner(1), ()).is_ok()).count();
        assert_eq!((of_line, table.insert(now, 9, owner(1), ())), (3, Err(Full::Line)));
        let others = (10..40u16).filter(|n| table.insert(now, *n, owner(*n), ()).is_ok()).count();
        assert_eq!((others, table.insert(now, 99, owner(99), ())), (7, Err(Full::Total)));
        assert!(table.insert(now, 0, owner(1), ()).is_ok(), "a repetition takes no place");
        assert_eq!(table.expire(now + limits.time, |()| true), 10);
        assert_eq!((table.len(), table.subscribers.len(), table.lines.len(), table.all.len()), (0, 0, 0, 0));
    }

    #[test]
    fn repetition_waits_anew() {
        let mut table = Transactions::new(TransactionLimits::default());
        let now = Time::from_secs(100);
        table.insert(now, 7, owner(1), 1).expect("there is room");
        table.insert(now + Duration::from_secs(10), 7, owner(1), 2).expect("it is the same");
        assert_eq!(table.expire(now + Duration::from_secs(20), |_| true), 0);
        assert_eq!(table.find(&7, |_| true), Some(&2));
        assert_eq!(table.expire(now + Duration::from_secs(25), |_| true), 1);
    }

    #[test]
    fn shortened_request_leaves_its_place_early() {
        let mut table = Transactions::new(TransactionLimits::default());
        let now = Time::from_secs(100);
        (0..3).for_each(|n| table.insert(now, n, owner(1), n).expect("there is room"));
        table.shorten(now, &0, |_| true);
        table.shorten(now, &1, |_| true);
        assert_eq!(table.next_due(), Some(now + ANSWERED));
        table.insert(now + Duration::from_secs(1), 1, owner(1), 1).expect("it is the same");
        assert_eq!((table.expire(now + ANSWERED, |n| *n == 0), table.len()), (1, 2));
        assert_eq!((table.expire(now + Duration::from_secs(15), |_| true), table.len()), (1, 1));
        assert_eq!((table.expire(now + Duration::from_secs(16), |_| true), table.len()), (1, 0));
        assert_eq!(table.next_due(), None);
    }

    #[test]
    fn same_key_of_two_lines_is_two_requests() {
        let mut table = Transactions::new(TransactionLimits::default());
        let now = Time::from_secs(100);
        (1..3).for_each(|n| table.insert(now, 7, owner(n), n).expect("there is room"));
        assert_eq!((table.take(&7, |n| *n == 2), table.len()), (Some(2), 1));
        assert_eq!((table.take(&7, |n| *n == 2), table.find(&7, |_| true)), (None, Some(&1)));
    }
}
