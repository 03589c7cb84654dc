//! The checker against injected faults whose number is known.

use std::collections::{HashMap, HashSet};

use proptest::prelude::*;
use traffic::{Checker, Direction, Generator, Plan, Profile, Seen, Signature, Verify, inspect};

/// What may happen to a packet on its way.
#[derive(Clone, Copy, Debug)]
enum Fate {
    Arrives,
    Lost,
    Twice,
    /// Comes that many packets later.
    Late(usize),
    /// A bit of its checksummed header flips.
    Damaged,
    /// Its magic number is gone.
    Unsigned,
}

fn fate() -> impl Strategy<Value = Fate> {
    prop_oneof![
        12 => Just(Fate::Arrives),
        1 => Just(Fate::Lost),
        1 => Just(Fate::Twice),
        2 => (1usize..60).prop_map(Fate::Late),
        1 => Just(Fate::Damaged),
        1 => Just(Fate::Unsigned),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn every_fault_is_told_apart(
        ues in 1u32..8, flows_per_bearer in 1u16..4, ipv6_share in prop_oneof![Just(0.0), Just(0.5)],
        fates in prop::collection::vec(fate(), 1..600), down: bool,
    ) {
        let direction = if down { Direction::Downlink } else { Direction::Uplink };
        let plan = Plan::new(Profile { ues, flows_per_bearer, ipv6_share, ..Profile::default() }).unwrap();
        let mut generator = Generator::new(&plan, direction).unwrap();
        // When each packet arrives: in order, late ones moved, the repeated one right behind itself.
        let mut arrivals = vec![];
        let (mut sent, mut want) = (0, Seen::default());
        for (i, fate) in fates.iter().enumerate() {
            let mut frame = vec![0; 400];
            let len = generator.next(&mut frame, 1000 + i as u64).unwrap();
            frame.truncate(len);
            sent += 1;
            let at = arrivals.len();
            match fate {
                Fate::Arrives => arrivals.push((i * 2, at, frame)),
                Fate::Lost => {}
                Fate::Twice => {
                    arrivals.push((i * 2, at, frame.clone()));
                    arrivals.push((i * 2, at + 1, frame));
                }
                Fate::Late(n) => arrivals.push(((i + n) * 2 + 1, at, frame)),
                Fate::Damaged => {
                    // The IPv6 header has no checksum: break its version.
                    frame[14] ^= 0x80;
                    want.corrupt += 1;
                    arrivals.push((i * 2, at, frame));
                }
                Fate::Unsigned => {
                    let magic = Signature::magic(direction).to_be_bytes();
                    let place = frame.windows(2).rposition(|w| w == magic).unwrap();
                    frame[place] ^= 0xff;
                    want.foreign += 1;
                    arrivals.push((i * 2, at, frame));
                }
            }
        }
        arrivals.sort_by_key(|(when, at, _)| (*when, *at));

        let mut checker = Checker::new(&plan, direction, Verify { payload: false, ..Verify::NONE });
        let (mut seen, mut latest) = (HashSet::new(), HashMap::new());
        for (when, _, frame) in arrivals {
            checker.check(&frame, 1_000_000 + when as u64);
            let Ok(found) = inspect(&frame) else { continue };
            let (flow, seq) = (found.mark.flow, found.mark.seq);
            let top = latest.entry(flow).or_insert(seq);
            if !seen.insert((flow, seq)) && *top - seq.min(*top) < 32 {
                want.duplicated += 1;
            } else if seq >= *top {
                *top = seq;
                want.in_order += 1;
                want.ip_bytes += found.packet.len() as u64;
            } else if *top - seq < 32 {
                want.reordered += 1;
                want.ip_bytes += found.packet.len() as u64;
            } else {
                want.stale += 1;
            }
        }
        prop_assert_eq!(checker.seen(), want);
        prop_assert_eq!(checker.latencies().count(), want.received());
        let lost = fates.iter().filter(|f| matches!(f, Fate::Lost | Fate::Damaged | Fate::Unsigned)).count() as u64;
        prop_assert_eq!(sent - want.received(), lost + want.stale);
    }

    #[test]
    fn a_flipped_bit_anywhere_is_not_received(bit in 0usize..128 * 8, v6: bool) {
        let ipv6_share = if v6 { 1.0 } else { 0.0 };
        let plan = Plan::new(Profile { ipv6_share, ..Profile::default() }).unwrap();
        let mut generator = Generator::new(&plan, Direction::Downlink).unwrap();
        let mut frame = vec![0; 400];
        let len = generator.next(&mut frame, 1000).unwrap();
        // The user's packet only: hardware addresses are no part of any checksum.
        let at = 14 * 8 + bit % ((len - 14) * 8);
        frame.truncate(len);
        frame[at / 8] ^= 1 << (at % 8);
        // Fields that routers change, or mean nothing here: traffic class, flow label, hop limit.
        prop_assume!(!v6 || !(14..18).contains(&(at / 8)) || at / 8 == 14 && at % 8 >= 4);
        prop_assume!(!v6 || at / 8 != 21);
        let mut checker = Checker::new(&plan, Direction::Downlink, Verify { payload: true, ..Verify::NONE });
        checker.check(&frame, 2000);
        prop_assert_eq!((checker.seen().received(), checker.seen().all()), (0, 1), "bit {}", at);
    }
}

#[test]
fn packets_of_before_are_early_and_impossible_marks_corrupt() {
    let plan = Plan::new(Profile { ues: 4, ..Profile::default() }).unwrap();
    let mut generator = Generator::new(&plan, Direction::Downlink).unwrap();
    let mut checker = Checker::new(&plan, Direction::Downlink, Verify::NONE);
    let mut next = |at| {
        let mut frame = vec![0; 400];
        let len = generator.next(&mut frame, at).unwrap();
        frame.truncate(len);
        frame
    };
    let (before, after, future) = (next(100), next(200), next(5_000_000_000));
    checker.count_from(150);
    checker.check(&before, 300);
    checker.check(&after, 300);
    checker.check(&after, 300);
    checker.check(&future, 300);
    let other = Plan::new(Profile { ues: 2, ..Profile::default() }).unwrap();
    let mut small = Checker::new(&other, Direction::Downlink, Verify::NONE);
    small.check(&next(400), 500);
    let seen = checker.seen();
    assert_eq!((seen.early, seen.in_order, seen.duplicated, seen.corrupt), (1, 1, 1, 1));
    assert_eq!((small.seen().corrupt, small.seen().all()), (1, 1));
    assert_eq!((checker.latencies().count(), checker.latencies().max()), (1, 100));
    // The other direction's packets are not this checker's.
    let mut up = Checker::new(&plan, Direction::Uplink, Verify::NONE);
    assert!(!up.check_signed(&after, 300));
    assert_eq!(up.seen(), Seen::default());
}
