//! What sessions have used: when it is looked at, and what of it is reported (3GPP TS 29.244, 7.5.8.3).

use pfcp::group::{CreateUrr, UsageReport};
use pfcp::ie::ReportType;
use pfcp::message::SessionReportRequest;
use sessions::silence::Silence;

use super::answers::{Pending, Query};
use super::change::Rules;
use super::metering::{Causes, Looked, WallClock, look, report, terms};
use super::{N4, counted, translate};
use crate::control::Control;
use crate::rules::Usage;

impl N4 {
    /// Asks a session's worker what it has counted, unless it is being asked.
    pub(super) fn look(&mut self, number: u32, control: &mut Control, now: u64) {
        let Some(worker) = self.store.get(number).map(|entry| entry.worker) else { return };
        if !self.store.begin_measurement(number) {
            return;
        }
        // Half of the command ring is left to requests.
        let asked = control.has_background_room(worker).then(|| control.measure(worker, number).ok()).flatten();
        match asked {
            Some(ask) => {
                self.pending.insert(ask, Pending::Look { number });
            }
            None => {
                // The next look is as good.
                self.store.end_measurement(number);
                self.store.look_at(number, now + 50_000_000);
            }
        }
    }

    /// Enters when a session is to be looked at next, if the clock matters to it.
    pub(super) fn plan_look(&mut self, number: u32, rules: &Rules, clock: &WallClock) {
        let timer = rules.user_plane_inactivity_timer.filter(|timer| timer.0 > 0);
        if timer.is_some()
            && let Some(entry) = self.store.get_mut(number)
        {
            entry.silence.get_or_insert(Silence::from(clock.now));
        }
        let Some(entry) = self.store.get(number) else { return };
        let of_urr = |urr: &CreateUrr| {
            entry.meters.iter().find(|meter| meter.urr == urr.urr_id.0).and_then(|meter| meter.next_look(&terms(urr)))
        };
        let of_rules = translate::next_change(rules, clock.unix(clock.now))
            .map(|unix| (unix * 1_000_000_000).saturating_sub(clock.epoch_ns));
        let of_session = timer.zip(entry.silence).map(|(timer, silence)| silence.next_look(timer.0, clock.now));
        let unix = |unix: u64| (unix * 1_000_000_000).saturating_sub(clock.epoch_ns);
        let monitored = rules.create_urrs.iter().filter_map(|urr| Some(unix(urr.monitoring_time?.unix())));
        let next = rules.create_urrs.iter().filter_map(of_urr).chain(monitored).chain(of_rules).chain(of_session).min();
        match next {
            Some(at) if at != entry.look_at => self.store.look_at(number, at),
            Some(_) => {}
            None => {
                if let Some(entry) = self.store.get_mut(number) {
                    entry.look_at = 0;
                }
            }
        }
    }

    /// Reports of the URRs that a modification queries.
    pub(super) fn asked_for(
        &mut self,
        number: u32,
        query: &Query,
        usage: &[Usage],
        clock: &WallClock,
    ) -> Vec<UsageReport> {
        if query.is_empty() {
            return Vec::new();
        }
        let Some(entry) = self.store.get_mut(number) else { return Vec::new() };
        let rules = entry.rules();
        let mut reports = Vec::new();
        for urr in rules.create_urrs.iter().filter(|urr| query.asks_for(urr.urr_id.0)) {
            let Some(meter) = entry.meters.iter_mut().find(|meter| meter.urr == urr.urr_id.0) else { continue };
            let counted = counted(usage, meter.urr);
            meter.look(&counted, clock.now);
            report(meter, urr, &counted, Causes::QUERY, clock, &mut reports);
        }
        reports
    }

    /// What a worker has counted: reports what is due, plans the next look.
    pub(super) fn looked(&mut self, number: u32, usage: &[Usage], control: &mut Control, clock: &WallClock) {
        let is_full = self.store.is_owed_most(number);
        let Some(entry) = self.store.get_mut(number) else { return };
        let mut rules = entry.rules();
        let Looked { reports, passed, acts } = look(&mut rules, &mut entry.meters, usage, is_full, clock);
        let mut report_type = ReportType::NONE;
        if !reports.is_empty() {
            report_type |= ReportType::USAR;
            self.counters.usage_reports += reports.len() as u64;
        }
        let timer = rules.user_plane_inactivity_timer.filter(|timer| timer.0 > 0);
        if let (Some(timer), Some(silence)) = (timer, &mut entry.silence)
            && silence.is_due(usage, timer.0, clock.now)
        {
            report_type |= ReportType::UPIR;
        }
        if report_type != ReportType::NONE {
            let report = SessionReportRequest { report_type, usage_reports: reports, ..Default::default() };
            self.send_report(number, report, usage, clock);
        }
        if passed {
            // What was given for later is what is given.
            self.store.rewrite(number, &rules);
            let checkpoint = self.responded(number, &[], usage, clock);
            self.keep_session(number, checkpoint, None);
        }
        self.refresh(number, &rules, acts, control, clock);
        self.plan_look(number, &rules, clock);
    }
}
