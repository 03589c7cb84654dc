//! Sessions that are in the kernel: on their way there and back.
//!
//! While a session is there, its buckets and counts are the program's. Those of its record let nothing pass and count
//! nothing without a closer look, so a packet that comes to the worker all the same ([`Sessions::take_back`]) finds out at no
//! cost for others. The session then stays for a while, and longer each time it comes back soon. On its way into the kernel
//! no packet may overtake those that wait in the worker's ports: the program counts what it leaves to user space, and a
//! session goes in once the ports were found empty with nothing left to it since (`Entering`).

mod inherit; // what sessions counted in the kernel while no process was there

use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::Arc;

use port::bpf::monotonic_ns;
use table::records::{Line, LineId};

use super::{Place, Sessions};
use crate::fast::{self, Cells, FastPath, KEY_ADDRESS, KEY_TEID, NotEligible, Offset, prefix_key};
use crate::record::{self, Meter, Tally};
use inherit::Inherits;

/// Where a session is.
#[derive(Clone, Copy, Default)]
pub(super) struct InKernel {
    /// In the kernel.
    is_there: bool,
    /// Keys of the program's index lead to it.
    is_linked: bool,
    /// How often it came back soon.
    returns: u8,
    /// When it went there, in milliseconds of the kernel's clock.
    since: u32,
    /// When it came back, likewise; 0: it waits for nothing.
    back: u32,
}

/// A worker's share in the in-kernel path.
pub(super) struct Kernel {
    path: Arc<FastPath>,
    worker: u16,
    offset: Offset,
    /// Sessions it handed back that have been seen.
    seen: u64,
    /// Those that wait to go there again, in the order they came.
    waiting: VecDeque<u32>,
    /// Those that go there as soon as none of their packets is in a port.
    entering: VecDeque<Entering>,
    /// The worker's turn when it looked last, and the one in or after which each port had been found empty.
    turn: u64,
    drained: u64,
    /// No session goes there.
    is_closed: bool,
    looked: u64,
    /// When the worker said last that it lives, by its clock.
    beat: u64,
    /// What is to come from a process before.
    inherits: Option<Inherits>,
}

/// A session on its way into the kernel.
struct Entering {
    handle: u32,
    /// How it stood: a packet left to user space since may be on its way.
    stood: u32,
    /// When it was first seen to stand so, in nanoseconds of the kernel's clock, and how often the program had run then.
    seen: u64,
    runs: u64,
    /// A turn of the worker when no packet was on its way any more: once each port was found empty in it or in a later one,
    /// what was left to user space has gone out.
    turn: Option<u64>,
}

impl Entering {
    fn new(handle: u32, path: &FastPath, stood: u32) -> Self {
        Self { handle, stood, seen: monotonic_ns(), runs: path.runs(), turn: None }
    }

    /// Whether what was left to user space before is in the worker's ports by now.
    fn has_arrived(&self, path: &FastPath) -> bool {
        let passed = monotonic_ns().saturating_sub(self.seen);
        passed >= ON_THE_WAY || (passed >= STILL && path.runs() == self.runs)
    }
}

/// How long a packet takes at most from the program to the worker's port, in nanoseconds: the receive work shows what it
/// has put there when it is done, with 64 packets at most. If the program has not run for a while, the receive work is done.
const ON_THE_WAY: u64 = 100_000;
const STILL: u64 = 10_000;

/// How long a session stays in user space at least, in milliseconds, doubled so many times at most each time it came back
/// within [`SOON`].
const STAYS: u32 = 5;
const DOUBLED: u8 = 8;
const SOON: u32 = 1000;
/// How often waiting sessions are looked at, in nanoseconds, and how many then.
const EVERY: u64 = 1_000_000;
const A_TIME: usize = 32;

impl Sessions {
    /// Has sessions go into the kernel from now on, those that are there already too. `now` is the worker's time.
    pub fn set_fast_path(&mut self, path: Arc<FastPath>, worker: u16, now: u64) {
        let (waiting, entering) = (VecDeque::new(), VecDeque::new());
        let kernel = Kernel {
            path,
            worker,
            offset: 0,
            seen: 0,
            waiting,
            entering,
            turn: 0,
            drained: 0,
            is_closed: false,
            looked: now,
            beat: 0,
            inherits: None,
        };
        self.kernel = Some(Box::new(kernel));
        self.set_clock(now);
        self.open_kernel(true);
        self.begin_to_inherit();
    }

