//! What sessions have to tell: usage that is due, packets that wait, tunnels that are gone (3GPP TS 29.244, 7.5.8); and
//! when a session is to be looked at next.

use std::collections::BTreeMap;
use std::net::IpAddr;

use pfcp::group::{
    CreateFar, DownlinkDataReport, UpdateBarInReportResponse, UsageReport, UserPlanePathFailureReport,
    UserPlanePathRecoveryReport,
};
use pfcp::ie::{
    ApplyAction, Cause, DlBufferingDuration, NodeReportType, PdrId, PfcpSrRspFlags, RemoteGtpUPeer, ReportType,
    SuggestedBufferingPacketsCount,
};
use pfcp::message::{NodeReportRequest, SessionReportRequest, SessionReportResponse};
use sessions::activity::Refresh;
use sessions::silence::Silence;

use super::answers::{Pending, Query};
use super::change::{self, Rules};
use super::in_progress::Deferred;
use super::metering::{Causes, Looked, WallClock, look, report, terms};
use super::paths::{Act, Path};
use super::{N4, Outgoing, SLICE, counted, store, translate};
use crate::control::{AskError, Control};
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
        if let Some(entry) = self.store.get_mut(number).filter(|entry| timer.is_some() && entry.silence.is_none()) {
            entry.silence = Some(Silence::from(clock.now));
        }
        let Some(entry) = self.store.get(number) else { return };
        let of_urr = |urr: &pfcp::group::CreateUrr| {
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
                super::steer(control, entry.worker, entry.keys(), &keys);
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

    /// Asks GTP-U peers whether they are there, and tells of those that are not (User Plane Path Failure Report,
    /// 7.4.5.1.2).
    pub(super) fn supervise_paths(&mut self, control: &mut Control, now: u64) {
        let mut failed: BTreeMap<u32, Vec<RemoteGtpUPeer>> = BTreeMap::new();
        for act in self.paths.act(now) {
            match act {
                Act::Echo(path, sequence) => control.echo(path.instance, path.peer, sequence),
                Act::Failed(path, whom) => {
                    self.counters.path_failures += 1;
                    tracing::warn!(
                        target: "gtpu", event = "path_failed",
                        peer = %path.peer, instance = self.networks.name(path.instance),
                        "the peer does not answer Echo Requests"
                    );
                    whom.into_iter().for_each(|peer| failed.entry(peer).or_default().push(remote(path)));
                }
            }
        }
        for (peer, remotes) in failed {
            for some in remotes.chunks(PEERS_A_REPORT) {
                let report = UserPlanePathFailureReport { remote_gtp_u_peers: some.to_vec(), ..Default::default() };
                let message = NodeReportRequest {
                    node_id: self.node.clone(),
                    node_report_type: NodeReportType::UPFR,
                    user_plane_path_failure_report: Some(report),
                    ..NodeReportRequest::default()
                };
                self.out.push_back(Outgoing::NodeReport { peer, message: message.into() });
            }
        }
    }

    /// A GTP-U peer has answered; one that had not before is told of (User Plane Path Recovery Report, 7.4.5.1.3).
    pub(super) fn path_answers(&mut self, path: Path, sequence: u16, now: u64) {
        let Some(whom) = self.paths.heard(path, sequence, now) else { return };
        self.counters.path_recoveries += 1;
        tracing::info!(
            target: "gtpu", event = "path_recovered",
            peer = %path.peer, instance = self.networks.name(path.instance), "the peer answers again"
        );
        for peer in whom {
            let remote_gtp_u_peers = vec![remote(path)];
            let report = UserPlanePathRecoveryReport { remote_gtp_u_peers, ..Default::default() };
            let message = NodeReportRequest {
                node_id: self.node.clone(),
                node_report_type: NodeReportType::UPRR,
                user_plane_path_recovery_report: Some(report),
                ..NodeReportRequest::default()
            };
            self.out.push_back(Outgoing::NodeReport { peer, message: message.into() });
        }
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
}

impl N4 {
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

    /// Gives workers the rules they had no hands or no room for before.
    pub(super) fn refresh_again(&mut self, control: &mut Control, clock: &WallClock) {
        for number in self.store.take_refreshes(clock.now, SLICE) {
            if let Some(rules) = self.store.get(number).map(store::StoredSession::rules) {
                self.refresh(number, &rules, true, control, clock);
            }
        }
    }
}

/// Time until a worker that has no room for a session's rules is asked again.
const ROOM_AGAIN: u64 = 1_000_000_000;

/// Units of a Downlink Data Notification Delay: 50 ms (8.2.28).
const DELAY_UNIT: u64 = 50_000_000;

/// The FAR by which a PDR's packets wait and are reported.
fn waiting_by(rules: &Rules, pdr: u16) -> Option<&CreateFar> {
    let rule = rules.create_pdrs.iter().find(|rule| rule.pdr_id.0 == pdr);
    let far = change::far_of(rules, rule.and_then(|rule| rule.far_id))?;
    let waits = far.apply_action.contains(ApplyAction::NOCP) && far.apply_action.contains(ApplyAction::BUFF);
    waits.then_some(far)
}

/// Peers in a report at most, so that it fits a packet.
const PEERS_A_REPORT: usize = 32;

/// A path's end, as control planes name it.
fn remote(path: Path) -> RemoteGtpUPeer {
    match path.peer {
        IpAddr::V4(ip4) => RemoteGtpUPeer { ip4: Some(ip4), ..RemoteGtpUPeer::default() },
        IpAddr::V6(ip6) => RemoteGtpUPeer { ip6: Some(ip6), ..RemoteGtpUPeer::default() },
    }
}
