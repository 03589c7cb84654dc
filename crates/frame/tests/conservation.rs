//! Whatever is done with frames, every slot stays accounted for and no two frames share bytes.

use std::sync::Arc;

use frame::{Arena, ArenaConfig, BURST, Batch, Frame, HEADROOM, NoHeadroom, Pool, Short};
use proptest::prelude::*;

fn arena(slots: u32) -> Arc<Arena> {
    Arena::new(ArenaConfig { slots, ..ArenaConfig::default() }).expect("memory")
}

#[test]
fn a_frame_grows_and_shrinks_within_its_slot() {
    let arena = arena(4);
    let mut pool = Pool::new(&arena, 4);
    let mut frame = pool.make(b"payload").expect("a slot");
    assert_eq!(frame.headroom(), usize::from(HEADROOM));
    frame.push_front(8).expect("headroom");
    arena.bytes_mut(&mut frame)[..8].copy_from_slice(b"a header");
    assert_eq!(arena.bytes(&frame), b"a headerpayload");
    frame.pull_front(2).expect("long enough");
    frame.truncate(10).expect("long enough");
    assert_eq!(arena.bytes(&frame), b"headerpayl");
    assert_eq!(frame.pull_front(11), Err(Short));
    assert_eq!(frame.truncate(11), Err(Short));
    assert_eq!(frame.push_front(HEADROOM - 5), Err(NoHeadroom));
    frame.push_front(HEADROOM - 6).expect("all the headroom there is");
    assert_eq!(arena.space_mut(&mut frame).len(), 2048);
    assert_eq!(arena.set_len(&mut frame, 5000), 2048, "a length is cut to the slot");
    pool.give(frame);
    assert_eq!(pool.free(), 4);
    assert!(pool.make(&[0; 1787]).is_none(), "1,786 bytes is what a slot of 2,048 has room for");
    assert_eq!(pool.free(), 4);
}

#[test]
fn bytes_come_behind_a_packet_while_its_slot_has_room() {
    let arena = arena(1);
    let mut pool = Pool::new(&arena, 1);
    let mut frame = pool.make(b"front").expect("a slot");
    assert!(arena.append(&mut frame, b" and back"));
    assert_eq!(arena.bytes(&frame), b"front and back");
    let room = arena.space_mut(&mut frame).len() - frame.len();
    assert!(!arena.append(&mut frame, &vec![1; room + 1]), "one byte too many");
    assert_eq!(arena.bytes(&frame), b"front and back");
    assert!(arena.append(&mut frame, &vec![1; room]));
    assert_eq!(frame.len() + frame.headroom(), 2048);
    pool.give(frame);
}

#[test]
fn what_was_taken_leaves_nothing() {
    let arena = arena(1);
    let mut pool = Pool::new(&arena, 1);
    let mut place = pool.make(b"moved").expect("a slot");
    let frame = place.take();
    assert!(place.is_none() && place.take().is_none() && !arena.owns(&place));
    assert_eq!(arena.bytes(&frame), b"moved");
    pool.give(frame);
    pool.give(place);
    assert_eq!(pool.free(), 1);
}

#[test]
#[should_panic(expected = "another arena")]
fn a_frame_of_another_arena_reaches_nothing() {
    let (ours, theirs) = (arena(1), arena(1));
    let frame = Pool::new(&theirs, 1).take().expect("a slot");
    let _ = ours.bytes(&frame);
}

#[test]
#[should_panic(expected = "another arena")]
fn none_has_no_bytes() {
    let _ = arena(1).bytes(&Frame::none());
}

#[test]
fn headers_of_neighbouring_slots_fall_into_different_cache_sets() {
    let stride = arena(2).shape().stride;
    assert_eq!(stride % 64, 0);
    assert_eq!((stride / 64) % 2, 1, "an odd number of lines visits every set");
}

#[test]
fn a_pool_gives_up_what_is_over_its_share() {
    let arena = arena(1024);
    let mut first = Pool::new(&arena, 512);
    let second = Pool::new(&arena, 512);
    let lent: Vec<_> = (0..100).map(|_| first.take().expect("a slot")).collect();
    first.set_share(300);
    assert_eq!((first.free(), second.free(), arena.in_depot()), (300, 512, 112));
    first.set_share(400);
    first.restock();
    assert_eq!((first.free(), arena.in_depot()), (400, 12));
    lent.into_iter().for_each(|frame| first.give(frame));
    drop((first, second));
    assert_eq!(arena.in_depot(), 1024);
}

/// How often a frame wanders; enough for the stocks to overflow several times.
const MOVES: u32 = if cfg!(miri) { 700 } else { 5_000 };

