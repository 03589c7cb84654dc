//! Accounting requests on their way to a client of another process, which has the same source ports.

use std::net::SocketAddr;

use super::{Client, InFlight, Request, Time};
use crate::packet::{Attribute, Code, Packet};

/// An accounting request that no server has acknowledged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pending {
    /// The caller's number of it.
    pub number: u64,
    /// What it tells.
    pub attributes: Vec<Attribute>,
    /// How it was sent; none: it was not.
    pub flight: Option<Flight>,
}

/// How a request was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flight {
    /// The server that the request was sent to last.
    pub server: SocketAddr,
    /// Index of the source port.
    pub source: u16,
    /// Its Identifier (RFC 2865, 3).
    pub id: u8,
    /// How often it was sent so far.
    pub sent: u32,
    /// When it is sent again.
    pub due: Time,
}

impl Client {
    /// Accounting requests that no server has acknowledged: those that were sent, and behind them those that wait, in order.
    pub fn pending_accounts(&self) -> Vec<Pending> {
        let of = |request: &Request, flight| {
            let Request { number, ref attributes, .. } = *request;
            Pending { number, attributes: attributes.clone(), flight }
        };
        let is_account = |request: &Request| request.code == Code::AccountingRequest;
        let sent = self.flying.iter().filter(|(_, flying)| is_account(&flying.request)).map(|(slot, flying)| {
            let &(server, source, id) = slot;
            let server = self.servers[server].address;
            of(&flying.request, Some(Flight { server, source, id, sent: flying.sent, due: flying.due }))
        });
        let mut all: Vec<_> = sent.collect();
        all.sort_unstable_by_key(|pending| pending.number);
        all.extend(self.waiting.iter().filter(|request| is_account(request)).map(|request| of(request, None)));
        all
    }

    /// Goes on with requests of another client: before any of its own. What was sent keeps its identifier, and goes again as the
    /// same octets, so that a server which has taken it knows it again (RFC 5080, 2.2.2). Of a server that is not there any more
    /// it goes to any other.
    pub fn go_on_with(&mut self, now: Time, pending: Vec<Pending>) {
        for Pending { number, attributes, flight } in pending {
            let request = Request { number, code: Code::AccountingRequest, attributes, password: None, tried: 0 };
            match flight {
                Some(flight) => self.fly_on(request, &flight),
                None => self.waiting.push_back(request),
            }
        }
        self.launch(now);
    }

    fn fly_on(&mut self, request: Request, flight: &Flight) {
        let Flight { server, source, id, sent, due } = *flight;
        let server = self.servers.iter().position(|known| known.address == server);
        let packet = Packet { code: request.code, id, authenticator: [0; 16], attributes: request.attributes.clone() };
        // Digests of accounting requests depend on the packet and the secret alone (RFC 2866, 3).
        let octets = server.and_then(|server| packet.request(&self.servers[server].secret).ok());
        let (Some(server), Some(octets)) = (server, octets) else { return self.waiting.push_back(request) };
        let slot = (server, source, id);
        let free = &mut self.health[server].free;
        let Some(at) = free.iter().position(|free| *free == (source, id)) else {
            return self.waiting.push_back(request);
        };
        free.remove(at);
        let mut authenticator = [0; 16];
        authenticator.copy_from_slice(&octets[4..20]);
        self.due.insert((due, slot));
        self.flying.insert(slot, InFlight { request, authenticator, octets, sent, due });
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Config, Event, Server};
    use super::*;
    use crate::dictionary::number;
    use crate::packet::Secret;

    fn client(last: u8) -> Client {
        let server = Server { address: SocketAddr::from(([192, 0, 2, last], 1813)), secret: Secret(vec![last; 8]) };
        Client::new(Config { sources: 1, ..Config::default() }, vec![server], |out| out.fill(7))
    }

    #[test]
    fn accounting_requests_go_on_with_their_identifiers() {
        let mut old = client(1);
        let report = |n: u32| vec![Attribute::integer(number::ACCT_SESSION_TIME, n)];
        (0..258).for_each(|n| old.account(0, n.into(), report(n)).expect("room"));
        old.authenticate(0, 999, report(9), None).expect("room");
        let sent: Vec<_> = std::iter::from_fn(|| old.next_transmit()).collect();
        let pending = old.pending_accounts();
        assert_eq!((pending.len(), sent.len()), (258, 256), "identifiers of one port");
        let mut new = client(1);
        new.go_on_with(1, pending.clone());
        assert!(new.next_transmit().is_none(), "nothing is sent twice before its time");
        assert_eq!(new.pending(), (2, 256));
        // A server that has answered the old process answers the same octets again.
        new.tick(1000);
        let mut again: Vec<_> = std::iter::from_fn(|| new.next_transmit()).collect();
        again.sort_unstable_by_key(|transmit| transmit.octets[1]);
        assert_eq!(again, sent);
        let request = Packet::read_request(&again[3].octets, &Secret(vec![1; 8])).expect("signed");
        let answer = Packet { code: Code::AccountingResponse, attributes: vec![], ..request.clone() };
        let octets = answer.response(&request.authenticator, &Secret(vec![1; 8])).expect("a packet");
        new.receive(1001, 0, again[3].to, &octets).expect("expected");
        assert_eq!(new.next_event(), Some(Event::Acknowledged(3)));
        // Another server has none of those identifiers.
        let mut other = client(2);
        other.go_on_with(1, pending);
        assert_eq!(other.pending(), (2, 256));
        assert!(
            std::iter::from_fn(|| other.next_transmit()).all(|transmit| transmit.to.ip().to_string() == "192.0.2.2")
        );
    }
}
