//! A group that moves from this worker to another, or to this one: what is due at the begin and at the end of a turn.

use frame::{BURST, Frame};

use super::{Spent, Worker};
use crate::clock::Clock;
use crate::gateway::{Gateway, PortId};
use crate::moves::{Arrival, Departure};
use crate::stats::Io;

impl<G: Gateway> Worker<G> {
    /// After commands, before packets: marks, and what has come of a group on its way here. Returns packets released.
    #[cold]
    pub(super) fn begin_moves<C: Clock>(&mut self, spent: &mut Spent) -> usize {
        let Some(hand_off) = &mut self.hand_off else {
            self.env.moves = Default::default();
            return 0;
        };
        if let Some(room) = self.env.moves.room.take() {
            hand_off.hold(room);
            self.first_held = None;
        }
        if let Some(leaving) = self.env.moves.leaving.as_mut().filter(|leaving| leaving.fresh) {
            leaving.fresh = false;
            hand_off.forget_marks();
        }
        if let Some(owner) = self.env.moves.mark {
            let done = if owner == hand_off.me() {
                if let Some(leaving) = &mut self.env.moves.leaving {
                    leaving.switched = true;
                }
                true
            } else {
                hand_off.mark(owner)
            };
            if done {
                self.env.moves.mark = None;
                hand_off.nudge();
            }
        }
        let Some(mut arriving) = self.env.moves.arriving else { return 0 };
        if !arriving.complete {
            arriving.complete = self.gateway.arrive(&mut self.env);
            self.env.moves.arriving = Some(arriving);
        }
        let is_last = |hand_off: &crate::hand_off::HandOff| hand_off.has_marks(1 << (arriving.from & 63));
        if !arriving.complete || !self.hand_off.as_ref().is_some_and(is_last) {
            return 0;
        }
        self.env.moves.arriving = None;
        self.end_hold::<C>(spent)
    }

    /// Forwards what was held for a group that has arrived, before anything else.
    fn end_hold<C: Clock>(&mut self, spent: &mut Spent) -> usize {
        let mut held = self.hand_off.as_mut().map(crate::hand_off::HandOff::end_hold).unwrap_or_default();
        let count = held.len();
        while let Some((port, frame)) = held.pop_front() {
            self.into_burst(frame);
            while self.burst.len() < BURST && held.front().is_some_and(|(next, _)| *next == port) {
                if let Some((_, frame)) = held.pop_front() {
                    self.into_burst(frame);
                }
            }
            self.env.stats.add(Io::HandedIn, self.burst.len() as u64);
            let id = Some(usize::from(port)).filter(|id| *id < self.ports.len());
            self.process(|gateway, burst, env| gateway.receive::<C>(port, burst, env), id);
            // What they have led to, such as packets to other subscribers, comes before those behind them.
            self.release::<C>(spent);
            if !self.env.passed_on.is_empty() {
                self.pass_on();
            }
        }
        let pause_ns = self.first_held.take().map_or(0, |since| self.env.now.saturating_sub(since));
        self.gateway.arrived(Arrival { held: count as u64, pause_ns }, &mut self.env);
        count
    }

    fn into_burst(&mut self, frame: Frame) {
        let _ = self.burst.push(frame).map_err(|_| unreachable!("at most a burst"));
    }

    /// Holds those of the packets handed over that are of a group on its way here: of all that may come from another worker,
    /// those that are not this worker's by its table, or by it are held. Returns how many it took away.
    #[cold]
    pub(super) fn hold_some(&mut self, came: &mut [(PortId, Frame)]) -> usize {
        let Some(hand_off) = self.hand_off.as_mut().filter(|hand_off| hand_off.holds()) else { return 0 };
        let mut taken = 0;
        for (port, frame) in came {
            let key = self.gateway.steer_key(*port, self.env.pool.arena().bytes(frame));
            if key.and_then(|key| hand_off.elsewhere(key)).is_none() {
                continue;
            }
            taken += 1;
            if let Err(frame) = hand_off.hold_one(*port, frame.take()) {
                self.env.stats.add(Io::HandedIn, 1);
                self.env.stats.drop_outside(crate::drops::MOVE_FULL, frame.len());
                self.env.pool.give(frame);
            }
        }
        taken
    }

    /// After everything was sent: exports a group that leaves, once no packet of it is left here. Whether it did.
    #[cold]
    pub(super) fn end_moves(&mut self) -> bool {
        let Some(hand_off) = &mut self.hand_off else { return false };
        if hand_off.holds() && self.first_held.is_none() && hand_off.is_holding() {
            self.first_held = Some(self.env.now);
        }
        let waits = self.env.moves.mark.is_some();
        let Some(mut leaving) = self.env.moves.leaving else { return waits };
        if !leaving.exported {
            if !leaving.switched || !hand_off.has_marks(leaving.awaited) || !self.gateway.is_drained() {
                return waits;
            }
            // The new owner's packets are not to overtake those of this worker that a port has not sent yet.
            self.kick();
            if self.ports.iter().any(|door| door.port.unkicked() > 0) {
                return true;
            }
            leaving.exported = self.gateway.depart(&mut self.env) == Departure::Done;
        }
        let Some(hand_off) = &mut self.hand_off else { return false };
        self.env.moves.leaving = Some(leaving).filter(|leaving| !leaving.exported || !hand_off.mark(leaving.to));
        hand_off.touch(leaving.to);
        hand_off.nudge();
        true
    }
}
