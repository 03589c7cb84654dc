//! What a rule's packets have used, what of it was reported, and what makes the rule report next.
//!
//! Workers count without end; control keeps how far it has reported and sends the difference. Bounds on volume are given to
//! the worker as counts to be reached, so that none is missed between two looks; what goes by the clock is looked at when it
//! is due, and found to be so or due later. What a rule asks for are its [`Terms`]; a front end makes them of its own rules,
//! and reports of what is [`Closed`].

mod causes;
mod close;
mod due;
#[cfg(test)]
mod tests;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

pub use causes::Causes;
pub use close::{Closed, Closing};
pub use due::Due;

use crate::FrontEnd;
use crate::rules::{Usage, Volumes};

const SECOND: u64 = 1_000_000_000;

/// What a rule measures, and when it reports or stops what passes. Thresholds make it report, quotas also stop it; volumes
/// are in octets, times in seconds.
#[derive(Clone, Copy, Debug, Default)]
pub struct Terms {
    /// What makes it report.
    pub asked: Causes,
    /// It counts events: traffic that begins.
    pub counts_events: bool,
    /// Time is metered from the rule's beginning rather than from its first packet.
    pub starts_at_once: bool,
    /// Octets since the last report.
    pub volume_threshold: Option<Volumes>,
    /// Octets since they were given.
    pub volume_quota: Option<Volumes>,
    /// Seconds since the last report.
    pub time_threshold: Option<u32>,
    /// Seconds since they were given.
    pub time_quota: Option<u32>,
    /// Events since the last report.
    pub event_threshold: Option<u32>,
    /// Events since they were given.
    pub event_quota: Option<u32>,
    /// Seconds between periodic reports.
    pub period: Option<u32>,
    /// Seconds without a packet after which traffic has stopped.
    pub inactivity: Option<u32>,
    /// Seconds without a packet after which quotas are used up.
    pub holding: Option<u32>,
    /// Seconds for which quotas hold.
    pub validity: Option<u32>,
    /// While a quota is used up, another rule says what becomes of packets.
    pub has_quota_action: bool,
    /// What is given for the time after the monitoring time.
    pub later: Later,
}

/// What a rule has for the time after its monitoring time.
#[derive(Clone, Copy, Debug, Default)]
pub struct Later {
    /// A threshold of octets.
    pub volume_threshold: bool,
    /// A threshold of seconds.
    pub time_threshold: bool,
    /// A threshold of events.
    pub event_threshold: bool,
    /// Quotas.
    pub quotas: Given,
    /// Other monitoring times follow.
    pub follows: bool,
}

impl Terms {
    /// Whether there is a quota, or may be one without the rule being changed.
    fn may_stop(&self) -> bool {
        let now = self.volume_quota.is_some() || self.time_quota.is_some() || self.event_quota.is_some();
        let later = self.later.quotas != Given::default() || self.later.follows;
        now || later || self.holding.is_some() || self.asked.contains(Causes::VOLUME_QUOTA)
    }
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

/// A rule's account. Times are the workers', in nanoseconds; 0: never.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, bound = "")]
pub struct Metering<F: FrontEnd> {
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
    aside: Option<Box<Aside<F>>>,
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
    /// All of them, as there was no traffic for so long.
    held: bool,
}

/// What monitoring times and events leave behind until the next report.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, bound = "")]
struct Aside<F: FrontEnd> {
    /// Reports of what was counted before monitoring times, to go with the next.
    before: Before<F>,
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

/// Reports that wait, written down as octets of their protocol.
#[derive(Clone, Debug, PartialEq)]
struct Before<F: FrontEnd>(Vec<F::Report>);

impl<F: FrontEnd> Default for Before<F> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<F: FrontEnd> Serialize for Before<F> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        F::write_reports(&self.0).serialize(to)
    }
}

impl<'de, F: FrontEnd> Deserialize<'de> for Before<F> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Ok(Self(F::read_reports(&Vec::deserialize(from)?)))
    }
}

/// Times of events in a report at most: their number says how many there were.
const EVENTS: usize = 1024;

