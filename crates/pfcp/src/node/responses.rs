//! Responses kept for requests that come again (6.4): a request is carried out once, however often it is received.

use super::Time;
use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher as _, BuildHasherDefault, DefaultHasher, Hash as _, Hasher, RandomState};
use std::net::SocketAddr;
use std::ops::Range;
use std::time::Duration;

/// What digests of requests depend on, so that nobody can make two of one digest. A process that goes on for another has
/// that one's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Secret(pub [u64; 2]);

impl Secret {
    /// One that nobody knows.
    pub fn random() -> Self {
        Self([0u64, 1].map(|n| RandomState::new().hash_one(n)))
    }

    fn hasher(&self) -> DefaultHasher {
        let mut hasher = DefaultHasher::new();
        self.0.hash(&mut hasher);
        hasher
    }
}

/// What makes a request the same as another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RequestKey {
    pub from: SocketAddr,
    pub sequence: u32,
    pub message_type: u8,
    /// Of all that and its octets: a peer that has restarted counts anew, and is not to be given the answer to what it
    /// asked before.
    pub digest: u64,
}

impl RequestKey {
    /// The key of a request from its octets, with a secret of ours.
    pub fn new(secret: &Secret, from: SocketAddr, sequence: u32, message_type: u8, octets: &[u8]) -> RequestKey {
        let mut hasher = secret.hasher();
        hasher.write(octets);
        from.hash(&mut hasher);
        RequestKey { from, sequence, message_type, digest: hasher.finish() }
    }
}

/// A digest is a hash already.
#[derive(Debug, Default)]
struct Digested(u64);

impl Hasher for Digested {
    fn write_u64(&mut self, digest: u64) {
        self.0 = digest;
    }

    fn write(&mut self, octets: &[u8]) {
        octets.iter().for_each(|octet| self.0 = self.0.rotate_left(8) ^ u64::from(*octet));
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// A request that has come.
#[derive(Debug)]
struct Request {
    key: RequestKey,
    /// When it goes.
    until: Time,
    /// Where in its chunk the response is; `None` while the request is being carried out.
    response: Option<Range<usize>>,
}

/// Requests that came one after the other, and the octets of the responses to them.
#[derive(Debug, Default)]
struct Chunk {
    requests: Vec<Request>,
    octets: Vec<u8>,
}

/// Requests of a chunk.
const CHUNK: u64 = 256;

/// The responses to one peer, bounded in time and number; all work is O(1). They are kept in chunks, which come and go
/// whole: nothing is moved when there are many.
#[derive(Debug)]
pub(super) struct Responses {
    /// The number of the request with a digest: numbers are given in the order they came.
    places: HashMap<u64, u64, BuildHasherDefault<Digested>>,
    chunks: VecDeque<Chunk>,
    /// The oldest request kept, which the first chunk has, and the next to come.
    numbers: Range<u64>,
    /// A chunk to be used again.
    spare: Chunk,
    keep: Duration,
    max: u64,
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
        Responses {
            places: HashMap::default(),
            chunks: VecDeque::new(),
            numbers: 0..0,
            spare: Chunk::default(),
            keep,
            max: max.max(1) as u64,
        }
    }

    /// Notes a request, and says whether it has come before.
    pub fn note(&mut self, key: RequestKey, now: Time) -> Seen<'_> {
        self.forget(now);
        let Some((chunk, at)) = self.find(&key) else {
            self.add(key, now);
            return Seen::New;
        };
        let Chunk { requests, octets } = &self.chunks[chunk];
        match &requests[at].response {
            Some(range) => Seen::Answered(&octets[range.clone()]),
            None => Seen::Waiting,
        }
    }

    /// Keeps the response to a request.
    pub fn keep(&mut self, key: RequestKey, response: &[u8], now: Time) {
        let (chunk, at) = self.find(&key).unwrap_or_else(|| {
            // Not noted here: it was when the peer had no association yet, or was forgotten meanwhile.
            self.forget(now);
            self.add(key, now)
        });
        let Chunk { requests, octets } = &mut self.chunks[chunk];
        let start = octets.len();
        octets.extend(response);
        requests[at].response = Some(start..octets.len());
    }

    /// The requests that were answered and the responses, oldest first, and until when each is kept.
    pub fn answered(&self) -> impl Iterator<Item = (RequestKey, Time, &[u8])> {
        self.chunks.iter().flat_map(|chunk| {
            chunk.requests.iter().filter_map(|request| {
                let range = request.response.clone()?;
                Some((request.key, request.until, chunk.octets.get(range)?))
            })
        })
    }

