//! Leases that a DHCP server of the core has granted, as relay agents learn them: they take their place among those
//! of the group's pools, so that no address is two subscribers'.

use super::{Owned, Pair, Pools, Refusal, State};
use crate::Time;
use crate::lease::{Kind, LeaseKey};
use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

/// What a server has granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Learnt {
    /// Address of the server; none: the gateway has renewed it since.
    pub server: Option<IpAddr>,
    /// The address, or the first address of the prefix; IPv4 mapped.
    pub address: Ipv6Addr,
}

/// Why a lease of another server has no place in the pools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotClaimed {
    /// The address is in no slice of the group, is one of the gateway's or a static subscriber's, or the prefix has
    /// another length than those of the slice.
    Outside,
    /// Another client has the lease in this slot. Of IPv6 addresses, a /64 is one subscriber's.
    Taken(u32),
    /// The address was found in use and rests.
    Rests,
    /// The line, VLAN pair or port has as many leases as it may.
    Limit(Refusal),
    /// It is in the same message twice, or two leases of it have the same client and IAID.
    Twice,
}

/// A lease that a server's message has: whose, the address or the first of the prefix, and its length.
pub(crate) type Wanted = (LeaseKey, Ipv6Addr, u8);

/// What leases of a server's message take the place of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Replaced {
    /// Slots of leases that end before: the client's with other addresses, and those that it takes over.
    pub ended: Vec<u32>,
    /// Whether one is taken over.
    pub takes_over: bool,
}

impl Pools {
    /// Where a lease of another server has its place: pool and block. `prefix_len` is 128 but for delegated prefixes.
    fn place_of(
        &self,
        key: &LeaseKey,
        group: u16,
        address: Ipv6Addr,
        prefix_len: u8,
    ) -> Result<(u16, u32), NotClaimed> {
        let (pool, block) = self.locate(group, key.kind, address.to_bits()).ok_or(NotClaimed::Outside)?;
        let blocks = &self.pools[usize::from(pool)];
        let is_whole = key.kind != Kind::Pd || blocks.address(block) == address;
        if blocks.lease_len() != prefix_len || !blocks.is_leased(block) || !is_whole {
            return Err(NotClaimed::Outside);
        }
        if blocks.rests(block) {
            return Err(NotClaimed::Rests);
        }
        match blocks.holder(block).filter(|slot| self.lease(*slot).key() != *key) {
            Some(slot) => Err(NotClaimed::Taken(slot)),
            None => Ok((pool, block)),
        }
    }

    /// Whether a client could have all these leases at once. `takes_over` is asked of leases that others have.
    ///
    /// # Errors
    /// Why not. Nothing has been changed.
    pub(crate) fn may_claim_all(
        &self,
        group: u16,
        wanted: &[Wanted],
        takes_over: impl Fn(u32, &LeaseKey) -> bool,
    ) -> Result<Replaced, NotClaimed> {
        let mut replaced = Replaced::default();
        for (at, (key, address, prefix_len)) in wanted.iter().enumerate() {
            let of = |key: &LeaseKey, address: &Ipv6Addr| self.locate(group, key.kind, address.to_bits());
            let is_same = |(other, place, _): &Wanted| other == key || of(other, place) == of(key, address);
            match self.place_of(key, group, *address, *prefix_len) {
                Err(NotClaimed::Taken(holder)) if takes_over(holder, key) => {
                    replaced.takes_over = true;
                    replaced.ended.push(holder);
                }
                other => drop(other?),
            }
            if wanted[..at].iter().any(is_same) {
                return Err(NotClaimed::Twice);
            }
            replaced.ended.extend(self.live(key).filter(|slot| self.address(*slot) != *address));
        }
        replaced.ended.sort_unstable();
        replaced.ended.dedup();
        let keys: Vec<_> = wanted.iter().map(|(key, ..)| *key).collect();
        self.has_room(group, &replaced.ended, &keys).map_err(NotClaimed::Limit)?;
        Ok(replaced)
    }

