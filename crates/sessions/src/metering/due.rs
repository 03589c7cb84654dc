//! What makes a rule report or stop, and when to look again.

use super::{Causes, Metering, SECOND, Terms};
use crate::FrontEnd;
use crate::rules::{Usage, Volumes};

/// What has come about for a rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Due {
    /// What makes it report: of what was asked for.
    pub report: Causes,
    /// The quotas that are used up, asked for or not.
    pub spent: Causes,
}

impl<F: FrontEnd> Metering<F> {
    /// What has come about, after a [`look`](Self::look).
    pub fn due(&self, terms: &Terms, usage: &Usage, now: u64) -> Due {
        let mut due = Due::default();
        let mut when = |cause: Causes, is_due: bool| {
            if is_due && Causes::QUOTAS.contains(cause) {
                due.spent |= cause;
            }
            if is_due && terms.asked.contains(cause) {
                due.report |= cause;
            }
        };
        let passed = |from: u64, seconds: Option<u32>| {
            seconds.is_some_and(|seconds| now.saturating_sub(from) >= u64::from(seconds) * SECOND)
        };
        let reached = |from: [u64; 2], Volumes { total, up, down }: Volumes| {
            let [u, d] = [usage.up_bytes.saturating_sub(from[0]), usage.down_bytes.saturating_sub(from[1])];
            total.is_some_and(|bound| u + d >= bound) || up.is_some_and(|b| u >= b) || down.is_some_and(|b| d >= b)
        };
        let is_left = !self.is_exhausted();
        let volume = terms.volume_threshold.is_some_and(|volume| reached(self.counted_from(), volume));
        when(Causes::VOLUME_THRESHOLD, volume);
        when(Causes::VOLUME_QUOTA, is_left && terms.volume_quota.is_some_and(|volume| reached(self.granted, volume)));
        when(Causes::PERIOD, passed(self.period_from, terms.period));
        let metered = self.metered(terms, now).cast_signed();
        let long = |bound: Option<u32>, more: i64| bound.is_some_and(|s| metered + more >= i64::from(s));
        let before = self.aside.as_ref().map_or(0, |aside| aside.seconds.cast_signed());
        when(Causes::TIME_THRESHOLD, long(terms.time_threshold, before));
        when(Causes::TIME_QUOTA, is_left && long(terms.time_quota, self.used));
        let idle_from = self.last.max(self.begun);
        when(Causes::HOLDING, is_left && passed(idle_from, terms.holding));
        when(Causes::VALIDITY, passed(self.granted_at, terms.validity));
        let (events, used) = (self.events(), self.aside.as_ref().map_or(0, |aside| aside.used_events));
        let many = |bound: Option<u32>, more: i64| bound.is_some_and(|b| i64::from(events) + more >= b.into());
        when(Causes::EVENT_THRESHOLD, many(terms.event_threshold, 0));
        when(Causes::EVENT_QUOTA, is_left && many(terms.event_quota, used));
        when(Causes::START, !self.flowing && self.first > 0);
        when(Causes::STOP, self.flowing && passed(idle_from, terms.inactivity));
        due
    }

    /// When to look again, if the clock can make the rule report or stop.
    pub fn next_look(&self, terms: &Terms) -> Option<u64> {
        let after = |from: u64, seconds: u64| from.saturating_add(seconds.max(1).saturating_mul(SECOND));
        let at = |cause: Causes, from: u64, seconds: Option<u32>| {
            seconds.filter(|_| terms.asked.contains(cause)).map(|seconds| after(from, seconds.into()))
        };
        let less = |seconds: u32, used: i64| i64::from(seconds).saturating_sub(used).max(0).cast_unsigned();
        let before = self.aside.as_ref().map_or(0, |aside| aside.seconds.cast_signed());
        // Time is metered from the first packet on; before one was seen, a whole bound can not have passed.
        let time_from = match self.first {
            0 if !terms.starts_at_once => self.looked,
            0 => self.begun,
            first => first,
        };
        let idle_from = self.last.max(self.begun);
        let idle = terms.inactivity;
        // Quotas end whether or not that is to be reported.
        let is_left = !self.is_exhausted();
        let long = terms.time_threshold.filter(|_| terms.asked.contains(Causes::TIME_THRESHOLD));
        [
            at(Causes::PERIOD, self.period_from, terms.period),
            long.map(|seconds| after(time_from, less(seconds, before))),
            terms.time_quota.filter(|_| is_left).map(|seconds| after(time_from, less(seconds, self.used))),
            terms.holding.filter(|_| is_left).map(|seconds| after(idle_from, seconds.into())),
            at(Causes::VALIDITY, self.granted_at, terms.validity),
            at(Causes::STOP, idle_from, idle.filter(|_| self.flowing)),
            idle.filter(|s| *s > 0 && self.is_running()).map(|s| idle_from.saturating_add(u64::from(s) * SECOND)),
        ]
        .into_iter()
        .flatten()
        // Never sooner than a second after the last look: a bound that time alone does not fulfil is not spun on.
        .map(|due| due.max(self.looked + SECOND))
        .min()
    }

    /// Seconds metered since the last report: from the first packet (or at once), to now, or to the last packet when the
    /// subscriber has been inactive since.
    pub(super) fn metered(&self, terms: &Terms, now: u64) -> u64 {
        let from = match self.first {
            0 if terms.starts_at_once => self.begun,
            0 => return 0,
            first => first,
        };
        let inactive = terms.inactivity.map(|seconds| u64::from(seconds) * SECOND);
        let idle = now.saturating_sub(self.last.max(from));
        let to = if inactive.is_some_and(|after| after > 0 && idle >= after) { self.last.max(from) } else { now };
        to.saturating_sub(from) / SECOND
    }
}
