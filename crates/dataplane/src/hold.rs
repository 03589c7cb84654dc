//! Packets that wait: a compact store of bytes, first in, first out per key.
//!
//! A subscriber that must be paged first, or a next hop whose address is not known yet, keeps packets waiting for
//! seconds; they must not occupy frames meanwhile. They are copied here, into chained blocks of 256 bytes, and copied
//! back when they go. All memory is taken at the start; nothing is allocated or freed afterwards.
//!
//! ```text
//! key ─hash─► bucket ─► queue: first ─► packet ─► packet ─► …    (oldest first, per key)
//!                                        │ blocks: [256] ─► [256] ─► …
//! oldest ◄─► … ◄─► newest: all packets in the order they came, so that expiry looks only at what it removes
//! ```

/// Bytes of a block.
const BLOCK: usize = 256;
/// No block, packet or queue.
const NONE: u32 = u32::MAX;

/// Why a packet could not be held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Full {
    /// The key has as many packets as one may have.
    #[error("the key holds as many packets as one may")]
    Key,
    /// All packets together are as many as there may be.
    #[error("no more packets can be held")]
    Packets,
    /// The bytes left are too few.
    #[error("no room for the packet's bytes")]
    Bytes,
}

/// What is known of a held packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// Whatever the holder wanted to remember with it.
    pub tag: u64,
    /// Its length, in bytes.
    pub len: usize,
    /// When it came, in nanoseconds of the caller's clock.
    pub at: u64,
}

/// What was discarded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Discarded {
    /// How many packets.
    pub packets: usize,
    /// How many bytes they had.
    pub bytes: usize,
}

#[derive(Clone, Copy)]
struct Packet {
    tag: u64,
    at: u64,
    /// The first of its blocks.
    block: u32,
    len: u32,
    queue: u32,
    /// The next packet of its key; in the free list, the next free one.
    next: u32,
    older: u32,
    newer: u32,
}

#[derive(Clone, Copy)]
struct Queue {
    key: u32,
    first: u32,
    last: u32,
    count: u32,
    /// The next queue in its bucket; in the free list, the next free one.
    next: u32,
}

/// The store. Owned by one worker.
pub struct Hold {
    data: Box<[[u8; BLOCK]]>,
    /// The block that follows, in a packet or in the free list.
    next_block: Box<[u32]>,
    free_block: u32,
    free_blocks: usize,
    packets: Box<[Packet]>,
    free_packet: u32,
    queues: Box<[Queue]>,
    free_queue: u32,
    /// A power of two of them.
    buckets: Box<[u32]>,
    oldest: u32,
    newest: u32,
    per_key: u32,
    count: usize,
    bytes: usize,
}

/// Numbers to follow 0, 1, 2 … in a free list of `len` places.
fn chain(len: usize) -> impl Iterator<Item = u32> {
    (1..=len).map(move |next| if next == len { NONE } else { next as u32 })
}

impl Hold {
    /// A store of `bytes` (rounded up to whole blocks; each packet takes whole blocks) for at most `max_packets`, of
    /// which a key may have at most `per_key_limit`.
    ///
    /// # Panics
    /// If there would be 2³² blocks or packets.
    pub fn new(bytes: usize, max_packets: usize, per_key_limit: usize) -> Hold {
        let blocks = bytes.div_ceil(BLOCK);
        assert!(blocks < NONE as usize && max_packets < NONE as usize, "a hold of {blocks} blocks is too large");
        let packet = Packet { tag: 0, at: 0, block: NONE, len: 0, queue: NONE, next: NONE, older: NONE, newer: NONE };
        let queue = Queue { key: 0, first: NONE, last: NONE, count: 0, next: NONE };
        let first = |len: usize| if len == 0 { NONE } else { 0 };
        Hold {
            data: vec![[0; BLOCK]; blocks].into(),
            next_block: chain(blocks).collect(),
            free_block: first(blocks),
            free_blocks: blocks,
            packets: chain(max_packets).map(|next| Packet { next, ..packet }).collect(),
            free_packet: first(max_packets),
            queues: chain(max_packets).map(|next| Queue { next, ..queue }).collect(),
            free_queue: first(max_packets),
            buckets: vec![NONE; max_packets.next_power_of_two()].into(),
            oldest: NONE,
            newest: NONE,
            per_key: u32::try_from(per_key_limit).unwrap_or(u32::MAX),
            count: 0,
            bytes: 0,
        }
    }

    /// How many packets are held.
    pub fn packets(&self) -> usize {
        self.count
    }

