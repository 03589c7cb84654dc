//! Where packets go: ports, routes, next hops, tunnels. Control builds it, workers read it as a published snapshot.
//!
//! [`Plan`] is the control side: plain collections that change. [`Forwarding`] is what it compiles to: flat tables in
//! which a packet's way is one prefix lookup and one indexed record.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use table::bulk::{BulkMap, Seed};
use table::lpm::{Lpm, Prefix};
use wire::{Mac, ethertype};

use crate::rewrite::UNTAGGED;

/// Nothing there: an index that names no hop or tunnel.
pub const NONE: u32 = u32::MAX;
/// Set in a route's value: the destination is on the link of the port in the low bits.
const ON_LINK: u32 = 1 << 31;
/// A route's value: packets for there are not forwarded, whatever the default route says.
const NOWHERE: u32 = NONE;

/// No router forwards to these: this network, loopback, multicast and broadcast (RFC 1812, 5.3.7; we route no
/// multicast).
const NOWHERE4: [(u32, u8); 4] = [(0, 8), (0x7f00_0000, 8), (0xe000_0000, 4), (0xf000_0000, 4)];
/// Unspecified, loopback, link-local and multicast (RFC 4291, 2.5 and 2.7).
const NOWHERE6: [(u128, u8); 4] = [(0, 128), (1, 128), (0xfe80 << 112, 10), (0xff << 120, 8)];

/// Whether no host, or none beyond its own link, can have sent from that address: this network, loopback, link-local,
/// multicast, broadcast (RFC 1812, 5.3.7; RFC 3927, 2.7).
#[inline(always)]
pub fn is_martian4(source: u32) -> bool {
    let network = source >> 24;
    network.wrapping_sub(1) >= 223 || network == 127 || source >> 16 == 0xa9fe
}

/// As [`is_martian4`]: unspecified, loopback, link-local, multicast (RFC 4291, 2.5 and 2.7).
#[inline(always)]
pub fn is_martian6(source: u128) -> bool {
    source <= 1 || source >> 118 == 0xfe80 >> 6 || source >> 120 == 0xff
}

/// A routing domain; networks of different instances may overlap (3GPP TS 29.244, 8.2.4).
pub type InstanceId = u16;

/// A port as the stages see it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PortView {
    /// Its name in the configuration.
    pub name: String,
    /// Hardware address; zeros accept any.
    pub mac: [u8; 6],
    /// The VLAN its packets are tagged with.
    pub vlan: Option<u16>,
    /// Largest network-layer packet it sends, in bytes.
    pub mtu: u16,
    /// The routing domain it belongs to.
    pub instance: InstanceId,
    /// Our addresses on it, with the length of the connected prefix.
    pub v4: Vec<(u32, u8)>,
    /// As `v4`.
    pub v6: Vec<(u128, u8)>,
    /// Whether UDP checksums of what comes in by it are verified.
    pub verify_udp: bool,
}

impl PortView {
    /// Whether the address is one of ours on this port.
    #[inline]
    pub fn is_mine4(&self, address: u32) -> bool {
        self.v4.iter().any(|(mine, _)| *mine == address)
    }

    /// Whether the address is one of ours on this port.
    #[inline]
    pub fn is_mine6(&self, address: u128) -> bool {
        self.v6.iter().any(|(mine, _)| *mine == address)
    }

    /// Our address to speak from to `to`: the one on the same link if there is one.
    pub fn source_for(&self, to: IpAddr) -> Option<IpAddr> {
        match to {
            IpAddr::V4(to) => {
                let on_link = self.v4.iter().find(|(mine, len)| prefix4(*mine, *len) == prefix4(to.into(), *len));
                on_link.or(self.v4.first()).map(|(mine, _)| Ipv4Addr::from(*mine).into())
            }
            IpAddr::V6(to) => {
                let on_link = self.v6.iter().find(|(mine, len)| prefix6(*mine, *len) == prefix6(to.into(), *len));
                on_link.or(self.v6.first()).map(|(mine, _)| Ipv6Addr::from(*mine).into())
            }
        }
    }
}

