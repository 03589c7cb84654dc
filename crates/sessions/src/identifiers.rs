//! Identifiers the user plane gives out: tunnel endpoints (F-TEID with CHOOSE, TS 29.244, 8.2.3), session endpoints
//! (F-SEID, 8.2.37), subscribers' addresses (CHV4 and CHV6, 8.2.62).
//!
//! None can be guessed from another: an attacker who has one tunnel endpoint must not have its neighbours. Freed ones
//! come back last, so that packets still in transit are dropped and not delivered to another subscriber.

use std::collections::hash_map::RandomState;
use std::collections::{HashSet, VecDeque};
use std::hash::BuildHasher;
use std::net::{Ipv4Addr, Ipv6Addr};

/// Numbers `0..count`, each out once at a time; those given back come last.
#[derive(Debug)]
struct Numbers {
    next: u64,
    count: u64,
    back: VecDeque<u64>,
    /// Those from `next` on that are out already.
    ahead: HashSet<u64>,
}

impl Numbers {
    fn new(count: u64) -> Self {
        Self { next: 0, count, back: VecDeque::new(), ahead: HashSet::new() }
    }

    fn take(&mut self) -> Option<u64> {
        while self.next < self.count {
            self.next += 1;
            if !self.ahead.remove(&(self.next - 1)) {
                return Some(self.next - 1);
            }
        }
        self.back.pop_front()
    }

    /// One that was never out is not taken back.
    fn give(&mut self, number: u64) {
        if number < self.next {
            self.back.push_back(number);
        } else {
            self.ahead.remove(&number);
        }
    }

    /// A number that was not taken here is out.
    fn mark(&mut self, number: u64) {
        if (self.next..self.count).contains(&number) {
            self.ahead.insert(number);
        }
    }

    /// How many are out.
    fn out(&self) -> u64 {
        (self.next + self.ahead.len() as u64).saturating_sub(self.back.len() as u64)
    }
}

/// How many of the identifiers are out, and how many there are: of the worker that is nearest to its end, since each has
/// a part of its own.
fn fullest(workers: &[Numbers]) -> (u64, u64) {
    let shares = workers.iter().map(|numbers| (numbers.out(), numbers.count.max(1)));
    shares.max_by_key(|(out, count)| u128::from(*out) * 1_000_000 / u128::from(*count)).unwrap_or((0, 1))
}

/// A secret permutation of the numbers below a power of four: a Feistel network of four rounds over a keyed hash.
#[derive(Clone, Debug)]
struct Shuffle {
    half: u32,
    keys: [RandomState; 4],
}

impl Shuffle {
    /// Of the numbers below 2^`bits`; an odd count of bits takes a walk now and then.
    fn new(bits: u32) -> Self {
        Self { half: bits.div_ceil(2), keys: std::array::from_fn(|_| RandomState::new()) }
    }

    fn rounds<'a>(&self, keys: impl Iterator<Item = &'a RandomState>, value: u64) -> u64 {
        let mask = (1u64 << self.half) - 1;
        let (left, right) = keys.fold((value >> self.half, value & mask), |(left, right), key| {
            (right, left ^ (key.hash_one(right) & mask))
        });
        // The last exchange undone, so that the same rounds in reverse order lead back.
        (right << self.half) | left
    }

    /// Where a number below `limit` goes, below `limit` too: numbers beyond are sent on until one is.
    fn forth(&self, value: u64, limit: u64) -> u64 {
        let mut at = self.rounds(self.keys.iter(), value);
        while at >= limit {
            at = self.rounds(self.keys.iter(), at);
        }
        at
    }

    /// The way back.
    fn back(&self, value: u64, limit: u64) -> u64 {
        let mut at = self.rounds(self.keys.iter().rev(), value);
        while at >= limit {
            at = self.rounds(self.keys.iter().rev(), at);
        }
        at
    }
}

/// Tunnel endpoints. Each worker has a range of its own, told by the leading bits, so that packets need no hand-off.
#[derive(Debug)]
pub struct Teids {
    /// Bits below the worker's.
    bits: u32,
    shuffle: Shuffle,
    workers: Vec<Numbers>,
}

impl Teids {
    /// For so many workers.
    pub fn new(workers: u16) -> Self {
        let bits = 32 - u32::from(workers.max(1)).next_power_of_two().trailing_zeros();
        let numbers = |_| Numbers::new(1 << bits);
        Self { bits, shuffle: Shuffle::new(bits), workers: (0..workers.max(1)).map(numbers).collect() }
    }

