//! The port.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use frame::{Arena, Batch, Caps, Link, Pool, Port, PortCounters, PortHandover};

use super::attach::Attachment;
use super::config::XdpConfig;
use super::live::Live;
use super::program::Steer;
use super::queue::Queue;
use super::socket::{self, Socket};
use crate::PortError;
use crate::bpf::XdpMode;
use crate::claim::Hold;
use crate::clock::coarse_now;
use crate::iface::Iface;
use crate::offload::Fit;

/// How long more slots than usual are kept ready for a process that takes over: it is refused or given up sooner.
const BRACED_FOR: Duration = Duration::from_secs(330);
/// How often the link and the kernel's counters are looked at, in nanoseconds.
const WATCH_EVERY: u64 = 20_000_000;
/// How often the kernel's counters are looked at while the worker sleeps between packets and hears of changes of the link.
const COUNT_EVERY: u64 = 100_000_000;
/// How long opening waits for the last socket of the queue to be taken down.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long closing waits for packets still being sent.
const LINGER: Duration = Duration::from_millis(100);
/// Packets accepted for sending before the kernel is told without waiting for the next [`Port::kick`].
const KICK_AT: usize = 128;
/// The part of all slots, one in so many, that a port at most keeps ready to receive.
const SHARE: u32 = 8;
/// Most looks between two attempts to open an interface that is there but cannot be opened: about a second.
const MOST_SKIPPED: u32 = 63;

/// One queue of an interface over AF_XDP. Its frames' slots pass to and from other ports of the arena without a copy.
///
/// Counters of packets lost in the kernel are as of the last look: 20 ms ago at most, 100 ms where few packets come,
/// a second where none do.
///
/// Dropped without [`Port::close`], the slots it holds are lost to the pool until the arena ends.
pub struct XdpPort {
    pub(super) live: Option<Live>,
    pub(super) config: XdpConfig,
    pub(super) iface: Iface,
    pub(super) mac: [u8; 6],
    pub(super) mtu: u32,
    pub(super) link: Link,
    pub(super) counters: PortCounters,
    /// What sockets before this one lost; less what the process before has counted of a socket that was handed over.
    pub(super) lost: Lost,
    pub(super) looked: u64,
    /// Since when more slots than usual are kept ready, for another process that takes over.
    pub(super) braced: Option<Instant>,
    /// When the kernel's counters were read.
    pub(super) counted: u64,
    /// Looks to let pass before the next attempt to open, and how many it was the last time.
    pub(super) skip: (u32, u32),
    pub(super) closed: bool,
    /// Queues on which the interface received when it was opened.
    queues: Option<u32>,
    /// What stays of the interface while it is opened again: its program, with what is before it, and its offloads.
    pub(super) standing: Option<(Attachment, Option<Fit>, Hold)>,
    // After `live`: the memory outlives the socket.
    pub(super) arena: Arc<Arena>,
}

/// Packets lost in the kernel. Numbers wrap around: of a socket handed over, those that another process has counted are
/// taken off.
#[derive(Clone, Copy, Default)]
pub(super) struct Lost {
    pub(super) ring_full: u64,
    pub(super) no_frame: u64,
    pub(super) too_long: u64,
    pub(super) invalid: u64,
}

impl XdpPort {
    /// Opens the port, with slots to receive into from the pool.
    ///
    /// # Errors
    /// [`PortError`], saying what to do.
    pub fn open(config: XdpConfig, pool: &mut Pool) -> Result<Self, PortError> {
        let config = config.checked()?;
        let iface = Iface::open(&config.interface, config.netns.as_deref())?;
        let live = Live::open(&config, &iface, pool, PATIENCE)?;
        Ok(Self::of(config, iface, live, pool.arena().clone()))
    }

    /// A port that begins to count.
    pub(super) fn of(config: XdpConfig, iface: Iface, live: Live, arena: Arc<Arena>) -> Self {
        let (mac, mtu) = (iface.mac().unwrap_or_default(), iface.mtu().unwrap_or_default());
        let (link, queues) = (iface.link(), iface.receive_queues());
        Self {
            live: Some(live),
            config,
            iface,
            mac,
            mtu,
            link,
            counters: PortCounters::default(),
            lost: Lost::default(),
            looked: 0,
            braced: None,
            counted: 0,
            skip: (0, 0),
            closed: false,
            standing: None,
            queues,
            arena,
        }
    }

