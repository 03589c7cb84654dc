//! Reads a whole ledger and says what is there and what is wrong. Nothing is written.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::Serialize;

use crate::error::{At, LedgerError};
use crate::ledger::{FILE, VERSION, meta};
use crate::log;
use crate::pages::{Commit, Lost, Pages, Table};
use crate::record::Record;

/// What is there of a kind of entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Finding {
    /// Those that can be read and are current.
    pub readable: u64,
    /// Those that can be read, while something newer of the same session may be in what cannot.
    pub outdated: u64,
    /// Entries of the table that cannot be read, and those that make no sense. A session has up to a few entries, most of
    /// them older than its current one.
    pub lost: u64,
}

/// What a ledger is like.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Health {
    /// The ledger's file, as it was opened.
    pub path: PathBuf,
    /// Length of the file, bytes.
    pub bytes: u64,
    /// The process that wrote to it was killed: normal, and no damage.
    pub killed: bool,
    /// Sessions and associations.
    pub sessions: Finding,
    /// Checkpoints of usage.
    pub checkpoints: Finding,
    /// What is readable of the charging records.
    pub records: Finding,
    /// The Recovery Time Stamp written last.
    pub recovery: Option<u32>,
    /// What is wrong, with the place in the file; nothing: the ledger is whole.
    pub faults: Vec<String>,
}

impl Health {
    /// Whether nothing is wrong.
    pub fn is_whole(&self) -> bool {
        self.faults.is_empty()
    }
}

/// What was read.
#[derive(Default)]
pub(crate) struct Contents {
    pub sessions: HashMap<u64, Vec<u8>>,
    pub checkpoints: HashMap<u64, Vec<u8>>,
    /// Charging records by sequence number, as they are kept.
    pub records: Vec<(u64, Vec<u8>)>,
    pub meta: HashMap<String, u64>,
}

/// Faults that are named; those beyond are counted.
const NAMED: usize = 20;

/// Checks the ledger in a folder, or a file of one.
///
/// # Errors
/// [`LedgerError::Absent`], [`LedgerError::Locked`], [`LedgerError::Permission`], [`LedgerError::Disk`]. Damage is no
/// error here: see [`Health::faults`].
pub fn check(path: &Path) -> Result<Health, LedgerError> {
    read(&file_of(path)?).map(|(health, _)| health)
}

/// The ledger's file, of its folder or itself.
pub(crate) fn file_of(path: &Path) -> Result<PathBuf, LedgerError> {
    let file = if path.is_dir() { path.join(FILE) } else { path.to_owned() };
    match std::fs::exists(&file) {
        Ok(true) => Ok(file),
        Ok(false) => Err(LedgerError::Absent { path: path.to_owned() }),
        Err(error) => Err(At(&file).io(&error)),
    }
}

/// Checks a file and reads what can be read of it.
pub(crate) fn read(path: &Path) -> Result<(Health, Contents), LedgerError> {
    let at = At(path);
    let locked = || LedgerError::Locked { path: path.to_owned() };
    // The store's lock, and nothing else of it: what it says of damage is not enough.
    let opened = at.guarded(|| redb::Builder::new().open_read_only(path).map_err(|error| at.redb(error)));
    if let Err(error @ (LedgerError::Locked { .. } | LedgerError::Permission { .. })) = opened.as_ref() {
        return Err(error.clone());
    }
    drop(opened);
    let mut health = Health { path: path.to_owned(), ..Health::default() };
    let pages = match Pages::open(path) {
        Ok(pages) => pages,
        Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
            health.faults.push("the file is too short to be a ledger".to_owned());
            return Ok((health, Contents::default()));
        }
        Err(error) => return Err(at.io(&error)),
    };
    (health.bytes, health.killed) = (pages.len(), pages.is_in_use());
    let mut faults = Faults::default();
    if !pages.has_good_header() {
        faults.add(0, "the header of the file is damaged");
    }
    let commits = pages.commits();
    // A process that was killed may have been writing the newest commit: then the one before is what holds, and whole.
    let read = commits.iter().map(|commit| commit_of(&pages, commit, &health));
    let mut read: Vec<_> = read.collect();
    let best = match read.iter().position(|(_, _, faults)| faults.is_empty()).filter(|n| *n == 0 || health.killed) {
        Some(whole) => whole,
        // The newest of which anything can be read.
        None => read.iter().position(|(_, contents, _)| !contents.meta.is_empty()).unwrap_or(0),
    };
    if read.is_empty() {
        faults.add(64, "no commit of the store has its checksum");
        health.faults = faults.said();
        return Ok((health, Contents::default()));
    }
    let (found, contents, more) = read.swap_remove(best);
    if commits.len() < 2 && !health.killed {
        faults.add(64, "one of the two commits of the store is damaged");
    }
    faults.extend(more);
    if pages.has_changed().map_err(|error| at.io(&error))? {
        return Err(locked());
    }
    health = Health { faults: faults.said(), ..found };
    Ok((health, contents))
}

