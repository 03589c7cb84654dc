//! A translator against a plain model: mappings in a map, blocks replayed from the log.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use engine::Drop;
use proptest::prelude::*;
use table::ring::{Consumer, ring};
use testkit::packet::{Packet, ip4};
use wire::tcp::flag;
use wire::{L3L4, checksum, icmp, icmp4, tcp, udp};

use super::kind::Protocol;
use super::rewrite::End;
use super::translate::Way;
use super::*;

const SECOND: u64 = 1_000_000_000;
const INSTANCE: u16 = 7;
const REMOTE: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 5);
const FIRST: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 0);

fn ue(n: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 60, 0, n)
}

fn config() -> Config {
    let pool = Pool { instance: INSTANCE, first: FIRST, last: Ipv4Addr::new(198, 51, 100, 3) };
    Config {
        pools: vec![pool],
        block_ports: 64,
        blocks_per_subscriber: 2,
        mappings: 1000,
        subscribers: 50,
        fragments: 64,
        ..Config::default()
    }
}

struct Rig {
    nat: Nat,
    log: Consumer<BlockEvent>,
}

impl Rig {
    fn new(config: &Config) -> Self {
        let (producer, log) = ring(1024);
        Self { nat: Nat::new(config, 0, 1, producer, 0).expect("a translator"), log }
    }

    fn outward(&mut self, session: u32, packet: &mut [u8]) -> Result<Way, Drop> {
        let mut ip = L3L4::parse(packet).expect("a packet");
        let mut ticket = self.nat.look(0, &ip, packet, End::Source);
        self.nat.find(&mut ticket, End::Source);
        let way = self.nat.outward(&ticket, session, &mut ip, packet)?;
        assert_eq!(L3L4::parse(packet), Ok(ip), "the lane knows what stands in the packet");
        is_sound(packet);
        Ok(way)
    }

    fn inward(&mut self, packet: &mut [u8]) -> Result<(), Drop> {
        let mut ip = L3L4::parse(packet).expect("a packet");
        let mut ticket = self.nat.look(0, &ip, packet, End::Destination);
        self.nat.find(&mut ticket, End::Destination);
        self.nat.inward(&ticket, &mut ip, packet)?;
        assert_eq!(L3L4::parse(packet), Ok(ip), "the lane knows what stands in the packet");
        is_sound(packet);
        Ok(())
    }

    /// The public end a UDP packet from a subscriber's port gets.
    fn udp(&mut self, from: (Ipv4Addr, u16)) -> Result<(Ipv4Addr, u16), Drop> {
        let mut packet = ip4(from.0, REMOTE).udp(from.1, 53).filled(20).build();
        self.outward(1, &mut packet)?;
        let ip = L3L4::parse(&packet).expect("a packet");
        Ok((ip.src.into(), ip.src_port))
    }

    /// Time passes in steps of a second.
    fn until(&mut self, second: u64) {
        let from = u64::from(self.nat.now) * (1 << 27) / SECOND;
        (from..=second).for_each(|second| while !self.nat.tick(second * SECOND) {});
    }
}

/// All checksums are right, those of a quoted packet too.
fn is_sound(packet: &[u8]) {
    let ip = L3L4::parse(packet).expect("a packet");
    if ip.fragment != wire::Fragment::Whole {
        return;
    }
    let l4 = &packet[usize::from(ip.l4)..];
    let pseudo = checksum::pseudo4(ip.src, ip.dst, ip.protocol, l4.len() as u16);
    match ip.protocol {
        wire::protocol::TCP => assert!(tcp::Packet::new_checked(l4).expect("TCP").is_checksum_right(pseudo)),
        wire::protocol::UDP => assert!(udp::Packet::new_checked(l4).expect("UDP").is_checksum_right(pseudo)),
        _ => {
            assert!(checksum::is_valid(checksum::sum(l4)));
            if !matches!(l4[0], 0 | 8) {
                is_sound(&l4[8..]);
            }
        }
    }
}

