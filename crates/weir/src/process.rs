//! A gateway as threads: workers on their CPUs, and the ends that control and onlookers hold.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use engine::{Idle, Time, Worker, WorkerConfig};
use frame::{Arena, ArenaConfig, HEADROOM, Pool};
use port::Wires;
use upf::assemble::{AssembleError, assemble};

use crate::asked::Asked;
use crate::doors::{self, DoorError};
use crate::load::{LoadError, Loaded};
use crate::n4::{N4, N4Error};
use crate::observer::{self, Observer, WorkerEnds};
use crate::pin;
use crate::snapshot::Snapshot;

/// A running gateway.
pub struct Process {
    observer: Arc<Observer>,
    arena: Arc<Arena>,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Worker<Asked>>>,
}

/// Why a gateway does not start.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum StartError {
    #[error("the configuration is wrong")]
    Config(#[from] LoadError),
    #[error(transparent)]
    Door(#[from] DoorError),
    #[error(transparent)]
    Assemble(AssembleError),
    #[error("no memory for {slots} slots of {bytes} bytes: {source}; lower [frames] slots")]
    Memory { slots: u32, bytes: u16, source: std::io::Error },
    #[error(transparent)]
    N4(#[from] N4Error),
    #[error("no thread for worker {worker}: {source}")]
    Thread { worker: u16, source: std::io::Error },
}

/// What became of a gateway.
#[derive(Debug)]
pub struct Ended {
    /// Its last counters.
    pub last: Snapshot,
    /// Slots that did not come back; 0 when the conservation law of slots held.
    pub slots_missing: i64,
    /// Workers that did not end by themselves.
    pub crashed: usize,
}

impl Process {
    /// Opens the ports, puts the sessions in place and sets the workers going.
    ///
    /// # Errors
    /// [`StartError`], each telling what to do; nothing is left open then.
    pub fn start(loaded: &Loaded, wires: &Wires) -> Result<Self, StartError> {
        let config = &loaded.config;
        let (slots, slot_bytes) = (config.frames.slots, config.frames.slot_bytes);
        let arena = Arena::new(ArenaConfig { slots, slot_bytes, headroom: HEADROOM });
        let arena = arena.map_err(|source| StartError::Memory { slots, bytes: slot_bytes, source })?;
        let count = config.workers.count;
        let share = slots as usize / usize::from(count.max(1));
        let mut open = Vec::new();
        for worker in 0..count {
            let mut pool = Pool::new(&arena, share);
            let doors = doors::open(loaded, worker, &mut pool, wires)?;
            open.push((pool, doors));
        }
        let caps = open.first().map(|(_, doors)| doors.caps.clone()).unwrap_or_default();
        let (mut control, mut seats) = assemble(config, &caps).map_err(|error| match error {
            AssembleError::Config(error) => StartError::Config(loaded.wrong(&error)),
            other => StartError::Assemble(other),
        })?;
        let idle = if config.workers.poll { Idle::POLL } else { Idle::default() };
        let run = WorkerConfig { time: Time::real(), idle, burst: config.workers.burst };
        let n4 = N4::open(config, &mut control, &mut seats, &observer::wall_clock(&run.time))?;
        let mut ends = Vec::new();
        let mut workers = Vec::new();
        for (n, (seat, (pool, doors))) in seats.into_iter().zip(open).enumerate() {
            let (plane, asker) = Asked::new(seat.plane);
            let worker = Worker::new(plane, seat.layout, pool, doors.ports, run.clone()).with_hand_off(seat.hand_off);
            let (stats, tracer) = (worker.env().stats.view(), worker.env().tracer.handle());
            let cpu = config.workers.cpus.get(n).copied();
            ends.push(WorkerEnds { cpu, stats, tracer, asker, glasses: doors.glasses });
            workers.push(worker);
        }
        let control = Arc::new(Mutex::new(control));
        let observer = Arc::new(Observer::new(config, ends, control, arena.clone(), run.time));
        if let Some((n4, kept)) = n4 {
            // Set once, here.
            let _ = observer.n4.set(Mutex::new(n4));
            kept.map(|kept| observer.ledger.set(kept));
        }
        let mut process = Self { observer, arena, stop: Arc::new(AtomicBool::new(false)), threads: Vec::new() };
        for (n, worker) in workers.into_iter().enumerate() {
            process.spawn(n as u16, worker).map_err(|source| StartError::Thread { worker: n as u16, source })?;
        }
        Ok(process)
    }

    fn spawn(&mut self, n: u16, mut worker: Worker<Asked>) -> std::io::Result<()> {
        let cpu = self.observer.workers.get(usize::from(n)).and_then(|ends| ends.cpu);
        let stop = self.stop.clone();
        let turn = move || {
            // The configuration was checked; a CPU taken from us since is not worth stopping for.
            let _ = cpu.map(pin::pin);
            worker.run(&stop);
            worker
        };
        self.threads.push(std::thread::Builder::new().name(format!("weir-{n}")).spawn(turn)?);
        Ok(())
    }

    /// What onlookers see.
    pub fn observer(&self) -> &Arc<Observer> {
        &self.observer
    }

    /// A turn of control: control planes, neighbours, events, churn. Called about every millisecond.
    pub fn turn(&self) {
        let clock = self.observer.wall_clock();
        match self.observer.n4() {
            Some(mut n4) => n4.turn(&mut self.observer.control(), &clock),
            None => self.observer.control().poll(clock.now),
        }
    }

    /// Waits until a control plane says something, a millisecond at most.
    pub fn rest(&self) {
        const REST: Duration = Duration::from_millis(1);
        match self.observer.n4() {
            Some(n4) => n4.wait(REST),
            None => std::thread::sleep(REST),
        }
    }

    /// Whether a worker has ended by itself.
    pub fn is_broken(&self) -> bool {
        self.threads.iter().any(JoinHandle::is_finished)
    }

    /// Stops the workers and closes their ports: interfaces are as they were.
    pub fn stop(mut self) -> Ended {
        let crashed = self.halt();
        let last = self.observer.snapshot();
        let slots_missing = i64::from(self.arena.shape().slots) - self.arena.in_depot() as i64;
        Ended { last, slots_missing, crashed }
    }

    fn halt(&mut self) -> usize {
        self.stop.store(true, Ordering::Relaxed);
        // Closed only when all stand still: until then they may hand packets to each other.
        let stopped: Vec<_> = self.threads.drain(..).map(JoinHandle::join).collect();
        let clock = self.observer.wall_clock();
        if let Some(mut n4) = self.observer.n4().filter(|_| !stopped.is_empty()) {
            n4.close(&clock, &mut |worker, handle| {
                stopped.get(usize::from(worker))?.as_ref().ok()?.gateway().usage(handle, clock.now)
            });
        }
        let close = |worker: Result<Worker<Asked>, _>| worker.map(Worker::close).is_err();
        stopped.into_iter().map(|worker| usize::from(close(worker))).sum()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.halt();
    }
}
