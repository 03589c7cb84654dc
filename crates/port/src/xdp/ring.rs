//! The four rings a socket shares with the kernel: single producer, single consumer, over memory of any origin.
//!
//! Both sides count up forever (modulo 2³²) and mask when they touch an entry. A side reads the other's counter with
//! acquire only when its cached copy does not suffice, and publishes its own with release once a burst.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

/// Bit of the flags word: the kernel sleeps and wants a system call.
const NEED_WAKEUP: u32 = libc::XDP_RING_NEED_WAKEUP;

/// A packet in the receive or transmit ring: `struct xdp_desc`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Desc {
    /// Slot and offset, see [`super::umem::Umem`].
    pub addr: u64,
    /// Bytes.
    pub len: u32,
    /// Zero.
    pub options: u32,
}

/// Where a ring lies.
#[derive(Clone, Copy, Debug)]
pub struct Layout<T> {
    /// The producer's counter.
    pub producer: NonNull<AtomicU32>,
    /// The consumer's counter.
    pub consumer: NonNull<AtomicU32>,
    /// The flags word.
    pub flags: NonNull<AtomicU32>,
    /// First of the entries.
    pub entries: NonNull<T>,
    /// How many; a power of two.
    pub size: u32,
}

impl<T: Copy> Layout<T> {
    fn producer(&self) -> &AtomicU32 {
        // SAFETY: valid for as long as a Producer or Consumer lives, by the promise of their constructors.
        unsafe { self.producer.as_ref() }
    }

    fn consumer(&self) -> &AtomicU32 {
        // SAFETY: as above.
        unsafe { self.consumer.as_ref() }
    }

    fn entry(&self, index: u32) -> NonNull<T> {
        // SAFETY: masked, so inside the `size` entries.
        unsafe { self.entries.add((index & (self.size - 1)) as usize) }
    }
}

/// Our end of a ring we fill: the fill ring (slots to receive into) and the transmit ring.
pub struct Producer<T> {
    ring: Layout<T>,
    next: u32,
    consumed: u32,
}

// SAFETY: a producer is the only user of its end; the memory has no thread affinity.
unsafe impl<T: Send> Send for Producer<T> {}

impl<T: Copy> Producer<T> {
    /// The producer's end of the ring at `ring`.
    ///
    /// # Safety
    /// The layout must be of a ring that outlives this value; nobody else may be its producer.
    pub unsafe fn new(ring: Layout<T>) -> Self {
        assert!(ring.size.is_power_of_two(), "a ring's size is a power of two");
        let (next, consumed) = (ring.producer().load(Ordering::Relaxed), ring.consumer().load(Ordering::Acquire));
        Self { ring, next, consumed }
    }

    /// Goes on where the ring stands: another process had this end until now.
    pub fn resume(&mut self) {
        self.next = self.ring.producer().load(Ordering::Acquire);
        self.consumed = self.ring.consumer().load(Ordering::Acquire);
    }

    /// Whether nobody else has used this end since the last [`Producer::publish`].
    pub fn is_as_left(&self) -> bool {
        self.ring.producer().load(Ordering::Acquire) == self.next
    }

    /// Entries free, as far as known without looking when they are `want` or more.
    #[inline]
    pub fn room(&mut self, want: u32) -> u32 {
        let mut room = self.ring.size.saturating_sub(self.next.wrapping_sub(self.consumed));
        if room < want {
            self.consumed = self.ring.consumer().load(Ordering::Acquire);
            room = self.ring.size.saturating_sub(self.next.wrapping_sub(self.consumed));
        }
        room
    }

    /// Puts an entry behind those there are. The caller has asked [`Producer::room`]; the other side sees it after
    /// [`Producer::publish`].
    #[inline]
    pub fn push(&mut self, entry: T) {
        debug_assert!(self.next.wrapping_sub(self.consumed) < self.ring.size);
        // SAFETY: between the consumer's counter (acquired in `room`) and ours the entry is ours alone.
        unsafe { self.ring.entry(self.next).write(entry) };
        self.next = self.next.wrapping_add(1);
    }

    /// Shows the other side everything pushed.
    #[inline]
    pub fn publish(&mut self) {
        self.ring.producer().store(self.next, Ordering::Release);
    }

    /// Entries the other side has not taken yet.
    #[inline]
    pub fn waiting(&mut self) -> u32 {
        self.consumed = self.ring.consumer().load(Ordering::Acquire);
        self.next.wrapping_sub(self.consumed)
    }

