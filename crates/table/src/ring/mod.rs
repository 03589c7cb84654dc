//! Bounded ring from one producer to one consumer.
//!
//! Each side keeps its own index and a copy of the other's, so that a burst costs one load and one store of shared
//! lines at most. Values are moved, whatever they are; what is still inside when both ends are gone is dropped.

use std::fmt;
use std::mem::MaybeUninit;
// Statistics only, so plain atomics even under loom.
use std::sync::Arc as StdArc;
use std::sync::atomic::{AtomicU64 as StdAtomicU64, Ordering as StdOrdering};

use crate::sync::{Arc, AtomicUsize, Ordering, Padded, UnsafeCell};

struct Shared<T> {
    slots: Box<[UnsafeCell<MaybeUninit<T>>]>,
    /// Values taken so far; written by the consumer.
    head: Padded<AtomicUsize>,
    /// Values put in so far; written by the producer.
    tail: Padded<AtomicUsize>,
}

// SAFETY: a slot is touched by the producer between head and tail catching up with it and by the consumer after; the
// release stores of the indices order the two. Values cross threads, hence `T: Send`.
unsafe impl<T: Send> Send for Shared<T> {}
// SAFETY: as above; only the one producer and the one consumer touch slots.
unsafe impl<T: Send> Sync for Shared<T> {}

impl<T> Shared<T> {
    #[inline(always)]
    fn slot(&self, index: usize) -> &UnsafeCell<MaybeUninit<T>> {
        // A power of two of slots: the mask keeps the index in range.
        &self.slots[index & (self.slots.len() - 1)]
    }
}

impl<T> Drop for Shared<T> {
    fn drop(&mut self) {
        let (mut head, tail) = (self.head.load(Ordering::Relaxed), self.tail.load(Ordering::Relaxed));
        while head != tail {
            // SAFETY: both ends are gone, so nobody else touches slots; those from head to tail hold values.
            self.slot(head).with_mut(|slot| unsafe { (*slot).assume_init_drop() });
            head = head.wrapping_add(1);
        }
    }
}

/// A ring for at least `capacity` values (rounded up to a power of two).
pub fn ring<T: Send>(capacity: usize) -> (Producer<T>, Consumer<T>) {
    let n = capacity.max(1).next_power_of_two();
    let shared = Arc::new(Shared {
        slots: (0..n).map(|_| UnsafeCell::new(MaybeUninit::uninit())).collect(),
        head: Padded(AtomicUsize::new(0)),
        tail: Padded(AtomicUsize::new(0)),
    });
    let producer = Producer { shared: shared.clone(), tail: 0, head: 0, gauge: Gauge::default() };
    (producer, Consumer { shared, head: 0, tail: 0 })
}

/// Counts of one ring, readable from any thread: approximate while the producer works, exact when it rests.
#[derive(Clone, Debug, Default)]
pub struct Gauge(StdArc<Counts>);

#[derive(Debug, Default)]
#[repr(align(128))]
struct Counts {
    sent: StdAtomicU64,
    full: StdAtomicU64,
}

impl Gauge {
    /// Values put in.
    pub fn sent(&self) -> u64 {
        self.0.sent.load(StdOrdering::Relaxed)
    }

    /// Values turned away because the ring was full.
    pub fn full(&self) -> u64 {
        self.0.full.load(StdOrdering::Relaxed)
    }

    // One producer writes, so load and store do.
    #[inline(always)]
    fn add(counter: &StdAtomicU64, n: usize) {
        counter.store(counter.load(StdOrdering::Relaxed) + n as u64, StdOrdering::Relaxed);
    }
}

/// The end that puts values in.
pub struct Producer<T> {
    shared: Arc<Shared<T>>,
    tail: usize,
    /// The consumer's index when last looked at.
    head: usize,
    gauge: Gauge,
}

impl<T: Send> Producer<T> {
    /// Values the ring holds at most.
    pub fn capacity(&self) -> usize {
        self.shared.slots.len()
    }

    /// Values that fit now; more as the consumer goes on.
    pub fn room(&mut self) -> usize {
        self.room_for(self.capacity())
    }

    /// Puts a value in, or gives it back (and counts it) when the ring is full.
    #[inline]
    pub fn push(&mut self, value: T) -> Result<(), T> {
        if self.room_for(1) == 0 {
            Gauge::add(&self.gauge.0.full, 1);
            return Err(value);
        }
        self.write(value);
        self.publish(1);
        Ok(())
    }

    /// Puts in as many values as there is room for; returns how many. The rest stays in the iterator and is counted
    /// as turned away.
    #[inline]
    pub fn push_batch<I: ExactSizeIterator<Item = T>>(&mut self, items: &mut I) -> usize {
        let room = self.room_for(items.len());
        // Publishes what was written even when the iterator panics, so that nothing is lost.
        let mut batch = Publish { producer: self, written: 0 };
        while batch.written < room {
            let Some(value) = items.next() else { break };
            batch.producer.write_at(batch.written, value);
            batch.written += 1;
        }
        let written = batch.written;
        drop(batch);
        if items.len() > 0 {
            Gauge::add(&self.gauge.0.full, items.len());
        }
        written
    }

    /// This ring's counts.
    pub fn gauge(&self) -> &Gauge {
        &self.gauge
    }