/// A TCP segment with flags.
fn segment(src: (Ipv4Addr, u16), dst: (Ipv4Addr, u16), flags: u8) -> Vec<u8> {
    let mut packet = ip4(src.0, dst.0).tcp(src.1, dst.1).filled(7).build();
    let ip = L3L4::parse(&packet).expect("a packet");
    let l4 = &mut packet[20..];
    let pseudo = checksum::pseudo4(ip.src, ip.dst, ip.protocol, l4.len() as u16);
    let mut view = tcp::Packet::new_checked(l4).expect("TCP");
    view.set_flags(flags);
    view.fill_checksum(pseudo);
    packet
}

/// An ICMP error about `about`.
fn error(from: Ipv4Addr, to: Ipv4Addr, about: &[u8]) -> Vec<u8> {
    let mut packet = ip4(from, to).icmp4(icmp4::kind::UNREACHABLE, icmp4::unreachable::PORT, 0).payload(about).build();
    icmp4::Packet::new_checked(&mut packet[20..]).expect("ICMP").fill_checksum(icmp::NO_PSEUDO_HEADER);
    packet
}

#[test]
fn who_has_which_block_is_told_bit_by_bit() {
    let mut rig = Rig::new(&config());
    let ports: Vec<_> = (1..=9).map(|n| (n, rig.udp((ue(n), 1000)).expect("a port"))).collect();
    rig.udp((ue(3), 1001)).expect("another port of its block");
    let (mut told, mut from) = (BTreeMap::new(), Some(0));
    while let Some(start) = from {
        from = rig.nat.given(start, 100, |block, mappings| {
            told.insert(block.private, (block, mappings));
        });
    }
    assert_eq!((told.len(), rig.nat.blocks()), (9, 9));
    for (n, (public, port)) in ports {
        let (block, mappings) = told[&ue(n)];
        assert_eq!((block.instance, block.public, mappings), (INSTANCE, public, if n == 3 { 2 } else { 1 }));
        assert!((block.first_port..=block.last_port).contains(&port), "{block:?} {port}");
    }
}

#[test]
fn there_and_back_by_every_protocol() {
    type There = fn(Packet) -> Packet;
    type Back = fn(Packet, u16) -> Packet;
    let mut rig = Rig::new(&config());
    let back = |packet: &[u8], make: Back| {
        let ip = L3L4::parse(packet).expect("a packet");
        let port = match ip.protocol {
            wire::protocol::ICMP4 => u16::from_be_bytes([packet[24], packet[25]]),
            _ => ip.src_port,
        };
        make(ip4(REMOTE, Ipv4Addr::from(ip.src)), port).filled(9).build()
    };
    let makes: [(There, Back); 3] = [
        (|ip| ip.udp(1000, 53), |ip, port| ip.udp(53, port)),
        (|ip| ip.tcp(1000, 80), |ip, port| ip.tcp(80, port)),
        (|ip| ip.ping(1000, 3), |ip, port| ip.pong(port, 3)),
    ];
    for (there, back_again) in makes {
        let mut packet = there(ip4(ue(1), REMOTE)).filled(33).build();
        assert_eq!(rig.outward(1, &mut packet), Ok(Way::On));
        let ip = L3L4::parse(&packet).expect("a packet");
        assert!((u32::from(FIRST)..=u32::from(FIRST) + 3).contains(&ip.src));
        let mut reply = back(&packet, back_again);
        assert_eq!(rig.inward(&mut reply), Ok(()));
        let ip = L3L4::parse(&reply).expect("a packet");
        assert_eq!(Ipv4Addr::from(ip.dst), ue(1));
        let port = if ip.protocol == wire::protocol::ICMP4 { [reply[24], reply[25]] } else { [reply[22], reply[23]] };
        assert_eq!(u16::from_be_bytes(port), 1000);
    }
    assert_eq!((rig.nat.mappings(), rig.nat.blocks(), rig.nat.subscribers()), (3, 1, 1));
    assert!(rig.nat.public_of(INSTANCE, ue(1)).is_some());
}

