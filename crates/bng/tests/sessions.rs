//! Subscribers that come by themselves: DHCPv4, DHCPv6 and SLAAC through a whole gateway between memory wires.

use std::net::{Ipv4Addr, Ipv6Addr};

use testkit::golden::Subject as _;
use wire::{Mac, Outer, ndp};

use crate::device::Device;
use crate::golden_cases::{self as cases, BASE, GATEWAY, GW_MAC, Packet, eth, ip4, ip6};

const MAC: [u8; 6] = [2, 0xca, 0, 0, 1, 1];
const LOCAL: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0x101);
const SECOND: u64 = 1_000_000_000;

/// The base configuration, in whose first two groups subscribers come by themselves.
fn device(first: &str) -> Device {
    let tables = format!("[group.sessions]\n{first}\n\n[[group]]\nname = \"shared\"");
    let base = BASE.replacen("[[group]]\nname = \"shared\"", &tables, 1);
    let shared = "[group.sessions]\nlease_seconds = 600\n\n[[group]]\nname = \"single\"";
    let base = base.replacen("[[group]]\nname = \"single\"", shared, 1);
    let config: toml::Table = base.parse().expect("TOML");
    Device::start(&config).expect("it starts")
}

#[derive(Clone, Copy)]
pub struct Client {
    pub mac: [u8; 6],
    pub s_vlan: u16,
    pub c_vlan: u16,
}

impl Client {
    pub fn line(&self, to: [u8; 6]) -> Packet {
        eth(self.mac, to).service_vlan(self.s_vlan).vlan(self.c_vlan)
    }

    /// A DHCPv4 message to everybody.
    pub fn dhcp4(&self, kind: u8, options: &[(u8, &[u8])]) -> Vec<u8> {
        let mut body = vec![1, 1, 6, 0, 9, 9, 9, 9];
        body.resize(28, 0);
        body.extend_from_slice(&self.mac);
        body.resize(236, 0);
        body.extend_from_slice(&[99, 130, 83, 99, 53, 1, kind]);
        for (code, data) in options {
            body.extend_from_slice(&[*code, data.len() as u8]);
            body.extend_from_slice(data);
        }
        body.push(255);
        let packet = ip4(Ipv4Addr::UNSPECIFIED, Ipv4Addr::BROADCAST).udp(68, 67).payload(body);
        self.line([0xff; 6]).carrying(&packet).build()
    }

    /// A DHCPv4 message from the client's address to the gateway's, in a frame from that station.
    fn unicast4(&self, kind: u8, address: Ipv4Addr, station: [u8; 6]) -> Vec<u8> {
        let mut body = self.dhcp4(kind, &[])[22 + 20 + 8..].to_vec();
        body[12..16].copy_from_slice(&address.octets());
        let packet = ip4(address, GATEWAY).udp(68, 67).payload(body);
        Self { mac: station, ..*self }.line(GW_MAC).carrying(&packet).build()
    }

    /// A DHCPv6 message to all servers, with an IA_NA and an IA_PD.
    fn dhcp6(&self, kind: u8, server: &[u8]) -> Vec<u8> {
        let option =
            |code: u16, data: &[u8]| [&code.to_be_bytes()[..], &(data.len() as u16).to_be_bytes(), data].concat();
        let mut body = vec![kind, 1, 2, 3];
        body.extend(option(1, &[&[0, 3, 0, 1][..], &self.mac].concat()));
        if !server.is_empty() {
            body.extend(option(2, server));
        }
        body.extend(option(3, &[0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0]));
        body.extend(option(25, &[0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0]));
        self.datagram6(body)
    }

    /// A SOLICIT inside a relay message whose Interface-Id is `admin` (RFC 8415, 9.1).
    fn relayed6(&self) -> Vec<u8> {
        let solicit = &self.dhcp6(1, &[])[22 + 40 + 8..];
        let mut body = vec![12, 0];
        body.extend([0; 16]);
        body.extend(LOCAL.octets());
        body.extend([&[0, 18, 0, 5][..], b"admin", &[0, 9, 0, solicit.len() as u8], solicit].concat());
        self.datagram6(body)
    }

