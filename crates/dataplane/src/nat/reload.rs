//! Other public addresses and timeouts while workers translate.
//!
//! An address has a number on its worker and keeps it: what a reload takes out gets no new subscribers, and goes on for those
//! that have blocks of it. One that comes again is the same worker's as before.

use std::collections::{BTreeMap, HashMap, HashSet};

use engine::{Overlap, Owner, Steer};

use super::bits;
use super::blocks::{Address, Block, Domain};
use super::config::{Config, Timeouts};
use super::kind::Protocol;
use super::parts::MORE;
use crate::forward::InstanceId;

/// What a worker is to have from now on; comes back with what it had.
pub struct Change {
    pub(super) addresses: Box<[Address]>,
    pub(super) blocks: Box<[Block]>,
    pub(super) free: Box<[u64]>,
    pub(super) ports: Box<[u64]>,
    pub(super) domains: Vec<Domain>,
    pub(super) timeouts: Timeouts,
    pub(super) block_idle: u32,
    pub(super) block_hold: u32,
    pub(super) refresh_from_outside: bool,
    pub(super) blocks_per_subscriber: u8,
}

/// Why workers can not have other addresses while they run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// A network instance that was not translated is to be, or the other way round.
    #[error("a network instance begins, or ceases, to be translated")]
    Instances,
    /// A worker would have no address for new subscribers of an instance.
    #[error("a worker would have no public address left for new subscribers")]
    NoAddress,
    /// More addresses than workers have room for.
    #[error("more public addresses than a running worker has room for")]
    NoRoom,
}

/// A public address of a network instance.
type Public = (InstanceId, u32);

/// The public addresses of all workers, as control knows them.
#[derive(Clone, Debug)]
pub struct Addresses {
    /// By worker, in order of their numbers.
    by_worker: Vec<Vec<Public>>,
    /// Addresses that a worker may get, and how often.
    spare: usize,
    parts: usize,
}

fn ranges(mut addresses: Vec<u32>) -> Vec<(u32, u32)> {
    addresses.sort_unstable();
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for address in addresses {
        match ranges.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(address) => *last = address,
            _ => ranges.push((address, address)),
        }
    }
    ranges
}

impl Addresses {
    /// As workers have them that were made with a configuration.
    pub fn new(config: &Config, workers: Owner) -> Self {
        let instances = instances(config);
        let of_worker = |owner| {
            let mut all = Vec::new();
            for instance in &instances {
                let shares = config.shares(owner, workers).filter(|(of, ..)| of == instance);
                shares.for_each(|(_, first, last)| all.extend((first..=last).map(|address| (*instance, address))));
            }
            all
        };
        let spare = config.spare_blocks(workers) / config.blocks_per_address().max(1);
        Self { by_worker: (0..workers).map(of_worker).collect(), spare, parts: 0 }
    }

    /// What workers are told to have the addresses of another configuration, and the addresses then. Addresses that nobody had
    /// are divided among workers.
    ///
    /// # Errors
    /// They can not have them without a restart.
    pub fn change(&self, config: &Config) -> Result<(Self, Vec<Change>), Refused> {
        let known = self.by_worker.iter().enumerate();
        let owners: HashMap<Public, usize> =
            known.flat_map(|(owner, all)| all.iter().map(move |a| (*a, owner))).collect();
        let mut domains: Vec<InstanceId> = owners.keys().map(|(instance, _)| *instance).collect();
        domains.sort_unstable();
        domains.dedup();
        if instances(config) != domains {
            return Err(Refused::Instances);
        }
        let mut new = self.clone();
        let mut giving: HashSet<Public> = HashSet::new();
        for pool in &config.pools {
            let all = (u32::from(pool.first)..=u32::from(pool.last)).map(|address| (pool.instance, address));
            giving.extend(all.clone());
            let unknown: Vec<Public> = all.filter(|public| !owners.contains_key(public)).collect();
            let workers = new.by_worker.len();
            for (n, public) in unknown.iter().enumerate() {
                new.by_worker[n * workers / unknown.len()].push(*public);
            }
        }
        let added = |owner: usize| new.by_worker[owner].len() - self.by_worker[owner].len();
        let most = (0..self.by_worker.len()).map(added).max().unwrap_or(0);
        if most > 0 {
            new.parts += 1;
        }
        if most > self.spare || new.parts > MORE {
            return Err(Refused::NoRoom);
        }
        new.spare -= most;
        let of_worker = |owner: usize| new.for_worker(owner, self.by_worker[owner].len(), &domains, &giving, config);
        let changes = (0..self.by_worker.len()).map(of_worker).collect::<Result<_, _>>()?;
        Ok((new, changes))
    }

