//! Giving up privileges, and reading back which are left.
//!
//! | file | what |
//! |---|---|
//! | `capabilities.rs` | Linux capabilities, no_new_privs, the user the process runs as |
//! | `files.rs` | Landlock: which paths, which TCP ports, no signals to other processes |
//! | `syscalls.rs` | seccomp: the system calls a gateway or its helper makes |
//! | `status.rs` | what /proc tells of a process and each of its threads |
//!
//! Capabilities, Landlock and the user belong to a thread and pass to the threads it makes: they are set before the
//! second thread exists. The seccomp filter is installed last, for all threads at once (TSYNC).

#![forbid(unsafe_code)]

mod capabilities;
mod files;
pub mod status;
mod syscalls;

pub use capabilities::{Capabilities, become_user, drop_capabilities, no_new_privileges};
pub use files::{Enforced, Files, Landlock};
pub use syscalls::{Calls, Mode, filter_calls};

/// Leaves the calling thread its open descriptors: no capability, no file, no port.
///
/// # Errors
/// [`ConfineError`].
pub fn give_up_everything() -> Result<(), ConfineError> {
    drop_capabilities(Capabilities::NONE)?;
    no_new_privileges()?;
    Files::default().restrict().map(drop)
}

/// Why a process could not be confined.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum ConfineError {
    #[error("{doing}: {source}")]
    System { doing: String, source: std::io::Error },
    #[error(
        "there is no user \"{name}\" in /etc/passwd; make one with `useradd --system {name}`, or leave [process] user out"
    )]
    NoUser { name: String },
    #[error("running as user \"{name}\" needs CAP_SETUID and CAP_SETGID: start as root, or leave [process] user out")]
    MayNotBecome { name: String },
    #[error("Landlock: {0}")]
    Landlock(#[from] landlock::RulesetError),
    #[error("no seccomp filter: {0}; [process] seccomp = \"off\" runs without")]
    Filter(String),
}

impl ConfineError {
    pub(crate) fn system(doing: impl Into<String>) -> impl FnOnce(rustix::io::Errno) -> Self {
        let doing = doing.into();
        move |errno| Self::System { doing, source: errno.into() }
    }
}
