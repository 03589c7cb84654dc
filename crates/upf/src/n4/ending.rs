//! How sessions end: deleted, replaced, with their association or with their set (3GPP TS 29.244, 7.5.6; TS 23.527).

use std::collections::BTreeSet;

use ledger::Change;
use pfcp::ie::{Cause, FqCsid};
use pfcp::message::SessionDeletionResponse;

use super::answers::Pending;
use super::checkpoint::last_report;
use super::keep::Keeper;
use super::metering::{Causes, WallClock, report};
use super::prepare::not_installed;
use super::problem::Problem;
use super::store::{self, Activity, Prepared, StoredSession};
use super::{N4, Outgoing, RequestContext, SLICE, SetEnd, counted, steer};
use crate::control::{AskError, Control};
use crate::rules::Usage;

/// Why a session ends.
#[derive(Clone, Copy, Debug)]
pub(super) enum End {
    /// The control plane requested it; usage is in the response.
    Request(RequestContext),
    /// The control plane has another in its place; usage is in a report.
    Replaced,
    /// The control plane is gone, or has no such session: usage is not reported.
    Unheard,
}

/// A session that is being taken out.
#[derive(Debug)]
pub(super) struct Ended {
    pub end: End,
    pub seid: u64,
    pub entry: Box<StoredSession>,
    /// What it was in the middle of.
    pub activity: Activity,
}

impl N4 {
    pub(super) fn delete(&mut self, asked: RequestContext, seid: u64, control: &mut Control) -> Result<(), Problem> {
        let unknown = Problem::of(Cause::SESSION_CONTEXT_NOT_FOUND);
        let number = self.store.find(seid).ok_or(unknown)?;
        self.store.get(number).filter(|entry| entry.peer == asked.peer).ok_or(unknown)?;
        self.end(number, End::Request(asked), control)
    }

    /// Takes a session out; what it has used since it was last reported is told when its worker has let it go.
    pub(super) fn end(&mut self, number: u32, end: End, control: &mut Control) -> Result<(), Problem> {
        let unknown = Problem::of(Cause::SESSION_CONTEXT_NOT_FOUND);
        let worker = self.store.get(number).ok_or(unknown)?.worker;
        let ask = control.remove(worker, number).map_err(|error| not_installed(&error))?;
        let seid = self.store.seid(number).ok_or(unknown)?;
        let (entry, activity) = self.take_out(number, control).ok_or(unknown)?;
        self.release_keys(entry.keys());
        let ended = Ended { end, seid, entry: Box::new(entry), activity };
        self.pending.insert(ask, Pending::Delete(ended));
        Ok(())
    }

    /// Takes a session out of all that control keeps of it, by whichever way it ends. Its identifiers are not free by that,
    /// and its worker is not told.
    pub(super) fn take_out(&mut self, number: u32, control: &mut Control) -> Option<(StoredSession, Activity)> {
        let (entry, activity) = self.store.take(number)?;
        steer(control, entry.worker, entry.keys(), &[]);
        Some((entry, activity))
    }

    /// A session's worker has let it go, and this is what it had counted: the control plane hears what is not in a report
    /// yet, or it is counted.
    pub(super) fn ended_with(&mut self, ended: Ended, usage: &[Usage], clock: &WallClock) {
        let Ended { end, seid: key, mut entry, activity } = ended;
        let owed = activity.owed;
        self.checkpoints.outdate(key);
        self.counters.deleted += 1;
        let rules = entry.rules();
        let cause = match end {
            End::Request(_) => Causes::ENDED,
            End::Replaced | End::Unheard => Causes::ENDED_HERE,
        };
        let (mut reports, mut unreported) = (Vec::new(), 0);
        for urr in &rules.create_urrs {
            let Some(meter) = entry.meters.iter_mut().find(|meter| meter.urr == urr.urr_id.0) else { continue };
            let counted = counted(usage, meter.urr);
            unreported += meter.unreported(&counted);
            meter.look(&counted, clock.now);
            report(meter, urr, &counted, cause, clock, &mut reports);
        }
        let whose = (entry.peer, &rules.node_id);
        let cp_seid = entry.cp_seid;
        let mut response = SessionDeletionResponse { cause: Cause::REQUEST_ACCEPTED, ..Default::default() };
        match end {
            End::Request(asked) => {
                self.say_owed(entry.peer, cp_seid, &owed);
                response.usage_reports = reports;
                let last = self.ended(key, whose, &owed, (cp_seid, &response), clock);
                let answer = Outgoing::Response { asked, seid: cp_seid, message: response.into() };
                self.keep(|_| vec![Change::DeleteSession { key }, last], Some(answer));
            }
            End::Replaced => {
                self.say_owed(entry.peer, cp_seid, &owed);
                response.usage_reports = if unreported > 0 { reports } else { Vec::new() };
                let last = self.ended(key, whose, &owed, (cp_seid, &response), clock);
                self.counters.usage_reports += response.usage_reports.len() as u64;
                let report = last_report(entry.peer, cp_seid, &response.usage_reports);
                self.keep(|_| vec![Change::DeleteSession { key }, last], report);
            }
            End::Unheard => {
                self.counters.octets_unheard += unreported;
                self.store.give_up(&owed);
                self.keep(|_| vec![Change::DeleteSession { key }, Change::DropCheckpoint { key }], None);
            }
        }
    }

