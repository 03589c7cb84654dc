//! A gateway as threads: workers on their CPUs, and the ends that control and onlookers hold.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use engine::{Gateway as _, Time, Worker, WorkerConfig, WorkerInit};
use frame::{Arena, Caps, Pool};
use port::{Steer, Wires};

use super::observe::{PortName, Shell, WorkerEnds};
use super::pin;
use super::ports::{self, Place, PortsError, WorkerPorts};
use super::product::{Gateway, Loaded, Product};
use super::rest::{ControlWaker, EndNotice, Other, Rest};
use super::sections::Sections;
use crate::host_routing::{self, HostPort};
use crate::load::LoadError;
use crate::metrics::Monitored;
use crate::snapshot::Snapshot;
use crate::watch::Vitals;

/// A running gateway.
pub struct Process<P: Product> {
    observer: Arc<P>,
    arena: Arc<Arena>,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Worker<P::Plane>>>,
    /// Workers that stand still, all or none.
    standing: Vec<Worker<P::Plane>>,
    /// Each worker's CPU, and where its thread enters its number.
    seats: Vec<(Option<usize>, Arc<AtomicI32>)>,
    /// Whether each worker's thread has come to its end.
    ended: Vec<Arc<AtomicBool>>,
    rest: Rest,
    /// When the last turn of control began, in nanoseconds of the workers' clock.
    turned: AtomicU64,
    /// Host interfaces beside its ports, until whoever serves them takes them.
    host: Vec<HostPort>,
}

