//! Modifications on their way to workers (3GPP TS 29.244, 7.5.4). Control has the new rules at once; a worker without room
//! keeps the old ones, and then so does control. What is asked of the session meanwhile is seen to afterwards.

use dataplane::forward::InstanceId;
use pfcp::message::{Message, SessionReportResponse};

use super::change::Rules;
use super::choose::Chosen;
use super::ending::Ended;
use super::metering::WallClock;
use super::store::{Before, Prepared};
use super::{N4, RequestContext, steer};
use crate::control::Control;
use crate::rules::TunnelEnd;

/// What is asked of a session and waits until its worker has answered: by which rules it is to be taken is only known then.
#[derive(Debug)]
pub enum Deferred {
    /// A request: who asked, our SEID, and what.
    Request(RequestContext, u64, Box<Message>),
    /// The control plane's answer to a report.
    Response(Box<SessionReportResponse>),
    /// Packets of a PDR have begun to wait.
    Buffered(u16),
}

/// Requests that wait for one session at most; workers answer at once, unless something is wrong with them.
const DEFERRED: usize = 16;

/// A modification that a worker has not taken yet: how the session was before, and what follows if it does.
#[derive(Debug)]
pub(super) struct Change {
    pub before: Before,
    /// Identifiers given out for it.
    pub chosen: Chosen,
    /// Tunnels it leaves, which are to hear of it.
    pub ends: Vec<(InstanceId, TunnelEnd)>,
    /// The subscriber's silence is counted anew.
    pub restarts: bool,
    /// It changes URRs.
    pub grants: bool,
}

impl N4 {
    /// Has a request wait, if it is about a session whose worker has not answered; else gives it back.
    pub(super) fn defer(&mut self, asked: RequestContext, seid: u64, message: Message) -> Option<Message> {
        if matches!(message, Message::SessionEstablishmentRequest(_)) {
            return Some(message);
        }
        let found = self.store.find(seid).and_then(|number| Some((number, self.store.deferred(number)?)));
        let Some((number, deferred)) = found else { return Some(message) };
        if deferred.iter().filter(|deferred| matches!(deferred, Deferred::Request(..))).count() < DEFERRED {
            // A request is under way: it is taken.
            let _ = self.store.defer(number, Deferred::Request(asked, seid, Box::new(message)));
        } else {
            self.refuse_congested(asked, seid, &message);
        }
        None
    }

    /// Control goes by new rules, from when their worker is asked for them. None: the session is gone.
    pub(super) fn begin_change(
        &mut self,
        number: u32,
        rules: &Rules,
        new: Prepared,
        control: &mut Control,
        clock: &WallClock,
    ) -> Option<Before> {
        steer(control, new.worker, self.store.get(number)?.keys(), &new.keys);
        let before = self.store.replace(number, new, clock.now)?;
        self.plan_look(number, rules, clock);
        self.store.begin_request(number);
        Some(before)
    }

    /// The worker has taken the new rules.
    pub(super) fn commit_change(&mut self, number: u32, change: Change, control: &mut Control) {
        let Change { before, ends, restarts, .. } = change;
        self.release_keys(&before.left);
        let is_same = self.store.is_same(number, &before);
        let Some(entry) = self.store.get_mut(number).filter(|_| is_same) else { return };
        entry.paged = false;
        let worker = entry.worker;
        ends.into_iter().for_each(|(instance, end)| control.end_marker(worker, instance, end));
        if restarts {
            entry.silence = None;
        }
        self.store.drop_no_more(number);
    }

    /// The worker has kept the old rules.
    pub(super) fn undo(&mut self, number: u32, change: Change, control: &mut Control, clock: &WallClock) {
        let Change { before, chosen, .. } = change;
        let Some(entry) = self.store.get(number).filter(|_| self.store.is_same(number, &before)) else {
            // It has ended meanwhile, and what the change brought with it.
            return self.release_keys(&before.left);
        };
        // Nothing was reported meanwhile.
        let rules = before.rules();
        let session = self.translator(entry.peer, clock).session(&rules, &before.meters);
        if let Ok(session) = &session {
            control.kept(entry.worker, number, session);
            steer(control, entry.worker, entry.keys(), &before.keys);
        }
        self.give_back(&chosen);
        let Ok(session) = session else { return };
        self.store.put_back(number, before, &session, clock.now);
        self.plan_look(number, &rules, clock);
    }

    /// Sees to what was asked of a session while its worker had not answered.
    pub(super) fn ask_deferred(&mut self, number: u32, control: &mut Control, clock: &WallClock) {
        for deferred in self.store.end_request(number) {
            match deferred {
                Deferred::Request(asked, seid, message) => self.request(asked, seid, *message, control, clock),
                Deferred::Response(response) => self.follow(number, &response, control, clock),
                Deferred::Buffered(pdr) => self.packets_wait(number, pdr, clock.now),
            }
        }
    }

    /// A session has ended while its worker had not answered: requests about it are about none.
    pub(super) fn refuse_deferred(&mut self, ended: &mut Ended, control: &mut Control, clock: &WallClock) {
        for deferred in ended.activity.take_deferred() {
            if let Deferred::Request(asked, seid, message) = deferred {
                self.request(asked, seid, *message, control, clock);
            }
        }
    }
}
