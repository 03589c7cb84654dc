use proptest::prelude::*;

use super::*;

const SECOND: u64 = NANO;

#[test]
fn what_is_left_is_told_in_bytes() {
    let config = Config::new(Rate::kbps(8), 1000);
    let mut state = State::full(&config, SECOND);
    assert_eq!(bytes_left(&config, &state, SECOND), 1000);
    assert!(conform(&config, &mut state, SECOND, 300));
    assert_eq!((bytes_left(&config, &state, SECOND), bytes_left(&config, &state, SECOND + SECOND / 10)), (700, 800));
    assert_eq!(bytes_left(&config, &state, 9 * SECOND), 1000, "no more than it holds");
    state.credit = -1;
    assert_eq!(bytes_left(&config, &state, SECOND), 0, "one that owes");
}

#[test]
fn saturated_it_passes_its_rate_to_the_packet() {
    // Awkward rates and steps that divide nothing: two weeks at 1 kbit/s, twenty minutes at 400 Gbit/s.
    for (rate, bytes) in [(Rate::kbps(1), 64), (Rate::bps(333_333_333), 1499), (Rate::gbps(400), 1500)] {
        let config = Config::over(rate, 20_000_000, 9000);
        let start = 123_456_789;
        let mut state = State { credit: 0, last_ns: start };
        let (mut now, mut passed) = (start, 0u128);
        let price = u128::from(bytes) * 8 * u128::from(NANO);
        for round in 0..if cfg!(miri) { 200 } else { 50_000 } {
            now += config.fill_ns() / 3 + round % 7;
            while conform(&config, &mut state, now, bytes) {
                passed += price;
                // Many packets at once: the same subtraction without the loop.
                let more = state.credit as u128 / price;
                let more = if more > 40 { more - 1 } else { 0 };
                state.credit -= (more * price) as i64;
                passed += more * price;
            }
        }
        let earned = u128::from(rate.0) * u128::from(now - start);
        assert!(passed <= earned && earned - passed < price, "{rate:?}: {passed} of {earned}");
    }
}

#[test]
fn two_million_odd_steps_do_not_drift_by_a_nano_bit() {
    let config = Config::new(Rate::bps(13_229), 10_000_000);
    let mut state = State { credit: 0, last_ns: 0 };
    let (mut now, mut charged) = (0u64, 0i128);
    for i in 0..if cfg!(miri) { 1000 } else { 2_000_000u64 } {
        now += 907_199_111 + i % 13; // three weeks in all
        charge(&config, &mut state, now, 1500);
        charged += i128::from(cost(1500));
        if state.credit < -config.depth {
            // Pay back exactly, so that debt doesn't grow without bound.
            state.credit += config.depth;
            charged -= i128::from(config.depth);
        }
    }
    let expected = i128::from(config.rate.0) * i128::from(now) - charged;
    assert_eq!(i128::from(state.credit), expected);
}

#[test]
fn long_idle_fills_to_the_depth_and_no_further() {
    for rate in [Rate::bps(1), Rate::kbps(1), Rate::gbps(400), Rate::UNLIMITED] {
        let config = Config::new(rate, 3000);
        for credit in [i64::MIN, -1, 0, config.depth] {
            let mut state = State { credit, last_ns: 5 };
            refill(&config, &mut state, u64::MAX);
            assert!(state.credit <= config.depth && state.credit >= credit);
            if rate > Rate::bps(1) || credit >= 0 {
                assert_eq!(state.credit, config.depth);
            }
        }
    }
}

#[test]
fn time_never_goes_back() {
    let config = Config::new(Rate::mbps(1), 1500);
    let mut state = State::full(&config, 1_000_000);
    assert!(conform(&config, &mut state, 1_000_000, 1500));
    assert!(!conform(&config, &mut state, 0, 1));
    assert_eq!(state, State { credit: 0, last_ns: 1_000_000 });
    assert!(!conform(&config, &mut state, 1_007_999, 1));
    assert!(conform(&config, &mut state, 1_008_000, 1));
}