/// Why a gateway does not start.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum StartError {
    #[error("the configuration is wrong")]
    Config(#[from] LoadError),
    #[error(transparent)]
    Port(#[from] PortsError),
    #[error("no memory for {slots} packet buffers of {bytes} bytes: {source}; lower [frames] packet_buffers")]
    Memory { slots: u32, bytes: u16, source: std::io::Error },
    #[error("no descriptors to wait on: {0}; raise LimitNOFILE= or `ulimit -n`")]
    Descriptors(std::io::Error),
    #[error("no thread for worker {worker}: {source}")]
    Thread { worker: u16, source: std::io::Error },
    /// What only one gateway can suffer.
    #[error(transparent)]
    Gateway(Box<dyn std::error::Error + Send + Sync>),
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

/// All workers, and what they share with control.
pub struct WorkerInits<G> {
    /// The workers, in order.
    pub workers: Vec<WorkerInit<G>>,
    /// The clock of all workers and of control, in nanoseconds.
    pub time: Time,
    /// Calls the control thread.
    pub waker: ControlWaker,
    /// What ends a sleep of the control thread when there is something to read.
    pub sockets: Vec<OwnedFd>,
    /// What probes are answered from.
    pub vitals: Arc<Vitals>,
}

/// What needs privileges: memory and ports. No thread runs yet.
pub struct Opened {
    arena: Arc<Arena>,
    ports: Vec<(Pool, WorkerPorts)>,
    /// Host interfaces beside them.
    host: Vec<HostPort>,
}

impl Opened {
    /// Opens the ports; those that can steer do by `steer`.
    ///
    /// # Errors
    /// [`StartError`], each telling what to do; nothing is left open then.
    pub fn new<G: Gateway>(loaded: &Loaded<G>, steer: Steer, wires: &Wires) -> Result<Self, StartError> {
        let head = loaded.config.head();
        let (slots, slot_bytes) = (head.frames.packet_buffers, head.frames.packet_buffer_bytes);
        let arena = ports::arena(ports::arena_config(head.frames), head.uris());
        let arena = arena.map_err(|source| StartError::Memory { slots, bytes: slot_bytes, source })?;
        let workers = head.workers.count;
        let flows = if workers > 1 { G::flows(&loaded.config) } else { Vec::new() };
        let mut ports = Vec::new();
        for worker in 0..workers {
            let share = slots.saturating_sub(G::spare_buffers(&loaded.config)) as usize / usize::from(workers.max(1));
            let mut pool = Pool::new(&arena, share);
            let place = Place { text: &loaded.text, worker, workers, wires };
            let of_worker = place.open(&head.ports, (steer.clone(), &flows), &mut pool)?;
            ports.push((pool, of_worker));
        }
        if let Some((_, first)) = ports.first() {
            first.report_unsteered(&head.ports);
        }
        let caps = ports.iter().flat_map(|(_, of_worker)| &of_worker.caps);
        let reserved = Reserved::of::<G>(&loaded.config, caps);
        share_out(&arena, reserved, 0, ports.iter_mut().map(|(pool, _)| pool).collect());
        ports::report_queues_not_served(&head.ports, ports.iter().map(|(_, of_worker)| of_worker));
        let host = match ports.first_mut() {
            Some((_, first)) => host_routing::open(&head.ports, &mut first.caps)?,
            None => Vec::new(),
        };
        Ok(Self { arena, ports, host })
    }

    /// Of packet memory, and each worker's part of it and ports.
    pub(super) fn of(arena: Arc<Arena>, ports: Vec<(Pool, WorkerPorts)>) -> Self {
        Self { arena, ports, host: Vec::new() }
    }

    /// What the ports of each worker are.
    pub fn caps(&self) -> &[Caps] {
        self.ports.first().map_or(&[], |(_, ports)| &ports.caps)
    }

    /// Sets the workers going; `product` is given the reading ends.
    ///
    /// # Errors
    /// [`StartError::Thread`]; nothing is left open then.
    pub fn start<G: Gateway>(
        self,
        loaded: &Loaded<G>,
        all: WorkerInits<<G::Product as Product>::Plane>,
        product: impl FnOnce(Shell) -> G::Product,
    ) -> Result<Process<G::Product>, StartError> {
        let mut process = self.stand::<G>(loaded, all, product);
        process.go()?;
        Ok(process)
    }

    /// As [`start`](Self::start), with workers that [do not run](Process::standing) yet.
    pub fn stand<G: Gateway>(
        self,
        loaded: &Loaded<G>,
        all: WorkerInits<<G::Product as Product>::Plane>,
        product: impl FnOnce(Shell) -> G::Product,
    ) -> Process<G::Product> {
        let Self { arena, ports, host } = self;
        let WorkerInits { workers, time, waker, sockets, vitals } = all;
        let head = loaded.config.head();
        let run = WorkerConfig { time, idle: head.workers.idle(), burst: head.workers.burst };
        let (mut ends, mut standing, mut seats) = (Vec::new(), Vec::new(), Vec::new());
        for (n, (init, (pool, ports))) in workers.into_iter().zip(ports).enumerate() {
            let waker = init.plane.waker().cloned();
            let worker = Worker::new(init.plane, init.layout, pool, ports.ports, run.clone());
            let worker = worker.with_hand_off(init.hand_off);
            let cpu = head.workers.cpus.get(n).copied();
            let (stats, tracer) = (worker.env().stats.view(), worker.env().tracer.handle());
            let thread = Arc::<AtomicI32>::default();
            ends.push(WorkerEnds { cpu, stats, tracer, port_stats: ports.port_stats, thread: thread.clone(), waker });
            standing.push(worker);
            seats.push((cpu, thread));
        }
        let rest = Rest::new(waker.clone(), sockets);
        let name = |port: &ports::PortEntry<'_>| PortName {
            name: port.name.to_owned(),
            uri: port.place(),
            is_logical: port.on.is_some(),
            role: port.role,
        };
        let names = head.ports.iter().map(name);
        let shell = Shell::new((G::NAME, G::TITLE), names.collect(), ends, arena.clone(), run.time, waker, vitals);
        let (observer, stop) = (Arc::new(product(shell)), Arc::new(AtomicBool::new(false)));
        let (threads, ended, turned) = (Vec::new(), Vec::new(), AtomicU64::new(0));
        Process { observer, arena, stop, threads, standing, seats, ended, rest, turned, host }
    }
}

/// Packet buffers that are no worker's.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Reserved {
    /// For others than workers and ports.
    pub spare: usize,
    /// What ports may hold beyond what they took when they were opened.
    pub ports: usize,
}

impl Reserved {
    /// Of a configuration whose workers have such ports.
    pub fn of<'c, G: Gateway>(config: &G::Config, caps: impl Iterator<Item = &'c Caps>) -> Self {
        let ports = caps.map(|caps| caps.keeps as usize).sum();
        Self { spare: G::spare_buffers(config) as usize, ports }
    }
}

