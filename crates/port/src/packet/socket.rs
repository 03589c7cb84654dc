//! The AF_PACKET socket: made, bound and asked.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use libc::{c_int, sock_filter};

/// A packet socket of one interface. Bound last, so that nothing arrives before it is set up.
#[derive(Debug)]
pub(super) struct Socket {
    fd: OwnedFd,
}

impl Socket {
    /// An unbound socket in the calling thread's namespace: hears nothing, ignores what the interface sends.
    pub(super) fn new() -> io::Result<Self> {
        let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        // SAFETY: socket takes no pointers.
        let fd = unsafe { libc::socket(libc::AF_PACKET, kind, 0) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: a descriptor just made, owned by nobody else.
        let socket = Self { fd: unsafe { OwnedFd::from_raw_fd(fd) } };
        socket.set(libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, &1i32)?;
        // Straight to the driver: our own rates are shaped by us. Kernels that can't do without it.
        let _ = socket.set(libc::SOL_PACKET, libc::PACKET_QDISC_BYPASS, &1i32);
        Ok(socket)
    }

    /// One that is open already.
    pub(super) fn of(fd: OwnedFd) -> Self {
        Self { fd }
    }

    pub(super) fn into_owned(self) -> OwnedFd {
        self.fd
    }

    pub(super) fn owned(&self) -> &OwnedFd {
        &self.fd
    }

    pub(super) fn raw(&self) -> RawFd {
        self.fd.as_raw_fd()
    }

    /// Sets an option whose value is plain data.
    pub(super) fn set<T: Copy>(&self, level: c_int, option: c_int, value: &T) -> io::Result<()> {
        let at: *const T = value;
        // SAFETY: `value` is plain data of that size and outlives the call; the kernel copies it. (What a sock_fprog
        // points to is borrowed by `filter` and `data` below for as long.)
        let got = unsafe { libc::setsockopt(self.raw(), level, option, at.cast(), size_of::<T>() as u32) };
        if got == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    fn get<T: Copy + Default>(&self, level: c_int, option: c_int) -> io::Result<T> {
        let mut value = T::default();
        let mut len = size_of::<T>() as u32;
        let at: *mut T = &raw mut value;
        // SAFETY: `value` has room for `len` bytes; T is made of integers, so whatever is written is a valid one.
        let got = unsafe { libc::getsockopt(self.raw(), level, option, at.cast(), &raw mut len) };
        if got == 0 { Ok(value) } else { Err(io::Error::last_os_error()) }
    }

    /// Socket buffers of that many bytes, or as near as an unprivileged process gets.
    pub(super) fn buffers(&self, receive: usize, send: usize) {
        for (bytes, force, plain) in
            [(receive, libc::SO_RCVBUFFORCE, libc::SO_RCVBUF), (send, libc::SO_SNDBUFFORCE, libc::SO_SNDBUF)]
        {
            // The kernel doubles what it is given.
            let half = i32::try_from(bytes / 2).unwrap_or(i32::MAX);
            if self.set(libc::SOL_SOCKET, force, &half).is_err() {
                let _ = self.set(libc::SOL_SOCKET, plain, &half);
            }
        }
    }

    /// Another descriptor of the same socket.
    pub(super) fn again(&self) -> io::Result<Self> {
        Ok(Self { fd: self.fd.try_clone()? })
    }

    /// Lets through only what the program says.
    pub(super) fn filter(&self, program: &[sock_filter]) -> io::Result<()> {
        self.set(libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &fprog(program))
    }

    /// Lets everything through.
    pub(super) fn unfilter(&self) -> io::Result<()> {
        self.set(libc::SOL_SOCKET, libc::SO_DETACH_FILTER, &0i32)
    }

    /// Chooses members of the socket's fanout group by the program.
    pub(super) fn fanout_program(&self, program: &[sock_filter]) -> io::Result<()> {
        self.set(libc::SOL_PACKET, libc::PACKET_FANOUT_DATA, &fprog(program))
    }

    /// Hears the interface of that number.
    pub(super) fn bind(&self, index: u32) -> io::Result<()> {
        // SAFETY: a sockaddr_ll is plain data; all zeros is a valid one.
        let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
        address.sll_ifindex = index.cast_signed();
        let at = &raw const address;
        // SAFETY: the address is a whole sockaddr_ll and outlives the call.
        let got = unsafe { libc::bind(self.raw(), at.cast(), size_of::<libc::sockaddr_ll>() as u32) };
        if got == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// Lets every multicast address in (neighbour discovery needs some), and with `everything` any address.
    pub(super) fn listen_wide(&self, index: u32, everything: bool) -> io::Result<()> {
        let kind = if everything { libc::PACKET_MR_PROMISC } else { libc::PACKET_MR_ALLMULTI };
        let request =
            libc::packet_mreq { mr_ifindex: index.cast_signed(), mr_type: kind as u16, mr_alen: 0, mr_address: [0; 8] };
        self.set(libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, &request)
    }

    /// Packets the kernel had no room for since the last call.
    pub(super) fn drops(&self) -> u64 {
        // tpacket_stats, or tpacket_stats_v3 with one more word: packets, drops.
        self.get::<[u32; 3]>(libc::SOL_PACKET, libc::PACKET_STATISTICS).map_or(0, |words| words[1].into())
    }

    /// Takes a pending error off the socket, so that poll stops reporting it.
    pub(super) fn clear_error(&self) {
        let _ = self.get::<i32>(libc::SOL_SOCKET, libc::SO_ERROR);
    }
}

fn fprog(program: &[sock_filter]) -> libc::sock_fprog {
    // The kernel only reads it; longer programs than it takes have been refused before.
    libc::sock_fprog { len: program.len() as u16, filter: program.as_ptr().cast_mut() }
}

/// `errno` of the call just made.
pub(super) fn errno() -> c_int {
    io::Error::last_os_error().raw_os_error().unwrap_or(0)
}
