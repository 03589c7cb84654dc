//! The cable gateway as threads: workers on their CPUs, and the ends that control and onlookers hold.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use cmts::assemble::{AssembleError, assemble, succeed};
use cmts::config;
use cmts::gateway::CableGateway;
use cmts::standby::{Estate, Legacy};
use engine::{Time, Worker, WorkerConfig};
use frame::{Arena, Pool};
use port::Wires;

use super::Loaded;
use super::observer::{Ends, Observer};
use crate::doors::{DoorError, Doors, Entry, Place};
use crate::load::LoadError;
use crate::pin;
use crate::process::Ended;
use crate::rest::{AGAIN, ControlWaker, EndNotice, Other, Rest, Wait, until};

/// What is in the cipher and in DEPI packets leaves within microseconds.
const SETTLE: Duration = Duration::from_millis(50);

/// A running cable gateway.
pub struct Process {
    observer: Arc<Observer>,
    arena: Arc<Arena>,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Worker<CableGateway>>>,
    /// Whether each worker's thread has come to its end.
    ended: Vec<Arc<AtomicBool>>,
    rest: Rest,
    /// When the last turn of control began, in nanoseconds of the workers' clock.
    turned: AtomicU64,
}

/// Why it does not start.
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
    #[error("no thread for worker {worker}: {source}")]
    Thread { worker: u16, source: std::io::Error },
}

fn entry(port: &config::Port) -> Entry<'_> {
    let config::Port { name, uri, addresses, claim_interface, .. } = port;
    Entry { name, uri, addresses, claim_interface: *claim_interface }
}

/// What needs privileges: memory and ports. No thread runs yet.
pub struct Opened<'a> {
    loaded: &'a Loaded,
    arena: Arc<Arena>,
    ports: Vec<(Pool, Doors)>,
}

impl<'a> Opened<'a> {
    /// Opens the ports.
    ///
    /// # Errors
    /// [`StartError`], each telling what to do; nothing is left open then.
    pub fn new(loaded: &'a Loaded, wires: &Wires) -> Result<Self, StartError> {
        let config = &loaded.config;
        let (slots, slot_bytes) = (config.frames.slots, config.frames.slot_bytes);
        let arena = crate::doors::arena(crate::doors::arena_config(&config.frames));
        let arena = arena.map_err(|source| StartError::Memory { slots, bytes: slot_bytes, source })?;
        let workers = config.workers.count;
        let mut ports = Vec::new();
        for worker in 0..workers {
            let mut pool = Pool::new(&arena, slots as usize / usize::from(workers.max(1)));
            let place = Place { text: &loaded.text, worker, workers, wires };
            let entries = config.port.iter().map(entry);
            let doors = place.open(entries, port::Steer::new(), &mut pool)?;
            ports.push((pool, doors));
        }
        Ok(Self { loaded, arena, ports })
    }

    /// Sets the workers going; with an estate, where another process stopped.
    ///
    /// # Errors
    /// [`StartError`], each telling what to do; nothing is left open then.
    pub fn start(self, estate: Option<Estate>) -> Result<Process, StartError> {
        let Self { loaded, arena, ports: open } = self;
        let config = &loaded.config;
        let caps = open.first().map(|(_, doors)| doors.caps.clone()).unwrap_or_default();
        let made = match estate {
            None => assemble(config, &caps),
            Some(estate) => succeed(config, &caps, estate),
        };
        let (control, seats) = made.map_err(|error| match error {
            AssembleError::Config(error) => StartError::Config(loaded.wrong(&error)),
            other => StartError::Assemble(other),
        })?;
        let idle = config.workers.idle();
        let run = WorkerConfig { time: Time::real(), idle, burst: config.workers.burst };
        let (mut ends, mut ready) = (Vec::new(), Vec::new());
        for (n, (seat, (pool, doors))) in seats.into_iter().zip(open).enumerate() {
            let worker = Worker::new(seat.gateway, seat.layout, pool, doors.ports, run.clone());
            let worker = worker.with_hand_off(seat.hand_off);
            let cpu = config.workers.cpus.get(n).copied();
            let (stats, tracer) = (worker.env().stats.view(), worker.env().tracer.handle());
            let (thread, waker) = (Arc::<AtomicI32>::default(), worker.gateway().waker().clone());
            ends.push(Ends { cpu, stats, tracer, glasses: doors.glasses, thread: thread.clone(), waker });
            ready.push((worker, thread));
        }
        let waker = ControlWaker::new(control.waker().clone());
        let rest = Rest::new(waker.clone(), Vec::new());
        let observer = Arc::new(Observer::new(control, ends, arena.clone(), run.time, waker));
        let (stop, turned) = (Arc::new(AtomicBool::new(false)), AtomicU64::new(0));
        let mut process = Process { observer, arena, stop, threads: Vec::new(), ended: Vec::new(), rest, turned };
        for (n, ready) in ready.into_iter().enumerate() {
            let cpu = config.workers.cpus.get(n).copied();
            process.spawn(n as u16, cpu, ready).map_err(|source| StartError::Thread { worker: n as u16, source })?;
        }
        Ok(process)
    }
}

