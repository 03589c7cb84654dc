//! Checksums that a device verifies or makes: `net_tap`, with the kernel at the other end as the judge, and drivers
//! without.
//!
//! DPDK is started once for the program: every test has devices of names of its own.
#![cfg(feature = "dpdk")]

use std::collections::BTreeMap;
use std::net::UdpSocket;
use std::process::Command;
use std::time::{Duration, Instant};

use frame::{Arena, ArenaConfig, Batch, Pool, Port, flags};
use port::{Offloads, OpenContext};
use wire::checksum;

/// The longest time for anything: other work may have the CPUs.
const PATIENCE: Duration = Duration::from_secs(20);
const BOTH: Offloads = Offloads { verify_udp: true, complete_udp6: true };

/// A network namespace, removed when dropped.
struct Namespace(String);

impl Namespace {
    fn new(test: &str) -> Self {
        let namespace = Self(format!("weir-sums-{}-{test}", std::process::id()));
        ip(&["netns", "add", &namespace.0]);
        namespace
    }

    fn within(&self, arguments: &[&str]) {
        ip(&[&["-n", &self.0][..], arguments].concat());
    }
}

fn ip(arguments: &[&str]) {
    let output = Command::new("ip").args(arguments).output().expect("ip runs");
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = Command::new("ip").args(["netns", "del", &self.0]).status();
    }
}

struct Bed {
    pool: Pool,
    port: Box<dyn Port>,
}

impl Bed {
    fn open(uri: &str, offloads: Offloads) -> Self {
        port_dpdk::register();
        let arena = Arena::new(ArenaConfig { slots: 4096, ..ArenaConfig::default() }).expect("memory");
        let mut pool = Pool::new(&arena, 4096);
        let mut cx = OpenContext { offloads, ..OpenContext::new(&mut pool) };
        let port = port::open(&uri.parse().expect("a URI"), &mut cx).unwrap_or_else(|error| panic!("{uri}: {error}"));
        Self { pool, port }
    }

    fn send(&mut self, bytes: &[u8], flags: u16) {
        let mut frame = self.pool.make(bytes).expect("a free buffer");
        frame.meta.flags = flags;
        let mut batch = Batch::new();
        batch.push(frame).expect("room");
        self.port.service(&mut self.pool);
        assert_eq!(self.port.tx_burst(&mut self.pool, &mut batch), 1, "sent");
        self.port.kick(&mut self.pool);
    }

    /// Frames with that many bytes at least and UDP or TCP to port 2152: their bytes, and their flags.
    fn receive(&mut self, frames: usize) -> Vec<(Vec<u8>, u16)> {
        let mut got = Vec::new();
        let end = Instant::now() + PATIENCE;
        while got.len() < frames {
            assert!(Instant::now() < end, "{} of {frames}: {:?}", got.len(), self.port.counters());
            let mut batch = Batch::new();
            self.port.service(&mut self.pool);
            self.port.rx_burst(&mut self.pool, &mut batch);
            let arena = self.pool.arena().clone();
            let ours = batch.frames().iter().filter(|frame| arena.bytes(frame)[6..12] == FROM);
            got.extend(ours.map(|frame| (arena.bytes(frame).to_vec(), frame.meta.flags)));
            self.pool.give_all(&mut batch);
        }
        got
    }

    fn extras(&self) -> BTreeMap<&'static str, u64> {
        let mut all = BTreeMap::new();
        self.port.extras(&mut |name, value| {
            all.insert(name, value);
        });
        all
    }

    fn close(mut self) {
        self.port.close(&mut self.pool);
        let arena = self.pool.arena().clone();
        drop((self.port, self.pool));
        assert_eq!(arena.in_depot(), 4096, "every token is back");
    }
}

const FROM: [u8; 6] = [2, 0, 0, 0, 0, 1];

/// A frame over IPv4 or IPv6 with that many tags, of that protocol, and the offset of its checksum, which is zero.
fn packet(version: u8, tags: usize, protocol: u8, to: [u8; 6], payload: usize) -> (Vec<u8>, usize) {
    let mut bytes = [to, FROM].concat();
    (0..tags).for_each(|_| bytes.extend([0x81, 0, 0, 7]));
    let head = if protocol == 17 { 8 } else { 20 };
    let len = (head + payload) as u16;
    if version == 4 {
        let mut ip = vec![0x45, 0, 0, 0, 0, 1, 0x40, 0, 64, protocol, 0, 0, 10, 0, 3, 9, 10, 0, 3, 1];
        ip[2..4].copy_from_slice(&(20 + len).to_be_bytes());
        let check = checksum::of(&ip);
        ip[10..12].copy_from_slice(&check.to_be_bytes());
        bytes.extend([8, 0]);
        bytes.extend(ip);
    } else {
        bytes.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
        bytes.extend(len.to_be_bytes());
        bytes.extend([protocol, 64]);
        for last in [9, 1] {
            bytes.extend([0xfd, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last]);
        }
    }
    let at = bytes.len();
    bytes.extend([0x10, 0, 2152u16.to_be_bytes()[0], 2152u16.to_be_bytes()[1]]);
    if protocol == 17 {
        bytes.extend(len.to_be_bytes());
        bytes.extend([0, 0]);
    } else {
        bytes.extend([0, 0, 0, 1, 0, 0, 0, 1, 0x50, 0x10, 1, 0, 0, 0, 0, 0]);
    }
    bytes.extend((0..payload).map(|n| (n * 11) as u8));
    (bytes, at + if protocol == 17 { 6 } else { 16 })
}

