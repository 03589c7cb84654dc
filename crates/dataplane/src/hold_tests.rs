use std::collections::VecDeque;

use proptest::prelude::*;

use super::*;

fn take(hold: &mut Hold, key: u32) -> Option<(Held, Vec<u8>)> {
    let mut out = vec![0xee; 3000];
    let held = hold.pop(key, &mut out)?;
    assert!(out[held.len..].iter().all(|b| *b == 0xee));
    out.truncate(held.len);
    Some((held, out))
}

#[test]
fn first_in_first_out_per_key() {
    let mut hold = Hold::new(4096, 8, 4);
    hold.push(7, 1, b"one", 10).unwrap();
    hold.push(9, 2, &[2; 700], 11).unwrap();
    hold.push(7, 3, b"", 12).unwrap();
    assert_eq!((hold.packets(), hold.bytes(), hold.packets_of(7), hold.oldest()), (3, 703, 2, Some(10)));
    assert_eq!(hold.front(9), Some(Held { tag: 2, len: 700, at: 11 }));
    assert_eq!(hold.pop(9, &mut [0; 699]), None, "too short: it stays");
    assert_eq!(take(&mut hold, 7), Some((Held { tag: 1, len: 3, at: 10 }, b"one".to_vec())));
    assert_eq!(take(&mut hold, 7), Some((Held { tag: 3, len: 0, at: 12 }, vec![])));
    assert_eq!(take(&mut hold, 7), None);
    assert_eq!(take(&mut hold, 9), Some((Held { tag: 2, len: 700, at: 11 }, vec![2; 700])));
    assert_eq!((hold.packets(), hold.bytes(), hold.oldest()), (0, 0, None));
}

#[test]
fn every_bound_is_named() {
    let mut hold = Hold::new(1024, 5, 2);
    hold.push(1, 0, &[1; 256], 0).unwrap();
    hold.push(1, 0, &[1; 1], 0).unwrap();
    assert_eq!(hold.push(1, 0, &[1; 1], 0), Err(Full::Key));
    assert_eq!(hold.push(2, 0, &[1; 513], 0), Err(Full::Bytes));
    hold.push(2, 0, &[1; 512], 0).unwrap();
    assert_eq!(hold.push(3, 0, &[1; 1], 0), Err(Full::Bytes));
    hold.push(3, 0, &[], 0).unwrap();
    hold.push(4, 0, &[], 0).unwrap();
    assert_eq!(hold.push(5, 0, &[], 0), Err(Full::Packets));
    assert_eq!(hold.drop_key(1), Discarded { packets: 2, bytes: 257 });
    assert_eq!(hold.drop_key(1), Discarded::default());
    hold.push(5, 0, &[1; 512], 0).unwrap();
    assert_eq!(Hold::new(0, 0, 1).push(1, 0, &[], 0), Err(Full::Packets));
    assert_eq!(Hold::new(0, 1, 1).push(1, 0, &[1], 0), Err(Full::Bytes));
    assert_eq!(Hold::new(256, 1, 0).push(1, 0, &[1], 0), Err(Full::Key));
}

#[test]
fn the_old_go_first() {
    let mut hold = Hold::new(4096, 8, 8);
    for (key, at) in [(1, 10), (2, 20), (1, 30)] {
        hold.push(key, at, &[0; 100], at).unwrap();
    }
    let mut gone = Vec::new();
    assert_eq!((hold.due(50, 41), hold.due(50, 40), Hold::new(0, 0, 0).due(50, 0)), (None, Some(1), None));
    assert_eq!(hold.expire(50, 41, |_, _| unreachable!()), Discarded::default());
    let discarded = hold.expire(50, 30, |key, held| gone.push((key, held.tag)));
    assert_eq!((discarded, gone), (Discarded { packets: 2, bytes: 200 }, vec![(1, 10), (2, 20)]));
    assert_eq!((hold.packets(), hold.front(2), hold.front(1).map(|h| h.tag)), (1, None, Some(30)));
}

/// The same, naively.
#[derive(Default)]
struct Model(VecDeque<(u32, Held, Vec<u8>)>);

impl Model {
    fn blocks(&self) -> usize {
        self.0.iter().map(|(_, held, _)| held.len.div_ceil(BLOCK)).sum()
    }

