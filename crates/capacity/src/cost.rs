//! What a packet costs a core, and how often a second it can pay.
//!
//! `Tp = Trx + Tc + Ttx + other`; a core that runs packets to completion carries `1/Tp` of them. The publications'
//! "1/(Tn + Tc)" with `Tn = Trx + Ttx` leaves the rest out and promises more than the core delivers.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::known::Known;
use crate::quantity::{FrameSize, PacketRate, Time};
use crate::scaling::solve;

/// What one packet costs one core.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Cost {
    /// Receiving it.
    pub trx: Known<Time>,
    /// Processing it.
    pub tc: Known<Time>,
    /// Sending it.
    pub ttx: Known<Time>,
    /// Everything else: memory, timers, statistics.
    pub other: Known<Time>,
}

impl Cost {
    /// `Tn = Trx + Ttx`: what the network costs.
    pub fn tn(&self) -> Time {
        self.trx.value + self.ttx.value
    }

    /// `Tp`: all of it.
    pub fn tp(&self) -> Known<Time> {
        let parts = [&self.trx, &self.tc, &self.ttx, &self.other];
        let from = parts.iter().map(|part| part.from).max().unwrap_or_default();
        let sum = |of: &dyn Fn(&Known<Time>) -> Time| parts.iter().map(|part| of(part)).sum();
        Known {
            low: sum(&|p| p.low),
            value: sum(&|p| p.value),
            high: sum(&|p| p.high),
            from,
            source: self.tc.source.clone(),
        }
    }

    /// `1/Tp`: what a core carries that does nothing else.
    pub fn rate(&self) -> Known<PacketRate> {
        let tp = self.tp();
        Known { low: tp.high.rate(), value: tp.value.rate(), high: tp.low.rate(), from: tp.from, source: tp.source }
    }

    /// `1/(Tn + Tc)`: the bound the publications use, which leaves "other" out.
    pub fn rate_without_other(&self) -> PacketRate {
        (self.tn() + self.tc.value).rate()
    }
}

/// One observation of a packet's cost under some load.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Observation {
    /// The mean frame.
    pub frame: FrameSize,
    /// Users whose packets came.
    pub users: f64,
    /// What a packet cost.
    pub tp: Time,
}

/// How a packet's cost depends on its size (bytes are copied) and on the number of users (their records fall out of one
/// cache after the other): `Tp = a + b·bytes + c·log₂(users)`, `b, c ≥ 0`. Terms that the observations do not vary in
/// are not fitted and said to be unknown.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct CostModel {
    /// Of every packet, nanoseconds.
    pub fixed_ns: f64,
    /// Of every byte; unknown when all observations have one size.
    pub per_byte_ns: Option<f64>,
    /// Of every doubling of users; unknown when all observations have as many.
    pub per_doubling_ns: Option<f64>,
    /// The largest relative distance of an observation.
    pub error: f64,
}

impl CostModel {
    /// Fits observations by least squares of relative distances; none of no observations.
    pub fn fit(observations: &[Observation]) -> Option<Self> {
        let first = observations.first()?;
        let sizes_vary = observations.iter().any(|o| (o.frame / first.frame - 1.0).abs() > 0.01);
        let users_vary = observations.iter().any(|o| (o.users / first.users - 1.0).abs() > 0.01);
        let sets = [(sizes_vary, users_vary), (sizes_vary, false), (false, users_vary), (false, false)];
        let fits = sets.into_iter().filter_map(|(by_size, by_users)| Self::with(observations, by_size, by_users));
        let best = fits.min_by(|a, b| a.1.total_cmp(&b.1))?.0;
        // A term that varied and came out as nothing is known to be nothing.
        Some(Self {
            per_byte_ns: sizes_vary.then_some(best.per_byte_ns.unwrap_or(0.0)),
            per_doubling_ns: users_vary.then_some(best.per_doubling_ns.unwrap_or(0.0)),
            ..best
        })
    }

