//! The user plane of one worker: which pipeline a burst takes, and commands from control.

use std::sync::Arc;

use dataplane::acl::AccessLists;
use dataplane::forward::{Forwarding, InstanceId, Plan};
use dataplane::nat::{self, Nat};
use dataplane::reassemble::Reassembly;
use dataplane::route::HasForwarding as _;
use engine::{Burst, Clock, Ctx, Env, Gateway, Layout, Pipeline, PortId, Source, SteerKey, TraceFilter};
use gateway::fast_path::{Flows, InKernelSessions as _};
use table::command::Inbox;
use table::marks::Marks;
use table::ring::Producer;
use table::snapshot::Reader;
use table::waker::Waker;
use wire::Teid;
use wire::gtpu::Message;

use crate::compile::Compiled;
use crate::config::Role;
use crate::fast::{FLOWS, FastPath};
use crate::lane::{State, Upf};
use crate::pipeline::{Choices, Pipelines};
use crate::record::Bounds;
use crate::routes::{Route, Routes};
use crate::rules::Usage;
use crate::sessions::{Refused, Sessions};
use crate::slow::{Duplicates, NextReinject, SlowPath};

/// Command from control to a worker.
pub enum Command {
    /// Take in a session, or replace its rules.
    Install {
        /// Control's number of the session on this worker.
        handle: u32,
        /// Its record; comes back in the reply, to be freed by control.
        session: Box<Compiled>,
    },
    /// Take a session out.
    Remove {
        /// Which.
        handle: u32,
    },
    /// Say what a session has used.
    Measure {
        /// Which.
        handle: u32,
    },
    /// A URR has reported; these are its bounds from now on.
    Reported {
        /// Whose.
        handle: u32,
        /// Which.
        urr: u32,
        /// What it may count until then, as a line of the record.
        bounds: Bounds,
    },
    /// Take in a packet that a control plane's function sent to the N4 address.
    FromControl {
        /// Our tunnel endpoint.
        teid: u32,
        /// The user's packet; comes back.
        packet: Vec<u8>,
    },
    /// Throw away what waits for a subscriber.
    Discard {
        /// Which.
        handle: u32,
    },
    /// Tell the end of a tunnel that no more packets come by it (TS 29.281, 7.3.2).
    EndMarker {
        /// The tunnel.
        tunnel: u32,
        /// The far end's tunnel endpoint.
        teid: u32,
        /// The network it leads through.
        instance: InstanceId,
    },
    /// Packets to a network behind a subscriber are that worker's from now on; none: of no worker.
    Steer {
        /// The network.
        route: Route,
        /// The worker.
        owner: Option<u16>,
    },
    /// Other public addresses and timeouts of translation.
    Nat(Box<nat::Change>),
    /// Access lists are others: more sessions may be able to go into the kernel.
    Lists,
    /// Other limits of what it answers and holds.
    Limits(crate::slow::LiveLimits),
    /// Answer so where an action sends subscribers elsewhere and names that number.
    Page {
        /// Its number, from 0.
        number: u32,
        /// The answer, as of [`dataplane::redirect::page`].
        page: Box<[u8]>,
    },
    /// Ask the end of a tunnel whether it is there (TS 29.281, 7.2.1).
    Echo {
        /// The tunnel.
        tunnel: u32,
        /// The request's number.
        sequence: u16,
        /// The network it leads through.
        instance: InstanceId,
    },
    /// Send a complete frame (ARP request, neighbour solicitation).
    Send {
        /// By which port.
        port: PortId,
        /// The frame; comes back.
        frame: Vec<u8>,
    },
    /// A neighbour was resolved: what waited for it goes on.
    Retry {
        /// The key given in [`Event::Resolve`](crate::slow::Event::Resolve).
        key: u32,
    },
    /// A neighbour does not answer: what waits for it is dropped.
    GiveUp {
        /// The key given in [`Event::Resolve`](crate::slow::Event::Resolve).
        key: u32,
    },
}

/// What a worker answers.
pub enum Reply {
    /// Done; the box is control's to free.
    Installed(Box<Compiled>),
    /// Not taken in, and why.
    Refused(Refused, Box<Compiled>),
    /// Taken out; what its URRs measured last.
    Removed(Vec<Usage>),
    /// What it has used so far.
    Usage(Vec<Usage>),
    /// There is no such session.
    Unknown,
    /// Sent (or dropped and counted); the bytes are control's to free.
    Sent(Vec<u8>),
    /// Packets that were waiting there.
    Waiting(usize),
    /// Done; what was there before is control's to free.
    Nat(Box<nat::Change>),
    /// Done, and nothing to be said of it.
    Done,
}

