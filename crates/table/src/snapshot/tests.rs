use std::sync::Arc as StdArc;

use super::*;

#[test]
fn readers_see_the_newest_and_hold_back_only_what_they_have() {
    let value = StdArc::new(());
    let mut publisher = Publisher::new((1, value.clone()));
    let (mut a, mut b) = (publisher.reader(), publisher.reader());
    assert_eq!((a.get().0, a.number(), b.number()), (1, 1, 0));
    assert_eq!(publisher.publish((2, value.clone())), 2);
    assert_eq!(StdArc::strong_count(&value), 3, "reader a has the first in hand");
    assert!(a.is_stale());
    assert_eq!((a.get().0, b.get().0, publisher.get().0), (2, 2, 2));
    assert!(!a.is_stale());
    assert_eq!((publisher.reclaim(), StdArc::strong_count(&value)), (0, 2));
    publisher.publish((3, value.clone()));
    a.park();
    assert_eq!(publisher.reclaim(), 1, "reader b");
    drop(b);
    assert_eq!((publisher.reclaim(), publisher.number()), (0, 3));
    assert_eq!(a.get().0, 3);
    drop(publisher);
    assert_eq!(a.get().0, 3);
    drop(a);
    assert_eq!(StdArc::strong_count(&value), 1);
}

#[test]
fn a_reader_far_behind_keeps_one_value_and_not_its_successors_from_being_used() {
    let mut publisher = Publisher::new(0);
    let mut slow = publisher.reader();
    slow.get();
    for i in 1..10 {
        publisher.publish(i);
    }
    assert_eq!(publisher.reclaim(), 9);
    assert_eq!(*slow.get(), 9);
    assert_eq!(publisher.reclaim(), 0);
}

#[test]
fn many_readers_many_values() {
    let rounds = if cfg!(miri) { 20 } else { 20_000 };
    let mut publisher = Publisher::new(vec![0u64; 16]);
    std::thread::scope(|scope| {
        for park in [false, true] {
            let mut reader = publisher.reader();
            scope.spawn(move || {
                let mut last = 0;
                while last < rounds {
                    let value = reader.get();
                    assert!(value[0] >= last && value.iter().all(|v| *v == value[0]));
                    last = value[0];
                    if park {
                        reader.park();
                    }
                    std::thread::yield_now();
                }
            });
        }
        for i in 1..=rounds {
            publisher.publish(vec![i; 16]);
        }
    });
    assert_eq!(publisher.reclaim(), 0);
}
