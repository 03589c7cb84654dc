//! The file: opening it, what is in it, reading from it while the writer writes.

use std::fs::{self, File, TryLockError};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::{Duration, Instant};

use redb::{Builder, Database, ReadableDatabase, ReadableTable, ReadableTableMetadata, TableDefinition};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::{At, LedgerError};
use crate::export::{Filter, Page};
use crate::log;
use crate::record::Record;

/// The format this crate writes and reads.
pub const VERSION: u64 = 1;

/// The file's name in the ledger's folder.
pub const FILE: &str = "ledger.redb";

/// Opaque bytes by number.
pub(crate) type Bytes = TableDefinition<'static, u64, &'static [u8]>;
/// Logs: see `log.rs`.
pub(crate) const SESSIONS: Bytes = TableDefinition::new("sessions");
pub(crate) const CHECKPOINTS: Bytes = TableDefinition::new("checkpoints");
/// Records as JSON by sequence number.
pub(crate) const RECORDS: Bytes = TableDefinition::new("records");
/// Numbers by name: see [`meta`].
pub(crate) const META: TableDefinition<&str, u64> = TableDefinition::new("meta");

/// The names in [`META`]. What is not there is 0.
pub(crate) mod meta {
    pub const VERSION: &str = "version";
    /// Whether the last writer closed: 1.
    pub const CLEAN: &str = "clean";
    /// Sessions and checkpoints kept.
    pub const SESSIONS: &str = "sessions";
    pub const CHECKPOINTS: &str = "checkpoints";
    /// Recovery Time Stamp, plus one so that 0 is none.
    pub const RECOVERY: &str = "recovery";
    /// The last sequence number given to a record.
    pub const SEQUENCE: &str = "sequence";
    /// The last sequence number acknowledged as exported.
    pub const EXPORTED: &str = "exported";
    /// Bytes of all kept records.
    pub const RECORD_BYTES: &str = "record bytes";
    pub const REMOVED_EXPORTED: &str = "removed exported";
    pub const REMOVED_UNEXPORTED: &str = "removed unexported";
    pub const HELD_BACK: &str = "held back";
}

/// Memory for pages of the file, in bytes: many times what a batch touches, for only the ends of the tables are busy.
const CACHE: usize = 16 << 20;
/// A tool that reads the file is soon done with it: so long is waited for the lock.
const PATIENCE: Duration = Duration::from_secs(1);
/// Records looked at for one page, so that no answer takes long.
const SCAN: usize = 20_000;

/// An open ledger. Cloning gives another handle of the same; the file is closed with the last.
#[derive(Clone, Debug)]
pub struct Ledger {
    pub(crate) inner: Arc<Inner>,
}

#[derive(Debug)]
pub(crate) struct Inner {
    pub db: Database,
    pub path: PathBuf,
    pub has_writer: AtomicBool,
    /// How often it was written to since it was opened.
    pub commits: AtomicU64,
    clean: bool,
}

/// What a ledger holds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Status {
    /// Sessions kept.
    pub sessions: u64,
    /// Checkpoints of unreported usage.
    pub checkpoints: u64,
    /// Records kept.
    pub records: u64,
    pub record_bytes: u64,
    /// The last sequence number given; 0: none yet.
    pub sequence: u64,
    /// The oldest record kept; none: there are none.
    pub oldest: Option<u64>,
    /// The last sequence number acknowledged as exported; 0: none.
    pub exported: u64,
    /// Records removed by retention after they were exported.
    pub removed_exported: u64,
    /// Records removed by retention without having been exported.
    pub removed_unexported: u64,
    /// Whether retention last met a record beyond its limits that it must keep because it is not exported.
    pub held_back: bool,
    /// The recovery time stamp last written.
    pub recovery: Option<u32>,
    /// Bytes of the file as it is on disk.
    pub file_bytes: u64,
}

impl Ledger {
    /// Opens the ledger in a folder, or begins one there. Every page is checked against its checksum and the store walks
    /// its trees, so this takes about 3 s per GB of file: 100,000 sessions of 700 bytes alone 0.4 s.
    ///
    /// # Errors
    /// [`LedgerError`]; nothing is changed then.
    pub fn open(dir: impl AsRef<Path>) -> Result<Self, LedgerError> {
        let path = dir.as_ref().join(FILE);
        let at = At(&path);
        fs::create_dir_all(dir.as_ref()).map_err(|error| at.io(&error))?;
        let _alone = alone(dir.as_ref(), &path)?;
        if !fs::exists(&path).map_err(|error| at.io(&error))? {
            begin(dir.as_ref(), &path)?;
        }
        Self::existing(path)
    }

