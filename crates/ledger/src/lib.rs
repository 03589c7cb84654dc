//! Durable storage: a gateway's sessions, its charging records, and the usage it has not reported yet.
//!
//! ```
//! use ledger::{Change, Ledger, Pace};
//!
//! # let folder = std::env::temp_dir().join(format!("weir-ledger-doc-{}", std::process::id()));
//! let writer = Ledger::open(&folder)?.writer(Pace::default(), |_| {})?;
//! let ticket = writer.submit([Change::PutSession { key: 1, bytes: b"a session".to_vec() }]).expect("room in the queue");
//! writer.wait(ticket)?; // on the disk: may be acknowledged now
//! writer.close()?;
//!
//! let mut sessions = 0;
//! Ledger::open(&folder)?.sessions(|_key, _bytes| sessions += 1)?;
//! assert_eq!(sessions, 1);
//! # std::fs::remove_dir_all(&folder).unwrap();
//! # Ok::<(), ledger::LedgerError>(())
//! ```
//!
//! One file (`ledger.redb`) in a folder of its own, open in one process at a time. Writers hand [`Change`]s to the
//! [`Writer`] and get a [`Ticket`]; one thread commits everything that waits with one sync of the disk and reports up
//! to which ticket all is durable.
//!
//! | file | content |
//! |---|---|
//! | `ledger.rs` | the file: opening, contents, reading |
//! | `writer.rs` | tickets, the queue, the thread that commits |
//! | `commit.rs` | a batch of changes as one transaction; retention |
//! | `log.rs` | the newest bytes by key, appended |
//! | `record.rs`, `values.rs` | a charging record and the types of its fields |
//! | `pages.rs` | the file's pages without the store, each by its checksum |
//! | `check.rs`, `salvage.rs` | a damaged file: what is wrong, what can still be read, setting it aside |
//! | `export.rs` | filtered records as JSON lines and CSV |
//! | `error.rs` | errors, with their cures |
//!
//! A crash loses nothing whose ticket was durable, and of unreported usage at most the interval between
//! [checkpoints](Change::Checkpoint).

#![forbid(unsafe_code)]
// Names and types document most items; comments are written where they add a unit, a clause or a reason.
#![allow(missing_docs)]

mod check;
mod commit;
mod error;
mod export;
mod ledger;
mod log;
mod pages;
mod record;
mod salvage;
#[cfg(test)]
mod tests;
mod values;
mod writer;

pub use check::{Finding, Health, check};
pub use commit::{Change, Retention};
pub use error::{LedgerError, Refused};
pub use export::{Filter, Page, csv_header, csv_line, json_line};
pub use ledger::{FILE, Ledger, Status, VERSION};
pub use record::{Cause, Record, RecordType};
pub use salvage::{Salvaged, salvage, set_aside};
pub use values::{BadText, Measurement, Moment, Prefix6, Seid, Snssai};
pub use writer::{Pace, Places, Progress, Ticket, Writer};
