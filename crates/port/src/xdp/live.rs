//! What a port has while its interface exists: the socket, its rings, and a share in the interface's program.

use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use frame::{Arena, Pool, PortCounters};

use super::attach::{self, Attachment};
use super::config::{Copying, XdpConfig};
use super::handover::Numbers;
use super::keep;
use super::queue::{Queue, Rings};
use super::socket::{self, Refusal, Socket, Spec, Step, Unbound};
use super::umem::{self, Umem};
use super::{XdpError, memlock};
use crate::PortError;
use crate::claim::{self, Claim, Hold};
use crate::helper::{self, Kept};
use crate::iface::Iface;
use crate::offload::{self, Fit};
use crate::shared;

/// After the kernel or the device would take no more, so many services pass before it is asked again, unless this many
/// packets were reported sent before: asking a full ring at every loop is a system call a packet, and on a veth whose
/// reader lags (it drops what does not fit) a packet lost with each.
const STALL: u32 = 8;
const STALL_ENDS_AT: usize = 16;
/// How long the kernel may take to let go of a closed socket's queue: it does so by deferred work.
const RELEASED_WITHIN: Duration = Duration::from_secs(2);
/// Ethernet header and two VLAN tags.
const LINK_HEADER: u32 = 14 + 8;
/// A zero-copy device's view of the arena is contiguous inside a huge page.
const HUGE_PAGE: u64 = 2 << 20;

/// What there is while the interface exists. The queue's rings lie in the socket's mappings: they come and go together.
pub(super) struct Live {
    pub(super) queue: Queue,
    pub(super) socket: Socket,
    pub(super) attached: Attachment,
    pub(super) fit: Option<Fit>,
    pub(super) hold: Hold,
    pub(super) ifindex: u32,
    pub(super) unkicked: usize,
    stall: u32,
}

impl Live {
    /// Opens the interface that has the name now, with slots to receive into from the pool.
    pub(super) fn open(
        config: &XdpConfig,
        iface: &Iface,
        pool: &mut Pool,
        patience: Duration,
    ) -> Result<Self, PortError> {
        let arena = pool.arena().clone();
        let doing = |what: &str| format!("{what} {}", config.interface);
        let system = |e| PortError::system(doing("looking at"), "CAP_NET_RAW", e);
        let shape = arena.shape();
        if !umem::SLOT_BYTES.contains(&shape.slot_bytes) {
            return Err(XdpError::SlotSize { slot_bytes: shape.slot_bytes.into() }.into());
        }
        let (ifindex, mtu) = (iface.index().map_err(system)?, iface.mtu().map_err(system)?);
        let claim = Claim::Queue(config.queue);
        let hold = claim::hold(iface, shared::key(iface)?, claim, !patience.is_zero())?;
        let fit = match config.keep_offloads {
            false => Some(offload::fit(&config.interface, config.netns.as_deref())?),
            true => None,
        };
        let copying = match config.copy {
            Copying::Auto | Copying::Zero if !umem_of(true, &arena).has_enough() => Copying::Copy,
            as_said => as_said,
        };
        if copying != config.copy && config.copy == Copying::Zero {
            return Err(PortError::Unsupported {
                what: format!(
                    "zero copy on {} with packet buffers of {} bytes (they lie across pages)",
                    config.interface, shape.slot_bytes
                ),
                advice: "reserve huge pages (vm.nr_hugepages), or set packet_buffer_bytes = 2048 in [frames], or say copy=yes"
                    .to_owned(),
            });
        }
        // The kernel tries zero copy where nothing is said.
        let copy = match copying {
            Copying::Auto => 0,
            Copying::Copy => libc::XDP_COPY,
            Copying::Zero => libc::XDP_ZEROCOPY,
        };
        let plain = Umem::new(shape, 0);
        let longest = (mtu + LINK_HEADER) as usize;
        if longest > plain.room() {
            return Err(XdpError::Mtu { name: config.interface.clone(), mtu, room: plain.room() }.into());
        }
        let spec = Spec {
            base: arena.base(),
            bytes: plain.bytes(),
            chunk: plain.chunk(),
            headroom: plain.headroom(),
            ifindex,
            queue: config.queue,
            ring: config.ring,
            copy,
            patience,
            file: arena.file().filter(|_| helper::registers_memory()),
        };
        let (unbound, rings) = open_socket(iface, &spec)?.map_err(|r| said(r, config, &spec))?;
        // Before it is known whether the device will do without copies: slots that it can use in any case.
        let umem = umem_of(copying != Copying::Copy, &arena);
        let mut queue = Queue::new(rings, umem, shape.slots, config.fill as usize, longest);
        queue.refill(pool);
        let socket = match unbound.bind(iface, &spec) {
            Ok(socket) => socket,
            Err(refusal) => {
                // A helper that answers late may have bound it after all.
                let late = [None, Some(libc::EAGAIN), Some(libc::EPIPE), Some(libc::ECONNRESET)];
                let is_kernels = !late.contains(&refusal.source.raw_os_error());
                if is_kernels || socket::released(iface, ifindex, config.queue, RELEASED_WITHIN) {
                    // SAFETY: never bound, or released: the kernel has nothing of the rings.
                    unsafe { queue.recover(pool) };
                }
                return Err(said(refusal, config, &spec));
            }
        };
        queue.set_umem(umem_of(socket.zero_copy(), &arena), pool);
        let attached = match (helper::client_of_process(), socket.lease()) {
            (Some(helper), Some(lease)) => attach::attach_by(helper, config, lease),
            _ => {
                let kept = keep::found(&config.interface, config.netns.as_deref());
                attach::attach_with(config, socket.as_fd(), kept)
            }
        };
        let attached = match attached {
            Ok(attached) => attached,
            Err(error) => {
                drop(socket);
                if socket::released(iface, ifindex, config.queue, RELEASED_WITHIN) {
                    // SAFETY: closed, and the kernel was seen to have let go of the queue.
                    unsafe { queue.recover(pool) };
                }
                return Err(error);
            }
        };
        Ok(Self { queue, socket, attached, fit, hold, ifindex, unkicked: 0, stall: 0 })
    }

