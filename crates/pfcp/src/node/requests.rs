//! Requests of ours that wait for a response: sent again every T1, N1 times in all (6.4).

use super::Time;
use crate::header::SEQUENCE_MASK;
use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher as _, RandomState};
use std::net::SocketAddr;
use std::time::Duration;

/// Sequence numbers in an order that cannot be predicted: a secret permutation of all 2^24, so that none is used again
/// soon. A sender that forges a response has to guess the number.
#[derive(Debug, Default)]
struct Sequences {
    counter: u32,
    secret: RandomState,
}

impl Sequences {
    fn next(&mut self) -> u32 {
        let counter = self.counter;
        self.counter = (counter + 1) & SEQUENCE_MASK;
        // A Feistel network of four rounds over two halves of 12 bits.
        (0..4u32).fold(counter, |number, round| {
            let (left, right) = (number >> 12, number & 0xfff);
            let mixed = self.secret.hash_one((round, right)) as u32 & 0xfff;
            right << 12 | (left ^ mixed)
        })
    }
}

/// A request of ours.
#[derive(Debug)]
pub(super) struct Request<P> {
    pub to: SocketAddr,
    pub message_type: u8,
    /// What the sender wants with it.
    pub purpose: P,
    pub octets: Vec<u8>,
    tries: u8,
    /// When it is due again; an older entry in the queue means nothing.
    due: Time,
}

/// All of them. As T1 is the same for all, they are due in the order they were sent: a queue, no heap.
#[derive(Debug)]
pub(super) struct Requests<P> {
    waiting: HashMap<u32, Request<P>>,
    due: VecDeque<(Time, u32)>,
    sequences: Sequences,
    t1: Duration,
    n1: u8,
    max: usize,
    /// Buffers to be used again.
    spare: Vec<Vec<u8>>,
}

/// What is to be done about a request that is due.
#[derive(Debug)]
pub(super) enum Due<P> {
    /// Send it again.
    Again { sequence: u32 },
    /// Give it up.
    Over(Request<P>),
}

impl<P> Requests<P> {
    pub fn new(t1: Duration, n1: u8, max: usize) -> Requests<P> {
        let (waiting, due, spare) = (HashMap::new(), VecDeque::new(), Vec::new());
        // Sequence numbers have 24 bits; half of them free leaves the next one near.
        Requests { waiting, due, sequences: Sequences::default(), t1, n1, max: max.min(1 << 23), spare }
    }

    /// A sequence number nothing waits for, and a buffer; `None` if too many are waiting.
    pub fn open(&mut self) -> Option<(u32, Vec<u8>)> {
        if self.waiting.len() >= self.max {
            return None;
        }
        let mut sequence = self.sequences.next();
        while self.waiting.contains_key(&sequence) {
            sequence = self.sequences.next();
        }
        let mut octets = self.spare.pop().unwrap_or_default();
        octets.clear();
        Some((sequence, octets))
    }

    /// Waits for the response to a request just sent.
    pub fn wait(&mut self, sequence: u32, to: SocketAddr, octets: Vec<u8>, purpose: P, now: Time) {
        let (message_type, due) = (octets[1], now + self.t1);
        self.due.push_back((due, sequence));
        self.waiting.insert(sequence, Request { to, message_type, purpose, octets, tries: 1, due });
    }

    /// The request a response from there with this number and type answers; it no longer waits.
    pub fn answered(&mut self, from: SocketAddr, sequence: u32, message_type: u8) -> Option<Request<P>> {
        use crate::message::VersionNotSupportedResponse;
        let request = self.waiting.get(&sequence)?;
        let fits = message_type == request.message_type + 1 || message_type == VersionNotSupportedResponse::TYPE;
        if request.to.ip() != from.ip() || !fits {
            return None;
        }
        self.waiting.remove(&sequence)
    }

    /// The next request that is due by `now`.
    pub fn next_due(&mut self, now: Time) -> Option<Due<P>> {
        while let Some(&(due, sequence)) = self.due.front().filter(|(due, _)| *due <= now) {
            self.due.pop_front();
            let Some(request) = self.waiting.get_mut(&sequence).filter(|request| request.due == due) else { continue };
            if request.tries < self.n1 {
                request.tries += 1;
                request.due = now + self.t1;
                self.due.push_back((request.due, sequence));
                return Some(Due::Again { sequence });
            }
            return self.waiting.remove(&sequence).map(Due::Over);
        }
        None
    }

    /// Waits for a response no longer.
    pub fn cancel(&mut self, sequence: u32) {
        if let Some(request) = self.waiting.remove(&sequence) {
            self.recycle(request.octets);
        }
    }

    /// A request that waits.
    pub fn get(&self, sequence: u32) -> Option<&Request<P>> {
        self.waiting.get(&sequence)
    }

    /// When [`next_due`](Self::next_due) will have something, if nothing changes.
    pub fn due_at(&self) -> Option<Time> {
        self.due.front().map(|(due, _)| *due)
    }

    /// Takes a buffer back.
    pub fn recycle(&mut self, octets: Vec<u8>) {
        if self.spare.len() < 1024 {
            self.spare.push(octets);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_sent_n1_times_t1_apart() {
        let mut requests = Requests::new(Duration::from_secs(3), 3, 10);
        let peer = SocketAddr::from(([192, 0, 2, 1], 8805));
        let (sequence, mut octets) = requests.open().expect("room");
        octets.extend([0x20, 1, 0, 4]);
        requests.wait(sequence, peer, octets, "why", Time::ZERO);
        let mut sent_again = Vec::new();
        for second in 1..20 {
            match requests.next_due(Time::from_secs(second)) {
                Some(Due::Again { sequence: again }) => sent_again.push((second, again)),
                Some(Due::Over(request)) => {
                    assert_eq!((second, request.purpose), (9, "why"));
                    assert_eq!(sent_again, [(3, sequence), (6, sequence)]);
                    return;
                }
                None => {}
            }
        }
        panic!("never over");
    }

    #[test]
    fn sequence_numbers_are_a_secret_permutation() {
        let (mut one, mut other) = (Sequences::default(), Sequences::default());
        let numbers: Vec<u32> = (0..10_000).map(|_| one.next()).collect();
        let distinct: std::collections::HashSet<u32> = numbers.iter().copied().collect();
        assert_eq!(distinct.len(), numbers.len());
        assert!(numbers.iter().all(|number| *number <= SEQUENCE_MASK));
        let successors = numbers.windows(2).filter(|pair| pair[1].wrapping_sub(pair[0]) == 1).count();
        assert!(successors < 10, "{successors}");
        let equal = numbers.iter().filter(|number| other.next() == **number).count();
        assert!(equal < 10, "another node has another order: {equal}");
    }

    #[test]
    fn only_the_peer_asked_can_answer_and_only_with_the_fitting_message() {
        let mut requests = Requests::new(Duration::from_secs(3), 3, 10);
        let peer = SocketAddr::from(([192, 0, 2, 1], 8805));
        let (sequence, mut octets) = requests.open().expect("room");
        octets.extend([0x20, 50, 0, 4]);
        requests.wait(sequence, peer, octets, (), Time::ZERO);
        assert!(requests.answered(([192, 0, 2, 2], 8805).into(), sequence, 51).is_none());
        assert!(requests.answered(peer, sequence, 53).is_none());
        assert!(requests.answered(peer, sequence + 1, 51).is_none());
        assert!(requests.answered(peer, sequence, 51).is_some());
        assert!(requests.answered(peer, sequence, 51).is_none(), "once");
    }
}
