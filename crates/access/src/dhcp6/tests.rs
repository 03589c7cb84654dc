use super::*;
use crate::pool::{Limits, Range};
use dhcproto::v6::{self, Decodable};

const DUID: &[u8] = &[0, 3, 0, 1, 2, 0, 0, 0, 0, 1];
const CLIENT: &[u8] = &[0, 3, 0, 1, 2, 0, 0, 0, 0, 7];
const LINE: Line = Line { port: 1, s_vlan: 100, c_vlan: 7 };
const PEER: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 7);

struct Rig {
    server: Dhcp6Server,
    pools: Pools,
    now: Time,
    sent: u64,
}

fn ia(kind: Kind, iaid: u32, address: Option<Ipv6Addr>) -> Vec<u8> {
    let mut data = iaid.to_be_bytes().to_vec();
    data.extend_from_slice(&[0; 8]);
    let mut out = Vec::new();
    if let Some(address) = address {
        match kind {
            Kind::Pd => put(&mut data, code::IA_PREFIX, &[&[0; 8][..], &[56], &address.octets()].concat()),
            _ => put(&mut data, code::IA_ADDR, &[&address.octets()[..], &[0; 8]].concat()),
        }
    }
    put(&mut out, if kind == Kind::Pd { code::IA_PD } else { code::IA_NA }, &data);
    out
}

fn octets(kind: Type, server: bool, rest: &[u8]) -> Vec<u8> {
    let mut out = vec![kind as u8, 1, 2, 3];
    put(&mut out, code::CLIENT_ID, CLIENT);
    if server {
        put(&mut out, code::SERVER_ID, DUID);
    }
    out.extend_from_slice(rest);
    out
}

/// Identity associations of a reply with their addresses, and whether it has Rapid Commit. Replies differ from requests in their
/// type only, as far as this goes.
fn read(reply: &[u8]) -> (Vec<Ia>, bool) {
    let message = Message::parse(reply).expect("a reply that can be read");
    (message.ias, message.rapid_commit)
}

impl Rig {
    fn new() -> Self {
        let range = |kind, first: &str, last: &str, prefix_len| Range {
            group: 1,
            kind,
            first: first.parse().expect("an address"),
            last: last.parse().expect("an address"),
            prefix_len,
            excluded: Vec::new(),
        };
        let na = range(Kind::Na, "2001:db8::10", "2001:db8::1f", 128);
        let pd = range(Kind::Pd, "2001:db8:100::", "2001:db8:100:f00::", 56);
        let (valid, preferred) = (Duration::from_secs(3600), Duration::from_secs(1800));
        let dns = vec!["2001:db8::53".parse().expect("an address")];
        let group = Group { valid, preferred, dns, rapid_commit: true, addresses: true };
        let config = Config { duid: DUID.to_vec(), offer: Duration::from_secs(10), max_waiting: 100 };
        let server = Dhcp6Server::new(config, [(1, group)]);
        let pools = Pools::new(&[na, pd], Limits::default()).expect("good pools");
        Self { server, pools, now: Time::from_secs(1_000_000), sent: 0 }
    }

    fn send(&mut self, octets: &[u8]) -> Outcome {
        self.sent += 1;
        let source = Mac([2, 0, 0, 0, 0, 7]);
        let request = Request { line: LINE, group: 1, source, client: source, from: PEER, octets };
        self.server.receive(&mut self.pools, self.now, &request)
    }

    fn reply(&mut self) -> Reply {
        match self.server.next_action() {
            Some(Action::Send(reply)) => {
                // An independent reader, which can't read what relay agents carry.
                if reply.to.2 == CLIENT_PORT {
                    let read =
                        v6::Message::decode(&mut v6::Decoder::new(&reply.octets)).expect("a reply that can be read");
                    assert_eq!(
                        (u8::from(read.msg_type()), read.opts().get(v6::OptionCode::ServerId).is_some()),
                        (reply.kind as u8, true)
                    );
                }
                reply
            }
            other => panic!("a reply, not {other:?}"),
        }
    }

