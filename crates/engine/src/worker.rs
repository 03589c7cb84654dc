//! The worker: one thread, its ports, its gateway, its slots.

mod cpu_meter; // CPU time beside cycles
mod door; // a port, and what waits to leave by it
mod elsewhere; // what is other workers', or comes in again
mod logical; // ports that share a device
mod moving; // a group that moves to or from this worker
mod sleep; // without packets

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use frame::{BURST, Batch, Frame, Pool, Port, PortCounters};
use table::hint::prefetch_index;

use crate::burst::Burst;
use crate::clock::{Clock, Looks, Time, Tsc};
use crate::drops;
use crate::gateway::{Gateway, PortId};
use crate::hand_off::HandOff;
use crate::idle::{Idle, Pace};
use crate::moves::Moves;
use crate::pipeline::{Env, Receiving};
use crate::reason::Drop;
use crate::stats::{Io, Layout, Stats};
use crate::trace::Tracer;
use cpu_meter::CpuMeter;
use door::{Door, queue, send};
use elsewhere::to_ourselves;

/// How a worker is to run.
#[derive(Clone)]
pub struct WorkerConfig {
    /// Where it reads the time.
    pub time: Time,
    /// What it does without packets.
    pub idle: Idle,
    /// Packets taken from a port at a time, 1 to [`BURST`].
    pub burst: usize,
}

impl Default for WorkerConfig {
    fn default() -> Self {
        Self { time: Time::real(), idle: Idle::default(), burst: BURST }
    }
}

/// One thread's worth of gateway. Drive it with [`Worker::run`], or turn by turn in tests.
pub struct Worker<G: Gateway> {
    gateway: G,
    ports: Vec<Door>,
    env: Env,
    burst: Burst<G::Kind>,
    incoming: Batch,
    hand_off: Option<HandOff>,
    /// What was sent to ourselves, with the port it comes in by.
    again: Vec<(PortId, Frame)>,
    config: WorkerConfig,
    next_tick: u64,
    /// Whether packets moved since the gauges were set.
    stale: bool,
    pace: Pace,
    meter: CpuMeter,
    /// When the first of the packets that wait for a kick was given to its port, in cycles.
    unkicked_since: Option<u64>,
    /// The next sleep, where a packet can come without waking it.
    blind: Duration,
    /// When the first packet was held of a group on its way here, in nanoseconds.
    first_held: Option<u64>,
}

const TICK_NS: u64 = 1_000_000;
const OUTBOX: usize = 512;
/// Bursts of packets released in a turn at most, of those that others may overtake.
const RELEASES: usize = 8;
/// Packets accepted by a port that are not kept waiting for more.
const KICK_AT: usize = 64;
/// Bytes of a cache line.
const LINE: usize = 64;

/// Cycles of one turn by where they went.
#[derive(Default)]
struct Spent {
    rx: u64,
    pipeline: u64,
    tx: u64,
}

impl<G: Gateway> Worker<G> {
    /// A worker over its own slots and ports. `layout` is the one the gateway's pipelines were made with.
    pub fn new(gateway: G, layout: Layout, pool: Pool, ports: Vec<Box<dyn Port>>, config: WorkerConfig) -> Self {
        Self {
            gateway,
            ports: Door::all(ports),
            env: Env {
                pool,
                now: config.time.now_ns(Tsc::cycles()),
                turn: 0,
                drained: 0,
                receiving: Receiving::Yes,
                is_settling: false,
                stats: Stats::of::<G::Kind>(layout),
                tracer: Tracer::default(),
                outbox: Vec::with_capacity(OUTBOX),
                passed_on: Vec::with_capacity(OUTBOX),
                outbox_room: OUTBOX,
                moves: Moves::default(),
                looks: Looks::default(),
            },
            burst: Burst::default(),
            incoming: Batch::new(),
            hand_off: None,
            again: Vec::with_capacity(OUTBOX),
            pace: Pace::new(config.idle, Tsc::cycles()),
            meter: CpuMeter::new(),
            config,
            next_tick: 0,
            stale: false,
            unkicked_since: None,
            blind: sleep::WITHOUT_FD,
            first_held: None,
        }
    }

