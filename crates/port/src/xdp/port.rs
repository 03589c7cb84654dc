//! The port.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::Duration;

use frame::{Arena, Batch, Caps, Link, Pool, Port, PortCounters};

use super::attach::{self, Attachment};
use super::config::{Copying, XdpConfig};
use super::program::Steer;
use super::queue::Queue;
use super::socket::{self, Refusal, Socket, Spec, Step};
use super::umem::{self, Umem};
use super::{XdpError, memlock};
use crate::PortError;
use crate::bpf::XdpMode;
use crate::iface::Iface;
use crate::offload::{self, Fit};

/// How often the link and the kernel's counters are looked at, in nanoseconds.
const WATCH_EVERY: u64 = 20_000_000;
/// How long opening waits for the last socket of the queue to be taken down.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long closing waits for packets still being sent.
const LINGER: Duration = Duration::from_millis(100);
/// Packets accepted for sending before the kernel is told without waiting for the next `service`.
const KICK_AT: usize = 128;
/// After the kernel or the device would take no more, so many services pass before it is asked again, unless this many
/// packets were reported sent before: asking a full ring at every loop is a system call a packet, and on a veth whose
/// reader lags (it drops what does not fit) a packet lost with each.
const STALL: u32 = 32;
const STALL_ENDS_AT: usize = 16;
/// Ethernet header and two VLAN tags.
const LINK_HEADER: u32 = 14 + 8;
/// A zero-copy device's view of the arena is contiguous inside a huge page.
const HUGE_PAGE: u64 = 2 << 20;

/// One queue of an interface over AF_XDP. Its frames' slots pass to and from other ports of the arena without a copy.
///
/// Counters of packets lost in the kernel are as of the last look, at most 20 ms of [`Port::service`] ago.
///
/// Dropped without [`Port::close`], the slots it holds are lost to the pool until the arena ends.
pub struct XdpPort {
    live: Option<Live>,
    config: XdpConfig,
    iface: Iface,
    mac: [u8; 6],
    mtu: u32,
    link: Link,
    counters: PortCounters,
    /// What sockets before this one lost.
    lost: Lost,
    looked: u64,
    closed: bool,
    // After `live`: the memory outlives the socket.
    arena: Arc<Arena>,
}

/// What there is while the interface exists. The queue's rings lie in the socket's mappings: they come and go together.
struct Live {
    queue: Queue,
    socket: Socket,
    attached: Attachment,
    _fit: Option<Fit>,
    ifindex: u32,
    unkicked: usize,
    stall: u32,
}

/// Packets lost in the kernel.
#[derive(Clone, Copy, Default)]
struct Lost {
    ring_full: u64,
    no_frame: u64,
    too_long: u64,
    invalid: u64,
}

impl XdpPort {
    /// Opens the port. The first [`Port::service`] gives it slots to receive into.
    ///
    /// # Errors
    /// [`PortError`], saying what to do.
    pub fn open(config: XdpConfig, arena: &Arc<Arena>) -> Result<Self, PortError> {
        let config = config.checked()?;
        let iface = Iface::open(&config.interface, config.netns.as_deref())?;
        let live = Live::open(&config, &iface, arena, PATIENCE)?;
        let mac = iface.mac().unwrap_or_default();
        let mtu = iface.mtu().unwrap_or_default();
        let link = iface.link();
        Ok(Self {
            live: Some(live),
            config,
            iface,
            mac,
            mtu,
            link,
            counters: PortCounters::default(),
            lost: Lost::default(),
            looked: 0,
            closed: false,
            arena: arena.clone(),
        })
    }

    /// The interface's steering: what the XDP program takes, and what it counted. None while the interface is gone.
    pub fn steer(&self) -> Option<&Steer> {
        self.live.as_ref().map(|live| live.attached.get().steer())
    }

    /// Whether the device reads and writes the arena itself.
    pub fn zero_copy(&self) -> bool {
        self.live.as_ref().is_some_and(|live| live.socket.zero_copy())
    }

    /// Slots go back to the pool they came from, or safe code could have two tokens of one.
    #[inline]
    fn check(&self, pool: &Pool) {
        assert!(Arc::ptr_eq(pool.arena(), &self.arena), "a pool of another arena");
    }

    /// Looks at the link and the kernel's counters.
    #[cold]
    fn watch(&mut self, pool: &mut Pool) {
        let there = self.iface.index().ok();
        let link = if there.is_some() { self.iface.link() } else { Link::Gone };
        let lost_it = self.live.as_ref().is_some_and(|live| there != Some(live.ifindex));
        if lost_it && !self.abandon(pool) {
            self.set_link(Link::Gone);
            return;
        }
        if self.live.is_none() && there.is_some() {
            self.reopen();
        }
        self.set_link(if self.live.is_some() { link } else { Link::Gone });
        if let Some(live) = &self.live {
            self.lost.plus(&live.socket).show(&mut self.counters);
        }
    }

