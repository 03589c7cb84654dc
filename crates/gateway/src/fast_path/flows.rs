//! Translated flows as programs have them: `bpf/nat.h`. Workers' mappings are the truth, and these are copies of them, which a
//! program may lack: it leaves such packets to the worker then.
//!
//! A mapping gets a place when it is made, if one is free and the index, of two choices, has room for both of its ends. One that gets none
//! waits, and its session stays with its worker: each packet of it would hand the session back. Whoever waits longest gets the next
//! place that is free.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use dataplane::nat::{Flow, FlowCache, LastUse, PublicRange};
use port::bpf::{SharedWords, monotonic_ns};
use zerocopy::{FromZeros, IntoBytes};

use super::index::buckets;
use super::{FastPath, NUMBER_BITS};
use crate::fast_path_records;

/// Ranges of public addresses that a program compares with.
pub const RANGES: usize = 16;
/// Keys of a bucket of the index on average when all places are taken, of eight.
const KEYS_A_BUCKET: u32 = 4;
/// Of an index's key: never 0, which is a free place.
const IS_KEY: u64 = 1 << 39;
/// In a key's upper bits: it is that of a public end.
const PUBLIC_END: u64 = 1 << 62;

fast_path_records! {
    /// A mapping. Keys are of an end: network instance, protocol, port, address.
    FlowEntry { valid: u32, session: u32, out_key: u64, in_key: u64, out_ns: u64, in_ns: u64, spare: [u64; 3], }
    /// Public addresses in a row.
    Range { instance: u32, first: u32, span: u32, spare: u32, }
    /// How addresses are translated.
    Translation { valid: u32, flow_bits: u32, translated: u64, seed: u64, ranges: [Range; RANGES], }
}

const _: () = {
    use std::mem::offset_of;
    assert!(size_of::<FlowEntry>() == 64 && size_of::<Translation>() == 280);
    assert!(offset_of!(FlowEntry, out_key) == 8 && offset_of!(FlowEntry, out_ns) == OUT_AT * 8);
    assert!(IN_AT == OUT_AT + 1 && cfg!(target_endian = "little"));
};
/// Words of a flow's entry.
const OUT_AT: usize = 3;
const IN_AT: usize = 4;

/// Where a gateway's program has its maps `translation`, `flows` and `flow_index`, among those of its own.
#[derive(Clone, Copy, Debug)]
pub struct FlowMaps {
    /// How addresses are translated.
    pub translation: usize,
    /// Number of the map that has copies of mappings, by the end that a packet names.
    pub flows: usize,
    /// What leads to them.
    pub index: usize,
}

impl FlowMaps {
    /// Buckets of the index, of so many flows.
    pub fn buckets(flows: u32) -> u32 {
        (flows.saturating_mul(2) / KEYS_A_BUCKET).next_power_of_two().max(4)
    }
}

/// How addresses are translated, of a program with those maps: `ranges` are all public addresses.
pub fn translation(path: &FastPath, maps: FlowMaps, ranges: &[PublicRange]) -> Translation {
    const NONE: Range = Range { instance: u32::MAX, first: 0, span: 0, spare: 0 };
    let mut entry = Translation::new_zeroed();
    entry.ranges = [NONE; RANGES];
    if ranges.is_empty() {
        return entry;
    }
    (entry.valid, entry.flow_bits) = (1, path.own(maps.index).len().trailing_zeros());
    entry.seed = path.seed();
    for (to, (instance, first, last)) in entry.ranges.iter_mut().zip(few(ranges.to_vec(), RANGES)) {
        *to = Range { instance: instance.into(), first, span: last - first, spare: 0 };
        entry.translated |= 1 << (instance & 63);
    }
    entry
}