    /// Whether the kernel wants to be woken to go on.
    #[inline]
    pub(crate) fn needs_wakeup(&self) -> bool {
        // SAFETY: valid by the promise of `new`.
        unsafe { self.ring.flags.as_ref() }.load(Ordering::Relaxed) & NEED_WAKEUP != 0
    }
}

/// Our end of a ring the kernel fills: receive and completion.
pub struct Consumer<T> {
    ring: Layout<T>,
    next: u32,
    produced: u32,
}

// SAFETY: a consumer is the only user of its end; the memory has no thread affinity.
unsafe impl<T: Send> Send for Consumer<T> {}

impl<T: Copy> Consumer<T> {
    /// The consumer's end of the ring at `ring`.
    ///
    /// # Safety
    /// The layout must be of a ring that outlives this value; nobody else may be its consumer.
    pub unsafe fn new(ring: Layout<T>) -> Self {
        assert!(ring.size.is_power_of_two(), "a ring's size is a power of two");
        let (next, produced) = (ring.consumer().load(Ordering::Relaxed), ring.producer().load(Ordering::Acquire));
        Self { ring, next, produced }
    }

    /// Goes on where the ring stands: another process had this end until now.
    pub fn resume(&mut self) {
        self.next = self.ring.consumer().load(Ordering::Acquire);
        self.produced = self.ring.producer().load(Ordering::Acquire);
    }

    /// Whether nobody else has used this end since the last [`Consumer::release`].
    pub fn is_as_left(&self) -> bool {
        self.ring.consumer().load(Ordering::Acquire) == self.next
    }

    /// Entries to read, as far as known without looking when they are `want` or more.
    #[inline]
    pub fn available(&mut self, want: u32) -> u32 {
        if self.produced.wrapping_sub(self.next) < want {
            self.produced = self.ring.producer().load(Ordering::Acquire);
        }
        // More than there are places would be a broken ring; never read beyond one round.
        self.produced.wrapping_sub(self.next).min(self.ring.size)
    }

    /// Takes the next entry. The caller has asked [`Consumer::available`]; the other side gets the place back after
    /// [`Consumer::release`].
    #[inline]
    pub fn read(&mut self) -> T {
        debug_assert!(self.produced != self.next);
        // SAFETY: between our counter and the producer's (acquired in `available`) the entry is ours alone.
        let entry = unsafe { self.ring.entry(self.next).read() };
        self.next = self.next.wrapping_add(1);
        entry
    }

    /// Gives the other side the places of everything read.
    #[inline]
    pub fn release(&mut self) {
        self.ring.consumer().store(self.next, Ordering::Release);
    }
}

/// A ring over ordinary memory, for tests: both ends can be taken.
#[cfg(test)]
pub(crate) mod plain {
    use super::*;

    pub struct Plain<T> {
        words: Box<[AtomicU32; 3]>,
        entries: Vec<T>,
    }

    impl<T: Copy + Default> Plain<T> {
        /// A ring whose counters start at `from`.
        pub fn new(size: u32, from: u32) -> Self {
            let words = Box::new([AtomicU32::new(from), AtomicU32::new(from), AtomicU32::new(0)]);
            Self { words, entries: vec![T::default(); size as usize] }
        }

        pub fn layout(&mut self) -> Layout<T> {
            Layout {
                producer: NonNull::from(&self.words[0]),
                consumer: NonNull::from(&self.words[1]),
                flags: NonNull::from(&self.words[2]),
                entries: NonNull::new(self.entries.as_mut_ptr()).expect("not null"),
                size: self.entries.len() as u32,
            }
        }

        pub fn ends(&mut self) -> (Producer<T>, Consumer<T>) {
            let layout = self.layout();
            // SAFETY: tests keep the ring alive beside its ends and take them once.
            unsafe { (Producer::new(layout), Consumer::new(layout)) }
        }