    fn set_link(&mut self, link: Link) {
        match (self.link, link) {
            (Link::Up, Link::Down | Link::Gone) => self.counters.link_losses += 1,
            (Link::Down | Link::Gone, Link::Up) => self.counters.link_returns += 1,
            _ => {}
        }
        self.link = link;
    }

    /// The interface is gone and took the socket's binding with it: gives every slot back. False while there are
    /// received packets to be fetched first.
    fn abandon(&mut self, pool: &mut Pool) -> bool {
        let Some(live) = &mut self.live else { return true };
        if live.queue.waiting() > 0 {
            return false;
        }
        let Some(live) = self.live.take() else { return true };
        self.end(live, pool);
        true
    }

    /// Closes the socket and takes the slots back.
    fn end(&mut self, live: Live, pool: &mut Pool) {
        let Live { mut queue, socket, attached, _fit, ifindex, .. } = live;
        queue.reap(pool, &mut self.counters);
        self.lost = self.lost.plus(&socket);
        self.lost.show(&mut self.counters);
        let zero_copy = socket.zero_copy();
        drop(socket);
        // Detached before the wait: the program has no business without a socket.
        drop(attached);
        let patience = PATIENCE;
        let released = !zero_copy
            || self.iface.netns().within(|| socket::released(ifindex, self.config.queue, patience)).unwrap_or(false);
        if released {
            // SAFETY: the socket is closed; in copy mode that suffices, in zero-copy mode the device was seen to have
            // let go.
            self.counters.tx_lost += unsafe { queue.recover(pool) } as u64;
        }
        // Else the slots are lost rather than shared with a device.
    }

    /// Tries to open the interface that has the name now. It may not be ready; the next look tries again.
    fn reopen(&mut self) {
        if let Ok(live) = Live::open(&self.config, &self.iface, &self.arena, Duration::ZERO) {
            self.live = Some(live);
            self.mac = self.iface.mac().unwrap_or(self.mac);
            self.mtu = self.iface.mtu().unwrap_or(self.mtu);
        }
    }
}

impl Live {
    fn open(config: &XdpConfig, iface: &Iface, arena: &Arena, patience: Duration) -> Result<Self, PortError> {
        let doing = |what: &str| format!("{what} {}", config.interface);
        let system = |e| PortError::system(doing("looking at"), "CAP_NET_RAW", e);
        let shape = arena.shape();
        if !umem::SLOT_BYTES.contains(&shape.slot_bytes) {
            return Err(XdpError::SlotSize { slot_bytes: shape.slot_bytes.into() }.into());
        }
        let (ifindex, mtu) = (iface.index().map_err(system)?, iface.mtu().map_err(system)?);
        let fit = match config.keep_offloads {
            false => Some(offload::fit(&config.interface, config.netns.as_deref())?),
            true => None,
        };
        // A device needs contiguous pages, which only huge ones promise.
        let huge = arena.backing() == frame::Backing::Huge;
        let copy = match config.copy {
            Copying::Auto if huge => 0,
            Copying::Auto | Copying::Copy => libc::XDP_COPY,
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
        };
        let (socket, rings) = iface.netns().within(|| open_socket(&spec))?.map_err(|r| said(r, config, &spec))?;
        let umem = if socket.zero_copy() { Umem::new(shape, if huge { HUGE_PAGE } else { 4096 }) } else { plain };
        let queue = Queue::new(rings, umem, shape.slots, config.fill as usize, longest);
        let attached = attach::attach(config)?;
        attached.get().steer().sockets().set_fd(config.queue, socket.as_fd())?;
        Ok(Self { queue, socket, attached, _fit: fit, ifindex, unkicked: 0, stall: 0 })
    }

    /// Has the kernel send what is in the ring.
    #[inline]
    fn kick(&mut self, counters: &mut PortCounters) {
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
                    counters.tx_errors += 1;
                    self.stall = STALL;
                }
                Some(libc::EAGAIN | libc::ENOBUFS) => self.stall = STALL,
                _ => {}
            }
        }
    }

    /// Gives the slots of sent packets back.
    #[inline]
    fn reap(&mut self, pool: &mut Pool, counters: &mut PortCounters) {
        if self.queue.reap(pool, counters) >= STALL_ENDS_AT {
            self.stall = 0;
        }
    }
}

fn open_socket(spec: &Spec) -> Result<(Socket, super::queue::Rings), Refusal> {
    // SAFETY: the arena outlives the port, which keeps socket and rings together; see `XdpPort::end` for the slots.
    let first = unsafe { Socket::open(spec) };
    match first {
        Err(Refusal { step: Step::Register, .. }) if memlock::raise(spec.bytes) => {
            // SAFETY: as above.
            unsafe { Socket::open(spec) }
        }
        other => other,
    }
}