#[test]
fn options_and_missing_udp_checksums_are_left_alone() {
    let mut rig = Rig::new(&config());
    let mut packet = ip4(ue(1), REMOTE).options([148, 4, 0, 0]).udp(1000, 53).checksum(0).filled(5).build();
    assert_eq!(rig.outward(1, &mut packet), Ok(Way::On));
    assert_eq!(packet[24 + 6..24 + 8], [0, 0]);
}

#[test]
fn one_block_one_event_and_no_more_than_allowed() {
    let mut rig = Rig::new(&config());
    let ends: BTreeSet<_> = (0..128).map(|port| rig.udp((ue(1), port)).expect("a port")).collect();
    assert_eq!(ends.len(), 128, "no port twice");
    assert_eq!(rig.udp((ue(1), 128)), Err(Drop::NatNoPort));
    let events: Vec<_> = std::iter::from_fn(|| rig.log.pop()).collect();
    assert_eq!(events.len(), 2);
    for event in &events {
        assert_eq!((event.instance, event.private, event.ended), (INSTANCE, ue(1), None));
        assert_eq!(event.last_port - event.first_port, 63);
    }
    assert!(ends.iter().all(|(public, port)| {
        events.iter().any(|event| event.public == *public && (event.first_port..=event.last_port).contains(port))
    }));
    // Another protocol has ports of its own.
    assert_eq!(rig.outward(1, &mut ip4(ue(1), REMOTE).tcp(1, 2).build()), Ok(Way::On));
}

#[test]
fn a_log_that_is_behind_stops_new_blocks_and_loses_nothing() {
    let (producer, mut log) = ring(2);
    let mut rig = Rig { nat: Nat::new(&config(), 0, 1, producer, 0).expect("a translator"), log: ring(1).1 };
    assert!(rig.udp((ue(1), 1)).is_ok() && rig.udp((ue(2), 1)).is_ok());
    assert_eq!(rig.udp((ue(3), 1)), Err(Drop::NatLogFull));
    assert!(rig.udp((ue(2), 2)).is_ok(), "a block that one has is used on");
    rig.nat.end_session(INSTANCE, ue(1), SECOND);
    assert_eq!((rig.nat.blocks(), rig.nat.mappings()), (1, 2));
    assert_eq!(log.pop().map(|event| event.ended), Some(None));
    rig.until(3);
    assert_eq!(log.pop().map(|event| event.ended), Some(None));
    let ended = log.pop().expect("told later");
    assert_eq!((ended.private, ended.ended), (ue(1), Some(Ended::Session)));
}

