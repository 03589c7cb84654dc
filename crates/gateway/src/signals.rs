//! Being told to stop, or to read the configuration again.

use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;
use signal_hook::low_level::pipe;

/// Set once SIGINT, SIGTERM or SIGHUP came. A second one ends the process at once.
///
/// # Errors
/// What the system said.
pub fn stop_flag() -> io::Result<Arc<AtomicBool>> {
    flag_of(&[SIGINT, SIGTERM, SIGHUP])
}

/// Ends the process without what runs at an ordinary exit, which waits for threads that hold the allocator.
pub fn exit_at_once(code: i32) -> ! {
    signal_hook::low_level::exit(code)
}

fn flag_of(signals: &[i32]) -> io::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    let came = CAME.get_or_init(Arc::default);
    for &signal in signals {
        // In this order: the first signal finds the flag still down.
        flag::register_conditional_shutdown(signal, 1, stop.clone())?;
        flag::register_usize(signal, came.clone(), signal as usize)?;
        flag::register(signal, stop.clone())?;
    }
    Ok(stop)
}

/// What tells a gateway to stop (SIGINT, SIGTERM: a flag, and a descriptor that is readable once it is set), or to read its
/// configuration again (SIGHUP).
#[derive(Debug)]
pub struct Stop {
    flag: Arc<AtomicBool>,
    readable: UnixStream,
    hangup_readable: UnixStream,
}

impl Stop {
    /// As [`stop_flag`], with the descriptor.
    ///
    /// # Errors
    /// What the system said.
    pub fn register() -> io::Result<Self> {
        let flag = flag_of(&[SIGINT, SIGTERM])?;
        let (readable, write) = UnixStream::pair()?;
        for signal in [SIGINT, SIGTERM] {
            // After the flag: actions run in the order they were registered in.
            pipe::register(signal, write.try_clone()?)?;
        }
        let (hangup_readable, write_hangup) = UnixStream::pair()?;
        hangup_readable.set_nonblocking(true)?;
        pipe::register(SIGHUP, write_hangup)?;
        Ok(Self { flag, readable, hangup_readable })
    }

    /// Whether a signal came.
    pub(crate) fn is_set(&self) -> bool {
        self.flag.load(Ordering::Relaxed)
    }

    /// Whether SIGHUP came since this was called last.
    pub fn take_hangup(&self) -> bool {
        let mut came = false;
        while matches!((&self.hangup_readable).read(&mut [0; 64]), Ok(1..)) {
            came = true;
        }
        came
    }

    /// Readable once SIGHUP came, until [`take_hangup`](Self::take_hangup).
    pub(crate) fn hangup_fd(&self) -> BorrowedFd<'_> {
        self.hangup_readable.as_fd()
    }

    /// The flag itself.
    pub fn flag(&self) -> &AtomicBool {
        &self.flag
    }

    /// Readable once a signal came.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.readable.as_fd()
    }
}

static CAME: OnceLock<Arc<AtomicUsize>> = OnceLock::new();

/// The signal that set the flag, by name; none: none has come.
pub fn came() -> Option<&'static str> {
    let signal = CAME.get()?.load(Ordering::Relaxed);
    let known = [(SIGHUP, "SIGHUP"), (SIGINT, "SIGINT"), (SIGTERM, "SIGTERM")];
    known.into_iter().find(|(number, _)| *number as usize == signal).map(|(_, name)| name)
}

/// Sleeps, unless told to stop. False when it was.
pub fn sleep(seconds: f64, stop: &AtomicBool) -> bool {
    let until = Instant::now() + Duration::from_secs_f64(seconds);
    loop {
        if stop.load(Ordering::Relaxed) {
            return false;
        }
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return true;
        }
        std::thread::sleep(left.min(Duration::from_millis(50)));
    }
}
