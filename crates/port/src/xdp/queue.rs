//! One queue's four rings and the slots in them. No system call is made here: everything can be tried over plain
//! memory, with a test in the kernel's place.

use frame::{Batch, Frame, Pool, PortCounters};

use super::ledger::Ledger;
use super::ring::{Consumer, Desc, Producer};
use super::umem::Umem;

/// Fewer missing slots than this (or than a quarter of a small stock) are not worth touching the fill ring.
const REFILL_AT_LEAST: usize = 32;

/// Our ends of the four rings.
pub struct Rings {
    /// Slots to receive into, to the kernel.
    pub fill: Producer<u64>,
    /// Received packets.
    pub rx: Consumer<Desc>,
    /// Packets to send.
    pub tx: Producer<Desc>,
    /// Slots of sent packets, back from the kernel.
    pub completion: Consumer<u64>,
}

/// The rings, and a ledger of what the kernel has in each direction.
pub struct Queue {
    rings: Rings,
    umem: Umem,
    /// In the fill ring, somewhere in the kernel, or in the receive ring.
    receiving: Ledger,
    /// In the transmit ring, being sent, or in the completion ring.
    sending: Ledger,
    /// Slots the device cannot use, kept out of the way. Empty in copy mode.
    aside: Vec<Frame>,
    /// Slots kept in `receiving`, and usually.
    stock: usize,
    usual: usize,
    /// Longest packet the link carries, Ethernet header and tags included.
    longest: usize,
}

impl Queue {
    /// A queue that keeps `stock` slots ready to receive and sends packets of up to `longest` bytes.
    pub fn new(rings: Rings, umem: Umem, slots: u32, stock: usize, longest: usize) -> Self {
        let (receiving, sending) = (Ledger::new(slots), Ledger::new(slots));
        let longest = longest.min(umem.slot_bytes());
        // No allocation afterwards, however many slots go aside.
        let aside = Vec::with_capacity(if umem.uses_all() { 0 } else { umem.slots() });
        Self { rings, umem, receiving, sending, aside, stock, usual: stock, longest }
    }

    /// How the arena looks to the device, once that is known.
    pub fn set_umem(&mut self, umem: Umem, pool: &mut Pool) {
        if umem.uses_all() {
            std::mem::take(&mut self.aside).into_iter().for_each(|slot| pool.give(slot));
        }
        self.umem = umem;
    }

    /// Where it stands, for another process: slots kept ready, and those the kernel has to receive into and to send
    /// from, a bit each. What is in the rings stands there.
    pub fn position(&self, out: &mut Vec<u64>) {
        out.push(self.usual as u64);
        out.extend(self.receiving.words());
        out.extend(self.sending.words());
    }

    /// Goes on where another process's queue [stood](Self::position). False: that makes no sense.
    pub fn go_on_at(&mut self, position: &[u64], slots: u32) -> bool {
        let Some((stock, words)) = position.split_first() else { return false };
        let (receiving, sending) = words.split_at(words.len() / 2);
        let Rings { fill, rx, tx, completion } = &mut self.rings;
        fill.resume();
        rx.resume();
        tx.resume();
        completion.resume();
        (self.stock, self.usual) = (*stock as usize, *stock as usize); // some thousands
        self.receiving.enter_all(receiving, slots) && self.sending.enter_all(sending, slots)
    }

    /// Sets the bits of slots that the kernel has. False: one is set already.
    pub fn mark_held(&self, slots: &mut [u64]) -> bool {
        [&self.receiving, &self.sending].into_iter().all(|ledger| {
            slots.len() == ledger.words().len()
                && slots.iter_mut().zip(ledger.words()).all(|(set, held)| {
                    let is_new = *set & held == 0;
                    *set |= held;
                    is_new
                })
        })
    }

    /// Whether no other process has used the rings since this one did.
    pub fn is_as_left(&self) -> bool {
        let Rings { fill, rx, tx, completion } = &self.rings;
        fill.is_as_left() && rx.is_as_left() && tx.is_as_left() && completion.is_as_left()
    }

    /// Packets that nobody has fetched, this process or another that went on with the rings and has ended.
    pub fn unfetched(&mut self) -> usize {
        self.rings.rx.resume();
        self.waiting()
    }

    /// Keeps twice as many slots ready to receive from now on, at most `most`: the kernel wanted one and there was none.
    #[cold]
    pub fn widen(&mut self, most: usize) {
        self.usual = self.usual.saturating_mul(2).min(most).max(self.usual);
        self.stock = self.stock.max(self.usual);
    }

    /// Keeps as many as `most` slots ready to receive until it is told to [`relax`](Self::relax): nobody receives for a
    /// while.
    pub fn brace(&mut self, most: usize) {
        self.stock = self.stock.max(most);
    }

    /// Keeps the usual number of slots ready.
    pub fn relax(&mut self) {
        self.stock = self.usual;
    }

    /// Slots that are not in the pool or with the worker.
    pub fn held(&self) -> usize {
        self.receiving.count() + self.sending.count() + self.aside.len()
    }

    /// Frames accepted for sending that have not come back.
    pub fn sending(&self) -> usize {
        self.sending.count()
    }

    /// Packets waiting to be received.
    pub fn waiting(&mut self) -> usize {
        self.rings.rx.available(u32::MAX) as usize
    }

    /// Descriptors the kernel has not yet taken out of the transmit ring.
    pub fn unsent(&mut self) -> u32 {
        self.rings.tx.waiting()
    }

    /// Whether the kernel asks to be woken to send.
    pub(crate) fn tx_needs_wakeup(&self) -> bool {
        self.rings.tx.needs_wakeup()
    }

