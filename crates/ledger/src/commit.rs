//! A batch of changes as one transaction: all of it, or nothing.

use std::time::Duration;

use redb::{Database, Durability, ReadableTable, ReadableTableMetadata, Table};
use serde::{Deserialize, Serialize};

use crate::ledger::{CHECKPOINTS, META, RECORDS, SESSIONS, meta};
use crate::log::{Changes, Log};
use crate::record::Record;
use crate::values::Moment;

/// What can be changed. Keys are the gateway's, bytes are opaque.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// Keeps a session, over what was kept of it.
    PutSession {
        /// The session.
        key: u64,
        /// What would establish it.
        bytes: Vec<u8>,
    },
    /// Forgets a session; its checkpoint is another change.
    DeleteSession {
        /// The session.
        key: u64,
    },
    /// Keeps what a session has used and not reported, over the checkpoint before. What a crash costs is what was used
    /// since: the caller's interval.
    Checkpoint {
        /// The session.
        key: u64,
        /// Its usage.
        bytes: Vec<u8>,
    },
    /// Forgets a session's checkpoint: all is reported.
    DropCheckpoint {
        /// The session.
        key: u64,
    },
    /// Appends a charging record; its sequence number is the next one.
    Append(Box<Record>),
    /// Keeps the Recovery Time Stamp (TS 29.244 clause 8.2.65).
    Recovery(u32),
    /// Acknowledges that records up to this sequence number were exported and are safe elsewhere.
    Exported {
        /// The last of them.
        until: u64,
    },
    /// Removes the oldest records beyond the limits: every minute, say. Large removals go on with the next one.
    Retain {
        /// The time now.
        now: Moment,
        limits: Retention,
    },
}

/// How long records are kept: the oldest beyond any of these limits go. What went is counted in
/// [`Status`](crate::Status).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Retention {
    /// Records kept at most.
    pub max_records: Option<u64>,
    /// Bytes of records kept at most (as JSON; the file takes about 1.3 times that).
    pub max_bytes: Option<u64>,
    /// Days since a record was closed.
    pub max_days: Option<u32>,
    /// Remove even records nobody acknowledged as exported. Without it they stay whatever the limits, and
    /// [`Status::held_back`](crate::Status::held_back) says so.
    pub remove_unexported: bool,
}

/// Records removed with one commit: some 20 ms.
const A_COMMIT: u64 = 5000;

/// What is kept by key.
pub(crate) struct Logs {
    sessions: Log,
    checkpoints: Log,
}

impl Logs {
    pub fn load(db: &Database) -> Result<Self, redb::Error> {
        Self::load_with(db, |_, _| {}, |_, _| {})
    }

    /// As [`load`](Self::load), and gives what is kept to `session` and `checkpoint`.
    pub fn load_with(
        db: &Database,
        session: impl FnMut(u64, &[u8]),
        checkpoint: impl FnMut(u64, &[u8]),
    ) -> Result<Self, redb::Error> {
        Ok(Self { sessions: Log::load(db, SESSIONS, session)?, checkpoints: Log::load(db, CHECKPOINTS, checkpoint)? })
    }
}

/// Changes to be committed together. Several of one session are one: the last.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    sessions: Changes,
    checkpoints: Changes,
    records: Vec<Record>,
    recovery: Option<u32>,
    exported: u64,
    retain: Option<(Moment, Retention)>,
    clean: Option<bool>,
}

impl Batch {
    /// The one that says whether the writer has closed.
    pub(crate) fn clean(clean: bool) -> Self {
        Self { clean: Some(clean), ..Self::default() }
    }

    pub fn add(&mut self, change: Change) {
        match change {
            Change::PutSession { key, bytes } => drop(self.sessions.insert(key, Some(bytes))),
            Change::DeleteSession { key } => drop(self.sessions.insert(key, None)),
            Change::Checkpoint { key, bytes } => drop(self.checkpoints.insert(key, Some(bytes))),
            Change::DropCheckpoint { key } => drop(self.checkpoints.insert(key, None)),
            Change::Append(record) => self.records.push(*record),
            Change::Recovery(stamp) => self.recovery = Some(stamp),
            Change::Exported { until } => self.exported = self.exported.max(until),
            Change::Retain { now, limits } => self.retain = Some((now, limits)),
        }
    }

