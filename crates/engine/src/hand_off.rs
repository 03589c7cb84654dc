//! Packets that came in by another worker than their subscriber's.

use std::sync::Arc;

use frame::Frame;
use table::mesh::{Node, mesh};
use table::waker::Waker;

use crate::gateway::PortId;
use crate::moves::{ARRIVING, Room};
use crate::steer::{Most, Owner, Steer, SteerKey};

/// A worker's ends of the hand-off rings, and the steering table.
///
/// Where the device, the kernel or the choice of identifiers steers every packet to its owner, the rings stay empty and
/// cost a comparison or two a packet; where they can not, no packet is processed by two workers' states.
pub struct HandOff {
    node: Node<(u8, Frame)>,
    steer: Arc<Steer>,
    ours: Most,
    wakers: Arc<[Waker]>,
    /// Workers handed to in this turn, to be woken once.
    touched: u64,
    /// Marks that came, by sender.
    marks: u64,
    /// Packets of a group on its way to this worker; none: there is none.
    held: Option<Room>,
}

/// Packets a ring between two workers holds.
const RING: usize = 1024;
/// The port of what is no packet but a mark.
const MARK: u8 = u8::MAX;
/// No worker: the packet is to be held here.
pub(crate) const HERE: Owner = Owner::MAX;

impl HandOff {
    /// One for each of `workers` workers, joined with each other. `wakers` are theirs, by number; there may be fewer.
    pub fn among(workers: usize, steer: Steer, wakers: Vec<Waker>) -> Vec<Self> {
        let (steer, wakers): (Arc<Steer>, Arc<[Waker]>) = (Arc::new(steer), wakers.into());
        let make = |node: Node<_>| {
            let ours = steer.most_of(node.me() as Owner); // as many workers as owners have numbers
            Self { node, steer: steer.clone(), ours, wakers: wakers.clone(), touched: 0, marks: 0, held: None }
        };
        mesh(workers, RING).into_iter().map(make).collect()
    }

    /// This worker's number.
    pub(crate) fn me(&self) -> Owner {
        self.node.me() as Owner // as many workers as owners have numbers
    }

    /// The other worker that owns the subscriber, if it is another; or that its packets are held here, as `send` takes it.
    #[inline(always)]
    pub(crate) fn elsewhere(&self, key: SteerKey) -> Option<Owner> {
        if self.ours.has(key) { None } else { self.other(key) }
    }

    #[inline(never)]
    fn other(&self, key: SteerKey) -> Option<Owner> {
        let owner = self.steer.owner(key)?;
        if usize::from(owner & !ARRIVING) != self.node.me() {
            return Some(owner & !ARRIVING);
        }
        (owner & ARRIVING != 0 && self.held.is_some()).then_some(HERE)
    }

    /// Holds packets of a group on its way here from now on, as many as there is room for; marks of earlier moves are
    /// forgotten.
    pub(crate) fn hold(&mut self, room: Room) {
        self.marks = 0;
        self.held = Some(room);
    }

    /// Whether packets of a group on its way here are held.
    #[inline(always)]
    pub(crate) fn holds(&self) -> bool {
        self.held.is_some()
    }

    /// Whether any are.
    pub(crate) fn is_holding(&self) -> bool {
        self.held.as_ref().is_some_and(|held| held.len() > 0)
    }

    /// The packet that was held first; only if it came in by that port, if one is given.
    pub(crate) fn next_held(&mut self, of: Option<PortId>) -> Option<(PortId, Frame)> {
        self.held.as_mut()?.next(of)
    }

    /// What was held; nothing is held any more.
    pub(crate) fn end_hold(&mut self) -> Room {
        self.held.take().unwrap_or_default()
    }

    /// Forgets the marks that came: another group is about to leave.
    pub(crate) fn forget_marks(&mut self) {
        self.marks = 0;
    }

    /// Whether those workers' marks have come.
    pub(crate) fn has_marks(&self, of: u64) -> bool {
        self.marks & of == of
    }

    /// Puts a mark behind everything that was handed to a worker. False: its ring is full.
    #[must_use]
    pub(crate) fn mark(&mut self, to: Owner) -> bool {
        self.send(to, MARK, Frame::none()).is_ok()
    }

    /// Has a worker woken at the next [`nudge`](Self::nudge).
    pub(crate) fn touch(&mut self, worker: Owner) {
        self.touched |= 1 << (worker & 63);
    }

    /// Holds a packet; gives it back when there is no room. `first`: the old owner sent it.
    #[inline(never)]
    pub(crate) fn hold_one(&mut self, first: bool, port: PortId, frame: Frame) -> Result<(), Frame> {
        match &mut self.held {
            Some(held) => held.keep(first, port, frame),
            None => Err(frame),
        }
    }

    /// Hands a packet over; gives it back when the ring is full.
    #[inline]
    pub(crate) fn send(&mut self, to: Owner, port: u8, frame: Frame) -> Result<(), Frame> {
        if to == HERE {
            return self.hold_one(false, port, frame);
        }
        self.node.send(to.into(), (port, frame)).map_err(|(_, frame)| frame)?;
        self.touched |= 1 << (to & 63);
        Ok(())
    }

    /// Wakes those who were handed something and sleep.
    #[inline]
    pub(crate) fn nudge(&mut self) {
        if self.touched == 0 {
            return;
        }
        for (n, waker) in self.wakers.iter().enumerate() {
            if self.touched & 1 << (n & 63) != 0 {
                waker.nudge();
            }
        }
        self.touched = 0;
    }

    /// Takes up to `max` packets others handed over.
    #[inline]
    pub(crate) fn receive(&mut self, max: usize, mut each: impl FnMut(Owner, u8, Frame)) -> usize {
        let marks = &mut self.marks;
        self.node.recv(max, |from, (port, frame)| match port {
            MARK => *marks |= 1 << (from & 63),
            _ => each(from as Owner, port, frame),
        })
    }

    /// Whether nothing waits.
    pub(crate) fn is_empty(&mut self) -> bool {
        self.node.is_empty()
    }
}

/// The member of the hand-off rings that is no worker: what workers hand to it is another process's.
pub struct Outside(HandOff);

impl Outside {
    /// The last one of those that [`HandOff::among`] has made.
    pub fn new(last: HandOff) -> Self {
        Self(last)
    }

    /// Its number: that of the workers.
    pub fn number(&self) -> Owner {
        self.0.me()
    }

    /// Takes up to `max` packets that workers have handed over.
    pub fn receive(&mut self, max: usize, mut each: impl FnMut(PortId, Frame)) -> usize {
        self.0.receive(max, |_, port, frame| each(port, frame))
    }

    /// Hands a packet to a worker; gives it back when its ring is full.
    ///
    /// # Errors
    /// The packet, when the ring to that worker is full.
    pub fn send(&mut self, to: Owner, port: PortId, frame: Frame) -> Result<(), Frame> {
        self.0.send(to & !ARRIVING, port, frame)
    }

    /// Puts a mark behind everything that was handed to a worker. False: its ring is full.
    #[must_use]
    pub fn mark(&mut self, to: Owner) -> bool {
        let is_put = self.0.mark(to);
        self.0.touch(to);
        is_put
    }

    /// Wakes the workers that were handed something.
    pub fn nudge(&mut self) {
        self.0.nudge();
    }

    /// Whether nothing waits.
    pub fn is_empty(&mut self) -> bool {
        self.0.is_empty()
    }
}