    /// Joins it with the other workers of its gateway. Without, it sees to every packet it gets.
    pub fn with_hand_off(mut self, hand_off: Option<HandOff>) -> Self {
        self.hand_off = hand_off;
        self
    }

    /// Its surroundings: statistics, trace, slots.
    pub fn env(&self) -> &Env {
        &self.env
    }

    /// What it runs.
    pub fn gateway(&self) -> &G {
        &self.gateway
    }

    /// What it runs, to change between turns.
    pub fn gateway_mut(&mut self) -> &mut G {
        &mut self.gateway
    }

    /// What it runs and its surroundings, to change between turns.
    pub fn parts_mut(&mut self) -> (&mut G, &mut Env) {
        (&mut self.gateway, &mut self.env)
    }

    /// The ports' counters, by port number.
    pub fn port_counters(&self) -> Vec<PortCounters> {
        self.ports.iter().map(|door| door.port.counters()).collect()
    }

    /// A port, for tests and control.
    pub fn port(&self, id: PortId) -> Option<&dyn Port> {
        self.ports.get(usize::from(id)).map(|door| &*door.port)
    }

    /// A port, to change between turns.
    pub fn port_mut(&mut self, id: PortId) -> Option<&mut dyn Port> {
        self.ports.get_mut(usize::from(id)).map(|door| &mut *door.port as &mut dyn Port)
    }

    /// Another process may have gone on with its ports, and has ended.
    pub fn come_back(&mut self) {
        for door in &mut self.ports {
            door.port.come_back(&mut self.env.pool);
        }
    }

    /// One turn without receiving: commands, what waits, what other workers handed over; all of it is sent. Whether anything
    /// moved.
    pub fn settle(&mut self) -> bool {
        self.env.now = self.config.time.now_ns(Tsc::cycles());
        self.env.is_settling = true;
        let mut spent = Spent::default();
        let commands = self.gateway.control(&mut self.env);
        let packets = self.release::<Tsc>(&mut spent) + self.take_over::<Tsc>(&mut spent) + self.flush(&mut spent);
        self.kick();
        self.gauges();
        self.env.is_settling = false;
        packets + commands > 0
    }

    /// Turns until told to stop.
    pub fn run(&mut self, stop: &AtomicBool) {
        self.run_clocked::<Tsc>(stop);
    }

    /// [`Worker::run`], charging stages by clock `C`.
    pub(crate) fn run_clocked<C: Clock>(&mut self, stop: &AtomicBool) {
        self.resume();
        while !stop.load(Ordering::Relaxed) {
            if !self.turn_clocked::<C>() {
                self.rest();
            }
        }
        self.gauges();
    }

    /// Tells time in which this thread runs from time in which it does not from now on. For whoever drives the worker by turns
    /// without a pause, after each pause; without, all time counts as running.
    pub fn resume(&mut self) {
        self.env.stats.set(Io::CpuNs, self.meter.begin());
    }

    /// One turn: commands, ports, sources, transmit, timers. Says whether anything moved.
    pub fn turn(&mut self) -> bool {
        self.turn_clocked::<Tsc>()
    }

    /// [`Worker::turn`], charging stages by clock `C`.
    pub fn turn_clocked<C: Clock>(&mut self) -> bool {
        let start = Tsc::cycles();
        self.env.now = self.config.time.now_ns(start);
        self.env.turn += 1;
        let commands = self.gateway.control(&mut self.env);
        let mut spent = Spent::default();
        let moving = !self.env.moves.is_idle();
        // What waited goes first: packets of the same flow that come now must not overtake it.
        let arrived = if moving { self.begin_moves::<C>(&mut spent) } else { 0 };
        let released = arrived + self.release::<C>(&mut spent);
        let mut came = 0;
        if let Receiving::HeldUntil(until) | Receiving::AfterHandOver(until) = self.env.receiving
            && self.env.now >= until
        {
            self.env.receiving = Receiving::Yes;
        }
        if self.env.receiving == Receiving::Yes {
            for id in 0..self.ports.len() {
                came += self.serve::<C>(id, &mut spent);
            }
        }
        let handed = self.take_over::<C>(&mut spent);
        if handed == 0 && matches!(self.env.receiving, Receiving::AfterHandOver(_)) {
            self.env.receiving = Receiving::Yes;
        }
        came += handed;
        let packets = released + came + self.flush(&mut spent);
        let moves = moving && self.end_moves();
        if self.unkicked_since.is_none() {
            self.env.drained = self.ports.iter().map(|door| door.empty_at).min().unwrap_or(self.env.turn);
        }
        self.stale |= packets > 0 || commands > 0;
        if self.env.now >= self.next_tick {
            self.next_tick = self.env.now + TICK_NS;
            self.gateway.tick(&mut self.env);
            self.gauges();
            self.stale = false;
        }
        let moved = packets > 0;
        let end = Tsc::cycles();
        if came > 0 {
            self.blind = sleep::WITHOUT_FD;
            self.pace.packets(came as u64, start, end);
        }
        self.account(spent, end.wrapping_sub(start), moved, end);
        moved || moves || commands > 0
    }