    /// Sessions go into the kernel, or all that are there come back and none goes.
    pub fn open_kernel(&mut self, open: bool) {
        let Some(kernel) = &mut self.kernel else { return };
        kernel.is_closed = !open;
        kernel.waiting.clear();
        kernel.entering.clear();
        for handle in 0..self.places.len() as u32 {
            if open { self.enter_at_once(handle) } else { self.leave_kernel(handle) }
        }
    }

    /// The program leaves all packets to the workers, which take their sessions back as they come; or takes them again.
    pub fn pause_kernel(&mut self, pause: bool) {
        if let Some(kernel) = &self.kernel {
            kernel.path.set_running(!pause);
        }
    }

    /// Notes how the worker's clock and the kernel's stand to each other.
    fn set_clock(&mut self, now: u64) {
        if let Some(kernel) = &mut self.kernel {
            kernel.offset = monotonic_ns().wrapping_sub(now).cast_signed();
        }
    }

    /// Sees to the sessions that were handed back, to those that have stayed long enough, and to those on their way; to be
    /// called at the begin of each turn, before packets are received. `drained`: [`engine::Env::drained`].
    #[inline]
    pub fn see_to_kernel(&mut self, now: u64, turn: u64, drained: u64) {
        if let Some(kernel) = &mut self.kernel {
            (kernel.turn, kernel.drained) = (turn, drained);
            let is_due = now.wrapping_sub(kernel.looked) >= EVERY;
            if kernel.path.beat_every().is_some_and(|every| now >= kernel.beat + every / 2) {
                kernel.beat = now;
                kernel.path.beat(monotonic_ns());
            }
            let is_due = is_due || kernel.inherits.is_some();
            if !kernel.entering.is_empty() || is_due || kernel.path.has_moved(kernel.worker, kernel.seen) {
                self.see_to_moved(now);
            }
        }
    }

    /// When [`see_to_kernel`](Self::see_to_kernel) is to be called next.
    pub fn kernel_deadline(&self) -> Option<u64> {
        let kernel = self.kernel.as_ref()?;
        let wait = if kernel.entering.is_empty() { EVERY * u64::from(STAYS) } else { EVERY };
        let is_waiting = !kernel.waiting.is_empty() || !kernel.entering.is_empty() || kernel.inherits.is_some();
        let sessions = is_waiting.then(|| kernel.looked + wait);
        let beat = kernel.path.beat_every().map(|every| kernel.beat + every);
        sessions.into_iter().chain(beat).min()
    }

    #[cold]
    fn see_to_moved(&mut self, now: u64) {
        self.set_clock(now);
        let Some(kernel) = &mut self.kernel else { return };
        kernel.looked = now;
        let (worker, workers) = (kernel.worker, kernel.path.workers());
        let moved = kernel.path.moved(worker, &mut kernel.seen);
        let all = || (0..self.places.len() as u32).collect();
        let moved: Vec<u32> = moved.map_or_else(all, |list| list.iter().map(|n| n / u32::from(workers)).collect());
        for handle in moved {
            let is_moving = self.kernel.as_ref().is_some_and(|kernel| {
                kernel.path.number(worker, handle).is_some_and(|number| !kernel.path.is_taken(number))
            });
            if is_moving && self.is_in_kernel(handle) {
                self.leave_and_wait(handle);
            }
        }
        self.send_entering();
        self.send_waiting();
        self.inherit();
    }