    /// The interface's steering: what the XDP program takes, and what it counted. None while the interface is gone, and
    /// where a helper has it.
    pub fn steer(&self) -> Option<&Steer> {
        self.live.as_ref().and_then(|live| live.attached.steer())
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

    /// Slots that may be kept ready while no worker runs: as [`most_ready`](Self::most_ready), but of what nobody uses now a
    /// quarter at most, for other ports do the same.
    pub(super) fn most_braced(&self) -> usize {
        self.most_ready().min(self.arena.in_depot() / 4)
    }

    /// Slots kept ready to receive at most.
    pub(super) fn most_ready(&self) -> usize {
        (self.arena.shape().slots / SHARE).min(self.config.ring) as usize
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
            self.reopen(pool);
        }
        self.set_link(if self.live.is_some() { link } else { Link::Gone });
        let most = self.most_ready();
        if let Some(live) = &mut self.live {
            self.mac = self.iface.mac().unwrap_or(self.mac);
            let before = self.counters.rx_no_frame;
            self.lost.plus(&live.socket).show(&mut self.counters);
            if self.counters.rx_no_frame > before {
                // Whoever runs this was away for longer than the stock lasts, and will be again.
                live.queue.widen(most);
            }
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
        // What keeps offloads off goes last.
        let Live { mut queue, socket, attached, fit: _fit, ifindex, .. } = live;
        queue.reap(pool, &mut self.counters);
        self.lost = self.lost.plus(&socket);
        self.lost.show(&mut self.counters);
        self.let_go(queue, socket, Some(attached), ifindex, pool);
    }

    /// Closes a socket and takes the slots back that the kernel had of it.
    fn let_go(&mut self, mut queue: Queue, socket: Socket, ends: Option<Attachment>, ifindex: u32, pool: &mut Pool) {
        drop(socket);
        // Detached before the wait: the program has no business without a socket.
        drop(ends);
        // Closed is not yet let go of: a device takes its time, and so does a child of this process that has a copy of
        // the descriptor until it runs its program.
        let (queue_of, patience) = (self.config.queue, PATIENCE);
        let released = socket::released(&self.iface, ifindex, queue_of, patience);
        if released {
            // SAFETY: the socket is closed, and the kernel was seen to have let go of the queue.
            self.counters.tx_lost += unsafe { queue.recover(pool) } as u64;
        }
        // Else the slots are lost rather than shared.
    }

    /// Nobody takes over any more: no more slots are kept ready than usual.
    fn relax(&mut self) {
        self.braced = None;
        self.live.iter_mut().for_each(|live| live.queue.relax());
    }

    /// Tries to open the interface that has the name now. It may not be ready, or taken, or unfit; then later looks try
    /// again, ever less often, for an attempt costs milliseconds.
    fn reopen(&mut self, pool: &mut Pool) {
        if self.skip.0 > 0 {
            self.skip.0 -= 1;
            return;
        }
        match Live::open(&self.config, &self.iface, pool, Duration::ZERO) {
            Ok(live) => {
                self.live = Some(live);
                self.standing = None;
                self.mtu = self.iface.mtu().unwrap_or(self.mtu);
                self.skip = (0, 0);
            }
            Err(_) => {
                let next = (self.skip.1 * 2 + 1).min(MOST_SKIPPED);
                self.skip = (next, next);
            }
        }
    }
}

impl Lost {
    fn plus(self, socket: &Socket) -> Self {
        let Ok(now) = socket.statistics() else { return self };
        // The kernel counts a packet without a slot as dropped as well.
        let too_long = now.rx_dropped.saturating_sub(now.rx_fill_ring_empty_descs);
        Self {
            ring_full: self.ring_full.wrapping_add(now.rx_ring_full),
            no_frame: self.no_frame.wrapping_add(now.rx_fill_ring_empty_descs),
            too_long: self.too_long.wrapping_add(too_long),
            invalid: self.invalid.wrapping_add(now.rx_invalid_descs).wrapping_add(now.tx_invalid_descs),
        }
    }

    /// Without what the other has.
    pub(super) fn less(self, other: Self) -> Self {
        Self {
            ring_full: self.ring_full.wrapping_sub(other.ring_full),
            no_frame: self.no_frame.wrapping_sub(other.no_frame),
            too_long: self.too_long.wrapping_sub(other.too_long),
            invalid: self.invalid.wrapping_sub(other.invalid),
        }
    }

    /// What counters show of it.
    pub(super) fn shown(counters: &PortCounters) -> Self {
        let PortCounters { rx_ring_full, rx_no_frame, rx_too_long, rx_errors, .. } = *counters;
        Self { ring_full: rx_ring_full, no_frame: rx_no_frame, too_long: rx_too_long, invalid: rx_errors }
    }

