//! The cable gateway of one worker: which pipeline a burst takes, what goes on between pipelines, what control asks.

mod commands;
mod downstream;
mod succession;
mod upstream;

use std::collections::HashMap;

use crypto::Outcome;
use dataplane::forward::{Forwarding, InstanceId, Plan};
use engine::{Burst, Clock, Ctx, Drop, Env, Gateway, Layout, Pipeline, PortId, Steer, SteerKey, TraceFilter};
use gateway::shell::hand_over::changed::Changed;
use table::command::Inbox;
use table::snapshot::Reader;
use table::waker::Waker;

use crate::channels::Channels;
use crate::config::Role;
use crate::depi::{self, Depi, WireSpec};
use crate::drops;
use crate::flow::Scheduler;
use crate::grants::Grants;
use crate::lane::{Cmts, Counts, State};
use crate::local;
use crate::modems::{ModemSpec, Modems};
use crate::pipeline::Pipelines;
use crate::rules::Rules;
use crate::slow::{ReceivedFrom, ReplyTo, SlowPath};
use crate::standby::WorkerExport;
use crate::upstream::{Limits as UpstreamLimits, PseudowireSpec, Upstream};
pub use commands::{Answer, Command, ModemCount};

/// Commands carried out in a turn at most.
const COMMANDS: usize = 32;
/// Nanoseconds without a frame after which what is in the cipher is finished: long enough for the next burst to come and
/// push it out, short beside a frame's time on the cable.
const FLUSH_NS: u64 = 20_000;

/// What a worker's gateway is made of.
pub struct Parts {
    /// Forwarding tables as published.
    pub forwarding: Reader<Forwarding>,
    /// Filter groups and classifiers as published.
    pub rules: Reader<Rules>,
    /// The steering table, as published.
    pub steer: Reader<Steer>,
    /// The side of each of its ports.
    pub roles: Vec<Role>,
    /// Commands.
    pub inbox: Inbox<Command, Answer>,
    /// Wakes it for a command.
    pub waker: Waker,
    /// Wakes control for an event or an answer.
    pub control: Waker,
    /// Events to control.
    pub slow: SlowPath,
    /// Modems, none yet.
    pub modems: Modems,
    /// Channels of each bonding group, and the capacity of each channel in bit/s.
    pub groups: Vec<Vec<u16>>,
    /// See `groups`.
    pub capacities: Vec<u64>,
    /// Each channel's pseudowire.
    pub wires: Vec<WireSpec>,
    /// Upstream pseudowires.
    pub pseudowires: Vec<PseudowireSpec>,
    /// Grants by service group.
    pub grants: Vec<Grants>,
    /// The network instance that each service group's packets are forwarded in.
    pub networks: Vec<InstanceId>,
    /// Service flows to expect.
    pub flows: usize,
    /// SID clusters to expect.
    pub clusters: usize,
    /// Bounds.
    pub limits: Limits,
}

/// Bounds and choices of a worker.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Of its queues.
    pub queues: dataplane::hqos::Limits,
    /// Of what comes upstream.
    pub upstream: UpstreamLimits,
    /// Nanoseconds a DEPI packet waits to be filled.
    pub hold_ns: u64,
    /// Largest IP packet towards modems.
    pub mtu: u32,
    /// CRCs of upstream frames are verified.
    pub verify_crc: bool,
}

/// One worker's gateway.
pub struct CableGateway {
    pipelines: Pipelines,
    state: State,
    /// For the pipeline between queues and cipher.
    scratch: Burst<Cmts>,
    steer: Reader<Steer>,
    roles: Vec<Role>,
    inbox: Inbox<Command, Answer>,
    waker: Waker,
    /// Wakes control.
    control: Waker,
    /// Events that control has been woken for.
    told: u64,
    slow: SlowPath,
    pushed: u64,
    pushed_up: u64,
    upstream_next: bool,
    adopted: Vec<ModemSpec>,
    refused: usize,
    /// Nothing is let out of the queues any more.
    sealed: bool,
    /// What it goes on with, or what another does.
    export: WorkerExport,
}

