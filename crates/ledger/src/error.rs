//! What goes wrong, and what to do about it: one sentence each.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use crate::commit::Change;

/// Why the ledger cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)]
pub enum LedgerError {
    #[error("there is no ledger at {}: give the folder a gateway keeps its ledger in", path.display())]
    Absent { path: PathBuf },
    #[error("{} is not a ledger: move it away, or give another folder", path.display())]
    NotALedger { path: PathBuf },
    #[error(
        "the ledger at {} is of format {found} and this weir knows format {known}: \
         use the weir that wrote it, or give another folder",
        path.display()
    )]
    OtherVersion { path: PathBuf, found: u64, known: u64 },
    #[error("the ledger at {} is open in another process: ask that one over its control socket, or stop it", path.display())]
    Locked { path: PathBuf },
    #[error("the disk of the ledger at {} is full: make room, then start again", path.display())]
    Full { path: PathBuf },
    #[error("no permission for the ledger at {}: run as the user that owns it, or give another folder", path.display())]
    Permission { path: PathBuf },
    #[error("the ledger at {} is damaged ({what}): `weir ledger check` lists the damage, `weir ledger salvage` writes what can be read to a new ledger", path.display())]
    Damaged { path: PathBuf, what: String },
    #[error("there is a ledger at {} already: give another folder", path.display())]
    Occupied { path: PathBuf },
    #[error("the ledger at {} has a writer already: there is one at a time", path.display())]
    SecondWriter { path: PathBuf },
    #[error("the disk of the ledger at {} failed ({what}): see to the disk, then start again", path.display())]
    Disk { path: PathBuf, what: String },
}

/// Why a change was not taken.
#[derive(Debug, PartialEq, thiserror::Error)]
pub enum Refused {
    /// As many changes wait as the queue holds; the changes come back. Submit again after the next commit.
    #[error("the ledger's queue is full")]
    Full(Vec<Change>),
    /// The writer has failed, and takes nothing more; open the ledger again once the cause is seen to.
    #[error(transparent)]
    Failed(LedgerError),
}

/// Names the causes of errors at one path.
#[derive(Clone, Copy)]
pub(crate) struct At<'a>(pub &'a Path);

impl At<'_> {
    pub fn damaged(self, what: impl ToString) -> LedgerError {
        LedgerError::Damaged { path: self.0.to_owned(), what: what.to_string() }
    }

    pub fn io(self, error: &io::Error) -> LedgerError {
        let path = self.0.to_owned();
        match error.kind() {
            ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => LedgerError::Permission { path },
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge => LedgerError::Full { path },
            ErrorKind::UnexpectedEof | ErrorKind::InvalidData => self.damaged(error),
            _ => LedgerError::Disk { path, what: error.to_string() },
        }
    }

    pub fn redb(self, error: impl Into<redb::Error>) -> LedgerError {
        let path = || self.0.to_owned();
        match error.into() {
            redb::Error::Io(error) => self.io(&error),
            redb::Error::DatabaseAlreadyOpen | redb::Error::LockProtocolMismatch => {
                LedgerError::Locked { path: path() }
            }
            redb::Error::UpgradeRequired(found) => {
                LedgerError::OtherVersion { path: path(), found: found.into(), known: crate::VERSION }
            }
            redb::Error::Corrupted(what) => self.damaged(what),
            redb::Error::PreviousIo => LedgerError::Disk { path: path(), what: "an earlier error".to_owned() },
            other => self.damaged(other),
        }
    }

    /// Runs what reads the file. A file whose pages contradict each other can make the store panic: that is damage, too.
    pub fn guarded<T>(self, run: impl FnOnce() -> Result<T, LedgerError>) -> Result<T, LedgerError> {
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)).unwrap_or_else(|panic| {
            let text = panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
            Err(self.damaged(text.unwrap_or("its pages contradict each other")))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_are_told_apart() {
        let at = At(Path::new("/var/lib/weir/ledger.redb"));
        let said = |kind: ErrorKind| at.io(&io::Error::from(kind)).to_string();
        assert!(said(ErrorKind::StorageFull).contains("is full: make room"));
        assert!(said(ErrorKind::PermissionDenied).contains("no permission"));
        assert!(said(ErrorKind::ReadOnlyFilesystem).contains("no permission"));
        assert!(said(ErrorKind::UnexpectedEof).contains("is damaged"));
        assert!(said(ErrorKind::TimedOut).contains("see to the disk"));
        let locked = at.redb(redb::DatabaseError::DatabaseAlreadyOpen).to_string();
        assert!(locked.contains("open in another process"), "{locked}");
        let old = at.redb(redb::DatabaseError::UpgradeRequired(2));
        assert!(matches!(old, LedgerError::OtherVersion { found: 2, .. }), "{old}");
        let torn = at.guarded::<()>(|| panic!("page {} is gone", 7)).unwrap_err().to_string();
        assert!(torn.contains("damaged (page 7 is gone)"), "{torn}");
    }
}
