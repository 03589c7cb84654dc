//! Other servers while requests are under way.

use super::{Client, Health, Request, Server, Time, identifiers};

impl Client {
    /// Asks these servers from now on, in order of preference. Requests that a server which stays has not answered go on there;
    /// those of a server that is gone, and those that wait, are for any of them. Nothing is lost.
    pub fn set_servers(&mut self, now: Time, servers: Vec<Server>) {
        let old = std::mem::replace(&mut self.servers, servers);
        let is_same = |a: &Server, b: &Server| a.address == b.address && a.secret == b.secret;
        let place = |server: &Server| self.servers.iter().position(|new| is_same(server, new));
        let places: Vec<Option<usize>> = old.iter().map(place).collect();
        let before = std::mem::take(&mut self.health);
        let mut health: Vec<Option<Health>> = self.servers.iter().map(|_| None).collect();
        for (place, known) in places.iter().zip(before) {
            if let Some(new) = place.and_then(|at| health.get_mut(at)).filter(|new| new.is_none()) {
                *new = Some(known);
            }
        }
        let fresh = || Health { free: identifiers(self.config.sources), unanswered: 0, dead_until: None };
        self.health = health.into_iter().map(|known| known.unwrap_or_else(fresh)).collect();
        self.due.clear();
        let mut again: Vec<Request> = Vec::new();
        for ((server, source, id), mut flying) in std::mem::take(&mut self.flying) {
            flying.request.tried = 0; // servers by their former numbers
            let slot = places.get(server).copied().flatten().map(|server| (server, source, id));
            match slot.filter(|slot| !self.flying.contains_key(slot)) {
                Some(slot) => {
                    self.due.insert((flying.due, slot));
                    self.flying.insert(slot, flying);
                }
                None => again.push(flying.request),
            }
        }
        self.waiting.iter_mut().for_each(|request| request.tried = 0);
        again.sort_unstable_by_key(|request| std::cmp::Reverse(request.number));
        again.into_iter().for_each(|request| self.waiting.push_front(request));
        self.launch(now);
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::super::{Config, Event};
    use super::*;
    use crate::dictionary::number;
    use crate::packet::{Attribute, Code, Packet, Secret};

    fn server(last: u8) -> Server {
        Server { address: SocketAddr::from(([192, 0, 2, last], 1812)), secret: Secret(vec![last; 8]) }
    }

    fn accept(client: &mut Client, octets: &[u8], last: u8) {
        let secret = Secret(vec![last; 8]);
        let request = Packet::read_request(octets, &secret).expect("signed for that server");
        let packet = Packet { code: Code::AccessAccept, id: request.id, authenticator: [0; 16], attributes: vec![] };
        let octets = packet.response(&request.authenticator, &secret).expect("a packet");
        client.receive(1, 0, server(last).address, &octets).expect("expected");
    }

    fn client(servers: &[u8]) -> Client {
        let config = Config { sources: 1, ..Config::default() };
        Client::new(config, servers.iter().map(|last| server(*last)).collect(), |out| out.fill(7))
    }

    fn ask(client: &mut Client, number: u64) {
        let name = vec![Attribute::octets(number::USER_NAME, "line-7")];
        client.authenticate(0, number, name, None).expect("room");
    }

    #[test]
    fn request_of_a_server_taken_out_goes_to_another() {
        let mut client = client(&[1]);
        ask(&mut client, 7);
        assert_eq!(client.next_transmit().expect("a request").to, server(1).address);
        client.set_servers(0, vec![server(2)]);
        let again = client.next_transmit().expect("the request again");
        assert_eq!(again.to, server(2).address);
        accept(&mut client, &again.octets, 2);
        assert!(matches!(client.next_event(), Some(Event::Answer(7, _))));
        assert_eq!(client.pending(), (0, 0));
    }

    #[test]
    fn request_of_a_server_that_stays_goes_on() {
        let mut client = client(&[1]);
        ask(&mut client, 7);
        let first = client.next_transmit().expect("a request");
        client.set_servers(0, vec![server(2), server(1)]);
        assert!(client.next_transmit().is_none(), "nothing is sent twice");
        accept(&mut client, &first.octets, 1);
        assert!(matches!(client.next_event(), Some(Event::Answer(7, _))));
        ask(&mut client, 8);
        assert_eq!(client.next_transmit().expect("a request").to, server(2).address, "the preferred one");
    }
}
