use super::codec6::RelayReply;
use super::v4::{self, AgentPolicy, FromServer, Output};
use super::v6;
use super::*;
use crate::dhcp4::{self, Type};
use crate::dhcp6;
use crate::lease::{Kind, LeaseRecord};
use crate::pool::{Limits, Range, State};
use crate::subscriber::Vlans;
use crate::{Action, Line, Time};
use proptest::prelude::*;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;
use wire::Mac;

const SERVER: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 10);
const GATEWAY: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const MAC: Mac = Mac([2, 0, 0, 0, 0, 7]);

fn line(c_vlan: u16) -> Line {
    Line { port: 1, s_vlan: 100, c_vlan }
}

fn group4() -> v4::Group {
    v4::Group {
        instance: 0,
        vlans: Vlans::OnePerLine,
        servers: vec![SERVER],
        order: Order::All,
        giaddr: GATEWAY,
        gateway: GATEWAY,
        server_override: true,
        agent: AgentPolicy::Drop,
        moves: false,
        most_hops: 4,
    }
}

/// A BOOTP message with options.
fn bootp(op: u8, kind: Type, mac: Mac, options: &[(u8, &[u8])]) -> Vec<u8> {
    let mut out = vec![0; 240];
    out[..3].copy_from_slice(&[op, 1, 6]);
    out[4..8].copy_from_slice(&7u32.to_be_bytes());
    out[28..34].copy_from_slice(&mac.0);
    out[236..].copy_from_slice(&dhcp4::MAGIC);
    out.extend_from_slice(&[53, 1, kind as u8]);
    for (code, data) in options {
        out.extend_from_slice(&[*code, data.len() as u8]);
        out.extend_from_slice(data);
    }
    out.push(255);
    out
}

struct Rig {
    relay: v4::Relay<u16>,
    pools: Vec<Pools>,
    servers: Servers,
    now: Time,
    /// Option 82 of the request that was forwarded last.
    agent: Vec<u8>,
}

impl Rig {
    fn new(group: v4::Group) -> Self {
        let range = Range::ip4(1, [10, 0, 0, 2].into(), [10, 0, 0, 99].into());
        let mut servers = Servers::default();
        servers.set(group.servers.iter().map(|server| (0, IpAddr::from(*server))));
        Self {
            relay: v4::Relay::new([(1, group)], TransactionLimits::default(), 100),
            pools: vec![Pools::new(&[range], Limits::default()).expect("a good pool")],
            servers,
            now: Time::from_secs(1_000_000),
            agent: Vec::new(),
        }
    }

    fn client(&mut self, c_vlan: u16, mac: Mac, octets: &[u8]) -> v4::Outcome {
        let from = Ipv4Addr::from(<[u8; 4]>::try_from(&octets[12..16]).expect("four octets"));
        let (line, group) = (line(c_vlan), 1);
        let request = dhcp4::Request { line, group, source: mac, from, routed: false, octets };
        let name = format!("acc:100.{c_vlan}");
        let parts = (&mut self.pools[0], &mut self.servers);
        self.relay.receive_client(parts, self.now, &request, (&name, c_vlan))
    }

    fn forwarded(&mut self) -> Vec<u8> {
        match self.relay.next_action() {
            Some(Action::Send(Output::ToServer { octets, to, from, .. })) => {
                assert_eq!((to, from), (SERVER, GATEWAY));
                let agent = dhcp4::Tlvs::of(&octets).find(|(code, _)| *code == 82);
                self.agent = agent.map(|(_, data)| data.to_vec()).unwrap_or_default();
                octets
            }
            other => panic!("{other:?}"),
        }
    }

    /// A server's message to the request that was forwarded last.
    fn server(&mut self, kind: Type, mac: Mac, address: [u8; 4], lease: u32) -> v4::Outcome {
        let agent = self.agent.clone();
        let mut octets = bootp(2, kind, mac, &[(51, &lease.to_be_bytes()), (82, &agent)]);
        octets[16..20].copy_from_slice(&address);
        octets[24..28].copy_from_slice(&GATEWAY.octets());
        self.server_sends(SERVER, &octets)
    }

    fn server_sends(&mut self, from: Ipv4Addr, octets: &[u8]) -> v4::Outcome {
        let received = FromServer { instance: 0, from, octets };
        self.relay.receive_server((&mut self.pools, &mut self.servers), self.now, &received).0
    }

    /// A lease as the servers grant it; returns what was stored.
    fn bind(&mut self, c_vlan: u16, mac: Mac, address: [u8; 4]) -> LeaseRecord {
        let request = bootp(1, Type::Request, mac, &[(50, &address)]);
        assert_eq!(self.client(c_vlan, mac, &request), v4::Outcome::Forwarded);
        self.forwarded();
        assert_eq!(self.server(Type::Ack, mac, address, 600), v4::Outcome::Acknowledged);
        let Some(Action::Store(ticket, record)) = self.relay.next_action() else { panic!("it is stored first") };
        assert_eq!(self.relay.next_action(), None);
        self.relay.durable(ticket);
        assert!(matches!(self.relay.next_action(), Some(Action::Send(Output::ToClient(_)))));
        record
    }
}

#[test]
fn lease_is_learnt_stored_and_then_acknowledged() {
    let mut rig = Rig::new(group4());
    let discover = bootp(1, Type::Discover, MAC, &[(61, b"client")]);
    assert_eq!(rig.client(7, MAC, &discover), v4::Outcome::Forwarded);
    let octets = rig.forwarded();
    assert_eq!((octets[3], &octets[24..28]), (1, &GATEWAY.octets()[..]));
    let wanted = [&[1, 9][..], b"acc:100.7", &[2, 6], &MAC.0, &[11, 4], &GATEWAY.octets()].concat();
    assert_eq!(rig.agent, wanted);
    assert_eq!(rig.server(Type::Offer, MAC, [10, 0, 0, 9], 600), v4::Outcome::Offered);
    let Some(Action::Send(Output::ToClient(offer))) = rig.relay.next_action() else { panic!("an offer") };
    assert_eq!((offer.line, offer.server, offer.address), (line(7), GATEWAY, [10, 0, 0, 9].into()));
    assert!(dhcp4::Tlvs::of(&offer.octets).all(|(code, _)| code != 82), "the client sent no option 82");
    let record = rig.bind(7, MAC, [10, 0, 0, 9]);
    assert_eq!((record.ip4(), record.server), (Some([10, 0, 0, 9].into()), Some(SERVER.into())));
    assert_eq!(record.expiry, rig.now.secs() + 600);
    assert_eq!(LeaseRecord::decode(&record.encode()), Ok(record));
    // The renewal lasts longer, and is stored again.
    rig.now = rig.now + Duration::from_secs(300);
    assert_eq!(rig.bind(7, MAC, [10, 0, 0, 9]).expiry, record.expiry + 300);
    assert_eq!(rig.pools[0].bound(), 1);
    // And it ends.
    rig.now = rig.now + Duration::from_secs(600);
    let mut ended = 0;
    rig.pools[0].expire(rig.now, 10, |pools, slot| {
        assert_eq!(pools.server(slot), Some(SERVER.into()));
        ended += 1;
    });
    assert_eq!((ended, rig.pools[0].bound()), (1, 0));
}

