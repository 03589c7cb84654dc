//! AF_XDP: packets between a device's queue and the arena, past the host's stack.
//!
//! | file | idea |
//! |---|---|
//! | `ring` | one ring shared with the kernel, over memory of any origin |
//! | `ledger` | which slots the kernel has |
//! | `umem` | how the arena looks to the kernel: addresses |
//! | `queue` | the four rings of a queue and the slots in them, without system calls |
//! | `socket` | the system calls |
//! | `filter`, `program`, `attach` | which packets are ours: as text, as instructions, on an interface |
//! | `config`, `live`, `port` | the port |
//! | `handover` | the port on its way to another process |
//!
//! # Memory
//! The arena is registered as a UMEM of its own by every socket: the same memory several times. So a frame received on
//! one port is sent by another without a copy (only its slot's number moves), and each port is in copy or zero-copy
//! mode as its device allows. Locked memory counts once for each port, unless the process has CAP_IPC_LOCK;
//! a confined process whose limit is finite has its helper register it.
//!
//! A ledger knows which slots the kernel has, so that [`held`](frame::Port::held) is exact, everything comes back when
//! the port is closed or its interface removed, and a slot the kernel names without having it is refused.
//!
//! # Steering
//! All ports of an interface share one XDP program; a packet goes to the port that has the queue it arrived at (it
//! can't be had on another), to the host when the filter does not want it or no port has the queue. Slot 0 of a
//! program array is tried first: a fast path in the kernel may be put there ([`Steering`]).
//!
//! # Speed
//! Forwarding from one veth to another, 128-byte frames, copy mode, this port's thread alone on one of two CPUs
//! (2.1 GHz Sapphire Rapids VM, Linux 6.18, other work on the machine, so both sides at real-time priority;
//! `examples/xdp_forward.rs` under `examples/xdp_blast.rs` at 2.5 Mpps, which is overload; seconds of a few short runs,
//! without those in which real-time throttling showed; packets the port had sent, not what arrived):
//!
//! | far end of the transmit veth | Mpps |
//! |---|---|
//! | ordinary interface, no XDP, GRO off | 1.70–2.28 |
//! | the same, GRO on | 1.49–1.58 |
//! | the same, GRO on, NAPI deferred | 1.76 |
//! | native XDP program that drops | 1.35–1.52 |
//! | the same, NAPI deferred | 1.58–1.74 |
//!
//! Receiving costs little; sending in copy mode is the wall: the kernel makes, copies and hands over one socket buffer
//! a packet, and on a veth the far end's receive work runs in between, on our CPU. What was tried:
//!
//! * **Deferred NAPI at the far end** (`napi_defer_hard_irqs` = 2, `gro_flush_timeout` = 20000 in
//!   `/sys/class/net/PEER/`) makes it poll every 20 µs instead of once a packet: +15–20 % where it has NAPI (XDP or
//!   GRO), for up to 20 µs of latency. On the receiving veth it relieves the sender's CPU, not ours.
//! * **No XDP at the far end**: a native program there has every buffer copied once more (headroom).
//! * **Threaded NAPI at the far end**, on the load's CPU, before the load and woken by a timer every 200 µs: sending takes
//!   this port's CPU half (Zen 4 VM: 800 to 480 ns a packet), and then the load's CPU is what has no more to give. So
//!   `weir bench --own-cpu` measures. Not before the load it starves, the veth's 256 places fill up and what does not
//!   fit is dropped (`EBUSY`, told as `tx_errors`). With a timer of 20 µs it is slower than without: timers of virtual
//!   machines are dear.
//! * **Received packets asked for early**, each line of them up to 256 bytes: nothing won (1.158 Mpps, 1.170 without, the
//!   quietest of eight runs in turns).
//! * **Budget**: raised to the whole ring (`XDP_MAX_TX_SKB_BUDGET`), so that a burst is one system call: 64.0 packets
//!   a call under load.
//! * Busy polling was left out: earlier trials on this kind of machine saw little in it.
//! * **Receive work at the far end moved to another CPU** (`rps_cpus`): nothing won (2.5 times plain sockets, 2.7
//!   without, in runs one after the other), and half a millisecond of latency.
//!
//! # Standing still
//! A port that forwards nothing with its fill ring full is idle: nothing arrives. `run_live` as a source does that:
//! every call waits for two grace periods, and where a real-time thread has the CPU of the kernel's RCU thread, each
//! takes up to a second. So a source should be one call for all its time. `tests/xdp/storm.rs` opens ports among
//! packets, from sockets and from the kernel, and wants them to flow.

