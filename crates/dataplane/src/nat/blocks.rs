//! Public addresses and their blocks of ports: who has which, and the log of it.

use std::net::Ipv4Addr;

use engine::Drop;
use table::ring::Producer;
use table::wheel::Handle;

use super::bits::Bits;
use super::config::Config;
use super::kind::Protocol;
use super::mapping::TICK_SHIFT;
use super::parts::Parts;
use super::reload::Change;
use crate::drops;
use crate::forward::InstanceId;

/// No block, domain or timer.
pub(super) const NONE: u32 = u32::MAX;
/// Not translated: the domain of an instance without pools.
const NO_DOMAIN: u16 = u16::MAX;

/// A line of the log: a block of ports was given to a subscriber, or ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockEvent {
    /// When, in nanoseconds of the worker's clock.
    pub at: u64,
    /// The routing domain, which tells apart subscribers of one private address.
    pub instance: InstanceId,
    /// The subscriber.
    pub private: Ipv4Addr,
    /// The public address.
    pub public: Ipv4Addr,
    /// First port.
    pub first_port: u16,
    /// Last port.
    pub last_port: u16,
    /// `None`: given to the subscriber. Else why it is the subscriber's no longer.
    pub ended: Option<Ended>,
}

/// Why a block ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// It was not used for as long as configured.
    Idle,
    /// The subscriber's session ended.
    Session,
}

/// Where a block is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stand {
    Free,
    /// A subscriber's.
    Given,
    /// Nobody's any more, but the log does not know yet.
    Ending(Ended),
    /// Held until remote hosts no longer take it for its last subscriber's.
    Held,
}

#[derive(Clone, Copy)]
pub(super) struct Block {
    pub stand: Stand,
    /// The subscriber's record.
    pub subscriber: u32,
    /// Its private address.
    pub private: u32,
    /// The subscriber's next block.
    pub next: u32,
    /// Mappings on its ports.
    pub used: u16,
    /// Since when it has had none, or no subscriber has had it, in ticks.
    pub idle_since: u32,
    /// The one timer it may have.
    pub timer: Option<Handle>,
}

pub(super) struct Address {
    pub public: u32,
    pub domain: u16,
    /// Blocks that are free.
    pub free: u16,
}

/// A network instance that is translated.
pub(super) struct Domain {
    pub instance: InstanceId,
    /// This worker's addresses that new subscribers get, by number.
    pub giving: Box<[u32]>,
    /// All workers' addresses, as ranges, and this worker's.
    pub public: Vec<(u32, u32)>,
    pub mine: Vec<(u32, u32)>,
}

impl Block {
    /// A block that no subscriber has.
    pub(super) const FREE: Self =
        Self { stand: Stand::Free, subscriber: 0, private: 0, next: NONE, used: 0, idle_since: 0, timer: None };
}

fn holds(ranges: &[(u32, u32)], address: u32) -> bool {
    ranges.iter().any(|(first, last)| (*first..=*last).contains(&address))
}

/// The worker's public addresses. All memory is taken at the start, or comes with a [`Change`].
pub(super) struct Blocks {
    /// By instance.
    domain_of: Box<[u16]>,
    domains: Vec<Domain>,
    addresses: Parts<Address>,
    /// By address, then number.
    pub blocks: Parts<Block>,
    /// Free blocks by address.
    free: Bits,
    /// Free ports by block and protocol.
    ports: Bits,
    first_port: u16,
    block_ports: u16,
    per_address: usize,
    /// Blocks given to subscribers.
    pub given: usize,
    log: Producer<BlockEvent>,
}

impl Blocks {
    /// The share of worker `owner` of `workers`, every block free.
    pub(super) fn new(config: &Config, owner: u16, workers: u16, log: Producer<BlockEvent>) -> Self {
        let mut instances: Vec<_> = config.pools.iter().map(|pool| pool.instance).collect();
        instances.sort_unstable();
        instances.dedup();
        let mut domain_of = vec![NO_DOMAIN; instances.last().map_or(0, |last| usize::from(*last) + 1)];
        let mut addresses = Vec::new();
        let mut domains = Vec::new();
        for (domain, instance) in instances.into_iter().enumerate() {
            let domain = domain as u16; // no more than there are instances
            domain_of[usize::from(instance)] = domain;
            let from = addresses.len() as u32;
            let shares = config.shares(owner, workers).filter(|(of, ..)| *of == instance);
            let mine: Vec<_> = shares.map(|(_, first, last)| (first, last)).collect();
            let address = |public| Address { public, domain, free: config.blocks_per_address() as u16 };
            mine.iter().for_each(|(first, last)| addresses.extend((*first..=*last).map(address)));
            let pools = config.pools.iter().filter(|pool| pool.instance == instance);
            let public = pools.map(|pool| (pool.first.into(), pool.last.into())).collect();
            domains.push(Domain { instance, giving: (from..addresses.len() as u32).collect(), public, mine });
        }
        let per_address = config.blocks_per_address();
        let count = addresses.len() * per_address;
        Self {
            domain_of: domain_of.into(),
            domains,
            blocks: Parts::new(vec![Block::FREE; count]),
            free: Bits::full(addresses.len(), per_address),
            ports: Bits::full(count * Protocol::ALL.len(), config.block_ports.into()),
            addresses: Parts::new(addresses),
            first_port: config.first_port,
            block_ports: config.block_ports,
            per_address,
            given: 0,
            log,
        }
    }

