//! Leases that a DHCP server of the core has granted, as relay agents learn them: they take their place among those
//! of the group's pools, so that no address is two subscribers'.

use super::{Pools, Refusal, State};
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

    /// Whether a client could have that lease, before it takes it.
    ///
    /// # Errors
    /// Why not.
    pub fn may_claim(&self, key: &LeaseKey, group: u16, address: Ipv6Addr, prefix_len: u8) -> Result<(), NotClaimed> {
        self.place_of(key, group, address, prefix_len)?;
        let has_one = self.find(key).is_some_and(|slot| self.lease(slot).state() != State::Idle);
        if has_one { Ok(()) } else { self.admit(key, group).map_err(NotClaimed::Limit) }
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