    fn datagram6(&self, body: Vec<u8>) -> Vec<u8> {
        let packet = ip6(LOCAL, "ff02::1:2".parse::<Ipv6Addr>().unwrap()).udp(546, 547).payload(body);
        self.line([0x33, 0x33, 0, 1, 0, 2]).carrying(&packet).build()
    }
}

pub const FIRST: Client = Client { mac: MAC, s_vlan: 100, c_vlan: 7 };

/// Sends a frame by the access port; returns what comes back by it.
pub fn exchange(device: &mut Device, frame: &[u8]) -> Vec<Vec<u8>> {
    device.send("acc", frame);
    device.settle();
    device.received("acc")
}

/// The kind of a DHCPv4 reply, its address and its options, behind two tags.
fn reply4(frame: &[u8]) -> (u8, Ipv4Addr, Vec<(u8, Vec<u8>)>) {
    let body = &frame[22 + 20 + 8..];
    let address: [u8; 4] = body[16..20].try_into().unwrap();
    let (mut options, mut rest) = (Vec::new(), &body[240..]);
    while let [code @ 1..=254, len, tail @ ..] = rest {
        let (data, tail) = tail.split_at((*len).into());
        options.push((*code, data.to_vec()));
        rest = tail;
    }
    let kind = options.iter().find(|(code, _)| *code == 53).expect("a message type").1[0];
    (kind, address.into(), options)
}

/// DISCOVER to ACK.
pub fn bind(device: &mut Device, client: Client) -> Ipv4Addr {
    let got = exchange(device, &client.dhcp4(1, &[]));
    let (kind, address, _) = reply4(&got[0]);
    assert_eq!((got.len(), kind), (1, 2), "an OFFER");
    let server = reply4(&got[0]).2.into_iter().find(|(code, _)| *code == 54).expect("a server").1;
    let got = exchange(device, &client.dhcp4(3, &[(50, &address.octets()), (54, &server)]));
    assert_eq!((got.len(), reply4(&got[0]).0), (1, 5), "an ACK");
    address
}

/// Whether packets pass both ways.
pub fn talks(device: &mut Device, client: Client, gateway: [u8; 6], address: Ipv4Addr) -> bool {
    device.send("acc", &client.line(gateway).carrying(&cases::up(address, 9)).build());
    device.send("core", &cases::from_router(&cases::down(address, 9)).build());
    device.settle();
    let (up, down) = (device.received("core"), device.received("acc"));
    up.len() == 1 && down.len() == 1 && down[0][..6] == client.mac
}

#[test]
fn lease_brings_a_subscriber_that_talks() {
    let mut device = device("lease_seconds = 600\ndns = [\"192.0.2.53\"]\ndomain = \"home.example\"");
    let address = bind(&mut device, FIRST);
    assert_eq!(device.control.sessions().unwrap().count(), 1);
    assert!(talks(&mut device, FIRST, GW_MAC, address));
    // A static subscriber's address and the gateway's are not leased.
    assert!(![GATEWAY, cases::SUB, cases::NEXT].contains(&address));
    // The reply has the tags that came, from the virtual hardware address, and what the configuration says.
    let got = exchange(&mut device, &FIRST.dhcp4(3, &[(50, &address.octets())]));
    let outer = Outer::parse(&got[0]).unwrap();
    assert_eq!((outer.tags, outer.vlans[0].id(), outer.vlans[1].id(), &got[0][6..12]), (2, 100, 7, &GW_MAC[..]));
    let (_, _, options) = reply4(&got[0]);
    let of = |code: u8| options.iter().find(|(known, _)| *known == code).map(|(_, data)| data.clone());
    assert_eq!(of(1), Some(vec![255, 255, 255, 0]));
    assert_eq!(of(3), Some(GATEWAY.octets().to_vec()));
    assert_eq!(of(6), Some(vec![192, 0, 2, 53]));
    assert_eq!(of(15), Some(b"home.example".to_vec()));
    assert_eq!(of(51), Some(vec![0, 0, 2, 88]));
    assert!(of(58).is_some() && of(59).is_some());
    device.close().expect("nothing lost");
}

