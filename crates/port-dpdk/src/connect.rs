//! When a device that looks for its other end once, at its start, is started again: the client of a shared memory interface.
//!
//! The driver's start connects to a socket and waits while the socket's backlog is full, and with it the worker. A connection
//! that the other end has not accepted counts in the backlog, closed or not. So before each start a connection of our own, which
//! does not wait, shows that the other end accepts: it greets whom it accepts, in order. Should others fill the backlog between
//! that and the start, a timer interrupts the driver's connection.

use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};

/// The first time between two looks for the other end, in nanoseconds; each that fails doubles it.
const FIRST: u64 = 1_000_000_000;
/// The longest time between two looks, in nanoseconds.
const LONGEST: u64 = 30_000_000_000;

/// Looks for the other end.
pub struct Connect {
    address: Option<SocketAddrUnix>,
    /// The next look.
    at: u64,
    /// The time from there to the one after.
    wait: u64,
    /// Connected, and not greeted yet.
    probe: Option<OwnedFd>,
}

impl Connect {
    /// For a socket's path or name; `true`: it is an abstract one.
    pub fn new((socket, is_abstract): (&str, bool), now: u64) -> Self {
        let bytes = std::ffi::OsStr::new(socket).as_bytes();
        let address = if is_abstract { SocketAddrUnix::new_abstract_name(bytes) } else { SocketAddrUnix::new(bytes) };
        let mut connect = Self { address: address.ok(), at: 0, wait: 0, probe: None };
        connect.begin(now);
        connect
    }

    /// From the beginning: the link has changed.
    pub fn begin(&mut self, now: u64) {
        (self.at, self.wait, self.probe) = (now + FIRST, 2 * FIRST, None);
    }

    /// Whether the device is to be started now: its other end accepts.
    pub fn is_due(&mut self, now: u64) -> bool {
        if let Some(probe) = &self.probe {
            // Greeted, or closed by the other end.
            if frame::wait_readable(&[std::os::fd::AsFd::as_fd(probe)], Duration::ZERO).unwrap_or(0) == 0 {
                return false;
            }
            let accepted = rustix::net::recv(probe, &mut [0u8; 256], rustix::net::RecvFlags::DONTWAIT);
            self.probe = None;
            return accepted.is_ok_and(|(len, _)| len > 0);
        }
        if now < self.at {
            return false;
        }
        self.at = now + self.wait;
        self.wait = (2 * self.wait).min(LONGEST);
        self.probe = self.reach().ok();
        false
    }

    fn reach(&self) -> Result<OwnedFd, Errno> {
        let address = self.address.as_ref().ok_or(Errno::INVAL)?;
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let probe = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
        connect(&probe, address)?;
        Ok(probe)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_for_a_server_that_is_not_there_grow_rare() {
        let mut connect = Connect::new(("weir-no-such-server", true), 0);
        let (mut now, mut waited) = (0, Vec::new());
        for _ in 0..7 {
            let at = connect.at;
            assert!(!connect.is_due(at - 1) && connect.at == at);
            assert!(!connect.is_due(at) && connect.probe.is_none());
            waited.push((at - now) / FIRST);
            now = at;
        }
        assert_eq!(waited, [1, 2, 4, 8, 16, 30, 30]);
        connect.begin(now);
        assert_eq!(connect.at, now + FIRST);
    }
}
