//! The cable gateway of one worker: which pipeline a burst takes, what goes on between pipelines, what control asks.

mod succession;

use std::os::fd::BorrowedFd;

use crypto::{Crc, Job, Key, KeyId, Outcome};
use engine::{Burst, Clock, Ctx, Drop, Env, Gateway, Io, Layout, Pipeline, PortId, Steer, SteerKey, TraceFilter};
use frame::BURST;
use stages::forward::{Forwarding, NONE, Plan};
use stages::parse::HasIp;
use stages::route::HasForwarding;
use table::command::Inbox;
use table::snapshot::Reader;
use table::waker::Waker;
use wire::docsis::Element;

use crate::config::Role;
use crate::depi::{self, Depi, WireSpec};
use crate::flow::NONE as NOTHING;
use crate::grants::Grants;
use crate::lane::{Cmts, Counts, State};
use crate::local;
use crate::modems::{MAX_FLOWS, ModemSpec, Modems, Refused};
use crate::pipeline::Pipelines;
use crate::report::Report;
use crate::rules::Rules;
use crate::schedule::{self, Scheduler};
use crate::slow::{Came, SlowPath, Towards};
use crate::standby::{Legacy, Sequences};
use crate::upstream::{self, Out, PseudowireSpec, Upstream};

/// What control asks of a worker.
pub enum Command {
    /// Take in a modem, or replace what is known of it; what waits in service flows it keeps stays.
    Install(Box<ModemSpec>),
    /// Take a modem out.
    Remove(u32),
    /// Give a modem other service flows, filter groups and classifiers. What waits in service flows that stay stays, and
    /// whatever comes from the modem goes on.
    Change(Box<ModemSpec>),
    /// A key for a modem's security association, beside the other.
    SetKey(u32, u8, Box<Key>),
    /// Send by that key from now on.
    UseKey(u32, u8),
    /// Fill in a report.
    Report(Box<Report>),
    /// Fill in where numbers stand.
    Sequences(Box<Sequences>),
    /// Send a complete frame (ARP request, neighbour solicitation).
    Send(PortId, Vec<u8>),
}

/// What a worker answers.
pub enum Answer {
    /// Done; the box is control's to free.
    Installed(Box<ModemSpec>),
    /// Not taken in, and why.
    Refused(Refused, Box<ModemSpec>),
    /// Done.
    Done,
    /// There is no such modem, flow or key.
    Unknown,
    /// The report.
    Report(Box<Report>),
    /// Where numbers stand.
    Sequences(Box<Sequences>),
    /// Sent (or dropped and counted); the bytes are control's to free.
    Sent(Vec<u8>),
}

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
    /// Whose worker is whose, as published.
    pub steer: Reader<Steer>,
    /// The side of each of its ports.
    pub roles: Vec<Role>,
    /// Commands.
    pub inbox: Inbox<Command, Answer>,
    /// Wakes it for a command.
    pub waker: Waker,
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
    pub queues: schedule::Limits,
    /// Of what comes upstream.
    pub upstream: upstream::Limits,
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
    slow: SlowPath,
    pushed: u64,
    pushed_up: u64,
    upstream_next: bool,
    adopted: Vec<ModemSpec>,
    refused: usize,
    /// Nothing is let out of the queues any more.
    sealed: bool,
    /// What it goes on with, or what another does.
    legacy: Legacy,
}

