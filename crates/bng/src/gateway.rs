//! The broadband gateway of one worker: which pipeline a burst takes, and what control asks.

use std::ops::Range;
use std::sync::Arc;

use dataplane::acl::AccessLists;
use dataplane::forward::{Forwarding, InstanceId, Plan};
use dataplane::nat::{self, BlockEvent, Nat};
use dataplane::route::HasForwarding as _;
use engine::{
    Arrival, Burst, Clock, Ctx, Departure, Env, Gateway, Io, Layout, Pipeline, PortId, Receiving, Room, Stats,
    SteerKey, TraceFilter,
};
use frame::{Frame, Pool};
use gateway::fast_path::InKernelSessions as _;
use gateway::shell::hand_over::changed::Changed;
use table::command::Inbox;
use table::snapshot::Reader;
use table::waker::Waker;
use wire::{L3L4, Outer, fast};

use crate::config::{PuntSection, Role};
use crate::fast::FastPath;
use crate::hand_over::Handing;
use crate::lane::{Bng, Counts, State};
use crate::link::Line;
use crate::moving::{Come, Leave, Step};
use crate::pipeline::{Choices, Pipelines};
use crate::record::SubscriberSpec;
use crate::shaper::{Queued, Shaper};
use crate::slow::{Event, Reinject, SlowPath};
use crate::steer::{Directory, Side};
use crate::subscribers::{Place, Refused, Rules, Subscribers, Usage};
use crate::{drops, punts};

/// What control asks of a worker.
pub enum Command {
    /// Install a subscriber, or change the one of that handle; counters and credit stay.
    Install(Box<SubscriberSpec>),
    /// Take a subscriber out.
    Remove(u32),
    /// Forget a subscriber's hardware address, if it was learnt.
    Forget(u32),
    /// Go by other tables; those before come back.
    Tables(Box<Tables>),
    /// Write rates and access lists of those subscribers anew.
    Refresh(Range<u32>),
    /// Fill in what subscribers have used.
    Read(Box<Report>),
    /// Send a complete frame.
    Send(PortId, Vec<u8>),
    /// Route an IP packet to the core, in that VRF.
    Originate(InstanceId, Vec<u8>),
    /// Other public addresses and timeouts of translation.
    Nat(Box<nat::Change>),
    /// Fill in which subscribers have which public ports.
    Blocks(Box<Blocks>),
    /// A step of a group's move.
    Move(Step),
    /// A step of a change of what the ports give this worker.
    Ports(PortsStep),
    /// Another process takes over.
    HandOver(Box<Handing>),
}

/// A worker whose control is gone receives again after that time, in nanoseconds.
const HOLD_NS: u64 = 100_000_000;

/// By then the kernel has given up what it had gathered: TPACKET_V3 retires a block after a millisecond.
const RETIRED_NS: u64 = 3_000_000;

/// A worker that is to find its ports empty.
#[derive(Clone, Copy, Debug)]
pub struct Emptying {
    /// The number of the change.
    number: u32,
    /// Packets may come out of the kernel as late as this.
    until: u64,
    /// The turn from which on the ports are to be found empty.
    turn: Option<u64>,
}

impl Emptying {
    fn is_done(&mut self, env: &Env) -> bool {
        if self.turn.is_none() && env.now >= self.until {
            self.turn = Some(env.turn);
        }
        self.turn.is_some_and(|turn| env.drained >= turn && env.turn > turn)
    }
}

/// What a worker does while ports begin to give it, or another one, other packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortsStep {
    /// Receive nothing from the ports for now. With the number of the change.
    Hold(u32),
    /// Tell when everything that the ports have had until now is received and handed over.
    Empty(u32),
    /// Receive again, behind what was handed over.
    GoOn,
}

