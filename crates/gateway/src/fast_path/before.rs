//! What a process before has left of the in-kernel path.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::atomic::Ordering;

use port::bpf::{SharedWords, get_named};

use super::path::{LAYOUT_AT, quiesce, sum};
use super::record::{ALONE_AT, ALONE_COUNTS, CONFIG, COUNTS_AT, CPU, State};

/// What the in-kernel path of a process before has left: its program may still forward.
#[derive(Debug)]
pub struct Before {
    config: SharedWords,
    cpus: SharedWords,
    sessions: SharedWords,
    workers: u32,
    /// Without it, the program would forget what it goes on to.
    _user_space: OwnedFd,
}

impl Before {
    /// What is there under its name; none: nothing, or of another layout.
    pub(super) fn found(folder: &Path, of: u32, session: usize) -> Option<Self> {
        let config = SharedWords::named(&folder.join("config"), CONFIG).ok()?;
        let layout = config.get(0)[LAYOUT_AT].load(Ordering::SeqCst);
        Some(Self {
            cpus: SharedWords::named(&folder.join("cpus"), CPU).ok().filter(|_| layout as u32 == of)?,
            sessions: SharedWords::named(&folder.join("sessions"), session).ok()?,
            _user_space: get_named(&folder.join("user_space")).ok()?,
            workers: (layout >> 32) as u32,
            config,
        })
    }

    /// Its program takes nothing any more, and what it has counted is final when this returns.
    pub(super) fn end(&self) {
        self.config.get(0)[0].fetch_or(1, Ordering::SeqCst);
        quiesce(&self.cpus, None);
    }

    /// What was counted without a process.
    pub(super) fn alone(&self) -> [u64; ALONE_COUNTS] {
        sum(&self.cpus, COUNTS_AT + ALONE_AT)
    }

    /// The number of a session that was in the kernel there, of that handle, of whose record the first `HEAD` octets are as
    /// `is_it` says.
    pub fn find<const HEAD: usize>(&self, handle: u32, is_it: impl Fn(&[u8; HEAD]) -> bool) -> Option<u32> {
        let number = |worker: u32| handle.checked_mul(self.workers)?.checked_add(worker);
        let was_there = |number: &u32| {
            let mut head = [0; HEAD];
            self.sessions.read(*number as usize, 0, &mut head);
            let state = u32::from(head.first().copied().unwrap_or_default());
            [State::Kernel, State::Moving, State::ForFlow].map(|state| state as u32).contains(&state) && is_it(&head)
        };
        (0..self.workers).filter_map(number).find(was_there)
    }

    /// All sessions' records.
    pub fn sessions(&self) -> &SharedWords {
        &self.sessions
    }
}
