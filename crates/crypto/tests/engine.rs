//! The engine against RustCrypto, and what it promises about order and memory.

use std::sync::Arc;

use crypto::bpi::{Schedule, crc32};
use crypto::{Cipher, Crc, Direction, Engine, FLIGHT, Job, Key, KeyId, Outcome, ROOM};
use frame::{Arena, ArenaConfig, Frame, Pool};
use proptest::prelude::*;

const AT: u16 = 17;

fn memory(slots: u32) -> (Arc<Arena>, Pool) {
    let arena = Arena::new(ArenaConfig { slots, slot_bytes: 2304, headroom: 128 }).expect("an arena");
    let pool = Pool::new(&arena, slots as usize);
    (arena, pool)
}

/// Bytes that differ from number to number.
fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(2).wrapping_add(1);
    let mut step = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    };
    (0..len + 8).map(|_| step()).skip(8).collect()
}

fn key(seed: u64) -> Key {
    let cipher = [Cipher::Aes128, Cipher::Aes128, Cipher::Aes256, Cipher::Des56][(seed % 4) as usize];
    let bytes = noise(seed ^ 0x5eed, 48);
    Key::new(cipher, &bytes[..cipher.key_bytes()], &bytes[32..32 + cipher.block_bytes()])
        .expect("lengths are the cipher's")
}

/// What must come out of a frame that is encrypted.
fn expected(schedule: Option<&Schedule>, packet: &[u8], crc: bool) -> Vec<u8> {
    let mut out = packet.to_vec();
    if crc {
        out.extend(crc32(&packet[AT.into()..]));
    }
    if let Some(schedule) = schedule {
        schedule.encrypt(&mut out[usize::from(AT) + 12..]);
    }
    out
}

/// Every length from 14 to 2000, under many keys, in flight beside each other: both engines give what RustCrypto gives a
/// frame alone, and decrypting gives the frame again.
#[test]
fn every_length_both_ways() {
    let (arena, mut pool) = memory(512);
    let keys: Vec<Key> = (0..40).map(key).collect();
    let schedules: Vec<Schedule> = keys.iter().map(Schedule::new).collect();
    for make in [Engine::new, Engine::soft] {
        let (mut encrypt, mut decrypt) = (make(Direction::Encrypt), make(Direction::Decrypt));
        let ids: Vec<(KeyId, KeyId)> = keys.iter().map(|key| (encrypt.insert(key), decrypt.insert(key))).collect();
        let of = |len: usize| (len * 7 % keys.len(), !len.is_multiple_of(3));
        let packet = |len: usize| noise(len as u64, usize::from(AT) + len);
        let mut next = 14;
        let mut back = 14;
        for turn in 0.. {
            let end = (next + 1 + turn % 64).min(2001);
            for len in next..end {
                let (which, crc) = of(len);
                let crc = if crc { Crc::Done } else { Crc::Left };
                let job = Job { key: ids[which].0, at: AT, crc, tag: len as u32 };
                encrypt.push(pool.make(&packet(len)).expect("a slot"), job).expect("room");
            }
            next = end;
            if next == 2001 {
                encrypt.flush(&arena)
            } else {
                encrypt.run(&arena)
            }
            while let Some(done) = encrypt.pop() {
                let (which, crc) = of(done.tag as usize);
                assert_eq!(done.outcome, Outcome::Done);
                let clear = packet(done.tag as usize);
                assert_eq!(arena.bytes(&done.frame), expected(Some(&schedules[which]), &clear, crc), "{}", done.tag);
                let crc = if crc { Crc::Done } else { Crc::Left };
                decrypt.push(done.frame, Job { key: ids[which].1, at: AT, crc, tag: done.tag }).expect("room");
            }
            if next == 2001 {
                decrypt.flush(&arena)
            } else {
                decrypt.run(&arena)
            }
            while let Some(done) = decrypt.pop() {
                assert_eq!((done.outcome, done.tag), (Outcome::Done, back), "in the order of submission");
                back += 1;
                let clear = packet(done.tag as usize);
                let (_, crc) = of(done.tag as usize);
                assert_eq!(arena.bytes(&done.frame), expected(None, &clear, crc));
                pool.give(done.frame);
            }
            if next == 2001 {
                break;
            }
        }
        assert_eq!((back, pool.free()), (2001, 512));
    }
}

