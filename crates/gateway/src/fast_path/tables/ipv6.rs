//! IPv6 routes and neighbours, as the program has them.

use std::collections::HashMap;
use std::net::IpAddr;

use dataplane::forward::{Forwarding, Hop, Plan, Via, prefix6};
use zerocopy::{FromZeros, IntoBytes};

use super::super::record::{Instance6, Link6, NEIGHBOURS, Neighbour6, Next, ON_LINK, ROUTES, Route6, TO_USER};
use super::{FastPath, Publisher, halves};

/// Never forwarded, whatever the default route says: unspecified, loopback, link-local, multicast.
const NOWHERE: [(u128, u8); 4] = [(0, 128), (1, 128), (0xfe80 << 112, 10), (0xff << 120, 8)];

impl<P: AsRef<FastPath>> Publisher<P> {
    /// A network instance's routes; invalid where there are too many.
    pub(super) fn instance6(&self, instance: u16, plan: &Plan, tables: &Forwarding) -> Instance6 {
        if super::has_too_many(plan, instance, IpAddr::is_ipv6) {
            return Instance6::new_zeroed();
        }
        let mut routes: Vec<(u8, Route6)> = Vec::new();
        let route = |to: u128, len: u8, kind: u32, port: u32, next: Next| {
            let mask = prefix6(u128::MAX, len);
            (len, Route6 { prefix: halves(to & mask), mask: halves(mask), kind, port, next })
        };
        let mut known = false;
        for (number, port) in tables.ports.iter().enumerate().filter(|(_, port)| port.instance == instance) {
            known = true;
            let (number, kind) = (number as u32, if port.peer.is_some() { TO_USER } else { ON_LINK });
            let global = port.v6.iter().filter(|(address, _)| address >> 118 != 0xfe80 >> 6);
            routes.extend(global.map(|(to, len)| route(*to, *len, kind, number, Next::NONE)));
        }
        for (prefix, ways) in super::prefixes(plan, instance) {
            let (_, IpAddr::V6(to), len) = prefix else { continue };
            let entry = |(kind, ways, next)| route(to.into(), len, kind, ways, next);
            let next = |via: &Via| {
                let Via::Gateway(IpAddr::V6(via)) = *via else { return None };
                let port = plan.on_link(instance, IpAddr::V6(via));
                Some(self.next(port.and_then(|port| hop_on(tables, port, via.into())), 6))
            };
            match tables.several(prefix) {
                Some(hops) => {
                    routes.extend(super::shared(hops, |hop| self.next(tables.hop(hop), 6)).into_iter().map(entry));
                }
                None => routes.push(entry(super::only(ways.iter().map(next).collect()))),
            }
        }
        routes.extend(NOWHERE.map(|(to, len)| route(to, len, TO_USER, 0, Next::NONE)));
        // Stable: a configured route stands before a port's own prefix.
        routes.reverse();
        routes.sort_by_key(|(len, _)| std::cmp::Reverse(*len));
        let mut entry = Instance6::new_zeroed();
        if known && routes.len() <= ROUTES {
            (entry.valid, entry.count, entry.seed) = (1, routes.len() as u32, tables.seed());
            entry.routes.iter_mut().zip(routes).for_each(|(to, (_, route))| *to = route);
        }
        entry
    }

    /// Neighbours, in their buckets; those that nobody is in any more are cleared.
    pub(super) fn neighbours6(&self, plan: &Plan, tables: &Forwarding) -> Vec<(usize, Vec<u8>)> {
        let mut links: HashMap<usize, Link6> = HashMap::new();
        for (port, address, _) in plan.neighbours() {
            let IpAddr::V6(address) = address else { continue };
            let next = self.next(hop_on(tables, *port, (*address).into()), 6);
            let address = halves((*address).into());
            let mixed = address[0] ^ address[1] ^ u64::from(*port) << 24;
            let at = (mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 54) as usize;
            const { assert!(NEIGHBOURS == 1 << 10) };
            let link = links.entry(at).or_insert_with(Link6::new_zeroed);
            let free = link.neighbours.iter_mut().find(|neighbour| neighbour.next.valid == 0);
            // Without a place its packets are the user-space path's.
            if let Some(place) = free.filter(|_| next.valid != 0) {
                *place = Neighbour6 { address, port: (*port).into(), spare: [0; 3], next };
            }
        }
        for at in self.neighbours6.0.keys() {
            links.entry(*at).or_insert_with(Link6::new_zeroed);
        }
        links.into_iter().map(|(at, link)| (at, link.as_bytes().to_vec())).collect()
    }
}

/// The hop of a neighbour on a port's link.
fn hop_on(tables: &Forwarding, port: u8, address: u128) -> Option<&Hop> {
    let instance = tables.port(port).instance;
    let hop = tables.hop(tables.hop6(instance, address).ok()?)?;
    (hop.port == port).then_some(hop)
}
