//! What a report says of rates, queues and rules: what was on, and what came of it.

use std::collections::BTreeMap;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use traffic::cable::Decided;

use super::ends::{Overload, Totals};
use super::limits::FlowRates;
use super::rig::CableRig;
use super::settings::CableSettings;
use crate::options::PortKind;
use crate::window::{Window, median};

/// Time of a window before it is measured, in which packets are sent, too: [`crate::window::How::most`].
const WARM: Duration = Duration::from_millis(30);

/// What was on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ServiceFlows {
    /// Rates of an ordinary modem's service flows, each.
    pub ordinary: FlowRates,
    /// Rates of an overloaded modem's primary service flow.
    pub overloaded: FlowRates,
    /// Whether service flows have traffic priorities, 0 to 3; else all have 0.
    pub priorities: bool,
    /// Whether active queue management (DOCSIS-PIE) is on.
    pub aqm: bool,
    /// Overloaded modems, all service groups together.
    pub overloaded_modems: u32,
    /// What their primary service flow is to be offered, by its maximum sustained rate.
    pub overload_factor: f64,
}

/// What came of the queues.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Queues {
    /// Packets that waited in queues, all service flows together: the mean over the gateway's turns.
    pub waiting_packets: f64,
    /// What overloaded service flows were offered, by their maximum sustained rate. Below 1 the ports were the limit,
    /// and no queue stands.
    pub offered_ratio: f64,
    /// What they got of their maximum sustained rate, on average; on links 0: not measured there.
    pub carried_ratio: f64,
    /// The one furthest from it: the difference from 1.
    #[serde(rename = "carried_worst_ratio")]
    pub carried_worst: f64,
    /// Milliseconds that packets of overloaded service flows were on their way, on average.
    pub overloaded_delay_ms: f64,
    /// The same of all other service flows.
    pub other_delay_ms: f64,
    /// Packets that active queue management dropped. Expected: more is offered than may be sent.
    pub aqm_drops: u64,
    /// Packets that found their service flow's queue full. Expected likewise, of overloaded service flows.
    pub full_drops: u64,
}

/// Rules that packets matched: what they were made for, and what the gateway counted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Matches {
    /// `mixed` or `ports`.
    pub rules: String,
    /// Packets that were made to match a filter rule: downstream, upstream.
    pub filter_made: [u64; 2],
    /// Packets that the gateway's filter rules permitted.
    pub filter_permitted: [u64; 2],
    /// Packets that they denied; none is made to match such a rule.
    pub filter_denied: [u64; 2],
    /// Packets that no filter rule matched.
    pub filter_unmatched: [u64; 2],
    /// Packets downstream that were made to match a classifier.
    pub classifier_made: u64,
    /// Packets that the gateway's classifiers matched.
    pub classifier_matched: u64,
    /// Packets that none matched.
    pub classifier_unmatched: u64,
    /// Whether the gateway counted what was made, of all that arrived at it.
    #[serde(rename = "is_right")]
    pub right: bool,
}

impl ServiceFlows {
    /// As the workload sets them.
    pub(super) fn of(settings: &CableSettings) -> Self {
        let modems = settings.overloaded().len() as u32 * u32::from(settings.groups);
        let (limits, has_any) = (&settings.limits, modems > 0);
        Self {
            ordinary: settings.tier(),
            overloaded: if has_any { settings.overloaded_rates() } else { FlowRates::default() },
            priorities: limits.priorities,
            aqm: limits.aqm,
            overloaded_modems: modems,
            overload_factor: if has_any { limits.overload_factor } else { 0.0 },
        }
    }

    /// What is on, in words.
    pub(super) fn words(&self) -> String {
        let mbit = |rate: Option<u64>| rate.map_or("off".to_owned(), |rate| format!("{} Mbit/s", rate as f64 / 1e6));
        let switch = |on: bool| if on { "on" } else { "off" };
        let FlowRates { sustained, peak, burst } = self.ordinary;
        let burst = if sustained.is_some() { format!(" after {} kB", burst / 1000) } else { String::new() };
        format!(
            "every service flow: maximum sustained rate {}{burst}, peak rate {}, priorities {}, AQM {}",
            mbit(sustained),
            mbit(peak),
            switch(self.priorities),
            if self.aqm { "on (DOCSIS-PIE, 10 ms)" } else { "off" }
        )
    }
}

