//! Subscribers whose leases a DHCP server of the core grants, through a whole gateway between memory wires.

use std::net::{Ipv4Addr, Ipv6Addr};

use testkit::golden::Subject as _;
use wire::{Mac, ndp};

use crate::device::Device;
use crate::golden_cases::{ACC_MAC, BASE, CORE_MAC, ROUTER_MAC, eth, ip4, ip6};
use crate::sessions::{Client, exchange, talks};

const SERVER: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 254);
const GIADDR: Ipv4Addr = Ipv4Addr::new(100, 65, 0, 1);
const SECOND: u64 = 1_000_000_000;

/// The base configuration, whose N:1 group has its leases of a server.
fn device() -> Device {
    start(BASE, "")
}

/// As [`device`], with these keys of the group's sessions.
fn start(base: &str, sessions: &str) -> Device {
    let relay = format!("[group.sessions]\n{sessions}\n[group.sessions.relay]\nservers = [\"198.18.0.254\"]\n\n");
    let base = base.replacen("[[group]]\nname = \"single\"", &format!("{relay}[[group]]\nname = \"single\""), 1);
    let config: toml::Table = base.parse().expect("TOML");
    Device::start(&config).expect("it starts")
}

fn client(n: u8) -> Client {
    Client { mac: [2, 0xca, 0, 0, 7, n], s_vlan: 200, c_vlan: 1 }
}

/// What a client sends, as the server gets it: the UDP payload.
fn forwarded(device: &mut Device, frame: &[u8]) -> Vec<u8> {
    assert!(exchange(device, frame).is_empty(), "the gateway does not answer by itself");
    let got = device.received("core");
    assert_eq!(got.len(), 1);
    let (ip, body) = (&got[0][14..34], &got[0][42..]);
    assert_eq!((&ip[12..16], &ip[16..20]), (&GIADDR.octets()[..], &SERVER.octets()[..]));
    assert_eq!((body[3], &body[24..28]), (1, &GIADDR.octets()[..]));
    body.to_vec()
}

/// A server's reply to such a message; returns the frames to the clients.
fn reply(device: &mut Device, request: &[u8], kind: u8, address: Ipv4Addr) -> Vec<Vec<u8>> {
    let mut body = request[..240].to_vec();
    body[0] = 2;
    body[16..20].copy_from_slice(&address.octets());
    body.extend_from_slice(&[53, 1, kind, 54, 4]);
    body.extend_from_slice(&SERVER.octets());
    body.extend_from_slice(&[51, 4, 0, 0, 0, 120]);
    let at = request.windows(3).rposition(|bytes| bytes == [82, request_agent_len(request), 1]).expect("option 82");
    body.extend_from_slice(&request[at..at + 2 + usize::from(request[at + 1])]);
    body.push(255);
    let packet = ip4(SERVER, GIADDR).udp(67, 67).payload(body);
    device.send("core", &eth(ROUTER_MAC, CORE_MAC).carrying(&packet).build());
    device.settle();
    device.received("acc")
}

/// Length of option 82: circuit ID `acc:200.1` and a hardware address.
fn request_agent_len(request: &[u8]) -> u8 {
    let circuit = b"\x01\x09acc:200.1\x02\x06";
    assert!(request.windows(circuit.len()).any(|bytes| bytes == circuit), "the line is named");
    circuit.len() as u8 + 6
}

#[test]
fn shared_lines_are_relayed_by_hardware_address() {
    let mut device = device();
    let addresses = [Ipv4Addr::new(100, 65, 0, 50), Ipv4Addr::new(100, 65, 0, 51)];
    // Both clients have sent before either gets a reply, with the same transaction identifier.
    let requests = [1, 2].map(|n| forwarded(&mut device, &client(n).dhcp4(3, &[(50, &addresses[0].octets())])));
    for n in [1, 0] {
        let got = reply(&mut device, &requests[n], 5, addresses[n]);
        assert_eq!((got.len(), &got[0][..6]), (1, &client(n as u8 + 1).mac[..]), "to the client itself");
        assert_eq!(&got[0][22 + 12..22 + 16], &GIADDR.octets(), "from the gateway");
        assert!(!got[0].windows(9).any(|bytes| bytes == b"acc:200.1"), "option 82 is taken out");
    }
    for n in [0, 1] {
        assert!(talks(&mut device, client(n as u8 + 1), ACC_MAC, addresses[n]));
    }
    let sessions = device.control.sessions().expect("sessions");
    assert_eq!((sessions.count(), sessions.leases()), (2, 2));
    let handles: Vec<_> = device.control.subscribers().filter(|spec| sessions.has(spec.handle)).collect();
    assert!(handles.iter().all(|spec| sessions.granted_by(spec.handle) == [std::net::IpAddr::from(SERVER)]));
    device.close().expect("nothing lost");
}

#[test]
fn relayed_lease_ends_when_the_server_said() {
    let mut device = device();
    let address = Ipv4Addr::new(100, 65, 0, 50);
    let request = forwarded(&mut device, &client(1).dhcp4(3, &[(50, &address.octets())]));
    reply(&mut device, &request, 5, address);
    device.turn_to(100 * SECOND);
    device.settle();
    assert!(talks(&mut device, client(1), ACC_MAC, address));
    device.turn_to(122 * SECOND);
    device.settle();
    assert!(!talks(&mut device, client(1), ACC_MAC, address));
    assert_eq!(device.control.sessions().expect("sessions").leases(), 0);
    device.close().expect("nothing lost");
}

#[test]
fn relayed_renewal_renews_the_advertised_prefix() {
    let with_v6 = "ipv6_wan = [\"2001:db8:200::/48\"]\ngateways = [\"100.65.0.1\", \"fe80::1\"]";
    let base = BASE.replacen("gateways = [\"100.65.0.1\"]", with_v6, 1);
    let mut device = start(&base, "ipv6 = \"slaac\"\nipv6_valid_seconds = 600\nipv6_preferred_seconds = 300");
    let (host, address) = (client(1), Ipv4Addr::new(100, 65, 0, 50));
    let ask = ndp::Repr::RouterSolicit { source: Some(Mac(host.mac)) };
    let (from, routers) = (Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 7), Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 2));
    let ask = ip6(from, routers).ndp(ask);
    assert_eq!(exchange(&mut device, &host.line([0x33, 0x33, 0, 0, 0, 2]).carrying(&ask).build()).len(), 1);
    let leases = |device: &Device| device.control.sessions().expect("sessions").leases();
    assert_eq!(leases(&device), 1);
    device.turn_to(500 * SECOND);
    device.settle();
    device.received("acc");
    let request = forwarded(&mut device, &host.dhcp4(3, &[(50, &address.octets())]));
    reply(&mut device, &request, 5, address);
    assert_eq!(leases(&device), 2);
    device.turn_to(700 * SECOND);
    device.settle();
    assert_eq!(leases(&device), 1, "the address has ended after 120 s, the prefix lasts 600 s from then");
    device.turn_to(1102 * SECOND);
    device.settle();
    assert_eq!(leases(&device), 0);
    device.close().expect("nothing lost");
}

#[test]
fn other_groups_are_not_relayed() {
    let mut device = device();
    let other = Client { mac: [2, 0xca, 0, 0, 7, 9], s_vlan: 100, c_vlan: 9 };
    assert!(exchange(&mut device, &other.dhcp4(1, &[])).is_empty());
    assert!(device.received("core").is_empty(), "the group has no sessions");
    device.close().expect("nothing lost");
}
