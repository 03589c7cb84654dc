//! First looks at a packet.

use std::net::IpAddr;

use engine::{At, Burst, Drop, Kind, Punt};
use frame::{BURST, HostInterface};
use wire::ethernet::{TAG_LEN, Tag, Tags};
use wire::{Fragment, L3L4, Malformed, Outer, ethertype, fast, protocol};

use crate::forward::{PortView, is_martian4, is_martian6};
use crate::{drops, punts};

/// Parsed headers of each user packet: written once, by the first stage.
pub struct UserIp(pub [L3L4; BURST]);

impl Default for UserIp {
    fn default() -> Self {
        Self([L3L4::default(); BURST])
    }
}

/// A lane with user packets in it.
pub trait HasIp {
    /// The headers of packet `i`.
    fn ip(&self, i: usize) -> &L3L4;
    /// The headers of packet `i`, to fill in.
    fn ip_mut(&mut self, i: usize) -> &mut L3L4;
}

/// The drop reason for bytes that are no packet.
#[inline]
pub fn malformed(why: Malformed) -> Drop {
    match why {
        Malformed::BadHeaderChecksum => drops::HEADER_CHECKSUM,
        _ => drops::MALFORMED,
    }
}

/// Checks that a frame is meant for this port (hardware address or multicast, VLAN) and finds its network layer:
/// (type, offset).
#[inline]
pub fn link(frame: &[u8], port: &PortView) -> Result<(u16, u16), Drop> {
    let outer = Outer::parse(frame).map_err(malformed)?;
    if !port.has_tags(&outer) {
        return Err(drops::WRONG_VLAN);
    }
    is_for(frame, &outer, port)?;
    Ok((outer.ethertype, outer.l3))
}

/// The link header of a received frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// The network layer's type.
    pub ethertype: u16,
    /// Where the network layer begins, in bytes from the frame's start.
    pub l3: u16,
    /// The tags as received, with types and priorities: an answer has the same.
    pub tags: Tags,
}

/// As [`link`], for a port whose subscribers are told apart by their tags (TR-101): any are taken, up to two.
#[inline]
pub fn link_with_any_tags(frame: &[u8], port: &PortView) -> Result<Link, Drop> {
    let outer = Outer::parse(frame).map_err(malformed)?;
    is_for(frame, &outer, port)?;
    let tag = |n: usize| Tag { kind: fast::be16(frame, 12 + n * TAG_LEN).unwrap_or_default(), vlan: outer.vlans[n] };
    let tags = match outer.tags {
        0 => Tags::None,
        1 => Tags::One(tag(0)),
        _ => Tags::Two(tag(0), tag(1)),
    };
    Ok(Link { ethertype: outer.ethertype, l3: outer.l3, tags })
}

/// Checks that a frame is to the port's hardware address, or to a group that we listen to.
#[inline(always)]
fn is_for(frame: &[u8], outer: &Outer, port: &PortView) -> Result<(), Drop> {
    let is_taken = frame[..6] == port.mac
        || port.mac == [0; 6]
        || is_for_all(frame, outer)
        || (port.host.is_some() && is_ospf_frame(frame, outer));
    if !is_taken {
        return Err(if frame[0] & 1 == 1 { drops::MULTICAST } else { drops::NOT_FOR_US });
    }
    Ok(())
}

/// What stands behind a link header.
pub enum Network {
    /// An IP packet with these headers.
    Ip(L3L4),
    /// A question for, or an answer of, a hardware address.
    Arp,
    /// A message of IS-IS.
    IsIs,
}

/// Reads the network layer that the link header announced: IP, or ARP for the slow path, or IS-IS on a port with a host
/// interface; nothing else is for us.
#[inline]
pub fn network(kind: u16, packet: &[u8], port: &PortView) -> Result<Network, Drop> {
    match kind {
        ethertype::IP4 => L3L4::parse4(packet).map(Network::Ip).map_err(malformed),
        ethertype::IP6 => L3L4::parse6(packet).map(Network::Ip).map_err(malformed),
        ethertype::ARP => Ok(Network::Arp),
        kind if port.host.is_some() && is_isis(kind, packet) => Ok(Network::IsIs),
        _ => Err(drops::ETHER_TYPE),
    }
}