/// At most so many ranges with all of these addresses, and others between them: those are the workers' then.
fn few(mut ranges: Vec<PublicRange>, most: usize) -> Vec<PublicRange> {
    ranges.sort_unstable();
    while ranges.len() > most {
        let gap = |at: usize| {
            let ((this, _, last), (other, first, _)) = (ranges[at], ranges[at + 1]);
            if this == other { u64::from(first.saturating_sub(last)) } else { u64::MAX }
        };
        let Some(nearest) = (0..ranges.len() - 1).min_by_key(|at| gap(*at)).filter(|at| gap(*at) != u64::MAX) else {
            break;
        };
        ranges[nearest].2 = ranges[nearest + 1].2.max(ranges[nearest].2);
        ranges.remove(nearest + 1);
    }
    ranges
}

/// How long packets under way are waited for at most, before a port is given again: a CPU may be taken from the machine in the midst
/// of one.
const QUIET_WITHIN: Duration = Duration::from_millis(2);

/// Translated flows, of all workers, with and without a place in the kernel. Workers write, whoever shows them reads.
#[derive(Debug, Default)]
pub(super) struct FlowRoom {
    /// Places that there are.
    pub(super) places: AtomicU32,
    /// Those that are taken.
    pub(super) taken: AtomicU32,
    /// Flows that wait for one.
    pub(super) waiting: AtomicU32,
    /// Flows that have had to wait.
    pub(super) waited: AtomicU64,
    /// Flows that wait, by the number of their session: it stays with its worker while there are any.
    pub(super) by_session: Box<[AtomicU32]>,
}

impl FlowRoom {
    pub(super) fn new(sessions: usize) -> Self {
        Self { by_session: (0..sessions).map(|_| AtomicU32::new(0)).collect(), ..Self::default() }
    }
}

/// Where a mapping's copy is, by the mapping's number. Those that wait are a list, in the order in which they came.
#[derive(Clone, Copy)]
struct Slot {
    /// Its place, or one of those below.
    place: u32,
    /// Of one that waits: its session's number among the program's, and its neighbours in the list.
    session: u32,
    before: u32,
    behind: u32,
}

impl Slot {
    const NONE: Self = Self { place: Self::UNUSED, session: 0, before: NOBODY, behind: NOBODY };
    const UNUSED: u32 = u32::MAX;
    const WAITS: u32 = u32::MAX - 1;

    fn place(self) -> Option<u32> {
        (self.place < Self::WAITS).then_some(self.place)
    }
}

/// No mapping's number.
const NOBODY: u32 = u32::MAX;

/// A worker's flows in the kernel.
pub struct Flows<P> {
    path: Arc<P>,
    maps: FlowMaps,
    worker: u16,
    slots: Vec<Slot>,
    /// Places that are free, the next one last. Everybody is done with them when the next mapping comes.
    free: Vec<u32>,
    first_waiting: u32,
    last_waiting: u32,
    /// The index has no room for the first one that waits, and nothing was removed since.
    is_index_full: bool,
    seed: u64,
}

impl<P: AsRef<FastPath>> Flows<P> {
    /// Those of a worker, of as many as there are.
    pub fn new(path: Arc<P>, maps: FlowMaps, worker: u16) -> Self {
        let shared = (*path).as_ref();
        let (all, workers) = (shared.own(maps.flows).len() as u32, u32::from(shared.workers())); // fewer than 2^24
        let places = all / workers.max(1);
        let first = u32::from(worker) * places;
        shared.flow_room().places.store(places * workers, Ordering::Relaxed);
        let (free, seed) = ((first..first + places).rev().collect(), shared.seed());
        let slots = Vec::new();
        let [first_waiting, last_waiting] = [NOBODY; 2];
        Self { path, maps, worker, slots, free, first_waiting, last_waiting, is_index_full: false, seed }
    }

    fn room(&self) -> &FlowRoom {
        (*self.path).as_ref().flow_room()
    }

    fn slot(&self, number: u32) -> Slot {
        self.slots.get(number as usize).copied().unwrap_or(Slot::NONE)
    }

    fn change(&mut self, number: u32, change: impl FnOnce(&mut Slot)) {
        self.slots.get_mut(number as usize).map(change);
    }

