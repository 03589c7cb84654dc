//! DEPI packets that are complete, until they leave.

use engine::{Env, Io};
use frame::Frame;

use super::channel::Channel;

use crate::drops;

/// Packets ready at most before they must leave.
const READY: usize = 1024;

/// Packets with the channel each goes by, in order.
pub(super) struct Ready {
    places: Box<[(Frame, u16); READY]>,
    /// The place of the oldest.
    first: usize,
    len: usize,
}

impl Default for Ready {
    fn default() -> Self {
        let places: Vec<_> = (0..READY).map(|_| (Frame::none(), 0)).collect();
        let places = places.try_into().unwrap_or_else(|_| unreachable!("as many as there are places"));
        Self { places, first: 0, len: 0 }
    }
}

impl Ready {
    /// How many there are.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.len
    }

    /// How many more there may be.
    #[inline(always)]
    pub fn room(&self) -> usize {
        READY - self.len
    }

    /// Moves the oldest to `to`, which is none; returns its channel.
    #[inline(always)]
    pub fn pop(&mut self, to: &mut Frame) -> Option<u16> {
        if self.len == 0 {
            // Begins at its front again, which is in the nearest cache.
            self.first = 0;
            return None;
        }
        let (frame, channel) = &mut self.places[self.first % READY];
        self.first += 1;
        self.len -= 1;
        std::mem::swap(frame, to);
        Some(*channel)
    }

    /// Closes a channel's packet and has it leave.
    #[inline(always)]
    pub fn take_in(&mut self, wire: &mut Channel, channel: u16, full: bool, env: &mut Env) {
        env.stats.add(Io::Originated, 1);
        let place = &mut self.places[(self.first + self.len) % READY];
        if self.len < READY && wire.close(full, env.pool.arena(), &mut place.0) {
            place.1 = channel;
            self.len += 1;
        } else {
            refused(wire.give_up(), env);
        }
    }
}

#[cold]
fn refused(frame: Frame, env: &mut Env) {
    env.stats.drop_outside(drops::NO_HEADROOM, frame.len());
    env.pool.give(frame);
}
