//! Pools of IPv4 addresses, IA_NA addresses and delegated prefixes, and who has what.
//!
//! A pool is one slice of one subscriber group. Allocation, renewal and release take constant time. An address stays
//! with its client after the lease ended, until all others of the pool have been used (least recently used first), or as many
//! are remembered as were ever leased at once, and [`REMEMBERED`] more. An offer that was not taken is not remembered, so that
//! memory follows the leases, whatever addresses clients ask for.
//!
//! Law, tested: at any time an address belongs to at most one lease, and to none while excluded or in quarantine.

mod blocks;
mod claim;
mod hand_over;
mod reload;
mod settings;
#[cfg(test)]
mod tests;

pub use settings::{BadPool, Limits, MAX_BLOCKS, NotRestored, Range, Refusal};

use crate::action::Place;
use crate::lease::{Kind, LeaseKey, LeaseRecord};
use crate::option82::LineRate;
use crate::{ClientKey, Line, Time};
use blocks::Blocks;
use std::cmp::Reverse;
use std::collections::hash_map::Entry;
use std::collections::{BinaryHeap, HashMap, HashSet, VecDeque};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

pub(crate) use claim::Replaced;
pub use claim::{Learnt, NotClaimed};
pub use hand_over::{Handed, Rests};
pub use reload::LeftOut;

/// Ended leases that are remembered beyond the most that were ever leased at once.
pub const REMEMBERED: usize = 65_536;

/// State of a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Offered, not stored; ends with the offer.
    Offered,
    /// Granted: stored, and acknowledged to the client.
    Bound,
    /// Ended; the address is remembered, and free.
    Idle,
}

/// A lease. Times are in seconds since the Unix epoch.
#[derive(Clone, Copy, Debug)]
pub struct Lease {
    key: LeaseKey,
    pool: u16,
    state: State,
    /// It was granted: its address is remembered when it ends.
    was_granted: bool,
    block: u32,
    expiry: u32,
    stored: u32,
    queued: u32,
    /// A number of what an access node calls its line; 0: not known.
    mark: u32,
}

impl Lease {
    /// Kind, client and IAID.
    pub fn key(&self) -> LeaseKey {
        self.key
    }

    /// Where it is in its life.
    pub fn state(&self) -> State {
        self.state
    }

    /// When it ends.
    pub fn expiry(&self) -> u32 {
        self.expiry
    }

    /// When its stored record ends; 0 if there is none.
    pub fn stored(&self) -> u32 {
        self.stored
    }

    fn idle(key: LeaseKey, pool: u16, block: u32) -> Self {
        let state = State::Idle;
        Self { key, pool, state, was_granted: false, block, expiry: 0, stored: 0, queued: 0, mark: 0 }
    }
}

/// All pools of a gateway, and all leases.
#[derive(Debug)]
pub struct Pools {
    pools: Vec<Blocks>,
    of_group: HashMap<(u16, Kind), Vec<u16>>,
    leases: Vec<Lease>,
    unused: Vec<u32>,
    index: HashMap<LeaseKey, u32>,
    /// Leases by line, and by hardware address where lines are shared.
    lines: HashMap<Owned, u32>,
    /// Leases by VLAN pair and kind, where lines are shared.
    pairs: HashMap<Pair, u32>,
    /// Groups whose lines are shared.
    shared: HashSet<u16>,
    ports: HashMap<u16, u32>,
    due: BinaryHeap<Reverse<(u32, u32)>>,
    quarantine: VecDeque<Resting>,
    /// Addresses declined to another server: until when they count, and against whose limits.
    declined: VecDeque<(u32, (Owned, Option<Pair>))>,
    limits: Limits,
    bound: usize,
    /// The most that were granted at once.
    most_bound: usize,
    /// Leases that are offered or granted.
    live: usize,
    number: u16,
    /// Of leases that another server has granted: by slot, that server and the address.
    learnt: HashMap<u32, Learnt>,
}

