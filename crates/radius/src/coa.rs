//! Dynamic authorization server (RFC 5176): CoA and Disconnect requests of known clients, with a replay window.
//!
//! A request is known again by its sender, code, identifier and authenticator (a digest over all of it and the secret): within
//! twice the window a repetition is not carried out, but answered as before.

use crate::dictionary::number;
use crate::packet::{Attribute, Code, Malformed, Packet, Secret};
use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// Error-Cause (RFC 5176 clause 3.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names of the RFC")]
pub enum ErrorCause {
    ResidualSessionContextRemoved = 201,
    UnsupportedAttribute = 401,
    MissingAttribute = 402,
    NasIdentificationMismatch = 403,
    InvalidRequest = 404,
    UnsupportedService = 405,
    InvalidAttributeValue = 407,
    AdministrativelyProhibited = 501,
    SessionContextNotFound = 503,
    SessionContextNotRemovable = 504,
    ResourcesUnavailable = 506,
    MultipleSessionSelectionUnsupported = 508,
}

/// Reason for which a datagram gets no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Dropped {
    /// No client is configured with the sender's address.
    #[error("CoA request of an unknown client")]
    UnknownClient,
    /// The packet.
    #[error(transparent)]
    Malformed(#[from] Malformed),
    /// The code is neither CoA-Request (43) nor Disconnect-Request (40).
    #[error("not a CoA or Disconnect request")]
    NotARequest,
    /// Event-Timestamp is absent, too old or too new (RFC 5176, 6.3).
    #[error("CoA request whose Event-Timestamp is absent or outside the window: are both clocks right?")]
    OutsideWindow,
    /// The same request is being carried out; its answer follows.
    #[error("CoA request that is being worked on already")]
    InProgress,
}

/// Names a request until it is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ticket(u64);

/// Result of a received datagram.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Received {
    /// A new request; answer it with [`Server::answer`].
    Request(Ticket, Packet),
    /// A repetition of a request that was answered: send this.
    Again(Vec<u8>),
}

/// By what a request is known again: address of the sender, code, identifier and authenticator. Its port is left out: whoever
/// replays a request chooses it.
type Key = (IpAddr, u8, u8, [u8; 16]);

/// A request that was answered: by what it is known again, where it came from, the answer, and when it came.
pub type Answered = (IpAddr, u8, u8, [u8; 16], SocketAddr, Vec<u8>, u64);

fn key_of(from: SocketAddr, packet: &Packet) -> Key {
    (from.ip(), packet.code as u8, packet.id, packet.authenticator)
}

struct Known {
    key: Key,
    from: SocketAddr,
    /// The request: until it is answered with all of its attributes, then without.
    packet: Packet,
    answer: Option<Vec<u8>>,
    /// When it came, by the clock that is not set back, in seconds.
    at: u64,
}

/// The server. Times are in seconds.
pub struct Server {
    clients: HashMap<IpAddr, Secret>,
    window: u64,
    needs_timestamp: bool,
    /// In order of their tickets, which ascend by one.
    known: VecDeque<Known>,
    tickets: HashMap<Key, u64>,
    most: usize,
    /// The ticket of the next request.
    next: u64,
}

impl Server {
    /// A server for clients at these addresses. Requests whose Event-Timestamp is more than `window` away are dropped
    /// (RFC 5176 clause 6.3; 300 s there); those without one as well, if `needs_timestamp`. At most `most` requests are
    /// remembered.
    pub fn new(
        clients: impl IntoIterator<Item = (IpAddr, Secret)>,
        window: Duration,
        needs_timestamp: bool,
        most: usize,
    ) -> Self {
        Self {
            clients: clients.into_iter().collect(),
            window: window.as_secs(),
            needs_timestamp,
            known: VecDeque::new(),
            tickets: HashMap::new(),
            most: most.max(1),
            next: 1,
        }
    }

    /// Takes requests of these clients from now on. Requests of others that are being carried out get
    /// no answer.
    pub fn set_clients(&mut self, clients: impl IntoIterator<Item = (IpAddr, Secret)>, needs_timestamp: bool) {
        self.clients = clients.into_iter().collect();
        self.needs_timestamp = needs_timestamp;
    }

