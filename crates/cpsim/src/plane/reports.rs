//! What the user plane says unasked: usage, packets that wait, tunnels that are gone (3GPP TS 29.244, 7.5.8).

use ledger::Record;
use pfcp::group::UsageReport;
use pfcp::ie::{Cause, ReportType, UsageReportTrigger};
use pfcp::message::{NodeReportRequest, NodeReportResponse, SessionReportRequest};
use pfcp::node::{Ticket, Time};

use super::{Acknowledgement, ControlPlane, From, State};

impl ControlPlane {
    /// Records of the reports of usage that are new, and what waits for them.
    pub(super) fn charge(&mut self, i: usize, reports: &[UsageReport], answer: Option<Acknowledgement>, now: Time) {
        let subscriber = &mut self.subscribers[i];
        let mut account = std::mem::take(&mut subscriber.account);
        let from = From { spec: &self.spec, node: &self.user_plane, address: self.address, now: self.epoch.after(now) };
        let mut records: Vec<Record> = Vec::new();
        for report in reports {
            if account.is_new(report) {
                self.tally.usage(report);
                records.push(account.record(i as u32, subscriber, report, &from));
            } else {
                self.tally.counts.repeated += 1;
            }
        }
        subscriber.account = account;
        if !records.is_empty() || answer.is_some() {
            self.batches.push((records, answer));
        }
    }

    /// What the user plane has noticed of GTP-U peers (Node Report, 7.4.5.1): taken note of.
    pub(super) fn node_reported(&mut self, ticket: Ticket, report: &NodeReportRequest, now: Time) {
        let failed = report.user_plane_path_failure_report.as_ref().map_or(0, |report| report.remote_gtp_u_peers.len());
        let back = report.user_plane_path_recovery_report.as_ref().map_or(0, |report| report.remote_gtp_u_peers.len());
        (0..failed).for_each(|_| self.tally.kind("gtpu_peer_silent"));
        (0..back).for_each(|_| self.tally.kind("gtpu_peer_back"));
        self.tally.counts.reports += 1;
        let node_id = self.node.config().node_id.clone();
        let response = NodeReportResponse { node_id, cause: Cause::REQUEST_ACCEPTED, ..Default::default() };
        self.node.respond(ticket, None, response.into(), now);
    }

    pub(super) fn reported(&mut self, ticket: Ticket, seid: u64, report: &SessionReportRequest, now: Time) {
        self.overload.hear(report.load_control_information.as_ref(), report.overload_control_information.as_ref(), now);
        let i = (seid as u32).checked_sub(1).filter(|i| (*i as usize) < self.subscribers.len()); // the number's half
        let known = i.filter(|i| {
            let subscriber = &self.subscribers[*i as usize];
            matches!(subscriber.state, State::Up | State::Idle) && subscriber.session.cp_seid == seid
        });
        let cause = if known.is_some() { Cause::REQUEST_ACCEPTED } else { Cause::SESSION_CONTEXT_NOT_FOUND };
        let seid = known.and_then(|i| self.up_seid(i)).unwrap_or(0);
        let answer = Acknowledgement { ticket, seid, cause };
        match known.filter(|_| !report.usage_reports.is_empty()) {
            Some(i) => self.charge(i as usize, &report.usage_reports, Some(answer), now),
            None => self.acknowledge(answer, now),
        }
        self.tally.counts.reports += 1;
        let kinds = [
            (ReportType::DLDR, "downlink_data"),
            (ReportType::ERIR, "error_indication"),
            (ReportType::UPIR, "inactivity"),
        ];
        for (kind, name) in kinds {
            if report.report_type.contains(kind) {
                self.tally.kind(name);
            }
        }
        let Some(i) = known else { return };
        if report.report_type.contains(ReportType::DLDR) {
            self.wakes.push_back((now + self.spec.life.paging, i));
        }
        if report.usage_reports.iter().any(|usage| usage.usage_report_trigger.contains(UsageReportTrigger::VOLQU)) {
            self.subscribers[i as usize].wants_grant = true;
            self.grant(i, now);
        }
    }
}