/// Bytes of a hash table; an estimate: 8 entries in 7, and one byte.
fn table<K, V>(map: &HashMap<K, V>) -> usize {
    match map.capacity() {
        0 => 0,
        entries => (entries * 8 / 7).next_power_of_two() * (size_of::<(K, V)>() + 1),
    }
}

/// Who is counted for leases: a line, and a hardware address where lines are shared.
type Owned = (Line, [u8; 6]);
/// A VLAN pair that lines share, and a kind of lease.
type Pair = (Line, Kind);
/// Until when an address rests, its pool and block, and whose limits it counts against.
type Resting = (u32, u16, u32, (Owned, Option<Pair>));

/// An address as 128 bits; IPv4 is mapped (RFC 4291 clause 2.5.5.2).
fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(a) => a.to_ipv6_mapped().to_bits(),
        IpAddr::V6(a) => a.to_bits(),
    }
}

/// Pools by number, and the numbers of those that a group has of a kind.
type Arranged = (Vec<Blocks>, HashMap<(u16, Kind), Vec<u16>>);

/// Pools of those ranges, and which of them each group has of each kind.
fn arranged(ranges: &[Range]) -> Result<Arranged, BadPool> {
    let pools = ranges.iter().map(Blocks::new).collect::<Result<Vec<_>, _>>()?;
    let mut sorted: Vec<_> = ranges.iter().zip(&pools).map(|(r, p)| (p.bounds(), r.first)).collect();
    sorted.sort_unstable();
    if let Some(pair) = sorted.windows(2).find(|pair| pair[1].0.0 <= pair[0].0.1) {
        return Err(BadPool::Overlap(pair[0].1, pair[1].1));
    }
    let mut of_group: HashMap<_, Vec<u16>> = HashMap::new();
    for (range, at) in ranges.iter().zip(0..) {
        of_group.entry((range.group, range.kind)).or_default().push(at);
    }
    Ok((pools, of_group))
}

impl Pools {
    /// Pools as configured; none may overlap.
    pub fn new(ranges: &[Range], limits: Limits) -> Result<Self, BadPool> {
        let (pools, of_group) = arranged(ranges)?;
        Ok(Self {
            pools,
            of_group,
            leases: Vec::new(),
            unused: Vec::new(),
            index: HashMap::new(),
            lines: HashMap::new(),
            pairs: HashMap::new(),
            shared: HashSet::new(),
            ports: HashMap::new(),
            due: BinaryHeap::new(),
            quarantine: VecDeque::new(),
            declined: VecDeque::new(),
            limits,
            bound: 0,
            most_bound: 0,
            live: 0,
            number: 0,
            learnt: HashMap::new(),
        })
    }

    /// Tells these pools apart from others that the same server leases from; 0 unless set.
    pub fn set_number(&mut self, number: u16) {
        self.number = number;
    }

    /// The lease in a slot, among those of all pools of a server.
    pub(crate) fn place(&self, slot: u32) -> Place {
        (self.number, slot)
    }

    /// Lines of a group are shared (N:1): [`Limits::per_line`] counts each hardware address by itself.
    pub fn share(&mut self, group: u16) {
        self.shared.insert(group);
    }

    /// Who is counted for a client's leases.
    fn owner(&self, client: &ClientKey, group: u16) -> Owned {
        (client.line, if self.shared.contains(&group) { client.mac } else { [0; 6] })
    }

    /// The VLAN pair that is counted for a client's leases, if its lines are shared.
    fn pair(&self, key: &LeaseKey, group: u16) -> Option<Pair> {
        self.shared.contains(&group).then_some((key.client.line, key.kind))
    }

    /// Leases that are granted.
    pub fn bound(&self) -> usize {
        self.bound
    }

