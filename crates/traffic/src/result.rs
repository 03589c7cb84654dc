//! What a trial found, in the keys of benchmark results.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use table::histogram::Histogram;

use crate::checker::Seen;
use crate::direction::Direction;
use crate::latency::LatencySummary;
use crate::profile::Profile;

/// What became of one direction's packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct DirectionResult {
    /// Mean length of what was sent, as N6-side Ethernet frames without FCS and VLAN tag.
    pub frame_bytes_mean: f64,
    /// Packets that should have been sent.
    pub offered_packets: u64,
    /// Packets that left the generator.
    pub sent_packets: u64,
    /// Offered and not sent: the generator or its port could not keep up.
    pub unsent_packets: u64,
    /// Packets received, each once.
    pub forwarded_packets: u64,
    /// Sent and not received. Right once everything on its way has come: after draining.
    pub lost_packets: u64,
    /// Of the lost, those that reached the port where they are checked and found its ring or memory full: the load's
    /// own loss, not the gateway's.
    pub missed_packets: u64,
    /// Packets received more than once, counting the repetitions.
    pub duplicated_packets: u64,
    /// Packets received after a later one of their flow.
    pub reordered_packets: u64,
    /// Packets 32 or more behind the latest of their flow; counted as lost.
    pub stale_packets: u64,
    /// Packets received damaged; counted as lost.
    pub corrupt_packets: u64,
    /// Packets received in the wrong tunnel, QoS flow or place; counted as lost.
    pub misdelivered_packets: u64,
    /// Packets received that are not of the trial.
    pub foreign_packets: u64,
    /// Millions of packets forwarded a second.
    pub mpps: f64,
    /// Gigabits forwarded a second: Ethernet frames without preamble, gap and FCS, with the access side's larger
    /// encapsulation.
    pub gbps_l2: f64,
    /// From making a packet to checking it.
    pub latency_us: LatencySummary,
}

/// What one sender and one checker know of a direction.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Account {
    pub offered: u64,
    pub sent: u64,
    pub sent_ip_bytes: u64,
    /// Arrived at a port that could not take them.
    pub missed: u64,
    pub seen: Seen,
}

impl Account {
    /// Both together.
    pub fn plus(self, other: &Self) -> Self {
        Self {
            offered: self.offered + other.offered,
            sent: self.sent + other.sent,
            sent_ip_bytes: self.sent_ip_bytes + other.sent_ip_bytes,
            missed: self.missed + other.missed,
            seen: self.seen.plus(&other.seen),
        }
    }
}

impl DirectionResult {
    pub(crate) fn of(profile: &Profile, account: Account, latencies: &Histogram, seconds: f64) -> Self {
        let Account { offered, sent, sent_ip_bytes, missed, seen } = account;
        let access = profile.tunnel_bytes() + 14 + profile.access.vlan.map_or(0, |_| 4);
        let mean = |bytes: u64, packets: u64| if packets > 0 { bytes as f64 / packets as f64 } else { 0.0 };
        let per_second = |n: f64| if seconds > 0.0 { n / seconds } else { 0.0 };
        let forwarded = seen.received();
        let bits = 8.0 * (seen.ip_bytes as f64 + (forwarded * access as u64) as f64);
        Self {
            frame_bytes_mean: if sent > 0 { mean(sent_ip_bytes, sent) + 14.0 } else { 0.0 },
            offered_packets: offered,
            sent_packets: sent,
            unsent_packets: offered.saturating_sub(sent),
            forwarded_packets: forwarded,
            lost_packets: sent.saturating_sub(forwarded),
            missed_packets: missed.min(sent.saturating_sub(forwarded)),
            duplicated_packets: seen.duplicated,
            reordered_packets: seen.reordered,
            stale_packets: seen.stale,
            corrupt_packets: seen.corrupt,
            misdelivered_packets: seen.misdelivered,
            foreign_packets: seen.foreign,
            mpps: per_second(forwarded as f64) / 1e6,
            gbps_l2: per_second(bits) / 1e9,
            latency_us: LatencySummary::from(latencies),
        }
    }
}

/// What a trial found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct TrialResult {
    /// How long was sent and counted.
    pub seconds: f64,
    pub directions: Directions,
    /// Millions of packets forwarded a second, both directions together.
    pub mpps: f64,
    /// Gigabits forwarded a second, both directions together; see [`DirectionResult::gbps_l2`].
    pub gbps_l2: f64,
    /// Lost packets by sent packets, both directions together.
    pub loss_ratio: f64,
}

/// One of each direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Directions {
    /// N3 to N6.
    pub uplink: DirectionResult,
    /// N6 to N3.
    pub downlink: DirectionResult,
}

impl TrialResult {
    pub(crate) fn of(profile: &Profile, seconds: f64, accounts: [(Account, &Histogram); 2]) -> Self {
        let [uplink, downlink] =
            accounts.map(|(account, latencies)| DirectionResult::of(profile, account, latencies, seconds));
        Self::both(seconds, uplink, downlink)
    }

    /// Both directions together; `seconds` is how long was sent and counted.
    pub fn both(seconds: f64, uplink: DirectionResult, downlink: DirectionResult) -> Self {
        let sent = uplink.sent_packets + downlink.sent_packets;
        let lost = uplink.lost_packets + downlink.lost_packets;
        Self {
            seconds,
            directions: Directions { uplink, downlink },
            mpps: uplink.mpps + downlink.mpps,
            gbps_l2: uplink.gbps_l2 + downlink.gbps_l2,
            loss_ratio: if sent > 0 { lost as f64 / sent as f64 } else { 0.0 },
        }
    }

    pub fn direction(&self, direction: Direction) -> &DirectionResult {
        match direction {
            Direction::Uplink => &self.directions.uplink,
            Direction::Downlink => &self.directions.downlink,
        }
    }

    /// Puts together what a sending half (`self`) and a receiving half found.
    #[must_use]
    pub fn with_received(mut self, received: &Self) -> Self {
        let scale = if self.seconds > 0.0 { received.seconds / self.seconds } else { 0.0 };
        let pairs = [
            (&mut self.directions.uplink, &received.directions.uplink),
            (&mut self.directions.downlink, &received.directions.downlink),
        ];
        for (sent, got) in pairs {
            *sent = DirectionResult {
                frame_bytes_mean: sent.frame_bytes_mean,
                offered_packets: sent.offered_packets,
                sent_packets: sent.sent_packets,
                unsent_packets: sent.unsent_packets,
                lost_packets: sent.sent_packets.saturating_sub(got.forwarded_packets),
                // Rates are by the time sent, however long the other half listened.
                mpps: got.mpps * scale,
                gbps_l2: got.gbps_l2 * scale,
                ..*got
            };
        }
        Self::both(self.seconds, self.directions.uplink, self.directions.downlink)
    }
}
