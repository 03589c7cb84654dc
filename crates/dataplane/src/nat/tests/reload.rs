//! Public addresses changed while it translates.

use super::*;

fn pools(list: &[(u8, u8)]) -> Config {
    let address = |last: u8| Ipv4Addr::new(198, 51, 100, last);
    let pool = |(first, last): &(u8, u8)| Pool { instance: INSTANCE, first: address(*first), last: address(*last) };
    Config { pools: list.iter().map(pool).collect(), ..config() }
}

fn reload(rig: &mut Rig, all: &mut Addresses, config: &Config) {
    let (new, changes) = all.change(config).expect("room");
    *all = new;
    changes.into_iter().for_each(|mut change| rig.nat.change(&mut change));
}

#[test]
fn an_address_taken_out_keeps_its_subscribers() {
    let (before, after) = (pools(&[(0, 0)]), pools(&[(7, 8)]));
    let (mut rig, mut all) = (Rig::new(&before), Addresses::new(&before, 1));
    let old = rig.udp((ue(1), 1000)).expect("a mapping");
    assert_eq!(old.0, FIRST);
    reload(&mut rig, &mut all, &after);
    assert_eq!(rig.udp((ue(1), 1000)), Ok(old), "the mapping stays");
    assert_eq!(rig.udp((ue(1), 1001)).map(|end| end.0), Ok(FIRST), "its subscriber's address stays");
    let new = rig.udp((ue(2), 1000)).expect("a mapping");
    assert!([7, 8].contains(&new.0.octets()[3]), "{new:?}");
    for (end, ue) in [(old, ue(1)), (new, ue(2))] {
        let mut packet = ip4(REMOTE, end.0).udp(53, end.1).filled(20).build();
        assert_eq!(rig.inward(&mut packet), Ok(()));
        assert_eq!(L3L4::parse(&packet).expect("a packet").dst, u32::from(ue));
    }
}

#[test]
fn an_address_that_comes_again_is_the_same() {
    let (one, both) = (pools(&[(0, 1)]), pools(&[(0, 1), (7, 8)]));
    let (mut rig, mut all) = (Rig::new(&one), Addresses::new(&one, 1));
    for _ in 0..50 {
        reload(&mut rig, &mut all, &both);
        let since = all.clone();
        reload(&mut rig, &mut all, &one);
        assert_eq!(all.since(&since).count(), 0);
    }
    let blocks = rig.nat.levels()[0].2;
    assert_eq!(blocks, 4 * one.blocks_per_address() as u64, "two addresses were added, once");
}

#[test]
fn workers_share_new_addresses_and_keep_theirs() {
    let all = Addresses::new(&pools(&[(0, 3)]), 2);
    let (new, _) = all.change(&pools(&[(0, 7)])).expect("room");
    let added: Vec<_> = new.since(&all).map(|(owner, _, first, last)| (owner, first & 0xff, last & 0xff)).collect();
    assert_eq!(added, [(0, 4, 5), (1, 6, 7)]);
    // The lower half is worker 0's: the other would have nothing.
    assert_eq!(new.change(&pools(&[(0, 1)])).err(), Some(Refused::NoAddress));
    let other = Config { pools: vec![Pool { instance: 9, ..config().pools[0] }], ..config() };
    assert_eq!(all.change(&other).err(), Some(Refused::Instances));
}

proptest! {
    #[test]
    fn reloads_give_no_port_twice(steps in prop::collection::vec((0usize..4, 1u8..9, 1000u16..1040), 1..80)) {
        let choices = [pools(&[(0, 1)]), pools(&[(0, 0)]), pools(&[(1, 3), (9, 9)]), pools(&[(9, 12)])];
        let (mut rig, mut all) = (Rig::new(&choices[0]), Addresses::new(&choices[0], 1));
        let (mut ends, mut now) = (BTreeMap::new(), 0);
        for (choice, subscriber, port) in steps {
            if choice != now && subscriber > 6 {
                reload(&mut rig, &mut all, &choices[choice]);
                now = choice;
            }
            let from = (ue(subscriber), port);
            let Ok(end) = rig.udp(from) else { continue };
            let known = ends.insert(from, end);
            prop_assert!(known.is_none_or(|known| known == end), "a mapping stays as it is");
        }
        let distinct: BTreeSet<_> = ends.values().collect();
        prop_assert_eq!(distinct.len(), ends.len());
        for (from, end) in &ends {
            let mut packet = ip4(REMOTE, end.0).udp(53, end.1).filled(20).build();
            prop_assert_eq!(rig.inward(&mut packet), Ok(()));
            prop_assert_eq!(L3L4::parse(&packet).expect("a packet").dst, u32::from(from.0));
        }
    }
}
