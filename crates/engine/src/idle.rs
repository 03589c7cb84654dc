//! What a worker does when there is nothing to do.

use std::os::fd::BorrowedFd;
use std::time::Duration;

/// Poll, back off, sleep: how a worker spends turns without packets.
#[derive(Clone, Copy, Debug)]
pub struct Idle {
    /// Empty turns before it yields the processor; `u32::MAX` polls for ever, for benchmarks on a CPU of its own.
    pub poll_turns: u32,
    /// Empty turns (after those) in which it yields before it sleeps.
    pub yield_turns: u32,
    /// The longest sleep. Timers are this late at most.
    pub sleep: Duration,
}

impl Default for Idle {
    fn default() -> Self {
        Self { poll_turns: 256, yield_turns: 64, sleep: Duration::from_millis(1) }
    }
}

impl Idle {
    /// Never yields, never sleeps.
    pub const POLL: Self = Self { poll_turns: u32::MAX, yield_turns: 0, sleep: Duration::ZERO };

    /// Spends the `turns`-th empty turn in a row. Sleeps on `fds` when all sources of work have one (`all`), else for
    /// a fraction of the longest sleep. Says whether it slept.
    pub(crate) fn rest(&self, turns: u32, fds: &[BorrowedFd<'_>], all: bool) -> bool {
        if turns < self.poll_turns {
            std::hint::spin_loop();
            return false;
        }
        if turns < self.poll_turns.saturating_add(self.yield_turns) {
            std::thread::yield_now();
            return false;
        }
        if all && !fds.is_empty() {
            // An error here can only be a bad descriptor; the ports find that out themselves.
            let _ = frame::wait_readable(fds, self.sleep);
        } else {
            std::thread::sleep(self.sleep / 20);
        }
        true
    }
}
