//! The tables of one worker, and how a mapping comes into them.

use std::io;
use std::net::Ipv4Addr;

use engine::{Drop, Owner};
use table::bulk::{BulkMap, Full, Seed};
use table::records::{Line, LineId, Lines};
use table::ring::Producer;
use table::wheel::Wheel;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, transmute_mut, transmute_ref};

use super::blocks::{BlockEvent, Blocks, NONE};
use super::cache::Cache;
use super::config::{Config, Misconfigured};
use super::fragments::Fragments;
use super::hand_over::{Changed, Imported};
use super::kind::Protocol;
use super::mapping::{Lives, Mapping, TICK_SHIFT, key, ticks};
use super::reload::Change;
use crate::drops;
use crate::forward::InstanceId;

/// No translation is available.
#[derive(Debug, thiserror::Error)]
pub enum Unavailable {
    /// The configuration contradicts itself.
    #[error(transparent)]
    Misconfigured(#[from] Misconfigured),
    /// No memory for the records.
    #[error("no memory for translation")]
    Records(#[from] io::Error),
    /// No memory for the indexes.
    #[error("no memory for the indexes of translation")]
    Indexes(#[from] Full),
}

/// A subscriber that has at least one block.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub(super) struct Subscriber {
    /// Domain and private address.
    pub key: u64,
    pub session: u32,
    /// Its public address, by number.
    pub address: u32,
    /// The block it got last.
    pub first_block: u32,
    pub blocks: u32,
    pub rest: [u64; 5],
}

/// A flow as its subscriber sends it.
pub(super) struct Flow {
    /// Where it is looked up.
    pub key: u64,
    pub domain: u16,
    pub protocol: Protocol,
    /// Its private end.
    pub private: u32,
    pub port: u16,
    /// The subscriber's session.
    pub session: u32,
}

/// Translation on one worker: its public addresses, its subscribers' blocks and mappings. All memory is taken at the
/// start.
pub struct Nat {
    pub(super) blocks: Blocks,
    /// Mappings by private end and by public end.
    pub(super) inside: BulkMap<u64, u32>,
    pub(super) outside: BulkMap<u64, u32>,
    pub(super) mappings: Lines,
    pub(super) most_mappings: usize,
    /// Subscribers by domain and private address.
    pub(super) by_address: BulkMap<u64, u32>,
    pub(super) subscribers: Lines,
    pub(super) most_subscribers: usize,
    most_blocks: u32,
    pub(super) wheel: Wheel,
    pub(super) lives: Lives,
    pub(super) block_idle: u32,
    pub(super) block_hold: u32,
    pub(super) refresh: bool,
    pub(super) fragments: Fragments,
    /// Where packets are translated beside here.
    pub(super) cache: Cache,
    /// While another process takes over: what has changed since it was exported.
    pub(super) changed: Option<Box<Changed>>,
    /// While this process takes over: what is known by which numbers there.
    pub(super) imported: Option<Box<Imported>>,
    random: u64,
    pub(super) now: u32,
    pub(super) now_ns: u64,
}

impl Nat {
    /// The translation of worker `owner` of `workers`, which begins at `now` and tells `log` of blocks.
    ///
    /// # Errors
    /// A bad configuration, or no memory.
    pub fn new(
        config: &Config,
        owner: Owner,
        workers: Owner,
        log: Producer<BlockEvent>,
        now: u64,
    ) -> Result<Self, Unavailable> {
        config.check(workers)?;
        let blocks = Blocks::new(config, owner, workers, log);
        let timers = config.mappings + blocks.blocks.len() + config.spare_blocks(workers);
        let seed = |n: u128| Seed::new(config.seed.wrapping_mul(2 * n + 3).wrapping_add(u128::from(owner)));
        let random = (config.seed as u64 ^ (config.seed >> 64) as u64 ^ u64::from(owner)) | 1;
        Ok(Self {
            inside: BulkMap::with_capacity(config.mappings, seed(0))?,
            outside: BulkMap::with_capacity(config.mappings, seed(1))?,
            mappings: Lines::with_capacity(config.mappings)?,
            most_mappings: config.mappings,
            by_address: BulkMap::with_capacity(config.subscribers, seed(2))?,
            subscribers: Lines::with_capacity(config.subscribers)?,
            most_subscribers: config.subscribers,
            most_blocks: config.blocks_per_subscriber.into(),
            wheel: Wheel::new(timers, now >> TICK_SHIFT),
            lives: Lives::from(&config.timeouts),
            block_idle: ticks(config.block_idle),
            block_hold: ticks(config.block_hold),
            refresh: config.refresh_from_outside,
            fragments: Fragments::new(config.fragments, random),
            cache: Cache::default(),
            changed: None,
            imported: None,
            random,
            now: (now >> TICK_SHIFT) as u32,
            now_ns: now,
            blocks,
        })
    }

    /// Has other public addresses, and goes by other lives and bounds, from now on. Mappings and blocks stay as they are.
    pub fn change(&mut self, change: &mut Change) {
        self.blocks.change(change);
        self.lives = Lives::from(&change.timeouts);
        self.block_idle = ticks(change.block_idle);
        self.block_hold = ticks(change.block_hold);
        self.refresh = change.refresh_from_outside;
        self.most_blocks = change.blocks_per_subscriber.into();
    }

    /// Mappings there are.
    pub fn mappings(&self) -> usize {
        self.inside.len()
    }

    /// Subscribers with at least one block.
    pub fn subscribers(&self) -> usize {
        self.by_address.len()
    }

    /// Blocks that subscribers have.
    pub fn blocks(&self) -> usize {
        self.blocks.given
    }

    /// Blocks given out and ended so far, as written to the log's ring.
    pub fn logged(&self) -> u64 {
        self.blocks.logged()
    }

    /// What may run out: its name, how much of it is used, how much there is.
    pub fn levels(&self) -> [(&'static str, u64, u64); 3] {
        [
            ("nat_blocks", self.blocks.given as u64, self.blocks.blocks.len() as u64),
            ("nat_mappings", self.mappings() as u64, self.most_mappings as u64),
            ("nat_subscribers", self.subscribers() as u64, self.most_subscribers as u64),
        ]
    }

    /// Blocks that subscribers have, with the mappings on each, among the `count` blocks from number `from`: to be asked
    /// bit by bit, as packets wait meanwhile. The number to go on from; none: these were the last.
    pub fn given(&self, from: usize, count: usize, mut tell: impl FnMut(BlockEvent, u16)) -> Option<usize> {
        for number in from..from + count {
            if let Some((block, mappings)) = self.blocks.look(number)? {
                tell(block, mappings);
            }
        }
        Some(from + count)
    }

    /// The public address a subscriber has now.
    pub fn public_of(&self, instance: InstanceId, private: Ipv4Addr) -> Option<Ipv4Addr> {
        let id = self.find_subscriber(self.blocks.domain(instance)?, private.into())?;
        Some(self.blocks.public(self.subscriber(id)?.address).into())
    }

    /// A session has ended, or its subscriber changed address: its mappings vanish, its blocks go back. To be called
    /// before another session can have the address.
    pub fn end_session(&mut self, instance: InstanceId, private: Ipv4Addr, now: u64) {
        self.set_now(now);
        let Some(domain) = self.blocks.domain(instance) else { return };
        if let Some(id) = self.find_subscriber(domain, private.into()) {
            self.end_subscriber(id);
        }
    }

    pub(super) fn set_now(&mut self, now: u64) {
        self.now_ns = now;
        self.now = (now >> TICK_SHIFT) as u32; // 18 years
    }

    #[inline(always)]
    pub(super) fn mapping(&self, id: LineId) -> Option<&Mapping> {
        self.mappings.get(id, 1)?.first().map(Mapping::of)
    }

    #[inline(always)]
    pub(super) fn mapping_mut(&mut self, id: LineId) -> Option<&mut Mapping> {
        self.mappings.get_mut(id, 1)?.first_mut().map(Mapping::of_mut)
    }

    pub(super) fn subscriber(&self, id: LineId) -> Option<&Subscriber> {
        let line: &Line = self.subscribers.get(id, 1)?.first()?;
        Some(transmute_ref!(line))
    }

    pub(super) fn subscriber_mut(&mut self, id: LineId) -> Option<&mut Subscriber> {
        let line: &mut Line = self.subscribers.get_mut(id, 1)?.first_mut()?;
        Some(transmute_mut!(line))
    }

    pub(super) fn find_subscriber(&self, domain: u16, private: u32) -> Option<LineId> {
        self.by_address.get(subscriber_key(domain, private)).map(LineId)
    }

    fn random(&mut self) -> u64 {
        // xorshift*: ports are to be hard to guess for strangers, not for those who see many of them.
        self.random ^= self.random >> 12;
        self.random ^= self.random << 25;
        self.random ^= self.random >> 27;
        self.random.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// The mapping of a flow that seems to have none: another packet of the burst may have made it.
    #[cold]
    #[inline(never)]
    pub(super) fn map(&mut self, flow: &Flow) -> Result<LineId, Drop> {
        let found = self.find_subscriber(flow.domain, flow.private);
        if let Some(other) = found.filter(|id| self.subscriber(*id).is_some_and(|s| s.session != flow.session)) {
            // The address belongs to another session now, without an event.
            self.end_subscriber(other);
        }
        if let Some(id) = self.inside.get(flow.key) {
            return Ok(LineId(id));
        }
        if self.mappings() >= self.most_mappings {
            return Err(drops::NAT_TABLE_FULL);
        }
        if !self.cache_is_quiet() {
            return Err(drops::NAT_PORTS_IN_USE);
        }
        let (block, port) = self.port_for(flow)?;
        let entered = self.enter(flow, block, port);
        if entered.is_none() {
            self.give_back(block, flow.protocol, port);
        }
        entered.ok_or(drops::NAT_TABLE_FULL)
    }

    /// Enters a mapping in all tables, or in none.
    fn enter(&mut self, flow: &Flow, block: u32, port: u16) -> Option<LineId> {
        let (domain, public) = self.blocks.address_of(block);
        let mut mapping = Mapping {
            out_key: flow.key,
            in_key: key(domain, flow.protocol, public, port),
            private: flow.private,
            public,
            private_port: flow.port,
            public_port: port,
            session: flow.session,
            number: flow.protocol as u8,
            block,
            last: self.now,
            ..Mapping::NONE
        };
        let id = self.mappings.alloc(1)?;
        let both =
            self.inside.insert(mapping.out_key, id.0).is_ok() && self.outside.insert(mapping.in_key, id.0).is_ok();
        let timer = if both { self.set_timer(mapping.life(&self.lives), id.0) } else { None };
        let Some(timer) = timer else {
            self.inside.remove(mapping.out_key);
            self.outside.remove(mapping.in_key);
            self.mappings.free(id, 1);
            return None;
        };
        mapping.timer = timer.0;
        *self.mapping_mut(id)? = mapping;
        self.mapping_changed(id);
        self.cache_enters(id);
        Some(id)
    }

    /// A free port of the subscriber's blocks, of a new block if need be, and its block.
    fn port_for(&mut self, flow: &Flow) -> Result<(u32, u16), Drop> {
        let random = self.random();
        let found = self.find_subscriber(flow.domain, flow.private);
        let known = found.and_then(|id| Some((id, *self.subscriber(id)?)));
        let mut at = known.map_or(NONE, |(_, subscriber)| subscriber.first_block);
        while let Some(next) = self.blocks.blocks.get(at as usize).map(|block| block.next) {
            if let Some(port) = self.blocks.take_port(at, flow.protocol, random) {
                return Ok((at, port));
            }
            at = next;
        }
        let block = match known {
            Some((id, subscriber)) => self.another_block(id, flow.private, &subscriber)?,
            None => self.first_block(flow)?,
        };
        let port = self.blocks.take_port(block, flow.protocol, random).ok_or(drops::NAT_NO_PORT)?;
        Ok((block, port))
    }

    /// One more block of the address that the subscriber has.
    fn another_block(&mut self, id: LineId, private: u32, known: &Subscriber) -> Result<u32, Drop> {
        if known.blocks >= self.most_blocks {
            return Err(drops::NAT_NO_PORT);
        }
        let (random, now) = (self.random(), self.now_ns);
        let block = self.blocks.give(known.address, (id.0, private), known.first_block, random, now)?;
        if let Some(subscriber) = self.subscriber_mut(id) {
            subscriber.first_block = block;
            subscriber.blocks += 1;
        }
        self.block_changed(block);
        Ok(block)
    }

    /// A public address and the first block for a new subscriber.
    fn first_block(&mut self, flow: &Flow) -> Result<u32, Drop> {
        if self.subscribers() >= self.most_subscribers {
            return Err(drops::NAT_TABLE_FULL);
        }
        let (choice, start, now) = (self.random(), self.random(), self.now_ns);
        let address = self.blocks.choose(flow.domain, choice).ok_or(drops::NAT_NO_PORT)?;
        let id = self.subscribers.alloc(1).ok_or(drops::NAT_TABLE_FULL)?;
        let key = subscriber_key(flow.domain, flow.private);
        let entered = self.by_address.insert(key, id.0).map_err(|_| drops::NAT_TABLE_FULL);
        let given = entered.and_then(|_| self.blocks.give(address, (id.0, flow.private), NONE, start, now));
        match given {
            Ok(block) => {
                self.block_changed(block);
                let new =
                    Subscriber { key, session: flow.session, address, first_block: block, blocks: 1, rest: [0; 5] };
                self.subscriber_mut(id).into_iter().for_each(|subscriber| *subscriber = new);
            }
            Err(_) => {
                self.by_address.remove(key);
                self.subscribers.free(id, 1);
            }
        }
        given
    }
}

pub(super) fn subscriber_key(domain: u16, private: u32) -> u64 {
    u64::from(domain) << 32 | u64::from(private)
}
