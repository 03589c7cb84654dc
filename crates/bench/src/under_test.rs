//! What a trial asks of the gateway it measures: everything else is the same for all gateways.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use engine::{Gateway, Time, WorkerInit};
use frame::{ArenaConfig, Caps, Port};
use port::Steer;
use traffic::{LoadHandle, Profile, Schedule, TrialResult};
use wire::Mac;

use crate::error::BenchError;
use crate::report::Filled;
use crate::window::Window;
use crate::work_clock::WorkClock;

/// A gateway with the traffic it is put under. What is particular to one kind of gateway is in its implementation;
/// trials know no more than this.
pub trait UnderTest {
    /// What a worker runs.
    type Gateway: Gateway + 'static;

    /// What loads it in memory.
    type Load: MemoryLoad + 'static;

    /// Its kind, as results name it: `upf`.
    fn kind(&self) -> &'static str;

    /// The workload's name: `upf-128`.
    fn profile(&self) -> &str;

    /// Subscribers of a gateway, and their flows.
    fn size(&self) -> (u32, u64);

    /// Its ports in memory, in the order of its configuration.
    fn memory_ports(&self) -> Vec<Caps>;

    /// Packet memory of a worker in memory. Packets in flight fit many times over; so little stays in the second-level
    /// cache's reach.
    fn frames(&self) -> ArenaConfig {
        ArenaConfig { slots: 2048, ..ArenaConfig::default() }
    }

    /// Bytes of a worker's sessions, rules and indexes once it has had a turn.
    fn bytes(_gateway: &Self::Gateway) -> usize {
        0
    }

    /// Hardware addresses of the gateway's interfaces, access side first, where its own far ends are its load on links; none:
    /// they are not.
    fn wires(&self) -> Option<[Mac; 2]> {
        None
    }

    /// On interfaces that several workers share, who gets whose packets; what is not named goes by its hash.
    fn steer(&self, _workers: u16) -> Steer {
        Steer::new()
    }

    /// Packets that wait in a gateway's queues.
    fn waiting(_gateway: &Self::Gateway) -> u64 {
        0
    }

    /// Of those packets, the subscribers that they wait for, and their bytes.
    fn backlog(_gateway: &Self::Gateway) -> (u64, u64) {
        (0, 0)
    }

    /// How full queues were in windows where they are to be; none: they are not.
    fn filled(&self, _windows: &[Window]) -> Option<Filled> {
        None
    }

    /// What a gateway has counted of its own, beside what every worker counts: names and counts.
    fn counters(_gateway: &Self::Gateway) -> Vec<(&'static str, u64)> {
        Vec::new()
    }

    /// Makes the gateway for so many workers. `caps` are those of its ports, in the order of its configuration. Whom it
    /// will send to are known to it from the start, by the hardware addresses in the traffic.
    ///
    /// # Errors
    /// What cannot be, or what the machine has too little of.
    fn assemble(&self, workers: u16, caps: &[Caps]) -> Result<Assembled<Self::Gateway>, BenchError>;

    /// The far sides of a worker's ports, which make and check its subscribers' packets.
    ///
    /// # Errors
    /// What cannot be, or what the machine has too little of.
    fn far_side(&self, share: &Share) -> Result<FarSide<Self::Load>, BenchError>;

    /// The traffic of an access link and a core link; none: the workload has no ports but those in memory.
    fn on_links(&self) -> Option<Profile> {
        None
    }

    /// The same where interfaces were asked for.
    ///
    /// # Errors
    /// That the workload has none.
    fn links(&self) -> Result<Profile, BenchError> {
        let none = || match self.wires() {
            None => format!("{} is measured in memory only: leave --port away", self.profile()),
            Some(_) => format!(
                "{} over interfaces is one gateway of one worker on one kind of ports, with nothing varied",
                self.profile()
            ),
        };
        self.on_links().ok_or_else(|| BenchError::Asked(none()))
    }
}

/// A worker's part of a workload.
#[derive(Clone, Debug)]
pub struct Share {
    /// Workers of the gateway.
    pub workers: u16,
    /// Number of this worker, from 0.
    pub worker: u16,
    /// Numbers of the subscribers that it owns.
    pub users: Range<u32>,
    /// The number of its first flow, where flows are numbered over all workers.
    pub first_flow: u32,
}

/// What a worker's far ends take for themselves on its thread: cycles to make and to check packets; and of those to
/// make packets, the ones in turns in which none came.
pub type FarCycles = Arc<[AtomicU64; 3]>;

/// What stands in memory where a worker's interfaces would be.
pub struct FarSide<L> {
    /// Ports, in the order of [`UnderTest::memory_ports`].
    pub ports: Vec<Box<dyn Port>>,
    /// What drives them.
    pub load: L,
    /// Flows that it numbered.
    pub flows: u32,
}

/// Makes packets, and says what became of them.
pub trait MemoryLoad: Sized + Send + Sync {
    /// Packets are made from now on, at `pps` a second in both directions together; none: as many as are taken; 0: what
    /// earlier packets left on its way ends.
    fn start(&self, pps: Option<f64>);

    /// Counting begins; what was sent before is not counted.
    fn mark(&self);

    /// No more packets, and counting ends.
    fn stop(&self);

    /// What its ends take for themselves, to be taken off the worker's time; none where it is not told apart.
    fn far_cycles(&self) -> FarCycles {
        FarCycles::default()
    }

    /// Bytes that its ends made for each outer VLAN while packets were counted, and nanoseconds of the gateway's clock, where that
    /// is one which the packets move; none elsewhere.
    fn offered(&self) -> Option<(Vec<u64>, u64)> {
        None
    }

    /// The clock that its ends go by, if that is one which the worker's own work moves.
    fn work_clock(&self) -> Option<WorkClock> {
        None
    }

    /// What became of the packets of all loads, once all that were on their way have come.
    fn results(loads: &[Self]) -> TrialResult;
}

impl MemoryLoad for LoadHandle {
    fn start(&self, pps: Option<f64>) {
        Self::start(self, &Schedule { pps, ..Schedule::default() });
    }

    fn mark(&self) {
        Self::mark(self);
    }

    fn stop(&self) {
        Self::stop(self);
    }

    fn results(loads: &[Self]) -> TrialResult {
        Self::results(loads)
    }
}

/// A gateway without ports.
pub struct Assembled<G> {
    /// The workers, each with the subscribers it owns.
    pub workers: Vec<(WorkerInit<G>, Range<u32>)>,
    /// The control side. It lives as long as the gateway, and is polled with the workers' time.
    pub control: Box<dyn Control>,
}

/// The control side of a gateway under test.
pub trait Control: Send {
    /// Does what is due by the workers' clock, in nanoseconds.
    fn poll(&mut self, now_ns: u64);
}

impl<F: FnMut(u64) + Send> Control for F {
    fn poll(&mut self, now_ns: u64) {
        self(now_ns);
    }
}

/// What workers and control tell the time by.
pub fn time() -> Time {
    Time::real()
}
