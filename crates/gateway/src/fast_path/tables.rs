//! Ports, routes, neighbours and tunnels, as the program has them. An entry changes while it is not valid and no CPU runs
//! the program.

mod ipv6; // IPv6 routes and neighbours

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use dataplane::forward::{Forwarding, Hop, Plan, PortView, Via, prefix4};
use port::bpf::SharedWords;
use wire::ethernet::{HEADER_LEN, TAG_LEN, Tags};
use zerocopy::{FromZeros, IntoBytes};

use super::FastPath;
use super::record::{
    ACCESS, ADDRESSES, ADDRESSES6, CORE, GATEWAY, HYBRID, INTERFACES, Instance, Link, NEIGHBOURS, Neighbour,
    Neighbour6, Next, ON_LINK, Port, ROUTES, Route, TO_USER,
};

impl FastPath {
    /// Whether a network instance's IPv4 routes are there.
    pub fn has_routes(&self, instance: u16) -> bool {
        is_valid(&self.instances, instance)
    }

    /// Whether a network instance's IPv6 routes are there.
    pub fn has_routes6(&self, instance: u16) -> bool {
        is_valid(&self.instances6, instance)
    }
}

fn is_valid(map: &SharedWords, at: u16) -> bool {
    map.get(at.into()).first().is_some_and(|word| word.load(Ordering::Relaxed) as u32 != 0)
}

/// The side of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Subscribers'.
    Access,
    /// IP networks'.
    Core,
    /// Both: frames with the port's own tags are the core's.
    Hybrid,
}

/// A port as the program is to see it.
#[derive(Clone, Copy, Debug)]
pub struct FastPort {
    /// Its interface's number.
    pub ifindex: u32,
    /// Its side.
    pub role: Side,
}

/// Lengths of link headers that the program can put before a packet.
const LINKS: [usize; 3] = [HEADER_LEN, HEADER_LEN + TAG_LEN, MOST_LINK];
const MOST_LINK: usize = HEADER_LEN + 2 * TAG_LEN;

/// Entries of a map: where, and their octets.
pub type MapEntries = Vec<(usize, Vec<u8>)>;

/// Keeps the program's tables as the forwarding tables are.
pub struct Publisher<P = FastPath> {
    path: Arc<P>,
    /// By number; none: not one of those whose packets the program sees.
    ports: Vec<Option<FastPort>>,
    /// What stands where.
    own: HashMap<usize, Entries>,
    instances: Entries,
    neighbours: Entries,
    instances6: Entries,
    neighbours6: Entries,
    by_interface: Entries,
}

/// Entries of a map, as they were written last.
#[derive(Default)]
struct Entries(HashMap<usize, Vec<u8>>);

impl Entries {
    /// Whether an entry is to be written.
    fn is_new(&self, at: usize, bytes: &[u8]) -> bool {
        self.0.get(&at).is_none_or(|old| old != bytes)
    }
}

impl<P: AsRef<FastPath>> Publisher<P> {
    /// Of these ports, by their numbers.
    pub fn new(path: Arc<P>, ports: Vec<Option<FastPort>>) -> Self {
        let empty = Entries::default;
        Self {
            path,
            ports,
            own: HashMap::new(),
            instances: empty(),
            neighbours: empty(),
            instances6: empty(),
            neighbours6: empty(),
            by_interface: empty(),
        }
    }

    /// The ports are these from now on, as of the next [`publish`](Self::publish): an interface was made again.
    pub fn set_ports(&mut self, ports: Vec<Option<FastPort>>) {
        self.ports = ports;
    }

    /// The program and its maps, which workers share.
    pub fn path(&self) -> &Arc<P> {
        &self.path
    }

    /// The tables are these from now on.
    pub fn publish(&mut self, plan: &Plan, tables: &Forwarding) {
        self.publish_with(plan, tables, None);
    }