    /// The first and last endpoint of a worker.
    pub fn range(&self, worker: u16) -> (u32, u32) {
        let first = u64::from(worker) << self.bits;
        // At most 32 bits, by construction.
        (first as u32, (first + (1 << self.bits) - 1) as u32)
    }

    /// The worker whose range an endpoint is in.
    pub fn worker(&self, teid: u32) -> u16 {
        (u64::from(teid) >> self.bits) as u16
    }

    /// A free endpoint of a worker, for which `is_used` is false: control planes choose some themselves.
    /// Never 0, which GTP-U keeps for itself (TS 29.281, 5.1).
    pub fn take(&mut self, worker: u16, mut is_used: impl FnMut(u32) -> bool) -> Option<u32> {
        let limit = 1u64 << self.bits;
        let numbers = self.workers.get_mut(usize::from(worker))?;
        // Used ones go to the end of the queue; a bound keeps a full range from spinning.
        for _ in 0..1024 {
            let number = numbers.take()?;
            let teid = (u64::from(worker) << self.bits) + self.shuffle.forth(number, limit);
            let teid = teid as u32;
            if teid != 0 && !is_used(teid) {
                return Some(teid);
            }
            numbers.give(number);
        }
        None
    }

    /// Gives back an endpoint that [`take`](Self::take) gave out.
    pub fn give(&mut self, teid: u32) {
        let (worker, limit) = (self.worker(teid), 1u64 << self.bits);
        if let Some(numbers) = self.workers.get_mut(usize::from(worker)) {
            numbers.give(self.shuffle.back(u64::from(teid) & (limit - 1), limit));
        }
    }

    /// Endpoints that are out, and all there are, of the worker that is nearest to its end.
    pub fn used(&self) -> (u64, u64) {
        fullest(&self.workers)
    }

    /// Marks an endpoint as out that an earlier run gave out: as if taken.
    pub fn is_ours(&self, teid: u32) -> bool {
        usize::from(self.worker(teid)) < self.workers.len()
    }
}

/// Addresses of one network instance for subscribers whose control plane leaves the choice to us. Each worker has its
/// own part, in whole blocks, so that steering is by range.
#[derive(Debug)]
pub struct Pool<A> {
    first: A,
    each: u64,
    workers: Vec<Numbers>,
}

/// An address, or the prefix of a subscriber, as a number.
pub trait Address: Copy {
    /// This one plus `n`.
    fn plus(self, n: u64) -> Self;
    /// How far it is above `first`; none when below.
    fn above(self, first: Self) -> Option<u64>;
}

impl Address for Ipv4Addr {
    fn plus(self, n: u64) -> Self {
        (u32::from(self).wrapping_add(n as u32)).into()
    }
    fn above(self, first: Self) -> Option<u64> {
        u32::from(self).checked_sub(first.into()).map(u64::from)
    }
}

/// An IPv6 subscriber has a /64.
impl Address for Ipv6Addr {
    fn plus(self, n: u64) -> Self {
        u128::from(self).wrapping_add(u128::from(n) << 64).into()
    }
    fn above(self, first: Self) -> Option<u64> {
        let prefix = |a: Self| (u128::from(a) >> 64) as u64;
        prefix(self).checked_sub(prefix(first))
    }
}

impl<A: Address> Pool<A> {
    /// `count` addresses from `first`, divided among workers.
    pub fn new(first: A, count: u64, workers: u16) -> Self {
        let each = (count / u64::from(workers.max(1))).max(1);
        Self { first, each, workers: (0..workers.max(1)).map(|_| Numbers::new(each.min(count))).collect() }
    }

    /// First and last address of a worker's part.
    pub fn range(&self, worker: u16) -> (A, A) {
        let first = u64::from(worker) * self.each;
        (self.first.plus(first), self.first.plus(first + self.each - 1))
    }

    /// The worker whose part an address is in.
    pub fn worker(&self, address: A) -> Option<u16> {
        let worker = address.above(self.first)? / self.each;
        (worker < self.workers.len() as u64).then_some(worker as u16)
    }

