//! The in-kernel path of a gateway's known sessions: a program at the driver forwards their usual packets itself; every other
//! packet goes by AF_XDP to the user-space path, which is complete without it.
//!
//! | file | what |
//! |---|---|
//! | `bpf/shared.h`, `bpf/path.h`, `bpf/begin.h`, `bpf/sum.h` | what all gateways' programs have in common |
//! | `bpf/alone.h`, `bpf/losses.h` | programs beside: of packets that no port takes, and of what devices refuse |
//! | `record` | what they share with us, in Rust: layouts, asserted |
//! | `path` | the maps, as memory: index of sessions, quiescence, counters |
//! | `bucket` | token buckets on either side |
//! | `lists` | access lists (`bpf/acl.h`, `bpf/check_acl.h`) |
//! | `flows` | translated flows (`bpf/nat.h`, `bpf/translate.h`) |
//! | `moving` | sessions on their way into the kernel and back |
//! | `tables` | ports, routes and neighbours, as they are published |
//! | `before` | what a process before has left |
//! | `left`, `owner` | the same for people: whether its process lives, what it forwards; taking it away |
//! | `attach` | the program put before those of the ports |
//!
//! A gateway fills it with a [`ProgramSpec`] (its compiled object and maps of its own), the record of a session, what makes
//! a session eligible for it, and how counts come back ([`InKernelSessions`]). A session is in one place at a time: reasons
//! are in `docs/decisions/044-in-kernel-path.md`.

mod attach;
mod before;
mod bucket;
mod flows;
mod index; // what leads to a session
mod left; // for who looks from outside
mod lists;
mod moving;
mod owner;
mod path;
mod record;
mod tables;

pub use attach::{Attached, FastPathMode, Ready, Standing, WantedPort, Wants, disengage, keep_past, open};
pub use before::Before;
pub use bucket::{Offset, bucket_from_kernel, bucket_to_kernel};
pub use flows::{FlowMaps, Flows, RANGES, Translation, translation};
pub use left::{Cleared, KernelPaths, PathInterface, PathOwner, PathProgram, PathView, clear, look};
pub use lists::{List, NO_COUNTER, TERMS, Term, has_list, hits};
pub use moving::{InKernel, InKernelSessions, Kernel};
pub use path::{AloneCounts, Counts, FastPath, FastPathError, ProgramSpec, cpus};
pub use port::Moderation;
pub use record::{KEY_OWN, Meter, NUMBER_BITS, Next, SharedRecord, State, WAYS, address_key, prefix_key};
pub use tables::{FastPort, MapEntries, Publisher, Side, write};
