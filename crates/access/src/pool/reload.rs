//! Other pools while leases live: each keeps its slot, its client and its address.

use super::blocks::Blocks;
use super::{BadPool, Lease, Limits, Pools, Range, State, arranged};
use crate::lease::Kind;
use std::net::Ipv6Addr;

/// Leases and offers whose address would be in no pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeftOut {
    /// Number of their subscriber group.
    pub group: u16,
    /// Addresses or delegated prefixes.
    pub kind: Kind,
    /// The address of one of them; IPv4 mapped.
    pub example: Ipv6Addr,
    /// How many there are.
    pub count: usize,
}

/// The pool and block that an address of a group has, if it is leased there.
fn place(pools: &[Blocks], group: u16, lease_len: u8, address: u128) -> Option<(u16, u32)> {
    let mut own = pools.iter().zip(0..).filter(|(pool, _)| pool.group() == group && pool.lease_len() == lease_len);
    own.find_map(|(pool, at)| Some((at, pool.index_of(address).filter(|block| pool.is_leased(*block))?)))
}

impl Pools {
    /// Leases and offers that have no place in other pools, by group and kind: [`change`](Self::change) would end them.
    ///
    /// # Errors
    /// The pools are invalid.
    pub fn left_out(&self, ranges: &[Range]) -> Result<Vec<LeftOut>, BadPool> {
        let (pools, _) = arranged(ranges)?;
        let mut left: Vec<LeftOut> = Vec::new();
        for (lease, slot) in self.leases.iter().zip(0..).filter(|(lease, _)| lease.state != State::Idle) {
            let (group, kind, address) = (self.group(slot), lease.key.kind, self.address(slot));
            if place(&pools, group, self.prefix_len(slot), address.to_bits()).is_some() {
                continue;
            }
            match left.iter_mut().find(|known| (known.group, known.kind) == (group, kind)) {
                Some(known) => known.count += 1,
                None => left.push(LeftOut { group, kind, example: address, count: 1 }),
            }
        }
        Ok(left)
    }

