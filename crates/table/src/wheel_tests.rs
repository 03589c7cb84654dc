use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

#[test]
fn timers_fire_at_their_tick_in_order() {
    let mut wheel = Wheel::new(100, 0);
    let ticks = [1u64, 63, 64, 65, 4095, 4096, 4097, 1 << 18, 1 << 30, HORIZON - 1, HORIZON, 3 * HORIZON + 5];
    for (i, &at) in ticks.iter().enumerate().rev() {
        wheel.insert(at, i as u32).unwrap();
    }
    for (i, &at) in ticks.iter().enumerate() {
        assert_eq!(wheel.pop(at - 1), None, "tick {at}");
        assert_eq!(wheel.pop(at).map(|(_, payload)| payload), Some(i as u32), "tick {at}");
        assert_eq!(wheel.pop(at), None);
    }
    assert!(wheel.is_empty() && wheel.next_tick().is_none());
}

#[test]
fn handles_die_with_their_timers() {
    let mut wheel = Wheel::new(2, 1000);
    let a = wheel.insert(1010, 1).unwrap();
    let b = wheel.insert(5, 2).unwrap();
    assert_eq!((wheel.insert(0, 3), wheel.len(), wheel.capacity()), (None, 2, 2));
    assert_eq!(wheel.next_tick(), Some(1000), "past times are due at once");
    assert_eq!(wheel.pop(1000), Some((b, 2)));
    assert_eq!((wheel.cancel(b), wheel.cancel(a), wheel.cancel(a)), (None, Some(1), None));
    let c = wheel.insert(1010, 4).unwrap();
    assert_ne!(a, c, "the same place, another use");
    assert_eq!((wheel.cancel(a), wheel.cancel(Handle(u32::MAX)), wheel.cancel(c)), (None, None, Some(4)));
    assert_eq!(wheel.next_tick(), None);
}

#[test]
fn timers_can_be_set_again_while_firing() {
    let mut wheel = Wheel::new(1, 0);
    wheel.insert(10, 0).unwrap();
    let mut fired = Vec::new();
    while let Some((_, payload)) = wheel.pop(100) {
        fired.push(payload);
        wheel.insert(u64::from(payload + 2) * 10, payload + 1).unwrap();
    }
    assert_eq!(fired, (0..10).collect::<Vec<_>>());
    assert_eq!(wheel.len(), 1);
}

#[test]
fn time_at_its_end_and_no_timers_at_all() {
    let mut wheel = Wheel::new(3, u64::MAX - 2);
    wheel.insert(u64::MAX, 1).unwrap();
    assert_eq!(wheel.pop(u64::MAX - 1), None);
    assert_eq!(wheel.advance(u64::MAX, |_, payload| assert_eq!(payload, 1)), 1);
    let mut none = Wheel::new(0, 0);
    assert_eq!((none.insert(1, 1), none.pop(u64::MAX)), (None, None));
}

#[derive(Clone, Debug)]
enum Op {
    Insert(u64),
    Cancel(prop::sample::Index),
    Advance(u64),
}

fn ahead() -> impl Strategy<Value = u64> {
    (any::<u64>(), 20u32..64).prop_map(|(v, shift)| v >> shift)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 4 } else { 400 }, failure_persistence: None, ..<_>::default() })]

    #[test]
    fn behaves_like_a_sorted_map(start in ahead(), ops in prop::collection::vec(prop_oneof![
        5 => ahead().prop_map(Op::Insert),
        2 => any::<prop::sample::Index>().prop_map(Op::Cancel),
        3 => ahead().prop_map(Op::Advance),
    ], 1..if cfg!(miri) { 40 } else { 200 })) {
        let (mut wheel, mut now) = (Wheel::new(20, start), start);
        // By payload: when, and the handle.
        let mut model: BTreeMap<u32, (u64, Handle)> = BTreeMap::new();
        let mut dead = Vec::new();
        for (i, op) in ops.into_iter().enumerate() {
            match op {
                Op::Insert(ahead) => match wheel.insert(now + ahead, i as u32) {
                    Some(handle) => { model.insert(i as u32, (now + ahead, handle)); }
                    None => prop_assert_eq!(model.len(), 20),
                },
                Op::Cancel(pick) => if let Some(&payload) = model.keys().nth(pick.index(model.len().max(1))) {
                    let (_, handle) = model.remove(&payload).unwrap();
                    prop_assert_eq!(wheel.cancel(handle), Some(payload));
                    dead.push(handle);
                },
                Op::Advance(by) => {
                    let next = model.values().map(|(at, _)| *at).min();
                    prop_assert_eq!(wheel.next_tick().is_some(), next.is_some());
                    prop_assert!(wheel.next_tick() <= next.map(|at| at.max(now)));
                    now += by;
                    let mut last = 0;
                    while let Some((handle, payload)) = wheel.pop(now) {
                        let (at, known) = model.remove(&payload).unwrap();
                        prop_assert_eq!(known, handle);
                        prop_assert!(at <= now && at >= last);
                        last = at;
                        dead.push(handle);
                    }
                    prop_assert!(model.values().all(|(at, _)| *at > now));
                }
            }
            prop_assert_eq!(wheel.len(), model.len());
        }
        for handle in dead {
            prop_assert_eq!(wheel.cancel(handle), None);
        }
    }
}
