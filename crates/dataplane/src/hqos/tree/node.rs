//! Nodes and ports: what leaves leave by.

use table::bucket;
use table::wheel::Handle;

use super::super::lease::Lease;
use super::super::room::Room;
use super::leaf::Standing;
use super::list::{Lists, Member, Place};
use super::longest::Longest;
use super::pace::Pace;

/// A node as control installs it: an S-VLAN, or the PON behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeSpec {
    /// The port it is reached by.
    pub port: u8,
    /// Its maximum rate and burst.
    pub rate: bucket::Config,
    /// Its share of the port among nodes; 0 counts as 1.
    pub weight: u16,
    /// Bytes that its rate counts beside each frame's (without CRC).
    pub overhead: u8,
}

/// What a node has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeCounts {
    /// Packets of all its leaves that left for its port.
    pub packets: u64,
    /// Bytes sent: frames without CRC.
    pub bytes: u64,
}

/// A node in the worker's hands.
pub(super) struct Node {
    pub pace: Pace,
    pub place: Place,
    pub deficit: i32,
    pub quantum: i32,
    pub timer: Option<Handle>,
    pub port: u8,
    pub overhead: u8,
    pub level: u8,
    pub standing: Standing,
    pub weight: u16,
    pub leaves: Lists,
    pub counts: NodeCounts,
}

impl Node {
    pub fn new(spec: &NodeSpec, now: u64) -> Self {
        let weight = spec.weight.max(1);
        Self {
            pace: Pace::new(spec.rate, now),
            place: Place::NONE,
            deficit: 0,
            quantum: super::QUANTUM.saturating_mul(i32::from(weight)),
            timer: None,
            port: spec.port,
            overhead: spec.overhead,
            level: super::list::SHARED,
            standing: Standing::Idle,
            weight,
            leaves: Lists::new(),
            counts: NodeCounts::default(),
        }
    }

    /// Takes other terms; what waits stays. Its port stays, too.
    pub fn change(&mut self, spec: &NodeSpec, now: u64) {
        self.pace.change(spec.rate, now);
        self.quantum = super::QUANTUM.saturating_mul(i32::from(spec.weight.max(1)));
        self.overhead = spec.overhead;
    }
}

impl Member for Node {
    #[inline(always)]
    fn place(&mut self) -> &mut Place {
        &mut self.place
    }
}

/// A worker's part of a port.
#[derive(Debug, Default)]
pub struct PortSpec {
    /// Of its rate; none: it is never too slow.
    pub lease: Option<Lease>,
    /// Of its buffer; none: only the worker's memory for queues is a bound.
    pub room: Option<Room>,
}

/// A port as far as this worker sends by it.
pub(super) struct Port {
    pub nodes: Lists,
    /// Its rate; none: it is never too slow.
    pub lease: Option<Lease>,
    room: Option<Room>,
    /// Bytes of frames that wait for it, and that may, of this worker.
    pub bytes: u64,
    pub most: u64,
    /// Its queues by length.
    pub longest: Longest,
    /// Weights of nodes in its lists.
    pub weight: u64,
}

/// Ethernet's preamble, CRC and gap between frames, which a port's rate counts (IEEE 802.3, 4A.4.2).
const ON_WIRE: u32 = 24;

impl Port {
    pub fn new(PortSpec { lease, room }: PortSpec) -> Self {
        let most = room.as_ref().map_or(u64::MAX, Room::most);
        Self { nodes: Lists::new(), lease, room, bytes: 0, most, longest: Longest::new(), weight: 0 }
    }

    #[inline(always)]
    pub fn turn(&mut self, now: u64) {
        if let Some(lease) = &mut self.lease {
            lease.turn(self.weight, now);
        }
        if let Some(room) = &mut self.room {
            room.turn(self.bytes, now);
            self.most = room.most();
        }
    }

    /// Much of what waited for it has gone, or come: other workers go by it at once.
    pub fn rest(&mut self, now: u64) {
        if let Some(room) = self.room.as_mut().filter(|room| room.published() != self.bytes) {
            room.look(self.bytes, now);
            self.most = room.most();
        }
    }

    #[inline(always)]
    pub(crate) fn may_send(&self) -> bool {
        self.lease.as_ref().is_none_or(Lease::may_send)
    }

    #[inline(always)]
    pub fn spend(&mut self, bytes: u32) {
        if let Some(lease) = &mut self.lease {
            lease.spend(bytes + ON_WIRE);
        }
    }
}
