//! TUN ports: a network interface of the host's whose other end is the gateway.
//!
//! `tun:ogstun` and further keys:
//!
//! | key | values (first: default) | |
//! |---|---|---|
//! | `offloads` | `on`, `off` | exchange super-packets with the kernel, cut and joined here |
//! | `mtu` | as it is | set on the interface |
//! | `netns` | a name of `ip netns` | where the interface is |
//!
//! An interface that is there (`ip tuntap add name ogstun mode tun`) is attached to and left as it was found, with its
//! addresses, routes and state. One that is not is made, brought up, and goes when the port closes. Several workers each
//! need a queue of their own: the interface is then to be made with `multi_queue`; those made here are.
//!
//! # No link layer
//! A TUN interface carries IP packets without any header. Stages expect Ethernet, so every packet received gets a
//! header from [`PEER`] to [`MAC`], and the header of every packet sent is taken off. [`Caps::peer`](frame::Caps::peer)
//! says so: there is no neighbour to resolve, and whatever is not IP is refused (`tx_errors`).
//!
//! # Offloads
//! A TUN interface takes and gives a packet per system call. With offloads on, one call moves up to 64 KiB: the kernel
//! leaves TCP and UDP packets whole, with the size they are to be cut to (`segment`), and takes TCP segments joined
//! again (`coalesce`).
//!
//! # Losses
//! | counter | |
//! |---|---|
//! | `rx_ring_full` | the kernel had no room left in the interface's queues (`txqueuelen`) |
//! | `rx_too_long` | a packet or segment larger than a slot |
//! | `rx_invalid` | no IP, or a kind of super-packet that is not known |
//! | `tx_errors` | no IP, or refused by the kernel for what it is |
//!
//! Without free slots packets wait in the kernel.

mod coalesce;
mod device;
mod segment;
#[cfg(test)]
mod tests;