#[test]
fn stored_lease_of_a_server_is_restored() {
    let mut rig = Rig::new(group4());
    let record = rig.bind(7, MAC, [10, 0, 0, 9]);
    let mut after = Rig::new(group4());
    let slot = after.pools[0].restore(&record, rig.now).expect("restored");
    assert_eq!(after.pools[0].record(slot), record);
    after.now = rig.now + Duration::from_secs(1);
    assert_eq!(after.bind(7, MAC, [10, 0, 0, 9]).ip4(), record.ip4());
    assert_eq!(after.pools[0].bound(), 1);
}

#[test]
fn gateway_renews_what_a_server_has_leased() {
    let mut rig = Rig::new(group4());
    rig.bind(7, MAC, [10, 0, 0, 9]);
    let options = dhcp4::Options { prefix_len: 24, ..dhcp4::Options::default() };
    let group = dhcp4::Group { server: GATEWAY, lease: Duration::from_secs(3600), options };
    let mut server = dhcp4::Dhcp4Server::new(dhcp4::Config::default(), [(1, group)]).expect("good options");
    let mut renewal = bootp(1, Type::Request, MAC, &[]);
    renewal[12..16].copy_from_slice(&[10, 0, 0, 9]);
    let from = Ipv4Addr::new(10, 0, 0, 9);
    let request = dhcp4::Request { line: line(7), group: 1, source: MAC, from, routed: false, octets: &renewal };
    assert_eq!(server.receive(&mut rig.pools[0], rig.now, &request), dhcp4::Outcome::Stored);
    let Some(Action::Store(_, record)) = server.next_action() else { panic!("it is stored") };
    assert_eq!((record.ip4(), record.server), (Some(from), None));
}

#[test]
fn request_goes_to_the_server_whose_offer_is_taken() {
    let second = Ipv4Addr::new(198, 18, 0, 11);
    let mut rig = Rig::new(v4::Group { servers: vec![SERVER, second], ..group4() });
    let sent_to = |rig: &mut Rig| {
        let mut to_servers = Vec::new();
        while let Some(action) = rig.relay.next_action() {
            match action {
                Action::Send(Output::ToServer { to, octets, .. }) => {
                    to_servers.push(to);
                    let agent = dhcp4::Tlvs::of(&octets).find(|(code, _)| *code == 82);
                    rig.agent = agent.map(|(_, data)| data.to_vec()).unwrap_or_default();
                }
                Action::Store(ticket, _) => rig.relay.durable(ticket),
                _ => {}
            }
        }
        to_servers
    };
    rig.client(7, MAC, &bootp(1, Type::Discover, MAC, &[]));
    assert_eq!(sent_to(&mut rig), [SERVER, second]);
    let reply = |rig: &Rig, kind, host| {
        let mut octets = bootp(2, kind, MAC, &[(51, &[0, 0, 1, 0]), (82, &rig.agent)]);
        octets[16..20].copy_from_slice(&[10, 0, 0, host]);
        octets[24..28].copy_from_slice(&GATEWAY.octets());
        octets
    };
    for (server, host) in [(SERVER, 9), (second, 10)] {
        let offer = reply(&rig, Type::Offer, host);
        assert_eq!(rig.server_sends(server, &offer), v4::Outcome::Offered);
    }
    // Both are known to the client as the gateway.
    let taken = bootp(1, Type::Request, MAC, &[(54, &GATEWAY.octets()), (50, &[10, 0, 0, 10])]);
    for _ in 0..2 {
        rig.client(7, MAC, &taken);
        assert_eq!(sent_to(&mut rig), [second], "a repetition goes there, too");
    }
    let ack = reply(&rig, Type::Ack, 10);
    assert_eq!(rig.server_sends(second, &ack), v4::Outcome::Acknowledged);
    sent_to(&mut rig);
    let mut renewal = bootp(1, Type::Request, MAC, &[]);
    renewal[12..16].copy_from_slice(&[10, 0, 0, 10]);
    rig.client(7, MAC, &renewal);
    assert_eq!(sent_to(&mut rig), [second], "the one that has granted the lease renews it");
    for _ in 0..4 {
        rig.now = rig.now + Duration::from_secs(1);
        rig.client(7, MAC, &renewal);
    }
    sent_to(&mut rig);
    rig.client(7, MAC, &renewal);
    assert_eq!(sent_to(&mut rig), [SERVER, second], "all, when it does not answer");
}

#[test]
fn addresses_of_nobodys_slice_are_refused() {
    let mut rig = Rig::new(group4());
    let request = bootp(1, Type::Request, MAC, &[]);
    for kind in [Type::Offer, Type::Ack] {
        rig.client(7, MAC, &request);
        rig.forwarded();
        assert_eq!(rig.server(kind, MAC, [10, 9, 9, 9], 600), v4::Outcome::Outside);
        assert_eq!(rig.server(kind, MAC, [10, 0, 0, 100], 600), v4::Outcome::Outside);
    }
    assert_eq!(rig.server(Type::Ack, MAC, [10, 0, 0, 9], 0), v4::Outcome::NoLeaseTime);
    assert_eq!((rig.relay.next_action(), rig.pools[0].bound()), (None, 0));
}

#[test]
fn address_of_two_lines_stays_with_the_first() {
    let other = Mac([2, 0, 0, 0, 0, 8]);
    for (moves, mac, wanted) in [
        (false, other, v4::Outcome::Taken),
        (true, other, v4::Outcome::Taken),
        (false, MAC, v4::Outcome::Taken),
        (true, MAC, v4::Outcome::Moved),
    ] {
        let mut rig = Rig::new(v4::Group { moves, ..group4() });
        let first = rig.bind(7, MAC, [10, 0, 0, 9]);
        rig.client(8, mac, &bootp(1, Type::Request, mac, &[]));
        rig.forwarded();
        assert_eq!(rig.server(Type::Ack, mac, [10, 0, 0, 9], 600), wanted, "{moves} {mac}");
        let next = rig.relay.next_action();
        if wanted == v4::Outcome::Moved {
            assert_eq!(next, Some(Action::Erase(first)), "the first line's ends before the second's begins");
            assert!(matches!(rig.relay.next_action(), Some(Action::Store(..))));
        } else {
            assert_eq!(next, None);
        }
        let owner = rig.pools[0].granted().map(|slot| rig.pools[0].lease(slot).key().client.line).next();
        assert_eq!(owner, Some(line(if wanted == v4::Outcome::Moved { 8 } else { 7 })));
        assert_eq!(rig.pools[0].bound(), 1);
    }
}

