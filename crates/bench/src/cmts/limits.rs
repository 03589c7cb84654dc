//! What service flows may carry: rates, peak rates, priorities and active queue management, and the modems that are
//! offered more than that, so that queues stand.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use traffic::cable::{Excess, FILTER_GROUPS};

use super::settings::CableSettings;
use crate::error::BenchError;

/// The maximum sustained rate that a flow has at least, in bit/s, where nobody offers it more.
const TIER: u64 = 1_000_000_000;
/// Peak rate, by the maximum sustained rate.
const PEAK: f64 = 1.25;
/// Maximum traffic burst: the bytes of so much time at the maximum sustained rate, in seconds; and the least.
const BURST_SECONDS: f64 = 0.025;
const LEAST_BURST: u64 = 3044;
/// Bytes that all queues of overloaded flows may hold together: about half of the packets that may wait, of their mean
/// size.
const STANDING: u64 = 6_000 * 998;
/// Packets of a modem that go to its primary service flow, as published.
const PRIMARY: f64 = 0.9;

/// What is on, and how it is set.
#[derive(Clone, Debug, PartialEq)]
pub struct Limits {
    /// Service flows have a maximum sustained rate.
    pub rates: bool,
    /// Its value in bit/s for all service flows; none: 1 Gbit/s, or more where modems are few.
    pub rate: Option<u64>,
    /// They have a peak rate besides.
    pub peak_rates: bool,
    /// Traffic priorities 0 to 3; off: all the same.
    pub priorities: bool,
    /// Active queue management (DOCSIS-PIE, CM-SP-MULPI annex M).
    pub aqm: bool,
    /// Part of the modems whose primary service flow is offered more than its rate.
    pub overload: f64,
    /// The rate of those service flows, in bit/s.
    pub overload_rate: u64,
    /// What they are offered, by their rate.
    pub overload_factor: f64,
    /// Bytes a service flow's queue holds.
    pub buffer: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            rates: true,
            rate: None,
            peak_rates: true,
            priorities: true,
            aqm: true,
            overload: 0.05,
            overload_rate: 20_000_000,
            overload_factor: 1.5,
            buffer: 256 * 1024,
        }
    }
}

/// A service flow's rates: maximum sustained rate and peak rate in bit/s, maximum traffic burst in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FlowRates {
    /// Maximum sustained rate in bit/s (TLV 25.8); none: unlimited.
    #[serde(rename = "sustained_bits_per_second")]
    pub sustained: Option<u64>,
    /// Peak traffic rate in bit/s (TLV 25.27); none: unlimited.
    #[serde(rename = "peak_bits_per_second")]
    pub peak: Option<u64>,
    /// Maximum traffic burst in bytes (TLV 25.9).
    #[serde(rename = "burst_bytes")]
    pub burst: u64,
}

/// Reads `on` and `off`.
fn switch(key: &str, value: &str) -> Result<bool, BenchError> {
    match value {
        "on" | "true" => Ok(true),
        "off" | "false" => Ok(false),
        _ => Err(BenchError::Asked(format!("--set {key}={value} is invalid; allowed: on or off"))),
    }
}

impl Limits {
    /// Names that [`Limits::set`] knows.
    pub const KEYS: &'static str = "rate, peak_rate, priorities, aqm, overload, overload_rate, overload_factor, buffer";

    /// Without anything on: packets wait for channels only.
    pub fn off() -> Self {
        let this = Self { rates: false, peak_rates: false, priorities: false, ..Self::default() };
        Self { aqm: false, overload: 0.0, ..this }
    }