/// Gives workers equal shares of the packet buffers that are free once ports have filled their rings, and of so many that will
/// be, without those that are reserved. If shares were of all buffers, the ports of a busy worker could find none while an idle
/// worker holds its share.
pub(super) fn share_out(arena: &Arena, reserved: Reserved, coming: usize, mut workers: Vec<&mut Pool>) {
    let free = coming + arena.in_depot() + workers.iter().map(|pool| pool.free()).sum::<usize>();
    let each = |reserved: usize| free.saturating_sub(reserved) / workers.len().max(1);
    // With few buffers they still move many at a time.
    let share = each(reserved.spare + reserved.ports).max(each(reserved.spare).min(Pool::BULK));
    workers.iter_mut().for_each(|pool| pool.set_share(share));
    workers.iter_mut().for_each(|pool| pool.restock());
}

impl<P: Product> Process<P> {
    /// Sets the workers going that stand still.
    ///
    /// # Errors
    /// [`StartError::Thread`].
    pub fn go(&mut self) -> Result<(), StartError> {
        self.stop.store(false, Ordering::Relaxed);
        let seats = self.seats.clone();
        let standing = std::mem::take(&mut self.standing);
        for (n, (worker, (cpu, thread))) in (0..).zip(standing.into_iter().zip(seats)) {
            self.spawn(n, worker, cpu, thread).map_err(|source| StartError::Thread { worker: n, source })?;
        }
        Ok(())
    }

    /// Stops the workers between bursts, with their ports open: see [`go`](Self::go).
    ///
    /// # Errors
    /// A worker has ended by itself; a sentence.
    pub fn freeze(&mut self) -> Result<(), String> {
        let stopped = self.stand_still();
        let count = stopped.len();
        self.standing.extend(stopped.into_iter().filter_map(Result::ok));
        if self.standing.len() < count {
            return Err("a worker has ended by itself".to_owned());
        }
        self.ended.clear();
        Ok(())
    }

    /// Host interfaces beside its ports, for whoever serves them.
    pub(crate) fn take_host(&mut self) -> Vec<HostPort> {
        std::mem::take(&mut self.host)
    }

    /// The workers that stand still, in order; none while they run.
    pub fn standing(&mut self) -> &mut [Worker<P::Plane>] {
        &mut self.standing
    }