    /// Commits it; when this returns well it is on the disk. After an error the logs are of no more use.
    pub fn commit(self, db: &Database, logs: &mut Logs) -> Result<(), redb::Error> {
        let mut txn = db.begin_write()?;
        txn.set_durability(Durability::Immediate)?;
        {
            let mut meta = Meta(txn.open_table(META)?);
            for (log, changes, count) in [
                (&mut logs.sessions, &self.sessions, meta::SESSIONS),
                (&mut logs.checkpoints, &self.checkpoints, meta::CHECKPOINTS),
            ] {
                if !changes.is_empty() {
                    log.write(&txn, changes)?;
                    meta.set(count, log.len())?;
                }
            }
            if !self.records.is_empty() || self.exported > 0 || self.retain.is_some() {
                let mut records = txn.open_table(RECORDS)?;
                self.append(&mut meta, &mut records)?;
                if let Some((now, limits)) = self.retain {
                    retain(&mut meta, &mut records, now, limits)?;
                }
            }
            if let Some(stamp) = self.recovery {
                meta.set(meta::RECOVERY, u64::from(stamp) + 1)?;
            }
            if let Some(clean) = self.clean {
                meta.set(meta::CLEAN, clean.into())?;
            }
        }
        Ok(txn.commit()?)
    }

    fn append(&self, meta: &mut Meta, records: &mut Records) -> Result<(), redb::Error> {
        let mut sequence = meta.get(meta::SEQUENCE)?;
        if !self.records.is_empty() {
            let mut bytes = 0;
            for record in &self.records {
                sequence += 1;
                let kept = record.numbered(sequence);
                records.insert(sequence, kept.as_slice())?;
                bytes += kept.len() as u64;
            }
            meta.set(meta::SEQUENCE, sequence)?;
            meta.add(meta::RECORD_BYTES, bytes)?;
        }
        // What does not exist cannot have been exported.
        let exported = self.exported.min(sequence);
        if exported > meta.get(meta::EXPORTED)? {
            meta.set(meta::EXPORTED, exported)?;
        }
        Ok(())
    }
}

fn retain(meta: &mut Meta, records: &mut Records, now: Moment, limits: Retention) -> Result<(), redb::Error> {
    let exported = meta.get(meta::EXPORTED)?;
    let (mut left, mut bytes) = (records.len()?, meta.get(meta::RECORD_BYTES)?);
    let (mut of_exported, mut of_unexported, mut held_back) = (0, 0, false);
    while of_exported + of_unexported < A_COMMIT {
        let Some((sequence, size, is_old)) = oldest(records, now, limits.max_days)? else { break };
        let is_over = |has: u64, limit: Option<u64>| limit.is_some_and(|limit| has > limit);
        if !is_old && !is_over(left, limits.max_records) && !is_over(bytes, limits.max_bytes) {
            break;
        }
        match sequence <= exported {
            true => of_exported += 1,
            false if limits.remove_unexported => of_unexported += 1,
            false => {
                held_back = true;
                break;
            }
        }
        records.remove(sequence)?;
        left -= 1;
        bytes = bytes.saturating_sub(size);
    }
    meta.set(meta::RECORD_BYTES, bytes)?;
    meta.add(meta::REMOVED_EXPORTED, of_exported)?;
    meta.add(meta::REMOVED_UNEXPORTED, of_unexported)?;
    meta.set(meta::HELD_BACK, held_back.into())
}

/// The oldest record: its number, its bytes, and whether it is older than so many days.
fn oldest(records: &Records, now: Moment, days: Option<u32>) -> Result<Option<(u64, u64, bool)>, redb::Error> {
    let Some((sequence, kept)) = records.first()? else { return Ok(None) };
    let (sequence, kept) = (sequence.value(), kept.value());
    let is_old = match days {
        Some(days) => {
            let record = Record::read(sequence, kept).map_err(|error| redb::Error::Corrupted(error.to_string()))?;
            now.since(record.stop_time) > Duration::from_secs(u64::from(days) * 86_400)
        }
        None => false,
    };
    Ok(Some((sequence, kept.len() as u64, is_old)))
}

type Records<'a> = Table<'a, u64, &'static [u8]>;

/// Numbers by name.
struct Meta<'a>(Table<'a, &'static str, u64>);

impl Meta<'_> {
    fn get(&self, name: &str) -> Result<u64, redb::Error> {
        Ok(self.0.get(name)?.map_or(0, |value| value.value()))
    }

    fn set(&mut self, name: &str, value: u64) -> Result<(), redb::Error> {
        self.0.insert(name, value)?;
        Ok(())
    }

    fn add(&mut self, name: &str, more: u64) -> Result<(), redb::Error> {
        let sum = self.get(name)?.saturating_add(more);
        self.set(name, sum)
    }
}