#[test]
fn mappings_live_as_long_as_the_standards_say() {
    let life = |acts: &[(u64, bool, u8)], protocol: Protocol| {
        let mut rig = Rig::new(&config());
        let mut public = (FIRST, 0);
        let mut last = 0;
        for (at, out, flags) in acts {
            rig.until(*at);
            last = *at;
            let packet = match (protocol, out) {
                (Protocol::Udp, true) => ip4(ue(1), REMOTE).udp(9, 53).build(),
                (Protocol::Udp, false) => ip4(REMOTE, public.0).udp(53, public.1).build(),
                (_, true) => segment((ue(1), 9), (REMOTE, 80), *flags),
                (_, false) => segment((REMOTE, 80), public, *flags),
            };
            let mut packet = packet;
            if *out {
                rig.outward(1, &mut packet).expect("translated");
                let ip = L3L4::parse(&packet).expect("a packet");
                public = (ip.src.into(), ip.src_port);
            } else {
                rig.inward(&mut packet).expect("translated");
            }
        }
        (last..).find(|at| {
            rig.until(*at);
            rig.nat.mappings() == 0
        })
    };
    let near = |found: Option<u64>, expected: u64| {
        let found = found.expect("an end");
        assert!((expected..=expected + 1).contains(&found), "{found} instead of {expected}");
    };
    let (out, inw) = (true, false);
    near(life(&[(0, out, 0)], Protocol::Udp), 120);
    near(life(&[(0, out, 0), (5, inw, 0)], Protocol::Udp), 300);
    near(life(&[(0, out, 0), (5, inw, 0), (50, out, 0), (90, inw, 0)], Protocol::Udp), 350);
    near(life(&[(0, out, flag::SYN)], Protocol::Tcp), 240);
    near(life(&[(0, out, flag::SYN), (1, inw, flag::SYN | flag::ACK), (2, out, flag::ACK)], Protocol::Tcp), 7442);
    let open = [(0, out, flag::SYN), (1, inw, flag::SYN | flag::ACK), (2, out, flag::ACK)];
    let closed = [&open[..], &[(9, inw, flag::RST)]].concat();
    near(life(&closed, Protocol::Tcp), 249);
    let closed = [&open[..], &[(9, out, flag::FIN | flag::ACK), (10, inw, flag::FIN), (11, out, flag::ACK)]].concat();
    near(life(&closed, Protocol::Tcp), 251);
    let again = [&closed[..], &[(20, out, flag::SYN), (21, inw, flag::ACK), (22, out, flag::ACK)]].concat();
    near(life(&again, Protocol::Tcp), 7462);
}

#[test]
fn idle_blocks_go_back_and_are_held_before_anyone_has_them() {
    let small = Config { first_port: 65_536u32.wrapping_sub(64) as u16, ..config() };
    let pool = Pool { last: FIRST, ..small.pools[0] };
    let mut rig = Rig::new(&Config { pools: vec![pool], ..small });
    rig.udp((ue(1), 1)).expect("the only block");
    assert_eq!(rig.udp((ue(2), 1)), Err(Drop::NatNoPort));
    rig.until(119);
    assert_eq!(rig.nat.mappings(), 1);
    rig.until(122); // the mapping is gone, the block idle
    assert_eq!((rig.nat.mappings(), rig.nat.blocks()), (0, 1));
    rig.until(243); // given back, held
    assert_eq!((rig.nat.blocks(), rig.nat.subscribers()), (0, 0));
    assert_eq!(rig.udp((ue(2), 1)), Err(Drop::NatNoPort));
    rig.until(366);
    rig.udp((ue(2), 1)).expect("free again");
    let events: Vec<_> = std::iter::from_fn(|| rig.log.pop()).map(|event| (event.private, event.ended)).collect();
    assert_eq!(events, [(ue(1), None), (ue(1), Some(Ended::Idle)), (ue(2), None)]);
}

#[test]
fn an_ended_session_leaves_nothing_behind() {
    let mut rig = Rig::new(&config());
    let public = rig.udp((ue(1), 1)).expect("a port");
    (2..100).for_each(|port| assert!(rig.udp((ue(1), port)).is_ok()));
    rig.nat.end_session(INSTANCE, ue(1), SECOND);
    rig.nat.end_session(INSTANCE, ue(9), SECOND);
    rig.nat.end_session(INSTANCE + 1, ue(1), SECOND);
    assert_eq!((rig.nat.mappings(), rig.nat.blocks(), rig.nat.subscribers()), (0, 0, 0));
    assert_eq!(rig.inward(&mut ip4(REMOTE, public.0).udp(53, public.1).build()), Err(Drop::NatNoMapping));
    // Another session with the address, of which nobody told: nothing of the first reaches it.
    let before = rig.udp((ue(1), 1)).expect("a port");
    let mut other = ip4(ue(1), REMOTE).udp(1, 53).build();
    assert_eq!(rig.outward(2, &mut other), Ok(Way::On));
    let ip = L3L4::parse(&other).expect("a packet");
    assert_ne!((ip.src.into(), ip.src_port), before);
    assert_eq!(rig.inward(&mut ip4(REMOTE, before.0).udp(53, before.1).build()), Err(Drop::NatNoMapping));
}

