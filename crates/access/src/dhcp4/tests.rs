use super::*;
use crate::pool::{Limits, Range};
use dhcproto::v4::{self, Decodable};

const SERVER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const LEASE: Duration = Duration::from_secs(3600);
const MAC: Mac = Mac([2, 0, 0, 0, 0, 7]);
const LINE: Line = Line { port: 1, s_vlan: 100, c_vlan: 7 };

struct Rig {
    server: Dhcp4Server,
    pools: Pools,
    now: Time,
    sent: u64,
}

#[derive(Clone, Default)]
struct Client {
    ciaddr: [u8; 4],
    giaddr: [u8; 4],
    flags: u16,
    options: Vec<(u8, Vec<u8>)>,
}

impl Client {
    fn with(options: &[(u8, &[u8])]) -> Self {
        Self { options: options.iter().map(|(code, data)| (*code, data.to_vec())).collect(), ..Self::default() }
    }

    fn octets(&self, kind: Type) -> Vec<u8> {
        let mut out = vec![1, 1, 6, 0, 1, 2, 3, 4, 0, 0];
        out.extend_from_slice(&self.flags.to_be_bytes());
        out.extend_from_slice(&[self.ciaddr, [0; 4], [0; 4], self.giaddr].concat());
        out.extend_from_slice(&MAC.0);
        out.resize(236, 0);
        out.extend_from_slice(&[99, 130, 83, 99, 53, 1, kind as u8]);
        for (code, data) in &self.options {
            out.extend_from_slice(&[*code, data.len() as u8]);
            out.extend_from_slice(data);
        }
        out.push(255);
        out
    }
}

impl Rig {
    fn new() -> Self {
        let range = Range::ip4(1, [10, 0, 0, 10].into(), [10, 0, 0, 19].into());
        let options = Options {
            prefix_len: 24,
            routers: vec![SERVER],
            dns: vec![[9, 9, 9, 9].into(), [1, 1, 1, 1].into()],
            domain: "example.net".into(),
            ntp: vec![[10, 0, 0, 2].into()],
            routes: vec![([192, 0, 2, 0].into(), 24, SERVER), ([0, 0, 0, 0].into(), 0, SERVER)],
            ..Options::default()
        };
        let group = Group { server: SERVER, lease: LEASE, options };
        let server = Dhcp4Server::new(Config::default(), [(1, group)]).expect("good options");
        let pools = Pools::new(&[range], Limits::default()).expect("a good pool");
        Self { server, pools, now: Time::from_secs(1_000_000), sent: 0 }
    }

    fn send(&mut self, client: &Client, kind: Type) -> Outcome {
        self.send_from(client, kind, MAC, client.ciaddr.into(), false)
    }

    fn send_from(&mut self, client: &Client, kind: Type, source: Mac, from: Ipv4Addr, routed: bool) -> Outcome {
        self.sent += 1;
        let octets = client.octets(kind);
        let request = Request { line: LINE, group: 1, source, from, routed, octets: &octets };
        self.server.receive(&mut self.pools, self.now, &request)
    }

    fn reply(&mut self) -> Reply {
        match self.server.next_action() {
            Some(Action::Send(reply)) => {
                // An independent reader.
                let read = v4::Message::decode(&mut v4::Decoder::new(&reply.octets)).expect("a reply that can be read");
                assert_eq!(
                    (read.opcode(), read.xid(), read.yiaddr()),
                    (v4::Opcode::BootReply, 0x0102_0304, reply.address)
                );
                assert_eq!((read.chaddr(), read.opts().msg_type().map(u8::from)), (&MAC.0[..], Some(reply.kind as u8)));
                reply
            }
            other => panic!("a reply, not {other:?}"),
        }
    }

    fn stored(&mut self) -> (Ticket, LeaseRecord) {
        match self.server.next_action() {
            Some(Action::Store(ticket, record)) => (ticket, record),
            other => panic!("a record, not {other:?}"),
        }
    }