/// What a worker answers.
pub enum Answer {
    /// Done; the box is control's to free.
    Installed(Box<SubscriberSpec>),
    /// Not installed, and why.
    Refused(Refused, Box<SubscriberSpec>),
    /// The subscriber of that handle was taken out; what it used.
    Removed(u32, Usage),
    /// The command was carried out.
    Forgotten,
    /// The tables before: control's to free.
    Tables(Box<Tables>),
    /// The subscribers are written anew.
    Refreshed,
    /// There is no subscriber of that handle.
    Unknown(u32),
    /// The report.
    Report(Box<Report>),
    /// Sent, or dropped and counted; the bytes are control's to free.
    Sent(Vec<u8>),
    /// Done; what was there before is control's to free.
    Nat(Box<nat::Change>),
    /// The page of blocks.
    Blocks(Box<Blocks>),
    /// The step was taken, or (false) failed; what is left of it is control's to free.
    Moved(Step, bool),
    /// The step was begun.
    Ports(PortsStep),
    /// What was asked for.
    HandOver(Box<Handing>),
}

/// What a reload replaces on a worker.
pub struct Tables {
    /// Whose is what, for all workers.
    pub directory: Arc<Directory>,
    /// What subscribers are installed by.
    pub rules: Rules,
    /// Rates of control packets.
    pub punt: PuntSection,
}

/// A page of the blocks of public ports that a worker has given out.
#[derive(Debug, Default)]
pub struct Blocks {
    /// The question it answers: control's number.
    pub question: u64,
    /// The block to begin at.
    pub from: usize,
    /// Blocks and the mappings on them; has room for a page.
    pub list: Vec<(BlockEvent, u16)>,
    /// Where the next page begins; none: this is the last.
    pub next: Option<usize>,
    /// Subscribers with blocks, and all mappings.
    pub totals: (u64, u64),
}

impl Blocks {
    /// Blocks of a page.
    const PAGE: usize = 2048;

    /// A page to fill in.
    pub fn page(question: u64, from: usize) -> Self {
        Self { question, from, list: Vec::with_capacity(Self::PAGE), ..Self::default() }
    }

    fn fill(&mut self, nat: &Nat) {
        self.next = nat.given(self.from, Self::PAGE, |block, used| self.list.push((block, used)));
        self.totals = (nat.subscribers() as u64, nat.mappings() as u64);
    }
}

/// What control wants to know of a worker's subscribers.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// The question it answers: control's number.
    pub question: u64,
    /// Handles that are asked for, and what each has used; none: it is not this worker's.
    pub usage: Vec<(u32, Option<Usage>)>,
    /// Where their packets go, where there is an in-kernel path.
    pub places: Vec<(u32, Place)>,
    /// Of those that are shaped, what their queues hold and have counted.
    pub queued: Vec<(u32, Queued)>,
    /// Packets and bytes that wait in all queues.
    pub waiting: (u64, u64),
    /// Subscribers of the worker.
    pub subscribers: usize,
    /// Counters beside those of stages.
    pub counts: Counts,
    /// Memory of translation: what, used, of how much.
    pub nat: Option<[(&'static str, u64, u64); 3]>,
}

impl Report {
    /// Fills in what a worker knows.
    pub fn fill(&mut self, state: &State) {
        for (handle, usage) in &mut self.usage {
            *usage = state.subscribers.usage(*handle);
            self.places.extend(state.subscribers.kernel_in_words(*handle).map(|place| (*handle, place)));
        }
        if let Some(shaper) = &state.shaper {
            let handles = self.usage.iter().map(|(handle, _)| *handle);
            self.queued.extend(handles.filter_map(|handle| Some((handle, shaper.queued(handle)?))));
            self.waiting = (shaper.held() as u64, shaper.bytes());
        }
        (self.subscribers, self.counts) = (state.subscribers.count(), state.counts);
        self.nat = state.nat.as_ref().map(|nat| nat.levels());
    }
}

/// Commands carried out in a turn at most.
const COMMANDS: usize = 32;

/// What a worker's gateway is made of.
pub struct Parts {
    /// Its subscribers.
    pub subscribers: Subscribers,
    /// Whose is what, for all workers.
    pub directory: Arc<Directory>,
    /// Forwarding tables as published.
    pub forwarding: Reader<Forwarding>,
    /// Access lists as published; none: there are none.
    pub lists: Option<Reader<AccessLists>>,
    /// Commands.
    pub inbox: Inbox<Command, Answer>,
    /// Wakes it for a command.
    pub waker: Waker,
    /// Wakes control for an event or an answer.
    pub control: Waker,
    /// What leaves the pipelines.
    pub slow: SlowPath,
    /// Where packets to shaped subscribers wait; none: no profile is shaped.
    pub shaper: Option<Box<Shaper>>,
    /// Translation; none: nothing is translated.
    pub nat: Option<Box<Nat>>,
    /// What stages take from the configuration.
    pub choices: Choices,
}

/// Whether packets that wait in the slow path are released before a group leaves.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Drains {
    /// No group is about to leave.
    No,
    /// They are to be.
    Asked,
    Done,
}

