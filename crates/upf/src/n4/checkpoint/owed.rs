//! Reports that a control plane has not acknowledged: kept, sent again, and given up in time.

use ledger::Change;
use pfcp::Packet;
use pfcp::ie::NodeId;
use pfcp::message::{SessionDeletionResponse, SessionReportRequest};
use sessions::reports::Owed;

use super::super::metering::WallClock;
use super::super::{N4, Outgoing, RequestContext, SLICE};
use super::{AGAIN, ARRIVED, Checkpoint, Gone, hex, octets, outgoing, report_of, token};
use crate::rules::Usage;

impl N4 {
    /// Sends a report; one of usage when it is on the disk, together with what has now been reported.
    pub(in crate::n4) fn send_report(
        &mut self,
        number: u32,
        report: SessionReportRequest,
        usage: &[Usage],
        clock: &WallClock,
    ) {
        let Some((peer, seid)) = self.store.get(number).map(|entry| (entry.peer, entry.cp_seid)) else { return };
        if report.usage_reports.is_empty() {
            let message = report.into();
            let session = self.store.seid(number);
            return self.out.push_back(Outgoing::Report { peer, seid, session, token: token(number, 0), message });
        }
        let id = self.store.owe(number, octets(seid, report.clone().into()), 0).unwrap_or(0);
        let change = self.keeper.is_some().then(|| self.checkpoint(number, usage, clock)).flatten();
        let message = report.into();
        let session = self.store.seid(number);
        let report = Outgoing::Report { peer, seid, session, token: token(number, id), message };
        self.keep(|_| change.into_iter().collect(), Some(report));
    }

    /// The checkpoint that goes with a response which reports usage, or after which usage counts otherwise.
    pub(in crate::n4) fn responded(
        &mut self,
        number: u32,
        reports: &[pfcp::group::UsageReport],
        usage: &[Usage],
        clock: &WallClock,
    ) -> Option<Change> {
        self.keeper.as_ref()?;
        if !reports.is_empty() {
            let seid = self.store.get(number)?.cp_seid;
            self.store.owe(number, octets(seid, report_of(reports)), clock.now + ARRIVED);
        }
        self.checkpoint(number, usage, clock)
    }

    /// What becomes of a deleted session's checkpoint: its last response, while somebody may ask for it again.
    pub(in crate::n4) fn ended(
        &mut self,
        key: u64,
        (peer, node): (u32, &NodeId),
        owed: &[Owed],
        (cp_seid, response): (u64, &SessionDeletionResponse),
        clock: &WallClock,
    ) -> Change {
        let mut owed: Vec<String> = owed.iter().map(|owed| hex(&owed.message)).collect();
        if self.keeper.is_none() || (response.usage_reports.is_empty() && owed.is_empty()) {
            return Change::DropCheckpoint { key };
        }
        if !response.usage_reports.is_empty() {
            owed.push(hex(&octets(cp_seid, report_of(&response.usage_reports))));
        }
        let response = octets(cp_seid, response.clone().into());
        let gone = Some((node.to_string(), hex(&response)));
        self.checkpoints.gone.insert(key, Gone { peer, response });
        self.checkpoints.over.push_back((clock.now + ARRIVED, key));
        Change::Checkpoint { key, bytes: Checkpoint { gone, owed, ..Checkpoint::default() }.bytes() }
    }

    /// Retransmits unanswered reports of a session that ends, for the last time.
    pub(in crate::n4) fn say_owed(&mut self, peer: u32, cp_seid: u64, owed: &[Owed]) {
        for owed in owed.iter().filter(|owed| owed.is_unanswered()) {
            self.out.extend(outgoing((peer, cp_seid), None, token(u32::MAX, 0), &owed.message));
        }
    }

    /// Answers a deletion again, of a session that was deleted just before a restart. Tells whether it was.
    pub(in crate::n4) fn say_again(&mut self, asked: RequestContext, seid: u64) -> bool {
        let gone = self.checkpoints.gone.get(&seid).filter(|gone| gone.peer == asked.peer);
        let packet = gone.and_then(|gone| Packet::parse(&gone.response).ok());
        packet.is_some_and(|Packet { header, message }| {
            self.out.push_back(Outgoing::Response { asked, seid: header.seid.unwrap_or(0), message });
            true
        })
    }

    /// Reports of usage that were not acknowledged and were given up, for later ones of their session or with it.
    pub fn usage_reports_lost(&self) -> u64 {
        self.store.reports_lost()
    }

    /// A report was acknowledged.
    pub(in crate::n4) fn acknowledged(&mut self, session: u32, number: u32) {
        if number == 0 || !self.store.acknowledged(session, number) {
            return;
        }
        if let Some(meter) = self.store.get_mut(session).and_then(|entry| entry.meters.first_mut()) {
            // The next round writes it down.
            meter.set_unsaved();
        }
    }

    /// Nobody answered a report, or would. Tells whether it is kept for later.
    pub fn unanswered(&mut self, token: u64, now: u64) -> bool {
        let (session, number) = (token as u32, (token >> 32) as u32); // as `token` put them together
        number > 0 && self.store.unanswered(session, number, now + AGAIN)
    }

    /// Retransmits reports that have not been answered for a while, of control planes that are up.
    pub(in crate::n4) fn send_late(&mut self, now: u64) {
        for (session, number) in self.store.take_late(now, SLICE) {
            self.retransmit(session, number);
        }
    }

    /// A control plane is back: it gets what it has not answered, a few reports in each turn.
    pub fn send_again(&mut self, peer: u32) {
        self.store.send_again(peer);
    }

    /// Sends some of the reports that control planes have not answered, which are back.
    pub(in crate::n4) fn send_unanswered(&mut self) {
        for _ in 0..SLICE {
            let Some((session, numbers)) = self.store.next_unanswered() else { return };
            numbers.into_iter().for_each(|number| self.retransmit(session, number));
        }
    }

    fn retransmit(&mut self, session: u32, number: u32) {
        let Some((own, entry)) = self.store.seid(session).zip(self.store.get(session)) else { return };
        let report = self.store.report(session, number);
        let again = |message| outgoing((entry.peer, entry.cp_seid), Some(own), token(session, number), message);
        self.out.extend(report.and_then(again));
    }
}