/// The first `len` bits.
pub fn prefix4(address: u32, len: u8) -> u32 {
    address & u32::MAX.checked_shl(32 - u32::from(len.min(32))).unwrap_or(0)
}

/// The first `len` bits.
pub fn prefix6(address: u128, len: u8) -> u128 {
    address & u128::MAX.checked_shl(128 - u32::from(len.min(128))).unwrap_or(0)
}

/// The next station of a packet: a port and the link header to put before it.
#[derive(Clone, Copy, Debug)]
#[repr(align(32))]
pub struct Hop {
    /// Largest network-layer packet, in bytes.
    pub mtu: u16,
    /// The port to leave by.
    pub port: u8,
    /// Bytes of `l2` that count; 0: the neighbour's hardware address is not known (yet).
    pub l2_len: u8,
    /// Ethernet header with tag, all but the type filled in.
    pub l2: [u8; 18],
}

impl Hop {
    /// Whether its hardware address is known.
    #[inline]
    pub fn is_resolved(&self) -> bool {
        self.l2_len != 0
    }
}

/// A tunnel's far end, as a template of the headers that lead there.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub struct Tunnel {
    /// The hop its packets take; [`NONE`]: no route.
    pub hop: u32,
    /// Bytes of `header` that count: 28 (IPv4 + UDP) or 48 (IPv6 + UDP).
    pub len: u8,
    /// 4 or 6.
    pub version: u8,
    /// Header bytes before the user's packet, without the tunnel protocol's own; behind those of IPv4, see
    /// [`link`](Self::link).
    pub header: [u8; 48],
    /// Sum of the IPv4 header with length, identification and DSCP zero, not complemented; for IPv6 the sum of the
    /// pseudo header without lengths.
    pub sum: u16,
    /// Bytes of [`link`](Self::link).
    pub link_len: u8,
}

impl Tunnel {
    /// The longest link header a tunnel has with it.
    pub const LINK: usize = UNTAGGED as usize;
    /// Where it is kept.
    const LINK_AT: usize = 28;

    /// The hop's link header, where it can be written with the tunnel's in one go: over IPv4, to a neighbour that is
    /// known, on a link without tag.
    #[inline(always)]
    pub fn link(&self) -> Option<&[u8; Self::LINK]> {
        self.header[Self::LINK_AT..].first_chunk().filter(|_| self.link_len != 0)
    }

    /// The tunnel with the link header of its hop.
    fn linked(mut self, hop: Option<&Hop>) -> Self {
        if let Some(hop) = hop.filter(|hop| self.version == 4 && u16::from(hop.l2_len) == UNTAGGED) {
            let (l2, kind) = (&hop.l2[..Self::LINK - 2], ethertype::IP4.to_be_bytes());
            self.header[Self::LINK_AT..Self::LINK_AT + Self::LINK].copy_from_slice(&[l2, &kind].concat());
            self.link_len = hop.l2_len;
        }
        self
    }
}

/// Why a packet has no hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoHop {
    /// No route to there.
    NoRoute,
    /// On the port's link, but the neighbour's hardware address is not known.
    Unresolved {
        /// The port.
        port: u8,
    },
}

struct Instance {
    v4: Lpm<u32>,
    v6: Lpm<u128>,
}

/// The compiled tables. Immutable; replaced whole.
pub struct Forwarding {
    /// The worker's ports, by number.
    pub ports: Vec<PortView>,
    /// All hops.
    pub hops: Vec<Hop>,
    /// All tunnels.
    pub tunnels: Vec<Tunnel>,
    instances: Vec<Instance>,
    neighbours4: BulkMap<(u32, u32), u32>,
    neighbours6: Vec<BulkMap<u128, u32>>,
}

impl Forwarding {
    /// The hop towards an IPv4 address.
    #[inline(always)]
    pub fn hop4(&self, instance: InstanceId, to: u32) -> Result<u32, NoHop> {
        let target = self.instances.get(usize::from(instance)).and_then(|i| i.v4.lookup(to)).ok_or(NoHop::NoRoute)?;
        if target & ON_LINK == 0 { Ok(target) } else { self.on_link4(target, to) }
    }