    /// Takes a datagram. `now` is the wall clock, since 1970; `steady` is one that is not set, by which requests are remembered.
    pub fn receive(&mut self, from: SocketAddr, octets: &[u8], now: u64, steady: u64) -> Result<Received, Dropped> {
        let secret = self.clients.get(&from.ip()).ok_or(Dropped::UnknownClient)?;
        let packet = Packet::read_request(octets, secret)?;
        if !matches!(packet.code, Code::CoaRequest | Code::DisconnectRequest) {
            return Err(Dropped::NotARequest);
        }
        let stamp = packet.get(number::EVENT_TIMESTAMP).and_then(Attribute::to_integer);
        match stamp {
            Some(stamp) if u64::from(stamp).abs_diff(now) > self.window => return Err(Dropped::OutsideWindow),
            None if self.needs_timestamp => return Err(Dropped::OutsideWindow),
            _ => {}
        }
        // A request stays known as long as its time stamp is valid, so none is carried out twice.
        let window = self.window * 2;
        while self.known.front().is_some_and(|known| known.at + window < steady && known.answer.is_some()) {
            self.forget();
        }
        let key = key_of(from, &packet);
        if let Some(known) = self.tickets.get(&key).and_then(|ticket| self.at(Ticket(*ticket))) {
            return self.known[known].answer.clone().map(Received::Again).ok_or(Dropped::InProgress);
        }
        if self.known.len() >= self.most {
            self.forget();
        }
        let ticket = self.next;
        self.next += 1;
        self.tickets.insert(key, ticket);
        self.known.push_back(Known { key, from, packet: packet.clone(), answer: None, at: steady });
        Ok(Received::Request(Ticket(ticket), packet))
    }

    /// Requests that were answered and are remembered, the oldest first.
    pub fn answered(&self) -> impl Iterator<Item = Answered> {
        self.known.iter().filter_map(|known| {
            let (ip, code, id, authenticator) = known.key;
            Some((ip, code, id, authenticator, known.from, known.answer.clone()?, known.at))
        })
    }

    /// Remembers requests that another process has answered, before any of its own. What cannot be one is left out.
    pub fn remember(&mut self, answered: impl IntoIterator<Item = Answered>) {
        for (ip, code, id, authenticator, from, answer, at) in answered {
            let key = (ip, code, id, authenticator);
            let Some(code) = Code::of(code).filter(|_| self.known.len() < self.most) else { continue };
            self.tickets.insert(key, self.next);
            self.next += 1;
            let packet = Packet { code, id, authenticator, attributes: Vec::new() };
            self.known.push_back(Known { key, from, packet, answer: Some(answer), at });
        }
    }

    /// Forgets the oldest request.
    fn forget(&mut self) {
        if let Some(known) = self.known.pop_front() {
            self.tickets.remove(&known.key);
        }
    }

    /// Where a request is among those that are known.
    fn at(&self, ticket: Ticket) -> Option<usize> {
        let first = self.next - self.known.len() as u64;
        let at = usize::try_from(ticket.0.checked_sub(first)?).ok()?;
        (at < self.known.len()).then_some(at)
    }

