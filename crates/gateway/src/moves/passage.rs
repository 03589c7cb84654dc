//! Packets of groups that have moved to another process: a member of the hand-off rings that is no worker, on a thread of its
//! own, and connections to the passages of other processes.
//!
//! ```text
//! worker ─ hand-off ring ─► passage ═ connection ═► passage of the other process ─ hand-off ring ─► worker
//! ```
//!
//! Switches and routers learn of a move a moment later than the move is made. What still comes here is passed on, in order, by
//! one thread and one connection. A mark goes the same way: what came here before it is before it there.
//!
//! ```text
//! of a packet:   1 | port (1) | flags (2) | length (4) | frame
//! a mark:        2 | 0 (7)
//! ```

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use engine::{Outside, Owner, PortId};
use frame::{Arena, Frame, Pool};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use table::waker::Waker;

/// What a gateway knows of frames.
pub trait Sorts: Send + Sync {
    /// The group of a frame that came in by a port; none: no group's.
    fn group(&self, port: PortId, frame: &[u8]) -> Option<u16>;

    /// The worker that owns it.
    fn owner(&self, port: PortId, frame: &[u8]) -> Option<Owner>;

    /// Whether it came to this process alone, and not to the one that has its group now as well. `late`: the move was made a
    /// while ago, and a switch that knew where the group is would not have sent it here.
    fn is_ours_alone(&self, port: PortId, frame: &[u8], late: bool) -> bool;

    /// Makes a frame that another process has received one that a port here could have.
    fn adopt(&self, port: PortId, frame: &mut [u8]);
}

/// Frames taken from rings, and octets from a connection, before others have their turn.
const AT_ONCE: usize = 256;
const OCTETS: usize = 256 << 10;
/// Octets that may wait for another process to take them.
const MOST_OUT: usize = 64 << 20;
/// How long the other process may take nothing.
const PATIENCE: Duration = Duration::from_secs(2);
/// For so long after a move a switch may send what it does not know where to send.
const RECENT: Duration = Duration::from_secs(30);
/// Frame buffers that this thread keeps.
const SHARE: usize = 256;
const FRAME: u8 = 1;
const MARK: u8 = 2;
const HEAD: usize = 8;
/// The longest frame.
const LONGEST: usize = 65_536;

/// What has gone through.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Passed {
    /// To other processes.
    pub on: u64,
    /// From other processes.
    pub taken: u64,
    /// Neither: no process took it, too many waited, or the other process has it already.
    pub lost: u64,
}

#[derive(Default)]
struct Counters {
    on: AtomicU64,
    taken: AtomicU64,
    lost: AtomicU64,
}

enum Request {
    Sort(Arc<dyn Sorts>),
    Hold(u16, usize),
    Open(u16, UnixStream),
    SendMark(u16),
    Close(u16),
    BringBack(u16),
    Receive(u16, UnixStream),
    Mark,
    Stop,
}

#[derive(Default)]
struct Inbox {
    requests: VecDeque<(Request, Option<Sender<()>>)>,
    /// Groups whose other process takes nothing any more.
    gone: Vec<u16>,
    /// How many connections each group's packets come by.
    sources: BTreeMap<u16, usize>,
}

struct Shared {
    inbox: Mutex<Inbox>,
    waker: Waker,
    counters: Counters,
}

