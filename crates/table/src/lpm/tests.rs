use proptest::prelude::*;

use super::*;

/// The table by the book: look at everything, take the longest.
fn naive<A: Address>(routes: &BTreeMap<(u8, A), u32>, address: A) -> Option<u32> {
    routes.iter().rev().find(|((len, prefix), _)| address.first(*len) == *prefix).map(|(_, value)| *value)
}

fn agrees<A: Address>(table: &Lpm<A>, routes: &BTreeMap<(u8, A), u32>, addresses: &[A]) {
    assert_eq!(table.len(), routes.len());
    let mut out = vec![None; addresses.len()];
    table.lookup_batch(addresses, &mut out);
    for (&address, found) in addresses.iter().zip(out) {
        assert_eq!(found, naive(routes, address), "{address:?}");
        assert_eq!(found, table.lookup(address));
        assert_eq!(found, table.explain(address).map(|(_, value)| value));
    }
    let all: BTreeMap<_, _> = table.iter().map(|(p, value)| ((p.len, p.address), value)).collect();
    assert_eq!(&all, routes);
}

/// Runs operations on a table and on the naive one. Addresses come close together, so that prefixes nest.
fn run<A: Address>(ops: &[(bool, A, u8, u32)], noise: &[A]) {
    let (mut table, mut routes) = (Lpm::<A>::new(), BTreeMap::new());
    let mut addresses = noise.to_vec();
    for &(put, address, len, value) in ops {
        let prefix = Prefix::new(address, len % (A::BITS + 1)).unwrap();
        let key = (prefix.len, prefix.address);
        if put {
            assert_eq!(table.insert(prefix, value), routes.insert(key, value));
        } else {
            assert_eq!(table.remove(prefix), routes.remove(&key));
        }
        assert_eq!(table.get(prefix), routes.get(&key).copied());
        // Its first and last address, and the neighbours on both sides, as far as one can easily get there.
        addresses.extend([prefix.address, address, prefix.address.with(A::BITS - 1, 1, 1)]);
    }
    agrees(&table, &routes, &addresses);
    for (len, address) in routes.into_keys().collect::<Vec<_>>() {
        assert!(table.remove(Prefix { address, len }).is_some());
    }
    assert!(table.is_empty() && table.iter().next().is_none() && table.root.iter().all(|slot| slot.node == NONE));
    assert!(addresses.iter().all(|&a| table.lookup(a).is_none()));
}

/// Addresses that share long beginnings.
fn close4() -> impl Strategy<Value = u32> {
    (any::<u32>(), 0u32..33).prop_map(|(a, keep)| 0x0a40_0000 ^ a.checked_shr(keep).unwrap_or(0))
}

fn close6() -> impl Strategy<Value = u128> {
    (any::<u128>(), 0u32..129).prop_map(|(a, keep)| (0x2001_0db8 << 96) ^ a.checked_shr(keep).unwrap_or(0))
}

const OPS: usize = if cfg!(miri) { 8 } else { 300 };

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 1 } else { 150 }, failure_persistence: None, ..<_>::default() })]

    #[test]
    fn ipv4_is_the_naive_table(
        ops in prop::collection::vec((prop::bool::weighted(0.7), close4(), any::<u8>(), any::<u32>()), 1..OPS),
        noise in prop::collection::vec(close4(), 10),
    ) {
        run(&ops, &noise);
    }

    #[test]
    fn ipv6_is_the_naive_table(
        ops in prop::collection::vec((prop::bool::weighted(0.7), close6(), any::<u8>(), any::<u32>()), 1..OPS),
        noise in prop::collection::vec(close6(), 10),
    ) {
        run(&ops, &noise);
    }
}

#[test]
fn every_length_of_a_chain_is_found_and_comes_to_light_again() {
    let mut table = Lpm6::new();
    let address = 0x2001_0db8_1234_5678_9abc_def0_1357_9bdfu128;
    for len in 0..=128u32 {
        if !cfg!(miri) || len % 16 == 0 {
            assert_eq!(table.lookup(address), len.checked_sub(1));
        }
        table.insert(Prefix::new(address, len as u8).unwrap(), len);
    }
    let twin = table.clone();
    for len in (0..=128u8).rev() {
        if cfg!(miri) && len % 16 != 0 {
            table.remove(Prefix::new(address, len).unwrap());
            continue;
        }
        assert_eq!(table.explain(address), Some((Prefix::new(address, len).unwrap(), u32::from(len))));
        table.remove(Prefix::new(address, len).unwrap());
    }
    assert_eq!((table.lookup(address), twin.lookup(address), twin.len()), (None, Some(128), 129));
}

#[test]
fn prefixes_are_made_clean() {
    assert!(Prefix::new(0u32, 33).is_none() && Prefix::new(0u128, 129).is_none());
    let prefix = Prefix::new(0x0a01_02ffu32, 24).unwrap();
    assert_eq!((prefix.address(), prefix.len()), (0x0a01_0200, 24));
    assert!(prefix.covers(0x0a01_0203) && !prefix.covers(0x0a01_0303));
    assert!(Prefix::new(u32::MAX, 0).unwrap().covers(7));
}

#[test]
fn memory_comes_back_to_be_used() {
    let mut table = Lpm4::new();
    let n = if cfg!(miri) { 20 } else { 20_000u32 };
    let prefixes: Vec<_> =
        (0..n).filter_map(|i| Prefix::new(i.wrapping_mul(0x9e37_79b1), 16 + (i % 17) as u8)).collect();
    let mut bytes = 0;
    for round in 0..4 {
        for &prefix in &prefixes {
            table.insert(prefix, prefix.address);
        }
        if round == 1 {
            bytes = table.bytes();
        }
        for &prefix in prefixes.iter().skip(round % 2) {
            table.remove(prefix);
        }
    }
    assert!(table.bytes() <= bytes * 5 / 4, "{} {bytes}", table.bytes());
}