    /// Sends those into the kernel of which no packet is on its way to the worker, or in its ports.
    fn send_entering(&mut self) {
        let count = self.kernel.as_ref().map_or(0, |kernel| kernel.entering.len());
        for _ in 0..count.min(A_TIME) {
            let Some(kernel) = self.kernel.as_mut() else { return };
            let Some(mut entering) = kernel.entering.pop_front() else { return };
            let Some(number) = kernel.path.number(kernel.worker, entering.handle) else { continue };
            let stands = kernel.path.stands(number);
            if stands != entering.stood {
                entering = Entering::new(entering.handle, &kernel.path, stands);
            } else if entering.turn.is_none() && entering.has_arrived(&kernel.path) {
                entering.turn = Some(kernel.turn);
            }
            let is_behind = entering.turn.is_some_and(|turn| kernel.drained >= turn);
            if (!is_behind || !self.try_to_enter(entering.handle, Some(entering.stood)))
                && let Some(kernel) = &mut self.kernel
            {
                kernel.entering.push_back(entering);
            }
        }
    }

    fn send_waiting(&mut self) {
        if self.kernel.as_ref().is_none_or(|kernel| !kernel.path.is_running()) {
            return;
        }
        let time = milliseconds();
        for _ in 0..A_TIME {
            let Some(handle) = self.kernel.as_mut().and_then(|kernel| kernel.waiting.pop_front()) else { return };
            let Some(place) = self.place_mut(handle).filter(|place| place.kernel.back != 0) else { continue };
            let stays = STAYS << place.kernel.returns.min(DOUBLED);
            if time.wrapping_sub(place.kernel.back) < stays {
                self.kernel.iter_mut().for_each(|kernel| kernel.waiting.push_back(handle));
                continue;
            }
            self.begin_to_enter(handle);
        }
    }

    /// A session goes into the kernel when no packet of it is on its way to the worker any more.
    fn begin_to_enter(&mut self, handle: u32) {
        let Some(kernel) = self.kernel.as_mut().filter(|kernel| !kernel.is_closed) else { return };
        let Some(number) = kernel.path.number(kernel.worker, handle) else { return };
        let entering = Entering::new(handle, &kernel.path, kernel.path.stands(number));
        kernel.entering.push_back(entering);
    }

    fn place_mut(&mut self, handle: u32) -> Option<&mut Place> {
        self.places.get_mut(handle as usize)?.as_mut()
    }

    /// Whether a session is in the kernel.
    pub fn is_in_kernel(&self, handle: u32) -> bool {
        self.places.get(handle as usize).copied().flatten().is_some_and(|place| place.kernel.is_there)
    }

    /// Why a session is not in the kernel; none: it is there, or will be again soon, or there is no in-kernel path.
    pub fn why_not_in_kernel(&self, handle: u32) -> Option<NotEligible> {
        let (kernel, place) = (self.kernel.as_ref()?, self.places.get(handle as usize).copied().flatten()?);
        if place.kernel.is_there {
            return None;
        }
        self.for_kernel(kernel, handle, place).err()
    }

    /// Whether a session is in the kernel, and why not, in words; none: there is no in-kernel path.
    pub fn kernel_in_words(&self, handle: u32) -> Option<String> {
        self.kernel.as_ref()?;
        Some(match self.why_not_in_kernel(handle) {
            None if self.is_in_kernel(handle) => "in the kernel".to_owned(),
            None => "by its worker for a while: some of its packets were not for the kernel".to_owned(),
            Some(why) => format!("by its worker: {why}"),
        })
    }

    /// What the program would have of a session, and its number there.
    fn for_kernel(
        &self,
        kernel: &Kernel,
        handle: u32,
        place: Place,
    ) -> Result<(fast::Compiled, Cells, u32), NotEligible> {
        let number = kernel.path.number(kernel.worker, handle).ok_or(NotEligible::NoRoom)?;
        let keys = self.keys.get(handle as usize).ok_or(NotEligible::NoRoom)?;
        if !keys.routes.is_empty() {
            return Err(NotEligible::Routes);
        }
        let lines = self.lines.get(place.line, place.lines.into()).ok_or(NotEligible::NoRoom)?;
        let filters = |uplink: bool| {
            let window = self.lines.window(place.line);
            let list = window.map(|window| record::head_of(window, uplink).filters).unwrap_or_default();
            self.filters.get(list).iter().map(|quad| quad.filters).collect::<Vec<_>>()
        };
        let (up, down) = (filters(true), filters(false));
        let with = (&*kernel.path, kernel.offset);
        let (session, cells) = fast::compile(lines, [&up, &down], keys.teids.as_slice(), kernel.worker, with)?;
        Ok((session, cells, number))
    }