    /// Opens the ledger in a folder that has one: for tools that read.
    ///
    /// # Errors
    /// [`LedgerError::Absent`], and the others.
    pub fn open_existing(dir: impl AsRef<Path>) -> Result<Self, LedgerError> {
        let path = dir.as_ref().join(FILE);
        match fs::exists(&path) {
            Ok(true) => Self::existing(path),
            Ok(false) => Err(LedgerError::Absent { path: dir.as_ref().to_owned() }),
            Err(error) => Err(At(&path).io(&error)),
        }
    }

    fn existing(path: PathBuf) -> Result<Self, LedgerError> {
        check_magic(&path)?;
        let until = Instant::now() + PATIENCE;
        let db = loop {
            match At(&path).guarded(|| builder().open(&path).map_err(|error| At(&path).redb(error))) {
                Err(LedgerError::Locked { .. }) if Instant::now() < until => {
                    std::thread::sleep(Duration::from_millis(20));
                }
                done => break done?,
            }
        };
        Self::of(db, path)
    }

    /// Over anything that stores bytes: for tests that make the disk fail.
    #[cfg(test)]
    pub(crate) fn on(backend: impl redb::StorageBackend) -> Result<Self, LedgerError> {
        let path = PathBuf::from("(test)");
        let at = At(&path);
        let db = at.guarded(|| builder().create_with_backend(backend).map_err(|error| at.redb(error)))?;
        if !at.guarded(|| has_tables(&db).map_err(|error| at.redb(error)))? {
            at.guarded(|| furnish(&db).map_err(|error| at.redb(error)))?;
        }
        Self::of(db, path)
    }

    fn of(db: Database, path: PathBuf) -> Result<Self, LedgerError> {
        let at = At(&path);
        let seen = at.guarded(|| {
            let read = |db: &Database| -> Result<_, redb::Error> {
                let meta = db.begin_read()?.open_table(META)?;
                Ok((meta.get(meta::VERSION)?.map(|v| v.value()), meta.get(meta::CLEAN)?.map(|v| v.value())))
            };
            match read(&db) {
                Ok(seen) => Ok(Some(seen)),
                Err(redb::Error::TableDoesNotExist(_) | redb::Error::TableTypeMismatch { .. }) => Ok(None),
                Err(error) => Err(at.redb(error)),
            }
        })?;
        match seen {
            Some((Some(VERSION), clean)) => {
                let inner = Inner {
                    db,
                    path,
                    has_writer: AtomicBool::new(false),
                    commits: AtomicU64::new(0),
                    clean: clean != Some(0),
                };
                Ok(Self { inner: Arc::new(inner) })
            }
            Some((Some(found), _)) => Err(LedgerError::OtherVersion { path, found, known: VERSION }),
            _ => Err(LedgerError::NotALedger { path }),
        }
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.inner.path
    }

    /// Whether the writer before was closed, not killed. True of a new ledger.
    pub fn was_clean(&self) -> bool {
        self.inner.clean
    }

    /// Gives every session to `each`, in no order. 100,000 of 700 bytes take 0.1 s.
    ///
    /// # Errors
    /// [`LedgerError::Damaged`], [`LedgerError::Disk`].
    pub fn sessions(&self, each: impl FnMut(u64, &[u8])) -> Result<(), LedgerError> {
        self.all(SESSIONS, each)
    }

    /// Gives every checkpoint to `each`, in no order: usage that was measured and not reported.
    ///
    /// # Errors
    /// [`LedgerError::Damaged`], [`LedgerError::Disk`].
    pub fn checkpoints(&self, each: impl FnMut(u64, &[u8])) -> Result<(), LedgerError> {
        self.all(CHECKPOINTS, each)
    }

    fn all(&self, table: Bytes, mut each: impl FnMut(u64, &[u8])) -> Result<(), LedgerError> {
        self.read(|db| {
            let table = db.begin_read()?.open_table(table)?;
            log::newest(&table, |_, key, bytes| each(key, bytes))
        })
    }

    /// At most so many of the records asked for. A page may hold fewer, or none, and still not be the last: see
    /// [`Page::next`].
    ///
    /// # Errors
    /// [`LedgerError::Damaged`], [`LedgerError::Disk`].
    pub fn records(&self, filter: &Filter, limit: usize) -> Result<Page, LedgerError> {
        let (Some(first), last) = (filter.after.checked_add(1), filter.until.unwrap_or(u64::MAX)) else {
            return Ok(Page::default());
        };
        if first > last {
            return Ok(Page::default());
        }
        self.read(|db| {
            let mut page = Page::default();
            let table = db.begin_read()?.open_table(RECORDS)?;
            for (looked, entry) in table.range(first..=last)?.enumerate() {
                let (sequence, kept) = entry?;
                if looked == SCAN || page.records.len() == limit {
                    page.next = Some(sequence.value() - 1);
                    break;
                }
                let record = Record::read(sequence.value(), kept.value());
                let record = record.map_err(|error| redb::Error::Corrupted(format!("a record: {error}")))?;
                if filter.wants(&record) {
                    page.records.push(record);
                }
            }
            Ok(page)
        })
    }

