//! Devices with a token bucket in virtual time, for tests of [`super::burst`].

use std::convert::Infallible;

use super::burst::{Device, Slice};

/// A token bucket behind a line.
#[derive(Clone, Debug, PartialEq)]
pub struct Bucket {
    /// The line's rate, units a second.
    pub peak: f64,
    /// Tokens a second.
    pub baseline: f64,
    /// Tokens that there can be.
    pub depth: f64,
    /// Units that wait at most; 0: what has no token is dropped (a policer).
    pub queue: f64,
    /// What arrives is off by up to so much in each slice, in millionths.
    pub noise_ppm: u32,
    /// Of the noise.
    pub seed: u64,
    /// Seconds after which the baseline is half of what it was.
    pub halved_after: Option<f64>,
    pub(super) tokens: f64,
    pub(super) waiting: f64,
    pub(super) now: f64,
    pub(super) slices: u64,
}

/// Seconds of a step.
const STEP: f64 = 0.05;
/// Latency without waiting.
const EMPTY_US: f64 = 50.0;

impl Bucket {
    /// A full bucket.
    pub fn new(peak: f64, baseline: f64, depth: f64) -> Self {
        Self {
            peak,
            baseline,
            depth,
            queue: 0.0,
            noise_ppm: 0,
            seed: 1,
            halved_after: None,
            tokens: depth,
            waiting: 0.0,
            now: 0.0,
            slices: 0,
        }
    }

    /// A line without a bucket.
    pub fn unlimited(peak: f64) -> Self {
        Self::new(peak, f64::MAX / 1e10, 0.0)
    }

    /// Units that pass in a step, of so many that come.
    fn step(&mut self, come: f64, seconds: f64) -> f64 {
        self.now += seconds;
        let halved = self.halved_after.is_some_and(|after| self.now > after);
        let rate = if halved { self.baseline / 2.0 } else { self.baseline };
        let tokens = self.tokens + rate * seconds;
        let all = self.waiting + come;
        let passed = all.min(tokens).min(self.peak * seconds);
        self.tokens = (tokens - passed).min(self.depth);
        self.waiting = (all - passed).min(self.queue);
        passed
    }

    /// From -1 to 1 (SplitMix64).
    fn random(&mut self) -> f64 {
        self.slices += 1;
        let mut z =
            self.seed.wrapping_mul(0x2545_f491_4f6c_dd1d).wrapping_add(self.slices.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        2.0 * ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64 - 1.0
    }
}

impl Device for Bucket {
    type Error = Infallible;

    fn load(&mut self, per_second: f64, seconds: f64) -> Result<Slice, Infallible> {
        let factor = 1.0 + self.random() * f64::from(self.noise_ppm) / 1e6;
        let steps = (seconds / STEP).round().max(1.0) as u32;
        let (step, rate) = (seconds / f64::from(steps), per_second.min(self.peak));
        let delivered: f64 = (0..steps).map(|_| self.step(rate * step, step)).sum();
        let latency = EMPTY_US + self.waiting / self.baseline * 1e6;
        // Noise is of the counting: other tenants, late counters.
        Ok(Slice {
            seconds,
            offered: rate * seconds * factor,
            delivered: delivered * factor,
            latency_us: Some(latency),
        })
    }

    fn idle(&mut self, seconds: f64) -> Result<(), Infallible> {
        let steps = (seconds / STEP).ceil().max(1.0) as u32;
        (0..steps).for_each(|_| {
            self.step(0.0, seconds / f64::from(steps));
        });
        Ok(())
    }
}
