//! What the access and RADIUS targets do with their bytes; `crates/access/tests/replay.rs` includes this file.

use access::dhcp4::{Config, Dhcp4Server, Group, Message, Options, Outcome, Request};
use access::dhcp6;
use access::guard::{self, Session6, Verdict};
use access::lease::{Kind, LeaseRecord};
use access::option82::RelayAgent;
use access::pool::{Limits, Pools, Range};
use access::relay::{Order, Servers, TransactionLimits, v4, v6};
use access::subscriber::Vlans;
use access::{Action, Line, Time};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::time::Duration;
use wire::{Mac, ndp};

const SERVER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);

/// Option 82: what is read lies within.
pub fn access_option82(bytes: &[u8]) {
    let Ok(agent) = RelayAgent::parse(bytes) else { return };
    let len = agent.circuit_id.map_or(0, <[u8]>::len) + agent.remote_id.map_or(0, <[u8]>::len);
    assert!(len <= bytes.len());
    if let Some(circuit) = agent.circuit() {
        assert!(circuit.node.len() + circuit.place.len() < bytes.len());
    }
}

/// A stored lease is written as it was read.
pub fn access_lease(bytes: &[u8]) {
    if let Ok(record) = LeaseRecord::decode(bytes) {
        assert_eq!(record.encode()[..], *bytes);
    }
}

/// Requests one after another, each behind its length (an octet, in units of 4) and seconds (an octet): every request has one
/// outcome, no address has two clients, replies can be read.
pub fn access_dhcp4(bytes: &[u8]) {
    let range = Range::ip4(1, [10, 0, 0, 10].into(), [10, 0, 0, 13].into());
    let options = Options { prefix_len: 24, routers: vec![SERVER], ..Options::default() };
    let group = Group { server: SERVER, lease: Duration::from_secs(600), options };
    let mut server = Dhcp4Server::new(Config::default(), [(1, group)]).expect("good options");
    let mut pools = Pools::new(&[range], Limits::default()).expect("a good pool");
    let mut relayed = Relayed4::new();
    let (mut now, mut rest, mut sent) = (Time::from_secs(1_000_000), bytes, 0);
    while let [len, seconds, after @ ..] = rest {
        let (octets, after) = after.split_at(after.len().min(usize::from(*len) * 4));
        rest = after;
        sent += 1;
        now = now + Duration::from_secs(u64::from(*seconds) * 4);
        let (source, from) =
            Message::parse(octets).map_or((Mac([2; 6]), SERVER), |message| (message.chaddr, message.ciaddr));
        // Every other one came by a router.
        let (routed, router) = (seconds % 2 == 1, Mac([2; 6]));
        let source = if routed { router } else { source };
        let request = Request { line: Line::default(), group: 1, source, from, routed, octets };
        server.receive(&mut pools, now, &request);
        access::expire(&mut pools, Some(&mut server), None, now, 8);
        while let Some(action) = server.next_action() {
            match action {
                Action::Send(reply) => {
                    assert!(reply.octets.len() >= 300 && reply.octets[0] == 2);
                    assert!(Message::parse(octets).is_ok());
                }
                Action::Store(ticket, record) => {
                    assert_eq!(LeaseRecord::decode(&record.encode()), Ok(record));
                    server.durable(ticket);
                }
                Action::Erase(_) => {}
            }
        }
        relayed.receive(now, &request);
        let mut addresses: Vec<_> = pools.granted().map(|slot| pools.address(slot)).collect();
        addresses.sort_unstable();
        addresses.dedup();
        assert_eq!(addresses.len(), pools.bound());
    }
    let counted: u64 = Outcome::ALL.iter().map(|outcome| server.count(*outcome)).sum();
    assert_eq!(counted, sent);
}

/// Leases of a server that anybody could be: no two of one address.
fn no_address_twice(pools: &Pools) {
    let mut addresses: Vec<_> = pools.granted().map(|slot| pools.address(slot)).collect();
    addresses.sort_unstable();
    addresses.dedup();
    assert_eq!(addresses.len(), pools.bound());
}

