//! Packets of which fragments are held.

mod hand_over;

use engine::Drop;
use table::bulk::{BulkMap, Seed};
use wire::{L3L4, fast, ip6};

use super::blocks::{Blocks, NONE};
use super::piece::{Key, Piece, finish4, finish6};

use crate::drops;
pub use hand_over::Unfit;

/// Bounds of what is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Bytes in all, taken at the start.
    pub bytes: usize,
    /// Packets in all.
    pub packets: usize,
    /// Packets an owner may have incomplete at a time.
    pub packets_per_owner: u32,
    /// Fragments a packet may have.
    pub fragments_per_packet: u16,
    /// Nanoseconds from a packet's first fragment to arrive until it is given up (RFC 791, 3.2: 15 s; RFC 8200, 4.5:
    /// 60 s; 2 to 30 s in practice).
    pub timeout_ns: u64,
    /// The longest packet put together, in bytes: what a frame has room for, at most 65,535.
    pub largest: usize,
}

impl Default for Config {
    fn default() -> Self {
        let timeout_ns = 10_000_000_000;
        let (packets_per_owner, fragments_per_packet) = (16, 64);
        Self { bytes: 8 << 20, packets: 8192, packets_per_owner, fragments_per_packet, timeout_ns, largest: 2048 }
    }
}

/// Whose a fragment is, as its holder sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Whose {
    /// The network it is in: addresses of different ones may overlap.
    pub domain: u16,
    /// The subscriber, or whoever is to be kept from taking all the room.
    pub owner: u64,
    /// What is to be remembered of it until the whole goes on.
    pub tag: u64,
}

/// How long a packet that is complete or condemned is remembered, in nanoseconds.
const LATE_NS: u64 = 500_000_000;

/// A fragment that was not taken, and fragments of its packet that were held and are no more, by the same reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Refused {
    pub why: Drop,
    pub packets: usize,
    pub bytes: usize,
}

impl From<Drop> for Refused {
    fn from(why: Drop) -> Self {
        Self { why, packets: 0, bytes: 0 }
    }
}

/// Fragments given up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Lost {
    pub packets: usize,
    pub bytes: usize,
}

/// A packet put together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Whole {
    pub len: usize,
    /// That of its first fragment to arrive.
    pub tag: u64,
}

#[derive(Clone, Copy)]
struct Fragment {
    offset: u32,
    /// Bytes of data, and of header before them.
    len: u16,
    head: u16,
    block: u32,
    /// The next by offset; among the free ones, the next free one.
    next: u32,
}

/// Where a packet stands: each in a list of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stand {
    /// Fragments are missing.
    Open,
    /// Complete, not yet taken.
    Whole,
    /// Taken: only remembered.
    Done,
    /// Contradicted itself: only remembered.
    Condemned,
}

impl Stand {
    const LISTS: usize = 3;

    fn list(self) -> usize {
        match self {
            Stand::Open => 0,
            Stand::Whole => 1,
            Stand::Done | Stand::Condemned => 2,
        }
    }
}

#[derive(Clone, Copy)]
struct Datagram {
    key: Key,
    owner: u64,
    tag: u64,
    /// When it is given up, or forgotten.
    until: u64,
    stand: Stand,
    /// Its fragments by offset, how many, and bytes of data.
    first: u32,
    count: u16,
    got: u32,
    /// Bytes of data of the whole, once the last fragment is there.
    total: Option<u32>,
    header: u16,
    /// A bit for each ECN code point seen.
    ecn: u8,
    /// The next in its bucket.
    chain: u32,
    older: u32,
    newer: u32,
}

/// The packets of one worker.
pub(super) struct Datagrams {
    config: Config,
    blocks: Blocks,
    fragments: Box<[Fragment]>,
    free_fragment: u32,
    held: usize,
    datagrams: Box<[Datagram]>,
    free: u32,
    /// Oldest and newest by [`Stand::list`]: each list is in the order of `until`.
    lists: [(u32, u32); Stand::LISTS],
    buckets: Box<[u32]>,
    seed: u64,
    /// Packets open or whole, by owner.
    owners: BulkMap<u64, u32>,
}

