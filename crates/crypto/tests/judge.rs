//! An independent implementation reads what we encrypt and writes what we decrypt: `tests/judge/bpi.py`, on the cipher of
//! Python's `cryptography`. `make setup` installs it.

use std::path::Path;
use std::process::Command;

use crypto::{Cipher, Crc, Direction, Engine, Job, Key, KeyId, Outcome};
use frame::{Arena, ArenaConfig, Pool};

fn judge(arguments: &[&str]) -> String {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let output = Command::new(workspace.join("target/judge/bin/python3"))
        .arg(workspace.join("tests/judge/bpi.py"))
        .args(arguments)
        .output()
        .expect("python runs: make setup");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

fn bytes(hex: &str) -> Vec<u8> {
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).expect("hexadecimal")).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

struct Line {
    key: Key,
    at: u16,
    clear: Vec<u8>,
    encrypted: Vec<u8>,
}

impl Line {
    fn read(cipher: Cipher, line: &str) -> Self {
        let fields: Vec<&str> = line.split(' ').collect();
        Self {
            key: Key::new(cipher, &bytes(fields[0]), &bytes(fields[1])).expect("as long as keys and vectors are"),
            at: fields[2].parse().expect("an offset"),
            clear: bytes(fields[3]),
            encrypted: bytes(fields[4]),
        }
    }
}

/// All lines through an engine, in bursts; what comes out, in order.
fn through(mut engine: Engine, arena: &std::sync::Arc<Arena>, jobs: &[(Line, Vec<u8>)]) -> Vec<(Outcome, Vec<u8>)> {
    let mut pool = Pool::new(arena, 512);
    let mut out = Vec::new();
    let keys: Vec<KeyId> = jobs.iter().map(|(line, _)| engine.insert(&line.key)).collect();
    for (burst, jobs) in jobs.chunks(48).enumerate() {
        for (n, (line, bytes)) in jobs.iter().enumerate() {
            let job = Job { key: keys[burst * 48 + n], at: line.at, crc: Crc::Done, tag: 0 };
            engine.push(pool.make(bytes).expect("a slot"), job).expect("room");
        }
        if jobs.len() == 48 {
            engine.run(arena)
        } else {
            engine.flush(arena)
        }
        while let Some(done) = engine.pop() {
            out.push((done.outcome, arena.bytes(&done.frame).to_vec()));
            pool.give(done.frame);
        }
    }
    out
}

#[test]
fn others_read_what_we_write_and_write_what_we_read() {
    for (cipher, name) in [(Cipher::Aes128, "aes128"), (Cipher::Aes256, "aes256"), (Cipher::Des56, "des56")] {
        both_ways(cipher, name);
    }
}

/// Frames of every length under one cipher, by the fast engine and the plain one.
fn both_ways(cipher: Cipher, cipher_name: &str) {
    let arena = Arena::new(ArenaConfig { slots: 512, slot_bytes: 2304, headroom: 64 }).expect("an arena");
    let theirs = judge(&["write", "7", cipher_name]);
    for (name, make) in [("engine", Engine::new as fn(_) -> Engine), ("soft", Engine::soft)] {
        let lines = || theirs.lines().map(|line| Line::read(cipher, line));
        let expected = |pick: fn(Line) -> Vec<u8>| lines().map(|line| (Outcome::Done, pick(line))).collect::<Vec<_>>();

        let jobs: Vec<_> = lines()
            .map(|line| {
                let clear = line.clear.clone();
                (line, clear)
            })
            .collect();
        assert_eq!(jobs.len(), 1987);
        let ours = through(make(Direction::Encrypt), &arena, &jobs);
        assert!(ours == expected(|line| line.encrypted), "{name} encrypts {cipher_name} as they do");

        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("bpi-{cipher_name}-{name}.txt"));
        let written = jobs.iter().zip(&ours).map(|((line, _), (_, encrypted))| {
            let (key, clear) = (&line.key, hex(&line.clear));
            format!("{} {} {} {clear} {}\n", hex(key.bytes()), hex(key.iv()), line.at, hex(encrypted))
        });
        std::fs::write(&path, written.collect::<String>()).expect("a file of frames");
        assert_eq!(judge(&["read", path.to_str().expect("a path")]).trim(), "1987");

        let jobs: Vec<_> = lines()
            .map(|line| {
                let sent = line.encrypted.clone();
                (line, sent)
            })
            .collect();
        let mut back = through(make(Direction::Decrypt), &arena, &jobs);
        back.iter_mut().for_each(|(_, frame)| frame.truncate(frame.len() - 4));
        assert!(back == expected(|line| line.clear), "{name} reads the {cipher_name} they wrote");
    }
}
