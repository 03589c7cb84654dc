//! Reload: the configuration file is read again and compared with what runs; keys that can change live are applied.
//!
//! A reload is all or nothing: a file with an error, or a change that a gateway refuses, leaves everything as it was.
//! Changed keys that need a restart are named and stay as they run; the live keys of the same file are applied.

mod apply;
mod command;
mod diff;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use apply::{Live, Reload, Reloader, apply_to};
pub use command::{ReloadArgs, reload};

/// A key (with all below it) that a reload applies while the gateway runs. Every key that no entry covers needs a restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LiveKey {
    /// Key path: `route`, `log.level`; `group.*.acl` for the key of each element of a list, where the file has the same
    /// elements, by `name`, in the same order.
    pub key: &'static str,
    /// What happens when it is applied, in a sentence.
    pub help: &'static str,
}

/// Parts of a list as one, of `N` keys together.
pub const fn joined<const N: usize>(parts: &[&[LiveKey]]) -> [LiveKey; N] {
    let mut all = [LiveKey { key: "", help: "" }; N];
    let (mut part, mut len) = (0, 0);
    while part < parts.len() {
        let mut n = 0;
        while n < parts[part].len() {
            all[len] = parts[part][n];
            (n, len) = (n + 1, len + 1);
        }
        part += 1;
    }
    assert!(len == N, "as many keys as the parts have");
    all
}

/// Keys that the shell applies for every gateway.
pub const LIVE: &[LiveKey] = &[
    LiveKey {
        key: "log.level",
        help: "Replaces the levels in use, those set by `weir log set` too. `--log-level` stays above the file.",
    },
    LiveKey { key: "log.targets", help: "As `log.level`." },
];

/// What becomes of a changed key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// Applied while the gateway runs (with `--check`: would be).
    Live,
    /// Not applied: takes effect when the gateway is started again.
    Restart,
}

/// A key whose value in the file differs from the one that runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct KeyChange {
    /// Keys and list positions from the top, joined by dots: `route.1.via`.
    pub key: String,
    /// Its line in the file, from 1; none: the file does not have it.
    pub line: Option<usize>,
    /// The value that runs, as JSON; none: not set.
    pub old: Option<String>,
    /// The value in the file, as JSON; none: not set.
    pub new: Option<String>,
    /// What becomes of it.
    pub effect: Effect,
}

/// The result of a reload that was not refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ReloadView {
    /// The file that was read.
    pub file: String,
    /// Only compared, nothing applied.
    pub check: bool,
    /// The differences, in order of their keys.
    pub changes: Vec<KeyChange>,
}

impl ReloadView {
    /// Keys of changes with that effect.
    pub fn count(&self, effect: Effect) -> usize {
        self.changes.iter().filter(|change| change.effect == effect).count()
    }
}

impl std::fmt::Display for KeyChange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let value = |value: &Option<String>| value.clone().unwrap_or_else(|| "(not set)".to_owned());
        write!(f, "{}: {} → {}", self.key, value(&self.old), value(&self.new))?;
        if self.effect == Effect::Restart { f.write_str(" (needs a restart)") } else { Ok(()) }
    }
}
