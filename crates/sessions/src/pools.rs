//! Subscribers' addresses that are ours to give out, by network instance, and how a reload changes them.
//!
//! Several pools of an instance are used in order. One that a reload takes out gives no addresses any more; those it gave stay
//! with their sessions, and it goes when the last has come back; one that several workers share stays known, as its steering does.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use dataplane::forward::InstanceId;

use crate::identifiers::{Address, Pool};

/// Pools of one address family and their network instances.
pub type Listed<A> = Vec<(InstanceId, Pool<A>)>;

/// Pools of one address family.
#[derive(Debug)]
struct Family<A> {
    /// Those that addresses are taken from.
    current: Listed<A>,
    /// Those that only take addresses back.
    retired: Listed<A>,
}

/// Pools of both address families.
#[derive(Debug)]
pub struct AddressPools {
    v4: Family<Ipv4Addr>,
    v6: Family<Ipv6Addr>,
}

impl<A: Address> Family<A> {
    fn new(current: Listed<A>) -> Self {
        Self { current, retired: Vec::new() }
    }

    fn all(&self) -> impl Iterator<Item = &(InstanceId, Pool<A>)> {
        self.current.iter().chain(&self.retired)
    }

    fn take(&mut self, at: InstanceId, worker: u16, used: impl Fn(A) -> bool) -> Option<A> {
        let mut pools = self.current.iter_mut().filter(|(instance, _)| *instance == at);
        pools.find_map(|(_, pool)| pool.take(worker, &used))
    }

    fn give(&mut self, at: InstanceId, address: A) {
        let mut pools = self.current.iter_mut().chain(&mut self.retired).filter(|(instance, _)| *instance == at);
        if let Some((_, pool)) = pools.find(|(_, pool)| pool.worker(address).is_some()) {
            pool.give(address);
        }
    }

    fn worker(&self, at: InstanceId, address: A) -> Option<u16> {
        self.all().filter(|(instance, _)| *instance == at).find_map(|(_, pool)| pool.worker(address))
    }

    /// Whether a pool is there and can go on: in use, or taken out and its addresses no other's since.
    fn has(&self, (at, pool): &(InstanceId, Pool<A>)) -> bool {
        let is_same = |(instance, known): &(InstanceId, Pool<A>)| instance == at && known.is_same(pool);
        let overlaps = |(instance, known): &(InstanceId, Pool<A>)| instance == at && known.overlaps(pool);
        self.current.iter().any(is_same) || (self.retired.iter().any(is_same) && !self.current.iter().any(overlaps))
    }

    /// Whether one of new pools has addresses that another pool may have given out: a new one beside any that is there, or one
    /// that was taken out and comes back beside another.
    fn meets(&self, new: &Listed<A>) -> bool {
        new.iter().any(|(at, pool)| {
            let other = |(instance, known): &(InstanceId, Pool<A>)| {
                instance == at && !known.is_same(pool) && known.overlaps(pool)
            };
            self.all().any(other)
        })
    }

    /// Whether a pool that is not there has addresses of one that is.
    fn overlaps(&self, new: &(InstanceId, Pool<A>)) -> bool {
        !self.has(new) && self.all().any(|(instance, known)| *instance == new.0 && known.overlaps(&new.1))
    }

    fn replace(&mut self, new: Listed<A>) {
        let goes_on: Vec<bool> = new.iter().map(|pool| self.has(pool)).collect();
        let mut old: Listed<A> = self.current.drain(..).chain(self.retired.drain(..)).collect();
        for ((at, pool), goes_on) in new.into_iter().zip(goes_on) {
            let is_same = |(instance, known): &(InstanceId, Pool<A>)| *instance == at && known.is_same(&pool);
            let known = old.iter().position(is_same).filter(|_| goes_on).map(|known| old.remove(known));
            self.current.push(known.unwrap_or((at, pool)));
        }
        // Workers are told where packets to its addresses go, and never that they go there no more: sessions may have
        // addresses of it that a control plane chose.
        old.retain(|(_, pool)| pool.out() > 0 || pool.is_divided());
        self.retired = old;
    }

    /// An address is a session's: no new pool gives it, and the one of ours that has it takes it back.
    fn mark(&mut self, at: InstanceId, address: A) {
        let of = |(instance, pool): &&mut (InstanceId, Pool<A>)| *instance == at && pool.worker(address).is_some();
        if let Some((_, pool)) = self.current.iter_mut().find(of) {
            pool.mark(address);
            self.retired.iter_mut().filter(of).for_each(|(_, pool)| pool.give(address));
        }
    }
}