    /// Bytes of memory taken by leases, pools and indexes; an estimate for hash tables.
    pub fn memory(&self) -> usize {
        self.leases.capacity() * size_of::<Lease>()
            + self.pools.iter().map(Blocks::memory).sum::<usize>()
            + table(&self.index)
            + table(&self.lines)
            + table(&self.pairs)
            + self.due.capacity() * size_of::<(u32, u32)>()
    }

    /// The slot of a client's lease, whatever its state.
    pub fn find(&self, key: &LeaseKey) -> Option<u32> {
        self.index.get(key).copied()
    }

    /// The lease in a slot, as [`Pools::find`] gives it.
    pub fn lease(&self, slot: u32) -> &Lease {
        &self.leases[slot as usize]
    }

    /// Its address, or the first of its prefix; IPv4 mapped.
    pub fn address(&self, slot: u32) -> Ipv6Addr {
        if let Some(learnt) = self.learnt.get(&slot) {
            return learnt.address;
        }
        let lease = self.lease(slot);
        self.pools[usize::from(lease.pool)].address(lease.block)
    }

    /// IPv4 address of the lease in a slot; none: it is of IPv6.
    pub fn ip4(&self, slot: u32) -> Option<Ipv4Addr> {
        self.address(slot).to_ipv4_mapped()
    }

    /// Bits of [`Pools::address`] that are leased; 128 for addresses of both families.
    pub fn prefix_len(&self, slot: u32) -> u8 {
        self.pools[usize::from(self.lease(slot).pool)].lease_len()
    }

    /// The subscriber group whose pool it is from.
    pub fn group(&self, slot: u32) -> u16 {
        self.pools[usize::from(self.lease(slot).pool)].group()
    }

    /// Whether a pool of the group has the address.
    pub fn has(&self, group: u16, kind: Kind, address: IpAddr) -> bool {
        self.locate(group, kind, bits(address)).is_some()
    }

    /// The lease in a slot as a record to store.
    pub fn record(&self, slot: u32) -> LeaseRecord {
        let lease = self.lease(slot);
        LeaseRecord {
            key: lease.key,
            group: self.group(slot),
            address: self.address(slot),
            prefix_len: self.prefix_len(slot),
            expiry: lease.stored,
            server: self.server(slot),
            line_rate: LineRate::default(),
        }
    }

    fn locate(&self, group: u16, kind: Kind, address: u128) -> Option<(u16, u32)> {
        let pools = self.of_group.get(&(group, kind))?;
        pools.iter().find_map(|&pool| self.pools[usize::from(pool)].index_of(address).map(|block| (pool, block)))
    }

    /// The client's lease, or a new one offered for `hold`: its last address if that is free, `wanted` if that is free, or
    /// the one free for longest. A granted lease stays as it is.
    pub fn offer(
        &mut self,
        key: LeaseKey,
        group: u16,
        wanted: Option<IpAddr>,
        now: Time,
        hold: Duration,
    ) -> Result<u32, Refusal> {
        let until = (now + hold).secs();
        self.release_quarantine(now);
        if let Some(slot) = self.find(&key) {
            let Lease { state, pool, block, .. } = self.leases[slot as usize];
            let same_group = self.pools[usize::from(pool)].group() == group;
            if same_group && state == State::Bound {
                return Ok(slot);
            }
            if same_group && state == State::Offered {
                self.schedule(slot, until);
                return Ok(slot);
            }
            if same_group {
                self.admit(&key, group)?;
                self.pools[usize::from(pool)].take_back(block);
                self.start(slot, until);
                return Ok(slot);
            }
            self.release(slot);
            if self.find(&key).is_some() {
                self.forget(slot);
            }
        }
        self.admit(&key, group)?;
        let (pool, block) = self.choose(group, key.kind, wanted)?;
        Ok(self.begin(key, (pool, block), until))
    }