impl CableGateway {
    /// A worker's gateway, and the layout of its stages.
    ///
    /// # Errors
    /// When there is no memory for its tables.
    pub fn new(parts: Parts) -> Result<(Self, Layout), table::bulk::Full> {
        let mut layout = Layout::default();
        let pipelines = Pipelines::new(&mut layout, parts.limits.mtu);
        let limits = parts.limits;
        let mut upstream = Upstream::new(&parts.pseudowires, parts.clusters, limits.upstream, parts.grants)?;
        upstream.verify_crc = limits.verify_crc;
        let state = State {
            forwarding: parts.forwarding,
            rules: parts.rules,
            modems: parts.modems,
            scheduler: Scheduler::new(limits.queues, &parts.groups, &parts.capacities, parts.flows, 0),
            depi: Depi::new(&parts.wires, limits.hold_ns),
            upstream,
            counts: Counts::default(),
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
            slow: parts.slow,
            pushed: 0,
            pushed_up: 0,
            upstream_next: false,
            adopted: Vec::new(),
            refused: 0,
            sealed: false,
            legacy: Legacy::default(),
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

    /// Modems that could not be taken in at the start.
    pub fn refused(&self) -> usize {
        self.refused
    }

    /// Queues → MAC frames → cipher → DEPI packets. Says whether anything moved.
    fn downstream<C: Clock>(&mut self, env: &mut Env) -> bool {
        if !self.scratch.is_empty() {
            self.sweep(env);
        }
        let state = &mut self.state;
        let between = self.pipelines.between;
        let may = state.depi.has_room() && state.modems.encrypt.room() >= BURST && !self.sealed;
        if may && state.scheduler.waiting() > 0 {
            let begin = C::cycles();
            let scratch = &mut self.scratch;
            let pulled = state.scheduler.pull(env.now, BURST, |pulled, flow| {
                // At most a burst is asked for, and it was empty.
                let Ok(i) = scratch.push(pulled.frame) else { return };
                state.modems.prefetch_security(flow.security);
                let lane = &mut scratch.lane;
                (lane.flow[i], lane.modem[i]) = (pulled.flow, flow.modem);
                (lane.channel[i], lane.sequence[i]) = (pulled.channel, pulled.sequence);
            });
            if pulled > 0 {
                env.stats.charge(between, 0, pulled as u32, C::cycles().wrapping_sub(begin));
                env.stats.add(Io::Released, pulled as u64);
            }
        }
        let pulled = !self.scratch.is_empty();
        if pulled {
            self.pipelines.mac.run::<C>(&mut self.scratch, &mut Ctx::new(state, env));
            let pool = &mut env.pool;
            self.scratch.finish(|_, frame| pool.give(frame));
            self.pushed = env.now;
        } else if state.modems.encrypt.held() > 0 && env.now.saturating_sub(self.pushed) >= FLUSH_NS {
            state.modems.encrypt.flush(env.pool.arena());
        }
        let framed = state.modems.encrypt.held() > 0 && self.encapsulate::<C>(env);
        let expired = self.state.depi.expire(false, env);
        pulled || framed || expired
    }

    /// What is through the cipher into DEPI packets. Says whether anything was.
    fn encapsulate<C: Clock>(&mut self, env: &mut Env) -> bool {
        let state = &mut self.state;
        let begin = C::cycles();
        let mut framed = 0;
        while state.depi.has_room()
            && let Some(done) = state.modems.encrypt.pop()
        {
            framed += 1;
            match done.outcome {
                Outcome::Done => {
                    if env.tracer.is_on() {
                        env.tracer.note("depi_encap", &done.frame, format!("channel {}", done.tag), env);
                    }
                    state.depi.push(done.tag as u16, done.frame, env); // a channel's number, as pushed
                }
                outcome => depi::lost(reason(outcome), done.frame, env),
            }
        }
        if framed > 0 {
            env.stats.charge(self.pipelines.between, 1, framed, C::cycles().wrapping_sub(begin));
        }
        framed > 0
    }

    /// A stage panicked between queues and cipher: its burst is lost, its slots are not.
    #[cold]
    fn sweep(&mut self, env: &mut Env) {
        let (stats, pool) = (&env.stats, &mut env.pool);
        self.scratch.finish(|live, frame| {
            if live.is_some() {
                stats.drop_outside(Drop::Panicked, frame.len());
            }
            pool.give(frame);
        });
    }

    /// DEPI packets that are ready, out by their ports.
    fn send_depi<C: Clock>(&mut self, burst: &mut Burst<Cmts>, env: &mut Env) {
        let instance = Role::Rpd.instance();
        // Packets of a device come in rows: its way is looked up for the first.
        let mut last = (0, NONE);
        while burst.len() < BURST {
            let Some((frame, ip)) = self.state.depi.pop() else { break };
            let Ok(i) = burst.push(frame) else { break };
            if ip.dst != last.0 {
                // Over IPv6 the stage looks, and where there is no way it says why.
                last = (ip.dst, self.state.forwarding().hop4(instance, ip.dst).unwrap_or(NONE));
            }
            let lane = &mut burst.lane;
            *lane.ip_mut(i) = ip;
            (lane.hop[i], lane.instance[i], lane.ours[i]) = (last.1, instance, true);
            (lane.modem[i], lane.flow[i]) = (NONE, NONE);
        }
        if !burst.is_empty() {
            self.pipelines.depi.run::<C>(burst, &mut Ctx::new(&mut self.state, env));
        }
    }

    /// ICMP errors and fragments, on their way. Says whether there were any.
    fn answer<C: Clock>(&mut self, burst: &mut Burst<Cmts>, env: &mut Env) -> bool {
        let Some(towards) = self.slow.next(burst, env) else { return false };
        if towards == Towards::Subscriber {
            self.pass_on(burst, env);
        }
        let mut cx = Ctx::new(&mut self.state, env);
        match towards {
            Towards::Subscriber => self.pipelines.downstream.run::<C>(burst, &mut cx),
            Towards::Network => self.pipelines.answers.run::<C>(burst, &mut cx),
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

    /// The trace's packets among those that come out of the cipher.
    #[cold]
    fn follow_upstream(&self, burst: &mut Burst<Cmts>, env: &Env) {
        let Some(filter) = env.tracer.filter() else { return };
        let modem = self.state.modems.of_host(filter.subscriber);
        for i in burst.live() {
            if modem == Some(burst.lane.modem[i]) {
                env.tracer.join("decryption", burst, i, env);
            }
        }
    }

    /// Packets of bursts → frames → cipher → the network. Says whether anything moved.
    fn upstream<C: Clock>(&mut self, burst: &mut Burst<Cmts>, env: &mut Env) -> bool {
        let between = self.pipelines.between;
        let state = &mut self.state;
        if state.upstream.is_idle() && state.modems.decrypt.held() == 0 {
            return false;
        }
        let begin = C::cycles();
        let worked = state.upstream.work(BURST, env);
        let mid = C::cycles();
        if worked > 0 {
            env.stats.charge(between, 2, worked as u32, mid.wrapping_sub(begin));
        }
        let mut pushed = 0;
        while state.modems.decrypt.room() > 0
            && let Some(out) = state.upstream.pop()
        {
            let job = match job(env.pool.arena().bytes(&out.frame), &out, state) {
                Ok(job) => job,
                Err(why) => {
                    depi::lost(why, out.frame, env);
                    continue;
                }
            };
            if let Err(frame) = state.modems.decrypt.push(out.frame, job) {
                depi::lost(Drop::FlowQueueFull, frame, env);
            }
            pushed += 1;
        }
        if pushed > 0 {
            state.modems.decrypt.run(env.pool.arena());
            self.pushed_up = env.now;
        } else if state.modems.decrypt.held() > 0 && env.now.saturating_sub(self.pushed_up) >= FLUSH_NS {
            state.modems.decrypt.flush(env.pool.arena());
        }
        while burst.len() < BURST {
            let Some(done) = state.modems.decrypt.pop() else { break };
            if done.outcome != Outcome::Done {
                depi::lost(reason(done.outcome), done.frame, env);
                continue;
            }
            env.stats.add(Io::Originated, 1);
            let Ok(i) = burst.push(done.frame) else { break };
            let lane = &mut burst.lane;
            lane.flow[i] = done.tag;
            lane.modem[i] = state.upstream.cluster(done.tag).map_or(NOTHING, |cluster| cluster.modem);
            (lane.hop[i], lane.instance[i], lane.ours[i]) = (NONE, Role::Network.instance(), false);
        }
        if pushed > 0 {
            env.stats.charge(between, 3, pushed, C::cycles().wrapping_sub(mid));
        }
        let deciphered = burst.len();
        if deciphered > 0 {
            if env.tracer.is_on() {
                self.follow_upstream(burst, env);
            }
            self.pipelines.upstream.run::<C>(burst, &mut Ctx::new(&mut self.state, env));
        }
        worked > 0 || pushed > 0 || deciphered > 0
    }
}

fn install(state: &mut State, spec: &ModemSpec, env: &mut Env) -> Result<(), Refused> {
    let arena = env.pool.arena().clone();
    let before = state.modems.modem(spec.handle).map(|modem| (modem.first_flow, modem.flows));
    state.modems.install(spec, &arena)?;
    match state.upstream.install(spec, env) {
        Ok(true) => {}
        other => {
            remove(state, spec.handle, env);
            return Err(if other.is_ok() { Refused::Taken } else { Refused::Memory });
        }
    }
    change_flows(state, spec, before.unwrap_or((spec.first_flow, 0)), env);
    Ok(())
}

/// Gives a modem whose service flows were `before` (the first, and their places) those it is to have.
fn change_flows(state: &mut State, spec: &ModemSpec, before: (u32, u16), env: &mut Env) {
    let wanted = |n: u32| spec.flows.get(n as usize).copied().flatten();
    for n in (0..MAX_FLOWS as u32).filter(|n| before.1 >> n & 1 == 1) {
        if before.0 != spec.first_flow || wanted(n).is_none() {
            remove_flow(state, before.0 + n, env);
        }
    }
    let security = if spec.security.is_some() { spec.handle } else { NOTHING };
    for n in 0..MAX_FLOWS as u32 {
        let (Some(flow), id) = (wanted(n), spec.first_flow + n) else { continue };
        let known = state.scheduler.flows().get(id as usize).filter(|known| known.in_use);
        // Even a change to the same would cost it its turn.
        if known.is_none_or(|known| (known.terms.spec, known.modem, known.security) != (flow, spec.handle, security)) {
            state.scheduler.install(id, flow, spec.handle, security, env.now);
        }
    }
}

/// Takes a modem out; false when there is none.
fn remove(state: &mut State, modem: u32, env: &mut Env) -> bool {
    let Some(known) = state.modems.modem(modem).copied() else { return false };
    for n in (0..MAX_FLOWS as u32).filter(|n| known.flows >> n & 1 == 1) {
        remove_flow(state, known.first_flow + n, env);
    }
    state.upstream.remove(modem, env);
    let arena = env.pool.arena().clone();
    state.modems.remove(modem, &arena)
}

fn carry_out(state: &mut State, command: Command, env: &mut Env) -> Answer {
    let done = |done| if done { Answer::Done } else { Answer::Unknown };
    match command {
        Command::Install(spec) => match install(state, &spec, env) {
            Ok(()) => Answer::Installed(spec),
            Err(why) => Answer::Refused(why, spec),
        },
        Command::Remove(modem) => done(remove(state, modem, env)),
        Command::Change(spec) => {
            let before = state.modems.modem(spec.handle).map(|modem| (modem.first_flow, modem.flows));
            let Some(before) = before.filter(|_| state.modems.change(&spec)) else { return Answer::Unknown };
            change_flows(state, &spec, before, env);
            Answer::Installed(spec)
        }
        Command::SetKey(modem, sequence, key) => {
            let arena = env.pool.arena().clone();
            done(state.modems.set_key(modem, sequence, &key, &arena))
        }
        Command::UseKey(modem, sequence) => done(state.modems.set_active(modem, sequence)),
        Command::Report(mut report) => {
            report.fill(state, env.now);
            Answer::Report(report)
        }
        Command::Sequences(mut into) => {
            CableGateway::sequences(state, &mut into);
            Answer::Sequences(into)
        }
        Command::Send(port, frame) => {
            if let Some(made) = env.pool.make(&frame) {
                env.send(port, made);
            } else {
                env.stats.drop_outside(Drop::NoFrame, frame.len());
                env.stats.add(Io::Originated, 1);
            }
            Answer::Sent(frame)
        }
    }
}

/// What is to be done to a frame from a modem.
fn job(bytes: &[u8], out: &Out, state: &State) -> Result<Job, Drop> {
    let security = state.modems.security(out.modem);
    let mut privacy = None;
    for element in out.header.elements(bytes) {
        match element.map_err(|_| Drop::DocsisMalformed)? {
            Element::BpUp2(found) | Element::BpUp { privacy: found, .. } => privacy = Some(found),
            _ => {}
        }
    }
    let key = match (privacy.filter(|privacy| privacy.enabled), security) {
        (Some(privacy), Some(security)) => {
            let half = usize::from(privacy.key_sequence & 1);
            if security.sequences[half] != privacy.key_sequence || privacy.toggle != (half == 1) {
                return Err(Drop::UnknownKey);
            }
            security.up[half]
        }
        (None, None) => KeyId::CLEAR,
        // A modem that has keys must use them, or anybody could speak for it.
        _ => return Err(Drop::UnknownKey),
    };
    let crc = if state.upstream.verify_crc { Crc::Done } else { Crc::Left };
    Ok(Job { key, at: out.header.header_len, crc, tag: out.cluster })
}

fn reason(outcome: Outcome) -> Drop {
    match outcome {
        Outcome::BadCrc => Drop::FrameCrc,
        Outcome::NoKey => Drop::UnknownKey,
        Outcome::NoRoom => Drop::NoHeadroom,
        Outcome::Short | Outcome::Done => Drop::DocsisMalformed,
    }
}

fn remove_flow(state: &mut State, id: u32, env: &mut Env) {
    state.scheduler.remove(id, |frame| depi::lost(Drop::FlowGone, frame, env));
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
    }

    fn punted(&mut self, burst: &mut Burst<Cmts>, env: &mut Env) {
        self.slow.see_to(burst, Came::Port, &self.state, env);
    }

    fn release<C: Clock>(&mut self, burst: &mut Burst<Cmts>, env: &mut Env) -> bool {
        // In turns, or one direction would have the burst to itself.
        self.upstream_next = !self.upstream_next;
        let mut moved = self.answer::<C>(burst, env);
        let mut came = Came::Us;
        if self.upstream_next && burst.is_empty() {
            moved |= self.upstream::<C>(burst, env);
            came = if burst.is_empty() { Came::Us } else { Came::Modems };
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
        moved
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
        let state = &mut self.state;
        if !self.adopted.is_empty() {
            for spec in self.adopted.drain(..) {
                self.refused += usize::from(install(state, &spec, env).is_err());
            }
            self.inherit(env);
        }
        let state = &mut self.state;
        let done = self.inbox.drain(COMMANDS, |command| carry_out(state, command, env));
        // Afterwards: what was published before a command was sent is in hand when it has been carried out.
        state.forwarding.get();
        state.rules.get();
        self.steer.get();
        done
    }

    fn tick(&mut self, env: &mut Env) {
        self.state.scheduler.tick(env.now);
        self.state.upstream.tick(env);
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
            self.bequeath(env);
        }
        let state = &mut self.state;
        state.scheduler.close(|frame| depi::lost(Drop::FlowGone, frame, env));
        state.modems.encrypt.flush(env.pool.arena());
        state.modems.decrypt.flush(env.pool.arena());
        while let Some(done) = state.modems.encrypt.pop().or_else(|| state.modems.decrypt.pop()) {
            depi::lost(Drop::FlowGone, done.frame, env);
        }
        state.depi.close_all(env);
        state.upstream.close(env);
        self.slow.close(env);
    }

    fn steer_key(&self, port: PortId, packet: &[u8]) -> Option<SteerKey> {
        let key = local::steer_key(packet, *self.roles.get(usize::from(port))?, self.state.port(port).instance)?;
        self.steer.in_hand()?.owner(key).map(SteerKey::Owner)
    }

    fn fall_asleep(&mut self) -> bool {
        self.waker.fall_asleep();
        // A sleeping worker holds no old tables back.
        self.state.forwarding.park();
        self.state.rules.park();
        self.steer.park();
        self.inbox.is_empty() && self.held() == 0
    }

    fn wake_up(&mut self) {
        self.waker.drain();
    }

    fn wait_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.waker.fd())
    }
}
