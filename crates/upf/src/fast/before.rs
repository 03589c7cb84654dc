//! What a process before has left of the in-kernel path.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::atomic::Ordering;

use port::bpf::{SharedWords, get_named};

use super::path::{LAYOUT_AT, quiesce, state};
use super::record::{CELLS, CONFIG, CPU, LAYOUT, Meter, Session, State, Tally};

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
    pub(super) fn found(folder: &Path) -> Option<Self> {
        let config = SharedWords::named(&folder.join("config"), CONFIG).ok()?;
        let layout = config.get(0)[LAYOUT_AT].load(Ordering::SeqCst);
        Some(Self {
            cpus: SharedWords::named(&folder.join("cpus"), CPU).ok().filter(|_| layout as u32 == LAYOUT)?,
            sessions: SharedWords::named(&folder.join("sessions"), size_of::<Session>()).ok()?,
            _user_space: get_named(&folder.join("user_space")).ok()?,
            workers: (layout >> 32) as u32,
            config,
        })
    }

    /// Its program takes nothing any more, and what it has counted is final when this returns.
    pub(super) fn end(&self) {
        self.config.get(0)[0].fetch_or(1, Ordering::SeqCst);
        quiesce(&self.cpus);
    }

    /// The buckets and counts of a session that was in the kernel there: of that handle, with these tunnel endpoints and that
    /// address.
    pub fn state(&self, handle: u32, teids: &[u32], ue4: u32) -> Option<([Meter; CELLS], [Tally; CELLS])> {
        let number = |worker: u32| handle.checked_mul(self.workers)?.checked_add(worker);
        let is_it = |number: &u32| {
            let mut head = [0; Session::HEAD];
            self.sessions.read(*number as usize, 0, &mut head);
            let words: [u32; Session::HEAD / 4] = zerocopy::transmute!(head);
            let [state, address, its_handle, _, ends @ ..] = words;
            let was_there = [State::Kernel as u32, State::Moving as u32].contains(&(state & 0xff));
            let ends = ends.iter().copied().filter(|teid| *teid != 0);
            was_there && (address, its_handle) == (ue4, handle) && ends.eq(teids.iter().copied())
        };
        let number = (0..self.workers).filter_map(number).find(is_it)?;
        Some(state(&self.sessions, number))
    }
}
