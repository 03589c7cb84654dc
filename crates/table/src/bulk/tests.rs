use std::collections::HashMap;

use proptest::prelude::*;

use super::*;

fn scaled(n: usize) -> usize {
    if cfg!(miri) { (n / 1000).max(20) } else { n }
}

fn agrees<K: Key + std::hash::Hash + std::fmt::Debug>(map: &BulkMap<K, u32>, model: &HashMap<K, u32>, keys: &[K]) {
    assert_eq!(map.len(), model.len());
    let mut out = vec![None; keys.len()];
    map.lookup_batch(keys, &mut out);
    for (key, found) in keys.iter().zip(out) {
        assert_eq!(found, model.get(key).copied(), "{key:?}");
        assert_eq!(map.get(*key), found);
        let near = map.get_or_ask(map.prefetch(*key), *key);
        assert!(near.is_none() || near == found, "{key:?}: {near:?}");
    }
    let mut all: Vec<_> = map.iter().map(|(_, v)| v).collect();
    let mut expected: Vec<_> = model.values().copied().collect();
    all.sort_unstable();
    expected.sort_unstable();
    assert_eq!(all, expected);
}

#[derive(Clone, Debug)]
enum Op {
    Insert(u16, u32),
    Remove(u16),
    Get(u16),
    Settle(u8),
    Clear,
}

fn op() -> impl Strategy<Value = Op> {
    // Few different keys, so that replacing and removing hit.
    prop_oneof![
        60 => (0u16..600, any::<u32>()).prop_map(|(k, v)| Op::Insert(k, v)),
        25 => (0u16..600).prop_map(Op::Remove),
        10 => (0u16..600).prop_map(Op::Get),
        4 => any::<u8>().prop_map(Op::Settle),
        1 => Just(Op::Clear),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 1 } else { 200 }, failure_persistence: None, ..<_>::default() })]

    #[test]
    fn behaves_like_the_standard_map(ops in prop::collection::vec(op(), 1..if cfg!(miri) { 50 } else { 2000 }), seed: u128) {
        let mut map = BulkMap::<u128, u32>::with_capacity(4, Seed::new(seed)).unwrap();
        let mut model = HashMap::new();
        let wide = |k: u16| u128::from(k) << 90 | u128::from(k);
        for op in ops {
            match op {
                Op::Insert(k, v) => prop_assert_eq!(map.insert(wide(k), v), Ok(model.insert(wide(k), v))),
                Op::Remove(k) => prop_assert_eq!(map.remove(wide(k)), model.remove(&wide(k))),
                Op::Get(k) => prop_assert_eq!(map.get_mut(wide(k)).copied(), model.get(&wide(k)).copied()),
                Op::Settle(n) => { map.settle(n.into()); }
                Op::Clear => { map.clear(); model.clear(); }
            }
        }
        let keys: Vec<_> = (0..600).map(wide).collect();
        agrees(&map, &model, &keys);
        map.live.check(&map.seed);
        if let Some(old) = &map.old { old.table.check(&map.seed); }
    }
}

#[test]
fn grows_from_nothing_and_empties_again() {
    let mut map = BulkMap::<u32, u32>::with_capacity(0, Seed::new(9)).unwrap();
    let n = scaled(300_000) as u32;
    for k in 0..n {
        assert_eq!(map.insert(k * 256, k), Ok(None));
        assert!(map.get(k * 256) == Some(k) && map.get(k * 256 + 1).is_none());
    }
    map.live.check(&map.seed);
    assert!((0..n).all(|k| map.get(k * 256) == Some(k)));
    assert!(map.settle(usize::MAX));
    assert!((0..n).all(|k| map.remove(k * 256) == Some(k)));
    assert!(map.is_empty() && map.iter().next().is_none());
    map.live.check(&map.seed);
}

#[test]
fn room_is_made_for_many_at_once() {
    let (few, many) = (scaled(50), scaled(20_000));
    let mut map = BulkMap::<u32, u32>::with_capacity(few, Seed::new(5)).unwrap();
    let mut model = HashMap::new();
    // Some are there, and a growth is under way.
    for n in 0..2 * few as u32 {
        map.insert(n, n + 1).unwrap();
        model.insert(n, n + 1);
    }
    map.reserve(many).unwrap();
    let (room, bytes) = (map.capacity(), map.bytes());
    assert!(room >= many);
    map.reserve(few).unwrap();
    for n in 0..many as u32 {
        map.insert(n, n + 2).unwrap();
        model.insert(n, n + 2);
    }
    assert_eq!((map.capacity(), map.bytes()), (room, bytes), "it has not grown");
    agrees(&map, &model, &(0..many as u32 + 100).collect::<Vec<_>>());
}