#[test]
fn strangers_and_forged_replies_are_dropped() {
    let mut rig = Rig::new(group4());
    rig.client(7, MAC, &bootp(1, Type::Request, MAC, &[]));
    rig.forwarded();
    let agent = rig.agent.clone();
    let reply = |mac: Mac, giaddr: Ipv4Addr, agent: &[u8]| {
        let mut octets = bootp(2, Type::Ack, mac, &[(51, &[0, 0, 1, 0]), (82, agent)]);
        octets[16..20].copy_from_slice(&[10, 0, 0, 9]);
        octets[24..28].copy_from_slice(&giaddr.octets());
        octets
    };
    let good = reply(MAC, GATEWAY, &agent);
    assert_eq!(rig.server_sends([198, 18, 0, 11].into(), &good), v4::Outcome::Stranger);
    let other = reply(Mac([2; 6]), GATEWAY, &agent);
    assert_eq!(rig.server_sends(SERVER, &other), v4::Outcome::UnknownRequest);
    assert_eq!(rig.server_sends(SERVER, &reply(MAC, GATEWAY, b"\x01\x01x")), v4::Outcome::UnknownRequest);
    assert_eq!(rig.server_sends(SERVER, &reply(MAC, SERVER, &agent)), v4::Outcome::NotOurs);
    assert_eq!(rig.server_sends(SERVER, &good[..200]), v4::Outcome::ReplyMalformed);
    assert_eq!(rig.server_sends(SERVER, &good), v4::Outcome::Acknowledged);
    assert_eq!(rig.server_sends(SERVER, &good), v4::Outcome::UnknownRequest, "it was answered");
}

#[test]
fn option82_of_subscribers_is_dropped_or_replaced_and_of_nodes_kept() {
    let from_node = bootp(1, Type::Discover, MAC, &[(82, b"\x01\x03olt")]);
    let mut rig = Rig::new(group4());
    assert_eq!(rig.client(7, MAC, &from_node), v4::Outcome::UntrustedAgent);
    let mut rig = Rig::new(v4::Group { agent: AgentPolicy::Replace, ..group4() });
    assert_eq!(rig.client(7, MAC, &from_node), v4::Outcome::Forwarded);
    rig.forwarded();
    assert!(rig.agent.starts_with(b"\x01\x09acc:100.7"));
    let mut rig = Rig::new(v4::Group { agent: AgentPolicy::Keep, ..group4() });
    assert_eq!(rig.client(7, MAC, &from_node), v4::Outcome::Forwarded);
    rig.forwarded();
    assert!(rig.agent.starts_with(b"\x01\x03olt\x0b\x04"));
    assert_eq!(rig.server(Type::Offer, MAC, [10, 0, 0, 9], 600), v4::Outcome::Offered);
    let Some(Action::Send(Output::ToClient(offer))) = rig.relay.next_action() else { panic!("an offer") };
    let own = dhcp4::Tlvs::of(&offer.octets).find(|(code, _)| *code == 82);
    assert_eq!(own, Some((82, &b"\x01\x03olt"[..])), "the access node gets back what it has sent");
}

#[test]
fn link_selection_names_the_subnet_behind_another_giaddr() {
    let giaddr = Ipv4Addr::new(192, 0, 2, 1);
    let agent = Agent { circuit_id: b"c", remote_id: b"r", link_selection: Some(GATEWAY), ..Agent::default() };
    let content = agent.content().expect("short enough");
    assert_eq!(content, b"\x01\x01c\x02\x01r\x05\x04\x0a\x00\x00\x01");
    let forwarded = forward4(&bootp(1, Type::Discover, MAC, &[]), giaddr, &content, 4).expect("forwarded");
    assert_eq!(&forwarded[24..28], &giaddr.octets());
    let mut far = bootp(1, Type::Discover, MAC, &[]);
    far[3] = 4;
    assert_eq!(forward4(&far, giaddr, &content, 4), Err(NotForwarded::Hops));
}

/// A server's message to a request with the option 82 that was forwarded last.
fn reply4(agent: &[u8], kind: Type, host: u8, lease: Option<u32>) -> Vec<u8> {
    let seconds = lease.unwrap_or_default().to_be_bytes();
    let options: [(u8, &[u8]); 2] = [(82, agent), (51, &seconds)];
    let mut octets = bootp(2, kind, MAC, &options[..1 + usize::from(lease.is_some())]);
    if host > 0 {
        octets[16..20].copy_from_slice(&[10, 0, 0, host]);
    }
    octets[24..28].copy_from_slice(&GATEWAY.octets());
    octets
}

const SECOND: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 11);

#[test]
fn only_the_server_of_a_lease_ends_it_by_nak() {
    let mut rig = Rig::new(v4::Group { order: Order::First, servers: vec![SERVER, SECOND], ..group4() });
    rig.bind(7, MAC, [10, 0, 0, 9]);
    rig.client(7, MAC, &bootp(1, Type::Request, MAC, &[]));
    rig.forwarded();
    let nak = reply4(&rig.agent, Type::Nak, 0, None);
    assert_eq!(rig.server_sends(SECOND, &nak), v4::Outcome::OtherServer);
    assert_eq!((rig.relay.next_action(), rig.pools[0].bound()), (None, 1));
    let ack = reply4(&rig.agent, Type::Ack, 9, Some(900));
    assert_eq!(rig.server_sends(SERVER, &ack), v4::Outcome::Acknowledged, "the request has waited on");
    // A server that is no more one of the group cannot end it: then any may.
    while rig.relay.next_action().is_some() {}
    rig.relay.follow([(1, v4::Group { servers: vec![SECOND], ..group4() })]);
    rig.client(7, MAC, &bootp(1, Type::Request, MAC, &[]));
    while rig.relay.next_action().is_some() {}
    assert_eq!(rig.server_sends(SECOND, &nak), v4::Outcome::Refused);
    assert_eq!(rig.pools[0].bound(), 0);
}

#[test]
fn reboot_of_a_known_lease_asks_its_server() {
    let mut rig = Rig::new(v4::Group { servers: vec![SECOND, SERVER], ..group4() });
    let reboot = bootp(1, Type::Request, MAC, &[(50, &[10, 0, 0, 9])]);
    let sent_to = |rig: &mut Rig| {
        let mut to_servers = Vec::new();
        while let Some(action) = rig.relay.next_action() {
            if let Action::Send(Output::ToServer { to, octets, .. }) = action {
                let agent = dhcp4::Tlvs::of(&octets).find(|(code, _)| *code == 82);
                rig.agent = agent.map(|(_, data)| data.to_vec()).unwrap_or_default();
                to_servers.push(to);
            }
        }
        to_servers
    };
    rig.client(7, MAC, &reboot);
    assert_eq!(sent_to(&mut rig), [SECOND, SERVER], "nobody's yet");
    let ack = reply4(&rig.agent, Type::Ack, 9, Some(900));
    assert_eq!(rig.server_sends(SERVER, &ack), v4::Outcome::Acknowledged);
    sent_to(&mut rig);
    rig.client(7, MAC, &reboot);
    assert_eq!(sent_to(&mut rig), [SERVER]);
    assert!(rig.servers.views().iter().all(|view| view.unanswered == u32::from(view.address == IpAddr::from(SERVER))));
}