use std::fs::File;
use std::io::{ErrorKind, IoSlice, IoSliceMut, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use frame::{BURST, Batch, Caps, Frame, Link, Pool, Port, PortCounters};

use crate::claim::{self, Claim, Hold};
use crate::clock::coarse_now;
use crate::helper::{self, Place, Request};
use crate::iface::Iface;
use crate::netns::Netns;
use crate::shared::{self, Registry, Share};
use crate::{PortError, Uri};
use coalesce::{Groups, HEADERS};
pub(crate) use device::{Opened, attach, device, no_device, open, set_mtu};
use device::{choose_offloads, clear_offloads};
use segment::{Cut, GSO_NONE, NEEDS_CSUM, VnetHeader};

/// Our hardware address on every TUN port: it never leaves the process.
pub const MAC: [u8; 6] = [2, b't', b'u', b'n', 0, 1];
/// That of the kernel at the other end.
pub const PEER: [u8; 6] = [2, b't', b'u', b'n', 0, 2];

/// An Ethernet header.
const LINK: usize = 14;
/// Longest IP packet.
const LONGEST: usize = 65_535;
/// Nanoseconds between looks at the link, and looks between two at the kernel's counters.
const LOOK_EVERY: u64 = 100_000_000;
const COUNT_EVERY: u32 = 10;

static COUNTED: Registry<AtomicU64> = Registry::new();

/// A port on one queue of a TUN interface.
pub struct Tun {
    name: String,
    offloads: bool,
    want_mtu: Option<u32>,
    netns_name: Option<String>,
    netns: Netns,
    queue: Option<File>,
    /// The interface is ours and goes with its last queue.
    made: bool,
    hold: Option<Hold>,
    iface: Option<Iface>,
    index: u32,
    link: Link,
    mtu: u32,
    counters: PortCounters,
    /// Room for a packet that does not fit into a slot.
    large: Box<[u8]>,
    /// What of it is to be cut, and its length.
    cut: Option<(Cut, usize)>,
    groups: Groups,
    /// The kernel's counters of its interfaces, and what of this one's was counted already, by whatever worker.
    statistics: Option<File>,
    counted: Option<Share<AtomicU64>>,
    looked: u64,
    looks: u32,
    doubtful: bool,
    closed: bool,
}

impl Tun {
    /// Opens the interface a URI names, or makes it.
    ///
    /// # Errors
    /// [`PortError`]: an interface of another kind, all its queues taken, a key that makes no sense, a missing
    /// capability.
    pub fn open(uri: &Uri) -> Result<Self, PortError> {
        uri.only(&["offloads", "mtu", "netns"])?;
        let name = uri.target().to_owned();
        if !(1..=15).contains(&name.len()) || name.contains(['/', '%']) {
            let what = "the name of an interface has 1 to 15 characters".to_owned();
            return Err(PortError::BadUri { uri: uri.to_string(), what });
        }
        let want_mtu = match uri.get("mtu") {
            None => None,
            Some(_) => {
                let want = "576 to 65535 bytes";
                let mtu = uri.number("mtu", 0, want)?;
                Some(mtu).filter(|mtu| (576..=65_535).contains(mtu)).ok_or_else(|| uri.bad_value("mtu", want))?.into()
            }
        };
        let netns_name = uri.get("netns").map(str::to_owned);
        let mut port = Self {
            offloads: uri.choice("offloads", &[("on", true), ("off", false)])?,
            want_mtu,
            netns: Netns::open(netns_name.as_deref())?,
            netns_name,
            name,
            queue: None,
            made: false,
            hold: None,
            iface: None,
            index: 0,
            link: Link::Gone,
            mtu: 0,
            counters: PortCounters::default(),
            large: vec![0; LONGEST + 1].into(),
            cut: None,
            groups: Groups::default(),
            statistics: None,
            counted: None,
            looked: 0,
            looks: 0,
            doubtful: false,
            closed: false,
        };
        port.attach(true)?;
        Ok(port)
    }

    /// With `wait` a process that is just leaving the interface is waited for.
    ///
    /// An interface that is there is claimed before a queue is opened, which would already take packets from a process that
    /// has it. One that is made is claimed as soon as it has a number. Settings of the interface come after the claim.
    fn attach(&mut self, wait: bool) -> Result<(), PortError> {
        let take = |iface: &Iface| {
            let key = shared::key(iface)?;
            claim::hold(iface, key, Claim::Whole, wait).map(|hold| (key, hold))
        };
        let claimed = match Iface::open(&self.name, self.netns_name.as_deref()) {
            Ok(iface) => Some(take(&iface)?),
            Err(PortError::NoInterface { .. }) => None,
            Err(error) => return Err(error),
        };
        let Opened { queue, made, statistics } = self.open_queue()?;
        let iface = Iface::open(&self.name, self.netns_name.as_deref())?;
        let now = shared::key(&iface)?;
        // What was there may have gone with the process that was waited for.
        let claimed = claimed.filter(|(key, _)| *key == now);
        let (key, hold) = claimed.map_or_else(|| take(&iface), Ok)?;
        (self.made, self.statistics) = (made, statistics);
        let dropped = self.kernel_dropped().unwrap_or(0);
        // Shared before offloads are set: another worker's port that is just closing is not the last.
        let counted = COUNTED.share(key, || Ok(AtomicU64::new(dropped)))?;
        self.change_mtu()?;
        choose_offloads(&queue, &self.name, self.offloads)?;
        self.index = key.1;
        self.link = iface.link();
        self.mtu = iface.mtu().unwrap_or(self.mtu);
        self.counted = Some(counted);
        (self.queue, self.hold, self.iface) = (Some(queue), Some(hold), Some(iface));
        Ok(())
    }

    /// Leaves the interface, in this order: with the last queue of this process offloads are taken back, while no other
    /// process can have the interface; the queue is closed; the claim is released, and the next process may begin.
    fn detach(&mut self) {
        let (queue, hold) = (self.queue.take(), self.hold.take());
        if let Some(counted) = self.counted.take() {
            counted.leave(|| match (&queue, &hold) {
                (Some(queue), Some(hold)) if self.offloads && hold.is_exclusive(&self.netns) => clear_offloads(queue),
                _ => {}
            });
        }
        drop(queue);
        drop(hold);
        self.statistics = None;
    }

    /// Sets the MTU, if the configuration has one: by the helper, if there is one.
    fn change_mtu(&self) -> Result<(), PortError> {
        let Some(mtu) = self.want_mtu else { return Ok(()) };
        match helper::client_of_process() {
            Some(helper) => {
                let place = Place::new(&self.name, self.netns_name.as_deref());
                helper.ask(&Request::TunMtu { place, mtu }).map(drop)
            }
            None => set_mtu(&self.name, &self.netns, mtu),
        }
    }

    /// By the helper, if there is one.
    fn open_queue(&self) -> Result<Opened, PortError> {
        let Some(helper) = helper::client_of_process() else {
            return open(&self.name, &self.netns, self.offloads);
        };
        let place = Place::new(&self.name, self.netns_name.as_deref());
        let request = Request::Tun { place, offloads: self.offloads };
        let (answer, descriptors) = helper.ask(&request)?;
        let mut files = descriptors.into_iter().map(File::from);
        let queue = files.next().ok_or_else(|| helper::lost(ErrorKind::InvalidData.into()))?;
        Ok(Opened { queue, made: answer.number != 0, statistics: files.next() })
    }

    /// Packets the kernel dropped for want of room, since the interface was made.
    fn kernel_dropped(&mut self) -> Option<u64> {
        // The large packet's room is free between packets.
        let statistics = self.statistics.as_ref().filter(|_| self.cut.is_none())?;
        let len = statistics.read_at(&mut self.large, 0).ok()?;
        dropped(std::str::from_utf8(&self.large[..len]).ok()?, &self.name)
    }

    /// Sees how the link is, counts what the kernel dropped, and attaches to an interface that has come back.
    #[cold]
    fn look(&mut self) {
        self.doubtful = false;
        let there = self.iface.as_ref().and_then(|iface| iface.index().ok());
        if self.queue.is_some() && there != Some(self.index) {
            self.detach();
            self.turn(Link::Gone);
        }
        if self.queue.is_none() {
            if there.is_some() && self.attach(false).is_ok() {
                self.counters.link_returns += u64::from(self.link == Link::Up);
            }
            return;
        }
        let Some(iface) = &self.iface else { return };
        self.mtu = iface.mtu().unwrap_or(self.mtu);
        let link = iface.link();
        self.turn(link);
        self.looks += 1;
        if self.looks >= COUNT_EVERY {
            self.looks = 0;
            self.count();
        }
    }

    fn count(&mut self) {
        if let Some((now, counted)) = self.kernel_dropped().zip(self.counted.as_ref()) {
            self.counters.rx_ring_full += now.saturating_sub(counted.get().fetch_max(now, Ordering::Relaxed));
        }
    }

    fn turn(&mut self, link: Link) {
        self.counters.link_losses += u64::from(self.link == Link::Up && link != Link::Up);
        self.counters.link_returns += u64::from(self.link != Link::Up && link == Link::Up);
        self.link = link;
    }

    /// Cuts segments off the large packet until the burst is full. False when there is no slot for the next.
    fn cut(&mut self, pool: &mut Pool, out: &mut Batch) -> bool {
        while let Some((cut, len)) = &mut self.cut {
            if cut.is_done() {
                self.cut = None;
                break;
            }
            if out.room() == 0 {
                break;
            }
            let Some(mut frame) = pool.take() else { return false };
            let arena = pool.arena();
            let (space, next) = (arena.space_mut(&mut frame), cut.next_len());
            if let Some(space) = space.get_mut(..LINK + next) {
                let (link, packet) = space.split_at_mut(LINK);
                cut.write(&self.large[..*len], packet);
                link.copy_from_slice(&link_header(packet[0] >> 4));
                arena.set_len(&mut frame, LINK + next);
                hand_over(&mut self.counters, pool, out, frame);
            } else {
                cut.skip();
                self.counters.rx_too_long += 1;
                pool.give(frame);
            }
        }
        true
    }

    /// Reads a packet. False: there is none, or no slot for it.
    fn read(&mut self, pool: &mut Pool, out: &mut Batch) -> bool {
        let Some(queue) = &mut self.queue else { return false };
        let Some(mut frame) = pool.take() else { return false };
        let arena = pool.arena();
        let (mut header, space) = ([0; VnetHeader::LEN], arena.space_mut(&mut frame));
        let (link, packet) = space.split_at_mut(LINK.min(space.len()));
        let room = packet.len().min(LONGEST);
        let with_header = if self.offloads { VnetHeader::LEN } else { 0 };
        // What a slot has no room for continues where it would stand in the large packet.
        let parts = &mut [
            IoSliceMut::new(&mut header[..with_header]),
            IoSliceMut::new(&mut packet[..room]),
            IoSliceMut::new(&mut self.large[room..]),
        ];
        self.counters.syscalls += 1;
        let len = match queue.read_vectored(parts) {
            Ok(len) if len > with_header => len - with_header,
            Ok(_) => {
                self.counters.rx_invalid += 1;
                pool.give(frame);
                return true;
            }
            Err(error) => {
                pool.give(frame);
                match error.kind() {
                    ErrorKind::WouldBlock => return false,
                    ErrorKind::Interrupted => return true,
                    // The interface is gone.
                    _ if error.raw_os_error() == Some(libc::EBADFD) => {}
                    _ => self.counters.rx_errors += 1,
                }
                self.doubtful = true;
                return false;
            }
        };
        let header = VnetHeader::read(&header);
        let version = packet[0] >> 4;
        let first = len.min(room);
        if header.gso_type != GSO_NONE {
            self.large[..first].copy_from_slice(&packet[..first]);
            match Cut::new(&header, &self.large[..len]) {
                Some(cut) => self.cut = Some((cut, len)),
                None => self.counters.rx_invalid += 1,
            }
        } else if len > room {
            self.counters.rx_too_long += 1;
        } else if !matches!(version, 4 | 6)
            || (header.flags & NEEDS_CSUM != 0 && !segment::complete(&header, &mut packet[..len]))
        {
            self.counters.rx_invalid += 1;
        } else {
            link.copy_from_slice(&link_header(version));
            arena.set_len(&mut frame, LINK + len);
            hand_over(&mut self.counters, pool, out, frame);
            return true;
        }
        pool.give(frame);
        true
    }
}

/// What became of a packet to send.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// The queue is full, or the packet's turn has not come.
    Waits,
    /// The interface is down, or gone.
    Down,
    Sent,
    Refused,
}