#[test]
fn release_ends_the_subscriber() {
    let mut device = device("");
    let address = bind(&mut device, FIRST);
    let renewed = bind(&mut device, FIRST);
    assert_eq!(renewed, address, "a client keeps its address");
    release(&mut device, FIRST, address);
    assert_eq!(device.control.sessions().unwrap().count(), 0);
    assert!(!talks(&mut device, FIRST, GW_MAC, address));
    assert_eq!(device.counters().gateway.get("control.refused"), None);
    device.close().expect("nothing lost");
}

/// Gives an IPv4 lease back.
fn release(device: &mut Device, client: Client, address: Ipv4Addr) {
    assert!(exchange(device, &client.unicast4(7, address, client.mac)).is_empty());
}

#[test]
fn clients_of_a_router_renew_and_release_by_unicast() {
    let mut device = device("relayed = true");
    let router = [2, 0xca, 0, 0, 9, 9];
    let address = bind(&mut device, FIRST);
    let renewal = FIRST.unicast4(3, address, router);
    let got = exchange(&mut device, &renewal);
    let to = u32::from_be_bytes(got[0][22 + 16..22 + 20].try_into().unwrap());
    assert_eq!((got.len(), reply4(&got[0]).0, &got[0][..6], to), (1, 5, &router[..], address.into()));
    // Another client's address, and a client that has none.
    let other = Client { mac: [2, 0xca, 0, 0, 1, 2], ..FIRST };
    for frame in [FIRST.unicast4(3, cases::SUB, router), other.unicast4(7, address, router)] {
        assert!(exchange(&mut device, &frame).is_empty());
    }
    let sessions = device.control.sessions().unwrap();
    assert_eq!((sessions.counts().unnamed, sessions.leases()), (2, 1));
    exchange(&mut device, &FIRST.unicast4(7, address, router));
    assert_eq!(device.control.sessions().unwrap().leases(), 0);
    device.close().expect("nothing lost");
    let mut device = self::device("");
    let address = bind(&mut device, FIRST);
    assert!(exchange(&mut device, &FIRST.unicast4(3, address, router)).is_empty(), "relay agents are not trusted");
    assert_eq!(device.control.sessions().unwrap().counts().unnamed, 1);
    device.close().expect("nothing lost");
}

#[test]
fn ended_lease_leaves_the_lines_other_lease() {
    let mut device = device("");
    let second = Client { mac: [2, 0xca, 0, 0, 1, 2], ..FIRST };
    let (kept, left) = (bind(&mut device, FIRST), bind(&mut device, second));
    assert!(talks(&mut device, second, GW_MAC, left), "the latest lease of a line stands");
    release(&mut device, second, left);
    assert_eq!(device.control.sessions().unwrap().count(), 1);
    assert!(talks(&mut device, FIRST, GW_MAC, kept), "{:?}", device.counters());
    assert!(!talks(&mut device, second, GW_MAC, left));
    release(&mut device, FIRST, kept);
    assert_eq!(device.control.sessions().unwrap().count(), 0);
    device.close().expect("nothing lost");
}

#[test]
fn lease_ends_in_time() {
    let mut device = device("lease_seconds = 60");
    let address = bind(&mut device, FIRST);
    device.turn_to(59 * SECOND);
    device.settle();
    assert!(talks(&mut device, FIRST, GW_MAC, address));
    device.turn_to(62 * SECOND);
    device.settle();
    assert_eq!(device.control.sessions().unwrap().leases(), 0);
    assert!(!talks(&mut device, FIRST, GW_MAC, address));
    device.close().expect("nothing lost");
}

#[test]
fn set_wall_clock_ends_no_lease() {
    let mut device = device("lease_seconds = 600\nipv6 = \"slaac\"");
    let address = bind(&mut device, FIRST);
    let ask =
        ip6(LOCAL, "ff02::2".parse::<Ipv6Addr>().unwrap()).ndp(ndp::Repr::RouterSolicit { source: Some(Mac(MAC)) });
    exchange(&mut device, &FIRST.line([0x33, 0x33, 0, 0, 0, 2]).carrying(&ask).build());
    for (at, hours) in [(60, 1), (120, -1), (180, 24)] {
        device.wall_set.store(hours * 3_600_000, std::sync::atomic::Ordering::Relaxed);
        device.turn_to(at * SECOND);
        device.settle();
        let advertisements = device.received("acc");
        assert!(advertisements.is_empty(), "none is due: {advertisements:x?}");
        assert_eq!(device.control.sessions().unwrap().leases(), 2, "set by {hours} h");
        assert!(talks(&mut device, FIRST, GW_MAC, address));
    }
    device.wall_set.store(-3_600_000, std::sync::atomic::Ordering::Relaxed);
    device.turn_to(602 * SECOND);
    device.settle();
    assert_eq!(device.control.sessions().unwrap().leases(), 1, "the IPv4 lease has ended by now");
    device.close().expect("nothing lost");
}

