//! Hitless take-over: a gateway's process hands sockets, ports and state to another, which goes on where it stood.
//!
//! ```text
//! weir run (old)                                         weir run --take-over (new)
//!     │ ◄─────────── {"ask":"take_over", …} ─────────────────┤ reads its configuration, connects to the control socket
//!     ├─ hello, helper, memory, ports (SCM_RIGHTS) ─────────►│ maps memory and rings, gives up its privileges
//!     ├─ batches: all state, what changes meanwhile again ──►│ builds sessions on workers that do not run yet
//!     │   forwards, answers control planes                   │
//!     ├─ arm: control stands still, the rest ───────────────►│
//!     │   forwards                                           │
//!     ■ workers stop between bursts                          │
//!     ├─ buffers in use, last batch ────────────────────────►│ takes the buffers that are free
//!     ├─ frozen: where ports stand, listeners ──────────────►│
//!     │ ◄───────────────────────────── loaded ───────────────┤
//!     ├─ go ────────────────────────────────────────────────►■ workers run
//!     │ ◄───────────────────────────── running ──────────────┤
//!     └ ends, with exit code 0                               │
//! ```
//! Until `go` whatever goes wrong leaves the old process as it was: it sends no `go`, and its workers run on. After `go` only the
//! end of the new process (its connection closes, which a process alive never does) brings the old one's workers back: never
//! do both run. Packets that come while neither runs wait in the ports' sockets, datagrams of control planes in theirs.
//!
//!
//! # Packet memory
//! Where the kernel has packet buffers (AF_XDP), the memory is both processes', and each buffer is owned by one of: the
//! old process, the new one, the kernel for a port. The old one tells which it does not use when its workers stand
//! still; the new one has no other until its workers run. Then those of the old one are its too, but for what the
//! kernel has of ports, which each port knows. So a take-over that fails finds its packets as they were.
//!
//! | file | idea |
//! |---|---|
//! | `wire.rs` | messages with descriptors |
//! | `giver.rs` | the process that hands over |
//! | `taker.rs` | the process that takes over |
//! | `octets.rs`, `changed.rs` | what gateways write their state by, and what of it has changed |

pub mod changed;
mod giver;
pub mod octets;
mod taker;
mod wire;

use std::io;
use std::os::fd::OwnedFd;

use engine::Worker;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use giver::{Handed, Listeners, Standstill, serve};
pub(super) use giver::{Pending, hand_over};
pub(super) use taker::{Taken, Taker};
pub use wire::{Kind, Link, Message, may_ask, may_be_answered};

/// The version of what the two processes say to each other.
pub const VERSION: u32 = 3;

/// A neighbour: its port, address and hardware address.
type Neighbour = (u8, std::net::IpAddr, [u8; 6]);

/// A gateway's state on its way to another process. All of it is of the control side: it locks what it needs for a moment.
pub trait HandOver<G: engine::Gateway>: Send + Sync {
    /// What of the configuration or of the state cannot be handed over, a sentence each; nothing: all can.
    fn hindrances(&self) -> Vec<String>;

    /// Begins: from here on it notes what changes. What the new process needs before any state, and descriptors beside it.
    ///
    /// # Errors
    /// No more descriptors.
    fn begin(&self) -> io::Result<(Value, Vec<OwnedFd>)>;

    /// Adds some of what is new since the beginning or changed since it was added last, while workers run. Returns how many
    /// sessions are left.
    ///
    /// # Errors
    /// A worker does not answer.
    fn export(&self, out: &mut Vec<u8>) -> Result<usize, String>;

    /// Sees to what control has begun without taking in more. Whether nothing is under way any more. Called by the control
    /// thread.
    fn settle(&self) -> bool;

    /// Adds what only a control that is [settled](Self::settle) can tell, and what has changed; workers run.
    ///
    /// # Errors
    /// A worker does not answer.
    fn export_settled(&self, out: &mut Vec<u8>) -> Result<(), String>;

    /// Adds all that is left. Workers stand still, control is [settled](Self::settle).
    ///
    /// # Errors
    /// Something cannot be handed over after all.
    fn export_rest(&self, workers: &mut [Worker<G>], out: &mut Vec<u8>) -> Result<(), String>;

    /// The other process runs, and this one ends at once: what it alone has to finish.
    fn handed_over(&self) {}

    /// The other process has failed: nothing is noted any more.
    fn end(&self);

    /// Takes in what another process has exported. The workers do not run.
    ///
    /// # Errors
    /// It cannot be taken in; a sentence.
    fn import(&self, workers: &mut [Worker<G>], octets: &[u8]) -> Result<(), String>;

    /// All is taken in; workers run next.
    ///
    /// # Errors
    /// It does not fit together; a sentence.
    fn imported(&self, workers: &mut [Worker<G>]) -> Result<(), String>;

    /// The workers run, and the other process is still there: this one does from now on what that one did beside its
    /// workers.
    fn take_place(&self) {}