const KEY: Key = Key { src: 0, dst: 0, ident: 0, owner: 0, domain: 0, protocol: 0, version: 0 };

impl Datagrams {
    pub(super) fn new(config: Config, seed: u64) -> Self {
        let blocks = Blocks::new(config.bytes);
        let chain = |count: usize| (1..=count as u32).map(move |next| if next as usize == count { NONE } else { next });
        let fragment = Fragment { offset: 0, len: 0, head: 0, block: NONE, next: NONE };
        let packets = config.packets.clamp(1, 1 << 24);
        let datagram = Datagram {
            key: KEY,
            owner: 0,
            tag: 0,
            until: 0,
            stand: Stand::Done,
            first: NONE,
            count: 0,
            got: 0,
            total: None,
            header: 0,
            ecn: 0,
            chain: NONE,
            older: NONE,
            newer: NONE,
        };
        Self {
            // A fragment takes at least a block.
            fragments: chain(blocks.left()).map(|next| Fragment { next, ..fragment }).collect(),
            free_fragment: 0,
            held: 0,
            datagrams: chain(packets).map(|newer| Datagram { newer, ..datagram }).collect(),
            free: 0,
            lists: [(NONE, NONE); Stand::LISTS],
            buckets: vec![NONE; packets.next_power_of_two()].into(),
            seed,
            owners: BulkMap::with_capacity(packets, Seed::new(seed.into())).expect("memory for owners at the start"),
            blocks,
            config,
        }
    }

    /// Fragments held.
    pub(super) fn fragments(&self) -> usize {
        self.held
    }

    /// The network of the packet that was complete first.
    pub(super) fn next_domain(&self) -> Option<u16> {
        let first = self.datagrams.get(self.lists[Stand::Whole.list()].0 as usize)?;
        Some(first.key.domain)
    }

    /// Whether a packet is complete.
    pub(super) fn has_whole(&self) -> bool {
        self.lists[Stand::Whole.list()].0 != NONE
    }

    /// Takes a copy of a fragment. `now` never goes back.
    pub(super) fn push(&mut self, packet: &[u8], ip: &L3L4, whose: Whose, now: u64) -> Result<(), Refused> {
        let piece = Piece::read(packet, ip, whose)?;
        let id = match self.find(&piece.key) {
            Some(id) => id,
            None => self.open(piece.key, whose, now)?,
        };
        let datagram = &self.datagrams[id as usize];
        match datagram.stand {
            Stand::Open => {}
            Stand::Whole | Stand::Done => return Err(drops::REASSEMBLY_DUPLICATE.into()),
            Stand::Condemned => return Err(drops::REASSEMBLY_OVERLAP.into()),
        }
        match self.place(id, &piece) {
            Ok(before) => self.enter(id, &piece, before, now),
            Err(drops::REASSEMBLY_DUPLICATE) => Err(drops::REASSEMBLY_DUPLICATE.into()),
            Err(why) => Err(self.condemn(id, why, now)),
        }
    }

    /// Where a fragment belongs among those of its packet: behind which; [`NONE`]: first.
    fn place(&self, id: u32, piece: &Piece<'_>) -> Result<u32, Drop> {
        let datagram = &self.datagrams[id as usize];
        let (from, to) = (piece.offset as u32, (piece.offset + piece.len()) as u32); // at most 131,070
        let header = piece.header_len().max(datagram.header.into());
        if header + to as usize > self.config.largest.min(u16::MAX.into()) {
            return Err(drops::REASSEMBLY_TOO_BIG);
        }
        let (mut before, mut at) = (NONE, datagram.first);
        while let Some(fragment) = self.fragments.get(at as usize).filter(|fragment| fragment.offset < from) {
            (before, at) = (at, fragment.next);
        }
        let after = self.fragments.get(at as usize);
        if after.is_some_and(|after| self.is_copy(datagram, after, piece)) {
            return Err(drops::REASSEMBLY_DUPLICATE);
        }
        let end = |fragment: &Fragment| fragment.offset + u32::from(fragment.len);
        let overlaps = self.fragments.get(before as usize).is_some_and(|before| end(before) > from)
            || after.is_some_and(|after| after.offset < to);
        // Nothing lies behind the last one, and there is one last.
        let contradicts = match datagram.total {
            Some(total) => !piece.more || to >= total,
            None => !piece.more && after.is_some(),
        };
        if overlaps || contradicts {
            return Err(drops::REASSEMBLY_OVERLAP);
        }
        if datagram.count >= self.config.fragments_per_packet {
            return Err(drops::REASSEMBLY_FULL);
        }
        Ok(before)
    }