    /// Brings the client up; returns its address.
    fn bind(&mut self) -> Ipv4Addr {
        self.bind_by(None)
    }

    /// As [`bind`](Self::bind), through an access node that writes that option 82.
    fn bind_by(&mut self, agent: Option<&[u8]>) -> Ipv4Addr {
        assert_eq!(self.send(&by(agent, &[]), Type::Discover), Outcome::Offered);
        let address = self.reply().address;
        let request = by(agent, &[(50, &address.octets()), (54, &SERVER.octets())]);
        assert_eq!(self.send(&request, Type::Request), Outcome::Stored);
        let (ticket, _) = self.stored();
        self.server.durable(ticket);
        assert_eq!(self.reply().kind, Type::Ack);
        address
    }

    /// Nothing is left to do, and every request has one outcome.
    fn done(&mut self) {
        assert_eq!(self.server.next_action(), None);
        let counted: u64 = Outcome::ALL.iter().map(|outcome| self.server.count(*outcome)).sum();
        assert_eq!((self.server.received(), counted), (self.sent, self.sent));
    }
}

/// A message with an access node's option 82.
fn by(agent: Option<&[u8]>, options: &[(u8, &[u8])]) -> Client {
    let options = options.iter().copied().chain(agent.map(|agent| (82, agent)));
    Client::with(&options.collect::<Vec<_>>())
}

fn options(reply: &Reply) -> Vec<(u8, Vec<u8>)> {
    message::Options::of(&reply.octets).map(|(code, data)| (code, data.to_vec())).collect()
}

#[test]
fn ack_follows_the_durable_record() {
    let mut rig = Rig::new();
    rig.send(&Client::default(), Type::Discover);
    let offer = rig.reply();
    assert_eq!((offer.kind, offer.to), (Type::Offer, Destination::Unicast(MAC, offer.address)));
    let request = Client::with(&[(50, &offer.address.octets()), (54, &SERVER.octets())]);
    rig.send(&request, Type::Request);
    let (ticket, record) = rig.stored();
    assert_eq!((record.ip4(), record.expiry), (Some(offer.address), 1_000_000 + 7200));
    assert_eq!(rig.server.next_action(), None);
    // A repeated REQUEST does not overtake the store.
    assert_eq!(rig.send(&request, Type::Request), Outcome::Stored);
    assert_eq!(rig.server.next_action(), None);
    rig.server.durable(ticket);
    assert_eq!(rig.reply().address, offer.address);
    rig.done();
}

#[test]
fn options_are_sent_as_configured() {
    let mut rig = Rig::new();
    rig.send(&Client::with(&[(61, &[1, 2, 3]), (82, &[1, 2, b'a', b'b'])]), Type::Discover);
    let got = options(&rig.reply());
    let codes: Vec<_> = got.iter().map(|(code, _)| *code).collect();
    assert_eq!(codes, [53, 54, 51, 58, 59, 1, 3, 6, 15, 42, 121, 61, 82]);
    let of = |wanted| &got.iter().find(|(code, _)| *code == wanted).expect("there").1;
    assert_eq!(of(51), &3600u32.to_be_bytes());
    assert_eq!((of(58), of(59)), (&1800u32.to_be_bytes().to_vec(), &3150u32.to_be_bytes().to_vec()));
    assert_eq!(of(1), &[255, 255, 255, 0]);
    assert_eq!(of(121), &[24, 192, 0, 2, 10, 0, 0, 1, 0, 10, 0, 0, 1]);
    assert_eq!((of(61), of(82)), (&vec![1, 2, 3], &vec![1, 2, b'a', b'b']));
    rig.done();
}