impl CableGateway {
    /// A worker's gateway, and the layout of its stages.
    ///
    /// # Errors
    /// When there is no memory for its tables.
    pub fn new(parts: Parts) -> Result<(Self, Layout), table::bulk::Full> {
        let mut layout = Layout::default();
        let pipelines = Pipelines::new(&mut layout, &parts.limits);
        let limits = parts.limits;
        let mut upstream = Upstream::new(&parts.pseudowires, parts.clusters, limits.upstream, parts.grants)?;
        (upstream.verify_crc, upstream.networks) = (limits.verify_crc, parts.networks);
        let state = State {
            forwarding: parts.forwarding,
            rules: parts.rules,
            modems: parts.modems,
            scheduler: Scheduler::new(limits.queues, Channels::new(&parts.groups, &parts.capacities), parts.flows, 0),
            depi: Depi::new(&parts.wires, limits.hold_ns),
            upstream,
            counts: Counts::default(),
            changed: Changed::default(),
            clusters_of: HashMap::new(),
            empty: (Plan::default().compile(), Rules::default()),
        };
        let gateway = Self {
            pipelines,
            state,
            scratch: Burst::default(),
            steer: parts.steer,
            roles: parts.roles,
            inbox: parts.inbox,
            waker: parts.waker,
            control: parts.control,
            told: 0,
            slow: parts.slow,
            pushed: 0,
            pushed_up: 0,
            upstream_next: false,
            adopted: Vec::new(),
            refused: 0,
            sealed: false,
            export: WorkerExport::default(),
        };
        Ok((gateway, layout))
    }

    /// What it owns.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// Has a worker that does not run yet take a modem in, in its first turn.
    pub fn adopt(&mut self, spec: ModemSpec) {
        self.adopted.push(spec);
    }

    /// Takes in the modems that were [adopted](Self::adopt).
    pub(crate) fn take_adopted(&mut self, env: &mut Env) {
        for spec in self.adopted.drain(..) {
            self.refused += usize::from(commands::install(&mut self.state, &spec, env).is_err());
        }
    }

    /// What it owns, and its slow path.
    pub(crate) fn parts_mut(&mut self) -> (&mut State, &mut SlowPath) {
        (&mut self.state, &mut self.slow)
    }

    /// Whether nothing is under way in it: frames wait in service flows, packets for neighbours.
    pub(crate) fn is_at_rest(&self) -> bool {
        self.scratch.is_empty() && self.held() == self.state.scheduler.waiting() + self.slow.unresolved()
    }

    /// Modems that could not be taken in at the start.
    pub fn refused(&self) -> usize {
        self.refused
    }

    /// Wakes control if it sleeps and there are events or answers since the last call: once a turn, however many there are.
    #[inline]
    fn call_control(&mut self, answers: usize) {
        let told = self.slow.told();
        if answers > 0 || told != self.told {
            self.told = told;
            self.control.nudge();
        }
    }

    /// ICMP errors and fragments, on their way. Says whether there were any.
    fn answer<C: Clock>(&mut self, burst: &mut Burst<Cmts>, env: &mut Env) -> bool {
        let Some(towards) = self.slow.next(burst, &self.state, env) else { return false };
        if towards == ReplyTo::Subscriber {
            self.pass_on(burst, env);
        }
        let mut cx = Ctx::new(&mut self.state, env);
        match towards {
            ReplyTo::Subscriber => self.pipelines.downstream.run::<C>(burst, &mut cx),
            ReplyTo::Network => self.pipelines.answers.run::<C>(burst, &mut cx),
        }
        if self.state.changed.marks().is_some() {
            self.state.note_burst(burst);
        }
        true
    }

    /// What is for modems that this worker hears and does not send to goes to the one that does.
    fn pass_on(&self, burst: &mut Burst<Cmts>, env: &mut Env) {
        for i in burst.live() {
            let to = local::to_address(burst.bytes(i, env.arena()));
            let modem = to.and_then(|to| self.state.modems.modem(self.state.modems.of_host(to)?));
            if modem.is_some_and(|modem| modem.flows == 0) {
                let frame = burst.take(i);
                env.pass_on(frame.meta.port, frame);
            }
        }
    }
}

/// Why a frame came out of the cipher broken.
fn reason(outcome: Outcome) -> Drop {
    match outcome {
        Outcome::BadCrc => drops::FRAME_CRC,
        Outcome::NoKey => drops::UNKNOWN_KEY,
        Outcome::NoRoom => drops::NO_HEADROOM,
        Outcome::Short | Outcome::Done => drops::DOCSIS_MALFORMED,
    }
}

impl Gateway for CableGateway {
    type Kind = Cmts;

