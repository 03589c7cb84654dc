//! The AF_XDP socket: memory registered, rings mapped, bound to a queue.
//!
//! # When the kernel lets go
//! In copy mode the kernel touches the memory only while it handles a packet on the receive path or inside our own
//! `sendto`; closing the socket waits for the former (`synchronize_net` in `xsk_release`), so every slot may be used
//! again as soon as the last descriptor is closed. (Ours may not be the last: a child just forked has a copy until it
//! runs its program. Where a driver takes transmit buffers without copying them, as virtio does,
//! a packet not yet completed may leave with what the slot holds by then: a wrong packet, never a wrong write.)
//! In zero-copy mode the device's buffers are taken down by deferred work. [`released`] tells when all that is done:
//! the queue refuses any other socket until then.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::{NonNull, null, null_mut};
use std::sync::atomic::AtomicU32;
use std::time::{Duration, Instant};

use super::queue::Rings;
use super::ring::{Consumer, Layout, Producer};
use crate::PortError;
use crate::helper::{self, Lease, Place, Request};
use crate::iface::Iface;

/// Socket option missing in libc: how many packets one `sendto` may take in copy mode, 32 unless raised.
const XDP_MAX_TX_SKB_BUDGET: i32 = 9;
/// Bytes of socket buffers that may be under way in copy mode: enough for a full ring, at about 2 KiB a packet.
const SEND_BUFFER: i32 = 8 << 20;
/// The size of a huge page.
const HUGE_PAGE: usize = 2 << 20;
/// Pause between attempts to bind a queue whose last socket is still being taken down.
const PAUSE: Duration = Duration::from_millis(5);

/// What to open.
#[derive(Clone, Copy, Debug)]
pub struct Spec<'a> {
    /// First byte of the memory; page aligned.
    pub base: *mut u8,
    /// Bytes to register.
    pub bytes: u64,
    /// Bytes of a chunk.
    pub chunk: u32,
    /// Headroom beyond the kernel's own.
    pub headroom: u32,
    /// Interface.
    pub ifindex: u32,
    /// Its queue.
    pub queue: u32,
    /// Entries of each ring; a power of two.
    pub ring: u32,
    /// `XDP_COPY`, `XDP_ZEROCOPY` or 0: the kernel tries zero copy, then copy.
    pub copy: u16,
    /// How long to try again while the queue is busy.
    pub patience: Duration,
    /// The memory as a file: a helper that may lock more of it than this process registers it.
    pub file: Option<BorrowedFd<'a>>,
}

/// The step that failed, and what the kernel said.
#[derive(Debug)]
pub struct Refusal {
    /// What was being done.
    pub step: Step,
    /// The kernel's word.
    pub source: io::Error,
}

/// A step of opening a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// `socket(AF_XDP)`.
    Create,
    /// Registering the memory.
    Register,
    /// Sizing or mapping a ring.
    Ring,
    /// Binding to the queue.
    Bind,
}

impl std::fmt::Display for Step {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Create => "making a socket",
            Self::Register => "registering memory",
            Self::Ring => "making a ring",
            Self::Bind => "binding to a queue",
        })
    }
}

/// A socket whose memory is registered and whose rings are mapped.
pub struct Unbound {
    fd: OwnedFd,
    mappings: [Mapping; 4],
    lease: Option<Lease>,
}

impl Unbound {
    /// Binds it to the queue. A driver in zero-copy mode takes its first slots meanwhile, or when it is given a program, and
    /// may never look again where it finds none: the fill ring is to have some before.
    ///
    /// # Errors
    /// What the kernel said; the socket is closed, and the memory nobody's.
    pub fn bind(self, iface: &Iface, spec: &Spec<'_>) -> Result<Socket, Refusal> {
        let Self { fd, mappings, lease } = self;
        match &lease {
            Some(lease) => lease.bind(place(iface), spec),
            None => bind(&fd, spec.ifindex, spec.queue, spec.copy, spec.patience),
        }
        .map_err(|source| Refusal { step: Step::Bind, source })?;
        Ok(Socket { zero_copy: is_zero_copy(&fd), fd, _mappings: mappings, lease })
    }
}

/// An open, bound socket and the mappings of its rings.
pub struct Socket {
    fd: OwnedFd,
    zero_copy: bool,
    _mappings: [Mapping; 4],
    /// The helper's copy of the descriptor.
    lease: Option<Lease>,
}

