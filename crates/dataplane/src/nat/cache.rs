//! Copies of mappings by which packets are translated elsewhere: in the kernel, for flows that are established.
//!
//! The tables here stay the truth. A copy is made when a mapping is, and goes before the mapping does; its port is given to
//! nobody else until all who may have read the copy are done with it. When packets of a flow came last is asked for where that
//! decides about something: so its time is not over while it is in use elsewhere.

use table::records::LineId;

use super::kind::Protocol;
use super::mapping::{TICK_SHIFT, seen};
use super::tables::Nat;
use crate::forward::InstanceId;

/// Public addresses in a row: network instance, first, last.
pub type PublicRange = (InstanceId, u32, u32);

/// A mapping as a cache has it. A key is an end: the network instance (14 bits), the protocol (1: TCP, 2: UDP, 3: ICMP
/// echo; 2 bits), the port (an echo's identifier; 16 bits), the IPv4 address (32 bits).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flow {
    /// The session it belongs to.
    pub session: u32,
    /// The subscriber's own end.
    pub out_key: u64,
    /// The public end that stands for it.
    pub in_key: u64,
}

/// When packets of a flow came last, in nanoseconds of the worker's clock; none: none has come since this was asked last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LastUse {
    /// A packet of the subscriber's.
    pub out: Option<u64>,
    /// One from outside.
    pub inward: Option<u64>,
}

/// Where packets are translated beside here. It may lack a mapping, and never has one that is not here.
pub trait FlowCache: Send {
    /// All mappings have numbers below this: said once, before anything else.
    fn prepare(&mut self, numbers: u32);

    /// Has a mapping, by its number, if there is room; else the mapping waits for some. What had that number before was
    /// [removed](Self::remove), and everybody is done with it.
    fn enter(&mut self, number: u32, flow: &Flow);

    /// A mapping that waits for room, now that there is some: to be [entered](Self::enter) again once all is
    /// [quiet](Self::quiesce). None: nothing waits, or there is no room.
    fn next_waiting(&self) -> Option<u32>;

    /// Has a mapping no more, from the next packet on.
    fn remove(&mut self, number: u32);

    /// When packets of a mapping came last since this was asked last; it is `now`, by the worker's clock.
    fn last_use(&mut self, number: u32, now: u64) -> LastUse;

    /// Returns when no packet is under way that was translated by what was removed. False: one still was after a while, in which
    /// the worker does nothing else.
    fn quiesce(&mut self) -> bool;
}

/// Mappings that get room in the cache in a call at most.
const FILLED_AT_ONCE: usize = 32;

/// The cache of a worker's mappings, if there is one.
#[derive(Default)]
pub(super) struct Cache {
    there: Option<Box<dyn FlowCache>>,
    /// Something was removed that packets under way may have read.
    is_removed_in_use: bool,
    /// The CPUs were waited for in vain: they are not again before this time.
    busy_until_ns: u64,
}

/// How long the CPUs are not waited for after it was in vain: one of them may be away for a hypervisor's time slice.
const BUSY_NS: u64 = 1_000_000;

impl Nat {
    /// Has packets translated elsewhere too from now on, by the mappings that there are and those to come.
    pub fn set_cache(&mut self, cache: Box<dyn FlowCache>) {
        let cache = self.cache.there.insert(cache);
        cache.prepare(self.mappings.capacity() as u32);
        for number in 0..self.mappings.capacity() as u32 {
            // Fewer lines than 2^32.
            if self.mappings.is_record(LineId(number)) {
                self.cache_enters(LineId(number));
            }
        }
    }

    /// Has mappings know of all packets of theirs that were translated elsewhere until `now`.
    pub fn ask_cache(&mut self, now: u64) {
        if self.cache.there.is_none() {
            return;
        }
        self.set_now(now);
        for number in 0..self.mappings.capacity() as u32 {
            if self.mappings.is_record(LineId(number)) {
                self.use_elsewhere(LineId(number));
            }
        }
    }

    /// There is a new mapping.
    pub(super) fn cache_enters(&mut self, id: LineId) {
        if self.cache.there.is_none() {
            return;
        }
        let Some(mapping) = self.mapping(id).copied() else { return };
        let (domain, _) = self.blocks.address_of(mapping.block);
        let instance = u64::from(self.blocks.instance(domain)) << 50;
        let of_instance = |key: u64| key & ((1 << 50) - 1) | instance;
        let flow = Flow {
            session: mapping.session,
            out_key: of_instance(mapping.out_key),
            in_key: of_instance(mapping.in_key),
        };
        if let Some(cache) = &mut self.cache.there {
            cache.enter(id.0, &flow);
        }
    }

    /// A mapping ends.
    pub(super) fn cache_removes(&mut self, id: LineId) {
        if let Some(cache) = &mut self.cache.there {
            cache.remove(id.0);
            self.cache.is_removed_in_use = true;
        }
    }

    /// Whether ports that are free now are used by nobody. Mostly they are, or a microsecond later; false: not after a while
    /// either, and no port may be given.
    #[must_use]
    pub(super) fn cache_is_quiet(&mut self) -> bool {
        if self.cache.is_removed_in_use && self.now_ns >= self.cache.busy_until_ns {
            self.cache.is_removed_in_use = !self.cache.there.as_mut().is_none_or(|cache| cache.quiesce());
            self.cache.busy_until_ns = self.now_ns.saturating_add(BUSY_NS * u64::from(self.cache.is_removed_in_use));
        }
        !self.cache.is_removed_in_use
    }

    /// Whether a mapping that waits has room in the cache now.
    pub(super) fn has_room_in_cache(&self) -> bool {
        self.cache.there.as_ref().is_some_and(|cache| cache.next_waiting().is_some())
    }

    /// Mappings that wait for room in the cache get what there is, a few each time.
    pub(super) fn fill_cache(&mut self) {
        for _ in 0..FILLED_AT_ONCE {
            let Some(number) = self.cache.there.as_ref().and_then(|cache| cache.next_waiting()) else { return };
            if !self.cache_is_quiet() {
                return;
            }
            self.cache_enters(LineId(number));
        }
    }

    /// Has a mapping know of its packets that were translated elsewhere, as if they had come here.
    pub(super) fn use_elsewhere(&mut self, id: LineId) {
        let now = self.now_ns;
        let Some(LastUse { out, inward }) = self.cache.there.as_mut().map(|cache| cache.last_use(id.0, now)) else {
            return;
        };
        if out.is_none() && inward.is_none() {
            return;
        }
        let (refresh, tick) = (self.refresh, self.now);
        let Some(mapping) = self.mapping_mut(id) else { return };
        let refreshes = [out, inward.filter(|_| refresh)];
        for at in refreshes.into_iter().flatten().map(|time| (time >> TICK_SHIFT) as u32) {
            // Ticks go round: it is the one that is less long ago.
            let is_later = tick.wrapping_sub(at) < tick.wrapping_sub(mapping.last);
            mapping.last = if is_later { at } else { mapping.last };
        }
        if inward.is_some() {
            mapping.seen |= seen::INWARD;
        }
        if out.is_some() && mapping.number == Protocol::Tcp as u8 {
            mapping.seen |= seen::OUTWARD;
        }
        self.mapping_changed(id);
    }
}
