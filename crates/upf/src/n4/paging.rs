//! Packets that wait for an idle subscriber: told of (Downlink Data Report, 3GPP TS 29.244, 7.5.8.2), and dropped in time.

use pfcp::group::{CreateFar, DownlinkDataReport, UpdateBarInReportResponse};
use pfcp::ie::{
    ApplyAction, Cause, DlBufferingDuration, PdrId, PfcpSrRspFlags, ReportType, SuggestedBufferingPacketsCount,
};
use pfcp::message::{SessionReportRequest, SessionReportResponse};

use super::change::{self, Rules};
use super::in_progress::Deferred;
use super::metering::WallClock;
use super::{N4, Outgoing, SLICE};
use crate::control::Control;

/// Units of a Downlink Data Notification Delay: 50 ms (8.2.28).
const DELAY_UNIT: u64 = 50_000_000;

impl N4 {
    /// Packets wait for an idle subscriber: told once, until the control plane changes something (5.2.3.1, NOCP), at once
    /// or after as long as it said (Downlink Data Notification Delay, 8.2.28).
    pub(super) fn packets_wait(&mut self, number: u32, pdr: u16, now: u64) {
        if let Some(deferred) = self.store.deferred(number) {
            // The rules it has here may yet be refused, and those it keeps have the packets wait on, told of by nobody.
            let is_known = |deferred: &Deferred| matches!(deferred, Deferred::Buffered(other) if *other == pdr);
            if !deferred.iter().any(is_known) {
                // A request is under way: it is taken.
                let _ = self.store.defer(number, Deferred::Buffered(pdr));
            }
            return;
        }
        let Some(entry) = self.store.get_mut(number).filter(|entry| !entry.paged) else { return };
        let rules = entry.rules();
        let Some(far) = waiting_by(&rules, pdr) else { return };
        entry.paged = true;
        let bar = rules.create_bar.as_ref().filter(|bar| Some(bar.bar_id) == far.bar_id);
        match bar.and_then(|bar| bar.downlink_data_notification_delay).filter(|delay| delay.0 > 0) {
            Some(delay) => self.store.notify_at(number, pdr, now + u64::from(delay.0) * DELAY_UNIT),
            None => self.tell_packets_wait(number, pdr),
        }
    }

    /// Sends the report, if there is still reason to.
    pub(super) fn tell_packets_wait(&mut self, number: u32, pdr: u16) {
        let Some(entry) = self.store.get(number).filter(|entry| waiting_by(&entry.rules(), pdr).is_some()) else {
            return;
        };
        let (peer, seid) = (entry.peer, entry.cp_seid);
        let report = DownlinkDataReport { pdr_ids: vec![PdrId(pdr)], ..DownlinkDataReport::default() };
        let message = SessionReportRequest {
            report_type: ReportType::DLDR,
            downlink_data_report: Some(report),
            ..SessionReportRequest::default()
        };
        self.counters.downlink_data_reports += 1;
        let session = self.store.seid(number);
        self.out.push_back(Outgoing::Report { peer, seid, session, token: number.into(), message: message.into() });
    }

    /// The control plane's answer to a report about the session we number `seid`: how to buffer from now on (7.5.9.2). A
    /// session it does not know is none (7.5.9). Nothing, if the session is gone.
    pub fn reported(
        &mut self,
        token: u64,
        seid: u64,
        response: &SessionReportResponse,
        control: &mut Control,
        clock: &WallClock,
    ) {
        let Some(session) = self.store.find(seid) else { return };
        self.acknowledged(session, (token >> 32) as u32); // as it was put together
        if response.cause == Cause::SESSION_CONTEXT_NOT_FOUND {
            return self.end_unasked(session, control);
        }
        self.follow(session, response, control, clock);
    }

    /// Does what the answer to a report says, when it is settled by which rules the session goes: what is said here stays,
    /// whatever becomes of a modification.
    pub(super) fn follow(
        &mut self,
        session: u32,
        response: &SessionReportResponse,
        control: &mut Control,
        clock: &WallClock,
    ) {
        if self.store.has_request(session) {
            return drop(self.store.defer(session, Deferred::Response(Box::new(response.clone()))));
        }
        let Some(entry) = self.store.get(session) else { return };
        if response.pfcp_sr_rsp_flags.is_some_and(|flags| flags.contains(PfcpSrRspFlags::DROBU)) {
            control.discard(entry.worker, session);
        }
        let mut rules = entry.rules();
        let update = response.update_bar.as_ref();
        let bar = rules.create_bar.as_mut().zip(update).filter(|(bar, update)| bar.bar_id == update.bar_id);
        if let Some((bar, update)) = bar {
            let UpdateBarInReportResponse { downlink_data_notification_delay: delay, .. } = update;
            let count = update.suggested_buffering_packets_count;
            bar.downlink_data_notification_delay = delay.or(bar.downlink_data_notification_delay);
            // Those to wait for so long count as those to wait at all; both have an octet or more (8.2.30, 8.2.100).
            let count = count.or_else(|| {
                let extended = update.dl_buffering_suggested_packet_count?;
                Some(SuggestedBufferingPacketsCount(u8::try_from(extended.0).unwrap_or(u8::MAX)))
            });
            bar.suggested_buffering_packets_count = count.or(bar.suggested_buffering_packets_count);
            if let Some(seconds) = update.dl_buffering_duration.and_then(DlBufferingDuration::seconds) {
                self.store.drop_at(session, clock.now + u64::from(seconds) * 1_000_000_000);
            }
            self.store.rewrite(session, &rules);
            self.keep_session(session, None, None);
            self.refresh(session, &rules, true, control, clock);
        }
    }
    /// Packets that have waited as long as the control plane said (DL Buffering Duration, 8.2.29) are dropped; the next one
    /// is reported again.
    pub(super) fn drop_waiting(&mut self, control: &mut Control, now: u64) {
        for number in self.store.take_drops(now, SLICE) {
            if let Some(entry) = self.store.get_mut(number) {
                entry.paged = false;
                control.discard(entry.worker, number);
            }
        }
    }
}

/// The FAR by which a PDR's packets wait and are reported.
fn waiting_by(rules: &Rules, pdr: u16) -> Option<&CreateFar> {
    let rule = rules.create_pdrs.iter().find(|rule| rule.pdr_id.0 == pdr);
    let far = change::far_of(rules, rule.and_then(|rule| rule.far_id))?;
    let waits = far.apply_action.contains(ApplyAction::NOCP) && far.apply_action.contains(ApplyAction::BUFF);
    waits.then_some(far)
}
