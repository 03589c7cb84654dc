//! Tunnels that a GTP-U peer does not know any more (Error Indication Report, 3GPP TS 29.244, 5.2.3.3, 7.5.8.4). Whoever sends
//! Error Indications by the thousand makes no thousand reports of them: each tunnel is told of once in a second.

use std::net::IpAddr;

use pfcp::group::ErrorIndicationReport;
use pfcp::ie::{FTeid, ReportType};
use pfcp::message::SessionReportRequest;
use wire::Teid;

use super::{N4, Outgoing};

impl N4 {
    /// A GTP-U peer does not know a tunnel of its own any more (5.2.3.3); the address and TEID are *its*.
    pub(super) fn error_indicated(&mut self, number: u32, from: IpAddr, teid: u32, now: u64) {
        if !self.store.is_news(number, teid, now) {
            return;
        }
        let Some(entry) = self.store.get(number) else { return };
        let remote = FTeid::new(Teid(teid), from);
        let report = ErrorIndicationReport { remote_f_teids: vec![remote], ..ErrorIndicationReport::default() };
        let message = SessionReportRequest {
            report_type: ReportType::ERIR,
            error_indication_report: Some(report),
            ..SessionReportRequest::default()
        };
        let (peer, seid) = (entry.peer, entry.cp_seid);
        self.counters.error_indication_reports += 1;
        let session = self.store.seid(number);
        self.out.push_back(Outgoing::Report { peer, seid, session, token: number.into(), message: message.into() });
    }
}
