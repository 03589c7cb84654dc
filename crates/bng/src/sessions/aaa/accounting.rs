//! What servers are told of sessions: start, interim updates, stop (RFC 2866).

use std::cmp::Reverse;

use access::Time;
use access::subscriber::Identity;
use radius::Attribute;
use radius::accounting::{Counters, Report, Status};
use radius::dictionary::number;

use super::{Aaa, Account};
use crate::subscribers::Usage;

/// Sessions that are reported on in a turn.
const AT_ONCE: usize = 256;

impl Aaa {
    /// A session begins.
    pub fn start(&mut self, handle: u32, identity: &Identity, about: Vec<Attribute>, now: Time) {
        let grant = self.grants.get(identity).cloned().unwrap_or_default();
        self.next += 1;
        let id = format!("{:08x}-{:x}", self.run, self.next);
        let interval = u64::from(grant.interim.unwrap_or(self.config.interim_seconds)) * 1000;
        let interim = if interval == 0 || !self.reports { 0 } else { now.0 + interval };
        let account = Account { id, grant, about, began: now, interim, unsent: 0 };
        let report = self.report_of(&account, Status::Start, now, None, None);
        if interim != 0 {
            self.interims.push(Reverse((interim, handle)));
        }
        self.accounts.insert(handle, account);
        if self.reports {
            self.backlog.start(report);
        }
    }

    /// What a session has, and is told with its next report.
    pub fn update(&mut self, handle: u32, about: Vec<Attribute>) {
        if let Some(account) = self.accounts.get_mut(&handle) {
            account.about = about;
        }
    }

    /// Sessions whose usage is to be reported now, a few at a time.
    pub fn due(&mut self, now: Time) -> Vec<u32> {
        let mut due = Vec::new();
        while due.len() < AT_ONCE
            && let Some(Reverse((at, handle))) = self.interims.peek().copied()
            && at <= now.0
        {
            self.interims.pop();
            let seconds = self.config.interim_seconds;
            if let Some(account) = self.accounts.get_mut(&handle).filter(|account| account.interim == at) {
                account.interim = now.0 + u64::from(account.grant.interim.unwrap_or(seconds)) * 1000;
                self.interims.push(Reverse((account.interim, handle)));
                due.push(handle);
            }
        }
        due
    }

    /// Reports what a session has used so far.
    pub fn interim(&mut self, handle: u32, usage: &Usage, now: Time) {
        let Some(account) = self.accounts.get(&handle).filter(|_| self.reports) else { return };
        let report = self.report_of(account, Status::Interim, now, Some(usage), None);
        if let Some(account) = self.accounts.get_mut(&handle) {
            account.unsent = self.backlog.interim(account.unsent, report);
        }
    }

    /// A session has ended, for a cause of RFC 2866, 5.10.
    pub fn stop(&mut self, handle: u32, usage: &Usage, now: Time) {
        const LOST_SERVICE: u32 = 3;
        if let Some(account) = self.accounts.remove(&handle).filter(|_| self.reports) {
            let report = self.report_of(&account, Status::Stop, now, Some(usage), Some(LOST_SERVICE));
            self.backlog.stop(account.unsent, report);
        }
    }

    pub(super) fn report_of(
        &self,
        account: &Account,
        status: Status,
        now: Time,
        usage: Option<&Usage>,
        cause: Option<u32>,
    ) -> Vec<Attribute> {
        let duration = now.since(account.began).as_secs() as u32;
        let mut report = self.report(status, &account.id, &account.grant.class, (now, duration), usage, cause);
        // Nobody has named the subscriber of an earlier run yet; an empty name is none (RFC 2865, 5.1).
        let user = Some(&account.grant.user).filter(|user| !user.is_empty());
        report.extend(user.map(|user| Attribute::octets(number::USER_NAME, user)));
        report.extend(account.about.iter().cloned());
        report
    }

    pub(super) fn report(
        &self,
        status: Status,
        session: &str,
        class: &[Vec<u8>],
        (at, duration): (Time, u32),
        usage: Option<&Usage>,
        cause: Option<u32>,
    ) -> Vec<Attribute> {
        let usage = usage.copied().unwrap_or_default();
        let family = |n: usize| Counters {
            input_octets: usage.up_bytes[n],
            output_octets: usage.down_bytes[n],
            input_packets: usage.up_packets[n],
            output_packets: usage.down_packets[n],
        };
        let counters = (family(0), family(1));
        let at = self.wall(at).secs();
        let report = Report { status, session, class, at, duration, counters, ip6_apart: true, cause };
        report.attributes().into_iter().chain(self.nas()).collect()
    }
}
