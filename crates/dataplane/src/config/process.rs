//! `[process]`: what the running process keeps of its privileges.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What the process may still do once its ports are open.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ProcessSection {
    /// Open ports through a helper process, and drop every privilege. False: one process keeps all it was started with.
    pub confine: bool,
    /// Go on as this user once ports are open; needs a start as root. Left out: as the user it was started by.
    pub user: Option<String>,
    /// What becomes of a system call that is not on the list.
    pub seccomp: Seccomp,
}

impl Default for ProcessSection {
    fn default() -> Self {
        Self { confine: true, user: None, seccomp: Seccomp::default() }
    }
}

/// What becomes of a system call that is not on the list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Seccomp {
    /// It fails with EPERM.
    #[default]
    Enforce,
    /// It is made, and written to the audit log.
    Log,
    /// It ends the process by SIGSYS.
    Kill,
    /// There is no filter.
    Off,
}
