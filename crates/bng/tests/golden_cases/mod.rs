//! The cases, a file for each group. What they share: a gateway with an access port, a core port and a hybrid port, and a
//! subscriber group for each way lines are tagged.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;

pub use testkit::golden::{Case, ms};
pub use testkit::packet::{Packet, eth, ip4, ip6};
pub use wire::Mac;

pub mod access;
pub mod control;
pub mod errors;
pub mod garden;
pub mod nat;
pub mod ports;
pub mod rates;

/// Every case of every group.
pub fn all() -> Vec<Case> {
    [access::all, control::all, errors::all, garden::all, nat::all, ports::all, rates::all]
        .iter()
        .flat_map(|group| group())
        .collect()
}

/// Where the folders are.
pub fn root() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden/bng"))
}

/// The gateway's virtual hardware address towards the first group.
pub const GW_MAC: [u8; 6] = [2, 0, 0x5e, 0, 0, 1];
/// The access port's own.
pub const ACC_MAC: [u8; 6] = [2, 0, 0, 0, 1, 1];
pub const CORE_MAC: [u8; 6] = [2, 0, 0, 0, 2, 1];
pub const HYBRID_MAC: [u8; 6] = [2, 0, 0, 0, 3, 1];
pub const ROUTER_MAC: [u8; 6] = [2, 0, 0, 0, 2, 2];
/// The first subscriber's; the next of its entry has the next.
pub const SUB_MAC: [u8; 6] = [2, 0xca, 0, 0, 0, 1];
pub const NEXT_MAC: [u8; 6] = [2, 0xca, 0, 0, 0, 2];
pub const OTHER_MAC: [u8; 6] = [2, 0xca, 0, 0, 0, 0x99];

pub const GATEWAY: Ipv4Addr = Ipv4Addr::new(100, 64, 0, 1);
pub const GATEWAY_6: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1);
pub const CORE: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 1);
pub const CORE_6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0x18, 0, 0, 0, 0, 0, 1);
pub const SERVER: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 7);
pub const SERVER_6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0x5e, 0, 0, 0, 0, 7);
/// The first subscriber: address, a host of its WAN prefix, one of its delegated prefix.
pub const SUB: Ipv4Addr = Ipv4Addr::new(100, 64, 0, 10);
pub const NEXT: Ipv4Addr = Ipv4Addr::new(100, 64, 0, 11);
pub const SUB_6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0x100, 0, 0, 0, 0, 2);
pub const SUB_PD: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0x4000, 0x12, 0, 0, 0, 2);
pub const SUB_LOCAL: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0x99);

/// The configuration of all cases, unless they say otherwise.
pub const BASE: &str = r#"
gateway = "bng"
frames = { slots = 2048, slot_bytes = 2048 }
route = [ { to = "0.0.0.0/0", via = "198.18.0.254" }, { to = "::/0", via = "fd00:18::254" } ]
neighbour = [
  { port = "core", address = "198.18.0.254", mac = "02:00:00:00:02:02" },
  { port = "core", address = "fd00:18::254", mac = "02:00:00:00:02:02" },
]
profile = [ { name = "home" } ]

[[port]]
name = "acc"
uri = "memory:acc?mac=02:00:00:00:01:01"
role = "access"

[[port]]
name = "core"
uri = "memory:core?mac=02:00:00:00:02:01"
role = "core"
addresses = ["198.18.0.1/24", "fd00:18::1/64"]

[[port]]
name = "hyb"
uri = "memory:hyb?mac=02:00:00:00:03:01"
role = "hybrid"
vlan = 10
addresses = ["198.18.1.1/24"]

[[group]]
name = "pon"
ports = ["acc"]
s_vlans = "100-101"
c_vlans = "1-10"
ipv4 = ["100.64.0.0/24"]
ipv6_wan = ["2001:db8:100::/56"]
ipv6_pd = [ { prefix = "2001:db8:4000::/48", length = 56 } ]
gateways = ["100.64.0.1", "fe80::1"]
mac = "02:00:5e:00:00:01"
profile = "home"

[[group]]
name = "shared"
ports = ["acc"]
s_vlans = 200
c_vlans = 1
model = "N:1"
ipv4 = ["100.65.0.0/24"]
gateways = ["100.65.0.1"]
profile = "home"

[[group]]
name = "single"
ports = ["acc"]
s_vlans = "300-310"
tpid = "0x8100"
ipv4 = ["100.66.0.0/24"]
gateways = ["100.66.0.1"]
profile = "home"

[[group]]
name = "untagged"
ports = ["acc"]
ipv4 = ["100.67.0.0/24"]
gateways = ["100.67.0.1"]
profile = "home"

[[group]]
name = "hybrid"
ports = ["hyb"]
s_vlans = 500
c_vlans = "1-10"
ipv4 = ["100.68.0.0/24"]
gateways = ["100.68.0.1"]
profile = "home"

[[subscriber]]
group = "pon"
count = 2
mac = "02:ca:00:00:00:01"
ipv4 = "100.64.0.10"
ipv6_wan = "2001:db8:100::"
ipv6_pd = "2001:db8:4000::/56"

[[subscriber]]
group = "shared"
count = 2
mac = "02:ca:00:00:00:01"
ipv4 = "100.65.0.10"

[[subscriber]]
group = "single"
ipv4 = "100.66.0.10"

[[subscriber]]
group = "untagged"
mac = "02:ca:00:00:00:01"
ipv4 = "100.67.0.10"

[[subscriber]]
group = "hybrid"
mac = "02:ca:00:00:00:01"
ipv4 = "100.68.0.10"
"#;

/// A case on the base configuration.
pub fn case(text: &str) -> Case {
    Case::new(text, BASE)
}

/// As the first subscriber sends it.
pub fn from_sub(packet: &Packet) -> Packet {
    eth(SUB_MAC, GW_MAC).service_vlan(100).vlan(1).carrying(packet)
}

/// As the first subscriber gets it.
pub fn to_sub(packet: &Packet) -> Packet {
    eth(GW_MAC, SUB_MAC).service_vlan(100).vlan(1).carrying(packet)
}

/// As the core's router sends it.
pub fn from_router(packet: &Packet) -> Packet {
    eth(ROUTER_MAC, CORE_MAC).carrying(packet)
}

/// As the core's router gets it.
pub fn to_router(packet: &Packet) -> Packet {
    eth(CORE_MAC, ROUTER_MAC).carrying(packet)
}

/// A datagram from an IPv4 address to the server.
pub fn up(from: Ipv4Addr, ttl: u8) -> Packet {
    ip4(from, SERVER).ttl(ttl).udp(1000, 2000).payload(b"broadband")
}

/// A datagram from the server to an IPv4 address.
pub fn down(to: Ipv4Addr, ttl: u8) -> Packet {
    ip4(SERVER, to).ttl(ttl).udp(2000, 1000).payload(b"broadband")
}

/// As [`up`], over IPv6.
pub fn up6(from: Ipv6Addr, hops: u8) -> Packet {
    ip6(from, SERVER_6).ttl(hops).udp(1000, 2000).payload(b"broadband")
}

/// As [`down`], over IPv6.
pub fn down6(to: Ipv6Addr, hops: u8) -> Packet {
    ip6(SERVER_6, to).ttl(hops).udp(2000, 1000).payload(b"broadband")
}
