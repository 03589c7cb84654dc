//! A gateway as threads: workers on their CPUs, and the ends that control and onlookers hold.

use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use engine::{Time, Worker, WorkerConfig};
use frame::{Arena, Pool};
use port::Wires;
use upf::assemble::{AssembleError, assemble};

use crate::asked::Asked;
use crate::doors::{self, DoorError, Doors};
use crate::load::{LoadError, Loaded};
use crate::n4::{self, N4, N4Error};
use crate::observer::{self, Observer, WorkerEnds};
use crate::pin;
use crate::rest::{AGAIN, ControlWaker, EndNotice, Other, Rest, Wait, until};
use crate::snapshot::Snapshot;

/// A running gateway.
pub struct Process {
    observer: Arc<Observer>,
    arena: Arc<Arena>,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Worker<Asked>>>,
    /// Whether each worker's thread has come to its end.
    ended: Vec<Arc<AtomicBool>>,
    rest: Rest,
    /// When the last turn of control began, in nanoseconds of the workers' clock.
    turned: AtomicU64,
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
    #[error("no descriptors to wait on: {0}; raise LimitNOFILE= or `ulimit -n`")]
    Descriptors(std::io::Error),
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

/// What needs privileges: memory, ports and the sockets of N4. No thread runs yet.
pub struct Opened<'a> {
    loaded: &'a Loaded,
    arena: Arc<Arena>,
    ports: Vec<(Pool, Doors)>,
    n4: Option<n4::Sockets>,
    reading: n4::Reading,
}

impl<'a> Opened<'a> {
    /// Opens the ports.
    ///
    /// # Errors
    /// [`StartError`], each telling what to do; nothing is left open then.
    pub fn new(loaded: &'a Loaded, wires: &Wires) -> Result<Self, StartError> {
        let config = &loaded.config;
        let reading = n4::Reading::begin(config)?;
        let (slots, slot_bytes) = (config.frames.slots, config.frames.slot_bytes);
        let arena = doors::arena(doors::arena_config(&config.frames));
        let arena = arena.map_err(|source| StartError::Memory { slots, bytes: slot_bytes, source })?;
        let count = config.workers.count;
        let share = slots as usize / usize::from(count.max(1));
        let mut ports = Vec::new();
        for worker in 0..count {
            let mut pool = Pool::new(&arena, share);
            let doors = doors::open(loaded, worker, &mut pool, wires)?;
            ports.push((pool, doors));
        }
        Ok(Self { loaded, arena, ports, n4: n4::sockets(config)?, reading })
    }

    /// Puts the sessions in place and sets the workers going.
    ///
    /// # Errors
    /// [`StartError`], each telling what to do; nothing is left open then.
    pub fn start(self) -> Result<Process, StartError> {
        let Self { loaded, arena, ports: open, n4, reading } = self;
        let config = &loaded.config;
        let caps = open.first().map(|(_, doors)| doors.caps.clone()).unwrap_or_default();
        let (mut control, mut seats) = assemble(config, &caps).map_err(|error| match error {
            AssembleError::Config(error) => StartError::Config(loaded.wrong(&error)),
            other => StartError::Assemble(other),
        })?;
        let idle = config.workers.idle();
        let run = WorkerConfig { time: Time::real(), idle, burst: config.workers.burst };
        let waker = ControlWaker::new(control.waker().clone());
        let clock = observer::wall_clock(&run.time);
        let n4 = N4::open(n4, reading, config, &mut control, &mut seats, &clock, &waker)?;
        let sockets = n4.as_ref().map_or_else(|| Ok(Vec::new()), |(n4, _)| n4.to_wait_on());
        let rest = Rest::new(waker.clone(), sockets.map_err(StartError::Descriptors)?);
        let mut ends = Vec::new();
        let mut workers = Vec::new();
        for (n, (seat, (pool, doors))) in seats.into_iter().zip(open).enumerate() {
            let (plane, asker) = Asked::new(seat.plane);
            let worker = Worker::new(plane, seat.layout, pool, doors.ports, run.clone()).with_hand_off(seat.hand_off);
            let (stats, tracer) = (worker.env().stats.view(), worker.env().tracer.handle());
            let cpu = config.workers.cpus.get(n).copied();
            let (thread, waker) = (Arc::default(), worker.gateway().waker().clone());
            ends.push(WorkerEnds { cpu, stats, tracer, asker, glasses: doors.glasses, thread, waker });
            workers.push(worker);
        }
        let control = Arc::new(Mutex::new(control));
        let observer = Arc::new(Observer::new(config, ends, control, arena.clone(), run.time, waker));
        if let Some((n4, kept)) = n4 {
            // Set once, here.
            let _ = observer.n4.set(Mutex::new(n4));
            kept.map(|kept| observer.ledger.set(kept));
        }
        let (stop, turned) = (Arc::new(AtomicBool::new(false)), AtomicU64::new(0));
        let mut process = Process { observer, arena, stop, threads: Vec::new(), ended: Vec::new(), rest, turned };
        for (n, worker) in workers.into_iter().enumerate() {
            process.spawn(n as u16, worker).map_err(|source| StartError::Thread { worker: n as u16, source })?;
        }
        process.resolve();
        Ok(process)
    }
}