    /// Whether a fragment says just what one that is held says.
    fn is_copy(&self, datagram: &Datagram, held: &Fragment, piece: &Piece<'_>) -> bool {
        let is_last = datagram.total == Some(held.offset + u32::from(held.len));
        let (head, len) = (usize::from(held.head), usize::from(held.len));
        if held.offset as usize != piece.offset || len != piece.len() || is_last == piece.more {
            return false;
        }
        let mut data = piece.data();
        self.blocks.pieces(held.block, head + len, head).all(|bytes| {
            let (front, rest) = data.split_at(bytes.len().min(data.len()));
            data = rest;
            front == bytes
        })
    }

    /// Enters a fragment that fits; its packet may be complete then.
    fn enter(&mut self, id: u32, piece: &Piece<'_>, before: u32, now: u64) -> Result<(), Refused> {
        let Some(block) = self.blocks.store(piece.bytes) else {
            if self.datagrams[id as usize].count == 0 {
                self.leave(id);
                self.forget(id);
            }
            return Err(drops::REASSEMBLY_FULL.into());
        };
        // There are as many fragments as blocks.
        let at = self.free_fragment;
        let datagram = &mut self.datagrams[id as usize];
        let next = if before == NONE { datagram.first } else { self.fragments[before as usize].next };
        let fragment = &mut self.fragments[at as usize];
        self.free_fragment = fragment.next;
        let (len, head) = (piece.len() as u16, piece.head as u16); // parts of a packet
        *fragment = Fragment { offset: piece.offset as u32, len, head, block, next };
        match before {
            NONE => datagram.first = at,
            before => self.fragments[before as usize].next = at,
        }
        self.held += 1;
        datagram.count += 1;
        datagram.got += u32::from(len);
        datagram.ecn |= 1 << piece.ecn;
        if head > 0 {
            datagram.header = piece.header_len() as u16;
        }
        if !piece.more {
            datagram.total = Some(piece.offset as u32 + u32::from(len));
        }
        if datagram.total == Some(datagram.got) {
            // Nothing overlaps and nothing lies behind the end, so no hole is left.
            if datagram.ecn & 0b1001 == 0b1001 {
                let mut refused = self.condemn(id, drops::REASSEMBLY_OVERLAP, now);
                // The fragment itself was among them.
                (refused.packets, refused.bytes) = (refused.packets - 1, refused.bytes - piece.bytes.len());
                return Err(refused);
            }
            let until = self.datagrams[id as usize].until;
            self.stand(id, Stand::Whole, until);
        }
        Ok(())
    }

    /// Puts the packet that has been complete for longest together at the front of `out`, which has room for any.
    pub(super) fn pop(&mut self, now: u64, out: &mut [u8]) -> Option<Whole> {
        let id = self.lists[Stand::Whole.list()].0;
        let datagram = *self.datagrams.get(id as usize)?;
        let len = self.assemble(&datagram, out);
        self.close(id, Stand::Done, now);
        Some(Whole { len: len.unwrap_or(0), tag: datagram.tag })
    }