    /// One port: service, receive, pipeline.
    fn serve<C: Clock>(&mut self, id: usize, spent: &mut Spent) -> usize {
        let begin = Tsc::cycles();
        let door = &mut self.ports[id];
        door.port.service(&mut self.env.pool);
        let received = door.port.rx_burst(&mut self.env.pool, &mut self.incoming);
        if received > 1 {
            self.prefetch_headers();
        }
        let mid = Tsc::cycles();
        spent.rx += mid.wrapping_sub(begin);
        if received == 0 {
            self.ports[id].empty_at = self.env.turn;
            return 0;
        }
        let is_shared = self.ports[id].is_shared;
        let bytes = if is_shared { self.receive_by_device::<C>(id) } else { self.receive::<C>(id) };
        self.env.stats.add(Io::Bursts, 1);
        self.env.stats.add(Io::RxPackets, received as u64);
        self.env.stats.add(Io::RxBytes, bytes as u64);
        spent.pipeline += Tsc::cycles().wrapping_sub(mid);
        received
    }

    /// What came in for a port, to its owners and through the pipeline. Returns its bytes.
    #[inline(always)]
    fn receive<C: Clock>(&mut self, id: usize) -> usize {
        let mut bytes = 0;
        if self.hand_off.is_some() {
            bytes += self.hand_over(id as PortId);
        }
        while !self.incoming.is_empty() {
            self.burst.load(&mut self.incoming, self.config.burst.clamp(1, BURST));
            for frame in self.burst.frames_mut() {
                frame.meta.port = id as PortId; // a worker has far fewer than 256 ports
                bytes += frame.len();
            }
            self.process(|gateway, burst, env| gateway.receive::<C>(id as PortId, burst, env), Some(id));
        }
        bytes
    }

    /// Another CPU wrote what came in: the lines with the headers are on their way here while the first packets are parsed.
    #[inline]
    fn prefetch_headers(&self) {
        let arena = self.env.pool.arena();
        for frame in self.incoming.frames() {
            let bytes = arena.bytes(frame);
            prefetch_index(bytes, 0);
            prefetch_index(bytes, LINE);
        }
    }

    fn release<C: Clock>(&mut self, spent: &mut Spent) -> usize {
        if self.gateway.held() == 0 {
            return 0;
        }
        let begin = Tsc::cycles();
        let mut released = 0;
        // Bounded, for sources must not starve the ports, unless packets from ports would overtake what waits.
        for turn in 0.. {
            if turn >= RELEASES && !self.gateway.releases_first() {
                break;
            }
            let (gateway, burst, env) = (&mut self.gateway, &mut self.burst, &mut self.env);
            let outcome = catch_unwind(AssertUnwindSafe(|| gateway.release::<C>(burst, env)));
            released += self.burst.len();
            let more = outcome.unwrap_or_else(|_| {
                self.after_panic();
                false
            });
            self.finish();
            if !more {
                break;
            }
        }
        spent.pipeline += Tsc::cycles().wrapping_sub(begin);
        released
    }