        pub fn set_flags(&self, flags: u32) {
            self.words[2].store(flags, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::plain::Plain;
    use super::*;

    #[test]
    fn a_ring_fills_empties_and_tells() {
        let mut plain = Plain::<u64>::new(4, 0);
        let (mut producer, mut consumer) = plain.ends();
        assert_eq!((producer.room(1), consumer.available(1)), (4, 0));
        for value in 0..4 {
            producer.push(value);
        }
        assert_eq!(consumer.available(1), 0, "nothing shows before it is published");
        producer.publish();
        assert_eq!((producer.room(1), producer.waiting(), consumer.available(1)), (0, 4, 4));
        assert_eq!((consumer.read(), consumer.read()), (0, 1));
        assert_eq!(producer.room(1), 0, "places come back when released");
        consumer.release();
        assert_eq!((producer.room(1), producer.waiting()), (2, 2));
    }

    #[test]
    fn the_wakeup_flag_is_seen() {
        let mut plain = Plain::<u64>::new(4, 0);
        let (producer, _consumer) = plain.ends();
        assert!(!producer.needs_wakeup());
        plain.set_flags(NEED_WAKEUP);
        assert!(producer.needs_wakeup());
    }

    #[test]
    fn another_end_goes_on_where_one_stood() {
        let mut plain = Plain::<u64>::new(4, u32::MAX - 1);
        let (mut producer, mut consumer) = plain.ends();
        let (mut next_producer, mut next_consumer) = plain.ends();
        (0..3).for_each(|value| producer.push(value));
        producer.publish();
        assert_eq!((consumer.available(3), consumer.read()), (3, 0));
        consumer.release();
        assert!(producer.is_as_left() && consumer.is_as_left());
        next_producer.resume();
        next_consumer.resume();
        assert_eq!((next_producer.room(2), next_consumer.available(3), next_consumer.read()), (2, 2, 1));
        next_consumer.release();
        next_producer.push(3);
        next_producer.publish();
        assert!(!producer.is_as_left() && !consumer.is_as_left());
        assert_eq!((next_consumer.available(2), next_consumer.read(), next_consumer.read()), (2, 2, 3));
    }

    #[test]
    fn a_broken_counter_gives_no_more_than_one_round() {
        let mut plain = Plain::<u64>::new(4, 0);
        let (mut producer, mut consumer) = plain.ends();
        plain.layout().producer().store(1000, Ordering::Relaxed);
        assert_eq!(consumer.available(1), 4);
        plain.layout().consumer().store(77, Ordering::Relaxed);
        producer.push(0);
        assert_eq!(producer.room(4), 0, "a consumer ahead of its producer leaves no room");
    }

    proptest! {
        /// Any interleaving of pushes, publishes, reads and releases, started anywhere (so that both the mask and the
        /// counters themselves wrap), is a queue.
        #[test]
        fn a_ring_is_a_queue(
            log_size in 0_u32..6,
            from in prop_oneof![Just(0), Just(u32::MAX - 5), any::<u32>()],
            steps in prop::collection::vec((any::<bool>(), 0_u32..40, any::<bool>()), 1..200),
        ) {
            let size = 1 << log_size;
            let mut plain = Plain::<u64>::new(size, from);
            let (mut producer, mut consumer) = plain.ends();
            let (mut queued, mut shown, mut unreleased) = (VecDeque::new(), 0, 0);
            let mut value = 0_u64;
            for (produce, count, settle) in steps {
                if produce {
                    let room = producer.room(count);
                    prop_assert!(room <= size - queued.len() as u32 - unreleased);
                    if count > room {
                        prop_assert_eq!(room, size - queued.len() as u32 - unreleased, "it looked, so it knows");
                    }
                    for _ in 0..count.min(room) {
                        producer.push(value);
                        queued.push_back(value);
                        value += 1;
                    }
                    if settle {
                        producer.publish();
                        shown = queued.len() as u32;
                    }
                } else {
                    let available = consumer.available(count);
                    prop_assert!(available <= shown);
                    if count > available {
                        prop_assert_eq!(available, shown);
                    }
                    for _ in 0..count.min(available) {
                        prop_assert_eq!(Some(consumer.read()), queued.pop_front());
                        shown -= 1;
                        unreleased += 1;
                    }
                    if settle {
                        consumer.release();
                        unreleased = 0;
                    }
                }
            }
        }
    }

    #[test]
    fn two_threads_pass_values_in_order() {
        let mut plain = Plain::<u64>::new(64, u32::MAX - 100);
        let (mut producer, mut consumer) = plain.ends();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                let mut value = 0;
                while value < 200_000 {
                    for _ in 0..producer.room(16).min(16) {
                        producer.push(value);
                        value += 1;
                    }
                    producer.publish();
                    std::thread::yield_now();
                }
            });
            let mut wanted = 0;
            while wanted < 200_000 {
                for _ in 0..consumer.available(16) {
                    assert_eq!(consumer.read(), wanted);
                    wanted += 1;
                }
                consumer.release();
                std::thread::yield_now();
            }
        });
    }
}