    /// A free address of a worker's part.
    pub fn take(&mut self, worker: u16, mut is_used: impl FnMut(A) -> bool) -> Option<A> {
        let numbers = self.workers.get_mut(usize::from(worker))?;
        for _ in 0..numbers.count.min(1024) {
            let number = numbers.take()?;
            let address = self.first.plus(u64::from(worker) * self.each + number);
            if !is_used(address) {
                return Some(address);
            }
            numbers.give(number);
        }
        None
    }

    /// Marks an address as out that another pool has given out, or nobody: a control plane chose it.
    pub fn mark(&mut self, address: A) {
        if let (Some(worker), Some(above)) = (self.worker(address), address.above(self.first)) {
            self.workers[usize::from(worker)].mark(above % self.each);
        }
    }

    /// Whether the other has the same addresses, divided in the same way.
    pub fn is_same(&self, other: &Self) -> bool {
        other.first.above(self.first) == Some(0) && self.each == other.each && self.workers.len() == other.workers.len()
    }

    /// Whether the other has addresses of this one.
    pub fn overlaps(&self, other: &Self) -> bool {
        let inside = |above: Option<u64>, of: &Self| above.is_some_and(|n| n / of.each < of.workers.len() as u64);
        inside(other.first.above(self.first), self) || inside(self.first.above(other.first), other)
    }

    /// Whether several workers have parts of it.
    pub(crate) fn is_divided(&self) -> bool {
        self.workers.len() > 1
    }

    /// Addresses that are out.
    pub fn out(&self) -> u64 {
        self.workers.iter().map(Numbers::out).sum()
    }

    /// Addresses that are out, and all there are, of the worker that is nearest to its end.
    pub fn used(&self) -> (u64, u64) {
        fullest(&self.workers)
    }

    /// Gives back an address that [`take`](Self::take) gave out.
    pub fn give(&mut self, address: A) {
        if let (Some(worker), Some(above)) = (self.worker(address), address.above(self.first)) {
            self.workers[usize::from(worker)].give(above % self.each);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_shuffle_is_a_permutation(bits in 2u32..20, value: u64) {
            let (shuffle, limit) = (Shuffle::new(bits), 1 << bits);
            let value = value % limit;
            let there = shuffle.forth(value, limit);
            prop_assert!(there < limit);
            prop_assert_eq!(shuffle.back(there, limit), value);
        }
    }

    #[test]
    fn endpoints_are_unique_within_their_workers_range_and_in_no_order() {
        let mut teids = Teids::new(3);
        let mut seen = HashSet::new();
        for worker in 0..3 {
            let (first, last) = teids.range(worker);
            let mut ascending = 0;
            let mut before = 0;
            for _ in 0..2000 {
                let teid = teids.take(worker, |_| false).expect("free");
                assert!((first..=last).contains(&teid) && teid != 0 && seen.insert(teid));
                assert_eq!(teids.worker(teid), worker);
                ascending += u32::from(teid == before + 1);
                before = teid;
            }
            assert!(ascending < 5, "neighbours follow each other {ascending} times");
        }
    }

    #[test]
    fn what_is_given_back_comes_last_and_what_a_control_plane_chose_never() {
        let mut pool = Pool::new(Ipv4Addr::new(10, 45, 0, 0), 4, 1);
        let a = pool.take(0, |_| false).expect("free");
        pool.give(a);
        let rest: Vec<_> = (0..3).map(|_| pool.take(0, |_| false).expect("free")).collect();
        assert!(!rest.contains(&a));
        assert_eq!(pool.take(0, |_| false), Some(a));
        assert_eq!(pool.take(0, |_| false), None);
        pool.give(rest[0]);
        pool.give(rest[1]);
        assert_eq!(pool.take(0, |x| x == rest[0]), Some(rest[1]));
    }

    #[test]
    fn a_pool_is_divided_among_workers() {
        let first: Ipv6Addr = "2001:db8::".parse().expect("address");
        let mut pool = Pool::new(first, 8, 2);
        assert_eq!(pool.take(1, |_| false), Some("2001:db8:0:4::".parse().expect("address")));
        assert_eq!(pool.worker("2001:db8:0:3::7".parse().expect("address")), Some(0));
        assert_eq!(pool.worker("2001:db8:0:8::".parse().expect("address")), None);
        assert_eq!(pool.range(1).1, "2001:db8:0:7::".parse::<Ipv6Addr>().expect("address"));
    }
}
