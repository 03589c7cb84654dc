//! What a URR has reported, and what makes it report next (3GPP TS 29.244, 5.2.2).
//!
//! Workers count without end; control remembers how far it has reported and sends the difference. Bounds on volume are
//! given to the worker as counts to be reached, so that none is missed between two looks; what goes by the clock is
//! looked at when it is due, and found to be so or due later.

mod as_message;
mod due;
mod report;
#[cfg(test)]
mod tests;

pub use engine::WallClock;
use pfcp::group::{CreateUrr, UpdateUrr, UsageReport};
use pfcp::ie::{MeasurementMethod, ReportingTriggers, UsageReportTrigger};
use serde::{Deserialize, Serialize};

use crate::rules::{Usage, Volumes};

const SECOND: u64 = 1_000_000_000;

/// A URR's account. Times are the workers', in nanoseconds; 0: never.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Metering {
    /// The rule.
    pub urr: u32,
    /// Number of the next report.
    sequence: u32,
    /// Octets reported, uplink and downlink.
    bytes: [u64; 2],
    /// Packets reported, uplink and downlink.
    packets: [u64; 2],
    /// Octets counted when the quota was given.
    granted: [u64; 2],
    /// When what is reported next began.
    begun: u64,
    /// When the quota was given.
    granted_at: u64,
    /// From when the next period counts.
    period_from: u64,
    /// First and last packet since the last report, as last seen.
    first: u64,
    last: u64,
    /// When it was last looked at.
    looked: u64,
    /// Traffic has been reported to have started, and not yet to have stopped.
    flowing: bool,
    /// Quotas that are used up.
    spent: Spent,
    /// Seconds metered since the quota was given and reported since; below zero: so many of those not reported yet were
    /// metered before.
    used: i64,
    /// What few rules need.
    aside: Option<Box<Aside>>,
    /// Packets counted when it was last written down.
    #[serde(skip)]
    saved: u64,
}

/// Quotas that are used up: nothing passes while one is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
struct Spent {
    volume: bool,
    time: bool,
    events: bool,
    /// All of them, as there was no traffic for so long (Quota Holding Time, 8.2.38).
    held: bool,
}

/// Which quotas a control plane gives anew.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Given {
    /// One of octets.
    pub volume: bool,
    /// One of seconds.
    pub time: bool,
    /// One of events.
    pub events: bool,
}

impl Given {
    /// By an update; one that repeats what holds gives it anew.
    pub fn by(update: &UpdateUrr) -> Self {
        let UpdateUrr { volume_quota, time_quota, event_quota, .. } = update;
        Self { volume: volume_quota.is_some(), time: time_quota.is_some(), events: event_quota.is_some() }
    }
}

/// What monitoring times and events leave behind until the next report.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
struct Aside {
    /// Reports of what was counted before monitoring times, to go with the next (5.2.2.3.1).
    #[serde(with = "as_message")]
    before: Vec<UsageReport>,
    /// Octets and seconds in them that count towards the thresholds there are.
    bytes: [u64; 2],
    seconds: u64,
    /// Traffic flows, as far as events go.
    running: bool,
    /// The last packet before it stopped.
    stopped: u64,
    /// When traffic began, since the last report: the first of these events.
    began: Vec<u64>,
    /// All of them.
    events: u32,
    /// Events since the quota was given, reported since; below zero: so many of those not reported yet were before.
    used_events: i64,
}

/// Times of events in a report at most: their number says how many there were.
const EVENTS: usize = 1024;

/// Reports that may wait for the next, of what was counted before monitoring times.
const BEFORE: usize = 32;

impl Metering {
    /// A rule made now.
    pub fn new(urr: &CreateUrr, now: u64) -> Self {
        Self { urr: urr.urr_id.0, begun: now, granted_at: now, period_from: now, looked: now, ..Self::default() }
    }

