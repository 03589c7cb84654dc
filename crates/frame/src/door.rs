//! The contract of every port.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use crate::batch::Batch;
use crate::pool::Pool;

/// One queue pair of a network interface (or of something that acts like one), owned by one worker.
///
/// The life of a burst: the worker calls [`Port::service`] once a loop, [`Port::rx_burst`] while there is something,
/// [`Port::tx_burst`] with what it has to send, and [`Port::kick`] when nothing more will join it soon. A port never logs
/// and never panics on what the wire or the kernel does; it counts.
pub trait Port: Send {
    /// Receives up to `out.room()` packets to the end of `out`; frames come from `pool` or are the port's own. Sets
    /// nothing of their [`crate::Meta`] but flags. Returns how many came.
    fn rx_burst(&mut self, pool: &mut Pool, out: &mut Batch) -> usize;

    /// Takes the accepted prefix out of `batch` and returns its length. What stays is the caller's to count (as
    /// `TxFull`) and give back. Accepted frames return to the pool now or in a later [`Port::service`].
    fn tx_burst(&mut self, pool: &mut Pool, batch: &mut Batch) -> usize;

    /// Housekeeping once a loop: completions to the pool, fill ring, link watch.
    fn service(&mut self, pool: &mut Pool);

    /// Has the kernel or the device send what was accepted, where that takes a call, and gives back to `pool` what has left.
    /// Cheap when there is nothing to send.
    fn kick(&mut self, _pool: &mut Pool) {}

    /// As [`tx_burst`](Self::tx_burst), by the device of another port, which this one [shares](Caps::on).
    fn tx_burst_by(&mut self, device: &mut dyn Port, pool: &mut Pool, batch: &mut Batch) -> usize {
        device.tx_burst(pool, batch)
    }

    /// Counts packets of this port's that came in by the device of another, which it [shares](Caps::on).
    fn count_received(&mut self, _packets: u64, _bytes: u64) {}

    /// Packets accepted that wait for [`Port::kick`].
    fn unkicked(&self) -> usize {
        0
    }

    /// What it is and can.
    fn caps(&self) -> Caps;

    /// What it has seen since it was opened.
    fn counters(&self) -> PortCounters;

    /// Tells further counters by name: what wrappers did to the packets.
    fn extras(&self, _tell: &mut dyn FnMut(&'static str, u64)) {}

    /// Slots it holds now (fill, receive, transmit and completion rings).
    fn held(&self) -> usize {
        0
    }

    /// Something to sleep on: readable when a packet waits. None, and no [`Port::change_fd`] either: poll.
    fn wait_fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// The worker is about to sleep on [`Port::wait_fd`]: a port whose device has to be told asks it for interrupts. False: a
    /// packet may have come before, so that the worker is to look once more.
    fn fall_asleep(&mut self) -> bool {
        true
    }

    /// Something that becomes readable when the interface changes (link, address, existence); see [`Port::changed`].
    fn change_fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// The interface may have changed: the next [`Port::service`] looks.
    fn changed(&mut self) {}

    /// The worker has slept on [`Port::change_fd`], and it is not readable: the next [`Port::service`] need not look.
    fn unchanged(&mut self) {}

    /// How long a worker without packets may sleep before it calls [`Port::service`] again. None: until a descriptor is
    /// readable.
    fn service_within(&self) -> Option<Duration> {
        None
    }

    /// What another process needs to go on with this port while it stays open here. The port prepares for a time in
    /// which nobody receives.
    ///
    /// # Errors
    /// Why it cannot be handed over; a clause without a subject.
    fn hand_over(&mut self) -> Result<PortHandover, String> {
        Err(format!("{} ports cannot be handed over", self.caps().kind))
    }

    /// Where it stands in what it shares with the kernel, and which opening of the interface that is of; in an order of
    /// its kind. Meaningful only between bursts.
    fn position(&self) -> Vec<u64> {
        Vec::new()
    }

    /// Goes on from where another process stood: see [`Port::position`]. False: that was another opening of the interface.
    fn go_on_at(&mut self, _position: &[u64]) -> bool {
        false
    }

    /// Sets the bits of slots that the kernel has of it, by their numbers. False: one is set already, or there is none.
    fn mark_held(&self, _slots: &mut [u64]) -> bool {
        true
    }

    /// Another process may have gone on with it, and has ended: what that one has done with memory of this one is
    /// undone.
    fn come_back(&mut self, _pool: &mut Pool) {}

    /// Gives back every slot it still holds, as far as the kernel lets go of them. Nothing is received or sent after.
    fn close(&mut self, _pool: &mut Pool) {}
}

/// A port as it is handed to another process: see [`Port::hand_over`].
#[derive(Debug)]
pub struct PortHandover {
    /// Its descriptors, duplicated, in an order of its kind.
    pub descriptors: Vec<OwnedFd>,
    /// What else there is to say, in the words of its kind.
    pub text: String,
}

/// State of a port's link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Link {
    /// Carrier.
    #[default]
    Up,
    /// Administratively down or no carrier; packets to send are counted as `tx_link_down`.
    Down,
    /// The interface was removed. The port keeps looking for one of the same name.
    Gone,
}

impl Link {
    /// The word shown in tables.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Up => "up",
            Self::Down => "down",
            Self::Gone => "gone",
        }
    }
}