#[test]
fn dual_stack_is_one_subscriber() {
    let mut device = device("ipv6 = \"dhcp\"");
    let address = bind(&mut device, FIRST);
    let got = exchange(&mut device, &FIRST.dhcp6(1, &[]));
    let advertise = got.iter().find(|frame| frame[22 + 6] == 17).expect("an ADVERTISE");
    let body = &advertise[22 + 40 + 8..];
    assert_eq!(body[0], 2);
    let server = &body[8..8 + usize::from(body[7])];
    let got = exchange(&mut device, &FIRST.dhcp6(3, server));
    let reply = got.iter().find(|frame| frame[22 + 6] == 17).expect("a REPLY");
    assert_eq!(reply[22 + 40 + 8], 7);
    assert_eq!(device.control.sessions().unwrap().leases(), 3);
    let mut dynamic = device.control.subscribers().filter(|spec| device.control.sessions().unwrap().has(spec.handle));
    let spec = *dynamic.next().expect("one");
    assert!(dynamic.next().is_none());
    drop(dynamic);
    assert_eq!((spec.ipv4, spec.mac), (Some(address.into()), Some(MAC)));
    let (wan, (pd, len)) = (spec.wan.expect("a WAN prefix"), spec.pd.expect("a delegated prefix"));
    assert_eq!((wan >> 8, pd >> 16, len), (0x0020_010d_b801_0000, 0x2001_0db8_4000, 56));
    for host in [u128::from(wan) << 64 | 1, u128::from(pd | 0x12) << 64 | 7] {
        device.send("acc", &FIRST.line(GW_MAC).carrying(&cases::up6(host.into(), 9)).build());
        device.settle();
        assert_eq!(device.received("core").len(), 1, "{:?}", device.counters());
    }
    // An advertisement says that addresses are had by DHCP.
    let is_advertisement = |frame: &&Vec<u8>| frame[22 + 6] == 58 && frame[22 + 40] == 134;
    let advertisement = got.iter().find(is_advertisement).expect("a router advertisement");
    assert_eq!(advertisement[22 + 40 + 5] & 0xc0, 0xc0);
    // Its end ends all of it.
    device.control.clear(spec.handle).unwrap();
    device.settle();
    let sessions = device.control.sessions().unwrap();
    assert_eq!((sessions.count(), sessions.leases()), (0, 0));
    device.close().expect("nothing lost");
}

#[test]
fn subscribers_are_no_relay_agents() {
    let mut device = device("");
    let got = exchange(&mut device, &FIRST.relayed6());
    assert!(got.iter().all(|frame| frame[22 + 6] != 17), "{got:?}");
    assert_eq!(device.control.sessions().unwrap().counts().relayed, 1);
    device.close().expect("nothing lost");
    let mut device = self::device("trust_option82 = true");
    let got = exchange(&mut device, &FIRST.relayed6());
    let reply = got.iter().find(|frame| frame[22 + 6] == 17).expect("a reply");
    assert_eq!(reply[22 + 40 + 8], 13, "a RELAY-REPL");
    assert_eq!(device.control.sessions().unwrap().counts().relayed, 0);
    device.close().expect("nothing lost");
}

