//! Datagrams on their way to the PFCP node: a queue for each control plane and one for all strangers, served by deficit round
//! robin. What a datagram costs is time, so time is what each queue gets a share of: a sender of many datagrams, or of
//! costly ones, delays only its own sender.
//!
//! ```text
//! sockets ──► queue of association 1 ─┐
//!         ──► queue of association 2 ─┼─ in turn, each for so long ──► node
//!         ──► queue of all strangers ─┘
//! ```
//!
//! A control plane whose requests wait for workers or the disk, as many as may, is passed over until some are answered: what
//! it sends on waits here, in a queue of its own.
//!
//! No socket and no clock: datagrams and time are inputs. A queue that was empty is served before those that were not,
//! once, so one who sends little does not wait for those who send much.

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;

/// Whose datagrams a queue holds: an association's, by its number, or (none) those of all addresses without one.
pub type Class = Option<u32>;

/// Whether more datagrams of a queue may be handed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// More of this queue may be handed over.
    Serve,
    /// Not until [`Intake::resume`] is told so.
    Hold,
}

/// Nanoseconds that a control plane's queue is served for in its turn.
const OF_PEER: u64 = 200_000;
/// The same of all strangers together.
const OF_STRANGERS: u64 = 50_000;
/// Datagrams and octets that wait in a control plane's queue at most.
const MOST_OF_PEER: (usize, usize) = (2048, 1 << 20);
/// The same of all strangers together.
const MOST_OF_STRANGERS: (usize, usize) = (256, 256 << 10);

/// Datagrams that wait, oldest first.
#[derive(Debug, Default)]
struct Queue {
    datagrams: VecDeque<(SocketAddr, usize)>,
    /// Their octets, one after the other, from `head` on.
    octets: Vec<u8>,
    head: usize,
    /// Nanoseconds it may be served for; below zero: it was served longer than its turn.
    left: i64,
    /// It is in one of the lists, or held.
    is_listed: bool,
    /// Datagrams there was no room for, or not for all of their messages.
    lost: u64,
}

impl Queue {
    fn push(&mut self, from: SocketAddr, datagram: &[u8], (count, octets): (usize, usize)) -> bool {
        if self.datagrams.len() >= count || self.octets.len() - self.head + datagram.len() > octets {
            self.lost += 1;
            return false;
        }
        if self.head > octets / 2 {
            self.octets.drain(..self.head);
            self.head = 0;
        }
        self.octets.extend_from_slice(datagram);
        self.datagrams.push_back((from, datagram.len()));
        true
    }

    /// Hands the oldest datagram over.
    fn pop(&mut self, handle: impl FnOnce(SocketAddr, &[u8])) {
        let Some((from, len)) = self.datagrams.pop_front() else { return };
        handle(from, &self.octets[self.head..self.head + len]);
        self.head += len;
        if self.datagrams.is_empty() {
            self.octets.clear();
            self.head = 0;
            // What one flood has taken is given back.
            self.octets.shrink_to(64 << 10);
        }
    }
}

/// Queues of datagrams, and the order in which they are served.
#[derive(Debug, Default)]
pub struct Intake {
    queues: HashMap<Class, Queue>,
    /// Queues that were empty until now, and those that have been served since.
    fresh: VecDeque<Class>,
    turns: VecDeque<Class>,
    /// Queues that are passed over.
    held: Vec<Class>,
    /// Datagrams lost of associations that are over.
    lost_before: u64,
}

fn quantum(class: Class) -> i64 {
    (if class.is_some() { OF_PEER } else { OF_STRANGERS }).cast_signed()
}

impl Intake {
    /// Puts a datagram into its queue, each of its messages (6.6) by itself: thousands in one are not to be served in one go.
    /// If the queue is full, the rest is dropped and counted once.
    pub fn push(&mut self, class: Class, from: SocketAddr, datagram: &[u8]) {
        let most = if class.is_some() { MOST_OF_PEER } else { MOST_OF_STRANGERS };
        let queue = self.queues.entry(class).or_default();
        let mut messages = pfcp::messages(datagram);
        while messages.next().is_some_and(|message| queue.push(from, message, most)) {}
        if !queue.is_listed {
            (queue.is_listed, queue.left) = (true, quantum(class));
            self.fresh.push_back(class);
        }
    }

    /// Whether a datagram waits whose queue is not held.
    pub fn is_ready(&self) -> bool {
        let mut listed = self.fresh.iter().chain(&self.turns);
        listed.any(|class| self.queues.get(class).is_some_and(|queue| !queue.datagrams.is_empty()))
    }

