//! How the control thread sleeps: until another thread calls it, one of its descriptors is ready, or something is due.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use table::waker::Waker;

use crate::watch::Vitals;

/// The longest sleep: what is looked at once a second needs no deadline of its own.
const LONGEST: Duration = Duration::from_secs(1);
/// Work that is left over, or that failed, is gone on with so much later. So are turns that take events of workers: they
/// come together, and a flood of them does not take the CPU.
pub const AGAIN: Duration = Duration::from_millis(1);
/// A turn while control planes wait for workers or the disk.
pub const SOON: Duration = Duration::from_micros(20);

/// Calls the control thread of this process. Clones call the same.
#[derive(Clone, Debug)]
pub struct ControlWaker {
    waker: Waker,
    called: Arc<AtomicBool>,
}

impl ControlWaker {
    /// Over the waker that workers have, too.
    pub fn new(waker: Waker) -> Self {
        Self { waker, called: Arc::default() }
    }

    /// Has control make a turn, within [`AGAIN`]. Called after something was changed for it.
    pub fn call(&self) {
        self.called.store(true, Ordering::Release);
        self.waker.nudge();
    }

    /// Called by control before a turn, which sees what was changed before a call.
    pub fn begin_turn(&self) {
        self.called.swap(false, Ordering::AcqRel);
    }

    /// Whether there was a call since the last turn began.
    pub(crate) fn is_called(&self) -> bool {
        self.called.load(Ordering::Acquire)
    }
}

/// Tells control, when dropped, that a worker's thread ends: in order or by a panic.
#[derive(Debug)]
pub struct EndNotice {
    ended: Arc<AtomicBool>,
    control: ControlWaker,
}

impl EndNotice {
    /// The notice, and where it is written.
    pub fn new(control: &ControlWaker) -> (Self, Arc<AtomicBool>) {
        let ended = Arc::<AtomicBool>::default();
        (Self { ended: ended.clone(), control: control.clone() }, ended)
    }
}

impl Drop for EndNotice {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Release);
        self.control.call();
    }
}

/// How long control may sleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// Not at all: there is something to do.
    No,
    /// For a short time, in which only descriptors wake it.
    Short(Duration),
    /// For so long at most, if nobody calls.
    Long(Duration),
}

/// How long nothing is due: `deadline` and `now` are nanoseconds of one clock.
pub fn until(deadline: Option<u64>, now: u64) -> Duration {
    match deadline {
        None => LONGEST,
        Some(at) if at <= now => AGAIN,
        Some(at) => Duration::from_nanos(at - now).min(LONGEST),
    }
}

/// A descriptor, and what of it ends a sleep; hanging up always does.
pub type Other<'a> = (BorrowedFd<'a>, PollFlags);

/// What the control thread sleeps on.
#[derive(Debug)]
pub struct Rest {
    waker: ControlWaker,
    /// They end a sleep when there is something to read.
    sockets: Vec<OwnedFd>,
}

impl Rest {
    /// On those sockets, and until it is called.
    pub fn new(waker: ControlWaker, sockets: Vec<OwnedFd>) -> Self {
        Self { waker, sockets }
    }

    /// What wakes control from other threads.
    pub fn waker(&self) -> &ControlWaker {
        &self.waker
    }