    /// The same, with entries of a map of the gateway's own, by its place in the [`ProgramSpec`](super::ProgramSpec): of
    /// which the lower half of the first word makes an entry valid.
    pub fn publish_with(&mut self, plan: &Plan, tables: &Forwarding, own: Option<(usize, MapEntries)>) {
        let shared = self.path.clone();
        let path: &FastPath = (*shared).as_ref();
        let numbers = 0..path.instances.len() as u16;
        let instances =
            numbers.clone().map(|n| self.instance(n, plan, tables).as_bytes().to_vec()).enumerate().collect();
        let instances6 = numbers.map(|n| self.instance6(n, plan, tables).as_bytes().to_vec()).enumerate().collect();
        let (neighbours, neighbours6) = (self.neighbours(plan, tables), self.neighbours6(plan, tables));
        let ports = self.interfaces(tables);
        let (place, entries) = own.unwrap_or_default();
        let mut changes: Vec<(&SharedWords, &mut Entries, MapEntries)> = vec![
            (&path.instances, &mut self.instances, instances),
            (&path.neighbours, &mut self.neighbours, neighbours),
            (&path.instances6, &mut self.instances6, instances6),
            (&path.neighbours6, &mut self.neighbours6, neighbours6),
            (&path.ports, &mut self.by_interface, ports),
        ];
        if !entries.is_empty() {
            changes.push((path.own(place), self.own.entry(place).or_default(), entries));
        }
        let mut changed: Vec<(&SharedWords, usize, Vec<u8>)> = Vec::new();
        for (map, known, entries) in changes {
            for (at, bytes) in entries.into_iter().filter(|(at, _)| *at < map.len()) {
                if known.is_new(at, &bytes) {
                    known.0.insert(at, bytes.clone());
                    changed.push((map, at, bytes));
                }
            }
        }
        write(path, &changed);
    }

    /// The next station of packets whose first byte is `version`'s, if the program can send there: by Ethernet with up to
    /// two tags, whose priority is the same for all packets.
    pub fn next(&self, hop: Option<&Hop>, version: u8) -> Next {
        let is_sent =
            |hop: &&Hop| hop.is_resolved() && self.ports.get(usize::from(hop.port)).is_some_and(Option::is_some);
        let mut next = Next::NONE;
        let Some(hop) = hop.filter(is_sent) else { return next };
        let (len, mut frame) = (hop.encap.len(), [0; MOST_LINK + 1]);
        let is_ethernet = LINKS.contains(&len) && hop.encap.is_ethernet() && (len == LINKS[0] || hop.pcp == [0; 8]);
        let Some(packet) = frame.get_mut(len).filter(|_| is_ethernet) else { return next };
        *packet = version << 4;
        if hop.write(&mut frame[..=len]) {
            next = Next { valid: 1, mtu: hop.mtu, port: hop.port, len: len as u8, ..Next::NONE }; // 22 at most
            next.link[..len].copy_from_slice(&frame[..len]);
            next.kind.copy_from_slice(&frame[len - 2..len]);
        }
        next
    }

    /// A network instance's routes; invalid where there are too many.
    fn instance(&self, instance: u16, plan: &Plan, tables: &Forwarding) -> Instance {
        if has_too_many(plan, instance, IpAddr::is_ipv4) {
            return Instance::new_zeroed();
        }
        let mut routes: Vec<(u8, Route)> = Vec::new();
        let route = |to: u32, len: u8, kind: u32, port: u32, next: Next| {
            let mask = prefix4(u32::MAX, len);
            (len, Route { prefix: to & mask, mask, kind, port, next })
        };
        let mut known = false;
        for (number, port) in tables.ports.iter().enumerate().filter(|(_, port)| port.instance == instance) {
            known = true;
            let (number, kind) = (number as u32, if port.peer.is_some() { TO_USER } else { ON_LINK });
            routes.extend(port.v4.iter().map(|(to, len)| route(*to, *len, kind, number, Next::NONE)));
        }
        for (prefix, ways) in prefixes(plan, instance) {
            let (_, IpAddr::V4(to), len) = prefix else { continue };
            let entry = |(kind, ways, next)| route(to.into(), len, kind, ways, next);
            let next = |via: &Via| match via {
                Via::Gateway(IpAddr::V4(via)) => Some(self.next(hop_to(plan, tables, instance, (*via).into()), 4)),
                _ => None,
            };
            match tables.several(prefix) {
                Some(hops) => routes.extend(shared(hops, |hop| self.next(tables.hop(hop), 4)).into_iter().map(entry)),
                None => routes.push(entry(only(ways.iter().map(next).collect()))),
            }
        }
        // Never forwarded, whatever the default route says.
        let nowhere = [(0, 8), (0x7f00_0000, 8), (0xe000_0000, 4), (0xf000_0000, 4)];
        routes.extend(nowhere.map(|(to, len)| route(to, len, TO_USER, 0, Next::NONE)));
        // Stable: a configured route stands before a port's own prefix.
        routes.reverse();
        routes.sort_by_key(|(len, _)| std::cmp::Reverse(*len));
        let mut entry = Instance::new_zeroed();
        if known && routes.len() <= ROUTES {
            (entry.valid, entry.count, entry.seed) = (1, routes.len() as u32, tables.seed());
            entry.routes.iter_mut().zip(routes).for_each(|(to, (_, route))| *to = route);
        }
        entry
    }