#[test]
fn errors_are_translated_with_what_they_quote() {
    let mut rig = Rig::new(&config());
    let makes: [fn(Packet) -> Packet; 3] = [|ip| ip.udp(1000, 53), |ip| ip.tcp(1000, 80), |ip| ip.ping(1000, 3)];
    for make in makes {
        let mut sent = make(ip4(ue(1), REMOTE)).filled(40).build();
        let as_sent = sent.clone();
        rig.outward(1, &mut sent).expect("translated");
        let public = Ipv4Addr::from(L3L4::parse(&sent).expect("a packet").src);
        let router = Ipv4Addr::new(192, 0, 2, 1);
        let mut about = error(router, public, &sent);
        about[29] ^= 1;
        assert_eq!(rig.inward(&mut about.clone()), Err(Drop::NatNoMapping), "a wrong checksum");
        about[29] ^= 1;
        rig.inward(&mut about).expect("translated");
        assert_eq!(about[28..], as_sent);
        assert_eq!(about[16..20], ue(1).octets());
        // Eight bytes of the transport header are enough.
        let mut short = error(router, public, &sent[..28]);
        let mut ip = L3L4::parse(&short).expect("a packet");
        let ticket = rig.nat.look(0, &ip, &short, End::Destination);
        assert_eq!(rig.nat.inward(&ticket, &mut ip, &mut short), Ok(()));
        assert_eq!(short[28 + 12..28 + 16], ue(1).octets());
        assert!(checksum::is_valid(checksum::sum(&short[20..])));
    }
    let public = rig.udp((ue(1), 1000)).expect("a port");
    let mut came = ip4(REMOTE, public.0).udp(53, public.1).filled(30).build();
    let as_came = came.clone();
    rig.inward(&mut came).expect("translated");
    let mut about = error(ue(1), REMOTE, &came);
    assert_eq!(rig.outward(1, &mut about), Ok(Way::On));
    assert_eq!(about[28..], as_came);
    assert_eq!(about[12..16], public.0.octets());
    let stranger = ip4(ue(2), REMOTE).udp(1, 2).build();
    assert_eq!(rig.outward(1, &mut error(ue(1), REMOTE, &stranger)), Err(Drop::NatNoMapping));
}

#[test]
fn subscribers_reach_each_other_by_public_ends() {
    let mut rig = Rig::new(&config());
    let (one, two) = (rig.udp((ue(1), 1)).expect("a port"), rig.udp((ue(2), 2)).expect("a port"));
    let mut packet = ip4(ue(1), two.0).udp(1, two.1).filled(4).build();
    assert_eq!(rig.outward(1, &mut packet), Ok(Way::Back));
    let ip = L3L4::parse(&packet).expect("a packet");
    assert_eq!((Ipv4Addr::from(ip.src), ip.src_port), one, "seen as from outside (RFC 4787 REQ-9 a)");
    assert_eq!((Ipv4Addr::from(ip.dst), ip.dst_port), (ue(2), 2));
    // The answer is an error about it.
    let mut about = error(ue(2), one.0, &packet);
    assert_eq!(rig.outward(1, &mut about), Ok(Way::Back));
    assert_eq!(about[16..20], ue(1).octets());
    let ip = L3L4::parse(&about[28..]).expect("a packet");
    assert_eq!((Ipv4Addr::from(ip.src), ip.src_port), (ue(1), 1));
    let mut nobody = ip4(ue(1), two.0).udp(1, two.1 ^ 1).build();
    assert_eq!(rig.outward(1, &mut nobody), Err(Drop::NatNoMapping));
    // The public addresses of another worker are reached by way of the router.
    let (producer, log) = ring(64);
    let nat = Nat::new(&config(), 0, 2, producer, 0).expect("a translator");
    let mut rig = Rig { nat, log };
    let mut packet = ip4(ue(1), Ipv4Addr::new(198, 51, 100, 3)).udp(1, 2000).build();
    assert_eq!(rig.outward(1, &mut packet), Ok(Way::On));
}

