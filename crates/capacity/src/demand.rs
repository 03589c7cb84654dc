//! What is to be carried: from subscribers to packets and bits a second at the peak.
//!
//! | from | how |
//! |---|---|
//! | subscribers `N` and packets of each `p` | `PPS = N·p`, with `p` stated for both directions together or for each |
//! | markets `p₁…pₜ` and densities `k₁…kᵣ` | `N = Σ k·A`, `PPS = Σₜ Σᵣ shareₜ·pₜ·kᵣ·Aᵣ` (upf-public-cloud, section VII) |
//! | subscribers and bits of each | `bits = N·rate` |
//! | groups that cannot be divided | `bits = groups·each` |
//!
//! Then, each step shown: subscribers active at once (Erlang-B, where a blocking probability is asked for), mean → busy
//! hour → peak, growth over years, headroom for bursts.

mod check;
mod peak;
#[cfg(test)]
mod tests;

use schemars::JsonSchema;
use serde::Serialize;

use crate::known::{End, Provenance};
use crate::quantity::{BitRate, Count, FrameSize, PacketRate};
use crate::question::DemandInput;
use crate::wrong::Wrong;
pub(crate) use check::above_zero;
use check::check;
use peak::{peak, provenance, range};

/// One direction's traffic. What frame sizes would tell and nobody gave is `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Flow {
    /// Bits a second.
    pub bits: Option<BitRate>,
    /// Packets a second.
    pub packets: Option<PacketRate>,
}

impl Flow {
    fn scaled(self, by: f64) -> Self {
        Self { bits: self.bits.map(|bits| bits * by), packets: self.packets.map(|packets| packets * by) }
    }

    /// The mean frame.
    pub fn frame(self) -> Option<FrameSize> {
        let (bits, packets) = (self.bits?, self.packets?);
        (packets.0 > 0.0).then(|| bits / packets)
    }
}

/// What the network must carry at the time planned for.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Demand {
    /// Towards the network.
    pub up: Flow,
    /// Towards subscribers.
    pub down: Flow,
    /// Groups that cannot be divided.
    pub groups: Option<u32>,
    /// Subscribers, all of them.
    pub subscribers: Option<Count>,
    /// The most that are active at once, where a blocking probability was asked for.
    pub active: Option<Count>,
    /// P10 by the value: each input's range is P10 to P90, and inputs vary independently.
    pub low: f64,
    /// P90 by the value.
    pub high: f64,
    /// What it rests on.
    pub from: Provenance,
    /// How it came about.
    pub steps: Vec<Step>,
}

/// A line of the calculation.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Step {
    /// What was done.
    pub what: String,
    /// What it came to.
    pub result: String,
}

impl Demand {
    /// Both directions.
    pub fn bits(&self) -> Option<BitRate> {
        Some(self.up.bits? + self.down.bits?)
    }

    /// Both directions.
    pub fn packets(&self) -> Option<PacketRate> {
        Some(self.up.packets? + self.down.packets?)
    }

    /// The fuller direction's.
    pub fn bits_of_one(&self) -> Option<BitRate> {
        let (up, down) = (self.up.bits?, self.down.bits?);
        Some(if up > down { up } else { down })
    }

    /// The fuller direction's.
    pub fn packets_of_one(&self) -> Option<PacketRate> {
        let (up, down) = (self.up.packets?, self.down.packets?);
        Some(if up > down { up } else { down })
    }

    /// The mean frame of both directions.
    pub fn frame(&self) -> Option<FrameSize> {
        Flow { bits: self.bits(), packets: self.packets() }.frame()
    }

    /// The same network with a share of the traffic.
    #[must_use]
    pub fn scaled(&self, by: f64) -> Self {
        Self { up: self.up.scaled(by), down: self.down.scaled(by), ..self.clone() }
    }

    /// The demand a plan states.
    ///
    /// # Errors
    /// Missing, contradictory or impossible: which key, why.
    pub fn of(input: &DemandInput) -> Result<Self, Wrong> {
        check(input)?;
        let (value, steps) = peak(input, End::Value)?;
        peak(input, End::High)?.0.is_of_this_world(input)?;
        let (low, high) = range(input, &value)?;
        let (up, down) = value.directions(input);
        let from = provenance(input);
        let subscribers = value.subscribers.map(Count);
        let mut demand = Self {
            up,
            down,
            groups: input.groups,
            subscribers,
            active: value.active.map(Count),
            low,
            high,
            from,
            steps,
        };
        demand.steps.push(Step { what: "to carry, both directions".to_owned(), result: demand.told() });
        Ok(demand)
    }

    fn told(&self) -> String {
        let direction = |name: &str, flow: Flow| {
            let parts = [flow.bits.map(|b| b.to_string()), flow.packets.map(|p| p.to_string())];
            format!("{name} {}", parts.into_iter().flatten().collect::<Vec<_>>().join(", "))
        };
        let both = [self.bits().map(|b| b.to_string()), self.packets().map(|p| p.to_string())];
        let both = both.into_iter().flatten().collect::<Vec<_>>().join(", ");
        let frame = self.frame().map_or(String::new(), |frame| format!("; mean frame {frame}"));
        format!("{both} ({}; {}{frame})", direction("up", self.up), direction("down", self.down))
    }
}
