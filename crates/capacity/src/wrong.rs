//! What is wrong with a question, and what would be right.

use std::fmt;

/// A mistake in a plan: which key, what, and what would be right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrong {
    /// Keys and list positions from the top.
    pub path: Vec<String>,
    /// What is wrong.
    pub what: String,
    /// What would be right.
    pub help: String,
}

impl Wrong {
    /// A mistake at a path of keys, joined by dots.
    pub fn at(path: &str, what: impl Into<String>, help: impl Into<String>) -> Self {
        let path = path.split('.').map(str::to_owned).collect();
        Self { path, what: what.into(), help: help.into() }
    }
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}; {}", self.path.join("."), self.what, self.help)
    }
}

impl std::error::Error for Wrong {}
