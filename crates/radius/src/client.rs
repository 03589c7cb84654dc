//! Client of RADIUS servers: many source ports, retransmission with backoff, servers that are away, buffered accounting.
//!
//! ```text
//! authenticate ─► transmit ─► receive ─► Event::Answer      three tries, then the next server, then Event::NoAnswer
//! account ─► transmit ─► receive ─► Event::Acknowledged     stays until a server has acknowledged it
//! ```
//! An accounting request is stored by the caller before it is given to the client, and erased at [`Event::Acknowledged`];
//! so nothing that was measured is lost while servers are away, or when the gateway crashes.

mod hand_over;
mod servers;

pub use hand_over::{Flight, Pending};

use crate::packet::{Attribute, Code, Malformed, Packet, Secret};
use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::time::Duration;

/// Milliseconds of any clock that does not go back.
pub type Time = u64;

/// A RADIUS server and its shared secret.
#[derive(Clone, Debug)]
pub struct Server {
    /// Address and UDP port that it receives requests on.
    pub address: SocketAddr,
    /// Shared secret of client and server (RFC 2865, 3).
    pub secret: Secret,
}

/// Retransmission, limits and dead-server detection of a client.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// UDP source ports; each has 256 identifiers for each server.
    pub sources: u16,
    /// The first retransmission; later ones wait twice as long each.
    pub timeout: Duration,
    /// Transmissions to one server before the next is tried.
    pub tries: u32,
    /// Requests without an answer, one after another, after which a server counts as dead.
    pub dead_after: u32,
    /// How long a dead server is left alone.
    pub dead_for: Duration,
    /// Most requests that wait for an identifier; more are refused, accounting stays with the caller.
    pub max_waiting: usize,
}

impl Default for Config {
    fn default() -> Self {
        let (timeout, dead_for) = (Duration::from_secs(1), Duration::from_secs(30));
        Self { sources: 16, timeout, tries: 3, dead_after: 9, dead_for, max_waiting: 65_536 }
    }
}

/// A UDP datagram that the caller sends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transmit {
    /// Index of the source port, below [`Config::sources`].
    pub source: u16,
    /// Address and port of the server.
    pub to: SocketAddr,
    /// UDP payload: a RADIUS packet (RFC 2865, 3).
    pub octets: Vec<u8>,
}

/// What became of a request; the number is the caller's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Access-Accept, -Reject or -Challenge.
    Answer(u64, Packet),
    /// No server answered an Access-Request.
    NoAnswer(u64),
    /// A server has taken an accounting request: its record may be erased.
    Acknowledged(u64),
    /// The server with this index stopped answering; others are used.
    Dead(usize),
    /// The server with this index answers again.
    Alive(usize),
}

/// Reason for which a request was not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// The queue.
    #[error("too many RADIUS requests wait")]
    Full,
    /// The request.
    #[error(transparent)]
    Malformed(#[from] Malformed),
}

/// Reason for which a received datagram was ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Ignored {
    /// No request with this identifier is outstanding at this server.
    #[error("RADIUS response to no request: late, or from a stranger")]
    Unexpected,
    /// The packet.
    #[error(transparent)]
    Malformed(#[from] Malformed),
}

#[derive(Debug)]
struct Request {
    number: u64,
    code: Code,
    attributes: Vec<Attribute>,
    password: Option<Vec<u8>>,
    /// Servers that did not answer this Access-Request, a bit each; the first 64 are told apart.
    tried: u64,
}

#[derive(Debug)]
struct InFlight {
    request: Request,
    authenticator: [u8; 16],
    octets: Vec<u8>,
    sent: u32,
    due: Time,
}

/// Index of the server, source port and identifier: what a response is matched by.
type Slot = (usize, u16, u8);

#[derive(Debug)]
struct Health {
    /// Identifiers that are free, as (source, identifier); used in turns, so that one rests as long as possible.
    free: VecDeque<(u16, u8)>,
    unanswered: u32,
    dead_until: Option<Time>,
}

/// Fills with bytes that nobody can predict.
type Random = Box<dyn FnMut(&mut [u8]) + Send + Sync>;

/// A RADIUS client without socket and clock: datagrams and times are passed in, [`Transmit`]s are taken out.
pub struct Client {
    config: Config,
    servers: Vec<Server>,
    health: Vec<Health>,
    waiting: VecDeque<Request>,
    flying: HashMap<Slot, InFlight>,
    /// When to look at a request again. Entries of requests that are gone are skipped.
    due: std::collections::BTreeSet<(Time, Slot)>,
    transmits: VecDeque<Transmit>,
    events: VecDeque<Event>,
    random: Random,
}