impl Socket {
    /// Opens a socket in the interface's network namespace, by the helper if there is one.
    ///
    /// # Errors
    /// The step that failed; or the helper's words.
    ///
    /// # Safety
    /// `spec.base` must be valid for `spec.bytes` until the socket is closed and [`released`]; the rings returned must
    /// not outlive the socket.
    pub unsafe fn open(iface: &Iface, spec: &Spec<'_>) -> Result<Result<(Unbound, Rings), Refusal>, PortError> {
        let (fd, lease) = match helper::client_of_process() {
            Some(client) => {
                let (answer, fd) = client.descriptor(&Request::XdpSocket(place(iface)))?;
                (fd, Some(Lease::new(client, answer.lease)))
            }
            None => match iface.netns().within(create)? {
                Ok(fd) => (fd, None),
                Err(source) => return Ok(Err(Refusal { step: Step::Create, source })),
            },
        };
        // SAFETY: the caller's promise.
        Ok(unsafe { Self::set_up(fd, lease, iface, spec) })
    }

    /// # Safety
    /// As [`Socket::open`].
    unsafe fn set_up(
        fd: OwnedFd,
        lease: Option<Lease>,
        iface: &Iface,
        spec: &Spec<'_>,
    ) -> Result<(Unbound, Rings), Refusal> {
        let at = |step| move |source| Refusal { step, source };
        match (&lease, spec.file) {
            (Some(lease), Some(file)) => lease.register(place(iface), spec, file),
            _ => register(&fd, spec.base, spec.bytes, spec.chunk, spec.headroom),
        }
        .map_err(at(Step::Register))?;
        for ring in [libc::XDP_UMEM_FILL_RING, libc::XDP_UMEM_COMPLETION_RING, libc::XDP_RX_RING, libc::XDP_TX_RING] {
            set(&fd, libc::SOL_XDP, ring, &spec.ring).map_err(at(Step::Ring))?;
        }
        // Only makes copy mode faster; old kernels know no budget.
        let _ = set(&fd, libc::SOL_XDP, XDP_MAX_TX_SKB_BUDGET, &spec.ring);

        // SAFETY: the rings were just made, of that size; the caller keeps them no longer than the socket, which keeps
        // the mappings. Nobody else takes our ends.
        let (rings, mappings) = unsafe { map_rings(&fd, spec.ring) }?;
        Ok((Unbound { fd, mappings, lease }, rings))
    }

    /// A bound socket of another process with rings of `ring` entries, mapped here, too.
    ///
    /// # Errors
    /// It is no such socket.
    ///
    /// # Safety
    /// Its memory must be valid until the socket is closed and [`released`]; the rings returned must not outlive the
    /// socket, and may be used only while the other process does not use its own.
    pub unsafe fn adopt(fd: OwnedFd, ring: u32) -> Result<(Self, Rings), Refusal> {
        // SAFETY: the caller's promise. Whether the rings have that size is the kernel's to say: it maps none beyond
        // its own.
        let (rings, mappings) = unsafe { map_rings(&fd, ring) }?;
        Ok((Self { zero_copy: is_zero_copy(&fd), fd, _mappings: mappings, lease: None }, rings))
    }

    /// A copy of the descriptor.
    ///
    /// # Errors
    /// No more descriptors.
    pub(crate) fn copy(&self) -> io::Result<OwnedFd> {
        self.fd.try_clone()
    }

    /// The helper's copy of the descriptor, if a helper made it.
    pub fn lease(&self) -> Option<&Lease> {
        self.lease.as_ref()
    }

    /// Whether the device reads and writes our memory itself.
    pub(crate) fn zero_copy(&self) -> bool {
        self.zero_copy
    }