    /// Makes everything durable that is to be stored; how many records there were.
    fn store(&mut self) -> usize {
        let mut tickets = Vec::new();
        while self.server.actions.next_is_store() {
            let Some(Action::Store(ticket, _)) = self.server.next_action() else { break };
            tickets.push(ticket);
        }
        tickets.iter().for_each(|ticket| self.server.durable(*ticket));
        tickets.len()
    }

    fn bind(&mut self) -> Vec<Ia> {
        let both = [ia(Kind::Na, 1, None), ia(Kind::Pd, 2, None)].concat();
        assert_eq!(self.send(&octets(Type::Request, true, &both)), Outcome::Stored);
        assert_eq!(self.store(), 2);
        read(&self.reply().octets).0
    }

    fn done(&mut self) {
        assert_eq!(self.server.next_action(), None);
        let counted: u64 = Outcome::ALL.iter().map(|outcome| self.server.count(*outcome)).sum();
        assert_eq!((self.server.received(), counted), (self.sent, self.sent));
    }
}

#[test]
fn address_and_prefix_are_advertised_then_granted() {
    let mut rig = Rig::new();
    let both = [ia(Kind::Na, 1, None), ia(Kind::Pd, 2, None)].concat();
    assert_eq!(rig.send(&octets(Type::Solicit, false, &both)), Outcome::Advertised);
    let advertise = rig.reply();
    assert_eq!((advertise.kind, advertise.to.1, advertise.to.2), (Type::Advertise, PEER, CLIENT_PORT));
    let (offered, _) = read(&advertise.octets);
    assert_eq!(rig.bind(), offered);
    assert_eq!(offered[0].address, Some("2001:db8::10".parse().unwrap()));
    assert_eq!(offered[1].address, Some("2001:db8:100::".parse().unwrap()));
    assert_eq!(rig.pools.bound(), 2);
    rig.done();
}

#[test]
fn rapid_commit_waits_for_the_store() {
    let mut rig = Rig::new();
    let mut rest = ia(Kind::Pd, 2, None);
    put(&mut rest, code::RAPID_COMMIT, &[]);
    assert_eq!(rig.send(&octets(Type::Solicit, false, &rest)), Outcome::Stored);
    assert_eq!(rig.store(), 1);
    let reply = rig.reply();
    assert_eq!((reply.kind, read(&reply.octets).1), (Type::Reply, true));
    rig.done();
}

#[test]
fn renewals_extend_and_unknown_bindings_are_named() {
    let mut rig = Rig::new();
    let bound = rig.bind();
    rig.now = rig.now + Duration::from_secs(900);
    let known = ia(Kind::Na, 1, bound[0].address);
    assert_eq!(rig.send(&octets(Type::Renew, true, &known)), Outcome::Replied);
    assert_eq!(read(&rig.reply().octets).0, bound[..1]);
    assert_eq!(rig.send(&octets(Type::Rebind, false, &ia(Kind::Na, 9, None))), Outcome::Replied);
    assert_eq!(read(&rig.reply().octets).0, [Ia { kind: Kind::Na, iaid: 9, address: None }]);
    rig.done();
}

#[test]
fn release_and_decline_free_what_they_name() {
    let mut rig = Rig::new();
    let bound = rig.bind();
    rig.send(&octets(Type::Release, true, &ia(Kind::Pd, 2, bound[1].address)));
    assert!(matches!(rig.server.next_action(), Some(Action::Erase(_))));
    rig.reply();
    rig.send(&octets(Type::Decline, true, &ia(Kind::Na, 1, bound[0].address)));
    assert!(matches!(rig.server.next_action(), Some(Action::Erase(_))));
    rig.reply();
    assert_eq!((rig.pools.bound(), rig.pools.quarantined()), (0, 1));
    rig.done();
}

#[test]
fn declined_advertisement_is_only_released() {
    let mut rig = Rig::new();
    rig.send(&octets(Type::Solicit, false, &ia(Kind::Na, 1, None)));
    let offered = read(&rig.reply().octets).0[0].address;
    rig.send(&octets(Type::Decline, true, &ia(Kind::Na, 1, offered)));
    rig.reply();
    assert_eq!(rig.pools.quarantined(), 0);
    rig.done();
}