/// One worker's gateway.
pub struct BroadbandGateway {
    pipelines: Pipelines,
    state: State,
    /// The side of the burst whose punted packets are to be seen to.
    side: Side,
    inbox: Inbox<Command, Answer>,
    waker: Waker,
    control: Waker,
    /// Events that control has been woken for.
    told: u64,
    slow: SlowPath,
    /// A group that leaves, and whether what came before waits here still.
    leave: Option<Box<Leave>>,
    drains: Drains,
    /// A group that comes, or has come and is to be told of.
    come: Option<Box<Come>>,
    /// Packets are traced.
    is_traced: bool,
}

impl BroadbandGateway {
    /// What a subscriber has used; none: it is not here.
    pub fn usage(&self, handle: u32) -> Option<Usage> {
        self.state.subscribers.usage(handle)
    }

    /// A worker's gateway, and the layout of its stages.
    pub fn new(parts: Parts) -> (Self, Layout) {
        let mut layout = Layout::default();
        let pipelines = Pipelines::new(&mut layout, &parts.choices);
        let Parts { subscribers, directory, forwarding, lists, inbox, waker, control, slow, shaper, nat, .. } = parts;
        let (counts, changed, empty) = (Counts::default(), Changed::default(), Plan::default().compile());
        let state =
            State { emptying: None, subscribers, shaper, directory, forwarding, lists, nat, counts, changed, empty };
        let (side, told, leave, drains, come) = (Side::Core, 0, None, Drains::No, None);
        (
            Self { pipelines, state, side, inbox, waker, control, told, slow, leave, drains, come, is_traced: false },
            layout,
        )
    }

    /// Has no subscriber go into the kernel until another process's worker has told what it had there.
    pub(crate) fn close_kernel(&mut self) {
        self.state.subscribers.close_kernel();
    }

    /// Has subscribers go into the kernel from now on; `now` is the worker's time.
    pub fn set_fast_path(&mut self, path: Arc<FastPath>, worker: u16, now: u64) {
        self.state.subscribers.set_fast_path(path, worker, now);
    }

    /// Its subscribers, to change.
    pub fn subscribers_mut(&mut self) -> &mut Subscribers {
        &mut self.state.subscribers
    }

    /// What it owns, and its slow path, to change between turns.
    pub(crate) fn parts_mut(&mut self) -> (&mut State, &mut SlowPath) {
        (&mut self.state, &mut self.slow)
    }

    /// What it owns.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// Installs a subscriber before the worker runs.
    ///
    /// # Errors
    /// Why the subscriber was not installed.
    pub fn install(&mut self, spec: &SubscriberSpec) -> Result<(), Refused> {
        self.state.install(spec, 0, |_| ())
    }

    /// What is left of a group that has left is control's to free.
    fn leave_to_control(&mut self) {
        if let Some(leave) = self.leave.take() {
            self.slow.report(Event::Left(leave));
        }
    }

    /// Wakes control if it sleeps and there are events or answers since the last call: once a turn, however many there are.
    #[inline]
    fn call_control(&mut self, answers: usize) {
        let told = self.slow.told() + self.state.nat.as_ref().map_or(0, |nat| nat.logged());
        if answers > 0 || told != self.told {
            self.told = told;
            self.control.nudge();
        }
    }

    /// Packets out of the queues of shaped subscribers. Says whether there were any.
    #[inline]
    fn scheduled<C: Clock>(&mut self, burst: &mut Burst<Bng>, env: &mut Env) -> bool {
        let State { shaper, subscribers, changed, .. } = &mut self.state;
        // What waits for its time when the worker comes to rest waits on.
        let Some(shaper) = shaper.as_deref_mut() else { return false };
        shaper.free(&mut env.pool);
        if shaper.held() == 0 || env.is_settling {
            return false;
        }
        let look = env.look::<C>();
        let pulled = shaper.pull(burst, subscribers, changed, env);
        if pulled > 0 {
            env.charge::<C>(self.pipelines.scheduler, pulled as u32, look); // a burst at most
        }
        pulled > 0
    }