#[derive(Clone, Debug)]
enum Step {
    Push { len: usize, key: usize, crc: bool },
    Run,
    Flush,
    Pop(usize),
    Rekey(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        12 => (0usize..2080, 0usize..9, any::<bool>()).prop_map(|(len, key, crc)| Step::Push { len, key, crc }),
        4 => Just(Step::Run),
        1 => Just(Step::Flush),
        4 => (0usize..80).prop_map(Step::Pop),
        1 => (0usize..8).prop_map(Step::Rekey),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    /// Whatever is done in whatever order: what comes out is what the soft engine gives, in order, with the same
    /// outcomes; nothing stays longer than promised; no slot is lost.
    #[test]
    fn both_engines_agree(steps in prop::collection::vec(step(), 1..400), encrypting in any::<bool>()) {
        let (arena, mut pool) = memory(1200);
        let way = if encrypting { Direction::Encrypt } else { Direction::Decrypt };
        let mut engines = [Engine::new(way), Engine::soft(way)];
        let mut ids: Vec<Vec<KeyId>> =
            engines.iter_mut().map(|engine| (0..8).map(|n| engine.insert(&key(n))).collect()).collect();
        let mut out: [Vec<(u32, Outcome, Vec<u8>)>; 2] = Default::default();
        let mut pop = |engine: usize, engines: &mut [Engine; 2], pool: &mut Pool, most: usize| {
            for _ in 0..most {
                let Some(done) = engines[engine].pop() else { break };
                out[engine].push((done.tag, done.outcome, arena.bytes(&done.frame).to_vec()));
                pool.give(done.frame);
            }
        };
        for (tag, step) in steps.iter().enumerate() {
            for which in 0..2 {
                match *step {
                    Step::Push { len, key: number, crc } => {
                        let id = if number == 8 { KeyId::CLEAR } else { ids[which][number] };
                        // An odd number: a packet that ends before its Ethernet frame begins, too.
                        let packet = noise(tag as u64, len);
                        let crc = if crc { Crc::Done } else { Crc::Left };
                        if engines[which].room() == 0 {
                            engines[which].flush(&arena);
                            pop(which, &mut engines, &mut pool, ROOM);
                        }
                        let frame: Frame = pool.make(&packet).expect("a slot");
                        let job = Job { key: id, at: AT, crc, tag: tag as u32 };
                        engines[which].push(frame, job).expect("room");
                    }
                    Step::Run => {
                        engines[which].run(&arena);
                        pop(which, &mut engines, &mut pool, ROOM);
                        prop_assert!(engines[which].held() <= 2 * FLIGHT);
                    }
                    Step::Flush => {
                        engines[which].flush(&arena);
                        pop(which, &mut engines, &mut pool, ROOM);
                        prop_assert_eq!(engines[which].held(), 0);
                    }
                    Step::Pop(most) => pop(which, &mut engines, &mut pool, most),
                    Step::Rekey(number) => {
                        prop_assert!(engines[which].remove(&arena, ids[which][number]));
                        prop_assert!(!engines[which].remove(&arena, ids[which][number]));
                        ids[which][number] = engines[which].insert(&key(100 + tag as u64));
                    }
                }
            }
        }
        for which in 0..2 {
            engines[which].flush(&arena);
            pop(which, &mut engines, &mut pool, ROOM);
        }
        prop_assert_eq!(pool.free(), 1200);
        let pushed: Vec<u32> = (0u32..).zip(&steps).filter(|(_, s)| matches!(s, Step::Push { .. })).map(|(n, _)| n).collect();
        prop_assert_eq!(out[0].iter().map(|(tag, ..)| *tag).collect::<Vec<_>>(), pushed);
        prop_assert_eq!(&out[0], &out[1]);
    }
}

/// A bit flipped anywhere behind the addresses is a wrong CRC; one flipped in them, too.
#[test]
fn a_flipped_bit_is_found() {
    let (arena, mut pool) = memory(4);
    for make in [Engine::new, Engine::soft] {
        let (mut encrypt, mut decrypt) = (make(Direction::Encrypt), make(Direction::Decrypt));
        let (to, from) = (encrypt.insert(&key(0)), decrypt.insert(&key(0)));
        for bit in 0..8 * 70 {
            let frame = pool.make(&noise(1, 66)).expect("a slot");
            encrypt.push(frame, Job { key: to, at: 0, crc: Crc::Done, tag: 0 }).expect("room");
            encrypt.flush(&arena);
            let mut frame = encrypt.pop().expect("through").frame;
            arena.bytes_mut(&mut frame)[bit / 8] ^= 1 << (bit % 8);
            decrypt.push(frame, Job { key: from, at: 0, crc: Crc::Done, tag: 0 }).expect("room");
            decrypt.flush(&arena);
            let done = decrypt.pop().expect("through");
            assert_eq!(done.outcome, Outcome::BadCrc);
            pool.give(done.frame);
        }
    }
}

/// Without a key nothing is done; a key that went and came again is another.
#[test]
fn keys_that_are_not_there() {
    let (arena, mut pool) = memory(1);
    let mut engine = Engine::new(Direction::Encrypt);
    let id = engine.insert(&key(0));
    assert!(engine.remove(&arena, id));
    assert_eq!((engine.remove(&arena, id), engine.remove(&arena, KeyId::CLEAR), engine.keys()), (false, false, 0));
    engine.push(pool.make(&[7; 60]).expect("a slot"), Job { key: id, at: 0, crc: Crc::Done, tag: 3 }).expect("room");
    engine.flush(&arena);
    let done = engine.pop().expect("through");
    assert_eq!((done.outcome, arena.bytes(&done.frame)), (Outcome::NoKey, &[7; 60][..]));
    pool.give(done.frame);
    assert_eq!(engine.insert(&key(1)), id);
}
