//! What whoever has a ledger open is asked about it over its socket, and answers.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::socket::Ask;

/// What is asked of the ledger.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "snake_case", deny_unknown_fields)]
pub enum Request {
    /// Charging records of the ledger it has open, some at a time.
    Records {
        /// Which records.
        #[serde(default)]
        filter: ledger::Filter,
        /// How many at most.
        limit: u32,
    },
    /// Records up to this sequence number are exported and safe: retention may remove them.
    Exported {
        /// The last of them.
        until: u64,
    },
}

/// What the ledger answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reply {
    /// To [`Request::Records`]; to [`Request::Exported`], without records.
    Records(RecordsView),
}

impl Ask for Request {
    type Answer = Reply;
    const NAMES: &'static [&'static str] = &["records", "exported"];
}

/// Charging records, and the ledger they are from.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RecordsView {
    /// The ledger's file.
    pub ledger: PathBuf,
    /// The records.
    pub page: ledger::Page,
    /// What the ledger holds.
    pub status: ledger::Status,
}
