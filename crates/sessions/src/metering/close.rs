//! An account is closed and begun anew; what was counted before a monitoring time is a report of its own.

use super::{BEFORE, Causes, Metering, Terms};
use crate::FrontEnd;
use crate::rules::Usage;

/// What was counted between two reports. Times are the workers', in nanoseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Closed {
    /// The rule.
    pub urr: u32,
    /// Number of the report.
    pub sequence: u32,
    /// What makes it report.
    pub causes: Causes,
    /// When it began.
    pub begun: u64,
    /// When it ended: now.
    pub ended: u64,
    /// Octets, uplink and downlink.
    pub bytes: [u64; 2],
    /// Packets, uplink and downlink.
    pub packets: [u64; 2],
    /// Seconds metered.
    pub seconds: u64,
    /// The first packet; 0: there was none.
    pub first: u64,
    /// The last packet; 0: there was none.
    pub last: u64,
}

/// What a rule reports.
#[derive(Debug)]
pub struct Closing<F: FrontEnd> {
    /// Reports of what was counted before monitoring times.
    pub before: Vec<F::Report>,
    /// What was counted since.
    pub closed: Closed,
    /// When traffic began: the first of these events.
    pub began: Vec<u64>,
}

impl<F: FrontEnd> Metering<F> {
    /// What is reported now: what was counted since the last report, behind what was counted before monitoring times.
    pub fn close(&mut self, terms: &Terms, usage: &Usage, causes: Causes, now: u64) -> Closing<F> {
        self.count_events(terms, now);
        let closed = self.begin_anew(terms, usage, causes, now);
        let (mut before, mut began) = (Vec::new(), Vec::new());
        if let Some(aside) = &mut self.aside {
            (before, began) = (std::mem::take(&mut aside.before.0), std::mem::take(&mut aside.began));
            aside.used_events += i64::from(std::mem::take(&mut aside.events));
            (aside.bytes, aside.seconds) = ([0; 2], 0);
        }
        Closing { before, closed, began }
    }

    /// The monitoring time has come: what was counted until now is a report of its own, which `report` makes and which goes
    /// with the next. What is given for the time after it counts from now, the rest goes on.
    pub fn split(&mut self, terms: &Terms, usage: &Usage, now: u64, report: impl FnOnce(&Closed) -> F::Report) {
        let seconds = self.metered(terms, now);
        let bytes = [usage.up_bytes.saturating_sub(self.bytes[0]), usage.down_bytes.saturating_sub(self.bytes[1])];
        let report = report(&self.begin_anew(terms, usage, Causes::MONITORING, now));
        let aside = self.aside.get_or_insert_default();
        // A control plane that never hears of any is of no use to it.
        if aside.before.0.len() < BEFORE {
            aside.before.0.push(report);
        }
        if terms.later.volume_threshold {
            aside.bytes = [0; 2];
        } else {
            (aside.bytes[0], aside.bytes[1]) = (aside.bytes[0] + bytes[0], aside.bytes[1] + bytes[1]);
        }
        aside.seconds = if terms.later.time_threshold { 0 } else { aside.seconds + seconds };
        if terms.later.event_threshold {
            aside.used_events += i64::from(std::mem::take(&mut aside.events));
        }
        self.grant(terms.later.quotas, terms, now);
    }

    /// Closes the account and begins it anew.
    fn begin_anew(&mut self, terms: &Terms, usage: &Usage, causes: Causes, now: u64) -> Closed {
        let seconds = self.metered(terms, now);
        self.used += seconds.cast_signed();
        let [bytes, packets] = [[usage.up_bytes, usage.down_bytes], [usage.up_packets, usage.down_packets]];
        let since = |counted: [u64; 2], before: [u64; 2]| {
            [counted[0].saturating_sub(before[0]), counted[1].saturating_sub(before[1])]
        };
        let closed = Closed {
            urr: self.urr,
            sequence: self.sequence,
            causes,
            begun: self.begun,
            ended: now,
            bytes: since(bytes, self.bytes),
            packets: since(packets, self.packets),
            seconds,
            first: self.first,
            last: self.last,
        };
        self.sequence = self.sequence.wrapping_add(1);
        (self.bytes, self.packets) = (bytes, packets);
        (self.begun, self.looked) = (now, now);
        if causes.intersects(Causes::PERIOD) {
            self.begin_period(now);
        }
        if causes.intersects(Causes::START) {
            self.flowing = true;
        }
        if causes.intersects(Causes::STOP) {
            self.flowing = false;
        }
        self.use_up(causes, usage);
        if causes.intersects(Causes::VALIDITY) {
            self.granted_at = now;
        }
        (self.first, self.last) = (0, 0);
        closed
    }
}