    /// Neighbours, in their buckets; those that nobody is in any more are cleared.
    fn neighbours(&self, plan: &Plan, tables: &Forwarding) -> Vec<(usize, Vec<u8>)> {
        let mut links: HashMap<usize, Link> = HashMap::new();
        for (port, address, _) in plan.neighbours() {
            let IpAddr::V4(address) = address else { continue };
            let address = u32::from(*address);
            let next = self.next(hop_on(tables, *port, address), 4);
            let hash = (address ^ u32::from(*port) << 24).wrapping_mul(0x9e37_79b1) >> 20;
            let link = links.entry(hash as usize & (NEIGHBOURS - 1)).or_insert_with(Link::new_zeroed);
            let free = link.neighbours.iter_mut().find(|neighbour| neighbour.next.valid == 0);
            // Without a place its packets are the user-space path's.
            if let Some(place) = free.filter(|_| next.valid != 0) {
                *place = Neighbour { address, port: (*port).into(), spare: [0; 3], next };
            }
        }
        for at in self.neighbours.0.keys() {
            links.entry(*at).or_insert_with(Link::new_zeroed);
        }
        links.into_iter().map(|(at, link)| (at, link.as_bytes().to_vec())).collect()
    }

    /// Ports by their interface; where several are on one, each leads to the next.
    fn interfaces(&self, tables: &Forwarding) -> Vec<(usize, Vec<u8>)> {
        let mut on: HashMap<u32, Vec<usize>> = HashMap::new();
        for (number, (port, view)) in self.ports.iter().zip(&tables.ports).enumerate() {
            let Some(port) = port else { continue };
            let numbers = on.entry(port.ifindex).or_default();
            // The one that has the interface leads to the others.
            numbers.insert(if view.on.is_none() { 0 } else { numbers.len() }, number);
        }
        let mut entries: HashMap<usize, Vec<u8>> = HashMap::new();
        for (ifindex, numbers) in on.into_iter().filter(|(ifindex, _)| (*ifindex as usize) < INTERFACES) {
            for (n, number) in numbers.iter().enumerate() {
                let beside = numbers.get(n + 1).map_or(0, |next| (next + 1) as u8); // fewer than 255 ports
                let at = if n == 0 { ifindex as usize } else { INTERFACES + number };
                let Some((Some(port), view)) = self.ports.get(*number).zip(tables.ports.get(*number)) else { continue };
                let entry = Port { beside, ..interface(*number, port.role, view) };
                entries.insert(at, entry.as_bytes().to_vec());
            }
        }
        for at in self.by_interface.0.keys() {
            entries.entry(*at).or_insert_with(|| Port::new_zeroed().as_bytes().to_vec());
        }
        entries.into_iter().collect()
    }
}

/// A port as the program has it.
fn interface(number: usize, side: Side, view: &PortView) -> Port {
    let mut entry = Port { number: number as u8, ..Port::new_zeroed() }; // ports are numbered by 8 bits
    let tags = match view.tags {
        Tags::None => [None; 2],
        Tags::One(tag) => [Some(tag), None],
        Tags::Two(outside, inside) => [Some(outside), Some(inside)],
    };
    for (n, tag) in tags.into_iter().flatten().enumerate() {
        let [kind, vlan] = [tag.kind, tag.vlan.id()].map(u16::to_be_bytes);
        entry.tag[n] = u32::from_ne_bytes([kind[0], kind[1], vlan[0], vlan[1]]);
        entry.tag_mask[n] = u32::from_ne_bytes([0xff, 0xff, 0x0f, 0xff]);
        entry.tags += 1;
    }
    // What the program does not look at keeps a port to itself.
    let is_few = view.v4.len() <= ADDRESSES && view.v6.len() <= ADDRESSES6;
    if is_few && !view.verify_udp && (view.peer.is_none() || side == Side::Access) {
        entry.role = match side {
            Side::Access => ACCESS,
            Side::Core => CORE,
            Side::Hybrid => HYBRID,
        };
        entry.instance = view.instance;
        entry.any_mac = u8::from(view.mac == [0; 6]);
        entry.mac = view.mac;
        entry.v4.iter_mut().zip(&view.v4).for_each(|(to, (address, _))| *to = *address);
        entry.v6.iter_mut().zip(&view.v6).for_each(|(to, (address, _))| *to = halves(*address));
    }
    entry
}

