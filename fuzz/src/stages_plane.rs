//! Translation, access lists and reassembly in a least gateway that is sent anything from both sides.
//!
//! The bytes are a script. Whatever they are, nothing may panic, every packet and slot must be accounted for, what leaves
//! must be a whole packet, and time must end all that is held. Included by `fuzz/targets/stages_plane.rs` and by
//! `crates/dataplane/tests/plane.rs`, which replays what fuzzing found on the stable compiler.

use std::net::Ipv4Addr;

use dataplane::acl::{AccessList, AccessLists, Action, Hits, PortRange, Rule};
use dataplane::nat;
use engine::Io;
use testkit::packet::{Packet, ip4, ip6, raw};
use testkit::rig::{Clock, Memories, Rig};
use wire::{Fragment, L3L4};

use crate::gateway::{Plane, State, WORLD};

const SECOND: u64 = 1_000_000_000;
const REMOTE: [u8; 4] = [203, 0, 113, 5];
/// The public addresses.
pub const POOL: [[u8; 4]; 2] = [[198, 51, 100, 0], [198, 51, 100, 1]];

/// A small gateway at rest, and the log of its blocks.
pub fn plane(clock: &Clock) -> (Rig<Plane>, table::ring::Consumer<nat::BlockEvent>, Hits) {
    let pool = nat::Pool { instance: WORLD, first: POOL[0].into(), last: POOL[1].into() };
    let config = nat::Config {
        pools: vec![pool],
        block_ports: 64,
        blocks_per_subscriber: 2,
        mappings: 200,
        subscribers: 20,
        fragments: 16,
        ..nat::Config::default()
    };
    let (producer, log) = table::ring::ring(64);
    let nat = nat::Nat::new(&config, 0, 1, producer, 0).expect("a translator");
    let ports = Some(PortRange { first: 25, last: 25 });
    let rules = [Rule { dst_ports: ports, protocol: Some(6), ..Rule::any(Action::Deny, 1) }];
    let mut lists = AccessLists::default();
    lists.set(WORLD, AccessList::compile(&rules, Action::Permit, 0).expect("sound rules"));
    let hits = Hits::new(2);
    let reassembly = dataplane::reassemble::Config {
        bytes: 16_384,
        packets: 16,
        packets_per_owner: 4,
        fragments_per_packet: 8,
        ..dataplane::reassemble::Config::default()
    };
    let (plane, layout) = Plane::new(State { nat, lists }, &hits, reassembly);
    (Rig::new(plane, layout, &Plane::ports(), Memories { slots: 256, slot_bytes: 4096 }, clock), log, hits)
}

/// A script being read. At its end it yields zeros.
struct Script<'a>(&'a [u8]);

impl<'a> Script<'a> {
    fn byte(&mut self) -> u8 {
        self.take(1).first().copied().unwrap_or(0)
    }

    fn take(&mut self, count: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(count.min(self.0.len()));
        self.0 = rest;
        taken
    }
}

/// Runs the script.
///
/// # Panics
/// When a promise is broken.
pub fn stages_plane(bytes: &[u8]) {
    let mut script = Script(bytes);
    let clock = Clock::at(0);
    let (mut rig, mut log, _) = plane(&clock);
    let mut seen: Vec<Vec<u8>> = Vec::new();
    while !script.0.is_empty() {
        let act = script.byte();
        let side = if act & 0x80 == 0 { "inside" } else { "outside" };
        match act % 8 {
            0 => {
                let len = usize::from(script.byte());
                rig.wire(side).send(raw(script.take(len)).build());
            }
            1 | 2 => rig.wire(side).send(flow(&mut script, act & 0x80 == 0)),
            3 => back(&mut script, &rig, &seen),
            4 | 5 => rig.wire(side).send(fragment(&mut script, act & 0x40 == 0)),
            6 => {
                rest(&mut rig, &mut seen);
                clock.turn_to(clock.now() + u64::from(script.byte()) * SECOND / 4);
                rest(&mut rig, &mut seen);
                while log.pop().is_some() {}
            }
            _ => {
                let ue = Ipv4Addr::new(10, 60, 0, script.byte() % 8);
                rig.gateway_mut().state.nat.end_session(WORLD, ue, clock.now());
            }
        }
    }
    rest(&mut rig, &mut seen);
    // Longer than any mapping lives; then blocks are told of, held and free.
    for _ in 0..20 {
        clock.turn_to(clock.now() + 1000 * SECOND);
        rest(&mut rig, &mut seen);
        while log.pop().is_some() {}
    }
    let nat = &rig.gateway().state.nat;
    assert_eq!((nat.mappings(), nat.subscribers(), nat.blocks()), (0, 0, 0), "time ends everything");
    rig.close().expect("nothing is lost");
}

