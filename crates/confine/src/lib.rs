//! Dropping privileges, and reading which are left.
//!
//! ```no_run
//! use confine::{Capabilities, Calls, Files, Mode, drop_capabilities, filter_calls, no_new_privileges};
//!
//! # fn main() -> Result<(), confine::ConfineError> {
//! drop_capabilities(Capabilities::NONE)?; // before the second thread exists
//! no_new_privileges()?;
//! Files::default().restrict()?; // Landlock: no file, no TCP port
//! // … start threads …
//! filter_calls(Calls::Gateway, Mode::Enforce)?; // seccomp, for all threads
//! for thread in confine::status::Process::this().expect("/proc").threads {
//!     println!("{}: capabilities {:x}", thread.name, thread.effective);
//! }
//! # Ok(()) }
//! ```
//!
//! | file | content |
//! |---|---|
//! | `capabilities.rs` | Linux capabilities, no_new_privs, the user the process runs as |
//! | `files.rs` | Landlock: paths, TCP ports, no signals to other processes |
//! | `syscalls.rs` | seccomp: the system calls of a gateway and of its helper |
//! | `status.rs` | privileges of a process and of each of its threads, from /proc |
//!
//! Capabilities, Landlock and the user belong to a thread and are inherited by the threads it starts: they are set
//! before the second thread exists. The seccomp filter is installed last, for all threads at once (TSYNC).

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
