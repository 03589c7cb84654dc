//! Files that are not what they should be: a sentence, never a panic.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use ledger::{Change, FILE, Filter, Health, Ledger, LedgerError, Moment, Pace, Record};
use proptest::prelude::*;

/// A folder of its own, removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        Self(std::env::temp_dir().join(format!("weir-ledger-{name}-{}", std::process::id())))
    }

    fn file(&self) -> PathBuf {
        self.0.join(FILE)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

const SESSIONS: u64 = 2000;

/// A ledger of 2000 sessions and as many records.
fn filled(dir: &Path) {
    let writer = Ledger::open(dir).unwrap().writer(Pace::default(), |_| {}).unwrap();
    let two = |n| [Change::PutSession { key: n, bytes: vec![n as u8; 700] }, Change::Append(Box::default())];
    writer.submit((0..SESSIONS).flat_map(two).collect::<Vec<_>>()).unwrap();
    writer.close().unwrap();
}

/// Opens, reads everything, writes something.
fn used(dir: &Path) -> Result<(u64, usize), LedgerError> {
    let ledger = Ledger::open(dir)?;
    let mut sessions = 0;
    ledger.sessions(|key, bytes| {
        if bytes.len() == 700 {
            assert_eq!(bytes, vec![key as u8; 700], "what is given is right");
        }
        sessions += 1;
    })?;
    let records = ledger.records(&Filter::default(), usize::MAX)?.records.len();
    let writer = ledger.writer(Pace::default(), |_| {})?;
    let ticket = writer.submit([Change::Append(Box::default())]).expect("it has just begun");
    writer.wait(ticket)?;
    Ok((sessions, records))
}

#[test]
fn what_is_not_a_ledger_is_told_apart() {
    let folder = Folder::new("other");
    assert!(matches!(Ledger::open_existing(&folder.0), Err(LedgerError::Absent { .. })));
    fs::create_dir_all(&folder.0).unwrap();
    for text in ["", "re", "a text somebody keeps here"] {
        fs::write(folder.file(), text).unwrap();
        let error = Ledger::open(&folder.0).unwrap_err();
        assert!(matches!(error, LedgerError::NotALedger { .. }), "{error}");
        assert_eq!(fs::read_to_string(folder.file()).unwrap(), text, "left as it was");
    }
    fs::remove_file(folder.file()).unwrap();
    // Somebody else's database.
    let db = redb::Database::create(folder.file()).unwrap();
    drop(db);
    assert!(matches!(Ledger::open(&folder.0), Err(LedgerError::NotALedger { .. })));
    let db = redb::Database::create(folder.file()).unwrap();
    let txn = db.begin_write().unwrap();
    txn.open_table(redb::TableDefinition::<&str, u64>::new("meta")).unwrap().insert("version", 99).unwrap();
    txn.commit().unwrap();
    drop(db);
    let error = Ledger::open(&folder.0).unwrap_err();
    assert!(matches!(error, LedgerError::OtherVersion { found: 99, .. }), "{error}");
    assert!(error.to_string().contains("of format 99 and this weir knows format 1"), "{error}");
    // A folder that cannot be one.
    let error = Ledger::open(folder.file()).unwrap_err();
    assert!(matches!(error, LedgerError::Disk { .. } | LedgerError::NotALedger { .. }), "{error}");
}

#[test]
fn an_open_ledger_is_locked() {
    let folder = Folder::new("locked");
    let ledger = Ledger::open(&folder.0).unwrap();
    let error = Ledger::open(&folder.0).unwrap_err();
    assert!(matches!(error, LedgerError::Locked { .. }), "{error}");
    drop(ledger);
    Ledger::open(&folder.0).unwrap();
}

#[test]
fn of_those_that_begin_a_ledger_at_once_one_has_it() {
    for round in 0..5 {
        let folder = Folder::new(&format!("at-once-{round}"));
        let start = std::sync::Barrier::new(4);
        let open = || {
            start.wait();
            Ledger::open(&folder.0)
        };
        let all: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(open)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        let (have, have_not): (Vec<_>, Vec<_>) = all.into_iter().partition(Result::is_ok);
        assert!(have_not.iter().all(|one| matches!(one, Err(LedgerError::Locked { .. }))), "{have_not:?}");
        let [Ok(ledger)] = &have[..] else { panic!("{have:?}") };
        let aside = ledger::set_aside(&folder.0, Moment(0));
        assert!(matches!(aside, Err(LedgerError::Locked { .. })), "nor is it taken from who writes: {aside:?}");
        ledger.amend(vec![Change::PutSession { key: 1, bytes: vec![7; 700] }]).unwrap();
        drop(have);
        assert_eq!(Ledger::open(&folder.0).unwrap().status().unwrap().sessions, 1, "it is the one in the folder");
    }
}

#[test]
fn a_draft_left_by_a_crash_is_nothing() {
    let folder = Folder::new("draft");
    fs::create_dir_all(&folder.0).unwrap();
    fs::write(folder.file().with_extension("new"), "half").unwrap();
    assert_eq!(used(&folder.0).unwrap(), (0, 0));
    assert!(!folder.file().with_extension("new").exists());
}

#[test]
fn a_file_cut_short_is_damaged() {
    let folder = Folder::new("short");
    filled(&folder.0);
    let whole = fs::read(folder.file()).unwrap();
    for share in [0.0001, 0.01, 0.3, 0.5, 0.7, 0.99] {
        fs::write(folder.file(), &whole[..(whole.len() as f64 * share) as usize + 4]).unwrap();
        match used(&folder.0) {
            Err(LedgerError::Damaged { .. } | LedgerError::NotALedger { .. }) => {}
            // What was cut off was free space.
            Ok(all) => assert_eq!(all, (SESSIONS, SESSIONS as usize), "cut at {share}"),
            Err(other) => panic!("cut at {share}: {other}"),
        }
    }
    fs::write(folder.file(), &whole).unwrap();
    assert_eq!(used(&folder.0).unwrap(), (SESSIONS, SESSIONS as usize));
}

#[test]
fn a_changed_byte_is_found() {
    let folder = Folder::new("rot");
    filled(&folder.0);
    let whole = fs::read(folder.file()).unwrap();
    let (mut found, mut unharmed, mut at) = (0, 0, 17);
    for round in 0..60usize {
        at = (at * 7919 + round * 104_729) % whole.len();
        // The head of the file, too.
        let at = if round < 20 { at % 512 } else { at };
        fs::write(folder.file(), &whole).unwrap();
        let file = fs::File::options().write(true).open(folder.file()).unwrap();
        file.write_all_at(&[!whole[at]], at as u64).unwrap();
        match used(&folder.0) {
            Ok(all) => {
                assert_eq!(all, (SESSIONS, SESSIONS as usize), "byte {at}");
                unharmed += 1;
            }
            Err(LedgerError::Disk { path, what }) => panic!("byte {at}: {}: {what}", path.display()),
            Err(_) => found += 1,
        }
    }
    assert!(found > 10, "{found} found, {unharmed} in free space");
}

/// A ledger with something of everything, in which older entries are left: sessions changed and deleted, checkpoints, records.
fn busy(dir: &Path) {
    let writer = Ledger::open(dir).unwrap().writer(Pace::default(), |_| {}).unwrap();
    for round in 0..4u64 {
        let changes = (0..300).flat_map(|key| {
            let bytes = vec![(key + round) as u8; 100 + key as usize];
            let session = match (key + round) % 7 {
                0 => Change::DeleteSession { key },
                _ => Change::PutSession { key, bytes: bytes.clone() },
            };
            let record =
                Record { rating_group: Some(key as u32), served_imsi: format!("{round}"), ..Record::default() };
            [session, Change::Checkpoint { key, bytes }, Change::Append(Box::new(record))]
        });
        let ticket = writer.submit(changes.chain([Change::Recovery(7)]).collect::<Vec<_>>()).unwrap();
        writer.wait(ticket).unwrap();
    }
    writer.close().unwrap();
}

type Kept = (BTreeMap<u64, Vec<u8>>, BTreeMap<u64, Vec<u8>>, Vec<Record>, Option<u32>);

/// All that a ledger holds.
fn contents(dir: &Path) -> Kept {
    let ledger = Ledger::open_existing(dir).unwrap();
    let (mut sessions, mut checkpoints) = (BTreeMap::new(), BTreeMap::new());
    ledger.sessions(|key, bytes| drop(sessions.insert(key, bytes.to_vec()))).unwrap();
    ledger.checkpoints(|key, bytes| drop(checkpoints.insert(key, bytes.to_vec()))).unwrap();
    let records = ledger.records(&Filter::default(), usize::MAX).unwrap().records;
    let status = ledger.status().unwrap();
    assert_eq!((status.sessions, status.checkpoints), (sessions.len() as u64, checkpoints.len() as u64));
    (sessions, checkpoints, records, status.recovery)
}

/// Salvages the ledger in a folder, and holds what is there then against what was.
fn salvaged(folder: &Folder, was: &Kept) -> (Health, Kept) {
    let to = folder.0.join("salvaged");
    let _ = fs::remove_dir_all(&to);
    let before = fs::read(folder.file()).unwrap();
    let salvaged = ledger::salvage(&folder.0, &to).unwrap();
    assert_eq!(fs::read(folder.file()).unwrap(), before, "the damaged one is as it was");
    let now = contents(&to);
    assert!(now.0.iter().all(|(key, bytes)| was.0.get(key) == Some(bytes)), "no session is invented");
    assert!(now.1.iter().all(|(key, bytes)| was.1.get(key) == Some(bytes)), "no checkpoint is invented");
    assert!(now.2.iter().all(|record| was.2.contains(record)), "no record is invented");
    assert!(now.3.is_none() || now.3 == was.3);
    let found = salvaged.found;
    let counts = [&found.sessions, &found.checkpoints, &found.records].map(|finding| finding.readable);
    assert_eq!(counts, [now.0.len() as u64, now.1.len() as u64, now.2.len() as u64]);
    if found.is_whole() {
        assert!(now == *was, "what is not reported is not lost");
    }
    (found, now)
}

#[test]
fn a_whole_ledger_is_found_whole() {
    let folder = Folder::new("whole");
    busy(&folder.0);
    let was = contents(&folder.0);
    assert_eq!((was.0.len(), was.1.len(), was.2.len(), was.3), (257, 300, 1200, Some(7)));
    let health = ledger::check(&folder.0).unwrap();
    assert!(health.is_whole() && !health.killed, "{health:?}");
    assert_eq!(salvaged(&folder, &was).1, was);
    let again = ledger::salvage(&folder.0, &folder.0.join("salvaged")).unwrap_err();
    assert!(matches!(again, LedgerError::Occupied { .. }), "{again}");
    let absent = ledger::check(&folder.0.join("nowhere")).unwrap_err();
    assert!(matches!(absent, LedgerError::Absent { .. }), "{absent}");
}

#[test]
fn a_ledger_in_use_is_not_checked() {
    let folder = Folder::new("in-use");
    let ledger = Ledger::open(&folder.0).unwrap();
    assert!(matches!(ledger::check(&folder.0), Err(LedgerError::Locked { .. })));
    drop(ledger);
    assert!(ledger::check(&folder.0).unwrap().is_whole());
}

#[test]
fn every_damaged_page_costs_what_is_on_it() {
    let folder = Folder::new("pages");
    busy(&folder.0);
    let (was, whole) = (contents(&folder.0), fs::read(folder.file()).unwrap());
    let (mut reported, mut kept_some) = (0, 0);
    let used: Vec<_> = (0..whole.len() / 4096).filter(|page| whole[page * 4096 + 64] != 0).collect();
    for page in used.iter().step_by(used.len().div_ceil(50)) {
        let mut damaged = whole.clone();
        damaged[page * 4096 + 64..][..64].fill(0xa5);
        fs::write(folder.file(), damaged).unwrap();
        let (health, now) = salvaged(&folder, &was);
        reported += usize::from(!health.is_whole());
        kept_some += usize::from(!health.is_whole() && !now.2.is_empty());
    }
    assert!(reported > 10 && kept_some > reported / 2, "{reported} reported, of {kept_some} something is kept");
}

/// Counts of the header that name more bytes than a number has.
#[test]
fn a_header_of_ones_is_reported() {
    let folder = Folder::new("ones");
    busy(&folder.0);
    let (was, whole) = (contents(&folder.0), fs::read(folder.file()).unwrap());
    for (at, len) in [(0, 320), (12, 20), (20, 12), (24, 4), (24, 8), (28, 4)] {
        let mut damaged = whole.clone();
        damaged[at..][..len].fill(0xff);
        fs::write(folder.file(), damaged).unwrap();
        let (health, _) = salvaged(&folder, &was);
        assert!(!health.is_whole(), "{len} bytes at {at}: {health:?}");
    }
}

#[test]
fn a_ledger_is_set_aside_and_another_begins() {
    let folder = Folder::new("aside");
    busy(&folder.0);
    let whole = fs::read(folder.file()).unwrap();
    let now = Moment(1_764_000_000_000);
    let (first, second) = (ledger::set_aside(&folder.0, now).unwrap(), {
        assert_eq!(used(&folder.0).unwrap(), (0, 0));
        ledger::set_aside(&folder.0, now).unwrap()
    });
    assert!(first.to_str().unwrap().ends_with("ledger.redb.damaged-20251124T160000"), "{}", first.display());
    assert_ne!(first, second);
    assert_eq!(fs::read(first).unwrap(), whole);
    for _ in 0..6 {
        used(&folder.0).unwrap();
        ledger::set_aside(&folder.0, now).unwrap();
    }
    used(&folder.0).unwrap();
    let full = ledger::set_aside(&folder.0, now).unwrap_err();
    assert!(full.to_string().contains("8 ledgers were set aside"), "{full}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn damage_anywhere_is_reported_or_harmless(
        hits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 1usize..300), 1..6),
        in_head in any::<bool>(),
        cut in prop::option::weighted(0.1, any::<prop::sample::Index>()),
    ) {
        thread_local! {
            static WHOLE: (Folder, Kept, Vec<u8>) = {
                let folder = Folder::new("anywhere");
                busy(&folder.0);
                let (was, whole) = (contents(&folder.0), fs::read(folder.file()).unwrap());
                (folder, was, whole)
            };
        }
        WHOLE.with(|(folder, was, whole)| {
            let mut damaged = whole.clone();
            for (at, byte, len) in &hits {
                let at = if in_head { at.index(320) } else { at.index(damaged.len()) };
                damaged.iter_mut().skip(at).take(*len).for_each(|old| *old = *byte);
            }
            if let Some(cut) = &cut {
                damaged.truncate(cut.index(whole.len()).max(4));
            }
            fs::write(folder.file(), &damaged).unwrap();
            let (health, _) = salvaged(folder, was);
            // What the gateway would do with it.
            match used(&folder.0) {
                Ok(_) | Err(LedgerError::OtherVersion { .. }) => {}
                Err(LedgerError::Damaged { .. } | LedgerError::NotALedger { .. }) => {
                    assert!(!health.is_whole(), "it does not open, and nothing is said to be wrong: {health:?}");
                }
                Err(other) => panic!("{other}"),
            }
        });
    }
}
