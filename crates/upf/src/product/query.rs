//! Asking a worker about its sessions: only it can look into them. Questions come by a ring, a few a turn.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use crate::Upf;
use crate::gateway::UserPlane;
use crate::rules::{Credit, Usage};
use dataplane::nat::BlockEvent;
use engine::{Burst, Clock, Env, Gateway, PortId, SteerKey, TraceFilter};
use gateway::fast_path::InKernelSessions as _;
use gateway::shell::hand_over::changed::{Changed, export_translation};
use table::command::{self, Inbox};
use table::waker::Waker;

/// What can be asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Query {
    /// How many sessions there are.
    Sessions,
    /// How full its tables are.
    Levels,
    /// What one session has used.
    Usage {
        /// Control's number of it.
        handle: u32,
    },
    /// What these sessions have carried; at most [`ASK`](gateway::connected::ASK).
    Totals(Vec<Total>),
    /// Begin to note which sessions' state changes; all count as changed. Or no longer.
    Follow(bool),
    /// These sessions' state counts as changed.
    Mark(Vec<u32>),
    /// The state of some sessions that have changed.
    Changed {
        /// How many more are to go, as far as is known: of many, many are taken in a turn.
        left: usize,
    },
    /// Translation that has changed, some at a time.
    Translated {
        /// How much more is to go, as far as is known.
        left: usize,
    },
    /// Which blocks of public ports subscribers have, some at a time.
    Blocks {
        /// Go on from here; 0: from the beginning.
        from: usize,
    },
}

/// What a session has carried: see [`Sessions::total`](crate::sessions::Sessions::total).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Total {
    /// Control's number of it.
    pub handle: u32,
    /// Packets and bytes up, packets and bytes down; none: there is no such session.
    pub used: Option<[u64; 4]>,
}