/// What a frame holds that is no IP packet for us.
pub enum NotIp {
    /// ARP, with the offset of the network layer: for the slow path.
    Arp(u16),
    /// IS-IS, with the offset of what follows the link header: for the slow path.
    IsIs(u16),
    /// It is dropped for that reason.
    Dropped(Drop),
}

impl NotIp {
    /// Takes packet `i` out of the pipeline.
    pub fn leave<K: Kind>(self, burst: &mut Burst<K>, i: usize, at: At<'_>) {
        match self {
            Self::Arp(l3) => {
                burst.frame_mut(i).meta.l3 = l3;
                burst.punt(i, punts::ARP);
            }
            Self::IsIs(l3) => {
                burst.frame_mut(i).meta.l3 = l3;
                burst.punt(i, punts::ROUTING);
            }
            Self::Dropped(reason) => burst.drop(i, reason, at),
        }
    }
}

/// The IP packet in a frame of that port, by what the [link header](link) says: its offset and its headers.
#[inline]
pub fn ip(frame: &[u8], link: Result<(u16, u16), Drop>, port: &PortView) -> Result<(u16, L3L4), NotIp> {
    let (kind, l3) = link.map_err(NotIp::Dropped)?;
    match network(kind, frame.get(usize::from(l3)..).unwrap_or_default(), port) {
        Ok(Network::Ip(ip)) => Ok((l3, ip)),
        Ok(Network::Arp) => Err(NotIp::Arp(l3)),
        Ok(Network::IsIs) => Err(NotIp::IsIs(l3)),
        Err(reason) => Err(NotIp::Dropped(reason)),
    }
}

/// ICMPv6 types of neighbour discovery (RFC 4861, 4).
const DISCOVERY: std::ops::RangeInclusive<u8> = 133..=137;
const ECHO_REQUEST4: u8 = 8;
const ECHO_REQUEST6: u8 = 128;

/// The port of BGP (RFC 4271, 4.1).
const BGP: u16 = 179;
/// The ports of BFD: control over one hop, echo, control over several (RFC 5881, 4; RFC 5883, 5).
const BFD: u16 = 3784;
const BFD_ECHO: u16 = 3785;
const BFD_MULTIHOP: u16 = 4784;
/// OSPF (RFC 2328, A.1; RFC 5340, 2.7).
const OSPF: u8 = 89;
/// All OSPF routers, and all designated ones.
const OSPF_GROUPS4: [u32; 2] = [0xe000_0005, 0xe000_0006];
const OSPF_GROUPS6: [u128; 2] = [0xff02 << 112 | 5, 0xff02 << 112 | 6];

/// Whether a packet is a routing protocol's (BGP, OSPF, BFD) and for the daemon on the port's host interface. `ours`: its
/// destination is an address of the port.
#[inline]
pub fn is_routing(ip: &L3L4, packet: &[u8], port: &PortView, ours: bool) -> bool {
    port.host.is_some()
        && match ip.protocol {
            OSPF => ours || is_ospf_group(ip, packet),
            protocol::TCP => ours && is_bgp(ip, packet),
            protocol::UDP => ours && is_bfd(ip),
            _ => false,
        }
}

/// Whether a datagram is BFD. Over one hop nobody beyond the link may have sent it (RFC 5881, 5); an echo has been forwarded
/// once, by the neighbour.
fn is_bfd(ip: &L3L4) -> bool {
    match ip.dst_port {
        BFD => ip.ttl == 255,
        BFD_ECHO => ip.ttl >= 254,
        port => port == BFD_MULTIHOP,
    }
}

/// What goes to a port's host interface: each class has a rate of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostClass {
    /// What routers of the link send: IS-IS, OSPF, BFD over one hop.
    Link,
    /// What may come from anywhere: BGP, BFD over several hops.
    Sessions,
    /// Answers to pings, and errors.
    Icmp,
    /// What services of the host listen for.
    Service,
}

