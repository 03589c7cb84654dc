//! Golden cases of the toy gateway, a folder each under `tests/golden`: packets in, packets out, all counters.
//! `WEIR_BLESS=1 cargo test -p toy --test golden` writes the folders.

use std::path::PathBuf;

use gateway_testkit::Device;
use testkit::golden::{Case, ms};
use testkit::packet::{Packet, eth, ip4};
use toy::Toy;

macro_rules! for_each_case {
    ($($name:ident)+) => { testkit::judge_each! { crate::Device<crate::Toy>, crate::root() => $($name)+ } };
}

mod routing {
    use super::*;

    testkit::cases! { forwarded, policed, ping, ttl_expired, wrong_vlan, no_route, waits_for_a_neighbour }

    fn forwarded() -> Case {
        case("From the access VLAN, by the longest source prefix, to the router of the core.")
            .send("access", &from_access(&packet(64)))
            .expect("core", &to_core(&packet(63)))
            .counts("10.1.0.0/16.packets", 1)
            .counts("10.1.0.0/16.bytes", 1000)
    }

    fn policed() -> Case {
        let four = |case: Case| (0..4).fold(case, |case, _| case.send("access", &from_access(&packet(64))));
        let case = four(case("1,000-byte packets at once: 3,000 bytes pass; after 80 ms at 100 kbit/s another."));
        let case = (0..3).fold(case, |case, _| case.expect("core", &to_core(&packet(63))));
        four(case.at(ms(80)))
            .expect("core", &to_core(&packet(63)))
            .drops("routed.police.source_rate", 4)
            .counts("10.1.0.0/16.packets", 4)
            .counts("10.1.0.0/16.bytes", 4000)
            .counts("10.1.0.0/16.dropped", 4)
    }

    fn ping() -> Case {
        let ask = ip4(USER, [10, 0, 0, 1]).ping(7, 1);
        case("The gateway answers a ping to its own address.")
            .send("access", &from_access(&ask))
            .expect("access", &eth(ACCESS, USER_MAC).vlan(100).carrying(&ip4([10, 0, 0, 1], USER).pong(7, 1)))
            .punts("ping", 1)
    }

    fn ttl_expired() -> Case {
        case("The last hop is taken here: dropped by name, and the sender is told.")
            .send("access", &from_access(&packet(1)))
            .expect("access", &told(&packet(1), 11))
            .drops("worker.ttl_expired", 1)
            .counts("10.1.0.0/16.packets", 1)
    }

    fn wrong_vlan() -> Case {
        case("An untagged frame on a tagged port.")
            .send("access", &eth(USER_MAC, ACCESS).carrying(&packet(64)))
            .drops("routed.rx.wrong_vlan", 1)
    }

    fn waits_for_a_neighbour() -> Case {
        let packet = |ttl| ip4(USER, [198, 18, 0, 9]).ttl(ttl).udp(1000, 2000).payload(b"host");
        case("A host of the link is asked for; the packet waits.")
            .send("access", &from_access(&packet(64)))
            .expect("core", &eth(CORE, [0xff; 6]).arp_request(CORE, [198, 18, 0, 1], [198, 18, 0, 9]).padded())
            .at(ms(5))
            .send("core", &eth(ROUTER_MAC, CORE).arp_reply(ROUTER_MAC, [198, 18, 0, 9], CORE, [198, 18, 0, 1]).padded())
            .expect("core", &to_core(&packet(63)))
            .punts("resolve", 1)
            .punts("arp", 1)
            .counts("10.1.0.0/16.packets", 1)
    }

    fn no_route() -> Case {
        case("No route leads there.")
            .with("route = []")
            .send("access", &from_access(&packet(64)))
            .expect("access", &told(&packet(64), 3))
            .drops("worker.no_route", 1)
            .counts("10.1.0.0/16.packets", 1)
    }
}

fn root() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden"))
}

const ACCESS: [u8; 6] = [2, 0, 0, 0, 1, 1];
const CORE: [u8; 6] = [2, 0, 0, 0, 2, 1];
const USER_MAC: [u8; 6] = [2, 0, 0, 0, 1, 2];
const ROUTER_MAC: [u8; 6] = [2, 0, 0, 0, 2, 2];
const USER: [u8; 4] = [10, 1, 0, 7];

/// Memory ports; a rate that a few packets exceed; neighbours that need no resolving.
const CONFIG: &str = r#"
gateway = "toy"
neighbour = [
  { port = "access", address = "10.1.0.7", mac = "02:00:00:00:01:02" },
  { port = "core", address = "198.18.0.254", mac = "02:00:00:00:02:02" },
]
route = [ { to = "0.0.0.0/0", next_hop = "198.18.0.254" } ]
source = [ { prefix = "10.1.0.0/16", rate = "100 kbit/s" }, { prefix = "10.0.0.0/8" } ]

[[port]]
name = "access"
uri = "memory:access?mac=02:00:00:00:01:01"
vlan = 100
addresses = ["10.0.0.1/8"]

[[port]]
name = "core"
uri = "memory:core?mac=02:00:00:00:02:01"
addresses = ["198.18.0.1/24"]
"#;

fn case(text: &str) -> Case {
    Case::new(text, CONFIG)
}

/// 1,000 bytes from the user to a server.
fn packet(ttl: u8) -> Packet {
    ip4(USER, [203, 0, 113, 9]).ttl(ttl).udp(1000, 2000).filled(972)
}

fn from_access(packet: &Packet) -> Packet {
    eth(USER_MAC, ACCESS).vlan(100).carrying(packet)
}

fn to_core(packet: &Packet) -> Packet {
    eth(CORE, ROUTER_MAC).carrying(packet)
}

/// The ICMP error about the user's packet: as much of it as 576 bytes hold (RFC 1812, 4.3.2.3).
fn told(about: &Packet, kind: u8) -> Packet {
    let error = ip4([10, 0, 0, 1], USER).tos(0xc0).icmp4(kind, 0, 0).payload(&about.build()[..548]);
    eth(ACCESS, USER_MAC).vlan(100).carrying(&error)
}

#[test]
fn no_folder_is_without_its_case() {
    let strays = testkit::golden::strays(&root(), &routing::all());
    assert!(strays.is_empty(), "no case describes {strays:?}");
}

/// Every packet comes in by a worker that may not own it: all is as with one.
#[test]
fn two_workers_do_as_one() {
    let handed = testkit::golden::judge_all_shared::<Device<Toy>>(&root(), &routing::all(), 2);
    assert!(handed > 0, "no packet was handed over");
}

#[test]
fn reasons_have_unique_names_and_sentences() {
    testkit::reasons::judge::<toy::pipeline::ToyKind>();
}