/// What the worker says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QueryAnswer {
    /// Sessions.
    Sessions {
        /// How many.
        count: u64,
        /// Bytes of their records and indexes.
        bytes: u64,
    },
    /// What a session's URRs have measured, what its QERs let pass, and the worker's time; none: there is no such session.
    /// Where there is an in-kernel path, whether the session is in it, in words.
    Usage(Option<(Vec<Usage>, Vec<Credit>, Option<String>)>, u64),
    /// What sessions have carried, filled in.
    Totals(Vec<Total>),
    /// The query was carried out.
    Done,
    /// Handles and states of sessions, as `export` writes them, or [translation](dataplane::nat::Nat::export), and how many are left.
    Changed(Vec<u8>, usize),
    /// What of a worker's own may run out: name, used, there.
    Levels(Option<[(&'static str, u64, u64); 3]>),
    /// Blocks and the mappings on each; where to go on, if there are more; subscribers and mappings in all.
    Blocks {
        /// The blocks.
        blocks: Vec<(BlockEvent, u16)>,
        /// Where to go on.
        next: Option<usize>,
        /// Subscribers with blocks.
        subscribers: u64,
        /// Mappings.
        mappings: u64,
    },
}

/// A user plane that can be asked.
pub struct QueriedPlane {
    plane: UserPlane,
    /// While another process takes over: which sessions' state has changed.
    changed: Changed,
    inbox: Inbox<Query, QueryAnswer>,
}

/// The asking side.
pub struct WorkerQuery {
    ring: Mutex<command::Control<Query, QueryAnswer>>,
    waker: Option<Waker>,
}

const RING: usize = 16;
/// Questions answered in a turn.
const A_TURN: usize = 4;
/// Blocks of ports looked at in a turn: some microseconds.
const BLOCKS: usize = 2048;
/// A worker answers in its next turn; a stopped one never.
const PATIENCE: Duration = Duration::from_millis(500);

impl QueriedPlane {
    /// The plane, and whoever may ask it.
    pub fn new(plane: UserPlane) -> (Self, WorkerQuery) {
        let (ask, inbox) = command::commands(RING);
        let query = WorkerQuery { ring: Mutex::new(ask), waker: plane.waker().cloned() };
        (Self { plane, changed: Changed::default(), inbox }, query)
    }

    /// The plane itself.
    pub(super) fn plane_mut(&mut self) -> &mut UserPlane {
        &mut self.plane
    }

    /// Adds the state of all sessions that have changed and of `others`; the worker stands still.
    pub(super) fn export_rest(&mut self, others: impl Iterator<Item = u32>, out: &mut Vec<u8>) {
        others.for_each(|handle| self.changed.mark(handle));
        let sessions = self.plane.sessions_mut();
        self.changed.export_rest(out, |handle, out| {
            sessions.leave_kernel(handle);
            sessions.export_state(handle, out);
        });
    }

    /// What a session has used, when the worker stands still.
    pub fn usage(&self, handle: u32, now: u64) -> Option<Vec<Usage>> {
        self.plane.sessions().usage(handle, now)
    }
}

impl WorkerQuery {
    /// Asks and waits for the answer; none when the worker has ended or is stuck.
    pub fn ask(&self, question: Query) -> Option<QueryAnswer> {
        let mut ring = self.ring.lock().unwrap_or_else(|e| e.into_inner());
        // Answers that came too late.
        while ring.poll().is_some() {}
        let ticket = ring.send(question).ok()?;
        self.waker.as_ref().inspect(|waker| waker.nudge());
        let until = Instant::now() + PATIENCE;
        while Instant::now() < until && !ring.is_alone() {
            match ring.poll() {
                Some((answered, reply)) if answered == ticket => return reply.ok(),
                Some(_) => {}
                None => std::thread::sleep(Duration::from_micros(100)),
            }
        }
        None
    }
}

/// Every method is the plane's own, those with a default too.
impl Gateway for QueriedPlane {
    type Kind = Upf;

    #[inline]
    fn receive<C: Clock>(&mut self, port: PortId, burst: &mut Burst<Upf>, env: &Env) {
        self.plane.receive::<C>(port, burst, env);
        if let Some(marks) = self.changed.marks() {
            self.plane.mark(burst, marks);
        }
    }

    fn punted(&mut self, burst: &mut Burst<Upf>, env: &mut Env) {
        self.plane.punted(burst, env);
    }

    fn release<C: Clock>(&mut self, burst: &mut Burst<Upf>, env: &mut Env) -> bool {
        let more = self.plane.release::<C>(burst, env);
        if let Some(marks) = self.changed.marks() {
            self.plane.mark(burst, marks);
        }
        more
    }

    fn held(&self) -> usize {
        self.plane.held()
    }

    fn control(&mut self, env: &mut Env) -> usize {
        let (plane, changed, now) = (&mut self.plane, &mut self.changed, env.now);
        let answered = self.inbox.drain(A_TURN, |question| match question {
            Query::Follow(on) => {
                changed.follow(on, plane.sessions().handles());
                plane.nat_mut().into_iter().for_each(|nat| nat.follow(on));
                // What the in-kernel path counts has no marks.
                let sessions = plane.sessions_mut();
                if on {
                    sessions.close_kernel()
                } else {
                    sessions.reopen_kernel()
                }
                plane.nat_mut().into_iter().for_each(|nat| nat.ask_cache(now));
                QueryAnswer::Done
            }
            Query::Mark(handles) => {
                handles.into_iter().for_each(|handle| changed.mark(handle));
                QueryAnswer::Done
            }
            Query::Changed { left } => {
                let (mut out, sessions) = (Vec::new(), plane.sessions_mut());
                let left = changed.export(left, &mut out, |handle, out| {
                    sessions.leave_kernel(handle);
                    sessions.export_state(handle, out);
                });
                QueryAnswer::Changed(out, left)
            }
            Query::Translated { left } => {
                let mut out = Vec::new();
                let left = export_translation(plane.nat_mut(), left, &mut out);
                QueryAnswer::Changed(out, left)
            }
            Query::Sessions => {
                let sessions = plane.sessions();
                QueryAnswer::Sessions { count: sessions.len() as u64, bytes: sessions.bytes() as u64 }
            }
            Query::Usage { handle } => {
                let sessions = plane.sessions();
                let usage = sessions.usage(handle, now);
                let all = usage.map(|usage| (usage, sessions.credits(handle, now), sessions.kernel_in_words(handle)));
                QueryAnswer::Usage(all, now)
            }
            Query::Totals(mut totals) => {
                totals.iter_mut().for_each(|total| total.used = plane.sessions().total(total.handle, now));
                QueryAnswer::Totals(totals)
            }
            Query::Levels => QueryAnswer::Levels(plane.nat().map(dataplane::nat::Nat::levels)),
            Query::Blocks { from } => {
                let (mut blocks, nat) = (Vec::new(), plane.nat());
                let next = nat.and_then(|nat| nat.given(from, BLOCKS, |block, used| blocks.push((block, used))));
                let subscribers = nat.map_or(0, |nat| nat.subscribers() as u64);
                QueryAnswer::Blocks { blocks, next, subscribers, mappings: nat.map_or(0, |nat| nat.mappings() as u64) }
            }
        });
        answered + self.plane.control(env)
    }

    fn tick(&mut self, env: &mut Env) {
        self.plane.tick(env);
    }

    fn next_deadline(&self) -> Option<u64> {
        self.plane.next_deadline()
    }

    fn follows(&self, filter: &TraceFilter, port: PortId, packet: &[u8]) -> bool {
        self.plane.follows(filter, port, packet)
    }

    fn after_panic(&mut self) {
        self.plane.after_panic();
    }

    fn close(&mut self, env: &mut Env) {
        self.plane.close(env);
    }

    #[inline]
    fn port_of(&self, device: PortId, packet: &[u8]) -> PortId {
        self.plane.port_of(device, packet)
    }

    #[inline(always)]
    fn steer_key(&self, port: PortId, packet: &[u8]) -> Option<SteerKey> {
        self.plane.steer_key(port, packet)
    }

    fn fall_asleep(&mut self) -> bool {
        self.plane.fall_asleep() && self.inbox.is_empty()
    }

    fn waker(&self) -> Option<&Waker> {
        self.plane.waker()
    }
}
