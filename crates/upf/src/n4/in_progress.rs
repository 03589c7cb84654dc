//! Modifications on their way to workers (3GPP TS 29.244, 7.5.4). Control has the new rules at once; a worker without room
//! keeps the old ones, and then so does control. What is asked of the session meanwhile is seen to afterwards.

use dataplane::forward::InstanceId;
use pfcp::message::{Message, SessionReportResponse};

use super::change::Rules;
use super::choose::Chosen;
use super::ending::Ended;
use super::metering::{Metering, WallClock};
use super::paths::Path;
use super::requests::Made;
use super::store::Key;
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
#[derive(Debug, Default)]
pub(super) struct Change {
    seid: u64,
    rules: Rules,
    meters: Box<[Metering]>,
    keys: Vec<Key>,
    /// Those that it does without.
    left: Vec<Key>,
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

    /// Control goes by new rules, from when their worker is asked for them.
    pub(super) fn begin_change(
        &mut self,
        number: u32,
        before: Rules,
        rules: &Rules,
        made: Made,
        control: &mut Control,
        clock: &WallClock,
    ) -> Change {
        let entry = self.store.get(number);
        let keys = entry.map(|entry| entry.keys().to_vec()).unwrap_or_default();
        let seid = self.store.seid(number).unwrap_or(0);
        let left = keys.iter().filter(|key| !made.keys.contains(key)).copied().collect();
        let meters = self.enter(number, made, control, clock);
        self.plan_look(number, rules, clock);
        self.store.begin_request(number);
        Change { seid, rules: before, meters, keys, left, ..Change::default() }
    }

    /// Rules take the place of others; returns the accounts there were.
    fn enter(&mut self, number: u32, made: Made, control: &mut Control, clock: &WallClock) -> Box<[Metering]> {
        let Made { worker, session, meters, keys, cp_seid, message } = made;
        let old = self.store.get(number).map(|entry| entry.keys().to_vec()).unwrap_or_default();
        steer(control, worker, &old, &keys);
        self.store.set_keys(number, keys);
        self.take_paths(number, Path::of(&session), clock.now);
        self.guaranteed.set(number, &session);
        self.store.set_rules(number, cp_seid, message);
        let entry = self.store.get_mut(number);
        entry.map(|entry| std::mem::replace(&mut entry.meters, meters.into())).unwrap_or_default()
    }

    /// The worker has taken the new rules.
    pub(super) fn commit_change(&mut self, number: u32, change: Change, control: &mut Control) {
        self.release_keys(&change.left, &[]);
        let Some(entry) = self.store.get_mut(number).filter(|entry| entry.is(number, change.seid)) else { return };
        entry.paged = false;
        let worker = entry.worker;
        change.ends.into_iter().for_each(|(instance, end)| control.end_marker(worker, instance, end));
        if change.restarts {
            entry.silence = None;
        }
        self.store.drop_no_more(number);
    }

    /// The worker has kept the old rules.
    pub(super) fn undo(&mut self, number: u32, change: Change, control: &mut Control, clock: &WallClock) {
        let Some(entry) = self.store.get(number).filter(|entry| entry.is(number, change.seid)) else {
            // It has ended meanwhile, and what the change brought with it.
            return self.release_keys(&change.left, &[]);
        };
        let (worker, peer) = (entry.worker, entry.peer);
        // Nothing was reported meanwhile.
        let meters = change.meters.into_vec();
        self.give_back(&change.chosen);
        let session = self.translator(peer, clock).session(&change.rules, &meters);
        let (Ok(session), Some(message)) = (session, self.store.written(&change.rules)) else { return };
        control.kept(worker, number, &session);
        let cp_seid = change.rules.cp_f_seid.seid;
        let made = Made { worker, session, meters, keys: change.keys, cp_seid, message };
        self.enter(number, made, control, clock);
        self.plan_look(number, &change.rules, clock);
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