    fn with(observations: &[Observation], by_size: bool, by_users: bool) -> Option<(Self, f64)> {
        let terms = |o: &Observation| -> Vec<f64> {
            let all = [(true, 1.0), (by_size, o.frame.0), (by_users, o.users.max(1.0).log2())];
            all.into_iter().filter(|(used, _)| *used).map(|(_, term)| term).collect()
        };
        let size = 1 + usize::from(by_size) + usize::from(by_users);
        let mut m = vec![vec![0.0; size + 1]; size];
        for o in observations {
            let f: Vec<f64> = terms(o).iter().map(|term| term / o.tp.ns()).collect();
            for row in 0..size {
                for column in 0..size {
                    m[row][column] += f[row] * f[column];
                }
                m[row][size] += f[row];
            }
        }
        let c = solve(m)?;
        if c.iter().skip(1).any(|c| *c < 0.0) {
            return None;
        }
        let model = Self {
            fixed_ns: c[0],
            per_byte_ns: by_size.then(|| c[1]),
            per_doubling_ns: by_users.then(|| c[size - 1]),
            error: 0.0,
        };
        let off = observations.iter().map(|o| (model.tp(o.frame, o.users) / o.tp - 1.0).abs());
        let squares = off.clone().map(|off| off * off).sum();
        Some((Self { error: off.fold(0.0, f64::max), ..model }, squares))
    }

    /// What a packet of that size costs with so many users; terms that are not known count as nothing.
    pub fn tp(&self, frame: FrameSize, users: f64) -> Time {
        let by_size = self.per_byte_ns.unwrap_or(0.0) * frame.0;
        let by_users = self.per_doubling_ns.unwrap_or(0.0) * users.max(1.0).log2();
        Time::from_ns(self.fixed_ns + by_size + by_users)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The published decomposition: 128 B, `recvfrom` and `sendto`.
    fn published() -> Cost {
        let ns = |ns: f64| Known::assumed(Time::from_ns(ns));
        Cost { trx: ns(1554.0), tc: ns(259.0), ttx: ns(1594.0), other: ns(288.0) }
    }

    #[test]
    fn all_parts_count() {
        let cost = published();
        assert!((cost.tn().ns() - 3148.0).abs() < 1e-6 && (cost.tp().value.ns() - 3695.0).abs() < 1e-6);
        assert!((cost.rate().value.0 / 270.6e3 - 1.0).abs() < 1e-3);
        assert!(cost.rate_without_other() > cost.rate().value);
    }

    #[test]
    fn a_dearer_packet_comes_less_often() {
        let mut cost = published();
        cost.tc = Known::parse("200..400 ns").unwrap();
        let rate = cost.rate();
        assert!(rate.low < rate.value && rate.value < rate.high);
    }

    #[test]
    fn what_did_not_vary_is_not_known() {
        let one = Observation { frame: FrameSize(128.0), users: 1000.0, tp: Time::from_ns(180.0) };
        let model = CostModel::fit(&[one]).unwrap();
        assert_eq!((model.per_byte_ns, model.per_doubling_ns), (None, None));
        assert!((model.tp(FrameSize(1500.0), 1e6).ns() - 180.0).abs() < 1e-9);
        assert_eq!(CostModel::fit(&[]), None);
    }

    proptest! {
        #[test]
        fn the_fit_recovers_its_parameters(fixed in 50.0f64..2000.0, byte in 0.0f64..0.5, doubling in 0.0f64..20.0) {
            let tp = |frame: f64, users: f64| {
                let tp = Time::from_ns(fixed + byte * frame + doubling * users.log2());
                Observation { frame: FrameSize(frame), users, tp }
            };
            let seen = [tp(128.0, 1e3), tp(512.0, 1e3), tp(128.0, 1e5), tp(1400.0, 1e6)];
            let model = CostModel::fit(&seen).unwrap();
            prop_assert!((model.tp(FrameSize(512.0), 250e3) / tp(512.0, 250e3).tp - 1.0).abs() < 1e-6, "{:?}", model);
        }
    }
}
