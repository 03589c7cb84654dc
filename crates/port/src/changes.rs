//! Word from the kernel that an interface of a namespace has changed.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// Messages thrown away at once, at most: whoever floods links keeps no worker from its packets.
const AT_ONCE: usize = 256;

/// A socket of the calling thread's namespace that becomes readable when a link is made, removed, or changes.
///
/// # Errors
/// What the kernel said.
pub(crate) fn open() -> io::Result<OwnedFd> {
    // SAFETY: socket takes no pointers.
    let fd = unsafe {
        libc::socket(libc::AF_NETLINK, libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK, libc::NETLINK_ROUTE)
    };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a descriptor just made, owned by nobody else.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    // SAFETY: a sockaddr_nl is plain data; all zeros is a valid one.
    let mut address: libc::sockaddr_nl = unsafe { std::mem::zeroed() };
    address.nl_family = libc::AF_NETLINK as libc::sa_family_t;
    address.nl_groups = libc::RTMGRP_LINK as u32;
    // SAFETY: a sockaddr_nl of the size given, which outlives the call.
    let bound = unsafe {
        libc::bind(fd.as_raw_fd(), (&raw const address).cast(), size_of::<libc::sockaddr_nl>() as libc::socklen_t)
    };
    if bound < 0 { Err(io::Error::last_os_error()) } else { Ok(fd) }
}

/// Throws away what has come: that something changed is all that is wanted.
pub(crate) fn forget(fd: BorrowedFd<'_>) {
    let mut space = [0u8; 64];
    for _ in 0..AT_ONCE {
        // SAFETY: `space` is writable for its length and outlives the call; longer messages are cut.
        let got = unsafe { libc::recv(fd.as_raw_fd(), space.as_mut_ptr().cast(), space.len(), libc::MSG_DONTWAIT) };
        // Full (ENOBUFS) means that messages were lost, which is as good as having read them.
        if got < 0 && io::Error::last_os_error().raw_os_error() != Some(libc::ENOBUFS) {
            return;
        }
    }
}
