//! What is configured, and how public addresses are divided among workers.

use std::net::Ipv4Addr;

use engine::{Overlap, Owner, Steer};

use crate::forward::InstanceId;

/// Public addresses of a network instance, all that the subscribers of that instance share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pool {
    /// The routing domain subscribers' packets leave to.
    pub instance: InstanceId,
    /// First address.
    pub first: Ipv4Addr,
    /// Last address.
    pub last: Ipv4Addr,
}

impl Pool {
    /// The addresses of worker `owner` of `workers`; `None` when there are too few to go round.
    fn share(&self, owner: Owner, workers: Owner) -> Option<(u32, u32)> {
        let (first, last) = (u64::from(u32::from(self.first)), u64::from(u32::from(self.last)));
        let count = (last + 1).checked_sub(first)?;
        let cut = |n: u64| first + count * n / u64::from(workers.max(1));
        let (from, to) = (cut(owner.into()), cut(u64::from(owner) + 1));
        (owner < workers && from < to).then(|| (from as u32, (to - 1) as u32)) // between two addresses
    }
}

/// How long a mapping lives without packets from the subscriber, in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// TCP, packets seen in both directions; at least 7440 (RFC 5382 REQ-5).
    pub tcp_established: u32,
    /// TCP, opening or after FIN or RST; at least 240 (RFC 5382 REQ-5; RFC 7857, 2).
    pub tcp_transitory: u32,
    /// UDP before an answer; at least 120 (RFC 4787 REQ-5).
    pub udp_unanswered: u32,
    /// UDP after an answer; 300 is recommended (RFC 4787 REQ-5).
    pub udp: u32,
    /// ICMP echo; at least 60 (RFC 5508 REQ-2).
    pub icmp: u32,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self { tcp_established: 7440, tcp_transitory: 240, udp_unanswered: 120, udp: 300, icmp: 60 }
    }
}

/// How to translate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Public addresses. An instance with at least one pool is translated.
    pub pools: Vec<Pool>,
    /// The first port given out; those below are kept out of the way (RFC 4787, 4.2.2 leaves them to servers).
    pub first_port: u16,
    /// Ports of a block: a multiple of 64 up to 4096.
    pub block_ports: u16,
    /// Blocks a subscriber may have.
    pub blocks_per_subscriber: u8,
    /// Seconds without a mapping after which a block is given back.
    pub block_idle: u32,
    /// Seconds for which a block that was given back is not assigned again (RFC 6888 REQ-8: 120).
    pub block_hold: u32,
    /// Lives of mappings.
    pub timeouts: Timeouts,
    /// Whether packets from outside refresh a mapping too (RFC 4787 REQ-6 allows it, RFC 7857, 7 advises against).
    pub refresh_from_outside: bool,
    /// Mappings a worker may have.
    pub mappings: usize,
    /// Subscribers a worker may have translated at a time.
    pub subscribers: usize,
    /// First fragments from outside remembered for the later ones.
    pub fragments: usize,
    /// Secret of hashes and of the choice of ports; random in production.
    pub seed: u128,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            pools: Vec::new(),
            first_port: 1024,
            block_ports: 512,
            blocks_per_subscriber: 4,
            block_idle: 120,
            block_hold: 120,
            timeouts: Timeouts::default(),
            refresh_from_outside: false,
            mappings: 1 << 20,
            subscribers: 1 << 17,
            fragments: 4096,
            seed: 0,
        }
    }
}

/// What is wrong with a configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Misconfigured {
    /// The ports of a block are no multiple of 64 from 64 to 4096.
    #[error("a block has a multiple of 64 ports, 64 to 4096")]
    BlockPorts,
    /// No whole block fits between the first port and 65535.
    #[error("no block fits above the first port")]
    FirstPort,
    /// A subscriber may have no block.
    #[error("a subscriber needs at least one block")]
    NoBlocks,
    /// A pool ends before it begins, or two overlap.
    #[error("a pool ends before it begins or overlaps another")]
    Pools,
    /// A pool has fewer addresses than there are workers.
    #[error("a pool needs at least one address per worker")]
    TooFewAddresses,
    /// More mappings and blocks than a worker's timers: 16 million.
    #[error("more than 16 million mappings and blocks on a worker")]
    TooMany,
}

/// Timers of a worker.
const MOST_TIMERS: usize = (1 << 24) - 1;
/// Timers for blocks of addresses that come while a worker runs: over 500 addresses of 512-port blocks.
const SPARE_BLOCKS: usize = 1 << 16;

impl Config {
    /// Blocks that an address has.
    pub(crate) fn blocks_per_address(&self) -> usize {
        (65536 - usize::from(self.first_port)) / usize::from(self.block_ports.max(1))
    }