mod attach;
mod config;
mod filter;
mod handover;
mod keep;
mod kept;
mod ledger;
mod live;
mod memlock;
mod port;
mod program;
mod queue;
mod ring;
mod socket;
mod umem;

use std::os::fd::OwnedFd;

pub(crate) use attach::{Attachment, attach_with, disengage_here, engage_here, hook_here};
pub use attach::{Hook, Steering, disengage, engage, hook};
pub use config::{Copying, XdpConfig};
pub use filter::{BadFilter, Filter, Terms};
pub use keep::{folder_of, keep_in, keep_no_more, leave_nothing};
pub use kept::{KeptInterface, forget_kept, kept_in};
pub use port::XdpPort;
pub use program::{Steer, SteerCounts};
pub(crate) use socket::{bind as bind_socket, register_file, released};

use crate::PortError;
use crate::iface::Iface;

/// The privileged part of opening: a socket in the interface's namespace.
pub(crate) fn create_socket(iface: &Iface) -> Result<OwnedFd, PortError> {
    let doing = || format!("making a socket for AF_XDP on {}", iface.name());
    iface.netns().within(socket::create)?.map_err(|e| match e.raw_os_error() {
        Some(libc::EAFNOSUPPORT) => no_af_xdp(iface.name()),
        _ => PortError::system(doing(), "CAP_NET_RAW", e),
    })
}

/// The kernel was built without it.
fn no_af_xdp(interface: &str) -> PortError {
    PortError::Unsupported {
        what: "AF_XDP".to_owned(),
        advice: format!("use packet:{interface}, or a kernel with CONFIG_XDP_SOCKETS"),
    }
}

/// Lets this process register as much memory as its ports take, also when it has no capability any more: raises
/// RLIMIT_MEMLOCK. False when the limit is below `bytes` and stays there.
pub fn allow_locked_memory(bytes: u64) -> bool {
    memlock::raise(bytes);
    memlock::allows(bytes)
}

/// Bytes of an arena made so that an AF_XDP port registers.
pub fn registered_bytes(arena: &frame::ArenaConfig) -> u64 {
    umem::Umem::new(arena.shape(), 0).bytes()
}

/// Why an AF_XDP port could not be opened, beyond what any port may suffer.
#[derive(Debug, thiserror::Error)]
pub enum XdpError {
    /// Slots of a size AF_XDP cannot use.
    #[error("AF_XDP wants slots of 2048 to 4096 bytes, the arena's have {slot_bytes}; set slot_bytes in its config")]
    SlotSize {
        /// What the arena has.
        slot_bytes: usize,
    },
    /// The interface's packets do not fit a slot.
    #[error(
        "{name} has an MTU of {mtu}, but a slot takes packets of up to {room} bytes with headers; lower the MTU or \
         give the arena larger slots (4096 at most)"
    )]
    Mtu {
        /// The interface.
        name: String,
        /// Its MTU.
        mtu: u32,
        /// What fits.
        room: usize,
    },
    /// Someone has the queue.
    #[error(
        "queue {queue} of {name} has an AF_XDP socket already; choose another queue, or end the process that has it"
    )]
    QueueBusy {
        /// The interface.
        name: String,
        /// The queue.
        queue: u32,
    },
    /// The interface has no such queue.
    #[error("{name} has no queue {queue}; `ethtool -l {name}` shows how many there are")]
    NoQueue {
        /// The interface.
        name: String,
        /// The queue.
        queue: u32,
    },
    /// Another port of the interface was opened with another filter.
    #[error("{name} is open with filter `{there}` already, and all its ports share it; `{wanted}` can't be had beside")]
    OtherFilter {
        /// The interface.
        name: String,
        /// The filter of the ports that are open.
        there: String,
        /// The one asked for.
        wanted: String,
    },
    /// No port has the interface open.
    #[error("no AF_XDP port of this process has {name} open")]
    NotOpen {
        /// The interface.
        name: String,
    },
}