impl Client {
    /// A client of servers in order of preference; `random` fills authenticators and must not be predictable.
    pub fn new(config: Config, servers: Vec<Server>, random: impl FnMut(&mut [u8]) + Send + Sync + 'static) -> Self {
        let free = || identifiers(config.sources);
        let health = servers.iter().map(|_| Health { free: free(), unanswered: 0, dead_until: None }).collect();
        Self {
            config,
            servers,
            health,
            waiting: VecDeque::new(),
            flying: HashMap::new(),
            due: Default::default(),
            transmits: VecDeque::new(),
            events: VecDeque::new(),
            random: Box::new(random),
        }
    }

    /// Takes the next datagram to send; none: nothing is to be sent now.
    pub fn next_transmit(&mut self) -> Option<Transmit> {
        self.transmits.pop_front()
    }

    /// Takes the next result of a request or change of a server, in order.
    pub fn next_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Requests not yet sent, and requests without an answer yet.
    pub fn pending(&self) -> (usize, usize) {
        (self.waiting.len(), self.flying.len())
    }

    /// Sends an Access-Request; `password` becomes User-Password (RFC 2865 clause 5.2).
    pub fn authenticate(
        &mut self,
        now: Time,
        number: u64,
        attributes: Vec<Attribute>,
        password: Option<&[u8]>,
    ) -> Result<(), Refused> {
        let password = password.map(<[u8]>::to_vec);
        self.submit(now, Request { number, code: Code::AccessRequest, attributes, password, tried: 0 })
    }

    /// Sends an Accounting-Request, until it is acknowledged.
    pub fn account(&mut self, now: Time, number: u64, attributes: Vec<Attribute>) -> Result<(), Refused> {
        self.submit(now, Request { number, code: Code::AccountingRequest, attributes, password: None, tried: 0 })
    }

    fn submit(&mut self, now: Time, request: Request) -> Result<(), Refused> {
        if self.waiting.len() >= self.config.max_waiting {
            return Err(Refused::Full);
        }
        let Request { code, ref attributes, .. } = request;
        Packet { code, id: 0, authenticator: [0; 16], attributes: attributes.clone() }.request(&Secret(Vec::new()))?;
        self.waiting.push_back(request);
        self.launch(now);
        Ok(())
    }

    /// Whether a server is to be tried: it is alive, or its time is over and no other request is trying it.
    fn is_usable(&self, now: Time, server: usize) -> bool {
        match self.health[server].dead_until {
            None => true,
            Some(until) => until <= now && !self.flying.keys().any(|slot| slot.0 == server),
        }
    }

    /// Sends what waits, each request to the first usable server that it has not tried.
    fn launch(&mut self, now: Time) {
        while let Some(first) = self.waiting.front() {
            let is_tried = |server: usize| first.tried & bit(server) != 0;
            let mut usable = (0..self.servers.len()).filter(|&at| !is_tried(at) && self.is_usable(now, at)).peekable();
            let none = usable.peek().is_none();
            let server = usable.find(|&at| !self.health[at].free.is_empty());
            if none && first.tried != 0 {
                let number = first.number;
                self.waiting.pop_front();
                self.events.push_back(Event::NoAnswer(number));
                continue;
            }
            let Some(server) = server else { return };
            let Some(request) = self.waiting.pop_front() else { return };
            let Some((source, id)) = self.health[server].free.pop_front() else { return };
            let mut authenticator = [0; 16];
            (self.random)(&mut authenticator);
            let secret = &self.servers[server].secret;
            let mut attributes = request.attributes.clone();
            if let Some(password) = &request.password {
                let hidden = crate::packet::hide_password(password, &authenticator, secret);
                attributes.push(Attribute::octets(crate::dictionary::number::USER_PASSWORD, hidden));
            }
            let Ok(octets) = (Packet { code: request.code, id, authenticator, attributes }).request(secret) else {
                // Checked at submission: only a password can have made it too long.
                self.health[server].free.push_back((source, id));
                self.events.push_back(Event::NoAnswer(request.number));
                continue;
            };
            authenticator.copy_from_slice(&octets[4..20]);
            let slot = (server, source, id);
            let due = now + self.config.timeout.as_millis() as u64;
            self.due.insert((due, slot));
            self.transmits.push_back(Transmit { source, to: self.servers[server].address, octets: octets.clone() });
            self.flying.insert(slot, InFlight { request, authenticator, octets, sent: 1, due });
        }
    }

