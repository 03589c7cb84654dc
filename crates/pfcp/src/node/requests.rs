//! Requests of ours that wait for a response: sent again every T1, N1 times in all (6.4).

use super::Time;
use crate::header::SEQUENCE_MASK;
use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::time::Duration;

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
    next_sequence: u32,
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
        Requests { waiting, due, next_sequence: 1, t1, n1, max: max.min(1 << 23), spare }
    }

    /// The next sequence number, if nothing waits for it.
    pub fn begin_at(&mut self, sequence: u32) {
        self.next_sequence = sequence & SEQUENCE_MASK;
    }

    /// A sequence number nothing waits for, and a buffer; `None` if too many are waiting.
    pub fn open(&mut self) -> Option<(u32, Vec<u8>)> {
        if self.waiting.len() >= self.max {
            return None;
        }
        while self.waiting.contains_key(&self.next_sequence) {
            self.next_sequence = (self.next_sequence + 1) & SEQUENCE_MASK;
        }
        let sequence = self.next_sequence;
        self.next_sequence = (sequence + 1) & SEQUENCE_MASK;
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