#[test]
fn neighbour_of_a_shared_pair_ends_no_lease() {
    let group = v4::Group { vlans: Vlans::ManyPerLine, agent: AgentPolicy::Keep, ..group4() };
    let mut rig = Rig::new(group.clone());
    let circuit = |name: &'static [u8]| -> [(u8, &[u8]); 2] { [(82, name), (61, b"client")] };
    let request = |rig: &mut Rig, options: &[(u8, &[u8])]| {
        assert_eq!(rig.client(7, MAC, &bootp(1, Type::Request, MAC, options)), v4::Outcome::Forwarded);
        rig.forwarded();
    };
    request(&mut rig, &circuit(b"\x01\x01a"));
    assert_eq!(rig.server(Type::Ack, MAC, [10, 0, 0, 9], 600), v4::Outcome::Acknowledged);
    while rig.relay.next_action().is_some() {}
    let ends = |rig: &mut Rig| {
        request(rig, &circuit(b"\x01\x01b"));
        let nak = rig.server(Type::Nak, MAC, [0; 4], 0);
        let moved = rig.server(Type::Ack, MAC, [10, 0, 0, 10], 600);
        // By another client identifier.
        request(rig, &[(82, b"\x01\x01b"), (61, b"other")]);
        let taken = rig.server(Type::Ack, MAC, [10, 0, 0, 9], 600);
        (nak, moved, taken)
    };
    let wanted = (v4::Outcome::OtherCircuit, v4::Outcome::OtherCircuit, v4::Outcome::Taken);
    assert_eq!(ends(&mut rig), wanted);
    assert_eq!((rig.relay.next_action(), rig.pools[0].bound()), (None, 1));
    // By its own circuit all three are the client's.
    request(&mut rig, &[(82, b"\x01\x01a"), (61, b"other")]);
    assert_eq!(rig.server(Type::Ack, MAC, [10, 0, 0, 9], 600), v4::Outcome::Moved);
    while rig.relay.next_action().is_some() {}
    request(&mut rig, &[(82, b"\x01\x01a"), (61, b"other")]);
    assert_eq!(rig.server(Type::Ack, MAC, [10, 0, 0, 10], 600), v4::Outcome::Acknowledged);
}

fn limited(per_line: u32) -> Rig {
    let range = Range::ip4(1, [10, 0, 0, 2].into(), [10, 0, 0, 99].into());
    let limits = Limits { per_line, ..Limits::default() };
    Rig { pools: vec![Pools::new(&[range], limits).expect("a good pool")], ..Rig::new(group4()) }
}

#[test]
fn line_at_its_limit_asks_servers_for_no_more() {
    let mut rig = limited(2);
    let macs = [7, 8, 9].map(|n| Mac([2, 0, 0, 0, 0, n]));
    rig.bind(7, macs[0], [10, 0, 0, 9]);
    rig.bind(7, macs[1], [10, 0, 0, 10]);
    for kind in [Type::Discover, Type::Request] {
        let message = bootp(1, kind, macs[2], &[(50, &[10, 0, 0, 11])]);
        assert_eq!(rig.client(7, macs[2], &message), v4::Outcome::LineLimit);
        assert_eq!(rig.client(8, macs[2], &message), v4::Outcome::Forwarded, "another line");
        rig.forwarded();
    }
    rig.now = rig.now + Duration::from_secs(300);
    rig.bind(7, macs[0], [10, 0, 0, 9]);
    // The same station by another identifier needs no further lease.
    let other = bootp(1, Type::Request, macs[0], &[(50, &[10, 0, 0, 9]), (61, b"x")]);
    assert_eq!(rig.client(7, macs[0], &other), v4::Outcome::Forwarded);
    rig.forwarded();
    assert_eq!(rig.server(Type::Ack, macs[0], [10, 0, 0, 9], 600), v4::Outcome::Moved);
}

#[test]
fn declined_addresses_count_against_the_line() {
    let mut rig = limited(2);
    let discover = bootp(1, Type::Discover, MAC, &[]);
    for host in [9, 10] {
        rig.bind(7, MAC, [10, 0, 0, host]);
        let decline = bootp(1, Type::Decline, MAC, &[(50, &[10, 0, 0, host])]);
        assert_eq!(rig.client(7, MAC, &decline), v4::Outcome::Declined);
        assert!(matches!(rig.relay.next_action(), Some(Action::Erase(_))));
        rig.forwarded();
    }
    assert_eq!((rig.client(7, MAC, &discover), rig.pools[0].bound()), (v4::Outcome::LineLimit, 0));
    // Another line may have the address meanwhile: its server has it rest.
    rig.bind(8, MAC, [10, 0, 0, 9]);
    rig.now = rig.now + Limits::default().quarantine;
    rig.pools[0].expire(rig.now, 10, |_, _| {});
    assert_eq!(rig.client(7, MAC, &discover), v4::Outcome::Forwarded);
}

#[test]
fn inform_does_not_hide_a_lease() {
    let mut rig = Rig::new(group4());
    rig.client(7, MAC, &bootp(1, Type::Request, MAC, &[]));
    rig.client(7, MAC, &bootp(1, Type::Inform, MAC, &[]));
    rig.forwarded();
    rig.forwarded();
    let of_inform = reply4(&rig.agent, Type::Ack, 0, None);
    assert_eq!(rig.server_sends(SERVER, &of_inform), v4::Outcome::Informed);
    assert!(matches!(rig.relay.next_action(), Some(Action::Send(Output::ToClient(_)))));
    assert_eq!(rig.server(Type::Ack, MAC, [10, 9, 9, 9], 600), v4::Outcome::Outside);
    assert_eq!(rig.server(Type::Ack, MAC, [10, 0, 0, 9], 600), v4::Outcome::Acknowledged);
    assert!(matches!(rig.relay.next_action(), Some(Action::Store(..))));
    // An INFORM alone gets no lease unseen.
    rig.client(8, MAC, &bootp(1, Type::Inform, MAC, &[]));
    rig.forwarded();
    assert_eq!(rig.server(Type::Ack, MAC, [10, 0, 0, 9], 600), v4::Outcome::Taken);
}

#[test]
fn message_too_long_for_a_packet_is_dropped_by_name() {
    let mut rig = Rig::new(group4());
    let long = [0; 255];
    let options = [(43, &long[..]); 5];
    assert_eq!(rig.client(7, MAC, &bootp(1, Type::Discover, MAC, &options)), v4::Outcome::TooLong);
    assert_eq!(rig.client(7, MAC, &bootp(1, Type::Discover, MAC, &options[..4])), v4::Outcome::Forwarded);
}

#[test]
fn reply_to_no_request_is_no_sign_of_life() {
    let mut rig = Rig::new(group4());
    rig.client(7, MAC, &bootp(1, Type::Discover, MAC, &[]));
    rig.forwarded();
    rig.agent = b"\x01\x01x".to_vec();
    assert_eq!(rig.server(Type::Offer, MAC, [10, 0, 0, 9], 600), v4::Outcome::UnknownRequest);
    assert_eq!(rig.servers.views()[0].replies, 0);
}