    fn push(&mut self, key: u32, tag: u64, bytes: &[u8], at: u64) -> Result<(), Full> {
        if self.of(key) >= 6 {
            return Err(Full::Key);
        }
        if self.0.len() >= 20 {
            return Err(Full::Packets);
        }
        if self.blocks() + bytes.len().div_ceil(BLOCK) > 24 {
            return Err(Full::Bytes);
        }
        self.0.push_back((key, Held { tag, len: bytes.len(), at }, bytes.to_vec()));
        Ok(())
    }

    fn of(&self, key: u32) -> usize {
        self.0.iter().filter(|(k, ..)| *k == key).count()
    }

    fn pop(&mut self, key: u32) -> Option<(Held, Vec<u8>)> {
        let at = self.0.iter().position(|(k, ..)| *k == key)?;
        self.0.remove(at).map(|(_, held, bytes)| (held, bytes))
    }

    fn remove(&mut self, which: impl Fn(&(u32, Held, Vec<u8>)) -> bool) -> Vec<(u32, Held)> {
        let gone = self.0.iter().filter(|p| which(p)).map(|(key, held, _)| (*key, *held)).collect();
        self.0.retain(|p| !which(p));
        gone
    }
}

fn sum(gone: &[(u32, Held)]) -> Discarded {
    Discarded { packets: gone.len(), bytes: gone.iter().map(|(_, held)| held.len).sum() }
}

proptest! {
    #[test]
    fn it_does_what_a_list_would_do(
        steps in prop::collection::vec((0u8..10, 0u32..9, 0usize..1100, 0u64..20), 0..400),
    ) {
        let (mut hold, mut model, mut now) = (Hold::new(24 * BLOCK, 20, 6), Model::default(), 0);
        for (n, (what, key, len, later)) in steps.into_iter().enumerate() {
            now += later;
            // Keys that fall into one bucket and keys that do not.
            let key = key << (key % 3 * 13);
            match what {
                0..5 => {
                    let bytes: Vec<u8> = (0..len).map(|i| (i * 7 + n) as u8).collect();
                    prop_assert_eq!(hold.push(key, n as u64, &bytes, now), model.push(key, n as u64, &bytes, now));
                }
                5..8 => prop_assert_eq!(take(&mut hold, key), model.pop(key)),
                8 => prop_assert_eq!(hold.drop_key(key), sum(&model.remove(|(k, ..)| *k == key))),
                _ => {
                    let mut gone = Vec::new();
                    let discarded = hold.expire(now, 60, |key, held| gone.push((key, *held)));
                    let expected = model.remove(|(_, held, _)| now - held.at >= 60);
                    prop_assert_eq!((discarded, gone), (sum(&expected), expected));
                }
            }
            prop_assert_eq!(hold.packets(), model.0.len());
            prop_assert_eq!(hold.bytes(), model.0.iter().map(|(_, held, _)| held.len).sum::<usize>());
            prop_assert_eq!(hold.free_blocks, 24 - model.blocks());
            prop_assert_eq!(hold.packets_of(key), model.of(key));
            prop_assert_eq!(hold.oldest(), model.0.front().map(|(_, held, _)| held.at));
        }
    }
}

#[test]
fn packets_are_shown_oldest_first_and_stay() {
    let mut hold = Hold::new(4096, 8, 4);
    hold.push(7, 1, b"one", 10).unwrap();
    hold.push(9, 2, &[2; 700], 11).unwrap();
    hold.push(7, 3, b"", 12).unwrap();
    let mut shown = Vec::new();
    hold.each(&mut [0; 1500], |key, held, bytes| shown.push((key, held.tag, held.at, bytes.to_vec())));
    assert_eq!(shown, [(7, 1, 10, b"one".to_vec()), (9, 2, 11, vec![2; 700]), (7, 3, 12, vec![])]);
    assert_eq!(hold.packets(), 3);
}

#[test]
fn each_key_is_shown_once_with_its_oldest_packet() {
    let mut hold = Hold::new(4096, 8, 4);
    hold.push(9, 2, &[2; 700], 11).unwrap();
    hold.push(7, 1, b"one", 12).unwrap();
    hold.push(9, 3, b"two", 13).unwrap();
    assert_eq!(hold.keys().collect::<Vec<_>>(), [9, 7]);
    assert_eq!(
        (hold.front_bytes(9), hold.front_bytes(7), hold.front_bytes(5)),
        (&[2; BLOCK][..], &b"one"[..], &[][..])
    );
    hold.drop_key(7);
    assert_eq!(hold.keys().collect::<Vec<_>>(), [9]);
}