    /// Who establishes a session under the number it has for one that is there (CP F-SEID, 8.2.37) knows nothing of that: it
    /// missed our answer, or has forgotten. Its subscriber is not to be locked out: what the new session needs, the old one
    /// ends for. What that has used is told under the number they share (Termination by the UP function, 8.2.41). None ends
    /// if the new one can't be.
    pub(super) fn end_namesakes(&mut self, peer: u32, made: &Prepared, control: &mut Control) -> Result<(), Problem> {
        let owners: BTreeSet<u32> = made.keys.iter().filter_map(|key| self.store.lookup(*key)).collect();
        let mut ends = Vec::new();
        let mut commands = vec![(made.worker, 1)];
        for (number, entry) in owners.iter().filter_map(|number| Some((*number, self.store.get(*number)?))) {
            let end = match entry.peer == peer && entry.cp_seid == made.cp_seid {
                true => End::Replaced,
                false if self.is_to_end(number) => End::Unheard,
                // A session that stays has the key: the new one is refused.
                false => return Ok(()),
            };
            ends.push((number, end));
            match commands.iter_mut().find(|(worker, _)| *worker == entry.worker) {
                Some((_, count)) => *count += 1,
                None => commands.push((entry.worker, 1)),
            }
        }
        if ends.is_empty() {
            return Ok(());
        }
        if commands.iter().any(|(worker, count)| !control.has_room_for(*worker, *count)) {
            return Err(not_installed(&AskError::Busy));
        }
        let compiled = control.compile(&made.session, self.store.next_number());
        compiled.map_err(|error| not_installed(&error.into()))?;
        ends.into_iter().try_for_each(|(number, end)| self.end(number, end, control))
    }

    /// Whether a session's association is over or its set is to end, and only its turn has not come yet.
    fn is_to_end(&self, number: u32) -> bool {
        let is_in = |(set, end): (&u32, &SetEnd)| {
            let found = self.store.sets().next(*set, number);
            found.is_some_and(|(session, entered)| session == number && entered <= end.made)
        };
        self.store.get(number).is_some_and(|entry| self.ending_peers.contains(&entry.peer))
            || self.ending_sets.iter().any(is_in)
    }

    /// An association is over: its sessions end, a few in each turn, and what waits to be carried out for it is refused.
    pub(crate) fn end_peer(&mut self, peer: u32) {
        self.refuse_waiting(peer, Cause::NO_ESTABLISHED_PFCP_ASSOCIATION);
        self.ending_peers.insert(peer);
    }

    /// Ends some sessions of associations that are over.
    pub(super) fn end_peers(&mut self, control: &mut Control) {
        while let Some(peer) = self.ending_peers.first().copied() {
            let Some(number) = self.store.numbers_of_peer(peer).next() else {
                self.ending_peers.remove(&peer);
                self.applications.remove(&peer);
                continue;
            };
            if !self.may_end(number, control) || self.end(number, End::Unheard, control).is_err() {
                return;
            }
        }
    }

    /// Sessions of a set end (FQ-CSID, TS 23.527, 4.6): those there are now, a few in each turn. A request that is repeated
    /// meanwhile adds nothing but the sessions made since.
    pub(crate) fn end_set(&mut self, peer: u32, sets: &[FqCsid]) {
        let made = self.store.made();
        for set in sets.iter().flat_map(FqCsid::sets) {
            for id in self.store.sets().find(peer, store::named(set)) {
                self.ending_sets.insert(id, SetEnd { made, next: 0 });
            }
        }
    }

    /// Ends some sessions of sets that are to end.
    pub(super) fn end_sets(&mut self, control: &mut Control) {
        while let Some((&set, &SetEnd { made, next })) = self.ending_sets.first_key_value() {
            let Some((number, entered)) = self.store.sets().next(set, next) else {
                self.ending_sets.remove(&set);
                continue;
            };
            if entered <= made {
                if !self.may_end(number, control) {
                    return;
                }
                self.end_unasked(number, control);
            } else if !self.take_from_slice() {
                return;
            }
            if let Some(end) = self.ending_sets.get_mut(&set) {
                end.next = number.saturating_add(1);
            }
        }
    }

    /// Whether one more session may end in this turn without a request: so many may, half of its worker's command ring is
    /// left to requests, and few changes are on their way to the disk.
    fn may_end(&mut self, number: u32, control: &Control) -> bool {
        let worker = self.store.get(number).map(|entry| entry.worker);
        worker.is_none_or(|worker| control.has_background_room(worker))
            && self.keeper.as_ref().is_none_or(Keeper::has_background_room)
            && self.take_from_slice()
    }

    /// Takes one piece of work from this turn's slice, if there is one left.
    fn take_from_slice(&mut self) -> bool {
        let is_left = self.slice > 0;
        self.slice = self.slice.saturating_sub(1);
        is_left
    }

    /// Takes a session out of which the control plane will not speak again: now or when its worker has a hand free.
    pub(super) fn end_unasked(&mut self, number: u32, control: &mut Control) {
        let seid = self.store.seid(number);
        if self.end(number, End::Unheard, control).is_err() {
            self.over.extend(seid);
        }
    }

    /// Takes out sessions whose worker's command ring was full before.
    pub(super) fn end_again(&mut self, control: &mut Control) {
        for _ in 0..self.over.len().min(SLICE) {
            let number = self.over.pop_front().and_then(|seid| self.store.find(seid));
            number.into_iter().for_each(|number| self.end_unasked(number, control));
        }
    }
}
