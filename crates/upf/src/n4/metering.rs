//! What a URR has reported, and what makes it report next (3GPP TS 29.244, 5.2.2).
//!
//! Workers count without end; control remembers how far it has reported and sends the difference. Bounds on volume are
//! given to the worker as counts to be reached, so that none is missed between two looks; what goes by the clock is
//! looked at when it is due, and found to be so or due later.

use pfcp::group::{CreateUrr, UpdateUrr, UsageReport};
use pfcp::ie::{
    DurationMeasurement, EndTime, EventQuota, EventThreshold, EventTimeStamp, MeasurementInformation,
    MeasurementMethod, ReportingTriggers, StartTime, SubsequentVolumeQuota, SubsequentVolumeThreshold,
    TimeOfFirstPacket, TimeOfLastPacket, TimeQuota, TimeThreshold, UrSeqn, UrrId, UsageInformation, UsageReportTrigger,
    VolumeMeasurement, VolumeQuota, VolumeThreshold,
};

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
    /// Quotas that are used up, which was reported.
    spent: Spent,
    /// Seconds metered since the quota was given and reported since.
    used: u64,
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
    /// All of them, as nobody used them for so long (Quota Holding Time, 8.2.38).
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
    #[serde(with = "reports")]
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
    /// Events since the quota was given, reported since.
    used_events: u32,
}

/// Reports, written down as a message that would bring them.
mod reports {
    use pfcp::group::UsageReport;
    use pfcp::message::{Message, SessionReportRequest};
    use pfcp::{Header, Packet};
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub fn serialize<S: Serializer>(reports: &[UsageReport], to: S) -> Result<S::Ok, S::Error> {
        let message = SessionReportRequest { usage_reports: reports.to_vec(), ..SessionReportRequest::default() };
        let packet = Packet { header: Header { seid: Some(0), ..Header::default() }, message: message.into() };
        packet.to_vec().unwrap_or_default().serialize(to)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<UsageReport>, D::Error> {
        let octets = Vec::<u8>::deserialize(from)?;
        Ok(match Packet::parse(&octets).map(|packet| packet.message) {
            Ok(Message::SessionReportRequest(message)) => message.usage_reports,
            _ => Vec::new(),
        })
    }
}

/// Times of events in a report at most.
const EVENTS: usize = 32;

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

