//! The port.

use std::cell::Cell;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use frame::{Arena, BURST, Batch, Caps, Link, Pool, Port, PortCounters, flags};
use port::clock::coarse_now;
use port::{Offloads, OpenContext, PortError, Uri};

use crate::config::Config;
use crate::connect::Connect;
use crate::device::{self, Device};
use crate::interrupt::{Armed, Interrupt};
use crate::packets::{Packets, Stock};
use crate::{eal, offload, sys};

/// How often the link is looked at, in nanoseconds.
const WATCH_EVERY: u64 = 20_000_000;
/// How often a sleeping worker looks at it.
const WATCH_ASLEEP: Duration = Duration::from_millis(100);
/// How often the device's counters are read, in nanoseconds: of some devices that takes 100 µs.
const COUNT_EVERY: u64 = 1_000_000_000;

/// One queue of a DPDK device. Its slots pass to and from other ports of the arena without a copy, unless the device's driver
/// is one of those that copy.
///
/// Counters of packets lost in the device are as of the last look, a second ago at most; those of a device with several
/// queues are told by queue 0.
///
/// Dropped without [`Port::close`], the slots it holds are lost to the pool until the arena ends.
pub struct DpdkPort {
    device: Option<Arc<Device>>,
    stock: Stock,
    port: u16,
    queue: u16,
    /// What a worker sleeps on; none: the device has no interrupts.
    interrupt: Option<Interrupt>,
    /// The device looks for its other end when it starts only.
    connects: Option<Connect>,
    /// It could not be started again.
    stands_still: bool,
    /// The driver, and how it is used.
    what: String,
    /// The device's driver takes no buffers of the arena.
    copies: bool,
    link: Link,
    caps: Caps,
    /// What the device does.
    offloads: Offloads,
    sums: offload::Counts,
    counters: PortCounters,
    /// What the driver took more than it gave back and is not yet in the device's sum.
    out: Cell<i64>,
    packets: Box<[sys::Packet; BURST]>,
    looked: u64,
    counted: u64,
    /// Names of the device's own counters.
    extras: Vec<&'static str>,
    arena: Arc<Arena>,
}

impl DpdkPort {
    /// Opens the port: starts DPDK, if it has not been, and the device, if no other port has.
    ///
    /// # Errors
    /// [`PortError`], saying what to do.
    pub fn open(uri: &Uri, cx: &mut OpenContext<'_>) -> Result<Self, PortError> {
        let config = Config::from_uri(uri)?;
        let arena = cx.pool.arena().clone();
        eal::start(&config, arena.shape().slots)?;
        let mut all = device::lock();
        let packets = Packets::of(&arena)?;
        let mut stock = Stock::new(&packets)?;
        let mut device = || {
            let what = (&config, cx.offloads);
            Device::of(all.get_or_insert_default(), what, &packets, &mut stock, cx.pool)
        };
        let device = match &config.netns {
            Some(netns) => port::netns::within(netns, device).and_then(|device| device),
            None => device(),
        };
        let device = match device {
            Ok(device) => device,
            Err(error) => {
                stock.empty(cx.pool);
                return Err(error);
            }
        };
        let member = (cx.worker, config.queue);
        device.steer(|steering| steering.join(device.port, device.queues, member, &cx.flows));
        let copies = device.copies().is_some();
        if copies {
            stock.empty(cx.pool);
        }
        let buffers = if copies { "copied buffers" } else { "zero copy" };
        let mut detail = format!("{}, {buffers}, queue {} of {}", device.driver, config.queue, device.queues);
        let offloads = device.offloads;
        detail += offload::words(offloads);
        if !copies && device.splits_frames() {
            detail += ", splits frames of its MTU: packet_buffer_bytes = 4096 in [frames] receives them whole";
        }
        if let Some(advice) = config.ena_advice(&device.driver) {
            detail = format!("{detail}, {advice}");
        }
        let connects = config.connects_once(&device.driver).then(|| Connect::new(config.socket(), coarse_now()));
        let link = if device.is_up() { Link::Up } else { Link::Down };
        let (name, mac, mtu) = (device.name.clone(), device.mac, device.mtu.into());
        let keeps = if copies { 0 } else { device.keeps_sent() + Stock::MOST };
        let extras = if config.queue == 0 { extra_names(device.port) } else { Vec::new() };
        let mut port = Self {
            port: device.port,
            device: Some(device),
            stock,
            queue: config.queue,
            interrupt: None,
            connects,
            stands_still: false,
            what: detail,
            copies,
            link,
            caps: Caps {
                kind: "dpdk",
                name,
                mac,
                mtu,
                link,
                completes_udp6: offloads.complete_udp6,
                keeps,
                ..Caps::default()
            },
            offloads,
            sums: offload::Counts::default(),
            counters: PortCounters::default(),
            out: Cell::new(0),
            packets: Box::new([sys::Packet::default(); BURST]),
            looked: 0,
            counted: 0,
            extras,
            arena,
        };
        port.look_for_interrupt();
        Ok(port)
    }