impl Process {
    /// Opens the ports, puts the sessions in place and sets the workers going.
    ///
    /// # Errors
    /// As [`Opened::new`] and [`Opened::start`].
    #[cfg(test)]
    pub fn start(loaded: &Loaded, wires: &Wires) -> Result<Self, StartError> {
        Opened::new(loaded, wires)?.start()
    }

    /// Where sessions are restored, has the next hops of all routes and tunnels resolved and waits for that, so that packets
    /// find their way as soon as the gateway is ready; for as long as a next hop that is there takes at most. Elsewhere the
    /// first packet asks: a next hop that is not up yet would be taken to be unreachable when it comes.
    fn resolve(&self) {
        const AT_MOST: Duration = Duration::from_secs(1);
        const AGAIN: Duration = Duration::from_millis(200);
        if self.observer.n4().and_then(|n4| n4.restored()).is_none_or(|restored| restored.sessions == 0) {
            return;
        }
        let (until, mut asked) = (Instant::now() + AT_MOST, Instant::now());
        loop {
            let again = asked.elapsed() >= AGAIN;
            if again {
                asked = Instant::now();
            }
            let now = self.observer.wall_clock().now;
            let silent = self.observer.control().resolve_next_hops(now, again);
            if silent.is_empty() {
                return;
            }
            if Instant::now() >= until {
                return self.tell_silent(&silent);
            }
            self.turn();
            // The workers take what they were given; what they say ends the sleep.
            self.rest_at_most(&[], AGAIN);
        }
    }

    fn tell_silent(&self, silent: &[(u8, IpAddr)]) {
        let ports = self.observer.ports();
        for (port, address) in silent {
            let view = ports.iter().filter(|view| view.worker == 0).nth((*port).into());
            let port = view.map_or("", |view| view.name.as_str());
            tracing::warn!(target: "port", event = "next_hop_silent", port, %address, "next hop {address} does not answer");
        }
    }

    fn spawn(&mut self, n: u16, mut worker: Worker<Asked>) -> std::io::Result<()> {
        let cpu = self.observer.workers.get(usize::from(n)).and_then(|ends| ends.cpu);
        let thread = self.observer.workers.get(usize::from(n)).map(|ends| ends.thread.clone()).unwrap_or_default();
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

    /// A turn of control: control planes, neighbours, events, churn. To be made again after each [`rest`](Self::rest).
    pub fn turn(&self) {
        self.observer.let_others_in();
        self.rest.waker().begin_turn();
        self.turned.store(self.observer.now_ns(), Ordering::Relaxed);
        self.observer.vitals().turned();
        self.observer.follow_addresses();
        match self.observer.n4() {
            Some(mut n4) => {
                n4.turn(&mut self.observer.control(), || self.observer.wall_clock());
                self.observer.note_levels(&n4, self.observer.now_ns());
            }
            None => self.observer.control().poll(self.observer.now_ns()),
        }
    }

    /// Waits until there is something for the next turn. Whether one of the `others` is ready.
    pub fn rest(&self, others: &[Other<'_>]) -> bool {
        self.rest_at_most(others, Duration::MAX)
    }

    fn rest_at_most(&self, others: &[Other<'_>], most: Duration) -> bool {
        let observer = &self.observer;
        self.rest.rest(others, most, observer.vitals(), || observer.now_ns(), || self.wait())
    }

    /// How long nothing is to be done.
    fn wait(&self) -> Wait {
        let n4 = self.observer.n4();
        if let Some(wait) = n4.as_ref().and_then(|n4| n4.wait()) {
            return wait;
        }
        let (mut control, now) = (self.observer.control(), self.observer.now_ns());
        // Events of workers are taken together.
        let since = Duration::from_nanos(now.saturating_sub(self.turned.load(Ordering::Relaxed)));
        if control.took_events() && since < AGAIN {
            return Wait::Short(AGAIN - since);
        }
        if self.rest.waker().is_called() || control.has_news() {
            return Wait::No;
        }
        let of_n4 = n4.and_then(|n4| n4.endpoint().next_deadline());
        let deadlines = [control.next_deadline(), of_n4, self.observer.next_address()];
        Wait::Long(until(deadlines.into_iter().flatten().min(), now))
    }

    /// A worker that has ended by itself, if one has.
    pub fn broken(&self) -> Option<usize> {
        self.ended.iter().position(|ended| ended.load(Ordering::Acquire))
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
        self.observer.workers.iter().for_each(|worker| worker.waker.wake());
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
