//! Responses kept for requests that come again (6.4): a request is carried out once, however often it is received.

use super::Time;
use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::hash::{DefaultHasher, Hasher as _};
use std::net::SocketAddr;
use std::time::Duration;

/// What makes a request the same as another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct RequestKey {
    pub from: SocketAddr,
    pub sequence: u32,
    pub message_type: u8,
    /// Of its octets: a peer that has restarted counts anew, and is not to be given the answer to what it asked before.
    pub digest: u64,
}

impl RequestKey {
    /// The key of a request from its octets.
    pub fn new(from: SocketAddr, sequence: u32, message_type: u8, octets: &[u8]) -> RequestKey {
        let mut hasher = DefaultHasher::new();
        hasher.write(octets);
        RequestKey { from, sequence, message_type, digest: hasher.finish() }
    }
}

/// The responses to one peer, bounded in time and number; all work is O(1).
#[derive(Debug)]
pub(super) struct Responses {
    /// `None` while the request is being carried out.
    kept: HashMap<RequestKey, Option<Vec<u8>>>,
    /// The keys in the order they came, with the time they go.
    order: VecDeque<(Time, RequestKey)>,
    /// Buffers to be used again.
    spare: Vec<Vec<u8>>,
    keep: Duration,
    max: usize,
}

/// What is known of a request.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Seen<'a> {
    /// Nothing.
    New,
    /// It is being carried out.
    Waiting,
    /// It was answered, with this.
    Answered(&'a [u8]),
}

impl Responses {
    pub fn new(keep: Duration, max: usize) -> Responses {
        Responses { kept: HashMap::new(), order: VecDeque::new(), spare: Vec::new(), keep, max: max.max(1) }
    }

    /// Notes a request, and says whether it has come before.
    pub fn note(&mut self, key: RequestKey, now: Time) -> Seen<'_> {
        self.forget(now);
        match self.kept.entry(key) {
            Entry::Occupied(entry) => match entry.into_mut() {
                Some(octets) => Seen::Answered(octets),
                None => Seen::Waiting,
            },
            Entry::Vacant(entry) => {
                entry.insert(None);
                self.order.push_back((now + self.keep, key));
                Seen::New
            }
        }
    }

    /// Keeps the response to a request.
    pub fn keep(&mut self, key: RequestKey, response: &[u8], now: Time) {
        let mut octets = self.spare.pop().unwrap_or_default();
        octets.clear();
        octets.extend(response);
        // Not noted here: it was when the peer had no association yet, or was forgotten meanwhile.
        if self.kept.insert(key, Some(octets)).is_none() {
            self.order.push_back((now + self.keep, key));
        }
    }

    /// Lets go of what is too old, and of the oldest if there are too many.
    fn forget(&mut self, now: Time) {
        while let Some((until, key)) = self.order.front() {
            if *until > now && self.order.len() < self.max {
                break;
            }
            self.spare.extend(self.kept.remove(key).flatten());
            self.order.pop_front();
        }
        // A burst's buffers need not stay for ever.
        self.spare.truncate(64.max(self.order.len()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(sequence: u32) -> RequestKey {
        RequestKey { from: ([127, 0, 0, 1], 8805).into(), sequence, message_type: 50, digest: 0 }
    }

    #[test]
    fn a_request_is_new_once() {
        let mut responses = Responses::new(Duration::from_secs(10), 100);
        let at = Time::from_secs;
        assert_eq!(responses.note(key(1), at(0)), Seen::New);
        assert_eq!(responses.note(key(1), at(1)), Seen::Waiting);
        responses.keep(key(1), b"done", at(1));
        assert_eq!(responses.note(key(1), at(9)), Seen::Answered(b"done"));
        assert_eq!(responses.note(key(1), at(10)), Seen::New, "too long ago");
    }

    #[test]
    fn no_more_are_kept_than_allowed() {
        let mut responses = Responses::new(Duration::from_secs(10), 3);
        for sequence in 0..5 {
            assert_eq!(responses.note(key(sequence), Time::ZERO), Seen::New);
            responses.keep(key(sequence), &[0; 8], Time::ZERO);
        }
        assert_eq!((responses.kept.len(), responses.order.len()), (3, 3));
        assert_eq!(responses.note(key(4), Time::ZERO), Seen::Answered(&[0; 8]));
    }
}
