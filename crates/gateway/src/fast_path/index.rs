//! What leads to a session: keys that follow each other in blocks, all others in a hash table of two choices. One writer at a
//! time; the program reads meanwhile, and checks what it finds.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};

use port::bpf::{BpfError, Object, SharedWords};

use super::record::{BLOCK, BLOCK_BITS, BUCKET, KEY_KINDS, KEY_PREFIX, NUMBER_BITS};

/// Places of a bucket that are taken only if the key's other bucket has no more.
const KEPT: usize = 2;
/// Keys that a bucket has on average where all sessions have all of theirs, and blocks.
const KEYS_A_BUCKET: u32 = 5;
const BLOCKS_A_BUCKET: u32 = 4;
/// Keys of a block where all blocks are in use and all sessions have all keys: half of what it holds.
const KEYS_A_BLOCK: u32 = 1 << (BLOCK_BITS - 1);
/// The lowest bit of a block's key.
const BLOCK_AT: u32 = NUMBER_BITS + BLOCK_BITS;
const NUMBERS: u64 = (1 << NUMBER_BITS) - 1;
/// Values of a key's top three bits: its kind, and a bit that tells a gateway's own keys apart.
const KINDS: usize = 8;

/// The index of the in-kernel path's sessions.
#[derive(Debug)]
pub struct Index {
    keys: SharedWords,
    blocks: SharedWords,
    block_index: SharedWords,
    writer: Mutex<Writer>,
}

/// What only who changes the index looks at.
#[derive(Debug)]
struct Writer {
    /// Blocks that were in use and are free.
    free: Vec<u32>,
    /// Keys of each block that was ever in use.
    used: Vec<u8>,
    /// Keys in the hash table, by their top three bits.
    far: [u32; KINDS],
    /// Blocks in use, likewise.
    near: [u32; KINDS],
}

/// How a key is entered.
#[derive(Clone, Copy)]
struct Entering {
    /// Others follow it closely: it goes to a block if there is one.
    is_dense: bool,
    /// Another session's may be equal, which keeps it.
    is_mixed: bool,
}

