//! Translated flows as programs have them: `bpf/nat.h`. Workers' mappings are the truth, and these are copies of them, which a
//! program may lack: it leaves such packets to the worker then.
//!
//! A mapping has the place of its own number, so that memory is bounded and nothing is searched for; mappings with higher
//! numbers than there are places are not copied. An index of two choices leads to it from both of its ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

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

/// A worker's flows in the kernel.
pub struct Flows<P> {
    path: Arc<P>,
    maps: FlowMaps,
    /// The first of its places, and how many it has.
    first: u32,
    places: u32,
    seed: u64,
}

impl<P: AsRef<FastPath>> Flows<P> {
    /// Those of a worker, of as many as there are.
    pub fn new(path: Arc<P>, maps: FlowMaps, worker: u16) -> Self {
        let shared = (*path).as_ref();
        let (all, workers) = (shared.own(maps.flows).len() as u32, u32::from(shared.workers())); // fewer than 2^24
        let places = all / workers.max(1);
        let seed = shared.seed();
        Self { path, maps, first: u32::from(worker) * places, places, seed }
    }

    fn place(&self, number: u32) -> Option<u32> {
        (number < self.places).then(|| self.first + number)
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
    fn enter(&mut self, number: u32, flow: &Flow) {
        let Some(place) = self.place(number) else { return };
        let (session, Flow { out_key, in_key, .. }) = (flow.session, *flow);
        let entry = FlowEntry { valid: 0, session, out_key, in_key, out_ns: 0, in_ns: 0, spare: [0; 3] };
        let flows = self.map(self.maps.flows);
        flows.write(place as usize, 0, entry.as_bytes());
        if let Some(word) = flows.get(place as usize).first() {
            word.fetch_or(1, Ordering::SeqCst);
        }
        // One that cannot be led to from both ends is led to from one: packets of the other direction are the worker's.
        self.link(self.mixed(out_key, 0), place);
        self.link(self.mixed(in_key, PUBLIC_END), place);
    }

    fn remove(&mut self, number: u32) {
        let Some(place) = self.place(number) else { return };
        let [head, out_key, in_key, ..] = self.map(self.maps.flows).get(place as usize) else { return };
        if head.fetch_and(!u64::from(u32::MAX), Ordering::SeqCst) as u32 == 0 {
            return;
        }
        let [out_key, in_key] = [out_key, in_key].map(|key| key.load(Ordering::Relaxed));
        self.unlink(self.mixed(out_key, 0), place);
        self.unlink(self.mixed(in_key, PUBLIC_END), place);
    }

    fn last_use(&mut self, number: u32, now: u64) -> LastUse {
        let place = self.place(number).map(|place| self.map(self.maps.flows).get(place as usize));
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

    fn quiesce(&mut self) {
        (*self.path).as_ref().quiesce();
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
