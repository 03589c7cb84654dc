//! Memory shared with the kernel.

use std::io;

use super::socket::Socket;

/// A socket's ring, mapped until dropped.
pub(super) struct Mapping {
    base: *mut u8,
    len: usize,
}

// SAFETY: the mapping is owned by this value alone and not tied to a thread.
unsafe impl Send for Mapping {}

impl Mapping {
    /// Maps the ring the socket was given.
    pub(super) fn new(socket: &Socket, len: usize) -> io::Result<Self> {
        let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_POPULATE);
        // SAFETY: a fresh mapping at an address of the kernel's choice.
        let base = unsafe { libc::mmap(std::ptr::null_mut(), len, access, kind, socket.raw(), 0) };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Self { base: base.cast(), len })
    }

    /// No memory at all, for walks over memory of tests.
    #[cfg(test)]
    pub(super) fn nothing() -> Self {
        Self { base: std::ptr::null_mut(), len: 0 }
    }

    /// Its first byte, aligned to a page.
    pub(super) fn base(&self) -> *mut u8 {
        self.base
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping made in `new`, of that length; nothing borrows it any more.
        unsafe { libc::munmap(self.base.cast(), self.len) };
    }
}