    /// Changes one by its name; says whether there is one of that name.
    ///
    /// # Errors
    /// When it cannot be that.
    pub fn set(&mut self, key: &str, value: &str) -> Result<bool, BenchError> {
        let invalid = |allowed: &str| BenchError::Asked(format!("--set {key}={value} is invalid; allowed: {allowed}"));
        let rate = || quantity::bit_rate(value).filter(|rate| *rate >= 100_000);
        match key {
            "rate" if matches!(value, "on" | "off" | "true" | "false") => {
                (self.rates, self.rate) = (switch(key, value)?, None);
            }
            "rate" => {
                let rate =
                    rate().ok_or_else(|| invalid("on, off or a rate such as 100 Mbit/s, at least 100 kbit/s"))?;
                (self.rates, self.rate) = (true, Some(rate));
            }
            "peak_rate" => self.peak_rates = switch(key, value)?,
            "priorities" => self.priorities = switch(key, value)?,
            "aqm" => self.aqm = switch(key, value)?,
            "overload" => {
                let share = quantity::share(value).filter(|share| *share <= 0.5);
                self.overload =
                    share.ok_or_else(|| invalid("0, or a share of the modems such as 0.05 or 5%, up to 0.5"))?;
            }
            "overload_rate" => {
                self.overload_rate = rate().ok_or_else(|| invalid("a rate such as 20 Mbit/s, at least 100 kbit/s"))?;
            }
            "overload_factor" => {
                let factor = value.parse::<f64>().ok().filter(|factor| (1.0..=10.0).contains(factor));
                self.overload_factor = factor.ok_or_else(|| invalid("a number from 1 to 10 such as 1.5"))?;
            }
            "buffer" => {
                let bytes = quantity::Unit::Bytes.parse(value).ok().filter(|bytes| (2048..=1 << 24).contains(bytes));
                self.buffer = bytes.ok_or_else(|| invalid("2 KiB to 16 MiB"))? as u32; // at most 2^24
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// The rates of a service flow with that maximum sustained rate.
    fn of(&self, rate: u64) -> FlowRates {
        if !self.rates {
            return FlowRates::default();
        }
        let peak = self.peak_rates.then_some((rate as f64 * PEAK) as u64);
        let burst = ((rate as f64 / 8.0 * BURST_SECONDS) as u64).max(LEAST_BURST);
        FlowRates { sustained: Some(rate), peak, burst }
    }
}

impl CableSettings {
    /// Modems of a sixth of a service group that are overloaded: the first of the sixth.
    pub(super) fn overloaded_of(&self, sixth: u16) -> u16 {
        let here = self.sixth(sixth).len() as f64;
        if !self.limits.rates || self.limits.overload <= 0.0 || !self.downstream {
            return 0;
        }
        let wanted = (here * self.limits.overload).round() as u16; // at most half of them
        // One in a service group at least, and never all of a sixth.
        wanted.max(u16::from(sixth == 0)).min((here as u16).saturating_sub(1))
    }

    /// Whether any modem is.
    pub(crate) fn is_overloaded(&self) -> bool {
        !self.overloaded().is_empty()
    }

    /// Numbers of the overloaded modems within a service group.
    pub(super) fn overloaded(&self) -> Vec<u16> {
        (0..FILTER_GROUPS).flat_map(|sixth| self.sixth(sixth).take(self.overloaded_of(sixth).into())).collect()
    }

    /// What `groups` service groups' overloaded modems are sent: none, if there are none.
    pub(crate) fn excess(&self, groups: u16) -> Excess {
        let of = |group: u16| {
            self.overloaded().into_iter().map(move |n| u32::from(group) * u32::from(self.modems) + u32::from(n))
        };
        let rate = self.limits.overload_rate as f64 * self.limits.overload_factor / PRIMARY;
        Excess { modems: (0..groups).flat_map(of).collect(), rate }
    }

    /// The rates of ordinary modems' service flows: more than any of them is offered.
    pub(super) fn tier(&self) -> FlowRates {
        let share = self.channels.capacity() / f64::from(self.modems.max(1));
        self.limits.of(self.limits.rate.unwrap_or(TIER.max((2.0 * share) as u64)))
    }

    /// The rates of an overloaded modem's primary service flow.
    pub(super) fn overloaded_rates(&self) -> FlowRates {
        self.limits.of(self.limits.overload_rate)
    }

    /// Bytes of an overloaded service flow's queue: all of them together must leave room for what the others wait.
    pub(super) fn overloaded_buffer(&self) -> u32 {
        let all = self.overloaded().len() as u64 * u64::from(self.groups);
        let each = STANDING / all.max(1);
        self.limits.buffer.min(each.max(4096) as u32) // at most all of them
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_modems_of_each_service_group_are_overloaded() {
        let mut settings = CableSettings::default();
        assert_eq!(settings.overloaded().len(), 18, "six times three of fifty");
        assert_eq!(settings.excess(2).modems.len(), 36);
        settings.modems = 8;
        assert_eq!(settings.overloaded(), [0]);
        for (key, value) in [("overload", "0"), ("rate", "off")] {
            let mut settings = CableSettings::default();
            settings.set(key, value).expect("a key");
            assert!(settings.overloaded().is_empty(), "{key}={value}");
        }
    }

    #[test]
    fn values_that_cannot_be_are_refused() {
        for (key, value, allowed) in [
            ("aqm", "maybe", "on or off"),
            ("overload", "60%", "up to 0.5"),
            ("overload_factor", "0.5", "from 1 to 10"),
            ("rate", "fast", "such as 100 Mbit/s"),
            ("buffer", "12", "2 KiB to 16 MiB"),
        ] {
            let error = CableSettings::default().set(key, value).unwrap_err().to_string();
            assert!(error.contains(allowed) && error.contains(value), "{error}");
        }
    }

    #[test]
    fn peak_rates_are_above_sustained_rates() {
        let settings = CableSettings::default();
        let FlowRates { sustained, peak, burst } = settings.overloaded_rates();
        assert_eq!((sustained, peak, burst), (Some(20_000_000), Some(25_000_000), 62_500));
        assert_eq!(settings.tier().sustained, Some(TIER));
        let few = CableSettings { modems: 6, ..settings };
        assert_eq!(few.tier().sustained, Some(3_780_000_000), "more than their share of the channels");
    }
}