    /// What a worker sleeps on. Of some devices it is there, or is another, when the other end comes.
    fn look_for_interrupt(&mut self) {
        if let Some(interrupt) = self.interrupt.take() {
            interrupt.close();
        }
        if self.device.as_ref().is_some_and(|device| device.interrupts) {
            self.interrupt = Interrupt::of(self.port, self.queue);
        }
    }

    /// The interrupt is asked for anew before the worker sleeps.
    #[inline]
    fn forget_interrupt(&mut self) {
        if let Some(interrupt) = &mut self.interrupt {
            interrupt.forget();
        }
    }

    /// The device refuses interrupts, until its link returns.
    #[cold]
    fn give_up_interrupt(&mut self) {
        if let Some(interrupt) = self.interrupt.take() {
            interrupt.close();
        }
    }

    #[inline]
    fn check(&self, pool: &Pool) {
        assert!(Arc::ptr_eq(pool.arena(), &self.arena), "a pool of another arena");
    }

    /// Receives into slots that the driver has.
    #[inline]
    fn receive(&mut self, out: &mut Batch) -> usize {
        let most = out.room().min(BURST) as u16;
        let before = out.len();
        // SAFETY: the device is open and this queue is this port's; `packets` has room for `most`.
        let got = unsafe {
            let (packets, cut) = (self.packets.as_mut_ptr(), &raw mut self.counters.rx_too_long);
            sys::weir_rx(self.stock.raw(), self.port, self.queue, packets, most, cut)
        };
        for packet in &self.packets[..usize::from(got)] {
            // SAFETY: the driver had the only right to the slot and gave it up with the packet.
            match unsafe { self.arena.mint_within(packet.slot, packet.head, packet.len) } {
                Some(mut frame) => {
                    if self.offloads.verify_udp {
                        self.sums.good += u64::from(packet.verdict == offload::GOOD);
                        self.sums.bad += u64::from(packet.verdict == offload::BAD);
                        frame.meta.flags |= u16::from(packet.verdict == offload::GOOD) * flags::UDP_VERIFIED;
                    }
                    self.counters.rx_bytes += frame.len() as u64;
                    // There is room: `most` was asked for.
                    let _ = out.push(frame);
                }
                None => self.counters.rx_invalid += 1,
            }
        }
        self.counters.rx_packets += (out.len() - before) as u64;
        out.len() - before
    }

    /// Receives by copying into slots of the pool.
    fn receive_copies(&mut self, pool: &mut Pool, out: &mut Batch) -> usize {
        let most = out.room().min(BURST);
        let (shape, room) = (self.arena.shape(), self.arena.room());
        let mut frames = [const { frame::Frame::none() }; BURST];
        let mut ready = 0;
        while ready < most {
            let Some(frame) = pool.take() else { break };
            self.packets[ready] = sys::Packet { slot: frame.slot(), head: shape.headroom, ..Default::default() };
            frames[ready] = frame;
            ready += 1;
        }
        // SAFETY: as in `receive`; the slots' tokens are in `frames`, so nobody else reaches their bytes, and `room` bytes
        // from the headroom are within a slot.
        let got = unsafe {
            let (packets, cut) = (self.packets.as_mut_ptr(), &raw mut self.counters.rx_too_long);
            let (base, room) = (self.arena.base(), u16::try_from(room).unwrap_or(u16::MAX));
            sys::weir_rx_copy(base, shape.stride, self.port, self.queue, packets, ready as u16, room, cut)
        };
        for (n, mut frame) in frames.into_iter().take(ready).enumerate() {
            if n >= usize::from(got) {
                pool.give(frame);
                continue;
            }
            self.counters.rx_bytes += self.arena.set_len(&mut frame, self.packets[n].len.into()) as u64;
            let _ = out.push(frame);
        }
        self.counters.rx_packets += u64::from(got);
        got.into()
    }