    /// What it holds.
    ///
    /// # Errors
    /// [`LedgerError::Damaged`], [`LedgerError::Disk`].
    pub fn status(&self) -> Result<Status, LedgerError> {
        let file_bytes = on_disk(&self.inner.path);
        self.read(|db| {
            let txn = db.begin_read()?;
            let table = txn.open_table(META)?;
            let meta = |name: &str| -> Result<u64, redb::Error> { Ok(table.get(name)?.map_or(0, |n| n.value())) };
            let records = txn.open_table(RECORDS)?;
            Ok(Status {
                sessions: meta(meta::SESSIONS)?,
                checkpoints: meta(meta::CHECKPOINTS)?,
                records: records.len()?,
                record_bytes: meta(meta::RECORD_BYTES)?,
                sequence: meta(meta::SEQUENCE)?,
                oldest: records.first()?.map(|(sequence, _)| sequence.value()),
                exported: meta(meta::EXPORTED)?,
                removed_exported: meta(meta::REMOVED_EXPORTED)?,
                removed_unexported: meta(meta::REMOVED_UNEXPORTED)?,
                held_back: meta(meta::HELD_BACK)? != 0,
                recovery: meta(meta::RECOVERY)?.checked_sub(1).and_then(|n| u32::try_from(n).ok()),
                file_bytes,
            })
        })
    }

    pub(crate) fn read<T>(&self, run: impl FnOnce(&Database) -> Result<T, redb::Error>) -> Result<T, LedgerError> {
        let at = At(&self.inner.path);
        at.guarded(|| run(&self.inner.db).map_err(|error| at.redb(error)))
    }
}

pub(crate) fn builder() -> Builder {
    let mut builder = Builder::new();
    builder.set_cache_size(CACHE).set_check_integrity_on_open(true);
    builder
}

/// Two processes that start at once must not both begin a ledger, or set it aside: the second would put its own in the
/// place of one that the first writes to. Holds until it is dropped; the open file has a lock of its own.
///
/// # Errors
/// [`LedgerError::Locked`], after a second.
pub(crate) fn alone(dir: &Path, path: &Path) -> Result<File, LedgerError> {
    let folder = File::open(dir).map_err(|error| At(path).io(&error))?;
    let until = Instant::now() + PATIENCE;
    loop {
        match folder.try_lock() {
            Ok(()) => return Ok(folder),
            Err(TryLockError::WouldBlock) if Instant::now() < until => std::thread::sleep(Duration::from_millis(20)),
            Err(TryLockError::WouldBlock) => return Err(LedgerError::Locked { path: path.to_owned() }),
            // A file system without locks.
            Err(TryLockError::Error(_)) => return Ok(folder),
        }
    }
}

/// Makes an empty ledger under another name, and puts it in its place when it is whole.
fn begin(dir: &Path, path: &Path) -> Result<(), LedgerError> {
    let at = At(path);
    let io = |error: std::io::Error| at.io(&error);
    let draft = path.with_extension("new");
    let _ = fs::remove_file(&draft);
    at.guarded(|| {
        let db = builder().create(&draft).map_err(|error| at.redb(error))?;
        furnish(&db).map_err(|error| at.redb(error))?;
        db.close().map_err(|error| at.redb(error))
    })?;
    fs::rename(&draft, path).map_err(io)?;
    // A new name is durable when its folder is.
    File::open(dir).and_then(|dir| dir.sync_all()).map_err(io)
}

fn furnish(db: &Database) -> Result<(), redb::Error> {
    let txn = db.begin_write()?;
    {
        let mut meta = txn.open_table(META)?;
        meta.insert(meta::VERSION, VERSION)?;
        meta.insert(meta::CLEAN, 1)?;
        for table in [SESSIONS, CHECKPOINTS, RECORDS] {
            txn.open_table(table)?;
        }
    }
    Ok(txn.commit()?)
}

#[cfg(test)]
fn has_tables(db: &Database) -> Result<bool, redb::Error> {
    use redb::TableHandle;
    let txn = db.begin_read()?;
    let found = txn.list_tables()?.any(|table| table.name() == META.name());
    Ok(found)
}

/// The store takes any file for damaged that is not its own; people want to know which it is.
fn check_magic(path: &Path) -> Result<(), LedgerError> {
    let mut magic = [0; 4];
    let mut file = File::open(path).map_err(|error| At(path).io(&error))?;
    match file.read_exact(&mut magic) {
        Ok(()) if &magic == b"redb" => Ok(()),
        Err(error) if error.kind() != std::io::ErrorKind::UnexpectedEof => Err(At(path).io(&error)),
        _ => Err(LedgerError::NotALedger { path: path.to_owned() }),
    }
}

/// Bytes a file takes of its disk.
fn on_disk(path: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    fs::metadata(path).map_or(0, |data| data.blocks() * 512)
}