    #[inline]
    fn receive<C: Clock>(&mut self, port: PortId, burst: &mut Burst<Cmts>, env: &Env) {
        let mut cx = Ctx::new(&mut self.state, env);
        match self.roles.get(usize::from(port)) {
            Some(Role::Rpd) => self.pipelines.bursts.run::<C>(burst, &mut cx),
            _ => self.pipelines.downstream.run::<C>(burst, &mut cx),
        }
        if self.state.changed.marks().is_some() {
            self.state.note_burst(burst);
        }
    }

    fn punted(&mut self, burst: &mut Burst<Cmts>, env: &mut Env) {
        self.slow.see_to(burst, ReceivedFrom::Port, &self.state, env);
    }

    fn release<C: Clock>(&mut self, burst: &mut Burst<Cmts>, env: &mut Env) -> bool {
        // In turns, or one direction would have the burst to itself.
        self.upstream_next = !self.upstream_next;
        let mut moved = self.answer::<C>(burst, env);
        let mut came = ReceivedFrom::Us;
        if self.upstream_next && burst.is_empty() {
            moved |= self.upstream::<C>(burst, env);
            came = if burst.is_empty() { ReceivedFrom::Us } else { ReceivedFrom::Modems };
        }
        if burst.is_empty() {
            moved |= self.downstream::<C>(env);
            let before = burst.len();
            self.send_depi::<C>(burst, env);
            moved |= burst.len() > before;
        }
        if !burst.punted().is_empty() {
            self.slow.see_to(burst, came, &self.state, env);
        }
        // Each direction has its turn.
        moved || env.is_settling && !self.is_at_rest()
    }

    fn held(&self) -> usize {
        let state = &self.state;
        state.scheduler.waiting()
            + state.modems.encrypt.held()
            + state.modems.decrypt.held()
            + state.depi.held()
            + state.upstream.held()
            + self.slow.held()
    }

    fn control(&mut self, env: &mut Env) -> usize {
        if !self.adopted.is_empty() {
            self.take_adopted(env);
            self.inherit(env);
        }
        let state = &mut self.state;
        let done = self.inbox.drain(COMMANDS, |command| commands::carry_out(state, command, env));
        // Afterwards: what was published before a command was sent is in hand when it has been carried out.
        state.forwarding.get();
        self.slow.tables_changed(state);
        state.rules.get();
        self.steer.get();
        self.call_control(done);
        done
    }

    fn tick(&mut self, env: &mut Env) {
        self.state.scheduler.tick(env.now);
        self.state.upstream.tick(env);
        self.slow.tick(&self.state, env);
    }

    fn next_deadline(&self) -> Option<u64> {
        self.slow.next_deadline()
    }

    fn releases_first(&self) -> bool {
        self.slow.is_releasing()
    }

    fn follows(&self, filter: &TraceFilter, port: PortId, packet: &[u8]) -> bool {
        // What comes from modems is in bursts: it is followed from where they are taken apart.
        let to = local::to_address(packet).filter(|_| self.roles.get(usize::from(port)) == Some(&Role::Network));
        let modem = |address| self.state.modems.of_host(address);
        to.is_some_and(|to| to == filter.subscriber || modem(to).is_some_and(|it| modem(filter.subscriber) == Some(it)))
    }

    fn close(&mut self, env: &mut Env) {
        self.sweep(env);
        if self.sealed {
            self.export_upstream(env);
        }
        let state = &mut self.state;
        state.scheduler.close(|frame| depi::lost(drops::FLOW_GONE, frame, env));
        state.modems.encrypt.flush(env.pool.arena());
        state.modems.decrypt.flush(env.pool.arena());
        while let Some(done) = state.modems.encrypt.pop().or_else(|| state.modems.decrypt.pop()) {
            depi::lost(drops::FLOW_GONE, done.frame, env);
        }
        state.depi.close_all(env);
        state.upstream.close(env);
        self.slow.close(env);
    }

    fn steer_key(&self, port: PortId, packet: &[u8]) -> Option<SteerKey> {
        let key = local::steer_key(packet, *self.roles.get(usize::from(port))?)?;
        self.steer.in_hand()?.owner(key).map(SteerKey::Owner)
    }

    fn fall_asleep(&mut self) -> bool {
        // What this turn's packets told control: the next turn may be far.
        self.call_control(0);
        // A sleeping worker holds no old tables back.
        self.state.forwarding.park();
        self.state.rules.park();
        self.steer.park();
        // What waits for a neighbour goes on by new tables, or by the next deadline.
        self.inbox.is_empty() && self.held() == self.slow.unresolved() && !self.slow.is_releasing()
    }

    fn waker(&self) -> Option<&Waker> {
        Some(&self.waker)
    }
}
