//! Known answers: see `data/README.md`.

use crypto::bpi::{Schedule, crc32};
use crypto::{Cipher, Crc, Direction, Engine, Job, Key, KeyId, Outcome};
use frame::{Arena, ArenaConfig, Pool};
use serde::Deserialize;

#[derive(Deserialize)]
struct Vector {
    src: String,
    #[serde(default)]
    case: u32,
    key: String,
    iv: String,
    #[serde(default)]
    crc_offset: usize,
    #[serde(default)]
    cipher_offset: usize,
    #[serde(default)]
    no_cipher: bool,
    #[serde(default)]
    no_crc: bool,
    plain: String,
    out: String,
}

fn bytes(hex: &str) -> Vec<u8> {
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).expect("hexadecimal")).collect()
}

impl Vector {
    fn all() -> Vec<Self> {
        let all: Vec<Self> = serde_json::from_str(include_str!("data/docsis_vectors.json")).expect("readable vectors");
        assert_eq!(all.len(), 32);
        all
    }

    fn name(&self) -> String {
        format!("{} {}", self.src, self.case)
    }

    fn key(&self) -> Key {
        let key = bytes(&self.key);
        let cipher = if key.len() == 16 { Cipher::Aes128 } else { Cipher::Aes256 };
        Key::new(cipher, &key, &bytes(&self.iv)).expect("a key of an AES length")
    }

    /// The frame as it is before encryption, with its CRC.
    fn with_crc(&self) -> Vec<u8> {
        let mut frame = bytes(&self.plain);
        if !self.no_crc {
            let end = frame.len() - 4;
            let crc = crc32(&frame[self.crc_offset..end]);
            frame[end..].copy_from_slice(&crc);
        }
        frame
    }
}

#[test]
fn every_vector_both_ways() {
    for vector in Vector::all() {
        let schedule = Schedule::new(&vector.key());
        let mut frame = vector.with_crc();
        if !vector.no_cipher {
            schedule.encrypt(&mut frame[vector.cipher_offset..]);
        }
        assert_eq!(frame, bytes(&vector.out), "{}", vector.name());
        if !vector.no_cipher {
            schedule.decrypt(&mut frame[vector.cipher_offset..]);
        }
        assert_eq!(frame, vector.with_crc(), "{}", vector.name());
    }
}

/// Those whose encryption begins where a frame's does, through the engine.
#[test]
fn the_engine_agrees() {
    let arena = Arena::new(ArenaConfig { slots: 4, slot_bytes: 2048, headroom: 64 }).expect("an arena");
    let mut pool = Pool::new(&arena, 4);
    let (mut encrypt, mut decrypt) = (Engine::new(Direction::Encrypt), Engine::new(Direction::Decrypt));
    let mut seen = 0;
    for vector in Vector::all().iter().filter(|vector| vector.cipher_offset == vector.crc_offset + 12) {
        seen += 1;
        let (to, from) = match vector.no_cipher {
            true => (KeyId::CLEAR, KeyId::CLEAR),
            false => (encrypt.insert(&vector.key()), decrypt.insert(&vector.key())),
        };
        let crc = if vector.no_crc { Crc::Left } else { Crc::Done };
        let plain = bytes(&vector.plain);
        let sent = if vector.no_crc { &plain[..] } else { &plain[..plain.len() - 4] };
        let at = u16::try_from(vector.crc_offset).expect("a short header");
        let job = |key| Job { key, at, crc, tag: vector.case };

        encrypt.push(pool.make(sent).expect("a slot"), job(to)).expect("room");
        encrypt.flush(&arena);
        let done = encrypt.pop().expect("through");
        assert_eq!((done.outcome, done.tag), (Outcome::Done, vector.case));
        assert_eq!(arena.bytes(&done.frame), bytes(&vector.out), "{}", vector.name());

        decrypt.push(done.frame, job(from)).expect("room");
        decrypt.flush(&arena);
        let done = decrypt.pop().expect("through");
        assert_eq!((done.outcome, done.tag), (Outcome::Done, vector.case));
        assert_eq!(arena.bytes(&done.frame), vector.with_crc(), "{}", vector.name());
        pool.give(done.frame);
    }
    assert_eq!(seen, 18);
}
