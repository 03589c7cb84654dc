use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;

use proptest::prelude::*;

use super::*;

#[test]
fn values_come_out_in_order_and_the_full_ring_gives_them_back() {
    let (mut tx, mut rx) = ring(3);
    assert_eq!((tx.capacity(), tx.room(), rx.is_empty(), rx.pop()), (4, 4, true, None::<u32>));
    assert!((0..4).all(|i| tx.push(i).is_ok()));
    assert_eq!((tx.push(9), rx.len()), (Err(9), 4));
    assert_eq!(rx.pop(), Some(0));
    let mut more = [4, 5, 6].into_iter();
    assert_eq!(tx.push_batch(&mut more), 1);
    assert_eq!(more.as_slice(), [5, 6]);
    assert_eq!((tx.gauge().sent(), tx.gauge().full()), (5, 3));
    let mut got = vec![];
    assert_eq!(rx.pop_batch(3, |v| got.push(v)), 3);
    assert_eq!(rx.pop_batch(3, |v| got.push(v)), 1);
    assert_eq!(got, [1, 2, 3, 4]);
    assert!(!tx.is_alone());
    drop(tx);
    assert!(rx.is_alone());
}

#[test]
fn leftovers_are_dropped() {
    let value = Arc::new(());
    let (mut tx, mut rx) = ring(8);
    for _ in 0..8 {
        tx.push(value.clone()).unwrap();
    }
    drop(rx.pop());
    drop(rx);
    assert_eq!(Arc::strong_count(&value), 8);
    drop(tx);
    assert_eq!(Arc::strong_count(&value), 1);
}

#[test]
fn panics_lose_no_value_and_take_none_twice() {
    let value = Arc::new(());
    let (mut tx, mut rx) = ring(8);
    let mut bad = (0..4).map(|i| if i == 2 { panic!("source") } else { value.clone() });
    assert!(catch_unwind(AssertUnwindSafe(|| tx.push_batch(&mut bad))).is_err());
    assert_eq!(rx.len(), 2);
    assert!(catch_unwind(AssertUnwindSafe(|| rx.pop_batch(8, |_| panic!("sink")))).is_err());
    assert_eq!((rx.len(), Arc::strong_count(&value)), (1, 2));
    drop((tx, rx));
    assert_eq!(Arc::strong_count(&value), 1);
}

#[test]
fn the_ends_work_on_two_threads() {
    let n = if cfg!(miri) { 200u64 } else { 200_000 };
    let (mut tx, mut rx) = ring::<Box<u64>>(64);
    let producer = std::thread::spawn(move || {
        let mut items = (0..n).map(Box::new).collect::<Vec<_>>().into_iter();
        while items.len() > 0 {
            if tx.push_batch(&mut items) == 0 {
                std::thread::yield_now();
            }
        }
    });
    let mut next = 0;
    while next < n {
        if rx.pop_batch(32, |v| {
            assert_eq!(*v, next);
            next += 1;
        }) == 0
        {
            std::thread::yield_now();
        }
    }
    producer.join().unwrap();
    assert!(rx.is_empty());
}

#[test]
fn the_indices_wrap() {
    let (mut tx, mut rx) = ring(2);
    let start = usize::MAX - 1;
    tx.shared.head.store(start, Ordering::Relaxed);
    tx.shared.tail.store(start, Ordering::Relaxed);
    (tx.tail, tx.head, rx.head, rx.tail) = (start, start, start, start);
    for i in 0..10u32 {
        assert!(tx.push(i).is_ok() && tx.push(i + 100).is_ok() && tx.push(0).is_err());
        assert_eq!((rx.pop(), rx.pop(), rx.pop()), (Some(i), Some(i + 100), None));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 3 } else { 256 }, failure_persistence: None, ..<_>::default() })]

    #[test]
    fn behaves_like_a_bounded_queue(capacity in 1usize..20, ops in prop::collection::vec((any::<bool>(), 0usize..12), 1..100)) {
        let (mut tx, mut rx) = ring(capacity);
        let (mut model, mut next, mut full) = (VecDeque::new(), 0u64, 0);
        for (put, n) in ops {
            if put {
                let mut items = (next..next + n as u64).map(Box::new).collect::<Vec<_>>().into_iter();
                let room = tx.capacity() - model.len();
                prop_assert_eq!(tx.push_batch(&mut items), n.min(room));
                model.extend(next..next + n.min(room) as u64);
                next += n.min(room) as u64;
                full += n.saturating_sub(room) as u64;
            } else {
                let mut got = vec![];
                rx.pop_batch(n, |v| got.push(*v));
                let m = n.min(model.len());
                prop_assert_eq!(got, model.drain(..m).collect::<Vec<_>>());
            }
            prop_assert_eq!(rx.len(), model.len());
        }
        prop_assert_eq!((tx.gauge().sent(), tx.gauge().full()), (next, full));
    }
}

#[test]
fn ends_are_send_only_with_their_values() {
    fn send<T: Send>() {}
    send::<Producer<Box<u32>>>();
    send::<Consumer<Box<u32>>>();
    // `ring::<Rc<()>>` does not compile: `Rc` is not `Send`.
    let _ = Rc::new(());
}