#[test]
fn its_capacity_fits_without_growing_for_every_key_type() {
    fn fill<K: Key + std::hash::Hash + std::fmt::Debug>(key: impl Fn(u32) -> K) {
        let mut map = BulkMap::with_capacity(scaled(40_000), Seed::random()).unwrap();
        let mut model = HashMap::new();
        let bytes = map.bytes();
        for i in 0..map.capacity() as u32 {
            map.insert(key(i), i).unwrap();
            model.insert(key(i), i);
        }
        assert_eq!(map.bytes(), bytes);
        map.live.check(&map.seed);
        let keys: Vec<_> = (0..scaled(50_000) as u32).map(&key).collect();
        agrees(&map, &model, &keys);
    }
    fill(|i| i);
    fill(|i| u64::from(i) << 20);
    fill(|i| (i % 7, i / 7));
    fill(|i| (i % 7, u64::from(i / 7) << 32));
    fill(|i| u128::from(i) << 64);
    fill(|i| (u128::from(i) << 48).to_be_bytes());
    fill(|i| [2, 0, (i >> 24) as u8, (i >> 16) as u8, (i >> 8) as u8, i as u8]);
}

#[test]
#[cfg_attr(miri, ignore = "a small map has no pages to ask for")]
fn a_large_map_has_its_next_table_before_it_grows() {
    let mut map = BulkMap::<u32, u32>::with_capacity(200_000, Seed::random()).unwrap();
    let (most, bytes) = (map.capacity() as u32, map.bytes());
    let near = most - most / 16;
    (0..near).for_each(|i| assert_eq!(map.insert(i, i), Ok(None)));
    assert_eq!((map.next.is_some(), map.bytes()), (false, bytes));
    assert_eq!(map.insert(near, near), Ok(None));
    let ready = map.next.as_ref().map(Cuckoo::buckets);
    assert!(ready > Some(map.live.buckets()) && map.bytes() > bytes * 2, "{ready:?}");
    (near + 1..most + 1).for_each(|i| assert_eq!(map.insert(i, i), Ok(None)));
    assert!(map.next.is_none() && ready == Some(map.live.buckets()));
    assert!((0..=most).all(|i| map.get(i) == Some(i)));
}

#[test]
fn a_full_map_has_five_of_six_keys_in_their_first_bucket() {
    let mut map = BulkMap::with_capacity(scaled(50_000), Seed::new(7)).unwrap();
    let keys = 0..map.capacity() as u32;
    keys.clone().for_each(|key| assert_eq!(map.insert(key, key), Ok(None)));
    let near = keys.clone().filter(|key| map.get_or_ask(map.prefetch(*key), *key).is_some()).count();
    assert!(near > keys.len() * 4 / 5 && near < keys.len(), "{near} of {}", keys.len());
}

#[test]
fn a_million_small_entries_stay_under_twenty_megabytes() {
    let map = BulkMap::<u32, u32>::with_capacity(scaled(1_000_000), Seed::new(0)).unwrap();
    assert!(map.bytes() <= 20_000_000 && map.capacity() >= scaled(1_000_000), "{}", map.bytes());
}

#[test]
fn overfull_tables_still_make_room_and_say_when_they_can_not() {
    let seed = Seed::new(5);
    let n = scaled(20_000);
    let mut table = Cuckoo::<u32, u32>::new(n / 7).unwrap();
    let mut placed = 0;
    while table.place(&seed, seed.hash(&placed), placed, placed) {
        placed += 1;
    }
    let load = f64::from(placed) / (n / 7 * 7) as f64;
    assert!(load > if cfg!(miri) { 0.9 } else { 0.97 }, "{load}");
    table.check(&seed);
    assert!((0..placed).all(|k| table.get(seed.hash(&k), &k) == Some(k)));
}

/// A key whose author got the hash wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
struct Same(u32);
impl Key for Same {
    fn words(&self) -> (u64, u64) {
        (1, 1)
    }
}

#[test]
fn a_worthless_hash_ends_in_an_error_not_in_endless_growth() {
    let mut map = BulkMap::with_capacity(1000, Seed::new(3)).unwrap();
    let mut kept = 0;
    while map.insert(Same(kept), kept).is_ok() {
        kept += 1;
        assert!(kept < 100);
    }
    assert!(kept >= 14);
    assert!((0..kept).all(|k| map.get(Same(k)) == Some(k)));
    assert_eq!(map.insert(Same(0), 7), Ok(Some(0)), "known keys can still be set");
}

#[test]
fn lookups_during_growth_see_both_tables() {
    let mut map = BulkMap::<u64, u32>::with_capacity(scaled(5_000), Seed::new(1)).unwrap();
    let full = map.capacity() as u64;
    for k in 0..=full {
        map.insert(k, k as u32).unwrap();
    }
    assert!(map.old.is_some(), "growth has just begun");
    let keys: Vec<u64> = (0..full + 100).collect();
    let mut out = vec![None; keys.len()];
    map.lookup_batch(&keys, &mut out);
    assert!(keys.iter().zip(&out).all(|(&k, &v)| v == (k <= full).then_some(k as u32)));
    *map.get_mut(full / 2).unwrap() = 1;
    assert_eq!(map.insert(full / 2, 2), Ok(Some(1)));
    while !map.settle(1) {}
    assert_eq!(map.get(full / 2), Some(2));
    map.live.check(&map.seed);
}