    /// The domain of an instance; `None`: it is not translated.
    #[inline(always)]
    pub(super) fn domain(&self, instance: InstanceId) -> Option<u16> {
        self.domain_of.get(usize::from(instance)).copied().filter(|domain| *domain != NO_DOMAIN)
    }

    /// The block of a number, if a subscriber has it, and the number of mappings on it; none: no such block.
    pub(super) fn look(&self, block: usize) -> Option<Option<(BlockEvent, u16)>> {
        let known = self.blocks.get(block)?;
        let given = known.stand == Stand::Given;
        Some(given.then(|| (self.event(block as u32, 0, None), known.used))) // fewer than 2^32 blocks
    }

    /// Whether an address is one of a domain's public ones, any worker's.
    #[inline(always)]
    pub(super) fn is_public(&self, domain: u16, address: u32) -> bool {
        self.domains.get(usize::from(domain)).is_some_and(|domain| holds(&domain.public, address))
    }

    /// Whether it is one of this worker's.
    pub(super) fn is_mine(&self, domain: u16, address: u32) -> bool {
        self.domains.get(usize::from(domain)).is_some_and(|domain| holds(&domain.mine, address))
    }

    /// The public address with that number.
    pub(super) fn public(&self, address: u32) -> u32 {
        self.addresses[address as usize].public
    }

    /// An address for a new subscriber: of two at random the one with more blocks left, else any that has one.
    pub(super) fn choose(&self, domain: u16, random: u64) -> Option<u32> {
        let giving = &self.domains.get(usize::from(domain))?.giving;
        let free = |at: &u32| self.addresses[*at as usize].free;
        let pick = |bits: u64| giving.get((((bits & 0xffff_ffff) * giving.len() as u64) >> 32) as usize).copied();
        let best = [pick(random)?, pick(random >> 32)?].into_iter().max_by_key(free)?;
        if free(&best) > 0 { Some(best) } else { giving.iter().copied().find(|at| free(at) > 0) }
    }

    /// Has other addresses: those that are new behind the others, and the domains as they are now. What was there before comes
    /// back in the change, to be freed elsewhere.
    pub(super) fn change(&mut self, change: &mut Change) {
        if !change.addresses.is_empty() {
            self.addresses.push(std::mem::take(&mut change.addresses));
            self.blocks.push(std::mem::take(&mut change.blocks));
            self.free.push(std::mem::take(&mut change.free));
            self.ports.push(std::mem::take(&mut change.ports));
        }
        std::mem::swap(&mut self.domains, &mut change.domains);
    }

    /// The first port of a block.
    pub(super) fn first_port(&self, block: u32) -> u16 {
        let number = block as usize % self.per_address;
        self.first_port + (number * usize::from(self.block_ports)) as u16 // blocks end at 65535
    }

    fn event(&self, block: u32, at: u64, ended: Option<Ended>) -> BlockEvent {
        let address = &self.addresses[block as usize / self.per_address];
        let first_port = self.first_port(block);
        BlockEvent {
            at,
            instance: self.domains[usize::from(address.domain)].instance,
            private: self.blocks[block as usize].private.into(),
            public: address.public.into(),
            first_port,
            last_port: first_port + (self.block_ports - 1),
            ended,
        }
    }

    /// Gives a free block of the address to a subscriber (its record, its private address), and says so; `next` is the
    /// one it had before.
    pub(super) fn give(
        &mut self,
        address: u32,
        (subscriber, private): (u32, u32),
        next: u32,
        random: u64,
        now: u64,
    ) -> Result<u32, Drop> {
        if self.log.room() == 0 {
            return Err(drops::NAT_LOG_FULL);
        }
        let from = random as usize % self.per_address;
        let number = self.free.take(address as usize, from).ok_or(drops::NAT_NO_PORT)?;
        let at = address as usize * self.per_address + number;
        self.addresses[address as usize].free -= 1;
        let idle_since = 0;
        self.blocks[at] = Block { stand: Stand::Given, subscriber, private, next, used: 0, idle_since, timer: None };
        self.given += 1;
        let block = at as u32; // fewer than there are timers
        let _ = self.log.push(self.event(block, now, None)); // there is room
        Ok(block)
    }