    /// A new lease of a free block, which ends at `until` unless it is granted.
    fn begin(&mut self, key: LeaseKey, (pool, block): (u16, u32), until: u32) -> u32 {
        let slot = self.unused.pop().unwrap_or(self.leases.len() as u32);
        let lease = Lease::idle(key, pool, block);
        match self.leases.get_mut(slot as usize) {
            Some(place) => *place = Lease { queued: place.queued, ..lease },
            None => self.leases.push(lease),
        }
        if let Some(before) = self.pools[usize::from(pool)].give(block, slot) {
            // The address was remembered for a client that has been away for longest.
            self.index.remove(&self.leases[before as usize].key);
            self.unused.push(before);
        }
        self.index.insert(key, slot);
        self.start(slot, until);
        slot
    }

    fn admit(&self, key: &LeaseKey, group: u16) -> Result<(), Refusal> {
        let line = key.client.line;
        let pair = self.pair(key, group).and_then(|pair| self.pairs.get(&pair));
        if self.lines.get(&self.owner(&key.client, group)).is_some_and(|count| *count >= self.limits.per_line) {
            return Err(Refusal::LineLimit);
        }
        if pair.is_some_and(|count| *count >= self.limits.per_pair) {
            return Err(Refusal::PairLimit);
        }
        if self.ports.get(&line.port).is_some_and(|count| *count >= self.limits.per_port) {
            return Err(Refusal::PortLimit);
        }
        Ok(())
    }

    fn choose(&mut self, group: u16, kind: Kind, wanted: Option<IpAddr>) -> Result<(u16, u32), Refusal> {
        if let Some((pool, block)) = wanted.and_then(|address| self.locate(group, kind, bits(address)))
            && self.pools[usize::from(pool)].is_unclaimed(block)
        {
            return Ok((pool, block));
        }
        let Self { pools, of_group, .. } = self;
        let numbers = of_group.get(&(group, kind)).ok_or(Refusal::NoPool)?;
        // Addresses that nobody comes back for are first.
        let mut unclaimed = numbers.iter().filter_map(|&n| Some((n, pools[usize::from(n)].next_unclaimed()?)));
        if let Some(found) = unclaimed.next() {
            return Ok(found);
        }
        drop(unclaimed);
        let mut oldest = numbers.iter().filter_map(|&n| Some((n, pools[usize::from(n)].oldest()?.0)));
        oldest.next().ok_or(Refusal::Exhausted)
    }

    fn start(&mut self, slot: u32, until: u32) {
        let lease = &mut self.leases[slot as usize];
        (lease.state, lease.stored, lease.mark) = (State::Offered, 0, 0);
        self.live += 1;
        let (key, group) = (lease.key, self.group(slot));
        let (owner, line) = (self.owner(&key.client, group), key.client.line);
        self.count(owner, self.pair(&key, group));
        *self.ports.entry(line.port).or_default() += 1;
        self.schedule(slot, until);
    }

    /// Sets when a lease ends; only an earlier end needs another entry of the queue.
    fn schedule(&mut self, slot: u32, expiry: u32) {
        let lease = &mut self.leases[slot as usize];
        lease.expiry = expiry;
        if lease.queued == 0 || expiry < lease.queued {
            lease.queued = expiry;
            self.due.push(Reverse((expiry, slot)));
        }
    }

    /// Grants a lease until `expiry`. Returns whether a record must be stored: the stored expiry is then `ahead` later.
    pub fn grant(&mut self, slot: u32, expiry: u32, ahead: u32) -> bool {
        let lease = &mut self.leases[slot as usize];
        debug_assert!(lease.state != State::Idle);
        if lease.state == State::Offered {
            (lease.state, lease.was_granted) = (State::Bound, true);
            self.bound += 1;
            self.most_bound = self.most_bound.max(self.bound);
        }
        let must_store = lease.stored < expiry;
        if must_store {
            lease.stored = expiry.saturating_add(ahead);
        }
        self.schedule(slot, expiry);
        must_store
    }

    /// Notes the line that a lease is used by, as a number that is not 0; the first one since it was offered or restored
    /// stays.
    pub(crate) fn mark(&mut self, slot: u32, mark: u32) {
        let lease = &mut self.leases[slot as usize];
        if lease.mark == 0 {
            lease.mark = mark;
        }
    }

