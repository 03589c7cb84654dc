//! The latency figures that results show.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use table::histogram::Histogram;

/// Quantiles in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LatencySummary {
    /// Half of the packets were not slower.
    pub p50: f64,
    /// 99 % were not slower.
    pub p99: f64,
    /// 99.9 % were not slower.
    pub p999: f64,
    /// The slowest.
    pub max: f64,
}

impl From<&Histogram> for LatencySummary {
    /// From nanoseconds; zeroes when there is nothing.
    fn from(ns: &Histogram) -> Self {
        let us = |ns: u64| ns as f64 / 1000.0;
        Self { p50: us(ns.p50()), p99: us(ns.p99()), p999: us(ns.p999()), max: us(ns.max()) }
    }
}