    /// A burst of a hybrid port. Where both sides are in it, subscribers' packets go on in a burst of their own.
    fn hybrid<C: Clock>(&mut self, port: PortId, burst: &mut Burst<Bng>, env: &Env) {
        let (mut access, mut core) = (0, 0);
        let directory = &self.state.directory;
        let is_access = |burst: &Burst<Bng>, i: usize| {
            let outer = Outer::parse(burst.bytes(i, env.arena())).unwrap_or_default();
            directory.side(port, &outer) == Some(Side::Access)
        };
        let live = burst.live();
        live.for_each(|i| if is_access(burst, i) { access += 1 } else { core += 1 });
        self.side = if core == 0 { Side::Access } else { Side::Core };
        if access > 0 && core > 0 {
            for i in live {
                if is_access(burst, i) {
                    burst.punt(i, punts::HYBRID_ACCESS);
                }
            }
        }
        let mut cx = Ctx::new(&mut self.state, env);
        match self.side {
            Side::Access => self.pipelines.upstream.run::<C>(burst, &mut cx),
            Side::Core => self.pipelines.downstream.run::<C>(burst, &mut cx),
        }
    }
}

/// A packet whose subscriber is gone while it waited.
fn gone(frame: Frame, stats: &Stats, pool: &mut Pool) {
    stats.add(Io::Released, 1);
    stats.drop_outside(drops::FLOW_GONE, frame.len());
    pool.give(frame);
}

/// Carries a command out.
fn carry_out(
    state: &mut State,
    slow: &mut SlowPath,
    moving: (&mut Option<Box<Leave>>, &mut Option<Box<Come>>),
    command: Command,
    env: &mut Env,
) -> Answer {
    match command {
        Command::Move(mut step) => {
            let done = step.carry_out(state, moving, env);
            Answer::Moved(step, done)
        }
        Command::Install(spec) => {
            state.changed.mark(spec.handle);
            let now = env.now;
            let each = |frame| gone(frame, &env.stats, &mut env.pool);
            match state.with_translation(spec.handle, now, |state| state.install(&spec, now, each)) {
                Ok(()) => Answer::Installed(spec),
                Err(why) => Answer::Refused(why, spec),
            }
        }
        Command::Remove(handle) => {
            state.changed.mark(handle);
            if let Some(shaper) = &mut state.shaper {
                shaper.remove(handle, |frame| gone(frame, &env.stats, &mut env.pool));
            }
            let usage = state.with_translation(handle, env.now, |state| state.subscribers.remove(handle));
            usage.map_or(Answer::Unknown(handle), |usage| Answer::Removed(handle, usage))
        }
        Command::Forget(handle) => {
            state.changed.mark(handle);
            state.subscribers.forget(handle);
            Answer::Forgotten
        }
        Command::Tables(mut tables) => {
            std::mem::swap(&mut state.directory, &mut tables.directory);
            state.subscribers.set_rules(&mut tables.rules);
            if let Some(shaper) = &mut state.shaper {
                shaper.go_by(&state.subscribers, env.now);
            }
            slow.set_limits(&tables.punt);
            Answer::Tables(tables)
        }
        Command::Refresh(handles) => {
            handles.clone().for_each(|handle| state.changed.mark(handle));
            state.refresh(handles, env.now, |frame| gone(frame, &env.stats, &mut env.pool));
            Answer::Refreshed
        }
        Command::Read(mut report) => {
            report.fill(state);
            Answer::Report(report)
        }
        Command::Nat(mut change) => {
            state.nat.iter_mut().for_each(|nat| nat.change(&mut change));
            Answer::Nat(change)
        }
        Command::Blocks(mut blocks) => {
            state.nat.iter().for_each(|nat| blocks.fill(nat));
            Answer::Blocks(blocks)
        }
        Command::Ports(step) => {
            env.receiving = match step {
                PortsStep::Hold(_) => {
                    state.emptying = None;
                    Receiving::HeldUntil(env.now + HOLD_NS)
                }
                PortsStep::GoOn => Receiving::AfterHandOver(env.now + HOLD_NS),
                PortsStep::Empty(number) => {
                    state.emptying = Some(Emptying { number, until: env.now + RETIRED_NS, turn: None });
                    env.receiving
                }
            };
            Answer::Ports(step)
        }
        Command::HandOver(mut handing) => {
            state.hand_over(&mut handing);
            Answer::HandOver(handing)
        }
        Command::Originate(instance, packet) => {
            slow.send_to_core(instance, &packet, state, env);
            Answer::Sent(packet)
        }
        Command::Send(port, frame) => {
            env.send_copy(port, &frame);
            Answer::Sent(frame)
        }
    }
}