    /// Has a session go into the kernel, if it can: at once, or, if packets of it may wait in a port, behind them.
    pub(super) fn enter_kernel(&mut self, handle: u32) {
        if !self.try_to_enter(handle, Some(0)) {
            self.begin_to_enter(handle);
        }
    }

    /// The same of one whose packets no port has.
    fn enter_at_once(&mut self, handle: u32) {
        self.try_to_enter(handle, None);
    }

    /// Has a session go into the kernel, if it can and stands there as it stood (none: as it does). False: it stands
    /// otherwise.
    fn try_to_enter(&mut self, handle: u32, stood: Option<u32>) -> bool {
        let Some(kernel) = self.kernel.as_ref().filter(|kernel| !kernel.is_closed && kernel.path.is_running()) else {
            return true;
        };
        let Some(place) = self.places.get(handle as usize).copied().flatten().filter(|place| !place.kernel.is_there)
        else {
            return true;
        };
        let Ok((session, cells, number)) = self.for_kernel(kernel, handle, place) else { return true };
        let path = kernel.path.clone();
        if !place.kernel.is_linked {
            path.begin(number);
            if !self.link_kernel(handle, &path, number) {
                return true;
            }
            self.place_mut(handle).into_iter().for_each(|place| place.kernel.is_linked = true);
        }
        if !path.enter(number, (&session.four, &session.six), stood.unwrap_or_else(|| path.stands(number))) {
            return false;
        }
        let Some(lines) = self.lines.get_mut(place.line, place.lines.into()) else { return true };
        close(lines, &cells);
        if let Some(place) = self.place_mut(handle) {
            let returns = place.kernel.returns;
            place.kernel = InKernel { is_there: true, is_linked: true, returns, since: milliseconds(), back: 0 };
        }
        true
    }

    /// Has the program's index lead to a session. False: there is no room.
    fn link_kernel(&self, handle: u32, path: &FastPath, number: u32) -> bool {
        let linked = self.kernel_keys(handle).all(|(key, end)| path.link(key, number, end));
        if !linked {
            self.kernel_keys(handle).for_each(|(key, _)| path.unlink(key, number));
        }
        linked
    }

