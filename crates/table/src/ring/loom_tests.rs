use loom::thread;

use super::*;

#[test]
fn loom_values_cross_in_order() {
    loom::model(|| {
        let (mut tx, mut rx) = ring::<Box<u32>>(2);
        let producer = thread::spawn(move || {
            let mut pushed = 0;
            for i in 0..3 {
                pushed += u32::from(tx.push(Box::new(i)).is_ok());
            }
            pushed
        });
        let mut got = Vec::new();
        for _ in 0..2 {
            got.extend(rx.pop().map(|v| *v));
        }
        let pushed = producer.join().unwrap();
        rx.pop_batch(4, |v| got.push(*v));
        assert_eq!(got.len() as u32, pushed);
        assert!(got.windows(2).all(|w| w[0] < w[1]));
    });
}

#[test]
fn loom_batches_reuse_slots_only_after_release() {
    loom::model(|| {
        let (mut tx, mut rx) = ring::<Box<u32>>(2);
        let producer = thread::spawn(move || {
            let mut items = vec![Box::new(0), Box::new(1), Box::new(2)].into_iter();
            tx.push_batch(&mut items);
            tx.push_batch(&mut items);
            items.len()
        });
        let mut got = Vec::new();
        rx.pop_batch(2, |v| got.push(*v));
        let left = producer.join().unwrap();
        rx.pop_batch(4, |v| got.push(*v));
        assert_eq!(got, (0..3 - left as u32).collect::<Vec<_>>());
    });
}

#[test]
fn loom_the_last_end_drops_the_leftovers() {
    loom::model(|| {
        let value = std::sync::Arc::new(());
        let (mut tx, mut rx) = ring(2);
        let mine = value.clone();
        let producer = thread::spawn(move || {
            let _ = tx.push(mine.clone());
            let _ = tx.push(mine);
        });
        drop(rx.pop());
        drop(rx);
        producer.join().unwrap();
        assert_eq!(std::sync::Arc::strong_count(&value), 1);
    });
}