#[test]
fn fragments_follow_their_first() {
    let mut rig = Rig::new(&config());
    let piece = |src, dst, offset: u16| {
        let ip = ip4(src, dst).ident(77).fragment(offset, offset == 0);
        if offset == 0 { ip.udp(5, 6).filled(16).build() } else { ip.filled(40).poke(9, [17]).build() }
    };
    let sealed = |mut bytes: Vec<u8>| {
        wire::ip4::Packet::new_checked(&mut bytes[..]).expect("IPv4").fill_checksum();
        bytes
    };
    assert_eq!(rig.outward(1, &mut sealed(piece(ue(1), REMOTE, 24))), Err(Drop::NatFragment));
    assert_eq!(rig.outward(1, &mut sealed(piece(ue(1), REMOTE, 0))), Ok(Way::On));
    let mut later = sealed(piece(ue(1), REMOTE, 24));
    assert_eq!(rig.outward(1, &mut later), Ok(Way::On));
    let (public, port) = rig.udp((ue(1), 5)).expect("a port");
    assert_eq!(later[12..16], public.octets());
    let mut first = sealed(ip4(REMOTE, public).ident(9).fragment(0, true).udp(53, port).filled(16).build());
    let later = sealed(ip4(REMOTE, public).ident(9).fragment(24, false).filled(9).poke(9, [17]).build());
    assert_eq!(rig.inward(&mut later.clone()), Err(Drop::NatFragment), "before the first");
    rig.inward(&mut first).expect("translated");
    let mut follows = later.clone();
    rig.inward(&mut follows).expect("translated");
    assert_eq!(follows[16..20], ue(1).octets());
    rig.nat.end_session(INSTANCE, ue(1), SECOND);
    assert_eq!(rig.inward(&mut later.clone()), Err(Drop::NatFragment), "of a session that ended");
    let tiny = sealed(ip4(ue(1), REMOTE).fragment(0, true).payload([0, 1, 0, 2, 0, 8, 0, 0]).poke(9, [6]).build());
    let refused = rig.outward(1, &mut tiny.clone());
    assert_eq!(refused, Err(Drop::NatFragment), "no room for TCP's checksum (RFC 1858)");
}

#[test]
fn other_protocols_have_no_ports() {
    let mut rig = Rig::new(&config());
    for number in [47, 50, 132] {
        let mut packet = ip4(ue(1), REMOTE).filled(40).poke(9, [number]).build();
        wire::ip4::Packet::new_checked(&mut packet[..]).expect("IPv4").fill_checksum();
        assert_eq!(rig.outward(1, &mut packet), Err(Drop::NatProtocol));
    }
    assert_eq!(rig.outward(1, &mut ip4(ue(1), REMOTE).icmp4(13, 0, 0).filled(12).build()), Err(Drop::NatProtocol));
}

/// What happens in the model.
#[derive(Clone, Debug)]
enum Act {
    /// A subscriber sends from a port.
    Out { ue: u8, port: u16, protocol: usize },
    /// Someone outside sends to a public end: one that was seen, or any.
    In { which: prop::sample::Index, port: u16, protocol: usize },
    /// Seconds pass.
    Wait(u64),
    /// A session ends.
    End(u8),
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        20 => (0u8..12, 0u16..200, 0usize..3).prop_map(|(ue, port, protocol)| Act::Out { ue, port, protocol }),
        10 => (any::<prop::sample::Index>(), any::<u16>(), 0usize..3)
            .prop_map(|(which, port, protocol)| Act::In { which, port, protocol }),
        2 => (1u64..100).prop_map(Act::Wait),
        1 => (0u8..12).prop_map(Act::End),
    ]
}

