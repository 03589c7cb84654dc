//! Leases on their way to the pools of another process, which goes on for this one.

use super::{Owned, Pools, State};
use crate::lease::{Kind, LeaseRecord};
use crate::pool::NotRestored;
use crate::{Line, Time};
use std::net::Ipv6Addr;

/// A lease that is offered or granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handed {
    /// The lease as it is stored; it is not: its expiry is 0.
    pub record: LeaseRecord,
    /// It is granted, not only offered.
    pub is_granted: bool,
    /// When it ends, as its client was told, in seconds since the Unix epoch.
    pub expiry: u32,
    /// A number of what an access node calls its line; 0: not known.
    pub mark: u32,
}

/// An address that rests, as it was found in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rests {
    /// Until then, in seconds since the Unix epoch.
    pub until: u32,
    /// Group and kind of its pool.
    pub pool: (u16, Kind),
    /// The address, or the first of the prefix; IPv4 mapped.
    pub address: Ipv6Addr,
    /// Line and hardware address that it counts against.
    pub owner: (Line, [u8; 6]),
}

impl Pools {
    /// Every lease that is offered or granted.
    pub fn handed(&self) -> impl Iterator<Item = Handed> {
        let live = self.leases.iter().zip(0..).filter(|(lease, _)| lease.state != State::Idle);
        live.map(|(lease, slot)| Handed {
            record: self.record(slot),
            is_granted: lease.state == State::Bound,
            expiry: lease.expiry,
            mark: lease.mark,
        })
    }

    /// Takes a lease of another process in; one that has ended ends with the next call of [`expire`](Self::expire).
    ///
    /// # Errors
    /// As [`restore`](Self::restore).
    pub fn take_in(&mut self, handed: &Handed, now: Time) -> Result<u32, NotRestored> {
        let expiry = handed.expiry.max(now.secs().saturating_add(1));
        let slot = self.restore(&LeaseRecord { expiry, ..handed.record }, now)?;
        let lease = &mut self.leases[slot as usize];
        (lease.stored, lease.mark) = (handed.record.expiry, handed.mark);
        if !handed.is_granted {
            (lease.state, lease.was_granted) = (State::Offered, false);
            self.bound -= 1;
        }
        Ok(slot)
    }

    /// Forgets every lease of a group's pools, and whom their addresses are remembered for: another process has the group.
    /// Addresses that rest go on to.
    pub fn let_go(&mut self, group: u16) {
        for slot in 0..self.leases.len() as u32 {
            // Fewer than 2^32. One that is used no more is not in the index.
            let lease = &self.leases[slot as usize];
            if self.group(slot) != group || self.index.get(&lease.key) != Some(&slot) {
                continue;
            }
            if lease.state != State::Idle {
                self.stop(slot);
            }
            self.forget(slot);
        }
    }

    /// Every address that rests.
    pub fn resting(&self) -> impl Iterator<Item = Rests> {
        self.quarantine.iter().map(|(until, pool, block, (owner, pair))| {
            let blocks = &self.pools[usize::from(*pool)];
            let address = blocks.address(*block);
            let of_group = self.of_group.iter().find(|(_, pools)| pools.contains(pool));
            let kind = pair.map(|(_, kind)| kind).or(of_group.map(|((_, kind), _)| *kind)).unwrap_or_default();
            Rests { until: *until, pool: (blocks.group(), kind), address, owner: *owner }
        })
    }

    /// Has an address rest that rested in another process. One that no pool has any more, or that a lease has, does not.
    pub fn let_rest(&mut self, rests: &Rests) {
        let Rests { until, pool: (group, kind), address, owner } = *rests;
        let Some((pool, block)) = self.locate(group, kind, address.to_bits()) else { return };
        let blocks = &mut self.pools[usize::from(pool)];
        if !blocks.is_unclaimed(block) {
            return;
        }
        blocks.give(block, 0);
        blocks.quarantine(block);
        let owner: Owned = owner;
        let pair = self.shared.contains(&group).then_some((owner.0, kind));
        self.count(owner, pair);
        self.quarantine.push_back((until, pool, block, (owner, pair)));
    }
}
