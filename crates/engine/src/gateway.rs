//! What a gateway is to the worker that runs it.

use table::waker::Waker;

use crate::burst::Burst;
use crate::clock::Clock;
use crate::hand_off::HandOff;
use crate::moves::{Arrival, Departure, Room};
use crate::pipeline::{Env, Kind};
use crate::stats::Layout;
use crate::steer::SteerKey;
use crate::trace::TraceFilter;

/// A port's number among its worker's.
pub type PortId = u8;

/// What becomes a worker once it has its ports.
pub struct WorkerInit<G> {
    /// What it runs.
    pub plane: G,
    /// Stages of the gateway's pipelines, as entered when these were made.
    pub layout: Layout,
    /// Its ends of the rings between workers, when there are several.
    pub hand_off: Option<HandOff>,
}

/// What a worker runs: pipelines over a state, fed by ports, commands and timers.
pub trait Gateway: Send {
    /// Its family of pipelines.
    type Kind: Kind;

    /// Runs a burst that came in by `port` through its pipeline. Packets still live afterwards leave by the port set
    /// with [`Burst::set_out`].
    fn receive<C: Clock>(&mut self, port: PortId, burst: &mut Burst<Self::Kind>, env: &Env);

    /// Sees to the packets the pipeline punted, with all the time in the world by comparison: answers, events.
    /// Frames it does not take it leaves; they are given back. Each is counted as terminated or dropped here.
    fn punted(&mut self, burst: &mut Burst<Self::Kind>, env: &mut Env);

    /// Fills an empty burst from whatever holds packets and runs it on. False: nothing (more) is due.
    fn release<C: Clock>(&mut self, _burst: &mut Burst<Self::Kind>, _env: &mut Env) -> bool {
        false
    }

    /// Whether packets are to be [released](Self::release) before any other is received: those that come now are of the same
    /// flows and must not overtake them. There is an end to them even if nothing else happens.
    fn releases_first(&self) -> bool {
        false
    }

    /// Packets held now.
    fn held(&self) -> usize {
        0
    }

    /// Takes commands and new snapshots, a bounded number a turn. Returns how many.
    fn control(&mut self, _env: &mut Env) -> usize {
        0
    }

    /// Timers; called about once a millisecond while the worker is awake, and at [`Gateway::next_deadline`].
    fn tick(&mut self, _env: &mut Env) {}

    /// When [`Gateway::tick`] or [`Gateway::release`] has something to do next, in nanoseconds of the worker's clock; none:
    /// not before a packet or a command comes. Asked before the worker sleeps.
    fn next_deadline(&self) -> Option<u64> {
        None
    }

    /// Whether a packet that came in by `port` is of the traced subscriber. Only called while tracing.
    fn follows(&self, filter: &TraceFilter, port: PortId, packet: &[u8]) -> bool;

    /// A stage panicked on a burst: put away what may have caused it.
    fn after_panic(&mut self) {}

    /// The worker ends: frames still held go back, counted.
    fn close(&mut self, _env: &mut Env) {}

    /// What a packet that came in by `port` shows of its subscriber; none: whoever got it sees to it. Called for every
    /// packet when there are several workers.
    fn steer_key(&self, _port: PortId, _packet: &[u8]) -> Option<SteerKey> {
        None
    }

    /// Which of the ports on the device of `device` a packet that came in there is for: `device` itself, or one that
    /// [shares](frame::Caps::on) its device. Called for every packet of a device that is shared.
    fn port_of(&self, device: PortId, _packet: &[u8]) -> PortId {
        device
    }

    /// The worker is about to sleep, as its [waker](Self::waker) shows by now: last look. False: there is work after all.
    fn fall_asleep(&mut self) -> bool {
        true
    }

    /// Whether nothing of a group that leaves waits in queues of this gateway, other than what [`depart`](Self::depart) exports.
    /// Asked at the end of a turn, when no other worker sends packets of the group here any more.
    fn is_drained(&mut self) -> bool {
        true
    }

    /// Exports the next part of a group that leaves, for the gateway of the new owner. Called once a turn, when all packets of
    /// the group that came here are sent.
    fn depart(&mut self, _env: &mut Env) -> Departure {
        Departure::Done
    }

    /// Takes in what has come of a group on its way here. True: it is complete. Called once a turn.
    fn arrive(&mut self, _env: &mut Env) -> bool {
        true
    }

    /// A group has arrived, and its packets that were held are forwarded. `room` is where they were: control's to free.
    fn arrived(&mut self, _arrival: Arrival, _room: Room, _env: &mut Env) {}

    /// Ends the worker's sleep when a command waits.
    fn waker(&self) -> Option<&Waker> {
        None
    }
}