/// A mapping of the model.
#[derive(Clone, Copy, Debug)]
struct Known {
    public: (u32, u16),
    last: u64,
    answered: bool,
}

impl Known {
    fn life(&self, protocol: usize) -> u64 {
        match protocol {
            0 => 240,
            1 if self.answered => 300,
            1 => 120,
            _ => 60,
        }
    }
}

fn sent(src: Ipv4Addr, dst: Ipv4Addr, port: u16, protocol: usize, out: bool) -> Vec<u8> {
    let (from, to) = if out { (port, 9) } else { (9, port) };
    match protocol {
        0 => ip4(src, dst).tcp(from, to).filled(3).build(),
        1 => ip4(src, dst).udp(from, to).filled(3).build(),
        _ => ip4(src, dst).ping(port, 1).filled(3).build(),
    }
}

fn end_of(packet: &[u8], protocol: usize, out: bool) -> (u32, u16) {
    let ip = L3L4::parse(packet).expect("a packet");
    let port = match (protocol, out) {
        (2, _) => u16::from_be_bytes([packet[24], packet[25]]),
        (_, true) => ip.src_port,
        _ => ip.dst_port,
    };
    (if out { ip.src } else { ip.dst }, port)
}

/// The log as its reader keeps it: who has which block, and since when it is nobody's.
#[derive(Default)]
struct Book {
    given: BTreeMap<(Ipv4Addr, u16), Ipv4Addr>,
    ended: BTreeMap<(Ipv4Addr, u16), u64>,
}

impl Book {
    fn read(&mut self, log: &mut Consumer<BlockEvent>) {
        while let Some(event) = log.pop() {
            let block = (event.public, event.first_port);
            if event.ended.is_some() {
                assert_eq!(self.given.remove(&block), Some(event.private), "it was the subscriber's");
                self.ended.insert(block, event.at);
            } else {
                assert_eq!(self.given.insert(block, event.private), None, "it was nobody's");
                let held = self.ended.get(&block).map(|at| event.at - at);
                assert!(held.is_none_or(|ns| ns >= 119 * SECOND), "held {held:?}");
            }
        }
    }