#[test]
fn solicitation_is_given_a_prefix() {
    let mut device = device("ipv6 = \"slaac\"");
    let ask =
        ip6(LOCAL, "ff02::2".parse::<Ipv6Addr>().unwrap()).ndp(ndp::Repr::RouterSolicit { source: Some(Mac(MAC)) });
    let ask = FIRST.line([0x33, 0x33, 0, 0, 0, 2]).carrying(&ask).build();
    let got = exchange(&mut device, &ask);
    assert_eq!(got.len(), 1);
    let message = &got[0][22 + 40..];
    let Ok(ndp::Repr::RouterAdvert { prefix: Some(prefix), flags, source, lifetime, .. }) = ndp::Repr::parse(message)
    else {
        panic!("{message:?}")
    };
    assert_eq!(
        (prefix.len, prefix.flags, flags & 0x80, source),
        (64, ndp::prefix_flag::AUTONOMOUS, 0, Some(Mac(GW_MAC)))
    );
    assert!(lifetime > 0);
    let host = Ipv6Addr::from_bits(prefix.prefix.to_bits() | 0x1234);
    device.send("acc", &FIRST.line(GW_MAC).carrying(&cases::up6(host, 9)).build());
    device.settle();
    assert_eq!(device.received("core").len(), 1, "{:?}", device.counters());
    // One that goes on sending keeps its prefix; one that is silent loses it.
    let live = |device: &mut Device, to: u64, sends: bool| {
        for at in (device.clock.now() / SECOND..to).step_by(300) {
            device.turn_to(at.max(device.clock.now() / SECOND) * SECOND);
            if sends {
                device.send("acc", &FIRST.line(GW_MAC).carrying(&cases::up6(host, 9)).build());
            }
            device.settle();
        }
        device.received("core");
        device.control.sessions().unwrap().count()
    };
    assert_eq!(live(&mut device, 30_000, true), 1);
    assert_eq!(live(&mut device, 60_000, false), 0);
    device.close().expect("nothing lost");
}

#[test]
fn hosts_of_a_shared_line_are_apart() {
    let mut device = device("");
    let host = |n: u8| Client { mac: [2, 0xca, 0, 0, 2, n], s_vlan: 200, c_vlan: 1 };
    let (a, b) = (bind(&mut device, host(1)), bind(&mut device, host(2)));
    assert_ne!(a, b);
    // The limit of a line is a host's here.
    let many = (10..90).map(|n| bind(&mut device, host(n))).collect::<std::collections::HashSet<_>>();
    assert_eq!(many.len(), 80);
    for n in 10..90 {
        let handle = device.control.find(&format!("shared/acc:200.1/02:ca:00:00:02:{n:02x}")).expect("there").handle;
        device.control.clear(handle).unwrap();
    }
    device.settle();
    assert_eq!(device.control.sessions().unwrap().count(), 2);
    assert!(talks(&mut device, host(1), cases::ACC_MAC, a) && talks(&mut device, host(2), cases::ACC_MAC, b));
    assert!(!talks(&mut device, host(1), cases::ACC_MAC, b), "another's address");
    let names: Vec<_> = device.control.subscribers().map(|spec| device.control.name(spec)).collect();
    assert!(names.contains(&"shared/acc:200.1/02:ca:00:00:02:01".to_owned()), "{names:?}");
    assert!(names.iter().all(|name| device.control.find(name).is_some()), "{names:?}");
    device.close().expect("nothing lost");
}

#[test]
fn invented_hosts_take_no_more_prefixes_than_a_pair_may() {
    let tables = "[group.sessions]\nipv6 = \"slaac\"\n\n[[group]]\nname = \"single\"";
    let base = BASE.replacen("[[group]]\nname = \"single\"", tables, 1).replacen(
        "gateways = [\"100.65.0.1\"]",
        "ipv6_wan = [\"2001:db8:200::/48\"]\ngateways = [\"100.65.0.1\", \"fe80::1\"]",
        1,
    );
    let config: toml::Table = format!("sessions = {{ leases_per_pair = 3 }}\n{base}").parse().expect("TOML");
    let mut device = Device::start(&config).expect("it starts");
    for n in 1..=10 {
        let host = Client { mac: [2, 0xca, 0, 0, 2, n], s_vlan: 200, c_vlan: 1 };
        let ask = ndp::Repr::RouterSolicit { source: Some(Mac(host.mac)) };
        let ask = ip6(LOCAL, "ff02::2".parse::<Ipv6Addr>().unwrap()).ndp(ask);
        let got = exchange(&mut device, &host.line([0x33, 0x33, 0, 0, 0, 2]).carrying(&ask).build());
        assert_eq!(got.len(), usize::from(n <= 3), "host {n}");
    }
    let sessions = device.control.sessions().unwrap();
    assert_eq!((sessions.leases(), sessions.counts().pair_limit, sessions.counts().no_prefix), (3, 7, 0));
    device.close().expect("nothing lost");
}