    /// Whether a queue that is held may be served again: `may` tells.
    pub(crate) fn may_resume(&self, mut may: impl FnMut(Class) -> bool) -> bool {
        self.held.iter().any(|class| may(*class))
    }

    /// Has those queues served again that were held and may be.
    pub fn resume(&mut self, mut may: impl FnMut(Class) -> bool) {
        let turns = &mut self.turns;
        self.held.retain(|class| {
            let stays = !may(*class);
            if !stays {
                turns.push_back(*class);
            }
            stays
        });
    }

    /// Datagrams that wait.
    pub fn waiting(&self) -> usize {
        self.queues.values().map(|queue| queue.datagrams.len()).sum()
    }

    /// Hands datagrams to `handle`, each queue's in its turn, until none waits or `budget` nanoseconds by `now` are over.
    pub fn serve(
        &mut self,
        budget: u64,
        mut now: impl FnMut() -> u64,
        mut handle: impl FnMut(Class, SocketAddr, &[u8]) -> Next,
    ) {
        let begin = now();
        let mut at = begin;
        while at - begin < budget {
            let is_fresh = !self.fresh.is_empty();
            let list = if is_fresh { &mut self.fresh } else { &mut self.turns };
            let Some(class) = list.front().copied() else { return };
            let Some(queue) = self.queues.get_mut(&class) else {
                list.pop_front();
                continue;
            };
            if queue.datagrams.is_empty() {
                list.pop_front();
                if is_fresh {
                    // Once more behind the others: who empties its queue again and again is not always the first.
                    self.turns.push_back(class);
                } else {
                    (queue.is_listed, queue.left) = (false, 0);
                }
                continue;
            }
            if queue.left <= 0 {
                queue.left += quantum(class);
                list.pop_front();
                self.turns.push_back(class);
                continue;
            }
            let mut next = Next::Serve;
            queue.pop(|from, datagram| next = handle(class, from, datagram));
            let then = now().max(at);
            queue.left -= (then - at).cast_signed();
            at = then;
            if next == Next::Hold {
                list.pop_front();
                self.held.push(class);
            }
        }
    }

    /// So many nanoseconds were spent for a sender of this class elsewhere.
    pub fn charge(&mut self, class: Class, ns: u64) {
        if let Some(queue) = self.queues.get_mut(&class).filter(|queue| queue.is_listed) {
            queue.left -= ns.min(quantum(class).cast_unsigned()).cast_signed();
        }
    }

    /// Forgets the queues of associations that `is_there` does not know, once they are empty.
    pub fn retain(&mut self, is_there: impl Fn(u32) -> bool) {
        let lost_before = &mut self.lost_before;
        self.queues.retain(|class, queue| {
            let stays = class.is_none_or(&is_there) || queue.is_listed;
            *lost_before += if stays { 0 } else { queue.lost };
            stays
        });
    }

    /// Datagrams lost as a queue was full: an association's, or all strangers'.
    pub fn lost(&self, class: Class) -> u64 {
        self.queues.get(&class).map_or(0, |queue| queue.lost)
    }

    /// The same of all associations, those that are over too.
    pub(crate) fn lost_of_peers(&self) -> u64 {
        let peers = self.queues.iter().filter(|(class, _)| class.is_some());
        self.lost_before + peers.map(|(_, queue)| queue.lost).sum::<u64>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FROM: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 8805);

    /// Serves for `budget` nanoseconds, each datagram costing as many as its octets say; the classes served, in order.
    fn served(intake: &mut Intake, budget: u64) -> Vec<Class> {
        let (clock, mut order) = (std::cell::Cell::new(0), Vec::new());
        intake.serve(
            budget,
            || clock.get(),
            |class, _, datagram| {
                clock.set(clock.get() + u64::from(u32::from_be_bytes(datagram[..4].try_into().expect("a cost"))));
                order.push(class);
                Next::Serve
            },
        );
        order
    }

    fn push(intake: &mut Intake, class: Class, cost: u32, count: usize) {
        (0..count).for_each(|_| intake.push(class, FROM, &cost.to_be_bytes()));
    }

    #[test]
    fn a_quiet_peer_is_served_before_a_flood() {
        let mut intake = Intake::default();
        push(&mut intake, Some(1), 10_000, 1500);
        push(&mut intake, None, 10_000, 200);
        served(&mut intake, 1_000_000);
        push(&mut intake, Some(2), 10_000, 1);
        assert_eq!(served(&mut intake, 1_000_000)[0], Some(2));
        // Again and again: at the latest after one turn of each other.
        for _ in 0..20 {
            push(&mut intake, Some(2), 10_000, 1);
            let order = served(&mut intake, 1_000_000);
            let at = order.iter().position(|class| *class == Some(2)).expect("served");
            assert!(at <= 27, "{at}");
        }
    }