impl Gateway for BroadbandGateway {
    type Kind = Bng;

    #[inline]
    fn receive<C: Clock>(&mut self, port: PortId, burst: &mut Burst<Bng>, env: &Env) {
        match self.state.directory.role(port) {
            Some(Role::Access) => {
                self.side = Side::Access;
                self.pipelines.upstream.run::<C>(burst, &mut Ctx::new(&mut self.state, env));
            }
            Some(Role::Hybrid) => self.hybrid::<C>(port, burst, env),
            _ => {
                self.side = Side::Core;
                self.pipelines.downstream.run::<C>(burst, &mut Ctx::new(&mut self.state, env));
            }
        }
        if self.state.changed.marks().is_some() {
            self.state.note_burst(burst);
        }
    }

    fn punted(&mut self, burst: &mut Burst<Bng>, env: &mut Env) {
        self.slow.see_to(burst, self.side, &mut self.state, env);
    }

    fn release<C: Clock>(&mut self, burst: &mut Burst<Bng>, env: &mut Env) -> bool {
        if self.scheduled::<C>(burst, env) {
            return true;
        }
        let Some(towards) = self.slow.next(burst, &self.state, env) else {
            if self.drains == Drains::Asked {
                self.drains = Drains::Done;
            }
            return false;
        };
        // What the core is to get came from subscribers, or from here.
        self.side = if towards == Reinject::Subscriber { Side::Core } else { Side::Access };
        let mut cx = Ctx::new(&mut self.state, env);
        match towards {
            Reinject::Upstream => self.pipelines.upstream.run::<C>(burst, &mut cx),
            Reinject::Subscriber => self.pipelines.downstream.run::<C>(burst, &mut cx),
            Reinject::Core => self.pipelines.answers.run::<C>(burst, &mut cx),
        }
        if self.state.changed.marks().is_some() {
            self.state.note_burst(burst);
        }
        if !burst.punted().is_empty() {
            self.slow.see_to(burst, self.side, &mut self.state, env);
        }
        self.slow.has_ready()
    }

    fn releases_first(&self) -> bool {
        self.drains == Drains::Asked || self.slow.is_releasing()
    }

    fn is_drained(&mut self) -> bool {
        let done = self.drains == Drains::Done || !self.slow.has_ready();
        // From here on no packet of the group comes: what waits now is released in the next turn.
        self.drains = if done { Drains::Done } else { Drains::Asked };
        done
    }

    fn depart(&mut self, env: &mut Env) -> Departure {
        let Some(leave) = &mut self.leave else { return Departure::Done };
        let departure = leave.export(&mut self.state, env);
        if departure == Departure::Done {
            self.drains = Drains::No;
            self.leave_to_control();
        }
        departure
    }

    fn arrive(&mut self, env: &mut Env) -> bool {
        self.come.as_mut().is_none_or(|come| come.import(&mut self.state, env))
    }

    fn arrived(&mut self, arrival: Arrival, room: Room, _env: &mut Env) {
        if let Some(mut come) = self.come.take() {
            self.state.subscribers.hold_in_user_space(come.group, false);
            (come.arrival, come.room) = (arrival, room);
            self.slow.report(Event::Arrived(come));
        }
    }

    fn held(&self) -> usize {
        self.slow.held() + self.state.shaper.as_ref().map_or(0, |shaper| shaper.held())
    }

    fn tick(&mut self, env: &mut Env) {
        if let Some(nat) = &mut self.state.nat {
            nat.tick(env.now);
        }
        self.slow.tick(&self.state, env);
    }

