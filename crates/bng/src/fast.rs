//! The in-kernel path of known IPoE subscribers: see [`gateway::fast_path`].
//!
//! | file | what |
//! |---|---|
//! | `bpf/fastpath.bpf.c`, `bpf/record.h` | the program, and what it shares with us |
//! | `record` | the same in Rust: layouts, asserted |
//! | `path` | the program with its own maps: access lists, and what is not forwarded |
//! | `compile` | a subscriber's record → the program's; why one stays in user space |
//!
//! A subscriber is in one place at a time. In the kernel, its policers and counts are the program's, and the policers in the
//! worker's record are closed: a packet that comes to the worker all the same meets them, and the worker takes the subscriber
//! back with what it has counted (`subscribers/kernel.rs`).

mod compile;
mod path;
mod record;

pub use compile::{NotEligible, compile};
pub(crate) use compile::{line_key, shared_key};
pub use gateway::fast_path::{Counts, FastPathError, FastPort};
pub use path::{FastPath, Publisher};
pub(crate) use record::LENGTHS;
pub use record::{Lane, Session};

use gateway::fast_path::FastPathMode;

use crate::config::Config;

/// Why a gateway of that configuration has no in-kernel path; none: it may have.
pub fn why_not(config: &Config) -> Option<&'static str> {
    let is_fast =
        |device: &String| config.port.iter().any(|port| port.name == *device && port.fast_path != FastPathMode::Off);
    let reasons = [
        (config.nat.is_some(), "addresses are translated ([nat])"),
        (config.port.iter().filter_map(|port| port.on.as_ref()).any(is_fast), "ports share one of its devices (on)"),
        (config.port.iter().any(|port| port.mss.is_some()), "a port clamps the TCP segment size (mss)"),
    ];
    reasons.into_iter().find(|(is, _)| *is).map(|(_, why)| why)
}