/// Writes a packet, or several joined into one, to the device.
fn write(queue: &mut File, parts: &[IoSlice<'_>], syscalls: &mut u64) -> Fate {
    loop {
        *syscalls += 1;
        let Err(error) = queue.write_vectored(parts) else { return Fate::Sent };
        match error.raw_os_error() {
            Some(libc::EINTR) => {}
            Some(libc::EAGAIN | libc::ENOBUFS | libc::ENOMEM) => return Fate::Waits,
            Some(libc::EIO | libc::EBADFD | libc::ENETDOWN) => return Fate::Down,
            _ => return Fate::Refused,
        }
    }
}

/// Leaves those packets in the batch that still wait, and gives the buffers of the others back.
fn keep_waiting(pool: &mut Pool, batch: &mut Batch, fates: &[Fate; BURST]) {
    let mut waiting = Batch::new();
    let mut i = 0;
    batch.drain(|frame| {
        if fates[i] == Fate::Waits {
            let _ = waiting.push(frame).map_err(|_| unreachable!("as many as came"));
        } else {
            pool.give(frame);
        }
        i += 1;
    });
    *batch = waiting;
}

impl Port for Tun {
    fn rx_burst(&mut self, pool: &mut Pool, out: &mut Batch) -> usize {
        let before = out.len();
        while self.cut(pool, out) && out.room() > 0 && self.read(pool, out) {}
        out.len() - before
    }

    fn tx_burst(&mut self, pool: &mut Pool, batch: &mut Batch) -> usize {
        let count = batch.len();
        let Some(queue) = self.queue.as_mut().filter(|_| self.link == Link::Up) else {
            self.counters.tx_link_down += count as u64;
            return 0;
        };
        let arena = pool.arena();
        let frames = batch.frames();
        let packet = |i: usize| arena.bytes(&frames[i]).get(LINK..).unwrap_or_default();
        self.groups.divide(count, self.offloads, packet);
        let mut fates = [Fate::Waits; BURST];
        for group in self.groups.list() {
            let members = self.groups.members(group);
            let mut headers = [0; HEADERS];
            let first = self.groups.members(group).next().unwrap_or(0);
            let ethernet = arena.bytes(&frames[first]);
            if ethernet.get(..LINK).is_none_or(|link| !is_ip(link, packet(first))) {
                self.counters.tx_errors += 1;
                fates[first] = Fate::Refused;
                continue;
            }
            let joined = coalesce::head(group, packet(first), &mut headers);
            let (description, from) = joined.unwrap_or((VnetHeader::default(), 0));
            let description = description.bytes();
            let mut parts = [IoSlice::new(&[]); BURST + 2];
            let mut used = 0;
            let mut add = |part| {
                parts[used] = IoSlice::new(part);
                used += 1;
            };
            if self.offloads {
                add(&description);
            }
            if from > 0 {
                add(&headers[..from]);
            }
            members.for_each(|i| add(&packet(i)[from..]));
            let fate = write(queue, &parts[..used], &mut self.counters.syscalls);
            self.doubtful |= fate == Fate::Down;
            if matches!(fate, Fate::Waits | Fate::Down) {
                break;
            }
            for i in self.groups.members(group) {
                fates[i] = fate;
                match fate {
                    Fate::Sent => {
                        self.counters.tx_packets += 1;
                        self.counters.tx_bytes += frames[i].len() as u64;
                    }
                    _ => self.counters.tx_errors += 1,
                }
            }
        }
        keep_waiting(pool, batch, &fates);
        let left = batch.len() as u64;
        let counter = if self.doubtful { &mut self.counters.tx_link_down } else { &mut self.counters.tx_full };
        *counter += left;
        count - batch.len()
    }

    fn service(&mut self, _pool: &mut Pool) {
        let now = coarse_now();
        if self.closed || (now.saturating_sub(self.looked) < LOOK_EVERY && !self.doubtful) {
            return;
        }
        self.looked = now;
        self.look();
    }

    fn caps(&self) -> Caps {
        let offloads = if self.offloads { "segmentation and joining here" } else { "a packet per call" };
        let made = if self.queue.is_some() && self.made { ", made by this process" } else { "" };
        Caps {
            kind: "tun",
            name: self.name.clone(),
            detail: format!("{offloads}{made}"),
            mac: MAC,
            mtu: self.mtu,
            link: self.link,
            peer: Some(PEER),
            host: None,
            ..Caps::default()
        }
    }

    fn counters(&self) -> PortCounters {
        self.counters
    }

    fn wait_fd(&self) -> Option<BorrowedFd<'_>> {
        // A queue whose interface is down or gone reports an error for ever, which would be no sleep.
        self.queue.as_ref().filter(|_| self.link == Link::Up && !self.doubtful).map(File::as_fd)
    }

    fn change_fd(&self) -> Option<BorrowedFd<'_>> {
        self.iface.as_ref().map(Iface::changes)
    }

    fn changed(&mut self) {
        self.iface.iter().for_each(Iface::forget_changes);
        self.looked = 0;
    }

    fn service_within(&self) -> Option<Duration> {
        let looks = self.queue.is_none() || self.link != Link::Up || self.doubtful;
        looks.then_some(Duration::from_nanos(LOOK_EVERY))
    }

    fn close(&mut self, _pool: &mut Pool) {
        // What was not cut yet is lost here.
        while let Some((cut, _)) = self.cut.as_mut().filter(|(cut, _)| !cut.is_done()) {
            cut.skip();
            self.counters.rx_no_frame += 1;
        }
        self.cut = None;
        self.count();
        self.detach();
        self.closed = true;
    }
}

