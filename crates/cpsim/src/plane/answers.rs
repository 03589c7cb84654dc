//! What became of what was asked for.

use pfcp::Fault;
use pfcp::ie::Cause;
use pfcp::message::Message;
use pfcp::node::{Event, Time};

use super::{Asked, ControlPlane, Doing, Stage, State};

impl ControlPlane {
    pub(super) fn react(&mut self, now: Time) {
        while let Some(event) = self.node.next_event() {
            match event {
                Event::Up(id) => self.associated(id),
                Event::NotSetUp { why, .. } => self.not_associated(why, now),
                Event::Response { token, packet } => self.answered(token as usize, packet.message, now),
                Event::Failed { token, .. } => self.unanswered(token as usize),
                Event::Request { ticket, packet, .. } => match packet.message {
                    Message::SessionReportRequest(report) => {
                        self.reported(ticket, packet.header.seid.unwrap_or(0), &report, now);
                    }
                    Message::NodeReportRequest(report) => self.node_reported(ticket, &report, now),
                    _ => {
                        let fault = Fault { cause: Cause::SERVICE_NOT_SUPPORTED, ie: 0 };
                        self.node.refuse(ticket, None, fault, now);
                    }
                },
                Event::Unreadable { ticket, seid, fault } => {
                    let i = seid.and_then(|seid| u32::try_from(seid.checked_sub(1)?).ok());
                    let seid = i.and_then(|i| self.up_seid(i));
                    self.node.refuse(ticket, seid, fault, now);
                }
                Event::Lost(_) => self.tally.counts.lost += 1,
                Event::Gone(_, why, _) => self.gone(why, now),
                Event::Updated(_, update) => self.updated(&update),
                Event::Back(_) | Event::Contested { .. } => {}
            }
        }
    }

    fn answered(&mut self, i: usize, message: Message, now: Time) {
        let Some((doing, since)) = self.subscribers.get_mut(i).and_then(|subscriber| subscriber.doing.take()) else {
            return;
        };
        self.in_flight -= 1;
        let after = now.saturating_sub(since);
        self.hear_load(&message, now);
        match message {
            Message::SessionEstablishmentResponse(response) => {
                self.tally.answered(Asked::Establishment, after);
                match self.subscribers[i].session.established(&response) {
                    Ok(()) => self.established(i as u32, now),
                    Err(cause) => {
                        self.subscribers[i].state = State::Refused;
                        self.refused += 1;
                        self.tally.refuse(cause);
                    }
                }
            }
            Message::SessionModificationResponse(response) => {
                self.tally.answered(Asked::Modification, after);
                self.charge(i, &response.usage_reports, None, now);
                if response.cause.is_acceptance() {
                    self.tally.counts.modified += 1;
                    self.modified(i as u32, doing, now);
                } else {
                    self.tally.refuse(response.cause);
                    if response.cause == Cause::SESSION_CONTEXT_NOT_FOUND {
                        self.is_down(i as u32);
                        self.waiting.push_back(i as u32);
                    }
                }
            }
            Message::SessionDeletionResponse(response) => {
                self.tally.answered(Asked::Deletion, after);
                self.charge(i, &response.usage_reports, None, now);
                self.is_down(i as u32);
                match response.cause.is_acceptance() {
                    true => self.tally.counts.deleted += 1,
                    false => self.tally.refuse(response.cause),
                }
                if std::mem::take(&mut self.subscribers[i].comes_again) {
                    self.waiting.push_back(i as u32);
                }
            }
            _ => {}
        }
    }

    fn hear_load(&mut self, message: &Message, now: Time) {
        let (load, overload) = match message {
            Message::SessionEstablishmentResponse(m) => (&m.load_control_information, &m.overload_control_information),
            Message::SessionModificationResponse(m) => (&m.load_control_information, &m.overload_control_information),
            Message::SessionDeletionResponse(m) => (&m.load_control_information, &m.overload_control_information),
            _ => return,
        };
        self.overload.hear(load.as_ref(), overload.as_ref(), now);
    }

    fn established(&mut self, i: u32, now: Time) {
        self.tally.counts.established += 1;
        self.up += 1;
        self.most_up = self.most_up.max(self.up);
        let subscriber = &mut self.subscribers[i as usize];
        if subscriber.session.access.is_some() {
            subscriber.state = State::Up;
            self.fresh.push(i);
            return;
        }
        subscriber.state = State::Idle;
        if self.stage == Stage::Working {
            self.connect(i, Doing::Connect, now);
        }
    }

    fn modified(&mut self, i: u32, doing: Doing, now: Time) {
        let subscriber = &mut self.subscribers[i as usize];
        let counts = &mut self.tally.counts;
        match doing {
            Doing::Connect => {
                subscriber.state = State::Up;
                counts.connected += 1;
                self.fresh.push(i);
            }
            Doing::Sleep => {
                subscriber.state = State::Idle;
                counts.idled += 1;
            }
            Doing::Wake => {
                subscriber.state = State::Up;
                counts.paged += 1;
                self.naps.extend(self.spec.life.idle_again.map(|again| (now + again, i)));
            }
            Doing::HandOver => counts.handed_over += 1,
            Doing::Limit => counts.limited += 1,
            Doing::Query => counts.queried += 1,
            Doing::Grant => counts.granted += 1,
            Doing::Establish | Doing::Delete => {}
        }
        self.grant(i, now);
    }

    fn is_down(&mut self, i: u32) {
        let subscriber = &mut self.subscribers[i as usize];
        if matches!(subscriber.state, State::Up | State::Idle) {
            self.up -= 1;
        }
        subscriber.state = State::Down;
    }

    /// Sent as often as may be, and no answer.
    fn unanswered(&mut self, i: usize) {
        let Some((doing, _)) = self.subscribers.get_mut(i).and_then(|subscriber| subscriber.doing.take()) else {
            return;
        };
        self.in_flight -= 1;
        self.tally.counts.unanswered += 1;
        match self.stage {
            // Whoever does not answer one will not answer the others.
            Stage::Ending => self.silent = true,
            _ if doing == Doing::Establish => self.waiting.push_back(i as u32),
            _ => {}
        }
    }
}
