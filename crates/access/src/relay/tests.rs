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

struct Rig6 {
    relay: v6::Relay<()>,
    pools: Vec<Pools>,
    servers: Servers,
    now: Time,
}

impl Rig6 {
    fn new() -> Self {
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
            servers: vec![SERVER6],
            order: Order::All,
            source: "2001:db8::1".parse().expect("an address"),
            link: "2001:db8:100::".parse().expect("an address"),
            moves: false,
        };
        let mut servers = Servers::default();
        servers.set([(0, SERVER6.into())]);
        let pools = vec![Pools::new(&ranges, Limits::default()).expect("good pools")];
        let relay = v6::Relay::new([(1, group)], TransactionLimits::default(), 100);
        Self { relay, pools, servers, now: Time::from_secs(1_000_000) }
    }

    fn client(&mut self, c_vlan: u16, octets: &[u8]) -> (v6::Outcome, Option<Vec<u8>>) {
        let request = dhcp6::Request { line: line(c_vlan), group: 1, source: MAC, client: MAC, from: PEER, octets };
        let parts = (&mut self.pools[0], &mut self.servers);
        let name = format!("acc:100.{c_vlan}");
        let outcome = self.relay.receive_client(parts, self.now, &request, (&name, ()));
        let mut sent = None;
        while let Some(action) = self.relay.next_action() {
            if let Action::Send(v6::Output::ToServer { octets, to, .. }) = action {
                assert_eq!(to, SERVER6);
                sent = Some(octets);
            }
        }
        (outcome, sent)
    }

    fn server(&mut self, octets: &[u8]) -> v6::Outcome {
        let received = v6::FromServer { instance: 0, from: SERVER6, octets };
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
