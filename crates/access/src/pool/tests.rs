use super::*;
use crate::ClientKey;
use proptest::prelude::*;
use std::collections::HashSet;

const HOLD: Duration = Duration::from_secs(10);
const START: Time = Time::from_secs(1_000_000);

fn key(n: u16) -> LeaseKey {
    let line = Line { port: n % 3, s_vlan: 100, c_vlan: n };
    LeaseKey { kind: Kind::Ip4, client: ClientKey { line, mac: [2, 0, 0, 0, 0, 1], identifier: 0 } }
}

fn pools(addresses: u8, excluded: &[u8]) -> Pools {
    let mut range = Range::ip4(1, [10, 0, 0, 0].into(), [10, 0, 0, addresses - 1].into());
    range.excluded = excluded.iter().map(|n| (IpAddr::from([10, 0, 0, *n]), IpAddr::from([10, 0, 0, *n]))).collect();
    Pools::new(&[range], Limits::default()).expect("a good pool")
}

#[test]
fn clients_that_return_get_their_address() {
    let mut pools = pools(2, &[]);
    let first = pools.offer(key(1), 1, None, START, HOLD).unwrap();
    let address = pools.address(first);
    pools.grant(first, START.secs() + 100, 100);
    pools.release(first);
    let second = pools.offer(key(2), 1, None, START, HOLD).unwrap();
    assert_ne!(pools.address(second), address);
    let again = pools.offer(key(1), 1, None, START, HOLD).unwrap();
    assert_eq!(pools.address(again), address);
    assert_eq!(pools.offer(key(3), 1, None, START, HOLD), Err(Refusal::Exhausted));
}

#[test]
fn declined_address_rests_in_quarantine() {
    let mut pools = pools(1, &[]);
    let slot = pools.offer(key(1), 1, None, START, HOLD).unwrap();
    pools.decline(slot, START);
    assert_eq!(pools.offer(key(1), 1, None, START, HOLD), Err(Refusal::Exhausted));
    let later = START + Duration::from_secs(86_400);
    assert!(pools.offer(key(1), 1, None, later, HOLD).is_ok());
}

#[test]
fn quarantine_counts_against_the_lines_limit() {
    let range = Range::ip4(1, [10, 0, 0, 0].into(), [10, 0, 0, 99].into());
    let mut pools = Pools::new(&[range], Limits { per_line: 2, ..Limits::default() }).unwrap();
    for _ in 0..2 {
        let slot = pools.offer(key(1), 1, None, START, HOLD).unwrap();
        pools.decline(slot, START);
    }
    assert_eq!(pools.offer(key(1), 1, None, START, HOLD), Err(Refusal::LineLimit));
    assert!(pools.offer(key(2), 1, None, START, HOLD).is_ok());
    let later = START + Duration::from_secs(86_400);
    assert!(pools.offer(key(1), 1, None, later, HOLD).is_ok());
    assert_eq!(pools.quarantined(), 0);
}

#[test]
fn leases_go_on_in_another_process() {
    let mut old = pools(4, &[]);
    let slots: Vec<_> = (1..=3).map(|n| old.offer(key(n), 1, None, START, HOLD).expect("free")).collect();
    old.grant(slots[0], START.secs() + 100, 100);
    old.mark(slots[0], 7);
    old.decline(slots[1], START);
    let mut new = pools(4, &[]);
    for handed in old.handed() {
        new.take_in(&handed, START).expect("there is a pool");
    }
    old.resting().for_each(|rests| new.let_rest(&rests));
    assert_eq!((new.bound(), new.quarantined()), (1, 1));
    let seen = |pools: &Pools, n: u16| {
        let slot = pools.find(&key(n)).expect("a lease");
        let lease = pools.lease(slot);
        (lease.state(), lease.expiry(), lease.stored(), pools.address(slot), pools.is_marked(slot, 8))
    };
    for n in [1, 3] {
        assert_eq!(seen(&new, n), seen(&old, n));
    }
    assert!(new.offer(key(4), 1, None, START, HOLD).is_ok());
    assert_eq!(
        new.offer(key(5), 1, None, START, HOLD),
        Err(Refusal::Exhausted),
        "one is granted, two offered, one rests"
    );
    new.expire(START + Duration::from_secs(100), 9, |_, _| ());
    assert_eq!(new.bound(), 0);
    let refused = pools(1, &[]).take_in(&old.handed().nth(1).expect("offered"), START);
    assert!(matches!(refused, Err(NotRestored::NoPool(1, _))), "{refused:?}");
}

