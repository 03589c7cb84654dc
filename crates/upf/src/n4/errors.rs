//! Tunnels that a GTP-U peer does not know any more (Error Indication Report, 3GPP TS 29.244, 5.2.3.3, 7.5.8.4). Whoever sends
//! Error Indications by the thousand makes no thousand reports of them: each tunnel is told of once in a second.

use std::collections::HashMap;
use std::net::IpAddr;

use pfcp::group::ErrorIndicationReport;
use pfcp::ie::{FTeid, ReportType};
use pfcp::message::SessionReportRequest;
use wire::Teid;

use super::{N4, Outgoing};

/// Time for which a tunnel that was reported is not reported again.
const REST: u64 = 1_000_000_000;
/// Sessions with tunnels told of in that time at most: beyond them control planes have other things to hear.
const MOST: usize = 65_536;
/// Tunnels of one session reported in that time at most.
const TUNNELS: usize = 64;

/// Tunnels reported: TEID and time, by session.
#[derive(Debug, Default)]
pub(super) struct Told(HashMap<u32, Vec<(u32, u64)>>);

impl Told {
    /// Whether it is to be reported now; it counts as reported then.
    fn is_news(&mut self, (session, teid): (u32, u32), now: u64) -> bool {
        let fresh = |(_, at): &(u32, u64)| now.saturating_sub(*at) < REST;
        if self.0.len() >= MOST {
            self.0.retain(|_, told| told.iter().any(fresh));
        }
        if self.0.len() >= MOST && !self.0.contains_key(&session) {
            return false;
        }
        let told = self.0.entry(session).or_default();
        told.retain(fresh);
        // A session has few tunnels, so there are few to look through.
        let news = told.len() < TUNNELS && told.iter().all(|(known, _)| *known != teid);
        if news {
            told.push((teid, now));
        }
        news
    }

    /// The session's rules were changed: what its tunnels answer from now on is about the new ones. Open5GS's SGW-C pages
    /// a subscriber after each of two Error Indications about one TEID within a second.
    pub(super) fn forget(&mut self, session: u32) {
        self.0.remove(&session);
    }
}

impl N4 {
    /// A GTP-U peer does not know a tunnel of its own any more (5.2.3.3); the address and TEID are *its*.
    pub(super) fn error_indicated(&mut self, number: u32, from: IpAddr, teid: u32, now: u64) {
        let Some(entry) = self.store.get(number) else { return };
        if !self.errors.is_news((number, teid), now) {
            return;
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_told_of_once_a_second_and_takes_no_room() {
        let mut told = Told::default();
        let news = (0..1000).filter(|ms| told.is_news((1, 7), ms * 10_000_000)).count();
        assert_eq!(news, 10, "ten seconds");
        assert!(told.is_news((2, 7), 9_990_000_000), "another session");
        for session in 0..2 * MOST as u32 {
            told.is_news((session, 1), 20 * REST);
        }
        assert_eq!(told.0.len(), MOST);
        for teid in 0..2 * TUNNELS as u32 {
            told.is_news((3, teid), 20 * REST);
        }
        assert_eq!(told.0[&3].len(), TUNNELS);
        assert!(told.is_news((u32::MAX, 1), 22 * REST), "later there is room again");
    }
}
