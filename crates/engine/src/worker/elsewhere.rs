//! What is other workers' goes to them; what they, or tunnels of ours, send to us comes in.

use frame::{BURST, Batch, Frame, Pool};

use super::{OUTBOX, Spent, Worker};
use crate::burst::AGAIN;
use crate::clock::{Clock, Tsc};
use crate::drops;
use crate::gateway::{Gateway, PortId};
use crate::hand_off::{HERE, HandOff};
use crate::pipeline::Env;
use crate::reason::Drop;
use crate::stats::{Io, Stats};
use crate::steer::Owner;

impl<G: Gateway> Worker<G> {
    /// Gives packets of other workers' subscribers to those. Returns their bytes.
    #[inline]
    pub(super) fn hand_over(&mut self, id: PortId) -> usize {
        let Some(hand_off) = &self.hand_off else { return 0 };
        let (gateway, arena) = (&self.gateway, self.env.pool.arena());
        let is_theirs = |frame: &Frame| {
            let key = gateway.steer_key(id, arena.bytes(frame));
            key.is_some_and(|key| hand_off.elsewhere(key).is_some())
        };
        // Where packets are steered well none is, and nothing is moved.
        if self.incoming.frames().iter().any(is_theirs) { self.hand_over_some(id) } else { 0 }
    }

    #[inline(never)]
    fn hand_over_some(&mut self, id: PortId) -> usize {
        let Some(hand_off) = &mut self.hand_off else { return 0 };
        let (gateway, stats, pool) = (&self.gateway, &self.env.stats, &mut self.env.pool);
        let arena = pool.arena().clone();
        let mut ours = Batch::new();
        let (mut bytes, mut handed) = (0, 0);
        self.incoming.drain(|mut frame| {
            let key = gateway.steer_key(id, arena.bytes(&frame));
            let Some(owner) = key.and_then(|key| hand_off.elsewhere(key)) else {
                let _ = ours.push(frame).map_err(|_| unreachable!("as many as came"));
                return;
            };
            bytes += frame.len();
            frame.meta.port = id;
            match hand_off.send(owner, id, frame) {
                Ok(()) => handed += 1,
                Err(frame) => {
                    stats.drop_outside(full(owner), frame.len());
                    pool.give(frame);
                }
            }
        });
        self.incoming = ours;
        stats.add(Io::HandedOut, handed);
        hand_off.nudge();
        bytes
    }

    /// Gives frames of our own to the workers that own them.
    #[cold]
    pub(super) fn pass_on(&mut self) {
        let Env { pool, stats, passed_on, .. } = &mut self.env;
        for (port, mut frame) in passed_on.drain(..) {
            frame.meta.port = port;
            let key = self.gateway.steer_key(port, pool.arena().bytes(&frame));
            let owner = self.hand_off.as_mut().zip(key).and_then(|(to, key)| Some((to.elsewhere(key)?, to)));
            let lost = match owner {
                None => Some((drops::NO_OWNER, frame)),
                Some((owner, to)) => to.send(owner, port, frame).err().map(|frame| (full(owner), frame)),
            };
            match lost {
                None => stats.add(Io::HandedOut, 1),
                Some((why, frame)) => {
                    stats.drop_outside(why, frame.len());
                    pool.give(frame);
                }
            }
        }
        if let Some(hand_off) = &mut self.hand_off {
            hand_off.nudge();
        }
    }

    /// Runs what other workers handed over, and what was sent to ourselves, a burst per port.
    pub(super) fn take_over<C: Clock>(&mut self, spent: &mut Spent) -> usize {
        if self.again.is_empty() && self.hand_off.as_mut().is_none_or(|hand_off| hand_off.is_empty()) {
            return 0;
        }
        let begin = Tsc::cycles();
        let mut came: [(PortId, Frame); BURST] = [const { (0, Frame::none()) }; BURST];
        // Which worker each is from.
        let mut from = [0; BURST];
        let mut count = 0;
        let mut keep = |sender, port, frame| {
            (came[count], from[count]) = ((port, frame), sender);
            count += 1;
        };
        let me = self.hand_off.as_ref().map_or(0, HandOff::me);
        let room = BURST - self.come_again(&mut |port, frame| keep(me, port, frame));
        if let Some(hand_off) = &mut self.hand_off {
            hand_off.receive(room, keep);
        }
        // Those that came again are this worker's; they were looked at.
        let held = if self.env.moves.is_arriving() { self.hold_some(&mut came[..count], &from) } else { 0 };
        self.env.stats.add(Io::HandedIn, (count - held) as u64);
        for id in 0..self.ports.len() as PortId {
            for (_, frame) in came[..count].iter_mut().filter(|(port, frame)| *port == id && !frame.is_none()) {
                let _ = self.burst.push(frame.take()).map_err(|_| unreachable!("at most a burst"));
            }
            if !self.burst.is_empty() {
                let port = Some(usize::from(id));
                self.process(|gateway, burst, env| gateway.receive::<C>(id, burst, env), port);
            }
        }
        spent.pipeline += Tsc::cycles().wrapping_sub(begin);
        count
    }

    /// Hands over what was sent to ourselves, at most a burst, as far as it is this worker's; the rest goes to the worker
    /// that owns it. Returns how much it handed over.
    fn come_again(&mut self, keep: &mut impl FnMut(PortId, Frame)) -> usize {
        let Env { pool, stats, .. } = &mut self.env;
        let count = self.again.len().min(BURST);
        let mut kept = 0;
        for (port, frame) in self.again.drain(..count) {
            let key = self.gateway.steer_key(port, pool.arena().bytes(&frame));
            let owner = self.hand_off.as_mut().zip(key).and_then(|(to, key)| Some((to.elsewhere(key)?, to)));
            let Some((owner, to)) = owner else {
                keep(port, frame);
                kept += 1;
                continue;
            };
            if let Err(frame) = to.send(owner, port, frame) {
                stats.add(Io::HandedIn, 1);
                stats.drop_outside(full(owner), frame.len());
                pool.give(frame);
            }
        }
        if let Some(hand_off) = &mut self.hand_off {
            hand_off.nudge();
        }
        kept
    }
}

/// Why a worker does not take a packet.
fn full(owner: Owner) -> Drop {
    if owner == HERE { drops::MOVE_FULL } else { drops::HAND_OFF_FULL }
}

/// Sees to a frame for a port that is none: it comes in again, as far as there is room, or has no way to go.
#[cold]
pub(super) fn to_ourselves(
    out: u8,
    mut frame: Frame,
    again: &mut Vec<(PortId, Frame)>,
    pool: &mut Pool,
    stats: &Stats,
) {
    frame.meta.port = out & !AGAIN;
    let lost = if out & AGAIN == 0 {
        drops::NO_ROUTE
    } else if !frame.meta.pass_again() {
        drops::TUNNEL_LOOP
    } else if again.len() >= OUTBOX {
        drops::HAND_OFF_FULL
    } else {
        stats.add(Io::HandedOut, 1);
        return again.push((frame.meta.port, frame));
    };
    stats.drop_outside(lost, frame.len());
    pool.give(frame);
}
