//! The cases, a file for each group. What they share: a gateway `n3`/`n6` with known neighbours and one subscriber.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;

pub use testkit::golden::{Case, ms, secs};
pub use testkit::packet::{Packet, eth, ip, ip4, ip6, raw};

pub mod acl;
pub mod buffering;
pub mod downlink;
pub mod extensions;
pub mod icmp;
pub mod link;
pub mod malformed;
pub mod messages;
pub mod nat;
pub mod neighbours;
pub mod one_device;
pub mod quality;
pub mod reassembly;
pub mod routing;
pub mod selection;
pub mod sessions;
pub mod source;
pub mod uplink;
pub mod usage;

/// Every case of every group.
pub fn all() -> Vec<Case> {
    let groups = [
        uplink::all,
        downlink::all,
        extensions::all,
        selection::all,
        source::all,
        quality::all,
        usage::all,
        routing::all,
        link::all,
        malformed::all,
        messages::all,
        icmp::all,
        neighbours::all,
        one_device::all,
        buffering::all,
        sessions::all,
        nat::all,
        acl::all,
        reassembly::all,
    ];
    groups.iter().flat_map(|group| group()).collect()
}

/// Where the folders are.
pub fn root() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden/upf"))
}

pub const N3_MAC: [u8; 6] = [2, 0, 0, 0, 3, 1];
pub const N6_MAC: [u8; 6] = [2, 0, 0, 0, 6, 1];
pub const GNB_MAC: [u8; 6] = [2, 0, 0, 0, 3, 100];
pub const ROUTER_MAC: [u8; 6] = [2, 0, 0, 0, 6, 254];

pub const N3: Ipv4Addr = Ipv4Addr::new(10, 0, 3, 1);
pub const N3_6: Ipv6Addr = Ipv6Addr::new(0xfd00, 3, 0, 0, 0, 0, 0, 1);
pub const GNB: Ipv4Addr = Ipv4Addr::new(10, 0, 3, 100);
pub const GNB_6: Ipv6Addr = Ipv6Addr::new(0xfd00, 3, 0, 0, 0, 0, 0, 0x100);
pub const N6: Ipv4Addr = Ipv4Addr::new(10, 0, 6, 1);
pub const N6_6: Ipv6Addr = Ipv6Addr::new(0xfd00, 6, 0, 0, 0, 0, 0, 1);
pub const ROUTER: Ipv4Addr = Ipv4Addr::new(10, 0, 6, 254);
pub const ROUTER_6: Ipv6Addr = Ipv6Addr::new(0xfd00, 6, 0, 0, 0, 0, 0, 0x254);

/// The first subscriber.
pub const UE: Ipv4Addr = Ipv4Addr::new(10, 60, 0, 1);
pub const UE_6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0x60, 1, 0, 0, 0, 7);
/// A server behind the router.
pub const SERVER: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 7);
pub const SERVER_6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0x5e, 0, 0, 0, 0, 7);

/// The first subscriber's tunnel endpoint on our side, and the gNB's.
pub const TEID: u32 = 0x0100_0000;
pub const GNB_TEID: u32 = 0x0200_0000;
/// Its QoS flow.
pub const QFI: u8 = 9;

/// One port each side, IPv4 and IPv6, neighbours known; one subscriber with both addresses and one QoS flow.
pub const BASE: &str = r#"
gateway = "upf"
frames = { slots = 2048, slot_bytes = 2048 }
route = [
  { to = "0.0.0.0/0", via = "10.0.6.254" },
  { to = "::/0", via = "fd00:6::254" },
]
neighbour = [
  { port = "n3", address = "10.0.3.100", mac = "02:00:00:00:03:64" },
  { port = "n3", address = "fd00:3::100", mac = "02:00:00:00:03:64" },
  { port = "n6", address = "10.0.6.254", mac = "02:00:00:00:06:fe" },
  { port = "n6", address = "fd00:6::254", mac = "02:00:00:00:06:fe" },
]

[[port]]
name = "n3"
uri = "memory:n3?mac=02:00:00:00:03:01"
role = "access"
addresses = ["10.0.3.1/24", "fd00:3::1/64"]

[[port]]
name = "n6"
uri = "memory:n6?mac=02:00:00:00:06:01"
role = "core"
addresses = ["10.0.6.1/24", "fd00:6::1/64"]

[simulate]
ues = 1
ue_first = "10.60.0.1"
ue6_first = "2001:db8:60:1::"
bearer = [{ qfi = 9 }]
"#;

/// A case on the base configuration.
pub fn case(text: &str) -> Case {
    Case::new(text, BASE)
}

/// The gNB of the subscriber speaks IPv6.
pub const OVER_6: &str = r#"simulate.gnb_first = "fd00:3::100""#;

/// From the gNB to us, up to the transport's IP header.
pub fn from_gnb(over: Over) -> Packet {
    let packet = eth(GNB_MAC, N3_MAC);
    match over {
        Over::V4 => packet.ip4(GNB, N3),
        Over::V6 => packet.ip6(GNB_6, N3_6),
    }
}

/// The transport's family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Over {
    V4,
    V6,
}

/// A subscriber's packet in its tunnel to us, QoS flow marked.
pub fn up(user: &Packet) -> Packet {
    from_gnb(Over::V4).gtpu(TEID).container_up(QFI).carrying(user)
}

/// From us to the router.
pub fn to_router(user: &Packet) -> Packet {
    eth(N6_MAC, ROUTER_MAC).carrying(user)
}

/// From the router to us.
pub fn from_router(user: &Packet) -> Packet {
    eth(ROUTER_MAC, N6_MAC).carrying(user)
}

/// From us to the gNB, in the subscriber's tunnel, QoS flow marked.
pub fn down(user: &Packet) -> Packet {
    tunnel(Over::V4, GNB_TEID).container_down(QFI).carrying(user)
}

/// From us to the gNB, up to the transport's IP header.
pub fn to_gnb(over: Over) -> Packet {
    let packet = eth(N3_MAC, GNB_MAC);
    match over {
        Over::V4 => packet.ip4(N3, GNB),
        Over::V6 => packet.ip6(N3_6, GNB_6),
    }
}

/// From us to the gNB, up to the tunnel's header: without UDP checksum over IPv4, with one over IPv6.
pub fn tunnel(over: Over, teid: u32) -> Packet {
    match over {
        Over::V4 => to_gnb(over).gtpu_unsummed(teid),
        Over::V6 => to_gnb(over).gtpu(teid),
    }
}

/// What a subscriber sends to a server: UDP of 32 bytes of payload, time to live 64.
pub fn request(from: impl Into<IpAddr>) -> Packet {
    let from = from.into();
    ip(from, server(from)).udp(40_000, 50_000).filled(32)
}

/// What the server answers.
pub fn response(to: impl Into<IpAddr>) -> Packet {
    let to = to.into();
    ip(server(to), to).udp(50_000, 40_000).filled(32)
}

fn server(peer: IpAddr) -> IpAddr {
    if peer.is_ipv4() { SERVER.into() } else { SERVER_6.into() }
}

/// A fragment of `whole` (an IPv4 packet with a header of 20 bytes): `len` bytes of its payload from `offset`.
pub fn piece(whole: &Packet, head: Packet, offset: usize, len: usize, more: bool) -> Packet {
    let bytes = whole.build();
    head.fragment(offset as u16, more).says(17).payload(&bytes[20 + offset..20 + offset + len])
}

/// A time in nanoseconds as precise as a count keeps it.
pub fn stamped(ns: u64) -> u64 {
    upf::record::unstamp(upf::record::stamp(ns), ns)
}
