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
        let request = Request { line: LINE, group: 1, source: Mac([2, 0, 0, 0, 0, 7]), from: PEER, octets };
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
