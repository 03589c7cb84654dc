//! Orders from control to a worker, with replies.
//!
//! Control sends a command and keeps a [`Ticket`]; the worker carries out a few in each round of its loop and answers
//! each. Replies come back in order, so that what a command replaced (a box of rules, a final usage report) returns to
//! be freed or reported by control, never by the worker.

use std::fmt;

use crate::ring::{Consumer, Gauge, Producer, ring};

/// Which command a reply answers; counts up from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

/// The worker panicked while it carried the command out: what the command did, and what it carried, is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lost;

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the worker panicked while it carried out the command")
    }
}

impl std::error::Error for Lost {}

/// Both ends of a way for commands `C` and their replies `R`, with at most `capacity` (rounded up to a power of two)
/// commands not yet answered.
pub fn commands<C: Send, R: Send>(capacity: usize) -> (Control<C, R>, Inbox<C, R>) {
    let (commands, inbox) = ring(capacity);
    let (replies, answers) = ring(capacity);
    (Control { commands, answers, next: 0, answered: 0 }, Inbox { inbox, replies })
}

/// Control's end.
#[derive(Debug)]
pub struct Control<C, R> {
    commands: Producer<(Ticket, C)>,
    answers: Consumer<(Ticket, Result<R, Lost>)>,
    next: u64,
    /// Replies taken so far, so the ticket of the next one.
    answered: u64,
}

impl<C: Send, R: Send> Control<C, R> {
    /// Sends a command, or gives it back when too many are unanswered: then take replies first.
    pub fn send(&mut self, command: C) -> Result<Ticket, C> {
        // Bounding the unanswered, not the unread, keeps room for every reply: the worker never waits.
        if self.unanswered() >= self.commands.capacity() {
            return Err(command);
        }
        let ticket = Ticket(self.next);
        self.commands.push((ticket, command)).map_err(|(_, command)| command)?;
        self.next += 1;
        Ok(ticket)
    }

    /// The next reply, if there is one. They come in the order of the commands, one for each.
    pub fn poll(&mut self) -> Option<(Ticket, Result<R, Lost>)> {
        let reply = self.answers.pop()?;
        self.answered += 1;
        Some(reply)
    }

    /// Whether [`poll`](Self::poll) has a reply.
    pub fn has_answers(&mut self) -> bool {
        !self.answers.is_empty()
    }

    /// Commands sent whose replies have not been taken.
    pub fn unanswered(&self) -> usize {
        (self.next - self.answered) as usize
    }

    /// Whether the worker's end is gone: commands it did not answer will stay so.
    pub fn is_alone(&self) -> bool {
        self.commands.is_alone()
    }

    /// Counts of the command ring.
    pub fn gauge(&self) -> &Gauge {
        self.commands.gauge()
    }
}

/// The worker's end.
#[derive(Debug)]
pub struct Inbox<C, R> {
    inbox: Consumer<(Ticket, C)>,
    replies: Producer<(Ticket, Result<R, Lost>)>,
}

impl<C: Send, R: Send> Inbox<C, R> {
    /// Carries out up to `max` commands, oldest first; returns how many. When `carry_out` panics, control gets
    /// [`Lost`] for that command and the others stay for the next round.
    #[inline]
    pub fn drain(&mut self, max: usize, mut carry_out: impl FnMut(C) -> R) -> usize {
        let replies = &mut self.replies;
        self.inbox.pop_batch(max, |(ticket, command)| {
            let mut answer = Answer { replies, ticket, reply: Err(Lost) };
            answer.reply = Ok(carry_out(command));
        })
    }

    /// Whether no command is waiting: the last look before going to sleep.
    #[inline]
    pub fn is_empty(&mut self) -> bool {
        self.inbox.is_empty()
    }
}

/// Sends the reply when it goes, whichever way.
struct Answer<'a, R: Send> {
    replies: &'a mut Producer<(Ticket, Result<R, Lost>)>,
    ticket: Ticket,
    reply: Result<R, Lost>,
}

impl<R: Send> Drop for Answer<'_, R> {
    fn drop(&mut self) {
        let reply = std::mem::replace(&mut self.reply, Err(Lost));
        let sent = self.replies.push((self.ticket, reply));
        debug_assert!(sent.is_ok(), "there is room for a reply to every command");
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    #[test]
    fn replies_come_in_order_and_bring_the_old_box_back() {
        let (mut control, mut inbox) = commands::<Box<u32>, Box<u32>>(4);
        let mut rules = Box::new(0);
        for i in 1..=4 {
            assert_eq!(control.send(Box::new(i)), Ok(Ticket(u64::from(i) - 1)));
        }
        assert_eq!(control.send(Box::new(9)), Err(Box::new(9)), "too many unanswered");
        assert_eq!(inbox.drain(3, |new| std::mem::replace(&mut rules, new)), 3);
        assert!(control.send(Box::new(9)).is_err(), "answered, but the replies not taken");
        assert!(control.has_answers());
        assert_eq!(control.poll(), Some((Ticket(0), Ok(Box::new(0)))));
        assert_eq!(control.send(Box::new(5)), Ok(Ticket(4)));
        assert!(!inbox.is_empty());
        assert_eq!(inbox.drain(32, |new| std::mem::replace(&mut rules, new)), 2);
        assert!(inbox.is_empty());
        let old: Vec<_> = std::iter::from_fn(|| control.poll()).map(|(t, r)| (t.0, *r.unwrap())).collect();
        assert_eq!(old, [(1, 1), (2, 2), (3, 3), (4, 4)]);
        assert!(!control.has_answers());
        assert_eq!((control.unanswered(), control.gauge().sent(), *rules), (0, 5, 5));
    }

    #[test]
    fn a_panic_is_answered_too() {
        let (mut control, mut inbox) = commands::<u32, u32>(2);
        control.send(1).unwrap();
        control.send(2).unwrap();
        assert!(catch_unwind(AssertUnwindSafe(|| inbox.drain(32, |_| panic!("rules")))).is_err());
        assert_eq!(inbox.drain(32, |n| n * 10), 1);
        assert_eq!(control.poll(), Some((Ticket(0), Err(Lost))));
        assert_eq!(control.poll(), Some((Ticket(1), Ok(20))));
        assert!(!control.is_alone());
        drop(inbox);
        assert!(control.is_alone());
    }
}