#[test]
fn two_of_three_renewals_write_nothing() {
    let mut rig = Rig::new();
    let address = rig.bind();
    let renewal = Client { ciaddr: address.octets(), ..Client::default() };
    let outcomes: Vec<_> = (0..6)
        .map(|_| {
            rig.now = rig.now + LEASE / 2;
            crate::expire(&mut rig.pools, Some(&mut rig.server), None, rig.now, 100);
            let outcome = rig.send(&renewal, Type::Request);
            if outcome == Outcome::Stored {
                let (ticket, _) = rig.stored();
                rig.server.durable(ticket);
            }
            assert_eq!(rig.reply().to, Destination::Unicast(MAC, address));
            outcome
        })
        .collect();
    use Outcome::{Acknowledged as A, Stored as S};
    assert_eq!(outcomes, [A, A, S, A, A, S]);
    rig.done();
}

#[test]
fn replies_go_where_rfc_2131_sends_them() {
    let mut rig = Rig::new();
    rig.send(&Client { flags: Message::BROADCAST, ..Client::default() }, Type::Discover);
    assert_eq!(rig.reply().to, Destination::Broadcast);
    rig.send(&Client { giaddr: [10, 0, 0, 2], ..Client::default() }, Type::Discover);
    assert_eq!(rig.reply().to, Destination::Relay([10, 0, 0, 2].into()));
    rig.send(&Client { ciaddr: [10, 0, 0, 77], ..Client::default() }, Type::Inform);
    let inform = rig.reply();
    assert_eq!((inform.to, inform.address), (Destination::Unicast(MAC, [10, 0, 0, 77].into()), [0, 0, 0, 0].into()));
    assert!(options(&inform).iter().all(|(code, _)| ![51, 58, 59].contains(code)));
    let wrong = Client { giaddr: [10, 0, 0, 2], ..Client::with(&[(50, &[10, 9, 9, 9])]) };
    assert_eq!(rig.send(&wrong, Type::Request), Outcome::Refused);
    let nak = rig.reply();
    assert_eq!((nak.kind, nak.octets[10] & 0x80), (Type::Nak, 0x80));
    rig.done();
}

#[test]
fn wrong_addresses_get_a_nak() {
    let mut rig = Rig::new();
    let address = rig.bind();
    for client in [
        Client::with(&[(50, &[10, 0, 0, 19]), (54, &SERVER.octets())]),
        Client::with(&[(50, &[192, 0, 2, 1])]),
        Client { ciaddr: [10, 0, 0, 18], ..Client::default() },
    ] {
        assert_eq!(rig.send(&client, Type::Request), Outcome::Refused);
        assert_eq!((rig.reply().kind, rig.pools.bound()), (Type::Nak, 1));
    }
    let reboot = Client::with(&[(50, &address.octets())]);
    assert_eq!(rig.send(&reboot, Type::Request), Outcome::Acknowledged);
    assert_eq!(rig.reply().address, address);
    rig.done();
}

#[test]
fn release_and_decline_end_the_lease() {
    let mut rig = Rig::new();
    let address = rig.bind();
    let release = Client { ciaddr: address.octets(), ..Client::with(&[(54, &SERVER.octets())]) };
    let outcomes: Vec<_> = (0..3).map(|_| rig.send(&release, Type::Release)).collect();
    assert_eq!(outcomes, [Outcome::Released, Outcome::NotTheLease, Outcome::NotTheLease]);
    assert!(matches!(rig.server.next_action(), Some(Action::Erase(_))));
    assert_eq!(rig.bind(), address);
    assert_eq!(rig.send(&Client::with(&[(50, &address.octets())]), Type::Decline), Outcome::Declined);
    assert!(matches!(rig.server.next_action(), Some(Action::Erase(_))));
    assert_ne!(rig.bind(), address);
    rig.done();
}

/// Option 82 with a circuit ID, and a rate that is another one each time.
fn agent(circuit: u8, rate: u8) -> [u8; 16] {
    [1, 1, circuit, 9, 11, 0, 0, 0x0d, 0xe9, 6, 0x81, 4, 0, 0, 0, rate]
}

