//! Searches over trials: the rate a device forwards without loss or with at most some loss, how latency and loss depend on
//! the rate, and how equal trials spread. Pure: a search sees a device only through [`Trial`], time only through what
//! trials took, and ends at its [`Limits`].
//!
//! | file | content |
//! |---|---|
//! | `runner` | one trial after the other: limits, repetition of disturbed trials, progress with time left |
//! | `goal` | search goals of RFC 9971 (MLRsearch), and what measured trials say of a load |
//! | `likely` | the rate by all trials together |
//! | `bounds` | trials by load, and the relevant bounds in them |
//! | `mlr` | MLRsearch: several goals from the same trials; RFC 2544 throughput is one of its goals |
//! | `rfc2544` | latency at parts of a rate, frame-loss curve, back-to-back bursts |
//! | `spread` | equal trials: determinism, and soak |
//! | `simulated` | devices with a known rate: cliff, slope, noise |

pub mod bounds;
pub mod goal;
pub mod likely;
pub mod mlr;
pub mod rfc2544;
pub mod runner;
pub mod simulated;
pub mod spread;

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use traffic::LatencySummary;

pub use goal::Goal;
pub use runner::{Limits, Progress, Runner, SearchError};

/// A device with a generator: can be loaded at a rate for a time.
pub trait Trial {
    /// Why a trial cannot be made.
    type Error;

    /// Offers `load` packets a second, all directions together, for `duration`, and reports what became of them.
    ///
    /// # Errors
    /// The trial could not be made, or was interrupted.
    fn measure(&mut self, load: f64, duration: Duration) -> Result<Outcome, Self::Error>;
}

/// What became of the packets of a trial.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// Packets that the trial was to send: load times duration.
    pub intended_packets: u64,
    /// Packets that left the generator.
    pub sent_packets: u64,
    /// Packets that were forwarded.
    pub forwarded_packets: u64,
    /// Packets that were not. Packets that the generator did not send count as lost, as in MLRsearch: a rate that was
    /// not offered is not shown to be forwarded.
    pub lost_packets: u64,
    /// Seconds in which packets were counted; 0: those that were intended.
    pub counted_seconds: f64,
    /// What the trial took, with all that goes with it, in seconds.
    pub elapsed_seconds: f64,
    /// Of the packets that arrived, where it is measured.
    pub latency_us: Option<LatencySummary>,
    /// Why the trial says nothing of the device; empty: it does.
    pub disturbed: Vec<Disturbance>,
}

/// A generator that sends less than this part of what it should is the limit itself; closer its rate is not kept.
const PRECISION: f64 = 0.97;

impl Outcome {
    /// Of so many packets sent and forwarded in a time, at a load in packets a second. Latency, disturbances and what the
    /// trial took are left to the caller.
    pub fn of(load: f64, seconds: f64, (sent, forwarded): (u64, u64)) -> Self {
        let intended = (load * seconds) as u64;
        let unsent = if (sent as f64) < intended as f64 * PRECISION { intended.saturating_sub(sent) } else { 0 };
        Self {
            intended_packets: sent + unsent,
            sent_packets: sent,
            forwarded_packets: forwarded,
            lost_packets: sent.saturating_sub(forwarded) + unsent,
            counted_seconds: seconds,
            ..Self::default()
        }
    }

    /// Lost by intended packets.
    pub fn loss_ratio(&self) -> f64 {
        if self.intended_packets == 0 { 0.0 } else { self.lost_packets as f64 / self.intended_packets as f64 }
    }

    /// At least half of what is lost was never sent, and more than a packet of a thousand.
    pub fn is_generator_limited(&self) -> bool {
        let unsent = self.intended_packets.saturating_sub(self.sent_packets);
        unsent * 1000 > self.intended_packets && unsent * 2 >= self.lost_packets
    }
}

impl Outcome {
    /// Two parts of one trial. Latencies are the slower part's.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            intended_packets: self.intended_packets + other.intended_packets,
            sent_packets: self.sent_packets + other.sent_packets,
            forwarded_packets: self.forwarded_packets + other.forwarded_packets,
            lost_packets: self.lost_packets + other.lost_packets,
            counted_seconds: self.counted_seconds + other.counted_seconds,
            elapsed_seconds: self.elapsed_seconds + other.elapsed_seconds,
            latency_us: slower(self.latency_us.into_iter().chain(other.latency_us)),
            disturbed: [self.disturbed, other.disturbed].concat(),
        }
    }
}

/// The largest of each quantile; none: nothing was measured.
pub fn slower(latencies: impl IntoIterator<Item = LatencySummary>) -> Option<LatencySummary> {
    let largest = |a: LatencySummary, b: LatencySummary| LatencySummary {
        p50: a.p50.max(b.p50),
        p99: a.p99.max(b.p99),
        p999: a.p999.max(b.p999),
        max: a.max.max(b.max),
    };
    latencies.into_iter().reduce(largest).filter(|latency| latency.max > 0.0)
}

/// What makes a trial invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Disturbance {
    /// The hypervisor gave the processor to others.
    Steal,
    /// Counters were read late, so the rate is not that of the trial.
    LateCounters,
    /// Workers could have run and had no CPU.
    Preempted,
    /// Workers waited for pages from a disk.
    Faults,
}

impl Disturbance {
    /// As results name it.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Steal => "steal",
            Self::LateCounters => "late_counters",
            Self::Preempted => "preempted",
            Self::Faults => "faults",
        }
    }
}

/// A trial that was made, as results have it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Record {
    /// What it was made for.
    pub phase: String,
    /// Packets a second that were intended, millions.
    pub offered_mpps: f64,
    /// Seconds that were intended.
    pub seconds: f64,
    /// Forwarded, millions of packets a second of the time in which they were counted.
    pub forwarded_mpps: f64,
    /// Packets that left the generator.
    pub sent_packets: u64,
    /// Packets that were forwarded.
    pub forwarded_packets: u64,
    /// Packets that were not, with those not sent.
    pub lost_packets: u64,
    /// Lost by intended packets.
    pub loss_ratio: f64,
    /// At least half of what is lost was never sent: the limit is the generator's.
    pub generator_limited: bool,
    /// Latency, where it is measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency_us: Option<LatencySummary>,
    /// Disturbed trials that this one repeats.
    pub repeats: u32,
    /// Why it is disturbed itself, after all repetitions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub disturbed: Vec<Disturbance>,
}

impl Record {
    /// Packets a second that were intended.
    pub fn load(&self) -> f64 {
        self.offered_mpps * 1e6
    }

    /// Packets forwarded a second.
    pub fn forwarding_rate(&self) -> f64 {
        self.forwarded_mpps * 1e6
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_generator_left_out_is_lost_beyond_its_precision() {
        let near = Outcome::of(1000.0, 1.0, (980, 979));
        assert_eq!((near.intended_packets, near.lost_packets), (980, 1));
        let short = Outcome::of(1000.0, 1.0, (900, 900));
        assert_eq!((short.intended_packets, short.lost_packets), (1000, 100));
        assert!(short.is_generator_limited() && !near.is_generator_limited());
    }
}
