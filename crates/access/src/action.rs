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

/// Actions to be taken, and replies that wait for a [`Ticket`].
#[derive(Debug)]
pub struct Actions<R> {
    ready: VecDeque<Action<R>>,
    waiting: VecDeque<(Ticket, u32, Option<R>)>,
    /// Leases that wait, so that the usual answer costs no search.
    slots: HashMap<u32, u32>,
    next: u64,
}

impl<R> Default for Actions<R> {
    fn default() -> Self {
        Self { ready: VecDeque::new(), waiting: VecDeque::new(), slots: HashMap::new(), next: 1 }
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

    /// Stores `record` of lease `slot`; `reply` goes out when it is durable.
    pub(crate) fn store(&mut self, slot: u32, record: LeaseRecord, reply: Option<R>) {
        let ticket = Ticket(self.next);
        self.next += 1;
        self.ready.push_back(Action::Store(ticket, record));
        self.waiting.push_back((ticket, slot, reply));
        *self.slots.entry(slot).or_default() += 1;
    }

    /// Everything up to `ticket` is durable: replies go out.
    pub(crate) fn durable(&mut self, ticket: Ticket) {
        while self.waiting.front().is_some_and(|(first, ..)| *first <= ticket) {
            let Some((_, slot, reply)) = self.waiting.pop_front() else { return };
            self.left(slot);
            self.ready.extend(reply.map(Action::Send));
        }
    }

    /// The store refused `ticket`: its reply is dropped. Returns the lease's slot.
    pub(crate) fn failed(&mut self, ticket: Ticket) -> Option<u32> {
        let at = self.waiting.iter().position(|(waiting, ..)| *waiting == ticket)?;
        let (_, slot, reply) = self.waiting.remove(at)?;
        if reply.is_none() {
            // One of several records of a reply: the reply stands at the last of them. Its client asks again.
            let next = self.waiting.iter_mut().skip(at).find(|(.., reply)| reply.is_some());
            next.into_iter().for_each(|(.., reply)| *reply = None);
        }
        self.left(slot);
        Some(slot)
    }

    fn left(&mut self, slot: u32) {
        if let Entry::Occupied(mut count) = self.slots.entry(slot) {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
            }
        }
    }

    /// Whether a record of lease `slot` is on its way to the store.
    pub(crate) fn is_waiting(&self, slot: u32) -> bool {
        self.slots.contains_key(&slot)
    }

    /// Puts `reply` in place of the one that waits for the last of these leases.
    pub(crate) fn replace(&mut self, slots: &[u32], reply: R) {
        if let Some(waiting) = self.waiting.iter_mut().rev().find(|(_, of, _)| slots.contains(of)) {
            waiting.2 = Some(reply);
        }
    }

    /// Whatever waits for lease `slot` is dropped: the lease was given back or declined meanwhile.
    pub(crate) fn cancel(&mut self, slot: u32) {
        if !self.is_waiting(slot) {
            return;
        }
        self.waiting.iter_mut().filter(|(_, of, _)| *of == slot).for_each(|(.., reply)| *reply = None);
    }
}
