//! Groups of subscribers that move from one worker to another: what workers do of it between bursts.
//!
//! ```text
//! drain    every worker, as it takes the new steering table, puts a mark into its ring to the old owner
//!          the old owner has all marks, and nothing waits in its own queues: no packet of the group is left there
//! copy     the old owner exports the group's state to the new one, then puts a mark into its ring to every worker; those
//!          that are neither owner pass it on to the new one
//! switch   the new owner has the state and all marks: it releases what it held, in the order in which it came
//! ```
//!
//! From the moment a worker has the new table it sends the group's packets to the new owner, which holds them. A packet that
//! went to the old owner is in its ring before the mark, so it is forwarded there before the state leaves; one that went to
//! the new owner is released after the state is there. So packets that come in by one worker stay in order, and each is
//! counted once. What the old owner passes on (packets from one subscriber of the group to another, of which it saw the first
//! half) is older than what others send, and released first. What it passed on to a third worker is forwarded there before that
//! worker passes the mark on, and so before anything that the new owner sends there. What announces the group afterwards is the gateway's.

use std::collections::VecDeque;

use frame::Frame;

use crate::gateway::PortId;
use crate::steer::Owner;

/// Bit of an [`Owner`]: the subscriber's group is on its way to that worker, which holds packets until it is there.
pub const ARRIVING: Owner = 1 << 15;

/// Numbers of ports.
const PORTS: usize = 1 << PortId::BITS;

/// How far the export of a group has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Departure {
    /// There is more to export.
    More,
    /// The new owner has to take something first.
    Full,
    /// All is exported.
    Done,
}

/// Where packets of a group wait that come before its state.
#[derive(Debug, Default)]
pub struct Room {
    /// Those that the old owner sent: they are older than all others of their flows.
    pub(crate) first: VecDeque<(PortId, Frame)>,
    pub(crate) rest: VecDeque<(PortId, Frame)>,
    most: usize,
    /// How many came in by each port.
    by_port: Vec<usize>,
}

impl Room {
    /// Room for so many packets; those that come in by one port take no more than half of it.
    pub fn of(packets: usize) -> Self {
        let queue = || VecDeque::with_capacity(packets);
        Self { first: queue(), rest: queue(), most: packets, by_port: vec![0; PORTS] }
    }

    pub(crate) fn len(&self) -> usize {
        self.first.len() + self.rest.len()
    }

    /// Keeps a packet; gives it back when there is no room.
    pub(crate) fn keep(&mut self, first: bool, port: PortId, frame: Frame) -> Result<(), Frame> {
        let Some(of_port) = self.by_port.get_mut(usize::from(port)).filter(|count| **count < self.most.div_ceil(2))
        else {
            return Err(frame);
        };
        if self.first.len() + self.rest.len() >= self.most {
            return Err(frame);
        }
        *of_port += 1;
        if first { &mut self.first } else { &mut self.rest }.push_back((port, frame));
        Ok(())
    }

    /// Takes the oldest packet out; only if it came in by that port, if one is given.
    pub(crate) fn next(&mut self, of: Option<PortId>) -> Option<(PortId, Frame)> {
        let queue = if self.first.is_empty() { &mut self.rest } else { &mut self.first };
        let (port, _) = queue.front().filter(|(port, _)| of.is_none_or(|of| of == *port))?;
        if let Some(of_port) = self.by_port.get_mut(usize::from(*port)) {
            *of_port -= 1;
        }
        queue.pop_front()
    }
}

/// What a worker saw of a group that has arrived.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Arrival {
    /// Packets that were held.
    pub held: u64,
    /// For how long the first of them was held, in nanoseconds.
    pub pause_ns: u64,
}

/// A group that leaves this worker.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Leaving {
    pub to: Owner,
    /// Workers whose marks are awaited, as bits.
    pub awaited: u64,
    /// Marks of earlier moves are not forgotten yet.
    pub fresh: bool,
    /// This worker has the new steering table.
    pub switched: bool,
    /// All is exported; only marks are left.
    pub exported: bool,
    /// Workers that are still to have the mark, as bits.
    pub marks: u64,
}

/// A group that comes to this worker.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arriving {
    pub from: Owner,
    /// Workers whose marks are awaited, as bits.
    pub awaited: u64,
    /// The state is there.
    pub complete: bool,
    /// What was held is being released, so many so far; none: not yet.
    pub release: Option<Arrival>,
}

/// Moves that a worker takes part in: at most one at a time. The gateway tells of it while it carries out commands.
#[derive(Default)]
pub struct Moves {
    pub(crate) leaving: Option<Leaving>,
    pub(crate) arriving: Option<Arriving>,
    /// The old owner, which is to have this worker's mark.
    pub(crate) mark: Option<Owner>,
    /// The old and the new owner, neither of them this worker: the one's mark is passed on to the other.
    pub(crate) relay: Option<(Owner, Owner)>,
    /// A packet that was held is being forwarded.
    pub(crate) releasing: bool,
    /// Room for packets to be held, until the worker takes it.
    pub(crate) room: Option<Room>,
}

impl Moves {
    /// A group of this worker leaves for worker `to`; `others` are all workers but this one, as bits. Before any worker has the
    /// new steering table.
    pub fn depart(&mut self, to: Owner, others: u64) {
        self.leaving =
            Some(Leaving { to, awaited: others, fresh: true, switched: false, exported: false, marks: others });
    }

    /// A group of worker `from` comes to this one; `others` are all workers but this one, as bits; `room` is where the group's
    /// packets wait. Before any worker has the new steering table.
    pub fn arrive(&mut self, from: Owner, others: u64, room: Room) {
        self.arriving = Some(Arriving { from, awaited: others, complete: false, release: None });
        self.room = Some(room);
    }

    /// This worker steers by the new table from now on; the group goes from worker `from` to worker `to`.
    pub fn switched(&mut self, from: Owner, to: Owner) {
        self.mark = Some(from);
        self.relay = Some((from, to));
    }

    /// Whether a group is on its way here, and what is for it must wait.
    pub fn is_arriving(&self) -> bool {
        self.arriving.is_some() && !self.releasing
    }

    #[inline(always)]
    pub(crate) fn is_idle(&self) -> bool {
        self.leaving.is_none() && self.arriving.is_none() && self.mark.is_none() && self.relay.is_none()
    }
}