#[test]
fn neighbours_release_no_lease() {
    let mut rig = Rig::new();
    let (own, other) = (agent(7, 1), agent(8, 1));
    let address = rig.bind_by(Some(&own));
    let release = |agent: Option<&[u8]>| Client { ciaddr: address.octets(), ..by(agent, &[(54, &SERVER.octets())]) };
    let stranger = Ipv4Addr::new(10, 0, 0, 99);
    for (client, from) in [(release(Some(&other)), address), (release(None), address), (release(Some(&own)), stranger)]
    {
        assert_eq!(rig.send_from(&client, Type::Release, MAC, from, false), Outcome::NotTheLease);
    }
    let decline = by(Some(&other), &[(50, &address.octets())]);
    assert_eq!(rig.send(&decline, Type::Decline), Outcome::NotTheLease);
    // Nor after a renewal of theirs: the line that a lease was granted by counts.
    let renewal = Client { ciaddr: address.octets(), ..by(Some(&other), &[]) };
    assert_eq!(rig.send(&renewal, Type::Request), Outcome::Acknowledged);
    rig.reply();
    assert_eq!(rig.send(&release(Some(&other)), Type::Release), Outcome::NotTheLease);
    assert_eq!(
        rig.send(&release(Some(&agent(7, 2))), Type::Release),
        Outcome::Released,
        "the rate is another one by now"
    );
    assert!(matches!(rig.server.next_action(), Some(Action::Erase(_))));
    rig.done();
}

#[test]
fn clients_behind_a_router_renew_and_release() {
    let mut rig = Rig::new();
    let (router, relay) = (Mac([2, 0, 0, 0, 0, 1]), [10, 0, 0, 254]);
    let through = |options: &[(u8, &[u8])]| Client { giaddr: relay, ..by(Some(&agent(7, 1)), options) };
    assert_eq!(rig.send_from(&through(&[]), Type::Discover, router, relay.into(), true), Outcome::Offered);
    let address = rig.reply().address;
    let renewal = Client { ciaddr: address.octets(), ..Client::default() };
    let renew = |rig: &mut Rig, from, routed| rig.send_from(&renewal, Type::Request, router, from, routed);
    assert_eq!(renew(&mut rig, address, true), Outcome::HardwareAddress, "what is only offered is not renewed");
    let request = through(&[(50, &address.octets()), (54, &SERVER.octets())]);
    assert_eq!(rig.send_from(&request, Type::Request, router, relay.into(), true), Outcome::Stored);
    let (ticket, _) = rig.stored();
    rig.server.durable(ticket);
    assert_eq!(rig.reply().to, Destination::Relay(relay.into()));
    assert_eq!(renew(&mut rig, address, true), Outcome::Acknowledged);
    assert_eq!(rig.reply().to, Destination::Unicast(router, address));
    assert_eq!(renew(&mut rig, address, false), Outcome::HardwareAddress, "relay agents are not trusted");
    assert_eq!(renew(&mut rig, relay.into(), true), Outcome::HardwareAddress, "from another address");
    let release = Client { ciaddr: address.octets(), ..Client::with(&[(54, &SERVER.octets())]) };
    assert_eq!(rig.send_from(&release, Type::Release, router, relay.into(), true), Outcome::HardwareAddress);
    assert_eq!(rig.send_from(&release, Type::Release, router, address, true), Outcome::Released);
    assert!(matches!(rig.server.next_action(), Some(Action::Erase(_))));
    rig.done();
}

#[test]
fn renewal_leaves_another_vrfs_ack_alone() {
    let mut rig = Rig::new();
    let mut other = Rig::new().pools;
    other.set_number(1);
    let address = rig.bind();
    std::mem::swap(&mut rig.pools, &mut other);
    // The same slot of other pools, whose ACK waits.
    rig.send(&Client::default(), Type::Discover);
    let waiting = rig.reply().address;
    let request = Client::with(&[(50, &waiting.octets()), (54, &SERVER.octets())]);
    assert_eq!(rig.send(&request, Type::Request), Outcome::Stored);
    let (ticket, _) = rig.stored();
    std::mem::swap(&mut rig.pools, &mut other);
    let renewal = Client { ciaddr: address.octets(), ..Client::default() };
    assert_eq!(rig.send(&renewal, Type::Request), Outcome::Acknowledged);
    assert_eq!(rig.reply().to, Destination::Unicast(MAC, address));
    rig.server.durable(ticket);
    assert_eq!(rig.reply().address, waiting);
    rig.done();
}