#[test]
fn leases_that_left_may_come_back() {
    let mut pools = pools(4, &[]);
    let slots: Vec<_> = (1..=3).map(|n| pools.offer(key(n), 1, None, START, HOLD).expect("free")).collect();
    slots.iter().take(2).for_each(|slot| assert!(pools.grant(*slot, START.secs() + 100, 100)));
    let handed: Vec<_> = pools.handed().collect();
    // Its address would be remembered for it.
    pools.release(slots[1]);
    pools.let_go(2);
    assert_eq!((pools.bound(), pools.handed().count()), (1, 2), "another group's");
    pools.let_go(1);
    assert_eq!((pools.bound(), pools.handed().count()), (0, 0));
    for one in &handed {
        pools.take_in(one, START).expect("nobody has its address");
    }
    assert_eq!((pools.bound(), pools.handed().count()), (2, 3));
    assert!(pools.offer(key(4), 1, None, START, HOLD).is_ok());
    assert_eq!(pools.offer(key(5), 1, None, START, HOLD), Err(Refusal::Exhausted));
}

#[test]
fn overlapping_pools_are_refused() {
    let a = Range::ip4(1, [10, 0, 0, 0].into(), [10, 0, 0, 9].into());
    let b = Range::ip4(2, [10, 0, 0, 9].into(), [10, 0, 0, 19].into());
    assert!(matches!(Pools::new(&[a, b], Limits::default()), Err(BadPool::Overlap(..))));
}

#[test]
fn lines_and_ports_have_limits() {
    let range = Range::ip4(1, [10, 0, 0, 0].into(), [10, 0, 0, 99].into());
    let limits = Limits { per_line: 2, per_port: 3, ..Limits::default() };
    let mut pools = Pools::new(&[range], limits).unwrap();
    let client = |c_vlan, mac| LeaseKey {
        kind: Kind::Ip4,
        client: ClientKey { line: Line { port: 1, s_vlan: 1, c_vlan }, mac: [mac; 6], identifier: 0 },
    };
    let mut offer = |c_vlan, mac| pools.offer(client(c_vlan, mac), 1, None, START, HOLD).map(|_| ());
    assert_eq!((offer(1, 2), offer(1, 4), offer(1, 6)), (Ok(()), Ok(()), Err(Refusal::LineLimit)));
    assert_eq!((offer(2, 2), offer(3, 2)), (Ok(()), Err(Refusal::PortLimit)));
}

#[test]
fn shared_vlan_pairs_have_a_limit() {
    let range = Range::ip4(1, [10, 0, 0, 0].into(), [10, 0, 0, 99].into());
    let mut pools = Pools::new(&[range], Limits { per_pair: 3, ..Limits::default() }).unwrap();
    pools.share(1);
    let client = |c_vlan, mac| LeaseKey {
        kind: Kind::Ip4,
        client: ClientKey { line: Line { port: 1, s_vlan: 1, c_vlan }, mac: [mac; 6], identifier: 0 },
    };
    let got: Vec<_> = (2..6).map(|mac| pools.offer(client(1, mac), 1, None, START, HOLD)).collect();
    assert!(got[..3].iter().all(Result::is_ok) && got[3] == Err(Refusal::PairLimit), "{got:?}");
    assert!(pools.offer(client(2, 2), 1, None, START, HOLD).is_ok(), "another pair");
    // Nor can invented hardware addresses have the whole pool rest.
    got[..3].iter().for_each(|slot| pools.decline(slot.unwrap(), START));
    assert_eq!((pools.quarantined(), pools.offer(client(1, 9), 1, None, START, HOLD)), (3, Err(Refusal::PairLimit)));
    let later = START + Duration::from_secs(86_400);
    assert!(pools.offer(client(1, 9), 1, None, later, HOLD).is_ok());
}

