//! kill -9 at any moment: what was said to be durable is there, in order, and nothing is half.
//!
//! A child process submits changes that follow from a running number alone, and says which tickets are durable. The parent
//! kills it, opens the ledger, finds how far it came, and compares all of it with what those changes make.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use ledger::{Change, Filter, Ledger, Pace, Record, Refused};

const ROUNDS: u32 = 25;
const TOGETHER: Duration = Duration::from_secs(10);
const FOLDER: &str = "WEIR_LEDGER_KILLED";
/// The session that says how far it came.
const MARK: u64 = u64::MAX;
const KEYS: u64 = 500;

/// Submission n, and of all submissions before it nothing else.
fn changes(n: u64) -> Vec<Change> {
    let key = n.wrapping_mul(0x9e37_79b9) % KEYS;
    let bytes = vec![n as u8; 300 + n as usize % 700];
    let record = Record { data_network_name: format!("submission {n}"), ..Record::default() };
    let mut changes = vec![Change::PutSession { key: MARK, bytes: n.to_le_bytes().to_vec() }];
    changes.extend(match n % 5 {
        0 => vec![Change::DeleteSession { key }, Change::DropCheckpoint { key }, Change::Append(Box::new(record))],
        1 => vec![Change::Checkpoint { key, bytes }],
        2 => vec![
            Change::PutSession { key, bytes },
            Change::Append(Box::new(record.clone())),
            Change::Append(Box::new(record)),
        ],
        _ => vec![Change::PutSession { key, bytes }],
    });
    changes
}

fn mark(ledger: &Ledger) -> u64 {
    let mut mark = 0;
    let look = |key, bytes: &[u8]| {
        if key == MARK {
            mark = u64::from_le_bytes(bytes.try_into().unwrap())
        }
    };
    ledger.sessions(look).unwrap();
    mark
}

/// Not a test of its own: what the killed process does.
#[test]
fn child() {
    let Some(folder) = std::env::var_os(FOLDER) else { return };
    let ledger = Ledger::open(folder).unwrap();
    let before = mark(&ledger);
    let told = move |progress: &ledger::Progress| {
        let line = format!("durable {}\n", before + progress.durable.0);
        std::io::stdout().write_all(line.as_bytes()).unwrap();
    };
    let pace = Pace { gather: Duration::from_micros(300), batch: 200, queue: 1000 };
    let writer = ledger.writer(pace, told).unwrap();
    for n in before + 1.. {
        let mut changes = changes(n);
        while let Err(Refused::Full(back)) = writer.submit(changes) {
            changes = back;
            std::thread::sleep(Duration::from_micros(100));
        }
    }
}

/// Runs the child for so long, kills it, and gives the last submission it said is durable.
fn killed(folder: &Path, after: Duration) -> u64 {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child", "--nocapture"])
        .env(FOLDER, folder)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let said = BufReader::new(child.stdout.take().unwrap());
    let reader = std::thread::spawn(move || {
        let mut durable = 0;
        for line in said.split(b'\n').map_while(Result::ok) {
            // The test harness talks in between; a line that was cut off has no number worth anything.
            let line = String::from_utf8_lossy(&line).into_owned();
            if let Some(n) = line.rsplit("durable ").next().and_then(|n| n.parse::<u64>().ok()) {
                durable = n.max(durable);
            }
        }
        durable
    });
    std::thread::sleep(after);
    child.kill().unwrap();
    child.wait().unwrap();
    reader.join().unwrap()
}

#[derive(Debug, Default, PartialEq)]
struct Whole {
    sessions: BTreeMap<u64, Vec<u8>>,
    checkpoints: BTreeMap<u64, Vec<u8>>,
    records: Vec<(u64, String)>,
}

impl Whole {
    fn change(&mut self, change: Change) {
        match change {
            Change::PutSession { key, bytes } => drop(self.sessions.insert(key, bytes)),
            Change::DeleteSession { key } => drop(self.sessions.remove(&key)),
            Change::Checkpoint { key, bytes } => drop(self.checkpoints.insert(key, bytes)),
            Change::DropCheckpoint { key } => drop(self.checkpoints.remove(&key)),
            Change::Append(record) => self.records.push((self.records.len() as u64 + 1, record.data_network_name)),
            other => unreachable!("{other:?}"),
        }
    }

    fn of(ledger: &Ledger) -> Self {
        let mut whole = Self::default();
        ledger.sessions(|key, bytes| drop(whole.sessions.insert(key, bytes.to_vec()))).unwrap();
        ledger.checkpoints(|key, bytes| drop(whole.checkpoints.insert(key, bytes.to_vec()))).unwrap();
        let mut filter = Filter::default();
        loop {
            let page = ledger.records(&filter, 1000).unwrap();
            whole.records.extend(page.records.into_iter().map(|r| (r.local_sequence_number, r.data_network_name)));
            match page.next {
                Some(next) => filter.after = next,
                None => return whole,
            }
        }
    }
}

#[test]
fn killing_costs_nothing_that_was_durable() {
    let folder = std::env::temp_dir().join(format!("weir-ledger-kill-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    let (began, mut reached, mut wanted, mut rounds, mut unclean) = (Instant::now(), 0, Whole::default(), 0, 0);
    let mut chance = u64::from(std::process::id()) | 1;
    println!("seed {chance}");
    while rounds < ROUNDS && (rounds < 20 || began.elapsed() < TOGETHER) {
        rounds += 1;
        chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let durable = killed(&folder, Duration::from_millis(20 + (chance >> 33) % 400));
        let ledger = Ledger::open(&folder).unwrap();
        let now = mark(&ledger);
        assert!(now >= durable, "round {rounds}: {durable} was durable, {now} is there");
        for n in reached + 1..=now {
            changes(n).into_iter().for_each(|change| wanted.change(change));
        }
        reached = now;
        unclean += u32::from(!ledger.was_clean());
        let found = Whole::of(&ledger);
        assert!(found == wanted, "round {rounds}: the ledger is not what {now} submissions make");
    }
    println!(
        "{rounds} rounds, {unclean} of them killed while writing, {reached} submissions, {} records",
        wanted.records.len()
    );
    assert!(unclean > 0 && reached > 1000, "{unclean} {reached}");
    let _ = std::fs::remove_dir_all(&folder);
}
