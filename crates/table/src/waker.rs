//! Waking a worker that sleeps on its file descriptors.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::Arc as StdArc;

use crate::sync::{AtomicBool, Ordering, fence};

/// An eventfd and the word "asleep". Clones wake the same worker.
///
/// The worker: [`fall_asleep`](Self::fall_asleep), look at every source once more, poll [`fd`](Self::fd) with the
/// others, [`drain`](Self::drain). Everybody else: hand over the work, then [`nudge`](Self::nudge). A worker that is
/// awake costs the others one load; work handed over while it falls asleep is either seen by its last look or wakes it.
#[derive(Clone, Debug)]
pub struct Waker(StdArc<Inner>);

#[derive(Debug)]
struct Inner {
    fd: OwnedFd,
    sleep: Sleep,
}

impl Waker {
    /// A waker for a worker that is awake.
    ///
    /// # Errors
    /// What `eventfd` said, for want of descriptors.
    pub fn new() -> io::Result<Self> {
        // SAFETY: takes no memory; the flags are defined ones.
        let fd = unsafe { libc::eventfd(0, libc::EFD_NONBLOCK | libc::EFD_CLOEXEC) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: a descriptor just opened, owned by nobody else.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        Ok(Self(StdArc::new(Inner { fd, sleep: Sleep::new() })))
    }

    /// Wakes the worker in any case: a system call.
    pub fn wake(&self) {
        let one = 1u64.to_ne_bytes();
        // SAFETY: eight readable bytes. The only expected refusal is a counter at its maximum: it wakes as well.
        unsafe { libc::write(self.0.fd.as_raw_fd(), one.as_ptr().cast(), one.len()) };
    }

    /// Wakes the worker if it is asleep, or is falling asleep and may not have seen what was just handed over.
    #[inline]
    pub fn nudge(&self) {
        if self.0.sleep.must_be_woken() {
            self.wake();
        }
    }

    /// Said by the worker before its last look at its sources; ends with [`drain`](Self::drain).
    pub fn fall_asleep(&self) {
        self.0.sleep.announce();
    }

    /// What becomes readable when the worker is woken.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.0.fd.as_fd()
    }

    /// Said by the worker when it is awake again and [`fd`](Self::fd) was not readable: without a system call. A wake-up
    /// that came since makes it readable the next time.
    pub fn awake(&self) {
        self.0.sleep.end();
    }

    /// Said by the worker when it is awake again: forgets all wake-ups so far. True if there was one.
    pub fn drain(&self) -> bool {
        self.0.sleep.end();
        let mut count = [0u8; 8];
        // SAFETY: eight writable bytes; the descriptor doesn't block.
        unsafe { libc::read(self.0.fd.as_raw_fd(), count.as_mut_ptr().cast(), count.len()) == 8 }
    }
}

/// Whether the worker sleeps, agreed without a lock: it says so before it looks at its sources for the last time, the
/// others look at the word after they handed over work. The two full fences let at least one side see the other.
#[derive(Debug)]
struct Sleep(AtomicBool);

impl Sleep {
    fn new() -> Self {
        Self(AtomicBool::new(false))
    }

    fn announce(&self) {
        self.0.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    fn end(&self) {
        self.0.store(false, Ordering::Relaxed);
    }

    #[inline]
    fn must_be_woken(&self) -> bool {
        fence(Ordering::SeqCst);
        // One of many wakers is enough: the first takes the word away.
        self.0.load(Ordering::Relaxed) && self.0.swap(false, Ordering::Relaxed)
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use loom::sync::Arc;
    use loom::sync::atomic::AtomicUsize;
    use loom::thread;

    use super::*;

    #[test]
    fn loom_work_is_seen_or_wakes() {
        loom::model(|| {
            let shared = Arc::new((Sleep::new(), AtomicUsize::new(0)));
            let theirs = shared.clone();
            let control = thread::spawn(move || {
                theirs.1.store(1, Ordering::Release);
                theirs.0.must_be_woken()
            });
            shared.0.announce();
            let seen = shared.1.load(Ordering::Acquire) == 1;
            let woken = control.join().unwrap();
            assert!(seen || woken);
        });
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn only_a_sleeper_is_woken_by_a_nudge() {
        let waker = Waker::new().unwrap();
        waker.nudge();
        assert!(!waker.drain());
        waker.fall_asleep();
        waker.clone().nudge();
        waker.nudge();
        assert!(waker.drain() && !waker.drain());
        waker.nudge();
        assert!(!waker.drain(), "awake again");
        waker.fall_asleep();
        waker.awake();
        waker.nudge();
        assert!(!waker.drain(), "awake, without a look at the descriptor");
        waker.wake();
        assert!(waker.drain());
    }

    #[cfg(not(miri))]
    #[test]
    fn a_thread_in_poll_wakes_up() {
        let waker = Waker::new().unwrap();
        let theirs = waker.clone();
        let worker = std::thread::spawn(move || {
            theirs.fall_asleep();
            let mut fds = libc::pollfd { fd: theirs.fd().as_raw_fd(), events: libc::POLLIN, revents: 0 };
            // SAFETY: one valid pollfd.
            let ready = unsafe { libc::poll(&mut fds, 1, 10_000) };
            ready == 1 && theirs.drain()
        });
        while !worker.is_finished() {
            waker.nudge();
            std::thread::yield_now();
        }
        assert!(worker.join().unwrap());
    }
}
