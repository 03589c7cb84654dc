//! Immutable values published by control and read by workers.
//!
//! One [`Publisher`] replaces the value whole; each worker's [`Reader`] looks once a burst, at the cost of one acquire
//! load when nothing has changed. Old values are freed by the publisher when every reader has gone on to a newer one:
//! a reader that takes a new value says so, a parked reader counts as having nothing in hand. No locks and no
//! reference counts on the reader's side.

use std::fmt;
use std::ptr;

use crate::sync::{Arc, AtomicPtr, AtomicU64, Mutex, Ordering, Padded, fence};

/// A reader with nothing in hand.
const PARKED: u64 = u64::MAX;
/// A reader that is about to take a value and may get any.
const ANY: u64 = 0;

/// A published value and its number, counting from 1.
struct Version<T> {
    value: T,
    number: u64,
}

/// What one reader has in hand: no version older than this number.
type Seen = Padded<AtomicU64>;

struct Shared<T> {
    /// The newest version; always valid.
    current: AtomicPtr<Version<T>>,
    books: Mutex<Books<T>>,
}

/// The publisher's side of things; readers come here only to be born and to die.
struct Books<T> {
    readers: Vec<Arc<Seen>>,
    /// Versions replaced but maybe still in hand, oldest first.
    retired: Vec<*mut Version<T>>,
}

// SAFETY: versions are reached by pointer from every thread that has a reader, and freed on whichever thread reclaims:
// both `Send` and `Sync` of the value are needed and enough.
unsafe impl<T: Send + Sync> Send for Shared<T> {}
// SAFETY: as above; the pointers in the books are used under the lock only.
unsafe impl<T: Send + Sync> Sync for Shared<T> {}

impl<T> Drop for Shared<T> {
    fn drop(&mut self) {
        let mut books = lock(&self.books);
        let retired = std::mem::take(&mut books.retired);
        drop(books);
        for version in retired.into_iter().chain([self.current.load(Ordering::Acquire)]) {
            // SAFETY: publisher and readers are gone, so nobody has a version in hand; each was boxed and is in
            // exactly one of the two places.
            drop(unsafe { Box::from_raw(version) });
        }
    }
}

/// The one who replaces the value: control.
pub struct Publisher<T> {
    shared: Arc<Shared<T>>,
    number: u64,
}

impl<T: Send + Sync> Publisher<T> {
    /// Publishes the first value.
    pub fn new(value: T) -> Self {
        let first = Box::into_raw(Box::new(Version { value, number: 1 }));
        let books = Mutex::new(Books { readers: Vec::new(), retired: Vec::new() });
        Self { shared: Arc::new(Shared { current: AtomicPtr::new(first), books }), number: 1 }
    }

    /// A new reader, parked.
    pub fn reader(&self) -> Reader<T> {
        let seen = Arc::new(Padded(AtomicU64::new(PARKED)));
        lock(&self.shared.books).readers.push(seen.clone());
        Reader { shared: self.shared.clone(), seen, in_hand: ptr::null_mut() }
    }

    /// Replaces the value; returns its number. Frees what nobody has in hand any more. Readers see the new value at
    /// their next look; those that are parked should be woken if it matters to them.
    pub fn publish(&mut self, value: T) -> u64 {
        self.number += 1;
        let next = Box::into_raw(Box::new(Version { value, number: self.number }));
        // Release: the value is complete before a reader can find it.
        let old = self.shared.current.swap(next, Ordering::AcqRel);
        lock(&self.shared.books).retired.push(old);
        self.reclaim();
        self.number
    }

    /// The value as last published.
    pub fn get(&self) -> &T {
        // SAFETY: the current version is freed only after it is replaced, which takes `&mut self`, or with `Shared`,
        // which this publisher keeps alive.
        unsafe { &(*self.shared.current.load(Ordering::Acquire)).value }
    }