    /// Whether the kernel asks to be woken to take slots to receive into.
    pub(crate) fn fill_needs_wakeup(&self) -> bool {
        self.rings.fill.needs_wakeup()
    }

    /// Hands received packets over, as many as `out` has room for.
    #[inline]
    pub fn receive(&mut self, pool: &mut Pool, out: &mut Batch, counters: &mut PortCounters) -> usize {
        let room = out.room() as u32;
        let ready = self.rings.rx.available(room).min(room);
        if ready == 0 {
            return 0;
        }
        let before = out.len();
        for _ in 0..ready {
            let desc = self.rings.rx.read();
            let (at, slot) = self.umem.locate(desc.addr);
            if !self.receiving.strike(slot) {
                counters.rx_invalid += 1;
                continue;
            }
            // SAFETY: the slot was struck out of the ledger, so its token was given up and not minted since.
            match unsafe { pool.arena().mint_at(at, desc.len as usize) } {
                Some(frame) => {
                    counters.rx_bytes += u64::from(desc.len);
                    // There is room: `ready` is at most that.
                    if let Err(frame) = out.push(frame) {
                        pool.give(frame);
                    }
                }
                None => {
                    counters.rx_invalid += 1;
                    // SAFETY: as above; `mint_at` made no token.
                    unsafe { pool.give_slot(slot) };
                }
            }
        }
        self.rings.rx.release();
        let received = out.len() - before;
        counters.rx_packets += received as u64;
        received
    }

    /// Takes as many frames from the front of `batch` as the transmit ring has room for. Empty packets and ones longer
    /// than the link carries are taken, counted and given back: the kernel would swallow them.
    #[inline]
    pub fn transmit(&mut self, pool: &mut Pool, batch: &mut Batch, counters: &mut PortCounters) -> usize {
        let want = batch.len() as u32;
        let room = self.rings.tx.room(want).min(want) as usize;
        if room == 0 {
            return 0;
        }
        let Self { rings, umem, sending, longest, aside, .. } = self;
        batch.drain_front(room, |frame| {
            let len = frame.len();
            if len == 0 || len > *longest {
                counters.tx_errors += 1;
                return pool.give(frame);
            }
            let frame = if umem.usable(frame.slot()) { Some(frame) } else { moved(umem, pool, aside, frame) };
            let Some(frame) = frame else {
                counters.tx_errors += 1;
                return;
            };
            // Fits: a frame's length is a u16.
            rings.tx.push(Desc { addr: umem.packet_address(&frame), len: len as u32, options: 0 });
            sending.enter(frame.slot());
            counters.tx_packets += 1;
            counters.tx_bytes += len as u64;
        });
        rings.tx.publish();
        room
    }

    /// Gives the slots of sent packets back to the pool.
    #[inline]
    pub fn reap(&mut self, pool: &mut Pool, counters: &mut PortCounters) -> usize {
        if self.sending.count() == 0 {
            return 0;
        }
        let ready = self.rings.completion.available(u32::MAX);
        if ready == 0 {
            return 0;
        }
        for _ in 0..ready {
            let address = self.rings.completion.read();
            let (_, slot) = self.umem.locate(address);
            if self.sending.strike(slot) {
                // SAFETY: struck out of the ledger: its token was given up and not minted since.
                unsafe { pool.give_slot(slot) };
            } else {
                counters.rx_invalid += 1;
            }
        }
        self.rings.completion.release();
        ready as usize
    }

    /// Keeps the stock of slots to receive into, as far as the pool has some.
    #[inline]
    pub fn refill(&mut self, pool: &mut Pool) {
        let missing = self.stock.saturating_sub(self.receiving.count());
        if missing < (self.stock / 4).clamp(1, REFILL_AT_LEAST) {
            return;
        }
        let mut room = self.rings.fill.room(missing as u32).min(missing as u32);
        while room > 0 {
            let Some(frame) = pool.take() else { break };
            let slot = frame.slot();
            if !self.umem.usable(slot) {
                self.aside.push(frame);
                continue;
            }
            self.rings.fill.push(self.umem.fill_address(slot));
            self.receiving.enter(slot);
            room -= 1;
        }
        self.rings.fill.publish();
    }

    /// Gives every slot back, whatever ring or corner of the kernel it is in. Returns how many accepted frames were
    /// never reported as sent.
    ///
    /// # Safety
    /// The kernel must have let go of the memory: the socket is closed (see [`super::socket`] on when that suffices).
    pub(crate) unsafe fn recover(&mut self, pool: &mut Pool) -> usize {
        let unsent = self.sending.count();
        for ledger in [&mut self.receiving, &mut self.sending] {
            // SAFETY: struck out of the ledger, and by the caller's promise nobody else uses the slot any more.
            ledger.strike_all(|slot| unsafe { pool.give_slot(slot) });
        }
        for frame in self.aside.drain(..) {
            pool.give(frame);
        }
        unsent
    }
}

/// The packet in another slot, one that the device can use; none when the pool has no such slot at hand. Slots that it cannot
/// use go aside, each once: of huge pages one in a thousand lies across two, of others every second.
#[cold]
fn moved(umem: &Umem, pool: &mut Pool, aside: &mut Vec<Frame>, from: Frame) -> Option<Frame> {
    let to = loop {
        match pool.take() {
            Some(slot) if umem.usable(slot.slot()) => break Some(slot),
            Some(slot) => aside.push(slot),
            None => break None,
        }
    };
    let arena = pool.arena().clone();
    let written = to.and_then(|mut to| match arena.write(&mut to, arena.bytes(&from)) {
        true => Some(to),
        false => {
            pool.give(to);
            None
        }
    });
    aside.push(from);
    written
}

#[cfg(test)]
#[path = "queue_tests.rs"]
mod tests;