    /// As numbers, in the order of the fields.
    pub(super) fn words(self) -> [u64; 4] {
        [self.ring_full, self.no_frame, self.too_long, self.invalid]
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
            live.reap(pool, &mut self.counters);
        }
        taken
    }

    #[inline]
    fn kick(&mut self, pool: &mut Pool) {
        self.check(pool);
        if let Some(live) = &mut self.live
            && live.unkicked > 0
        {
            live.kick(&mut self.counters);
            // What was just sent first: its slots are warm.
            live.reap(pool, &mut self.counters);
        }
    }

    #[inline]
    fn unkicked(&self) -> usize {
        self.live.as_ref().map_or(0, |live| live.unkicked)
    }

    #[inline]
    fn service(&mut self, pool: &mut Pool) {
        self.check(pool);
        if self.closed {
            return;
        }
        let now = coarse_now();
        if now.wrapping_sub(self.looked) >= WATCH_EVERY {
            (self.looked, self.counted) = (now, now);
            if self.braced.is_some_and(|since| since.elapsed() > BRACED_FOR) {
                self.relax();
            }
            self.watch(pool);
        }
        let Some(live) = &mut self.live else { return };
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
                let copy = match (live.socket.zero_copy(), self.arena.backing()) {
                    (false, _) => "copy mode",
                    (true, frame::Backing::Huge) => "zero copy",
                    (true, _) => "zero copy without huge pages: buffers across two pages are not used",
                };
                let mode = if live.attached.mode() == XdpMode::Generic { "generic" } else { "native" };
                let of = self.queues.filter(|all| *all > 1).map(|all| format!(" of {all}")).unwrap_or_default();
                format!("{copy}, {mode} program, queue {queue}{of}, filter {}", self.config.filter)
            }
            None => format!("waiting for the interface, queue {queue}"),
        };
        let name = self.config.interface.clone();
        Caps {
            kind: "xdp",
            name,
            detail,
            mac: self.mac,
            mtu: self.mtu,
            link: self.link,
            queues: self.queues,
            keeps: (self.most_ready() as u32).saturating_sub(self.config.fill),
            ..Caps::default()
        }
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

    fn change_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.iface.changes())
    }

    fn changed(&mut self) {
        self.iface.forget_changes();
        self.looked = 0;
    }

    fn unchanged(&mut self) {
        let now = coarse_now();
        let is_usual = self.live.is_some() && self.link == Link::Up;
        if is_usual && now.wrapping_sub(self.counted) < COUNT_EVERY {
            self.looked = now;
        }
    }

    fn service_within(&self) -> Option<Duration> {
        let unsent = self.live.as_ref().is_some_and(|live| live.unkicked > 0);
        // An interface that is there may not be ready to be opened, and a device that took no more says nothing when it does.
        let looks = self.live.is_none() || self.link != Link::Up || unsent;
        looks.then_some(Duration::from_nanos(WATCH_EVERY))
    }

    fn hand_over(&mut self) -> Result<PortHandover, String> {
        self.handover()
    }

    fn position(&self) -> Vec<u64> {
        self.place()
    }

    fn go_on_at(&mut self, position: &[u64]) -> bool {
        self.go_to(position)
    }

    fn mark_held(&self, slots: &mut [u64]) -> bool {
        self.live.as_ref().is_none_or(|live| live.queue.mark_held(slots))
    }

    /// Where the other process has used the rings, what this one knows of them is wrong: the interface is opened again.
    fn come_back(&mut self, pool: &mut Pool) {
        self.check(pool);
        self.relax();
        let Some(live) = self.live.take_if(|live| !live.queue.is_as_left()) else { return };
        let Live { mut queue, socket, attached, fit, hold, ifindex, .. } = live;
        self.counters.rx_abandoned += queue.unfetched() as u64;
        // What the socket has lost until now is counted; a new one begins at zero.
        self.lost = self.lost.plus(&socket);
        self.lost.show(&mut self.counters);
        // The in-kernel path is before that program: with another one it would see no packets. And a process that may bind
        // nothing has its hold to hand over.
        self.standing = Some((attached, fit, hold));
        self.let_go(queue, socket, None, ifindex, pool);
        self.looked = 0;
    }

    /// Gives every slot back, those the kernel still had included, once the queue is free again, which is waited for.
    /// Packets received and not fetched are lost; packets still being sent get 100 ms.
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
