//! What a server asks its caller to do, and replies that wait until a record is durable.

use crate::lease::LeaseRecord;
use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};

/// Names a record on its way to the store. Tickets ascend by one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

/// What the caller shall do, in this order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action<R> {
    /// The caller sends this datagram.
    Send(R),
    /// Store a lease; call `durable` with the ticket once it survives a crash.
    Store(Ticket, LeaseRecord),
    /// Remove a lease, as it was, from the store; nothing waits for it.
    Erase(LeaseRecord),
}

/// A lease among those of all [`Pools`](crate::pool::Pools): their number, and the slot.
pub(crate) type Place = (u16, u32);

/// Actions to be taken, and replies that wait for a [`Ticket`].
#[derive(Debug)]
pub struct Actions<R> {
    ready: VecDeque<Action<R>>,
    waiting: VecDeque<(Ticket, Place, Option<R>)>,
    /// Leases that wait, so that the usual answer costs no search.
    places: HashMap<Place, u32>,
    next: u64,
}

impl<R> Default for Actions<R> {
    fn default() -> Self {
        Self { ready: VecDeque::new(), waiting: VecDeque::new(), places: HashMap::new(), next: 1 }
    }
}

impl<R> Actions<R> {
    /// Takes the next action, in order; none: there is nothing to do now.
    pub fn next_action(&mut self) -> Option<Action<R>> {
        self.ready.pop_front()
    }

    /// Replies that wait for their record.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    #[cfg(test)]
    pub(crate) fn next_is_store(&self) -> bool {
        matches!(self.ready.front(), Some(Action::Store(..)))
    }

    pub(crate) fn send(&mut self, reply: R) {
        self.ready.push_back(Action::Send(reply));
    }

    pub(crate) fn erase(&mut self, lease: LeaseRecord) {
        self.ready.push_back(Action::Erase(lease));
    }

    /// Stores `record` of the lease at `place`; `reply` goes out when it is durable.
    pub(crate) fn store(&mut self, place: Place, record: LeaseRecord, reply: Option<R>) {
        let ticket = Ticket(self.next);
        self.next += 1;
        self.ready.push_back(Action::Store(ticket, record));
        self.waiting.push_back((ticket, place, reply));
        *self.places.entry(place).or_default() += 1;
    }

    /// Everything up to `ticket` is durable: replies go out.
    pub(crate) fn durable(&mut self, ticket: Ticket) {
        while self.waiting.front().is_some_and(|(first, ..)| *first <= ticket) {
            let Some((_, place, reply)) = self.waiting.pop_front() else { return };
            self.left(place);
            self.ready.extend(reply.map(Action::Send));
        }
    }

    /// The store refused `ticket`: its reply is dropped. Returns which lease it was.
    pub(crate) fn failed(&mut self, ticket: Ticket) -> Option<Place> {
        let at = self.waiting.iter().position(|(waiting, ..)| *waiting == ticket)?;
        let (_, place, reply) = self.waiting.remove(at)?;
        if reply.is_none() {
            // One of several records of a reply: the reply stands at the last of them. Its client asks again.
            let next = self.waiting.iter_mut().skip(at).find(|(.., reply)| reply.is_some());
            next.into_iter().for_each(|(.., reply)| *reply = None);
        }
        self.left(place);
        Some(place)
    }

    fn left(&mut self, place: Place) {
        if let Entry::Occupied(mut count) = self.places.entry(place) {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
            }
        }
    }

    /// Whether a record of the lease at `place` is on its way to the store.
    pub(crate) fn is_waiting(&self, place: Place) -> bool {
        self.places.contains_key(&place)
    }

    /// Puts `reply` in place of the one that waits for the last of these leases.
    pub(crate) fn replace(&mut self, places: &[Place], reply: R) {
        if let Some(waiting) = self.waiting.iter_mut().rev().find(|(_, of, _)| places.contains(of)) {
            waiting.2 = Some(reply);
        }
    }

    /// Whatever waits for the lease at `place` is dropped: the lease was given back or declined meanwhile.
    pub(crate) fn cancel(&mut self, place: Place) {
        if !self.is_waiting(place) {
            return;
        }
        self.waiting.iter_mut().filter(|(_, of, _)| *of == place).for_each(|(.., reply)| *reply = None);
    }
}