    /// Takes a datagram that came to a source port.
    pub fn receive(&mut self, now: Time, source: u16, from: SocketAddr, octets: &[u8]) -> Result<(), Ignored> {
        let server = self.servers.iter().position(|server| server.address == from).ok_or(Ignored::Unexpected)?;
        let id = *octets.get(1).ok_or(Malformed::Length)?;
        let slot = (server, source, id);
        let flying = self.flying.get(&slot).ok_or(Ignored::Unexpected)?;
        let packet = Packet::read_response(octets, &flying.authenticator, &self.servers[server].secret)?;
        let expected = match flying.request.code {
            Code::AccessRequest => {
                matches!(packet.code, Code::AccessAccept | Code::AccessReject | Code::AccessChallenge)
            }
            _ => packet.code == Code::AccountingResponse,
        };
        if !expected {
            return Err(Ignored::Unexpected);
        }
        let Some(done) = self.land(slot) else { return Err(Ignored::Unexpected) };
        self.health[server].unanswered = 0;
        if self.health[server].dead_until.take().is_some() {
            self.events.push_back(Event::Alive(server));
        }
        self.events.push_back(match done.code {
            Code::AccessRequest => Event::Answer(done.number, packet),
            _ => Event::Acknowledged(done.number),
        });
        self.launch(now);
        Ok(())
    }

    fn land(&mut self, slot: Slot) -> Option<Request> {
        let flying = self.flying.remove(&slot)?;
        self.due.remove(&(flying.due, slot));
        self.health[slot.0].free.push_back((slot.1, slot.2));
        Some(flying.request)
    }

    /// When [`Client::tick`] has something to do.
    pub fn next_due(&self) -> Option<Time> {
        let dead = self.health.iter().filter_map(|health| health.dead_until).min();
        let dead = dead.filter(|_| !self.waiting.is_empty());
        self.due.first().map(|(due, _)| *due).into_iter().chain(dead).min()
    }

    /// Retransmits what is due, and moves on from servers that do not answer.
    pub fn tick(&mut self, now: Time) {
        while let Some(&(due, slot)) = self.due.first()
            && due <= now
        {
            self.due.pop_first();
            let Some(flying) = self.flying.get_mut(&slot) else { continue };
            if flying.sent < self.config.tries {
                // The same octets: a server that has answered already answers the same again (RFC 5080 clause 2.2.2).
                let wait = (self.config.timeout.as_millis() as u64) << flying.sent.min(16);
                let mut jitter = [0; 2];
                (self.random)(&mut jitter);
                flying.due = now + wait + wait / 10 * u64::from(u16::from_be_bytes(jitter)) / 65_536;
                flying.sent += 1;
                self.due.insert((flying.due, slot));
                let (source, to) = (slot.1, self.servers[slot.0].address);
                self.transmits.push_back(Transmit { source, to, octets: flying.octets.clone() });
                continue;
            }
            self.unanswered(now, slot);
        }
        self.launch(now);
    }

    fn unanswered(&mut self, now: Time, slot: Slot) {
        let Some(mut request) = self.land(slot) else { return };
        let health = &mut self.health[slot.0];
        health.unanswered += 1;
        let was_dead = health.dead_until.is_some();
        if was_dead || health.unanswered >= self.config.dead_after {
            health.dead_until = Some(now + self.config.dead_for.as_millis() as u64);
            if !was_dead {
                self.events.push_back(Event::Dead(slot.0));
            }
        }
        if request.code == Code::AccessRequest {
            // Whoever waits for authentication has waited already: another server, or none.
            request.tried |= bit(slot.0);
            self.waiting.push_front(request);
        } else {
            self.waiting.push_back(request);
        }
    }
}

/// All identifiers of a server, by source port.
fn identifiers(sources: u16) -> VecDeque<(u16, u8)> {
    (0..=255).flat_map(|id| (0..sources.max(1)).map(move |source| (source, id))).collect()
}