/// What becomes of a packet that the gateway has no use for: services of the host have it, where the port has some and it is to
/// an address of the port (`ours`).
///
/// # Errors
/// `otherwise` where they do not have it; the reason for a source that no host has. Link-local ones are IPv6 neighbours.
pub fn host_or(ip: &L3L4, packet: &[u8], port: &PortView, ours: bool, otherwise: Drop) -> Result<Punt, Drop> {
    let has_services = ours && port.host.as_ref().is_some_and(HostInterface::has_services);
    if !has_services || is_refused_routing(ip) {
        return Err(otherwise);
    }
    let is_martian = if ip.version == 4 {
        is_martian4(ip.src)
    } else {
        let from = ip.src6(packet);
        is_martian6(from) && from >> 118 != 0xfe80 >> 6
    };
    if is_martian { Err(drops::MARTIAN_SOURCE) } else { Ok(punts::HOST) }
}

/// Whether a packet is a fragment of a datagram whose ports may be those of a service of the gateway: later ones have none, and
/// behind extension headers of IPv6 do not tell their protocol (RFC 8200, 4.5). Such a datagram is not the host's, in no part.
pub fn may_be_of_datagram(ip: &L3L4) -> bool {
    ip.fragment != Fragment::Whole
        && (ip.protocol == protocol::UDP || ip.fragment == Fragment::Later && is_extension(ip))
}

/// Hop-by-hop options, routing, authentication, destination options (RFC 8200, 4.1), mobility, host identity, shim6.
fn is_extension(ip: &L3L4) -> bool {
    ip.version == 6 && matches!(ip.protocol, 0 | 43 | 51 | 60 | 135 | 139 | 140)
}

/// Whether a packet that is not [routing](is_routing) would pass for it later, or looks like it: a connection from the port of
/// BGP to another one, whose segments are told from those of BGP by nothing, and BFD over one hop from beyond the link.
fn is_refused_routing(ip: &L3L4) -> bool {
    match ip.protocol {
        protocol::TCP => ip.src_port == BGP,
        protocol::UDP => matches!(ip.dst_port, BFD | BFD_ECHO) && !is_bfd(ip),
        _ => false,
    }
}

/// Which class a punted frame is of; none: it is not for the daemon. Of ICMP those are echo replies and errors to the port's
/// addresses, without redirects, which would change the host's routes.
pub fn host_class(frame: &[u8], punt: Punt, port: &PortView) -> Option<HostClass> {
    if punt == punts::HOST {
        return Some(HostClass::Service);
    }
    let outer = Outer::parse(frame).ok()?;
    let packet = frame.get(usize::from(outer.l3)..)?;
    let ip = match outer.ethertype {
        ethertype::IP4 | ethertype::IP6 => L3L4::parse(packet).ok()?,
        _ => return (punt == punts::ROUTING).then_some(HostClass::Link),
    };
    if punt == punts::ROUTING {
        let is_far = ip.protocol == protocol::TCP || ip.protocol == protocol::UDP && ip.dst_port == BFD_MULTIHOP;
        return Some(if is_far { HostClass::Sessions } else { HostClass::Link });
    }
    let ours = if ip.version == 4 { port.is_mine4(ip.dst) } else { port.is_mine6(ip.dst6(packet)) };
    let kind = *packet.get(usize::from(ip.l4)).filter(|_| ours && ip.fragment != Fragment::Later)?;
    let is_wanted = matches!((ip.version, kind), (4, 0 | 3 | 11 | 12) | (6, 1..=4 | 129));
    is_wanted.then_some(HostClass::Icmp)
}

/// Whether a TCP segment is of a session of BGP: to its port, or from it without opening a connection to another.
pub fn is_bgp(ip: &L3L4, packet: &[u8]) -> bool {
    ip.dst_port == BGP || ip.src_port == BGP && !opens(ip, packet)
}

/// Whether a TCP segment opens a connection: SYN without ACK (RFC 9293, 3.1), or flags that are not there to be read.
fn opens(ip: &L3L4, packet: &[u8]) -> bool {
    const SYN: u8 = 0x02;
    const SYN_ACK: u8 = 0x12;
    packet.get(usize::from(ip.l4) + 13).is_none_or(|flags| flags & SYN_ACK == SYN)
}

fn is_ospf_group(ip: &L3L4, packet: &[u8]) -> bool {
    if ip.version == 4 { OSPF_GROUPS4.contains(&ip.dst) } else { OSPF_GROUPS6.contains(&ip.dst6(packet)) }
}