/// What a port is and can. Cheap to make; asked for by control and tables, not per packet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Caps {
    /// Kind and mode as results name it: `memory`, `pcap`, `packet-plain`, `packet-mmsg`, `packet-ring`, `xdp`.
    pub kind: &'static str,
    /// Interface or file, for people.
    pub name: String,
    /// What else is worth telling: `copy mode, queue 0`, `fanout qm`.
    pub detail: String,
    /// Its hardware address; zeros where it has none.
    pub mac: [u8; 6],
    /// Largest network-layer packet in bytes.
    pub mtu: u32,
    /// State of the link.
    pub link: Link,
    /// The port has no link layer and needs no resolving: every packet goes to this hardware address. Headers are added and
    /// taken off by the port.
    pub peer: Option<[u8; 6]>,
    /// The interface of the host that has what comes in for routing daemons; none: they have no part in the port.
    pub host: Option<crate::HostInterface>,
    /// Frames sent with [`UDP_SUM_LEFT`](crate::flags::UDP_SUM_LEFT) leave with a whole checksum.
    pub completes_udp6: bool,
    /// Why its device does not steer packets to the workers that own them, though it was asked to; none: it does, or was not.
    pub unsteered: Option<String>,
    /// Queues on which its device receives, of which the port has one; none: the device is not asked, or the port has all.
    pub queues: Option<u32>,
    /// The number, among its worker's, of the port whose device this one shares; none: it has its own.
    pub on: Option<u8>,
    /// Packet buffers that it may hold at most beyond those it took when it was opened, such as sent packets that a driver gives
    /// back late. 0 of a port on another's device.
    pub keeps: u32,
}