    /// The hop of an address on a link. Apart, so that the usual way, through a gateway, has the registers to itself.
    #[inline(never)]
    fn on_link4(&self, target: u32, to: u32) -> Result<u32, NoHop> {
        if target == NOWHERE {
            return Err(NoHop::NoRoute);
        }
        let port = target & 0xff;
        self.neighbours4.get((port, to)).ok_or(NoHop::Unresolved { port: port as u8 })
    }

    /// The hop towards an IPv6 address.
    #[inline]
    pub fn hop6(&self, instance: InstanceId, to: u128) -> Result<u32, NoHop> {
        let target = self.instances.get(usize::from(instance)).and_then(|i| i.v6.lookup(to)).ok_or(NoHop::NoRoute)?;
        if target & ON_LINK == 0 { Ok(target) } else { self.on_link6(target, to) }
    }

    /// As [`on_link4`](Self::on_link4).
    #[inline(never)]
    fn on_link6(&self, target: u32, to: u128) -> Result<u32, NoHop> {
        if target == NOWHERE {
            return Err(NoHop::NoRoute);
        }
        let port = target & 0xff;
        self.neighbours6[port as usize].get(to).ok_or(NoHop::Unresolved { port: port as u8 })
    }

    /// The hop with that number. Numbers come from this snapshot's own tables, so a missing one is a hop that was
    /// never resolved.
    #[inline]
    pub fn hop(&self, id: u32) -> Option<&Hop> {
        self.hops.get(id as usize)
    }

    /// The tunnel with that number.
    #[inline]
    pub fn tunnel(&self, id: u32) -> Option<&Tunnel> {
        self.tunnels.get(id as usize)
    }
}

/// A route as configured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// Routing domain.
    pub instance: InstanceId,
    /// Destination prefix.
    pub to: IpAddr,
    /// Its length in bits.
    pub len: u8,
    /// The gateway, a neighbour on one of the instance's ports.
    pub via: IpAddr,
}

/// The control side's plain description of where packets go; [`Plan::compile`] makes the tables.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// Ports by number.
    pub ports: Vec<PortView>,
    /// Routes beside the connected ones.
    pub routes: Vec<Route>,
    /// Known neighbours: port, address, hardware address.
    neighbours: Vec<(u8, IpAddr, Mac)>,
    by_neighbour: std::collections::HashMap<(u8, IpAddr), usize>,
    tunnels: Vec<TunnelPlan>,
    by_tunnel: std::collections::HashMap<TunnelPlan, u32>,
}

/// One end of a tunnel to the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct TunnelPlan {
    instance: InstanceId,
    local: IpAddr,
    remote: IpAddr,
    udp_port: u16,
}

impl Plan {
    /// Learns (or corrects) a neighbour. False when nothing changed.
    pub fn set_neighbour(&mut self, port: u8, address: IpAddr, mac: Mac) -> bool {
        match self.by_neighbour.get(&(port, address)) {
            Some(at) if self.neighbours[*at].2 == mac => false,
            Some(at) => {
                self.neighbours[*at].2 = mac;
                true
            }
            None => {
                self.by_neighbour.insert((port, address), self.neighbours.len());
                self.neighbours.push((port, address, mac));
                true
            }
        }
    }

    /// Forgets a neighbour.
    pub fn remove_neighbour(&mut self, port: u8, address: IpAddr) -> bool {
        let Some(at) = self.by_neighbour.remove(&(port, address)) else { return false };
        self.neighbours.swap_remove(at);
        if let Some((port, address, _)) = self.neighbours.get(at) {
            self.by_neighbour.insert((*port, *address), at);
        }
        true
    }

    /// Known neighbours.
    pub fn neighbours(&self) -> &[(u8, IpAddr, Mac)] {
        &self.neighbours
    }