    /// Has a copy of a mapping in a place. False: the index has no room for both of its ends.
    fn put(&self, place: u32, &Flow { session, out_key, in_key }: &Flow) -> bool {
        let entry = FlowEntry { valid: 0, session, out_key, in_key, out_ns: 0, in_ns: 0, spare: [0; 3] };
        let flows = self.map(self.maps.flows);
        flows.write(place as usize, 0, entry.as_bytes());
        let [out_end, in_end] = [self.mixed(out_key, 0), self.mixed(in_key, PUBLIC_END)];
        // What is not valid yet is nobody's.
        if !self.link(out_end, place) {
            return false;
        }
        if !self.link(in_end, place) {
            self.unlink(out_end, place);
            return false;
        }
        if let Some(word) = flows.get(place as usize).first() {
            word.fetch_or(1, Ordering::SeqCst);
        }
        true
    }

    /// A mapping waits from now on, behind others, and its session stays with its worker.
    fn begin_to_wait(&mut self, number: u32, session: u32) {
        let session = (*self.path).as_ref().number(self.worker, session).unwrap_or(NOBODY);
        let before = std::mem::replace(&mut self.last_waiting, number);
        match before {
            NOBODY => self.first_waiting = number,
            before => self.change(before, |slot| slot.behind = number),
        }
        self.change(number, |slot| *slot = Slot { place: Slot::WAITS, session, before, behind: NOBODY });
        let room = self.room();
        room.waiting.fetch_add(1, Ordering::Relaxed);
        if let Some(count) = room.by_session.get(session as usize) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// A mapping that waited does so no more.
    fn end_to_wait(&mut self, number: u32) {
        let Slot { session, before, behind, .. } = self.slot(number);
        match before {
            NOBODY => (self.first_waiting, self.is_index_full) = (behind, false),
            before => self.change(before, |slot| slot.behind = behind),
        }
        match behind {
            NOBODY => self.last_waiting = before,
            behind => self.change(behind, |slot| slot.before = before),
        }
        self.change(number, |slot| *slot = Slot::NONE);
        let room = self.room();
        room.waiting.fetch_sub(1, Ordering::Relaxed);
        if let Some(count) = room.by_session.get(session as usize) {
            count.fetch_sub(1, Ordering::Relaxed);
        }
    }

    fn map(&self, map: usize) -> &SharedWords {
        (*self.path).as_ref().own(map)
    }

    /// The key of an end in the index.
    fn mixed(&self, key: u64, public_end: u64) -> u64 {
        let mixed = (key | public_end).wrapping_mul(self.seed);
        let mixed = (mixed ^ mixed >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93);
        (mixed >> NUMBER_BITS | IS_KEY) << NUMBER_BITS
    }

    fn link(&self, key: u64, place: u32) -> bool {
        let index = self.map(self.maps.index);
        let all = buckets(index, key, NUMBER_BITS);
        let is_same = |entry: &AtomicU64| (entry.load(Ordering::Relaxed) ^ key) >> NUMBER_BITS == 0;
        if all.iter().copied().flatten().any(is_same) {
            return false;
        }
        let room = all.map(|bucket| bucket.iter().filter(|entry| entry.load(Ordering::Relaxed) == 0).count());
        let [first, second] = if room[0] >= room[1] { all } else { [all[1], all[0]] };
        // Other workers enter theirs meanwhile.
        let takes = |entry: &AtomicU64| {
            let new = key | u64::from(place);
            entry.compare_exchange(0, new, Ordering::Release, Ordering::Relaxed).is_ok()
        };
        first.iter().chain(second).any(takes)
    }

    fn unlink(&self, key: u64, place: u32) {
        let entry = key | u64::from(place);
        for place in buckets(self.map(self.maps.index), key, NUMBER_BITS).into_iter().flatten() {
            let _ = place.compare_exchange(entry, 0, Ordering::Relaxed, Ordering::Relaxed);
        }
    }
}

impl<P: AsRef<FastPath> + Send + Sync> FlowCache for Flows<P> {
    fn prepare(&mut self, numbers: u32) {
        self.slots = vec![Slot::NONE; numbers as usize];
    }