#[test]
fn reply_of_a_lease_that_was_cleared_does_not_go_out() {
    let mut rig = Rig::new(group4());
    rig.client(7, MAC, &bootp(1, Type::Request, MAC, &[]));
    rig.forwarded();
    assert_eq!(rig.server(Type::Ack, MAC, [10, 0, 0, 9], 600), v4::Outcome::Acknowledged);
    let Some(Action::Store(ticket, record)) = rig.relay.next_action() else { panic!("it is stored first") };
    let slot = rig.pools[0].find(&record.key).expect("a lease");
    rig.relay.cancel(&rig.pools[0], slot);
    rig.relay.durable(ticket);
    assert_eq!(rig.relay.next_action(), None);
}

#[test]
fn nak_and_release_end_the_lease() {
    let mut rig = Rig::new(group4());
    rig.bind(7, MAC, [10, 0, 0, 9]);
    rig.client(7, MAC, &bootp(1, Type::Request, MAC, &[]));
    rig.forwarded();
    assert_eq!(rig.server(Type::Nak, MAC, [0; 4], 0), v4::Outcome::Refused);
    assert!(matches!(rig.relay.next_action(), Some(Action::Erase(_))));
    let Some(Action::Send(Output::ToClient(nak))) = rig.relay.next_action() else { panic!("a NAK") };
    assert_eq!((nak.to, rig.pools[0].bound()), (dhcp4::Destination::Broadcast, 0));
    rig.bind(7, MAC, [10, 0, 0, 9]);
    let mut release = bootp(1, Type::Release, MAC, &[(54, &GATEWAY.octets())]);
    release[12..16].copy_from_slice(&[10, 0, 0, 9]);
    assert_eq!(rig.client(8, MAC, &release), v4::Outcome::NotTheLease, "another line's");
    assert_eq!(rig.client(7, MAC, &release), v4::Outcome::Released);
    assert!(matches!(rig.relay.next_action(), Some(Action::Erase(_))));
    rig.forwarded();
    assert_eq!(rig.pools[0].bound(), 0);
}

#[test]
fn storm_of_one_line_leaves_room_for_others() {
    let mut rig = Rig::new(group4());
    let discover = |xid: u32| {
        let mut octets = bootp(1, Type::Discover, MAC, &[]);
        octets[4..8].copy_from_slice(&xid.to_be_bytes());
        octets
    };
    let taken = (0..1000).filter(|xid| rig.client(7, MAC, &discover(*xid)) == v4::Outcome::Forwarded).count();
    assert_eq!((taken, rig.relay.count(v4::Outcome::LineRequests)), (8, 992));
    assert_eq!(rig.client(8, MAC, &discover(1)), v4::Outcome::Forwarded);
    rig.now = rig.now + Duration::from_secs(15);
    rig.relay.expire(rig.now);
    assert_eq!((rig.relay.requests(), rig.relay.unanswered()), (0, 9));
    assert_eq!(rig.client(7, MAC, &discover(5000)), v4::Outcome::Forwarded);
}

const SERVER6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0x10);
const PEER: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 7);

fn option(code: u16, data: &[u8]) -> Vec<u8> {
    [&code.to_be_bytes()[..], &(data.len() as u16).to_be_bytes(), data].concat()
}

/// A DHCPv6 message with client identifier, one IA_NA and one IA_PD; addresses and lifetimes, if there are some.
fn message6(kind: u8, na: Option<(Ipv6Addr, u32)>, pd: Option<(Ipv6Addr, u8, u32)>) -> Vec<u8> {
    let head = |iaid: u32| [&iaid.to_be_bytes()[..], &[0; 8]].concat();
    let na = na.map(|(address, valid)| {
        option(5, &[&address.octets()[..], &valid.to_be_bytes(), &valid.to_be_bytes()].concat())
    });
    let pd = pd.map(|(prefix, len, valid)| {
        option(26, &[&valid.to_be_bytes()[..], &valid.to_be_bytes(), &[len], &prefix.octets()].concat())
    });
    let na = option(3, &[head(1), na.unwrap_or_default()].concat());
    let pd = option(25, &[head(2), pd.unwrap_or_default()].concat());
    [&[kind, 1, 2, 3][..], &option(1, b"\0\x03\0\x01client"), &na, &pd].concat()
}

fn relay_reply(peer: Ipv6Addr, interface_id: &[u8], inner: &[u8]) -> Vec<u8> {
    [&[13, 0][..], &[0; 16], &peer.octets(), &option(18, interface_id), &option(9, inner)].concat()
}

const SECOND6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0x11);

struct Rig6 {
    relay: v6::Relay<()>,
    /// Where the client's last message went.
    sent_to: Vec<Ipv6Addr>,
    pools: Vec<Pools>,
    servers: Servers,
    now: Time,
}

impl Rig6 {
    fn new() -> Self {
        Self::with(&[SERVER6], Limits::default())
    }

    fn with(servers6: &[Ipv6Addr], limits: Limits) -> Self {
        let range = |kind, first: &str, last: &str, prefix_len| Range {
            group: 1,
            kind,
            first: first.parse().expect("an address"),
            last: last.parse().expect("an address"),
            prefix_len,
            excluded: Vec::new(),
        };
        let ranges = [
            range(Kind::Na, "2001:db8:100::", "2001:db8:100:f::", 64),
            range(Kind::Pd, "2001:db8:4000::", "2001:db8:4000:ff00::", 56),
        ];
        let group = v6::Group {
            instance: 0,
            vlans: Vlans::OnePerLine,
            servers: servers6.to_vec(),
            order: Order::All,
            source: "2001:db8::1".parse().expect("an address"),
            link: "2001:db8:100::".parse().expect("an address"),
            moves: false,
        };
        let mut servers = Servers::default();
        servers.set(servers6.iter().map(|server| (0, IpAddr::from(*server))));
        let pools = vec![Pools::new(&ranges, limits).expect("good pools")];
        let relay = v6::Relay::new([(1, group)], TransactionLimits::default(), 100);
        Self { relay, sent_to: Vec::new(), pools, servers, now: Time::from_secs(1_000_000) }
    }

    fn client(&mut self, c_vlan: u16, octets: &[u8]) -> (v6::Outcome, Option<Vec<u8>>) {
        let request = dhcp6::Request { line: line(c_vlan), group: 1, source: MAC, client: MAC, from: PEER, octets };
        let parts = (&mut self.pools[0], &mut self.servers);
        let name = format!("acc:100.{c_vlan}");
        let outcome = self.relay.receive_client(parts, self.now, &request, (&name, ()));
        let mut sent = None;
        self.sent_to.clear();
        while let Some(action) = self.relay.next_action() {
            if let Action::Send(v6::Output::ToServer { octets, to, .. }) = action {
                self.sent_to.push(to);
                sent = Some(octets);
            }
        }
        (outcome, sent)
    }