/// Commands carried out in a turn at most.
const COMMANDS: usize = 32;

/// One worker's user plane.
pub struct UserPlane {
    pipelines: Pipelines,
    state: State,
    roles: Vec<Role>,
    inbox: Inbox<Command, Reply>,
    waker: Waker,
    /// Wakes control.
    control: Waker,
    /// Events and replies that control has been woken for.
    told: u64,
    is_traced: bool,
    slow: SlowPath,
}

/// What a worker's user plane is made of, beside its sessions.
pub struct Parts {
    /// Its sessions.
    pub sessions: Sessions,
    /// Forwarding tables as published.
    pub forwarding: Reader<Forwarding>,
    /// The side of each of its ports.
    pub roles: Vec<Role>,
    /// Commands.
    pub inbox: Inbox<Command, Reply>,
    /// Wakes it for a command.
    pub waker: Waker,
    /// Wakes control for an event or a reply.
    pub control: Waker,
    /// Events to control.
    pub events: Producer<crate::slow::Event>,
    /// Bounds of what it holds and answers.
    pub limits: crate::slow::Limits,
    /// Access lists as published, where there are any.
    pub lists: Option<Reader<AccessLists>>,
    /// Translation, where it is configured.
    pub nat: Option<Box<Nat>>,
    /// Configuration that stages are built from.
    pub choices: Choices,
}

impl UserPlane {
    /// A worker's user plane, and the layout of its stages.
    pub fn new(parts: Parts) -> (Self, Layout) {
        let mut layout = Layout::default();
        let pipelines = Pipelines::new(&mut layout, &parts.choices);
        let empty = Plan::default().compile();
        let Parts { sessions, forwarding, lists, nat, events, limits, roles, inbox, waker, control, .. } = parts;
        let (steered, pages, duplicates) = (Routes::default(), Vec::new(), Duplicates::default());
        let state = State { sessions, forwarding, empty, lists, nat, steered, pages, duplicates };
        let slow = SlowPath::new(events, limits);
        let plane = Self { pipelines, state, roles, inbox, waker, control, told: 0, is_traced: false, slow };
        (plane, layout)
    }

    /// Its sessions.
    pub fn sessions(&self) -> &Sessions {
        &self.state.sessions
    }

    /// Its sessions, to fill before it runs.
    pub fn sessions_mut(&mut self) -> &mut Sessions {
        &mut self.state.sessions
    }

    /// Has sessions and translated flows go into the kernel from now on, those that are there already too. `now` is the
    /// worker's time.
    pub fn set_fast_path(&mut self, path: Arc<FastPath>, worker: u16, now: u64) {
        if let Some(nat) = &mut self.state.nat {
            nat.set_cache(Box::new(Flows::new(path.clone(), FLOWS, worker)));
        }
        self.state.sessions.set_fast_path(path, worker, now);
    }

    /// All sessions come back from the kernel, with what they and their translated flows have done there until `now`.
    pub fn leave_kernel(&mut self, now: u64) {
        self.state.sessions.open_kernel(false);
        self.ask_flows(now);
    }

    /// Has mappings know of packets of theirs that were translated in the kernel until `now`.
    pub fn ask_flows(&mut self, now: u64) {
        self.state.nat.iter_mut().for_each(|nat| nat.ask_cache(now));
    }

    /// Marks the handles of a burst's sessions, which went through a pipeline.
    #[inline(never)]
    pub(crate) fn mark(&self, burst: &Burst<Upf>, marks: &mut Marks) {
        for i in 0..burst.len() {
            if let Some(head) = self.state.sessions.head(burst.lane.session[i]) {
                marks.mark(head.handle);
            }
        }
    }

    /// Packets that wait: see [`SlowPath::each_waiting`].
    pub(crate) fn each_waiting(&mut self, show: impl FnMut(bool, u32, u64, u64, &[u8])) -> bool {
        self.slow.each_waiting(&self.state.sessions, show)
    }

    /// Takes in a packet that waited on another process's worker. False: there is no room.
    pub(crate) fn take_in(&mut self, is_neighbours: bool, key: u32, tag: u64, at: u64, octets: &[u8]) -> bool {
        self.slow.take_in((is_neighbours, key), (tag, at), octets, &self.state.sessions)
    }