    /// Whether leases of these keys are within the limits once those in the slots of `ended` have ended. Leases that
    /// are there, and stay, need no room.
    ///
    /// # Errors
    /// The limit that is reached.
    pub(crate) fn has_room(&self, group: u16, ended: &[u32], keys: &[LeaseKey]) -> Result<(), Refusal> {
        let stays = |key: &LeaseKey| self.live(key).is_some_and(|slot| !ended.contains(&slot));
        let begun: Vec<_> = keys.iter().filter(|key| !stays(key)).collect();
        let is_full = |count: Option<&u32>, freed: usize, taken: usize, most: u32| {
            count.map_or(0, |count| *count as usize).saturating_sub(freed) + taken >= most as usize
        };
        for (at, key) in begun.iter().enumerate() {
            let (owner, pair, port) = (self.owner(&key.client, group), self.pair(key, group), key.client.line.port);
            let freed = |is_it: &dyn Fn(&LeaseKey, u16) -> bool| {
                ended.iter().filter(|slot| is_it(&self.lease(**slot).key(), self.group(**slot))).count()
            };
            let taken = |is_it: &dyn Fn(&LeaseKey) -> bool| begun[..at].iter().filter(|key| is_it(key)).count();
            let (gone, new) = (
                freed(&|key, group| self.owner(&key.client, group) == owner),
                taken(&|key| self.owner(&key.client, group) == owner),
            );
            if is_full(self.lines.get(&owner), gone, new, self.limits.per_line) {
                return Err(Refusal::LineLimit);
            }
            if let Some(of_pair) = pair {
                let gone = freed(&|key, group| self.pair(key, group) == pair);
                let new = taken(&|key| self.pair(key, group) == pair);
                if is_full(self.pairs.get(&of_pair), gone, new, self.limits.per_pair) {
                    return Err(Refusal::PairLimit);
                }
            }
            let gone = freed(&|key, _| key.client.line.port == port);
            let new = taken(&|key| key.client.line.port == port);
            if is_full(self.ports.get(&port), gone, new, self.limits.per_port) {
                return Err(Refusal::PortLimit);
            }
        }
        Ok(())
    }

    /// The slot of a client's lease that is offered or granted.
    pub(crate) fn live(&self, key: &LeaseKey) -> Option<u32> {
        self.find(key).filter(|slot| self.lease(*slot).state() != State::Idle)
    }

    /// The slot of the lease that has an address, or whose prefix it is in.
    pub(crate) fn holder(&self, group: u16, kind: Kind, address: Ipv6Addr) -> Option<u32> {
        let (pool, block) = self.locate(group, kind, address.to_bits())?;
        self.pools[usize::from(pool)].holder(block)
    }

    /// Ends a lease whose address the client has declined to another server, which has it rest. Here it does not, but
    /// for [`Limits::quarantine`](super::Limits::quarantine) it counts against the line and VLAN pair, so that a line
    /// cannot have a whole pool of that server rest.
    pub(crate) fn decline_elsewhere(&mut self, slot: u32, now: Time) {
        if self.lease(slot).state() == State::Idle {
            return;
        }
        let (key, group) = (self.lease(slot).key(), self.group(slot));
        let counted: (Owned, Option<Pair>) = (self.owner(&key.client, group), self.pair(&key, group));
        self.release(slot);
        self.count(counted.0, counted.1);
        self.declined.push_back(((now + self.limits.quarantine).secs(), counted));
    }

    /// A lease that a server has granted, in the pools: to be granted next. A lease of the client with another
    /// address is to be ended before.
    ///
    /// # Errors
    /// Why it has no place here.
    pub fn claim(
        &mut self,
        key: LeaseKey,
        group: u16,
        (learnt, prefix_len): (Learnt, u8),
        now: Time,
        hold: Duration,
    ) -> Result<u32, NotClaimed> {
        let (pool, block) = self.place_of(&key, group, learnt.address, prefix_len)?;
        let until = (now + hold).secs();
        let mut slot = self.find(&key);
        if let Some(old) = slot.filter(|slot| (self.lease(*slot).pool, self.lease(*slot).block) != (pool, block)) {
            self.release(old);
            if self.find(&key).is_some() {
                self.forget(old);
            }
            slot = None;
        }
        let slot = match slot {
            Some(slot) if self.lease(slot).state() != State::Idle => slot,
            Some(slot) => {
                self.admit(&key, group).map_err(NotClaimed::Limit)?;
                self.pools[usize::from(pool)].take_back(block);
                self.start(slot, until);
                slot
            }
            None => {
                self.admit(&key, group).map_err(NotClaimed::Limit)?;
                self.begin(key, (pool, block), until)
            }
        };
        self.learnt.insert(slot, learnt);
        Ok(slot)
    }

    /// The server that has granted the lease in a slot; none: it is the gateway's own.
    pub fn server(&self, slot: u32) -> Option<IpAddr> {
        self.learnt.get(&slot).and_then(|learnt| learnt.server)
    }

    /// The gateway itself grants the lease in a slot from now on, with the address that it has.
    pub(crate) fn take_from_server(&mut self, slot: u32) {
        if let Some(learnt) = self.learnt.get_mut(&slot) {
            learnt.server = None;
        }
    }
}