    fn server(&mut self, octets: &[u8]) -> v6::Outcome {
        self.server_sends(SERVER6, octets)
    }

    fn server_sends(&mut self, from: Ipv6Addr, octets: &[u8]) -> v6::Outcome {
        let received = v6::FromServer { instance: 0, from, octets };
        self.relay.receive_server((&mut self.pools, &mut self.servers), self.now, &received).0
    }

    fn settle(&mut self) -> (usize, usize) {
        let (mut stored, mut sent) = (0, 0);
        while let Some(action) = self.relay.next_action() {
            match action {
                Action::Store(ticket, record) => {
                    assert_eq!(LeaseRecord::decode(&record.encode()), Ok(record));
                    stored += 1;
                    self.relay.durable(ticket);
                }
                Action::Send(v6::Output::ToClient(reply)) => {
                    assert_eq!(reply.to, (MAC, PEER, dhcp6::CLIENT_PORT));
                    sent += 1;
                }
                _ => {}
            }
        }
        (stored, sent)
    }
}

#[test]
fn address_and_prefix_are_learnt_of_one_reply() {
    let mut rig = Rig6::new();
    let (outcome, sent) = rig.client(7, &message6(3, None, None));
    let sent = sent.expect("forwarded");
    assert_eq!((outcome, &sent[..2]), (v6::Outcome::Forwarded, &[12, 0][..]));
    assert_eq!(sent[18..34], PEER.octets());
    let wanted = [
        option(18, b"acc:100.7"),
        option(37, &[&3561u32.to_be_bytes()[..], &MAC.0].concat()),
        option(79, &[&[0, 1][..], &MAC.0].concat()),
        option(9, &message6(3, None, None)),
    ];
    assert_eq!(sent[34..], wanted.concat());
    let (na, pd) = ("2001:db8:100:7::abcd", "2001:db8:4000:700::");
    let (na, pd): (Ipv6Addr, Ipv6Addr) = (na.parse().expect("an address"), pd.parse().expect("an address"));
    let reply = relay_reply(PEER, b"acc:100.7", &message6(7, Some((na, 600)), Some((pd, 56, 900))));
    assert_eq!(rig.server(&reply), v6::Outcome::Replied);
    assert_eq!(rig.settle(), (2, 1));
    let pools = &rig.pools[0];
    let mut leases: Vec<_> = pools.granted().map(|slot| pools.record(slot)).collect();
    leases.sort_unstable_by_key(|record| record.prefix_len);
    let seen: Vec<_> = leases.iter().map(|record| (record.address, record.prefix_len, record.expiry)).collect();
    assert_eq!(seen, [(pd, 56, rig.now.secs() + 900), (na, 128, rig.now.secs() + 600)]);
    assert!(leases.iter().all(|record| record.server == Some(SERVER6.into())));

    // A restart keeps the address itself, not only its /64.
    let mut after = Rig6::new();
    for record in &leases {
        let slot = after.pools[0].restore(record, rig.now).expect("restored");
        assert_eq!(after.pools[0].record(slot), *record);
    }

    // Rebind without a binding: both end.
    rig.client(7, &message6(6, Some((na, 0)), Some((pd, 56, 0))));
    let gone = [&[7, 1, 2, 3][..], &option(1, b"\0\x03\0\x01client")].concat();
    let no_binding = |code, iaid: u32| option(code, &[&iaid.to_be_bytes()[..], &[0; 8], &option(13, &[0, 3])].concat());
    let reply = relay_reply(PEER, b"acc:100.7", &[gone, no_binding(3, 1), no_binding(25, 2)].concat());
    assert_eq!(rig.server(&reply), v6::Outcome::Replied);
    assert_eq!((rig.settle(), rig.pools[0].bound()), ((0, 1), 0));
}

#[test]
fn second_line_gets_no_prefix_of_the_first() {
    let mut rig = Rig6::new();
    let na: Ipv6Addr = "2001:db8:100:7::1".parse().expect("an address");
    let pd: Ipv6Addr = "2001:db8:4000:700::".parse().expect("an address");
    rig.client(7, &message6(3, None, None));
    let reply = |c_vlan: u16, na, pd| {
        relay_reply(PEER, format!("acc:100.{c_vlan}").as_bytes(), &message6(7, Some((na, 600)), Some(pd)))
    };
    assert_eq!(rig.server(&reply(7, na, (pd, 56, 600))), v6::Outcome::Replied);
    rig.settle();
    rig.client(8, &message6(3, None, None));
    let same_64: Ipv6Addr = "2001:db8:100:7::2".parse().expect("an address");
    let other: Ipv6Addr = "2001:db8:4000:800::".parse().expect("an address");
    assert_eq!(rig.server(&reply(8, same_64, (other, 56, 600))), v6::Outcome::Taken);
    let free: Ipv6Addr = "2001:db8:100:8::2".parse().expect("an address");
    assert_eq!(rig.server(&reply(8, free, (other, 60, 600))), v6::Outcome::Outside, "of another length");
    assert_eq!(rig.server(&reply(8, PEER, (other, 56, 600))), v6::Outcome::Outside);
    assert_eq!(
        rig.server(&reply(7, free, (other, 56, 600))),
        v6::Outcome::UnknownRequest,
        "another line's Interface-Id"
    );
    assert_eq!((rig.settle(), rig.pools[0].bound()), ((0, 0), 2));
    assert_eq!(rig.server(&reply(8, free, (other, 56, 600))), v6::Outcome::Replied);
    assert_eq!((rig.settle(), rig.pools[0].bound()), ((2, 1), 4));
    // A Release ends both, and is passed on.
    let (outcome, sent) = rig.client(8, &message6(8, Some((free, 0)), Some((other, 56, 0))));
    assert!(outcome == v6::Outcome::Released && sent.is_some());
    assert_eq!(rig.pools[0].bound(), 2);
}

fn address6(text: &str) -> Ipv6Addr {
    text.parse().expect("an address")
}

/// An identity association with addresses, or prefixes of 56 bits, and their preferred and valid lifetimes.
fn association6(code: u16, iaid: u32, leases: &[(&str, u32, u32)]) -> Vec<u8> {
    let mut data = [&iaid.to_be_bytes()[..], &[0; 8]].concat();
    for (address, preferred, valid) in leases {
        let (address, times) = (address6(address).octets(), [preferred.to_be_bytes(), valid.to_be_bytes()].concat());
        data.extend(match code {
            25 => option(26, &[&times[..], &[56], &address].concat()),
            _ => option(5, &[&address[..], &times].concat()),
        });
    }
    option(code, &data)
}

fn with_ias(kind: u8, ias: &[Vec<u8>]) -> Vec<u8> {
    [&[kind, 1, 2, 3][..], &option(1, b"\0\x03\0\x01client"), &ias.concat()].concat()
}

fn reply6(kind: u8, ias: &[Vec<u8>]) -> Vec<u8> {
    relay_reply(PEER, b"acc:100.7", &with_ias(kind, ias))
}