#[test]
fn relays_get_their_reply_back() {
    let mut rig = Rig::new();
    let mut inner = octets(Type::Solicit, false, &ia(Kind::Na, 1, None));
    for (hops, name) in [(0, &b"port 7"[..]), (1, b"trunk")] {
        let mut out = vec![12, hops];
        out.extend_from_slice(&[0; 16]);
        out.extend_from_slice(&PEER.octets());
        put(&mut out, code::INTERFACE_ID, name);
        put(&mut out, code::REMOTE_ID, &[0, 0, 0x0d, 0xe9, b'c']);
        put(&mut out, code::RELAY_MSG, &inner);
        inner = out;
    }
    let message = Message::parse(&inner).expect("relayed");
    let agent = message.agent().expect("an LDRA");
    assert_eq!((agent.interface_id, agent.remote_id), (Some(&b"port 7"[..]), Some(&b"c"[..])));
    assert_eq!(rig.send(&inner), Outcome::Advertised);
    let reply = rig.reply();
    assert_eq!((reply.octets[..2].to_vec(), reply.to.2), (vec![13, 1], SERVER_PORT));
    let find = |wanted: &[u8]| reply.octets.windows(wanted.len()).any(|part| part == wanted);
    assert!(find(b"port 7") && find(b"trunk"));
    rig.done();
}

/// A Relay-forward message around another.
fn relayed(hops: u8, (link, peer): (&str, &str), options: &[(u16, &[u8])], inner: &[u8]) -> Vec<u8> {
    let mut out = vec![12, hops];
    for text in [link, peer] {
        out.extend_from_slice(&text.parse::<Ipv6Addr>().expect("an address").octets());
    }
    options.iter().for_each(|(code, data)| put(&mut out, *code, data));
    put(&mut out, code::RELAY_MSG, inner);
    out
}

#[test]
fn innermost_ldra_names_the_line() {
    let solicit = octets(Type::Solicit, false, &ia(Kind::Na, 1, None));
    let name = |text: &'static str| (code::INTERFACE_ID, text.as_bytes());
    let mac = |last: u8| [0, 1, 2, 0, 0, 0, 0, last];
    // A subscriber's own relay agent, behind the access node.
    let own =
        relayed(0, ("2001:db8::1", "fe80::7"), &[name("forged"), (code::CLIENT_LINK_LAYER, &mac(0x66))], &solicit);
    let node = relayed(1, ("::", "fe80::1"), &[name("port 7")], &own);
    let router = relayed(2, ("2001:db8::9", "fe80::1"), &[name("trunk"), (code::CLIENT_LINK_LAYER, &mac(7))], &node);
    // A relay agent that took it from another across routers has no link address either, and is no LDRA.
    let far = relayed(3, ("::", "2001:db8::9"), &[name("uplink")], &router);
    let message = Message::parse(&far).expect("relayed");
    assert_eq!(message.relays.len(), 4);
    assert_eq!(message.agent().and_then(|agent| agent.interface_id), Some(&b"port 7"[..]));
    assert_eq!(message.client_mac(), Some(Mac([2, 0, 0, 0, 0, 7])));
    let routers = relayed(1, ("::", "2001:db8::9"), &[name("uplink")], &own);
    let message = Message::parse(&routers).expect("relayed");
    assert_eq!(message.agent().and_then(|agent| agent.interface_id), Some(&b"forged"[..]), "the first hop names it");
    assert_eq!(message.client_mac(), Some(Mac([2, 0, 0, 0, 0, 0x66])));
    // The answer goes back by the same agents, each with its own name.
    let mut rig = Rig::new();
    assert_eq!(rig.send(&far), Outcome::Advertised);
    let (mut reply, mut names) = (rig.reply().octets, Vec::new());
    while reply[0] == 13 {
        let hops = reply[1];
        reply[0] = 12; // as it was asked
        let mut inner = Vec::new();
        let mut rest = &reply[34..];
        while let [a, b, c, d, tail @ ..] = rest {
            let (data, tail) = tail.split_at(usize::from(u16::from_be_bytes([*c, *d])));
            match u16::from_be_bytes([*a, *b]) {
                code::INTERFACE_ID => names.push((hops, String::from_utf8_lossy(data).into_owned())),
                code::RELAY_MSG => inner = data.to_vec(),
                other => panic!("option {other}"),
            }
            rest = tail;
        }
        reply = inner;
    }
    let wanted = [(3, "uplink"), (2, "trunk"), (1, "port 7"), (0, "forged")];
    assert_eq!(names, wanted.map(|(hops, name)| (hops, name.to_owned())));
    assert_eq!(reply[0], Type::Advertise as u8);
    rig.done();
}