    /// Events written to the log's ring so far.
    pub(super) fn logged(&self) -> u64 {
        self.log.gauge().sent()
    }

    /// Ends a block that no mapping uses: tells the log. False when that has to be tried again.
    pub(super) fn end(&mut self, block: u32, why: Ended, now: u64) -> bool {
        let event = self.event(block, now, Some(why));
        let told = self.log.push(event).is_ok();
        let record = &mut self.blocks[block as usize];
        self.given -= usize::from(record.stand == Stand::Given);
        record.stand = if told { Stand::Held } else { Stand::Ending(why) };
        record.next = NONE;
        record.idle_since = (now >> TICK_SHIFT) as u32; // 18 years
        told
    }

    /// A block that was held long enough may be given again.
    pub(super) fn free(&mut self, block: u32) {
        let (address, number) = (block as usize / self.per_address, block as usize % self.per_address);
        self.blocks[block as usize].stand = Stand::Free;
        self.free.put(address, number);
        self.addresses[address].free += 1;
    }

    /// Domains and public addresses, by number.
    pub(super) fn addresses(&self) -> impl Iterator<Item = (u16, u32)> + '_ {
        (0..self.addresses.len()).map(|at| (self.addresses[at].domain, self.addresses[at].public))
    }

    /// The block of an address by its number that has a port; none: no block has it.
    pub(super) fn of_port(&self, address: u32, port: u16) -> Option<u32> {
        let number = usize::from(port.checked_sub(self.first_port)?) / usize::from(self.block_ports);
        // Fewer than there are timers.
        (number < self.per_address).then(|| address * self.per_address as u32 + number as u32)
    }

    /// The number of a block's address.
    pub(super) fn address_number(&self, block: u32) -> u32 {
        block / self.per_address as u32
    }

    /// The instance of a domain.
    pub(super) fn instance(&self, domain: u16) -> InstanceId {
        self.domains[usize::from(domain)].instance
    }

    /// Takes a free block for what another process has it for; its timer is not set. Nothing is logged.
    pub(super) fn claim(&mut self, block: u32, record: Block) {
        let (address, number) = (block as usize / self.per_address, block as usize % self.per_address);
        if self.free.remove(address, number) {
            self.addresses[address].free -= 1;
        }
        self.given += usize::from(record.stand == Stand::Given);
        self.blocks[block as usize] = record;
    }

    /// Takes that port of a block; false: it is in use.
    pub(super) fn claim_port(&mut self, block: u32, protocol: Protocol, port: u16) -> bool {
        let number = port - self.first_port(block);
        let is_free = self.ports.remove(Self::set(block, protocol), number.into());
        self.blocks[block as usize].used += u16::from(is_free);
        is_free
    }

    fn set(block: u32, protocol: Protocol) -> usize {
        block as usize * Protocol::ALL.len() + protocol as usize - 1
    }

    /// Takes a free port of the block: the first from a random one on.
    pub(super) fn take_port(&mut self, block: u32, protocol: Protocol, random: u64) -> Option<u16> {
        let from = random as usize % usize::from(self.block_ports);
        let port = self.ports.take(Self::set(block, protocol), from)?;
        self.blocks[block as usize].used += 1;
        Some(self.first_port(block) + port as u16) // below the block's length
    }

    /// Gives a port back; says how many of the block are still in use.
    pub(super) fn give_port(&mut self, block: u32, protocol: Protocol, port: u16) -> u16 {
        let number = port - self.first_port(block);
        self.ports.put(Self::set(block, protocol), number.into());
        let used = &mut self.blocks[block as usize].used;
        *used -= 1;
        *used
    }

    /// A port of the block that is in use, if any is.
    pub(super) fn used_port(&self, block: u32) -> Option<(Protocol, u16)> {
        let first = self.first_port(block);
        let used = |protocol| self.ports.first_missing(Self::set(block, protocol));
        Protocol::ALL.into_iter().find_map(|protocol| Some((protocol, first + used(protocol)? as u16)))
    }

    /// The public address a block is of.
    pub(super) fn address_of(&self, block: u32) -> (u16, u32) {
        let address = &self.addresses[block as usize / self.per_address];
        (address.domain, address.public)
    }
}