impl Shared {
    fn inbox(&self) -> MutexGuard<'_, Inbox> {
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Control's end of the thread.
pub struct Passage {
    shared: Arc<Shared>,
    number: Owner,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Passage {
    /// Begins; `outside` is the last member of the hand-off rings, and `waker` the one that workers wake it by. `told` is called
    /// when there is something [gone](Self::gone).
    ///
    /// # Errors
    /// A thread of the passage cannot be started.
    pub fn start(
        (outside, waker): (Outside, Waker),
        arena: Arc<Arena>,
        sorts: Arc<dyn Sorts>,
        told: impl Fn() + Send + 'static,
    ) -> io::Result<Self> {
        let shared = Arc::new(Shared { inbox: Mutex::default(), waker, counters: Counters::default() });
        let number = outside.number();
        let run = Turn {
            shared: shared.clone(),
            outside,
            arena,
            pool: None,
            sorts,
            groups: BTreeMap::new(),
            closing: Vec::new(),
            sources: Vec::new(),
            pending: VecDeque::new(),
            told: Box::new(told),
            stops: false,
        };
        let thread = std::thread::Builder::new().name("weir-passage".into()).spawn(move || run.run())?;
        Ok(Self { shared, number, thread: Mutex::new(Some(thread)) })
    }

    /// Its number among the owners of groups: that of the workers.
    pub fn number(&self) -> Owner {
        self.number
    }

    /// Frames are told apart by that from now on.
    pub fn sort(&self, sorts: Arc<dyn Sorts>) {
        self.ask(Request::Sort(sorts), false);
    }

    /// Frames of a group wait from now on, so many at most.
    pub fn hold(&self, group: u16, most: usize) {
        self.ask(Request::Hold(group, most), true);
    }

    /// Frames of a group, those that wait first, go by that connection from now on.
    pub fn open(&self, group: u16, to: UnixStream) {
        self.ask(Request::Open(group, to), false);
    }

    /// Puts a mark behind all that was passed on of a group, and that workers have handed over.
    pub fn send_mark(&self, group: u16) {
        self.ask(Request::SendMark(group), false);
    }

    /// Workers hand over nothing more of a group: what they have is passed on, and its connection closed.
    pub fn close(&self, group: u16) {
        self.ask(Request::Close(group), true);
    }

    /// A group stays: frames that wait go to the worker that owns it.
    pub fn bring_back(&self, group: u16) {
        self.ask(Request::BringBack(group), true);
    }

    /// Frames of a group come by that connection.
    pub fn receive(&self, group: u16, from: UnixStream) {
        self.ask(Request::Receive(group, from), true);
    }

    /// Puts a mark into the ring to each worker.
    pub fn mark(&self) {
        self.ask(Request::Mark, false);
    }

    /// Connections that frames of a group come by.
    pub fn sources(&self, group: u16) -> usize {
        self.shared.inbox().sources.get(&group).copied().unwrap_or(0)
    }

    /// Groups whose other process has ended since the last call.
    pub fn gone(&self) -> Vec<u16> {
        std::mem::take(&mut self.shared.inbox().gone)
    }

    /// What has gone through.
    pub fn passed(&self) -> Passed {
        let Counters { on, taken, lost } = &self.shared.counters;
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Passed { on: of(on), taken: of(taken), lost: of(lost) }
    }

    /// Ends it, when workers stand still: what it has is given back.
    pub fn stop(&self) {
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            self.ask(Request::Stop, false);
            let _ = thread.join();
        }
    }

    fn ask(&self, request: Request, waits: bool) {
        let (done, is_done) = channel();
        self.shared.inbox().requests.push_back((request, waits.then_some(done)));
        self.shared.waker.wake();
        if waits {
            // A thread that has ended has dropped its end.
            let _ = is_done.recv_timeout(PATIENCE);
        }
    }
}

impl Drop for Passage {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Where frames of a group go.
enum Way {
    /// Packets wait for the other process, at most so many.
    Waits { frames: VecDeque<(PortId, Frame)>, most: usize },
    /// To another process.
    Leads(Leading),
}

/// A connection to another process, which is never waited for: two processes may send to each other.
struct Leading {
    to: UnixStream,
    out: Vec<u8>,
    /// Octets of `out` that have gone.
    sent: usize,
    since: Instant,
    /// Since when the other process has taken nothing.
    stuck: Option<Instant>,
}

impl Leading {
    fn rest(&self) -> &[u8] {
        self.out.get(self.sent..).unwrap_or_default()
    }