/// Whether what stands behind a link header is a message of IS-IS: an 802.2 header with its address (ISO/IEC 10589, 8.4.8).
fn is_isis(kind: u16, packet: &[u8]) -> bool {
    const LONGEST_802_3: u16 = 1500;
    kind <= LONGEST_802_3 && packet.starts_with(&[0xfe, 0xfe, 0x03])
}

/// Whether a packet is a message of IPv6 neighbour discovery.
pub fn is_discovery(ip: &L3L4, packet: &[u8]) -> bool {
    let kind = || packet.get(usize::from(ip.l4));
    ip.version == 6
        && ip.protocol == protocol::ICMP6
        && ip.fragment != Fragment::Later
        && kind().is_some_and(|kind| DISCOVERY.contains(kind))
}

/// What becomes of a packet to an address of ours where nothing but ICMP is served.
///
/// # Errors
/// The reason under which any other is dropped.
pub fn local(ip: &L3L4, packet: &[u8]) -> Result<Punt, Drop> {
    let kind = packet.get(usize::from(ip.l4)).copied().filter(|_| ip.fragment != Fragment::Later);
    match (ip.version, ip.protocol, kind) {
        (4, protocol::ICMP4, Some(ECHO_REQUEST4)) | (6, protocol::ICMP6, Some(ECHO_REQUEST6)) => Ok(punts::PING),
        (4, protocol::ICMP4, _) | (6, protocol::ICMP6, _) => Ok(punts::ICMP_OTHER),
        _ => Err(drops::NO_SERVICE),
    }
}

/// As [`local`], where what else is to an address of the port itself (`ours`) may be for a service of the host.
///
/// # Errors
/// The reason under which any other is dropped.
pub fn local_or_host(ip: &L3L4, packet: &[u8], port: &PortView, ours: bool) -> Result<Punt, Drop> {
    local(ip, packet).or_else(|reason| host_or(ip, packet, port, ours, reason))
}

/// Whether a frame carries an IP packet from or to that address, or the /64 of an IPv6 one. For the trace: it parses anew.
pub fn is_from_or_to(frame: &[u8], address: IpAddr) -> bool {
    let Ok(outer) = Outer::parse(frame) else { return false };
    let packet = frame.get(usize::from(outer.l3)..).unwrap_or_default();
    let Ok(ip) = L3L4::parse(packet) else { return false };
    match address {
        IpAddr::V4(address) => ip.version == 4 && [ip.src, ip.dst].contains(&address.into()),
        IpAddr::V6(address) => {
            let prefix = u128::from(address) >> 64;
            ip.version == 6 && [ip.src6(packet) >> 64, ip.dst6(packet) >> 64].contains(&prefix)
        }
    }
}

/// Whether a frame is to a group that we listen to: ARP, or IPv6 multicast such as neighbour discovery. A packet to one
/// host that came as a link-layer broadcast is not to be forwarded (RFC 1812, 5.3.4).
#[cold]
fn is_for_all(frame: &[u8], outer: &Outer) -> bool {
    let multicast6 = || fast::be8(frame, usize::from(outer.l3) + L3L4::V6_DST) == Some(0xff);
    frame[0] & 1 == 1
        && match outer.ethertype {
            ethertype::IP4 => false,
            ethertype::IP6 => multicast6(),
            _ => true,
        }
}

/// Whether a frame is to the link's OSPF routers, in both headers: 01:00:5e:00:00:05 and :06 (RFC 2328, A.1).
#[cold]
fn is_ospf_frame(frame: &[u8], outer: &Outer) -> bool {
    let groups = fast::be32(frame, usize::from(outer.l3) + 16).is_some_and(|to| OSPF_GROUPS4.contains(&to));
    outer.ethertype == ethertype::IP4 && frame.starts_with(&[0x01, 0x00, 0x5e, 0x00, 0x00]) && groups
}

/// A port's own addresses in the form the usual packet is compared with.
pub struct Usual<'a> {
    port: &'a PortView,
    mac: u64,
    mac_mask: u64,
    address: u32,
}

/// The six bytes of a hardware address in a word of the first eight of a frame.
const MAC: u64 = u64::from_ne_bytes([0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0]);