    /// Sleeps as long as `wait` says, `longest` at most; it is asked again when workers and others know that control
    /// sleeps. `now` is their clock. Whether one of the `others` is ready.
    pub fn rest(
        &self,
        others: &[Other<'_>],
        longest: Duration,
        vitals: &Vitals,
        now: impl Fn() -> u64,
        mut wait: impl FnMut() -> Wait,
    ) -> bool {
        match wait() {
            Wait::No => return false,
            Wait::Short(time) => return self.poll(others, time.min(longest), None).0,
            Wait::Long(_) => {}
        }
        self.waker.waker.fall_asleep();
        let Wait::Long(time) = wait() else {
            self.waker.waker.awake();
            return false;
        };
        let time = time.min(longest);
        vitals.sleeps_until(now().saturating_add(time.as_nanos() as u64)); // a second at most
        let (is_ready, is_woken) = self.poll(others, time, Some(self.waker.waker.fd()));
        vitals.sleeps_until(0);
        if is_woken {
            self.waker.waker.drain();
        } else {
            self.waker.waker.awake();
        }
        is_ready
    }

    /// Whether one of the others is ready, and whether the waker is.
    fn poll(&self, others: &[Other<'_>], time: Duration, waker: Option<BorrowedFd<'_>>) -> (bool, bool) {
        let count = waker.iter().len();
        let waker = waker.into_iter().map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
        let others = others.iter().map(|(fd, flags)| PollFd::from_borrowed_fd(*fd, *flags));
        let (last, sockets) = (count + others.len(), self.sockets.iter());
        let sockets = sockets.map(|socket| PollFd::from_borrowed_fd(socket.as_fd(), PollFlags::IN));
        let mut fds: Vec<PollFd<'_>> = waker.chain(others).chain(sockets).collect();
        let time = Timespec { tv_sec: time.as_secs() as i64, tv_nsec: time.subsec_nanos().into() };
        if poll(&mut fds, Some(&time)).is_err() {
            // Interrupted: the next turn follows, and whoever interrupted it is looked at.
            return (true, true);
        }
        let is_ready = |fds: &[PollFd<'_>]| fds.iter().any(|fd| !fd.revents().is_empty());
        (is_ready(&fds[count..last]), is_ready(&fds[..count]))
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::net::UnixStream;
    use std::time::Instant;

    use super::*;

    const AN_HOUR: Duration = Duration::from_secs(3600);

    fn rest(sockets: Vec<OwnedFd>) -> Rest {
        Rest::new(ControlWaker::new(Waker::new().unwrap()), sockets)
    }

    /// Rests once; whether one of the others was ready, and how long it took.
    fn once(rest: &Rest, others: &[Other<'_>], wait: impl FnMut() -> Wait) -> (bool, Duration) {
        let begin = Instant::now();
        let ready = rest.rest(others, AN_HOUR, &Vitals::default(), || 0, wait);
        (ready, begin.elapsed())
    }

    #[test]
    fn deadlines_become_bounded_sleeps() {
        assert_eq!((until(None, 7), until(Some(7), 7), until(Some(0), 7)), (LONGEST, AGAIN, AGAIN));
        assert_eq!((until(Some(9), 7), until(Some(u64::MAX), 7)), (Duration::from_nanos(2), LONGEST));
    }

    #[test]
    fn a_call_ends_a_sleep_and_is_not_lost() {
        let rest = rest(Vec::new());
        let waker = rest.waker().clone();
        std::thread::scope(|scope| {
            let caller = waker.clone();
            let caller = scope.spawn(move || {
                std::thread::sleep(Duration::from_millis(20));
                caller.call();
            });
            let wait = || if waker.is_called() { Wait::No } else { Wait::Long(AN_HOUR) };
            assert!(once(&rest, &[], wait).1 < AN_HOUR);
            caller.join().unwrap();
            assert!(once(&rest, &[], wait).1 < AN_HOUR, "called before it falls asleep");
        });
        // While it falls asleep: between the first question and the second.
        waker.begin_turn();
        let mut asked = 0;
        let (_, took) = once(&rest, &[], || {
            asked += 1;
            if asked == 2 {
                waker.call();
            }
            if waker.is_called() { Wait::No } else { Wait::Long(AN_HOUR) }
        });
        assert!(took < AN_HOUR);
        waker.begin_turn();
        assert!(!waker.is_called());
    }

    #[test]
    fn only_descriptors_end_a_short_sleep() {
        let (socket, mut peer) = UnixStream::pair().unwrap();
        let rest = rest(vec![socket.into()]);
        rest.waker().call();
        let time = Duration::from_millis(20);
        assert!(once(&rest, &[], || Wait::Short(time)).1 >= time);
        peer.write_all(b"x").unwrap();
        assert!(!once(&rest, &[], || Wait::Short(AN_HOUR)).0, "a socket is none of the others");
    }

    #[test]
    fn others_are_told_apart() {
        let (gone, peer) = UnixStream::pair().unwrap();
        let rest = rest(Vec::new());
        let others = [(gone.as_fd(), PollFlags::empty())];
        assert!(!once(&rest, &others, || Wait::Long(Duration::from_millis(1))).0);
        drop(peer);
        assert!(once(&rest, &others, || Wait::Long(AN_HOUR)).0);
    }

    #[test]
    fn the_end_of_a_thread_is_a_call() {
        let rest = rest(Vec::new());
        let (notice, ended) = EndNotice::new(rest.waker());
        let thread = std::thread::spawn(move || {
            let _notice = notice;
            std::panic::resume_unwind(Box::new("as a worker may end"));
        });
        let waker = rest.waker();
        let wait = || if waker.is_called() { Wait::No } else { Wait::Long(AN_HOUR) };
        assert!(once(&rest, &[], wait).1 < AN_HOUR && ended.load(Ordering::Acquire));
        assert!(thread.join().is_err());
    }
}