#[test]
fn declined_offer_is_only_released() {
    let mut rig = Rig::new();
    rig.send(&Client::default(), Type::Discover);
    let address = rig.reply().address;
    assert_eq!(rig.send(&Client::with(&[(50, &address.octets())]), Type::Decline), Outcome::Released);
    assert_eq!(rig.pools.quarantined(), 0);
    assert_eq!(rig.bind(), address);
    rig.done();
}

#[test]
fn other_servers_choice_frees_the_offer() {
    let mut rig = Rig::new();
    rig.send(&Client::default(), Type::Discover);
    rig.reply();
    let other = Client::with(&[(50, &[10, 0, 0, 10]), (54, &[10, 0, 0, 99])]);
    assert_eq!(rig.send(&other, Type::Request), Outcome::OtherServer);
    assert!(rig.pools.granted().next().is_none());
    rig.done();
}

#[test]
fn refused_record_gives_no_ack() {
    let mut rig = Rig::new();
    rig.send(&Client::default(), Type::Discover);
    let address = rig.reply().address;
    let request = Client::with(&[(50, &address.octets()), (54, &SERVER.octets())]);
    rig.send(&request, Type::Request);
    let (ticket, _) = rig.stored();
    rig.server.not_stored(&mut rig.pools, ticket);
    assert_eq!(rig.server.next_action(), None);
    assert_eq!(rig.send(&request, Type::Request), Outcome::Stored);
    assert!(rig.stored().0 > ticket);
    rig.done();
}

#[test]
fn spoofed_and_unreadable_requests_are_counted() {
    let mut rig = Rig::new();
    let octets = Client::default().octets(Type::Discover);
    let spoofed = Request {
        line: LINE,
        group: 1,
        source: Mac([2; 6]),
        from: Ipv4Addr::UNSPECIFIED,
        routed: false,
        octets: &octets,
    };
    assert_eq!(rig.server.receive(&mut rig.pools, rig.now, &spoofed), Outcome::HardwareAddress);
    let unknown = Request { group: 9, source: MAC, ..spoofed };
    assert_eq!(rig.server.receive(&mut rig.pools, rig.now, &unknown), Outcome::UnknownGroup);
    for len in 0..octets.len() {
        let cut = Request { octets: &octets[..len], ..unknown };
        rig.server.receive(&mut rig.pools, rig.now, &cut);
    }
    rig.sent = octets.len() as u64 + 2;
    rig.done();
}

#[test]
fn restart_renumbers_nobody() {
    let mut rig = Rig::new();
    let address = rig.bind();
    let slot = rig.pools.granted().next().expect("one lease");
    let record = rig.pools.record(slot);
    let mut after = Rig::new();
    after.now = rig.now + LEASE / 2;
    after.server.restore(&mut after.pools, &record, after.now).expect("restored");
    let renewal = Client { ciaddr: address.octets(), ..Client::default() };
    assert_eq!(after.send(&renewal, Type::Request), Outcome::Acknowledged);
    assert_eq!(after.reply().address, address);
    after.done();
}

#[test]
fn expired_lease_is_erased_and_free() {
    let mut rig = Rig::new();
    rig.bind();
    rig.now = rig.now + LEASE;
    assert!(!crate::expire(&mut rig.pools, Some(&mut rig.server), None, rig.now, 100));
    assert!(matches!(rig.server.next_action(), Some(Action::Erase(_))));
    assert_eq!(rig.pools.bound(), 0);
    rig.done();
}
