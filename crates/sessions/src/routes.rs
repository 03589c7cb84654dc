//! Networks behind subscribers: prefixes that lead to a session (framed routes, 3GPP TS 29.244, 5.16), and subscribers'
//! IPv6 prefixes of other than 64 bits.

use std::net::IpAddr;

use dataplane::forward::{InstanceId, prefix4, prefix6};
use table::lpm::{Lpm4, Lpm6, Prefix};

/// A prefix in a network instance; bits behind its length are zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Route {
    /// The network instance.
    pub instance: InstanceId,
    /// Its first address.
    pub address: IpAddr,
    /// Its length in bits.
    pub len: u8,
}

impl Route {
    /// The prefix an address is in.
    pub fn new(instance: InstanceId, address: IpAddr, len: u8) -> Self {
        let address = match address {
            IpAddr::V4(a) => IpAddr::V4(prefix4(a.into(), len).into()),
            IpAddr::V6(a) => IpAddr::V6(prefix6(a.into(), len).into()),
        };
        Self { instance, address, len }
    }
}

/// The prefixes, as first number and length in bits, that together have the numbers `first..=last` of so many bits: two for each
/// bit at most.
pub fn cover(first: u128, last: u128, bits: u8) -> impl Iterator<Item = (u128, u8)> {
    let mut next = Some(first).filter(|first| *first <= last);
    std::iter::from_fn(move || {
        let at = next?;
        // As wide as where it begins, and where the range ends, allow.
        let wide = |rest: &u32| {
            let size = 1u128 << rest;
            at.is_multiple_of(size) && at + (size - 1) <= last
        };
        let rest = (0..=u32::from(bits)).rev().find(wide).unwrap_or(0);
        next = Some(at + (1 << rest)).filter(|next| *next <= last);
        Some((at, bits - rest as u8)) // at most `bits`
    })
}

/// What prefixes lead to, by longest match. Where there are none it takes no memory beyond itself; it is asked for what
/// no address leads to.
#[derive(Debug, Default)]
pub struct Routes {
    instances: Vec<Tables>,
    count: usize,
}

#[derive(Debug, Default)]
struct Tables {
    v4: Option<Lpm4>,
    v6: Option<Lpm6>,
}

impl Routes {
    /// Whether there are none.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.count
    }

    /// What the longest prefix that covers an IPv4 address leads to.
    pub fn find4(&self, instance: InstanceId, address: u32) -> Option<u32> {
        self.instances.get(usize::from(instance))?.v4.as_ref()?.lookup(address)
    }

    /// As [`find4`](Self::find4), of an IPv6 address.
    pub fn find6(&self, instance: InstanceId, address: u128) -> Option<u32> {
        self.instances.get(usize::from(instance))?.v6.as_ref()?.lookup(address)
    }

    /// As [`find4`](Self::find4), of an address of either family.
    pub fn find(&self, instance: InstanceId, address: IpAddr) -> Option<u32> {
        match address {
            IpAddr::V4(a) => self.find4(instance, a.into()),
            IpAddr::V6(a) => self.find6(instance, a.into()),
        }
    }

    /// What a prefix itself leads to.
    pub fn get(&self, route: &Route) -> Option<u32> {
        let tables = self.instances.get(usize::from(route.instance))?;
        match route.address {
            IpAddr::V4(a) => tables.v4.as_ref()?.get(Prefix::new(a.into(), route.len)?),
            IpAddr::V6(a) => tables.v6.as_ref()?.get(Prefix::new(a.into(), route.len)?),
        }
    }

    /// Lets a prefix lead to `value`. One longer than its address is none.
    pub fn insert(&mut self, route: &Route, value: u32) {
        let at = usize::from(route.instance);
        if self.instances.len() <= at {
            self.instances.resize_with(at + 1, Tables::default);
        }
        let tables = &mut self.instances[at];
        let new = match route.address {
            IpAddr::V4(a) => Prefix::new(a.into(), route.len)
                .map(|prefix| tables.v4.get_or_insert_default().insert(prefix, value).is_none()),
            IpAddr::V6(a) => Prefix::new(a.into(), route.len)
                .map(|prefix| tables.v6.get_or_insert_default().insert(prefix, value).is_none()),
        };
        self.count += usize::from(new == Some(true));
    }

    /// Forgets a prefix.
    pub fn remove(&mut self, route: &Route) {
        let Some(tables) = self.instances.get_mut(usize::from(route.instance)) else { return };
        let old = match route.address {
            IpAddr::V4(a) => tables.v4.as_mut().zip(Prefix::new(a.into(), route.len)).and_then(|(t, p)| t.remove(p)),
            IpAddr::V6(a) => tables.v6.as_mut().zip(Prefix::new(a.into(), route.len)).and_then(|(t, p)| t.remove(p)),
        };
        self.count -= usize::from(old.is_some());
    }

    /// Bytes of memory it takes, about.
    pub fn bytes(&self) -> usize {
        let of =
            |tables: &Tables| tables.v4.as_ref().map_or(0, Lpm4::bytes) + tables.v6.as_ref().map_or(0, Lpm6::bytes);
        self.instances.iter().map(of).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_prefix_of_the_network_leads() {
        let mut routes = Routes::default();
        let route = |instance, text: &str, len| Route::new(instance, text.parse().unwrap(), len);
        routes.insert(&route(2, "10.1.0.0", 16), 1);
        routes.insert(&route(2, "10.1.7.9", 24), 2);
        routes.insert(&route(0, "10.1.0.0", 16), 3);
        routes.insert(&route(2, "2001:db8:7::", 48), 4);
        let at = |text: &str| u32::from(text.parse::<std::net::Ipv4Addr>().unwrap());
        assert_eq!(routes.find4(2, at("10.1.7.200")), Some(2));
        assert_eq!(routes.find4(2, at("10.1.8.1")), Some(1));
        assert_eq!(routes.find4(0, at("10.1.7.200")), Some(3));
        assert_eq!((routes.find4(1, at("10.1.7.200")), routes.find4(2, at("10.2.0.1"))), (None, None));
        assert_eq!(routes.find6(2, "2001:db8:7:1::9".parse::<std::net::Ipv6Addr>().unwrap().into()), Some(4));
        assert_eq!(routes.get(&route(2, "10.1.7.1", 24)), Some(2));
        routes.remove(&route(2, "10.1.7.0", 24));
        routes.remove(&route(2, "10.1.7.0", 24));
        assert_eq!((routes.find4(2, at("10.1.7.200")), routes.len()), (Some(1), 3));
    }

    #[test]
    fn a_quarter_million_of_them() {
        let mut routes = Routes::default();
        let route = |n: u32| Route::new(1, IpAddr::V4((0x0a00_0000 + (n << 6)).into()), 26);
        (0..262_144).for_each(|n| routes.insert(&route(n), n));
        assert!(routes.bytes() < 16 << 20, "{} bytes", routes.bytes());
        assert!((0..262_144).all(|n| routes.find4(1, 0x0a00_0000 + (n << 6) + 5) == Some(n)));
        (0..262_144).for_each(|n| routes.remove(&route(n)));
        assert!(routes.is_empty());
        assert_eq!(routes.find4(1, 0x0a00_0005), None);
    }
}
