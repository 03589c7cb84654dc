//! `[log]`: the event log of a gateway.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{ConfigError, wrong};

/// Subsystems that emit events, each with a level of its own.
pub const LOG_TARGETS: [&str; 10] =
    ["process", "worker", "port", "n4", "gtpu", "nat", "ledger", "cable", "standby", "sessions"];

/// The event log: on stderr, and in a ring that `weir show log` reads.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Log {
    /// How events are written.
    pub format: LogFormat,
    /// The least level that is written.
    pub level: LogLevel,
    /// Levels of single targets: `{ n4 = "debug" }`.
    pub targets: BTreeMap<String, LogLevel>,
}

/// How events are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// `key=value`.
    #[default]
    Logfmt,
    /// One JSON object a line.
    Json,
}

/// The least level that is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs)]
pub enum LogLevel {
    Off,
    Error,
    Warn,
    #[default]
    Info,
    Debug,
    Trace,
}

impl LogLevel {
    /// From nothing to everything.
    pub const ALL: [Self; 6] = [Self::Off, Self::Error, Self::Warn, Self::Info, Self::Debug, Self::Trace];

    /// Its name in lower case.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Error => "error",
            Self::Warn => "warn",
            Self::Info => "info",
            Self::Debug => "debug",
            Self::Trace => "trace",
        }
    }
}

impl Log {
    /// Checks that every target exists.
    ///
    /// # Errors
    /// The first that does not.
    pub fn check(&self) -> Result<(), ConfigError> {
        match self.targets.keys().find(|target| !LOG_TARGETS.contains(&target.as_str())) {
            None => Ok(()),
            Some(target) => {
                let help = format!("one of {}", LOG_TARGETS.join(", "));
                Err(wrong(&[&"log", &"targets", target], format!("unknown target \"{target}\""), help))
            }
        }
    }
}
