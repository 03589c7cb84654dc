use super::*;

/// A session is its control plane's number of it, and at most one set.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Plain;

impl FrontEnd for Plain {
    type Rules = u64;
    type Report = u64;
    type Deferred = u64;
    type Set = u64;

    fn parse(message: &[u8]) -> u64 {
        message[..8].try_into().map_or(0, u64::from_be_bytes)
    }

    fn write(rules: &u64, out: &mut Vec<u8>) -> bool {
        out.extend(rules.to_be_bytes());
        out.extend([0; 12]);
        *rules < 1000
    }

    fn stamp(message: &mut [u8], seid: u64, mark: u32) {
        message[8..16].copy_from_slice(&seid.to_be_bytes());
        message[16..].copy_from_slice(&mark.to_be_bytes());
    }

    fn peer_seid(rules: &u64) -> u64 {
        *rules
    }

    fn sets(rules: &u64) -> Vec<(u64, Option<u8>)> {
        vec![(*rules, None)]
    }

    fn octets(report: &u64) -> u64 {
        *report
    }

    fn write_reports(reports: &[u64]) -> Vec<u8> {
        reports.iter().flat_map(|report| report.to_be_bytes()).collect()
    }

    fn read_reports(octets: &[u8]) -> Vec<u64> {
        octets.as_chunks().0.iter().map(|report| u64::from_be_bytes(*report)).collect()
    }
}

pub(crate) type SessionStore = super::SessionStore<Plain>;

#[test]
fn a_session_is_kept_as_its_message() {
    let mut store = SessionStore::default();
    assert_eq!(store.written(&1000), None, "longer than a message may be");
    let seid = put(&mut store, 7, vec![]);
    store.set_sets(0, vec![(7, None)]);
    assert_eq!(store.sets().find(0, (7, None)).count(), 1);
    let kept = store.get(0).expect("there");
    assert_eq!(
        (kept.rules(), &kept.message()[8..16], &kept.message()[16..]),
        (7, &seid.to_be_bytes()[..], &[0, 0, 0, 1][..])
    );
    store.rewrite(0, &8);
    assert_eq!(store.get(0).map(|kept| (kept.rules(), kept.cp_seid)), Some((8, 8)));
    store.rewrite(0, &7);
    store.take(0).expect("there");
    assert_eq!(store.sets().find(0, (7, None)).count(), 0);
}

pub(crate) fn put(store: &mut SessionStore, cp_seid: u64, keys: Vec<Key>) -> u64 {
    let message = store.written(&cp_seid).expect("short");
    store.put(0, 0, cp_seid, message, vec![], keys)
}

#[test]
fn a_session_is_found_by_its_seid_and_by_nobody_elses() {
    let mut store = SessionStore::default();
    let seids: Vec<u64> = (0..3).map(|n| put(&mut store, n, vec![Key::Teid(n as u32)])).collect();
    assert_eq!(seids.iter().map(|seid| store.find(*seid)).collect::<Vec<_>>(), [Some(0), Some(1), Some(2)]);
    assert_eq!(store.find(seids[0] ^ 1 << 40), None);
    assert_eq!(store.find(0), None);
    assert_eq!(store.lookup(Key::Teid(1)), Some(1));
    store.take(1).expect("there");
    assert_eq!((store.find(seids[1]), store.lookup(Key::Teid(1)), store.len()), (None, None, 2));
    let mut again = put(&mut store, 9, vec![]);
    assert_eq!(store.find(again), Some(3), "a number rests before it comes again");
    while let Some(number) = store.find(again).filter(|number| *number != 1) {
        store.take(number);
        again = put(&mut store, 9, vec![]);
    }
    assert_ne!(again, seids[1], "the number comes again, the SEID does not");
    assert_eq!((store.find(again), store.find(seids[1])), (Some(1), None));
}

#[test]
fn sessions_of_an_association_are_listed_without_others() {
    let mut store = SessionStore::default();
    for n in 0..9 {
        let message = store.written(&n).expect("short");
        store.put(n as u32 % 3, 0, n, message, vec![], vec![]);
    }
    let of = |store: &SessionStore, peer: u32| store.numbers_of_peer(peer).collect::<Vec<_>>();
    assert_eq!((of(&store, 0), of(&store, 1), of(&store, 3)), (vec![6, 3, 0], vec![7, 4, 1], vec![]));
    for number in [3, 1, 6] {
        store.take(number).expect("there");
    }
    assert_eq!((of(&store, 0), of(&store, 1), of(&store, 2)), (vec![0], vec![7, 4], vec![8, 5, 2]));
    for number in [0, 8, 5, 2] {
        store.take(number).expect("there");
    }
    assert_eq!((of(&store, 0), of(&store, 2), store.of_peer(0), store.of_peer(1)), (vec![], vec![], 0, 2));
}

#[test]
fn keys_of_another_session_are_a_conflict() {
    let mut store = SessionStore::default();
    put(&mut store, 1, vec![Key::Teid(5)]);
    assert_eq!(store.conflict(&[Key::Teid(4), Key::Teid(5)], None), Some(Key::Teid(5)));
    assert_eq!(store.conflict(&[Key::Teid(5)], Some(0)), None);
    store.set_keys(0, vec![Key::Teid(6)]);
    assert_eq!((store.lookup(Key::Teid(5)), store.lookup(Key::Teid(6))), (None, Some(0)));
}