#[test]
fn wrong_address_is_refused() {
    let mut device = device("");
    let got = exchange(&mut device, &FIRST.dhcp4(3, &[(50, &[10, 0, 0, 1])]));
    assert_eq!((got.len(), reply4(&got[0]).0), (1, 6), "a NAK");
    // A line with a static subscriber is not served.
    let fixed = Client { mac: cases::SUB_MAC, s_vlan: 100, c_vlan: 1 };
    assert!(exchange(&mut device, &fixed.dhcp4(1, &[])).is_empty());
    assert_eq!(device.control.sessions().unwrap().counts().fixed, 1);
    device.close().expect("nothing lost");
}

/// Option 82 with the actual data rates of a line in kbit/s (TR-101, 3.9).
fn line_rate(up: u32, down: u32) -> Vec<u8> {
    let rates = [&[0x81, 4][..], &up.to_be_bytes(), &[0x82, 4], &down.to_be_bytes()].concat();
    [&[1, 4][..], b"line", &[9, 17, 0, 0, 0x0d, 0xe9, 12], &rates].concat()
}

/// How many of ten packets of 1,000 bytes, sent at once, pass up and down.
fn passed(device: &mut Device, address: Ipv4Addr) -> (usize, usize) {
    let (up, down) = (ip4(address, cases::SERVER).ttl(9), ip4(cases::SERVER, address).ttl(9));
    let [up, down] = [up, down].map(|packet| packet.udp(1000, 2000).payload(vec![0; 972]));
    for _ in 0..10 {
        device.send("acc", &FIRST.line(GW_MAC).carrying(&up).build());
        device.send("core", &cases::from_router(&down).build());
    }
    device.settle();
    (device.received("core").len(), device.received("acc").len())
}

#[test]
fn line_bounds_the_rates_of_its_subscriber() {
    let mut device = device("trust_option82 = true");
    let discover = |kind, address: Option<Ipv4Addr>, agent: &[u8]| {
        let address = address.map(|address| address.octets());
        let options: Vec<_> = address.iter().map(|octets| (50, &octets[..])).chain([(82, agent)]).collect();
        FIRST.dhcp4(kind, &options)
    };
    // Bursts of a bounded rate are 100 ms, or 3,000 bytes.
    let told = line_rate(64, 480);
    let address = reply4(&exchange(&mut device, &discover(1, None, &told))[0]).1;
    assert_eq!(reply4(&exchange(&mut device, &discover(3, Some(address), &told))[0]).0, 5);
    assert_eq!(passed(&mut device, address), (3, 6));
    // The line has been trained anew: a renewal, which needs no record, tells so.
    let renewal = discover(3, Some(address), &line_rate(640, 0));
    assert_eq!(reply4(&exchange(&mut device, &renewal)[0]).0, 5);
    let later = device.clock.now() + SECOND;
    device.turn_to(later);
    assert_eq!(passed(&mut device, address), (8, 6), "what was not told stays");
    assert!(device.control.sessions().unwrap().counts().foreign_rates == 0);
    device.close().expect("nothing lost");

    let mut device = self::device("trust_option82 = true\ncap_by_line_rate = false");
    let address = reply4(&exchange(&mut device, &discover(1, None, &told))[0]).1;
    assert_eq!(reply4(&exchange(&mut device, &discover(3, Some(address), &told))[0]).0, 5);
    assert_eq!(passed(&mut device, address), (10, 10), "it is told, and bounds nothing");
    device.close().expect("nothing lost");

    let mut device = self::device("");
    let address = reply4(&exchange(&mut device, &discover(1, None, &told))[0]).1;
    assert_eq!(reply4(&exchange(&mut device, &discover(3, Some(address), &told))[0]).0, 5);
    assert_eq!(passed(&mut device, address), (10, 10), "a subscriber's own word");
    device.close().expect("nothing lost");
}