#[test]
fn message_that_names_a_server_goes_to_it() {
    let mut rig = Rig6::with(&[SERVER6, SECOND6], Limits::default());
    rig.client(7, &message6(1, None, None));
    assert_eq!(rig.sent_to, [SERVER6, SECOND6]);
    let (na, pd) = (address6("2001:db8:100:7::1"), address6("2001:db8:4000:700::"));
    let leases = |kind| message6(kind, Some((na, 600)), Some((pd, 56, 600)));
    let second = option(2, b"second");
    for (server, identifier) in [(SERVER6, option(2, b"first")), (SECOND6, second.clone())] {
        let advertise = relay_reply(PEER, b"acc:100.7", &[leases(2), identifier].concat());
        assert_eq!(rig.server_sends(server, &advertise), v6::Outcome::Advertised);
    }
    rig.settle();
    rig.client(7, &[leases(3), second.clone()].concat());
    assert_eq!(rig.sent_to, [SECOND6], "the one whose ADVERTISE is taken");
    let reply = relay_reply(PEER, b"acc:100.7", &[leases(7), second.clone()].concat());
    assert_eq!(rig.server_sends(SECOND6, &reply), v6::Outcome::Replied);
    rig.settle();
    let records: Vec<_> = rig.pools[0].granted().map(|slot| rig.pools[0].record(slot)).collect();
    for (kind, wanted) in [(5, &[SECOND6][..]), (6, &[SERVER6, SECOND6]), (8, &[SECOND6])] {
        // After a restart identifiers are not known, but who has granted the leases.
        let mut after = Rig6::with(&[SERVER6, SECOND6], Limits::default());
        for record in &records {
            after.pools[0].restore(record, after.now).expect("restored");
        }
        let named = if kind == 6 { Vec::new() } else { second.clone() };
        after.client(7, &[leases(kind), named].concat());
        assert_eq!(after.sent_to, wanted, "{kind}");
        let unanswered: Vec<_> = after.servers.views().iter().map(|view| view.unanswered).collect();
        assert_eq!(unanswered, [0, u32::from(kind != 6)], "{kind}");
    }
}

#[test]
fn neighbours_lease_is_not_given_up() {
    let mut rig = Rig6::new();
    let (na, pd) = (address6("2001:db8:100:7::1"), address6("2001:db8:4000:700::"));
    let leases = |kind, na| message6(kind, Some((na, 600)), Some((pd, 56, 600)));
    rig.client(7, &message6(3, None, None));
    assert_eq!(rig.server(&relay_reply(PEER, b"acc:100.7", &leases(7, na))), v6::Outcome::Replied);
    rig.settle();
    for kind in [8, 9] {
        let other = address6("2001:db8:100:8::1");
        for (c_vlan, message) in [(8, leases(kind, na)), (7, leases(kind, other)), (7, with_ias(kind, &[]))] {
            assert_eq!(rig.client(c_vlan, &message), (v6::Outcome::NotTheLease, None));
        }
    }
    assert_eq!((rig.pools[0].bound(), rig.relay.requests()), (2, 0));
    assert_eq!(rig.client(7, &leases(9, na)).0, v6::Outcome::Released);
    assert_eq!(rig.pools[0].bound(), 0);
}

#[test]
fn only_the_server_of_a_lease_ends_it_by_status() {
    let mut rig = Rig6::with(&[SERVER6, SECOND6], Limits::default());
    let na = [association6(3, 1, &[("2001:db8:100:7::1", 300, 600)])];
    rig.client(7, &with_ias(3, &na));
    assert_eq!(rig.server(&reply6(7, &na)), v6::Outcome::Replied);
    rig.settle();
    let status = |code: u8| [option(3, &[&1u32.to_be_bytes()[..], &[0; 8], &option(13, &[0, code])].concat())];
    rig.client(7, &with_ias(6, &na));
    assert_eq!(rig.server_sends(SECOND6, &reply6(7, &status(3))), v6::Outcome::OtherServer);
    assert_eq!((rig.settle(), rig.pools[0].bound(), rig.relay.requests()), ((0, 0), 1, 1));
    assert_eq!(rig.server(&reply6(7, &status(2))), v6::Outcome::Replied, "NoAddrsAvail ends nothing");
    assert_eq!((rig.settle(), rig.pools[0].bound()), ((0, 1), 1));
    rig.client(7, &with_ias(6, &na));
    assert_eq!(rig.server(&reply6(7, &[association6(3, 1, &[("2001:db8:100:7::1", 0, 0)])])), v6::Outcome::Replied);
    assert_eq!((rig.settle(), rig.pools[0].bound()), ((0, 1), 0));
}

#[test]
fn refused_reply_ends_no_lease() {
    let mut rig = Rig6::with(&[SERVER6], Limits { per_line: 2, ..Limits::default() });
    let na = |address| association6(3, 1, &[(address, 300, 600)]);
    let pd = |iaid, prefix| association6(25, iaid, &[(prefix, 300, 600)]);
    let old = [na("2001:db8:100:7::1")];
    rig.client(7, &with_ias(3, &old));
    assert_eq!(rig.server(&reply6(7, &old)), v6::Outcome::Replied);
    rig.settle();
    rig.client(7, &with_ias(5, &old));
    let (first, second) = ("2001:db8:4000:700::", "2001:db8:4000:800::");
    let new = na("2001:db8:100:8::1");
    for (ias, wanted) in [
        (vec![new.clone(), pd(2, first), pd(3, first)], v6::Outcome::SeveralLeases),
        (vec![new.clone(), pd(2, first), pd(2, second)], v6::Outcome::SeveralLeases),
        (vec![new.clone(), pd(2, first), pd(3, second)], v6::Outcome::LineLimit),
    ] {
        assert_eq!(rig.server(&reply6(7, &ias)), wanted);
        let address = rig.pools[0].granted().map(|slot| rig.pools[0].address(slot)).collect::<Vec<_>>();
        assert_eq!((rig.settle(), address), ((0, 0), vec![address6("2001:db8:100:7::1")]));
    }
    assert_eq!(rig.server(&reply6(7, &[new, pd(2, first)])), v6::Outcome::Replied);
    assert_eq!((rig.settle(), rig.pools[0].bound()), ((2, 1), 2));
    // The line has what it may: no server is asked for more, or for the same again under other names.
    let more = [pd(4, second)];
    assert_eq!(rig.client(7, &with_ias(3, &more)), (v6::Outcome::LineLimit, None));
    assert_eq!(rig.client(7, &with_ias(11, &[])).0, v6::Outcome::Forwarded);
    assert_eq!(rig.server(&reply6(7, &more)), v6::Outcome::LineLimit, "a lease is one whatever was asked");
}

