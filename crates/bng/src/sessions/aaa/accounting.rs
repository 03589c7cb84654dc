//! What servers are told of sessions: start, interim updates, stop (RFC 2866).

use std::cmp::Reverse;
use std::hash::{BuildHasher, RandomState};

use access::Time;
use access::subscriber::Identity;
use radius::Attribute;
use radius::accounting::{Counters, Report, Status};
use radius::dictionary::number;

use super::hand_over::{named, written};
use super::kept::{KeptAccount, Row, row, sum};
use super::{Aaa, Account, Grant};
use crate::subscribers::Usage;

/// Sessions that are reported on in a turn.
const AT_ONCE: usize = 256;

impl Aaa {
    /// A session begins, or goes on after a crash. `user` names its subscriber, if that is known, where no server was asked:
    /// its lease has outlived a crash, and its record has not.
    pub fn start(
        &mut self,
        handle: u32,
        identity: &Identity,
        (user, about): (Option<String>, Vec<Attribute>),
        now: Time,
    ) {
        if let Some((key, kept)) = self.kept.remove(identity) {
            let kept = Account::kept(key, kept);
            let is_other = kept.about != about;
            self.accounts.insert(handle, Account { about, ..kept });
            if is_other {
                self.rewrite(handle, identity);
            }
            return self.schedule_first(handle, now);
        }
        let grant = self.grants.get(identity).cloned();
        let grant = grant.unwrap_or_else(|| Grant { user: user.unwrap_or_default(), ..Grant::default() });
        self.next += 1;
        let id = format!("{:08x}{}-{:x}", self.run, self.tag, self.next);
        let (used, reported) = (Row::default(), Some(Row::default()));
        let mut account = Account { id, grant, about, began: now, interim: 0, unsent: 0, key: 0, used, reported };
        if self.reports {
            account.key = self.keeper.key();
            self.keeper.account(account.key, &self.record(&account, identity));
            if self.backlog.admits_start() {
                let report = self.report_of(&account, Status::Start, now, None, None);
                let key = self.keeper.report(&report);
                self.backlog.start(report, key, self.keeper.step());
            }
        }
        self.accounts.insert(handle, account);
        self.schedule(handle, now);
    }

    /// A session's next interim report.
    pub(super) fn schedule(&mut self, handle: u32, now: Time) {
        let Some(account) = self.accounts.get_mut(&handle) else { return };
        let interval = u64::from(account.grant.interim.unwrap_or(self.config.interim_seconds)) * 1000;
        account.interim = if interval == 0 || !self.reports { 0 } else { now.0 + interval };
        if account.interim != 0 {
            self.interims.push(Reverse((account.interim, handle)));
        }
    }

    /// The next interim report of a session that goes on after a crash. All of them go on at once: theirs are spread over the
    /// interval.
    fn schedule_first(&mut self, handle: u32, now: Time) {
        self.schedule(handle, now);
        let Some(account) = self.accounts.get_mut(&handle).filter(|account| account.interim > now.0) else { return };
        let interval = account.interim - now.0;
        account.interim = now.0 + 1 + RandomState::new().hash_one(handle) % interval;
        self.interims.push(Reverse((account.interim, handle)));
    }

    /// A session as the ledger keeps it.
    fn record(&self, account: &Account, identity: &Identity) -> KeptAccount {
        let Account { id, grant, began, used, about, .. } = account;
        let (of, began, about) = (named(identity), self.wall(*began).0, written(about));
        KeptAccount { of, id: id.clone(), began, grant: grant.clone(), used: *used, about }
    }

    /// What a session has, and is told with its next report.
    pub fn update(&mut self, handle: u32, identity: &Identity, about: Vec<Attribute>) {
        let Some(account) = self.accounts.get_mut(&handle).filter(|account| account.about != about) else { return };
        let before = std::mem::replace(&mut account.about, about);
        // Its record has it already where the session was taken over just now, without what is known of leases.
        if !before.is_empty() {
            self.rewrite(handle, identity);
        }
    }

    /// Writes a session's record anew, with the usage that it has.
    fn rewrite(&mut self, handle: u32, identity: &Identity) {
        let Some(account) = self.accounts.get(&handle) else { return };
        // Without a record, or where it is not known what the record says of usage, the next interim report writes it.
        if let Some(used) = account.reported.filter(|_| self.reports && account.key != 0) {
            let kept = KeptAccount { used, ..self.record(account, identity) };
            self.keeper.account(account.key, &kept);
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

    /// Reports what a session has used so far, and keeps it.
    pub fn interim(&mut self, handle: u32, identity: Option<&Identity>, usage: &Usage, now: Time) {
        if !self.reports {
            return;
        }
        let Some(mut account) = self.accounts.remove(&handle) else { return };
        let usage = sum(&account.used, usage);
        if let Some(identity) = identity {
            self.keep(&mut account, identity, &usage);
        }
        let report = self.report_of(&account, Status::Interim, now, Some(&usage), None);
        account.unsent = self.backlog.interim(account.unsent, report, self.keeper.step());
        self.accounts.insert(handle, account);
    }

    /// Has a session's record say what it has used in all.
    fn keep(&mut self, account: &mut Account, identity: &Identity, usage: &Usage) {
        if account.key == 0 {
            account.key = self.keeper.key();
        }
        // What workers have counted is added to what was used before the crash: that stays as it is.
        account.reported = Some(row(usage));
        let kept = KeptAccount { used: row(usage), ..self.record(account, identity) };
        self.keeper.account(account.key, &kept);
    }

    /// Keeps what a session has used so far, if that is more than its record says: the process ends, and the session does not.
    pub fn pause(&mut self, handle: u32, identity: &Identity, usage: &Usage) {
        let Some(mut account) = self.accounts.remove(&handle).filter(|_| self.reports) else { return };
        let usage = sum(&account.used, usage);
        let is_more =
            |known: Row| row(&usage) != known && row(&usage).iter().zip(known).all(|(now, then)| *now >= then);
        if account.reported.is_none_or(is_more) {
            self.keep(&mut account, identity, &usage);
        }
        self.accounts.insert(handle, account);
    }

    /// Subscribers whose sessions are accounted.
    pub fn accounted(&self) -> Vec<u32> {
        self.accounts.keys().copied().collect()
    }

    /// A server has given a session another tier; it goes on with that after a crash, too.
    pub fn regrant(&mut self, handle: u32, identity: &Identity, profile: &str) {
        let Some(account) = self.accounts.get_mut(&handle) else { return };
        account.grant.profile = Some(profile.to_owned());
        self.grants.insert(*identity, account.grant.clone());
        self.rewrite(handle, identity);
    }

    /// A session has ended, for a cause of RFC 2866, 5.10.
    pub fn stop(&mut self, handle: u32, usage: &Usage, now: Time) {
        const LOST_SERVICE: u32 = 3;
        if let Some(account) = self.accounts.remove(&handle) {
            let usage = sum(&account.used, usage);
            self.stop_of(&account, &usage, now, LOST_SERVICE);
        }
    }

    /// The report of a session's end takes the place of the session in the ledger.
    pub(super) fn stop_of(&mut self, account: &Account, usage: &Usage, now: Time, cause: u32) {
        self.keeper.forget(account.key);
        if self.reports {
            let report = self.report_of(account, Status::Stop, now, Some(usage), Some(cause));
            let key = self.keeper.report(&report);
            self.backlog.stop(account.unsent, report, key, self.keeper.step());
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