    /// How many bytes they have.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Another limit for each key from now on; what is held stays.
    pub fn set_per_key_limit(&mut self, packets: usize) {
        self.per_key = u32::try_from(packets).unwrap_or(u32::MAX);
    }

    /// How many packets a key has.
    pub fn packets_of(&self, key: u32) -> usize {
        self.find(key).map_or(0, |queue| self.queues[queue as usize].count as usize)
    }

    /// Copies a packet in, behind the others of its key. `now` never goes back.
    pub fn push(&mut self, key: u32, tag: u64, bytes: &[u8], now: u64) -> Result<(), Full> {
        let found = self.find(key);
        if found.map_or(0, |queue| self.queues[queue as usize].count) >= self.per_key {
            return Err(Full::Key);
        }
        if self.free_packet == NONE {
            return Err(Full::Packets);
        }
        let Some(len) = u32::try_from(bytes.len()).ok().filter(|_| bytes.len().div_ceil(BLOCK) <= self.free_blocks)
        else {
            return Err(Full::Bytes);
        };
        // There are as many queues as packets, and none is empty: with a packet free, so is a queue.
        let queue = found.unwrap_or_else(|| self.open(key));
        let block = self.store(bytes);
        let id = self.free_packet;
        let packet = &mut self.packets[id as usize];
        self.free_packet = packet.next;
        *packet = Packet { tag, at: now, block, len, queue, next: NONE, older: self.newest, newer: NONE };
        match self.newest {
            NONE => self.oldest = id,
            newest => self.packets[newest as usize].newer = id,
        }
        self.newest = id;
        let queue = &mut self.queues[queue as usize];
        match queue.last {
            NONE => queue.first = id,
            last => self.packets[last as usize].next = id,
        }
        queue.last = id;
        queue.count += 1;
        self.count += 1;
        self.bytes += bytes.len();
        Ok(())
    }

    /// The oldest packet of a key, left in place.
    pub fn front(&self, key: u32) -> Option<Held> {
        self.find(key).map(|queue| self.held(self.queues[queue as usize].first))
    }

    /// The first bytes of a key's oldest packet, 256 at most; none: the key has no packet.
    pub fn front_bytes(&self, key: u32) -> &[u8] {
        let first = self.find(key).map(|queue| self.packets[self.queues[queue as usize].first as usize]);
        let block = first.and_then(|packet| Some((self.data.get(packet.block as usize)?, packet.len as usize)));
        block.map_or(&[], |(block, len)| &block[..len.min(BLOCK)])
    }

    /// All keys that have packets, by when the oldest packet of each came.
    pub fn keys(&self) -> impl Iterator<Item = u32> {
        let newer = |id: u32| (id != NONE).then_some(id);
        let ids = std::iter::successors(newer(self.oldest), move |id| newer(self.packets[*id as usize].newer));
        let queues = ids.map(|id| (id, &self.queues[self.packets[id as usize].queue as usize]));
        queues.filter(|(id, queue)| queue.first == *id).map(|(_, queue)| queue.key)
    }

    /// Takes the oldest packet of a key and copies it to the front of `out`. `None` if the key has none, or if `out`
    /// is too short: then the packet stays, and [`Hold::front`] tells its length.
    pub fn pop(&mut self, key: u32, out: &mut [u8]) -> Option<Held> {
        let queue = self.find(key)?;
        let id = self.queues[queue as usize].first;
        let held = self.held(id);
        let mut block = self.packets[id as usize].block;
        for part in out.get_mut(..held.len)?.chunks_mut(BLOCK) {
            part.copy_from_slice(&self.data[block as usize][..part.len()]);
            block = self.next_block[block as usize];
        }
        self.release(queue);
        Some(held)
    }

    /// Discards all packets of a key.
    pub fn drop_key(&mut self, key: u32) -> Discarded {
        let mut gone = Discarded::default();
        if let Some(queue) = self.find(key) {
            // The queue closes with its last packet.
            for _ in 0..self.queues[queue as usize].count {
                gone.packets += 1;
                gone.bytes += self.release(queue);
            }
        }
        gone
    }

    /// Discards packets that came `max_age` nanoseconds ago or earlier, oldest first, and tells each one's key.
    pub fn expire(&mut self, now: u64, max_age: u64, mut each: impl FnMut(u32, &Held)) -> Discarded {
        let mut gone = Discarded::default();
        while self.oldest != NONE {
            let held = self.held(self.oldest);
            if now.saturating_sub(held.at) < max_age {
                break;
            }
            // The oldest of all is the oldest of its key.
            let queue = self.packets[self.oldest as usize].queue;
            each(self.queues[queue as usize].key, &held);
            gone.packets += 1;
            gone.bytes += self.release(queue);
        }
        gone
    }