impl AddressPools {
    /// These pools, nothing given out.
    pub fn new(v4: Listed<Ipv4Addr>, v6: Listed<Ipv6Addr>) -> Self {
        Self { v4: Family::new(v4), v6: Family::new(v6) }
    }

    /// Whether there are none to take addresses from.
    pub fn is_empty(&self) -> bool {
        self.v4.current.is_empty() && self.v6.current.is_empty()
    }

    /// Pools that addresses are taken from: family, network instance, addresses that are out and all there are, of the worker
    /// that is nearest to its end.
    pub fn levels(&self) -> impl Iterator<Item = (&'static str, InstanceId, (u64, u64))> {
        let v4 = self.v4.current.iter().map(|(instance, pool)| ("v4", *instance, pool.used()));
        v4.chain(self.v6.current.iter().map(|(instance, pool)| ("v6", *instance, pool.used())))
    }

    /// IPv4 pools that addresses are taken from.
    pub fn v4(&self) -> &Listed<Ipv4Addr> {
        &self.v4.current
    }

    /// IPv6 pools that addresses are taken from.
    pub fn v6(&self) -> &Listed<Ipv6Addr> {
        &self.v6.current
    }

    /// A free IPv4 address of a worker in a network.
    pub fn take4(&mut self, at: InstanceId, worker: u16, used: impl Fn(Ipv4Addr) -> bool) -> Option<Ipv4Addr> {
        self.v4.take(at, worker, used)
    }

    /// A free IPv6 prefix of a worker in a network.
    pub fn take6(&mut self, at: InstanceId, worker: u16, used: impl Fn(Ipv6Addr) -> bool) -> Option<Ipv6Addr> {
        self.v6.take(at, worker, used)
    }

    /// Gives back an address of a network.
    pub fn give(&mut self, at: InstanceId, address: IpAddr) {
        match address {
            IpAddr::V4(ip4) => self.v4.give(at, ip4),
            IpAddr::V6(ip6) => self.v6.give(at, ip6),
        }
    }

    /// The worker in whose part of a pool an address is, of pools that were taken out too: its packets are steered there.
    pub fn worker(&self, at: InstanceId, address: IpAddr) -> Option<u16> {
        match address {
            IpAddr::V4(ip4) => self.v4.worker(at, ip4),
            IpAddr::V6(ip6) => self.v6.worker(at, ip6),
        }
    }

    /// Whether a pool of the other is not one of these, but has addresses of one: with several workers such an address would
    /// be two workers'.
    pub fn overlaps(&self, new: &Self) -> bool {
        new.v4.current.iter().any(|pool| self.v4.overlaps(pool))
            || new.v6.current.iter().any(|pool| self.v6.overlaps(pool))
    }

    /// Whether a pool of an instance has one of the IPv4 addresses `first` to `last`; one that was taken out, too, as long as
    /// sessions have addresses of it or, where several workers share it, its steering stays.
    pub fn has_any4(&self, at: InstanceId, (first, last): (Ipv4Addr, Ipv4Addr)) -> bool {
        let count = u64::from(u32::from(last)) - u64::from(u32::from(first)) + 1;
        let range = Pool::new(first, count, 1);
        let retired = self.v4.retired.iter().filter(|(_, pool)| pool.out() > 0 || pool.is_divided());
        self.v4.current.iter().chain(retired).any(|(instance, pool)| *instance == at && pool.overlaps(&range))
    }