/// An IPv6 address in two halves.
fn halves(address: u128) -> [u64; 2] {
    [(address >> 64) as u64, address as u64]
}

/// What makes an entry valid is the lower half of its first word; in a bucket of neighbours, that of each one's next station.
fn valid_words(path: &FastPath, map: &SharedWords) -> &'static [usize] {
    const NEXT: usize = std::mem::offset_of!(Neighbour, next) / 8;
    const EACH: usize = size_of::<Neighbour>() / 8;
    const _: () = assert!(NEXT * 8 == std::mem::offset_of!(Neighbour6, next) && EACH * 8 == size_of::<Neighbour6>());
    let is_bucket = std::ptr::eq(map, &path.neighbours) || std::ptr::eq(map, &path.neighbours6);
    if is_bucket { &[NEXT, EACH + NEXT, 2 * EACH + NEXT, 3 * EACH + NEXT] } else { &[0] }
}

/// Writes entries of maps: each while it is not valid and no CPU runs the program that may have read it as valid.
pub fn write(path: &FastPath, changed: &[(&SharedWords, usize, Vec<u8>)]) {
    if changed.is_empty() {
        return;
    }
    for (map, at, _) in changed {
        for word in valid_words(path, map).iter().filter_map(|valid| map.get(*at).get(*valid)) {
            word.fetch_and(!u64::from(u32::MAX), Ordering::SeqCst);
        }
    }
    path.quiesce();
    for (map, at, bytes) in changed {
        let mut bytes = bytes.clone();
        valid_words(path, map).iter().for_each(|valid| bytes[valid * 8..valid * 8 + 4].fill(0));
        map.write(*at, 0, &bytes);
    }
    path.quiesce();
    for (map, at, bytes) in changed {
        for valid in valid_words(path, map) {
            if let (Some(word), Some(bytes)) = (map.get(*at).get(*valid), bytes.get(valid * 8..valid * 8 + 8)) {
                word.store(u64::from_ne_bytes(bytes.try_into().unwrap_or_default()), Ordering::SeqCst);
            }
        }
    }
}

/// The hop of a neighbour on a port's link.
fn hop_on(tables: &Forwarding, port: u8, address: u32) -> Option<&Hop> {
    let instance = tables.port(port).instance;
    let hop = tables.hop(tables.hop4(instance, address).ok()?)?;
    (hop.port == port).then_some(hop)
}

/// The hop of a gateway.
fn hop_to<'a>(plan: &Plan, tables: &'a Forwarding, instance: u16, via: u32) -> Option<&'a Hop> {
    let port = plan.on_link(instance, IpAddr::V4(via.into()))?;
    hop_on(tables, port, via)
}

/// A network instance's routes, each prefix once, with its ways.
fn prefixes(plan: &Plan, instance: u16) -> Vec<((u16, IpAddr, u8), Vec<Via>)> {
    let of_instance = plan.routes.iter().filter(|route| route.instance == instance);
    let mut routes: Vec<_> = of_instance.map(|route| (route.prefix(), route.via)).collect();
    routes.sort_by_key(|(prefix, _)| *prefix);
    let same = routes.chunk_by(|a, b| a.0 == b.0);
    same.map(|same| (same[0].0, same.iter().map(|(_, via)| *via).collect())).collect()
}

/// The entry of a prefix whose packets all go one way, given where each of its ways leads (none: nowhere the program can send):
/// the one that is usable, where there are others.
fn only(nexts: Option<Vec<Next>>) -> (u32, u32, Next) {
    let Some(nexts) = nexts else { return (TO_USER, 0, Next::NONE) };
    let usable = nexts.iter().find(|next| next.valid != 0).or(nexts.first());
    (GATEWAY, 1, usable.copied().unwrap_or(Next::NONE))
}

/// Entries of a prefix, kind, number of next hops and next station each, the last one first: the hops that the forwarding tables
/// have, in their order, so that both choose alike. One that the program cannot send by stands there, too, and its flows are the
/// workers'.
fn shared(hops: &[u32], next: impl Fn(u32) -> Next) -> Vec<(u32, u32, Next)> {
    let count = hops.len() as u32; // at most as many as routes
    hops.iter().rev().map(|hop| (GATEWAY, count, next(*hop))).collect()
}

/// Whether a network instance's routes of a family are more than have a place: with tables of routing daemons there is
/// nothing to work out.
fn has_too_many(plan: &Plan, instance: u16, of_family: fn(&IpAddr) -> bool) -> bool {
    plan.routes.iter().filter(|route| route.instance == instance && of_family(&route.to)).nth(ROUTES).is_some()
}