    /// The number of the tunnel to `remote`, entered if it is new. None when the instance has no port to speak from.
    /// The second value tells whether it is new (and has to be published before it is used).
    pub fn tunnel(&mut self, instance: InstanceId, remote: IpAddr, udp_port: u16) -> Option<(u32, bool)> {
        let port = self.port_towards(instance, remote)?;
        let plan = TunnelPlan { instance, local: self.ports[usize::from(port)].source_for(remote)?, remote, udp_port };
        if let Some(id) = self.by_tunnel.get(&plan) {
            return Some((*id, false));
        }
        let id = self.tunnels.len() as u32;
        self.tunnels.push(plan);
        self.by_tunnel.insert(plan, id);
        Some((id, true))
    }

    /// Tunnels' far ends, by number.
    pub fn tunnel_remotes(&self) -> impl Iterator<Item = IpAddr> + '_ {
        self.tunnels.iter().map(|t| t.remote)
    }

    /// The neighbour through which an address is reached: itself on a link, else the longest matching route's
    /// gateway.
    pub fn next_hop(&self, instance: InstanceId, to: IpAddr) -> Option<(u8, IpAddr)> {
        if let Some(port) = self.on_link(instance, to) {
            return Some((port, to));
        }
        let best = self.routes.iter().filter(|r| r.instance == instance && covers(r.to, r.len, to));
        let via = best.max_by_key(|r| r.len)?.via;
        Some((self.on_link(instance, via)?, via))
    }

    fn port_towards(&self, instance: InstanceId, to: IpAddr) -> Option<u8> {
        self.next_hop(instance, to).map(|(port, _)| port).or_else(|| {
            self.ports.iter().position(|p| p.instance == instance).map(|at| at as u8) // fewer than 256 ports
        })
    }

    /// The port on whose link the address is.
    pub fn on_link(&self, instance: InstanceId, to: IpAddr) -> Option<u8> {
        let on = |port: &PortView| match to {
            IpAddr::V4(to) => port.v4.iter().any(|(a, l)| prefix4(*a, *l) == prefix4(to.into(), *l)),
            IpAddr::V6(to) => port.v6.iter().any(|(a, l)| prefix6(*a, *l) == prefix6(to.into(), *l)),
        };
        self.ports.iter().position(|p| p.instance == instance && on(p)).map(|at| at as u8)
    }

    /// Compiles the tables.
    pub fn compile(&self) -> Forwarding {
        let mut hops: Vec<Hop> = Vec::with_capacity(self.neighbours.len() + self.routes.len());
        let mut index = std::collections::HashMap::new();
        let seed = Seed::random();
        let capacity = self.neighbours.len().max(16);
        let mut neighbours4 = BulkMap::with_capacity(capacity, seed).expect("memory for neighbours");
        let mut neighbours6: Vec<BulkMap<u128, u32>> = Vec::new();
        for _ in &self.ports {
            neighbours6.push(BulkMap::with_capacity(capacity, seed).expect("memory for neighbours"));
        }
        for (port, address, mac) in &self.neighbours {
            let id = hops.len() as u32;
            hops.push(self.hop(*port, Some(*mac)));
            index.insert((*port, *address), id);
            let inserted = match address {
                IpAddr::V4(a) => neighbours4.insert((u32::from(*port), (*a).into()), id),
                IpAddr::V6(a) => neighbours6[usize::from(*port)].insert((*a).into(), id),
            };
            inserted.expect("the table was made large enough");
        }
        let mut hop_of = |hops: &mut Vec<Hop>, port: u8, via: IpAddr| {
            *index.entry((port, via)).or_insert_with(|| {
                hops.push(self.hop(port, None));
                hops.len() as u32 - 1
            })
        };
        let count = self.ports.iter().map(|p| p.instance).chain(self.routes.iter().map(|r| r.instance)).max();
        let count = count.map_or(0, |last| usize::from(last) + 1);
        let mut instances: Vec<Instance> = (0..count).map(|_| Instance { v4: Lpm::new(), v6: Lpm::new() }).collect();
        for instance in &mut instances {
            NOWHERE4.into_iter().for_each(|(to, len)| enter(&mut instance.v4, to, len, NOWHERE));
            NOWHERE6.into_iter().for_each(|(to, len)| enter(&mut instance.v6, to, len, NOWHERE));
        }
        for (number, port) in self.ports.iter().enumerate() {
            let instance = &mut instances[usize::from(port.instance)];
            let target = ON_LINK | number as u32;
            for (address, len) in &port.v4 {
                enter(&mut instance.v4, *address, *len, target);
            }
            // Link-local addresses are for the link alone; what is ours there is not routed to.
            for (address, len) in port.v6.iter().filter(|(address, _)| address >> 118 != 0xfe80 >> 6) {
                enter(&mut instance.v6, *address, *len, target);
            }
        }
        for route in &self.routes {
            let Some(port) = self.on_link(route.instance, route.via) else { continue };
            let hop = hop_of(&mut hops, port, route.via);
            let instance = &mut instances[usize::from(route.instance)];
            match route.to {
                IpAddr::V4(to) => enter(&mut instance.v4, to.into(), route.len, hop),
                IpAddr::V6(to) => enter(&mut instance.v6, to.into(), route.len, hop),
            }
        }
        let tunnels = self
            .tunnels
            .iter()
            .map(|plan| {
                let way = self.next_hop(plan.instance, plan.remote);
                let hop = way.map_or(NONE, |(port, via)| hop_of(&mut hops, port, via));
                template(plan, hop).linked(hops.get(hop as usize))
            })
            .collect();
        Forwarding { ports: self.ports.clone(), hops, tunnels, instances, neighbours4, neighbours6 }
    }

    fn hop(&self, port: u8, to: Option<Mac>) -> Hop {
        let view = &self.ports[usize::from(port)];
        let mut hop = Hop { mtu: view.mtu, port, l2_len: 0, l2: [0; 18] };
        if let Some(mac) = to {
            hop.l2[..6].copy_from_slice(&mac.0);
            hop.l2[6..12].copy_from_slice(&view.mac);
            hop.l2_len = 14;
            if let Some(vlan) = view.vlan {
                hop.l2[12..14].copy_from_slice(&ethertype::VLAN.to_be_bytes());
                hop.l2[14..16].copy_from_slice(&vlan.to_be_bytes());
                hop.l2_len = 18;
            }
        }
        hop
    }
}