    /// A control plane gave other quotas: they count from what was last reported. Those it did not mention go on.
    pub fn grant(&mut self, given: Given, now: u64) {
        if given == Given::default() {
            return;
        }
        (self.granted_at, self.spent.held) = (now, false);
        if given.volume {
            (self.granted, self.spent.volume) = (self.bytes, false);
        }
        if given.time {
            (self.used, self.spent.time) = (0, false);
        }
        if given.events {
            self.spent.events = false;
            self.aside.iter_mut().for_each(|aside| aside.used_events = 0);
        }
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

    /// Whether a quota is used up, and was reported to be.
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
        } else if urr.time_quota.is_some()
            || urr.quota_holding_time.is_some()
            || urr.event_quota.is_some()
            || triggers.contains(ReportingTriggers::VOLQU)
        {
            // As above.
            quota.total = quota.total.or(Some(u64::MAX - 1));
        }
        (threshold, quota)
    }

    /// Takes note of what a worker says it has counted.
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

    /// What makes the rule report, after a [`look`](Self::look).
    pub fn triggers(&self, urr: &CreateUrr, usage: &Usage, now: u64) -> UsageReportTrigger {
        let asked = urr.reporting_triggers;
        let mut due = UsageReportTrigger::NONE;
        let mut when = |asked_for: ReportingTriggers, is_due: bool, trigger: UsageReportTrigger| {
            if asked.contains(asked_for) && is_due {
                due |= trigger;
            }
        };
        let since = |from: u64| now.saturating_sub(from);
        let passed = |from: u64, seconds: Option<u32>| seconds.is_some_and(|s| since(from) >= u64::from(s) * SECOND);
        let bytes = [usage.up_bytes, usage.down_bytes];
        let reached = |from: [u64; 2], total: Option<u64>, up: Option<u64>, down: Option<u64>| {
            let [u, d] = [bytes[0].saturating_sub(from[0]), bytes[1].saturating_sub(from[1])];
            total.is_some_and(|bound| u + d >= bound) || up.is_some_and(|b| u >= b) || down.is_some_and(|b| d >= b)
        };
        let volume = |v: &pfcp::ie::VolumeThreshold| reached(self.counted_from(), v.total, v.uplink, v.downlink);
        when(ReportingTriggers::VOLTH, urr.volume_threshold.as_ref().is_some_and(volume), UsageReportTrigger::VOLTH);
        let quota = |v: &pfcp::ie::VolumeQuota| reached(self.granted, v.total, v.uplink, v.downlink);
        let is_exhausted = self.is_exhausted();
        let used_up = !is_exhausted && urr.volume_quota.as_ref().is_some_and(quota);
        when(ReportingTriggers::VOLQU, used_up, UsageReportTrigger::VOLQU);
        when(
            ReportingTriggers::PERIO,
            passed(self.period_from, urr.measurement_period.map(|p| p.0)),
            UsageReportTrigger::PERIO,
        );
        let metered = self.metered(urr, now);
        let long = |bound: Option<u32>, more: u64| bound.is_some_and(|s| metered + more >= u64::from(s));
        let before = self.aside.as_ref().map_or(0, |aside| aside.seconds);
        when(ReportingTriggers::TIMTH, long(urr.time_threshold.map(|t| t.0), before), UsageReportTrigger::TIMTH);
        let out_of_time = !is_exhausted && long(urr.time_quota.map(|t| t.0), self.used);
        when(ReportingTriggers::TIMQU, out_of_time, UsageReportTrigger::TIMQU);
        let idle_from = self.last.max(self.begun);
        let holding = urr.quota_holding_time.map(|t| t.0);
        when(ReportingTriggers::QUHTI, !is_exhausted && passed(idle_from, holding), UsageReportTrigger::QUHTI);
        let validity = urr.quota_validity_time.map(|t| t.0);
        when(ReportingTriggers::QUVTI, passed(self.granted_at, validity), UsageReportTrigger::QUVTI);
        let (events, used) = (self.events(), self.aside.as_ref().map_or(0, |aside| aside.used_events));
        let many = |bound: Option<u32>, more: u32| bound.is_some_and(|bound| events + more >= bound);
        when(ReportingTriggers::EVETH, many(urr.event_threshold.map(|e| e.0), 0), UsageReportTrigger::EVETH);
        let out_of_events = !is_exhausted && many(urr.event_quota.map(|e| e.0), used);
        when(ReportingTriggers::EVEQU, out_of_events, UsageReportTrigger::EVEQU);
        when(ReportingTriggers::START, !self.flowing && self.first > 0, UsageReportTrigger::START);
        let idle = urr.inactivity_detection_time.map(|t| t.0);
        when(ReportingTriggers::STOPT, self.flowing && passed(idle_from, idle), UsageReportTrigger::STOPT);
        due
    }

    /// When to look again, if the clock can make the rule report.
    pub fn next_look(&self, urr: &CreateUrr) -> Option<u64> {
        let asked = urr.reporting_triggers;
        let at = |trigger: ReportingTriggers, from: u64, seconds: Option<u32>| {
            let seconds = seconds.filter(|_| asked.contains(trigger));
            seconds.map(|s| from.saturating_add(u64::from(s.max(1)) * SECOND))
        };
        let less = |seconds: u32, more: u64| u64::from(seconds).saturating_sub(more) as u32; // less than a u32
        let before = self.aside.as_ref().map_or(0, |aside| aside.seconds);
        // Time is metered from the first packet on; before one was seen, a whole bound can not have passed.
        let time_from = match self.first {
            0 if !starts_at_once(urr) => self.looked,
            0 => self.begun,
            first => first,
        };
        let idle_from = self.last.max(self.begun);
        let idle = urr.inactivity_detection_time.map(|t| t.0);
        let holding = urr.quota_holding_time.filter(|_| !self.is_exhausted()).map(|t| t.0);
        [
            at(ReportingTriggers::PERIO, self.period_from, urr.measurement_period.map(|p| p.0)),
            at(ReportingTriggers::TIMTH, time_from, urr.time_threshold.map(|t| less(t.0, before))),
            at(
                ReportingTriggers::TIMQU,
                time_from,
                urr.time_quota.filter(|_| !self.is_exhausted()).map(|t| less(t.0, self.used)),
            ),
            at(ReportingTriggers::QUHTI, idle_from, holding),
            at(ReportingTriggers::QUVTI, self.granted_at, urr.quota_validity_time.map(|t| t.0)),
            at(ReportingTriggers::STOPT, idle_from, idle.filter(|_| self.flowing)),
            idle.filter(|s| *s > 0 && self.is_running()).map(|s| idle_from.saturating_add(u64::from(s) * SECOND)),
        ]
        .into_iter()
        .flatten()
        // Never sooner than a second after the last look: a bound that time alone does not fulfil is not spun on.
        .map(|due| due.max(self.looked + SECOND))
        .min()
    }

    /// Seconds metered since the last report: from the first packet (or at once, ISTM), to now, or to the last packet
    /// when the subscriber has been inactive since.
    fn metered(&self, urr: &CreateUrr, now: u64) -> u64 {
        let from = match self.first {
            0 if starts_at_once(urr) => self.begun,
            0 => return 0,
            first => first,
        };
        let inactive = urr.inactivity_detection_time.map(|t| u64::from(t.0) * SECOND);
        let idle = now.saturating_sub(self.last.max(from));
        let to = if inactive.is_some_and(|after| after > 0 && idle >= after) { self.last.max(from) } else { now };
        to.saturating_sub(from) / SECOND
    }

    /// The report of what was counted since the last one, behind those of what was counted before monitoring times.
    pub fn report(
        &mut self,
        urr: &CreateUrr,
        usage: &Usage,
        trigger: UsageReportTrigger,
        clock: &WallClock,
        reports: &mut Vec<UsageReport>,
    ) {
        self.count_events(urr, clock.now);
        let mut last = self.close(urr, usage, trigger, clock);
        if let Some(aside) = &mut self.aside {
            if !aside.before.is_empty() {
                last.usage_information = Some(UsageInformation::AFT);
                reports.append(&mut aside.before);
            }
            let stamps = std::mem::take(&mut aside.began).into_iter();
            last.event_time_stamps = stamps.map(|ns| EventTimeStamp::from_unix(clock.unix(ns))).collect();
            aside.used_events += std::mem::take(&mut aside.events);
            (aside.bytes, aside.seconds) = ([0; 2], 0);
        }
        reports.push(last);
    }

    /// The monitoring time has come: what was counted until now is a report of its own, which goes with the next. What is
    /// given for the time after it counts from now, the rest goes on (5.2.2.3.1).
    pub fn split(&mut self, urr: &mut CreateUrr, usage: &Usage, clock: &WallClock) {
        let seconds = self.metered(urr, clock.now);
        let bytes = [usage.up_bytes.saturating_sub(self.bytes[0]), usage.down_bytes.saturating_sub(self.bytes[1])];
        let mut report = self.close(urr, usage, UsageReportTrigger::MONIT, clock);
        report.usage_information = Some(UsageInformation::BEF);
        let aside = self.aside.get_or_insert_default();
        // A control plane that never hears of any is of no use to it.
        if aside.before.len() < EVENTS {
            aside.before.push(report);
        }
        if urr.subsequent_volume_threshold.is_none() {
            (aside.bytes[0], aside.bytes[1]) = (aside.bytes[0] + bytes[0], aside.bytes[1] + bytes[1]);
        } else {
            aside.bytes = [0; 2];
        }
        aside.seconds = if urr.subsequent_time_threshold.is_none() { aside.seconds + seconds } else { 0 };
        if urr.subsequent_event_threshold.is_some() {
            aside.used_events += std::mem::take(&mut aside.events);
        }
        let given = Given {
            volume: urr.subsequent_volume_quota.is_some(),
            time: urr.subsequent_time_quota.is_some(),
            events: urr.subsequent_event_quota.is_some(),
        };
        self.grant(given, clock.now);
        pass_monitoring_time(urr);
    }

    /// Closes the account and begins it anew.
    fn close(&mut self, urr: &CreateUrr, usage: &Usage, trigger: UsageReportTrigger, clock: &WallClock) -> UsageReport {
        let now = clock.now;
        let [up, down] = [usage.up_bytes.saturating_sub(self.bytes[0]), usage.down_bytes.saturating_sub(self.bytes[1])];
        let [up_packets, down_packets] =
            [usage.up_packets.saturating_sub(self.packets[0]), usage.down_packets.saturating_sub(self.packets[1])];
        let information = urr.measurement_information.unwrap_or_default();
        let with_packets = information.contains(MeasurementInformation::MNOP);
        let volume = VolumeMeasurement {
            total: Some(up + down),
            uplink: Some(up),
            downlink: Some(down),
            total_packets: with_packets.then_some(up_packets + down_packets),
            uplink_packets: with_packets.then_some(up_packets),
            downlink_packets: with_packets.then_some(down_packets),
        };
        let method = urr.measurement_method;
        let seconds = self.metered(urr, now);
        self.used += seconds;
        let duration = DurationMeasurement(seconds.min(u32::MAX.into()) as u32);
        let report = UsageReport {
            urr_id: UrrId(self.urr),
            ur_seqn: UrSeqn(self.sequence),
            usage_report_trigger: trigger,
            start_time: Some(StartTime::from_unix(clock.unix(self.begun))),
            end_time: Some(EndTime::from_unix(clock.unix(now))),
            volume_measurement: method.contains(MeasurementMethod::VOLUM).then_some(volume),
            duration_measurement: method.contains(MeasurementMethod::DURAT).then_some(duration),
            time_of_first_packet: (self.first > 0).then(|| TimeOfFirstPacket::from_unix(clock.unix(self.first))),
            time_of_last_packet: (self.first > 0).then(|| TimeOfLastPacket::from_unix(clock.unix(self.last))),
            ..UsageReport::default()
        };
        self.sequence = self.sequence.wrapping_add(1);
        self.bytes = [usage.up_bytes, usage.down_bytes];
        self.packets = [usage.up_packets, usage.down_packets];
        self.begun = now;
        self.looked = now;
        if trigger.intersects(UsageReportTrigger::PERIO) {
            self.begin_period(now);
        }
        if trigger.intersects(UsageReportTrigger::START) {
            self.flowing = true;
        }
        if trigger.intersects(UsageReportTrigger::STOPT) {
            self.flowing = false;
        }
        self.spent.volume |= trigger.intersects(UsageReportTrigger::VOLQU);
        self.spent.time |= trigger.intersects(UsageReportTrigger::TIMQU);
        self.spent.events |= trigger.intersects(UsageReportTrigger::EVEQU);
        self.spent.held |= trigger.intersects(UsageReportTrigger::QUHTI);
        if trigger.intersects(UsageReportTrigger::QUVTI) {
            self.granted_at = now;
        }
        (self.first, self.last) = (0, 0);
        report
    }

    /// Whether something was counted that has not been reported.
    pub fn has_news(&self, usage: &Usage) -> bool {
        self.packets_since(usage) > 0
    }
}