    /// Runs a burst under the panic boundary, then sends each packet on its way. The burst is owned out here, so that a
    /// panic in a stage costs the burst and nothing else.
    fn process(&mut self, run: impl FnOnce(&mut G, &mut Burst<G::Kind>, &Env), port: Option<usize>) {
        if self.env.tracer.is_on() {
            self.flag_traced(port);
        }
        let (gateway, burst, env) = (&mut self.gateway, &mut self.burst, &self.env);
        let outcome = catch_unwind(AssertUnwindSafe(|| run(gateway, burst, env)));
        let outcome = outcome.and_then(|()| {
            if self.burst.punted().is_empty() {
                return Ok(());
            }
            catch_unwind(AssertUnwindSafe(|| self.gateway.punted(&mut self.burst, &mut self.env)))
        });
        if outcome.is_err() {
            self.after_panic();
        }
        self.finish();
    }

    #[cold]
    fn after_panic(&mut self) {
        let (stats, pool) = (&self.env.stats, &mut self.env.pool);
        stats.add(Io::Panics, 1);
        // What had already left the live set was counted where it left; the rest was lost here.
        let (live, punted) = (self.burst.live(), self.burst.punted());
        for i in 0..self.burst.len() {
            let frame = self.burst.take(i);
            if live.has(i) || punted.has(i) {
                stats.drop_outside(drops::PANICKED, frame.len());
            }
            pool.give(frame);
        }
        self.gateway.after_panic();
    }

    /// Queues what is live at its port and gives the rest back.
    #[inline]
    fn finish(&mut self) {
        let common = self.burst.common_out().and_then(|out| self.ports.get_mut(usize::from(out)));
        if common.is_some_and(|door| self.burst.unload(&mut door.out)) {
            return;
        }
        let Env { pool, stats, .. } = &mut self.env;
        let again = &mut self.again;
        self.burst.finish(|out, frame| match out {
            Some(out) => {
                if let Err(frame) = queue(&mut self.ports, usize::from(out), frame, pool, stats) {
                    to_ourselves(out, frame, again, pool, stats);
                }
            }
            None => pool.give(frame),
        });
    }

    /// What was sent because no more could wait was sent amid pipelines: cycles that are not theirs.
    fn sent_amid(&mut self) -> u64 {
        self.ports.iter_mut().map(|door| std::mem::take(&mut door.amid)).sum()
    }

    fn flush(&mut self, spent: &mut Spent) -> usize {
        let amid = self.sent_amid();
        spent.pipeline = spent.pipeline.saturating_sub(amid);
        let begin = Tsc::cycles();
        let passed_on = self.env.passed_on.len();
        if passed_on > 0 {
            self.pass_on();
        }
        let Env { pool, stats, outbox, .. } = &mut self.env;
        let originated = outbox.len();
        if originated > 0 {
            stats.add(Io::Originated, originated as u64);
            for (port, frame) in outbox.drain(..) {
                if let Err(frame) = queue(&mut self.ports, usize::from(port), frame, pool, stats) {
                    stats.drop_outside(drops::NO_ROUTE, frame.len());
                    pool.give(frame);
                }
            }
        }
        let mut sent = originated + passed_on;
        for id in 0..self.ports.len() {
            let waiting = self.ports[id].out.len();
            if waiting > 0 {
                sent += waiting;
                send(&mut self.ports, id, pool, stats);
            }
        }
        let kicked = self.kick_in_time(sent > 0, begin);
        self.sent_amid(); // by now it is within the time taken here
        if sent > 0 || kicked || amid > 0 {
            spent.tx += amid + Tsc::cycles().wrapping_sub(begin);
        }
        sent
    }

    /// Kicks the ports when as many packets wait as are worth a system call, or the first has waited for others long
    /// enough. Returns whether it did.
    #[inline]
    fn kick_in_time(&mut self, sent: bool, now: u64) -> bool {
        if !sent && self.unkicked_since.is_none() {
            return false;
        }
        let most = self.ports.iter().map(|door| door.port.unkicked()).max().unwrap_or(0);
        if most == 0 {
            self.unkicked_since = None;
            return false;
        }
        let since = *self.unkicked_since.get_or_insert(now);
        if most < KICK_AT && !self.pace.is_gathered(since, now) {
            return false;
        }
        self.kick();
        true
    }

    /// Has every port send what it accepted.
    fn kick(&mut self) {
        self.unkicked_since = None;
        for door in &mut self.ports {
            door.port.kick(&mut self.env.pool);
        }
    }

