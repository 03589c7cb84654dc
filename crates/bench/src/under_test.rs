//! What a trial asks of the gateway it measures: everything else is the same for all gateways.

use std::ops::Range;

use engine::{Gateway, HandOff, Layout, Time};
use frame::Caps;
use traffic::Profile;

use crate::error::BenchError;

/// A gateway with the traffic it is put under. What is particular to one kind of gateway is in its implementation;
/// trials know no more than this.
pub trait UnderTest {
    /// What a worker runs.
    type Gateway: Gateway + 'static;

    /// Its kind, as results name it: `upf`.
    fn kind(&self) -> &'static str;

    /// The workload's name: `upf-128`.
    fn profile(&self) -> &'static str;

    /// The traffic for all of its subscribers.
    fn traffic(&self) -> Profile;

    /// Makes the gateway for so many workers. `caps` are those of its access port and its core port. Whom it will
    /// send to are known to it from the start, by the hardware addresses in the traffic.
    ///
    /// # Errors
    /// What cannot be, or what the machine has too little of.
    fn assemble(&self, workers: u16, caps: &[Caps; 2]) -> Result<Assembled<Self::Gateway>, BenchError>;
}

/// A gateway without ports.
pub struct Assembled<G> {
    /// A seat for each worker.
    pub seats: Vec<WorkerInit<G>>,
    /// The control side. It lives as long as the gateway, and is polled with the workers' time.
    pub control: Box<dyn Control>,
    /// Bytes of sessions, rules and indexes.
    pub session_bytes: usize,
}

/// What one worker will run.
pub struct WorkerInit<G> {
    /// The gateway.
    pub gateway: G,
    /// Its stages.
    pub layout: Layout,
    /// Its way to the gateway's other workers, when it has any.
    pub hand_off: Option<HandOff>,
    /// The subscribers it owns.
    pub users: Range<u32>,
}

/// The control side of a gateway under test.
pub trait Control: Send {
    /// Does what is due by the workers' clock, in nanoseconds.
    fn poll(&mut self, now_ns: u64);
}

/// What workers and control tell the time by.
pub fn time() -> Time {
    Time::real()
}