/// The header of a packet of that IP version from the kernel to us.
fn link_header(version: u8) -> [u8; LINK] {
    let kind = if version == 4 { wire::ethertype::IP4 } else { wire::ethertype::IP6 };
    let mut header = [0; LINK];
    header[..6].copy_from_slice(&MAC);
    header[6..12].copy_from_slice(&PEER);
    header[12..].copy_from_slice(&kind.to_be_bytes());
    header
}

/// Whether an IP packet stands behind a link header without tags.
fn is_ip(link: &[u8], packet: &[u8]) -> bool {
    let kind = u16::from_be_bytes([link[12], link[13]]);
    match packet.first().map(|first| first >> 4) {
        Some(4) => kind == wire::ethertype::IP4,
        Some(6) => kind == wire::ethertype::IP6,
        _ => false,
    }
}

fn hand_over(counters: &mut PortCounters, pool: &mut Pool, out: &mut Batch, frame: Frame) {
    let len = frame.len() as u64;
    match out.push(frame) {
        Ok(()) => {
            counters.rx_packets += 1;
            counters.rx_bytes += len;
        }
        // There was room.
        Err(frame) => pool.give(frame),
    }
}

/// The packets an interface did not take from the kernel, out of `/proc/net/dev`: the fourth of what it sent.
fn dropped(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.trim_start().strip_prefix(name)?.strip_prefix(':'))?;
    line.split_ascii_whitespace().nth(8 + 3)?.parse().ok()
}
