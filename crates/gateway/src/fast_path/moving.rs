//! Sessions on their way into the kernel and back.
//!
//! While a session is there, its buckets and counts are the program's. Those of its record let nothing pass and count
//! nothing without a closer look, so a packet that comes to the worker all the same finds out at no cost for others. The
//! session then stays for a while, and longer each time it comes back soon. On its way into the kernel no packet may overtake
//! those that wait in the worker's ports: the program counts what it leaves to user space, and a session goes in once the
//! ports were found empty with nothing left to it since (`Entering`).

use std::collections::VecDeque;
use std::sync::Arc;

use port::bpf::monotonic_ns;

use super::{FastPath, Offset, State};

/// Where a session is.
#[derive(Clone, Copy, Debug, Default)]
pub struct InKernel {
    /// In the kernel.
    pub is_there: bool,
    /// Keys of the program's index lead to it.
    pub is_linked: bool,
    /// How often it came back soon.
    returns: u8,
    /// When it went there, in milliseconds of the kernel's clock.
    since: u32,
    /// When it came back, likewise; 0: it waits for nothing.
    back: u32,
}

impl InKernel {
    /// It is there from now on.
    pub fn enter(&mut self) {
        *self = Self { is_there: true, is_linked: true, returns: self.returns, since: milliseconds(), back: 0 };
    }

    /// It is not there any more, and waits for nothing.
    pub fn leave(&mut self) {
        (self.is_there, self.back) = (false, 0);
    }

    /// It goes there again after a while; after a short one if only translation had to see a packet of it.
    fn wait(&mut self, is_for_flow: bool, time: u32) {
        let soon = time.wrapping_sub(self.since) < SOON;
        let most = if is_for_flow { DOUBLED_FOR_FLOWS } else { DOUBLED };
        // What other packets have earned stays.
        self.returns = if soon { self.returns.max(self.returns.saturating_add(1).min(most)) } else { 0 };
        self.back = time;
    }
}

/// A worker's share in the in-kernel path.
#[derive(Debug)]
pub struct Kernel<P> {
    /// The program and its maps.
    pub path: Arc<P>,
    /// The worker.
    pub worker: u16,
    /// The clocks' distance.
    pub offset: Offset,
    /// No session goes there.
    pub is_closed: bool,
    /// Sessions it handed back that have been seen.
    seen: u64,
    /// Those that wait to go there again, in the order they came.
    waiting: VecDeque<u32>,
    /// Those that go there as soon as none of their packets is in a port.
    entering: VecDeque<Entering>,
    /// Those of which translated flows wait for a place in the kernel, and when they were looked at last.
    parked: Parked,
    looked_at_parked: u64,
    /// The next of all handles, of which those whose sessions are not there are to wait; none: all have been looked at.
    reopening: Option<u32>,
    /// The worker's turn when it looked last, and the one in or after which each port had been found empty.
    turn: u64,
    drained: u64,
    looked: u64,
    /// When the worker said last that it lives, by its clock.
    beat: u64,
}

impl<P: AsRef<FastPath>> Kernel<P> {
    /// A worker's share, at its time `now`.
    pub fn new(path: Arc<P>, worker: u16, now: u64) -> Self {
        let (waiting, entering, parked) = (VecDeque::new(), VecDeque::new(), Parked::default());
        let mut kernel = Self {
            path,
            worker,
            offset: 0,
            is_closed: false,
            seen: 0,
            waiting,
            entering,
            parked,
            looked_at_parked: now,
            reopening: None,
            turn: 0,
            drained: 0,
            looked: now,
            beat: 0,
        };
        kernel.set_clock(now);
        kernel
    }

    /// The worker's clock shows `now`.
    pub fn set_clock(&mut self, now: u64) {
        self.offset = monotonic_ns().wrapping_sub(now).cast_signed();
    }

    /// The worker's time.
    pub fn now(&self) -> u64 {
        monotonic_ns().saturating_add_signed(-self.offset)
    }

    /// The program, as all gateways have it.
    pub fn shared(&self) -> &FastPath {
        (*self.path).as_ref()
    }

    /// The number of a session among the program's; none: there is no room for it.
    pub fn number(&self, handle: u32) -> Option<u32> {
        self.shared().number(self.worker, handle)
    }

    /// Whether translated flows of a session wait for a place in the kernel: its packets would bring it back at once.
    pub fn lacks_flows(&self, handle: u32) -> bool {
        self.number(handle).is_some_and(|number| self.shared().lacks_flows(number))
    }

    /// No session is about to go there.
    fn forget_those_to_come(&mut self) {
        self.waiting.clear();
        self.entering.clear();
        self.parked = Parked::default();
        self.reopening = None;
    }