/// A DHCPv4 relay agent, to which each message comes by a line and from a server.
struct Relayed4 {
    relay: v4::Relay<()>,
    pools: [Pools; 1],
    servers: Servers,
    messages: u64,
}

impl Relayed4 {
    fn new() -> Self {
        let range = Range::ip4(1, [10, 0, 0, 10].into(), [10, 0, 0, 13].into());
        let group = v4::Group {
            instance: 0,
            vlans: Vlans::OnePerLine,
            servers: vec![SERVER],
            order: Order::All,
            giaddr: Ipv4Addr::UNSPECIFIED,
            gateway: SERVER,
            server_override: true,
            agent: v4::AgentPolicy::Keep,
            moves: true,
            most_hops: 16,
        };
        let mut servers = Servers::default();
        servers.set([(0, SERVER.into())]);
        let pools = [Pools::new(&[range], Limits::default()).expect("a good pool")];
        Self { relay: v4::Relay::new([(1, group)], TransactionLimits::default(), 64), pools, servers, messages: 0 }
    }

    fn receive(&mut self, now: Time, request: &Request<'_>) {
        self.relay.receive_client((&mut self.pools[0], &mut self.servers), now, request, ("c", ()));
        let mut reply = request.octets.to_vec();
        if let Some(op) = reply.first_mut() {
            *op = 2;
        }
        for octets in [request.octets, &reply] {
            let received = v4::FromServer { instance: 0, from: SERVER, octets };
            self.relay.receive_server((&mut self.pools, &mut self.servers), now, &received);
        }
        self.messages += 3;
        while let Some(action) = self.relay.next_action() {
            match action {
                Action::Send(v4::Output::ToServer { octets, .. }) => assert!(octets.len() >= 300 && octets[0] == 1),
                Action::Send(v4::Output::ToClient(reply)) => assert!(reply.octets.len() >= 300 && reply.octets[0] == 2),
                Action::Store(ticket, record) => {
                    assert_eq!(LeaseRecord::decode(&record.encode()), Ok(record));
                    self.relay.durable(ticket);
                }
                Action::Erase(_) => {}
            }
        }
        self.relay.expire(now);
        self.pools[0].expire(now, 8, |_, _| {});
        no_address_twice(&self.pools[0]);
        let counted: u64 = v4::Outcome::ALL.iter().map(|outcome| self.relay.count(*outcome)).sum();
        assert_eq!(counted, self.messages);
    }
}

/// As [`Relayed4`], of DHCPv6.
struct Relayed6 {
    relay: v6::Relay<()>,
    pools: [Pools; 1],
    servers: Servers,
}

impl Relayed6 {
    fn new(ranges: &[Range]) -> Self {
        let server = Ipv6Addr::LOCALHOST;
        let (servers, vlans) = (vec![server], Vlans::OnePerLine);
        let group =
            v6::Group { instance: 0, vlans, servers, order: Order::First, source: server, link: server, moves: true };
        let mut servers = Servers::default();
        servers.set([(0, server.into())]);
        let pools = [Pools::new(ranges, Limits::default()).expect("good pools")];
        Self { relay: v6::Relay::new([(1, group)], TransactionLimits::default(), 64), pools, servers }
    }

    fn receive(&mut self, now: Time, request: &dhcp6::Request<'_>) {
        self.relay.receive_client((&mut self.pools[0], &mut self.servers), now, request, ("c", ()));
        // The same message as a server's, and as it would be inside a Relay-reply of ours.
        let mut wrapped = [&[13, 0][..], &[0; 16], &request.from.octets(), &[0, 18, 0, 1, b'c', 0, 9]].concat();
        wrapped.extend_from_slice(&(request.octets.len() as u16).to_be_bytes()); // at most 255
        wrapped.extend_from_slice(request.octets);
        if let Some(kind) = wrapped.get_mut(43) {
            *kind = if *kind == 13 { 13 } else { 7 };
        }
        for octets in [request.octets, &wrapped] {
            let received = v6::FromServer { instance: 0, from: Ipv6Addr::LOCALHOST, octets };
            self.relay.receive_server((&mut self.pools, &mut self.servers), now, &received);
        }
        while let Some(action) = self.relay.next_action() {
            if let Action::Store(ticket, record) = action {
                assert_eq!(LeaseRecord::decode(&record.encode()), Ok(record));
                self.relay.durable(ticket);
            }
        }
        self.relay.expire(now);
        self.pools[0].expire(now, 8, |_, _| {});
        no_address_twice(&self.pools[0]);
    }
}