    /// What another process had of the interface: its socket, and what holds its claim. None: it does not fit.
    pub(super) fn adopt(
        config: &XdpConfig,
        iface: &Iface,
        arena: &Arena,
        (socket, listener): (OwnedFd, OwnedFd),
        numbers: Numbers,
    ) -> Result<Option<Self>, PortError> {
        let system = |e| PortError::system(format!("looking at {}", config.interface), "CAP_NET_RAW", e);
        let (key, mtu, shape) = (shared::key(iface)?, iface.mtu().map_err(system)?, arena.shape());
        let Some(attached) = Attachment::adopt(numbers.program, numbers.mode) else { return Ok(None) };
        let fit = (numbers.fit != 0).then(|| Kept::adopt(numbers.fit)).flatten();
        if key.1 != numbers.index || arena.file().is_none() || (fit.is_none() && !config.keep_offloads) {
            return Ok(None);
        }
        // SAFETY: the arena is the memory that the socket has, and outlives the port, which keeps socket and rings
        // together; the port is used when the other process has stopped using its own.
        let adopted = unsafe { Socket::adopt(socket, config.ring) };
        let (socket, rings) = adopted.map_err(|Refusal { source, .. }| PortError::System {
            doing: format!("mapping the rings of {}", config.interface),
            source,
        })?;
        let umem = umem_of(socket.zero_copy(), arena);
        let queue = Queue::new(rings, umem, shape.slots, config.fill as usize, (mtu + LINK_HEADER) as usize);
        let hold = claim::adopt(key, Claim::Queue(config.queue), listener);
        Ok(Some(Self { queue, socket, attached, fit, hold, ifindex: key.1, unkicked: 0, stall: 0 }))
    }

    /// Has the kernel send what is in the ring.
    #[inline]
    pub(super) fn kick(&mut self, counters: &mut PortCounters) {
        if self.stall > 0 {
            self.stall -= 1;
            return;
        }
        self.unkicked = 0;
        if self.queue.unsent() == 0 || !self.queue.tx_needs_wakeup() {
            return;
        }
        counters.syscalls += 1;
        if let Err(error) = self.socket.kick_tx() {
            // What was not taken stays in the ring. Link down, gone: the watch finds out.
            match error.raw_os_error() {
                // The device dropped a packet, and the kernel stopped behind it.
                Some(libc::EBUSY) => {
                    counters.tx_lost += 1;
                    self.stalled();
                }
                Some(libc::EAGAIN | libc::ENOBUFS) => self.stalled(),
                _ => {}
            }
        }
    }

    /// The device takes no more now: what is left in the ring is to be kicked again.
    #[cold]
    fn stalled(&mut self) {
        self.stall = STALL;
        self.unkicked = self.queue.unsent() as usize;
    }

    /// Gives the slots of sent packets back.
    #[inline]
    pub(super) fn reap(&mut self, pool: &mut Pool, counters: &mut PortCounters) {
        if self.queue.reap(pool, counters) >= STALL_ENDS_AT {
            self.stall = 0;
        }
    }
}

/// How the arena looks to a socket. A device needs contiguous pages, which only huge ones promise: without, buffers
/// that lie across two pages are set aside.
fn umem_of(zero_copy: bool, arena: &Arena) -> Umem {
    let boundary = match (zero_copy, arena.backing()) {
        (false, _) => 0,
        (true, frame::Backing::Huge) => HUGE_PAGE,
        (true, _) => 4096,
    };
    Umem::new(arena.shape(), boundary)
}

fn open_socket(iface: &Iface, spec: &Spec<'_>) -> Result<Result<(Unbound, Rings), Refusal>, PortError> {
    // SAFETY: the arena outlives the port, which keeps socket and rings together; see `XdpPort` on when it is for the slots.
    let first = unsafe { Socket::open(iface, spec) }?;
    match first {
        Err(Refusal { step: Step::Register, .. }) if memlock::raise(spec.bytes) => {
            // SAFETY: as above.
            unsafe { Socket::open(iface, spec) }
        }
        other => Ok(other),
    }
}

/// What a refusal means.
fn said(refusal: Refusal, config: &XdpConfig, spec: &Spec<'_>) -> PortError {
    let Refusal { step, source } = refusal;
    let (name, queue) = (config.interface.clone(), config.queue);
    match (step, source.raw_os_error()) {
        (Step::Create, Some(libc::EAFNOSUPPORT)) => super::no_af_xdp(&name),
        (Step::Register, Some(libc::ENOBUFS | libc::EPERM)) => PortError::LockedMemory {
            doing: format!("AF_XDP on {name}"),
            // Fits: memory of this process.
            bytes: spec.bytes as usize,
        },
        (Step::Bind, Some(libc::EBUSY)) => XdpError::QueueBusy { name, queue }.into(),
        (Step::Bind, Some(libc::EINVAL)) if config.copy != Copying::Zero => XdpError::NoQueue { name, queue }.into(),
        (Step::Bind, _) if config.copy == Copying::Zero => PortError::Unsupported {
            what: format!("zero copy on queue {queue} of {name} ({source})"),
            advice: "say copy=auto".to_owned(),
        },
        _ => PortError::system(format!("{step} for AF_XDP on {name}"), "CAP_NET_RAW", source),
    }
}