#[test]
fn delegated_prefixes_step_by_their_length() {
    let range = Range {
        group: 1,
        kind: Kind::Pd,
        first: "2001:db8:100::".parse().unwrap(),
        last: "2001:db8:100:300::".parse().unwrap(),
        prefix_len: 56,
        excluded: vec![("2001:db8:100:105::".parse().unwrap(), "2001:db8:100:105::".parse().unwrap())],
    };
    let mut pools = Pools::new(&[range], Limits::default()).unwrap();
    let got: Vec<_> = (0..4)
        .map(|n| pools.offer(LeaseKey { kind: Kind::Pd, ..key(n) }, 1, None, START, HOLD).map(|s| pools.address(s)))
        .collect();
    let prefix = |text: &str| Ok(text.parse().unwrap());
    let wanted = [prefix("2001:db8:100::"), prefix("2001:db8:100:200::"), prefix("2001:db8:100:300::")];
    assert_eq!(got[..3], wanted);
    assert_eq!(got[3], Err(Refusal::Exhausted));
}

/// A pool of 16 million addresses, from 10.0.0.0 on.
fn wide() -> Pools {
    let range = Range::ip4(1, [10, 0, 0, 0].into(), [10, 255, 255, 255].into());
    Pools::new(&[range], Limits { per_line: u32::MAX, ..Limits::default() }).expect("a good pool")
}

/// A client among many of a line.
fn host(n: u64) -> LeaseKey {
    LeaseKey { kind: Kind::Ip4, client: ClientKey { identifier: n + 1, ..key(0).client } }
}

#[test]
fn far_address_takes_memory_for_itself_only() {
    let mut pools = wide();
    let far = Ipv4Addr::new(10, 255, 255, 254);
    let slot = pools.offer(key(1), 1, Some(far.into()), START, HOLD).unwrap();
    assert_eq!(pools.ip4(slot), Some(far));
    assert!(pools.memory() < 4096, "{} bytes", pools.memory());
    // Others get theirs in turn, and the far one to nobody else.
    let near = pools.offer(key(2), 1, Some(far.into()), START, HOLD).unwrap();
    assert_eq!(pools.ip4(near), Some([10, 0, 0, 0].into()));
}

#[test]
fn offers_that_ended_take_no_memory() {
    let (mut pools, mut now) = (wide(), START);
    for n in 0..20_000 {
        let wanted = Ipv4Addr::from(0x0a00_0000 + (n as u32).wrapping_mul(0x9e37_79b1) % (1 << 24));
        pools.offer(host(n), 1, Some(wanted.into()).filter(|_| n % 2 == 0), now, HOLD).unwrap();
        now = now + Duration::from_secs(1);
        pools.expire(now, 100, |_, _| unreachable!("nothing was granted"));
    }
    assert!(pools.memory() < 32_768, "{} bytes", pools.memory());
    assert!(pools.find(&host(0)).is_none());
}

#[test]
fn remembered_leases_are_bounded_by_granted_ones() {
    let mut pools = wide();
    let most = REMEMBERED as u64 + 1;
    for n in 0..most + 100 {
        let slot = pools.offer(host(n), 1, None, START, HOLD).unwrap();
        pools.grant(slot, START.secs() + 3600, 3600);
        pools.release(slot);
    }
    let remembered = |n: u64| pools.find(&host(n)).is_some();
    assert!(!remembered(0) && !remembered(99) && remembered(100) && remembered(most + 99));
    assert_eq!(pools.index.len(), most as usize);
}

#[test]
fn wall_clock_set_on_has_leases_stored_again() {
    let mut pools = pools(2, &[]);
    let slot = pools.offer(key(1), 1, None, START, HOLD).unwrap();
    assert!(pools.grant(slot, START.secs() + 3600, 3600));
    assert!(!pools.grant(slot, START.secs() + 5400, 3600));
    pools.wall_clock_set(3600);
    // The record ends an hour from now, before the lease that is told.
    assert!(pools.grant(slot, START.secs() + 5400, 3600));
    pools.wall_clock_set(-3600);
    assert!(!pools.grant(slot, START.secs() + 7200, 3600));
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Offer(u16, Option<u8>),
    Grant(u16),
    Release(u16),
    Decline(u16),
    Pass(u32),
    Restart,
}

