//! What is wrong with a fleet, or with what was written for it.

use std::fmt;

/// Where, what, and what would be right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Keys and list positions: of the plan, or of the file written.
    pub path: Vec<String>,
    /// What is wrong.
    pub what: String,
    /// What would be right.
    pub help: String,
}

impl Finding {
    /// A finding at a path of keys, joined by dots.
    pub fn at(path: &str, what: impl Into<String>, help: impl Into<String>) -> Self {
        Self { path: path.split('.').map(str::to_owned).collect(), what: what.into(), help: help.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}; {}", self.path.join("."), self.what, self.help)
    }
}