    /// The same, with every time that is one changed: for another clock. Here belongs every field that is a time.
    pub fn timed(&self, change: impl Fn(u64) -> u64) -> Self {
        let time = |ns: u64| if ns == 0 { 0 } else { change(ns) };
        Self {
            begun: time(self.begun),
            granted_at: time(self.granted_at),
            period_from: time(self.period_from),
            first: time(self.first),
            last: time(self.last),
            looked: time(self.looked),
            aside: self.aside.clone().map(|mut aside| {
                aside.stopped = time(aside.stopped);
                aside.began.iter_mut().for_each(|ns| *ns = time(*ns));
                aside
            }),
            ..self.clone()
        }
    }

    /// Whether more was counted than is written down.
    pub fn is_unsaved(&self, usage: &Usage) -> bool {
        self.saved != usage.up_packets + usage.down_packets
    }

    /// It is written down with this usage.
    pub fn set_saved(&mut self, usage: &Usage) {
        self.saved = usage.up_packets + usage.down_packets;
    }

    /// What is written down holds no more.
    pub fn set_unsaved(&mut self) {
        self.saved = u64::MAX;
    }

    /// A control plane gave other quotas: they count from what was last reported, or from where the last was used up if that
    /// was later. Those it did not mention go on.
    pub fn grant(&mut self, given: Given, urr: &CreateUrr, now: u64) {
        if given == Given::default() {
            return;
        }
        let metered = self.metered(urr, now).cast_signed();
        let events = i64::from(self.events());
        (self.granted_at, self.spent.held) = (now, false);
        if given.volume {
            self.granted = [self.granted[0].max(self.bytes[0]), self.granted[1].max(self.bytes[1])];
            self.spent.volume = false;
        }
        if given.time {
            self.used = if std::mem::take(&mut self.spent.time) { -metered } else { 0 };
        }
        if given.events {
            let before = if std::mem::take(&mut self.spent.events) { events } else { 0 };
            self.aside.iter_mut().for_each(|aside| aside.used_events = -before);
        }
    }

    /// These quotas are used up: nothing passes any more, or what another FAR says, whether or not a report of it was asked
    /// for (5.2.2.2.1).
    pub fn use_up(&mut self, quotas: UsageReportTrigger, usage: &Usage) {
        if quotas.intersects(UsageReportTrigger::VOLQU) {
            (self.spent.volume, self.granted) = (true, [usage.up_bytes, usage.down_bytes]);
        }
        self.spent.time |= quotas.intersects(UsageReportTrigger::TIMQU);
        self.spent.events |= quotas.intersects(UsageReportTrigger::EVEQU);
        self.spent.held |= quotas.intersects(UsageReportTrigger::QUHTI);
    }

    /// Octets at which what thresholds count begins.
    fn counted_from(&self) -> [u64; 2] {
        let aside = self.aside.as_ref().map_or([0; 2], |aside| aside.bytes);
        [self.bytes[0] - aside[0], self.bytes[1] - aside[1]]
    }

    fn events(&self) -> u32 {
        self.aside.as_ref().map_or(0, |aside| aside.events)
    }

    fn is_running(&self) -> bool {
        self.aside.as_ref().is_some_and(|aside| aside.running)
    }

    /// Whether a quota is used up.
    pub fn is_exhausted(&self) -> bool {
        self.spent != Spent::default()
    }