    fn enter(&mut self, number: u32, flow: &Flow) {
        if number as usize >= self.slots.len() {
            return;
        }
        let is_new = self.slot(number).place != Slot::WAITS;
        // None overtakes those that wait for a place.
        let is_next = if is_new { self.next_waiting().is_none() } else { number == self.first_waiting };
        if let Some(place) = self.free.pop_if(|_| is_next) {
            if self.put(place, flow) {
                if !is_new {
                    self.end_to_wait(number);
                }
                self.change(number, |slot| slot.place = place);
                self.room().taken.fetch_add(1, Ordering::Relaxed);
                return;
            }
            // There was room for it: no allocation.
            self.free.push(place);
            self.is_index_full |= self.first_waiting == NOBODY || !is_new;
        }
        if is_new {
            self.room().waited.fetch_add(1, Ordering::Relaxed);
            self.begin_to_wait(number, flow.session);
        }
    }

    fn next_waiting(&self) -> Option<u32> {
        let is_room = !self.free.is_empty() && !self.is_index_full && self.first_waiting != NOBODY;
        is_room.then_some(self.first_waiting)
    }

    fn remove(&mut self, number: u32) {
        let slot = self.slot(number);
        if slot.place == Slot::WAITS {
            return self.end_to_wait(number);
        }
        let Some(place) = slot.place() else { return };
        self.change(number, |slot| *slot = Slot::NONE);
        self.is_index_full = false;
        self.free.push(place);
        self.room().taken.fetch_sub(1, Ordering::Relaxed);
        let [head, out_key, in_key, ..] = self.map(self.maps.flows).get(place as usize) else { return };
        if head.fetch_and(!u64::from(u32::MAX), Ordering::SeqCst) as u32 == 0 {
            return;
        }
        let [out_key, in_key] = [out_key, in_key].map(|key| key.load(Ordering::Relaxed));
        self.unlink(self.mixed(out_key, 0), place);
        self.unlink(self.mixed(in_key, PUBLIC_END), place);
    }

    fn last_use(&mut self, number: u32, now: u64) -> LastUse {
        let place = self.slot(number).place().map(|place| self.map(self.maps.flows).get(place as usize));
        let Some(words) = place.filter(|words| words.len() > IN_AT) else { return LastUse::default() };
        let kernels = monotonic_ns();
        let taken = |at: usize| {
            // Mostly there is nothing, and no line to take from another CPU.
            let stamp = &words[at];
            let time = if stamp.load(Ordering::Relaxed) == 0 { 0 } else { stamp.swap(0, Ordering::Relaxed) };
            (time != 0).then(|| now.saturating_sub(kernels.saturating_sub(time)))
        };
        LastUse { out: taken(OUT_AT), inward: taken(IN_AT) }
    }

    fn quiesce(&mut self) -> bool {
        (*self.path).as_ref().quiesce_until(Instant::now() + QUIET_WITHIN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_ranges_have_all_addresses() {
        let ranges = vec![(1, 10, 20), (0, 5, 6), (1, 22, 23), (1, 100, 110), (0, 9, 9)];
        assert_eq!(few(ranges.clone(), 5), [(0, 5, 6), (0, 9, 9), (1, 10, 20), (1, 22, 23), (1, 100, 110)]);
        assert_eq!(few(ranges.clone(), 3), [(0, 5, 9), (1, 10, 23), (1, 100, 110)]);
        assert_eq!(few(ranges.clone(), 2), [(0, 5, 9), (1, 10, 110)]);
        // One for each network instance there is at least.
        assert_eq!(few(ranges, 1), [(0, 5, 9), (1, 10, 110)]);
    }
}