#[test]
fn the_edges_of_the_configuration() {
    assert_eq!(size_of::<State>(), 16);
    let closed = Config::new(Rate::bps(0), 0);
    let mut state = State::default();
    assert!(!conform(&closed, &mut state, u64::MAX, 1) && conform(&closed, &mut state, u64::MAX, 0));
    assert_eq!((closed.fill_ns(), ready_at(&closed, &state, 1)), (u64::MAX, None));
    let open = Config::new(Rate::UNLIMITED, 0);
    let mut state = State::default();
    assert!((0..if cfg!(miri) { 100 } else { 100_000 }).all(|_| conform(&open, &mut state, 1, 9000)));
    assert_eq!(Config::new(Rate::gbps(400), u64::MAX).depth, i64::MAX);
    assert_eq!(Config::over(Rate::gbps(400), u64::MAX, 0).depth, i64::MAX);
    assert_eq!(Config::over(Rate::mbps(8), 1_000_000, 100).depth, Config::new(Rate::mbps(8), 1000).depth);
    let mut state = State::full(&Config::new(Rate::kbps(1), 9), 0);
    assert!(!conform(&Config::new(Rate::kbps(1), u64::MAX), &mut state, 0, u32::MAX));
}

#[test]
fn a_change_of_rate_keeps_the_credit() {
    let (slow, fast) = (Config::new(Rate::kbps(8), 5000), Config::new(Rate::mbps(80), 2000));
    let mut state = State { credit: 0, last_ns: 0 };
    // One second at 8 kbit/s earns 1000 bytes, not the 10 MB the new rate would.
    retune(&slow, &fast, &mut state, SECOND);
    assert_eq!(state.credit, cost(1000));
    state.credit = cost(3000);
    retune(&fast, &fast, &mut state, SECOND);
    assert_eq!(state.credit, cost(2000), "not more than the new depth");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 3 } else { 512 }, failure_persistence: None, ..<_>::default() })]

    #[test]
    fn never_more_than_depth_and_rate_allow(
        rate in prop_oneof![1_000u64..1_000_000, 1_000_000u64..400_000_000_000],
        burst in 0u64..20_000_000,
        steps in prop::collection::vec((prop_oneof![0u64..2_000, 0u64..2_000_000_000, 0u64..1_000_000_000_000_000], 0u32..10_000), 1..if cfg!(miri) { 20 } else { 200 }),
    ) {
        let config = Config::new(Rate::bps(rate), burst);
        let mut state = State::full(&config, 77);
        let (mut now, mut passed) = (77u64, 0i128);
        for (gap, bytes) in steps {
            now += gap;
            let before = state;
            if conform(&config, &mut state, now, bytes) {
                passed += i128::from(bytes) * 8 * i128::from(NANO);
            } else {
                // Refused only when the credit really falls short of the packet.
                prop_assert!(state.credit < cost(bytes));
                match ready_at(&config, &state, bytes) {
                    Some(at) => {
                        let mut later = state;
                        prop_assert!(!conform(&config, &mut later, at - 1, bytes));
                        prop_assert!(conform(&config, &mut later, at, bytes));
                    }
                    None => prop_assert!(cost(bytes) > config.depth),
                }
            }
            prop_assert!(state.credit >= 0 && state.credit <= config.depth && state.last_ns >= before.last_ns);
            prop_assert!(passed <= i128::from(config.depth) + i128::from(rate) * i128::from(now - 77));
        }
    }

    #[test]
    fn two_buckets_agree_or_neither_pays(
        rates in [0u64..10_000_000, 0u64..10_000_000],
        steps in prop::collection::vec((0u64..10_000_000, 0u32..3_000), 1..100),
    ) {
        let configs = rates.map(|rate| Config::new(Rate::bps(rate), 4_000));
        let mut pair = configs.map(|config| State::full(&config, 5));
        let mut model = pair;
        let mut now = 5;
        for (gap, bytes) in steps {
            now += gap;
            let [a, b] = &mut pair;
            let passes = conform_both((&configs[0], a), (&configs[1], b), now, cost(bytes));
            let [a, b] = &mut model;
            prop_assert_eq!(passes, (affords(&configs[0], a, now, bytes), affords(&configs[1], b, now, bytes)));
            if passes == (true, true) {
                model.iter_mut().for_each(|state| take(state, bytes));
            }
            prop_assert_eq!(pair, model);
        }
    }

    #[test]
    fn looking_often_is_as_good_as_looking_once(rate in 1_000u64..400_000_000_000, gaps in prop::collection::vec(0u64..100_000, 1..100)) {
        let config = Config::new(Rate::bps(rate), 1_000_000_000);
        let (mut often, mut now) = (State::default(), 0);
        for gap in gaps {
            now += gap;
            refill(&config, &mut often, now);
        }
        let mut once = State::default();
        refill(&config, &mut once, now);
        prop_assert_eq!(often.credit, once.credit);
    }
}
