//! The kernel's side of a TUN interface: attaching to one, or making it.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;

use crate::PortError;
use crate::iface::Iface;
use crate::netns::Netns;

/// Where queues of TUN and TAP interfaces are opened.
const DEVICE: &str = "/dev/net/tun";
/// What the kernel may leave to us (linux/if_tun.h): checksums, segmentation of TCP, also with marks of congestion, and
/// of UDP.
const TCP_OFFLOADS: libc::c_uint = 0x01 | 0x02 | 0x04 | 0x08;
const UDP_OFFLOADS: libc::c_uint = 0x20 | 0x40;

/// One queue of a TUN interface.
pub(crate) struct Opened {
    pub(crate) queue: File,
    /// The interface is ours and goes with its last queue.
    pub(crate) made: bool,
    /// The kernel's counters of the interfaces beside it, if they can be read.
    pub(crate) statistics: Option<File>,
}

/// The privileged part of opening: attaches to the interface of that name, or makes it and brings it up. Nothing else of it
/// is changed: who is to have the interface is known only when it is claimed. With `offloads` packets have a
/// [`VnetHeader`](super::segment::VnetHeader) before them.
///
/// # Errors
/// No TUN here, an interface of the name that is none, one queue where another is needed, a missing capability.
pub(crate) fn open(name: &str, netns: &Netns, offloads: bool) -> Result<Opened, PortError> {
    let there = Iface::named(name, netns.name())?.index().is_ok();
    let system = |doing: &str, e| PortError::system(format!("{doing} {name}"), "CAP_NET_ADMIN", e);
    // A queue serves the network namespace it was opened in.
    let queue = netns.within(device)?.map_err(no_device)?;
    let header = if offloads { libc::IFF_VNET_HDR } else { 0 };
    let attach = |flags: libc::c_int| attach(&queue, name, libc::IFF_TUN | libc::IFF_NO_PI | header | flags);
    let attached = match attach(libc::IFF_MULTI_QUEUE) {
        // Made without several queues: it has one.
        Err(e) if there && e.raw_os_error() == Some(libc::EINVAL) => attach(0),
        other => other,
    };
    attached.map_err(|source| match source.raw_os_error() {
        Some(libc::EBUSY) => PortError::Unsupported {
            what: format!("another queue of `{name}`"),
            advice: format!(
                "its only queue is taken, by another worker or process; for several workers make it with \
                 `ip tuntap add name {name} mode tun multi_queue`"
            ),
        },
        Some(libc::E2BIG) => PortError::Unsupported {
            what: format!("another queue of `{name}`"),
            advice: "the kernel allows 256".to_owned(),
        },
        Some(libc::EINVAL) if there => PortError::Unsupported {
            what: format!("TUN on `{name}`, an interface of another kind,"),
            advice: "name a new interface, or one made with `ip tuntap add name … mode tun`".to_owned(),
        },
        _ => system("attaching to", source),
    })?;
    if !there {
        Iface::named(name, netns.name())?.set_up().map_err(|e| system("bringing up", e))?;
    }
    let statistics = netns.within(|| File::open("/proc/thread-self/net/dev"))?.ok();
    Ok(Opened { queue, made: !there, statistics })
}

/// Sets the interface's MTU, in bytes. Privileged.
///
/// # Errors
/// There is none of that name, it cannot carry that much, or a missing capability.
pub(crate) fn set_mtu(name: &str, netns: &Netns, mtu: u32) -> Result<(), PortError> {
    let set = Iface::named(name, netns.name())?.set_mtu(mtu);
    set.map_err(|e| PortError::system(format!("setting the MTU of {name}"), "CAP_NET_ADMIN", e))
}

/// Has the kernel leave checksums and segmentation to whoever reads the interface, or not. They are the interface's, not
/// the queue's: every queue of it gets other packets from then on. Takes no privilege.
///
/// # Errors
/// A kernel that leaves none.
pub(crate) fn choose_offloads(queue: &File, name: &str, offloads: bool) -> Result<(), PortError> {
    if !offloads {
        // A process that was killed may have left them on: checksums would be missing.
        clear_offloads(queue);
        return Ok(());
    }
    // UDP segmentation came with Linux 6.2.
    let set = set_offloads(queue, TCP_OFFLOADS | UDP_OFFLOADS).or_else(|_| set_offloads(queue, TCP_OFFLOADS));
    let doing = || format!("leaving segmentation (or say offloads=off) to {name}");
    set.map_err(|e| PortError::system(doing(), "CAP_NET_ADMIN", e))
}

/// Takes back what was left to us: the next process on the interface gets packets with checksums, none of them too long.
pub(crate) fn clear_offloads(queue: &File) {
    // It cannot fail on a queue that is attached; one that is not has nothing left to take back.
    let _ = set_offloads(queue, 0);
}

/// Why [`DEVICE`] was not opened.
pub(crate) fn no_device(source: io::Error) -> PortError {
    match source.raw_os_error() {
        Some(libc::ENOENT | libc::ENXIO | libc::ENODEV) => PortError::Unsupported {
            what: format!("the device {DEVICE}"),
            advice: "load the kernel module `tun`, or give the container the device".to_owned(),
        },
        _ => PortError::system(format!("opening {DEVICE}"), "CAP_NET_ADMIN", source),
    }
}

/// A queue without an interface yet, of the namespace that the calling thread is in.
pub(crate) fn device() -> io::Result<File> {
    OpenOptions::new().read(true).write(true).custom_flags(libc::O_NONBLOCK).open(DEVICE)
}

/// Makes a queue one of the interface of that name, which is made if there is none.
pub(crate) fn attach(queue: &File, name: &str, flags: libc::c_int) -> io::Result<()> {
    // SAFETY: an ifreq is plain data; all zeros is a valid one.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    // The name was checked to leave room for its end.
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from.cast_signed();
    }
    request.ifr_ifru.ifru_flags = flags as libc::c_short;
    // SAFETY: the descriptor is open; `request` is a valid ifreq with a terminated name and outlives the call.
    match unsafe { libc::ioctl(queue.as_raw_fd(), libc::TUNSETIFF as _, &raw mut request) } {
        0.. => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

fn set_offloads(queue: &File, offloads: libc::c_uint) -> io::Result<()> {
    // SAFETY: the descriptor is open; the argument is a number.
    match unsafe { libc::ioctl(queue.as_raw_fd(), libc::TUNSETOFFLOAD as _, libc::c_ulong::from(offloads)) } {
        0.. => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
