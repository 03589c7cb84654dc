//! Packets that came in by another worker than their subscriber's.

use std::sync::Arc;

use frame::Frame;
use table::mesh::{Node, mesh};
use table::waker::Waker;

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
}

/// Packets a ring between two workers holds.
const RING: usize = 1024;

impl HandOff {
    /// One for each of `workers` workers, joined with each other. `wakers` are theirs, by number; there may be fewer.
    pub fn among(workers: usize, steer: Steer, wakers: Vec<Waker>) -> Vec<Self> {
        let (steer, wakers): (Arc<Steer>, Arc<[Waker]>) = (Arc::new(steer), wakers.into());
        let make = |node: Node<_>| {
            let ours = steer.most_of(node.me() as Owner); // as many workers as owners have numbers
            Self { node, steer: steer.clone(), ours, wakers: wakers.clone(), touched: 0 }
        };
        mesh(workers, RING).into_iter().map(make).collect()
    }

    /// The other worker that owns the subscriber, if it is another.
    #[inline(always)]
    pub(crate) fn elsewhere(&self, key: SteerKey) -> Option<Owner> {
        if self.ours.has(key) { None } else { self.other(key) }
    }

    #[inline(never)]
    fn other(&self, key: SteerKey) -> Option<Owner> {
        self.steer.owner(key).filter(|owner| usize::from(*owner) != self.node.me())
    }

    /// Hands a packet over; gives it back when the ring is full.
    #[inline]
    pub(crate) fn send(&mut self, to: Owner, port: u8, frame: Frame) -> Result<(), Frame> {
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
    pub(crate) fn receive(&mut self, max: usize, mut each: impl FnMut(u8, Frame)) -> usize {
        self.node.recv(max, |_, (port, frame)| each(port, frame))
    }

    /// Whether nothing waits.
    pub(crate) fn is_empty(&mut self) -> bool {
        self.node.is_empty()
    }
}