impl<'a> Usual<'a> {
    /// For packets that came in by `port`. None is usual on a tagged port, nor on one without IPv4 address.
    pub fn new(port: &'a PortView) -> Self {
        let [a, b, c, d, e, f] = port.mac;
        let mac = u64::from_ne_bytes([a, b, c, d, e, f, 0, 0]);
        let mac_mask = if mac == 0 { 0 } else { MAC };
        let mac = if !port.tags.is_empty() || port.v4.is_empty() { !0 } else { mac };
        Self { port, mac, mac_mask, address: port.v4.first().map_or(0, |(mine, _)| *mine) }
    }

    /// Whether the frame is IPv4 without tag and sent to the port's own hardware address: what [`link`] would accept
    /// with its network layer at [`Usual::L3`].
    #[inline(always)]
    pub fn is_link(&self, frame: &[u8]) -> bool {
        let Some(head) = frame.first_chunk::<14>() else { return false };
        let to = u64::from_ne_bytes(fast::array(head, 0).unwrap_or_default());
        to & self.mac_mask == self.mac && head[12..] == ethertype::IP4.to_be_bytes()
    }

    /// Where the network layer of a usual packet is.
    pub const L3: usize = 14;

    /// Whether the address is one of the port's own.
    #[inline(always)]
    pub fn is_mine(&self, address: u32) -> bool {
        address == self.address || self.port.v4.len() > 1 && self.port.is_mine4(address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use wire::{Mac, Vlan, ethernet};

    #[test]
    fn what_is_usual_is_accepted_by_the_general_parser_too() {
        let mac = [2, 0, 0, 0, 0, 9];
        let port = |mac, tags| PortView { mac, tags, v4: vec![(1, 8), (2, 8)], ..PortView::default() };
        let tagged = Tags::One(Tag::customer(Vlan::of(7)));
        let frame = |to: [u8; 6], kind: u16| [&to[..], &[4; 6], &kind.to_be_bytes(), &[0x45; 20]].concat();
        for (port, usual) in
            [(port(mac, Tags::None), true), (port([0; 6], Tags::None), true), (port(mac, tagged), false)]
        {
            let key = Usual::new(&port);
            assert_eq!(key.is_link(&frame(mac, ethertype::IP4)), usual);
            assert!(!key.is_link(&frame(mac, ethertype::IP6)) && !key.is_link(&frame(mac, ethertype::VLAN)));
            assert!(!key.is_link(&frame(mac, ethertype::IP4)[..13]));
            assert_eq!(key.is_link(&frame([2; 6], ethertype::IP4)), port.mac == [0; 6]);
            for frame in [frame(mac, ethertype::IP4), frame([2; 6], ethertype::IP4), frame([0xff; 6], ethertype::ARP)] {
                assert!(!key.is_link(&frame) || link(&frame, &port) == Ok((ethertype::IP4, Usual::L3 as u16)));
            }
            assert!(key.is_mine(1) && key.is_mine(2) && !key.is_mine(3));
        }
        assert!(!Usual::new(&PortView::default()).is_mine(5));
    }

    struct Nothing;

    impl frame::HostQueue for Nothing {
        fn put(&self, _: &[u8; 14], _: &[u8]) -> bool {
            true
        }
    }

    /// A port with a host interface, or without.
    fn routed(has_host: bool) -> PortView {
        let host = has_host.then(|| frame::HostInterface::new(std::sync::Arc::new(Nothing)));
        PortView { mac: [2, 0, 0, 0, 0, 9], v4: vec![(0x0a00_0001, 24)], host, ..PortView::default() }
    }

    /// An IPv4 packet of that protocol, with those ports where it has some.
    fn packet(protocol: u8, to: u32, ports: (u16, u16)) -> Vec<u8> {
        let mut packet = vec![0x45, 0, 0, 40, 0, 0, 0, 0, 64, protocol, 0, 0, 10, 0, 0, 2];
        packet.extend(to.to_be_bytes());
        packet.extend(ports.0.to_be_bytes().iter().chain(&ports.1.to_be_bytes()));
        packet.resize(40, 0);
        packet[20 + 12..20 + 13].fill(0x50);
        let sum = wire::checksum::of(&packet[..20]);
        packet[10..12].copy_from_slice(&sum.to_be_bytes());
        packet
    }

    #[test]
    fn routing_protocols_are_told_from_others() {
        const OURS: u32 = 0x0a00_0001;
        for (protocol, to, ports, expected) in [
            (protocol::TCP, OURS, (40_000, 179), true),
            (protocol::TCP, OURS, (179, 40_000), true),
            (protocol::TCP, OURS, (40_000, 22), false),
            (protocol::TCP, 0xc633_6401, (40_000, 179), false),
            (protocol::UDP, OURS, (49_152, 4784), true),
            (protocol::UDP, OURS, (3784, 53), false),
            (OSPF, OURS, (0, 0), true),
            (OSPF, 0xe000_0005, (0, 0), true),
            (OSPF, 0xe000_0006, (0, 0), true),
            (OSPF, 0xe000_0007, (0, 0), false),
            (OSPF, 0xc633_6401, (0, 0), false),
        ] {
            let packet = packet(protocol, to, ports);
            let ip = L3L4::parse(&packet).unwrap();
            let is_routing = |port: &PortView| is_routing(&ip, &packet, port, port.is_mine4(to));
            assert_eq!(is_routing(&routed(true)), expected, "{protocol} {to:x} {ports:?}");
            assert!(!is_routing(&routed(false)));
        }
    }

    #[test]
    fn services_of_the_host_have_what_nothing_here_listens_for() {
        const OURS: u32 = 0x0a00_0001;
        let with_services = |per_second| {
            let mut port = routed(true);
            port.host = port.host.map(|host| host.with_services(per_second));
            port
        };
        for (protocol, to, expected) in [
            (protocol::TCP, OURS, Ok(punts::HOST)),
            (protocol::UDP, OURS, Ok(punts::HOST)),
            (protocol::ICMP4, OURS, Ok(punts::ICMP_OTHER)),
            // An address of another port.
            (protocol::TCP, 0x0a00_0101, Err(drops::NO_SERVICE)),
        ] {
            let packet = packet(protocol, to, (40_000, 22));
            let ip = L3L4::parse(&packet).unwrap();
            let outcome = |port: &PortView| local_or_host(&ip, &packet, port, port.is_mine4(to));
            assert_eq!(outcome(&with_services(100)), expected, "{protocol} {to:x}");
            assert_ne!(outcome(&with_services(0)), Ok(punts::HOST));
            assert_ne!(outcome(&routed(false)), Ok(punts::HOST));
        }
        assert_eq!(host_class(&[], punts::HOST, &with_services(100)), Some(HostClass::Service));
    }

    #[test]
    fn fragments_that_may_be_of_a_datagram_are_told() {
        let fragment = |protocol, word: u16| {
            let mut packet = packet(protocol, 0x0a00_0001, (67, 67));
            packet[6..8].copy_from_slice(&word.to_be_bytes());
            packet[10..12].fill(0);
            let sum = wire::checksum::of(&packet[..20]);
            packet[10..12].copy_from_slice(&sum.to_be_bytes());
            may_be_of_datagram(&L3L4::parse(&packet).unwrap())
        };
        assert!(!fragment(protocol::UDP, 0) && fragment(protocol::UDP, 0x2000) && fragment(protocol::UDP, 1));
        assert!(!fragment(protocol::TCP, 0x2000) && !fragment(protocol::TCP, 1) && !fragment(60, 1));
        // Of IPv6, with what the fragment header is followed by.
        let fragment6 = |next: u8, word: u16| {
            let mut packet =
                [[0x60, 0, 0, 0, 0, 24, 44, 64].as_slice(), &[0; 32], &[next, 0], &word.to_be_bytes()].concat();
            packet.resize(64, 0);
            may_be_of_datagram(&L3L4::parse(&packet).unwrap())
        };
        assert!(fragment6(protocol::UDP, 8) && fragment6(protocol::UDP, 1) && fragment6(60, 8));
        assert!(!fragment6(protocol::UDP, 0) && !fragment6(protocol::TCP, 8) && !fragment6(protocol::TCP, 1));
    }

    #[test]
    fn services_of_the_host_have_nothing_that_passes_for_routing_or_comes_from_nowhere() {
        const OURS: u32 = 0x0a00_0001;
        let mut port = routed(true);
        port.host = port.host.map(|host| host.with_services(100));
        let (syn, no_service, martian) = (0x02, Err(drops::NO_SERVICE), Err(drops::MARTIAN_SOURCE));
        for (protocol, ports, ttl, from, expected) in [
            (protocol::TCP, (179, 22), 64, 0x0a00_0002, no_service),
            (protocol::TCP, (180, 22), 64, 0x0a00_0002, Ok(punts::HOST)),
            (protocol::UDP, (49_152, BFD), 255, 0x0a00_0002, Ok(punts::ROUTING)),
            (protocol::UDP, (49_152, BFD), 254, 0x0a00_0002, no_service),
            (protocol::UDP, (49_152, BFD_ECHO), 254, 0x0a00_0002, Ok(punts::ROUTING)),
            (protocol::UDP, (49_152, BFD_ECHO), 253, 0x0a00_0002, no_service),
            (protocol::UDP, (49_152, 161), 64, 0x0a00_0002, Ok(punts::HOST)),
            (protocol::UDP, (49_152, 161), 64, 0x7f00_0001, martian),
            (protocol::TCP, (49_152, 22), 64, 0xffff_ffff, martian),
        ] {
            let mut packet = packet(protocol, OURS, ports);
            (packet[8], packet[10], packet[11]) = (ttl, 0, 0);
            packet[12..16].copy_from_slice(&u32::to_be_bytes(from));
            if protocol == protocol::TCP {
                packet[20 + 13] = syn;
            }
            let sum = wire::checksum::of(&packet[..20]);
            packet[10..12].copy_from_slice(&sum.to_be_bytes());
            let ip = L3L4::parse(&packet).unwrap();
            let outcome = match is_routing(&ip, &packet, &port, true) {
                true => Ok(punts::ROUTING),
                false => local_or_host(&ip, &packet, &port, true),
            };
            assert_eq!(outcome, expected, "{protocol} {ports:?} {ttl} {from:x}");
        }
    }

    #[test]
    fn link_local_neighbours_reach_services_of_the_host() {
        let mut port = routed(true);
        port.host = port.host.map(|host| host.with_services(100));
        for (from, expected) in [
            (0xfe80 << 112 | 1, Ok(punts::HOST)),
            (0x2001_0db8 << 96 | 1, Ok(punts::HOST)),
            (1, Err(drops::MARTIAN_SOURCE)),
            (0xff02 << 112 | 1, Err(drops::MARTIAN_SOURCE)),
        ] {
            let mut packet = vec![0x60, 0, 0, 0, 0, 8, protocol::UDP, 64];
            packet.extend(u128::to_be_bytes(from).iter().chain(&u128::to_be_bytes(0x2001_0db8 << 96 | 2)));
            packet.extend([0xc0, 0, 0, 161, 0, 8, 0, 0]);
            let ip = L3L4::parse(&packet).unwrap();
            assert_eq!(local_or_host(&ip, &packet, &port, true), expected, "{from:x}");
        }
    }

    #[test]
    fn connections_from_the_port_of_bgp_are_opened_to_no_other() {
        const OURS: u32 = 0x0a00_0001;
        let [syn, syn_ack, ack, syn_fin] = [0x02, 0x12, 0x10, 0x03];
        for (ports, flags, expected) in [
            ((179, 22), syn, false),
            ((179, 22), syn_fin, false),
            ((179, 40_000), syn_ack, true),
            ((179, 40_000), ack, true),
            ((40_000, 179), syn, true),
            ((179, 179), syn, true),
        ] {
            let mut packet = packet(protocol::TCP, OURS, ports);
            packet[20 + 13] = flags;
            let ip = L3L4::parse(&packet).unwrap();
            assert_eq!(is_routing(&ip, &packet, &routed(true), true), expected, "{ports:?} {flags:#x}");
            assert!(ports.1 == BGP || !is_routing(&ip, &packet[..30], &routed(true), true), "no flags to be read");
        }
    }

    #[test]
    fn bfd_over_one_hop_is_of_the_link() {
        for (to, ttl, expected) in [
            (BFD, 255, true),
            (BFD, 254, false),
            (BFD_ECHO, 254, true),
            (BFD_ECHO, 253, false),
            (BFD_MULTIHOP, 64, true),
        ] {
            let mut packet = packet(protocol::UDP, 0x0a00_0001, (49_152, to));
            (packet[8], packet[10], packet[11]) = (ttl, 0, 0);
            let sum = wire::checksum::of(&packet[..20]);
            packet[10..12].copy_from_slice(&sum.to_be_bytes());
            let ip = L3L4::parse(&packet).unwrap();
            assert_eq!(is_routing(&ip, &packet, &routed(true), true), expected, "{to} {ttl}");
        }
    }

    #[test]
    fn host_gets_errors_and_echo_replies_to_the_port_only() {
        let class = |kind: u8, to: u32| {
            let mut packet = packet(protocol::ICMP4, to, (0, 0));
            packet[20] = kind;
            let frame = [&[2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 1, 8, 0][..], &packet].concat();
            host_class(&frame, punts::ICMP_OTHER, &routed(true))
        };
        for kind in 0..=255 {
            let expected = [0, 3, 11, 12].contains(&kind).then_some(HostClass::Icmp);
            assert_eq!((class(kind, 0x0a00_0001), class(kind, 0x0a00_0002)), (expected, None), "type {kind}");
        }
    }

    #[test]
    fn ospf_groups_are_taken_where_a_daemon_listens() {
        let frame = |last: u8, to: u32| {
            [&[1, 0, 0x5e, 0, 0, last, 2, 0, 0, 0, 0, 1][..], &[8, 0], &packet(OSPF, to, (0, 0))].concat()
        };
        let all_routers = frame(5, 0xe000_0005);
        assert_eq!(link(&all_routers, &routed(true)), Ok((ethertype::IP4, 14)));
        assert_eq!(link(&all_routers, &routed(false)), Err(drops::MULTICAST));
        // To one host in a multicast frame (RFC 1812, 5.3.4).
        assert_eq!(link(&frame(5, 0xc633_6401), &routed(true)), Err(drops::MULTICAST));
    }

    #[test]
    fn isis_is_told_from_other_802_2_frames() {
        let network = |kind, packet: &[u8], has_host| super::network(kind, packet, &routed(has_host));
        assert!(matches!(network(1497, &[0xfe, 0xfe, 3, 0x83], true), Ok(Network::IsIs)));
        assert!(matches!(network(1497, &[0xfe, 0xfe, 3, 0x83], false), Err(drops::ETHER_TYPE)));
        for (kind, packet) in [(38, [0x42, 0x42, 3, 0]), (0x88cc, [0xfe, 0xfe, 3, 0x83]), (1501, [0xfe, 0xfe, 3, 0x83])]
        {
            assert!(matches!(network(kind, &packet, true), Err(drops::ETHER_TYPE)));
        }
    }

    fn tag() -> impl Strategy<Value = Tag> {
        let kinds = prop::sample::select(&[ethertype::VLAN, ethertype::SERVICE_VLAN][..]);
        (kinds, 0u8..8, 1u16..4095).prop_map(|(kind, pcp, id)| Tag { kind, vlan: Vlan(u16::from(pcp) << 13 | id) })
    }

    fn stack() -> impl Strategy<Value = Tags> {
        prop_oneof![Just(Tags::None), tag().prop_map(Tags::One), (tag(), tag()).prop_map(|(a, b)| Tags::Two(a, b))]
    }

    fn ids(tags: Tags) -> Vec<u16> {
        match tags {
            Tags::None => vec![],
            Tags::One(tag) => vec![tag.vlan.id()],
            Tags::Two(first, second) => vec![first.vlan.id(), second.vlan.id()],
        }
    }

    proptest! {
        #[test]
        fn ports_take_their_own_stack_only(ours in stack(), theirs in stack()) {
            let mac = Mac([2, 0, 0, 0, 0, 9]);
            let port = PortView { mac: mac.0, tags: ours, ..PortView::default() };
            let mut frame = vec![0; 64];
            let head = ethernet::Repr { dst: mac, src: mac, tags: theirs, ethertype: ethertype::IP4 };
            let l3 = head.emit(&mut frame).unwrap() as u16;
            let expected = if ids(ours) == ids(theirs) { Ok((ethertype::IP4, l3)) } else { Err(drops::WRONG_VLAN) };
            prop_assert_eq!(link(&frame, &port), expected);
            let any = Link { ethertype: ethertype::IP4, l3, tags: theirs };
            prop_assert_eq!(link_with_any_tags(&frame, &port), Ok(any));
            frame[5] = 8;
            prop_assert_eq!(link_with_any_tags(&frame, &port), Err(drops::NOT_FOR_US));
        }
    }
}