    /// Whether it can be run by `workers` workers.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn check(&self, workers: Owner) -> Result<(), Misconfigured> {
        if !self.block_ports.is_multiple_of(64) || !(64..=4096).contains(&self.block_ports) {
            return Err(Misconfigured::BlockPorts);
        }
        if self.first_port == 0 || self.blocks_per_address() == 0 {
            return Err(Misconfigured::FirstPort);
        }
        if self.blocks_per_subscriber == 0 {
            return Err(Misconfigured::NoBlocks);
        }
        if self.pools.iter().any(|pool| pool.first > pool.last) || self.steer(&mut Steer::new(), 1).is_err() {
            return Err(Misconfigured::Pools);
        }
        if (0..workers).any(|owner| self.pools.iter().any(|pool| pool.share(owner, workers).is_none())) {
            return Err(Misconfigured::TooFewAddresses);
        }
        if self.most_blocks(workers).saturating_add(self.mappings) > MOST_TIMERS {
            return Err(Misconfigured::TooMany);
        }
        Ok(())
    }

    /// Blocks of addresses that a worker may get while it runs.
    pub(super) fn spare_blocks(&self, workers: Owner) -> usize {
        MOST_TIMERS.saturating_sub(self.most_blocks(workers) + self.mappings).min(SPARE_BLOCKS)
    }

    /// Blocks of the worker that has most.
    fn most_blocks(&self, workers: Owner) -> usize {
        let addresses = |owner| self.shares(owner, workers).map(|(_, first, last)| (last - first) as usize + 1).sum();
        let most: usize = (0..workers).map(addresses).max().unwrap_or(0);
        most.saturating_mul(self.blocks_per_address())
    }

    /// What worker `owner` of `workers` has of each pool: (instance, first, last). Whole addresses, in a run.
    pub fn shares(&self, owner: Owner, workers: Owner) -> impl Iterator<Item = (InstanceId, u32, u32)> + '_ {
        self.pools.iter().filter_map(move |pool| {
            let (first, last) = pool.share(owner, workers)?;
            Some((pool.instance, first, last))
        })
    }

    /// The worker, of `workers`, that owns a public address of an instance, all ports of it.
    pub fn owner(&self, instance: InstanceId, public: u32, workers: Owner) -> Option<Owner> {
        let has = |owner: &Owner| {
            self.shares(*owner, workers).any(|(of, first, last)| of == instance && (first..=last).contains(&public))
        };
        (0..workers).find(has)
    }

    /// Enters every public address with its worker: packets from outside are then steered like any subscriber's.
    ///
    /// # Errors
    /// [`Overlap`] when an address is owned already.
    pub fn steer(&self, steer: &mut Steer, workers: Owner) -> Result<(), Overlap> {
        for owner in 0..workers {
            for (instance, first, last) in self.shares(owner, workers) {
                steer.own_v4(instance, first, last, owner)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use engine::SteerKey;
    use proptest::prelude::*;

    use super::*;

    fn config(pools: &[(InstanceId, u32, u32)]) -> Config {
        let pool =
            |&(instance, first, last): &(u16, u32, u32)| Pool { instance, first: first.into(), last: last.into() };
        Config { pools: pools.iter().map(pool).collect(), mappings: 1000, ..Config::default() }
    }

    #[test]
    fn mistakes_have_names() {
        let good = config(&[(1, 10, 20)]);
        assert_eq!(good.check(4), Ok(()));
        assert_eq!(good.check(12), Err(Misconfigured::TooFewAddresses));
        assert_eq!(Config { block_ports: 100, ..good.clone() }.check(1), Err(Misconfigured::BlockPorts));
        assert_eq!(Config { first_port: 65_300, ..good.clone() }.check(1), Err(Misconfigured::FirstPort));
        assert_eq!(Config { first_port: 0, ..good.clone() }.check(1), Err(Misconfigured::FirstPort));
        assert_eq!(Config { blocks_per_subscriber: 0, ..good.clone() }.check(1), Err(Misconfigured::NoBlocks));
        assert_eq!(Config { mappings: 1 << 24, ..good }.check(1), Err(Misconfigured::TooMany));
        assert_eq!(config(&[(1, 10, 20), (1, 20, 30)]).check(1), Err(Misconfigured::Pools));
        assert_eq!(config(&[(1, 10, 9)]).check(1), Err(Misconfigured::Pools));
        assert_eq!(config(&[(1, 10, 20), (2, 10, 20)]).check(1), Ok(()));
    }

    proptest! {
        #[test]
        fn every_address_has_one_worker_and_steering_knows_it(first in 1u32..1000, count in 1u32..300, workers in 1u16..16) {
            let config = config(&[(3, first, first + count - 1)]);
            let mut steer = Steer::new();
            prop_assert!(config.steer(&mut steer, workers).is_ok());
            for address in first..first + count {
                let owner = config.owner(3, address, workers);
                prop_assert!(owner.is_some());
                prop_assert_eq!(steer.owner(SteerKey::V4(3, address)), owner);
            }
            prop_assert_eq!(config.owner(3, first + count, workers), None);
            prop_assert_eq!(config.owner(2, first, workers), None);
        }
    }
}