/// What a port has seen. Packets that the port itself lost are named here, in the same spirit as drop reasons. A worker
/// gives a port `tx_packets` + `tx_errors` packets; of `tx_packets`, `tx_lost` did not leave.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortCounters {
    /// Packets handed to the worker.
    pub rx_packets: u64,
    /// Their bytes.
    pub rx_bytes: u64,
    /// Packets the kernel or device took for sending.
    pub tx_packets: u64,
    /// Their bytes.
    pub tx_bytes: u64,
    /// Lost before us: the kernel's ring or socket buffer was full.
    pub rx_ring_full: u64,
    /// Received but no free slot to hold it.
    pub rx_no_frame: u64,
    /// Received but larger than a slot.
    pub rx_too_long: u64,
    /// Received and not fetched when the port was opened again: another process had gone on with it, and ended.
    pub rx_abandoned: u64,
    /// Our own transmissions and packets to other hosts, seen and left.
    pub rx_not_ours: u64,
    /// Descriptors or packets that made no sense.
    pub rx_invalid: u64,
    /// Receive calls that failed.
    pub rx_errors: u64,
    /// Refused: the ring or socket buffer was full.
    pub tx_full: u64,
    /// Refused: the link was down or the interface gone.
    pub tx_link_down: u64,
    /// Refused for what it is (a packet over the MTU, say), and thrown away.
    pub tx_errors: u64,
    /// Accepted, counted in `tx_packets`, and then dropped by the kernel or device, or lost with the interface.
    pub tx_lost: u64,
    /// Times the link went down or the interface away.
    pub link_losses: u64,
    /// Times it came back.
    pub link_returns: u64,
    /// System calls made for packets.
    pub syscalls: u64,
}

impl PortCounters {
    /// Those that mean lost packets, by name.
    pub const LOSSES: [&str; 10] = [
        "rx_ring_full",
        "rx_no_frame",
        "rx_too_long",
        "rx_abandoned",
        "rx_invalid",
        "rx_errors",
        "tx_full",
        "tx_link_down",
        "tx_errors",
        "tx_lost",
    ];

    /// What was lost since an earlier reading, by name.
    pub fn lost_since(&self, earlier: &Self) -> impl Iterator<Item = (&'static str, u64)> {
        let both = self.named().into_iter().zip(earlier.named());
        both.filter(|((name, _), _)| Self::LOSSES.contains(name))
            .map(|((name, now), (_, then))| (name, now.saturating_sub(then)))
            .filter(|(_, lost)| *lost > 0)
    }

    /// Names and values, in the order shown.
    pub fn named(&self) -> [(&'static str, u64); 18] {
        [
            ("rx_packets", self.rx_packets),
            ("rx_bytes", self.rx_bytes),
            ("tx_packets", self.tx_packets),
            ("tx_bytes", self.tx_bytes),
            ("rx_ring_full", self.rx_ring_full),
            ("rx_no_frame", self.rx_no_frame),
            ("rx_too_long", self.rx_too_long),
            ("rx_abandoned", self.rx_abandoned),
            ("rx_not_ours", self.rx_not_ours),
            ("rx_invalid", self.rx_invalid),
            ("rx_errors", self.rx_errors),
            ("tx_full", self.tx_full),
            ("tx_link_down", self.tx_link_down),
            ("tx_errors", self.tx_errors),
            ("tx_lost", self.tx_lost),
            ("link_losses", self.link_losses),
            ("link_returns", self.link_returns),
            ("syscalls", self.syscalls),
        ]
    }
}

/// Sleeps until one of `fds` is readable or `timeout` has passed. Interruptions count as waking. Returns which of the
/// first 16 are readable (or in error), as bits.
///
/// # Errors
/// What `poll` said, other than an interruption.
pub fn wait_readable(fds: &[BorrowedFd<'_>], timeout: Duration) -> io::Result<u16> {
    let mut list = [libc::pollfd { fd: -1, events: 0, revents: 0 }; 16];
    let used = fds.len().min(list.len());
    for (entry, fd) in list.iter_mut().zip(fds) {
        *entry = libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    }
    let wait = libc::timespec { tv_sec: timeout.as_secs() as _, tv_nsec: timeout.subsec_nanos().into() };
    // SAFETY: `list` outlives the call and `used` entries of it are initialised; the fds are borrowed, so open.
    let got = unsafe { libc::ppoll(list.as_mut_ptr(), used as libc::nfds_t, &wait, std::ptr::null()) };
    if got < 0 {
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
        return Ok(0);
    }
    let ready = list[..used].iter().enumerate().filter(|(_, entry)| entry.revents != 0);
    Ok(ready.fold(0, |bits, (n, _)| bits | 1 << n))
}