/// Reports that may wait for the next, of what was counted before monitoring times.
const BEFORE: usize = 32;

impl<F: FrontEnd> Metering<F> {
    /// A rule made now.
    pub fn new(urr: u32, now: u64) -> Self {
        Self { urr, begun: now, granted_at: now, period_from: now, looked: now, ..Self::default() }
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
    pub fn grant(&mut self, given: Given, terms: &Terms, now: u64) {
        if given == Given::default() {
            return;
        }
        let metered = self.metered(terms, now).cast_signed();
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

    /// These quotas are used up: nothing passes any more, or what another rule says, whether or not a report of it was asked
    /// for.
    pub fn use_up(&mut self, quotas: Causes, usage: &Usage) {
        if quotas.intersects(Causes::VOLUME_QUOTA) {
            (self.spent.volume, self.granted) = (true, [usage.up_bytes, usage.down_bytes]);
        }
        self.spent.time |= quotas.intersects(Causes::TIME_QUOTA);
        self.spent.events |= quotas.intersects(Causes::EVENT_QUOTA);
        self.spent.held |= quotas.intersects(Causes::HOLDING);
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
    pub fn bounds(&self, terms: &Terms) -> (Volumes, Volumes) {
        let above = |from: [u64; 2], Volumes { total, up, down }: Volumes| Volumes {
            total: total.map(|bytes| bytes.saturating_add(from[0] + from[1])),
            up: up.map(|bytes| bytes.saturating_add(from[0])),
            down: down.map(|bytes| bytes.saturating_add(from[1])),
        };
        let mut threshold = Volumes::default();
        if let Some(volume) = terms.volume_threshold.filter(|_| terms.asked.contains(Causes::VOLUME_THRESHOLD)) {
            threshold = above(self.counted_from(), volume);
        }
        let starts = terms.asked.contains(Causes::START) && !self.flowing;
        if starts || (terms.counts_events && !self.is_running()) {
            threshold.total = Some(self.bytes[0] + self.bytes[1] + 1);
        }
        // As good as none; but the record has a place for what comes with time or traffic: a record without has none.
        let later = terms.asked.intersects(Causes::VOLUME_THRESHOLD | Causes::START) || terms.counts_events;
        if threshold == Volumes::default() && later {
            threshold.total = Some(u64::MAX - 1);
        }
        let mut quota = terms.volume_quota.map(|volume| above(self.granted, volume)).unwrap_or_default();
        let is_exhausted = self.is_exhausted();
        if is_exhausted && terms.has_quota_action {
            // Another rule applies meanwhile, and says what passes.
            quota = Volumes { total: Some(u64::MAX - 1), ..Volumes::default() };
        } else if is_exhausted {
            // Used up, by volume, time or neglect: nothing passes until there is another.
            quota.total = Some(0);
        } else if terms.may_stop() {
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

    /// An event is traffic that begins, for the first time or after as long a silence as the rule says.
    pub fn count_events(&mut self, terms: &Terms, now: u64) {
        if !terms.counts_events {
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
        let silence = terms.inactivity.map(|seconds| u64::from(seconds) * SECOND);
        if silence.is_some_and(|silence| silence > 0 && now.saturating_sub(last.max(begun)) >= silence) {
            aside.running = false;
            aside.stopped = last;
        }
    }

    fn packets_since(&self, usage: &Usage) -> u64 {
        (usage.up_packets + usage.down_packets).saturating_sub(self.packets[0] + self.packets[1])
    }

    /// A period of measurement begins.
    pub fn begin_period(&mut self, now: u64) {
        self.period_from = now;
    }

    /// Octets that were counted and are in no report that was sent.
    pub fn unreported(&self, usage: &Usage) -> u64 {
        let before = self.aside.iter().flat_map(|aside| &aside.before.0);
        let since = (usage.up_bytes + usage.down_bytes).saturating_sub(self.bytes[0] + self.bytes[1]);
        since + before.map(F::octets).sum::<u64>()
    }
}