    fn for_worker(
        &self,
        owner: usize,
        had: usize,
        domains: &[InstanceId],
        giving: &HashSet<Public>,
        config: &Config,
    ) -> Result<Change, Refused> {
        let own = &self.by_worker[owner];
        let domain = |instance: &InstanceId| {
            let of = |all: &[Public]| all.iter().filter(|(at, _)| at == instance).map(|(_, a)| *a).collect::<Vec<_>>();
            let gives = |(_, public): &(usize, &Public)| public.0 == *instance && giving.contains(*public);
            let giving: Box<[u32]> = own.iter().enumerate().filter(gives).map(|(number, _)| number as u32).collect();
            let public = ranges(self.by_worker.iter().flat_map(|all| of(all)).collect());
            let domain = Domain { instance: *instance, giving, public, mine: ranges(of(own)) };
            if domain.giving.is_empty() { Err(Refused::NoAddress) } else { Ok(domain) }
        };
        let number = |instance: InstanceId| domains.iter().position(|at| *at == instance).unwrap_or(0) as u16; // instances
        let per_address = config.blocks_per_address();
        let address = |(instance, public): &Public| Address {
            public: *public,
            domain: number(*instance),
            free: per_address as u16, // ports are fewer
        };
        let count = (own.len() - had) * per_address;
        Ok(Change {
            addresses: own[had..].iter().map(address).collect(),
            blocks: vec![Block::FREE; count].into(),
            free: bits::words(own.len() - had, per_address),
            ports: bits::words(count * Protocol::ALL.len(), config.block_ports.into()),
            domains: domains.iter().map(domain).collect::<Result<_, _>>()?,
            timeouts: config.timeouts,
            block_idle: config.block_idle,
            block_hold: config.block_hold,
            refresh_from_outside: config.refresh_from_outside,
            blocks_per_subscriber: config.blocks_per_subscriber,
        })
    }

    /// All addresses of all workers, those that were taken out too: instance, first and last of each row.
    pub fn ranges(&self) -> Vec<(InstanceId, u32, u32)> {
        let mut by_instance: BTreeMap<InstanceId, Vec<u32>> = BTreeMap::new();
        self.by_worker.iter().flatten().for_each(|(at, address)| by_instance.entry(*at).or_default().push(*address));
        let rows = by_instance.into_iter();
        rows.flat_map(|(at, all)| ranges(all).into_iter().map(move |(first, last)| (at, first, last))).collect()
    }

    /// Enters every address, those that were taken out too, with its worker.
    ///
    /// # Errors
    /// [`Overlap`] when an address is owned already.
    pub fn steer(&self, steer: &mut Steer) -> Result<(), Overlap> {
        let nobody = Self { by_worker: vec![Vec::new(); self.by_worker.len()], ..self.clone() };
        self.since(&nobody).try_for_each(|(owner, instance, first, last)| steer.own_v4(instance, first, last, owner))
    }

    /// Addresses of each worker that it has beside those of `before`, as (instance, first, last).
    pub fn since<'a>(&'a self, before: &'a Self) -> impl Iterator<Item = (Owner, InstanceId, u32, u32)> + 'a {
        self.by_worker.iter().zip(&before.by_worker).enumerate().flat_map(|(owner, (now, before))| {
            let new = &now[before.len()..];
            let mut at: Vec<InstanceId> = new.iter().map(|(instance, _)| *instance).collect();
            at.dedup();
            at.sort_unstable();
            at.dedup();
            at.into_iter().flat_map(move |instance| {
                let of = new.iter().filter(|(of, _)| *of == instance).map(|(_, address)| *address).collect();
                let owner = owner as Owner; // as many as workers
                ranges(of).into_iter().map(move |(first, last)| (owner, instance, first, last))
            })
        })
    }
}

/// The instances that are translated, in order.
fn instances(config: &Config) -> Vec<InstanceId> {
    let mut instances: Vec<InstanceId> = config.pools.iter().map(|pool| pool.instance).collect();
    instances.sort_unstable();
    instances.dedup();
    instances
}