#[test]
fn identifiers_longer_than_a_duid_are_dropped() {
    let mut rig = Rig::new();
    let mut solicit = |len: usize| {
        let mut octets = vec![Type::Solicit as u8, 1, 2, 3];
        put(&mut octets, code::CLIENT_ID, &vec![7; len]);
        octets.extend_from_slice(&ia(Kind::Na, 1, None));
        let outcome = rig.send(&octets);
        while rig.server.next_action().is_some() {}
        outcome
    };
    use Outcome::{Advertised, NoClientId};
    assert_eq!([0, 1, 130, 131, 1400].map(&mut solicit), [NoClientId, Advertised, Advertised, NoClientId, NoClientId]);
    rig.done();
}

#[test]
fn hop_count_is_limited() {
    let nest = |agents: u8, first: u8| {
        let solicit = octets(Type::Solicit, false, &[]);
        (0..agents).fold(solicit, |inner, n| relayed(first + n, ("::", "fe80::7"), &[], &inner))
    };
    // The last agent that may forward has received a hop count of 7.
    assert_eq!(Message::parse(&nest(9, 0)).map(|message| message.relays.len()), Ok(9));
    assert!(Message::parse(&nest(10, 0)).is_err());
    assert!(Message::parse(&nest(1, HOP_COUNT_LIMIT)).is_ok());
    assert!(Message::parse(&nest(1, HOP_COUNT_LIMIT + 1)).is_err());
}

#[test]
fn clients_of_a_relay_agent_are_told_apart() {
    let mut rig = Rig::new();
    let mut key = |client: Mac| {
        let octets = octets(Type::Request, true, &ia(Kind::Na, 1, None));
        let request = Request { line: LINE, group: 1, source: Mac([2; 6]), client, from: PEER, octets: &octets };
        assert_eq!(rig.server.receive(&mut rig.pools, rig.now, &request), Outcome::Stored);
        let Some(Action::Store(ticket, record)) = rig.server.next_action() else { panic!("a record") };
        rig.server.durable(ticket);
        assert_eq!(rig.reply().to.0, Mac([2; 6]), "the reply goes to the relay agent");
        record.key.client.mac
    };
    assert_eq!((key(Mac([4; 6])), key(Mac([6; 6]))), ([4; 6], [6; 6]));
}

#[test]
fn messages_against_clause_16_are_dropped() {
    let mut rig = Rig::new();
    assert_eq!(rig.send(&octets(Type::Solicit, true, &[])), Outcome::OtherServer);
    assert_eq!(rig.send(&octets(Type::Request, false, &[])), Outcome::OtherServer);
    assert_eq!(rig.send(&[Type::Solicit as u8, 0, 0, 0]), Outcome::NoClientId);
    assert_eq!(rig.send(&octets(Type::Confirm, false, &[])), Outcome::NothingToConfirm);
    assert_eq!(rig.send(&octets(Type::Reply, true, &[])), Outcome::NotARequest);
    assert_eq!(rig.send(&octets(Type::InformationRequest, false, &[])), Outcome::Replied);
    rig.reply();
    let whole = octets(Type::Solicit, false, &ia(Kind::Na, 1, None));
    for len in 0..whole.len() {
        rig.send(&whole[..len]);
        while rig.server.next_action().is_some() {}
    }
    rig.done();
}