    fn assemble(&self, datagram: &Datagram, out: &mut [u8]) -> Option<usize> {
        let (mut len, mut at, mut next) = (0, datagram.first, 0);
        while let Some(fragment) = self.fragments.get(at as usize) {
            let bytes = usize::from(fragment.head) + usize::from(fragment.len);
            for piece in self.blocks.pieces(fragment.block, bytes, 0) {
                out.get_mut(len..len + piece.len())?.copy_from_slice(piece);
                len += piece.len();
            }
            if fragment.head > 0 && datagram.key.version == 6 {
                // The fragment header goes; what it leads to is remembered.
                let head = usize::from(fragment.head);
                next = fast::be8(out, head - ip6::FRAGMENT_LEN)?;
                out.copy_within(head..len, head - ip6::FRAGMENT_LEN);
                len -= ip6::FRAGMENT_LEN;
            }
            at = fragment.next;
        }
        let (whole, ce) = (out.get_mut(..len)?, datagram.ecn & 0b1000 != 0);
        match datagram.key.version {
            4 => finish4(whole, ce)?,
            _ => finish6(whole, datagram.header.into(), next, ce)?,
        }
        Some(len)
    }

    /// Gives up what is late, forgets what was remembered long enough.
    pub(super) fn expire(&mut self, now: u64) -> Lost {
        let mut lost = Lost::default();
        while let Some(id) = self.due(Stand::Open, now) {
            let given_up = self.release(id);
            lost = Lost { packets: lost.packets + given_up.packets, bytes: lost.bytes + given_up.bytes };
            self.leave(id);
            self.forget(id);
        }
        while let Some(id) = self.due(Stand::Done, now) {
            self.leave(id);
            self.forget(id);
        }
        lost
    }

    /// When [`Datagrams::expire`] has something to do next.
    pub(super) fn next_deadline(&self) -> Option<u64> {
        let until = |stand: Stand| Some(self.datagrams.get(self.lists[stand.list()].0 as usize)?.until);
        until(Stand::Open).into_iter().chain(until(Stand::Done)).min()
    }

    /// Gives up everything.
    pub(super) fn clear(&mut self) -> Lost {
        while let Some(id) = Some(self.lists[Stand::Whole.list()].0).filter(|id| *id != NONE) {
            self.stand(id, Stand::Open, 0);
        }
        self.expire(u64::MAX)
    }

    /// The oldest of a list, if its time has come.
    fn due(&self, stand: Stand, now: u64) -> Option<u32> {
        let id = self.lists[stand.list()].0;
        self.datagrams.get(id as usize).is_some_and(|datagram| datagram.until <= now).then_some(id)
    }

    fn bucket(&self, key: &Key) -> usize {
        let fold = |bits: u128| (bits >> 64) as u64 ^ bits as u64;
        let rest = u64::from(key.ident) << 32 | u64::from(key.domain) << 16 | u64::from(key.protocol) << 8;
        let first = u128::from(fold(key.src) ^ self.seed) * u128::from(rest ^ 0x9e37_79b9_7f4a_7c15);
        let second = u128::from(fold(first) ^ self.seed) * u128::from(fold(key.dst) ^ 0xd6e8_feb8_6659_fd93);
        fold(second) as usize & (self.buckets.len() - 1)
    }

    fn find(&self, key: &Key) -> Option<u32> {
        let mut id = self.buckets[self.bucket(key)];
        while let Some(datagram) = self.datagrams.get(id as usize) {
            if datagram.key == *key {
                return Some(id);
            }
            id = datagram.chain;
        }
        None
    }

    /// A place for a new packet: a free one, or that of the one remembered for longest.
    fn open(&mut self, key: Key, whose: Whose, now: u64) -> Result<u32, Drop> {
        let owned = self.owners.get(whose.owner).unwrap_or(0);
        if owned >= self.config.packets_per_owner {
            return Err(drops::REASSEMBLY_FULL);
        }
        if self.free == NONE {
            let remembered = self.lists[Stand::Done.list()].0;
            if remembered == NONE {
                return Err(drops::REASSEMBLY_FULL);
            }
            self.leave(remembered);
            self.forget(remembered);
        }
        self.owners.insert(whose.owner, owned + 1).map_err(|_| drops::REASSEMBLY_FULL)?;
        let bucket = self.bucket(&key);
        let id = self.free;
        let datagram = &mut self.datagrams[id as usize];
        self.free = datagram.newer;
        *datagram = Datagram {
            key,
            owner: whose.owner,
            tag: whose.tag,
            first: NONE,
            count: 0,
            got: 0,
            total: None,
            header: 0,
            ecn: 0,
            chain: self.buckets[bucket],
            ..*datagram
        };
        self.buckets[bucket] = id;
        self.join(id, Stand::Open, now.saturating_add(self.config.timeout_ns));
        Ok(id)
    }