    /// The answer to a request, and where it goes: an ACK, or a NAK with the cause. `None` if the request is forgotten.
    pub fn answer(&mut self, ticket: Ticket, result: Result<(), ErrorCause>) -> Option<(SocketAddr, Vec<u8>)> {
        let at = self.at(ticket)?;
        let known = self.known.get_mut(at)?;
        if let Some(answer) = &known.answer {
            return Some((known.from, answer.clone()));
        }
        let secret = self.clients.get(&known.from.ip())?;
        let code = match (known.packet.code, result) {
            (Code::CoaRequest, Ok(())) => Code::CoaAck,
            (Code::CoaRequest, Err(_)) => Code::CoaNak,
            (_, Ok(())) => Code::DisconnectAck,
            (_, Err(_)) => Code::DisconnectNak,
        };
        let cause = result.err().map(|cause| Attribute::integer(number::ERROR_CAUSE, cause as u32));
        // State and Proxy-State come back as they were sent (RFC 5176 clauses 3.1 and 3.3).
        let echoed = known.packet.attributes.iter().filter(|a| a.vendor == 0 && [number::STATE, 33].contains(&a.code));
        let attributes = cause.into_iter().chain(echoed.cloned()).collect();
        let answer = Packet { code, id: known.packet.id, authenticator: [0; 16], attributes };
        let octets = answer.response(&known.packet.authenticator, secret).ok()?;
        known.answer = Some(octets.clone());
        known.packet.attributes = Vec::new();
        Some((known.from, octets))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLIENT: ([u8; 4], u16) = ([192, 0, 2, 1], 4000);

    fn request(secret: &Secret, stamp: Option<u32>) -> Vec<u8> {
        let stamp = stamp.map(|at| Attribute::integer(number::EVENT_TIMESTAMP, at));
        let session = Attribute::octets(number::ACCT_SESSION_ID, "s1");
        let attributes = stamp.into_iter().chain([session, Attribute::octets(33, "proxy")]).collect();
        let packet = Packet { code: Code::DisconnectRequest, id: 3, authenticator: [0; 16], attributes };
        packet.request(secret).unwrap()
    }

    #[test]
    fn another_process_answers_repetitions_as_before() {
        let secret = Secret(b"secret".to_vec());
        let new = || Server::new([(IpAddr::from(CLIENT.0), secret.clone())], Duration::from_secs(300), false, 10);
        let (mut old, mut other, octets) = (new(), new(), request(&secret, None));
        let Ok(Received::Request(ticket, _)) = old.receive(CLIENT.into(), &octets, 1000, 5) else { panic!("new") };
        let (_, answer) = old.answer(ticket, Ok(())).expect("known");
        other.remember(old.answered());
        assert_eq!(other.receive(CLIENT.into(), &octets, 1001, 6), Ok(Received::Again(answer)));
        let Ok(Received::Request(ticket, _)) = other.receive(CLIENT.into(), &request(&secret, Some(1001)), 1001, 6)
        else {
            panic!("another request")
        };
        assert!(other.answer(ticket, Ok(())).is_some());
    }

    #[test]
    fn repeated_request_is_carried_out_once() {
        let (secret, from) = (Secret(b"s".to_vec()), SocketAddr::from(CLIENT));
        let mut server = Server::new([(from.ip(), secret.clone())], Duration::from_secs(300), true, 100);
        let octets = request(&secret, Some(10_000));
        let Ok(Received::Request(ticket, packet)) = server.receive(from, &octets, 10_100, 77) else { panic!("new") };
        assert_eq!(packet.get(number::ACCT_SESSION_ID).and_then(Attribute::to_text), Some("s1"));
        assert_eq!(server.receive(from, &octets, 10_101, 77), Err(Dropped::InProgress));
        let (to, answer) = server.answer(ticket, Err(ErrorCause::SessionContextNotFound)).expect("known");
        assert_eq!(to, from);
        let nak = Packet::read_response(&answer, &packet.authenticator, &secret).expect("signed");
        assert_eq!(nak.code, Code::DisconnectNak);
        assert_eq!(nak.get(number::ERROR_CAUSE).and_then(Attribute::to_integer), Some(503));
        assert_eq!(nak.get(33).and_then(Attribute::to_text), Some("proxy"));
        assert_eq!(server.receive(from, &octets, 10_102, 77), Ok(Received::Again(answer)));
    }

    #[test]
    fn replay_without_time_stamp_is_not_carried_out() {
        let (secret, from) = (Secret(b"s".to_vec()), SocketAddr::from(CLIENT));
        let server = |needs| Server::new([(from.ip(), secret.clone())], Duration::from_secs(300), needs, 100);
        let octets = request(&secret, None);
        assert_eq!(server(true).receive(from, &octets, 10_000, 77), Err(Dropped::OutsideWindow));
        let mut server = server(false);
        let Ok(Received::Request(ticket, _)) = server.receive(from, &octets, 10_000, 77) else { panic!("new") };
        let (_, answer) = server.answer(ticket, Ok(())).expect("known");
        // From another port, and after the wall clock was set on by an hour.
        let replay = SocketAddr::from(([192, 0, 2, 1], 4001));
        assert_eq!(server.receive(replay, &octets, 13_600, 177), Ok(Received::Again(answer.clone())));
        assert_eq!(server.answer(ticket, Ok(())), Some((from, answer)));
        // One with the same identifier that says something else is another.
        let other = request(&secret, Some(13_700));
        assert!(matches!(server.receive(from, &other, 13_600, 177), Ok(Received::Request(..))));
        assert!(matches!(server.receive(from, &octets, 10_000, 77 + 601), Ok(Received::Request(..))));
    }

    #[test]
    fn as_many_requests_are_known_as_allowed() {
        let (secret, from) = (Secret(b"s".to_vec()), SocketAddr::from(CLIENT));
        let mut server = Server::new([(from.ip(), secret.clone())], Duration::from_secs(300), true, 3);
        for stamp in 10_000..10_010 {
            let octets = request(&secret, Some(stamp));
            let Ok(Received::Request(ticket, _)) = server.receive(from, &octets, 10_000, 77) else { panic!("new") };
            server.answer(ticket, Ok(())).expect("known");
            assert!(matches!(server.receive(from, &octets, 10_000, 77), Ok(Received::Again(_))));
        }
        assert_eq!((server.known.len(), server.tickets.len()), (3, 3));
    }

    #[test]
    fn replayed_and_foreign_requests_are_dropped() {
        let (secret, from) = (Secret(b"s".to_vec()), SocketAddr::from(CLIENT));
        let mut server = Server::new([(from.ip(), secret.clone())], Duration::from_secs(300), true, 100);
        let octets = request(&secret, Some(10_000));
        assert_eq!(server.receive(from, &octets, 10_301, 77), Err(Dropped::OutsideWindow));
        assert_eq!(server.receive(from, &request(&secret, None), 10_000, 77), Err(Dropped::OutsideWindow));
        let stranger = SocketAddr::from(([192, 0, 2, 9], 4000));
        assert_eq!(server.receive(stranger, &octets, 10_000, 77), Err(Dropped::UnknownClient));
        let forged = request(&Secret(b"t".to_vec()), Some(10_000));
        assert_eq!(server.receive(from, &forged, 10_000, 77), Err(Malformed::Authenticator.into()));
    }
}