/// The pseudo header's sum, and the whole checksum, of a packet as [`packet`] makes it.
fn sums(bytes: &[u8], field: usize, version: u8, protocol: u8) -> (u16, u16) {
    let at = field - if protocol == 17 { 6 } else { 16 };
    let addresses = if version == 4 { &bytes[at - 8..at] } else { &bytes[at - 32..at] };
    let len = (bytes.len() - at) as u16;
    let pseudo = checksum::combine(checksum::sum(addresses), checksum::combine(protocol.into(), len));
    (pseudo, checksum::finish_udp(checksum::combine(pseudo, checksum::sum(&bytes[at..]))))
}

fn set(bytes: &mut [u8], field: usize, sum: u16) {
    bytes[field..field + 2].copy_from_slice(&sum.to_be_bytes());
}

#[test]
fn tap_verifies_what_the_kernel_sends() {
    let namespace = Namespace::new("rx");
    let uri = |name: &str, more: &str| format!("dpdk:net_tap_{name},iface=w{name}?netns={}{more}", namespace.0);
    let mut on = Bed::open(&uri("von", ""), BOTH);
    let mut off = Bed::open(&uri("voff", "&offloads=off"), BOTH);
    let mut unasked = Bed::open(&uri("vnone", ""), Offloads::default());
    let detail = |bed: &Bed| bed.port.caps().detail;
    assert!(detail(&on).contains("verifies UDP checksums, makes those over IPv6"), "{}", detail(&on));
    for bed in [&off, &unasked] {
        assert!(!detail(bed).contains("checksums") && !bed.port.caps().completes_udp6, "{}", detail(bed));
        assert!(!bed.extras().keys().any(|name| name.contains("checksum")));
    }
    // Right, wrong and none over IPv4; right and wrong over IPv6; TCP, of which nobody asks.
    let mut frames = Vec::new();
    for (version, protocol) in [(4, 17), (6, 17), (4, 6)] {
        let (mut bytes, field) = packet(version, 0, protocol, [0xff; 6], 700);
        let (_, sum) = sums(&bytes, field, version, protocol);
        set(&mut bytes, field, sum);
        frames.push((bytes.clone(), protocol == 17));
        bytes[field + 100] ^= 1;
        frames.push((bytes.clone(), false));
    }
    let (none, _) = packet(4, 0, 17, [0xff; 6], 700);
    frames.push((none, false));
    for (bed, name, verifies) in [(&mut on, "wvon", true), (&mut off, "wvoff", false), (&mut unasked, "wvnone", false)]
    {
        namespace.within(&["link", "set", name, "up"]);
        let mut kernel =
            Bed::open(&format!("packet:{name}?netns={}&mode=mmsg&promisc=on", namespace.0), Offloads::default());
        for (bytes, _) in &frames {
            kernel.send(bytes, 0);
        }
        for ((got, flags), (sent, good)) in bed.receive(frames.len()).into_iter().zip(&frames) {
            assert_eq!(&got, sent);
            assert_eq!(flags & flags::UDP_VERIFIED != 0, verifies && *good, "{name}: {:02x?}", &got[..42]);
        }
        kernel.close();
    }
    let counted = on.extras();
    assert_eq!((counted["rx_checksum_good"], counted["rx_checksum_bad"]), (2, 2), "{counted:?}");
    [on, off, unasked].into_iter().for_each(Bed::close);
}

#[test]
fn kernel_accepts_checksums_left_to_a_tap() {
    let namespace = Namespace::new("tx");
    let mut tap = Bed::open(&format!("dpdk:net_tap_sums,iface=wsums?netns={}", namespace.0), BOTH);
    assert!(tap.port.caps().completes_udp6);
    namespace.within(&["address", "add", "fd00:3::1/64", "dev", "wsums", "nodad"]);
    namespace.within(&["link", "set", "wsums", "up"]);
    let bind = || UdpSocket::bind("[fd00:3::1]:2152").expect("a socket");
    let socket = port::netns::within(&namespace.0, bind).expect("a namespace");
    socket.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    let to = tap.port.caps().mac;
    let mut room = [0; 2048];
    for payload in [1, 2, 37, 400, 1399, 1400] {
        let (mut bytes, field) = packet(6, 0, 17, to, payload);
        let (pseudo, whole) = sums(&bytes, field, 6, 17);
        set(&mut bytes, field, pseudo);
        // Not left to the device, it is wrong, and the kernel drops it: the judge is awake.
        tap.send(&bytes, 0);
        tap.send(&bytes, flags::UDP_SUM_LEFT);
        let len = socket.recv(&mut room).expect("a datagram");
        assert_eq!(&room[..len], &bytes[field + 2..], "{payload}");
        set(&mut bytes, field, whole);
        tap.send(&bytes, 0);
        assert_eq!(socket.recv(&mut room).expect("made in software"), len);
        socket.set_nonblocking(true).expect("set");
        assert!(socket.recv(&mut room).is_err(), "nothing else was accepted");
        socket.set_nonblocking(false).expect("set");
    }
    assert_eq!(tap.extras()["tx_checksum_left"], 6);
    tap.close();
}

/// What is left to a port without the offload, against its word, leaves whole all the same.
#[test]
fn drivers_without_offloads_send_whole_checksums() {
    for uri in ["dpdk:net_ring_sums", "dpdk:net_ring_sumc?buffers=copy"] {
        let mut bed = Bed::open(uri, BOTH);
        assert!(!bed.port.caps().completes_udp6 && !bed.port.caps().detail.contains("checksums"));
        for tags in 0..3 {
            let (mut bytes, field) = packet(6, tags, 17, [2; 6], 333);
            let (pseudo, whole) = sums(&bytes, field, 6, 17);
            set(&mut bytes, field, pseudo);
            bed.send(&bytes, flags::UDP_SUM_LEFT);
            set(&mut bytes, field, whole);
            assert_eq!(bed.receive(1), [(bytes, 0)]);
        }
        bed.close();
    }
}