    /// Its translation, to hand over or to take in.
    pub(crate) fn nat_mut(&mut self) -> Option<&mut Nat> {
        self.state.nat.as_deref_mut()
    }

    /// Its fragments, from access and from the core, where they are put together.
    pub(crate) fn fragments_mut(&mut self) -> Option<&mut [Reassembly; 2]> {
        self.slow.fragments_mut()
    }

    /// Its translation.
    pub fn nat(&self) -> Option<&Nat> {
        self.state.nat.as_deref()
    }

    /// Wakes control if it sleeps and there are events or replies since the last call: once a turn, however many there are.
    #[inline]
    fn call_control(&mut self, replies: usize) {
        let told = self.slow.told() + self.state.nat.as_ref().map_or(0, |nat| nat.logged());
        if replies > 0 || told != self.told {
            self.told = told;
            self.control.nudge();
        }
    }

    fn carry_out(state: &mut State, slow: &mut SlowPath, command: Command, env: &mut Env) -> Reply {
        match command {
            Command::Install { handle, session } => Self::install(state, slow, handle, session, env),
            Command::Remove { handle } => {
                let before = state.translated(handle);
                match state.sessions.remove(handle, env.now) {
                    Ok(usage) => {
                        state.end_translation(before, env.now);
                        slow.session_removed(handle, env);
                        Reply::Removed(usage)
                    }
                    Err(_) => Reply::Unknown,
                }
            }
            Command::Measure { handle } => state.sessions.usage(handle, env.now).map_or(Reply::Unknown, Reply::Usage),
            Command::Reported { handle, urr, bounds } => {
                state.sessions.reported(handle, urr, bounds);
                Reply::Done
            }
            Command::Discard { handle } => {
                slow.discard(handle, env);
                Reply::Done
            }
            Command::EndMarker { tunnel, teid, instance } => {
                let message = Message::EndMarker { teid: Teid(teid), container: None };
                slow.tell_end(tunnel, &message, instance, state, env);
                Reply::Done
            }
            Command::Echo { tunnel, sequence, instance } => {
                slow.tell_end(tunnel, &Message::EchoRequest { seq: sequence }, instance, state, env);
                Reply::Done
            }
            Command::FromControl { teid, packet } => {
                slow.take_from_control(teid, &packet, env);
                Reply::Sent(packet)
            }
            Command::Steer { route, owner: Some(owner) } => {
                state.steered.insert(&route, owner.into());
                Reply::Done
            }
            Command::Steer { route, owner: None } => {
                state.steered.remove(&route);
                Reply::Done
            }
            Command::Nat(mut change) => {
                state.nat.iter_mut().for_each(|nat| nat.change(&mut change));
                Reply::Nat(change)
            }
            Command::Lists => {
                state.sessions.try_all();
                Reply::Done
            }
            Command::Limits(limits) => {
                slow.set_limits(limits);
                Reply::Done
            }
            Command::Page { number, page } => {
                let at = number as usize;
                state.pages.resize_with(state.pages.len().max(at + 1), Box::default);
                state.pages[at] = page;
                Reply::Done
            }
            Command::Send { port, frame } => {
                env.send_copy(port, &frame);
                Reply::Sent(frame)
            }
            Command::Retry { key } => Reply::Waiting(slow.retry(key)),
            Command::GiveUp { key } => Reply::Waiting(slow.give_up(key, state, env)),
        }
    }

    fn install(
        state: &mut State,
        slow: &mut SlowPath,
        handle: u32,
        mut session: Box<Compiled>,
        env: &mut Env,
    ) -> Reply {
        if session.before.capacity() > 0 {
            // What is told now is all that was counted under these rules.
            state.sessions.leave_kernel(handle);
            state.sessions.usage_into(handle, env.now, &mut session.before);
        }
        let before = state.translated(handle);
        if let Err(why) = state.sessions.install(handle, &session, env.now) {
            return Reply::Refused(why, session);
        }
        if before != state.translated(handle) {
            state.end_translation(before, env.now);
        }
        if session.discards {
            slow.discard(handle, env);
        }
        slow.rules_changed(handle);
        Reply::Installed(session)
    }
}

impl Gateway for UserPlane {
    type Kind = Upf;