    /// Writes what the other process takes now. False: it takes nothing any more.
    fn write(&mut self) -> bool {
        while !self.rest().is_empty() {
            match self.to.write(&self.out[self.sent..]) {
                Ok(0) => return false,
                Ok(count) => (self.sent, self.stuck) = (self.sent + count, None),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    if self.sent >= OCTETS {
                        self.out.drain(..self.sent);
                        self.sent = 0;
                    }
                    return self.stuck.get_or_insert_with(Instant::now).elapsed() < PATIENCE;
                }
                Err(_) => return false,
            }
        }
        self.out.clear();
        (self.sent, self.stuck) = (0, None);
        true
    }
}

/// A connection that frames come by.
struct Source {
    group: u16,
    from: UnixStream,
    octets: Vec<u8>,
    ended: bool,
}

/// What the thread has.
struct Turn {
    shared: Arc<Shared>,
    outside: Outside,
    arena: Arc<Arena>,
    /// Frame buffers, while there is something to pass on.
    pool: Option<Pool>,
    sorts: Arc<dyn Sorts>,
    groups: BTreeMap<u16, Way>,
    /// Connections of groups that are closed, which have something to write.
    closing: Vec<Leading>,
    sources: Vec<Source>,
    /// For workers whose ring was full; without a frame: a mark.
    pending: VecDeque<(Owner, Option<(PortId, Frame)>)>,
    told: Box<dyn Fn() + Send>,
    stops: bool,
}

impl Turn {
    fn run(mut self) {
        while !self.stops {
            if self.turn() {
                continue;
            }
            self.shared.waker.fall_asleep();
            if self.has_work() {
                self.shared.waker.awake();
                continue;
            }
            self.wait();
            self.shared.waker.drain();
        }
        self.end();
    }

    fn has_work(&mut self) -> bool {
        !self.outside.is_empty() || !self.shared.inbox().requests.is_empty()
    }

    /// Until something comes; for a moment, while a worker's ring is full.
    fn wait(&mut self) {
        let mut fds = vec![PollFd::from_borrowed_fd(self.shared.waker.fd(), PollFlags::IN)];
        let reads = self.pending.is_empty();
        fds.extend(self.sources.iter().filter(|_| reads).map(|source| PollFd::new(&source.from, PollFlags::IN)));
        let wants = |way: &Leading| if way.rest().is_empty() { PollFlags::IN } else { PollFlags::IN | PollFlags::OUT };
        let mut groups = Vec::new();
        for (group, way) in &self.groups {
            if let Way::Leads(way) = way {
                groups.push((*group, fds.len()));
                fds.push(PollFd::from_borrowed_fd(way.to.as_fd(), wants(way)));
            }
        }
        fds.extend(self.closing.iter().map(|way| PollFd::from_borrowed_fd(way.to.as_fd(), PollFlags::OUT)));
        let waits = |way: &Way| matches!(way, Way::Leads(way) if !way.rest().is_empty());
        let writes = !self.closing.is_empty() || self.groups.values().any(waits);
        let (short, long) = (200_000, 100_000_000);
        // The longer one: that the other process takes nothing is found, too.
        let nanoseconds = if reads { writes.then_some(long) } else { Some(short) };
        let soon = nanoseconds.map(|tv_nsec| Timespec { tv_sec: 0, tv_nsec });
        if poll(&mut fds, soon.as_ref()).is_err() {
            return;
        }
        // The other process says nothing by it: it has ended.
        let has_ended = |(_, at): &(u16, usize)| !fds[*at].revents().difference(PollFlags::OUT).is_empty();
        let gone: Vec<u16> = groups.into_iter().filter(has_ended).map(|(group, _)| group).collect();
        drop(fds);
        gone.into_iter().for_each(|group| self.lose(group));
    }

    /// Whether there may be more.
    fn turn(&mut self) -> bool {
        let mut moved = self.retry();
        moved |= self.take_frames();
        // After frames: what was handed over before something was asked for is before it.
        let request = self.shared.inbox().requests.pop_front();
        if let Some((request, done)) = request {
            self.carry_out(request);
            drop(done);
            moved = true;
        }
        for at in 0..self.sources.len() {
            moved |= self.pending.is_empty() && self.read(at);
        }
        self.flush();
        self.outside.nudge();
        self.forget_sources();
        if self.groups.is_empty() && self.sources.is_empty() && self.pending.is_empty() && !moved {
            self.pool = None;
        }
        moved
    }

    /// Frames that workers have handed over. Whether there were any.
    fn take_frames(&mut self) -> bool {
        let mut came = Vec::new();
        self.outside.receive(AT_ONCE, |port, frame| came.push((port, frame)));
        let any = !came.is_empty();
        for (port, frame) in came {
            self.sort(port, frame);
        }
        any
    }

