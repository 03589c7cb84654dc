//! What must survive a crash: a gateway's sessions, its charging records, and the usage it has not reported yet.
//!
//! One file (`ledger.redb`) in a folder of its own, open in one process at a time. Whoever writes hands [`Change`]s to
//! the [`Writer`] and gets a [`Ticket`]; one thread commits everything that waits with one sync of the disk, and says up
//! to which ticket all is durable. An acknowledgement sent after that is one that holds.
//!
//! | file | idea |
//! |---|---|
//! | `ledger.rs` | the file: opening, what is in it, reading |
//! | `writer.rs` | tickets, the queue, the thread that commits for all |
//! | `commit.rs` | a batch of changes as one transaction; retention |
//! | `log.rs` | the newest bytes by key, written one behind the other |
//! | `record.rs`, `values.rs` | a charging record and what its fields are made of |
//! | `pages.rs` | the file's pages without the store, each by its checksum |
//! | `check.rs`, `salvage.rs` | a damaged file: what is wrong, what can still be read, setting it aside |
//! | `export.rs` | records asked for; JSON lines and CSV |
//! | `error.rs` | what goes wrong, and what to do |
//!
//! What a crash costs: nothing whose ticket was durable; of unreported usage at most the interval between
//! [checkpoints](Change::Checkpoint).

#![forbid(unsafe_code)]

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