    /// Sessions that wait to go there again.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }
}

/// Handles of sessions in the order they came, each once.
#[derive(Debug, Default)]
struct Parked {
    order: VecDeque<u32>,
    /// A bit for each handle: it is among them.
    is_there: Vec<u64>,
}

impl Parked {
    fn push(&mut self, handle: u32) {
        let (word, bit) = (handle as usize / 64, 1 << (handle % 64));
        if self.is_there.len() <= word {
            self.is_there.resize(word + 1, 0);
        }
        if self.is_there[word] & bit == 0 {
            self.is_there[word] |= bit;
            self.order.push_back(handle);
        }
    }

    fn pop(&mut self) -> Option<u32> {
        let handle = self.order.pop_front()?;
        self.is_there[handle as usize / 64] &= !(1 << (handle % 64));
        Some(handle)
    }
}

/// A session on its way into the kernel.
#[derive(Debug)]
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
/// The same of one that came back because translation had to see a packet: up to 40 ms, so that neither many new flows nor packets
/// without a mapping move it all the time.
const DOUBLED_FOR_FLOWS: u8 = 3;
const SOON: u32 = 1000;
/// How often waiting sessions are looked at, in nanoseconds, and how many then.
const EVERY: u64 = 1_000_000;
const A_TIME: usize = 32;
/// The same of sessions whose flows wait for a place: these may be many for long.
const EVERY_PARKED: u64 = 20_000_000;
const PARKED_A_TIME: usize = 64;
/// Handles looked at in a turn when sessions go into the kernel again.
const REOPENED: u32 = 256;

/// A worker's sessions, of which some are in the kernel. [`try_to_enter`](Self::try_to_enter) and
/// [`leave_kernel`](Self::leave_kernel) are the gateway's; when is decided here.
pub trait InKernelSessions {
    /// The in-kernel path.
    type Path: AsRef<FastPath>;

    /// The worker's share in it; none: there is none.
    fn kernel(&self) -> Option<&Kernel<Self::Path>>;

    /// The same, to change.
    fn kernel_mut(&mut self) -> Option<&mut Kernel<Self::Path>>;

    /// One more than the highest handle of a session.
    fn handles_end(&self) -> u32;

    /// Where a session is; none: there is no such session.
    fn place_in_kernel(&mut self, handle: u32) -> Option<&mut InKernel>;

    /// Whether a session is in the kernel.
    fn is_in_kernel(&self, handle: u32) -> bool;

    /// Has a session go into the kernel, if it can and stands there as it stood (none: as it does). False: it stands
    /// otherwise.
    fn try_to_enter(&mut self, handle: u32, stood: Option<u32>) -> bool;

    /// Takes a session out of the kernel, with what it has counted; nothing, if it is not there.
    fn leave_kernel(&mut self, handle: u32);

    /// Whether there is [`more`](Self::see_to_more) to do in each turn.
    fn has_more(&self) -> bool {
        false
    }

    /// What else the gateway does in a turn.
    fn see_to_more(&mut self) {}

    /// Sessions go into the kernel, or all that are there come back and none goes.
    fn open_kernel(&mut self, open: bool) {
        let Some(kernel) = self.kernel_mut() else { return };
        kernel.is_closed = !open;
        kernel.forget_those_to_come();
        for handle in 0..self.handles_end() {
            if open {
                if !self.parks(handle) {
                    self.try_to_enter(handle, None);
                }
            } else {
                self.leave_kernel(handle);
            }
        }
    }

    /// The program leaves all packets to the workers, and none of their sessions goes into the kernel: another process
    /// is to go on with them. Those that are there come back as their packets come, or are [taken
    /// out](Self::leave_kernel).
    fn close_kernel(&mut self) {
        let Some(kernel) = self.kernel_mut() else { return };
        kernel.is_closed = true;
        kernel.forget_those_to_come();
        kernel.shared().set_running(false);
    }

    /// After [`close_kernel`](Self::close_kernel): sessions go into the kernel by and by, behind packets of theirs that
    /// wait in ports.
    fn reopen_kernel(&mut self) {
        let Some(kernel) = self.kernel_mut().filter(|kernel| kernel.is_closed) else { return };
        kernel.is_closed = false;
        kernel.reopening = Some(0);
        kernel.shared().set_running(true);
    }