    fn owner(&self, (public, port): (u32, u16)) -> Option<Ipv4Addr> {
        self.given.get(&(public.into(), (port - 1024) / 64 * 64 + 1024)).copied()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn it_does_what_a_plain_translator_would(acts in prop::collection::vec(act(), 0..400), seed: u128) {
        let mut rig = Rig::new(&Config { seed, ..config() });
        let (mut known, mut book) = (BTreeMap::<(u8, u16, usize), Known>::new(), Book::default());
        let mut now = 0;
        for act in acts {
            match act {
                Act::Out { ue: n, port, protocol } => {
                    let mut packet = sent(ue(n), REMOTE, port, protocol, true);
                    let done = rig.outward(n.into(), &mut packet);
                    book.read(&mut rig.log);
                    if let Err(why) = done {
                        // Three protocols at 128 ports each: only who has all of them is refused.
                        prop_assert_eq!(why, Drop::NatNoPort);
                        prop_assert!(known.keys().filter(|k| (k.0, k.2) == (n, protocol)).count() >= 128 - 1);
                        continue;
                    }
                    let public = end_of(&packet, protocol, true);
                    prop_assert_eq!(book.owner(public), Some(ue(n)), "the log names the subscriber");
                    let others = known.iter().filter(|(k, _)| **k != (n, port, protocol));
                    for (other, entry) in others {
                        prop_assert!(other.2 != protocol || entry.public != public, "no port twice");
                        prop_assert!(other.0 != n || entry.public.0 == public.0, "addresses are paired");
                    }
                    let entry = known.entry((n, port, protocol)).or_insert(Known { public, last: now, answered: false });
                    prop_assert_eq!(entry.public, public, "endpoint-independent");
                    entry.last = now;
                }
                Act::In { which, port, protocol } => {
                    let list: Vec<_> = known.iter().filter(|(k, _)| k.2 == protocol).map(|(k, e)| (*k, e.public)).collect();
                    let public = match list.len() {
                        0 => (FIRST.into(), port),
                        count => list[which.index(count)].1,
                    };
                    let mut packet = sent(REMOTE, public.0.into(), public.1, protocol, false);
                    let done = rig.inward(&mut packet);
                    let entry = list.iter().find(|(_, end)| *end == public);
                    match entry {
                        None => prop_assert_eq!(done, Err(Drop::NatNoMapping)),
                        Some((key, _)) => {
                            prop_assert_eq!(done, Ok(()));
                            prop_assert_eq!(end_of(&packet, protocol, false), (ue(key.0).into(), key.1));
                            known.entry(*key).and_modify(|entry| entry.answered = true);
                        }
                    }
                }
                Act::Wait(seconds) => {
                    now += seconds;
                    rig.until(now);
                    book.read(&mut rig.log);
                    // Ticks are an eighth of a second, so what is near its end may or may not be there.
                    known.retain(|key, entry| {
                        let left = (entry.last + entry.life(key.2)).saturating_sub(now);
                        let there = rig.nat.inside.get(super::mapping::key(0, Protocol::ALL[key.2], ue(key.0).into(), key.1));
                        assert!(left <= 1 || there.is_some(), "{key:?} ended {left} s too soon");
                        assert!(left > 0 || there.is_none() || entry.last + entry.life(key.2) + 1 >= now, "{key:?} lives on");
                        there.is_some()
                    });
                }
                Act::End(n) => {
                    rig.nat.end_session(INSTANCE, ue(n), now * SECOND);
                    book.read(&mut rig.log);
                    known.retain(|key, _| key.0 != n);
                    prop_assert!(!book.given.values().any(|owner| *owner == ue(n)));
                }
            }
            prop_assert_eq!(rig.nat.mappings(), known.len());
            prop_assert_eq!(rig.nat.blocks(), book.given.len());
            let owners: BTreeSet<_> = book.given.values().collect();
            prop_assert_eq!(rig.nat.subscribers(), owners.len());
        }
        rig.until(now + 10_000);
        book.read(&mut rig.log);
        prop_assert!(book.given.is_empty() && rig.nat.wheel.is_empty(), "time ends everything");
        prop_assert_eq!(rig.nat.mappings.in_use() + rig.nat.subscribers.in_use(), 0);
    }

    /// Anything at all, both ways: no panic, and a packet remains a packet.
    #[test]
    fn garbage_is_refused_or_stays_a_packet(
        packets in prop::collection::vec((any::<bool>(), prop::collection::vec(any::<u8>(), 0..90)), 0..60),
    ) {
        let mut rig = Rig::new(&config());
        let public = rig.udp((ue(1), 1)).expect("a port");
        for (out, payload) in packets {
            let (src, dst) = if out { (ue(1), REMOTE) } else { (REMOTE, public.0) };
            let number = [1, 6, 17, 50][payload.len() % 4];
            let mut packet = ip4(src, dst).payload(&payload).poke(9, [number]).build();
            wire::ip4::Packet::new_checked(&mut packet[..]).expect("IPv4").fill_checksum();
            let Ok(mut ip) = L3L4::parse(&packet) else { continue };
            let side = if out { End::Source } else { End::Destination };
            let mut ticket = rig.nat.look(0, &ip, &packet, side);
            rig.nat.find(&mut ticket, side);
            let done = match out {
                true => rig.nat.outward(&ticket, 1, &mut ip, &mut packet).is_ok(),
                false => rig.nat.inward(&ticket, &mut ip, &mut packet).is_ok(),
            };
            prop_assert!(!done || L3L4::parse(&packet).is_ok());
        }
    }
}