    #[test]
    fn time_is_shared_whatever_a_datagram_costs() {
        let mut intake = Intake::default();
        push(&mut intake, Some(1), 1_000, 2000);
        push(&mut intake, Some(2), 100_000, 2000);
        push(&mut intake, None, 5_000, 250);
        let order = served(&mut intake, 4_000_000);
        let time = |class: Class, cost: usize| order.iter().filter(|other| **other == class).count() * cost;
        let [one, two, strangers] = [time(Some(1), 1_000), time(Some(2), 100_000), time(None, 5_000)];
        assert!(one.abs_diff(two) <= 300_000, "{one} {two}");
        assert!(strangers * 3 < one, "{strangers} {one}");
    }

    #[test]
    fn queues_are_bounded_and_count_what_is_lost() {
        let mut intake = Intake::default();
        push(&mut intake, Some(1), 1, 3000);
        push(&mut intake, None, 1, 300);
        intake.push(Some(2), FROM, &[0; 60_000]);
        for _ in 0..100 {
            intake.push(Some(2), FROM, &[0; 60_000]);
        }
        assert_eq!((intake.lost(Some(1)), intake.lost(None), intake.lost(Some(2))), (952, 44, 84));
        assert_eq!((intake.waiting(), intake.lost_of_peers()), (2048 + 256 + 17, 952 + 84));
        served(&mut intake, u64::MAX);
        assert!(!intake.is_ready() && intake.waiting() == 0);
        intake.retain(|_| false);
        assert_eq!((intake.queues.len(), intake.lost_of_peers()), (1, 952 + 84));
    }

    #[test]
    fn messages_of_one_datagram_are_served_one_by_one() {
        let heartbeat =
            |follow_on: bool| [0x20 | u8::from(follow_on) << 2, 1, 0, 12, 0, 0, 7, 0, 0, 96, 0, 4, 1, 2, 3, 4];
        let bundle = |count: usize| (1..=count).flat_map(|n| heartbeat(n < count)).collect::<Vec<u8>>();
        let mut intake = Intake::default();
        intake.push(Some(1), FROM, &bundle(3));
        intake.push(Some(2), FROM, &bundle(4000));
        assert_eq!((intake.waiting(), intake.lost(Some(1)), intake.lost(Some(2))), (3 + 2048, 0, 1));
        let (clock, mut lengths) = (std::cell::Cell::new(0), Vec::new());
        intake.serve(
            5000,
            || clock.get(),
            |_, _, message| {
                clock.set(clock.get() + 1000);
                lengths.push(message.len());
                Next::Serve
            },
        );
        assert_eq!(lengths, [16; 5], "until its time is over");
    }

    #[test]
    fn time_spent_elsewhere_counts() {
        let mut intake = Intake::default();
        push(&mut intake, Some(1), 1_000, 1000);
        push(&mut intake, Some(2), 1_000, 1000);
        for _ in 0..10 {
            served(&mut intake, 50_000);
            intake.charge(Some(1), 100_000);
        }
        let left = |class: Class| intake.queues[&class].datagrams.len();
        assert!(left(Some(1)) > left(Some(2)) + 200, "{} {}", left(Some(1)), left(Some(2)));
    }

    #[test]
    fn a_queue_that_is_held_is_passed_over() {
        let mut intake = Intake::default();
        push(&mut intake, Some(1), 0, 3);
        push(&mut intake, Some(2), 0, 2);
        let (clock, mut order) = (std::cell::Cell::new(0), Vec::new());
        let mut serve = |intake: &mut Intake| {
            order.clear();
            let now = || clock.replace(clock.get() + 1);
            intake.serve(1000, now, |class, _, _| {
                order.push(class);
                if class == Some(1) { Next::Hold } else { Next::Serve }
            });
            order.clone()
        };
        assert_eq!(serve(&mut intake), [Some(1), Some(2), Some(2)]);
        push(&mut intake, Some(1), 0, 1);
        assert_eq!(serve(&mut intake), [], "held, whatever comes");
        assert!(!intake.is_ready() && intake.waiting() == 3);
        intake.resume(|_| false);
        assert!(!intake.is_ready());
        intake.resume(|class| class == Some(1));
        assert!(intake.is_ready());
        assert_eq!(serve(&mut intake), [Some(1)]);
    }
}