    /// The program leaves all packets to the workers, which take their sessions back as they come; or takes them again.
    fn pause_kernel(&mut self, pause: bool) {
        let Some(kernel) = self.kernel().filter(|kernel| !kernel.is_closed) else { return };
        kernel.shared().set_running(!pause);
        if !pause {
            // Those that have come back, or were to go there meanwhile.
            for handle in 0..self.handles_end() {
                if !self.is_in_kernel(handle) && self.place_in_kernel(handle).is_some_and(|place| place.back == 0) {
                    self.begin_to_enter(handle);
                }
            }
        }
    }

    /// Has sessions go into the kernel that are not there: more of them may be able to now.
    fn try_all(&mut self) {
        for handle in 0..self.handles_end() {
            if !self.is_in_kernel(handle) && self.place_in_kernel(handle).is_some() {
                self.begin_to_enter(handle);
            }
        }
    }

    /// Has a session go into the kernel, if it can: at once, or, if packets of it may wait in a port, behind them.
    fn enter_kernel(&mut self, handle: u32) {
        if !self.parks(handle) && !self.try_to_enter(handle, Some(0)) {
            self.begin_to_enter(handle);
        }
    }

    /// Has a session wait until its translated flows have places in the kernel. False: they have.
    fn parks(&mut self, handle: u32) -> bool {
        let Some(kernel) = self.kernel_mut().filter(|kernel| kernel.lacks_flows(handle)) else { return false };
        kernel.parked.push(handle);
        true
    }

    /// A session goes into the kernel when no packet of it is on its way to the worker any more.
    fn begin_to_enter(&mut self, handle: u32) {
        if self.parks(handle) {
            return;
        }
        if self.place_in_kernel(handle).is_some_and(|place| !place.is_linked) {
            // The program counts what it leaves to user space of sessions that keys lead to. None ever stands so.
            self.try_to_enter(handle, Some(u32::MAX));
        }
        let Some(kernel) = self.kernel_mut().filter(|kernel| !kernel.is_closed) else { return };
        let Some(number) = kernel.number(handle) else { return };
        let entering = Entering::new(handle, kernel.shared(), kernel.shared().stands(number));
        kernel.entering.push_back(entering);
    }

    /// As [`leave_kernel`](Self::leave_kernel), of one that goes there again after a while.
    fn leave_and_wait(&mut self, handle: u32) {
        let stands = self.kernel().and_then(|kernel| Some(kernel.shared().stands(kernel.number(handle)?)));
        self.leave_kernel(handle);
        if let Some(place) = self.place_in_kernel(handle) {
            place.wait(stands.is_some_and(|word| word & 0xff == State::ForFlow as u32), milliseconds());
        }
        if let Some(kernel) = self.kernel_mut() {
            kernel.waiting.push_back(handle);
        }
    }

    /// See to the sessions that were handed back, to those that have stayed long enough, and to those on their way; to be
    /// called at the begin of each turn, before packets are received. `drained`: [`engine::Env::drained`].
    #[inline]
    fn see_to_kernel(&mut self, now: u64, turn: u64, drained: u64) {
        let has_more = self.has_more();
        let Some(kernel) = self.kernel_mut() else { return };
        (kernel.turn, kernel.drained) = (turn, drained);
        if kernel.shared().beat_every().is_some_and(|every| now >= kernel.beat + every / 2) {
            kernel.beat = now;
            kernel.shared().beat(monotonic_ns());
        }
        let is_due = now.wrapping_sub(kernel.looked) >= EVERY || has_more;
        if !kernel.entering.is_empty() || is_due || kernel.shared().has_moved(kernel.worker, kernel.seen) {
            see_to_moved(self, now);
        }
    }

    /// When [`see_to_kernel`](Self::see_to_kernel) is to be called next.
    fn kernel_deadline(&self) -> Option<u64> {
        let kernel = self.kernel()?;
        let is_on_its_way = !kernel.entering.is_empty() || kernel.reopening.is_some();
        let is_waiting = !kernel.waiting.is_empty() || is_on_its_way || self.has_more();
        let wait = if is_on_its_way { EVERY } else { EVERY * u64::from(STAYS) };
        let sessions = is_waiting.then(|| kernel.looked + wait);
        let parked = (!kernel.parked.order.is_empty()).then_some(kernel.looked_at_parked + EVERY_PARKED);
        let beat = kernel.shared().beat_every().map(|every| kernel.beat + every);
        sessions.into_iter().chain(parked).chain(beat).min()
    }
}

