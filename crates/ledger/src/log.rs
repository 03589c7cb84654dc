//! The newest bytes by key, kept as a log: a change is written behind the last one, wherever its key is, so that a
//! thousand changes of sessions anywhere touch as many pages as their bytes fill, next to each other, and not a thousand.
//!
//! ```text
//!   oldest ─► [5: a] [2: b] [5: gone] [7: c] [2: d]  ◄─ newest
//!    reaped: still the newest of its key? then written again in front. Otherwise it goes.
//! ```
//!
//! At most half of a long log is stale. A removal is an entry too; when it has become the oldest, nothing before it needs
//! it any more.

use std::collections::{BTreeMap, HashMap, HashSet};

use redb::{Database, ReadableDatabase, ReadableTable, ReadableTableMetadata, Table, WriteTransaction};

use crate::ledger::Bytes;

/// Changes by key: the bytes to keep, or none to keep nothing.
pub(crate) type Changes = BTreeMap<u64, Option<Vec<u8>>>;

/// Stale entries a log may have in any case.
const SLACK: u64 = 4096;

/// The writing side of a log.
pub(crate) struct Log {
    table: Bytes,
    /// Where in the log the newest bytes of a key are.
    newest: HashMap<u64, u64>,
    end: u64,
}

/// An entry: its key and its bytes; none: the key has none any more.
pub(crate) fn entry(kept: &[u8]) -> Result<(u64, Option<&[u8]>), redb::Error> {
    let (key, rest) =
        kept.split_first_chunk().ok_or_else(|| redb::Error::Corrupted("an entry without a key".into()))?;
    // One byte tells an entry without bytes from a removal.
    Ok((u64::from_le_bytes(*key), rest.split_first().map(|(_, bytes)| bytes)))
}

/// Gives the newest bytes of every key to `each`, the newest first.
pub(crate) fn newest(
    table: &impl ReadableTable<u64, &'static [u8]>,
    mut each: impl FnMut(u64, u64, &[u8]),
) -> Result<(), redb::Error> {
    let mut seen = HashSet::new();
    for kept in table.iter()?.rev() {
        let (at, kept) = kept?;
        let (key, bytes) = entry(kept.value())?;
        if seen.insert(key)
            && let Some(bytes) = bytes
        {
            each(at.value(), key, bytes);
        }
    }
    Ok(())
}

impl Log {
    /// Over what is in the table; what that is comes by `each`.
    pub fn load(db: &Database, table: Bytes, mut each: impl FnMut(u64, &[u8])) -> Result<Self, redb::Error> {
        let mut log = Self { table, newest: HashMap::new(), end: 0 };
        let kept = db.begin_read()?.open_table(table)?;
        newest(&kept, |at, key, bytes| {
            log.newest.insert(key, at);
            each(key, bytes);
        })?;
        log.end = kept.last()?.map_or(0, |(at, _)| at.value() + 1);
        Ok(log)
    }

    /// How many keys have bytes.
    pub fn len(&self) -> u64 {
        self.newest.len() as u64
    }

    /// Writes changes, and makes room.
    pub fn write(&mut self, txn: &WriteTransaction, changes: &Changes) -> Result<(), redb::Error> {
        let mut table = txn.open_table(self.table)?;
        for (&key, bytes) in changes {
            match bytes {
                None if self.newest.remove(&key).is_none() => continue,
                None => {}
                Some(_) => {
                    self.newest.insert(key, self.end);
                }
            }
            self.append(&mut table, key, bytes.as_deref())?;
        }
        self.reap(&mut table, changes.len() as u64)
    }

    fn append(&mut self, table: &mut Entries, key: u64, bytes: Option<&[u8]>) -> Result<(), redb::Error> {
        let len = 8 + bytes.map_or(0, |bytes| 1 + bytes.len());
        let mut room = table.insert_reserve(self.end, len)?;
        let room = room.as_mut();
        room[..8].copy_from_slice(&key.to_le_bytes());
        if let Some(bytes) = bytes {
            room[8] = 1;
            room[9..].copy_from_slice(bytes);
        }
        self.end += 1;
        Ok(())
    }

    /// Looks at the oldest entries while too many are stale; at a few for each that was written, so that no commit has to
    /// make up for many.
    fn reap(&mut self, table: &mut Entries, written: u64) -> Result<(), redb::Error> {
        let (mut len, mut live) = (table.len()?, Vec::new());
        for _ in 0..4 * written {
            if len <= 2 * self.len() + SLACK {
                break;
            }
            let Some((at, kept)) = table.pop_first()? else { break };
            len -= 1;
            let (key, _) = entry(kept.value())?;
            if self.newest.get(&key) == Some(&at.value()) {
                live.push(kept.value().to_vec());
                len += 1;
            }
        }
        for kept in live {
            let (key, bytes) = entry(&kept)?;
            self.newest.insert(key, self.end);
            self.append(table, key, bytes)?;
        }
        Ok(())
    }
}

type Entries<'a> = Table<'a, u64, &'static [u8]>;
