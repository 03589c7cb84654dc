//! From a packet's fields to its session's record, in halves: ask for the memory, then read it.

use dataplane::forward::InstanceId;
use table::bulk::{BulkMap, Hash};
use table::records::{Line, LineId, Window};

use super::Sessions;
use super::filters::Quad;
use super::keys::Endpoint;
use crate::record::{self, Action, Head, QuadList};

impl Sessions {
    /// First half of a lookup by TEID: prefetches the bucket.
    #[inline]
    pub(crate) fn prefetch_teid(&self, teid: u32) -> Hash {
        self.by_teid.prefetch(teid)
    }

    /// Second half: the record, whose uplink lines are asked for in turn. `None` also for one that will take more time to
    /// find.
    #[inline(always)]
    pub(crate) fn get_teid(&self, hash: Hash, teid: u32) -> Option<Endpoint> {
        self.uplink_of(self.by_teid.get_or_ask(hash, teid))
    }

    /// Second half again, of one that was not found and would have taken more time.
    pub(crate) fn get_teid_again(&self, hash: Hash, teid: u32) -> Option<Endpoint> {
        self.uplink_of(self.by_teid.get_hashed(hash, teid))
    }

    /// The index of a network's IPv4 addresses, for the halves of a lookup. The same for all of a burst.
    #[inline(always)]
    pub(crate) fn index4(&self, instance: InstanceId) -> Option<&BulkMap<u32, u32>> {
        self.by_v4.of(instance)
    }

    /// First half of a lookup by IPv4 address.
    #[inline(always)]
    pub(crate) fn prefetch_v4(index: Option<&BulkMap<u32, u32>>, address: u32) -> Hash {
        index.map_or(Hash::default(), |index| index.prefetch(address))
    }

    /// Second half: the record, whose downlink lines are asked for in turn. `None` also for one that will take more time to
    /// find.
    #[inline(always)]
    pub(crate) fn get_v4(&self, index: Option<&BulkMap<u32, u32>>, hash: Hash, address: u32) -> Option<LineId> {
        self.downlink_of(index?.get_or_ask(hash, address))
    }

    /// Second half again, of one that was not found and would have taken more time.
    pub(crate) fn get_v4_again(&self, index: Option<&BulkMap<u32, u32>>, hash: Hash, address: u32) -> Option<LineId> {
        self.downlink_of(index?.get_hashed(hash, address))
    }

    /// First half of a lookup by IPv6 prefix.
    #[inline]
    pub(crate) fn prefetch_v6(&self, instance: InstanceId, prefix: u64) -> Hash {
        self.by_v6.of(instance).map_or(Hash::default(), |index| index.prefetch(prefix))
    }

    /// Second half.
    #[inline]
    pub(crate) fn get_v6(&self, hash: Hash, instance: InstanceId, prefix: u64) -> Option<LineId> {
        self.downlink_of(self.by_v6.of(instance)?.get_hashed(hash, prefix))
    }

    /// The session of an IPv4 address that is no subscriber's own, by the networks behind subscribers. Off the usual path.
    #[cold]
    pub fn behind4(&self, instance: InstanceId, address: u32) -> Option<LineId> {
        self.place_of(self.by_route.find4(instance, address)?)
    }

    /// As [`behind4`](Self::behind4), of an IPv6 address.
    #[cold]
    pub(crate) fn behind6(&self, instance: InstanceId, address: u128) -> Option<LineId> {
        self.place_of(self.by_route.find6(instance, address)?)
    }

    fn place_of(&self, handle: u32) -> Option<LineId> {
        self.places.get(handle as usize).copied().flatten().map(|place| place.line)
    }

    /// Whether an IPv4 address is of a network behind the subscriber of that record, and no other subscriber's own.
    #[cold]
    pub fn is_behind4(&self, id: LineId, instance: InstanceId, address: u32) -> bool {
        self.behind4(instance, address) == Some(id) && self.by_v4.get(instance, address).is_none()
    }

    /// As [`is_behind4`](Self::is_behind4), of an IPv6 address.
    #[cold]
    pub(crate) fn is_behind6(&self, id: LineId, instance: InstanceId, address: u128) -> bool {
        self.behind6(instance, address) == Some(id) && self.by_v6.get(instance, (address >> 64) as u64).is_none()
    }

    #[inline(always)]
    fn uplink_of(&self, found: Option<u32>) -> Option<Endpoint> {
        let found = Endpoint::from_bits(found?);
        self.prefetch_pair(found.line, record::UP_PAIR);
        Some(found)
    }

    #[inline(always)]
    fn downlink_of(&self, found: Option<u32>) -> Option<LineId> {
        let id = LineId(found?);
        self.prefetch_pair(id, record::DOWN_PAIR);
        Some(id)
    }

    /// Whether there are so many sessions that what is of one is likely in memory.
    #[inline(always)]
    pub(crate) fn prefetch_l2(&self) -> bool {
        self.lines.are_many()
    }

    /// Asks for a pair of a record's lines. Two lines cost little more than one: memory is read by the 128 bytes.
    #[inline(always)]
    pub(crate) fn prefetch_pair(&self, id: LineId, pair: usize) {
        self.lines.prefetch(id, pair * 2);
        self.lines.prefetch(id, pair * 2 + 1);
    }

    /// Asks for the filters of a session's direction, where there are so many that they may not be near. Waits for the head.
    #[inline(always)]
    pub(crate) fn prefetch_filters(&self, ids: impl Iterator<Item = LineId>, uplink: bool) {
        if self.filters.are_many() {
            ids.filter_map(|id| self.window(id)).for_each(|window| {
                self.filters.prefetch(record::head_of(window, uplink).filters);
            });
        }
    }

    /// Filters that a head names.
    #[inline(always)]
    pub fn quads(&self, list: QuadList) -> &[Quad] {
        self.filters.get(list)
    }

    /// The record at a place a lookup returned.
    #[inline]
    pub fn record(&self, id: LineId) -> Option<&[Line]> {
        let head = record::head(self.lines.get(id, 1)?)?;
        self.lines.get(id, head.lines.into())
    }

    /// The record at a place a lookup returned, to be read by the views in [`mod@record`].
    #[inline(always)]
    pub fn window(&self, id: LineId) -> Option<&Window> {
        self.lines.window(id)
    }

    /// As [`window`](Self::window), to change cells whose positions one of the record's own rules named.
    #[inline(always)]
    pub fn window_mut(&mut self, id: LineId) -> Option<&mut Window> {
        self.lines.window_mut(id)
    }

    /// The head of a record.
    #[inline(always)]
    pub fn head(&self, id: LineId) -> Option<&Head> {
        self.window(id).map(record::head_in)
    }

    /// The action at a position of a record.
    #[inline(always)]
    pub fn action(&self, id: LineId, at: u8) -> Option<&Action> {
        self.window(id).map(|window| &record::actions_in(window)[usize::from(at)])
    }
}