    /// Sets a worker going; its thread enters its number.
    fn spawn(
        &mut self,
        n: u16,
        mut worker: Worker<P::Plane>,
        cpu: Option<usize>,
        thread: Arc<AtomicI32>,
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
    pub fn observer(&self) -> &Arc<P> {
        &self.observer
    }

    /// The reading ends that every gateway has.
    pub fn shell(&self) -> &Shell {
        self.observer.shell()
    }

    /// A turn of control. To be made again after each [`rest`](Self::rest).
    pub fn turn(&self) {
        let shell = self.shell();
        shell.let_others_in();
        self.rest.waker().begin_turn();
        self.turned.store(shell.now_ns(), Ordering::Relaxed);
        shell.vitals().turned();
        shell.follow_addresses(|port, mac| self.observer.set_port_mac(port, mac));
        self.observer.turn();
    }

    /// Waits until there is something for the next turn. Whether one of the `others` is ready.
    pub fn rest(&self, others: &[Other<'_>]) -> bool {
        self.rest_at_most(others, Duration::MAX)
    }

    /// As [`rest`](Self::rest), for `most` at most.
    pub fn rest_at_most(&self, others: &[Other<'_>], most: Duration) -> bool {
        let shell = self.shell();
        let wait = || {
            let since = shell.now_ns().saturating_sub(self.turned.load(Ordering::Relaxed));
            self.observer.wait(Duration::from_nanos(since))
        };
        self.rest.rest(others, most, shell.vitals(), || shell.now_ns(), wait)
    }

    /// A worker that has ended by itself, if one has.
    pub fn broken(&self) -> Option<usize> {
        self.ended.iter().position(|ended| ended.load(Ordering::Acquire))
    }

    /// Stops the workers and closes their ports: interfaces are as they were.
    pub fn stop(mut self) -> Ended {
        let crashed = self.halt();
        self.ended(crashed)
    }

    /// Stops the workers. `settle` sees them stand still with their ports open; after that these close, and `each` is given
    /// what every worker ran, in order; none of one that crashed.
    pub fn stop_with<T>(
        mut self,
        settle: impl FnOnce(&mut [std::thread::Result<Worker<P::Plane>>]),
        each: impl Fn(Option<P::Plane>) -> T,
    ) -> (Ended, Vec<T>) {
        let mut workers = self.stand_still();
        settle(&mut workers);
        self.observer.halted(&workers);
        let crashed = workers.iter().filter(|worker| worker.is_err()).count();
        let closed: Vec<_> = workers.into_iter().map(|worker| worker.ok().map(|worker| worker.close().0)).collect();
        (self.ended(crashed), closed.into_iter().map(each).collect())
    }

    fn ended(&self, crashed: usize) -> Ended {
        let slots_missing = i64::from(self.arena.shape().slots) - self.arena.in_depot() as i64;
        Ended { last: Monitored::snapshot(&*self.observer), slots_missing, crashed }
    }

    /// Closed only when all stand still: until then they may hand packets to each other.
    fn stand_still(&mut self) -> Vec<std::thread::Result<Worker<P::Plane>>> {
        self.stop.store(true, Ordering::Relaxed);
        self.shell().workers().iter().for_each(|worker| worker.wake());
        self.threads.drain(..).map(JoinHandle::join).collect()
    }

    fn halt(&mut self) -> usize {
        let mut stopped: Vec<_> = std::mem::take(&mut self.standing).into_iter().map(Ok).collect();
        stopped.extend(self.stand_still());
        if !stopped.is_empty() {
            self.observer.halted(&stopped);
        }
        stopped.into_iter().map(|worker| usize::from(worker.map(Worker::close).is_err())).sum()
    }
}

impl<P: Product> Drop for Process<P> {
    fn drop(&mut self) {
        self.halt();
    }
}

#[cfg(test)]
mod tests {
    use frame::ArenaConfig;

    use super::*;

    fn shares(slots: u32, taken: usize, reserved: Reserved) -> ([usize; 2], usize) {
        let arena = Arena::new(ArenaConfig { slots, ..ArenaConfig::default() }).expect("memory");
        let mut pools = [(); 2].map(|()| Pool::new(&arena, slots as usize / 2));
        // The first worker opens a device, whose rings are filled for both.
        let rings: Vec<_> = (0..taken).map(|_| pools[0].take().expect("a buffer")).collect();
        share_out(&arena, reserved, 0, pools.iter_mut().collect());
        let shared = (pools.each_ref().map(Pool::free), arena.in_depot());
        rings.into_iter().for_each(|frame| pools[1].give(frame));
        shared
    }

    #[test]
    fn shares_are_of_what_ports_leave() {
        let reserved = |spare, ports| Reserved { spare, ports };
        assert_eq!(shares(8192, 0, reserved(0, 0)), ([4096; 2], 0));
        assert_eq!(shares(8192, 2048, reserved(0, 0)), ([3072; 2], 0));
        assert_eq!(shares(8192, 2048, reserved(1024, 0)), ([2560; 2], 1024));
        assert_eq!(shares(8192, 2048, reserved(1024, 2000)), ([1560; 2], 3024));
    }

    #[test]
    fn few_buffers_are_shared_all_the_same() {
        let reserved = |spare, ports| Reserved { spare, ports };
        assert_eq!(shares(1024, 0, reserved(0, 2000)), ([256; 2], 512));
        assert_eq!(shares(512, 100, reserved(64, 2000)), ([174; 2], 64), "what others are to have is theirs");
        assert_eq!(shares(256, 0, reserved(0, 2000)), ([128; 2], 0));
    }

    #[test]
    fn what_will_be_free_is_shared() {
        let arena = Arena::new(ArenaConfig { slots: 1024, ..ArenaConfig::default() }).expect("memory");
        let mut before = Pool::new(&arena, 1024);
        let waiting: Vec<_> = (0..600).map(|_| before.take().expect("a buffer")).collect();
        drop(before);
        let mut pool = Pool::new(&arena, 0);
        share_out(&arena, Reserved::default(), waiting.len(), vec![&mut pool]);
        assert_eq!((pool.free(), arena.in_depot()), (424, 0));
        // It holds them when they come, and gives none up.
        waiting.into_iter().for_each(|frame| pool.give(frame));
        assert_eq!((pool.free(), arena.in_depot()), (1024, 0));
    }
}
