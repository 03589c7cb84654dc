//! What happens by itself: requests sent again, heartbeats, lost peers that go.

use super::association::State;
use super::requests::Due;
use super::{AssociationId, Event, Failure, NeverAnswers, Node, Purpose, Removal, Time};
use std::net::SocketAddr;

/// Requests that are sent again or given up in a call.
const AT_ONCE: usize = 256;

impl Node {
    /// When [`tick`](Node::tick) will have something to do, if nothing happens before.
    pub fn due_at(&self) -> Option<Time> {
        let heartbeat = self.heartbeats.front().map(|(due, _)| *due);
        let lost = self.lost.front().map(|(due, _)| *due);
        [self.requests.due_at(), heartbeat, lost, self.claims_due_at(), self.associations.leaving_due_at()]
            .into_iter()
            .flatten()
            .min()
    }

    /// Does what is due by now, of requests so many at a time: the rest follows in the next call.
    pub fn tick(&mut self, now: Time) {
        for _ in 0..AT_ONCE {
            let Some(due) = self.requests.next_due(now) else { break };
            match due {
                Due::Again { sequence } => {
                    if let Some(request) = self.requests.get(sequence) {
                        self.out.push(request.to, &request.octets);
                        self.counters.sent += 1;
                        self.counters.retransmitted += 1;
                    }
                }
                Due::Over(request) => {
                    self.counters.timed_out += 1;
                    self.failed(request.to, request.purpose, Failure::NoAnswer, now);
                    self.requests.recycle(request.octets);
                }
            }
        }
        self.see_to_claims(now);
        self.see_to_leaving(now);
        while let Some((_, id)) = self.heartbeats.pop_front_if(|(due, _)| *due <= now) {
            self.send_heartbeat(id, now);
            self.schedule_heartbeat(id, now);
        }
        while let Some((until, id)) = self.lost.pop_front_if(|(until, _)| *until <= now) {
            // It may have come back, and even have been lost again: then a later entry is the one that counts.
            let Some(association) = self.associations.get_mut(id) else { continue };
            if association.state != (State::Lost { until }) {
                continue;
            }
            if self.probes.contains_key(&id) {
                // It may be about to come back.
                let until = now + self.config.probe_interval * self.config.takeover_probes.into();
                association.state = State::Lost { until };
                self.goes_at(until, id);
            } else {
                self.remove(id, Removal::Lost, now);
            }
        }
    }

    /// Has the association's peer asked whether it is alive, one interval from now.
    pub(super) fn schedule_heartbeat(&mut self, id: AssociationId, now: Time) {
        if let (Some(interval), Some(_)) = (self.config.heartbeat_interval, self.associations.get(id)) {
            self.heartbeats.push_back((now + interval, id));
        }
    }

    /// A lost association goes at that time. How long lost ones stay can change: a later entry may be due before others.
    pub(super) fn goes_at(&mut self, until: Time, id: AssociationId) {
        let at = self.lost.partition_point(|(due, _)| *due <= until);
        self.lost.insert(at, (until, id));
    }

    /// A request of ours has failed.
    pub(super) fn failed(&mut self, to: SocketAddr, purpose: Purpose, why: Failure, now: Time) {
        match purpose {
            Purpose::Driver(token) => self.events.push_back(Event::Failed { token, why }),
            Purpose::SetUp => self.events.push_back(Event::NotSetUp { to, why }),
            // What can't be released by agreement is released all the same.
            Purpose::Release(id) => self.remove(id, Removal::Released, now),
            Purpose::Heartbeat(id) => self.heartbeat_failed(id, now),
        }
    }

    fn heartbeat_failed(&mut self, id: AssociationId, now: Time) {
        self.counters.heartbeats_unanswered += 1;
        let Some(association) = self.associations.get_mut(id) else { return };
        let matters = association.answers_heartbeats || self.config.never_answers == NeverAnswers::Lost;
        if matters && association.state == State::Up {
            let until = now + self.config.keep_lost;
            association.state = State::Lost { until };
            self.counters.associations_lost += 1;
            self.goes_at(until, id);
            self.events.push_back(Event::Lost(id));
        }
    }
}