#[test]
fn one_address_of_each_prefix_is_leased() {
    let first: IpAddr = "2001:db8:100::".parse().unwrap();
    let last: IpAddr = "2001:db8:100:3:ffff:ffff:ffff:ffff".parse().unwrap();
    let range = Range { group: 1, kind: Kind::Na, first, last, prefix_len: 64, excluded: vec![(first, first)] };
    let mut pools = Pools::new(&[range], Limits::default()).unwrap();
    let na = |n| LeaseKey { kind: Kind::Na, ..key(n) };
    let mut got = Vec::new();
    for n in 0..3 {
        let slot = pools.offer(na(n), 1, None, START, HOLD).unwrap();
        pools.grant(slot, START.secs() + 3600, 3600);
        got.push(pools.address(slot).to_string());
        let record = pools.record(slot);
        assert_eq!((record.prefix_len, LeaseRecord::decode(&record.encode())), (128, Ok(record)));
    }
    assert_eq!(got, ["2001:db8:100:1::1", "2001:db8:100:2::1", "2001:db8:100:3::1"]);
    assert_eq!(pools.offer(na(4), 1, None, START, HOLD), Err(Refusal::Exhausted));
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0u16..24, proptest::option::of(0u8..20)).prop_map(|(n, a)| Step::Offer(n, a)),
        4 => (0u16..24).prop_map(Step::Grant),
        2 => (0u16..24).prop_map(Step::Release),
        1 => (0u16..24).prop_map(Step::Decline),
        3 => (0u32..60_000).prop_map(Step::Pass),
        1 => Just(Step::Restart),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn no_address_belongs_to_two_clients(steps in proptest::collection::vec(step(), 1..200)) {
        let fresh = || pools(16, &[0, 7, 15]);
        let (mut pools, mut now) = (fresh(), START);
        for step in steps {
            let live = |pools: &Pools, n| pools.find(&key(n)).filter(|s| pools.lease(*s).state() != State::Idle);
            match step {
                Step::Offer(n, a) => {
                    let wanted = a.map(|a| IpAddr::from([10, 0, 0, a]));
                    pools.offer(key(n), 1, wanted, now, HOLD).ok();
                }
                Step::Grant(n) => {
                    if let Some(slot) = live(&pools, n) { pools.grant(slot, now.secs() + 3600, 3600); }
                }
                Step::Release(n) => if let Some(slot) = pools.find(&key(n)) { pools.release(slot); },
                Step::Decline(n) => if let Some(slot) = pools.find(&key(n)) { pools.decline(slot, now); },
                Step::Pass(seconds) => {
                    now = now + Duration::from_secs(seconds.into());
                    while pools.expire(now, 5, |pools, slot| assert_eq!(pools.lease(slot).state(), State::Bound)) {}
                }
                Step::Restart => {
                    let records: Vec<_> = pools.granted().map(|slot| pools.record(slot)).collect();
                    let mut next = fresh();
                    for record in &records {
                        let again = LeaseRecord::decode(&record.encode()).unwrap();
                        let slot = next.restore(&again, now).unwrap();
                        prop_assert_eq!(next.record(slot), *record);
                    }
                    prop_assert_eq!(next.bound(), records.len());
                    pools = next;
                }
            }
            let mut seen = HashSet::new();
            for n in 0..24 {
                let Some(slot) = live(&pools, n) else { continue };
                let address = pools.ip4(slot).unwrap();
                prop_assert!(seen.insert(address), "{} twice", address);
                prop_assert!(![0, 7, 15].contains(&address.octets()[3]));
                prop_assert_eq!(pools.lease(slot).key(), key(n));
            }
            prop_assert!(seen.len() + pools.quarantined() <= 13);
            prop_assert_eq!(pools.lines.values().sum::<u32>() as usize, seen.len() + pools.quarantined());
        }
    }
}
