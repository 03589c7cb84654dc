//! Interrupts of a receive queue, for a worker without packets to sleep on.

use std::os::fd::BorrowedFd;

use crate::{eal, sys};

/// `ENOTSUP` of Linux.
const ENOTSUP: i32 = 95;

/// The interrupt of a queue. It is asked for when a worker falls asleep, and off while packets come.
pub struct Interrupt {
    port: u16,
    queue: u16,
    /// Readable when it has come.
    epoll: i32,
    /// Asked for, and not seen since.
    armed: bool,
    /// On at the device.
    on: bool,
}

/// What became of asking for an interrupt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Armed {
    /// It had been asked for, and has not come.
    Already,
    /// Only now, or it has come: packets may be waiting.
    Now,
    /// The device refused.
    Refused,
}

impl Interrupt {
    /// That of a started device's queue; none: the device has none.
    pub fn of(port: u16, queue: u16) -> Option<Self> {
        // SAFETY: the device is open and has started; the queue is one of its.
        let epoll = unsafe { sys::weir_interrupt_open(port, queue) };
        // What was logged is not a failure.
        eal::forget_log();
        (epoll >= 0).then_some(Self { port, queue, epoll, armed: false, on: false })
    }

    /// That of a queue which the device does not have, and so refuses.
    #[cfg(test)]
    pub fn refused(port: u16, queue: u16) -> Self {
        let epoll = rustix::event::epoll::create(rustix::event::epoll::CreateFlags::CLOEXEC).expect("a descriptor");
        Self { port, queue, epoll: std::os::fd::IntoRawFd::into_raw_fd(epoll), armed: false, on: false }
    }

    /// What is readable when it has come.
    pub fn fd(&self) -> BorrowedFd<'_> {
        // SAFETY: it is open until `close`, which takes `self`.
        unsafe { BorrowedFd::borrow_raw(self.epoll) }
    }

    /// Asks for it.
    pub fn arm(&mut self) -> Armed {
        // SAFETY: the descriptor is open, and so is the device.
        let came = unsafe { sys::weir_interrupt_take(self.epoll) } > 0;
        if self.armed && !came {
            return Armed::Already;
        }
        // SAFETY: as above.
        let code = unsafe { sys::rte_eth_dev_rx_intr_enable(self.port, self.queue) };
        // A device whose interrupts are always on knows no such request.
        if code != 0 && code != -ENOTSUP {
            return Armed::Refused;
        }
        (self.armed, self.on) = (true, true);
        Armed::Now
    }

    /// It is asked for anew before the next sleep.
    #[inline]
    pub fn forget(&mut self) {
        self.armed = false;
    }

    /// Packets come: they are polled for.
    #[inline]
    pub fn disarm(&mut self) {
        if self.on {
            (self.armed, self.on) = (false, false);
            // SAFETY: as above.
            unsafe { sys::rte_eth_dev_rx_intr_disable(self.port, self.queue) };
        }
    }

    /// Before its device is closed.
    pub fn close(self) {
        // SAFETY: as above; the descriptor is not used after.
        unsafe { sys::weir_interrupt_close(self.port, self.queue, self.epoll) };
    }
}