    /// Link and counters.
    #[cold]
    fn watch(&mut self, now: u64) {
        self.looked = now;
        let Some(device) = &self.device else { return };
        let link = if device.is_up() { Link::Up } else { Link::Down };
        // Should the device have forgotten what was asked for, it is asked anew.
        self.forget_interrupt();
        match (self.link, link) {
            (Link::Up, Link::Down) => {
                self.counters.link_losses += 1;
                self.connects.iter_mut().for_each(|connect| connect.begin(now));
            }
            (Link::Down, Link::Up) => {
                self.counters.link_returns += 1;
                self.connects.iter_mut().for_each(|connect| connect.begin(now));
                self.look_for_interrupt();
            }
            _ => {}
        }
        (self.link, self.caps.link) = (link, link);
        self.connect(now);
        if now.wrapping_sub(self.counted) >= COUNT_EVERY {
            self.counted = now;
            self.count();
        }
    }

    /// Looks for the other end again: it was not ready, or has gone.
    fn connect(&mut self, now: u64) {
        let Some(device) = &self.device else { return };
        if self.link == Link::Down
            && let Some(connect) = &mut self.connects
            && connect.is_due(now)
        {
            self.stands_still = !device.start_again(&mut self.stock);
        }
    }

    fn count(&mut self) {
        if let Some(device) = self.device.as_ref().filter(|_| self.queue == 0)
            && let Some(losses) = device.losses()
        {
            self.counters.rx_ring_full = losses.rx_missed;
            self.counters.rx_errors = losses.rx_errors;
            self.counters.rx_no_frame = losses.rx_no_mbuf;
            // What was refused is counted as `tx_full` already.
            let refused = if device.counts_refused() { self.counters.tx_full } else { 0 };
            self.counters.tx_lost = losses.tx_errors.saturating_sub(refused);
        }
    }

    /// Adds to the device's sum what its driver has more.
    #[inline]
    fn settle(&self) {
        self.out.set(self.out.get() + self.stock.take_out());
        if self.out.get() != 0
            && let Some(device) = &self.device
        {
            device.out.fetch_add(self.out.take(), Ordering::Relaxed);
        }
    }
}

impl Port for DpdkPort {
    #[inline]
    fn rx_burst(&mut self, pool: &mut Pool, out: &mut Batch) -> usize {
        self.check(pool);
        if self.device.is_none() || self.stands_still {
            return 0;
        }
        let came = if self.copies { self.receive_copies(pool, out) } else { self.receive(out) };
        if let Some(interrupt) = &mut self.interrupt {
            let is_starved = || if self.copies { pool.free() == 0 } else { self.stock.count() == 0 };
            if came > 0 {
                interrupt.disarm();
            } else if is_starved() {
                // What waits could not be received, and interrupts no more.
                interrupt.forget();
            }
        }
        came
    }

    #[inline]
    fn tx_burst(&mut self, pool: &mut Pool, batch: &mut Batch) -> usize {
        self.check(pool);
        let device = match &self.device {
            Some(device) if self.link == Link::Up => device,
            _ => {
                self.counters.tx_link_down += batch.len() as u64;
                return 0;
            }
        };
        // net_memif of DPDK 24.11 reads the first packet of none.
        if batch.is_empty() {
            return 0;
        }
        for (frame, packet) in batch.frames_mut().iter_mut().zip(self.packets.iter_mut()) {
            assert!(self.arena.owns(frame), "a frame of another arena");
            let is_left = frame.meta.flags & flags::UDP_SUM_LEFT != 0;
            *packet = sys::Packet {
                slot: frame.slot(),
                head: frame.headroom() as u16, // both are u16 in a frame
                len: frame.len() as u16,
                l2_len: if is_left { self.sums.leave(&self.arena, frame, self.offloads) } else { 0 },
                ..Default::default()
            };
        }
        let (n, packets) = (batch.len() as u16, self.packets.as_ptr());
        let copies = if self.copies { device.copies() } else { None };
        // SAFETY: the device is open and this queue is this port's; the packets lie within slots of this arena, whose tokens are
        // in `batch`.
        let sent = usize::from(unsafe {
            match copies {
                None => {
                    let left = &raw mut self.sums.left;
                    sys::weir_tx(self.stock.raw(), self.port, self.queue, packets, n, left)
                }
                Some(mempool) => {
                    let stride = self.arena.shape().stride;
                    sys::weir_tx_copy(mempool, self.arena.base(), stride, self.port, self.queue, packets, n)
                }
            }
        });
        let bytes = &mut self.counters.tx_bytes;
        batch.drain_front(sent, |frame| {
            *bytes += frame.len() as u64;
            // Else the token ends here: the right to the slot is the driver's, which frees it to the stock.
            if copies.is_some() {
                pool.give(frame);
            }
        });
        self.counters.tx_packets += sent as u64;
        self.counters.tx_full += batch.len() as u64;
        sent
    }