    /// Charges a turn of `total` cycles that ended at `end`.
    fn account(&mut self, mut spent: Spent, total: u64, moved: bool, end: u64) {
        let mut other = total.saturating_sub(spent.rx + spent.pipeline + spent.tx);
        let stats = &self.env.stats;
        stats.add(Io::Turns, 1);
        stats.add(Io::BusyTurns, moved.into());
        if self.meter.is_due(total, end) {
            let (away, cpu_ns) = self.meter.read();
            stats.add(Io::NotRunningCycles, away);
            stats.set(Io::CpuNs, cpu_ns);
        }
        self.meter.settle([&mut spent.rx, &mut spent.pipeline, &mut spent.tx, &mut other]);
        stats.add(Io::TxCycles, spent.tx);
        if moved {
            stats.add(Io::RxCycles, spent.rx);
            stats.add(Io::PipelineCycles, spent.pipeline);
            stats.add(Io::OtherCycles, other);
        } else {
            stats.add(Io::IdleCycles, other + spent.rx + spent.pipeline);
        }
    }

    fn gauges(&self) {
        let stats = &self.env.stats;
        stats.set(Io::FreeSlots, self.env.pool.free() as u64);
        stats.set(Io::PortSlots, self.ports.iter().map(|door| door.port.held() as u64).sum());
        stats.set(Io::Held, (self.gateway.held() + self.again.len()) as u64);
        stats.set(Io::Allocations, pages::allocations_on_this_thread());
        self.count_losses();
    }

    /// Counts what ports have lost among the drops.
    fn count_losses(&self) {
        let mut sums = [0; Drop::BEFORE_RECEIVED.len() + Drop::AFTER_SENT.len()];
        for door in &self.ports {
            let counters = door.port.counters();
            let PortCounters { rx_ring_full, rx_no_frame, rx_too_long, rx_invalid, rx_abandoned, .. } = counters;
            let before = [rx_ring_full, rx_no_frame, rx_too_long, rx_invalid, rx_abandoned];
            let lost = before.into_iter().chain([counters.tx_errors, counters.tx_lost]);
            sums.iter_mut().zip(lost).for_each(|(sum, lost)| *sum += lost);
        }
        let reasons = Drop::BEFORE_RECEIVED.into_iter().chain(Drop::AFTER_SENT);
        reasons.zip(sums).for_each(|(reason, lost)| self.env.stats.set_lost_at_ports(reason, lost));
    }

    #[cold]
    fn flag_traced(&mut self, port: Option<usize>) {
        let (Some(port), Some(filter)) = (port, self.env.tracer.filter()) else { return };
        for i in 0..self.burst.len() {
            let bytes = self.env.arena().bytes(self.burst.frame(i));
            if self.gateway.follows(&filter, port as PortId, bytes) {
                let name = (port as PortId, self.ports[port].name.as_str());
                self.env.tracer.flag(&mut self.burst, i, name, &self.env);
            }
        }
    }

    /// Ends the worker: its ports give their slots back. Returns its pool, for the conservation check.
    pub fn close(mut self) -> (G, Env) {
        self.gateway.close(&mut self.env);
        for (_, frame) in self.again.drain(..) {
            self.env.stats.add(Io::HandedIn, 1);
            self.env.stats.drop_outside(drops::NO_OWNER, frame.len());
            self.env.pool.give(frame);
        }
        if let Some(hand_off) = &mut self.hand_off {
            let held = hand_off.end_hold();
            for (_, frame) in held.first.into_iter().chain(held.rest) {
                self.env.stats.add(Io::HandedIn, 1);
                self.env.stats.drop_outside(drops::NO_OWNER, frame.len());
                self.env.pool.give(frame);
            }
            while !hand_off.is_empty() {
                hand_off.receive(BURST, |_, _, frame| {
                    self.env.stats.add(Io::HandedIn, 1);
                    self.env.stats.drop_outside(drops::NO_OWNER, frame.len());
                    self.env.pool.give(frame);
                });
            }
        }
        for door in &mut self.ports {
            self.env.pool.give_all(&mut door.out);
            door.port.close(&mut self.env.pool);
        }
        self.count_losses();
        (self.gateway, self.env)
    }
}