    fn sort(&mut self, port: PortId, frame: Frame) {
        let bytes = self.arena.bytes(&frame);
        let group = self.sorts.group(port, bytes);
        match group.and_then(|group| self.groups.get_mut(&group)) {
            Some(Way::Waits { frames, most }) if frames.len() < *most => frames.push_back((port, frame)),
            Some(Way::Leads(way))
                if way.rest().len() < MOST_OUT
                    && self.sorts.is_ours_alone(port, bytes, way.since.elapsed() > RECENT) =>
            {
                write(&mut way.out, port, frame.meta.flags, bytes);
                self.shared.counters.on.fetch_add(1, Ordering::Relaxed);
                self.give(frame);
            }
            Some(_) => self.drop_frame(frame),
            // It was on its way here when the group came back.
            None => {
                match self.sorts.owner(port, bytes).filter(|owner| *owner & !engine::ARRIVING < self.outside.number()) {
                    Some(owner) => self.send(owner, port, frame),
                    None => self.drop_frame(frame),
                }
            }
        }
    }

    fn carry_out(&mut self, request: Request) {
        match request {
            Request::Sort(sorts) => self.sorts = sorts,
            Request::Hold(group, most) => {
                self.groups.entry(group).or_insert(Way::Waits { frames: VecDeque::new(), most });
            }
            Request::Open(group, to) => self.open(group, to),
            Request::SendMark(group) => {
                self.take_all();
                if let Some(Way::Leads(way)) = self.groups.get_mut(&group) {
                    way.out.extend([MARK, 0, 0, 0, 0, 0, 0, 0]);
                }
            }
            Request::Close(group) => {
                self.take_all();
                self.flush();
                match self.groups.remove(&group) {
                    Some(Way::Waits { frames, .. }) => {
                        frames.into_iter().for_each(|(_, frame)| self.drop_frame(frame));
                    }
                    Some(Way::Leads(way)) if !way.rest().is_empty() => self.closing.push(way),
                    _ => {}
                }
            }
            Request::BringBack(group) => {
                self.take_all();
                if let Some(Way::Waits { frames, .. }) = self.groups.remove(&group) {
                    frames.into_iter().for_each(|(port, frame)| self.sort(port, frame));
                }
            }
            Request::Receive(group, from) => {
                let _ = from.set_nonblocking(true);
                self.sources.push(Source { group, from, octets: Vec::new(), ended: false });
                *self.shared.inbox().sources.entry(group).or_default() += 1;
            }
            Request::Mark => self.mark_all(),
            Request::Stop => self.stops = true,
        }
    }

    fn open(&mut self, group: u16, to: UnixStream) {
        let _ = to.set_nonblocking(true);
        let out = Vec::with_capacity(OCTETS);
        let way = Way::Leads(Leading { to, out, sent: 0, since: Instant::now(), stuck: None });
        if let Some(Way::Waits { frames, .. }) = self.groups.insert(group, way) {
            frames.into_iter().for_each(|(port, frame)| self.sort(port, frame));
        }
    }

    fn take_all(&mut self) {
        while self.take_frames() {
            self.flush();
        }
    }

    fn mark_all(&mut self) {
        (0..self.outside.number()).for_each(|worker| self.pending.push_back((worker, None)));
        self.retry();
    }

    /// Reads what has come by a connection. Whether anything has.
    fn read(&mut self, at: usize) -> bool {
        let Some(source) = self.sources.get_mut(at).filter(|source| !source.ended) else { return false };
        let before = source.octets.len();
        source.octets.resize(before + OCTETS, 0);
        let got = match source.from.read(&mut source.octets[before..]) {
            Ok(got) => Some(got),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => None,
            Err(_) => Some(0),
        };
        source.octets.truncate(before + got.unwrap_or(0));
        source.ended = got == Some(0);
        let mut octets = std::mem::take(&mut source.octets);
        let used = self.take_in(&octets);
        octets.drain(..used.unwrap_or(0));
        if let Some(source) = self.sources.get_mut(at) {
            source.octets = octets;
            source.ended |= used.is_none();
        }
        got.is_some()
    }