#[cold]
fn see_to_moved<S: InKernelSessions + ?Sized>(sessions: &mut S, now: u64) {
    let all = 0..sessions.handles_end();
    let Some(kernel) = sessions.kernel_mut() else { return };
    kernel.set_clock(now);
    kernel.looked = now;
    let (worker, mut seen) = (kernel.worker, kernel.seen);
    let workers = u32::from(kernel.shared().workers());
    let moved = kernel.shared().moved(worker, &mut seen);
    kernel.seen = seen;
    let moved: Vec<u32> = moved.map_or_else(|| all.collect(), |list| list.iter().map(|n| n / workers).collect());
    for handle in moved {
        let is_moving = sessions
            .kernel()
            .is_some_and(|kernel| kernel.number(handle).is_some_and(|number| !kernel.shared().is_taken(number)));
        if is_moving && sessions.is_in_kernel(handle) {
            sessions.leave_and_wait(handle);
        }
    }
    reopen(sessions);
    send_entering(sessions);
    send_waiting(sessions);
    send_parked(sessions, now);
    sessions.see_to_more();
}

/// Has some more sessions wait to go into the kernel, of those that are not there.
fn reopen<S: InKernelSessions + ?Sized>(sessions: &mut S) {
    let Some(first) = sessions.kernel().and_then(|kernel| kernel.reopening) else { return };
    let (end, time) = (sessions.handles_end(), milliseconds());
    let last = first.saturating_add(REOPENED).min(end);
    for handle in first..last {
        let is_there = sessions.is_in_kernel(handle);
        let Some(place) = sessions.place_in_kernel(handle).filter(|place| !is_there && place.back == 0) else {
            continue;
        };
        place.wait(false, time);
        sessions.kernel_mut().into_iter().for_each(|kernel| kernel.waiting.push_back(handle));
    }
    sessions.kernel_mut().into_iter().for_each(|kernel| kernel.reopening = (last < end).then_some(last));
}

/// Sends those into the kernel of which no packet is on its way to the worker, or in its ports.
fn send_entering<S: InKernelSessions + ?Sized>(sessions: &mut S) {
    let count = sessions.kernel().map_or(0, |kernel| kernel.entering.len());
    for _ in 0..count.min(A_TIME) {
        let Some(kernel) = sessions.kernel_mut() else { return };
        let Some(mut entering) = kernel.entering.pop_front() else { return };
        let Some(number) = kernel.number(entering.handle) else { continue };
        let stands = kernel.shared().stands(number);
        if stands != entering.stood {
            entering = Entering::new(entering.handle, kernel.shared(), stands);
        } else if entering.turn.is_none() && entering.has_arrived(kernel.shared()) {
            entering.turn = Some(kernel.turn);
        }
        let is_behind = entering.turn.is_some_and(|turn| kernel.drained >= turn);
        if is_behind && sessions.parks(entering.handle) {
            continue;
        }
        if (!is_behind || !sessions.try_to_enter(entering.handle, Some(entering.stood)))
            && let Some(kernel) = sessions.kernel_mut()
        {
            kernel.entering.push_back(entering);
        }
    }
}

fn send_waiting<S: InKernelSessions + ?Sized>(sessions: &mut S) {
    if sessions.kernel().is_none_or(|kernel| !kernel.shared().is_running()) {
        return;
    }
    let time = milliseconds();
    for _ in 0..A_TIME {
        let Some(handle) = sessions.kernel_mut().and_then(|kernel| kernel.waiting.pop_front()) else { return };
        let Some(place) = sessions.place_in_kernel(handle).filter(|place| place.back != 0).copied() else { continue };
        let stays = STAYS << place.returns.min(DOUBLED);
        if time.wrapping_sub(place.back) < stays {
            sessions.kernel_mut().into_iter().for_each(|kernel| kernel.waiting.push_back(handle));
            continue;
        }
        sessions.begin_to_enter(handle);
    }
}

/// Sends those on their way whose flows have places by now; others wait on, behind the rest.
fn send_parked<S: InKernelSessions + ?Sized>(sessions: &mut S, now: u64) {
    let is_due = |kernel: &&mut Kernel<S::Path>| now.wrapping_sub(kernel.looked_at_parked) >= EVERY_PARKED;
    let Some(kernel) = sessions.kernel_mut().filter(is_due) else { return };
    kernel.looked_at_parked = now;
    for _ in 0..kernel.parked.order.len().min(PARKED_A_TIME) {
        let Some(handle) = sessions.kernel_mut().and_then(|kernel| kernel.parked.pop()) else { return };
        if !sessions.is_in_kernel(handle) && sessions.place_in_kernel(handle).is_some() {
            sessions.begin_to_enter(handle);
        }
    }
}

/// Milliseconds of the kernel's clock, of which differences count; never 0.
fn milliseconds() -> u32 {
    ((monotonic_ns() / 1_000_000) as u32).max(1) // modulo 2^32
}
