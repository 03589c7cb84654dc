use std::sync::Arc as StdArc;
use std::sync::atomic::{AtomicUsize as StdAtomicUsize, Ordering as StdOrdering};

use loom::cell::UnsafeCell;
use loom::thread;

use super::*;

/// A value whose drop is a write loom sees: a read that races with it, or comes after it, fails the model.
struct Watched {
    number: usize,
    cell: UnsafeCell<usize>,
    drops: StdArc<StdAtomicUsize>,
}

impl Watched {
    fn new(number: usize, drops: &StdArc<StdAtomicUsize>) -> Self {
        Self { number, cell: UnsafeCell::new(number), drops: drops.clone() }
    }

    fn check(&self) -> usize {
        // SAFETY: loom checks that nobody writes meanwhile.
        assert_eq!(self.cell.with(|value| unsafe { *value }), self.number, "read after free");
        self.number
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        // SAFETY: loom checks that nobody reads meanwhile.
        self.cell.with_mut(|value| unsafe { *value = usize::MAX });
        self.drops.fetch_add(1, StdOrdering::Relaxed);
    }
}

// SAFETY: the cell is written in drop only.
unsafe impl Sync for Watched {}

#[test]
fn loom_a_value_in_hand_is_not_freed() {
    loom::model(|| {
        let drops = StdArc::new(StdAtomicUsize::new(0));
        let mut publisher = Publisher::new(Watched::new(1, &drops));
        let mut reader = publisher.reader();
        let worker = thread::spawn(move || {
            let first = reader.get().check();
            let second = reader.get().check();
            assert!(first <= second);
        });
        publisher.publish(Watched::new(2, &drops));
        publisher.publish(Watched::new(3, &drops));
        worker.join().unwrap();
        assert_eq!(publisher.reclaim(), 0);
        assert_eq!(drops.load(StdOrdering::Relaxed), 2);
        drop(publisher);
        assert_eq!(drops.load(StdOrdering::Relaxed), 3);
    });
}

#[test]
fn loom_a_parked_reader_holds_nothing_back_and_comes_back_safely() {
    loom::model(|| {
        let drops = StdArc::new(StdAtomicUsize::new(0));
        let mut publisher = Publisher::new(Watched::new(1, &drops));
        let mut reader = publisher.reader();
        let worker = thread::spawn(move || {
            reader.get().check();
            reader.park();
            reader.get().check();
            reader.park();
            reader
        });
        publisher.publish(Watched::new(2, &drops));
        let reader = worker.join().unwrap();
        assert_eq!(publisher.reclaim(), 0);
        assert_eq!((drops.load(StdOrdering::Relaxed), reader.number()), (1, 0));
    });
}

#[test]
fn loom_a_reader_that_goes_frees_what_it_held() {
    loom::model(|| {
        let drops = StdArc::new(StdAtomicUsize::new(0));
        let mut publisher = Publisher::new(Watched::new(1, &drops));
        let mut reader = publisher.reader();
        let worker = thread::spawn(move || {
            reader.get().check();
        });
        publisher.publish(Watched::new(2, &drops));
        worker.join().unwrap();
        assert_eq!(publisher.reclaim(), 0);
    });
}

#[test]
fn loom_the_last_reader_may_outlive_the_publisher() {
    loom::model(|| {
        let drops = StdArc::new(StdAtomicUsize::new(0));
        let mut publisher = Publisher::new(Watched::new(1, &drops));
        let mut reader = publisher.reader();
        let worker = thread::spawn(move || {
            reader.get().check();
        });
        publisher.publish(Watched::new(2, &drops));
        drop(publisher);
        worker.join().unwrap();
        assert_eq!(drops.load(StdOrdering::Relaxed), 2);
    });
}