/// Entries of the index's maps with room for so many sessions of so many keys.
pub(super) fn sizes(sessions: u32, keys: u32) -> [(&'static str, u32); 3] {
    let keys = sessions.saturating_mul(keys);
    let blocks = keys.div_ceil(KEYS_A_BLOCK).next_power_of_two().clamp(16, 1 << NUMBER_BITS);
    let buckets = keys.div_ceil(KEYS_A_BUCKET).next_power_of_two().max(4);
    [("session_index", buckets), ("blocks", blocks), ("block_index", (blocks / BLOCKS_A_BUCKET).max(4))]
}

impl Index {
    pub(super) fn of(object: &mut Object) -> Result<Self, BpfError> {
        let index = Self {
            keys: object.take_shared("session_index")?,
            blocks: object.take_shared("blocks")?,
            block_index: object.take_shared("block_index")?,
            writer: Mutex::new(Writer { free: Vec::new(), used: Vec::new(), far: [0; KINDS], near: [0; KINDS] }),
        };
        // Workers change the index: they allocate nothing.
        let blocks = index.blocks.len();
        let mut writer = index.lock();
        writer.free.reserve_exact(blocks);
        writer.used.reserve_exact(blocks);
        drop(writer);
        debug_assert_eq!(index.keys.get(0).len(), BUCKET / 8);
        debug_assert_eq!(index.blocks.get(0).len(), BLOCK / 8);
        Ok(index)
    }

    /// The logarithms of the numbers of buckets: of keys, and of blocks.
    pub(super) fn bits(&self) -> (u32, u32) {
        (self.keys.len().trailing_zeros(), self.block_index.len().trailing_zeros())
    }

    fn lock(&self) -> MutexGuard<'_, Writer> {
        self.writer.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Has a key lead to a session, as `of`; `far` has a bit for each kind of keys that are in no block. False: there is no
    /// room, or it is another session's and stays so.
    fn enter(&self, key: u64, number: u32, of: Entering, far: &impl Fn(u32)) -> bool {
        let mut writer = self.lock();
        if let Some(place) = self.find(key) {
            let is_its = place.number() == number;
            if !is_its && !of.is_mixed {
                place.set(number);
            }
            return is_its || !of.is_mixed;
        }
        if let Some(place) = of.is_dense.then(|| self.block_of(key, &mut writer)).flatten() {
            place.set(number);
            return true;
        }
        let buckets = buckets(&self.keys, key, NUMBER_BITS);
        let Some(place) = free_place(buckets) else { return false };
        writer.far[kind_of(key)] += 1;
        far(writer.kinds());
        place.store(key | u64::from(number), Ordering::Release);
        true
    }

    /// Has a key lead to a session; false: there is no room, or it is a prefix's that another session's is equal to.
    pub(super) fn link(&self, key: u64, number: u32, far: &impl Fn(u32)) -> bool {
        let is_mixed = key & KEY_KINDS == KEY_PREFIX;
        self.enter(key, number, Entering { is_dense: true, is_mixed }, far)
    }

    /// As [`link`](Self::link), of a key that is the hash of something.
    pub(super) fn link_mixed(&self, key: u64, number: u32, far: &impl Fn(u32)) -> bool {
        self.enter(key, number, Entering { is_dense: false, is_mixed: true }, far)
    }

    /// Has a key lead nowhere, if it leads to that session.
    pub(super) fn unlink(&self, key: u64, number: u32, far: &impl Fn(u32)) {
        let mut writer = self.lock();
        match self.find(key).filter(|place| place.number() == number) {
            None => {}
            Some(Place::Far(entry)) => {
                entry.store(0, Ordering::Relaxed);
                let count = &mut writer.far[kind_of(key)];
                *count = count.saturating_sub(1);
                far(writer.kinds());
            }
            Some(Place::Near { word, shift, entry, block }) => {
                word.fetch_and(!(u64::from(u32::MAX) << shift), Ordering::Relaxed);
                let Some(used) = writer.used.get_mut(block as usize) else { return };
                *used = used.saturating_sub(1);
                if *used == 0 {
                    entry.store(0, Ordering::Relaxed);
                    writer.free.push(block);
                    writer.near[kind_of(key)] -= 1;
                }
            }
        }
    }

    /// The session that a key leads to.
    pub(super) fn leads_to(&self, key: u64) -> Option<u32> {
        let _writer = self.lock();
        self.find(key).map(|place| place.number())
    }

    /// Where a key leads to a session.
    fn find(&self, key: u64) -> Option<Place<'_>> {
        let near = self.block_entry(key).map(|entry| self.near(entry, key)).filter(|place| place.is_taken());
        near.or_else(|| entry_of(&self.keys, key, NUMBER_BITS).map(Place::Far))
    }

    /// The entry of the block that a key is of.
    fn block_entry(&self, key: u64) -> Option<&AtomicU64> {
        entry_of(&self.block_index, key >> BLOCK_AT << BLOCK_AT, BLOCK_AT)
    }

    /// A key's place in its block.
    fn near<'a>(&'a self, entry: &'a AtomicU64, key: u64) -> Place<'a> {
        let block = (entry.load(Ordering::Relaxed) & NUMBERS) as u32;
        let place = (key >> NUMBER_BITS) as usize % (1 << BLOCK_BITS);
        let words = self.blocks.get(block as usize);
        Place::Near { word: &words[place / 2], shift: place as u32 % 2 * 32, entry, block }
    }

    /// A free place in the block that a key is of, which is begun if there is room; the block has one key more.
    fn block_of(&self, key: u64, writer: &mut Writer) -> Option<Place<'_>> {
        let entry = self.block_entry(key).or_else(|| {
            let key = key >> BLOCK_AT << BLOCK_AT;
            // Scattered keys of one kind leave the other kinds half of the blocks.
            let is_modest = writer.near[kind_of(key)] < self.blocks.len() as u32 / 2; // fewer than numbers there are
            let entry = free_place(buckets(&self.block_index, key, BLOCK_AT)).filter(|_| is_modest)?;
            let next = writer.used.len();
            let block = writer.free.pop().or_else(|| {
                (next < self.blocks.len()).then(|| {
                    writer.used.push(0);
                    next as u32 // fewer than numbers there are
                })
            })?;
            writer.near[kind_of(key)] += 1;
            // All of it is 0: nobody has used it yet, or its last key is gone.
            entry.store(key | u64::from(block), Ordering::Release);
            Some(entry)
        })?;
        let place = self.near(entry, key);
        if let Place::Near { block, .. } = place {
            writer.used[block as usize] += 1;
        }
        Some(place)
    }
}