    /// Sends what is in the transmit ring: all of it in copy mode, a nudge to the driver in zero-copy mode.
    ///
    /// # Errors
    /// `EAGAIN`, `EBUSY`, `ENOBUFS`: later. `ENETDOWN`, `ENXIO`: link down or gone.
    #[inline]
    pub(crate) fn kick_tx(&self) -> io::Result<()> {
        // SAFETY: no buffer and no address are given.
        let got = unsafe { libc::sendto(self.fd.as_raw_fd(), null(), 0, libc::MSG_DONTWAIT, null(), 0) };
        if got < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// Tells a driver that sleeps for want of receive slots that there are some.
    #[inline]
    pub(crate) fn kick_rx(&self) {
        // SAFETY: no buffer and no address are given. Nothing to do about an error: the link watch sees what matters.
        unsafe { libc::recvfrom(self.fd.as_raw_fd(), null_mut(), 0, libc::MSG_DONTWAIT, null_mut(), null_mut()) };
    }

    /// The kernel's counters since the socket was opened.
    ///
    /// # Errors
    /// What `getsockopt` said.
    pub fn statistics(&self) -> io::Result<libc::xdp_statistics> {
        get(&self.fd, libc::XDP_STATISTICS)
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// The four rings of a socket, of `ring` entries each.
///
/// # Safety
/// They have that many entries; the rings must not outlive the mappings, and nobody else may use our ends.
unsafe fn map_rings(fd: &OwnedFd, ring: u32) -> Result<(Rings, [Mapping; 4]), Refusal> {
    let at = |source| Refusal { step: Step::Ring, source };
    let offsets: libc::xdp_mmap_offsets = get(fd, libc::XDP_MMAP_OFFSETS).map_err(at)?;
    // SAFETY: the offsets are the kernel's own for these four rings; the caller's promise.
    unsafe {
        let (fill, a) = map::<u64>(fd, libc::XDP_UMEM_PGOFF_FILL_RING as i64, &offsets.fr, ring)?;
        let (completion, b) = map::<u64>(fd, libc::XDP_UMEM_PGOFF_COMPLETION_RING as i64, &offsets.cr, ring)?;
        let (rx, c) = map(fd, libc::XDP_PGOFF_RX_RING, &offsets.rx, ring)?;
        let (tx, d) = map(fd, libc::XDP_PGOFF_TX_RING, &offsets.tx, ring)?;
        let rings = Rings {
            fill: Producer::new(fill),
            rx: Consumer::new(rx),
            tx: Producer::new(tx),
            completion: Consumer::new(completion),
        };
        Ok((rings, [a, b, c, d]))
    }
}

fn is_zero_copy(fd: &OwnedFd) -> bool {
    let options = get::<libc::xdp_options>(fd, libc::XDP_OPTIONS);
    options.is_ok_and(|options| options.flags & libc::XDP_OPTIONS_ZEROCOPY != 0)
}

/// Whether the kernel and the device have let go of whatever memory a closed socket had on this queue, waiting up to
/// `patience`: tried by binding a socket with memory of its own.
pub fn released(iface: &Iface, ifindex: u32, queue: u32, patience: Duration) -> bool {
    if let Some(client) = helper::client_of_process() {
        let patience_ms = u64::try_from(patience.as_millis()).unwrap_or(u64::MAX);
        let answer = client.ask(&Request::XdpReleased { place: place(iface), ifindex, queue, patience_ms });
        return answer.is_ok_and(|(answer, _)| answer.number != 0);
    }
    let Ok(page) = Mapping::anonymous(4096) else { return false };
    let spec = Spec {
        base: page.base.as_ptr(),
        bytes: 4096,
        chunk: 2048,
        headroom: 0,
        ifindex,
        queue,
        ring: 2,
        copy: libc::XDP_COPY,
        patience,
        file: None,
    };
    // SAFETY: the page outlives the socket, which is in copy mode: closed means released. The rings go at once.
    let opened = unsafe { Socket::open(iface, &spec) };
    match opened.map(|opened| opened.and_then(|(unbound, _)| unbound.bind(iface, &spec))) {
        Ok(Ok(_)) => true,
        // Nothing to be bound to any more, so nothing that has our memory.
        Ok(Err(refusal)) => refusal.source.raw_os_error() == Some(libc::ENODEV),
        Err(_) => false,
    }
}

fn place(iface: &Iface) -> Place {
    Place::new(iface.name(), iface.netns().name())
}

/// A socket in the calling thread's network namespace.
pub(crate) fn create() -> io::Result<OwnedFd> {
    // SAFETY: plain system call, no pointers.
    let raw = unsafe { libc::socket(libc::AF_XDP, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
    if raw < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a descriptor the kernel just made for us.
    let fd = unsafe { OwnedFd::from_raw_fd(raw) };
    // Only makes copy mode faster; capped without CAP_NET_ADMIN.
    if set(&fd, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, &SEND_BUFFER).is_err() {
        let _ = set(&fd, libc::SOL_SOCKET, libc::SO_SNDBUF, &SEND_BUFFER);
    }
    Ok(fd)
}

impl Lease {
    fn bind(&self, place: Place, spec: &Spec<'_>) -> io::Result<()> {
        let patience_ms = u64::try_from(spec.patience.as_millis()).unwrap_or(u64::MAX);
        let (ifindex, queue, flags) = (spec.ifindex, spec.queue, spec.copy);
        self.ask(&Request::XdpBind { socket: self.number(), place, ifindex, queue, flags, patience_ms }, &[])
    }

    fn register(&self, place: Place, spec: &Spec<'_>, file: BorrowedFd<'_>) -> io::Result<()> {
        let &Spec { bytes, chunk, headroom, .. } = spec;
        self.ask(&Request::XdpRegister { socket: self.number(), place, bytes, chunk, headroom }, &[file])
    }

    fn ask(&self, request: &Request, beside: &[BorrowedFd<'_>]) -> io::Result<()> {
        match self.client().ask_with(request, beside) {
            Ok(_) => Ok(()),
            // Only the kernel's word tells what to do about it.
            Err(PortError::System { source, .. }) => Err(source),
            Err(other) => Err(io::Error::other(other.to_string())),
        }
    }
}

/// Registers memory as a socket's UMEM. The kernel pins its pages, and counts them against RLIMIT_MEMLOCK of a process
/// without CAP_IPC_LOCK.
fn register(fd: &OwnedFd, base: *mut u8, bytes: u64, chunk: u32, headroom: u32) -> io::Result<()> {
    let umem = libc::xdp_umem_reg {
        addr: base as usize as u64,
        len: bytes,
        chunk_size: chunk,
        headroom,
        flags: libc::XDP_UMEM_UNALIGNED_CHUNK_FLAG,
        tx_metadata_len: 0,
    };
    set(fd, libc::SOL_XDP, libc::XDP_UMEM_REG, &umem)
}

/// The same of the first `bytes` of a file in memory, another process's packet memory. It is pinned, and reached by the
/// kernel's own mapping, so none is kept here.
pub(crate) fn register_file(fd: &OwnedFd, file: &OwnedFd, bytes: u64, chunk: u32, headroom: u32) -> io::Result<()> {
    let too_much = || io::Error::from_raw_os_error(libc::ENOMEM);
    // Whole huge pages, or a mapping of reserved ones could not be taken away. Nothing beyond it is registered.
    let mapped = usize::try_from(bytes).ok().and_then(|bytes| bytes.checked_next_multiple_of(HUGE_PAGE));
    let mapping = Mapping::map(mapped.ok_or_else(too_much)?, libc::MAP_SHARED, file.as_raw_fd(), 0)?;
    register(fd, mapping.base.as_ptr(), bytes, chunk, headroom)
}

/// Binds a socket whose memory and rings are set up to a queue, trying for so long while the queue is busy.
pub(crate) fn bind(fd: &OwnedFd, ifindex: u32, queue: u32, flags: u16, patience: Duration) -> io::Result<()> {
    let address = libc::sockaddr_xdp {
        sxdp_family: libc::AF_XDP as u16,
        sxdp_flags: flags | libc::XDP_USE_NEED_WAKEUP,
        sxdp_ifindex: ifindex,
        sxdp_queue_id: queue,
        sxdp_shared_umem_fd: 0,
    };
    let until = Instant::now() + patience;
    loop {
        // SAFETY: a sockaddr_xdp of the size given.
        let got = unsafe {
            libc::bind(fd.as_raw_fd(), (&raw const address).cast(), size_of_val(&address) as libc::socklen_t)
        };
        if got == 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        if error.raw_os_error() != Some(libc::EBUSY) || Instant::now() >= until {
            return Err(error);
        }
        std::thread::sleep(PAUSE);
    }
}

fn set<T>(fd: &OwnedFd, level: i32, option: i32, value: &T) -> io::Result<()> {
    // SAFETY: the value is readable for its size.
    let got = unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            level,
            option,
            std::ptr::from_ref(value).cast(),
            size_of::<T>() as libc::socklen_t,
        )
    };
    if got < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Reads an option; `T` is one of libc's plain structs of numbers.
fn get<T>(fd: &OwnedFd, option: i32) -> io::Result<T> {
    let mut value = std::mem::MaybeUninit::<T>::zeroed();
    let mut len = size_of::<T>() as libc::socklen_t;
    // SAFETY: the value is writable for its size, which is given.
    let got = unsafe { libc::getsockopt(fd.as_raw_fd(), libc::SOL_XDP, option, value.as_mut_ptr().cast(), &mut len) };
    if got < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: all zeroes before, and the kernel wrote numbers over it; every such pattern is a value of T.
    Ok(unsafe { value.assume_init() })
}

/// Maps one ring.
///
/// # Safety
/// `offsets` must be the kernel's for that ring, whose entries are `T`s, `size` of them. The layout must not outlive
/// the mapping.
unsafe fn map<T>(
    fd: &OwnedFd,
    at: i64,
    offsets: &libc::xdp_ring_offset,
    size: u32,
) -> Result<(Layout<T>, Mapping), Refusal> {
    let bytes = offsets.desc as usize + size as usize * size_of::<T>();
    let mapping = Mapping::of(fd, bytes, at).map_err(|source| Refusal { step: Step::Ring, source })?;
    // SAFETY: the kernel's offsets lie in the mapping just made, aligned for what is there.
    let place = |offset: u64| unsafe { mapping.base.add(offset as usize) };
    let word = |offset| place(offset).cast::<AtomicU32>();
    let layout = Layout {
        producer: word(offsets.producer),
        consumer: word(offsets.consumer),
        flags: word(offsets.flags),
        entries: place(offsets.desc).cast(),
        size,
    };
    Ok((layout, mapping))
}

/// Memory mapped until dropped.
struct Mapping {
    base: NonNull<u8>,
    bytes: usize,
}

// SAFETY: an address range owned by this value alone.
unsafe impl Send for Mapping {}

impl Mapping {
    fn of(fd: &OwnedFd, bytes: usize, at: i64) -> io::Result<Self> {
        Self::map(bytes, libc::MAP_SHARED | libc::MAP_POPULATE, fd.as_raw_fd(), at)
    }

    fn anonymous(bytes: usize) -> io::Result<Self> {
        Self::map(bytes, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0)
    }

    fn map(bytes: usize, flags: i32, fd: i32, at: i64) -> io::Result<Self> {
        // SAFETY: a fresh mapping; no existing memory is touched.
        let got = unsafe { libc::mmap(null_mut(), bytes, libc::PROT_READ | libc::PROT_WRITE, flags, fd, at) };
        if got == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(got.cast()).ok_or_else(|| io::Error::from_raw_os_error(libc::ENOMEM))?;
        Ok(Self { base, bytes })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: exactly the range mapped, unmapped once.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.bytes) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_is_released_when_its_socket_is_closed() {
        // A thread of its own in a namespace of its own, which goes with it.
        let run = || {
            // SAFETY: plain system call; concerns this thread only.
            assert_eq!(unsafe { libc::unshare(libc::CLONE_NEWNET) }, 0, "root");
            let words = "link add weir0 type veth peer name weir1".split(' ');
            assert!(std::process::Command::new("ip").args(words).status().expect("ip").success());
            let ifindex = crate::iface::index_here("weir0").expect("made");
            let memory = Mapping::anonymous(1 << 20).expect("memory");
            let spec = Spec {
                base: memory.base.as_ptr(),
                bytes: 1 << 20,
                chunk: 2048,
                headroom: 0,
                ifindex,
                queue: 0,
                ring: 64,
                copy: libc::XDP_COPY,
                // The socket that asked is itself taken down a moment later.
                patience: Duration::from_secs(2),
                file: None,
            };
            let moment = Duration::from_millis(20);
            let iface = Iface::open("weir0", None).expect("made");
            assert!(released(&iface, ifindex, 0, moment));
            // SAFETY: the memory outlives the socket, and the rings go with it.
            let (unbound, _rings) = unsafe { Socket::open(&iface, &spec) }.expect("no helper").expect("a socket");
            let open = unbound.bind(&iface, &spec).expect("bound");
            assert!(!released(&iface, ifindex, 0, moment), "it has the queue");
            drop(open);
            assert!(released(&iface, ifindex, 0, Duration::from_secs(2)));
            assert!(released(&iface, ifindex + 1000, 0, moment), "no interface, nothing to wait for");
        };
        std::thread::spawn(run).join().expect("no panic");
    }
}