    /// What leads to a session in the program's index: keys, and which endpoint each is.
    fn kernel_keys(&self, handle: u32) -> impl Iterator<Item = (u64, u32)> + '_ {
        let keys = self.keys.get(handle as usize);
        let teids = keys.map_or(&[][..], |keys| keys.teids.as_slice());
        let teids = (0..).zip(teids).map(|(end, teid)| (KEY_TEID | u64::from(*teid), end));
        let address = keys.and_then(|keys| keys.ue4);
        let prefix = keys.and_then(|keys| keys.ue6).map(|(instance, prefix)| (prefix_key(instance, prefix), 0));
        let address = address.map(|(instance, to)| (KEY_ADDRESS | u64::from(instance) << 32 | u64::from(to), 0));
        teids.chain(address).chain(prefix)
    }

    /// Has nothing in the program's index lead to a session, which is not in the kernel.
    pub(super) fn unlink_kernel(&mut self, at: usize) {
        let handle = at as u32; // a handle
        let linked = self.places.get(at).copied().flatten().is_some_and(|place| place.kernel.is_linked);
        let Some(kernel) = self.kernel.as_ref().filter(|_| linked) else { return };
        if let Some(number) = kernel.path.number(kernel.worker, handle) {
            self.kernel_keys(handle).for_each(|(key, _)| kernel.path.unlink(key, number));
        }
        if let Some(place) = self.place_mut(handle) {
            place.kernel.is_linked = false;
        }
    }

    /// Takes a session out of the kernel, with what it has counted; nothing, if it is not there.
    pub(crate) fn leave_kernel(&mut self, handle: u32) {
        let Some(place) = self.places.get(handle as usize).copied().flatten().filter(|place| place.kernel.is_there)
        else {
            return;
        };
        let Some((path, offset, number)) = self
            .kernel
            .as_ref()
            .and_then(|kernel| Some((kernel.path.clone(), kernel.offset, kernel.path.number(kernel.worker, handle)?)))
        else {
            return;
        };
        let state = path.leave(number);
        if let Some(lines) = self.lines.get_mut(place.line, place.lines.into()) {
            merge(lines, state, offset);
        }
        if let Some(place) = self.place_mut(handle) {
            (place.kernel.is_there, place.kernel.back) = (false, 0);
        }
    }

    /// As [`leave_kernel`](Self::leave_kernel), of one that goes there again after a while.
    fn leave_and_wait(&mut self, handle: u32) {
        self.leave_kernel(handle);
        let time = milliseconds();
        if let Some(place) = self.place_mut(handle) {
            let soon = time.wrapping_sub(place.kernel.since) < SOON;
            place.kernel.returns = if soon { place.kernel.returns.saturating_add(1).min(DOUBLED) } else { 0 };
            place.kernel.back = time;
        }
        self.kernel.iter_mut().for_each(|kernel| kernel.waiting.push_back(handle));
    }

    /// A packet of a session is the worker's: the session is too from now on. False: it was already.
    #[cold]
    pub fn take_back(&mut self, id: LineId) -> bool {
        let Some(handle) = self.head(id).map(|head| head.handle).filter(|handle| self.is_in_kernel(*handle)) else {
            return false;
        };
        self.leave_and_wait(handle);
        true
    }

    /// A session's lines, with what the program has counted if it is in the kernel.
    pub(super) fn with_kernels<'a>(&self, handle: u32, place: Place, lines: &'a [Line]) -> Cow<'a, [Line]> {
        let kernel = self.kernel.as_ref().filter(|_| place.kernel.is_there);
        let Some((kernel, number)) = kernel.and_then(|k| Some((k, k.path.number(k.worker, handle)?))) else {
            return Cow::Borrowed(lines);
        };
        let mut lines = lines.to_vec();
        merge(&mut lines, kernel.path.state(number), kernel.offset);
        Cow::Owned(lines)
    }
}

/// Milliseconds of the kernel's clock, of which differences count; never 0.
fn milliseconds() -> u32 {
    ((monotonic_ns() / 1_000_000) as u32).max(1) // modulo 2^32
}

fn cell_mut<T: zerocopy::FromBytes + zerocopy::IntoBytes + zerocopy::KnownLayout + zerocopy::Immutable>(
    lines: &mut [Line],
    at: u8,
) -> Option<&mut T> {
    record::cell_mut(lines.get_mut(usize::from(at) / record::CELLS).filter(|_| at != 0)?, at)
}

/// The record's buckets let nothing pass, and its counts begin anew and call for a look at once.
fn close(lines: &mut [Line], cells: &Cells) {
    for at in cells.meters {
        if let Some(meter) = cell_mut::<Meter>(lines, at) {
            meter.state = Meter::CLOSED.state;
            meter.state.last_ns = u64::MAX;
        }
    }
    for at in cells.tallies {
        if let Some(tally) = cell_mut::<Tally>(lines, at) {
            *tally = Tally { trip: 0, ..Tally::default() };
        }
    }
}

/// The record's buckets and counts are what the program's are, and what has come meanwhile.
fn merge(lines: &mut [Line], (meters, tallies): ([fast::Meter; 4], [fast::Tally; 4]), offset: Offset) {
    let Ok(cells) = Cells::of(lines) else { return };
    let now = monotonic_ns().saturating_add_signed(-offset);
    for (at, from) in cells.meters.into_iter().zip(&meters) {
        if let Some(meter) = cell_mut::<Meter>(lines, at) {
            fast::meter_from_kernel(meter, from, now, offset);
        }
    }
    for (at, from) in cells.tallies.into_iter().zip(&tallies) {
        if let Some(tally) = cell_mut::<Tally>(lines, at) {
            fast::tally_from_kernel(tally, from, offset);
        }
    }
}