    /// Takes in whole frames; how many octets they were. None: they cannot be read.
    fn take_in(&mut self, octets: &[u8]) -> Option<usize> {
        let mut used = 0;
        while let Some((head, rest)) = octets.get(used..).and_then(|rest| rest.split_first_chunk::<HEAD>()) {
            let [kind, port, a, b, len @ ..] = *head;
            let len = u32::from_le_bytes(len) as usize;
            if kind == MARK {
                self.mark_all();
                used += HEAD;
                continue;
            }
            if kind != FRAME || len > LONGEST {
                return None;
            }
            let Some(bytes) = rest.get(..len) else { break };
            used += HEAD + len;
            let arena = self.arena.clone();
            let Some(mut frame) = self.pool().make(bytes) else {
                self.shared.counters.lost.fetch_add(1, Ordering::Relaxed);
                continue;
            };
            (frame.meta.port, frame.meta.flags) = (port, u16::from_le_bytes([a, b]));
            self.sorts.adopt(port, arena.bytes_mut(&mut frame));
            self.shared.counters.taken.fetch_add(1, Ordering::Relaxed);
            match self.sorts.owner(port, arena.bytes(&frame)) {
                Some(owner) if owner & !engine::ARRIVING < self.outside.number() => self.send(owner, port, frame),
                // It has moved on.
                _ => self.sort(port, frame),
            }
        }
        Some(used)
    }

    fn send(&mut self, owner: Owner, port: PortId, frame: Frame) {
        self.pending.push_back((owner, Some((port, frame))));
        self.retry();
    }

    /// Hands over what waits for room. Whether any went.
    fn retry(&mut self) -> bool {
        let mut any = false;
        while let Some((owner, what)) = self.pending.pop_front() {
            let left = match what {
                None => (!self.outside.mark(owner)).then_some((owner, None)),
                Some((port, frame)) => {
                    let sent = self.outside.send(owner, port, frame);
                    sent.err().map(|frame| (owner, Some((port, frame))))
                }
            };
            if let Some(left) = left {
                self.pending.push_front(left);
                break;
            }
            any = true;
        }
        any
    }

    fn flush(&mut self) {
        let mut gone = Vec::new();
        for (group, way) in &mut self.groups {
            if let Way::Leads(way) = way
                && !way.write()
            {
                gone.push(*group);
            }
        }
        self.closing.retain_mut(|way| way.write() && !way.rest().is_empty());
        gone.into_iter().for_each(|group| self.lose(group));
    }

    /// The other process takes nothing any more.
    fn lose(&mut self, group: u16) {
        self.groups.remove(&group);
        self.shared.inbox().gone.push(group);
        (self.told)();
    }

    fn forget_sources(&mut self) {
        let shared = self.shared.clone();
        self.sources.retain(|source| {
            if source.ended
                && let Some(count) = shared.inbox().sources.get_mut(&source.group)
            {
                *count -= 1;
            }
            !source.ended
        });
    }

    fn pool(&mut self) -> &mut Pool {
        self.pool.get_or_insert_with(|| Pool::new(&self.arena, SHARE))
    }

    fn give(&mut self, frame: Frame) {
        self.pool().give(frame);
    }

    fn drop_frame(&mut self, frame: Frame) {
        self.shared.counters.lost.fetch_add(1, Ordering::Relaxed);
        self.give(frame);
    }

    /// Gives everything back.
    fn end(mut self) {
        for (_, way) in std::mem::take(&mut self.groups) {
            if let Way::Waits { frames, .. } = way {
                frames.into_iter().for_each(|(_, frame)| self.drop_frame(frame));
            }
        }
        for (_, what) in std::mem::take(&mut self.pending) {
            what.into_iter().for_each(|(_, frame)| self.drop_frame(frame));
        }
        while self.take_frames() {}
        for (_, what) in std::mem::take(&mut self.pending) {
            what.into_iter().for_each(|(_, frame)| self.drop_frame(frame));
        }
    }
}

fn write(out: &mut Vec<u8>, port: PortId, flags: u16, bytes: &[u8]) {
    // A trace is of one process.
    let flags = flags & !frame::flags::TRACE;
    let ([a, b], [c, d, e, f]) = (flags.to_le_bytes(), (bytes.len() as u32).to_le_bytes()); // shorter than 64 KiB
    out.extend([FRAME, port, a, b, c, d, e, f]);
    out.extend(bytes);
}

#[cfg(test)]
mod tests;