    /// Takes over what another has, which is then asked no more.
    pub(crate) fn absorb(&mut self, other: &Responses, now: Time) {
        for number in other.numbers.clone() {
            let (chunk, at) = other.place(number);
            let Chunk { requests, octets } = &other.chunks[chunk];
            let Request { key, until, response } = &requests[at];
            if *until <= now || other.places.get(&key.digest) != Some(&number) {
                continue;
            }
            match response {
                Some(range) => self.keep(*key, &octets[range.clone()], now),
                None => drop(self.note(*key, now)),
            }
        }
    }

    /// Forgets a request that was not answered: it is carried out when it comes again.
    pub fn withdraw(&mut self, key: &RequestKey) {
        if self.find(key).is_some() {
            self.places.remove(&key.digest);
        }
    }

    /// Where a request is: its chunk, and its place there.
    fn find(&self, key: &RequestKey) -> Option<(usize, usize)> {
        let (chunk, at) = self.place(*self.places.get(&key.digest)?);
        (self.chunks[chunk].requests[at].key == *key).then_some((chunk, at))
    }

    fn place(&self, number: u64) -> (usize, usize) {
        // A chunk's numbers begin at a multiple of its length, and as many requests are kept as fit memory.
        ((number / CHUNK - self.numbers.start / CHUNK) as usize, (number % CHUNK) as usize)
    }

    fn add(&mut self, key: RequestKey, now: Time) -> (usize, usize) {
        let number = self.numbers.end;
        let (chunk, at) = self.place(number);
        if chunk == self.chunks.len() {
            self.chunks.push_back(std::mem::take(&mut self.spare));
        }
        self.chunks[chunk].requests.push(Request { key, until: now + self.keep, response: None });
        self.places.insert(key.digest, number);
        self.numbers.end += 1;
        (chunk, at)
    }

    /// Lets go of what is too old, and of the oldest if there are too many.
    fn forget(&mut self, now: Time) {
        while !self.numbers.is_empty() {
            let oldest = self.numbers.start;
            let (_, at) = self.place(oldest);
            let Request { key, until, .. } = &self.chunks[0].requests[at];
            if *until > now && self.numbers.end - oldest < self.max {
                break;
            }
            if self.places.get(&key.digest) == Some(&oldest) {
                self.places.remove(&key.digest);
            }
            self.numbers.start += 1;
            if self.numbers.start.is_multiple_of(CHUNK) {
                let mut chunk = self.chunks.pop_front().unwrap_or_default();
                chunk.requests.clear();
                chunk.octets.clear();
                self.spare = chunk;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(sequence: u32) -> RequestKey {
        RequestKey {
            from: ([127, 0, 0, 1], 8805).into(),
            sequence,
            message_type: 50,
            digest: u64::from(sequence).wrapping_mul(0x9e37_79b9_7f4a_7c15),
        }
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
        assert_eq!((responses.places.len(), responses.numbers.clone()), (3, 2..5));
        assert_eq!(responses.note(key(4), Time::ZERO), Seen::Answered(&[0; 8]));
    }

    #[test]
    fn each_has_its_own_response_over_many_chunks() {
        let mut responses = Responses::new(Duration::from_secs(10), 3 * CHUNK as usize);
        for sequence in 0..10 * CHUNK as u32 {
            // 250 a second: there are too many before they are too old.
            let now = Time::from_millis(u64::from(sequence) * 4);
            assert_eq!(responses.note(key(sequence), now), Seen::New);
            responses.keep(key(sequence), &sequence.to_be_bytes(), now);
            let before = sequence.saturating_sub(2 * CHUNK as u32);
            assert_eq!(responses.note(key(before), now), Seen::Answered(&before.to_be_bytes()));
        }
        assert!(responses.chunks.len() <= 4, "{}", responses.chunks.len());
        // Answered when it was forgotten: known from now on.
        responses.keep(key(0), b"late", Time::from_secs(11));
        assert_eq!(responses.note(key(0), Time::from_secs(11)), Seen::Answered(b"late"));
        assert_eq!(responses.note(key(1), Time::from_secs(60)), Seen::New);
        assert_eq!((responses.places.len(), responses.chunks.len()), (1, 1));
    }

    #[test]
    fn others_with_the_same_digest_are_others() {
        let mut responses = Responses::new(Duration::from_secs(10), 100);
        let other = RequestKey { sequence: 2, ..key(1) };
        assert_eq!(responses.note(key(1), Time::ZERO), Seen::New);
        responses.keep(key(1), b"one", Time::ZERO);
        assert_eq!(responses.note(other, Time::ZERO), Seen::New);
        responses.keep(other, b"two", Time::ZERO);
        assert_eq!(responses.note(other, Time::ZERO), Seen::Answered(b"two"));
    }
}