    #[inline]
    fn service(&mut self, pool: &mut Pool) {
        self.check(pool);
        if self.device.is_none() {
            return;
        }
        eal::join_thread();
        if !self.copies {
            self.stock.level(pool);
        }
        let now = coarse_now();
        if now.wrapping_sub(self.looked) >= WATCH_EVERY {
            self.watch(now);
        }
    }

    fn wait_fd(&self) -> Option<BorrowedFd<'_>> {
        self.interrupt.as_ref().map(Interrupt::fd)
    }

    fn fall_asleep(&mut self) -> bool {
        let Some(interrupt) = &mut self.interrupt else { return true };
        match interrupt.arm() {
            Armed::Already => true,
            Armed::Now => false,
            Armed::Refused => {
                self.give_up_interrupt();
                false
            }
        }
    }

    /// The link, of which no interrupt tells.
    fn service_within(&self) -> Option<Duration> {
        self.interrupt.is_some().then_some(WATCH_ASLEEP)
    }

    fn caps(&self) -> Caps {
        let idle = if self.interrupt.is_some() { "interrupts" } else { "no interrupts" };
        let told = self.device.as_ref().map(|device| device.told()).unwrap_or_default();
        let detail = format!("{}{}, {idle}", self.what, told.words);
        Caps { detail, unsteered: told.refused, ..self.caps.clone() }
    }

    fn counters(&self) -> PortCounters {
        self.counters
    }

    fn extras(&self, tell: &mut dyn FnMut(&'static str, u64)) {
        self.sums.tell(self.offloads, tell);
        if self.device.is_none() || self.extras.is_empty() {
            return;
        }
        let mut values = vec![sys::Xstat::default(); self.extras.len()];
        // SAFETY: the device is open; `values` has room for so many.
        let got = unsafe { sys::rte_eth_xstats_get(self.port, values.as_mut_ptr(), values.len() as u32) };
        let got = usize::try_from(got).ok().filter(|got| *got <= values.len()).unwrap_or(0);
        for value in &values[..got] {
            if let Some(name) = usize::try_from(value.id).ok().and_then(|id| self.extras.get(id)) {
                tell(name, value.value);
            }
        }
    }

    /// Those in the stock, and, told by queue 0, those that the device's driver has. Of two devices joined by a ring each may
    /// have taken what the other was given: only together do they tell the truth.
    fn held(&self) -> usize {
        self.settle();
        let device = self.device.as_ref().filter(|_| self.queue == 0);
        let out = device.map_or(0, |device| device.out.load(Ordering::Relaxed));
        self.stock.count() + usize::try_from(out).unwrap_or(0)
    }

    /// The last port of a device closes it, and has what the driver held given back.
    fn close(&mut self, pool: &mut Pool) {
        self.check(pool);
        self.count();
        self.settle();
        if let Some(interrupt) = self.interrupt.take() {
            interrupt.close();
        }
        let mut all = device::lock();
        if let Some(device) = self.device.take() {
            // Nobody can come by another reference meanwhile: the lock is held.
            if Arc::strong_count(&device) == 1 {
                if !self.stands_still {
                    // A link without completions may have packets that it does not hold any more.
                    // SAFETY: the device is open and its workers stand still.
                    unsafe { sys::weir_tx_done(self.stock.raw(), self.port, self.queue) };
                }
                device.close(&mut self.stock);
                if let Some(all) = all.as_mut() {
                    all.remove(&device.name);
                }
            }
        }
        drop(all);
        self.stock.empty(pool);
    }
}

/// Names of a device's own counters. They are kept until the process ends: a device has some dozens.
fn extra_names(port: u16) -> Vec<&'static str> {
    // SAFETY: the device is open; asked with no room, the function tells how many there are.
    let count = unsafe { sys::rte_eth_xstats_get_names(port, std::ptr::null_mut(), 0) };
    let Ok(count) = usize::try_from(count) else { return Vec::new() };
    let mut names = vec![sys::XstatName([0; 64]); count];
    // SAFETY: `names` has room for so many.
    let got = unsafe { sys::rte_eth_xstats_get_names(port, names.as_mut_ptr(), count as u32) };
    if usize::try_from(got) != Ok(count) {
        return Vec::new();
    }
    let text = |name: &sys::XstatName| {
        let end = name.0.iter().position(|byte| *byte == 0).unwrap_or(name.0.len());
        &*Box::leak(format!("dpdk_{}", String::from_utf8_lossy(&name.0[..end])).into_boxed_str())
    };
    names.iter().map(text).collect()
}

#[cfg(test)]
mod tests;
