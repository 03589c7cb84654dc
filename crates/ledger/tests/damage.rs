//! Files that are not what they should be: a sentence, never a panic.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use ledger::{Change, FILE, Filter, Ledger, LedgerError, Pace};

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
        assert_eq!(bytes, vec![key as u8; 700], "what is given is right");
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
    // A folder that can not be one.
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