    /// Whether the other end is gone.
    pub fn is_alone(&self) -> bool {
        Arc::strong_count(&self.shared) == 1
    }

    /// Room known of without touching the consumer's line if `wanted` fit, else looked up.
    #[inline(always)]
    fn room_for(&mut self, wanted: usize) -> usize {
        let n = self.shared.slots.len();
        let room = n - self.tail.wrapping_sub(self.head);
        if room >= wanted {
            return room;
        }
        // Acquire: the consumer has finished reading the slots it gives back.
        self.head = self.shared.head.load(Ordering::Acquire);
        n - self.tail.wrapping_sub(self.head)
    }

    #[inline(always)]
    fn write(&mut self, value: T) {
        self.write_at(0, value);
    }

    /// Writes into the slot `ahead` of the tail; the caller has made sure that there is room.
    #[inline(always)]
    fn write_at(&mut self, ahead: usize, value: T) {
        debug_assert!(self.tail.wrapping_add(ahead).wrapping_sub(self.head) < self.shared.slots.len());
        // SAFETY: the slot lies in the room the consumer has given back, and there is one producer (`&mut self`).
        self.shared.slot(self.tail.wrapping_add(ahead)).with_mut(|slot| unsafe { (*slot).write(value) });
    }

    #[inline(always)]
    fn publish(&mut self, n: usize) {
        self.tail = self.tail.wrapping_add(n);
        // Release: the values are written before the consumer can see them.
        self.shared.tail.store(self.tail, Ordering::Release);
        Gauge::add(&self.gauge.0.sent, n);
    }
}

struct Publish<'a, T: Send> {
    producer: &'a mut Producer<T>,
    written: usize,
}

impl<T: Send> Drop for Publish<'_, T> {
    #[inline(always)]
    fn drop(&mut self) {
        if self.written > 0 {
            self.producer.publish(self.written);
        }
    }
}

/// The end that takes values out.
pub struct Consumer<T> {
    shared: Arc<Shared<T>>,
    head: usize,
    /// The producer's index when last looked at.
    tail: usize,
}

impl<T: Send> Consumer<T> {
    /// Values waiting now; more as the producer goes on.
    pub fn len(&mut self) -> usize {
        self.waiting(usize::MAX)
    }

    /// Whether none is waiting.
    pub fn is_empty(&mut self) -> bool {
        self.waiting(1) == 0
    }

    /// Takes the oldest value.
    #[inline]
    pub fn pop(&mut self) -> Option<T> {
        if self.waiting(1) == 0 {
            return None;
        }
        let value = self.read_at(0);
        self.release(1);
        Some(value)
    }

    /// Takes up to `max` values, oldest first, and hands each to `f`; returns how many.
    #[inline]
    pub fn pop_batch(&mut self, max: usize, mut f: impl FnMut(T)) -> usize {
        let n = self.waiting(max).min(max);
        // Gives back the slots of what `f` got even when it panics, so that nothing is taken twice.
        let mut batch = Release { consumer: self, taken: 0 };
        while batch.taken < n {
            let value = batch.consumer.read_at(batch.taken);
            batch.taken += 1;
            f(value);
        }
        n
    }

    /// Whether the other end is gone. Values may still be waiting.
    pub fn is_alone(&self) -> bool {
        Arc::strong_count(&self.shared) == 1
    }

    #[inline(always)]
    fn waiting(&mut self, wanted: usize) -> usize {
        let known = self.tail.wrapping_sub(self.head);
        if known >= wanted {
            return known;
        }
        // Acquire: the producer has finished writing the slots it shows.
        self.tail = self.shared.tail.load(Ordering::Acquire);
        self.tail.wrapping_sub(self.head)
    }

    /// Moves the value `ahead` of the head out; the caller has made sure it is there and will release it, once.
    #[inline(always)]
    fn read_at(&mut self, ahead: usize) -> T {
        debug_assert!(ahead < self.tail.wrapping_sub(self.head));
        // SAFETY: the slot lies between head and the tail the producer has published, so it holds a value, and there is
        // one consumer (`&mut self`); the head moves past it before it could be read again.
        self.shared.slot(self.head.wrapping_add(ahead)).with(|slot| unsafe { (*slot).assume_init_read() })
    }

    #[inline(always)]
    fn release(&mut self, n: usize) {
        self.head = self.head.wrapping_add(n);
        // Release: the values are read before the producer can write there again.
        self.shared.head.store(self.head, Ordering::Release);
    }
}

struct Release<'a, T: Send> {
    consumer: &'a mut Consumer<T>,
    taken: usize,
}

impl<T: Send> Drop for Release<'_, T> {
    #[inline(always)]
    fn drop(&mut self) {
        if self.taken > 0 {
            self.consumer.release(self.taken);
        }
    }
}

impl<T> fmt::Debug for Producer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Producer({} slots, {} sent, {} full)", self.shared.slots.len(), self.gauge.sent(), self.gauge.full())
    }
}

impl<T> fmt::Debug for Consumer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Consumer({} slots, {} taken)", self.shared.slots.len(), self.head)
    }
}

#[cfg(all(test, loom))]
mod loom_tests;
#[cfg(all(test, not(loom)))]
mod tests;
