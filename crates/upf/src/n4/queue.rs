//! Requests that wait for room in a worker's command ring: a ring that is full for a moment is no reason to refuse.
//!
//! Each control plane has a queue of its own, and the queues take turns. A request waits [`PATIENCE`] at most, and
//! [`OF_PEER`] of one control plane; then it is refused with cause 74, PFCP entity in congestion (8.2.1).

use std::collections::{HashMap, VecDeque};

use pfcp::ie::Cause;
use pfcp::message::{Message, SessionDeletionResponse, SessionModificationResponse};

use super::metering::WallClock;
use super::problem::Problem;
use super::{N4, Outgoing, RequestContext};
use crate::control::Control;

/// How long a request waits.
const PATIENCE: u64 = 100_000_000;
/// Requests of one control plane that wait at most.
const OF_PEER: usize = 256;

/// A request that waits.
#[derive(Debug)]
struct Waiting {
    until: u64,
    asked: RequestContext,
    seid: u64,
    message: Box<Message>,
}

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Queue {
    of_peers: HashMap<u32, VecDeque<Waiting>>,
    /// Control planes with requests that wait, in the order of their turns.
    turns: VecDeque<u32>,
}

impl Queue {
    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.turns.is_empty()
    }

    /// Requests that wait.
    pub fn len(&self) -> usize {
        self.of_peers.values().map(VecDeque::len).sum()
    }

    /// Whether requests of a control plane wait: those that follow must not overtake them.
    fn has(&self, peer: u32) -> bool {
        !self.is_empty() && self.of_peers.contains_key(&peer)
    }

    /// Adds a request, or gives it back when as many wait as may.
    fn push(&mut self, waiting: Waiting) -> Result<(), Waiting> {
        let peer = waiting.asked.peer;
        let queue = self.of_peers.entry(peer).or_default();
        if queue.len() >= OF_PEER {
            return Err(waiting);
        }
        if queue.is_empty() {
            self.turns.push_back(peer);
        }
        queue.push_back(waiting);
        Ok(())
    }

    /// Takes all requests of a control plane out.
    fn take(&mut self, peer: u32) -> VecDeque<Waiting> {
        self.turns.retain(|other| *other != peer);
        self.of_peers.remove(&peer).unwrap_or_default()
    }

    /// The first request of a control plane.
    fn front(&self, peer: u32) -> Option<&Waiting> {
        self.of_peers.get(&peer)?.front()
    }

    /// Takes the first request of a control plane out.
    fn pop(&mut self, peer: u32) -> Option<Waiting> {
        let queue = self.of_peers.get_mut(&peer)?;
        let first = queue.pop_front();
        if queue.is_empty() {
            self.of_peers.remove(&peer);
        }
        first
    }
}

impl N4 {
    /// Requests that wait for room in a worker's command ring.
    pub fn queued(&self) -> usize {
        self.queue.len()
    }

    /// Has a request wait if the command ring it needs is full, or others of its control plane wait; else gives it back. One
    /// that can not wait is refused.
    pub(super) fn enqueue(
        &mut self,
        asked: RequestContext,
        seid: u64,
        message: Message,
        control: &Control,
        clock: &WallClock,
    ) -> Option<Message> {
        if !self.queue.has(asked.peer) && self.has_room(seid, &message, control) {
            return Some(message);
        }
        let waiting = Waiting { until: clock.now + PATIENCE, asked, seid, message: Box::new(message) };
        match self.queue.push(waiting) {
            Ok(()) => self.counters.queued += 1,
            Err(waiting) => self.refuse_congested(waiting.asked, waiting.seid, &waiting.message),
        }
        None
    }

    /// Whether the worker that a request is for takes a command more. A new session's may be any, and it may take the place
    /// of others.
    fn has_room(&self, seid: u64, message: &Message, control: &Control) -> bool {
        if matches!(message, Message::SessionEstablishmentRequest(_)) {
            return (0..self.workers).all(|worker| control.has_room(worker));
        }
        let entry = self.store.find(seid).and_then(|number| self.store.get(number));
        entry.is_none_or(|entry| control.has_room(entry.worker))
    }

    /// Carries out requests that wait, a control plane's after another's, as far as there is room; refuses those that have
    /// waited too long.
    pub(super) fn serve_queue(&mut self, control: &mut Control, clock: &WallClock) {
        let mut stuck = 0;
        while stuck < self.queue.turns.len() {
            let Some(peer) = self.queue.turns.pop_front() else { break };
            let first = self.queue.front(peer).map(|w| (w.until, self.has_room(w.seid, &w.message, control)));
            match first {
                Some((until, false)) if until > clock.now => {
                    stuck += 1;
                    self.queue.turns.push_back(peer);
                    continue;
                }
                _ => stuck = 0,
            }
            let waiting = self.queue.pop(peer);
            if self.queue.of_peers.contains_key(&peer) {
                self.queue.turns.push_back(peer);
            }
            match (waiting, first) {
                (Some(Waiting { asked, seid, message, .. }), Some((_, true))) => {
                    self.carry_out(asked, seid, *message, control, clock);
                }
                (Some(waiting), _) => self.refuse_congested(waiting.asked, waiting.seid, &waiting.message),
                (None, _) => {}
            }
        }
    }

    /// Refuses what a control plane has asked for and waits for room.
    pub(super) fn refuse_waiting(&mut self, peer: u32, cause: Cause) {
        for Waiting { asked, seid, message, .. } in self.queue.take(peer) {
            self.refuse(asked, seid, &message, cause);
        }
    }

    /// Refuses a request as there is too much to do.
    pub(super) fn refuse_congested(&mut self, asked: RequestContext, seid: u64, message: &Message) {
        self.counters.congested += 1;
        self.refuse(asked, seid, message, Cause::PFCP_ENTITY_IN_CONGESTION);
    }

    fn refuse(&mut self, asked: RequestContext, seid: u64, message: &Message, cause: Cause) {
        let (seid, message) = match message {
            Message::SessionEstablishmentRequest(request) => {
                (request.cp_f_seid.seid, self.no_session(Problem::of(cause)))
            }
            Message::SessionDeletionRequest(_) => {
                (self.cp_seid(asked.peer, seid), SessionDeletionResponse { cause, ..Default::default() }.into())
            }
            _ => (self.cp_seid(asked.peer, seid), SessionModificationResponse { cause, ..Default::default() }.into()),
        };
        self.counters.refused += 1;
        self.out.push_back(Outgoing::Response { asked, seid, message });
    }
}