    /// The key whose oldest packet came `max_age` nanoseconds ago or earlier, longest ago of all.
    pub fn due(&self, now: u64, max_age: u64) -> Option<u32> {
        let packet = self.packets.get(self.oldest as usize)?;
        let late = now.saturating_sub(packet.at) >= max_age;
        late.then(|| self.queues[packet.queue as usize].key)
    }

    /// When the oldest packet came, in nanoseconds.
    pub fn oldest(&self) -> Option<u64> {
        (self.oldest != NONE).then(|| self.packets[self.oldest as usize].at)
    }

    /// Shows all packets with their keys, oldest first. `space` has room for the longest.
    pub fn each(&self, space: &mut [u8], mut show: impl FnMut(u32, &Held, &[u8])) {
        let mut id = self.oldest;
        while id != NONE {
            let (packet, held) = (&self.packets[id as usize], self.held(id));
            let mut block = packet.block;
            for part in space.get_mut(..held.len).unwrap_or_default().chunks_mut(BLOCK) {
                part.copy_from_slice(&self.data[block as usize][..part.len()]);
                block = self.next_block[block as usize];
            }
            let key = self.queues[packet.queue as usize].key;
            show(key, &held, space.get(..held.len).unwrap_or_default());
            id = packet.newer;
        }
    }

    fn held(&self, id: u32) -> Held {
        let packet = &self.packets[id as usize];
        Held { tag: packet.tag, len: packet.len as usize, at: packet.at }
    }

    fn bucket(&self, key: u32) -> usize {
        // The upper bits of a product depend on all bits of the key.
        let hash = u64::from(key).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        hash as usize & (self.buckets.len() - 1)
    }

    fn find(&self, key: u32) -> Option<u32> {
        let mut at = self.buckets[self.bucket(key)];
        while at != NONE {
            let queue = &self.queues[at as usize];
            if queue.key == key {
                return Some(at);
            }
            at = queue.next;
        }
        None
    }

    /// Takes a free queue for a key that has none.
    fn open(&mut self, key: u32) -> u32 {
        let bucket = self.bucket(key);
        let id = self.free_queue;
        let queue = &mut self.queues[id as usize];
        self.free_queue = queue.next;
        *queue = Queue { key, first: NONE, last: NONE, count: 0, next: self.buckets[bucket] };
        self.buckets[bucket] = id;
        id
    }

    /// Gives an empty queue back.
    fn close(&mut self, id: u32) {
        let Queue { key, next, .. } = self.queues[id as usize];
        let bucket = self.bucket(key);
        if self.buckets[bucket] == id {
            self.buckets[bucket] = next;
        } else {
            let mut at = self.buckets[bucket];
            while self.queues[at as usize].next != id {
                at = self.queues[at as usize].next;
            }
            self.queues[at as usize].next = next;
        }
        self.queues[id as usize].next = self.free_queue;
        self.free_queue = id;
    }

    /// Copies bytes into free blocks, of which there are enough; returns the first.
    fn store(&mut self, bytes: &[u8]) -> u32 {
        let first = self.free_block;
        let mut last = NONE;
        for part in bytes.chunks(BLOCK) {
            last = self.free_block;
            self.data[last as usize][..part.len()].copy_from_slice(part);
            self.free_block = self.next_block[last as usize];
            self.free_blocks -= 1;
        }
        if last == NONE {
            return NONE;
        }
        self.next_block[last as usize] = NONE;
        first
    }

    /// Removes a queue's first packet, and the queue if it was the only one; returns the packet's bytes.
    fn release(&mut self, queue: u32) -> usize {
        let id = self.queues[queue as usize].first;
        let packet = self.packets[id as usize];
        match packet.older {
            NONE => self.oldest = packet.newer,
            older => self.packets[older as usize].newer = packet.newer,
        }
        match packet.newer {
            NONE => self.newest = packet.older,
            newer => self.packets[newer as usize].older = packet.older,
        }
        let mut block = packet.block;
        while block != NONE {
            let next = self.next_block[block as usize];
            self.next_block[block as usize] = self.free_block;
            self.free_block = block;
            self.free_blocks += 1;
            block = next;
        }
        self.packets[id as usize].next = self.free_packet;
        self.free_packet = id;
        self.count -= 1;
        self.bytes -= packet.len as usize;
        let q = &mut self.queues[queue as usize];
        q.first = packet.next;
        q.count -= 1;
        if q.count == 0 {
            self.close(queue);
        }
        packet.len as usize
    }
}

#[cfg(test)]
#[path = "hold_tests.rs"]
mod tests;