impl Queues {
    /// From windows of the gateway, and from what its far ends found over all of them.
    pub(super) fn of(
        settings: &CableSettings,
        port: PortKind,
        rig: &CableRig<'_>,
        windows: &[Window],
        found: &Overload,
    ) -> Self {
        let waiting = |window: &Window| window.workers.iter().map(|slice| slice.waiting).sum::<f64>();
        let [aqm_drops, full_drops] = rig.queue_drops();
        let delay = |(ns, packets): (u64, u64)| ns as f64 / packets.max(1) as f64 / 1e6;
        let mut this = Self {
            waiting_packets: median(windows.iter().map(waiting)),
            aqm_drops,
            full_drops,
            overloaded_delay_ms: delay(found.delays[0]),
            other_delay_ms: delay(found.delays[1]),
            ..Self::default()
        };
        let (allowed, modems) = (settings.limits.overload_rate as f64 / 8.0, found.carried.len() as f64);
        let in_memory = port == PortKind::Memory;
        // On links the clock goes on between windows, when nothing is sent.
        let sending = |window: &Window| window.traffic.seconds + WARM.as_secs_f64();
        let all = || modems * windows.iter().map(sending).sum::<f64>();
        let modem_seconds = if in_memory { found.modem_seconds } else { all() };
        if modem_seconds > 0.0 {
            // Nine of ten bytes to a modem are for its primary service flow.
            this.offered_ratio = found.sent_bytes as f64 * 0.9 / (allowed * modem_seconds);
        }
        if modems > 0.0 && in_memory {
            this.carried_ratio = found.carried.iter().sum::<f64>() / (modems * allowed);
            let off = |carried: &f64| carried / allowed - 1.0;
            let further = |worst: f64, by: f64| if by.abs() > worst.abs() { by } else { worst };
            this.carried_worst = found.carried.iter().map(off).fold(0.0, further);
        }
        this
    }
}

impl Matches {
    /// What packets were made for, and what the gateway counted, both since it began. On links packets may be lost
    /// before.
    pub(super) fn of(settings: &CableSettings, counters: &BTreeMap<&'static str, u64>, totals: &Totals) -> Self {
        let counted = |name: &str| counters.get(name).copied().unwrap_or(0);
        let both = |down: &str, up: &str| [counted(down), counted(up)];
        let [down, up] = totals.decided;
        let mut this = Self {
            rules: settings.rules.name().to_owned(),
            filter_made: [down.filtered, up.filtered],
            filter_permitted: both("filter_permit_down", "filter_permit_up"),
            filter_denied: both("filter_deny_down", "filter_deny_up"),
            filter_unmatched: both("filter_unmatched_down", "filter_unmatched_up"),
            classifier_made: down.classified,
            classifier_matched: counted("classified"),
            classifier_unmatched: counted("unclassified"),
            right: false,
        };
        this.right = this.is_right([down, up]);
        this
    }

    /// Whether the gateway's counts are those of the packets that were made; of packets lost before, both lack.
    fn is_right(&self, made: [Decided; 2]) -> bool {
        let arrived =
            [0, 1].map(|n: usize| self.filter_permitted[n] + self.filter_unmatched[n] + self.filter_denied[n]);
        let lost: u64 = [0, 1].map(|n: usize| made[n].packets.saturating_sub(arrived[n])).iter().sum();
        let near = |made: u64, counted: u64| counted <= made && made - counted <= lost;
        self.filter_denied == [0, 0]
            && near(self.filter_made[0], self.filter_permitted[0])
            && near(self.filter_made[1], self.filter_permitted[1])
            && near(self.classifier_made, self.classifier_matched)
    }
}