#[derive(Default)]
struct Faults {
    named: Vec<String>,
    more: usize,
}

impl Faults {
    fn add(&mut self, at: u64, what: &str) {
        if self.named.len() < NAMED {
            self.named.push(format!("at byte {at}: {what}"));
        } else {
            self.more += 1;
        }
    }

    fn extend(&mut self, other: Self) {
        self.more += other.more;
        self.named.extend(other.named);
    }

    fn is_empty(&self) -> bool {
        self.named.is_empty()
    }

    fn said(self) -> Vec<String> {
        let more = (self.more > 0).then(|| format!("and {} more", self.more));
        self.named.into_iter().chain(more).collect()
    }
}

/// What a commit has, and what is wrong with it.
fn commit_of(pages: &Pages, commit: &Commit, so_far: &Health) -> (Health, Contents, Faults) {
    let (mut health, mut contents, mut faults) = (so_far.clone(), Contents::default(), Faults::default());
    let mut lost = Lost::default();
    let tables = pages.tables(commit, false, &mut lost);
    let find = |name: &str| tables.iter().find(|table| table.name == name);
    let mut missing = |name: &str| faults.add(0, &format!("the table of {name} is missing"));
    let [sessions, checkpoints, records, numbers] = ["sessions", "checkpoints", "records", "meta"].map(|name| {
        find(name).or_else(|| {
            missing(name);
            None
        })
    });
    if let Some(table) = numbers {
        pages.read(table, &mut lost, &mut |name, number| {
            let number = number.first_chunk().map(|bytes| u64::from_le_bytes(*bytes));
            contents.meta.extend(number.map(|number| (String::from_utf8_lossy(name).into_owned(), number)));
        });
        match contents.meta.get(meta::VERSION) {
            Some(&VERSION) => {}
            Some(other) => faults.add(0, &format!("it has format {other}; this weir supports format {VERSION}")),
            None => faults.add(0, "its format is not known"),
        }
    }
    (health.sessions, contents.sessions) = newest(pages, sessions, &mut lost, &mut faults);
    (health.checkpoints, contents.checkpoints) = newest(pages, checkpoints, &mut lost, &mut faults);
    if let Some(table) = records {
        let mut unreadable = 0;
        pages.read(table, &mut lost, &mut |number, kept| {
            let number = number.first_chunk().map(|bytes| u64::from_le_bytes(*bytes));
            match number.filter(|number| Record::read(*number, kept).is_ok()) {
                Some(number) => contents.records.push((number, kept.to_vec())),
                None => unreadable += 1,
            }
        });
        if unreadable > 0 {
            faults.add(0, &format!("{unreadable} charging records are no records"));
        }
        let readable = contents.records.len() as u64;
        health.records = Finding { readable, outdated: 0, lost: table.len().saturating_sub(readable) };
    }
    health.recovery = contents.meta.get(meta::RECOVERY).and_then(|n| u32::try_from(n.checked_sub(1)?).ok());
    // The store's own tables: nothing of ours is in them, but without them it does not open.
    for table in pages.tables(commit, true, &mut lost) {
        pages.read(&table, &mut lost, &mut |_, _| {});
    }
    lost.pages.iter().for_each(|(at, what)| faults.add(*at, what));
    (health, contents, faults)
}

/// The newest entry of each key of a log. An older one may be out of date where newer ones cannot be read.
fn newest(
    pages: &Pages,
    table: Option<&Table>,
    all_lost: &mut Lost,
    faults: &mut Faults,
) -> (Finding, HashMap<u64, Vec<u8>>) {
    let Some(table) = table else { return Default::default() };
    let (mut lost, mut read, mut bad) = (Lost::default(), 0, 0);
    let mut entries: HashMap<u64, (u64, Option<Vec<u8>>)> = HashMap::new();
    pages.read(table, &mut lost, &mut |at, kept| {
        read += 1;
        match (at.first_chunk(), log::entry(kept)) {
            (Some(at), Ok((key, bytes))) => {
                // In the order of their places: what comes later is newer.
                entries.insert(key, (u64::from_le_bytes(*at), bytes.map(<[u8]>::to_vec)));
            }
            _ => bad += 1,
        }
    });
    if bad > 0 {
        faults.add(0, &format!("{bad} entries of {} are none", table.name));
    }
    // Below that place, something newer may have been lost.
    let until = match &lost.until {
        None => 0,
        Some(None) => u64::MAX,
        Some(Some(key)) => key.first_chunk().map_or(u64::MAX, |bytes| u64::from_le_bytes(*bytes)),
    };
    let mut finding = Finding { lost: table.len().saturating_sub(read) + bad, ..Finding::default() };
    let mut current = HashMap::new();
    for (key, (at, bytes)) in entries {
        let Some(bytes) = bytes else { continue };
        if at < until {
            finding.outdated += 1;
        } else {
            current.insert(key, bytes);
        }
    }
    finding.readable = current.len() as u64;
    all_lost.pages.append(&mut lost.pages);
    (finding, current)
}
