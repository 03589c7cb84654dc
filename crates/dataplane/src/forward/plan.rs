//! Where packets go, as control describes it: plain collections that change, and what they compile to.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::atomic::{AtomicU64, Ordering};

use table::bulk::{BulkMap, Seed};
use table::lpm::{Lpm, Prefix};
use wire::Mac;
use wire::ethernet::Tags;

use crate::encap::LinkEncap;

use super::{
    Forwarding, Hop, Instance, InstanceId, NONE, NOWHERE, ON_LINK, PortView, SHARED, SharedRoute, Tunnel, mix, part,
    prefix4, prefix6, spread4, spread6,
};

/// No router forwards to these: this network, loopback, multicast and broadcast (RFC 1812, 5.3.7; we route no
/// multicast).
const NOWHERE4: [(u32, u8); 4] = [(0, 8), (0x7f00_0000, 8), (0xe000_0000, 4), (0xf000_0000, 4)];
/// Unspecified, loopback, link-local and multicast (RFC 4291, 2.5 and 2.7).
const NOWHERE6: [(u128, u8); 4] = [(0, 128), (1, 128), (0xfe80 << 112, 10), (0xff << 120, 8)];

/// A route as configured. Several with one prefix share its packets: each flow, by its addresses, has one of their next hops
/// (ECMP, RFC 2992).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// Routing domain.
    pub instance: InstanceId,
    /// Destination prefix.
    pub to: IpAddr,
    /// Its length in bits.
    pub len: u8,
    /// Where its packets go.
    pub via: Via,
}

impl Route {
    /// Its routing domain and destination prefix; a configured one may have bits of a host.
    pub fn prefix(&self) -> (InstanceId, IpAddr, u8) {
        match self.to {
            IpAddr::V4(to) => (self.instance, Ipv4Addr::from(prefix4(to.into(), self.len)).into(), self.len),
            IpAddr::V6(to) => (self.instance, Ipv6Addr::from(prefix6(to.into(), self.len)).into(), self.len),
        }
    }
}

/// The next hop of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Via {
    /// A gateway: a neighbour on one of the instance's ports.
    Gateway(IpAddr),
    /// A neighbour on the link of that port: of several ports, an IPv6 link-local address names none.
    Neighbour {
        /// Number of the port that the router is reached by.
        port: u8,
        /// The router's address on that link.
        address: IpAddr,
    },
    /// A port without link layer ([`PortView::peer`]).
    Port(u8),
}

/// The control side's plain description of where packets go; [`Plan::compile`] makes the tables.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// Ports by number.
    pub ports: Vec<PortView>,
    /// Routes beside the connected ones.
    pub routes: Vec<Route>,
    /// Known neighbours: port, address, hardware address.
    pub(super) neighbours: Vec<(u8, IpAddr, Mac)>,
    pub(super) by_neighbour: HashMap<(u8, IpAddr), usize>,
    /// Neighbours whose frames have other tags than their port's.
    pub(super) stacks: HashMap<(u8, IpAddr), Tags>,
    pub(super) tunnels: Vec<TunnelPlan>,
    pub(super) by_tunnel: HashMap<TunnelPlan, u32>,
}

/// One end of a tunnel to the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct TunnelPlan {
    instance: InstanceId,
    local: IpAddr,
    remote: IpAddr,
    udp_port: u16,
}

