//! A damaged ledger: what can be read of it goes into a new one; or it is set aside for later.

use std::collections::HashMap;
use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};

use redb::Durability;
use schemars::JsonSchema;
use serde::Serialize;

use crate::check::{self, Contents, Health};
use crate::error::{At, LedgerError};
use crate::ledger::{CHECKPOINTS, FILE, META, RECORDS, SESSIONS, VERSION, builder, meta};
use crate::values::Moment;

/// What was salvaged, and what was not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Salvaged {
    /// The damaged ledger as it was found: what is `readable` in it is in the new one.
    pub found: Health,
    /// The new file.
    pub to: PathBuf,
}

/// Writes what is whole in a ledger to a new one in the folder `to`: charging records with their numbers, and of sessions and
/// checkpoints what is current. What may be out of date, as newer entries of the same session may be lost, is left out. The
/// damaged one is not changed.
///
/// # Errors
/// As [`check`](check::check); a folder that has a ledger already; a disk that cannot be written.
pub fn salvage(from: &Path, to: &Path) -> Result<Salvaged, LedgerError> {
    let (found, contents) = check::read(&check::file_of(from)?)?;
    let file = to.join(FILE);
    let (at, io) = (At(&file), |error: std::io::Error| At(&file).io(&error));
    if fs::exists(&file).map_err(io)? {
        return Err(LedgerError::Occupied { path: file });
    }
    fs::create_dir_all(to).map_err(io)?;
    let draft = file.with_extension("new");
    let _ = fs::remove_file(&draft);
    at.guarded(|| write(&draft, &contents).map_err(|error| at.redb(error)))?;
    fs::rename(&draft, &file).map_err(io)?;
    File::open(to).and_then(|dir| dir.sync_all()).map_err(io)?;
    Ok(Salvaged { found, to: file })
}

fn write(path: &Path, contents: &Contents) -> Result<(), redb::Error> {
    /// Entries written together.
    const TOGETHER: usize = 10_000;
    let db = builder().create(path)?;
    // On the disk with the last commit: nobody opens it before.
    let begin = || -> Result<_, redb::Error> {
        let mut txn = db.begin_write()?;
        txn.set_durability(Durability::None)?;
        Ok(txn)
    };
    for (table, entries) in [(SESSIONS, &contents.sessions), (CHECKPOINTS, &contents.checkpoints)] {
        let entries: Vec<_> = (0u64..).zip(entries).collect();
        for some in entries.chunks(TOGETHER) {
            let txn = begin()?;
            {
                let mut table = txn.open_table(table)?;
                for (at, (key, bytes)) in some {
                    table.insert(at, [&key.to_le_bytes()[..], &[1], bytes.as_slice()].concat().as_slice())?;
                }
            }
            txn.commit()?;
        }
    }
    for some in contents.records.chunks(TOGETHER) {
        let txn = begin()?;
        {
            let mut table = txn.open_table(RECORDS)?;
            for (number, kept) in some {
                table.insert(number, kept.as_slice())?;
            }
        }
        txn.commit()?;
    }
    let txn = db.begin_write()?;
    for table in [SESSIONS, CHECKPOINTS, RECORDS] {
        txn.open_table(table)?;
    }
    {
        let mut table = txn.open_table(META)?;
        for (name, number) in numbers(contents) {
            table.insert(name.as_str(), number)?;
        }
    }
    txn.commit()?;
    Ok(db.close()?)
}

/// The numbers of the new ledger: those that can be counted are, the others are as they were.
fn numbers(contents: &Contents) -> HashMap<String, u64> {
    let mut numbers = contents.meta.clone();
    let last = contents.records.last().map_or(0, |(number, _)| *number);
    let before = numbers.get(meta::SEQUENCE).copied().unwrap_or(0);
    let bytes: usize = contents.records.iter().map(|(_, kept)| kept.len()).sum();
    for (name, number) in [
        (meta::VERSION, VERSION),
        (meta::CLEAN, 1),
        (meta::SESSIONS, contents.sessions.len() as u64),
        (meta::CHECKPOINTS, contents.checkpoints.len() as u64),
        // A number is never given twice.
        (meta::SEQUENCE, before.max(last)),
        (meta::RECORD_BYTES, bytes as u64),
        (meta::HELD_BACK, 0),
    ] {
        numbers.insert(name.to_owned(), number);
    }
    numbers
}

/// Ledgers set aside in a folder at most: a disk that damages one after the other is not filled with them.
const ASIDE: usize = 8;

/// Sets the ledger in a folder aside, under a name with the time `now`; the folder is ready for a new one. Returns where the
/// old one is now.
///
/// # Errors
/// [`LedgerError::Locked`] by another process; [`LedgerError::Damaged`] when as many have been set aside as may be; a file
/// that cannot be renamed.
pub fn set_aside(dir: &Path, now: Moment) -> Result<PathBuf, LedgerError> {
    let path = dir.join(FILE);
    let at = At(&path);
    let io = |error: std::io::Error| at.io(&error);
    let _alone = crate::ledger::alone(dir, &path)?;
    if let Err(TryLockError::WouldBlock) = File::open(&path).map_err(io)?.try_lock() {
        return Err(LedgerError::Locked { path });
    }
    let named = |name: &std::ffi::OsStr| name.to_string_lossy().starts_with(&format!("{FILE}.damaged-"));
    let aside = fs::read_dir(dir).map_err(io)?.filter(|entry| entry.as_ref().is_ok_and(|e| named(&e.file_name())));
    let aside = aside.count();
    if aside >= ASIDE {
        return Err(
            at.damaged(format!("and {aside} ledgers were set aside before it: see to the disk, then remove them"))
        );
    }
    // 2026-11-23T20:45:01.000Z as 20261123T204501.
    let stamp: String = now.to_string().chars().take(19).filter(|c| c.is_ascii_alphanumeric()).collect();
    let name = |n: u32| {
        path.with_file_name(format!("{FILE}.damaged-{stamp}{}", if n == 0 { String::new() } else { format!("-{n}") }))
    };
    let to = (0..=ASIDE as u32).map(name).find(|name| !fs::exists(name).unwrap_or(true)).unwrap_or_else(|| name(99));
    fs::rename(&path, &to).map_err(io)?;
    File::open(dir).and_then(|dir| dir.sync_all()).map_err(io)?;
    Ok(to)
}
