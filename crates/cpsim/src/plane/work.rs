//! What is done to sessions, each kind of thing at its own rate.

use pfcp::message::{Message, SessionDeletionRequest};
use pfcp::node::Time;

use super::{ControlPlane, Doing, Stage, State, Subscriber, tunnel};

impl ControlPlane {
    pub(super) fn work(&mut self, now: Time) {
        self.began.get_or_insert(now);
        while self.has_room() && !self.asked_to_release && !self.waiting.is_empty() && self.paces.establish.take(now) {
            if self.keeps_back(now) {
                continue;
            }
            let Some(i) = self.waiting.pop_front() else { return };
            self.establish(i, now);
        }
        if self.complete.is_none() {
            let more = !self.asked_to_release && self.up + self.refused < self.spec.sessions;
            if more || self.in_flight > 0 {
                return;
            }
            self.complete = Some(now);
            // Spread evenly over the numbers.
            let share = self.spec.life.idle;
            let sleeps = |i: &u32| (f64::from(*i + 1) * share) as u64 > (f64::from(*i) * share) as u64;
            self.naps.extend((0..self.spec.sessions).filter(sleeps).map(|i| (now, i)));
        }
        self.see_to_sleepers(now);
        while self.has_room() && self.paces.hand_over.take(now) {
            let Some(i) = self.next(|subscriber| subscriber.state == State::Up) else { break };
            self.hand_over(i, now);
        }
        while self.has_room() && self.paces.limit.take(now) {
            if self.keeps_back(now) {
                continue;
            }
            let Some(i) = self.next(|_| true) else { break };
            self.limit(i, now);
        }
        while self.has_room() && self.paces.query.take(now) {
            if self.keeps_back(now) {
                continue;
            }
            let Some(i) = self.next(|_| true) else { break };
            let request = self.subscribers[i as usize].session.query();
            self.modify(i, Doing::Query, request, now);
        }
        while self.has_room() && self.paces.churn.take(now) {
            let Some(i) = self.next(|_| true) else { break };
            self.subscribers[i as usize].comes_again = true;
            self.delete(i, now);
        }
    }

    fn has_room(&self) -> bool {
        self.in_flight < self.spec.window
    }

    /// The next subscriber, round and round, that is free and pleases.
    fn next(&mut self, pleases: impl Fn(&Subscriber) -> bool) -> Option<u32> {
        // Few are busy; if these are, the next turn looks on.
        for _ in 0..self.subscribers.len().min(256) {
            let i = self.cursor;
            self.cursor = (i + 1) % self.subscribers.len();
            let subscriber = &self.subscribers[i];
            if subscriber.is_free() && pleases(subscriber) {
                return Some(i as u32);
            }
        }
        None
    }

    fn see_to_sleepers(&mut self, now: Time) {
        // Those that are busy are looked at again in the next turn, so no more than there are now.
        for _ in 0..self.wakes.len() {
            let Some(&(due, i)) = self.wakes.front().filter(|(due, _)| *due <= now && self.has_room()) else { break };
            self.wakes.pop_front();
            match &self.subscribers[i as usize] {
                subscriber if subscriber.doing.is_some() => self.wakes.push_back((due, i)),
                subscriber if subscriber.state == State::Idle => self.connect(i, Doing::Wake, now),
                _ => {}
            }
        }
        for _ in 0..self.naps.len() {
            let Some(&(due, i)) = self.naps.front().filter(|(due, _)| *due <= now && self.has_room()) else { break };
            self.naps.pop_front();
            match &mut self.subscribers[i as usize] {
                subscriber if subscriber.doing.is_some() => self.naps.push_back((due, i)),
                subscriber if subscriber.state == State::Up => {
                    let request = subscriber.session.idle();
                    self.modify(i, Doing::Sleep, request, now);
                }
                _ => {}
            }
        }
    }

    pub(super) fn take_down(&mut self, now: Time) {
        while !self.keep && !self.silent && self.has_room() && self.cursor < self.subscribers.len() {
            let subscriber = &self.subscribers[self.cursor];
            if subscriber.is_free() {
                self.delete(self.cursor as u32, now);
            }
            self.cursor += 1;
        }
        if self.in_flight > 0 && !self.silent {
            return;
        }
        let busy_before = |subscriber: &Subscriber| matches!(subscriber.state, State::Up | State::Idle);
        if !self.keep && !self.silent && self.subscribers.iter().any(busy_before) {
            // Those that were busy when they were passed.
            self.cursor = 0;
            return;
        }
        self.stage = match self.association.filter(|_| !self.keep && !self.silent) {
            Some(association) if self.node.release(association, now).is_ok() => Stage::Releasing,
            _ => Stage::Over,
        };
    }

    fn establish(&mut self, i: u32, now: Time) {
        let node = self.node.config().node_id.clone();
        let before = &self.subscribers[i as usize];
        let mut fresh = Subscriber::new(i, &self.spec.places).after(before, self.run);
        self.charging_id += 1;
        fresh.charging_id = self.charging_id;
        if self.spec.profile.kind == pfcp::control::Kind::PgwC {
            // The SGW's end is known from the start.
            fresh.session.access = Some(tunnel(self.spec.places.gnb(i, false)));
        }
        let request = fresh.session.establish(&self.spec.profile, &node, self.address);
        self.subscribers[i as usize] = fresh;
        self.send(i, Doing::Establish, Some(0), request.into(), now);
    }

    pub(super) fn connect(&mut self, i: u32, doing: Doing, now: Time) {
        let subscriber = &mut self.subscribers[i as usize];
        let to = self.spec.places.gnb(i, subscriber.away);
        subscriber.last_node = Some(to.1);
        let request = subscriber.session.connect(tunnel(to));
        self.modify(i, doing, request, now);
    }

    fn hand_over(&mut self, i: u32, now: Time) {
        let subscriber = &mut self.subscribers[i as usize];
        subscriber.away = !subscriber.away;
        self.connect(i, Doing::HandOver, now);
    }

    fn limit(&mut self, i: u32, now: Time) {
        let rates = &self.spec.life.limit_to;
        let Some(rate) = rates.get(self.limits % rates.len().max(1)).copied() else { return };
        self.limits += 1;
        let request = self.subscribers[i as usize].session.limit(rate);
        self.modify(i, Doing::Limit, request, now);
    }

    fn delete(&mut self, i: u32, now: Time) {
        let seid = self.up_seid(i);
        self.send(i, Doing::Delete, seid, SessionDeletionRequest::default().into(), now);
    }

    fn modify(&mut self, i: u32, doing: Doing, request: impl Into<Message>, now: Time) {
        let seid = self.up_seid(i);
        self.send(i, doing, seid, request.into(), now);
    }

    /// A quota that was used up is granted again, once nothing else is being done.
    pub(super) fn grant(&mut self, i: u32, now: Time) {
        let subscriber = &mut self.subscribers[i as usize];
        let Some(octets) = self.spec.profile.volume_quota else { return };
        if self.stage == Stage::Working && subscriber.wants_grant && subscriber.is_free() {
            subscriber.wants_grant = false;
            let request = subscriber.session.grant(octets);
            self.modify(i, Doing::Grant, request, now);
        }
    }
}