    fn next_deadline(&self) -> Option<u64> {
        let shaper = self.state.shaper.as_ref().filter(|shaper| shaper.held() > 0);
        let nat = self.state.nat.as_ref().and_then(|nat| nat.next_deadline());
        let (unresolved, kernel) = (self.slow.next_deadline(), self.state.subscribers.kernel_deadline());
        let shaper = shaper.and_then(|shaper| shaper.next_due());
        shaper.into_iter().chain(nat).chain(unresolved).chain(kernel).min()
    }

    fn control(&mut self, env: &mut Env) -> usize {
        let (state, slow) = (&mut self.state, &mut self.slow);
        // Packets that wait for a neighbour have not gone out either: the kernel's must not overtake them.
        let drained = if slow.unresolved() > 0 { 0 } else { env.drained };
        state.subscribers.see_to_kernel(env.now, env.turn, drained);
        // A trace shows what goes through the workers: all packets then.
        if std::mem::replace(&mut self.is_traced, env.tracer.is_on()) != env.tracer.is_on() {
            state.subscribers.pause_kernel(env.tracer.is_on());
        }
        let moving = (&mut self.leave, &mut self.come);
        let done = self
            .inbox
            .drain(COMMANDS, |command| carry_out(state, slow, (&mut *moving.0, &mut *moving.1), command, env));
        // Afterwards: what was published before a command was sent is in hand when it has been carried out.
        self.state.forwarding.get();
        if let Some(emptying) = &mut self.state.emptying
            && emptying.is_done(env)
        {
            let number = emptying.number;
            self.state.emptying = None;
            self.slow.report(Event::PortsEmpty(number));
        }
        self.slow.tables_changed(&self.state);
        if let Some(lists) = &mut self.state.lists {
            lists.get();
        }
        self.call_control(done);
        done
    }

    fn follows(&self, filter: &TraceFilter, port: PortId, packet: &[u8]) -> bool {
        let subscribers = &self.state.subscribers;
        let Ok(outer) = Outer::parse(packet) else { return false };
        let Some(side) = self.state.directory.side(port, &outer) else { return false };
        let instances = 0..subscribers.instances();
        let wanted = |record| instances.clone().any(|n| subscribers.of_address(n, filter.subscriber) == Some(record));
        match side {
            Side::Access => {
                let mac = fast::array(packet, 6).unwrap_or_default();
                subscribers.of_line(Line::of(port, &outer), mac).is_some_and(wanted)
            }
            Side::Core => {
                let inside = packet.get(usize::from(outer.l3)..).unwrap_or_default();
                let Ok(ip) = L3L4::parse(inside) else { return false };
                let to = match ip.version {
                    4 => ip.dst.to_be_bytes().into(),
                    _ => ip.dst6(inside).to_be_bytes().into(),
                };
                let instance = self.state.port(port).instance;
                subscribers.of_address(instance, to).is_some_and(wanted)
            }
        }
    }

    fn close(&mut self, env: &mut Env) {
        if let Some(shaper) = &mut self.state.shaper {
            shaper.close(|frame| gone(frame, &env.stats, &mut env.pool));
            shaper.free(&mut env.pool);
        }
        if let Some(come) = &mut self.come {
            come.close(env);
        }
        self.slow.close(env);
    }

    fn steer_key(&self, port: PortId, packet: &[u8]) -> Option<SteerKey> {
        self.state.directory.steer(port, packet)
    }

    fn port_of(&self, device: PortId, packet: &[u8]) -> PortId {
        dataplane::shared::port_of(self.state.forwarding(), device, packet)
    }

    fn fall_asleep(&mut self) -> bool {
        // What this turn's packets reported to control: the next turn may be far.
        self.call_control(0);
        // A sleeping worker holds no old tables back.
        self.state.forwarding.park();
        if let Some(lists) = &mut self.state.lists {
            lists.park();
        }
        let comes = self.come.as_mut().is_some_and(|come| !come.parcels.is_empty());
        self.inbox.is_empty()
            && !self.slow.has_ready()
            && self.state.emptying.is_none()
            && !comes
            && !self.slow.is_unreported()
    }

    fn waker(&self) -> Option<&Waker> {
        Some(&self.waker)
    }
}