fn bit(server: usize) -> u64 {
    1 << server.min(63)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dictionary::number;

    fn server(last: u8) -> Server {
        Server { address: SocketAddr::from(([192, 0, 2, last], 1812)), secret: Secret(vec![last; 8]) }
    }

    fn client(config: Config, servers: u8) -> Client {
        let mut n = 0u8;
        let random = move |out: &mut [u8]| {
            n = n.wrapping_add(1);
            out.fill(n);
        };
        Client::new(config, (1..=servers).map(server).collect(), random)
    }

    fn answer(transmit: &Transmit, code: Code, last: u8) -> Vec<u8> {
        let secret = Secret(vec![last; 8]);
        let request = Packet::read_request(&transmit.octets, &secret).expect("signed");
        let class = vec![Attribute::octets(number::CLASS, "gold")];
        Packet { code, id: request.id, authenticator: [0; 16], attributes: class }
            .response(&request.authenticator, &secret)
            .unwrap()
    }

    fn name() -> Vec<Attribute> {
        vec![Attribute::octets(number::USER_NAME, "line-7")]
    }

    #[test]
    fn answer_comes_back_with_its_number() {
        let mut client = client(Config::default(), 1);
        client.authenticate(0, 77, name(), Some(b"secret")).unwrap();
        let sent = client.next_transmit().expect("sent");
        let octets = answer(&sent, Code::AccessAccept, 1);
        client.receive(1, sent.source, sent.to, &octets).unwrap();
        let Some(Event::Answer(77, packet)) = client.next_event() else { panic!("an answer") };
        assert_eq!(packet.get(number::CLASS).and_then(Attribute::to_text), Some("gold"));
        assert_eq!(client.receive(2, sent.source, sent.to, &octets), Err(Ignored::Unexpected));
        assert_eq!(client.pending(), (0, 0));
    }

    #[test]
    fn more_than_256_requests_use_more_ports() {
        let mut client = client(Config { sources: 4, ..Config::default() }, 1);
        for n in 0..1100 {
            client.account(0, n, name()).unwrap();
        }
        assert_eq!(client.pending(), (76, 1024));
        let sent: Vec<_> = std::iter::from_fn(|| client.next_transmit()).collect();
        let ids: std::collections::HashSet<_> = sent.iter().map(|t| (t.source, t.octets[1])).collect();
        assert_eq!(ids.len(), 1024);
        for transmit in &sent {
            client.receive(1, transmit.source, transmit.to, &answer(transmit, Code::AccountingResponse, 1)).unwrap();
        }
        assert_eq!(client.pending(), (0, 76));
    }

    #[test]
    fn retransmissions_are_the_same_octets_with_backoff() {
        let mut client = client(Config::default(), 1);
        client.account(0, 1, name()).unwrap();
        let first = client.next_transmit().expect("sent");
        let mut times = Vec::new();
        for now in 0..6000 {
            client.tick(now);
            if let Some(again) = client.next_transmit().filter(|again| again.octets == first.octets) {
                assert_eq!(again, first);
                times.push(now);
            }
        }
        assert_eq!(times[0], 1000);
        assert!((3000..=3200).contains(&times[1]), "{times:?}");
    }

    #[test]
    fn authentication_moves_to_the_next_server() {
        let mut client = client(Config { dead_after: 1, ..Config::default() }, 2);
        client.authenticate(0, 5, name(), None).unwrap();
        let mut to = Vec::new();
        for now in (0..60_000).step_by(100) {
            client.tick(now);
            to.extend(std::iter::from_fn(|| client.next_transmit()).map(|t| t.to.ip()));
        }
        let (a, b) = (server(1).address.ip(), server(2).address.ip());
        assert_eq!(to, [a, a, a, b, b, b]);
        let events: Vec<_> = std::iter::from_fn(|| client.next_event()).collect();
        assert_eq!(events, [Event::Dead(0), Event::Dead(1), Event::NoAnswer(5)]);
    }

    #[test]
    fn accounting_survives_an_outage() {
        let mut client = client(Config { dead_after: 2, ..Config::default() }, 1);
        for n in 0..50 {
            client.account(0, n, name()).unwrap();
        }
        for now in (0..600_000).step_by(500) {
            client.tick(now);
            while client.next_transmit().is_some() {}
        }
        let mut acknowledged = std::collections::HashSet::new();
        for now in (600_000..800_000).step_by(500) {
            client.tick(now);
            while let Some(t) = client.next_transmit() {
                client.receive(now, t.source, t.to, &answer(&t, Code::AccountingResponse, 1)).unwrap();
            }
            while let Some(event) = client.next_event() {
                if let Event::Acknowledged(n) = event {
                    acknowledged.insert(n);
                }
            }
        }
        assert_eq!((acknowledged.len(), client.pending()), (50, (0, 0)));
    }
}