/// A packet of a subscriber or to a public end.
fn flow(script: &mut Script<'_>, out: bool) -> Vec<u8> {
    let (kind, who, port) = (script.byte(), script.byte(), u16::from(script.byte()));
    let ue = [10, 60, 0, who % 8];
    let public = POOL[usize::from(who & 1)];
    let (src, dst) = match (out, who & 0x80 != 0) {
        (true, false) => (ue, REMOTE),
        (true, true) => (ue, public),
        (false, _) => (REMOTE, public),
    };
    let port = if out { port } else { 1024 + port * 64 + u16::from(kind >> 4) };
    let packet = match kind % 4 {
        0 => ip4(src, dst).tcp(port, 25 + u16::from(kind >> 7)),
        1 => ip4(src, dst).ping(port, 1),
        _ => ip4(src, dst).udp(port, 1024 + port),
    };
    changed(script, packet)
}

/// An answer to a packet that left, or an error about it.
fn back(script: &mut Script<'_>, rig: &Rig<Plane>, seen: &[Vec<u8>]) {
    let which = usize::from(script.byte());
    let Some(packet) = seen.get(which % seen.len().max(1)) else { return };
    let Ok(ip) = L3L4::parse(packet) else { return };
    if ip.version != 4 {
        return;
    }
    let ends = (Ipv4Addr::from(ip.dst), Ipv4Addr::from(ip.src));
    let answer = match script.byte() % 3 {
        0 => ip4(ends.0, ends.1).icmp4(3, 3, 0).payload(&packet[..packet.len().min(548)]),
        _ => match ip.protocol {
            6 => ip4(ends.0, ends.1).tcp(ip.dst_port, ip.src_port),
            17 => ip4(ends.0, ends.1).udp(ip.dst_port, ip.src_port),
            _ => ip4(ends.0, ends.1).pong(u16::from_be_bytes([packet[24], packet[25]]), 1),
        },
    };
    rig.wire("outside").send(changed(script, answer));
}

/// A fragment of one of a few packets.
fn fragment(script: &mut Script<'_>, v4: bool) -> Vec<u8> {
    let (ident, offset, flags, len) =
        (script.byte() & 3, u16::from(script.byte() & 15) * 8, script.byte(), script.byte());
    let (more, len) = (flags & 1 != 0, usize::from(len & 0x38) + usize::from(flags >> 6));
    if v4 {
        let ip = ip4([10, 60, 0, flags >> 4 & 3], REMOTE).ident(ident.into()).fragment(offset, more);
        return if offset == 0 { ip.udp(9, 9).filled(len).build() } else { ip.filled(len).build() };
    }
    ip6(5, 6).fragment6(offset, more, ident.into()).udp(9, 9).filled(len).build()
}

/// Now and then a byte changes, or the end is missing.
fn changed(script: &mut Script<'_>, packet: Packet) -> Vec<u8> {
    let mut bytes = packet.filled(usize::from(script.byte() & 31)).build();
    match script.byte() {
        at @ 0..60 => {
            let at = usize::from(at) % bytes.len();
            bytes[at] = script.byte();
            if let Ok(mut ip) = wire::ip4::Packet::new_checked(&mut bytes[..]) {
                ip.fill_checksum();
            }
        }
        at @ 60..80 => bytes.truncate(bytes.len() - usize::from(at - 60)),
        _ => {}
    }
    bytes
}

/// Lets the gateway come to rest; what left is sound.
fn rest(rig: &mut Rig<Plane>, seen: &mut Vec<Vec<u8>>) {
    rig.settle(|_, _| false);
    for side in ["inside", "outside"] {
        for packet in rig.wire(side).received() {
            let ip = L3L4::parse(&packet).expect("an IP packet leaves");
            assert!(ip.fragment == Fragment::Whole, "whole");
            assert!(
                side == "inside" || ip.version == 6 || POOL.map(Ipv4Addr::from).contains(&ip.src.into()),
                "translated"
            );
            if side == "outside" && seen.len() < 64 {
                seen.push(packet);
            }
        }
    }
    assert_eq!(rig.stats().missing(), 0, "packets neither left nor were named");
    assert_eq!(rig.stats().io(Io::Panics), 0, "a stage panicked");
    assert_eq!(rig.worker().env().pool.free(), 256, "a slot is missing");
}