/// Whether a rule counts events (8.2.40).
fn counts_events(urr: &CreateUrr) -> bool {
    urr.measurement_method.contains(MeasurementMethod::EVENT)
}

/// What is given for the time after the monitoring time takes the place of what was given before; the next monitoring
/// time, if there is one, that of the one that has come (5.2.2.2.1).
fn pass_monitoring_time(urr: &mut CreateUrr) {
    if let Some(new) = urr.subsequent_volume_threshold.take() {
        let SubsequentVolumeThreshold { total, uplink, downlink } = new;
        urr.volume_threshold = Some(VolumeThreshold { total, uplink, downlink });
    }
    if let Some(new) = urr.subsequent_volume_quota.take() {
        let SubsequentVolumeQuota { total, uplink, downlink } = new;
        urr.volume_quota = Some(VolumeQuota { total, uplink, downlink });
    }
    urr.time_threshold = urr.subsequent_time_threshold.take().map(|t| TimeThreshold(t.0)).or(urr.time_threshold);
    urr.time_quota = urr.subsequent_time_quota.take().map(|t| TimeQuota(t.0)).or(urr.time_quota);
    urr.event_threshold = urr.subsequent_event_threshold.take().map(|e| EventThreshold(e.0)).or(urr.event_threshold);
    urr.event_quota = urr.subsequent_event_quota.take().map(|e| EventQuota(e.0)).or(urr.event_quota);
    urr.monitoring_time = None;
    let soonest = (0..urr.additional_monitoring_times.len())
        .min_by_key(|at| urr.additional_monitoring_times[*at].monitoring_time.unix());
    if let Some(at) = soonest {
        let next = urr.additional_monitoring_times.remove(at);
        urr.monitoring_time = Some(next.monitoring_time);
        urr.subsequent_volume_threshold = next.subsequent_volume_threshold;
        urr.subsequent_time_threshold = next.subsequent_time_threshold;
        urr.subsequent_volume_quota = next.subsequent_volume_quota;
        urr.subsequent_time_quota = next.subsequent_time_quota;
        urr.subsequent_event_threshold = next.subsequent_event_threshold;
        urr.subsequent_event_quota = next.subsequent_event_quota;
    }
}

/// Whether time is metered from the rule's beginning rather than from its first packet (ISTM).
fn starts_at_once(urr: &CreateUrr) -> bool {
    urr.measurement_information.is_some_and(|info| info.contains(MeasurementInformation::ISTM))
}

/// The workers' time beside the calendar's.
#[derive(Clone, Copy, Debug, Default)]
pub struct WallClock {
    /// The workers' time, in nanoseconds.
    pub now: u64,
    /// Nanoseconds from 1970 to the workers' time 0.
    pub epoch_ns: u64,
}

impl WallClock {
    /// Seconds since 1970 of a time of the workers'.
    pub fn unix(&self, ns: u64) -> u64 {
        (self.epoch_ns + ns) / SECOND
    }
}

#[cfg(test)]
#[path = "metering_tests.rs"]
mod tests;