#[test]
fn a_pool_that_ends_and_one_that_overflows_feed_the_depot() {
    let arena = arena(1024);
    let mut giver = Pool::new(&arena, 600);
    let mut taker = Pool::new(&arena, 100);
    assert_eq!(arena.in_depot(), 324);
    // Frames wander from one worker to the other until the first has none left.
    let mut moved = 0;
    while let Some(frame) = giver.take() {
        taker.give(frame);
        moved += 1;
        assert!(moved <= MOVES, "slots that come back by the depot may be moved again, but not for ever");
        if moved == MOVES {
            break;
        }
    }
    assert!(taker.free() <= 100 + 256);
    let total = giver.free() + taker.free() + arena.in_depot();
    assert_eq!(total, 1024);
    drop((giver, taker));
    assert_eq!(arena.in_depot(), 1024);
}

const SLOTS: usize = 96;
const STEPS: usize = 200;
const LEN: usize = 500;

/// The property below in small, for Miri: every door to a frame's bytes, used while others' bytes are borrowed.
#[test]
fn bytes_of_several_frames_can_be_held_at_once() {
    let arena = arena(4);
    let mut pool = Pool::new(&arena, 4);
    let (mut a, mut b) = (pool.make(b"one").expect("a slot"), pool.make(b"two").expect("a slot"));
    let (first, second) = (arena.bytes_mut(&mut a), arena.bytes_mut(&mut b));
    first[0] = b'O';
    second[0] = b'T';
    first[1] = second[1];
    assert_eq!((&*first, &*second), (&b"Owe"[..], &b"Two"[..]));
    let whole = arena.space_mut(&mut a);
    whole[3] = b'!';
    assert_eq!(arena.bytes(&b), b"Two");
    arena.set_len(&mut a, 4);
    assert_eq!(arena.bytes(&a), b"Owe!");
    let mut batch = Batch::new();
    assert!(batch.push(a).is_ok() && batch.push(b).is_ok());
    pool.give_all(&mut batch);
    assert_eq!(pool.free(), 4);
    // A slot whose token went to a ring and came back by its address is the same slot.
    let frame = pool.make(b"ring").expect("a slot");
    let (offset, len) = (arena.offset(&frame), frame.len());
    // SAFETY: the only other token of this slot is `frame`, which is not used again.
    let back = unsafe { arena.mint_at(offset, len) }.expect("an address of ours");
    assert_eq!(arena.bytes(&back), b"ring");
    // SAFETY: nothing is minted: the address is none of ours.
    assert!(unsafe { arena.mint_at(4 * u64::from(arena.shape().stride), 1) }.is_none());
    pool.give(back);
}

#[derive(Clone, Debug)]
enum Step {
    Take,
    Give(usize),
    Push(u16),
    Pull(u16),
    ToBatch(usize),
    Drain(usize),
    DropPool,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => Just(Step::Take),
        2 => any::<usize>().prop_map(Step::Give),
        1 => (0u16..400).prop_map(Step::Push),
        1 => (0u16..400).prop_map(Step::Pull),
        2 => any::<usize>().prop_map(Step::ToBatch),
        1 => (0usize..70).prop_map(Step::Drain),
        1 => Just(Step::DropPool),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    #[cfg_attr(miri, ignore = "hours; see the test in small")]
    fn slots_are_conserved_and_never_shared(steps in proptest::collection::vec(step(), 1..STEPS)) {
        let arena = arena(SLOTS as u32);
        let mut pool = Pool::new(&arena, 40);
        let mut held: Vec<(Frame, u8)> = Vec::new();
        let mut batch = Batch::new();
        let mut stamp = 0u8;
        for step in steps {
            match step {
                Step::Take => {
                    if let Some(mut frame) = pool.take() {
                        stamp = stamp.wrapping_add(1);
                        arena.set_len(&mut frame, LEN);
                        arena.bytes_mut(&mut frame).fill(stamp);
                        held.push((frame, stamp));
                    } else {
                        prop_assert_eq!(arena.in_depot(), 0);
                    }
                }
                Step::Give(i) if !held.is_empty() => {
                    let (frame, _) = held.swap_remove(i % held.len());
                    pool.give(frame);
                }
                Step::Push(n) => {
                    if let Some((frame, stamp)) = held.last_mut()
                        && frame.push_front(n).is_ok()
                    {
                        arena.bytes_mut(frame)[..n.into()].fill(*stamp);
                    }
                }
                Step::Pull(n) => {
                    if let Some((frame, _)) = held.last_mut() {
                        let _ = frame.pull_front(n);
                    }
                }
                Step::ToBatch(i) if !held.is_empty() => {
                    let (frame, stamp) = held.swap_remove(i % held.len());
                    if let Err(frame) = batch.push(frame) {
                        prop_assert_eq!(batch.len(), BURST);
                        held.push((frame, stamp));
                    }
                }
                Step::Drain(n) => batch.drain_front(n, |frame| pool.give(frame)),
                Step::DropPool => pool = Pool::new(&arena, 40),
                Step::Give(_) | Step::ToBatch(_) => {}
            }
            prop_assert_eq!(pool.free() + arena.in_depot() + held.len() + batch.len(), SLOTS);
            for (frame, stamp) in &held {
                prop_assert!(arena.bytes(frame).iter().all(|byte| byte == stamp));
            }
        }
    }
}