    /// Whether a lease is, as far as is known, used by that line.
    pub(crate) fn is_marked(&self, slot: u32, mark: u32) -> bool {
        let known = self.leases[slot as usize].mark;
        known == 0 || known == mark
    }

    /// The wall clock, by which stored records end, was set by so many seconds: on, so that they end earlier by the caller's
    /// clock and are stored again earlier; or back.
    pub fn wall_clock_set(&mut self, by: i64) {
        for lease in self.leases.iter_mut().filter(|lease| lease.stored != 0) {
            lease.stored = (i64::from(lease.stored) - by).clamp(1, u32::MAX.into()) as u32;
        }
    }

    /// The store failed: the next grant stores again.
    pub fn not_stored(&mut self, slot: u32) {
        self.leases[slot as usize].stored = 0;
    }

    /// Ends a lease; the address is free, and remembered for its client if it was granted.
    pub fn release(&mut self, slot: u32) {
        if self.leases[slot as usize].state != State::Idle {
            self.free(slot);
        }
    }

    fn free(&mut self, slot: u32) {
        let Lease { pool, block, was_granted, .. } = self.leases[slot as usize];
        self.stop(slot);
        if !was_granted {
            return self.forget(slot);
        }
        let pool = &mut self.pools[usize::from(pool)];
        pool.release(block);
        let oldest = pool.oldest().map(|(_, slot)| slot);
        let remembered = self.leases.len() - self.unused.len() - self.live;
        if remembered > self.most_bound + REMEMBERED {
            oldest.into_iter().for_each(|slot| self.forget(slot));
        }
    }

    fn stop(&mut self, slot: u32) {
        self.uncount_lease(slot, self.group(slot));
    }

    fn uncount_lease(&mut self, slot: u32, group: u16) {
        let lease = &mut self.leases[slot as usize];
        if lease.state == State::Bound {
            self.bound -= 1;
        }
        (lease.state, lease.stored) = (State::Idle, 0);
        self.live -= 1;
        let key = lease.key;
        self.learnt.remove(&slot);
        let (owner, line) = (self.owner(&key.client, group), key.client.line);
        self.uncount(owner, self.pair(&key, group));
        if let Some(count) = self.ports.get_mut(&line.port) {
            *count -= 1;
        }
    }

    /// Counts a lease against the limits of its owner and of its VLAN pair.
    fn count(&mut self, owner: Owned, pair: Option<Pair>) {
        *self.lines.entry(owner).or_default() += 1;
        pair.into_iter().for_each(|pair| *self.pairs.entry(pair).or_default() += 1);
    }

    fn uncount(&mut self, owner: Owned, pair: Option<Pair>) {
        fn less<K>(entry: Entry<'_, K, u32>) {
            if let Entry::Occupied(mut count) = entry {
                *count.get_mut() -= 1;
                if *count.get() == 0 {
                    count.remove();
                }
            }
        }
        less(self.lines.entry(owner));
        pair.into_iter().for_each(|pair| less(self.pairs.entry(pair)));
    }

    /// Drops an idle lease; its address stays free.
    fn forget(&mut self, slot: u32) {
        let Lease { key, pool, block, .. } = self.leases[slot as usize];
        self.pools[usize::from(pool)].forget(block);
        self.index.remove(&key);
        self.unused.push(slot);
    }

    /// Ends a lease whose address somebody else uses (RFC 2131 clause 4.3.3): it rests for [`Limits::quarantine`].
    /// Until then it counts against [`Limits::per_line`] and [`Limits::per_pair`], so that no line, and no line of many
    /// hardware addresses, can have a whole pool rest.
    pub(crate) fn decline(&mut self, slot: u32, now: Time) {
        let Lease { key, pool, block, state, .. } = self.leases[slot as usize];
        if state == State::Idle {
            return;
        }
        let group = self.group(slot);
        let (owner, pair) = (self.owner(&key.client, group), self.pair(&key, group));
        self.stop(slot);
        self.count(owner, pair);
        self.pools[usize::from(pool)].quarantine(block);
        self.quarantine.push_back(((now + self.limits.quarantine).secs(), pool, block, (owner, pair)));
        self.index.remove(&key);
        self.unused.push(slot);
    }