impl Writer {
    /// A bit for each kind of keys in the hash table.
    fn kinds(&self) -> u32 {
        (0..).zip(self.far).map(|(kind, count)| u32::from(count > 0) << kind).sum()
    }
}

/// Where a key leads to a session.
enum Place<'a> {
    /// In a block, of which `entry` leads to it: a half of a word.
    Near { word: &'a AtomicU64, shift: u32, entry: &'a AtomicU64, block: u32 },
    /// In the hash table.
    Far(&'a AtomicU64),
}

impl Place<'_> {
    fn is_taken(&self) -> bool {
        match self {
            Self::Near { word, shift, .. } => (word.load(Ordering::Relaxed) >> shift) as u32 != 0,
            Self::Far(_) => true,
        }
    }

    /// The session's number, of a place that is taken.
    fn number(&self) -> u32 {
        match self {
            Self::Near { word, shift, .. } => ((word.load(Ordering::Relaxed) >> shift) as u32).wrapping_sub(1),
            Self::Far(entry) => (entry.load(Ordering::Relaxed) & NUMBERS) as u32,
        }
    }

    /// Writers are one at a time: what stands beside it does not change.
    fn set(&self, number: u32) {
        match self {
            Self::Near { word, shift, .. } => {
                let beside = word.load(Ordering::Relaxed) & !(u64::from(u32::MAX) << shift);
                word.store(beside | u64::from(number + 1) << shift, Ordering::Release);
            }
            Self::Far(entry) => {
                let key = entry.load(Ordering::Relaxed) & !NUMBERS;
                entry.store(key | u64::from(number), Ordering::Release);
            }
        }
    }
}

fn kind_of(key: u64) -> usize {
    (key >> 61) as usize
}

/// The two buckets of a table that a key may be in, of which the lowest `below` bits do not count.
pub(super) fn buckets(table: &SharedWords, key: u64, below: u32) -> [&[AtomicU64]; 2] {
    let shift = 63 - table.len().trailing_zeros();
    let value = key >> below;
    [0x9e37_79b9_7f4a_7c15, 0xd6e8_feb8_6659_fd93]
        .map(|factor| table.get((value.wrapping_mul(factor) >> 1 >> shift) as usize))
}

fn entry_of(table: &SharedWords, key: u64, below: u32) -> Option<&AtomicU64> {
    let is_keys = |entry: &&AtomicU64| (entry.load(Ordering::Relaxed) ^ key) >> below == 0;
    buckets(table, key, below).into_iter().flatten().find(is_keys)
}

/// Where a new entry goes: packets look into the first bucket first, and it keeps some room for keys whose second one is full.
fn free_place(buckets: [&[AtomicU64]; 2]) -> Option<&AtomicU64> {
    let is_free = |entry: &&AtomicU64| entry.load(Ordering::Relaxed) == 0;
    let room = buckets.map(|bucket| bucket.iter().filter(is_free).count());
    buckets[usize::from(room[0] <= KEPT && room[1] > room[0])].iter().find(is_free)
}
