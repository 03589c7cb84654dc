//! What time does to mappings and blocks.

use table::records::LineId;
use table::wheel::Handle;

use super::blocks::{Ended, Stand};
use super::kind::Protocol;
use super::mapping::{Mapping, TICK_SHIFT, key};
use super::tables::{Nat, Subscriber};

/// Set in a timer's payload: it is a block's, not a mapping's.
pub(super) const BLOCK: u32 = 1 << 31;
/// Timers seen to in a call at most.
const AT_ONCE: usize = 256;

impl Nat {
    /// Sees to what is due at `now`, in nanoseconds, as far as a millisecond allows: call it every one. Says whether all
    /// was seen to.
    pub fn tick(&mut self, now: u64) -> bool {
        self.set_now(now);
        for _ in 0..AT_ONCE {
            let Some((_, what)) = self.wheel.pop(now >> TICK_SHIFT) else {
                self.fill_cache();
                return true;
            };
            if what & BLOCK == 0 {
                self.mapping_due(LineId(what));
            } else {
                self.block_due(what & !BLOCK);
            }
        }
        false
    }

    /// When [`Nat::tick`] has something to do next, in nanoseconds, or somewhat before.
    pub fn next_deadline(&self) -> Option<u64> {
        if self.has_room_in_cache() {
            return Some(self.now_ns);
        }
        self.wheel.next_tick().map(|tick| tick << TICK_SHIFT)
    }

    /// A tick so many from now. The wheel has a timer for every mapping and block.
    pub(super) fn set_timer(&mut self, after: u32, what: u32) -> Option<Handle> {
        self.wheel.insert(u64::from(self.now) + u64::from(after), what)
    }

    /// A mapping may have ended, or was refreshed since its timer was set.
    fn mapping_due(&mut self, id: LineId) {
        self.use_elsewhere(id);
        let Some(mapping) = self.mapping(id).copied() else { return };
        let left = mapping.life(&self.lives).saturating_sub(self.now.wrapping_sub(mapping.last));
        if left == 0 {
            self.remove(id, &mapping);
        } else {
            self.rearm(id, left);
        }
    }

    pub(super) fn rearm(&mut self, id: LineId, after: u32) {
        let timer = self.set_timer(after, id.0);
        if let (Some(mapping), Some(timer)) = (self.mapping_mut(id), timer) {
            mapping.timer = timer.0;
        }
    }

    /// A mapping lives shorter than its timer thinks.
    #[cold]
    pub(super) fn hasten(&mut self, id: LineId) {
        let Some(mapping) = self.mapping(id) else { return };
        let (timer, life) = (Handle(mapping.timer), mapping.life(&self.lives));
        if self.wheel.cancel(timer).is_some() {
            self.rearm(id, life);
        }
    }

    /// Takes out a mapping whose timer is not set (any more).
    pub(super) fn remove(&mut self, id: LineId, mapping: &Mapping) {
        self.mapping_changed(id);
        self.cache_removes(id);
        self.imported.iter_mut().for_each(|imported| imported.forget(mapping.known_as));
        self.inside.remove(mapping.out_key);
        self.outside.remove(mapping.in_key);
        if let Some(place) = self.mapping_mut(id) {
            *place = Mapping::NONE;
            self.mappings.free(id, 1);
        }
        self.give_back(mapping.block, mapping.protocol(), mapping.public_port);
    }

    /// Gives a port back; the last one of a block leaves it idle.
    pub(super) fn give_back(&mut self, block: u32, protocol: Protocol, port: u16) {
        if self.blocks.give_port(block, protocol, port) == 0 {
            let now = self.now;
            let record = &mut self.blocks.blocks[block as usize];
            record.idle_since = now;
            let is_armed = record.timer.is_some();
            self.block_changed(block);
            if !is_armed {
                self.set_block_timer(block, self.block_idle);
            }
        }
    }

    pub(super) fn set_block_timer(&mut self, block: u32, after: u32) {
        self.blocks.blocks[block as usize].timer = self.set_timer(after, BLOCK | block);
    }

    fn block_due(&mut self, block: u32) {
        let record = &mut self.blocks.blocks[block as usize];
        record.timer = None;
        match record.stand {
            Stand::Given if record.used > 0 => {}
            Stand::Given => {
                let left = self.block_idle.saturating_sub(self.now.wrapping_sub(record.idle_since));
                if left > 0 {
                    return self.set_block_timer(block, left);
                }
                self.take_from_subscriber(block);
                self.end_block(block, Ended::Idle);
            }
            Stand::Ending(why) => self.end_block(block, why),
            Stand::Held => {
                self.blocks.free(block);
                self.block_changed(block);
            }
            Stand::Free => {}
        }
    }

    /// Ends a block without mappings and timer. It is told and held, or tried again a tick later.
    fn end_block(&mut self, block: u32, why: Ended) {
        let told = self.blocks.end(block, why, self.now_ns);
        self.block_changed(block);
        self.set_block_timer(block, if told { self.block_hold } else { 1 });
    }

    /// Unlinks a block from its subscriber; one without blocks is forgotten.
    pub(super) fn take_from_subscriber(&mut self, block: u32) {
        let id = LineId(self.blocks.blocks[block as usize].subscriber);
        let next = self.blocks.blocks[block as usize].next;
        let Some(subscriber) = self.subscriber_mut(id) else { return };
        subscriber.blocks -= 1;
        if subscriber.first_block == block {
            subscriber.first_block = next;
        } else {
            let mut at = subscriber.first_block;
            while let Some(before) = self.blocks.blocks.get_mut(at as usize) {
                if before.next == block {
                    before.next = next;
                    break;
                }
                at = before.next;
            }
        }
        if let Some(subscriber) = self.subscriber(id).copied().filter(|subscriber| subscriber.blocks == 0) {
            self.forget(id, &subscriber);
        }
    }

    /// Takes out a subscriber that has no blocks any more.
    fn forget(&mut self, id: LineId, subscriber: &Subscriber) {
        self.by_address.remove(subscriber.key);
        self.subscribers.free(id, 1);
    }

    /// Ends all that a subscriber has: mappings, blocks, record.
    pub(super) fn end_subscriber(&mut self, id: LineId) {
        let Some(subscriber) = self.subscriber(id).copied() else { return };
        let mut block = subscriber.first_block;
        while let Some(record) = self.blocks.blocks.get(block as usize) {
            let next = record.next;
            self.end_mappings(block);
            if let Some(timer) = self.blocks.blocks[block as usize].timer.take() {
                self.wheel.cancel(timer);
            }
            self.end_block(block, Ended::Session);
            block = next;
        }
        self.forget(id, &subscriber);
    }

    pub(super) fn end_mappings(&mut self, block: u32) {
        let (domain, public) = self.blocks.address_of(block);
        while let Some((protocol, port)) = self.blocks.used_port(block) {
            let key = key(domain, protocol, public, port);
            let found = self.outside.get(key).map(LineId);
            let Some((id, mapping)) = found.and_then(|id| Some((id, *self.mapping(id)?))) else {
                // A port in use has a mapping; without one it is given back all the same.
                self.blocks.give_port(block, protocol, port);
                continue;
            };
            self.wheel.cancel(Handle(mapping.timer));
            self.remove(id, &mapping);
        }
    }
}