    /// Number of addresses in quarantine ([`Limits::quarantine`]).
    pub fn quarantined(&self) -> usize {
        self.quarantine.len()
    }

    fn release_quarantine(&mut self, now: Time) {
        while let Some(&(until, pool, block, (owner, pair))) = self.quarantine.front()
            && until <= now.secs()
        {
            self.quarantine.pop_front();
            self.uncount(owner, pair);
            self.pools[usize::from(pool)].forget(block);
        }
        while let Some(&(until, (owner, pair))) = self.declined.front()
            && until <= now.secs()
        {
            self.declined.pop_front();
            self.uncount(owner, pair);
        }
    }

    /// Ends up to `most` leases and offers whose time is over; `each` is called for granted ones, while they are still
    /// there. Returns whether more are due.
    pub fn expire(&mut self, now: Time, most: usize, mut each: impl FnMut(&Self, u32)) -> bool {
        self.release_quarantine(now);
        for _ in 0..most {
            let Some(&Reverse((at, slot))) = self.due.peek() else { return false };
            if at > now.secs() {
                return false;
            }
            self.due.pop();
            let lease = &mut self.leases[slot as usize];
            if lease.queued != at {
                continue;
            }
            lease.queued = 0;
            let (state, expiry) = (lease.state, lease.expiry);
            if state == State::Idle {
                continue;
            }
            if expiry > now.secs() {
                self.schedule(slot, expiry);
                continue;
            }
            if state == State::Bound {
                each(self, slot);
            }
            self.free(slot);
        }
        self.due.peek().is_some_and(|Reverse((at, _))| *at <= now.secs())
    }

    /// Takes over a stored lease at start, before any offer is made.
    pub fn restore(&mut self, record: &LeaseRecord, now: Time) -> Result<u32, NotRestored> {
        let LeaseRecord { key, group, address, expiry, .. } = *record;
        if expiry <= now.secs() {
            return Err(NotRestored::Ended(address));
        }
        let at = self.locate(group, key.kind, address.to_bits());
        let (pool, block) = at.ok_or(NotRestored::NoPool(group, address))?;
        if self.pools[usize::from(pool)].lease_len() != record.prefix_len {
            return Err(NotRestored::NoPool(group, address));
        }
        if !self.pools[usize::from(pool)].is_unclaimed(block) || self.index.contains_key(&key) {
            return Err(NotRestored::Taken(address));
        }
        let slot = self.leases.len() as u32;
        self.leases.push(Lease { was_granted: true, ..Lease::idle(key, pool, block) });
        self.pools[usize::from(pool)].give(block, slot);
        self.index.insert(key, slot);
        self.start(slot, expiry);
        let lease = &mut self.leases[slot as usize];
        (lease.state, lease.stored) = (State::Bound, expiry);
        self.bound += 1;
        self.most_bound = self.most_bound.max(self.bound);
        if record.server.is_some() || self.address(slot) != address {
            self.learnt.insert(slot, Learnt { server: record.server, address });
        }
        Ok(slot)
    }

    /// The next lease or offer to end, at the earliest then; seconds since the Unix epoch.
    pub fn next_due(&self) -> Option<u32> {
        self.due.peek().map(|Reverse((due, _))| *due)
    }

    /// Every granted lease by slot.
    pub fn granted(&self) -> impl Iterator<Item = u32> {
        self.leases.iter().zip(0..).filter(|(lease, _)| lease.state == State::Bound).map(|(_, slot)| slot)
    }
}
