//! The cases, a file for each group. What they share: a gateway `cin`/`nsi` with known neighbours, one service group of
//! one channel, and a modem with two hosts behind it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;

use crypto::Key;
use crypto::bpi::{Schedule, crc32};
pub use testkit::golden::{Case, ms};
pub use testkit::packet::{Packet, eth, ip4, ip6};
use wire::docsis::{self, Element, Kind, Privacy};
use wire::l2tp::{self, Carrier, Cookie};
use wire::{ccf, psp, uepi};

pub mod broken;
pub mod downstream;
pub mod groups;
pub mod icmp;
pub mod rules;
pub mod upstream;

/// Every case of every group.
pub fn all() -> Vec<Case> {
    [downstream::all, groups::all, rules::all, upstream::all, broken::all, icmp::all]
        .iter()
        .flat_map(|group| group())
        .collect()
}

/// Where the folders are.
pub fn root() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden/cmts"))
}

pub const CIN_MAC: [u8; 6] = [2, 0, 0, 0, 1, 1];
pub const DEVICE_MAC: [u8; 6] = [2, 0, 0, 0, 1, 2];
pub const NSI_MAC: [u8; 6] = [2, 0, 0, 0, 2, 1];
pub const ROUTER_MAC: [u8; 6] = [2, 0, 0, 0, 2, 2];
/// The gateway's hardware address towards hosts behind modems.
pub const CMTS_MAC: [u8; 6] = [2, 0, 0, 0, 0x0c, 1];

pub const CIN: Ipv4Addr = Ipv4Addr::new(172, 16, 0, 1);
pub const DEVICE: Ipv4Addr = Ipv4Addr::new(172, 16, 0, 2);
pub const NSI: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 254);
pub const NSI_6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0x18, 0, 0, 0, 0, 0, 0x254);
pub const SERVER: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 7);
pub const SERVER_6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0x5e, 0, 0, 0, 0, 7);
/// The first host behind the modem.
pub const HOST: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
pub const HOST_6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);

/// Our session at the device, and the device's at us: for bursts, for requests.
pub const DOWN: u32 = 0x1000;
pub const UP: u32 = 0x2000;
pub const REQUESTS: u32 = 0x3000;
/// The modem's service identifier, and its security association.
pub const SID: u16 = 7;
/// Its primary service flow's downstream service identifier; the others' follow.
pub const DSID: u32 = 1;
/// Its first key, and everybody's initialization vector.
pub const KEY: [u8; 16] = *b"\0\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e\x0f";
pub const IV: [u8; 16] = [0x11; 16];

/// One modem with two hosts, two service flows, nothing filtered, nothing encrypted.
pub const BASE: &str = r#"
gateway = "cmts"
frames = { slots = 2048, slot_bytes = 2048 }
queues = { packets = 512 }
route = [ { to = "0.0.0.0/0", via = "198.18.0.1" }, { to = "::/0", via = "fd00:18::1" } ]
neighbour = [
  { port = "cin", address = "172.16.0.2", mac = "02:00:00:00:01:02" },
  { port = "nsi", address = "198.18.0.1", mac = "02:00:00:00:02:02" },
  { port = "nsi", address = "fd00:18::1", mac = "02:00:00:00:02:02" },
]
profile = [ { name = "home", flow = [ { name = "best" }, { name = "voice", priority = 5 } ] } ]

[[port]]
name = "cin"
uri = "memory:cin?mac=02:00:00:00:01:01"
role = "rpd"
addresses = ["172.16.0.1/16"]

[[port]]
name = "nsi"
uri = "memory:nsi?mac=02:00:00:00:02:01"
role = "network"
addresses = ["198.18.0.254/24", "fd00:18::254/64"]

[[service_group]]
name = "sg"
rpd = "172.16.0.2"
mac = "02:00:00:00:0c:01"
channel = [ { name = "ofdm", capacity = "1.89 Gbit/s", session = 0x1000 } ]
upstream_channel = [
  { session = 0x2000, capacity = "100 Mbit/s" },
  { session = 0x3000, carries = "requests" },
]
modem = [ { mac = "02:cb:00:00:00:01", profile = "home", hosts = 2, ipv4 = "10.0.0.1", ipv6 = "2001:db8::1", host_mac = "02:ca:00:00:00:01", sid = 7, key = "000102030405060708090a0b0c0d0e0f", iv = "11111111111111111111111111111111" } ]
"#;

/// A case on the base configuration.
pub fn case(text: &str) -> Case {
    Case::new(text, BASE)
}