    /// Has other pools and limits from now on. Leases, offers, addresses that are remembered or rest stay what they are, and in
    /// their slots; those that have no place any more are gone. A lower limit refuses what is new only.
    ///
    /// # Errors
    /// The pools are invalid; nothing has changed then.
    pub fn change(&mut self, ranges: &[Range], limits: Limits) -> Result<(), BadPool> {
        let (pools, of_group) = arranged(ranges)?;
        self.limits = limits;
        let old = std::mem::replace(&mut self.pools, pools);
        self.of_group = of_group;
        let now_at = |pools: &[Blocks], pool: u16, block: u32| {
            let before = old.get(usize::from(pool))?;
            place(pools, before.group(), before.lease_len(), before.address(block).to_bits())
        };
        // Those least recently used first, as they are to be used again.
        let idle: Vec<u32> = old.iter().flat_map(Blocks::remembered).collect();
        let slots: Vec<u32> = self.index.values().copied().collect();
        for slot in slots {
            let Lease { key, pool, block, state, .. } = self.leases[slot as usize];
            match now_at(&self.pools, pool, block) {
                Some((pool, block)) => {
                    self.pools[usize::from(pool)].give(block, slot);
                    let lease = &mut self.leases[slot as usize];
                    (lease.pool, lease.block) = (pool, block);
                }
                None => {
                    if state != State::Idle {
                        self.uncount_lease(slot, old[usize::from(pool)].group());
                    }
                    self.index.remove(&key);
                    self.unused.push(slot);
                }
            }
        }
        let quarantine = std::mem::take(&mut self.quarantine);
        for (until, pool, block, owner) in quarantine {
            match now_at(&self.pools, pool, block) {
                Some((pool, block)) => {
                    self.pools[usize::from(pool)].give(block, 0);
                    self.pools[usize::from(pool)].quarantine(block);
                    self.quarantine.push_back((until, pool, block, owner));
                }
                None => self.uncount(owner.0, owner.1),
            }
        }
        for slot in idle {
            let Lease { key, pool, block, state, .. } = self.leases[slot as usize];
            if state == State::Idle && self.index.get(&key) == Some(&slot) {
                self.pools[usize::from(pool)].release(block);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;
    use std::time::Duration;

    use super::*;
    use crate::lease::LeaseKey;
    use crate::{ClientKey, Line, Time};

    fn range(first: [u8; 4], last: [u8; 4]) -> Range {
        Range::ip4(0, Ipv4Addr::from(first), Ipv4Addr::from(last))
    }

    fn key(n: u16) -> LeaseKey {
        let line = Line { port: 1, s_vlan: 1, c_vlan: n };
        LeaseKey { kind: Kind::Ip4, client: ClientKey { line, mac: [2, 0, 0, 0, 0, n as u8], identifier: 0 } }
    }

    fn lease(pools: &mut Pools, n: u16, now: u64) -> Option<Ipv4Addr> {
        let slot = pools.offer(key(n), 0, None, Time(now * 1000), Duration::from_secs(10)).ok()?;
        pools.grant(slot, now as u32 + 100, 0);
        pools.ip4(slot)
    }

    #[test]
    fn leases_stay_and_new_addresses_follow() {
        let limits = Limits { per_line: 1, ..Limits::default() };
        let mut pools = Pools::new(&[range([10, 0, 0, 1], [10, 0, 0, 3])], limits).expect("in order");
        let [a, b, c] = [1, 2, 3].map(|n| lease(&mut pools, n, 0).expect("an address"));
        assert_eq!(lease(&mut pools, 4, 0), None, "there are three");
        let slot = pools.find(&key(2)).expect("a lease");
        pools.release(slot);
        let grown = [range([9, 0, 0, 0], [9, 0, 0, 1]), range([10, 0, 0, 0], [10, 0, 0, 7])];
        assert_eq!(pools.left_out(&grown), Ok(vec![]));
        pools.change(&grown, limits).expect("in order");
        assert_eq!(pools.bound(), 2);
        for (n, address) in [(1, a), (3, c), (2, b)] {
            assert_eq!(lease(&mut pools, n, 1), Some(address), "client {n} keeps its address");
        }
        assert_eq!(pools.find(&key(2)), Some(slot), "slots are named by who waits for the store");
        let mut more: Vec<_> = (4..11).filter_map(|n| lease(&mut pools, n, 1)).collect();
        more.extend([a, b, c]);
        more.sort_unstable();
        more.dedup();
        assert_eq!(more.len(), 10, "all addresses, each once");
        assert_eq!(lease(&mut pools, 11, 1), None);
    }

    #[test]
    fn pool_with_leases_is_left_out_by_name() {
        let both = [range([10, 0, 0, 1], [10, 0, 0, 1]), range([10, 0, 1, 1], [10, 0, 1, 9])];
        let mut pools = Pools::new(&both, Limits::default()).expect("in order");
        let first = lease(&mut pools, 1, 0).expect("an address");
        let left = pools.left_out(&both[1..]).expect("in order");
        let wanted = LeftOut { group: 0, kind: Kind::Ip4, example: first.to_ipv6_mapped(), count: 1 };
        assert_eq!(left, [wanted]);
        assert_eq!(pools.left_out(&both[..1]), Ok(vec![]));
        pools.release(pools.find(&key(1)).expect("a lease"));
        assert_eq!(pools.left_out(&both[1..]), Ok(vec![]));
        pools.change(&both[1..], Limits::default()).expect("in order");
        assert!(lease(&mut pools, 1, 1).is_some_and(|address| address.octets()[2] == 1));
    }

    #[test]
    fn address_at_rest_goes_on_resting() {
        let limits = Limits { quarantine: Duration::from_secs(50), ..Limits::default() };
        let pool = [range([10, 0, 0, 1], [10, 0, 0, 1])];
        let mut pools = Pools::new(&pool, limits).expect("in order");
        let address = lease(&mut pools, 1, 0);
        pools.decline(pools.find(&key(1)).expect("a lease"), Time(1000));
        let grown = [range([10, 0, 0, 0], [10, 0, 0, 2])];
        pools.change(&grown, limits).expect("in order");
        assert_eq!(pools.quarantined(), 1);
        let others: Vec<_> = (2..9).filter_map(|n| lease(&mut pools, n, 2)).collect();
        assert!(others.len() == 2 && !others.contains(&address.expect("an address")), "{others:?}");
        assert_eq!(lease(&mut pools, 9, 60), address, "it has rested");
    }

    #[test]
    fn lower_limit_counts_for_what_is_new() {
        let pool = [range([10, 0, 0, 1], [10, 0, 0, 9])];
        let mut pools = Pools::new(&pool, Limits::default()).expect("in order");
        let kept = lease(&mut pools, 1, 0);
        pools.change(&pool, Limits { per_port: 1, ..Limits::default() }).expect("in order");
        assert_eq!((lease(&mut pools, 1, 1), lease(&mut pools, 2, 1)), (kept, None));
    }
}