/// What a refusal means.
fn said(refusal: Refusal, config: &XdpConfig, spec: &Spec) -> PortError {
    let Refusal { step, source } = refusal;
    let (name, queue) = (config.interface.clone(), config.queue);
    match (step, source.raw_os_error()) {
        (Step::Create, Some(libc::EAFNOSUPPORT)) => PortError::Unsupported {
            what: "AF_XDP".to_owned(),
            advice: format!("use packet:{name}, or a kernel with CONFIG_XDP_SOCKETS"),
        },
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

impl Lost {
    fn plus(self, socket: &Socket) -> Self {
        let Ok(now) = socket.statistics() else { return self };
        Self {
            ring_full: self.ring_full + now.rx_ring_full,
            no_frame: self.no_frame + now.rx_fill_ring_empty_descs,
            // The kernel counts a packet without a slot as dropped as well.
            too_long: self.too_long + now.rx_dropped.saturating_sub(now.rx_fill_ring_empty_descs),
            invalid: self.invalid + now.rx_invalid_descs + now.tx_invalid_descs,
        }
    }

    fn show(self, counters: &mut PortCounters) {
        counters.rx_ring_full = self.ring_full;
        counters.rx_no_frame = self.no_frame;
        counters.rx_too_long = self.too_long;
        counters.rx_errors = self.invalid;
    }
}

impl Port for XdpPort {
    #[inline]
    fn rx_burst(&mut self, pool: &mut Pool, out: &mut Batch) -> usize {
        self.check(pool);
        let Some(live) = &mut self.live else { return 0 };
        live.queue.receive(pool, out, &mut self.counters)
    }

    #[inline]
    fn tx_burst(&mut self, pool: &mut Pool, batch: &mut Batch) -> usize {
        self.check(pool);
        let live = match &mut self.live {
            Some(live) if self.link == Link::Up => live,
            _ => {
                self.counters.tx_link_down += batch.len() as u64;
                return 0;
            }
        };
        let mut taken = live.queue.transmit(pool, batch, &mut self.counters);
        if !batch.is_empty() {
            live.kick(&mut self.counters);
            live.reap(pool, &mut self.counters);
            taken += live.queue.transmit(pool, batch, &mut self.counters);
            self.counters.tx_full += batch.len() as u64;
        }
        live.unkicked += taken;
        if live.unkicked >= KICK_AT {
            live.kick(&mut self.counters);
        }
        taken
    }

    #[inline]
    fn service(&mut self, pool: &mut Pool) {
        self.check(pool);
        if self.closed {
            return;
        }
        let now = coarse_now();
        if now.wrapping_sub(self.looked) >= WATCH_EVERY {
            self.looked = now;
            self.watch(pool);
        }
        let Some(live) = &mut self.live else { return };
        live.kick(&mut self.counters);
        // What was just sent first: its slots are warm.
        live.reap(pool, &mut self.counters);
        live.queue.refill(pool);
        if live.queue.fill_needs_wakeup() {
            self.counters.syscalls += 1;
            live.socket.kick_rx();
        }
    }

    fn caps(&self) -> Caps {
        let queue = self.config.queue;
        let detail = match &self.live {
            Some(live) => {
                let copy = if live.socket.zero_copy() { "zero copy" } else { "copy mode" };
                let mode = if live.attached.get().mode() == XdpMode::Generic { "generic" } else { "native" };
                format!("{copy}, {mode} program, queue {queue}, filter {}", self.config.filter)
            }
            None => format!("waiting for the interface, queue {queue}"),
        };
        let name = self.config.interface.clone();
        Caps { kind: "xdp", name, detail, mac: self.mac, mtu: self.mtu, link: self.link }
    }

    fn counters(&self) -> PortCounters {
        self.counters
    }

    fn held(&self) -> usize {
        self.live.as_ref().map_or(0, |live| live.queue.held())
    }

    fn wait_fd(&self) -> Option<BorrowedFd<'_>> {
        // An unbound socket reports an error for ever, which would be no sleep.
        self.live.as_ref().filter(|_| self.link != Link::Gone).map(|live| live.socket.as_fd())
    }

    /// Gives every slot back, those the kernel still had included: once the socket is closed it has let go of them (in
    /// zero-copy mode: once the device has, which is waited for). Packets received and not fetched are lost; packets
    /// still being sent get 100 ms.
    fn close(&mut self, pool: &mut Pool) {
        self.check(pool);
        self.closed = true;
        let Some(mut live) = self.live.take() else { return };
        let until = std::time::Instant::now() + LINGER;
        while live.queue.sending() > 0 && self.link == Link::Up && std::time::Instant::now() < until {
            live.kick(&mut self.counters);
            live.reap(pool, &mut self.counters);
            std::thread::yield_now();
        }
        self.end(live, pool);
    }
}

/// Nanoseconds of the kernel's coarse clock: a few cycles, a few milliseconds' grain.
#[inline]
fn coarse_now() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a timespec to write to.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC_COARSE, &mut now) };
    now.tv_sec.unsigned_abs() * 1_000_000_000 + now.tv_nsec.unsigned_abs()
}
