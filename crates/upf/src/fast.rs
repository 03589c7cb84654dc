//! The in-kernel path of known sessions: a program at the driver forwards their usual packets itself; every other packet
//! goes by AF_XDP to the user-space path, which is complete without it.
//!
//! | file | what |
//! |---|---|
//! | `bpf/fastpath.bpf.c`, `bpf/record.h` | the program, and what it shares with us |
//! | `bpf/transport6.h`, `bpf/echo.h` | of it: GTP-U over IPv6; answers to Echo Requests without the process |
//! | `record` | the same in Rust: layouts, asserted |
//! | `path` | the program with its own maps, and its tables, access lists and public addresses |
//! | `compile` | a session's record → the program's; why one stays in user space |
//!
//! The rest is [`gateway::fast_path`]. A session is in one place at a time. In the kernel, its buckets and counts are the program's, and those in the worker's
//! record are closed: a packet that comes to the worker all the same meets them, and the worker takes the session back with
//! what it has counted (`sessions/kernel.rs`), so that rates, quotas and usage are exact with one set of state. Reasons and
//! what was decided: `docs/decisions/044-in-kernel-path.md`.

mod compile;
mod path;
mod record;

pub(crate) use compile::{Cells, meter_from_kernel, tally_from_kernel};
pub use compile::{Compiled, NotEligible, compile};
pub use gateway::fast_path::{Counts, FastPathError, FastPort};
pub(crate) use gateway::fast_path::{NUMBER_BITS, address_key, prefix_key};
pub(crate) use path::state_before;
pub use path::{FLOWS, FastPath, Publisher, Room};
pub(crate) use record::{KEY_TEID, Meter, Tally};
pub use record::{Session, Session6};

use gateway::fast_path::FastPathMode;

use crate::config::Config;

/// Why a gateway of that configuration has no in-kernel path; none: it may have.
pub fn why_not(config: &Config) -> Option<&'static str> {
    let is_fast =
        |device: &str| config.port.iter().any(|port| port.name == device && port.fast_path != FastPathMode::Off);
    let reasons = [
        (config.reassembly.is_some(), "fragments are put together ([reassembly])"),
        (config.links().shares_a_link(is_fast), "ports on one of its devices have the same VLAN (on)"),
        (config.port.iter().any(|port| port.mss.is_some()), "a port clamps the TCP segment size (mss)"),
    ];
    reasons.into_iter().find(|(is, _)| *is).map(|(_, why)| why)
}
