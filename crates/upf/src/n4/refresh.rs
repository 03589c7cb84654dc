//! Rules that change without a request: their time comes (activation and deactivation, 3GPP TS 29.244, 5.2.1.5), a quota is
//! used up, an application is detected otherwise. And the bounds that hold after a report.

use sessions::activity::Refresh;

use super::answers::Pending;
use super::change::Rules;
use super::metering::{WallClock, terms};
use super::{N4, SLICE, steer, store};
use crate::control::{AskError, Control};

/// Time until a worker that has no room for a session's rules is asked again.
const ROOM_AGAIN: u64 = 1_000_000_000;

impl N4 {
    /// Gives the worker the bounds that hold after a report, and the rules whose time has come. The latter in one, bounds
    /// with them: what a quota let pass no more must not pass by the FAR that another takes the place of.
    /// `acts`: a quota is used up, and another FAR takes the place of the usual one.
    pub(super) fn refresh(&mut self, number: u32, rules: &Rules, acts: bool, control: &mut Control, clock: &WallClock) {
        let timed =
            rules.create_pdrs.iter().any(|pdr| pdr.activation_time.is_some() || pdr.deactivation_time.is_some());
        if !timed && !acts {
            return self.rebound(number, control);
        }
        if self.store.has_request(number) || self.store.refresh(number).is_given() {
            // Its worker may yet refuse the rules it has here.
            return self.store.refresh_from(clock.now, number);
        }
        let Some(entry) = self.store.get(number) else { return };
        let Ok(session) = self.translator(entry.peer, clock).session(rules, &entry.meters) else { return };
        let keys = store::keys(&session);
        if !control.has_background_room(entry.worker) {
            return self.store.refresh_from(clock.now, number);
        }
        match control.install(entry.worker, number, &session) {
            Ok(ask) => {
                steer(control, entry.worker, entry.keys(), &keys);
                self.store.set_keys(number, keys);
                self.store.refresh_given(number);
                self.pending.insert(ask, Pending::Refresh { number });
            }
            Err(AskError::Busy) => self.store.refresh_from(clock.now, number),
            Err(_) => {}
        }
    }

    /// The worker has taken in a session's rules as they are now, or has no room for them.
    pub(super) fn refreshed(&mut self, number: u32, is_there: bool, control: &mut Control, clock: &WallClock) {
        self.store.refresh_answered(number);
        if !is_there {
            self.store.refresh_from(clock.now + ROOM_AGAIN, number);
        } else if self.store.has_request(number) {
            self.store.refresh_from(clock.now, number);
        } else {
            // Its first packets are those from now on.
            self.rebound(number, control);
        }
    }

    /// Tells the worker which URRs have reported, and the bounds that hold for them now; not before it has the rules that
    /// they belong to, with which they come too.
    pub(super) fn rebound(&mut self, number: u32, control: &mut Control) {
        if self.store.refresh(number) != Refresh::None {
            return;
        }
        let Some(entry) = self.store.get(number) else { return };
        for urr in &entry.rules().create_urrs {
            if let Some(meter) = entry.meters.iter().find(|meter| meter.urr == urr.urr_id.0) {
                let (threshold, quota) = meter.bounds(&terms(urr));
                control.reported(entry.worker, number, urr.urr_id.0, threshold, quota);
            }
        }
    }

    /// Gives workers the rules they had no hands or no room for before.
    pub(super) fn refresh_again(&mut self, control: &mut Control, clock: &WallClock) {
        for number in self.store.take_refreshes(clock.now, SLICE) {
            if let Some(rules) = self.store.get(number).map(store::StoredSession::rules) {
                self.refresh(number, &rules, true, control, clock);
            }
        }
    }
}