    /// IPv4 pools of the other that are not among these.
    pub fn added4<'a>(&self, new: &'a Self) -> impl Iterator<Item = &'a (InstanceId, Pool<Ipv4Addr>)> {
        new.v4.current.iter().filter(|pool| !self.v4.has(pool))
    }

    /// IPv6 pools of the other that are not among these.
    pub fn added6<'a>(&self, new: &'a Self) -> impl Iterator<Item = &'a (InstanceId, Pool<Ipv6Addr>)> {
        new.v6.current.iter().filter(|pool| !self.v6.has(pool))
    }

    /// Has the pools of another from now on. One that is there already goes on with what it has given out, and one that is not
    /// in the other only takes back. `sessions` are all addresses of sessions: none is given out again by a new pool.
    pub fn replace(&mut self, new: Self, sessions: impl Iterator<Item = (InstanceId, IpAddr)>) {
        let is_needed = self.v4.meets(&new.v4.current) || self.v6.meets(&new.v6.current);
        self.v4.replace(new.v4.current);
        self.v6.replace(new.v6.current);
        for (at, address) in sessions.take_while(|_| is_needed) {
            match address {
                IpAddr::V4(ip4) => self.v4.mark(at, ip4),
                IpAddr::V6(ip6) => self.v6.mark(at, ip6),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pools(ranges: &[(u32, u64)]) -> AddressPools {
        let pool = |(first, count): &(u32, u64)| (1, Pool::new(Ipv4Addr::from(*first), *count, 1));
        AddressPools::new(ranges.iter().map(pool).collect(), Vec::new())
    }

    fn drain(pools: &mut AddressPools, held: &[Ipv4Addr]) -> Vec<u32> {
        std::iter::from_fn(|| pools.take4(1, 0, |ip4| held.contains(&ip4))).map(u32::from).collect()
    }

    #[test]
    fn a_removed_pool_only_takes_back() {
        let mut all = pools(&[(100, 4), (200, 2)]);
        let held = all.take4(1, 0, |_| false).expect("free");
        all.replace(pools(&[(200, 2)]), std::iter::empty());
        assert_eq!(drain(&mut all, &[]), [200, 201]);
        assert_eq!(all.worker(1, held.into()), Some(0), "it is steered as before");
        all.give(1, held.into());
        assert_eq!(all.take4(1, 0, |_| false), None);
        all.replace(pools(&[(100, 4)]), std::iter::empty());
        assert_eq!(drain(&mut all, &[]).len(), 4, "there again, and whole");
    }

    #[test]
    fn a_removed_pool_of_several_workers_keeps_its_addresses() {
        let of =
            |first: u32, count| AddressPools::new(vec![(1, Pool::new(Ipv4Addr::from(first), count, 2))], Vec::new());
        let mut all = of(100, 8);
        all.replace(of(300, 8), std::iter::empty());
        assert_eq!(all.worker(1, Ipv4Addr::from(105).into()), Some(1), "nothing was out, and it is steered as before");
        assert!(all.overlaps(&of(100, 16)), "other parts by worker");
        assert!(!all.overlaps(&of(100, 8)), "the same again");
    }

    #[test]
    fn a_shrunk_pool_gives_no_address_twice() {
        let mut all = pools(&[(100, 3000)]);
        let held: Vec<Ipv4Addr> = (0..2000).map(|_| all.take4(1, 0, |_| false).expect("free")).collect();
        let sessions = held.iter().map(|ip4| (1, IpAddr::from(*ip4)));
        all.replace(pools(&[(100, 2100)]), sessions);
        assert_eq!(all.levels().next(), Some(("v4", 1, (2000, 2100))));
        assert_eq!(drain(&mut all, &held).len(), 100);
        held.iter().for_each(|ip4| all.give(1, (*ip4).into()));
        assert_eq!(drain(&mut all, &[]).len(), 2000);
    }

    proptest! {
        #[test]
        fn reloads_lose_no_address(steps in proptest::collection::vec((0usize..4, 0u8..3), 1..60)) {
            let choices: [&[(u32, u64)]; 4] = [&[(100, 40)], &[(100, 20)], &[(110, 40), (300, 8)], &[(300, 8)]];
            let (mut all, mut held): (_, Vec<Ipv4Addr>) = (pools(choices[0]), Vec::new());
            let mut now = 0;
            for (choice, what) in steps {
                match what {
                    0 => {
                        let sessions: Vec<_> = held.iter().map(|ip4| (1, IpAddr::from(*ip4))).collect();
                        all.replace(pools(choices[choice]), sessions.into_iter());
                        now = choice;
                    }
                    1 => held.extend(all.take4(1, 0, |ip4| held.contains(&ip4))),
                    _ => held.pop().into_iter().for_each(|ip4| all.give(1, ip4.into())),
                }
                let mut distinct = held.clone();
                distinct.sort_unstable();
                distinct.dedup();
                prop_assert_eq!(distinct.len(), held.len());
            }
            // When all have come back, all of the pools in use can be had, and no others.
            held.drain(..).for_each(|ip4| all.give(1, ip4.into()));
            let mut got: Vec<Ipv4Addr> = Vec::new();
            while let Some(ip4) = all.take4(1, 0, |ip4| got.contains(&ip4)) {
                got.push(ip4);
            }
            let whole: u64 = choices[now].iter().map(|(_, count)| count).sum();
            prop_assert_eq!(got.len() as u64, whole);
        }
    }
}