    #[inline]
    fn receive<C: Clock>(&mut self, port: PortId, burst: &mut Burst<Upf>, env: &Env) {
        let mut cx = Ctx::new(&mut self.state, env);
        match self.roles.get(usize::from(port)) {
            Some(Role::Access) => self.pipelines.uplink.run::<C>(burst, &mut cx),
            _ => self.pipelines.downlink.run::<C>(burst, &mut cx),
        }
    }

    fn punted(&mut self, burst: &mut Burst<Upf>, env: &mut Env) {
        self.slow.see_to(burst, &self.state, env);
    }

    fn release<C: Clock>(&mut self, burst: &mut Burst<Upf>, env: &mut Env) -> bool {
        if self.state.duplicates.len() > 0 {
            self.slow.send_duplicates(&mut self.state, env);
        }
        let (next_reinject, more) = self.slow.next(burst, &self.state, env);
        if !burst.is_empty() {
            let mut cx = Ctx::new(&mut self.state, env);
            match next_reinject {
                NextReinject::Released => self.pipelines.released.run::<C>(burst, &mut cx),
                NextReinject::Hairpin => self.pipelines.hairpin.run::<C>(burst, &mut cx),
                NextReinject::UplinkWhole => self.pipelines.uplink_whole.run::<C>(burst, &mut cx),
                NextReinject::DownlinkWhole => self.pipelines.downlink_whole.run::<C>(burst, &mut cx),
            }
        }
        if !burst.punted().is_empty() {
            self.slow.see_to(burst, &self.state, env);
        }
        more
    }

    fn releases_first(&self) -> bool {
        self.slow.is_releasing()
    }

    fn held(&self) -> usize {
        self.slow.held() + self.state.duplicates.len()
    }

    fn control(&mut self, env: &mut Env) -> usize {
        self.state.forwarding.get();
        if let Some(lists) = &mut self.state.lists {
            lists.get();
        }
        let (state, slow) = (&mut self.state, &mut self.slow);
        slow.tables_changed(state);
        state.sessions.see_to_kernel(env.now, env.turn, env.drained);
        // A trace shows what goes through the workers: all packets then.
        if std::mem::replace(&mut self.is_traced, env.tracer.is_on()) != env.tracer.is_on() {
            state.sessions.pause_kernel(env.tracer.is_on());
        }
        slow.tell_reached(&mut state.sessions);
        let done = self.inbox.drain(COMMANDS, |command| Self::carry_out(state, slow, command, env));
        self.call_control(done);
        done
    }

    fn tick(&mut self, env: &mut Env) {
        self.slow.tick(&self.state, env);
        if let Some(nat) = &mut self.state.nat {
            nat.tick(env.now);
        }
    }

    fn next_deadline(&self) -> Option<u64> {
        let nat = self.state.nat.as_ref().and_then(|nat| nat.next_deadline());
        let kernel = self.state.sessions.kernel_deadline();
        self.slow.next_deadline().into_iter().chain(nat).chain(kernel).min()
    }

    fn follows(&self, filter: &TraceFilter, port: PortId, packet: &[u8]) -> bool {
        crate::local::is_of_subscriber(packet, self.roles.get(usize::from(port)).copied(), filter.subscriber)
    }

    #[inline(always)]
    fn steer_key(&self, port: PortId, packet: &[u8]) -> Option<SteerKey> {
        let (role, instance) = (*self.roles.get(usize::from(port))?, self.state.port(port).instance);
        if role == Role::Core && !self.state.steered.is_empty() {
            let behind = crate::local::to_address(packet).and_then(|to| self.state.steered.find(instance, to));
            if let Some(owner) = behind {
                return Some(SteerKey::Owner(owner as u16)); // as it was put there
            }
        }
        crate::local::steer_key(packet, role, instance)
    }

    #[inline]
    fn port_of(&self, device: PortId, packet: &[u8]) -> PortId {
        dataplane::shared::port_of(self.state.forwarding(), device, packet)
    }

    fn fall_asleep(&mut self) -> bool {
        // What this turn's packets and timers told control: the next turn may be far.
        self.call_control(0);
        // A sleeping worker holds no old tables back.
        self.state.forwarding.park();
        if let Some(lists) = &mut self.state.lists {
            lists.park();
        }
        self.inbox.is_empty()
    }

    fn close(&mut self, env: &mut Env) {
        self.slow.send_duplicates(&mut self.state, env);
        self.slow.close(env);
    }

    fn waker(&self) -> Option<&Waker> {
        Some(&self.waker)
    }
}