    /// The number of the value last published; the first is 1.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Frees replaced values that no reader has in hand; returns how many are still waiting for one.
    pub fn reclaim(&mut self) -> usize {
        let mut books = lock(&self.shared.books);
        // Pairs with the fence in `Reader::get`: a reader just leaving the park either finds the newest version or is
        // seen here as having any in hand.
        fence(Ordering::SeqCst);
        // Acquire: a reader's last use of what it gave up comes before its being freed.
        let oldest = books.readers.iter().map(|seen| seen.load(Ordering::Acquire)).min().unwrap_or(PARKED);
        // SAFETY: a retired version is valid until taken off this list.
        let free = books.retired.iter().take_while(|&&version| unsafe { (*version).number } < oldest).count();
        let free: Vec<_> = books.retired.drain(..free).collect();
        let waiting = books.retired.len();
        // Values may be large, and their drops are not ours: run them outside the lock.
        drop(books);
        for version in free {
            // SAFETY: off the list, so freed once; every reader has announced a newer version or none, and can't come
            // by an older one again, since `current` is newer.
            drop(unsafe { Box::from_raw(version) });
        }
        waiting
    }
}

/// A worker's view of the value.
pub struct Reader<T> {
    shared: Arc<Shared<T>>,
    seen: Arc<Seen>,
    /// What the last `get` returned; null when parked. Valid as long as `seen` holds its number.
    in_hand: *mut Version<T>,
}

// SAFETY: the pointer is to a version of `Shared`, which may be read from any thread; nothing is tied to one.
unsafe impl<T: Send + Sync> Send for Reader<T> {}

impl<T: Send + Sync> Reader<T> {
    /// The newest value. What earlier calls returned is given up, so call this between bursts.
    #[inline(always)]
    pub fn get(&mut self) -> &T {
        // Acquire: the value behind a new pointer is complete.
        let current = self.shared.current.load(Ordering::Acquire);
        if current != self.in_hand || current.is_null() {
            self.take_newest();
        }
        // SAFETY: `in_hand` is not null after `take_newest`, and its version is not freed while `seen` says it is in
        // hand, which only `&mut self` changes. That the address is still the same version, and not a new one where an
        // old one was freed: the old one can't have been freed while in hand.
        unsafe { &(*self.in_hand).value }
    }

    /// What the last [`get`](Self::get) returned, however old by now: the same value for all stages of a burst. None
    /// when parked.
    #[inline(always)]
    pub fn in_hand(&self) -> Option<&T> {
        // SAFETY: as in `get`; null becomes none.
        unsafe { self.in_hand.as_ref() }.map(|version| &version.value)
    }

    /// The number of the value in hand; 0 when parked.
    pub fn number(&self) -> u64 {
        if self.in_hand.is_null() {
            return 0;
        }
        // SAFETY: as in `get`.
        unsafe { (*self.in_hand).number }
    }

    /// Whether [`get`](Self::get) would return something newer than last time.
    #[inline(always)]
    pub fn is_stale(&self) -> bool {
        self.shared.current.load(Ordering::Relaxed) != self.in_hand
    }

    /// Gives the value up: until the next [`get`](Self::get) this reader holds nothing back. For a worker that goes to
    /// sleep.
    pub fn park(&mut self) {
        self.in_hand = ptr::null_mut();
        // Release: our last use of the value comes before its being freed.
        self.seen.store(PARKED, Ordering::Release);
    }

    #[cold]
    fn take_newest(&mut self) {
        if self.in_hand.is_null() {
            // Nothing protects a version from being freed between our finding and our announcing it. So announce all
            // of them first; the fence, with the one in `reclaim`, makes that count.
            self.seen.store(ANY, Ordering::Relaxed);
            fence(Ordering::SeqCst);
        }
        // While an older version is in hand no newer one can be freed, so the pointer stays valid.
        let newest = self.shared.current.load(Ordering::Acquire);
        self.in_hand = newest;
        // SAFETY: valid as just said.
        let number = unsafe { (*newest).number };
        // Release: our last use of older versions comes before their being freed.
        self.seen.store(number, Ordering::Release);
    }
}

impl<T> Drop for Reader<T> {
    fn drop(&mut self) {
        // Release by the lock: our last use of the value comes before its being freed.
        lock(&self.shared.books).readers.retain(|seen| !Arc::ptr_eq(seen, &self.seen));
    }
}

impl<T: fmt::Debug + Send + Sync> fmt::Debug for Publisher<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Publisher").field("number", &self.number).field("value", self.get()).finish()
    }
}

impl<T> fmt::Debug for Reader<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.in_hand.is_null() { "Reader(parked)" } else { "Reader" })
    }
}

/// A panic elsewhere can't leave the books half written: values are dropped outside the lock.
fn lock<T>(books: &Mutex<T>) -> impl std::ops::DerefMut<Target = T> + '_ {
    books.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

#[cfg(all(test, loom))]
mod loom_tests;
#[cfg(all(test, not(loom)))]
mod tests;