/// The same with every frame encrypted.
pub fn encrypted(text: &str) -> Case {
    case(text).with(r#"profile = [ { name = "home", encrypt = true, flow = [ { name = "best" } ] } ]"#)
}

/// The hardware address of host `n` behind the modem.
pub fn host_mac(n: u8) -> [u8; 6] {
    [2, 0xca, 0, 0, 0, 1 + n]
}

/// An IP packet as the next router sends it to us.
pub fn from_router(packet: &Packet) -> Packet {
    eth(ROUTER_MAC, NSI_MAC).carrying(packet)
}

/// As it leaves for the network.
pub fn to_router(packet: &Packet) -> Packet {
    eth(NSI_MAC, ROUTER_MAC).carrying(packet)
}

/// As host `n` gets it.
pub fn to_host(n: u8, packet: &Packet) -> Packet {
    eth(CMTS_MAC, host_mac(n)).carrying(packet).padded()
}

/// As host `n` sends it.
pub fn from_host(n: u8, packet: &Packet) -> Packet {
    eth(host_mac(n), CMTS_MAC).carrying(packet).padded()
}

/// A UDP packet between a server and the first host, one hop older or younger.
pub fn datagram(down: bool, ttl: u8) -> Packet {
    let (from, to) = if down { (SERVER, HOST) } else { (HOST, SERVER) };
    ip4(from, to).ttl(ttl).udp(1000, 2000).payload(b"cable")
}

/// The same over IPv6.
pub fn datagram6(down: bool, hops: u8) -> Packet {
    let (from, to) = if down { (SERVER_6, HOST_6) } else { (HOST_6, SERVER_6) };
    ip6(from, to).ttl(hops).udp(1000, 2000).payload(b"cable")
}

/// A MAC frame: header with these elements, the Ethernet frame, its CRC; encrypted when there is a key.
pub fn mac_frame(elements: &[Element<'_>], ethernet: &Packet, key: Option<&Key>) -> Vec<u8> {
    let mut body = ethernet.build();
    let crc = crc32(&body);
    body.extend(crc);
    if let Some(key) = key {
        Schedule::new(key).encrypt(&mut body[12..]);
    }
    let mut head = vec![0; 64];
    let len = docsis::emit_frame(Kind::Packet, elements, body.len(), &mut head).expect("room for a header");
    head.truncate(len);
    [head, body].concat()
}

/// Downstream: the frame number `sequence` of service flow `flow` (its traffic priority is 0, or 5 of the second).
pub fn framed(flow: u32, sequence: u16, ethernet: &Packet) -> Vec<u8> {
    mac_frame(&[service(flow, sequence)], ethernet, None)
}

fn service(flow: u32, sequence: u16) -> Element<'static> {
    let priority = if flow == 1 { 5 } else { 0 };
    Element::DsService { priority, change: false, stream: Some((DSID + flow, Some(sequence))) }
}

/// Downstream, under a key of that number.
pub fn sealed(sequence: u16, ethernet: &Packet, number: u8, key: &Key) -> Vec<u8> {
    mac_frame(&[Element::BpDown(Privacy::encrypted(number, SID)), service(0, sequence)], ethernet, Some(key))
}

/// L2TPv3 and PSP headers and segments: bytes with whether a frame begins and ends in them.
pub fn pseudowire(wire: l2tp::Repr, sequence: u16, word: bool, segments: &[(&[u8], bool, bool)]) -> Vec<u8> {
    let table: Vec<_> = segments.iter().map(|(bytes, b, e)| psp::Entry::of(*b, *e, bytes.len())).collect();
    let psp = psp::Repr { flow: 0, sequence, word: word.then_some((sequence & 0x0f) << 4) };
    let mut out = vec![0; wire.header_len() + psp.header_len(table.len())];
    wire.emit(&mut out).expect("room");
    psp.emit(&table, &mut out[wire.header_len()..]).expect("room");
    segments.iter().for_each(|(bytes, ..)| out.extend_from_slice(bytes));
    out
}

/// Over IP, without cookies.
pub fn session(session: u32) -> l2tp::Repr {
    l2tp::Repr { carrier: Carrier::Ip, session, cookie: Cookie::None }
}

/// A DEPI packet with whole frames, as it leaves.
pub fn depi(sequence: u16, frames: &[Vec<u8>]) -> Packet {
    let whole: Vec<_> = frames.iter().map(|frame| (frame.as_slice(), true, true)).collect();
    depi_pieces(sequence, &whole)
}

/// A DEPI packet with those segments.
pub fn depi_pieces(sequence: u16, segments: &[(&[u8], bool, bool)]) -> Packet {
    let body = pseudowire(session(DOWN), sequence, true, segments);
    eth(CIN_MAC, DEVICE_MAC).ip4(CIN, DEVICE).tos(0x10).says(115).payload(body)
}

/// A packet from the device.
pub fn from_device(body: impl AsRef<[u8]>) -> Packet {
    eth(DEVICE_MAC, CIN_MAC).ip4(DEVICE, CIN).says(115).payload(body)
}

/// A segment of a modem's stream; `pointer`: where the first frame begins in it.
pub fn segment(sequence: u16, pointer: Option<u16>, stream: &[u8]) -> Vec<u8> {
    let mut out = vec![0; ccf::HEADER_LEN];
    out.extend_from_slice(stream);
    let header = ccf::Repr { pointer, sequence, cluster: 0, request: 0 };
    header.emit(&mut out).expect("room");
    out
}

/// A UEPI packet with the data unit of one burst.
pub fn burst(number: u16, sid: u16, payload: &[u8]) -> Packet {
    let (head, tail) = unit(sid);
    let segments = [(&head[..], true, false), (payload, false, false), (&tail[..], false, true)];
    from_device(pseudowire(session(UP), number, false, &segments))
}

/// Header and trailer of a data unit.
pub fn unit(sid: u16) -> (Vec<u8>, Vec<u8>) {
    let (mut head, mut tail) = (vec![0; uepi::Header::LEN], vec![0; uepi::Trailer::LEN]);
    uepi::Header { no_burst: false, iuc: 9, sid, minislot: 1 }.emit(&mut head).expect("room");
    uepi::Trailer::default().emit(&mut tail).expect("room");
    (head, tail)
}

/// Upstream frames in clear, one behind the other.
pub fn stream(packets: &[Packet]) -> Vec<u8> {
    packets.iter().flat_map(|packet| mac_frame(&[], &from_host(0, packet), None)).collect()
}