impl Plan {
    /// Learns (or corrects) a neighbour. False when nothing changed.
    pub(crate) fn set_neighbour(&mut self, port: u8, address: IpAddr, mac: Mac) -> bool {
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

    /// Gives a neighbour a stack of tags of its own, which its port takes from then on beside its own.
    pub(crate) fn set_tags(&mut self, port: u8, address: IpAddr, tags: Tags) {
        if let Some(view) = self.ports.get_mut(usize::from(port)) {
            if tags != view.tags && !view.also.contains(&tags) {
                view.also.push(tags);
            }
            self.stacks.insert((port, address), tags);
        }
    }

    /// The tags of frames to a neighbour.
    pub(super) fn tags_to(&self, port: u8, address: IpAddr) -> Tags {
        let own = || self.ports.get(usize::from(port)).map(|view| view.tags);
        self.stacks.get(&(port, address)).copied().or_else(own).unwrap_or_default()
    }

    /// Forgets a neighbour.
    pub(crate) fn remove_neighbour(&mut self, port: u8, address: IpAddr) -> bool {
        let Some(at) = self.by_neighbour.remove(&(port, address)) else { return false };
        self.neighbours.swap_remove(at);
        if let Some((port, address, _)) = self.neighbours.get(at) {
            self.by_neighbour.insert((*port, *address), at);
        }
        true
    }

    /// Whether a neighbour's hardware address is known.
    pub fn knows(&self, port: u8, address: IpAddr) -> bool {
        self.by_neighbour.contains_key(&(port, address))
    }

    /// Known neighbours.
    pub fn neighbours(&self) -> &[(u8, IpAddr, Mac)] {
        &self.neighbours
    }

    /// The number of the tunnel to `remote`, entered if it is new. None when the instance has no port to speak from.
    /// The second value tells whether it is new (and has to be published before it is used).
    pub fn tunnel(&mut self, instance: InstanceId, remote: IpAddr, udp_port: u16) -> Option<(u32, bool)> {
        let plan = |port: u8| {
            let local = self.ports.get(usize::from(port))?.source_for(remote)?;
            Some(TunnelPlan { instance, local, remote, udp_port })
        };
        // Of several next hops on several ports the one that was taken first: a far end hears of one address.
        let ways = self.ways_to(instance, remote).into_iter().map(|(port, _)| port);
        let known = ways.filter_map(plan).find_map(|plan| self.by_tunnel.get(&plan));
        if let Some(id) = known {
            return Some((*id, false));
        }
        let plan = plan(self.port_towards(instance, remote)?)?;
        if let Some(id) = self.by_tunnel.get(&plan) {
            return Some((*id, false));
        }
        let id = self.tunnels.len() as u32;
        self.tunnels.push(plan);
        self.by_tunnel.insert(plan, id);
        Some((id, true))
    }

    /// The neighbour through which an address is reached: itself on a link, else the longest matching route's
    /// gateway; of several that of packets without a source.
    pub fn next_hop(&self, instance: InstanceId, to: IpAddr) -> Option<(u8, IpAddr)> {
        let mut ways = self.ways_to(instance, to);
        if ways.iter().any(|(port, via)| self.is_resolved(*port, *via)) {
            ways.retain(|(port, via)| self.is_resolved(*port, *via));
        }
        let spread = match to {
            IpAddr::V4(to) => spread4(self.seed(), 0, to.into()),
            IpAddr::V6(to) => spread6(self.seed(), 0, to.into()),
        };
        ways.get(part(spread, ways.len())).copied()
    }

    /// The neighbours through which an address is reached, each once: itself on a link, else the gateways of the longest
    /// matching prefix.
    fn ways_to(&self, instance: InstanceId, to: IpAddr) -> Vec<(u8, IpAddr)> {
        if let Some(port) = self.on_link(instance, to) {
            return vec![(port, to)];
        }
        let covering = || self.routes.iter().filter(|r| r.instance == instance && covers(r.to, r.len, to));
        let longest = covering().map(|r| r.len).max();
        let mut ways = Vec::new();
        for way in covering().filter(|r| Some(r.len) == longest).filter_map(|route| self.way_of(route, to)) {
            if !ways.contains(&way) {
                ways.push(way);
            }
        }
        ways
    }

    /// What flows are spread by, beside their addresses: another number in each router, so that one behind another divides
    /// what it gets, and the same whenever this one starts (RFC 2992 has no such number; see RFC 6438, 5).
    pub(super) fn seed(&self) -> u64 {
        let v4 = self.ports.iter().flat_map(|port| &port.v4).map(|(address, _)| u64::from(*address));
        let v6 =
            self.ports.iter().flat_map(|port| &port.v6).map(|(address, _)| *address as u64 ^ (address >> 64) as u64);
        v4.chain(v6)
            .fold(0, |seed, address| u64::from(mix(seed ^ address)) << 32 | u64::from(mix(address ^ (seed >> 7))))
    }

    /// The port and the neighbour that a route leads to; `to` stands for the neighbour where there is no link layer. None: its
    /// gateway is on no link.
    fn way_of(&self, route: &Route, to: IpAddr) -> Option<(u8, IpAddr)> {
        match route.via {
            Via::Gateway(via) => Some((self.on_link(route.instance, via)?, via)),
            Via::Neighbour { port, address } => Some((port, address)),
            Via::Port(port) => Some((port, to)),
        }
    }

    fn is_resolved(&self, port: u8, address: IpAddr) -> bool {
        let is_link = self.ports.get(usize::from(port)).is_some_and(|view| view.peer.is_some());
        is_link || self.knows(port, address)
    }

    /// Neighbours that are one of several next hops of a route: packets go by the others while one is away, so that nothing
    /// but control asks for it.
    pub(super) fn alternates(&self) -> HashSet<(u8, IpAddr)> {
        let mut ways: Vec<_> = self.routes.iter().map(|route| (route.prefix(), self.way_of(route, route.to))).collect();
        ways.sort_unstable();
        let several = ways.chunk_by(|a, b| a.0 == b.0).filter(|same| same.len() > 1).flatten();
        several.filter_map(|(_, way)| *way).collect()
    }

    /// The neighbours that routes and tunnels lead through, with their ports.
    pub(crate) fn next_hops(&self) -> BTreeSet<(u8, IpAddr)> {
        let remotes: HashSet<_> = self.tunnels.iter().map(|tunnel| (tunnel.instance, tunnel.remote)).collect();
        let remotes = remotes.into_iter().filter(|(instance, remote)| self.owner(*instance, *remote).is_none());
        let routers = self.routes.iter().filter(|route| !matches!(route.via, Via::Port(_)));
        let routers = routers.filter_map(|route| self.way_of(route, route.to));
        routers.chain(remotes.filter_map(|(instance, to)| self.next_hop(instance, to))).collect()
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
        let mut index = HashMap::new();
        let seed = Seed::random();
        let capacity = self.neighbours.len().max(16);
        let mut neighbours4 = BulkMap::with_capacity(capacity, seed).expect("memory for neighbours");
        let mut neighbours6: Vec<BulkMap<u128, u32>> = Vec::new();
        for _ in &self.ports {
            neighbours6.push(BulkMap::with_capacity(capacity, seed).expect("memory for neighbours"));
        }
        for (port, address, mac) in &self.neighbours {
            let id = hops.len() as u32;
            hops.push(self.hop(*port, Some(*mac), self.tags_to(*port, *address)));
            index.insert((*port, *address), id);
            let inserted = match address {
                IpAddr::V4(a) => neighbours4.insert((u32::from(*port), (*a).into()), id),
                IpAddr::V6(a) => neighbours6[usize::from(*port)].insert((*a).into(), id),
            };
            inserted.expect("the table was made large enough");
        }
        // All there is behind a port without link layer has one hop.
        let peer = |port: u8| self.ports.get(usize::from(port)).and_then(|view| view.peer).map(Mac);
        let mut hop_of = |hops: &mut Vec<Hop>, port: u8, via: IpAddr| {
            let via = if peer(port).is_some() { Ipv4Addr::UNSPECIFIED.into() } else { via };
            *index.entry((port, via)).or_insert_with(|| {
                hops.push(self.hop(port, peer(port), Tags::None));
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
            let target = match port.peer {
                Some(_) => hop_of(&mut hops, number as u8, Ipv4Addr::UNSPECIFIED.into()),
                None => ON_LINK | number as u32,
            };
            for (address, len) in &port.v4 {
                enter(&mut instance.v4, *address, *len, target);
            }
            // Link-local addresses are for the link alone; what is ours there is not routed to.
            for (address, len) in port.v6.iter().filter(|(address, _)| address >> 118 != 0xfe80 >> 6) {
                enter(&mut instance.v6, *address, *len, target);
            }
        }
        let ways = self.routes.iter().filter_map(|route| {
            let (port, via) = self.way_of(route, route.to)?;
            Some((route.prefix(), hop_of(&mut hops, port, via)))
        });
        let shared = enter_routes(&mut instances, ways.collect(), &hops);
        let tunnels = self
            .tunnels
            .iter()
            .map(|plan| {
                if let Some(port) = self.owner(plan.instance, plan.remote) {
                    hops.push(self.ourselves(port));
                    return template(plan, hops.len() as u32 - 1).linked(hops.last());
                }
                let way = self.next_hop(plan.instance, plan.remote);
                let hop = way.map_or(NONE, |(port, via)| hop_of(&mut hops, port, via));
                let to = hops.get(hop as usize);
                template(plan, hop).linked(to).leaving(to, &self.ports)
            })
            .collect();
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let version = NEXT.fetch_add(1, Ordering::Relaxed);
        Forwarding {
            version,
            ports: self.ports.clone(),
            hops,
            tunnels,
            instances,
            shared,
            seed: self.seed(),
            neighbours4,
            neighbours6,
        }
    }

    /// Whether a prefix is that of one of the VRF's ports.
    pub fn is_connected(&self, instance: InstanceId, to: IpAddr, len: u8) -> bool {
        let has = |port: &PortView| match to {
            IpAddr::V4(_) => {
                port.v4.iter().any(|(address, of)| *of == len && covers(Ipv4Addr::from(*address).into(), len, to))
            }
            IpAddr::V6(_) => {
                port.v6.iter().any(|(address, of)| *of == len && covers(Ipv6Addr::from(*address).into(), len, to))
            }
        };
        self.ports.iter().any(|port| port.instance == instance && has(port))
    }

    /// The port an address of ours is on.
    fn owner(&self, instance: InstanceId, address: IpAddr) -> Option<u8> {
        let has = |port: &PortView| match address {
            IpAddr::V4(address) => port.is_mine4(address.into()),
            IpAddr::V6(address) => port.is_mine6(address.into()),
        };
        self.ports.iter().position(|port| port.instance == instance && has(port)).map(|at| at as u8)
    }

    /// The hop of tunnels that end here: what takes it comes in by the port again. Only tunnels take it, never a user's
    /// packet by its destination.
    fn ourselves(&self, port: u8) -> Hop {
        let view = &self.ports[usize::from(port)];
        let hop = self.hop(port, Some(Mac(view.mac)), view.tags);
        Hop { port: port | engine::AGAIN, ..hop }
    }

    fn hop(&self, port: u8, to: Option<Mac>, tags: Tags) -> Hop {
        let view = &self.ports[usize::from(port)];
        let encap = to.map_or(LinkEncap::NONE, |to| LinkEncap::ethernet(to, Mac(view.mac), tags));
        let pcp = if tags.is_empty() { [0; 8] } else { view.pcp };
        Hop { encap, mtu: view.mtu, port, resolved: to.is_some(), pcp }
    }
}

/// Enters routes, given by prefix and hop; returns those that have several.
fn enter_routes(
    instances: &mut [Instance],
    mut ways: Vec<((InstanceId, IpAddr, u8), u32)>,
    hops: &[Hop],
) -> Vec<SharedRoute> {
    // Stable: next hops stay in the order of the configuration, and flows with theirs.
    ways.sort_by_key(|(prefix, _)| *prefix);
    let mut shared = Vec::new();
    for same in ways.chunk_by(|a, b| a.0 == b.0) {
        let is_resolved = |hop: u32| hops.get(hop as usize).is_some_and(Hop::is_resolved);
        let any = same.iter().any(|(_, hop)| is_resolved(*hop));
        let mut usable: Vec<u32> = Vec::with_capacity(same.len());
        for (_, hop) in same {
            if (!any || is_resolved(*hop)) && !usable.contains(hop) {
                usable.push(*hop);
            }
        }
        let target = match usable[..] {
            [hop] => hop,
            _ => {
                shared.push(SharedRoute { prefix: same[0].0, hops: usable.into_boxed_slice() });
                ON_LINK | SHARED | (shared.len() as u32 - 1) // fewer than routes
            }
        };
        let (instance, to, len) = same[0].0;
        let instance = &mut instances[usize::from(instance)];
        match to {
            IpAddr::V4(to) => enter(&mut instance.v4, to.into(), len, target),
            IpAddr::V6(to) => enter(&mut instance.v6, to.into(), len, target),
        }
    }
    shared
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
    Tunnel { hop: if len == 0 { NONE } else { hop }, len, version, header, sum, link_len: 0, leaves_sum: false }
}