/// Enters a prefix; host bits don't matter, and a length beyond the address's is none.
fn enter<A: table::lpm::Address>(table: &mut Lpm<A>, address: A, len: u8, value: u32) {
    if let Some(prefix) = Prefix::new(address, len) {
        table.insert(prefix, value);
    }
}

fn covers(prefix: IpAddr, len: u8, address: IpAddr) -> bool {
    match (prefix, address) {
        (IpAddr::V4(p), IpAddr::V4(a)) => prefix4(p.into(), len) == prefix4(a.into(), len),
        (IpAddr::V6(p), IpAddr::V6(a)) => prefix6(p.into(), len) == prefix6(a.into(), len),
        _ => false,
    }
}

/// The IP and UDP headers that lead to a tunnel's far end, lengths and marks left zero.
fn template(plan: &TunnelPlan, hop: u32) -> Tunnel {
    let mut header = [0u8; 48];
    let (len, version, sum) = match (plan.local, plan.remote) {
        (IpAddr::V4(local), IpAddr::V4(remote)) => {
            header[0] = 0x45;
            // Never in pieces, here or on the way: so the identification need not be unique (RFC 6864, 4.1).
            header[6] = 0x40;
            header[8] = 64;
            header[9] = wire::protocol::UDP;
            header[12..16].copy_from_slice(&local.octets());
            header[16..20].copy_from_slice(&remote.octets());
            header[20..22].copy_from_slice(&plan.udp_port.to_be_bytes());
            header[22..24].copy_from_slice(&plan.udp_port.to_be_bytes());
            (28, 4, wire::checksum::sum(&header[..20]))
        }
        (IpAddr::V6(local), IpAddr::V6(remote)) => {
            header[0] = 0x60;
            header[6] = wire::protocol::UDP;
            header[7] = 64;
            header[8..24].copy_from_slice(&local.octets());
            header[24..40].copy_from_slice(&remote.octets());
            header[40..42].copy_from_slice(&plan.udp_port.to_be_bytes());
            header[42..44].copy_from_slice(&plan.udp_port.to_be_bytes());
            (48, 6, wire::checksum::pseudo6(local.into(), remote.into(), wire::protocol::UDP, 0))
        }
        // A tunnel's ends are of one family: `Plan::tunnel` takes the source by the remote's.
        _ => (0, 0, 0),
    };
    Tunnel { hop: if len == 0 { NONE } else { hop }, len, version, header, sum, link_len: 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan() -> Plan {
        let port = |name: &str, instance, v4: [u8; 4], len| PortView {
            name: name.into(),
            mac: [2, 0, 0, 0, 0, instance as u8],
            mtu: 1500,
            instance,
            v4: vec![(u32::from_be_bytes(v4), len)],
            v6: vec![(0xfd00 << 112 | u128::from(instance) << 64 | 1, 64)],
            ..PortView::default()
        };
        Plan {
            ports: vec![port("n3", 0, [10, 0, 3, 1], 24), port("n6", 1, [10, 0, 6, 1], 24)],
            routes: vec![
                Route { instance: 1, to: [0, 0, 0, 0].into(), len: 0, via: [10, 0, 6, 2].into() },
                Route { instance: 0, to: [10, 9, 0, 0].into(), len: 16, via: [10, 0, 3, 254].into() },
            ],
            ..Plan::default()
        }
    }

    #[test]
    fn a_packet_finds_its_neighbour_its_gateway_or_a_reason() {
        let mut plan = plan();
        assert!(plan.set_neighbour(1, [10, 0, 6, 9].into(), Mac([9; 6])));
        assert!(!plan.set_neighbour(1, [10, 0, 6, 9].into(), Mac([9; 6])));
        let tables = plan.compile();
        let on_link = tables.hop4(1, u32::from_be_bytes([10, 0, 6, 9])).expect("known neighbour");
        let hop = tables.hop(on_link).expect("there");
        assert_eq!((hop.port, hop.l2_len, &hop.l2[..6]), (1, 14, &[9u8; 6][..]));
        let other = u32::from_be_bytes([10, 0, 6, 10]);
        assert_eq!(tables.hop4(1, other), Err(NoHop::Unresolved { port: 1 }));
        let via = tables.hop4(1, u32::from_be_bytes([8, 8, 8, 8])).expect("default route");
        assert!(!tables.hop(via).expect("there").is_resolved());
        assert_eq!(tables.hop4(0, u32::from_be_bytes([8, 8, 8, 8])), Err(NoHop::NoRoute));
        assert_eq!(tables.hop4(7, other), Err(NoHop::NoRoute), "an instance that is not there");
        plan.set_neighbour(1, [10, 0, 6, 2].into(), Mac([2; 6]));
        let tables = plan.compile();
        let via = tables.hop4(1, u32::from_be_bytes([8, 8, 8, 8])).expect("default route");
        assert!(tables.hop(via).expect("there").is_resolved());
        assert!(plan.remove_neighbour(1, [10, 0, 6, 9].into()));
        assert!(plan.compile().hop4(1, u32::from_be_bytes([10, 0, 6, 9])).is_err());
    }

    #[test]
    fn some_addresses_are_nowhere() {
        let mut plan = plan();
        plan.routes.push(Route {
            instance: 1,
            to: [0u16; 8].into(),
            len: 0,
            via: [0xfd00, 0, 0, 1, 0, 0, 0, 9].into(),
        });
        plan.ports[1].v6.push((0xfe80 << 112 | 1, 64));
        let tables = plan.compile();
        for to in [[0, 0, 0, 1], [127, 0, 0, 1], [224, 0, 0, 5], [239, 1, 2, 3], [255, 255, 255, 255]] {
            assert_eq!(tables.hop4(1, u32::from_be_bytes(to)), Err(NoHop::NoRoute), "{to:?}");
        }
        for to in [0, 1, 0xfe80 << 112 | 1, 0xfe80 << 112 | 7, 0xff02 << 112 | 1, 0xff0e << 112 | 1] {
            assert_eq!(tables.hop6(1, to), Err(NoHop::NoRoute), "{to:x}");
        }
        assert!(tables.hop4(1, 0x0808_0808).is_ok() && tables.hop6(1, 0x2001 << 112).is_ok());
    }

    #[test]
    fn some_senders_can_not_be() {
        for from in [[0, 0, 0, 0], [0, 9, 9, 9], [127, 0, 0, 1], [169, 254, 1, 1], [224, 0, 0, 1], [255; 4]] {
            assert!(is_martian4(u32::from_be_bytes(from)), "{from:?}");
        }
        for from in
            [[1, 0, 0, 1], [10, 0, 0, 1], [126, 1, 1, 1], [128, 0, 0, 1], [169, 253, 0, 1], [223, 255, 255, 255]]
        {
            assert!(!is_martian4(u32::from_be_bytes(from)), "{from:?}");
        }
        for from in [0, 1, 0xfe80 << 112 | 9, 0xfebf << 112 | 9, 0xff02 << 112 | 1] {
            assert!(is_martian6(from), "{from:x}");
        }
        assert!(
            !is_martian6(2) && !is_martian6(0xfec0 << 112) && !is_martian6(0x2001 << 112) && !is_martian6(0xfd << 120)
        );
    }

    #[test]
    fn tunnels_are_shared_by_those_who_go_the_same_way() {
        let mut plan = plan();
        let (first, new) = plan.tunnel(0, [10, 0, 3, 100].into(), 2152).expect("on the link");
        assert!(new);
        assert_eq!(plan.tunnel(0, [10, 0, 3, 100].into(), 2152), Some((first, false)));
        let (far, _) = plan.tunnel(0, [10, 9, 1, 1].into(), 2152).expect("by a gateway");
        plan.set_neighbour(0, [10, 0, 3, 254].into(), Mac([4; 6]));
        let tables = plan.compile();
        let tunnel = tables.tunnel(far).expect("there");
        assert!(tables.hop(tunnel.hop).expect("there").is_resolved());
        assert_eq!(&tunnel.header[12..20], &[10, 0, 3, 1, 10, 9, 1, 1]);
        assert_eq!(&tunnel.header[4..8], &[0, 0, 0x40, 0], "atomic: not to be fragmented, no identification");
        assert!(!tables.hop(tables.tunnel(first).expect("there").hop).expect("there").is_resolved());
    }

    #[test]
    fn a_tunnel_over_ipv4_has_the_link_header_of_a_known_neighbour_without_tag() {
        let mut plan = plan();
        let (four, _) = plan.tunnel(0, [10, 9, 1, 1].into(), 2152).expect("by a gateway");
        let near = Ipv6Addr::from(0xfd00 << 112 | 7).into();
        let (six, _) = plan.tunnel(0, near, 2152).expect("on the link");
        let link = |plan: &Plan, id| plan.compile().tunnel(id).expect("there").link().copied();
        assert_eq!(link(&plan, four), None, "nobody knows where to yet");
        plan.set_neighbour(0, [10, 0, 3, 254].into(), Mac([4; 6]));
        plan.set_neighbour(0, near, Mac([6; 6]));
        assert_eq!(link(&plan, four), Some([4, 4, 4, 4, 4, 4, 2, 0, 0, 0, 0, 0, 8, 0]));
        assert_eq!(link(&plan, six), None, "its headers leave no room");
        plan.set_neighbour(0, [10, 0, 3, 254].into(), Mac([5; 6]));
        assert_eq!(link(&plan, four).map(|link| link[0]), Some(5), "it moved");
        plan.ports[0].vlan = Some(7);
        assert_eq!(link(&plan, four), None, "the tag is put on with the rest");
    }
}