    /// The counts at which the worker is to tell, and to stop.
    pub fn bounds(&self, urr: &CreateUrr) -> (Volumes, Volumes) {
        let above = |from: [u64; 2], total: Option<u64>, up: Option<u64>, down: Option<u64>| Volumes {
            total: total.map(|bytes| bytes.saturating_add(from[0] + from[1])),
            up: up.map(|bytes| bytes.saturating_add(from[0])),
            down: down.map(|bytes| bytes.saturating_add(from[1])),
        };
        let triggers = urr.reporting_triggers;
        let mut threshold = Volumes::default();
        if let Some(volume) = urr.volume_threshold.filter(|_| triggers.contains(ReportingTriggers::VOLTH)) {
            threshold = above(self.counted_from(), volume.total, volume.uplink, volume.downlink);
        }
        let starts = triggers.contains(ReportingTriggers::START) && !self.flowing;
        if starts || (counts_events(urr) && !self.is_running()) {
            threshold.total = Some(self.bytes[0] + self.bytes[1] + 1);
        }
        // As good as none; but the record has a place for what comes with time or traffic: a record without has none.
        let later = ReportingTriggers::VOLTH | ReportingTriggers::START;
        if threshold == Volumes::default() && (triggers.intersects(later) || counts_events(urr)) {
            threshold.total = Some(u64::MAX - 1);
        }
        let quota = urr.volume_quota.map(|volume| above(self.granted, volume.total, volume.uplink, volume.downlink));
        let mut quota = quota.unwrap_or_default();
        let is_exhausted = self.is_exhausted();
        if is_exhausted && urr.far_id_for_quota_action.is_some() {
            // Another FAR applies meanwhile (5.2.2.2.1), and says what passes.
            quota = Volumes { total: Some(u64::MAX - 1), ..Volumes::default() };
        } else if is_exhausted {
            // Used up, by volume, time or neglect: nothing passes until there is another (5.2.2.2).
            quota.total = Some(0);
        } else if may_stop(urr) {
            // As above.
            quota.total = quota.total.or(Some(u64::MAX - 1));
        }
        (threshold, quota)
    }

    /// Records what a worker has counted.
    pub fn look(&mut self, usage: &Usage, now: u64) {
        let fresh = usage.last_ns > self.begun && self.packets_since(usage) > 0;
        if fresh {
            self.last = usage.last_ns;
            self.first = if self.first == 0 { usage.first_ns.max(self.begun) } else { self.first };
        }
        self.looked = now;
    }

    /// An event is traffic that begins, for the first time or after as long a silence as the rule says (5.2.2.2.1).
    pub fn count_events(&mut self, urr: &CreateUrr, now: u64) {
        if !counts_events(urr) {
            return;
        }
        let (begun, last) = (self.begun, self.last);
        let aside = self.aside.get_or_insert_default();
        if !aside.running && last > aside.stopped {
            aside.running = true;
            aside.events += 1;
            if aside.began.len() < EVENTS {
                aside.began.push(last);
            }
        }
        let silence = urr.inactivity_detection_time.map(|time| u64::from(time.0) * SECOND);
        if silence.is_some_and(|silence| silence > 0 && now.saturating_sub(last.max(begun)) >= silence) {
            aside.running = false;
            aside.stopped = last;
        }
    }

    fn packets_since(&self, usage: &Usage) -> u64 {
        (usage.up_packets + usage.down_packets).saturating_sub(self.packets[0] + self.packets[1])
    }

    /// A period of measurement begins (8.2.43).
    pub fn begin_period(&mut self, now: u64) {
        self.period_from = now;
    }

    /// Octets that were counted and are in no report that was sent.
    pub fn unreported(&self, usage: &Usage) -> u64 {
        let before = self.aside.iter().flat_map(|aside| &aside.before);
        let volume = |report: &UsageReport| report.volume_measurement.and_then(|volume| volume.total).unwrap_or(0);
        let since = (usage.up_bytes + usage.down_bytes).saturating_sub(self.bytes[0] + self.bytes[1]);
        since + before.map(volume).sum::<u64>()
    }
}

/// Whether a rule has a quota, or may have one without being changed.
fn may_stop(urr: &CreateUrr) -> bool {
    let later = urr.subsequent_volume_quota.is_some()
        || urr.subsequent_time_quota.is_some()
        || urr.subsequent_event_quota.is_some()
        || !urr.additional_monitoring_times.is_empty();
    let now = urr.volume_quota.is_some() || urr.time_quota.is_some() || urr.event_quota.is_some();
    now || later || urr.quota_holding_time.is_some() || urr.reporting_triggers.contains(ReportingTriggers::VOLQU)
}

/// Whether a rule counts events (8.2.40).
fn counts_events(urr: &CreateUrr) -> bool {
    urr.measurement_method.contains(MeasurementMethod::EVENT)
}
