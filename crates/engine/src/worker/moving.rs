//! A group that moves from this worker to another, or to this one: what is due at the begin and at the end of a turn.

use frame::{BURST, Frame};

use super::{RELEASES, Spent, Worker};
use crate::clock::Clock;
use crate::gateway::{Gateway, PortId};
use crate::hand_off::HandOff;
use crate::moves::{Arrival, Departure};
use crate::stats::Io;
use crate::steer::Owner;

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
        if let Some((from, to)) = self.env.moves.relay {
            let me = hand_off.me();
            if self.env.moves.mark.is_some() && me != from && me != to {
                // Those of earlier moves; this one's comes after this worker's own.
                hand_off.forget_marks();
            }
            // A packet that came before the old owner's mark was forwarded in the turn in which the mark came.
            if me == from || me == to || hand_off.has_marks(1 << (from & 63)) && hand_off.mark(to) {
                self.env.moves.relay = None;
            }
        }
        if let Some(owner) = self.env.moves.mark {
            let is_own = owner == hand_off.me();
            if let Some(leaving) = self.env.moves.leaving.as_mut().filter(|_| is_own) {
                leaving.switched = true;
            }
            if is_own || hand_off.mark(owner) {
                self.env.moves.mark = None;
            }
        }
        hand_off.nudge();
        let Some(mut arriving) = self.env.moves.arriving else { return 0 };
        if !arriving.complete {
            arriving.complete = self.gateway.arrive(&mut self.env);
            self.env.moves.arriving = Some(arriving);
        }
        let are_there = |hand_off: &HandOff| hand_off.has_marks(arriving.awaited);
        if !arriving.complete || !self.hand_off.as_ref().is_some_and(are_there) {
            return 0;
        }
        self.release_held::<C>(spent)
    }

    /// Forwards what was held for a group that has arrived, before anything else: a few bursts in a turn, for ports and
    /// rings to other workers take no more at a time. What comes meanwhile is held behind it. Returns packets released.
    fn release_held<C: Clock>(&mut self, spent: &mut Spent) -> usize {
        let now = self.env.now;
        if let Some(arriving) = self.env.moves.arriving.as_mut().filter(|arriving| arriving.release.is_none()) {
            let pause_ns = self.first_held.take().map_or(0, |since| now.saturating_sub(since));
            arriving.release = Some(Arrival { held: 0, pause_ns });
        }
        // More than comes in a turn: a burst of each port and one of other workers.
        let most = BURST * RELEASES.max(2 * (self.ports.len() + 1));
        let mut count = 0;
        // What these packets lead to is not held.
        self.env.moves.releasing = true;
        while count < most {
            let Some((port, frame)) = self.hand_off.as_mut().and_then(|hand_off| hand_off.next_held(None)) else {
                break;
            };
            self.put_into_burst(frame);
            while self.burst.len() < BURST {
                let next = self.hand_off.as_mut().and_then(|hand_off| hand_off.next_held(Some(port)));
                let Some((_, frame)) = next else { break };
                self.put_into_burst(frame);
            }
            count += self.burst.len();
            self.env.stats.add(Io::HandedIn, self.burst.len() as u64);
            let id = Some(usize::from(port)).filter(|id| *id < self.ports.len());
            self.process(|gateway, burst, env| gateway.receive::<C>(port, burst, env), id);
            // What they have led to, such as packets to other subscribers, comes before those behind them.
            self.release::<C>(spent);
            if !self.env.passed_on.is_empty() {
                self.pass_on();
            }
        }
        self.env.moves.releasing = false;
        if let Some(arrival) = self.env.moves.arriving.as_mut().and_then(|arriving| arriving.release.as_mut()) {
            arrival.held += count as u64;
        }
        if self.hand_off.as_ref().is_some_and(HandOff::is_holding) {
            return count;
        }
        let arrival = self.env.moves.arriving.take().and_then(|arriving| arriving.release).unwrap_or_default();
        let room = self.hand_off.as_mut().map(HandOff::end_hold).unwrap_or_default();
        self.gateway.arrived(arrival, room, &mut self.env);
        count
    }

    fn put_into_burst(&mut self, frame: Frame) {
        let _ = self.burst.push(frame).map_err(|_| unreachable!("at most a burst"));
    }

    /// Holds those of the packets handed over that are of a group on its way here: of all that may come from another worker,
    /// those that are not this worker's by its table, or by it are held. Returns how many it took away.
    #[cold]
    pub(super) fn hold_some(&mut self, came: &mut [(PortId, Frame)], from: &[Owner]) -> usize {
        let Some(hand_off) = self.hand_off.as_mut().filter(|hand_off| hand_off.holds()) else { return 0 };
        // Once what was held is on its way, all that comes is behind it.
        let old = self.env.moves.arriving.filter(|arriving| arriving.release.is_none()).map(|arriving| arriving.from);
        let mut taken = 0;
        for ((port, frame), from) in came.iter_mut().zip(from) {
            let key = self.gateway.steer_key(*port, self.env.pool.arena().bytes(frame));
            if key.and_then(|key| hand_off.elsewhere(key)).is_none() {
                continue;
            }
            taken += 1;
            if let Err(frame) = hand_off.hold_one(Some(*from) == old, *port, frame.take()) {
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
        if self.first_held.is_none() && hand_off.is_holding() {
            self.first_held = Some(self.env.now);
        }
        // What the begin of the next turn is to see to.
        let relays = self.env.moves.relay.is_some_and(|(from, _)| hand_off.has_marks(1 << (from & 63)));
        let arrives = self.env.moves.arriving.is_some_and(|arriving| hand_off.has_marks(arriving.awaited));
        let waits = self.env.moves.mark.is_some() || relays || arrives;
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
        if leaving.exported {
            let awaiting = leaving.marks;
            for worker in (0..64).filter(|worker| awaiting >> worker & 1 != 0) {
                leaving.marks &= !(u64::from(hand_off.mark(worker)) << worker);
            }
        }
        self.env.moves.leaving = Some(leaving).filter(|leaving| !leaving.exported || leaving.marks != 0);
        hand_off.touch(leaving.to);
        hand_off.nudge();
        true
    }
}