impl Process {
    /// Sets a worker going; its thread enters its number.
    fn spawn(
        &mut self,
        n: u16,
        cpu: Option<usize>,
        (mut worker, thread): (Worker<CableGateway>, Arc<AtomicI32>),
    ) -> std::io::Result<()> {
        let stop = self.stop.clone();
        let (notice, ended) = EndNotice::new(self.rest.waker());
        self.ended.push(ended);
        let turn = move || {
            let _notice = notice;
            thread.store(rustix::thread::gettid().as_raw_pid(), Ordering::Release);
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

    /// A turn of control. To be made again after each [`rest`](Self::rest).
    pub fn turn(&self) {
        self.rest.waker().begin_turn();
        let now = self.observer.now_ns();
        self.turned.store(now, Ordering::Relaxed);
        self.observer.vitals().turned();
        self.observer.control().poll(now);
        self.observer.follow_addresses();
    }

    /// Waits until there is something for the next turn. Whether one of the `others` is ready.
    pub fn rest(&self, others: &[Other<'_>]) -> bool {
        let observer = &self.observer;
        self.rest.rest(others, Duration::MAX, observer.vitals(), || observer.now_ns(), || self.wait())
    }

    /// How long nothing is to be done.
    fn wait(&self) -> Wait {
        let (mut control, now) = (self.observer.control(), self.observer.now_ns());
        // Events of workers are taken together.
        let since = Duration::from_nanos(now.saturating_sub(self.turned.load(Ordering::Relaxed)));
        if control.took_events() && since < AGAIN {
            Wait::Short(AGAIN - since)
        } else if self.rest.waker().is_called() || control.has_news() {
            Wait::No
        } else {
            let deadlines = [control.next_deadline(), self.observer.next_address()];
            Wait::Long(until(deadlines.into_iter().flatten().min(), now))
        }
    }

    /// A worker that has ended by itself, if one has.
    pub fn broken(&self) -> Option<usize> {
        self.ended.iter().position(|ended| ended.load(Ordering::Acquire))
    }

    fn stop_workers(&self) {
        self.stop.store(true, Ordering::Relaxed);
        self.observer.ends.iter().for_each(|ends| ends.waker.wake());
    }

    /// Stops the workers and closes their ports.
    pub fn stop(mut self) -> Ended {
        let crashed = self.halt();
        let last = self.observer.snapshot();
        let slots_missing = i64::from(self.arena.shape().slots) - self.arena.in_depot() as i64;
        Ended { last, slots_missing, crashed }
    }

    /// Stops the workers; what waits in service flows is given to whoever goes on. Their ports close last: until then they
    /// take packets in.
    pub fn hand_over(mut self) -> (Ended, Vec<Legacy>) {
        self.stop_workers();
        let mut workers: Vec<_> = self.threads.drain(..).map(JoinHandle::join).collect();
        workers.iter_mut().flatten().for_each(|worker| worker.gateway_mut().seal());
        let until = Instant::now() + SETTLE;
        while workers.iter().flatten().any(|worker| !worker.gateway().is_settled()) && Instant::now() < until {
            workers.iter_mut().flatten().for_each(|worker| {
                worker.turn();
            });
        }
        let crashed = workers.iter().filter(|worker| worker.is_err()).count();
        let closed: Vec<_> = workers.into_iter().map(|worker| worker.map(Worker::close)).collect();
        let legacy =
            |closed: Result<(CableGateway, _), _>| closed.map_or_else(|_| Legacy::default(), |mut c| c.0.legacy());
        let legacies = closed.into_iter().map(legacy).collect();
        let slots_missing = i64::from(self.arena.shape().slots) - self.arena.in_depot() as i64;
        (Ended { last: self.observer.snapshot(), slots_missing, crashed }, legacies)
    }

    fn halt(&mut self) -> usize {
        self.stop_workers();
        // Closed only when all stand still: until then they may hand packets to each other.
        let stopped: Vec<_> = self.threads.drain(..).map(JoinHandle::join).collect();
        stopped.into_iter().map(|worker| usize::from(worker.map(Worker::close).is_err())).sum()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.halt();
    }
}
