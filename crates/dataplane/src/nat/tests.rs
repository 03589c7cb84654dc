//! A translator in tests: packets there and back here; `blocks.rs`: who has which ports for how long; `model.rs`: against a
//! plain model, mappings in a map, blocks replayed from the log.

mod blocks;
mod cache;
mod hand_over;
mod model;
mod reload;

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
use super::translate::Outcome;
use super::*;

use crate::drops;

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

    fn outward(&mut self, session: u32, packet: &mut [u8]) -> Result<Outcome, Drop> {
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
        assert_eq!(rig.outward(1, &mut packet), Ok(Outcome::Forward));
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
    assert_eq!(rig.outward(1, &mut packet), Ok(Outcome::Forward));
    assert_eq!(packet[24 + 6..24 + 8], [0, 0]);
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
        assert_eq!(rig.inward(&mut about.clone()), Err(drops::NAT_NO_MAPPING), "a wrong checksum");
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
    assert_eq!(rig.outward(1, &mut about), Ok(Outcome::Forward));
    assert_eq!(about[28..], as_came);
    assert_eq!(about[12..16], public.0.octets());
    let stranger = ip4(ue(2), REMOTE).udp(1, 2).build();
    assert_eq!(rig.outward(1, &mut error(ue(1), REMOTE, &stranger)), Err(drops::NAT_NO_MAPPING));
}

#[test]
fn subscribers_reach_each_other_by_public_ends() {
    let mut rig = Rig::new(&config());
    let (one, two) = (rig.udp((ue(1), 1)).expect("a port"), rig.udp((ue(2), 2)).expect("a port"));
    let mut packet = ip4(ue(1), two.0).udp(1, two.1).filled(4).build();
    assert_eq!(rig.outward(1, &mut packet), Ok(Outcome::Hairpin));
    let ip = L3L4::parse(&packet).expect("a packet");
    assert_eq!((Ipv4Addr::from(ip.src), ip.src_port), one, "seen as from outside (RFC 4787 REQ-9 a)");
    assert_eq!((Ipv4Addr::from(ip.dst), ip.dst_port), (ue(2), 2));
    // The answer is an error about it.
    let mut about = error(ue(2), one.0, &packet);
    assert_eq!(rig.outward(1, &mut about), Ok(Outcome::Hairpin));
    assert_eq!(about[16..20], ue(1).octets());
    let ip = L3L4::parse(&about[28..]).expect("a packet");
    assert_eq!((Ipv4Addr::from(ip.src), ip.src_port), (ue(1), 1));
    let mut nobody = ip4(ue(1), two.0).udp(1, two.1 ^ 1).build();
    assert_eq!(rig.outward(1, &mut nobody), Err(drops::NAT_NO_MAPPING));
    // The public addresses of another worker are reached by way of the router.
    let (producer, log) = ring(64);
    let nat = Nat::new(&config(), 0, 2, producer, 0).expect("a translator");
    let mut rig = Rig { nat, log };
    let mut packet = ip4(ue(1), Ipv4Addr::new(198, 51, 100, 3)).udp(1, 2000).build();
    assert_eq!(rig.outward(1, &mut packet), Ok(Outcome::Forward));
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
    assert_eq!(rig.outward(1, &mut sealed(piece(ue(1), REMOTE, 24))), Err(drops::NAT_FRAGMENT));
    assert_eq!(rig.outward(1, &mut sealed(piece(ue(1), REMOTE, 0))), Ok(Outcome::Forward));
    let mut later = sealed(piece(ue(1), REMOTE, 24));
    assert_eq!(rig.outward(1, &mut later), Ok(Outcome::Forward));
    let (public, port) = rig.udp((ue(1), 5)).expect("a port");
    assert_eq!(later[12..16], public.octets());
    let mut first = sealed(ip4(REMOTE, public).ident(9).fragment(0, true).udp(53, port).filled(16).build());
    let later = sealed(ip4(REMOTE, public).ident(9).fragment(24, false).filled(9).poke(9, [17]).build());
    assert_eq!(rig.inward(&mut later.clone()), Err(drops::NAT_FRAGMENT), "before the first");
    rig.inward(&mut first).expect("translated");
    let mut follows = later.clone();
    rig.inward(&mut follows).expect("translated");
    assert_eq!(follows[16..20], ue(1).octets());
    rig.nat.end_session(INSTANCE, ue(1), SECOND);
    assert_eq!(rig.inward(&mut later.clone()), Err(drops::NAT_FRAGMENT), "of a session that ended");
    let tiny = sealed(ip4(ue(1), REMOTE).fragment(0, true).payload([0, 1, 0, 2, 0, 8, 0, 0]).poke(9, [6]).build());
    let refused = rig.outward(1, &mut tiny.clone());
    assert_eq!(refused, Err(drops::NAT_FRAGMENT), "no room for TCP's checksum (RFC 1858)");
}

#[test]
fn other_protocols_have_no_ports() {
    let mut rig = Rig::new(&config());
    for number in [47, 50, 132] {
        let mut packet = ip4(ue(1), REMOTE).filled(40).poke(9, [number]).build();
        wire::ip4::Packet::new_checked(&mut packet[..]).expect("IPv4").fill_checksum();
        assert_eq!(rig.outward(1, &mut packet), Err(drops::NAT_PROTOCOL));
    }
    assert_eq!(rig.outward(1, &mut ip4(ue(1), REMOTE).icmp4(13, 0, 0).filled(12).build()), Err(drops::NAT_PROTOCOL));
}