/// Messages one after another, as in [`access_dhcp4`].
pub fn access_dhcp6(bytes: &[u8]) {
    let range = |kind, first: u128, last: u128, prefix_len| Range {
        group: 1,
        kind,
        first: Ipv6Addr::from_bits(first).into(),
        last: Ipv6Addr::from_bits(last).into(),
        prefix_len,
        excluded: Vec::new(),
    };
    let base = 0x2001_0db8u128 << 96;
    let ranges = [range(Kind::Na, base + 1, base + 4, 128), range(Kind::Pd, base + (1 << 80), base + (2 << 80), 56)];
    let mut pools = Pools::new(&ranges, Limits::default()).expect("good pools");
    let lifetime = Duration::from_secs(600);
    let group =
        dhcp6::Group { valid: lifetime, preferred: lifetime, dns: Vec::new(), rapid_commit: true, addresses: true };
    let config = dhcp6::Config { duid: vec![0, 3, 0, 1], offer: Duration::from_secs(10), max_waiting: 64 };
    let mut server = dhcp6::Dhcp6Server::new(config, [(1, group)]);
    let mut relayed = Relayed6::new(&ranges);
    let (mut now, mut rest, mut sent) = (Time::from_secs(1_000_000), bytes, 0);
    while let [len, seconds, after @ ..] = rest {
        let (octets, after) = after.split_at(after.len().min(usize::from(*len)));
        rest = after;
        sent += 1;
        now = now + Duration::from_secs(u64::from(*seconds) * 4);
        let (source, from) = (Mac([2; 6]), Ipv6Addr::LOCALHOST);
        let request = dhcp6::Request { line: Line::default(), group: 1, source, client: source, from, octets };
        server.receive(&mut pools, now, &request);
        relayed.receive(now, &request);
        access::expire(&mut pools, None, Some(&mut server), now, 8);
        while let Some(action) = server.next_action() {
            match action {
                Action::Send(reply) => assert!(matches!(reply.octets[0], 2 | 7 | 13)),
                Action::Store(ticket, record) => {
                    assert_eq!(LeaseRecord::decode(&record.encode()), Ok(record));
                    server.durable(ticket);
                }
                Action::Erase(_) => {}
            }
        }
        let mut addresses: Vec<_> = pools.granted().map(|slot| pools.address(slot)).collect();
        addresses.sort_unstable();
        addresses.dedup();
        assert_eq!(addresses.len(), pools.bound());
    }
    let counted: u64 = dhcp6::Outcome::ALL.iter().map(|outcome| server.count(*outcome)).sum();
    assert_eq!(counted, sent);
}

/// Neighbour discovery of a subscriber: source address, then the message. Nobody speaks for the gateway, or as a router.
pub fn access_nd(bytes: &[u8]) {
    let Some((source, message)) = bytes.split_first_chunk::<16>() else { return };
    let Ok(message) = ndp::Repr::parse(message) else { return };
    let gateway = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1);
    let session = Session6 { mac: Mac([2; 6]), address: None, prefix: None, gateway };
    let source = Ipv6Addr::from(*source);
    let verdict = guard::nd(&session, source, &message);
    let is_dropped = matches!(verdict, Verdict::Drop(_));
    match message {
        ndp::Repr::RouterAdvert { .. } => assert!(is_dropped),
        ndp::Repr::NeighbourAdvert { target, .. } => {
            assert!(is_dropped || target.is_unicast_link_local() && target != gateway || target.is_unspecified())
        }
        _ => assert!(is_dropped || source.is_unicast_link_local() && source != gateway || source.is_unspecified()),
    }
}
