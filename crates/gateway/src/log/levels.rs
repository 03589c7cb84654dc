//! Levels by target: from the configuration, the command line, and while running.

use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};

use dataplane::config::{LOG_TARGETS, LogLevel};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tracing_subscriber::filter::{LevelFilter, Targets};

use super::LogConfig;

/// The least level that is written, by target.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Levels {
    /// Of targets that are not named.
    pub level: LogLevel,
    /// Of single targets.
    pub targets: BTreeMap<String, LogLevel>,
}

impl Levels {
    /// Levels as the configuration's `[log]` sets them.
    pub fn of(config: &LogConfig) -> Self {
        Self { level: config.level, targets: config.targets.clone() }
    }

    /// Changes what a text such as `info,port=debug` names. A level alone is that of all targets not named in the text. There
    /// are the targets of all gateways, and this one's `own`.
    ///
    /// # Errors
    /// A sentence about what there is not; nothing has changed then.
    pub fn set(&mut self, text: &str, own: &[&str]) -> Result<(), String> {
        let all = [LOG_TARGETS, own].concat();
        let mut changed = self.clone();
        let parts = || text.split(',').map(str::trim).filter(|part| !part.is_empty());
        if parts().next().is_none() {
            return Err("no level given; such as debug, or port=debug".to_owned());
        }
        // Whichever order: what is said of all must not undo what is said of one.
        for part in parts().filter(|part| !part.contains('=')) {
            changed = Self { level: level(part)?, targets: BTreeMap::new() };
        }
        for (target, text) in parts().filter_map(|part| part.split_once('=')) {
            if !all.contains(&target) {
                return Err(format!("unknown target \"{target}\"; allowed: {}", all.join(", ")));
            }
            changed.targets.insert(target.to_owned(), level(text)?);
        }
        *self = changed;
        Ok(())
    }

    /// What lets through what these levels say.
    pub fn filter(&self) -> Targets {
        let targets = self.targets.iter().map(|(target, level)| (target.clone(), filter(*level)));
        Targets::new().with_default(filter(self.level)).with_targets(targets)
    }
}

fn level(text: &str) -> Result<LogLevel, String> {
    let known = LogLevel::ALL.into_iter().find(|level| level.as_str().eq_ignore_ascii_case(text.trim()));
    known.ok_or_else(|| {
        let all = LogLevel::ALL.map(LogLevel::as_str).join(", ");
        format!("unknown level \"{text}\"; allowed: {all}")
    })
}

fn filter(level: LogLevel) -> LevelFilter {
    match level {
        LogLevel::Off => LevelFilter::OFF,
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    }
}

impl Display for Levels {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(self.level.as_str())?;
        self.targets.iter().try_for_each(|(target, level)| write!(f, ",{target}={}", level.as_str()))
    }
}