    /// The workers run; control does not yet. For what they need not wait for.
    fn running(&self) {}
}

/// What a process asks for, and what it is: both must be alike.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Question {
    ask: String,
    /// [`VERSION`].
    version: u32,
    /// [`Product::STATE_LAYOUT`](super::Product::STATE_LAYOUT).
    layout: u64,
    /// The kind of gateway.
    gateway: String,
    workers: u16,
    /// Names and URIs.
    ports: Vec<(String, String)>,
    /// Number and bytes of packet buffers, where the kernel has some of a port.
    #[serde(default)]
    buffers: Option<(u32, u16)>,
}

/// Whether the kernel has packet buffers of one of those ports: they stay where they are.
pub(super) fn shares_memory<'u>(mut uris: impl Iterator<Item = &'u str>) -> bool {
    uris.any(|uri| uri.starts_with("xdp:"))
}

impl Question {
    /// Why the two do not fit; a sentence.
    fn check(&self, theirs: &Self) -> Result<(), String> {
        let differs = |what: &str, ours: &dyn std::fmt::Display, theirs: &dyn std::fmt::Display| {
            Err(format!("take-over refused: {what} differs: {ours} here, {theirs} in the new process; restart instead"))
        };
        if self.version != theirs.version {
            return differs("the version of the hand-over protocol", &self.version, &theirs.version);
        }
        if self.gateway != theirs.gateway {
            return differs("the kind of gateway", &self.gateway, &theirs.gateway);
        }
        if self.layout != theirs.layout {
            let hex = |layout: u64| format!("{layout:#018x}");
            return differs("the layout of session state", &hex(self.layout), &hex(theirs.layout));
        }
        if self.workers != theirs.workers {
            return differs("workers.count", &self.workers, &theirs.workers);
        }
        let list = |ports: &[(String, String)]| {
            let words: Vec<String> = ports.iter().map(|(name, uri)| format!("{name} = {uri}")).collect();
            words.join(", ")
        };
        if self.ports != theirs.ports {
            return differs("the list of ports", &list(&self.ports), &list(&theirs.ports));
        }
        if self.buffers != theirs.buffers {
            let words = |buffers: &Option<(u32, u16)>| {
                buffers.map_or_else(|| "none".to_owned(), |(count, bytes)| format!("{count} of {bytes} bytes"))
            };
            return differs(
                "[frames], whose buffers xdp: ports share,",
                &words(&self.buffers),
                &words(&theirs.buffers),
            );
        }
        Ok(())
    }
}

/// What the new process is told first.
#[derive(Debug, Serialize, Deserialize)]
struct Hello {
    /// The workers' clock: a tick of the time stamp counter, and ticks a second.
    clock: (u64, u64),
    /// How many messages about ports follow.
    ports: usize,
    /// Whether one about the helper does.
    helper: bool,
    /// Whether one with packet memory does.
    memory: bool,
    /// As of [`HandOver::begin`].
    gateway: Value,
}

/// The privileged helper on its way.
#[derive(Debug, Serialize, Deserialize)]
struct HelperNote {
    /// Its process number.
    pid: u32,
    /// It registers packet memory: see [`port::helper::registers_memory`].
    registers_memory: bool,
}

/// A port on its way.
#[derive(Debug, Serialize, Deserialize)]
struct PortNote {
    worker: u16,
    name: String,
    text: String,
}

/// What is only known when the workers stand still.
#[derive(Debug, Serialize, Deserialize)]
struct FrozenNote {
    /// Where each worker's ports stand, in order.
    positions: Vec<Vec<Vec<u64>>>,
    /// Of which the descriptors are: `control`, `metrics`, `health`, `api`.
    listeners: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_is_named() {
        let ours = Question {
            ask: "take_over".to_owned(),
            version: VERSION,
            layout: 7,
            gateway: "one".to_owned(),
            workers: 2,
            ports: vec![("n3".to_owned(), "packet:eth0".to_owned())],
            buffers: None,
        };
        assert_eq!(ours.check(&ours), Ok(()));
        let said = |change: fn(&mut Question)| {
            let mut theirs = ours.clone();
            change(&mut theirs);
            ours.check(&theirs).unwrap_err()
        };
        assert!(said(|q| q.version = 9).contains("version of the hand-over protocol differs: 3 here, 9"));
        assert!(said(|q| q.layout = 8).contains("0x0000000000000007 here"));
        assert!(said(|q| q.gateway = "two".to_owned()).contains("one here, two"));
        assert!(said(|q| q.workers = 1).contains("workers.count differs"));
        assert!(said(|q| q.buffers = Some((64, 2048))).contains("share, differs: none here, 64 of 2048 bytes"));
        assert!(said(|q| q.ports[0].1 = "packet:eth1".to_owned()).contains("n3 = packet:eth0 here, n3 = packet:eth1"));
    }
}