#[test]
fn reply_with_leases_that_cannot_be_learnt_is_dropped() {
    let mut rig = Rig6::new();
    let (old, new) = ("2001:db8:100:7::1", "2001:db8:100:8::1");
    rig.client(7, &with_ias(3, &[association6(3, 1, &[])]));
    let two = [association6(3, 1, &[(old, 300, 600), (new, 300, 600)])];
    let temporary = option(4, &[&5u32.to_be_bytes()[..], &option(5, &[[1; 16].as_slice(), &[1; 8]].concat())].concat());
    for ias in [&two[..], &[association6(3, 1, &[(new, 300, 600)]), temporary]] {
        for kind in [2, 7] {
            assert_eq!(rig.server(&reply6(kind, ias)), v6::Outcome::SeveralLeases);
        }
    }
    // Of a renumbering the preferred one counts (RFC 8415, 18.2.10.1), wherever it stands.
    for leases in [[(old, 0, 600), (new, 300, 600)], [(new, 300, 600), (old, 0, 600)]] {
        rig.client(7, &with_ias(3, &[association6(3, 1, &[])]));
        assert_eq!(rig.server(&reply6(7, &[association6(3, 1, &leases)])), v6::Outcome::Replied);
        rig.settle();
        let slot = rig.pools[0].granted().next().expect("a lease");
        assert_eq!((rig.pools[0].address(slot), rig.pools[0].bound()), (address6(new), 1));
    }
}

#[test]
fn answered_solicit_waits_no_longer_than_for_further_advertises() {
    let mut rig = Rig6::new();
    rig.client(7, &message6(1, None, None));
    assert_eq!(rig.server(&reply6(2, &[])), v6::Outcome::Advertised);
    rig.now = rig.now + Duration::from_secs(2);
    rig.relay.expire(rig.now);
    assert_eq!((rig.relay.requests(), rig.relay.unanswered()), (0, 0));
}

#[test]
fn message_of_an_ldra_is_wrapped_once_more() {
    let mut rig = Rig6::new();
    let inner = message6(1, None, None);
    let by = ForwardedBy {
        link: Ipv6Addr::UNSPECIFIED,
        peer: PEER,
        interface_id: b"onu 7",
        remote_id: (9, b"r"),
        client: None,
    };
    let ldra = forward6(&inner, &by).expect("forwarded");
    let (outcome, sent) = rig.client(7, &ldra);
    let sent = sent.expect("forwarded");
    assert_eq!((outcome, &sent[..2]), (v6::Outcome::Forwarded, &[12, 1][..]));
    let message = dhcp6::Message::parse(&sent).expect("two agents");
    assert_eq!(message.relays.len(), 2);
    let advertise = message6(2, None, None);
    let back = relay_reply(PEER, b"acc:100.7", &relay_reply(PEER, b"onu 7", &advertise));
    assert_eq!(rig.server(&back), v6::Outcome::Advertised);
    let Some(Action::Send(v6::Output::ToClient(reply))) = rig.relay.next_action() else { panic!("a reply") };
    assert_eq!(reply.octets, relay_reply(PEER, b"onu 7", &advertise));
    assert_eq!(reply.to.2, dhcp6::SERVER_PORT);
    let mut far = ldra;
    far[1] = dhcp6::HOP_COUNT_LIMIT;
    assert_eq!(rig.client(7, &far).0, v6::Outcome::Hops);
}

fn options4() -> impl Strategy<Value = Vec<(u8, Vec<u8>)>> {
    let code = (1u8..=254).prop_filter("not the relay agent's, or the type", |code| ![82, 53, 51].contains(code));
    proptest::collection::vec((code, proptest::collection::vec(any::<u8>(), 0..40)), 0..12)
}

proptest! {
    #[test]
    fn options_pass_both_ways_unchanged(
        options in options4(),
        agent in proptest::collection::vec(any::<u8>(), 0..200),
    ) {
        let listed: Vec<_> = options.iter().map(|(code, data)| (*code, &data[..])).collect();
        let octets = bootp(1, Type::Discover, MAC, &listed);
        let forwarded = forward4(&octets, GATEWAY, &agent, 4).expect("forwarded");
        let mut seen: Vec<_> = dhcp4::Tlvs::of(&forwarded).collect();
        prop_assert_eq!(seen.pop(), Some((82, &agent[..])));
        prop_assert_eq!(seen.remove(0), (53, &[1][..]));
        prop_assert_eq!(&seen, &listed);
        let mut reply = forwarded.clone();
        reply[0] = 2;
        let back = to_client4(&reply, None).expect("long enough");
        let seen: Vec<_> = dhcp4::Tlvs::of(&back).skip(1).collect();
        prop_assert_eq!(&seen, &listed);
        let kept = to_client4(&reply, Some(&agent)).expect("long enough");
        prop_assert_eq!(dhcp4::Tlvs::of(&kept).last(), Some((82, &agent[..])));
    }

    #[test]
    fn what_is_wrapped_is_unwrapped(inner in proptest::collection::vec(any::<u8>(), 4..300), id in "[a-z:.0-9]{1,30}") {
        prop_assume!(![12, 13].contains(&inner[0]));
        let (link, peer, interface_id, client) = (SERVER6, PEER, id.as_bytes(), Some(MAC));
        let by = ForwardedBy { link, peer, interface_id, remote_id: (9, b"r"), client };
        let mut wrapped = forward6(&inner, &by).expect("it fits");
        wrapped[0] = 13;
        if let Some(reply) = RelayReply::parse(&wrapped) {
            prop_assert_eq!((reply.peer, reply.interface_id, reply.inner), (PEER, Some(id.as_bytes()), &inner[..]));
        }
    }

    #[test]
    fn servers_cannot_make_two_owners(
        steps in proptest::collection::vec((0u16..4, 0u8..4, 2u8..6, any::<bool>()), 1..60),
    ) {
        let mut rig = Rig::new(v4::Group { moves: true, ..group4() });
        for (c_vlan, mac, host, later) in steps {
            let mac = Mac([2, 0, 0, 0, 0, mac]);
            rig.now = rig.now + Duration::from_secs(if later { 300 } else { 1 });
            rig.client(c_vlan, mac, &bootp(1, Type::Request, mac, &[]));
            while let Some(action) = rig.relay.next_action() {
                if let Action::Send(Output::ToServer { octets, .. }) = action {
                    rig.agent = dhcp4::Tlvs::of(&octets).find(|(code, _)| *code == 82).expect("an agent").1.to_vec();
                }
            }
            rig.server(Type::Ack, mac, [10, 0, 0, host], 600);
            while let Some(action) = rig.relay.next_action() {
                if let Action::Store(ticket, _) = action {
                    rig.relay.durable(ticket);
                }
            }
            rig.relay.expire(rig.now);
            rig.pools[0].expire(rig.now, 100, |_, _| {});
            let pools = &rig.pools[0];
            let mut addresses: Vec<_> = pools.granted().map(|slot| pools.address(slot)).collect();
            addresses.sort_unstable();
            addresses.dedup();
            prop_assert_eq!(addresses.len(), pools.bound());
            let is_learnt = pools.granted().all(|slot| pools.server(slot) == Some(SERVER.into()));
            prop_assert!(is_learnt && pools.granted().all(|slot| pools.lease(slot).state() == State::Bound));
        }
    }
}