    /// Frees the fragments of a packet; says how many they were.
    fn release(&mut self, id: u32) -> Lost {
        let mut lost = Lost::default();
        let mut at = std::mem::replace(&mut self.datagrams[id as usize].first, NONE);
        while let Some(fragment) = self.fragments.get_mut(at as usize) {
            let bytes = usize::from(fragment.len) + usize::from(fragment.head);
            self.blocks.free(fragment.block, bytes);
            let next = std::mem::replace(&mut fragment.next, self.free_fragment);
            self.free_fragment = at;
            at = next;
            lost = Lost { packets: lost.packets + 1, bytes: lost.bytes + bytes };
        }
        self.held -= lost.packets;
        lost
    }

    fn condemn(&mut self, id: u32, why: Drop, now: u64) -> Refused {
        let lost = self.close(id, Stand::Condemned, now);
        Refused { why, packets: lost.packets, bytes: lost.bytes }
    }

    /// Frees a packet's fragments; it is only remembered from now on.
    fn close(&mut self, id: u32, stand: Stand, now: u64) -> Lost {
        let lost = self.release(id);
        self.stand(id, stand, now.saturating_add(LATE_NS));
        lost
    }

    fn stand(&mut self, id: u32, stand: Stand, until: u64) {
        self.leave(id);
        self.join(id, stand, until);
        if stand.list() == Stand::Done.list() {
            self.disown(id);
        }
    }

    /// Its owner may begin another.
    fn disown(&mut self, id: u32) {
        let owner = self.datagrams[id as usize].owner;
        match self.owners.get_mut(owner) {
            Some(count) if *count > 1 => *count -= 1,
            _ => {
                self.owners.remove(owner);
            }
        }
    }

    /// Gives a packet's place back; it is on no list any more.
    fn forget(&mut self, id: u32) {
        let Datagram { key, chain, stand, .. } = self.datagrams[id as usize];
        if stand.list() != Stand::Done.list() {
            self.disown(id);
        }
        let bucket = self.bucket(&key);
        if self.buckets[bucket] == id {
            self.buckets[bucket] = chain;
        } else {
            let mut at = self.buckets[bucket];
            while let Some(other) = self.datagrams.get_mut(at as usize) {
                if other.chain == id {
                    other.chain = chain;
                    break;
                }
                at = other.chain;
            }
        }
        self.datagrams[id as usize].newer = self.free;
        self.free = id;
    }

    /// Puts a packet at the end of a list.
    fn join(&mut self, id: u32, stand: Stand, until: u64) {
        let (oldest, newest) = &mut self.lists[stand.list()];
        let older = std::mem::replace(newest, id);
        match self.datagrams.get_mut(older as usize) {
            Some(datagram) => datagram.newer = id,
            None => *oldest = id,
        }
        let datagram = &mut self.datagrams[id as usize];
        (datagram.stand, datagram.until, datagram.older, datagram.newer) = (stand, until, older, NONE);
    }

    /// Takes a packet off its list.
    fn leave(&mut self, id: u32) {
        let Datagram { stand, older, newer, .. } = self.datagrams[id as usize];
        let (oldest, newest) = &mut self.lists[stand.list()];
        match self.datagrams.get_mut(older as usize) {
            Some(datagram) => datagram.newer = newer,
            None => *oldest = newer,
        }
        match self.datagrams.get_mut(newer as usize) {
            Some(datagram) => datagram.older = older,
            None => *newest = older,
        }
    }

    /// Whether everything is free again.
    #[cfg(test)]
    pub(super) fn is_pristine(&self) -> bool {
        let none = self.lists.iter().all(|list| *list == (NONE, NONE)) && self.owners.is_empty() && self.held == 0;
        none && self.blocks.left() == self.fragments.len() && self.buckets.iter().all(|id| *id == NONE)
    }
}
